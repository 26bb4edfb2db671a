//! fio iolog, version 3 (fio 3.31 and later): `timestamp file action [offset length]`.
//!
//! Time stamps are microseconds since the start (the documentation omits the unit; the source uses
//! `utime_since_now`). `wait` is no longer allowed.

use super::field::{Blanks, Malformed, Parsed, nanoseconds};
use super::{Example, Head, Parser, TextParser, TraceFormat, Volumes, fio2};

const HEADER: &[u8] = b"fio version 3 iolog";

pub(super) const FORMAT: TraceFormat = TraceFormat {
    name: "fio3",
    summary: "fio iolog version 3",
    units: "times in us, offsets and sizes in bytes; sync and datasync are flushes",
    reference: "fio documentation, Trace file format v3; iolog.c, write_iolog_put",
    example: Example::Text(
        "fio version 3 iolog\n0 /dev/sdb add\n0 /dev/sdb open\n0 /dev/sdb write 0 4096\n35 /dev/sdb trim 4096 4096\n",
    ),
    detect: |head: &Head<'_>| head.starts_with_line(HEADER),
    parser: |_| Parser::Text(Box::new(Fio3)),
    encode: Some(|| Box::new(super::encode::Fio3::default())),
};

struct Fio3;

impl TextParser for Fio3 {
    fn line(&mut self, line: &[u8], volumes: &mut Volumes) -> Result<Parsed, Malformed> {
        if line.trim_ascii() == HEADER {
            return Ok(Parsed::Ignored);
        }
        let mut fields = Blanks::new(line);
        let time_ns = nanoseconds(fields.whole("time stamp")?, 1_000)?;
        let file = fields.text();
        match fio2::action(fields)? {
            None => Ok(Parsed::Ignored),
            Some(extent) => Ok(extent.at(time_ns, volumes.text(file, str::to_owned)?)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{only_error, requests};
    use crate::workload::Operation;

    #[test]
    fn microseconds_trims_and_flushes() {
        let text = "fio version 3 iolog\r\n0 /dev/x add\r\n0 /dev/x open\r\n10 /dev/x write 4194304 131072\r\n\
                    45 /dev/x trim 0 512\r\n46 /dev/x sync\r\n46 /dev/x datasync 0 4096\r\n50 /dev/x close";
        let (got, intake) = requests(text, "fio3");
        assert_eq!(got[0], (0, 4_194_304, 131_072, 0, Operation::Write));
        assert_eq!(got[1], (35_000, 0, 512, 0, Operation::Trim));
        assert_eq!(got[2], (36_000, 0, 0, 0, Operation::Flush));
        assert_eq!(got.len(), 4);
        assert_eq!(intake.ignored, 4);
    }

    #[test]
    fn malformed() {
        for line in ["1 f wait 10", "f write 0 512", "1 f write 0 0", "1 f write 0 512 9", "1 f"] {
            only_error(line, "fio3");
        }
    }
}

//! fio iolog, version 2: `file action offset length`, times by `wait`.
//!
//! `add`, `open` and `close` carry no request. `wait` adds microseconds to the clock; fio discards waits below 100 µs,
//! and so does this reader. fio's documentation gives `wait` one number, fio's parser asks for two, as after every
//! other action, and ignores the second; both are read. `sync` and `datasync` become flushes; they may carry an offset
//! and a length.

use super::field::{Blanks, Extent, Malformed, Parsed, nanoseconds};
use super::{Example, Head, Parser, TextParser, TraceFormat, Volumes};
use crate::workload::Operation;

const HEADER: &[u8] = b"fio version 2 iolog";

pub(super) const FORMAT: TraceFormat = TraceFormat {
    name: "fio2",
    summary: "fio iolog version 2",
    units: "times by wait in us (waits below 100 us discarded, as fio does), offsets and sizes in bytes",
    reference: "fio documentation, Trace file format v2",
    example: Example::Text(
        "fio version 2 iolog\n/dev/sdb add\n/dev/sdb open\n/dev/sdb write 0 4096\n/dev/sdb wait 150 0\n\
         /dev/sdb sync 0 0\n",
    ),
    detect: |head: &Head<'_>| head.starts_with_line(HEADER),
    parser: |head| Parser::Text(Box::new(Fio2 { clock_ns: 0, waits: head.any(|line| word(line, 1) == b"wait") })),
    encode: None,
};

fn word(line: &[u8], index: usize) -> &[u8] {
    Blanks::new(line).nth(index).unwrap_or_default()
}

struct Fio2 {
    clock_ns: u64,
    waits: bool,
}

impl TextParser for Fio2 {
    fn line(&mut self, line: &[u8], volumes: &mut Volumes) -> Result<Parsed, Malformed> {
        if line.trim_ascii() == HEADER {
            return Ok(Parsed::Ignored);
        }
        let mut fields = Blanks::new(line);
        let file = fields.text();
        if fields.rest().starts_with(b"wait") {
            fields.text();
            let wait_us = fields.whole("wait")?;
            if !fields.rest().is_empty() {
                fields.whole("length of a wait")?;
            }
            fields.end()?;
            if wait_us >= 100 {
                let clock_ns = self.clock_ns.checked_add(nanoseconds(wait_us, 1_000)?);
                self.clock_ns = clock_ns.ok_or_else(|| Malformed::new("the waits overflow 64 bits of nanoseconds"))?;
            }
            return Ok(Parsed::Ignored);
        }
        match action(fields)? {
            None => Ok(Parsed::Ignored),
            Some(extent) => Ok(extent.at(self.clock_ns, volumes.text(file, str::to_owned)?)),
        }
    }

    fn timed(&self) -> bool {
        self.waits
    }

    fn note(&self) -> Option<String> {
        (!self.waits).then(|| "no wait near the start, hence untimed".to_owned())
    }
}

/// What follows the file's name in both versions; `None` for `add`, `open` and `close`.
pub(super) fn action(mut fields: Blanks<'_>) -> Result<Option<Extent>, Malformed> {
    let operation = match fields.text() {
        b"write" => Operation::Write,
        b"read" => Operation::Read,
        b"trim" => Operation::Trim,
        b"sync" | b"datasync" => return Ok(Some(Extent::FLUSH)),
        b"add" | b"open" | b"close" => return fields.end().map(|()| None),
        other => {
            return Err(Malformed::field("action", "read, write, trim, sync, datasync, add, open or close", other));
        }
    };
    let offset = fields.whole("offset")?;
    let bytes = fields.whole("length")?;
    fields.end()?;
    Extent::new(operation, offset, bytes).map(Some)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{only_error, requests};
    use super::*;

    #[test]
    fn waits_syncs_and_file_actions() {
        let text = "fio version 2 iolog\nf add\nf open\nf write 0 4096\nf wait 99 0\nf read 4096 1\nf wait 100\n\
                    f wait 900 0\nf trim 0 8192\nf sync\ng datasync 0 0\nf close\n";
        let (got, intake) = requests(text, "fio2");
        assert_eq!(got[0], (0, 0, 4096, 0, Operation::Write));
        assert_eq!(got[1], (0, 4096, 1, 0, Operation::Read));
        assert_eq!(got[2], (1_000_000, 0, 8192, 0, Operation::Trim));
        assert_eq!(got[3], (1_000_000, 0, 0, 0, Operation::Flush));
        assert_eq!(got[4], (1_000_000, 0, 0, 1, Operation::Flush));
        assert_eq!(intake.ignored, 7);
    }

    #[test]
    fn malformed() {
        for line in
            ["f write 0 0", "f write 0", "f erase 0 512", "f wait", "f wait x", "f wait 100 x", "f wait 100 0 0", "f"]
        {
            only_error(line, "fio2");
        }
    }
}

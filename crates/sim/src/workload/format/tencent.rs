//! Tencent CBS traces of 2018: `Timestamp,Offset,Size,IOType,VolumeID`.
//!
//! Whole seconds: the records of one second keep their order and share the second as their arrival. Offsets and sizes
//! are sectors in the SNIA original read here (a copy in circulation has them in bytes). 0 is a read, 1 a write.

use super::field::{Commas, Extent, Malformed, Parsed, nanoseconds};
use super::{Example, Head, Parser, TextParser, TraceFormat, Volumes};
use crate::workload::Operation;

pub(super) const FORMAT: TraceFormat = TraceFormat {
    name: "tencent",
    summary: "Tencent CBS 2018",
    units: "times in whole seconds (the records of one second keep their order and share it), offsets and sizes in \
            sectors of 512 bytes, 0 = read, 1 = write",
    reference: "Zhang, Huang, Zhou, et al.: OSCA, USENIX ATC 2020; SNIA IOTTA 27917",
    example: Example::Text("1538323200,4096,128,0,12\n1538323200,8192,8,1,13\n"),
    detect: |head: &Head<'_>| head.mostly(|line| Tencent.line(line, &mut Volumes::default()).is_ok()),
    parser: |_| Parser::Text(Box::new(Tencent)),
    encode: None,
};

struct Tencent;

impl TextParser for Tencent {
    fn line(&mut self, line: &[u8], volumes: &mut Volumes) -> Result<Parsed, Malformed> {
        let mut fields = Commas::new(line);
        let time_ns = nanoseconds(fields.whole("time stamp")?, 1_000_000_000)?;
        let sector = fields.whole("offset")?;
        let count = fields.whole("size")?;
        let operation = match fields.text() {
            b"0" => Operation::Read,
            b"1" => Operation::Write,
            other => return Err(Malformed::field("IO type", "0 (read) or 1 (write)", other)),
        };
        let volume = fields.whole("volume")?;
        fields.end()?;
        let extent = Extent::sectors(operation, sector, count)?;
        Ok(extent.at(time_ns, volumes.number(volume, "volume")?))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{only_error, requests};
    use super::*;

    #[test]
    fn seconds_are_shared_in_order() {
        let (got, _) = requests("1538323200,2,8,1,9\n1538323200,1,8,0,9\n1538323201,0,8,0,3\n", "tencent");
        assert_eq!(got[0], (0, 1024, 4096, 0, Operation::Write));
        assert_eq!(got[1], (0, 512, 4096, 0, Operation::Read));
        assert_eq!(got[2], (1_000_000_000, 0, 4096, 1, Operation::Read));
    }

    #[test]
    fn malformed() {
        for line in ["1,2,8,2,9", "1,2,0,1,9", "1,2,8,1", "1.5,2,8,1,9", "1,2,8,R,9"] {
            only_error(line, "tencent");
        }
    }
}

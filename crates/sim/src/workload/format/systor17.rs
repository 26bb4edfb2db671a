//! Systor '17 VDI traces: a header, then `Timestamp,Response,IOType,LUN,Offset,Size`.
//!
//! Seconds with nine decimals, bytes. The type is blank where no response was seen; such a record tells not what was
//! asked and is ignored. So are the headers that stand inside concatenated files.

use super::field::{Commas, Extent, Malformed, Parsed, decimal};
use super::{Example, Head, Parser, TextParser, TraceFormat, Volumes};
use crate::workload::Operation;

pub(super) const FORMAT: TraceFormat = TraceFormat {
    name: "systor17",
    summary: "Systor '17 VDI",
    units: "times in seconds, offsets and sizes in bytes; records with a blank type are ignored",
    reference: "Lee, Kumano, Matsuki, Endo, Fukumoto, Sugawara: Understanding Storage Traffic Characteristics on \
                Enterprise Virtual Desktop Infrastructure, SYSTOR 2017",
    example: Example::Text(
        "Timestamp,Response,IOType,LUN,Offset,Size\n1455592799.500000000,0.000210000,R,3,1073741824,8192\n\
         1455592800.000002000,,,4,2147483648,8192\n",
    ),
    detect: |head: &Head<'_>| head.mostly(|line| Systor17.line(line, &mut Volumes::default()).is_ok()),
    parser: |_| Parser::Text(Box::new(Systor17)),
    encode: None,
};

struct Systor17;

impl TextParser for Systor17 {
    fn line(&mut self, line: &[u8], volumes: &mut Volumes) -> Result<Parsed, Malformed> {
        if line.starts_with(b"Timestamp,Response,IOType") {
            return Ok(Parsed::Ignored);
        }
        let mut fields = Commas::new(line);
        let time_ns = decimal(fields.text(), 9, "time stamp")?;
        let response = fields.text().trim_ascii();
        if !response.is_empty() {
            decimal(response, 9, "response time")?;
        }
        let operation = match fields.text().trim_ascii() {
            b"R" => Some(Operation::Read),
            b"W" => Some(Operation::Write),
            b"" => None,
            other => return Err(Malformed::field("IO type", "R, W or blank", other)),
        };
        let lun = fields.whole("LUN")?;
        let offset = fields.whole("offset")?;
        let bytes = fields.whole("size")?;
        fields.end()?;
        let Some(operation) = operation else {
            return Ok(Parsed::Ignored);
        };
        let extent = Extent::new(operation, offset, bytes)?;
        Ok(extent.at(time_ns, volumes.number(lun, "lun")?))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{only_error, requests};
    use super::*;

    #[test]
    fn header_blank_types_and_luns() {
        let text = "Timestamp,Response,IOType,LUN,Offset,Size\n1455592799.500000000,0.000210000,R,3,512,8192\n\
                    1455592800.000002000,,,4,0,8192\n1455592800.000004000,,W,0,0,1\n";
        let (got, intake) = requests(text, "systor17");
        assert_eq!(got[0], (0, 512, 8192, 0, Operation::Read));
        assert_eq!(got[1], (500_004_000, 0, 1, 1, Operation::Write));
        assert_eq!((got.len(), intake.ignored), (2, 2));
        assert_eq!(intake.volumes, ["lun 3", "lun 0"]);
    }

    #[test]
    fn malformed() {
        for line in ["1.0,0.1,X,0,0,512", "1.0,0.1,R,0,0,0", "1.0,x,R,0,0,512", "1.0,0.1,R,0,0", "x,0.1,R,0,0,512"] {
            only_error(line, "systor17");
        }
    }
}

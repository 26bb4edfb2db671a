//! Alibaba block traces of 2020: `device_id,opcode,offset,length,timestamp`, bytes and microseconds.

use super::field::{Commas, Extent, Malformed, Parsed, nanoseconds};
use super::{Example, Head, Parser, TextParser, TraceFormat, Volumes};
use crate::workload::Operation;

pub(super) const FORMAT: TraceFormat = TraceFormat {
    name: "alibaba",
    summary: "Alibaba block traces 2020",
    units: "times in us, offsets and sizes in bytes",
    reference: "Li, Wang, Lee, Shi: An In-Depth Analysis of Cloud Block Storage Workloads in Large-Scale Production, \
                IISWC 2020",
    example: Example::Text("12,W,4294967296,16384,1577808000000000\n13,R,8589934592,36864,1577808000000046\n"),
    detect: |head: &Head<'_>| head.mostly(|line| Alibaba.line(line, &mut Volumes::default()).is_ok()),
    parser: |_| Parser::Text(Box::new(Alibaba)),
    encode: None,
};

struct Alibaba;

impl TextParser for Alibaba {
    fn line(&mut self, line: &[u8], volumes: &mut Volumes) -> Result<Parsed, Malformed> {
        let mut fields = Commas::new(line);
        let device = fields.whole("device")?;
        let operation = match fields.text() {
            b"R" => Operation::Read,
            b"W" => Operation::Write,
            other => return Err(Malformed::field("opcode", "R or W", other)),
        };
        let offset = fields.whole("offset")?;
        let bytes = fields.whole("length")?;
        let time_ns = nanoseconds(fields.whole("time stamp")?, 1_000)?;
        fields.end()?;
        let extent = Extent::new(operation, offset, bytes)?;
        Ok(extent.at(time_ns, volumes.number(device, "device")?))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{only_error, requests};
    use super::*;

    #[test]
    fn bytes_and_microseconds() {
        let (got, intake) = requests("12,W,4294967296,16384,1577808000000000\n7,R,1,2,1577808000000003", "alibaba");
        assert_eq!(got[0], (0, 4_294_967_296, 16_384, 0, Operation::Write));
        assert_eq!(got[1], (3_000, 1, 2, 1, Operation::Read));
        assert_eq!(intake.volumes, ["device 12", "device 7"]);
    }

    #[test]
    fn malformed() {
        for line in ["1,w,0,512,1", "1,R,0,0,1", "1,R,0,512", "1,R,0,512,1,2", "1,R,0,512,99999999999999999999"] {
            only_error(line, "alibaba");
        }
    }
}

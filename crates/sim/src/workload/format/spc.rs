//! SPC: the text format of the Storage Performance Council, used by the UMass Financial and WebSearch traces.
//!
//! `ASU,LBA,Size,Opcode,Timestamp[,optional…]`. The block address counts blocks of 512 bytes within the ASU, each ASU
//! being an address space of its own; the size is in bytes and not always whole blocks, so it is rounded up. Opcodes
//! occur in both cases. White space inside fields is allowed since revision 1.0.1.

use super::field::{Commas, Extent, Malformed, Parsed, decimal};
use super::{Example, Head, Parser, TextParser, TraceFormat, Volumes};
use crate::workload::Operation;

pub(super) const FORMAT: TraceFormat = TraceFormat {
    name: "spc",
    summary: "SPC",
    units: "times in seconds, addresses in sectors of 512 bytes within each ASU, sizes in bytes (rounded up to \
            sectors)",
    reference: "Storage Performance Council, SPC Trace File Format Specification, revision 1.0.1",
    example: Example::Text("0,1234567,8192,W,0.250000\n1,2000,3072,r,0.300000,Alpha/NT\n"),
    detect: |head: &Head<'_>| head.mostly(|line| Spc.line(line, &mut Volumes::default()).is_ok()),
    parser: |_| Parser::Text(Box::new(Spc)),
    encode: Some(|| Box::new(super::encode::Spc::default())),
};

struct Spc;

impl TextParser for Spc {
    fn line(&mut self, line: &[u8], volumes: &mut Volumes) -> Result<Parsed, Malformed> {
        let mut fields = Commas::new(line);
        let asu = fields.padded_whole("ASU")?;
        let block = fields.padded_whole("block address")?;
        let bytes = fields.padded_whole("size")?;
        let operation = match fields.text().trim_ascii() {
            b"R" | b"r" => Operation::Read,
            b"W" | b"w" => Operation::Write,
            other => return Err(Malformed::field("opcode", "R or W", other)),
        };
        let time_ns = decimal(fields.text().trim_ascii(), 9, "time stamp")?;
        let extent = Extent::sectors(operation, block, bytes.div_ceil(512))?;
        Ok(extent.at(time_ns, volumes.number(asu, "asu")?))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{only_error, requests};
    use super::*;

    #[test]
    fn cases_spaces_options_and_odd_sizes() {
        let text = " 0 , 1234567,8192 ,w,0.250000\n3,10,3073,R, 1.250000 ,Alpha/NT,x\r\n0,1,512,W,2";
        let (got, intake) = requests(text, "spc");
        assert_eq!(got[0], (0, 1_234_567 * 512, 8192, 0, Operation::Write));
        assert_eq!(got[1], (1_000_000_000, 5120, 3584, 1, Operation::Read), "rounded up to sectors");
        assert_eq!(got[2].0, 1_750_000_000);
        assert_eq!(intake.volumes, ["asu 0", "asu 3"]);
    }

    #[test]
    fn malformed() {
        for line in ["0,1,0,R,0.1", "0,1,512,T,0.1", "0,1,512,R", "0,1,512,R,x", "-1,1,512,R,0", "0,,512,R,0"] {
            only_error(line, "spc");
        }
        let error = only_error("0,99999999999999999,512,R,0", "spc");
        assert!(error.what.contains("2^63"), "{error}");
    }
}

//! MQSim and SSDsim text: `time dev lba size type`, nanoseconds and sectors.
//!
//! The type is 1 for a read and 0 for a write, the opposite of fio's first version. MQSim reads addresses with
//! `strtoull` in base 0: `0x…` is hexadecimal there, and a leading zero makes the number octal while SSDsim takes it as
//! decimal; hexadecimal is accepted here, leading zeros are refused. Runs of blanks and blank lines, which silently end
//! the trace in MQSim, are read over.

use super::field::{Blanks, Extent, Malformed, Parsed, whole};
use super::{Example, Head, Parser, TextParser, TraceFormat, Volumes, disksim};
use crate::workload::Operation;

pub(super) const FORMAT: TraceFormat = TraceFormat {
    name: "mqsim",
    summary: "MQSim/SSDsim ASCII",
    units: "times in ns, addresses and sizes in sectors of 512 bytes, 1 = read, 0 = write",
    reference: "Tavakkol et al.: MQSim, FAST 2018, ASCII_Trace_Definition.h; Hu et al.: SSDsim, ICS 2011",
    example: Example::Text("1000000 0 4096 16 1\n1500000 1 81920 64 0\n"),
    detect: |head: &Head<'_>| {
        head.mostly(|line| Mqsim.line(line, &mut Volumes::default()).is_ok()) && !head.any(disksim::has_decimal_time)
    },
    parser: |_| Parser::Text(Box::new(Mqsim)),
    encode: Some(|| Box::new(super::encode::Mqsim::default())),
};

struct Mqsim;

impl TextParser for Mqsim {
    fn line(&mut self, line: &[u8], volumes: &mut Volumes) -> Result<Parsed, Malformed> {
        let mut fields = Blanks::new(line);
        let time_ns = fields.whole("time")?;
        let device = fields.whole("device")?;
        let sector = base0(fields.text(), "address")?;
        let count = base0(fields.text(), "size")?;
        let operation = match fields.text() {
            b"1" => Operation::Read,
            b"0" => Operation::Write,
            other => return Err(Malformed::field("type", "1 (read) or 0 (write)", other)),
        };
        fields.end()?;
        let extent = Extent::sectors(operation, sector, count)?;
        Ok(extent.at(time_ns, volumes.number(device, "device")?))
    }
}

fn base0(field: &[u8], name: &'static str) -> Result<u64, Malformed> {
    match field {
        [b'0', b'x' | b'X', digits @ ..] => std::str::from_utf8(digits)
            .ok()
            .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
            .and_then(|digits| u64::from_str_radix(digits, 16).ok())
            .ok_or_else(|| Malformed::field(name, "a hexadecimal number", field)),
        [b'0', _, ..] => {
            Err(Malformed::field(name, "without leading zeros (octal to MQSim, decimal to SSDsim)", field))
        }
        _ => whole(field, name),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{only_error, requests};
    use super::*;

    #[test]
    fn sectors_types_and_hexadecimal() {
        let (got, intake) = requests("100 0 4096 16 1\n150 4  0x10 8 0\n\n160 0 0 1 0", "mqsim");
        assert_eq!(got[0], (0, 4_096 * 512, 8192, 0, Operation::Read));
        assert_eq!(got[1], (50, 8192, 4096, 1, Operation::Write));
        assert_eq!(got[2], (60, 0, 512, 0, Operation::Write));
        assert_eq!((intake.ignored, &intake.volumes[1][..]), (1, "device 4"));
    }

    #[test]
    fn malformed() {
        for line in ["1 0 0 1 2", "1 0 010 1 1", "1.5 0 8 1 1", "1 0 8 1", "1 0 8 0 1", "1 0 8 1 1 1", "1 0 0x 1 1"] {
            only_error(line, "mqsim");
        }
    }
}

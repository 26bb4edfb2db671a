//! DiskSim ASCII: `time devno blkno bcount flags`, milliseconds as a decimal and sectors.
//!
//! The flags are hexadecimal; bit 0 says read, 0x80 synchronous, 0x100 asynchronous. What distinguishes the format from
//! MQSim's is the decimal point in the times, or flags beyond 0 and 1.

use super::field::{Blanks, Extent, Malformed, Parsed, decimal};
use super::{Example, Head, Parser, TextParser, TraceFormat, Volumes};
use crate::workload::Operation;

pub(super) const FORMAT: TraceFormat = TraceFormat {
    name: "disksim",
    summary: "DiskSim ASCII",
    units: "times in ms, addresses and sizes in sectors of 512 bytes, flags hexadecimal with bit 0 = read",
    reference: "Bucy, Schindler, Schlosser, Ganger: The DiskSim Simulation Environment 4.0, CMU-PDL-08-101",
    example: Example::Text("1000.250000 0 4096 8 0\n1000.500000 0 81920 64 1\n"),
    detect: |head: &Head<'_>| {
        head.mostly(|line| Disksim.line(line, &mut Volumes::default()).is_ok())
            && (head.any(has_decimal_time) || head.mostly(has_wide_flags))
    },
    parser: |_| Parser::Text(Box::new(Disksim)),
    encode: Some(|| Box::new(super::encode::Disksim::default())),
};

/// Five fields, the first with a decimal point: not MQSim.
pub(super) fn has_decimal_time(line: &[u8]) -> bool {
    let mut fields = Blanks::new(line);
    fields.next().is_some_and(|time| time.contains(&b'.')) && fields.count() == 4
}

fn has_wide_flags(line: &[u8]) -> bool {
    !matches!(Blanks::new(line).nth(4), None | Some(b"0" | b"1"))
}

struct Disksim;

impl TextParser for Disksim {
    fn line(&mut self, line: &[u8], volumes: &mut Volumes) -> Result<Parsed, Malformed> {
        let mut fields = Blanks::new(line);
        let time_ns = decimal(fields.text(), 6, "time")?;
        let device = fields.whole("device")?;
        let block = fields.whole("block address")?;
        let count = fields.whole("block count")?;
        let flags = fields.text();
        let digits = flags.strip_prefix(b"0x").unwrap_or(flags);
        let last = match digits.last() {
            Some(&last) if digits.len() <= 8 && digits.iter().all(u8::is_ascii_hexdigit) => last,
            _ => return Err(Malformed::field("flags", "a hexadecimal number", flags)),
        };
        fields.end()?;
        // Bit 0 of the number is bit 0 of its last digit; letters a, c, e have odd codes.
        let odd = if last.is_ascii_digit() { last & 1 == 1 } else { last & 1 == 0 };
        let operation = if odd { Operation::Read } else { Operation::Write };
        let extent = Extent::sectors(operation, block, count)?;
        Ok(extent.at(time_ns, volumes.number(device, "device")?))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{only_error, requests};
    use super::*;

    #[test]
    fn milliseconds_and_hexadecimal_flags() {
        let text = "1000.313 0 4096 8 0\n1000.3130019 1 8 1 81\n1001 0 8 1 b\n1001 0 8 1 1A\n1001 0 8 1 100";
        let (got, _) = requests(text, "disksim");
        assert_eq!(got[0], (0, 4_096 * 512, 4096, 0, Operation::Write));
        assert_eq!(got[1], (1, 4096, 512, 1, Operation::Read));
        assert_eq!((got[2].0, got[2].4), (687_000, Operation::Read));
        assert_eq!(got[3].4, Operation::Write);
        assert_eq!(got[4].4, Operation::Write);
    }

    #[test]
    fn malformed() {
        for line in ["1.0 0 8 1 g", "1.0 0 8 0 1", "1.0 0 8 1", "1.0 0 0x8 1 1", "1e3 0 8 1 1", "1.0 0 8 1 1 1"] {
            only_error(line, "disksim");
        }
    }
}

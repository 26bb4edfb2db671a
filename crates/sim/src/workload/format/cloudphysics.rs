//! CloudPhysics vscsi records: 32 bytes (version 1) or 40 bytes (version 2), little endian.
//!
//! Version 1: sn u32, length u32, scatter-gather elements u32, command u16, version u16, address u64, time u64.
//! Version 2: command u16, version u16, sn u32, length u32, elements u32, address u64, time u64, response time u64.
//! The version's high byte is 1 or 2, the command a SCSI operation code; the length is in **bytes**, whatever the
//! original README says. Commands other than reads, writes and cache flushes are ignored.

use super::field::{Extent, Malformed, Parsed, nanoseconds};
use super::{BinaryParser, Example, Head, Parser, TraceFormat, Volumes};
use crate::workload::Operation;

pub(super) const FORMAT: TraceFormat = TraceFormat {
    name: "cloudphysics",
    summary: "CloudPhysics vscsi",
    units: "times in us, addresses in sectors of 512 bytes, sizes in bytes",
    reference: "Waldspurger, Park, Garthwaite, Ahmad: SHARDS, FAST 2015; libCacheSim, vscsi.h",
    example: Example::Hex("01000000 00100000 01000000 2a00 0001 0008000000000000 40420f0000000000"),
    detect: |head: &Head<'_>| version(head).is_some(),
    parser: |head| Parser::Binary(Box::new(Vscsi { version: version(head).unwrap_or(Version::One) })),
    encode: None,
};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

impl Version {
    fn bytes(self) -> usize {
        match self {
            Self::One => 32,
            Self::Two => 40,
        }
    }

    fn command_at(self) -> usize {
        match self {
            Self::One => 12,
            Self::Two => 0,
        }
    }

    /// The command, if this record is of this version.
    fn command(self, record: &[u8]) -> Option<u8> {
        let number = match self {
            Self::One => 1,
            Self::Two => 2,
        };
        match record[self.command_at()..][..4] {
            [command, 0, _, version] if version == number => Some(command),
            _ => None,
        }
    }
}

/// The version most whole records of the head are of.
fn version(head: &Head<'_>) -> Option<Version> {
    [Version::One, Version::Two].into_iter().find(|version| {
        let records = head.bytes().chunks_exact(version.bytes());
        let count = records.len();
        2 * records.filter(|record| version.command(record).is_some()).count() > count
    })
}

struct Vscsi {
    version: Version,
}

impl BinaryParser for Vscsi {
    fn bytes(&self, _: &[u8]) -> usize {
        self.version.bytes()
    }

    fn record(&mut self, record: &[u8], volumes: &mut Volumes) -> Result<Parsed, Malformed> {
        let Some(command) = self.version.command(record) else {
            let at = self.version.command_at();
            return Err(Malformed::field("command and version", "those of the head", &record[at..at + 4]));
        };
        let operation = match command {
            0x08 | 0x28 | 0x88 | 0xa8 => Operation::Read,
            0x0a | 0x2a | 0x8a | 0xaa => Operation::Write,
            0x35 | 0x91 => Operation::Flush,
            _ => return Ok(Parsed::Ignored),
        };
        let number = |at: usize| u64::from_le_bytes(*record[at..].first_chunk().expect("a whole record"));
        let (length, address) = match self.version {
            Version::One => (number(4) as u32, 16),
            Version::Two => (number(8) as u32, 16),
        };
        let time_ns = nanoseconds(number(address + 8), 1_000)?;
        let extent = if operation == Operation::Flush {
            Extent::FLUSH
        } else {
            let offset = number(address).checked_mul(512);
            let offset = offset.ok_or_else(|| Malformed::new("the address is beyond 2^63 bytes"))?;
            Extent::new(operation, offset, length.into())?
        };
        Ok(extent.at(time_ns, volumes.number(0, "vscsi")?))
    }

    fn note(&self, _: bool) -> Option<String> {
        Some(format!("version {}", if self.version == Version::One { 1 } else { 2 }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{error_of, requests_of};
    use super::*;

    fn record(version: Version, command: u16, length: u32, address: u64, time_us: u64) -> Vec<u8> {
        let (sn, elements) = (7_u32.to_le_bytes(), 1_u32.to_le_bytes());
        let (command, length) = (command.to_le_bytes(), length.to_le_bytes());
        let (address, time) = (address.to_le_bytes(), time_us.to_le_bytes());
        match version {
            Version::One => [&sn[..], &length, &elements, &command, &[0, 1], &address, &time].concat(),
            Version::Two => {
                [&command[..], &[0, 2], &sn, &length, &elements, &address, &time, &9_u64.to_le_bytes()].concat()
            }
        }
    }

    #[test]
    fn both_versions() {
        for version in [Version::One, Version::Two] {
            let trace = [
                record(version, 0x2a, 512, 10, 100),
                record(version, 0x12, 0, 0, 100),
                record(version, 0x88, 4096, 8, 101),
                record(version, 0x35, 0, 0, 102),
            ];
            let (got, intake) = requests_of(&trace.concat(), None).unwrap();
            assert_eq!(got[0], (0, 5120, 512, 0, Operation::Write));
            assert_eq!(got[1], (1000, 4096, 4096, 0, Operation::Read));
            assert_eq!(got[2], (2000, 0, 0, 0, Operation::Flush));
            assert_eq!((got.len(), intake.ignored), (3, 1));
        }
    }

    #[test]
    fn damage() {
        let good = record(Version::One, 0x2a, 512, 10, 100);
        let error = error_of(&[&good[..], &good[..31]].concat(), None);
        assert_eq!((error.line, error.what.contains("cut short")), (2, true), "{error}");
        let empty = record(Version::One, 0x2a, 0, 10, 100);
        assert_eq!(error_of(&[good, empty].concat(), None).line, 2);
    }
}

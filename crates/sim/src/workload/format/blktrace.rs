//! Binary blktrace: `struct blk_io_trace`, 48 bytes and a payload, in the byte order its magic shows.
//!
//! One action is taken, as for its text: queued if the head of the trace has one, else issued, else completed.
//! Notifications reuse the numbers of the actions and are told apart by their category bit. blktrace writes a file per
//! CPU; each is in time order, their plain concatenation is not: pack them into one tar archive, whose files are merged
//! by time, or merge them with `blkparse -i dev -d merged`.

use super::field::{Extent, Malformed, Parsed, Record};
use super::{BinaryParser, Example, Head, Parser, TraceFormat, Volumes};
use crate::workload::Operation;

pub(super) const FORMAT: TraceFormat = TraceFormat {
    name: "blktrace",
    summary: "blktrace binary",
    units: "times in ns, addresses in sectors of 512 bytes, sizes in bytes",
    reference: "Linux, include/uapi/linux/blktrace_api.h",
    example: Example::Hex(
        "07746165 01000000 e803000000000000 0800000000000000 00100000 01001200 2a000000 10008000 00000000 0000 0000",
    ),
    detect: |head: &Head<'_>| head.bytes().first_chunk().is_some_and(|magic| order(*magic).is_some()),
    parser: |head| {
        let events = || Events { rest: head.bytes() };
        let action = [QUEUE, ISSUE, COMPLETE].into_iter().find(|&action| {
            events().any(|event| event.action() == Some(action) && matches!(event.extent(), Ok((_, Some(_)))))
        });
        Parser::Binary(Box::new(Blktrace { action: action.unwrap_or(QUEUE) }))
    },
    encode: None,
};

const RECORD_BYTES: usize = 48;
const VERSION: u8 = 7;

const QUEUE: u32 = 1;
const ISSUE: u32 = 7;
const COMPLETE: u32 = 8;

/// Category bits, in the upper half of the action.
const WRITE: u32 = 1 << 17;
const FLUSH: u32 = 1 << 18;
const PASSTHROUGH: u32 = 1 << 25;
const NOTIFY: u32 = 1 << 26;
const DISCARD: u32 = 1 << 29;

#[derive(Clone, Copy)]
enum Order {
    Little,
    Big,
}

fn order(magic: [u8; 4]) -> Option<Order> {
    match magic {
        [VERSION, b't', b'a', b'e'] => Some(Order::Little),
        [b'e', b'a', b't', VERSION] => Some(Order::Big),
        _ => None,
    }
}

struct Event {
    time_ns: u64,
    sector: u64,
    bytes: u32,
    code: u32,
    device: u32,
    payload_bytes: u16,
}

impl Event {
    fn parse(record: &[u8]) -> Option<Self> {
        let order = order(*record.first_chunk()?)?;
        let number = |at: usize, size: usize| {
            let mut value = [0; 8];
            value[..size].copy_from_slice(&record[at..at + size]);
            match order {
                Order::Little => u64::from_le_bytes(value),
                Order::Big => u64::from_be_bytes(value) >> (64 - 8 * size),
            }
        };
        (record.len() >= RECORD_BYTES).then(|| Self {
            time_ns: number(8, 8),
            sector: number(16, 8),
            bytes: number(24, 4) as u32,
            code: number(28, 4) as u32,
            device: number(36, 4) as u32,
            payload_bytes: number(46, 2) as u16,
        })
    }

    /// The action, unless this is a notification or a command that bypasses the volume.
    fn action(&self) -> Option<u32> {
        (self.code & (NOTIFY | PASSTHROUGH) == 0).then_some(self.code & 0xff)
    }

    /// Whether a flush comes first, and the extent, if any.
    fn extent(&self) -> Result<(bool, Option<Extent>), Malformed> {
        let flush = self.code & FLUSH != 0;
        if flush && self.bytes == 0 {
            return Ok((true, None));
        }
        let operation = match self.code {
            code if code & DISCARD != 0 => Operation::Trim,
            code if code & WRITE != 0 => Operation::Write,
            _ => Operation::Read,
        };
        let offset = self.sector.checked_mul(512).ok_or_else(|| Malformed::new("the sector is beyond 2^63 bytes"))?;
        Ok((flush, Some(Extent::new(operation, offset, self.bytes.into())?)))
    }
}

/// Bytes (which may be more than are there) and time of the record at the start of `bytes`, if it is one.
pub(super) fn measure(bytes: &[u8]) -> Option<(usize, u64)> {
    Event::parse(bytes).map(|event| (RECORD_BYTES + usize::from(event.payload_bytes), event.time_ns))
}

/// The whole records at the start of some bytes.
struct Events<'a> {
    rest: &'a [u8],
}

impl Iterator for Events<'_> {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        let event = Event::parse(self.rest)?;
        self.rest = self.rest.get(RECORD_BYTES + usize::from(event.payload_bytes)..)?;
        Some(event)
    }
}

struct Blktrace {
    action: u32,
}

impl BinaryParser for Blktrace {
    fn bytes(&self, window: &[u8]) -> usize {
        RECORD_BYTES + Event::parse(window).map_or(0, |event| event.payload_bytes.into())
    }

    fn record(&mut self, record: &[u8], volumes: &mut Volumes) -> Result<Parsed, Malformed> {
        let Some(event) = Event::parse(record) else {
            return Err(Malformed::field("magic", "that of blktrace version 7", &record[..4]));
        };
        if event.action() != Some(self.action) {
            return Ok(Parsed::Ignored);
        }
        let (flush, extent) = event.extent()?;
        let name = |_: &str| format!("{},{}", event.device >> 20, event.device & 0xf_ffff);
        let volume = volumes.text(&event.device.to_be_bytes(), name)?;
        match extent {
            None => Ok(Extent::FLUSH.at(event.time_ns, volume)),
            Some(extent) if flush => Ok(Parsed::FlushFirst(Record { time_ns: event.time_ns, volume, extent })),
            Some(extent) => Ok(extent.at(event.time_ns, volume)),
        }
    }

    fn note(&self, merged: bool) -> Option<String> {
        let name = match self.action {
            QUEUE => "queue",
            ISSUE => "issue",
            _ => "complete",
        };
        let merge =
            if merged { "" } else { "; per-CPU files must be merged first (blkparse -d, or all in one tar archive)" };
        Some(format!("taking the {name} events{merge}"))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::testing::{error_of, requests_of};
    use super::*;

    pub(in super::super) fn record(
        big: bool,
        time_ns: u64,
        sector: u64,
        bytes: u32,
        code: u32,
        payload: &[u8],
    ) -> Vec<u8> {
        let mut record = Vec::new();
        let mut put = |value: u64, size: usize| match big {
            false => record.extend_from_slice(&value.to_le_bytes()[..size]),
            true => record.extend_from_slice(&value.to_be_bytes()[8 - size..]),
        };
        put(0x6561_7407, 4);
        put(1, 4);
        put(time_ns, 8);
        put(sector, 8);
        put(bytes.into(), 4);
        put(code.into(), 4);
        put(42, 4);
        put(8 << 20 | 16, 4);
        put(0, 4);
        put(0, 2);
        put(payload.len() as u64, 2);
        record.extend_from_slice(payload);
        record
    }

    #[test]
    fn both_byte_orders_payloads_and_notifications() {
        for big in [false, true] {
            let trace = [
                // A process notification has the number of a queue action.
                record(big, 0, 0, 0, NOTIFY | 1, b"java\0\0\0"),
                record(big, 1000, 8, 4096, 1 << 16 | QUEUE, b""),
                record(big, 1001, 8, 4096, 1 << 16 | ISSUE, b""),
                record(big, 2000, 16, 512, WRITE | QUEUE, b"xy"),
                record(big, 3000, 0, 0, FLUSH | WRITE | QUEUE, b""),
                record(big, 3000, 24, 512, DISCARD | WRITE | QUEUE, b""),
                record(big, 3000, 32, 512, FLUSH | WRITE | QUEUE, b""),
                record(big, 3000, 0, 36, PASSTHROUGH | QUEUE, b""),
            ];
            let (got, intake) = requests_of(&trace.concat(), None).unwrap();
            use Operation::{Flush, Read, Trim, Write};
            assert_eq!(got[0], (0, 4096, 4096, 0, Read));
            assert_eq!(got[1], (1000, 8192, 512, 0, Write));
            assert_eq!(got[2..].iter().map(|got| got.4).collect::<Vec<_>>(), [Flush, Trim, Flush, Write]);
            assert_eq!(intake.volumes, ["8,16"]);
            assert_eq!(intake.ignored, 3);
        }
    }

    #[test]
    fn issue_only_traces_and_damage() {
        let good = record(false, 5, 8, 512, 1 << 16 | ISSUE, b"");
        assert_eq!(requests_of(&good, None).unwrap().0.len(), 1);
        let cut = [&good[..], &good[..40]].concat();
        let error = error_of(&cut, None);
        assert_eq!(error.line, 2);
        assert!(error.what.contains("cut short"), "{error}");
        let lost = [&good[..], &[0; 48]].concat();
        assert!(error_of(&lost, None).what.contains("magic"));
        let empty = record(false, 5, 8, 0, 1 << 16 | ISSUE, b"");
        assert_eq!(error_of(&[good, empty].concat(), Some("blktrace")).line, 2);
    }
}

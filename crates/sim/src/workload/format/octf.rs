//! OCTF: the binary trace of the Open CAS Telemetry Framework and of its recorder, iotrace.
//!
//! A file is a row of protobuf messages, each behind its length as a varint. A message is an `Event`: field 1 the
//! header (1 sequence number, 2 time in ns), and one of 2 an I/O, 3 the description of a device (1 id, 2 name), and
//! others (file system, completions) that carry no request. An I/O: 1 address and 2 length in sectors, 4 device, 5
//! operation (0 read, 1 write, 2 discard), 6 flush wanted before. Absent numbers are 0, fields of other numbers are
//! passed over, as protobuf has it. The recorder's own parsers of all its versions read these fields from one message
//! definition. Its last version has more flags; should it keep the flush flag elsewhere, a flush before a write is
//! missed there, a plain flush (an I/O without a length) is not.
//!
//! The recorder writes a file per CPU, `octf.trace.0` and so on, in a directory. Each is in time order: put them into
//! one tar archive, and they are merged.

use std::collections::BTreeMap;

use super::field::{Extent, Malformed, Parsed, Record};
use super::{BinaryParser, Example, Head, Parser, TraceFormat, Volumes};
use crate::workload::Operation;

pub(super) const FORMAT: TraceFormat = TraceFormat {
    name: "octf",
    summary: "Open CAS telemetry (iotrace)",
    units: "times in ns, addresses and sizes in sectors of 512 bytes",
    reference: "Open CAS Telemetry Framework, source/octf/proto/trace.proto; Standalone Linux IO Tracer",
    example: Example::Hex(
        "100a05080110e8071a0708071203736461 \
         130a05080210d00f120a08802010800220072801 \
         100a05080310c413120708804010082007",
    ),
    detect: |head: &Head<'_>| {
        let mut rest = head.bytes();
        let mut ios = 0;
        while let Some(record) = measure(rest).and_then(|bytes| rest.get(..bytes)) {
            match Event::parse(record) {
                Ok(event) => ios += usize::from(matches!(event.kind, Kind::Io(_))),
                Err(_) => return false,
            }
            rest = &rest[record.len()..];
        }
        // What is left is the beginning of a message that the head cuts.
        ios > 0 && rest.len() <= MESSAGE_BYTES_MAX
    },
    parser: |_| Parser::Binary(Box::<Octf>::default()),
    encode: None,
};

/// The longest message believed. A file's name is the longest field, and has 64 bytes at most.
const MESSAGE_BYTES_MAX: usize = 4096;

/// A varint at the start of `bytes`: its value and its length. `None` if it does not end within 10 bytes.
fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0;
    for (index, &byte) in bytes.iter().enumerate().take(10) {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            // The tenth byte has room for one bit.
            return (index < 9 || byte <= 1).then_some((value, index + 1));
        }
    }
    None
}

/// Bytes of the record at the start of `window`, its length included. `None` if the length is not all there.
pub(super) fn measure(window: &[u8]) -> Option<usize> {
    let (length, prefix) = varint(window)?;
    usize::try_from(length).ok().filter(|&length| length <= MESSAGE_BYTES_MAX).map(|length| prefix + length)
}

/// The time of a whole record, in nanoseconds.
pub(super) fn time_ns(record: &[u8]) -> Option<u64> {
    Event::parse(record).ok().map(|event| event.time_ns)
}

/// One field of a message: its number and its value. Fixed-size numbers have no field here.
enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    Other,
}

/// The fields of a message.
struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    fn next(&mut self) -> Result<Option<(u64, Value<'a>)>, Malformed> {
        let broken = || Malformed::new("the protobuf message is damaged");
        if self.rest.is_empty() {
            return Ok(None);
        }
        let (key, bytes) = varint(self.rest).ok_or_else(broken)?;
        self.rest = &self.rest[bytes..];
        let mut take = |count: usize| {
            let (taken, rest) = self.rest.split_at_checked(count)?;
            self.rest = rest;
            Some(taken)
        };
        let value = match key & 7 {
            0 => {
                let (number, bytes) = varint(self.rest).ok_or_else(broken)?;
                self.rest = &self.rest[bytes..];
                Value::Number(number)
            }
            1 => take(8).map(|_| Value::Other).ok_or_else(broken)?,
            2 => {
                let (length, bytes) = varint(self.rest).ok_or_else(broken)?;
                self.rest = &self.rest[bytes..];
                let length = usize::try_from(length).map_err(|_| broken())?;
                let (taken, rest) = self.rest.split_at_checked(length).ok_or_else(broken)?;
                self.rest = rest;
                Value::Bytes(taken)
            }
            5 => take(4).map(|_| Value::Other).ok_or_else(broken)?,
            _ => return Err(broken()),
        };
        match key >> 3 {
            0 => Err(broken()),
            number => Ok(Some((number, value))),
        }
    }
}

/// The numbers of a message's fields 1 to 8; the last of a number counts.
fn numbers(message: &[u8]) -> Result<[u64; 9], Malformed> {
    let mut numbers = [0; 9];
    let mut fields = Fields { rest: message };
    while let Some((number, value)) = fields.next()? {
        if let (Value::Number(value), Some(place)) = (value, numbers.get_mut(number as usize)) {
            *place = value;
        }
    }
    Ok(numbers)
}

enum Kind<'a> {
    /// Fields 1 to 7 of an I/O.
    Io([u64; 9]),
    /// A device's id and name.
    Device(u64, &'a [u8]),
    Other,
}

struct Event<'a> {
    time_ns: u64,
    kind: Kind<'a>,
}

impl<'a> Event<'a> {
    /// `record` is whole, its length included.
    fn parse(record: &'a [u8]) -> Result<Self, Malformed> {
        let (length, prefix) = varint(record).ok_or_else(|| Malformed::new("the length of the message is damaged"))?;
        let message = &record[prefix..];
        if message.len() as u64 != length {
            return Err(Malformed::new("a message of more than 4096 bytes, which no event has"));
        }
        let mut event = Self { time_ns: 0, kind: Kind::Other };
        let (mut fields, mut header) = (Fields { rest: message }, false);
        while let Some((number, value)) = fields.next()? {
            let Value::Bytes(part) = value else {
                return Err(Malformed::new("an event has messages only, and this has a number"));
            };
            match number {
                1 => (header, event.time_ns) = (true, numbers(part)?[2]),
                2 => event.kind = Kind::Io(numbers(part)?),
                3 => {
                    let (mut inner, mut name) = (Fields { rest: part }, &b""[..]);
                    while let Some((number, value)) = inner.next()? {
                        if let (2, Value::Bytes(text)) = (number, value) {
                            name = text;
                        }
                    }
                    event.kind = Kind::Device(numbers(part)?[1], name);
                }
                _ => {}
            }
        }
        if !header {
            return Err(Malformed::new("an event without a header"));
        }
        Ok(event)
    }
}

#[derive(Default)]
struct Octf {
    names: BTreeMap<u64, String>,
}

impl BinaryParser for Octf {
    fn bytes(&self, window: &[u8]) -> usize {
        match (measure(window), varint(window)) {
            (Some(bytes), _) => bytes,
            // A length beyond belief: the length alone, which is then found malformed.
            (None, Some((_, prefix))) => prefix,
            (None, None) if window.len() >= 10 => 10,
            (None, None) => window.len() + 1,
        }
    }

    fn record(&mut self, record: &[u8], volumes: &mut Volumes) -> Result<Parsed, Malformed> {
        let event = Event::parse(record)?;
        let io = match event.kind {
            Kind::Io(io) => io,
            Kind::Device(id, name) => {
                self.names.insert(id, String::from_utf8_lossy(name).into_owned());
                return Ok(Parsed::Ignored);
            }
            Kind::Other => return Ok(Parsed::Ignored),
        };
        let [_, sector, count, _, device, operation, flush, ..] = io;
        let name = |_: &str| self.names.get(&device).filter(|name| !name.is_empty()).cloned();
        let volume = volumes.text(&device.to_be_bytes(), |key| name(key).unwrap_or(format!("device {device}")))?;
        let operation = match operation {
            0 => Operation::Read,
            1 => Operation::Write,
            2 => Operation::Trim,
            other => return Err(Malformed(format!("the operation is {other}, not 0, 1 or 2").into())),
        };
        // Only a flush has no extent.
        if count == 0 && operation != Operation::Trim {
            return Ok(Extent::FLUSH.at(event.time_ns, volume));
        }
        let extent = Extent::sectors(operation, sector, count)?;
        match flush {
            0 => Ok(extent.at(event.time_ns, volume)),
            _ => Ok(Parsed::FlushFirst(Record { time_ns: event.time_ns, volume, extent })),
        }
    }

    fn note(&self, merged: bool) -> Option<String> {
        (!merged).then(|| "one CPU's file; a tar archive of all is merged by time".to_owned())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::testing::{error_of, requests_of};
    use super::*;

    fn number(field: u64, value: u64) -> Vec<u8> {
        let mut bytes = vec![(field << 3) as u8];
        let mut value = value;
        while value >= 0x80 {
            bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        bytes.push(value as u8);
        bytes
    }

    fn message(field: u64, parts: &[Vec<u8>]) -> Vec<u8> {
        let body = parts.concat();
        [vec![(field << 3 | 2) as u8, body.len() as u8], body].concat()
    }

    fn event(time_ns: u64, rest: Vec<u8>) -> Vec<u8> {
        let body = [message(1, &[number(1, 9), number(2, time_ns)]), rest].concat();
        [vec![body.len() as u8], body].concat()
    }

    /// An I/O as the recorder writes it: zeros are left out.
    pub(in super::super) fn io(time_ns: u64, sector: u64, count: u64, operation: u64, flush: bool) -> Vec<u8> {
        let fields =
            [(1, sector), (2, count), (3, 19), (4, 271_581_186), (5, operation), (6, u64::from(flush)), (9, 5)];
        let parts: Vec<_> = fields.iter().filter(|field| field.1 != 0).map(|&(at, value)| number(at, value)).collect();
        event(time_ns, message(2, &parts))
    }

    pub(in super::super) fn device(name: &str) -> Vec<u8> {
        let text = [vec![2 << 3 | 2, name.len() as u8], name.as_bytes().to_vec()].concat();
        event(0, message(3, &[number(1, 271_581_186), text, number(3, 732_585_168)]))
    }

    #[test]
    fn requests_flushes_and_the_devices_name() {
        let trace = [
            device("nvme0n1"),
            io(5_000_000_000, 1_652_296, 256, 1, false),
            event(5_000_000_100, message(5, &[number(1, 1_652_296), number(2, 256)])),
            io(5_000_000_200, 0, 8, 0, false),
            io(5_000_000_200, 0, 0, 1, true),
            io(5_000_000_300, 16, 8, 2, false),
            io(5_000_000_400, 24, 8, 1, true),
        ];
        let (got, intake) = requests_of(&trace.concat(), None).unwrap();
        use Operation::{Flush, Read, Trim, Write};
        assert_eq!(got[0], (0, 1_652_296 * 512, 131_072, 0, Write));
        assert_eq!(got[1], (200, 0, 4096, 0, Read));
        assert_eq!(got[2..].iter().map(|got| got.4).collect::<Vec<_>>(), [Flush, Trim, Flush, Write]);
        assert_eq!((intake.volumes, intake.ignored), (vec!["nvme0n1".to_owned()], 2));
    }

    #[test]
    fn damage() {
        let good = io(1, 8, 8, 1, false);
        let cut = [&good[..], &good[..good.len() - 3]].concat();
        let error = error_of(&cut, None);
        assert_eq!((error.line, error.what.contains("cut short")), (2, true), "{error}");
        let operation = io(1, 8, 8, 7, false);
        assert!(error_of(&[&good[..], &operation].concat(), None).what.contains("operation is 7"));
        let long = [&good[..], &[0xff, 0xff, 0x7f, 1, 2]].concat();
        assert!(error_of(&long, Some("octf")).what.contains("4096 bytes"));
        let endless = [&good[..], &[0xff; 20]].concat();
        assert!(error_of(&endless, Some("octf")).what.contains("length"));
        let headless = [&good[..], &[2, 0x12, 0]].concat();
        assert!(error_of(&headless, Some("octf")).what.contains("without a header"));
    }
}

//! Text of blkparse: `maj,min cpu seq secs.nanosecs pid ACTION RWBS sector + sectors [process]`.
//!
//! A request shows up several times on its way (queued, inserted, issued, completed); exactly one action is taken, `Q`
//! if the head of the trace has one with an extent, else `D`, else `C`, and the choice is announced. The first letters
//! of RWBS tell the operation: a leading `F` asks for a flush before, then `R`, `W`, or `D` for a discard (as an
//! *action*, `D` means issued). An `F` after the operation is FUA and changes nothing for a log of requests. Events
//! without an extent, other actions, and the summary blkparse appends are ignored.
//!
//! With a format of its own (`-f`), blkparse leaves out what it calls the header, or parts of it: device, CPU, sequence
//! number, process. Such lines are read if time, action, operation, address and size are there, in this order; the `+`
//! may be missing too.

use super::field::{Blanks, Extent, Malformed, Parsed, Record, decimal, whole};
use super::{Example, Head, Parser, TextParser, TraceFormat, Volumes};
use crate::workload::Operation;

pub(super) const FORMAT: TraceFormat = TraceFormat {
    name: "blkparse",
    summary: "blkparse text",
    units: "times in seconds, addresses and sizes in sectors of 512 bytes",
    reference: "blkparse(1), default output format; blk-mq tracepoints, blk_fill_rwbs",
    example: Example::Text(
        "  8,16   3        5     0.000020000  4000  D   R 1000000 + 256 [java]\n\
         \x20 8,16   3        7     0.001500000  4001  C   R 1000000 + 256 [0]\n",
    ),
    detect: |head: &Head<'_>| head.mostly(|line| Event::parse(line).is_ok_and(|event| event.is_some())),
    parser: |head| {
        let has = |action| {
            head.any(|line| {
                matches!(Event::parse(line), Ok(Some(event)) if event.action == [action] && event.extent().is_ok())
            })
        };
        let action = [b'Q', b'D', b'C'].into_iter().find(|&action| has(action)).unwrap_or(b'Q');
        Parser::Text(Box::new(Blkparse { action }))
    },
    encode: None,
};

/// How the lines of blkparse's closing summary and its own messages begin.
const SUMMARY: [&[u8]; 11] = [
    b"CPU",
    b"Total (",
    b"Reads ",
    b"Read ",
    b"Writes ",
    b"IO unplugs",
    b"Throughput (",
    b"Events (",
    b"Skips: ",
    b"PC ",
    b"Input file ",
];

/// One line taken apart, the numbers after the operation not yet.
struct Event<'a> {
    device: &'a [u8],
    seconds: &'a [u8],
    action: &'a [u8],
    rwbs: &'a [u8],
    rest: Blanks<'a>,
}

impl<'a> Event<'a> {
    /// `None` for a line of the summary.
    fn parse(line: &'a [u8]) -> Result<Option<Self>, Malformed> {
        let line = line.trim_ascii();
        if !line.first().is_some_and(u8::is_ascii_digit) && SUMMARY.iter().any(|start| line.starts_with(start)) {
            return Ok(None);
        }
        Self::whole(line).or_else(|why| Self::bare(line).ok_or(why)).map(Some)
    }

    /// A line as blkparse writes it by default.
    #[inline]
    fn whole(line: &'a [u8]) -> Result<Self, Malformed> {
        let mut fields = Blanks::new(line);
        let device = fields.text();
        let numbers =
            device.iter().position(|&byte| byte == b',').map(|comma| (&device[..comma], &device[comma + 1..]));
        if numbers.is_none_or(|(major, minor)| whole(major, "").and(whole(minor, "")).is_err()) {
            return Err(Malformed::field("device", "major,minor", device));
        }
        fields.whole("CPU")?;
        fields.whole("sequence number")?;
        let seconds = fields.text();
        fields.whole("process id")?;
        let (action, rwbs) = (fields.text(), fields.text());
        if action.is_empty() {
            return Err(Malformed::field("action", "a letter", action));
        }
        Ok(Self { device, seconds, action, rwbs, rest: fields })
    }

    /// A line without parts of its header: `[maj,min] [cpu] [seq] secs.nanosecs [pid] ACTION RWBS sector [+] sectors`.
    #[cold]
    fn bare(line: &'a [u8]) -> Option<Self> {
        let number = |field: &[u8]| !field.is_empty() && field.iter().all(u8::is_ascii_digit);
        let mut fields = Blanks::new(line);
        let mut field = fields.text();
        let mut device = &b"device"[..];
        if let Some(comma) = field.iter().position(|&byte| byte == b',') {
            if !number(&field[..comma]) || !number(&field[comma + 1..]) {
                return None;
            }
            (device, field) = (field, fields.text());
        }
        // CPU and sequence number.
        for _ in 0..2 {
            if number(field) {
                field = fields.text();
            }
        }
        let seconds = field;
        if !seconds.contains(&b'.') || decimal(seconds, 9, "time").is_err() {
            return None;
        }
        let mut action = fields.text();
        if number(action) {
            action = fields.text();
        }
        let rwbs = fields.text();
        let letters = |field: &[u8]| !field.is_empty() && field.iter().all(u8::is_ascii_uppercase);
        let known = action.len() <= 2 && (letters(action) || action == b"m") && letters(rwbs);
        known.then_some(Self { device, seconds, action, rwbs, rest: fields })
    }

    /// What is asked: whether a flush comes first, and the extent, if any.
    fn extent(&self) -> Result<(bool, Option<Extent>), Malformed> {
        let (flush, operation) = match *self.rwbs {
            [b'F', b'F', ..] => (true, None),
            [b'F', ref rest @ ..] => (true, rest.first().copied()),
            ref all => (false, all.first().copied()),
        };
        let operation = match operation {
            Some(b'R') => Operation::Read,
            Some(b'W') => Operation::Write,
            Some(b'D') => Operation::Trim,
            // A pure flush, or (N) a command to the device that moves no data of the volume.
            None | Some(b'F' | b'N' | b'S' | b'M' | b'A') => return Ok((flush, None)),
            Some(_) => return Err(Malformed::field("operation", "letters such as R, WS, DS or FWS", self.rwbs)),
        };
        let mut rest = self.rest;
        let address = rest.text();
        // A flush without data has no address, or an empty extent.
        if flush && (address.is_empty() || address.starts_with(b"[")) {
            return Ok((true, None));
        }
        let sector = whole(address, "address")?;
        let count = match rest.text() {
            b"+" => rest.whole("size")?,
            size if size.first().is_some_and(u8::is_ascii_digit) => whole(size, "size")?,
            other => return Err(Malformed::field("sign between address and size", "`+`", other)),
        };
        if flush && count == 0 {
            return Ok((true, None));
        }
        Ok((flush, Some(Extent::sectors(operation, sector, count)?)))
    }
}

struct Blkparse {
    action: u8,
}

impl TextParser for Blkparse {
    fn line(&mut self, line: &[u8], volumes: &mut Volumes) -> Result<Parsed, Malformed> {
        let Some(event) = Event::parse(line)? else {
            return Ok(Parsed::Ignored);
        };
        if event.action != [self.action] {
            return Ok(Parsed::Ignored);
        }
        let time_ns = decimal(event.seconds, 9, "time")?;
        let (flush, extent) = event.extent()?;
        if !flush && extent.is_none() {
            return Ok(Parsed::Ignored);
        }
        let volume = volumes.text(event.device, str::to_owned)?;
        match extent {
            None => Ok(Extent::FLUSH.at(time_ns, volume)),
            Some(extent) if flush => Ok(Parsed::FlushFirst(Record { time_ns, volume, extent })),
            Some(extent) => Ok(extent.at(time_ns, volume)),
        }
    }

    fn note(&self) -> Option<String> {
        let name = match self.action {
            b'Q' => "Q (queued)",
            b'D' => "D (issued)",
            _ => "C (completed)",
        };
        Some(format!("taking the {name} events"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{only_error, requests};
    use super::*;

    #[test]
    fn one_action_and_every_kind() {
        let text = "\
  8,16   3        1     0.000010000  4000  I   R 1000000 + 256 [java]
  8,16   3        2     0.000020000  4000  D   R 1000000 + 256 [java]
  8,16   3        3     0.001500000  4001  C   R 1000000 + 256 [0]
  8,16   3        4     0.001500001  4001  P   N [java]
  8,16   3        5     0.001500001  4001 UT   N [java] 1
  8,16   3        6     0.001500001  4001  m   N cfq4000 alloced
  8,16   3        7     0.001500001  4001  A   W 10 + 8 <- (8,17) 2
  8,16   3        8     0.001500001  4001  X   W 10 / 14 [java]
  8,17   3        9     0.002020000  4000  D  WS 8 + 8 [a b]
  8,16   3       10     0.002020000  4000  D  DS 16 + 8 [a]
  8,16   3       11     0.002020000  4000  D  FN [jbd2]
  8,16   3       12     0.002020000  4000  D FWS [jbd2]
  8,16   3       13     0.002020000  4000  D FWFSM 24 + 8 [jbd2]
  8,16   3       14     0.002020000  4000  D   N 0 [smart]
CPU0 (8,16):
 Reads Queued:           0,        0KiB\t Writes Queued:           0,        0KiB
 Read depth:             7        \t Write depth:            33
 IO unplugs:             0        \t Timer unplugs:           0

Throughput (R/W): 0KiB/s / 0KiB/s
Events (8,16): 300 entries
Skips: 0 forward (0 -   0.0%)
";
        let (got, intake) = requests(text, "blkparse");
        let operations: Vec<_> = got.iter().map(|request| request.4).collect();
        use Operation::{Flush, Read, Trim, Write};
        assert_eq!(operations, [Read, Write, Trim, Flush, Flush, Flush, Write]);
        assert_eq!(got[0], (0, 1_000_000 * 512, 131_072, 0, Read));
        assert_eq!(got[1], (2_000_000, 4096, 4096, 1, Write));
        assert_eq!(got[2], (2_000_000, 8192, 4096, 0, Trim));
        assert_eq!(got[6], (2_000_000, 12_288, 4096, 0, Write));
        assert_eq!(intake.volumes, ["8,16", "8,17"]);
        assert_eq!(intake.ignored, 16);
    }

    #[test]
    fn queued_is_preferred_completed_is_the_last_resort() {
        let (got, _) = requests("8,0 0 1 1.0 9 Q R 0 + 8 [a]\n8,0 0 1 1.0 9 D R 0 + 16 [a]\n", "blkparse");
        assert_eq!((got.len(), got[0].2), (1, 4096));
        let (got, _) = requests("8,0 0 1 1.0 9 C R 0 + 8 [0]\n8,0 0 1 1.0 9 I R 0 + 16 [a]\n", "blkparse");
        assert_eq!((got.len(), got[0].2), (1, 4096));
    }

    #[test]
    fn without_parts_of_the_header() {
        let whole = "  8,16   3   5   0.000020000  4000  Q   R 1000000 + 256 [java]\n\
                     \x20 8,16   3   6   0.000021000  4000  D   R 1000000 + 256 [java]\n\
                     \x20 8,16   3   7   0.001500000  4000  Q  WS 8 + 8 [java]\n";
        let (rows, intake) = requests(whole, "blkparse");
        assert_eq!((rows.len(), &intake.volumes[0][..]), (2, "8,16"));
        // Which of device, CPU, sequence number, process and sign are left out; the names of processes go with the
        // sign.
        for left_out in 1..32_u32 {
            let text: String = whole
                .lines()
                .map(|line| {
                    let fields: Vec<&str> = line.split_whitespace().collect();
                    let kept = |place: u32, index: usize| (left_out >> place & 1 == 0).then_some(fields[index]);
                    let line = [
                        kept(0, 0),
                        kept(1, 1),
                        kept(2, 2),
                        Some(fields[3]),
                        kept(3, 4),
                        Some(fields[5]),
                        Some(fields[6]),
                        Some(fields[7]),
                        kept(4, 8),
                        Some(fields[9]),
                        kept(4, 10),
                    ];
                    line.into_iter().flatten().collect::<Vec<_>>().join(" ") + "\n"
                })
                .collect();
            let (got, seen) = requests(&text, "blkparse");
            assert_eq!(got, rows, "{text}");
            assert_eq!(seen.volumes, [if left_out & 1 == 0 { "8,16" } else { "device" }], "{text}");
            assert_eq!(seen.ignored, 1);
        }
    }

    #[test]
    fn malformed() {
        for line in [
            "8,0 0 1 1.0 9 D R 0 / 8 [a]",
            "8,0 0 1 1.0 9 D R 0 + 0 [a]",
            "8,0 0 1 1.0 9 D X 0 + 8 [a]",
            "8,0 0 1 x 9 D R 0 + 8 [a]",
            "8 0 1 1.0 9 D R 0 + 8 [a]",
            "8,0 0 1 1.0 9",
            "8,0 0 1 -1.0 9 D R 0 + 8 [a]",
            "hello",
        ] {
            only_error(line, "blkparse");
        }
    }
}

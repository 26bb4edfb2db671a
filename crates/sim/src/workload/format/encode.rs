//! Writing traces: the formats other simulators read.
//!
//! A request the target cannot express is refused, never bent: trims and flushes outside fio, extents that are not
//! whole sectors where addresses count sectors. Times finer than the target's unit are cut and counted.

use std::collections::HashSet;
use std::io::{self, Write};

use serde::Serialize;

use super::{FORMATS, OnError, by_name};
use crate::workload::{Operation, Request, Source, WorkloadError};

/// Writes requests as text: what opens the trace, then each request, then what closes it.
pub trait Encode {
    /// Appends what opens a trace.
    fn start(&mut self, _out: &mut Vec<u8>) {}

    /// Appends one request of the volume of that name; says whether its arrival was cut to the target's unit.
    ///
    /// # Errors
    /// Why the request cannot be expressed.
    fn request(&mut self, request: &Request, volume: &str, out: &mut Vec<u8>) -> Result<bool, &'static str>;

    /// Appends what closes a trace.
    fn finish(&mut self, _out: &mut Vec<u8>) {}

    /// The volumes that have another number than their name asks for.
    fn renumbered(&self) -> Renumbered {
        Renumbered::default()
    }
}

/// Volumes that were written under another number than their name ends in, because another volume had that number.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Renumbered {
    /// How many.
    pub volumes: u64,
    /// The first of them: its name and the number that it was given.
    pub first: Option<(String, u64)>,
}

/// What [`convert`] did.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Converted {
    /// Requests written.
    pub requests: u64,
    /// Requests left out because the target cannot express them (only with [`OnError::Skip`]).
    pub refused: u64,
    /// The first of them: its number, from 1, and why.
    pub first_refused: Option<(u64, String)>,
    /// Arrivals cut to the target's unit of time.
    pub times_cut: u64,
    /// Volumes whose number is not that of their name.
    pub renumbered: Renumbered,
}

/// Writes all of `source` to `out` in the format named `format`.
///
/// Volumes keep their number where their name ends in one (`asu 3`, `mds.1`), else they get their number of order; one
/// whose number another volume has already gets the next that is free. MSR tells volumes apart by host and number.
/// `origin` stands for the source in errors.
///
/// # Errors
/// An unknown or unwritable format, the source's own errors, output errors, and, with [`OnError::Stop`], the first
/// request the format cannot express.
pub fn convert(
    source: &mut dyn Source,
    origin: &str,
    format: &str,
    on_error: OnError,
    out: &mut dyn Write,
) -> Result<Converted, WorkloadError> {
    let error = |line, what: String, fix: String| WorkloadError { origin: origin.to_owned(), line, what, fix };
    let encode = by_name(format).and_then(|format| format.encode).ok_or_else(|| {
        let names: Vec<_> = FORMATS.iter().filter(|format| format.writable()).map(|format| format.name).collect();
        error(0, format!("cannot be converted to `{format}`"), format!("the target is one of {}", names.join(", ")))
    })?;
    let mut encoder = encode();
    let failed = |cause: io::Error| error(0, format!("the converted trace cannot be written: {cause}"), String::new());
    let mut converted = Converted::default();
    let (mut batch, mut text) = (Vec::new(), Vec::new());
    encoder.start(&mut text);
    let mut number = 0;
    while source.refill(&mut batch, 4096)? {
        let volumes = &source.intake().volumes;
        for request in &batch {
            number += 1;
            let volume = volumes.get(request.volume as usize).map_or("", String::as_str);
            match encoder.request(request, volume, &mut text) {
                Ok(cut) => {
                    converted.requests += 1;
                    converted.times_cut += u64::from(cut);
                }
                Err(why) if on_error == OnError::Skip => {
                    converted.refused += 1;
                    converted.first_refused.get_or_insert_with(|| (number, why.to_owned()));
                }
                Err(why) => {
                    let what = format!("request {number} cannot be expressed in {format}: {why}");
                    return Err(error(0, what, "choose another target, or leave such out with --on-error skip".into()));
                }
            }
        }
        out.write_all(&text).map_err(failed)?;
        text.clear();
    }
    encoder.finish(&mut text);
    out.write_all(&text).and_then(|()| out.flush()).map_err(failed)?;
    converted.renumbered = encoder.renumbered();
    Ok(converted)
}

/// Appends formatted text; a vector takes everything.
macro_rules! put {
    ($out:expr, $($argument:tt)*) => {
        $out.write_fmt(format_args!($($argument)*)).expect("a vector takes everything")
    };
}

/// The name of a volume without the number at its end (`asu 3`, `mds.1`), and that number.
fn host_and_number(name: &str) -> (&str, Option<u64>) {
    let split = name.rsplit_once([' ', '.']).and_then(|(host, tail)| Some((host, tail.parse().ok()?)));
    split.map_or((name, None), |(host, number)| (host, Some(number)))
}

/// The numbers under which volumes are written: no two volumes of a host have the same.
#[derive(Default)]
struct Numbers {
    given: Vec<Option<u64>>,
    taken: HashSet<(Vec<u8>, u64)>,
    /// No number below this is given to a volume whose own is taken.
    next: u64,
    renumbered: Renumbered,
}

impl Numbers {
    /// The number of the request's volume, which has this name. Where only numbers tell volumes apart, all are of one
    /// `host`.
    #[inline]
    fn of(&mut self, request: &Request, name: &str, host: &[u8]) -> u64 {
        match self.given.get(request.volume as usize) {
            Some(&Some(number)) => number,
            _ => self.give(request.volume as usize, name, host),
        }
    }

    #[cold]
    fn give(&mut self, volume: usize, name: &str, host: &[u8]) -> u64 {
        let own = host_and_number(name).1.unwrap_or(volume as u64);
        let mut number = own;
        while !self.taken.insert((host.to_vec(), number)) {
            number = self.next;
            self.next += 1;
        }
        if number != own {
            self.renumbered.volumes += 1;
            self.renumbered.first.get_or_insert_with(|| (name.to_owned(), number));
        }
        self.given.resize(self.given.len().max(volume + 1), None);
        self.given[volume] = Some(number);
        number
    }
}

fn read_or_write<T>(request: &Request, read: T, write: T) -> Result<T, &'static str> {
    match request.operation {
        Operation::Read => Ok(read),
        Operation::Write => Ok(write),
        Operation::Trim => Err("it has no trims"),
        Operation::Flush => Err("it has no flushes"),
    }
}

fn sectors(request: &Request) -> Result<(u64, u64), &'static str> {
    if !request.offset.is_multiple_of(512) || !request.bytes.is_multiple_of(512) {
        return Err("the extent is not whole sectors of 512 bytes");
    }
    Ok((request.offset / 512, request.bytes / 512))
}

#[derive(Default)]
pub(super) struct Spc {
    numbers: Numbers,
}

impl Encode for Spc {
    fn request(&mut self, request: &Request, volume: &str, out: &mut Vec<u8>) -> Result<bool, &'static str> {
        let opcode = read_or_write(request, 'R', 'W')?;
        let (block, _) = sectors(request)?;
        let (seconds, ns) = (request.arrival_ns / 1_000_000_000, request.arrival_ns % 1_000_000_000);
        let asu = self.numbers.of(request, volume, b"");
        put!(out, "{asu},{block},{},{opcode},{seconds}.", request.bytes);
        // Six decimals are customary; three more only where they say something.
        match ns % 1_000 {
            0 => put!(out, "{:06}\n", ns / 1_000),
            _ => put!(out, "{ns:09}\n"),
        }
        Ok(false)
    }

    fn renumbered(&self) -> Renumbered {
        self.numbers.renumbered.clone()
    }
}

#[derive(Default)]
pub(super) struct Msr {
    numbers: Numbers,
    host: Vec<u8>,
}

/// 2007-02-22 17:00 UTC as FILETIME, when the Cambridge traces start.
const MSR_START_TICKS: u64 = 128_166_372_000_000_000;

impl Encode for Msr {
    fn request(&mut self, request: &Request, volume: &str, out: &mut Vec<u8>) -> Result<bool, &'static str> {
        let kind = read_or_write(request, "Read", "Write")?;
        let ticks = MSR_START_TICKS + request.arrival_ns / 100;
        if ticks > u64::MAX / 100 {
            return Err("the arrival is beyond what FILETIME holds in nanoseconds");
        }
        self.host.clear();
        put_word(host_and_number(volume).0, "ftlab", &mut self.host);
        let disk = self.numbers.of(request, volume, &self.host);
        put!(out, "{ticks},");
        out.extend_from_slice(&self.host);
        put!(out, ",{disk},{kind},{},{},0\n", request.offset, request.bytes);
        Ok(!request.arrival_ns.is_multiple_of(100))
    }

    fn renumbered(&self) -> Renumbered {
        self.numbers.renumbered.clone()
    }
}

/// Appends a name with whatever separates fields replaced.
fn put_word(name: &str, fallback: &str, out: &mut Vec<u8>) {
    let name = if name.is_empty() { fallback } else { name };
    let plain =
        |byte: u8| if byte == b',' || byte.is_ascii_whitespace() || byte.is_ascii_control() { b'-' } else { byte };
    out.extend(name.bytes().map(plain));
}

#[derive(Default)]
pub(super) struct Mqsim {
    numbers: Numbers,
}

impl Encode for Mqsim {
    fn request(&mut self, request: &Request, volume: &str, out: &mut Vec<u8>) -> Result<bool, &'static str> {
        let kind = read_or_write(request, 1, 0)?;
        let (sector, count) = sectors(request)?;
        let device = self.numbers.of(request, volume, b"");
        put!(out, "{} {device} {sector} {count} {kind}\n", request.arrival_ns);
        Ok(false)
    }

    fn renumbered(&self) -> Renumbered {
        self.numbers.renumbered.clone()
    }
}

#[derive(Default)]
pub(super) struct Disksim {
    numbers: Numbers,
}

impl Encode for Disksim {
    fn request(&mut self, request: &Request, volume: &str, out: &mut Vec<u8>) -> Result<bool, &'static str> {
        let flags = read_or_write(request, 1, 0)?;
        let (block, count) = sectors(request)?;
        let (ms, ns) = (request.arrival_ns / 1_000_000, request.arrival_ns % 1_000_000);
        let device = self.numbers.of(request, volume, b"");
        put!(out, "{ms}.{ns:06} {device} {block} {count} {flags}\n");
        Ok(false)
    }

    fn renumbered(&self) -> Renumbered {
        self.numbers.renumbered.clone()
    }
}

/// Announces each volume as a file when it first appears and closes all at the end.
#[derive(Default)]
pub(super) struct Fio3 {
    opened: Vec<(u32, Vec<u8>)>,
    last_us: u64,
}

impl Encode for Fio3 {
    fn start(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"fio version 3 iolog\n");
    }

    fn request(&mut self, request: &Request, volume: &str, out: &mut Vec<u8>) -> Result<bool, &'static str> {
        let at_us = request.arrival_ns / 1_000;
        self.last_us = at_us;
        let known = self.opened.iter().position(|(number, _)| *number == request.volume);
        let known = known.unwrap_or_else(|| {
            let mut file = Vec::new();
            put_word(volume, &format!("volume-{}", request.volume), &mut file);
            // Names that differ in their blanks alone would be one file.
            while self.opened.iter().any(|(_, known)| *known == file) {
                put!(file, "-{}", request.volume);
            }
            for action in ["add", "open"] {
                put!(out, "{at_us} {} {action}\n", file.escape_ascii());
            }
            self.opened.push((request.volume, file));
            self.opened.len() - 1
        });
        let file = self.opened[known].1.escape_ascii();
        let action = match request.operation {
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::Trim => "trim",
            Operation::Flush => "sync",
        };
        put!(out, "{at_us} {file} {action} {} {}\n", request.offset, request.bytes);
        Ok(!request.arrival_ns.is_multiple_of(1_000))
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        for (_, file) in &self.opened {
            put!(out, "{} {} close\n", self.last_us, file.escape_ascii());
        }
    }
}

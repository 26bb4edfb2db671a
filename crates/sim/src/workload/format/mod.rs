//! Trace formats: one file each, one row each in [`FORMATS`].
//!
//! A trace is recognised ([`detect`]) by its content, never by its file's name: each row's check runs over all complete
//! lines (or records) of the first 64 KiB after decompression, and the checks are disjoint. What was recognised, with
//! its units and choices, is announced in one line by [`TraceFile::announcement`], so that nobody has to guess what was
//! read.
//!
//! Text formats turn one line into one request, binary formats one record; the reader ([`TraceFile`]) does what is
//! common: refilling, line numbers, malformed records, times relative to the first request, disorder, volumes, hash.

mod alibaba;
mod archive;
mod blkparse;
mod blktrace;
mod clock;
mod cloudphysics;
mod disksim;
mod encode;
mod field;
mod fio2;
mod fio3;
mod fiu;
mod input;
mod mqsim;
mod msr;
mod octf;
mod reader;
mod recognise;
mod spc;
mod systor17;
mod tencent;
mod volumes;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use std::fmt;

use crate::workload::Operation;

pub use clock::Clock;
pub use encode::{Converted, Encode, convert};
pub use reader::TraceFile;
pub use recognise::detect;

use field::{Extent, Malformed, Parsed};
use volumes::Volumes;

/// A trace format that describes itself.
pub struct TraceFormat {
    /// Name for `--format`, kebab-case.
    pub name: &'static str,
    /// What it is, a few words.
    pub summary: &'static str,
    /// Units of times, offsets and sizes, and how operations are told apart, for people.
    pub units: &'static str,
    /// Where the format is defined or described.
    pub reference: &'static str,
    /// A small trace in this format.
    pub example: Example,
    /// Whether the head of a trace is of this format. The checks of any two rows exclude each other.
    pub detect: fn(&Head<'_>) -> bool,
    pub(crate) parser: fn(&Head<'_>) -> Parser,
    pub(crate) encode: Option<fn() -> Box<dyn Encode>>,
}

impl TraceFormat {
    /// Whether [`convert`] can write it.
    pub fn writable(&self) -> bool {
        self.encode.is_some()
    }

    /// An encoder for whoever records requests as they come; `None` if the format is only read.
    pub fn encoder(&self) -> Option<Box<dyn Encode>> {
        self.encode.map(|encode| encode())
    }
}

impl fmt::Debug for TraceFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceFormat").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A small trace, shown in documentation and recognised in tests.
#[derive(Clone, Copy, Debug)]
pub enum Example {
    /// Lines of text.
    Text(&'static str),
    /// Records in hexadecimal, spaces between fields.
    Hex(&'static str),
}

/// Every format, in the order in which help lists them.
pub static FORMATS: &[TraceFormat] = &[
    spc::FORMAT,
    msr::FORMAT,
    blkparse::FORMAT,
    blktrace::FORMAT,
    fio2::FORMAT,
    fio3::FORMAT,
    mqsim::FORMAT,
    disksim::FORMAT,
    alibaba::FORMAT,
    tencent::FORMAT,
    systor17::FORMAT,
    cloudphysics::FORMAT,
    octf::FORMAT,
    fiu::FORMAT,
];

/// The format of this name.
pub fn by_name(name: &str) -> Option<&'static TraceFormat> {
    FORMATS.iter().find(|format| format.name == name)
}

/// Whether a request can be meant: why not, for whoever reads traces that are neither text nor a run of records.
///
/// # Errors
/// A size of 0, an end beyond 2^63, a read or write above 4 GiB.
#[inline]
pub fn sound(operation: Operation, offset: u64, bytes: u64) -> Result<(), String> {
    match Extent::new(operation, offset, bytes) {
        Ok(_) => Ok(()),
        Err(Malformed(why)) => Err(why.into_owned()),
    }
}

/// What to do about malformed records.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnError {
    /// The first ends the reading with an error that names its line.
    #[default]
    Stop,
    /// They are left out, counted, and the first is remembered. A trace with no well-formed record is still an error.
    Skip,
}

/// How to read a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OpenOptions<'a> {
    /// A name from [`FORMATS`]; `None` lets the content decide.
    pub format: Option<&'a str>,
    /// What to do about malformed records; default: stop.
    pub on_error: OnError,
    /// Requests to read at most; default: all. A trace not read to its end has no hash.
    pub limit: Option<u64>,
}

/// The first bytes of a trace, at most 64 KiB, decompressed.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    bytes: &'a [u8],
    text: &'a [u8],
}

impl<'a> Head<'a> {
    /// `whole` says that the trace ends here, hence that the last line needs no line end to be complete.
    pub fn new(bytes: &'a [u8], whole: bool) -> Self {
        let lines = if whole { bytes.len() } else { memchr::memrchr(b'\n', bytes).unwrap_or(0) };
        Self { bytes, text: &bytes[..lines] }
    }

    /// All bytes.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The complete lines that are not blank.
    pub fn lines(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let lines = self.text.split(|&byte| byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        lines.filter(|line| !line.trim_ascii().is_empty())
    }

    /// Whether more than half of the lines fit; one malformed line must not hide what the trace is.
    pub fn mostly(&self, mut fits: impl FnMut(&[u8]) -> bool) -> bool {
        let (mut fitting, mut count) = (0_usize, 0_usize);
        for line in self.lines() {
            count += 1;
            fitting += usize::from(fits(line));
        }
        2 * fitting > count
    }

    /// Whether any line fits.
    pub fn any(&self, fits: impl FnMut(&[u8]) -> bool) -> bool {
        self.lines().any(fits)
    }

    /// Whether the first line is this one.
    pub fn starts_with_line(&self, line: &[u8]) -> bool {
        self.lines().next().is_some_and(|first| first.trim_ascii() == line)
    }
}

/// Reads one line into one request.
pub(crate) trait TextParser: Send {
    /// `line` has no line end and is not blank.
    fn line(&mut self, line: &[u8], volumes: &mut Volumes) -> Result<Parsed, Malformed>;

    /// Whether the arrivals mean anything.
    fn timed(&self) -> bool {
        true
    }

    /// A choice made from the head, for the announcement.
    fn note(&self) -> Option<String> {
        None
    }
}

/// Reads one binary record into one request.
pub(crate) trait BinaryParser: Send {
    /// Bytes of the record at the start of `window`, or of the part of it that tells its size.
    fn bytes(&self, window: &[u8]) -> usize;

    /// `record` is as long as [`BinaryParser::bytes`] said.
    fn record(&mut self, record: &[u8], volumes: &mut Volumes) -> Result<Parsed, Malformed>;

    /// A choice made from the head, for the announcement. `merged`: what is read has the files of all CPUs, by time.
    fn note(&self, _merged: bool) -> Option<String> {
        None
    }
}

pub(crate) enum Parser {
    Text(Box<dyn TextParser>),
    Binary(Box<dyn BinaryParser>),
}

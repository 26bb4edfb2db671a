//! Where requests come from: trace files in many formats, generators, and twins of published workloads.
//!
//! Whatever the origin, the rest of the laboratory sees a [`Source`] that yields [`Request`]s in batches, so that a
//! trace of any length is streamed and never held whole.

pub mod adapt;
pub mod character;
pub mod format;
pub mod generate;
pub mod merge;
pub mod profile;

use std::fmt;

/// What a request asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum Operation {
    /// Read the extent.
    Read,
    /// Write the extent.
    Write,
    /// Discard the extent.
    Trim,
    /// Make everything acknowledged so far durable; has no extent.
    Flush,
}

/// One host request, 32 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// Arrival in nanoseconds since the first request of the trace (0 throughout if the origin has no times).
    pub arrival_ns: u64,
    /// First byte, within its volume.
    pub offset: u64,
    /// Bytes; 0 only for a flush.
    pub bytes: u64,
    /// Which of the trace's volumes (ASU, disk, device …), numbered from 0 in order of first appearance.
    pub volume: u32,
    /// What is asked.
    pub operation: Operation,
}

/// What a source met on its way and did not pass on unchanged. Reported, never silent.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Intake {
    /// Requests yielded.
    pub requests: u64,
    /// Malformed records skipped (`--on-error skip`), and the first of them: line (or record) number and reason.
    pub skipped: u64,
    /// The first skipped record: its line or record number and what was wrong.
    pub first_skipped: Option<(u64, String)>,
    /// Records of other kinds that carry no request (headers, completions, plug events …).
    pub ignored: u64,
    /// Arrivals earlier than their predecessor's, clamped to it, and lone leaps of the clock, taken back to it.
    pub out_of_order: u64,
    /// The furthest such an arrival was off, in nanoseconds.
    pub worst_disorder_ns: u64,
    /// Whether the last line of a text is a request without a line end: what cut the file short may have cut a number.
    pub unended: bool,
    /// Names of the volumes, by number (`"asu 3"`, `"prxy.0"`, `"8,16"`).
    pub volumes: Vec<String>,
    /// SHA-256 over the file's bytes as stored (compressed), once the end was reached; `None` for generators.
    pub sha256: Option<String>,
}

/// A stream of requests.
pub trait Source: Send {
    /// Appends up to `limit` requests to `batch`. Nothing appended means the end.
    ///
    /// # Errors
    /// The first unreadable record, unless errors are skipped; I/O errors.
    fn fill(&mut self, batch: &mut Vec<Request>, limit: usize) -> Result<(), WorkloadError>;

    /// Puts the next requests, up to `limit`, in place of what `batch` holds; false at the end.
    ///
    /// # Errors
    /// Those of [`Source::fill`].
    fn refill(&mut self, batch: &mut Vec<Request>, limit: usize) -> Result<bool, WorkloadError> {
        batch.clear();
        self.fill(batch, limit)?;
        Ok(!batch.is_empty())
    }

    /// Goes back to the first request; false if that cannot be had again.
    fn rewind(&mut self) -> bool {
        false
    }

    /// What was met so far; complete after the end.
    fn intake(&self) -> &Intake;

    /// Whether the arrivals mean anything (a trace's times, a generator's arrival process).
    fn timed(&self) -> bool;
}

/// A workload that cannot be read or made: which file and line (or key), what is wrong, and how to mend it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WorkloadError {
    /// The file, or the workload specification.
    pub origin: String,
    /// Line (text) or record (binary), from 1; 0 if the fault is of the whole.
    pub line: u64,
    /// What is wrong.
    pub what: String,
    /// What to do about it; may be empty.
    pub fix: String,
}

impl fmt::Display for WorkloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.origin)?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        write!(f, ": {}", self.what)?;
        if !self.fix.is_empty() {
            write!(f, " ({})", self.fix)?;
        }
        Ok(())
    }
}

impl std::error::Error for WorkloadError {}

//! What the formats' tests share.

use std::io::Cursor;

use super::{OpenOptions, TraceFile};
use crate::workload::{Intake, Operation, Request, Source, WorkloadError};

/// Arrival in ns, offset, bytes, volume, operation.
pub(super) type Row = (u64, u64, u64, u32, Operation);

pub(super) fn open(bytes: &[u8], options: &OpenOptions<'_>) -> Result<TraceFile, WorkloadError> {
    TraceFile::from_reader("test", Box::new(Cursor::new(bytes.to_vec())), options)
}

pub(super) fn drain(source: &mut dyn Source) -> Result<Vec<Request>, WorkloadError> {
    let mut all = Vec::new();
    loop {
        let before = all.len();
        // An odd limit, so that the ends of batches fall everywhere.
        source.fill(&mut all, 7)?;
        if all.len() == before {
            return Ok(all);
        }
    }
}

pub(super) fn requests_of(bytes: &[u8], format: Option<&str>) -> Result<(Vec<Row>, Intake), WorkloadError> {
    let mut trace = open(bytes, &OpenOptions { format, ..OpenOptions::default() })?;
    let all = drain(&mut trace)?;
    let row = |got: &Request| (got.arrival_ns, got.offset, got.bytes, got.volume, got.operation);
    Ok((all.iter().map(row).collect(), trace.intake().clone()))
}

/// The requests of a text, which must be recognised as `format`.
pub(super) fn requests(text: &str, format: &str) -> (Vec<Row>, Intake) {
    let trace = open(text.as_bytes(), &OpenOptions::default()).unwrap();
    assert_eq!(trace.format().name, format);
    requests_of(text.as_bytes(), None).unwrap()
}

pub(super) fn error_of(bytes: &[u8], format: Option<&str>) -> WorkloadError {
    requests_of(bytes, format).unwrap_err()
}

/// The error of a line that is malformed as the second line of a trace asked to be of this format.
pub(super) fn only_error(line: &str, format: &str) -> WorkloadError {
    let super::Example::Text(example) = super::by_name(format).unwrap().example else {
        unreachable!("a text format");
    };
    let text = format!("{example}{line}\n{example}");
    let error = error_of(text.as_bytes(), Some(format));
    assert_eq!(error.line as usize, example.lines().count() + 1, "{error}");
    assert!(!error.what.is_empty() && !error.fix.is_empty(), "{error}");
    error
}

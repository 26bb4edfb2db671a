//! Opens trace files: the only place where the command turns a path into a reader.

use std::fs::File;
use std::io;
use std::path::Path;

use sim::workload::WorkloadError;
use sim::workload::format::{OpenOptions, TraceFile};

/// Opens a trace, compressed or not, and recognises its format.
///
/// # Errors
/// A missing or unreadable file, a directory, and whatever [`TraceFile::from_reader`] finds wrong.
pub(crate) fn open(path: &Path, options: &OpenOptions<'_>) -> Result<TraceFile, WorkloadError> {
    let name = path.display().to_string();
    let fault = |what: &str, fix: &str| WorkloadError {
        origin: name.clone(),
        line: 0,
        what: what.to_owned(),
        fix: fix.to_owned(),
    };
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => fault("there is no such file", "check the path"),
        io::ErrorKind::PermissionDenied => fault("may not be read", "check its permissions"),
        _ => fault(&format!("cannot be opened: {error}"), ""),
    };
    let file = File::open(path).map_err(failed)?;
    if file.metadata().map_err(failed)?.is_dir() {
        return Err(fault("is a directory", "name one trace file in it"));
    }
    TraceFile::from_reader(&name, Box::new(file), options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_file_is_named() {
        let error = |path: &str| open(Path::new(path), &OpenOptions::default()).err().map(|error| error.to_string());
        let missing = error("/no/such.spc");
        assert_eq!(missing.as_deref(), Some("/no/such.spc: there is no such file (check the path)"));
        let directory = error(env!("CARGO_MANIFEST_DIR"));
        assert!(directory.is_some_and(|error| error.contains("is a directory")));
    }
}

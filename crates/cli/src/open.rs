//! Opens traces: the only place where the command turns a name into requests, be it of a file, of a table, or of a
//! recording that is on board.

use std::fs::{self, File};
use std::io::{self, Cursor, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Once;

use crate::suggest;
use columnar::Table;
use recordings::{RECORDINGS, Recording};
use sim::workload::format::{FORMATS, OpenOptions, TraceFile};
use sim::workload::{Source, WorkloadError};

/// What stands before the name of a recording that is on board.
pub(crate) const RECORDING: &str = "recording";

/// An opened trace.
pub(crate) struct Trace {
    /// Its requests.
    pub(crate) source: Box<dyn Source>,
    /// One line for people: what is read, in which units, with which choices.
    pub(crate) announcement: String,
}

/// Whether a path is the standard input, or something else that is gone once it was read.
pub(crate) fn is_read_once(path: &Path) -> bool {
    let is_input = ["-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"].iter().any(|name| path == Path::new(name));
    is_input || fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir())
}

/// The names of the formats that can be read.
pub(crate) fn formats() -> impl Iterator<Item = &'static str> + Clone {
    FORMATS.iter().map(|format| format.name).chain([columnar::NAME])
}

/// Opens a trace, compressed or not, and recognises its format; or the recording that `recording:NAME` means.
///
/// # Errors
/// A missing or unreadable file, a directory, an unknown recording, and whatever its reader finds wrong.
pub(crate) fn open(path: &Path, options: &OpenOptions<'_>) -> Result<Trace, WorkloadError> {
    let name = path.display().to_string();
    let fault = |what: &str, fix: &str| WorkloadError {
        origin: name.clone(),
        line: 0,
        what: what.to_owned(),
        fix: fix.to_owned(),
    };
    if let Some(recording) = recording(&name)? {
        if options.format.is_some_and(|format| format != columnar::NAME) {
            return Err(fault("a recording is a table of its own", "leave --format out"));
        }
        return open_recording(recording, options.limit);
    }
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => fault("there is no such file", "check the path"),
        io::ErrorKind::PermissionDenied => fault("may not be read", "check its permissions"),
        _ => fault(&format!("cannot be opened: {error}"), ""),
    };
    let mut file = File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if metadata.is_dir() {
        return Err(fault("is a directory", "name one trace file in it"));
    }
    let unreadable = |error: io::Error| fault(&format!("cannot be read: {error}"), "");
    let mut start = Vec::new();
    file.by_ref().take(4).read_to_end(&mut start).map_err(unreadable)?;
    let asked = options.format == Some(columnar::NAME);
    match columnar::is_table(&start) {
        false if asked => Err(fault("is not Parquet", "leave out --format to let the content decide")),
        false => {
            let read = TraceFile::from_reader(&name, Box::new(Cursor::new(start).chain(file)), options);
            let trace = read.map_err(|error| match path.extension() {
                Some(extension) if extension == "toml" => {
                    fault("is no trace", &format!("an experiment file is for `ftlab run {name}`"))
                }
                _ => error,
            })?;
            let announcement = trace.announcement();
            Ok(Trace { source: Box::new(trace), announcement })
        }
        true if options.format.is_some() && !asked => {
            Err(fault("is Parquet", "leave out --format to let the content decide"))
        }
        true if metadata.is_file() => {
            file.seek(SeekFrom::Start(0)).map_err(unreadable)?;
            keep_quiet_about_damage();
            table(Table::of_file(&name, file, options.on_error, options.limit)?)
        }
        true => {
            // The directory of a table stands at its end, so what comes through a pipe is read whole.
            file.read_to_end(&mut start).map_err(unreadable)?;
            keep_quiet_about_damage();
            table(Table::of_bytes(&name, start, options.on_error, options.limit)?)
        }
    }
}

fn table(table: Table) -> Result<Trace, WorkloadError> {
    let announcement = table.announcement();
    Ok(Trace { source: Box::new(table), announcement })
}

/// The recording that `recording:NAME` means; `None` if a workload of this name is none.
///
/// # Errors
/// There is no such recording.
pub(crate) fn recording(name: &str) -> Result<Option<&'static Recording>, WorkloadError> {
    let Some(asked) = name.strip_prefix(RECORDING).and_then(|rest| rest.strip_prefix(':')) else { return Ok(None) };
    match recordings::by_name(asked) {
        Some(recording) => Ok(Some(recording)),
        None => Err(WorkloadError {
            origin: name.to_owned(),
            line: 0,
            what: format!("unknown recording \"{asked}\"{}", hint(asked)),
            fix: String::new(),
        }),
    }
}

/// The end of a message about an unknown recording.
fn hint(asked: &str) -> String {
    suggest::hint(asked, RECORDINGS.iter().map(|recording| recording.name))
}

/// Opens a recording that is on board, once its hash is right; at most `limit` requests of it.
///
/// # Errors
/// It is damaged.
pub(crate) fn open_recording(recording: &Recording, limit: Option<u64>) -> Result<Trace, WorkloadError> {
    let origin = format!("{RECORDING}:{}", recording.name);
    let bytes = recording.table().map_err(|damage| WorkloadError {
        origin: origin.clone(),
        line: 0,
        what: damage.to_string(),
        fix: String::new(),
    })?;
    table(Table::of_bytes(&origin, bytes, sim::workload::format::OnError::Stop, limit)?)
}

/// A damaged table makes its decoder panic, which the reader turns into an error; the panic itself is not printed.
fn keep_quiet_about_damage() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !columnar::is_decoding() {
                print(panic);
            }
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Directory;

    fn error(path: &str) -> String {
        open(Path::new(path), &OpenOptions::default()).err().unwrap().to_string()
    }

    #[test]
    fn what_is_no_file_is_named() {
        assert_eq!(error("/no/such.spc"), "/no/such.spc: there is no such file (check the path)");
        assert!(error(env!("CARGO_MANIFEST_DIR")).contains("is a directory"));
        assert!(error("recording:no-such").starts_with("recording:no-such: unknown recording \"no-such\""));
    }

    #[test]
    fn tables_are_recognised_by_content_alone() {
        let directory = Directory::new();
        let (text, parquet) = (directory.join("a.parquet"), directory.join("b.spc"));
        std::fs::write(&text, "0,8,4096,W,0.5\n").unwrap();
        std::fs::write(&parquet, "PAR1 but no table PAR1").unwrap();
        let open = |path, format| open(path, &OpenOptions { format, ..OpenOptions::default() });
        assert!(open(&text, None).is_ok_and(|trace| trace.announcement.starts_with("spc: ")));
        let error = |path, format| open(path, format).err().unwrap().to_string();
        assert!(error(&text, Some("parquet")).contains("is not Parquet (leave out --format"));
        assert!(error(&parquet, Some("spc")).contains("is Parquet (leave out --format"));
        assert!(error(&parquet, None).contains("b.spc: cannot be read: "), "{}", error(&parquet, None));
    }
}

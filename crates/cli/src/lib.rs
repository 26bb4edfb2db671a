//! The `ftlab` command: arguments, experiment files, progress, and the faces of a report.
//!
//! The binary is a few lines over this library, so that everything a user sees is under test. Nothing here simulates;
//! nothing below this crate prints or exits, and only `device` opens files and sockets: images, and where they are
//! served.

use std::ffi::OsString;
use std::io::Write;

pub mod args;
pub mod capture;
pub mod commands;
pub mod error;
pub mod experiment_file;
mod feed;
mod open;
pub mod output;
pub mod per_request;
pub mod progress;
pub mod render;
pub mod scheme_page;
pub mod session;
pub mod suggest;
pub mod units;
mod workload;

#[cfg(test)]
mod testing;

/// What fuzz targets look at.
#[cfg(feature = "fuzzing")]
pub mod fuzzing {
    pub use crate::commands::reproduce::fuzzing::paper;
    pub use crate::experiment_file::fuzzing::experiment;
}

pub use commands::Ended;
pub use error::CliError;

/// Reads a command line, has the command run, and tells the user what went wrong: one line on `stderr`. Returns what
/// the process should exit with. Help goes to `stdout`.
pub fn run<I, T>(
    words: I,
    stdout: &mut dyn Write,
    stderr: &mut dyn Write,
    command: impl FnOnce(args::Command, &mut dyn Write) -> Result<Ended, CliError>,
) -> u8
where
    I: IntoIterator<Item = T>,
    T: Into<OsString> + Clone,
{
    let outcome = match args::parse(words) {
        Ok(args::Invocation::Print(text)) => print(stdout, &text).map(|()| Ended::Done),
        Ok(args::Invocation::Command(asked)) => command(asked, stdout),
        Err(error) => Err(error),
    };
    match outcome {
        Ok(ended) => ended.exit_code(),
        Err(error) => {
            // Nobody is left to tell if standard error is closed.
            let _ = writeln!(stderr, "error: {error}");
            CliError::EXIT_CODE
        }
    }
}

/// Prints to standard output. A reader that closed the pipe (`| head`) has seen enough: that is no error.
///
/// # Errors
/// Standard output cannot be written, for example because it is a file on a full disk.
pub fn print(stdout: &mut dyn Write, text: &str) -> Result<(), CliError> {
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(cause) if cause.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(CliError::new(format_args!("cannot write to standard output: {}", error::io_reason(&cause))))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(line: &str, result: Result<Ended, CliError>) -> (u8, String, String) {
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let code = run(line.split_whitespace(), &mut stdout, &mut stderr, |_, out| {
            print(out, "ran\n")?;
            result
        });
        (code, String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
    }

    #[test]
    fn success_help_and_errors() {
        assert_eq!(outcome("ftlab compare", Ok(Ended::Done)), (0, "ran\n".into(), String::new()));
        let (code, stdout, stderr) = outcome("ftlab", Ok(Ended::Done));
        assert!(code == 0 && stdout.contains("Usage: ftlab") && stderr.is_empty(), "{stdout}{stderr}");
        let (code, stdout, stderr) = outcome("ftlab compare --fil none", Ok(Ended::Done));
        assert_eq!((code, stdout.as_str(), stderr.lines().count()), (2, "", 1), "{stderr}");
        assert!(stderr.starts_with("error: unexpected argument '--fil' found"), "{stderr}");
        assert_eq!(outcome("ftlab compare", Ok(Ended::Interrupted)).0, 130);
        let (code, _, stderr) = outcome("ftlab compare", Err(CliError::new("no\nway")));
        assert_eq!((code, stderr.as_str()), (2, "error: no way\n"));
    }

    #[test]
    fn a_closed_pipe_is_no_error_and_a_full_disk_is() {
        struct Failing(std::io::ErrorKind);
        impl Write for Failing {
            fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
                Err(self.0.into())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        assert_eq!(print(&mut Failing(std::io::ErrorKind::BrokenPipe), "x"), Ok(()));
        let error = print(&mut Failing(std::io::ErrorKind::StorageFull), "x").unwrap_err();
        assert_eq!(error.message(), "cannot write to standard output: no space left on the device");
    }
}

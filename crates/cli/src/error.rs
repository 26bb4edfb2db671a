//! The one kind of failure that a user sees.

use std::fmt;
use std::io;
use std::path::Path;

/// A user's error: one line that says what is wrong, where, and what to do about it. The command prints it as
/// `error: …` on standard error and exits with [`CliError::EXIT_CODE`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CliError(String);

impl CliError {
    /// What the process exits with.
    pub const EXIT_CODE: u8 = 2;

    /// An error with this message; line breaks become spaces.
    pub fn new(message: impl fmt::Display) -> CliError {
        let message = message.to_string();
        CliError(message.split_whitespace().collect::<Vec<_>>().join(" "))
    }

    /// An operation on a file that the system refused: `cannot write report.json: no such directory`.
    pub fn file(verb: &str, path: &Path, cause: &io::Error) -> CliError {
        CliError::new(format_args!("cannot {verb} {}: {}", path.display(), io_reason(cause)))
    }

    /// An unknown name, with the nearest known one: `unknown scheme "dtfl"; did you mean "dftl"?`.
    pub fn unknown<'a>(what: &str, name: &str, known: impl IntoIterator<Item = &'a str>) -> CliError {
        CliError::new(format_args!("unknown {what} \"{name}\"{}", crate::suggest::hint(name, known)))
    }

    /// The message without the leading `error: `.
    pub fn message(&self) -> &str {
        &self.0
    }

    /// The same error said to come from somewhere: `exp.toml:3: …`.
    #[must_use]
    pub fn within(self, place: impl fmt::Display) -> CliError {
        CliError::new(format_args!("{place}: {}", self.0))
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CliError {}

/// The reason in plain words, without the system's error number.
pub(crate) fn io_reason(cause: &io::Error) -> String {
    match cause.kind() {
        io::ErrorKind::NotFound => "no such file or directory".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        io::ErrorKind::StorageFull => "no space left on the device".to_owned(),
        io::ErrorKind::IsADirectory => "it is a directory".to_owned(),
        _ => {
            let text = cause.to_string();
            text.split(" (os error").next().unwrap_or(&text).to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_one_line() {
        assert_eq!(CliError::new("a\n  b\n").message(), "a b");
    }

    #[test]
    fn files_are_named_with_a_plain_reason() {
        let error = CliError::file("read", Path::new("x/y"), &io::Error::from_raw_os_error(2));
        assert_eq!(error.to_string(), "cannot read x/y: no such file or directory");
        let error = CliError::file("write", Path::new("x"), &io::Error::from_raw_os_error(28));
        assert_eq!(error.to_string(), "cannot write x: no space left on the device");
        let error = CliError::file("write", Path::new("x"), &io::Error::from_raw_os_error(5));
        assert!(!error.to_string().contains("os error"));
    }

    #[test]
    fn places_are_put_in_front() {
        assert_eq!(CliError::new("bad").within("exp.toml:3").message(), "exp.toml:3: bad");
    }
}

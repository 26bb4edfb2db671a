//! Why an image cannot be used.

use super::header;
use super::layout::UNIT;
use std::io;
use std::path::PathBuf;

/// Why an image cannot be used. The file was not written to.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The host refused.
    #[error("cannot {verb} {}: {cause}", path.display())]
    Host {
        /// What was tried.
        verb: &'static str,
        /// The file.
        path: PathBuf,
        /// The host's reason.
        cause: io::Error,
    },
    /// There is a file already.
    #[error("{} exists already, and would be lost", .0.display())]
    Exists(PathBuf),
    /// A directory, a pipe, a device.
    #[error("{} is not a regular file, and an image is one", .0.display())]
    NotAFile(PathBuf),
    /// Something else.
    #[error("{} is not an ftlab image", .0.display())]
    Foreign(PathBuf),
    /// Written by a later version.
    #[error("{} is an image of format {found}; this ftlab knows formats up to {}", path.display(), header::VERSION)]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u32,
    },
    /// Of a code that is not known.
    #[error("{} has the error-correcting code {code}, which this ftlab does not know", path.display())]
    UnknownCode {
        /// The file.
        path: PathBuf,
        /// The code as it stands in the header.
        code: String,
    },
    /// Too short.
    #[error("{} is truncated: it has {bytes} bytes of {needed}", path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Its bytes.
        bytes: u64,
        /// Those that it should have at least.
        needed: u64,
    },
    /// Both copies of something that is needed are not what was written.
    #[error("{} is damaged: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// Another process has it.
    #[error("{} is in use by another process", .0.display())]
    InUse(PathBuf),
    /// The parameters do not fit the header.
    #[error("the scheme's parameters take more than {UNIT} bytes of text")]
    TooLong,
}

//! `ftlab reference`.

use clap::{Args, ValueHint};
use std::path::PathBuf;

/// `ftlab reference`.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct ReferenceArgs {
    /// Directory to write the pages into; it is made if it is missing
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub directory: PathBuf,
}

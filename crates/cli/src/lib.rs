//! The `ftlab` command: arguments, experiment files, progress, and the faces of a report.
//!
//! The binary is a few lines over this library, so that everything a user sees is under test. Nothing here simulates;
//! nothing below this crate opens a file, prints or exits.

pub mod args;
pub mod error;
pub mod experiment_file;
pub mod output;
pub mod progress;
pub mod render;
pub mod suggest;
pub mod units;

#[cfg(test)]
mod testing;

pub use error::CliError;

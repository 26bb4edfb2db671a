//! JSON: the report as it is.

use crate::error::CliError;
use crate::output;
use sim::report::Report;
use std::path::Path;

/// The report as indented JSON with a final line break.
///
/// # Errors
/// A value that JSON cannot hold.
pub fn render(report: &Report) -> Result<String, CliError> {
    let mut text = serde_json::to_string_pretty(report).map_err(CliError::new)?;
    text.push('\n');
    Ok(text)
}

/// Writes the report as JSON.
///
/// # Errors
/// The file cannot be written; nothing of it is left.
pub fn write(report: &Report, path: &Path) -> Result<(), CliError> {
    output::write_file(path, render(report)?.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Directory, eight};

    #[test]
    fn reads_back_exactly() {
        let directory = Directory::new();
        let path = directory.join("report.json");
        write(&eight(), &path).unwrap();
        assert_eq!(Report::from_json(&std::fs::read_to_string(path).unwrap()).unwrap(), eight());
    }
}

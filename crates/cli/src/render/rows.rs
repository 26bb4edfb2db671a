//! Small tables that the terminal and the page share.

use super::words::labels;
use sim::report::{Report, SchemeResult};

/// A small table: columns (title, unit) and per run a label with its cells.
pub(super) type Rows = (Vec<(&'static str, &'static str)>, Vec<(String, Vec<String>)>);

/// A column whose cells follow from a result: title, unit, and its cell if the run has one.
pub(super) type Field = (&'static str, &'static str, fn(&SchemeResult) -> Option<String>);

/// The columns of which a run has a value, and each run's cells; nothing if no run has any.
pub(super) fn rows_of(report: &Report, columns: &[Field]) -> Option<Rows> {
    let shown: Vec<&Field> =
        columns.iter().filter(|(_, _, cell)| report.results.iter().any(|result| cell(result).is_some())).collect();
    if shown.is_empty() {
        return None;
    }
    let rows = labels(report).into_iter().zip(&report.results).map(|(label, result)| {
        let cells = shown.iter().map(|(_, _, cell)| cell(result).unwrap_or_else(|| "-".to_owned()));
        (label, cells.collect())
    });
    Some((shown.iter().map(|&&(title, unit, _)| (title, unit)).collect(), rows.collect()))
}

//! How evenly blocks were worn, as rows for the table on the terminal and for the page.

use super::labels;
use super::table::Estimates;
use crate::units;
use sim::report::{Report, SchemeResult};

/// One column: title, unit, and its cell if the run has one.
pub(super) type Column = (&'static str, &'static str, fn(&SchemeResult) -> Option<String>);

const COLUMNS: [Column; 10] = [
    ("mean", "erases", |result| Some(units::number(result.erase_count.as_ref()?.mean))),
    ("st. dev.", "erases", |result| Some(units::number(result.erase_count.as_ref()?.stdev))),
    ("min", "erases", |result| Some(units::whole(result.erase_count.as_ref()?.min))),
    ("max", "erases", |result| Some(units::whole(result.erase_count.as_ref()?.max))),
    ("moves", "copies", |result| Some(units::whole(result.wear_levelling.as_ref()?.copies))),
    ("moves", "erases", |result| Some(units::whole(result.wear_levelling.as_ref()?.erases))),
    ("moves", "% cost", |result| Some(units::number(result.wear_levelling.as_ref()?.percent_of_cleaning?))),
    ("iterations", "", |result| Some(units::number(result.until.as_ref()?.iterations))),
    ("written", "", |result| Some(units::bytes(result.until.as_ref()?.host_bytes_written).replace(' ', ""))),
    ("bad", "blocks", |result| Some(units::whole(result.until.as_ref()?.worn_out_blocks?))),
];

/// How evenly blocks were worn.
pub(super) fn rows(report: &Report) -> Option<Estimates> {
    rows_of(report, &COLUMNS)
}

/// The columns of which a run has a value, and each run's cells; nothing if no run has any.
pub(super) fn rows_of(report: &Report, columns: &[Column]) -> Option<Estimates> {
    let shown: Vec<&Column> =
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

/// Whether a run was made to see how blocks wear.
pub(super) fn is_asked_for(report: &Report) -> bool {
    report.results.iter().any(|result| result.wear_levelling.is_some() || result.until.is_some())
}

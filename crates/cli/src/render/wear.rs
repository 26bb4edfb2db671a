//! How evenly blocks were worn, as rows for the table on the terminal and for the page.

use super::rows::{Field, Rows, rows_of};
use crate::units;
use sim::report::Report;

const COLUMNS: [Field; 10] = [
    ("mean", "erases", |result| Some(units::number(result.erase_count.as_ref()?.mean))),
    ("st. dev.", "erases", |result| Some(units::number(result.erase_count.as_ref()?.stdev))),
    ("min", "erases", |result| Some(units::whole(result.erase_count.as_ref()?.min))),
    ("max", "erases", |result| Some(units::whole(result.erase_count.as_ref()?.max))),
    ("moves", "copies", |result| Some(units::whole(result.wear_levelling.as_ref()?.copies))),
    ("moves", "erases", |result| Some(units::whole(result.wear_levelling.as_ref()?.erases))),
    ("moves", "% cost", |result| Some(units::number(result.wear_levelling.as_ref()?.percent_of_cleaning?))),
    ("iterations", "", |result| Some(units::number(result.until.as_ref()?.iterations))),
    ("written", "", |result| Some(units::bytes(result.until.as_ref()?.host_bytes_written))),
    ("bad", "blocks", |result| Some(units::whole(result.until.as_ref()?.worn_out_blocks?))),
];

/// How evenly blocks were worn.
pub(super) fn rows(report: &Report) -> Option<Rows> {
    rows_of(report, &COLUMNS)
}

/// Whether a run was made to see how blocks wear.
pub(super) fn is_asked_for(report: &Report) -> bool {
    report.results.iter().any(|result| result.wear_levelling.is_some() || result.until.is_some())
}

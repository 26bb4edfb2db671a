//! With how much effort pages were programmed and which code they were read with, as rows for the table on the terminal
//! and for the page.

use super::table::Estimates;
use super::wear::{Column, rows_of};
use crate::units;
use sim::ecc::Ecc;
use sim::report::{Report, SchemeResult};

const COLUMNS: [Column; 9] = [
    ("low cost", "% writes", |result| percent(result, |ecc| ecc.low_cost_write_ratio)),
    ("low cost", "% copies", |result| percent(result, |ecc| ecc.low_cost_copy_ratio)),
    ("low cost", "% reads", |result| percent(result, |ecc| ecc.low_cost_read_ratio)),
    ("rewrites", "pages", |result| Some(units::whole(result.ecc.as_ref()?.rewrites))),
    ("read and written", "% pages", |result| percent(result, |ecc| ecc.overlap_ratio)),
    ("in windows", "% pages", |result| percent(result, |ecc| ecc.window_overlap_ratio)),
    ("write", "µs", |result| Some(units::number(result.response_us.as_ref()?.write.as_ref()?.mean))),
    ("read", "µs", |result| Some(units::number(result.response_us.as_ref()?.read.as_ref()?.mean))),
    ("queueing", "µs", |result| Some(units::number(result.queue_us.as_ref()?.mean))),
];

fn percent(result: &SchemeResult, share: fn(&Ecc) -> Option<f64>) -> Option<String> {
    Some(units::number(100.0 * share(result.ecc.as_ref()?)?))
}

/// A row for each run, also those without a policy, if one has one.
pub(super) fn rows(report: &Report) -> Option<Estimates> {
    report.results.iter().find(|result| result.ecc.is_some())?;
    rows_of(report, &COLUMNS)
}

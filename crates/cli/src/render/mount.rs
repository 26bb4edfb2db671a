//! What it takes to mount a device, as rows for the table on the terminal and for the page.

use super::rows::{Field, Rows, rows_of};
use crate::units;
use sim::report::{MOUNT, MOUNT_SECONDS, Report, STATE_SECONDS, SchemeResult};

const COLUMNS: [Field; 5] = [
    ("scan", "spare areas", |result| Some(units::whole(count(result, MOUNT[0])?))),
    ("scan", "pages", |result| Some(units::whole(count(result, MOUNT[1])?))),
    ("scan", "s", |result| Some(units::number(result.extra.get(MOUNT_SECONDS)?.as_f64()?))),
    ("state", "KiB", |result| Some(units::whole(count(result, MOUNT[4])?.div_ceil(1024)))),
    ("state", "s", |result| Some(units::number(result.extra.get(STATE_SECONDS)?.as_f64()?))),
];

fn count(result: &SchemeResult, key: &str) -> Option<u64> {
    result.extra.get(key)?.as_u64()
}

/// A row for each run that was mounted afterwards.
pub(super) fn rows(report: &Report) -> Option<Rows> {
    rows_of(report, &COLUMNS)
}

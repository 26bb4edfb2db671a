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

/// What the rows set side by side. A served device has read its flash, and nobody knows what else it might have read.
pub(super) fn title(report: &Report) -> &'static str {
    if report.results.iter().any(|result| result.extra.contains_key(STATE_SECONDS)) {
        "mounting from flash: a scan of all spare areas, or the controller's state from metadata pages"
    } else {
        "mounting from flash: a scan of all spare areas"
    }
}

/// A row for each run that was mounted afterwards.
pub(super) fn rows(report: &Report) -> Option<Rows> {
    rows_of(report, &COLUMNS)
}

//! The columns of a report's first table, and what repeated runs say about them.

use super::meaning::keeps_nothing;
use super::rows::Rows;
use super::words::labels;
use crate::units;
use sim::report::{Repeats, Report, SchemeResult};

/// One column of the summary: how it is headed, what it shows, and which value is best.
pub(super) struct Column {
    pub(super) title: String,
    pub(super) unit: &'static str,
    /// Whether a larger value is the better one.
    larger: bool,
    /// Whether it counts what a run did, so that runs of different lengths do not compare in it.
    counts: bool,
    value: Value,
    divisor: f64,
    /// How a value in its unit is written.
    written: fn(f64) -> String,
}

type Value = fn(&SchemeResult) -> Option<f64>;

/// The columns of response times, in microseconds.
const RESPONSE: [(&str, Value); 3] = [
    ("mean resp.", |result| Some(result.response_us.as_ref()?.mean)),
    ("p99 resp.", |result| Some(result.response_us.as_ref()?.p99)),
    ("p99.9 resp.", |result| Some(result.response_us.as_ref()?.p999)),
];

/// Whether each result competes: runs that ended early do not, nor schemes that keep no data beside others.
fn competes(results: &[SchemeResult]) -> impl Fn(&SchemeResult) -> bool {
    let all_null = results.iter().all(keeps_nothing);
    move |result| result.is_complete() && (all_null || !keeps_nothing(result))
}

/// Whether complete runs repeated their workload, and not all as often.
pub(super) fn differ_in_length(results: &[SchemeResult]) -> bool {
    let mut times =
        results.iter().filter(|result| result.is_complete()).map(|result| Some(result.until.as_ref()?.iterations));
    times.next().is_some_and(|first| times.any(|other| other != first))
}

impl Column {
    /// The value as printed.
    pub(super) fn text(&self, result: &SchemeResult) -> Option<String> {
        Some((self.written)((self.value)(result)? / self.divisor))
    }

    /// For each result whether it has the column's best value: by value, for two that print alike may differ.
    pub(super) fn best(&self, results: &[SchemeResult]) -> Vec<bool> {
        if self.counts && differ_in_length(results) {
            return vec![false; results.len()];
        }
        let competes = competes(results);
        let values = || results.iter().filter(|&result| competes(result)).filter_map(self.value);
        let best = if self.larger { values().reduce(f64::max) } else { values().reduce(f64::min) };
        let distinct = values().any(|value| Some(value) != best);
        results.iter().map(|result| distinct && competes(result) && (self.value)(result) == best).collect()
    }
}

/// The summary's columns: those of which at least one result has a value.
pub(super) fn columns(results: &[SchemeResult]) -> Vec<Column> {
    let largest = |value: Value| results.iter().filter_map(value).fold(0.0, f64::max);
    let (time_unit, time_divisor) = time_unit(results);
    // A run that ended before it was measured has neither.
    fn measured(result: &&SchemeResult) -> bool {
        result.is_complete() || result.response_us.is_some()
    }
    let erases: Value = |result| Some(result).filter(measured).map(|result| result.flash.erases as f64);
    let (erase_unit, erase_divisor) = if largest(erases) >= 1e6 { ("x1000", 1e3) } else { ("blocks", 1.0) };
    // A scheme that a program brought along reports nothing.
    fn reported(result: &&SchemeResult) -> bool {
        measured(result) && (result.sram_bytes > 0 || result.scheme == "null")
    }
    let ram: Value = |result| Some(result).filter(reported).map(|result| result.sram_bytes as f64);
    let mut columns: Vec<Column> = RESPONSE
        .into_iter()
        .map(|(title, value)| Column {
            title: title.to_owned(),
            unit: time_unit,
            larger: false,
            counts: false,
            value,
            divisor: time_divisor,
            written: units::number,
        })
        .collect();
    let others: [(&str, &'static str, bool, Value, f64); 6] = [
        ("above page", "%", false, |result| result.t_pc, 1.0),
        ("WAF", "pages", false, |result| result.waf, 1.0),
        ("erases", erase_unit, false, erases, erase_divisor),
        ("cache hits", "%", true, |result| result.cache.as_ref()?.hit_ratio, 0.01),
        ("map time", "% flash", false, |result| result.tp_overhead, 0.01),
        ("total RAM", "KiB", false, ram, 1024.0),
    ];
    columns.extend(others.into_iter().map(|(title, unit, larger, value, divisor)| Column {
        title: title.to_owned(),
        unit,
        larger,
        counts: title == "erases",
        value,
        divisor,
        // Of hits there may be almost all.
        written: if larger { units::percent } else { units::number },
    }));
    columns.retain(|column| results.iter().any(|result| (column.value)(result).is_some()));
    columns
}

/// The least number that [`units::number`] writes with three significant digits.
const LEAST_IN_FULL: f64 = 0.01;

/// The longest response time, in characters, that leaves room for the other columns.
const WIDEST_TIME: usize = "1,234,567".len();

/// The unit of response times, and how many microseconds it has: one that suits the largest mean, or a smaller one as
/// far as the best times need it to have three digits and the longest has room.
fn time_unit(results: &[SchemeResult]) -> (&'static str, f64) {
    let competes = competes(results);
    let times = |result| RESPONSE.into_iter().filter_map(move |(_, value)| value(result));
    let largest = results.iter().filter_map(RESPONSE[0].1).fold(0.0, f64::max);
    let longest = results.iter().flat_map(times).fold(0.0, f64::max);
    let best = results.iter().filter(|&result| competes(result)).flat_map(times).filter(|&time| time > 0.0);
    let best = best.fold(f64::INFINITY, f64::min);
    let is_wide = |&(_, divisor): &(&str, f64)| units::number(longest / divisor).len() > WIDEST_TIME;
    let mut unit = match largest {
        mean if mean >= 1e7 => ("s", 1e6),
        mean if mean >= 1e4 => ("ms", 1e3),
        _ => ("µs", 1.0),
    };
    for finer in [("ms", 1e3), ("µs", 1.0)] {
        if finer.1 < unit.1 && best / unit.1 < LEAST_IN_FULL && !is_wide(&finer) {
            unit = finer;
        }
    }
    unit
}

/// What repeated runs say about the main metrics; nothing after single runs.
pub(super) fn estimates(report: &Report) -> Option<Rows> {
    let (time_unit, time_divisor) = time_unit(&report.results);
    let metrics: [(&str, &str, &str, f64); 7] = [
        ("response_us.mean", "mean resp.", time_unit, time_divisor),
        ("response_us.p99", "p99 resp.", time_unit, time_divisor),
        ("waf", "WAF", "pages", 1.0),
        ("flash.erases", "erases", "blocks", 1.0),
        ("cache.hit_ratio", "cache hits", "%", 0.01),
        ("tp_overhead", "map time", "% flash", 0.01),
        ("until.host_bytes_written", "written", "MiB", 1048576.0),
    ];
    let repeats = || report.results.iter().filter_map(|result| result.repeats.as_ref());
    let shown: Vec<_> =
        metrics.into_iter().filter(|(key, ..)| repeats().any(|repeats| repeats.metrics.contains_key(*key))).collect();
    repeats().next()?;
    let rows = labels(report).into_iter().zip(&report.results).map(|(label, result)| {
        let cells = shown.iter().map(|&(key, _, _, divisor)| {
            let written = if key == "cache.hit_ratio" { units::percent } else { units::number };
            let estimate = result.repeats.as_ref().and_then(|repeats| repeats.metrics.get(key));
            estimate.map_or_else(
                || "-".to_owned(),
                |e| format!("{} ± {}", written(e.mean / divisor), units::number(e.half_width_95 / divisor)),
            )
        });
        (label, cells.collect())
    });
    Some((shown.iter().map(|&(_, title, unit, _)| (title, unit)).collect(), rows.collect()))
}

/// What to say of repeated runs whose seed makes no difference; nothing if it makes one in all.
pub(super) fn identical(report: &Report) -> Option<String> {
    let is_identical = |result: &SchemeResult| result.repeats.as_ref().is_some_and(Repeats::are_identical);
    let rows = labels(report).into_iter().zip(&report.results);
    let same: Vec<String> = rows.filter(|(_, result)| is_identical(result)).map(|(label, _)| label).collect();
    let of = if same.len() == report.results.len() { String::new() } else { format!(" of {}", same.join(", ")) };
    let runs = report.results.iter().find_map(|result| Some(result.repeats.as_ref()?.n))?;
    (!same.is_empty())
        .then(|| format!("The {runs} runs{of} are identical in all that is compared: none of it is drawn by lot."))
}

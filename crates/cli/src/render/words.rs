//! What the faces of a report say in the same words: how a run is called, what a cause is, what ran.

use super::columns::differ_in_length;
use crate::units;
use serde_json::Value;
use sim::report::{Report, SchemeResult};
use sim::workload::generate::published;

/// The parameters of a write buffer: its policy, and its size. Those of the policy begin with the first, too.
const BUFFER: &str = "buffer";
const BUFFER_BYTES: &str = "buffer-bytes";

/// What each result is called: its scheme, and of several runs of one scheme the parameters in which they differ.
pub fn labels(report: &Report) -> Vec<String> {
    let results = &report.results;
    results
        .iter()
        .map(|result| {
            let siblings = || results.iter().filter(|other| other.scheme == result.scheme);
            // Rounded, as long as no two sizes are called the same then.
            let size = |key: &str, value: &Value| {
                let rounded = |value: &Value| units::bytes(value.as_u64().unwrap_or_default());
                let others = || siblings().filter_map(|other| other.params.get(key)).filter(|&other| other != value);
                let is_one = others().all(|other| rounded(other) != rounded(value));
                if is_one { rounded(value) } else { format!("{} B", plain(value)) }
            };
            let mut label = result.scheme.clone();
            for (key, value) in &result.params {
                // A write buffer without siblings of its policy says enough by policy and size.
                let alike = |other: &&SchemeResult| {
                    key == BUFFER || !key.starts_with(BUFFER) || other.params.get(BUFFER) == result.params.get(BUFFER)
                };
                if siblings().filter(alike).all(|other| other.params.get(key) == Some(value)) {
                    continue;
                }
                label.push(' ');
                match (key.as_str(), value) {
                    (BUFFER_BYTES, Value::Number(number)) if number.is_u64() => label.push_str(&size(key, value)),
                    (BUFFER, value) => label.push_str(&plain(value)),
                    ("cache-bytes", Value::Number(number)) if number.is_u64() => {
                        label.push_str(&format!("cache {}", size(key, value)));
                    }
                    ("gc", value) => label.push_str(&plain(value)),
                    (key, value) => label.push_str(&format!("{key}={}", plain(value))),
                }
            }
            if siblings().any(|other| other.scheduler != result.scheduler) {
                label.push(' ');
                label.push_str(result.scheduler.as_deref().unwrap_or("fcfs"));
            }
            label
        })
        .collect()
}

/// A JSON value without the quotes of a string.
pub(crate) fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A cause as a phrase that fits "… of its flash time goes to": every key that [`flash::Cause`] has.
pub(super) fn phrase(cause: &str) -> &str {
    match cause {
        "host" => "the host's own reads and writes",
        "translation_load" => "loading translation pages",
        "translation_update" => "updating translation pages",
        "translation_gc" => "collecting translation blocks",
        "data_gc" => "collecting data blocks",
        "merge_switch" => "switch merges",
        "merge_partial" => "partial merges",
        "merge_full" => "full merges",
        "swap" => "swapping obsolete blocks",
        "wear_levelling" => "wear levelling",
        "ecc_rewrite" => "rewriting pages under another code",
        "metadata" => "metadata",
        "recovery" => "recovery",
        "pair_backup" => "backups of pages that share cells",
        "refresh" => "refreshing tired blocks",
        other => other,
    }
}

/// The causes of a result in the order of [`flash::Cause`], unknown ones (of a later version) last.
pub(super) fn causes(result: &SchemeResult) -> Vec<(&str, &sim::report::CauseTotals)> {
    let rank =
        |name: &str| flash::Cause::ALL.iter().position(|cause| cause.name() == name).unwrap_or(flash::Cause::ALL.len());
    let mut causes: Vec<_> = result.by_cause.iter().map(|(name, totals)| (name.as_str(), totals)).collect();
    causes.sort_by_key(|&(name, _)| rank(name));
    causes
}

/// Share of a result's flash time that a cause took.
pub(super) fn share(result: &SchemeResult, cause: &str) -> f64 {
    let us = result.by_cause.get(cause).map_or(0.0, |totals| totals.us);
    sim::report::ratio(us, result.flash.busy_us).unwrap_or(0.0)
}

/// What ran, in one line.
pub(super) fn headline(report: &Report) -> String {
    let workload = &report.workload;
    let device = report.device.get("name").map_or_else(|| "device".to_owned(), plain);
    let capacity = report.device.get("capacity").and_then(Value::as_u64);
    let capacity = capacity.map_or_else(String::new, |bytes| format!(" of {}", units::bytes(bytes)));
    let reads = sim::report::ratio(100.0 * workload.reads as f64, workload.requests as f64)
        .map_or_else(String::new, |share| format!(" ({share:.0} % reads)"));
    let word = published::word(&workload.name).map_or_else(String::new, |word| format!(" ({word})"));
    // The number is of the run that went on longest.
    let results = &report.results;
    let all_ended = results.len() > 1 && !results.iter().any(SchemeResult::is_complete);
    let up_to = if all_ended || differ_in_length(results) { "up to " } else { "" };
    format!(
        "{}{word}: {up_to}{} requests{reads} on {device}{capacity}, seed {}",
        workload.name,
        units::whole(workload.requests),
        report.seed
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{eight, report, result, three};

    #[test]
    fn labels_say_only_what_differs() {
        assert_eq!(labels(&three()), ["page", "dftl", "dftl-e"]);
        let labels = labels(&eight());
        assert_eq!(labels[0], "page");
        assert_eq!(labels[1], "dftl cache 64 KiB");
        assert_eq!(labels[2], "dftl cache 4 MiB");
    }

    #[test]
    fn labels_name_write_buffers() {
        let with = |buffer: &[(&str, Value)]| {
            let mut result = result("dftl", 1.0, 1.0, 0.5);
            result.params.extend(buffer.iter().map(|(key, value)| ((*key).to_owned(), value.clone())));
            result
        };
        let fab = |bytes: u64| with(&[("buffer", "fab".into()), ("buffer-bytes", bytes.into())]);
        let cflru = |window: f64| {
            with(&[("buffer", "cflru".into()), ("buffer-bytes", (1 << 20).into()), ("buffer-window", window.into())])
        };
        let named = |results: &[SchemeResult]| labels(&report(results.to_vec()));
        assert_eq!(named(&[with(&[]), fab(1 << 20)]), ["dftl", "dftl fab"]);
        assert_eq!(named(&[fab(1 << 20), cflru(0.5)]), ["dftl fab", "dftl cflru"]);
        assert_eq!(named(&[fab(1 << 20), fab(2 << 20), with(&[])]), ["dftl fab 1 MiB", "dftl fab 2 MiB", "dftl"]);
        let labels = named(&[fab(1 << 20), fab((1 << 20) + 1), fab(2 << 20)]);
        assert_eq!(labels, ["dftl 1048576 B", "dftl 1048577 B", "dftl 2 MiB"]);
        assert_eq!(named(&[cflru(0.25), cflru(0.5)]), ["dftl buffer-window=0.25", "dftl buffer-window=0.5"]);
    }

    #[test]
    fn every_cause_has_a_phrase() {
        for cause in flash::Cause::ALL {
            let spoken = phrase(cause.name());
            assert!(!spoken.contains('_'), "{spoken}");
        }
    }
}

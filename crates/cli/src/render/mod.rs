//! The faces of a report: a table on the terminal, JSON, CSV, Parquet and a page to look at.
//!
//! All of them read [`Report`] and nothing else, so a report read back from JSON renders as the fresh one did. What
//! more than one face needs is here: how a run is called, and what the numbers mean in words.

pub mod csv;
mod flat;
pub mod html;
pub mod json;
pub mod parquet;
pub mod table;

use crate::units;
use serde_json::Value;
use sim::report::{Report, SchemeResult};

/// What each result is called: its scheme, and of several runs of one scheme the parameters in which they differ.
pub fn labels(report: &Report) -> Vec<String> {
    let results = &report.results;
    results
        .iter()
        .map(|result| {
            let siblings = || results.iter().filter(|other| other.scheme == result.scheme);
            let mut label = result.scheme.clone();
            for (key, value) in &result.params {
                if siblings().all(|other| other.params.get(key) == Some(value)) {
                    continue;
                }
                label.push(' ');
                match (key.as_str(), value) {
                    ("cache-bytes", Value::Number(number)) if number.is_u64() => {
                        label.push_str(&units::bytes(number.as_u64().unwrap_or_default()));
                    }
                    ("gc", value) => label.push_str(&plain(value)),
                    (key, value) => label.push_str(&format!("{key}={}", plain(value))),
                }
            }
            label
        })
        .collect()
}

/// A JSON value without the quotes of a string.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A cause as a phrase that fits "… of its flash time goes to": every key that [`flash::Cause`] has.
fn phrase(cause: &str) -> &str {
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
        other => other,
    }
}

/// The causes of a result in the order of [`flash::Cause`], unknown ones (of a later version) last.
fn causes(result: &SchemeResult) -> Vec<(&str, &sim::report::CauseTotals)> {
    let rank =
        |name: &str| flash::Cause::ALL.iter().position(|cause| cause.name() == name).unwrap_or(flash::Cause::ALL.len());
    let mut causes: Vec<_> = result.by_cause.iter().map(|(name, totals)| (name.as_str(), totals)).collect();
    causes.sort_by_key(|&(name, _)| rank(name));
    causes
}

/// Share of a result's flash time that a cause took.
fn share(result: &SchemeResult, cause: &str) -> f64 {
    let us = result.by_cause.get(cause).map_or(0.0, |totals| totals.us);
    sim::report::ratio(us, result.flash.busy_us).unwrap_or(0.0)
}

/// What ran, in one line.
pub fn headline(report: &Report) -> String {
    let workload = &report.workload;
    let device = report.device.get("name").map_or_else(|| "device".to_owned(), plain);
    let capacity = report.device.get("capacity").and_then(Value::as_u64);
    let capacity = capacity.map_or_else(String::new, |bytes| format!(" of {}", units::bytes(bytes)));
    let reads = sim::report::ratio(100.0 * workload.reads as f64, workload.requests as f64)
        .map_or_else(String::new, |share| format!(" ({share:.0} % reads)"));
    format!(
        "{}: {} requests{reads} on {device}{capacity}, seed {}",
        workload.name,
        units::whole(workload.requests),
        report.seed
    )
}

/// Two sentences on what the numbers mean: who responds fastest and why, and what the write amplification does to the
/// flash. Runs that ended early are left out of comparisons.
pub fn meaning(report: &Report) -> [String; 2] {
    let labels = labels(report);
    let complete: Vec<(&str, &SchemeResult)> =
        labels.iter().map(String::as_str).zip(&report.results).filter(|(_, result)| result.is_complete()).collect();
    [speed(&complete), wear(&complete)]
}

fn speed(complete: &[(&str, &SchemeResult)]) -> String {
    let mut timed: Vec<(&str, &SchemeResult, f64)> = complete
        .iter()
        .filter_map(|&(label, result)| Some((label, result, result.response_us.as_ref()?.mean)))
        .collect();
    timed.sort_by(|a, b| a.2.total_cmp(&b.2));
    let (Some(&fastest), Some(&slowest)) = (timed.first(), timed.last()) else {
        return "No run served its whole workload, so there are no response times to compare.".to_owned();
    };
    let percent = |share: f64| format!("{:.0} %", 100.0 * share);
    let dominant = |result: &SchemeResult| {
        causes(result).into_iter().max_by(|a, b| a.1.us.total_cmp(&b.1.us)).map(|(name, _)| name.to_owned())
    };
    let (label, result, mean) = fastest;
    let factor = slowest.2 / mean;
    if timed.len() == 1 || !factor.is_finite() || factor < 1.005 {
        let subject = if timed.len() == 1 { label.to_owned() } else { "All schemes alike".to_owned() };
        let (responds, its) = if timed.len() == 1 { ("responds", "its") } else { ("respond", "the") };
        let why = dominant(result).map_or_else(String::new, |cause| {
            format!("; {} of {its} flash time goes to {}", percent(share(result, &cause)), phrase(&cause))
        });
        return format!("{subject} {responds} after {} on average{why}.", units::time_us(mean));
    }
    // The cause that costs the slowest most beyond what it costs the fastest explains the difference; if the flash is
    // no busier, the difference is waiting.
    let us = |result: &SchemeResult, cause: &str| result.by_cause.get(cause).map_or(0.0, |totals| totals.us);
    let excess = causes(slowest.1)
        .into_iter()
        .map(|(cause, totals)| (cause, totals.us - us(result, cause)))
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .filter(|&(_, excess)| excess > 0.0);
    let why = match excess {
        Some((cause, _)) => {
            let (own, other) = (share(slowest.1, cause), share(result, cause));
            let against = if other > 0.0 {
                format!("against {} under {label}", percent(other))
            } else {
                format!("and none under {label}")
            };
            format!("above all because {} of its flash time goes to {}, {against}", percent(own), phrase(cause))
        }
        None => "although its flash works no more: its requests wait longer for one another".to_owned(),
    };
    format!(
        "{label} responds fastest, after {} on average; {} takes {} times as long, {why}.",
        units::time_us(mean),
        slowest.0,
        units::number(factor)
    )
}

fn wear(complete: &[(&str, &SchemeResult)]) -> String {
    let mut worn: Vec<(&str, f64)> =
        complete.iter().filter_map(|&(label, result)| Some((label, result.waf?))).collect();
    worn.sort_by(|a, b| a.1.total_cmp(&b.1));
    let (Some(&least), Some(&most)) = (worn.first(), worn.last()) else {
        return "Nothing was written, so there is no write amplification (WAF) and no wear to speak of.".to_owned();
    };
    let factor = most.1 / least.1;
    let programs = |waf: f64| format!("{waf:.2} page{}", if format!("{waf:.2}") == "1.00" { "" } else { "s" });
    if worn.len() == 1 || !factor.is_finite() || factor < 1.005 {
        let subject = if worn.len() == 1 { least.0 } else { "every scheme" };
        return format!(
            "WAF is wear: for each page that the host writes, {subject} programs {}, so the flash endures {} of the \
             host writes that it could if nothing were ever moved.",
            programs(least.1),
            if least.1 <= 1.005 { "all".to_owned() } else { format!("{:.0} %", 100.0 / least.1) }
        );
    }
    format!(
        "WAF is wear: for each page that the host writes, {} programs {} and {} {:.2}, so the same flash endures about \
         {} times as many host writes under {}.",
        least.0,
        programs(least.1),
        most.0,
        most.1,
        units::number(factor),
        least.0
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
        assert_eq!(labels[1], "dftl 64 KiB");
        assert_eq!(labels[2], "dftl 4 MiB");
    }

    #[test]
    fn every_cause_has_a_phrase() {
        for cause in flash::Cause::ALL {
            let spoken = phrase(cause.name());
            assert!(!spoken.contains('_'), "{spoken}");
        }
    }

    #[test]
    fn meaning_is_derived_from_the_numbers() {
        let [speed, wear] = meaning(&three());
        assert_eq!(
            speed,
            "page responds fastest, after 412 µs on average; dftl takes 4.38 times as long, above all because 61 % of \
             its flash time goes to collecting data blocks, against 46 % under page."
        );
        assert_eq!(
            wear,
            "WAF is wear: for each page that the host writes, page programs 1.62 pages and dftl 3.58, so the same \
             flash endures about 2.21 times as many host writes under page."
        );
    }

    #[test]
    fn meaning_of_one_run_of_equal_runs_and_of_none() {
        let [speed, wear] = meaning(&report(vec![result("page", 500.0, 1.0, 0.0)]));
        assert!(speed.starts_with("page responds after 500 µs on average; "), "{speed}");
        assert!(wear.contains("page programs 1.00 page, so the flash endures all of"), "{wear}");
        let [speed, wear] = meaning(&report(vec![result("a", 500.0, 2.0, 0.0), result("b", 500.0, 2.0, 0.0)]));
        assert!(speed.starts_with("All schemes alike respond after 500 µs"), "{speed}");
        assert!(wear.contains("every scheme programs 2.00 pages, so the flash endures 50 %"), "{wear}");
        let [speed, wear] = meaning(&report(vec![]));
        assert!(speed.starts_with("No run served"), "{speed}");
        assert!(wear.starts_with("Nothing was written"), "{wear}");
    }

    #[test]
    fn runs_that_ended_early_are_not_compared() {
        let mut lame = result("dftl", 1.0, 1.0, 0.5);
        lame.ended = "device full: no block can be reclaimed".into();
        let sentences = meaning(&report(vec![lame, result("page", 500.0, 2.0, 0.0)]));
        assert!(sentences.iter().all(|sentence| !sentence.contains("dftl")), "{sentences:?}");
    }

    #[test]
    fn slower_without_more_work_is_waiting() {
        let [speed, _] = meaning(&report(vec![result("a", 500.0, 2.0, 0.0), result("b", 900.0, 2.0, 0.0)]));
        assert!(speed.contains("although its flash works no more"), "{speed}");
    }
}

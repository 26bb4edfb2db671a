//! Measures: numbers of a result, by their path in its JSON (`cache.hit_ratio`) or, for what a path cannot say, by one
//! of a few names. Both are documented in docs/metrics.md.

use crate::error::CliError;
use flash::{Cause, Op};
use serde_json::Value;
use sim::report::{Estimate, SchemeResult};

/// A measured number, with its uncertainty if runs were repeated.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Measured {
    /// The number, or the mean over runs.
    pub(super) value: f64,
    /// Half the width of the 99 % confidence interval.
    pub(super) half_width_99: Option<f64>,
}

impl Measured {
    /// A number without an uncertainty.
    pub(super) fn exact(value: f64) -> Measured {
        Measured { value, half_width_99: None }
    }
}

/// Whether a structure in RAM is a map that is wholly there, by its name.
pub(super) fn is_map(structure: &str) -> bool {
    structure.ends_with(" map")
}

type Derive = fn(&Value) -> Option<f64>;

/// Measures that are no path: name, and how they follow.
const DERIVED: &[(&str, Derive)] = &[
    ("miss_ratio", |result| Some(1.0 - number(result, "cache.hit_ratio")?)),
    ("tp_us", |result| sum(result, TRANSLATION, &["us"])),
    ("translation_ops", |result| sum(result, TRANSLATION, &["reads", "programs", "partial_programs"])),
    ("translation_reads", |result| sum(result, TRANSLATION, &["reads"])),
    ("translation_writes", |result| sum(result, TRANSLATION, &["programs", "partial_programs"])),
    ("switch_merges", |result| {
        let of = |name: &str| number(result, name);
        of("merges.switch").or_else(|| of("extra.gc_dead_victims"))
    }),
    ("merges", |result| {
        let kinds = ["merges.switch", "merges.partial", "merges.full"].iter().map(|kind| number(result, kind));
        kinds.sum::<Option<f64>>().or_else(|| number(result, "extra.gc_data_victims"))
    }),
    ("host_pages", |result| sum(result, &["host"], &["reads", "programs"])),
    ("extra_ops", |result| {
        let all = ["reads", "programs", "partial_programs"].iter().map(|op| number(result, &format!("flash.{op}")));
        Some(all.sum::<Option<f64>>()? - sum(result, &["host"], &["reads", "programs", "partial_programs"])?)
    }),
    ("mapping_bytes", |result| {
        let of = |structure: &str| number(result, &format!("sram.{structure}"));
        Some(of("mapping cache")? + of("translation directory")?)
    }),
    ("translation_pages", |result| Some(number(result, "sram.translation directory")? / 4.0)),
    ("map_bytes", |result| {
        let structures = result.get("sram")?.as_object()?;
        let of = |(name, bytes): (&String, &Value)| is_map(name).then(|| bytes.as_f64()).flatten();
        Some(structures.iter().filter_map(of).sum())
    }),
    ("cleaning_us", |result| Some(1e6 * number(result, "cleaning_seconds")?)),
    ("map_lookups", |result| Some(number(result, "extra.map_hits")? + number(result, "extra.map_misses")?)),
    ("touched_pages", |result| {
        let kinds = ["read_only", "write_only", "overlapped"];
        kinds.iter().map(|kind| number(result, &format!("ecc.{kind}_pages"))).sum()
    }),
    ("rewrites_per_1000_reads", |result| {
        let reads = ["normal", "medium", "low_cost"].iter().map(|kind| number(result, &format!("ecc.{kind}_reads")));
        let share = 1e3 * number(result, "ecc.rewrites")? / reads.sum::<Option<f64>>()?;
        share.is_finite().then_some(share)
    }),
    ("evictions", |result| Some(number(result, "extra.clean_evictions")? + number(result, "extra.dirty_evictions")?)),
];

const TRANSLATION: &[&str] = &["translation_load", "translation_update", "translation_gc"];

/// First steps of paths that lead to numbers.
const BEGINNINGS: &[&str] = &[
    "response_us",
    "service_us",
    "queue_us",
    "response_by_cause",
    "flash",
    "by_cause",
    "waf",
    "waf_bytes",
    "war",
    "cleaning_seconds",
    "tp_overhead",
    "cache",
    "merges",
    "space_utilisation",
    "erase_count",
    "wear_levelling",
    "ecc",
    "lifetime",
    "until",
    "sram_bytes",
    "sram",
    "extra",
];

/// Where a lifetime has numbers, and where it has their bounds.
const LIFETIME: [&str; 2] = ["lifetime.", "lifetime.at_least."];

/// Whether there can be such a measure.
///
/// # Errors
/// There cannot; the nearest name is given. A bound is none: it may be compared with nothing.
pub(super) fn check(name: &str) -> Result<(), CliError> {
    let first = name.split('.').next().unwrap_or_default();
    if let Some(number) = name.strip_prefix(LIFETIME[1]) {
        return Err(CliError::new(format_args!(
            "{name} is a bound, which cannot be compared; write {}{number}, which says where it is only bounded",
            LIFETIME[0]
        )));
    }
    let derived = || DERIVED.iter().map(|(name, _)| *name);
    // Absent causes count as 0, so that a misspelt one would.
    check_cause(name)?;
    if BEGINNINGS.contains(&first) || derived().any(|known| known == name) {
        return Ok(());
    }
    Err(CliError::unknown("measure", name, derived().chain(BEGINNINGS.iter().copied())))
}

/// Whether a path below `by_cause` or `response_by_cause` has names that there are, step by step.
fn check_cause(name: &str) -> Result<(), CliError> {
    let causes = || Cause::ALL.iter().map(|cause| cause.name()).collect::<Vec<_>>();
    let steps: Vec<&str> = name.split('.').collect();
    let (known, example) = match steps[..] {
        ["response_by_cause", "tail", "from_us" | "requests"] => return Ok(()),
        ["by_cause", ..] => {
            let columns = Op::ALL.iter().map(|op| op.name()).chain(["us"]).collect();
            (vec![("cause", causes()), ("count", columns)], "by_cause.data_gc.erases")
        }
        ["response_by_cause", ..] => {
            let parts = [("part", vec!["mean", "tail"]), ("time", vec!["own", "waited_for"]), ("cause", causes())];
            (parts.into(), "response_by_cause.mean.waited_for.data_gc")
        }
        _ => return Ok(()),
    };
    for (step, (what, known)) in steps[1..].iter().zip(&known) {
        if !known.contains(step) {
            return Err(CliError::unknown(what, step, known.iter().copied()).within(name));
        }
    }
    match steps.len() - 1 == known.len() {
        true => Ok(()),
        false => Err(CliError::new(format_args!("{name} is no number; write a path as {example}"))),
    }
}

/// A measure of a result; `None` where it does not apply.
pub(super) fn value(result: &SchemeResult, name: &str) -> Option<Measured> {
    let repeated = result.repeats.as_ref().and_then(|repeats| Some(of(repeats.metrics.get(name)?, repeats.n)));
    if repeated.is_some() {
        return repeated;
    }
    let json = serde_json::to_value(result).ok()?;
    let found = match DERIVED.iter().find(|(known, _)| *known == name) {
        Some((_, derive)) => derive(&json),
        None => number(&json, name),
    };
    found.map(Measured::exact)
}

/// The bound from below of a measure that has no value because nothing more is known of it.
pub(super) fn at_least(result: &SchemeResult, name: &str) -> Option<f64> {
    let json = serde_json::to_value(result).ok()?;
    number(&json, &format!("{}{}", LIFETIME[1], name.strip_prefix(LIFETIME[0])?))
}

fn of(estimate: &Estimate, runs: u64) -> Measured {
    Measured { value: estimate.mean, half_width_99: Some(estimate.half_width_99(runs)) }
}

/// The number at a path. A cause that did not occur is absent from a result; its numbers are zero all the same.
fn number(result: &Value, path: &str) -> Option<f64> {
    let found = path.split('.').try_fold(result, |at, step| at.get(step));
    match found {
        Some(value) => value.as_f64(),
        None if path.starts_with("by_cause.") => (number(result, "flash.busy_us")? > 0.0).then_some(0.0),
        None if path.starts_with("response_by_cause.") => {
            number(result, "response_by_cause.tail.requests").map(|_| 0.0)
        }
        None => None,
    }
}

fn sum(result: &Value, causes: &[&str], columns: &[&str]) -> Option<f64> {
    let pairs = causes.iter().flat_map(|cause| columns.iter().map(move |column| (cause, column)));
    pairs.map(|(cause, column)| number(result, &format!("by_cause.{cause}.{column}"))).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::result;

    fn of(name: &str) -> Option<f64> {
        value(&result("dftl", 100.0, 2.0, 0.5), name).map(|measured| measured.value)
    }

    /// `testing::result`: a million accesses of which half miss; 25, 200 and 1500 µs.
    #[test]
    fn paths_and_derived_measures() {
        assert_eq!(of("response_us.mean"), Some(100.0));
        assert_eq!(of("cache.hit_ratio"), Some(0.5));
        assert_eq!(of("miss_ratio"), Some(0.5));
        let (load, update) = (500_000.0 * 25.0, 250_000.0 * 225.0);
        let gc = 62_500.0 * 225.0 + (500_000 / 128) as f64 * 1500.0;
        assert_eq!(of("tp_us"), Some(load + update + gc));
        assert_eq!(of("translation_ops"), Some(500_000.0 + 2.0 * 250_000.0 + 2.0 * 62_500.0));
        assert_eq!(of("translation_reads"), Some(500_000.0 + 250_000.0 + 62_500.0));
        assert_eq!(of("translation_writes"), Some(250_000.0 + 62_500.0));
        assert_eq!(of("host_pages"), Some(of("by_cause.host.reads").unwrap() + of("by_cause.host.programs").unwrap()));
        // Data collection copies as many pages as the host writes: write amplification is 2.
        assert_eq!(of("extra_ops"), Some(of("translation_ops").unwrap() + 2.0 * 800_000.0));
        assert_eq!(of("by_cause.swap.us"), Some(0.0), "a cause without commands");
        assert_eq!(of("cleaning_us"), Some(1e6 * of("cleaning_seconds").unwrap()));
        assert_eq!(of("extra.no_such_counter"), None);
        assert_eq!(of("evictions"), None, "this result counts none");
    }

    #[test]
    fn merges_are_those_of_log_blocks_or_the_victims_of_a_page_map() {
        let merges = |result: &SchemeResult| value(result, "merges").map(|measured| measured.value);
        let mut mapped = result("dftl", 100.0, 2.0, 0.5);
        assert_eq!(merges(&mapped), None, "this result counts neither");
        mapped.extra.insert("gc_data_victims".into(), serde_json::json!(7));
        assert_eq!(merges(&mapped), Some(7.0));
        let kinds = sim::report::Merges { switch: 1, partial: 20, full: 300 };
        assert_eq!(merges(&SchemeResult { merges: Some(kinds), ..mapped }), Some(321.0));
    }

    #[test]
    fn repeated_runs_have_a_mean_and_a_confidence() {
        let runs = [8.0, 9.0, 10.0, 11.0, 12.0].map(|mean| result("dftl", mean, 2.0, 0.5)).to_vec();
        let folded = SchemeResult::repeated(runs).unwrap();
        let mean = value(&folded, "response_us.mean").unwrap();
        // Standard deviation 1.5811, Student's t for 99 % and 4 degrees 4.604.
        assert!((mean.value - 10.0).abs() < 1e-9 && (mean.half_width_99.unwrap() - 3.2556).abs() < 0.001, "{mean:?}");
        assert_eq!(value(&folded, "flash.busy_us").unwrap().half_width_99, None, "of this there is no estimate");
    }

    #[test]
    fn names_that_cannot_be_measured_are_refused() {
        check("extra.update_entries_le_24").unwrap();
        check("tp_us").unwrap();
        for (name, expected) in [
            ("by_cause.data_gcc.erases", "unknown cause \"data_gcc\"; did you mean \"data_gc\"?"),
            ("by_cause.data_gc.erase", "unknown count \"erase\"; did you mean \"erases\"?"),
            ("response_by_cause.mean.own.hostt", "unknown cause \"hostt\"; did you mean \"host\"?"),
            ("response_by_cause.mean.waited.host", "unknown time \"waited\"; did you mean \"waited_for\"?"),
        ] {
            assert_eq!(check(name).unwrap_err().message(), format!("{name}: {expected}"));
        }
        assert!(check("by_cause.data_gc").unwrap_err().message().starts_with("by_cause.data_gc is no number; write"));
        for name in ["by_cause.swap.us", "response_by_cause.tail.from_us", "response_by_cause.tail.own.swap"] {
            check(name).unwrap();
        }
        check("lifetime.drive_writes").unwrap();
        let refused = check("lifetime.at_least.drive_writes").unwrap_err();
        let expected =
            "lifetime.at_least.drive_writes is a bound, which cannot be compared; write lifetime.drive_writes";
        assert!(refused.message().starts_with(expected), "{refused}");
        let refused = check("chache.hits").unwrap_err();
        assert!(refused.message().starts_with("unknown measure \"chache.hits\"; known are miss_ratio"), "{refused}");
        assert_eq!(
            check("mis_ratio").unwrap_err().message(),
            "unknown measure \"mis_ratio\"; did you mean \"miss_ratio\"?"
        );
    }
}

//! Where response times went: the reasons that a verdict gives, a table, and what a picture of it needs.

use super::rows::Rows;
use super::words::{labels, phrase};
use crate::units;
use flash::Cause;
use sim::report::{Report, ResponseByCause, ResponseParts, SchemeResult, ratio};

/// A part of the mean response time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Part<'a> {
    /// Whether the request waited for it; otherwise its own commands worked for it.
    pub(super) waits: bool,
    pub(super) cause: &'a str,
    pub(super) us: f64,
}

/// Shares of a difference that a sentence leaves out.
const SMALL: f64 = 0.05;
/// Reasons that a sentence has room for.
const MOST: usize = 3;

impl Part<'_> {
    /// What this part is, in a sentence.
    pub(super) fn name(&self) -> String {
        match (self.waits, self.cause) {
            (true, "host") => "waiting behind other reads and writes of the host".to_owned(),
            (true, cause) => format!("waiting behind {}", phrase(cause)),
            (false, "host") => "reading and writing the host's pages".to_owned(),
            (false, cause) => format!("{} for the request itself", phrase(cause)),
        }
    }
}

/// The parts that occurred, the request's own first, in the order of [`Cause`]; those of a later version last.
pub(super) fn parts(of: &ResponseParts) -> Vec<Part<'_>> {
    let rank = |name: &str| Cause::ALL.iter().position(|cause| cause.name() == name).unwrap_or(Cause::ALL.len());
    let mut all = Vec::new();
    for (waits, causes) in [(false, &of.own), (true, &of.waited_for)] {
        let start = all.len();
        all.extend(causes.iter().map(|(cause, &us)| Part { waits, cause, us }));
        all[start..].sort_by_key(|part: &Part<'_>| rank(part.cause));
    }
    all
}

fn us(of: &ResponseParts, waits: bool, cause: &str) -> f64 {
    let causes = if waits { &of.waited_for } else { &of.own };
    causes.get(cause).copied().unwrap_or(0.0)
}

/// The largest part of a mean response, with its share.
pub(super) fn largest(result: &SchemeResult) -> Option<(Part<'_>, f64)> {
    let parts = parts(&result.response_by_cause.as_ref()?.mean);
    let all: f64 = parts.iter().map(|part| part.us).sum();
    let part = parts.into_iter().max_by(|a, b| a.us.total_cmp(&b.us))?;
    Some((part, ratio(part.us, all)?))
}

/// Why the mean response of one result is longer than that of another: where what it adds goes, the largest parts
/// first, and what it saves elsewhere. `None` where either does not say where its responses went.
pub(super) fn reasons(slower: &SchemeResult, faster: &SchemeResult) -> Option<String> {
    let (slower, faster) = (&slower.response_by_cause.as_ref()?.mean, &faster.response_by_cause.as_ref()?.mean);
    let mut changes = parts(slower);
    changes.extend(parts(faster).into_iter().filter(|part| us(slower, part.waits, part.cause) == 0.0));
    for part in &mut changes {
        part.us = us(slower, part.waits, part.cause) - us(faster, part.waits, part.cause);
    }
    let adds: f64 = changes.iter().map(|part| part.us).sum();
    changes.sort_by(|a, b| b.us.abs().total_cmp(&a.us.abs()));
    let large = |sign: f64, least: f64| -> Vec<&Part<'_>> {
        changes.iter().filter(|part| part.us * sign >= least).take(MOST).collect()
    };
    let more = large(1.0, SMALL * adds);
    // What is spent exceeds what is added by what is saved, so where that can be seen something is said of it.
    let is_seen = more.iter().map(|part| part.us).sum::<f64>() > 1.002 * adds;
    let mut less = large(-1.0, SMALL * adds);
    if less.is_empty() && is_seen {
        let saves: f64 = changes.iter().map(|part| (-part.us).max(0.0)).sum();
        less = large(-1.0, (SMALL * saves).max(f64::MIN_POSITIVE));
    }
    let said = |parts: Vec<&Part<'_>>, more: &str| {
        let on = |part: &Part<'_>| if part.waits { "" } else { "on " };
        let said = |part: &&Part<'_>| format!("{}{more} {}{}", units::time_us(part.us.abs()), on(part), part.name());
        joined(parts.iter().map(said).collect::<Vec<_>>())
    };
    let adds = units::time_us(adds);
    Some(match said(less, "") {
        None => format!("of the {adds} that it adds, it spends {}", said(more, "")?),
        Some(less) => format!("it adds {adds}: it spends {}; it saves {less}", said(more, " more")?),
    })
}

/// "a", "a and b", "a, b and c".
pub(super) fn joined<T: AsRef<str>>(mut items: Vec<T>) -> Option<String> {
    let last = items.pop()?;
    let rest: Vec<&str> = items.iter().map(T::as_ref).collect();
    let last = last.as_ref();
    Some(if rest.is_empty() { last.to_owned() } else { format!("{} and {last}", rest.join(", ")) })
}

/// The table: for each run and cause its own and waited-for time, over all requests and over the longest.
pub(super) fn rows(report: &Report) -> Option<Rows> {
    let mut rows = Vec::new();
    for (label, result) in labels(report).into_iter().zip(&report.results) {
        let Some(ResponseByCause { mean, tail }) = &result.response_by_cause else { continue };
        let occurs =
            |cause: &str| [mean, &tail.parts].iter().any(|of| us(of, false, cause) + us(of, true, cause) > 0.0);
        let cell = |us: f64| if us > 0.0 { units::number(us) } else { "-".to_owned() };
        for (index, cause) in Cause::ALL.iter().map(|cause| cause.name()).filter(|cause| occurs(cause)).enumerate() {
            let head = if index == 0 { label.clone() } else { String::new() };
            let times = [mean, &tail.parts].map(|of| [false, true].map(|waits| cell(us(of, waits, cause))));
            rows.push((head, std::iter::once(cause.to_owned()).chain(times.into_iter().flatten()).collect()));
        }
    }
    let columns = vec![
        ("cause", ""),
        ("own, mean", "µs"),
        ("waited for", "µs"),
        ("own, slowest 1 %", "µs"),
        ("waited for", "µs"),
    ];
    (!rows.is_empty()).then_some((columns, rows))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{report, result, three};
    use std::collections::BTreeMap;

    fn with(own: &[(&str, f64)], waited_for: &[(&str, f64)]) -> SchemeResult {
        let map = |of: &[(&str, f64)]| of.iter().map(|&(cause, us)| (cause.to_owned(), us)).collect::<BTreeMap<_, _>>();
        let mean = ResponseParts { own: map(own), waited_for: map(waited_for) };
        SchemeResult {
            response_by_cause: Some(ResponseByCause { mean, ..ResponseByCause::default() }),
            ..result("dftl", 500.0, 2.0, 0.0)
        }
    }

    #[test]
    fn reasons_are_the_parts_of_the_difference() {
        let page = with(&[("host", 200.0)], &[("host", 50.0), ("data_gc", 150.0)]);
        let dftl = with(
            &[("host", 200.0), ("translation_load", 90.0)],
            &[("host", 80.0), ("data_gc", 140.0), ("translation_update", 1390.0)],
        );
        assert_eq!(
            reasons(&dftl, &page).unwrap(),
            "of the 1.50 ms that it adds, it spends 1.39 ms waiting behind updating translation pages and 90.0 µs \
             on loading translation pages for the request itself"
        );
        // What is saved is said, also of a cause that the slower one does not have at all.
        let fast = with(&[("host", 200.0)], &[("merge_full", 900.0)]);
        assert_eq!(
            reasons(&fast, &page).unwrap(),
            "it adds 700 µs: it spends 900 µs more waiting behind full merges; it saves 150 µs waiting behind \
             collecting data blocks and 50.0 µs waiting behind other reads and writes of the host"
        );
        assert_eq!(reasons(&fast, &SchemeResult { response_by_cause: None, ..page }), None);
        // What broke: more was spent than was added, and what made the difference was too small to be told.
        let bast = with(&[("host", 200.0)], &[("host", 50.0), ("data_gc", 4.0), ("merge_full", 4900.0)]);
        let page = with(&[("host", 200.0)], &[("host", 50.0), ("data_gc", 150.0)]);
        assert_eq!(
            reasons(&bast, &page).unwrap(),
            "it adds 4.75 ms: it spends 4.90 ms more waiting behind full merges; it saves 146 µs waiting behind \
             collecting data blocks"
        );
    }

    #[test]
    fn the_largest_part_has_its_share() {
        let page = with(&[("host", 200.0)], &[("host", 50.0), ("data_gc", 150.0)]);
        let (part, share) = largest(&page).unwrap();
        assert_eq!((part.name().as_str(), share), ("reading and writing the host's pages", 0.5));
        assert_eq!(largest(&with(&[], &[])), None);
    }

    #[test]
    fn every_cause_has_its_row() {
        let (columns, rows) = rows(&three()).unwrap();
        assert!(rows.iter().all(|(_, cells)| cells.len() == columns.len()));
        let of_page: Vec<&str> =
            rows.iter().skip(1).take_while(|(label, _)| label.is_empty()).map(|(_, cells)| cells[0].as_str()).collect();
        assert_eq!((rows[0].0.as_str(), rows[0].1[0].as_str()), ("page", "host"));
        assert_eq!(of_page, ["data_gc"]);
        let older = SchemeResult { response_by_cause: None, ..result("page", 500.0, 1.0, 0.0) };
        assert!(super::rows(&report(vec![older])).is_none());
    }
}

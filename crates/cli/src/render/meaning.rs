//! What the numbers of a report mean, in two sentences.

use super::response::{self, joined};
use super::words::labels;
use crate::units;
use serde_json::Value;
use sim::report::{BACKLOG, END_OF_LIFE, FlowResult, Report, SchemeResult};

/// Pages written, of those read or written, below which write amplification says nothing about wear.
const FEW_WRITES: f64 = 0.01;
/// How many times the mean the most worn block may have been erased where blocks wear alike.
const UNEVEN: f64 = 2.0;

/// Two sentences on what the numbers mean: who responds fastest and why, or who does not keep up; and how the flash
/// wears. Runs that ended early are left out of comparisons.
pub(super) fn meaning(report: &Report) -> [String; 2] {
    // Beside means over several seeds the sentences are about one.
    let repeated = report.results.iter().any(|result| result.repeats.is_some());
    let of = if repeated { format!("Of seed {}: ", report.seed) } else { String::new() };
    sentences(report).map(|sentence| format!("{of}{sentence}"))
}

fn sentences(report: &Report) -> [String; 2] {
    let labels = labels(report);
    let complete: Vec<(&str, &SchemeResult)> =
        labels.iter().map(String::as_str).zip(&report.results).filter(|(_, result)| result.is_complete()).collect();
    if complete.is_empty() {
        let worn: Vec<(&str, u64)> = labels
            .iter()
            .zip(&report.results)
            .filter(|(_, result)| result.ended == END_OF_LIFE)
            .filter_map(|(label, result)| Some((label.as_str(), result.until.as_ref()?.host_bytes_written)))
            .collect();
        if !worn.is_empty() {
            return endured(worn);
        }
        if report.measured_nothing() {
            return [
                "Nothing was measured.".to_owned(),
                "Every run ended before its --warmup was over, or with it.".to_owned(),
            ];
        }
        return [
            "No run served its whole workload, so there are no response times to compare.".to_owned(),
            "The other numbers cover what was measured until then.".to_owned(),
        ];
    }
    let late = || overload(&complete, report).or_else(|| late_flow(&complete));
    [late().unwrap_or_else(|| speed(&complete, report)), wear(&complete, report)]
}

/// What to say of runs that went on until worn blocks left no room, after so many bytes of host writes.
fn endured(mut worn: Vec<(&str, u64)>) -> [String; 2] {
    worn.sort_by_key(|&(_, bytes)| std::cmp::Reverse(bytes));
    let ((most, longest), (least, shortest)) = (worn[0], worn[worn.len() - 1]);
    let first = format!("Under {most} the device lasts for {} of host writes", units::bytes(longest));
    match sim::report::ratio(longest as f64, shortest as f64).filter(|_| worn.len() > 1) {
        None => [
            format!("{first}, until worn blocks leave no room."),
            "The other numbers, response times among them, cover its whole life.".to_owned(),
        ],
        Some(factor) => [
            format!(
                "{first}, {} times as many as under {least}, until worn blocks leave no room.",
                units::number(factor)
            ),
            "The other numbers, response times among them, cover lives of different lengths.".to_owned(),
        ],
    }
}

/// What to say of speed if a device did not keep up with an open loop.
fn overload(complete: &[(&str, &SchemeResult)], report: &Report) -> Option<String> {
    let behind = |result: &SchemeResult| result.extra.get(BACKLOG).and_then(Value::as_f64).unwrap_or(0.0);
    let (late, mut able): (Vec<(&str, &SchemeResult)>, Vec<_>) =
        complete.iter().copied().filter(|(_, one)| !keeps_nothing(one)).partition(|(_, one)| one.is_overloaded());
    let &(worst, result) = late.iter().max_by(|a, b| behind(a.1).total_cmp(&behind(b.1)))?;
    let seconds = |seconds: f64| units::time_us(seconds * 1e6);
    let arrivals = result.extra.get("simulated_seconds").and_then(Value::as_f64).unwrap_or(0.0) - behind(result);
    let how = format!("{} behind when the last request arrives, after {}", seconds(behind(result)), seconds(arrivals));
    // Twice as far apart as it would just keep up with, if requests came evenly. They do not, so that is a try. A
    // warm-up may have left a part of the backlog, and how long its arrivals took the report does not say.
    let scale = report.run.get("time_scale").and_then(Value::as_f64).unwrap_or(1.0);
    let slower = sim::report::ratio(2.0 * scale * (arrivals + behind(result)), arrivals)
        .filter(|_| !report.run.contains_key("warmup"))
        .map_or_else(
            || "--time-scale".to_owned(),
            |scale| format!("try --time-scale {}", units::whole(scale.ceil() as u64)),
        );
    let advice = format!(
        "a closed loop (--host closed:32) can be compared, and so can arrivals that are far enough apart ({slower})"
    );
    able.sort_by(|a, b| mean(a.1).total_cmp(&mean(b.1)));
    Some(match able.first() {
        Some(&(label, fastest)) => {
            let late = match late.len() {
                1 => format!("{worst} does not keep up and is"),
                _ => format!("{worst} and others do not keep up; {worst} is"),
            };
            format!(
                "{label} responds after {} on average; {late} {how}: such responses measure how long the trace is; \
                 {advice}.",
                units::time_us(mean(fastest))
            )
        }
        None => {
            let nobody = if late.len() == 1 { "The device does not" } else { "No scheme can" };
            format!(
                "{nobody} keep up with the arrivals, {worst} is {how}: mean responses measure how long the trace is; \
                 {advice}."
            )
        }
    })
}

/// What to say if a device did not keep up with one of several streams.
fn late_flow(complete: &[(&str, &SchemeResult)]) -> Option<String> {
    let flows = complete.iter().flat_map(|(label, result)| {
        result.flows.iter().enumerate().map(move |(number, flow)| (label, number + 1, flow))
    });
    let behind = |flow: &FlowResult| flow.backlog_seconds.unwrap_or(0.0);
    let late = flows.filter(|(.., flow)| flow.overloaded);
    let (label, number, worst) = late.max_by(|a, b| behind(a.2).total_cmp(&behind(b.2)))?;
    Some(format!(
        "{label} does not keep up with flow {number} ({}) and is {} behind when its last request arrives: its \
         responses and its slowdown measure how long it is; a closed loop (@closed:32) can be compared, and so \
         can arrivals that are far enough apart.",
        worst.name,
        units::time_us(behind(worst) * 1e6)
    ))
}

/// Whether a result is of a scheme that keeps no data: what takes no time is no measure for the others.
pub(super) fn keeps_nothing(result: &SchemeResult) -> bool {
    ftl::schemes::by_name(&result.scheme).is_some_and(|row| !row.keeps_data)
}

fn mean(result: &SchemeResult) -> f64 {
    result.response_us.as_ref().map_or(f64::INFINITY, |latency| latency.mean)
}

fn speed(complete: &[(&str, &SchemeResult)], report: &Report) -> String {
    let mut timed: Vec<(&str, &SchemeResult, f64)> = complete
        .iter()
        .filter_map(|&(label, result)| Some((label, result, result.response_us.as_ref()?.mean)))
        .collect();
    timed.sort_by(|a, b| a.2.total_cmp(&b.2));
    let is_null = |&(_, result, _): &(&str, &SchemeResult, f64)| keeps_nothing(result);
    if !timed.iter().all(is_null) {
        timed.retain(|one| !is_null(one));
    }
    if timed.last().is_some_and(|&(.., mean)| mean == 0.0) {
        return "No request waited for the flash: all are answered after 0 µs.".to_owned();
    }
    let (Some(&fastest), Some(&slowest)) = (timed.first(), timed.last()) else {
        let was_served = report.run.is_empty() && report.workload.requests > 0;
        let why = if was_served { ", or the device was served without --timing emulate" } else { "" };
        return format!("No request was timed: nothing was read or written{why}.");
    };
    let (label, result, mean) = fastest;
    if mean == 0.0 {
        let (other, _, mean) = slowest;
        return format!(
            "{label} answers without waiting for the flash, {other} after {} on average.",
            units::time_us(mean)
        );
    }
    let factor = slowest.2 / mean;
    if timed.len() == 1 || !factor.is_finite() || factor < 1.005 {
        let after = units::time_us(mean);
        if timed.len() > 1 {
            let who = all_or(timed.iter().map(|one| one.0).collect(), report);
            return format!("{who} respond alike, after {after} on average{}.", tails(&timed).unwrap_or_default());
        }
        let why = response::largest(result).map_or_else(String::new, |(part, share)| {
            format!("; the largest part of that, {:.0} %, is {}", 100.0 * share, part.name())
        });
        return format!("{label} responds after {after} on average{why}.");
    }
    let why = response::reasons(slowest.1, result).map_or_else(String::new, |reasons| format!(": {reasons}"));
    // Who differs by less than can be seen is as fast.
    let after = units::time_us(mean);
    let first: Vec<&str> = timed.iter().take_while(|one| units::time_us(one.2) == after).map(|one| one.0).collect();
    let (subject, responds) = match first[..] {
        [_] => (label.to_owned(), "responds"),
        _ => (joined(first).unwrap_or_default(), "respond"),
    };
    format!(
        "{subject} {responds} fastest, after {after} on average; {} takes {} times as long{why}.",
        slowest.0,
        units::number(factor)
    )
}

/// "All", if these are all runs, or their names.
fn all_or(labels: Vec<&str>, report: &Report) -> String {
    if labels.len() == report.results.len() { "All".to_owned() } else { joined(labels).unwrap_or_default() }
}

/// How the tails of runs with one mean differ, if they do.
fn tails(timed: &[(&str, &SchemeResult, f64)]) -> Option<String> {
    let tail = |result: &SchemeResult| result.response_us.as_ref().map_or(0.0, |latency| latency.p99);
    let &(shortest, first, _) = timed.iter().min_by(|a, b| tail(a.1).total_cmp(&tail(b.1)))?;
    let &(longest, last, _) = timed.iter().max_by(|a, b| tail(a.1).total_cmp(&tail(b.1)))?;
    (tail(last) > 1.05 * tail(first)).then(|| {
        let [least, most] = [first, last].map(|result| units::time_us(tail(result)));
        format!("; 99 % of the requests take no longer than {least} under {shortest}, and {most} under {longest}")
    })
}

/// How the flash wears under a run.
struct Worn<'a> {
    label: &'a str,
    erases: u64,
    /// Erases for each page that the host writes.
    rate: f64,
    waf: f64,
    /// Erases of a block, on average and at most, if they were counted.
    of_a_block: Option<(f64, u64)>,
}

impl<'a> Worn<'a> {
    /// Nothing if no page of the host came to the flash.
    fn of(label: &'a str, result: &SchemeResult) -> Option<Worn<'a>> {
        let (waf, erases) = (result.waf?, result.flash.erases);
        let written = sim::report::ratio(result.flash.programs as f64, waf)?;
        let of_a_block = result.erase_count.as_ref().map(|count| (count.mean, count.max));
        Some(Worn { label, erases, rate: sim::report::ratio(erases as f64, written)?, waf, of_a_block })
    }
}

fn blocks(erases: u64) -> String {
    format!("{} block{}", units::whole(erases), if erases == 1 { "" } else { "s" })
}

/// What so many times the erases mean for how long the flash lasts.
fn lasting(least: &Worn<'_>, most: &Worn<'_>, advice: &str, report: &Report) -> String {
    let known = [least, most].into_iter().filter_map(|one| Some((one.label, one.of_a_block?)));
    let few: Vec<&str> = known.clone().filter(|(_, (mean, _))| *mean < 1.0).map(|(label, _)| label).collect();
    match few[..] {
        [] => {}
        [one] => return format!(", but {one} erases too few of them to say how long the flash lasts{advice}"),
        _ => return format!(", too few of them to say how long the flash lasts{advice}"),
    }
    let uneven = known.filter(|&(_, (mean, max))| max as f64 > UNEVEN * mean);
    match uneven.max_by(|a, b| (a.1.1 as f64 / a.1.0).total_cmp(&(b.1.1 as f64 / b.1.0))) {
        None => format!(
            ", so if all blocks wear alike the same flash endures that many times the host writes under {}",
            least.label
        ),
        Some((label, (mean, max))) => format!(
            ", but under {label} a block is erased up to {} times and {} on average: --until end-of-life{} shows \
             under which the flash lasts longer",
            units::whole(max),
            units::number(mean),
            if report.device.contains_key("endurance") { "" } else { ", with an endurance of the device," }
        ),
    }
}

fn wear(complete: &[(&str, &SchemeResult)], report: &Report) -> String {
    let workload = &report.workload;
    let mut worn: Vec<Worn<'_>> = complete.iter().filter_map(|&(label, result)| Worn::of(label, result)).collect();
    worn.sort_by(|a, b| a.rate.total_cmp(&b.rate));
    let (Some(least), Some(most)) = (worn.first(), worn.last()) else {
        let what = if workload.write_pages == 0 { "Nothing was written" } else { "Nothing came to the flash" };
        // Blocks may have been erased all the same: in idle time.
        let wear =
            if complete.iter().any(|(_, result)| result.flash.erases > 0) { "" } else { " and no wear to speak of" };
        return format!("{what}, so there is no write amplification (WAF){wear}.");
    };
    let written = workload.write_pages as f64 / (workload.read_pages + workload.write_pages) as f64;
    if written < FEW_WRITES {
        // Discards and maps wear the flash too.
        let erased = match worn.iter().max_by_key(|one| one.erases) {
            Some(one) if one.erases > 0 => format!("{} erases {}", one.label, blocks(one.erases)),
            _ => "nothing is erased".to_owned(),
        };
        return format!(
            "Only {} of {} pages are written, and {erased}; WAF, here of so few pages, says little.",
            units::whole(workload.write_pages),
            units::whole(workload.read_pages + workload.write_pages)
        );
    }
    let programs = |one: &Worn<'_>| format!("{:.2}", one.waf);
    let for_each = "for each page that the host writes (WAF)";
    let was_worn = report.run.get("fill").is_none_or(|fill| fill == "steady");
    let advice = if was_worn { "" } else { "; --fill steady begins on a device that is worn in" };
    let factor = sim::report::ratio(most.rate, least.rate).unwrap_or(f64::INFINITY);
    match worn.len() {
        1 if least.erases == 0 => {
            format!("{} erases nothing, and programs {} pages {for_each}{advice}.", least.label, programs(least))
        }
        1 => format!(
            "{} erases {}, and programs {} pages {for_each}.",
            least.label,
            blocks(least.erases),
            programs(least)
        ),
        _ if most.erases == 0 => format!("Nothing is erased, so nothing says how long the flash lasts{advice}."),
        _ if least.erases == 0 => format!(
            "{} erases {} and {} none, so nothing says how much longer the flash lasts under {}{advice}.",
            most.label,
            blocks(most.erases),
            least.label,
            least.label
        ),
        _ if factor < 1.005 => {
            let who = all_or(worn.iter().map(|one| one.label).collect(), report);
            format!("{who} erase as many blocks for what the host writes, within 0.5 %.")
        }
        _ => format!(
            "{} erases {} times as many blocks as {} for what the host writes{}; {} programs {} pages and {} {} \
             {for_each}.",
            most.label,
            units::number(factor),
            least.label,
            lasting(least, most, advice, report),
            most.label,
            programs(most),
            least.label,
            programs(least)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{report, result, three};
    use sim::report::{EraseCount, IN_WARM_UP};

    /// The same runs, whose blocks wear alike.
    fn even(mut report: Report) -> Report {
        for result in &mut report.results {
            result.erase_count.as_mut().unwrap().max = 20;
        }
        report
    }

    #[test]
    fn meaning_is_derived_from_the_numbers() {
        let [speed, wear] = meaning(&even(three()));
        assert_eq!(
            speed,
            "page responds fastest, after 412 µs on average; dftl takes 4.38 times as long: of the 1.39 ms that it \
             adds, it spends 933 µs waiting behind collecting data blocks, 278 µs on reading and writing the host's \
             pages and 180 µs on loading translation pages for the request itself."
        );
        assert_eq!(
            wear,
            "dftl erases 2.15 times as many blocks as page for what the host writes, so if all blocks wear alike the \
             same flash endures that many times the host writes under page; dftl programs 3.58 pages and page 1.62 for \
             each page that the host writes (WAF)."
        );
    }

    /// What broke: wear went by write amplification, under which schemes that erase blocks half full seem to wear the
    /// flash less than they do.
    #[test]
    fn wear_is_erases_and_not_programs() {
        let (mut a, b) = (result("a", 500.0, 2.0, 0.0), result("b", 500.0, 3.0, 0.0));
        a.flash.erases = 3 * b.flash.erases;
        let [_, wear] = meaning(&even(report(vec![a.clone(), b.clone()])));
        assert!(wear.starts_with("a erases 3.00 times as many blocks as b for what the host writes"), "{wear}");
        assert!(wear.contains("under b; a programs 2.00 pages and b 3.00 for each page that"), "{wear}");
        // Twice the writes, and twice the erases.
        a.flash.programs *= 3;
        let [_, wear] = meaning(&report(vec![a.clone(), b.clone()]));
        assert_eq!(wear, "All erase as many blocks for what the host writes, within 0.5 %.");
        a.flash.erases = 0;
        let [_, wear] = meaning(&report(vec![a.clone(), b]));
        assert_eq!(wear, "b erases 37,500 blocks and a none, so nothing says how much longer the flash lasts under a.");
        let mut filled = report(vec![a.clone()]);
        filled.run.insert("fill".into(), "sequential".into());
        assert_eq!(
            meaning(&filled)[1],
            "a erases nothing, and programs 2.00 pages for each page that the host writes (WAF); --fill steady begins \
             on a device that is worn in."
        );
        filled.run.insert("fill".into(), "steady".into());
        assert!(meaning(&filled)[1].ends_with("(WAF)."));
        // What broke: a few erases from a fresh device, or of some blocks alone, said how long the flash lasts.
        let count = |mean, max| Some(EraseCount { mean, max, ..EraseCount::default() });
        let (mut few, mut many) = (result("few", 500.0, 2.0, 0.0), result("many", 500.0, 2.0, 0.0));
        (few.erase_count, many.erase_count) = (count(0.2, 3), count(9.0, 11));
        many.flash.erases *= 3;
        filled.results = vec![few.clone(), many.clone()];
        let wear = |report: &Report| meaning(report)[1].split("; many programs").next().unwrap().to_owned();
        let erases = "many erases 3.00 times as many blocks as few for what the host writes, ";
        assert_eq!(wear(&filled), format!("{erases}but few erases too few of them to say how long the flash lasts"));
        filled.results[1].erase_count = count(0.6, 3);
        assert_eq!(wear(&filled), format!("{erases}too few of them to say how long the flash lasts"));
        filled.results[1].erase_count = count(9.0, 11);
        filled.results[0].erase_count = count(3.0, 4);
        assert_eq!(
            wear(&filled),
            format!(
                "{erases}so if all blocks wear alike the same flash endures that many times the host writes under few"
            )
        );
        filled.results[0].erase_count = count(3.0, 7);
        let uneven = "but under few a block is erased up to 7 times and 3.00 on average: --until end-of-life";
        let longer = "shows under which the flash lasts longer";
        assert_eq!(wear(&filled), format!("{erases}{uneven}, with an endurance of the device, {longer}"));
        filled.device.insert("endurance".into(), 3000.into());
        assert_eq!(wear(&filled), format!("{erases}{uneven} {longer}"));
        // Three runs, of which the one between programs most.
        let mut c = result("c", 500.0, 9.0, 0.0);
        c.flash.erases = 0;
        filled.results = vec![a.clone(), c, a];
        assert_eq!(meaning(&filled)[1], "Nothing is erased, so nothing says how long the flash lasts.");
    }

    /// What broke: a ratio to 0 made all schemes alike.
    #[test]
    fn what_takes_no_time_is_no_measure_for_the_others() {
        let null = || result("null", 0.0, 1.0, 0.0);
        let [speed, _] = meaning(&report(vec![null(), result("page", 500.0, 1.0, 0.0)]));
        assert!(speed.starts_with("page responds after 500 µs"), "{speed}");
        let [speed, _] = meaning(&report(vec![null()]));
        assert!(speed.starts_with("No request waited for the flash"), "{speed}");
        // A buffer that takes all writes is a measure.
        let buffered = result("dftl", 0.0, 1.0, 0.0);
        let [speed, _] = meaning(&report(vec![buffered, result("page", 500.0, 1.0, 0.0)]));
        assert_eq!(speed, "dftl answers without waiting for the flash, page after 500 µs on average.");
        let mut untimed = report(vec![null()]);
        untimed.results[0].response_us = None;
        untimed.workload.requests = 3;
        assert!(meaning(&untimed)[0].ends_with("or the device was served without --timing emulate."));
        untimed.run.insert("host".into(), "open".into());
        assert_eq!(meaning(&untimed)[0], "No request was timed: nothing was read or written.");
    }

    /// What broke: runs of one mean were said to be alike, whatever their tails.
    #[test]
    fn tails_that_differ_are_told_where_means_do_not() {
        let mut pair = [result("a", 500.0, 1.0, 0.0), result("b", 500.0, 1.0, 0.0)];
        for (result, p99) in pair.iter_mut().zip([2353.0, 3553.0]) {
            result.response_us.as_mut().unwrap().p99 = p99;
        }
        assert_eq!(
            meaning(&report(pair.to_vec()))[0],
            "All respond alike, after 500 µs on average; 99 % of the requests take no longer than 2.35 ms under a, and \
             3.55 ms under b."
        );
    }

    /// What broke: the first of two that are equally fast was called the fastest.
    #[test]
    fn who_is_as_fast_as_can_be_seen_is_named_too() {
        let all = [("a", 500.0), ("b", 500.1), ("c", 900.0)].map(|(name, mean)| result(name, mean, 1.0, 0.0));
        let [speed, _] = meaning(&report(all.to_vec()));
        assert!(
            speed.starts_with("a and b respond fastest, after 500 µs on average; c takes 1.80 times as"),
            "{speed}"
        );
    }

    #[test]
    fn nothing_is_said_of_runs_that_ended_in_their_warm_up() {
        let mut report = report(["page", "bast"].map(|name| result(name, 500.0, 1.0, 0.0)).to_vec());
        report.results[0].ended = format!("{IN_WARM_UP}the workload ended after 2000 requests");
        report.results[1].ended = format!("{IN_WARM_UP}device full: no block can be reclaimed, at request 12");
        assert_eq!(meaning(&report)[0], "Nothing was measured.");
        report.results[1].ended = "device full: no block can be reclaimed, at request 2012".into();
        assert_ne!(meaning(&report)[0], "Nothing was measured.");
    }

    #[test]
    fn meaning_of_one_run_of_equal_runs_and_of_none() {
        let [speed, wear] = meaning(&report(vec![result("page", 500.0, 1.0, 0.0)]));
        assert!(speed.starts_with("page responds after 500 µs on average; "), "{speed}");
        assert_eq!(
            wear,
            "page erases 12,500 blocks, and programs 1.00 pages for each page that the host writes (WAF)."
        );
        let [speed, wear] = meaning(&report(vec![result("a", 500.0, 2.0, 0.0), result("b", 500.0, 2.0, 0.0)]));
        assert_eq!(speed, "All respond alike, after 500 µs on average.");
        // What broke: all spoke for those that are no measure, or ended early.
        let [a, b, null] = [result("a", 500.0, 2.0, 0.0), result("b", 500.0, 2.0, 0.0), result("null", 0.0, 1.0, 0.0)];
        let ended = SchemeResult { ended: "interrupted".to_owned(), ..result("c", 500.0, 2.0, 0.0) };
        let sentences = meaning(&report(vec![a, b, null, ended]));
        assert_eq!(sentences[0], "a and b respond alike, after 500 µs on average.");
        assert_eq!(wear, "All erase as many blocks for what the host writes, within 0.5 %.");
        let [speed, wear] = meaning(&report(vec![]));
        assert!(speed.starts_with("No run served"), "{speed}");
        assert!(wear.starts_with("The other numbers cover"), "{wear}");
        let mut report = report(vec![result("page", 500.0, 1.0, 0.0)]);
        report.results[0].waf = None;
        assert!(meaning(&report)[1].starts_with("Nothing came to the flash"));
        report.workload.write_pages = 0;
        assert!(meaning(&report)[1].starts_with("Nothing was written"));
    }

    #[test]
    fn a_flow_that_falls_behind_is_said_to() {
        let mut report = three();
        let mut flow = FlowResult { name: "web.spc".into(), requests: 1000, ..FlowResult::default() };
        flow.set_backlog(100.0, 4.0);
        report.results[1].flows = vec![flow.clone()];
        assert!(meaning(&report)[0].starts_with("page responds fastest"));
        flow.set_backlog(100.0, 30.0);
        report.results[1].flows = vec![flow];
        let [speed, _] = meaning(&report);
        assert!(
            speed.starts_with("dftl does not keep up with flow 1 (web.spc) and is 30.0 s behind when its last request"),
            "{speed}"
        );
    }

    #[test]
    fn lives_are_compared_by_what_they_took() {
        let worn = |scheme: &str, host_bytes_written: u64| SchemeResult {
            ended: END_OF_LIFE.to_owned(),
            until: Some(sim::report::Until { host_bytes_written, ..Default::default() }),
            ..result(scheme, 500.0, 2.0, 0.0)
        };
        let [life, rest] = meaning(&report(vec![worn("dftl", 4 << 30), worn("page", 6 << 30)]));
        assert_eq!(
            life,
            "Under page the device lasts for 6 GiB of host writes, 1.50 times as many as under dftl, until worn blocks \
             leave no room."
        );
        assert_eq!(rest, "The other numbers, response times among them, cover lives of different lengths.");
        // What was interrupted lived for a time that nobody knows.
        let halved = SchemeResult { ended: "interrupted".into(), ..worn("dftl", 1 << 30) };
        let [life, rest] = meaning(&report(vec![halved, worn("page", 6 << 30)]));
        assert_eq!(life, "Under page the device lasts for 6 GiB of host writes, until worn blocks leave no room.");
        assert_eq!(rest, "The other numbers, response times among them, cover its whole life.");
        let repeated = SchemeResult::repeated(vec![worn("page", 6 << 30), worn("page", 7 << 30)]).unwrap();
        assert!(meaning(&report(vec![repeated]))[0].starts_with("Of seed 1: Under page the device lasts for 6 GiB"));
    }

    #[test]
    fn few_writes_are_no_wear() {
        let mut report = three();
        (report.workload.read_pages, report.workload.write_pages) = (1_000_000, 1234);
        assert_eq!(
            meaning(&report)[1],
            "Only 1,234 of 1,001,234 pages are written, and dftl erases 43,515 blocks; WAF, here of so few pages, \
             says little."
        );
        // What broke: it said that the flash hardly wears, whatever discards and maps had it erase.
        for result in &mut report.results {
            result.flash.erases = 0;
        }
        assert!(meaning(&report)[1].starts_with("Only 1,234 of 1,001,234 pages are written, and nothing is erased; "));
    }

    #[test]
    fn an_open_loop_that_falls_behind_is_said_to() {
        let mut report = three();
        report.results[1].extra.insert("simulated_seconds".into(), 130.0.into());
        report.results[1].set_backlog(100.0, 30.0, 1000);
        let [speed, _] = meaning(&report);
        assert_eq!(
            speed,
            "page responds after 412 µs on average; dftl does not keep up and is 30.0 s behind when the last request \
             arrives, after 100 s: such responses measure how long the trace is; a closed loop (--host closed:32) \
             can be compared, and so can arrivals that are far enough apart (try --time-scale 3)."
        );
        // What broke: the advice was a factor on arrivals that were scaled already, and null was a measure.
        let mut scaled = report.clone();
        scaled.run.insert("time_scale".into(), 1.25.into());
        assert!(meaning(&scaled)[0].contains("(try --time-scale 4)"), "{}", meaning(&scaled)[0]);
        scaled.results.remove(2);
        scaled.results[0] = result("null", 0.0, 1.0, 0.0);
        assert!(meaning(&scaled)[0].starts_with("The device does not keep up"), "{}", meaning(&scaled)[0]);
        // What broke: a backlog from before the measured phase was held against the arrivals in it alone.
        scaled.run.insert("warmup".into(), 500.into());
        assert!(meaning(&scaled)[0].contains("enough apart (--time-scale)."), "{}", meaning(&scaled)[0]);
        report.results[2].set_backlog(100.0, 20.0, 1000);
        let last = report.results[2].scheme.clone();
        let [speed, _] = meaning(&report);
        let worst = "; dftl and others do not keep up; dftl is 30.0 s behind when";
        assert!(speed.contains(worst) && last != "dftl", "{speed}");
        for result in &mut report.results {
            result.set_backlog(100.0, 20.0, 1000);
        }
        let [speed, _] = meaning(&report);
        assert!(speed.starts_with("No scheme can keep up with the arrivals, "), "{speed}");
        report.results.truncate(1);
        assert!(
            meaning(&report)[0].starts_with("The device does not keep up with the arrivals, page is 20.0 s behind")
        );
        // Almost keeping up, and too few requests to tell, are neither.
        for (backlog, requests) in [(5.0, 1000), (20.0, 99)] {
            let mut report = three();
            report.results[1].set_backlog(100.0, backlog, requests);
            assert!(meaning(&report)[0].starts_with("page responds fastest"));
        }
    }

    #[test]
    fn runs_that_ended_early_are_not_compared() {
        let mut lame = result("dftl", 1.0, 1.0, 0.5);
        lame.ended = "device full: no block can be reclaimed".into();
        let sentences = meaning(&report(vec![lame, result("page", 500.0, 2.0, 0.0)]));
        assert!(sentences.iter().all(|sentence| !sentence.contains("dftl")), "{sentences:?}");
    }

    /// What broke: a verdict named what a scheme's flash did more of as the reason for its waits.
    #[test]
    fn a_verdict_names_what_responses_waited_for_and_not_what_the_flash_did_most() {
        let waits = |us: f64| sim::report::ResponseByCause {
            mean: sim::report::ResponseParts {
                own: [("host".to_owned(), 200.0)].into(),
                waited_for: [("host".to_owned(), us)].into(),
            },
            ..Default::default()
        };
        let (mut a, mut b) = (result("a", 500.0, 1.0, 0.0), result("b", 900.0, 3.0, 0.0));
        (a.response_by_cause, b.response_by_cause) = (Some(waits(300.0)), Some(waits(700.0)));
        assert!(b.by_cause["data_gc"].us > a.by_cause["data_gc"].us);
        let [speed, _] = meaning(&report(vec![a, b.clone()]));
        assert!(
            speed.ends_with("it adds, it spends 400 µs waiting behind other reads and writes of the host."),
            "{speed}"
        );
        // A report of an earlier version gives no reason.
        b.response_by_cause = None;
        let [speed, _] = meaning(&report(vec![result("a", 500.0, 1.0, 0.0), b]));
        assert!(speed.ends_with("b takes 1.80 times as long."), "{speed}");
    }
}

//! The faces of what was reproduced: tables on the terminal, CSV with a line for each figure, JSON with everything.

use super::file::{Experiment, Paper, Published, Row};
use super::finding::{Finding, Found, Ground, in_points, published_text, suffix};
use super::lab::{Outcome, SEED};
use super::{Reproduced, Window};
use crate::error::CliError;
use crate::render::text::{align, new_table, trimmed, wrap};
use crate::units;
use flash::Op;
use serde_json::{Value, json};
use sim::report::RequestRecord;
use std::collections::{BTreeMap, BTreeSet};

/// Erases that a request caused.
pub(super) fn erases(record: &RequestRecord) -> u32 {
    Op::ALL.iter().position(|&op| op == Op::Erase).map_or(0, |index| record.commands[index])
}

/// Names and titles of experiments.
pub(super) fn list(experiments: &[Experiment]) -> String {
    let mut table = new_table();
    table.set_header(["experiment", "what it is", "where"]);
    for one in experiments {
        table.add_row([&format!("{}/{}", one.paper.name, one.name), &one.title, &one.source]);
    }
    align(&mut table, 3);
    trimmed(&table)
}

/// What `--quick` does not run.
pub(super) fn left_out(experiments: &[Experiment]) -> String {
    let names: Vec<String> = experiments.iter().map(Experiment::title).collect();
    let what = "--quick leaves out what is repeated until the device is worn, which a short one would not be, and what \
                has no published figure to be held against";
    format!("\n{}", wrap(&format!("{what} ({}).", names.join(", ")), "  "))
}

/// What stands above a paper's experiments.
pub(super) fn paper(paper: &Paper) -> String {
    let mut text = wrap(&format!("{}: {}", paper.name, paper.title), "  ");
    for sentence in &paper.assumptions {
        text += &wrap(&format!("assumed: {sentence}"), "  ");
    }
    text
}

/// An experiment's tables.
pub(super) fn terminal(done: &Reproduced) -> String {
    let experiment = &done.experiment;
    let name = format!("{}/{}", experiment.paper.name, experiment.name);
    let mut text = format!("\n{}", wrap(&format!("{name}: {} ({})", experiment.title, experiment.source), "  "));
    text += &wrap(&format!("The paper: {}", experiment.says), "  ");
    for line in ran_on(done) {
        text += &wrap(&line, "  ");
    }
    if !done.findings.is_empty() {
        text += &format!("\n{}", figures(experiment, &done.findings));
    }
    for (sensitivity, by_value) in experiment.sensitivities.iter().zip(&done.varied) {
        text += &format!("\n{}", wrap(&format!("{}:", sensitivity.label), "  "));
        text += &sensitive(experiment, &sensitivity.values, by_value);
    }
    if !done.windows.is_empty() {
        text += &format!("\n{}", microscope(&done.windows));
    }
    text + &notes(done)
}

/// What each workload ran on, a line each, and in one line those without a source.
pub(super) fn ran_on(done: &Reproduced) -> Vec<String> {
    let (mut lines, mut idle) = (Vec::new(), Vec::new());
    for workload in done.experiment.workloads.iter().map(|workload| &workload.name) {
        let grounds: Vec<&Ground> = done.grounds.iter().filter(|ground| ground.workload == *workload).collect();
        let missing = done.missing.iter().find(|(name, _)| name == workload).map(|(_, names)| names.join(", "));
        if grounds.is_empty() {
            idle.push(missing.map_or_else(|| workload.clone(), |names| format!("{workload} ({names})")));
            continue;
        }
        let source = |ground: &&Ground| {
            let requests = units::whole(ground.served.requests);
            format!("{} ({}, {requests} requests)", ground.source, ground.kind.word_for(&ground.source))
        };
        let sources: Vec<String> = grounds.iter().map(source).collect();
        let missing = missing.map_or_else(String::new, |names| format!("; not found: {names}"));
        let mut line = format!("{workload}: {}{missing}.", sources.join("; "));
        if let Some(sentence) = grounds.iter().find_map(|ground| ground.served.addresses.as_ref()) {
            line += &format!(" {sentence}");
        }
        lines.push(line);
    }
    if !idle.is_empty() {
        lines.push(format!("Not run, for no trace of theirs was found: {}.", idle.join("; ")));
    }
    lines
}

/// A row's label with the configuration where the row has several.
pub(super) fn label(row: &Row, finding: &Finding) -> String {
    match &finding.of {
        Some(of) if row.of.len() > 1 => format!("{}, {of}", row.label),
        _ => row.label.clone(),
    }
}

pub(super) fn measured_text(finding: &Finding, unit: &str) -> String {
    match &finding.measured {
        Ok(Found::Number(number)) => {
            let width = number.half_width_99.map(|width| format!(" ± {}", units::number(width))).unwrap_or_default();
            let mark = if finding.overloaded { "!" } else { "" };
            let idle = if finding.exercised() { "" } else { ", not exercised" };
            format!("{}{width}{}{mark}{idle}", units::number(number.value), suffix(unit))
        }
        Ok(Found::Name(name)) => name.clone(),
        Err(_) => "-".to_owned(),
    }
}

fn deviation_text(deviation: f64, unit: &str) -> String {
    let number = units::number(deviation.abs());
    let sign = match deviation {
        0.0 => return if in_points(unit) { "0" } else { "0 %" }.to_owned(),
        below if below < 0.0 => "-",
        _ => "+",
    };
    if in_points(unit) { format!("{sign}{number} pts") } else { format!("{sign}{number} %") }
}

pub(super) fn holds_text(holds: Option<bool>) -> &'static str {
    match holds {
        Some(true) => "yes",
        Some(false) => "NO",
        None => "-",
    }
}

/// A line of cells for each finding; a label stands where it changes.
pub(super) fn cells(experiment: &Experiment, findings: &[Finding]) -> Vec<Vec<String>> {
    let mut last = String::new();
    let line = |finding: &Finding| {
        let row = &experiment.rows[finding.row];
        let label = label(row, finding);
        let shown = if label == last { String::new() } else { label.clone() };
        last = label;
        let published = match (&finding.published, &row.lost) {
            (Some(published), _) => published_text(published, row.unit),
            (None, Some(_)) => "lost".to_owned(),
            (None, None) => "-".to_owned(),
        };
        vec![
            shown,
            finding.workload.clone(),
            finding.from.clone(),
            published,
            measured_text(finding, row.unit),
            finding.deviation.map_or_else(|| "-".to_owned(), |deviation| deviation_text(deviation, row.unit)),
            holds_text(finding.holds()).to_owned(),
        ]
    };
    findings.iter().map(line).collect()
}

fn figures(experiment: &Experiment, findings: &[Finding]) -> String {
    let mut table = new_table();
    table.set_header(["figure", "workload", "ran on", "published", "measured", "deviation", "holds"]);
    table.add_rows(cells(experiment, findings));
    align(&mut table, 3);
    trimmed(&table)
}

/// The same for rows by values of what is varied: a cell for each value. Not every value has every line: a mean needs
/// something measured, say.
pub(super) fn value_cells(experiment: &Experiment, by_value: &[Vec<Finding>]) -> Vec<Vec<String>> {
    let place = |one: &Finding, all: &[&Finding]| all.iter().position(|other| one.stands_beside(other));
    let mut heads: Vec<&Finding> = Vec::new();
    for all in by_value {
        let mut next = 0;
        for finding in all {
            next = 1 + place(finding, &heads).unwrap_or_else(|| {
                heads.insert(next, finding);
                next
            });
        }
    }
    let mut last = String::new();
    let line = |finding: &Finding| {
        let row = &experiment.rows[finding.row];
        let value = |all: &Vec<Finding>| {
            let here = all.iter().find(|one| one.stands_beside(finding));
            here.map_or_else(String::new, |one| measured_text(one, row.unit))
        };
        let label = label(row, finding);
        let shown = if label == last { String::new() } else { label.clone() };
        last = label;
        let head = [shown, finding.workload.clone(), finding.from.clone()];
        head.into_iter().chain(by_value.iter().map(value)).collect()
    };
    heads.into_iter().map(line).collect()
}

/// Rows by values of what is varied.
fn sensitive(experiment: &Experiment, values: &[String], by_value: &[Vec<Finding>]) -> String {
    let mut table = new_table();
    let texts = ["figure", "workload", "ran on"].map(str::to_owned);
    table.set_header(texts.into_iter().chain(values.iter().cloned()));
    table.add_rows(value_cells(experiment, by_value));
    align(&mut table, 3);
    trimmed(&table)
}

/// Of every configuration the requests that stand out: those that erased, and those that waited longest.
fn microscope(windows: &[Window]) -> String {
    let mut table = new_table();
    table.set_header([
        "configuration",
        "requests",
        "erases",
        "mean\nresp.",
        "longest\nservice",
        "longest\nqueue",
        "p99\nresp.",
    ]);
    let mut failures = String::new();
    for window in windows {
        let (from, records) = match &window.requests {
            Ok(window) => window,
            Err(why) => {
                failures += &wrap(&format!("{}: not looked at: {why}", window.configuration), "  ");
                continue;
            }
        };
        let longest = |of: fn(&RequestRecord) -> u64| {
            let (index, ns) = records
                .iter()
                .map(of)
                .enumerate()
                .max_by_key(|&(index, ns)| (ns, usize::MAX - index))
                .unwrap_or((0, 0));
            format!("{} (no. {})", units::time_us(ns as f64 / 1e3), from + index as u64)
        };
        let mut responses: Vec<u64> = records.iter().map(|record| record.response_ns).collect();
        responses.sort_unstable();
        let rank = (records.len() as f64 * 0.99).ceil() as usize;
        let mean = responses.iter().sum::<u64>() as f64 / 1e3 / records.len() as f64;
        table.add_row([
            window.configuration.clone(),
            format!("{from} to {}", from + records.len() as u64 - 1),
            records.iter().map(erases).sum::<u32>().to_string(),
            units::time_us(mean),
            longest(|record| record.service_ns),
            longest(|record| record.queue_ns),
            units::time_us(responses[rank.clamp(1, responses.len()) - 1] as f64 / 1e3),
        ]);
    }
    align(&mut table, 2);
    let table = if windows.iter().any(|window| window.requests.is_ok()) { trimmed(&table) } else { String::new() };
    format!("Some requests one by one (all of them with --json):\n{table}{failures}")
}

/// What the table cannot say: why figures are lost or missing, remarks, and the balance.
fn notes(done: &Reproduced) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut add = |line: String| {
        if !lines.contains(&line) {
            lines.push(line);
        }
    };
    let rows = &done.experiment.rows;
    // Of a row that was measured where its figure was published alone, nothing is lost here.
    let loses = |row: &Row| {
        let is_of = |finding: &Finding| std::ptr::eq(&rows[finding.row], row);
        done.findings.iter().any(|finding| is_of(finding) && finding.published.is_none())
    };
    for row in rows {
        if let Some(why) = row.lost.as_ref().filter(|_| loses(row)) {
            let of = rows.iter().filter(|other| other.lost.as_ref() == Some(why) && loses(other));
            let of = of.map(|other| other.label.as_str());
            add(format!("lost: {} ({})", why.trim_end_matches('.'), of.collect::<Vec<_>>().join("; ")));
        }
        if let Some(note) = &row.note {
            add(format!("note: {}: {note}", row.label));
        }
    }
    // What was not measured, a reason each with all that it is the reason for.
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    for (varied, finding) in all(done) {
        let Err(why) = &finding.measured else { continue };
        let mut under = match finding.from.as_str() {
            "" => finding.workload.clone(),
            from => format!("{}, {from}", finding.workload),
        };
        let known = reasons.iter_mut().find(|(known, _)| known == why);
        // What is not measured as the experiment has it is not expected to be with something varied.
        if known.as_ref().is_some_and(|(_, all)| all.contains(&under)) {
            continue;
        }
        if !varied.is_empty() {
            under += &format!(", {varied}");
        }
        match known {
            Some((_, all)) if all.contains(&under) => {}
            Some((_, all)) => all.push(under),
            None => reasons.push((why, vec![under])),
        }
    }
    for (why, under) in reasons {
        add(format!("not measured: {why} ({})", under.join("; ")));
    }
    for ground in &done.grounds {
        let idle = |outcome: &Outcome| outcome.result().is_some_and(|result| result.flash.erases == 0);
        let idle: Vec<&str> =
            ground.outcomes.iter().filter(|(_, outcome)| idle(outcome)).map(|(name, _)| name.as_str()).collect();
        if !idle.is_empty() {
            let (workload, source, requests) = (&ground.workload, &ground.source, units::whole(ground.served.requests));
            let idle = idle.join(", ");
            add(format!(
                "nothing was collected under {workload} ({source}, {requests} requests) by {idle}: too few writes"
            ));
        }
    }
    let measures: BTreeSet<&str> = done.findings.iter().filter_map(|finding| finding.idle.as_deref()).collect();
    if !measures.is_empty() {
        let measures: Vec<&str> = measures.into_iter().collect();
        add(format!("not exercised: the run ended with {} at 0, so the figure says nothing", measures.join(", ")));
    }
    if done.findings.iter().any(|finding| finding.overloaded) {
        add("! the device did not keep up with the arrivals: such a time grows with the length of the run".to_owned());
    }
    if let (holding, of @ 1..) = holding([done]) {
        add(format!("The published sign or order holds in {holding} of {of} figures that have one."));
    }
    match lines.is_empty() {
        true => String::new(),
        false => format!("\n{}", lines.iter().map(|line| wrap(line, "  ")).collect::<String>()),
    }
}

/// In how many figures the published sign or order holds, and how many have one.
fn holding<'a>(done: impl IntoIterator<Item = &'a Reproduced>) -> (usize, usize) {
    let judged = done.into_iter().flat_map(|one| one.findings.iter().filter_map(Finding::holds));
    judged.fold((0, 0), |(holding, of), holds| (holding + usize::from(holds), of + 1))
}

/// What stands below all experiments: how many figures hold, paper by paper.
pub(super) fn balance(done: &[Reproduced]) -> String {
    let (all, of) = holding(done);
    let papers: BTreeSet<&str> = done.iter().map(|one| one.experiment.paper.name.as_str()).collect();
    let one_by_one = papers.iter().map(|paper| {
        let (own, of) = holding(done.iter().filter(|one| one.experiment.paper.name == *paper));
        format!("{paper} {own} of {of}")
    });
    let text = format!("In all, the published sign or order holds in {all} of {of} figures that have one");
    let by_paper = match papers.len() {
        0 | 1 => ".".to_owned(),
        _ => format!(": {}.", one_by_one.collect::<Vec<_>>().join(", ")),
    };
    format!("\n{}", wrap(&(text + &by_paper), "  "))
}

/// One line for each figure.
pub(super) fn csv(done: &[Reproduced]) -> Result<Vec<u8>, CliError> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let mut write = || -> Result<(), csv::Error> {
        writer.write_record([
            "paper",
            "experiment",
            "source",
            "figure",
            "configuration",
            "against",
            "varied",
            "workload",
            "ran_on",
            "requests_from",
            "requests",
            "unit",
            "published",
            "published_low",
            "published_high",
            "measured",
            "half_width_99",
            "deviation",
            "holds",
            "overloaded",
            "note",
        ])?;
        for one in done {
            for (varied, finding) in all(one) {
                writer.write_record(record(&one.experiment, &varied, finding))?;
            }
        }
        Ok(())
    };
    write().map_err(CliError::new)?;
    writer.into_inner().map_err(CliError::new)
}

/// All findings, with what was varied.
fn all(done: &Reproduced) -> Vec<(String, &Finding)> {
    let plain = done.findings.iter().map(|finding| (String::new(), finding));
    let varied = done.experiment.sensitivities.iter().zip(&done.varied).flat_map(|(sensitivity, by_value)| {
        let name = sensitivity.varied.name();
        sensitivity
            .values
            .iter()
            .zip(by_value)
            .flat_map(move |(value, findings)| findings.iter().map(move |one| (format!("{name}={value}"), one)))
    });
    plain.chain(varied).collect()
}

fn record(experiment: &Experiment, varied: &str, finding: &Finding) -> Vec<String> {
    let row = &experiment.rows[finding.row];
    let number =
        |number: Option<f64>| number.filter(|number| number.is_finite()).map(|n| n.to_string()).unwrap_or_default();
    let (mut published, mut low, mut high) = (String::new(), None, None);
    match &finding.published {
        Some(Published::Number(value)) => published = value.to_string(),
        Some(Published::Range(from, to)) => (low, high) = (Some(*from), Some(*to)),
        Some(Published::Name(name)) => published.clone_from(name),
        None if row.lost.is_some() => "lost".clone_into(&mut published),
        None => {}
    }
    let note = match (&finding.measured, &finding.idle) {
        (Err(why), _) => why.clone(),
        (Ok(_), Some(measure)) => format!("not exercised: {measure} is 0"),
        (Ok(_), None) => String::new(),
    };
    let (measured, width) = match &finding.measured {
        Ok(Found::Number(found)) => (found.value.to_string(), found.half_width_99),
        Ok(Found::Name(name)) => (name.clone(), None),
        Err(_) => (String::new(), None),
    };
    vec![
        experiment.paper.name.clone(),
        experiment.name.clone(),
        experiment.source.clone(),
        row.label.clone(),
        finding.of.clone().unwrap_or_default(),
        row.against.clone().unwrap_or_default(),
        varied.to_owned(),
        finding.workload.clone(),
        finding.from.clone(),
        finding.source.clone(),
        finding.requests.map(|requests| requests.to_string()).unwrap_or_default(),
        row.unit.to_owned(),
        published,
        number(low),
        number(high),
        measured,
        number(width),
        number(finding.deviation),
        finding.holds().map(|holds| holds.to_string()).unwrap_or_default(),
        finding.overloaded.to_string(),
        note,
    ]
}

/// Everything: findings, the requests under the microscope, and the results that they rest on.
pub(super) fn json(done: &[Reproduced], claims: Vec<Value>) -> Result<Vec<u8>, CliError> {
    let experiments: Vec<Value> = done.iter().map(experiment).collect();
    let all = json!({
        "schema": 1,
        "ftlab": env!("CARGO_PKG_VERSION"),
        "seed": SEED,
        "experiments": experiments,
        "claims": claims,
    });
    let mut text = serde_json::to_vec_pretty(&all).map_err(CliError::new)?;
    text.push(b'\n');
    Ok(text)
}

fn experiment(done: &Reproduced) -> Value {
    let experiment = &done.experiment;
    let paper = &experiment.paper;
    let missing = |name: &str| done.missing.iter().find(|(workload, _)| workload == name).map(|(_, names)| names);
    let workloads: Vec<Value> = done
        .grounds
        .iter()
        .map(|ground| {
            let served = &ground.served;
            let outcomes: BTreeMap<&String, Value> = ground
                .outcomes
                .iter()
                .map(|(name, outcome)| {
                    (name, outcome.result().map_or_else(|| json!({ "not_run": outcome.why() }), |r| json!(r)))
                })
                .collect();
            json!({
                "workload": ground.workload,
                "ran_on": ground.kind.word_for(&ground.source),
                "source": ground.source,
                "requests": served.requests,
                "sha256": served.sha256,
                "addresses": served.addresses,
                "not_found": missing(&ground.workload),
                "results": outcomes,
            })
        })
        .collect();
    let ran = |name: &str| done.grounds.iter().any(|ground| ground.workload == name);
    let idle = experiment.workloads.iter().map(|workload| &workload.name).filter(|name| !ran(name));
    let idle: Vec<Value> = idle.map(|name| json!({ "workload": name, "not_found": missing(name) })).collect();
    let figures: Vec<Value> =
        all(done).into_iter().map(|(varied, finding)| figure(experiment, &varied, finding)).collect();
    let windows: Vec<Value> = done.windows.iter().map(window).collect();
    json!({
        "paper": paper.name,
        "experiment": experiment.name,
        "title": experiment.title,
        "source": experiment.source,
        "says": experiment.says,
        "device": paper.device,
        "fill": paper.fill.name(),
        "partial": paper.partial.name(),
        "repeat": experiment.repeat,
        "assumptions": paper.assumptions,
        "workloads": workloads,
        "not_run": idle,
        "figures": figures,
        "microscope": windows,
    })
}

fn figure(experiment: &Experiment, varied: &str, finding: &Finding) -> Value {
    let row = &experiment.rows[finding.row];
    // JSON has no infinity: an open end is null.
    let published = match &finding.published {
        Some(Published::Number(number)) => json!(number),
        Some(Published::Range(low, high)) => json!([low.is_finite().then_some(low), high.is_finite().then_some(high)]),
        Some(Published::Name(name)) => json!(name),
        None => Value::Null,
    };
    let (measured, width, why) = match &finding.measured {
        Ok(Found::Number(number)) => (json!(number.value), number.half_width_99, None),
        Ok(Found::Name(name)) => (json!(name), None, None),
        Err(why) => (Value::Null, None, Some(why)),
    };
    json!({
        "figure": row.label,
        "measure": row.measure,
        "configuration": finding.of,
        "against": row.against,
        "varied": varied,
        "workload": finding.workload,
        "ran_on": finding.from,
        "source": finding.source,
        "requests": finding.requests,
        "unit": row.unit,
        "published": published,
        "lost": row.lost,
        "measured": measured,
        "not_measured": why,
        "half_width_99": width,
        "deviation": finding.deviation,
        "holds": finding.holds(),
        "sign": finding.sign,
        "order": finding.order,
        "exercised": finding.exercised(),
        "overloaded": finding.overloaded,
        "note": row.note,
    })
}

fn window(window: &Window) -> Value {
    match &window.requests {
        Err(why) => json!({ "configuration": window.configuration, "not_run": why }),
        Ok((from, records)) => {
            let us = |ns: u64| ns as f64 / 1e3;
            let requests: Vec<Value> = records
                .iter()
                .zip(*from..)
                .map(|(record, number)| {
                    let commands: BTreeMap<&str, u32> =
                        Op::ALL.iter().map(|op| op.name()).zip(record.commands).collect();
                    json!({
                        "number": number,
                        "arrival_us": us(record.arrival_ns),
                        "bytes": record.bytes,
                        "queue_us": us(record.queue_ns),
                        "service_us": us(record.service_ns),
                        "response_us": us(record.response_ns),
                        "commands": commands,
                    })
                })
                .collect();
            json!({ "configuration": window.configuration, "requests": requests })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deviations_are_in_points_or_percent() {
        assert_eq!(deviation_text(-3.2, "%"), "-3.20 pts");
        assert_eq!(deviation_text(12.5, "µs"), "+12.5 %");
        assert_eq!(deviation_text(0.0, "points"), "0");
        assert_eq!(deviation_text(0.0, ""), "0 %");
    }
}

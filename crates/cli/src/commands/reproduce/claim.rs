//! The headline claims of the papers, and what has become of them here: a line for each claim and each source that it
//! was measured on.
//!
//! `claims.toml` beside a paper's experiments lists them. A claim rests on a row of an experiment, or is an order of
//! configurations; published figures stand with the experiment and are not repeated. The file also says why a claim
//! fails where it does: a sentence that names the run that showed it, and the section that has the figures.

use super::SETUP;
use super::file::{Experiment, MEAN, Published, Relation, Text, UNITS};
use super::finding::{Finding, published_text, suffix, taken};
use super::measure;
use super::render::{label, measured_text};
use super::{File, Reproduced};
use crate::error::CliError;
use crate::units;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use toml::Spanned;

/// The file of a paper's claims, without its extension.
pub(super) const CLAIMS: &str = "claims";

#[derive(Deserialize, Clone, Debug)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct ClaimsFile {
    claim: Vec<ClaimFile>,
}

#[derive(Deserialize, Clone, Debug)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct ClaimFile {
    name: Spanned<String>,
    says: String,
    experiment: Spanned<String>,
    workloads: Vec<Spanned<String>>,
    row: Option<Spanned<String>>,
    of: Option<Spanned<String>>,
    order: Option<Vec<Spanned<String>>>,
    measure: Option<Spanned<String>>,
    unit: Option<Spanned<String>>,
    cause: Option<String>,
    #[serde(default)]
    causes: BTreeMap<String, String>,
    see: String,
}

/// What a claim is about.
#[derive(Clone, PartialEq, Debug)]
enum What {
    /// The figures of a row, of one of its configurations if there are several.
    Row { label: String, of: Option<String> },
    /// Configurations by a measure, the least first.
    Order { names: Vec<String>, measure: String, unit: &'static str },
}

/// A headline of a paper.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    paper: String,
    name: String,
    says: String,
    experiment: String,
    /// Workloads under which it was made, [`MEAN`] among them.
    workloads: Vec<String>,
    what: What,
    cause: Option<String>,
    /// Causes by source, workload or kind of source.
    causes: BTreeMap<String, String>,
    /// Page and section below docs/reproduce.
    see: String,
}

impl Claim {
    /// `paper/name`, as the page has it.
    pub(super) fn title(&self) -> String {
        format!("{}/{}", self.paper, self.name)
    }

    /// Page and section with the figures, below docs/reproduce.
    #[cfg(test)]
    pub(super) fn see(&self) -> &str {
        &self.see
    }

    /// The cause that is nearest to a line: of the longest beginning of its source, of its workload, of what sort of
    /// source it has, of the claim.
    fn cause(&self, line: &Line) -> Option<&str> {
        let of_source = self.causes.iter().filter(|(key, _)| line.source.starts_with(key.as_str()));
        let nearest = of_source.max_by_key(|(key, _)| key.len()).map(|(_, why)| why);
        let found = nearest.or_else(|| self.causes.get(&line.workload)).or_else(|| self.causes.get(&line.from));
        found.or(self.cause.as_ref()).map(String::as_str)
    }
}

/// The claims of a paper; none if it has no file of them.
///
/// # Errors
/// What is wrong with the file, with its line: a name that nothing bears, a claim without a subject.
pub(super) fn claims(files: &[File], paper: &str, experiments: &[Experiment]) -> Result<Vec<Claim>, CliError> {
    let Some(file) = files.iter().find(|file| file.paper == paper && file.name == CLAIMS) else {
        return Ok(Vec::new());
    };
    let text = Text { name: &file.place, text: &file.text };
    let read: ClaimsFile = text.parse()?;
    let mut all: Vec<Claim> = Vec::new();
    for claim in read.claim {
        if all.iter().any(|other| other.name == *claim.name.get_ref()) {
            return Err(text.fault(claim.name.span(), format_args!("a second claim {:?}", claim.name.get_ref())));
        }
        all.push(text.claim(claim, paper, experiments)?);
    }
    Ok(all)
}

impl Text<'_> {
    fn claim(&self, read: ClaimFile, paper: &str, experiments: &[Experiment]) -> Result<Claim, CliError> {
        let names: Vec<&str> = experiments.iter().map(|one| one.name.as_str()).collect();
        self.known("experiment", &read.experiment, &names)?;
        let found = experiments.iter().find(|one| one.name == *read.experiment.get_ref());
        let Some(experiment) = found else { return Err(self.fault(read.experiment.span(), "no such experiment")) };
        let workloads: Vec<&str> = experiment.workloads.iter().map(|one| one.name.as_str()).chain([MEAN]).collect();
        let configurations: Vec<&str> = experiment.configurations.iter().map(|one| one.name.as_str()).collect();
        for name in &read.workloads {
            self.known("workload", name, &workloads)?;
        }
        let what = match (&read.row, &read.order, &read.measure) {
            (Some(row), None, None) => {
                let labels: Vec<&str> = experiment.rows.iter().map(|row| row.label.as_str()).collect();
                self.known("row", row, &labels)?;
                if let Some(of) = &read.of {
                    self.known("configuration", of, &configurations)?;
                }
                What::Row { label: row.get_ref().clone(), of: read.of.clone().map(Spanned::into_inner) }
            }
            (None, Some(order), Some(name)) if order.len() > 1 && read.of.is_none() => {
                for name in order {
                    self.known("configuration", name, &configurations)?;
                }
                measure::check(name.get_ref()).map_err(|error| self.fault(name.span(), error))?;
                let known: Vec<&str> = UNITS.iter().map(|(name, _)| *name).collect();
                let unit = read.unit.as_ref().map(|unit| self.known("unit", unit, &known)).transpose()?;
                let unit = unit.and_then(|unit| known.iter().find(|known| *known == unit)).copied().unwrap_or("");
                let names = order.iter().map(|name| name.get_ref().clone()).collect();
                What::Order { names, measure: name.get_ref().clone(), unit }
            }
            _ => {
                let what = "a claim has either row, with of where it has several, or order with measure";
                return Err(self.fault(read.name.span(), what));
            }
        };
        Ok(Claim {
            paper: paper.to_owned(),
            name: read.name.into_inner(),
            says: read.says,
            experiment: read.experiment.into_inner(),
            workloads: read.workloads.into_iter().map(Spanned::into_inner).collect(),
            what,
            cause: read.cause,
            causes: read.causes,
            see: read.see,
        })
    }
}

/// The claims that rest on some of the experiments.
pub(super) fn of(claims: Vec<Claim>, experiments: &[Experiment]) -> Vec<Claim> {
    let rests =
        |claim: &Claim| experiments.iter().any(|one| one.paper.name == claim.paper && one.name == claim.experiment);
    claims.into_iter().filter(rests).collect()
}

/// What the claims rest on and no more: experiments and workloads; nothing is varied or looked at closely.
pub(super) fn needed(experiments: Vec<Experiment>, claims: &[Claim]) -> Vec<Experiment> {
    let mut needed = Vec::new();
    for mut experiment in experiments {
        let own: Vec<&Claim> = claims
            .iter()
            .filter(|claim| claim.paper == experiment.paper.name && claim.experiment == experiment.name)
            .collect();
        if own.is_empty() {
            continue;
        }
        let named = |name: &String| own.iter().any(|claim| claim.workloads.contains(name));
        if !named(&MEAN.to_owned()) {
            experiment.workloads.retain(|workload| named(&workload.name));
        }
        experiment.sensitivities.clear();
        experiment.curves.clear();
        experiment.microscope = None;
        needed.push(experiment);
    }
    needed
}

/// A claim under one source.
#[derive(Clone, PartialEq, Debug)]
struct Line {
    workload: String,
    /// Kind of the source, and the source.
    from: String,
    source: String,
    requests: u64,
    published: String,
    measured: String,
    sign: Option<bool>,
    order: Option<bool>,
}

impl Line {
    fn fails(&self) -> bool {
        self.sign == Some(false) || self.order == Some(false)
    }
}

/// The lines of a claim.
fn lines(claim: &Claim, done: &Reproduced) -> Vec<Line> {
    match &claim.what {
        What::Row { label: row, of } => {
            let meant = |finding: &&Finding| {
                let named = match finding.workload.split_once(' ') {
                    // "mean of 3 in 4"
                    Some((MEAN, _)) => claim.workloads.iter().any(|name| name == MEAN),
                    _ => claim.workloads.contains(&finding.workload),
                };
                named && done.experiment.rows[finding.row].label == *row && (of.is_none() || finding.of == *of)
            };
            done.findings.iter().filter(meant).map(|finding| of_row(done, finding)).collect()
        }
        What::Order { names, measure, unit } => {
            let meant = done.grounds.iter().filter(|ground| claim.workloads.contains(&ground.workload));
            meant
                .map(|ground| {
                    let factor = UNITS.iter().find(|(name, _)| name == unit).map_or(1.0, |(_, factor)| *factor);
                    let values: Result<Vec<f64>, String> = names
                        .iter()
                        .map(|name| taken(name, measure, ground).map(|measured| measured.value * factor))
                        .collect();
                    let (measured, order) = match &values {
                        Ok(values) => (by_size(names, values, unit), ascending(values)),
                        Err(why) => (format!("not measured: {why}"), None),
                    };
                    Line {
                        workload: ground.workload.clone(),
                        from: ground.kind.word_for(&ground.source),
                        source: ground.source.clone(),
                        requests: ground.served.requests,
                        published: published_order(done, names, measure, unit, &ground.workload),
                        measured,
                        sign: None,
                        order,
                    }
                })
                .collect()
        }
    }
}

fn of_row(done: &Reproduced, finding: &Finding) -> Line {
    let row = &done.experiment.rows[finding.row];
    let published = finding.published.as_ref().map(|published| published_text(published, row.unit));
    let measured = match &finding.measured {
        Ok(_) => measured_text(finding, row.unit),
        Err(why) => format!("not measured: {why}"),
    };
    Line {
        workload: finding.workload.clone(),
        from: finding.from.clone(),
        source: finding.source.clone(),
        requests: finding.requests.unwrap_or_default(),
        published: published.unwrap_or_else(|| "-".to_owned()),
        measured: format!("{}: {measured}", label(row, finding)),
        sign: finding.sign.filter(|_| finding.exercised()),
        order: finding.order.filter(|_| finding.exercised()),
    }
}

/// Whether each value is above the one before; nothing, where there is nothing of any.
fn ascending(values: &[f64]) -> Option<bool> {
    let something = values.iter().any(|value| *value != 0.0);
    something.then(|| values.windows(2).all(|pair| pair[0] < pair[1]))
}

/// `rose 375 < last 620 < fast 903 s`: the least first, whatever was published.
fn by_size(names: &[String], values: &[f64], unit: &str) -> String {
    let mut pairs: Vec<(&String, f64)> = names.iter().zip(values.iter().copied()).collect();
    pairs.sort_by(|one, other| one.1.total_cmp(&other.1));
    let mut text = String::new();
    for (index, (name, value)) in pairs.iter().enumerate() {
        let between = match index.checked_sub(1).map(|before| pairs[before].1 < *value) {
            None => "",
            Some(true) => " < ",
            Some(false) => " = ",
        };
        let _ = write!(text, "{between}{name} {}", units::number(*value));
    }
    text + &suffix(unit)
}

/// The same as published, with its figures as far as rows of the experiment have them.
fn published_order(done: &Reproduced, names: &[String], measure: &str, unit: &str, workload: &str) -> String {
    let figure = |name: &String| {
        let own = |row: &&super::file::Row| {
            row.relation == Relation::Value && row.measure == measure && row.of == [name.clone()] && row.unit == unit
        };
        done.experiment.rows.iter().find(own).and_then(|row| match row.published.get(workload) {
            Some(Published::Number(number)) => Some(*number),
            _ => None,
        })
    };
    let figures: Option<Vec<f64>> = names.iter().map(figure).collect();
    figures.map_or_else(|| names.join(" < "), |figures| by_size(names, &figures, unit))
}

/// The page: a table in Markdown, the lines of each claim one after the other, and the balance.
pub(super) fn summary(claims: &[Claim], done: &[Reproduced], command: &str) -> String {
    let mut text = format!(
        "ftlab {}, seed {}: `{command}`\n\n\
         | claim | published | measured on | measured | sign | order | if it fails, why |\n\
         |---|---|---|---|---|---|---|\n",
        env!("CARGO_PKG_VERSION"),
        super::lab::SEED
    );
    let (mut judged, mut kept) = (0, 0);
    for claim in claims {
        let own = found(claim, done).map(|done| lines(claim, done)).unwrap_or_default();
        if own.is_empty() {
            // A claim keeps its place where no requests were found, and where --quick leaves its experiment out.
            let _ = writeln!(text, "| {}: {} | - | nothing was run | - | - | - |  |", claim.title(), claim.says);
        }
        for (index, line) in own.iter().enumerate() {
            let cells = [
                if index == 0 {
                    format!("{}: {}", claim.title(), claim.says)
                } else {
                    format!("{}, as above", claim.title())
                },
                line.published.clone(),
                format!("{}: {}", line.workload, ran_on(line)),
                line.measured.clone(),
                yes(line.sign),
                yes(line.order),
                if line.fails() { why(claim, line) } else { String::new() },
            ];
            let cells = cells.map(|cell| cell.replace('|', "\\|"));
            let _ = writeln!(text, "| {} |", cells.join(" | "));
            if line.sign.is_some() || line.order.is_some() {
                judged += 1;
                kept += usize::from(!line.fails());
            }
        }
    }
    let _ = write!(text, "\nSign and order hold in {kept} of {judged} lines that have one.");
    text.push('\n');
    text
}

fn found<'a>(claim: &Claim, done: &'a [Reproduced]) -> Option<&'a Reproduced> {
    let own = |one: &&Reproduced| one.experiment.paper.name == claim.paper && one.experiment.name == claim.experiment;
    done.iter().find(own)
}

fn ran_on(line: &Line) -> String {
    match line.requests {
        // A mean, over several sources.
        0 => line.from.clone(),
        requests => format!("{} {}, {} requests", line.from, line.source, units::whole(requests)),
    }
}

fn why(claim: &Claim, line: &Line) -> String {
    let link = format!("[figures](reproduce/{})", claim.see);
    claim.cause(line).map_or_else(|| format!("not known: {link}"), |cause| format!("{cause} {link}"))
}

fn yes(holds: Option<bool>) -> String {
    super::render::holds_text(holds).to_owned()
}

/// The same as JSON.
pub(super) fn json(claims: &[Claim], done: &[Reproduced]) -> Vec<Value> {
    let mut all = Vec::new();
    for claim in claims {
        for line in found(claim, done).map(|done| lines(claim, done)).unwrap_or_default() {
            all.push(json!({
                "claim": claim.title(),
                "says": claim.says,
                "experiment": claim.experiment,
                "workload": line.workload,
                "ran_on": line.from,
                "source": line.source,
                "requests": line.requests,
                "published": line.published,
                "measured": line.measured,
                "sign": line.sign,
                "order": line.order,
                "cause": line.fails().then(|| claim.cause(&line)).flatten(),
                "see": claim.see,
            }));
        }
    }
    all
}

/// Whether a file of a paper is no experiment.
pub(super) fn is_apart(file: &File) -> bool {
    file.name == SETUP || file.name == CLAIMS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Vec<String> {
        ["rose", "last", "fast"].map(str::to_owned).to_vec()
    }

    #[test]
    fn orders_are_told_from_the_least() {
        assert_eq!(by_size(&names(), &[375.0, 620.0, 903.0], "s"), "rose 375 < last 620 < fast 903 s");
        assert_eq!(by_size(&names(), &[375.0, 903.0, 620.0], ""), "rose 375 < fast 620 < last 903");
        assert_eq!(by_size(&names(), &[0.0, 2.0, 0.0], "s"), "rose 0 = fast 0 < last 2.00 s");
    }

    #[test]
    fn equal_values_are_in_no_order() {
        assert_eq!(ascending(&[1.0, 2.0, 3.0]), Some(true));
        assert_eq!((ascending(&[1.0, 1.0, 3.0]), ascending(&[2.0, 2.0])), (Some(false), Some(false)));
        assert_eq!(ascending(&[0.0, 0.0, 0.0]), None);
    }

    #[test]
    fn the_nearest_cause_counts() {
        let causes = [
            ("twin", "of twins"),
            ("twin:fin", "of the twin"),
            ("4VMs", "of the workload"),
            ("excerpt", "of excerpts"),
        ];
        let claim = Claim {
            paper: "p".into(),
            name: "n".into(),
            says: "s".into(),
            experiment: "e".into(),
            workloads: Vec::new(),
            what: What::Row { label: "r".into(), of: None },
            cause: Some("of all".into()),
            causes: causes.map(|(key, why)| (key.to_owned(), why.to_owned())).into(),
            see: "p.md".into(),
        };
        let line = |workload: &str, from: &str, source: &str| Line {
            workload: workload.into(),
            from: from.into(),
            source: source.into(),
            requests: 1,
            published: String::new(),
            measured: String::new(),
            sign: Some(false),
            order: None,
        };
        assert_eq!(claim.cause(&line("4VMs", "twin", "twin:financial1")), Some("of the twin"));
        assert_eq!(claim.cause(&line("4VMs", "twin", "twin:largefile")), Some("of twins"));
        assert_eq!(claim.cause(&line("4VMs", "excerpt", "x.csv")), Some("of the workload"));
        assert_eq!(claim.cause(&line("A", "excerpt", "x.csv")), Some("of excerpts"));
        assert_eq!(claim.cause(&line("A", "trace", "x.csv")), Some("of all"));
        assert!(why(&claim, &line("A", "trace", "x.csv")).ends_with("[figures](reproduce/p.md)"));
        let page = summary(&[claim], &[], "ftlab reproduce --summary");
        assert!(page.contains("\n| p/n: s | - | nothing was run | - | - | - |  |\n"), "{page}");
        assert!(page.ends_with("\nSign and order hold in 0 of 0 lines that have one.\n"), "{page}");
    }
}

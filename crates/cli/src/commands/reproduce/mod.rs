//! `ftlab reproduce`: published figures beside measured ones.
//!
//! The files under `experiments/` say what was published and how to measure it ([`file`]); the runs are those of
//! `compare` (`lab`); what comes of them is set beside the published figures (`finding`) and printed (`render`), drawn
//! (`page`), or told by the papers' headline claims (`claim`).
//! No number of a paper stands in code. What ran on a twin is called a twin's, whatever it says.

mod claim;
mod file;
mod finding;
mod lab;
mod measure;
mod page;
mod pool;
mod render;

use super::Ended;
use crate::args::ReproduceArgs;
use crate::commands::experiment::Readings;
use crate::error::CliError;
use crate::experiment_file;
use crate::output::{self, Outputs};
use crate::session::Session;
use crate::units;
use claim::Claim;
use file::{Configuration, Experiment, Paper, Sensitivity, Varied};
use finding::{Finding, Ground, findings};
use lab::{Amount, At, Lab, Shelf};
use pool::Pool;
use sim::report::RequestRecord;
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// The files that come with this build: paper, name, text.
const SHIPPED: &[(&str, &str, &str)] = include!(concat!(env!("OUT_DIR"), "/experiments.rs"));

/// The file of a paper's set-up, without its extension.
const SETUP: &str = "paper";

/// The variable that names a directory of traces.
const TRACES: &str = "FTLAB_TRACES";

/// A file of an experiment or of a paper's set-up.
#[derive(Clone, PartialEq, Eq, Debug)]
struct File {
    paper: String,
    name: String,
    /// What it is called in messages.
    place: String,
    text: String,
}

/// The files that come with this build.
fn shipped() -> Vec<File> {
    let file = |&(paper, name, text): &(&str, &str, &str)| File {
        paper: paper.to_owned(),
        name: name.to_owned(),
        place: format!("experiments/{paper}/{name}.toml"),
        text: text.to_owned(),
    };
    SHIPPED.iter().map(file).collect()
}

/// The files of a directory that is laid out as `experiments/` is: a directory for each paper.
fn from(directory: &Path) -> Result<Vec<File>, CliError> {
    let sorted = |directory: &Path| -> Result<Vec<PathBuf>, CliError> {
        let fault = |cause| CliError::file("read", directory, &cause);
        let mut paths: Vec<PathBuf> = fs::read_dir(directory)
            .map_err(fault)?
            .map(|entry| Ok(entry.map_err(fault)?.path()))
            .collect::<Result<_, CliError>>()?;
        paths.sort();
        Ok(paths)
    };
    let name = |path: &Path| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let mut files = Vec::new();
    for paper in sorted(directory)?.into_iter().filter(|path| path.is_dir()) {
        for path in sorted(&paper)?.into_iter().filter(|path| path.extension().is_some_and(|end| end == "toml")) {
            let text = experiment_file::text(&path)?;
            files.push(File { paper: name(&paper), name: name(&path), place: path.display().to_string(), text });
        }
    }
    if files.is_empty() {
        let dir = directory.display();
        let what = format_args!("no paper in {dir}: write {dir}/PAPER/{SETUP}.toml and beside it {LAYOUT}");
        return Err(CliError::new(what).within("--experiments"));
    }
    Ok(files)
}

/// What a paper has beside its set-up.
const LAYOUT: &str = "a file NAME.toml for each table or figure (docs/reproduce.md, Adding a paper)";

/// The experiments that are meant: of all papers, of one, or one of a paper.
fn chosen(files: &[File], asked: Option<&str>) -> Result<Vec<Experiment>, CliError> {
    let mut papers: Vec<&str> = files.iter().map(|file| file.paper.as_str()).collect();
    papers.dedup();
    let (paper, name) = match asked {
        None | Some("all") => (None, None),
        Some(asked) => match asked.trim_end_matches('/').split_once('/') {
            None => (Some(asked.trim_end_matches('/')), None),
            Some((paper, name)) => (Some(paper), Some(name)),
        },
    };
    if let Some(unknown) = paper.filter(|paper| !papers.contains(paper)) {
        return Err(CliError::unknown("paper", unknown, papers));
    }
    let mut experiments: Vec<Experiment> = Vec::new();
    for paper in papers.into_iter().filter(|one| paper.is_none_or(|paper| paper == *one)) {
        let (setup, others): (Vec<&File>, Vec<&File>) =
            files.iter().filter(|file| file.paper == paper).partition(|file| claim::is_apart(file));
        let Some(setup) = setup.iter().find(|file| file.name == SETUP) else {
            return Err(CliError::new(format_args!("the paper {paper} has no file {SETUP}.toml")));
        };
        if others.is_empty() {
            let what = format_args!("the paper {paper} has no experiments: write beside its set-up {LAYOUT}");
            return Err(CliError::new(what).within(&setup.place));
        }
        let names: Vec<&str> = others.iter().map(|file| file.name.as_str()).collect();
        if let Some(unknown) = name.filter(|name| !names.contains(name)) {
            return Err(CliError::unknown(&format!("experiment of {paper}"), unknown, names));
        }
        let setup = Paper::read(paper, &setup.place, &setup.text)?;
        for file in others.into_iter().filter(|file| name.is_none_or(|name| name == file.name)) {
            experiments.push(Experiment::read(&setup, &file.name, &file.place, &file.text)?);
        }
    }
    experiments.sort_by_key(|experiment| (experiment.paper.name.clone(), counted(&experiment.name)));
    Ok(experiments)
}

/// A name by which figure-10 comes after figure-2: numbers are padded.
fn counted(name: &str) -> String {
    name.split('-')
        .map(|part| if part.parse::<u32>().is_ok() { format!("{part:0>6}-") } else { format!("{part}-") })
        .collect()
}

/// An experiment that was run.
struct Reproduced {
    experiment: Experiment,
    /// For each workload its sources with their outcomes.
    grounds: Vec<Ground>,
    /// Names of files that were looked for in vain, by workload.
    missing: Vec<(String, Vec<String>)>,
    findings: Vec<Finding>,
    /// For each sensitivity and value its findings.
    varied: Vec<Vec<Vec<Finding>>>,
    /// For each configuration under the microscope its requests, the first with its number.
    windows: Vec<Window>,
}

/// Some requests of a configuration one by one.
struct Window {
    configuration: String,
    /// The number of the first, from 1; the requests; or why there are none.
    requests: Result<(u64, Vec<RequestRecord>), String>,
}

/// Runs what is asked for and delivers it: each experiment as soon as it is done, files at the end.
///
/// # Errors
/// The first thing that is wrong with files or flags; it is found before anything runs.
pub(super) fn reproduce(args: &ReproduceArgs, stop: &AtomicBool, stdout: &mut dyn Write) -> Result<Ended, CliError> {
    let page = args.html.is_some();
    let answer = reproduced(args, page, &Session::new(stop), &mut |text| crate::print(stdout, text))?;
    write(args, &answer)?;
    Ok(match (answer.interrupted, answer.measured) {
        (true, _) => Ended::Interrupted,
        (false, true) => Ended::Done,
        (false, false) => Ended::Failed,
    })
}

/// Writes the files that are asked for.
///
/// # Errors
/// The one that cannot be written.
pub fn write(args: &ReproduceArgs, answer: &Answer) -> Result<(), CliError> {
    if let (Some(path), Some(json)) = (&args.json, &answer.json) {
        output::write_file(path, json)?;
    }
    if let (Some(path), Some(csv)) = (&args.csv, &answer.csv) {
        output::write_file(path, csv)?;
    }
    if let (Some(path), Some(html)) = (&args.html, &answer.html) {
        output::write_file(path, html.as_bytes())?;
    }
    Ok(())
}

/// What came of the experiments that were asked for.
#[derive(Debug)]
pub struct Answer {
    /// Everything, as `--json` has it; `None` after `--list`.
    pub json: Option<Vec<u8>>,
    /// One line per figure, as `--csv` has it; `None` after `--list`.
    pub csv: Option<Vec<u8>>,
    /// The page of `--html`, if it is wanted; `None` after `--list`.
    pub html: Option<String>,
    /// Whether it was stopped before the end.
    pub interrupted: bool,
    /// Whether any figure was measured, or there are none to measure.
    pub measured: bool,
}

/// Runs what is asked for; every text for the terminal is handed over as soon as it is there. Makes the page of
/// `--html` if `page` is wanted. Writes no file: [`write()`] does.
///
/// # Errors
/// The first thing that is wrong with files or flags; it is found before anything runs.
pub fn reproduced(
    args: &ReproduceArgs,
    page: bool,
    session: &Session<'_>,
    tell: &mut dyn FnMut(&str) -> Result<(), CliError>,
) -> Result<Answer, CliError> {
    let files = args.experiments.as_deref().map_or_else(|| Ok(shipped()), from)?;
    let mut experiments = chosen(&files, args.paper.as_deref())?;
    let claims = claims(&files, &experiments)?;
    if args.list {
        tell(&render::list(&experiments))?;
        return Ok(Answer { json: None, csv: None, html: None, interrupted: false, measured: true });
    }
    if args.summary {
        experiments = claim::needed(experiments, &claims);
    }
    let mut left_out: Vec<Experiment> = Vec::new();
    if args.quick || args.unvaried {
        for experiment in &mut experiments {
            experiment.sensitivities.clear();
        }
    }
    if args.quick {
        let by_wear = |one: &Experiment| one.until.is_some();
        // Who names an experiment wants it, though there is nothing to hold it against.
        let named = args.paper.as_ref().is_some_and(|asked| asked.contains('/'));
        let silent = |one: &Experiment| !named && !args.summary && one.rows.iter().all(|row| row.published.is_empty());
        let (out, kept) = experiments.into_iter().partition(|one| by_wear(one) || silent(one));
        (left_out, experiments) = (out, kept);
    }
    let given = args.traces.clone().into_iter().chain(std::env::var_os(TRACES).map(PathBuf::from));
    let shelf = Shelf::open(&given.collect::<Vec<_>>())?;
    let read = inputs(args, &files, &experiments, &shelf);
    let mut outputs = Outputs::beside(read.iter().map(|(what, path)| (*what, path.as_path())));
    for (flag, path) in [("--json", &args.json), ("--csv", &args.csv), ("--html", &args.html)] {
        path.as_ref().map_or(Ok(()), |path| outputs.claim(flag, path))?;
    }
    let amount = Amount { requests: args.requests, quick: args.quick };
    let threads = args.threads.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from));
    // What one run has read another need not read.
    let readings = Some(Arc::new(Readings::new(session.limits.requests_in_memory)));
    let session = &Session { readings, ..session.clone() };
    let pool = Pool::new(session, threads);
    let lab = Lab::new(amount, session, &pool);
    let done = thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| pool.work());
        }
        for experiment in &experiments {
            plan(experiment, &shelf, &lab);
        }
        pool.complete();
        let done = in_order(experiments, &shelf, &lab, args.summary, &mut |text| pool.aside(|| tell(text)));
        pool.abandon();
        done
    })?;
    drop(pool);
    if args.summary {
        tell(&claim::summary(&claims, &done, &command(args)))?;
    } else if done.len() > 1 {
        tell(&render::balance(&done))?;
    }
    if !left_out.is_empty() {
        tell(&render::left_out(&left_out))?;
    }
    Ok(Answer {
        json: Some(render::json(&done, claim::json(&claims, &done))?),
        html: page.then(|| page::page(&done)),
        csv: Some(render::csv(&done)?),
        interrupted: session.stop.load(Ordering::Relaxed),
        measured: measured(&done),
    })
}

/// Whether any figure was measured, or there are none to measure.
fn measured(done: &[Reproduced]) -> bool {
    let has_none = done.iter().all(|one| one.experiment.rows.is_empty());
    has_none || done.iter().flat_map(|one| &one.findings).any(|finding| finding.measured.is_ok())
}

/// The files that are read, and what each is: no output may take the place of one.
fn inputs(
    args: &ReproduceArgs,
    files: &[File],
    experiments: &[Experiment],
    shelf: &Shelf,
) -> Vec<(&'static str, PathBuf)> {
    let from_disk = files.iter().filter(|_| args.experiments.is_some());
    let mut read: Vec<_> = from_disk.map(|file| ("an experiment", PathBuf::from(&file.place))).collect();
    for experiment in experiments {
        for workload in &experiment.workloads {
            read.push(("the device", PathBuf::from(workload.device(&experiment.paper))));
            let (sources, _) = shelf.sources(workload);
            read.extend(sources.iter().filter_map(|found| Some(("a trace", found.file()?))));
        }
    }
    read
}

/// Runs experiments, and tells of each as soon as it is done, unless only the `summary` of all is wanted.
///
/// # Errors
/// Requests that cannot be read.
fn in_order(
    experiments: Vec<Experiment>,
    shelf: &Shelf,
    lab: &Lab<'_>,
    summary: bool,
    tell: &mut dyn FnMut(&str) -> Result<(), CliError>,
) -> Result<Vec<Reproduced>, CliError> {
    let mut done: Vec<Reproduced> = Vec::new();
    for experiment in experiments {
        if lab.stopped() {
            break;
        }
        let is_first = done.last().is_none_or(|last| last.experiment.paper.name != experiment.paper.name);
        if is_first && !summary {
            tell(&render::paper(&experiment.paper))?;
        }
        let reproduced = run(experiment, shelf, lab)?;
        if !summary {
            tell(&render::terminal(&reproduced))?;
        }
        done.push(reproduced);
    }
    Ok(done)
}

/// The claims that rest on some of the experiments.
fn claims(files: &[File], experiments: &[Experiment]) -> Result<Vec<Claim>, CliError> {
    let papers: BTreeSet<&str> = experiments.iter().map(|one| one.paper.name.as_str()).collect();
    let mut all = Vec::new();
    for paper in papers {
        let claims = claim::claims(files, paper, &chosen(files, Some(paper))?)?;
        all.extend(claim::of(claims, experiments));
    }
    Ok(all)
}

/// The command that the summary is of. Where traces lie is nobody else's business.
fn command(args: &ReproduceArgs) -> String {
    let mut words = vec!["ftlab reproduce".to_owned()];
    words.extend(args.paper.clone());
    words.push("--summary".to_owned());
    words.extend(args.quick.then(|| "--quick".to_owned()));
    words.extend(args.unvaried.then(|| "--unvaried".to_owned()));
    words.extend(args.requests.map(|requests| format!("--requests {requests}")));
    words.extend(args.experiments.as_ref().map(|_| "--experiments DIR".to_owned()));
    words.extend(args.traces.as_ref().map(|_| "--traces DIR".to_owned()));
    words.join(" ")
}

/// What is run together: some configurations under some workloads, with one thing varied or as the experiment has it.
struct Series<'a> {
    /// Of the configurations, in the experiment's order.
    names: Vec<String>,
    /// What is varied, and what it becomes.
    varied: Option<(&'a Varied, &'a str)>,
    /// Requests at the most, if there is a limit of its own.
    requests: Option<u64>,
    /// Names of the workloads; all, if there are none.
    among: Option<&'a [String]>,
}

impl<'a> Series<'a> {
    /// Of rows as the experiment has them.
    fn plain(experiment: &Experiment) -> Series<'static> {
        let rows: Vec<&file::Row> = experiment.rows.iter().collect();
        Series { names: used(experiment, &rows), varied: None, requests: None, among: None }
    }

    /// Of a sensitivity, one for each value.
    fn of(experiment: &Experiment, sensitivity: &'a Sensitivity) -> Vec<Series<'a>> {
        let names = used(experiment, &sensitivity.rows_of(experiment));
        let series = |value: &'a String| Series {
            names: names.clone(),
            varied: Some((&sensitivity.varied, value.as_str())),
            requests: sensitivity.requests,
            among: Some(&sensitivity.workloads),
        };
        sensitivity.values.iter().map(series).collect()
    }

    /// Calls `at` with each source of the workloads, and its number among those of its workload.
    fn each<E>(
        &self,
        experiment: &Experiment,
        shelf: &Shelf,
        mut at: impl FnMut(&[&Configuration], usize, At<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let configurations: Vec<_> = self.names.iter().filter_map(|name| experiment.configuration(name)).collect();
        let is_among = |workload: &&file::Workload| self.among.is_none_or(|among| among.contains(&workload.name));
        for workload in experiment.workloads.iter().filter(is_among) {
            let (mut sources, _) = shelf.sources(workload);
            if self.varied.is_some() {
                sources.truncate(1);
            }
            for (index, found) in sources.iter().enumerate() {
                let here = At { workload, found, varied: self.varied, requests: self.requests };
                at(&configurations, index, here)?;
            }
        }
        Ok(())
    }
}

/// The names of the configurations that some rows use, in the experiment's order.
fn used(experiment: &Experiment, rows: &[&file::Row]) -> Vec<String> {
    let used: BTreeSet<&String> = rows.iter().flat_map(|row| row.of.iter().chain(&row.against)).collect();
    let names = experiment.configurations.iter().map(|one| &one.name);
    names.filter(|name| used.contains(name)).cloned().collect()
}

/// Hands the runs of an experiment to the laboratory.
fn plan(experiment: &Experiment, shelf: &Shelf, lab: &Lab<'_>) {
    let varied = experiment.sensitivities.iter().flat_map(|sensitivity| Series::of(experiment, sensitivity));
    for series in std::iter::once(Series::plain(experiment)).chain(varied) {
        let planned: Result<(), Infallible> = series.each(experiment, shelf, |configurations, _, at| {
            lab.plan(experiment, configurations, at);
            Ok(())
        });
        let Ok(()) = planned;
    }
}

fn run(experiment: Experiment, shelf: &Shelf, lab: &Lab<'_>) -> Result<Reproduced, CliError> {
    let mut missing = Vec::new();
    for workload in &experiment.workloads {
        let (_, names) = shelf.sources(workload);
        if !names.is_empty() {
            missing.push((workload.name.clone(), names));
        }
    }
    let grounds = grounds(&experiment, shelf, lab, &Series::plain(&experiment))?;
    let found = findings(&experiment, &grounds);
    let mut varied = Vec::new();
    for sensitivity in &experiment.sensitivities {
        let rows = sensitivity.rows_of(&experiment);
        let mut by_value = Vec::new();
        for series in Series::of(&experiment, sensitivity) {
            let all = findings(&experiment, &self::grounds(&experiment, shelf, lab, &series)?);
            // A mean over some of a row's workloads is no mean of the row.
            let own = |finding: &Finding| {
                rows.iter().any(|row| row.label == experiment.rows[finding.row].label)
                    && (finding.workload == file::MEAN || sensitivity.workloads.contains(&finding.workload))
            };
            by_value.push(all.into_iter().filter(own).collect());
        }
        varied.push(by_value);
    }
    let windows = windows(&experiment, shelf, lab)?;
    Ok(Reproduced { grounds, missing, findings: found, varied, windows, experiment })
}

/// Every source of a series with its outcomes.
fn grounds(
    experiment: &Experiment,
    shelf: &Shelf,
    lab: &Lab<'_>,
    series: &Series<'_>,
) -> Result<Vec<Ground>, CliError> {
    let mut grounds = Vec::new();
    series.each(experiment, shelf, |configurations, index, at| {
        let outcomes = lab.outcomes(experiment, configurations, at)?;
        let came_to = configurations.iter().map(|one| lab.served(experiment, one, at));
        let served = came_to.max_by_key(|served| served.requests).unwrap_or_default();
        grounds.push(Ground {
            workload: at.workload.name.clone(),
            index,
            kind: at.found.kind,
            source: at.found.name.clone(),
            served,
            outcomes: series.names.iter().cloned().zip(outcomes).collect(),
        });
        Ok::<(), CliError>(())
    })?;
    Ok(grounds)
}

/// What the experiment's microscope shows.
fn windows(experiment: &Experiment, shelf: &Shelf, lab: &Lab<'_>) -> Result<Vec<Window>, CliError> {
    let Some(microscope) = &experiment.microscope else { return Ok(Vec::new()) };
    let workload = experiment.workloads.iter().find(|workload| workload.name == *microscope.workload.get_ref());
    let Some(workload) = workload else { return Ok(Vec::new()) };
    let (sources, _) = shelf.sources(workload);
    let Some(found) = sources.first() else { return Ok(Vec::new()) };
    let mut windows: Vec<Window> = Vec::new();
    let mut from = None;
    for name in &microscope.of {
        let Some(configuration) = experiment.configuration(name.get_ref()) else { continue };
        let all = lab.requests(experiment, configuration, At { workload, found, varied: None, requests: None })?;
        let requests = all.and_then(|all| {
            // Where the first configuration collects, the others are looked at too.
            let at = *from.get_or_insert_with(|| first(&all, microscope));
            let end = all.len().min(at + microscope.requests as usize);
            let records = all.get(at..end).filter(|records| !records.is_empty());
            let none = || {
                format!("no request {}, for there were {}", units::whole(at as u64 + 1), units::whole(all.len() as u64))
            };
            records.map(|records| (at as u64 + 1, records.to_vec())).ok_or_else(none)
        });
        windows.push(Window { configuration: name.get_ref().clone(), requests });
    }
    Ok(windows)
}

/// Where a window begins: at its request, or half its length before the first request from there on that erased a
/// block.
fn first(all: &[RequestRecord], microscope: &file::Microscope) -> usize {
    let from = microscope.from.saturating_sub(1) as usize;
    let erased = |record: &RequestRecord| render::erases(record) > 0;
    let collection = all.iter().skip(from).position(erased).filter(|_| microscope.collection);
    collection.map_or(from, |after| (from + after).saturating_sub(microscope.requests as usize / 2))
}

/// See [`crate::fuzzing`].
#[cfg(feature = "fuzzing")]
pub mod fuzzing {
    use super::*;

    /// The texts of a paper's set-up, of an experiment and of claims, up to where the runs would begin. Nothing is
    /// opened.
    pub fn paper(setup: &str, experiment: &str, claims: &str) {
        let texts = [(SETUP, setup), ("e", experiment), (claim::CLAIMS, claims)];
        if texts.iter().any(|(_, text)| text.contains("twin-of")) {
            return;
        }
        let file = |(name, text): &(&str, &str)| File {
            paper: "p".to_owned(),
            name: (*name).to_owned(),
            place: format!("{name}.toml"),
            text: (*text).to_owned(),
        };
        let files: Vec<File> = texts.iter().map(file).collect();
        let Ok(experiments) = chosen(&files, None) else { return };
        let Ok(claims) = super::claims(&files, &experiments) else { return };
        let _ = render::list(&experiments);
        let _ = claim::needed(experiments, &claims);
    }
}

#[cfg(test)]
mod tests;

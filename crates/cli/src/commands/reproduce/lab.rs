//! Where requests come from, and the runs: every configuration of an experiment under every source of its workloads.
//!
//! A run is a plan of `compare`, so that there is one runner. What several tables of a paper share is run once.

use super::file::{Configuration, Count, End, Experiment, Varied, Workload};
use super::measure::is_map;
use crate::args::{CompareArgs, Fill, Scheduler, Until};
use crate::commands::compare::{CACHE, Combination, Plan, Workload as Requests};
use crate::commands::experiment::{Ran, Settled, device_spec, run_planned, settled, try_on};
use crate::error::CliError;
use crate::open::RECORDING;
use crate::session::{BuiltIn, Session};
use clap::ValueEnum;
use flash::device::Device;
use sim::report::{RequestRecord, SchemeResult};
use sim::workload::generate::published;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

/// The seed of everything random.
pub(super) const SEED: u64 = 1;

/// The most requests of a workload with `--quick` where the files say no number.
const QUICK: u64 = 20_000;

/// What a figure that ran on a source is worth.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Kind {
    /// The whole trace that the paper names.
    Trace,
    /// A part of that trace.
    Excerpt,
    /// A real recording of something else.
    Similar,
    /// A recording of something else that ships with the program.
    Recording,
    /// A statistical imitation (docs/twins.md).
    Twin,
    /// A synthetic workload, as in the paper.
    Generator,
}

impl Kind {
    /// The word that labels a figure.
    pub(super) fn word(self) -> &'static str {
        match self {
            Kind::Trace => "trace",
            Kind::Excerpt => "excerpt",
            Kind::Similar => "other trace",
            Kind::Recording => "recording",
            Kind::Twin => "twin",
            Kind::Generator => "generator",
        }
    }

    /// The same for one source: a twin that does not predict write amplification says so.
    pub(super) fn word_for(self, source: &str) -> String {
        match published::word(source) {
            Some(rough) if self == Kind::Twin => format!("{rough} {}", self.word()),
            _ => self.word().to_owned(),
        }
    }
}

/// Requests that were found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Found {
    /// What they are.
    pub(super) kind: Kind,
    /// The file's name, or the specification.
    pub(super) name: String,
    path: Option<PathBuf>,
}

/// The files of the directories in which traces are looked for.
#[derive(Clone, Debug, Default)]
pub(super) struct Shelf {
    /// By name in lower case, without the ending of a compression.
    files: BTreeMap<String, PathBuf>,
}

impl Shelf {
    /// Looks into directories; of files of one name the first counts.
    ///
    /// # Errors
    /// A directory that cannot be read.
    pub(super) fn open(directories: &[PathBuf]) -> Result<Shelf, CliError> {
        let mut shelf = Shelf::default();
        for directory in directories {
            let fault = |cause| CliError::file("read", directory, &cause);
            let entries = std::fs::read_dir(directory).map_err(fault)?;
            let mut paths: Vec<PathBuf> =
                entries.map(|entry| Ok(entry.map_err(fault)?.path())).collect::<Result<_, CliError>>()?;
            paths.sort();
            for path in paths {
                shelf.files.entry(plain(&path)).or_insert(path);
            }
        }
        Ok(shelf)
    }

    fn find(&self, name: &str) -> Option<&PathBuf> {
        self.files.get(&plain(Path::new(name)))
    }

    /// Where a workload's requests come from: the whole trace; without it its stand-in first, and beside that whatever
    /// real requests there are. With it the names that were looked for in vain.
    pub(super) fn sources(&self, workload: &Workload) -> (Vec<Found>, Vec<String>) {
        let found = |kind, names: &[String]| -> Vec<Found> {
            let paths = names.iter().filter_map(|name| self.find(name));
            let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            paths.map(|path| Found { kind, name: name(path), path: Some(path.clone()) }).collect()
        };
        let whole = found(Kind::Trace, &workload.traces);
        if !whole.is_empty() {
            return (whole, Vec::new());
        }
        let made = |kind, spec: &Option<String>| spec.clone().map(|name| Found { kind, name, path: None });
        let mut sources: Vec<Found> =
            made(Kind::Generator, &workload.generator).into_iter().chain(made(Kind::Twin, &workload.twin)).collect();
        sources.extend(found(Kind::Excerpt, &workload.excerpts));
        sources.extend(found(Kind::Similar, &workload.similar));
        let shipped = |name: &toml::Spanned<String>| Found {
            kind: Kind::Recording,
            name: format!("{RECORDING}:{}", name.get_ref()),
            path: None,
        };
        sources.extend(workload.recordings.iter().map(shipped));
        (sources, workload.traces.clone())
    }
}

/// A name in lower case without the ending of a compression.
fn plain(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    [".gz", ".zst", ".xz", ".bz2"].iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(&name).to_owned()
}

/// What came of a configuration.
#[derive(Clone, Debug)]
pub(super) enum Outcome {
    /// A result.
    Ran(Box<SchemeResult>),
    /// None, and why.
    Not(String),
}

impl Outcome {
    /// The result, if the whole workload was served.
    pub(super) fn result(&self) -> Option<&SchemeResult> {
        match self {
            Outcome::Ran(result) if result.is_complete() => Some(result),
            _ => None,
        }
    }

    /// Why there is no result of the whole workload.
    pub(super) fn why(&self) -> Option<&str> {
        match self {
            Outcome::Ran(result) if result.is_complete() => None,
            Outcome::Ran(result) => Some(&result.ended),
            Outcome::Not(why) => Some(why),
        }
    }
}

/// The requests that a source came to.
#[derive(Clone, Debug, Default)]
pub(super) struct Served {
    /// Requests of all kinds.
    pub(super) requests: u64,
    /// What was done about addresses beyond the device.
    pub(super) addresses: Option<String>,
    /// The trace's hash.
    pub(super) sha256: Option<String>,
}

/// How much is run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Amount {
    /// Requests of every workload, traces too.
    pub(super) requests: Option<u64>,
    /// Few.
    pub(super) quick: bool,
    /// Threads.
    pub(super) threads: Option<usize>,
}

/// Runs configurations, each once.
pub(super) struct Lab<'a> {
    amount: Amount,
    session: &'a Session<'a>,
    done: BTreeMap<String, Outcome>,
    /// What each source came to, by source, limit and device.
    served: BTreeMap<String, Served>,
}

/// A place in an experiment: which requests, and what is varied.
#[derive(Clone, Copy, Debug)]
pub(super) struct At<'a> {
    /// The workload.
    pub(super) workload: &'a Workload,
    /// Its requests.
    pub(super) found: &'a Found,
    /// What is varied, and what it becomes.
    pub(super) varied: Option<(&'a Varied, &'a str)>,
    /// Requests at the most, if the place has a limit of its own.
    pub(super) requests: Option<u64>,
}

impl<'a> Lab<'a> {
    /// A laboratory in which nothing was run yet.
    pub(super) fn new(amount: Amount, session: &'a Session<'a>) -> Lab<'a> {
        Lab { amount, session, done: BTreeMap::new(), served: BTreeMap::new() }
    }

    /// Whether the user wants no more.
    pub(super) fn stopped(&self) -> bool {
        self.session.stop.load(Ordering::Relaxed)
    }

    /// The outcomes of some configurations, in their order.
    ///
    /// # Errors
    /// Requests that cannot be read.
    pub(super) fn outcomes(
        &mut self,
        experiment: &Experiment,
        configurations: &[&Configuration],
        at: At<'_>,
    ) -> Result<Vec<Outcome>, CliError> {
        let keys: Vec<String> = configurations.iter().map(|one| self.key(experiment, one, at)).collect();
        let mut groups: BTreeMap<String, Vec<(String, Combination)>> = BTreeMap::new();
        for (configuration, key) in configurations.iter().zip(&keys) {
            if self.done.contains_key(key) {
                continue;
            }
            let device = device_of(experiment, configuration, at);
            match built(experiment, configuration, at) {
                Ok((combination, _)) => {
                    let group = groups.entry(device).or_default();
                    if group.iter().all(|(other, _)| other != key) {
                        group.push((key.clone(), combination));
                    }
                }
                Err(error) => drop(self.done.insert(key.clone(), Outcome::Not(error.message().to_owned()))),
            }
        }
        for (device, group) in groups {
            if self.stopped() {
                break;
            }
            let (keys, combinations): (Vec<_>, Vec<_>) = group.into_iter().unzip();
            let Some(ran) = self.run(experiment, device, combinations, at, false)? else { break };
            let results = ran.report.results.into_iter().map(|one| Outcome::Ran(Box::new(one)));
            self.done.extend(keys.into_iter().zip(results));
        }
        let interrupted = || Outcome::Not(sim::report::INTERRUPTED.to_owned());
        Ok(keys.iter().map(|key| self.done.get(key).cloned().unwrap_or_else(interrupted)).collect())
    }

    /// The requests of one configuration, one by one, and how it ended.
    ///
    /// # Errors
    /// Requests that cannot be read.
    pub(super) fn requests(
        &mut self,
        experiment: &Experiment,
        configuration: &Configuration,
        at: At<'_>,
    ) -> Result<Result<Vec<RequestRecord>, String>, CliError> {
        let device = device_of(experiment, configuration, at);
        let combination = match built(experiment, configuration, at) {
            Ok((combination, _)) => combination,
            Err(error) => return Ok(Err(error.message().to_owned())),
        };
        Ok(match self.run(experiment, device, vec![combination], at, true)? {
            Some(mut ran) => Ok(ran.requests.swap_remove(0)),
            None => Err(sim::report::INTERRUPTED.to_owned()),
        })
    }

    /// What tells a run from every other one of a paper.
    fn key(&self, experiment: &Experiment, configuration: &Configuration, at: At<'_>) -> String {
        // What cannot be built is told when it is to be run.
        let settings = settings_of(experiment, configuration, at).unwrap_or_default();
        let device = device_of(experiment, configuration, at);
        let (scheme, limit) = (configuration.scheme(), self.limit(experiment, at));
        let buffer = configuration.buffer().ok().flatten();
        format!(
            "{} {:?} {device} {} {:?} {limit:?} {:?} x{} {scheme} {settings:?} {buffer:?}",
            experiment.paper.name,
            at.found,
            fill(experiment, at).name(),
            experiment.paper.host,
            until(experiment, at),
            experiment.repeat
        )
    }

    /// What a source came to under a configuration that was run; nothing, if it was not.
    pub(super) fn served(&self, experiment: &Experiment, configuration: &Configuration, at: At<'_>) -> Served {
        let key = self.source_key(experiment, &device_of(experiment, configuration, at), at);
        self.served.get(&key).cloned().unwrap_or_default()
    }

    fn source_key(&self, experiment: &Experiment, device: &str, at: At<'_>) -> String {
        format!("{:?} {:?} {device}", at.found, self.limit(experiment, at))
    }

    /// Requests to run, if not all there are.
    fn limit(&self, experiment: &Experiment, at: At<'_>) -> Option<u64> {
        let made = matches!(at.found.kind, Kind::Twin | Kind::Generator);
        let usual = experiment.paper.requests.filter(|_| made).into_iter().chain(at.requests).min();
        match (self.amount.requests, self.amount.quick) {
            (Some(requests), _) => Some(requests),
            (None, true) => {
                let own = at.workload.quick.map(|Count(requests)| requests);
                let quick = experiment.quick.or(own).or(experiment.paper.quick).unwrap_or(QUICK);
                Some(usual.unwrap_or(u64::MAX).min(quick))
            }
            (None, false) => usual,
        }
    }

    fn run(
        &mut self,
        experiment: &Experiment,
        device: String,
        combinations: Vec<Combination>,
        at: At<'_>,
        keep: bool,
    ) -> Result<Option<Ran>, CliError> {
        let paper = &experiment.paper;
        let limit = self.limit(experiment, at);
        let key = self.source_key(experiment, &device, at);
        let args = CompareArgs {
            device: Some(device),
            fill: fill(experiment, at),
            host: paper.host,
            partial: Some(paper.partial),
            out_of_range: Some(paper.out_of_range),
            seed: SEED,
            until: until(experiment, at),
            repeat: experiment.repeat,
            threads: self.amount.threads,
            limit,
            ..CompareArgs::default()
        };
        let workload = match &at.found.path {
            Some(path) => Requests::Trace(path.clone()),
            None => Requests::Generated(long_enough(&at.found.name, limit)),
        };
        let label = format!("{}/{}, {}", paper.name, experiment.name, at.workload.name);
        let plan = Plan { workload, partial: paper.partial, combinations, keep };
        let Some(ran) = run_planned(&args, plan, &label, self.session)? else { return Ok(None) };
        let served = self.served.entry(key).or_default();
        served.requests = served.requests.max(ran.report.workload.requests);
        served.sha256.clone_from(&ran.report.workload.sha256);
        let moved = ran.report.assumptions.iter().find(|sentence| sentence.contains("--out-of-range"));
        if let Some(sentence) = moved {
            served.addresses = Some(sentence.clone());
        }
        Ok(Some(ran))
    }
}

/// A specification that makes at least so many requests.
fn long_enough(spec: &str, requests: Option<u64>) -> String {
    match requests {
        // A recording is as long as it is; what is beyond the limit is not read.
        Some(requests) if !spec.contains("requests=") && !spec.starts_with("recording:") => {
            format!("{spec}{}requests={requests}", if spec.contains(':') { ',' } else { ':' })
        }
        _ => spec.to_owned(),
    }
}

fn parameter(at: At<'_>) -> Option<(&str, &str)> {
    match at.varied {
        Some((Varied::Parameter(name), value)) => Some((name, value)),
        _ => None,
    }
}

/// How long the workload is repeated.
fn until(experiment: &Experiment, at: At<'_>) -> Option<Until> {
    at.workload.until.map(|End(until)| until).or(experiment.until)
}

/// The device's state at the start.
fn fill(experiment: &Experiment, at: At<'_>) -> Fill {
    match at.varied {
        Some((Varied::Fill, word)) => Fill::from_str(word, false).unwrap_or(experiment.paper.fill),
        _ => experiment.paper.fill,
    }
}

/// The device of a configuration: the workload's or the paper's, with what the configuration changes and what is
/// varied.
fn device_of(experiment: &Experiment, configuration: &Configuration, at: At<'_>) -> String {
    let device = at.workload.device.as_ref().unwrap_or(&experiment.paper.device);
    let varied = match at.varied {
        Some((Varied::Device(key), value)) => format!("{key}={value}"),
        _ => String::new(),
    };
    changed(&changed(device, &configuration.change_device), &varied)
}

/// A device with other values of some keys.
fn changed(device: &str, changes: &str) -> String {
    let (name, keys) = device.split_once(':').unwrap_or((device, ""));
    let mut keys: Vec<&str> = keys.split(',').filter(|key| !key.is_empty()).collect();
    for change in changes.split(',').filter(|change| !change.is_empty()) {
        let key = |text: &str| text.split('=').next().map(str::trim).map(str::to_owned);
        keys.retain(|other| key(other) != key(change));
        keys.push(change);
    }
    if keys.is_empty() { name.to_owned() } else { format!("{name}:{}", keys.join(",")) }
}

/// The parameters of a configuration. If its cache is to be as large as the maps of another one, that one is built, and
/// what it reports of its RAM is added up.
///
/// # Errors
/// The other one cannot be built.
fn settings_of(
    experiment: &Experiment,
    configuration: &Configuration,
    at: At<'_>,
) -> Result<BTreeMap<String, String>, CliError> {
    let mut settings = experiment.settings(configuration, at.workload, parameter(at));
    let like = configuration.cache_as.as_ref().and_then(|like| experiment.configuration(like.get_ref()));
    if let Some(like) = like {
        let maps: u64 =
            built(experiment, like, at)?.1.iter().filter(|(name, _)| is_map(name)).map(|(_, bytes)| bytes).sum();
        settings.insert(CACHE.to_owned(), maps.to_string());
    }
    Ok(settings)
}

/// The combination of a configuration, and its RAM by structure, if there is such a scheme and it can be built.
pub(super) fn built(
    experiment: &Experiment,
    configuration: &Configuration,
    at: At<'_>,
) -> Result<(Combination, BTreeMap<String, u64>), CliError> {
    let combination = Combination {
        scheme: configuration.scheme().to_owned(),
        cache: None,
        buffer: configuration.buffer()?,
        gc: None,
        scheduler: Scheduler::Fcfs,
        settings: settings_of(experiment, configuration, at)?,
        buffer_settings: BTreeMap::new(),
        per_request: None,
    };
    let row: Settled = settled(&combination, SEED, &BuiltIn)?;
    let device = device_of(experiment, configuration, at);
    let device: Device = device_spec(Some(&device))?.build(None).map_err(CliError::new)?;
    let sram = try_on(&row, &device, &BuiltIn)?;
    Ok((combination, sram))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Directory;

    fn workload() -> Workload {
        Workload {
            name: "Financial1".into(),
            traces: vec!["Financial1.spc".into()],
            excerpts: vec!["financial1_prefix10k.spc".into()],
            similar: vec!["hplajw_1week.msr.csv".into()],
            twin: Some("twin:financial1-s0".into()),
            recordings: vec![toml::Spanned::new(0..0, "redis".into())],
            generator: None,
            device: None,
            quick: None,
            until: None,
            set: BTreeMap::new(),
        }
    }

    fn words(shelf: &Shelf) -> Vec<String> {
        shelf.sources(&workload()).0.iter().map(|found| format!("{} {}", found.kind.word(), found.name)).collect()
    }

    #[test]
    fn the_whole_trace_counts_alone_and_a_twin_stands_beside_what_is_real() {
        let directory = Directory::new();
        let put = |name: &str| std::fs::write(directory.join(name), "").unwrap();
        let shelf = || Shelf::open(&[directory.join("")]).unwrap();
        let recorded = "recording recording:redis";
        assert_eq!(words(&Shelf::default()), ["twin twin:financial1-s0", recorded]);
        assert_eq!(Shelf::default().sources(&workload()).1, ["Financial1.spc"]);
        put("financial1_prefix10k.spc.zst");
        put("HPLAJW_1week.msr.csv.gz");
        let beside = ["excerpt financial1_prefix10k.spc.zst", "other trace HPLAJW_1week.msr.csv.gz"];
        assert_eq!(words(&shelf()), ["twin twin:financial1-s0", beside[0], beside[1], recorded]);
        put("financial1.spc.xz");
        assert_eq!(words(&shelf()), ["trace financial1.spc.xz"]);
        assert!(shelf().sources(&workload()).1.is_empty());
        assert!(Shelf::open(&[directory.join("no")]).unwrap_err().message().contains("cannot read"));
    }

    #[test]
    fn keys_of_a_device_are_replaced() {
        assert_eq!(changed("lsftl-paper", ""), "lsftl-paper");
        assert_eq!(changed("lsftl-paper", "spare=3%"), "lsftl-paper:spare=3%");
        assert_eq!(changed("x:spare=7%,nop=4", "nop=8,dies=2"), "x:spare=7%,nop=8,dies=2");
    }

    #[test]
    fn specifications_are_made_long_enough() {
        assert_eq!(long_enough("twin:financial1", Some(5)), "twin:financial1,requests=5");
        assert_eq!(long_enough("zipf", Some(5)), "zipf:requests=5");
        assert_eq!(long_enough("zipf:requests=9", Some(5)), "zipf:requests=9");
        assert_eq!(long_enough("zipf", None), "zipf");
        assert_eq!(long_enough("recording:x", Some(5)), "recording:x");
    }
}

//! Where requests come from, and the runs: every configuration of an experiment under every source of its workloads.
//!
//! Runs are plans of `compare`, so that there is one runner. What several tables of a paper share is run once. The
//! laboratory says which runs there are ([`Lab::plan`]); a [`Pool`] does them.

use super::file::{Configuration, Count, End, Experiment, Varied, Workload};
use super::measure::is_map;
use super::pool::{Job, Pool};
use crate::args::{CompareArgs, Fill, Scheduler, Until};
use crate::commands::compare::{CACHE, Combination, Plan, Workload as Requests, fitted_file};
use crate::commands::experiment::{Settled, device_spec, run_planned, settled, try_on};
use crate::error::CliError;
use crate::open::RECORDING;
use crate::session::{BuiltIn, Session};
use clap::ValueEnum;
use flash::device::Device;
use sim::report::{RequestRecord, SchemeResult};
use sim::workload::generate::published;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

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

impl Found {
    /// The file that they are read from, that of a twin's beginning too.
    pub(super) fn file(&self) -> Option<PathBuf> {
        self.path.clone().or_else(|| fitted_file(&self.name).map(PathBuf::from))
    }
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
        let made = |kind, spec: &Option<toml::Spanned<String>>| {
            spec.as_ref().map(|name| Found { kind, name: name.get_ref().clone(), path: None })
        };
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
        let mut missing = workload.traces.clone();
        if sources.is_empty() {
            missing.extend(workload.excerpts.iter().chain(&workload.similar).cloned());
        }
        (sources, missing)
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
}

/// RAM by structure of a scheme that was built, bytes; or why it cannot be built.
type Built = Result<BTreeMap<String, u64>, String>;

/// Knows which runs there are, and what came of them.
pub(super) struct Lab<'a> {
    amount: Amount,
    session: &'a Session<'a>,
    pool: &'a Pool<'a>,
    /// What was built, by combination and device.
    built: RefCell<BTreeMap<String, Built>>,
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
    /// A laboratory whose runs a pool does.
    pub(super) fn new(amount: Amount, session: &'a Session<'a>, pool: &'a Pool<'a>) -> Lab<'a> {
        Lab { amount, session, pool, built: RefCell::default() }
    }

    /// Whether the user wants no more.
    pub(super) fn stopped(&self) -> bool {
        self.pool.stopped()
    }

    /// Hands the pool those runs of some configurations that it does not know yet. What runs on one device is one job,
    /// unless the device is filled first.
    pub(super) fn plan(&self, experiment: &Experiment, configurations: &[&Configuration], at: At<'_>) {
        let mut jobs: BTreeMap<(String, Option<String>), Job> = BTreeMap::new();
        for configuration in configurations {
            let key = self.key(experiment, configuration, at);
            if self.pool.stopped() || !self.pool.is_news(&key) {
                continue;
            }
            match self.built(experiment, configuration, at) {
                Ok((combination, _)) => {
                    let device = device_of(experiment, configuration, at);
                    let start = start(experiment, at, &device, &combination);
                    let new = |(device, start): &(String, Option<String>)| Job {
                        start: start.clone(),
                        ..self.job(experiment, device, at)
                    };
                    let job = jobs.entry((device, start)).or_insert_with_key(new);
                    job.keys.push(key);
                    job.plan.combinations.push(combination);
                }
                Err(why) => self.pool.cannot(key, why),
            }
        }
        jobs.into_values().for_each(|job| self.pool.add(job));
    }

    /// The outcomes of some configurations that were planned, in their order.
    ///
    /// # Errors
    /// Requests that cannot be read.
    pub(super) fn outcomes(
        &self,
        experiment: &Experiment,
        configurations: &[&Configuration],
        at: At<'_>,
    ) -> Result<Vec<Outcome>, CliError> {
        let keys: Vec<String> = configurations.iter().map(|one| self.key(experiment, one, at)).collect();
        self.pool.outcomes(&keys)
    }

    /// The requests of one configuration, one by one, and how it ended.
    ///
    /// # Errors
    /// Requests that cannot be read.
    pub(super) fn requests(
        &self,
        experiment: &Experiment,
        configuration: &Configuration,
        at: At<'_>,
    ) -> Result<Result<Vec<RequestRecord>, String>, CliError> {
        let combination = match self.built(experiment, configuration, at) {
            Ok((combination, _)) => combination,
            Err(why) => return Ok(Err(why)),
        };
        let mut job = self.job(experiment, &device_of(experiment, configuration, at), at);
        job.plan.combinations.push(combination);
        job.plan.keep = true;
        // The pool has the bar.
        let session = Session { meter: Some(Arc::default()), ..self.session.clone() };
        Ok(match run_planned(&job.args, job.plan, &job.label, &session)? {
            Some(mut ran) => Ok(ran.requests.swap_remove(0)),
            None => Err(sim::report::INTERRUPTED.to_owned()),
        })
    }

    /// What tells a run from every other one of a paper.
    fn key(&self, experiment: &Experiment, configuration: &Configuration, at: At<'_>) -> String {
        // What cannot be built is told when it is to be run.
        let settings = self.settings_of(experiment, configuration, at).unwrap_or_default();
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
        self.pool.served(&self.source_key(experiment, &device_of(experiment, configuration, at), at))
    }

    fn source_key(&self, experiment: &Experiment, device: &str, at: At<'_>) -> String {
        let (limit, until, repeat) = (self.limit(experiment, at), until(experiment, at), experiment.repeat);
        format!("{:?} {limit:?} {device} {until:?} x{repeat}", at.found)
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

    /// The parameters of a configuration. If its cache is to be as large as the maps of another one, what that one
    /// reports of its RAM is added up.
    ///
    /// # Errors
    /// The other one cannot be built.
    fn settings_of(
        &self,
        experiment: &Experiment,
        configuration: &Configuration,
        at: At<'_>,
    ) -> Result<BTreeMap<String, String>, String> {
        let mut settings = experiment.settings(configuration, at.workload, parameter(at));
        let like = configuration.cache_as.as_ref().and_then(|like| experiment.configuration(like.get_ref()));
        if let Some(like) = like {
            let sram = self.built(experiment, like, at)?.1;
            let maps: u64 = sram.iter().filter(|(name, _)| is_map(name)).map(|(_, bytes)| bytes).sum();
            settings.insert(CACHE.to_owned(), maps.to_string());
        }
        Ok(settings)
    }

    /// The combination of a configuration, and its RAM by structure, if there is such a scheme and it can be built.
    /// That is tried once on each device, for it takes as long as a short run.
    pub(super) fn built(
        &self,
        experiment: &Experiment,
        configuration: &Configuration,
        at: At<'_>,
    ) -> Result<(Combination, BTreeMap<String, u64>), String> {
        let text = |error: CliError| error.message().to_owned();
        let combination = Combination {
            scheme: configuration.scheme().to_owned(),
            cache: None,
            buffer: configuration.buffer().map_err(text)?,
            gc: None,
            scheduler: Scheduler::Fcfs,
            settings: self.settings_of(experiment, configuration, at)?,
            buffer_settings: BTreeMap::new(),
            per_request: None,
        };
        let device = device_of(experiment, configuration, at);
        let key = format!("{combination:?} {device}");
        let known = self.built.borrow().get(&key).cloned();
        let sram = known.unwrap_or_else(|| {
            let build = || {
                let row: Settled = settled(&combination, SEED, &BuiltIn)?;
                let device: Device = device_spec(Some(&device))?.build(None).map_err(CliError::new)?;
                try_on(&row, &device, &BuiltIn)
            };
            let sram = build().map_err(text);
            self.built.borrow_mut().insert(key, sram.clone());
            sram
        })?;
        Ok((combination, sram))
    }

    /// A job on a device without combinations yet.
    fn job(&self, experiment: &Experiment, device: &str, at: At<'_>) -> Job {
        let paper = &experiment.paper;
        let limit = self.limit(experiment, at);
        let source = self.source_key(experiment, device, at);
        let args = CompareArgs {
            device: Some(device.to_owned()),
            fill: fill(experiment, at),
            host: paper.host,
            partial: Some(paper.partial),
            out_of_range: Some(paper.out_of_range),
            seed: SEED,
            until: until(experiment, at),
            repeat: experiment.repeat,
            threads: Some(1),
            limit,
            ..CompareArgs::default()
        };
        let workload = match &at.found.path {
            Some(path) => Requests::Trace(path.clone()),
            None => Requests::Generated(long_enough(&at.found.name, limit)),
        };
        let label = format!("{}/{}, {}", paper.name, experiment.name, at.workload.name);
        let plan = Plan { workload, partial: paper.partial, combinations: Vec::new(), keep: false, tried: true };
        Job { keys: Vec::new(), source, args, plan, label, start: None }
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

/// What tells the filled device that a combination begins with from all others, if the workload does not fill it.
fn start(experiment: &Experiment, at: At<'_>, device: &str, combination: &Combination) -> Option<String> {
    let fill = fill(experiment, at);
    let is_kept = !matches!(fill, Fill::None | Fill::Trace);
    is_kept.then(|| format!("{device} {} {combination:?}", fill.name()))
}

/// The device of a configuration: the workload's or the paper's, with what the configuration changes and what is
/// varied.
fn device_of(experiment: &Experiment, configuration: &Configuration, at: At<'_>) -> String {
    let device = at.workload.device(&experiment.paper);
    let varied = match at.varied {
        Some((Varied::Device(key), value)) => format!("{key}={value}"),
        _ => String::new(),
    };
    let changes = configuration.change_device.as_ref().map_or("", |changes| changes.get_ref());
    changed(&changed(device, changes), &varied)
}

/// A device with other values of some keys.
pub(super) fn changed(device: &str, changes: &str) -> String {
    let (name, keys) = device.split_once(':').unwrap_or((device, ""));
    let mut keys: Vec<&str> = keys.split(',').filter(|key| !key.is_empty()).collect();
    for change in changes.split(',').filter(|change| !change.is_empty()) {
        let key = |text: &str| text.split('=').next().map(str::trim).map(str::to_owned);
        keys.retain(|other| key(other) != key(change));
        keys.push(change);
    }
    if keys.is_empty() { name.to_owned() } else { format!("{name}:{}", keys.join(",")) }
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
            twin: Some(toml::Spanned::new(0..0, "twin:financial1-s0".into())),
            recordings: vec![toml::Spanned::new(0..0, "redis".into())],
            generator: None,
            device: None,
            quick: None,
            until: None,
            set: BTreeMap::new(),
            places: super::super::file::Places::default(),
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

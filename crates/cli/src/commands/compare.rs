//! `ftlab compare` before and after the simulation: what exactly is to be run, and where its report goes.
//!
//! Everything that can be wrong with a command line is found here, before the first request: an hour of simulation must
//! not end in a misspelt directory.

use crate::args::{Buffer, CompareArgs, Fill, Host, OnError, Partial, Rhythm, Scheduler, Volumes};
use crate::error::CliError;
use crate::open::is_read_once;
use crate::open::{RECORDING, formats};
use crate::output::Outputs;
use crate::render;
use crate::session::{Given, Session};
use crate::suggest::nearest;
use crate::units;
use crate::workload::TWIN_OF;
use ftl::Parameter;
use ftl::buffer::BufferRow;
use recordings::RECORDINGS;
use sim::report::Report;
use sim::workload::generate::GENERATORS;
use sim::workload::generate::published::TWINS;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The workload of a compare without arguments: a mail server's small files, made, read and deleted on ext4.
///
/// Of the recordings on board it teaches most in seconds. It has reads, writes and trims, about 4 : 4 : 2. It writes
/// its device more than once, so that blocks are collected, and schemes differ in that (docs/traces.md has their
/// write amplification). The device keeps up, so that responses tell of schemes and not of a queue that only grows, as
/// those of the databases do, whose clients never think.
pub const DEFAULT_WORKLOAD: &str = "recording:postmark";

/// The parameter that `--cache` sets.
pub const CACHE: &str = "cache-bytes";

/// The parameter that `--rhythm` sets.
pub const SPREAD: &str = ftl::parameters::SPREAD.name;

/// The most runs of a comparison, or of an experiment of a paper: lists multiply, and a file of a few lines would ask
/// for more than memory holds.
pub(crate) const RUNS_MAX: usize = 10_000;

/// A scheme as far as planning needs to know it; made from its table row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownScheme {
    /// Its name.
    pub name: String,
    /// Names of its parameters. `cache-bytes` and `gc` among them say that it takes `--cache` and `--gc`.
    pub parameters: Vec<String>,
    /// Whether "all" means it too (not `null`, not `canary`).
    pub in_all: bool,
}

impl KnownScheme {
    fn takes(&self, parameter: &str) -> bool {
        self.parameters.iter().any(|known| known == parameter)
    }
}

/// The names that a plan may use; made from the tables of the crates that own them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// The table of schemes.
    pub schemes: Vec<KnownScheme>,
    /// Names of the policies of garbage collection.
    pub gc: Vec<String>,
    /// Names of the trace formats.
    pub formats: Vec<String>,
    /// Workloads in memory, by name.
    pub given: BTreeMap<String, Given>,
}

impl Known {
    /// What a session knows.
    pub fn of(session: &Session<'_>) -> Known {
        let schemes = session.schemes.rows().into_iter().map(|row| KnownScheme {
            name: row.name.to_owned(),
            parameters: row.parameters().map(|parameter| parameter.name.to_owned()).collect(),
            // `canary` is built to lose data, for tests.
            in_all: row.keeps_data && row.name != "canary",
        });
        let added = session.schemes.policies();
        Known {
            schemes: schemes.collect(),
            given: session.given.clone(),
            gc: ftl::GC_NAMES.iter().copied().chain(added.iter().map(|row| row.name)).map(str::to_owned).collect(),
            formats: formats().map(str::to_owned).collect(),
        }
    }
}

/// Where requests come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Workload {
    /// A trace file, which exists.
    Trace(PathBuf),
    /// Requests in memory, and their name.
    Given(String, Given),
    /// A recording's or a generator's specification, not yet looked into.
    Generated(String),
    /// Several at once, each with its host if it has one of its own.
    Flows(Vec<(Workload, Option<Host>)>),
}

/// One run: a scheme with what the command line says about it. What it does not say is the scheme's default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Combination {
    /// Name of the scheme.
    pub scheme: String,
    /// Bytes of mapping cache, if one of several was asked for.
    pub cache: Option<u64>,
    /// Write buffer in front of it, if there is to be one: policy and bytes.
    pub buffer: Option<(String, u64)>,
    /// Policy of garbage collection, if one was asked for.
    pub gc: Option<String>,
    /// How flash commands queue.
    pub scheduler: Scheduler,
    /// Other parameters by name, as written.
    pub settings: BTreeMap<String, String>,
    /// The write buffer's own parameters by name, as written.
    pub buffer_settings: BTreeMap<String, String>,
    /// Where its requests are recorded one by one.
    pub per_request: Option<PathBuf>,
}

/// A command line whose names are known, whose files can be read and written, and which does not contradict itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The requests.
    pub workload: Workload,
    /// How writes of parts of pages are treated: as asked for, or as suits the workload.
    pub partial: Partial,
    /// The runs, in the order of the report.
    pub combinations: Vec<Combination>,
    /// Whether every request of every run is kept in memory.
    pub keep: bool,
    /// Whether every combination was built once before, on a device as large as theirs.
    pub tried: bool,
}

/// Resolves a command line.
///
/// # Errors
/// The first thing that is wrong, with what to do about it.
pub fn plan(args: &CompareArgs, known: &Known) -> Result<Plan, CliError> {
    let workload = workload(args, known)?;
    let schemes = schemes(&args.schemes, known)?;
    for policy in &args.gc {
        if !known.gc.contains(policy) {
            return Err(CliError::unknown("policy", policy, known.gc.iter().map(String::as_str)));
        }
    }
    for (flag, parameter, given) in [
        ("--cache", CACHE, !args.cache.is_empty()),
        ("--gc", "gc", !args.gc.is_empty()),
        ("--rhythm", SPREAD, args.rhythm.is_some()),
    ] {
        if given && !schemes.iter().any(|scheme| scheme.takes(parameter)) {
            return Err(CliError::new(format_args!(
                "{flag} is given, but none of the schemes {} has the parameter {parameter}; leave it out or add a \
                 scheme that does",
                join(&schemes)
            )));
        }
    }
    let settings = settings(args, &schemes, known)?;
    let buffers = buffers(&args.buffer);
    let schedulers = unique(args.scheduler.iter().copied());
    let (caches, policies) = (unique(&args.cache), unique(&args.gc));
    let of_scheme = |scheme: &&KnownScheme| {
        let times = |values: usize, parameter| if scheme.takes(parameter) { values.max(1) } else { 1 };
        times(caches.len(), CACHE).saturating_mul(times(policies.len(), "gc"))
    };
    let runs = schemes.iter().map(of_scheme).fold(0_usize, usize::saturating_add);
    few([runs, buffers.len(), schedulers.len()])?;
    let mut combinations = Vec::new();
    for scheme in &schemes {
        let caches = crossed(&caches, scheme.takes(CACHE));
        let policies = crossed(&policies, scheme.takes("gc"));
        let of = |name: &str| settings.get(name).cloned().unwrap_or_default();
        for &cache in &caches {
            for buffer in &buffers {
                for policy in &policies {
                    combinations.extend(schedulers.iter().map(|&scheduler| Combination {
                        scheme: scheme.name.clone(),
                        cache: cache.copied(),
                        buffer: buffer.clone(),
                        gc: policy.cloned(),
                        scheduler,
                        settings: of(&scheme.name),
                        buffer_settings: buffer.as_ref().map(|(name, _)| of(name)).unwrap_or_default(),
                        per_request: None,
                    }));
                }
            }
        }
    }
    if let Some(path) = &args.per_request {
        let alone = combinations.len() == 1;
        let alike = alike(&combinations);
        for one in &mut combinations {
            one.per_request = Some(if alone { path.clone() } else { own_path(path, one, &alike) });
        }
    }
    check_outputs(args, &workload, &combinations)?;
    // The twins of published traces follow their papers; a twin of one's own file is treated as the file is.
    let of_twin = |spec: &String| spec == "twin" || spec.starts_with("twin:");
    let is_twin = matches!(&workload, Workload::Generated(spec) if of_twin(spec));
    let partial = args.partial.unwrap_or(if is_twin { Partial::Ignore } else { Partial::Rmw });
    Ok(Plan { workload, partial, combinations, keep: false, tried: false })
}

/// Writes the report wherever the command line asked for and prints its table. A file that fails does not keep the
/// others from being written.
///
/// # Errors
/// The first file that could not be written; nothing of it is left.
pub fn deliver(report: &Report, args: &CompareArgs, stdout: &mut dyn Write) -> Result<(), CliError> {
    let written = write(report, args);
    crate::print(stdout, &render::table::render(report, args.verbose))?;
    written
}

/// Writes the report wherever the command line asked for.
///
/// # Errors
/// As [`deliver`].
pub fn write(report: &Report, args: &CompareArgs) -> Result<(), CliError> {
    type Writer = fn(&Report, &Path) -> Result<(), CliError>;
    let faces: [(&Option<PathBuf>, Writer); 4] = [
        (&args.json, render::json::write),
        (&args.csv, render::csv::write),
        (&args.parquet, render::parquet::write),
        (&args.html, render::html::write),
    ];
    let outcomes: Vec<_> =
        faces.into_iter().filter_map(|(path, write)| Some(write(report, path.as_deref()?))).collect();
    outcomes.into_iter().collect()
}

fn workload(args: &CompareArgs, known: &Known) -> Result<Workload, CliError> {
    if !args.flow.is_empty() {
        return flows(args, known);
    }
    let workload = match &args.trace {
        Some(trace) if args.fill == Fill::Trace && is_read_once(trace) => {
            let what = format_args!(
                "requests fill the device and are then measured, but {} can be read only once; write them to a file, \
                 or fill the device in another way",
                trace.display()
            );
            return Err(CliError::new(what).within("--fill trace"));
        }
        Some(trace) => trace_or_generated(args, trace, known)?,
        None => Workload::Generated(args.workload.clone().unwrap_or_else(|| DEFAULT_WORKLOAD.to_owned())),
    };
    match workload {
        Workload::Generated(_) | Workload::Given(..) => no_trace(args).map(|()| workload),
        _ => Ok(workload),
    }
}

/// Several workloads at once.
fn flows(args: &CompareArgs, known: &Known) -> Result<Workload, CliError> {
    let mut flows = Vec::new();
    for text in &args.flow {
        let (spec, host) = flow_host(text).map_err(|error| error.within("--flow"))?;
        let flow = trace_or_generated(args, Path::new(spec), known).map_err(|error| error.within("--flow"))?;
        flows.push((flow, host));
    }
    if flows.iter().all(|(flow, _)| matches!(flow, Workload::Generated(_) | Workload::Given(..))) {
        no_trace(args)?;
    }
    for (flag, given) in [
        ("--until", args.until.is_some()),
        ("--limit", args.limit.is_some()),
        ("--volumes", args.volumes != Volumes::Concat),
        ("--out-of-range", args.out_of_range.is_some()),
        ("--fill trace", args.fill == Fill::Trace),
    ] {
        if given {
            return Err(CliError::new(format_args!("{flag} is of a single workload; leave it out")).within("--flow"));
        }
    }
    Ok(Workload::Flows(flows))
}

/// A flow's workload and its host, if it has one of its own.
fn flow_host(text: &str) -> Result<(&str, Option<Host>), CliError> {
    let Some((spec, host)) = text.rsplit_once('@') else { return Ok((text, None)) };
    match host.parse::<Host>() {
        Ok(host) => Ok((spec, Some(host))),
        // A file's name may have an @ of its own.
        Err(_) if Path::new(fitted_file(text).unwrap_or(text)).exists() => Ok((text, None)),
        Err(what) => Err(CliError::new(format_args!("after @ stands no host: {what}")).within(text)),
    }
}

/// The trace file in `twin-of:FILE,prefix=10k`.
pub(crate) fn fitted_file(spec: &str) -> Option<&str> {
    spec.strip_prefix(TWIN_OF)?.strip_prefix(':')?.split(',').next()
}

/// What lies in a file of this name is read; otherwise it is a specification.
fn trace_or_generated(args: &CompareArgs, trace: &Path, known: &Known) -> Result<Workload, CliError> {
    if let Some((name, given)) = trace.to_str().and_then(|name| known.given.get_key_value(name)) {
        return Ok(Workload::Given(name.clone(), given.clone()));
    }
    match fs::metadata(trace) {
        Ok(found) if found.is_dir() => Err(CliError::file("read", trace, &std::io::ErrorKind::IsADirectory.into())),
        Ok(_) => match args.format.as_ref().filter(|format| !known.formats.contains(format)) {
            Some(name) => Err(CliError::unknown("trace format", name, known.formats.iter().map(String::as_str))),
            None => Ok(Workload::Trace(trace.to_owned())),
        },
        Err(cause) => {
            let spec = trace.to_str().and_then(specification);
            let spec = spec.ok_or_else(|| {
                let fault = CliError::file("read", trace, &cause);
                match trace.to_str().and_then(meant) {
                    Some(meant) => CliError::new(format_args!("{fault}; did you mean {meant}?")),
                    None => fault,
                }
            })?;
            Ok(Workload::Generated(spec.to_owned()))
        }
    }
}

/// The workload that a name was probably meant to be which no file has: `zipff`, `redis`.
fn meant(name: &str) -> Option<String> {
    let (head, rest) = name.find(':').map_or((name, ""), |colon| name.split_at(colon));
    if head.contains(['/', '.']) {
        return None;
    }
    let kinds = GENERATORS.iter().map(|row| row.name).chain([TWIN_OF, RECORDING]);
    let recordings = || nearest(head, RECORDINGS.iter().map(|row| row.name)).map(|name| format!("{RECORDING}:{name}"));
    let twins = || nearest(head, TWINS.iter().map(|row| row.name)).map(|name| format!("twin:{name}"));
    nearest(head, kinds).map(|kind| format!("{kind}{rest}")).or_else(recordings).or_else(twins)
}

/// Nothing is said about a trace where there is none.
fn no_trace(args: &CompareArgs) -> Result<(), CliError> {
    for (flag, given) in [
        ("--format", args.format.is_some()),
        ("--on-error", args.on_error != OnError::Stop),
        ("--volumes", args.volumes != Volumes::Concat),
    ] {
        if given {
            return Err(CliError::new(format_args!("{flag} says how to read a trace, but no trace is given")));
        }
    }
    Ok(())
}

/// The workload that is meant by a trace which does not exist: `zipf`, `zipf:theta=0.9`.
pub(crate) fn specification(trace: &str) -> Option<&str> {
    let head = trace.split(':').next().unwrap_or_default();
    ([TWIN_OF, RECORDING].contains(&head) || sim::workload::generate::find(head).is_some()).then_some(trace)
}

fn schemes<'a>(names: &[String], known: &'a Known) -> Result<Vec<&'a KnownScheme>, CliError> {
    let mut schemes: Vec<&KnownScheme> = Vec::new();
    for name in names {
        if name == "all" {
            schemes.extend(known.schemes.iter().filter(|scheme| scheme.in_all));
        } else {
            let found = known.schemes.iter().find(|scheme| scheme.name == *name).ok_or_else(|| {
                let names = known.schemes.iter().map(|scheme| scheme.name.as_str()).chain(["all"]);
                CliError::unknown("scheme", name, names)
            })?;
            schemes.push(found);
        }
    }
    Ok(unique(schemes))
}

/// What is named twice in a list runs once, at its first place.
fn unique<T: PartialEq>(list: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut unique = Vec::new();
    for item in list {
        if !unique.contains(&item) {
            unique.push(item);
        }
    }
    unique
}

/// The write buffers, each once; no buffer at all if none is given.
fn buffers(asked: &[Buffer]) -> Vec<Option<(String, u64)>> {
    let of = |buffer: &Buffer| match buffer {
        Buffer::None => None,
        Buffer::Of { policy, bytes } => Some((policy.clone(), *bytes)),
    };
    if asked.is_empty() { vec![None] } else { unique(asked.iter().map(of)) }
}

/// A parameter of a write buffer that is meant by a name, `window` or `buffer-window`.
fn buffer_parameter(row: &'static BufferRow, name: &str) -> Result<&'static Parameter, CliError> {
    let short = |parameter: &'static Parameter| parameter.name.strip_prefix("buffer-").unwrap_or(parameter.name);
    let found = row.parameters.iter().find(|parameter| parameter.name == name || short(parameter) == name);
    found.ok_or_else(|| match row.parameters {
        [] => CliError::new(format_args!("{} has no parameters but its size", row.name)),
        parameters => CliError::unknown(&format!("parameter of {}", row.name), name, parameters.iter().map(short)),
    })
}

fn settings<'a>(
    args: &'a CompareArgs,
    schemes: &[&'a KnownScheme],
    known: &Known,
) -> Result<BTreeMap<&'a str, BTreeMap<String, String>>, CliError> {
    let mut settings: BTreeMap<&str, BTreeMap<String, String>> = BTreeMap::new();
    for setting in &args.set {
        let place = format!("--set {}.{}", setting.scheme, setting.param);
        if let Some(row) = ftl::buffer::by_name(&setting.scheme) {
            let runs =
                args.buffer.iter().any(|buffer| matches!(buffer, Buffer::Of { policy, .. } if policy == row.name));
            if !runs {
                let what = format!("{0} is not among the write buffers that run; give --buffer {0}:SIZE", row.name);
                return Err(CliError::new(what).within(place));
            }
            let parameter = buffer_parameter(row, &setting.param).map_err(|error| error.within(&place))?;
            let own = settings.entry(row.name).or_default();
            if own.insert(parameter.name.to_owned(), setting.value.clone()).is_some() {
                return Err(CliError::new("it is set twice").within(place));
            }
            continue;
        }
        let Some(scheme) = schemes.iter().find(|scheme| scheme.name == setting.scheme) else {
            let names =
                known.schemes.iter().map(|scheme| scheme.name.as_str()).chain(ftl::buffer::NAMES.iter().copied());
            return Err(if known.schemes.iter().any(|scheme| scheme.name == setting.scheme) {
                CliError::new(format_args!("{} is not among the schemes that run ({})", setting.scheme, join(schemes)))
            } else {
                CliError::unknown("scheme", &setting.scheme, names)
            }
            .within(place));
        };
        if !scheme.takes(&setting.param) {
            let what = format!("parameter of {}", scheme.name);
            let parameters = scheme.parameters.iter().map(String::as_str);
            return Err(CliError::unknown(&what, &setting.param, parameters).within(place));
        }
        let listed = match setting.param.as_str() {
            CACHE if !args.cache.is_empty() => Some("--cache"),
            "gc" if !args.gc.is_empty() => Some("--gc"),
            SPREAD if args.rhythm.is_some() => Some("--rhythm"),
            _ => None,
        };
        if let Some(flag) = listed {
            return Err(CliError::new(format_args!("{flag} sets it too; leave one of them out")).within(place));
        }
        let own = settings.entry(&setting.scheme).or_default();
        if own.insert(setting.param.clone(), setting.value.clone()).is_some() {
            return Err(CliError::new("it is set twice").within(place));
        }
    }
    if let Some(rhythm) = args.rhythm {
        let word = if rhythm == Rhythm::Spread { "on" } else { "off" };
        for scheme in schemes.iter().filter(|scheme| scheme.takes(SPREAD)) {
            settings.entry(&scheme.name).or_default().insert(SPREAD.to_owned(), word.to_owned());
        }
    }
    Ok(settings)
}

/// Each of the values, or once none.
fn crossed<'a, T>(values: &[&'a T], applies: bool) -> Vec<Option<&'a T>> {
    if applies && !values.is_empty() { values.iter().copied().map(Some).collect() } else { vec![None] }
}

/// Whether so many runs, in factors, are few enough.
///
/// # Errors
/// They are not.
pub(crate) fn few(factors: impl IntoIterator<Item = usize>) -> Result<(), CliError> {
    let runs = factors.into_iter().fold(1_usize, usize::saturating_mul);
    if runs <= RUNS_MAX {
        return Ok(());
    }
    let said = if runs == usize::MAX { "2^64 or more".to_owned() } else { units::whole(runs as u64) };
    let most = units::whole(RUNS_MAX as u64);
    Err(CliError::new(format_args!("{said} runs are asked for, and at most {most} are planned; ask for fewer values")))
}

/// `requests.csv.zst` of the run `dftl` with 64 KiB and greedy: `requests-dftl-64KiB-greedy.csv.zst`. Sizes that round
/// alike are exact.
fn own_path(path: &Path, combination: &Combination, alike: &BTreeMap<String, BTreeSet<u64>>) -> PathBuf {
    let size = |bytes: u64| {
        let rounded = units::bytes(bytes);
        let is_one = alike.get(&rounded).is_none_or(|sizes| sizes.len() == 1);
        if bytes.is_multiple_of(1024) && is_one { rounded.replace(' ', "") } else { bytes.to_string() }
    };
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let (stem, extensions) = name.split_at(name.find('.').filter(|&dot| dot > 0).unwrap_or(name.len()));
    let mut own = format!("{stem}-{}", combination.scheme);
    if let Some(cache) = combination.cache {
        own.push_str(&format!("-{}", size(cache)));
    }
    if let Some((policy, bytes)) = &combination.buffer {
        own.push_str(&format!("-{policy}-{}", size(*bytes)));
    }
    if let Some(gc) = &combination.gc {
        own.push_str(&format!("-{gc}"));
    }
    if combination.scheduler != Scheduler::Fcfs {
        own.push_str(&format!("-{}", combination.scheduler.name()));
    }
    path.with_file_name(own + extensions)
}

/// The sizes of all runs by what they round to.
fn alike(all: &[Combination]) -> BTreeMap<String, BTreeSet<u64>> {
    let sizes = all.iter().flat_map(|one| [one.cache, one.buffer.as_ref().map(|(_, bytes)| *bytes)]).flatten();
    let mut alike: BTreeMap<String, BTreeSet<u64>> = BTreeMap::new();
    for bytes in sizes.collect::<BTreeSet<_>>() {
        alike.entry(units::bytes(bytes)).or_default().insert(bytes);
    }
    alike
}

/// Every output can be written, no two are one file, and none is what is read.
fn check_outputs(args: &CompareArgs, workload: &Workload, combinations: &[Combination]) -> Result<(), CliError> {
    let flows = if let Workload::Flows(flows) = workload { flows.as_slice() } else { &[] };
    let workloads = flows.iter().map(|(flow, _)| flow).chain([workload]);
    let traces = workloads.filter_map(|workload| match workload {
        Workload::Trace(trace) => Some(("the trace", trace.as_path())),
        Workload::Generated(spec) => Some(("the trace", Path::new(fitted_file(spec)?))),
        _ => None,
    });
    let device = args.device.as_deref().map(|device| ("the device", Path::new(device)));
    let mut outputs = Outputs::beside(traces.chain(device));
    let reports = [("--json", &args.json), ("--csv", &args.csv), ("--parquet", &args.parquet), ("--html", &args.html)];
    let reports = reports.into_iter().filter_map(|(flag, path)| Some((flag, path.as_deref()?)));
    let requests = combinations.iter().filter_map(|run| Some(("--per-request", run.per_request.as_deref()?)));
    reports.chain(requests).try_for_each(|(flag, path)| outputs.claim(flag, path))
}

fn join(schemes: &[&KnownScheme]) -> String {
    schemes.iter().map(|scheme| scheme.name.as_str()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Command, Invocation, parse};
    use crate::testing::{Directory, three};

    fn known() -> Known {
        let scheme = |name: &str, parameters: &[&str], in_all| KnownScheme {
            name: name.into(),
            parameters: parameters.iter().map(|&parameter| parameter.into()).collect(),
            in_all,
        };
        Known {
            schemes: vec![
                scheme("null", &[], false),
                scheme("page", &["gc", "gc_low"], true),
                scheme("dftl", &["cache-bytes", "gc", "gc_low"], true),
                scheme("dftl-e", &["cache-bytes", "gc", "gc_low", "window"], true),
            ],
            gc: ["greedy", "cost-benefit", "fifo"].map(str::to_owned).to_vec(),
            formats: ["spc", "msr"].map(str::to_owned).to_vec(),
            given: BTreeMap::new(),
        }
    }

    fn args(line: &str) -> CompareArgs {
        match parse(format!("ftlab compare {line}").split_whitespace()) {
            Ok(Invocation::Command(Command::Compare(args))) => *args,
            other => panic!("{other:?}"),
        }
    }

    fn planned(line: &str) -> Result<Plan, CliError> {
        plan(&args(line), &known())
    }

    fn runs(line: &str) -> Vec<String> {
        let plan = planned(line).unwrap();
        let run = |c: &Combination| {
            let gc = c.gc.as_deref().unwrap_or("-");
            format!("{} {} {gc}", c.scheme, c.cache.map_or_else(|| "-".to_owned(), |cache| cache.to_string()))
        };
        plan.combinations.iter().map(run).collect()
    }

    #[test]
    fn plain_compare() {
        let plan = planned("").unwrap();
        assert_eq!(plan.workload, Workload::Generated(DEFAULT_WORKLOAD.into()));
        assert_eq!(plan.partial, Partial::Rmw);
        assert!(crate::open::recording(DEFAULT_WORKLOAD).is_ok_and(|found| found.is_some()));
        assert_eq!(planned("twin:financial1").unwrap().partial, Partial::Ignore, "as in the papers");
        assert_eq!(runs(""), ["page - -", "dftl - -", "dftl-e - -"]);
        assert_eq!(planned("--workload zipf").unwrap().partial, Partial::Rmw);
    }

    /// Lists multiply: three lines of a file asked for 10^9 runs, all of which were put into memory.
    #[test]
    fn more_runs_than_are_planned_are_refused() {
        let list = |start: u64, count: u64| (start..start + count).map(|n| (n * 1024).to_string()).collect::<Vec<_>>();
        let caches = list(64, 1000).join(",");
        let buffers = list(64, 1000).iter().map(|bytes| format!("fab:{bytes}")).collect::<Vec<_>>().join(",");
        let refused = planned(&format!("--schemes dftl --cache {caches} --buffer {buffers}")).unwrap_err();
        let expected = "1,000,000 runs are asked for, and at most 10,000 are planned; ask for fewer values";
        assert_eq!(refused.message(), expected);
        let sizes = format!("--schemes dftl --cache {caches} --gc greedy,fifo --buffer none,fab:65536");
        assert_eq!(planned(&sizes).unwrap().combinations.len(), 4000);
    }

    #[test]
    fn a_specification_may_stand_where_a_trace_does() {
        for spec in ["twin:financial1", "zipf:theta=0.9", "sequential", "recording:postmark"] {
            assert_eq!(planned(spec).unwrap().workload, Workload::Generated(spec.into()));
        }
        assert!(planned("zipf --format spc").unwrap_err().message().contains("no trace is given"));
        // What lies in a file is read, whatever its name.
        let directory = Directory::new();
        let file = directory.join("zipf");
        fs::write(&file, "0,0,512,w,0.0").unwrap();
        let mut args = args("");
        args.trace = Some(file.clone());
        assert_eq!(plan(&args, &known()).unwrap().workload, Workload::Trace(file));
    }

    #[test]
    fn lists_cross_where_they_apply() {
        assert_eq!(
            runs("--schemes page,dftl --cache 1KiB,2KiB --gc greedy,fifo"),
            [
                "page - greedy",
                "page - fifo",
                "dftl 1024 greedy",
                "dftl 1024 fifo",
                "dftl 2048 greedy",
                "dftl 2048 fifo",
            ]
        );
        assert_eq!(runs("--schemes all"), ["page - -", "dftl - -", "dftl-e - -"]);
        // What is named twice runs once.
        assert_eq!(runs("--schemes dftl,page,dftl"), ["dftl - -", "page - -"]);
        let twice = "--schemes page,dftl --cache 1KiB,1024 --gc fifo,greedy,fifo";
        assert_eq!(runs(twice), ["page - fifo", "page - greedy", "dftl 1024 fifo", "dftl 1024 greedy"]);
    }

    #[test]
    fn write_buffers_cross_with_everything() {
        let line = "--schemes page,dftl --cache 1KiB,2KiB --buffer none,fab:1MiB,none,bplru:64KiB \
                    --set bplru.pad-min=3 --set dftl.gc_low=2";
        let plan = planned(line).unwrap();
        let runs: Vec<String> = plan
            .combinations
            .iter()
            .map(|c| match &c.buffer {
                Some((policy, bytes)) => format!("{} {policy} {bytes} {:?}", c.scheme, c.buffer_settings),
                None => format!("{} none {:?}", c.scheme, c.buffer_settings),
            })
            .collect();
        let set = r#"{"buffer-pad-min": "3"}"#;
        let of = |scheme: &str| {
            let bplru = format!("{scheme} bplru 65536 {set}");
            [format!("{scheme} none {{}}"), format!("{scheme} fab 1048576 {{}}"), bplru]
        };
        assert_eq!(runs, [of("page"), of("dftl"), of("dftl")].concat());
        assert!(plan.combinations.iter().all(|c| !c.settings.contains_key("buffer-pad-min")));
        let directory = Directory::new();
        let line = format!("--schemes page --buffer none,fab:1MiB --per-request {}", directory.join("r.csv").display());
        let paths: Vec<_> = planned(&line).unwrap().combinations.into_iter().map(|c| c.per_request.unwrap()).collect();
        assert_eq!(paths, [directory.join("r-page.csv"), directory.join("r-page-fab-1MiB.csv")]);
    }

    #[test]
    fn schedulers_cross_too_each_once() {
        let plan = planned("--schemes page,dftl --cache 64KiB --scheduler read-first,fcfs,read-first").unwrap();
        let runs: Vec<_> = plan.combinations.iter().map(|c| (c.scheme.as_str(), c.scheduler.name())).collect();
        assert_eq!(runs, [("page", "read-first"), ("page", "fcfs"), ("dftl", "read-first"), ("dftl", "fcfs")]);
        let directory = Directory::new();
        let line =
            format!("--schemes page --scheduler fcfs,suspend --per-request {}", directory.join("r.csv").display());
        let paths: Vec<_> = planned(&line).unwrap().combinations.into_iter().map(|c| c.per_request.unwrap()).collect();
        assert_eq!(paths, [directory.join("r-page.csv"), directory.join("r-page-suspend.csv")]);
    }

    #[test]
    fn flows_have_hosts_of_their_own() {
        let directory = Directory::new();
        let trace = directory.join("a@closed:2.spc");
        fs::write(&trace, "0,0,512,w,0.0").unwrap();
        let line = format!("--flow zipf:reads=1@closed:4 --flow {} --flow uniform@open", trace.display());
        let generated = |spec: &str| Workload::Generated(spec.to_owned());
        assert_eq!(
            planned(&line).unwrap().workload,
            Workload::Flows(vec![
                (generated("zipf:reads=1"), Some(Host::Closed { depth: 4 })),
                (Workload::Trace(trace), None),
                (generated("uniform"), Some(Host::Open)),
            ])
        );
        for (line, expected) in [
            ("--flow nosuch", "--flow: cannot read nosuch"),
            ("--flow zipf --flow nosuch", "--flow: cannot read nosuch"),
            ("--flow zipf --limit 5", "--limit is of a single workload"),
            ("--flow uniform@foo", "--flow: uniform@foo: after @ stands no host: write open, or closed:QD"),
            ("--flow zipf:requests=1k@", "after @ stands no host: write open, or closed:QD"),
            ("--flow uniform@closed:0", "after @ stands no host: the queue depth is a number from 1 to 65536"),
            ("--flow twin-of:no@where.spc,prefix=3", "after @ stands no host: write open, or closed:QD"),
            ("--flow zipf --flow uniform --until mean-erases=2", "--until is of a single workload"),
            ("--flow zipf --flow uniform --format spc", "no trace is given"),
        ] {
            let message = planned(line).unwrap_err().to_string();
            assert!(message.contains(expected), "{line}: {message}");
        }
    }

    #[test]
    fn settings_reach_their_scheme() {
        let plan = planned("--set dftl.gc_low=2 --set dftl-e.window=8").unwrap();
        assert!(plan.combinations[0].settings.is_empty());
        assert_eq!(plan.combinations[1].settings, BTreeMap::from([("gc_low".into(), "2".into())]));
        assert_eq!(plan.combinations[2].settings, BTreeMap::from([("window".into(), "8".into())]));
    }

    #[test]
    fn requests_of_several_runs_go_to_several_files() {
        let directory = Directory::new();
        let path = directory.join("r.csv.zst");
        let line = format!("--schemes page,dftl --cache 64KiB --per-request {}", path.display());
        let paths: Vec<_> = planned(&line).unwrap().combinations.into_iter().map(|c| c.per_request.unwrap()).collect();
        assert_eq!(paths, [directory.join("r-page.csv.zst"), directory.join("r-dftl-64KiB.csv.zst")]);
        // What broke: two that round alike had one name.
        let line = format!("--schemes dftl --cache 1MiB,1025KiB,2MiB --per-request {}", path.display());
        let names: Vec<_> = planned(&line).unwrap().combinations.into_iter().map(|c| c.per_request.unwrap()).collect();
        let expected = ["dftl-1048576", "dftl-1049600", "dftl-2MiB"];
        let stem = path.file_name().unwrap().to_str().unwrap().split_once('.').unwrap();
        let named = |run: &str| path.with_file_name(format!("{}-{run}.{}", stem.0, stem.1));
        assert_eq!(names, expected.map(named));
        let line = format!("--schemes page --per-request {}", path.display());
        assert_eq!(planned(&line).unwrap().combinations[0].per_request, Some(path));
        assert!(directory.names().is_empty());
    }

    #[test]
    fn mistakes_are_found_before_the_run() {
        let directory = Directory::new();
        let trace = directory.join("t.spc");
        fs::write(&trace, "0,0,512,r,0\n").unwrap();
        let (trace, root) = (trace.display(), directory.join("").display().to_string());
        let out = directory.join("out.json").display().to_string();
        for (line, expected) in [
            ("--schemes page,dtfl".to_owned(), "unknown scheme \"dtfl\"; did you mean \"dftl\"?"),
            ("--gc gredy".into(), "unknown policy \"gredy\"; did you mean \"greedy\"?"),
            ("--schemes page --cache 64KiB".into(), "none of the schemes page has the parameter cache-bytes"),
            ("--set lsftl.lu=3".into(), "--set lsftl.lu: unknown scheme \"lsftl\""),
            ("--schemes page --set dftl.gc_low=3".into(), "dftl is not among the schemes that run (page)"),
            ("--set dftl.gclow=3".into(), "unknown parameter of dftl \"gclow\"; did you mean \"gc_low\"?"),
            ("--set dftl.gc_low=3 --set dftl.gc_low=4".into(), "--set dftl.gc_low: it is set twice"),
            ("--gc fifo --set dftl.gc=greedy".into(), "--gc sets it too"),
            (
                "--set cflru.window=0.2".into(),
                "cflru is not among the write buffers that run; give --buffer cflru:SIZE",
            ),
            (
                "--buffer cflru:1MiB --set cflru.windw=0.2".into(),
                "--set cflru.windw: unknown parameter of cflru \"windw\"; did you mean \"window\"?",
            ),
            ("--buffer fab:1MiB --set fab.window=0.2".into(), "fab has no parameters but its size"),
            (
                "--buffer cflru:1MiB --set cflru.window=0.2 --set cflru.buffer-window=0.2".into(),
                "--set cflru.buffer-window: it is set twice",
            ),
            ("no/such.spc".into(), "cannot read no/such.spc: no such file or directory"),
            ("zipff:theta=0.9".into(), "cannot read zipff:theta=0.9: no such file"),
            (root, "it is a directory"),
            (format!("{trace} --format spk"), "unknown trace format \"spk\"; did you mean \"spc\"?"),
            ("--format spc".into(), "--format says how to read a trace, but no trace is given"),
            ("--json no/dir/a.json".into(), "--json: cannot write no/dir/a.json: no directory no/dir"),
            (format!("{trace} --csv {trace}"), "is the trace already"),
            (format!("--json {out} --csv {out}"), "--csv: "),
            (format!("--json {out} --csv {out}"), "is --json already"),
        ] {
            let message = planned(&line).unwrap_err().to_string();
            assert!(message.contains(expected), "{line}: {message}");
        }
        assert_eq!(directory.names(), ["t.spc"]);
        planned("--json /dev/null --csv /dev/null").unwrap();
    }

    #[test]
    fn all_faces_are_delivered_and_a_failing_one_harms_no_other() {
        let directory = Directory::new();
        let mut args = args("--verbose");
        args.json = Some("/dev/full".into());
        args.csv = Some(directory.join("a.csv"));
        args.parquet = Some(directory.join("a.parquet"));
        args.html = Some(directory.join("a.html"));
        let mut stdout = Vec::new();
        let error = deliver(&three(), &args, &mut stdout).unwrap_err();
        assert!(error.message().starts_with("cannot write /dev/full"), "{error}");
        assert_eq!(directory.names(), ["a.csv", "a.html", "a.parquet"]);
        assert!(String::from_utf8(stdout).unwrap().contains("translation_load"));
    }
}

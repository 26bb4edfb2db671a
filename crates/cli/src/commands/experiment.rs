//! `ftlab compare` and `ftlab run`: from a plan to a report.
//!
//! The workload is read once, profiled and, if it fits in memory, kept; then the device is sized, the requests are
//! fitted to it, and every combination runs over the same requests, as many side by side as there are cores. Whatever
//! was decided on the user's behalf is said in the report.

mod assumed;

use super::Ended;
use super::compare::{CACHE, Combination, Known, Plan, Workload, deliver, plan};
use crate::args::{self, CompareArgs, Fill, Host, OutOfRange, Partial, Scheduler};
use crate::error::CliError;
use crate::feed::{BEHIND, Drain, Limited, Received, Recorder, Shared, broadcast};
use crate::per_request::PerRequest;
use crate::progress::{self, Progress, note};
use crate::units;
use crate::workload::{GENERATED_BYTES, Opened, Origin, Space, share_bytes};
use clap::ValueEnum;
use flash::device::{CellKind, Device, MultiPlane, Overrides, PageTimes, Server, Suspend};
use flash::{Bus, Scheduling};
use ftl::{Scheme, Settings, Value, buffer};
use sim::device::DeviceSpec;
use sim::experiment::{self, Config, Medium, Observer, Outcome, PartialPages, RunError, Unobserved, Until};
use sim::host::HostModel;
use sim::report::{self, Fields, Report, RequestRecord, SchemeResult};
use sim::workload::adapt::{self, Adaptation, Fit, adapt};
use sim::workload::profile::Profile;
use sim::workload::{Intake, Request, Source, WorkloadError};
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread;

/// The device of a compare that names none.
const DEFAULT_DEVICE: &str = "agrawal08:page=4KiB,spare=12.5%";

/// The widest address span that is simulated as it is unless the user fixes a capacity.
const WIDEST_BYTES: u64 = 64 << 30;

/// The least capacity of a device that is sized by its workload, in bytes.
const LEAST_BYTES: u64 = 64 << 20;

/// Spare blocks on every die of such a device at the least: every scheme has room to collect there.
const LEAST_SPARE_BLOCKS: f64 = 9.0;

/// Requests under way if the workload has no times.
const DEPTH: u32 = 32;

/// How much a comparison may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Requests that are kept in memory (32 bytes each); longer workloads are read again for every wave of runs.
    pub requests_in_memory: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { requests_in_memory: (1 << 30) / size_of::<Request>() as u64 }
    }
}

/// Runs what the flags ask for and delivers the report.
///
/// # Errors
/// The first thing that is wrong; no report is written then.
pub fn compare(args: &CompareArgs, stop: &AtomicBool, stdout: &mut dyn Write) -> Result<Ended, CliError> {
    let Some(report) = run(args, stop, &Limits::default())? else { return Ok(Ended::Interrupted) };
    deliver(&report, args, stdout)?;
    Ok(if stop.load(Ordering::Relaxed) { Ended::Interrupted } else { Ended::Done })
}

/// Runs what the flags ask for. `None` if `stop` was raised before the first run began.
///
/// # Errors
/// The first thing that is wrong.
pub fn run(args: &CompareArgs, stop: &AtomicBool, limits: &Limits) -> Result<Option<Report>, CliError> {
    let plan = plan(args, &Known::tables())?;
    plan.combinations.iter().try_for_each(check_of_use)?;
    Ok(run_planned(args, plan, "running", stop, limits)?.map(|ran| ran.report))
}

/// What came of a plan.
pub(super) struct Ran {
    /// The report.
    pub(super) report: Report,
    /// Every request of every run, if the plan keeps them.
    pub(super) requests: Vec<Vec<RequestRecord>>,
}

/// Runs a plan; of the flags those are heeded that are not in it. `label` stands before the progress. `None` if `stop`
/// was raised before the first run began.
///
/// # Errors
/// The first thing that is wrong.
pub(super) fn run_planned(
    args: &CompareArgs,
    plan: Plan,
    label: &str,
    stop: &AtomicBool,
    limits: &Limits,
) -> Result<Option<Ran>, CliError> {
    let spec = device_spec(args.device.as_deref())?;
    // A value out of its range is found before a long trace is read.
    let least_bytes = least_bytes(&spec.build(Some(GENERATED_BYTES)).map_err(CliError::new)?);
    let origin = origin(args, &plan.workload, spec.capacity().unwrap_or(GENERATED_BYTES))?;
    let rows = plan.combinations.iter().map(|combination| settled(combination, args.seed)).collect::<Result<_, _>>()?;
    // Told last, for there may be something wrong with the flow that is there.
    if matches!(&plan.workload, Workload::Flows(flows) if flows.len() == 1) {
        return Err(CliError::new("one flow is no several; give another, or --workload").within("--flow"));
    }
    let combinations = plan.combinations.len();
    let mut experiment = Experiment {
        args,
        plan,
        spec,
        origin,
        least_bytes,
        rows,
        limits,
        stop,
        label,
        flows: Vec::new(),
        kept: Mutex::new(vec![Vec::new(); combinations]),
        progress: Progress::new(None, "reading"),
    };
    let report = experiment.run();
    experiment.progress.finish();
    let requests = experiment.kept.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    Ok(report?.map(|report| Ran { report, requests }))
}

/// Where the requests of a workload come from that has so many bytes of the device.
fn origin(args: &CompareArgs, workload: &Workload, capacity_bytes: u64) -> Result<Origin, CliError> {
    Ok(match workload {
        Workload::Trace(path) => {
            Origin::Trace { path: path.clone(), format: args.format.clone(), on_error: args.on_error }
        }
        Workload::Generated(spec) => Origin::generated(spec, capacity_bytes)?,
        Workload::Flows(flows) => {
            let each_bytes = share_bytes(capacity_bytes, flows.len());
            let of = |(flow, _): &(Workload, _)| {
                origin(args, flow, each_bytes).map_err(|error| {
                    let share = format!("each of {} has {} of the device", flows.len(), units::bytes(each_bytes));
                    let is_of_size = error.message().contains("capacity");
                    error.within(if is_of_size { format!("--flow, {share}") } else { "--flow".to_owned() })
                })
            };
            Origin::Flows(flows.iter().map(of).collect::<Result<_, _>>()?)
        }
    })
}

/// Whether commands can queue as asked on this device.
fn check_schedulers(plan: &Plan, overrides: &Overrides, device: &Device) -> Result<(), CliError> {
    let refuse = |scheduler: Scheduler, what: String| {
        Err(CliError::new(what).within(format_args!("--scheduler {}", scheduler.name())))
    };
    for scheduler in plan.combinations.iter().map(|combination| combination.scheduler) {
        if scheduler == Scheduler::Fcfs {
            continue;
        }
        if device.server == Server::Single {
            let what = format!(
                "{} executes one command after another (server = single), so nothing can queue; give --device \
                 {0}:server=parallel, or leave --scheduler out",
                device.name
            );
            return refuse(scheduler, what);
        }
        if scheduler == Scheduler::Suspend && device.features.suspend.is_none() {
            let what = format!(
                "{} cannot suspend programs and erases; give the times that it takes, as in --device \
                 {0}:suspend_program_us=20,suspend_erase_us=50",
                device.name
            );
            return refuse(scheduler, what);
        }
    }
    let schedulers = || plan.combinations.iter().map(|combination| combination.scheduler);
    let queues = schedulers().any(|scheduler| scheduler != Scheduler::Fcfs);
    let suspends = schedulers().any(|scheduler| scheduler == Scheduler::Suspend);
    for (key, asked, of_use) in [
        ("suspend_program_us", overrides.suspend_program_us.is_some(), suspends),
        ("multi_plane", overrides.multi_plane.is_some_and(|rule| rule != MultiPlane::Off), queues),
        ("copy_back", overrides.copy_back == Some(true), queues),
        ("cache_read", overrides.cache_read == Some(true), queues),
        ("cache_program", overrides.cache_program == Some(true), queues),
    ] {
        if asked && !of_use {
            let scheduler = if key == "suspend_program_us" { Scheduler::Suspend } else { Scheduler::InOrder };
            let what = format!("{key} has no effect here; add --scheduler {}", scheduler.name());
            return Err(CliError::new(what).within("--device"));
        }
    }
    if overrides.multi_plane.is_some_and(|rule| rule != MultiPlane::Off) && device.geometry.planes == 1 {
        let what =
            format!("multi_plane has no effect here: dies of {} have one plane; give them planes=2", device.name);
        return Err(CliError::new(what).within("--device"));
    }
    Ok(())
}

/// Whether every parameter that is set has an effect beside the others.
fn check_of_use(combination: &Combination) -> Result<(), CliError> {
    let Settled { row, settings, .. } = settled(combination, 1)?;
    let set = combination.settings.keys().map(String::as_str);
    match ftl::without_effect(&settings, set) {
        Some(what) => Err(CliError::new(what).within(format_args!("--set {}", row.name))),
        None => Ok(()),
    }
}

/// The device that the user named.
pub(super) fn device_spec(device: Option<&str>) -> Result<DeviceSpec, CliError> {
    let text = device.unwrap_or(DEFAULT_DEVICE);
    if Path::new(text).extension().is_none_or(|extension| extension != "toml") {
        return text.parse().map_err(CliError::new);
    }
    let contents = std::fs::read_to_string(text).map_err(|cause| CliError::file("read", Path::new(text), &cause))?;
    DeviceSpec::from_toml(text, &contents).map_err(CliError::new)
}

/// The least capacity that leaves every scheme room on devices like this one.
fn least_bytes(device: &Device) -> u64 {
    let g = &device.geometry;
    let blocks_per_die = (LEAST_SPARE_BLOCKS * (1.0 - device.spare) / device.spare).ceil() as u64;
    let block_bytes = u64::from(g.pages_per_block) * u64::from(g.page_bytes);
    (blocks_per_die * u64::from(g.die_count()) * block_bytes).next_power_of_two().max(LEAST_BYTES)
}

/// A combination's row and its parameters, all of them.
#[derive(Clone, Debug)]
pub(super) struct Settled {
    row: &'static Scheme<'static>,
    settings: Settings,
    /// The seed follows the run's.
    seeded: bool,
}

pub(super) fn settled(combination: &Combination, seed: u64) -> Result<Settled, CliError> {
    let unknown = || CliError::unknown("scheme", &combination.scheme, ftl::schemes::SCHEMES.iter().map(|row| row.name));
    let row = ftl::schemes::by_name(&combination.scheme).ok_or_else(unknown)?;
    let mut settings = row.settings();
    let mut set = |name: &str, text: &str, flag: String| {
        settings.set(name, text).map_err(|what| CliError::new(what).within(flag))
    };
    for (name, text) in &combination.settings {
        let in_bytes = row.parameter(name).is_some_and(|parameter| parameter.unit == "bytes");
        let bytes = sim::units::parse_bytes(text).ok().filter(|_| in_bytes).map(|bytes| bytes.to_string());
        set(name, bytes.as_deref().unwrap_or(text), format!("--set {}", row.name))?;
    }
    if let Some(bytes) = combination.cache {
        set(CACHE, &bytes.to_string(), "--cache".to_owned())?;
    }
    if let Some(policy) = &combination.gc {
        set("gc", policy, "--gc".to_owned())?;
    }
    if let Some((policy, bytes)) = &combination.buffer {
        let buffer = buffer::by_name(policy).expect("a plan names write buffers of the table");
        buffer::add_to(&mut settings, buffer, *bytes);
        for (name, text) in &combination.buffer_settings {
            let set = settings.set(name, text);
            set.map_err(|what| CliError::new(what).within(format_args!("--set {policy}")))?;
        }
    }
    let seeded = settings.get("seed").is_some() && !combination.settings.contains_key("seed");
    if seeded {
        settings.put("seed", Value::Count(seed));
    }
    Ok(Settled { row, settings, seeded })
}

/// Builds a scheme on a device, to know that it can be built.
///
/// # Errors
/// What does not fit.
pub(super) fn try_on(Settled { row, settings, .. }: &Settled, device: &Device) -> Result<(), CliError> {
    let config = Config {
        scheme: row.name.to_owned(),
        settings: settings.clone(),
        device: device.clone(),
        seed: 1,
        fill: experiment::Fill::None,
        host: HostModel::Open,
        partial: PartialPages::Ignore,
        medium: Medium::Brief,
        warmup: 0,
        until: Until::WorkloadEnds,
        mount: false,
        series_ns: 0,
        scheduling: None,
        flows: Vec::new(),
        only_flow: None,
        idle_ns: None,
    };
    experiment::run(&config, &mut Nothing(Intake::default()), &mut Unobserved).map(drop).map_err(run_error)
}

/// The requests of one seed, as every run gets them.
enum Feed {
    /// In memory.
    Shared(Shared),
    /// Read again for each wave.
    Streamed { profile: Box<Profile>, adaptation: Adaptation, seed: u64 },
}

/// A workload after its first reading.
struct Read {
    profile: Profile,
    kept: Option<Drain>,
    announcement: Option<String>,
}

/// What the device is and how the workload was fitted to it.
struct Fitted {
    device: Device,
    fit: Fit,
    sentence: String,
}

/// One run: which combination under which seed over which feed.
#[derive(Clone, Copy, Debug)]
struct Job {
    combination: usize,
    repeat: u32,
    feed: usize,
}

struct Experiment<'a> {
    args: &'a CompareArgs,
    plan: Plan,
    spec: DeviceSpec,
    origin: Origin,
    /// The least capacity of a device that is sized by its workload.
    least_bytes: u64,
    rows: Vec<Settled>,
    limits: &'a Limits,
    stop: &'a AtomicBool,
    /// What stands before the progress of the runs.
    label: &'a str,
    /// Streams that share the device, by name and host; none if there is one workload.
    flows: Vec<(String, HostModel)>,
    /// The requests of each combination's first run, if the plan keeps them.
    kept: Mutex<Vec<Vec<RequestRecord>>>,
    progress: Progress,
}

impl Experiment<'_> {
    fn run(&mut self) -> Result<Option<Report>, CliError> {
        let args = self.args;
        let mut read = self.read(args.seed)?;
        if self.stopped() {
            return Ok(None);
        }
        let fitted = self.fit(&read.profile)?;
        self.check_until(&read, &fitted.device)?;
        check_schedulers(&self.plan, &self.spec.overrides, &fitted.device)?;
        let host = model(args.host, read.profile.timed);
        self.flows = self.flows(&read)?;
        if self.flows.is_empty() {
            check_times(&self.origin, args.host, read.profile.timed).map_err(|error| error.within("--host"))?;
        }
        self.try_on(&fitted)?;
        let mut device = device_fields(&fitted.device);
        device.extend(self.spec.ageing.fields());
        let mut report = Report::new(args.seed, device, report::Workload::default());
        report.run = self.run_fields(host);
        report.assumptions = self.assumptions(&read, &fitted, host);
        let sha256 = read.profile.sha256.clone();
        // Every flow is served once with the others and once alone.
        let each = self.requests(&read.profile) * if self.flows.is_empty() { 1 } else { 2 };
        let total = each * self.rows.len() as u64 * u64::from(args.repeat);
        self.progress.finish();
        if let Some(long) = self.wearing(&fitted.device) {
            note(&long);
        }
        // How often the workload will be repeated nobody knows.
        self.progress = Progress::new(Some(total).filter(|_| args.until.is_none()), self.label);
        let threads = args.threads.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from));
        // A trace is the same under every seed; a generator is not, so as many seeds at a time as keep the cores busy.
        let together = match self.origin.is_seeded() {
            true => threads.div_ceil(self.rows.len()).min(4) as u32,
            false => args.repeat,
        };
        let mut outcomes: Vec<Vec<Outcome>> = vec![Vec::new(); self.rows.len()];
        let mut repeat = 0;
        while repeat < args.repeat && !self.stopped() {
            let round = repeat..args.repeat.min(repeat + together);
            let mut feeds = Vec::new();
            let mut jobs = Vec::new();
            for repeat in round.clone() {
                if feeds.is_empty() || self.origin.is_seeded() {
                    if repeat > 0 && self.origin.is_seeded() {
                        read = self.read(args.seed.wrapping_add(u64::from(repeat)))?;
                    }
                    feeds.push(self.feed(&mut read, &fitted, args.seed.wrapping_add(u64::from(repeat)))?);
                }
                let feed = feeds.len() - 1;
                jobs.extend((0..self.rows.len()).map(|combination| Job { combination, repeat, feed }));
            }
            let done = self.round(&jobs, &feeds, threads, &|job: &Job| self.config(job, &fitted, host))?;
            for (job, outcome) in jobs.iter().zip(done) {
                outcomes[job.combination].extend(outcome);
            }
            repeat = round.end;
        }
        let measured = outcomes.iter().flatten().max_by_key(|outcome| outcome.workload.requests);
        report.workload = measured.map(|outcome| outcome.workload.clone()).unwrap_or_default();
        report.workload.name = self.origin.name();
        report.workload.sha256 = sha256;
        report.results = outcomes.into_iter().zip(&self.rows).map(|(runs, settled)| folded(runs, settled)).collect();
        let found = [assumed::live(&report), self.padding(&fitted.device, &report), self.caches(&report)];
        report.assumptions.extend(found.into_iter().flatten());
        report.compare_with_page_mapping();
        Ok(Some(report))
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// The streams that share the device: what each is called, and when its requests arrive.
    fn flows(&self, read: &Read) -> Result<Vec<(String, HostModel)>, CliError> {
        let (Workload::Flows(flows), Origin::Flows(origins)) = (&self.plan.workload, &self.origin) else {
            return Ok(Vec::new());
        };
        if read.kept.is_none() {
            let what = "together they do not fit in memory, where each waits for its turn; give shorter ones";
            return Err(CliError::new(what).within("--flow"));
        }
        let of = |((_, own), origin): (&(Workload, Option<Host>), &Origin)| {
            let each_bytes = share_bytes(self.spec.capacity().unwrap_or(GENERATED_BYTES), flows.len());
            let timed = origin.open(self.args.seed, each_bytes)?.source.timed();
            let host = own.or(self.args.host);
            check_times(origin, host, timed).map_err(|error| error.within("--flow"))?;
            Ok((origin.name(), model(host, timed)))
        };
        flows.iter().zip(origins).map(of).collect()
    }

    /// Requests to run, warm-up included, if not all.
    fn most(&self) -> Option<u64> {
        self.args.limit.map(|limit| limit.saturating_add(self.args.warmup))
    }

    fn requests(&self, profile: &Profile) -> u64 {
        profile.requests.min(self.most().unwrap_or(u64::MAX))
    }

    fn open(&self, seed: u64) -> Result<Opened, CliError> {
        self.origin.open(seed, self.spec.capacity().unwrap_or(GENERATED_BYTES))
    }

    /// Reads the workload once: its profile, and its requests if they fit in memory. Parsing and profiling go side by
    /// side.
    fn read(&self, seed: u64) -> Result<Read, CliError> {
        let Opened { mut source, announcement } = self.open(seed)?;
        // Of one volume among several the limit counts its own requests only.
        let limit = self.most().filter(|_| self.args.volumes.adapted() == adapt::Volumes::Concat);
        let mut source = Limited::new(source.as_mut(), limit, self.stop);
        thread::scope(|scope| {
            let (sender, receiver) = sync_channel(BEHIND);
            scope.spawn(move || broadcast(&mut source, &mut vec![sender]));
            let mut recorder =
                Recorder::new(Received::new(receiver, 1), self.limits.requests_in_memory, &self.progress);
            let profile = Profile::of(&mut recorder, 4096)?;
            Ok(Read { profile, kept: recorder.kept(), announcement })
        })
    }

    /// Sizes the device and decides how addresses beyond it are treated.
    fn fit(&self, profile: &Profile) -> Result<Fitted, CliError> {
        let place = self.origin.place();
        let volumes = self.args.volumes.adapted();
        let span = adapt::span_bytes(&place, &volumes, profile)?;
        let asked = self.args.out_of_range;
        let space = self.origin.space();
        let (capacity, fit, sentence) = match (self.spec.capacity(), space) {
            (Some(capacity), _) => {
                let fit = asked.unwrap_or(OutOfRange::Error).fit();
                (capacity, fit, self.beyond(&place, span, capacity, fit)?)
            }
            (None, Space::Device) => {
                let sentence =
                    format!("The device exports {}, which the generator uses.", units::bytes(GENERATED_BYTES));
                (GENERATED_BYTES, Fit::Error, sentence)
            }
            (None, Space::Bytes(_) | Space::Requests) => {
                let span = if let Space::Bytes(bytes) = space { span.max(bytes) } else { span };
                self.sized(&place, span, profile)?
            }
        };
        let device = self.spec.build(Some(capacity)).map_err(CliError::new)?;
        Ok(Fitted { device, fit, sentence })
    }

    /// A device as large as the addresses, or if they are too far apart as the parts of them that are used.
    fn sized(&self, place: &str, span: u64, profile: &Profile) -> Result<(u64, Fit, String), CliError> {
        let rounded = |bytes: u64| bytes.next_power_of_two().max(self.least_bytes);
        if span <= WIDEST_BYTES {
            let capacity = rounded(span);
            let sentence = format!(
                "The device exports {}: the addresses' span of {}, rounded up to a power of two.",
                units::bytes(capacity),
                units::bytes(span)
            );
            return Ok((capacity, Fit::Error, sentence));
        }
        match self.args.out_of_range.unwrap_or(OutOfRange::Compact) {
            OutOfRange::Compact => {
                let used = adapt::used_bytes(place, &self.args.volumes.adapted(), profile)?;
                let sentence = format!(
                    "The addresses span {}; the {} of them in used extents of 1 MiB were moved together, in order, on \
                     a device that exports {} (--out-of-range compact).",
                    units::bytes(span),
                    units::bytes(used),
                    units::bytes(rounded(used))
                );
                Ok((rounded(used), Fit::Compact, sentence))
            }
            other => Ok((WIDEST_BYTES, other.fit(), self.beyond(place, span, WIDEST_BYTES, other.fit())?)),
        }
    }

    /// What happens to addresses beyond a capacity.
    fn beyond(&self, place: &str, span: u64, capacity: u64, fit: Fit) -> Result<String, CliError> {
        let (span_text, capacity_text) = (units::bytes(span), units::bytes(capacity));
        if span <= capacity {
            return Ok(format!("The device exports {capacity_text}; the addresses span {span_text}."));
        }
        let how = match fit {
            Fit::Error => {
                return Err(CliError::new(format_args!(
                    "{place}: the addresses span {span} bytes ({span_text}), the device exports {capacity} \
                     ({capacity_text}); enlarge its capacity, or give --out-of-range fold, compact or scale"
                )));
            }
            Fit::Fold => "addresses are taken modulo that (--out-of-range fold)",
            Fit::Compact => "used extents of 1 MiB are moved together, in order (--out-of-range compact)",
            Fit::Scale => "addresses are scaled down (--out-of-range scale)",
        };
        Ok(format!("The addresses span {span_text}, the device exports {capacity_text}: {how}."))
    }

    fn until(&self) -> Until {
        match self.args.until {
            None => Until::WorkloadEnds,
            Some(args::Until::MeanErases(mean)) => Until::MeanErases(mean),
            Some(args::Until::EndOfLife) => Until::EndOfLife,
        }
    }

    /// Whether the workload can be repeated until the device is worn.
    fn check_until(&self, read: &Read, device: &Device) -> Result<(), CliError> {
        let args = self.args;
        let Some(until) = args.until else { return Ok(()) };
        let refuse = |what: &str| Err(CliError::new(what).within("--until"));
        if read.profile.writes.requests == 0 {
            return refuse("the workload writes nothing: it wears no block, however often it is repeated");
        }
        if args.warmup > 0 {
            return refuse("the requests of a warm-up would be repeated too; leave --warmup out");
        }
        if read.kept.is_none() {
            return refuse("the workload does not fit in memory, from where it is repeated; give --limit");
        }
        if self.rows.iter().any(|row| !row.row.keeps_data) {
            return refuse("the scheme null erases nothing; leave it out");
        }
        if until == args::Until::EndOfLife && device.endurance.is_none() {
            return refuse(&format!(
                "how often a block of {} can be erased is not known; give --device {0}:endurance=N",
                device.name
            ));
        }
        Ok(())
    }

    /// Builds every combination once, so that the last does not fail after the first ran for an hour.
    fn try_on(&self, fitted: &Fitted) -> Result<(), CliError> {
        self.rows.iter().try_for_each(|row| try_on(row, &fitted.device))
    }

    fn config(&self, job: &Job, fitted: &Fitted, host: HostModel) -> Config {
        let args = self.args;
        let Settled { row, settings, seeded } = &self.rows[job.combination];
        let seed = args.seed.wrapping_add(u64::from(job.repeat));
        let mut settings = settings.clone();
        if *seeded {
            settings.put("seed", Value::Count(seed));
        }
        Config {
            scheme: row.name.to_owned(),
            settings,
            device: fitted.device.clone(),
            seed,
            fill: match args.fill {
                Fill::None => experiment::Fill::None,
                Fill::Sequential => experiment::Fill::Sequential,
                Fill::Random => experiment::Fill::Random,
                Fill::Steady => experiment::Fill::Steady,
                Fill::Trace => experiment::Fill::Trace,
            },
            host,
            partial: match self.plan.partial {
                Partial::Rmw => PartialPages::ReadModifyWrite,
                Partial::Ignore => PartialPages::Ignore,
            },
            medium: Medium::Brief,
            warmup: args.warmup,
            until: self.until(),
            mount: args.mount_cost,
            series_ns: args.series.unwrap_or(0),
            scheduling: self.plan.combinations[job.combination].scheduler.policy().map(|policy| Scheduling {
                policy,
                bus: Bus::Arbitrated,
                features: fitted.device.features,
            }),
            flows: self.flows.iter().map(|&(_, host)| host).collect(),
            only_flow: None,
            idle_ns: args.idle_gc,
        }
    }

    /// Fits a workload to the device; its requests are given up.
    fn feed(&self, read: &mut Read, fitted: &Fitted, seed: u64) -> Result<Feed, CliError> {
        let device = &fitted.device;
        let adaptation = Adaptation {
            volumes: self.args.volumes.adapted(),
            capacity_bytes: Some(u64::from(device.logical_pages) * u64::from(device.geometry.page_bytes)),
            fit: fitted.fit,
            time_factor: self.args.time_scale,
            limit: self.most(),
            tell_volumes: !self.flows.is_empty(),
        };
        let Some(kept) = read.kept.take() else {
            return Ok(Feed::Streamed { profile: Box::new(read.profile.clone()), adaptation, seed });
        };
        let mut source = adapt(Box::new(kept), &self.origin.place(), &adaptation, &read.profile)?;
        Ok(Feed::Shared(Shared::read(source.as_mut())?))
    }

    /// Runs all jobs, as many side by side as there are threads. `None` for those that never began.
    fn round(
        &self,
        jobs: &[Job],
        feeds: &[Feed],
        threads: usize,
        config: &(dyn Fn(&Job) -> Config + Sync),
    ) -> Result<Vec<Option<Outcome>>, CliError> {
        let state = State {
            outcomes: Mutex::new(vec![None; jobs.len()]),
            failure: Mutex::new(None),
            failed: AtomicBool::new(false),
        };
        let shared: Vec<(usize, &Shared)> = jobs
            .iter()
            .enumerate()
            .filter_map(
                |(index, job)| if let Feed::Shared(feed) = &feeds[job.feed] { Some((index, feed)) } else { None },
            )
            .collect();
        let next = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..threads.min(shared.len()) {
                scope.spawn(|| {
                    while let Some(&(index, feed)) = shared.get(next.fetch_add(1, Ordering::Relaxed)) {
                        if self.stopped() || state.failed.load(Ordering::Relaxed) {
                            break;
                        }
                        self.job(index, &jobs[index], &config(&jobs[index]), &mut feed.replay(), &state);
                    }
                });
            }
        });
        for (number, feed) in feeds.iter().enumerate() {
            let Feed::Streamed { profile, adaptation, seed } = feed else { continue };
            let streamed: Vec<usize> = (0..jobs.len()).filter(|&index| jobs[index].feed == number).collect();
            for wave in streamed.chunks(threads) {
                if self.stopped() || state.failed.load(Ordering::Relaxed) {
                    break;
                }
                // A workload that fills the device is read for that, and again to be measured.
                let times = if self.args.fill == Fill::Trace { 2 } else { 1 };
                let open = || {
                    adapt(self.open(*seed)?.source, &self.origin.place(), adaptation, profile).map_err(CliError::from)
                };
                let mut sources = (0..times).map(|_| open()).collect::<Result<Vec<_>, _>>()?;
                thread::scope(|scope| {
                    let mut senders = Vec::new();
                    for &index in wave {
                        let (sender, receiver) = sync_channel(BEHIND);
                        senders.push(sender);
                        let (config, state) = (config(&jobs[index]), &state);
                        scope.spawn(move || {
                            let mut source = Received::new(receiver, times);
                            self.job(index, &jobs[index], &config, &mut source, state);
                        });
                    }
                    for source in &mut sources {
                        broadcast(source.as_mut(), &mut senders);
                    }
                });
            }
        }
        match state.failure.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner) {
            Some(error) => Err(error),
            None => Ok(state.outcomes.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)),
        }
    }

    /// Runs one job and keeps its outcome.
    fn job(&self, index: usize, job: &Job, config: &Config, source: &mut dyn Source, state: &State) {
        let path = self.plan.combinations[job.combination].per_request.as_deref().filter(|_| job.repeat == 0);
        let keeps = self.plan.keep && job.repeat == 0;
        let outcome = self.observed(path, keeps, config, source, &state.failed).map(|(outcome, requests)| {
            self.kept.lock().unwrap_or_else(std::sync::PoisonError::into_inner)[job.combination].extend(requests);
            outcome
        });
        let lock = |error| *state.failure.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(error);
        match outcome {
            Ok(outcome) => {
                let mut outcomes = state.outcomes.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                outcomes[index] = Some(outcome);
            }
            // The first failure is the one to tell; it stops the others.
            Err(error) => {
                if !state.failed.swap(true, Ordering::Relaxed) {
                    lock(error);
                }
            }
        }
    }

    fn observed(
        &self,
        path: Option<&Path>,
        keeps: bool,
        config: &Config,
        source: &mut dyn Source,
        failed: &AtomicBool,
    ) -> Result<(Outcome, Vec<RequestRecord>), CliError> {
        let mut watch = Watch {
            progress: &self.progress,
            filling: None,
            stops: [self.stop, failed],
            requests: path.map(PerRequest::create).transpose()?,
            kept: keeps.then(Vec::new),
            failure: None,
        };
        let mut outcome = experiment::run(config, source, &mut watch).map_err(run_error)?;
        outcome.result.scheduler = scheduler_name(config);
        outcome.result.lifetime = self.spec.ageing.lifetime(&config.device, &outcome.workload, &outcome.result);
        if let Some(error) = watch.failure {
            return Err(error);
        }
        watch.requests.map_or(Ok(()), PerRequest::finish)?;
        for (number, (name, host)) in self.flows.iter().enumerate() {
            let mut alone = Watch {
                progress: &self.progress,
                filling: None,
                stops: [self.stop, failed],
                requests: None,
                kept: None,
                failure: None,
            };
            // The warm-up is of all flows; each by itself is measured whole.
            let config = Config { only_flow: Some(number as u32), warmup: 0, mount: false, ..config.clone() };
            source.rewind();
            let run = experiment::run(&config, source, &mut alone).map_err(run_error)?.result;
            let flow = &mut outcome.result.flows[number];
            (flow.name, flow.host) = (name.clone(), host.to_string());
            let by_itself = run.flows[number].response_us.as_ref().filter(|_| run.is_complete());
            flow.alone_mean_us = by_itself.map(|latency| latency.mean);
            let means = flow.response_us.as_ref().zip(by_itself);
            flow.slowdown = means.and_then(|(shared, alone)| report::ratio(shared.mean, alone.mean));
        }
        Ok((outcome, watch.kept.unwrap_or_default()))
    }
}

/// What the threads of a round share.
struct State {
    outcomes: Mutex<Vec<Option<Outcome>>>,
    failure: Mutex<Option<CliError>>,
    failed: AtomicBool,
}

/// A run's observer: progress, stopping, and its requests, in a file or in memory.
struct Watch<'a> {
    progress: &'a Progress,
    filling: Option<progress::Fill>,
    stops: [&'a AtomicBool; 2],
    requests: Option<PerRequest>,
    kept: Option<Vec<RequestRecord>>,
    failure: Option<CliError>,
}

impl Watch<'_> {
    fn goes_on(&self) -> bool {
        self.failure.is_none() && !self.stops.iter().any(|stop| stop.load(Ordering::Relaxed))
    }
}

impl Observer for Watch<'_> {
    fn filled(&mut self, pages: u64) -> bool {
        self.filling.get_or_insert_with(|| self.progress.fill()).add(pages);
        self.goes_on()
    }

    fn served(&mut self, requests: u64) -> bool {
        self.filling = None;
        self.progress.add(requests);
        self.goes_on()
    }

    fn wants_records(&self) -> bool {
        self.requests.is_some() || self.kept.is_some()
    }

    fn record(&mut self, record: &RequestRecord) {
        if let Some(kept) = &mut self.kept {
            kept.push(*record);
        }
        if let (Some(requests), None) = (&mut self.requests, &self.failure) {
            self.failure = requests.record(record).err();
        }
    }
}

/// No requests.
struct Nothing(Intake);

impl Source for Nothing {
    fn fill(&mut self, _: &mut Vec<Request>, _: usize) -> Result<(), WorkloadError> {
        Ok(())
    }

    fn intake(&self) -> &Intake {
        &self.0
    }

    fn timed(&self) -> bool {
        false
    }
}

/// When requests arrive: as asked for, or as suits the workload.
fn model(asked: Option<Host>, timed: bool) -> HostModel {
    match asked {
        Some(Host::Open) => HostModel::Open,
        Some(Host::Closed { depth }) => HostModel::Closed(depth),
        None if timed => HostModel::Open,
        None => HostModel::Closed(DEPTH),
    }
}

/// Whether requests can arrive as asked: at the times of the workload only if it has some.
fn check_times(origin: &Origin, asked: Option<Host>, timed: bool) -> Result<(), CliError> {
    if timed || asked != Some(Host::Open) {
        return Ok(());
    }
    let (name, closed) = (origin.name(), "or have a closed loop, closed:32");
    let open = format!("in an open loop all of {name} would arrive at once, for it has no times");
    Err(CliError::new(match origin.space() {
        Space::Requests => format!("{open}; {closed}"),
        _ => {
            let separator = if name.contains(':') { ',' } else { ':' };
            let rate = if name.contains("rate=") { "" } else { ",rate=1000" };
            format!("{open}; give it some, as in {name}{separator}arrival=poisson{rate}, {closed}")
        }
    }))
}

/// How commands queued, in a word of the command line.
fn scheduler_name(config: &Config) -> Option<String> {
    let policy = config.scheduling?.policy;
    let of = |scheduler: &&Scheduler| scheduler.policy() == Some(policy);
    Scheduler::value_variants().iter().find(of).map(|scheduler| scheduler.name().to_owned())
}

fn run_error(error: RunError) -> CliError {
    CliError::new(error)
}

/// The runs of one combination as one result. Interrupted ones count only if there is no other.
fn folded(runs: Vec<Outcome>, settled: &Settled) -> SchemeResult {
    let interrupted = |result: &SchemeResult| result.ended == report::INTERRUPTED;
    let (halves, whole): (Vec<_>, Vec<_>) = runs.into_iter().map(|outcome| outcome.result).partition(interrupted);
    let kept = if whole.is_empty() { halves } else { whole };
    SchemeResult::repeated(kept).unwrap_or_else(|| SchemeResult {
        scheme: settled.row.name.to_owned(),
        params: settled.settings.iter().map(|(name, value)| (name.to_owned(), json_value(value))).collect(),
        ended: report::INTERRUPTED.to_owned(),
        ..SchemeResult::default()
    })
}

pub(super) fn json_value(value: Value) -> serde_json::Value {
    match value {
        Value::Count(count) => count.into(),
        Value::Real(number) => number.into(),
        Value::Switch(on) => on.into(),
        Value::Word(word) => word.into(),
    }
}

/// The device with every key resolved.
pub(super) fn device_fields(device: &Device) -> Fields {
    let (g, t) = (&device.geometry, &device.timing);
    let us = |ns: u64| serde_json::Value::from(ns as f64 / 1e3);
    let mut fields = Fields::from([
        ("name".to_owned(), device.name.as_str().into()),
        ("capacity".to_owned(), (u64::from(device.logical_pages) * u64::from(g.page_bytes)).into()),
        ("spare".to_owned(), device.spare.into()),
        ("page".to_owned(), g.page_bytes.into()),
        ("oob".to_owned(), g.oob_bytes.into()),
        ("pages_per_block".to_owned(), g.pages_per_block.into()),
        ("blocks_per_die".to_owned(), g.blocks_per_die.into()),
        ("channels".to_owned(), g.channels.into()),
        ("chips".to_owned(), g.chips.into()),
        ("dies".to_owned(), g.dies.into()),
        ("planes".to_owned(), g.planes.into()),
        ("order".to_owned(), g.order.name().into()),
        ("nop".to_owned(), g.nop.into()),
        ("cell".to_owned(), CellKind::ALL[g.bits_per_cell as usize - 1].word().into()),
        ("server".to_owned(), device.server.name().into()),
        ("read_us".to_owned(), us(t.read_ns)),
        ("oob_read_us".to_owned(), us(t.oob_read_ns)),
        ("program_us".to_owned(), us(t.program_ns)),
        ("partial_program_us".to_owned(), us(t.partial_program_ns)),
        ("erase_us".to_owned(), us(t.erase_ns)),
        ("page_transfer_us".to_owned(), us(t.page_transfer_ns)),
        ("oob_transfer_us".to_owned(), us(t.oob_transfer_ns)),
    ]);
    if g.bits_per_cell > 1 {
        fields.extend([
            ("slc_pages".to_owned(), g.slc_pages().into()),
            ("slc_nop".to_owned(), g.slc_nop.into()),
            ("slc_read_us".to_owned(), us(t.slc.read_ns)),
            ("slc_program_us".to_owned(), us(t.slc.program_ns)),
            ("slc_partial_program_us".to_owned(), us(t.slc.partial_program_ns)),
            ("slc_erase_us".to_owned(), us(t.slc.erase_ns)),
        ]);
    }
    for (name, page) in [("low_cost", t.low_cost), ("medium", t.medium)] {
        if page != (PageTimes { read_ns: t.read_ns, program_ns: t.program_ns }) {
            fields.insert(format!("{name}_read_us"), us(page.read_ns));
            fields.insert(format!("{name}_program_us"), us(page.program_ns));
        }
    }
    let features = device.features;
    if let Some(Suspend { program_ns, erase_ns, resume_ns, most }) = features.suspend {
        fields.extend([
            ("suspend_program_us".to_owned(), us(program_ns)),
            ("suspend_erase_us".to_owned(), us(erase_ns)),
            ("resume_us".to_owned(), us(resume_ns)),
            ("suspends".to_owned(), most.into()),
        ]);
    }
    if features.multi_plane != MultiPlane::Off {
        fields.insert("multi_plane".to_owned(), features.multi_plane.name().into());
    }
    for (key, on) in [
        ("copy_back", features.copy_back),
        ("cache_read", features.cache_read),
        ("cache_program", features.cache_program),
    ] {
        if on {
            fields.insert(key.to_owned(), "on".into());
        }
    }
    if let Some(endurance) = device.endurance {
        fields.insert("endurance".to_owned(), endurance.into());
    }
    fields
}

//! `ftlab compare` and `ftlab run`: from a plan to a report.
//!
//! The workload is read once, profiled and, if it fits in memory, kept; then the device is sized, the requests are
//! fitted to it, and every combination runs over the same requests, as many side by side as there are cores. Whatever
//! was decided on the user's behalf is said in the report.

mod assumed;
mod checks;
mod device;
mod reading;
mod readings;
mod rounds;
mod settled;

pub(super) use device::device_fields;
pub(crate) use device::device_spec;
pub use readings::Readings;
pub(crate) use settled::settled;
pub(super) use settled::{Settled, json_value, try_on};

use super::Ended;
use super::compare::{Known, Plan, Workload, deliver, plan};
use crate::args::CompareArgs;
use crate::error::CliError;
use crate::progress::{Meter, Progress};
use crate::session::{BuiltIn, Schemes, Session};
use crate::workload::{GENERATED_BYTES, Origin};
use checks::{check_of_use, check_schedulers, check_times};
use device::least_bytes;
use flash::device::Device;
use ftl::Settings;
use reading::{Fitted, Read, model, origin};
use rounds::{Job, counted, folded};
use sim::device::DeviceSpec;
use sim::experiment::{Filled, Outcome};
use sim::host::HostModel;
use sim::report::{self, Report, RequestRecord};
use sim::workload::profile::Profile;
use sim::workload::{Request, Source};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

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
    let Some(report) = run(args, &Session::new(stop))? else { return Ok(Ended::Interrupted) };
    deliver(&report, args, stdout)?;
    Ok(match stop.load(Ordering::Relaxed) {
        true => Ended::Interrupted,
        false if report.measured_nothing() => Ended::Failed,
        false => Ended::Done,
    })
}

/// Runs what the flags ask for. `None` if the session was stopped before the first run began.
///
/// # Errors
/// The first thing that is wrong.
pub fn run(args: &CompareArgs, session: &Session<'_>) -> Result<Option<Report>, CliError> {
    let plan = plan(args, &Known::of(session))?;
    check_of_use(&plan.combinations, session.schemes)?;
    Ok(run_planned(args, plan, "running", session)?.map(|ran| ran.report))
}

/// The requests of a workload as it is read first, before they are fitted to a device; and what was recognised, of a
/// trace.
///
/// # Errors
/// The first thing that is wrong.
pub fn open(args: &CompareArgs, session: &Session<'_>) -> Result<(Box<dyn Source>, Option<String>), CliError> {
    let plan = plan(args, &Known::of(session))?;
    let capacity = device_spec(args.device.as_deref())?.capacity().unwrap_or(GENERATED_BYTES);
    let opened = origin(args, &plan.workload, capacity)?.open(args.seed, capacity)?;
    Ok((opened.source, opened.announcement))
}

/// A device for a look at single requests, with pages enough for every scheme to collect: the one that is named, or one
/// of 64 MiB.
///
/// # Errors
/// Whatever is wrong with it.
pub fn small_device(device: Option<&str>) -> Result<Device, CliError> {
    let spec = device_spec(Some(device.unwrap_or("agrawal08:page=4KiB,capacity=64MiB,spare=20%")))?;
    spec.build(Some(64 << 20)).map_err(CliError::new)
}

/// The one scheme that the flags name, and all of its parameters.
///
/// # Errors
/// More than one, or the first thing that is wrong.
pub fn settings_of(args: &CompareArgs) -> Result<(String, Settings), CliError> {
    let plan = plan(args, &Known::of(&Session::new(&AtomicBool::new(false))))?;
    let [combination] = &plan.combinations[..] else {
        return Err(CliError::new(format_args!("a device has one scheme; {} were given", plan.combinations.len())));
    };
    check_of_use(&plan.combinations, &BuiltIn)?;
    settled(combination, args.seed, &BuiltIn).map(|settled| (settled.row.name.to_owned(), settled.settings))
}

/// What came of a plan.
pub(super) struct Ran {
    /// The report.
    pub(super) report: Report,
    /// Every request of every run, if the plan keeps them.
    pub(super) requests: Vec<Vec<RequestRecord>>,
}

/// Runs a plan; of the flags those are heeded that are not in it. `label` stands before the progress. `None` if
/// the session was stopped before the first run began.
///
/// # Errors
/// The first thing that is wrong.
pub(super) fn run_planned(
    args: &CompareArgs,
    plan: Plan,
    label: &str,
    session: &Session<'_>,
) -> Result<Option<Ran>, CliError> {
    let spec = device_spec(args.device.as_deref())?;
    // A value out of its range is found before a long trace is read.
    let least_bytes = least_bytes(&spec.build(Some(GENERATED_BYTES)).map_err(CliError::new)?);
    let origin = origin(args, &plan.workload, spec.capacity().unwrap_or(GENERATED_BYTES))?;
    if let Some(once) = origin.read_once().filter(|_| args.repeat > 1 && origin.is_seeded()) {
        let what = format_args!(
            "flows are read anew for every seed, but {} can be read only once; write it to a file, or leave --repeat \
             out",
            once.display()
        );
        return Err(CliError::new(what).within("--repeat"));
    }
    let settle = |combination| settled(combination, args.seed, session.schemes);
    let rows = plan.combinations.iter().map(settle).collect::<Result<_, _>>()?;
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
        limits: session.limits,
        stop: session.stop,
        schemes: session.schemes,
        meter: session.meter.clone(),
        readings: session.readings.clone(),
        filled: session.filled.clone(),
        label,
        flows: Vec::new(),
        kept: Mutex::new(vec![Vec::new(); combinations]),
        progress: Progress::shown(None, "reading", session.meter.as_ref()),
    };
    let report = experiment.run();
    experiment.progress.finish();
    let requests = experiment.kept.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    Ok(report?.map(|report| Ran { report, requests }))
}

struct Experiment<'a> {
    args: &'a CompareArgs,
    plan: Plan,
    spec: DeviceSpec,
    origin: Origin,
    /// The least capacity of a device that is sized by its workload.
    least_bytes: u64,
    rows: Vec<Settled>,
    limits: Limits,
    stop: &'a AtomicBool,
    /// The schemes that there are.
    schemes: &'a dyn Schemes,
    /// Who wants to know how far it is.
    meter: Option<Arc<Meter>>,
    /// What was read for other runs.
    readings: Option<Arc<Readings>>,
    /// A device that was filled for other runs.
    filled: Option<Arc<Filled>>,
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
        let is_open = |host: &HostModel| matches!(host, HostModel::Open);
        let any_open =
            if self.flows.is_empty() { is_open(&host) } else { self.flows.iter().any(|(_, own)| is_open(own)) };
        if args.time_scale != 1.0 && !any_open {
            let what = "it has no effect, for in a closed loop requests have no times of their own; leave it out, or \
                        give --host open";
            return Err(CliError::new(what).within("--time-scale"));
        }
        if args.idle_gc.is_some() && !any_open {
            let what = "it has no effect, for in a closed loop requests are always under way; leave it out, or give \
                        --host open (a flow @open) and a workload with times, as arrival=poisson,rate=500 makes them";
            return Err(CliError::new(what).within("--idle-gc"));
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
            self.progress.note(&long);
        }
        // How often the workload will be repeated nobody knows.
        let total = Some(total).filter(|_| args.until.is_none());
        self.progress = Progress::shown(total, self.label, self.meter.as_ref());
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
        let outcomes: Vec<Vec<Outcome>> = outcomes.into_iter().map(counted).collect();
        // Of repeated runs the first, as in all else.
        let first = outcomes.iter().filter_map(|runs| runs.first());
        let measured = first.max_by_key(|outcome| outcome.workload.requests);
        report.workload = measured.map(|outcome| outcome.workload.clone()).unwrap_or_default();
        report.workload.name = self.origin.name();
        report.workload.sha256 = sha256;
        report.results = outcomes.into_iter().zip(&self.rows).map(|(runs, settled)| folded(runs, settled)).collect();
        let padding = self.padding(&fitted.device, &report);
        let found = [assumed::unsteady(&report), assumed::live(&report), padding, self.caches(&report)];
        report.assumptions.extend(found.into_iter().flatten());
        report.compare_with_page_mapping();
        Ok(Some(report))
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Requests to run, warm-up included, if not all.
    fn most(&self) -> Option<u64> {
        self.args.limit.map(|limit| limit.saturating_add(self.args.warmup))
    }

    fn requests(&self, profile: &Profile) -> u64 {
        profile.requests.min(self.most().unwrap_or(u64::MAX))
    }

    /// Builds every combination once, so that the last does not fail after the first ran for an hour.
    fn try_on(&self, fitted: &Fitted) -> Result<(), CliError> {
        if self.plan.tried {
            return Ok(());
        }
        self.rows.iter().try_for_each(|row| try_on(row, &fitted.device, self.schemes).map(drop))
    }
}

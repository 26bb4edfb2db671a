//! One run: a scheme on a device under a workload, from filling the device to the result.
//!
//! [`run`] chooses the scheme and the medium once and then runs a loop that is compiled for both. Requests come in
//! batches, cut into pages; each page's mapping entry is asked for two dozen pages ahead, and what it points at ten
//! ahead, so that the loop seldom waits for memory.
//!
//! Where commands queue, and where several streams of requests share the device, a request's end is known only when
//! time has passed to it, and which request comes next depends on ends. Those runs go request by request: `paced`.

mod fill;
mod paced;

use crate::ecc::Overlap;
use crate::host::{Arrivals, HostModel};
use crate::latency::{Recorder, RequestTimes, Responses, Times, summaries};
use crate::report::{self, Interval, RequestRecord, SchemeResult, ratio};
use crate::summary::{Counts, Driven, parameters};
use crate::workload::{Operation, Request, Source, WorkloadError};
use fill::{Live, Unfilled};
use flash::device::Device;
use flash::{
    Brief, Busy, Cause, Clocked, Failing, FailurePlan, Flash, FlashFault, Full, Lpn, Mode, Nand, NoData, Op, Scheduler,
    Scheduling, Tally, Timeline,
};
use ftl::ecc_policy::POLICY;
use ftl::schemes::{Registry, Visitor};
use ftl::{BuildError, ConfigError, Error, Ftl, Inspect, Recipe, Scheme, Settings, buffer};
use paced::Paced;
use std::time::Instant;

/// For `wall_seconds`, which tells how fast the simulator was; no other number of a report depends on it.
#[expect(clippy::disallowed_methods, reason = "tells how long the run took, decides nothing")]
fn wall_clock() -> Instant {
    Instant::now()
}

/// How the device is filled before the workload begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fill {
    /// Blank.
    None,
    /// Every page written once, in order.
    Sequential,
    /// Every page written once, in random order.
    Random,
    /// Filled in order, then overwritten at random until write amplification is steady by SNIA's five-round rule.
    Steady,
    /// By the workload itself, every request once: reads as writes, and writes of parts of pages as writes of whole
    /// ones, as the released FlashSim warms up. Discards and flushes are what they are, in their places. The source can
    /// be rewound, and there is one stream.
    Trace,
}

impl Fill {
    /// Names on the command line.
    pub const NAMES: &'static [(&'static str, Fill)] = &[
        ("none", Fill::None),
        ("sequential", Fill::Sequential),
        ("random", Fill::Random),
        ("steady", Fill::Steady),
        ("trace", Fill::Trace),
    ];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, fill)| *fill == self).expect("every fill has a name").0
    }
}

/// What a host write that covers only a part of a page costs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PartialPages {
    /// The page is read first, if it holds anything.
    ReadModifyWrite,
    /// It is written as if whole, as FlashSim does.
    Ignore,
}

/// How long the workload is repeated.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Until {
    /// It is served once.
    WorkloadEnds,
    /// To the end of the iteration in which blocks have been erased so often on average, in the measured phase.
    MeanErases(f64),
    /// Until worn blocks leave no room. A block fails the first erase beyond the device's endurance.
    EndOfLife,
}

/// What the medium keeps of each page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Medium {
    /// Kind and LPN: for measuring.
    Brief,
    /// Version and program number too: what a mount needs.
    Recoverable,
}

/// Everything that a run depends on beside its workload.
#[derive(Clone, Debug)]
pub struct Config {
    /// Name of the scheme.
    pub scheme: String,
    /// Its parameters, and those of the write buffer in front of it if there is one ([`ftl::buffer::add_to`]).
    pub settings: Settings,
    /// The device.
    pub device: Device,
    /// Seed of everything random in the run.
    pub seed: u64,
    /// How the device is filled first.
    pub fill: Fill,
    /// When requests arrive.
    pub host: HostModel,
    /// What partial pages cost.
    pub partial: PartialPages,
    /// What the medium keeps.
    pub medium: Medium,
    /// Requests served before measuring begins.
    pub warmup: u64,
    /// How long the workload is repeated. The source can be rewound, and there is no warm-up, unless it is served once.
    pub until: Until,
    /// Whether to mount the device from flash afterwards and report what that takes ([`report::MOUNT`]).
    pub mount: bool,
    /// Length of an interval of the series in simulated time, ns; 0 for no series.
    pub series_ns: u64,
    /// How commands queue; `None`: they are placed as they are issued. Not in single-server
    /// mode.
    pub scheduling: Option<Scheduling>,
    /// When requests arrive of each of several streams, which are told apart by [`Request::volume`]; empty if there is
    /// only one, to which [`Config::host`] applies. Several are served once.
    pub flows: Vec<HostModel>,
    /// The stream whose requests alone are served, if not all.
    pub only_flow: Option<u32>,
    /// How long nothing must have been under way before the scheme does background work, ns; `None`: it does none.
    pub idle_ns: Option<u64>,
}

/// What a run tells while it goes on, and whether it shall.
pub trait Observer {
    /// `pages` more were written while the device is being filled. False ends the run.
    fn filled(&mut self, pages: u64) -> bool {
        let _ = pages;
        true
    }

    /// `requests` more were served. False ends the run.
    fn served(&mut self, requests: u64) -> bool {
        let _ = requests;
        true
    }

    /// Whether [`Observer::record`] wants every request of the measured phase.
    fn wants_records(&self) -> bool {
        false
    }

    /// A request was served, after the warm-up.
    fn record(&mut self, record: &RequestRecord) {
        let _ = record;
    }
}

/// An observer that looks at nothing.
#[derive(Clone, Copy, Debug)]
pub struct Unobserved;
impl Observer for Unobserved {}

/// Why a run could not be made.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RunError {
    /// No scheme of this name.
    #[error("there is no scheme {0}")]
    UnknownScheme(String),
    /// The scheme does not fit the device.
    #[error("{scheme} cannot be built on this device: {error}")]
    Config {
        /// The scheme.
        scheme: String,
        /// What does not fit.
        error: ConfigError,
    },
    /// The workload failed.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// The workload cannot be repeated: until the device is worn, or after it has filled it.
    #[error("{0}")]
    Endless(&'static str),
}

/// A finished run: the result, and the pages that its requests came to.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The result; `t_pc` and `repeats` are left to whoever has several.
    pub result: SchemeResult,
    /// Requests, reads, writes and their pages in the measured phase.
    pub workload: report::Workload,
}

/// Runs one scheme.
///
/// # Errors
/// A scheme that does not exist or does not fit, or a workload that cannot be read. A device that fills up is no error:
/// the result says so.
pub fn run(config: &Config, source: &mut dyn Source, observer: &mut dyn Observer) -> Result<Outcome, RunError> {
    run_from(&Registry::BUILT_IN, config, source, observer)
}

/// [`run`], with the schemes of a registry: also those that were added to it.
///
/// # Errors
/// As there.
pub fn run_from<T: Recipe<BriefMedium> + Recipe<FullMedium>>(
    schemes: &Registry<'_, T>,
    config: &Config,
    source: &mut dyn Source,
    observer: &mut dyn Observer,
) -> Result<Outcome, RunError> {
    let name = config.scheme.as_str();
    let unknown = || RunError::UnknownScheme(name.to_owned());
    let work = Work { config, source, observer };
    // A buffer is compiled in where there is one, so that without it nothing asks for it. The medium that wears out is
    // recoverable too, and one loop does for whatever is not the plain run.
    match config.medium {
        Medium::Recoverable => schemes.visit_buffered::<FullMedium, _>(name, work),
        Medium::Brief if config.until == Until::EndOfLife || config.mount => {
            schemes.visit_buffered::<FullMedium, _>(name, work)
        }
        Medium::Brief if config.is_buffered() => schemes.visit_buffered::<BriefMedium, _>(name, work),
        Medium::Brief => schemes.visit::<BriefMedium, _>(name, work),
    }
    .ok_or_else(unknown)?
}

impl Config {
    /// Whether requests are served one by one, as time passes.
    fn is_paced(&self) -> bool {
        self.scheduling.is_some() || !self.flows.is_empty() || self.idle_ns.is_some()
    }

    /// Whether a write buffer stands in front of the scheme.
    pub fn is_buffered(&self) -> bool {
        self.settings.get(buffer::POLICY.name).is_some()
    }
}

/// The chip of plain runs, in time: it keeps what measuring needs.
pub type BriefMedium = Timeline<Nand<NoData, Brief>>;
/// The chip of runs that wear it out or mount it, in time.
pub type FullMedium = Timeline<Failing<Nand<NoData, Full>>>;

/// A medium that runs are measured on.
trait Measured: Flash<User = ()> + Clocked + Sized {
    /// With a clock that stands still until it is reset.
    fn new(config: &Config) -> Self;
    fn reset(&mut self);
    /// Commands queue from now on.
    fn queue(&mut self, scheduling: Scheduling);
    /// Commands queue no longer; what they queued in.
    fn unqueue(&mut self) -> Option<Scheduler>;
    /// When the last command ends that was placed as it was issued.
    fn idle_at_ns(&self) -> u64;
    /// Blocks that failed an erase.
    fn worn_out(&self) -> u32;
    /// Mounts the scheme from flash alone, if the medium keeps what that needs: the commands that it took.
    fn mount<S: Recipe<Self>>(&mut self, recipe: &S, config: &Config) -> Option<Tally>;
}

impl Measured for BriefMedium {
    fn new(config: &Config) -> Self {
        let device = &config.device;
        let mut timeline = Timeline::new(Nand::new(device.geometry), device.timing, device.server);
        timeline.stop_clock();
        timeline
    }
    fn reset(&mut self) {
        Timeline::reset(self);
    }
    fn queue(&mut self, scheduling: Scheduling) {
        Timeline::queue(self, scheduling);
    }
    fn unqueue(&mut self) -> Option<Scheduler> {
        Timeline::unqueue(self)
    }
    fn idle_at_ns(&self) -> u64 {
        Timeline::idle_at_ns(self)
    }
    fn worn_out(&self) -> u32 {
        0
    }
    fn mount<S: Recipe<Self>>(&mut self, _: &S, _: &Config) -> Option<Tally> {
        None
    }
}

impl Measured for FullMedium {
    fn new(config: &Config) -> Self {
        let device = &config.device;
        let endurance = device.endurance.filter(|_| config.until == Until::EndOfLife);
        let plan = FailurePlan { endurance, ..FailurePlan::default() };
        let chip = Failing::new(Nand::new(device.geometry), plan, config.seed);
        let mut timeline = Timeline::new(chip, device.timing, device.server);
        timeline.stop_clock();
        timeline
    }
    fn reset(&mut self) {
        Timeline::reset(self);
    }
    fn queue(&mut self, scheduling: Scheduling) {
        Timeline::queue(self, scheduling);
    }
    fn unqueue(&mut self) -> Option<Scheduler> {
        Timeline::unqueue(self)
    }
    fn idle_at_ns(&self) -> u64 {
        Timeline::idle_at_ns(self)
    }
    fn worn_out(&self) -> u32 {
        self.inner().grown_bad_count()
    }
    fn mount<S: Recipe<Self>>(&mut self, recipe: &S, config: &Config) -> Option<Tally> {
        let before = self.tally().clone();
        let mounted = recipe.mount(self, config.device.logical_pages, &config.settings);
        mounted.is_ok().then(|| self.tally().since(&before))
    }
}

struct Work<'a> {
    config: &'a Config,
    source: &'a mut dyn Source,
    observer: &'a mut dyn Observer,
}

impl<F: Measured> Visitor<F> for Work<'_> {
    type Output = Result<Outcome, RunError>;

    fn visit<S: Recipe<F>>(self, row: &Scheme<'_>, recipe: &S) -> Self::Output {
        let Work { config, source, observer } = self;
        let mut flash = F::new(config);
        let built = match recipe.format(&mut flash, config.device.logical_pages, &config.settings) {
            Ok(scheme) => Ok(scheme),
            Err(BuildError::Device(error)) => Err(error),
            Err(BuildError::Config(error)) => return Err(RunError::Config { scheme: row.name.to_owned(), error }),
        };
        let began = wall_clock();
        let filled = built.map_err(Unfilled::Device).and_then(|mut scheme| {
            scheme.filling(true);
            let live = fill::fill(config, &mut scheme, &mut flash, source, observer)?;
            if config.is_buffered() {
                // What the fill left in the buffer is no part of the run.
                scheme.flush(&mut flash)?;
            }
            scheme.filling(false);
            Ok((scheme, live))
        });
        let (mut scheme, live) = match filled {
            Ok(filled) => filled,
            Err(Unfilled::Ended) => return Ok(stillborn(config, row, report::INTERRUPTED.to_owned())),
            Err(Unfilled::Device(error)) => {
                return Ok(stillborn(config, row, format!("{error}, while it was being filled")));
            }
            Err(Unfilled::Run(error)) => return Err(error),
        };
        flash.reset();
        if let Some(scheduling) = config.scheduling {
            flash.queue(scheduling);
        }
        scheme.reset_counters();
        let mut run = Run::new(config, scheme, flash, live);
        let fill_seconds = began.elapsed();
        let (ended, measured, fill_extra) = run.serve(source, observer)?;
        let state_bytes = config.mount.then(|| run.scheme.save().len() as u64);
        let (mut outcome, mut flash) = run.finish(row, ended);
        if let Some(state_bytes) = state_bytes {
            note_mount(config, recipe, &mut flash, state_bytes, &mut outcome.result);
        }
        outcome.result.wall_seconds = measured;
        outcome.result.fill_wall_seconds = fill_seconds.as_secs_f64() + fill_extra;
        outcome.workload.sha256 = source.intake().sha256.clone();
        Ok(outcome)
    }
}

/// The outcome of a run that ended before the workload began.
fn stillborn(config: &Config, row: &Scheme<'_>, ended: String) -> Outcome {
    let (scheme, params) = (row.name.to_owned(), parameters(&config.settings));
    let result = SchemeResult { scheme, params, ended, ..SchemeResult::default() };
    Outcome { result, workload: report::Workload::default() }
}

/// Pages between looking at the clock, the stop flag and the progress bar.
const BATCH: usize = 1024;

/// How far ahead a page's mapping entry, and what it points at, is asked for.
const FAR: usize = 24;
const NEAR: usize = 10;

#[inline(always)]
fn hint_ahead<F: Flash, S: Inspect<F>>(scheme: &S, pages: &[Lpn], i: usize) {
    if let Some(&lpn) = pages.get(i + FAR) {
        scheme.hint(lpn);
    }
    if let Some(&lpn) = pages.get(i + NEAR) {
        scheme.hint_soon(lpn);
    }
}

/// The interval of the series in progress.
struct Window {
    length_ns: u64,
    end_ns: u64,
    response: Recorder,
    programs: u64,
    write_pages: u64,
    done: Vec<Interval>,
}

struct Run<'a, F, S> {
    config: &'a Config,
    scheme: S,
    flash: F,
    arrivals: Arrivals,
    page_bytes: u64,
    page_shift: u32,
    logical_pages: u64,
    reads: RequestTimes,
    writes: RequestTimes,
    /// Where their response times went.
    responses: Responses,
    counts: Counts,
    window: Option<Window>,
    /// Which pages were read and written, where a policy has to tell them apart.
    overlap: Option<Overlap>,
    /// Which pages hold data, until counting starts.
    live: Option<Live>,
    /// The share of them that do when it starts.
    live_share: f64,
    /// Commands, erase counts and the time at the end of the warm-up.
    base: Tally,
    base_erases: Vec<u32>,
    base_ns: u64,
    last_arrival_ns: u64,
    last_end_ns: u64,
    drained: Option<Drained>,
    iterations: Iterations,
    /// Iterations that were served, the last one in part.
    iterated: Option<f64>,
    /// Requests under way, where they are served one by one.
    paced: Option<Box<Paced>>,
    /// All response times, for Little's law.
    responses_ns: u128,
}

/// How often the workload was served.
#[derive(Clone, Copy, Default)]
struct Iterations {
    whole: u64,
    /// Requests of one; 0 while that is not known.
    requests: u64,
    /// Requests, and programs, by the end of the last whole one.
    served: u64,
    programs: u64,
    /// What is added to the arrivals of the present one, so that it follows the one before.
    shift_ns: u64,
}

/// How far a batch came.
struct Step<E: FlashFault> {
    /// Requests taken from the workload; none at its end.
    taken: u64,
    served: u64,
    /// What ended it before its end.
    error: Option<Error<E>>,
}

/// What it took to write what a write buffer still held at the end.
#[derive(Clone, Copy)]
struct Drained {
    pages: u64,
    ns: u64,
}

/// When a request was served.
#[derive(Clone, Copy)]
struct Served {
    start_ns: u64,
    end_ns: u64,
}

impl<'a, F: Measured, S: Inspect<F>> Run<'a, F, S> {
    fn new(config: &'a Config, scheme: S, flash: F, live: Live) -> Self {
        let page_bytes = u64::from(config.device.geometry.page_bytes);
        let is_coded = config.settings.get(POLICY.name).is_some_and(|policy| policy != POLICY.default);
        let window = (config.series_ns > 0).then(|| Window {
            length_ns: config.series_ns,
            end_ns: config.series_ns,
            response: Recorder::default(),
            programs: 0,
            write_pages: 0,
            done: Vec::new(),
        });
        let base_erases = scheme.erase_counts().to_vec();
        Run {
            config,
            scheme,
            flash,
            arrivals: Arrivals::new(config.host),
            page_bytes,
            page_shift: page_bytes.trailing_zeros(),
            logical_pages: u64::from(config.device.logical_pages),
            reads: RequestTimes::default(),
            writes: RequestTimes::default(),
            responses: Responses::default(),
            counts: Counts::default(),
            window,
            overlap: is_coded.then(|| Overlap::new(config.device.logical_pages.into())),
            live_share: live.share(),
            live: (config.warmup > 0).then_some(live),
            base: Tally::default(),
            base_erases,
            base_ns: 0,
            last_arrival_ns: 0,
            last_end_ns: 0,
            drained: None,
            iterations: Iterations::default(),
            iterated: None,
            paced: config.is_paced().then(|| Box::new(Paced::new(config))),
            responses_ns: 0,
        }
    }

    /// Serves the workload; how it ended, the seconds that measuring took, and those before it.
    fn serve(&mut self, source: &mut dyn Source, observer: &mut dyn Observer) -> Result<(String, f64, f64), RunError> {
        let mut requests: Vec<Request> = Vec::with_capacity(BATCH);
        let began = wall_clock();
        let mut measuring = began;
        let mut served = 0u64;
        // Requests taken from the source in this iteration.
        let mut taken = 0u64;
        let records = observer.wants_records();
        let mut ended = report::COMPLETE.to_owned();
        loop {
            // A warm-up ends exactly where it was asked to.
            let limit = match self.config.warmup.saturating_sub(served) {
                0 => BATCH,
                left => BATCH.min(left as usize),
            };
            let records = records && served >= self.config.warmup;
            let step = match self.paced.is_some() {
                false => self.batch(source, limit, &mut requests, records, observer)?,
                true => self.paced_batch(source, limit, records, served >= self.config.warmup, observer)?,
            };
            if step.taken == 0 {
                if self.config.until == Until::WorkloadEnds || self.is_worn(served)? {
                    break;
                }
                if !source.rewind() {
                    return Err(RunError::Endless("the workload cannot be repeated"));
                }
                if let Some(paced) = &mut self.paced {
                    paced.flows.repeat(self.iterations.shift_ns);
                }
                taken = 0;
                continue;
            }
            (taken, served) = (taken + step.taken, served + step.served);
            if let Some(error) = step.error {
                ended = match error {
                    Error::Full if self.config.until == Until::EndOfLife && self.flash.worn_out() > 0 => {
                        report::END_OF_LIFE.to_owned()
                    }
                    Error::Full => format!("device full: {error}, at request {}", served + 1),
                    Error::Flash(_) => format!("{error}, at request {}", served + 1),
                };
                break;
            }
            if self.config.warmup > 0 && served == self.config.warmup {
                self.end_warmup();
                measuring = wall_clock();
            }
            if !observer.served(step.served) {
                ended = report::INTERRUPTED.to_owned();
                break;
            }
        }
        if served < self.config.warmup {
            if ended == report::COMPLETE {
                ended = format!("the workload ended in its warm-up, after {served} requests");
            }
            self.end_warmup();
            measuring = wall_clock();
        } else if self.config.is_buffered()
            && (ended == report::COMPLETE || ended == report::INTERRUPTED)
            && let Err(error) = self.drain(observer)
        {
            ended = format!("{error}, while the write buffer was drained");
        }
        if self.config.until != Until::WorkloadEnds {
            let Iterations { whole, requests, served: before, .. } = self.iterations;
            // A run that ended in its first iteration has not seen how long that is.
            taken += self.paced.as_ref().map_or(0, |paced| paced.flows.at_hand());
            let mut rest = Vec::with_capacity(BATCH);
            loop {
                rest.clear();
                if requests == 0 {
                    source.fill(&mut rest, BATCH)?;
                }
                taken += rest.len() as u64;
                if rest.is_empty() {
                    break;
                }
            }
            let requests = if requests == 0 { taken } else { requests };
            self.iterated = ratio((served - before) as f64, requests as f64).map(|part| whole as f64 + part);
        }
        self.settle_all(observer);
        self.close_window();
        Ok((ended, measuring.elapsed().as_secs_f64(), (measuring - began).as_secs_f64()))
    }

    /// Serves requests in a batch, whose memory is asked for ahead.
    fn batch(
        &mut self,
        source: &mut dyn Source,
        limit: usize,
        batch: &mut Vec<Request>,
        records: bool,
        observer: &mut dyn Observer,
    ) -> Result<Step<F::Fault>, RunError> {
        batch.clear();
        source.fill(batch, limit)?;
        let taken = batch.len() as u64;
        if self.iterations.shift_ns > 0 {
            batch.iter_mut().for_each(|request| request.arrival_ns += self.iterations.shift_ns);
        }
        // The first page of each request stands for it in the hints.
        let pages: Vec<Lpn> = batch.iter().map(|request| Lpn((request.offset >> self.page_shift) as u32)).collect();
        for (i, request) in batch.iter().enumerate() {
            hint_ahead::<F, S>(&self.scheme, &pages, i);
            let before = if records { Some(self.flash.tally().clone()) } else { None };
            match self.request(request) {
                Ok(times) => {
                    if let Some(before) = before {
                        let commands = self.commands_since(&before);
                        observer.record(&record(request, self.last_arrival_ns, times, commands));
                    }
                }
                Err(error) => {
                    self.note_live(&batch[..i]);
                    return Ok(Step { taken, served: i as u64, error: Some(error) });
                }
            }
        }
        self.note_live(batch);
        Ok(Step { taken, served: taken, error: None })
    }

    /// An iteration is over; whether the device is as worn as it was to be.
    fn is_worn(&mut self, served: u64) -> Result<bool, RunError> {
        let Iterations { whole, served: before, programs, .. } = self.iterations;
        let now = self.flash.tally().of(Op::Program);
        // The second iteration may be the first that finds all of its pages in a write buffer.
        if served == before || whole > 0 && now == programs {
            return Err(RunError::Endless(
                "the workload programs nothing: it wears no block, however often it is repeated",
            ));
        }
        self.iterations = Iterations {
            whole: whole + 1,
            requests: served - before,
            served,
            programs: now,
            shift_ns: if self.config.host == HostModel::Open { self.last_arrival_ns } else { 0 },
        };
        let blocks = f64::from(self.config.device.geometry.block_count());
        let mean = self.flash.tally().of(Op::Erase) as f64 / blocks;
        Ok(matches!(self.config.until, Until::MeanErases(asked) if mean >= asked))
    }

    /// Requests of the warm-up were served: pages hold data now, or no longer do.
    fn note_live(&mut self, served: &[Request]) {
        if let Some(live) = &mut self.live {
            served.iter().for_each(|request| live.serve(request));
        }
    }

    fn end_warmup(&mut self) {
        self.live_share = self.live.take().map_or(self.live_share, |live| live.share());
        self.reads = RequestTimes::default();
        self.writes = RequestTimes::default();
        self.responses = Responses::default();
        self.counts = Counts::default();
        self.base = self.flash.tally().clone();
        self.base_erases = self.scheme.erase_counts().to_vec();
        self.scheme.reset_counters();
        self.base_ns = self.last_arrival_ns;
        self.overlap = self.overlap.take().map(|_| Overlap::new(self.logical_pages));
        if let (Some(paced), Some(scheduler)) = (&mut self.paced, self.flash.scheduler()) {
            paced.end_warmup(scheduler.busy());
        } else if let Some(paced) = &mut self.paced {
            paced.end_warmup(Busy::default());
        }
        if let Some(window) = &mut self.window {
            window.done.clear();
            window.response.clear();
            window.end_ns = self.base_ns + window.length_ns;
            window.programs = self.base.of(Op::Program);
            window.write_pages = 0;
        }
    }

    #[inline(always)]
    fn request(&mut self, request: &Request) -> Result<Served, Error<F::Fault>> {
        let arrival_ns = self.arrivals.next(request.arrival_ns);
        let served = self.perform(request, arrival_ns)?;
        self.arrivals.ends(served.end_ns);
        if cfg!(debug_assertions) {
            self.responses_ns += u128::from(served.end_ns - arrival_ns);
        }
        self.note_end(request.operation, Times { arrival_ns, start_ns: served.start_ns, end_ns: served.end_ns });
        if matches!(request.operation, Operation::Read | Operation::Write) {
            let mut of = self.responses.of(served.end_ns - arrival_ns);
            self.flash.each_part(|waited, cause, ns| of.add(waited, cause, ns));
        }
        Ok(served)
    }

    /// The function of a request that arrives now. Its times, if commands are placed as they are issued.
    #[inline(always)]
    fn perform(&mut self, request: &Request, arrival_ns: u64) -> Result<Served, Error<F::Fault>> {
        self.last_arrival_ns = arrival_ns;
        self.flash.arrive(arrival_ns);
        if self.window.as_ref().is_some_and(|window| arrival_ns >= window.end_ns) {
            self.advance_window(arrival_ns);
        }
        let served = match request.operation {
            Operation::Write => self.write(request)?,
            Operation::Read => self.read(request)?,
            Operation::Trim | Operation::Flush => self.control(request)?,
        };
        self.counts.requests += 1;
        Ok(served)
    }

    /// A request of the measured phase, or so far of the warm-up, has its times.
    #[inline(always)]
    fn note_end(&mut self, operation: Operation, times: Times) {
        self.last_end_ns = self.last_end_ns.max(times.end_ns);
        match operation {
            Operation::Write => self.writes.record(times),
            Operation::Read => self.reads.record(times),
            Operation::Trim | Operation::Flush => return,
        }
        if let Some(window) = &mut self.window {
            window.response.record(times.end_ns - times.arrival_ns);
        }
    }

    /// First and last page of an extent.
    #[inline(always)]
    fn cut(&self, request: &Request) -> (u64, u64) {
        let end = request.offset + request.bytes;
        let pages = (request.offset >> self.page_shift, (end - 1) >> self.page_shift);
        assert!(pages.1 < self.logical_pages, "the workload was fitted to the device");
        pages
    }

    #[inline(always)]
    fn write(&mut self, request: &Request) -> Result<Served, Error<F::Fault>> {
        let (first, last) = self.cut(request);
        let mut served = Served { start_ns: u64::MAX, end_ns: 0 };
        let end = request.offset + request.bytes;
        self.scheme.request(Lpn(first as u32), (last - first + 1) as u32);
        for page in first..=last {
            let lpn = Lpn(page as u32);
            if page > first {
                self.scheme.hint(Lpn(page as u32 + 8));
            }
            self.flash.page_begin();
            let partial = (page == first && request.offset & (self.page_bytes - 1) != 0)
                || (page == last && end & (self.page_bytes - 1) != 0);
            if partial && self.config.partial == PartialPages::ReadModifyWrite {
                self.counts.partial_writes += 1;
                self.scheme.read_to_modify(&mut self.flash, lpn)?;
            }
            self.scheme.write(&mut self.flash, lpn, &())?;
            if let Some(overlap) = &mut self.overlap {
                overlap.note(lpn, true);
            }
            let times = self.flash.page_end();
            served = Served { start_ns: served.start_ns.min(times.start_ns), end_ns: served.end_ns.max(times.end_ns) };
        }
        self.counts.writes += 1;
        self.counts.write_pages += last - first + 1;
        if let Some(window) = &mut self.window {
            window.write_pages += last - first + 1;
        }
        Ok(served)
    }

    #[inline(always)]
    fn read(&mut self, request: &Request) -> Result<Served, Error<F::Fault>> {
        let (first, last) = self.cut(request);
        let mut served = Served { start_ns: u64::MAX, end_ns: 0 };
        self.scheme.request(Lpn(first as u32), (last - first + 1) as u32);
        for page in first..=last {
            if page > first {
                self.scheme.hint(Lpn(page as u32 + 8));
            }
            self.flash.page_begin();
            let found = self.scheme.read(&mut self.flash, Lpn(page as u32))?;
            self.counts.unmapped_reads += u64::from(found.is_none());
            if let Some(overlap) = &mut self.overlap {
                overlap.note(Lpn(page as u32), false);
            }
            let times = self.flash.page_end();
            served = Served { start_ns: served.start_ns.min(times.start_ns), end_ns: served.end_ns.max(times.end_ns) };
        }
        self.counts.reads += 1;
        self.counts.read_pages += last - first + 1;
        Ok(served)
    }

    /// A trim discards the pages that lie in it whole; a flush makes everything durable.
    #[cold]
    fn control(&mut self, request: &Request) -> Result<Served, Error<F::Fault>> {
        self.flash.page_begin();
        if request.operation == Operation::Flush {
            self.scheme.flush(&mut self.flash)?;
            self.counts.flushes += 1;
        } else {
            let pages = fill::covered(request, self.page_bytes);
            if !pages.is_empty() {
                assert!(pages.end <= self.logical_pages, "the workload was fitted to the device");
                self.scheme.trim(&mut self.flash, Lpn(pages.start as u32), (pages.end - pages.start) as u32)?;
            }
            self.counts.trims += 1;
        }
        let times = self.flash.page_end();
        Ok(Served { start_ns: times.start_ns, end_ns: times.end_ns })
    }

    /// The workload is over: what the write buffer still holds is written, so that no page is had for nothing. Its
    /// commands count; no response waits for them.
    fn drain(&mut self, observer: &mut dyn Observer) -> Result<(), Error<F::Fault>> {
        self.settle_requests(observer);
        let programs = self.flash.tally().get(Cause::Host, Op::Program);
        let now_ns = self.flash.scheduler().map_or(0, |scheduler| scheduler.now_ns());
        let from_ns = self.last_end_ns.max(self.last_arrival_ns).max(now_ns);
        self.flash.arrive(from_ns);
        self.flash.page_begin();
        self.scheme.flush(&mut self.flash)?;
        let end_ns = self.flash.page_end().end_ns;
        let ns = self.paced_drain().unwrap_or(end_ns) - from_ns;
        self.drained = Some(Drained { pages: self.flash.tally().get(Cause::Host, Op::Program) - programs, ns });
        Ok(())
    }

    /// Commands issued since the tally was `before`, by kind.
    fn commands_since(&self, before: &Tally) -> [u32; Op::ALL.len()] {
        let commands = self.flash.tally().since(before);
        std::array::from_fn(|op| commands.of(Op::ALL[op]) as u32)
    }

    #[cold]
    fn advance_window(&mut self, now_ns: u64) {
        while self.window.as_ref().is_some_and(|window| now_ns >= window.end_ns) {
            self.close_window();
            if let Some(window) = &mut self.window {
                // Long silence is one interval without requests, not millions.
                let behind = (now_ns - window.end_ns) / window.length_ns;
                window.end_ns += window.length_ns * if behind > 1000 { behind } else { 1 };
            }
        }
    }

    fn close_window(&mut self) {
        let Some(window) = &mut self.window else { return };
        let programs = self.flash.tally().of(Op::Program);
        let requests = window.response.count();
        let rows = self.overlap.as_mut().map(Overlap::take_rows);
        let [page_reads, page_writes] = rows.map_or_else(Default::default, |rows| rows.map(Vec::from));
        window.done.push(Interval {
            seconds: (window.end_ns - self.base_ns) as f64 * 1e-9,
            requests,
            iops: requests as f64 / (window.length_ns as f64 * 1e-9),
            waf: ratio((programs - window.programs) as f64, window.write_pages as f64),
            free_blocks: u64::from(self.scheme.free_blocks()),
            mean_us: window.response.mean_us(),
            p99_us: (requests > 0).then(|| window.response.quantile_us(0.99)),
            page_reads,
            page_writes,
        });
        window.programs = programs;
        window.write_pages = 0;
        window.response.clear();
    }

    fn finish(mut self, row: &Scheme<'_>, ended: String) -> (Outcome, F) {
        let shares = self.check_conservation();
        let tally = self.flash.tally().since(&self.base);
        let driven = Driven {
            row,
            settings: &self.config.settings,
            ended,
            page_bytes: self.page_bytes,
            pages_per_block: self.flash.geometry().pages_per_block,
            tally: &tally,
            command_ns: &|op, mode| self.flash.command_ns(op, mode),
            memory: self.scheme.memory(),
            cache: self.scheme.cache(),
            counters: self.scheme.counters(),
            erases: [self.scheme.erase_counts(), &self.base_erases],
            counts: self.counts,
        };
        let mut result = driven.result();
        [result.response_us, result.service_us, result.queue_us] = summaries(self.reads, self.writes);
        result.response_by_cause = self.responses.summary();
        let seconds = (self.last_end_ns.max(self.last_arrival_ns) - self.base_ns) as f64 * 1e-9;
        result.extra.insert("simulated_seconds".to_owned(), seconds.into());
        result.extra.insert(report::LIVE_SHARE.to_owned(), self.live_share.into());
        result.extra.extend(shares);
        if let (Some(paced), Some(_)) = (&self.paced, self.config.idle_ns) {
            result.extra.insert(report::IDLE_STEPS.to_owned(), paced.idle_steps.into());
        }
        let flows = self.paced.take();
        let flows = flows.map(|paced| paced.flow_results(&self.config.flows, self.base_ns));
        result.flows = flows.unwrap_or_default();
        if let Some(Drained { pages, ns }) = self.drained {
            result.extra.insert("write_buffer_drain_pages".to_owned(), pages.into());
            result.extra.insert("write_buffer_drain_seconds".to_owned(), (ns as f64 * 1e-9).into());
        }
        if self.config.host == HostModel::Open && self.config.flows.is_empty() && self.counts.requests > 0 {
            let arrivals = (self.last_arrival_ns - self.base_ns) as f64 * 1e-9;
            result.set_backlog(arrivals, seconds - arrivals, self.counts.requests);
        }
        result.until = self.iterated.map(|iterations| report::Until {
            iterations,
            host_bytes_written: self.counts.write_pages * self.page_bytes,
            worn_out_blocks: (self.config.until == Until::EndOfLife).then(|| self.flash.worn_out().into()),
        });
        if let Some((ecc, overlap)) = result.ecc.as_mut().zip(self.overlap) {
            overlap.describe(ecc);
        }
        result.series = self.window.map(|window| window.done).unwrap_or_default();
        (Outcome { result, workload: self.counts.workload() }, self.flash)
    }
}

fn record(request: &Request, arrival_ns: u64, times: Served, commands: [u32; Op::ALL.len()]) -> RequestRecord {
    RequestRecord {
        arrival_ns,
        operation: request.operation,
        offset: request.offset,
        bytes: request.bytes,
        queue_ns: times.start_ns - arrival_ns,
        service_ns: times.end_ns - times.start_ns,
        response_ns: times.end_ns - arrival_ns,
        commands,
    }
}

/// Power is cut after the run: what a mount from flash takes, one command after another, and what it would take to read
/// the controller's state instead, had it been written to metadata pages before.
fn note_mount<F: Measured, S: Recipe<F>>(
    config: &Config,
    recipe: &S,
    flash: &mut F,
    state_bytes: u64,
    result: &mut SchemeResult,
) {
    let Some(tally) = flash.mount(recipe, config) else { return };
    let seconds = |op: Op, count: u64| flash.command_ns(op, Mode::Normal) as f64 * count as f64 * 1e-9;
    let scan: f64 = Op::ALL.iter().map(|&op| seconds(op, tally.of(op))).sum();
    let state_reads = state_bytes.div_ceil(u64::from(config.device.geometry.page_bytes));
    let whole = [tally.of(Op::OobRead), tally.of(Op::Read), tally.of(Op::Program), tally.of(Op::Erase), state_bytes];
    for (key, value) in report::MOUNT.iter().zip(whole) {
        result.extra.insert((*key).to_owned(), value.into());
    }
    result.extra.insert(report::MOUNT_SECONDS.to_owned(), scan.into());
    result.extra.insert(report::STATE_SECONDS.to_owned(), seconds(Op::Read, state_reads).into());
}

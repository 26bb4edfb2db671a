//! One run: a scheme on a device under a workload, from filling the device to the result.
//!
//! [`run`] chooses the scheme and the medium once and then runs a loop that is compiled for both, or, where a buffer, a
//! mount or the end of a life makes the scheme matter less, for any scheme on that medium. Requests come in
//! batches, cut into pages; each page's mapping entry is asked for two dozen pages ahead, and what it points at ten
//! ahead, so that the loop seldom waits for memory.
//!
//! Where commands queue, and where several streams of requests share the device, a request's end is known only when
//! time has passed to it, and which request comes next depends on ends. Those runs go request by request: `paced`.

mod config;
mod fill;
mod filled;
mod medium;
mod outcome;
mod paced;
mod requests;

pub use config::{Config, Fill, Medium, PartialPages, Until};
pub use fill::MOST_ROUNDS;
pub use filled::Filled;
pub use medium::{BriefMedium, FullMedium};

use crate::ecc::Overlap;
use crate::host::{Arrivals, HostModel};
use crate::latency::{Recorder, RequestTimes, Responses};
use crate::report::{self, IN_WARM_UP, RequestRecord, SchemeResult, ratio};
use crate::summary::Counts;
use crate::workload::{Request, Source, WorkloadError};
use fill::{Left, Live, Unfilled};
use flash::{Busy, Cause, Flash, FlashFault, Lpn, Op, Tally};
use ftl::buffer::Behind;
use ftl::parameters::ECC;
use ftl::schemes::{Registry, Visitor};
use ftl::{BuildError, ConfigError, Error, Ftl, Inspect, Recipe, Scheme};
use medium::Measured;
use outcome::{Window, note_mount, stillborn};
use paced::Paced;
use requests::{Served, record};
use std::panic::{self, AssertUnwindSafe};
use std::time::Instant;

/// For `wall_seconds`, which tells how fast the simulator was; no other number of a report depends on it.
#[expect(clippy::disallowed_methods, reason = "tells how long the run took, decides nothing")]
fn wall_clock() -> Instant {
    Instant::now()
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

    /// Something panicked in the request of this number, counted from 1, the warm-up's included; the panic goes on
    /// behind this call. Where requests queue it may be one of those under way.
    fn broke(&mut self, request: u64) {
        let _ = request;
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
    /// A scheme or a policy that a program brought along failed in its own code.
    #[error("{0}")]
    Foreign(String),
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
    let row = schemes.by_name(name).ok_or_else(|| RunError::UnknownScheme(name.to_owned()))?;
    let work = Work { config, source, observer };
    // The plain run is compiled for its scheme, and nothing in it asks for a buffer. The others are compiled once for
    // all schemes. The medium that wears out is recoverable too, and one loop does for whatever is not the plain run.
    let outcome = if config.medium == Medium::Recoverable || config.until == Until::EndOfLife || config.mount {
        schemes.recipe::<FullMedium>(name).map(|recipe| work.visit(row, &Behind(recipe)))
    } else if config.is_buffered() {
        schemes.recipe::<BriefMedium>(name).map(|recipe| work.visit(row, &Behind(recipe)))
    } else {
        schemes.visit::<BriefMedium, _>(name, work)
    };
    outcome.expect("the scheme has a row")
}

/// Runs a scheme that is in no registry: the one that `recipe` makes and `row` describes. It is compiled for that
/// alone.
///
/// # Errors
/// As [`run`].
pub fn run_recipe<T: Recipe<BriefMedium> + Recipe<FullMedium>>(
    row: &Scheme<'_>,
    recipe: &T,
    config: &Config,
    source: &mut dyn Source,
    observer: &mut dyn Observer,
) -> Result<Outcome, RunError> {
    let work = Work { config, source, observer };
    let recipe = &Behind(recipe.clone());
    let is_plain = config.medium == Medium::Brief && config.until != Until::EndOfLife && !config.mount;
    if is_plain {
        Visitor::<BriefMedium>::visit(work, row, recipe)
    } else {
        Visitor::<FullMedium>::visit(work, row, recipe)
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
        let began = wall_clock();
        let kept = config.filled.as_deref();
        let filled = match kept.and_then(|kept| kept.get(config)) {
            Some(filled) => Ok(filled),
            None => filled(config, row, recipe, source, observer).inspect(|filled| {
                kept.inspect(|kept| kept.keep(config, filled));
            }),
        };
        let (mut scheme, mut flash, left) = match filled {
            Ok(filled) => filled,
            Err(Unfilled::Ended) => return Ok(stillborn(config, row, report::INTERRUPTED.to_owned())),
            Err(Unfilled::Device(error)) => {
                return Ok(stillborn(config, row, format!("{error}, while it was being filled")));
            }
            Err(Unfilled::Run(error)) => return Err(error),
        };
        flash.reset(config);
        if let Some(scheduling) = config.scheduling {
            flash.queue(scheduling);
        }
        scheme.reset_counters();
        let mut run = Run::new(config, scheme, flash, left);
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

/// The scheme on a device that is filled as it shall be; and what that left.
fn filled<F: Measured, S: Recipe<F>>(
    config: &Config,
    row: &Scheme<'_>,
    recipe: &S,
    source: &mut dyn Source,
    observer: &mut dyn Observer,
) -> Result<(S::Scheme, F, Left), Unfilled<F::Fault>> {
    let mut flash = F::new(config);
    let built = recipe.format(&mut flash, config.device.logical_pages, &config.settings);
    let mut scheme = built.map_err(|error| match error {
        BuildError::Device(error) => Unfilled::Device(error),
        BuildError::Config(error) => Unfilled::Run(RunError::Config { scheme: row.name.to_owned(), error }),
    })?;
    scheme.filling(true);
    let left = fill::fill(config, &mut scheme, &mut flash, source, observer)?;
    if config.is_buffered() {
        // What the fill left in the buffer is no part of the run.
        scheme.flush(&mut flash)?;
    }
    scheme.filling(false);
    Ok((scheme, flash, left))
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
    /// Whether write amplification was to be steady after the fill, and was not.
    unsteady: bool,
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

impl<'a, F: Measured, S: Inspect<F>> Run<'a, F, S> {
    fn new(config: &'a Config, scheme: S, flash: F, left: Left) -> Self {
        let Left { live, unsteady } = left;
        let page_bytes = u64::from(config.device.geometry.page_bytes);
        let is_coded = config.settings.get(ECC.name).is_some_and(|policy| policy != ECC.default);
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
            unsteady,
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
            let before = self.counts.requests;
            let step = panic::catch_unwind(AssertUnwindSafe(|| match self.paced.is_some() {
                false => self.batch(source, limit, &mut requests, records, observer),
                true => self.paced_batch(source, limit, records, served >= self.config.warmup, observer),
            }));
            let step = step.unwrap_or_else(|cause| {
                observer.broke(served + self.counts.requests - before + 1);
                panic::resume_unwind(cause)
            })?;
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
                    Error::Full => format!("device full: no block can be freed, at request {}", served + 1),
                    Error::Flash(_) | Error::Corrupt => format!("{error}, at request {}", served + 1),
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
        if self.config.warmup > 0 && served <= self.config.warmup {
            ended = match ended.as_str() {
                report::INTERRUPTED => ended,
                report::COMPLETE => format!("{IN_WARM_UP}the workload ended after {served} requests"),
                cause => format!("{IN_WARM_UP}{cause}"),
            };
            if served < self.config.warmup {
                self.end_warmup();
                measuring = wall_clock();
            }
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
            while requests == 0 && source.refill(&mut rest, BATCH)? {
                taken += rest.len() as u64;
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
                        observer.record(&record(request, 0, self.last_arrival_ns, times, commands));
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
            window.end_ns = self.base_ns.saturating_add(window.length_ns);
            window.programs = self.base.of(Op::Program);
            window.write_pages = 0;
        }
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
}

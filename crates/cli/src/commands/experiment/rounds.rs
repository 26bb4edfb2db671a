//! The runs of a comparison: as many side by side as there are threads, over the same requests.

use super::Experiment;
use super::reading::{Feed, Fitted};
use super::settled::{Settled, json_value};
use crate::args::{self, Fill, Partial, Scheduler};
use crate::error::CliError;
use crate::feed::{Again, BEHIND, Received, broadcast};
use crate::per_request::PerRequest;
use crate::progress::{self, Progress};
use clap::ValueEnum;
use flash::{Bus, Scheduling};
use ftl::Value;
use sim::experiment::{self, Config, Observer, Outcome, PartialPages, RunError, Until};
use sim::host::HostModel;
use sim::report::{self, RequestRecord, SchemeResult};
use sim::workload::Source;
use sim::workload::adapt::adapt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread;

/// One run: which combination under which seed over which feed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    pub(super) combination: usize,
    pub(super) repeat: u32,
    pub(super) feed: usize,
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

impl Experiment<'_> {
    fn until(&self) -> Until {
        match self.args.until {
            None => Until::WorkloadEnds,
            Some(args::Until::MeanErases(mean)) => Until::MeanErases(mean),
            Some(args::Until::EndOfLife) => Until::EndOfLife,
        }
    }

    pub(super) fn config(&self, job: &Job, fitted: &Fitted, host: HostModel) -> Config {
        let args = self.args;
        let Settled { row, settings, seeded } = &self.rows[job.combination];
        let seed = args.seed.wrapping_add(u64::from(job.repeat));
        let mut settings = settings.clone();
        if *seeded {
            settings.put("seed", Value::Count(seed));
        }
        Config {
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
            idle_ns: args.idle_gc,
            filled: self.filled.clone(),
            ..Config::new(row.name, settings, fitted.device.clone())
        }
    }

    /// Runs all jobs, as many side by side as there are threads. `None` for those that never began.
    pub(super) fn round(
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
        let in_memory = |index: &usize| !matches!(feeds[jobs[*index].feed], Feed::Streamed { .. });
        let shared: Vec<usize> = (0..jobs.len()).filter(in_memory).collect();
        let next = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..threads.min(shared.len()) {
                scope.spawn(|| {
                    while let Some(&index) = shared.get(next.fetch_add(1, Ordering::Relaxed)) {
                        if self.stopped() || state.failed.load(Ordering::Relaxed) {
                            break;
                        }
                        let job = &jobs[index];
                        let run = |source: &mut dyn Source| self.job(index, job, &config(job), source, &state);
                        match &feeds[job.feed] {
                            Feed::Shared(feed) => run(&mut feed.replay()),
                            Feed::Given(open) => run(&mut Again::new(open.as_ref())),
                            Feed::Streamed { .. } => {}
                        }
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
            requests: path.map(|path| PerRequest::create(path, !self.flows.is_empty())).transpose()?,
            kept: keeps.then(Vec::new),
            failure: None,
        };
        let mut outcome = self.schemes.run(config, source, &mut watch).map_err(run_error)?;
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
            // The warm-up is of all flows. Each by itself begins with the requests that it had there, so that both
            // means are over the same ones.
            let warmup = outcome.result.flows[number].warmup;
            let config = Config { only_flow: Some(number as u32), warmup, mount: false, ..config.clone() };
            source.rewind();
            let run = self.schemes.run(&config, source, &mut alone).map_err(run_error)?.result;
            let is_whole = outcome.result.is_complete();
            let flow = &mut outcome.result.flows[number];
            (flow.name, flow.host) = (name.clone(), host.to_string());
            let by_itself = run.flows[number].response_us.as_ref().filter(|_| run.is_complete());
            flow.alone_mean_us = by_itself.map(|latency| latency.mean);
            let means = flow.response_us.as_ref().filter(|_| is_whole).zip(by_itself);
            flow.slowdown = means.and_then(|(shared, alone)| report::ratio(shared.mean, alone.mean));
        }
        Ok((outcome, watch.kept.unwrap_or_default()))
    }
}

/// How commands queued, in a word of the command line.
fn scheduler_name(config: &Config) -> Option<String> {
    let policy = config.scheduling?.policy;
    let of = |scheduler: &&Scheduler| scheduler.policy() == Some(policy);
    Scheduler::value_variants().iter().find(of).map(|scheduler| scheduler.name().to_owned())
}

pub(super) fn run_error(error: RunError) -> CliError {
    CliError::new(error)
}

/// Of the runs of one combination those that count. Interrupted ones do only if there is no other.
pub(super) fn counted(runs: Vec<Outcome>) -> Vec<Outcome> {
    let interrupted = |outcome: &Outcome| outcome.result.ended == report::INTERRUPTED;
    let (halves, whole): (Vec<_>, Vec<_>) = runs.into_iter().partition(interrupted);
    if whole.is_empty() { halves } else { whole }
}

/// The runs of one combination as one result.
pub(super) fn folded(runs: Vec<Outcome>, settled: &Settled) -> SchemeResult {
    let results = runs.into_iter().map(|outcome| outcome.result).collect();
    SchemeResult::repeated(results).unwrap_or_else(|| SchemeResult {
        scheme: settled.row.name.to_owned(),
        params: settled.settings.iter().map(|(name, value)| (name.to_owned(), json_value(value))).collect(),
        ended: report::INTERRUPTED.to_owned(),
        ..SchemeResult::default()
    })
}

//! The runs that experiments ask for, as many side by side as there are threads.
//!
//! Experiments are told in order, and most have a run that takes longer than its others. So the runs of all experiments
//! stand in one line: threads that are through with one experiment go on with the next, and no core waits. What runs on
//! the same requests and device is one job, and one thread's: the requests are fitted once. Where the device is filled
//! first, whatever the workload, a job is one scheme's, and its thread goes on with jobs that begin alike, from a copy
//! of the device that it has filled.

use super::lab::{Outcome, Served};
use crate::args::CompareArgs;
use crate::commands::compare::Plan;
use crate::commands::experiment::{Ran, run_planned};
use crate::error::CliError;
use crate::progress::{Meter, Progress, Reading};
use crate::session::Session;
use sim::experiment::Filled;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use sysinfo::{MemoryRefreshKind, System};

/// How often whoever waits for a run looks how far the runs are.
const LOOK: Duration = Duration::from_millis(125);

/// Free memory for each thread from which on filled devices are kept. One of 80 GiB takes up to 1.6 GB, and a run that
/// begins with a copy of it as much again; the rest is for requests, which all threads share and each run fits to its
/// device.
const ROOM: u64 = 6 << 30;

/// Bytes of memory that are free.
fn free_bytes() -> u64 {
    let mut system = System::new();
    system.refresh_memory_specifics(MemoryRefreshKind::nothing().with_ram());
    let limited = system.cgroup_limits().map_or(u64::MAX, |limits| limits.free_memory);
    system.available_memory().min(limited)
}

/// Runs of some combinations over the same requests.
#[derive(Debug)]
pub(super) struct Job {
    /// What tells each of its runs from every other.
    pub(super) keys: Vec<String>,
    /// What tells its requests, as its device takes them, from all others.
    pub(super) source: String,
    /// The flags.
    pub(super) args: CompareArgs,
    /// Workload and combinations.
    pub(super) plan: Plan,
    /// What they are called while they are under way.
    pub(super) label: String,
    /// What tells the filled device that its runs begin with from all others, if the workload does not fill it.
    pub(super) start: Option<String>,
}

#[derive(Debug, Default)]
struct State {
    /// Keys of all runs there are or cannot be.
    known: BTreeSet<String>,
    waiting: VecDeque<Job>,
    /// The starts of jobs that threads go on with.
    begun: BTreeSet<String>,
    /// Whether no more will come.
    complete: bool,
    under_way: usize,
    outcomes: BTreeMap<String, Outcome>,
    served: BTreeMap<String, Served>,
    failure: Option<CliError>,
    meters: Vec<Arc<Meter>>,
}

/// See the module's description.
#[derive(Debug)]
pub(super) struct Pool<'a> {
    session: &'a Session<'a>,
    state: Mutex<State>,
    /// A job came or ended.
    changed: Condvar,
    progress: Progress,
    /// Whether there is room for filled devices.
    keeps: bool,
}

impl<'a> Pool<'a> {
    /// Without runs, which so many threads will work at.
    pub(super) fn new(session: &'a Session<'a>, threads: usize) -> Pool<'a> {
        let keeps = free_bytes() / threads.max(1) as u64 >= ROOM;
        let progress = Progress::of_runs("planning", session.meter.as_ref());
        Pool { session, state: Mutex::default(), changed: Condvar::new(), progress, keeps }
    }

    /// Whether the user wants no more.
    pub(super) fn stopped(&self) -> bool {
        self.session.stop.load(Ordering::Relaxed)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nobody has asked so for a run; it is known from now on.
    pub(super) fn is_news(&self, key: &str) -> bool {
        self.state().known.insert(key.to_owned())
    }

    /// Puts runs behind the others.
    pub(super) fn add(&self, job: Job) {
        self.progress.expect(job.keys.len() as u64);
        self.state().waiting.push_back(job);
        self.changed.notify_all();
    }

    /// A run that there cannot be, and why.
    pub(super) fn cannot(&self, key: String, why: String) {
        self.state().outcomes.insert(key, Outcome::Not(why));
    }

    /// No more runs come.
    pub(super) fn complete(&self) {
        self.state().complete = true;
        self.changed.notify_all();
    }

    /// Drops the runs that nobody has begun: their results are not wanted any more.
    pub(super) fn abandon(&self) {
        self.state().waiting.clear();
        self.complete();
    }

    /// The next job, and whether more begin alike: one that begins as the one before; else the first in the line that
    /// begins as no other thread's does; else the first. `None` if there will be none.
    fn next(&self, before: Option<&str>) -> Option<(Job, bool)> {
        let mut state = self.state();
        loop {
            if self.stopped() || state.failure.is_some() {
                return None;
            }
            let begins = |start: &str, job: &Job| job.start.as_deref() == Some(start);
            let alike = before.and_then(|start| state.waiting.iter().position(|job| begins(start, job)));
            if let (None, Some(start)) = (alike, before) {
                state.begun.remove(start);
            }
            let is_free = |job: &Job| job.start.as_ref().is_none_or(|start| !state.begun.contains(start));
            let next = alike.or_else(|| state.waiting.iter().position(is_free)).unwrap_or(0);
            if let Some(job) = state.waiting.remove(next) {
                state.under_way += 1;
                state.begun.extend(job.start.clone());
                let more = job.start.as_deref().is_some_and(|start| state.waiting.iter().any(|job| begins(start, job)));
                return Some((job, more));
            }
            if state.complete {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Does runs until there are no more: what each thread is for.
    pub(super) fn work(&self) {
        let meter = Arc::new(Meter::default());
        self.state().meters.push(Arc::clone(&meter));
        // How the last job began, and the device that was filled for it.
        let mut before: Option<String> = None;
        let mut filled: Option<Arc<Filled>> = None;
        while let Some((job, more)) = self.next(before.as_deref()) {
            let Job { keys, source, args, plan, label, start } = job;
            let under_way = UnderWay { pool: self, runs: keys.len() as u64 };
            if start != before {
                filled = None;
            }
            if more && self.keeps {
                filled.get_or_insert_default();
            }
            let session = Session { meter: Some(Arc::clone(&meter)), filled: filled.clone(), ..self.session.clone() };
            let ran = run_planned(&args, plan, &label, &session);
            self.deliver(keys, source, ran);
            if !more {
                filled = None;
            }
            before = start;
            drop(under_way);
        }
    }

    fn deliver(&self, keys: Vec<String>, source: String, ran: Result<Option<Ran>, CliError>) {
        let mut state = self.state();
        match ran {
            Ok(None) => {}
            Ok(Some(ran)) => {
                let served = state.served.entry(source).or_default();
                served.requests = served.requests.max(ran.report.workload.requests);
                served.sha256.clone_from(&ran.report.workload.sha256);
                let moved = ran.report.assumptions.iter().find(|sentence| sentence.contains("--out-of-range"));
                if let Some(sentence) = moved {
                    served.addresses = Some(sentence.clone());
                }
                let results = ran.report.results.into_iter().map(|one| Outcome::Ran(Box::new(one)));
                state.outcomes.extend(keys.into_iter().zip(results));
            }
            Err(error) => drop(state.failure.get_or_insert(error)),
        }
    }

    /// The outcomes of some runs, in their order, once they are there.
    ///
    /// # Errors
    /// Requests that cannot be read, of whichever run; what was done before is there all the same.
    pub(super) fn outcomes(&self, keys: &[String]) -> Result<Vec<Outcome>, CliError> {
        let mut state = self.state();
        loop {
            let there = || keys.iter().map(|key| state.outcomes.get(key).cloned()).collect::<Option<Vec<_>>>();
            if let Some(outcomes) = there() {
                return Ok(outcomes);
            }
            if let Some(error) = state.failure.take() {
                return Err(error);
            }
            if self.stopped() && state.under_way == 0 {
                let interrupted = || Outcome::Not(sim::report::INTERRUPTED.to_owned());
                return Ok(keys
                    .iter()
                    .map(|key| state.outcomes.get(key).cloned().unwrap_or_else(interrupted))
                    .collect());
            }
            let meters = state.meters.clone();
            drop(state);
            self.show(&meters);
            state = self.changed.wait_timeout(self.state(), LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// What some requests came to; nothing, if no run has served them.
    pub(super) fn served(&self, source: &str) -> Served {
        self.state().served.get(source).cloned().unwrap_or_default()
    }

    /// Shows which run is under way, and how far it is.
    fn show(&self, meters: &[Arc<Meter>]) {
        for note in meters.iter().flat_map(|meter| meter.notes()) {
            self.progress.note(&note);
        }
        let readings = meters.iter().filter_map(|meter| meter.read());
        // The one that has most before it is what is waited for. One that is being read does not know how much.
        let left = |reading: &Reading| reading.total.map_or(0, |total| total.saturating_sub(reading.done));
        if let Some(Reading { label, .. }) = readings.max_by_key(left) {
            self.progress.say(&label);
        }
    }

    /// Takes the bar off the screen while something else is printed.
    pub(super) fn aside<T>(&self, print: impl FnOnce() -> T) -> T {
        self.progress.aside(print)
    }
}

impl Drop for Pool<'_> {
    fn drop(&mut self) {
        self.progress.finish();
    }
}

/// A job is under way; it ends when this is dropped, by a panic too, so that nobody waits for it.
struct UnderWay<'p> {
    pool: &'p Pool<'p>,
    runs: u64,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let mut state = self.pool.state();
        state.under_way -= 1;
        if std::thread::panicking() {
            state.failure.get_or_insert(CliError::new("a run panicked: a bug of ftlab"));
        }
        drop(state);
        self.pool.progress.add(self.runs);
        self.pool.changed.notify_all();
    }
}

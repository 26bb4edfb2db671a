//! What comes of a run: the intervals of its series, the result, and what a mount afterwards takes.

use super::config::{Config, Until};
use super::medium::Measured;
use super::{Drained, MOST_ROUNDS, Outcome, Run};
use crate::ecc::Overlap;
use crate::host::HostModel;
use crate::latency::{Recorder, summaries};
use crate::report::{self, Interval, SchemeResult, ratio};
use crate::summary::{Driven, parameters};
use flash::{Mode, Op};
use ftl::{Inspect, Recipe, Scheme};

/// The interval of the series in progress.
pub(super) struct Window {
    pub(super) length_ns: u64,
    pub(super) end_ns: u64,
    pub(super) response: Recorder,
    pub(super) programs: u64,
    pub(super) write_pages: u64,
    pub(super) done: Vec<Interval>,
}

impl<F: Measured, S: Inspect<F>> Run<'_, F, S> {
    #[cold]
    pub(super) fn advance_window(&mut self, now_ns: u64) {
        while self.window.as_ref().is_some_and(|window| now_ns >= window.end_ns) {
            self.close_window();
            if let Some(window) = &mut self.window {
                // Long silence is one interval without requests, not millions.
                let behind = (now_ns - window.end_ns) / window.length_ns;
                window.end_ns += window.length_ns * if behind > 1000 { behind } else { 1 };
            }
        }
    }

    pub(super) fn close_window(&mut self) {
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

    pub(super) fn finish(mut self, row: &Scheme<'_>, ended: String) -> (Outcome, F) {
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
        if self.unsteady {
            result.extra.insert(report::UNSTEADY_ROUNDS.to_owned(), MOST_ROUNDS.into());
        }
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

/// The outcome of a run that ended before the workload began.
pub(super) fn stillborn(config: &Config, row: &Scheme<'_>, ended: String) -> Outcome {
    let (scheme, params) = (row.name.to_owned(), parameters(&config.settings));
    let result = SchemeResult { scheme, params, ended, ..SchemeResult::default() };
    Outcome { result, workload: report::Workload::default() }
}

/// Power is cut after the run: what a mount from flash takes, one command after another, and what it would take to read
/// the controller's state instead, had it been written to metadata pages before.
pub(super) fn note_mount<F: Measured, S: Recipe<F>>(
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

//! Runs that go request by request: where commands queue, and where several streams share the device.
//!
//! The host model says what arrives next, unless a request that is under way ends before: then its stream may have room
//! for another, and the question is put again. So requests reach the scheme in the order of their arrivals, each when
//! all that ends by then has ended ([`flash::Scheduler`] says why that is right). If commands are placed as they are
//! issued, ends are known beforehand and wait in the host model; if they queue, the medium is asked for the next.

use super::{Config, Measured, Observer, Run, RunError, Served, Step, record};
use crate::host::{Flows, HostModel, Next};
use crate::latency::{RequestTimes, Times, summaries};
use crate::report::{self, FlowResult};
use crate::workload::{Operation, Request, Source};
use flash::{Busy, Cause, Mode, Op, Response};
use ftl::Inspect;
use serde_json::Value;

/// The tag of what is no request, or came to nothing: a write buffer that is drained, a write to a full device.
const NO_REQUEST: u32 = u32::MAX;

/// Requests under way, and what the streams have had so far.
pub(super) struct Paced {
    pub(super) flows: Flows,
    /// Requests that have been issued and have not ended, where commands queue; others of these places are free.
    under_way: Vec<UnderWay>,
    free: Vec<u32>,
    times: Vec<FlowTimes>,
    /// Requests that each stream had in the warm-up.
    warmed: Vec<u64>,
    inside: Inside,
    /// Work of dies and channels before the measured phase.
    pub(super) base: Busy,
    drained_ns: Option<u64>,
    idle: Idle,
    pub(super) idle_steps: u64,
}

/// Whether the scheme may have background work to do, and is at it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Idle {
    /// There is none.
    Nothing,
    /// There may be, once the pause is long enough.
    Pause,
    /// It is being done.
    Work,
}

/// Copies of a step of background work, about: as long as a request may then have to wait for them.
const IDLE_COPIES: u32 = 4;

struct UnderWay {
    request: Request,
    flow: u32,
    /// Whether it belongs to the measured phase.
    measured: bool,
    /// Commands that it caused, if it is to be recorded.
    commands: Option<[u32; Op::ALL.len()]>,
}

#[derive(Default)]
struct FlowTimes {
    requests: u64,
    last_arrival_ns: u64,
    last_end_ns: u64,
    reads: RequestTimes,
    writes: RequestTimes,
}

/// Little's law: requests in the system, summed over time, are the response times of all.
#[derive(Default)]
struct Inside {
    now_ns: u64,
    requests: u64,
    over_time_ns: u128,
    responses_ns: u128,
}

impl Inside {
    fn pass(&mut self, now_ns: u64) {
        assert!(now_ns >= self.now_ns, "requests arrive and end in the order of time");
        self.over_time_ns += u128::from(now_ns - self.now_ns) * u128::from(self.requests);
        self.now_ns = now_ns;
    }

    fn enter(&mut self, now_ns: u64) {
        self.pass(now_ns);
        self.requests += 1;
    }

    fn leave(&mut self, now_ns: u64, response_ns: u64) {
        self.pass(now_ns);
        self.requests -= 1;
        self.responses_ns += u128::from(response_ns);
    }
}

impl Paced {
    pub(super) fn new(config: &Config) -> Paced {
        let alone = [config.host];
        let models: &[HostModel] = if config.flows.is_empty() { &alone } else { &config.flows };
        Paced {
            flows: Flows::new(models, config.only_flow),
            under_way: Vec::new(),
            free: Vec::new(),
            // A single stream has its times in the result itself.
            times: config.flows.iter().map(|_| FlowTimes::default()).collect(),
            warmed: vec![0; models.len()],
            inside: Inside::default(),
            base: Busy::default(),
            drained_ns: None,
            idle: Idle::Nothing,
            idle_steps: 0,
        }
    }

    /// The measured phase begins.
    pub(super) fn end_warmup(&mut self, busy: Busy) {
        self.base = busy;
        self.idle_steps = 0;
        self.times.iter_mut().for_each(|times| *times = FlowTimes::default());
    }

    /// What each of the streams had since `base_ns`.
    pub(super) fn flow_results(self, models: &[HostModel], base_ns: u64) -> Vec<FlowResult> {
        let of = |((times, warmup), &model): ((FlowTimes, u64), &HostModel)| {
            let FlowTimes { requests, last_arrival_ns, last_end_ns, reads, writes } = times;
            let [response_us, service_us, queue_us] = summaries(reads, writes);
            let mut result =
                FlowResult { requests, warmup, response_us, service_us, queue_us, ..FlowResult::default() };
            if model == HostModel::Open && requests > 0 {
                let seconds = |from_ns: u64, to_ns: u64| to_ns.saturating_sub(from_ns) as f64 * 1e-9;
                result.set_backlog(seconds(base_ns, last_arrival_ns), seconds(last_arrival_ns, last_end_ns));
            }
            result
        };
        self.times.into_iter().zip(self.warmed).zip(models).map(of).collect()
    }

    fn place_for(&mut self, request: UnderWay) -> u32 {
        match self.free.pop() {
            Some(place) => {
                self.under_way[place as usize] = request;
                place
            }
            None => {
                self.under_way.push(request);
                self.under_way.len() as u32 - 1
            }
        }
    }
}

impl<F: Measured, S: Inspect<F>> Run<'_, F, S> {
    /// Serves requests one by one.
    pub(super) fn paced_batch(
        &mut self,
        source: &mut dyn Source,
        limit: usize,
        records: bool,
        measured: bool,
        observer: &mut dyn Observer,
    ) -> Result<Step<F::Fault>, RunError> {
        for served in 0..limit as u64 {
            let Some((request, flow)) = self.next_arrival(source, observer)? else {
                return Ok(Step { taken: served, served, error: None });
            };
            let before = records.then(|| self.flash.tally().clone());
            if let Some(paced) = &mut self.paced {
                paced.idle = Idle::Pause;
                paced.warmed[flow as usize] += u64::from(!measured);
            }
            let times = match self.perform(&request, request.arrival_ns) {
                Ok(times) => times,
                Err(error) => {
                    if let Some(scheduler) = self.flash.scheduler() {
                        scheduler.submit(NO_REQUEST);
                    }
                    return Ok(Step { taken: served + 1, served, error: Some(error) });
                }
            };
            self.note_live(std::slice::from_ref(&request));
            let commands = before.map(|before| self.commands_since(&before));
            let request = UnderWay { request, flow, measured, commands };
            let Some(paced) = &mut self.paced else { unreachable!("requests are served one by one") };
            if let Some(scheduler) = self.flash.scheduler() {
                paced.inside.enter(request.request.arrival_ns);
                let place = paced.place_for(request);
                scheduler.submit(place);
            } else {
                paced.flows.will_end(flow, times.end_ns);
                let mut response = Response::default();
                self.flash.each_part(|waited, cause, ns| response.add(waited, cause, ns));
                self.end(&request, times, &response, observer);
            }
        }
        Ok(Step { taken: limit as u64, served: limit as u64, error: None })
    }

    /// The next request, and its stream, after all that ends before it arrives; `None` at the end of the workload.
    fn next_arrival(
        &mut self,
        source: &mut dyn Source,
        observer: &mut dyn Observer,
    ) -> Result<Option<(Request, u32)>, RunError> {
        loop {
            let Some(paced) = &mut self.paced else { unreachable!("requests are served one by one") };
            let next = paced.flows.next(source)?;
            let by_ns = match next {
                Next::At(at_ns, _) => at_ns,
                Next::Blocked => u64::MAX,
                Next::Over => return Ok(None),
            };
            // Ends that are known beforehand lie before any pause, and a request may wait for each of them. Where
            // commands queue, time has to pass to find one, and must not pass the beginning of a pause unused.
            let is_known = self.flash.scheduler().is_none();
            if is_known && self.pass_end(by_ns, observer) || self.idle_step(by_ns) || self.pass_end(by_ns, observer) {
                continue;
            }
            let Next::At(at_ns, flow) = next else { unreachable!("a request under way ends") };
            let Some(paced) = &mut self.paced else { unreachable!("requests are served one by one") };
            return Ok(Some((paced.flows.issue(flow, at_ns), flow)));
        }
    }

    /// A step of background work, if nothing has been under way for long enough and it can begin before `by_ns`.
    fn idle_step(&mut self, by_ns: u64) -> bool {
        let (Some(paced), Some(pause_ns)) = (&mut self.paced, self.config.idle_ns) else { return false };
        if paced.idle == Idle::Nothing {
            return false;
        }
        let since_ns = match self.flash.scheduler() {
            Some(scheduler) => scheduler.idle_since(by_ns),
            None => Some(self.flash.idle_at_ns().max(self.last_arrival_ns)),
        };
        let pause_ns = if paced.idle == Idle::Pause { pause_ns } else { 0 };
        let Some(from_ns) = since_ns.and_then(|since_ns| since_ns.checked_add(pause_ns)) else { return false };
        if from_ns >= by_ns {
            return false;
        }
        let before = self.flash.tally().total();
        self.flash.arrive(from_ns);
        self.flash.page_begin();
        // A device that is full says so to a write.
        let more = self.scheme.idle(&mut self.flash, IDLE_COPIES).unwrap_or(false);
        self.flash.page_end();
        if let Some(scheduler) = self.flash.scheduler() {
            scheduler.submit(NO_REQUEST);
        }
        let worked = self.flash.tally().total() > before;
        paced.idle = if more && worked { Idle::Work } else { Idle::Nothing };
        paced.idle_steps += u64::from(worked);
        true
    }

    /// Lets time pass to the next end, if it is not after `by_ns`.
    fn pass_end(&mut self, by_ns: u64, observer: &mut dyn Observer) -> bool {
        let Some(paced) = &mut self.paced else { return false };
        let Some(scheduler) = self.flash.scheduler() else { return paced.flows.pass_end(by_ns) };
        let Some(finished) = scheduler.next_finished(by_ns) else { return false };
        let times = Served { start_ns: finished.start_ns, end_ns: finished.end_ns };
        if finished.tag == NO_REQUEST {
            paced.drained_ns = Some(times.end_ns);
            return true;
        }
        let nothing = Request { arrival_ns: 0, offset: 0, bytes: 0, volume: 0, operation: Operation::Flush };
        let ended = UnderWay { request: nothing, flow: 0, measured: false, commands: None };
        let ended = std::mem::replace(&mut paced.under_way[finished.tag as usize], ended);
        paced.free.push(finished.tag);
        paced.inside.leave(times.end_ns, times.end_ns - ended.request.arrival_ns);
        paced.flows.ended(ended.flow, times.end_ns);
        if ended.measured {
            self.advance_window(times.end_ns);
        }
        self.end(&ended, times, &finished.response, observer);
        true
    }

    /// A request has its times.
    fn end(&mut self, ended: &UnderWay, served: Served, response: &Response, observer: &mut dyn Observer) {
        let UnderWay { request, flow, measured, commands } = ended;
        let times = Times { arrival_ns: request.arrival_ns, start_ns: served.start_ns, end_ns: served.end_ns };
        if !measured {
            // Of the warm-up, even if it has outlasted it.
            self.last_end_ns = self.last_end_ns.max(served.end_ns);
            return;
        }
        self.note_end(request.operation, times);
        if matches!(request.operation, Operation::Read | Operation::Write) {
            let mut of = self.responses.of(times.end_ns - times.arrival_ns);
            response.each(|waited, cause, ns| of.add(waited, cause, ns));
        }
        if let Some(of_flow) = self.paced.as_mut().and_then(|paced| paced.times.get_mut(*flow as usize)) {
            of_flow.requests += 1;
            of_flow.last_arrival_ns = of_flow.last_arrival_ns.max(request.arrival_ns);
            of_flow.last_end_ns = of_flow.last_end_ns.max(served.end_ns);
            match request.operation {
                Operation::Read => of_flow.reads.record(times),
                Operation::Write => of_flow.writes.record(times),
                Operation::Trim | Operation::Flush => {}
            }
        }
        if let Some(commands) = commands {
            observer.record(&record(request, *flow, request.arrival_ns, served, *commands));
        }
    }

    /// Lets time pass until every request has ended.
    pub(super) fn settle_requests(&mut self, observer: &mut dyn Observer) {
        while self.pass_end(u64::MAX, observer) {}
    }

    /// Lets time pass until every request has ended, and every command.
    pub(super) fn settle_all(&mut self, observer: &mut dyn Observer) {
        self.settle_requests(observer);
        if let Some(scheduler) = self.flash.scheduler() {
            scheduler.run_out();
        }
    }

    /// A write buffer has been drained as if for a request: when that ended, if it had to queue.
    pub(super) fn paced_drain(&mut self) -> Option<u64> {
        let scheduler = self.flash.scheduler()?;
        scheduler.submit(NO_REQUEST);
        if let Some(paced) = &mut self.paced {
            paced.drained_ns = None;
        }
        while self.pass_end(u64::MAX, &mut super::Unobserved) {}
        self.paced.as_ref().and_then(|paced| paced.drained_ns)
    }

    /// What must hold after every run: the parts of all response times sum up to them, no part of the device has worked
    /// more than all of the time, and requests in the system are throughput times response time. The shares of time
    /// that dies and channels worked, where that is known.
    pub(super) fn check_conservation(&mut self) -> Vec<(String, Value)> {
        let responses_ns = self.reads.responses_ns() + self.writes.responses_ns();
        assert_eq!(self.responses.total_ns(), responses_ns, "own and waited for are the responses");
        let g = self.config.device.geometry;
        let (dies, channels) = (u64::from(g.die_count()), u64::from(g.channels));
        let Some(scheduler) = self.flash.unqueue() else {
            let tally = self.flash.tally().since(&self.base);
            let of = |&op: &Op| {
                let commands = |mode| Cause::ALL.iter().map(|&cause| tally.of_mode(cause, op, mode)).sum::<u64>();
                let work = |&mode: &Mode| u128::from(commands(mode)) * u128::from(self.flash.command_ns(op, mode));
                Mode::ALL.iter().map(work).sum::<u128>()
            };
            let busy_ns: u128 = Op::ALL.iter().map(of).sum();
            let servers = if self.config.device.server == flash::device::Server::Single { 1 } else { dies };
            let elapsed_ns = self.flash.idle_at_ns().saturating_sub(self.base_ns);
            let most_ns = u128::from(servers) * u128::from(elapsed_ns);
            assert!(busy_ns <= most_ns, "{busy_ns} ns of work in {elapsed_ns} ns on {servers} dies");
            if cfg!(debug_assertions) && self.paced.is_none() {
                let ends_ns = self.arrivals.ends_ns();
                assert!(ends_ns.is_none_or(|ends_ns| ends_ns == self.responses_ns), "Little's law");
            }
            return Vec::new();
        };
        let (busy, elapsed_ns) = (scheduler.busy(), scheduler.now_ns() - self.base_ns);
        let Some(paced) = &self.paced else { return Vec::new() };
        assert_eq!(paced.inside.requests, 0, "every request has ended");
        assert_eq!(paced.inside.over_time_ns, paced.inside.responses_ns, "Little's law");
        let work = [busy.dies_ns - paced.base.dies_ns, busy.channels_ns - paced.base.channels_ns];
        let names = ["die_busy_share", "channel_busy_share"];
        let mut shares = vec![(report::SUSPENDS.to_owned(), (busy.suspends - paced.base.suspends).into())];
        for ((name, work_ns), parts) in names.into_iter().zip(work).zip([dies, channels]) {
            // Years of arrivals, times hundreds of dies.
            let most_ns = u128::from(parts) * u128::from(elapsed_ns);
            assert!(u128::from(work_ns) <= most_ns, "{name}: {work_ns} ns of work in {elapsed_ns} ns");
            if let Some(share) = report::ratio(work_ns as f64, most_ns as f64) {
                shares.push((name.to_owned(), share.into()));
            }
        }
        shares
    }
}

//! The host model: when requests arrive.
//!
//! Open loop: at the workload's times, whether or not the device keeps up. Closed loop: a fixed number of requests is
//! outstanding, and the next arrives when the first of them ends.
//!
//! [`Arrivals`] serves a single stream of requests whose ends are known as soon as they are placed. [`Flows`] serves
//! several, each with a loop of its own, and ends that are known only when time has passed to them.

use crate::workload::{Request, Source, WorkloadError};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Which loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HostModel {
    /// At the workload's times.
    Open,
    /// With so many requests outstanding.
    Closed(u32),
}

impl std::fmt::Display for HostModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            HostModel::Open => f.write_str("open"),
            HostModel::Closed(depth) => write!(f, "closed:{depth}"),
        }
    }
}

/// Gives every request its arrival.
///
/// The outstanding requests of a closed loop form a tournament: the leaves hold their ends, each inner node the earlier
/// of its two children, the root the next arrival. A new end replays the matches of one leaf, without a branch that
/// depends on times.
#[derive(Clone, Debug)]
pub struct Arrivals {
    /// `(end - base_ns) << leaf_bits | leaf` of each node; node `i` has the children `2 i` and `2 i + 1`. Empty in an
    /// open loop.
    nodes: Vec<u64>,
    leaf_bits: u32,
    /// What all ends count from: beside a large queue's leaf there is room for days only.
    base_ns: u64,
}

impl Arrivals {
    /// Nothing outstanding, at time zero.
    pub fn new(model: HostModel) -> Arrivals {
        let HostModel::Closed(depth) = model else { return Arrivals { nodes: Vec::new(), leaf_bits: 0, base_ns: 0 } };
        let leaves = depth.next_power_of_two() as usize;
        let leaf = |i: usize| if i < depth as usize { i as u64 } else { u64::MAX };
        let mut nodes = vec![u64::MAX; leaves];
        nodes.extend((0..leaves).map(leaf));
        for node in (1..leaves).rev() {
            nodes[node] = nodes[2 * node].min(nodes[2 * node + 1]);
        }
        Arrivals { nodes, leaf_bits: leaves.trailing_zeros(), base_ns: 0 }
    }

    /// When the next request arrives; `planned_ns` is the workload's time.
    #[inline(always)]
    pub fn next(&self, planned_ns: u64) -> u64 {
        self.nodes.get(1).map_or(planned_ns, |&first| self.base_ns + (first >> self.leaf_bits))
    }

    /// The request that arrived last has been placed; it ends at `end_ns`.
    #[inline(always)]
    pub fn ends(&mut self, end_ns: u64) {
        if self.nodes.is_empty() {
            return;
        }
        if end_ns - self.base_ns >= u64::MAX >> self.leaf_bits {
            self.rebase();
        }
        let leaves = 1 << self.leaf_bits;
        let leaf = self.nodes[1] & (leaves - 1);
        let mut node = (leaves | leaf) as usize;
        let mut earliest = (end_ns - self.base_ns) << self.leaf_bits | leaf;
        self.nodes[node] = earliest;
        for _ in 0..self.leaf_bits {
            earliest = earliest.min(self.nodes[node ^ 1]);
            node /= 2;
            self.nodes[node] = earliest;
        }
    }

    /// The sum of the latest ends of all places of a closed loop, ns: since every request arrives when the one before
    /// it in its place ends, it is the sum of all response times (Little's law, exactly).
    pub fn ends_ns(&self) -> Option<u128> {
        let leaves = self.nodes.len() / 2;
        let of = |&node: &u64| (node != u64::MAX).then(|| u128::from(self.base_ns + (node >> self.leaf_bits)));
        (leaves > 0).then(|| self.nodes[leaves..].iter().filter_map(of).sum())
    }

    /// Counts ends from the first of them on. Those outstanding together lie close together.
    #[cold]
    fn rebase(&mut self) {
        let passed = self.nodes[1] >> self.leaf_bits;
        self.base_ns += passed;
        // Leaves that no request uses stay last.
        self.nodes.iter_mut().filter(|node| **node != u64::MAX).for_each(|node| *node -= passed << self.leaf_bits);
    }
}

/// Requests read ahead at a time.
const AHEAD: usize = 1024;

/// Several streams of requests that share the device. Each request says which it belongs to (`Request::volume`).
#[derive(Clone, Debug)]
pub struct Flows {
    flows: Vec<Flow>,
    /// The flow whose requests alone are served, if not all.
    only: Option<u32>,
    /// Whether the source has no more requests.
    exhausted: bool,
    /// Added to the workload's times.
    shift_ns: u64,
    /// Ends of requests of closed loops that are known beforehand, with their flows.
    ends: BinaryHeap<Reverse<(u64, u32)>>,
    read: Vec<Request>,
}

/// One of them.
#[derive(Clone, Debug)]
struct Flow {
    model: HostModel,
    waiting: VecDeque<Request>,
    under_way: u32,
    /// Since when it has had room for a request.
    room_ns: u64,
}

/// What arrives next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// A request of this flow at this time, unless one that is under way ends earlier.
    At(u64, u32),
    /// Whatever is next waits for a request to end.
    Blocked,
    /// Nothing.
    Over,
}

impl Flows {
    /// Streams with these loops, all of them served or only one.
    pub fn new(models: &[HostModel], only: Option<u32>) -> Flows {
        let flow = |&model| Flow { model, waiting: VecDeque::new(), under_way: 0, room_ns: 0 };
        let flows = models.iter().map(flow).collect();
        Flows { flows, only, exhausted: false, shift_ns: 0, ends: BinaryHeap::new(), read: Vec::new() }
    }

    /// Streams.
    pub fn len(&self) -> usize {
        self.flows.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    /// Requests that have been read and not been issued.
    pub fn at_hand(&self) -> u64 {
        self.flows.iter().map(|flow| flow.waiting.len() as u64).sum()
    }

    /// What arrives next; of requests at the same time that of the first flow. Requests of all flows are read until it
    /// is known, and those of others kept.
    ///
    /// # Errors
    /// Those of reading the source.
    pub fn next(&mut self, source: &mut dyn Source) -> Result<Next, WorkloadError> {
        let served = |flow: usize| self.only.is_none_or(|only| only as usize == flow);
        // A flow that may send a request but has none at hand.
        let lacks = |(i, flow): (usize, &Flow)| served(i) && flow.waiting.is_empty() && flow.has_room();
        while !self.exhausted && self.flows.iter().enumerate().any(lacks) {
            self.read.clear();
            source.fill(&mut self.read, AHEAD)?;
            self.exhausted = self.read.is_empty();
            for mut request in self.read.drain(..) {
                // A single stream may have volumes of its own.
                let flow = if self.flows.len() == 1 { 0 } else { request.volume as usize };
                if served(flow) {
                    request.arrival_ns += self.shift_ns;
                    self.flows[flow].waiting.push_back(request);
                }
            }
        }
        let arrival = |(i, flow): (usize, &Flow)| Some((flow.arrival_ns()?, i as u32));
        Ok(match self.flows.iter().enumerate().filter_map(arrival).min() {
            Some((at_ns, flow)) => Next::At(at_ns, flow),
            None if self.exhausted && self.flows.iter().all(|flow| flow.waiting.is_empty()) => Next::Over,
            None => Next::Blocked,
        })
    }

    /// The next request of a flow that has one at hand: it arrives at `at_ns`.
    ///
    /// # Panics
    /// If it has none.
    pub fn issue(&mut self, flow: u32, at_ns: u64) -> Request {
        let flow = &mut self.flows[flow as usize];
        flow.under_way += u32::from(flow.is_closed());
        let request = flow.waiting.pop_front().expect("only a flow with a request at hand issues one");
        Request { arrival_ns: at_ns, ..request }
    }

    /// A request of this flow has ended.
    pub fn ended(&mut self, flow: u32, end_ns: u64) {
        let flow = &mut self.flows[flow as usize];
        flow.under_way -= u32::from(flow.is_closed());
        flow.room_ns = end_ns;
    }

    /// A request of this flow will end at `end_ns`.
    pub fn will_end(&mut self, flow: u32, end_ns: u64) {
        if self.flows[flow as usize].is_closed() {
            self.ends.push(Reverse((end_ns, flow)));
        }
    }

    /// The next of the ends that are known beforehand, if it is not after `by_ns`: its flow has room again.
    pub fn pass_end(&mut self, by_ns: u64) -> bool {
        match self.ends.peek() {
            Some(&Reverse((end_ns, flow))) if end_ns <= by_ns => {
                self.ends.pop();
                self.ended(flow, end_ns);
                true
            }
            _ => false,
        }
    }

    /// The source has been rewound; its times count from `shift_ns`.
    pub fn repeat(&mut self, shift_ns: u64) {
        (self.exhausted, self.shift_ns) = (false, shift_ns);
    }
}

impl Flow {
    fn is_closed(&self) -> bool {
        self.model != HostModel::Open
    }

    fn has_room(&self) -> bool {
        match self.model {
            HostModel::Open => true,
            HostModel::Closed(depth) => self.under_way < depth,
        }
    }

    /// When its next request arrives, if it has one at hand and may send it.
    fn arrival_ns(&self) -> Option<u64> {
        let request = self.waiting.front().filter(|_| self.has_room())?;
        Some(match self.model {
            HostModel::Open => request.arrival_ns,
            HostModel::Closed(_) => self.room_ns,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_loop_issues_when_the_first_ends() {
        let mut arrivals = Arrivals::new(HostModel::Closed(2));
        assert_eq!(arrivals.next(9), 0);
        arrivals.ends(100);
        assert_eq!(arrivals.next(9), 0);
        arrivals.ends(30);
        assert_eq!(arrivals.next(9), 30);
        arrivals.ends(500);
        assert_eq!(arrivals.next(9), 100);
    }

    #[test]
    fn any_depth_always_takes_the_earliest_end() {
        let mut rng = flash::Rng::new(7);
        for depth in [1, 2, 3, 5, 8, 31, 32, 33] {
            let mut arrivals = Arrivals::new(HostModel::Closed(depth));
            let mut ends = vec![0u64; depth as usize];
            for _ in 0..1000 {
                ends.sort_unstable();
                assert_eq!(arrivals.next(0), ends[0]);
                ends[0] += 1 + rng.below(1000);
                arrivals.ends(ends[0]);
            }
        }
    }

    /// What broke: with 65536 requests outstanding, arrivals stood still after three days of simulated time. Why: no
    /// more than that fits beside the number of a leaf, and later ends were cut to it.
    #[test]
    fn arrivals_go_on_after_days_and_years_at_any_depth() {
        for depth in [1, 3, 65_536] {
            let mut arrivals = Arrivals::new(HostModel::Closed(depth));
            let step_ns = 86_400_000_000_000;
            for turn in 0..10 * u64::from(depth).max(5000) {
                let now = arrivals.next(0);
                assert_eq!(now, turn / u64::from(depth) * step_ns, "request {turn} of {depth} outstanding");
                arrivals.ends(now + step_ns);
            }
        }
    }

    /// Requests of two streams in turn, the second's 10 ns apart.
    struct InTurn(u64, crate::workload::Intake);

    impl Source for InTurn {
        fn fill(&mut self, batch: &mut Vec<Request>, limit: usize) -> Result<(), WorkloadError> {
            for _ in 0..self.0.min(limit as u64) {
                self.0 -= 1;
                let (volume, operation) = (self.0 as u32 % 2, crate::workload::Operation::Read);
                let arrival_ns = 10 * (1500 - self.0 / 2);
                batch.push(Request { arrival_ns, offset: self.0, bytes: 1, volume, operation });
            }
            Ok(())
        }
        fn intake(&self) -> &crate::workload::Intake {
            &self.1
        }
        fn timed(&self) -> bool {
            true
        }
    }

    #[test]
    fn streams_arrive_by_their_own_loops_and_all_of_each_is_served() {
        // The first keeps two requests under way, each of which takes 25 ns; the second's take 1 ns.
        let mut flows = Flows::new(&[HostModel::Closed(2), HostModel::Open], None);
        let mut source = InTurn(3000, crate::workload::Intake::default());
        let (mut served, mut now) = ([Vec::new(), Vec::new()], 0);
        loop {
            let next = flows.next(&mut source).unwrap();
            let by_ns = if let Next::At(at_ns, _) = next { at_ns } else { u64::MAX };
            if next == Next::Over {
                break;
            } else if flows.pass_end(by_ns) {
                continue;
            }
            let Next::At(at_ns, flow) = next else { panic!("what is blocked waits for an end") };
            assert!(at_ns >= now, "in the order of time");
            now = at_ns;
            let request = flows.issue(flow, at_ns);
            assert_eq!((request.arrival_ns, request.volume), (at_ns, flow));
            served[flow as usize].push(at_ns);
            flows.will_end(flow, at_ns + [25, 1][flow as usize]);
        }
        assert!(served[0].iter().enumerate().all(|(i, &at)| at == 25 * (i as u64 / 2)), "{:?}", &served[0][..9]);
        assert!(served[1].iter().enumerate().all(|(i, &at)| at == 10 * (i as u64 + 1)), "{:?}", &served[1][..9]);
        assert_eq!(served.map(|times| times.len()), [1500, 1500]);
        // One of them alone.
        let mut flows = Flows::new(&[HostModel::Closed(2), HostModel::Open], Some(1));
        let mut source = InTurn(3000, crate::workload::Intake::default());
        let mut count = 0;
        while let Next::At(at_ns, flow) = flows.next(&mut source).unwrap() {
            flows.issue(flow, at_ns);
            assert_eq!(flow, 1);
            count += 1;
        }
        assert_eq!(count, 1500);
    }

    #[test]
    fn an_open_loop_follows_the_workload() {
        let mut arrivals = Arrivals::new(HostModel::Open);
        assert_eq!(arrivals.next(9), 9);
        arrivals.ends(1_000_000);
        assert_eq!(arrivals.next(10), 10);
    }
}

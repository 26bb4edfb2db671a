//! The host model: when requests arrive.
//!
//! Open loop: at the workload's times, whether or not the device keeps up. Closed loop: a fixed number of requests is
//! outstanding, and the next arrives when the first of them ends.

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

    /// Counts ends from the first of them on. Those outstanding together lie close together.
    #[cold]
    fn rebase(&mut self) {
        let passed = self.nodes[1] >> self.leaf_bits;
        self.base_ns += passed;
        // Leaves that no request uses stay last.
        self.nodes.iter_mut().filter(|node| **node != u64::MAX).for_each(|node| *node -= passed << self.leaf_bits);
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

    #[test]
    fn an_open_loop_follows_the_workload() {
        let mut arrivals = Arrivals::new(HostModel::Open);
        assert_eq!(arrivals.next(9), 9);
        arrivals.ends(1_000_000);
        assert_eq!(arrivals.next(10), 10);
    }
}

//! The host model: when requests arrive.
//!
//! Open loop: at the workload's times, whether or not the device keeps up. Closed loop: a fixed number of requests is
//! outstanding, and the next arrives when the first of them ends.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

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
#[derive(Clone, Debug)]
pub struct Arrivals {
    /// Ends of the outstanding requests; empty in an open loop.
    outstanding: BinaryHeap<Reverse<u64>>,
}

impl Arrivals {
    /// Nothing outstanding, at time zero.
    pub fn new(model: HostModel) -> Arrivals {
        let depth = match model {
            HostModel::Open => 0,
            HostModel::Closed(depth) => depth,
        };
        Arrivals { outstanding: (0..depth).map(|_| Reverse(0)).collect() }
    }

    /// When the next request arrives; `planned_ns` is the workload's time.
    #[inline(always)]
    pub fn next(&self, planned_ns: u64) -> u64 {
        match self.outstanding.peek() {
            Some(&Reverse(end_ns)) => end_ns,
            None => planned_ns,
        }
    }

    /// The request that arrived last has been placed; it ends at `end_ns`.
    #[inline(always)]
    pub fn ends(&mut self, end_ns: u64) {
        // Dropping the guard moves the new end to its place.
        if let Some(mut first) = self.outstanding.peek_mut() {
            *first = Reverse(end_ns);
        }
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
    fn an_open_loop_follows_the_workload() {
        let mut arrivals = Arrivals::new(HostModel::Open);
        assert_eq!(arrivals.next(9), 9);
        arrivals.ends(1_000_000);
        assert_eq!(arrivals.next(10), 10);
    }
}

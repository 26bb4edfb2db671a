//! What tells one program's requests from another's beyond mix and sizes: how bunched they arrive and how soon an
//! address comes back. It takes memory for every access, so it is for recordings, not for traces of any length.

use std::collections::HashMap;

use serde::Serialize;

use super::profile::FOOTPRINT_BYTES;
use super::{Operation, Source, WorkloadError};

/// Windows in which arrivals are counted, in nanoseconds: 10 ms, 100 ms, 1 s.
const WINDOWS_NS: [u64; 3] = [10_000_000, 100_000_000, 1_000_000_000];

/// Shares of the accesses whose reuse distances are told, in percent.
const PERCENTS: [u8; 4] = [10, 50, 90, 99];

/// Arrivals and locality of a workload.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Character {
    /// Variance of the times between arrivals over their squared mean: 0 for a clock, 1 for independent arrivals
    /// (Poisson), more for bursts. `None` without times.
    pub interarrival_variation: Option<f64>,
    /// Index of dispersion of the number of arrivals, by window; none without times.
    pub dispersion: Vec<Dispersion>,
    /// Reads and writes of units of 4 KiB.
    pub accesses: u64,
    /// Those among them that touch their unit first.
    pub first_accesses: u64,
    /// How far the others are from the access before to the same unit.
    pub reuse: Vec<Reuse>,
}

/// How much the number of arrivals in a window varies.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Dispersion {
    /// Length of the window in nanoseconds.
    pub window_ns: u64,
    /// Variance over mean of the number of arrivals in it: 1 for independent arrivals at one rate, more for bursts.
    pub index: f64,
}

/// A percentile of the reuse distances.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Reuse {
    /// Percent of the accesses that are not first.
    pub percent: u8,
    /// Within how many bytes of other units, each counted once, so many of them come back.
    pub within_bytes: u64,
}

impl Character {
    /// Reads `source` to its end.
    ///
    /// # Errors
    /// Those of the source.
    pub fn of(source: &mut dyn Source) -> Result<Self, WorkloadError> {
        let mut arrivals = Arrivals::default();
        let mut stack = Stack::default();
        let mut batch = Vec::new();
        while source.refill(&mut batch, 4096)? {
            for request in &batch {
                arrivals.count(request.arrival_ns);
                if matches!(request.operation, Operation::Read | Operation::Write) && request.bytes > 0 {
                    let last = request.offset.saturating_add(request.bytes - 1) / FOOTPRINT_BYTES;
                    for unit in request.offset / FOOTPRINT_BYTES..=last {
                        stack.access((request.volume, unit));
                    }
                }
            }
        }
        let Stack { mut distances, first, .. } = stack;
        distances.sort_unstable();
        let reuse = PERCENTS.into_iter().filter_map(|percent| {
            let rank = (distances.len() * usize::from(percent)).div_ceil(100).max(1);
            let within_bytes = u64::from(*distances.get(rank - 1)?) * FOOTPRINT_BYTES;
            Some(Reuse { percent, within_bytes })
        });
        let timed = source.timed();
        Ok(Self {
            interarrival_variation: timed.then(|| arrivals.variation()),
            dispersion: if timed { arrivals.dispersion() } else { Vec::new() },
            accesses: first + distances.len() as u64,
            first_accesses: first,
            reuse: reuse.collect(),
        })
    }
}

/// Sums over arrivals.
#[derive(Default)]
struct Arrivals {
    last_ns: Option<u64>,
    gaps: u64,
    gap_sum: f64,
    gap_squares: f64,
    /// For each window: its number, arrivals in it so far, squares of the arrivals in those before, all arrivals.
    windows: [(u64, u64, f64, u64); WINDOWS_NS.len()],
}

impl Arrivals {
    fn count(&mut self, arrival_ns: u64) {
        if let Some(last_ns) = self.last_ns {
            let gap = arrival_ns.saturating_sub(last_ns) as f64;
            self.gaps += 1;
            self.gap_sum += gap;
            self.gap_squares += gap * gap;
        }
        self.last_ns = Some(arrival_ns);
        for (window_ns, (number, inside, squares, all)) in WINDOWS_NS.iter().zip(&mut self.windows) {
            let now = arrival_ns / window_ns;
            if now != *number {
                *squares += (*inside as f64).powi(2);
                (*number, *inside) = (now, 0);
            }
            *inside += 1;
            *all += 1;
        }
    }

    fn variation(&self) -> f64 {
        if self.gap_sum == 0.0 {
            return 0.0;
        }
        let mean = self.gap_sum / self.gaps as f64;
        (self.gap_squares / self.gaps as f64 / (mean * mean) - 1.0).max(0.0)
    }

    /// Over the windows that passed whole; those shorter than ten windows say nothing.
    fn dispersion(&self) -> Vec<Dispersion> {
        let told = WINDOWS_NS.iter().zip(&self.windows).filter_map(|(&window_ns, &(number, inside, squares, all))| {
            let (windows, counted) = (number as f64, (all - inside) as f64);
            let mean = counted / windows;
            let index = (squares / windows - mean * mean) / mean;
            (number >= 10 && counted > 0.0).then_some(Dispersion { window_ns, index })
        });
        told.collect()
    }
}

/// Units by their last access. The distance of an access is how many units were accessed since its unit was: ones
/// in a Fenwick tree over the accesses mark those that are still the last to their unit.
#[derive(Default)]
struct Stack {
    last: HashMap<(u32, u64), usize>,
    /// Sums over ranges of accesses, from 1; a power of two long, and one.
    tree: Vec<u32>,
    /// The access before the next.
    now: usize,
    distances: Vec<u32>,
    first: u64,
}

impl Stack {
    fn access(&mut self, unit: (u32, u64)) {
        if self.now + 1 >= self.tree.len() {
            self.renumber();
        }
        self.now += 1;
        let now = self.now;
        match self.last.insert(unit, now) {
            None => self.first += 1,
            Some(before) => {
                let since = self.last.len() as u32 - self.sum(before);
                self.distances.push(since);
                self.add(before, false);
            }
        }
        self.add(now, true);
    }

    /// Units whose last access is at `position` or before.
    fn sum(&self, mut position: usize) -> u32 {
        let mut sum = 0;
        while position > 0 {
            sum += self.tree[position];
            position &= position - 1;
        }
        sum
    }

    fn add(&mut self, mut position: usize, more: bool) {
        while position < self.tree.len() {
            self.tree[position] = if more { self.tree[position] + 1 } else { self.tree[position] - 1 };
            position += position & position.wrapping_neg();
        }
    }

    /// Numbers the last accesses anew from 1, without the gaps, in a tree with as much room again.
    fn renumber(&mut self) {
        let mut order: Vec<_> = self.last.values_mut().collect();
        order.sort_unstable();
        for (number, position) in order.into_iter().enumerate() {
            *position = number + 1;
        }
        self.now = self.last.len();
        self.tree = vec![0; (2 * self.now).next_power_of_two().max(1024) + 1];
        for position in 1..=self.now {
            self.add(position, true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::adapt::testing::{Fixed, request};
    use super::*;
    use flash::Rng;

    fn of(requests: Vec<super::super::Request>) -> Character {
        Character::of(&mut Fixed::new(requests)).unwrap()
    }

    #[test]
    fn distances_are_those_of_a_list_that_moves_to_the_front() {
        let mut rng = Rng::new(7);
        let units: Vec<u64> = (0..6000).map(|n| if n % 3 == 0 { rng.below(900) } else { rng.below(40) }).collect();
        let (mut list, mut expected, mut first): (Vec<u64>, Vec<u32>, u64) = (Vec::new(), Vec::new(), 0);
        for &unit in &units {
            match list.iter().rposition(|&known| known == unit) {
                None => first += 1,
                Some(at) => {
                    expected.push((list.len() - 1 - at) as u32);
                    list.remove(at);
                }
            }
            list.push(unit);
        }
        let mut stack = Stack::default();
        units.iter().for_each(|&unit| stack.access((0, unit)));
        assert_eq!((stack.first, &stack.distances), (first, &expected));
    }

    #[test]
    fn accesses_and_percentiles() {
        use Operation::{Flush, Read, Trim, Write};
        let character = of(vec![
            request(0, Write, 0, 8192, 0),
            request(0, Trim, 0, 8192, 0),
            request(0, Flush, 0, 0, 0),
            request(0, Read, 4096, 1, 0),
            request(0, Read, 0, 4096, 0),
            request(0, Read, 0, 4096, 1),
        ]);
        assert_eq!((character.accesses, character.first_accesses), (5, 3));
        assert_eq!(character.reuse[0], Reuse { percent: 10, within_bytes: 0 });
        assert_eq!(character.reuse[3], Reuse { percent: 99, within_bytes: 4096 });
    }

    #[test]
    fn a_clock_has_no_dispersion_and_bursts_have_much() {
        let at = |ns: u64| request(ns, Operation::Read, 0, 4096, 0);
        let clock = of((0..4000).map(|n| at(n * 1_000_000)).collect());
        assert_eq!(clock.interarrival_variation, Some(0.0));
        assert!(clock.dispersion.iter().all(|one| one.index == 0.0), "{clock:?}");
        // 1 s has fewer than ten windows here.
        assert_eq!(clock.dispersion.len(), 2);
        let bursts = of((0..4000).map(|n| at(n / 100 * 100_000_000)).collect());
        // 100 at once every 100 ms: in windows of 10 ms the mean is 10, the variance 900.
        assert_eq!(bursts.dispersion[0].index, 90.0);
        assert_eq!(bursts.dispersion[1].index, 0.0);
        assert!(bursts.interarrival_variation.unwrap() > 50.0);
    }
}

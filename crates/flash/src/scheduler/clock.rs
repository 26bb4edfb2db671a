//! When each part of the device is through with what it does.
//!
//! A part (a die's cells, a channel) does one thing at a time, so the events to come are one time for each part. They
//! form a tournament: an inner node names the earlier of its two children, the root is what happens next. Setting a
//! part's time replays the matches of one leaf, and an event that was cancelled leaves nothing behind. Of parts that
//! end at the same time the one with the lowest number comes first.

use alloc::vec;
use alloc::vec::Vec;

/// No event.
pub(super) const NEVER: u64 = u64::MAX;

#[derive(Clone, Debug)]
pub(super) struct Clock {
    times_ns: Vec<u64>,
    /// The winner of each match; node `i` has the children `2 i` and `2 i + 1`, the leaves stand for the parts.
    winners: Vec<u32>,
}

impl Clock {
    pub(super) fn new(parts: usize) -> Clock {
        let leaves = parts.next_power_of_two();
        let mut winners = vec![0; leaves];
        winners.extend(0..leaves as u32);
        for node in (1..leaves).rev() {
            winners[node] = winners[2 * node];
        }
        Clock { times_ns: vec![NEVER; leaves], winners }
    }

    /// The part that is through next, and when; [`NEVER`] if none does anything.
    #[inline(always)]
    pub(super) fn next(&self) -> (u64, usize) {
        let part = self.winners[1] as usize;
        (self.times_ns[part], part)
    }

    #[inline(always)]
    pub(super) fn set(&mut self, part: usize, time_ns: u64) {
        self.times_ns[part] = time_ns;
        let mut node = (self.times_ns.len() + part) / 2;
        while node > 0 {
            let (left, right) = (self.winners[2 * node], self.winners[2 * node + 1]);
            let right_wins = self.times_ns[right as usize] < self.times_ns[left as usize];
            self.winners[node] = if right_wins { right } else { left };
            node /= 2;
        }
    }

    #[inline(always)]
    pub(super) fn time_ns(&self, part: usize) -> u64 {
        self.times_ns[part]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;

    #[test]
    fn the_earliest_comes_first_and_of_equals_the_lowest() {
        let mut rng = Rng::new(5);
        for parts in [1, 2, 3, 5, 8, 13] {
            let mut clock = Clock::new(parts);
            let mut times = vec![NEVER; parts];
            for _ in 0..500 {
                let (part, time) = (rng.below(parts as u64) as usize, rng.below(20));
                times[part] = if time == 0 { NEVER } else { time };
                clock.set(part, times[part]);
                let earliest = times.iter().copied().min().unwrap();
                assert_eq!(clock.next().0, earliest);
                if earliest < NEVER {
                    assert_eq!(Some(clock.next().1), times.iter().position(|&time| time == earliest));
                }
            }
        }
    }
}

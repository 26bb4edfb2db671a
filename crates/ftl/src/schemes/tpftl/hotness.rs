//! Which translation page's cached entries are the coldest on average.
//!
//! An entry's hotness is the time of its last use, in ticks; a translation page's is the mean over its cached entries.
//! Means are compared as fractions, by cross products, so that nothing is rounded. The pages play a tournament: the
//! root is the coldest. A use only raises a page's mean, so it plays no match: what a page was when it played last is a
//! bound from below, and only a page that reaches the root with a bound that is out of date plays again. Whoever is at
//! the root with its true mean is the coldest, for all others are at least as hot as their bounds say.

use alloc::vec;
use alloc::vec::Vec;

/// The hotness of a translation page: sum and number of its cached entries' ticks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Heat {
    pub(super) sum: u64,
    pub(super) count: u32,
}

impl Heat {
    /// Whether the mean is lower. A page without entries is hotter than any.
    #[inline(always)]
    fn is_below(self, other: Heat) -> bool {
        self.count > 0 && (other.count == 0 || self.sum * u64::from(other.count) < other.sum * u64::from(self.count))
    }
}

/// See the module's description.
#[derive(Clone, Debug)]
pub(super) struct Coldest {
    /// Each page's heat when it played last.
    played: Vec<Heat>,
    /// The winner at each node: node `i` has the children `2 i` and `2 i + 1`; the pages are the leaves.
    winners: Vec<u32>,
}

impl Coldest {
    /// Over `pages` translation pages without entries.
    pub(super) fn new(pages: u32) -> Coldest {
        let leaves = pages.next_power_of_two();
        let mut winners = vec![0; leaves as usize];
        winners.extend(0..leaves);
        let mut coldest = Coldest { played: vec![Heat::default(); leaves as usize], winners };
        coldest.play_all(|_| Heat::default());
        coldest
    }

    fn leaves(&self) -> usize {
        self.played.len()
    }

    #[inline(always)]
    fn colder(&self, node: usize) -> u32 {
        let (left, right) = (self.winners[2 * node], self.winners[2 * node + 1]);
        // Ties go to the lower page.
        if self.played[right as usize].is_below(self.played[left as usize]) { right } else { left }
    }

    /// A page plays its matches again. It must after it got its first entry, lost one, or became colder.
    #[inline]
    pub(super) fn play(&mut self, page: u32, heat: Heat) {
        self.played[page as usize] = heat;
        let mut node = (self.leaves() + page as usize) / 2;
        while node > 0 {
            self.winners[node] = self.colder(node);
            node /= 2;
        }
    }

    /// All pages play again.
    pub(super) fn play_all(&mut self, heat: impl Fn(u32) -> Heat) {
        for page in 0..self.leaves() as u32 {
            self.played[page as usize] = heat(page);
        }
        for node in (1..self.leaves()).rev() {
            self.winners[node] = self.colder(node);
        }
    }

    /// The coldest page, the lowest among equals; `heat` is what a page is now.
    #[inline]
    pub(super) fn coldest(&mut self, heat: impl Fn(u32) -> Heat) -> u32 {
        loop {
            let page = self.winners[1];
            let now = heat(page);
            if now == self.played[page as usize] {
                return page;
            }
            self.play(page, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_coldest_is_the_lowest_true_mean_however_late_it_is_told() {
        for pages in [1u32, 2, 5, 8, 13] {
            let mut rng = flash::Rng::new(u64::from(pages));
            let mut heats = vec![Heat::default(); pages.next_power_of_two() as usize];
            let mut coldest = Coldest::new(pages);
            let mut tick = 0;
            for _ in 0..5_000 {
                tick += 1;
                let page = rng.below(u64::from(pages)) as u32;
                let heat = &mut heats[page as usize];
                match rng.below(4) {
                    // An entry is loaded, or used: its page becomes no colder.
                    0 | 1 => {
                        *heat = Heat { sum: heat.sum + tick, count: heat.count + 1 };
                        if heat.count == 1 {
                            coldest.play(page, *heat);
                        }
                    }
                    2 if heat.count > 0 => heat.sum += tick - (heat.sum / u64::from(heat.count)).min(tick),
                    // An entry of any age is dropped.
                    _ if heat.count > 0 => {
                        let mean = heat.sum / u64::from(heat.count);
                        *heat = Heat { sum: if heat.count == 1 { 0 } else { heat.sum - mean }, count: heat.count - 1 };
                        coldest.play(page, *heat);
                    }
                    _ => {}
                }
                let mean = |page: &u32| {
                    let heat = heats[*page as usize];
                    heat.sum as f64 / f64::from(heat.count)
                };
                let expected = (0..pages)
                    .filter(|&page| heats[page as usize].count > 0)
                    .min_by(|a, b| mean(a).total_cmp(&mean(b)));
                if let Some(expected) = expected {
                    assert_eq!(coldest.coldest(|page| heats[page as usize]), expected);
                }
            }
        }
    }
}

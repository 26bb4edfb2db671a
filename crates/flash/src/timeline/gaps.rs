//! The gaps between the bookings of a die.
//!
//! A die that keeps up has no gaps, or a few. Where arrivals run far ahead of the dies it may have as many as there are
//! commands in its backlog, and a command must still find its gap. So gaps stand in the order of time in chunks, each
//! of which knows its longest gap. The search passes over chunks without a gap of the length and looks through one,
//! seldom through more: a chunk that is looked through in vain finds out how long its longest gap has become. A chunk
//! holds as many gaps as there are chunks, but at least [`LEAST`]: of `n` gaps a search looks at O(√n), and to take,
//! split or append one moves O(√n).

use alloc::collections::VecDeque;

/// Gaps that a chunk may hold in any case.
const LEAST: usize = 32;

#[derive(Clone, Copy, Debug)]
struct Gap {
    start_ns: u64,
    end_ns: u64,
}

#[derive(Clone, Debug, Default)]
struct Chunk {
    /// In the order of time, never empty.
    gaps: VecDeque<Gap>,
    /// No gap is longer. Exact when it was last found out; gaps become shorter since.
    longest_ns: u64,
}

impl Chunk {
    fn measure(&mut self) {
        self.longest_ns = self.gaps.iter().map(|gap| gap.end_ns - gap.start_ns).max().unwrap_or(0);
    }

    #[inline(always)]
    fn end_ns(&self) -> u64 {
        self.gaps.back().map_or(0, |gap| gap.end_ns)
    }
}

/// The time that a command wants.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    /// It starts then at the earliest, ns.
    pub(super) from_ns: u64,
    /// It takes so long at the least, ns.
    pub(super) length_ns: u64,
    /// It ends then at the earliest, ns: its channel's backlog may hold it back.
    pub(super) least_end_ns: u64,
}

impl Wanted {
    /// When it ends if it starts then, ns.
    #[inline(always)]
    pub(super) fn end_ns(&self, start_ns: u64) -> u64 {
        (start_ns + self.length_ns).max(self.least_end_ns)
    }
}

/// A gap that has the time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    chunk: usize,
    at: usize,
    /// When it begins, ns.
    pub(super) gap_ns: u64,
    /// When a command would start in it, ns.
    pub(super) start_ns: u64,
    /// When it ends, ns.
    pub(super) end_ns: u64,
}

/// The gaps of a die in the order of time. None is empty, and no two touch.
#[derive(Clone, Debug, Default)]
pub(super) struct Gaps {
    chunks: VecDeque<Chunk>,
}

impl Gaps {
    /// When the last gap ends; 0 if there is none.
    pub(super) fn end_ns(&self) -> u64 {
        self.chunks.back().map_or(0, Chunk::end_ns)
    }

    /// Gaps that have ended are of no use any more.
    #[inline(always)]
    fn forget(&mut self, now_ns: u64) {
        while let Some(chunk) = self.chunks.front_mut()
            && chunk.gaps.front().is_none_or(|gap| gap.end_ns <= now_ns)
        {
            chunk.gaps.pop_front();
            if chunk.gaps.is_empty() {
                self.chunks.pop_front();
            }
        }
    }

    /// A gap behind all others, which is not empty.
    pub(super) fn push(&mut self, (start_ns, end_ns): (u64, u64), now_ns: u64) {
        self.forget(now_ns);
        let most = LEAST.max(self.chunks.len());
        if self.chunks.back().is_none_or(|chunk| chunk.gaps.len() >= most) {
            self.chunks.push_back(Chunk::default());
        }
        if let Some(chunk) = self.chunks.back_mut() {
            chunk.gaps.push_back(Gap { start_ns, end_ns });
            chunk.longest_ns = chunk.longest_ns.max(end_ns - start_ns);
        }
    }

    /// The first gap that has the time.
    #[inline]
    pub(super) fn find(&mut self, wanted: Wanted, now_ns: u64) -> Option<Found> {
        self.forget(now_ns);
        // What takes no time needs a gap all the same, and starts within it.
        let (from_ns, length_ns) = (wanted.from_ns, wanted.length_ns.max(1));
        let reach_ns = wanted.end_ns(from_ns).max(from_ns + length_ns);
        let fits = |gap: &Gap| gap.end_ns >= reach_ns.max(gap.start_ns + length_ns);
        for (chunk, here) in self.chunks.iter_mut().enumerate() {
            if here.longest_ns < length_ns || here.end_ns() < reach_ns {
                continue;
            }
            if let Some(at) = here.gaps.iter().position(fits) {
                let Gap { start_ns, end_ns } = here.gaps[at];
                return Some(Found { chunk, at, gap_ns: start_ns, start_ns: from_ns.max(start_ns), end_ns });
            }
            // Looked through in vain: not again for this length.
            here.measure();
        }
        None
    }

    /// Takes the time from the first gap that has it: the gap as it was, and the end of the command.
    #[inline]
    pub(super) fn take(&mut self, wanted: Wanted, now_ns: u64) -> Option<(Found, u64)> {
        let found = self.find(wanted, now_ns)?;
        let end_ns = wanted.end_ns(found.start_ns);
        self.book(found, end_ns);
        Some((found, end_ns))
    }

    /// Books a gap that was found just now, to `end_ns`; what is left of it stays.
    pub(super) fn book(&mut self, found: Found, end_ns: u64) {
        let Found { chunk: number, at, start_ns, .. } = found;
        let chunk = &mut self.chunks[number];
        let gap = chunk.gaps[at];
        let before = Gap { end_ns: start_ns, ..gap };
        let after = Gap { start_ns: end_ns, ..gap };
        match (before.start_ns < before.end_ns, after.start_ns < after.end_ns) {
            (false, false) => {
                chunk.gaps.remove(at);
            }
            (true, false) => chunk.gaps[at] = before,
            (false, true) => chunk.gaps[at] = after,
            (true, true) => {
                chunk.gaps[at] = before;
                chunk.gaps.insert(at + 1, after);
            }
        }
        if chunk.gaps.is_empty() {
            self.chunks.remove(number);
        } else if chunk.gaps.len() >= 2 * LEAST.max(self.chunks.len()) {
            self.halve(number);
        }
    }

    fn halve(&mut self, number: usize) {
        let chunk = &mut self.chunks[number];
        let mut half = Chunk { gaps: chunk.gaps.split_off(chunk.gaps.len() / 2), longest_ns: 0 };
        chunk.measure();
        half.measure();
        self.chunks.insert(number + 1, half);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;
    use alloc::vec::Vec;

    /// What a die that remembers every booking does.
    #[derive(Default)]
    struct Naive(Vec<(u64, u64)>);

    impl Naive {
        fn book(&mut self, wanted: Wanted) -> (u64, u64) {
            let mut idle_from = 0;
            let mut at = self.0.len();
            for (i, &(start, end)) in self.0.iter().enumerate() {
                let from = wanted.from_ns.max(idle_from);
                // What takes no time starts within a gap, not between bookings that touch.
                if from < start && wanted.end_ns(from) <= start {
                    at = i;
                    break;
                }
                idle_from = end;
            }
            let start = wanted.from_ns.max(idle_from);
            let booked = (start, wanted.end_ns(start));
            self.0.insert(at, booked);
            booked
        }
    }

    /// A die as [`Timeline`](crate::Timeline) keeps it, against one that looks through all bookings.
    #[test]
    fn the_first_gap_that_fits_is_taken_as_by_looking_at_every_booking() {
        let mut rng = Rng::new(3);
        for (round, count) in (0..200).map(|round| (round, 300)).chain([(200, 4000), (201, 4000), (202, 4000)]) {
            let (mut naive, mut gaps, mut free_ns, mut now_ns) = (Naive::default(), Gaps::default(), 0, 0);
            let (far, long) = (1 + rng.below(400), 1 + rng.below(60));
            let mut most = 0;
            for _ in 0..count {
                // In the last rounds arrivals stand still, and gaps become many.
                now_ns += if round < 200 { rng.below(30) } else { 0 };
                let from_ns = now_ns + if rng.chance(0.5) { rng.below(far) } else { 0 };
                let from_ns = if round >= 200 && rng.chance(0.6) { free_ns + rng.below(90) } else { from_ns };
                let least_end_ns = if rng.chance(0.3) { from_ns + rng.below(100) } else { 0 };
                let wanted = Wanted { from_ns, length_ns: rng.below(long), least_end_ns };
                let booked = gaps.take(wanted, now_ns).map(|(found, end)| (found.start_ns, end)).unwrap_or_else(|| {
                    let start = from_ns.max(free_ns);
                    if free_ns.max(now_ns) < start {
                        gaps.push((free_ns.max(now_ns), start), now_ns);
                    }
                    free_ns = wanted.end_ns(start);
                    (start, free_ns)
                });
                assert_eq!(booked, naive.book(wanted), "round {round}, {wanted:?} at {now_ns}");
                most = most.max(gaps.chunks.iter().map(|chunk| chunk.gaps.len()).sum());
                for chunk in &gaps.chunks {
                    let longest = chunk.gaps.iter().map(|gap| gap.end_ns - gap.start_ns).max().unwrap();
                    assert!(longest <= chunk.longest_ns && chunk.gaps.len() < 2 * LEAST.max(gaps.chunks.len() + 1));
                }
            }
            assert!(round < 200 || most > 500 && gaps.chunks.len() > 4, "{most} gaps in {}", gaps.chunks.len());
        }
    }

    /// Chunks become neither many nor large.
    #[test]
    fn many_gaps_stand_in_about_as_many_chunks_as_each_holds() {
        let (mut gaps, count) = (Gaps::default(), 100_000);
        for i in 0..count {
            gaps.push((10 * i, 10 * i + 9), 0);
        }
        // Each is split once more, from within.
        for i in 0..count {
            let wanted = Wanted { from_ns: 10 * i + 4, length_ns: 1, least_end_ns: 0 };
            let taken = gaps.take(wanted, 0).map(|(found, end)| (found.start_ns, end));
            assert_eq!(taken, Some((10 * i + 4, 10 * i + 5)));
        }
        let largest = gaps.chunks.iter().map(|chunk| chunk.gaps.len()).max().unwrap();
        assert_eq!(gaps.chunks.iter().map(|chunk| chunk.gaps.len() as u64).sum::<u64>(), 2 * count);
        assert!(gaps.chunks.len() < 1500 && largest < 3000, "{} chunks, the largest of {largest}", gaps.chunks.len());
    }
}

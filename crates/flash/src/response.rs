//! Where the time of a response went.
//!
//! Of a request the page that ends last counts, of pages that end together the first. Its chain of commands is followed
//! back to the arrival. What a command works for in the cells and on the channel is the request's *own* time, by the
//! command's cause; the latencies of interrupting another command belong to it. All between is time that the request
//! *waited for* something: nanosecond by nanosecond, by the cause of what its die or its channel worked for meanwhile.
//! A chain of a page goes through no collection, so a collection that the request itself set off is waited for. Where a
//! page states that it waits for one ([`Collection::wait`](crate::Collection::wait)), it waits for what the die works
//! for on which the collection ends.
//!
//! The parts of a response sum up to it, to the nanosecond, because each command starts its wait where the one before
//! it in its chain ended.
//!
//! A [`Diary`] knows for each moment for which cause a die or a channel works. Every nanosecond has a cause: idle time
//! is booked to what stands behind it, for which it was too short.

use crate::Cause;
use alloc::collections::VecDeque;

const CAUSES: usize = Cause::ALL.len();

/// Nanoseconds by cause, in the order of [`Cause::ALL`].
pub type NsByCause = [u64; CAUSES];

/// Where the time of a response went.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Response {
    /// What the commands of the page that ended last worked, in the cells and on the channel, ns.
    pub own_ns: NsByCause,
    /// What dies and channels worked for while those commands waited, ns.
    pub waited_ns: NsByCause,
}

impl Response {
    /// The whole response, ns.
    pub fn total_ns(&self) -> u64 {
        self.own_ns.iter().chain(&self.waited_ns).sum()
    }

    /// A part of it more: whether it waited, for which cause, and so many nanoseconds.
    pub fn add(&mut self, waited: bool, cause: Cause, ns: u64) {
        let part = if waited { &mut self.waited_ns } else { &mut self.own_ns };
        part[cause as usize] += ns;
    }

    /// Calls for each part as [`Response::add`] takes it.
    pub fn each(&self, mut add: impl FnMut(bool, Cause, u64)) {
        for (waited, part) in [(false, &self.own_ns), (true, &self.waited_ns)] {
            each_cause(part, |cause, ns| add(waited, cause, ns));
        }
    }
}

/// Calls for each cause that has nanoseconds.
#[inline(always)]
fn each_cause(of: &NsByCause, mut add: impl FnMut(Cause, u64)) {
    let causes = Cause::ALL.iter().zip(of);
    causes.filter(|&(_, &ns)| ns > 0).for_each(|(&cause, &ns)| add(cause, ns));
}

/// Entries of a chunk; one that grows from within is halved at twice as many.
const CHUNK: usize = 64;
/// Chunks from one milestone to the next.
const STRIDE: u64 = 8;

/// Up to this time, since the end of the entry before, for this cause.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub(crate) end_ns: u64,
    pub(crate) cause: Cause,
}

#[derive(Clone, Debug)]
struct Chunk {
    start_ns: u64,
    /// In the order of time.
    entries: VecDeque<Entry>,
    sums_ns: NsByCause,
}

impl Chunk {
    fn end_ns(&self) -> u64 {
        self.entries.back().map_or(self.start_ns, |entry| entry.end_ns)
    }

    fn ends_with(&self, cause: Cause) -> bool {
        self.entries.back().is_some_and(|entry| entry.cause == cause)
    }

    /// Calls for every part of an entry that lies between two times.
    fn between(&self, from_ns: u64, to_ns: u64, mut add: impl FnMut(Cause, u64)) {
        let first = self.entries.partition_point(|entry| entry.end_ns <= from_ns);
        let mut start_ns = if first == 0 { self.start_ns } else { self.entries[first - 1].end_ns };
        for entry in self.entries.range(first..) {
            let (from, to) = (start_ns.max(from_ns), entry.end_ns.min(to_ns));
            if from >= to {
                return;
            }
            add(entry.cause, to - from);
            start_ns = entry.end_ns;
        }
    }

    fn sum_up(&mut self) {
        let mut sums_ns = [0; CAUSES];
        self.between(0, u64::MAX, |cause, ns| sums_ns[cause as usize] += ns);
        self.sums_ns = sums_ns;
    }
}

/// For which cause a die or a channel worked. The present run of one cause is no entry yet: whoever keeps the diary
/// knows its cause and its end, and enters it when the cause changes. So work for the cause of the work before costs a
/// comparison.
///
/// Entries stand in chunks with sums by cause, and sums up to every [`STRIDE`]th chunk are kept, the *milestones*. So a
/// wait costs a step for each entry of two chunks and for each chunk of two strides, however long it is: a device that
/// does not keep up has its host wait behind hours of entries.
#[derive(Clone, Debug, Default)]
pub(crate) struct Diary {
    chunks: VecDeque<Chunk>,
    /// Chunks that are forgotten: the number of the first that is there.
    forgotten: u64,
    /// What all chunks before it sum up to, for each chunk that is there and whose number is a multiple of the stride.
    milestones: VecDeque<NsByCause>,
    end_ns: u64,
}

impl Diary {
    pub(crate) const EMPTY: Diary =
        Diary { chunks: VecDeque::new(), forgotten: 0, milestones: VecDeque::new(), end_ns: 0 };

    /// When the last entry ends, and the present run begins, ns.
    #[inline(always)]
    pub(crate) fn end_ns(&self) -> u64 {
        self.end_ns
    }

    /// Enters the present run, which ends. Nobody asks for the time before `past_ns` any more.
    #[inline(never)]
    pub(crate) fn enter(&mut self, run: Entry, past_ns: u64) {
        if run.end_ns <= self.end_ns {
            return;
        }
        let (start_ns, ns) = (self.end_ns, run.end_ns - self.end_ns);
        self.end_ns = run.end_ns;
        let last = self.chunks.back_mut();
        match last.filter(|chunk| chunk.entries.len() < CHUNK || chunk.ends_with(run.cause)) {
            Some(chunk) => {
                chunk.sums_ns[run.cause as usize] += ns;
                match chunk.entries.back_mut() {
                    Some(entry) if entry.cause == run.cause => entry.end_ns = run.end_ns,
                    _ => chunk.entries.push_back(run),
                }
            }
            None => {
                // A chunk that is past serves again.
                let mut entries = VecDeque::new();
                while let Some(past) = self.chunks.front_mut().filter(|chunk| chunk.end_ns() <= past_ns) {
                    entries = core::mem::take(&mut past.entries);
                    if self.forgotten.is_multiple_of(STRIDE) {
                        self.milestones.pop_front();
                    }
                    self.chunks.pop_front();
                    self.forgotten += 1;
                }
                entries.clear();
                entries.push_back(run);
                let mut sums_ns = [0; CAUSES];
                sums_ns[run.cause as usize] = ns;
                self.chunks.push_back(Chunk { start_ns, entries, sums_ns });
                self.set_milestone();
            }
        }
    }

    /// Where a chunk that is there has this number, counted from the first that ever was.
    fn place(&self, number: u64) -> usize {
        (number - self.forgotten) as usize
    }

    /// Which chunk the first milestone stands before.
    fn first_milestone(&self) -> u64 {
        self.forgotten.next_multiple_of(STRIDE)
    }

    /// The last chunk is there since now: if a milestone stands before it, it is added.
    fn set_milestone(&mut self) {
        let number = self.forgotten + self.chunks.len() as u64 - 1;
        if !number.is_multiple_of(STRIDE) {
            return;
        }
        // What is before the first milestone does not matter: they are only compared.
        let (mut sums_ns, from) = match self.milestones.back() {
            Some(&sums_ns) => (sums_ns, self.place(number - STRIDE)),
            None => ([0; CAUSES], self.chunks.len() - 1),
        };
        for chunk in self.chunks.range(from..self.chunks.len() - 1) {
            // A correction before the first milestone may have taken a sum below zero.
            sums_ns.iter_mut().zip(&chunk.sums_ns).for_each(|(ns, more)| *ns = ns.wrapping_add(*more));
        }
        self.milestones.push_back(sums_ns);
    }

    /// Milestones behind the chunk at this place, with the places of their chunks.
    fn milestones_behind(&mut self, place: usize) -> impl Iterator<Item = (usize, &mut NsByCause)> {
        let first = self.place(self.first_milestone());
        let passed = (place + 1).saturating_sub(first).div_ceil(STRIDE as usize);
        let places = (first..).step_by(STRIDE as usize);
        places.zip(&mut self.milestones).skip(passed)
    }

    /// From `from_ns` to `to_ns` the time is not that of the entry which it lies in, but of another cause.
    pub(crate) fn correct(&mut self, from_ns: u64, to_ns: u64, cause: Cause) {
        let number = self.chunks.partition_point(|chunk| chunk.end_ns() < to_ns);
        let Some(chunk) = self.chunks.get_mut(number) else { return };
        let at = chunk.entries.partition_point(|entry| entry.end_ns < to_ns);
        let Entry { end_ns, cause: before } = chunk.entries[at];
        let start_ns = if at == 0 { chunk.start_ns } else { chunk.entries[at - 1].end_ns };
        // Time that is past may have been forgotten.
        let from_ns = from_ns.max(start_ns);
        if before == cause || from_ns >= to_ns {
            return;
        }
        chunk.sums_ns[before as usize] -= to_ns - from_ns;
        chunk.sums_ns[cause as usize] += to_ns - from_ns;
        for (_, sums_ns) in self.milestones_behind(number) {
            sums_ns[before as usize] = sums_ns[before as usize].wrapping_sub(to_ns - from_ns);
            sums_ns[cause as usize] = sums_ns[cause as usize].wrapping_add(to_ns - from_ns);
        }
        let chunk = &mut self.chunks[number];
        if start_ns == from_ns && at > 0 && chunk.entries[at - 1].cause == cause {
            chunk.entries[at - 1].end_ns = to_ns;
            if to_ns == end_ns {
                chunk.entries.remove(at);
            }
            return;
        }
        if to_ns < end_ns {
            chunk.entries.insert(at, Entry { end_ns: to_ns, cause });
        } else {
            chunk.entries[at].cause = cause;
        }
        if start_ns < from_ns {
            chunk.entries.insert(at, Entry { end_ns: from_ns, cause: before });
        }
        if chunk.entries.len() >= 2 * CHUNK {
            let entries = chunk.entries.split_off(CHUNK);
            chunk.sum_up();
            let mut half = Chunk { start_ns: chunk.end_ns(), entries, sums_ns: [0; CAUSES] };
            half.sum_up();
            self.chunks.insert(number + 1, half);
            self.move_milestones(number);
        }
    }

    /// The chunk at this place was halved, so that all behind it have the next number: each milestone behind it stands
    /// before the chunk that was the last one before it.
    fn move_milestones(&mut self, place: usize) {
        let chunks = core::mem::take(&mut self.chunks);
        for (at, sums_ns) in self.milestones_behind(place) {
            sums_ns.iter_mut().zip(&chunks[at].sums_ns).for_each(|(ns, less)| *ns = ns.wrapping_sub(*less));
        }
        self.chunks = chunks;
        self.set_milestone();
    }

    /// Calls for each part of the time from `from_ns` to `to_ns`, in their order, with the present run behind the
    /// entries.
    pub(crate) fn between(&self, (from_ns, to_ns): (u64, u64), run: Entry, mut add: impl FnMut(Cause, u64)) {
        let first = self.chunks.partition_point(|chunk| chunk.end_ns() <= from_ns);
        for chunk in self.chunks.range(first..) {
            chunk.between(from_ns, to_ns, &mut add);
        }
        let from_ns = from_ns.max(self.end_ns);
        if from_ns < to_ns {
            debug_assert!(to_ns <= run.end_ns, "nobody waits for what is not booked");
            add(run.cause, to_ns - from_ns);
        }
    }

    /// Calls for each cause of the time from `from_ns` to `to_ns`, with the present run behind the entries.
    #[inline(always)]
    pub(crate) fn each(&self, (from_ns, to_ns): (u64, u64), run: Entry, mut add: impl FnMut(Cause, u64)) {
        if from_ns >= self.end_ns {
            add(run.cause, to_ns - from_ns);
        } else if from_ns < to_ns {
            let mut sums_ns = [0; CAUSES];
            self.add((from_ns, to_ns), run, &mut sums_ns);
            each_cause(&sums_ns, add);
        }
    }

    /// Adds what the time from `from_ns` to `to_ns` was for, with the present run behind the entries.
    #[inline(never)]
    pub(crate) fn add(&self, (from_ns, to_ns): (u64, u64), run: Entry, sums_ns: &mut NsByCause) {
        sums_ns[run.cause as usize] += to_ns.saturating_sub(from_ns.max(self.end_ns));
        let first = self.chunks.partition_point(|chunk| chunk.end_ns() <= from_ns);
        let behind = self.chunks.len().min(first + 2 * STRIDE as usize);
        let skipped = if behind < self.chunks.len() && self.chunks[behind].start_ns < to_ns {
            self.skip(first, to_ns, sums_ns)
        } else {
            0..0
        };
        for part in [first..skipped.start.max(first), skipped.end.max(first)..self.chunks.len()] {
            for chunk in self.chunks.range(part) {
                if chunk.start_ns >= to_ns {
                    return;
                }
                if from_ns <= chunk.start_ns && chunk.end_ns() <= to_ns {
                    add_all(sums_ns, &chunk.sums_ns);
                } else {
                    chunk.between(from_ns, to_ns, |cause, ns| sums_ns[cause as usize] += ns);
                }
            }
        }
    }

    /// Adds what the chunks between two milestones sum up to, the first behind the chunk at place `first`, the last
    /// before `to_ns`; the places of these chunks.
    fn skip(&self, first: usize, to_ns: u64, sums_ns: &mut NsByCause) -> core::ops::Range<usize> {
        let origin = self.place(self.first_milestone());
        let last = self.chunks.partition_point(|chunk| chunk.start_ns < to_ns) - 1;
        let from = (first + 1).saturating_sub(origin).div_ceil(STRIDE as usize);
        let to = (last - origin) / STRIDE as usize;
        let (before, after) = (&self.milestones[from], &self.milestones[to]);
        sums_ns.iter_mut().zip(before.iter().zip(after)).for_each(|(ns, (before, after))| {
            *ns += after.wrapping_sub(*before);
        });
        origin + from * STRIDE as usize..origin + to * STRIDE as usize
    }
}

/// Adds sums by cause to others.
fn add_all(sums_ns: &mut NsByCause, more: &NsByCause) {
    sums_ns.iter_mut().zip(more).for_each(|(ns, more)| *ns += more);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;
    use alloc::vec;
    use alloc::vec::Vec;

    /// Against one cause for each nanosecond.
    #[test]
    fn a_diary_knows_each_nanosecond() {
        let mut rng = Rng::new(31);
        for round in 0..60 {
            let (mut diary, mut naive) = (Diary::default(), Vec::<Cause>::new());
            let mut run = Entry { end_ns: 0, cause: Cause::Host };
            let causes = 1 + rng.below(4);
            let cause = |rng: &mut Rng| Cause::ALL[rng.below(causes) as usize];
            let (mut past_ns, length, mut gaps) = (0, 1 + rng.below(30), Vec::<(u64, u64)>::new());
            // Most are short and looked at behind each step; some have many milestones.
            let (steps, every) = if round % 20 < 18 { (1500, 1) } else { (40_000, 250) };
            for step in 0..steps {
                // A booking behind all others, with a gap before it.
                let (cause, gap_ns, ns) = (cause(&mut rng), rng.below(2) * rng.below(length), rng.below(length));
                if cause != run.cause {
                    diary.enter(run, past_ns);
                    run.cause = cause;
                }
                gaps.push((run.end_ns, run.end_ns + gap_ns));
                run.end_ns += gap_ns + ns;
                naive.resize(run.end_ns as usize, cause);
                // A booking in a gap.
                gaps.retain(|gap| gap.0 < gap.1 && past_ns <= gap.0);
                if rng.chance(0.7) && !gaps.is_empty() {
                    let chosen = rng.below(gaps.len() as u64) as usize;
                    let (from, to) = (gaps[chosen].0, gaps[chosen].0 + 1 + rng.below(gaps[chosen].1 - gaps[chosen].0));
                    let cause = Cause::ALL[rng.below(causes) as usize];
                    gaps[chosen].0 = to;
                    naive[from as usize..to as usize].fill(cause);
                    if from < diary.end_ns() {
                        diary.correct(from, to, cause);
                    } else if cause != run.cause {
                        diary.enter(Entry { end_ns: from, ..run }, past_ns);
                        diary.enter(Entry { end_ns: to, cause }, past_ns);
                    }
                }
                if step % (steps / 15) == steps / 15 - 1 && round % 2 == 0 {
                    // Sometimes so far that no milestone is left, and what is before the next one is corrected later.
                    let left = run.end_ns + 1 - past_ns;
                    past_ns += if rng.chance(0.5) { rng.below(left) } else { left - 1 - rng.below(left.min(3000)) };
                }
                if step % every > 0 {
                    continue;
                }
                let from = past_ns + rng.below(run.end_ns + 1 - past_ns);
                let to = from + rng.below(run.end_ns + 1 - from);
                let mut expected = [0; CAUSES];
                naive[from as usize..to as usize].iter().for_each(|&cause| expected[cause as usize] += 1);
                let (mut sums, mut parts, mut in_order) = ([0; CAUSES], [0; CAUSES], vec![]);
                diary.add((from, to), run, &mut sums);
                diary.between((from, to), run, |cause, ns| {
                    parts[cause as usize] += ns;
                    in_order.resize(in_order.len() + ns as usize, cause);
                });
                assert_eq!((sums, parts), (expected, expected), "round {round}, step {step}, {from} to {to}");
                assert_eq!(in_order, naive[from as usize..to as usize]);
            }
            assert!(round % 2 == 1 || diary.chunks.len() < steps / 40, "what is past is forgotten");
            let has_few = steps == 1500 || round % 2 == 0 || causes == 1 || length < 5;
            assert!(has_few || diary.milestones.len() > 5, "{} milestones", diary.milestones.len());
            let there = diary.first_milestone()..diary.forgotten + diary.chunks.len() as u64;
            assert_eq!(diary.milestones.len(), there.step_by(STRIDE as usize).count());
        }
    }
}

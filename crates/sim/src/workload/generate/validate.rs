//! How near a twin comes to its original: the same statistics of both, side by side.
//!
//! The mapping-cache hit ratios are exact for LRU at every size at once (Mattson et al. 1970): the stack distance of an
//! access is the number of distinct pages since the last access to its page, counted in a Fenwick tree over time.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use super::pages::Pages;
use super::twin::key_page;
use crate::workload::{Operation, Request};

/// Cache sizes, in entries of one page, at which hit ratios are taken.
pub const CACHE_ENTRIES: [u64; 5] = [256, 1024, 8192, 65_536, 262_144];

/// Shares of the written pages, hottest first, whose shares of the page writes are taken.
pub const HOTTEST: [f64; 3] = [0.01, 0.05, 0.1];

/// Among the ends of so many requests before, the beginning of a request is looked for.
pub const WINDOWS: [usize; 2] = [8, 32];

/// The span of time in which arrivals are counted, nanoseconds.
const SLOT_NS: u64 = 1_000_000_000;

/// Statistics of a run of requests. Trims and flushes are left out.
#[derive(Clone, PartialEq, Debug)]
pub struct Profile {
    /// Reads and writes.
    pub requests: u64,
    /// Share of reads among them.
    pub reads: f64,
    /// Mean size of a read, bytes; 0 if there is none.
    pub read_bytes_mean: f64,
    /// Mean size of a write, bytes; 0 if there is none.
    pub write_bytes_mean: f64,
    /// Share of requests that begin where the request before, on the same volume, ended.
    pub sequential: f64,
    /// LRU hit ratio per page access at each of [`CACHE_ENTRIES`].
    pub hit_ratios: [f64; CACHE_ENTRIES.len()],
    /// Distinct pages written after a quarter, a half and all of the requests.
    pub written_pages: [u64; 3],
    /// Distinct pages read or written.
    pub touched_pages: u64,
    /// Page writes per distinct page written.
    pub overwrites: f64,
    /// Mean gap between arrivals, nanoseconds.
    pub gap_ns_mean: f64,
    /// Coefficient of variation of the gaps: 1 if Poisson, more if bursty.
    pub gap_variation: f64,
    /// Share of the page writes that go to the hottest of the written pages, for each of [`HOTTEST`].
    pub hottest: [f64; HOTTEST.len()],
    /// Share of requests that begin where one of so many requests before ended, for each of [`WINDOWS`].
    pub continuing: [f64; WINDOWS.len()],
    /// Share of requests that arrive together with the one before.
    pub simultaneous: f64,
    /// Variance over mean of the arrivals in a second: 1 if Poisson.
    pub dispersion: f64,
    /// Share of requests whose middle page was never touched before: among the first half, among the second.
    pub first_touches: [f64; 2],
}

/// Puts the volumes one after the other, each on a whole number of MiB, so that equal offsets on two volumes stay
/// apart. Trims and flushes are dropped.
pub fn flatten(requests: &[Request]) -> Vec<Request> {
    let mut ends: Vec<u64> = Vec::new();
    let extents = || requests.iter().filter(|r| matches!(r.operation, Operation::Read | Operation::Write));
    for r in extents() {
        let volume = r.volume as usize;
        ends.resize(ends.len().max(volume + 1), 0);
        ends[volume] = ends[volume].max(r.offset + r.bytes);
    }
    let mut base = 0;
    for end in &mut ends {
        let size = end.next_multiple_of(1 << 20);
        *end = base;
        base += size;
    }
    extents().map(|r| Request { offset: r.offset + ends[r.volume as usize], volume: 0, ..*r }).collect()
}

/// Share of all writes that go to the hottest pages, by how often each was written.
pub(super) fn hottest(mut writes: Vec<u32>) -> [f64; HOTTEST.len()] {
    writes.sort_unstable_by(|a, b| b.cmp(a));
    let total: u64 = writes.iter().map(|&count| u64::from(count)).sum();
    HOTTEST.map(|share| {
        let pages = ((writes.len() as f64 * share).round() as usize).clamp(1, writes.len().max(1));
        let hot: u64 = writes.iter().take(pages).map(|&count| u64::from(count)).sum();
        if total == 0 { 0.0 } else { hot as f64 / total as f64 }
    })
}

/// Variance over mean of the numbers of arrivals in whole seconds; 0 below two seconds.
pub(super) fn dispersion(arrivals_ns: impl Iterator<Item = u64>) -> f64 {
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    let (mut first, mut last) = (None, 0);
    for arrival_ns in arrivals_ns {
        let slot = (arrival_ns - *first.get_or_insert(arrival_ns)) / SLOT_NS;
        *counts.entry(slot).or_insert(0) += 1;
        last = slot;
    }
    // The last second is not whole.
    counts.remove(&last);
    if last < 2 {
        return 0.0;
    }
    let mean = counts.values().sum::<u64>() as f64 / last as f64;
    let square = counts.values().map(|&count| (count * count) as f64).sum::<f64>() / last as f64;
    if mean > 0.0 { (square - mean * mean) / mean } else { 0.0 }
}

/// Counts of marked times, with prefix sums (Fenwick 1994).
struct Marks {
    tree: Vec<u32>,
}

impl Marks {
    fn add(&mut self, time: usize, sign: i32) {
        let mut i = time + 1;
        while i < self.tree.len() {
            self.tree[i] = self.tree[i].wrapping_add_signed(sign);
            i += i & i.wrapping_neg();
        }
    }

    /// Marks at times before `time`.
    fn before(&self, time: usize) -> u32 {
        let (mut i, mut sum) = (time, 0);
        while i > 0 {
            sum += self.tree[i];
            i -= i & i.wrapping_neg();
        }
        sum
    }
}

/// The profile of `requests` (volumes as in [`flatten`]), pages of `page_bytes`.
///
/// # Panics
/// If `page_bytes` is 0 or there are 2^32 page accesses or more.
pub fn measure(requests: &[Request], page_bytes: u64) -> Profile {
    let requests = flatten(requests);
    let pages_of = |r: &Request| r.offset / page_bytes..=(r.offset + r.bytes - 1) / page_bytes;
    let accesses: usize = requests.iter().map(|r| pages_of(r).count()).sum();
    let mut marks = Marks { tree: vec![0; accesses + 1] };
    let (mut last, mut written) = (Pages::default(), Pages::default());
    let (mut time, mut touched, mut written_count, mut page_writes) = (0usize, 0u64, 0u64, 0u64);
    let mut hits = [0u64; CACHE_ENTRIES.len()];
    let mut written_pages = [0; 3];
    let mut bytes = [(0u64, 0u64); 2];
    let (mut sequential, mut end) = (0u64, None);
    let (mut gap_sum, mut gap_square) = (0.0, 0.0);
    let mut ends: VecDeque<u64> = VecDeque::new();
    let (mut continuing, mut simultaneous, mut first_touches) = ([0u64; WINDOWS.len()], 0u64, [0u64; 2]);
    let mut writes: Vec<u32> = Vec::new();
    for (index, r) in requests.iter().enumerate() {
        let write = r.operation == Operation::Write;
        bytes[usize::from(write)].0 += 1;
        bytes[usize::from(write)].1 += r.bytes;
        sequential += u64::from(end == Some(r.offset));
        end = Some(r.offset + r.bytes);
        if index > 0 {
            let gap = (r.arrival_ns - requests[index - 1].arrival_ns) as f64;
            gap_sum += gap;
            gap_square += gap * gap;
            simultaneous += u64::from(gap == 0.0);
        }
        if let Some(place) = ends.iter().position(|&end| end == r.offset) {
            for (count, window) in continuing.iter_mut().zip(WINDOWS) {
                *count += u64::from(place < window);
            }
        }
        ends.push_front(r.offset + r.bytes);
        ends.truncate(WINDOWS[WINDOWS.len() - 1]);
        let middle = key_page(r.offset, r.bytes) * super::twin::PAGE_BYTES / page_bytes;
        first_touches[usize::from(2 * index >= requests.len())] += u64::from(last.get(middle).is_none());
        for page in pages_of(r) {
            match last.set(page, time as u32) {
                Some(before) => {
                    // Every page since has exactly one mark, at its latest access.
                    let distance = touched - u64::from(marks.before(before as usize + 1));
                    for (hit, entries) in hits.iter_mut().zip(CACHE_ENTRIES) {
                        *hit += u64::from(distance < entries);
                    }
                    marks.add(before as usize, -1);
                }
                None => touched += 1,
            }
            marks.add(time, 1);
            time += 1;
            if write {
                page_writes += 1;
                let number = written.get(page).unwrap_or(writes.len() as u32);
                if number as usize == writes.len() {
                    written.set(page, number);
                    writes.push(0);
                    written_count += 1;
                }
                writes[number as usize] += 1;
            }
        }
        for (place, quarters) in [1, 2, 4].into_iter().enumerate() {
            if index < requests.len() * quarters / 4 {
                written_pages[place] = written_count;
            }
        }
    }
    let count = requests.len().max(1) as f64;
    let gaps = (requests.len().max(2) - 1) as f64;
    let gap_mean = gap_sum / gaps;
    let mean = |(n, sum): (u64, u64)| if n == 0 { 0.0 } else { sum as f64 / n as f64 };
    Profile {
        requests: requests.len() as u64,
        reads: bytes[0].0 as f64 / count,
        read_bytes_mean: mean(bytes[0]),
        write_bytes_mean: mean(bytes[1]),
        sequential: sequential as f64 / count,
        hit_ratios: hits.map(|h| h as f64 / accesses.max(1) as f64),
        written_pages,
        touched_pages: touched,
        overwrites: page_writes as f64 / written_count.max(1) as f64,
        gap_ns_mean: gap_mean,
        gap_variation: if gap_mean > 0.0 { (gap_square / gaps / gap_mean.powi(2) - 1.0).max(0.0).sqrt() } else { 0.0 },
        hottest: hottest(writes),
        continuing: continuing.map(|n| n as f64 / count),
        simultaneous: simultaneous as f64 / gaps,
        dispersion: dispersion(requests.iter().map(|r| r.arrival_ns)),
        first_touches: first_touches.map(|n| 2.0 * n as f64 / count),
    }
}

/// Original and twin, side by side. `Display` is a table.
#[derive(Clone, PartialEq, Debug)]
pub struct Validation {
    /// The original's statistics.
    pub real: Profile,
    /// The twin's.
    pub twin: Profile,
}

impl Validation {
    /// Largest difference of hit ratios over the cache sizes, in ratio points (0 to 1).
    pub fn hit_ratio_error(&self) -> f64 {
        let pairs = self.real.hit_ratios.iter().zip(self.twin.hit_ratios);
        pairs.map(|(real, twin)| (real - twin).abs()).fold(0.0, f64::max)
    }

    /// Written footprint of the twin over that of the original; 1 if neither writes.
    pub fn footprint_ratio(&self) -> f64 {
        let (real, twin) = (self.real.written_pages[2], self.twin.written_pages[2]);
        if real == twin { 1.0 } else { twin as f64 / real as f64 }
    }

    /// Name, original's and twin's value of every statistic.
    pub fn rows(&self) -> Vec<(String, f64, f64)> {
        let list = |p: &Profile| {
            let mut values = vec![
                ("read share %".to_owned(), p.reads * 100.0),
                ("mean read KiB".to_owned(), p.read_bytes_mean / 1024.0),
                ("mean write KiB".to_owned(), p.write_bytes_mean / 1024.0),
                ("sequential %".to_owned(), p.sequential * 100.0),
            ];
            for (ratio, entries) in p.hit_ratios.iter().zip(CACHE_ENTRIES) {
                values.push((format!("LRU hit % at {entries} entries"), ratio * 100.0));
            }
            for (pages, when) in p.written_pages.iter().zip(["1/4", "1/2", "all"]) {
                values.push((format!("pages written after {when}"), *pages as f64));
            }
            values.push(("pages touched".to_owned(), p.touched_pages as f64));
            values.push(("overwrites".to_owned(), p.overwrites));
            values.push(("mean gap ms".to_owned(), p.gap_ns_mean / 1e6));
            values.push(("gap variation".to_owned(), p.gap_variation));
            for (share, pages) in p.hottest.iter().zip(HOTTEST) {
                values.push((format!("writes % on hottest {} %", pages * 100.0), share * 100.0));
            }
            for (share, window) in p.continuing.iter().zip(WINDOWS) {
                values.push((format!("continuing one of {window} %"), share * 100.0));
            }
            values.push(("simultaneous %".to_owned(), p.simultaneous * 100.0));
            values.push(("dispersion in 1 s".to_owned(), p.dispersion));
            for (share, half) in p.first_touches.iter().zip(["first", "second"]) {
                values.push((format!("first touches %, {half} half"), share * 100.0));
            }
            values
        };
        list(&self.real).into_iter().zip(list(&self.twin)).map(|((name, real), (_, twin))| (name, real, twin)).collect()
    }
}

impl fmt::Display for Validation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:28} {:>12} {:>12}", "statistic", "real", "twin")?;
        for (name, real, twin) in self.rows() {
            writeln!(f, "{name:28} {real:12.2} {twin:12.2}")?;
        }
        Ok(())
    }
}

/// Measures both. They should have the same number of requests: hit ratios and footprints depend on it.
pub fn compare(real: &[Request], twin: &[Request], page_bytes: u64) -> Validation {
    Validation { real: measure(real, page_bytes), twin: measure(twin, page_bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(page: u64, arrival_ns: u64) -> Request {
        Request { arrival_ns, offset: page * 4096, bytes: 4096, volume: 0, operation: Operation::Write }
    }

    #[test]
    fn hit_ratios_agree_with_a_plain_lru_list() {
        let mut rng = flash::Rng::new(9);
        let requests: Vec<_> = (0..5000).map(|i| write(rng.below(40) * rng.below(40), i)).collect();
        let profile = measure(&requests, 4096);
        for (entries, ratio) in CACHE_ENTRIES.iter().zip(profile.hit_ratios) {
            let (mut list, mut hits) = (Vec::new(), 0);
            for r in &requests {
                match list.iter().position(|&page| page == r.offset) {
                    Some(place) => {
                        hits += 1;
                        list.remove(place);
                    }
                    None if list.len() as u64 == *entries => drop(list.pop()),
                    None => {}
                }
                list.insert(0, r.offset);
            }
            assert_eq!(ratio, f64::from(hits) / 5000.0, "{entries} entries");
        }
    }

    #[test]
    fn the_profile_counts_by_hand() {
        let read = Request { operation: Operation::Read, bytes: 8192, volume: 1, ..write(0, 4) };
        let profile = measure(&[write(0, 0), write(1, 1), write(0, 2), write(5, 3), read], 4096);
        assert_eq!((profile.requests, profile.touched_pages, profile.written_pages[2]), (5, 5, 3));
        assert_eq!((profile.reads, profile.sequential, profile.overwrites), (0.2, 0.2, 4.0 / 3.0));
        assert_eq!(profile.hit_ratios[0], 1.0 / 6.0);
        assert_eq!((profile.gap_ns_mean, profile.gap_variation), (1.0, 0.0));
        assert_eq!((profile.hottest, profile.continuing), ([0.5; 3], [0.2; 2]));
        assert_eq!((profile.simultaneous, profile.dispersion), (0.0, 0.0));
        // Of five requests the first three are of the first half; the third touches its page again.
        assert_eq!(profile.first_touches, [0.8, 0.8]);
    }

    #[test]
    fn arrivals_together_and_by_the_second() {
        const S: u64 = SLOT_NS;
        // Counts 4, 0, 2 and an unfinished second: mean 2, variance 8/3.
        let at = [0, 0, 0, S - 1, 2 * S, 2 * S, 3 * S];
        let requests: Vec<_> = at.iter().map(|&at| write(0, at)).collect();
        let profile = measure(&requests, 4096);
        assert_eq!(profile.simultaneous, 0.5);
        assert!((profile.dispersion - 4.0 / 3.0).abs() < 1e-12, "{}", profile.dispersion);
        assert_eq!(hottest(vec![1, 90, 9]), [0.9; 3]);
    }
}

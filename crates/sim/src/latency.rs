//! Latency distributions: a log-linear histogram for the quantiles, exact sums for mean and deviation.
//!
//! A bucket is a power of two cut into 512 equal parts and stands for its middle, so a quantile is within 0.1 % of the
//! time that it stands for, as in an HDR histogram of three digits. It is made here because three distributions of
//! every request are recorded on the simulator's hottest path. Times of requests are gathered for a while and then
//! recorded together: filling tens of kilobytes of buckets in a loop of its own overlaps the waits for them.

use crate::report::{Latency, ResponseByCause, ResponseParts, TailParts};
use flash::Cause;
use std::collections::BTreeMap;

/// A bucket is 2^-9 of its power of two.
const PARTS_LOG2: u32 = 9;
/// A bucket of [`Responses`] is 2^-6 of its power of two: each has a row of causes, and all that a run uses stay in the
/// processor's cache.
const ROWS_LOG2: u32 = 6;

/// The bucket of a time, of those that are 2^-`LOG2` of a power of two.
#[inline(always)]
fn bucket_of<const LOG2: u32>(ns: u64) -> usize {
    // Times below 2 · 2^LOG2 ns have a bucket each; above, the leading bit and those after it say which.
    let shift = (u64::BITS - LOG2).saturating_sub((ns | 1).leading_zeros() + 1);
    ((shift as usize) << LOG2) + (ns >> shift) as usize
}

/// The lowest time of a bucket, ns, and how many it stands for.
fn span_of<const LOG2: u32>(bucket: usize) -> (u64, u64) {
    let shift = (bucket >> LOG2).saturating_sub(1);
    (((bucket - (shift << LOG2)) as u64) << shift, 1 << shift)
}

/// The middle of a bucket, ns.
fn middle_of<const LOG2: u32>(bucket: usize) -> u64 {
    let (lowest, width) = span_of::<LOG2>(bucket);
    lowest + width / 2
}

/// Times of one kind, recorded in nanoseconds.
#[derive(Clone, Debug)]
pub struct Recorder {
    counts: Vec<u64>,
    count: u64,
    sum_ns: u128,
    /// Sum of squares, in microseconds squared: exact enough for a deviation.
    squares_us: f64,
    max_ns: u64,
}

impl Default for Recorder {
    fn default() -> Self {
        let counts = vec![0; bucket_of::<PARTS_LOG2>(u64::MAX) + 1];
        Recorder { counts, count: 0, sum_ns: 0, squares_us: 0.0, max_ns: 0 }
    }
}

impl Recorder {
    /// Records one time.
    pub fn record(&mut self, ns: u64) {
        self.record_all([ns]);
    }

    /// Records many.
    #[inline(always)]
    fn record_all(&mut self, times: impl IntoIterator<Item = u64>) {
        let (mut count, mut sum_ns, mut squares_us, mut max_ns) = (0, self.sum_ns, self.squares_us, self.max_ns);
        for ns in times {
            self.counts[bucket_of::<PARTS_LOG2>(ns)] += 1;
            count += 1;
            sum_ns += u128::from(ns);
            // Of a signed number, because that is one instruction; no time has the highest bit.
            let us = ns as i64 as f64 * 1e-3;
            squares_us += us * us;
            max_ns = max_ns.max(ns);
        }
        self.count += count;
        (self.sum_ns, self.squares_us, self.max_ns) = (sum_ns, squares_us, max_ns);
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.counts.fill(0);
        (self.count, self.sum_ns, self.squares_us, self.max_ns) = (0, 0, 0.0, 0);
    }

    /// Sum of the times, ns.
    pub fn sum_ns(&self) -> u128 {
        self.sum_ns
    }

    /// Times recorded.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Mean, in microseconds; `None` without times.
    pub fn mean_us(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.sum_ns as f64 * 1e-3 / self.count() as f64)
    }

    /// The quantile, in microseconds: the time that this share of all do not exceed.
    pub fn quantile_us(&self, quantile: f64) -> f64 {
        let rank = ((quantile * self.count as f64).ceil() as u64).clamp(1, self.count.max(1));
        // The last of all is known exactly.
        if rank >= self.count {
            return self.max_ns as f64 * 1e-3;
        }
        let mut below = 0;
        let bucket = self.counts.iter().position(|&count| {
            below += count;
            below >= rank
        });
        bucket.map_or(0, |bucket| middle_of::<PARTS_LOG2>(bucket).min(self.max_ns)) as f64 * 1e-3
    }

    /// This and another distribution together.
    pub fn with(&self, other: &Recorder) -> Recorder {
        let mut both = self.clone();
        both.counts.iter_mut().zip(&other.counts).for_each(|(count, more)| *count += more);
        both.count += other.count;
        both.sum_ns += other.sum_ns;
        both.squares_us += other.squares_us;
        both.max_ns = both.max_ns.max(other.max_ns);
        both
    }

    /// The distribution for the report; `None` without times.
    pub fn summary(&self) -> Option<Latency> {
        let mean = self.mean_us()?;
        let variance = (self.squares_us / self.count() as f64 - mean * mean).max(0.0);
        Some(Latency {
            mean,
            stdev: variance.sqrt(),
            p50: self.quantile_us(0.5),
            p95: self.quantile_us(0.95),
            p99: self.quantile_us(0.99),
            p999: self.quantile_us(0.999),
            p9999: self.quantile_us(0.9999),
            max: self.max_ns as f64 * 1e-3,
            read: None,
            write: None,
        })
    }
}

/// When a request arrived, when its first command started and when its last ended.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// Arrival, ns.
    pub arrival_ns: u64,
    /// Start, ns.
    pub start_ns: u64,
    /// End, ns.
    pub end_ns: u64,
}

/// Requests gathered before they are recorded.
const GATHERED: usize = 1024;

/// The times of all reads, or of all writes: response, service and queueing.
#[derive(Clone, Debug, Default)]
pub struct RequestTimes {
    gathered: Vec<Times>,
    recorders: [Recorder; 3],
}

impl RequestTimes {
    /// Records a request.
    #[inline(always)]
    pub fn record(&mut self, times: Times) {
        self.gathered.push(times);
        if self.gathered.len() == GATHERED {
            self.settle();
        }
    }

    /// Sum of all response times, ns.
    pub fn responses_ns(&mut self) -> u128 {
        self.settle();
        self.recorders[0].sum_ns()
    }

    #[inline(never)]
    fn settle(&mut self) {
        let [response, service, queue] = &mut self.recorders;
        response.record_all(self.gathered.iter().map(|times| times.end_ns - times.arrival_ns));
        service.record_all(self.gathered.iter().map(|times| times.end_ns - times.start_ns));
        queue.record_all(self.gathered.iter().map(|times| times.start_ns - times.arrival_ns));
        self.gathered.clear();
    }
}

/// Reads and writes apart.
#[derive(Clone, Debug, Default)]
pub struct ByKind {
    /// Of read requests.
    pub reads: Recorder,
    /// Of write requests.
    pub writes: Recorder,
}

impl ByKind {
    /// The distribution of both with its parts; `None` without times.
    pub fn summary(&self) -> Option<Latency> {
        let mut all = self.reads.with(&self.writes).summary()?;
        all.read = self.reads.summary().map(Box::new);
        all.write = self.writes.summary().map(Box::new);
        Some(all)
    }
}

/// Parts that a response can have.
const PARTS: usize = 2 * Cause::ALL.len();
/// No column.
const NO_COLUMN: u8 = u8::MAX;

/// Where the response times of all requests went, by how long they were.
///
/// A table: a row for each bucket of response times, and a column for each part that has occurred, so that a row seldom
/// takes more than a line of the processor's cache.
#[derive(Clone, Debug)]
pub struct Responses {
    /// The column of each part: of a cause's own time, then of waits.
    columns: [u8; PARTS],
    /// A row has 2^`width_log2` cells, in the first of which it counts requests.
    width_log2: u32,
    /// Sums in nanoseconds: of hundreds of millions of requests that each wait for days, 64 bits hold too few.
    cells: Vec<u128>,
}

impl Default for Responses {
    fn default() -> Self {
        Responses { columns: [NO_COLUMN; PARTS], width_log2: 3, cells: Vec::new() }
    }
}

/// The row of a request that is being counted.
#[derive(Debug)]
pub struct Counted<'a> {
    of: &'a mut Responses,
    row: usize,
}

impl Counted<'_> {
    /// A part of its time: whether it waited, for which cause, and how many nanoseconds.
    #[inline(always)]
    pub fn add(&mut self, waited: bool, cause: Cause, ns: u64) {
        let part = usize::from(waited) * Cause::ALL.len() + cause as usize;
        if self.of.columns[part] == NO_COLUMN {
            self.of.open_column(part);
        }
        self.of.cells[(self.row << self.of.width_log2) + usize::from(self.of.columns[part])] += u128::from(ns);
    }
}

impl Responses {
    /// Counts a request that took so long.
    #[inline(always)]
    pub fn of(&mut self, response_ns: u64) -> Counted<'_> {
        let row = bucket_of::<ROWS_LOG2>(response_ns);
        if (row + 1) << self.width_log2 > self.cells.len() {
            self.cells.resize((row + 1) << self.width_log2, 0);
        }
        self.cells[row << self.width_log2] += 1;
        Counted { of: self, row }
    }

    #[cold]
    fn open_column(&mut self, part: usize) {
        let column = 1 + self.columns.iter().filter(|&&column| column != NO_COLUMN).count();
        self.columns[part] = column as u8;
        if column >> self.width_log2 > 0 {
            let width = 1 << self.width_log2;
            let wider = |row: &[u128]| row.iter().copied().chain(std::iter::repeat_n(0, width)).collect::<Vec<_>>();
            self.cells = self.cells.chunks_exact(width).flat_map(wider).collect();
            self.width_log2 += 1;
        }
    }

    fn rows(&self) -> std::slice::ChunksExact<'_, u128> {
        self.cells.chunks_exact(1 << self.width_log2)
    }

    /// All parts that were counted, ns.
    pub fn total_ns(&self) -> u128 {
        self.rows().flat_map(|row| &row[1..]).sum()
    }

    /// Means for the report, over all requests and over those in or above the bucket of the 99th percentile; `None`
    /// without requests.
    pub fn summary(&self) -> Option<ResponseByCause> {
        let all: u128 = self.rows().map(|row| row[0]).sum();
        let rank = (0.99 * all as f64).ceil() as u128;
        let mut below = 0;
        let tail = self.rows().position(|row| {
            below += row[0];
            row[0] > 0 && below >= rank
        })?;
        let (_, mean) = self.parts(0);
        let (requests, parts) = self.parts(tail);
        let from_us = span_of::<ROWS_LOG2>(tail).0 as f64 * 1e-3;
        Some(ResponseByCause { mean, tail: TailParts { from_us, requests, parts } })
    }

    /// How many requests the rows from this one on hold, and their means in microseconds.
    fn parts(&self, first: usize) -> (u64, ResponseParts) {
        let sum = |column: u8| self.rows().skip(first).map(|row| row[usize::from(column)]).sum::<u128>();
        let requests = sum(0) as u64;
        let means = |columns: &[u8]| -> BTreeMap<String, f64> {
            let causes = Cause::ALL.iter().zip(columns).filter(|&(_, &column)| column != NO_COLUMN);
            let occurred = causes.map(|(cause, &column)| (cause.name(), sum(column))).filter(|&(_, ns)| ns > 0);
            occurred.map(|(name, ns)| (name.to_owned(), ns as f64 * 1e-3 / requests as f64)).collect()
        };
        let (own, waited_for) = self.columns.split_at(Cause::ALL.len());
        (requests, ResponseParts { own: means(own), waited_for: means(waited_for) })
    }
}

/// The distributions of response, service and queueing time; `None` without requests.
pub fn summaries(mut reads: RequestTimes, mut writes: RequestTimes) -> [Option<Latency>; 3] {
    reads.settle();
    writes.settle();
    let [mut reads, mut writes] = [reads, writes].map(|times| times.recorders.into_iter());
    std::array::from_fn(|_| {
        let (reads, writes) = (reads.next()?, writes.next()?);
        ByKind { reads, writes }.summary()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn narrow<const LOG2: u32>() {
        for ns in (0..5000).chain((12..64).flat_map(|bits| [(1 << bits) - 1, 1 << bits, (1 << bits) + 12_345])) {
            let bucket = bucket_of::<LOG2>(ns);
            let (middle, (lowest, width)) = (middle_of::<LOG2>(bucket), span_of::<LOG2>(bucket));
            assert_eq!(bucket_of::<LOG2>(middle), bucket, "{ns}");
            assert!((lowest..=lowest + (width - 1)).contains(&ns), "{ns}");
            let most = ns as f64 / f64::from(1 << (LOG2 + 1));
            assert!(middle.abs_diff(ns) as f64 <= most, "{ns} stands in the bucket of {middle}");
        }
        assert!((1..5000).all(|ns| bucket_of::<LOG2>(ns) >= bucket_of::<LOG2>(ns - 1)));
    }

    #[test]
    fn every_bucket_is_narrow_and_holds_its_middle() {
        narrow::<PARTS_LOG2>();
        narrow::<ROWS_LOG2>();
    }

    /// What broke: p99 of one request was the middle of its bucket, and less than the mean.
    #[test]
    fn the_last_of_all_is_known_exactly() {
        let mut recorder = Recorder::default();
        recorder.record(305_653);
        let one = recorder.summary().unwrap();
        assert_eq!([one.p50, one.p99, one.p9999, one.max].map(|us| us - one.mean), [0.0; 4]);
    }

    #[test]
    fn quantiles_are_within_a_thousandth_of_the_exact_ones() {
        let mut rng = flash::Rng::new(3);
        for count in [1, 2, 7, 1000, 20_000] {
            let mut recorder = Recorder::default();
            let mut all: Vec<u64> = (0..count).map(|i| rng.below(1 << (1 + i % 40))).collect();
            all.iter().for_each(|&ns| recorder.record(ns));
            all.sort_unstable();
            for quantile in [0.001, 0.5, 0.9, 0.99, 0.999, 1.0] {
                let exact = all[((quantile * count as f64).ceil() as usize).max(1) - 1] as f64 * 1e-3;
                let found = recorder.quantile_us(quantile);
                assert!((found - exact).abs() <= exact * 1e-3, "{quantile} of {count}: {found} is not {exact}");
            }
        }
    }

    #[test]
    fn parts_of_responses_are_means_over_all_and_over_the_longest() {
        let mut responses = Responses::default();
        assert_eq!(responses.summary(), None);
        // 990 requests of 1 µs of their own; 10 of 1 ms, of which 0.9 ms wait for a collection.
        for request in 0..1000u64 {
            let is_long = request % 100 == 7;
            let mut of = responses.of(if is_long { 1_000_000 } else { 1000 });
            of.add(false, Cause::Host, if is_long { 100_000 } else { 1000 });
            of.add(true, Cause::DataGc, if is_long { 900_000 } else { 0 });
        }
        assert_eq!(responses.total_ns(), 990 * 1000 + 10 * 1_000_000);
        let found = responses.summary().unwrap();
        assert!((found.mean.own["host"] - 1.99).abs() < 1e-9 && (found.mean.waited_for["data_gc"] - 9.0).abs() < 1e-9);
        assert_eq!((found.mean.own.len(), found.mean.waited_for.len()), (1, 1), "only causes that occurred");
        // The 990th of 1000 is short still: the bucket of the 99th percentile holds nearly all.
        assert_eq!((found.tail.requests, found.tail.from_us), (1000, 1.0));
        responses.of(1_000_000).add(true, Cause::MergeFull, 1_000_000);
        let tail = responses.summary().unwrap().tail;
        assert_eq!(tail.requests, 11);
        assert!(tail.from_us <= 1000.0 && tail.from_us > 984.0);
        assert!((tail.parts.waited_for["data_gc"] - 9000.0 / 11.0).abs() < 1e-9);
        assert!((tail.parts.waited_for["merge_full"] - 1000.0 / 11.0).abs() < 1e-9);
        assert!((tail.parts.own["host"] - 1000.0 * 100.0 / 1100.0).abs() < 1e-9);
    }

    /// Requests that wait for years, as under a load that a device never catches up with.
    #[test]
    fn sums_hold_more_than_64_bits() {
        let (mut responses, mut recorder, ns) = (Responses::default(), Recorder::default(), 1 << 62);
        for _ in 0..8 {
            responses.of(ns).add(true, Cause::Host, ns);
        }
        recorder.record_all([ns; 8]);
        assert_eq!((responses.total_ns(), recorder.sum_ns()), (8 << 62, 8 << 62));
        assert_eq!(responses.summary().unwrap().mean.waited_for["host"], ns as f64 * 1e-3);
    }

    #[test]
    fn any_number_of_parts_has_its_columns() {
        let mut responses = Responses::default();
        let parts =
            || [false, true].into_iter().flat_map(|waited| Cause::ALL.iter().map(move |&cause| (waited, cause)));
        for (index, (waited, cause)) in parts().enumerate().chain(parts().enumerate()) {
            responses.of(500 * index as u64).add(waited, cause, 1 + index as u64);
        }
        let ResponseParts { own, waited_for } = responses.summary().unwrap().mean;
        for (index, (waited, cause)) in parts().enumerate() {
            let found = if waited { &waited_for } else { &own }[cause.name()];
            assert_eq!(found, 2.0 * (1 + index) as f64 * 1e-3 / (2 * PARTS) as f64, "{waited} {cause:?}");
        }
        assert_eq!(responses.total_ns(), 2 * (1..=PARTS as u128).sum::<u128>());
    }

    #[test]
    fn mean_deviation_and_quantiles_of_a_known_distribution() {
        let mut recorder = Recorder::default();
        for us in 1..=1000u64 {
            recorder.record(us * 1000);
        }
        let summary = recorder.summary().unwrap();
        assert_eq!(summary.mean, 500.5);
        assert!((summary.stdev - (999_999.0f64 / 12.0).sqrt()).abs() < 1e-6);
        assert!((summary.p99 / 990.0 - 1.0).abs() < 0.001);
        assert_eq!(summary.max, 1000.0);
        assert_eq!(Recorder::default().summary(), None);
    }
}

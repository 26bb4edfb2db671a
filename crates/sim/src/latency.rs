//! Latency distributions: a log-linear histogram for the quantiles, exact sums for mean and deviation.
//!
//! A bucket is a power of two cut into 512 equal parts and stands for its middle, so a quantile is within 0.1 % of the
//! time that it stands for, as in an HDR histogram of three digits. It is made here because three distributions of
//! every
//! request are recorded on the simulator's hottest path. Times of requests are gathered for a while and then recorded
//! together: filling tens of kilobytes of buckets in a loop of its own overlaps the waits for them.

use crate::report::Latency;

/// A bucket is 2^-9 of its power of two.
const PARTS_LOG2: u32 = 9;
const PARTS: usize = 1 << PARTS_LOG2;

/// The bucket of a time.
#[inline(always)]
fn bucket_of(ns: u64) -> usize {
    // Times below 1024 ns have a bucket each; above, the leading bit and the nine after it say which.
    let shift = (u64::BITS - PARTS_LOG2).saturating_sub((ns | 1).leading_zeros() + 1);
    shift as usize * PARTS + (ns >> shift) as usize
}

/// The middle of a bucket, ns.
fn middle_of(bucket: usize) -> u64 {
    let shift = (bucket / PARTS).saturating_sub(1);
    let lowest = ((bucket - shift * PARTS) as u64) << shift;
    lowest + (1 << shift) / 2
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
        let counts = vec![0; bucket_of(u64::MAX) + 1];
        Recorder { counts, count: 0, sum_ns: 0, squares_us: 0.0, max_ns: 0 }
    }
}

impl Recorder {
    /// Records one time.
    pub fn record(&mut self, ns: u64) {
        self.record_all([ns]);
    }

    /// Records many, at most a few thousand at a time.
    #[inline(always)]
    fn record_all(&mut self, times: impl IntoIterator<Item = u64>) {
        let (mut count, mut sum_ns, mut squares_us, mut max_ns) = (0, 0, self.squares_us, self.max_ns);
        for ns in times {
            self.counts[bucket_of(ns)] += 1;
            count += 1;
            sum_ns += ns;
            // Of a signed number, because that is one instruction; no time has the highest bit.
            let us = ns as i64 as f64 * 1e-3;
            squares_us += us * us;
            max_ns = max_ns.max(ns);
        }
        self.count += count;
        self.sum_ns += u128::from(sum_ns);
        (self.squares_us, self.max_ns) = (squares_us, max_ns);
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.counts.fill(0);
        (self.count, self.sum_ns, self.squares_us, self.max_ns) = (0, 0, 0.0, 0);
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
        let mut below = 0;
        let bucket = self.counts.iter().position(|&count| {
            below += count;
            below >= rank
        });
        bucket.map_or(0, |bucket| middle_of(bucket).min(self.max_ns)) as f64 * 1e-3
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

    #[test]
    fn every_bucket_is_narrow_and_holds_its_middle() {
        for ns in (0..5000).chain((12..64).flat_map(|bits| [(1 << bits) - 1, 1 << bits, (1 << bits) + 12_345])) {
            let middle = middle_of(bucket_of(ns));
            assert_eq!(bucket_of(middle), bucket_of(ns), "{ns}");
            assert!(middle.abs_diff(ns) as f64 <= ns as f64 / 1024.0, "{ns} stands in the bucket of {middle}");
        }
        assert!((1..5000).all(|ns| bucket_of(ns) >= bucket_of(ns - 1)));
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

//! Latency distributions: an HDR histogram for the quantiles, exact sums for mean and deviation.

use crate::report::Latency;
use hdrhistogram::Histogram;

/// Times of one kind, recorded in nanoseconds. Quantiles are within 0.1 %.
#[derive(Clone, Debug)]
pub struct Recorder {
    histogram: Histogram<u64>,
    sum_ns: u128,
    /// Sum of squares, in microseconds squared: exact enough for a deviation.
    squares_us: f64,
    max_ns: u64,
}

impl Default for Recorder {
    fn default() -> Self {
        // 2^52 ns are 52 days; longer responses count as that in the quantiles and as they are in mean and maximum.
        let histogram = Histogram::new_with_bounds(1, Self::LONGEST_NS, 3).expect("the bounds are valid");
        Recorder { histogram, sum_ns: 0, squares_us: 0.0, max_ns: 0 }
    }
}

impl Recorder {
    const LONGEST_NS: u64 = 1 << 52;

    /// Records one time.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.histogram.saturating_record(ns);
        self.sum_ns += u128::from(ns);
        let us = ns as f64 * 1e-3;
        self.squares_us += us * us;
        self.max_ns = self.max_ns.max(ns);
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.histogram.clear();
        (self.sum_ns, self.squares_us, self.max_ns) = (0, 0.0, 0);
    }

    /// Times recorded.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Mean, in microseconds; `None` without times.
    pub fn mean_us(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.sum_ns as f64 * 1e-3 / self.count() as f64)
    }

    /// The quantile, in microseconds.
    pub fn quantile_us(&self, quantile: f64) -> f64 {
        (self.histogram.value_at_quantile(quantile).min(self.max_ns)) as f64 * 1e-3
    }

    /// This and another distribution together.
    pub fn with(&self, other: &Recorder) -> Recorder {
        let mut both = self.clone();
        both.histogram.add(&other.histogram).expect("both have the same bounds");
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

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.reads.clear();
        self.writes.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

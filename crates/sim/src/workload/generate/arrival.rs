//! When requests arrive: not at all (closed loop), evenly, at random, or in bursts.

use flash::Rng;

/// An arrival process. Rates are requests per second, times nanoseconds.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Arrivals {
    /// No times: every arrival is 0 and the source is not [`timed`](crate::workload::Source::timed).
    None,
    /// One request every `gap_ns`.
    Fixed { gap_ns: f64, index: u64 },
    /// Independent exponential gaps of mean `gap_ns`.
    Poisson { gap_ns: f64, now_ns: f64, rng: Rng },
    /// `length` requests every `gap_ns`, then nothing for `idle_ns`.
    Bursts { gap_ns: f64, length: u64, idle_ns: f64, index: u64 },
}

impl Arrivals {
    /// The next arrival; the first is at 0.
    #[inline]
    pub(super) fn next_ns(&mut self) -> u64 {
        match self {
            Arrivals::None => 0,
            Arrivals::Fixed { gap_ns, index } => {
                let at = *index as f64 * *gap_ns;
                *index += 1;
                at as u64
            }
            Arrivals::Poisson { gap_ns, now_ns, rng } => {
                let at = *now_ns;
                *now_ns -= (1.0 - rng.unit()).ln() * *gap_ns;
                at as u64
            }
            Arrivals::Bursts { gap_ns, length, idle_ns, index } => {
                // From burst to burst passes the time of its requests, the last gap included, plus the idle time.
                let (burst, place) = (*index / *length, *index % *length);
                *index += 1;
                (burst as f64 * (*length as f64 * *gap_ns + *idle_ns) + place as f64 * *gap_ns) as u64
            }
        }
    }
}

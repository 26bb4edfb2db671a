//! `zipf`: the k-th most popular extent is drawn in proportion to k^-theta.
//!
//! Any theta of at least 0, 1 included; any number of extents, in constant time and memory, by rejection-inversion
//! (W. Hörmann and G. Derflinger, "Rejection-inversion to generate variates from monotone discrete distributions",
//! ACM TOMACS 6(3), 1996): invert the integral H of the hat h(x) = x^-theta, round to the nearest integer, and
//! reject the sliver by which the hat's area over that integer exceeds its probability. The YCSB approximation (Gray et
//! al. 1994), which most benchmarks use, needs a zeta sum over all items and is wrong from theta 1 upwards.
//!
//! The extents are the aligned offsets at which the largest size of the mix fits. By default the ranks are scattered
//! ([`super::scatter`]); `scatter=off` puts the hottest at offset 0 and the next beside it.

use flash::Rng;

use super::common::{self, Place, SizeClass, Space};
use super::scatter::Scatter;
use super::spec::{Arguments, Default, Kind, Parameter};
use super::{Context, Generator, SpecSource};
use crate::workload::{Operation, WorkloadError};

/// The row.
pub(super) const ROW: Generator = Generator {
    name: "zipf",
    summary: "skewed random extents, the k-th most popular in proportion to k^-theta",
    positional: None,
    parameters: &[
        Parameter {
            name: "theta",
            kind: Kind::Number,
            default: Default::Text("0.99"),
            range: (0.0, 20.0),
            doc: "Skew: 0 is uniform, 0.99 is YCSB's, above 1 a few extents take nearly all.",
        },
        Parameter {
            name: "scatter",
            kind: Kind::Choice(&["on", "off"]),
            default: Default::Text("on"),
            range: (0.0, 0.0),
            doc: "on: ranks lie anywhere, by a seeded permutation; off: in order from offset 0.",
        },
    ],
    common: true,
    defaults: &[],
    construct,
};

/// Draws ranks 1..=count in proportion to rank^-theta.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Zipf {
    theta: f64,
    count: f64,
    /// H(3/2) - 1, the upper end of the inverted area.
    upper: f64,
    /// H(count + 1/2), the lower end.
    lower: f64,
    /// A rounded draw closer than this to the unrounded one needs no test.
    sure: f64,
}

/// (e^x - 1) / x, also near 0.
#[inline]
fn expm1_over(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.exp_m1() / x } else { 1.0 + x * 0.5 * (1.0 + x / 3.0 * (1.0 + x * 0.25)) }
}

/// ln(1 + x) / x, also near 0.
#[inline]
fn ln1p_over(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.ln_1p() / x } else { 1.0 - x * (0.5 - x * (1.0 / 3.0 - x * 0.25)) }
}

impl Zipf {
    /// Over `count` >= 1 ranks.
    pub(super) fn new(count: u64, theta: f64) -> Zipf {
        assert!(count > 0 && theta >= 0.0, "zipf needs items and a skew of at least 0");
        let mut zipf = Zipf { theta, count: count as f64, upper: 0.0, lower: 0.0, sure: 0.0 };
        zipf.upper = zipf.area(1.5) - 1.0;
        zipf.lower = zipf.area(zipf.count + 0.5);
        zipf.sure = 2.0 - zipf.inverse(zipf.area(2.5) - zipf.height(2.0));
        zipf
    }

    /// H(x), the integral of the hat from 1: (x^(1-theta) - 1) / (1-theta), or ln x for theta 1.
    #[inline]
    fn area(&self, x: f64) -> f64 {
        let log = x.ln();
        expm1_over((1.0 - self.theta) * log) * log
    }

    /// h(x) = x^-theta.
    #[inline]
    fn height(&self, x: f64) -> f64 {
        (-self.theta * x.ln()).exp()
    }

    /// The inverse of H.
    #[inline]
    fn inverse(&self, area: f64) -> f64 {
        // Rounding can push the argument past the pole at -1.
        let t = (area * (1.0 - self.theta)).max(-1.0);
        (ln1p_over(t) * area).exp()
    }

    /// A rank from 1.
    #[inline]
    pub(super) fn draw(&self, rng: &mut Rng) -> u64 {
        loop {
            let area = self.lower + rng.unit() * (self.upper - self.lower);
            let x = self.inverse(area);
            let rank = (x + 0.5).floor().clamp(1.0, self.count);
            if rank - x <= self.sure || area >= self.area(rank + 0.5) - self.height(rank) {
                return rank as u64;
            }
        }
    }
}

struct Skewed {
    rng: Rng,
    zipf: Zipf,
    scatter: Option<Scatter>,
    align: u64,
}

impl Place for Skewed {
    #[inline]
    fn offset(&mut self, _: SizeClass, _: Operation) -> u64 {
        let rank = self.zipf.draw(&mut self.rng) - 1;
        self.align * self.scatter.as_ref().map_or(rank, |scatter| scatter.of(rank))
    }
}

fn construct(arguments: &Arguments, context: &Context) -> Result<SpecSource, WorkloadError> {
    let space = Space::new(arguments, context)?;
    let rng = Rng::new(context.seed);
    let count = space.slots();
    let scatter = (arguments.word("scatter") == Some("on")).then(|| Scatter::new(count, rng.fork("generate scatter")));
    let zipf = Zipf::new(count, arguments.real("theta"));
    let place = Skewed { rng: rng.fork("generate place"), zipf, scatter, align: space.align };
    common::source(arguments, context, &space, place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequencies_follow_the_law() {
        for theta in [0.0, 0.5, 0.99, 1.0, 1.000_000_001, 1.2, 2.5] {
            let (count, draws) = (1000u64, 1_000_000u32);
            let zipf = Zipf::new(count, theta);
            let mut rng = Rng::new(11);
            let mut seen = vec![0u32; count as usize + 1];
            for _ in 0..draws {
                seen[zipf.draw(&mut rng) as usize] += 1;
            }
            let total: f64 = (1..=count).map(|k| (k as f64).powf(-theta)).sum();
            // Pool the tail so that every cell expects at least 10.
            let (mut square, mut cells, mut rest_seen, mut rest_expected) = (0.0, 0, 0.0, 0.0);
            for k in 1..=count {
                rest_expected += f64::from(draws) * (k as f64).powf(-theta) / total;
                rest_seen += f64::from(seen[k as usize]);
                if rest_expected >= 10.0 {
                    square += (rest_seen - rest_expected).powi(2) / rest_expected;
                    cells += 1;
                    (rest_seen, rest_expected) = (0.0, 0.0);
                }
            }
            // Chi-square has mean df and deviation sqrt(2 df); 4 deviations leave one false alarm in 30,000.
            let freedom = f64::from(cells - 1);
            assert!(square < freedom + 4.0 * (2.0 * freedom).sqrt() + 4.0, "theta {theta}: {square} at {freedom}");
        }
    }

    #[test]
    fn huge_spaces_and_single_items_work() {
        let mut rng = Rng::new(2);
        for theta in [0.0, 0.8, 1.0, 1.5, 20.0] {
            for count in [1, 2, 1 << 24, 1 << 40] {
                let zipf = Zipf::new(count, theta);
                assert!((0..10_000).all(|_| (1..=count).contains(&zipf.draw(&mut rng))), "{theta} {count}");
            }
        }
    }
}

//! CICL: cleaning cost and wear, weighed by how uneven the wear is.
//!
//! Minimise `λ · e / (1 + e_max) + (1 − λ) · v` with `v` the live share of the block's programmed pages. λ grows from 0
//! towards 1 with the spread of erase counts; the seed text gives no rule, and `λ = (2/π) · arctan((e_max − e_min) /
//! k)` is a reconstruction, with k = 10 unless `gc-wear-spread` says otherwise; `gc-lambda` fixes λ.

use super::{GcPolicy, GcRow, least_by, utilisation};
use crate::blocks::Blocks;
use alloc::boxed::Box;
use core::ops::Range;
use flash::Block;

pub(super) const ROW: GcRow = GcRow {
    name: "cicl",
    summary: "least λ × wear + (1 − λ) × live share, λ growing with the spread of wear",
    source: "{rose}, section 2.3; the rule for λ is reconstructed",
    ages: false,
    make: |_, options| {
        let lambda = options.lambda;
        Box::new(Cicl { lambda: (lambda > 0.0).then_some(lambda), spread: options.wear_spread })
    },
};

/// See the module's description.
#[derive(Clone, Debug)]
struct Cicl {
    /// λ; `None` for the rule.
    lambda: Option<f64>,
    /// Wear spread at which the rule makes λ one half.
    spread: f64,
}

/// Arc tangent of `x ≥ 0`, to 1e-6 (no_std has none): Abramowitz and Stegun 4.4.49 on [0, 1].
fn arctan(x: f64) -> f64 {
    if x > 1.0 {
        return core::f64::consts::FRAC_PI_2 - arctan(1.0 / x);
    }
    let s = x * x;
    const TERMS: [f64; 8] = [
        -0.333_331_452_8,
        0.199_935_508_5,
        -0.142_088_994_4,
        0.106_562_639_3,
        -0.075_289_640_0,
        0.042_909_613_8,
        -0.016_165_736_7,
        0.002_866_225_7,
    ];
    x * (1.0 + s * TERMS.iter().rev().fold(0.0, |sum, term| sum * s + term))
}

impl GcPolicy for Cicl {
    fn pick(&mut self, blocks: &Blocks, among: Range<u32>) -> Option<Block> {
        let erases = blocks.erase_counts();
        let most = erases.iter().copied().max().unwrap_or(0);
        let least = erases.iter().copied().min().unwrap_or(0);
        let rule = || core::f64::consts::FRAC_2_PI * arctan(f64::from(most - least) / self.spread);
        let lambda = self.lambda.unwrap_or_else(rule);
        least_by(blocks, among, |block| {
            let wear = f64::from(erases[block as usize]) / (1.0 + f64::from(most));
            lambda * wear + (1.0 - lambda) * utilisation(blocks, block)
        })
    }

    fn boxed(&self) -> Box<dyn GcPolicy + Send> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn arctan_is_close() {
        extern crate std;
        for i in 0..1000 {
            let x = f64::from(i) * 0.05;
            assert!((super::arctan(x) - x.atan()).abs() < 1e-6, "{x}");
        }
    }
}

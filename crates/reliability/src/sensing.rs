//! What a read with several sensing levels says about each bit.
//!
//! One read level tells which side of it a cell is on. Further levels around it tell how near: a page read with 2s + 1
//! levels at each boundary puts each cell in a region, and each region has a log-likelihood ratio, the logarithm of how
//! much more often bits 0 than bits 1 are found there. That is what soft decoding starts from. Levels are spaced evenly
//! and as far apart as leaves most information between bit and region (Wang et al., "Enhanced precision through
//! multiple reads for LDPC decoding in flash memories", IEEE J. Sel. Areas Commun. 2014); a single level is where it
//! always is.

use crate::cells::{Cells, PageType};
use alloc::vec;
use alloc::vec::Vec;
use flash::Rng;
use libm::{log, log2, round};

/// Ratios are natural logarithms times this.
pub const RATIO_UNIT: f64 = 16.0;

/// Largest ratio of a region: as sure as a controller's few bits can say.
const MOST: f64 = 20.0 * RATIO_UNIT;

/// Spacings tried, and the widest, V.
const SPACINGS: usize = 60;
const WIDEST_V: f64 = 0.3;

/// Levels by which pages are sensed, fewest first: one is a hard read.
pub const LEVELS: [u32; 4] = [1, 3, 5, 7];

/// Regions of a page's cells with what is known of them.
#[derive(Clone, PartialEq, Debug)]
pub struct Sensing {
    /// For bits 0 and 1: probability of each region.
    probability: [Vec<f64>; 2],
    ratios: Vec<i16>,
}

impl Sensing {
    /// A read of a page with `levels` at each of its boundaries.
    ///
    /// # Panics
    /// If the number of levels is even: the middle one is the plain read level.
    pub fn new(cells: &Cells, page: PageType, levels: u32) -> Sensing {
        assert!(levels % 2 == 1, "{levels} levels have none in the middle");
        let at = |spacing_v: f64| {
            let boundaries: &[f64] = match page {
                PageType::Lsb => &cells.reads_v[1..2],
                PageType::Msb => &[cells.reads_v[0], cells.reads_v[2]],
            };
            let side = f64::from(levels / 2);
            let mut thresholds: Vec<f64> = Vec::new();
            for &boundary in boundaries {
                thresholds.extend((0..levels).map(|index| boundary + (f64::from(index) - side) * spacing_v));
            }
            Sensing::by_thresholds(cells, page, &thresholds)
        };
        if levels == 1 {
            return at(0.0);
        }
        (1..=SPACINGS)
            .map(|index| at(WIDEST_V * index as f64 / (SPACINGS as f64 * f64::from(levels / 2))))
            .max_by(|one, other| one.information().total_cmp(&other.information()))
            .expect("some spacing was tried")
    }

    fn by_thresholds(cells: &Cells, page: PageType, thresholds: &[f64]) -> Sensing {
        let count = thresholds.len() + 1;
        let mut probability = [vec![0.0; count], vec![0.0; count]];
        for (number, state) in cells.states.iter().enumerate() {
            let shares = &mut probability[usize::from(page.bit(number))];
            for (region, share) in shares.iter_mut().enumerate() {
                // Two of the four states store each bit.
                *share += 0.5
                    * match region {
                        0 => state.below(thresholds[0]),
                        _ if region == count - 1 => state.above(thresholds[region - 1]),
                        _ => state.between(thresholds[region - 1], thresholds[region]),
                    };
            }
        }
        let ratios = (0..count)
            .map(|region| {
                let [zero, one] = [probability[0][region].max(1e-30), probability[1][region].max(1e-30)];
                let ratio = round(log(zero / one) * RATIO_UNIT).clamp(-MOST, MOST);
                // A region where both are equally likely still says something.
                if ratio == 0.0 { 1 } else { ratio as i16 }
            })
            .collect();
        Sensing { probability, ratios }
    }

    /// Log-likelihood ratio of each region in units of 1/16, positive for 0.
    pub fn ratios(&self) -> &[i16] {
        &self.ratios
    }

    /// Probability that a bit is found in each region.
    pub fn probability(&self, bit: bool) -> &[f64] {
        &self.probability[usize::from(bit)]
    }

    /// Information about a bit, bits.
    pub fn information(&self) -> f64 {
        let mut information = 0.0;
        for (zero, one) in self.probability[0].iter().zip(&self.probability[1]) {
            let mean = (zero + one) / 2.0;
            for share in [zero, one] {
                if *share > 0.0 {
                    information += 0.5 * share * log2(share / mean);
                }
            }
        }
        information
    }

    /// Ratios of a frame's bits as a read of them might find: one draw for each bit.
    pub fn sample(&self, bits: impl Iterator<Item = bool>, rng: &mut Rng) -> Vec<i16> {
        bits.map(|bit| {
            let shares = self.probability(bit);
            let mut left = rng.unit();
            let region = shares.iter().position(|share| {
                left -= share;
                left < 0.0
            });
            self.ratios[region.unwrap_or(shares.len() - 1)]
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cells::Mode;

    #[test]
    fn regions_hold_every_cell_and_a_hard_read_has_the_error_rate() {
        let cells = Cells::with_rber(Mode::LowCost, 8e-3).unwrap();
        for page in PageType::ALL {
            for levels in LEVELS {
                let sensing = Sensing::new(&cells, page, levels);
                for bit in [false, true] {
                    assert!((sensing.probability(bit).iter().sum::<f64>() - 1.0).abs() < 1e-9);
                }
            }
            let hard = Sensing::new(&cells, page, 1);
            let wrong = |bit: bool| -> f64 {
                let regions = hard.probability(bit).iter().zip(hard.ratios());
                regions.filter(|&(_, &ratio)| (ratio < 0) != bit).map(|(share, _)| share).sum()
            };
            let rber = (wrong(false) + wrong(true)) / 2.0;
            assert!((rber / cells.page_rber(page) - 1.0).abs() < 1e-9, "{page:?}: {rber}");
        }
    }

    #[test]
    fn more_levels_say_more() {
        let cells = Cells::with_rber(Mode::LowCost, 1e-2).unwrap();
        let information = LEVELS.map(|levels| Sensing::new(&cells, PageType::Lsb, levels).information());
        assert!(information.is_sorted() && information[3] < 1.0, "{information:?}");
        // The first two levels bring more than all others.
        assert!(information[1] - information[0] > information[3] - information[1], "{information:?}");
    }

    #[test]
    fn draws_follow_the_probabilities() {
        let cells = Cells::with_rber(Mode::LowCost, 2e-2).unwrap();
        let sensing = Sensing::new(&cells, PageType::Lsb, 3);
        let mut rng = Rng::new(2);
        let count = 400_000;
        let drawn = sensing.sample((0..count).map(|_| true), &mut rng);
        for (share, ratio) in sensing.probability(true).iter().zip(sensing.ratios()) {
            let found = drawn.iter().filter(|&other| other == ratio).count() as f64;
            let expected = share * f64::from(count);
            let tolerance = 5.0 * libm::sqrt(expected * (1.0 - share)) + 1.0;
            assert!((found - expected).abs() < tolerance, "{ratio}: {found} {expected}");
        }
    }
}

//! Cost-age-times: like cost-benefit, but also shy of worn blocks.
//!
//! Minimise `u · e / (age · (1 − u))` with `e` the erase count, taken as at least 1 so that unworn blocks do not all
//! tie at zero, and the age since the block was last reclaimed.

use super::{GcPolicy, GcRow, least_by, utilisation};
use crate::blocks::Blocks;
use alloc::boxed::Box;
use core::ops::Range;
use flash::Block;

pub(super) const ROW: GcRow = GcRow {
    name: "cat",
    summary: "least u × erases / (age × (1 − u)), age since the last erase",
    source: "{rose}, section 2.3",
    ages: true,
    make: |_, _| Box::new(Cat),
};

#[derive(Debug)]
struct Cat;

pub(super) fn score(u: f64, age: f64, erases: u32) -> f64 {
    if u >= 1.0 { f64::INFINITY } else { u * f64::from(erases.max(1)) / (age * (1.0 - u)) }
}

impl GcPolicy for Cat {
    fn pick(&mut self, blocks: &Blocks, among: Range<u32>) -> Option<Block> {
        least_by(blocks, among, |block| {
            let erases = blocks.erase_counts()[block as usize];
            score(utilisation(blocks, block), blocks.age_since_erase(block) as f64, erases)
        })
    }

    fn boxed(&self) -> Box<dyn GcPolicy + Send> {
        Box::new(Cat)
    }
}

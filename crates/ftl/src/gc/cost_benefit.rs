//! Cost-benefit: space gained times age, over what reading and writing the live pages costs.
//!
//! With `u` the share of live pages: maximise `age · (1 − u) / 2u`; a block without live pages comes first.

use super::{GcPolicy, GcRow, least_by, utilisation};
use crate::blocks::Blocks;
use alloc::boxed::Box;
use core::ops::Range;
use flash::Block;

pub(super) const ROW: GcRow = GcRow {
    name: "cost-benefit",
    summary: "largest age × (1 − u) / 2u, age since the last program or invalidation",
    source: "{rose}, section 2.3; named in {lsftl} and {dftl}",
    ages: true,
    make: |_, _| Box::new(CostBenefit),
};

#[derive(Debug)]
struct CostBenefit;

pub(super) fn score(blocks: &Blocks, block: u32) -> f64 {
    let u = utilisation(blocks, block);
    if u == 0.0 { f64::INFINITY } else { blocks.age(block) as f64 * (1.0 - u) / (2.0 * u) }
}

impl GcPolicy for CostBenefit {
    fn pick(&mut self, blocks: &Blocks, among: Range<u32>) -> Option<Block> {
        least_by(blocks, among, |block| -score(blocks, block))
    }

    fn boxed(&self) -> Box<dyn GcPolicy + Send> {
        Box::new(CostBenefit)
    }
}

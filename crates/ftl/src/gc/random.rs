//! Random: any candidate, each as likely.

use super::{GcPolicy, GcRow};
use crate::parts::blocks::Blocks;
use alloc::boxed::Box;
use core::ops::Range;
use flash::{Block, Rng};

pub(super) const ROW: GcRow = GcRow {
    name: "random",
    summary: "any candidate",
    source: "MQSim",
    ages: false,
    make: |rng| Box::new(Random { rng }),
};

#[derive(Debug)]
struct Random {
    rng: Rng,
}

/// A uniformly chosen candidate: drawn blindly a few times (most blocks are candidates), else counted out.
pub(super) fn candidate(blocks: &Blocks, among: Range<u32>, rng: &mut Rng) -> Option<Block> {
    let count = among.len() as u64;
    if count == 0 {
        return None;
    }
    for _ in 0..32 {
        let block = among.start + rng.below(count) as u32;
        if blocks.is_candidate(block) {
            return Some(Block(block));
        }
    }
    let candidates = among.clone().filter(|&block| blocks.is_candidate(block)).count() as u64;
    if candidates == 0 {
        return None;
    }
    let chosen = rng.below(candidates) as usize;
    among.filter(|&block| blocks.is_candidate(block)).nth(chosen).map(Block)
}

impl GcPolicy for Random {
    fn pick(&mut self, blocks: &Blocks, among: Range<u32>) -> Option<Block> {
        candidate(blocks, among, &mut self.rng)
    }

    fn boxed(&self) -> Box<dyn GcPolicy + Send> {
        Box::new(Random { rng: self.rng.clone() })
    }
    fn rng(&mut self) -> Option<&mut Rng> {
        Some(&mut self.rng)
    }
}

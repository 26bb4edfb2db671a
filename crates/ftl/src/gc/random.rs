//! Random: any candidate, each as likely; of those that are dead enough first, if `gc-dead-share` asks for it.

use super::{GcPolicy, GcRow};
use crate::blocks::Blocks;
use alloc::boxed::Box;
use core::ops::Range;
use flash::{Block, Rng};

pub(super) const ROW: GcRow = GcRow {
    name: "random",
    summary: "any candidate",
    source: "MQSim",
    ages: false,
    make: |rng, options| Box::new(Random { dead_share: options.dead_share, rng }),
};

#[derive(Clone, Debug)]
struct Random {
    dead_share: f64,
    rng: Rng,
}

/// A uniformly chosen candidate: drawn blindly a few times (most blocks are candidates), else counted out.
pub(super) fn candidate(blocks: &Blocks, among: Range<u32>, rng: &mut Rng) -> Option<Block> {
    one_of(|block| blocks.is_candidate(block), among, rng)
}

fn one_of(wanted: impl Fn(u32) -> bool, among: Range<u32>, rng: &mut Rng) -> Option<Block> {
    let count = among.len() as u64;
    if count == 0 {
        return None;
    }
    for _ in 0..32 {
        let block = among.start + rng.below(count) as u32;
        if wanted(block) {
            return Some(Block(block));
        }
    }
    let candidates = among.clone().filter(|&block| wanted(block)).count() as u64;
    if candidates == 0 {
        return None;
    }
    let chosen = rng.below(candidates) as usize;
    among.filter(|&block| wanted(block)).nth(chosen).map(Block)
}

impl GcPolicy for Random {
    fn pick(&mut self, blocks: &Blocks, among: Range<u32>) -> Option<Block> {
        let pages = blocks.geometry().pages_per_block;
        let most_live = f64::from(pages) * (1.0 - self.dead_share);
        let enough = |block: u32| blocks.is_candidate(block) && f64::from(blocks.live_of(Block(block))) <= most_live;
        let picked = if self.dead_share > 0.0 { one_of(enough, among.clone(), &mut self.rng) } else { None };
        picked.or_else(|| candidate(blocks, among, &mut self.rng))
    }

    fn boxed(&self) -> Box<dyn GcPolicy + Send> {
        Box::new(self.clone())
    }
    fn rng(&mut self) -> Option<&mut Rng> {
        Some(&mut self.rng)
    }
}

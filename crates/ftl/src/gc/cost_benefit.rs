//! Cost-benefit: space gained times age, over what reading and writing the live pages costs.
//!
//! With `u` the share of live pages: maximise `age · (1 − u) / 2u`; a block without live pages comes first.

use super::{GcPolicy, GcRow};
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

/// Blocks looked at together.
const CHUNK: usize = 128;

#[derive(Debug)]
struct CostBenefit;

/// Of a block with so many live pages of `pages`. Grows with age, and not with the live pages, also as rounded.
pub(super) fn score(live: u32, pages: u32, age: u64) -> f64 {
    let u = f64::from(live) / f64::from(pages);
    if live == 0 { f64::INFINITY } else { age as f64 * (1.0 - u) / (2.0 * u) }
}

impl GcPolicy for CostBenefit {
    fn pick(&mut self, blocks: &Blocks, among: Range<u32>) -> Option<Block> {
        let pages = blocks.geometry().pages_per_block;
        let live = &blocks.live_counts()[among.start as usize..among.end as usize];
        let mut best: Option<(f64, u32)> = None;
        // No block is older than the clock, so that with more live pages than this none is better than the best so far.
        // The least count of a chunk is vector code; most chunks are done with that.
        let mut most = pages as i16 - 1;
        for (chunk, counts) in live.chunks(CHUNK).enumerate() {
            if counts.iter().copied().fold(i16::MAX, i16::min) > most {
                continue;
            }
            for (block, &count) in (among.start + (chunk * CHUNK) as u32..).zip(counts) {
                if count > most {
                    continue;
                }
                let score_here = score(count as u32, pages, blocks.age(block));
                if best.is_none_or(|(best, _)| score_here > best) {
                    best = Some((score_here, block));
                    while most >= 0 && score(most as u32, pages, blocks.clock.max(1)) <= score_here {
                        most -= 1;
                    }
                }
            }
        }
        best.map(|(_, block)| Block(block))
    }

    fn boxed(&self) -> Box<dyn GcPolicy + Send> {
        Box::new(CostBenefit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks::FreeOrder;
    use flash::{Geometry, Ppn, Rng};

    /// All blocks scored one by one, the first of the best.
    fn by_all(blocks: &Blocks, among: Range<u32>) -> Option<Block> {
        let pages = blocks.geometry().pages_per_block;
        let candidates = among.filter(|&block| blocks.is_candidate(block));
        let scored = candidates.map(|block| (score(blocks.live_of(Block(block)), pages, blocks.age(block)), block));
        let best = scored.reduce(|best, next| if next.0 > best.0 { next } else { best });
        best.map(|(_, block)| Block(block))
    }

    #[test]
    fn a_bound_leaves_out_no_better_block() {
        for seed in 0..50 {
            let mut rng = Rng::new(seed);
            let g = Geometry { blocks_per_die: 700, pages_per_block: 16, ..Geometry::default() }.checked().unwrap();
            let mut blocks = Blocks::new(g, FreeOrder::Fifo, true);
            let fullest = 1 + rng.below(16);
            for block in 0..600 {
                blocks.open_block(Block(block)).unwrap();
                if rng.below(20) > 0 {
                    blocks.close(Block(block));
                }
            }
            for _ in 0..20 {
                for _ in 0..100 {
                    blocks.clock += rng.below(3);
                    let block = rng.below(600) as u32;
                    let at_least = 16 - fullest as u32;
                    if blocks.live_of(Block(block)) > at_least && blocks.is_closed(Block(block)) {
                        blocks.kill(Ppn(block * 16 + 16 - blocks.live_of(Block(block))));
                    }
                }
                for among in [0..700, 0..600, 100..130, 300..301] {
                    assert_eq!(CostBenefit.pick(&blocks, among.clone()), by_all(&blocks, among), "seed {seed}");
                }
            }
        }
    }
}

//! Cost-benefit: space gained times age, over what reading and writing the live pages costs.
//!
//! With `u` the share of live pages: maximise `age · (1 − u) / 2u`; a block without live pages comes first.

use super::{GcPolicy, GcRow};
use crate::blocks::Blocks;
use alloc::boxed::Box;
use core::ops::Range;
use flash::{Block, Die};

pub(super) const ROW: GcRow = GcRow {
    name: "cost-benefit",
    summary: "largest age × (1 − u) / 2u, age since the last program or invalidation",
    source: "{rose}, section 2.3; named in {lsftl} and {dftl}",
    ages: true,
    make: |_, _| Box::new(CostBenefit),
};

#[derive(Debug)]
struct CostBenefit;

/// Of a block with so many live pages of `pages`. Grows with age, also as rounded.
pub(super) fn score(live: u32, pages: u32, age: u64) -> f64 {
    let u = f64::from(live) / f64::from(pages);
    if live == 0 { f64::INFINITY } else { age as f64 * (1.0 - u) / (2.0 * u) }
}

impl GcPolicy for CostBenefit {
    fn pick(&mut self, blocks: &Blocks, among: Range<u32>) -> Option<Block> {
        let g = *blocks.geometry();
        if among.is_empty() {
            return None;
        }
        // Of blocks with equally many live pages the oldest is the best: one of each list is enough.
        let mut best: Option<(f64, u32)> = None;
        let dies = g.die_of(Block(among.start)).0..=g.die_of(Block(among.end - 1)).0;
        for (die, live) in dies.flat_map(|die| (0..g.pages_per_block).map(move |live| (Die(die), live))) {
            let mut inside = blocks.candidates_by_age(die, live).filter(|block| among.contains(block));
            let Some(oldest) = inside.next() else { continue };
            if live == 0 {
                // All are equally good; there may be many, and the counts are searched faster than the list.
                let counts = &blocks.live_counts()[among.start as usize..among.end as usize];
                return counts.iter().position(|&count| count == 0).map(|place| Block(among.start + place as u32));
            }
            let age = blocks.age(oldest);
            let score = score(live, g.pages_per_block, age);
            let block = inside.take_while(|&block| blocks.age(block) == age).fold(oldest, u32::min);
            if best.is_none_or(|(most, first)| score > most || score == most && block < first) {
                best = Some((score, block));
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
    use crate::{Loader, Saver};
    use flash::{Geometry, Rng};

    /// All blocks scored one by one, the first of the best.
    fn by_all(blocks: &Blocks, among: Range<u32>) -> Option<Block> {
        let pages = blocks.geometry().pages_per_block;
        let candidates = among.filter(|&block| blocks.is_candidate(block));
        let scored = candidates.map(|block| (score(blocks.live_of(Block(block)), pages, blocks.age(block)), block));
        let best = scored.reduce(|best, next| if next.0 > best.0 { next } else { best });
        best.map(|(_, block)| Block(block))
    }

    /// The same blocks, saved and loaded.
    fn reloaded(blocks: &Blocks) -> Blocks {
        let mut saver = Saver::default();
        blocks.save(&mut saver);
        let mut again = Blocks::new(*blocks.geometry(), FreeOrder::Fifo, true);
        again.load(&mut Loader::new(&saver.finish()));
        again
    }

    #[test]
    fn the_lists_hide_no_better_block() {
        for seed in 0..50 {
            let mut rng = Rng::new(seed);
            let g = Geometry { dies: 2, blocks_per_die: 350, pages_per_block: 16, ..Geometry::default() };
            let mut blocks = Blocks::new(g.checked().unwrap(), FreeOrder::Fifo, true);
            let fullest = rng.below(16) as u32;
            for block in 0..600 {
                blocks.open_block(Block(block)).unwrap();
                if rng.below(20) > 0 {
                    blocks.close(Block(block));
                }
            }
            for _ in 0..20 {
                for _ in 0..100 {
                    blocks.clock += rng.below(3);
                    let block = Block(rng.below(600) as u32);
                    let live = blocks.live_of(block);
                    match rng.below(20) {
                        0 if blocks.is_closed(block) => {
                            blocks.begin_collecting(block);
                            blocks.clock += rng.below(2);
                            blocks.stop_collecting(block);
                        }
                        1 if blocks.is_closed(block) && live > 0 => {
                            blocks.begin_collecting(block);
                            let (first, alive) = blocks.live_word(block, 0).unwrap();
                            blocks.kill_word(blocks.geometry().page(block, first), alive);
                            blocks.erased(block);
                            blocks.open_block(block).unwrap();
                            if rng.below(2) == 0 {
                                blocks.close_early(block, 10 + rng.below(7) as u32);
                            }
                        }
                        _ if live > fullest && blocks.is_closed(block) => {
                            let (first, _) = blocks.live_word(block, 0).unwrap();
                            blocks.kill(blocks.geometry().page(block, first));
                        }
                        _ => {}
                    }
                }
                let again = reloaded(&blocks);
                for among in [0..350, 350..700, 0..700, 100..130, 300..301, 5..5] {
                    let best = by_all(&blocks, among.clone());
                    assert_eq!(CostBenefit.pick(&blocks, among.clone()), best, "seed {seed}");
                    assert_eq!(CostBenefit.pick(&again, among), best, "seed {seed}, loaded");
                }
            }
        }
    }
}

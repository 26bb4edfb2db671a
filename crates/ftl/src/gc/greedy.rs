//! Greedy: the block with the fewest live pages, hence the cheapest to collect now.

use super::{GcPolicy, GcRow};
use crate::blocks::Blocks;
use alloc::boxed::Box;
use core::ops::Range;
use flash::Block;

pub(super) const ROW: GcRow = GcRow {
    name: "greedy",
    summary: "fewest live pages",
    source: "{rose}, {ecc}",
    ages: false,
    make: |_, _| Box::new(Greedy),
};

/// Blocks looked at together.
const CHUNK: usize = 128;

#[derive(Debug)]
struct Greedy;

/// The first candidate of a range with the fewest live pages.
pub(crate) fn fewest_live(blocks: &Blocks, among: Range<u32>) -> Option<Block> {
    let live = &blocks.live_counts()[among.start as usize..among.end as usize];
    // The least count of a chunk is vector code; only the first chunk that has the least of all is searched for it.
    let (mut least, mut start) = (i16::MAX, 0);
    for (chunk, counts) in live.chunks(CHUNK).enumerate() {
        let least_here = counts.iter().copied().fold(i16::MAX, i16::min);
        if least_here < least {
            (least, start) = (least_here, chunk * CHUNK);
        }
    }
    if least >= blocks.geometry().pages_per_block as i16 {
        return None;
    }
    let place = start + live[start..].iter().position(|&count| count == least)?;
    Some(Block(among.start + place as u32))
}

impl GcPolicy for Greedy {
    fn pick(&mut self, blocks: &Blocks, among: Range<u32>) -> Option<Block> {
        fewest_live(blocks, among)
    }

    fn boxed(&self) -> Box<dyn GcPolicy + Send> {
        Box::new(Greedy)
    }
}

//! FIFO: the block that was opened first, whatever it holds, and be it that no page of it is dead.

use super::{GcPolicy, GcRow};
use crate::blocks::Blocks;
use alloc::boxed::Box;
use core::ops::Range;
use flash::Block;

pub(super) const ROW: GcRow = GcRow {
    name: "fifo",
    summary: "the block opened longest ago",
    source: "{rose} (FAST's log area); closed form in docs/validation.md",
    ages: true,
    make: |_, _| Box::new(Fifo),
};

#[derive(Debug)]
struct Fifo;

impl GcPolicy for Fifo {
    fn pick(&mut self, blocks: &Blocks, among: Range<u32>) -> Option<Block> {
        among.filter(|&block| blocks.is_closed(Block(block))).min_by_key(|&block| blocks.opened(block)).map(Block)
    }

    fn boxed(&self) -> Box<dyn GcPolicy + Send> {
        Box::new(Fifo)
    }
}

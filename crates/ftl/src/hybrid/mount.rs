//! Mounting: the block map and the log area from spare areas alone.
//!
//! One rule serves the whole family, for it asks what a block holds and not what it was meant to be. Of every logical
//! page the newest version counts, of equal ones that which was programmed last (`parts/holdings.rs`). Which of the
//! blocks that hold such pages are data blocks is the placement's to say; whatever else holds them is a log block, and
//! a block that holds none is free. Three points make this safe at any cut:
//!
//! *A copy that was not finished is undone.* A block that holds nothing but copies is dropped (`parts/copies.rs`):
//! merges, swaps and moves copy into one block at a time, and erase nothing before it is complete. Without such blocks
//! no more blocks are in use than before the merge began.
//!
//! *A block whose erase was cut short may look as it did before.* Nothing in it is needed, but a page programmed into
//! it would not hold. So blocks found in use are sealed: their blank pages are not used until they are erased. Free
//! blocks are erased before their first use. Those with pages of which none counts are erased at once: were the block
//! with the newer pages discarded, and its erase cut short, these would count again, and take room.
//!
//! *There may be one log block more than the area has*: the target of a write of an entire block. The surplus is
//! cleaned before the host is served; the blocks kept free are enough for that.

use super::log::Slot;
use super::placement::{Held, Placement};
use super::state::Core;
use crate::parts::census::Kept;
use crate::parts::holdings::Holdings;
use crate::{MountReport, Outcome};
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use flash::{Block, Flash, Lpn, Ppn, ProgramOrder};

impl<P: Placement> Core<P> {
    /// Takes over what flash holds, and reports it before anything is changed. The log blocks found are closed, in the
    /// order in which they were begun.
    ///
    /// # Errors
    /// The medium's.
    pub fn adopt<F: Flash>(&mut self, flash: &mut F, report: &mut MountReport) -> Outcome<F> {
        let g = self.g;
        let in_order = P::APPENDS || g.order == ProgramOrder::Strict;
        let kept = Kept { count_at: self.pool.own_bytes(), log_ages: self.ages.is_some() };
        let mut found = Holdings::take(flash, kept, self.logical_pages(), 0, in_order)?;
        *report = found.report();
        for block in found.settle() {
            found.copies.give_up(block);
        }
        self.pool.erase_unneeded(flash, &found)?;
        self.pool.adopt(&found);
        self.version = found.census.max_version;
        let mut held = Held::new();
        for (lpn, ppn) in found.pages() {
            held.entry(g.block_of(ppn).0).or_default().push((lpn, ppn));
        }
        held.keys().for_each(|&block| self.written.fill(Block(block), true));
        for (lbn, block) in P::data_blocks(self, flash, &found, &held)? {
            self.data[lbn.index()] = block;
            for (lpn, _) in held.remove(&block).into_iter().flatten() {
                let (_, offset) = self.split(lpn);
                self.pool.blocks.revive(g.page(Block(block), offset));
            }
        }
        // What is left are log blocks.
        let begun = |block: u32| found.census.blocks[block as usize].map_or(0, |found| found.first_program);
        let mut logs: Vec<(u32, Vec<(Lpn, Ppn)>)> = held.into_iter().collect();
        logs.sort_by_key(|&(block, _)| begun(block));
        let mut slots: Vec<Slot> = Vec::with_capacity(logs.len());
        for (block, pages) in logs {
            let slot = self.add_log_block(Block(block));
            for (lpn, ppn) in pages {
                self.slots.put(slot, g.offset_of(ppn), lpn);
                self.pool.blocks.revive(ppn);
            }
            slots.push(slot);
        }
        self.map_log_pages();
        let told = self.ages_found(&found.census.log_begun, &slots);
        for (younger, (&slot, told)) in slots.iter().zip(told).rev().enumerate() {
            if let Some(scores) = &mut self.scores {
                // What flash does not tell: about as many log blocks were erased since as were begun.
                scores.set_age(slot, told.unwrap_or(younger as u64));
            }
            self.close(slot);
        }
        self.score_all();
        Ok(())
    }

    /// How old log blocks are, as far as flash tells: `begun` has what stands there, by block.
    fn ages_found(&mut self, begun: &BTreeMap<Block, u64>, slots: &[Slot]) -> Vec<Option<u64>> {
        let Some(ages) = &mut self.ages else { return vec![None; slots.len()] };
        let told = |&slot: &Slot| (slot, begun.get(&self.slots.block(slot)).copied());
        let logs: Vec<(Slot, Option<u64>)> = slots.iter().map(told).collect();
        ages.found(&logs, begun.values().copied().max().unwrap_or(0))
    }
}

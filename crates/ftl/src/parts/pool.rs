//! Blocks that are taken whole and given back whole: for schemes that fill many blocks at a time, each with pages that
//! belong together.
//!
//! A pool is a supply (`parts/supply.rs`) that hands out free blocks, and takes them back once they hold nothing
//! needed. What is mounted is *sealed*: an erase that was cut short may have left a block that reads as before and does
//! not take a program, so pages that were blank when power came back stay blank until the next erase.

use crate::parts::holdings::Holdings;
use crate::parts::supply::{self, Supply};
use crate::parts::wear::Task;
use crate::{Error, Loader, Outcome, Saver};
use alloc::vec::Vec;
use core::ops::{Deref, DerefMut};
use flash::{Block, Cause, Die, Flash, Geometry};

/// See the module's description. No block is ever a candidate of a page-level policy.
#[derive(Clone, Debug)]
pub struct Pool {
    supply: Supply,
    /// The die whose turn it is among dies with equally many free blocks.
    turn: u32,
}

impl Deref for Pool {
    type Target = Supply;
    #[inline(always)]
    fn deref(&self) -> &Supply {
        &self.supply
    }
}

impl DerefMut for Pool {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Supply {
        &mut self.supply
    }
}

impl Pool {
    /// All blocks free. `ages`: whether a policy wants to know when blocks were erased.
    pub fn new(g: Geometry, options: &supply::Options, ages: bool) -> Pool {
        Pool { supply: Supply::new(g, options, ages), turn: 0 }
    }

    /// While mounting: blocks that hold nothing that counts are erased, so that nothing in them ever counts again.
    ///
    /// # Errors
    /// The medium's.
    pub fn erase_unneeded<F: Flash>(&mut self, flash: &mut F, found: &Holdings) -> Outcome<F> {
        let used = found.blocks_in_use(self.blocks.geometry());
        for block in (0..used.len() as u32).map(Block) {
            if !used[block.index()] && found.census.blocks[block.index()].is_some() {
                self.cleanse(flash, block)?;
            }
        }
        Ok(())
    }

    /// While mounting: takes over what each block is. It is in use if it holds the copy of a page that counts; which of
    /// its pages are live is the caller's to say, and no policy ever sees it.
    pub fn adopt(&mut self, found: &Holdings) {
        let g = *self.blocks.geometry();
        let used = found.blocks_in_use(&g);
        self.supply.adopt(&found.census, |block| used[block.index()]);
        for block in (0..g.block_count()).map(Block).filter(|block| used[block.index()]) {
            if !self.blocks.is_bad(block) {
                self.blocks.begin_collecting(block);
            }
        }
    }

    /// Blocks that are free.
    #[inline(always)]
    pub fn free(&self) -> u32 {
        self.blocks.free_total()
    }

    /// Takes the block that [`Supply::open_next`] named, or a free block of the die with the most of them; among equals
    /// the dies take turns.
    ///
    /// # Errors
    /// Full, or the medium's.
    pub fn take<F: Flash>(&mut self, flash: &mut F) -> Outcome<F, Block> {
        if let Some((block, suspect)) = self.next.take().and_then(|next| self.blocks.open_block(next)) {
            self.blocks.discard_open(block);
            if !suspect || self.cleanse(flash, block)? {
                return Ok(block);
            }
        }
        loop {
            let dies = self.blocks.geometry().die_count();
            let after = |die: u32| (die + dies - self.turn) % dies;
            let richest = (0..dies).max_by_key(|&die| (self.blocks.free_in(Die(die)), dies - after(die)));
            let die = richest.expect("a device has a die");
            let (block, suspect) = self.blocks.open_blank(Die(die)).ok_or(Error::Full)?;
            self.turn = (die + 1) % dies;
            if !suspect || self.cleanse(flash, block)? {
                return Ok(block);
            }
        }
    }

    /// A program of a block failed: once it holds nothing it is marked bad.
    pub fn fail(&mut self, block: Block) {
        if !self.doomed.contains(&block) {
            self.doomed.push(block);
        }
    }

    /// A block that holds nothing needed is erased and free, or marked bad if it failed a program.
    ///
    /// # Errors
    /// The medium's.
    pub fn dispose<F: Flash>(&mut self, flash: &mut F, block: Block, cause: Cause) -> Outcome<F> {
        debug_assert_eq!(self.blocks.live_of(block), 0, "block {block} holds live pages");
        if let Some(place) = self.doomed.iter().position(|&doomed| doomed == block) {
            self.mark_bad(flash, block)?;
            self.doomed.remove(place);
            return Ok(());
        }
        self.erase(flash, block, cause)
    }

    /// The block that wear levelling wants moved, if there is one among those that the caller can move. It holds live
    /// pages.
    pub fn cold_among(&mut self, movable: impl Fn(Block) -> bool) -> Option<Task> {
        let Supply { blocks, doomed, wear, .. } = &mut self.supply;
        wear.task(|block| blocks.live_of(block) > 0 && !doomed.contains(&block) && movable(block))
    }

    /// Controller RAM, bytes.
    pub fn memory(&self) -> Vec<(&'static str, u64)> {
        let mut out = Vec::from(self.blocks.memory());
        out.push(("program number and failed blocks", 8 + 4 + 4 + self.doomed.len() as u64 * 4));
        out.extend(self.wear_memory());
        out
    }

    /// Saves the state.
    pub fn save(&self, out: &mut Saver) {
        self.blocks.save(out);
        out.u64(self.program);
        out.u32(self.turn);
        out.u32(self.doomed.len() as u32);
        self.doomed.iter().for_each(|block| out.u32(block.0));
        self.save_wear(out);
    }

    /// Loads what [`Pool::save`] saved, into a pool whose blocks are all free.
    pub fn load(&mut self, from: &mut Loader<'_>) {
        self.load_blocks(from);
        (self.program, self.turn) = (from.u64(), from.u32());
        self.doomed = (0..from.u32()).map(|_| Block(from.u32())).collect();
        self.load_wear(from);
    }
}

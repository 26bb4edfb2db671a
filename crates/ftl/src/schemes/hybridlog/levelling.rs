//! Wear levelling: the data of a cold block move to another, which takes over its part.
//!
//! A data block is written anew as a merge writes it, compact and with what the log has of its logical block, for that
//! is dead there afterwards; nothing else is merged. Of a log block the pages that count move to another block, one
//! behind the other, which takes its slot and its age. The copies are programmed before the cold block is erased, so
//! that a power cut leaves one or the other, as after a merge. A move takes one of the blocks that are kept free and
//! gives one back. In mode `swap` the data go to the most worn block, if that is free. A data block in which nothing
//! counts any more is not moved: it is erased when its logical block is merged.

use super::HybridLog;
use crate::Error;
use crate::hybrid::log::Slot;
use crate::hybrid::parameters::RESERVE;
use alloc::vec::Vec;
use flash::{Block, Cause, Collection, Flash, Kind, Lpn};

impl HybridLog {
    /// After an erase, when nothing is being merged or written whole: moves what wear levelling names.
    #[inline]
    pub(super) fn level<F: Flash>(&mut self, flash: &mut F) -> Result<(), Error<F::Fault>> {
        if self.pool.is_levelling_due() && self.techniques.blocks_held() == 0 { self.level_now(flash) } else { Ok(()) }
    }

    #[cold]
    fn level_now<F: Flash>(&mut self, flash: &mut F) -> Result<(), Error<F::Fault>> {
        let slots = &self.slots;
        let movable = |block: Block| slots.of(block).is_none_or(|slot| slots.is_closed(slot));
        let task = self.pool.cold_among(movable);
        let Some(task) = task.filter(|task| self.pool.has_target(task)) else { return Ok(()) };
        if self.pool.free() < RESERVE {
            return Ok(());
        }
        self.pool.take_next(task.worn);
        let moved = self.move_block(flash, task.cold);
        self.pool.take_next(None);
        match moved {
            // Blocks went bad: what is left is for the host.
            Err(Error::Full) => Ok(()),
            moved => moved,
        }
    }

    fn move_block<F: Flash>(&mut self, flash: &mut F, cold: Block) -> Result<(), Error<F::Fault>> {
        let mut gc = Collection::on(flash);
        match self.slots.of(cold) {
            Some(slot) => {
                let target = self.pool.take(&mut *gc)?;
                if !self.move_log_block(&mut *gc, slot, target)? {
                    return self.pool.dispose(&mut *gc, target, Cause::WearLevelling);
                }
            }
            None => {
                let lbn = self.data.iter().position(|&block| block == cold.0).expect("what is no log block is data");
                self.write_anew(&mut *gc, lbn as u32, Cause::WearLevelling)?;
            }
        }
        gc.then();
        self.pool.dispose(&mut *gc, cold, Cause::WearLevelling)
    }

    /// The pages of a closed log block that count go to another block, which takes its slot. False if a program failed.
    fn move_log_block<F: Flash>(&mut self, flash: &mut F, slot: Slot, to: Block) -> Result<bool, Error<F::Fault>> {
        let from = self.slots.block(slot);
        let mut moved: Vec<Lpn> = Vec::new();
        let mut at = self.pool.blocks.next_live(from, 0);
        while let Some(page) = at {
            let target = self.g.page(to, moved.len() as u32);
            if !self.copy(flash, self.g.page(from, page), target, Kind::Log, Cause::WearLevelling)? {
                return Ok(false);
            }
            moved.push(self.slots.lpn_at(slot, page));
            at = self.pool.blocks.next_live(from, page + 1);
        }
        self.pool.blocks.shorten(from, 0);
        self.slots.rename(slot, to);
        if let Some(scores) = &mut self.scores {
            scores.rename(slot, to);
        }
        for (page, lpn) in (0..).zip(moved) {
            let ppn = self.g.page(to, page);
            self.slots.put(slot, page, lpn);
            self.pool.blocks.revive(ppn);
            self.log_map[lpn.index()] = ppn.0;
        }
        Ok(true)
    }
}

//! Wear levelling: the data of a cold block move to another block, which takes over its part.
//!
//! In place they go to the same places: a data block stays one, and so does a log block, and nothing is merged. Where
//! blocks are appended to, gaps are closed: a data block is written anew as a merge writes it, with what the log has of
//! its logical block, for that is dead there afterwards; of a log block the live pages follow each other in the block
//! that takes its slot and its age.
//!
//! The copies are programmed before the cold block is erased, so that a power cut leaves one or the other (mount.rs). A
//! move takes one of the blocks that are kept free and gives one back. In mode `swap` the data go to the most worn
//! block, if that is free.

use super::parameters::RESERVE;
use super::placement::Placement;
use super::state::Core;
use crate::Error;
use crate::Outcome;
use alloc::vec::Vec;
use flash::{Block, Cause, Collection, Flash, Kind, Lbn};

impl<P: Placement> Core<P> {
    /// After an erase, when nothing is being merged: moves what wear levelling names.
    ///
    /// # Errors
    /// The medium's.
    #[inline]
    pub fn level<F: Flash>(&mut self, flash: &mut F) -> Outcome<F> {
        if self.pool.is_levelling_due() { self.level_now(flash) } else { Ok(()) }
    }

    #[cold]
    fn level_now<F: Flash>(&mut self, flash: &mut F) -> Outcome<F> {
        // A data block, or a log block that nobody fills.
        let slots = &self.slots;
        let task = self.pool.cold_among(|block| slots.of(block).is_none_or(|slot| slots.is_closed(slot)));
        let Some(task) = task.filter(|task| !P::APPENDS || self.pool.can_take(task)) else { return Ok(()) };
        // A merge must find a free block at any time.
        if self.pool.free() < RESERVE {
            return Ok(());
        }
        self.pool.open_next(task.worn);
        let moved = match self.slots.of(task.cold) {
            None if P::APPENDS => self.write_anew(flash, task.cold),
            _ => self.move_block(flash, task.cold),
        };
        self.pool.open_next(None);
        match moved {
            // Blocks went bad: what is left is for the host.
            Err(Error::Full) => Ok(()),
            moved => moved,
        }
    }

    fn logical_block_of(&self, block: Block) -> Lbn {
        self.lbn_of(block).expect("what is no log block is data")
    }

    fn write_anew<F: Flash>(&mut self, flash: &mut F, cold: Block) -> Outcome<F> {
        let mut gc = Collection::on(flash);
        self.full_merge(&mut *gc, self.logical_block_of(cold), Cause::WearLevelling, None)?;
        gc.then();
        self.dispose(&mut *gc, cold, Cause::WearLevelling)
    }

    /// What is live in a block goes to another, which takes over its part.
    fn move_block<F: Flash>(&mut self, flash: &mut F, cold: Block) -> Outcome<F> {
        let target = self.take_block(flash)?;
        let kind = P::APPENDS.then_some(Kind::Log);
        let mut gc = Collection::on(flash);
        let mut moved: Vec<(u32, u32)> = Vec::new();
        let mut at = self.pool.blocks.next_live(cold, 0);
        while let Some(offset) = at {
            let to = if P::APPENDS { moved.len() as u32 } else { offset };
            let pages = (self.g.page(cold, offset), self.g.page(target, to));
            if !self.pad(&mut *gc, target, to, Cause::WearLevelling)?
                || !self.copy(&mut *gc, pages, kind, Cause::WearLevelling)?
            {
                return self.dispose(&mut *gc, target, Cause::WearLevelling);
            }
            moved.push((offset, to));
            at = self.pool.blocks.next_live(cold, offset + 1);
        }
        gc.then();
        self.replace(cold, target, &moved);
        self.dispose(&mut *gc, cold, Cause::WearLevelling)
    }

    /// A block takes over the part of another, whose live pages were copied.
    fn replace(&mut self, from: Block, to: Block, moved: &[(u32, u32)]) {
        let slot = self.slots.of(from);
        match slot {
            None => {
                let lbn = self.logical_block_of(from);
                self.data[lbn.index()] = to.0;
            }
            Some(slot) => {
                // Its dead places are of no use any more, and it stays as old as it was.
                self.slots.rename(slot, to);
                if let Some(scores) = &mut self.scores {
                    scores.rename(slot, to);
                }
            }
        }
        for &(source, target) in moved {
            self.pool.blocks.kill(self.g.page(from, source));
            self.pool.blocks.revive(self.g.page(to, target));
            if let Some(slot) = slot {
                let lpn = self.slots.lpn_at(slot, source);
                self.slots.put(slot, target, lpn);
                self.log_map[lpn.index()] = self.g.page(to, target).0;
            }
        }
    }
}

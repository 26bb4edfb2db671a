//! Wear levelling: the data of a cold block move to the same places of another block, which takes over its part.
//!
//! A data block stays one, and so does a log block: nothing is merged. The copies are programmed before the cold block
//! is erased, so that a power cut leaves one or the other (mount.rs). A move takes one of the blocks that are kept free
//! and gives one back. In mode `swap` the data go to the most worn block, if that is free.

use super::core::Core;
use crate::Error;
use flash::{Block, Cause, Collection, FaultKind, Flash, FlashFault};

/// Free blocks without which nothing is moved: a merge must find one at any time.
const LEAST_FREE: u32 = 2;

impl Core {
    /// After an erase, when nothing is being merged: moves what wear levelling names.
    ///
    /// # Errors
    /// The medium's.
    #[inline]
    pub fn level<F: Flash>(&mut self, flash: &mut F) -> Result<(), Error<F::Fault>> {
        if self.pool.is_levelling_due() { self.level_now(flash) } else { Ok(()) }
    }

    #[cold]
    fn level_now<F: Flash>(&mut self, flash: &mut F) -> Result<(), Error<F::Fault>> {
        // A data block, or a log block that nobody fills.
        let slots = &self.slots;
        let task = self.pool.cold_among(|block| slots.of(block).is_none_or(|slot| slots.is_closed(slot)));
        let Some(task) = task.filter(|_| self.pool.free() >= LEAST_FREE) else { return Ok(()) };
        self.pool.take_next(task.worn);
        let target = match self.take_block(flash) {
            Err(Error::Full) => return Ok(()),
            taken => taken?,
        };
        let mut gc = Collection::on(flash);
        if !self.copy_block(&mut *gc, task.cold, target)? {
            self.doom(target);
            return self.dispose(&mut *gc, target, Cause::WearLevelling);
        }
        gc.then();
        self.replace(task.cold, target);
        self.dispose(&mut *gc, task.cold, Cause::WearLevelling)
    }

    /// Copies what is live in a block to the same places of another; noted in `moved`. False if a program failed.
    fn copy_block<F: Flash>(&mut self, flash: &mut F, from: Block, to: Block) -> Result<bool, Error<F::Fault>> {
        self.moved.clear();
        let mut at = self.pool.blocks.next_live(from, 0);
        while let Some(offset) = at {
            if !self.pad(flash, to, offset, Cause::WearLevelling)? {
                return Ok(false);
            }
            let (source, target, program) = (self.g.page(from, offset), self.g.page(to, offset), self.pool.number());
            self.written.set(target);
            match flash.copy(source, target, Cause::WearLevelling, |oob, _| oob.program = program) {
                Ok(_) => self.moved.push(offset),
                Err(fault) if fault.kind() == FaultKind::ProgramFailed => return Ok(false),
                Err(fault) => return Err(fault.into()),
            }
            at = self.pool.blocks.next_live(from, offset + 1);
        }
        Ok(true)
    }

    /// A block takes over the part of another, whose live pages were copied to the same places.
    fn replace(&mut self, from: Block, to: Block) {
        let moved = core::mem::take(&mut self.moved);
        for &offset in &moved {
            self.pool.blocks.kill(self.g.page(from, offset));
            self.pool.blocks.revive(self.g.page(to, offset));
        }
        match self.slots.of(from) {
            None => {
                let lbn = self.data.iter().position(|&block| block == from.0).expect("what is no log block is data");
                self.data[lbn] = to.0;
            }
            Some(slot) => {
                // Its dead places are of no use any more, and it stays as old as it was.
                self.slots.rename(slot, to);
                for &offset in &moved {
                    self.log_map[self.slots.lpn_at(slot, offset).index()] = self.g.page(to, offset).0;
                }
                if let Some(scores) = &mut self.scores {
                    scores.rename(slot, to);
                }
            }
        }
        self.moved = moved;
    }
}

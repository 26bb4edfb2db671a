//! Wear levelling and refresh: the data of a block move to another block, which takes over its part.
//!
//! In place they go to the same places: a data block stays one, and so does a log block, and nothing is merged. Where
//! blocks are appended to, gaps are closed: a data block is written anew as a merge writes it, with what the log has of
//! its logical block, for that is dead there afterwards; of a log block the live pages follow each other in the block
//! that takes its slot and its age.
//!
//! The copies are programmed before the cold block is erased, so that a power cut leaves one or the other (mount.rs). A
//! move takes one of the blocks that are kept free and gives one back. In mode `swap` the data go to the most worn
//! block, if that is free.
//!
//! A tired block (`parts/refresh.rs`) is moved in the same way, and a log block that is being filled as well: it is
//! filled further where it is then. A data block in which nothing counts is erased.

use super::log::NONE;
use super::parameters::reserve;
use super::placement::Placement;
use super::state::Core;
use crate::parts::refresh;
use crate::{Error, Outcome};
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
        if self.pool.free() < reserve(&self.g) {
            return Ok(());
        }
        self.pool.open_next(task.worn);
        let moved = self.relocate(flash, task.cold, Cause::WearLevelling);
        self.pool.open_next(None);
        match moved {
            // Blocks went bad: what is left is for the host.
            Err(Error::Full) => Ok(()),
            moved => moved,
        }
    }

    /// Refreshes the first tired block that can be; whether there was one. Nothing is being merged.
    ///
    /// # Errors
    /// The medium's.
    pub fn refresh<F: Flash>(&mut self, flash: &mut F) -> Outcome<F, bool> {
        refresh::first(flash, |flash, block| self.refresh_block(flash, block))
    }

    #[cold]
    fn refresh_block<F: Flash>(&mut self, flash: &mut F, block: Block) -> Outcome<F, bool> {
        if let Some(done) = self.pool.refresh_unused(flash, block)? {
            return Ok(done);
        }
        if self.slots.of(block).is_none() {
            let Some(lbn) = self.lbn_of(block) else { return Ok(false) };
            if !P::APPENDS && self.pool.blocks.live_of(block) == 0 {
                self.change_terms(lbn, |core| core.data[lbn.index()] = NONE);
                return self.dispose(flash, block, Cause::Refresh).map(|()| true);
            }
        }
        self.relocate(flash, block, Cause::Refresh).map(|()| true)
    }

    /// What is live in a block goes elsewhere, and it is erased.
    fn relocate<F: Flash>(&mut self, flash: &mut F, block: Block, cause: Cause) -> Outcome<F> {
        match self.slots.of(block) {
            None if P::APPENDS => self.rewrite(flash, self.logical_block_of(block), cause),
            _ => self.in_merge(flash, |core, gc| core.move_block(gc, block, cause)),
        }
    }

    fn logical_block_of(&self, block: Block) -> Lbn {
        self.lbn_of(block).expect("what is no log block is data")
    }

    /// What is live in a block goes to another, which takes over its part.
    fn move_block<F: Flash>(&mut self, gc: &mut Collection<'_, F>, cold: Block, cause: Cause) -> Outcome<F> {
        let target = self.take_block(&mut **gc)?;
        let kind = P::APPENDS.then_some(Kind::Log);
        let age = self.slots.of(cold).and_then(|slot| Some(self.ages.as_ref()?.carry(slot)));
        let mut moved: Vec<(u32, u32)> = Vec::new();
        let mut at = self.pool.blocks.next_live(cold, 0);
        while let Some(offset) = at {
            let to = if P::APPENDS { moved.len() as u32 } else { offset };
            let pages = (self.g.page(cold, offset), self.g.page(target, to));
            if !self.pad(&mut **gc, target, to, cause)? {
                return self.dispose(&mut **gc, target, cause);
            }
            if let Some(own) = &age {
                self.pool.stage_spare(&mut **gc, pages.1, own.clone());
            }
            if !self.copy(&mut **gc, pages, kind, cause)? {
                return self.dispose(&mut **gc, target, cause);
            }
            moved.push((offset, to));
            at = self.pool.blocks.next_live(cold, offset + 1);
        }
        gc.then();
        self.replace(cold, target, &moved);
        self.dispose(&mut **gc, cold, cause)
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
                if P::APPENDS {
                    self.slots.advance(slot, moved.len() as u32);
                }
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

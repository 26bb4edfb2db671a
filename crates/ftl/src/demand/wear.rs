//! Wear levelling in the demand-paged engine: the pages of a cold block go where collected pages of its sort go, and it
//! is erased.
//!
//! A cold data block with `v` live pages takes `v` data pages and at most `k` translation pages, as in a collection,
//! and kills `k`; the cold block is free afterwards. So the pages that hold something stay as many, and what is taken
//! of the translation blocks is dead there. A move is begun only when room was made, and only if it leaves the free
//! blocks that a host page may need: then room is made again, which ends as it did before, and is not needed for the
//! page. There is at most one move each time that room is made.
//!
//! In mode `swap` the block that is opened for the move is the most worn one, if that is free and on this die.

use super::cache::Cache;
use super::map::Store;
use super::{Demand, TRANSLATION};
use crate::Error;
use crate::parts::space::Fate;
use flash::{Block, Cause, Flash};

impl<C: Cache, S: Store> Demand<C, S> {
    /// A block was erased: moves the data of the block that wear levelling names; whether it named one.
    #[cold]
    pub(super) fn level<F: Flash>(&mut self, flash: &mut F) -> Result<bool, Error<F::Fault>> {
        // Discards that are to be written before an erase would take room of their own.
        if self.map.durable_trim && !self.map.trimmed.is_empty() {
            return Ok(false);
        }
        let mut wear = self.map.space.take_wear();
        let task = wear.task(|block| self.may_move(block));
        self.map.space.put_wear(wear);
        let Some(task) = task.filter(|task| self.map.space.can_take(task)) else { return Ok(false) };
        self.map.space.open_next(task.worn);
        let moved = self.collect(flash, task.cold, Fate::Erase, Some(Cause::WearLevelling));
        self.map.space.open_next(None);
        match moved {
            // Programs failed and took the room: there may be enough for the host page.
            Ok(()) | Err(Error::Full) => Ok(true),
            Err(error) => Err(error),
        }
    }

    fn may_move(&self, block: Block) -> bool {
        let space = &self.map.space;
        if !space.is_movable(block) {
            return false;
        }
        // Lanes of several dies may be full one after the other, while others have room.
        let lanes = space.streams[TRANSLATION].count() as u32;
        let updates = if space.is_translation(block) { 0 } else { space.blocks.live_of(block).min(lanes) };
        let takes = self.needs(block).max(1 + updates);
        takes + self.least <= space.blocks.free_total() + 1
    }
}

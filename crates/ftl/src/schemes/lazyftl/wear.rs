//! Wear levelling of `lazyftl`: the pages of a cold data block go to the cold area, those of a cold mapping block to
//! the mapping area, and it is erased. Blocks of the two small areas wear by themselves and are left alone.
//!
//! A cold block takes as many pages as it has live ones, and is free afterwards. A move is begun only when room was
//! made, and only if it leaves the free blocks that a host page may need, which includes the mapping pages of a convert
//! if the cold area is full. Then room is made again, which ends as it did before, and is not needed for the page.
//! There is at most one move each time that room is made. (A convert is what every full area is emptied by, and counts
//! as such.)
//!
//! In mode `swap` the block that is opened for the move is the most worn one, if that is free and on this die.

use super::{COLD, LEAST, LazyFtl, MAPPING};
use crate::Error;
use crate::parts::space::Fate;
use flash::{Block, Cause, Flash};

impl LazyFtl {
    /// A block was erased: moves the data of the block that wear levelling names; whether anything was done.
    #[cold]
    pub(super) fn level<F: Flash>(&mut self, flash: &mut F) -> Result<bool, Error<F::Fault>> {
        // Discards that are to be written before an erase would take room of their own.
        if self.discards() > 0 {
            return Ok(false);
        }
        let mut wear = self.space.take_wear();
        let task = wear.task(|block| self.may_move(block, 0));
        self.space.put_wear(wear);
        let Some(task) = task.filter(|task| self.space.can_take(task)) else { return Ok(false) };
        let die = self.space.blocks.geometry().die_of(task.cold).index();
        let opens = self.space.streams[COLD].room(die) < self.space.blocks.live_of(task.cold);
        if opens
            && !self.space.is_translation(task.cold)
            && self.table.is_full(COLD)
            && let Some((block, cost)) = self.convertible(Some(COLD))
        {
            let lanes = self.space.streams[MAPPING].count() as u32;
            if !self.may_move(task.cold, self.blocks_for(MAPPING, cost).max(cost.min(lanes))) {
                return Ok(false);
            }
            self.convert(flash, block)?;
        }
        self.space.open_next(task.worn);
        let moved = self.collect(flash, task.cold, Fate::Erase, Some(Cause::WearLevelling));
        self.space.open_next(None);
        match moved {
            // Programs failed and took the room: there may be enough for the host page.
            Ok(()) | Err(Error::Full) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Whether a block may be moved that takes so many free blocks beside what its pages do.
    fn may_move(&self, block: Block, beside: u32) -> bool {
        let takes = self.needs(block).max(1) + beside;
        self.space.is_movable(block) && takes + LEAST <= self.space.blocks.free_total() + 1
    }
}

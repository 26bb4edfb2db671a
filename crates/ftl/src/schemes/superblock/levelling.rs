//! Wear levelling of `superblock`: the pages of a cold block go where its superblock writes, and it is erased.
//!
//! A move is a collection of that block, and takes no room: its live pages take what is left of the block that the
//! superblock fills and, if that is not enough, a free one, and it becomes free itself. In mode `swap` that free one is
//! the most worn block. Map pages are moved likewise, in their log. Whose block it is, firmware learns as this does:
//! from the spare area of a page that is live in it.
//!
//! A tired block (`parts/refresh.rs`) is moved in the same way, also one that is being filled.

use super::{CLOSED, Open, Stream, Super, Superblock};
use crate::parts::refresh;
use crate::parts::spare_map::BlockSlot;
use crate::{Error, Outcome};
use flash::{Block, Cause, Flash, Kind, Oob};

impl Superblock {
    /// A block was erased: moves what is in the block that wear levelling names, if it names one.
    #[cold]
    #[inline(never)]
    pub(super) fn level<F: Flash>(&mut self, flash: &mut F) -> Outcome<F> {
        let task = self.pool.cold_among(|_| true);
        let Some(task) = task.filter(|task| self.pool.can_take(task) && self.free() > 0) else { return Ok(()) };
        let Some(oob) = self.spare_in(flash, task.cold)? else { return Ok(()) };
        self.pool.open_next(task.worn);
        let moved = match (&mut self.log, oob.kind) {
            (Some(log), Kind::Translation) => log.collect(flash, &mut self.pool, task.cold, Cause::WearLevelling),
            _ => {
                let s = (oob.address < self.logical_pages).then(|| self.super_of(self.split(oob.lpn()).0));
                let slot = s.and_then(|s| Some((s, self.slot(s, |block| block == task.cold.0)?)));
                // What stands in the spare area may be of another superblock, or of none.
                match slot {
                    Some((s, slot)) => self.collect(flash, s, slot, Cause::WearLevelling),
                    None => Err(Error::Corrupt),
                }
            }
        };
        self.pool.open_next(None);
        match moved {
            // Programs failed and took the room. Nobody needs the move now.
            Err(Error::Full) => Ok(()),
            moved => moved,
        }
    }

    /// Refreshes the first tired block that can be; whether there was one.
    pub(super) fn refresh<F: Flash>(&mut self, flash: &mut F) -> Outcome<F, bool> {
        refresh::first(flash, |flash, block| self.refresh_block(flash, block))
    }

    #[cold]
    fn refresh_block<F: Flash>(&mut self, flash: &mut F, block: Block) -> Outcome<F, bool> {
        if let Some(done) = self.pool.refresh_unused(flash, block)? {
            return Ok(done);
        }
        if let Some(log) = self.log.as_mut().filter(|log| log.has(block)) {
            return log.collect(flash, &mut self.pool, block, Cause::Refresh).map(|()| true);
        }
        let Some(at) = self.blocks.iter().position(|&other| other == block.0) else { return Ok(false) };
        let s = Super((at / self.k) as u32);
        // Its pages, if it has any, go into the block that the superblock fills with what it keeps: if that is tired,
        // it comes first.
        let moves = self.pool.blocks.live_of(block) > 0;
        let Open { slot: filled, .. } = *self.filled(s, Stream::Kept);
        let is_tired = |&slot: &BlockSlot| flash.tired(self.block(s, slot)) == Some(self.block(s, slot));
        let slot = Some(filled).filter(|&slot| moves && slot != CLOSED).filter(is_tired);
        let slot = slot.unwrap_or(BlockSlot((at % self.k) as u8));
        if self.pool.blocks.live_of(self.block(s, slot)) > 0 && self.free() == 0 {
            return Ok(false);
        }
        self.collect(flash, s, slot, Cause::Refresh).map(|()| true)
    }

    /// The spare area of the first live page of a block that has one to be read. Where no page has, only a mount can
    /// tell whose block it is, and it is not moved.
    fn spare_in<F: Flash>(&self, flash: &mut F, block: Block) -> Outcome<F, Option<Oob>> {
        let mut next = 0;
        while let Some(page) = self.pool.blocks.next_live(block, next) {
            let oob = flash.read_oob(self.g.page(block, page), Cause::WearLevelling)?;
            if let Some(oob) = oob.filter(|oob| oob.kind != Kind::Torn) {
                return Ok(Some(oob));
            }
            next = page + 1;
        }
        Ok(None)
    }
}

//! The blocks of a superblock: how many it may have, which gives one back, and which is collected.

use super::{CLOSED, NONE, Open, RESERVE, SEALED, Stream, Super, Superblock, reserve};
use crate::Error;
use crate::Outcome;
use crate::parts::map_log::MapLog;
use crate::parts::spare_map::BlockSlot;
use flash::{Block, Cause, Chain, Collection, Flash};

impl Superblock {
    /// The blocks of a superblock were `before` many, and are others now.
    pub(super) fn note_blocks(&mut self, s: Super, before: usize) {
        let (held, own) = (self.held(s), self.lbns(s).len());
        self.counters.most = self.counters.most.max(held as u64);
        self.beyond += held.saturating_sub(own) as u32;
        self.beyond -= before.saturating_sub(own) as u32;
        if held > own {
            self.rich.insert(s)
        } else {
            self.rich.remove(&s)
        };
    }

    /// Free blocks, those aside that are left for map pages.
    pub(super) fn free(&self) -> u32 {
        self.pool.free().saturating_sub(self.log.as_ref().map_or(0, MapLog::owed))
    }

    /// The block that a superblock fills with these pages.
    #[inline(always)]
    pub(super) fn filled(&mut self, s: Super, stream: Stream) -> &mut Open {
        match self.kept.get_mut(s.index()) {
            Some(kept) if stream == Stream::Kept => kept,
            _ => &mut self.open[s.index()],
        }
    }

    /// A block that a superblock fills, if it is that, takes no further page.
    pub(super) fn seal(&mut self, s: Super, slot: BlockSlot) {
        for stream in [Stream::Host, Stream::Kept] {
            let filled = self.filled(s, stream);
            if filled.slot == slot {
                *filled = SEALED;
            }
        }
    }

    /// What follows goes to a block that was free: when the collections before have ended. A power cut with several
    /// commands under way that left their victims in use and such a block too would leave no block to collect with, or
    /// in this superblock no slot.
    pub(super) fn wait_for_collections<F: Flash>(&mut self, flash: &mut F) {
        Collection::resume(flash, self.collected).wait();
        self.unsure.clear();
    }

    /// Whether a block more for what is kept could leave, with a power cut, no free block or no slot to collect with.
    fn must_wait(&self, s: Super) -> bool {
        let own = self.unsure.get(&s).copied().unwrap_or(0) as usize;
        self.held(s) + own + 1 >= self.k || self.free() < self.unsure.values().sum::<u32>() + RESERVE
    }

    /// Gives a superblock a free block to fill.
    pub(super) fn open_block<F: Flash>(&mut self, flash: &mut F, s: Super, stream: Stream) -> Outcome<F> {
        let slot = self.slot(s, |block| block == NONE).ok_or(Error::Full)?;
        match stream {
            Stream::Host => self.wait_for_collections(flash),
            Stream::Kept => {
                if self.must_wait(s) {
                    self.wait_for_collections(flash);
                    // Within a collection, whose commands do not follow each other.
                    flash.chain(Chain::AFTER);
                }
                if self.kept.is_empty() {
                    self.shared.insert(s);
                }
            }
        }
        let (block, held) = (self.pool.take(flash)?, self.held(s));
        *self.block_mut(s, slot) = block.0;
        *self.filled(s, stream) = Open { slot, next: 0 };
        self.note_blocks(s, held);
        Ok(())
    }

    /// Ends a block in which nothing is live.
    pub(super) fn release<F: Flash>(&mut self, flash: &mut F, s: Super, slot: BlockSlot, cause: Cause) -> Outcome<F> {
        let (block, held) = (self.block(s, slot), self.held(s));
        self.seal(s, slot);
        self.pool.dispose(flash, block, cause)?;
        *self.block_mut(s, slot) = NONE;
        self.note_blocks(s, held);
        *self.unsure.entry(s).or_insert(0) += 1;
        Ok(())
    }

    /// Whether the block that a superblock fills with these pages has one left.
    #[inline(always)]
    pub(super) fn has_room(&mut self, s: Super, stream: Stream) -> bool {
        let Open { slot, next } = *self.filled(s, stream);
        slot != CLOSED && u32::from(next) < self.g.pages_per_block
    }

    /// Makes room for a host page.
    pub(super) fn make_room<F: Flash>(&mut self, flash: &mut F, s: Super) -> Outcome<F> {
        if self.has_room(s, Stream::Host) {
            return Ok(());
        }
        self.open[s.index()] = SEALED;
        let is_dead = |block: u32| block != NONE && self.pool.blocks.live_of(Block(block)) == 0;
        if let Some(slot) = self.slot(s, is_dead) {
            self.collect(flash, s, slot, Cause::DataGc)?;
        }
        while self.is_short(s) {
            let other = self.richest().ok_or(Error::Full)?;
            self.give_back(flash, other)?;
        }
        if self.has_room(s, Stream::Host) {
            return Ok(());
        }
        if self.may_grow(s) {
            return self.open_block(flash, s, Stream::Host);
        }
        for _ in 0..2 * self.k {
            let victim = self.victim(s).ok_or(Error::Full)?;
            self.collect(flash, s, victim, Cause::DataGc)?;
            if self.has_room(s, Stream::Host) {
                return Ok(());
            }
            // What was kept has a block of its own, which is to leave one for the host.
            if self.kept.is_empty() || self.may_grow(s) {
                return self.open_block(flash, s, Stream::Host);
            }
        }
        Err(Error::Full)
    }

    /// Whether a superblock may have another block: one is set apart for collections.
    pub(super) fn may_grow(&self, s: Super) -> bool {
        self.held(s) + 1 < self.k
    }

    /// Whether some superblock must give a block back before this one takes another.
    pub(super) fn is_short(&self, s: Super) -> bool {
        let beyond = self.held(s) >= self.lbns(s).len() && self.may_grow(s);
        // A device that was formatted with fewer blocks to spare makes do with them.
        let least = if self.rich.is_empty() { RESERVE } else { reserve(&self.g) };
        self.free() < least || (beyond && self.beyond >= self.most_beyond)
    }

    /// The superblock that is to give a block back.
    pub(super) fn richest(&self) -> Option<Super> {
        let order = |s: &Super| match self.written.get(s.index()) {
            Some(&written) => written,
            None => {
                let beyond = self.held(*s) - self.lbns(*s).len();
                (u64::from(self.live(*s)) << 32) / beyond as u64
            }
        };
        self.rich.iter().copied().min_by_key(order)
    }

    /// Has a superblock with more blocks than logical ones give one back, by at most as many collections as it has
    /// blocks; where programs fail, twice as many.
    pub(super) fn give_back<F: Flash>(&mut self, flash: &mut F, s: Super) -> Outcome<F> {
        self.counters.reclaims += 1;
        let held = self.held(s);
        for _ in 0..2 * self.k {
            let victim = self.victim(s).ok_or(Error::Full)?;
            self.collect(flash, s, victim, Cause::DataGc)?;
            if self.held(s) < held {
                return Ok(());
            }
        }
        Err(Error::Full)
    }

    /// The block of a superblock with the fewest live pages, if it has a dead one; the one that the host fills only if
    /// there is no other, and the one with what was kept last of all.
    pub(super) fn victim(&self, s: Super) -> Option<BlockSlot> {
        let kept = self.kept.get(s.index()).map_or(CLOSED, |kept| kept.slot);
        let rank = |slot| 2 * u32::from(slot == kept) + u32::from(slot == self.open[s.index()].slot);
        let candidates = (0..).map(BlockSlot).zip(self.slots(s)).filter(|&(_, &block)| block != NONE);
        let candidates = candidates.map(|(slot, &block)| (rank(slot), self.pool.blocks.live_of(Block(block)), slot));
        let (_, _, slot) = candidates.filter(|&(_, live, _)| live < self.g.pages_per_block).min()?;
        Some(slot)
    }
}

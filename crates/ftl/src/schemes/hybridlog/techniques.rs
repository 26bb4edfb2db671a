//! What `rose-log` adds: entire-block writing and free page reuse. What the essay of `schemes/rose_log.rs` says of them
//! is done here.
//!
//! A logical block that is written whole is in three places until its last page is there: the block that takes the
//! request, which holds the offsets below `next`, each at its own place; the log; and the old data block. Whoever looks
//! a page up finds it in one of them alone. If the request breaks off, the rest is copied behind what was written.

use super::{Filled, HybridLog};
use crate::hybrid::Announced;
use crate::hybrid::log::{NONE, Slot};
use crate::hybrid::parameters::RESERVE;
use crate::hybrid::score::Scores;
use crate::parts::spare_map::{BlockMap, Layout, MapCache};
use crate::schemes::rose;
use crate::{Error, Loader, Saver, Settings};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use flash::{Block, Cause, Collection, Flash, Kind, Lpn, Oob, Ppn};

/// A logical block being written whole.
#[derive(Clone, Debug)]
struct Entire {
    lbn: u32,
    block: Block,
    /// Pages written.
    next: u32,
    /// Their map.
    map: BlockMap,
}

#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Counters {
    blocks: u64,
    pages: u64,
    broken_off: u64,
    swaps: u64,
    swap_copies: u64,
    swap_pages: u64,
    obsolete: u64,
}

/// The techniques' state. Of one that is off there is none.
#[derive(Clone, Debug)]
pub(super) struct Techniques {
    /// Whether the scheme has them, on or off.
    listed: bool,
    ebw: bool,
    fpr: bool,
    pub(super) policy: &'static str,
    request: Announced,
    entire: Option<Entire>,
    /// Reused blocks with blank pages, in the order of their swaps.
    pub(super) reused: VecDeque<Slot>,
    pub(super) counters: Counters,
}

impl Techniques {
    pub(super) fn new(settings: &Settings) -> Techniques {
        let listed = settings.get(rose::EBW.name).is_some();
        Techniques {
            listed,
            ebw: listed && settings.switch(rose::EBW.name),
            fpr: listed && settings.switch(rose::FPR.name),
            policy: if listed { settings.word("log-victim") } else { "round-robin" },
            request: Announced::default(),
            entire: None,
            reused: VecDeque::new(),
            counters: Counters::default(),
        }
    }

    /// The host announces a request.
    pub(super) fn announce(&mut self, first: Lpn, pages: u32) {
        if self.ebw {
            self.request = Announced::new(first, pages);
        }
    }

    /// The block that takes the pages of a logical block that is being written whole.
    pub(super) fn entire_block(&self, lbn: u32) -> Option<Block> {
        self.entire.as_ref().filter(|entire| entire.lbn == lbn).map(|entire| entire.block)
    }

    /// The logical block that a block is taking whole.
    pub(super) fn entire_of(&self, block: Block) -> Option<u32> {
        self.entire.as_ref().filter(|entire| entire.block == block).map(|entire| entire.lbn)
    }

    /// A logical block has a data block with all that counts.
    pub(super) fn forget_entire(&mut self, lbn: u32) {
        self.entire.take_if(|entire| entire.lbn == lbn);
    }

    /// Blocks that are neither data blocks nor in the log nor free.
    pub(super) fn blocks_held(&self) -> u32 {
        u32::from(self.entire.is_some())
    }

    pub(super) fn memory(&self, layout: &Layout) -> Vec<(&'static str, u64)> {
        let mut out = Vec::new();
        if self.ebw {
            out.push(("block written whole", 8 + 12 + MapCache::bytes_of(layout, 1)));
        }
        if self.fpr {
            out.push(("reused log blocks", 4 + self.reused.len() as u64 * 4));
        }
        out
    }

    pub(super) fn save(&self, out: &mut Saver) {
        if self.ebw {
            self.request.save(out);
            let entire = self.entire.as_ref().map_or((NONE, 0, 0), |entire| (entire.lbn, entire.block.0, entire.next));
            [entire.0, entire.1, entire.2].into_iter().for_each(|word| out.u32(word));
        }
        if self.fpr {
            out.u32(self.reused.len() as u32);
            self.reused.iter().for_each(|&slot| out.u32(slot));
        }
    }

    pub(super) fn load(&mut self, layout: &Layout, from: &mut Loader<'_>) {
        if self.ebw {
            self.request = Announced::load(from);
            let (lbn, block, next) = (from.u32(), Block(from.u32()), from.u32());
            let mut map = BlockMap::empty(layout);
            for place in 0..next {
                map.set(layout, place, place as u16);
            }
            self.entire = (lbn != NONE).then_some(Entire { lbn, block, next, map });
        }
        if self.fpr {
            self.reused = (0..from.u32()).map(|_| from.u32()).collect();
        }
    }

    pub(super) fn counters(&self, scores: Option<&Scores>) -> Vec<(&'static str, u64)> {
        if !self.listed {
            return Vec::new();
        }
        let c = &self.counters;
        let effort = scores.map(|scores| scores.effort).unwrap_or_default();
        let techniques = [c.blocks, c.pages, c.broken_off, c.swaps, c.swap_copies, c.swap_pages, c.obsolete];
        let values = techniques.into_iter().chain([effort.updates, effort.refreshed, effort.compared]);
        rose::COUNTERS.iter().map(|&(name, _)| name).zip(values).collect()
    }
}

impl HybridLog {
    /// Where a page of a logical block lies that is being written whole, if it was written already.
    #[inline]
    pub(super) fn in_entire(&self, lbn: u32, offset: u32) -> Option<Ppn> {
        let entire = self.techniques.entire.as_ref()?;
        (entire.lbn == lbn && offset < entire.next).then(|| self.g.page(entire.block, offset))
    }

    /// Whether a page begins a logical block that is to be written whole. Where its data block has nothing yet, that
    /// takes it as it is.
    fn begins_entire(&self, lpn: Lpn) -> bool {
        let (lbn, offset) = self.split(lpn);
        let lpns = self.lpns(lbn);
        let whole = offset == 0 && lpns.len() as u32 == self.g.pages_per_block && self.techniques.request.covers(&lpns);
        whole && self.filled[lbn as usize].next > 0 && self.pool.free() >= RESERVE
    }

    /// Writes a page of a logical block that is written whole. False if it is none, or its block failed.
    pub(super) fn put_entire<F: Flash>(
        &mut self,
        flash: &mut F,
        oob: Oob,
        data: Option<&F::User>,
    ) -> Result<bool, Error<F::Fault>> {
        if !self.techniques.ebw {
            return Ok(false);
        }
        let (lpn, (lbn, offset)) = (oob.lpn(), self.split(oob.lpn()));
        if self.techniques.entire.as_ref().is_some_and(|entire| (entire.lbn, entire.next) != (lbn, offset)) {
            self.end_entire(flash)?;
        }
        if self.techniques.entire.is_none() && self.begins_entire(lpn) {
            let (block, map) = (self.pool.take(flash)?, BlockMap::empty(self.cache.layout()));
            self.techniques.entire = Some(Entire { lbn, block, next: 0, map });
        }
        let Some(entire) = &mut self.techniques.entire else { return Ok(false) };
        let (layout, ppn) = (*self.cache.layout(), self.g.page(entire.block, offset));
        entire.map.set(&layout, offset, offset as u16);
        flash.stage_spare(ppn, &layout.encode([].into_iter(), &entire.map, offset, offset as u16));
        if !self.program(flash, ppn, oob, data)? {
            self.tidy(flash)?;
            return Ok(false);
        }
        self.change_terms(lbn, |this| {
            this.supersede(lpn);
            this.pool.blocks.revive(ppn);
            this.techniques.entire.iter_mut().for_each(|entire| entire.next = offset + 1);
        });
        self.techniques.counters.pages += u64::from(data.is_some());
        if offset + 1 == self.g.pages_per_block {
            self.techniques.counters.blocks += 1;
            self.end_entire(flash)?;
        }
        Ok(true)
    }

    /// The block that is being written whole becomes a data block, once it has what else counts of its logical block.
    pub(super) fn end_entire<F: Flash>(&mut self, flash: &mut F) -> Result<(), Error<F::Fault>> {
        let Some(entire) = &self.techniques.entire else { return Ok(()) };
        if self.pool.failed.contains(&entire.block) {
            return self.tidy(flash);
        }
        let (lbn, target, next, mut map) = (entire.lbn, entire.block, entire.next, entire.map.clone());
        let (mut filled, mut sources) = (Filled { next: next as u16, head: next as u16 - 1 }, Vec::new());
        let mut gc = Collection::on(flash);
        if next < self.g.pages_per_block {
            self.techniques.counters.broken_off += 1;
            sources = self.sources(&mut *gc, lbn, next)?;
            if !self.copy_into(&mut *gc, target, (&mut filled, &mut map), &sources, Cause::MergePartial)? {
                return self.tidy(&mut *gc);
            }
            gc.then();
        }
        let old = self.data_block(lbn).map(|block| (block, u32::from(self.filled[lbn as usize].next)));
        self.install(lbn, (target.0, filled), map, &sources);
        let cause = if sources.is_empty() { Cause::MergeSwitch } else { Cause::MergePartial };
        match old {
            Some(old) => self.obsolete(&mut *gc, old, NONE, cause),
            None => Ok(()),
        }
    }

    /// What becomes of a data block of which some pages are programmed and none counts, perhaps while log block
    /// `victim` is cleaned.
    pub(super) fn obsolete<F: Flash>(
        &mut self,
        flash: &mut F,
        (block, used): (Block, u32),
        victim: Slot,
        cause: Cause,
    ) -> Result<(), Error<F::Fault>> {
        self.techniques.counters.obsolete += 1;
        if self.techniques.fpr && self.reuse(flash, (block, used), victim)? {
            return Ok(());
        }
        self.pool.dispose(flash, block, cause)
    }

    /// Free page reuse: if an obsolete block has more blank pages than the emptiest closed log block has live ones,
    /// these move there, the obsolete block takes the log block's place, and the log block is erased. False if it does
    /// not pay.
    fn reuse<F: Flash>(
        &mut self,
        flash: &mut F,
        (obsolete, used): (Block, u32),
        victim: Slot,
    ) -> Result<bool, Error<F::Fault>> {
        let blank = self.g.pages_per_block - used;
        let Some((source, live)) = self.slots.emptiest(victim).filter(|&(_, live)| live < blank) else {
            return Ok(false);
        };
        let block = self.slots.block(source);
        let mut moved: Vec<(Lpn, u32)> = Vec::with_capacity(live as usize);
        let mut at = self.pool.blocks.next_live(block, 0);
        while let Some(page) = at {
            let to = used + moved.len() as u32;
            let (from, target) = (self.g.page(block, page), self.g.page(obsolete, to));
            if !self.copy(flash, from, target, Kind::Log, Cause::Swap)? {
                return Ok(false);
            }
            moved.push((self.slots.lpn_at(source, page), to));
            at = self.pool.blocks.next_live(block, page + 1);
        }
        let slot = self.add_log_block(obsolete);
        for &(lpn, to) in &moved {
            self.score_log_page(lpn, slot);
            self.enter_log(lpn, slot, to);
        }
        self.slots.advance(slot, used + live);
        self.techniques.reused.push_back(slot);
        self.techniques.counters.swaps += 1;
        self.techniques.counters.swap_copies += u64::from(live);
        self.techniques.counters.swap_pages += u64::from(blank - live);
        self.erase_log_block(flash, source, Cause::Swap).map(|()| true)
    }
}

#[cfg(test)]
impl HybridLog {
    /// The score of a log block.
    pub(in crate::schemes) fn score_of(&self, block: Block) -> Option<i64> {
        Some(self.scores.as_ref()?.get(self.slots.of(block)?))
    }

    /// Whether a logical block is being written whole.
    pub(in crate::schemes) fn is_writing_whole(&self) -> bool {
        self.techniques.entire.is_some()
    }
}

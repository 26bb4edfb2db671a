//! Merges: the pages of a logical block that count go to a free block, one behind the other, and its old data block is
//! erased.
//!
//! The log takes a page of a logical block only while the data block of that is full. So what a merge leaves behind has
//! no blank page, unless a mount found pages in the log alone and a data block was begun since.

use super::{EMPTY, Filled, HOLE_IN_DATA, HOLE_IN_LOG, HybridLog};
use crate::Error;
use crate::hybrid::log::{NONE, Slot};
use crate::parts::spare_map::{BlockMap, NULL};
use alloc::vec::Vec;
use flash::{Block, Cause, Collection, Flash, Kind, Lpn, Oob, Ppn};

impl HybridLog {
    /// Logical blocks with a live page in a log block, in the order of their first such page.
    pub(super) fn logical_blocks_in(&self, slot: Slot) -> Vec<u32> {
        let block = self.slots.block(slot);
        let mut lbns: Vec<u32> = Vec::new();
        let mut at = self.pool.blocks.next_live(block, 0);
        while let Some(page) = at {
            let (lbn, _) = self.split(self.slots.lpn_at(slot, page));
            if !lbns.contains(&lbn) {
                lbns.push(lbn);
            }
            at = self.pool.blocks.next_live(block, page + 1);
        }
        lbns
    }

    /// Cleans a log block: every logical block with a live page in it is merged, and it is erased.
    pub(super) fn clean<F: Flash>(&mut self, flash: &mut F, victim: Slot) -> Result<(), Error<F::Fault>> {
        let lbns = self.logical_blocks_in(victim);
        self.counters.cleaned += 1;
        self.counters.dead += u64::from(lbns.is_empty());
        self.counters.density += lbns.len() as u64;
        let mut gc = Collection::on(flash);
        for lbn in lbns {
            self.merge(&mut *gc, lbn, victim)?;
            gc.then();
        }
        self.erase_log_block(&mut *gc, victim, Cause::MergeFull)
    }

    /// Where each page of a logical block that counts lies, from offset `first` on.
    pub(super) fn sources<F: Flash>(
        &mut self,
        flash: &mut F,
        lbn: u32,
        first: u32,
    ) -> Result<Vec<(u32, Ppn)>, Error<F::Fault>> {
        let layout = *self.cache.layout();
        let mut map = self.cache.get(lbn).cloned().unwrap_or_else(|| BlockMap::unknown(&layout));
        let old = self.data_block(lbn);
        if let Some(block) = old.filter(|_| self.log_style) {
            let head = self.filled[lbn as usize].head;
            let ppn_of = |place: u16| self.g.page(block, place.into());
            let reads = map.fetch_all(&layout, flash, head, ppn_of, Cause::MergeFull)?;
            self.counters.reads += u64::from(reads);
        }
        let in_data = |offset: u32| {
            let block = old?;
            let page = if self.log_style { u32::from(map.at(offset)) } else { offset };
            let ppn = self.g.page(block, page);
            let there = if self.log_style { page != u32::from(NULL) } else { self.pool.blocks.is_live(ppn) };
            there.then_some(ppn)
        };
        let kept = self.lpns(lbn).skip(first as usize).map(Lpn).filter(|lpn| !self.discarded.contains(&lpn.0));
        let found = kept.filter_map(|lpn| {
            let (_, offset) = self.split(lpn);
            let from = self.in_log(lpn).or_else(|| self.in_entire(lbn, offset)).or_else(|| in_data(offset))?;
            debug_assert!(self.in_log(lpn).is_some() || self.live_bit(lpn).is_some(), "LPN {lpn} does not count");
            Some((offset, from))
        });
        Ok(found.collect())
    }

    /// Merges a logical block, perhaps because log block `victim` is cleaned.
    pub(super) fn merge<F: Flash>(&mut self, flash: &mut F, lbn: u32, victim: Slot) -> Result<(), Error<F::Fault>> {
        self.counters.merges += 1;
        let used = u32::from(self.filled[lbn as usize].next);
        let broken = self.techniques.entire_block(lbn);
        let old = self.write_anew(flash, lbn, Cause::MergeFull)?;
        if let Some(block) = broken {
            self.pool.dispose(flash, block, Cause::MergeFull)?;
        }
        match old {
            Some(block) => self.obsolete(flash, (block, used), victim, Cause::MergeFull),
            None => Ok(()),
        }
    }

    /// Writes the newest pages of a logical block to a free block, which becomes its data block. The old one, in which
    /// nothing counts any more.
    pub(super) fn write_anew<F: Flash>(
        &mut self,
        flash: &mut F,
        lbn: u32,
        cause: Cause,
    ) -> Result<Option<Block>, Error<F::Fault>> {
        let sources = self.sources(flash, lbn, 0)?;
        let (target, filled, map) = self.copy_to_free_block(flash, &sources, cause)?;
        let old = self.data_block(lbn);
        self.install(lbn, (target, filled), map, &sources);
        Ok(old)
    }

    /// A block, or none, takes over as data block, and holds the pages that `sources` names beside those that it held
    /// before.
    pub(super) fn install(&mut self, lbn: u32, (target, filled): (u32, Filled), map: BlockMap, sources: &[(u32, Ppn)]) {
        let entire = self.techniques.entire_block(lbn).filter(|block| block.0 == target);
        self.change_terms(lbn, |this| {
            for lpn in this.lpns(lbn).map(Lpn) {
                if entire.is_none() || this.in_entire(lbn, this.split(lpn).1).is_none() {
                    this.supersede(lpn);
                }
                this.discarded.remove(&lpn.0);
            }
            sources.iter().for_each(|&(offset, _)| this.pool.blocks.revive(this.g.page(Block(target), offset)));
            this.data[lbn as usize] = target;
            this.techniques.forget_entire(lbn);
        });
        self.filled[lbn as usize] = filled;
        if let Some(cached) = self.cache.get_mut(lbn) {
            *cached = map;
        }
    }

    /// Copies pages of one logical block to a free block. That block, if there was anything to copy, and the map of it.
    fn copy_to_free_block<F: Flash>(
        &mut self,
        flash: &mut F,
        sources: &[(u32, Ppn)],
        cause: Cause,
    ) -> Result<(u32, Filled, BlockMap), Error<F::Fault>> {
        loop {
            let mut map = BlockMap::empty(self.cache.layout());
            let mut filled = EMPTY;
            if sources.is_empty() {
                return Ok((NONE, filled, map));
            }
            let target = self.pool.take(flash)?;
            match self.copy_into(flash, target, (&mut filled, &mut map), sources, cause) {
                Ok(true) => return Ok((target.0, filled, map)),
                Ok(false) => self.pool.dispose(flash, target, cause)?,
                Err(error) => {
                    // What it holds are copies: it is erased before its next use.
                    self.pool.blocks.give_back(target);
                    return Err(error);
                }
            }
        }
    }

    /// Copies pages of one logical block behind those that a block holds, or each to its place. False if a program
    /// failed.
    pub(super) fn copy_into<F: Flash>(
        &mut self,
        flash: &mut F,
        target: Block,
        (filled, map): (&mut Filled, &mut BlockMap),
        sources: &[(u32, Ppn)],
        cause: Cause,
    ) -> Result<bool, Error<F::Fault>> {
        let layout = *self.cache.layout();
        for &(offset, from) in sources {
            let page = if self.log_style { u32::from(filled.next) } else { offset };
            let to = self.g.page(target, page);
            if self.log_style {
                map.set(&layout, offset, page as u16);
                flash.stage_spare(to, &layout.encode([].into_iter(), map, offset, page as u16));
            }
            if !self.pad(flash, target, filled.next.into()..page)? || !self.copy(flash, from, to, Kind::Data, cause)? {
                return Ok(false);
            }
            self.counters.copies += u64::from(cause != Cause::WearLevelling);
            *filled = Filled { next: page as u16 + 1, head: page as u16 };
        }
        Ok(true)
    }

    /// Copies a page into a data block or a log block. False if the program failed.
    pub(super) fn copy<F: Flash>(
        &mut self,
        flash: &mut F,
        from: Ppn,
        to: Ppn,
        kind: Kind,
        cause: Cause,
    ) -> Result<bool, Error<F::Fault>> {
        let program = self.pool.number();
        let edit = |oob: &mut Oob, words: &mut [u32]| {
            oob.program = program;
            match oob.kind {
                Kind::Trim => words[0] = if kind == Kind::Log { HOLE_IN_LOG } else { HOLE_IN_DATA },
                _ => oob.kind = kind,
            }
        };
        let copied = flash.copy(from, to, cause, edit).map(|_| ());
        self.programmed::<F>(to, copied)
    }

    /// Moves what blocks hold that failed a program, and marks them bad.
    pub(super) fn tidy<F: Flash>(&mut self, flash: &mut F) -> Result<(), Error<F::Fault>> {
        while let Some(&block) = self.pool.failed.last() {
            match self.slots.of(block) {
                Some(slot) => self.clean(flash, slot)?,
                None => {
                    let lbn = match self.data.iter().position(|&data| data == block.0) {
                        Some(lbn) => lbn as u32,
                        None => self.techniques.entire_of(block).expect("it is a data block, or becomes one, or none"),
                    };
                    self.merge(flash, lbn, NONE)?;
                }
            }
        }
        Ok(())
    }
}

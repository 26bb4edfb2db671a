//! Collection in the demand-paged engine: which block, what moves, and what that means for the map.

use super::cache::{Cache, Entry};
use super::map::{Map, Store};
use super::{DATA, Demand, TRANSLATION};
use crate::Error;
use crate::parts::space::Fate;
use alloc::vec::Vec;
use flash::{Block, Cause, Collection, FaultKind, Flash, FlashFault, Lpn, Ppn, Tvpn};

impl<C: Cache, S: Store> Demand<C, S> {
    /// Makes room for a host page, and then moves a cold block if wear levelling wants that.
    #[cold]
    #[inline(never)]
    pub(super) fn make_room<F: Flash>(&mut self, flash: &mut F) -> Result<(), Error<F::Fault>> {
        // A collection takes translation pages for complete.
        self.write_overdue(flash)?;
        self.gain_room(flash)?;
        if self.map.space.is_levelling_due() && self.level(flash)? { self.gain_room(flash) } else { Ok(()) }
    }

    /// Makes room for a host page. See the module's description for why this ends.
    fn gain_room<F: Flash>(&mut self, flash: &mut F) -> Result<(), Error<F::Fault>> {
        self.release_converted();
        self.evacuate(flash)?;
        let mut rounds = 8 * self.map.space.blocks.geometry().block_count();
        while self.map.space.blocks.free_total() < self.map.space.high {
            let Some(victim) = self.choose().filter(|_| rounds > 0) else {
                // Nothing can be gained; what is left may still be enough for a page.
                return if self.map.space.blocks.free_total() >= self.least { Ok(()) } else { Err(Error::Full) };
            };
            rounds -= 1;
            self.collect(flash, victim, Fate::Erase, None)?;
        }
        Ok(())
    }

    /// The victim, by the rules of the module's description.
    pub(super) fn choose(&mut self) -> Option<Block> {
        let free = self.map.space.blocks.free_total();
        let translation = self.map.space.best_translation_block().filter(|&block| self.needs(block) <= free);
        let Some(mut data) = self.policy_victim() else { return translation };
        if self.needs(data) > free && !self.map.space.is_translation(data) {
            // The policy's choice does not fit any more: the block that takes the least may.
            let blocks = &self.map.space.blocks;
            let candidates =
                (0..blocks.geometry().block_count()).filter(|&block| blocks.is_candidate(block)).map(Block);
            data = candidates.min_by_key(|&block| blocks.live_of(block)).unwrap_or(data);
        }
        if self.map.space.is_translation(data) {
            return translation.map(|best| if self.needs(data) <= free { data } else { best });
        }
        let needs = self.needs(data);
        let Some(translation) = translation else { return (needs <= free).then_some(data) };
        if needs + 1 > free {
            return Some(translation);
        }
        let half = self.map.space.blocks.geometry().pages_per_block / 2;
        let apart = self.map.space.translation.as_ref().is_some_and(|blocks| !blocks.among_data);
        let waited = self.map.space.blocks.live_of(translation) + half <= self.map.space.blocks.live_of(data);
        Some(if apart && waited { translation } else { data })
    }

    /// Free blocks that collecting a block may take.
    pub(super) fn needs(&self, block: Block) -> u32 {
        let live = self.map.space.blocks.live_of(block);
        let discards = if self.map.durable_trim { self.map.trimmed.len() as u32 } else { 0 };
        if self.map.space.is_translation(block) {
            self.blocks_for(TRANSLATION, live + discards)
        } else {
            self.blocks_for(DATA, live) + self.blocks_for(TRANSLATION, live.min(self.map.store.count()) + discards)
        }
    }

    /// Free blocks that so many pages of a stream take beside its open ones.
    fn blocks_for(&self, stream: usize, pages: u32) -> u32 {
        let lanes = &self.map.space.streams[stream];
        let room: u32 = (0..lanes.count()).map(|lane| lanes.room(lane)).sum();
        pages.saturating_sub(room).div_ceil(self.map.space.block_pages(stream))
    }

    fn policy_victim(&mut self) -> Option<Block> {
        let dies = self.map.space.blocks.geometry().die_count() as usize;
        let poorest = self.map.space.poorest_die();
        let range = self.map.space.blocks.range(poorest);
        if let Some(victim) = self.map.space.pick(range) {
            return Some(victim);
        }
        if dies == 1 {
            return None;
        }
        let blocks = self.map.space.blocks.geometry().block_count();
        self.map.space.pick(0..blocks)
    }

    /// Moves all out of a block and ends it. `cause`: what for, if not to make room.
    pub(super) fn collect<F: Flash>(
        &mut self,
        flash: &mut F,
        victim: Block,
        fate: Fate,
        cause: Option<Cause>,
    ) -> Result<(), Error<F::Fault>> {
        // An erase may take the newest copy of a discarded page while older ones are left: its discard goes first.
        if self.map.durable_trim {
            self.write_discards(flash)?;
        }
        let is_translation = self.map.space.is_translation(victim);
        let candidate = self.map.space.begin_collecting(victim);
        let collected = if is_translation {
            self.collect_translation(flash, victim, fate, cause)
        } else {
            self.collect_data(flash, victim, fate, cause)
        };
        if collected.is_err() && candidate {
            self.map.space.blocks.stop_collecting(victim);
        }
        collected
    }

    fn collect_translation<F: Flash>(
        &mut self,
        flash: &mut F,
        victim: Block,
        fate: Fate,
        cause: Option<Cause>,
    ) -> Result<(), Error<F::Fault>> {
        let counted = u64::from(cause.is_none());
        let cause = cause.unwrap_or(Cause::TranslationGc);
        self.map.counters.translation_victims += counted;
        let g = *flash.geometry();
        let mut gc = Collection::on(flash);
        let mut next = 0;
        while let Some(offset) = self.map.space.blocks.next_live(victim, next) {
            next = offset + 1;
            let from = g.page(victim, offset);
            let (to, tvpn) = self.copy_page(&mut *gc, from, cause)?;
            self.map.store.moved(tvpn, to);
            self.map.space.blocks.kill(from);
            self.map.counters.translation_copies += counted;
        }
        gc.then();
        self.map.space.finish(&mut *gc, victim, fate, cause)
    }

    fn collect_data<F: Flash>(
        &mut self,
        flash: &mut F,
        victim: Block,
        fate: Fate,
        cause: Option<Cause>,
    ) -> Result<(), Error<F::Fault>> {
        let counted = u64::from(cause.is_none());
        let (cause, update) = cause.map_or((Cause::DataGc, Cause::TranslationUpdate), |cause| (cause, cause));
        self.map.counters.data_victims += counted;
        let mut gc = Collection::on(flash);
        let mut moves = core::mem::take(&mut self.moves);
        let mut result = self.copy_data(&mut *gc, victim, &mut moves, cause);
        self.map.counters.data_copies += counted * moves.len() as u64;
        // Cached entries change in the cache alone; the others are written, a translation page at a time.
        self.cache.absorb(&mut moves);
        moves.sort_unstable_by_key(|&(lpn, _)| lpn);
        gc.then();
        let mut rest = &moves[..];
        while let (Ok(()), Some(&(lpn, _))) = (&result, rest.first()) {
            let (tvpn, index) = self.map.store.locate(lpn);
            let behind = lpn + (self.map.store.page_entries() - index as u32);
            let group = rest.iter().position(|&(lpn, _)| lpn >= behind).unwrap_or(rest.len());
            let (now, later) = rest.split_at(group);
            if let Some(&(lpn, _)) = later.first() {
                let (tvpn, index) = self.map.store.locate(lpn);
                let at = self.map.store.at(tvpn);
                if at != Ppn::NONE {
                    self.map.store.hint(&*gc, tvpn, index);
                    self.map.space.blocks.prefetch(at);
                }
            }
            result = self.write_moves(&mut *gc, tvpn, now, update);
            if result.is_ok() {
                rest = later;
            }
        }
        if let Err(error) = result {
            self.move_back(&mut *gc, rest)?;
            return Err(error);
        }
        moves.clear();
        self.moves = moves;
        self.map.space.finish(&mut *gc, victim, fate, cause)
    }

    /// Writes the new places of moved pages, sorted by LPN, into their translation page.
    fn write_moves<F: Flash>(
        &mut self,
        flash: &mut F,
        tvpn: Tvpn,
        moves: &[Entry],
        cause: Cause,
    ) -> Result<(), Error<F::Fault>> {
        let left = |cache: &C| !C::ABSORBS_ALL && moves.iter().any(|&(lpn, _)| cache.find(Lpn(lpn)).is_some());
        let stale = left(&self.cache);
        // What the page takes in place is little; written anew, it takes along what it can.
        let anew = self.gc_fold && !self.map.store.fits(flash, tvpn, moves.len(), cause)?;
        let mut entries = core::mem::take(&mut self.entries);
        if anew || stale {
            self.cache.clean_page(tvpn, &mut entries);
        }
        // A place that the cache had for a moved page gives way to the new one.
        let mut superseded = Vec::new();
        if stale {
            let moved = |lpn: u32| moves.binary_search_by_key(&lpn, |&(lpn, _)| lpn).is_ok();
            superseded.extend(entries.iter().copied().filter(|&(lpn, _)| moved(lpn)));
            entries.retain(|&(lpn, _)| !moved(lpn));
        }
        let folded = entries.len();
        entries.extend_from_slice(moves);
        let all = !self.cache.has_dirty(tvpn);
        let written = self.map.update(flash, tvpn, &entries, all, cause);
        match &written {
            Err(_) => {
                self.cache.soil(&entries[..folded]);
                self.cache.soil(&superseded);
            }
            Ok(()) if stale => moves.iter().for_each(|&(lpn, ppn)| self.cache.refresh(Lpn(lpn), Ppn(ppn))),
            Ok(()) => {}
        }
        entries.clear();
        self.entries = entries;
        written
    }

    /// Copies the live pages of a data block; `moves` is told each LPN and its new page, also if not all could be
    /// copied.
    #[inline]
    fn copy_data<F: Flash>(
        &mut self,
        flash: &mut F,
        victim: Block,
        moves: &mut Vec<Entry>,
        cause: Cause,
    ) -> Result<(), Error<F::Fault>> {
        let g = *flash.geometry();
        let die = g.die_of(victim).index();
        let mut next = 0;
        while let Some((first, bits)) = self.map.space.blocks.live_word(victim, next) {
            let from = g.page(victim, first);
            let cache = &self.cache;
            let begun = moves.len();
            let run = self.map.space.move_run(flash, DATA, die, (from, bits), cause, |_, lpn| {
                cache.prefetch(Lpn(lpn));
                moves.push((lpn, 0));
            })?;
            for ((_, place), to) in moves[begun..].iter_mut().zip(run.to) {
                *place = to;
            }
            run.result?;
            next = first + 64 - run.moved.leading_zeros();
        }
        Ok(())
    }

    /// Copies a translation page of a collected block; its new place.
    fn copy_page<F: Flash>(&mut self, flash: &mut F, from: Ppn, cause: Cause) -> Result<(Ppn, Tvpn), Error<F::Fault>> {
        let g = *flash.geometry();
        let die = g.die_of(g.block_of(from)).index();
        let Map { space, store, .. } = &mut self.map;
        loop {
            let to = space.page_on(flash, TRANSLATION, die)?;
            let (program, mode) = (space.number(), space.mode(TRANSLATION));
            let copied = flash.copy(from, to, cause, |oob, words| {
                oob.program = program;
                oob.mode = mode;
                store.compact(oob.tvpn(), words);
            });
            match copied {
                Ok(oob) => return Ok((to, oob.tvpn())),
                Err(fault) if fault.kind() == FaultKind::ProgramFailed => space.abandon(to),
                Err(fault) => {
                    if fault.kind() == FaultKind::Uncorrectable {
                        space.give_back(TRANSLATION, to);
                    }
                    return Err(fault.into());
                }
            }
        }
    }

    /// A collection ends early, because programs failed and took the room for it: the copies whose entries could not be
    /// written die, and the pages that the translation pages still name live on.
    #[cold]
    fn move_back<F: Flash>(&mut self, flash: &mut F, moves: &[Entry]) -> Result<(), Error<F::Fault>> {
        for &(lpn, copy) in moves {
            let before = match self.cache.find(Lpn(lpn)) {
                Some(slot) => self.cache.get(slot, Lpn(lpn)),
                None => self.stored(flash, lpn)?,
            };
            self.map.space.blocks.kill(Ppn(copy));
            self.map.space.blocks.revive(before);
        }
        Ok(())
    }

    /// Empties and retires the blocks that failed a program.
    pub(super) fn evacuate<F: Flash>(&mut self, flash: &mut F) -> Result<(), Error<F::Fault>> {
        while let Some(&block) = self.map.space.doomed.last() {
            self.collect(flash, block, Fate::Retire, None)?;
            self.map.space.doomed.retain(|&doomed| doomed != block);
        }
        Ok(())
    }

    #[inline(always)]
    pub(super) fn needs_room(&self) -> bool {
        self.map.space.blocks.free_total() <= self.map.space.low
            || !self.map.space.doomed.is_empty()
            || !self.overdue.is_empty()
    }

    /// Makes room for what a read may evict; true if the device is full.
    #[cold]
    pub(super) fn make_room_to_read<F: Flash>(&mut self, flash: &mut F) -> Result<bool, Error<F::Fault>> {
        match self.make_room(flash) {
            Ok(()) => Ok(false),
            Err(Error::Full) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Collects ahead of need, for about `copies` page copies; whether there may be more.
    pub(super) fn collect_ahead<F: Flash>(&mut self, flash: &mut F, copies: u32) -> Result<bool, Error<F::Fault>> {
        self.evacuate(flash)?;
        if self.map.space.blocks.free_total() > self.map.space.high {
            return Ok(false);
        }
        // Ahead of need, only victims that are at least half dead and within the budget are worth their copies.
        let half = flash.geometry().pages_per_block / 2;
        let limit = half.min(copies);
        let Some(victim) = self.choose().filter(|&victim| self.map.space.blocks.live_of(victim) <= limit) else {
            return Ok(false);
        };
        self.collect(flash, victim, Fate::Erase, None)?;
        Ok(true)
    }
}

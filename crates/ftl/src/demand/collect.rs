//! Collection in the demand-paged engine: what moves, and what that means for the map.

use super::cache::{Cache, Entry};
use super::map::{Map, MapStore};
use super::{DATA, Demand, TRANSLATION};
use crate::Error;
use crate::Outcome;
use crate::parts::collector::{Collects, Takes};
use crate::parts::lanes::{Lane, Stream};
use crate::parts::space::{Space, lowest_bits};
use alloc::vec::Vec;
use flash::{Block, Cause, Chain, Die, FaultKind, Flash, FlashFault, Lpn, Ppn, Tvpn};

impl<C: Cache, S: MapStore> Collects for Demand<C, S> {
    #[inline(always)]
    fn space(&self) -> &Space {
        &self.map.space
    }

    #[inline(always)]
    fn space_mut(&mut self) -> &mut Space {
        &mut self.map.space
    }

    /// None is made for a cache of the whole map, however full the block of translation pages is (the host's next block
    /// makes its own), nor where evictions test for it.
    #[inline(always)]
    fn wants_room(&self, stream: Stream) -> bool {
        let apart = self.gc_in_evictions || self.cache.holds_all();
        if apart { self.is_scarce(stream) } else { self.is_short(stream) }
    }

    fn takes(&self, block: Block) -> Takes {
        let space = &self.map.space;
        let live = space.blocks.live_of(block);
        let discards = if self.map.durable_trim { self.map.trimmed.len() as u32 } else { 0 };
        let untold = self.untold(space.blocks.geometry().die_of(block));
        let (stream, updates) =
            if space.is_translation(block) { (TRANSLATION, 0) } else { (DATA, live.min(self.map.store.count())) };
        Takes { moved: (stream, live), told: (TRANSLATION, updates + untold + discards) }
    }

    fn prepare<F: Flash>(&mut self, flash: &mut F, _: Block) -> Outcome<F> {
        // An erase may take the newest copy of a discarded page while older ones are left: its discard goes first.
        if self.map.durable_trim && !self.map.trimmed.is_empty() {
            self.write_discards(flash)?;
            flash.chain(Chain::AFTER);
        }
        Ok(())
    }

    fn move_out<F: Flash>(
        &mut self,
        flash: &mut F,
        block: Block,
        next: u32,
        limit: u32,
        cause: Option<Cause>,
    ) -> Outcome<F, Option<u32>> {
        if self.map.space.is_translation(block) {
            return self.move_translation(flash, block, next, limit, cause);
        }
        let mut moves = core::mem::take(&mut self.moved);
        let copied = self.copy_data(flash, block, (next, limit), &mut moves, cause.unwrap_or(Cause::DataGc));
        self.map.counters.data_copies += if cause.is_none() { moves.len() as u64 } else { 0 };
        if !self.map.moves.is_empty() {
            // What is cached is told by the cache from now on.
            let cached = moves.iter().filter(|entry| self.cache.find(entry.lpn).is_some());
            cached.for_each(|entry| self.map.moves.remove(entry.lpn.0));
        }
        // Cached entries change in the cache alone; the others are written, a translation page at a time.
        self.cache.absorb(&mut moves);
        let left = match &copied {
            Err(_) => self.move_back(flash, &moves),
            Ok(_) if limit < u32::MAX => self.leave_for_later(flash, block, &mut moves),
            Ok(_) => {
                self.moved = moves;
                return copied;
            }
        };
        moves.clear();
        self.moved = moves;
        left.and(copied)
    }

    fn tell<F: Flash>(&mut self, flash: &mut F, block: Block, limit: u32, cause: Option<Cause>) -> Outcome<F, bool> {
        let die = flash.geometry().die_of(block);
        let cause = cause.unwrap_or(Cause::TranslationUpdate);
        let mut moves = core::mem::take(&mut self.moved);
        moves.sort_unstable_by_key(|entry| entry.lpn);
        let told = self.tell_all(flash, &moves, cause);
        moves.clear();
        for _ in 0..limit {
            let Some(lpn) = told.as_ref().ok().and_then(|()| self.map.moves.first_on(die)) else { break };
            let (tvpn, _) = self.map.store.locate(lpn);
            moves.extend(self.map.moves_beside(tvpn, &[]));
            self.write_moves(flash, tvpn, &moves, cause)?;
            moves.clear();
        }
        self.moved = moves;
        told.map(|()| self.map.moves.count_on(die) == 0)
    }

    fn untold(&self, die: Die) -> u32 {
        self.map.moves.count_on(die).min(self.map.store.count())
    }

    #[inline(always)]
    fn most_told(&self) -> u32 {
        self.cache.most_updates()
    }

    fn count_victim(&mut self, block: Block) {
        if self.map.space.is_translation(block) {
            self.map.counters.translation_victims += 1;
        } else {
            self.map.counters.data_victims += 1;
        }
    }

    fn count_dead_victim(&mut self) {
        self.map.counters.dead_victims += 1;
    }

    fn may_level(&self, _: Block) -> bool {
        // Discards that are to be written before an erase would take room of their own.
        !self.map.durable_trim || self.map.trimmed.is_empty()
    }
}

impl<C: Cache, S: MapStore> Demand<C, S> {
    fn move_translation<F: Flash>(
        &mut self,
        flash: &mut F,
        block: Block,
        mut next: u32,
        limit: u32,
        cause: Option<Cause>,
    ) -> Outcome<F, Option<u32>> {
        let g = *flash.geometry();
        let mut left = limit;
        while let Some(offset) = self.map.space.blocks.next_live(block, next) {
            if left == 0 {
                return Ok(Some(offset));
            }
            let from = g.page(block, offset);
            let (to, tvpn) = self.copy_page(flash, from, cause.unwrap_or(Cause::TranslationGc))?;
            self.map.store.moved(tvpn, to);
            self.map.space.blocks.kill(from);
            self.map.counters.translation_copies += u64::from(cause.is_none());
            (next, left) = (offset + 1, left - 1);
        }
        Ok(None)
    }

    /// A slice of a spread collection moved these pages, whose entries the cache did not take: the table takes them.
    /// What a cache holds and could not change must be written at once.
    fn leave_for_later<F: Flash>(&mut self, flash: &mut F, block: Block, moves: &mut Vec<Entry>) -> Outcome<F> {
        let die = flash.geometry().die_of(block);
        moves.iter().for_each(|entry| self.map.moves.insert(entry.lpn.0, entry.ppn, die));
        if C::ABSORBS_ALL {
            return Ok(());
        }
        let cache = &self.cache;
        moves.retain(|entry| cache.find(entry.lpn).is_some());
        flash.chain(Chain::AFTER);
        while let Some(Entry { lpn, .. }) = moves.pop() {
            let (tvpn, _) = self.map.store.locate(lpn.0);
            let group: Vec<Entry> = self.map.moves_beside(tvpn, &[]).collect();
            if group.iter().any(|moved| moved.lpn == lpn) {
                self.write_moves(flash, tvpn, &group, Cause::TranslationUpdate)?;
            }
        }
        Ok(())
    }

    /// Writes the new places of moved pages, sorted by LPN, into their translation pages.
    fn tell_all<F: Flash>(&mut self, flash: &mut F, moves: &[Entry], cause: Cause) -> Outcome<F> {
        let mut rest = moves;
        while let Some(Entry { lpn, .. }) = rest.first() {
            let (tvpn, index) = self.map.store.locate(lpn.0);
            let behind = lpn.0 + (self.map.store.page_entries() - index as u32);
            let group = rest.iter().position(|entry| entry.lpn.0 >= behind).unwrap_or(rest.len());
            let (now, later) = rest.split_at(group);
            if let Some(next) = later.first() {
                let (tvpn, index) = self.map.store.locate(next.lpn.0);
                let at = self.map.store.at(tvpn);
                if at != Ppn::NONE {
                    self.map.store.hint(&*flash, tvpn, index);
                    self.map.space.blocks.prefetch(at);
                }
            }
            if let Err(error) = self.write_moves(flash, tvpn, now, cause) {
                self.move_back(flash, rest)?;
                return Err(error);
            }
            rest = later;
        }
        Ok(())
    }

    /// Writes the new places of moved pages, sorted by LPN, into their translation page.
    fn write_moves<F: Flash>(&mut self, flash: &mut F, tvpn: Tvpn, moves: &[Entry], cause: Cause) -> Outcome<F> {
        let left = |cache: &C| !C::ABSORBS_ALL && moves.iter().any(|entry| cache.find(entry.lpn).is_some());
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
            let moved = |entry: &Entry| moves.binary_search_by_key(&entry.lpn, |moved| moved.lpn).is_ok();
            superseded.extend(entries.iter().copied().filter(moved));
            entries.retain(|entry| !moved(entry));
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
            Ok(()) if stale => moves.iter().for_each(|entry| self.cache.refresh(entry.lpn, entry.ppn)),
            Ok(()) => {}
        }
        entries.clear();
        self.entries = entries;
        written
    }

    /// Copies up to `limit` live pages of a data block from page `next` on; `moves` is told each LPN and its new page,
    /// also if not all could be copied. The page to go on from, or `None` at the end.
    #[inline]
    fn copy_data<F: Flash>(
        &mut self,
        flash: &mut F,
        victim: Block,
        (mut next, limit): (u32, u32),
        moves: &mut Vec<Entry>,
        cause: Cause,
    ) -> Outcome<F, Option<u32>> {
        let g = *flash.geometry();
        let die = g.die_of(victim);
        let mut left = limit;
        while let Some((first, bits)) = self.map.space.blocks.live_word(victim, next) {
            if left == 0 {
                return Ok(Some(first));
            }
            let from = (g.page(victim, first), lowest_bits(bits, left));
            let cache = &self.cache;
            let begun = moves.len();
            let run = self.map.space.move_run(flash, DATA, die, from, cause, |_, lpn| {
                cache.prefetch(Lpn(lpn));
                moves.push(Entry { lpn: Lpn(lpn), ppn: Ppn::NONE });
            })?;
            for (entry, to) in moves[begun..].iter_mut().zip(run.to) {
                entry.ppn = Ppn(to);
            }
            run.result?;
            next = first + 64 - run.moved.leading_zeros();
            left -= run.moved.count_ones();
        }
        Ok(None)
    }

    /// Copies a translation page of a collected block; its new place.
    fn copy_page<F: Flash>(&mut self, flash: &mut F, from: Ppn, cause: Cause) -> Outcome<F, (Ppn, Tvpn)> {
        let g = *flash.geometry();
        let die = g.die_of(g.block_of(from));
        let Map { space, store, .. } = &mut self.map;
        loop {
            let to = space.page_on(flash, TRANSLATION, Lane::of(die))?;
            let (program, mode) = (space.number_for(flash, to), space.mode(TRANSLATION));
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
    fn move_back<F: Flash>(&mut self, flash: &mut F, moves: &[Entry]) -> Outcome<F> {
        for &Entry { lpn, ppn } in moves {
            let before = match self.cache.find(lpn) {
                Some(slot) => self.cache.get(slot, lpn),
                None => self.stored(flash, lpn.0)?,
            };
            self.map.space.blocks.kill(ppn);
            self.map.space.blocks.revive(before);
        }
        Ok(())
    }

    /// Whether something is to be done before the map changes.
    #[inline(always)]
    pub(super) fn needs_room(&self) -> bool {
        self.is_behind(TRANSLATION) || !self.overdue.is_empty()
    }

    /// Makes ready for a discard, which may write translation pages whatever the cache holds. Nobody collects for it
    /// later.
    pub(super) fn make_ready_to_discard<F: Flash>(&mut self, flash: &mut F) -> Outcome<F> {
        if self.needs_room() || self.is_short(TRANSLATION) {
            self.make_ready(flash)?;
        }
        let apart = self.gc_in_evictions || self.cache.holds_all();
        if apart && self.is_short(TRANSLATION) { self.make_map_room(flash, TRANSLATION) } else { Ok(()) }
    }

    /// Does it: from here on evictions take what they need.
    #[cold]
    #[inline(never)]
    pub(super) fn make_ready<F: Flash>(&mut self, flash: &mut F) -> Outcome<F> {
        // A collection takes translation pages for complete.
        self.write_overdue(flash)?;
        self.release_converted();
        self.catch_up(flash, TRANSLATION)
    }

    /// Makes ready for what a read may evict; true if the device is full.
    #[cold]
    pub(super) fn make_ready_to_read<F: Flash>(&mut self, flash: &mut F) -> Outcome<F, bool> {
        match self.make_ready(flash) {
            Ok(()) => Ok(false),
            Err(Error::Full) => Ok(true),
            Err(error) => Err(error),
        }
    }
}

//! Putting a logical block in order, for caches that then need one entry for all of it.
//!
//! A cache asks for a *conversion* after a host read ([`Cache::was_read`]). The engine carries it out before the next
//! host page: the pages of the logical block are copied in order into a block of a write stream of their own, and the
//! translation page is written with their new places and all of its dirty entries. Nothing on flash says that a block
//! was converted but the order of its entries, so that writes need not undo anything, and a mount finds copies that no
//! translation page names yet as it finds those of a collection.
//!
//! A conversion takes a block of copies and a translation page, and kills as many pages elsewhere. It is begun only if
//! that leaves as many free blocks as those at which collection starts, after a few collections if need be, and is
//! given up, until the cache asks again, if there are not enough, a page cannot be read, or a program fails: the
//! sources are untouched until the translation page is written. Hence it never stands between the host and its page.

use super::cache::{Cache, Entry};
use super::map::MapStore;
use super::{DATA, Demand, NO_BLOCK};
use crate::Error;
use crate::Outcome;
use crate::parts::collector::Collects;
use crate::parts::lanes::Lane;
use flash::{Block, Cause, Collection, FaultKind, Flash, FlashFault, Lpn, Ppn, Tvpn};

/// Blocks that are collected for a conversion, at the most.
const MOST_COLLECTIONS: u32 = 4;

impl<C: Cache, S: MapStore> Demand<C, S> {
    /// Carries out the conversion that a read asked for.
    #[inline(always)]
    pub(super) fn convert_pending<F: Flash>(&mut self, flash: &mut F) -> Outcome<F> {
        if !C::CONVERTS || self.pending == NO_BLOCK {
            return Ok(());
        }
        let block = core::mem::replace(&mut self.pending, NO_BLOCK);
        match self.convert(flash, block) {
            Err(Error::Full) => Ok(()),
            result => result,
        }
    }

    #[cold]
    fn convert<F: Flash>(&mut self, flash: &mut F, block: u32) -> Outcome<F> {
        if !self.room_to_convert(flash)? {
            return Ok(());
        }
        let pages = self.shape.geometry.pages_per_block;
        let first = block * pages;
        let (tvpn, index) = self.map.store.locate(first);
        let lpns = (first..first + pages).map(Lpn);
        let mut places = core::mem::take(&mut self.places);
        places.clear();
        places.resize(pages as usize, Ppn::NONE.0);
        if lpns.clone().any(|lpn| self.cache.find(lpn).is_none())
            && let Some(page) = self.map.read(flash, tvpn)?
        {
            self.map.entries(page, index, &mut places);
        }
        let mut dirty = false;
        for (lpn, place) in lpns.zip(&mut places) {
            if let Some(slot) = self.cache.find(lpn) {
                *place = self.cache.get(slot, lpn).0;
                dirty |= self.cache.is_dirty(slot, lpn);
            }
        }
        let in_order = self.shape.geometry.offset_of(Ppn(places[0])) == 0
            && places.windows(2).all(|pair| pair[1] == pair[0].wrapping_add(1));
        let result = if places.contains(&Ppn::NONE.0) {
            Ok(())
        } else if in_order {
            let settled = if dirty { self.settle(flash, tvpn, Cause::TranslationUpdate) } else { Ok(()) };
            settled.map(|()| self.cache.converted(block, Ppn(places[0]), false))
        } else {
            self.put_in_order(flash, block, tvpn, &places)
        };
        self.places = places;
        result
    }

    /// Makes room for a block of copies and for a translation page; false if that is not to be had.
    fn room_to_convert<F: Flash>(&mut self, flash: &mut F) -> Outcome<F, bool> {
        self.release_converted();
        self.evacuate(flash)?;
        let die = self.map.space.richest_die();
        let wanted = self.map.space.collector.low + 1;
        for _ in 0..MOST_COLLECTIONS {
            if self.map.space.blocks.free_in(die) >= wanted {
                return Ok(true);
            }
            let Some(victim) = self.choose(die, false) else { return Ok(false) };
            self.collect(flash, victim, None)?;
        }
        Ok(self.map.space.blocks.free_in(die) >= wanted)
    }

    /// Lets converted blocks be collected whose die has a newer data page: until then a mount would go on filling them,
    /// and so they must not be erased (docs/recovery.md).
    pub(super) fn release_converted(&mut self) {
        if !C::CONVERTS {
            return;
        }
        let space = &mut self.map.space;
        for (lane, &followed) in (0..).map(Lane).zip(&self.followed) {
            let host = &space.streams[DATA.index()];
            let next = host.run(lane).start;
            let begun = |block: Block| next > self.shape.geometry.page(block, 0).0;
            if next != followed
                && host.block(lane).is_some_and(begun)
                && let Some(block) = space.streams[self.converted.index()].block(lane)
            {
                space.streams[self.converted.index()].clear(lane);
                space.blocks.close(block);
            }
        }
    }

    /// Copies the pages of a logical block, which lie at `places`, and tells the translation page and the cache.
    fn put_in_order<F: Flash>(&mut self, flash: &mut F, block: u32, tvpn: Tvpn, places: &[u32]) -> Outcome<F> {
        let mut gc = Collection::on(flash);
        let ordered = self.order(&mut gc, block, tvpn, places);
        let done = gc.pause();
        self.map.space.collector.beside.supersedes();
        self.map.space.collector.beside.done(flash, done);
        ordered
    }

    /// The same within the scope that is open.
    fn order<F: Flash>(&mut self, gc: &mut Collection<'_, F>, block: u32, tvpn: Tvpn, places: &[u32]) -> Outcome<F> {
        let Some(to) = self.copy_in_order(&mut **gc, places)? else { return Ok(()) };
        gc.then();
        let first = block * places.len() as u32;
        let copies = || to.0..to.0 + places.len() as u32;
        let (mut cleaned, mut entries) = (core::mem::take(&mut self.entries), core::mem::take(&mut self.moved));
        self.cache.clean_page(tvpn, &mut cleaned);
        let others = |entry: &Entry| entry.lpn.0.wrapping_sub(first) >= places.len() as u32;
        entries.extend(cleaned.iter().copied().filter(others));
        entries.extend((first..).zip(copies()).map(|(lpn, ppn)| Entry { lpn: Lpn(lpn), ppn: Ppn(ppn) }));
        let all = !self.cache.has_dirty(tvpn);
        let written = self.map.update(&mut **gc, tvpn, &entries, all, Cause::TranslationUpdate);
        if written.is_ok() {
            places.iter().for_each(|&place| self.map.space.blocks.kill(Ppn(place)));
            self.cache.converted(block, to, true);
        } else {
            copies().for_each(|copy| self.map.space.blocks.kill(Ppn(copy)));
            self.cache.soil(&cleaned);
        }
        cleaned.clear();
        entries.clear();
        (self.entries, self.moved) = (cleaned, entries);
        written
    }

    /// Copies pages into a block of their own; its first page, or none if that did not come about.
    fn copy_in_order<F: Flash>(&mut self, flash: &mut F, places: &[u32]) -> Outcome<F, Option<Ppn>> {
        let stream = self.converted;
        let space = &mut self.map.space;
        let lane = Lane::of(space.richest_die());
        if !space.open(flash, stream, lane)? {
            return Ok(None);
        }
        self.followed[lane.index()] = space.streams[DATA.index()].run(lane).start;
        let first = Ppn(space.streams[stream.index()].run(lane).start);
        for (&from, to) in places.iter().zip((first.0..).map(Ppn)) {
            space.streams[stream.index()].take_until(lane, to.0 + 1);
            let program = space.number_for(flash, to);
            let copied = flash.copy(Ppn(from), to, Cause::MergeFull, |oob, _| oob.program = program);
            let Err(fault) = copied else {
                space.collector.beside.moves_to(to.0..to.0 + 1);
                continue;
            };
            if fault.kind() == FaultKind::ProgramFailed {
                space.abandon(to);
            } else {
                let end = space.streams[stream.index()].run(lane).end;
                (to.0..end).for_each(|page| space.blocks.kill(Ppn(page)));
                space.streams[stream.index()].take_until(lane, end);
            }
            (first.0..to.0).for_each(|page| space.blocks.kill(Ppn(page)));
            return match fault.kind() {
                FaultKind::ProgramFailed | FaultKind::Uncorrectable => Ok(None),
                _ => Err(fault.into()),
            };
        }
        Ok(Some(first))
    }
}

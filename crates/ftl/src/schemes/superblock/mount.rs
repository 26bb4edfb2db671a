//! Mounting `superblock`: which blocks each superblock has and in which slot each is, and the newest pages of logical
//! blocks or the map pages.
//!
//! Of every page the newest version counts, and blocks that hold nothing but copies are given up (`parts/copies.rs`).
//! With maps in spare areas only if these say the same without them: where the erase of the block that pages were
//! copied from had begun, the copies that the maps name may be gone and earlier ones be left.
//!
//! Slots are told by the list in the spare area of any page of a block, or by the list in the map page; a block that
//! this does not have came later, and any free slot will do. A map page is compared with what was found. Those that
//! were changed in RAM alone, or name copies that were given up, become dirty maps again, which leave for flash as
//! there is room for no more, and stay if the device is full.

use super::maps::{place_at, words_of};
use super::{CLOSED, NONE, Stream, Super, Superblock};
use crate::parts::holdings::Holdings;

use crate::parts::spare_map::{BlockMap, BlockSlot, NULL};
use crate::{Error, MountReport, Outcome};
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use flash::{Block, Cause, Flash, Lbn, Lpn, Ppn};

impl Superblock {
    /// The pages of a logical block.
    fn lpns(&self, lbn: Lbn) -> core::ops::Range<u32> {
        let first = lbn.0 * self.g.pages_per_block;
        first..(first + self.g.pages_per_block).min(self.logical_pages)
    }

    /// Notes in which slot each block is that holds some of these pages; `slot_of` has what is known already.
    fn find_slots<F: Flash>(
        &self,
        flash: &mut F,
        pages: impl Iterator<Item = Ppn>,
        slot_of: &mut [BlockSlot],
    ) -> Outcome<F> {
        for ppn in pages {
            let block = self.g.block_of(ppn);
            if slot_of[block.index()] == CLOSED {
                flash.read_oob(ppn, Cause::Recovery)?;
                if flash.spare(ppn).is_empty() {
                    return Err(Error::Corrupt);
                }
                let listed = |slot: &BlockSlot| self.cache.layout().listed_block(flash.spare(ppn), *slot);
                let own = (0..self.k as u8).map(BlockSlot).find(|slot| listed(slot) == block.0);
                slot_of[block.index()] = own.ok_or(Error::Corrupt)?;
            }
        }
        Ok(())
    }

    /// Whether the maps in spare areas say of a superblock what was found. They may not if a block was given up: where
    /// the erase of the block that its pages were copied from had begun, earlier copies may be left, and these are not
    /// what the maps name.
    fn maps_agree<F: Flash>(&self, flash: &mut F, found: &Holdings, s: Super) -> Outcome<F, bool> {
        let layout = *self.cache.layout();
        let mut slot_of: Vec<BlockSlot> = vec![CLOSED; self.g.block_count() as usize];
        let pages = || self.lbns(s).flat_map(|lbn| self.lpns(lbn)).filter_map(|lpn| found.page(Lpn(lpn)));
        self.find_slots(flash, pages(), &mut slot_of)?;
        let place_of = |ppn| layout.place(slot_of[self.g.block_of(ppn).index()], self.g.offset_of(ppn));
        let places: BTreeMap<u16, Ppn> = pages().map(|ppn| (place_of(ppn), ppn)).collect();
        for lbn in self.lbns(s) {
            let Some(head) = found.head(self.lpns(lbn)) else { continue };
            let mut map = BlockMap::unknown(&layout);
            // A page that holds nothing that counts is not there: the map that names it is wrong.
            let ppn_of = |place: u16| places.get(&place).copied();
            match map.fetch_all((&layout, lbn), flash, place_of(head), ppn_of, Cause::Recovery) {
                Err(Error::Corrupt) => return Ok(false),
                fetched => fetched?,
            };
            let said = |lpn: u32| Some(map.at(lpn % layout.pages)).filter(|&place| place != NULL);
            if self.lpns(lbn).any(|lpn| found.page(Lpn(lpn)).map(place_of) != said(lpn)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub(super) fn mount_on<F: Flash>(mut self, flash: &mut F) -> Outcome<F, (Self, MountReport)> {
        let map_pages = self.log.as_ref().map_or(0, |_| self.open.len() as u32);
        let mut found = Holdings::take(flash, self.pool.own_bytes(), self.logical_pages, map_pages, true)?;
        for block in found.settle() {
            let Some(given_up) = found.copies.give_up(block) else { continue };
            let s = self.super_of(self.split(Lpn(given_up.first_page())).0);
            if self.log.is_none() && !self.maps_agree(flash, &found, s)? {
                found.copies.take_back(given_up);
            }
        }
        self.pool.erase_unneeded(flash, &found)?;
        self.pool.adopt(&found);
        self.version = found.census.max_version;
        found.pages().for_each(|(_, ppn)| self.pool.blocks.revive(ppn));
        let mut report = found.report();
        if let Some(log) = &mut self.log {
            log.adopt(&mut self.pool, &found);
            report.restored = self.mount_pages(flash, &found)?;
        } else {
            self.mount_spare(flash, &found)?;
        }
        self.all().for_each(|s| self.note_blocks(s, 0));
        if self.log.is_none() && found.census.unreadable + found.census.torn > 0 {
            self.mend(flash, &found)?;
        }
        Ok((self, report))
    }

    fn mount_spare<F: Flash>(&mut self, flash: &mut F, found: &Holdings) -> Outcome<F> {
        let (g, layout) = (self.g, *self.cache.layout());
        let mut slot_of: Vec<BlockSlot> = vec![CLOSED; g.block_count() as usize];
        self.find_slots(flash, found.pages().map(|(_, ppn)| ppn), &mut slot_of)?;
        for (lpn, ppn) in found.pages() {
            let (block, s) = (g.block_of(ppn), self.super_of(self.split(lpn).0));
            let slot = slot_of[block.index()];
            let held = self.block_mut(s, slot);
            if ![NONE, block.0].contains(held) {
                return Err(Error::Corrupt);
            }
            *held = block.0;
        }
        for lbn in (0..self.logical_blocks).map(Lbn) {
            if let Some(ppn) = found.head(self.lpns(lbn)) {
                let slot = slot_of[g.block_of(ppn).index()];
                self.heads[lbn.index()] = layout.place(slot, g.offset_of(ppn));
            }
        }
        Ok(())
    }

    /// Where damage has taken a part of a map, one page of each of its leaves is copied, and takes along what was
    /// found. A map for which this was begun is not what was found before it is done, so that a mount after a cut does
    /// it again. Without room for all of it the map stays as it is.
    fn mend<F: Flash>(&mut self, flash: &mut F, found: &Holdings) -> Outcome<F> {
        let layout = *self.cache.layout();
        for s in self.all() {
            let mut mended = false;
            for lbn in self.lbns(s).filter(|lbn| found.head(self.lpns(*lbn)).is_some()).collect::<Vec<_>>() {
                let truth = self.places_found(found, lbn);
                match self.stored_map(flash, lbn) {
                    Ok(map) if map.places() == truth => continue,
                    Ok(_) | Err(Error::Corrupt) => {}
                    Err(error) => return Err(error),
                }
                if self.room(s) < layout.groups() {
                    let no_slot = self.slot(s, |block| block == NONE).is_none();
                    if no_slot || self.pool.blocks.free_total() == 0 {
                        continue;
                    }
                    self.open_block(flash, s, Stream::Kept)?;
                }
                let mut map = BlockMap::of_places(&layout, truth.iter().copied());
                let offsets: Vec<u32> =
                    (0..).zip(&truth).filter(|&(_, &at)| at != NULL).map(|(page, _)| page).collect();
                for leaf in offsets.chunk_by(|&one, &other| layout.group_of(one) == layout.group_of(other)) {
                    let from = self.ppn(s, map.at(leaf[0]));
                    let page = (lbn, leaf[0]);
                    self.append(flash, page, &mut map, Stream::Kept, |flash, to, program| {
                        flash.copy(from, to, Cause::Recovery, |oob, _| oob.program = program).map(|_| ())
                    })?;
                }
                mended = true;
            }
            // What that took is given back, if the block that was opened has room for what lives in another one.
            while mended && self.pool.blocks.free_total() < super::RESERVE {
                let (room, filled) = (self.room(s), [Stream::Host, Stream::Kept].map(|of| self.filled(s, of).slot));
                let fits = |slot: &BlockSlot| self.pool.blocks.live_of(self.block(s, *slot)) <= room;
                let Some(victim) = self.victim(s).filter(|slot| !filled.contains(slot) && fits(slot)) else { break };
                match self.collect(flash, s, victim, Cause::Recovery) {
                    Err(Error::Corrupt) => break,
                    collected => collected?,
                }
            }
        }
        Ok(())
    }

    /// Pages left in the block that a superblock fills with what it keeps.
    fn room(&mut self, s: Super) -> u32 {
        let next = u32::from(self.filled(s, Stream::Kept).next);
        if self.has_room(s, Stream::Kept) { self.g.pages_per_block - next } else { 0 }
    }

    /// Where the pages of a logical block were found.
    fn places_found(&self, found: &Holdings, lbn: Lbn) -> Vec<u16> {
        let s = self.super_of(lbn);
        let place_of = |ppn: Ppn| {
            let slot = self.slot(s, |block| block == self.g.block_of(ppn).0).expect("each page found has its block");
            self.cache.layout().place(slot, self.g.offset_of(ppn))
        };
        let mut places = vec![NULL; self.g.pages_per_block as usize];
        for (place, lpn) in places.iter_mut().zip(self.lpns(lbn)) {
            *place = found.page(Lpn(lpn)).map_or(NULL, place_of);
        }
        places
    }

    /// How many entries were not in map pages.
    fn mount_pages<F: Flash>(&mut self, flash: &mut F, found: &Holdings) -> Outcome<F, u64> {
        let (g, layout) = (self.g, *self.cache.layout());
        let mut restored = 0;
        for s in self.all() {
            let pages = || self.lbns(s).flat_map(|lbn| self.lpns(lbn)).filter_map(|lpn| found.page(Lpn(lpn)));
            let mut left: Vec<Block> = pages().map(|ppn| g.block_of(ppn)).collect();
            left.sort_unstable();
            left.dedup();
            // Not what was found, but where it is now: writing others may have moved it.
            let words = match self.log.as_ref().and_then(|log| log.page(s.0)) {
                Some(ppn) => match words_of(flash, ppn, Cause::Recovery) {
                    // All that it said is found without it.
                    Err(Error::Corrupt) => Vec::new(),
                    words => words?.to_vec(),
                },
                None => Vec::new(),
            };
            let mut slots = vec![NONE; self.k];
            if !words.is_empty() {
                for (slot, &listed) in slots.iter_mut().zip(self.listed(&words)) {
                    if let Some(at) = left.iter().position(|block| block.0 == listed) {
                        *slot = left.remove(at).0;
                    }
                }
            }
            for block in left {
                let free = slots.iter_mut().find(|slot| **slot == NONE);
                *free.ok_or(Error::Corrupt)? = block.0;
            }
            let place_of = |ppn| {
                let slot = slots.iter().position(|&block| block == g.block_of(ppn).0);
                layout.place(BlockSlot(slot.expect("just put there") as u8), g.offset_of(ppn))
            };
            let mut changed: Vec<(Lbn, BlockMap)> = Vec::new();
            for lbn in self.lbns(s) {
                let mut truth = vec![NULL; g.pages_per_block as usize];
                for (place, lpn) in truth.iter_mut().zip(self.lpns(lbn)) {
                    *place = found.page(Lpn(lpn)).map_or(NULL, place_of);
                }
                let entries = self.entries(lbn);
                let stored = |i: usize| if words.is_empty() { NULL } else { place_at(&words, entries.start + i) };
                let differing = (0..).zip(&truth).filter(|&(i, &place)| stored(i) != place).count() as u64;
                if differing > 0 {
                    restored += differing;
                    let mut map = BlockMap::of_places(&layout, truth.into_iter());
                    map.dirty = true;
                    changed.push((lbn, map));
                }
            }
            self.blocks[s.index() * self.k..][..self.k].copy_from_slice(&slots);
            for (lbn, map) in changed {
                self.cache.keep(lbn, map, false);
            }
            self.shrink_if_possible(flash, Cause::Recovery)?;
        }
        Ok(restored)
    }
}

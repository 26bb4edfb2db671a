//! Mounting `superblock`: which blocks each superblock has and in which slot each is, and the newest pages of logical
//! blocks or the map pages.
//!
//! Of every page the newest version counts, and blocks that hold nothing but copies are given up (`parts/copies.rs`).
//! Slots are told by the list in the spare area of the page of a superblock that was programmed last, or by the list in
//! its map page; a block that this does not have gets any free slot.
//!
//! Maps are an index of what was found and never decide what counts: each is compared with it. One in spare areas may
//! name pages that are not there, or others than those which count: where several commands were under way, one that a
//! map names may have been left undone on another die; where a block was given up, the erase of that which its pages
//! were copied from may have begun, so that earlier copies count; and damage takes parts of maps. Map pages may have
//! changed in RAM alone. What differs becomes a dirty map again. Map pages are written as there is room for no more
//! maps, and stay in RAM if the device is full; maps in spare areas are mended at once if there is room to spare, else
//! as their pages are programmed anew.

use super::maps::{place_at, words_of};
use super::{NONE, Stream, Super, Superblock};
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

    pub(super) fn mount_on<F: Flash>(mut self, flash: &mut F, report: &mut MountReport) -> Outcome<F, Self> {
        let map_pages = self.log.as_ref().map_or(0, |_| self.open.len() as u32);
        let mut found = Holdings::take(flash, self.pool.own_bytes(), self.logical_pages, map_pages, true)?;
        *report = found.report();
        for block in found.settle() {
            found.copies.give_up(block);
        }
        self.pool.erase_unneeded(flash, &found)?;
        self.pool.adopt(&found);
        self.version = found.census.max_version;
        found.pages().for_each(|(_, ppn)| self.pool.blocks.revive(ppn));
        if let Some(log) = &mut self.log {
            log.adopt(&mut self.pool, &found);
            report.restored = self.mount_pages(flash, &found)?;
        } else {
            self.mount_spare(flash, &found)?;
        }
        self.all().for_each(|s| self.note_blocks(s, 0));
        if self.log.is_none() {
            report.restored = self.compare(flash, &found)?;
            self.mend(flash)?;
        }
        Ok(self)
    }

    fn mount_spare<F: Flash>(&mut self, flash: &mut F, found: &Holdings) -> Outcome<F> {
        let (g, layout) = (self.g, *self.cache.layout());
        for s in self.all() {
            // Of each block a page that counts in it.
            let mut left: BTreeMap<u32, Ppn> = BTreeMap::new();
            for lbn in self.lbns(s) {
                left.extend(self.lpns(lbn).filter_map(|lpn| found.page(Lpn(lpn))).map(|ppn| (g.block_of(ppn).0, ppn)));
            }
            let last = self.lbns(s).filter_map(|lbn| found.copies.last(self.lpns(lbn))).max();
            let Some(newest) = last.map(|copy| copy.ppn) else { continue };
            flash.read_oob(newest, Cause::Recovery)?;
            for slot in (0..self.k as u8).map(BlockSlot) {
                if !flash.spare(newest).is_empty() {
                    let listed = layout.listed_block(flash.spare(newest), slot);
                    if left.remove(&listed).is_some() {
                        *self.block_mut(s, slot) = listed;
                    }
                }
            }
            for block in left.into_keys() {
                let free = self.slot(s, |block| block == NONE).ok_or(Error::Corrupt)?;
                *self.block_mut(s, free) = block;
            }
            for lbn in self.lbns(s) {
                if let Some(ppn) = found.head(self.lpns(lbn)) {
                    self.heads[lbn.index()] = self.place_of(s, ppn);
                }
            }
        }
        Ok(())
    }

    /// Where a page that counts lies in its superblock.
    fn place_of(&self, s: Super, ppn: Ppn) -> u16 {
        let slot = self.slot(s, |block| block == self.g.block_of(ppn).0).expect("each page found has its block");
        self.cache.layout().place(slot, self.g.offset_of(ppn))
    }

    /// Puts the maps into RAM that spare areas do not say as they were found; how many entries differ.
    fn compare<F: Flash>(&mut self, flash: &mut F, found: &Holdings) -> Outcome<F, u64> {
        let layout = *self.cache.layout();
        let mut restored = 0;
        for lbn in (0..self.logical_blocks).map(Lbn) {
            if found.head(self.lpns(lbn)).is_none() {
                continue;
            }
            let truth = self.places_found(found, lbn);
            let differing = match self.stored_map(flash, lbn) {
                Ok(map) => map.places().iter().zip(&truth).filter(|(stored, place)| stored != place).count(),
                Err(Error::Corrupt) => truth.iter().filter(|&&place| place != NULL).count(),
                Err(error) => return Err(error),
            };
            if differing > 0 {
                restored += differing as u64;
                self.cache.keep(lbn, BlockMap::of_found(&layout, truth.into_iter()), true);
            }
        }
        Ok(restored)
    }

    /// Of the maps that RAM alone has now, one page of each leaf is copied, and takes along what was found, where there
    /// is room to spare. The others stay in RAM until each of their leaves was programmed anew. A map for which this
    /// was begun is not what was found before it is done, so that a mount after a cut does it again.
    fn mend<F: Flash>(&mut self, flash: &mut F) -> Outcome<F> {
        let is_dirty = |lbn: &Lbn| self.cache.get(*lbn).is_some_and(|map| map.dirty);
        for lbn in (0..self.logical_blocks).map(Lbn).filter(is_dirty).collect::<Vec<_>>() {
            let (mut map, _) = self.cache.take(lbn);
            let copied = self.copy_leaves(flash, lbn, &mut map);
            self.cache.keep(lbn, map, true);
            match copied {
                Err(Error::Full) => break,
                copied => copied?,
            }
        }
        self.shrink(flash, 0, Cause::Recovery)
    }

    fn copy_leaves<F: Flash>(&mut self, flash: &mut F, lbn: Lbn, map: &mut BlockMap) -> Outcome<F> {
        let (s, layout) = (self.super_of(lbn), *self.cache.layout());
        if self.room(s) < layout.groups() {
            if !self.may_grow(s) || self.pool.free() <= super::reserve(&self.g) {
                return Ok(());
            }
            self.open_block(flash, s, Stream::Kept)?;
        }
        let offsets: Vec<u32> = map.pages().map(|(offset, _)| offset).collect();
        for leaf in offsets.chunk_by(|&one, &other| layout.group_of(one) == layout.group_of(other)) {
            let from = self.ppn(s, map.at(leaf[0]));
            self.append(flash, (lbn, leaf[0]), map, Stream::Kept, |flash, to, program| {
                flash.copy(from, to, Cause::Recovery, |oob, _| oob.program = program).map(|_| ())
            })?;
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
        let mut places = vec![NULL; self.g.pages_per_block as usize];
        for (place, lpn) in places.iter_mut().zip(self.lpns(lbn)) {
            *place = found.page(Lpn(lpn)).map_or(NULL, |ppn| self.place_of(s, ppn));
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
            if let Some(log) = &mut self.log {
                log.was_read(&mut self.pool, s.0, words.is_empty());
            }
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
                    changed.push((lbn, BlockMap::of_found(&layout, truth.into_iter())));
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

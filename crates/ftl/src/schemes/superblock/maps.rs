//! The maps of `superblock`: in spare areas (`parts/spare_map.rs`), or in pages of their own.
//!
//! A map page holds the maps of a superblock's logical blocks, 2 B for each page, and which block is in each slot, 4 B.
//! Map pages are written to a log (`parts/map_log.rs`), of which RAM knows where each lies. Maps in RAM are changed
//! there, and a changed one makes its map page be written anew before it leaves: with what else RAM has of that
//! superblock, and what the page had of the others. A collection changes maps that are not in RAM: it writes their page
//! at once, if there is no room for them.
//!
//! Room is made before a host page is programmed, so that a device which is full of bad blocks refuses the write and
//! loses nothing. If it cannot write a map page any more, changed maps stay in RAM, also more of them than there is
//! room for: a collection that programs failed in leaves such, and a mount may find such. Other maps are then read
//! without being kept.

use super::{Super, Superblock, live_page};
use crate::parts::map_log::MapLog;
use crate::parts::spare_map::{BlockMap, Layout, NULL};
use crate::{ConfigError, Error, Outcome};
use alloc::format;
use alloc::vec::Vec;
use flash::{Cause, Flash, Geometry, Lbn, Payload, Ppn};

/// Entry `i` of a map page: two bytes, two to a word.
pub(super) fn place_at(words: &[u32], i: usize) -> u16 {
    (words[i / 2] >> (i % 2 * 16)) as u16
}

fn put_places(words: &mut [u32], first: usize, places: &[u16]) {
    for (i, &place) in (first..).zip(places) {
        let shift = i % 2 * 16;
        words[i / 2] = words[i / 2] & !(0xffff << shift) | u32::from(place) << shift;
    }
}

/// The words of a map page before the list of blocks.
fn map_words(n: u32, pages: u32) -> usize {
    (n * pages).div_ceil(2) as usize
}

/// Whether a page holds the maps of a superblock.
pub(super) fn check(g: &Geometry, n: u32, layout: &Layout, cache_maps: u64) -> Result<(), ConfigError> {
    if cache_maps == 0 {
        return Err(ConfigError {
            key: "cache-maps",
            what: "no map in RAM, where maps are changed before their map page is written".into(),
            fix: "choose 1 at least, or maps=spare".into(),
        });
    }
    let (entries, blocks) = (n * g.pages_per_block, layout.slots);
    let bytes = (map_words(n, g.pages_per_block) as u32 + blocks) * 4;
    let most = u32::from(NULL);
    if bytes > g.page_bytes || layout.slots * layout.pages >= most {
        return Err(ConfigError {
            key: "maps",
            what: format!(
                "a map page takes {bytes} B ({entries} entries of 2 B, {blocks} blocks of 4 B) for up to {} places, \
                 and a page has {} B, an entry codes for {most} places",
                layout.slots * layout.pages,
                g.page_bytes
            ),
            fix: "use fewer logical-blocks or slots".into(),
        });
    }
    Ok(())
}

impl Superblock {
    /// Bytes of maps in a spare area.
    pub(super) fn own_bytes(&self) -> u32 {
        if self.log.is_none() { self.cache.layout().bytes() } else { 0 }
    }

    /// Whether nothing of a logical block was ever written, where RAM tells.
    #[inline]
    pub(super) fn is_unwritten(&self, lbn: Lbn) -> bool {
        self.heads.get(lbn.index()) == Some(&NULL)
    }

    /// The entries of a logical block in a map page.
    pub(super) fn entries(&self, lbn: Lbn) -> core::ops::Range<usize> {
        let first = (lbn.0 % self.n * self.g.pages_per_block) as usize;
        first..first + self.g.pages_per_block as usize
    }

    /// The block in each slot, as a map page has them.
    pub(super) fn listed<'a>(&self, words: &'a [u32]) -> &'a [u32] {
        &words[map_words(self.n, self.g.pages_per_block)..][..self.k]
    }

    /// Takes the map of a page's logical block out of RAM, or reads what is needed of it.
    #[inline]
    pub(super) fn find<F: Flash>(&mut self, flash: &mut F, lbn: Lbn, offset: u32) -> Outcome<F, BlockMap> {
        if self.log.is_some() {
            return self.find_in_page(flash, lbn);
        }
        let Superblock { g, pool, cache, blocks, heads, n, k, .. } = self;
        let slots = &blocks[(lbn.0 / *n) as usize * *k..][..*k];
        let layout = *cache.layout();
        let ppn_of = |place| live_page(g, pool, &layout, slots, place);
        cache.find(flash, lbn, offset, heads[lbn.index()], ppn_of, Cause::TranslationLoad)
    }

    fn find_in_page<F: Flash>(&mut self, flash: &mut F, lbn: Lbn) -> Outcome<F, BlockMap> {
        if let (map, true) = self.cache.take(lbn) {
            self.cache.hits += 1;
            return Ok(map);
        }
        let (map, reads) = self.page_map(flash, lbn, Cause::TranslationLoad)?;
        self.cache.misses += 1;
        self.cache.reads += reads;
        Ok(map)
    }

    /// A map as its map page has it, and how many were read.
    fn page_map<F: Flash>(&self, flash: &mut F, lbn: Lbn, cause: Cause) -> Outcome<F, (BlockMap, u64)> {
        let layout = self.cache.layout();
        let page = self.log.as_ref().and_then(|log| log.page(self.super_of(lbn).0));
        let Some(ppn) = page else { return Ok((BlockMap::empty(layout), 0)) };
        let words = words_of(flash, ppn, cause)?;
        Ok((BlockMap::of_places(layout, self.entries(lbn).map(|i| place_at(words, i))), 1))
    }

    /// A map as flash has it.
    pub(super) fn stored_map<F: Flash>(&self, flash: &mut F, lbn: Lbn) -> Outcome<F, BlockMap> {
        if self.log.is_some() {
            return Ok(self.page_map(flash, lbn, Cause::Recovery)?.0);
        }
        let (s, layout) = (self.super_of(lbn), self.cache.layout());
        let mut map = BlockMap::unknown(layout);
        let ppn_of = |place| self.live_page(s, place);
        map.fetch_all((layout, lbn), flash, self.heads[lbn.index()], ppn_of, Cause::Recovery)?;
        Ok(map)
    }

    /// The maps of all logical blocks of a superblock, for a collection.
    pub(super) fn all_maps<F: Flash>(&mut self, flash: &mut F, s: Super, cause: Cause) -> Outcome<F, Vec<BlockMap>> {
        let layout = *self.cache.layout();
        let mut maps: Vec<BlockMap> = Vec::with_capacity(self.n as usize);
        let mut words: Option<Vec<u32>> = None;
        for lbn in self.lbns(s) {
            let cached = self.cache.get(lbn).cloned();
            let map = match (&self.log, cached) {
                (None, cached) => {
                    let mut map = cached.unwrap_or_else(|| BlockMap::unknown(&layout));
                    let head = self.heads[lbn.index()];
                    let reads = map.fetch_all((&layout, lbn), flash, head, |place| self.live_page(s, place), cause)?;
                    self.counters.reads += u64::from(reads);
                    map
                }
                (Some(_), Some(map)) => map,
                (Some(log), None) => {
                    if let (None, Some(ppn)) = (&words, log.page(s.0)) {
                        words = Some(words_of(flash, ppn, cause_of_maps(cause))?.to_vec());
                        self.counters.reads += 1;
                    }
                    let entries = self.entries(lbn);
                    words.as_ref().map_or_else(
                        || BlockMap::empty(&layout),
                        |words| BlockMap::of_places(&layout, entries.clone().map(|i| place_at(words, i))),
                    )
                }
            };
            maps.push(map);
        }
        Ok(maps)
    }

    /// The maps of all logical blocks of a superblock after a collection. In spare areas they stand already.
    pub(super) fn take_in<F: Flash>(
        &mut self,
        flash: &mut F,
        s: Super,
        maps: Vec<BlockMap>,
        cause: Cause,
    ) -> Outcome<F> {
        let mut changed = false;
        for (lbn, map) in self.lbns(s).zip(maps) {
            match self.cache.get_mut(lbn) {
                Some(cached) => *cached = map,
                None if map.dirty => {
                    self.cache.keep(lbn, map, true);
                    changed = true;
                }
                None => {}
            }
        }
        if changed && self.cache.surplus(0).is_some() {
            self.write_maps(flash, s, cause_of_maps(cause))?;
        }
        self.shrink(flash, 0, cause_of_maps(cause))
    }

    /// Makes a place for a map, if it is not in RAM.
    #[inline]
    pub(super) fn place_for<F: Flash>(&mut self, flash: &mut F, lbn: Lbn) -> Outcome<F> {
        if self.log.is_some() && self.cache.get(lbn).is_none() {
            self.shrink(flash, 1, Cause::TranslationUpdate)?;
        }
        Ok(())
    }

    /// Lets the maps used longest ago leave RAM, until there is room for so many.
    #[inline]
    pub(super) fn shrink<F: Flash>(&mut self, flash: &mut F, room: usize, cause: Cause) -> Outcome<F> {
        if self.log.is_none() {
            self.cache.drop_stored();
            return Ok(());
        }
        while let Some((lbn, map)) = self.cache.surplus(room) {
            if map.dirty {
                self.write_maps(flash, self.super_of(lbn), cause)?;
            }
            self.cache.drop_oldest();
        }
        Ok(())
    }

    /// The same, behind a request that was served. A device that cannot write a map page keeps the map in RAM: what
    /// needs the room hears that the device is full.
    #[inline]
    pub(super) fn shrink_if_possible<F: Flash>(&mut self, flash: &mut F, cause: Cause) -> Outcome<F> {
        match self.shrink(flash, 0, cause) {
            Err(Error::Full) => Ok(()),
            shrunk => shrunk,
        }
    }

    /// Writes the map page of a superblock.
    fn write_maps<F: Flash>(&mut self, flash: &mut F, s: Super, cause: Cause) -> Outcome<F> {
        let lbns = self.lbns(s);
        let first = map_words(self.n, self.g.pages_per_block);
        let entries: Vec<usize> = lbns.clone().map(|lbn| self.entries(lbn).start).collect();
        let Superblock { log, cache, pool, blocks, k, .. } = self;
        let log: &mut MapLog = log.as_mut().expect("a map is dirty only where there are map pages");
        let slots = &blocks[s.index() * *k..][..*k];
        let new = lbns.clone().all(|lbn| cache.get(lbn).is_some());
        let edit = |words: &mut [u32]| {
            for (lbn, &first) in lbns.clone().zip(&entries) {
                if let Some(map) = cache.get(lbn) {
                    put_places(words, first, map.places());
                }
            }
            words[first..first + slots.len()].copy_from_slice(slots);
        };
        log.write(flash, pool, s.0, (first + slots.len(), new), edit, cause)?;
        for lbn in lbns {
            if let Some(map) = cache.get_mut(lbn) {
                map.dirty = false;
            }
        }
        self.counters.writes += 1;
        Ok(())
    }
}

/// Reads a map page. Where it is torn or damaged there is none.
pub(super) fn words_of<F: Flash>(flash: &mut F, ppn: Ppn, cause: Cause) -> Outcome<F, &[u32]> {
    match flash.read(ppn, cause)?.1 {
        Payload::Meta(words) => Ok(words),
        _ => Err(Error::Corrupt),
    }
}

/// The cause of reading and writing map pages for a collection.
fn cause_of_maps(cause: Cause) -> Cause {
    if cause == Cause::DataGc { Cause::TranslationUpdate } else { cause }
}

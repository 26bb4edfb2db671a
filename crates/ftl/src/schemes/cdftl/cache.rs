//! CDFTL's two levels: single entries in front of whole translation pages.
//!
//! What holds for an entry that is in both: if it is dirty in the first level it is newer there, otherwise both say the
//! same. A clean entry that is in one level alone, and an entry that is dirty in the first level and clean in the
//! second, are on flash as the clean copy says.
//!
//! An entry of the first level is *droppable* if it is clean or its translation page is in the second level. The least
//! recently used of those is looked for from the end of the LRU list. An entry on the way that is not droppable is set
//! aside, so that it is met once. All that are set aside are older than all others; where one of them becomes droppable
//! it enters a heap by time of use, which is asked first. Every droppable entry that is set aside has one place in the
//! heap, under the time of its last use or an earlier one; what has become wrong there is put right when it comes up.
//! Where only a few are looked at (`victim-window`) they are looked at each time, and nothing is set aside.

use crate::demand::cache::{Cache, Entry, Shape};
use crate::demand::map::{Batch, Map, MapStore};
use crate::parts::cache::{self, MappingCache, OrderKind, PageCache};
use crate::{ConfigError, Loader, Outcome, Parameter, Saver, Settings};
use alloc::collections::BinaryHeap;
use alloc::collections::binary_heap::PeekMut;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;
use flash::{Cause, Flash, Lpn, Ppn, Tvpn};

/// `second-level`: how many translation pages the second level holds.
pub(crate) const SECOND_LEVEL: Parameter = Parameter::count("second-level", 2, 1..=1 << 20)
    .unit("pages")
    .text(
        "Translation pages that the second level holds. More serve neighbours of recent pages; fewer leave more \
         entries to the first level.",
    )
    .source("{scftl}, section IV: 16 KB, which is 2 pages of 8 KB");

/// `install`: what happens to an entry that the second level does not cover.
pub(crate) const INSTALL: Parameter = Parameter::switch("install", false)
    .text(
        "A dirty entry leaves the first level by loading its translation page into the second. Off updates the page \
         on flash.",
    )
    .source("ftlab; the paper is believed to do so, {scftl} is silent");

/// `victim-window`: how far the search for an entry that needs no flash command goes.
pub(crate) const WINDOW: Parameter = Parameter::count("victim-window", 0, 0..=1 << 28)
    .unit("entries")
    .text(
        "Least recently used entries of the first level among which one is looked for that leaves it without a flash \
         command. 1: plain LRU. More save updates of translation pages, drive out entries that were used later, and \
         take longer to search. 0: the whole level.",
    )
    .source("ftlab; {cdftl} is not at hand, {scftl} is silent");

/// Counters of the two levels.
pub(super) const COUNTERS: &[(&str, &str)] = &[
    ("second_level_hits", "look-ups that only the second level answered, those of discards too"),
    ("first_level_dropped", "entries that left the first level clean"),
    ("first_level_merged", "entries that left the first level dirty, into their translation page in the second"),
    ("first_level_flushed", "entries that left the first level dirty and took flash commands to do so"),
    ("second_level_dropped", "translation pages that left the second level clean"),
    ("second_level_flushed", "translation pages that left the second level dirty and were written"),
];

#[derive(Clone, Copy, Default, Debug)]
struct Counters {
    second_hits: u64,
    first_dropped: u64,
    first_merged: u64,
    first_flushed: u64,
    second_dropped: u64,
    second_flushed: u64,
}

/// Where an entry is.
#[derive(Clone, Copy, Debug)]
pub enum Slot {
    /// In the first level.
    First(cache::Slot),
    /// In the second level alone: in the page in this slot.
    Second(u32),
}

/// See the module's description.
#[derive(Clone, Debug)]
pub struct TwoLevels {
    shape: Shape,
    first: MappingCache,
    /// The droppable entries among those that are set aside.
    freed: BinaryHeap<Reverse<(u64, cache::Slot)>>,
    /// Whether a slot of the first level has a place in the heap.
    queued: Vec<bool>,
    second: PageCache,
    install: bool,
    /// Entries looked at for a victim; `None` looks at all.
    window: Option<usize>,
    counters: Counters,
    /// Scratch space; empty between calls.
    entries: Vec<Entry>,
    slots: Vec<cache::Slot>,
}

/// Bytes of an entry of the first level: LPN, PPN and flags.
const ENTRY_BYTES: u64 = 9;

/// What the cache is told.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// `second-level`.
    pub second_level: u64,
    /// `install`.
    pub install: bool,
    /// `victim-window`; 0 for the whole level.
    pub window: u64,
}

impl From<&Settings> for Options {
    fn from(settings: &Settings) -> Options {
        Options {
            second_level: settings.count(&SECOND_LEVEL),
            install: settings.switch(&INSTALL),
            window: settings.count(&WINDOW),
        }
    }
}

impl Options {
    /// Pages of the second level.
    fn pages(&self, shape: &Shape) -> u64 {
        self.second_level.min(u64::from(shape.pages()))
    }
}

/// Bytes of so many pages: a tag, and the entries, each with its dirty bit among the PPN's spare bits.
fn page_bytes(shape: &Shape, pages: u64) -> u64 {
    pages * (4 + 4 * u64::from(shape.page_entries))
}

/// Whether an entry of the first level can go without flash commands.
#[inline]
fn is_droppable(first: &MappingCache, second: &PageCache, slot: cache::Slot) -> bool {
    !first.is_dirty(slot) || second.find(first.tvpn_of(slot)).is_some()
}

impl TwoLevels {
    /// Gives an entry that is, or may be, droppable its place in the heap, if it is set aside.
    #[inline]
    fn offer(&mut self, slot: cache::Slot) {
        if self.first.is_aside(slot) && !core::mem::replace(&mut self.queued[slot.index()], true) {
            self.freed.push(Reverse((self.first.last_use(slot), slot)));
        }
    }

    /// Offers the dirty entries of a translation page, which became droppable.
    fn offer_dirty(&mut self, tvpn: Tvpn) {
        if !self.first.any_aside() || !self.first.has_dirty(tvpn) {
            return;
        }
        let mut slots = core::mem::take(&mut self.slots);
        slots.extend(self.first.dirty_lines(tvpn));
        for slot in slots.drain(..) {
            self.offer(slot);
        }
        self.slots = slots;
    }

    /// The least recently used droppable entry of those that are looked at.
    fn droppable(&mut self) -> Option<cache::Slot> {
        if let Some(window) = self.window {
            let mut oldest = self.first.oldest_first().take(window);
            return oldest.find(|&slot| is_droppable(&self.first, &self.second, slot));
        }
        while let Some(mut top) = self.freed.peek_mut() {
            let Reverse((used, slot)) = *top;
            let now = self.first.last_use(slot);
            let stays = self.first.is_aside(slot) && is_droppable(&self.first, &self.second, slot);
            if stays && used != now {
                *top = Reverse((now, slot));
                continue;
            }
            PeekMut::pop(top);
            self.queued[slot.index()] = false;
            if stays {
                return Some(slot);
            }
        }
        while let Some(slot) = self.first.oldest() {
            if is_droppable(&self.first, &self.second, slot) {
                return Some(slot);
            }
            self.first.set_aside(slot);
        }
        None
    }

    /// Copies the dirty entries that the first level has of a translation page into the second; they are clean there.
    fn merge(&mut self, tvpn: Tvpn, page: u32) {
        let mut entries = core::mem::take(&mut self.entries);
        self.first.clean_page(tvpn, &mut entries);
        for Entry { lpn, ppn } in entries.drain(..) {
            self.second.set(page, lpn, ppn);
        }
        self.entries = entries;
    }

    /// Makes room for an entry in the first level.
    fn vacate<F: Flash, S: MapStore>(&mut self, flash: &mut F, map: &mut Map<S>) -> Outcome<F> {
        if !self.first.is_full() {
            return Ok(());
        }
        let victim = if let Some(victim) = self.droppable() {
            if self.first.is_dirty(victim) {
                let page = self.second.find(self.first.tvpn_of(victim)).expect("a dirty droppable entry is covered");
                self.copy_down(victim, page);
                self.counters.first_merged += 1;
            } else {
                self.counters.first_dropped += 1;
                map.counters.clean_evictions += 1;
            }
            victim
        } else {
            let (oldest, tvpn) = self.first.victim();
            if self.install {
                let page = self.load(flash, map, tvpn)?;
                self.copy_down(oldest, page);
            } else {
                self.write_back(flash, map, oldest, tvpn)?;
            }
            self.counters.first_flushed += 1;
            let victim = self.droppable();
            debug_assert_eq!(victim, Some(oldest), "the oldest entry of all became droppable");
            oldest
        };
        self.first.remove(victim);
        Ok(())
    }

    /// Copies a dirty entry into its page in the second level; it is clean in the first.
    fn copy_down(&mut self, slot: cache::Slot, page: u32) {
        let mut entries = core::mem::take(&mut self.entries);
        self.first.clean_line(slot, &mut entries);
        for Entry { lpn, ppn } in entries.drain(..) {
            self.second.set(page, lpn, ppn);
        }
        self.entries = entries;
    }

    /// Writes the oldest entry of the first level into its translation page, which is not in the second, with as many
    /// others as the store lets it.
    fn write_back<F: Flash, S: MapStore>(
        &mut self,
        flash: &mut F,
        map: &mut Map<S>,
        oldest: cache::Slot,
        tvpn: Tvpn,
    ) -> Outcome<F> {
        let batch = map.batch(flash, tvpn, 1)?;
        let mut slots = core::mem::take(&mut self.slots);
        match batch {
            Batch::Victim => slots.push(oldest),
            Batch::All => slots.extend(self.first.dirty_lines(tvpn)),
            Batch::UpTo(most) => {
                slots.extend(self.first.dirty_lines(tvpn));
                self.first.sort_by_use(&mut slots);
                slots.truncate(most.max(1) as usize);
            }
        }
        let mut entries = core::mem::take(&mut self.entries);
        for slot in slots.drain(..) {
            self.first.clean_line(slot, &mut entries);
            self.offer(slot);
        }
        self.slots = slots;
        map.wrote_back(entries.len());
        let all = !self.first.has_dirty(tvpn);
        let written = map.update(flash, tvpn, &entries, all, Cause::TranslationUpdate);
        if written.is_err() {
            self.soil(&entries);
        }
        entries.clear();
        self.entries = entries;
        written
    }

    /// Loads a translation page that is not there into the second level.
    fn load<F: Flash, S: MapStore>(&mut self, flash: &mut F, map: &mut Map<S>, tvpn: Tvpn) -> Outcome<F, u32> {
        if self.second.is_full() {
            self.evict_page(flash, map)?;
        }
        let page = match map.read(flash, tvpn)? {
            None => self.second.insert(tvpn, |entries| entries.fill(Ppn::NONE.0)),
            Some(page) => self.second.insert(tvpn, |entries| map.entries(page, 0, entries)),
        };
        self.offer_dirty(tvpn);
        Ok(page)
    }

    /// Evicts the second level's least recently used page. It is complete, so that writing it takes no read.
    fn evict_page<F: Flash, S: MapStore>(&mut self, flash: &mut F, map: &mut Map<S>) -> Outcome<F> {
        let page = self.second.victim();
        let tvpn = self.second.tvpn_of(page);
        if self.second.changed(page) == 0 {
            self.counters.second_dropped += 1;
            map.counters.clean_evictions += 1;
        } else {
            self.merge(tvpn, page);
            let changed = self.second.changed(page) as usize;
            self.counters.second_flushed += 1;
            map.wrote_back(changed);
            map.rewrite(flash, tvpn, self.second.entries(page), changed, Cause::TranslationUpdate)?;
            self.second.clean(page);
        }
        self.second.remove(page);
        Ok(())
    }

    /// Copies an entry from the second level into the first.
    fn copy_up<F: Flash, S: MapStore>(
        &mut self,
        flash: &mut F,
        map: &mut Map<S>,
        page: u32,
        lpn: Lpn,
    ) -> Outcome<F, Slot> {
        // Making room may take the page away again, but not what it says.
        let ppn = self.second.get(page, lpn);
        self.vacate(flash, map)?;
        Ok(Slot::First(self.insert(lpn, ppn)))
    }

    /// Takes lost entries into the first level, all or, if they do not fit, none.
    fn restore_first(&mut self, group: &[Entry]) -> bool {
        let fits = group.len() <= self.first.room() as usize;
        for &Entry { lpn, ppn } in group.iter().filter(|_| fits) {
            let slot = self.insert(lpn, ppn);
            self.first.set(slot, lpn, ppn);
        }
        fits
    }

    fn insert(&mut self, lpn: Lpn, ppn: Ppn) -> cache::Slot {
        self.first.insert(lpn, |line| line[0] = ppn.0)
    }
}

impl Cache for TwoLevels {
    type Slot = Slot;
    type Options = Options;

    const ABSORBS_ALL: bool = true;

    const LEAST: &'static str = "a second level of whole translation pages with one entry in front of it";

    fn least_bytes(shape: &Shape, options: &Options) -> Result<u64, ConfigError> {
        Ok(page_bytes(shape, options.pages(shape)) + ENTRY_BYTES)
    }

    fn new(shape: &Shape, options: &Options, bytes: u64) -> Self {
        let pages = options.pages(shape);
        let entries = (bytes - page_bytes(shape, pages)) / ENTRY_BYTES;
        let entries = entries.min(u64::from(shape.logical_pages)) as u32;
        TwoLevels {
            shape: *shape,
            first: MappingCache::new(shape.logical_pages, shape.page_entries, 1, entries, OrderKind::Lru),
            freed: BinaryHeap::new(),
            queued: vec![false; entries as usize],
            second: PageCache::new(shape.logical_pages, shape.page_entries, pages as u32),
            install: options.install,
            window: (options.window > 0).then_some(options.window as usize),
            counters: Counters::default(),
            entries: Vec::new(),
            slots: Vec::new(),
        }
    }

    /// One for a page that leaves the second level, and one for an entry that leaves the first: its own update, or
    /// another page that leaves for its page to be installed.
    fn most_updates(&self) -> u32 {
        2
    }

    #[inline(always)]
    fn find(&self, lpn: Lpn) -> Option<Slot> {
        match self.first.find(lpn) {
            Some(slot) => Some(Slot::First(slot)),
            None => self.second.find(self.shape.tvpn(lpn.0)).map(Slot::Second),
        }
    }

    #[inline(always)]
    fn hit(&mut self, slot: Slot, _: Lpn) {
        match slot {
            Slot::First(slot) => self.first.hit(slot),
            Slot::Second(page) => self.second.hit(page),
        }
    }

    #[inline(always)]
    fn promote<F: Flash, S: MapStore>(
        &mut self,
        flash: &mut F,
        map: &mut Map<S>,
        slot: Slot,
        lpn: Lpn,
    ) -> Outcome<F, Slot> {
        self.hit(slot, lpn);
        let Slot::Second(page) = slot else { return Ok(slot) };
        self.counters.second_hits += 1;
        self.copy_up(flash, map, page, lpn)
    }

    #[inline(always)]
    fn get(&self, slot: Slot, lpn: Lpn) -> Ppn {
        match slot {
            Slot::First(slot) => self.first.get(slot, lpn),
            Slot::Second(page) => self.second.get(page, lpn),
        }
    }

    fn is_dirty(&self, slot: Slot, lpn: Lpn) -> bool {
        if let Slot::First(slot) = slot
            && self.first.is_dirty(slot)
        {
            return true;
        }
        self.second.find(self.shape.tvpn(lpn.0)).is_some_and(|page| self.second.is_entry_dirty(page, lpn))
    }

    #[inline(always)]
    fn holds_all(&self) -> bool {
        self.second.holds_all()
    }

    fn fetch<F: Flash, S: MapStore>(&mut self, flash: &mut F, map: &mut Map<S>, lpn: Lpn) -> Outcome<F, Slot> {
        let page = self.load(flash, map, self.shape.tvpn(lpn.0))?;
        self.copy_up(flash, map, page, lpn)
    }

    #[inline(always)]
    fn set(&mut self, slot: Slot, lpn: Lpn, ppn: Ppn) {
        match slot {
            Slot::First(slot) => self.first.set(slot, lpn, ppn),
            Slot::Second(page) => self.second.set(page, lpn, ppn),
        }
    }

    #[inline(always)]
    fn has_dirty(&self, tvpn: Tvpn) -> bool {
        self.first.has_dirty(tvpn) || self.second.find(tvpn).is_some_and(|page| self.second.changed(page) > 0)
    }

    fn clean_page(&mut self, tvpn: Tvpn, out: &mut Vec<Entry>) {
        if let Some(page) = self.second.find(tvpn) {
            self.merge(tvpn, page);
            self.second.clean_into(page, out);
        } else {
            self.offer_dirty(tvpn);
            self.first.clean_page(tvpn, out);
        }
    }

    #[cold]
    fn soil(&mut self, entries: &[Entry]) {
        for &Entry { lpn, ppn } in entries {
            if let Some(page) = self.second.find(self.shape.tvpn(lpn.0)) {
                self.second.set(page, lpn, ppn);
            } else if let Some(slot) = self.first.find(lpn) {
                self.first.set(slot, lpn, ppn);
            }
        }
    }

    fn refresh(&mut self, lpn: Lpn, ppn: Ppn) {
        if let Some(slot) = self.first.find(lpn) {
            self.first.set_clean(slot, lpn, ppn);
            self.offer(slot);
        }
        if let Some(page) = self.second.find(self.shape.tvpn(lpn.0)) {
            self.second.set_clean(page, lpn, ppn);
        }
    }

    /// The largest groups go into the second level, the others into the first: if all can be held, so they are.
    fn restore(&mut self, group: &[Entry], entry: impl Fn(u32) -> u32) -> bool {
        if self.second.is_full() {
            let smallest = self.second.by_use().into_iter().min_by_key(|&page| self.second.changed(page));
            let page = smallest.filter(|&page| (self.second.changed(page) as usize) < group.len());
            let Some(page) = page else { return self.restore_first(group) };
            let mut entries = Vec::new();
            self.second.clean_into(page, &mut entries);
            if !self.restore_first(&entries) {
                self.soil(&entries);
                return self.restore_first(group);
            }
            self.second.remove(page);
        }
        let tvpn = self.shape.tvpn(group[0].lpn.0);
        let first = self.shape.lpns(tvpn).start;
        let load = |entries: &mut [u32]| entries.iter_mut().zip(first..).for_each(|(word, lpn)| *word = entry(lpn));
        let page = self.second.insert(tvpn, load);
        group.iter().for_each(|entry| self.second.set(page, entry.lpn, entry.ppn));
        true
    }

    #[inline(always)]
    fn prefetch(&self, lpn: Lpn) {
        self.first.prefetch(lpn);
    }

    fn memory(&self) -> u64 {
        self.queued.len() as u64 * ENTRY_BYTES + page_bytes(&self.shape, self.second.capacity().into())
    }

    fn counters(&self, out: &mut Vec<(&'static str, u64)>) {
        let Counters { second_hits, first_dropped, first_merged, first_flushed, second_dropped, second_flushed } =
            self.counters;
        let values = [second_hits, first_dropped, first_merged, first_flushed, second_dropped, second_flushed];
        out.extend(COUNTERS.iter().zip(values).map(|(&(name, _), value)| (name, value)));
    }

    fn reset_counters(&mut self) {
        self.counters = Counters::default();
    }

    fn audit(&self) -> Result<(), String> {
        self.second.audit()?;
        for slot in self.first.lines() {
            let (lpn, tvpn) = (Lpn(self.first.lpn_of(slot)), self.first.tvpn_of(slot));
            let page = self.second.find(tvpn);
            let dirty = self.first.is_dirty(slot);
            if let Some(page) = page.filter(|_| !dirty) {
                let (ours, theirs) = (self.first.get(slot, lpn), self.second.get(page, lpn));
                if ours != theirs {
                    return Err(format!("LPN {lpn} is clean as {ours} in the first level, {theirs} in the second"));
                }
            }
            let droppable = is_droppable(&self.first, &self.second, slot);
            if self.first.is_aside(slot) && droppable && !self.queued[slot.index()] {
                return Err(format!("LPN {lpn} is set aside, could be dropped, and is not on offer"));
            }
        }
        Ok(())
    }

    fn save(&self, out: &mut Saver) {
        self.first.save(out);
        let pages = self.second.by_use();
        for &page in &pages {
            out.u32(self.second.tvpn_of(page).0);
            self.second.save(page, out);
        }
        (pages.len() as u32..self.second.capacity()).for_each(|_| out.u32(u32::MAX));
    }

    fn load(&mut self, from: &mut Loader<'_>) {
        self.first.load(from);
        for _ in 0..self.second.capacity() {
            let tvpn = from.u32();
            if tvpn != u32::MAX {
                self.second.load(Tvpn(tvpn), from);
            }
        }
        let slots: Vec<cache::Slot> = self.first.lines().collect();
        slots.into_iter().for_each(|slot| self.offer(slot));
    }
}

//! S-FTL's cache: translation pages, each taking the bytes of its compressed form, and the dirty buffer beside them.
//!
//! The compressed form ([`Runs`]) is what the budget is held to and what is saved. Between the two the simulator keeps
//! a cached page's entries as they are, with the number of their runs, so that a change is three comparisons.

use super::buffer::{self, Buffer};
use super::runs::{self, Runs};
use crate::demand::cache::{Cache, Entry, Shape};
use crate::demand::map::{Map, MapStore};
use crate::parts::cache::PageCache;
use crate::{ConfigError, Loader, Outcome, Parameter, Saver, Settings};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use flash::{Cause, Flash, Lpn, Ppn, Tvpn};

/// `buffer-share`: how the cache is divided.
pub(crate) const BUFFER_SHARE: Parameter = Parameter::count("buffer-share", 10, 0..=50)
    .unit("%")
    .text("Share of the cache that is the dirty buffer. More delays write-backs and leaves less for pages.")
    .source("ftlab; the paper has a buffer, its share is a reconstruction");

/// `threshold`: which dirty pages are not written.
pub(crate) const THRESHOLD: Parameter = Parameter::count("threshold", 16, 0..=1 << 18)
    .unit("entries")
    .text(
        "An evicted page with at most so many dirty entries leaves them in the dirty buffer. More fills the buffer \
         sooner. 0 writes every page.",
    )
    .source("ftlab; the paper has a threshold that we do not know");

/// Counters of the cache.
pub(super) const COUNTERS: &[(&str, &str)] = &[
    ("pages_loaded", "translation pages taken into the cache, also those that were never written"),
    ("loaded_bytes", "their compressed sizes, summed up"),
    ("loaded_runs", "their runs, summed up"),
    ("buffer_hits", "look-ups that the dirty buffer answered, those of discards too"),
    ("buffered_pages", "dirty pages that were evicted without a write"),
    ("buffered_entries", "dirty entries that these left in the dirty buffer"),
    ("buffer_flushes", "translation pages updated from the dirty buffer to make room there"),
    ("crowded_out_pages", "clean pages dropped without a miss: a collection or a discard made another one grow"),
];

#[derive(Clone, Copy, Default, Debug)]
struct Counters {
    loaded: u64,
    loaded_bytes: u64,
    loaded_runs: u64,
    buffer_hits: u64,
    buffered_pages: u64,
    buffered_entries: u64,
    flushes: u64,
    crowded_out: u64,
}

/// Where an entry is.
#[derive(Clone, Copy, Debug)]
pub enum Slot {
    /// In the cached page in this slot.
    Page(u32),
    /// In the dirty buffer, at this place of its group.
    Buffered(u32),
}

/// See the module's description.
#[derive(Clone, Debug)]
pub struct CompressedPages {
    shape: Shape,
    threshold: usize,
    pages: PageCache,
    /// Runs of the page in each slot.
    runs: Vec<u32>,
    /// Bytes that the pages may take, and do.
    budget: u64,
    used: u64,
    buffer: Buffer,
    counters: Counters,
    /// Scratch space; empty between calls.
    entries: Vec<Entry>,
}

/// What became of a page that was to be evicted without flash commands.
#[derive(PartialEq, Eq)]
enum Evicted {
    Clean,
    Buffered,
    Not,
}

/// Bytes of a page with so many runs: tag and number of runs, a bit for each entry that says whether it starts a run
/// and one whether it is dirty, and the runs. Beyond `4·E` the entries stand as they are, each with its dirty bit among
/// the PPN's spare bits.
fn size(page_entries: u32, runs: u32) -> u64 {
    let compressed = 8 + 2 * page_entries.div_ceil(8) + 4 * runs;
    u64::from(if compressed < 4 * page_entries { compressed } else { 8 + 4 * page_entries })
}

/// The most that a page takes.
fn raw_size(shape: &Shape) -> u64 {
    size(shape.page_entries, shape.page_entries)
}

/// What the cache is told.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// `buffer-share`, %.
    pub buffer_share: u64,
    /// `threshold`.
    pub threshold: usize,
}

impl From<&Settings> for Options {
    fn from(settings: &Settings) -> Options {
        Options { buffer_share: settings.count(&BUFFER_SHARE), threshold: settings.count(&THRESHOLD) as usize }
    }
}

/// Entries of the dirty buffer in a cache of so many bytes.
fn buffer_entries(shape: &Shape, options: &Options, bytes: u64) -> u64 {
    (bytes * options.buffer_share / 100 / buffer::ENTRY_BYTES).min(u64::from(shape.logical_pages))
}

impl CompressedPages {
    fn size(&self, runs: u32) -> u64 {
        size(self.shape.page_entries, runs)
    }

    /// Runs of the page in a slot once an entry becomes `ppn`.
    #[inline(always)]
    fn runs_with(&self, page: u32, lpn: Lpn, ppn: Ppn) -> u32 {
        let index = (lpn.0 - self.pages.tvpn_of(page).0 * self.shape.page_entries) as usize;
        self.runs[page as usize].wrapping_add_signed(runs::growth(self.pages.entries(page), index, ppn.0))
    }

    /// The bytes that the pages take with an entry changed.
    #[inline(always)]
    fn used_with(&self, page: u32, lpn: Lpn, ppn: Ppn) -> u64 {
        self.used - self.size(self.runs[page as usize]) + self.size(self.runs_with(page, lpn, ppn))
    }

    /// An entry of a cached page is about to change, and fits.
    #[inline(always)]
    fn resize(&mut self, page: u32, lpn: Lpn, ppn: Ppn) {
        let (used, runs) = (self.used_with(page, lpn, ppn), self.runs_with(page, lpn, ppn));
        debug_assert!(used <= self.budget, "no room was made for what a page grew by");
        self.used = used;
        self.runs[page as usize] = runs;
    }

    /// Drops a clean page.
    fn remove(&mut self, page: u32) {
        self.used -= self.size(self.runs[page as usize]);
        self.pages.remove(page);
    }

    /// Evicts a page if that takes no flash command.
    fn evict_freely(&mut self, page: u32) -> Evicted {
        let changed = self.pages.changed(page) as usize;
        if changed > self.threshold.min(self.buffer.room()) {
            return Evicted::Not;
        }
        if changed > 0 {
            let mut entries = core::mem::take(&mut self.entries);
            let tvpn = self.pages.tvpn_of(page);
            self.pages.clean_into(page, &mut entries);
            self.buffer.put(tvpn, &entries);
            self.counters.buffered_pages += 1;
            self.counters.buffered_entries += entries.len() as u64;
            entries.clear();
            self.entries = entries;
        }
        self.remove(page);
        if changed > 0 { Evicted::Buffered } else { Evicted::Clean }
    }

    /// Evicts the least recently used page, while `loading` is being loaded.
    fn evict<F: Flash, S: MapStore>(&mut self, flash: &mut F, map: &mut Map<S>, loading: Option<Tvpn>) -> Outcome<F> {
        let page = self.pages.victim();
        let changed = self.pages.changed(page) as usize;
        // A full buffer makes room if the write that this takes frees more of it than the page's own would save.
        if changed > self.buffer.room()
            && changed <= self.threshold
            && let Some(fullest) = self.buffer.fullest(loading)
            && self.buffer.group(fullest).len() > changed
        {
            self.flush(flash, map, fullest)?;
        }
        match self.evict_freely(page) {
            Evicted::Clean => map.counters.clean_evictions += 1,
            Evicted::Buffered => {}
            // The page is complete: writing it takes no read.
            Evicted::Not => {
                map.wrote_back(changed);
                let tvpn = self.pages.tvpn_of(page);
                map.rewrite(flash, tvpn, self.pages.entries(page), changed, Cause::TranslationUpdate)?;
                self.pages.clean(page);
                self.remove(page);
            }
        }
        Ok(())
    }

    /// Updates a translation page with its entries in the dirty buffer.
    fn flush<F: Flash, S: MapStore>(&mut self, flash: &mut F, map: &mut Map<S>, tvpn: Tvpn) -> Outcome<F> {
        self.counters.flushes += 1;
        map.wrote_back(self.buffer.group(tvpn).len());
        map.update(flash, tvpn, self.buffer.group(tvpn), true, Cause::TranslationUpdate)?;
        self.buffer.take(tvpn, &mut self.entries);
        self.entries.clear();
        Ok(())
    }

    /// Whether an entry of a cached page can change, if need be after evicting other pages without flash commands.
    fn fits(&mut self, page: u32, lpn: Lpn, ppn: Ppn) -> bool {
        while self.used_with(page, lpn, ppn) > self.budget {
            let victim = self.pages.victim();
            if victim == page {
                return false;
            }
            match self.evict_freely(victim) {
                Evicted::Clean => self.counters.crowded_out += 1,
                Evicted::Buffered => {}
                Evicted::Not => return false,
            }
        }
        true
    }
}

impl Cache for CompressedPages {
    type Slot = Slot;
    type Options = Options;

    const LEAST: &'static str = "beside its dirty buffer a cache that holds any translation page";

    fn least_bytes(shape: &Shape, options: &Options) -> Result<u64, ConfigError> {
        let page = raw_size(shape);
        // The buffer's part is rounded down to whole entries: search from just below.
        let about = (page * 100 / (100 - options.buffer_share)).saturating_sub(buffer::ENTRY_BYTES);
        let fits = |bytes: u64| bytes - buffer::ENTRY_BYTES * buffer_entries(shape, options, bytes) >= page;
        Ok((about.max(page)..).find(|&bytes| fits(bytes)).expect("half of a cache at the least is for pages"))
    }

    fn new(shape: &Shape, options: &Options, bytes: u64) -> Self {
        let buffer = buffer_entries(shape, options, bytes);
        let all = u64::from(shape.pages());
        let budget = (bytes - buffer::ENTRY_BYTES * buffer).min(all * raw_size(shape));
        // As many as fit if each is one run, and the one that is being loaded.
        let most = (budget / size(shape.page_entries, 1) + 1).min(all) as u32;
        CompressedPages {
            shape: *shape,
            threshold: options.threshold,
            pages: PageCache::new(shape.logical_pages, shape.page_entries, most),
            runs: vec![0; most as usize],
            budget,
            used: 0,
            buffer: Buffer::new(shape, buffer as usize),
            counters: Counters::default(),
            entries: Vec::new(),
        }
    }

    /// A page of the largest size drives out pages of the smallest, each dirty; then it grows, by less than the
    /// smallest.
    fn most_updates(&self) -> u32 {
        let evicted = raw_size(&self.shape).div_ceil(self.size(1)) as u32 + 1;
        evicted.min(self.shape.pages())
    }

    #[inline(always)]
    fn find(&self, lpn: Lpn) -> Option<Slot> {
        let tvpn = self.shape.tvpn(lpn.0);
        match self.pages.find(tvpn) {
            Some(page) => Some(Slot::Page(page)),
            None => self.buffer.find(tvpn, lpn).map(Slot::Buffered),
        }
    }

    #[inline(always)]
    fn hit(&mut self, slot: Slot, _: Lpn) {
        match slot {
            Slot::Page(page) => self.pages.hit(page),
            Slot::Buffered(_) => self.counters.buffer_hits += 1,
        }
    }

    #[inline(always)]
    fn get(&self, slot: Slot, lpn: Lpn) -> Ppn {
        match slot {
            Slot::Page(page) => self.pages.get(page, lpn),
            Slot::Buffered(at) => self.buffer.group(self.shape.tvpn(lpn.0))[at as usize].ppn,
        }
    }

    fn is_dirty(&self, slot: Slot, lpn: Lpn) -> bool {
        match slot {
            Slot::Page(page) => self.pages.is_entry_dirty(page, lpn),
            Slot::Buffered(_) => true,
        }
    }

    #[inline(always)]
    fn holds_all(&self) -> bool {
        self.budget >= u64::from(self.shape.pages()) * raw_size(&self.shape)
    }

    fn fetch<F: Flash, S: MapStore>(&mut self, flash: &mut F, map: &mut Map<S>, lpn: Lpn) -> Outcome<F, Slot> {
        let tvpn = self.shape.tvpn(lpn.0);
        let page = match map.read(flash, tvpn)? {
            None => self.pages.insert(tvpn, |entries| entries.fill(Ppn::NONE.0)),
            Some(page) => self.pages.insert(tvpn, |entries| map.entries(page, 0, entries)),
        };
        // What the dirty buffer has of it counts for the size, but stays there until there is room.
        for &Entry { lpn, ppn } in self.buffer.group(tvpn) {
            self.pages.set_clean(page, lpn, ppn);
        }
        let runs = runs::count(self.pages.entries(page));
        let size = self.size(runs);
        while self.used + size > self.budget {
            if let Err(error) = self.evict(flash, map, Some(tvpn)) {
                self.pages.remove(page);
                return Err(error);
            }
        }
        self.runs[page as usize] = runs;
        self.used += size;
        self.buffer.take(tvpn, &mut self.entries);
        for Entry { lpn, ppn } in self.entries.drain(..) {
            self.pages.set(page, lpn, ppn);
        }
        self.counters.loaded += 1;
        self.counters.loaded_bytes += size;
        self.counters.loaded_runs += u64::from(runs);
        Ok(Slot::Page(page))
    }

    #[inline(always)]
    fn prepare<F: Flash, S: MapStore>(
        &mut self,
        flash: &mut F,
        map: &mut Map<S>,
        slot: Slot,
        lpn: Lpn,
        ppn: Ppn,
    ) -> Outcome<F> {
        let Slot::Page(page) = slot else { return Ok(()) };
        // The page was used just now: others go first, and alone it fits.
        while self.used_with(page, lpn, ppn) > self.budget {
            debug_assert_ne!(self.pages.victim(), page, "a page does not fit alone");
            self.evict(flash, map, None)?;
        }
        Ok(())
    }

    #[inline(always)]
    fn set(&mut self, slot: Slot, lpn: Lpn, ppn: Ppn) {
        match slot {
            Slot::Page(page) => {
                self.resize(page, lpn, ppn);
                self.pages.set(page, lpn, ppn);
            }
            Slot::Buffered(at) => self.buffer.set(self.shape.tvpn(lpn.0), at, ppn),
        }
    }

    fn absorb(&mut self, moves: &mut Vec<Entry>) {
        moves.retain(|&Entry { lpn, ppn }| match self.find(lpn) {
            Some(Slot::Page(page)) if !self.fits(page, lpn, ppn) => true,
            Some(slot) => {
                self.set(slot, lpn, ppn);
                false
            }
            None => true,
        });
    }

    #[inline(always)]
    fn has_dirty(&self, tvpn: Tvpn) -> bool {
        match self.pages.find(tvpn) {
            Some(page) => self.pages.changed(page) > 0,
            None => !self.buffer.group(tvpn).is_empty(),
        }
    }

    fn clean_page(&mut self, tvpn: Tvpn, out: &mut Vec<Entry>) {
        match self.pages.find(tvpn) {
            Some(page) => self.pages.clean_into(page, out),
            None => self.buffer.take(tvpn, out),
        }
    }

    /// What the dirty buffer gave away goes back into it.
    #[cold]
    fn soil(&mut self, entries: &[Entry]) {
        for &entry in entries {
            let tvpn = self.shape.tvpn(entry.lpn.0);
            match self.pages.find(tvpn) {
                Some(page) => self.pages.set(page, entry.lpn, entry.ppn),
                None => self.buffer.put(tvpn, &[entry]),
            }
        }
    }

    /// A page that outgrows its place is dropped: none of its entries is dirty.
    fn refresh(&mut self, lpn: Lpn, ppn: Ppn) {
        if let Some(page) = self.pages.find(self.shape.tvpn(lpn.0)) {
            if self.fits(page, lpn, ppn) {
                self.resize(page, lpn, ppn);
                self.pages.set_clean(page, lpn, ppn);
            } else {
                self.remove(page);
            }
        }
    }

    /// As a page if it fits, else in the dirty buffer if they may go there.
    fn restore(&mut self, group: &[Entry], entry: impl Fn(u32) -> u32) -> bool {
        let tvpn = self.shape.tvpn(group[0].lpn.0);
        if !self.pages.is_full() {
            let first = self.shape.lpns(tvpn).start;
            let load = |entries: &mut [u32]| entries.iter_mut().zip(first..).for_each(|(word, lpn)| *word = entry(lpn));
            let page = self.pages.insert(tvpn, load);
            let runs = runs::count(self.pages.entries(page));
            if self.used + self.size(runs) <= self.budget {
                self.runs[page as usize] = runs;
                self.used += self.size(runs);
                group.iter().for_each(|entry| self.pages.set(page, entry.lpn, entry.ppn));
                return true;
            }
            self.pages.remove(page);
        }
        let fits = group.len() <= self.threshold.min(self.buffer.room());
        if fits {
            self.buffer.put(tvpn, group);
        }
        fits
    }

    #[inline(always)]
    fn prefetch(&self, lpn: Lpn) {
        self.pages.prefetch(self.shape.tvpn(lpn.0), lpn);
    }

    fn memory(&self) -> u64 {
        self.budget + self.buffer.memory()
    }

    fn counters(&self, out: &mut Vec<(&'static str, u64)>) {
        let c = &self.counters;
        let values = [
            c.loaded,
            c.loaded_bytes,
            c.loaded_runs,
            c.buffer_hits,
            c.buffered_pages,
            c.buffered_entries,
            c.flushes,
            c.crowded_out,
        ];
        out.extend(COUNTERS.iter().zip(values).map(|(&(name, _), value)| (name, value)));
    }

    fn reset_counters(&mut self) {
        self.counters = Counters::default();
    }

    fn audit(&self) -> Result<(), String> {
        self.pages.audit()?;
        self.buffer.audit(|tvpn| self.pages.find(tvpn).is_some())?;
        let mut used = 0;
        for page in self.pages.by_use() {
            let runs = runs::count(self.pages.entries(page));
            if runs != self.runs[page as usize] {
                let (tvpn, ours) = (self.pages.tvpn_of(page), self.runs[page as usize]);
                return Err(format!("translation page {tvpn} has {runs} runs and is taken to have {ours}"));
            }
            used += self.size(runs);
        }
        if used != self.used || used > self.budget {
            let Self { used: ours, budget, .. } = self;
            return Err(format!("the cached pages take {used} bytes, by their count {ours}, and may take {budget}"));
        }
        Ok(())
    }

    fn save(&self, out: &mut Saver) {
        let pages = self.pages.by_use();
        out.u32(pages.len() as u32);
        let bytes = |words: &[u64], out: &mut Saver| {
            (0..self.shape.page_entries.div_ceil(8) as usize)
                .for_each(|at| out.u8((words[at / 8] >> (at % 8 * 8)) as u8));
        };
        for page in pages {
            let runs = self.runs[page as usize];
            out.u32(self.pages.tvpn_of(page).0);
            out.u32(runs);
            if self.size(runs) == raw_size(&self.shape) {
                self.pages.save(page, out);
                continue;
            }
            let compressed = Runs::compress(self.pages.entries(page));
            bytes(&compressed.starts, out);
            bytes(self.pages.dirty_bits(page), out);
            compressed.firsts.iter().for_each(|&first| out.u32(first));
        }
        self.buffer.save(out);
    }

    fn load(&mut self, from: &mut Loader<'_>) {
        let entries = self.shape.page_entries;
        let words = |from: &mut Loader<'_>| {
            let mut words = vec![0; entries.div_ceil(64) as usize];
            (0..entries.div_ceil(8) as usize).for_each(|at| words[at / 8] |= u64::from(from.u8()) << (at % 8 * 8));
            words
        };
        for _ in 0..from.u32() {
            let (tvpn, runs) = (Tvpn(from.u32()), from.u32());
            let page = if self.size(runs) == raw_size(&self.shape) {
                self.pages.load(tvpn, from)
            } else {
                let (starts, dirty) = (words(from), words(from));
                let compressed = Runs { starts, firsts: (0..runs).map(|_| from.u32()).collect() };
                let page = self.pages.insert(tvpn, |entries| compressed.decompress(entries));
                for index in (0..entries).filter(|&index| dirty[index as usize / 64] >> (index % 64) & 1 == 1) {
                    let lpn = Lpn(tvpn.0 * entries + index);
                    self.pages.set(page, lpn, self.pages.get(page, lpn));
                }
                page
            };
            self.runs[page as usize] = runs;
            self.used += self.size(runs);
        }
        self.buffer.load(from);
    }
}

//! The cache of DFTL and its kin: single entries, or aligned lines of them, each line with its place in a replacement
//! order (segmented LRU, LRU and others).

use super::cache::{Cache, Entry, Shape};
use super::map::{Batch, Map, Store};
use crate::parts::cache::{MappingCache, OrderKind, Slot};
use crate::{ConfigError, Error, Loader, Parameter, Range, Saver, Settings, Value};
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::vec::Vec;
use flash::{Cause, Flash, Lpn, Ppn, Tvpn};

/// `replacement`: which entry to evict.
pub const REPLACEMENT: Parameter = Parameter {
    name: "replacement",
    summary: "which cached entry or line to evict: lru, slru (a second use protects, up to four fifths of the \
              cache), lfu, real-ghost (FlashSim's two lists by uses); the last two take 4 bytes each more",
    unit: "",
    default: Value::Word("slru"),
    range: Range::Words(OrderKind::NAMES),
    source: "{dftl}, section 3.2 names segmented LRU; FlashSim has real-ghost",
};

/// `line`: how many entries are cached together.
pub const LINE: Parameter = Parameter {
    name: "line",
    summary: "entries of a cache line: loaded and evicted together; LSFTL uses 32, 16, 256, 256 by workload",
    unit: "entries",
    default: Value::Count(32),
    range: Range::PowerOfTwo(1, 8192),
    source: "{lsftl}, section IV",
};

/// `entry-bits`: what a cached entry takes.
pub const ENTRY_BITS: Parameter = Parameter {
    name: "entry-bits",
    summary: "RAM that a cached entry counts as: 32 for its LPN and 32 for its PPN; SCFTL adds two flags",
    unit: "bits",
    default: Value::Count(64),
    range: Range::Count(64, 128),
    source: "{dftl}, section 5.1, {lsftl}, section IV-A, {scftl}, section IV",
};

/// See the module's description.
#[derive(Clone, Debug)]
pub struct Lines {
    lines: MappingCache,
    /// What a line counts as.
    line_bits: u64,
    /// Scratch space; empty between calls.
    entries: Vec<Entry>,
    dirty: Vec<Slot>,
}

/// How the lines are cut. Without `line` they are single entries; without `replacement` they are replaced LRU.
fn cut(settings: &Settings) -> (u32, OrderKind) {
    let line = if settings.get("line").is_some() { settings.count("line") as u32 } else { 1 };
    let order = settings.get("replacement").map_or("lru", |_| settings.word("replacement"));
    (line, OrderKind::by_name(order).expect("the settings were validated"))
}

/// Bits that a line counts as: of a single entry what the parameter says.
fn line_bits(settings: &Settings) -> u64 {
    let (line, order) = cut(settings);
    let stated = settings.get("entry-bits").filter(|_| line == 1).map(|_| settings.count("entry-bits"));
    stated.map_or(MappingCache::bytes(1, line, order) * 8, |bits| bits + order.bytes_per_line() * 8)
}

impl Lines {
    /// Evicts the line that is next in the order, writing back what the store lets it.
    fn evict<F: Flash, S: Store>(&mut self, flash: &mut F, map: &mut Map<S>) -> Result<(), Error<F::Fault>> {
        let (victim, tvpn) = self.lines.victim();
        if !self.lines.is_dirty(victim) {
            map.counters.clean_evictions += 1;
            self.lines.remove(victim);
            return Ok(());
        }
        let batch = map.batch(flash, tvpn, self.lines.dirty_in(victim))?;
        let mut entries = core::mem::take(&mut self.entries);
        match batch {
            Batch::All => self.lines.clean_page(tvpn, &mut entries),
            Batch::Victim => self.lines.clean_line(victim, &mut entries),
            Batch::UpTo(most) => self.clean_lines(victim, tvpn, most as usize, &mut entries),
        }
        map.wrote_back(entries.len());
        let all = !self.lines.has_dirty(tvpn);
        let written = map.update(flash, tvpn, &entries, all, Cause::TranslationUpdate);
        if written.is_err() {
            self.soil(&entries);
        } else {
            self.lines.remove(victim);
        }
        entries.clear();
        self.entries = entries;
        written
    }

    /// The victim's dirty entries, then those of other lines of its translation page, least recently used first, while
    /// all together are no more than `most`.
    fn clean_lines(&mut self, victim: Slot, tvpn: Tvpn, most: usize, entries: &mut Vec<Entry>) {
        self.lines.clean_line(victim, entries);
        let mut others = core::mem::take(&mut self.dirty);
        others.extend(self.lines.dirty_lines(tvpn));
        self.lines.sort_by_use(&mut others);
        for &line in &others {
            if entries.len() + self.lines.dirty_in(line) as usize > most {
                break;
            }
            self.lines.clean_line(line, entries);
        }
        others.clear();
        self.dirty = others;
    }
}

impl Cache for Lines {
    type Slot = Slot;

    const ABSORBS_ALL: bool = true;

    fn least_bytes(shape: &Shape, settings: &Settings) -> Result<u64, ConfigError> {
        let (line, _) = cut(settings);
        if !shape.page_entries.is_multiple_of(line) {
            let fitting = 1 << shape.page_entries.trailing_zeros();
            return Err(ConfigError {
                key: "line",
                what: format!("a line of {line} entries does not divide a translation page of {}", shape.page_entries),
                fix: format!("use a power of two up to {fitting}"),
            });
        }
        Ok((2 * line_bits(settings)).div_ceil(8))
    }

    fn most_updates(&self) -> u32 {
        1
    }

    fn new(shape: &Shape, settings: &Settings, bytes: u64) -> Self {
        let (line, order) = cut(settings);
        let all = u64::from(shape.logical_pages.div_ceil(line));
        let line_bits = line_bits(settings);
        let lines = (bytes * 8 / line_bits).min(all).max(2);
        let lines = MappingCache::new(shape.logical_pages, shape.page_entries, line, lines as u32, order);
        Lines { lines, line_bits, entries: Vec::new(), dirty: Vec::new() }
    }

    #[inline(always)]
    fn find(&self, lpn: Lpn) -> Option<Slot> {
        self.lines.find(lpn)
    }

    #[inline(always)]
    fn hit(&mut self, slot: Slot, _: Lpn) {
        self.lines.hit(slot);
    }

    #[inline(always)]
    fn get(&self, slot: Slot, lpn: Lpn) -> Ppn {
        self.lines.get(slot, lpn)
    }

    fn is_dirty(&self, slot: Slot, lpn: Lpn) -> bool {
        self.lines.is_entry_dirty(slot, lpn)
    }

    fn is_write_due(&mut self) -> bool {
        if !self.lines.is_full() {
            return false;
        }
        let (victim, _) = self.lines.victim();
        self.lines.is_dirty(victim)
    }

    fn fetch<F: Flash, S: Store>(
        &mut self,
        flash: &mut F,
        map: &mut Map<S>,
        lpn: Lpn,
    ) -> Result<Slot, Error<F::Fault>> {
        if self.lines.is_full() {
            self.evict(flash, map)?;
        }
        let first = self.lines.first_of(lpn);
        let (tvpn, index) = map.store.locate(first);
        let Some(page) = map.read(flash, tvpn)? else {
            return Ok(self.lines.insert(lpn, |line| line.fill(Ppn::NONE.0)));
        };
        Ok(self.lines.insert(lpn, |line| map.entries(page, index, line)))
    }

    #[inline(always)]
    fn set(&mut self, slot: Slot, lpn: Lpn, ppn: Ppn) {
        self.lines.set(slot, lpn, ppn);
    }

    #[inline(always)]
    fn has_dirty(&self, tvpn: Tvpn) -> bool {
        self.lines.has_dirty(tvpn)
    }

    fn clean_page(&mut self, tvpn: Tvpn, out: &mut Vec<Entry>) {
        self.lines.clean_page(tvpn, out);
    }

    #[cold]
    fn soil(&mut self, entries: &[Entry]) {
        for &(lpn, ppn) in entries {
            if let Some(slot) = self.lines.find(Lpn(lpn)) {
                self.lines.set(slot, Lpn(lpn), Ppn(ppn));
            }
        }
    }

    fn refresh(&mut self, lpn: Lpn, ppn: Ppn) {
        if let Some(slot) = self.lines.find(lpn) {
            self.lines.set_clean(slot, lpn, ppn);
        }
    }

    fn restore(&mut self, group: &[Entry], entry: impl Fn(u32) -> u32) -> bool {
        let lines: BTreeSet<u32> = group.iter().map(|&(lpn, _)| self.lines.first_of(Lpn(lpn))).collect();
        if lines.len() as u32 > self.lines.room() {
            return false;
        }
        for (lpn, ppn) in group.iter().map(|&(lpn, ppn)| (Lpn(lpn), Ppn(ppn))) {
            let first = self.lines.first_of(lpn);
            let load = |line: &mut [u32]| line.iter_mut().zip(first..).for_each(|(word, lpn)| *word = entry(lpn));
            let slot = self.lines.find(lpn).unwrap_or_else(|| self.lines.insert(lpn, load));
            self.lines.set(slot, lpn, ppn);
        }
        true
    }

    #[inline(always)]
    fn prefetch(&self, lpn: Lpn) {
        self.lines.prefetch(lpn);
    }

    fn memory(&self) -> u64 {
        (u64::from(self.lines.capacity()) * self.line_bits).div_ceil(8)
    }

    fn save(&self, out: &mut Saver) {
        self.lines.save(out);
    }

    fn load(&mut self, from: &mut Loader<'_>) {
        self.lines.load(from);
    }
}

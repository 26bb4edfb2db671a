//! The cache of DFTL and its kin: single entries, or aligned lines of them, each line with its place in a replacement
//! order (segmented LRU, LRU and others).

use super::cache::{Cache, Entry, Shape};
use super::map::{Batch, Map, MapStore};
use crate::parts::cache::{MappingCache, OrderKind, Slot};
use crate::{ConfigError, Loader, Outcome, Parameter, Saver, Settings};
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::vec::Vec;
use flash::{Flash, Lpn, Ppn, Tvpn};

/// `replacement`: which entry to evict.
pub(crate) const REPLACEMENT: Parameter = Parameter::word("replacement", "slru", OrderKind::NAMES)
    .text(
        "Which cached entry or line to evict. lru: the one unused for longest. slru: a second use protects, up to \
         four fifths of the cache. lfu: the one used least. real-ghost: FlashSim's two lists by uses. The last two \
         take 4 bytes more for each.",
    )
    .source("{dftl}, section 3.2 names segmented LRU; FlashSim has real-ghost");

/// `line`: how many entries are cached together.
pub(crate) const LINE: Parameter = Parameter::power("line", 32, 1..=8192)
    .unit("entries")
    .text(
        "Entries of a cache line, loaded and evicted together. More serve neighbours and hold fewer lines. The paper \
         uses 16 to 256 by workload.",
    )
    .source("{lsftl}, section IV");

/// `entry-bits`: what a cached entry takes.
pub(crate) const ENTRY_BITS: Parameter = Parameter::count("entry-bits", 64, 64..=128)
    .unit("bits")
    .text("RAM that a cached entry counts as. LPN and PPN take 32 each; SCFTL adds two flags. Fewer hold more entries.")
    .source("{dftl}, section 5.1, {lsftl}, section IV-A, {scftl}, section IV");

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

/// How the lines are cut.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// `line`.
    pub line: u32,
    /// `replacement`.
    pub order: OrderKind,
    /// `entry-bits`; 0 stands for what a line takes here.
    pub entry_bits: u64,
}

impl From<&Settings> for Options {
    fn from(settings: &Settings) -> Options {
        Options {
            line: settings.small(&LINE),
            order: OrderKind::by_name(settings.word(&REPLACEMENT)).expect("the word was validated"),
            entry_bits: settings.count(&ENTRY_BITS),
        }
    }
}

impl Options {
    /// Bits that a line counts as.
    fn line_bits(&self) -> u64 {
        match self.entry_bits {
            0 => MappingCache::bytes(1, self.line, self.order) * 8,
            bits => bits + self.order.bytes_per_line() * 8,
        }
    }
}

impl Lines {
    /// Evicts the line that is next in the order, writing back what the store lets it.
    fn evict<F: Flash, S: MapStore>(&mut self, flash: &mut F, map: &mut Map<S>) -> Outcome<F> {
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
        let written = self.write_evicted(flash, map, tvpn, &entries);
        if written.is_ok() {
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
    type Options = Options;

    const ABSORBS_ALL: bool = true;

    fn least_bytes(shape: &Shape, options: &Options) -> Result<u64, ConfigError> {
        let line = options.line;
        if !shape.page_entries.is_multiple_of(line) {
            let fitting = 1 << shape.page_entries.trailing_zeros();
            return Err(ConfigError {
                key: "line",
                what: format!("a line of {line} entries does not divide a translation page of {}", shape.page_entries),
                fix: format!("use a power of two up to {fitting}"),
            });
        }
        Ok((2 * options.line_bits()).div_ceil(8))
    }

    fn most_updates(&self) -> u32 {
        1
    }

    fn new(shape: &Shape, options: &Options, bytes: u64) -> Self {
        let &Options { line, order, .. } = options;
        let all = u64::from(shape.logical_pages.div_ceil(line));
        let line_bits = options.line_bits();
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

    #[inline(always)]
    fn holds_all(&self) -> bool {
        self.lines.holds_all()
    }

    fn is_write_due(&mut self) -> bool {
        if !self.lines.is_full() {
            return false;
        }
        let (victim, _) = self.lines.victim();
        self.lines.is_dirty(victim)
    }

    fn fetch<F: Flash, S: MapStore>(&mut self, flash: &mut F, map: &mut Map<S>, lpn: Lpn) -> Outcome<F, Slot> {
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

    fn refresh(&mut self, lpn: Lpn, ppn: Ppn) {
        if let Some(slot) = self.lines.find(lpn) {
            self.lines.set_clean(slot, lpn, ppn);
        }
    }

    fn restore(&mut self, group: &[Entry], entry: impl Fn(u32) -> u32) -> bool {
        let lines: BTreeSet<u32> = group.iter().map(|entry| self.lines.first_of(entry.lpn)).collect();
        if lines.len() as u32 > self.lines.room() {
            return false;
        }
        for &Entry { lpn, ppn } in group {
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

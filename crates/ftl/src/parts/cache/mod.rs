//! The cached mapping table of demand-paged schemes: lines of map entries, and the order in which they are replaced.
//!
//! A line holds `entries` consecutive, aligned entries of one translation page and is the unit of loading and
//! replacement; DFTL's single entries are lines of one. Each entry has its own dirty bit. Lines with dirty entries are
//! chained by translation page, so that one update of a translation page can take all of them along.
//!
//! The look-up is an array by line number where a firmware would hash, and the links are not counted in the scheme's
//! bytes, as in the papers: what is cached, and what is replaced when, is the scheme's.

mod order;
mod pages;

pub(crate) use order::{Order, OrderKind};
pub(crate) use pages::PageCache;

use crate::{Loader, Saver};
use alloc::vec;
use alloc::vec::Vec;
use flash::{Lpn, Ppn, Tvpn};

/// An entry of the map: where a page lies.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Entry {
    /// The logical page.
    pub lpn: Lpn,
    /// Its page on flash; [`Ppn::NONE`] if it has none.
    pub ppn: Ppn,
}

const NONE: u32 = u32::MAX;

/// Marks a saved entry as dirty; PPNs stay below 2^28.
const DIRTY: u32 = 1 << 30;
/// A saved entry that maps nothing.
const UNMAPPED: u32 = (1 << 28) - 1;

/// A cached line.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Slot(u32);

impl Slot {
    /// The slot's number, below the capacity.
    #[inline(always)]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// See the module's description.
#[derive(Clone, Debug)]
pub(crate) struct MappingCache {
    line_shift: u32,
    /// Lines of a translation page.
    page_lines: u32,
    capacity: u32,
    /// Slot of each line of the map.
    index: Vec<u32>,
    /// Line number in each slot; [`NONE`] if the slot is empty.
    line: Vec<u32>,
    /// PPN of each entry, line by line.
    entries: Vec<u32>,
    /// Dirty bits, `words` for each line.
    dirty: Vec<u64>,
    words: usize,
    empty: Vec<u32>,
    order: Order,
    dirty_head: Vec<u32>,
    dirty_next: Vec<u32>,
    dirty_previous: Vec<u32>,
}

impl MappingCache {
    /// Room for `capacity` lines of `line_entries` entries (a power of two that divides a translation page's
    /// `page_entries`), over a map of `logical_pages`.
    pub(crate) fn new(
        logical_pages: u32,
        page_entries: u32,
        line_entries: u32,
        capacity: u32,
        order: OrderKind,
    ) -> Self {
        assert!(line_entries.is_power_of_two() && page_entries.is_multiple_of(line_entries) && capacity > 0);
        let line_shift = line_entries.trailing_zeros();
        let words = (line_entries as usize).div_ceil(64);
        let slots = capacity as usize;
        MappingCache {
            line_shift,
            page_lines: page_entries >> line_shift,
            capacity,
            index: vec![NONE; logical_pages.div_ceil(line_entries) as usize],
            line: vec![NONE; slots],
            entries: vec![NONE; slots << line_shift],
            dirty: vec![0; slots * words],
            words,
            empty: (0..capacity).rev().collect(),
            order: Order::new(order, slots),
            dirty_head: vec![NONE; logical_pages.div_ceil(page_entries) as usize],
            dirty_next: vec![NONE; slots],
            dirty_previous: vec![NONE; slots],
        }
    }

    /// The line's slot, if it is cached.
    #[inline(always)]
    pub(crate) fn find(&self, lpn: Lpn) -> Option<Slot> {
        let slot = self.index[(lpn.0 >> self.line_shift) as usize];
        (slot != NONE).then_some(Slot(slot))
    }

    /// The index line of an LPN, for prefetching.
    #[inline(always)]
    pub(crate) fn prefetch(&self, lpn: Lpn) {
        flash::prefetch(&self.index, (lpn.0 >> self.line_shift) as usize);
    }

    /// Tells the replacement order of a hit.
    #[inline(always)]
    pub(crate) fn hit(&mut self, slot: Slot) {
        self.order.hit(slot.0);
    }

    #[inline(always)]
    fn place(&self, slot: Slot, lpn: Lpn) -> (usize, usize, u64) {
        let within = (lpn.0 & ((1 << self.line_shift) - 1)) as usize;
        let entry = ((slot.0 as usize) << self.line_shift) + within;
        (entry, slot.0 as usize * self.words + within / 64, 1 << (within % 64))
    }

    /// An entry of a cached line; [`Ppn::NONE`] if it maps nothing.
    #[inline(always)]
    pub(crate) fn get(&self, slot: Slot, lpn: Lpn) -> Ppn {
        Ppn(self.entries[self.place(slot, lpn).0])
    }

    /// Changes an entry of a cached line and makes it dirty.
    #[inline]
    pub(crate) fn set(&mut self, slot: Slot, lpn: Lpn, ppn: Ppn) {
        let (entry, word, bit) = self.place(slot, lpn);
        self.entries[entry] = ppn.0;
        if self.dirty[word] & bit == 0 {
            if !self.is_dirty(slot) {
                self.link(slot);
            }
            self.dirty[word] |= bit;
        }
    }

    /// Sets an entry of a cached line to what its translation page says now: clean.
    pub(crate) fn set_clean(&mut self, slot: Slot, lpn: Lpn, ppn: Ppn) {
        let (entry, word, bit) = self.place(slot, lpn);
        self.entries[entry] = ppn.0;
        if self.dirty[word] & bit != 0 {
            self.dirty[word] &= !bit;
            if !self.is_dirty(slot) {
                self.unlink(slot);
            }
        }
    }

    /// Whether a line has dirty entries.
    #[inline(always)]
    pub(crate) fn is_dirty(&self, slot: Slot) -> bool {
        let first = slot.0 as usize * self.words;
        self.dirty[first..first + self.words].iter().any(|&word| word != 0)
    }

    /// Whether an entry of a cached line is dirty.
    pub(crate) fn is_entry_dirty(&self, slot: Slot, lpn: Lpn) -> bool {
        let (_, word, bit) = self.place(slot, lpn);
        self.dirty[word] & bit != 0
    }

    /// The first LPN of the line that an LPN is in.
    #[inline(always)]
    pub(crate) fn first_of(&self, lpn: Lpn) -> u32 {
        lpn.0 >> self.line_shift << self.line_shift
    }

    /// Dirty entries of a line.
    pub(crate) fn dirty_in(&self, slot: Slot) -> u32 {
        let first = slot.0 as usize * self.words;
        self.dirty[first..first + self.words].iter().map(|word| word.count_ones()).sum()
    }

    /// The lines of a translation page that have dirty entries, in no particular order.
    pub(crate) fn dirty_lines(&self, tvpn: Tvpn) -> impl Iterator<Item = Slot> + '_ {
        let next = |slot: u32| (slot != NONE).then_some(slot);
        core::iter::successors(next(self.dirty_head[tvpn.index()]), move |&slot| next(self.dirty_next[slot as usize]))
            .map(Slot)
    }

    /// The lines that are cached, in no particular order.
    pub(crate) fn lines(&self) -> impl Iterator<Item = Slot> + '_ {
        (0..self.capacity).filter(|&slot| self.line[slot as usize] != NONE).map(Slot)
    }

    /// Sorts lines by when they will be replaced, the next first.
    pub(crate) fn sort_by_use(&self, lines: &mut [Slot]) {
        lines.sort_unstable_by_key(|slot| self.order.standing(slot.0));
    }

    /// Whether a translation page has dirty entries in the cache.
    #[inline(always)]
    pub(crate) fn has_dirty(&self, tvpn: Tvpn) -> bool {
        self.dirty_head[tvpn.index()] != NONE
    }

    /// The least recently used line of an LRU order that is not set aside.
    #[inline(always)]
    pub(crate) fn oldest(&self) -> Option<Slot> {
        self.order.oldest().map(Slot)
    }

    /// The lines of an LRU order of which none was ever set aside, the least recently used first.
    pub(crate) fn oldest_first(&self) -> impl Iterator<Item = Slot> + '_ {
        self.order.oldest_first().map(Slot)
    }

    /// Sets the oldest line aside ([`Order::set_aside`]).
    pub(crate) fn set_aside(&mut self, slot: Slot) {
        self.order.set_aside(slot.0);
    }

    /// Whether any line is set aside.
    #[inline(always)]
    pub(crate) fn any_aside(&self) -> bool {
        self.order.any_aside()
    }

    /// Whether a line is set aside.
    #[inline(always)]
    pub(crate) fn is_aside(&self, slot: Slot) -> bool {
        self.order.is_aside(slot.0)
    }

    /// When a line was last used, on the clock of a replacement order that goes by recency.
    #[inline(always)]
    pub(crate) fn last_use(&self, slot: Slot) -> u64 {
        self.order.standing(slot.0).2
    }

    /// The first LPN of a cached line.
    pub(crate) fn lpn_of(&self, slot: Slot) -> u32 {
        self.line[slot.0 as usize] << self.line_shift
    }

    /// The translation page of a line.
    #[inline(always)]
    pub(crate) fn tvpn_of(&self, slot: Slot) -> Tvpn {
        let (line, lines) = (self.line[slot.0 as usize], self.page_lines);
        Tvpn(if lines.is_power_of_two() { line >> lines.trailing_zeros() } else { line / lines })
    }

    fn link(&mut self, slot: Slot) {
        let tvpn = self.tvpn_of(slot);
        let head = &mut self.dirty_head[tvpn.index()];
        self.dirty_next[slot.0 as usize] = *head;
        self.dirty_previous[slot.0 as usize] = NONE;
        if *head != NONE {
            self.dirty_previous[*head as usize] = slot.0;
        }
        *head = slot.0;
    }

    fn unlink(&mut self, slot: Slot) {
        let (previous, next) = (self.dirty_previous[slot.0 as usize], self.dirty_next[slot.0 as usize]);
        match previous {
            NONE => {
                let tvpn = self.tvpn_of(slot);
                self.dirty_head[tvpn.index()] = next;
            }
            previous => self.dirty_next[previous as usize] = next,
        }
        if next != NONE {
            self.dirty_previous[next as usize] = previous;
        }
    }

    /// Appends the dirty entries of a line to `out` and makes them clean.
    pub(crate) fn clean_line(&mut self, slot: Slot, out: &mut Vec<Entry>) {
        if !self.is_dirty(slot) {
            return;
        }
        self.unlink(slot);
        let base = self.line[slot.0 as usize] << self.line_shift;
        for word in 0..self.words {
            let place = slot.0 as usize * self.words + word;
            let mut bits = core::mem::take(&mut self.dirty[place]);
            while bits != 0 {
                let within = word as u32 * 64 + bits.trailing_zeros();
                bits &= bits - 1;
                let ppn = Ppn(self.entries[((slot.0 << self.line_shift) + within) as usize]);
                out.push(Entry { lpn: Lpn(base + within), ppn });
            }
        }
    }

    /// Appends all dirty entries of a translation page to `out` and makes them clean.
    pub(crate) fn clean_page(&mut self, tvpn: Tvpn, out: &mut Vec<Entry>) {
        while self.has_dirty(tvpn) {
            self.clean_line(Slot(self.dirty_head[tvpn.index()]), out);
        }
    }

    /// Lines that fit in all.
    pub(crate) fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Whether a line must be evicted before another fits.
    #[inline(always)]
    pub(crate) fn is_full(&self) -> bool {
        self.empty.is_empty()
    }

    /// Whether all lines of the map fit.
    #[inline(always)]
    pub(crate) fn holds_all(&self) -> bool {
        self.line.len() >= self.index.len()
    }

    /// Lines that fit without evicting.
    pub(crate) fn room(&self) -> u32 {
        self.empty.len() as u32
    }

    /// The line to be replaced next, and its translation page.
    pub(crate) fn victim(&mut self) -> (Slot, Tvpn) {
        let slot = Slot(self.order.victim());
        (slot, self.tvpn_of(slot))
    }

    /// Drops a clean line.
    pub(crate) fn remove(&mut self, slot: Slot) {
        debug_assert!(!self.is_dirty(slot), "a dirty line is dropped");
        self.order.remove(slot.0);
        self.index[self.line[slot.0 as usize] as usize] = NONE;
        self.line[slot.0 as usize] = NONE;
        self.empty.push(slot.0);
    }

    /// Caches the line of `lpn`; `load` puts its PPNs in place.
    ///
    /// # Panics
    /// If the cache is full or holds the line: bugs.
    #[inline]
    pub(crate) fn insert(&mut self, lpn: Lpn, load: impl FnOnce(&mut [u32])) -> Slot {
        let slot = self.empty.pop().expect("there is room in the cache");
        let line = lpn.0 >> self.line_shift;
        debug_assert_eq!(self.index[line as usize], NONE);
        self.index[line as usize] = slot;
        self.line[slot as usize] = line;
        let first = (slot as usize) << self.line_shift;
        load(&mut self.entries[first..first + (1 << self.line_shift)]);
        self.order.insert(slot);
        Slot(slot)
    }

    /// Bytes of a cache of `lines` lines: LPN and PPN for each single entry; otherwise a tag, the PPNs and the dirty
    /// bits of each line; and what the replacement order keeps beside the order itself.
    pub(crate) fn bytes(lines: u64, line_entries: u32, order: OrderKind) -> u64 {
        let line =
            if line_entries == 1 { 8 } else { 4 + 4 * u64::from(line_entries) + u64::from(line_entries).div_ceil(8) };
        lines * (line + order.bytes_per_line())
    }

    /// Controller RAM, bytes.
    pub(crate) fn memory(&self) -> u64 {
        Self::bytes(u64::from(self.capacity), 1 << self.line_shift, self.order.kind())
    }

    /// Saves the lines in replacement order, so that the order itself takes no bytes.
    pub(crate) fn save(&self, out: &mut Saver) {
        let segments = self.order.segments();
        for segment in &segments {
            out.u32(segment.len() as u32);
        }
        for &slot in segments.iter().flatten() {
            let line = self.line[slot as usize];
            out.u32(line);
            let first = (slot as usize) << self.line_shift;
            for within in 0..1usize << self.line_shift {
                let word = self.dirty[slot as usize * self.words + within / 64];
                let dirty = word >> (within % 64) & 1 == 1;
                let entry = self.entries[first + within];
                let packed = if entry == NONE { UNMAPPED } else { entry };
                out.u32(packed | if dirty { DIRTY } else { 0 });
            }
            self.order.save_line(slot, out);
        }
    }

    /// Loads what [`MappingCache::save`] saved into a new, empty cache.
    pub(crate) fn load(&mut self, from: &mut Loader<'_>) {
        self.order.set_loading(true);
        let lengths: Vec<u32> = (0..self.order.segments().len()).map(|_| from.u32()).collect();
        for (segment, &length) in lengths.iter().enumerate() {
            for _ in 0..length {
                let line = from.u32();
                let packed: Vec<u32> = (0..1 << self.line_shift).map(|_| from.u32()).collect();
                let ppn = |word: u32| match word & !DIRTY {
                    UNMAPPED => Ppn::NONE,
                    ppn => Ppn(ppn),
                };
                let base = line << self.line_shift;
                let slot = self.insert(Lpn(base), |entries| {
                    entries.iter_mut().zip(&packed).for_each(|(entry, &word)| *entry = ppn(word).0);
                });
                for (within, &word) in packed.iter().enumerate().filter(|&(_, &word)| word & DIRTY != 0) {
                    self.set(slot, Lpn(base + within as u32), ppn(word));
                }
                self.order.load_line(slot.0, segment, from);
            }
        }
        self.order.set_loading(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dirty_entries_are_chained_by_translation_page() {
        for line_entries in [1, 2, 4] {
            let mut cache = MappingCache::new(64, 8, line_entries, 6, OrderKind::Lru);
            for lpn in [0, 4, 9, 20] {
                let slot = cache.insert(Lpn(lpn), |line| line.fill(100));
                cache.set(slot, Lpn(lpn), Ppn(lpn));
            }
            assert!(cache.has_dirty(Tvpn(0)) && cache.has_dirty(Tvpn(1)) && cache.has_dirty(Tvpn(2)));
            let mut flushed = Vec::new();
            cache.clean_page(Tvpn(0), &mut flushed);
            flushed.sort_unstable();
            assert_eq!(flushed, [0, 4].map(|number| Entry { lpn: Lpn(number), ppn: Ppn(number) }));
            assert!(!cache.has_dirty(Tvpn(0)));
        }
    }

    #[test]
    fn state_survives_saving_in_the_bytes_reported() {
        for kind in OrderKind::ALL {
            for line_entries in [1, 4] {
                let new = || MappingCache::new(64, 8, line_entries, 5, *kind);
                let mut cache = new();
                for lpn in [0, 16, 32, 48, 8] {
                    let slot = cache.insert(Lpn(lpn), |line| line.fill(100));
                    cache.set(slot, Lpn(lpn), Ppn::NONE);
                }
                for lpn in [16, 32, 16] {
                    let slot = cache.find(Lpn(lpn)).unwrap();
                    cache.hit(slot);
                }
                let mut saver = Saver::default();
                cache.save(&mut saver);
                let bytes = saver.finish();
                assert!(bytes.len() as u64 <= cache.memory() + 8, "{kind:?}: {} > {}", bytes.len(), cache.memory());
                let mut again = new();
                again.load(&mut Loader::new(&bytes));
                // Both go on in the same way.
                for _ in 0..5 {
                    let mut out = [Vec::new(), Vec::new()];
                    let lines = [&mut cache, &mut again].map(|cache| {
                        let (slot, _) = cache.victim();
                        let line = cache.line[slot.0 as usize];
                        cache.clean_line(slot, &mut out[0]);
                        out.swap(0, 1);
                        cache.remove(slot);
                        line
                    });
                    assert_eq!(lines[0], lines[1], "{kind:?}");
                    assert_eq!(out[0], out[1]);
                }
            }
        }
    }
}

//! Whole translation pages in a mapping cache, with a dirty bit for each entry, replaced least recently used first.

use super::{
    Entry, {DIRTY, NONE, Order, OrderKind, UNMAPPED},
};
use crate::{Loader, Saver};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use flash::{Lpn, Ppn, Tvpn};

/// See the module's description.
#[derive(Clone, Debug)]
pub(crate) struct PageCache {
    page_entries: u32,
    /// Slot of each translation page.
    index: Vec<u32>,
    /// Translation page in each slot; [`NONE`] if it is empty.
    tvpn: Vec<u32>,
    entries: Vec<u32>,
    /// Dirty bits, `words` for each page, and their number.
    dirty: Vec<u64>,
    words: usize,
    changed: Vec<u32>,
    empty: Vec<u32>,
    order: Order,
}

impl PageCache {
    /// Room for `capacity` pages of `page_entries` entries, over a map of `logical_pages`.
    pub(crate) fn new(logical_pages: u32, page_entries: u32, capacity: u32) -> Self {
        let (slots, entries) = (capacity as usize, page_entries as usize);
        let words = entries.div_ceil(64);
        PageCache {
            page_entries,
            index: vec![NONE; logical_pages.div_ceil(page_entries) as usize],
            tvpn: vec![NONE; slots],
            // Zeros, so that the memory is taken when it is used.
            entries: vec![0; slots * entries],
            dirty: vec![0; slots * words],
            words,
            changed: vec![0; slots],
            empty: (0..capacity).rev().collect(),
            order: Order::new(OrderKind::Lru, slots),
        }
    }

    /// How many pages there is room for.
    pub(crate) fn capacity(&self) -> u32 {
        self.tvpn.len() as u32
    }

    /// The slot of a translation page, if it is cached.
    #[inline(always)]
    pub(crate) fn find(&self, tvpn: Tvpn) -> Option<u32> {
        let slot = self.index[tvpn.index()];
        (slot != NONE).then_some(slot)
    }

    /// The translation page in a slot.
    #[inline(always)]
    pub(crate) fn tvpn_of(&self, slot: u32) -> Tvpn {
        Tvpn(self.tvpn[slot as usize])
    }

    /// Asks for an entry, if its page is cached, for it will be looked up soon.
    #[inline(always)]
    pub(crate) fn prefetch(&self, tvpn: Tvpn, lpn: Lpn) {
        // A hint may reach beyond the map.
        if let Some(&slot) = self.index.get(tvpn.index())
            && slot != NONE
        {
            flash::prefetch(&self.entries, self.place(slot, lpn).0);
        }
    }

    /// Whether a page must be evicted before another fits.
    pub(crate) fn is_full(&self) -> bool {
        self.empty.is_empty()
    }

    /// Whether all pages of the map fit.
    #[inline(always)]
    pub(crate) fn holds_all(&self) -> bool {
        self.tvpn.len() >= self.index.len()
    }

    /// A page was used.
    #[inline]
    pub(crate) fn hit(&mut self, slot: u32) {
        self.order.hit(slot);
    }

    /// The page to be replaced next.
    ///
    /// # Panics
    /// If there is none: a bug.
    pub(crate) fn victim(&self) -> u32 {
        self.order.victim()
    }

    /// The pages that are cached, the next to be replaced first.
    pub(crate) fn by_use(&self) -> Vec<u32> {
        self.order.segments().concat()
    }

    #[inline(always)]
    fn place(&self, slot: u32, lpn: Lpn) -> (usize, usize, u64) {
        let within = (lpn.0 - self.tvpn[slot as usize] * self.page_entries) as usize;
        let entry = slot as usize * self.page_entries as usize + within;
        (entry, slot as usize * self.words + within / 64, 1 << (within % 64))
    }

    /// An entry of a cached page; [`Ppn::NONE`] if it maps nothing.
    #[inline(always)]
    pub(crate) fn get(&self, slot: u32, lpn: Lpn) -> Ppn {
        Ppn(self.entries[self.place(slot, lpn).0])
    }

    /// Whether an entry of a cached page is dirty.
    pub(crate) fn is_entry_dirty(&self, slot: u32, lpn: Lpn) -> bool {
        let (_, word, bit) = self.place(slot, lpn);
        self.dirty[word] & bit != 0
    }

    /// Changes an entry; it is dirty.
    #[inline]
    pub(crate) fn set(&mut self, slot: u32, lpn: Lpn, ppn: Ppn) {
        let (entry, word, bit) = self.place(slot, lpn);
        self.entries[entry] = ppn.0;
        self.changed[slot as usize] += u32::from(self.dirty[word] & bit == 0);
        self.dirty[word] |= bit;
    }

    /// Sets an entry to what its translation page says now: clean.
    pub(crate) fn set_clean(&mut self, slot: u32, lpn: Lpn, ppn: Ppn) {
        let (entry, word, bit) = self.place(slot, lpn);
        self.entries[entry] = ppn.0;
        self.changed[slot as usize] -= u32::from(self.dirty[word] & bit != 0);
        self.dirty[word] &= !bit;
    }

    /// Dirty entries of a page.
    #[inline(always)]
    pub(crate) fn changed(&self, slot: u32) -> u32 {
        self.changed[slot as usize]
    }

    /// All entries of a page.
    #[inline(always)]
    pub(crate) fn entries(&self, slot: u32) -> &[u32] {
        let entries = self.page_entries as usize;
        &self.entries[slot as usize * entries..][..entries]
    }

    /// The dirty bits of a page, the first entry's lowest.
    pub(crate) fn dirty_bits(&self, slot: u32) -> &[u64] {
        &self.dirty[slot as usize * self.words..][..self.words]
    }

    /// A page was written: its entries are clean.
    pub(crate) fn clean(&mut self, slot: u32) {
        self.dirty[slot as usize * self.words..][..self.words].fill(0);
        self.changed[slot as usize] = 0;
    }

    /// Appends the dirty entries of a page to `out` and makes them clean.
    pub(crate) fn clean_into(&mut self, slot: u32, out: &mut Vec<Entry>) {
        let first = self.tvpn[slot as usize] * self.page_entries;
        for word in 0..self.words {
            let mut bits = self.dirty[slot as usize * self.words + word];
            while bits != 0 {
                let lpn = Lpn(first + word as u32 * 64 + bits.trailing_zeros());
                bits &= bits - 1;
                out.push(Entry { lpn, ppn: self.get(slot, lpn) });
            }
        }
        self.clean(slot);
    }

    /// Drops a clean page.
    pub(crate) fn remove(&mut self, slot: u32) {
        debug_assert_eq!(self.changed(slot), 0, "a dirty page is dropped");
        self.order.remove(slot);
        let tvpn = core::mem::replace(&mut self.tvpn[slot as usize], NONE);
        self.index[tvpn as usize] = NONE;
        self.empty.push(slot);
    }

    /// Takes in a page, clean; `load` puts its PPNs in place.
    ///
    /// # Panics
    /// If the cache is full or holds the page: bugs.
    #[inline]
    pub(crate) fn insert(&mut self, tvpn: Tvpn, load: impl FnOnce(&mut [u32])) -> u32 {
        let slot = self.empty.pop().expect("there is room in the cache");
        debug_assert_eq!(self.index[tvpn.index()], NONE);
        self.index[tvpn.index()] = slot;
        self.tvpn[slot as usize] = tvpn.0;
        let entries = self.page_entries as usize;
        load(&mut self.entries[slot as usize * entries..][..entries]);
        self.order.insert(slot);
        slot
    }

    /// Checks that counts, bits and index agree.
    ///
    /// # Errors
    /// What does not.
    pub(crate) fn audit(&self) -> Result<(), String> {
        for (slot, &tvpn) in self.tvpn.iter().enumerate() {
            let dirty: u32 = self.dirty_bits(slot as u32).iter().map(|word| word.count_ones()).sum();
            if dirty != self.changed[slot] || tvpn != NONE && self.index[tvpn as usize] != slot as u32 {
                return Err(format!("slot {slot} holds translation page {tvpn} with {dirty} dirty entries"));
            }
        }
        let cached = self.index.iter().filter(|&&slot| slot != NONE).count();
        if cached + self.empty.len() != self.tvpn.len() {
            return Err(format!("{cached} translation pages are cached in {} slots", self.tvpn.len()));
        }
        Ok(())
    }

    /// Saves a page's entries in four bytes each.
    pub(crate) fn save(&self, slot: u32, out: &mut Saver) {
        let bits = self.dirty_bits(slot);
        for (within, &entry) in self.entries(slot).iter().enumerate() {
            let dirty = if bits[within / 64] >> (within % 64) & 1 == 1 { DIRTY } else { 0 };
            out.u32(if entry == NONE { UNMAPPED } else { entry } | dirty);
        }
    }

    /// Takes in a page that [`PageCache::save`] saved.
    pub(crate) fn load(&mut self, tvpn: Tvpn, from: &mut Loader<'_>) -> u32 {
        let packed: Vec<u32> = (0..self.page_entries).map(|_| from.u32()).collect();
        let slot = self.insert(tvpn, |entries| {
            for (entry, &word) in entries.iter_mut().zip(&packed) {
                *entry = if word & !DIRTY == UNMAPPED { NONE } else { word & !DIRTY };
            }
        });
        for (lpn, _) in (tvpn.0 * self.page_entries..).zip(&packed).filter(|(_, word)| **word & DIRTY != 0) {
            let ppn = self.get(slot, Lpn(lpn));
            self.set(slot, Lpn(lpn), ppn);
        }
        slot
    }
}

//! What the engine asks of a mapping cache.
//!
//! A cache holds part of the map in the form its paper describes. It decides what to load, what to drop and which
//! changed entries to write back when; it reaches flash only through the [`Map`] that it is handed. The engine asks for
//! an entry ([`Cache::find`], [`Cache::fetch`]), changes it after a host write ([`Cache::prepare`], [`Cache::set`]) and
//! tells it what collections and discards did ([`Cache::absorb`], [`Cache::refresh`]).

use super::map::{Map, MapStore};
pub(crate) use crate::parts::cache::Entry;
use crate::{ConfigError, Loader, Outcome, Saver, Settings};
use alloc::vec::Vec;
use core::fmt::Debug;
use flash::{Cause, Flash, Geometry, Lpn, Ppn, Tvpn};

/// What a cache is cut for.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Pages of the map.
    pub logical_pages: u32,
    /// Entries of a translation page.
    pub page_entries: u32,
    /// The device.
    pub geometry: Geometry,
}

impl Shape {
    /// Translation pages of the map.
    pub fn pages(&self) -> u32 {
        self.logical_pages.div_ceil(self.page_entries)
    }

    /// The translation page of an LPN.
    #[inline(always)]
    pub fn tvpn(&self, lpn: u32) -> Tvpn {
        Tvpn(if self.page_entries.is_power_of_two() {
            lpn >> self.page_entries.trailing_zeros()
        } else {
            lpn / self.page_entries
        })
    }

    /// The LPNs of a translation page.
    pub fn lpns(&self, tvpn: Tvpn) -> core::ops::Range<u32> {
        let first = tvpn.0 * self.page_entries;
        first..self.logical_pages.min(first.saturating_add(self.page_entries))
    }
}

/// A mapping cache. An entry is *dirty* while its translation page does not hold it.
pub trait Cache: Clone + Debug + Send + 'static {
    /// Where an entry is, valid until the cache changes.
    type Slot: Copy;

    /// What it is told.
    type Options: for<'a> From<&'a Settings>;

    /// Whether [`Cache::absorb`] never leaves out an entry that is cached.
    const ABSORBS_ALL: bool = false;

    /// Whether [`Cache::was_read`] may ask for conversions.
    const CONVERTS: bool = false;

    /// What the fewest bytes are for: a part of the sentence that refuses less.
    const LEAST: &'static str = "the smallest cache";

    /// The fewest bytes that a cache of this shape works with.
    ///
    /// # Errors
    /// Settings that do not fit the device.
    fn least_bytes(shape: &Shape, options: &Self::Options) -> Result<u64, ConfigError>;

    /// An empty cache of at most `bytes`, no fewer than [`Cache::least_bytes`].
    fn new(shape: &Shape, options: &Self::Options, bytes: u64) -> Self;

    /// Translation pages that one host page may have to write, at the most.
    fn most_updates(&self) -> u32;

    /// A host request over these pages begins.
    fn request(&mut self, first: Lpn, pages: u32) {
        let _ = (first, pages);
    }

    /// The entry, if it is cached. Tells nothing to the replacement order.
    fn find(&self, lpn: Lpn) -> Option<Self::Slot>;

    /// A host access found the entry.
    fn hit(&mut self, slot: Self::Slot, lpn: Lpn);

    /// As [`Cache::hit`], for a cache of several levels: it may move the entry up, with the help of flash if that makes
    /// room. Where the entry is now.
    ///
    /// # Errors
    /// Full; the medium's.
    #[inline(always)]
    fn promote<F: Flash, S: MapStore>(
        &mut self,
        flash: &mut F,
        map: &mut Map<S>,
        slot: Self::Slot,
        lpn: Lpn,
    ) -> Outcome<F, Self::Slot> {
        let _ = (flash, map);
        self.hit(slot, lpn);
        Ok(slot)
    }

    /// The PPN of a cached entry; [`Ppn::NONE`] if it maps nothing.
    fn get(&self, slot: Self::Slot, lpn: Lpn) -> Ppn;

    /// Whether the entry, which is cached, is dirty.
    fn is_dirty(&self, slot: Self::Slot, lpn: Lpn) -> bool;

    /// Whether the whole map fits, so that nothing is ever evicted.
    fn holds_all(&self) -> bool;

    /// Whether [`Cache::fetch`] would have to write a translation page now.
    fn is_write_due(&mut self) -> bool {
        !self.holds_all()
    }

    /// A host access missed the entry: makes room and loads it.
    ///
    /// # Errors
    /// Full; the medium's.
    fn fetch<F: Flash, S: MapStore>(&mut self, flash: &mut F, map: &mut Map<S>, lpn: Lpn) -> Outcome<F, Self::Slot>;

    /// The entry in `slot` is about to become `ppn`: makes whatever room that takes. The entry stays where it is.
    ///
    /// # Errors
    /// Full; the medium's.
    #[inline(always)]
    fn prepare<F: Flash, S: MapStore>(
        &mut self,
        flash: &mut F,
        map: &mut Map<S>,
        slot: Self::Slot,
        lpn: Lpn,
        ppn: Ppn,
    ) -> Outcome<F> {
        let _ = (flash, map, slot, lpn, ppn);
        Ok(())
    }

    /// Changes an entry that was prepared; it is dirty.
    fn set(&mut self, slot: Self::Slot, lpn: Lpn, ppn: Ppn);

    /// A collection moved pages, in any order. Changes the cached entries and leaves in `moves` the ones that are to
    /// be written to their translation pages: those that are not cached, and those that it could not change without
    /// going to flash. The latter will be written together with all dirty entries of their translation page, and then
    /// handed to [`Cache::refresh`].
    #[inline]
    fn absorb(&mut self, moves: &mut Vec<Entry>) {
        moves.retain(|&Entry { lpn, ppn }| match self.find(lpn) {
            Some(slot) => {
                self.set(slot, lpn, ppn);
                false
            }
            None => true,
        });
    }

    /// The host read a page, whose entry is cached. A logical block that is to be converted: its pages lie within one
    /// translation page, and will be copied in order into a block of their own if they are all mapped.
    #[inline(always)]
    fn was_read(&mut self, lpn: Lpn) -> Option<u32> {
        let _ = lpn;
        None
    }

    /// The pages of a logical block lie in order from `first` on, the first page of a block, and its translation page
    /// says so: what is cached of them is clean, and may be out of date. Whether they were copied for that.
    fn converted(&mut self, block: u32, first: Ppn, copied: bool) {
        let _ = (block, first, copied);
    }

    /// Whether a translation page has dirty entries here.
    fn has_dirty(&self, tvpn: Tvpn) -> bool;

    /// Appends all dirty entries of a translation page to `out`; they count as clean from now on.
    fn clean_page(&mut self, tvpn: Tvpn, out: &mut Vec<Entry>);

    /// Entries that were taken to be clean could not be written: those still cached with that value are dirty again.
    #[cold]
    fn soil(&mut self, entries: &[Entry]) {
        for &Entry { lpn, ppn } in entries {
            if let Some(slot) = self.find(lpn).filter(|&slot| self.get(slot, lpn) == ppn) {
                self.set(slot, lpn, ppn);
            }
        }
    }

    /// Writes entries that an eviction cleaned into their translation page; if that fails they are dirty again.
    ///
    /// # Errors
    /// Full; the medium's.
    fn write_evicted<F: Flash, S: MapStore>(
        &mut self,
        flash: &mut F,
        map: &mut Map<S>,
        tvpn: Tvpn,
        entries: &[Entry],
    ) -> Outcome<F> {
        map.wrote_back(entries.len());
        let written = map.update(flash, tvpn, entries, !self.has_dirty(tvpn), Cause::TranslationUpdate);
        if written.is_err() {
            self.soil(entries);
        }
        written
    }

    /// The translation page says this now of an entry that is clean or not cached: if it is cached, it changes, or is
    /// dropped.
    fn refresh(&mut self, lpn: Lpn, ppn: Ppn);

    /// While mounting: takes in lost entries of one translation page as dirty ones, all or, if they do not fit, none.
    /// `entry` gives the present PPN of every LPN of the page, the lost ones included.
    fn restore(&mut self, group: &[Entry], entry: impl Fn(u32) -> u32) -> bool;

    /// `lpn` will be looked up soon; it may lie beyond the map.
    fn prefetch(&self, lpn: Lpn);

    /// Controller RAM, bytes.
    fn memory(&self) -> u64;

    /// The cache's own counters, by the names in the scheme's row.
    fn counters(&self, out: &mut Vec<(&'static str, u64)>) {
        let _ = out;
    }

    /// Forgets them.
    fn reset_counters(&mut self) {}

    /// Checks invariants beyond those that hold for every cache.
    ///
    /// # Errors
    /// The first that does not hold.
    fn audit(&self) -> Result<(), alloc::string::String> {
        Ok(())
    }

    /// Saves the state, in at most [`Cache::memory`] bytes.
    fn save(&self, out: &mut Saver);

    /// Loads what [`Cache::save`] saved into a new cache.
    fn load(&mut self, from: &mut Loader<'_>);
}

//! The map on flash, as a cache reaches it: translation pages, the space they live in, and what became of them.

use crate::parts::lanes::Stream;
use crate::parts::space::Space;
use crate::parts::translation::{TranslationStore, forget_beyond};
use crate::{CacheCounters, ConfigError, Error, Loader, Outcome, Saver, Settings};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::fmt::Debug;
use core::ops::Range;
use flash::{Cause, Flash, Geometry, Lpn, Oob, Ppn, Tvpn};

use super::cache::Entry;
use super::moves::Moves;

/// Which dirty entries of a translation page an eviction may write back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Batch {
    /// The victim's alone.
    Victim,
    /// The victim's, and others while the sum stays within this many.
    UpTo(u32),
    /// All of them.
    All,
}

/// A translation page as it was read.
#[derive(Clone, Copy, Debug)]
pub struct TranslationPage<'a> {
    /// Its number, watermark and mark.
    pub oob: Oob,
    /// Its content, a log included.
    pub words: &'a [u32],
}

/// How translation pages are kept on flash.
pub trait MapStore: Clone + Debug + Send + 'static {
    /// What it is told.
    type Options: for<'a> From<&'a Settings>;

    /// For a map of `logical_pages` entries; none written yet.
    ///
    /// # Errors
    /// Settings that do not fit the device.
    fn new(g: &Geometry, logical_pages: u32, stream: Stream, options: &Self::Options) -> Result<Self, ConfigError>;

    /// Whether translation blocks are programmed in SLC mode, where cells hold more than one bit.
    fn is_slc(&self) -> bool {
        false
    }

    /// The translation pages and where they are.
    fn pages(&self) -> &TranslationStore;

    /// Entries of a translation page.
    fn page_entries(&self) -> u32 {
        self.pages().page_entries()
    }

    /// Translation pages that the map takes.
    fn count(&self) -> u32 {
        self.pages().count()
    }

    /// The translation page of an LPN and the entry in it.
    #[inline(always)]
    fn locate(&self, lpn: u32) -> (Tvpn, usize) {
        self.pages().locate(lpn)
    }

    /// Where a translation page is; [`Ppn::NONE`] if it was never written.
    #[inline(always)]
    fn at(&self, tvpn: Tvpn) -> Ppn {
        self.pages().at(tvpn)
    }

    /// An entry of a translation page is about to change: [`Flash::hint`] at what that will touch.
    #[inline(always)]
    fn hint<F: Flash>(&self, flash: &F, tvpn: Tvpn, index: usize) {
        flash.hint(self.at(tvpn), index);
    }

    /// Copies the entries from `first` on out of a translation page that was read; what lies behind its end is
    /// unmapped.
    fn entries(&self, page: TranslationPage<'_>, first: usize, out: &mut [u32]);

    /// What an eviction may write back, if its victim has `dirty` dirty entries.
    ///
    /// # Errors
    /// The medium's.
    fn batch<F: Flash>(&mut self, flash: &mut F, tvpn: Tvpn, dirty: u32) -> Result<Batch, F::Fault>;

    /// Whether so many entries can be brought into a translation page without writing it anew.
    ///
    /// # Errors
    /// The medium's.
    fn fits<F: Flash>(&mut self, flash: &mut F, tvpn: Tvpn, entries: usize, cause: Cause) -> Result<bool, F::Fault> {
        let _ = (flash, tvpn, entries, cause);
        Ok(false)
    }

    /// Whether what this store writes can be mounted after a power cut.
    ///
    /// # Errors
    /// The setting that prevents it.
    fn check_mountable(&self) -> Result<(), ConfigError> {
        Ok(())
    }

    /// Brings entries, each LPN once, into their translation page. `all`: no dirty entry of it stays in the cache.
    /// `whole`: as a page of its own, with a watermark (docs/recovery.md), whatever it costs.
    ///
    /// # Errors
    /// Full; the medium's.
    fn update<F: Flash>(
        &mut self,
        flash: &mut F,
        space: &mut Space,
        tvpn: Tvpn,
        entries: &[Entry],
        how: Update,
    ) -> Outcome<F> {
        self.put_entries(flash, space, tvpn, entries, how)
    }

    /// As [`MapStore::update`], but edits the entries in place.
    ///
    /// # Errors
    /// Full; the medium's.
    fn put_entries<F: Flash>(
        &mut self,
        flash: &mut F,
        space: &mut Space,
        tvpn: Tvpn,
        entries: &[Entry],
        how: Update,
    ) -> Outcome<F> {
        let base = tvpn.0 * self.page_entries();
        self.edit(flash, space, tvpn, how, |words| {
            for &Entry { lpn, ppn } in entries {
                words[(lpn.0 - base) as usize] = ppn.0;
            }
        })
    }

    /// As [`MapStore::update`] with `whole`, but edits the entries in place.
    ///
    /// # Errors
    /// Full; the medium's.
    fn edit<F: Flash>(
        &mut self,
        flash: &mut F,
        space: &mut Space,
        tvpn: Tvpn,
        how: Update,
        edit: impl FnMut(&mut [u32]),
    ) -> Outcome<F>;

    /// Writes a translation page of which every entry is known, without reading it first.
    ///
    /// # Errors
    /// Full; the medium's.
    fn rewrite<F: Flash>(
        &mut self,
        flash: &mut F,
        space: &mut Space,
        tvpn: Tvpn,
        words: &[u32],
        how: Update,
    ) -> Outcome<F>;

    /// What the copy of a collected translation page changes in its words.
    fn compact(&self, tvpn: Tvpn, words: &mut [u32]) {
        let _ = (tvpn, words);
    }

    /// A collection moved a translation page.
    fn moved(&mut self, tvpn: Tvpn, to: Ppn);

    /// While mounting: where a translation page is, and what it holds.
    fn found(&mut self, at: Ppn, page: TranslationPage<'_>);

    /// RAM, bytes.
    fn memory(&self) -> u64;

    /// The store's own counters, by the names in the scheme's row.
    fn counters(&self, out: &mut Vec<(&'static str, u64)>) {
        let _ = out;
    }

    /// Forgets them.
    fn reset_counters(&mut self) {}

    /// Saves the state, in at most [`MapStore::memory`] bytes.
    fn save(&self, out: &mut Saver);

    /// Loads what [`MapStore::save`] saved into a new store.
    fn load(&mut self, from: &mut Loader<'_>);
}

/// How a translation page is updated.
#[derive(Clone, Copy, Debug)]
pub struct Update {
    /// What for.
    pub cause: Cause,
    /// No dirty entry of the page stays in the cache: its watermark may move.
    pub all: bool,
    /// The page must be written whole.
    pub whole: bool,
}

/// Upper bounds of the classes in which updates are counted by their number of entries.
pub(super) const UPDATE_SIZES: [u32; 12] = [1, 2, 4, 8, 16, 24, 32, 64, 128, 256, 512, 1024];

/// What the engine counts for every scheme of the family.
#[derive(Clone, Copy, Default, Debug)]
pub struct Counters {
    /// The mapping cache.
    pub cache: CacheCounters,
    /// Evictions that wrote nothing.
    pub clean_evictions: u64,
    /// Translation pages read on misses.
    pub loads: u64,
    /// Updates of translation pages.
    pub updates: u64,
    /// The same by their number of entries, in the classes of the counters `update_entries_le_N`.
    pub update_sizes: [u64; UPDATE_SIZES.len()],
    /// Data blocks collected.
    pub data_victims: u64,
    /// Translation blocks collected.
    pub translation_victims: u64,
    /// Blocks of either kind that were collected with nothing to copy.
    pub dead_victims: u64,
    /// Data pages copied by collections.
    pub data_copies: u64,
    /// Translation pages copied by collections.
    pub translation_copies: u64,
}

/// See the module's description.
#[derive(Clone, Debug)]
pub struct Map<S> {
    /// Translation pages.
    pub store: S,
    /// Where they and the data live.
    pub space: Space,
    /// Pages that spread collections have moved, and the translation pages do not know of.
    pub moves: Moves,
    /// Whether discards survive a power cut.
    pub durable_trim: bool,
    /// Translation pages with discarded entries that are dirty in the cache.
    pub trimmed: BTreeSet<u32>,
    /// What happened.
    pub counters: Counters,
}

impl<S: MapStore> Map<S> {
    /// Reads a translation page for a miss; `None` if it was never written.
    ///
    /// # Errors
    /// The medium's.
    #[inline]
    pub fn read<'f, F: Flash>(&mut self, flash: &'f mut F, tvpn: Tvpn) -> Outcome<F, Option<TranslationPage<'f>>> {
        let at = self.store.at(tvpn);
        if at == Ppn::NONE {
            return Ok(None);
        }
        self.counters.loads += 1;
        let (oob, content) = flash.read(at, Cause::TranslationLoad)?;
        if oob.tvpn() != tvpn {
            return Err(Error::Corrupt);
        }
        Ok(Some(TranslationPage { oob, words: content.words().ok_or(Error::Corrupt)? }))
    }

    /// Copies the entries from `first` on out of a translation page that was read, as they are now.
    #[inline(always)]
    pub fn entries(&self, page: TranslationPage<'_>, first: usize, out: &mut [u32]) {
        self.store.entries(page, first, out);
        forget_beyond(out, self.space.blocks.geometry());
        if !self.moves.is_empty() {
            let base = self.lpns(page.oob.tvpn()).start + first as u32;
            for Entry { lpn, ppn } in self.moves.within(base..base + out.len() as u32) {
                out[(lpn.0 - base) as usize] = ppn.0;
            }
        }
    }

    /// The LPNs of a translation page, those beyond the end of the map included.
    fn lpns(&self, tvpn: Tvpn) -> Range<u32> {
        let entries = self.store.page_entries();
        let first = tvpn.0 * entries;
        first..first.saturating_add(entries)
    }

    /// What the translation page does not know of pages that spread collections have moved, but for these LPNs.
    pub fn moves_beside<'a>(&'a self, tvpn: Tvpn, entries: &'a [Entry]) -> impl Iterator<Item = Entry> + 'a {
        let known = |lpn: Lpn| entries.iter().any(|other| other.lpn == lpn);
        self.moves.within(self.lpns(tvpn)).filter(move |entry| !known(entry.lpn))
    }

    /// The translation page knows of all moves.
    pub fn told(&mut self, tvpn: Tvpn) {
        if !self.moves.is_empty() {
            self.moves.remove_all(self.lpns(tvpn));
        }
    }

    /// What an eviction may write back, if its victim has `dirty` dirty entries in that translation page.
    ///
    /// # Errors
    /// The medium's.
    #[inline]
    pub fn batch<F: Flash>(&mut self, flash: &mut F, tvpn: Tvpn, dirty: u32) -> Outcome<F, Batch> {
        // Discards survive only in a page of its own, with a watermark.
        if self.durable_trim && self.trimmed.contains(&tvpn.0) {
            return Ok(Batch::All);
        }
        Ok(self.store.batch(flash, tvpn, dirty)?)
    }

    /// Brings entries into their translation page, and what it does not know of moved pages. `all`: no dirty entry of
    /// it stays in the cache.
    ///
    /// # Errors
    /// Full; the medium's. The entries are then dirty as before: tell the cache ([`super::cache::Cache::soil`]).
    pub fn update<F: Flash>(
        &mut self,
        flash: &mut F,
        tvpn: Tvpn,
        entries: &[Entry],
        all: bool,
        cause: Cause,
    ) -> Outcome<F> {
        self.count_update(entries.len());
        let discards = all && !self.trimmed.is_empty() && self.trimmed.contains(&tvpn.0);
        let how = Update { cause, all, whole: discards && self.durable_trim };
        if self.moves.is_empty() {
            self.space.collector.beside.before_map(flash, entries.iter().map(|entry| entry.ppn));
            self.store.update(flash, &mut self.space, tvpn, entries, how)?;
        } else {
            let mut along = entries.to_vec();
            along.extend(self.moves_beside(tvpn, entries));
            self.space.collector.beside.before_map(flash, along.iter().map(|entry| entry.ppn));
            self.store.update(flash, &mut self.space, tvpn, &along, how)?;
            self.told(tvpn);
        }
        if discards {
            self.trimmed.remove(&tvpn.0);
        }
        Ok(())
    }

    /// Counts an update of so many entries.
    pub fn count_update(&mut self, entries: usize) {
        self.counters.updates += 1;
        if let Some(class) = UPDATE_SIZES.iter().position(|&most| entries <= most as usize) {
            self.counters.update_sizes[class] += 1;
        }
    }

    /// Writes a translation page of which the cache knows every entry, without reading it. No dirty entry of it may
    /// stay in the cache; `changed` of them did change.
    ///
    /// # Errors
    /// As [`Map::update`].
    pub fn rewrite<F: Flash>(
        &mut self,
        flash: &mut F,
        tvpn: Tvpn,
        words: &[u32],
        changed: usize,
        cause: Cause,
    ) -> Outcome<F> {
        self.count_update(changed);
        self.space.collector.beside.before_map(flash, words.iter().map(|&word| Ppn(word)));
        let how = Update { cause, all: true, whole: true };
        self.store.rewrite(flash, &mut self.space, tvpn, words, how)?;
        self.told(tvpn);
        self.trimmed.remove(&tvpn.0);
        Ok(())
    }

    /// An eviction wrote back so many entries.
    #[inline]
    pub fn wrote_back(&mut self, entries: usize) {
        self.counters.cache.writebacks += 1;
        self.counters.cache.writeback_entries += entries as u64;
    }
}

//! `cftl`: a page map on flash, of which read-mostly logical blocks are cached as blocks.
//!
//! The problem: a page map follows writes well, but its cache spends an entry on every page of what is only read, where
//! a block map has one for all pages of a block. CFTL's idea (Park, Debnath and Du 2010): map pages where the workload
//! writes, and blocks where it reads. A logical block that was not written for a while and is read often is
//! *converted*: its pages are copied in order into a block of their own, and one entry of a second cache finds them
//! all. A write goes to a new page as ever, and its logical block is mapped by pages again, without a copy. Entries of
//! the page cache have a consecutive field, so that pages written one behind another share one.
//!
//! *This is a reconstruction.* The paper is not at hand. Of summaries, and of the abstract of its later version (2016),
//! we know the two mappings, the consecutive field, and that hot data are found by several Bloom filters and the caches
//! are divided adaptively. What finds the blocks to convert, its window and its threshold, and the division of the
//! cache are ours: figures of `cftl` speak of this scheme and not of the paper's.
//!
//! ```text
//!            ┌─▶ page cache (CPMT)   {LPN 40, PPN 812, 3 more, dirty} … │ miss in both: read the translation page,
//!  LPN ──────┤                                                          │ take the whole block if its entries name
//!            └─▶ block cache (CBMT)  {LBN 2 → block 17} …               │ one block in order, or else the run
//!
//!  hot detector: for each logical block, its reads since it was written, and whether that was in this window of
//!  writes or the last.          long ago, and read often ─▶ conversion
//! ```
//!
//! # Structures
//!
//! RAM: directory, 4 B for each translation page; hot detector, 1 B for each logical block; page cache, 8 B and
//! 3 + `run-bits` bits for each run; block cache, 8 B for each logical block. The detector and the caches come out of
//! `cache-bytes`; of what is left beside the detector, `block-share` is the block cache's. Flash: as for `dftl`. How a
//! logical block is mapped is not stored: it is mapped as a block if its entries name all pages of one block in order,
//! and whoever reads its translation page sees that.
//!
//! # Costs
//!
//! A hit costs nothing, nor does a write that ends a block mapping. A miss is as for `dftl`. A conversion costs P
//! copies and an update of a translation page, or nothing if the pages lie in order already; collections cost as for
//! `dftl`, and leave a block-mapped block alone, for it has no dead page. The copies are counted as full merges.
//!
//! # Departures
//!
//! Beside the reconstruction (above): the LRU order of both caches, and that a conversion is given up if space is
//! short. With
//! several dies, `stripe` consecutive pages stay on one die; otherwise there would be no runs. Logical blocks that do
//! not fit a translation page are not converted. `convert = off` gives all RAM to the page cache.

mod detector;

use crate::demand::Demand;
use crate::demand::cache::{Cache, Entry, Shape};
use crate::demand::map::{Map, MapStore, TranslationPage};
use crate::demand::out_of_place::{BATCH_EVICT, OutOfPlace};
use crate::demand::parameters::{self, CACHE_BYTES, DATA_BLOCKS, RUN_STRIPE};
use crate::parts::cache::{self, MappingCache, OrderKind};
use crate::schemes::scftl::{
    ADAPT, AGEING, FLAGS_FETCHED, MC_UNIT, REPLACEMENT, RUN_BITS, Runs, SPATIAL, SPATIAL_COUNTS, THRESHOLD, runs,
};
use crate::{ConfigError, Loader, Outcome, Parameter, Saver, Scheme, Settings, Value};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use detector::Detector;
use flash::{Cause, Flash, Lpn, Ppn, Tvpn};

const CONVERT: Parameter = Parameter::switch("convert", true)
    .text(
        "Logical blocks that are read and not written are copied in order and cached as blocks. On costs those \
         copies; off caches runs of pages alone.",
    )
    .source("{cftl}");

const COLD_WRITES: Parameter = Parameter::count("cold-writes", 0, 0..=(u32::MAX as u64))
    .unit("pages")
    .text(
        "A logical block is converted only if it was not written during so many host page writes. More converts less. \
         0 stands for an eighth of the logical pages.",
    )
    .source("ftlab; not known of the paper");

const READ_THRESHOLD: Parameter = Parameter::count("read-threshold", 4, 1..=63)
    .unit("reads")
    .text("A logical block is converted only if its pages were read so often since it was written. More converts less.")
    .source("reconstructed; summaries of {cftl} say read-intensive");

const BLOCK_SHARE: Parameter = Parameter::real("block-share", 0.25, 0.01..=0.9)
    .text("Share of the cache that holds entries of blocks; the rest holds runs of pages.")
    .source("ftlab; not known of the paper");

const COUNTERS: &[(&str, &str)] = &[
    ("conversions", "logical blocks copied in order into a block of their own"),
    ("conversions_in_place", "logical blocks found in order when they were to be converted"),
    ("block_hits", "look-ups answered by an entry of a block"),
    ("range_hits", "look-ups answered by an entry of a run that begins before the page"),
    ("reversions", "entries of blocks that a write turned back into entries of pages"),
];

/// The row.
pub(super) static ROW: Scheme = Scheme {
    name: "cftl",
    summary: "page map on flash, cached by runs where it is written and by blocks where it is read (reconstructed)",
    paper: "{cftl}, reconstructed from summaries: what converts blocks, and when, is ftlab's",
    essay: include_str!("cftl.rs"),
    own: &[CACHE_BYTES, CONVERT, COLD_WRITES, READ_THRESHOLD, BLOCK_SHARE, RUN_BITS, BATCH_EVICT, RUN_STRIPE],
    fixed: &[
        REPLACEMENT.at(Value::Word("lru")),
        THRESHOLD.at(Value::Count(0)),
        SPATIAL.at(Value::Count(1)),
        MC_UNIT,
        AGEING,
        FLAGS_FETCHED,
        SPATIAL_COUNTS,
        ADAPT.at(Value::Switch(false)),
        DATA_BLOCKS,
    ],
    counters: &[parameters::COUNTERS, COUNTERS],
    phases: &[
        Cause::Host,
        Cause::TranslationUpdate,
        Cause::TranslationGc,
        Cause::DataGc,
        Cause::MergeFull,
        Cause::WearLevelling,
        Cause::EccRewrite,
        Cause::Recovery,
    ],
    ..parameters::ROW
};

/// The scheme: runs and blocks over translation pages that are written out of place.
pub type Cftl = Demand<Convertible, OutOfPlace>;

/// Bytes of an entry of a block: logical block, and its first page.
const BLOCK_BYTES: u64 = 8;

/// RAM of the block cache beside its entries: how many there are.
const STATE_BYTES: u64 = 8;

/// Where an entry is cached.
#[derive(Clone, Copy, Debug)]
pub enum Slot {
    /// In a run.
    Page(u32),
    /// In a block.
    Block(cache::Slot),
}

/// The scheme's own counters, in the order of the row.
#[derive(Clone, Copy, Default, Debug)]
struct Counts {
    conversions: u64,
    in_place: u64,
    block_hits: u64,
    range_hits: u64,
    reversions: u64,
}

/// What is there only if logical blocks are converted.
#[derive(Clone, Debug)]
struct Blocks {
    /// The first page of each cached logical block; look-ups are by logical block.
    cached: MappingCache,
    detector: Detector,
    /// Pages of a block, as a shift.
    shift: u32,
    /// Logical blocks that have all their pages in one translation page.
    count: u32,
}

/// See the module's description.
#[derive(Clone, Debug)]
pub struct Convertible {
    shape: Shape,
    pages: Runs,
    blocks: Option<Blocks>,
    run_bits: u32,
    counts: Counts,
    /// Scratch space; empty between calls.
    places: Vec<u32>,
}

/// What the cache is told.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// `convert`.
    pub convert: bool,
    /// `cold-writes`; 0 stands for an eighth of the logical pages.
    pub cold_writes: u32,
    /// `read-threshold`.
    pub read_threshold: u8,
    /// `block-share`.
    pub block_share: f64,
    /// Of the runs.
    pub runs: runs::Options,
}

impl From<&Settings> for Options {
    fn from(settings: &Settings) -> Options {
        Options {
            convert: settings.switch(&CONVERT),
            cold_writes: settings.small(&COLD_WRITES),
            read_threshold: settings.count(&READ_THRESHOLD) as u8,
            block_share: settings.real(&BLOCK_SHARE),
            runs: settings.into(),
        }
    }
}

/// Bytes of the detector and of what else does not grow with the caches.
fn detector_bytes(shape: &Shape, options: &Options) -> u64 {
    if options.convert { Detector::bytes(logical_blocks(shape)) + STATE_BYTES } else { 0 }
}

/// Logical blocks, the last one perhaps in part.
fn logical_blocks(shape: &Shape) -> u32 {
    shape.logical_pages.div_ceil(shape.geometry.pages_per_block)
}

impl Blocks {
    fn new(shape: &Shape, options: &Options, bytes: u64) -> Blocks {
        let pages = shape.geometry.pages_per_block;
        let logical = logical_blocks(shape);
        let fits = pages > 1 && shape.page_entries.is_multiple_of(pages);
        let window = match options.cold_writes {
            0 => (shape.logical_pages / 8).max(1),
            writes => writes,
        };
        let entries = (bytes / BLOCK_BYTES).min(u64::from(logical)) as u32;
        Blocks {
            cached: MappingCache::new(logical, 1, 1, entries, OrderKind::Lru),
            detector: Detector::new(logical, window, options.read_threshold),
            shift: pages.trailing_zeros(),
            count: if fits { shape.logical_pages / pages } else { 0 },
        }
    }

    #[inline(always)]
    fn of(&self, lpn: Lpn) -> Lpn {
        Lpn(lpn.0 >> self.shift)
    }

    #[inline(always)]
    fn find(&self, lpn: Lpn) -> Option<cache::Slot> {
        self.cached.find(self.of(lpn))
    }

    /// The page that a cached block gives for an LPN.
    #[inline(always)]
    fn get(&self, slot: cache::Slot, lpn: Lpn) -> Ppn {
        let first = self.cached.get(slot, self.of(lpn));
        Ppn(first.0 + (lpn.0 & ((1 << self.shift) - 1)))
    }

    /// Caches a logical block that is not cached.
    fn insert(&mut self, block: Lpn, first: Ppn) -> cache::Slot {
        if self.cached.is_full() {
            let (oldest, _) = self.cached.victim();
            self.cached.remove(oldest);
        }
        self.cached.insert(block, |entry| entry[0] = first.0)
    }

    fn forget(&mut self, lpn: Lpn) {
        if let Some(slot) = self.find(lpn) {
            self.cached.remove(slot);
        }
    }

    /// The LPNs around a logical block that is not cached, up to the next cached ones: a run may reach so far. Further
    /// than the longest run is not looked.
    fn around(&self, block: Lpn, longest: u32) -> core::ops::Range<u32> {
        let cached = |block: &u32| *block < self.count && self.cached.find(Lpn(*block)).is_some();
        let reach = longest.div_ceil(1 << self.shift);
        let (least, most) = (block.0.saturating_sub(reach), block.0 + reach);
        let start = (least..block.0).rev().find(cached).map_or(least, |cached| cached + 1);
        let end = (block.0 + 1..most + 1).find(cached).unwrap_or(most + 1);
        start << self.shift..end << self.shift
    }

    fn lpns(&self, block: Lpn) -> impl Iterator<Item = Lpn> + use<> {
        (block.0 << self.shift..(block.0 + 1) << self.shift).map(Lpn)
    }
}

/// The first page of a logical block that is mapped as a block in its translation page, of which the entries from
/// `index` on are the block's. `places` is scratch space.
#[inline]
fn mapped_as_block<S: MapStore>(
    map: &Map<S>,
    shape: &Shape,
    page: TranslationPage<'_>,
    index: usize,
    places: &mut Vec<u32>,
) -> Option<Ppn> {
    let in_order = |places: &[u32]| places.windows(2).all(|pair| pair[1] == pair[0].wrapping_add(1));
    // Mostly two entries tell that it is not.
    let mut two = [Ppn::NONE.0; 2];
    map.entries(page, index, &mut two);
    let first = Ppn(two[0]);
    if first == Ppn::NONE || !in_order(&two) || shape.geometry.offset_of(first) != 0 {
        return None;
    }
    places.clear();
    places.resize(shape.geometry.pages_per_block as usize, Ppn::NONE.0);
    map.entries(page, index, places);
    in_order(places).then_some(first)
}

impl Cache for Convertible {
    type Slot = Slot;
    type Options = Options;

    const ABSORBS_ALL: bool = Runs::ABSORBS_ALL;
    const CONVERTS: bool = true;

    fn least_bytes(shape: &Shape, options: &Options) -> Result<u64, ConfigError> {
        let block = if options.convert { BLOCK_BYTES } else { 0 };
        Ok(Runs::least_bytes(shape, &options.runs)? + detector_bytes(shape, options) + block)
    }

    fn new(shape: &Shape, options: &Options, bytes: u64) -> Self {
        let rest = bytes - detector_bytes(shape, options);
        let (pages, blocks) = if options.convert {
            let least = Runs::least_bytes(shape, &options.runs).expect("the settings were accepted before");
            let share = (rest as f64 * options.block_share) as u64 / BLOCK_BYTES * BLOCK_BYTES;
            let all = u64::from(logical_blocks(shape)) * BLOCK_BYTES;
            let share = share.min(rest - least).min(all).max(BLOCK_BYTES);
            (rest - share, Some(Blocks::new(shape, options, share)))
        } else {
            (rest, None)
        };
        let pages = Runs::new(shape, &options.runs, pages);
        let run_bits = options.runs.run_bits;
        Convertible { shape: *shape, pages, blocks, run_bits, counts: Counts::default(), places: Vec::new() }
    }

    fn most_updates(&self) -> u32 {
        // A block entry makes room for three runs at once, as a run does that is split.
        self.pages.most_updates()
    }

    #[inline(always)]
    fn find(&self, lpn: Lpn) -> Option<Slot> {
        if let Some(slot) = self.pages.find(lpn) {
            return Some(Slot::Page(slot));
        }
        self.blocks.as_ref().and_then(|blocks| blocks.find(lpn)).map(Slot::Block)
    }

    #[inline(always)]
    fn hit(&mut self, slot: Slot, lpn: Lpn) {
        match (slot, &mut self.blocks) {
            (Slot::Block(slot), Some(blocks)) => {
                self.counts.block_hits += 1;
                blocks.cached.hit(slot);
            }
            (Slot::Page(slot), _) => {
                let before = lpn.0.checked_sub(1).and_then(|before| self.pages.find(Lpn(before)));
                self.counts.range_hits += u64::from(before == Some(slot));
                self.pages.hit(slot, lpn);
            }
            (Slot::Block(_), None) => unreachable!("no logical block is cached where none is converted"),
        }
    }

    #[inline(always)]
    fn get(&self, slot: Slot, lpn: Lpn) -> Ppn {
        match (slot, &self.blocks) {
            (Slot::Page(slot), _) => self.pages.get(slot, lpn),
            (Slot::Block(slot), Some(blocks)) => blocks.get(slot, lpn),
            (Slot::Block(_), None) => unreachable!("no logical block is cached where none is converted"),
        }
    }

    fn is_dirty(&self, slot: Slot, lpn: Lpn) -> bool {
        matches!(slot, Slot::Page(slot) if self.pages.is_dirty(slot, lpn))
    }

    #[inline(always)]
    fn holds_all(&self) -> bool {
        self.pages.holds_all()
    }

    fn fetch<F: Flash, S: MapStore>(&mut self, flash: &mut F, map: &mut Map<S>, lpn: Lpn) -> Outcome<F, Slot> {
        let Convertible { shape, pages, blocks, run_bits, places, .. } = self;
        let Some(blocks) = blocks else { return pages.fetch(flash, map, lpn).map(Slot::Page) };
        let block = blocks.of(lpn);
        let mut first = None;
        let within = blocks.around(block, 1 << *run_bits);
        let fetched = pages.fetch_unless(flash, map, lpn, within, |pages, map, page| {
            if block.0 >= blocks.count {
                return false;
            }
            let (_, index) = map.store.locate(block.0 << blocks.shift);
            let changed = |lpn: Lpn| pages.find(lpn).is_some_and(|slot| pages.is_dirty(slot, lpn));
            first = mapped_as_block(map, shape, page, index, places).filter(|_| !blocks.lpns(block).any(changed));
            first.is_some()
        })?;
        if let Some(first) = first {
            blocks.lpns(block).for_each(|lpn| pages.forget(lpn));
            return Ok(Slot::Block(blocks.insert(block, first)));
        }
        Ok(Slot::Page(fetched.expect("the run was cached, or the block")))
    }

    #[inline]
    fn prepare<F: Flash, S: MapStore>(
        &mut self,
        flash: &mut F,
        map: &mut Map<S>,
        slot: Slot,
        lpn: Lpn,
        ppn: Ppn,
    ) -> Outcome<F> {
        match slot {
            Slot::Page(slot) => self.pages.prepare(flash, map, slot, lpn, ppn),
            // The run around the entry, and what is left of it on both sides.
            Slot::Block(_) => self.pages.make_room(flash, map, 3),
        }
    }

    #[inline]
    fn set(&mut self, slot: Slot, lpn: Lpn, ppn: Ppn) {
        let mut place = None;
        if let Some(blocks) = &mut self.blocks {
            blocks.detector.wrote(blocks.of(lpn).0);
            if let Slot::Block(slot) = slot {
                self.counts.reversions += 1;
                let first = blocks.cached.get(slot, blocks.of(lpn));
                blocks.cached.remove(slot);
                place = Some(self.pages.put_run(lpn, 1 << blocks.shift, first));
            }
        }
        if let Slot::Page(slot) = slot {
            place = Some(slot);
        }
        if let Some(slot) = place {
            self.pages.set(slot, lpn, ppn);
        }
    }

    fn absorb(&mut self, moves: &mut Vec<Entry>) {
        if let Some(blocks) = &mut self.blocks {
            moves.iter().for_each(|entry| blocks.forget(entry.lpn));
        }
        self.pages.absorb(moves);
    }

    #[inline(always)]
    fn was_read(&mut self, lpn: Lpn) -> Option<u32> {
        let blocks = self.blocks.as_mut()?;
        let block = blocks.of(lpn);
        let ready = blocks.detector.read(block.0);
        (ready && block.0 < blocks.count && blocks.cached.find(block).is_none()).then_some(block.0)
    }

    fn converted(&mut self, block: u32, first: Ppn, copied: bool) {
        *(if copied { &mut self.counts.conversions } else { &mut self.counts.in_place }) += 1;
        if let Some(blocks) = &mut self.blocks {
            let block = Lpn(block);
            blocks.lpns(block).for_each(|lpn| self.pages.forget(lpn));
            if let Some(slot) = blocks.cached.find(block) {
                blocks.cached.remove(slot);
            }
            blocks.insert(block, first);
        }
    }

    #[inline(always)]
    fn has_dirty(&self, tvpn: Tvpn) -> bool {
        self.pages.has_dirty(tvpn)
    }

    fn clean_page(&mut self, tvpn: Tvpn, out: &mut Vec<Entry>) {
        self.pages.clean_page(tvpn, out);
    }

    #[cold]
    fn soil(&mut self, entries: &[Entry]) {
        self.pages.soil(entries);
    }

    fn refresh(&mut self, lpn: Lpn, ppn: Ppn) {
        if let Some(blocks) = &mut self.blocks {
            blocks.forget(lpn);
        }
        self.pages.refresh(lpn, ppn);
    }

    fn restore(&mut self, group: &[Entry], entry: impl Fn(u32) -> u32) -> bool {
        self.pages.restore(group, entry)
    }

    #[inline(always)]
    fn prefetch(&self, lpn: Lpn) {
        self.pages.prefetch(lpn);
        if let Some(blocks) = &self.blocks {
            blocks.cached.prefetch(blocks.of(lpn));
        }
    }

    fn memory(&self) -> u64 {
        let blocks = |blocks: &Blocks| blocks.cached.memory() + blocks.detector.memory() + STATE_BYTES;
        self.pages.memory() + self.blocks.as_ref().map_or(0, blocks)
    }

    fn counters(&self, out: &mut Vec<(&'static str, u64)>) {
        let Counts { conversions, in_place, block_hits, range_hits, reversions } = self.counts;
        let own = [conversions, in_place, block_hits, range_hits, reversions];
        out.extend(COUNTERS.iter().zip(own).map(|(&(name, _), count)| (name, count)));
    }

    fn reset_counters(&mut self) {
        self.counts = Counts::default();
        self.pages.reset_counters();
    }

    fn audit(&self) -> Result<(), String> {
        if let Some(blocks) = &self.blocks {
            for block in (0..blocks.count).map(Lpn) {
                let Some(slot) = blocks.cached.find(block) else { continue };
                let first = blocks.cached.get(slot, block);
                if self.shape.geometry.offset_of(first) != 0 {
                    return Err(format!("logical block {block} is mapped to page {first}, which begins no block"));
                }
                if let Some(lpn) = blocks.lpns(block).find(|&lpn| self.pages.find(lpn).is_some()) {
                    return Err(format!("LPN {lpn} is cached by itself and in its block"));
                }
            }
        }
        self.pages.audit()
    }

    fn save(&self, out: &mut Saver) {
        self.pages.save(out);
        if let Some(blocks) = &self.blocks {
            blocks.cached.save(out);
            blocks.detector.save(out);
        }
    }

    fn load(&mut self, from: &mut Loader<'_>) {
        self.pages.load(from);
        if let Some(blocks) = &mut self.blocks {
            blocks.cached.load(from);
            blocks.detector.load(from);
        }
    }
}

#[cfg(test)]
mod tests;

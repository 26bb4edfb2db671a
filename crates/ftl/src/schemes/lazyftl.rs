//! `lazyftl`: a page map on flash that is corrected late, a block's worth of changes at a time.
//!
//! The problem: a demand-paged map needs an entry in RAM before it can change it, so that even a write may first read a
//! mapping page and write back another. LazyFTL's idea (Ma, Feng and Li 2011): do not touch the map when pages are
//! written, remember it. Flash is divided into areas. Host pages go to the *update area* (UBA), pages moved by
//! collections to the *cold area* (CBA), both small; everything else is the *data area* (DBA) and the *mapping area*
//! (MBA). An update mapping table (UMT) in RAM covers exactly the two small areas, so no write ever reads a mapping
//! page. When an area has its quota of blocks, one is *converted*: the mapping pages that its entries belong to are
//! written, together with all other entries of theirs that are new, and the block becomes a data block where it is: no
//! page is copied and nothing is erased.
//!
//! Because a write does not look at the map, the copy that it makes stale is not marked dead (lazy invalidation) if it
//! is in the data area. The UMT entry says so with the *invalid* flag, until a convert reads the old entry anyway or a
//! collection meets the page.
//!
//! ```text
//!            ┌─ UMT: newest copy of the pages in UBA and CBA, flags update and invalid
//!  LPN ──────┤
//!            └─ else GMT: directory[LPN / E] ─▶ mapping page (cached, or read from flash) ─▶ PPN
//!
//!  host ───▶ UBA ─┐ convert: mapping pages are written,          ┌─▶ collect: live pages ─▶ CBA, erase
//!                 ├─────────────────────────────────────▶ DBA ───┤
//!  moved ──▶ CBA ─┘ the block stays what and where it is         └─▶ pages that the UMT knows better are skipped
//! ```
//!
//! # Structures
//!
//! RAM: directory (GMD), 4 B for each mapping page; UMT, 8 B for each page of UBA and CBA and 16 B a block of theirs;
//! cached mapping pages, a page each with a tag and ⌈E/8⌉ B (the dirty bits of `parts/cache`, clear here); discarded
//! LPNs, 8 B each and 4 B a mapping page with some; live bits and block states as for `page`. Directory, UMT and cached
//! pages come out of `cache-bytes`: the UMT gets its quota, or what is left beside `mapping-pages` cached pages.
//! Flash: data blocks, and mapping pages of E = page size / 4 entries for every E logical pages.
//!
//! # Costs
//!
//! A host write is one program and its share of a convert, k reads and k programs for a block that touches k
//! mapping pages. A read is one read, and one more if neither the UMT nor a cached page knows the LPN. A collection
//! reads the spare areas of the pages that it believes live before it copies them, as the UMT may know better.
//!
//! # Space
//!
//! `parts/collector.rs` decides when a die collects, which blocks, and how the copies are dealt over time. Collecting a
//! data block with `v` live pages takes `v` pages of the cold area; its entries stay in RAM. If that opens a block and
//! the area is full, one of its blocks is converted first. A convert of cost k takes k mapping pages and kills the k
//! old ones. A host page that finds the update area full converts one of its blocks, too.
//!
//! Nothing that makes room creates a dead or stale data page. If no block of a die has a page that is known to be dead
//! and no more of its blocks are free than are kept, then blocks of the areas are converted, at last the mapping pages
//! are written whose stale pages only entries in open blocks know. After that every closed block is live throughout, so
//! all but the open blocks and the blocks of live pages are free, and `check` lets no device pass for which these are
//! fewer than `gc-low`, or than are kept, for each die. With bad blocks they may be: then the device is full and says
//! so. It can still be read, for a read takes no room.
//!
//! # Departures
//!
//! - Reconstructed, where the summaries at hand are silent: both areas have half of one quota; `age` counts blocks that
//!   were opened for them; the convert cost counts mapping pages with new entries; which pages are cached is LRU.
//! - Blocks on flash do not say which area they are in, and a mount does not convert the youngest `age` blocks again.
//!   It finds the entries that were lost with the UMT by the watermarks of the mapping pages (docs/recovery.md), puts
//!   them back, and converts only what is beyond the quota. `age` bounds how long an entry can stay in RAM.
//! - Striping over dies, one open block for each die and area; `net-gain`; TRIM: a discarded LPN is a UMT entry without
//!   a page, a long run of them is written at once.
//! - A collection reads a page's spare area before it copies it. A controller would see it in the page register and
//!   drop the copy; the two are told apart by the time of a spare-area read.

use crate::demand::parameters::{GC_LOW, VICTIMS};
use crate::parts;
use crate::parts::cache::{MappingCache, OrderKind};
use crate::parts::census::mount_through;
use crate::parts::collector::{self, Collects};
use crate::parts::lanes::Stream;
use crate::parts::space::{self, MOST_MOVED, Space, TranslationBlocks};
use crate::parts::supply;
use crate::parts::tombstones::{self, DURABLE_TRIM};
use crate::parts::translation::TranslationStore;
use crate::parts::wear_state;
use crate::{
    Build, Built, CacheCounters, ConfigError, Ftl, Group, Loader, MountReport, Outcome, Parameter, Scheme, Settings,
};
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use flash::{Block, Cause, FaultKind, Flash, FlashFault, Geometry, Lpn, Oob, Payload, Ppn};

mod areas;
mod collection;
mod discards;
mod inspect;
mod mapping;
mod mount;
mod table;
#[cfg(test)]
mod tests;

use table::{COLD, Entry, Table, UPDATED};

/// The row.
pub(super) static ROW: Scheme = Scheme {
    name: "lazyftl",
    summary: "page map on flash, corrected a block of changes at a time",
    paper: "{lazyftl}",
    essay: include_str!("lazyftl.rs"),
    own: &[CACHE_BYTES, QUOTA, AGE, MAPPING_PAGES, VICTIMS],
    parts: &[Group { rows: &space::collection(GC_LOW), ..space::COLLECTION }, supply::GROUP, tombstones::GROUP],
    fixed: &[],
    counters: &[&[
        ("converts", "blocks that became data blocks"),
        ("translation_updates", "mapping pages written, mostly by converts"),
        ("umt_peak", "most entries in the update table"),
        ("translation_loads", "mapping pages read for reads"),
        ("stale_found", "stale pages that collections met before a convert"),
        ("gc_data_victims", "data blocks collected"),
        ("gc_translation_victims", "mapping blocks collected"),
        ("gc_dead_victims", "blocks collected that held no live page"),
        ("gc_data_copies", "live data pages copied by collections"),
        ("gc_translation_copies", "live mapping pages copied by collections"),
    ]],
    phases: &[
        Cause::Host,
        Cause::TranslationUpdate,
        Cause::TranslationGc,
        Cause::DataGc,
        Cause::WearLevelling,
        Cause::Recovery,
    ],
    has_cache: true,
    keeps_data: true,
    state_version: 3,
};

/// `cache-bytes`.
const CACHE_BYTES: Parameter = Parameter::count("cache-bytes", 0, 0..=1 << 40)
    .unit("bytes")
    .text(
        "RAM for directory, update table and cached mapping pages together. More delays converts. 0 gives as \
         much as a block map of the device would take, or the least that works.",
    )
    .source("ftlab");

/// `quota`.
const QUOTA: Parameter = Parameter::real("quota", 0.02, 0.0001..=0.5)
    .unit("share")
    .text(
        "Most blocks in update and cold area together, as a share of all, as far as cache-bytes reach. More \
         converts later and in larger batches, and takes RAM from cached mapping pages.",
    )
    .source("{lazyftl} has quotas; the value is reconstructed");

/// `age`.
const AGE: Parameter = Parameter::count("age", 0, 0..=1 << 30)
    .unit("blocks")
    .text(
        "Convert a block once so many others were opened after it. More gives its pages time to be \
         overwritten. 0 stands for twice the quota.",
    )
    .source("reconstructed");

/// `mapping-pages`.
const MAPPING_PAGES: Parameter = Parameter::count("mapping-pages", 4, 1..=1 << 20)
    .unit("pages")
    .text(
        "Mapping pages cached for reads before the update table gets its whole quota. More speeds up reads \
         and converts sooner.",
    )
    .source("ftlab");

/// The write streams. Those of the areas have the numbers of the areas.
const HOST: Stream = UPDATED;
const MAPPING: Stream = Stream(2);

/// Mapping pages with discarded LPNs in the table alone, at the most, if discards are durable.
const MOST_DISCARDS: usize = 4;

#[derive(Clone, Copy, Default, Debug)]
struct Counters {
    cache: CacheCounters,
    converts: u64,
    loads: u64,
    updates: u64,
    stale_found: u64,
    data_victims: u64,
    dead_victims: u64,
    mapping_victims: u64,
    data_copies: u64,
    mapping_copies: u64,
}

/// See the module's description.
#[derive(Clone, Debug)]
pub struct LazyFtl {
    table: Table,
    /// Whole mapping pages, for reads. Never dirty.
    cache: MappingCache,
    store: TranslationStore,
    space: Space,
    /// The block last seen in each lane of the areas' streams.
    seen: [Vec<Option<Block>>; 2],
    logical_pages: u32,
    durable_trim: bool,
    /// Mapping pages with discarded LPNs in the table.
    trimmed: BTreeSet<u32>,
    /// Versions given so far.
    version: u64,
    /// The page that is about to be modified: its write is no access of its own.
    modifying: u32,
    counters: Counters,
    /// Scratch space of updates; empty between calls.
    entries: Vec<(u32, Entry)>,
    dead: Vec<Ppn>,
    /// The LPNs of a run of copies; means nothing between runs.
    moved: [u32; MOST_MOVED],
}

/// How `cache-bytes` is divided.
struct Plan {
    /// Blocks in each area, at the most.
    quotas: [u32; 2],
    age: u64,
    /// Mapping pages cached.
    pages: u32,
}

impl LazyFtl {
    fn plan(g: &Geometry, logical_pages: u32, settings: &Settings) -> Result<Plan, ConfigError> {
        let entries = g.entries_per_page();
        let mapping_pages = u64::from(logical_pages.div_ceil(entries));
        let directory = mapping_pages * 4;
        let page = MappingCache::bytes(1, entries, OrderKind::Lru);
        let block = Table::block_bytes(g.pages_per_block);
        // An open block for each die in each area; a collection may need a second one in the cold area.
        let dies = u64::from(g.die_count());
        let fewest = 2 * dies + 1;
        let least = directory + fewest * block + page;
        let asked = match settings.count(&CACHE_BYTES) {
            0 => (u64::from(logical_pages.div_ceil(g.pages_per_block)) * 4).max(least),
            bytes => bytes,
        };
        if asked < least {
            return Err(ConfigError {
                key: "cache-bytes",
                what: format!(
                    "{asked} bytes are too few: the directory takes {directory}, the update table at least {} and a \
                     mapping page {page}",
                    fewest * block
                ),
                fix: format!("give at least {least} bytes"),
            });
        }
        let wanted = (settings.real(&QUOTA) * f64::from(g.block_count())) as u64;
        let kept = settings.count(&MAPPING_PAGES).min(mapping_pages) * page;
        let affordable = (asked - directory).saturating_sub(kept) / block;
        let blocks = wanted.min(affordable).max(fewest);
        let pages = ((asked - directory - blocks * block) / page).min(mapping_pages);
        let cold = (blocks / 2).max(dies + 1);
        let age = match settings.count(&AGE) {
            0 => 2 * blocks,
            age => age,
        };
        Ok(Plan { quotas: [(blocks - cold) as u32, cold as u32], age, pages: pages as u32 })
    }

    /// Free blocks of a die that only collections open: one for moved pages, and those for the mapping pages of a
    /// convert and of discards.
    fn kept(g: &Geometry, logical_pages: u32, settings: &Settings) -> u32 {
        let mapping = logical_pages.div_ceil(g.entries_per_page());
        // One more than may be left pending, while it is noted.
        let discards = if settings.switch(&DURABLE_TRIM) { mapping.min(MOST_DISCARDS as u32 + 1) } else { 0 };
        1 + (mapping.min(g.pages_per_block) + discards).div_ceil(g.pages_per_block)
    }

    /// A plan for a device that is formatted: it has the blocks that the scheme keeps free.
    fn plan_with_room(g: &Geometry, logical_pages: u32, settings: &Settings) -> Result<Plan, ConfigError> {
        let plan = Self::plan(g, logical_pages, settings)?;
        let dies = g.die_count();
        let mapping = logical_pages.div_ceil(g.entries_per_page());
        let live = (u64::from(logical_pages) + u64::from(mapping)).div_ceil(u64::from(g.pages_per_block));
        let apart = wear_state::Options::from(settings).blocks_of_die(g);
        let free = collector::Options::from(settings).free(Self::kept(g, logical_pages, settings));
        let kept = (free + 3 + u64::from(apart)) * u64::from(dies);
        if u64::from(g.block_count()) < live + kept {
            return Err(ConfigError {
                key: "spare",
                what: format!(
                    "{logical_pages} logical pages and {mapping} mapping pages take {live} blocks, {kept} more are \
                     kept free or open on {dies} dies, and there are {}",
                    g.block_count()
                ),
                fix: space::more_spare(g, logical_pages, live + kept),
            });
        }
        Ok(plan)
    }

    fn blank(g: Geometry, logical_pages: u32, settings: &Settings, plan: &Plan) -> LazyFtl {
        let dies = g.die_count() as usize;
        let entries = g.entries_per_page();
        let kept = Self::kept(&g, logical_pages, settings);
        let mut space = Space::new(g, &settings.into(), &[dies; 3], kept);
        space.translation = Some(TranslationBlocks {
            stream: MAPPING,
            closed: Vec::new(),
            among_data: settings.word(&VICTIMS) == "plain",
        });
        LazyFtl {
            table: Table::new(g, logical_pages, plan.quotas, plan.age),
            cache: MappingCache::new(logical_pages, entries, entries, plan.pages, OrderKind::Lru),
            store: TranslationStore::new(logical_pages, entries, MAPPING),
            space,
            seen: [vec![None; dies], vec![None; dies]],
            logical_pages,
            durable_trim: settings.switch(&DURABLE_TRIM),
            trimmed: BTreeSet::new(),
            version: 0,
            modifying: u32::MAX,
            counters: Counters::default(),
            entries: Vec::new(),
            dead: Vec::new(),
            moved: [0; MOST_MOVED],
        }
    }
}

impl<F: Flash> Build<F> for LazyFtl {
    fn format(flash: &mut F, logical_pages: u32, settings: &Settings) -> Built<F, Self> {
        let g = *flash.geometry();
        let plan = Self::plan_with_room(&g, logical_pages, settings)?;
        wear_state::Options::from(settings).reserve(flash, 0)?;
        let mut lazy = LazyFtl::blank(g, logical_pages, settings, &plan);
        lazy.space.exclude_bad(flash)?;
        Ok(lazy)
    }

    fn mount(flash: &mut F, logical_pages: u32, settings: &Settings) -> Built<F, (Self, MountReport)> {
        // What was formatted is mounted, also where more would have to be spare today.
        let plan = Self::plan(flash.geometry(), logical_pages, settings)?;
        wear_state::Options::from(settings).reserve(flash, 0)?;
        Ok(mount_through(flash, |flash, report| {
            Self::mount_on(flash, logical_pages, settings, &plan, BTreeSet::new(), report)
        })?)
    }

    fn restore(geometry: &Geometry, logical_pages: u32, settings: &Settings, bytes: &[u8]) -> Self {
        let plan = Self::plan(geometry, logical_pages, settings).expect("the settings were accepted before");
        let mut lazy = LazyFtl::blank(*geometry, logical_pages, settings, &plan);
        let mut from = Loader::new(bytes);
        lazy.store.load(&mut from);
        lazy.cache.load(&mut from);
        lazy.table.load(&mut from);
        lazy.space = lazy.space.load(&mut from);
        lazy.see_lanes();
        let trimmed = from.u32();
        lazy.trimmed = (0..trimmed).map(|_| from.u32()).collect();
        lazy.version = from.u64();
        debug_assert!(from.is_done());
        lazy
    }
}

impl<F: Flash> Ftl<F> for LazyFtl {
    #[inline(always)]
    fn request(&mut self, _: Lpn, _: u32) {
        self.space.collector.beside.clear();
    }

    #[inline]
    fn read<'f>(&'f mut self, flash: &'f mut F, lpn: Lpn) -> Outcome<F, Option<&'f F::User>> {
        let Some(ppn) = self.translate(flash, lpn)? else { return Ok(None) };
        let (oob, data) = flash.read(ppn, Cause::Host)?;
        Ok(Some(parts::data_of(lpn, oob, data)?))
    }

    fn is_mapped(&self, lpn: Lpn) -> Option<bool> {
        let entry = self.table.get(lpn.0);
        if entry.is_present() {
            return Some(entry.page().is_some());
        }
        match self.cache.find(lpn) {
            Some(slot) => Some(self.cache.get(slot, lpn) != Ppn::NONE),
            None => (self.store.at(self.store.locate(lpn.0).0) == Ppn::NONE).then_some(false),
        }
    }

    fn read_to_modify<'f>(&'f mut self, flash: &'f mut F, lpn: Lpn) -> Outcome<F, Option<&'f F::User>> {
        let found = self.translate(flash, lpn)?;
        self.modifying = lpn.0;
        let Some(ppn) = found else { return Ok(None) };
        let (oob, data) = flash.read(ppn, Cause::Host)?;
        Ok(Some(parts::data_of(lpn, oob, data)?))
    }

    #[inline]
    fn write(&mut self, flash: &mut F, lpn: Lpn, data: &F::User) -> Outcome<F> {
        if self.is_behind(MAPPING) {
            self.catch_up(flash, MAPPING)?;
        }
        // A write needs no mapping page: its access is a hit.
        let counted = u64::from(self.modifying != lpn.0);
        self.modifying = u32::MAX;
        self.counters.cache.accesses += counted;
        self.counters.cache.hits += counted;
        self.space.blocks.clock += 1;
        self.version += 1;
        let to = loop {
            let to = match self.space.streams[HOST.index()].take_in_turn() {
                Some((to, _)) => to,
                None => self.next_page(flash)?,
            };
            let oob = Oob::data(lpn, self.version, self.space.number_for(flash, to));
            match flash.program(to, oob, Payload::User(data), Cause::Host) {
                Ok(()) => break to,
                Err(fault) if fault.kind() == FaultKind::ProgramFailed => self.space.abandon(to),
                Err(fault) => return Err(fault.into()),
            }
        };
        let old = self.table.put(lpn.0, to, false);
        if old.is_present()
            && let Some(page) = old.page()
        {
            self.space.blocks.kill(page);
        }
        let g = flash.geometry();
        self.space.collector.owe(g.die_of(g.block_of(to)));
        self.pay(flash)?;
        self.level_if_due(flash)
    }

    fn trim(&mut self, flash: &mut F, first: Lpn, count: u32) -> Outcome<F> {
        self.space.collector.beside.clear();
        let entries = flash.geometry().entries_per_page();
        let end = first.0 + count;
        let mut at = first.0;
        while at < end {
            let stop = end.min((at / entries + 1) * entries);
            self.trim_in_page(flash, at, stop - at)?;
            at = stop;
        }
        Ok(())
    }

    fn flush(&mut self, flash: &mut F) -> Outcome<F> {
        if !self.durable_trim || self.trimmed.is_empty() {
            return Ok(());
        }
        self.space.collector.beside.clear();
        self.write_discards_with_room(flash)
    }

    fn idle(&mut self, flash: &mut F, copies: u32) -> Outcome<F, bool> {
        self.space.collector.beside.clear();
        self.collect_ahead(flash, copies)
    }
}

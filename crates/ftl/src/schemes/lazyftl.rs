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
//! and fewer than three of its blocks are free, then blocks of the areas are converted, at last the mapping pages are
//! written whose stale pages only entries in open blocks know. After that every closed block is live throughout, so all
//! but the open blocks and the blocks of live pages are free, and `check` lets no device pass for which these are fewer
//! than `gc-low` for each die. With bad blocks they may be: then the device is full and says so. It can still be read,
//! for a read takes no room.
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
use crate::parts::cache::{MappingCache, OrderKind};
use crate::parts::collector::{self, Collects, Takes};
use crate::parts::lanes::Stream;
use crate::parts::space::{self, MOST_MOVED, Space, TranslationBlocks, lowest_bits};
use crate::parts::supply;
use crate::parts::tombstones::{self, DURABLE_TRIM};
use crate::parts::translation::TranslationStore;
use crate::{
    Build, BuildError, CacheCounters, ConfigError, Error, Ftl, Group, Inspect, Loader, MountReport, Parameter, Saver,
    Scheme, Settings,
};
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use flash::{
    Block, Cause, Collection, Die, FaultKind, Flash, FlashFault, Geometry, Kind, Lpn, Oob, Payload, Ppn, Tvpn,
};

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
    state_version: 2,
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

/// Free blocks of a die that only collections open: one for moved pages, one for the mapping pages of a convert.
const KEPT: u32 = 2;

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

    fn check(g: &Geometry, logical_pages: u32, settings: &Settings) -> Result<Plan, ConfigError> {
        let plan = Self::plan(g, logical_pages, settings)?;
        let dies = g.die_count();
        let mapping = logical_pages.div_ceil(g.entries_per_page());
        let live = (u64::from(logical_pages) + u64::from(mapping)).div_ceil(u64::from(g.pages_per_block));
        let kept = (collector::Options::from(settings).kept() + 3) * u64::from(dies);
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
        let mut space = Space::new(g, &settings.into(), &[dies; 3], KEPT);
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

    // ---- the map -----------------------------------------------------------------------------------------------

    /// Where an LPN's newest copy is, if anywhere.
    #[inline]
    fn translate<F: Flash>(&mut self, flash: &mut F, lpn: Lpn) -> Result<Option<Ppn>, Error<F::Fault>> {
        self.counters.cache.accesses += 1;
        let entry = self.table.get(lpn.0);
        if entry.is_present() {
            self.counters.cache.hits += 1;
            return Ok(entry.page());
        }
        let slot = match self.cache.find(lpn) {
            Some(slot) => {
                self.counters.cache.hits += 1;
                self.cache.hit(slot);
                slot
            }
            None => {
                let (tvpn, _) = self.store.locate(lpn.0);
                let at = self.store.at(tvpn);
                if at == Ppn::NONE {
                    return Ok(None);
                }
                if self.cache.is_full() {
                    let (victim, _) = self.cache.victim();
                    self.cache.remove(victim);
                }
                self.counters.loads += 1;
                let (_, content) = flash.read(at, Cause::TranslationLoad)?;
                self.cache.insert(lpn, |line| line.copy_from_slice(content.meta()))
            }
        };
        let ppn = self.cache.get(slot, lpn);
        Ok((ppn != Ppn::NONE).then_some(ppn))
    }

    /// Writes a mapping page with all that the table knows better, and without the LPNs in `discard`; the stale pages
    /// that it named die.
    fn settle<F: Flash>(
        &mut self,
        flash: &mut F,
        tvpn: Tvpn,
        discard: core::ops::Range<u32>,
    ) -> Result<(), Error<F::Fault>> {
        let LazyFtl { table, cache, store, space, entries, dead, counters, .. } = self;
        let mask = flash.geometry().entries_per_page() - 1;
        entries.clear();
        table.updates_of(tvpn, entries);
        store.update(flash, space, tvpn, true, Cause::TranslationUpdate, |words| {
            dead.clear();
            for &(lpn, entry) in entries.iter() {
                let old = core::mem::replace(&mut words[(lpn & mask) as usize], entry.word());
                if entry.is_invalid() && old != Ppn::NONE.0 {
                    dead.push(Ppn(old));
                }
            }
            for lpn in discard.clone() {
                let old = core::mem::replace(&mut words[(lpn & mask) as usize], Ppn::NONE.0);
                if old != Ppn::NONE.0 {
                    dead.push(Ppn(old));
                }
            }
        })?;
        counters.updates += 1;
        counters.cache.writebacks += 1;
        counters.cache.writeback_entries += entries.len() as u64;
        let cached = cache.find(Lpn(tvpn.0 * (mask + 1)));
        let round = table.begin_settling();
        for &(lpn, entry) in entries.iter() {
            table.settled(lpn, round);
            if let Some(slot) = cached {
                cache.set_clean(slot, Lpn(lpn), Ppn(entry.word()));
            }
        }
        for lpn in discard {
            if table.get(lpn).is_present() {
                table.remove(lpn);
            }
            if let Some(slot) = cached {
                cache.set_clean(slot, Lpn(lpn), Ppn::NONE);
            }
        }
        for &ppn in dead.iter() {
            space.blocks.kill(ppn);
        }
        self.trimmed.remove(&tvpn.0);
        Ok(())
    }

    // ---- the areas ---------------------------------------------------------------------------------------------

    /// After a stream may have opened blocks: they join the area, and the blocks that lanes let go stay out of the
    /// victims until they are converted.
    fn note_openings(&mut self, area: Stream) {
        for lane in self.space.streams[area.index()].all() {
            let (now, before) = (self.space.streams[area.index()].block(lane), self.seen[area.index()][lane.index()]);
            if now == before {
                continue;
            }
            if let Some(former) = before.filter(|block| !self.space.doomed.contains(block))
                && self.table.covers(former)
            {
                self.space.blocks.begin_collecting(former);
            }
            if let Some(block) = now {
                self.table.join(block, area);
            }
            self.seen[area.index()][lane.index()] = now;
        }
    }

    /// The block to convert next, of one area or of both, and the mapping pages that it takes.
    fn convertible(&mut self, area: Option<Stream>) -> Option<(Block, u32)> {
        let lanes = self.space.streams[..MAPPING.index()].iter();
        let open = lanes
            .flat_map(|lanes| lanes.all().filter(|&lane| lanes.room(lane) > 0).filter_map(|lane| lanes.block(lane)));
        let busy = open.chain(self.space.doomed.iter().copied());
        self.table.victim(area, &self.space.blocks, busy)
    }

    /// Turns a full block of an area into a data block, where it is.
    fn convert<F: Flash>(&mut self, flash: &mut F, block: Block) -> Result<(), Error<F::Fault>> {
        let g = *flash.geometry();
        let mut scope = Collection::on(flash);
        let live = |space: &Space, next: u32| space.blocks.next_live(block, next).map(|offset| g.page(block, offset));
        let mut next = 0;
        while let Some(ppn) = live(&self.space, next) {
            next = g.offset_of(ppn) + 1;
            if let Some(lpn) = self.table.lpn_at(ppn) {
                let (tvpn, word) = self.store.locate(lpn);
                let at = self.store.at(tvpn);
                if at != Ppn::NONE {
                    scope.hint(at, word);
                }
            }
        }
        next = 0;
        while let Some(ppn) = live(&self.space, next) {
            next = g.offset_of(ppn) + 1;
            if let Some(lpn) = self.table.lpn_at(ppn) {
                if self.table.get(lpn).is_update() {
                    self.settle(&mut *scope, self.store.locate(lpn).0, 0..0)?;
                }
                self.table.remove(lpn);
            }
        }
        self.counters.converts += 1;
        self.table.leave(block);
        // A full block that its lane still holds becomes a candidate when the lane lets it go.
        if self.space.streams[..MAPPING.index()].iter().all(|lanes| lanes.lane_of(block).is_none()) {
            self.space.blocks.stop_collecting(block);
        }
        Ok(())
    }

    /// The lane in turn has no room: a block for the host, after a convert if the area is full.
    #[cold]
    #[inline(never)]
    fn next_page<F: Flash>(&mut self, flash: &mut F) -> Result<Ppn, Error<F::Fault>> {
        while self.table.is_full(UPDATED)
            && let Some((block, cost)) = self.convertible(Some(UPDATED))
        {
            self.secure(flash, MAPPING, cost)?;
            self.convert(flash, block)?;
            if self.is_behind(MAPPING) {
                self.catch_up(flash, MAPPING)?;
            }
        }
        let turn = self.space.streams[HOST.index()].turn();
        let lane = self.refill_if_can(flash, HOST, turn)?;
        let to = self.space.page_on(flash, HOST, lane);
        self.note_openings(UPDATED);
        self.space.streams[HOST.index()].advance();
        to
    }

    // ---- collection --------------------------------------------------------------------------------------------

    /// Mapping pages that must be written before an erase.
    fn discards(&self) -> u32 {
        if self.durable_trim { self.trimmed.len() as u32 } else { 0 }
    }

    /// Whether moving so many pages within a die takes a block that the cold area has no place for.
    fn overflows(&self, die: Die, pages: u32) -> bool {
        self.table.is_full(COLD) && self.space.room_on(COLD, die) < pages
    }

    /// Moves up to `limit` live data pages of a block to the cold area, from page `next` on; the page to go on from, or
    /// `None` at the end. Those that the table knows better are dead.
    fn move_data<F: Flash>(
        &mut self,
        flash: &mut F,
        victim: Block,
        (mut next, limit): (u32, u32),
        cause: Cause,
    ) -> Result<Option<u32>, Error<F::Fault>> {
        let g = *flash.geometry();
        let die = g.die_of(victim);
        let mut left = limit;
        while let Some((first, bits)) = self.space.blocks.live_word(victim, next) {
            if left == 0 {
                return Ok(Some(first));
            }
            let from = g.page(victim, first);
            let bits = lowest_bits(bits, left);
            next = first + 64 - bits.leading_zeros();
            let mut rest = bits & !self.find_stale(flash, from, bits, cause)?;
            left -= rest.count_ones();
            while rest != 0 {
                let LazyFtl { table, moved, .. } = self;
                let run = self.space.move_run(flash, COLD, die, (from, rest), cause, |i, lpn| {
                    table.prefetch(lpn);
                    moved[i % MOST_MOVED] = lpn;
                });
                self.note_openings(COLD);
                let run = run?;
                self.counters.data_copies += if cause == Cause::DataGc { run.to.len() as u64 } else { 0 };
                // A block that was opened for this run and failed in it is in no lane any more.
                let block = g.block_of(Ppn(run.to.start));
                if !run.to.is_empty() && !self.table.covers(block) {
                    self.table.join(block, COLD);
                }
                for (&lpn, to) in self.moved.iter().zip(run.to) {
                    self.table.put(lpn, Ppn(to), true);
                }
                run.result?;
                rest &= !run.moved;
            }
        }
        Ok(None)
    }

    /// Of the live pages whose bits are set, counted from page `from` on, those that the table knows better die; their
    /// bits.
    fn find_stale<F: Flash>(
        &mut self,
        flash: &mut F,
        from: Ppn,
        bits: u64,
        cause: Cause,
    ) -> Result<u64, Error<F::Fault>> {
        if !self.table.any_invalid() {
            return Ok(0);
        }
        let mut lpns = [0; MOST_MOVED];
        let mut rest = bits;
        while rest != 0 {
            let bit = rest.trailing_zeros();
            rest &= rest - 1;
            // Whatever is not a host page is found out by the copy.
            let oob = flash.read_oob(Ppn(from.0 + bit), cause)?;
            lpns[bit as usize] = oob.filter(|oob| oob.kind == Kind::Data).map_or(u32::MAX, |oob| oob.address);
            if let Some(oob) = oob {
                self.table.prefetch(oob.address);
            }
        }
        let mut stale = 0u64;
        rest = bits;
        while rest != 0 {
            let bit = rest.trailing_zeros();
            rest &= rest - 1;
            let lpn = lpns[bit as usize];
            if lpn < self.logical_pages {
                let entry = self.table.get(lpn);
                if entry.is_present() && !entry.is_at(Ppn(from.0 + bit)) {
                    self.table.found_stale(lpn);
                    stale |= 1 << bit;
                }
            }
        }
        self.counters.stale_found += u64::from(stale.count_ones());
        self.space.blocks.kill_word(from, stale);
        Ok(stale)
    }

    /// Writes the mapping pages of the discarded LPNs in the table.
    fn write_discards<F: Flash>(&mut self, flash: &mut F) -> Result<(), Error<F::Fault>> {
        while let Some(&tvpn) = self.trimmed.first() {
            self.settle(flash, Tvpn(tvpn), 0..0)?;
        }
        Ok(())
    }

    // ---- host operations ---------------------------------------------------------------------------------------

    /// Whether any of these LPNs of a mapping page is mapped; reads the page if the table does not tell.
    fn maps_any<F: Flash>(
        &mut self,
        flash: &mut F,
        tvpn: Tvpn,
        lpns: core::ops::Range<u32>,
    ) -> Result<bool, Error<F::Fault>> {
        let entry = |lpn: u32| Some(self.table.get(lpn)).filter(|entry| entry.is_present());
        if lpns.clone().filter_map(entry).any(|entry| entry.page().is_some()) {
            return Ok(true);
        }
        let at = self.store.at(tvpn);
        if at == Ppn::NONE || lpns.clone().all(|lpn| entry(lpn).is_some()) {
            return Ok(false);
        }
        self.counters.loads += 1;
        let (_, content) = flash.read(at, Cause::TranslationLoad)?;
        let stored = &content.meta()[self.store.locate(lpns.start).1..];
        Ok(lpns.zip(stored).any(|(lpn, &ppn)| ppn != Ppn::NONE.0 && entry(lpn).is_none()))
    }

    fn trim_in_page<F: Flash>(&mut self, flash: &mut F, first: u32, count: u32) -> Result<(), Error<F::Fault>> {
        let (tvpn, _) = self.store.locate(first);
        // Before it was ever written, a mapping page names nothing.
        let unwritten = self.store.at(tvpn) == Ppn::NONE;
        let lpns = first..first + count;
        if count > 8 {
            if !self.maps_any(flash, tvpn, lpns.clone())? {
                return Ok(());
            }
            if self.is_behind(MAPPING) {
                self.catch_up(flash, MAPPING)?;
            }
            return self.settle(flash, tvpn, lpns);
        }
        // As with writes, the map is corrected later.
        for lpn in lpns {
            let entry = self.table.get(lpn);
            match entry.page() {
                Some(page) if entry.is_present() => self.space.blocks.kill(page),
                Some(_) if !unwritten => {}
                _ => continue,
            }
            self.table.discard(lpn);
            self.trimmed.insert(tvpn.0);
        }
        // Few enough are left that the table has a bound, and a collection room to write those that must go first.
        let most = self.space.blocks.geometry().pages_per_block;
        if self.table.discarded() > most || self.durable_trim && self.trimmed.len() > MOST_DISCARDS {
            if self.is_behind(MAPPING) {
                self.catch_up(flash, MAPPING)?;
            }
            self.write_discards(flash)?;
        }
        Ok(())
    }
}

impl Collects for LazyFtl {
    #[inline(always)]
    fn space(&self) -> &Space {
        &self.space
    }

    #[inline(always)]
    fn space_mut(&mut self) -> &mut Space {
        &mut self.space
    }

    fn takes(&self, block: Block) -> Takes {
        let live = self.space.blocks.live_of(block);
        let g = self.space.blocks.geometry();
        if self.space.is_translation(block) {
            return Takes { moved: (MAPPING, live), told: (MAPPING, self.discards()) };
        }
        let converts = self.overflows(g.die_of(block), live);
        let convert = if converts { g.pages_per_block.min(self.store.count()) } else { 0 };
        Takes { moved: (COLD, live), told: (MAPPING, convert + self.discards()) }
    }

    fn prepare<F: Flash>(&mut self, flash: &mut F, block: Block) -> Result<(), Error<F::Fault>> {
        // An erase may take the newest copy of a discarded page while older ones are left: its discard goes first.
        if self.durable_trim {
            self.write_discards(flash)?;
        }
        let die = flash.geometry().die_of(block);
        while !self.space.is_translation(block)
            && self.overflows(die, self.space.blocks.live_of(block))
            && let Some((full, _)) = self.convertible(Some(COLD))
        {
            self.convert(flash, full)?;
        }
        Ok(())
    }

    fn move_out<F: Flash>(
        &mut self,
        flash: &mut F,
        block: Block,
        next: u32,
        limit: u32,
        cause: Option<Cause>,
    ) -> Result<Option<u32>, Error<F::Fault>> {
        if !self.space.is_translation(block) {
            return self.move_data(flash, block, (next, limit), cause.unwrap_or(Cause::DataGc));
        }
        let told = cause.unwrap_or(Cause::TranslationGc);
        let moved = self.store.empty(flash, &mut self.space, block, limit, told)?;
        self.counters.mapping_copies += if cause.is_none() { moved } else { 0 };
        Ok(self.space.blocks.next_live(block, 0))
    }

    fn tell<F: Flash>(&mut self, _: &mut F, _: Block, _: u32, _: Option<Cause>) -> Result<bool, Error<F::Fault>> {
        // The table knows.
        Ok(true)
    }

    fn count_victim(&mut self, block: Block) {
        if self.space.is_translation(block) {
            self.counters.mapping_victims += 1;
        } else {
            self.counters.data_victims += 1;
        }
    }

    /// With no victim and little room: what may show that more pages are dead.
    #[cold]
    fn reveal<F: Flash>(&mut self, flash: &mut F, die: Die) -> Result<bool, Error<F::Fault>> {
        let free = self.space.blocks.free_in(die);
        if free > KEPT {
            return Ok(false);
        }
        let here = Block(self.space.blocks.range(die).start);
        let fits = |lazy: &Self, pages| lazy.space.blocks_for(MAPPING, die, pages + lazy.discards()) <= free;
        if let Some((block, cost)) = self.convertible(None) {
            let fits = fits(self, cost);
            return if fits {
                self.at_home(flash, here, |lazy, flash| lazy.convert(flash, block)).map(|()| true)
            } else {
                Ok(false)
            };
        }
        match self.table.first_invalid().filter(|_| fits(self, 1)) {
            Some(tvpn) => self.at_home(flash, here, |lazy, flash| lazy.settle(flash, tvpn, 0..0)).map(|()| true),
            None => Ok(false),
        }
    }

    fn leave(&mut self, block: Block) {
        if self.table.covers(block) {
            self.table.leave(block);
        }
    }

    fn may_level(&self, _: Block) -> bool {
        // Discards that are to be written before an erase would take room of their own.
        self.discards() == 0
    }
}

impl<F: Flash> Build<F> for LazyFtl {
    fn format(flash: &mut F, logical_pages: u32, settings: &Settings) -> Result<Self, BuildError<F::Fault>> {
        let g = *flash.geometry();
        let plan = Self::check(&g, logical_pages, settings)?;
        let mut lazy = LazyFtl::blank(g, logical_pages, settings, &plan);
        lazy.space.exclude_bad(flash)?;
        Ok(lazy)
    }

    fn mount(
        flash: &mut F,
        logical_pages: u32,
        settings: &Settings,
    ) -> Result<(Self, MountReport), BuildError<F::Fault>> {
        let plan = Self::check(flash.geometry(), logical_pages, settings)?;
        Ok(Self::mount_on(flash, logical_pages, settings, &plan, BTreeSet::new())?)
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
    #[inline]
    fn read<'f>(&'f mut self, flash: &'f mut F, lpn: Lpn) -> Result<Option<&'f F::User>, Error<F::Fault>> {
        let Some(ppn) = self.translate(flash, lpn)? else { return Ok(None) };
        let (_, data) = flash.read(ppn, Cause::Host)?;
        Ok(Some(data.user()))
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

    fn read_to_modify<'f>(&'f mut self, flash: &'f mut F, lpn: Lpn) -> Result<Option<&'f F::User>, Error<F::Fault>> {
        let found = self.translate(flash, lpn)?;
        self.modifying = lpn.0;
        let Some(ppn) = found else { return Ok(None) };
        let (_, data) = flash.read(ppn, Cause::Host)?;
        Ok(Some(data.user()))
    }

    #[inline]
    fn write(&mut self, flash: &mut F, lpn: Lpn, data: &F::User) -> Result<(), Error<F::Fault>> {
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
            let oob = Oob::data(lpn, self.version, self.space.number());
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

    fn trim(&mut self, flash: &mut F, first: Lpn, count: u32) -> Result<(), Error<F::Fault>> {
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

    fn flush(&mut self, flash: &mut F) -> Result<(), Error<F::Fault>> {
        if !self.durable_trim || self.trimmed.is_empty() {
            return Ok(());
        }
        if self.is_behind(MAPPING) {
            self.catch_up(flash, MAPPING)?;
        }
        self.write_discards(flash)
    }

    fn idle(&mut self, flash: &mut F, copies: u32) -> Result<bool, Error<F::Fault>> {
        self.collect_ahead(flash, copies)
    }
}

impl<F: Flash> Inspect<F> for LazyFtl {
    #[inline(always)]
    fn hint(&self, lpn: Lpn) {
        self.table.prefetch(lpn.0);
    }

    #[inline(always)]
    fn hint_soon(&self, lpn: Lpn) {
        let entry = self.table.get(lpn.0);
        if let Some(page) = entry.page().filter(|_| entry.is_present()) {
            self.space.blocks.prefetch(page);
        }
    }

    fn memory(&self) -> Vec<(&'static str, u64)> {
        let mut out = vec![
            ("translation directory", self.store.memory()),
            ("mapping cache", self.cache.memory()),
            ("update mapping table", self.table.memory()),
        ];
        out.extend(self.space.memory());
        let discarded = 8 + u64::from(self.table.discarded()) * 8 + self.trimmed.len() as u64 * 4;
        out.push(("discarded entries", discarded));
        out.push(("counters", 24));
        out
    }

    fn cache(&self) -> Option<CacheCounters> {
        Some(self.counters.cache)
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let c = &self.counters;
        vec![
            ("converts", c.converts),
            ("translation_updates", c.updates),
            ("umt_peak", u64::from(self.table.peak())),
            ("translation_loads", c.loads),
            ("stale_found", c.stale_found),
            ("gc_data_victims", c.data_victims),
            ("gc_translation_victims", c.mapping_victims),
            ("gc_data_copies", c.data_copies),
            ("gc_translation_copies", c.mapping_copies),
        ]
    }

    fn reset_counters(&mut self) {
        self.counters = Counters::default();
        self.table.reset_peak();
    }

    fn erase_counts(&self) -> &[u32] {
        self.space.blocks.erase_counts()
    }

    fn free_blocks(&self) -> u32 {
        self.space.blocks.free_total()
    }

    fn audit(&self, flash: &mut F) -> Result<(), String> {
        let g = *flash.geometry();
        let failed = |fault: F::Fault| format!("{fault:?}");
        self.table.audit()?;
        let mut expected = vec![0u32; g.block_count() as usize];
        for tvpn in (0..self.store.count()).map(Tvpn) {
            let at = self.store.at(tvpn);
            let first = tvpn.0 * g.entries_per_page();
            let range = first..self.logical_pages.min(first.saturating_add(g.entries_per_page()));
            let mut words = vec![Ppn::NONE.0; g.entries_per_page() as usize];
            if at != Ppn::NONE {
                let (oob, content) = flash.read(at, Cause::Recovery).map_err(failed)?;
                if oob.kind != Kind::Translation || oob.tvpn() != tvpn || !self.space.blocks.is_live(at) {
                    return Err(format!("the directory finds mapping page {tvpn} at {at}, which holds {oob:?}"));
                }
                words.copy_from_slice(content.meta());
                expected[g.block_of(at).index()] += 1;
            }
            for lpn in range {
                let word = Ppn(words[(lpn - first) as usize]);
                if let Some(slot) = self.cache.find(Lpn(lpn))
                    && self.cache.get(slot, Lpn(lpn)) != word
                {
                    return Err(format!("LPN {lpn} is cached other than its mapping page says, {word}"));
                }
                let entry = self.table.get(lpn);
                if entry.is_present() && !entry.is_update() && entry.word() != word.0 {
                    return Err(format!("LPN {lpn} has the entry {entry:?}, its mapping page says {word}"));
                }
                // What the mapping page names is the LPN's page, or stale and not yet dead, or gone.
                if word != Ppn::NONE && (!entry.is_update() || entry.is_invalid()) {
                    self.space.audit_page(flash, Lpn(lpn), word, &mut expected)?;
                }
                if let Some(page) = entry.page().filter(|_| entry.is_update()) {
                    self.space.audit_page(flash, Lpn(lpn), page, &mut expected)?;
                }
            }
        }
        self.space.audit_counts(expected)
    }

    fn save(&self) -> Vec<u8> {
        let mut out = Saver::default();
        self.store.save(&mut out);
        self.cache.save(&mut out);
        self.table.save(&mut out);
        self.space.save(&mut out);
        out.u32(self.trimmed.len() as u32);
        self.trimmed.iter().for_each(|&tvpn| out.u32(tvpn));
        out.u64(self.version);
        out.finish()
    }
}

impl LazyFtl {
    /// After loading or mounting: the blocks that the lanes hold.
    fn see_lanes(&mut self) {
        for (seen, lanes) in self.seen.iter_mut().zip(&self.space.streams) {
            *seen = lanes.all().map(|lane| lanes.block(lane)).collect();
        }
    }
}

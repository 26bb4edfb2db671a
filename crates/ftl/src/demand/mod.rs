//! The demand-paged engine: a page map on flash, of which a cache holds what is in use.
//!
//! A scheme of this family is a mapping cache ([`cache::Cache`]) over a translation store ([`map::MapStore`]);
//! everything else is here: host pages, space, collection, mounting. The papers differ in what a cache line is and who
//! is evicted, and in how a translation page takes changes; a combination that none of them tried is a type and a row.
//!
//! ```text
//!            ┌──────── cache ────────┐  fetch: evict, load   ┌──────── map ─────────┐
//!  LPN ─▶ find ─hit─▶ PPN            ├──────────────────────▶│ store: where pages   │──▶ translation blocks
//!            │ set (dirty)           │  write back: update   │ are, how they change │
//!            └───────────────────────┘                       │ space ───────────────┼──▶ data blocks
//!                    ▲ absorb (lazy copying)                 └──────────────────────┘
//!                    └──────────────── collection ───────────────────┘
//! ```
//!
//! When collection moves data pages, the cached entries only change in the cache (lazy copying, the DFTL paper, section
//! 3.3); the others are grouped by translation page and written, one update for each (batch update).
//!
//! # Space
//!
//! `parts/collector.rs` decides when a die collects, which blocks, and how the work is dealt over time. Collecting a
//! data block with `v` live pages takes `v` data pages and at most `k` translation pages of its die, the number that
//! the moved entries lie in (a cache absorbs moved entries without writing anything); it kills `k` translation pages,
//! wherever they are. Collecting a translation block with `w` live pages takes `w`, and kills none. So translation
//! pages gather on the dies whose data was moved last, and leave them when data is moved elsewhere; there are few of
//! them.
//!
//! The map changes in evictions, too. They take translation pages from what is open or kept free, and the test for room
//! comes before the next host page ([`Cache::most_updates`] says how much may have been taken by then); with
//! `gc-in-evictions` it comes before the update itself, as in the released FlashSim, and with a cache of the whole map
//! not at all, as there are no evictions. Where what one host page may take could open the last free blocks, the test
//! comes before that page in any case. A host page tests the block that it goes to in any case; where its next block
//! would leave no more than a collection needs, it opens the map's first block of a die before.
//!
//! While a collection is spread, translation pages do not know of the pages that it has moved so far:
//! `demand/moves.rs`.
//!
//! A conversion (`convert.rs`) takes as many pages as it kills, and is begun only if that leaves all of this room.
//!
//! With `ecc`, a policy says in which mode each host page is programmed, and a read may order that its page be written
//! anew (parts/ecc.rs): a rewrite takes room as a host write does, and changes the entry that the read has cached.
//! Translation pages are programmed in normal mode.
//!
//! Departures that all schemes of the family share: striping over dies; `net-gain` (the papers' rule is
//! `victims = plain`); the watermark and everything else that lets them be mounted from flash (docs/recovery.md); TRIM.

pub(crate) mod cache;
mod collect;
mod convert;
pub(crate) mod lines;
pub(crate) mod logged;
pub(crate) mod map;
mod mount;
pub(crate) mod moves;
pub(crate) mod out_of_place;
pub(crate) mod parameters;
#[cfg(test)]
pub(crate) mod testing;

use crate::parts;
use crate::parts::census::mount_through;
use crate::parts::collector::Collects;
use crate::parts::ecc::Ecc;
use crate::parts::lanes::{Lane, Stream};
use crate::parts::space::{Space, TranslationBlocks, more_spare};
use crate::parts::wear_state;
use crate::{
    Build, Built, CacheCounters, ConfigError, Error, Ftl, Inspect, Loader, MountReport, Outcome, Saver, Settings,
};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use cache::{Cache, Entry, Shape};
use flash::{
    Block, Cause, Collection, Die, FaultKind, Flash, FlashFault, Geometry, Kind, Lpn, Mode, Oob, Payload, Ppn, Store,
    Tvpn,
};
use map::{Counters, Map, MapStore, TranslationPage, Update};
use moves::Moves;
use parameters::Options;

/// The write stream of data pages, the host's and the collected ones.
pub(crate) const DATA: Stream = Stream(0);
/// The write stream of translation pages.
pub(crate) const TRANSLATION: Stream = Stream(1);

/// No logical block.
const NO_BLOCK: u32 = u32::MAX;

/// Translation pages with discarded entries in the cache alone, at the most, if discards are durable.
const MOST_DISCARDS: usize = 4;

/// Pages of a discarded run up to which it goes through the cache, as writes do.
const SHORT_DISCARD: u32 = 8;

/// See the module's description.
#[derive(Clone, Debug)]
pub struct Demand<C, S> {
    cache: C,
    map: Map<S>,
    shape: Shape,
    gc_fold: bool,
    gc_in_evictions: bool,
    /// Consecutive LPNs that stay on a die, and how far the present run of them has got.
    stripe: u32,
    run: (u32, u32),
    /// When each lane of the host's stream took a page last, if there are several for a die; and the time.
    lane_used: Vec<u64>,
    lane_clock: u64,
    /// Versions given so far.
    version: u64,
    /// The logical block that is to be converted, the stream that this goes to, and where the host's stream stood in
    /// each die when a block was converted there last.
    pending: u32,
    converted: Stream,
    followed: Vec<u32>,
    /// The page that is about to be modified: its next look-up is no access.
    modifying: u32,
    /// Entries that a mount found and could neither keep in the cache nor write, for lack of blocks alone.
    overdue: BTreeMap<u32, u32>,
    /// Scratch space of collections and updates; empty between calls.
    moved: Vec<Entry>,
    entries: Vec<Entry>,
    places: Vec<u32>,
}

/// How a device's RAM is shared out.
struct Plan<C, S> {
    options: Options,
    store: S,
    shape: Shape,
    cache: C,
}

impl<C: Cache, S: MapStore> Plan<C, S> {
    /// Pages that a translation block holds.
    fn translation_block_pages(&self) -> u32 {
        let g = &self.shape.geometry;
        if self.store.is_slc() { g.slc_pages() } else { g.pages_per_block }
    }

    /// Free blocks of a die that only collections open: one to move data to, and those that translation pages may take.
    /// These are of a collected block with a dead page and of the discards that go first, or of evictions between two
    /// tests.
    fn kept(&self) -> u32 {
        let count = self.store.count();
        // One more than may be left pending, while it is noted.
        let discards = if self.options.durable_trim { count.min(MOST_DISCARDS as u32 + 1) } else { 0 };
        let told = count.min(self.shape.geometry.pages_per_block - 1) + discards;
        1 + told.max(self.cache.most_updates()).div_ceil(self.translation_block_pages())
    }
}

impl<C: Cache, S: MapStore> Demand<C, S> {
    fn plan(g: &Geometry, logical_pages: u32, settings: &Settings) -> Result<Plan<C, S>, ConfigError> {
        let (options, cache) = (Options::from(settings), C::Options::from(settings));
        let store = S::new(g, logical_pages, TRANSLATION, &settings.into())?;
        if store.is_slc() && options.among_data {
            return Err(ConfigError {
                key: "victims",
                what: "one policy over all blocks cannot weigh blocks in SLC mode, which hold fewer pages".into(),
                fix: "use victims=net-gain, or translation-mode=native".into(),
            });
        }
        let shape = Shape { logical_pages, page_entries: store.page_entries(), geometry: *g };
        let directory = store.memory();
        let least = directory + C::least_bytes(&shape, &cache)?;
        let asked = match options.cache_bytes {
            0 => (u64::from(logical_pages.div_ceil(g.pages_per_block)) * 4).max(least),
            bytes => bytes,
        };
        if asked < least {
            return Err(ConfigError {
                key: "cache-bytes",
                what: format!(
                    "a cache of {asked} bytes is too small: the directory takes {directory}, and {} {}",
                    C::LEAST,
                    least - directory
                ),
                fix: format!("give at least {least} bytes"),
            });
        }
        let cache = C::new(&shape, &cache, asked - directory);
        Ok(Plan { options, store, shape, cache })
    }

    /// A plan for a device that is formatted: it has the blocks that the scheme keeps free.
    fn plan_with_room(g: &Geometry, logical_pages: u32, settings: &Settings) -> Result<Plan<C, S>, ConfigError> {
        let plan = Self::plan(g, logical_pages, settings)?;
        let Options { data_blocks, space, .. } = plan.options;
        let dies = g.die_count();
        let translation = plan.store.count();
        let held = u64::from(plan.translation_block_pages());
        let blocks = |pages: u32, held: u64| u64::from(pages).div_ceil(held);
        let live = blocks(logical_pages, u64::from(g.pages_per_block)) + blocks(translation, held);
        let streams = 1 + u64::from(data_blocks);
        let apart = u64::from(space.supply.wear_state.blocks_of_die(g));
        let free = (space.collector.free(plan.kept()) + 1 + apart) * u64::from(dies);
        let kept = free + streams * u64::from(dies);
        if u64::from(g.block_count()) < live + kept {
            return Err(ConfigError {
                key: "spare",
                what: format!(
                    "{logical_pages} logical pages and {translation} translation pages take {live} blocks, {kept} more \
                     are kept free or open on {dies} dies, and there are {}",
                    g.block_count()
                ),
                fix: more_spare(g, logical_pages, live + kept),
            });
        }
        Ok(plan)
    }

    fn blank(plan: Plan<C, S>) -> Self {
        let kept = plan.kept();
        let Plan { options, store, shape, cache } = plan;
        let g = shape.geometry;
        let dies = g.die_count() as usize;
        let open = options.data_blocks as usize;
        let mut lanes = vec![dies; 2 + usize::from(C::CONVERTS)];
        lanes[DATA.index()] *= open;
        let mut space = Space::new(g, &options.space, &lanes, kept);
        let spread = if space.collector.is_spread() { g.pages_per_block } else { 0 };
        space.translation =
            Some(TranslationBlocks { stream: TRANSLATION, closed: Vec::new(), among_data: options.among_data });
        if store.is_slc() {
            space.set_slc(TRANSLATION);
        }
        space.ecc = Ecc::of(&options.ecc, &g, shape.logical_pages);
        Demand {
            cache,
            map: Map {
                store,
                space,
                moves: Moves::new(g.die_count(), spread),
                durable_trim: options.durable_trim,
                trimmed: BTreeSet::new(),
                counters: Counters::default(),
            },
            shape,
            gc_fold: options.gc_fold,
            gc_in_evictions: options.gc_in_evictions,
            stripe: options.stripe,
            run: (u32::MAX, 0),
            lane_used: vec![0; if open == 1 { 0 } else { dies * open }],
            lane_clock: 0,
            version: 0,
            pending: NO_BLOCK,
            converted: Stream(2),
            followed: vec![0; if C::CONVERTS { dies } else { 0 }],
            modifying: u32::MAX,
            overdue: BTreeMap::new(),
            moved: Vec::new(),
            entries: Vec::new(),
            places: Vec::new(),
        }
    }

    // ---- the map -----------------------------------------------------------------------------------------------

    /// The cached entry of an LPN, loaded if need be (the DFTL paper, algorithm 1).
    #[inline]
    fn translate<F: Flash>(&mut self, flash: &mut F, lpn: Lpn) -> Outcome<F, C::Slot> {
        let counted = self.modifying != lpn.0;
        self.modifying = u32::MAX;
        self.map.counters.cache.accesses += u64::from(counted);
        if let Some(slot) = self.cache.find(lpn) {
            self.map.counters.cache.hits += u64::from(counted);
            return self.cache.promote(flash, &mut self.map, slot, lpn);
        }
        self.cache.fetch(flash, &mut self.map, lpn)
    }

    /// Looking up a page may evict and so write translation pages: tests for room as FlashSim does, if that is asked
    /// for.
    #[inline(always)]
    fn prepare_eviction<F: Flash>(&mut self, flash: &mut F, lpn: Lpn) -> Outcome<F> {
        if self.gc_in_evictions
            && self.is_short(TRANSLATION)
            && self.cache.find(lpn).is_none()
            && self.cache.is_write_due()
        {
            let turn = self.map.space.streams[TRANSLATION.index()].turn();
            self.make_room(flash, turn.die(&self.shape.geometry))?;
        }
        Ok(())
    }

    /// Writes all dirty entries of a translation page into it, also when there are none.
    fn settle<F: Flash>(&mut self, flash: &mut F, tvpn: Tvpn, cause: Cause) -> Outcome<F> {
        let mut entries = core::mem::take(&mut self.entries);
        self.cache.clean_page(tvpn, &mut entries);
        let written = self.write_entries(flash, tvpn, &entries, cause);
        entries.clear();
        self.entries = entries;
        written
    }

    /// Writes entries into their translation page. They are clean in the cache already.
    fn write_entries<F: Flash>(&mut self, flash: &mut F, tvpn: Tvpn, entries: &[Entry], cause: Cause) -> Outcome<F> {
        let all = !self.cache.has_dirty(tvpn);
        let written = self.map.update(flash, tvpn, entries, all, cause);
        if written.is_err() {
            self.cache.soil(entries);
        }
        written
    }

    /// Writes the entries that a mount could not write. These may lie in more translation pages than free blocks take.
    #[cold]
    fn write_overdue<F: Flash>(&mut self, flash: &mut F) -> Outcome<F> {
        while let Some((&lpn, _)) = self.overdue.first_key_value() {
            self.gather_translation_pages(flash)?;
            let (tvpn, _) = self.map.store.locate(lpn);
            let group: Vec<Entry> = self
                .overdue
                .range(self.shape.lpns(tvpn))
                .map(|(&lpn, &ppn)| Entry { lpn: Lpn(lpn), ppn: Ppn(ppn) })
                .collect();
            let all = !self.cache.has_dirty(tvpn);
            self.map.update(flash, tvpn, &group, all, Cause::Recovery)?;
            group.iter().for_each(|entry| _ = self.overdue.remove(&entry.lpn.0));
        }
        Ok(())
    }

    /// Where the next translation page may open a block that is kept for collections, collects blocks of translation
    /// pages on its die: these move without any entry of a host page.
    fn gather_translation_pages<F: Flash>(&mut self, flash: &mut F) -> Outcome<F> {
        loop {
            let (space, lanes) = (&self.map.space, &self.map.space.streams[TRANSLATION.index()]);
            let die = lanes.turn().die(&self.shape.geometry);
            if lanes.room(lanes.turn()) > 0 || space.blocks.free_in(die) > space.collector.kept {
                return Ok(());
            }
            let fits = |&block: &Block| self.needs(block) <= space.blocks.free_in(die);
            let Some(block) = space.best_translation_block(die).filter(fits) else { return Ok(()) };
            self.collect(flash, block, None)?;
        }
    }

    /// Writes the translation pages whose discarded entries are only in the cache: what a collection does, which has
    /// room for them.
    fn write_discards<F: Flash>(&mut self, flash: &mut F) -> Outcome<F> {
        while let Some(&tvpn) = self.map.trimmed.first() {
            self.settle(flash, Tvpn(tvpn), Cause::TranslationUpdate)?;
        }
        Ok(())
    }

    /// The same, with a test for room before each page: pages written between two tests may step over the one that
    /// fills its block, test after test.
    fn write_discards_with_room<F: Flash>(&mut self, flash: &mut F) -> Outcome<F> {
        while !self.map.trimmed.is_empty() {
            self.make_ready_to_discard(flash)?;
            // A collection has written them, if there was one.
            let Some(&tvpn) = self.map.trimmed.first() else { break };
            self.settle(flash, Tvpn(tvpn), Cause::TranslationUpdate)?;
        }
        Ok(())
    }

    /// An entry, wherever it is, without changing the cache: a full device can still be read.
    #[cold]
    fn look_up<F: Flash>(&mut self, flash: &mut F, lpn: Lpn) -> Outcome<F, Ppn> {
        self.map.counters.cache.accesses += 1;
        if let Some(&ppn) = self.overdue.get(&lpn.0) {
            self.map.counters.cache.hits += 1;
            return Ok(Ppn(ppn));
        }
        if let Some(slot) = self.cache.find(lpn) {
            self.map.counters.cache.hits += 1;
            return Ok(self.cache.get(slot, lpn));
        }
        self.stored(flash, lpn.0)
    }

    /// An entry as its translation page has it.
    fn stored<F: Flash>(&mut self, flash: &mut F, lpn: u32) -> Outcome<F, Ppn> {
        let (tvpn, index) = self.map.store.locate(lpn);
        let mut entry = [Ppn::NONE.0];
        let at = self.map.store.at(tvpn);
        if at != Ppn::NONE {
            self.map.counters.loads += 1;
            let (oob, content) = flash.read(at, Cause::TranslationLoad)?;
            if oob.tvpn() != tvpn {
                return Err(Error::Corrupt);
            }
            self.map.entries(TranslationPage { oob, words: content.words().ok_or(Error::Corrupt)? }, index, &mut entry);
        }
        Ok(Ppn(entry[0]))
    }

    // ---- host operations ---------------------------------------------------------------------------------------

    /// The lane that a host page goes to: the next, unless it continues a run that stays together.
    #[inline(always)]
    fn lane(&mut self, lpn: Lpn) -> Lane {
        if !self.lane_used.is_empty() {
            return self.lane_behind(lpn);
        }
        let (last, length) = self.run;
        let goes_on = length < self.stripe && lpn.0 == last.wrapping_add(1);
        let stream = &mut self.map.space.streams[DATA.index()];
        if length > 0 && !goes_on {
            stream.advance();
        }
        self.run = (lpn.0, if goes_on { length + 1 } else { 1 });
        stream.turn()
    }

    /// Finds a page that is about to be read.
    #[inline(always)]
    fn seek<F: Flash>(&mut self, flash: &mut F, lpn: Lpn) -> Outcome<F, Ppn> {
        self.convert_pending(flash)?;
        let full = self.needs_room() && self.make_ready_to_read(flash)?;
        if full {
            return self.look_up(flash, lpn);
        }
        let most = self.cache.most_updates();
        let ready = self.prepare_eviction(flash, lpn).and_then(|()| self.secure(flash, TRANSLATION, most));
        let slot = match ready.and_then(|()| self.translate(flash, lpn)) {
            // Programs failed and took the room for what had to leave the cache, or for a collection.
            Err(Error::Full) => return self.look_up(flash, lpn),
            slot => slot?,
        };
        if C::CONVERTS
            && let Some(block) = self.cache.was_read(lpn)
        {
            self.pending = block;
        }
        Ok(self.cache.get(slot, lpn))
    }

    /// Reads a page; the data lies on the medium.
    #[inline]
    fn fetch<'f, F: Flash>(&mut self, flash: &'f mut F, lpn: Lpn) -> Outcome<F, Option<&'f F::User>> {
        let ppn = self.seek(flash, lpn)?;
        if ppn == Ppn::NONE {
            return Ok(None);
        }
        let (oob, data) = flash.read(ppn, Cause::Host)?;
        Ok(Some(parts::data_of(lpn, oob, data)?))
    }

    /// Reads a page that is read so often that it is rewritten if it was programmed with low cost (parts/ecc.rs).
    #[cold]
    fn read_hot<'f, F: Flash>(&'f mut self, flash: &mut F, lpn: Lpn) -> Outcome<F, Option<&'f F::User>> {
        let ppn = self.seek(flash, lpn)?;
        if ppn == Ppn::NONE {
            return Ok(None);
        }
        let (oob, data) = flash.read(ppn, Cause::Host)?;
        let held = self.map.space.ecc().hold::<F>(parts::data_of(lpn, oob, data)?);
        let rewritten = if oob.mode == Mode::LowCost && self.map.space.doomed.is_empty() {
            self.rewrite(flash, Oob { mode: Mode::Normal, ..oob }, held.get(0))
        } else {
            Ok(())
        };
        let data = self.map.space.ecc().keep(held);
        rewritten.map(|()| Some(data))
    }

    /// Programs a page anew, beside the request that it was read for. Without room, it stays as it is.
    fn rewrite<F: Flash>(&mut self, flash: &mut F, oob: Oob, data: &F::User) -> Outcome<F> {
        let mut scope = Collection::on(flash);
        let rewritten = self.rewrite_on(&mut *scope, oob, data);
        let beside = scope.pause();
        self.map.space.collector.beside.done(flash, beside);
        let paid = rewritten.and_then(|()| self.pay(flash));
        self.map.space.ecc().rewritten(flash, beside);
        paid
    }

    /// The same within the scope that is open, which the read may wait for.
    fn rewrite_on<F: Flash>(&mut self, flash: &mut F, oob: Oob, data: &F::User) -> Outcome<F> {
        if self.needs_room() && self.make_ready_to_read(flash)? {
            return Ok(());
        }
        // The read has looked it up: this is no access of the cache.
        self.modifying = oob.address;
        match self.put(flash, oob, data, Cause::EccRewrite) {
            Err(Error::Full) => Ok(()),
            Err(error) => Err(error),
            Ok(to) => {
                self.map.space.collector.beside.moves_to(to.0..to.0 + 1);
                self.map.space.collector.beside.supersedes();
                Ok(())
            }
        }
    }

    /// Makes room for a host page, looks it up, and programs it; where. What it owes spread collections is paid
    /// afterwards.
    #[inline(always)]
    fn put<F: Flash>(&mut self, flash: &mut F, oob: Oob, data: &F::User, cause: Cause) -> Outcome<F, Ppn> {
        self.prepare_eviction(flash, oob.lpn())?;
        let mut lane = self.lane(oob.lpn());
        if self.map.space.streams[DATA.index()].room(lane) == 0 {
            lane = self.next_block(flash, lane)?;
        }
        self.secure(flash, TRANSLATION, self.cache.most_updates())?;
        let slot = self.translate(flash, oob.lpn())?;
        self.place(flash, (slot, lane), oob, data, cause)
    }

    /// A lane of the host's stream with room, its next block opened if need be.
    #[cold]
    #[inline(never)]
    fn next_block<F: Flash>(&mut self, flash: &mut F, lane: Lane) -> Outcome<F, Lane> {
        self.release_converted();
        // The next block may leave just what a collection needs, and an eviction that opens the map's first one would
        // take of that: no collection could begin behind it. So the map's is opened first, and room made for the other.
        // (Not between the two: the full block of the lane would no longer be kept from an erase, and still be the
        // newest of its die to a mount.)
        let die = lane.die(&self.shape.geometry);
        let few = self.map.space.collector.kept + 1;
        let lacks_map = |space: &Space| space.streams[TRANSLATION.index()].block(Lane::of(die)).is_none();
        let space = &self.map.space;
        if space.blocks.free_in(die) <= few && lacks_map(space) && !self.cache.holds_all() {
            self.make_room(flash, die)?;
            // A collection may have opened it.
            let space = &mut self.map.space;
            if space.blocks.free_in(die) >= few && lacks_map(space) {
                space.open(flash, TRANSLATION, Lane::of(die))?;
            }
        }
        self.refill_if_can(flash, DATA, lane)
    }

    /// Programs a host page, and points its entry at it; where.
    #[inline(always)]
    fn place<F: Flash>(
        &mut self,
        flash: &mut F,
        (slot, lane): (C::Slot, Lane),
        mut oob: Oob,
        data: &F::User,
        cause: Cause,
    ) -> Outcome<F, Ppn> {
        let lpn = oob.lpn();
        let to = loop {
            let space = &mut self.map.space;
            let to = space.page_on(flash, DATA, lane)?;
            if let Err(error) = self.cache.prepare(flash, &mut self.map, slot, lpn, to) {
                self.map.space.give_back(DATA, to);
                return Err(error);
            }
            let space = &mut self.map.space;
            oob.program = space.number_for(flash, to);
            match flash.program(to, oob, Payload::User(data), cause) {
                Ok(()) => break to,
                Err(fault) if fault.kind() == FaultKind::ProgramFailed => space.abandon(to),
                Err(fault) => return Err(fault.into()),
            }
        };
        let old = self.cache.get(slot, lpn);
        self.cache.set(slot, lpn, to);
        self.map.moves.remove(lpn.0);
        if old != Ppn::NONE {
            self.map.space.blocks.kill(old);
        }
        let die = self.shape.geometry.die_of(self.shape.geometry.block_of(to));
        self.map.space.collector.owe(die);
        Ok(to)
    }

    /// The lane whose next page lies behind the page of the LPN before, or the one that was not used for longest.
    fn lane_behind(&mut self, lpn: Lpn) -> Lane {
        let before = lpn.0.checked_sub(1).map(Lpn).and_then(|lpn| Some((self.cache.find(lpn)?, lpn)));
        let before = before.map_or(Ppn::NONE, |(slot, lpn)| self.cache.get(slot, lpn));
        let lanes = &self.map.space.streams[DATA.index()];
        let behind =
            |&lane: &Lane| before != Ppn::NONE && lanes.room(lane) > 0 && lanes.run(lane).start == before.0 + 1;
        let found = lanes.all().find(behind);
        let unused = || lanes.all().min_by_key(|lane| self.lane_used[lane.index()]);
        let lane = found.or_else(unused).expect("a stream has a lane");
        self.lane_clock += 1;
        self.lane_used[lane.index()] = self.lane_clock;
        lane
    }

    /// Whether any of these LPNs of a translation page is mapped; reads the page if the cache does not tell.
    fn maps_any<F: Flash>(&mut self, flash: &mut F, tvpn: Tvpn, lpns: core::ops::Range<u32>) -> Outcome<F, bool> {
        let cache = &self.cache;
        let cached = |lpn: u32| cache.find(Lpn(lpn)).map(|slot| cache.get(slot, Lpn(lpn)));
        if lpns.clone().any(|lpn| cached(lpn).is_some_and(|ppn| ppn != Ppn::NONE)) {
            return Ok(true);
        }
        let Some(page) = self.map.read(flash, tvpn)? else { return Ok(false) };
        let mut stored = vec![Ppn::NONE.0; lpns.len()];
        self.map.entries(page, self.map.store.locate(lpns.start).1, &mut stored);
        Ok(lpns.zip(stored).any(|(lpn, ppn)| ppn != Ppn::NONE.0 && cached(lpn).is_none()))
    }

    /// Discards pages of one translation page.
    fn trim_in_page<F: Flash>(&mut self, flash: &mut F, first: u32, count: u32) -> Outcome<F> {
        let (tvpn, _) = self.map.store.locate(first);
        let lpns = first..first + count;
        // A few pages go through the cache, as the paper's writes do; a long run changes its translation page at once,
        // if there is anything to change.
        if count <= SHORT_DISCARD {
            for lpn in lpns.map(Lpn) {
                self.make_ready_to_discard(flash)?;
                self.modifying = lpn.0;
                let slot = self.translate(flash, lpn)?;
                let old = self.cache.get(slot, lpn);
                if old != Ppn::NONE {
                    self.cache.prepare(flash, &mut self.map, slot, lpn, Ppn::NONE)?;
                    self.map.space.blocks.kill(old);
                    self.cache.set(slot, lpn, Ppn::NONE);
                    self.map.moves.remove(lpn.0);
                    self.map.trimmed.insert(tvpn.0);
                }
            }
            // Few enough are left pending that a collection always has room to write them first.
            if self.map.durable_trim && self.map.trimmed.len() > MOST_DISCARDS {
                self.write_discards_with_room(flash)?;
            }
            return Ok(());
        }
        if !self.maps_any(flash, tvpn, lpns.clone())? {
            return Ok(());
        }
        self.make_ready_to_discard(flash)?;
        let mut entries = core::mem::take(&mut self.entries);
        self.cache.clean_page(tvpn, &mut entries);
        let cleaned = entries.len();
        let moved: Vec<Entry> = self.map.moves_beside(tvpn, &entries).collect();
        entries.extend(moved);
        let mut dead = Vec::new();
        let base = self.shape.lpns(tvpn).start;
        let map = &mut self.map;
        map.space.collector.beside.before_map(flash, entries.iter().map(|entry| entry.ppn));
        let how = Update { cause: Cause::TranslationUpdate, all: true, whole: true };
        let written = map.store.edit(flash, &mut map.space, tvpn, how, |words| {
            dead.clear();
            for &Entry { lpn, ppn } in &entries {
                words[(lpn.0 - base) as usize] = ppn.0;
            }
            for lpn in lpns.clone() {
                let word = &mut words[(lpn - base) as usize];
                if *word != Ppn::NONE.0 {
                    dead.push(Ppn(core::mem::replace(word, Ppn::NONE.0)));
                }
            }
        });
        if let Err(error) = written {
            self.cache.soil(&entries[..cleaned]);
            return Err(error);
        }
        map.count_update(entries.len() + dead.len());
        map.told(tvpn);
        map.trimmed.remove(&tvpn.0);
        entries.clear();
        self.entries = entries;
        for lpn in lpns.map(Lpn) {
            self.cache.refresh(lpn, Ppn::NONE);
        }
        for ppn in dead {
            self.map.space.blocks.kill(ppn);
        }
        Ok(())
    }
}

impl<F: Flash, C: Cache, S: MapStore> Build<F> for Demand<C, S> {
    fn format(flash: &mut F, logical_pages: u32, settings: &Settings) -> Built<F, Self> {
        let plan = Self::plan_with_room(flash.geometry(), logical_pages, settings)?;
        let init_tps = plan.options.init_tps;
        wear_state::Options::from(settings).reserve(flash, 0)?;
        let mut ftl = Self::blank(plan);
        ftl.map.space.exclude_bad(flash)?;
        if init_tps {
            for tvpn in (0..ftl.map.store.count()).map(Tvpn) {
                ftl.map.update(flash, tvpn, &[], true, Cause::Metadata)?;
            }
        }
        Ok(ftl)
    }

    fn mount(flash: &mut F, logical_pages: u32, settings: &Settings) -> Built<F, (Self, MountReport)> {
        // What was formatted is mounted, also where more would have to be spare today.
        Self::plan(flash.geometry(), logical_pages, settings)?.store.check_mountable()?;
        wear_state::Options::from(settings).reserve(flash, 0)?;
        Ok(mount_through(flash, |flash, report| {
            Self::mount_on(flash, logical_pages, settings, BTreeSet::new(), report)
        })?)
    }

    fn restore(geometry: &Geometry, logical_pages: u32, settings: &Settings, bytes: &[u8]) -> Self {
        let plan = Self::plan(geometry, logical_pages, settings).expect("the settings were accepted before");
        let mut ftl = Self::blank(plan);
        let mut from = Loader::new(bytes);
        ftl.map.store.load(&mut from);
        ftl.cache.load(&mut from);
        ftl.map.space = ftl.map.space.load(&mut from);
        ftl.map.moves.load(&mut from);
        let trimmed = from.u32();
        ftl.map.trimmed = (0..trimmed).map(|_| from.u32()).collect();
        ftl.version = from.u64();
        ftl.run = (from.u32(), from.u32());
        if C::CONVERTS {
            ftl.pending = from.u32();
            ftl.followed.iter_mut().for_each(|page| *page = from.u32());
        }
        if !ftl.lane_used.is_empty() {
            ftl.lane_clock = from.u64();
            ftl.lane_used.iter_mut().for_each(|used| *used = from.u64());
        }
        if !from.is_done() {
            ftl.overdue = (0..from.u32()).map(|_| (from.u32(), from.u32())).collect();
        }
        debug_assert!(from.is_done());
        ftl
    }
}

impl<F: Flash, C: Cache, S: MapStore> Ftl<F> for Demand<C, S> {
    #[inline(always)]
    fn request(&mut self, first: Lpn, pages: u32) {
        self.map.space.collector.beside.clear();
        self.cache.request(first, pages);
        if let Some(ecc) = &mut self.map.space.ecc {
            ecc.request(first, pages);
        }
    }

    #[inline]
    fn read<'f>(&'f mut self, flash: &'f mut F, lpn: Lpn) -> Outcome<F, Option<&'f F::User>> {
        if self.map.space.ecc.as_mut().is_some_and(|ecc| ecc.was_read(lpn)) {
            return self.read_hot(flash, lpn);
        }
        self.fetch(flash, lpn)
    }

    fn is_mapped(&self, lpn: Lpn) -> Option<bool> {
        if let Some(&ppn) = self.overdue.get(&lpn.0) {
            return Some(Ppn(ppn) != Ppn::NONE);
        }
        match self.cache.find(lpn) {
            Some(slot) => Some(self.cache.get(slot, lpn) != Ppn::NONE),
            // Without a translation page only the cache can hold entries.
            None => (self.map.store.at(self.map.store.locate(lpn.0).0) == Ppn::NONE).then_some(false),
        }
    }

    fn read_to_modify<'f>(&'f mut self, flash: &'f mut F, lpn: Lpn) -> Outcome<F, Option<&'f F::User>> {
        let data = self.fetch(flash, lpn)?;
        self.modifying = lpn.0;
        Ok(data)
    }

    #[inline]
    fn write(&mut self, flash: &mut F, lpn: Lpn, data: &F::User) -> Outcome<F> {
        self.convert_pending(flash)?;
        if self.needs_room() {
            self.make_ready(flash)?;
        }
        self.map.space.blocks.clock += 1;
        self.version += 1;
        let oob = Oob { mode: self.map.space.host_mode(lpn), ..Oob::data(lpn, self.version, 0) };
        self.put(flash, oob, data, Cause::Host)?;
        self.pay(flash)?;
        self.level_if_due(flash)
    }

    fn trim(&mut self, flash: &mut F, first: Lpn, count: u32) -> Outcome<F> {
        self.map.space.collector.beside.clear();
        if !self.overdue.is_empty() {
            self.make_ready(flash)?;
        }
        let entries = self.shape.page_entries;
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
        // With entries overdue nothing was written or discarded since the mount.
        if !self.map.durable_trim || !self.overdue.is_empty() {
            return Ok(());
        }
        self.map.space.collector.beside.clear();
        self.write_discards_with_room(flash)
    }

    fn idle(&mut self, flash: &mut F, copies: u32) -> Outcome<F, bool> {
        if !self.overdue.is_empty() {
            return Ok(false);
        }
        self.map.space.collector.beside.clear();
        self.convert_pending(flash)?;
        self.collect_ahead(flash, copies)
    }
}

impl<F: Flash, C: Cache, S: MapStore> Inspect<F> for Demand<C, S> {
    fn filling(&mut self, filling: bool) {
        if let Some(ecc) = &mut self.map.space.ecc {
            ecc.filling(filling);
        }
    }

    #[inline(always)]
    fn hint(&self, lpn: Lpn) {
        self.cache.prefetch(lpn);
    }

    fn memory(&self) -> Vec<(&'static str, u64)> {
        let mut out = vec![("translation directory", self.map.store.memory()), ("mapping cache", self.cache.memory())];
        out.extend(self.map.space.memory());
        if self.map.space.collector.is_spread() {
            out.push(("moves that the map does not know of", self.map.moves.memory()));
        }
        out.push(("discarded entries", 4 + self.map.trimmed.len() as u64 * 4));
        out.push(("counters", 48 + self.lane_used.len() as u64 * 8 + self.followed.len() as u64 * 4));
        if !self.overdue.is_empty() {
            out.push(("entries that a full device cannot write", 4 + self.overdue.len() as u64 * 8));
        }
        out
    }

    fn cache(&self) -> Option<CacheCounters> {
        Some(self.map.counters.cache)
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let mut out = parameters::counters(&self.map.counters);
        self.cache.counters(&mut out);
        self.map.store.counters(&mut out);
        out
    }

    fn reset_counters(&mut self) {
        self.map.counters = Counters::default();
        self.cache.reset_counters();
        self.map.store.reset_counters();
    }

    fn erase_counts(&self) -> &[u32] {
        self.map.space.blocks.erase_counts()
    }

    fn free_blocks(&self) -> u32 {
        self.map.space.blocks.free_total()
    }

    fn audit(&self, flash: &mut F) -> Result<(), String> {
        let g = *flash.geometry();
        let failed = |fault: F::Fault| format!("{fault:?}");
        let mut expected = vec![0u32; g.block_count() as usize];
        let mut words = vec![Ppn::NONE.0; self.shape.page_entries as usize];
        for tvpn in (0..self.map.store.count()).map(Tvpn) {
            let at = self.map.store.at(tvpn);
            words.fill(Ppn::NONE.0);
            let mut watermark = 0;
            if at != Ppn::NONE {
                let (oob, content) = flash.read(at, Cause::Recovery).map_err(failed)?;
                watermark = oob.version;
                if oob.kind != Kind::Translation || oob.tvpn() != tvpn || !self.map.space.blocks.is_live(at) {
                    return Err(format!("the directory finds translation page {tvpn} at {at}, which holds {oob:?}"));
                }
                let found = content.words().ok_or("a translation page holds no words")?;
                self.map.entries(TranslationPage { oob, words: found }, 0, &mut words);
                expected[g.block_of(at).index()] += 1;
            }
            let range = self.shape.lpns(tvpn);
            for lpn in range.clone() {
                let written = Ppn(words[(lpn - range.start) as usize]);
                let mut ppn = written;
                if let Some(slot) = self.cache.find(Lpn(lpn)) {
                    let cached = self.cache.get(slot, Lpn(lpn));
                    if cached != ppn && !self.cache.is_dirty(slot, Lpn(lpn)) {
                        return Err(format!("LPN {lpn} is clean in the cache as {cached}, but on flash as {ppn}"));
                    }
                    ppn = cached;
                }
                if let Some(&overdue) = self.overdue.get(&lpn) {
                    ppn = Ppn(overdue);
                }
                if ppn == Ppn::NONE {
                    continue;
                }
                let oob = self.map.space.audit_page(flash, (Lpn(lpn), ppn), self.version, &mut expected)?;
                // A mount looks for entries that were lost among the pages behind the watermark.
                if ppn != written && oob.program < watermark {
                    return Err(format!(
                        "LPN {lpn} is at {ppn}, program {}, which its translation page does not tell and passes over, \
                         for its watermark is {watermark}",
                        oob.program
                    ));
                }
            }
        }
        self.cache.audit()?;
        self.map.space.audit_counts(expected)?;
        for moved in self.map.moves.within(0..u32::MAX) {
            if !self.map.space.blocks.is_live(moved.ppn) {
                return Err(format!("LPN {} is among the moves at {}, which is dead", moved.lpn, moved.ppn));
            }
        }
        // What a spread collection has moved stands in the table of moves until the collection tells it.
        let is_idle = |die: &Die| self.map.space.collector.victim(*die).is_none();
        for die in (0..g.die_count()).map(Die).filter(is_idle) {
            let untold = self.map.moves.count_on(die);
            if untold > 0 {
                return Err(format!("{untold} moves on die {} are told by no collection", die.0));
            }
        }
        self.map.space.audit_blocks(|_| false)
    }

    fn save(&self) -> Vec<u8> {
        let mut out = Saver::default();
        self.map.store.save(&mut out);
        self.cache.save(&mut out);
        self.map.space.save(&mut out);
        self.map.moves.save(&mut out);
        out.u32(self.map.trimmed.len() as u32);
        self.map.trimmed.iter().for_each(|&tvpn| out.u32(tvpn));
        out.u64(self.version);
        out.u32(self.run.0);
        out.u32(self.run.1);
        if C::CONVERTS {
            out.u32(self.pending);
            self.followed.iter().for_each(|&page| out.u32(page));
        }
        if !self.lane_used.is_empty() {
            out.u64(self.lane_clock);
            self.lane_used.iter().for_each(|&used| out.u64(used));
        }
        if !self.overdue.is_empty() {
            out.u32(self.overdue.len() as u32);
            for (&lpn, &ppn) in &self.overdue {
                out.u32(lpn);
                out.u32(ppn);
            }
        }
        out.finish()
    }
}

//! `dftl` and `dftl-e`: a page map on flash, of which the part in use is cached.
//!
//! The problem: a map of every page takes more RAM than a controller has, and coarser maps pay for it in merges. DFTL's
//! idea (Gupta, Kim and Urgaonkar 2009; S4): keep the whole page map on flash in translation pages, cache the entries
//! that the workload uses now, and exploit that workloads reuse addresses. A small directory in RAM says where each
//! translation page is. Entries change in the cache and are written back when they are evicted, together with all
//! other changed entries of the same translation page. When collection moves data pages, cached entries are only
//! changed in the cache (lazy copying), the others are grouped by translation page (batch update).
//!
//! DFTL-E (S0) caches aligned lines of entries instead of single ones, since a translation page is read whole anyway.
//!
//! ```text
//!  LPN ─▶ cached mapping table ──hit──────────────────────────────▶ PPN
//!             │ miss: evict (dirty: update its translation page)
//!             └─▶ directory[LPN / E] ─▶ translation page on flash ─▶ entry into the cache
//!  flash: data blocks │ translation blocks, striped over the dies
//! ```
//!
//! RAM: directory, 4 B for each translation page; cache, 8 B an entry (`dftl`) or 4 + 4·L + ⌈L/8⌉ B a line of L
//! (`dftl-e`), both out of `cache-bytes`; live bits and block states as for `page`. Flash: a translation page of E =
//! page size / 4 entries for every E logical pages.
//!
//! # Space
//!
//! Room is made before a host page is served, never in between. A host page then takes at most one data and one
//! translation page. Collecting a data block with `v < P` live pages takes `v` data pages and at most `k` translation
//! pages, the number that the moved entries lie in; it gives back `P − v ≥ 1` pages and kills `k` more translation
//! pages. Collecting a translation block with `w < P` live pages takes `w` and gives back `P − w ≥ 1`, and kills none.
//! Both are begun only if the open blocks and the free ones hold what they may take, so that at least the victim is
//! free afterwards; and if a data block would leave less than two, a translation block with a dead page goes first.
//! Dead data pages only become fewer, by at least one with each data block; between two of those, dead translation
//! pages only become fewer. Hence `make_room` ends: with room, or because nothing can be begun, and then the device is
//! full and says so. (So that a hopeless device does not turn over all of its blocks for a single page, it also gives
//! up after eight collections for each block.)
//!
//! Otherwise `victims` decides between the two sorts. `plain` is the papers' rule: one policy over all blocks.
//! `net-gain` collects a translation block only if it has half a block fewer live pages than the policy's data victim:
//! translation pages die soon by themselves (each collection of data kills many), so waiting for them pays.
//!
//! Departures: striping over dies; `net-gain` (the papers' rule is `victims = plain`); the watermark and everything
//! else that lets DFTL be mounted from flash (docs/recovery.md); TRIM.

use super::page::DURABLE_TRIM;
use crate::gc;
use crate::parts::cache::{MappingCache, OrderKind, Slot};
use crate::parts::space::{self, Fate, Space, TranslationBlocks};
use crate::parts::translation::TranslationStore;
use crate::{
    CacheCounters, ConfigError, Error, Ftl, Loader, MountReport, Parameter, Range, Saver, Scheme, Settings, Value,
};
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use flash::{Block, Cause, Collection, FaultKind, Flash, FlashFault, Geometry, Kind, Lpn, Oob, Payload, Ppn, Tvpn};

/// Both schemes' parameters, which differ in how the cache is cut.
macro_rules! parameters {
    ($cut:ident) => {
        &[
            CACHE_BYTES,
            $cut,
            BATCH_EVICT,
            GC_FOLD,
            VICTIMS,
            INIT_TPS,
            space::GC,
            GC_LOW,
            space::GC_HIGH,
            gc::CHOICES,
            gc::LAMBDA,
            gc::WEAR_SPREAD,
            gc::DEAD_SHARE,
            space::FREE_ORDER,
            DURABLE_TRIM,
            space::SEED,
        ]
    };
}

/// The row of `dftl`.
pub(super) static ROW: Scheme = Scheme {
    name: "dftl",
    summary: "page map on flash, single entries cached on demand",
    paper: "Gupta, Kim, Urgaonkar: DFTL, ASPLOS 2009 (S4)",
    parameters: parameters!(REPLACEMENT),
    counters: COUNTERS,
    phases: PHASES,
    has_cache: true,
    keeps_data: true,
    state_version: 1,
};

/// The row of `dftl-e`.
pub(super) static ROW_E: Scheme = Scheme {
    name: "dftl-e",
    summary: "DFTL that caches aligned lines of entries",
    paper: "S0 (DFTL-E)",
    parameters: parameters!(LINE),
    ..ROW
};

const CACHE_BYTES: Parameter = Parameter {
    name: "cache-bytes",
    summary: "RAM for the directory and the cache together; 0 gives what a block map of the device would take (the \
              papers' rule), or the least that works",
    unit: "bytes",
    default: Value::Count(0),
    range: Range::Count(0, 1 << 40),
    source: "S4 section 5.1, S0",
};

const REPLACEMENT: Parameter = Parameter {
    name: "replacement",
    summary: "which cached entry to evict",
    unit: "",
    default: Value::Word("slru"),
    range: Range::Words(OrderKind::NAMES),
    source: "S4 section 3.2 names segmented LRU; FlashSim has real-ghost",
};

const LINE: Parameter = Parameter {
    name: "line",
    summary: "entries of a cache line: loaded and evicted together; S0 uses 32, 16, 256, 256 by workload",
    unit: "entries",
    default: Value::Count(32),
    range: Range::PowerOfTwo(1, 8192),
    source: "S0 section IV",
};

const BATCH_EVICT: Parameter = Parameter {
    name: "batch-evict",
    summary: "an eviction writes back all dirty entries of its translation page; FlashSim writes the victim's alone",
    unit: "",
    default: Value::Switch(true),
    range: Range::Switch,
    source: "S4 section 3.3",
};

const GC_FOLD: Parameter = Parameter {
    name: "gc-fold",
    summary: "a translation page updated by data collection takes the cache's dirty entries along",
    unit: "",
    default: Value::Switch(true),
    range: Range::Switch,
    source: "ftlab; the papers are silent",
};

const VICTIMS: Parameter = Parameter {
    name: "victims",
    summary: "plain: one policy over data and translation blocks; net-gain: translation blocks wait until half dead",
    unit: "",
    default: Value::Word("net-gain"),
    range: Range::Words(&["net-gain", "plain"]),
    source: "plain S4; net-gain ftlab",
};

const INIT_TPS: Parameter = Parameter {
    name: "init-tps",
    summary: "write all translation pages when formatting, as FlashSim does; otherwise each with its first entry",
    unit: "",
    default: Value::Switch(false),
    range: Range::Switch,
    source: "FlashSim",
};

const GC_LOW: Parameter = Parameter {
    default: Value::Count(3),
    range: Range::Count(3, 1 << 20),
    summary: "collect when no more blocks than this, times the dies, are free",
    ..space::GC_LOW
};

const COUNTERS: &[(&str, &str)] = &[
    ("clean_evictions", "evictions of lines without a dirty entry"),
    ("dirty_evictions", "evictions that had to update a translation page"),
    ("translation_loads", "translation pages read on misses"),
    ("translation_updates", "translation pages written for evictions and moved data"),
    ("gc_data_victims", "data blocks collected"),
    ("gc_translation_victims", "translation blocks collected"),
    ("gc_data_copies", "live data pages copied by collections"),
    ("gc_translation_copies", "live translation pages copied by collections"),
];

const PHASES: &[Cause] = &[Cause::Host, Cause::TranslationUpdate, Cause::TranslationGc, Cause::DataGc, Cause::Recovery];

const DATA: usize = 0;
const TRANSLATION: usize = 1;

/// Free blocks that a host page may need: a data block, a translation block, and one to collect the next victim into.
const LEAST: u32 = space::SCARCE;

/// Translation pages with discarded entries in the cache alone, at the most, if discards are durable.
const MOST_DISCARDS: usize = 4;

#[derive(Clone, Copy, Default, Debug)]
struct Counters {
    cache: CacheCounters,
    clean_evictions: u64,
    loads: u64,
    updates: u64,
    data_victims: u64,
    translation_victims: u64,
    data_copies: u64,
    translation_copies: u64,
}

/// See the module's description.
#[derive(Clone, Debug)]
pub struct Dftl {
    cache: MappingCache,
    store: TranslationStore,
    space: Space,
    logical_pages: u32,
    batch_evict: bool,
    gc_fold: bool,
    durable_trim: bool,
    /// Translation pages with discarded entries that are dirty in the cache.
    trimmed: BTreeSet<u32>,
    /// Versions given so far.
    version: u64,
    /// The page that is about to be modified: its next look-up is no access.
    modifying: u32,
    counters: Counters,
    /// Scratch space of collections and updates; empty between calls.
    moves: Vec<(u32, u32)>,
    entries: Vec<(u32, u32)>,
}

/// How the cache is cut.
struct CachePlan {
    line: u32,
    order: OrderKind,
    lines: u32,
}

impl Dftl {
    fn plan(g: &Geometry, logical_pages: u32, settings: &Settings) -> Result<CachePlan, ConfigError> {
        let (line, order) = match settings.get("line") {
            Some(Value::Count(line)) => (line as u32, OrderKind::Lru),
            _ => (1, OrderKind::by_name(settings.word("replacement")).expect("the settings were validated")),
        };
        let entries = g.entries_per_page();
        if line > entries {
            return Err(ConfigError {
                key: "line",
                what: format!("a line of {line} entries does not fit a translation page of {entries}"),
                fix: format!("use a power of two up to {entries}"),
            });
        }
        let directory = u64::from(logical_pages.div_ceil(entries)) * 4;
        let least = directory + MappingCache::bytes(2, line, order);
        let asked = match settings.count("cache-bytes") {
            0 => (u64::from(logical_pages.div_ceil(g.pages_per_block)) * 4).max(least),
            bytes => bytes,
        };
        if asked < least {
            return Err(ConfigError {
                key: "cache-bytes",
                what: format!("a cache of {asked} bytes is too small: the directory alone takes {directory}"),
                fix: format!("give at least {least} bytes"),
            });
        }
        let all = u64::from(logical_pages.div_ceil(line));
        let lines = ((asked - directory) / MappingCache::bytes(1, line, order)).min(all).max(2);
        Ok(CachePlan { line, order, lines: lines as u32 })
    }

    fn check(g: &Geometry, logical_pages: u32, settings: &Settings) -> Result<CachePlan, ConfigError> {
        let plan = Self::plan(g, logical_pages, settings)?;
        let dies = g.die_count();
        let translation = logical_pages.div_ceil(g.entries_per_page());
        let live = (u64::from(logical_pages) + u64::from(translation)).div_ceil(u64::from(g.pages_per_block));
        let kept = (settings.count("gc-low") + 1) * u64::from(dies) + 2 * u64::from(dies);
        if u64::from(g.block_count()) < live + kept {
            return Err(ConfigError {
                key: "spare",
                what: format!(
                    "{logical_pages} logical pages and {translation} translation pages take {live} blocks, {kept} more \
                     are kept free or open on {dies} dies, and there are {}",
                    g.block_count()
                ),
                fix: format!(
                    "give more spare space, at least {:.2} %",
                    100.0 * kept as f64 / (live + kept) as f64 + 0.01
                ),
            });
        }
        Ok(plan)
    }

    fn blank(g: Geometry, logical_pages: u32, settings: &Settings, plan: &CachePlan) -> Dftl {
        let dies = g.die_count() as usize;
        let mut space = Space::new(g, settings, &[dies, dies]);
        space.low = settings.count("gc-low") as u32 * dies as u32;
        space.high = (settings.count("gc-high") as u32 * dies as u32).max(space.low + 1);
        space.translation = Some(TranslationBlocks {
            stream: TRANSLATION,
            closed: Vec::new(),
            among_data: settings.word("victims") == "plain",
        });
        Dftl {
            cache: MappingCache::new(logical_pages, g.entries_per_page(), plan.line, plan.lines, plan.order),
            store: TranslationStore::new(logical_pages, g.entries_per_page(), TRANSLATION),
            space,
            logical_pages,
            batch_evict: settings.switch("batch-evict"),
            gc_fold: settings.switch("gc-fold"),
            durable_trim: settings.switch("durable-trim"),
            trimmed: BTreeSet::new(),
            version: 0,
            modifying: u32::MAX,
            counters: Counters::default(),
            moves: Vec::new(),
            entries: Vec::new(),
        }
    }

    // ---- the map -----------------------------------------------------------------------------------------------

    /// The cached line of an LPN, loaded if need be (S4, algorithm 1).
    #[inline]
    fn translate<F: Flash>(&mut self, flash: &mut F, lpn: Lpn) -> Result<Slot, Error<F::Fault>> {
        let counted = self.modifying != lpn.0;
        self.modifying = u32::MAX;
        self.counters.cache.accesses += u64::from(counted);
        if let Some(slot) = self.cache.find(lpn) {
            self.counters.cache.hits += u64::from(counted);
            self.cache.hit(slot);
            return Ok(slot);
        }
        self.load(flash, lpn)
    }

    fn load<F: Flash>(&mut self, flash: &mut F, lpn: Lpn) -> Result<Slot, Error<F::Fault>> {
        if self.cache.is_full() {
            self.evict(flash)?;
        }
        let (tvpn, _) = self.store.locate(lpn.0);
        let at = self.store.at(tvpn);
        if at == Ppn::NONE {
            return Ok(self.cache.insert(lpn, |_| Ppn::NONE));
        }
        self.counters.loads += 1;
        let (_, content) = flash.read(at, Cause::TranslationLoad)?;
        let words = content.meta();
        let store = &self.store;
        Ok(self.cache.insert(lpn, |lpn| Ppn(words.get(store.locate(lpn.0).1).copied().unwrap_or(u32::MAX))))
    }

    fn evict<F: Flash>(&mut self, flash: &mut F) -> Result<(), Error<F::Fault>> {
        let (victim, tvpn) = self.cache.victim();
        if self.cache.is_dirty(victim) {
            let mut entries = core::mem::take(&mut self.entries);
            if self.batch_evict {
                self.cache.clean_page(tvpn, &mut entries);
            } else {
                self.cache.clean_line(victim, &mut entries);
            }
            self.counters.cache.writebacks += 1;
            self.counters.cache.writeback_entries += entries.len() as u64;
            self.update(flash, tvpn, &entries, Cause::TranslationUpdate)?;
            entries.clear();
            self.entries = entries;
        } else {
            self.counters.clean_evictions += 1;
        }
        self.cache.remove(victim);
        Ok(())
    }

    /// Writes entries into their translation page. They are clean in the cache already.
    fn update<F: Flash>(
        &mut self,
        flash: &mut F,
        tvpn: Tvpn,
        entries: &[(u32, u32)],
        cause: Cause,
    ) -> Result<(), Error<F::Fault>> {
        let now = !self.cache.has_dirty(tvpn);
        self.counters.updates += 1;
        let mask = flash.geometry().entries_per_page() - 1;
        let written = self.store.update(flash, &mut self.space, tvpn, now, cause, |words| {
            for &(lpn, ppn) in entries {
                words[(lpn & mask) as usize] = ppn;
            }
        });
        if written.is_err() {
            self.soil(entries);
        } else if now && !self.trimmed.is_empty() {
            self.trimmed.remove(&tvpn.0);
        }
        written
    }

    /// After their translation page could not be written: entries that are still cached are dirty again.
    #[cold]
    fn soil(&mut self, entries: &[(u32, u32)]) {
        for &(lpn, ppn) in entries {
            if let Some(slot) = self.cache.find(Lpn(lpn)) {
                self.cache.set(slot, Lpn(lpn), Ppn(ppn));
            }
        }
    }

    /// Writes all dirty entries of a translation page into it, also when there are none.
    fn settle<F: Flash>(&mut self, flash: &mut F, tvpn: Tvpn, cause: Cause) -> Result<(), Error<F::Fault>> {
        let mut entries = core::mem::take(&mut self.entries);
        self.cache.clean_page(tvpn, &mut entries);
        self.update(flash, tvpn, &entries, cause)?;
        entries.clear();
        self.entries = entries;
        Ok(())
    }

    // ---- collection --------------------------------------------------------------------------------------------

    /// Makes room for a host page. See the module's description for why this ends.
    #[cold]
    #[inline(never)]
    fn make_room<F: Flash>(&mut self, flash: &mut F) -> Result<(), Error<F::Fault>> {
        self.evacuate(flash)?;
        let mut rounds = 8 * self.space.blocks.geometry().block_count();
        while self.space.blocks.free_total() < self.space.high {
            let Some(victim) = self.choose().filter(|_| rounds > 0) else {
                // Nothing can be gained; what is left may still be enough for a page.
                return if self.space.blocks.free_total() >= LEAST { Ok(()) } else { Err(Error::Full) };
            };
            rounds -= 1;
            self.collect(flash, victim, Fate::Erase)?;
        }
        Ok(())
    }

    /// The victim, by the rules of the module's description.
    fn choose(&mut self) -> Option<Block> {
        let free = self.space.blocks.free_total();
        let translation = self.space.best_translation_block().filter(|&block| self.needs(block) <= free);
        let Some(mut data) = self.policy_victim() else { return translation };
        if self.needs(data) > free && !self.space.is_translation(data) {
            // The policy's choice does not fit any more: the block that takes the least may.
            let blocks = &self.space.blocks;
            let candidates =
                (0..blocks.geometry().block_count()).filter(|&block| blocks.is_candidate(block)).map(Block);
            data = candidates.min_by_key(|&block| blocks.live_of(block)).unwrap_or(data);
        }
        if self.space.is_translation(data) {
            return translation.map(|best| if self.needs(data) <= free { data } else { best });
        }
        let needs = self.needs(data);
        let Some(translation) = translation else { return (needs <= free).then_some(data) };
        if needs + 1 > free {
            return Some(translation);
        }
        let half = self.space.blocks.geometry().pages_per_block / 2;
        let apart = self.space.translation.as_ref().is_some_and(|blocks| !blocks.among_data);
        let waited = self.space.blocks.live_of(translation) + half <= self.space.blocks.live_of(data);
        Some(if apart && waited { translation } else { data })
    }

    /// Free blocks that collecting a block may take.
    fn needs(&self, block: Block) -> u32 {
        let pages = self.space.blocks.geometry().pages_per_block;
        let live = self.space.blocks.live_of(block);
        let blocks = |stream: usize, wanted: u32| {
            let lanes = &self.space.streams[stream];
            let room: u32 = (0..lanes.count()).map(|lane| lanes.room(lane)).sum();
            wanted.saturating_sub(room).div_ceil(pages)
        };
        let discards = if self.durable_trim { self.trimmed.len() as u32 } else { 0 };
        if self.space.is_translation(block) {
            blocks(TRANSLATION, live + discards)
        } else {
            blocks(DATA, live) + blocks(TRANSLATION, live.min(self.store.count()) + discards)
        }
    }

    fn policy_victim(&mut self) -> Option<Block> {
        let dies = self.space.blocks.geometry().die_count() as usize;
        let poorest = self.space.poorest_die();
        let range = self.space.blocks.range(poorest);
        if let Some(victim) = self.space.pick(range) {
            return Some(victim);
        }
        if dies == 1 {
            return None;
        }
        let blocks = self.space.blocks.geometry().block_count();
        self.space.pick(0..blocks)
    }

    fn collect<F: Flash>(&mut self, flash: &mut F, victim: Block, fate: Fate) -> Result<(), Error<F::Fault>> {
        // An erase may take the newest copy of a discarded page while older ones are left: its discard goes first.
        if self.durable_trim {
            self.write_discards(flash)?;
        }
        let candidate = self.space.begin_collecting(victim);
        let collected = if self.space.is_translation(victim) {
            self.collect_translation(flash, victim, fate)
        } else {
            self.collect_data(flash, victim, fate)
        };
        if collected.is_err() && candidate {
            self.space.blocks.stop_collecting(victim);
        }
        collected
    }

    fn collect_translation<F: Flash>(
        &mut self,
        flash: &mut F,
        victim: Block,
        fate: Fate,
    ) -> Result<(), Error<F::Fault>> {
        self.counters.translation_victims += 1;
        let g = *flash.geometry();
        let mut gc = Collection::on(flash);
        let mut next = 0;
        while let Some(offset) = self.space.blocks.next_live(victim, next) {
            next = offset + 1;
            let from = g.page(victim, offset);
            let (to, oob) = self.copy_page(&mut *gc, from, TRANSLATION, Cause::TranslationGc)?;
            self.store.found(oob.tvpn(), to);
            self.space.blocks.kill(from);
            self.counters.translation_copies += 1;
        }
        gc.then();
        self.space.finish(&mut *gc, victim, fate, Cause::TranslationGc)
    }

    fn collect_data<F: Flash>(&mut self, flash: &mut F, victim: Block, fate: Fate) -> Result<(), Error<F::Fault>> {
        self.counters.data_victims += 1;
        let mut gc = Collection::on(flash);
        let mut moves = core::mem::take(&mut self.moves);
        let mut result = self.copy_data(&mut *gc, victim, &mut moves);
        self.counters.data_copies += moves.len() as u64;
        // Cached entries change in the cache alone; the others are written, a translation page at a time.
        moves.retain(|&(lpn, to)| match self.cache.find(Lpn(lpn)) {
            Some(slot) => {
                self.cache.set(slot, Lpn(lpn), Ppn(to));
                false
            }
            None => true,
        });
        moves.sort_unstable_by_key(|&(lpn, _)| lpn);
        gc.then();
        let mut entries = core::mem::take(&mut self.entries);
        let mut rest = &moves[..];
        while let (Ok(()), Some(&(lpn, _))) = (&result, rest.first()) {
            let (tvpn, _) = self.store.locate(lpn);
            let group = rest.partition_point(|&(lpn, _)| self.store.locate(lpn).0 == tvpn);
            entries.extend_from_slice(&rest[..group]);
            if let Some(&(lpn, _)) = rest.get(group) {
                let (tvpn, word) = self.store.locate(lpn);
                let at = self.store.at(tvpn);
                if at != Ppn::NONE {
                    gc.hint(at, word);
                    self.space.blocks.prefetch(at);
                }
            }
            if self.gc_fold {
                self.cache.clean_page(tvpn, &mut entries);
            }
            result = self.update(&mut *gc, tvpn, &entries, Cause::TranslationUpdate);
            if result.is_ok() {
                rest = &rest[group..];
            }
            entries.clear();
        }
        if let Err(error) = result {
            self.move_back(&mut *gc, rest)?;
            return Err(error);
        }
        self.entries = entries;
        moves.clear();
        self.moves = moves;
        self.space.finish(&mut *gc, victim, fate, Cause::DataGc)
    }

    /// Copies the live pages of a data block; `moves` is told each LPN and its new page, also if not all could be
    /// copied.
    #[inline]
    fn copy_data<F: Flash>(
        &mut self,
        flash: &mut F,
        victim: Block,
        moves: &mut Vec<(u32, u32)>,
    ) -> Result<(), Error<F::Fault>> {
        let g = *flash.geometry();
        let die = g.die_of(victim).index();
        let mut next = 0;
        while let Some((first, bits)) = self.space.blocks.live_word(victim, next) {
            let from = g.page(victim, first);
            let cache = &self.cache;
            let begun = moves.len();
            let run = self.space.move_run(flash, DATA, die, (from, bits), Cause::DataGc, |_, lpn| {
                cache.prefetch(Lpn(lpn));
                moves.push((lpn, 0));
            })?;
            for ((_, place), to) in moves[begun..].iter_mut().zip(run.to) {
                *place = to;
            }
            run.result?;
            next = first + 64 - run.moved.leading_zeros();
        }
        Ok(())
    }

    /// A collection ends early, because programs failed and took the room for it: the copies whose entries could not be
    /// written die, and the pages that the translation pages still name live on.
    #[cold]
    fn move_back<F: Flash>(&mut self, flash: &mut F, moves: &[(u32, u32)]) -> Result<(), Error<F::Fault>> {
        for &(lpn, copy) in moves {
            let (tvpn, entry) = self.store.locate(lpn);
            let (_, content) = flash.read(self.store.at(tvpn), Cause::TranslationLoad)?;
            self.space.blocks.kill(Ppn(copy));
            self.space.blocks.revive(Ppn(content.meta()[entry]));
        }
        Ok(())
    }

    fn copy_page<F: Flash>(
        &mut self,
        flash: &mut F,
        from: Ppn,
        stream: usize,
        cause: Cause,
    ) -> Result<(Ppn, Oob), Error<F::Fault>> {
        let g = *flash.geometry();
        let die = g.die_of(g.block_of(from)).index();
        loop {
            let to = self.space.page_on(flash, stream, die)?;
            let program = self.space.number();
            match flash.copy(from, to, cause, |oob, _| oob.program = program) {
                Ok(oob) => return Ok((to, oob)),
                Err(fault) if fault.kind() == FaultKind::ProgramFailed => self.space.abandon(to),
                Err(fault) => {
                    if fault.kind() == FaultKind::Uncorrectable {
                        self.space.give_back(stream, to);
                    }
                    return Err(fault.into());
                }
            }
        }
    }

    /// Empties and retires the blocks that failed a program.
    fn evacuate<F: Flash>(&mut self, flash: &mut F) -> Result<(), Error<F::Fault>> {
        while let Some(&block) = self.space.doomed.last() {
            self.collect(flash, block, Fate::Retire)?;
            self.space.doomed.retain(|&doomed| doomed != block);
        }
        Ok(())
    }

    /// Writes the translation pages whose discarded entries are only in the cache.
    fn write_discards<F: Flash>(&mut self, flash: &mut F) -> Result<(), Error<F::Fault>> {
        while let Some(&tvpn) = self.trimmed.first() {
            self.settle(flash, Tvpn(tvpn), Cause::TranslationUpdate)?;
        }
        Ok(())
    }

    #[inline(always)]
    fn needs_room(&self) -> bool {
        self.space.blocks.free_total() <= self.space.low || !self.space.doomed.is_empty()
    }

    /// Makes room for what a read may evict; true if the device is full.
    #[cold]
    fn make_room_to_read<F: Flash>(&mut self, flash: &mut F) -> Result<bool, Error<F::Fault>> {
        match self.make_room(flash) {
            Ok(()) => Ok(false),
            Err(Error::Full) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// An entry that is not cached, without caching it: a full device can still be read.
    #[cold]
    fn look_up<F: Flash>(&mut self, flash: &mut F, lpn: Lpn) -> Result<Ppn, Error<F::Fault>> {
        self.counters.cache.accesses += 1;
        let (tvpn, entry) = self.store.locate(lpn.0);
        match self.store.at(tvpn) {
            Ppn::NONE => Ok(Ppn::NONE),
            at => {
                self.counters.loads += 1;
                Ok(Ppn(flash.read(at, Cause::TranslationLoad)?.1.meta()[entry]))
            }
        }
    }

    // ---- host operations ---------------------------------------------------------------------------------------

    /// Reads a page; the data lies on the medium.
    #[inline]
    fn fetch<'f, F: Flash>(&mut self, flash: &'f mut F, lpn: Lpn) -> Result<Option<&'f F::User>, Error<F::Fault>> {
        let full = self.needs_room() && self.make_room_to_read(flash)?;
        let ppn = if full && self.cache.find(lpn).is_none() {
            self.look_up(flash, lpn)?
        } else {
            let slot = self.translate(flash, lpn)?;
            self.cache.get(slot, lpn)
        };
        if ppn == Ppn::NONE {
            return Ok(None);
        }
        let (_, data) = flash.read(ppn, Cause::Host)?;
        Ok(Some(data.user()))
    }

    fn trim_in_page<F: Flash>(&mut self, flash: &mut F, first: u32, count: u32) -> Result<(), Error<F::Fault>> {
        let (tvpn, _) = self.store.locate(first);
        let lpns = first..first + count;
        // A few pages go through the cache, as the paper's writes do; a long run changes its translation page at once.
        if count <= 8 {
            for lpn in lpns.map(Lpn) {
                if self.needs_room() {
                    self.make_room(flash)?;
                }
                self.modifying = lpn.0;
                let slot = self.translate(flash, lpn)?;
                let old = self.cache.get(slot, lpn);
                if old != Ppn::NONE {
                    self.space.blocks.kill(old);
                    self.cache.set(slot, lpn, Ppn::NONE);
                    self.trimmed.insert(tvpn.0);
                }
            }
            // Few enough are left pending that a collection always has room to write them first.
            if self.durable_trim && self.trimmed.len() > MOST_DISCARDS {
                if self.needs_room() {
                    self.make_room(flash)?;
                }
                self.write_discards(flash)?;
            }
            return Ok(());
        }
        if self.needs_room() {
            self.make_room(flash)?;
        }
        let mut entries = core::mem::take(&mut self.entries);
        self.cache.clean_page(tvpn, &mut entries);
        let mut dead = Vec::new();
        let mask = flash.geometry().entries_per_page() - 1;
        let written = self.store.update(flash, &mut self.space, tvpn, true, Cause::TranslationUpdate, |words| {
            dead.clear();
            for &(lpn, ppn) in &entries {
                words[(lpn & mask) as usize] = ppn;
            }
            for lpn in lpns.clone() {
                let word = &mut words[(lpn & mask) as usize];
                if *word != Ppn::NONE.0 {
                    dead.push(Ppn(core::mem::replace(word, Ppn::NONE.0)));
                }
            }
        });
        if let Err(error) = written {
            self.soil(&entries);
            return Err(error);
        }
        self.counters.updates += 1;
        self.trimmed.remove(&tvpn.0);
        entries.clear();
        self.entries = entries;
        for lpn in lpns.map(Lpn) {
            if let Some(slot) = self.cache.find(lpn) {
                self.cache.set_clean(slot, lpn, Ppn::NONE);
            }
        }
        for ppn in dead {
            self.space.blocks.kill(ppn);
        }
        Ok(())
    }
}

impl<F: Flash> Ftl<F> for Dftl {
    fn format(
        flash: &mut F,
        logical_pages: u32,
        settings: &Settings,
    ) -> Result<Result<Self, Error<F::Fault>>, ConfigError> {
        let g = *flash.geometry();
        let plan = Self::check(&g, logical_pages, settings)?;
        let mut dftl = Dftl::blank(g, logical_pages, settings, &plan);
        let mut prepare = || {
            dftl.space.exclude_bad(flash)?;
            if settings.switch("init-tps") {
                for tvpn in (0..dftl.store.count()).map(Tvpn) {
                    dftl.update(flash, tvpn, &[], Cause::Metadata)?;
                }
            }
            Ok(())
        };
        Ok(prepare().map(|()| dftl))
    }

    fn mount(
        flash: &mut F,
        logical_pages: u32,
        settings: &Settings,
    ) -> Result<Result<(Self, MountReport), Error<F::Fault>>, ConfigError> {
        let plan = Self::check(flash.geometry(), logical_pages, settings)?;
        Ok(Self::mount_on(flash, logical_pages, settings, &plan, BTreeSet::new()))
    }

    #[inline]
    fn read<'f>(&'f mut self, flash: &'f mut F, lpn: Lpn) -> Result<Option<&'f F::User>, Error<F::Fault>> {
        self.fetch(flash, lpn)
    }

    fn is_mapped(&self, lpn: Lpn) -> Option<bool> {
        match self.cache.find(lpn) {
            Some(slot) => Some(self.cache.get(slot, lpn) != Ppn::NONE),
            // Without a translation page only the cache can hold entries.
            None => (self.store.at(self.store.locate(lpn.0).0) == Ppn::NONE).then_some(false),
        }
    }

    fn read_to_modify<'f>(&'f mut self, flash: &'f mut F, lpn: Lpn) -> Result<Option<&'f F::User>, Error<F::Fault>> {
        let data = self.fetch(flash, lpn)?;
        self.modifying = lpn.0;
        Ok(data)
    }

    #[inline]
    fn write(&mut self, flash: &mut F, lpn: Lpn, data: &F::User) -> Result<(), Error<F::Fault>> {
        if self.needs_room() {
            self.make_room(flash)?;
        }
        self.space.blocks.clock += 1;
        let slot = self.translate(flash, lpn)?;
        self.version += 1;
        let to = loop {
            let die = self.space.streams[DATA].turn();
            let to = self.space.page_on(flash, DATA, die)?;
            self.space.streams[DATA].advance();
            let oob = Oob::data(lpn, self.version, self.space.number());
            match flash.program(to, oob, Payload::User(data), Cause::Host) {
                Ok(()) => break to,
                Err(fault) if fault.kind() == FaultKind::ProgramFailed => self.space.abandon(to),
                Err(fault) => return Err(fault.into()),
            }
        };
        let old = self.cache.get(slot, lpn);
        self.cache.set(slot, lpn, to);
        if old != Ppn::NONE {
            self.space.blocks.kill(old);
        }
        Ok(())
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
        if !self.durable_trim {
            return Ok(());
        }
        if !self.trimmed.is_empty() && self.needs_room() {
            self.make_room(flash)?;
        }
        self.write_discards(flash)
    }

    fn idle(&mut self, flash: &mut F, copies: u32) -> Result<bool, Error<F::Fault>> {
        self.evacuate(flash)?;
        if self.space.blocks.free_total() > self.space.high {
            return Ok(false);
        }
        // Ahead of need, only victims that are at least half dead and within the budget are worth their copies.
        let half = flash.geometry().pages_per_block / 2;
        let limit = half.min(copies);
        let Some(victim) = self.choose().filter(|&victim| self.space.blocks.live_of(victim) <= limit) else {
            return Ok(false);
        };
        self.collect(flash, victim, Fate::Erase)?;
        Ok(true)
    }

    #[inline(always)]
    fn hint(&self, lpn: Lpn) {
        self.cache.prefetch(lpn);
    }

    fn memory(&self) -> Vec<(&'static str, u64)> {
        let mut out = vec![("translation directory", self.store.memory()), ("mapping cache", self.cache.memory())];
        out.extend(self.space.memory());
        out.push(("discarded entries", 4 + self.trimmed.len() as u64 * 4));
        out.push(("counters", 16));
        out
    }

    fn cache(&self) -> Option<CacheCounters> {
        Some(self.counters.cache)
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let c = &self.counters;
        vec![
            ("clean_evictions", c.clean_evictions),
            ("dirty_evictions", c.cache.writebacks),
            ("translation_loads", c.loads),
            ("translation_updates", c.updates),
            ("gc_data_victims", c.data_victims),
            ("gc_translation_victims", c.translation_victims),
            ("gc_data_copies", c.data_copies),
            ("gc_translation_copies", c.translation_copies),
        ]
    }

    fn reset_counters(&mut self) {
        self.counters = Counters::default();
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
        let mut expected = vec![0u32; g.block_count() as usize];
        for tvpn in (0..self.store.count()).map(Tvpn) {
            let at = self.store.at(tvpn);
            let first = tvpn.0 * g.entries_per_page();
            let range = first..self.logical_pages.min(first.saturating_add(g.entries_per_page()));
            let mut words = vec![Ppn::NONE.0; g.entries_per_page() as usize];
            if at != Ppn::NONE {
                let (oob, content) = flash.read(at, Cause::Recovery).map_err(failed)?;
                if oob.kind != Kind::Translation || oob.tvpn() != tvpn || !self.space.blocks.is_live(at) {
                    return Err(format!("the directory finds translation page {tvpn} at {at}, which holds {oob:?}"));
                }
                words.copy_from_slice(content.meta());
                expected[g.block_of(at).index()] += 1;
            }
            for lpn in range {
                let mut ppn = Ppn(words[(lpn - first) as usize]);
                if let Some(slot) = self.cache.find(Lpn(lpn)) {
                    let cached = self.cache.get(slot, Lpn(lpn));
                    if cached != ppn && !self.cache.is_entry_dirty(slot, Lpn(lpn)) {
                        return Err(format!("LPN {lpn} is clean in the cache as {cached}, but on flash as {ppn}"));
                    }
                    ppn = cached;
                }
                if ppn == Ppn::NONE {
                    continue;
                }
                self.space.audit_page(flash, Lpn(lpn), ppn, &mut expected)?;
            }
        }
        self.space.audit_counts(expected)
    }

    fn save(&self) -> Vec<u8> {
        let mut out = Saver::default();
        self.store.save(&mut out);
        self.cache.save(&mut out);
        self.space.save(&mut out);
        out.u32(self.trimmed.len() as u32);
        self.trimmed.iter().for_each(|&tvpn| out.u32(tvpn));
        out.u64(self.version);
        out.finish()
    }

    fn restore(geometry: &Geometry, logical_pages: u32, settings: &Settings, bytes: &[u8]) -> Self {
        let plan = Self::plan(geometry, logical_pages, settings).expect("the settings were accepted before");
        let mut dftl = Dftl::blank(*geometry, logical_pages, settings, &plan);
        let mut from = Loader::new(bytes);
        dftl.store.load(&mut from);
        dftl.cache.load(&mut from);
        dftl.space = dftl.space.load(settings, &mut from);
        let trimmed = from.u32();
        dftl.trimmed = (0..trimmed).map(|_| from.u32()).collect();
        dftl.version = from.u64();
        debug_assert!(from.is_done());
        dftl
    }
}

mod mount;
#[cfg(test)]
mod tests;

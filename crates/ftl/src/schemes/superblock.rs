//! `superblock`: neighbouring logical blocks share a few physical ones, and their page map is kept in spare areas.
//!
//! The problem: a block map is small, but ties each page to one place; a page map is free, but large. Superblock groups
//! N neighbouring logical blocks. Their pages may lie anywhere in the up to K blocks that the group has, so that a
//! collection inside a group needs no merge; RAM knows only which blocks these are, and for each logical block which of
//! their pages was written last. That page's spare area holds a directory, which leads to the leaves of the map, which
//! lie in the spare areas of the pages themselves (`parts/spare_map.rs`). Groups that are written to often hold more
//! blocks than the others.
//!
//! ```text
//!   LPN ─▶ logical block ─▶ newest page: slot 2, page 17 ─┐        superblock: slots 0 1 2 3 4 5 6 7
//!          2 B each                                       │                    blocks 9 4 7 – – 8 – –   4 B each
//!                       ┌─────────────────────────────────┘
//!                       ▼ spare area read             ▼ spare area read
//!             block 7, page 17: directory ──▶ block 9, page 3: leaf ──▶ the page: slot 5, page 60
//! ```
//!
//! # Structures
//!
//! RAM: for each superblock the K blocks, 4 B each, and the block that it fills with its next page, 3 B; for each
//! logical block 2 B; the last time that each superblock was written to (`reclaim = lru`), 8 B; `cache-maps` maps of
//! logical blocks. Flash: every page carries the list of the K blocks, a directory of its logical block and the leaf of
//! its group. With 64 pages in a block, leaves of 8 and 655,360 blocks these are 38 B; S2 counts 44 B with LPN, mark
//! and a byte more, of 64, and 56 B with 128 pages, which leaves too little for an error-correcting code.
//! `spare-layout` and `spare-ecc` say what has to fit; a device with less is refused.
//!
//! # Costs
//!
//! A read, or a program, and up to two reads of spare areas before it if the map is not in RAM. A collection reads the
//! maps of all N logical blocks, copies the live pages of one block, and erases it. A block in which nothing is live
//! costs an erase. Nothing is ever merged.
//!
//! # Space
//!
//! A device has a block for each logical block and at least two more. A superblock takes a block when its present one
//! is full, while it has fewer than K − 1 and more than one block is free; with K − 1 it collects instead, for K ≥ N +
//! 2 blocks hold at least a block of dead pages. The K-th slot and the last free block are for what a collection
//! copies: each copy is a write like any other, which the maps describe at once, so that a power cut leaves two blocks
//! which both hold what they say. If only one block is free, superblocks with more blocks than logical ones give some
//! back: their emptiest block is copied into the block that they fill, again and again. Such a superblock has at least
//! a block of dead pages; every step rids one block of its dead pages; so a block is gained before all are without.
//! Were there no such superblock, more than one block would be free.
//!
//! # Mounting
//!
//! The newest version of each page counts, wherever it is (`parts/holdings.rs`); the spare area of one page of each
//! block says which slot it has; the page programmed last of each logical block has the newest directory. The copies of
//! a collection that was cut short are given up if the maps say the same without them. Blocks that are partly filled
//! are not filled further: an erase that was cut short can leave a block which looks so.
//!
//! # Discards
//!
//! With `durable-trim` a discarded page is written anew, without data. Otherwise RAM remembers that it is discarded (4
//! B each) until it is written; it is copied along like a live one, since its spare area may hold a leaf that is
//! needed.
//!
//! # Departures
//!
//! Of the original (Kang et al. 2006) we know the description in S2 and its byte counts; how the maps are packed
//! follows from these. Hot and cold pages are not separated. The original limits a superblock to 8 blocks; here one of
//! these is set apart for collections. An erased block goes to the end of the list of free blocks, whoever had it.

use crate::parts::holdings::Holdings;
use crate::parts::pool::Pool;
use crate::parts::space::more_spare;
use crate::parts::spare_map::{self, BlockMap, Layout, MapCache, NULL};
use crate::{ConfigError, Error, Ftl, Loader, MountReport, Parameter, Range, Saver, Scheme, Settings, Value};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use flash::{Block, Cause, Collection, FaultKind, Flash, FlashFault, Geometry, Kind, Lpn, Oob, Payload, Ppn};

/// The row.
pub(super) static ROW: Scheme = Scheme {
    name: "superblock",
    summary: "groups of logical blocks share blocks; their page map is kept in spare areas",
    paper: "Kang et al. 2006 (Superblock FTL), as described in S2, sections 2.2.4 and 4.3",
    essay: include_str!("superblock.rs"),
    parameters: PARAMETERS,
    counters: &[
        ("map_hits", "pages found without reading a spare area"),
        ("map_misses", "pages that took the reading of one or two"),
        ("map_reads", "spare areas read for maps, collections included"),
        ("gc_victims", "blocks collected"),
        ("gc_dead", "of these, such that held no live page"),
        ("gc_copies", "live pages copied by collections"),
        ("reclaims", "times that a superblock had to give blocks back"),
        ("most_blocks", "the most blocks that a superblock had at the end of a collection or write"),
    ],
    phases: &[Cause::Host, Cause::DataGc, Cause::Metadata, Cause::Recovery],
    has_cache: false,
    keeps_data: true,
    state_version: 1,
};

const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "logical-blocks",
        summary: "neighbouring logical blocks of a superblock (N)",
        unit: "blocks",
        default: Value::Count(4),
        range: Range::Count(1, 6),
        source: "Kang et al. 2006; the limit of 8 blocks, two of them beyond N",
    },
    Parameter {
        name: "slots",
        summary: "the most blocks of a superblock (K), one of them for the target of a collection; at least N + 2",
        unit: "blocks",
        default: Value::Count(8),
        range: Range::Count(3, 8),
        source: "S2 section 4.3",
    },
    Parameter {
        name: "leaf",
        summary: "pages in a leaf of the map: larger ones take more of a spare area, smaller ones make the \
                  directory longer",
        unit: "pages",
        default: Value::Count(8),
        range: Range::Count(2, 8),
        source: "follows from the byte counts of S2",
    },
    Parameter {
        name: "reclaim",
        summary: "which superblock gives blocks back: the one written to longest ago, or with the most dead pages",
        unit: "",
        default: Value::Word("lru"),
        range: Range::Words(&["lru", "greedy"]),
        source: "ftlab",
    },
    CACHE_MAPS,
    spare_map::spare_layout("paper"),
    spare_map::SPARE_ECC,
    super::page::DURABLE_TRIM,
];

/// `cache-maps`: maps of logical blocks in RAM.
pub(super) const CACHE_MAPS: Parameter = Parameter {
    name: "cache-maps",
    summary: "maps of logical blocks kept in RAM, those used last: each saves up to two reads of spare areas",
    unit: "maps",
    default: Value::Count(16),
    range: Range::Count(0, 4096),
    source: "S2 section 4.2: 2 to 16",
};

/// No block.
const NONE: u32 = u32::MAX;
/// No block is being filled.
const CLOSED: u8 = u8::MAX;
/// Blocks that a device has beyond its logical ones: one for collections, one to begin a collection with.
const RESERVE: u32 = 2;
/// Bytes of a spare area in S2's sum beside the list and the tables: LPN, bad mark, and one more.
const PAPER_BYTES: u32 = 6;

/// The block that a superblock fills.
#[derive(Clone, Copy, Debug)]
struct Open {
    slot: u8,
    next: u16,
}

const SEALED: Open = Open { slot: CLOSED, next: 0 };

#[derive(Clone, Copy, Default, Debug)]
struct Counters {
    victims: u64,
    dead: u64,
    copies: u64,
    reclaims: u64,
    most: u64,
    /// Spare areas read for maps by collections.
    reads: u64,
}

/// See the module's description.
#[derive(Clone, Debug)]
pub struct Superblock {
    g: Geometry,
    logical_pages: u32,
    /// Logical blocks of a superblock.
    n: u32,
    /// Slots of a superblock.
    k: usize,
    pool: Pool,
    /// The block in each slot of each superblock.
    blocks: Vec<u32>,
    open: Vec<Open>,
    /// Where the newest page of each logical block lies.
    heads: Vec<u16>,
    /// When each superblock was written to last; empty if nobody asks.
    written: Vec<u64>,
    /// Superblocks with more blocks than logical blocks: found again from the others.
    rich: BTreeSet<u32>,
    cache: MapCache,
    durable_trim: bool,
    /// Pages that were discarded in RAM alone.
    discarded: BTreeSet<u32>,
    version: u64,
    counters: Counters,
}

impl Superblock {
    fn layout_of(g: &Geometry, settings: &Settings) -> Layout {
        let leaf = (settings.count("leaf") as u32).min(g.pages_per_block);
        Layout::spread(g.pages_per_block, leaf, settings.count("slots") as u32, g.block_count())
    }

    fn blank(g: Geometry, logical_pages: u32, settings: &Settings) -> Result<Superblock, ConfigError> {
        let (n, k) = (settings.count("logical-blocks") as u32, settings.count("slots") as usize);
        if k < n as usize + 2 {
            return Err(ConfigError {
                key: "slots",
                what: format!(
                    "{k} slots for {n} logical blocks: a block more is needed to write to, one to collect to"
                ),
                fix: format!("choose at least {}, or fewer logical-blocks", n + 2),
            });
        }
        let layout = Self::layout_of(&g, settings);
        layout.check(&g, settings, PAPER_BYTES, "spare-layout", || {
            "use fewer slots, smaller blocks, a weaker code (spare-ecc) or pages with more spare bytes".into()
        })?;
        let logical_blocks = logical_pages.div_ceil(g.pages_per_block);
        let least = logical_blocks + RESERVE;
        if g.block_count() < least {
            return Err(ConfigError {
                key: "spare",
                what: format!(
                    "{logical_blocks} logical blocks and {RESERVE} more to collect with need {least} blocks, and there \
                     are {}",
                    g.block_count()
                ),
                fix: more_spare(&g, logical_pages, u64::from(least)),
            });
        }
        let count = logical_blocks.div_ceil(n) as usize;
        Ok(Superblock {
            g,
            logical_pages,
            n,
            k,
            pool: Pool::new(g, settings),
            blocks: vec![NONE; count * k],
            open: vec![SEALED; count],
            heads: vec![NULL; logical_blocks as usize],
            written: vec![0; if settings.word("reclaim") == "lru" { count } else { 0 }],
            rich: BTreeSet::new(),
            cache: MapCache::new(layout, settings.count("cache-maps") as usize),
            durable_trim: settings.switch("durable-trim"),
            discarded: BTreeSet::new(),
            version: 0,
            counters: Counters::default(),
        })
    }

    // ---- addresses ---------------------------------------------------------------------------------------------

    /// Logical block and the page's place in it.
    #[inline(always)]
    fn split(&self, lpn: Lpn) -> (u32, u32) {
        (lpn.0 / self.g.pages_per_block, lpn.0 % self.g.pages_per_block)
    }

    /// The logical blocks of a superblock.
    fn lbns(&self, s: usize) -> core::ops::Range<u32> {
        let first = s as u32 * self.n;
        first..(first + self.n).min(self.heads.len() as u32)
    }

    /// The blocks of a superblock, by slot.
    #[inline(always)]
    fn slots(&self, s: usize) -> &[u32] {
        &self.blocks[s * self.k..][..self.k]
    }

    fn held(&self, s: usize) -> usize {
        self.slots(s).iter().filter(|&&block| block != NONE).count()
    }

    fn live(&self, s: usize) -> u32 {
        let held = self.slots(s).iter().filter(|&&block| block != NONE);
        held.map(|&block| self.pool.blocks.live_of(Block(block))).sum()
    }

    #[inline(always)]
    fn ppn(&self, s: usize, place: u16) -> Ppn {
        let (slot, page) = self.cache.layout().split(place);
        self.g.page(Block(self.slots(s)[slot]), page)
    }

    /// Takes the map of a page's logical block out of the cache, or reads what is needed of it.
    #[inline]
    fn find<F: Flash>(&mut self, flash: &mut F, lbn: u32, offset: u32) -> Result<BlockMap, Error<F::Fault>> {
        let Superblock { g, cache, blocks, heads, n, k, .. } = self;
        let slots = &blocks[(lbn / *n) as usize * *k..][..*k];
        let layout = *cache.layout();
        let ppn_of = |place| {
            let (slot, page) = layout.split(place);
            g.page(Block(slots[slot]), page)
        };
        Ok(cache.find(flash, lbn, offset, heads[lbn as usize], ppn_of, Cause::TranslationLoad)?)
    }

    // ---- blocks ------------------------------------------------------------------------------------------------

    fn note_blocks(&mut self, s: usize) {
        let held = self.held(s);
        self.counters.most = self.counters.most.max(held as u64);
        if held > self.lbns(s).len() {
            self.rich.insert(s as u32)
        } else {
            self.rich.remove(&(s as u32))
        };
    }

    /// Gives a superblock a free block to fill.
    fn open_block<F: Flash>(&mut self, flash: &mut F, s: usize) -> Result<(), Error<F::Fault>> {
        let slot = self.slots(s).iter().position(|&block| block == NONE).ok_or(Error::Full)?;
        let block = self.pool.take(flash)?;
        self.blocks[s * self.k + slot] = block.0;
        self.open[s] = Open { slot: slot as u8, next: 0 };
        self.note_blocks(s);
        Ok(())
    }

    /// Ends a block in which nothing is live.
    fn release<F: Flash>(&mut self, flash: &mut F, s: usize, slot: usize, cause: Cause) -> Result<(), Error<F::Fault>> {
        let block = Block(self.slots(s)[slot]);
        if usize::from(self.open[s].slot) == slot {
            self.open[s] = SEALED;
        }
        self.pool.dispose(flash, block, cause)?;
        self.blocks[s * self.k + slot] = NONE;
        self.note_blocks(s);
        Ok(())
    }

    /// Whether the block that a superblock fills has a page left.
    #[inline(always)]
    fn has_room(&self, s: usize) -> bool {
        self.open[s].slot != CLOSED && u32::from(self.open[s].next) < self.g.pages_per_block
    }

    /// Makes room for a host page.
    fn make_room<F: Flash>(&mut self, flash: &mut F, s: usize) -> Result<(), Error<F::Fault>> {
        if self.has_room(s) {
            return Ok(());
        }
        self.open[s] = SEALED;
        let live = |block: u32| self.pool.blocks.live_of(Block(block));
        if let Some(slot) = self.slots(s).iter().position(|&block| block != NONE && live(block) == 0) {
            self.collect(flash, s, slot)?;
        }
        self.reclaim(flash)?;
        if self.has_room(s) {
            return Ok(());
        }
        if self.held(s) + 1 < self.k {
            return self.open_block(flash, s);
        }
        let victim = self.victim(s).ok_or(Error::Full)?;
        self.collect(flash, s, victim)?;
        if self.has_room(s) { Ok(()) } else { self.open_block(flash, s) }
    }

    /// Has superblocks give blocks back until more than one is free.
    fn reclaim<F: Flash>(&mut self, flash: &mut F) -> Result<(), Error<F::Fault>> {
        while self.pool.free() < RESERVE {
            let order = |&&s: &&u32| match self.written.get(s as usize) {
                Some(&written) => written,
                None => {
                    let all = self.held(s as usize) as u32 * self.g.pages_per_block;
                    u64::MAX - u64::from(all - self.live(s as usize))
                }
            };
            let s = *self.rich.iter().min_by_key(order).ok_or(Error::Full)? as usize;
            self.counters.reclaims += 1;
            while self.pool.free() < RESERVE && self.rich.contains(&(s as u32)) {
                let victim = self.victim(s).ok_or(Error::Full)?;
                self.collect(flash, s, victim)?;
            }
        }
        Ok(())
    }

    /// The block of a superblock with the fewest live pages, if it has a dead one; that which is being filled only if
    /// there is no other.
    fn victim(&self, s: usize) -> Option<usize> {
        let filled = usize::from(self.open[s].slot);
        let candidates = self.slots(s).iter().enumerate().filter(|&(_, &block)| block != NONE);
        let candidates =
            candidates.map(|(slot, &block)| (slot == filled, self.pool.blocks.live_of(Block(block)), slot));
        let (_, _, slot) = candidates.filter(|&(_, live, _)| live < self.g.pages_per_block).min()?;
        Some(slot)
    }

    /// Copies the live pages of a block to where its superblock writes, and erases it.
    fn collect<F: Flash>(&mut self, flash: &mut F, s: usize, slot: usize) -> Result<(), Error<F::Fault>> {
        if usize::from(self.open[s].slot) == slot {
            self.open[s] = SEALED;
        }
        let live = self.pool.blocks.live_of(Block(self.slots(s)[slot]));
        self.counters.victims += 1;
        self.counters.dead += u64::from(live == 0);
        let mut gc = Collection::on(flash);
        if live > 0 {
            // Maps that are in RAM already are brought up to date there; the others are forgotten afterwards.
            let lbns = self.lbns(s);
            let mut maps: Vec<BlockMap> = lbns.clone().map(|lbn| self.map_of(lbn)).collect();
            let moved = self.move_out(&mut *gc, s, slot, &mut maps);
            for (lbn, map) in lbns.zip(maps) {
                if let Some(cached) = self.cache.get_mut(lbn) {
                    *cached = map;
                }
            }
            moved?;
        }
        gc.then();
        self.release(&mut *gc, s, slot, Cause::DataGc)
    }

    fn map_of(&self, lbn: u32) -> BlockMap {
        self.cache.get(lbn).cloned().unwrap_or_else(|| BlockMap::unknown(self.cache.layout()))
    }

    fn move_out<F: Flash>(
        &mut self,
        flash: &mut F,
        s: usize,
        slot: usize,
        maps: &mut [BlockMap],
    ) -> Result<(), Error<F::Fault>> {
        let layout = *self.cache.layout();
        let mut pages: Vec<(u32, usize, u32)> = Vec::new();
        for (i, (lbn, map)) in self.lbns(s).zip(maps.iter_mut()).enumerate() {
            let head = self.heads[lbn as usize];
            let reads = map.fetch_all(&layout, flash, head, |place| self.ppn(s, place), Cause::DataGc)?;
            self.counters.reads += u64::from(reads);
            let here = map.pages().map(|(offset, place)| (layout.split(place), offset));
            pages.extend(here.filter(|&((of, _), _)| of == slot).map(|((_, page), offset)| (page, i, offset)));
        }
        pages.sort_unstable();
        let block = Block(self.slots(s)[slot]);
        let first = self.lbns(s).start;
        for (page, i, offset) in pages {
            let from = self.g.page(block, page);
            self.append(flash, first + i as u32, offset, &mut maps[i], |flash, to, program| {
                flash.copy(from, to, Cause::DataGc, |oob, _| oob.program = program).map(|_| ())
            })?;
            self.counters.copies += 1;
        }
        Ok(())
    }

    /// Programs a page where its superblock writes, with its maps. `map` has its leaf.
    fn append<F: Flash>(
        &mut self,
        flash: &mut F,
        lbn: u32,
        offset: u32,
        map: &mut BlockMap,
        mut program: impl FnMut(&mut F, Ppn, u64) -> Result<(), F::Fault>,
    ) -> Result<(), Error<F::Fault>> {
        let (s, layout) = ((lbn / self.n) as usize, *self.cache.layout());
        loop {
            if !self.has_room(s) {
                self.open_block(flash, s)?;
            }
            let Open { slot, next } = self.open[s];
            self.open[s].next += 1;
            let place = layout.place(slot.into(), next.into());
            let before = map.set(&layout, offset, place);
            let listed = self.slots(s).iter().map(|&block| block.min(self.g.block_count()));
            let bytes = layout.encode(listed, map, offset, place);
            let to = self.ppn(s, place);
            flash.stage_spare(to, &bytes);
            match program(flash, to, self.pool.number()) {
                Ok(()) => {
                    if before.0 != NULL {
                        let old = self.ppn(s, before.0);
                        self.pool.blocks.kill(old);
                    }
                    self.pool.blocks.revive(to);
                    self.heads[lbn as usize] = place;
                    return Ok(());
                }
                Err(fault) => {
                    map.undo(&layout, offset, before);
                    if fault.kind() != FaultKind::ProgramFailed {
                        return Err(fault.into());
                    }
                    self.pool.fail(self.g.block_of(to));
                    self.open[s] = SEALED;
                }
            }
        }
    }

    /// Moves what blocks hold that failed a program, and marks them bad.
    fn tidy<F: Flash>(&mut self, flash: &mut F) -> Result<(), Error<F::Fault>> {
        while let Some(&block) = self.pool.failed.last() {
            let at = self.blocks.iter().position(|&other| other == block.0).expect("it has a slot until it is marked");
            self.collect(flash, at / self.k, at % self.k)?;
        }
        Ok(())
    }

    /// Writes a page: data, or nothing where it is discarded durably.
    fn put<F: Flash>(&mut self, flash: &mut F, lpn: Lpn, data: Option<&F::User>) -> Result<(), Error<F::Fault>> {
        if !self.pool.failed.is_empty() {
            self.tidy(flash)?;
        }
        let (lbn, offset) = self.split(lpn);
        let s = (lbn / self.n) as usize;
        self.pool.blocks.clock += 1;
        self.version += 1;
        self.make_room(flash, s)?;
        let mut map = self.find(flash, lbn, offset)?;
        let oob = Oob::data(lpn, self.version, 0);
        let result = self.append(flash, lbn, offset, &mut map, |flash, to, program| match data {
            Some(data) => flash.program(to, Oob { program, ..oob }, Payload::User(data), Cause::Host),
            None => {
                let oob = Oob { kind: Kind::Trim, program, ..oob };
                flash.program(to, oob, Payload::Meta(&[]), Cause::Metadata)
            }
        });
        self.cache.put(lbn, map);
        result?;
        if let Some(written) = self.written.get_mut(s) {
            *written = self.pool.blocks.clock;
        }
        if !self.discarded.is_empty() {
            self.discarded.remove(&lpn.0);
        }
        Ok(())
    }

    /// Where a page lies.
    #[inline]
    fn look_up<F: Flash>(&mut self, flash: &mut F, lpn: Lpn) -> Result<Option<Ppn>, Error<F::Fault>> {
        let (lbn, offset) = self.split(lpn);
        if self.heads[lbn as usize] == NULL || (!self.discarded.is_empty() && self.discarded.contains(&lpn.0)) {
            return Ok(None);
        }
        let map = self.find(flash, lbn, offset)?;
        let place = map.at(offset);
        self.cache.put(lbn, map);
        Ok((place != NULL).then(|| self.ppn((lbn / self.n) as usize, place)))
    }

    // ---- mounting ----------------------------------------------------------------------------------------------

    fn lpns(&self, lbn: u32) -> core::ops::Range<u32> {
        let first = lbn * self.g.pages_per_block;
        first..(first + self.g.pages_per_block).min(self.logical_pages)
    }

    /// Notes in which slot each block is that holds some of these pages; `slot_of` has what is known already.
    fn find_slots<F: Flash>(
        &self,
        flash: &mut F,
        pages: impl Iterator<Item = Ppn>,
        slot_of: &mut [u8],
    ) -> Result<(), Error<F::Fault>> {
        for ppn in pages {
            let block = self.g.block_of(ppn);
            if slot_of[block.index()] == CLOSED {
                flash.read_oob(ppn, Cause::Recovery)?;
                let listed = |slot: &usize| self.cache.layout().listed_block(flash.spare(ppn), *slot);
                let own = (0..self.k).find(|slot| listed(slot) == block.0);
                slot_of[block.index()] = own.unwrap_or_else(|| panic!("page {ppn} does not list its own block")) as u8;
            }
        }
        Ok(())
    }

    /// Whether the maps in spare areas say of a superblock what was found. They may not if a block was given up: where
    /// the erase of the block that its pages were copied from had begun, earlier copies may be left, and these are not
    /// what the maps name.
    fn maps_agree<F: Flash>(&self, flash: &mut F, found: &Holdings, s: usize) -> Result<bool, Error<F::Fault>> {
        let layout = *self.cache.layout();
        let mut slot_of: Vec<u8> = vec![CLOSED; self.g.block_count() as usize];
        let pages = || self.lbns(s).flat_map(|lbn| self.lpns(lbn)).filter_map(|lpn| found.page(Lpn(lpn)));
        self.find_slots(flash, pages(), &mut slot_of)?;
        let place_of = |ppn| layout.place(slot_of[self.g.block_of(ppn).index()].into(), self.g.offset_of(ppn));
        let places: BTreeMap<u16, Ppn> = pages().map(|ppn| (place_of(ppn), ppn)).collect();
        for lbn in self.lbns(s) {
            let Some(head) = found.head(self.lpns(lbn)) else { continue };
            let mut map = BlockMap::unknown(&layout);
            // A page that holds nothing that counts is not read: the map that names it is wrong.
            let ppn_of = |place: u16| places.get(&place).copied().unwrap_or(head);
            map.fetch_all(&layout, flash, place_of(head), ppn_of, Cause::Recovery)?;
            let said = |lpn: u32| Some(map.at(lpn % layout.pages)).filter(|&place| place != NULL);
            if self.lpns(lbn).any(|lpn| found.page(Lpn(lpn)).map(place_of) != said(lpn)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn mount_on<F: Flash>(mut self, flash: &mut F) -> Result<(Self, MountReport), Error<F::Fault>> {
        let g = self.g;
        let mut found = Holdings::take(flash, self.logical_pages)?;
        let in_it = |block| found.pages().find(|&(_, ppn)| g.block_of(ppn) == block);
        let unfinished = found.unfinished(&g).and_then(|block| Some((block, in_it(block)?.0)));
        if let Some((block, lpn)) = unfinished {
            let mut without = found.clone();
            without.give_up(block, &g);
            if self.maps_agree(flash, &without, (self.split(lpn).0 / self.n) as usize)? {
                found = without;
            }
        }
        self.pool.adopt(flash, &found)?;
        self.version = found.census.max_version;
        let layout = *self.cache.layout();
        let mut slot_of: Vec<u8> = vec![CLOSED; g.block_count() as usize];
        self.find_slots(flash, found.pages().map(|(_, ppn)| ppn), &mut slot_of)?;
        for (lpn, ppn) in found.pages() {
            self.pool.blocks.revive(ppn);
            let (block, s) = (g.block_of(ppn), (self.split(lpn).0 / self.n) as usize);
            let slot = slot_of[block.index()];
            let held = &mut self.blocks[s * self.k + usize::from(slot)];
            assert!([NONE, block.0].contains(held), "blocks {held} and {block} are both in slot {slot} of group {s}");
            *held = block.0;
        }
        for lbn in 0..self.heads.len() as u32 {
            if let Some(ppn) = found.head(self.lpns(lbn)) {
                let slot = slot_of[g.block_of(ppn).index()];
                self.heads[lbn as usize] = layout.place(slot.into(), g.offset_of(ppn));
            }
        }
        (0..self.open.len()).for_each(|s| self.note_blocks(s));
        Ok((self, found.report()))
    }
}

impl<F: Flash> Ftl<F> for Superblock {
    fn format(
        flash: &mut F,
        logical_pages: u32,
        settings: &Settings,
    ) -> Result<Result<Self, Error<F::Fault>>, ConfigError> {
        let mut superblock = Self::blank(*flash.geometry(), logical_pages, settings)?;
        flash.reserve_spare(superblock.cache.layout().bytes());
        Ok(superblock.pool.exclude_bad(flash).map(|()| superblock))
    }

    fn mount(
        flash: &mut F,
        logical_pages: u32,
        settings: &Settings,
    ) -> Result<Result<(Self, MountReport), Error<F::Fault>>, ConfigError> {
        let superblock = Self::blank(*flash.geometry(), logical_pages, settings)?;
        flash.reserve_spare(superblock.cache.layout().bytes());
        Ok(superblock.mount_on(flash))
    }

    #[inline]
    fn read<'f>(&mut self, flash: &'f mut F, lpn: Lpn) -> Result<Option<&'f F::User>, Error<F::Fault>> {
        let Some(ppn) = self.look_up(flash, lpn)? else { return Ok(None) };
        let (oob, data) = flash.read(ppn, Cause::Host)?;
        Ok(if oob.kind == Kind::Trim { None } else { Some(data.user()) })
    }

    fn is_mapped(&self, lpn: Lpn) -> Option<bool> {
        let absent = self.heads[self.split(lpn).0 as usize] == NULL || self.discarded.contains(&lpn.0);
        absent.then_some(false)
    }

    #[inline]
    fn write(&mut self, flash: &mut F, lpn: Lpn, data: &F::User) -> Result<(), Error<F::Fault>> {
        self.put(flash, lpn, Some(data))
    }

    fn trim(&mut self, flash: &mut F, first: Lpn, count: u32) -> Result<(), Error<F::Fault>> {
        for lpn in (first.0..first.0 + count).map(Lpn) {
            if self.heads[self.split(lpn).0 as usize] == NULL {
                continue;
            }
            if !self.durable_trim {
                self.discarded.insert(lpn.0);
                continue;
            }
            let Some(at) = self.look_up(flash, lpn)? else { continue };
            if flash.read_oob(at, Cause::Metadata)?.is_some_and(|oob| oob.kind != Kind::Trim) {
                self.put(flash, lpn, None)?;
            }
        }
        Ok(())
    }

    fn flush(&mut self, _: &mut F) -> Result<(), Error<F::Fault>> {
        Ok(())
    }

    fn idle(&mut self, flash: &mut F, _: u32) -> Result<bool, Error<F::Fault>> {
        self.tidy(flash)?;
        Ok(false)
    }

    fn memory(&self) -> Vec<(&'static str, u64)> {
        let superblocks = self.open.len() as u64;
        let mut out = vec![
            ("blocks of superblocks", superblocks * (self.k as u64 * 4 + 3)),
            ("newest pages of logical blocks", self.heads.len() as u64 * 2),
            ("recency of superblocks", self.written.len() as u64 * 8),
            ("cached maps", self.cache.memory()),
            ("discarded pages", 4 + self.discarded.len() as u64 * 4),
        ];
        out.extend(self.pool.memory());
        out.push(("version", 8));
        out
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let Counters { victims, dead, copies, reclaims, most, reads } = self.counters;
        vec![
            ("map_hits", self.cache.hits),
            ("map_misses", self.cache.misses),
            ("map_reads", self.cache.reads + reads),
            ("gc_victims", victims),
            ("gc_dead", dead),
            ("gc_copies", copies),
            ("reclaims", reclaims),
            ("most_blocks", most),
        ]
    }

    fn reset_counters(&mut self) {
        self.counters = Counters::default();
        (self.cache.hits, self.cache.misses, self.cache.reads) = (0, 0, 0);
    }

    fn erase_counts(&self) -> &[u32] {
        self.pool.blocks.erase_counts()
    }

    fn free_blocks(&self) -> u32 {
        self.pool.free()
    }

    fn audit(&self, flash: &mut F) -> Result<(), String> {
        let layout = *self.cache.layout();
        let mut expected = vec![0; self.g.block_count() as usize];
        for lbn in 0..self.heads.len() as u32 {
            let s = (lbn / self.n) as usize;
            let mut map = BlockMap::unknown(&layout);
            let fetched =
                map.fetch_all(&layout, flash, self.heads[lbn as usize], |place| self.ppn(s, place), Cause::Recovery);
            fetched.map_err(|fault| format!("{fault:?}"))?;
            for (offset, place) in map.pages() {
                let (lpn, ppn) = (lbn * self.g.pages_per_block + offset, self.ppn(s, place));
                let oob = flash.read_oob(ppn, Cause::Recovery).map_err(|fault| format!("{fault:?}"))?;
                if !oob.is_some_and(|oob| oob.address == lpn && matches!(oob.kind, Kind::Data | Kind::Trim)) {
                    return Err(format!("LPN {lpn} maps to page {ppn}, which holds {oob:?}"));
                }
                if !self.pool.blocks.is_live(ppn) {
                    return Err(format!("LPN {lpn} maps to page {ppn}, which is dead"));
                }
                expected[self.g.block_of(ppn).index()] += 1;
                if self.cache.get(lbn).is_some_and(|cached| cached.has(&layout, offset) && cached.at(offset) != place) {
                    return Err(format!("the cached map of LPN {lpn} is not what its spare areas say"));
                }
            }
        }
        for (block, &live) in expected.iter().enumerate() {
            let counted = self.pool.blocks.live_of(Block(block as u32));
            if counted != live {
                return Err(format!("block {block} counts {counted} live pages, but {live} are mapped"));
            }
        }
        let mut held: Vec<u32> = self.blocks.iter().copied().filter(|&block| block != NONE).collect();
        let in_slots = held.len();
        held.sort_unstable();
        held.dedup();
        let accounted = held.len() as u32 + self.pool.free() + self.pool.blocks.bad_count();
        if held.len() != in_slots || accounted != self.g.block_count() {
            return Err(format!("{in_slots} slots hold {} blocks; {accounted} are accounted for", held.len()));
        }
        Ok(())
    }

    fn save(&self) -> Vec<u8> {
        let mut out = Saver::default();
        self.blocks.iter().for_each(|&block| out.u32(block));
        for open in &self.open {
            out.u8(open.slot);
            out.u16(open.next);
        }
        self.heads.iter().for_each(|&head| out.u16(head));
        self.written.iter().for_each(|&written| out.u64(written));
        self.cache.save(&mut out);
        out.u32(self.discarded.len() as u32);
        self.discarded.iter().for_each(|&lpn| out.u32(lpn));
        self.pool.save(&mut out);
        out.u64(self.version);
        out.finish()
    }

    fn restore(geometry: &Geometry, logical_pages: u32, settings: &Settings, bytes: &[u8]) -> Self {
        let blank = Self::blank(*geometry, logical_pages, settings);
        let mut superblock = blank.expect("the settings fitted when it was saved");
        let mut from = Loader::new(bytes);
        superblock.blocks.iter_mut().for_each(|block| *block = from.u32());
        superblock.open.iter_mut().for_each(|open| *open = Open { slot: from.u8(), next: from.u16() });
        superblock.heads.iter_mut().for_each(|head| *head = from.u16());
        superblock.written.iter_mut().for_each(|written| *written = from.u64());
        superblock.cache.load(&mut from);
        superblock.discarded = (0..from.u32()).map(|_| from.u32()).collect();
        superblock.pool = Pool::load(*geometry, settings, &mut from);
        superblock.version = from.u64();
        (0..superblock.open.len()).for_each(|s| superblock.note_blocks(s));
        superblock.counters = Counters::default();
        debug_assert!(from.is_done());
        superblock
    }
}

#[cfg(test)]
mod tests;

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
//! RAM: for each superblock the K blocks, 4 B each, and the blocks that it fills, with their next pages, 3 B each; for
//! each logical block 2 B; the last time that each superblock was written to (`reclaim = lru`), 8 B; `cache-maps` maps
//! of logical blocks. Flash: every page carries the list of the K blocks, a directory of its logical block and the leaf
//! of its group. With 64 pages in a block, leaves of 8 and 655,360 blocks these are 38 B; the ROSE thesis counts 44 B
//! with LPN, mark and a byte more, of 64, and 56 B with 128 pages, which leaves too little for an error-correcting
//! code. `spare-layout` and `spare-ecc` say what has to fit; a device with less is refused.
//!
//! With `maps = pages` spare areas hold no maps, and there may be more than 8 slots. A map page for each superblock,
//! in a small log (superblock/maps.rs), has the maps of its logical blocks. RAM knows where each lies, 4 B, in place of
//! the 2 B for each logical block, and maps in RAM may be newer than on flash.
//!
//! # Costs
//!
//! A read, or a program, and up to two reads of spare areas before it if the map is not in RAM; with map pages one read
//! of a map page, and its writing anew, a read and a program, for a map that leaves RAM changed. A collection reads the
//! maps of all N logical blocks, copies the live pages of one block, and erases it. A block in which nothing is live
//! costs an erase. Nothing is ever merged.
//!
//! # Space
//!
//! A device has a block for each logical block, two more, and what the log of map pages takes. A superblock takes a
//! block when its present one is full, while it has fewer than K − 1, more than one block is free, and superblocks have
//! fewer than `update-blocks` beyond their logical ones. With K − 1 it collects instead, for K ≥ N + 2 blocks hold at
//! least a block of dead pages. The K-th slot and the last free block are for what a collection copies: each copy is a
//! write like any other, which the maps describe at once, so that a power cut leaves two blocks which both hold what
//! they say.
//!
//! Otherwise a superblock that has h blocks for N logical ones, h > N, gives one back. *It does so after at most h
//! collections.* The victim is the block with the fewest live pages among those that have a dead or blank one, the
//! block being filled only if there is no other. What is filled on the way takes live pages alone, and is no victim
//! when it is full: so each of the h blocks is a victim once at the most. When there is no victim but the block being
//! filled, the others are full of live pages, and there are N of them, for there are no more pages and no fewer blocks:
//! so that block holds nothing, and its erase gives it back. Such a round ends with a block more, and a page takes one
//! of them; after a mount, or where blocks went bad, perhaps more.
//!
//! With hot and cold apart (`hot-cold`) two blocks are being filled, and copies go to the second alone. As victims the
//! host's comes behind all others, and the second last. Again each of the h blocks is a victim once at the most, for
//! what is filled on the way takes live pages alone; and where the second is the only victim left, the others are full
//! of live pages, and it holds nothing. A superblock of K − 1 blocks collects until it has fewer, so that the host gets
//! a block of its own: when all were victims it has N at the most, and K ≥ N + 2.
//!
//! Where programs fail a round may take longer, up to 2
//! K collections, after which the device is full. Were there no superblock with h > N, more than one block would be
//! free and no update block in use. A map in which a live page of the victim is missing is a corrupt one, and the
//! request is given up: to go on would lose the page.
//!
//! All this is said of what flash holds. With several commands under way it may be behind: so a block that the host
//! writes to is begun when the collections before it have ended, for a power cut that left their victims in use, and
//! that block too, would leave none to collect with. A block for what is kept waits for them where the blocks that they
//! gave back, were they still in use, would leave no slot of the superblock or no free block.
//!
//! What a round costs is what the space allows: with nothing to spare a block is copied for each page that goes to
//! another superblock than the one before.
//!
//! # Mounting
//!
//! The newest version of each page counts, wherever it is, and copies of a collection that was cut short are given up
//! (`parts/copies.rs`, superblock/mount.rs). The spare area of the page of a superblock that was programmed last says
//! which slot each block has, and the page programmed last of each logical block has the newest directory. Maps are
//! compared with what was found, and one that differs stays in RAM as found until every leaf was programmed anew.
//! Blocks that are partly filled are not filled further: an erase that was cut short can leave a block which looks so.
//!
//! # Discards
//!
//! With `durable-trim` a discarded page is written anew, without data. Otherwise RAM remembers that it is discarded (4
//! B each) until it is written; it is copied along like a live one, since its spare area may hold a leaf that is
//! needed.
//!
//! # Departures
//!
//! Of the original (Kang et al. 2006) we know the description in the ROSE thesis and its byte counts; how the maps are
//! packed follows from these. The DFTL paper says that it separates hot and cold data within a superblock, and not how:
//! that what collections keep counts as cold is a reconstruction (`hot-cold`). The original limits a superblock to 8
//! blocks; here one of these is set apart for collections. Map pages are ours. An erased block goes to the list of free
//! blocks, whoever had it. Wear levelling is that of the other schemes (superblock/levelling.rs).

use crate::parts::census::mount_through;
use crate::parts::map_log::MapLog;
use crate::parts::pool::Pool;
use crate::parts::space::more_spare;
use crate::parts::spare_map::BlockSlot;
use crate::parts::spare_map::{Layout, MapCache, NULL, SPARE_ECC, SPARE_LAYOUT};
use crate::parts::supply;
use crate::parts::tombstones::{self, DURABLE_TRIM};
use crate::parts::wear_state;
use crate::{Build, Built, ConfigError, Error, Ftl, Loader, MountReport, Outcome, Parameter};
use crate::{Scheme, Settings, Value};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use flash::{Block, Cause, Chain, Flash, Geometry, Kind, Lbn, Lpn, Ppn};

mod blocks;
mod collection;
mod inspect;
mod levelling;
mod maps;
mod mount;
mod pages;

/// The row.
pub(super) static ROW: Scheme = Scheme {
    name: "superblock",
    summary: "groups of logical blocks share blocks; their page map is kept in spare areas",
    paper: "{superblock}, as described in {rose}, sections 2.2.4 and 4.3",
    essay: include_str!("superblock.rs"),
    own: &[
        LOGICAL_BLOCKS,
        SLOTS,
        MAPS,
        LEAF,
        UPDATE_BLOCKS,
        RECLAIM,
        HOT_COLD,
        CACHE_MAPS,
        SPARE_LAYOUT.at(Value::Word("paper")),
        SPARE_ECC,
    ],
    parts: &[supply::GROUP, tombstones::GROUP],
    fixed: &[],
    counters: &[&[
        ("map_hits", "pages found without reading a spare area or a map page"),
        ("map_misses", "pages that took the reading of one or two spare areas, or of a map page"),
        ("map_reads", "spare areas or map pages read for maps, collections included"),
        ("map_writes", "map pages written"),
        ("map_victims", "blocks of map pages collected"),
        ("gc_victims", "blocks of data collected"),
        ("gc_dead", "of these, such that held no live page"),
        ("gc_copies", "live pages copied by collections"),
        ("reclaims", "times that a superblock had to give blocks back"),
        ("most_blocks", "the most blocks that a superblock had at the end of a collection or write"),
    ]],
    phases: &[
        Cause::Host,
        Cause::TranslationUpdate,
        Cause::TranslationGc,
        Cause::DataGc,
        Cause::WearLevelling,
        Cause::Metadata,
        Cause::Recovery,
    ],
    has_cache: false,
    keeps_data: true,
    state_version: 3,
};

/// `logical-blocks`.
const LOGICAL_BLOCKS: Parameter = Parameter::count("logical-blocks", 4, 1..=32)
    .unit("blocks")
    .text("Neighbouring logical blocks of a superblock (N). More share spare blocks better and need larger maps.")
    .source("{superblock}");

/// `slots`.
const SLOTS: Parameter = Parameter::count("slots", 8, 3..=64)
    .unit("blocks")
    .text(
        "Most blocks of a superblock (K), one of them for the target of a collection; at least N + 2. More delay \
         collections and need larger maps.",
    )
    .source("{rose}, section 4.3: at most 8, for want of spare room");

/// `maps`.
const MAPS: Parameter = Parameter::word("maps", "spare", &["spare", "pages"])
    .text(
        "Where maps are kept. spare: in the spare areas of the pages. pages: in map pages of their own, one for \
         each superblock, which cost programs.",
    )
    .source("spare: {superblock}; pages: ftlab");

/// `leaf`.
const LEAF: Parameter = Parameter::count("leaf", 8, 2..=8)
    .unit("pages")
    .text("Pages in a leaf of the map. More take more of a spare area; fewer make the directory longer.")
    .source("follows from the byte counts of {rose}");

/// `update-blocks`.
const UPDATE_BLOCKS: Parameter = Parameter::count("update-blocks", 0, 0..=1 << 27)
    .unit("blocks")
    .text(
        "Most blocks that superblocks have beyond their logical ones, all together. More delay collections. 0 \
         stands for all that the logical size leaves.",
    )
    .source("{rose}: 2.5 % of all blocks");

/// `reclaim`.
const RECLAIM: Parameter = Parameter::word("reclaim", "lru", &["lru", "greedy"])
    .text(
        "Which superblock gives blocks back. lru: the one written to longest ago. greedy: the one with the fewest \
         live pages for each block beyond its logical ones.",
    )
    .source("ftlab");

/// `hot-cold`.
const HOT_COLD: Parameter = Parameter::switch("hot-cold", true)
    .text(
        "What collections keep goes to blocks of its own, apart from what the host writes. On lets blocks die whole \
         where few pages are rewritten often and blocks are to spare; it takes a block more of each superblock, which \
         costs collections and erases where there are few. Off fills one block with both.",
    )
    .source("{dftl}, section 2: hot and cold data are separated within the superblock; how is reconstructed");

/// `cache-maps`: maps of logical blocks in RAM.
pub(super) const CACHE_MAPS: Parameter = Parameter::count("cache-maps", 16, 0..=4096)
    .unit("maps")
    .text(
        "Maps of logical blocks kept in RAM, those used last. Each saves up to two reads of spare areas, or one of a \
         map page.",
    )
    .source("{rose}, section 4.2: 2 to 16");

/// No block.
const NONE: u32 = u32::MAX;
/// No block is being filled.
const CLOSED: BlockSlot = BlockSlot(u8::MAX);
/// Blocks that a device has beyond its logical ones: one for collections, one to begin a collection with.
const RESERVE: u32 = 2;

/// The same on a device that is formatted: on each die power may cut a collection short, so there are as many as dies.
fn reserve(g: &Geometry) -> u32 {
    if g.die_count() > RESERVE { g.die_count() } else { RESERVE }
}
/// Bytes of a spare area in the ROSE thesis's sum beside the list and the tables: LPN, bad mark, and one more.
const PAPER_BYTES: u32 = 6;

/// Number of a superblock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Super(u32);

impl Super {
    /// As an array index.
    #[inline(always)]
    const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The block that a superblock fills.
#[derive(Clone, Copy, Debug)]
struct Open {
    slot: BlockSlot,
    next: u16,
}

const SEALED: Open = Open { slot: CLOSED, next: 0 };

/// What a block is filled with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stream {
    /// What the host writes.
    Host,
    /// What collections keep; the same block if hot and cold are not apart.
    Kept,
}

#[derive(Clone, Copy, Default, Debug)]
struct Counters {
    victims: u64,
    dead: u64,
    copies: u64,
    reclaims: u64,
    most: u64,
    /// Spare areas and map pages read for maps by collections.
    reads: u64,
    /// Map pages written.
    writes: u64,
}

/// See the module's description.
#[derive(Clone, Debug)]
pub struct Superblock {
    g: Geometry,
    logical_pages: u32,
    logical_blocks: u32,
    /// Logical blocks of a superblock.
    n: u32,
    /// Slots of a superblock.
    k: usize,
    pool: Pool,
    /// The block in each slot of each superblock.
    blocks: Vec<u32>,
    open: Vec<Open>,
    /// The block that each superblock fills with what collections keep; empty if that is the same.
    kept: Vec<Open>,
    /// Where the newest page of each logical block lies; empty with map pages.
    heads: Vec<u16>,
    /// The map pages, if maps are not in spare areas.
    log: Option<MapLog>,
    /// When each superblock was written to last; empty if nobody asks.
    written: Vec<u64>,
    /// Superblocks with more blocks than logical blocks: found again from the others.
    rich: BTreeSet<Super>,
    /// Blocks that superblocks have beyond their logical ones: found again, too.
    beyond: u32,
    /// How many there may be.
    most_beyond: u32,
    cache: MapCache,
    durable_trim: bool,
    /// Pages that were discarded in RAM alone.
    discarded: BTreeSet<u32>,
    version: u64,
    /// All collections, for who waits for them. Not saved: a medium that was restored has nothing under way.
    collected: Chain,
    /// How many blocks of each superblock these have given back since somebody waited for them: the erases may not be
    /// done. Not saved either.
    unsure: BTreeMap<Super, u32>,
    /// Superblocks in which one has begun the block that the host goes on with. Not saved either.
    shared: BTreeSet<Super>,
    counters: Counters,
}

impl Superblock {
    fn layout_of(g: &Geometry, settings: &Settings) -> Layout {
        let slots = settings.small(&SLOTS);
        if settings.word(&MAPS) == "pages" {
            return Layout::whole(g.pages_per_block, slots);
        }
        let leaf = (settings.small(&LEAF)).min(g.pages_per_block);
        Layout::spread(g.pages_per_block, leaf, slots, g.block_count())
    }

    fn blank(g: Geometry, logical_pages: u32, settings: &Settings) -> Result<Superblock, ConfigError> {
        let (n, k) = (settings.small(&LOGICAL_BLOCKS), settings.count(&SLOTS) as usize);
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
        let logical_blocks = logical_pages.div_ceil(g.pages_per_block);
        let count = logical_blocks.div_ceil(n);
        let log = if settings.word(&MAPS) == "pages" {
            maps::check(&g, n, &layout, settings.count(&CACHE_MAPS))?;
            Some(MapLog::new(g, count))
        } else {
            layout.check(&g, &settings.into(), PAPER_BYTES, "spare-layout", || {
                "use fewer slots, smaller blocks, a weaker code (spare-ecc), pages with more spare bytes, or maps=pages"
                    .into()
            })?;
            None
        };
        let for_maps = log.as_ref().map_or(0, MapLog::most_blocks);
        Self::check(&g, logical_pages, settings, for_maps, RESERVE)?;
        let (supply, asked) = (supply::Options::from(settings), settings.count(&UPDATE_BLOCKS));
        let superblocks = count as usize;
        let mut superblock = Superblock {
            g,
            logical_pages,
            logical_blocks,
            n,
            k,
            pool: Pool::new(g, &supply, false),
            blocks: vec![NONE; superblocks * k],
            open: vec![SEALED; superblocks],
            kept: vec![SEALED; if settings.switch(&HOT_COLD) { superblocks } else { 0 }],
            heads: vec![NULL; if log.is_some() { 0 } else { logical_blocks as usize }],
            log,
            written: vec![0; if settings.word(&RECLAIM) == "lru" { superblocks } else { 0 }],
            rich: BTreeSet::new(),
            beyond: 0,
            most_beyond: if asked == 0 { u32::MAX } else { asked as u32 },
            cache: MapCache::new(layout, settings.count(&CACHE_MAPS) as usize),
            durable_trim: settings.switch(&DURABLE_TRIM),
            discarded: BTreeSet::new(),
            version: 0,
            collected: Chain::COLLECTION,
            unsure: BTreeMap::new(),
            shared: BTreeSet::new(),
            counters: Counters::default(),
        };
        let own = superblock.own_bytes();
        superblock.pool.keep_own(own);
        Ok(superblock)
    }

    /// Whether a device has the blocks for its logical pages and its map pages, and `reserve` more.
    fn check(
        g: &Geometry,
        logical_pages: u32,
        settings: &Settings,
        for_maps: u32,
        reserve: u32,
    ) -> Result<(), ConfigError> {
        let logical_blocks = logical_pages.div_ceil(g.pages_per_block);
        let kept = logical_blocks + reserve + for_maps + supply::Options::from(settings).wear_state.blocks(g);
        if g.block_count() < kept {
            return Err(ConfigError {
                key: "spare",
                what: format!(
                    "{logical_blocks} logical blocks, {reserve} more to collect with and {for_maps} for map pages need \
                     {kept} blocks, and there are {}",
                    g.block_count()
                ),
                fix: more_spare(g, logical_pages, u64::from(kept)),
            });
        }
        let (asked, left) = (settings.count(&UPDATE_BLOCKS), g.block_count() - kept + 1);
        if asked > u64::from(left) {
            return Err(ConfigError {
                key: "update-blocks",
                what: format!("{asked} blocks beyond the logical ones, where the device leaves {left}"),
                fix: format!("choose 1 to {left}, or 0 for all that is left"),
            });
        }
        Ok(())
    }

    /// The same for a device, with what every spare area is to hold reserved there.
    fn on<F: Flash>(flash: &mut F, logical_pages: u32, settings: &Settings) -> Result<Superblock, ConfigError> {
        let superblock = Self::blank(*flash.geometry(), logical_pages, settings)?;
        wear_state::Options::from(settings).reserve(flash, superblock.own_bytes())?;
        Ok(superblock)
    }

    /// Logical block and the page's place in it.
    #[inline(always)]
    fn split(&self, lpn: Lpn) -> (Lbn, u32) {
        (Lbn(lpn.0 / self.g.pages_per_block), lpn.0 % self.g.pages_per_block)
    }

    /// The superblock of a logical block.
    #[inline(always)]
    fn super_of(&self, lbn: Lbn) -> Super {
        Super(lbn.0 / self.n)
    }

    /// All superblocks.
    fn all(&self) -> impl Iterator<Item = Super> + use<> {
        (0..self.open.len() as u32).map(Super)
    }

    /// The logical blocks of a superblock.
    fn lbns(&self, s: Super) -> impl ExactSizeIterator<Item = Lbn> + Clone + use<> {
        let first = s.0 * self.n;
        (first..(first + self.n).min(self.logical_blocks)).map(Lbn)
    }

    /// The blocks of a superblock, by slot.
    #[inline(always)]
    fn slots(&self, s: Super) -> &[u32] {
        &self.blocks[s.index() * self.k..][..self.k]
    }

    /// The block in a slot that is not empty.
    #[inline(always)]
    fn block(&self, s: Super, slot: BlockSlot) -> Block {
        Block(self.slots(s)[slot.index()])
    }

    fn block_mut(&mut self, s: Super, slot: BlockSlot) -> &mut u32 {
        &mut self.blocks[s.index() * self.k + slot.index()]
    }

    /// The first slot whose block is such.
    fn slot(&self, s: Super, is_such: impl Fn(u32) -> bool) -> Option<BlockSlot> {
        self.slots(s).iter().position(|&block| is_such(block)).map(|slot| BlockSlot(slot as u8))
    }

    fn held(&self, s: Super) -> usize {
        self.slots(s).iter().filter(|&&block| block != NONE).count()
    }

    fn live(&self, s: Super) -> u32 {
        let held = self.slots(s).iter().filter(|&&block| block != NONE);
        held.map(|&block| self.pool.blocks.live_of(Block(block))).sum()
    }

    /// The live page at a place of a map. Where flash is damaged, a map may name a page that the mount did not find.
    #[inline(always)]
    fn live_page(&self, s: Super, place: u16) -> Option<Ppn> {
        let layout = self.cache.layout();
        live_page(&self.g, &self.pool, layout, self.slots(s), place)
    }

    #[inline(always)]
    fn ppn(&self, s: Super, place: u16) -> Ppn {
        let (slot, page) = self.cache.layout().split(place);
        self.g.page(self.block(s, slot), page)
    }
}

/// The live page at a place of a superblock with these blocks in its slots.
#[inline(always)]
fn live_page(g: &Geometry, pool: &Pool, layout: &Layout, slots: &[u32], place: u16) -> Option<Ppn> {
    let (slot, page) = layout.split(place);
    let block = slots.get(slot.index()).copied().filter(|&block| block != NONE)?;
    Some(g.page(Block(block), page)).filter(|&ppn| pool.blocks.is_live(ppn))
}

impl<F: Flash> Build<F> for Superblock {
    fn format(flash: &mut F, logical_pages: u32, settings: &Settings) -> Built<F, Self> {
        let mut superblock = Self::on(flash, logical_pages, settings)?;
        // What was formatted is mounted, also where more would have to be kept free today.
        let (g, for_maps) = (superblock.g, superblock.log.as_ref().map_or(0, MapLog::most_blocks));
        Self::check(&g, logical_pages, settings, for_maps, reserve(&g))?;
        superblock.pool.exclude_bad(flash)?;
        Ok(superblock)
    }

    fn mount(flash: &mut F, logical_pages: u32, settings: &Settings) -> Built<F, (Self, MountReport)> {
        let g = *flash.geometry();
        Self::on(flash, logical_pages, settings)?;
        Ok(mount_through(flash, |flash, report| {
            Self::blank(g, logical_pages, settings).expect("just accepted").mount_on(flash, report)
        })?)
    }

    fn restore(geometry: &Geometry, logical_pages: u32, settings: &Settings, bytes: &[u8]) -> Self {
        let blank = Self::blank(*geometry, logical_pages, settings);
        let mut superblock = blank.expect("the settings fitted when it was saved");
        let mut from = Loader::new(bytes);
        superblock.blocks.iter_mut().for_each(|block| *block = from.u32());
        let filled = superblock.open.iter_mut().chain(&mut superblock.kept);
        filled.for_each(|open| *open = Open { slot: BlockSlot(from.u8()), next: from.u16() });
        superblock.heads.iter_mut().for_each(|head| *head = from.u16());
        superblock.written.iter_mut().for_each(|written| *written = from.u64());
        superblock.cache.load(&mut from);
        superblock.discarded = (0..from.u32()).map(|_| from.u32()).collect();
        superblock.log.iter_mut().for_each(|log| log.load(&mut from));
        superblock.pool.load(&mut from);
        superblock.version = from.u64();
        superblock.all().for_each(|s| superblock.note_blocks(s, 0));
        superblock.counters = Counters::default();
        debug_assert!(from.is_done());
        superblock
    }
}

impl<F: Flash> Ftl<F> for Superblock {
    #[inline]
    fn read<'f>(&mut self, flash: &'f mut F, lpn: Lpn) -> Outcome<F, Option<&'f F::User>> {
        let Some(ppn) = self.look_up(flash, lpn)? else { return Ok(None) };
        let (oob, data) = flash.read(ppn, Cause::Host)?;
        if oob.address != lpn.0 {
            return Err(Error::Corrupt);
        }
        if oob.kind == Kind::Trim { Ok(None) } else { data.host().map(Some).ok_or(Error::Corrupt) }
    }

    fn is_mapped(&self, lpn: Lpn) -> Option<bool> {
        let absent = self.is_unwritten(self.split(lpn).0) || self.discarded.contains(&lpn.0);
        absent.then_some(false)
    }

    #[inline]
    fn write(&mut self, flash: &mut F, lpn: Lpn, data: &F::User) -> Outcome<F> {
        self.put(flash, lpn, Some(data))
    }

    fn trim(&mut self, flash: &mut F, first: Lpn, count: u32) -> Outcome<F> {
        for lpn in (first.0..first.0 + count).map(Lpn) {
            if self.is_unwritten(self.split(lpn).0) {
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

    fn flush(&mut self, _: &mut F) -> Outcome<F> {
        Ok(())
    }

    fn idle(&mut self, flash: &mut F, _: u32) -> Outcome<F, bool> {
        self.tidy(flash)?;
        self.refresh(flash)
    }
}

#[cfg(test)]
mod tests;

//! `tpftl`: a page map on flash, whose cache is kept by translation pages.
//!
//! The problem: DFTL loads one entry for each read of a translation page and writes one back at a time, although the
//! requests of a workload span several pages and its addresses cluster. TPFTL's idea (Zhou et al. 2015): keep the cache
//! in two levels, translation pages in the order of how hot their entries are on average and entries by recency within
//! each; evict from the coldest translation page, clean entries first; when a dirty one must go, write back all dirty
//! entries of that page. A miss loads ahead from the page that it reads anyway: the rest of the host's request always,
//! and while the workload looks sequential also as many successors as predecessors of the entry are cached. Within a
//! translation page an entry is named by its place, so that it takes 6 bytes instead of 8.
//!
//! ```text
//!  page level     coldest ◀───────────── by mean hotness ─────────────▶ hottest
//!                 ┌─────────┐      ┌─────────┐      ┌─────────┐
//!                 │ TVPN 7  │      │ TVPN 0  │      │ TVPN 3  │
//!                 └────┬────┘      └────┬────┘      └────┬────┘
//!  entry level      19 c ◀ 20 d       3 d ◀ 4 d ◀ 5 c     0 c          least recent left; d dirty, c clean
//!  victim:          19
//! ```
//!
//! # Structures
//!
//! RAM: directory, 4 B for each translation page; cache, `node-bytes` (8: TVPN, and what the entries add up to) for
//! each translation page with cached entries and `entry-bytes` (6) for each entry, all out of `cache-bytes`. The bits
//! of an entry are its place in the translation page, its PPN, dirty, loaded ahead; what is left over is the tick of
//! its last use, 11 bits for 64 GiB of 4 KiB pages. When ticks reach the end of their range, half of it is taken off
//! all of them; a tick stands for as many uses as it takes that only what has not been used for four uses per entry of
//! the cache, or longer, becomes equally cold by that. Flash: as for `dftl`.
//!
//! # Costs
//!
//! A hit costs nothing. A miss costs one read of a translation page, however much it loads; if a dirty entry makes room
//! for it, a read and a program more, which clean all dirty entries of that page. What is loaded ahead is limited to
//! what is free and what the coldest translation page alone can give up, and costs no second program. Collections as
//! for `dftl`.
//!
//! # Departures
//!
//! The paper does not say whether selective prefetching is on at first (it is off), and where loaded entries stand
//! (behind the one that was asked for, as if used with it). An entry of the request is loaded ahead only from the
//! missing one on. Without batching, entries that are loaded ahead take the place of clean ones alone.

mod hotness;

use crate::demand::Demand;
use crate::demand::cache::{self, Cache, Shape};
use crate::demand::map::{Batch, Map, MapStore};
use crate::demand::out_of_place::{BATCH_EVICT, OutOfPlace};
use crate::demand::parameters::{self, CACHE_BYTES, DATA_BLOCKS, STRIPE};
use crate::{ConfigError, Loader, Outcome, Parameter, Saver, Scheme, Settings};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use flash::{Flash, Lpn, Ppn, Tvpn};
use hotness::{Coldest, Heat};

const PREFETCH_REQUEST: Parameter = Parameter::switch("prefetch-request", true)
    .text("A miss loads the entries of the rest of the host's request too. Off loads one entry.")
    .source("{tpftl}, request-level prefetching");

const PREFETCH_SELECT: Parameter = Parameter::switch("prefetch-select", true)
    .text(
        "While the cache covers fewer and fewer translation pages, a miss loads as many successors as there are \
         cached predecessors. It pays for sequential requests.",
    )
    .source("{tpftl}, selective prefetching");

const CLEAN_FIRST: Parameter = Parameter::switch("clean-first", true)
    .text(
        "Clean entries of the coldest translation page are evicted before its dirty ones. On avoids write-backs; off \
         evicts by age alone.",
    )
    .source("{tpftl}, clean-first replacement");

const THRESHOLD: Parameter = Parameter::count("threshold", 3, 1..=1000)
    .unit("pages")
    .text(
        "Translation pages by which the cache must grow or shrink before selective prefetching turns off or on. More \
         switches less often.",
    )
    .source("{tpftl}");

const ENTRY_BYTES: Parameter = Parameter::count("entry-bytes", 6, 6..=12)
    .unit("bytes")
    .text(
        "RAM of a cached entry: place in its translation page, PPN, dirty bit, and the time of its last use. Fewer \
         hold more entries with coarser times.",
    )
    .source("{tpftl}");

const NODE_BYTES: Parameter = Parameter::count("node-bytes", 8, 8..=15)
    .unit("bytes")
    .text("RAM of a translation page with cached entries.")
    .source("{tpftl}");

const COUNTERS: &[(&str, &str)] = &[
    ("prefetched_by_request", "entries loaded ahead because the request goes on to them"),
    ("prefetched_by_selection", "entries loaded ahead because their predecessors are cached"),
    ("prefetched_used", "entries loaded ahead that were used before they were evicted"),
    ("prefetched_unused", "entries loaded ahead that were evicted without having been used"),
];

/// The row.
pub(super) static ROW: Scheme = Scheme {
    name: "tpftl",
    summary: "DFTL whose cache is kept by translation pages and loads ahead",
    paper: "{tpftl}",
    essay: include_str!("tpftl.rs"),
    own: &[
        CACHE_BYTES,
        PREFETCH_REQUEST,
        PREFETCH_SELECT,
        CLEAN_FIRST,
        BATCH_EVICT,
        THRESHOLD,
        ENTRY_BYTES,
        NODE_BYTES,
        STRIPE,
    ],
    fixed: &[DATA_BLOCKS],
    counters: &[parameters::COUNTERS, COUNTERS],
    ..parameters::ROW
};

/// The scheme: a two-level cache over translation pages that are written out of place.
pub type Tpftl = Demand<TwoLevel, OutOfPlace>;

const NONE: u32 = u32::MAX;

/// RAM beside nodes and entries: the present request, the tick and the uses within it, the balance of translation
/// pages, whether selective prefetching is on, and how many nodes there are.
const STATE_BYTES: u64 = 25;

/// Fewest bits of a tick.
const LEAST_TICK_BITS: u32 = 4;

/// Translation pages that one miss may write, at the most. Without batching each dirty entry that makes room costs one,
/// and the smallest entries make room for an entry and a node of the largest within four.
const MOST_UPDATES: u32 = 4;

/// What the cache is told.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// `prefetch-request`.
    pub prefetch_request: bool,
    /// `prefetch-select`.
    pub prefetch_select: bool,
    /// `clean-first`.
    pub clean_first: bool,
    /// `threshold`.
    pub threshold: i32,
    /// `entry-bytes`.
    pub entry_bytes: u64,
    /// `node-bytes`.
    pub node_bytes: u64,
}

impl From<&Settings> for Options {
    fn from(settings: &Settings) -> Options {
        Options {
            prefetch_request: settings.switch(&PREFETCH_REQUEST),
            prefetch_select: settings.switch(&PREFETCH_SELECT),
            clean_first: settings.switch(&CLEAN_FIRST),
            threshold: settings.count(&THRESHOLD) as i32,
            entry_bytes: settings.count(&ENTRY_BYTES),
            node_bytes: settings.count(&NODE_BYTES),
        }
    }
}

/// How the bits of an entry are used.
#[derive(Clone, Copy, Debug)]
struct Layout {
    entry_bytes: u64,
    node_bytes: u64,
    place_bits: u32,
    ppn_bits: u32,
    tick_bits: u32,
}

impl Layout {
    fn new(shape: &Shape, options: &Options) -> Layout {
        let &Options { entry_bytes, node_bytes, .. } = options;
        let bits = |most: u32| u32::BITS - most.leading_zeros();
        let (place_bits, ppn_bits) = (bits(shape.page_entries - 1), bits(shape.geometry.page_count()));
        // All bits must fit a word, and the cross products of ticks and counts too.
        let room = (8 * entry_bytes as u32).min(u64::BITS).saturating_sub(place_bits + ppn_bits + 2);
        let tick_bits = room.min(31).min((u64::BITS - 1).saturating_sub(2 * (place_bits + 1)));
        Layout { entry_bytes, node_bytes, place_bits, ppn_bits, tick_bits }
    }

    /// What the whole map takes, bytes.
    fn all(&self, shape: &Shape) -> u64 {
        u64::from(shape.logical_pages) * self.entry_bytes + u64::from(shape.pages()) * self.node_bytes
    }
}

/// A cached entry. Those of a translation page form a list, the most recently used first.
#[derive(Clone, Copy, Debug)]
struct Entry {
    lpn: u32,
    ppn: u32,
    /// When it was used last.
    tick: u32,
    next: u32,
    previous: u32,
    dirty: bool,
    /// Loaded ahead, and not used since.
    ahead: bool,
}

/// A translation page.
#[derive(Clone, Copy, Debug)]
struct Node {
    heat: Heat,
    dirty: u32,
    head: u32,
    tail: u32,
}

const EMPTY: Node = Node { heat: Heat { sum: 0, count: 0 }, dirty: 0, head: NONE, tail: NONE };

/// The scheme's own counters.
#[derive(Clone, Copy, Default, Debug)]
struct Counts {
    by_request: u64,
    by_selection: u64,
    used: u64,
    unused: u64,
}

/// Where an entry is cached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot(u32);

/// See the module's description.
#[derive(Clone, Debug)]
pub struct TwoLevel {
    shape: Shape,
    layout: Layout,
    prefetch_request: bool,
    prefetch_select: bool,
    clean_first: bool,
    threshold: i32,
    /// Bytes of nodes and entries: how many there may be, and how many there are.
    budget: u64,
    taken: u64,
    /// First page of the present request, and the one behind its last.
    request: (u32, u32),
    /// Nodes created less nodes removed since selective prefetching was decided on last, and the decision.
    balance: i32,
    selecting: bool,
    /// The present tick, the uses within it, and how many make a tick.
    tick: u32,
    uses: u32,
    uses_per_tick: u32,
    /// Slot of each LPN.
    index: Vec<u32>,
    entries: Vec<Entry>,
    free: Vec<u32>,
    nodes: Vec<Node>,
    /// Dirty entries of each translation page by their places, `dirty_words` for each.
    dirty: Vec<u64>,
    dirty_words: usize,
    coldest: Coldest,
    counts: Counts,
    /// Scratch space; empty between calls.
    written: Vec<cache::Entry>,
    ahead: Vec<u32>,
    words: Vec<u32>,
}

impl TwoLevel {
    // ---- hotness -----------------------------------------------------------------------------------------------

    /// The tick of a use that happens now.
    #[inline(always)]
    fn use_now(&mut self) -> u32 {
        self.uses += 1;
        if self.uses == self.uses_per_tick {
            self.uses = 0;
            self.tick += 1;
            if self.tick >> self.layout.tick_bits > 0 {
                self.age();
            }
        }
        self.tick
    }

    /// Takes half of the ticks' range off all of them. This walks over the cache, once in at least four uses for each
    /// entry that it can hold.
    #[cold]
    fn age(&mut self) {
        let half = 1 << (self.layout.tick_bits - 1);
        self.tick -= half;
        let entries = &mut self.entries;
        for node in &mut self.nodes {
            let mut slot = node.head;
            node.heat.sum = 0;
            while slot != NONE {
                let entry = &mut entries[slot as usize];
                entry.tick = entry.tick.saturating_sub(half);
                node.heat.sum += u64::from(entry.tick);
                slot = entry.next;
            }
        }
        let nodes = &self.nodes;
        self.coldest.play_all(|page| nodes.get(page as usize).map_or_else(Heat::default, |node| node.heat));
    }

    // ---- lists -------------------------------------------------------------------------------------------------

    #[inline(always)]
    fn push(&mut self, page: u32, slot: u32) {
        let node = &mut self.nodes[page as usize];
        let head = core::mem::replace(&mut node.head, slot);
        if head == NONE {
            node.tail = slot;
        } else {
            self.entries[head as usize].previous = slot;
        }
        let entry = &mut self.entries[slot as usize];
        (entry.next, entry.previous) = (head, NONE);
    }

    #[inline(always)]
    fn detach(&mut self, page: u32, slot: u32) {
        let Entry { next, previous, .. } = self.entries[slot as usize];
        match previous {
            NONE => self.nodes[page as usize].head = next,
            previous => self.entries[previous as usize].next = next,
        }
        match next {
            NONE => self.nodes[page as usize].tail = previous,
            next => self.entries[next as usize].previous = previous,
        }
    }

    /// The word of dirty bits that an LPN is in, and its bit.
    #[inline(always)]
    fn dirty_bit(&self, page: u32, lpn: u32) -> (usize, u64) {
        let place = (lpn - page * self.shape.page_entries) as usize;
        (page as usize * self.dirty_words + place / 64, 1 << (place % 64))
    }

    #[inline]
    fn set_dirty(&mut self, slot: u32, dirty: bool) {
        let entry = &mut self.entries[slot as usize];
        if entry.dirty != dirty {
            entry.dirty = dirty;
            let lpn = entry.lpn;
            let page = self.shape.tvpn(lpn).0;
            let (word, bit) = self.dirty_bit(page, lpn);
            self.dirty[word] ^= bit;
            let count = &mut self.nodes[page as usize].dirty;
            *count = if dirty { *count + 1 } else { *count - 1 };
        }
    }

    /// Bytes of so many more entries of a translation page.
    #[inline(always)]
    fn cost(&self, page: u32, entries: usize) -> u64 {
        let node = if self.nodes[page as usize].heat.count == 0 { self.layout.node_bytes } else { 0 };
        node + entries as u64 * self.layout.entry_bytes
    }

    /// Caches an entry as used at `tick`. There is room.
    #[inline]
    fn insert(&mut self, lpn: u32, ppn: u32, tick: u32, ahead: bool) -> u32 {
        let slot = self.free.pop().expect("there is room in the cache");
        let page = self.shape.tvpn(lpn).0;
        self.taken += self.cost(page, 1);
        self.index[lpn as usize] = slot;
        self.entries[slot as usize] = Entry { lpn, ppn, tick, next: NONE, previous: NONE, dirty: false, ahead };
        self.push(page, slot);
        let heat = &mut self.nodes[page as usize].heat;
        *heat = Heat { sum: heat.sum + u64::from(tick), count: heat.count + 1 };
        if heat.count == 1 {
            let heat = *heat;
            self.coldest.play(page, heat);
            self.weigh(1);
        }
        slot
    }

    /// Drops a clean entry.
    fn remove(&mut self, slot: u32) {
        let Entry { lpn, tick, dirty, ahead, .. } = self.entries[slot as usize];
        debug_assert!(!dirty, "a dirty entry is dropped");
        let page = self.shape.tvpn(lpn).0;
        self.detach(page, slot);
        self.index[lpn as usize] = NONE;
        self.free.push(slot);
        self.counts.unused += u64::from(ahead);
        let heat = &mut self.nodes[page as usize].heat;
        *heat = Heat { sum: heat.sum - u64::from(tick), count: heat.count - 1 };
        let heat = *heat;
        self.coldest.play(page, heat);
        if heat.count == 0 {
            self.weigh(-1);
        }
        self.taken -= self.cost(page, 1);
    }

    /// Selective prefetching turns off when the cache has come to cover more translation pages, and on when fewer.
    #[inline]
    fn weigh(&mut self, nodes: i32) {
        self.balance += nodes;
        if self.balance.abs() >= self.threshold {
            self.selecting = self.balance < 0;
            self.balance = 0;
        }
    }

    // ---- replacement -------------------------------------------------------------------------------------------

    /// The entry of a translation page that is to go next.
    #[inline]
    fn victim(&self, page: u32) -> u32 {
        let Node { heat, dirty, tail, .. } = self.nodes[page as usize];
        let mut slot = tail;
        if self.clean_first && dirty < heat.count {
            while self.entries[slot as usize].dirty {
                slot = self.entries[slot as usize].previous;
            }
        }
        slot
    }

    /// Evicts an entry of a translation page.
    fn evict<F: Flash, S: MapStore>(&mut self, flash: &mut F, map: &mut Map<S>, page: u32) -> Outcome<F> {
        let victim = self.victim(page);
        if !self.entries[victim as usize].dirty {
            map.counters.clean_evictions += 1;
            self.remove(victim);
            return Ok(());
        }
        let tvpn = Tvpn(page);
        let batch = map.batch(flash, tvpn, 1)?;
        let mut entries = core::mem::take(&mut self.written);
        match batch {
            Batch::All => self.clean_page(tvpn, &mut entries),
            Batch::Victim => self.clean(victim, &mut entries),
            Batch::UpTo(most) => {
                // The least recently used of the others, as many as fit.
                let mut slot = self.nodes[page as usize].tail;
                self.clean(victim, &mut entries);
                while slot != NONE && entries.len() < most as usize {
                    if self.entries[slot as usize].dirty {
                        self.clean(slot, &mut entries);
                    }
                    slot = self.entries[slot as usize].previous;
                }
            }
        }
        let written = self.write_evicted(flash, map, tvpn, &entries);
        if written.is_ok() {
            self.remove(victim);
        }
        entries.clear();
        self.written = entries;
        written
    }

    fn clean(&mut self, slot: u32, out: &mut Vec<cache::Entry>) {
        let Entry { lpn, ppn, .. } = self.entries[slot as usize];
        self.set_dirty(slot, false);
        out.push(cache::Entry { lpn: Lpn(lpn), ppn: Ppn(ppn) });
    }

    /// The LPNs to be loaded beside `lpn`, that is behind it in its translation page, and how many of them because of
    /// the request.
    #[inline]
    fn look_ahead(&self, lpn: u32, page: u32, out: &mut Vec<u32>) -> usize {
        let range = self.shape.lpns(Tvpn(page));
        let cached = |lpn: u32| self.index[lpn as usize] != NONE;
        let requested = self.prefetch_request && self.request.0 <= lpn && lpn < self.request.1;
        let asked = if requested { self.request.1.min(range.end) } else { lpn + 1 };
        out.extend((lpn + 1..asked).filter(|&lpn| !cached(lpn)));
        let by_request = out.len();
        if self.prefetch_select && self.selecting {
            let predecessors = (range.start..lpn).rev().take_while(|&lpn| cached(lpn)).count() as u32;
            let end = lpn.saturating_add(1 + predecessors).min(range.end);
            out.extend((asked..end).filter(|&lpn| !cached(lpn)));
        }
        by_request
    }

    /// Makes room for an entry of a translation page, and for up to `ahead` more; how many of these.
    #[inline]
    fn make_room<F: Flash, S: MapStore>(
        &mut self,
        flash: &mut F,
        map: &mut Map<S>,
        page: u32,
        ahead: usize,
    ) -> Outcome<F, usize> {
        if self.taken + self.cost(page, 1 + ahead) <= self.budget {
            return Ok(ahead);
        }
        // Everything comes from one translation page. It can give up enough for the first entry, since its last entry
        // takes its node along.
        let nodes = &self.nodes;
        let coldest = self.coldest.coldest(|page| nodes[page as usize].heat);
        while self.taken + self.cost(page, 1) > self.budget {
            self.evict(flash, map, coldest)?;
        }
        let mut granted = 0;
        while granted < ahead {
            if self.taken + self.cost(page, 2 + granted) <= self.budget {
                granted += 1;
                continue;
            }
            // One update cleans the whole page or is not worth it.
            let left = self.nodes[coldest as usize].heat.count > 0;
            let free = left && !self.entries[self.victim(coldest) as usize].dirty;
            if !free && (!left || map.batch(flash, Tvpn(coldest), 1)? != Batch::All) {
                break;
            }
            self.evict(flash, map, coldest)?;
        }
        Ok(granted)
    }
}

impl Cache for TwoLevel {
    type Slot = Slot;
    type Options = Options;

    const ABSORBS_ALL: bool = true;

    fn least_bytes(shape: &Shape, options: &Options) -> Result<u64, ConfigError> {
        let layout = Layout::new(shape, options);
        if layout.tick_bits < LEAST_TICK_BITS {
            let bytes = (layout.place_bits + layout.ppn_bits + 2 + LEAST_TICK_BITS).div_ceil(8);
            return Err(ConfigError {
                key: "entry-bytes",
                what: format!("{} bytes do not hold an entry of this device", layout.entry_bytes),
                fix: format!("give at least {bytes}"),
            });
        }
        Ok(STATE_BYTES + layout.node_bytes + 2 * layout.entry_bytes)
    }

    fn new(shape: &Shape, options: &Options, bytes: u64) -> Self {
        let layout = Layout::new(shape, options);
        let pages = shape.pages();
        let budget = (bytes - STATE_BYTES).min(layout.all(shape));
        let most = ((budget - layout.node_bytes) / layout.entry_bytes).min(u64::from(shape.logical_pages)) as u32;
        let dirty_words = shape.page_entries.div_ceil(64) as usize;
        let unused = Entry { lpn: NONE, ppn: NONE, tick: 0, next: NONE, previous: NONE, dirty: false, ahead: false };
        TwoLevel {
            shape: *shape,
            layout,
            prefetch_request: options.prefetch_request,
            prefetch_select: options.prefetch_select,
            clean_first: options.clean_first,
            threshold: options.threshold,
            budget,
            taken: 0,
            request: (0, 0),
            balance: 0,
            selecting: false,
            tick: 0,
            uses: 0,
            uses_per_tick: most.div_ceil(1 << (layout.tick_bits - 3).min(30)).max(1),
            index: vec![NONE; shape.logical_pages as usize],
            entries: vec![unused; most as usize],
            free: (0..most).rev().collect(),
            nodes: vec![EMPTY; pages as usize],
            dirty: vec![0; pages as usize * dirty_words],
            dirty_words,
            coldest: Coldest::new(pages),
            counts: Counts::default(),
            written: Vec::new(),
            ahead: Vec::new(),
            words: Vec::new(),
        }
    }

    fn most_updates(&self) -> u32 {
        MOST_UPDATES
    }

    #[inline(always)]
    fn request(&mut self, first: Lpn, pages: u32) {
        self.request = (first.0, first.0.saturating_add(pages));
    }

    #[inline(always)]
    fn find(&self, lpn: Lpn) -> Option<Slot> {
        let slot = self.index[lpn.index()];
        (slot != NONE).then_some(Slot(slot))
    }

    #[inline(always)]
    fn hit(&mut self, slot: Slot, lpn: Lpn) {
        let tick = self.use_now();
        let page = self.shape.tvpn(lpn.0).0;
        let entry = &mut self.entries[slot.0 as usize];
        let before = core::mem::replace(&mut entry.tick, tick);
        self.counts.used += u64::from(core::mem::take(&mut entry.ahead));
        let node = &mut self.nodes[page as usize];
        node.heat.sum += u64::from(tick - before);
        if node.head != slot.0 {
            self.detach(page, slot.0);
            self.push(page, slot.0);
        }
    }

    #[inline(always)]
    fn get(&self, slot: Slot, _: Lpn) -> Ppn {
        Ppn(self.entries[slot.0 as usize].ppn)
    }

    fn is_dirty(&self, slot: Slot, _: Lpn) -> bool {
        self.entries[slot.0 as usize].dirty
    }

    #[inline(always)]
    fn holds_all(&self) -> bool {
        self.budget >= self.layout.all(&self.shape)
    }

    fn fetch<F: Flash, S: MapStore>(&mut self, flash: &mut F, map: &mut Map<S>, lpn: Lpn) -> Outcome<F, Slot> {
        let (tvpn, index) = map.store.locate(lpn.0);
        let mut ahead = core::mem::take(&mut self.ahead);
        ahead.clear();
        // A translation page that does not exist yet is not read, and there is nothing to load ahead from.
        let exists = map.store.at(tvpn) != Ppn::NONE;
        let by_request = if exists { self.look_ahead(lpn.0, tvpn.0, &mut ahead) } else { 0 };
        let granted = self.make_room(flash, map, tvpn.0, ahead.len())?;
        ahead.truncate(granted);
        let by_request = by_request.min(granted) as u64;
        self.counts.by_request += by_request;
        self.counts.by_selection += granted as u64 - by_request;
        let last = ahead.last().copied().unwrap_or(lpn.0);
        self.words.clear();
        self.words.resize((last - lpn.0) as usize + 1, Ppn::NONE.0);
        if let Some(page) = map.read(flash, tvpn)? {
            map.entries(page, index, &mut self.words);
        }
        let tick = self.use_now();
        // The one that was asked for is the most recent, what follows it stands behind it.
        for &next in ahead.iter().rev() {
            self.insert(next, self.words[(next - lpn.0) as usize], tick, true);
        }
        let slot = self.insert(lpn.0, self.words[0], tick, false);
        ahead.clear();
        self.ahead = ahead;
        Ok(Slot(slot))
    }

    #[inline(always)]
    fn set(&mut self, slot: Slot, _: Lpn, ppn: Ppn) {
        self.entries[slot.0 as usize].ppn = ppn.0;
        self.set_dirty(slot.0, true);
    }

    #[inline(always)]
    fn has_dirty(&self, tvpn: Tvpn) -> bool {
        self.nodes[tvpn.index()].dirty > 0
    }

    fn clean_page(&mut self, tvpn: Tvpn, out: &mut Vec<cache::Entry>) {
        if !self.has_dirty(tvpn) {
            return;
        }
        self.nodes[tvpn.index()].dirty = 0;
        let first = tvpn.0 * self.shape.page_entries;
        let words = tvpn.index() * self.dirty_words..(tvpn.index() + 1) * self.dirty_words;
        for (base, word) in (first..).step_by(64).zip(&mut self.dirty[words]) {
            let mut bits = core::mem::take(word);
            while bits != 0 {
                let lpn = base + bits.trailing_zeros();
                bits &= bits - 1;
                let entry = &mut self.entries[self.index[lpn as usize] as usize];
                entry.dirty = false;
                out.push(cache::Entry { lpn: Lpn(lpn), ppn: Ppn(entry.ppn) });
            }
        }
    }

    fn refresh(&mut self, lpn: Lpn, ppn: Ppn) {
        if let Some(slot) = self.find(lpn) {
            self.entries[slot.0 as usize].ppn = ppn.0;
            self.set_dirty(slot.0, false);
        }
    }

    fn restore(&mut self, group: &[cache::Entry], _: impl Fn(u32) -> u32) -> bool {
        let Some(first) = group.first() else { return true };
        if self.taken + self.cost(self.shape.tvpn(first.lpn.0).0, group.len()) > self.budget {
            return false;
        }
        for entry in group {
            let slot = self.insert(entry.lpn.0, entry.ppn.0, self.tick, false);
            self.set_dirty(slot, true);
        }
        true
    }

    #[inline(always)]
    fn prefetch(&self, lpn: Lpn) {
        flash::prefetch(&self.index, lpn.index());
    }

    fn memory(&self) -> u64 {
        STATE_BYTES + self.budget
    }

    fn counters(&self, out: &mut Vec<(&'static str, u64)>) {
        let Counts { by_request, by_selection, used, unused } = self.counts;
        let own = [by_request, by_selection, used, unused];
        let names = COUNTERS;
        out.extend(names.iter().zip(own).map(|(&(name, _), count)| (name, count)));
    }

    fn reset_counters(&mut self) {
        self.counts = Counts::default();
    }

    fn audit(&self) -> Result<(), String> {
        let mut taken = 0;
        for (page, node) in self.nodes.iter().enumerate() {
            let range = self.shape.lpns(Tvpn(page as u32));
            let (mut heat, mut dirty, mut newest) = (Heat::default(), 0, u32::MAX);
            let mut slot = node.head;
            while slot != NONE {
                let entry = self.entries[slot as usize];
                if !range.contains(&entry.lpn) || self.index[entry.lpn as usize] != slot {
                    return Err(format!("LPN {} is listed under translation page {page}", entry.lpn));
                }
                let (word, bit) = self.dirty_bit(page as u32, entry.lpn);
                if (self.dirty[word] & bit != 0) != entry.dirty {
                    return Err(format!("LPN {} is dirty in one place only", entry.lpn));
                }
                if entry.tick > newest || entry.tick > self.tick {
                    return Err(format!(
                        "LPN {} was used at {}, later than what stands before it",
                        entry.lpn, entry.tick
                    ));
                }
                newest = entry.tick;
                heat = Heat { sum: heat.sum + u64::from(entry.tick), count: heat.count + 1 };
                dirty += u32::from(entry.dirty);
                slot = entry.next;
            }
            if heat != node.heat || dirty != node.dirty {
                return Err(format!("translation page {page} counts {node:?}, but has {heat:?} and {dirty} dirty"));
            }
            taken += if heat.count == 0 { 0 } else { self.layout.node_bytes };
            taken += u64::from(heat.count) * self.layout.entry_bytes;
        }
        if taken != self.taken || taken > self.budget {
            return Err(format!("the cache takes {taken} bytes, counts {} and may take {}", self.taken, self.budget));
        }
        Ok(())
    }

    fn save(&self, out: &mut Saver) {
        let Layout { entry_bytes, place_bits, ppn_bits, .. } = self.layout;
        let cached = self.nodes.iter().enumerate().filter(|(_, node)| node.heat.count > 0);
        for word in [self.request.0, self.request.1, self.tick, self.uses, self.balance as u32] {
            out.u32(word);
        }
        out.u8(u8::from(self.selecting));
        out.u32(cached.clone().count() as u32);
        for (page, node) in cached {
            out.u32(page as u32);
            out.u32(node.heat.count);
            // The least recent first, so that the order itself takes no bytes.
            let mut slot = node.tail;
            while slot != NONE {
                let entry = self.entries[slot as usize];
                let place = entry.lpn - page as u32 * self.shape.page_entries;
                let ppn = u64::from(entry.ppn) & ((1 << ppn_bits) - 1);
                let mut bits = u64::from(entry.tick) << 2 | u64::from(entry.ahead) << 1 | u64::from(entry.dirty);
                bits = (bits << ppn_bits | ppn) << place_bits | u64::from(place);
                bits.to_le_bytes().iter().take(entry_bytes as usize).for_each(|&byte| out.u8(byte));
                slot = entry.previous;
            }
        }
    }

    fn load(&mut self, from: &mut Loader<'_>) {
        let Layout { entry_bytes, place_bits, ppn_bits, .. } = self.layout;
        self.request = (from.u32(), from.u32());
        let [tick, uses, balance] = [from.u32(), from.u32(), from.u32()];
        let selecting = from.u8() != 0;
        for _ in 0..from.u32() {
            let (page, count) = (from.u32(), from.u32());
            for _ in 0..count {
                let mut bytes = [0; 8];
                bytes.iter_mut().take(entry_bytes as usize).for_each(|byte| *byte = from.u8());
                let mut bits = u64::from_le_bytes(bytes);
                let mut take = |count: u32| {
                    let low = bits & ((1 << count) - 1);
                    bits >>= count;
                    low as u32
                };
                let (place, ppn) = (take(place_bits), take(ppn_bits));
                let (dirty, ahead) = (take(1) == 1, take(1) == 1);
                let ppn = if ppn == (1 << ppn_bits) - 1 { Ppn::NONE.0 } else { ppn };
                let slot = self.insert(page * self.shape.page_entries + place, ppn, take(31), ahead);
                self.set_dirty(slot, dirty);
            }
        }
        (self.tick, self.uses, self.balance, self.selecting) = (tick, uses, balance as i32, selecting);
    }
}

#[cfg(test)]
mod tests;

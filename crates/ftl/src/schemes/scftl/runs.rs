//! The cache of SCFTL: blocks of consecutive entries, split and merged as their entries change, and the order in which
//! they are replaced.
//!
//! A block maps LPN `tag + k` to PPN `first + k` for `k` below its length. The flags of all blocks lie in bit sets, one
//! for each flag, so that the search for a victim of a class looks at 64 blocks at a time. The look-up is an array by
//! LPN where a firmware would keep an ordered map.

use crate::demand::cache::{Cache, Entry, Shape};
use crate::demand::map::{Map, MapStore, TranslationPage};
use crate::parts::cache::{Order, OrderKind};
use crate::{ConfigError, Loader, Outcome, Saver, Settings};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use flash::{Flash, Lpn, Ppn, Tvpn};

mod victims;

const NONE: u32 = u32::MAX;

/// The bits of an address; all ones stands for an unmapped entry where state is saved.
const ADDRESS: u32 = (1 << 28) - 1;

/// Fewest blocks: a split block makes three, and one is asked for.
const LEAST_BLOCKS: u64 = 4;

/// Entries prefetched at least where the number adapts: without any there is nothing to learn from.
const LEAST_ADAPTED: u32 = 2;

/// Prefetched blocks whose fate is known, between two decisions on how much to prefetch.
const ADAPT_PERIOD: u32 = 64;

/// How victims are chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Replacement {
    /// By accessed and modified flags and the number of modified entries in the translation page (the SCFTL paper,
    /// Table I).
    DirtyNru,
    /// By accessed flags alone.
    Nru,
    /// Least recently used.
    Lru,
}

/// When accessed flags are taken away (NRU's ageing).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ageing {
    /// The use that would leave no block without the flag takes it from all others.
    Access,
    /// A search for a victim that finds no block without the flag takes it from all.
    Eviction,
    /// The pointer takes it from the blocks that it passes.
    Pointer,
}

/// What a victim makes room for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fetching {
    /// An entry that was asked for, or a fragment of a split block.
    Normal,
    /// An entry that may be asked for.
    Spatial,
    /// A fragment during a collection: only blocks that are dropped without a write.
    Clean,
}

#[derive(Clone, Copy, Default, Debug)]
struct Counters {
    splits: u64,
    merges: u64,
    prefetched: u64,
    prefetch_used: u64,
    prefetch_unused: u64,
    /// Victims by class of Table I.
    victims: [u64; 6],
}

/// A set of blocks.
type Bits = Vec<u64>;

fn has(set: &[u64], slot: u32) -> bool {
    set[slot as usize / 64] >> (slot % 64) & 1 == 1
}

fn put(set: &mut [u64], slot: u32, value: bool) {
    let (word, bit) = (&mut set[slot as usize / 64], 1 << (slot % 64));
    *word = if value { *word | bit } else { *word & !bit };
}

/// See the module's description.
#[derive(Clone, Debug)]
pub struct Runs {
    shape: Shape,
    replacement: Replacement,
    ageing: Ageing,
    /// Longest run.
    most: u32,
    run_bits: u32,
    /// MC counts up to this.
    threshold: u8,
    threshold_bits: u32,
    /// MC counts entries, and not blocks.
    counts_entries: bool,
    /// Entries cached by one reading of a translation page.
    spatial: u32,
    /// Only entries that are brought in count there.
    counts_fetched: bool,
    /// Prefetched blocks get the accessed flag.
    flags_fetched: bool,
    /// The most that this may become, and what was learnt for it since the last decision: prefetched blocks that were
    /// used, and that were not. Not adapting if `None`.
    adapt: Option<(u32, u32, u32)>,
    capacity: u32,
    /// Block of each LPN.
    index: Vec<u32>,
    tag: Vec<u32>,
    first: Vec<u32>,
    length: Vec<u16>,
    valid: Bits,
    accessed: Bits,
    modified: Bits,
    /// Modified blocks of translation pages whose MC has reached the threshold.
    heavy: Bits,
    /// Prefetched blocks that were not used yet.
    untried: Bits,
    free: u32,
    /// There is no free block in this many words of `valid`, or in more.
    full_words: usize,
    /// Valid blocks without accessed flag.
    unaccessed: u32,
    pointer: u32,
    order: Order,
    /// Modified blocks of each translation page, chained, and the number of them or of their entries as the scheme
    /// counts it (MC).
    dirty_head: Vec<u32>,
    dirty_next: Vec<u32>,
    dirty_previous: Vec<u32>,
    modified_count: Vec<u8>,
    counters: Counters,
    /// Scratch space; empty between calls.
    entries: Vec<Entry>,
    window: Vec<u32>,
    planned: Vec<(u32, u32, u32)>,
    fresh: Vec<u32>,
}

/// What the cache is told.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// `replacement`.
    pub replacement: Replacement,
    /// `threshold-bits`; 0 counts nothing.
    pub threshold_bits: u32,
    /// `mc-unit`: whether MC counts entries, and not blocks.
    pub counts_entries: bool,
    /// `nru-ageing`.
    pub ageing: Ageing,
    /// `spatial`.
    pub spatial: u32,
    /// `spatial-counts`: whether only entries that are brought in count.
    pub counts_fetched: bool,
    /// `nru-flags-fetched`, under `nru`: whether prefetched blocks get the accessed flag.
    pub flags_fetched: bool,
    /// `adapt`.
    pub adapt: bool,
    /// `run-bits`.
    pub run_bits: u32,
}

impl From<&Settings> for Options {
    fn from(settings: &Settings) -> Options {
        let replacement = match settings.word(&super::REPLACEMENT) {
            "d-nru" => Replacement::DirtyNru,
            "nru" => Replacement::Nru,
            _ => Replacement::Lru,
        };
        Options {
            replacement,
            threshold_bits: settings.small(&super::THRESHOLD),
            counts_entries: settings.word(&super::MC_UNIT) == "entries",
            ageing: match settings.word(&super::AGEING) {
                "eviction" => Ageing::Eviction,
                "pointer" => Ageing::Pointer,
                _ => Ageing::Access,
            },
            spatial: settings.small(&super::SPATIAL),
            counts_fetched: settings.word(&super::SPATIAL_COUNTS) == "fetched",
            // Read in any case: a row that does not name it is found out by its tests.
            flags_fetched: settings.switch(&super::FLAGS_FETCHED) && replacement == Replacement::Nru,
            adapt: settings.switch(&super::ADAPT),
            run_bits: settings.small(&super::RUN_BITS),
        }
    }
}

impl Options {
    /// Bits of a block: tag, PPN, consecutive field and three flags; one more flag where prefetching adapts.
    fn block_bits(&self) -> u64 {
        64 + u64::from(self.run_bits) + 3 + u64::from(self.adapt)
    }

    /// Bytes of the MC of all translation pages, each in whole nibbles, as the paper's sum has it.
    fn counter_bytes(&self, shape: &Shape) -> u64 {
        (u64::from(shape.pages()) * u64::from(self.threshold_bits.next_multiple_of(4))).div_ceil(8)
    }
}

impl Runs {
    // ---- blocks and flags --------------------------------------------------------------------------------------

    fn end(&self, slot: u32) -> u32 {
        self.tag[slot as usize] + u32::from(self.length[slot as usize])
    }

    fn tvpn_of(&self, slot: u32) -> Tvpn {
        self.shape.tvpn(self.tag[slot as usize])
    }

    fn set_accessed(&mut self, slot: u32, value: bool) {
        if has(&self.accessed, slot) == value {
            return;
        }
        put(&mut self.accessed, slot, value);
        self.unaccessed = if value { self.unaccessed - 1 } else { self.unaccessed + 1 };
    }

    /// A use: sets the accessed flag. Where uses age, all others lose it if no block is left without.
    #[inline]
    fn touch(&mut self, slot: u32) {
        if self.replacement == Replacement::Lru {
            self.order.hit(slot);
            return;
        }
        self.set_accessed(slot, true);
        if self.unaccessed == 0 && self.ageing == Ageing::Access {
            self.accessed.fill(0);
            put(&mut self.accessed, slot, true);
            self.unaccessed = self.capacity - self.free - 1;
        }
    }

    /// Makes a block modified, all of its entries.
    fn modify(&mut self, slot: u32) {
        let entries = u32::from(self.length[slot as usize]);
        self.modify_part(slot, entries);
    }

    /// Makes a block modified, so many of whose entries were not before.
    fn modify_part(&mut self, slot: u32, entries: u32) {
        if has(&self.modified, slot) {
            return;
        }
        put(&mut self.modified, slot, true);
        let tvpn = self.tvpn_of(slot);
        let head = core::mem::replace(&mut self.dirty_head[tvpn.index()], slot);
        self.dirty_next[slot as usize] = head;
        self.dirty_previous[slot as usize] = NONE;
        if head != NONE {
            self.dirty_previous[head as usize] = slot;
        }
        if self.threshold > 0 && self.modified_count[tvpn.index()] == self.threshold {
            put(&mut self.heavy, slot, true);
        } else {
            self.count(tvpn, if self.counts_entries { entries } else { 1 });
        }
    }

    /// A translation page has so much more that is modified. The count stops at the threshold.
    fn count(&mut self, tvpn: Tvpn, more: u32) {
        let count = &mut self.modified_count[tvpn.index()];
        if *count == self.threshold {
            return;
        }
        *count = (u32::from(*count) + more).min(self.threshold.into()) as u8;
        if *count == self.threshold {
            self.mark_heavy(tvpn, true);
        }
    }

    fn mark_heavy(&mut self, tvpn: Tvpn, value: bool) {
        let mut slot = self.dirty_head[tvpn.index()];
        while slot != NONE {
            put(&mut self.heavy, slot, value);
            slot = self.dirty_next[slot as usize];
        }
    }

    /// A modified block is clean, or about to go. The caller sees to the count.
    fn unchain(&mut self, slot: u32) {
        put(&mut self.modified, slot, false);
        put(&mut self.heavy, slot, false);
        let (previous, next) = (self.dirty_previous[slot as usize], self.dirty_next[slot as usize]);
        match previous {
            NONE => {
                let tvpn = self.tvpn_of(slot);
                self.dirty_head[tvpn.index()] = next;
            }
            previous => self.dirty_next[previous as usize] = next,
        }
        if next != NONE {
            self.dirty_previous[next as usize] = previous;
        }
    }

    /// After blocks of a translation page were written back, or merged away: its count, if it may have become too high.
    fn recount(&mut self, tvpn: Tvpn) {
        let (mut count, most) = (0, u32::from(self.threshold));
        let mut slot = self.dirty_head[tvpn.index()];
        while slot != NONE && count < most {
            count += if self.counts_entries { self.length[slot as usize].into() } else { 1 };
            slot = self.dirty_next[slot as usize];
        }
        let count = count.min(most) as u8;
        let before = core::mem::replace(&mut self.modified_count[tvpn.index()], count);
        if before == self.threshold && count < self.threshold {
            self.mark_heavy(tvpn, false);
        }
    }

    /// Appends the entries of a modified block; it is clean.
    fn clean(&mut self, slot: u32, out: &mut Vec<Entry>) {
        let (tag, first) = (self.tag[slot as usize], self.first[slot as usize]);
        // An unmapped entry is alone in its block.
        out.extend(
            (0..u32::from(self.length[slot as usize]))
                .map(|k| Entry { lpn: Lpn(tag + k), ppn: Ppn(first.saturating_add(k)) }),
        );
        self.unchain(slot);
    }

    /// The free block of the lowest number becomes this run, accessed or not, not modified.
    fn insert(&mut self, tag: u32, length: u32, first: u32, accessed: bool) -> u32 {
        let full = self.valid[self.full_words..].iter().position(|&word| word != u64::MAX);
        self.full_words += full.expect("there is room in the cache");
        let slot = self.full_words as u32 * 64 + self.valid[self.full_words].trailing_ones();
        debug_assert!(slot < self.capacity);
        put(&mut self.valid, slot, true);
        self.free -= 1;
        self.unaccessed += 1;
        self.tag[slot as usize] = tag;
        self.first[slot as usize] = first;
        self.length[slot as usize] = length as u16;
        self.index[tag as usize..(tag + length) as usize].fill(slot);
        if self.replacement == Replacement::Lru {
            self.order.insert(slot);
        } else if accessed {
            self.touch(slot);
        }
        slot
    }

    /// Forgets a block, which is not modified.
    fn drop_block(&mut self, slot: u32) {
        debug_assert!(!has(&self.modified, slot), "a modified block is dropped");
        let (tag, end) = (self.tag[slot as usize], self.end(slot));
        self.index[tag as usize..end as usize].fill(NONE);
        self.release(slot);
    }

    /// Frees a block that nothing is looked up in any more.
    fn release(&mut self, slot: u32) {
        if has(&self.untried, slot) {
            self.learn(slot, false);
        }
        self.set_accessed(slot, false);
        self.unaccessed -= 1;
        put(&mut self.valid, slot, false);
        self.full_words = self.full_words.min(slot as usize / 64);
        self.free += 1;
        if self.replacement == Replacement::Lru {
            self.order.remove(slot);
        }
    }

    /// A prefetched block was used, or is dropped without.
    fn learn(&mut self, slot: u32, used: bool) {
        put(&mut self.untried, slot, false);
        *(if used { &mut self.counters.prefetch_used } else { &mut self.counters.prefetch_unused }) += 1;
        let Some((most, hits, misses)) = &mut self.adapt else { return };
        *hits += u32::from(used);
        *misses += u32::from(!used);
        if *hits + *misses < ADAPT_PERIOD {
            return;
        }
        // Prefetching an entry costs a place in the cache, and saves a read of a translation page if it is used.
        if *hits * 2 > ADAPT_PERIOD {
            self.spatial = (self.spatial * 2).min(*most);
        } else if *hits * 4 < ADAPT_PERIOD {
            self.spatial = (self.spatial / 2).max(LEAST_ADAPTED);
        }
        (*hits, *misses) = (0, 0);
    }

    // ---- splitting and merging ---------------------------------------------------------------------------------

    /// The modified blocks that `lpn → ppn` would join on the left and on the right of its block.
    fn neighbours(&self, slot: u32, lpn: u32, ppn: u32) -> (Option<u32>, Option<u32>) {
        if ppn == NONE {
            return (None, None);
        }
        // Most neighbours lie elsewhere, so their places are compared first.
        let joins = |other: u32| {
            has(&self.modified, other)
                && self.first[other as usize] != NONE
                && self.tvpn_of(other) == self.tvpn_of(slot)
        };
        let length = |slot: u32| u32::from(self.length[slot as usize]);
        let at_start = lpn == self.tag[slot as usize] && lpn > 0;
        let left = if at_start { self.index[lpn as usize - 1] } else { NONE };
        let left = (left != NONE && self.first[left as usize].wrapping_add(length(left)) == ppn)
            .then_some(left)
            .filter(|&left| length(left) < self.most && joins(left));
        let at_end = lpn + 1 == self.end(slot) && lpn + 1 < self.shape.logical_pages;
        let right = if at_end { self.index[lpn as usize + 1] } else { NONE };
        let right = (right != NONE && self.first[right as usize] == ppn + 1)
            .then_some(right)
            .filter(|&right| length(right) + left.map_or(0, length) < self.most && joins(right));
        (left, right)
    }

    /// Free blocks that changing an entry takes.
    fn wanted(&self, slot: u32, lpn: u32, ppn: u32) -> u32 {
        let (start, end) = (self.tag[slot as usize], self.end(slot));
        if end - start == 1 {
            return 0;
        }
        let (left, right) = self.neighbours(slot, lpn, ppn);
        let parts = u32::from(lpn > start) + u32::from(lpn + 1 < end);
        parts - u32::from(left.is_some() || right.is_some())
    }

    /// Changes an entry: its block is split, the entry joins its neighbours if it can. `touched`: by a host write.
    fn change(&mut self, slot: u32, lpn: u32, ppn: u32, touched: bool) {
        let (start, end) = (self.tag[slot as usize], self.end(slot));
        let (left, right) = self.neighbours(slot, lpn, ppn);
        let (accessed, modified) = (has(&self.accessed, slot), has(&self.modified, slot));
        let first = self.first[slot as usize];
        // What is left of the block: the part before the entry keeps its place, or else the part behind it.
        let mut place = Some(slot);
        if lpn > start {
            self.length[slot as usize] = (lpn - start) as u16;
            place = None;
        }
        if lpn + 1 < end {
            let tail = (lpn + 1, end - lpn - 1, first + (lpn + 1 - start));
            match place.take() {
                Some(slot) => {
                    (self.tag[slot as usize], self.first[slot as usize]) = (tail.0, tail.2);
                    self.length[slot as usize] = tail.1 as u16;
                }
                None => {
                    let tail = self.insert(tail.0, tail.1, tail.2, accessed);
                    if modified {
                        self.modify_part(tail, 0);
                    }
                }
            }
        }
        self.counters.splits += u64::from(place.is_none());
        if self.counts_entries && !modified && (left.is_some() || right.is_some()) {
            self.count(self.shape.tvpn(lpn), 1);
        }
        match (left, right) {
            (None, None) => {
                let slot = match place {
                    Some(slot) => {
                        self.first[slot as usize] = ppn;
                        slot
                    }
                    None => self.insert(lpn, 1, ppn, accessed),
                };
                self.modify_part(slot, u32::from(!modified));
                self.use_if(slot, touched);
            }
            (Some(into), _) => {
                self.give_up(place);
                self.index[lpn as usize] = into;
                self.length[into as usize] += 1;
                self.counters.merges += 1;
                if let Some(right) = right {
                    let (tag, end) = (self.tag[right as usize], self.end(right));
                    let was_accessed = has(&self.accessed, right);
                    self.index[tag as usize..end as usize].fill(into);
                    self.length[into as usize] += (end - tag) as u16;
                    self.unchain(right);
                    self.release(right);
                    self.counters.merges += 1;
                    self.use_if(into, was_accessed);
                }
                self.use_if(into, accessed || touched);
            }
            (None, Some(into)) => {
                self.give_up(place);
                self.index[lpn as usize] = into;
                self.tag[into as usize] -= 1;
                self.first[into as usize] -= 1;
                self.length[into as usize] += 1;
                self.counters.merges += 1;
                self.use_if(into, accessed || touched);
            }
        }
    }

    fn use_if(&mut self, slot: u32, used: bool) {
        if used {
            self.touch(slot);
        }
    }

    /// A block of one entry, which is joining another, is free.
    fn give_up(&mut self, place: Option<u32>) {
        if let Some(slot) = place {
            if has(&self.modified, slot) {
                self.unchain(slot);
            }
            self.release(slot);
        }
    }

    /// Plans what a reading of a translation page brings in: the run around the entry, then the spatial fetch.
    /// `words` are the page's entries from LPN `from` on.
    fn plan(&mut self, lpn: u32, from: u32, words: &[u32]) {
        let at = |lpn: u32| words[(lpn - from) as usize];
        let absent = |lpn: u32| self.index[lpn as usize] == NONE;
        let end = from + words.len() as u32;
        let ppn = at(lpn);
        let (mut start, mut stop) = (lpn, lpn + 1);
        if ppn != NONE {
            while stop < end && stop - start < self.most && at(stop) == ppn + (stop - lpn) && absent(stop) {
                stop += 1;
            }
            while start > from && stop - start < self.most && absent(start - 1) {
                let before = at(start - 1);
                if before == NONE || before + (lpn - start + 1) != ppn {
                    break;
                }
                start -= 1;
            }
        }
        self.planned.push((start, stop - start, at(start)));
        let mut left = self.spatial.saturating_sub(stop - start);
        let last = if self.counts_fetched { end } else { end.min(stop + left) };
        let mut next = stop;
        while next < last && left > 0 {
            if at(next) == NONE || !absent(next) {
                next += 1;
                continue;
            }
            let begun = next;
            next += 1;
            while next < last
                && next - begun < self.most.min(left)
                && at(next) != NONE
                && at(next) == at(begun) + (next - begun)
                && absent(next)
            {
                next += 1;
            }
            self.planned.push((begun, next - begun, at(begun)));
            if self.counts_fetched {
                left -= next - begun;
            }
        }
    }

    /// As [`Cache::fetch`], no further than `within`; but if `taken`, which is shown the translation page, makes use of
    /// it elsewhere, nothing is cached here.
    ///
    /// # Errors
    /// As [`Cache::fetch`].
    pub(crate) fn fetch_unless<F: Flash, S: MapStore>(
        &mut self,
        flash: &mut F,
        map: &mut Map<S>,
        lpn: Lpn,
        within: Range<u32>,
        taken: impl FnOnce(&Self, &Map<S>, TranslationPage<'_>) -> bool,
    ) -> Outcome<F, Option<u32>> {
        if self.free == 0 {
            self.evict(flash, map, Fetching::Normal, NONE)?;
        }
        let tvpn = self.shape.tvpn(lpn.0);
        let page = self.shape.lpns(tvpn);
        let from = page.start.max(within.start).max((lpn.0 + 1).saturating_sub(self.most));
        let end = page.end.min(within.end);
        let end =
            if self.counts_fetched && self.spatial > 1 { end } else { end.min(lpn.0 + self.most.max(self.spatial)) };
        let Some(read) = map.read(flash, tvpn)? else { return Ok(Some(self.insert(lpn.0, 1, NONE, true))) };
        if taken(self, map, read) {
            return Ok(None);
        }
        let mut window = core::mem::take(&mut self.window);
        window.resize((end - from) as usize, NONE);
        map.entries(read, (from - page.start) as usize, &mut window);
        self.plan(lpn.0, from, &window);
        self.window = window;
        let mut planned = core::mem::take(&mut self.planned);
        let (start, length, first) = planned[0];
        let slot = self.insert(start, length, first, true);
        self.fresh.push(slot);
        let mut result = Ok(Some(slot));
        for &(start, length, first) in &planned[1..] {
            if self.free == 0 {
                match self.evict(flash, map, Fetching::Spatial, NONE) {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(error) => {
                        result = Err(error);
                        break;
                    }
                }
            }
            let slot = self.insert(start, length, first, self.flags_fetched);
            put(&mut self.untried, slot, true);
            self.counters.prefetched += 1;
            self.fresh.push(slot);
        }
        planned.clear();
        self.planned = planned;
        self.fresh.clear();
        if self.replacement == Replacement::Lru {
            // What was asked for is more recent than what came along.
            self.order.hit(slot);
        }
        result
    }

    // ---- for a cache that keeps runs beside something else ----------------------------------------------------

    /// Makes room for so many blocks, at most three.
    ///
    /// # Errors
    /// Full; the medium's.
    pub(crate) fn make_room<F: Flash, S: MapStore>(
        &mut self,
        flash: &mut F,
        map: &mut Map<S>,
        blocks: u32,
    ) -> Outcome<F> {
        while self.free < blocks {
            self.evict(flash, map, Fetching::Normal, NONE)?;
        }
        Ok(())
    }

    /// Caches entries of which none is cached, as many around `lpn` as a block holds of the aligned run of `length`
    /// whose first page is `first`. There is room.
    pub(crate) fn put_run(&mut self, lpn: Lpn, length: u32, first: Ppn) -> u32 {
        let piece = length.min(self.most);
        let within = lpn.0 % length / piece * piece;
        self.insert(lpn.0 / length * length + within, piece, first.0 + within, true)
    }

    /// Forgets the block of an LPN, if there is one. It is not modified.
    pub(crate) fn forget(&mut self, lpn: Lpn) {
        if let Some(slot) = self.find(lpn) {
            self.drop_block(slot);
        }
    }
}

impl Cache for Runs {
    type Slot = u32;

    type Options = Options;

    fn least_bytes(shape: &Shape, options: &Options) -> Result<u64, ConfigError> {
        let spatial = options.spatial;
        if spatial > shape.page_entries {
            return Err(ConfigError {
                key: "spatial",
                what: format!("{spatial} entries are more than a translation page of {} has", shape.page_entries),
                fix: format!("use at most {}", shape.page_entries),
            });
        }
        Ok((LEAST_BLOCKS * options.block_bits()).div_ceil(8) + options.counter_bytes(shape))
    }

    fn new(shape: &Shape, options: &Options, bytes: u64) -> Self {
        let &Options {
            replacement,
            threshold_bits,
            counts_entries,
            ageing,
            spatial,
            counts_fetched,
            flags_fetched,
            adapt,
            run_bits,
        } = options;
        let bits = options.block_bits();
        let all = u64::from(shape.logical_pages).max(LEAST_BLOCKS);
        let capacity = (((bytes - options.counter_bytes(shape)) * 8) / bits).min(all) as u32;
        let (slots, pages) = (capacity as usize, shape.pages() as usize);
        let set = || vec![0u64; slots.div_ceil(64)];
        let mut runs = Runs {
            shape: *shape,
            replacement,
            ageing,
            most: 1 << run_bits,
            run_bits,
            threshold: ((1u32 << threshold_bits) - 1) as u8,
            threshold_bits,
            counts_entries,
            spatial,
            counts_fetched,
            flags_fetched,
            adapt: adapt.then_some((spatial.max(LEAST_ADAPTED), 0, 0)),
            capacity,
            index: vec![NONE; shape.logical_pages as usize],
            tag: vec![0; slots],
            first: vec![0; slots],
            length: vec![0; slots],
            valid: set(),
            accessed: set(),
            modified: set(),
            heavy: set(),
            untried: set(),
            free: capacity,
            full_words: 0,
            unaccessed: 0,
            pointer: 0,
            order: Order::new(OrderKind::Lru, if replacement == Replacement::Lru { slots } else { 0 }),
            dirty_head: vec![NONE; pages],
            dirty_next: vec![NONE; slots],
            dirty_previous: vec![NONE; slots],
            modified_count: vec![0; pages],
            counters: Counters::default(),
            entries: Vec::new(),
            window: Vec::new(),
            planned: Vec::new(),
            fresh: Vec::new(),
        };
        // There are no blocks beyond the capacity in the last word: none of them is ever free, or a victim.
        for slot in capacity..(slots.div_ceil(64) * 64) as u32 {
            put(&mut runs.valid, slot, true);
        }
        runs
    }

    fn most_updates(&self) -> u32 {
        // The block that makes room for the run, two fragments of a split, and each block of a spatial fetch.
        3 + self.adapt.map_or(self.spatial, |(most, ..)| most)
    }

    #[inline(always)]
    fn find(&self, lpn: Lpn) -> Option<u32> {
        let slot = self.index[lpn.index()];
        (slot != NONE).then_some(slot)
    }

    #[inline]
    fn hit(&mut self, slot: u32, _: Lpn) {
        if has(&self.untried, slot) {
            self.learn(slot, true);
        }
        self.touch(slot);
    }

    #[inline(always)]
    fn get(&self, slot: u32, lpn: Lpn) -> Ppn {
        let first = self.first[slot as usize];
        // An unmapped entry is alone in its block.
        Ppn(if first == NONE { NONE } else { first + (lpn.0 - self.tag[slot as usize]) })
    }

    fn is_dirty(&self, slot: u32, _: Lpn) -> bool {
        has(&self.modified, slot)
    }

    #[inline(always)]
    fn holds_all(&self) -> bool {
        self.capacity >= self.shape.logical_pages
    }

    #[inline]
    fn fetch<F: Flash, S: MapStore>(&mut self, flash: &mut F, map: &mut Map<S>, lpn: Lpn) -> Outcome<F, u32> {
        let fetched = self.fetch_unless(flash, map, lpn, 0..self.shape.logical_pages, |_, _, _| false)?;
        Ok(fetched.expect("nobody else took it"))
    }

    fn prepare<F: Flash, S: MapStore>(
        &mut self,
        flash: &mut F,
        map: &mut Map<S>,
        slot: u32,
        lpn: Lpn,
        ppn: Ppn,
    ) -> Outcome<F> {
        while self.free < self.wanted(slot, lpn.0, ppn.0) {
            let evicted = self.evict(flash, map, Fetching::Normal, slot)?;
            assert!(evicted, "every block but one is a victim");
        }
        Ok(())
    }

    #[inline]
    fn set(&mut self, slot: u32, lpn: Lpn, ppn: Ppn) {
        self.change(slot, lpn.0, ppn.0, true);
    }

    fn absorb(&mut self, moves: &mut Vec<Entry>) {
        // In order of LPN, so that a run that moved as a whole is one again.
        moves.sort_unstable_by_key(|entry| entry.lpn);
        moves.retain(|&Entry { lpn, ppn }| {
            let Some(slot) = self.find(lpn) else { return true };
            while self.free < self.wanted(slot, lpn.0, ppn.0) {
                let Some(victim) = self.victim(Fetching::Clean, slot) else { return true };
                self.pass(victim);
                self.drop_block(victim);
            }
            self.change(slot, lpn.0, ppn.0, false);
            false
        });
    }

    #[inline(always)]
    fn has_dirty(&self, tvpn: Tvpn) -> bool {
        self.dirty_head[tvpn.index()] != NONE
    }

    fn clean_page(&mut self, tvpn: Tvpn, out: &mut Vec<Entry>) {
        while self.has_dirty(tvpn) {
            self.clean(self.dirty_head[tvpn.index()], out);
        }
        self.modified_count[tvpn.index()] = 0;
    }

    #[cold]
    fn soil(&mut self, entries: &[Entry]) {
        for &Entry { lpn, ppn } in entries {
            if let Some(slot) = self.find(lpn).filter(|&slot| self.get(slot, lpn) == ppn) {
                self.modify(slot);
            }
        }
    }

    fn refresh(&mut self, lpn: Lpn, ppn: Ppn) {
        let Some(slot) = self.find(lpn) else { return };
        let (start, end) = (self.tag[slot as usize], self.end(slot));
        if end - start == 1 {
            self.first[slot as usize] = ppn.0;
        } else if lpn.0 > start {
            // The run ends before the entry; what was behind it is read again when it is needed.
            self.index[lpn.index()..end as usize].fill(NONE);
            self.length[slot as usize] = (lpn.0 - start) as u16;
        } else {
            self.index[lpn.index()] = NONE;
            self.tag[slot as usize] += 1;
            self.first[slot as usize] += 1;
            self.length[slot as usize] -= 1;
        }
    }

    fn restore(&mut self, group: &[Entry], _: impl Fn(u32) -> u32) -> bool {
        let mut runs: Vec<(u32, u32, u32)> = Vec::new();
        for &Entry { lpn: Lpn(lpn), ppn: Ppn(ppn) } in group {
            let goes_on = |tag, length, first| {
                length < self.most && first != NONE && (tag + length, first + length) == (lpn, ppn)
            };
            match runs.last_mut() {
                Some((tag, length, first)) if goes_on(*tag, *length, *first) => *length += 1,
                _ => runs.push((lpn, 1, ppn)),
            }
        }
        if runs.len() as u32 > self.free {
            return false;
        }
        for (lpn, length, ppn) in runs {
            let slot = self.insert(lpn, length, ppn, true);
            self.modify(slot);
        }
        true
    }

    #[inline(always)]
    fn prefetch(&self, lpn: Lpn) {
        flash::prefetch(&self.index, lpn.index());
    }

    fn memory(&self) -> u64 {
        let bits = 64 + u64::from(self.run_bits) + 3 + u64::from(self.adapt.is_some());
        let counters = u64::from(self.threshold_bits.next_multiple_of(4)) * self.modified_count.len() as u64;
        (u64::from(self.capacity) * bits).div_ceil(8) + counters.div_ceil(8)
    }

    fn counters(&self, out: &mut Vec<(&'static str, u64)>) {
        let c = &self.counters;
        let names = super::COUNTERS.iter().map(|&(name, _)| name);
        let valid = self.capacity - self.free;
        let cached: u64 = (0..self.capacity)
            .filter(|&slot| has(&self.valid, slot))
            .map(|slot| u64::from(self.length[slot as usize]))
            .sum();
        let values = [c.splits, c.merges, c.prefetched, c.prefetch_used, c.prefetch_unused]
            .into_iter()
            .chain(c.victims)
            .chain([u64::from(valid), cached, u64::from(self.spatial)]);
        out.extend(names.zip(values));
    }

    fn reset_counters(&mut self) {
        self.counters = Counters::default();
    }

    fn audit(&self) -> Result<(), String> {
        let mut found = 0;
        for slot in (0..self.capacity).filter(|&slot| has(&self.valid, slot)) {
            let (start, end) = (self.tag[slot as usize], self.end(slot));
            found += 1;
            if end - start > self.most || self.shape.tvpn(start) != self.shape.tvpn(end - 1) {
                return Err(format!("block {slot} of LPNs {start} to {} is too long", end - 1));
            }
            if let Some(lpn) = (start..end).find(|&lpn| self.index[lpn as usize] != slot) {
                return Err(format!("LPN {lpn} is in block {slot}, but found in {}", self.index[lpn as usize]));
            }
        }
        let indexed = self.index.iter().filter(|&&slot| slot != NONE).count() as u64;
        let cached = |slot: u32| has(&self.valid, slot).then(|| u64::from(self.length[slot as usize]));
        if found != self.capacity - self.free || (0..self.capacity).filter_map(cached).sum::<u64>() != indexed {
            return Err(format!("{found} blocks are cached, {} counted; {indexed} LPNs", self.capacity - self.free));
        }
        let pages = self.dirty_head.iter().zip(&self.modified_count).enumerate();
        for (tvpn, (&head, &count)) in pages {
            if self.threshold > 0 && (head == NONE) != (count == 0) {
                return Err(format!("translation page {tvpn} counts {count} as modified, the first block is {head}"));
            }
            let mut entries = 0;
            let mut slot = head;
            while slot != NONE {
                entries += u32::from(self.length[slot as usize]);
                slot = self.dirty_next[slot as usize];
            }
            let exact = entries.min(self.threshold.into());
            if self.counts_entries && u32::from(count) != exact {
                return Err(format!(
                    "translation page {tvpn} counts {count} modified entries, and there are {entries}"
                ));
            }
        }
        Ok(())
    }

    fn save(&self, out: &mut Saver) {
        let lru = self.replacement == Replacement::Lru;
        let slots: Vec<u32> = if lru { self.order.oldest_first().collect() } else { (0..self.capacity).collect() };
        out.u32(slots.len() as u32);
        for slot in slots {
            if !has(&self.valid, slot) {
                out.u32(0);
                continue;
            }
            let more = u32::from(self.length[slot as usize]) - 1;
            let [a, m, p] = [&self.accessed, &self.modified, &self.untried].map(|set| u32::from(has(set, slot)));
            out.u32(self.tag[slot as usize] | 1 << 28 | a << 29 | m << 30 | (more >> 4 & 1) << 31);
            out.u32(self.first[slot as usize] & ADDRESS | more << 28);
            if self.run_bits > 5 || self.adapt.is_some() {
                out.u8((more >> 5) as u8 | (p as u8) << 7);
            }
        }
        out.u32(self.pointer);
        if let Some((_, hits, misses)) = self.adapt {
            out.u32(self.spatial);
            out.u32(hits << 16 | misses);
        }
        match self.threshold_bits {
            0 => {}
            1..=4 => self.modified_count.chunks(2).for_each(|two| out.u8(two[0] | two.get(1).unwrap_or(&0) << 4)),
            _ => self.modified_count.iter().for_each(|&count| out.u8(count)),
        }
    }

    fn load(&mut self, from: &mut Loader<'_>) {
        let slots = from.u32();
        for slot in 0..slots {
            let head = from.u32();
            if head == 0 {
                continue;
            }
            let body = from.u32();
            let extra = if self.run_bits > 5 || self.adapt.is_some() { u32::from(from.u8()) } else { 0 };
            let length = (body >> 28 | head >> 31 << 4 | (extra & 7) << 5) + 1;
            let first = if body & ADDRESS == ADDRESS { NONE } else { body & ADDRESS };
            let tag = head & ADDRESS;
            put(&mut self.valid, slot, true);
            self.free -= 1;
            self.unaccessed += 1;
            (self.tag[slot as usize], self.first[slot as usize]) = (tag, first);
            self.length[slot as usize] = length as u16;
            self.index[tag as usize..(tag + length) as usize].fill(slot);
            if self.replacement == Replacement::Lru {
                self.order.insert(slot);
            }
            self.set_accessed(slot, head >> 29 & 1 == 1);
            put(&mut self.untried, slot, extra >> 7 == 1);
            if head >> 30 & 1 == 1 {
                self.modify(slot);
            }
        }
        self.pointer = from.u32();
        if let Some((_, hits, misses)) = &mut self.adapt {
            self.spatial = from.u32();
            let both = from.u32();
            (*hits, *misses) = (both >> 16, both & 0xffff);
        }
        let pages = self.modified_count.len();
        let mut half = None;
        for tvpn in 0..pages {
            let count = match self.threshold_bits {
                0 => break,
                1..=4 => match half.take() {
                    Some(high) => high,
                    None => {
                        let two = from.u8();
                        half = Some(two >> 4);
                        two & 15
                    }
                },
                _ => from.u8(),
            };
            // A count may stand above the number of modified blocks, after merges.
            self.modified_count[tvpn] = count;
            if count == self.threshold {
                self.mark_heavy(Tvpn(tvpn as u32), true);
            }
        }
    }
}

#[cfg(test)]
mod tests;

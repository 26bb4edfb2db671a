//! `last`: several sequential log blocks, and random ones parted into hot and cold.
//!
//! The problem: one sequential log block serves one stream, and a random log block that holds pages of many logical
//! blocks is dear to merge. LAST (Lee, Shin, Kim and Kim 2008) tells streams by the size of requests: large ones go to
//! sequential log blocks, one for each logical block, and small ones to random log blocks. What is rewritten soon is
//! kept together there, so that its log blocks die by themselves and cost an erase alone.
//!
//! ```text
//!             ┌─ blank place ──▶ data block
//!  write ─────┼─ request of sequential-bytes or more ──▶ [SW][SW]…  one a logical block, own places; LRU is merged
//!             └─ else: last written to the log lately? ── yes ──▶ [hot]…   ┐ dead ones first, then the cheapest
//!                                                      └─ no ───▶ [cold]…  ┘ to merge, cold before hot
//! ```
//!
//! # Structures
//!
//! RAM: as `fast`; for each sequential log block its logical block and last use, 12 B; for each page of a log block
//! when it was written, 4 B. Flash: as `fast`.
//!
//! # Costs
//!
//! As `fast`. A dead log block costs an erase.
//!
//! # Choices
//!
//! The ROSE thesis fixes which requests are sequential: those of 8 KiB or more (`sequential-bytes`), counted in what
//! the host asks for (`sequential-unit = bytes`). It sends a request to sequential log blocks for its size alone, so
//! that one whose place there is taken merges that log block and begins another (`sequential-other = merge`; `rw` does
//! what `fast` does), and one whose logical block has none begins one wherever it starts (`sequential-start = any`).
//! The DFTL paper notes that a stream must begin with the first page of a logical block for a switch merge to come of
//! it: `first` begins no log block otherwise.
//!
//! What the papers leave open, or are not at hand for: a page is hot if its last version went to a random log block
//! within as many random writes as the hot partition has pages (`hot-window`). Hot log blocks are at most `hot-share`
//! of the random ones; a partition at its limit cleans a dead log block of either, else the cheapest of its own, and an
//! area that is full cleans cold ones before hot ones. Ages play no part in `cheapest`.
//!
//! Partitions that adapt (`adapt-partitions`) are a reconstruction, and off. Each time that as many random log blocks
//! have been cleaned as the hot partition may have, four at least, its limit moves by one. It falls if most of the hot
//! ones among them held live pages: what was called hot was not rewritten in time. It rises if most of the hot ones
//! were dead and most of the cold ones were not: pages in the cold partition cost merges that they might be spared.
//! With `hot-window = 0` the window follows the limit.
//!
//! # Departures
//!
//! A write that makes a log block dead by itself is programmed into a block that is kept free, and the dead one is
//! erased after it and not before, for recovery. After a mount every log block found is cold and closed, and the hot
//! window is empty. Two blocks are kept free.

use crate::hybrid::ages::LOG_AGES;
use crate::hybrid::large::{Large, SEQUENTIAL_BYTES, SEQUENTIAL_UNIT};
use crate::hybrid::{
    self, Area, Core, Filling, Hybrid, MERGE_COUNTERS, Merge, Strategy, Write, erase_obsolete, log::Slot, parameters,
};
use crate::{ConfigError, Error, Loader, Outcome, Parameter, Saver, Scheme, Settings, Value};
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use flash::{Flash, Kind, Lbn, Lpn};

const SEQUENTIAL_SHARE: Parameter = Parameter::real("sequential-share", 0.125, 0.0..=0.9)
    .text(
        "Share of the log area for sequential log blocks, at least one block. More delays their merges; less leaves \
         more room for random writes.",
    )
    .source("{rose}, section 5.1 and figure 5.11");

const HOT_SHARE: Parameter = Parameter::real("hot-share", 0.5, 0.0..=0.9)
    .text(
        "Share of the random log blocks that may be hot, at least one block. More keeps hot pages in the log for \
         longer.",
    )
    .source("reconstructed");

const HOT_WINDOW: Parameter = Parameter::count("hot-window", 0, 0..=(u32::MAX as u64))
    .unit("pages")
    .text(
        "A page is hot if it was written to a random log block within so many random writes. More calls more pages \
         hot. 0 stands for the pages of the hot partition.",
    )
    .source("reconstructed");

const SEQUENTIAL_OTHER: Parameter = Parameter::word("sequential-other", "merge", &["merge", "rw"])
    .text(
        "What becomes of a page of a large request if its place in the sequential log block of its logical block is \
         taken. merge: that log block is merged and another begun, which keeps the request together and costs a merge \
         of what may be half empty. rw: the page goes to the random log blocks, which costs nothing now and a full \
         merge of the sequential one later.",
    )
    .source("merge: {rose}, section 3.2 (size alone decides); rw: ftlab, after {fast}");

const SEQUENTIAL_START: Parameter = Parameter::word("sequential-start", "any", &["any", "first"])
    .text(
        "With which page of its logical block a sequential log block may begin. any: with that of a large request. \
         first: with the first one alone, so that fewer are begun and more of them end in a switch merge; other pages \
         of large requests go to the random log blocks until then.",
    )
    .source("any: {rose}, section 3.2 (size alone decides); first: {dftl}, section 2, on what a switch merge takes");

const ADAPT_PARTITIONS: Parameter = Parameter::switch("adapt-partitions", false)
    .text(
        "The limit of the hot partition follows what cleaning finds: down by a log block where hot ones still hold \
         live pages, up where they are dead and cold ones are not. On saves setting hot-share for a workload, and \
         costs merges while it searches.",
    )
    .source("reconstructed");

const COUNTERS: &[(&str, &str)] = &[
    ("sequential_pages", "host pages written to sequential log blocks"),
    ("sequential_merges", "sequential log blocks merged"),
    ("mispredictions", "of these, such that were not full"),
    ("hot_pages", "host pages written to hot log blocks"),
    ("cold_pages", "host pages written to cold log blocks"),
    ("partition_moves", "times that the limit of the hot partition moved by a log block"),
];

/// The row.
pub(super) static ROW: Scheme = Scheme {
    name: "last",
    summary: "block map with sequential log blocks by request size, and hot and cold random ones",
    paper: "{last}; baseline of {rose}",
    essay: include_str!("last.rs"),
    own: &[
        parameters::LOG_BLOCKS,
        parameters::LOG_VICTIM.at(Value::Word("cheapest")),
        SEQUENTIAL_BYTES,
        SEQUENTIAL_UNIT,
        SEQUENTIAL_OTHER,
        SEQUENTIAL_START,
        SEQUENTIAL_SHARE,
        HOT_SHARE,
        HOT_WINDOW,
        ADAPT_PARTITIONS,
        parameters::AGE_WEIGHT,
        parameters::AGE_UNIT,
        parameters::ALPHA,
        parameters::COPY_COST,
        parameters::ERASE_COST,
        LOG_AGES,
    ],
    counters: &[MERGE_COUNTERS, COUNTERS],
    state_version: 2,
    ..parameters::ROW
};

/// The scheme.
pub type Last = Hybrid<Partitions>;

#[derive(Clone, Copy, Default, Debug)]
struct Counters {
    sequential: u64,
    merges: u64,
    mispredictions: u64,
    hot: u64,
    cold: u64,
    moves: u64,
}

/// Random log blocks cleaned since the partitions were last looked at: cold, hot; and those of them that were dead.
#[derive(Clone, Copy, Default, Debug)]
struct Cleaned {
    all: [u32; 2],
    dead: [u32; 2],
}

/// The fewest log blocks that partitions are judged by.
const LEAST_CLEANED: u32 = 4;

/// Whether a random log block is hot.
const COLD: u8 = 0;
const HOT: u8 = 1;
const SEQUENTIAL: u8 = 2;

/// See the module's description.
#[derive(Clone, Debug)]
pub struct Partitions {
    policy: &'static str,
    sequential_share: f64,
    hot_share: f64,
    window: u64,
    request: Large,
    merges_taken: bool,
    begins_anywhere: bool,
    adapts: bool,
    /// How far the limit of the hot partition has moved.
    moved: i32,
    cleaned: Cleaned,
    /// The sequential log block of a logical block, and when it was used last.
    sequential: BTreeMap<Lbn, (Slot, u64)>,
    /// The logical blocks in the order of those uses: a firmware's list.
    by_use: BTreeMap<u64, Lbn>,
    uses: u64,
    /// By partition.
    filling: [Filling; 2],
    /// When each page of a log block was written, in random writes.
    stamps: Vec<u32>,
    writes: u32,
    counters: Counters,
}

impl Partitions {
    /// Log blocks that each partition may have: cold, hot, sequential.
    fn limits(&self, core: &Core) -> [u32; 3] {
        let all = core.log_limit();
        let sequential = ((f64::from(all) * self.sequential_share) as u32).clamp(1, all.saturating_sub(2).max(1));
        let random = all.saturating_sub(sequential);
        let share = (f64::from(random) * self.hot_share) as u32;
        let hot = share.saturating_add_signed(self.moved).clamp(1, random.saturating_sub(1).max(1));
        // Where bad blocks leave fewer than three nothing is begun any more; which pages are hot is asked still.
        [random.saturating_sub(hot), hot, sequential]
    }

    fn stamp_of(&self, core: &Core, slot: Slot, offset: u32) -> usize {
        (slot.0 * core.p() + offset) as usize
    }

    fn begin<F: Flash>(&mut self, core: &mut Core, flash: &mut F, partition: u8) -> Outcome<F, Slot> {
        let slot = core.begin_log_block(flash)?;
        let slots = core.slots.capacity() as usize;
        self.stamps.resize(slots * core.p() as usize, 0);
        core.slots.set_class(slot, partition);
        Ok(slot)
    }

    /// Whether a page went to a random log block lately.
    fn is_hot(&self, core: &Core, lpn: Lpn) -> bool {
        let Some(ppn) = core.in_log(lpn) else { return false };
        let Some(slot) = core.slots.of(core.g.block_of(ppn)) else { return false };
        let window = if self.window > 0 { self.window } else { u64::from(self.limits(core)[HOT as usize] * core.p()) };
        let stamp = self.stamps.get(self.stamp_of(core, slot, core.g.offset_of(ppn))).copied().unwrap_or(0);
        stamp > 0 && u64::from(self.writes.wrapping_sub(stamp)) <= window
    }

    fn drop_sequential(&mut self, lbn: Lbn) {
        if let Some((_, used)) = self.sequential.remove(&lbn) {
            self.by_use.remove(&used);
        }
    }

    fn merge_sequential<F: Flash>(&mut self, core: &mut Core, flash: &mut F, lbn: Lbn) -> Outcome<F, bool> {
        let Some(&(slot, _)) = self.sequential.get(&lbn) else { return Ok(false) };
        let merged = core.merge_block(flash, slot, lbn, &mut None, &mut erase_obsolete);
        if merged.is_ok() || core.has_given_up(slot) {
            self.drop_sequential(lbn);
        }
        let merge = merged?;
        self.counters.merges += 1;
        self.counters.mispredictions += u64::from(merge != Merge::Switch);
        Ok(true)
    }

    fn merge_least_used<F: Flash>(&mut self, core: &mut Core, flash: &mut F) -> Outcome<F, bool> {
        let oldest = self.by_use.first_key_value().map(|(_, &lbn)| lbn);
        oldest.map_or(Ok(false), |lbn| self.merge_sequential(core, flash, lbn))
    }

    /// A random log block is about to be cleaned.
    fn note_cleaned(&mut self, core: &Core, slot: Slot) {
        let partition = usize::from(core.slots.class(slot));
        if !self.adapts || partition > usize::from(HOT) {
            return;
        }
        self.cleaned.all[partition] += 1;
        self.cleaned.dead[partition] += u32::from(core.pool.blocks.live_of(core.slots.block(slot)) == 0);
        let [cold_limit, hot_limit, _] = self.limits(core);
        let Cleaned { all: [cold, hot], dead: [cold_dead, hot_dead] } = self.cleaned;
        if cold + hot < hot_limit.max(LEAST_CLEANED) {
            return;
        }
        self.cleaned = Cleaned::default();
        let change = if 2 * hot_dead < hot && hot_limit > 1 {
            -1
        } else {
            i32::from(2 * hot_dead > hot && 2 * cold_dead < cold && cold_limit > 1)
        };
        self.moved += change;
        self.counters.moves += u64::from(change != 0);
    }

    /// Cleans a random log block: a dead one, else the policy's of a partition. False if it has none.
    fn clean_random<F: Flash>(&mut self, core: &mut Core, flash: &mut F, partition: u8) -> Outcome<F, bool> {
        let of = |slot: Slot| core.slots.class(slot) == partition;
        let Some(victim) = core.slots.dead().or_else(|| hybrid::pick_among(core, self.policy, of)) else {
            return Ok(false);
        };
        for lbn in core.logical_blocks_in(victim) {
            self.merge_sequential(core, flash, lbn)?;
        }
        self.note_cleaned(core, victim);
        core.clean(flash, victim, &mut erase_obsolete)?;
        Ok(true)
    }

    /// Makes room for a log block of a partition.
    fn make_room<F: Flash>(&mut self, core: &mut Core, flash: &mut F, partition: u8) -> Outcome<F> {
        if core.log_limit() < 3 {
            return Err(Error::Full);
        }
        while core.slots.count(partition) >= self.limits(core)[partition as usize] {
            let cleaned = match partition {
                SEQUENTIAL => self.merge_least_used(core, flash)?,
                _ => self.clean_random(core, flash, partition)?,
            };
            if !cleaned {
                break;
            }
        }
        while core.slots.in_use() >= core.log_limit() {
            if !self.clean(core, flash)? {
                return Err(Error::Full);
            }
        }
        Ok(())
    }

    /// Writes a page to the sequential log block of its logical block. False if it is to go to a random one: by the
    /// rules, or since the block failed.
    fn write_sequential<F: Flash>(&mut self, core: &mut Core, flash: &mut F, page: Write<'_, F>) -> Outcome<F, bool> {
        let (lbn, offset) = core.split(page.lpn);
        let writable = |core: &Core, slot: Slot| core.is_writable(core.slots.block(slot), offset);
        let slot = match self.sequential.get(&lbn) {
            Some(&(slot, _)) if writable(core, slot) => slot,
            Some(_) if !self.merges_taken => return Ok(false),
            _ if offset > 0 && !self.begins_anywhere => return Ok(false),
            _ => {
                self.merge_sequential(core, flash, lbn)?;
                self.make_room(core, flash, SEQUENTIAL)?;
                if core.write_to_data(flash, page)? {
                    return Ok(true);
                }
                self.begin(core, flash, SEQUENTIAL)?
            }
        };
        self.drop_sequential(lbn);
        self.uses += 1;
        self.sequential.insert(lbn, (slot, self.uses));
        self.by_use.insert(self.uses, lbn);
        if !core.append(flash, slot, offset, Kind::Log, page)? {
            self.drop_sequential(lbn);
            core.slots.set_class(slot, COLD);
            return Ok(false);
        }
        let stamp = self.stamp_of(core, slot, offset);
        self.stamps[stamp] = 0;
        self.counters.sequential += 1;
        Ok(true)
    }

    /// The closed random log block in which a page is the only one that lives.
    fn dies_with(&self, core: &Core, lpn: Lpn) -> Option<Slot> {
        let slot = core.slots.of(core.g.block_of(core.in_log(lpn)?))?;
        (core.slots.is_closed(slot) && core.pool.blocks.live_of(core.slots.block(slot)) == 1).then_some(slot)
    }

    fn write_random<F: Flash>(&mut self, core: &mut Core, flash: &mut F, page: Write<'_, F>) -> Outcome<F> {
        let partition = if self.is_hot(core, page.lpn) { HOT } else { COLD };
        let mut dying = None;
        loop {
            let slot = self.filling[partition as usize].0;
            let offset = slot.and_then(|slot| core.next_writable(core.slots.block(slot), core.slots.get(slot).next));
            if self.filling[partition as usize].append(core, flash, Kind::Log, page)? {
                if let (Some(slot), Some(offset)) = (slot, offset) {
                    // 0 says that a page was not written by chance.
                    self.writes = self.writes.wrapping_add(1).max(1);
                    let stamp = self.stamp_of(core, slot, offset);
                    self.stamps[stamp] = self.writes;
                }
                let count = if partition == HOT { &mut self.counters.hot } else { &mut self.counters.cold };
                *count += 1;
                break;
            }
            if self.filling[partition as usize].0.is_some() {
                continue;
            }
            dying = self.dies_with(core, page.lpn);
            if dying.is_none() {
                self.make_room(core, flash, partition)?;
            }
            self.filling[partition as usize].0 = Some(self.begin(core, flash, partition)?);
        }
        match dying {
            Some(slot) if core.slots.is_closed(slot) => {
                self.note_cleaned(core, slot);
                core.clean(flash, slot, &mut erase_obsolete)
            }
            _ => Ok(()),
        }
    }
}

impl Strategy for Partitions {
    fn area(settings: &Settings) -> Area {
        Area { victims: Some(settings.into()), ..Area::new(3, settings) }
    }

    fn new(core: &Core, settings: &Settings) -> Result<Self, ConfigError> {
        Ok(Partitions {
            policy: settings.word(&parameters::LOG_VICTIM),
            sequential_share: settings.real(&SEQUENTIAL_SHARE),
            hot_share: settings.real(&HOT_SHARE),
            window: settings.count(&HOT_WINDOW),
            request: Large::new(&core.g, settings),
            merges_taken: settings.word(&SEQUENTIAL_OTHER) == "merge",
            begins_anywhere: settings.word(&SEQUENTIAL_START) == "any",
            adapts: settings.switch(&ADAPT_PARTITIONS),
            moved: 0,
            cleaned: Cleaned::default(),
            sequential: BTreeMap::new(),
            by_use: BTreeMap::new(),
            uses: 0,
            filling: [Filling::default(); 2],
            stamps: Vec::new(),
            writes: 0,
            counters: Counters::default(),
        })
    }

    fn request(&mut self, _: &Core, first: Lpn, pages: u32) {
        self.request.announce(first, pages);
    }

    fn request_bytes(&mut self, bytes: u64) {
        self.request.narrow(bytes);
    }

    #[inline]
    fn write<F: Flash>(&mut self, core: &mut Core, flash: &mut F, page: Write<'_, F>) -> Outcome<F> {
        if core.write_to_data(flash, page)? {
            return Ok(());
        }
        if self.request.has(page.lpn) && self.write_sequential(core, flash, page)? {
            return Ok(());
        }
        self.write_random(core, flash, page)
    }

    fn clean<F: Flash>(&mut self, core: &mut Core, flash: &mut F) -> Outcome<F, bool> {
        Ok(self.clean_random(core, flash, COLD)?
            || self.clean_random(core, flash, HOT)?
            || self.merge_least_used(core, flash)?)
    }

    fn held(&self) -> Vec<Slot> {
        let sequential = self.sequential.values().map(|&(slot, _)| slot);
        sequential.chain(self.filling.iter().filter_map(|filling| filling.0)).collect()
    }

    fn memory(&self, core: &Core) -> Vec<(&'static str, u64)> {
        let slots = u64::from(core.slots.capacity());
        let mut out = vec![
            ("sequential log blocks", 12 + Large::BYTES + self.sequential.len() as u64 * 16),
            ("hot window", slots * u64::from(core.p()) * 4 + 24),
        ];
        if self.adapts {
            out.push(("what cleaning found", 20));
        }
        out
    }

    fn save(&self, _: &Core, out: &mut Saver) {
        out.u64(self.uses);
        out.u32(self.sequential.len() as u32);
        for (&lbn, &(slot, used)) in &self.sequential {
            out.u32(lbn.0);
            out.u32(slot.0);
            out.u64(used);
        }
        self.filling.iter().for_each(|filling| filling.save(out));
        self.request.save(out);
        if self.adapts {
            out.u32(self.moved as u32);
            self.cleaned.all.iter().chain(&self.cleaned.dead).for_each(|&count| out.u32(count));
        }
        out.u32(self.writes);
        out.u32(self.stamps.len() as u32);
        self.stamps.iter().for_each(|&stamp| out.u32(stamp));
    }

    fn load(&mut self, _: &Core, from: &mut Loader<'_>) {
        self.uses = from.u64();
        self.sequential = (0..from.u32()).map(|_| (Lbn(from.u32()), (Slot(from.u32()), from.u64()))).collect();
        self.by_use = self.sequential.iter().map(|(&lbn, &(_, used))| (used, lbn)).collect();
        self.filling = [Filling::load(from), Filling::load(from)];
        self.request.load(from);
        if self.adapts {
            self.moved = from.u32() as i32;
            let Cleaned { all, dead } = &mut self.cleaned;
            all.iter_mut().chain(dead).for_each(|count| *count = from.u32());
        }
        self.writes = from.u32();
        self.stamps = (0..from.u32()).map(|_| from.u32()).collect();
    }

    fn counters(&self, _: &Core) -> Vec<(&'static str, u64)> {
        let Counters { sequential, merges, mispredictions, hot, cold, moves } = self.counters;
        let values = [sequential, merges, mispredictions, hot, cold, moves];
        COUNTERS.iter().map(|&(name, _)| name).zip(values).collect()
    }

    fn reset_counters(&mut self) {
        self.counters = Counters::default();
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

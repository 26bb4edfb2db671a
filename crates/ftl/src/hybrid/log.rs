//! The log area: blocks that take pages of any logical block in the order of their writing.
//!
//! A log block has a *slot*, which names it in everything that is kept per log block. What it holds is known from two
//! sides: `lpn_at` says which page each of its places holds, and the map of [`super::state::Core`] where a page lies.
//! Log blocks are closed, and may be cleaned, or held by somebody who fills them.

use crate::{Loader, Saver};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use flash::{Block, Geometry, Lpn};

/// Names a log block.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Slot(pub u32);

impl Slot {
    /// No slot.
    pub const NONE: Slot = Slot(u32::MAX);

    /// As an array index.
    #[inline(always)]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// No block, no page, no logical block.
pub(crate) const NONE: u32 = u32::MAX;

/// Live pages of a slot that is no candidate for cleaning.
pub(crate) const HELD: u16 = u16::MAX;

/// One log block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogBlock {
    /// The block; [`NONE`] if the slot is free.
    pub block: u32,
    /// Where the search for its next blank page begins.
    pub next: u32,
    /// Its place in the order in which log blocks were begun.
    pub begun: u64,
    /// A class that the scheme gave it; 0 at first.
    pub class: u8,
}

const FREE: LogBlock = LogBlock { block: NONE, next: 0, begun: 0, class: 0 };

/// Slots that share a note of their fewest live pages.
const CLUSTER: usize = 128;

/// Classes there may be.
pub(crate) const CLASSES: usize = 4;

/// See the module's description.
#[derive(Clone, Debug)]
pub struct Slots {
    pages_per_block: u32,
    entries: Vec<LogBlock>,
    free: Vec<Slot>,
    of_block: Vec<Slot>,
    lpn_at: Vec<u32>,
    live: Vec<u16>,
    /// The fewest live pages of a closed log block in each cluster of slots; [`HELD`] if it has none.
    least: Vec<u16>,
    /// The closed log blocks in the order in which they were begun.
    closed: BTreeMap<u64, Slot>,
    /// Closed log blocks without a live page.
    dead: u32,
    begun: u64,
    /// Whether each log block holds pages of one logical block alone, all in their own places.
    own_places: bool,
    /// Log blocks of each class.
    counts: [u32; CLASSES],
}

impl Slots {
    /// Room for `count` log blocks. With `own_places` each holds pages of one logical block alone, in their own places:
    /// to know the logical block is to know what every place holds.
    pub fn new(g: &Geometry, count: u32, own_places: bool) -> Slots {
        Slots {
            pages_per_block: g.pages_per_block,
            own_places,
            entries: vec![FREE; count as usize],
            free: (0..count).rev().map(Slot).collect(),
            of_block: vec![Slot::NONE; g.block_count() as usize],
            lpn_at: vec![NONE; count as usize * g.pages_per_block as usize],
            live: vec![HELD; count as usize],
            least: vec![HELD; (count as usize).div_ceil(CLUSTER)],
            closed: BTreeMap::new(),
            dead: 0,
            begun: 0,
            counts: [0; CLASSES],
        }
    }

    /// Log blocks there are.
    #[inline(always)]
    pub fn in_use(&self) -> u32 {
        (self.entries.len() - self.free.len()) as u32
    }

    /// Whether each log block holds pages of one logical block alone, all in their own places.
    pub fn own_places(&self) -> bool {
        self.own_places
    }

    /// Slots there are, free ones included.
    pub fn capacity(&self) -> u32 {
        self.entries.len() as u32
    }

    /// The slots in use.
    pub fn iter(&self) -> impl Iterator<Item = (Slot, LogBlock)> + '_ {
        let used = |(slot, &entry): (usize, &LogBlock)| (entry.block != NONE).then_some((Slot(slot as u32), entry));
        self.entries.iter().enumerate().filter_map(used)
    }

    /// The slot of a block, if it is a log block.
    #[inline(always)]
    pub fn of(&self, block: Block) -> Option<Slot> {
        let slot = self.of_block[block.index()];
        (slot != Slot::NONE).then_some(slot)
    }

    /// The block of a slot in use.
    #[inline(always)]
    pub fn block(&self, slot: Slot) -> Block {
        Block(self.entries[slot.index()].block)
    }

    /// A log block.
    #[inline(always)]
    pub fn get(&self, slot: Slot) -> LogBlock {
        self.entries[slot.index()]
    }

    /// The search for the next blank page of a slot goes on from here.
    #[inline(always)]
    pub fn advance(&mut self, slot: Slot, next: u32) {
        self.entries[slot.index()].next = next;
    }

    /// Which page a place of a log block holds, or held.
    #[inline(always)]
    pub fn lpn_at(&self, slot: Slot, offset: u32) -> Lpn {
        Lpn(self.lpn_at[(slot.0 * self.pages_per_block + offset) as usize])
    }

    /// A place of a log block holds a page now.
    #[inline(always)]
    pub fn put(&mut self, slot: Slot, offset: u32, lpn: Lpn) {
        self.lpn_at[(slot.0 * self.pages_per_block + offset) as usize] = lpn.0;
    }

    /// A block becomes a log block, held by whoever asked.
    pub fn add(&mut self, block: Block) -> Slot {
        if self.free.is_empty() {
            // A mount may find more than there are to be, until it has cleaned the surplus away.
            self.free.push(Slot(self.entries.len() as u32));
            self.entries.push(FREE);
            self.live.push(HELD);
            self.least.resize(self.live.len().div_ceil(CLUSTER), HELD);
            self.lpn_at.resize(self.entries.len() * self.pages_per_block as usize, NONE);
        }
        let slot = self.free.pop().expect("there is a free slot");
        self.begun += 1;
        self.entries[slot.index()] = LogBlock { block: block.0, begun: self.begun, ..FREE };
        self.counts[0] += 1;
        self.of_block[block.index()] = slot;
        self.live[slot.index()] = HELD;
        let places = self.places(slot);
        self.lpn_at[places].fill(NONE);
        slot
    }

    fn places(&self, slot: Slot) -> core::ops::Range<usize> {
        let p = self.pages_per_block as usize;
        slot.index() * p..(slot.index() + 1) * p
    }

    /// A log block is none any more.
    pub fn remove(&mut self, slot: Slot) {
        self.hold(slot);
        let LogBlock { block, class, .. } = core::mem::replace(&mut self.entries[slot.index()], FREE);
        self.counts[usize::from(class)] -= 1;
        self.of_block[block as usize] = Slot::NONE;
        self.free.push(slot);
    }

    /// Gives a log block another class.
    pub fn set_class(&mut self, slot: Slot, class: u8) {
        let before = core::mem::replace(&mut self.entries[slot.index()].class, class);
        self.counts[usize::from(before)] -= 1;
        self.counts[usize::from(class)] += 1;
    }

    /// The class of a log block.
    #[inline(always)]
    pub fn class(&self, slot: Slot) -> u8 {
        self.entries[slot.index()].class
    }

    /// Log blocks of a class.
    #[inline(always)]
    pub fn count(&self, class: u8) -> u32 {
        self.counts[usize::from(class)]
    }

    /// Another block takes over the part of a log block.
    pub fn rename(&mut self, slot: Slot, to: Block) {
        let from = core::mem::replace(&mut self.entries[slot.index()].block, to.0);
        self.of_block[from as usize] = Slot::NONE;
        self.of_block[to.index()] = slot;
    }

    /// A log block may be cleaned from now on; it has `live` live pages.
    pub fn close(&mut self, slot: Slot, live: u32) {
        self.hold(slot);
        self.note(slot, live as u16);
        self.closed.insert(self.entries[slot.index()].begun, slot);
    }

    /// A log block is held and may not be cleaned.
    pub fn hold(&mut self, slot: Slot) {
        let live = core::mem::replace(&mut self.live[slot.index()], HELD);
        self.dead -= u32::from(live == 0);
        if live != HELD {
            self.closed.remove(&self.entries[slot.index()].begun);
            let cluster = slot.index() / CLUSTER;
            if self.least[cluster] == live {
                self.least[cluster] = self.least_of(cluster, Slot::NONE);
            }
        }
    }

    /// A closed log block has so many live pages, fewer than before.
    #[inline(always)]
    fn note(&mut self, slot: Slot, live: u16) {
        self.live[slot.index()] = live;
        self.dead += u32::from(live == 0);
        let least = &mut self.least[slot.index() / CLUSTER];
        *least = live.min(*least);
    }

    fn cluster(&self, cluster: usize) -> core::ops::Range<usize> {
        cluster * CLUSTER..((cluster + 1) * CLUSTER).min(self.live.len())
    }

    /// The fewest live pages of a closed log block in a cluster, `but` aside.
    fn least_of(&self, cluster: usize, but: Slot) -> u16 {
        let slots = self.cluster(cluster);
        let first = slots.start;
        let of = |(place, &live): (usize, &u16)| if first + place == but.index() { HELD } else { live };
        self.live[slots].iter().enumerate().map(of).fold(HELD, u16::min)
    }

    /// Whether a log block may be cleaned.
    #[inline(always)]
    pub fn is_closed(&self, slot: Slot) -> bool {
        self.live[slot.index()] != HELD
    }

    /// The live pages that a closed log block is noted with.
    pub fn noted(&self, slot: Slot) -> Option<u32> {
        self.is_closed(slot).then(|| u32::from(self.live[slot.index()]))
    }

    /// A page of a log block died.
    #[inline(always)]
    pub fn died(&mut self, slot: Slot) {
        let live = self.live[slot.index()];
        if live != HELD {
            self.note(slot, live - 1);
        }
    }

    /// A closed log block without a live page, the oldest of them.
    pub fn dead(&self) -> Option<Slot> {
        if self.dead == 0 {
            return None;
        }
        self.emptiest(Slot::NONE).map(|(slot, _)| slot)
    }

    /// The closed log block with the fewest live pages, the oldest among equals, `but` aside; and how many.
    pub fn emptiest(&self, but: Slot) -> Option<(Slot, u32)> {
        let own = but.index() / CLUSTER;
        let least_in = |cluster: usize| match cluster == own {
            true => self.least_of(cluster, but),
            false => self.least[cluster],
        };
        let least = (0..self.least.len()).map(least_in).min().filter(|&least| least != HELD)?;
        let clusters = (0..self.least.len()).filter(|&cluster| self.least[cluster] <= least);
        let alike = clusters.flat_map(|cluster| self.cluster(cluster)).filter(|&slot| self.live[slot] == least);
        let oldest = alike.filter(|&slot| slot != but.index()).min_by_key(|&slot| self.entries[slot].begun)?;
        Some((Slot(oldest as u32), u32::from(least)))
    }

    /// The closed log block that was begun first.
    pub fn oldest(&self) -> Option<Slot> {
        self.closed().next()
    }

    /// The closed log blocks in the order in which they were begun.
    pub fn closed(&self) -> impl DoubleEndedIterator<Item = Slot> + '_ {
        self.closed.values().copied()
    }

    /// Compares what is noted of each cluster with its slots.
    pub(crate) fn audit(&self) -> Result<(), String> {
        let noted = self.least.iter().enumerate();
        match noted
            .map(|(cluster, &least)| (cluster, least, self.least_of(cluster, Slot::NONE)))
            .find(|(_, a, b)| a != b)
        {
            None => Ok(()),
            Some((cluster, noted, least)) => Err(format!(
                "cluster {cluster} of log blocks has {least} live pages in its emptiest one, and {noted} are noted"
            )),
        }
    }

    /// Bytes of RAM: a row for each slot, and what it holds: a logical block, or a page in each place.
    pub fn memory(&self) -> u64 {
        let held = if self.own_places { 1 } else { u64::from(self.pages_per_block) };
        self.entries.len() as u64 * (24 + 4 * held) + 20
    }

    /// Bytes of RAM of the map that leads the other way: a hash table of the pages in the log. Where pages keep their
    /// places it is not needed: the log blocks of a logical block and the live bits say where a page lies.
    pub fn map_memory(&self) -> u64 {
        if self.own_places { 0 } else { self.entries.len() as u64 * u64::from(self.pages_per_block) * 4 }
    }

    /// Saves the log blocks; which of their pages are live is in the live bits.
    pub fn save(&self, out: &mut Saver) {
        out.u64(self.begun);
        out.u32(self.entries.len() as u32);
        out.u32(self.free.len() as u32);
        self.free.iter().for_each(|slot| out.u32(slot.0));
        for (slot, entry) in self.iter() {
            out.u32(slot.0);
            out.u32(entry.block);
            out.u16(entry.next as u16);
            out.u64(entry.begun);
            out.u8(entry.class);
            out.u8(u8::from(self.live[slot.index()] != HELD));
            let held = &self.lpn_at[self.places(slot)];
            if self.own_places {
                let known = held.iter().find(|&&lpn| lpn != NONE);
                out.u32(known.map_or(NONE, |lpn| lpn / self.pages_per_block));
            } else {
                held.iter().for_each(|&lpn| out.u32(lpn));
            }
        }
    }

    /// Loads what [`Slots::save`] saved; `live` counts the live pages of a block.
    pub fn load(g: &Geometry, own_places: bool, from: &mut Loader<'_>, live: impl Fn(Block) -> u32) -> Slots {
        let begun = from.u64();
        let mut slots = Slots { begun, ..Slots::new(g, from.u32(), own_places) };
        let free = from.u32();
        slots.free = (0..free).map(|_| Slot(from.u32())).collect();
        for _ in slots.free.len()..slots.entries.len() {
            let slot = Slot(from.u32());
            let (block, next, begun) = (from.u32(), u32::from(from.u16()), from.u64());
            let entry = LogBlock { block, next, begun, class: from.u8() };
            slots.counts[usize::from(entry.class)] += 1;
            slots.entries[slot.index()] = entry;
            slots.of_block[entry.block as usize] = slot;
            if from.u8() == 1 {
                slots.close(slot, live(Block(entry.block)));
            }
            let places = slots.places(slot);
            if own_places {
                let lbn = from.u32();
                let first = if lbn == NONE { NONE } else { lbn * slots.pages_per_block };
                for (offset, lpn) in slots.lpn_at[places].iter_mut().enumerate() {
                    *lpn = if first == NONE { NONE } else { first + offset as u32 };
                }
            } else {
                slots.lpn_at[places].iter_mut().for_each(|lpn| *lpn = from.u32());
            }
        }
        slots
    }
}

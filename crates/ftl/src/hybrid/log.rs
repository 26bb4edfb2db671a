//! The log area: blocks that take pages of any logical block in the order of their writing.
//!
//! A log block has a *slot*, which names it in everything that is kept per log block. What it holds is known from two
//! sides: `lpn_at` says which page each of its places holds, and the map of [`super::core::Core`] where a page lies.
//! Log blocks are closed, and may be cleaned, or held by somebody who fills them.

use crate::{Loader, Saver};
use alloc::vec;
use alloc::vec::Vec;
use flash::{Block, Geometry, Lpn};

/// Names a log block.
pub type Slot = u32;

/// No slot, no block, no page.
pub const NONE: u32 = u32::MAX;

/// Live pages of a slot that is no candidate for cleaning.
pub const HELD: u16 = u16::MAX;

/// One log block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogBlock {
    /// The block; [`NONE`] if the slot is free.
    pub block: u32,
    /// Where the search for its next blank page begins.
    pub next: u32,
    /// Its place in the order in which log blocks were begun.
    pub begun: u64,
}

const FREE: LogBlock = LogBlock { block: NONE, next: 0, begun: 0 };

/// See the module's description.
#[derive(Clone, Debug)]
pub struct Slots {
    pages_per_block: u32,
    entries: Vec<LogBlock>,
    free: Vec<Slot>,
    of_block: Vec<Slot>,
    lpn_at: Vec<u32>,
    live: Vec<u16>,
    begun: u64,
}

impl Slots {
    /// Room for `count` log blocks.
    pub fn new(g: &Geometry, count: u32) -> Slots {
        Slots {
            pages_per_block: g.pages_per_block,
            entries: vec![FREE; count as usize],
            free: (0..count).rev().collect(),
            of_block: vec![NONE; g.block_count() as usize],
            lpn_at: vec![NONE; count as usize * g.pages_per_block as usize],
            live: vec![HELD; count as usize],
            begun: 0,
        }
    }

    /// Log blocks there are.
    #[inline(always)]
    pub fn in_use(&self) -> u32 {
        (self.entries.len() - self.free.len()) as u32
    }

    /// Slots there are, free ones included.
    pub fn capacity(&self) -> u32 {
        self.entries.len() as u32
    }

    /// The slots in use.
    pub fn iter(&self) -> impl Iterator<Item = (Slot, LogBlock)> + '_ {
        let used = |(slot, &entry): (usize, &LogBlock)| (entry.block != NONE).then_some((slot as Slot, entry));
        self.entries.iter().enumerate().filter_map(used)
    }

    /// The slot of a block, if it is a log block.
    #[inline(always)]
    pub fn of(&self, block: Block) -> Option<Slot> {
        let slot = self.of_block[block.index()];
        (slot != NONE).then_some(slot)
    }

    /// The block of a slot in use.
    #[inline(always)]
    pub fn block(&self, slot: Slot) -> Block {
        Block(self.entries[slot as usize].block)
    }

    /// A log block.
    #[inline(always)]
    pub fn get(&self, slot: Slot) -> LogBlock {
        self.entries[slot as usize]
    }

    /// The search for the next blank page of a slot goes on from here.
    #[inline(always)]
    pub fn advance(&mut self, slot: Slot, next: u32) {
        self.entries[slot as usize].next = next;
    }

    /// Which page a place of a log block holds, or held.
    #[inline(always)]
    pub fn lpn_at(&self, slot: Slot, offset: u32) -> Lpn {
        Lpn(self.lpn_at[(slot * self.pages_per_block + offset) as usize])
    }

    /// A place of a log block holds a page now.
    #[inline(always)]
    pub fn put(&mut self, slot: Slot, offset: u32, lpn: Lpn) {
        self.lpn_at[(slot * self.pages_per_block + offset) as usize] = lpn.0;
    }

    /// A block becomes a log block, held by whoever asked.
    pub fn add(&mut self, block: Block) -> Slot {
        if self.free.is_empty() {
            // A mount may find more than there are to be, until it has cleaned the surplus away.
            self.free.push(self.entries.len() as Slot);
            self.entries.push(FREE);
            self.live.push(HELD);
            self.lpn_at.resize(self.entries.len() * self.pages_per_block as usize, NONE);
        }
        let slot = self.free.pop().expect("there is a free slot");
        self.begun += 1;
        self.entries[slot as usize] = LogBlock { block: block.0, next: 0, begun: self.begun };
        self.of_block[block.index()] = slot;
        self.live[slot as usize] = HELD;
        let first = slot as usize * self.pages_per_block as usize;
        self.lpn_at[first..first + self.pages_per_block as usize].fill(NONE);
        slot
    }

    /// A log block is none any more.
    pub fn remove(&mut self, slot: Slot) {
        let block = core::mem::replace(&mut self.entries[slot as usize], FREE).block;
        self.of_block[block as usize] = NONE;
        self.live[slot as usize] = HELD;
        self.free.push(slot);
    }

    /// A log block may be cleaned from now on; it has `live` live pages.
    pub fn close(&mut self, slot: Slot, live: u32) {
        self.live[slot as usize] = live as u16;
    }

    /// A log block is held and may not be cleaned.
    pub fn hold(&mut self, slot: Slot) {
        self.live[slot as usize] = HELD;
    }

    /// Whether a log block may be cleaned.
    #[inline(always)]
    pub fn is_closed(&self, slot: Slot) -> bool {
        self.live[slot as usize] != HELD
    }

    /// A page of a log block died.
    #[inline(always)]
    pub fn died(&mut self, slot: Slot) {
        let live = &mut self.live[slot as usize];
        *live -= u16::from(*live != HELD);
    }

    /// The closed log block with the fewest live pages, the oldest among equals, `but` aside; and how many.
    pub fn emptiest(&self, but: Slot) -> Option<(Slot, u32)> {
        // One pass without branches finds the number, a second the block.
        let mut least = HELD;
        for (slot, &live) in self.live.iter().enumerate() {
            least = least.min(if slot == but as usize { HELD } else { live });
        }
        if least == HELD {
            return None;
        }
        let alike = self.live.iter().enumerate().filter(|&(slot, &live)| live == least && slot != but as usize);
        let oldest = alike.map(|(slot, _)| slot).min_by_key(|&slot| self.entries[slot].begun)?;
        Some((oldest as Slot, u32::from(least)))
    }

    /// The closed log block that was begun first.
    pub fn oldest(&self) -> Option<Slot> {
        self.closed().min_by_key(|&slot| self.entries[slot as usize].begun)
    }

    /// The closed log blocks.
    pub fn closed(&self) -> impl Iterator<Item = Slot> + '_ {
        (0..self.entries.len() as Slot).filter(|&slot| self.live[slot as usize] != HELD)
    }

    /// Bytes of RAM: a row for each slot, and the page that each place holds. The map that leads the other way is of the
    /// same size: a hash table of these pages.
    pub fn memory(&self) -> u64 {
        let slots = self.entries.len() as u64;
        slots * 23 + slots * u64::from(self.pages_per_block) * 4 + 20
    }

    /// Saves the log blocks; which of their pages are live is in the live bits.
    pub fn save(&self, out: &mut Saver) {
        out.u64(self.begun);
        out.u32(self.entries.len() as u32);
        out.u32(self.free.len() as u32);
        self.free.iter().for_each(|&slot| out.u32(slot));
        for (slot, entry) in self.entries.iter().enumerate().filter(|(_, entry)| entry.block != NONE) {
            out.u32(slot as u32);
            out.u32(entry.block);
            out.u16(entry.next as u16);
            out.u64(entry.begun);
            out.u8(u8::from(self.live[slot] != HELD));
            let first = slot * self.pages_per_block as usize;
            self.lpn_at[first..first + self.pages_per_block as usize].iter().for_each(|&lpn| out.u32(lpn));
        }
    }

    /// Loads what [`Slots::save`] saved; `live` counts the live pages of a block.
    pub fn load(g: &Geometry, from: &mut Loader<'_>, live: impl Fn(Block) -> u32) -> Slots {
        let begun = from.u64();
        let mut slots = Slots { begun, ..Slots::new(g, from.u32()) };
        let free = from.u32();
        slots.free = (0..free).map(|_| from.u32()).collect();
        for _ in slots.free.len()..slots.entries.len() {
            let slot = from.u32() as usize;
            let entry = LogBlock { block: from.u32(), next: u32::from(from.u16()), begun: from.u64() };
            slots.entries[slot] = entry;
            slots.of_block[entry.block as usize] = slot as Slot;
            if from.u8() == 1 {
                slots.live[slot] = live(Block(entry.block)) as u16;
            }
            let first = slot * slots.pages_per_block as usize;
            slots.lpn_at[first..first + slots.pages_per_block as usize].iter_mut().for_each(|lpn| *lpn = from.u32());
        }
        slots
    }
}

//! The update mapping table (UMT), and the blocks of the two areas that it covers.
//!
//! An entry says where the newest copy of an LPN is, or that it was discarded, and carries the paper's two flags:
//! *update* (no mapping page says so yet) and *invalid* (the page that the mapping page names is stale, and not marked
//! dead yet). Entries exist only for pages in the update and cold areas, and for a few discarded LPNs.
//!
//! A firmware keeps one slot for each page of these blocks, with its LPN and the flags, and hashes LPNs to slots. Here
//! the entries are found through an array by LPN: what is in the table, and the bytes that it reports, are the
//! scheme's.

use crate::blocks::Blocks;
use crate::parts::lanes::Stream;
use crate::{Loader, Saver};
use alloc::vec;
use alloc::vec::Vec;
use flash::{Block, Geometry, Ppn, Tvpn, prefetch};

/// The update area (UBA): blocks that host pages go to.
pub(super) const UPDATED: Stream = Stream(0);
/// The cold area (CBA): blocks that collected pages go to.
pub(super) const COLD: Stream = Stream(1);

const UPDATE: u32 = 1 << 28;
const INVALID: u32 = 1 << 29;
const PRESENT: u32 = 1 << 30;
const PLACE: u32 = UPDATE - 1;
/// In place of a PPN: the LPN was discarded. No device has a page of this number.
const DISCARDED: u32 = PLACE;

/// No block in a slot, no slot of a block, no LPN of a page.
const NONE: u32 = u32::MAX;

/// What the table says of an LPN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Entry(u32);

impl Entry {
    /// Whether the table knows the LPN at all.
    #[inline(always)]
    pub(super) fn is_present(self) -> bool {
        self.0 != 0
    }

    /// Where the LPN's newest copy is; `None` if it was discarded.
    #[inline(always)]
    pub(super) fn page(self) -> Option<Ppn> {
        (self.0 & PLACE != DISCARDED).then_some(Ppn(self.0 & PLACE))
    }

    /// The same as an entry of a mapping page.
    #[inline(always)]
    pub(super) fn word(self) -> u32 {
        self.page().unwrap_or(Ppn::NONE).0
    }

    /// Whether no mapping page says so yet.
    #[inline(always)]
    pub(super) fn is_update(self) -> bool {
        self.0 & UPDATE != 0
    }

    /// Whether the page that the mapping page names is stale and not marked dead.
    #[inline(always)]
    pub(super) fn is_invalid(self) -> bool {
        self.0 & INVALID != 0
    }

    /// Whether it names this very page.
    #[inline(always)]
    pub(super) fn is_at(self, ppn: Ppn) -> bool {
        self.is_present() && self.0 & PLACE == ppn.0
    }
}

/// A block of an area.
#[derive(Clone, Copy, Debug)]
struct Slot {
    block: u32,
    area: Stream,
    /// Its place among all blocks that were opened for an area.
    opened: u64,
    /// The convert cost, or less: an entry that is superseded lowers the cost by one mapping page at the most. A
    /// mapping page that is written lowers it by exactly one, if the block has entries in it.
    bound: u32,
    exact: bool,
    /// The last mapping page written that the block had entries in.
    settled: u64,
    /// The last choice that this block had to stay out of.
    busy: u64,
}

impl Slot {
    /// The least goes first: by cost, of equals the older.
    fn rank(&self) -> (u32, u64) {
        (self.bound, self.opened)
    }
}

/// See the module's description.
#[derive(Clone, Debug)]
pub(super) struct Table {
    entries: Vec<u32>,
    /// One bit for each LPN: whether its entry has the update flag. A firmware chains these by mapping page.
    updates: Vec<u64>,
    /// Entries, and the most there were.
    count: u32,
    peak: u32,
    /// Entries with the invalid flag.
    invalid: u32,
    /// Entries of discarded LPNs.
    discarded: u32,
    slots: Vec<Slot>,
    empty: Vec<u32>,
    /// LPN of each page of the slots' blocks, as of its program.
    lpns: Vec<u32>,
    /// Slot of each block.
    slot_of: Vec<u32>,
    /// Blocks in each area, and at the most.
    areas: [u32; 2],
    quotas: [u32; 2],
    openings: u64,
    age: u64,
    /// Shift from LPN to TVPN.
    shift: u32,
    geometry: Geometry,
    /// Scratch space of costs and choices.
    stamps: Vec<u64>,
    stamp: u64,
}

impl Table {
    /// An empty table. A block is converted once `age` others were opened after it.
    pub(super) fn new(geometry: Geometry, logical_pages: u32, quotas: [u32; 2], age: u64) -> Table {
        let entries = geometry.entries_per_page();
        Table {
            entries: vec![0; logical_pages as usize],
            updates: vec![0; (logical_pages.div_ceil(entries) * (entries / 64)) as usize],
            count: 0,
            peak: 0,
            invalid: 0,
            discarded: 0,
            slots: Vec::new(),
            empty: Vec::new(),
            lpns: Vec::new(),
            slot_of: vec![NONE; geometry.block_count() as usize],
            areas: [0; 2],
            quotas,
            openings: 0,
            age,
            shift: entries.trailing_zeros(),
            geometry,
            stamps: vec![0; logical_pages.div_ceil(entries) as usize],
            stamp: 0,
        }
    }

    // ---- entries -----------------------------------------------------------------------------------------------

    /// What the table says of an LPN.
    #[inline(always)]
    pub(super) fn get(&self, lpn: u32) -> Entry {
        Entry(self.entries[lpn as usize])
    }

    /// Fetches an LPN's entry into the processor's cache.
    #[inline(always)]
    pub(super) fn prefetch(&self, lpn: u32) {
        prefetch(&self.entries, lpn as usize);
    }

    /// The most entries there were since [`Table::reset_peak`].
    pub(super) fn peak(&self) -> u32 {
        self.peak
    }

    /// Forgets the peak.
    pub(super) fn reset_peak(&mut self) {
        self.peak = self.count;
    }

    /// Entries of discarded LPNs.
    #[inline(always)]
    pub(super) fn discarded(&self) -> u32 {
        self.discarded
    }

    /// Whether some mapping page may name a page that is stale and not marked dead.
    #[inline(always)]
    pub(super) fn any_invalid(&self) -> bool {
        self.invalid > 0
    }

    /// The first mapping page of which that holds.
    pub(super) fn first_invalid(&self) -> Option<Tvpn> {
        let lpn = self.entries.iter().position(|entry| entry & INVALID != 0)?;
        Some(Tvpn(lpn as u32 >> self.shift))
    }

    /// A page of an LPN was programmed: by the host, or, if `moved`, by a collection that killed the copy which the
    /// mapping page names. The entry until now, whose page is the caller's to kill.
    #[inline]
    pub(super) fn put(&mut self, lpn: u32, to: Ppn, moved: bool) -> Entry {
        let old = self.replace(lpn, to.0, !moved);
        let block = self.geometry.block_of(to);
        let slot = self.slot_of[block.index()] as usize;
        debug_assert_ne!(slot as u32, NONE, "block {block} is in no area");
        self.lpns[slot * self.geometry.pages_per_block as usize + self.geometry.offset_of(to) as usize] = lpn;
        old
    }

    /// An LPN was discarded. The entry until now, whose page is the caller's to kill.
    pub(super) fn discard(&mut self, lpn: u32) -> Entry {
        let old = self.replace(lpn, DISCARDED, true);
        self.discarded += 1;
        old
    }

    #[inline(always)]
    fn replace(&mut self, lpn: u32, place: u32, stale: bool) -> Entry {
        let entry = &mut self.entries[lpn as usize];
        let old = Entry(*entry);
        self.updates[lpn as usize / 64] |= 1 << (lpn % 64);
        if !old.is_present() {
            *entry = PRESENT | UPDATE | place | if stale { INVALID } else { 0 };
            self.invalid += u32::from(stale);
            self.count += 1;
            self.peak = self.peak.max(self.count);
            return old;
        }
        *entry = PRESENT | UPDATE | place | old.0 & INVALID;
        match old.page() {
            Some(page) if old.is_update() => self.lower(page),
            Some(_) => {}
            None => self.discarded -= 1,
        }
        old
    }

    /// An entry with the update flag left the block that this page is in: it was superseded.
    #[inline(always)]
    fn lower(&mut self, page: Ppn) {
        let slot = self.slot_of[self.geometry.block_of(page).index()];
        if let Some(slot) = self.slots.get_mut(slot as usize) {
            slot.bound = slot.bound.saturating_sub(1);
            slot.exact = false;
        }
    }

    /// The stale page that an LPN's mapping page names is marked dead now.
    pub(super) fn found_stale(&mut self, lpn: u32) {
        let entry = &mut self.entries[lpn as usize];
        debug_assert!(*entry & INVALID != 0, "LPN {lpn} has no stale page");
        *entry &= !INVALID;
        self.invalid -= 1;
    }

    /// A mapping page was written: its number among them, for [`Table::settled`].
    pub(super) fn begin_settling(&mut self) -> u64 {
        self.stamp += 1;
        self.stamp
    }

    /// The mapping page of an LPN agrees with its entry now: it was written as number `round`.
    #[inline]
    pub(super) fn settled(&mut self, lpn: u32, round: u64) {
        let entry = Entry(self.entries[lpn as usize]);
        self.updates[lpn as usize / 64] &= !(1 << (lpn % 64));
        self.invalid -= u32::from(entry.is_invalid());
        match entry.page() {
            Some(page) => {
                self.entries[lpn as usize] = PRESENT | page.0;
                let slot = self.slot_of[self.geometry.block_of(page).index()];
                if let Some(slot) = self.slots.get_mut(slot as usize).filter(|slot| slot.settled != round) {
                    slot.bound = slot.bound.saturating_sub(1);
                    slot.settled = round;
                }
            }
            None => {
                self.entries[lpn as usize] = 0;
                self.discarded -= 1;
                self.count -= 1;
            }
        }
    }

    /// Forgets an entry with which the mapping page agrees.
    #[inline]
    pub(super) fn remove(&mut self, lpn: u32) {
        debug_assert!(!Entry(self.entries[lpn as usize]).is_update(), "LPN {lpn} is in no mapping page");
        self.entries[lpn as usize] = 0;
        self.count -= 1;
    }

    /// Appends the entries of a mapping page that it does not say yet.
    #[inline]
    pub(super) fn updates_of(&self, tvpn: Tvpn, out: &mut Vec<(u32, Entry)>) {
        let words = (1 << self.shift) / 64;
        let first = tvpn.index() * words;
        for word in first..first + words {
            let mut bits = self.updates[word];
            while bits != 0 {
                let lpn = word as u32 * 64 + bits.trailing_zeros();
                bits &= bits - 1;
                out.push((lpn, self.get(lpn)));
            }
        }
    }

    // ---- blocks ------------------------------------------------------------------------------------------------

    /// Whether an area may not take another block.
    #[inline(always)]
    pub(super) fn is_full(&self, area: Stream) -> bool {
        self.areas[area.index()] >= self.quotas[area.index()]
    }

    /// Whether an area has more blocks than its quota.
    pub(super) fn is_over(&self, area: Stream) -> bool {
        self.areas[area.index()] > self.quotas[area.index()]
    }

    /// Whether a block is in an area.
    #[inline(always)]
    pub(super) fn covers(&self, block: Block) -> bool {
        self.slot_of[block.index()] != NONE
    }

    /// A block joins an area. Beyond the quota (programs failed, or power) the table grows.
    pub(super) fn join(&mut self, block: Block, area: Stream) {
        debug_assert!(!self.covers(block), "block {block} is in an area");
        self.openings += 1;
        self.insert(block, area, self.openings);
    }

    fn insert(&mut self, block: Block, area: Stream, opened: u64) -> usize {
        let p = self.geometry.pages_per_block as usize;
        let slot = Slot { block: block.0, area, opened, bound: 0, exact: false, settled: 0, busy: 0 };
        let place = match self.empty.pop() {
            Some(place) => {
                self.slots[place as usize] = slot;
                self.lpns[place as usize * p..(place as usize + 1) * p].fill(NONE);
                place as usize
            }
            None => {
                self.slots.push(slot);
                self.lpns.resize(self.slots.len() * p, NONE);
                self.slots.len() - 1
            }
        };
        self.slot_of[block.index()] = place as u32;
        self.areas[area.index()] += 1;
        place
    }

    /// A block leaves its area. No entry names a page of it any more.
    pub(super) fn leave(&mut self, block: Block) {
        let place = core::mem::replace(&mut self.slot_of[block.index()], NONE);
        let slot = &mut self.slots[place as usize];
        slot.block = NONE;
        self.areas[slot.area.index()] -= 1;
        self.empty.push(place);
    }

    /// The LPN whose newest copy is this page of a block in an area, if it is one's.
    #[inline(always)]
    pub(super) fn lpn_at(&self, ppn: Ppn) -> Option<u32> {
        let slot = self.slot_of[self.geometry.block_of(ppn).index()] as usize;
        self.lpn_in(slot, ppn)
    }

    #[inline(always)]
    fn lpn_in(&self, slot: usize, ppn: Ppn) -> Option<u32> {
        let p = self.geometry.pages_per_block as usize;
        let lpn = self.lpns[slot * p + self.geometry.offset_of(ppn) as usize];
        (lpn != NONE && self.get(lpn).is_at(ppn)).then_some(lpn)
    }

    /// The block to convert, of one area or of both, and its cost: the number of mapping pages in which it has entries
    /// with the update flag. The oldest if it is over age, otherwise the cheapest, of equals the older. `busy` are the
    /// blocks that cannot be converted.
    pub(super) fn victim(
        &mut self,
        area: Option<Stream>,
        blocks: &Blocks,
        busy: impl Iterator<Item = Block>,
    ) -> Option<(Block, u32)> {
        self.stamp += 1;
        let round = self.stamp;
        for block in busy {
            if let Some(slot) = self.slots.get_mut(self.slot_of[block.index()] as usize) {
                slot.busy = round;
            }
        }
        let eligible =
            |slot: &Slot| slot.block != NONE && slot.busy != round && area.is_none_or(|area| slot.area == area);
        // What is known exactly sets the mark; of the others, only those whose bounds are below it are counted.
        let (mut oldest, mut best): (Option<usize>, Option<usize>) = (None, None);
        for (place, slot) in self.slots.iter().enumerate().filter(|(_, slot)| eligible(slot)) {
            if oldest.is_none_or(|other| slot.opened < self.slots[other].opened) {
                oldest = Some(place);
            }
            if slot.exact && best.is_none_or(|other| slot.rank() < self.slots[other].rank()) {
                best = Some(place);
            }
        }
        let oldest = oldest?;
        if self.openings - self.slots[oldest].opened > self.age {
            return Some((Block(self.slots[oldest].block), self.cost(oldest, blocks)));
        }
        for place in 0..self.slots.len() {
            let slot = self.slots[place];
            let below = best.is_none_or(|best| slot.rank() < self.slots[best].rank());
            if slot.exact || !below || !eligible(&slot) {
                continue;
            }
            let cost = self.cost(place, blocks);
            (self.slots[place].bound, self.slots[place].exact) = (cost, true);
            if best.is_none_or(|best| self.slots[place].rank() < self.slots[best].rank()) {
                best = Some(place);
            }
        }
        best.map(|place| (Block(self.slots[place].block), self.slots[place].bound))
    }

    fn cost(&mut self, place: usize, blocks: &Blocks) -> u32 {
        self.stamp += 1;
        let block = Block(self.slots[place].block);
        let (mut next, mut cost) = (0, 0);
        while let Some((first, mut bits)) = blocks.live_word(block, next) {
            next = first + 64 - bits.leading_zeros();
            while bits != 0 {
                let ppn = self.geometry.page(block, first + bits.trailing_zeros());
                bits &= bits - 1;
                if let Some(lpn) = self.lpn_in(place, ppn).filter(|&lpn| self.get(lpn).is_update()) {
                    let stamp = &mut self.stamps[(lpn >> self.shift) as usize];
                    cost += u32::from(*stamp != self.stamp);
                    *stamp = self.stamp;
                }
            }
        }
        cost
    }

    // ---- bytes -------------------------------------------------------------------------------------------------

    /// Bytes for a block in an area: an LPN with flags and a place in the hash for each page, and the block's own.
    pub(super) fn block_bytes(pages_per_block: u32) -> u64 {
        u64::from(pages_per_block) * 8 + 16
    }

    /// Controller RAM of the slots, bytes.
    pub(super) fn memory(&self) -> u64 {
        let quota: u32 = self.quotas.iter().sum();
        let used: u32 = self.areas.iter().sum();
        u64::from(quota.max(used)) * Self::block_bytes(self.geometry.pages_per_block)
    }

    /// Saves the state.
    pub(super) fn save(&self, out: &mut Saver) {
        out.u64(self.openings);
        let mut places: Vec<usize> = (0..self.slots.len()).filter(|&place| self.slots[place].block != NONE).collect();
        places.sort_unstable_by_key(|&place| self.slots[place].opened);
        out.u32(places.len() as u32);
        for place in places {
            let Slot { block, area, opened, .. } = self.slots[place];
            out.u32(block);
            out.u8(area.0 as u8);
            out.u64(opened);
            for offset in 0..self.geometry.pages_per_block {
                let lpn = self.lpn_in(place, self.geometry.page(Block(block), offset));
                out.u32(lpn.map_or(NONE, |lpn| lpn | self.get(lpn).0 & (UPDATE | INVALID)));
            }
        }
        out.u32(self.discarded);
        for (lpn, &entry) in self.entries.iter().enumerate() {
            if entry != 0 && Entry(entry).page().is_none() {
                out.u32(lpn as u32 | entry & INVALID);
            }
        }
    }

    /// Loads what [`Table::save`] saved into a new table.
    pub(super) fn load(&mut self, from: &mut Loader<'_>) {
        self.openings = from.u64();
        for _ in 0..from.u32() {
            let (block, area, opened) = (Block(from.u32()), from.u8(), from.u64());
            let place = self.insert(block, Stream(area.into()), opened);
            for offset in 0..self.geometry.pages_per_block {
                let word = from.u32();
                if word != NONE {
                    let ppn = self.geometry.page(block, offset);
                    let lpn = word & PLACE;
                    self.lpns[place * self.geometry.pages_per_block as usize + offset as usize] = lpn;
                    self.entries[lpn as usize] = PRESENT | ppn.0 | word & (UPDATE | INVALID);
                    self.updates[lpn as usize / 64] |= u64::from(word & UPDATE != 0) << (lpn % 64);
                    self.count += 1;
                    self.invalid += u32::from(word & INVALID != 0);
                }
            }
        }
        self.discarded = from.u32();
        for _ in 0..self.discarded {
            let word = from.u32();
            let lpn = word & PLACE;
            self.entries[lpn as usize] = PRESENT | UPDATE | DISCARDED | word & INVALID;
            self.updates[lpn as usize / 64] |= 1 << (lpn % 64);
            self.count += 1;
            self.invalid += u32::from(word & INVALID != 0);
        }
        self.peak = self.count;
    }

    /// Holds the counts to the entries, and each entry to a block in an area.
    pub(super) fn audit(&self) -> Result<(), alloc::string::String> {
        let present = self.entries.iter().enumerate().filter(|(_, entry)| **entry != 0);
        let mut counts = [0; 3];
        for (lpn, entry) in present.map(|(lpn, &entry)| (lpn as u32, Entry(entry))) {
            let discarded = entry.page().is_none();
            for (count, is) in counts.iter_mut().zip([true, entry.is_invalid(), discarded]) {
                *count += u32::from(is);
            }
            let wrong = match entry.page() {
                None => !entry.is_update(),
                Some(page) => !self.covers(self.geometry.block_of(page)) || self.lpn_at(page) != Some(lpn),
            };
            let listed = self.updates[lpn as usize / 64] >> (lpn % 64) & 1 == 1;
            if wrong || listed != entry.is_update() || entry.is_invalid() && !entry.is_update() {
                return Err(alloc::format!("LPN {lpn} has the entry {entry:?}, which no block of an area explains"));
            }
        }
        let kept = [self.count, self.invalid, self.discarded];
        if counts != kept {
            return Err(alloc::format!(
                "the table counts {kept:?} entries (all, invalid, discarded), but has {counts:?}"
            ));
        }
        Ok(())
    }
}

//! The state of every block: live pages, wear, free lists.
//!
//! A block is free, open (being filled), closed, or bad. `live` holds the number of live pages of a closed block and
//! that plus [`OPEN`] of any other, so that the search for a victim is one minimum over an array of 16-bit numbers and
//! an invalidation is one bit and one decrement, without a branch. Opening a block sets all its live bits at once: a
//! program then touches nothing here, and pages that are never programmed are killed when the block is closed early.

mod by_age;
pub(crate) mod free_list;

pub(crate) use free_list::FreeOrder;

use crate::{Error, Loader, Saver};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use by_age::ByAge;
use core::ops::Range;
use flash::{Block, Die, Geometry, Ppn};
use free_list::FreeList;

/// Added to the live count of a block that is no candidate for collection.
pub(crate) const OPEN: i16 = 1 << 14;

/// What a mount found a block to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FoundState {
    /// Nothing in it is needed.
    Empty,
    /// It holds pages.
    InUse,
    /// It is marked bad.
    Bad,
}

/// See the module's description.
#[derive(Clone, Debug)]
pub struct Blocks {
    geometry: Geometry,
    live: Vec<i16>,
    /// One bit for each page.
    bits: Vec<u64>,
    erases: Vec<u32>,
    free: Vec<FreeList>,
    free_total: u32,
    /// Blocks whose blankness is not to be trusted: erase before use.
    suspect: Vec<u64>,
    bad: Vec<u64>,
    bad_total: u32,
    /// Host page writes at the last program or invalidation; empty unless a policy asks for ages.
    modified: Vec<u64>,
    /// Host page writes at the last erase; empty unless a policy asks.
    erased_at: Vec<u64>,
    /// When each block was opened, counted in openings; empty unless a policy asks.
    opened: Vec<u64>,
    openings: u64,
    /// Neither saved nor counted as RAM: it says what `live` and `modified` say. Empty unless the policy asks for ages;
    /// those that do not read it pay some four percent of their time for it.
    by_age: ByAge,
    tracks_age: bool,
    /// Host page writes so far: the only clock that a scheme has.
    pub clock: u64,
}

fn bit(set: &[u64], index: usize) -> bool {
    set[index / 64] >> (index % 64) & 1 == 1
}

impl Blocks {
    /// All blocks free, fresh and good. `ages` keeps what age-based policies need.
    pub fn new(geometry: Geometry, order: FreeOrder, ages: bool) -> Blocks {
        let blocks = geometry.block_count() as usize;
        let kept = if ages { blocks } else { 0 };
        let free_list = |die| {
            let mut list = FreeList::new(order);
            geometry.blocks_of(Die(die)).for_each(|block| list.push(block, 0));
            list
        };
        Blocks {
            geometry,
            live: vec![OPEN; blocks],
            bits: vec![0; (geometry.page_count() as usize).div_ceil(64)],
            erases: vec![0; blocks],
            free: (0..geometry.die_count()).map(free_list).collect(),
            free_total: geometry.block_count(),
            suspect: vec![0; blocks.div_ceil(64)],
            bad: vec![0; blocks.div_ceil(64)],
            bad_total: 0,
            modified: vec![0; kept],
            erased_at: vec![0; kept],
            opened: vec![0; kept],
            openings: 0,
            by_age: ByAge::new(kept as u32, if ages { geometry.die_count() * geometry.pages_per_block } else { 0 }),
            tracks_age: ages,
            clock: 0,
        }
    }

    /// The device's shape.
    #[inline(always)]
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Live counts of all blocks, 2^14 (`OPEN`) added for those that are no candidates.
    #[inline(always)]
    pub fn live_counts(&self) -> &[i16] {
        &self.live
    }

    /// Live pages of a block in any state.
    #[inline(always)]
    pub fn live_of(&self, block: Block) -> u32 {
        (self.live[block.index()] & (OPEN - 1)) as u32
    }

    /// Whether a block may be collected: closed, with at least one dead page.
    #[inline(always)]
    pub fn is_candidate(&self, block: u32) -> bool {
        self.live[block as usize] < self.geometry.pages_per_block as i16
    }

    /// Whether a block is closed: it holds pages, and nothing is being done with it.
    #[inline(always)]
    pub fn is_closed(&self, block: Block) -> bool {
        self.live[block.index()] < OPEN
    }

    /// Whether a block is free: it holds nothing, and can be opened.
    pub fn is_free(&self, block: Block) -> bool {
        self.live[block.index()] == OPEN && !self.is_bad(block)
    }

    /// Erase counts of all blocks.
    pub fn erase_counts(&self) -> &[u32] {
        &self.erases
    }

    /// Host page writes since the last program or invalidation in a block, at least 1.
    pub fn age(&self, block: u32) -> u64 {
        (self.clock - self.modified[block as usize]).max(1)
    }

    /// Candidates of a die with so many live pages, those that were left alone longest first. None unless the policy
    /// asks for ages.
    pub fn candidates_by_age(&self, die: Die, live: u32) -> impl Iterator<Item = u32> + '_ {
        let list = self.tracks_age.then(|| self.list_of(die, live)).flatten();
        list.into_iter().flat_map(|list| self.by_age.list(list))
    }

    /// Holds the lists of candidates to live counts and ages.
    ///
    /// # Errors
    /// The first die whose lists differ.
    pub(crate) fn audit_lists(&self) -> Result<(), String> {
        for die in (0..self.geometry.die_count()).map(Die).filter(|_| self.tracks_age) {
            let mut listed = 0;
            for live in 0..self.geometry.pages_per_block {
                let mut before = 0;
                for block in self.candidates_by_age(die, live) {
                    let modified = self.modified[block as usize];
                    if !self.is_candidate(block) || self.live_of(Block(block)) != live || modified < before {
                        return Err(format!("block {block} stands in the list of {live} live pages"));
                    }
                    (before, listed) = (modified, listed + 1);
                }
            }
            let candidates = self.range(die).filter(|&block| self.is_candidate(block)).count();
            if listed != candidates {
                return Err(format!("die {die} has {candidates} candidates, and {listed} of them in lists"));
            }
        }
        Ok(())
    }

    /// The list of candidates with so many live pages; a block without a dead page is none.
    fn list_of(&self, die: Die, live: u32) -> Option<u32> {
        let pages = self.geometry.pages_per_block;
        (live < pages).then_some(die.0 * pages + live)
    }

    /// To be called when the live count or the state of a block has changed.
    #[inline(always)]
    fn relist(&mut self, block: usize) {
        if self.tracks_age {
            let live = self.live[block] as u32;
            let list = self.list_of(self.geometry.die_of(Block(block as u32)), live);
            self.by_age.place(block as u32, list, &self.modified);
        }
    }

    /// As [`Blocks::relist`], and the block is as young as can be.
    #[inline(always)]
    fn touch(&mut self, block: usize) {
        if self.tracks_age {
            self.modified[block] = self.clock;
            self.relist(block);
        }
    }

    /// Host page writes since a block's last erase, at least 1.
    pub fn age_since_erase(&self, block: u32) -> u64 {
        (self.clock - self.erased_at[block as usize]).max(1)
    }

    /// The place of a block's opening among all openings.
    pub fn opened(&self, block: u32) -> u64 {
        self.opened[block as usize]
    }

    /// All blocks on the free lists.
    pub fn free_blocks(&self) -> impl Iterator<Item = Block> + '_ {
        self.free.iter().flat_map(|list| list.iter().map(Block))
    }

    /// Free blocks of a die.
    #[inline(always)]
    pub fn free_in(&self, die: Die) -> u32 {
        self.free[die.index()].len() as u32
    }

    /// Free blocks of all dies.
    #[inline(always)]
    pub fn free_total(&self) -> u32 {
        self.free_total
    }

    /// Whether a page is live (or not yet programmed, in an open block).
    #[inline(always)]
    pub fn is_live(&self, ppn: Ppn) -> bool {
        bit(&self.bits, ppn.index())
    }

    /// Whether a block is bad.
    pub fn is_bad(&self, block: Block) -> bool {
        bit(&self.bad, block.index())
    }

    /// The live bits around a page, for prefetching.
    #[inline(always)]
    pub(crate) fn prefetch(&self, ppn: Ppn) {
        flash::prefetch(&self.bits, ppn.index() / 64);
        flash::prefetch(&self.live, self.geometry.block_of(ppn).index());
    }

    /// A live page dies.
    #[inline(always)]
    pub fn kill(&mut self, ppn: Ppn) {
        let page = ppn.index();
        debug_assert!(self.is_live(ppn), "page {ppn} dies twice");
        self.bits[page / 64] &= !(1 << (page % 64));
        let block = self.geometry.block_of(ppn).index();
        self.live[block] -= 1;
        self.touch(block);
    }

    /// A page found live while mounting.
    pub fn revive(&mut self, ppn: Ppn) {
        let page = ppn.index();
        debug_assert!(!self.is_live(ppn), "page {ppn} is live twice");
        self.bits[page / 64] |= 1 << (page % 64);
        let block = self.geometry.block_of(ppn).index();
        self.live[block] += 1;
        self.relist(block);
    }

    /// A page that a map on flash names, found live while mounting.
    ///
    /// # Errors
    /// Another entry has named it: [`Error::Corrupt`].
    pub fn claim<X>(&mut self, ppn: Ppn) -> Result<(), Error<X>> {
        if self.is_live(ppn) {
            return Err(Error::Corrupt);
        }
        self.revive(ppn);
        Ok(())
    }

    fn set_bits(&mut self, block: Block, value: bool) {
        let p = self.geometry.pages_per_block as usize;
        let first = self.geometry.page(block, 0).index();
        if p >= 64 {
            self.bits[first / 64..(first + p) / 64].fill(if value { u64::MAX } else { 0 });
        } else {
            let mask = ((1u64 << p) - 1) << (first % 64);
            let word = &mut self.bits[first / 64];
            *word = if value { *word | mask } else { *word & !mask };
        }
    }

    /// Takes a free block of a die and opens it, all its pages live in advance. `None` if there is none. The second
    /// value says that it must be erased before its first program.
    pub fn open(&mut self, die: Die) -> Option<(Block, bool)> {
        let block = self.free[die.index()].pop()?;
        Some(self.begin(Block(block)))
    }

    /// As [`Blocks::open`], but a certain block. `None` if it is not free.
    pub fn open_block(&mut self, block: Block) -> Option<(Block, bool)> {
        let die = self.geometry.die_of(block);
        let free = self.free[die.index()].take(block.0, self.erases[block.index()]);
        free.then(|| self.begin(block))
    }

    fn begin(&mut self, block: Block) -> (Block, bool) {
        self.free_total -= 1;
        self.live[block.index()] = OPEN + self.geometry.pages_per_block as i16;
        self.set_bits(block, true);
        self.touch(block.index());
        if self.tracks_age {
            self.openings += 1;
            self.opened[block.index()] = self.openings;
        }
        let suspect = bit(&self.suspect, block.index());
        self.suspect[block.index() / 64] &= !(1 << (block.index() % 64));
        (block, suspect)
    }

    /// As [`Blocks::open`], with no page live yet: for schemes that fill a block in any order and over a long time.
    /// Each page is revived when it is programmed.
    pub fn open_blank(&mut self, die: Die) -> Option<(Block, bool)> {
        let (block, suspect) = self.open(die)?;
        self.discard_open(block);
        Some((block, suspect))
    }

    /// A block that was opened blank and holds nothing needed goes back to the free list; it is erased before its next
    /// use.
    pub fn give_back(&mut self, block: Block) {
        self.suspect[block.index() / 64] |= 1 << (block.index() % 64);
        self.free[self.geometry.die_of(block).index()].push(block.0, self.erases[block.index()]);
        self.free_total += 1;
    }

    /// Live bits of a block, 64 pages from page `64 * word` on.
    #[inline(always)]
    pub fn live_bits(&self, block: Block, word: u32) -> u64 {
        let page = self.geometry.page(block, word * 64).index();
        let bits = self.bits[page / 64] >> (page % 64);
        let p = self.geometry.pages_per_block;
        if p < 64 { bits & ((1 << p) - 1) } else { bits }
    }

    /// Puts a block back that was opened and found to be unusable before its first program, to be retired.
    pub fn discard_open(&mut self, block: Block) {
        self.set_bits(block, false);
        self.live[block.index()] = OPEN;
        self.relist(block.index());
    }

    /// A full open block becomes a candidate.
    #[inline]
    pub fn close(&mut self, block: Block) {
        debug_assert!(self.live[block.index()] >= OPEN);
        self.live[block.index()] -= OPEN;
        self.touch(block.index());
    }

    /// An open block will not be filled: its pages from `next` on are dead, and it becomes a candidate.
    pub fn close_early(&mut self, block: Block, next: u32) {
        self.shorten(block, next);
        self.close(block);
    }

    /// Pages of an open block from `end` on will never be programmed: they are dead.
    pub fn shorten(&mut self, block: Block, end: u32) {
        for offset in end..self.geometry.pages_per_block {
            let page = self.geometry.page(block, offset);
            if self.is_live(page) {
                self.kill(page);
            }
        }
    }

    /// Takes a closed block out of the candidates, while it is being collected.
    pub fn begin_collecting(&mut self, block: Block) {
        self.live[block.index()] += OPEN;
        self.relist(block.index());
    }

    /// Gives it back to those that are closed.
    pub fn stop_collecting(&mut self, block: Block) {
        self.live[block.index()] -= OPEN;
        self.relist(block.index());
    }

    /// The first live page of a block at or after `offset`.
    #[inline]
    pub fn next_live(&self, block: Block, offset: u32) -> Option<u32> {
        let p = self.geometry.pages_per_block;
        let first = self.geometry.page(block, 0).index();
        let mut at = offset;
        while at < p {
            let page = first + at as usize;
            let word = self.bits[page / 64] >> (page % 64);
            let step = word.trailing_zeros();
            if step < 64 {
                at += step;
                return (at < p).then_some(at);
            }
            at += 64 - (page % 64) as u32;
        }
        None
    }

    /// Live bits of a block at and after the first live page from `offset` on, within one word: that page's offset and
    /// the bits from it on. `None` if there is none.
    #[inline]
    pub fn live_word(&self, block: Block, offset: u32) -> Option<(u32, u64)> {
        let first = self.next_live(block, offset)?;
        let page = self.geometry.page(block, first).index();
        let mut bits = self.bits[page / 64] >> (page % 64);
        // Small blocks share a word with their neighbours.
        let left = self.geometry.pages_per_block - first;
        if left < 64 {
            bits &= (1 << left) - 1;
        }
        Some((first, bits))
    }

    /// The live pages among `moved`, counted from page `first` on within its word of bits, die.
    #[inline]
    pub fn kill_word(&mut self, first: Ppn, moved: u64) {
        let page = first.index();
        debug_assert_eq!(self.bits[page / 64] >> (page % 64) & moved, moved, "a page dies twice");
        self.bits[page / 64] &= !(moved << (page % 64));
        let block = self.geometry.block_of(first).index();
        self.live[block] -= moved.count_ones() as i16;
        self.touch(block);
    }

    /// A collected block was erased: free again.
    pub fn erased(&mut self, block: Block) {
        let b = block.index();
        debug_assert!(self.live_of(block) == 0, "block {block} was erased with live pages");
        self.live[b] = OPEN;
        self.relist(b);
        self.erases[b] += 1;
        if self.tracks_age {
            self.erased_at[b] = self.clock;
        }
        let die = self.geometry.die_of(block);
        self.free[die.index()].push(block.0, self.erases[b]);
        self.free_total += 1;
    }

    /// While mounting, before [`Blocks::found`]: erases of blocks before it, as far as they are known.
    pub fn add_erases(&mut self, before: &[u32]) {
        self.erases.iter_mut().zip(before).for_each(|(erases, before)| *erases += before);
    }

    /// An erase outside a collection: only counted.
    pub fn count_erase(&mut self, block: Block) {
        self.erases[block.index()] += 1;
    }

    /// A block without live pages goes out of service.
    pub fn retire(&mut self, block: Block) {
        let b = block.index();
        debug_assert!(self.live_of(block) == 0, "block {block} was retired with live pages");
        self.live[b] = OPEN;
        self.relist(b);
        self.note_bad(block.0);
        if self.free[self.geometry.die_of(block).index()].take(block.0, self.erases[b]) {
            self.free_total -= 1;
        }
    }

    /// While mounting: `state` says what each block was found to be. Blocks in use are closed, with no live page yet.
    pub fn found(&mut self, state: impl Fn(Block) -> FoundState) {
        self.free_total = 0;
        for die in 0..self.free.len() {
            while self.free[die].pop().is_some() {}
            for block in self.range(Die(die as u32)) {
                match state(Block(block)) {
                    FoundState::Empty => self.free[die].push(block, self.erases[block as usize]),
                    FoundState::InUse => {
                        self.live[block as usize] = 0;
                        self.relist(block as usize);
                    }
                    FoundState::Bad => self.note_bad(block),
                }
            }
            self.free_total += self.free[die].len() as u32;
        }
    }

    /// While mounting: every free block is to be erased before its first use.
    pub fn suspect_free(&mut self) {
        for list in &self.free {
            for block in list.iter() {
                self.suspect[block as usize / 64] |= 1 << (block % 64);
            }
        }
    }

    /// While mounting: opens a block that was found partly programmed, of which some pages are left to be filled.
    pub fn resume(&mut self, block: Block, left: Range<u32>) {
        self.live[block.index()] += OPEN;
        self.relist(block.index());
        for offset in left {
            self.revive(self.geometry.page(block, offset));
        }
    }

    /// Bad blocks.
    #[inline(always)]
    pub fn bad_count(&self) -> u32 {
        self.bad_total
    }

    fn note_bad(&mut self, block: u32) {
        self.bad_total += u32::from(!bit(&self.bad, block as usize));
        self.bad[block as usize / 64] |= 1 << (block % 64);
    }

    /// The blocks of a die.
    pub fn range(&self, die: Die) -> Range<u32> {
        self.geometry.blocks_of(die)
    }

    /// Controller RAM, bytes: live bits, live counts with the block's state, erase counts, free lists, ages.
    pub fn memory(&self) -> [(&'static str, u64); 4] {
        let blocks = self.live.len() as u64;
        let ages = if self.tracks_age { blocks * 24 + 8 } else { 0 };
        [
            ("live bits", u64::from(self.geometry.page_count()).div_ceil(8)),
            ("block states", blocks * 2 + blocks.div_ceil(4) + 16),
            ("erase counts", blocks * 4),
            ("free lists and ages", blocks * 4 + self.free.len() as u64 * 4 + ages),
        ]
    }

    /// Saves the state (docs/accounting.md).
    pub fn save(&self, out: &mut Saver) {
        out.u64(self.clock);
        let pages = self.geometry.page_count() as usize;
        for byte in 0..pages.div_ceil(8) {
            out.u8((self.bits[byte / 8] >> (byte % 8 * 8)) as u8);
        }
        for (&live, &erases) in self.live.iter().zip(&self.erases) {
            out.u16(live as u16);
            out.u32(erases);
        }
        for set in [&self.suspect, &self.bad] {
            for byte in 0..self.live.len().div_ceil(8) {
                out.u8((set[byte / 8] >> (byte % 8 * 8)) as u8);
            }
        }
        for list in &self.free {
            out.u32(list.len() as u32);
            list.iter().for_each(|block| out.u32(block));
        }
        if self.tracks_age {
            out.u64(self.openings);
            for stamps in [&self.modified, &self.erased_at, &self.opened] {
                stamps.iter().for_each(|&stamp| out.u64(stamp));
            }
        }
    }

    /// Loads what [`Blocks::save`] saved, into blocks that are all free.
    pub fn load(&mut self, from: &mut Loader<'_>) {
        let geometry = self.geometry;
        let blocks = self;
        blocks.clock = from.u64();
        let bytes_into = |set: &mut [u64], bytes: usize, from: &mut Loader<'_>| {
            set.fill(0);
            for byte in 0..bytes {
                set[byte / 8] |= u64::from(from.u8()) << (byte % 8 * 8);
            }
        };
        bytes_into(&mut blocks.bits, (geometry.page_count() as usize).div_ceil(8), from);
        for b in 0..blocks.live.len() {
            blocks.live[b] = from.u16() as i16;
            blocks.erases[b] = from.u32();
        }
        let count = blocks.live.len().div_ceil(8);
        bytes_into(&mut blocks.suspect, count, from);
        bytes_into(&mut blocks.bad, count, from);
        blocks.bad_total = blocks.bad.iter().map(|word| word.count_ones()).sum();
        blocks.free_total = 0;
        for list in &mut blocks.free {
            list.clear();
            for _ in 0..from.u32() {
                let block = from.u32();
                list.push(block, blocks.erases[block as usize]);
            }
            blocks.free_total += list.len() as u32;
        }
        if blocks.tracks_age {
            blocks.openings = from.u64();
            for stamps in [&mut blocks.modified, &mut blocks.erased_at, &mut blocks.opened] {
                stamps.iter_mut().for_each(|stamp| *stamp = from.u64());
            }
            // In the order of their ages, each is the last of its list.
            let mut order: Vec<usize> = (0..blocks.live.len()).collect();
            order.sort_unstable_by_key(|&block| blocks.modified[block]);
            order.into_iter().for_each(|block| blocks.relist(block));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks_in(order: FreeOrder, p: u32) -> Blocks {
        let g = Geometry { dies: 2, blocks_per_die: 3, pages_per_block: p, ..Geometry::default() };
        Blocks::new(g.checked().unwrap(), order, false)
    }

    fn blocks(p: u32) -> Blocks {
        blocks_in(FreeOrder::Fifo, p)
    }

    #[test]
    fn a_block_goes_round_its_states() {
        for p in [4, 64, 256] {
            let mut blocks = blocks(p);
            let (block, suspect) = blocks.open(Die(1)).unwrap();
            assert_eq!((block, suspect), (Block(3), false));
            assert!(!blocks.is_candidate(3));
            blocks.close(block);
            assert!(!blocks.is_candidate(3), "nothing is dead yet");
            let page = |offset| Ppn(3 * p + offset);
            blocks.kill(page(0));
            blocks.kill(page(2));
            assert!(blocks.is_candidate(3));
            assert_eq!(blocks.live_of(block), p - 2);
            assert_eq!(blocks.next_live(block, 0), Some(1));
            assert_eq!(blocks.next_live(block, 2), Some(3));
            for offset in (0..p).filter(|offset| ![0, 2].contains(offset)) {
                blocks.kill(page(offset));
            }
            assert_eq!(blocks.next_live(block, 0), None);
            blocks.erased(block);
            assert_eq!((blocks.free_in(Die(1)), blocks.free_total(), blocks.erase_counts()[3]), (3, 6, 1));
        }
    }

    #[test]
    fn least_worn_first() {
        let mut blocks = blocks_in(FreeOrder::LeastWorn, 4);
        let opened = |blocks: &mut Blocks| blocks.open(Die(0)).unwrap().0;
        let use_up = |blocks: &mut Blocks, block: Block| {
            blocks.close_early(block, 0);
            blocks.erased(block);
        };
        for _ in 0..3 {
            let block = opened(&mut blocks);
            use_up(&mut blocks, block);
        }
        // All have one erase now; another for the first, and the second is freed again after the third.
        let [first, second, third] = [(); 3].map(|()| opened(&mut blocks));
        for block in [third, second, first] {
            use_up(&mut blocks, block);
        }
        let block = opened(&mut blocks);
        assert_eq!(block, third);
        use_up(&mut blocks, block);
        let order: Vec<u32> = core::iter::from_fn(|| blocks.open(Die(0))).map(|(block, _)| block.0).collect();
        assert_eq!(order, [1, 0, 2]);
    }

    #[test]
    fn state_survives_saving() {
        for order in [FreeOrder::Fifo, FreeOrder::LeastWorn] {
            let mut blocks = blocks_in(order, 4);
            let (block, _) = blocks.open(Die(0)).unwrap();
            blocks.close_early(block, 0);
            blocks.erased(block);
            let (block, _) = blocks.open(Die(0)).unwrap();
            blocks.close_early(block, 2);
            let mut saver = Saver::default();
            blocks.save(&mut saver);
            let bytes = saver.finish();
            let reported: u64 = blocks.memory().iter().map(|(_, bytes)| bytes).sum();
            assert!(bytes.len() as u64 <= reported, "{} > {reported}", bytes.len());
            let mut loader = Loader::new(&bytes);
            let mut again = Blocks::new(blocks.geometry, order, false);
            again.load(&mut loader);
            assert!(loader.is_done());
            let free = |blocks: &Blocks| blocks.free.iter().flat_map(FreeList::iter).collect::<Vec<_>>();
            assert_eq!((&again.live, &again.bits, free(&again)), (&blocks.live, &blocks.bits, free(&blocks)));
        }
    }
}

//! The open blocks of one write stream, one lane for each die that the stream is striped over.

use crate::{Loader, Saver};
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use flash::{Block, Geometry, Ppn};

/// No block is open in a lane.
const NONE: u32 = u32::MAX;

/// One open block. It stays the lane's when it is full, until its successor is opened: the newest block of a die is
/// therefore never collected, which mounting relies on (docs/recovery.md).
#[derive(Clone, Copy, Debug)]
struct Lane {
    next: u32,
    end: u32,
    block: u32,
}

/// See the module's description.
#[derive(Clone, Debug)]
pub struct Lanes {
    lanes: Vec<Lane>,
    turn: usize,
    /// Blocks are filled in SLC mode: a part of their pages, if cells hold more than one bit.
    pub(super) slc: bool,
}

impl Lanes {
    /// `count` lanes without a block.
    pub fn new(count: usize) -> Lanes {
        Lanes { lanes: vec![Lane { next: 0, end: 0, block: NONE }; count], turn: 0, slc: false }
    }

    /// How many lanes.
    #[inline(always)]
    pub fn count(&self) -> usize {
        self.lanes.len()
    }

    /// The lane whose turn it is.
    #[inline(always)]
    pub fn turn(&self) -> usize {
        self.turn
    }

    /// Gives the turn to the lane of a number, counted round.
    #[inline(always)]
    pub fn turn_to(&mut self, number: usize) {
        self.turn = number % self.lanes.len();
    }

    /// Passes the turn on.
    #[inline(always)]
    pub fn advance(&mut self) {
        self.turn += 1;
        if self.turn == self.lanes.len() {
            self.turn = 0;
        }
    }

    /// The next page of a lane, if its block has one.
    #[inline(always)]
    pub fn take(&mut self, lane: usize) -> Option<Ppn> {
        let lane = &mut self.lanes[lane];
        if lane.next == lane.end {
            return None;
        }
        lane.next += 1;
        Some(Ppn(lane.next - 1))
    }

    /// The next page of the lane in turn, if its block has one, and the lane; passes the turn on.
    #[inline(always)]
    pub fn take_in_turn(&mut self) -> Option<(Ppn, usize)> {
        let turn = self.turn;
        let page = self.take(turn)?;
        self.advance();
        Some((page, turn))
    }

    /// The pages left in a lane's block.
    #[inline(always)]
    pub fn run(&self, lane: usize) -> Range<u32> {
        self.lanes[lane].next..self.lanes[lane].end
    }

    /// The pages of a lane's run below `next` are taken.
    #[inline(always)]
    pub fn take_until(&mut self, lane: usize, next: u32) {
        debug_assert!(self.run(lane).start <= next && next <= self.run(lane).end);
        self.lanes[lane].next = next;
    }

    /// Undoes the last [`Lanes::take`] of a lane.
    pub fn give_back(&mut self, lane: usize, page: Ppn) {
        let lane = &mut self.lanes[lane];
        lane.next -= 1;
        debug_assert_eq!(lane.next, page.0, "only the last page taken can be given back");
    }

    /// Pages left in a lane's block.
    pub fn room(&self, lane: usize) -> u32 {
        self.lanes[lane].end - self.lanes[lane].next
    }

    /// Whether a lane's block has no page left; not if it has no block.
    #[inline(always)]
    pub fn is_full(&self, lane: usize) -> bool {
        let lane = &self.lanes[lane];
        lane.next == lane.end && lane.block != NONE
    }

    /// A lane with room, the next in turn first.
    pub fn any_with_room(&self) -> Option<usize> {
        (0..self.count()).map(|i| (self.turn + i) % self.count()).find(|&lane| self.room(lane) > 0)
    }

    /// The lane's block.
    pub fn block(&self, lane: usize) -> Option<Block> {
        let block = self.lanes[lane].block;
        (block != NONE).then_some(Block(block))
    }

    /// Pages that are filled of each block.
    pub fn block_pages(&self, g: &Geometry) -> u32 {
        if self.slc { g.slc_pages() } else { g.pages_per_block }
    }

    /// Gives a lane a block, to be filled from page `from`; the former block.
    pub fn replace(&mut self, g: &Geometry, lane: usize, block: Block, from: u32) -> Option<Block> {
        let former = self.block(lane);
        let end = g.page(block, 0).0 + self.block_pages(g);
        self.lanes[lane] = Lane { next: g.page(block, from).0, end, block: block.0 };
        former
    }

    /// Takes a lane's block away.
    pub fn clear(&mut self, lane: usize) {
        self.lanes[lane] = Lane { next: 0, end: 0, block: NONE };
    }

    /// The lane that fills a block.
    pub fn lane_of(&self, block: Block) -> Option<usize> {
        self.lanes.iter().position(|lane| lane.block == block.0)
    }

    /// Controller RAM, bytes.
    pub fn memory(&self) -> u64 {
        self.lanes.len() as u64 * 12 + 4
    }

    /// Saves the state.
    pub fn save(&self, out: &mut Saver) {
        out.u32(self.turn as u32);
        for lane in &self.lanes {
            out.u32(lane.next);
            out.u32(lane.end);
            out.u32(lane.block);
        }
    }

    /// Loads what [`Lanes::save`] saved of as many lanes.
    pub fn load(&mut self, from: &mut Loader<'_>) {
        self.turn = from.u32() as usize;
        self.lanes.fill_with(|| Lane { next: from.u32(), end: from.u32(), block: from.u32() });
    }
}

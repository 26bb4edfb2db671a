//! The open blocks of one write stream, one lane for each die that the stream is striped over.

use crate::{Loader, Saver};
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use flash::{Block, Die, Geometry, Ppn};

/// Number of a write stream of a space.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Stream(pub u32);

impl Stream {
    /// As an array index.
    #[inline(always)]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Number of a lane of a write stream. Lanes go round the dies: lane `i` fills blocks of die `i mod dies`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Lane(pub u32);

impl Lane {
    /// As an array index.
    #[inline(always)]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The first lane of a die.
    #[inline(always)]
    pub const fn of(die: Die) -> Lane {
        Lane(die.0)
    }

    /// The die whose blocks the lane fills.
    #[inline(always)]
    pub fn die(self, g: &Geometry) -> Die {
        let dies = g.die_count();
        // Most streams have a lane for each die: a comparison is cheaper than the division.
        Die(if self.0 < dies { self.0 } else { self.0 % dies })
    }
}

/// No block is open in a lane.
const NONE: u32 = u32::MAX;

/// One open block. It stays the lane's when it is full, until its successor is opened: the newest block of a die is
/// therefore never collected, which mounting relies on (docs/recovery.md).
#[derive(Clone, Copy, Debug)]
struct OpenBlock {
    next: u32,
    end: u32,
    block: u32,
    /// The block before, to be taken back if nothing can be programmed in this one.
    former: u32,
}

impl OpenBlock {
    const NONE: OpenBlock = OpenBlock { next: 0, end: 0, block: NONE, former: NONE };
}

/// See the module's description.
#[derive(Clone, Debug)]
pub struct Lanes {
    lanes: Vec<OpenBlock>,
    turn: Lane,
    /// Blocks are filled in SLC mode: a part of their pages, if cells hold more than one bit.
    pub(super) slc: bool,
}

impl Lanes {
    /// `count` lanes without a block.
    pub fn new(count: usize) -> Lanes {
        Lanes { lanes: vec![OpenBlock::NONE; count], turn: Lane(0), slc: false }
    }

    /// How many lanes.
    #[inline(always)]
    pub fn count(&self) -> usize {
        self.lanes.len()
    }

    /// All lanes.
    #[inline(always)]
    pub fn all(&self) -> impl Iterator<Item = Lane> + Clone + use<> {
        (0..self.lanes.len() as u32).map(Lane)
    }

    /// The lanes of a die.
    pub fn on(&self, die: Die, g: &Geometry) -> impl Iterator<Item = Lane> + use<> {
        (die.0..self.lanes.len() as u32).step_by(g.die_count() as usize).map(Lane)
    }

    /// The lane whose turn it is.
    #[inline(always)]
    pub fn turn(&self) -> Lane {
        self.turn
    }

    /// Gives the turn to the lane of a number, counted round.
    #[inline(always)]
    pub fn turn_to(&mut self, number: u32) {
        self.turn = Lane(number % self.lanes.len() as u32);
    }

    /// Passes the turn on.
    #[inline(always)]
    pub fn advance(&mut self) {
        self.turn.0 += 1;
        if self.turn.index() == self.lanes.len() {
            self.turn = Lane(0);
        }
    }

    /// The next page of a lane, if its block has one.
    #[inline(always)]
    pub fn take(&mut self, lane: Lane) -> Option<Ppn> {
        let lane = &mut self.lanes[lane.index()];
        if lane.next == lane.end {
            return None;
        }
        lane.next += 1;
        Some(Ppn(lane.next - 1))
    }

    /// The next page of the lane in turn, if its block has one, and the lane; passes the turn on.
    #[inline(always)]
    pub fn take_in_turn(&mut self) -> Option<(Ppn, Lane)> {
        let turn = self.turn;
        let page = self.take(turn)?;
        self.advance();
        Some((page, turn))
    }

    /// The pages left in a lane's block.
    #[inline(always)]
    pub fn run(&self, lane: Lane) -> Range<u32> {
        self.lanes[lane.index()].next..self.lanes[lane.index()].end
    }

    /// The pages of a lane's run below `next` are taken.
    #[inline(always)]
    pub fn take_until(&mut self, lane: Lane, next: u32) {
        debug_assert!(self.run(lane).start <= next && next <= self.run(lane).end);
        self.lanes[lane.index()].next = next;
    }

    /// Undoes the last [`Lanes::take`] of a lane.
    pub fn give_back(&mut self, lane: Lane, page: Ppn) {
        let lane = &mut self.lanes[lane.index()];
        lane.next -= 1;
        debug_assert_eq!(lane.next, page.0, "only the last page taken can be given back");
    }

    /// Pages left in a lane's block.
    pub fn room(&self, lane: Lane) -> u32 {
        self.lanes[lane.index()].end - self.lanes[lane.index()].next
    }

    /// Whether a lane's block has no page left; not if it has no block.
    #[inline(always)]
    pub fn is_full(&self, lane: Lane) -> bool {
        let lane = &self.lanes[lane.index()];
        lane.next == lane.end && lane.block != NONE
    }

    /// A lane with room, the next in turn first.
    pub fn any_with_room(&self) -> Option<Lane> {
        let turn = self.turn.index();
        self.all().cycle().skip(turn).take(self.count()).find(|&lane| self.room(lane) > 0)
    }

    /// The lane's block.
    pub fn block(&self, lane: Lane) -> Option<Block> {
        let block = self.lanes[lane.index()].block;
        (block != NONE).then_some(Block(block))
    }

    /// The block that the lane had before it. It may have been erased since.
    pub fn former(&self, lane: Lane) -> Option<Block> {
        let former = self.lanes[lane.index()].former;
        (former != NONE).then_some(Block(former))
    }

    /// Pages that are filled of each block.
    pub fn block_pages(&self, g: &Geometry) -> u32 {
        if self.slc { g.slc_pages() } else { g.pages_per_block }
    }

    /// Gives a lane a block, to be filled from page `from`; the former block.
    pub fn replace(&mut self, g: &Geometry, lane: Lane, block: Block, from: u32) -> Option<Block> {
        let former = self.block(lane);
        let end = g.page(block, 0).0 + self.block_pages(g);
        let kept = former.map_or(NONE, |former| former.0);
        self.lanes[lane.index()] = OpenBlock { next: g.page(block, from).0, end, block: block.0, former: kept };
        former
    }

    /// Takes a lane's block away.
    pub fn clear(&mut self, lane: Lane) {
        self.lanes[lane.index()] = OpenBlock::NONE;
    }

    /// The lane that fills a block.
    pub fn lane_of(&self, block: Block) -> Option<Lane> {
        self.all().find(|lane| self.lanes[lane.index()].block == block.0)
    }

    /// Controller RAM, bytes.
    pub fn memory(&self) -> u64 {
        self.lanes.len() as u64 * 16 + 4
    }

    /// Saves the state.
    pub fn save(&self, out: &mut Saver) {
        out.u32(self.turn.0);
        for lane in &self.lanes {
            out.u32(lane.next);
            out.u32(lane.end);
            out.u32(lane.block);
            out.u32(lane.former);
        }
    }

    /// Loads what [`Lanes::save`] saved of as many lanes.
    pub fn load(&mut self, from: &mut Loader<'_>) {
        self.turn = Lane(from.u32());
        let lane = || OpenBlock { next: from.u32(), end: from.u32(), block: from.u32(), former: from.u32() };
        self.lanes.fill_with(lane);
    }
}

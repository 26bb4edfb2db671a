//! The collector: when blocks are emptied, which, how many in a row, and how the work is dealt over time.
//!
//! Schemes that move pages between blocks share it. A scheme implements [`Collects`]: what emptying a block takes, how
//! its pages move, and what must stand on flash before the block is erased. Everything else is here, so that two
//! schemes in one table differ in their maps and in nothing else.
//!
//! # Rhythm
//!
//! Every die is looked after by itself. The test comes when a block that is being filled is full, be it one of data or
//! of translation pages: if its die has no more than `gc-low` free blocks, victims are taken until `gc-high` are free,
//! and the block that is asked for can be opened. It comes before, if a map that takes several pages at a time could
//! open the last free blocks.
//! A collection moves pages within its die and writes its map updates there, so that no die waits for another one.
//!
//! - *whole* (`gc-spread = off`, the default, as in the papers): each victim is emptied and erased at once, one after
//!   another. The request that set it off waits behind them.
//! - *spread* (`gc-spread = on`): one victim at a time, and its work is dealt over the programs that its die makes
//!   meanwhile, at the rate that has it emptied when the pages that it gives back are used up. The next victim follows
//!   at the next test, or at once if fewer than `gc-low` blocks are free then (and is emptied whole then, if it would
//!   not fit were all open blocks full). It begins one block earlier than whole collections do, for the host opens and
//!   fills that block meanwhile.
//!
//! # Room
//!
//! A collection is begun only if the open and the free blocks of its die hold all that it may take. A spread one
//! reserves that: before a block of its die is opened for anybody else, what it still needs is compared with what would
//! be left, and if that is too little, or fewer than `gc-low` blocks are free, it runs to its end at once. For the same
//! reason it is begun only with `gc-low` free blocks; with fewer, victims are emptied whole. A slice that finds just as
//! many free blocks as the collection needs becomes the last: discards that came before the next would take of them.
//! What the policy picks may need more than there is, or where a map is kept on flash all free blocks, although fewer
//! are free than are kept or the block has no dead page (what is open for the map does not count for such a block,
//! since a mount may fill it); then the block with the fewest live pages is taken, if that fits. Where no die has a
//! victim that fits, one is emptied whose map updates fit on all dies together, once no spread collection has reserved
//! room on any of them. The last `kept` free blocks of a die are opened by collections alone, and the very last one
//! only by collections that run to their end: were host pages to follow into it, a power cut could leave less room in
//! it than the collection still needs.
//!
//! Translation blocks are few and their pages die soon. If the policy does not see them (`victims = net-gain`), one is
//! taken when it has half a block fewer live pages than the policy's data block, or when a data block would leave no
//! free block. If the policy does see them (`plain`), it decides, but for a block without a live page, which is always
//! taken, and for a choice that does not fit.
//!
//! # Why it ends
//!
//! On one die, each data block that is collected had a dead page, or was taken in order of age (`fifo`); once a round
//! of blocks was taken in one go without gaining enough, the block with the fewest live pages is next, which has a dead
//! page or there is no victim. Collections create no dead data pages, so there are ever fewer of them. Between two data
//! blocks each translation block that is collected has a dead page and creates none. So the loop ends: with `gc-high`
//! free blocks and one that can be opened, or without a victim that fits, and then the die is full and host pages go to
//! others. (So that a hopeless die does not turn over all of its blocks for a single page, it also ends after eight
//! victims for each block.) Where all dies are full, each block that is emptied with the help of others had a dead data
//! page too.
//!
//! # Failing blocks, wear levelling, idle time
//!
//! A block in which a program failed is emptied before the next host page and marked bad instead of erased. Wear
//! levelling names a block after an erase; it is moved like a victim, if that leaves the kept blocks and what a
//! spread collection has reserved.
//! In idle time blocks are collected that are at least half dead. Before that, a block that the medium names as tired
//! is moved (`parts/refresh.rs`), when a spread collection of its die is at an end and there is room; where no victim
//! fits on its die, what is written about its pages may go to other dies. A block that a
//! lane holds is sealed first. If all of it is dead the lane keeps it, for nothing can be lost of it, and a mount that
//! found it erased in part and nothing newer on its die would go on filling it.

use crate::gc::fewest_live;
use crate::parts::beside::Beside;
use crate::parts::lanes::{Lane, Stream};
use crate::parts::refresh;
use crate::parts::space::{Space, TranslationBlocks};
use crate::{Error, Loader, Outcome, Parameter, Saver, Settings};
use alloc::vec;
use alloc::vec::Vec;
use flash::{Block, Cause, Chain, Collection, Die, Flash, Geometry};

/// `gc-spread`: the rhythm of collections.
pub const SPREAD: Parameter = Parameter::switch("gc-spread", false)
    .text(
        "Deal a victim's copies over the writes that follow. On keeps single writes short; off makes one write wait \
         for a whole collection.",
    )
    .source("ftlab; the papers collect whole blocks");

/// `gc-low`: when to collect.
pub const GC_LOW: Parameter = Parameter::count("gc-low", 3, 1..=1 << 20)
    .unit("blocks")
    .text(
        "Collect when a die has no more free blocks than this. More leave less room for data, so that more live pages \
         are copied. 1 is for flash that does not fail: blocks that go bad or tire may find no free block then.",
    )
    .source("{flashsim}");

/// `gc-high`: when to stop.
pub const GC_HIGH: Parameter = Parameter::count("gc-high", 0, 0..=1 << 20)
    .unit("blocks")
    .text(
        "Collect until a die has so many free blocks. More make collections longer and rarer. 0 stands for gc-low + \
         1. The block that a write needs is made free in any case.",
    )
    .source("{flashsim} has 4");

/// The rhythm of collections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// `gc-low`.
    pub low: u32,
    /// `gc-high`; 0 stands for one more than `low`.
    pub high: u32,
    /// `gc-spread`.
    pub spread: bool,
}

impl From<&Settings> for Options {
    fn from(settings: &Settings) -> Options {
        let (low, high) = (settings.small(&GC_LOW), settings.small(&GC_HIGH));
        Options { low, high, spread: settings.switch(&SPREAD) }
    }
}

impl Options {
    /// Free blocks of a die that a scheme must be able to keep, if collections alone open the last `kept` of them: a
    /// spread collection begins a block earlier.
    pub fn free(&self, kept: u32) -> u64 {
        u64::from(self.low.max(kept)) + u64::from(self.spread)
    }
}

/// Pages moved at a time while a collection is spread: enough to keep the copy loop efficient.
const SLICE: u32 = 8;

/// No block.
const NO_BLOCK: u32 = u32::MAX;

/// A spread collection on a die.
#[derive(Clone, Copy, Debug)]
struct Progress {
    /// The victim; [`NO_BLOCK`] if there is none.
    block: u32,
    /// The page to go on from.
    next: u32,
    /// Pages of work owed so far, times `per`.
    credit: u32,
    /// Pages of work that are owed for every `per` pages that others program on the die.
    live: u32,
    /// Pages that the victim gives back.
    per: u32,
    /// What its erase is to follow. Not saved: a medium that was restored has nothing under way.
    slices: Chain,
}

const IDLE: Progress = Progress { block: NO_BLOCK, next: 0, credit: 0, live: 0, per: 1, slices: Chain::COLLECTION };

/// What emptying a block takes at the most, pages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Takes {
    /// The write stream that its pages move to, and how many.
    pub moved: (Stream, u32),
    /// The write stream of what is written about them, and how many pages that may be.
    pub told: (Stream, u32),
}

/// Pages left in the open blocks that a stream has on a die, as [`Space::room_on`].
type RoomOn = fn(&Space, Stream, Die) -> u32;

/// Were all of them full.
const NO_ROOM: RoomOn = |_, _, _| 0;

/// The collector's state. See the module's description.
#[derive(Clone, Debug)]
pub struct Collector {
    /// Free blocks of a die at or below which collection begins.
    pub low: u32,
    /// Free blocks of a die at which it stops.
    pub high: u32,
    /// Free blocks of a die that only collections open.
    pub kept: u32,
    /// One for each die; empty unless collections are spread.
    progress: Vec<Progress>,
    /// Dies on which pages were programmed that spread collections are to pay for.
    debts: Vec<Die>,
    /// The die that is being collected: what is written about its pages goes there.
    pub home: Option<Die>,
    /// What was done beside the present request.
    pub beside: Beside,
}

impl Collector {
    /// Nothing is being collected. `kept` free blocks of each of `dies` dies are opened by collections alone.
    pub fn new(options: &Options, dies: u32, kept: u32) -> Collector {
        let low = options.low.max(kept);
        let high = match options.high {
            0 => low + 1,
            high => high.max(low),
        };
        let spread = if options.spread { dies as usize } else { 0 };
        // While a collection is under way a block is open that the host fills.
        let open = u32::from(spread > 0);
        Collector {
            low: low + open,
            high: high + open,
            kept,
            progress: vec![IDLE; spread],
            debts: Vec::new(),
            home: None,
            beside: Beside::default(),
        }
    }

    /// Whether collections are dealt over time.
    #[inline(always)]
    pub fn is_spread(&self) -> bool {
        !self.progress.is_empty()
    }

    /// The victim of a spread collection on a die.
    pub fn victim(&self, die: Die) -> Option<Block> {
        let progress = self.progress.get(die.index())?;
        (progress.block != NO_BLOCK).then_some(Block(progress.block))
    }

    /// A page was programmed on a die that is no copy of a collected one.
    #[inline(always)]
    pub fn owe(&mut self, die: Die) {
        if self.is_spread() {
            self.debts.push(die);
        }
    }

    /// Whether a spread collection is owed for a page.
    #[inline(always)]
    pub fn is_in_debt(&self) -> bool {
        !self.debts.is_empty()
    }

    fn forget(&mut self, block: Block) {
        if let Some(progress) = self.progress.iter_mut().find(|progress| progress.block == block.0) {
            *progress = IDLE;
        }
    }

    /// Controller RAM, bytes.
    pub fn memory(&self) -> u64 {
        (self.progress.len() * 20 + self.debts.len() * 4) as u64 + 8
    }

    /// Saves the state between two requests.
    pub fn save(&self, out: &mut Saver) {
        for progress in &self.progress {
            for word in [progress.block, progress.next, progress.credit, progress.live, progress.per] {
                out.u32(word);
            }
        }
        out.u32(self.debts.len() as u32);
        self.debts.iter().for_each(|die| out.u32(die.0));
    }

    /// Loads what [`Collector::save`] saved of one with the same settings.
    pub fn load(&mut self, from: &mut Loader<'_>) {
        for progress in &mut self.progress {
            let words: [u32; 5] = core::array::from_fn(|_| from.u32());
            let [block, next, credit, live, per] = words;
            *progress = Progress { block, next, credit, live, per, slices: Chain::COLLECTION };
        }
        self.debts = (0..from.u32()).map(|_| Die(from.u32())).collect();
    }
}

/// A scheme whose blocks the collector empties. The first methods are the scheme's; the rest is the collector.
pub(crate) trait Collects: Sized {
    /// The blocks.
    fn space(&self) -> &Space;

    /// The blocks, to change them.
    fn space_mut(&mut self) -> &mut Space;

    /// The collector's state.
    #[inline(always)]
    fn collector(&self) -> &Collector {
        &self.space().collector
    }

    /// The collector's state, to change it.
    #[inline(always)]
    fn collector_mut(&mut self) -> &mut Collector {
        &mut self.space_mut().collector
    }

    /// What emptying a block takes at the most.
    fn takes(&self, block: Block) -> Takes;

    /// Moves up to `limit` live pages out of a block, from page `next` on, within its die; the page to go on from, or
    /// `None` if nothing is left. `cause`: what for, if not to make room. Unless all is moved at once (`limit` is
    /// [`u32::MAX`]), host pages come before the rest.
    ///
    /// # Errors
    /// Full; the medium's. What was moved before stays moved, or lives on where it was.
    fn move_out<F: Flash>(
        &mut self,
        flash: &mut F,
        block: Block,
        next: u32,
        limit: u32,
        cause: Option<Cause>,
    ) -> Outcome<F, Option<u32>>;

    /// Writes up to `limit` pages of what must stand on flash before the block, which holds nothing live any more, is
    /// erased; whether all of it does.
    ///
    /// # Errors
    /// Full; the medium's.
    fn tell<F: Flash>(&mut self, flash: &mut F, block: Block, limit: u32, cause: Option<Cause>) -> Outcome<F, bool>;

    /// Pages that [`Collects::tell`] has still to write.
    fn untold(&self, die: Die) -> u32 {
        let _ = die;
        0
    }

    /// Pages that the map may write between two tests for room, at the most.
    #[inline(always)]
    fn most_told(&self) -> u32 {
        1
    }

    /// A block was emptied to make room.
    fn count_victim(&mut self, block: Block);

    /// A block that holds nothing live was chosen to make room.
    fn count_dead_victim(&mut self);

    /// What must be done before pages of a block can move.
    ///
    /// # Errors
    /// Full; the medium's.
    fn prepare<F: Flash>(&mut self, flash: &mut F, block: Block) -> Outcome<F> {
        let _ = (flash, block);
        Ok(())
    }

    /// There is no victim on a die: finds out whether more pages are dead than was known. False if that cannot be.
    ///
    /// # Errors
    /// Full; the medium's.
    fn reveal<F: Flash>(&mut self, flash: &mut F, die: Die) -> Outcome<F, bool> {
        let _ = (flash, die);
        Ok(false)
    }

    /// The block is erased now.
    fn leave(&mut self, block: Block) {
        let _ = block;
    }

    /// A lane has let its block go, and has no other.
    fn let_go(&mut self) {}

    /// Whether the scheme allows a block to be moved for wear levelling.
    fn may_level(&self, block: Block) -> bool {
        let _ = block;
        true
    }

    // ---- room ----------------------------------------------------------------------------------------------------

    /// Free blocks of its die that emptying a block may take beside the open ones.
    fn needs(&self, block: Block) -> u32 {
        self.needs_beside(block, [Space::room_on; 2])
    }

    /// The same, were what is open for the map full.
    fn needs_behind_a_mount(&self, block: Block) -> u32 {
        self.needs_beside(block, [Space::room_on, NO_ROOM])
    }

    /// The same, were all that is open full.
    fn needs_at_most(&self, block: Block) -> u32 {
        self.needs_beside(block, [NO_ROOM; 2])
    }

    /// Free blocks of its die that emptying a block may take, with so much room in what is open for the pages that move
    /// and for what is written about them. Where both go to one stream, the first counts.
    #[inline(always)]
    fn needs_beside(&self, block: Block, [for_moved, for_told]: [RoomOn; 2]) -> u32 {
        let (space, Takes { moved, told }) = (self.space(), self.takes(block));
        let die = space.blocks.geometry().die_of(block);
        let blocks = |stream, pages: u32, room: RoomOn| {
            pages.saturating_sub(room(space, stream, die)).div_ceil(space.block_pages(stream))
        };
        if moved.0 == told.0 {
            return blocks(moved.0, moved.1 + told.1, for_moved);
        }
        blocks(moved.0, moved.1, for_moved) + blocks(told.0, told.1, for_told)
    }

    /// Makes room on a die before a block of it is opened.
    ///
    /// # Errors
    /// Full: a program failed, and the room for a collection is gone; the medium's.
    #[cold]
    #[inline(never)]
    fn make_room<F: Flash>(&mut self, flash: &mut F, die: Die) -> Outcome<F> {
        self.make_room_by(flash, die, false)
    }

    /// As [`Collects::make_room`]; if `cheapest`, by the blocks with the fewest live pages, whatever the policy says.
    ///
    /// # Errors
    /// As [`Collects::make_room`].
    fn make_room_by<F: Flash>(&mut self, flash: &mut F, die: Die, cheapest: bool) -> Outcome<F> {
        if let Some(victim) = self.collector().victim(die)
            && self.space().blocks.free_in(die) <= self.needs(victim).max(self.collector().low - 1)
        {
            self.end_now(flash, die)?;
            self.level_if_due(flash)?;
        }
        if self.space().blocks.free_in(die) > self.collector().low || self.collector().victim(die).is_some() {
            return Ok(());
        }
        let round = self.space().blocks.geometry().blocks_per_die;
        let first = if cheapest { round } else { 0 };
        for taken in first..first + 8 * round {
            let Some(victim) = self.choose(die, taken >= round) else {
                if self.reveal(flash, die)? {
                    continue;
                }
                return Ok(());
            };
            if self.begin(die, victim) {
                return Ok(());
            }
            self.collect(flash, victim, None)?;
            self.level_if_due(flash)?;
            if self.space().blocks.free_in(die) >= self.collector().high && self.has_room(die) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Whether a block of a die can be opened, or nobody needs one: every open one has room for a page, and no map is
    /// written that may take more.
    fn has_room(&self, die: Die) -> bool {
        let space = self.space();
        let mut streams = (0..space.streams.len() as u32).map(Stream);
        space.blocks.free_in(die) > space.collector.kept
            || space.translation.is_none() && streams.all(|stream| space.room_on(stream, die) > 0)
    }

    /// A lane of a stream with room for a page: this one, after making room on its die and opening a block if need be,
    /// or the next whose die has any. The stream's turn goes to it.
    ///
    /// # Errors
    /// Full; the medium's.
    #[cold]
    #[inline(never)]
    fn refill<F: Flash>(&mut self, flash: &mut F, stream: Stream, lane: Lane) -> Outcome<F, Lane> {
        let lanes = self.space().streams[stream.index()].count() as u32;
        loop {
            for lane in (lane.0..lanes).chain(0..lane.0).map(Lane) {
                let die = lane.die(flash.geometry());
                self.make_room(flash, die)?;
                let kept = self.collector().kept;
                let space = self.space_mut();
                if space.streams[stream.index()].room(lane) > 0
                    || space.blocks.free_in(die) > kept && space.open(flash, stream, lane)?
                {
                    space.streams[stream.index()].turn_to(lane.0);
                    return Ok(lane);
                }
            }
            if !self.borrow_room(flash)? {
                return Err(Error::Full);
            }
        }
    }

    /// No lane in turn gains room: runs a spread collection of any die to its end, empties a block of any die that
    /// fits, and if no die can go on by itself, one with a dead page of which other dies take what is written about its
    /// pages. Whether there was one.
    ///
    /// # Errors
    /// Full: a program failed; the medium's.
    #[cold]
    fn borrow_room<F: Flash>(&mut self, flash: &mut F) -> Outcome<F, bool> {
        if self.space().translation.is_none() {
            return Ok(false);
        }
        if self.end_one(flash)? {
            return Ok(true);
        }
        let g = *flash.geometry();
        let mut dies = (0..g.die_count()).map(Die);
        if let Some(victim) = dies.find_map(|die| self.choose(die, true)) {
            return self.collect(flash, victim, None).map(|()| true);
        }
        let space = self.space();
        let lends = |block: &Block| self.fits_with_others(*block, 0);
        let gives = |block: &Block| space.blocks.is_candidate(block.0) && !space.is_translation(*block);
        let blocks = (0..g.block_count()).map(Block).filter(gives).filter(lends);
        let victim = blocks.min_by_key(|&block| space.blocks.live_of(block)).or_else(|| self.movable_map_block(&g));
        let Some(victim) = victim else { return Ok(false) };
        self.collect(flash, victim, None).map(|()| true)
    }

    /// The block of translation pages with the fewest live ones that all dies together have room for. A die runs out of
    /// blocks where its collections write map pages whose older versions die elsewhere; its own dead ones come free so.
    fn movable_map_block(&self, g: &Geometry) -> Option<Block> {
        let (space, dies) = (self.space(), (0..g.die_count()).map(Die));
        let room = |die| {
            let room = |stream| space.room_on(stream, die) + space.blocks.free_in(die) * space.block_pages(stream);
            space.translation.as_ref().map_or(0, |blocks| room(blocks.stream))
        };
        let rooms: u32 = dies.clone().map(room).sum();
        let fits = |&block: &Block| {
            let Takes { moved, told } = self.takes(block);
            moved.1 + told.1 <= rooms
        };
        let best = dies.filter_map(|die| space.best_translation_block(die)).filter(fits);
        best.min_by_key(|&block| space.blocks.live_of(block))
    }

    /// Whether a die has what the pages of its block take, and all dies together what is written about these, if each
    /// leaves its last `left` free blocks alone.
    fn fits_with_others(&self, block: Block, left: u32) -> bool {
        let (space, Takes { moved, told }) = (self.space(), self.takes(block));
        let g = space.blocks.geometry();
        let home = g.die_of(block);
        let own = space.blocks_for(moved.0, home, moved.1);
        let room = |die: Die| {
            let taken = left + if die == home { own } else { 0 };
            space.room_on(told.0, die) + space.blocks.free_in(die).saturating_sub(taken) * space.block_pages(told.0)
        };
        let rooms: u32 = (0..g.die_count()).map(|die| room(Die(die))).sum();
        own <= space.blocks.free_in(home) && told.1 <= rooms
    }

    /// As [`Collects::refill`]; where no room is to be gained, what is kept may still be enough for a page.
    ///
    /// # Errors
    /// Full; the medium's.
    fn refill_if_can<F: Flash>(&mut self, flash: &mut F, stream: Stream, lane: Lane) -> Outcome<F, Lane> {
        match self.refill(flash, stream, lane) {
            Err(Error::Full) if self.space().blocks.free_total() > self.collector().kept => Ok(lane),
            refilled => refilled,
        }
    }

    /// For a scheme that keeps its map on flash, in blocks of stream `stream`: whether something is to be done before
    /// the map changes. A translation block is full and its die short of free ones, a block failed, or spread
    /// collections are owed for what the map has written.
    #[inline(always)]
    fn is_behind(&self, stream: Stream) -> bool {
        self.wants_room(stream) || !self.space().doomed.is_empty() || self.collector().is_in_debt()
    }

    /// Whether blocks are to be freed before the map changes.
    #[inline(always)]
    fn wants_room(&self, stream: Stream) -> bool {
        self.is_short(stream)
    }

    /// Whether the block in turn of stream `stream` is full, and its die has no more than `gc-low` free ones; or the
    /// map could take the last of them.
    #[inline(always)]
    fn is_short(&self, stream: Stream) -> bool {
        let space = self.space();
        let turn = space.streams[stream.index()].turn();
        let die = || turn.die(space.blocks.geometry());
        space.streams[stream.index()].is_full(turn) && space.blocks.free_in(die()) <= space.collector.low
            || self.is_scarce(stream)
    }

    /// Whether a map that takes several pages before the next test for room ([`Collects::most_told`]) could open the
    /// last free blocks of the die whose turn it is: it may step over the page that fills its block, test after test.
    /// (Where this die runs out, a page goes to another one, [`Space::page_on`].)
    #[inline(always)]
    fn is_scarce(&self, stream: Stream) -> bool {
        let space = self.space();
        let (lanes, most) = (&space.streams[stream.index()], self.most_told());
        let (turn, room) = (lanes.turn(), lanes.room(lanes.turn()));
        let die = turn.die(space.blocks.geometry());
        let may_open = most > 1 && room < most && lanes.block(turn).is_some();
        may_open && space.blocks.free_in(die) <= (most - room).div_ceil(space.block_pages(stream))
    }

    /// Does what [`Collects::is_behind`] tells of. No block is opened: until it is programmed, its predecessor is the
    /// newest of its die to a mount, and must not be erased (docs/recovery.md).
    ///
    /// # Errors
    /// Full; the medium's.
    fn catch_up<F: Flash>(&mut self, flash: &mut F, stream: Stream) -> Outcome<F> {
        self.evacuate(flash)?;
        self.pay(flash)?;
        if self.wants_room(stream) { self.make_map_room(flash, stream) } else { Ok(()) }
    }

    /// Frees blocks on the die where the map goes on.
    ///
    /// # Errors
    /// Full; the medium's.
    fn make_map_room<F: Flash>(&mut self, flash: &mut F, stream: Stream) -> Outcome<F> {
        let turn = self.space().streams[stream.index()].turn();
        self.make_room(flash, turn.die(flash.geometry()))?;
        while self.space().blocks.free_total() <= self.collector().kept {
            if !self.borrow_room(flash)? {
                return Err(Error::Full);
            }
        }
        Ok(())
    }

    /// The map is about to write up to `pages` pages of stream `stream`: a spread collection whose room these would
    /// take runs to its end before.
    ///
    /// # Errors
    /// Full; the medium's.
    #[inline(always)]
    fn secure<F: Flash>(&mut self, flash: &mut F, stream: Stream, pages: u32) -> Outcome<F> {
        if self.collector().is_spread() { self.secure_room(flash, stream, pages) } else { Ok(()) }
    }

    /// As [`Collects::secure`], where collections are spread.
    #[inline(never)]
    fn secure_room<F: Flash>(&mut self, flash: &mut F, stream: Stream, pages: u32) -> Outcome<F> {
        let (turn, dies) = (self.space().streams[stream.index()].turn(), flash.geometry().die_count());
        for die in (turn.0..turn.0 + pages.min(dies)).map(|lane| Die(lane % dies)) {
            if let Some(victim) = self.collector().victim(die)
                && self.space().room_on(stream, die) < pages.div_ceil(dies)
                && self.space().blocks.free_in(die) <= self.needs(victim)
            {
                self.end_now(flash, die)?;
            }
        }
        Ok(())
    }

    /// While mounting: makes room on every die, before anything else takes a page. A device without room can still be
    /// read, and says that it is full when it is written.
    ///
    /// # Errors
    /// The medium's.
    fn make_room_everywhere<F: Flash>(&mut self, flash: &mut F) -> Outcome<F> {
        let mut dies = (0..flash.geometry().die_count()).map(Die);
        match self.evacuate(flash).and_then(|()| dies.try_for_each(|die| self.regain_room(flash, die))) {
            Err(Error::Full) => Ok(()),
            made => made,
        }
    }

    /// The same on a die. Where fewer blocks are free than are kept otherwise, power has cut a collection short, and
    /// may cut the next ones: the cheapest victims are taken, for one without a dead page, which a policy may want,
    /// costs copies and a torn page and gives nothing back.
    ///
    /// # Errors
    /// As [`Collects::make_room`].
    fn regain_room<F: Flash>(&mut self, flash: &mut F, die: Die) -> Outcome<F> {
        let short = self.space().blocks.free_in(die) < self.collector().low;
        self.make_room_by(flash, die, short)
    }

    /// While mounting, before anything is programmed: erases what holds nothing that counts, on dies with fewer free
    /// blocks than are kept otherwise. Nothing of these blocks is needed, whatever the map on flash says: what counts
    /// in their place is what this mount found, and so will the next. So a cut in an erase here costs no page, and a
    /// collection that was cut short before its erase gives its victim back even if no page is left to go on with.
    ///
    /// # Errors
    /// The medium's.
    fn erase_dead<F: Flash>(&mut self, flash: &mut F) -> Outcome<F> {
        let g = *flash.geometry();
        for block in (0..g.block_count()).map(Block) {
            let space = self.space();
            let apart = |t: &TranslationBlocks| !t.among_data && t.closed.contains(&block);
            let closed = space.blocks.is_closed(block) || space.translation.as_ref().is_some_and(apart);
            let short = space.blocks.free_in(g.die_of(block)) < self.collector().low;
            if closed && short && space.blocks.live_of(block) == 0 {
                self.space_mut().begin_collecting(block);
                self.count_dead_victim();
                self.finish(flash, block, None)?;
            }
        }
        Ok(())
    }

    // ---- victims -------------------------------------------------------------------------------------------------

    /// The victim on a die, by the rules of the module's description. `cheapest`: the policy had its way for a whole
    /// round of blocks, and too little was gained.
    fn choose(&mut self, die: Die, cheapest: bool) -> Option<Block> {
        let free = self.space().blocks.free_in(die);
        let translation = self.space().best_translation_block(die).filter(|&block| self.needs(block) <= free);
        let Some(data) = self.pick(die, free, cheapest) else { return translation };
        let needs = self.needs(data);
        if self.space().is_translation(data) || translation.is_none() {
            return if needs <= free { Some(data) } else { translation };
        }
        let blocks = &self.space().blocks;
        let half = blocks.geometry().pages_per_block / 2;
        let apart = self.space().translation.as_ref().is_some_and(|blocks| !blocks.among_data);
        let waited = |live: u32| live == 0 || apart && live + half <= blocks.live_of(data);
        let short = needs > free || (apart || cheapest) && needs + 1 > free;
        translation.filter(|&block| short || waited(blocks.live_of(block))).or(Some(data))
    }

    /// The policy's victim on a die; the block with the fewest live pages if that one does not fit or would take the
    /// last free block from a map (see *Room*), or if the policy is no longer asked.
    fn pick(&mut self, die: Die, free: u32, cheapest: bool) -> Option<Block> {
        let range = self.space().blocks.range(die);
        if !cheapest {
            let picked = self.space_mut().pick(range.clone())?;
            let gains = self.space().blocks.is_candidate(picked.0);
            // Who takes the last free block may leave too little room in it for the next one, and for its map updates:
            // a block that is kept otherwise is gone already, perhaps to a failed program, and the next one may fail.
            // A block without a dead page leaves none for what a power cut tears either, and gives none back; and the
            // mount behind the cut may fill what is open for the map.
            let scarce = free < self.collector().kept;
            let last = u32::from(self.space().translation.is_some() && (scarce || !gains));
            let needs = if gains { self.needs(picked) } else { self.needs_behind_a_mount(picked) };
            let fits = needs + last <= free || needs == 0;
            if self.space().is_translation(picked) || gains && fits {
                return Some(picked);
            }
            // It may have no dead page, as long as another one has.
            let blocks = &self.space().blocks;
            if !gains && fits && range.clone().any(|block| blocks.is_candidate(block)) {
                return Some(picked);
            }
        }
        fewest_live(&self.space().blocks, range)
    }

    // ---- a collection --------------------------------------------------------------------------------------------

    /// Begins a spread collection, if collections are spread and the block that is about to be opened leaves it its
    /// room. A block that gives nothing back is emptied at once.
    fn begin(&mut self, die: Die, victim: Block) -> bool {
        let reserved = self.needs(victim).max(self.collector().low - 1);
        let begins = self.collector().is_spread() && self.gives(victim) && self.space().blocks.free_in(die) > reserved;
        if begins {
            self.start(die, victim);
        }
        begins
    }

    /// Whether emptying a block gives pages back: `fifo` takes blocks without a dead page, too.
    fn gives(&self, block: Block) -> bool {
        self.space().blocks.is_candidate(block.0) || self.space().is_translation(block)
    }

    /// Makes a block a die's victim, to be emptied in slices.
    fn start(&mut self, die: Die, victim: Block) {
        let live = self.space().blocks.live_of(victim);
        let per = (self.space().blocks.geometry().pages_per_block - live).max(1);
        if live == 0 {
            self.count_dead_victim();
        }
        self.space_mut().begin_collecting(victim);
        // One slice ahead, so that the victim is empty before the block that both share is full.
        self.collector_mut().progress[die.index()] =
            Progress { block: victim.0, credit: per * SLICE, live, per, ..IDLE };
    }

    /// Pays the spread collections for the pages that were programmed on their dies.
    ///
    /// # Errors
    /// The medium's.
    #[inline(always)]
    fn pay<F: Flash>(&mut self, flash: &mut F) -> Outcome<F> {
        if self.collector().is_in_debt() { self.pay_debts(flash) } else { Ok(()) }
    }

    /// As [`Collects::pay`], with something to pay. What this writes about moved pages is paid for the next time.
    #[inline(never)]
    fn pay_debts<F: Flash>(&mut self, flash: &mut F) -> Outcome<F> {
        let debts = core::mem::take(&mut self.collector_mut().debts);
        debts.into_iter().try_for_each(|die| self.pay_on(flash, die))
    }

    /// A page was programmed on a die: does what its collection owes for it. If there is no room to go on collecting, a
    /// later write will be refused.
    ///
    /// # Errors
    /// The medium's.
    #[inline]
    fn pay_on<F: Flash>(&mut self, flash: &mut F, die: Die) -> Outcome<F> {
        if self.collector().victim(die).is_none() {
            return Ok(());
        }
        let untold = self.untold(die);
        let progress = &mut self.collector_mut().progress[die.index()];
        progress.credit = progress.credit.saturating_add(progress.live + untold);
        if progress.credit < progress.per * SLICE && progress.live > 0 {
            return Ok(());
        }
        let pages = if progress.live == 0 { SLICE } else { progress.credit / progress.per };
        progress.credit -= pages.min(progress.credit / progress.per) * progress.per;
        match self.slice(flash, die, pages) {
            Err(Error::Full) => Ok(()),
            paid => paid,
        }
    }

    /// Goes on with a die's collection for up to `pages` pages, and erases the victim when all is done. Another begins
    /// at once if too few blocks are free.
    fn slice<F: Flash>(&mut self, flash: &mut F, die: Die, pages: u32) -> Outcome<F> {
        let needs = self.collector().victim(die).map_or(0, |victim| self.needs(victim));
        if self.space().blocks.free_in(die) == needs {
            self.end_now(flash, die)?;
        } else {
            self.take_slice(flash, die, pages)?;
        }
        if self.collector().victim(die).is_some() {
            return Ok(());
        }
        self.level_if_due(flash)?;
        // What its blocks give back may be used up faster than the host fills one: by another stream, by the map.
        let free = self.space().blocks.free_in(die);
        if free < self.collector().low
            && let Some(victim) =
                self.choose(die, false).filter(|&victim| self.gives(victim) && self.needs(victim) <= free)
        {
            // Until its first slice the host and the map may fill the open blocks. They open none for that, so no test
            // for room sees it, and the victim would fit nowhere.
            if self.needs_at_most(victim) > free {
                self.collect(flash, victim, None)?;
            } else {
                self.start(die, victim);
            }
        }
        Ok(())
    }

    /// Moves what a slice moves, or tells of it.
    fn take_slice<F: Flash>(&mut self, flash: &mut F, die: Die, pages: u32) -> Outcome<F> {
        let Progress { block, next, slices, .. } = self.collector().progress[die.index()];
        let block = Block(block);
        self.at_home(flash, block, |this, flash| this.prepare(flash, block))?;
        let moves = self.space().blocks.next_live(block, next).is_some();
        let Takes { moved, told } = self.takes(block);
        let stream = if moves { moved.0 } else { told.0 };
        let limit = if self.space().blocks.free_in(die) > 1 {
            pages
        } else {
            let shared = if moved.0 == told.0 { told.1 } else { 0 };
            pages.min(self.space().room_on(stream, die).saturating_sub(if moves { shared } else { 0 }))
        };
        if limit == 0 {
            return Ok(());
        }
        let (slices, done) = self.at_home(flash, block, |this, flash| {
            let (moved, slices) = in_slice(flash, slices, |gc| {
                if !moves {
                    return Ok(true);
                }
                let rest = this.move_out(&mut **gc, block, next, limit, None)?;
                this.collector_mut().progress[die.index()].next = rest.unwrap_or(gc.geometry().pages_per_block);
                Ok(rest.is_none())
            });
            this.end(flash, block, (moved, slices), (limit, None))
        });
        if self.collector().victim(die) == Some(block) {
            self.collector_mut().progress[die.index()].slices = slices;
        }
        done
    }

    /// Ends a collection, or a slice of it, whose pages were moved, which has left the block empty or not. If it is
    /// empty, up to `limit` pages are written about them, and it is erased if that is all.
    fn end<F: Flash>(
        &mut self,
        flash: &mut F,
        block: Block,
        (empty, moved): (Outcome<F, bool>, Chain),
        (limit, cause): (u32, Option<Cause>),
    ) -> (Chain, Outcome<F>) {
        let (ended, slices) = match empty {
            Ok(true) => in_slice(flash, moved, |gc| {
                gc.then();
                if self.tell(&mut **gc, block, limit, cause)? {
                    self.collector().beside.before_erase(gc, self.space().is_translation(block));
                    self.finish(&mut **gc, block, cause)?;
                }
                Ok(())
            }),
            Ok(false) => (Ok(()), moved),
            Err(error) => (Err(error), moved),
        };
        // What is written about the pages themselves is a stage behind them, so that others alone look for them.
        self.collector_mut().beside.moved(moved);
        // Whoever begins anew with what is left of the block does not know of these slices.
        if ended.is_err() {
            self.collector_mut().beside.supersedes();
        }
        self.collector_mut().beside.done(flash, slices);
        (slices, ended)
    }

    /// Does something for which what is written about moved pages stays on the die of a block.
    #[inline]
    fn at_home<F: Flash, T>(&mut self, flash: &mut F, block: Block, work: impl FnOnce(&mut Self, &mut F) -> T) -> T {
        let die = flash.geometry().die_of(block);
        let before = self.collector_mut().home.replace(die);
        let done = work(self, flash);
        self.collector_mut().home = before;
        done
    }

    /// Runs the spread collection of some die to its end, so that what it has reserved is for others; whether there was
    /// one.
    fn end_one<F: Flash>(&mut self, flash: &mut F) -> Outcome<F, bool> {
        let mut dies = (0..flash.geometry().die_count()).map(Die);
        let Some(busy) = dies.find(|&die| self.collector().victim(die).is_some()) else { return Ok(false) };
        self.end_now(flash, busy).map(|()| true)
    }

    /// Runs a die's spread collection to its end.
    fn end_now<F: Flash>(&mut self, flash: &mut F, die: Die) -> Outcome<F> {
        let Progress { block, next, slices, .. } = self.collector().progress[die.index()];
        self.empty(flash, Block(block), (next, slices), None)
    }

    /// Empties a block and ends it. `cause`: what for, if not to make room.
    ///
    /// # Errors
    /// Full; the medium's. What is left of the block is found again when there is room; a doomed one is still listed.
    fn collect<F: Flash>(&mut self, flash: &mut F, block: Block, cause: Option<Cause>) -> Outcome<F> {
        self.collector_mut().forget(block);
        if cause.is_none() && self.space().blocks.live_of(block) == 0 {
            self.count_dead_victim();
        }
        let closed = self.space_mut().begin_collecting(block);
        let emptied = self.empty(flash, block, (0, Chain::COLLECTION), cause);
        // A doomed block is emptied when there is room again, and is no victim until then.
        if emptied.is_err() && closed && !self.space().doomed.contains(&block) {
            self.space_mut().blocks.stop_collecting(block);
        }
        emptied
    }

    /// Moves what is left of a block from page `next` on, after the slices so far, and ends it.
    fn empty<F: Flash>(
        &mut self,
        flash: &mut F,
        block: Block,
        (next, slices): (u32, Chain),
        cause: Option<Cause>,
    ) -> Outcome<F> {
        self.at_home(flash, block, |this, flash| {
            this.prepare(flash, block)?;
            let moved = in_slice(flash, slices, |gc| {
                this.move_out(&mut **gc, block, next, u32::MAX, cause)?;
                Ok(true)
            });
            this.end(flash, block, moved, (u32::MAX, cause)).1
        })
    }

    /// Ends a block that holds nothing live.
    fn finish<F: Flash>(&mut self, flash: &mut F, block: Block, cause: Option<Cause>) -> Outcome<F> {
        self.collector_mut().forget(block);
        if cause.is_none() {
            self.count_victim(block);
        }
        self.leave(block);
        let translation = self.space().is_translation(block);
        let cause = cause.unwrap_or(if translation { Cause::TranslationGc } else { Cause::DataGc });
        self.space_mut().finish(flash, block, cause)
    }

    // ---- failing blocks, wear levelling, idle time -----------------------------------------------------------------

    /// Empties and retires the blocks that failed a program.
    ///
    /// # Errors
    /// Full; the medium's.
    #[cold]
    fn evacuate<F: Flash>(&mut self, flash: &mut F) -> Outcome<F> {
        while let Some(&block) = self.space().doomed.last() {
            self.collect(flash, block, None)?;
        }
        Ok(())
    }

    /// If a block was erased, asks wear levelling, and moves the block that it names.
    ///
    /// # Errors
    /// The medium's.
    #[inline(always)]
    fn level_if_due<F: Flash>(&mut self, flash: &mut F) -> Outcome<F> {
        if self.space().is_levelling_due() { self.level(flash) } else { Ok(()) }
    }

    /// As [`Collects::level_if_due`], after an erase.
    #[cold]
    #[inline(never)]
    fn level<F: Flash>(&mut self, flash: &mut F) -> Outcome<F> {
        let mut wear = self.space_mut().take_wear();
        let task = wear.task(|block| self.is_movable(block));
        self.space_mut().put_wear(wear);
        let Some(task) = task.filter(|task| self.space().can_take(task)) else { return Ok(()) };
        self.space_mut().open_next(task.worn);
        let moved = self.collect(flash, task.cold, Some(Cause::WearLevelling));
        self.space_mut().open_next(None);
        match moved {
            // Programs failed and took the room. Nobody needs the move now.
            Err(Error::Full) => Ok(()),
            moved => moved,
        }
    }

    /// Whether wear levelling may have the pages of a block moved now.
    fn is_movable(&self, block: Block) -> bool {
        let die = self.space().blocks.geometry().die_of(block);
        let victim = self.collector().victim(die);
        let reserved = self.collector().kept + victim.map_or(0, |victim| self.needs(victim));
        let room = self.needs(block).max(1) + reserved <= self.space().blocks.free_in(die) + 1;
        room && victim != Some(block) && self.space().is_movable(block) && self.may_level(block)
    }

    /// Refreshes the first tired block that can be; whether there was one.
    ///
    /// # Errors
    /// The medium's.
    fn refresh<F: Flash>(&mut self, flash: &mut F) -> Outcome<F, bool> {
        // Moves are not to go into a block whose turn has not come.
        self.seal_tired(flash);
        refresh::first(flash, |flash, block| self.refresh_block(flash, block))
    }

    /// Tired blocks that lanes hold take no further page: what goes into one that has been tired for long is lost. Also
    /// while mounting, for a mount goes on with the newest block of each die, whatever became of it. Not where no block
    /// is free: what is left of such a block may be all that a collection has to go on in.
    #[cold]
    fn seal_tired<F: Flash>(&mut self, flash: &F) {
        let mut from = Block(0);
        while let Some(block) = flash.tired(from) {
            let die = flash.geometry().die_of(block);
            let spare = self.space().blocks.free_in(die) > 0 && self.collector().victim(die).is_none();
            if let Some((stream, lane)) = self.space().holder(block).filter(|_| spare) {
                self.space_mut().seal(stream, lane);
            }
            from = Block(block.0 + 1);
        }
    }

    /// Whether a tired block on a crowded die, which no victim fits on, can move all the same: other dies have room for
    /// what is written about its pages, beside what they keep free. (What goes into the same blocks as the pages does
    /// not.)
    #[cold]
    fn may_be_told_elsewhere(&self, block: Block) -> bool {
        let Takes { moved, told } = self.takes(block);
        moved.0 != told.0 && self.may_level(block) && self.fits_with_others(block, self.collector().kept)
    }

    /// Moves the pages of a tired block, and erases it; or makes room for that. Whether anything was done.
    ///
    /// # Errors
    /// Full; the medium's.
    #[cold]
    fn refresh_block<F: Flash>(&mut self, flash: &mut F, block: Block) -> Outcome<F, bool> {
        if let Some(done) = self.space_mut().refresh_unused(flash, block)? {
            return Ok(done);
        }
        let die = flash.geometry().die_of(block);
        if self.collector().victim(die).is_some() {
            self.end_now(flash, die)?;
            return Ok(true);
        }
        if self.space().holder(block).is_some() && self.space().blocks.live_of(block) == 0 {
            return Ok(false);
        }
        // What a scheme does not move for wear levelling may take a block more than it gives back.
        let needs = self.needs(block) + u32::from(!self.may_level(block));
        let free = self.space().blocks.free_in(die);
        if needs > free {
            self.make_room(flash, die)?;
            if self.space().blocks.free_in(die) > free {
                return Ok(true);
            }
            // It may have been taken for a victim. One that is being filled waits: the room that is left in it counts.
            let is_filled = self.space().holder(block).is_some();
            if flash.tired(block) != Some(block) || is_filled || !self.may_be_told_elsewhere(block) {
                return Ok(false);
            }
            if self.end_one(flash)? {
                return Ok(true);
            }
        }
        if let Some((stream, lane)) = self.space().holder(block) {
            self.space_mut().seal(stream, lane);
            self.space_mut().let_go(stream, lane);
            self.let_go();
        }
        self.collect(flash, block, Some(Cause::Refresh)).map(|()| true)
    }

    /// Collects ahead of need: for about `copies` pages if collections are spread, else a whole victim; whether there
    /// may be more to do.
    ///
    /// # Errors
    /// Full; the medium's.
    fn collect_ahead<F: Flash>(&mut self, flash: &mut F, copies: u32) -> Outcome<F, bool> {
        self.evacuate(flash)?;
        if self.refresh(flash)? {
            return Ok(true);
        }
        let mut dies = (0..self.collector().progress.len() as u32).map(Die);
        if let Some(die) = dies.find(|&die| self.collector().victim(die).is_some()) {
            self.slice(flash, die, copies)?;
            return Ok(true);
        }
        let die = self.space().poorest_die();
        let free = self.space().blocks.free_in(die);
        if free < 1 || free > self.collector().high {
            return Ok(false);
        }
        // Ahead of need, only victims that are at least half dead are worth their copies.
        let half = flash.geometry().pages_per_block / 2;
        let Some(victim) = self.choose(die, false).filter(|&victim| self.space().blocks.live_of(victim) <= half) else {
            return Ok(false);
        };
        if self.begin(die, victim) {
            self.slice(flash, die, copies)?;
        } else {
            self.collect(flash, victim, None)?;
        }
        Ok(true)
    }
}

/// Goes on with a collection whose slices so far are `earlier`: what comes of it, and its slices then.
fn in_slice<F: Flash, T>(flash: &mut F, earlier: Chain, work: impl FnOnce(&mut Collection<'_, F>) -> T) -> (T, Chain) {
    let mut gc = Collection::resume(flash, earlier);
    let done = work(&mut gc);
    (done, gc.pause())
}

#[cfg(test)]
mod tests;

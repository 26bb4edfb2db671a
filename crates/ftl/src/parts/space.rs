//! Space on flash: blocks, the lanes that fill them, the policy that empties them, and what happens when one fails.
//!
//! Schemes decide what moves and what that means for their maps; this part decides where it goes. Its blocks come from
//! a supply (`parts/supply.rs`), whose fields and methods are those of a space too. A program that fails ends its
//! block's lane: the block is *doomed*, its live pages are to be moved like a victim's, and it is then marked bad
//! instead of erased.

use crate::gc::{self, GcPolicy};
use crate::parts::census::Census;
use crate::parts::collector::{self, Collector, GC_HIGH, GC_LOW, SPREAD};
use crate::parts::ecc::Ecc;
use crate::parts::lanes::{Lane, Lanes, Stream};
use crate::parts::supply::{self, Supply, audit_version};
use crate::parts::wear::Wear;
use crate::{Error, Group, Loader, Outcome, Parameter, Saver, Settings};
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::{Deref, DerefMut, Range};
use flash::{Block, Cause, Die, FaultKind, Flash, FlashFault, Geometry, Kind, Lpn, Mode, Oob, Ppn, Rng};

/// Of a device, in percent, that nobody would spare more of.
const MOST_SPARE: u64 = 50;

/// The advice where a device has fewer than `blocks` blocks: the spare share with which it has as many.
pub(crate) fn more_spare(g: &Geometry, logical_pages: u32, blocks: u64) -> String {
    // A device has whole blocks on every die: what is more than one block fewer on each takes one more.
    let dies = u64::from(g.die_count());
    let pages = (blocks.div_ceil(dies) - 1).max(1) * dies * u64::from(g.pages_per_block);
    // The least number of hundredths of a percent above that.
    let share = 10_000 * pages.saturating_sub(u64::from(logical_pages)) / pages + 1;
    let least = format!("{}.{:02} %", share / 100, share % 100);
    if share > 100 * MOST_SPARE {
        return format!("give a larger capacity, or set what needs less; with this one {least} would have to be spare");
    }
    format!("give more spare space, at least {least}")
}

/// `seed`: the run's seed, forked for policies that draw.
pub(crate) const SEED: Parameter = Parameter::count("seed", 1, 0..=u64::MAX)
    .text("Seed of policies that draw lots. The same seed gives the same run.")
    .source("ftlab");

/// The rows of [`Options`] that are about collections, for a scheme whose `gc-low` is this one.
pub(crate) const fn collection(gc_low: Parameter) -> [Parameter; 9] {
    use gc::{CHOICES, DEAD_SHARE, LAMBDA, WEAR_SPREAD};
    [gc::POLICY, gc_low, GC_HIGH, SPREAD, CHOICES, LAMBDA, WEAR_SPREAD, DEAD_SHARE, SEED]
}

/// Collections, where each die needs a single free block for them.
pub(crate) const COLLECTION: Group = Group { title: "collection of blocks", rows: &collection(GC_LOW) };

/// How a space hands out blocks, and empties them.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Free blocks and wear levelling.
    pub supply: supply::Options,
    /// The victim policy.
    pub gc: gc::Options,
    /// The rhythm of collections.
    pub collector: collector::Options,
    /// `seed`.
    pub seed: u64,
}

impl From<&Settings> for Options {
    fn from(settings: &Settings) -> Options {
        let seed = settings.count(&SEED);
        Options { supply: settings.into(), gc: settings.into(), collector: settings.into(), seed }
    }
}

/// Free blocks of a die at or below which open blocks are used up before another is opened.
const SCARCE: u32 = 3;

/// Pages that [`Space::move_run`] moves at the most: a word of live bits.
pub(crate) const MOST_MOVED: usize = 64;

/// What [`Space::move_run`] moved.
#[derive(Clone, Debug)]
pub struct Run<E> {
    /// Where the pages went, in order.
    pub to: Range<u32>,
    /// The bits of those that moved.
    pub moved: u64,
    /// What ended it early, if the scheme cannot go on.
    pub result: Result<(), E>,
}

/// The `count` lowest set bits of a word.
#[inline(always)]
pub(crate) fn lowest_bits(bits: u64, count: u32) -> u64 {
    if count >= bits.count_ones() {
        return bits;
    }
    let rest = (0..count).fold(bits, |rest, _| rest & (rest - 1));
    bits & !rest
}

/// See the module's description.
#[derive(Debug)]
pub struct Space {
    supply: Supply,
    /// The write streams.
    pub streams: Vec<Lanes>,
    policy: Box<dyn GcPolicy + Send>,
    /// When and how blocks are emptied.
    pub collector: Collector,
    /// Blocks of translation pages, for schemes that have them.
    pub translation: Option<TranslationBlocks>,
    /// Who says in which mode host pages are programmed, if not all in normal mode.
    pub ecc: Option<Box<Ecc>>,
}

impl Deref for Space {
    type Target = Supply;
    #[inline(always)]
    fn deref(&self) -> &Supply {
        &self.supply
    }
}

impl DerefMut for Space {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Supply {
        &mut self.supply
    }
}

/// Full blocks of translation pages. They are few, so they are kept in a list.
#[derive(Clone, Debug)]
pub struct TranslationBlocks {
    /// The write stream that fills them.
    pub stream: Stream,
    /// Those no lane holds any more, in the order in which they were filled.
    pub closed: Vec<Block>,
    /// Whether the victim policy sees them among the data blocks.
    pub among_data: bool,
}

impl Clone for Space {
    fn clone(&self) -> Self {
        Space {
            supply: self.supply.clone(),
            streams: self.streams.clone(),
            policy: self.policy.boxed(),
            collector: self.collector.clone(),
            translation: self.translation.clone(),
            ecc: self.ecc.clone(),
        }
    }
}

impl Space {
    /// All blocks free; `streams` write streams with `lanes` lanes each; `kept` free blocks of a die for collections
    /// alone.
    pub fn new(geometry: Geometry, options: &Options, streams: &[usize], kept: u32) -> Space {
        let row = options.gc.policy;
        Space {
            supply: Supply::new(geometry, &options.supply, row.ages),
            streams: streams.iter().map(|&lanes| Lanes::new(lanes)).collect(),
            policy: (row.make)(Rng::new(options.seed).fork("gc"), &options.gc),
            collector: Collector::new(&options.collector, geometry.die_count(), kept),
            translation: None,
            ecc: None,
        }
    }

    /// Has the blocks of a stream of translation pages programmed in SLC mode, where cells hold more than one bit: each
    /// holds so many pages fewer. They are to be collected apart from the others, for the victim policy counts the
    /// pages that a block could hold.
    pub fn set_slc(&mut self, stream: Stream) {
        let apart = self.translation.as_ref().is_some_and(|blocks| blocks.stream == stream && !blocks.among_data);
        assert!(apart, "blocks of stream {} are collected by the policy, which takes all for equally large", stream.0);
        self.streams[stream.index()].slc = self.blocks.geometry().bits_per_cell > 1;
    }

    /// The mode in which pages of a stream are to be programmed.
    #[inline(always)]
    pub fn mode(&self, stream: Stream) -> Mode {
        if self.streams[stream.index()].slc { Mode::Slc } else { Mode::Normal }
    }

    /// Pages that a block of a stream holds.
    pub fn block_pages(&self, stream: Stream) -> u32 {
        self.streams[stream.index()].block_pages(self.blocks.geometry())
    }

    /// The part that asks the policy.
    ///
    /// # Panics
    /// If there is none: only what the part has ordered asks for it.
    pub fn ecc(&mut self) -> &mut Ecc {
        self.ecc.as_mut().expect("a policy has ordered this")
    }

    /// The host writes a page: the mode to program it in.
    #[inline(always)]
    pub fn host_mode(&mut self, lpn: Lpn) -> Mode {
        self.ecc.as_mut().map_or(Mode::Normal, |ecc| ecc.written(lpn))
    }

    /// While mounting: block states, lanes and counters from a census. Stream `data` goes on with the newest data block
    /// of each die, stream `translation` (if the scheme has one) with the newest translation block. Live pages are not
    /// known yet: call [`crate::blocks::Blocks::revive`] for each afterwards.
    pub fn adopt(&mut self, census: &Census, data: Stream, translation: Option<Stream>) {
        let g = *self.blocks.geometry();
        self.supply.adopt(census, |block| census.blocks[block.index()].is_some());
        if let Some(translation) = &mut self.translation {
            let found = |block: &Block| census.blocks[block.index()].filter(|found| found.kind == Kind::Translation);
            translation.closed = (0..g.block_count())
                .map(Block)
                .filter(|block| found(block).is_some_and(|found| !found.newest))
                .collect();
            if !translation.among_data {
                for &block in &translation.closed {
                    self.supply.blocks.begin_collecting(block);
                }
            }
        }
        for block in (0..g.block_count()).map(Block) {
            let Some(found) = census.blocks[block.index()].filter(|found| found.newest) else { continue };
            let stream = if found.kind == Kind::Translation { translation } else { Some(data) };
            if let Some(stream) = stream {
                let end = self.block_pages(stream).max(found.programmed);
                let (die, lane) = (g.die_of(block), Lane::of(g.die_of(block)));
                self.blocks.resume(block, found.programmed..end);
                self.streams[stream.index()].replace(&g, lane, block, found.programmed);
                // What seems the newest may have been erased in part, and the newest lost: another takes its place.
                if census.is_unsure(die) && self.blocks.free_in(die) > self.collector.kept {
                    self.seal(stream, lane);
                }
            }
        }
    }

    /// The policy's victim among a range of blocks.
    pub fn pick(&mut self, among: Range<u32>) -> Option<Block> {
        self.policy.pick(&self.supply.blocks, among)
    }

    /// Opens a free block of its die in a lane; false if the die has none. The lane's former block is closed.
    ///
    /// # Errors
    /// The medium's.
    pub fn open<F: Flash>(&mut self, flash: &mut F, stream: Stream, lane: Lane) -> Outcome<F, bool> {
        loop {
            let g = *self.blocks.geometry();
            let die = lane.die(&g);
            let worn = self.next.take_if(|worn| g.die_of(*worn) == die);
            let worn = worn.and_then(|worn| self.blocks.open_block(worn));
            let Some((block, suspect)) = worn.or_else(|| self.blocks.open(die)) else { return Ok(false) };
            if suspect && !self.cleanse(flash, block)? {
                continue;
            }
            let pages = self.block_pages(stream);
            self.blocks.shorten(block, pages);
            if let Some(former) = self.streams[stream.index()].replace(&g, lane, block, 0) {
                self.close(stream, former);
            }
            return Ok(true);
        }
    }

    fn close(&mut self, stream: Stream, block: Block) {
        match &mut self.translation {
            Some(translation) if translation.stream == stream => {
                translation.closed.push(block);
                if translation.among_data {
                    self.blocks.close(block);
                }
            }
            _ => self.blocks.close(block),
        }
    }

    /// Whether a block that no lane holds is one of translation pages.
    pub fn is_translation(&self, block: Block) -> bool {
        let is_data = |apart: bool| apart && self.blocks.is_candidate(block.0);
        self.translation.as_ref().is_some_and(|t| !is_data(!t.among_data) && t.closed.contains(&block))
    }

    /// The block of translation pages of a die with the fewest live ones, if any has a dead page and none is being
    /// collected already; the lowest among equals.
    pub fn best_translation_block(&self, die: Die) -> Option<Block> {
        let translation = self.translation.as_ref()?;
        let (range, victim) = (self.blocks.range(die), self.collector.victim(die));
        let here = translation.closed.iter().filter(|&block| range.contains(&block.0) && Some(*block) != victim);
        let (live, block) = here.map(|&block| (self.blocks.live_of(block), block)).min()?;
        (live < self.block_pages(translation.stream)).then_some(block)
    }

    /// Pages left in the open blocks that a stream has on a die.
    pub fn room_on(&self, stream: Stream, die: Die) -> u32 {
        let lanes = &self.streams[stream.index()];
        lanes.on(die, self.blocks.geometry()).map(|lane| lanes.room(lane)).sum()
    }

    /// Free blocks that so many pages of a stream take on a die beside its open ones.
    pub fn blocks_for(&self, stream: Stream, die: Die, pages: u32) -> u32 {
        pages.saturating_sub(self.room_on(stream, die)).div_ceil(self.block_pages(stream))
    }

    /// Takes a block of either sort out of those that are closed; whether it was. One without a dead page is no
    /// candidate yet, but its pages die while it is emptied.
    pub fn begin_collecting(&mut self, block: Block) -> bool {
        let closed = self.blocks.is_closed(block);
        if closed {
            self.blocks.begin_collecting(block);
        }
        closed
    }

    /// The next page of a stream: of `lane` or on its die if it can be, elsewhere if it must. Collects nothing.
    ///
    /// # Errors
    /// Full if no block is free; the medium's.
    #[inline]
    pub fn page_on<F: Flash>(&mut self, flash: &mut F, stream: Stream, lane: Lane) -> Outcome<F, Ppn> {
        match self.streams[stream.index()].take(lane) {
            Some(page) => Ok(page),
            None => {
                let lane = self.lane_elsewhere(flash, stream, lane)?;
                self.streams[stream.index()].take(lane).ok_or(Error::Full)
            }
        }
    }

    /// As [`Space::page_on`], the whole run of pages at once, at least one, and their lane. Say how many were used with
    /// [`Lanes::take_until`].
    ///
    /// # Errors
    /// As [`Space::page_on`].
    #[inline]
    pub fn run_on<F: Flash>(&mut self, flash: &mut F, stream: Stream, lane: Lane) -> Outcome<F, (Lane, Range<u32>)> {
        let has_room = self.streams[stream.index()].room(lane) > 0;
        let lane = if has_room { lane } else { self.lane_elsewhere(flash, stream, lane)? };
        Ok((lane, self.streams[stream.index()].run(lane)))
    }

    /// Moves the host pages whose bits are set, counted from page `from` on within one word of live bits, into the
    /// block that `stream` has open for `die`. `moved` is told each page's place among them and its LPN. Ends early
    /// where that block ends and at a program that fails; then it is called again for the rest.
    ///
    /// # Errors
    /// As [`Space::page_on`]; what the medium said stands in [`Run::result`], beside what was moved before.
    #[inline]
    pub fn move_run<F: Flash>(
        &mut self,
        flash: &mut F,
        stream: Stream,
        die: Die,
        (from, bits): (Ppn, u64),
        cause: Cause,
        mut moved: impl FnMut(usize, u32),
    ) -> Outcome<F, Run<F::Fault>> {
        let (lane, run) = self.run_on(flash, stream, Lane::of(die))?;
        let live = lowest_bits(bits, run.len() as u32);
        let to = Ppn(run.start);
        self.tell_wear(flash, to);
        let (program, moved) = (self.program, |lpn, to: Ppn| moved((to.0 - run.start) as usize, lpn));
        let (count, result) = match &self.ecc {
            None => flash.copy_run(from, live, to, program, cause, moved),
            Some(ecc) => ecc.copy_run(flash, (from, live), to, program, cause, moved),
        };
        let end = run.start + count;
        self.collector.beside.moves_to(run.start..end);
        let dead = lowest_bits(live, count);
        self.streams[stream.index()].take_until(lane, end);
        self.blocks.kill_word(from, dead);
        self.program += u64::from(count);
        let result = match result {
            Err(fault) => {
                self.program += 1;
                if fault.kind() == FaultKind::ProgramFailed {
                    self.abandon(Ppn(end));
                    Ok(())
                } else {
                    Err(fault)
                }
            }
            Ok(()) => Ok(()),
        };
        Ok(Run { to: run.start..end, moved: dead, result })
    }

    /// A lane is full: a lane with room, it with another block of its die or another. Lanes beyond the number of dies
    /// begin with the first die again.
    #[cold]
    #[inline(never)]
    fn lane_elsewhere<F: Flash>(&mut self, flash: &mut F, stream: Stream, lane: Lane) -> Outcome<F, Lane> {
        // What a collection may take was reckoned with all that is open on its die: it is used up before anything is
        // opened while blocks are few.
        let die = lane.die(self.blocks.geometry());
        let beside = |space: &Space| {
            let lanes = &space.streams[stream.index()];
            lanes.on(die, space.blocks.geometry()).find(|&lane| lanes.room(lane) > 0)
        };
        if self.blocks.free_in(die) <= SCARCE
            && let Some(lane) = beside(self)
        {
            return Ok(lane);
        }
        if self.open(flash, stream, lane)? {
            return Ok(lane);
        }
        if let Some(lane) = beside(self).or_else(|| self.streams[stream.index()].any_with_room()) {
            return Ok(lane);
        }
        let rich = Lane::of(self.richest_die());
        if self.open(flash, stream, rich)? { Ok(rich) } else { Err(Error::Full) }
    }

    /// After a page could not be read: what was taken of a stream to copy it to is left blank, to be taken again.
    pub fn give_back(&mut self, stream: Stream, page: Ppn) {
        let g = *self.blocks.geometry();
        let lanes = &mut self.streams[stream.index()];
        let block = g.block_of(page);
        if let Some(lane) = lanes.lane_of(block) {
            lanes.give_back(lane, page);
        }
    }

    /// After a failed program: the lane loses its block, which is doomed.
    pub fn abandon(&mut self, ppn: Ppn) {
        let g = *self.blocks.geometry();
        let block = g.block_of(ppn);
        if let Some((stream, lane)) = self.holder(block) {
            let former = self.streams[stream.index()].former(lane).filter(|_| g.offset_of(ppn) == 0);
            self.streams[stream.index()].clear(lane);
            if let Some(former) = former {
                self.take_back(stream, lane, former);
            }
            if let Some(translation) = self.translation.as_mut().filter(|t| t.stream == stream) {
                translation.closed.push(block);
            }
        }
        self.blocks.close_early(block, g.offset_of(ppn));
        self.blocks.begin_collecting(block);
        self.doomed.push(block);
    }

    /// After a partial program that failed: the page's block is doomed, in a lane or not.
    pub fn doom(&mut self, ppn: Ppn) {
        let block = self.blocks.geometry().block_of(ppn);
        if self.doomed.contains(&block) {
            return;
        }
        let mut streams = (0..).map(Stream).zip(&self.streams);
        let open = streams.find_map(|(stream, lanes)| Some((stream, lanes.lane_of(block)?)));
        if let Some((stream, lane)) = open {
            let next = self.streams[stream.index()].run(lane);
            if next.is_empty() {
                self.streams[stream.index()].clear(lane);
                self.close(stream, block);
            } else {
                return self.abandon(Ppn(next.start));
            }
        }
        self.begin_collecting(block);
        self.doomed.push(block);
    }

    /// Nothing was programmed behind a lane's former block: it is the lane's again, full, so that nobody erases what a
    /// mount would go on with (docs/recovery.md). Not if something is being done with it already.
    fn take_back(&mut self, stream: Stream, lane: Lane, former: Block) {
        let g = *self.blocks.geometry();
        let of_stream = self.translation.as_ref().filter(|t| t.stream == stream);
        if of_stream.is_some() != self.is_translation(former) {
            return;
        }
        let is_idle = match of_stream {
            Some(t) if !t.among_data => {
                self.collector.victim(g.die_of(former)) != Some(former) && !self.doomed.contains(&former)
            }
            _ => self.begin_collecting(former),
        };
        if is_idle {
            if let Some(translation) = &mut self.translation {
                translation.closed.retain(|&closed| closed != former);
            }
            let full = self.block_pages(stream);
            self.streams[stream.index()].replace(&g, lane, former, full);
        }
    }

    /// The lane that holds a block, if one does.
    pub fn holder(&self, block: Block) -> Option<(Stream, Lane)> {
        let mut streams = (0..).map(Stream).zip(&self.streams);
        streams.find_map(|(stream, lanes)| Some((stream, lanes.lane_of(block)?)))
    }

    /// The block of a lane takes no further page: what is left of it is dead. The lane keeps it until it is given
    /// another, as it keeps any block that is full.
    pub fn seal(&mut self, stream: Stream, lane: Lane) {
        let lanes = &mut self.streams[stream.index()];
        let Some(block) = lanes.block(lane) else { return };
        let left = lanes.run(lane);
        lanes.take_until(lane, left.end);
        if !left.is_empty() {
            let next = self.blocks.geometry().offset_of(Ppn(left.start));
            self.blocks.shorten(block, next);
        }
    }

    /// Takes a full block out of its lane, which has none then, and closes it. What it holds must go to another block
    /// of its die at once, for a mount goes on with the newest (docs/recovery.md).
    pub fn let_go(&mut self, stream: Stream, lane: Lane) {
        if let Some(block) = self.streams[stream.index()].block(lane) {
            self.streams[stream.index()].clear(lane);
            self.close(stream, block);
        }
    }

    /// Ends a block that holds nothing live: erases it, or marks it bad if a program of it failed. Whoever chose it as
    /// a victim need not have known of that: a partial program of a page in it may have failed since.
    ///
    /// # Errors
    /// The medium's.
    pub fn finish<F: Flash>(&mut self, flash: &mut F, block: Block, cause: Cause) -> Outcome<F> {
        if let Some(translation) = &mut self.translation {
            translation.closed.retain(|&closed| closed != block);
        }
        let Some(place) = self.doomed.iter().position(|&doomed| doomed == block) else {
            return self.erase(flash, block, cause);
        };
        self.mark_bad(flash, block)?;
        self.doomed.remove(place);
        Ok(())
    }

    /// Wear levelling, to be asked what it wants, and then put back.
    pub fn take_wear(&mut self) -> Wear {
        core::mem::take(&mut self.wear)
    }

    /// Puts wear levelling back.
    pub fn put_wear(&mut self, wear: Wear) {
        self.wear = wear;
    }

    /// Whether the pages of a block can be moved now: it is closed, and no failed block that waits for that anyway.
    pub fn is_movable(&self, block: Block) -> bool {
        let apart = |t: &TranslationBlocks| !t.among_data && t.closed.contains(&block);
        (self.blocks.is_closed(block) || self.translation.as_ref().is_some_and(apart)) && !self.doomed.contains(&block)
    }

    /// The die with the fewest free blocks, the lowest among equals.
    pub fn poorest_die(&self) -> Die {
        let dies = (0..self.blocks.geometry().die_count()).map(Die);
        dies.min_by_key(|&die| self.blocks.free_in(die)).expect("a device has a die")
    }

    /// The die with the most free blocks, the lowest among equals.
    pub fn richest_die(&self) -> Die {
        let dies = (0..self.blocks.geometry().die_count()).map(Die);
        dies.min_by_key(|&die| core::cmp::Reverse(self.blocks.free_in(die))).expect("a device has a die")
    }

    /// A page that a map gives for an LPN: that it is there and live, and that its version is not above `given`, the
    /// last one that was given. Counts it in `live`, its block's live pages. Its spare area.
    ///
    /// # Errors
    /// What is wrong.
    pub fn audit_page<F: Flash>(
        &self,
        flash: &mut F,
        (lpn, ppn): (Lpn, Ppn),
        given: u64,
        live: &mut [u32],
    ) -> Result<Oob, String> {
        let oob = flash.read_oob(ppn, Cause::Recovery).map_err(|fault| format!("{fault:?}"))?;
        let Some(found) = oob.filter(|oob| oob.kind == Kind::Data && oob.lpn() == lpn) else {
            return Err(format!("LPN {lpn} maps to page {ppn}, which holds {oob:?}"));
        };
        if !self.blocks.is_live(ppn) {
            return Err(format!("LPN {lpn} maps to page {ppn}, which is dead"));
        }
        live[self.blocks.geometry().block_of(ppn).index()] += 1;
        audit_version(lpn, &found, given).map(|()| found)
    }

    /// Holds every block's state to who has it: a block that somebody has is no victim, and one that nobody has is
    /// free, bad, or a victim once it has a dead page. Lists of candidates are held to live counts and ages.
    /// `kept_apart`: blocks that the scheme has beside lanes and lists.
    ///
    /// # Errors
    /// The first block of which that is not so.
    pub fn audit_blocks(&self, kept_apart: impl Fn(Block) -> bool) -> Result<(), String> {
        self.blocks.audit_lists()?;
        let g = *self.blocks.geometry();
        let free: BTreeSet<Block> = self.blocks.free_blocks().collect();
        let apart = |t: &TranslationBlocks, block| !t.among_data && t.closed.contains(&block);
        for block in (0..g.block_count()).map(Block).filter(|&block| !self.blocks.is_bad(block)) {
            let collected = self.collector.victim(g.die_of(block)) == Some(block);
            let is_translation = self.translation.as_ref().is_some_and(|t| apart(t, block));
            let held = self.holder(block).is_some() || self.doomed.contains(&block) || kept_apart(block);
            let had = free.contains(&block) || collected || is_translation || held || self.is_of_checkpoints(block);
            if had == self.blocks.is_closed(block) {
                let what = if had { "a victim, and somebody has it" } else { "no victim, and nobody has it" };
                return Err(format!("block {block} is {what}"));
            }
        }
        Ok(())
    }

    /// Holds the live pages that a scheme knows of in each block, and what is left of open blocks, to the counts.
    ///
    /// # Errors
    /// The first block that differs.
    pub fn audit_counts(&self, mut live: Vec<u32>) -> Result<(), String> {
        for lanes in &self.streams {
            for lane in lanes.all() {
                if let Some(block) = lanes.block(lane) {
                    live[block.index()] += lanes.room(lane);
                }
            }
        }
        for (block, live) in live.into_iter().enumerate() {
            let counted = self.blocks.live_of(Block(block as u32));
            if counted != live {
                return Err(format!("block {block} counts {counted} live pages, but {live} are mapped"));
            }
        }
        Ok(())
    }

    /// Controller RAM, bytes.
    pub fn memory(&self) -> Vec<(&'static str, u64)> {
        let mut out = Vec::from(self.blocks.memory());
        let lanes: u64 = self.streams.iter().map(Lanes::memory).sum();
        let listed = self.doomed.len() + self.translation.as_ref().map_or(0, |t| t.closed.len());
        out.push(("open blocks and counters", lanes + 8 + listed as u64 * 4 + 8 + 32));
        if let Some(ecc) = &self.ecc {
            out.extend(ecc.memory());
        }
        out.extend(self.wear_memory());
        out.push(("collections in progress", self.collector.memory()));
        out
    }

    /// Saves the state.
    pub fn save(&self, out: &mut Saver) {
        self.blocks.save(out);
        self.streams.iter().for_each(|lanes| lanes.save(out));
        out.u32(self.doomed.len() as u32);
        self.doomed.iter().for_each(|block| out.u32(block.0));
        if let Some(translation) = &self.translation {
            out.u32(translation.closed.len() as u32);
            translation.closed.iter().for_each(|block| out.u32(block.0));
        }
        out.u64(self.program);
        self.collector.save(out);
        self.save_wear(out);
        if let Some(ecc) = &self.ecc {
            ecc.save(out);
        }
        if let Some(rng) = self.policy.boxed().rng() {
            rng.state().iter().for_each(|&word| out.u64(word));
        }
    }

    /// Loads what [`Space::save`] saved into a new space.
    pub fn load(mut self, from: &mut Loader<'_>) -> Space {
        let space = &mut self;
        space.load_blocks(from);
        space.streams.iter_mut().for_each(|lanes| lanes.load(from));
        let doomed = from.u32();
        space.doomed = (0..doomed).map(|_| Block(from.u32())).collect();
        if let Some(translation) = &mut space.translation {
            let closed = from.u32();
            translation.closed = (0..closed).map(|_| Block(from.u32())).collect();
        }
        space.program = from.u64();
        space.collector.load(from);
        space.load_wear(from);
        if let Some(ecc) = &mut space.ecc {
            ecc.load(from);
        }
        if let Some(rng) = space.policy.rng() {
            *rng = Rng::from_state([from.u64(), from.u64(), from.u64(), from.u64()]);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use flash::{Fragile, Full, Nand, NoData, Payload, Tvpn};

    const DATA: Stream = Stream(0);
    const TRANSLATION: Stream = Stream(1);

    /// Two dies of eight blocks of eight pages; in SLC mode four, or two.
    fn chip(bits_per_cell: u32) -> Nand<NoData, Full> {
        let g = Geometry { dies: 2, blocks_per_die: 8, pages_per_block: 8, bits_per_cell, ..Geometry::default() };
        Nand::new(g.checked().unwrap())
    }

    fn options() -> Options {
        Options::from(&Settings::defaults([COLLECTION, supply::GROUP].iter().flat_map(|group| group.rows)))
    }

    fn space(chip: &Nand<NoData, Full>) -> Space {
        let mut space = Space::new(*chip.geometry(), &options(), &[2, 2], 1);
        space.translation = Some(TranslationBlocks { stream: TRANSLATION, closed: Vec::new(), among_data: false });
        space.set_slc(TRANSLATION);
        space
    }

    /// Programs a page of a stream on a die.
    fn put(space: &mut Space, chip: &mut Nand<NoData, Full>, stream: Stream, die: Die, address: u32) -> Ppn {
        let to = space.page_on(chip, stream, Lane::of(die)).unwrap();
        let (program, mode) = (space.number_for(chip, to), space.mode(stream));
        let result = match stream {
            DATA => {
                let oob = Oob { mode, ..Oob::data(Lpn(address), program, program) };
                chip.program(to, oob, Payload::User(&()), Cause::Host)
            }
            _ => {
                let oob = Oob { mode, ..Oob::translation(Tvpn(address), program, program) };
                chip.program(to, oob, Payload::Meta(&[address]), Cause::TranslationUpdate)
            }
        };
        let Ok(()) = result;
        to
    }

    fn audit(space: &Space, live: &[Ppn]) {
        let g = *space.blocks.geometry();
        let mut counts = vec![0; g.block_count() as usize];
        live.iter().for_each(|&ppn| counts[g.block_of(ppn).index()] += 1);
        space.audit_counts(counts).unwrap();
        assert!(live.iter().all(|&ppn| space.blocks.is_live(ppn)));
    }

    /// What an audit is for: state that no host notices before it is too late.
    #[test]
    fn an_audit_finds_blocks_that_nobody_has_and_victims_that_somebody_has() {
        let mut chip = chip(1);
        let mut space = space(&chip);
        let full: Vec<Ppn> = (0..9).map(|lpn| put(&mut space, &mut chip, DATA, Die(0), lpn)).collect();
        let (closed, open) = (chip.geometry().block_of(full[0]), chip.geometry().block_of(full[8]));
        assert_eq!(space.audit_blocks(|_| false), Ok(()));
        space.blocks.begin_collecting(closed);
        assert_eq!(space.audit_blocks(|_| false), Err(format!("block {closed} is no victim, and nobody has it")));
        assert_eq!(space.audit_blocks(|block| block == closed), Ok(()));
        space.blocks.stop_collecting(closed);
        space.blocks.close_early(open, 1);
        assert_eq!(space.audit_blocks(|_| false), Err(format!("block {open} is a victim, and somebody has it")));
    }

    /// `fifo` takes blocks without a dead page, and so do wear levelling and refreshes.
    #[test]
    fn a_block_whose_pages_die_while_it_is_emptied_is_no_candidate() {
        let mut chip = chip(1);
        let mut space = space(&chip);
        let full: Vec<Ppn> = (0..9).map(|lpn| put(&mut space, &mut chip, DATA, Die(0), lpn)).collect();
        let (closed, open) = (chip.geometry().block_of(full[0]), chip.geometry().block_of(full[8]));
        assert!(space.begin_collecting(closed), "it is closed, though all of its pages are live");
        space.blocks.kill(full[0]);
        assert!(!space.blocks.is_candidate(closed.0));
        assert!(!space.begin_collecting(closed) && !space.begin_collecting(open), "neither is closed");
    }

    #[test]
    fn an_audit_finds_a_version_that_was_not_given() {
        let mut chip = chip(1);
        let mut space = space(&chip);
        let pages = [0, 1].map(|lpn| put(&mut space, &mut chip, DATA, Die(0), lpn));
        let mut live = vec![0; chip.geometry().block_count() as usize];
        let mut look = |given| space.audit_page(&mut chip, (Lpn(1), pages[1]), given, &mut live).map(|oob| oob.version);
        let version = look(u64::MAX).unwrap();
        assert_eq!(look(version), Ok(version));
        let what = format!("LPN 1 has version {version}, and the last one given is {}", version - 1);
        assert_eq!(look(version - 1), Err(what));
    }

    /// A page that could count after a power cut: whole, and before the first blank one.
    #[test]
    fn an_audit_finds_what_is_left_in_a_free_block() {
        let mut chip = chip(1);
        let mut space = space(&chip);
        let page = put(&mut space, &mut chip, DATA, Die(0), 3);
        assert_eq!(space.audit_free(&mut chip), Ok(()));
        let block = chip.geometry().block_of(page);
        space.streams[DATA.index()].clear(Lane::of(Die(0)));
        space.blocks.discard_open(block);
        space.blocks.give_back(block);
        let what = space.audit_free(&mut chip).unwrap_err();
        assert!(what.starts_with(&format!("block {block} is free, and page {page} holds Oob")), "{what}");
        chip.chip().spoil(page);
        assert_eq!(space.audit_free(&mut chip), Ok(()));
    }

    #[test]
    fn a_stream_in_slc_mode_fills_a_part_of_each_block() {
        for (bits, pages) in [(1, 8), (2, 4), (3, 2), (4, 2)] {
            let mut chip = chip(bits);
            let mut space = space(&chip);
            assert_eq!((space.block_pages(TRANSLATION), space.block_pages(DATA)), (pages, 8));
            let data: Vec<Ppn> = (0..9).map(|lpn| put(&mut space, &mut chip, DATA, Die(0), lpn)).collect();
            let mut live: Vec<Ppn> =
                (0..2 * pages + 1).map(|tvpn| put(&mut space, &mut chip, TRANSLATION, Die(0), tvpn)).collect();
            let g = *chip.geometry();
            // Each block's pages in turn, and no more of them.
            let offsets: Vec<u32> = live.iter().map(|&ppn| g.offset_of(ppn)).collect();
            assert_eq!(offsets, (0..2 * pages + 1).map(|page| page % pages).collect::<Vec<_>>());
            assert_eq!(chip.is_slc(g.block_of(live[0])), bits > 1);
            assert!(!chip.is_slc(g.block_of(data[0])));
            audit(&space, &[&live[..], &data[..]].concat());
            // Two are full and live: there is nothing to gain.
            assert_eq!(space.translation.as_ref().unwrap().closed.len(), 2);
            assert_eq!(space.best_translation_block(Die(0)), None);
            let dead = live.remove(pages as usize);
            space.blocks.kill(dead);
            let victim = g.block_of(dead);
            assert_eq!((space.best_translation_block(Die(0)), space.pick(0..16)), (Some(victim), None));
            live.retain(|&ppn| {
                g.block_of(ppn) != victim || {
                    space.blocks.kill(ppn);
                    false
                }
            });
            assert_eq!(space.blocks.next_live(victim, 0), None, "pages that are never programmed are dead");
            let free = space.blocks.free_total();
            space.finish(&mut chip, victim, Cause::TranslationGc).unwrap();
            assert_eq!(space.blocks.free_total(), free + 1);
            // Whose pages are next is no matter to the block any more.
            let again = (0..6 * 8).map(|lpn| put(&mut space, &mut chip, DATA, Die(0), lpn));
            let data: Vec<Ppn> = data.into_iter().chain(again).collect();
            audit(&space, &[&live[..], &data[..]].concat());
        }
    }

    #[test]
    fn a_lane_in_slc_mode_is_saved_and_found_again_by_a_mount() {
        let mut chip = chip(2);
        let mut before = space(&chip);
        // A full block, and one that is begun.
        let live: Vec<Ppn> = (0..6).map(|tvpn| put(&mut before, &mut chip, TRANSLATION, Die(1), tvpn)).collect();
        let mut saver = Saver::default();
        before.save(&mut saver);
        let bytes = saver.finish();
        let mut loaded = space(&chip).load(&mut Loader::new(&bytes));
        let mut flash = chip.clone();
        let mut more: Vec<Ppn> = (6..9).map(|tvpn| put(&mut loaded, &mut flash, TRANSLATION, Die(1), tvpn)).collect();
        audit(&loaded, &[&live[..], &more[..]].concat());

        let mut mounted = space(&chip);
        let census = Census::take(&mut chip, None, |_, _| ()).unwrap();
        mounted.adopt(&census, DATA, Some(TRANSLATION));
        live.iter().for_each(|&ppn| mounted.blocks.revive(ppn));
        audit(&mounted, &live);
        assert_eq!(mounted.streams[TRANSLATION.index()].room(Lane(1)), 2);
        assert_eq!(mounted.best_translation_block(Die(0)), None);
        let again: Vec<Ppn> = (6..9).map(|tvpn| put(&mut mounted, &mut chip, TRANSLATION, Die(1), tvpn)).collect();
        // It goes on where it was, and so does what was saved; which free block comes next is another matter.
        let third = more.pop();
        assert_eq!((&again[..2], again.len()), (&more[..], 3));
        assert!(third.is_some_and(|ppn| chip.geometry().offset_of(ppn) == 0));
        audit(&mounted, &[&live[..], &again[..]].concat());
    }

    /// The first page of a block that is blank behind was lost: what is open beside it may be what an erase has left.
    #[test]
    fn a_mount_fills_nothing_that_may_not_be_the_newest_while_other_blocks_are_free() {
        // Whether the spare area of that page still reads; blocks that only collections open, of six that are free.
        for (reads, kept, room) in [(false, 5, [0, 0]), (true, 5, [0, 0]), (false, 6, [5, 7])] {
            let mut chip = chip(1);
            let mut before = space(&chip);
            for (lpn, die) in [(0, 0), (1, 1), (2, 0), (3, 1), (4, 0)] {
                put(&mut before, &mut chip, DATA, Die(die), lpn);
            }
            put(&mut before, &mut chip, TRANSLATION, Die(0), 0);
            let lost = chip.geometry().page(Block(7), 0);
            if reads {
                let program = before.number_for(&mut chip, lost);
                let Ok(()) = chip.program(lost, Oob::data(Lpn(9), program, program), Payload::User(&()), Cause::Host);
                chip.chip().spoil(lost);
            } else {
                chip.chip().ruin(lost);
            }
            let mut mounted = Space::new(*chip.geometry(), &options(), &[2, 2], kept);
            let census = Census::take(&mut chip, None, |_, _| ()).unwrap();
            mounted.adopt(&census, DATA, Some(TRANSLATION));
            assert_eq!([DATA, TRANSLATION].map(|stream| mounted.room_on(stream, Die(0))), room, "{reads} {kept}");
            assert_eq!(mounted.room_on(DATA, Die(1)), 6);
        }
    }

    /// A mount would go on with the block before the one that failed: nobody erases it until another page is whole.
    #[test]
    fn a_lane_takes_its_block_back_if_the_first_program_behind_it_fails() {
        for stream in [DATA, TRANSLATION] {
            let mut chip = chip(1);
            let mut space = space(&chip);
            let full: Vec<Ppn> = (0..8).map(|address| put(&mut space, &mut chip, stream, Die(0), address)).collect();
            let former = chip.geometry().block_of(full[0]);
            for _ in 0..2 {
                let failed = space.page_on(&mut chip, stream, Lane(0)).unwrap();
                assert!(space.is_movable(former));
                space.abandon(failed);
                assert!(!space.is_movable(former));
                assert_eq!(space.holder(former), Some((stream, Lane(0))));
                space.audit_blocks(|_| false).unwrap();
            }
            put(&mut space, &mut chip, stream, Die(0), 8);
            let failed = space.page_on(&mut chip, stream, Lane(0)).unwrap();
            space.abandon(failed);
            assert!(space.is_movable(former), "its block failed behind a whole page");
        }
    }

    #[test]
    fn a_failed_program_in_slc_mode_dooms_its_block() {
        let mut chip = chip(2);
        let mut space = space(&chip);
        let kept = put(&mut space, &mut chip, TRANSLATION, Die(0), 1);
        let failed = space.page_on(&mut chip, TRANSLATION, Lane(0)).unwrap();
        space.abandon(failed);
        assert_eq!(space.doomed, [chip.geometry().block_of(kept)]);
        audit(&space, &[kept]);
    }

    #[test]
    #[should_panic(expected = "takes all for equally large")]
    fn blocks_in_slc_mode_are_not_the_policy_s() {
        let chip = chip(2);
        let mut space = Space::new(*chip.geometry(), &options(), &[2, 2], 1);
        space.set_slc(DATA);
    }
}

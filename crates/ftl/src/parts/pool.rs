//! Blocks that are taken whole and given back whole: for schemes that fill many blocks at a time, each with pages that
//! belong together.
//!
//! The pool hands out free blocks, numbers programs, and ends blocks: by an erase, or by a bad-block mark if a program
//! of theirs failed. What is mounted is *sealed*: an erase that was cut short may have left a block that reads as
//! before and does not take a program, so pages that were blank when power came back stay blank until the next erase.

use crate::parts::blocks::{Blocks, FoundState, FreeOrder};
use crate::parts::holdings::Holdings;
use crate::parts::wear::{Mode as WearMode, Task, Wear};
use crate::{Error, Loader, Saver, Settings};
use alloc::vec::Vec;
use flash::{Block, Cause, FaultKind, Flash, FlashFault, Geometry, Kind, Mode, Oob};

/// See the module's description.
#[derive(Clone, Debug)]
pub struct Pool {
    /// Free lists, live pages and wear. No block is ever a candidate of a page-level policy.
    pub blocks: Blocks,
    program: u64,
    /// The die whose turn it is among dies with equally many free blocks.
    turn: u32,
    /// Blocks that failed a program and are still in use.
    pub failed: Vec<Block>,
    wear: Wear,
    /// The block that is to be taken next, if it is free.
    next: Option<Block>,
}

/// As the settings want it, if they say.
fn order_of(settings: &Settings) -> FreeOrder {
    match settings.get("free-order").map(|_| settings.word("free-order")) {
        Some("least-worn") => FreeOrder::LeastWorn,
        _ => FreeOrder::Fifo,
    }
}

/// Whether a policy wants to know when blocks were erased.
fn has_ages(settings: &Settings) -> bool {
    settings.get("log-victim").is_some() && settings.word("log-victim") == "cat"
}

impl Pool {
    /// All blocks free.
    pub fn new(g: Geometry, settings: &Settings) -> Pool {
        let blocks = Blocks::new(g, order_of(settings), has_ages(settings));
        let wear = Wear::new(settings, g.block_count());
        Pool { blocks, program: 1, turn: 0, failed: Vec::new(), wear, next: None }
    }

    /// Takes factory-bad blocks out of service on a fresh device.
    ///
    /// # Errors
    /// The medium's.
    pub fn exclude_bad<F: Flash>(&mut self, flash: &mut F) -> Result<(), Error<F::Fault>> {
        let g = *flash.geometry();
        for block in (0..g.block_count()).map(Block) {
            if flash.read_oob(g.page(block, 0), Cause::Recovery)?.is_some_and(|oob| oob.kind == Kind::Bad) {
                self.retire(block);
            }
        }
        Ok(())
    }

    /// While mounting: blocks that hold nothing that counts are erased, so that nothing in them ever counts again.
    ///
    /// # Errors
    /// The medium's.
    pub fn erase_unneeded<F: Flash>(&mut self, flash: &mut F, found: &Holdings) -> Result<(), Error<F::Fault>> {
        let used = found.blocks_in_use(self.blocks.geometry());
        for block in (0..used.len() as u32).map(Block) {
            if !used[block.index()] && found.census.blocks[block.index()].is_some() {
                self.erase_free(flash, block)?;
            }
        }
        Ok(())
    }

    /// While mounting: takes over what each block is. It is in use if it holds the copy of a page that counts; which of
    /// its pages are live is the caller's to say, and no policy ever sees it. All others are erased before their first
    /// use.
    pub fn adopt(&mut self, found: &Holdings) {
        let g = *self.blocks.geometry();
        let used = found.blocks_in_use(&g);
        found.census.bad.iter().for_each(|&block| self.retire(block));
        let bad: Vec<bool> = (0..g.block_count()).map(|block| self.blocks.is_bad(Block(block))).collect();
        self.blocks.found(|block| match used[block.index()] {
            _ if bad[block.index()] => FoundState::Bad,
            true => FoundState::InUse,
            false => FoundState::Empty,
        });
        self.blocks.suspect_free();
        self.program = found.census.next_program();
        (0..g.block_count()).map(Block).filter(|block| used[block.index()] && !bad[block.index()]).for_each(|block| {
            self.blocks.begin_collecting(block);
        });
    }

    /// The number of the next program.
    #[inline(always)]
    pub fn number(&mut self) -> u64 {
        self.program += 1;
        self.program - 1
    }

    /// Blocks that are free.
    #[inline(always)]
    pub fn free(&self) -> u32 {
        self.blocks.free_total()
    }

    /// Erases a free block, or one that nobody has yet. False if that failed, and it is marked bad.
    fn erase_free<F: Flash>(&mut self, flash: &mut F, block: Block) -> Result<bool, Error<F::Fault>> {
        match flash.erase(block, Cause::Recovery) {
            Ok(()) => {
                self.blocks.count_erase(block);
                self.note_erase(block, Cause::Recovery);
                Ok(true)
            }
            Err(fault) if fault.kind() == FaultKind::EraseFailed => self.mark_bad(flash, block).map(|()| false),
            Err(fault) => Err(fault.into()),
        }
    }

    /// Takes the block that [`Pool::take_next`] named, or a free block of the die with the most of them; among equals
    /// the dies take turns.
    ///
    /// # Errors
    /// Full, or the medium's.
    pub fn take<F: Flash>(&mut self, flash: &mut F) -> Result<Block, Error<F::Fault>> {
        if let Some((block, suspect)) = self.next.take().and_then(|next| self.blocks.open_block(next)) {
            self.blocks.discard_open(block);
            if !suspect || self.erase_free(flash, block)? {
                return Ok(block);
            }
        }
        loop {
            let dies = self.blocks.geometry().die_count();
            let after = |die: u32| (die + dies - self.turn) % dies;
            let richest = (0..dies).max_by_key(|&die| (self.blocks.free_in(die as usize), dies - after(die)));
            let die = richest.expect("a device has a die");
            let (block, suspect) = self.blocks.open_blank(die as usize).ok_or(Error::Full)?;
            self.turn = (die + 1) % dies;
            if !suspect || self.erase_free(flash, block)? {
                return Ok(block);
            }
        }
    }

    /// The next block to be taken is to be this one, if it is free; `None` forgets it.
    pub fn take_next(&mut self, block: Option<Block>) {
        self.next = block;
    }

    /// A program of a block failed: once it holds nothing it is marked bad.
    pub fn fail(&mut self, block: Block) {
        if !self.failed.contains(&block) {
            self.failed.push(block);
        }
    }

    /// A block that holds nothing needed is erased and free, or marked bad if it failed a program.
    ///
    /// # Errors
    /// The medium's.
    pub fn dispose<F: Flash>(&mut self, flash: &mut F, block: Block, cause: Cause) -> Result<(), Error<F::Fault>> {
        debug_assert_eq!(self.blocks.live_of(block), 0, "block {block} holds live pages");
        if let Some(place) = self.failed.iter().position(|&failed| failed == block) {
            self.mark_bad(flash, block)?;
            self.failed.remove(place);
            return Ok(());
        }
        match flash.erase(block, cause) {
            Ok(()) => {
                self.blocks.erased(block);
                self.note_erase(block, cause);
                Ok(())
            }
            Err(fault) if fault.kind() == FaultKind::EraseFailed => self.mark_bad(flash, block),
            Err(fault) => Err(fault.into()),
        }
    }

    fn mark_bad<F: Flash>(&mut self, flash: &mut F, block: Block) -> Result<(), Error<F::Fault>> {
        let mark = Oob { kind: Kind::Bad, mode: Mode::Normal, address: 0, version: 0, program: 0, mark: 0 };
        flash.program(flash.geometry().page(block, 0), mark, flash::Payload::None, Cause::Metadata)?;
        self.retire(block);
        Ok(())
    }

    fn retire(&mut self, block: Block) {
        self.blocks.retire(block);
        self.wear.retired(block, self.blocks.erase_counts()[block.index()]);
    }

    fn note_erase(&mut self, block: Block, cause: Cause) {
        self.wear.erased(block, self.blocks.erase_counts()[block.index()], cause);
    }

    /// Whether wear levelling is to be asked what it wants: [`Pool::cold_among`].
    #[inline(always)]
    pub fn is_levelling_due(&self) -> bool {
        self.wear.is_due()
    }

    /// The block that wear levelling wants moved, if there is one among those that the caller can move. It holds live
    /// pages.
    pub fn cold_among(&mut self, movable: impl Fn(Block) -> bool) -> Option<Task> {
        let (blocks, failed) = (&self.blocks, &self.failed);
        self.wear.task(|block| blocks.live_of(block) > 0 && !failed.contains(&block) && movable(block))
    }

    /// Whether the block that it is to go to can be had, if it is to go to a certain one.
    pub fn has_target(&self, task: &Task) -> bool {
        task.worn.is_none_or(|worn| self.blocks.is_free(worn))
    }

    /// Controller RAM, bytes.
    pub fn memory(&self) -> Vec<(&'static str, u64)> {
        let mut out = Vec::from(self.blocks.memory());
        out.push(("program number and failed blocks", 8 + 4 + 4 + self.failed.len() as u64 * 4));
        if self.wear.mode() != WearMode::Off {
            out.push(("wear levelling", self.wear.memory()));
        }
        out
    }

    /// Saves the state.
    pub fn save(&self, out: &mut Saver) {
        self.blocks.save(out);
        out.u64(self.program);
        out.u32(self.turn);
        out.u32(self.failed.len() as u32);
        self.failed.iter().for_each(|block| out.u32(block.0));
        self.wear.save(out);
    }

    /// Loads what [`Pool::save`] saved.
    pub fn load(g: Geometry, settings: &Settings, from: &mut Loader<'_>) -> Pool {
        let blocks = Blocks::load(g, order_of(settings), has_ages(settings), from);
        let (program, turn) = (from.u64(), from.u32());
        let failed = (0..from.u32()).map(|_| Block(from.u32())).collect();
        let mut wear = Wear::new(settings, g.block_count());
        wear.load(blocks.erase_counts(), |block| blocks.is_bad(block), from);
        Pool { blocks, program, turn, failed, wear, next: None }
    }
}

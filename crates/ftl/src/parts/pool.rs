//! Blocks that are taken whole and given back whole: for schemes that fill many blocks at a time, each with pages that
//! belong together.
//!
//! The pool hands out free blocks, numbers programs, and ends blocks: by an erase, or by a bad-block mark if a program
//! of theirs failed. What is mounted is *sealed*: an erase that was cut short may have left a block that reads as
//! before and does not take a program, so pages that were blank when power came back stay blank until the next erase.

use crate::parts::blocks::{Blocks, FoundState, FreeOrder};
use crate::parts::holdings::Holdings;
use crate::{Error, Loader, Saver};
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
}

impl Pool {
    /// All blocks free.
    pub fn new(g: Geometry) -> Pool {
        Pool { blocks: Blocks::new(g, FreeOrder::Fifo, false), program: 1, turn: 0, failed: Vec::new() }
    }

    /// Takes factory-bad blocks out of service on a fresh device.
    ///
    /// # Errors
    /// The medium's.
    pub fn exclude_bad<F: Flash>(&mut self, flash: &mut F) -> Result<(), Error<F::Fault>> {
        let g = *flash.geometry();
        for block in (0..g.block_count()).map(Block) {
            if flash.read_oob(g.page(block, 0), Cause::Recovery)?.is_some_and(|oob| oob.kind == Kind::Bad) {
                self.blocks.retire(block);
            }
        }
        Ok(())
    }

    /// While mounting: what is free and what is not. A block is in use if it holds the copy of a page that counts, and
    /// these are revived if `revive` says so. Blocks that hold nothing of the sort are erased at once, so that nothing
    /// in them ever counts again; those that look blank are erased before their first use.
    ///
    /// # Errors
    /// The medium's.
    pub fn adopt<F: Flash>(&mut self, flash: &mut F, found: &Holdings) -> Result<(), Error<F::Fault>> {
        let g = *flash.geometry();
        let used = found.blocks_in_use(&g);
        self.blocks.found(|block| match used[block.index()] {
            _ if found.census.bad.contains(&block) => FoundState::Bad,
            true => FoundState::InUse,
            false => FoundState::Empty,
        });
        self.blocks.suspect_free();
        self.program = found.census.next_program();
        for block in (0..g.block_count()).map(Block) {
            if used[block.index()] {
                self.blocks.begin_collecting(block);
            } else if found.census.blocks[block.index()].is_some() {
                match flash.erase(block, Cause::Recovery) {
                    Ok(()) => self.blocks.count_erase(block),
                    Err(fault) if fault.kind() == FaultKind::EraseFailed => self.mark_bad(flash, block)?,
                    Err(fault) => return Err(fault.into()),
                }
            }
        }
        Ok(())
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

    /// Takes a free block, of the die with the most of them; among equals the dies take turns.
    ///
    /// # Errors
    /// Full, or the medium's.
    pub fn take<F: Flash>(&mut self, flash: &mut F) -> Result<Block, Error<F::Fault>> {
        loop {
            let dies = self.blocks.geometry().die_count();
            let after = |die: u32| (die + dies - self.turn) % dies;
            let richest = (0..dies).max_by_key(|&die| (self.blocks.free_in(die as usize), dies - after(die)));
            let die = richest.expect("a device has a die");
            let (block, suspect) = self.blocks.open_blank(die as usize).ok_or(Error::Full)?;
            self.turn = (die + 1) % dies;
            if suspect {
                match flash.erase(block, Cause::Recovery) {
                    Ok(()) => self.blocks.count_erase(block),
                    Err(fault) if fault.kind() == FaultKind::EraseFailed => {
                        self.mark_bad(flash, block)?;
                        continue;
                    }
                    Err(fault) => return Err(fault.into()),
                }
            }
            return Ok(block);
        }
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
                Ok(())
            }
            Err(fault) if fault.kind() == FaultKind::EraseFailed => self.mark_bad(flash, block),
            Err(fault) => Err(fault.into()),
        }
    }

    fn mark_bad<F: Flash>(&mut self, flash: &mut F, block: Block) -> Result<(), Error<F::Fault>> {
        let mark = Oob { kind: Kind::Bad, mode: Mode::Normal, address: 0, version: 0, program: 0, mark: 0 };
        flash.program(flash.geometry().page(block, 0), mark, flash::Payload::None, Cause::Metadata)?;
        self.blocks.retire(block);
        Ok(())
    }

    /// Controller RAM, bytes.
    pub fn memory(&self) -> Vec<(&'static str, u64)> {
        let mut out = Vec::from(self.blocks.memory());
        out.push(("program number and failed blocks", 8 + 4 + 4 + self.failed.len() as u64 * 4));
        out
    }

    /// Saves the state.
    pub fn save(&self, out: &mut Saver) {
        self.blocks.save(out);
        out.u64(self.program);
        out.u32(self.turn);
        out.u32(self.failed.len() as u32);
        self.failed.iter().for_each(|block| out.u32(block.0));
    }

    /// Loads what [`Pool::save`] saved.
    pub fn load(g: Geometry, from: &mut Loader<'_>) -> Pool {
        Pool::load_with(g, FreeOrder::Fifo, false, from)
    }

    /// The same, where free blocks are in another order, or ages are kept.
    pub fn load_with(g: Geometry, order: FreeOrder, ages: bool, from: &mut Loader<'_>) -> Pool {
        let blocks = Blocks::load(g, order, ages, from);
        let (program, turn) = (from.u64(), from.u32());
        Pool { blocks, program, turn, failed: (0..from.u32()).map(|_| Block(from.u32())).collect() }
    }
}

//! What a mount finds on flash.
//!
//! A census reads the spare area of every programmed page, up to the first blank one of each block, and settles three
//! questions that are the same for every page-mapped scheme (docs/recovery.md):
//!
//! 1. *Which pages are torn?* A page whose spare area is garbage says so. One with a sound spare area and bad data does
//!    not, so pages that may have been in flight are read whole: from the newest page of each die and class (data or
//!    translation), and from the end of each partly filled block, backwards until a sound one is met.
//! 2. *Which block does a lane go on with?* The newest of its die and class: a block whose erase was cut short never
//!    is, because schemes keep the newest block out of collection, also when it is full.
//! 3. *Which block is empty?* One whose first page is blank or garbage: the first page is torn only in a block that was
//!    just opened, or by an erase, after which nothing in the block is needed. Empty blocks are erased before use.

use crate::Error;
use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;
use flash::{Block, Cause, Die, Flash, Kind, Oob, Ppn};

/// One block as found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Found {
    /// Kind of its first page that reads.
    pub kind: Kind,
    /// Pages up to the first blank one.
    pub programmed: u32,
    /// Program number of its first readable page.
    pub first_program: u64,
    /// Program number of its last readable page.
    pub last_program: u64,
    /// Whether it is the newest of its die and class: its lane goes on with it.
    pub newest: bool,
}

/// See the module's description.
#[derive(Clone, Debug, Default)]
pub struct Census {
    /// Each block; `None` if it is empty or bad.
    pub blocks: Vec<Option<Found>>,
    /// Bad blocks.
    pub bad: Vec<Block>,
    /// Pages whose spare area is sound and whose data is not.
    pub spoiled: BTreeSet<Ppn>,
    /// Their spare areas.
    pub spoiled_oob: Vec<Oob>,
    /// The largest version seen.
    pub max_version: u64,
    /// The largest program number seen.
    pub max_program: u64,
    /// Programmed pages.
    pub pages: u64,
    /// Pages found torn, of either sort.
    pub torn: u64,
}

impl Census {
    /// Reads the device. `each` is handed every page with a sound spare area in order of block and page, those with bad
    /// data among them: drop what [`Census::spoiled`] names afterwards.
    ///
    /// # Errors
    /// The medium's.
    pub fn take<F: Flash>(flash: &mut F, mut each: impl FnMut(Ppn, Oob)) -> Result<Census, Error<F::Fault>> {
        let g = *flash.geometry();
        let mut census = Census { blocks: vec![None; g.block_count() as usize], ..Census::default() };
        for block in (0..g.block_count()).map(Block) {
            let mut found: Option<Found> = None;
            for offset in 0..g.pages_per_block {
                let ppn = g.page(block, offset);
                let Some(oob) = flash.read_oob(ppn, Cause::Recovery)? else { break };
                match (oob.kind, &mut found) {
                    (Kind::Bad, None) => {
                        census.bad.push(block);
                        break;
                    }
                    (Kind::Torn, None) => {
                        census.torn += 1;
                        break;
                    }
                    (Kind::Torn, Some(found)) => {
                        census.torn += 1;
                        found.programmed = offset + 1;
                        continue;
                    }
                    (_, Some(found)) => {
                        found.programmed = offset + 1;
                        found.last_program = oob.program;
                    }
                    (kind, none) => {
                        *none = Some(Found {
                            kind,
                            programmed: 1,
                            first_program: oob.program,
                            last_program: oob.program,
                            newest: false,
                        });
                    }
                }
                census.max_version = census.max_version.max(oob.version);
                census.max_program = census.max_program.max(oob.program);
                each(ppn, oob);
            }
            census.pages += found.map_or(0, |found| u64::from(found.programmed));
            census.blocks[block.index()] = found;
        }
        for die in (0..g.die_count()).map(Die) {
            census.examine(flash, die, true)?;
            census.examine(flash, die, false)?;
        }
        Ok(census)
    }

    /// Reads what may have been in flight among the translation (or other) blocks of a die, and finds the newest.
    fn examine<F: Flash>(&mut self, flash: &mut F, die: Die, translation: bool) -> Result<(), Error<F::Fault>> {
        let g = *flash.geometry();
        let mut newest: Vec<(u64, u32)> = g
            .blocks_of(die)
            .filter_map(|block| self.blocks[block as usize].map(|found| (found, block)))
            .filter(|(found, _)| (found.kind == Kind::Translation) == translation)
            .map(|(found, block)| (found.last_program, block))
            .collect();
        newest.sort_unstable_by(|a, b| b.cmp(a));
        if let Some(found) = newest.first().and_then(|&(_, block)| self.blocks[block as usize].as_mut()) {
            found.newest = true;
        }
        for &(_, block) in &newest {
            if self.read_back(flash, Block(block))? {
                break;
            }
        }
        for &(_, block) in &newest {
            if self.blocks[block as usize].is_some_and(|found| found.programmed < g.pages_per_block) {
                self.read_back(flash, Block(block))?;
            }
        }
        Ok(())
    }

    /// Reads whole pages from the end of a block backwards; true at the first sound one, false if there is none.
    fn read_back<F: Flash>(&mut self, flash: &mut F, block: Block) -> Result<bool, Error<F::Fault>> {
        let g = *flash.geometry();
        let programmed = self.blocks[block.index()].map_or(0, |found| found.programmed);
        for offset in (0..programmed).rev() {
            let ppn = g.page(block, offset);
            let Some(oob) = flash.read_oob(ppn, Cause::Recovery)? else { continue };
            if oob.kind == Kind::Torn || self.spoiled.contains(&ppn) {
                continue;
            }
            if flash.read(ppn, Cause::Recovery)?.0.kind != Kind::Torn {
                return Ok(true);
            }
            self.torn += 1;
            self.spoiled.insert(ppn);
            self.spoiled_oob.push(oob);
        }
        Ok(false)
    }
}

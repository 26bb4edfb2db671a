//! What a mount finds on flash.
//!
//! A census reads the spare area of every programmed page and settles three questions that are the same for every
//! scheme (docs/recovery.md):
//!
//! 1. *Which pages are torn?* A page whose spare area is garbage says so. One with a sound spare area and bad data does
//!    not. Such a page was the last one programmed in its block when power was cut, and stays what it was when the
//!    block is filled further. Every mount begins a new *epoch*, the upper bits of the program number, so that the
//!    candidates can be told for ever: in each block the page programmed last in each epoch. They are read whole, about
//!    one page in each block.
//! 2. *Which block does a lane go on with?* The newest of its die and class: a block whose erase was cut short never
//!    is, because schemes keep the newest block out of collection, also when it is full.
//! 3. *Which block is empty?* One whose first page is blank or garbage, or which has no sound page: the first page is
//!    torn only in a block that was just opened, or by an erase, after which nothing in the block is needed. Empty
//!    blocks are erased before use.
//!
//! Blocks are filled from their first page on, and read up to the first blank one. Where pages have places, and the
//! chip takes them in any order, blank pages lie between others: such blocks are read whole, and one that has no
//! readable page is empty.

use crate::Outcome;
use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use flash::{Block, Cause, Die, Flash, Geometry, Kind, Oob, Ppn};

/// Where the epoch begins in a program number: below it there is room for 10^12 programs between two mounts.
const EPOCH_SHIFT: u32 = 40;

fn epoch(program: u64) -> u64 {
    program >> EPOCH_SHIFT
}

/// One block as found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Found {
    /// Kind of its first page that reads.
    pub kind: Kind,
    /// Pages up to the last programmed one.
    pub programmed: u32,
    /// Sound pages that were written as data.
    pub data: u32,
    /// The smallest program number of its readable pages.
    pub first_program: u64,
    /// The largest.
    pub last_program: u64,
    /// Whether every programmed page has a sound spare area: then all of them are of one life of the
    /// block, which began with [`Found::first_program`].
    pub whole: bool,
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
    /// Reads the device. `each` is handed the sound pages of each block, in order; the translation blocks come first,
    /// so that whoever keeps a map on flash knows the watermarks when the data pages come.
    ///
    /// # Errors
    /// The medium's.
    pub fn take<F: Flash>(flash: &mut F, each: impl FnMut(&[(Ppn, Oob)])) -> Outcome<F, Census> {
        Census::scan(flash, true, each)
    }

    /// As [`Census::take`]; blocks are filled from their first page on if they are `in_order`.
    ///
    /// # Errors
    /// The medium's.
    pub fn scan<F: Flash>(flash: &mut F, in_order: bool, mut each: impl FnMut(&[(Ppn, Oob)])) -> Outcome<F, Census> {
        let g = *flash.geometry();
        let mut census = Census { blocks: vec![None; g.block_count() as usize], ..Census::default() };
        let mut sound: Vec<(Ppn, Oob)> = Vec::with_capacity(g.pages_per_block as usize);
        let mut others: Vec<Block> = Vec::new();
        for block in (0..g.block_count()).map(Block) {
            match flash.read_oob(g.page(block, 0), Cause::Recovery)?.map(|oob| oob.kind) {
                Some(Kind::Bad) => census.bad.push(block),
                None if in_order => {}
                Some(Kind::Torn) if in_order => census.torn += 1,
                Some(Kind::Translation) => {
                    census.examine(flash, block, in_order, &mut sound)?;
                    each(&sound);
                }
                _ => others.push(block),
            }
        }
        for block in others {
            census.examine(flash, block, in_order, &mut sound)?;
            each(&sound);
        }
        for die in (0..g.die_count()).map(Die) {
            for translation in [false, true] {
                census.mark_newest(&g, die, translation);
            }
        }
        Ok(census)
    }

    /// Reads the spare areas of a block, and the suspects whole; `sound` is what is left.
    fn examine<F: Flash>(
        &mut self,
        flash: &mut F,
        block: Block,
        in_order: bool,
        sound: &mut Vec<(Ppn, Oob)>,
    ) -> Outcome<F> {
        let g = *flash.geometry();
        let mut found: Option<Found> = None;
        // In each epoch the page programmed last: it may have been in flight when power was cut.
        let mut suspects: Vec<(u64, Ppn)> = Vec::new();
        sound.clear();
        for offset in 0..g.pages_per_block {
            let ppn = g.page(block, offset);
            let Some(oob) = flash.read_oob(ppn, Cause::Recovery)? else { if in_order { break } else { continue } };
            let found = found.get_or_insert(Found {
                kind: oob.kind,
                programmed: 0,
                data: 0,
                first_program: u64::MAX,
                last_program: 0,
                whole: true,
                newest: false,
            });
            found.programmed = offset + 1;
            self.pages += 1;
            if oob.kind == Kind::Torn {
                self.torn += 1;
                found.whole = false;
                continue;
            }
            found.first_program = found.first_program.min(oob.program);
            found.last_program = found.last_program.max(oob.program);
            match suspects.iter_mut().rev().find(|(program, _)| epoch(*program) == epoch(oob.program)) {
                Some(last) => *last = (*last).max((oob.program, ppn)),
                None => suspects.push((oob.program, ppn)),
            }
            self.max_version = self.max_version.max(oob.version);
            self.max_program = self.max_program.max(oob.program);
            sound.push((ppn, oob));
        }
        let spoiled_before = self.spoiled.len();
        for (_, ppn) in suspects {
            if flash.read(ppn, Cause::Recovery)?.0.kind == Kind::Torn {
                self.torn += 1;
                self.spoiled.insert(ppn);
            }
        }
        if self.spoiled.len() > spoiled_before {
            sound.retain(|(ppn, _)| !self.spoiled.contains(ppn));
        }
        // Nothing in it is sound: no lane goes on with it. Its first page may read as garbage another time, and then
        // the block counts as empty, whatever was programmed behind that page meanwhile.
        if in_order && sound.is_empty() {
            found = None;
        }
        if let Some(found) = &mut found {
            found.data = sound.iter().filter(|(_, oob)| oob.kind == Kind::Data).count() as u32;
        }
        self.blocks[block.index()] = found;
        Ok(())
    }

    /// The first program number of the epoch that begins with this mount.
    pub fn next_program(&self) -> u64 {
        (epoch(self.max_program) + 1) << EPOCH_SHIFT
    }

    /// Marks the newest among the translation (or other) blocks of a die.
    fn mark_newest(&mut self, g: &Geometry, die: Die, translation: bool) {
        let age = |block: u32| {
            let found = self.blocks[block as usize].filter(|found| (found.kind == Kind::Translation) == translation)?;
            Some((found.last_program, block))
        };
        if let Some((_, block)) = g.blocks_of(die).filter_map(age).max()
            && let Some(found) = &mut self.blocks[block as usize]
        {
            found.newest = true;
        }
    }

    /// The newest block among those in use in a range, translation blocks aside.
    pub fn newest_of(&self, range: Range<u32>) -> Option<Block> {
        let found = |block: u32| self.blocks[block as usize].filter(|found| found.kind != Kind::Translation);
        range.filter(|&block| found(block).is_some_and(|found| found.newest)).map(Block).next()
    }

    /// Whether a page that a translation page with this watermark points at holds that LPN.
    ///
    /// Only a block that was erased since can hold something else there. If its present life began before the watermark
    /// it is the life in which the entry was right, and the spare area need not be read: at the watermark every entry
    /// was right, and later ones name pages programmed later still. That the life began so early is known if no page of
    /// the block is torn; a block whose erase was cut short may read as old where nothing of the page is left.
    ///
    /// # Errors
    /// The medium's.
    pub fn holds<F: Flash>(&self, flash: &mut F, ppn: Ppn, lpn: u32, watermark: u64) -> Outcome<F, bool> {
        let g = *flash.geometry();
        let Some(found) = self.blocks[g.block_of(ppn).index()] else { return Ok(false) };
        if g.offset_of(ppn) >= found.programmed || self.spoiled.contains(&ppn) {
            return Ok(false);
        }
        if found.whole && found.kind == Kind::Data && found.first_program < watermark {
            return Ok(true);
        }
        let oob = flash.read_oob(ppn, Cause::Recovery)?;
        Ok(oob.is_some_and(|oob| oob.kind == Kind::Data && oob.address == lpn))
    }

    /// Forgets a block: it is about to be erased. The next newest of its die and class takes its place.
    pub fn drop_block(&mut self, block: Block, g: &Geometry) {
        let Some(dropped) = self.blocks[block.index()].take() else { return };
        self.spoiled.retain(|&ppn| g.block_of(ppn) != block);
        if dropped.newest {
            self.mark_newest(g, g.die_of(block), dropped.kind == Kind::Translation);
        }
    }
}

//! Mounting: the block map and the log area from spare areas alone.
//!
//! One rule serves the whole family, for it asks what a block holds and not what it was meant to be. Of every logical
//! page the newest version counts, of equal ones that which was programmed last. A block whose live pages are all in
//! their own places in one logical block can be its data block; whatever else holds live pages is a log block, and one
//! that holds none is free. Four points make this safe at any cut:
//!
//! *A copy that was not finished is undone.* A block that holds nothing but copies is dropped (`parts/copies.rs`):
//! merges, swaps and moves copy into one block at a time, and erase nothing before it is complete. Without such blocks
//! no more blocks are in use than before the merge began.
//!
//! *A page may look sound and hold bad data*: the last one programmed before the cut, of each die. Every mount begins a
//! new epoch of program numbers, so the last page of each epoch and die can be told for ever, and is read whole.
//!
//! *A block whose erase was cut short may look as it did before.* Nothing in it is needed, but a page programmed into
//! it would not hold. So blocks found in use are sealed: their blank pages are not used until they are erased. Free
//! blocks are erased before their first use.
//!
//! *There may be one log block more than the area has*: the target of a write of an entire block. The surplus is
//! cleaned before the host is served; the blocks kept free are enough for that.

use super::core::Core;
use super::log::Slot;
use super::placement::{Held, Placement};
use crate::parts::census::{Census, EPOCH_SHIFT, Found};
use crate::parts::copies::Copies;
use crate::parts::holdings::Holdings;
use crate::{Error, MountReport};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;
use flash::{Block, Cause, Flash, Kind, Lpn, Ppn};

/// What is found where pages lie in their places.
///
/// # Errors
/// The medium's.
pub(super) fn survey<F: Flash>(flash: &mut F, logical_pages: u32) -> Result<Holdings, Error<F::Fault>> {
    let mut spoiled = BTreeSet::new();
    loop {
        let (mut found, last) = pass(flash, logical_pages, &spoiled)?;
        let before = spoiled.len();
        for &(_, ppn) in last.values() {
            if flash.read(ppn, Cause::Recovery)?.0.kind == Kind::Torn {
                spoiled.insert(ppn);
            }
        }
        if spoiled.len() == before {
            found.census.spoiled = spoiled;
            return Ok(found);
        }
    }
}

type Last = BTreeMap<(u64, u32), (u64, Ppn)>;

/// One look at every spare area: what is found but for the spoiled pages, and the last page programmed in each epoch on
/// each die.
fn pass<F: Flash>(
    flash: &mut F,
    logical_pages: u32,
    spoiled: &BTreeSet<Ppn>,
) -> Result<(Holdings, Last), Error<F::Fault>> {
    let g = *flash.geometry();
    let census = Census { blocks: vec![None; g.block_count() as usize], ..Census::default() };
    let copies = Copies::new(g, logical_pages as usize);
    let mut found = Holdings { census, copies, logical_pages };
    let mut last = Last::new();
    for block in (0..g.block_count()).map(Block) {
        for offset in 0..g.pages_per_block {
            let ppn = g.page(block, offset);
            let Some(oob) = flash.read_oob(ppn, Cause::Recovery)? else {
                // In program order nothing needed lies behind a blank page.
                if g.order == flash::ProgramOrder::Strict { break } else { continue }
            };
            let census = &mut found.census;
            if oob.kind == Kind::Bad && offset == 0 {
                census.bad.push(block);
                break;
            }
            census.pages += 1;
            if oob.kind != Kind::Torn {
                // A page whose data is bad counts too: the next epoch is to lie beyond it, or it would not be the last
                // one of its own any more.
                census.max_version = census.max_version.max(oob.version);
                census.max_program = census.max_program.max(oob.program);
            }
            if oob.kind == Kind::Torn || spoiled.contains(&ppn) {
                census.torn += 1;
                continue;
            }
            let of_block = census.blocks[block.index()].get_or_insert(Found {
                kind: oob.kind,
                programmed: 0,
                data: 0,
                first_program: oob.program,
                last_program: oob.program,
                whole: true,
                newest: false,
            });
            of_block.first_program = of_block.first_program.min(oob.program);
            of_block.data += u32::from(oob.kind == Kind::Data);
            let last = last.entry((oob.program >> EPOCH_SHIFT, g.die_of(block).0)).or_default();
            *last = (*last).max((oob.program, ppn));
            if matches!(oob.kind, Kind::Data | Kind::Log | Kind::Trim) {
                found.copies.consider(oob.address as usize, ppn, &oob);
            }
        }
    }
    Ok((found, last))
}

impl<P: Placement> Core<P> {
    /// Takes over what flash holds. The log blocks found are closed, in the order in which they were begun.
    ///
    /// # Errors
    /// The medium's.
    pub fn adopt<F: Flash>(&mut self, flash: &mut F) -> Result<MountReport, Error<F::Fault>> {
        let g = self.g;
        let mut found = P::survey(flash, self.logical_pages())?;
        for block in found.settle() {
            found.copies.give_up(block);
        }
        if P::APPENDS {
            self.pool.erase_unneeded(flash, &found)?;
        }
        self.pool.adopt(&found);
        self.version = found.census.max_version;
        let mut held = Held::new();
        for (lpn, ppn) in found.pages() {
            held.entry(g.block_of(ppn).0).or_default().push((lpn, ppn));
        }
        held.keys().for_each(|&block| self.written.fill(Block(block), true));
        for (lbn, block) in P::data_blocks(self, flash, &found, &held)? {
            self.data[lbn as usize] = block;
            for (lpn, _) in held.remove(&block).into_iter().flatten() {
                self.pool.blocks.revive(g.page(Block(block), self.split(lpn).1));
            }
        }
        // What is left are log blocks.
        let begun = |block: u32| found.census.blocks[block as usize].map_or(0, |found| found.first_program);
        let mut logs: Vec<(u32, Vec<(Lpn, Ppn)>)> = held.into_iter().collect();
        logs.sort_by_key(|&(block, _)| begun(block));
        let mut slots: Vec<Slot> = Vec::with_capacity(logs.len());
        for (block, pages) in logs {
            let slot = self.add_log_block(Block(block));
            for (lpn, ppn) in pages {
                self.slots.put(slot, g.offset_of(ppn), lpn);
                self.pool.blocks.revive(ppn);
            }
            slots.push(slot);
        }
        self.map_log_pages();
        for (younger, &slot) in slots.iter().rev().enumerate() {
            if let Some(scores) = &mut self.scores {
                // About as many log blocks were erased since as were begun.
                scores.set_age(slot, younger as u64);
            }
            self.close(slot);
        }
        self.score_all();
        Ok(found.report())
    }
}

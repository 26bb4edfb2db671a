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
use super::log::{NONE, Slot};
use crate::parts::blocks::FoundState;
use crate::parts::copies::Copies;
use crate::{Error, MountReport};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;
use flash::{Block, Cause, Flash, Kind, Ppn};

/// Where the epoch begins in a program number.
const EPOCH_SHIFT: u32 = 40;

struct Survey {
    copies: Copies,
    bad: Vec<bool>,
    /// Program number of the first page of each block that reads; 0 if there is none.
    begun: Vec<u64>,
    /// Pages of each block that were written as data.
    data: Vec<u32>,
    /// The last page programmed in each epoch on each die.
    last: BTreeMap<(u64, u32), (u64, Ppn)>,
    max_version: u64,
    max_program: u64,
    report: MountReport,
}

fn survey<F: Flash>(flash: &mut F, logical_pages: u32, spoiled: &BTreeSet<Ppn>) -> Result<Survey, Error<F::Fault>> {
    let g = *flash.geometry();
    let blocks = g.block_count() as usize;
    let mut found = Survey {
        copies: Copies::new(g, logical_pages as usize),
        bad: vec![false; blocks],
        begun: vec![0; blocks],
        data: vec![0; blocks],
        last: BTreeMap::new(),
        max_version: 0,
        max_program: 0,
        report: MountReport::default(),
    };
    for block in (0..g.block_count()).map(Block) {
        for offset in 0..g.pages_per_block {
            let ppn = g.page(block, offset);
            let Some(oob) = flash.read_oob(ppn, Cause::Recovery)? else {
                // In program order nothing needed lies behind a blank page.
                if g.order == flash::ProgramOrder::Strict { break } else { continue }
            };
            if oob.kind == Kind::Bad && offset == 0 {
                found.bad[block.index()] = true;
                found.report.bad_blocks += 1;
                break;
            }
            found.report.pages += 1;
            if oob.kind != Kind::Torn {
                // A page whose data is bad counts too: the next epoch is to lie beyond it, or it would not be the last
                // one of its own any more.
                found.max_version = found.max_version.max(oob.version);
                found.max_program = found.max_program.max(oob.program);
            }
            if oob.kind == Kind::Torn || spoiled.contains(&ppn) {
                found.report.torn += 1;
                continue;
            }
            let begun = &mut found.begun[block.index()];
            *begun = if *begun == 0 { oob.program } else { (*begun).min(oob.program) };
            found.data[block.index()] += u32::from(oob.kind == Kind::Data);
            let last = found.last.entry((oob.program >> EPOCH_SHIFT, g.die_of(block).0)).or_default();
            *last = (*last).max((oob.program, ppn));
            let holds = matches!(oob.kind, Kind::Data | Kind::Log | Kind::Trim);
            if holds {
                found.copies.consider(oob.address as usize, ppn, &oob);
            }
        }
    }
    Ok(found)
}

/// What became of a block.
struct Role {
    /// The logical block whose data block it can be.
    lbn: u32,
    live: u32,
}

impl Core {
    /// Takes over what flash holds. The log blocks found are closed, in the order in which they were begun.
    ///
    /// # Errors
    /// The medium's.
    pub fn adopt<F: Flash>(&mut self, flash: &mut F) -> Result<MountReport, Error<F::Fault>> {
        let g = self.g;
        let mut spoiled = BTreeSet::new();
        let mut found = loop {
            let found = survey(flash, self.logical_pages(), &spoiled)?;
            let before = spoiled.len();
            for &(_, ppn) in found.last.values() {
                if flash.read(ppn, Cause::Recovery)?.0.kind == Kind::Torn {
                    spoiled.insert(ppn);
                }
            }
            if spoiled.len() == before {
                break found;
            }
        };
        for block in found.copies.settle(|block| found.begun[block.index()]) {
            found.copies.give_up(block);
        }
        self.version = found.max_version;

        let mut roles: BTreeMap<u32, Role> = BTreeMap::new();
        let mut at: Vec<(u32, u32)> = Vec::new();
        for (lpn, ppn) in found.copies.pages() {
            let lbn = lpn / self.p();
            let own = lpn % self.p() == g.offset_of(ppn);
            let role = roles.entry(g.block_of(ppn).0).or_insert(Role { lbn, live: 0 });
            role.live += 1;
            if role.lbn != lbn || !own {
                role.lbn = NONE;
            }
            at.push((ppn.0, lpn));
        }
        let next_program = ((found.max_program >> EPOCH_SHIFT) + 1) << EPOCH_SHIFT;
        self.pool.resume(next_program, |block| match (found.bad[block.index()], roles.contains_key(&block.0)) {
            (true, _) => FoundState::Bad,
            (false, true) => FoundState::InUse,
            (false, false) => FoundState::Empty,
        });
        roles.keys().for_each(|&block| self.written.fill(Block(block), true));
        at.iter().for_each(|&(ppn, _)| self.pool.blocks.revive(Ppn(ppn)));

        // The data block of a logical block: what was written as one, with the most live pages.
        let mut chosen: BTreeMap<u32, (u32, u32, u32)> = BTreeMap::new();
        for (&block, role) in roles.iter().filter(|(_, role)| role.lbn != NONE) {
            let rank = (found.data[block as usize], role.live, block);
            let best = chosen.entry(role.lbn).or_insert(rank);
            *best = (*best).max(rank);
        }
        for (&lbn, &(_, _, block)) in &chosen {
            self.data[lbn as usize] = block;
        }
        let is_data = |block: u32| chosen.get(&roles[&block].lbn).is_some_and(|&(_, _, best)| best == block);
        let mut logs: Vec<u32> = roles.keys().copied().filter(|&block| !is_data(block)).collect();
        logs.sort_by_key(|&block| found.begun[block as usize]);
        for &block in &logs {
            self.add_log_block(Block(block));
        }
        for (ppn, lpn) in at {
            if let Some(slot) = self.slots.of(g.block_of(Ppn(ppn))) {
                self.slots.put(slot, g.offset_of(Ppn(ppn)), flash::Lpn(lpn));
            }
        }
        self.map_log_pages();
        let slots: Vec<Slot> = logs.iter().filter_map(|&block| self.slots.of(Block(block))).collect();
        for (younger, &slot) in slots.iter().rev().enumerate() {
            if let Some(scores) = &mut self.scores {
                // About as many log blocks were erased since as were begun.
                scores.set_age(slot, younger as u64);
            }
            self.close(slot);
        }
        self.score_all();
        Ok(found.report)
    }
}

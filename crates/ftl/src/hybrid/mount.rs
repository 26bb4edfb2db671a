//! Mounting: the block map and the log area from spare areas alone.
//!
//! One rule serves the whole family, for it asks what a block holds and not what it was meant to be. Of every logical
//! page the newest version counts, of equal ones that which was programmed last. A block whose live pages are all in
//! their own places in one logical block can be its data block; whatever else holds live pages is a log block, and one
//! that holds none is free. Four points make this safe at any cut:
//!
//! *A copy that was not finished is undone.* Merges, swaps and moves copy into one block at a time, and erase nothing
//! before it is complete. A block is dropped if everything that counts in it exists in the same version in blocks that
//! hold something else as well: the target of a merge that was cut short, or what is left of one that was dropped
//! before and whose erase was cut. Without such blocks no more blocks are in use than before the merge began.
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
use crate::{Error, MountReport};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;
use flash::{Block, Cause, Flash, Kind, Oob, Ppn};

/// Where the epoch begins in a program number.
const EPOCH_SHIFT: u32 = 40;

/// The newest copy of a logical page, and where the same version lies too.
#[derive(Clone, Copy)]
struct Best {
    version: u64,
    program: u64,
    ppn: u32,
    /// The one of the same version that was programmed first, if there are two.
    twin_program: u64,
    twin: u32,
}

const NOTHING: Best = Best { version: 0, program: 0, ppn: NONE, twin_program: 0, twin: NONE };

impl Best {
    fn consider(&mut self, ppn: Ppn, oob: &Oob) {
        if oob.version > self.version {
            *self = Best { version: oob.version, program: oob.program, ppn: ppn.0, ..NOTHING };
        } else if oob.version == self.version && self.ppn != NONE {
            let (mut first, mut last) = ((self.program, self.ppn), (oob.program, ppn.0));
            if last < first {
                (first, last) = (last, first);
            }
            if self.twin != NONE && self.twin_program < first.0 {
                first = (self.twin_program, self.twin);
            }
            (self.program, self.ppn) = last;
            (self.twin_program, self.twin) = first;
        }
    }
}

#[derive(Default)]
struct Survey {
    best: Vec<Best>,
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
        best: vec![NOTHING; logical_pages as usize],
        bad: vec![false; blocks],
        begun: vec![0; blocks],
        data: vec![0; blocks],
        ..Survey::default()
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
            if let Some(best) = found.best.get_mut(oob.address as usize).filter(|_| holds) {
                best.consider(ppn, &oob);
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
        drop_copies(&mut found, |ppn| g.block_of(ppn));
        self.version = found.max_version;
        self.set_program(((found.max_program >> EPOCH_SHIFT) + 1) << EPOCH_SHIFT);

        let mut roles: BTreeMap<u32, Role> = BTreeMap::new();
        let mut at: Vec<(u32, u32)> = Vec::new();
        for (lpn, best) in found.best.iter().enumerate().filter(|(_, best)| best.ppn != NONE) {
            let ppn = Ppn(best.ppn);
            let lbn = lpn as u32 / self.p();
            let own = lpn as u32 % self.p() == g.offset_of(ppn);
            let role = roles.entry(g.block_of(ppn).0).or_insert(Role { lbn, live: 0 });
            role.live += 1;
            if role.lbn != lbn || !own {
                role.lbn = NONE;
            }
            at.push((best.ppn, lpn as u32));
        }
        self.blocks.found(|block| match (found.bad[block.index()], roles.contains_key(&block.0)) {
            (true, _) => FoundState::Bad,
            (false, true) => FoundState::InUse,
            (false, false) => FoundState::Empty,
        });
        self.blocks.suspect_free();
        for block in (0..g.block_count()).map(Block).filter(|block| found.bad[block.index()]) {
            self.wear.retired(block, 0);
        }
        for &block in roles.keys() {
            self.blocks.begin_collecting(Block(block));
            self.written.fill(Block(block), true);
        }
        at.iter().for_each(|&(ppn, _)| self.blocks.revive(Ppn(ppn)));

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

/// Drops blocks that hold nothing but copies: everything that counts in one of them lies, in the same version, in a
/// block that holds something else that counts too. The newest blocks come first, for they are the copies.
fn drop_copies(found: &mut Survey, block_of: impl Fn(Ppn) -> Block) {
    let mut held: Vec<Vec<u32>> = vec![Vec::new(); found.begun.len()];
    for (lpn, best) in found.best.iter().enumerate().filter(|(_, best)| best.ppn != NONE) {
        held[block_of(Ppn(best.ppn)).index()].push(lpn as u32);
    }
    let mut blocks: Vec<usize> = (0..held.len()).filter(|&block| !held[block].is_empty()).collect();
    blocks.sort_by_key(|&block| core::cmp::Reverse(found.begun[block]));
    for block in blocks {
        let elsewhere = |&lpn: &u32| {
            let twin = found.best[lpn as usize].twin;
            twin != NONE && block_of(Ppn(twin)).index() != block && !held[block_of(Ppn(twin)).index()].is_empty()
        };
        if !held[block].iter().all(elsewhere) {
            continue;
        }
        for lpn in core::mem::take(&mut held[block]) {
            let best = &mut found.best[lpn as usize];
            (best.ppn, best.program, best.twin) = (best.twin, best.twin_program, NONE);
            held[block_of(Ppn(best.ppn)).index()].push(lpn);
        }
    }
}

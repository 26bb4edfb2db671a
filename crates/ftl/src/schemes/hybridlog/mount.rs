//! Mounting: which blocks are data blocks and which are log blocks, from spare areas alone. The essay of
//! `schemes/hybridlog.rs` says why any such choice is right.

use super::{Filled, HOLE_IN_DATA, HybridLog};
use crate::parts::holdings::Holdings;
use crate::{Error, MountReport};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use flash::{Block, Cause, Flash, Kind, Lpn, Ppn};

impl HybridLog {
    /// Whether a block was written as data, told by one of its pages.
    fn is_data<F: Flash>(flash: &mut F, ppn: Ppn) -> Result<bool, Error<F::Fault>> {
        Ok(match flash.read_oob(ppn, Cause::Recovery)?.map(|oob| oob.kind) {
            Some(Kind::Trim) => flash.read(ppn, Cause::Recovery)?.1.meta()[0] == HOLE_IN_DATA,
            kind => kind == Some(Kind::Data),
        })
    }

    /// The newest page of a block that can be a data block: the last one that is whole. `None` if a torn page lies
    /// below it, as an erase that was cut short leaves them: it may have held a part of the map that is needed, though
    /// none of the pages that are.
    fn head<F: Flash>(flash: &mut F, found: &Holdings, block: Block) -> Result<Option<u32>, Error<F::Fault>> {
        let g = *flash.geometry();
        let Some(seen) = found.census.blocks[block.index()] else { return Ok(None) };
        let mut head = None;
        for page in (0..seen.programmed).rev() {
            let ppn = g.page(block, page);
            if flash.read_oob(ppn, Cause::Recovery)?.is_some_and(|oob| oob.kind == Kind::Torn) {
                if head.is_some() {
                    return Ok(None);
                }
            } else if head.is_none() && !found.census.spoiled.contains(&ppn) {
                head = Some(page);
            }
            if seen.whole && head.is_some() {
                break;
            }
        }
        Ok(head)
    }

    pub(super) fn mount_on<F: Flash>(mut self, flash: &mut F) -> Result<(Self, MountReport), Error<F::Fault>> {
        let g = self.g;
        let mut found = Holdings::take(flash, self.log_map.len() as u32, 0)?;
        for block in found.settle() {
            found.copies.give_up(block);
        }
        self.pool.adopt(flash, &found)?;
        self.version = found.census.max_version;
        let mut pages: BTreeMap<u32, Vec<(Lpn, Ppn)>> = BTreeMap::new();
        for (lpn, ppn) in found.pages() {
            pages.entry(g.block_of(ppn).0).or_default().push((lpn, ppn));
        }
        // The data block of a logical block: of those written as such and whole, that with the most pages that count.
        let mut chosen: BTreeMap<u32, (usize, u32)> = BTreeMap::new();
        let mut heads: BTreeMap<u32, u32> = BTreeMap::new();
        for (&block, held) in &pages {
            if Self::is_data(flash, held[0].1)?
                && let Some(head) = Self::head(flash, &found, Block(block))?
            {
                heads.insert(block, head);
                let best = chosen.entry(self.split(held[0].0).0).or_insert((0, 0));
                *best = (*best).max((held.len(), block));
            }
        }
        for (&lbn, &(_, block)) in &chosen {
            self.data[lbn as usize] = block;
            self.filled[lbn as usize] = Filled { next: g.pages_per_block as u16, head: heads[&block] as u16 };
            for &(lpn, _) in &pages[&block] {
                let (_, offset) = self.split(lpn);
                self.pool.blocks.revive(g.page(Block(block), offset));
            }
        }
        let is_chosen = |block: u32, held: &[(Lpn, Ppn)]| {
            chosen.get(&self.split(held[0].0).0).is_some_and(|&(_, chosen)| chosen == block)
        };
        let mut logs: Vec<u32> =
            pages.iter().filter(|(block, held)| !is_chosen(**block, held)).map(|(b, _)| *b).collect();
        logs.sort_by_key(|&block| found.census.blocks[block as usize].map_or(0, |found| found.first_program));
        let slots: Vec<_> = logs.iter().map(|&block| self.add_log_block(Block(block))).collect();
        for (&block, &slot) in logs.iter().zip(&slots) {
            for &(lpn, ppn) in &pages[&block] {
                self.slots.put(slot, g.offset_of(ppn), lpn);
                self.pool.blocks.revive(ppn);
                self.log_map[lpn.index()] = ppn.0;
                let (lbn, _) = self.split(lpn);
                self.logged[lbn as usize] += 1;
            }
        }
        for (younger, &slot) in slots.iter().rev().enumerate() {
            if let Some(scores) = &mut self.scores {
                // About as many log blocks were erased since as were begun.
                scores.set_age(slot, younger as u64);
            }
            self.close(slot);
        }
        (0..self.data.len() as u32).for_each(|lbn| self.add_terms(lbn, 1));
        while self.slots.in_use() > self.log_limit() {
            let Some(victim) = self.pick() else { break };
            match self.clean(flash, victim) {
                // The device can still be read, and says that it is full when it is written.
                Err(Error::Full) => break,
                cleaned => cleaned?,
            }
        }
        Ok((self, found.report()))
    }
}

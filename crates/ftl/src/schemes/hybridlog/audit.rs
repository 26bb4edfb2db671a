//! Invariants, checked against the flash: where every page lies, what counts and what is counted, and the scores.

use super::HybridLog;
use crate::hybrid::log::NONE;
use crate::parts::spare_map::{BlockMap, NULL};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use flash::{Block, Cause, Flash, Kind, Lpn, Oob};

impl HybridLog {
    /// The first invariant that does not hold.
    pub(super) fn check<F: Flash>(&self, flash: &mut F) -> Result<(), String> {
        let layout = *self.cache.layout();
        let mut expected = vec![0; self.g.block_count() as usize];
        let mut in_log = vec![0; self.data.len()];
        for lbn in 0..self.data.len() as u32 {
            let mut map = BlockMap::unknown(&layout);
            let head = self.filled[lbn as usize].head;
            let block = self.data_block(lbn);
            if let Some(block) = block.filter(|_| self.log_style) {
                let ppn_of = |place: u16| self.g.page(block, place.into());
                let fetched = map.fetch_all(&layout, flash, head, ppn_of, Cause::Recovery);
                fetched.map_err(|fault| format!("{fault:?}"))?;
            }
            for lpn in self.lpns(lbn).map(Lpn) {
                let (_, offset) = self.split(lpn);
                let cached = self.cache.get(lbn).filter(|cached| cached.has(&layout, offset));
                if cached.is_some_and(|cached| cached.at(offset) != map.at(offset)) {
                    return Err(format!("the cached map of LPN {lpn} is not what its spare areas say"));
                }
                let entire = self.in_entire(lbn, offset);
                let place = if self.log_style { map.at(offset) } else { offset as u16 };
                let listed = block.filter(|_| place != NULL).map(|block| self.g.page(block, place.into()));
                let in_data = entire.or(listed.filter(|_| self.log_style || self.live_bit(lpn).is_some()));
                let logged = self.in_log(lpn);
                let counts = in_data.is_some() && logged.is_none() && !self.discarded.contains(&lpn.0);
                if counts != self.live_bit(lpn).is_some() {
                    return Err(format!("LPN {lpn} counts in a data block or not, and its bit says the contrary"));
                }
                if let Some(bit) = self.live_bit(lpn) {
                    expected[self.g.block_of(bit).index()] += 1;
                }
                let Some(ppn) = logged.or(in_data) else { continue };
                let oob = flash.read_oob(ppn, Cause::Recovery).map_err(|fault| format!("{fault:?}"))?;
                let holds = |oob: Oob| oob.lpn() == lpn && matches!(oob.kind, Kind::Data | Kind::Log | Kind::Trim);
                if !oob.is_some_and(holds) {
                    return Err(format!("LPN {lpn} maps to page {ppn}, which holds {oob:?}"));
                }
                if logged.is_some() {
                    if !self.pool.blocks.is_live(ppn) {
                        return Err(format!("LPN {lpn} maps to page {ppn}, which is dead"));
                    }
                    expected[self.g.block_of(ppn).index()] += 1;
                    in_log[lbn as usize] += 1;
                }
            }
        }
        for (block, &live) in expected.iter().enumerate() {
            let counted = self.pool.blocks.live_of(Block(block as u32));
            if counted != live {
                return Err(format!("block {block} counts {counted} live pages, but {live} are mapped"));
            }
        }
        if in_log != self.logged {
            return Err("the log pages of a logical block are counted wrongly".into());
        }
        let data = self.data.iter().filter(|&&block| block != NONE).count() as u32;
        let held = self.slots.in_use() + self.techniques.blocks_held();
        let accounted = data + held + self.pool.free() + self.pool.blocks.bad_count();
        if accounted != self.g.block_count() {
            return Err(format!("{accounted} blocks are accounted for, and there are {}", self.g.block_count()));
        }
        match &self.scores {
            Some(scores) => scores.audit(&self.slots, |slot| {
                let merged = self.logical_blocks_in(slot).into_iter().map(|lbn| self.logged(lbn));
                merged.map(|of| scores.term(of.data, of.log)).sum()
            }),
            None => Ok(()),
        }
    }
}

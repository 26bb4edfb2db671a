//! What `simple` shows: RAM, counters, its state, and whether that is sound.

use super::{NONE, Simple};
use crate::parts::supply::audit_version;
use crate::{Inspect, Loader, Saver};
use alloc::{format, string::String, vec, vec::Vec};
use flash::{Block, Flash, Kind, Lpn, Ppn};

impl Simple {
    /// Loads what [`Inspect::save`] saved.
    pub(super) fn load(&mut self, bytes: &[u8]) {
        let mut from = Loader::new(bytes);
        self.map.iter_mut().for_each(|page| *page = from.u32());
        self.supply.blocks.load(&mut from);
        self.open = Some(from.u32()).filter(|&block| block != NONE).map(Block);
        self.next = from.u32();
        self.supply.doomed = (0..from.u32()).map(|_| Block(from.u32())).collect();
        (self.version, self.supply.program) = (from.u64(), from.u64());
        debug_assert!(from.is_done());
    }
}

impl<F: Flash> Inspect<F> for Simple {
    fn memory(&self) -> Vec<(&'static str, u64)> {
        let mut out = vec![("page map", self.map.len() as u64 * 4)];
        out.extend(self.supply.blocks.memory());
        out.push(("open block, counters and failed blocks", 28 + self.supply.doomed.len() as u64 * 4));
        out
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        ["gc_victims", "gc_copies"].into_iter().zip(self.counters).collect()
    }

    fn reset_counters(&mut self) {
        self.counters = [0; 2];
    }

    fn erase_counts(&self) -> &[u32] {
        self.supply.blocks.erase_counts()
    }

    fn free_blocks(&self) -> u32 {
        self.supply.blocks.free_total()
    }

    fn audit(&self, flash: &mut F) -> Result<(), String> {
        let g = *flash.geometry();
        let mut live = vec![0; g.block_count() as usize];
        for (lpn, &page) in (0..).zip(&self.map).filter(|&(_, &page)| page != NONE) {
            let oob = flash.read_oob(Ppn(page), flash::Cause::Recovery).map_err(|fault| format!("{fault:?}"))?;
            let Some(found) = oob.filter(|oob| oob.kind == Kind::Data && oob.address == lpn) else {
                return Err(format!("LPN {lpn} maps to page {page}, which holds {oob:?}"));
            };
            audit_version(Lpn(lpn), &found, self.version)?;
            if !self.supply.blocks.is_live(Ppn(page)) {
                return Err(format!("LPN {lpn} maps to page {page}, which is dead"));
            }
            live[g.block_of(Ppn(page)).index()] += 1;
        }
        if let Some(block) = self.open {
            live[block.index()] += g.pages_per_block - self.next;
        }
        let counted = |block: u32| self.supply.blocks.live_of(Block(block));
        match (0..).zip(live).find(|&(block, live)| counted(block) != live) {
            None => Ok(()),
            Some((block, live)) => {
                Err(format!("block {block} counts {} live pages, but {live} are mapped", counted(block)))
            }
        }
    }

    fn save(&self) -> Vec<u8> {
        let mut out = Saver::default();
        self.map.iter().for_each(|&page| out.u32(page));
        self.supply.blocks.save(&mut out);
        out.u32(self.open.map_or(NONE, |block| block.0));
        out.u32(self.next);
        out.u32(self.supply.doomed.len() as u32);
        self.supply.doomed.iter().for_each(|block| out.u32(block.0));
        out.u64(self.version);
        out.u64(self.supply.program);
        out.finish()
    }
}

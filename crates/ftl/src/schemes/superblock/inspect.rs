//! What `superblock` shows: RAM, counters, its state, and whether that is sound.

use super::maps::words_of;
use super::{Counters, NONE, Superblock};
use crate::parts::map_log::MapLog;
use crate::parts::supply::audit_version;
use crate::{Inspect, Saver};
use alloc::string::String;
use alloc::vec::Vec;
use alloc::{format, vec};
use flash::{Block, Cause, Flash, Kind, Lbn, Lpn, Oob};

impl<F: Flash> Inspect<F> for Superblock {
    fn memory(&self) -> Vec<(&'static str, u64)> {
        let superblocks = self.open.len() as u64;
        let mut out = vec![
            ("blocks of superblocks", superblocks * (self.k as u64 * 4 + 3) + self.kept.len() as u64 * 3),
            ("newest pages of logical blocks", self.heads.len() as u64 * 2),
            ("recency of superblocks", self.written.len() as u64 * 8),
            ("cached maps", self.cache.memory()),
            ("discarded pages", 4 + self.discarded.len() as u64 * 4),
        ];
        out.extend(self.log.as_ref().map(|log| ("map pages", log.memory())));
        out.extend(self.pool.memory());
        out.push(("version", 8));
        out
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let Counters { victims, dead, copies, reclaims, most, reads, writes } = self.counters;
        let map_victims = self.log.as_ref().map_or(0, |log| log.victims);
        vec![
            ("map_hits", self.cache.hits),
            ("map_misses", self.cache.misses),
            ("map_reads", self.cache.reads + reads),
            ("map_writes", writes),
            ("map_victims", map_victims),
            ("gc_victims", victims),
            ("gc_dead", dead),
            ("gc_copies", copies),
            ("reclaims", reclaims),
            ("most_blocks", most),
        ]
    }

    fn reset_counters(&mut self) {
        self.counters = Counters::default();
        (self.cache.hits, self.cache.misses, self.cache.reads) = (0, 0, 0);
        self.log.iter_mut().for_each(|log| log.victims = 0);
    }

    fn erase_counts(&self) -> &[u32] {
        self.pool.blocks.erase_counts()
    }

    fn free_blocks(&self) -> u32 {
        self.pool.free()
    }

    fn audit(&self, flash: &mut F) -> Result<(), String> {
        let layout = *self.cache.layout();
        let mut expected = vec![0; self.g.block_count() as usize];
        for ppn in self.log.iter().flat_map(|log| self.all().filter_map(|s| log.page(s.0))) {
            words_of(flash, ppn, Cause::Recovery).map_err(|error| format!("the map page at {ppn}: {error}"))?;
            expected[self.g.block_of(ppn).index()] += 1;
        }
        for lbn in (0..self.logical_blocks).map(Lbn) {
            let s = self.super_of(lbn);
            // A dirty map is what RAM says.
            let map = match self.cache.get(lbn).filter(|cached| cached.dirty) {
                Some(cached) => cached.clone(),
                None => self
                    .stored_map(flash, lbn)
                    .map_err(|error| format!("the map of LPN {}: {error}", lbn.0 * self.g.pages_per_block))?,
            };
            for (offset, place) in map.pages() {
                let lpn = lbn.0 * self.g.pages_per_block + offset;
                let Some(ppn) = self.live_page(s, place) else {
                    return Err(format!("LPN {lpn} maps to place {place}, which holds no live page"));
                };
                let oob = flash.read_oob(ppn, Cause::Recovery).map_err(|fault| format!("{fault:?}"))?;
                let holds = |oob: &Oob| oob.address == lpn && matches!(oob.kind, Kind::Data | Kind::Trim);
                let Some(oob) = oob.filter(holds) else {
                    return Err(format!("LPN {lpn} maps to page {ppn}, which holds {oob:?}"));
                };
                audit_version(Lpn(lpn), &oob, self.version)?;
                expected[self.g.block_of(ppn).index()] += 1;
                if self.cache.get(lbn).is_some_and(|cached| cached.has(&layout, offset) && cached.at(offset) != place) {
                    return Err(format!("the cached map of LPN {lpn} is not what its spare areas say"));
                }
            }
        }
        for (block, &live) in expected.iter().enumerate() {
            let counted = self.pool.blocks.live_of(Block(block as u32));
            if counted != live {
                return Err(format!("block {block} counts {counted} live pages, but {live} are mapped"));
            }
        }
        let mut held: Vec<u32> = self.blocks.iter().copied().filter(|&block| block != NONE).collect();
        let in_slots = held.len();
        held.sort_unstable();
        held.dedup();
        let of_log = self.log.as_ref().map_or(0, MapLog::block_count);
        let apart = self.pool.blocks_for_wear();
        let accounted = held.len() as u32 + of_log + self.pool.free() + self.pool.blocks.bad_count() + apart;
        if held.len() != in_slots || accounted != self.g.block_count() {
            return Err(format!("{in_slots} slots hold {} blocks; {accounted} are accounted for", held.len()));
        }
        Ok(())
    }

    fn audit_free(&self, flash: &mut F) -> Result<(), String> {
        self.pool.audit_free(flash)
    }

    fn save(&self) -> Vec<u8> {
        let mut out = Saver::default();
        self.blocks.iter().for_each(|&block| out.u32(block));
        for open in self.open.iter().chain(&self.kept) {
            out.u8(open.slot.0);
            out.u16(open.next);
        }
        self.heads.iter().for_each(|&head| out.u16(head));
        self.written.iter().for_each(|&written| out.u64(written));
        self.cache.save(&mut out);
        out.u32(self.discarded.len() as u32);
        self.discarded.iter().for_each(|&lpn| out.u32(lpn));
        self.log.iter().for_each(|log| log.save(&mut out));
        self.pool.save(&mut out);
        out.u64(self.version);
        out.finish()
    }
}

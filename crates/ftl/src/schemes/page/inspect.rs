//! What `page` shows: RAM, counters, its state, and whether that is sound.

use super::{Counters, Page, TRIMMED};
use crate::{Inspect, Saver};
use alloc::string::String;
use alloc::vec::Vec;
use alloc::{format, vec};
use flash::{Flash, Lpn, Ppn, prefetch};

impl<F: Flash> Inspect<F> for Page {
    fn filling(&mut self, filling: bool) {
        if let Some(ecc) = &mut self.space.ecc {
            ecc.filling(filling);
        }
    }

    #[inline(always)]
    fn hint(&self, lpn: Lpn) {
        prefetch(&self.map, lpn.index());
    }

    #[inline(always)]
    fn hint_soon(&self, lpn: Lpn) {
        if let Some(&entry) = self.map.get(lpn.index()).filter(|&&entry| entry < TRIMMED) {
            self.space.blocks.prefetch(Ppn(entry));
        }
    }

    fn memory(&self) -> Vec<(&'static str, u64)> {
        let mut out = vec![("page map", self.map.len() as u64 * 4)];
        out.extend(self.space.memory());
        out.push(("tombstones", self.tombstones.memory()));
        out
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let Counters { victims, dead_victims, copies, trim_pages } = self.counters;
        vec![
            ("gc_victims", victims),
            ("gc_dead_victims", dead_victims),
            ("gc_copies", copies),
            ("trim_pages", trim_pages),
        ]
    }

    fn reset_counters(&mut self) {
        self.counters = Counters::default();
    }

    fn erase_counts(&self) -> &[u32] {
        self.space.blocks.erase_counts()
    }

    fn free_blocks(&self) -> u32 {
        self.space.blocks.free_total()
    }

    fn audit(&self, flash: &mut F) -> Result<(), String> {
        let g = *flash.geometry();
        let mut expected = vec![0u32; g.block_count() as usize];
        for (lpn, &entry) in self.map.iter().enumerate().filter(|&(_, &entry)| entry < TRIMMED) {
            self.space.audit_page(flash, (Lpn(lpn as u32), Ppn(entry)), self.version, &mut expected)?;
        }
        for (ppn, count) in self.tombstones.pages() {
            let pointing = self.map.iter().filter(|&&entry| entry == TRIMMED | ppn.0).count() as u32;
            if pointing != count || !self.space.blocks.is_live(ppn) {
                return Err(format!("trim page {ppn} counts {count} entries, but {pointing} point at it"));
            }
            expected[g.block_of(ppn).index()] += 1;
        }
        self.space.audit_counts(expected)?;
        self.space.audit_blocks(|_| false)
    }

    fn save(&self) -> Vec<u8> {
        let mut out = Saver::default();
        self.map.iter().for_each(|&entry| out.u32(entry));
        self.space.save(&mut out);
        self.tombstones.save(&mut out);
        out.u64(self.version);
        out.finish()
    }
}

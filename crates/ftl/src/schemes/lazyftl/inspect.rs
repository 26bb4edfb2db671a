//! What `lazyftl` shows: RAM, counters, its state, and whether that is sound.

use super::{COLD, Counters, LazyFtl, UPDATED};
use crate::{CacheCounters, Inspect, Saver};
use alloc::string::String;
use alloc::vec::Vec;
use alloc::{format, vec};
use flash::{Cause, Flash, Kind, Lpn, Ppn, Tvpn};

impl<F: Flash> Inspect<F> for LazyFtl {
    #[inline(always)]
    fn hint(&self, lpn: Lpn) {
        self.table.prefetch(lpn.0);
    }

    #[inline(always)]
    fn hint_soon(&self, lpn: Lpn) {
        let entry = self.table.get(lpn.0);
        if let Some(page) = entry.page().filter(|_| entry.is_present()) {
            self.space.blocks.prefetch(page);
        }
    }

    fn memory(&self) -> Vec<(&'static str, u64)> {
        let mut out = vec![
            ("translation directory", self.store.memory()),
            ("mapping cache", self.cache.memory()),
            ("update mapping table", self.table.memory()),
        ];
        out.extend(self.space.memory());
        let discarded = 8 + u64::from(self.table.discarded()) * 8 + self.trimmed.len() as u64 * 4;
        out.push(("discarded entries", discarded));
        out.push(("counters", 24));
        out
    }

    fn cache(&self) -> Option<CacheCounters> {
        Some(self.counters.cache)
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let c = &self.counters;
        vec![
            ("converts", c.converts),
            ("translation_updates", c.updates),
            ("umt_peak", u64::from(self.table.peak())),
            ("translation_loads", c.loads),
            ("stale_found", c.stale_found),
            ("gc_data_victims", c.data_victims),
            ("gc_translation_victims", c.mapping_victims),
            ("gc_dead_victims", c.dead_victims),
            ("gc_data_copies", c.data_copies),
            ("gc_translation_copies", c.mapping_copies),
        ]
    }

    fn reset_counters(&mut self) {
        self.counters = Counters::default();
        self.table.reset_peak();
    }

    fn erase_counts(&self) -> &[u32] {
        self.space.blocks.erase_counts()
    }

    fn free_blocks(&self) -> u32 {
        self.space.blocks.free_total()
    }

    fn audit(&self, flash: &mut F) -> Result<(), String> {
        let g = *flash.geometry();
        let failed = |fault: F::Fault| format!("{fault:?}");
        self.table.audit()?;
        let mut expected = vec![0u32; g.block_count() as usize];
        for tvpn in (0..self.store.count()).map(Tvpn) {
            let at = self.store.at(tvpn);
            let first = tvpn.0 * g.entries_per_page();
            let range = first..self.logical_pages.min(first.saturating_add(g.entries_per_page()));
            let mut words = vec![Ppn::NONE.0; g.entries_per_page() as usize];
            let mut watermark = 0;
            if at != Ppn::NONE {
                let (oob, content) = flash.read(at, Cause::Recovery).map_err(failed)?;
                if oob.kind != Kind::Translation || oob.tvpn() != tvpn || !self.space.blocks.is_live(at) {
                    return Err(format!("the directory finds mapping page {tvpn} at {at}, which holds {oob:?}"));
                }
                words.copy_from_slice(content.words().ok_or("a mapping page holds no words")?);
                watermark = oob.version;
                expected[g.block_of(at).index()] += 1;
            }
            for lpn in range {
                let word = Ppn(words[(lpn - first) as usize]);
                if let Some(slot) = self.cache.find(Lpn(lpn))
                    && self.cache.get(slot, Lpn(lpn)) != word
                {
                    return Err(format!("LPN {lpn} is cached other than its mapping page says, {word}"));
                }
                let entry = self.table.get(lpn);
                if entry.is_present() && !entry.is_update() && entry.word() != word.0 {
                    return Err(format!("LPN {lpn} has the entry {entry:?}, its mapping page says {word}"));
                }
                // Where discards are durable, a flush writes the mapping pages that are noted to have some.
                if entry.is_present() && entry.page().is_none() && !self.trimmed.contains(&tvpn.0) {
                    return Err(format!(
                        "LPN {lpn} is discarded, and mapping page {tvpn} not noted as having discards"
                    ));
                }
                // What the mapping page names is the LPN's page, or stale and not yet dead, or gone.
                if word != Ppn::NONE && (!entry.is_update() || entry.is_invalid()) {
                    self.space.audit_page(flash, (Lpn(lpn), word), self.version, &mut expected)?;
                }
                if let Some(page) = entry.page().filter(|_| entry.is_update()) {
                    let oob = self.space.audit_page(flash, (Lpn(lpn), page), self.version, &mut expected)?;
                    // A mount looks for entries that were lost among the pages behind the watermark.
                    if oob.program < watermark {
                        let of =
                            format!("program {}, before the watermark of its mapping page, {watermark}", oob.program);
                        return Err(format!("LPN {lpn} is at {page}, {of}"));
                    }
                }
            }
        }
        self.space.audit_counts(expected)?;
        // The quota bounds the table. Failed programs may bring more blocks, and so may a mount of a full device.
        let is_full = self.space.blocks.free_total() <= self.space.collector.kept;
        let all_good = self.space.blocks.bad_count() == 0 && self.space.doomed.is_empty() && !is_full;
        if let Some(area) = [COLD, UPDATED].into_iter().find(|&area| all_good && self.table.is_over(area)) {
            return Err(format!("area {} has more blocks than its quota", area.0));
        }
        self.space.audit_blocks(|block| self.table.covers(block))
    }

    fn save(&self) -> Vec<u8> {
        let mut out = Saver::default();
        self.store.save(&mut out);
        self.cache.save(&mut out);
        self.table.save(&mut out);
        self.space.save(&mut out);
        out.u32(self.trimmed.len() as u32);
        self.trimmed.iter().for_each(|&tvpn| out.u32(tvpn));
        out.u64(self.version);
        out.finish()
    }
}

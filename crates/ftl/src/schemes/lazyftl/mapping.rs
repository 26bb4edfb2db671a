//! The map of `lazyftl`: where a page lies by update table, cache and translation page, and how entries settle there.

use super::LazyFtl;
use crate::parts::translation::forget_beyond;
use crate::{Error, Outcome};
use flash::{Cause, Flash, Lpn, Ppn, Tvpn};

impl LazyFtl {
    /// Where an LPN's newest copy is, if anywhere.
    #[inline]
    pub(super) fn translate<F: Flash>(&mut self, flash: &mut F, lpn: Lpn) -> Outcome<F, Option<Ppn>> {
        self.counters.cache.accesses += 1;
        let entry = self.table.get(lpn.0);
        if entry.is_present() {
            self.counters.cache.hits += 1;
            return Ok(entry.page());
        }
        let slot = match self.cache.find(lpn) {
            Some(slot) => {
                self.counters.cache.hits += 1;
                self.cache.hit(slot);
                slot
            }
            None => {
                let (tvpn, _) = self.store.locate(lpn.0);
                let at = self.store.at(tvpn);
                if at == Ppn::NONE {
                    return Ok(None);
                }
                if self.cache.is_full() {
                    let (victim, _) = self.cache.victim();
                    self.cache.remove(victim);
                }
                self.counters.loads += 1;
                let g = *flash.geometry();
                let (_, content) = flash.read(at, Cause::TranslationLoad)?;
                let words = content.words().ok_or(Error::Corrupt)?;
                self.cache.insert(lpn, |line| {
                    line.copy_from_slice(words);
                    forget_beyond(line, &g);
                })
            }
        };
        let ppn = self.cache.get(slot, lpn);
        Ok((ppn != Ppn::NONE).then_some(ppn))
    }

    /// Writes a mapping page with all that the table knows better, and without the LPNs in `discard`; the stale pages
    /// that it named die.
    pub(super) fn settle<F: Flash>(&mut self, flash: &mut F, tvpn: Tvpn, discard: core::ops::Range<u32>) -> Outcome<F> {
        let LazyFtl { table, cache, store, space, entries, dead, counters, .. } = self;
        let mask = flash.geometry().entries_per_page() - 1;
        let pages = flash.geometry().page_count();
        entries.clear();
        table.updates_of(tvpn, entries);
        space.collector.beside.before_map(flash, entries.iter().filter_map(|(_, entry)| entry.page()));
        store.update(flash, space, tvpn, true, Cause::TranslationUpdate, |words| {
            dead.clear();
            for &(lpn, entry) in entries.iter() {
                let old = core::mem::replace(&mut words[(lpn & mask) as usize], entry.word());
                if entry.is_invalid() && old < pages {
                    dead.push(Ppn(old));
                }
            }
            for lpn in discard.clone() {
                let old = core::mem::replace(&mut words[(lpn & mask) as usize], Ppn::NONE.0);
                if old < pages {
                    dead.push(Ppn(old));
                }
            }
        })?;
        counters.updates += 1;
        counters.cache.writebacks += 1;
        counters.cache.writeback_entries += entries.len() as u64;
        let cached = cache.find(Lpn(tvpn.0 * (mask + 1)));
        let round = table.begin_settling();
        for &(lpn, entry) in entries.iter() {
            table.settled(lpn, round);
            if let Some(slot) = cached {
                cache.set_clean(slot, Lpn(lpn), Ppn(entry.word()));
            }
        }
        for lpn in discard {
            if table.get(lpn).is_present() {
                table.remove(lpn);
            }
            if let Some(slot) = cached {
                cache.set_clean(slot, Lpn(lpn), Ppn::NONE);
            }
        }
        for &ppn in dead.iter() {
            space.blocks.kill(ppn);
        }
        self.trimmed.remove(&tvpn.0);
        Ok(())
    }
}

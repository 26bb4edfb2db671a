//! Discards of `lazyftl`: entries without a page in the update table, or translation pages written at once.

use super::{LazyFtl, MAPPING, MOST_DISCARDS};
use crate::parts::collector::Collects;
use crate::{Error, Outcome};
use flash::{Cause, Flash, Ppn, Tvpn};

impl LazyFtl {
    /// Mapping pages that must be written before an erase.
    pub(super) fn discards(&self) -> u32 {
        if self.durable_trim { self.trimmed.len() as u32 } else { 0 }
    }

    /// Writes the mapping pages of the discarded LPNs in the table: what a collection does, which has room for them.
    pub(super) fn write_discards<F: Flash>(&mut self, flash: &mut F) -> Outcome<F> {
        while let Some(&tvpn) = self.trimmed.first() {
            self.settle(flash, Tvpn(tvpn), 0..0)?;
        }
        Ok(())
    }

    /// The same, with a test for room before each page: pages written between two tests may step over the one that
    /// fills its block, test after test.
    pub(super) fn write_discards_with_room<F: Flash>(&mut self, flash: &mut F) -> Outcome<F> {
        while !self.trimmed.is_empty() {
            if self.is_behind(MAPPING) {
                self.catch_up(flash, MAPPING)?;
            }
            // A collection has written them, if there was one.
            let Some(&tvpn) = self.trimmed.first() else { break };
            self.settle(flash, Tvpn(tvpn), 0..0)?;
        }
        Ok(())
    }

    /// Whether any of these LPNs of a mapping page is mapped; reads the page if the table does not tell.
    pub(super) fn maps_any<F: Flash>(
        &mut self,
        flash: &mut F,
        tvpn: Tvpn,
        lpns: core::ops::Range<u32>,
    ) -> Outcome<F, bool> {
        let entry = |lpn: u32| Some(self.table.get(lpn)).filter(|entry| entry.is_present());
        if lpns.clone().filter_map(entry).any(|entry| entry.page().is_some()) {
            return Ok(true);
        }
        let at = self.store.at(tvpn);
        if at == Ppn::NONE || lpns.clone().all(|lpn| entry(lpn).is_some()) {
            return Ok(false);
        }
        self.counters.loads += 1;
        let (_, content) = flash.read(at, Cause::TranslationLoad)?;
        let stored = &content.words().ok_or(Error::Corrupt)?[self.store.locate(lpns.start).1..];
        Ok(lpns.zip(stored).any(|(lpn, &ppn)| ppn != Ppn::NONE.0 && entry(lpn).is_none()))
    }

    pub(super) fn trim_in_page<F: Flash>(&mut self, flash: &mut F, first: u32, count: u32) -> Outcome<F> {
        let (tvpn, _) = self.store.locate(first);
        // Before it was ever written, a mapping page names nothing.
        let unwritten = self.store.at(tvpn) == Ppn::NONE;
        let lpns = first..first + count;
        if count > 8 {
            if !self.maps_any(flash, tvpn, lpns.clone())? {
                return Ok(());
            }
            if self.is_behind(MAPPING) {
                self.catch_up(flash, MAPPING)?;
            }
            return self.settle(flash, tvpn, lpns);
        }
        // As with writes, the map is corrected later.
        for lpn in lpns {
            let entry = self.table.get(lpn);
            match entry.page() {
                Some(page) if entry.is_present() => self.space.blocks.kill(page),
                Some(_) if !unwritten => {}
                _ => continue,
            }
            self.table.discard(lpn);
            self.trimmed.insert(tvpn.0);
        }
        // Few enough are left that the table has a bound, and a collection room to write those that must go first.
        let most = self.space.blocks.geometry().pages_per_block;
        if self.table.discarded() > most || self.durable_trim && self.trimmed.len() > MOST_DISCARDS {
            self.write_discards_with_room(flash)?;
        }
        Ok(())
    }
}

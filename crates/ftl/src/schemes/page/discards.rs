//! Discards of `page` that hold over a power cut: records in trim pages, and the map entries that point at them.

use super::{PENDING, Page, TRIMMED};
use crate::parts::lanes::Lane;
use crate::parts::tombstones::{self, Tombstone};
use crate::{Error, Outcome};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use flash::{Cause, Die, FaultKind, Flash, FlashFault, Kind, Mode, Oob, Payload, Ppn};

impl Page {
    /// Programs the pending tombstones before a block is erased: it may hold the newest copy of a discarded page, while
    /// an older one lives on elsewhere and would come back if power were cut.
    pub(super) fn bury<F: Flash>(&mut self, flash: &mut F, die: Die) -> Outcome<F> {
        if self.tombstones.pending.is_empty() {
            return Ok(());
        }
        let records = self.tombstones.pending.clone();
        let page = self.put_tombstones(flash, &records, die, Cause::Metadata)?;
        self.tombstones.pending.clear();
        self.point_at_tombstones(page, &records, |entry| entry == PENDING);
        // The next collection has none to write, and its erase may take what these discard.
        self.space.collector.beside.supersedes();
        Ok(())
    }

    /// Sets a map entry; what it pointed at dies.
    #[inline(always)]
    pub(super) fn point(&mut self, lpn: usize, entry: u32) {
        let old = core::mem::replace(&mut self.map[lpn], entry);
        if old < TRIMMED {
            self.space.blocks.kill(Ppn(old));
        } else if old < PENDING {
            self.release_tombstone(old);
        }
    }

    #[cold]
    pub(super) fn release_tombstone(&mut self, entry: u32) {
        let page = Ppn(entry - TRIMMED);
        if self.tombstones.release(page) {
            self.space.blocks.kill(page);
        }
    }

    pub(super) fn records_per_page(&self) -> usize {
        self.space.blocks.geometry().entries_per_page() as usize / tombstones::RECORD_WORDS
    }

    /// Programs the pending tombstones.
    pub(super) fn write_tombstones<F: Flash>(&mut self, flash: &mut F, cause: Cause) -> Outcome<F> {
        let limit = self.records_per_page();
        while !self.tombstones.pending.is_empty() {
            // A collection that makes room may bury them all.
            self.ready(flash)?;
            let count = self.tombstones.pending.len().min(limit);
            let records: Vec<Tombstone> = self.tombstones.pending[..count].to_vec();
            if records.is_empty() {
                break;
            }
            let (page, _) = self.put(flash, self.trim_oob(), Payload::Meta(&tombstones::encode(&records)), cause)?;
            self.tombstones.pending.drain(..count.min(self.tombstones.pending.len()));
            self.counters.trim_pages += 1;
            self.point_at_tombstones(page, &records, |entry| entry == PENDING);
        }
        Ok(())
    }

    pub(super) fn trim_oob(&self) -> Oob {
        Oob { kind: Kind::Trim, mode: Mode::Normal, address: 0, version: self.version, program: 0, mark: 0 }
    }

    /// Points the entries of the records' LPNs that satisfy `which` at trim page `page`, which dies if there is none;
    /// how many there are.
    pub(super) fn point_at_tombstones(&mut self, page: Ppn, records: &[Tombstone], which: impl Fn(u32) -> bool) -> u32 {
        let mut count = 0;
        for lpn in records.iter().flat_map(|record| record.lpns()) {
            let entry = &mut self.map[lpn as usize];
            if which(*entry) {
                *entry = TRIMMED | page.0;
                count += 1;
            }
        }
        if count == 0 {
            self.space.blocks.kill(page);
        } else {
            self.tombstones.refer(page, count);
        }
        count
    }

    /// Programs a trim page where collected pages of `die` go.
    pub(super) fn put_tombstones<F: Flash>(
        &mut self,
        flash: &mut F,
        records: &[Tombstone],
        die: Die,
        cause: Cause,
    ) -> Outcome<F, Ppn> {
        loop {
            let to = self.space.page_on(flash, self.gc, Lane::of(die))?;
            let oob = Oob { program: self.space.number_for(flash, to), ..self.trim_oob() };
            match flash.program(to, oob, Payload::Meta(&tombstones::encode(records)), cause) {
                Ok(()) => {
                    self.counters.trim_pages += 1;
                    return Ok(to);
                }
                Err(fault) if fault.kind() == FaultKind::ProgramFailed => self.space.abandon(to),
                Err(fault) => return Err(fault.into()),
            }
        }
    }

    /// Collects a trim page: its records that are still needed go to new ones.
    pub(super) fn rewrite_tombstones<F: Flash>(
        &mut self,
        flash: &mut F,
        from: Ppn,
        die: Die,
        cause: Cause,
    ) -> Outcome<F> {
        let (_, content) = flash.read(from, cause)?;
        let entry = TRIMMED | from.0;
        // Of several records of one LPN the newest: its successors may end up in another page than its predecessors.
        let mut newest: BTreeMap<u32, u64> = BTreeMap::new();
        for record in tombstones::decode(content.words().ok_or(Error::Corrupt)?, self.map.len() as u32) {
            for lpn in record.lpns().filter(|&lpn| self.map.get(lpn as usize) == Some(&entry)) {
                let version = newest.entry(lpn).or_insert(0);
                *version = record.version.max(*version);
            }
        }
        let mut needed: Vec<Tombstone> = Vec::new();
        for (lpn, version) in newest {
            match needed.last_mut() {
                Some(run) if run.version == version && run.lpns().end == lpn => run.count += 1,
                _ => needed.push(Tombstone { first: lpn, count: 1, version }),
            }
        }
        let limit = self.records_per_page();
        for records in needed.chunks(limit) {
            let page = self.put_tombstones(flash, records, die, cause)?;
            for _ in 0..self.point_at_tombstones(page, records, |old| old == entry) {
                self.release_tombstone(entry);
            }
        }
        Ok(())
    }
}

//! The dirty buffer: changed entries of translation pages that are not cached, grouped by page.

use crate::demand::cache::{Entry, Shape};
use crate::{Loader, Saver};
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;
use flash::{Lpn, Ppn, Tvpn};

/// Bytes of an entry: LPN and PPN.
pub(super) const ENTRY_BYTES: u64 = 8;

/// See the module's description.
#[derive(Clone, Debug)]
pub(super) struct Buffer {
    shape: Shape,
    capacity: usize,
    held: usize,
    /// The entries of each translation page.
    groups: Vec<Vec<Entry>>,
    /// Number of entries and translation page of each group; of equal ones the lowest page is the last.
    sizes: BTreeSet<(usize, Reverse<u32>)>,
}

impl Buffer {
    /// Room for so many entries.
    pub(super) fn new(shape: &Shape, capacity: usize) -> Self {
        let groups = vec![Vec::new(); shape.pages() as usize];
        Buffer { shape: *shape, capacity, held: 0, groups, sizes: BTreeSet::new() }
    }

    pub(super) fn memory(&self) -> u64 {
        self.capacity as u64 * ENTRY_BYTES
    }

    /// Entries that fit.
    pub(super) fn room(&self) -> usize {
        self.capacity.saturating_sub(self.held)
    }

    /// The entries of a translation page.
    #[inline(always)]
    pub(super) fn group(&self, tvpn: Tvpn) -> &[Entry] {
        &self.groups[tvpn.index()]
    }

    /// Where an entry stands in its group.
    #[inline(always)]
    pub(super) fn find(&self, tvpn: Tvpn, lpn: Lpn) -> Option<u32> {
        self.group(tvpn).iter().position(|held| held.lpn == lpn).map(|at| at as u32)
    }

    /// Changes an entry.
    pub(super) fn set(&mut self, tvpn: Tvpn, at: u32, ppn: Ppn) {
        self.groups[tvpn.index()][at as usize].ppn = ppn;
    }

    /// Takes in entries of one translation page that are not here.
    pub(super) fn put(&mut self, tvpn: Tvpn, entries: &[Entry]) {
        let group = &mut self.groups[tvpn.index()];
        self.sizes.remove(&(group.len(), Reverse(tvpn.0)));
        group.extend_from_slice(entries);
        self.held += entries.len();
        if !group.is_empty() {
            self.sizes.insert((group.len(), Reverse(tvpn.0)));
        }
    }

    /// Moves the entries of a translation page to `out`.
    pub(super) fn take(&mut self, tvpn: Tvpn, out: &mut Vec<Entry>) {
        let group = &mut self.groups[tvpn.index()];
        if !group.is_empty() {
            self.sizes.remove(&(group.len(), Reverse(tvpn.0)));
            self.held -= group.len();
            out.append(group);
        }
    }

    /// The translation page with the most entries, other than `except`.
    pub(super) fn fullest(&self, except: Option<Tvpn>) -> Option<Tvpn> {
        self.sizes.iter().rev().map(|&(_, Reverse(tvpn))| Tvpn(tvpn)).find(|&tvpn| Some(tvpn) != except)
    }

    pub(super) fn audit(&self, is_cached: impl Fn(Tvpn) -> bool) -> Result<(), String> {
        for (tvpn, group) in (0..).map(Tvpn).zip(&self.groups).filter(|(_, group)| !group.is_empty()) {
            if is_cached(tvpn) {
                return Err(format!("translation page {tvpn} is cached, and entries of it are in the dirty buffer"));
            }
            let lpns: BTreeSet<u32> = group.iter().map(|entry| entry.lpn.0).collect();
            if lpns.len() != group.len() || lpns.iter().any(|&lpn| self.shape.tvpn(lpn) != tvpn) {
                return Err(format!("the dirty buffer holds {group:?} of translation page {tvpn}"));
            }
            if !self.sizes.contains(&(group.len(), Reverse(tvpn.0))) {
                return Err(format!("the dirty buffer has no size of translation page {tvpn}"));
            }
        }
        let held: usize = self.groups.iter().map(Vec::len).sum();
        let sizes: usize = self.sizes.iter().map(|&(size, _)| size).sum();
        if held != self.held || held != sizes || held > self.capacity {
            return Err(format!(
                "the dirty buffer of {} holds {held} entries, {} by its count",
                self.capacity, self.held
            ));
        }
        Ok(())
    }

    pub(super) fn save(&self, out: &mut Saver) {
        out.u32(self.held as u32);
        for &Entry { lpn, ppn } in self.groups.iter().flatten() {
            out.u32(lpn.0);
            out.u32(ppn.0);
        }
    }

    pub(super) fn load(&mut self, from: &mut Loader<'_>) {
        for _ in 0..from.u32() {
            let entry = Entry { lpn: Lpn(from.u32()), ppn: Ppn(from.u32()) };
            self.put(self.shape.tvpn(entry.lpn.0), &[entry]);
        }
    }
}

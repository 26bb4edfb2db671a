//! Pages that a spread collection has copied, and whose translation pages do not say so yet.
//!
//! While a collection is dealt over several requests, the translation pages go on naming the old places of pages that
//! are not cached. This table has their new places. Whoever reads entries from flash asks it first, a host write or a
//! discard takes its page out, and whatever is written into a translation page takes its entries along. Until then the
//! page keeps its watermark, so that a mount finds the copies (docs/recovery.md). A die has at most one spread
//! collection, so that the table holds no more entries than the dies have pages in a block.

use super::cache::Entry;
use crate::{Loader, Saver};
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use flash::{Die, Lpn, Ppn};

/// See the module's description.
#[derive(Clone, Debug)]
pub struct Moves {
    /// New place and die of the collection, by LPN.
    pages: BTreeMap<u32, (Ppn, Die)>,
    /// Entries of each die's collection.
    on_die: Vec<u32>,
    /// Entries that a die's collection leaves at the most.
    most: u32,
}

impl Moves {
    /// None. `most` entries at the most for each of `dies` dies; 0 if collections are not spread.
    pub fn new(dies: u32, most: u32) -> Moves {
        Moves { pages: BTreeMap::new(), on_die: vec![0; if most == 0 { 0 } else { dies as usize }], most }
    }

    /// Whether there is none.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// Entries of a die's collection.
    #[inline(always)]
    pub fn count_on(&self, die: Die) -> u32 {
        self.on_die.get(die.index()).copied().unwrap_or(0)
    }

    /// The lowest LPN of a die's collection.
    pub fn first_on(&self, die: Die) -> Option<u32> {
        if self.count_on(die) == 0 {
            return None;
        }
        self.pages.iter().find(|(_, place)| place.1 == die).map(|(&lpn, _)| lpn)
    }

    /// The entries of a range of LPNs, in order.
    pub fn within(&self, lpns: Range<u32>) -> impl Iterator<Item = Entry> + '_ {
        self.pages.range(lpns).map(|(&lpn, &(ppn, _))| Entry { lpn: Lpn(lpn), ppn })
    }

    /// A die's collection moved a page.
    pub fn insert(&mut self, lpn: u32, ppn: Ppn, die: Die) {
        self.remove(lpn);
        self.on_die[die.index()] += 1;
        self.pages.insert(lpn, (ppn, die));
    }

    /// The page was written or discarded, or its translation page says where it is.
    #[inline(always)]
    pub fn remove(&mut self, lpn: u32) {
        if !self.pages.is_empty()
            && let Some((_, die)) = self.pages.remove(&lpn)
        {
            self.on_die[die.index()] -= 1;
        }
    }

    /// A translation page was written with all that is known of these LPNs.
    pub fn remove_all(&mut self, lpns: Range<u32>) {
        while let Some((&lpn, _)) = self.pages.range(lpns.clone()).next() {
            self.remove(lpn);
        }
    }

    /// Controller RAM, bytes: 8 for each entry that there may be, and a count for each die.
    pub fn memory(&self) -> u64 {
        self.on_die.len() as u64 * (4 + 8 * u64::from(self.most))
    }

    /// Saves the entries, die by die.
    pub fn save(&self, out: &mut Saver) {
        for (die, &count) in (0..).map(Die).zip(&self.on_die) {
            out.u32(count);
            for (&lpn, (ppn, _)) in self.pages.iter().filter(|(_, place)| place.1 == die) {
                out.u32(lpn);
                out.u32(ppn.0);
            }
        }
    }

    /// Loads what [`Moves::save`] saved.
    pub fn load(&mut self, from: &mut Loader<'_>) {
        for die in (0..self.on_die.len() as u32).map(Die) {
            for _ in 0..from.u32() {
                let (lpn, ppn) = (from.u32(), Ppn(from.u32()));
                self.insert(lpn, ppn, die);
            }
        }
    }
}

//! Durable TRIM for schemes whose map is not on flash.
//!
//! A trimmed range becomes a record (first LPN, count, version) that is collected in RAM and programmed as part of a
//! trim page, at the latest by the next flush. The map entry of a trimmed LPN points at the trim page that says so: the
//! page is live as long as any entry does, and a collection rewrites the records that are still needed. A record is
//! therefore kept until its LPN is written again, at most one for each LPN.

use crate::{Group, Loader, Parameter, Saver};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Range;
use flash::Ppn;

/// `durable-trim`: whether discards outlast a power cut.
pub(crate) const DURABLE_TRIM: Parameter = Parameter::switch("durable-trim", false)
    .text(
        "A discarded page stays discarded over a power cut, once it is flushed. On programs a record for it; off is \
         as in the papers.",
    )
    .source("ftlab");

/// Discards: every scheme that keeps data reads this row.
pub(crate) const GROUP: Group = Group { title: "discards", rows: &[DURABLE_TRIM] };

/// Words of one record: first LPN, count, version (low, high).
pub(crate) const RECORD_WORDS: usize = 4;

/// A trimmed range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tombstone {
    /// First LPN.
    pub first: u32,
    /// LPNs.
    pub count: u32,
    /// Older data of these LPNs is dead.
    pub version: u64,
}

impl Tombstone {
    fn words(self) -> [u32; RECORD_WORDS] {
        [self.first, self.count, self.version as u32, (self.version >> 32) as u32]
    }

    /// The LPNs.
    pub(crate) fn lpns(self) -> core::ops::Range<u32> {
        self.first..self.first + self.count
    }
}

/// Records as metadata words.
pub(crate) fn encode(records: &[Tombstone]) -> Vec<u32> {
    records.iter().flat_map(|record| record.words()).collect()
}

/// The records of a trim page; blank words end them. One of addresses that a device of so many pages does not have is
/// none, nor is one of a version that is never given.
pub(crate) fn decode(words: &[u32], logical_pages: u32) -> impl Iterator<Item = Tombstone> + '_ {
    let records = words.chunks_exact(RECORD_WORDS).take_while(|words| words[1] != u32::MAX).map(|words| Tombstone {
        first: words[0],
        count: words[1],
        version: u64::from(words[2]) | u64::from(words[3]) << 32,
    });
    let is_of_device = move |record: &Tombstone| {
        let end = record.first.checked_add(record.count);
        end.is_some_and(|end| end <= logical_pages) && record.version < 1 << 63
    };
    records.filter(is_of_device)
}

/// Records waiting in RAM, and how many LPNs each trim page on flash stands for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tombstones {
    /// Not yet programmed.
    pub pending: Vec<Tombstone>,
    references: BTreeMap<u32, u32>,
}

impl Tombstones {
    /// `count` more map entries point at a trim page.
    pub(crate) fn refer(&mut self, page: Ppn, count: u32) {
        *self.references.entry(page.0).or_insert(0) += count;
    }

    /// One map entry fewer points at a trim page; true if it was the last: the page is dead.
    pub(crate) fn release(&mut self, page: Ppn) -> bool {
        let count = self.references.get_mut(&page.0).expect("a map entry pointed at a trim page that is not known");
        *count -= 1;
        let dead = *count == 0;
        if dead {
            self.references.remove(&page.0);
        }
        dead
    }

    /// Whether a page is a trim page that entries point at.
    #[inline(always)]
    pub(crate) fn is_trim_page(&self, page: Ppn) -> bool {
        !self.references.is_empty() && self.references.contains_key(&page.0)
    }

    /// Whether there is any trim page that entries point at.
    pub(crate) fn any_on_flash(&self) -> bool {
        !self.references.is_empty()
    }

    /// Whether more than so many entries point at one of these pages.
    pub(crate) fn any_beyond(&self, limit: usize, pages: Range<Ppn>) -> bool {
        self.references.range(pages.start.0..pages.end.0).any(|(_, &count)| count as usize > limit)
    }

    /// The trim pages on flash and the entries that point at each.
    pub(crate) fn pages(&self) -> impl Iterator<Item = (Ppn, u32)> + '_ {
        self.references.iter().map(|(&page, &count)| (Ppn(page), count))
    }

    /// Controller RAM, bytes.
    pub(crate) fn memory(&self) -> u64 {
        8 + self.pending.len() as u64 * 16 + self.references.len() as u64 * 8
    }

    /// Saves the state.
    pub(crate) fn save(&self, out: &mut Saver) {
        out.u32(self.pending.len() as u32);
        self.pending.iter().flat_map(|record| record.words()).for_each(|word| out.u32(word));
        out.u32(self.references.len() as u32);
        for (&page, &count) in &self.references {
            out.u32(page);
            out.u32(count);
        }
    }

    /// Loads what [`Tombstones::save`] saved.
    pub(crate) fn load(from: &mut Loader<'_>, logical_pages: u32) -> Tombstones {
        let pending = from.u32();
        let words: Vec<u32> = (0..pending * RECORD_WORDS as u32).map(|_| from.u32()).collect();
        let references = from.u32();
        Tombstones {
            pending: decode(&words, logical_pages).collect(),
            references: (0..references).map(|_| (from.u32(), from.u32())).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A count of 2^31 had a collection go through as many addresses.
    #[test]
    fn a_record_beyond_the_device_is_none() {
        let sound = Tombstone { first: 60, count: 4, version: 1 };
        let others = [
            Tombstone { count: 5, ..sound },
            Tombstone { first: 0, count: 1 << 31, ..sound },
            Tombstone { first: u32::MAX, count: 2, ..sound },
            Tombstone { version: 1 << 63, ..sound },
        ];
        let words = encode(&[&others[..], &[sound]].concat());
        assert_eq!(decode(&words, 64).collect::<Vec<_>>(), [sound]);
    }
}

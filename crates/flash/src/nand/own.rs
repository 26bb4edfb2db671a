//! Bytes of a scheme's own in the spare areas, as a chip stores them: so many a page in one array, which takes memory
//! only where it was written to.

use crate::Ppn;
use crate::broken::{Command, Rule, refuse};
use alloc::vec;
use alloc::vec::Vec;

/// No page has this number.
const NONE: usize = usize::MAX;

/// See the module's description.
#[derive(Clone, Debug)]
pub(super) struct OwnBytes {
    /// Of each page; 0 if the scheme wants none.
    bytes: usize,
    stored: Vec<u8>,
    /// The page whose spare area was read last.
    pub(super) read: usize,
}

impl OwnBytes {
    /// None wanted yet.
    pub(super) const NONE: OwnBytes = OwnBytes { bytes: 0, stored: Vec::new(), read: NONE };

    /// Room for `bytes` in each of `pages` pages.
    pub(super) fn reserve(&mut self, bytes: usize, pages: usize) {
        if self.bytes != bytes {
            if self.bytes != 0 {
                let rule = Rule::ReservedBefore { before: self.bytes as u32, now: bytes as u32 };
                refuse(rule.broken_by(Command::Spare, Ppn(0)));
            }
            // Zeroed pages of memory, which the system hands out when they are touched.
            *self = OwnBytes { bytes, stored: vec![0; bytes * pages], read: NONE };
        }
    }

    /// Whether both hold the same, whatever was read last.
    pub(super) fn is_as(&self, other: &OwnBytes) -> bool {
        self.bytes == other.bytes && self.stored == other.stored
    }

    /// Bytes of each page.
    pub(super) fn reserved(&self) -> usize {
        self.bytes
    }

    /// What page `page` holds.
    pub(super) fn get(&self, page: usize) -> &[u8] {
        &self.stored[page * self.bytes..][..self.bytes]
    }

    /// Stores it; what is missing is zero.
    pub(super) fn put(&mut self, page: usize, bytes: &[u8]) {
        if bytes.len() > self.bytes {
            let rule = Rule::NotReserved { bytes: bytes.len() as u32, reserved: self.bytes as u32 };
            refuse(rule.broken_by(Command::Spare, Ppn(page as u32)));
        }
        let own = &mut self.stored[page * self.bytes..][..self.bytes];
        let (head, tail) = own.split_at_mut(bytes.len());
        head.copy_from_slice(bytes);
        tail.fill(0);
    }

    /// Changes one bit.
    pub(super) fn flip(&mut self, page: usize, bit: usize) {
        self.stored[page * self.bytes + bit / 8] ^= 1 << (bit % 8);
    }

    /// A block was erased, which has these pages.
    #[inline(always)]
    pub(super) fn erase(&mut self, pages: core::ops::Range<usize>) {
        if self.bytes != 0 {
            self.stored[pages.start * self.bytes..pages.end * self.bytes].fill(0);
        }
    }

    /// Memory that the simulator holds, bytes.
    pub(super) fn memory(&self) -> usize {
        self.stored.len()
    }
}

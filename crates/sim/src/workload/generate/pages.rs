//! A sparse table from pages to small numbers, shared by fitting and validation.

use std::collections::BTreeMap;

const CHUNK: usize = 1024;

/// Page number to `u32`, absent by default; memory grows with the regions touched.
#[derive(Default)]
pub(super) struct Pages {
    chunks: BTreeMap<u64, Box<[u32; CHUNK]>>,
}

impl Pages {
    const ABSENT: u32 = u32::MAX;

    /// What was stored for `page`.
    pub(super) fn get(&self, page: u64) -> Option<u32> {
        let chunk = self.chunks.get(&(page / CHUNK as u64))?;
        Some(chunk[page as usize % CHUNK]).filter(|&value| value != Self::ABSENT)
    }

    /// Stores `value` for `page`; returns what was there.
    pub(super) fn set(&mut self, page: u64, value: u32) -> Option<u32> {
        assert_ne!(value, Self::ABSENT, "the largest number means absence");
        let chunk = self.chunks.entry(page / CHUNK as u64).or_insert_with(|| Box::new([Self::ABSENT; CHUNK]));
        Some(std::mem::replace(&mut chunk[page as usize % CHUNK], value)).filter(|&old| old != Self::ABSENT)
    }
}

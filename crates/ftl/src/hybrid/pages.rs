//! A bit for each page of the device, looked at block by block.

use crate::{Loader, Saver};
use alloc::vec;
use alloc::vec::Vec;
use flash::{Block, Geometry, Ppn};

/// See the module's description.
#[derive(Clone, Debug)]
pub struct PageBits {
    words: Vec<u64>,
    pages_per_block: u32,
}

impl PageBits {
    /// All zero.
    pub fn new(g: &Geometry) -> PageBits {
        PageBits { words: vec![0; (g.page_count() as usize).div_ceil(64)], pages_per_block: g.pages_per_block }
    }

    /// Whether a page's bit is set.
    #[inline(always)]
    pub fn get(&self, ppn: Ppn) -> bool {
        self.words[ppn.index() / 64] >> (ppn.index() % 64) & 1 == 1
    }

    /// Sets a page's bit.
    #[inline(always)]
    pub fn set(&mut self, ppn: Ppn) {
        self.words[ppn.index() / 64] |= 1 << (ppn.index() % 64);
    }

    fn first(&self, block: Block) -> usize {
        block.index() * self.pages_per_block as usize
    }

    /// Bits of a block, 64 pages from page `64 * word` on.
    #[inline(always)]
    pub fn word(&self, block: Block, word: u32) -> u64 {
        let page = self.first(block) + word as usize * 64;
        let bits = self.words[page / 64] >> (page % 64);
        if self.pages_per_block < 64 { bits & ((1 << self.pages_per_block) - 1) } else { bits }
    }

    /// Gives all pages of a block the same bit.
    pub fn fill(&mut self, block: Block, value: bool) {
        let first = self.first(block);
        let p = self.pages_per_block as usize;
        if p >= 64 {
            self.words[first / 64..(first + p) / 64].fill(if value { u64::MAX } else { 0 });
        } else {
            let mask = ((1u64 << p) - 1) << (first % 64);
            let word = &mut self.words[first / 64];
            *word = if value { *word | mask } else { *word & !mask };
        }
    }

    /// Sets the bits of a block's pages below `end`.
    pub fn fill_below(&mut self, block: Block, end: u32) {
        (0..end).for_each(|offset| self.set(Ppn(block.0 * self.pages_per_block + offset)));
    }

    /// The first page of a block at or after `offset` whose bit is zero.
    pub fn next_zero(&self, block: Block, offset: u32) -> Option<u32> {
        let p = self.pages_per_block;
        let mut at = offset;
        while at < p {
            let free = !self.word(block, at / 64) >> (at % 64);
            let step = free.trailing_zeros();
            if step < 64 - at % 64 {
                at += step;
                return (at < p).then_some(at);
            }
            at = (at / 64 + 1) * 64;
        }
        None
    }

    /// One above the highest page of a block whose bit is set.
    pub fn end(&self, block: Block) -> u32 {
        let words = self.pages_per_block.div_ceil(64);
        let highest = (0..words).rev().find(|&word| self.word(block, word) != 0);
        highest.map_or(0, |word| word * 64 + 64 - self.word(block, word).leading_zeros())
    }

    /// Pages of a block whose bit is set.
    pub fn count(&self, block: Block) -> u32 {
        (0..self.pages_per_block.div_ceil(64)).map(|word| self.word(block, word).count_ones()).sum()
    }

    /// Fetches a page's bit into the processor's cache.
    #[inline(always)]
    pub fn prefetch(&self, ppn: Ppn) {
        flash::prefetch(&self.words, ppn.index() / 64);
    }

    /// Bytes of RAM.
    pub fn memory(&self, g: &Geometry) -> u64 {
        u64::from(g.page_count()).div_ceil(8)
    }

    /// Saves the bits.
    pub fn save(&self, g: &Geometry, out: &mut Saver) {
        for byte in 0..(g.page_count() as usize).div_ceil(8) {
            out.u8((self.words[byte / 8] >> (byte % 8 * 8)) as u8);
        }
    }

    /// Loads what [`PageBits::save`] saved.
    pub fn load(g: &Geometry, from: &mut Loader<'_>) -> PageBits {
        let mut bits = PageBits::new(g);
        for byte in 0..(g.page_count() as usize).div_ceil(8) {
            bits.words[byte / 8] |= u64::from(from.u8()) << (byte % 8 * 8);
        }
        bits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_of_a_block_are_its_own() {
        for p in [4, 32, 64, 256] {
            let g = Geometry { blocks_per_die: 4, pages_per_block: p, ..Geometry::default() }.checked().unwrap();
            let mut bits = PageBits::new(&g);
            let block = Block(2);
            for offset in [0, 1, p - 1] {
                bits.set(g.page(block, offset));
            }
            assert_eq!((bits.count(block), bits.end(block), bits.next_zero(block, 0)), (3, p, Some(2)));
            assert_eq!(bits.next_zero(block, p - 1), None);
            assert_eq!([0, 1, 3].map(|other| bits.count(Block(other))), [0; 3]);
            let mut saver = Saver::default();
            bits.save(&g, &mut saver);
            let bytes = saver.finish();
            assert!(bytes.len() as u64 <= bits.memory(&g));
            assert_eq!(PageBits::load(&g, &mut Loader::new(&bytes)).words, bits.words);
            bits.fill(block, true);
            assert_eq!((bits.count(block), bits.next_zero(block, 0)), (p, None));
            bits.fill(block, false);
            assert_eq!((bits.count(block), bits.end(block), bits.next_zero(block, 0)), (0, 0, Some(0)));
        }
    }
}

//! Which pages of a block share their cells.
//!
//! A cell of several bits holds one bit of each of several pages: the pages of a *word line*. A program of one of them
//! moves the charge that holds the others, so power that fails during it may take pages that were programmed long ago
//! (docs/fault-model.md). In which order a block's pages visit the word lines is the chip's matter: [`Pairing`] names
//! the orders that are known here, and [`Pairs`] is one of them for a block.

use crate::Geometry;
use alloc::vec::Vec;

/// An order in which the pages of a block share cells.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Pairing {
    /// Cells of one bit, or a chip that programs all pages of a word line at once, or nobody asks.
    #[default]
    Off,
    /// Each page of a word line follows when the page before it has been programmed on the next word line: of two bits
    /// the pairs are 0 and 2, 1 and 4, 3 and 6, and so on, three apart but for the first and the last. Two bits:
    /// `nand_pairing_dist3_get_info` of `drivers/mtd/nand/raw/nand_base.c` in Linux. Three and four bits: assumed to go
    /// on in the same way (0, 2 and 5; 1, 4 and 8; 3, 7 and 11).
    Shadow,
    /// Pages of a word line one behind the other: 0 and 1, 2 and 3. Assumed, as the simplest order.
    Adjacent,
}

impl Pairing {
    /// Every order.
    pub const ALL: [Pairing; 3] = [Pairing::Off, Pairing::Shadow, Pairing::Adjacent];

    /// The word used on the command line, in device files and in images.
    pub const fn name(self) -> &'static str {
        match self {
            Pairing::Off => "off",
            Pairing::Shadow => "shadow",
            Pairing::Adjacent => "adjacent",
        }
    }
}

/// The pages of a block by word line. Pages that are left over where the bits of a cell do not divide the pages of a
/// block share their cells with none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pairs {
    /// The word line of each page.
    word_line: Vec<u32>,
    /// The pages of each word line, in the order in which they are programmed.
    pages: Vec<Vec<u32>>,
}

impl Pairs {
    /// Of a block of this shape, not in SLC mode.
    pub fn new(geometry: &Geometry) -> Pairs {
        let (pages, bits) = (geometry.pages_per_block, geometry.bits_per_cell);
        let full = if geometry.pairs == Pairing::Off { 0 } else { pages / bits };
        let mut word_line = Vec::with_capacity(pages as usize);
        match geometry.pairs {
            Pairing::Off => {}
            Pairing::Shadow => {
                for diagonal in 0..full + bits - 1 {
                    let lines = (0..bits).filter_map(|bit| diagonal.checked_sub(bit).filter(|&line| line < full));
                    word_line.extend(lines);
                }
            }
            Pairing::Adjacent => word_line.extend((0..full * bits).map(|page| page / bits)),
        }
        let alone = pages - word_line.len() as u32;
        word_line.extend(full..full + alone);
        let mut by_line = alloc::vec![Vec::new(); (full + alone) as usize];
        for (page, &line) in (0..).zip(&word_line) {
            by_line[line as usize].push(page);
        }
        Pairs { word_line, pages: by_line }
    }

    /// The other pages of a page's word line, by their offsets in the block, ascending.
    pub fn partners(&self, offset: u32) -> impl Iterator<Item = u32> + '_ {
        let line = self.word_line[offset as usize];
        self.pages[line as usize].iter().copied().filter(move |&page| page != offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(pairs: Pairing, bits_per_cell: u32, pages_per_block: u32) -> Vec<Vec<u32>> {
        let g = Geometry { pairs, bits_per_cell, pages_per_block, ..Geometry::default() }.checked().unwrap();
        Pairs::new(&g).pages
    }

    /// The first and the last pairs of Linux's distance-3 scheme: a page that is odd or 0 is the lower page of pair
    /// (page + 1) / 2, any other page the upper one of pair (page + 1 - d) / 2, with d = 2 for the last page, else 3.
    #[test]
    fn shadow_pairs_of_two_bits_are_those_of_linux() {
        for pages in [4u32, 8, 256] {
            let mut of = alloc::vec![Vec::new(); pages as usize / 2];
            for page in 0..pages {
                let distance = if page == pages - 1 { 2 } else { 3 };
                let is_lower = page == 0 || page % 2 == 1;
                // The last page is odd, and yet an upper one.
                let pair = match is_lower && page != pages - 1 {
                    true => page.div_ceil(2),
                    false => (page + 1 - distance) / 2,
                };
                of[pair as usize].push(page);
            }
            assert_eq!(pairs(Pairing::Shadow, 2, pages), of);
        }
    }

    #[test]
    fn pages_of_three_bits_share_cells_in_threes() {
        let of = pairs(Pairing::Shadow, 3, 16);
        assert_eq!(of[..3], [[0, 2, 5], [1, 4, 8], [3, 7, 11]]);
        assert_eq!(of[4..], [alloc::vec![9, 12, 14], alloc::vec![15]]);
        assert_eq!(
            pairs(Pairing::Adjacent, 3, 8),
            [alloc::vec![0, 1, 2], alloc::vec![3, 4, 5], [6].into(), [7].into()]
        );
    }

    #[test]
    fn without_pairs_every_page_is_alone() {
        let g = Geometry { pages_per_block: 8, bits_per_cell: 2, ..Geometry::default() }.checked().unwrap();
        assert!((0..8).all(|page| Pairs::new(&g).partners(page).next().is_none()));
    }
}

//! What a mount finds of a scheme whose blocks hold host pages alone, or numbered pages of metadata: the census of its
//! blocks, and which copy of each page counts (`parts/copies.rs`).

use crate::parts::census::{Census, Health, Kept};
use crate::parts::copies::Copies;
use crate::{MountReport, Outcome};
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use flash::{Block, Flash, Geometry, Kind, Lpn, Ppn};

/// See the module's description.
#[derive(Debug)]
pub struct Holdings {
    /// The blocks.
    pub census: Census,
    /// The pages: each logical one by its LPN, behind them the pages of metadata.
    pub copies: Copies,
    logical_pages: u32,
}

impl Holdings {
    /// Reads the device, spare areas as they are `kept`; blocks are filled from their first page on if they are
    /// `in_order`. Of a page of metadata with `address` the newest watermark counts.
    ///
    /// # Errors
    /// The medium's.
    pub fn take<F: Flash>(
        flash: &mut F,
        kept: impl Into<Kept>,
        logical_pages: u32,
        metadata: u32,
        in_order: bool,
    ) -> Outcome<F, Holdings> {
        let mut copies = Copies::new(*flash.geometry(), (logical_pages + metadata) as usize);
        let census = Census::scan(flash, kept.into(), in_order, |pages, health| {
            for (ppn, oob) in pages {
                let address = match oob.kind {
                    Kind::Data | Kind::Log | Kind::Trim if oob.address < logical_pages => oob.address,
                    Kind::Translation if oob.address < metadata => logical_pages + oob.address,
                    _ => continue,
                };
                match health {
                    Health::Sound => copies.consider(address as usize, *ppn, oob),
                    Health::Unreadable => copies.consider_damaged(address as usize, *ppn, oob),
                }
            }
        })?;
        Ok(Holdings { census, copies, logical_pages })
    }

    /// All blocks that hold something that counts, the one begun last first: to be asked which are not needed.
    pub fn settle(&mut self) -> Vec<Block> {
        let begun = |block: Block| self.census.blocks[block.index()].map_or(0, |found| found.first_program);
        self.copies.settle(begun)
    }

    /// Where each logical page lies that does.
    pub fn pages(&self) -> impl Iterator<Item = (Lpn, Ppn)> + '_ {
        let logical = self.copies.pages().take_while(|&(page, _)| page < self.logical_pages);
        logical.map(|(page, ppn)| (Lpn(page), ppn))
    }

    /// Where a page lies.
    pub fn page(&self, lpn: Lpn) -> Option<Ppn> {
        Some(self.copies.get(lpn.0)?.ppn)
    }

    /// Where a page of metadata lies.
    pub fn metadata(&self, address: u32) -> Option<Ppn> {
        Some(self.copies.get(self.logical_pages + address)?.ppn)
    }

    /// The one of some pages that was programmed last among the copies that count.
    pub fn head(&self, lpns: Range<u32>) -> Option<Ppn> {
        self.copies.last(lpns).map(|copy| copy.ppn)
    }

    /// Blocks that hold a copy that counts.
    pub fn blocks_in_use(&self, g: &Geometry) -> Vec<bool> {
        let mut used = vec![false; g.block_count() as usize];
        self.copies.pages().for_each(|(_, ppn)| used[g.block_of(ppn).index()] = true);
        used
    }

    /// What a mount reports of it.
    pub fn report(&self) -> MountReport {
        self.census.report()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flash::{Cause, Full, Nand, NoData, Oob, Payload};

    /// Copies are newer than what they are of, so the block begun last is asked first whether it is needed.
    #[test]
    fn blocks_are_asked_in_the_order_of_their_first_programs_the_last_one_first() {
        let g = Geometry { blocks_per_die: 4, pages_per_block: 4, ..Geometry::default() }.checked().unwrap();
        let mut chip = Nand::<NoData, Full>::new(g);
        // Block 2 is begun first and filled last; block 3 holds nothing that counts.
        for (number, (lpn, block, page)) in (1..).zip([(3, 3, 0), (0, 2, 0), (1, 0, 0), (3, 1, 0), (2, 2, 1)]) {
            let oob = Oob::data(Lpn(lpn), number, number);
            let Ok(()) = chip.program(g.page(Block(block), page), oob, Payload::User(&()), Cause::Host);
        }
        let Ok(mut found) = Holdings::take(&mut chip, None, 4, 0, true) else { panic!("a sound chip") };
        assert_eq!(found.settle(), [Block(1), Block(0), Block(2)]);
    }
}

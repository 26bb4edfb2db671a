//! The shape of a device and the arithmetic of its addresses.

use crate::{Block, Die, Pairing, Ppn};
use core::fmt;

/// In which order the pages of a block may be programmed (docs/fault-model.md).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ProgramOrder {
    /// Any blank page: old small-block SLC.
    Any,
    /// Each page must lie above every programmed page of its block; gaps stay unusable until the erase.
    Ascending,
    /// Exactly the next page: all MLC, TLC and large-block SLC.
    #[default]
    Strict,
}

impl ProgramOrder {
    /// The word used on the command line and in device files.
    pub const fn name(self) -> &'static str {
        match self {
            ProgramOrder::Any => "any",
            ProgramOrder::Ascending => "ascending",
            ProgramOrder::Strict => "strict",
        }
    }
}

/// A device's shape. Blocks are numbered die by die (see [`Die`] for the order of dies), pages block by block.
///
/// Build one by filling the fields and calling [`Geometry::checked`]; the derived shifts and reciprocals are private.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// Channels: buses that transfer independently.
    pub channels: u32,
    /// Chips (packages) on each channel.
    pub chips: u32,
    /// Dies in each chip: the unit that executes one command at a time.
    pub dies: u32,
    /// Planes in each die. Blocks of a die are dealt over its planes in turn.
    pub planes: u32,
    /// Blocks in each die, over all its planes.
    pub blocks_per_die: u32,
    /// Pages in each block; a power of two.
    pub pages_per_block: u32,
    /// Data bytes of a page; a power of two, at least 512.
    pub page_bytes: u32,
    /// Spare bytes of a page.
    pub oob_bytes: u32,
    /// Program order that the chip enforces.
    pub order: ProgramOrder,
    /// Programs of one page allowed between two erases, the first included (NOP).
    pub nop: u32,
    /// Bits that a cell holds, 1 to 4. With more than one, blocks can be programmed in SLC mode.
    pub bits_per_cell: u32,
    /// The NOP of pages in SLC mode.
    pub slc_nop: u32,
    /// Which pages of a block share their cells, where anybody asks.
    pub pairs: Pairing,
    /// Worked out by [`Geometry::checked`]; leave it at its default.
    pub derived: Derived,
}

/// A shift and a reciprocal that make address arithmetic cheap.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Derived {
    page_shift: u32,
    die_magic: u64,
}

/// Fraction bits of the reciprocal. Block numbers have at most 27 bits, so the quotient is exact as long as the
/// reciprocal is not more than 2^-27 of its value too large, which 63 bits give for any number of blocks.
const MAGIC_BITS: u32 = 63;

/// Why a geometry was refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GeometryError {
    /// The field that is wrong.
    pub field: &'static str,
    /// What it was.
    pub value: u64,
    /// What it may be.
    pub range: &'static str,
}

impl fmt::Display for GeometryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {}, but must be {}", self.field, self.value, self.range)
    }
}

impl core::error::Error for GeometryError {}

impl Default for Geometry {
    /// One channel, chip, die and plane of 1024 blocks of 64 pages of 4 KiB, strict order, one program per page.
    fn default() -> Self {
        let mut plain = Geometry {
            channels: 1,
            chips: 1,
            dies: 1,
            planes: 1,
            blocks_per_die: 1024,
            pages_per_block: 64,
            page_bytes: 4096,
            oob_bytes: 128,
            order: ProgramOrder::Strict,
            nop: 1,
            bits_per_cell: 1,
            slc_nop: 4,
            pairs: Pairing::Off,
            derived: Derived::default(),
        };
        plain.derive();
        plain
    }
}

impl Geometry {
    /// The largest number of physical pages: page numbers are packed into 28 bits beside the page's kind.
    pub const MAX_PAGES: u64 = (1 << 28) - 1;

    fn derive(&mut self) {
        self.derived.page_shift = self.pages_per_block.trailing_zeros();
        self.derived.die_magic = (1 << MAGIC_BITS) / u64::from(self.blocks_per_die) + 1;
    }

    /// Checks every field and completes the derived ones.
    ///
    /// # Errors
    /// The first field that is out of its range.
    pub fn checked(mut self) -> Result<Geometry, GeometryError> {
        let fault = |field, value: u32, range| Err(GeometryError { field, value: u64::from(value), range });
        for (field, value) in
            [("channels", self.channels), ("chips", self.chips), ("dies", self.dies), ("planes", self.planes)]
        {
            if value == 0 || value > 1024 {
                return fault(field, value, "1 to 1024");
            }
        }
        if self.blocks_per_die == 0 {
            return fault("blocks per die", 0, "at least 1");
        }
        if !self.pages_per_block.is_power_of_two() || !(2..=8192).contains(&self.pages_per_block) {
            return fault("pages_per_block", self.pages_per_block, "a power of two from 2 to 8192");
        }
        if !self.page_bytes.is_power_of_two() || !(512..=1 << 20).contains(&self.page_bytes) {
            return fault("page", self.page_bytes, "a power of two from 512 to 1048576 bytes");
        }
        for (field, value) in [("nop", self.nop), ("slc_nop", self.slc_nop)] {
            if value == 0 || value > 64 {
                return fault(field, value, "1 to 64");
            }
        }
        if !(1..=4).contains(&self.bits_per_cell) {
            return fault("bits per cell", self.bits_per_cell, "1 to 4");
        }
        let pages = u64::from(self.channels)
            * u64::from(self.chips)
            * u64::from(self.dies)
            * u64::from(self.blocks_per_die)
            * u64::from(self.pages_per_block);
        if pages > Self::MAX_PAGES {
            return Err(GeometryError {
                field: "physical pages",
                value: pages,
                range: "at most 268435455 (use larger pages or a smaller capacity)",
            });
        }
        self.derive();
        Ok(self)
    }

    /// Dies of the whole device.
    #[inline(always)]
    pub const fn die_count(&self) -> u32 {
        self.channels * self.chips * self.dies
    }

    /// Blocks of the whole device.
    #[inline(always)]
    pub const fn block_count(&self) -> u32 {
        self.die_count() * self.blocks_per_die
    }

    /// Pages of the whole device.
    #[inline(always)]
    pub const fn page_count(&self) -> u32 {
        self.block_count() * self.pages_per_block
    }

    /// Pages of a block in SLC mode: one bit of each cell, and at least one page.
    #[inline(always)]
    pub const fn slc_pages(&self) -> u32 {
        let pages = self.pages_per_block / self.bits_per_cell;
        if pages == 0 { 1 } else { pages }
    }

    /// Map entries in a translation page: 4 bytes each.
    #[inline(always)]
    pub const fn entries_per_page(&self) -> u32 {
        self.page_bytes / 4
    }

    /// The block of a page.
    #[inline(always)]
    pub const fn block_of(&self, ppn: Ppn) -> Block {
        Block(ppn.0 >> self.derived.page_shift)
    }

    /// The page's place in its block.
    #[inline(always)]
    pub const fn offset_of(&self, ppn: Ppn) -> u32 {
        ppn.0 & (self.pages_per_block - 1)
    }

    /// Page `offset` of a block.
    #[inline(always)]
    pub const fn page(&self, block: Block, offset: u32) -> Ppn {
        Ppn((block.0 << self.derived.page_shift) + offset)
    }

    /// The die of a block: an exact division by multiplication with a 64-bit reciprocal.
    #[inline(always)]
    pub const fn die_of(&self, block: Block) -> Die {
        Die(((block.0 as u128 * self.derived.die_magic as u128) >> MAGIC_BITS) as u32)
    }

    /// The channel of a die.
    #[inline(always)]
    pub const fn channel_of(&self, die: Die) -> u32 {
        die.0 / (self.chips * self.dies)
    }

    /// The plane of a block, within its die.
    #[inline]
    pub const fn plane_of(&self, block: Block) -> u32 {
        (block.0 - self.die_of(block).0 * self.blocks_per_die) % self.planes
    }

    /// The blocks of a die, as a range of block numbers.
    pub const fn blocks_of(&self, die: Die) -> core::ops::Range<u32> {
        let first = die.0 * self.blocks_per_die;
        first..first + self.blocks_per_die
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn die_division_is_exact_for_odd_sizes() {
        for blocks_per_die in [1, 2, 3, 7, 1000, 1153, 65_537] {
            let g = Geometry { channels: 3, dies: 5, blocks_per_die, pages_per_block: 2, ..Geometry::default() }
                .checked()
                .unwrap();
            for block in (0..g.block_count()).step_by(1 + g.block_count() as usize / 5000) {
                assert_eq!(g.die_of(Block(block)).0, block / blocks_per_die);
            }
            assert_eq!(g.die_of(Block(g.block_count() - 1)).0, g.die_count() - 1);
        }
    }

    #[test]
    fn refuses_each_bad_field_by_name() {
        let g = Geometry::default();
        for (bad, field) in [
            (Geometry { channels: 0, ..g }, "channels"),
            (Geometry { pages_per_block: 48, ..g }, "pages_per_block"),
            (Geometry { page_bytes: 3000, ..g }, "page"),
            (Geometry { nop: 0, ..g }, "nop"),
            (Geometry { slc_nop: 65, ..g }, "slc_nop"),
            (Geometry { bits_per_cell: 5, ..g }, "bits per cell"),
            (Geometry { blocks_per_die: 1 << 30, ..g }, "physical pages"),
        ] {
            assert_eq!(bad.checked().unwrap_err().field, field);
        }
    }

    #[test]
    fn in_slc_mode_a_block_has_a_page_for_each_cell() {
        let pages = |pages_per_block, bits_per_cell| {
            Geometry { pages_per_block, bits_per_cell, ..Geometry::default() }.checked().unwrap().slc_pages()
        };
        assert_eq!((pages(256, 1), pages(256, 2), pages(256, 3), pages(256, 4), pages(2, 3)), (256, 128, 85, 64, 1));
    }

    #[test]
    fn pages_and_blocks_round_trip() {
        let g = Geometry::default();
        let ppn = g.page(Block(17), 5);
        assert_eq!((g.block_of(ppn), g.offset_of(ppn)), (Block(17), 5));
    }
}

//! Where everything stands in the file: areas one behind the other, all of them found from the geometry alone.

use flash::{Block, Geometry, Ppn};

/// Unit that areas are aligned to.
pub(crate) const UNIT: u64 = 4096;
/// Bytes of a block's entry in a table.
pub(crate) const ENTRY: u64 = 16;
/// Bytes of a page's record: a divisor of [`UNIT`], so that no record lies across two pages of the host's cache.
pub(super) const RECORD: u64 = 64;

/// Byte offsets in the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Layout {
    /// The two copies of the block table.
    pub(super) tables: [u64; 2],
    /// Page records.
    pub(super) records: u64,
    /// Page data.
    pub(super) data: u64,
    /// Spare areas, `oob_bytes` a page: what a scheme keeps of its own in them, and behind that the parity of an
    /// error-correcting code.
    pub(super) spares: u64,
    /// End of the flash; a checkpoint stands behind it.
    pub(super) end: u64,
    page_bytes: u64,
    oob_bytes: u64,
    pages_per_block: u64,
}

impl Layout {
    /// Copies of the header.
    pub(super) const HEADERS: [u64; 2] = [0, UNIT];
    /// The state.
    pub(super) const STATE: u64 = 2 * UNIT;
    /// The totals.
    pub(super) const TOTALS: u64 = Self::STATE + 512;

    pub(super) fn new(g: &Geometry) -> Layout {
        let up = |bytes: u64, unit: u64| bytes.div_ceil(unit) * unit;
        let pages = u64::from(g.page_count());
        let page_bytes = u64::from(g.page_bytes);
        let table = up(u64::from(g.block_count()) * ENTRY, UNIT);
        let first = 3 * UNIT;
        let records = first + 2 * table;
        let data = up(records + pages * RECORD, UNIT.max(page_bytes));
        let spares = up(data + pages * page_bytes, UNIT);
        let end = up(spares + pages * u64::from(g.oob_bytes), UNIT);
        Layout {
            tables: [first, first + table],
            records,
            data,
            spares,
            end,
            page_bytes,
            oob_bytes: u64::from(g.oob_bytes),
            pages_per_block: u64::from(g.pages_per_block),
        }
    }

    pub(super) fn entry(&self, copy: usize, block: Block) -> u64 {
        self.tables[copy] + u64::from(block.0) * ENTRY
    }

    pub(super) fn record(&self, ppn: Ppn) -> u64 {
        self.records + u64::from(ppn.0) * RECORD
    }

    pub(super) fn block_records(&self, block: Block) -> u64 {
        self.records + u64::from(block.0) * self.pages_per_block * RECORD
    }

    pub(super) fn page(&self, ppn: Ppn) -> u64 {
        self.data + u64::from(ppn.0) * self.page_bytes
    }

    pub(super) fn spare(&self, ppn: Ppn) -> u64 {
        self.spares + u64::from(ppn.0) * self.oob_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_follow_each_other_without_overlap() {
        for (page_bytes, pages_per_block, blocks) in [(512, 4, 3), (4096, 64, 1024), (16384, 256, 77)] {
            let g = Geometry { page_bytes, pages_per_block, blocks_per_die: blocks, ..Geometry::default() };
            let g = g.checked().unwrap();
            let l = Layout::new(&g);
            let (last_block, last_page) = (Block(g.block_count() - 1), Ppn(g.page_count() - 1));
            assert!(l.entry(0, last_block) + ENTRY <= l.tables[1] && l.entry(1, last_block) + ENTRY <= l.records);
            assert!(l.record(last_page) + RECORD <= l.data && l.page(last_page) + u64::from(page_bytes) <= l.spares);
            assert!(l.spare(last_page) + u64::from(g.oob_bytes) <= l.end);
            assert!(l.data.is_multiple_of(u64::from(page_bytes)) && l.records.is_multiple_of(UNIT));
            assert_eq!(l.block_records(Block(1)), l.record(g.page(Block(1), 0)));
        }
    }
}

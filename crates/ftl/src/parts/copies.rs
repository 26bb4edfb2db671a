//! Which copy of each logical page counts, for a mount of a scheme that fills blocks with what belongs together.
//!
//! The newest version, and of equal versions the copy that was programmed last. With one exception, for *copies that
//! were not finished*: a collection, merge, swap or move copies pages into one block at a time, and erases no source
//! before all of it is done. So a block is not needed if everything that counts in it exists in the same version in
//! blocks that hold something else that counts as well: it is the target of such work that was cut short, or what is
//! left of one that was given up before and whose erase was cut. Without it no more blocks are in use than before the
//! work began; what it was for begins anew, with all the room that it had. So power cuts in a row use up no block.
//!
//! Of several other copies the one programmed last counts then, among those in blocks that hold something else: it is
//! the one that counted before.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;
use flash::{Block, Geometry, Oob, Ppn};

const NONE: u32 = u32::MAX;

/// A copy of a page.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Copy {
    /// Its program number.
    pub program: u64,
    /// Where it lies.
    pub ppn: Ppn,
}

const MISSING: Copy = Copy { program: 0, ppn: Ppn(NONE) };

#[derive(Clone, Copy, Debug)]
struct Newest {
    version: u64,
    copy: Copy,
}

/// See the module's description. Pages go by a number that the scheme chooses, most often the LPN.
#[derive(Clone, Debug)]
pub struct Copies {
    g: Geometry,
    newest: Vec<Newest>,
    /// Other copies of a page's newest version.
    others: BTreeMap<u32, Vec<Copy>>,
    /// Pages that count in each block; empty until all have been considered.
    held: Vec<Vec<u32>>,
}

impl Copies {
    /// Of so many pages, none found yet.
    pub fn new(g: Geometry, pages: usize) -> Copies {
        Copies {
            g,
            newest: vec![Newest { version: 0, copy: MISSING }; pages],
            others: BTreeMap::new(),
            held: Vec::new(),
        }
    }

    /// A copy was found.
    pub fn consider(&mut self, page: usize, ppn: Ppn, oob: &Oob) {
        let Some(newest) = self.newest.get_mut(page) else { return };
        let copy = Copy { program: oob.program, ppn };
        if newest.copy == MISSING || oob.version > newest.version {
            if newest.copy != MISSING {
                self.others.remove(&(page as u32));
            }
            *newest = Newest { version: oob.version, copy };
        } else if oob.version == newest.version {
            let older = newest.copy.min(copy);
            newest.copy = newest.copy.max(copy);
            self.others.entry(page as u32).or_default().push(older);
        }
    }

    /// A copy was found that cannot be read, when all others were: it counts if there is none of its version.
    pub fn consider_damaged(&mut self, page: usize, ppn: Ppn, oob: &Oob) {
        if self.newest.get(page).is_some_and(|newest| newest.copy == MISSING || oob.version > newest.version) {
            self.consider(page, ppn, oob);
        }
    }

    /// All were considered: the blocks that hold something that counts, the one begun last first, for copies are newer
    /// than what they are of. `begun` is the program number of a block's first page.
    pub fn settle(&mut self, begun: impl Fn(Block) -> u64) -> Vec<Block> {
        self.held = vec![Vec::new(); self.g.block_count() as usize];
        for (page, newest) in self.newest.iter().enumerate().filter(|(_, newest)| newest.copy != MISSING) {
            self.held[self.g.block_of(newest.copy.ppn).index()].push(page as u32);
        }
        let mut blocks: Vec<Block> =
            (0..self.g.block_count()).map(Block).filter(|&block| self.is_used(block)).collect();
        blocks.sort_by_key(|&block| Reverse(begun(block)));
        blocks
    }

    /// Whether a block holds something that counts.
    pub fn is_used(&self, block: Block) -> bool {
        !self.held[block.index()].is_empty()
    }

    /// The copy of a page that would count without that block.
    fn elsewhere(&self, page: u32, block: Block) -> Option<Copy> {
        let lies = |copy: &&Copy| {
            let there = self.g.block_of(copy.ppn);
            there != block && self.is_used(there)
        };
        self.others.get(&page)?.iter().filter(lies).max().copied()
    }

    /// Gives a block up, if it is not needed; whether it was.
    pub fn give_up(&mut self, block: Block) -> bool {
        let held = &self.held[block.index()];
        if held.is_empty() || !held.iter().all(|&page| self.elsewhere(page, block).is_some()) {
            return false;
        }
        for page in core::mem::take(&mut self.held[block.index()]) {
            let other = self.elsewhere(page, block).expect("just seen");
            self.newest[page as usize].copy = other;
            self.held[self.g.block_of(other.ppn).index()].push(page);
        }
        true
    }

    /// Where each page lies that does.
    pub fn pages(&self) -> impl Iterator<Item = (u32, Ppn)> + '_ {
        let found =
            |(page, newest): (usize, &Newest)| (newest.copy != MISSING).then_some((page as u32, newest.copy.ppn));
        self.newest.iter().enumerate().filter_map(found)
    }

    /// The one of some pages that was programmed last among the copies that count.
    pub fn last(&self, pages: core::ops::Range<u32>) -> Option<Copy> {
        pages.filter_map(|page| self.get(page)).max()
    }

    /// The copy of a page that counts.
    pub fn get(&self, page: u32) -> Option<Copy> {
        Some(self.newest[page as usize].copy).filter(|&copy| copy != MISSING)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flash::Lpn;

    /// Four pages a block. Copies as page, version, block, offset; program numbers in that order.
    fn found(copies: &[(u32, u64, u32, u32)]) -> Copies {
        let g = Geometry { blocks_per_die: 8, pages_per_block: 4, ..Geometry::default() }.checked().unwrap();
        let mut found = Copies::new(g, 8);
        for (&(page, version, block, offset), program) in copies.iter().zip(1..) {
            found.consider(page as usize, g.page(Block(block), offset), &Oob::data(Lpn(page), version, program));
        }
        let blocks = found.settle(|block| {
            let of = copies.iter().zip(1..).find(|((_, _, of, _), _)| *of == block.0);
            of.map_or(0, |(_, program)| program)
        });
        for block in blocks {
            found.give_up(block);
        }
        found
    }

    fn blocks(found: &Copies) -> Vec<u32> {
        found.pages().map(|(_, ppn)| found.g.block_of(ppn).0).collect()
    }

    #[test]
    fn the_newest_version_counts_and_of_equal_ones_what_was_programmed_last() {
        // Block 1 takes pages 0 and 1 of block 0, and a newer version of page 2.
        let found = found(&[(0, 1, 0, 0), (1, 2, 0, 1), (2, 3, 0, 2), (3, 4, 0, 3), (0, 1, 1, 0), (2, 5, 1, 1)]);
        assert_eq!(blocks(&found), [1, 0, 1, 0]);
    }

    #[test]
    fn copies_alone_are_given_up_also_where_an_earlier_target_is_left() {
        // Blocks 1 and 2 both took pages 0 and 1 of block 0, which holds page 2 as well.
        let found =
            found(&[(0, 1, 0, 0), (1, 2, 0, 1), (2, 3, 0, 2), (0, 1, 1, 0), (1, 2, 1, 1), (0, 1, 2, 0), (1, 2, 2, 1)]);
        assert_eq!(blocks(&found), [0, 0, 0]);
        assert!(!found.is_used(Block(1)) && !found.is_used(Block(2)));
    }

    #[test]
    fn work_that_was_finished_stays_and_its_source_is_not_needed() {
        let found = found(&[(0, 1, 0, 0), (1, 2, 0, 1), (0, 1, 1, 0), (1, 2, 1, 1)]);
        assert_eq!(blocks(&found), [1, 1]);
        assert!(!found.is_used(Block(0)));
    }

    #[test]
    fn what_counted_before_the_copy_counts_again() {
        // Page 0 went from block 0 to block 1, beside page 1, and from there to block 2.
        let copies = [(0, 1, 0, 0), (2, 2, 0, 1), (0, 1, 1, 0), (1, 3, 1, 1), (0, 1, 2, 0)];
        assert_eq!(blocks(&found(&copies)), [1, 1, 0]);
    }

    /// Each of two blocks holds an older copy of what counts in the other: one of them is given up, and it is the one
    /// begun last.
    #[test]
    fn of_two_blocks_that_hold_the_same_the_one_begun_last_is_given_up() {
        let found = found(&[(1, 2, 0, 0), (0, 1, 1, 0), (0, 1, 0, 1), (1, 2, 1, 1)]);
        assert_eq!(blocks(&found), [0, 0]);
    }

    #[test]
    fn the_page_that_was_programmed_last_is_told() {
        let found = found(&[(0, 1, 0, 0), (2, 2, 0, 1), (1, 3, 1, 0), (3, 4, 2, 0)]);
        let last = |pages| found.last(pages).map(|copy| (copy.program, found.g.block_of(copy.ppn).0));
        assert_eq!([last(0..3), last(0..1), last(2..4), last(4..8)], [Some((3, 1)), Some((1, 0)), Some((4, 2)), None]);
    }
}

//! Which copy of each logical page counts, for a mount of a scheme whose blocks hold host pages alone.
//!
//! The newest version, and of equal versions the copy that was programmed last. With one exception: a collection or
//! merge copies pages into one block, which is not needed before it is done, and erases nothing until then. If
//! everything that counts in the block programmed last lies elsewhere too, in the same version, it is such a block, and
//! may be dropped: what it was for begins anew, with all the room that it had before. So power cuts in a row use up no
//! block.

use crate::parts::census::Census;
use crate::{Error, MountReport};
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use flash::{Block, Flash, Geometry, Kind, Lpn, Oob, Ppn};

const NONE: u32 = u32::MAX;

/// A copy of a page.
#[derive(Clone, Copy, Debug)]
struct Copy {
    program: u64,
    ppn: u32,
}

/// The copies of a page's newest version that were programmed last and last but one.
#[derive(Clone, Copy, Debug)]
struct Newest {
    version: u64,
    last: Copy,
    before: Copy,
}

const MISSING: Copy = Copy { program: 0, ppn: NONE };
const NOTHING: Newest = Newest { version: 0, last: MISSING, before: MISSING };

impl Newest {
    fn consider(&mut self, ppn: Ppn, oob: &Oob) {
        let copy = Copy { program: oob.program, ppn: ppn.0 };
        if oob.version > self.version {
            *self = Newest { version: oob.version, last: copy, before: MISSING };
        } else if oob.version == self.version && copy.program > self.last.program {
            (self.last, self.before) = (copy, self.last);
        } else if oob.version == self.version && copy.program > self.before.program {
            self.before = copy;
        }
    }
}

/// See the module's description.
#[derive(Clone, Debug)]
pub struct Holdings {
    /// The blocks.
    pub census: Census,
    newest: Vec<Newest>,
    /// The page with the largest program number of all.
    last: Option<Ppn>,
}

impl Holdings {
    /// Reads the device.
    ///
    /// # Errors
    /// The medium's.
    pub fn take<F: Flash>(flash: &mut F, logical_pages: u32) -> Result<Holdings, Error<F::Fault>> {
        let mut newest = vec![NOTHING; logical_pages as usize];
        let mut last: Option<(u64, Ppn)> = None;
        let census = Census::take(flash, |pages| {
            for (ppn, oob) in pages {
                last = last.max(Some((oob.program, *ppn)));
                let holds = matches!(oob.kind, Kind::Data | Kind::Log | Kind::Trim);
                if let Some(newest) = newest.get_mut(oob.address as usize).filter(|_| holds) {
                    newest.consider(*ppn, oob);
                }
            }
        })?;
        Ok(Holdings { census, newest, last: last.map(|(_, ppn)| ppn) })
    }

    /// The block programmed last, if everything that counts in it lies elsewhere too.
    pub fn unfinished(&self, g: &Geometry) -> Option<Block> {
        let block = g.block_of(self.last?);
        let inside = |copy: Copy| copy.ppn != NONE && g.block_of(Ppn(copy.ppn)) == block;
        let mut held = self.newest.iter().filter(|newest| inside(newest.last));
        held.all(|newest| newest.before.ppn != NONE && !inside(newest.before)).then_some(block)
    }

    /// The copies in that block do not count.
    pub fn give_up(&mut self, block: Block, g: &Geometry) {
        let inside = |copy: Copy| copy.ppn != NONE && g.block_of(Ppn(copy.ppn)) == block;
        self.newest.iter_mut().filter(|newest| inside(newest.last)).for_each(|newest| newest.last = newest.before);
    }

    /// Where each page lies that does.
    pub fn pages(&self) -> impl Iterator<Item = (Lpn, Ppn)> + '_ {
        let found = |(lpn, newest): (usize, &Newest)| {
            (newest.last.ppn != NONE).then_some((Lpn(lpn as u32), Ppn(newest.last.ppn)))
        };
        self.newest.iter().enumerate().filter_map(found)
    }

    /// Where a page lies.
    pub fn page(&self, lpn: Lpn) -> Option<Ppn> {
        let ppn = self.newest[lpn.index()].last.ppn;
        (ppn != NONE).then_some(Ppn(ppn))
    }

    /// The one of some pages that was programmed last among the copies that count.
    pub fn head(&self, lpns: Range<u32>) -> Option<Ppn> {
        let copies = self.newest[lpns.start as usize..lpns.end as usize].iter().map(|newest| newest.last);
        let head = copies.filter(|copy| copy.ppn != NONE).max_by_key(|copy| copy.program)?;
        Some(Ppn(head.ppn))
    }

    /// Blocks that hold a copy that counts.
    pub fn blocks_in_use(&self, g: &Geometry) -> Vec<bool> {
        let mut used = vec![false; g.block_count() as usize];
        self.pages().for_each(|(_, ppn)| used[g.block_of(ppn).index()] = true);
        used
    }

    /// What a mount reports of it.
    pub fn report(&self) -> MountReport {
        let Census { pages, torn, bad, .. } = &self.census;
        MountReport { pages: *pages, torn: *torn, restored: 0, bad_blocks: bad.len() as u64 }
    }
}

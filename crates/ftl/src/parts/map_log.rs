//! A small log of numbered metadata pages: a page is written anew at the end, and RAM knows where each lies.
//!
//! It has blocks of its own, of a pool that it shares with others: enough for all pages, a quarter more, a block, and
//! one for what a collection copies. What it does not have at the moment the others must leave free for it
//! ([`MapLog::owed`]), so that it never waits for them.
//!
//! When it has all but the last of these blocks and the newest is full, the emptiest is collected. The blocks hold a
//! page for each number, the live one, and room for at least a block more, so that the emptiest has a page that is
//! dead: its live ones fit into the last block with room to spare, and it is erased. So each collection ends with room
//! for a page at least, and with the blocks that there were before.
//!
//! A page's version is the program number that it got when its contents were written; copies keep it. The newest
//! counts. A mount takes the pages over as it found them (`parts/copies.rs`); blocks partly filled are filled no
//! further. What the pages say it finds without them, so one that cannot be read is let go, by whoever meets it first:
//! the mount that reads one after the other, or a collection that makes room for that.

use crate::parts::holdings::Holdings;
use crate::parts::pool::Pool;
use crate::{Error, Loader, Outcome, Saver};
use alloc::vec;
use alloc::vec::Vec;
use flash::{Block, Cause, FaultKind, Flash, FlashFault, Geometry, Oob, Payload, Ppn, Tvpn};

const NONE: u32 = u32::MAX;

/// See the module's description.
#[derive(Clone, Debug)]
pub(crate) struct MapLog {
    g: Geometry,
    /// Where each page lies.
    at: Vec<u32>,
    /// The blocks, in the order in which they were begun.
    blocks: Vec<Block>,
    /// The block that is being filled, and its next page.
    filling: Option<(Block, u32)>,
    /// Blocks with which the emptiest is collected before another is begun.
    most: u32,
    /// Pages from this one on a mount has not read yet.
    unread: u32,
    /// Blocks collected.
    pub victims: u64,
}

impl MapLog {
    /// Of `pages` pages, none written yet.
    pub(crate) fn new(g: Geometry, pages: u32) -> MapLog {
        let most = (pages + pages / 4).div_ceil(g.pages_per_block) + 1;
        MapLog { g, at: vec![NONE; pages as usize], blocks: Vec::new(), filling: None, most, unread: pages, victims: 0 }
    }

    /// Blocks that it takes at the most.
    pub(crate) fn most_blocks(&self) -> u32 {
        self.most + 1
    }

    /// Free blocks that are to be left for it.
    pub(crate) fn owed(&self) -> u32 {
        self.most_blocks().saturating_sub(self.blocks.len() as u32)
    }

    /// Blocks that it has.
    pub(crate) fn block_count(&self) -> u32 {
        self.blocks.len() as u32
    }

    /// Whether a block is one of them.
    pub(crate) fn has(&self, block: Block) -> bool {
        self.blocks.contains(&block)
    }

    /// Where a page lies, if it was ever written.
    pub(crate) fn page(&self, page: u32) -> Option<Ppn> {
        let ppn = self.at[page as usize];
        (ppn != NONE).then_some(Ppn(ppn))
    }

    /// Writes a page. `edit` gets its words: `words` blank ones if all of them are `new`, or if it was never written,
    /// else those that it had.
    ///
    /// # Errors
    /// Full, or the medium's; the page is what it was.
    pub(crate) fn write<F: Flash>(
        &mut self,
        flash: &mut F,
        pool: &mut Pool,
        page: u32,
        (words, new): (usize, bool),
        edit: impl Fn(&mut [u32]),
        cause: Cause,
    ) -> Outcome<F> {
        loop {
            if self.filling.is_none_or(|(_, next)| next == self.g.pages_per_block) {
                self.make_room(flash, pool)?;
            }
            let to = self.next_page(flash, pool)?;
            let number = pool.number_for(flash, to);
            let before = self.page(page);
            let result = match before.filter(|_| !new) {
                Some(from) => {
                    let edit = |oob: &mut Oob, words: &mut [u32]| {
                        (oob.version, oob.program) = (number, number);
                        edit(words);
                    };
                    flash.copy(from, to, cause, edit).map(|_| ())
                }
                None => {
                    let mut blank = vec![u32::MAX; words];
                    edit(&mut blank);
                    flash.program(to, Oob::translation(Tvpn(page), number, number), Payload::Meta(&blank), cause)
                }
            };
            if self.programmed(pool, page, to, result)? {
                return Ok(());
            }
        }
    }

    /// A page was to be programmed to `to`. False if that failed.
    fn programmed<X: FlashFault>(
        &mut self,
        pool: &mut Pool,
        page: u32,
        to: Ppn,
        result: Result<(), X>,
    ) -> Result<bool, Error<X>> {
        match result {
            Ok(()) => {
                self.page(page).into_iter().for_each(|before| pool.blocks.kill(before));
                pool.blocks.revive(to);
                self.at[page as usize] = to.0;
                Ok(true)
            }
            Err(fault) if fault.kind() == FaultKind::ProgramFailed => {
                pool.fail(self.g.block_of(to));
                self.filling = None;
                Ok(false)
            }
            Err(fault) => Err(fault.into()),
        }
    }

    /// The next page of the block that is being filled, or the first of a new one.
    fn next_page<F: Flash>(&mut self, flash: &mut F, pool: &mut Pool) -> Outcome<F, Ppn> {
        let (block, next) = match self.filling.filter(|&(_, next)| next < self.g.pages_per_block) {
            Some(filling) => filling,
            None => {
                let block = pool.take(flash)?;
                self.blocks.push(block);
                (block, 0)
            }
        };
        self.filling = Some((block, next + 1));
        Ok(self.g.page(block, next))
    }

    /// The newest block is full: collects if there are as many as there may be.
    fn make_room<F: Flash>(&mut self, flash: &mut F, pool: &mut Pool) -> Outcome<F> {
        self.filling = None;
        if (self.blocks.len() as u32) < self.most {
            return Ok(());
        }
        let live = |block: &Block| (pool.blocks.live_of(*block), block.0);
        let emptiest = self.blocks.iter().copied().min_by_key(live).expect("it has blocks");
        if pool.blocks.live_of(emptiest) == self.g.pages_per_block {
            return Err(Error::Full);
        }
        self.collect(flash, pool, emptiest, Cause::TranslationGc)
    }

    /// Copies the live pages of a block to where pages are written, and erases it.
    ///
    /// # Errors
    /// Full, or the medium's; every page is where the map says.
    pub(crate) fn collect<F: Flash>(
        &mut self,
        flash: &mut F,
        pool: &mut Pool,
        block: Block,
        cause: Cause,
    ) -> Outcome<F> {
        self.filling = self.filling.filter(|&(filling, _)| filling != block);
        while let Some(offset) = pool.blocks.next_live(block, 0) {
            let from = self.g.page(block, offset);
            if let Some(page) = self.unread_at(from)
                && !matches!(flash.read(from, Cause::Recovery)?.1, Payload::Meta(_))
            {
                self.let_go(pool, page);
                continue;
            }
            let to = self.next_page(flash, pool)?;
            let (number, mut page) = (pool.number_for(flash, to), NONE);
            let edit = |oob: &mut Oob, _: &mut [u32]| (oob.program, page) = (number, oob.address);
            let result = flash.copy(from, to, cause, edit).map(|_| ());
            if result.is_ok() {
                assert_eq!(self.page(page), Some(from), "map page {page} is live in two places");
            }
            self.programmed(pool, page, to, result)?;
        }
        self.blocks.retain(|&other| other != block);
        self.victims += u64::from(cause == Cause::TranslationGc);
        pool.dispose(flash, block, cause)
    }

    /// A mount has read a page, or found that it cannot be read; the next one is another.
    pub(crate) fn was_read(&mut self, pool: &mut Pool, page: u32, is_lost: bool) {
        self.unread = page + 1;
        if is_lost {
            self.let_go(pool, page);
        }
    }

    /// The page that lies here, if a mount has not read it yet.
    fn unread_at(&self, ppn: Ppn) -> Option<u32> {
        (self.unread..self.at.len() as u32).find(|&page| self.page(page) == Some(ppn))
    }

    /// A page that cannot be read is as if it had never been written.
    fn let_go(&mut self, pool: &mut Pool, page: u32) {
        self.page(page).into_iter().for_each(|ppn| pool.blocks.kill(ppn));
        self.at[page as usize] = NONE;
    }

    /// While mounting, after [`Pool::adopt`]: takes over what was found. Then come calls of [`MapLog::was_read`], for
    /// one page after the other.
    pub(crate) fn adopt(&mut self, pool: &mut Pool, found: &Holdings) {
        self.unread = 0;
        for page in 0..self.at.len() as u32 {
            let Some(ppn) = found.metadata(page) else { continue };
            self.at[page as usize] = ppn.0;
            pool.blocks.revive(ppn);
            let block = self.g.block_of(ppn);
            if !self.blocks.contains(&block) {
                self.blocks.push(block);
            }
        }
        let begun = |block: &Block| found.census.blocks[block.index()].map_or(0, |found| found.first_program);
        self.blocks.sort_by_key(begun);
    }

    /// Controller RAM, bytes.
    pub(crate) fn memory(&self) -> u64 {
        self.at.len() as u64 * 4 + 4 + u64::from(self.most_blocks().max(self.block_count())) * 4 + 8
    }

    /// Saves the state.
    pub(crate) fn save(&self, out: &mut Saver) {
        self.at.iter().for_each(|&ppn| out.u32(ppn));
        out.u32(self.blocks.len() as u32);
        self.blocks.iter().for_each(|block| out.u32(block.0));
        let (block, next) = self.filling.map_or((NONE, 0), |(block, next)| (block.0, next));
        out.u32(block);
        out.u32(next);
    }

    /// Loads what [`MapLog::save`] saved into a new one.
    pub(crate) fn load(&mut self, from: &mut Loader<'_>) {
        self.at.iter_mut().for_each(|ppn| *ppn = from.u32());
        self.blocks = (0..from.u32()).map(|_| Block(from.u32())).collect();
        let (block, next) = (from.u32(), from.u32());
        self.filling = (block != NONE).then_some((Block(block), next));
    }
}

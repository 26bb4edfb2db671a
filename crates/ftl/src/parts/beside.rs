//! What is done beside a request, and what has to follow it.
//!
//! Nobody waits for what a collection moves, or for the rewrite of a page that is read often: these run beside the
//! request that set them off, on any die. Two things must not come before them all the same, were power to fail in
//! between:
//!
//! - a page of a map that names a page which was moved: the name would lead to a blank page;
//! - an erase of what was superseded in another scope: nothing of it would be left. A collection waits for its own
//!   moves. It does not for rewrites and conversions, for records of discards that another collection has written, for
//!   one that failed and is begun anew, nor, where its block is one of a map, for pages of the map.
//!
//! [`Beside`] remembers, for the present request, when each moved page is on flash, and when all is done.

use alloc::vec::Vec;
use core::ops::Range;
use flash::{Chain, Collection, Flash, Ppn};

/// Runs of moved pages that are told apart: those beyond count as named by whatever is written. What was done is told
/// apart up to as many times.
const MOST: usize = 64;

/// See the module's description. Not saved: between two requests nothing has to follow.
#[derive(Clone, Default, Debug)]
pub struct Beside {
    /// All that was done.
    done: Vec<Chain>,
    /// Runs of pages, by PPN, that what is open now moves to.
    open: Vec<Range<u32>>,
    /// Runs of moved pages, and what has to end before they are on flash.
    moved: Vec<(Range<u32>, Chain)>,
    /// What was done supersedes pages of blocks of data, too: their erases wait for it.
    erases_wait: bool,
}

impl Beside {
    /// Another request begins, or another operation of the host.
    #[inline(always)]
    pub fn clear(&mut self) {
        if !self.done.is_empty() {
            self.forget();
        }
    }

    #[cold]
    fn forget(&mut self) {
        self.done.clear();
        self.moved.clear();
        self.erases_wait = false;
    }

    /// Pages of the host are moved to these pages.
    #[inline]
    pub fn moves_to(&mut self, pages: Range<u32>) {
        match self.open.last_mut() {
            Some(last) if last.end == pages.start => last.end = pages.end,
            _ => self.open.push(pages),
        }
    }

    /// What was moved since the last call is on flash when this has ended.
    pub fn moved(&mut self, by: Chain) {
        let room = MOST - self.moved.len();
        self.moved.extend(self.open.drain(..).take(room).map(|run| (run, by)));
    }

    /// Something is about to be `done` that supersedes pages of blocks of data.
    pub fn supersedes(&mut self) {
        self.erases_wait = true;
    }

    /// A collection has ended, or a slice of it, or a rewrite or another scope, which may supersede pages of data.
    pub fn done<F: Flash>(&mut self, flash: &mut F, by: Chain, supersedes: bool) {
        self.erases_wait |= supersedes;
        if self.done.len() < MOST {
            self.done.push(by);
        } else {
            let mut both = Collection::resume(flash, self.done[MOST - 1]);
            Collection::resume(&mut *both, by).wait();
            self.done[MOST - 1] = both.pause();
        }
    }

    /// The present chain is about to write a page of a map that names these pages: it goes on when they are on flash.
    #[inline(always)]
    pub fn before_map<F: Flash>(&self, flash: &mut F, named: impl Iterator<Item = Ppn>) {
        if !self.moved.is_empty() {
            self.before_names(flash, named);
        }
    }

    #[cold]
    fn before_names<F: Flash>(&self, flash: &mut F, named: impl Iterator<Item = Ppn>) {
        if self.moved.len() == MOST {
            self.wait_for_all(flash);
            flash.chain(Chain::AFTER);
            return;
        }
        let mut awaited = [false; MOST];
        for ppn in named {
            // A block may have been filled, emptied and filled again: the last run counts.
            let Some(run) = self.moved.iter().rposition(|(run, _)| run.contains(&ppn.0)) else { continue };
            if !core::mem::replace(&mut awaited[run], true) {
                Collection::resume(flash, self.moved[run].1).wait();
            }
        }
        if awaited.contains(&true) {
            flash.chain(Chain::AFTER);
        }
    }

    /// The next stage of a collection is the erase of a block, of a map or of data.
    pub fn before_erase<F: Flash>(&self, gc: &mut Collection<'_, F>, of_map: bool) {
        if of_map || self.erases_wait {
            self.wait_for_all(&mut **gc);
        }
        gc.then();
    }

    fn wait_for_all<F: Flash>(&self, flash: &mut F) {
        for &done in &self.done {
            Collection::resume(flash, done).wait();
        }
    }
}

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
    /// Runs of pages, by PPN, that were moved to since the last call of [`Beside::moved`].
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

    /// What is open supersedes pages of blocks of data, in a way that their collections do not know of.
    pub fn supersedes(&mut self) {
        self.erases_wait = true;
    }

    /// What was open has ended: a collection, a slice of it, a rewrite, or another scope.
    pub fn done<F: Flash>(&mut self, flash: &mut F, by: Chain) {
        self.moved(by);
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

#[cfg(test)]
mod tests {
    use super::*;
    use flash::device::{CellTimes, PageTimes, Server, Timing};
    use flash::{Block, Brief, Cause, Clocked, Geometry, Lpn, Nand, NoData, Oob, Payload, Timeline};

    type Chip = Timeline<Nand<NoData, Brief>>;

    const PROGRAM: u64 = 100;
    const ERASE: u64 = 1000;

    /// Two dies, each command on the cells alone, which are idle; a page of the host has begun.
    fn chip() -> Chip {
        let g = Geometry { dies: 2, blocks_per_die: 8, pages_per_block: 64, ..Geometry::default() };
        let cells = CellTimes {
            read_ns: 10,
            oob_read_ns: 10,
            program_ns: PROGRAM,
            partial_program_ns: PROGRAM,
            erase_ns: ERASE,
        };
        let page = PageTimes { read_ns: cells.read_ns, program_ns: PROGRAM };
        let CellTimes { read_ns, oob_read_ns, program_ns, partial_program_ns, erase_ns } = cells;
        let timing = Timing {
            read_ns,
            oob_read_ns,
            program_ns,
            partial_program_ns,
            erase_ns,
            page_transfer_ns: 0,
            oob_transfer_ns: 0,
            slc: cells,
            low_cost: page,
            medium: page,
        };
        let mut chip = Timeline::new(Nand::new(g.checked().unwrap()), timing, Server::Parallel);
        chip.reset();
        chip.arrive(0);
        chip.page_begin();
        chip
    }

    fn program(flash: &mut Chip, page: u32) {
        flash.program(Ppn(page), Oob::data(Lpn(page), 1, page.into()), Payload::User(&()), Cause::Host).unwrap();
    }

    /// Programs these pages in a scope that nobody waits for.
    fn moves(flash: &mut Chip, beside: &mut Beside, pages: Range<u32>) {
        let mut scope = Collection::on(flash);
        for page in pages {
            program(&mut scope, page);
            beside.moves_to(page..page + 1);
        }
        let by = scope.pause();
        beside.done(flash, by);
    }

    /// When a page on die 1 that names a page has ended, with what is done on die 0.
    fn ends(flash: &mut Chip, beside: &Beside, named: u32) -> u64 {
        beside.before_map(flash, [Ppn(named), Ppn::NONE].into_iter());
        program(flash, 8 * 64);
        flash.page_end().end_ns
    }

    #[test]
    fn a_map_waits_for_the_moved_pages_that_it_names_and_for_no_other() {
        for (named, expected) in [(0, 2 * PROGRAM), (1, 3 * PROGRAM), (2, PROGRAM)] {
            let (mut flash, mut beside) = (chip(), Beside::default());
            moves(&mut flash, &mut beside, 0..1);
            moves(&mut flash, &mut beside, 1..2);
            assert_eq!(ends(&mut flash, &beside, named), expected, "page {named}");
        }
        let (mut flash, mut beside) = (chip(), Beside::default());
        moves(&mut flash, &mut beside, 0..2);
        beside.clear();
        assert_eq!(ends(&mut flash, &beside, 0), PROGRAM, "another request");
    }

    #[test]
    fn of_two_moves_to_one_page_the_last_counts() {
        let (mut flash, mut beside) = (chip(), Beside::default());
        moves(&mut flash, &mut beside, 0..1);
        let mut scope = Collection::on(&mut flash);
        scope.then();
        scope.erase(Block(0), Cause::DataGc).unwrap();
        program(&mut scope, 0);
        beside.moves_to(0..1);
        let by = scope.pause();
        beside.done(&mut flash, by);
        assert_eq!(ends(&mut flash, &beside, 0), 3 * PROGRAM + ERASE);
    }

    /// Runs that are told apart no more are waited for whatever is named.
    #[test]
    fn no_move_is_forgotten_however_many_there_are() {
        for (runs, expected) in [(MOST - 1, PROGRAM), (MOST, (MOST as u64 + 1) * PROGRAM), (MOST + 2, 67 * PROGRAM)] {
            let (mut flash, mut beside) = (chip(), Beside::default());
            // Every page is a run of its own: the next one lies in another block.
            for run in 0..runs as u32 {
                moves(&mut flash, &mut beside, (run % 2 * 64 + run / 2)..(run % 2 * 64 + run / 2 + 1));
            }
            assert_eq!(ends(&mut flash, &beside, 5 * 64), expected, "{runs} runs");
        }
    }

    #[test]
    fn an_erase_waits_for_what_supersedes_its_pages() {
        for (of_map, supersedes, waits) in [(false, false, 0), (true, false, PROGRAM), (false, true, PROGRAM)] {
            let (mut flash, mut beside) = (chip(), Beside::default());
            if supersedes {
                beside.supersedes();
            }
            moves(&mut flash, &mut beside, 0..1);
            let mut gc = Collection::on(&mut flash);
            beside.before_erase(&mut gc, of_map);
            gc.erase(Block(8), Cause::DataGc).unwrap();
            gc.wait();
            assert_eq!(flash.page_end().end_ns, waits + ERASE, "{of_map} {supersedes}");
        }
    }
}

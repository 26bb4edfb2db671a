//! `fab`: flash-aware buffer (Jo et al. 2006).
//!
//! The problem: a log-block scheme merges a block for every few pages of it that come apart. FAB therefore flushes the
//! block of which it holds the most pages, so that each merge carries as many of them as can be had. Of groups of one
//! size the least recently used goes. The victim's pages are written in ascending order, one request for each run, and
//! the group is gone. A page that was read is served from the buffer but not taken into it: it holds writes alone.
//!
//! Departures: the group of the page that is being written never goes, as in SimpleSSDsim; a hit of a read counts as
//! use of its group.

use super::groups::Groups;
use super::{BufferPolicy, BufferRow, Victim};
use crate::{Loader, Saver};
use alloc::boxed::Box;
use flash::Lpn;

/// The row.
pub(super) const ROW: BufferRow = BufferRow {
    name: "fab",
    summary: "gathers writes by block and flushes the block of which it holds the most pages",
    paper: "{fab}",
    parameters: &[],
    gathers_blocks: true,
    pads: false,
    make: |shape, _| Box::new(Fab { most_groups: shape.pages, groups: Groups::new(shape.pages_per_block, true) }),
};

#[derive(Clone, Debug)]
struct Fab {
    most_groups: u32,
    groups: Groups,
}

impl BufferPolicy for Fab {
    fn admit(&mut self, lpn: Lpn, _: bool) {
        self.groups.use_page(lpn, true, true);
    }

    fn hit(&mut self, lpn: Lpn, write: bool) {
        self.groups.use_page(lpn, write, false);
    }

    fn remove(&mut self, lpn: Lpn) {
        self.groups.remove(lpn);
    }

    fn victim(&self, coming: Option<Lpn>) -> Option<Victim> {
        let (block, _) = self.groups.victim(coming)?;
        Some(Victim::Block { first: self.groups.first_of(block), pad: false })
    }

    fn pages(&self) -> u32 {
        self.groups.pages()
    }

    fn most_groups(&self) -> u32 {
        self.most_groups
    }

    fn save(&self, out: &mut Saver) {
        self.groups.save(out);
    }

    fn load(&mut self, from: &mut Loader<'_>) {
        self.groups.load(from);
    }

    fn boxed(&self) -> Box<dyn BufferPolicy + Send> {
        Box::new(self.clone())
    }
}

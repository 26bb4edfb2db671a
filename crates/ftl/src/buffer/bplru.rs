//! `bplru`: block padding least recently used (Kim and Ahn 2008).
//!
//! The problem: even a block's worth of pages that comes together costs a log-block scheme a full merge, if some pages
//! of the block are missing. BPLRU completes them: the block that was written least recently is the victim, its other
//! pages are read from flash (*page padding*), and all of it is handed down as one aligned request, which costs such a
//! scheme a switch merge. Only writes count as use: reads of a page in the buffer are served and change nothing.
//!
//! *LRU compensation*: a block that was written from its first page to its last in order will hardly be written again
//! soon, and needs no padding; it goes before all others.
//!
//! Departures: pages that hold nothing cannot be padded, and neither can pages that flash cannot correct; the request
//! then falls into the runs between them and is not block-level. `buffer-pad-min` pads only blocks of which so many
//! pages are resident (SimpleSSDsim: half a block); it reads pages where it does not pad, which looks like a slip and
//! is not followed.

use super::groups::Groups;
use super::{BufferPolicy, BufferRow, Victim};
use crate::{Loader, Parameter, Saver};
use alloc::boxed::Box;
use flash::Lpn;

/// `buffer-pad-min`: when to pad.
const PAD_MIN: Parameter = Parameter::count("buffer-pad-min", 1, 1..=1 << 20)
    .unit("pages")
    .text(
        "A block is padded if at least so many of its pages are resident. 1 pads always; more than a block has pages \
         never pads, which saves reads and costs merges.",
    )
    .source("1: {bplru}; half a block: SimpleSSDsim");

/// The row.
pub(super) const ROW: BufferRow = BufferRow {
    name: "bplru",
    summary: "gathers writes by block and flushes the least recently written one whole, padded with pages read",
    paper: "{bplru}",
    parameters: &[PAD_MIN],
    gathers_blocks: true,
    pads: true,
    make: |shape, settings| {
        Box::new(Bplru {
            pages_per_block: shape.pages_per_block,
            most_groups: shape.pages,
            pad_min: settings.count(&PAD_MIN),
            groups: Groups::new(shape.pages_per_block, false),
        })
    },
};

#[derive(Clone, Debug)]
struct Bplru {
    pages_per_block: u32,
    most_groups: u32,
    pad_min: u64,
    groups: Groups,
}

impl Bplru {
    fn written(&mut self, lpn: Lpn, new: bool) {
        self.groups.use_page(lpn, true, new);
        if self.groups.of(lpn).is_some_and(|group| group.in_order == self.pages_per_block) {
            self.groups.demote(lpn);
        }
    }
}

impl BufferPolicy for Bplru {
    fn admit(&mut self, lpn: Lpn, _: bool) {
        self.written(lpn, true);
    }

    fn hit(&mut self, lpn: Lpn, write: bool) {
        if write {
            self.written(lpn, false);
        }
    }

    fn remove(&mut self, lpn: Lpn) {
        self.groups.remove(lpn);
    }

    fn victim(&self, coming: Option<Lpn>) -> Option<Victim> {
        let (block, group) = self.groups.victim(coming)?;
        let pad = u64::from(group.pages) >= self.pad_min;
        Some(Victim::Block { first: self.groups.first_of(block), pad })
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

//! `block`: a block map and nothing else.
//!
//! The problem: a map of every page takes RAM in proportion to the pages. This is the least that a translation layer
//! can do with, and what the others are measured against: a page has one place, offset LPN mod P in the data block of
//! logical block LPN / P. A page whose place is taken cannot be overwritten, so its logical block moves: what is live
//! is copied to a free block, the new page takes its place among the copies, and the old block is erased. A write of
//! one page costs as much as one of P.
//!
//! ```text
//!             ┌─ blank place ──▶ data block
//!  write ─────┤
//!             └─ taken ──▶ [new block]  pages before it copied, then the pages of the request
//!                                │ the request leaves the logical block
//!                                ▼
//!                          the rest copied, new block is the data block, old one erased
//! ```
//!
//! # Structures
//!
//! RAM: 4 B for each logical block, 2 bits for each physical page, and the block that is being rewritten. Flash: LPN,
//! version and program number in every spare area.
//!
//! # Costs
//!
//! A write is a program, a read a read. A request that overwrites n pages of a logical block costs P - n copies and an
//! erase.
//!
//! # Choices
//!
//! A scheme acknowledges pages, but hosts write requests. With `rewrite = request` the copying stops where a page of
//! the announced request follows, and goes on when the request has left the logical block or something else comes
//! between. Until then the old block keeps what was not copied or overwritten yet, and the log area, one block large,
//! is the new one: reads find a page in either, and a power cut leaves both. With `rewrite = page` each page pays for
//! its own rewriting.
//!
//! # Departures
//!
//! Pages before the first that is overwritten are copied first, whatever the chip's order: all orders cost the same. A
//! rewriting that a power cut found unfinished is finished by the mount, with a full merge. In the table of counters
//! the pages that cause rewritings are log pages, and a rewriting is a partial merge, or a switch merge if no copy was
//! left to make at its end.

use crate::hybrid::{Announced, Area, Core, Hybrid, MERGE_COUNTERS, Strategy, Write, erase_obsolete, log::Slot};
use crate::{ConfigError, Error, Loader, Outcome, Parameter, Saver, Scheme, Settings};
use alloc::vec;
use alloc::vec::Vec;
use flash::{Cause, Flash, Kind, Lbn, Lpn};

const REWRITE: Parameter = Parameter::word("rewrite", "request", &["request", "page"])
    .text(
        "What pays for one rewriting of a logical block. request: all pages of a request in the block share one. \
         page: each page pays for its own.",
    )
    .source("ftlab");

const COUNTERS: &[(&str, &str)] = &[("rewritings", "logical blocks that began to move to another block")];

/// The row.
pub(super) static ROW: Scheme = Scheme {
    name: "block",
    summary: "block map alone: an overwritten page moves its whole logical block",
    paper: "baseline of the log-buffer schemes ({rose}, section 2.2, {dftl})",
    essay: include_str!("block.rs"),
    own: &[REWRITE],
    counters: &[MERGE_COUNTERS, COUNTERS],
    ..crate::hybrid::parameters::ROW
};

/// The scheme.
pub type BlockMap = Hybrid<Rewriting>;

/// See the module's description.
#[derive(Clone, Debug)]
pub struct Rewriting {
    batches: bool,
    request: Announced,
    /// The block that a logical block is moving to.
    moving: Option<(Slot, Lbn)>,
    rewritings: u64,
}

impl Rewriting {
    /// Finishes a rewriting: what the new block lacks is copied in, and the old one is erased.
    fn finish<F: Flash>(&mut self, core: &mut Core, flash: &mut F) -> Outcome<F> {
        if let Some((slot, lbn)) = self.moving {
            let merged = core.merge_block(flash, slot, lbn, &mut None, &mut erase_obsolete);
            if merged.is_ok() || core.has_given_up(slot) {
                self.moving = None;
            }
            merged?;
        }
        Ok(())
    }

    /// Writes a page to the block that its logical block is moving to, behind copies of the pages before it. False if a
    /// program failed.
    fn go_on<F: Flash>(&mut self, core: &mut Core, flash: &mut F, slot: Slot, page: Write<'_, F>) -> Outcome<F, bool> {
        let (lbn, offset) = core.split(page.lpn);
        let (first, from) = (core.lpns(lbn).start, core.written.end(core.slots.block(slot)));
        let copied = core.in_merge(flash, |core, gc| {
            for before in from..offset {
                let page = Lpn(first + before);
                if !core.move_to_log(&mut **gc, (slot, before), page, Kind::Data, Cause::MergePartial)? {
                    return Ok(false);
                }
            }
            Ok(true)
        })?;
        if !copied {
            return Ok(false);
        }
        core.append(flash, slot, offset, Kind::Data, page)
    }

    /// Whether the next page of the announced request goes to the same logical block.
    fn goes_on(&self, core: &Core, lpn: Lpn) -> bool {
        let next = Lpn(lpn.0 + 1);
        let announced = self.request.contains(lpn) && self.request.contains(next);
        self.batches && announced && core.lpns(core.split(lpn).0).contains(&next.0)
    }
}

impl Strategy for Rewriting {
    fn area(_: &Settings) -> Area {
        Area { least: 1, most: 1, own_places: true, log_blocks: 0, victims: None }
    }

    fn new(_: &Core, settings: &Settings) -> Result<Self, ConfigError> {
        let batches = settings.word(&REWRITE) == "request";
        Ok(Rewriting { batches, request: Announced::default(), moving: None, rewritings: 0 })
    }

    fn request(&mut self, _: &Core, first: Lpn, pages: u32) {
        self.request = Announced::new(first, pages);
    }

    #[inline]
    fn write<F: Flash>(&mut self, core: &mut Core, flash: &mut F, page: Write<'_, F>) -> Outcome<F> {
        let (lbn, offset) = core.split(page.lpn);
        loop {
            let mut to = None;
            if let Some((slot, owner)) = self.moving {
                if owner == lbn && offset >= core.written.end(core.slots.block(slot)) {
                    to = Some(slot);
                } else {
                    self.finish(core, flash)?;
                }
            }
            let slot = match to {
                Some(slot) => slot,
                None if core.write_to_data(flash, page)? => return Ok(()),
                None => {
                    if core.slots.in_use() >= core.log_limit() {
                        return Err(Error::Full);
                    }
                    let slot = core.begin_log_block(flash)?;
                    self.moving = Some((slot, lbn));
                    self.rewritings += 1;
                    slot
                }
            };
            if self.go_on(core, flash, slot, page)? {
                break;
            }
            // What the block holds that failed is copied on at once, for there is no second one.
            self.moving = None;
            core.tidy(flash)?;
        }
        if self.goes_on(core, page.lpn) {
            return Ok(());
        }
        match self.finish(core, flash) {
            // The page is written. Whoever needs the block next hears that the device is full.
            Err(Error::Full) => Ok(()),
            other => other,
        }
    }

    fn interrupt<F: Flash>(&mut self, core: &mut Core, flash: &mut F) -> Outcome<F> {
        self.finish(core, flash)
    }

    fn settle<F: Flash>(&mut self, core: &mut Core, flash: &mut F) -> Outcome<F> {
        while self.clean(core, flash)? {}
        Ok(())
    }

    fn clean<F: Flash>(&mut self, core: &mut Core, flash: &mut F) -> Outcome<F, bool> {
        let Some(slot) = core.slots.oldest() else { return Ok(false) };
        core.clean(flash, slot, &mut erase_obsolete)?;
        Ok(true)
    }

    fn held(&self) -> Vec<Slot> {
        self.moving.iter().map(|&(slot, _)| slot).collect()
    }

    fn memory(&self, _: &Core) -> Vec<(&'static str, u64)> {
        vec![("request and rewriting", 16)]
    }

    fn save(&self, _: &Core, out: &mut Saver) {
        let (slot, lbn) = self.moving.unwrap_or((Slot::NONE, Lbn(0)));
        out.u32(slot.0);
        out.u32(lbn.0);
        self.request.save(out);
    }

    fn load(&mut self, _: &Core, from: &mut Loader<'_>) {
        let (slot, lbn) = (Slot(from.u32()), Lbn(from.u32()));
        self.moving = (slot != Slot::NONE).then_some((slot, lbn));
        self.request = Announced::load(from);
    }

    fn counters(&self, _: &Core) -> Vec<(&'static str, u64)> {
        vec![("rewritings", self.rewritings)]
    }

    fn reset_counters(&mut self) {
        self.rewritings = 0;
    }
}

#[cfg(test)]
mod tests;

//! `rose`: entire-block writing, merge-aware round robin, and free page reuse.
//!
//! The problem: of what log blocks cost, three parts can be saved (the ROSE thesis, chapter 3). Sequential log blocks
//! guess which writes are sequential, and guess wrong. Round robin cleans the oldest log block, though another may be
//! cheaper to merge. And a merge erases data blocks that have blank pages left.
//!
//! - *Entire-block writing* (EBW) guesses nothing: where a request covers a logical block whole, its pages go to a free
//!   block, which becomes the data block. Everything else goes to log blocks that any page may go to.
//! - *Merge-aware round robin* (MARO) cleans the log block with the largest score: its age, less what merging it costs.
//!   The scores are kept up to date as pages come and die.
//! - *Free page reuse* (FPR): a data block that a merge or an entire-block write has made obsolete takes the live pages
//!   of the emptiest full log block, if it has more blank pages than that has live ones, and takes its place in the log
//!   area; that log block is erased instead.
//!
//! ```text
//!  request ──▶ whole logical blocks ──▶ free block ═▶ data block;  the old one is obsolete ──┐
//!     └─ other pages ──▶ blank place in the data block, else ──▶ log block                   ▼
//!                                   log full: MARO victim ─ full merges ─▶ obsolete blocks: FPR, or erase
//! ```
//!
//! # Structures
//!
//! RAM: as `fast`, and for each log block its score and the logical blocks that it has pages of. Flash: as `fast`. A
//! block that was reused holds data pages, all dead, and log pages; what is live decides what it is.
//!
//! # Costs
//!
//! An entire-block write costs its programs and an erase, which free page reuse may put off. Cleaning a log block with
//! live pages of n logical blocks costs their live pages as copies, and n + 1 erases. A swap costs as many copies as
//! the log block had live pages, and gains more blank pages than that. A page write changes the scores of the log
//! blocks that its logical block has pages in; `score_updates` counts them.
//!
//! # Choices
//!
//! `ebw`, `fpr` and `log-victim` switch the techniques one by one. dpc in equation 3 is taken as the live *log* pages
//! of a logical block (their number is what is copied), not the dead pages of its data block. Age counts erases of log
//! blocks since a log block was begun. The thesis sets its weight to 1 and names no unit: here an erase of any log
//! block weighs as much as a microsecond of merging, the unit of its costs, or as much as `maro-age-unit` says. Reused
//! blocks are filled before erased ones, the first reused first. A request that is broken off in the middle of a
//! logical block is completed by copies, as a partial merge. The same strategy over data blocks that are appended to is
//! `rose-log`, and `hybridlog` if it has none of the techniques.
//!
//! # Departures
//!
//! Two blocks are kept free and not one. A logical block is begun to be written whole only when the merges before it
//! have ended on flash, so that a power cut with several commands under way finds one such block unfinished and not
//! two. No marker is programmed into a reused block without live pages: a mount finds nothing live in it and frees it.
//! After a mount, blank pages of blocks found in use are not reused until the block is erased, and ages are those of
//! the order in which log blocks were begun.

use crate::hybrid::ages::LOG_AGES;
use crate::hybrid::{
    self, Announced, Area, Core, Filling, Hybrid, MERGE_COUNTERS, Strategy, Write, log::Slot, parameters,
    placement::Placement,
};
use crate::{ConfigError, Error, Loader, Outcome, Parameter, Saver, Scheme, Settings, Value};
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use flash::{Block, Cause, Chain, Collection, Flash, Kind, Lbn, Lpn};

pub(super) const EBW: Parameter = Parameter::switch("ebw", true)
    .text(
        "Entire-block writing: a logical block that one request covers whole is written to a free block of its own. \
         On saves the merge.",
    )
    .source("{rose}, section 3.2");

pub(super) const FPR: Parameter = Parameter::switch("fpr", true)
    .text(
        "Free page reuse: blank pages of an obsolete data block take the live pages of the emptiest log block, if \
         that pays. On saves erases and costs copies.",
    )
    .source("{rose}, section 3.4");

pub(super) const COUNTERS: &[(&str, &str)] = &[
    ("entire_blocks", "logical blocks written whole"),
    ("entire_block_pages", "host pages written that way"),
    ("broken_off", "whole writes that the host broke off, completed by copies"),
    ("swaps", "obsolete blocks that took the place of a log block"),
    ("swap_copies", "live pages copied by swaps"),
    ("swap_pages", "blank pages gained by swaps, copies taken off"),
    ("obsolete_blocks", "data blocks made obsolete, whether they could be reused or not"),
    ("score_updates", "scores changed"),
    ("scores_refreshed", "scores looked at to find the maximum of a cluster of 64 anew"),
    ("maxima_compared", "cluster maxima compared by cleanings"),
];

/// The row.
pub(super) static ROW: Scheme = Scheme {
    name: "rose",
    summary: "block map and log blocks, with entire-block writing, merge-aware round robin and free page reuse",
    paper: "{rose}, chapter 3",
    essay: include_str!("rose.rs"),
    own: &[
        parameters::LOG_BLOCKS,
        EBW,
        FPR,
        parameters::LOG_VICTIM.at(Value::Word("maro")),
        parameters::AGE_WEIGHT,
        parameters::AGE_UNIT,
        parameters::ALPHA,
        parameters::COPY_COST,
        parameters::ERASE_COST,
        LOG_AGES,
    ],
    counters: &[MERGE_COUNTERS, COUNTERS],
    phases: &[
        Cause::Host,
        Cause::DataGc,
        Cause::MergeSwitch,
        Cause::MergePartial,
        Cause::MergeFull,
        Cause::Swap,
        Cause::WearLevelling,
        Cause::Metadata,
        Cause::Recovery,
    ],
    ..parameters::ROW
};

/// The scheme.
pub type Rose = Hybrid<Techniques>;

#[derive(Clone, Copy, Default, Debug)]
struct Counters {
    blocks: u64,
    pages: u64,
    broken_off: u64,
    swaps: u64,
    swap_copies: u64,
    swap_pages: u64,
    obsolete: u64,
}

/// A logical block being written whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Entire {
    slot: Slot,
    lbn: Lbn,
    next: u32,
}

/// See the module's description.
#[derive(Clone, Debug)]
pub struct Techniques {
    /// Whether the scheme has them, on or off.
    listed: bool,
    policy: &'static str,
    ebw: bool,
    fpr: bool,
    request: Announced,
    entire: Option<Entire>,
    filling: Filling,
    /// Reused blocks with blank pages, in the order of their swaps.
    reused: VecDeque<Slot>,
    /// All merges and cleanings, those too that somebody has waited for: another request does not follow that one. Not
    /// saved: a medium that was restored has nothing under way.
    merges: Chain,
    /// Whether a logical block written whole has ended among them.
    has_ended: bool,
    counters: Counters,
}

impl Techniques {
    /// What becomes of a block that a merge has made obsolete while log block `victim` is cleaned.
    fn obsolete<P: Placement, F: Flash>(
        &mut self,
        core: &mut Core<P>,
        gc: &mut Collection<'_, F>,
        (block, victim): (Block, Slot),
        cause: Cause,
    ) -> Outcome<F> {
        self.counters.obsolete += 1;
        let blank = core.blank_pages(block);
        if self.fpr
            && blank > 0
            && let Some((slot, copies)) = core.reuse(gc, block, victim)?
        {
            self.reused.push_back(slot);
            self.counters.swaps += 1;
            self.counters.swap_copies += u64::from(copies);
            self.counters.swap_pages += u64::from(blank - copies);
            return Ok(());
        }
        core.dispose(&mut **gc, block, cause)
    }

    /// Whether a page begins a logical block that is to be written whole.
    fn begins_entire<P: Placement>(&self, core: &Core<P>, lpn: Lpn) -> Option<Lbn> {
        let (lbn, offset) = core.split(lpn);
        if !self.ebw || offset != 0 {
            return None;
        }
        let lpns = core.lpns(lbn);
        let whole = self.request.covers(&lpns) && lpns.len() as u32 == core.p();
        // With nothing of it written yet its data block takes it as it is.
        let logged = !P::APPENDS && core.logged[lbn.index()] > 0;
        let used = logged || core.data_block(lbn).is_some_and(|block| !core.is_blank(block));
        let has_room = !P::APPENDS || core.pool.free() >= parameters::reserve(&core.g);
        (whole && used && has_room).then_some(lbn)
    }

    fn end_entire<P: Placement, F: Flash>(&mut self, core: &mut Core<P>, flash: &mut F) -> Outcome<F> {
        let Some(Entire { slot, lbn, .. }) = self.entire else { return Ok(()) };
        let mut obsolete = |core: &mut Core<P>, gc: &mut Collection<'_, F>, block: Block, cause: Cause| {
            self.obsolete(core, gc, (block, Slot::NONE), cause)
        };
        let merged = core.merge_block(flash, slot, lbn, &mut None, &mut obsolete);
        if merged.is_ok() || core.has_given_up(slot) {
            self.entire = None;
        }
        merged?;
        self.note_merge(core, flash);
        self.has_ended = true;
        Ok(())
    }

    /// The core has merged or cleaned a log block.
    fn note_merge<P: Placement, F: Flash>(&mut self, core: &Core<P>, flash: &mut F) {
        if !self.ebw {
            return;
        }
        let mut all = Collection::resume(flash, self.merges);
        Collection::resume(&mut *all, core.merged).wait();
        self.merges = all.pause();
    }

    /// Goes on when the merges and cleanings have ended. A logical block that is written whole takes a block beyond the
    /// log area, and one block is kept free for that: until the one before it is a data block, and the block that was
    /// it erased, no other is begun, nor a log block that may take what that erase gives back. Else a power cut could
    /// leave no free block for a mount to merge with.
    fn wait_for_merges<F: Flash>(&mut self, flash: &mut F) {
        Collection::resume(flash, self.merges).wait();
        self.has_ended = false;
    }

    /// Writes the next page of a logical block that is written whole. False if its block failed.
    fn write_entire<P: Placement, F: Flash>(
        &mut self,
        core: &mut Core<P>,
        flash: &mut F,
        page: Write<'_, F>,
    ) -> Outcome<F, bool> {
        let Some(Entire { slot, next, lbn }) = self.entire else { return Ok(false) };
        if !core.append(flash, slot, next, Kind::Data, page)? {
            self.entire = None;
            return Ok(false);
        }
        core.merges.logged -= page.content.host_pages();
        self.counters.pages += page.content.host_pages();
        self.entire = Some(Entire { slot, next: next + 1, lbn });
        if next + 1 == core.p() {
            self.counters.blocks += 1;
            self.end_entire(core, flash)?;
        }
        Ok(true)
    }

    fn make_room<P: Placement, F: Flash>(&mut self, core: &mut Core<P>, flash: &mut F) -> Outcome<F> {
        while self.reused.is_empty() && core.slots.in_use() >= core.log_limit() {
            if !self.clean(core, flash)? {
                return Err(Error::Full);
            }
        }
        Ok(())
    }
}

impl<P: Placement> Strategy<P> for Techniques {
    fn area(settings: &Settings) -> Area {
        Area { victims: Some(settings.into()), ..Area::new(1, settings) }
    }

    fn new(_: &Core<P>, settings: &Settings) -> Result<Self, ConfigError> {
        Ok(Techniques {
            // `hybridlog` offers none of them.
            listed: settings.get(EBW.name).is_some(),
            policy: settings.word(&parameters::LOG_VICTIM),
            ebw: settings.switch(&EBW),
            fpr: settings.switch(&FPR),
            request: Announced::default(),
            entire: None,
            filling: Filling::default(),
            reused: VecDeque::new(),
            merges: Chain::COLLECTION,
            has_ended: false,
            counters: Counters::default(),
        })
    }

    fn request(&mut self, _: &Core<P>, first: Lpn, pages: u32) {
        self.request = Announced::new(first, pages);
    }

    #[inline]
    fn write<F: Flash>(&mut self, core: &mut Core<P>, flash: &mut F, page: Write<'_, F>) -> Outcome<F> {
        match self.entire {
            Some(Entire { lbn, next, .. }) if core.split(page.lpn) == (lbn, next) => {}
            Some(_) => self.interrupt(core, flash)?,
            None => {}
        }
        if self.entire.is_none()
            && let Some(lbn) = self.begins_entire(core, page.lpn)
        {
            // A log block beyond the area, until it is whole.
            self.wait_for_merges(flash);
            self.entire = Some(Entire { slot: core.begin_log_block(flash)?, lbn, next: 0 });
        }
        if self.write_entire(core, flash, page)? || core.write_to_data(flash, page)? {
            return Ok(());
        }
        while !self.filling.append(core, flash, Kind::Log, page)? {
            if self.filling.0.is_none() {
                self.make_room(core, flash)?;
                if self.has_ended {
                    self.wait_for_merges(flash);
                }
                self.filling.0 = match self.reused.pop_front() {
                    Some(slot) => Some(slot),
                    None => Some(core.begin_log_block(flash)?),
                };
                // Cleaning may have merged the page's own logical block, and left room for it there.
                if P::APPENDS && core.write_to_data(flash, page)? {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn interrupt<F: Flash>(&mut self, core: &mut Core<P>, flash: &mut F) -> Outcome<F> {
        self.counters.broken_off += u64::from(self.entire.is_some());
        self.end_entire(core, flash)
    }

    fn is_midway(&self) -> bool {
        P::APPENDS && self.entire.is_some()
    }

    fn clean<F: Flash>(&mut self, core: &mut Core<P>, flash: &mut F) -> Outcome<F, bool> {
        let Some(victim) = hybrid::pick(core, self.policy) else { return Ok(false) };
        let mut obsolete = |core: &mut Core<P>, gc: &mut Collection<'_, F>, block: Block, cause: Cause| {
            self.obsolete(core, gc, (block, victim), cause)
        };
        core.clean(flash, victim, &mut obsolete)?;
        self.note_merge(core, flash);
        Ok(true)
    }

    fn held(&self) -> Vec<Slot> {
        let entire = self.entire.map(|entire| entire.slot);
        self.reused.iter().copied().chain(self.filling.0).chain(entire).collect()
    }

    fn memory(&self, _: &Core<P>) -> Vec<(&'static str, u64)> {
        vec![("open log blocks", 28 + self.reused.len() as u64 * 4)]
    }

    fn save(&self, _: &Core<P>, out: &mut Saver) {
        let entire = self.entire.unwrap_or(Entire { slot: Slot::NONE, lbn: Lbn(0), next: 0 });
        out.u32(entire.slot.0);
        out.u32(entire.lbn.0);
        out.u32(entire.next);
        self.filling.save(out);
        self.request.save(out);
        out.u32(self.reused.len() as u32);
        self.reused.iter().for_each(|slot| out.u32(slot.0));
    }

    fn load(&mut self, _: &Core<P>, from: &mut Loader<'_>) {
        let entire = Entire { slot: Slot(from.u32()), lbn: Lbn(from.u32()), next: from.u32() };
        self.entire = (entire.slot != Slot::NONE).then_some(entire);
        self.filling = Filling::load(from);
        self.request = Announced::load(from);
        self.reused = (0..from.u32()).map(|_| Slot(from.u32())).collect();
    }

    fn counters(&self, core: &Core<P>) -> Vec<(&'static str, u64)> {
        if !self.listed {
            return Vec::new();
        }
        let Counters { blocks, pages, broken_off, swaps, swap_copies, swap_pages, obsolete } = self.counters;
        let effort = core.scores.as_ref().map(|scores| scores.effort).unwrap_or_default();
        let values = [
            blocks,
            pages,
            broken_off,
            swaps,
            swap_copies,
            swap_pages,
            obsolete,
            effort.updates,
            effort.refreshed,
            effort.compared,
        ];
        COUNTERS.iter().map(|&(name, _)| name).zip(values).collect()
    }

    fn reset_counters(&mut self) {
        self.counters = Counters::default();
    }
}

#[cfg(test)]
mod tests;

//! `fast`: log blocks that any page may go to, and one for sequential writes.
//!
//! The problem: with a log block for each data block, random writes use up log blocks that are nearly empty. FAST (Lee
//! et al., TECS 2007) lets a log block take pages of any logical block, so that each is full before it is merged. What
//! it pays is that merging one may mean merging as many logical blocks as it has pages. One log block is set apart for
//! sequential writes: what fills it in order becomes a data block by a switch merge, without a copy.
//!
//! ```text
//!             ┌─ blank place ──▶ data block
//!  write ─────┼─ first page of its logical block, or the next of it ──▶ [SW log block]  own place; switch or partial
//!             └─ else ──▶ [RW log blocks] in turn; the oldest is cleaned by full merges
//! ```
//!
//! # Structures
//!
//! RAM: 4 B for each logical block; for each page of a log block 4 B for what it holds and 4 B in a hash table that
//! finds it; 2 bits for each physical page. Flash: kind (data or log), LPN, version and program number in every spare
//! area, and nothing else.
//!
//! # Costs
//!
//! A write is a program, a read a read. A switch merge costs an erase; a partial one a copy for each page that the
//! sequential log block lacks, and an erase. Cleaning a random log block with live pages of n logical blocks costs up
//! to n · P copies and n + 1 erases.
//!
//! # Choices
//!
//! `sequential` says which writes the sequential log block takes: `first-page` (the rule above), `large` (pages of
//! requests of `sequential-bytes` or more, wherever they begin), `both` conditions, or `none` (the ROSE thesis, figure
//! 5.1). Where a page of the logical block that owns the sequential log block comes out of turn, `sw-other` says what
//! happens: `psu` merges the block at once and writes the page in the merge, as the released simulator does; `rw` sends
//! the page to the random log blocks, as the ROSE thesis and the original describe. `log-victim` replaces the round
//! robin.
//!
//! # Departures
//!
//! Two blocks are kept free and not one, for recovery. The kind of a log block is not stored: a sequential log block
//! found by a mount is a log block like any other, and blocks found in use take no further page until they are merged.
//! With `order = strict` or `ascending` a page goes to its place only above all programmed ones, with padding where the
//! chip wants it.

use crate::hybrid::ages::LOG_AGES;
use crate::hybrid::large::{Large, SEQUENTIAL_BYTES, SEQUENTIAL_UNIT};
use crate::hybrid::{
    self, Area, Core, Filling, Hybrid, MERGE_COUNTERS, Merge, Strategy, Write, erase_obsolete, log::Slot, parameters,
};
use crate::{ConfigError, Dependence, Error, Loader, Outcome, Parameter, Saver, Scheme, Settings};
use alloc::vec;
use alloc::vec::Vec;
use flash::{Flash, Kind, Lbn, Lpn};

const SEQUENTIAL: Parameter = Parameter::word("sequential", "first-page", &["first-page", "large", "both", "none"])
    .text(
        "Which writes go to the sequential log block. first-page: the first page of a logical block and what follows \
         it. large: pages of large requests. both: both conditions. none: no write.",
    )
    .source("{rose}, section 3.2 and figure 5.1");

const SW_OTHER: Parameter = Parameter::word("sw-other", "rw", &["rw", "psu"])
    .text(
        "What becomes of a page out of turn, if its logical block owns the sequential log block. psu: merge and write \
         the page there. rw: write it to a random log block.",
    )
    .source("rw: {rose}; psu: {flashsim} as released");

/// What is read under which rule.
pub(crate) const DEPENDENCES: [Dependence; 2] = [
    Dependence {
        parameters: &[SEQUENTIAL_BYTES.name, SEQUENTIAL_UNIT.name],
        on: SEQUENTIAL.name,
        words: &["large", "both"],
    },
    Dependence { parameters: &[SW_OTHER.name], on: SEQUENTIAL.name, words: &["first-page", "both"] },
];

const COUNTERS: &[(&str, &str)] = &[
    ("sequential_pages", "host pages written to sequential log blocks"),
    ("sequential_merges", "sequential log blocks merged"),
    ("mispredictions", "of these, such that were not full"),
];

/// The row.
pub(super) static ROW: Scheme = Scheme {
    name: "fast",
    summary: "block map with fully associative log blocks, and one for sequential writes",
    paper: "{fast}; baseline of {rose} and of {dftl}",
    essay: include_str!("fast.rs"),
    own: &[
        parameters::LOG_BLOCKS,
        parameters::LOG_VICTIM,
        SEQUENTIAL,
        SEQUENTIAL_BYTES,
        SEQUENTIAL_UNIT,
        SW_OTHER,
        parameters::AGE_WEIGHT,
        parameters::AGE_UNIT,
        parameters::ALPHA,
        parameters::COPY_COST,
        parameters::ERASE_COST,
        LOG_AGES,
    ],
    counters: &[MERGE_COUNTERS, COUNTERS],
    state_version: 2,
    ..parameters::ROW
};

/// The scheme.
pub type Fast = Hybrid<OneSequential>;

#[derive(Clone, Copy, Default, Debug)]
struct Counters {
    pages: u64,
    merges: u64,
    mispredictions: u64,
}

/// See the module's description.
#[derive(Clone, Debug)]
pub struct OneSequential {
    policy: &'static str,
    by_place: bool,
    by_size: bool,
    merge_out_of_turn: bool,
    request: Large,
    /// The sequential log block and its logical block.
    sequential: Option<(Slot, Lbn)>,
    random: Filling,
    counters: Counters,
}

/// Where a page that cannot go to its data block goes.
enum Way {
    /// To its own place in the sequential log block that there is.
    Sequential,
    /// To a new one.
    NewSequential,
    /// Into the merge of the one that there is.
    IntoMerge,
    /// To a random log block.
    Random,
}

impl OneSequential {
    fn way(&self, core: &Core, lpn: Lpn) -> Way {
        let (lbn, offset) = core.split(lpn);
        let large = self.request.has(lpn);
        if !(self.by_place || self.by_size) || (self.by_size && !large) {
            return Way::Random;
        }
        if self.by_place && offset == 0 {
            return Way::NewSequential;
        }
        match self.sequential {
            Some((slot, owner)) if owner == lbn => {
                let block = core.slots.block(slot);
                let fits = if self.by_place { core.written.end(block) == offset } else { true };
                match (fits && core.is_writable(block, offset), self.by_place) {
                    (true, _) => Way::Sequential,
                    (false, true) if self.merge_out_of_turn => Way::IntoMerge,
                    (false, true) => Way::Random,
                    (false, false) => Way::NewSequential,
                }
            }
            _ if self.by_place => Way::Random,
            _ => Way::NewSequential,
        }
    }

    /// Merges the sequential log block, and `new` with it, which is taken once it counts.
    fn merge_sequential<F: Flash>(
        &mut self,
        core: &mut Core,
        flash: &mut F,
        new: &mut Option<Write<'_, F>>,
    ) -> Outcome<F> {
        let Some((slot, lbn)) = self.sequential else { return Ok(()) };
        let merged = core.merge_block(flash, slot, lbn, new, &mut erase_obsolete);
        if merged.is_ok() || core.has_given_up(slot) {
            self.sequential = None;
        }
        let merge = merged?;
        self.counters.merges += 1;
        self.counters.mispredictions += u64::from(merge != Merge::Switch);
        Ok(())
    }

    fn make_room<F: Flash>(&mut self, core: &mut Core, flash: &mut F) -> Outcome<F> {
        while core.slots.in_use() >= core.log_limit() {
            if !self.clean(core, flash)? {
                return Err(Error::Full);
            }
        }
        Ok(())
    }
}

impl Strategy for OneSequential {
    fn area(settings: &Settings) -> Area {
        Area {
            victims: Some(settings.into()),
            ..Area::new(if settings.word(&SEQUENTIAL) == "none" { 1 } else { 2 }, settings)
        }
    }

    fn new(core: &Core, settings: &Settings) -> Result<Self, ConfigError> {
        let rule = settings.word(&SEQUENTIAL);
        Ok(OneSequential {
            policy: settings.word(&parameters::LOG_VICTIM),
            by_place: matches!(rule, "first-page" | "both"),
            by_size: matches!(rule, "large" | "both"),
            merge_out_of_turn: settings.word(&SW_OTHER) == "psu",
            request: Large::new(&core.g, settings),
            sequential: None,
            random: Filling::default(),
            counters: Counters::default(),
        })
    }

    fn request(&mut self, _: &Core, first: Lpn, pages: u32) {
        self.request.announce(first, pages);
    }

    fn request_bytes(&mut self, bytes: u64) {
        self.request.narrow(bytes);
    }

    #[inline]
    fn write<F: Flash>(&mut self, core: &mut Core, flash: &mut F, page: Write<'_, F>) -> Outcome<F> {
        if core.write_to_data(flash, page)? {
            return Ok(());
        }
        let (lbn, offset) = core.split(page.lpn);
        let mut way = self.way(core, page.lpn);
        if let Way::IntoMerge = way {
            let mut new = Some(page);
            return match self.merge_sequential(core, flash, &mut new) {
                // The page is written. The next write hears that the device is full.
                Err(Error::Full) if new.is_none() => Ok(()),
                other => other,
            };
        }
        if let Way::NewSequential = way {
            self.merge_sequential(core, flash, &mut None)?;
            // What the logical block had in the log may be in its data block now, and the place blank.
            if core.write_to_data(flash, page)? {
                return Ok(());
            }
            self.make_room(core, flash)?;
            self.sequential = Some((core.begin_log_block(flash)?, lbn));
            way = Way::Sequential;
        }
        if let (Way::Sequential, Some((slot, _))) = (way, self.sequential) {
            if core.append(flash, slot, offset, Kind::Log, page)? {
                self.counters.pages += 1;
                return Ok(());
            }
            self.sequential = None;
        }
        while !self.random.append(core, flash, Kind::Log, page)? {
            if self.random.0.is_none() {
                self.make_room(core, flash)?;
                self.random.0 = Some(core.begin_log_block(flash)?);
            }
        }
        Ok(())
    }

    fn clean<F: Flash>(&mut self, core: &mut Core, flash: &mut F) -> Outcome<F, bool> {
        let Some(victim) = hybrid::pick(core, self.policy) else {
            let any = self.sequential.is_some();
            self.merge_sequential(core, flash, &mut None)?;
            return Ok(any);
        };
        if self.sequential.is_some_and(|(_, owner)| core.logical_blocks_in(victim).contains(&owner)) {
            self.merge_sequential(core, flash, &mut None)?;
        }
        core.clean(flash, victim, &mut erase_obsolete)?;
        Ok(true)
    }

    fn held(&self) -> Vec<Slot> {
        self.sequential.map(|(slot, _)| slot).into_iter().chain(self.random.0).collect()
    }

    fn memory(&self, _: &Core) -> Vec<(&'static str, u64)> {
        vec![("open log blocks", 12 + Large::BYTES)]
    }

    fn save(&self, _: &Core, out: &mut Saver) {
        let (slot, lbn) = self.sequential.unwrap_or((Slot::NONE, Lbn(0)));
        out.u32(slot.0);
        out.u32(lbn.0);
        self.random.save(out);
        self.request.save(out);
    }

    fn load(&mut self, _: &Core, from: &mut Loader<'_>) {
        let (slot, lbn) = (Slot(from.u32()), Lbn(from.u32()));
        self.sequential = (slot != Slot::NONE).then_some((slot, lbn));
        self.random = Filling::load(from);
        self.request.load(from);
    }

    fn counters(&self, _: &Core) -> Vec<(&'static str, u64)> {
        let Counters { pages, merges, mispredictions } = self.counters;
        vec![("sequential_pages", pages), ("sequential_merges", merges), ("mispredictions", mispredictions)]
    }

    fn reset_counters(&mut self) {
        self.counters = Counters::default();
    }
}

#[cfg(test)]
mod tests;

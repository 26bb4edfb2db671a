//! `bast`: a log block for each logical block that is being overwritten.
//!
//! The problem: under a block map, a page whose place is taken forces the rewriting of its whole logical block. BAST
//! (Kim et al., 2002) puts such pages aside in a *log block* that belongs to their logical block alone, one behind the
//! other, and rewrites once the log block is full. If the logical block was written from front to end, the log block is
//! the new data block as it stands (switch merge); if it was written in order up to some page, it becomes it once the
//! rest is copied in (partial merge); otherwise both are copied together into a third (full merge). When there are more
//! logical blocks being overwritten than log blocks, one has to be merged before its log block is full: *thrashing*,
//! the weakness of the scheme.
//!
//! ```text
//!             ┌─ blank place ──▶ data block
//!  write ─────┤
//!             └─ else ──▶ row of its logical block ──▶ [log block]  in the order of writing
//!                            │ full                  no row, and no log block left
//!                            ▼                              ▼
//!                        merge, new log block         merge another row (log-victim)
//! ```
//!
//! # Structures
//!
//! RAM: 4 B for each logical block; for each log block a row of 16 B (logical block, log block, two links of the order
//! of use), 24 B of what every log block has, and for each of its pages 4 B for what it holds and 4 B in the table that
//! finds it (the published table needs one byte, since a row has one logical block); 2 bits for each physical page.
//! Flash: kind (data or log), LPN, version and program number in every spare area.
//!
//! # Costs
//!
//! A write is a program, a read a read. A switch merge costs an erase; a partial one a copy for each live page that the
//! log block lacks, and an erase; a full one up to P copies and 2 erases. A log block in which nothing is live any more
//! costs an erase.
//!
//! # Choices
//!
//! `log-victim` says whose log block goes when none is left: the row used longest ago (`lru`), the one begun first
//! (`fifo`), one drawn at `random` as in FlashSim, or that with the fewest live pages (`min-live`).
//! `first-write-to-log` sends pages to the log that were never written too, as FlashSim does.
//!
//! # Departures
//!
//! Two blocks are kept free and not one, for recovery. Log blocks found by a mount take no further page until they are
//! merged; should two of them hold pages of one logical block, or one of several, which takes blocks that failed, they
//! are merged before the host is served. With `order = strict` or `ascending` a page goes to its place in a data block
//! only above all programmed ones, with padding where the chip wants it.

use crate::hybrid::{
    Area, Core, Hybrid, MERGE_COUNTERS, Strategy, Write, erase_obsolete, log::Slot, parameters, rows::Rows,
};
use crate::parts::space::SEED;
use crate::{ConfigError, Error, Loader, Outcome, Parameter, Saver, Scheme, Settings};
use alloc::vec;
use alloc::vec::Vec;
use flash::{Flash, Kind, Lbn, Rng};

const VICTIM: Parameter = Parameter::word("log-victim", "lru", &["lru", "fifo", "random", "min-live"])
    .text(
        "Which log block to merge when none is left. lru: that of the logical block written longest ago. fifo: the \
         one begun first. random: one that is drawn. min-live: the one with the fewest live pages.",
    )
    .source("random: {flashsim}; the others: ftlab");

const FIRST_WRITE_TO_LOG: Parameter = Parameter::switch("first-write-to-log", false)
    .text(
        "A page goes to the log even if its place in the data block is blank. Off fills data blocks first and merges \
         less.",
    )
    .source("on: {flashsim}");

const COUNTERS: &[(&str, &str)] = &[
    ("evicted_rows", "log blocks merged because another logical block needed one"),
    ("evicted_pages", "pages programmed in those; over evicted_rows and pages per block: how full they were"),
];

/// The row.
pub(super) static ROW: Scheme = Scheme {
    name: "bast",
    summary: "block map with a log block for each logical block that is being overwritten",
    paper: "{bast}; {rose}; {dftl}",
    essay: include_str!("bast.rs"),
    own: &[parameters::LOG_BLOCKS, VICTIM, FIRST_WRITE_TO_LOG, SEED],
    counters: &[MERGE_COUNTERS, COUNTERS],
    ..parameters::ROW
};

/// The scheme.
pub type Bast = Hybrid<OneEach>;

/// See the module's description.
#[derive(Clone, Debug)]
pub struct OneEach {
    policy: &'static str,
    first_write_to_log: bool,
    rows: Rows,
    rng: Rng,
    evicted: u64,
    evicted_pages: u64,
}

impl OneEach {
    /// The logical block whose row goes.
    fn victim(&mut self, core: &Core) -> Option<Lbn> {
        if self.rows.count() == 0 {
            return None;
        }
        match self.policy {
            "random" => loop {
                let slot = Slot(self.rng.below(u64::from(core.slots.capacity())) as u32);
                if let Some(lbn) = self.rows.owner(slot) {
                    return Some(lbn);
                }
            },
            "min-live" => {
                let key = |&(_, slot): &(Lbn, Slot)| {
                    (core.pool.blocks.live_of(core.slots.block(slot)), core.slots.get(slot).begun)
                };
                self.rows.iter().min_by_key(key).map(|(lbn, _)| lbn)
            }
            // The order of use, or of beginning.
            _ => self.rows.iter().next().map(|(lbn, _)| lbn),
        }
    }
}

impl Strategy for OneEach {
    fn area(settings: &Settings) -> Area {
        Area::new(1, settings)
    }

    fn new(core: &Core, settings: &Settings) -> Result<Self, ConfigError> {
        Ok(OneEach {
            policy: settings.word(&VICTIM),
            first_write_to_log: settings.switch(&FIRST_WRITE_TO_LOG),
            rows: Rows::new(core),
            rng: Rng::new(settings.count(&SEED)).fork("log-victim"),
            evicted: 0,
            evicted_pages: 0,
        })
    }

    #[inline]
    fn write<F: Flash>(&mut self, core: &mut Core, flash: &mut F, page: Write<'_, F>) -> Outcome<F> {
        let (lbn, _) = core.split(page.lpn);
        loop {
            if !self.first_write_to_log && core.write_to_data(flash, page)? {
                return Ok(());
            }
            let Some(slot) = self.rows.get(lbn) else {
                while core.slots.in_use() >= core.log_limit() {
                    if !self.clean(core, flash)? {
                        return Err(Error::Full);
                    }
                }
                self.rows.insert(lbn, core.begin_log_block(flash)?);
                continue;
            };
            let Some(offset) = core.next_writable(core.slots.block(slot), core.slots.get(slot).next) else {
                self.rows.merge(core, flash, lbn)?;
                continue;
            };
            if core.append(flash, slot, offset, Kind::Log, page)? {
                if self.policy == "lru" {
                    self.rows.touch(lbn);
                }
                return Ok(());
            }
            self.rows.remove(lbn);
        }
    }

    fn adopt(&mut self, core: &mut Core) {
        self.rows.adopt(core);
    }

    fn settle<F: Flash>(&mut self, core: &mut Core, flash: &mut F) -> Outcome<F> {
        while let Some(slot) = core.slots.oldest() {
            core.clean(flash, slot, &mut erase_obsolete)?;
        }
        self.rows.erase_dead(core, flash)
    }

    fn clean<F: Flash>(&mut self, core: &mut Core, flash: &mut F) -> Outcome<F, bool> {
        // A log block without a row is one that failed a program.
        if let Some(slot) = core.slots.oldest() {
            core.clean(flash, slot, &mut erase_obsolete)?;
            return Ok(true);
        }
        let Some((lbn, slot)) = self.victim(core).and_then(|lbn| Some((lbn, self.rows.get(lbn)?))) else {
            return Ok(false);
        };
        self.evicted += 1;
        self.evicted_pages += u64::from(core.written.count(core.slots.block(slot)));
        self.rows.merge(core, flash, lbn)?;
        Ok(true)
    }

    fn held(&self) -> Vec<Slot> {
        self.rows.iter().map(|(_, slot)| slot).collect()
    }

    fn memory(&self, core: &Core) -> Vec<(&'static str, u64)> {
        vec![("rows of log blocks", Rows::memory(core)), ("random numbers", 32)]
    }

    fn save(&self, _: &Core, out: &mut Saver) {
        self.rows.save(out);
        self.rng.state().iter().for_each(|&word| out.u64(word));
    }

    fn load(&mut self, _: &Core, from: &mut Loader<'_>) {
        self.rows.load(from);
        self.rng = Rng::from_state([from.u64(), from.u64(), from.u64(), from.u64()]);
    }

    fn counters(&self, _: &Core) -> Vec<(&'static str, u64)> {
        vec![("evicted_rows", self.evicted), ("evicted_pages", self.evicted_pages)]
    }

    fn reset_counters(&mut self) {
        (self.evicted, self.evicted_pages) = (0, 0);
    }
}

#[cfg(test)]
mod tests;

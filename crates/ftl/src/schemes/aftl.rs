//! `aftl`: log blocks for each logical block, and a small page map for what leaves them hot.
//!
//! The problem: with a log block for each logical block (`bast`), pages that are written over and over fill their log
//! block with dead copies of themselves, and each time it is full the whole logical block is merged for the sake of a
//! few pages. AFTL (Wu and Kuo, ICCAD 2006) takes the pages that are live in a full log block to be hot: it leaves them
//! where they are and enters them in a *fine* table, which maps pages. The log block is a *fine block* then, and its
//! logical block may begin another. Pages that have stayed in the table unused go back to their log or data block.
//!
//! ```text
//!  write ──▶ [log block of its logical block] ── full: ──▶ [fine block]  its live pages in the fine table
//!                     ▲                                         │ table full: page used longest ago
//!                     └──────────── migration ──────────────────┘
//!                              no live page left: erased, without a merge
//! ```
//!
//! # Structures
//!
//! RAM: 12 B for each page of the fine table (page, place, link), and what `bast` has: 4 B for each logical block; for
//! each log block a row of 16 B, 24 B of what every log block has, and for each of its pages 4 B for what it holds and
//! 4 B in the table that finds it; 2 bits for each physical page. Flash: kind (data or log), LPN, version and program
//! number in every spare area.
//!
//! # Costs
//!
//! A write is a program, a read a read. Making a full log block a fine one costs nothing; a migration is a copy; a fine
//! block without live pages costs an erase. Merges cost what they do in `bast`: an erase (switch), a copy for each
//! missing page and an erase (partial), up to P copies and two erases (full).
//!
//! # Choices
//!
//! `fine-entries` is the size of the fine table; 0 makes this `bast`. When no log block is left, either the fine block
//! with the fewest live pages goes, by merging all logical blocks that it has pages of, or the log block used longest
//! ago: whichever costs less, by `copy-us` and `erase-us`.
//!
//! # Departures
//!
//! The paper's details are not all public. A full log block with more live pages than the table has entries stays as it
//! is and is merged as in `bast`; so is one that a migration has filled. A page migrates to its place in the data block
//! if that is blank, else to the log block of its logical block if that has room or one more may be begun, else its
//! logical block is merged. After a mount the youngest log block of each logical block is its log block again, full or
//! not, and takes no further page; all others are fine blocks, as far as the table holds their pages, and are merged
//! otherwise before the host is served. Two blocks are kept free for recovery, on more dies one for each.

use crate::hybrid::{Area, Core, Hybrid, MERGE_COUNTERS, Strategy, Write, log::Slot, parameters, rows::Rows};
use crate::{ConfigError, Error, Loader, Outcome, Parameter, Saver, Scheme, Settings};
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use flash::{Cause, Flash, Kind, Lbn, Lpn};

const FINE_ENTRIES: Parameter = Parameter::count("fine-entries", 1024, 0..=1 << 27)
    .unit("pages")
    .text("Pages that the fine table holds, in RAM. More delay merges. 0 is bast.")
    .source("ftlab");

const COUNTERS: &[(&str, &str)] = &[
    ("conversions", "full log blocks that became fine blocks"),
    ("migrations", "pages that left the fine table for want of room"),
    ("fine_reads", "host reads of pages in the fine table"),
    ("fine_blocks_erased", "fine blocks erased without a merge, for nothing in them was live"),
];

/// The row.
pub(super) static ROW: Scheme = Scheme {
    name: "aftl",
    summary: "bast with a page map for what full log blocks still hold",
    paper: "{aftl}; {rose}, section 2.2.3",
    essay: include_str!("aftl.rs"),
    own: &[parameters::LOG_BLOCKS, FINE_ENTRIES, parameters::COPY_COST, parameters::ERASE_COST],
    counters: &[MERGE_COUNTERS, COUNTERS],
    ..parameters::ROW
};

/// The scheme.
pub type Aftl = Hybrid<TwoLevels>;

/// Pages in an order of use.
#[derive(Clone, Default, Debug)]
struct FineTable {
    by_use: BTreeMap<i64, u32>,
    used: BTreeMap<u32, i64>,
}

impl FineTable {
    fn len(&self) -> usize {
        self.used.len()
    }

    fn contains(&self, lpn: u32) -> bool {
        self.used.contains_key(&lpn)
    }

    fn put(&mut self, lpn: u32, at: i64) {
        self.remove(lpn);
        self.by_use.insert(at, lpn);
        self.used.insert(lpn, at);
    }

    /// A page is the one used last.
    fn put_last(&mut self, lpn: u32) {
        let last = self.by_use.last_key_value().map_or(0, |(&at, _)| at);
        self.put(lpn, last + 1);
    }

    /// A page is the one used longest ago.
    fn put_first(&mut self, lpn: u32) {
        let first = self.by_use.first_key_value().map_or(0, |(&at, _)| at);
        self.put(lpn, first - 1);
    }

    fn remove(&mut self, lpn: u32) {
        if let Some(at) = self.used.remove(&lpn) {
            self.by_use.remove(&at);
        }
    }

    fn first(&self) -> Option<u32> {
        self.by_use.first_key_value().map(|(_, &lpn)| lpn)
    }
}

#[derive(Clone, Copy, Default, Debug)]
struct Counters {
    conversions: u64,
    migrations: u64,
    reads: u64,
    erased: u64,
}

/// See the module's description.
#[derive(Clone, Debug)]
pub struct TwoLevels {
    entries: usize,
    copy_us: f64,
    erase_us: f64,
    rows: Rows,
    fine: FineTable,
    counters: Counters,
}

impl TwoLevels {
    /// Live pages of a log block, in their order.
    fn live_pages(core: &Core, slot: Slot) -> Vec<u32> {
        let block = core.slots.block(slot);
        let offsets = core::iter::successors(core.pool.blocks.next_live(block, 0), |&at| {
            core.pool.blocks.next_live(block, at + 1)
        });
        offsets.map(|offset| core.slots.lpn_at(slot, offset).0).collect()
    }

    /// Erases the fine blocks in which nothing is live.
    fn erase_dead<F: Flash>(&mut self, core: &mut Core, flash: &mut F) -> Outcome<F> {
        while let Some(slot) = core.slots.dead() {
            core.erase_dead(flash, &[slot], Cause::MergeFull)?;
            self.counters.erased += 1;
        }
        Ok(())
    }

    /// Brings everything that the log holds of a logical block back to its data block.
    fn merge<F: Flash>(&mut self, core: &mut Core, flash: &mut F, lbn: Lbn) -> Outcome<F> {
        self.rows.merge(core, flash, lbn)?;
        // The log block may have been dead while fine blocks held pages.
        if core.logged[lbn.index()] > 0 {
            core.rewrite(flash, lbn, Cause::MergeFull)?;
        }
        core.lpns(lbn).for_each(|lpn| self.fine.remove(lpn));
        self.erase_dead(core, flash)
    }

    /// Makes the full log block of a row a fine block, or the data block if it holds all in order. False if it has more
    /// live pages than the table has entries.
    fn convert<F: Flash>(&mut self, core: &mut Core, flash: &mut F, lbn: Lbn) -> Outcome<F, bool> {
        while let Some(slot) = self.rows.get(lbn) {
            let live = core.pool.blocks.live_of(core.slots.block(slot)) as usize;
            if live > self.entries {
                return Ok(false);
            }
            if live == core.lpns(lbn).len() && core.is_aligned(slot, lbn) {
                self.merge(core, flash, lbn)?;
            } else if self.fine.len() + live <= self.entries {
                Self::live_pages(core, slot).into_iter().for_each(|lpn| self.fine.put_last(lpn));
                self.rows.remove(lbn);
                core.close(slot);
                self.counters.conversions += 1;
            } else {
                self.migrate(core, flash)?;
            }
        }
        Ok(true)
    }

    /// Takes the page used longest ago out of the fine table and its block.
    fn migrate<F: Flash>(&mut self, core: &mut Core, flash: &mut F) -> Outcome<F> {
        let Some(lpn) = self.fine.first().map(Lpn) else { return Ok(()) };
        let (lbn, _) = core.split(lpn);
        self.counters.migrations += 1;
        if core.move_in_place(flash, lpn, Cause::DataGc)? {
            self.fine.remove(lpn.0);
            return self.erase_dead(core, flash);
        }
        if self.rows.get(lbn).is_none() && core.slots.in_use() < core.log_limit() {
            self.rows.insert(lbn, core.begin_log_block(flash)?);
        }
        let room = |slot: Slot| core.next_writable(core.slots.block(slot), core.slots.get(slot).next);
        if let Some((slot, offset)) = self.rows.get(lbn).and_then(|slot| Some((slot, room(slot)?))) {
            if core.move_to_log(flash, (slot, offset), lpn, Kind::Log, Cause::DataGc)? {
                self.fine.remove(lpn.0);
                return self.erase_dead(core, flash);
            }
            self.rows.remove(lbn);
        }
        self.merge(core, flash, lbn)
    }

    /// What erasing a fine block would cost: merging every logical block that it has pages of.
    fn fine_cost(&self, core: &Core, slot: Slot) -> f64 {
        let merge = |lbn: Lbn| {
            let data = core.data_block(lbn).map_or(0, |block| core.pool.blocks.live_of(block));
            let copies = f64::from(data + u32::from(core.logged[lbn.index()]));
            let erases = 1.0 + f64::from(u8::from(self.rows.get(lbn).is_some()));
            copies * self.copy_us + erases * self.erase_us
        };
        self.erase_us + core.logical_blocks_in(slot).into_iter().map(merge).sum::<f64>()
    }

    /// What merging a row would cost.
    fn row_cost(&self, core: &Core, lbn: Lbn, slot: Slot) -> f64 {
        let block = core.slots.block(slot);
        let held = core.pool.blocks.live_of(block);
        let live = core.data_block(lbn).map_or(0, |block| core.pool.blocks.live_of(block))
            + u32::from(core.logged[lbn.index()]);
        let (copies, erases) = match held {
            0 => (0, 1.0),
            _ if core.is_aligned(slot, lbn) && core.can_take_rest(lbn, block) => (live - held, 1.0),
            _ => (live, 2.0),
        };
        f64::from(copies) * self.copy_us + erases * self.erase_us
    }
}

impl Strategy for TwoLevels {
    fn area(settings: &Settings) -> Area {
        Area::new(1, settings)
    }

    fn new(core: &Core, settings: &Settings) -> Result<Self, ConfigError> {
        Ok(TwoLevels {
            entries: settings.count(&FINE_ENTRIES) as usize,
            copy_us: settings.real(&parameters::COPY_COST),
            erase_us: settings.real(&parameters::ERASE_COST),
            rows: Rows::new(core),
            fine: FineTable::default(),
            counters: Counters::default(),
        })
    }

    #[inline]
    fn write<F: Flash>(&mut self, core: &mut Core, flash: &mut F, page: Write<'_, F>) -> Outcome<F> {
        let Write { lpn, .. } = page;
        let (lbn, _) = core.split(lpn);
        loop {
            if core.write_to_data(flash, page)? {
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
            let block = core.slots.block(slot);
            let Some(offset) = core.next_writable(block, core.slots.get(slot).next) else {
                if !self.convert(core, flash, lbn)? {
                    self.merge(core, flash, lbn)?;
                }
                continue;
            };
            if core.append(flash, slot, offset, Kind::Log, page)? {
                self.rows.touch(lbn);
                if self.fine.contains(lpn.0) {
                    self.fine.remove(lpn.0);
                    self.erase_dead(core, flash)?;
                }
                let full = core.next_writable(block, offset + 1).is_none();
                return match if full { self.convert(core, flash, lbn) } else { Ok(true) } {
                    // The page is written. Whoever needs a block next hears that the device is full.
                    Ok(_) | Err(Error::Full) => Ok(()),
                    Err(error) => Err(error),
                };
            }
            self.rows.remove(lbn);
        }
    }

    #[inline]
    fn read(&mut self, _: &Core, lpn: Lpn) {
        if self.fine.contains(lpn.0) {
            self.fine.put_last(lpn.0);
            self.counters.reads += 1;
        }
    }

    fn adopt(&mut self, core: &mut Core) {
        self.rows.adopt(core);
    }

    fn settle<F: Flash>(&mut self, core: &mut Core, flash: &mut F) -> Outcome<F> {
        let is_fine = |lpn: Lpn| core.in_log(lpn).and_then(|ppn| core.slots.of(core.g.block_of(ppn)));
        let gone = |&lpn: &u32| !is_fine(Lpn(lpn)).is_some_and(|slot| core.slots.is_closed(slot));
        let gone: Vec<u32> = self.fine.used.keys().copied().filter(gone).collect();
        gone.into_iter().for_each(|lpn| self.fine.remove(lpn));
        self.rows.erase_dead(core, flash)?;
        self.erase_dead(core, flash)?;
        // The youngest first: what the table has no room for is the oldest.
        let closed: Vec<Slot> = core.slots.closed().rev().collect();
        for slot in closed {
            if !core.slots.is_closed(slot) {
                continue;
            }
            let live = Self::live_pages(core, slot);
            let new: Vec<u32> = live.into_iter().filter(|&lpn| !self.fine.contains(lpn)).collect();
            if self.fine.len() + new.len() <= self.entries {
                new.into_iter().rev().for_each(|lpn| self.fine.put_first(lpn));
            } else {
                self.clean_fine(core, flash, slot)?;
            }
        }
        Ok(())
    }

    fn clean<F: Flash>(&mut self, core: &mut Core, flash: &mut F) -> Outcome<F, bool> {
        let fine = core.slots.emptiest(Slot::NONE).map(|(slot, _)| (slot, self.fine_cost(core, slot)));
        let row = self.rows.iter().next().map(|(lbn, slot)| (lbn, self.row_cost(core, lbn, slot)));
        match (fine, row) {
            (Some((slot, cost)), row) if row.is_none_or(|(_, other)| cost <= other) => {
                self.clean_fine(core, flash, slot)?;
            }
            (_, Some((lbn, _))) => self.merge(core, flash, lbn)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn held(&self) -> Vec<Slot> {
        self.rows.iter().map(|(_, slot)| slot).collect()
    }

    fn memory(&self, core: &Core) -> Vec<(&'static str, u64)> {
        vec![("rows of log blocks", Rows::memory(core)), ("fine table", self.entries as u64 * 12 + 4)]
    }

    fn save(&self, _: &Core, out: &mut Saver) {
        self.rows.save(out);
        out.u32(self.fine.len() as u32);
        self.fine.by_use.values().for_each(|&lpn| out.u32(lpn));
    }

    fn load(&mut self, _: &Core, from: &mut Loader<'_>) {
        self.rows.load(from);
        for _ in 0..from.u32() {
            self.fine.put_last(from.u32());
        }
    }

    fn counters(&self, _: &Core) -> Vec<(&'static str, u64)> {
        let Counters { conversions, migrations, reads, erased } = self.counters;
        vec![
            ("conversions", conversions),
            ("migrations", migrations),
            ("fine_reads", reads),
            ("fine_blocks_erased", erased),
        ]
    }

    fn reset_counters(&mut self) {
        self.counters = Counters::default();
    }
}

impl TwoLevels {
    /// Merges every logical block that a fine block has pages of, and erases it.
    fn clean_fine<F: Flash>(&mut self, core: &mut Core, flash: &mut F, slot: Slot) -> Outcome<F> {
        let lbns = core.logical_blocks_in(slot);
        core.merges.clean(lbns.len(), core.taken_in(slot));
        for &lbn in &lbns {
            self.merge(core, flash, lbn)?;
        }
        self.erase_dead(core, flash)
    }
}

#[cfg(test)]
mod tests;

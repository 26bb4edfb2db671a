//! `simple`: a page map to read first.
//!
//! The problem: flash programs pages and erases blocks of many pages, and a page takes one program between two erases.
//! A host overwrites pages. So this scheme writes every page to the next blank page of one open block, and a map in RAM
//! remembers where. The old copy is dead. When free blocks run low, the block with the fewest live pages is the victim:
//! its live pages go to the open block, and it is erased. The records beside the pages give the map back after a cut.
//!
//! ```text
//!   write LPN 7 ──▶ map[7] = PPN 42     open block   [ 3 │ 9 │ 7 │   ]◀── next page
//!                       │               full blocks  [ ✗ │ 1 │ ✗ │ ✗ ]    ✗ dead: the victim, 1 is copied
//!                       └── was PPN 17: dead now     [ 2 │ 5 │ ✗ │ 8 ]
//! ```
//!
//! # Structures
//!
//! RAM: 4 B for each logical page (the map), a bit for each physical page (live or dead), 10 B for each block (live
//! pages, erases, free list). Flash: beside each page a record of its LPN, the version of its data, and a program
//! number. Each write gets a new version, and copies keep it.
//!
//! # Costs
//!
//! A read is a page read, a write is a program. Collecting a block with `v` live pages takes `v` copies and an erase.
//! That ends: a victim has a dead page, and copies create none. A collection takes at most one free block and gives one
//! back, and the host never opens the last one. The device has `gc-low` + 1 blocks more than the logical pages fill.
//! Idle time is for tired blocks alone (`parts/refresh.rs`), which are collected like victims.
//!
//! # Mounting
//!
//! Of two pages with one LPN the higher version counts, of equal versions the older copy: a collection that was cut
//! short is as if it had never begun. Blocks found in use, and blocks that look blank, are erased before their next
//! program, for power may have cut their erase (docs/fault-model.md). A cut in the erase of a victim may leave half of
//! its pages: then these count, and the copies of the others. With `gc-low = 1` that can take the last free block for
//! good, and the device is full; with two or more it goes on.
//!
//! # Departures
//!
//! One block is open at a time, so dies do not work side by side as under `page`. Discards change RAM alone: a power
//! cut may bring an older version back. On one die of sound flash this scheme issues the commands that `page` issues.

use crate::parts::census::{Census, Health};
use crate::parts::collector::{GC_HIGH, GC_LOW};
use crate::parts::data_of;
use crate::parts::refresh;
use crate::parts::space::more_spare;
use crate::parts::supply::{self, Supply};
use crate::{Build, Built, ConfigError, Error, Ftl, MountReport, Outcome, Scheme, Settings};
use alloc::{format, vec, vec::Vec};
use core::cmp::Reverse;
use flash::{Block, Cause, Collection, Die, FaultKind, Flash, FlashFault, Geometry, Lpn, Oob, Payload, Ppn};

mod inspect;
#[cfg(test)]
mod tests;

/// The row.
pub(super) static ROW: Scheme = Scheme {
    name: "simple",
    summary: "page map in one short file: read this one first",
    paper: "the page map that {dftl} calls Baseline, as short as can be",
    essay: include_str!("simple.rs"),
    own: &[GC_LOW, GC_HIGH],
    parts: &[],
    fixed: supply::GROUP.rows,
    counters: &[&[("gc_victims", "blocks collected"), ("gc_copies", "live pages copied by collections")]],
    phases: &[Cause::Host, Cause::DataGc, Cause::Recovery],
    has_cache: false,
    keeps_data: true,
    state_version: 1,
};

/// A map entry of a logical page that holds nothing.
const NONE: u32 = u32::MAX;

/// See the module's description.
#[derive(Clone, Debug)]
pub struct Simple {
    /// The page that holds each logical page, or [`NONE`].
    map: Vec<u32>,
    /// Free blocks, live pages, erases, and the number of the next program.
    supply: Supply,
    /// The block being filled, and the offset of its next page. Without a block the offset is its end.
    open: Option<Block>,
    next: u32,
    /// The last version given.
    version: u64,
    /// Collections begin when no more blocks than `low` are free, and go on until `high` are.
    low: u32,
    high: u32,
    counters: [u64; 2],
}

impl Simple {
    /// The scheme on a blank device.
    fn blank(g: Geometry, logical_pages: u32, settings: &Settings) -> Result<Simple, ConfigError> {
        let low = settings.small(&GC_LOW);
        let least = logical_pages.div_ceil(g.pages_per_block) + low + 1;
        if g.block_count() < least {
            let what = format!("{logical_pages} logical pages need {least} blocks, and there are {}", g.block_count());
            return Err(ConfigError { key: "spare", what, fix: more_spare(&g, logical_pages, least.into()) });
        }
        Ok(Simple {
            map: vec![NONE; logical_pages as usize],
            supply: Supply::new(g, &settings.into(), false),
            open: None,
            next: g.pages_per_block,
            version: 0,
            low,
            high: settings.small(&GC_HIGH).max(low + 1),
            counters: [0; 2],
        })
    }

    /// Has the map name another page; the former one dies.
    fn point(&mut self, lpn: Lpn, to: u32) {
        match core::mem::replace(&mut self.map[lpn.index()], to) {
            NONE => {}
            former => self.supply.blocks.kill(Ppn(former)),
        }
    }

    /// The next page of the open block. A full block is closed, and a free one opened while more than `kept` are free.
    fn next_page<F: Flash>(&mut self, flash: &mut F, kept: u32) -> Outcome<F, Ppn> {
        let g = *flash.geometry();
        while self.next == g.pages_per_block {
            let dies = (0..g.die_count()).map(Die).filter(|_| self.supply.blocks.free_total() > kept);
            let richest = dies.min_by_key(|&die| Reverse(self.supply.blocks.free_in(die)));
            let (block, suspect) = richest.and_then(|die| self.supply.blocks.open(die)).ok_or(Error::Full)?;
            if suspect && !self.supply.cleanse(flash, block)? {
                continue;
            }
            if let Some(full) = self.open.replace(block) {
                self.supply.blocks.close(full);
            }
            self.next = 0;
        }
        Ok(g.page(self.open.ok_or(Error::Full)?, self.next))
    }

    /// What came of a program of the next page; `None` if it failed. Its block is then done, and is to be marked bad.
    fn tried<T, E: FlashFault>(&mut self, result: Result<T, E>) -> Result<Option<T>, Error<E>> {
        self.supply.program += 1;
        match &result {
            Err(fault) if fault.kind() != FaultKind::ProgramFailed => return Err((*fault).into()),
            Err(_) => {
                let block = self.open.take().expect("a page of it was tried");
                self.supply.blocks.close_early(block, self.next);
                self.supply.doomed.push(block);
                self.next = self.supply.blocks.geometry().pages_per_block;
            }
            Ok(_) => self.next += 1,
        }
        Ok(result.ok())
    }

    /// Empties blocks, that with the fewest live pages first, until `high` are free or no full block has a dead page.
    fn make_room<F: Flash>(&mut self, flash: &mut F) -> Outcome<F> {
        while self.supply.blocks.free_total() < self.high {
            let blocks = &self.supply.blocks;
            let candidates =
                (0..flash.geometry().block_count()).map(Block).filter(|block| blocks.is_candidate(block.0));
            let Some(victim) = candidates.min_by_key(|&block| blocks.live_of(block)) else { break };
            self.collect(flash, victim, Cause::DataGc)?;
        }
        Ok(())
    }

    /// Copies the live pages of a block to the open block, and erases it when they have arrived.
    fn collect<F: Flash>(&mut self, flash: &mut F, victim: Block, cause: Cause) -> Outcome<F> {
        let mut flash = Collection::on(flash);
        while let Some(offset) = self.supply.blocks.next_live(victim, 0) {
            let to = self.next_page(&mut *flash, 0)?;
            let (from, program) = (flash.geometry().page(victim, offset), self.supply.program);
            if let Some(oob) = self.tried(flash.copy(from, to, cause, |oob, _| oob.program = program))? {
                self.point(oob.lpn(), to.0);
                self.counters[1] += u64::from(cause == Cause::DataGc);
            }
        }
        flash.then();
        self.counters[0] += u64::from(cause == Cause::DataGc);
        let Some(place) = self.supply.doomed.iter().position(|&doomed| doomed == victim) else {
            return self.supply.erase(&mut *flash, victim, cause);
        };
        self.supply.doomed.remove(place);
        self.supply.mark_bad(&mut *flash, victim)
    }

    /// Moves the pages of a tired block, or makes room for that; the open one takes no further page if it is tired.
    /// Whether anything was done.
    fn refresh<F: Flash>(&mut self, flash: &mut F, block: Block) -> Outcome<F, bool> {
        if let Some(done) = self.supply.refresh_unused(flash, block)? {
            return Ok(done);
        }
        if self.supply.blocks.free_total() == 0 {
            self.make_room(flash)?;
            return Ok(self.supply.blocks.free_total() > 0);
        }
        if let Some(open) = self.open.take_if(|open| flash.tired(*open) == Some(*open)) {
            self.supply.blocks.close_early(open, self.next);
            self.next = flash.geometry().pages_per_block;
        }
        self.collect(flash, block, Cause::Refresh).map(|()| true)
    }
}

impl<F: Flash> Build<F> for Simple {
    fn format(flash: &mut F, logical_pages: u32, settings: &Settings) -> Built<F, Self> {
        let mut simple = Simple::blank(*flash.geometry(), logical_pages, settings)?;
        simple.supply.exclude_bad(flash)?;
        Ok(simple)
    }

    fn mount(flash: &mut F, logical_pages: u32, settings: &Settings) -> Built<F, (Self, MountReport)> {
        let mut simple = Simple::blank(*flash.geometry(), logical_pages, settings)?;
        let mut best = vec![(0, false, Reverse(0)); logical_pages as usize];
        let census = Census::take(flash, None, |pages, health| {
            for (ppn, oob) in pages.iter().filter(|(_, oob)| oob.address < logical_pages) {
                // What cannot be read gives way to any sound copy of its version.
                let (lpn, rank) = (oob.lpn().index(), (oob.version, health == Health::Sound, Reverse(oob.program)));
                if rank > best[lpn] {
                    (best[lpn], simple.map[lpn]) = (rank, ppn.0);
                }
            }
        })?;
        simple.version = census.max_version;
        simple.supply.adopt(&census, |block| census.blocks[block.index()].is_some());
        simple.map.iter().filter(|&&page| page != NONE).for_each(|&page| simple.supply.blocks.revive(Ppn(page)));
        Ok((simple, census.report()))
    }

    fn restore(geometry: &Geometry, logical_pages: u32, settings: &Settings, bytes: &[u8]) -> Self {
        let mut simple = Simple::blank(*geometry, logical_pages, settings).expect("it was built with these settings");
        simple.load(bytes);
        simple
    }
}

impl<F: Flash> Ftl<F> for Simple {
    fn read<'f>(&'f mut self, flash: &'f mut F, lpn: Lpn) -> Outcome<F, Option<&'f F::User>> {
        match self.map[lpn.index()] {
            NONE => Ok(None),
            page => {
                let (oob, data) = flash.read(Ppn(page), Cause::Host)?;
                data_of(lpn, oob, data).map(Some)
            }
        }
    }

    fn write(&mut self, flash: &mut F, lpn: Lpn, data: &F::User) -> Outcome<F> {
        self.version += 1;
        loop {
            // Also where a program failed: its block took a free one's place, and may have to be followed by another.
            if self.next == flash.geometry().pages_per_block && self.supply.blocks.free_total() <= self.low {
                self.make_room(flash)?;
            }
            let to = self.next_page(flash, 1)?;
            let oob = Oob::data(lpn, self.version, self.supply.program);
            if self.tried(flash.program(to, oob, Payload::User(data), Cause::Host))?.is_some() {
                self.point(lpn, to.0);
                return Ok(());
            }
        }
    }

    fn trim(&mut self, _: &mut F, first: Lpn, count: u32) -> Outcome<F> {
        (first.0..first.0 + count).for_each(|lpn| self.point(Lpn(lpn), NONE));
        Ok(())
    }

    fn flush(&mut self, _: &mut F) -> Outcome<F> {
        Ok(())
    }

    fn idle(&mut self, flash: &mut F, _: u32) -> Outcome<F, bool> {
        refresh::first(flash, |flash, block| self.refresh(flash, block))
    }
}

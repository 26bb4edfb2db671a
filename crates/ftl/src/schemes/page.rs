//! `page`: the ideal page map, wholly in RAM.
//!
//! The problem: every other scheme gives up something (speed, erases, or generality) because a map of every page costs
//! too much RAM. This is what they give it up from: the reference line called PFTL (the SCFTL paper), Baseline (the
//! DFTL paper), Optimal (the LSFTL paper). A write goes to the next page of an open block, wherever that is, and the
//! map remembers it. Dead pages pile up until a block is collected: its live pages are copied on, and it is erased. No
//! flash operation is ever spent on the map.
//!
//! ```text
//!   LPN ──▶ map[LPN] ──▶ PPN        die 0  [open block]──▶ pages in order
//!            4 B each               die 1  [open block]──▶      …
//!   host writes go round the dies; each die collects its own blocks
//! ```
//!
//! # Structures
//!
//! RAM: 4 B for each logical page; 1 bit for each physical page (live); per block 2 B live count, 4 B erase count and
//! its place in the free list. Flash: data pages, and trim pages if TRIM is durable.
//!
//! # Costs
//!
//! A read, or a program. A collected block with `v` live pages costs `v` copies and an erase.
//!
//! # Space
//!
//! `parts/collector.rs` decides when a die collects, which blocks, and how the copies are dealt over time. A collection
//! copies the live pages of a victim into at most one newly opened block and then frees a whole block. A trim page for
//! discards that are still pending takes the room of a page gained, but only once, for then none is pending. A die in
//! which no block has a dead page is full, and writes go to the others. The last free block of a die is opened by
//! collections that run to their end only, which mounting relies on (docs/recovery.md).
//!
//! With `ecc`, a policy says in which mode each host page is programmed and each copy of a collection, and a read may
//! order that its page be written anew (parts/ecc.rs). Such a rewrite takes room as a host write does.
//!
//! Wear levelling, if it is on, moves a cold block's pages between two collections and as they do. A move takes no
//! room: the cold block becomes free, with at least as many pages as were copied. Records of discards may take more
//! pages than before, so that none may be pending, and a block must have a dead page if one of its trim pages stands
//! for more pages than a page has records.
//!
//! # Departures
//!
//! Striping over dies is not in the papers; it is a parameter of the run (one die). `gc-spread` and durable TRIM are
//! ours, and off (docs/recovery.md).

use crate::ecc_policy;
use crate::parts::census::mount_through;
use crate::parts::collector::{self, Collects};
use crate::parts::ecc::Ecc;
use crate::parts::lanes::Stream;
use crate::parts::space::{self, MOST_MOVED, Space, more_spare};
use crate::parts::supply;
use crate::parts::tombstones::{self, DURABLE_TRIM, Tombstone, Tombstones};
use crate::parts::wear_state;
use crate::{Build, Built, ConfigError, Error, Ftl, Loader, MountReport, Outcome, Parameter};
use crate::{Scheme, Settings};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use flash::{Cause, Flash, Geometry, Lpn, Mode, Ppn};

mod collection;
mod discards;
mod ecc;
mod inspect;
mod mount;
mod placement;
mod survey;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod wear;

/// The row.
pub(super) static ROW: Scheme = Scheme {
    name: "page",
    summary: "ideal page map, wholly in RAM: the reference line",
    paper: "called PFTL by {scftl}, Baseline by {dftl}, Optimal by {lsftl}",
    essay: include_str!("page.rs"),
    own: &[STREAMS, STRIPE_BY],
    parts: &[space::COLLECTION, supply::GROUP, tombstones::GROUP, ecc_policy::GROUP],
    fixed: &[],
    counters: &[&[
        ("gc_victims", "blocks collected"),
        ("gc_dead_victims", "blocks collected that held no live page"),
        ("gc_copies", "live pages copied by collections"),
        ("trim_pages", "trim pages programmed"),
    ]],
    phases: &[Cause::Host, Cause::DataGc, Cause::WearLevelling, Cause::EccRewrite, Cause::Metadata, Cause::Recovery],
    has_cache: false,
    keeps_data: true,
    state_version: 4,
};

/// `streams`: write streams.
const STREAMS: Parameter = Parameter::count("streams", 1, 1..=2)
    .text(
        "Write streams. 1: host writes and collected pages share a block. 2 keeps them apart, which separates \
         cold from hot pages and keeps one more block open on each die.",
    )
    .source("{flashsim} has 1");

/// `stripe-by`: which die takes a page.
const STRIPE_BY: Parameter = Parameter::word("stripe-by", "turn", &["turn", "address"])
    .text(
        "The die that a host page goes to. turn: each in turn. address: by the remainder of the page's address, if \
         that die has room; runs of addresses then always lie on different dies.",
    )
    .source("turn ftlab; address DiskSim's SSD extension");

const HOST: Stream = Stream(0);

/// Map entries: a PPN below [`TRIMMED`]; [`TRIMMED`] plus the PPN of the trim page that discards the LPN; [`PENDING`],
/// discarded by a record still in RAM; or [`NONE`].
const TRIMMED: u32 = 1 << 31;
const PENDING: u32 = u32::MAX - 1;
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Default, Debug)]
struct Counters {
    victims: u64,
    dead_victims: u64,
    copies: u64,
    trim_pages: u64,
}

/// See the module's description.
#[derive(Clone, Debug)]
pub struct Page {
    map: Vec<u32>,
    space: Space,
    /// The stream that collected pages go to.
    gc: Stream,
    by_address: bool,
    durable_trim: bool,
    tombstones: Tombstones,
    /// Versions given so far.
    version: u64,
    counters: Counters,
    /// The LPNs of a run of copies; means nothing between runs.
    moved: [u32; MOST_MOVED],
}

impl Page {
    fn streams(g: &Geometry, settings: &Settings) -> Vec<usize> {
        vec![g.die_count() as usize; settings.count(&STREAMS) as usize]
    }

    fn blank(g: Geometry, logical_pages: u32, settings: &Settings) -> Page {
        let mut space = Space::new(g, &settings.into(), &Self::streams(&g, settings), 1);
        space.ecc = Ecc::of(&settings.into(), &g, logical_pages);
        Page {
            map: vec![NONE; logical_pages as usize],
            space,
            gc: Stream(settings.count(&STREAMS) as u32 - 1),
            by_address: settings.word(&STRIPE_BY) == "address",
            durable_trim: settings.switch(&DURABLE_TRIM),
            tombstones: Tombstones::default(),
            version: 0,
            counters: Counters::default(),
            moved: [0; MOST_MOVED],
        }
    }

    /// A device that is formatted has the blocks that the scheme keeps free.
    fn check_room(g: &Geometry, logical_pages: u32, settings: &Settings) -> Result<(), ConfigError> {
        let apart = wear_state::Options::from(settings).blocks_of_die(g);
        let kept = collector::Options::from(settings).free(1) + settings.count(&STREAMS) + u64::from(apart);
        let dies = u64::from(g.die_count());
        let usable = u64::from(g.blocks_per_die).saturating_sub(kept) * dies * u64::from(g.pages_per_block);
        if usable >= u64::from(logical_pages) {
            return Ok(());
        }
        let least = u64::from(logical_pages).div_ceil(u64::from(g.pages_per_block) * dies) + kept;
        Err(ConfigError {
            key: "spare",
            what: format!(
                "{logical_pages} logical pages need {least} blocks on each of {dies} dies ({kept} of them kept free or \
                 open), and there are {}",
                g.blocks_per_die
            ),
            fix: more_spare(g, logical_pages, least * dies),
        })
    }
}

impl<F: Flash> Build<F> for Page {
    fn format(flash: &mut F, logical_pages: u32, settings: &Settings) -> Built<F, Self> {
        let g = *flash.geometry();
        Self::check_room(&g, logical_pages, settings)?;
        wear_state::Options::from(settings).reserve(flash, 0)?;
        let mut page = Page::blank(g, logical_pages, settings);
        page.space.exclude_bad(flash)?;
        Ok(page)
    }

    fn mount(flash: &mut F, logical_pages: u32, settings: &Settings) -> Built<F, (Self, MountReport)> {
        wear_state::Options::from(settings).reserve(flash, 0)?;
        Ok(mount_through(flash, |flash, report| Self::mount_on(flash, logical_pages, settings, report))?)
    }

    fn restore(geometry: &Geometry, logical_pages: u32, settings: &Settings, bytes: &[u8]) -> Self {
        let mut from = Loader::new(bytes);
        let mut page = Page::blank(*geometry, logical_pages, settings);
        page.map.iter_mut().for_each(|entry| *entry = from.u32());
        page.space = page.space.load(&mut from);
        page.tombstones = Tombstones::load(&mut from, page.map.len() as u32);
        page.version = from.u64();
        debug_assert!(from.is_done());
        page
    }
}

impl<F: Flash> Ftl<F> for Page {
    #[inline(always)]
    fn request(&mut self, first: Lpn, pages: u32) {
        self.space.collector.beside.clear();
        if let Some(ecc) = &mut self.space.ecc {
            ecc.request(first, pages);
        }
    }

    #[inline]
    fn read<'f>(&'f mut self, flash: &'f mut F, lpn: Lpn) -> Outcome<F, Option<&'f F::User>> {
        let entry = self.map[lpn.index()];
        let hot = self.space.ecc.as_mut().is_some_and(|ecc| ecc.was_read(lpn));
        if entry >= TRIMMED {
            return Ok(None);
        }
        if hot {
            return self.read_hot(flash, lpn).map(Some);
        }
        let (_, data) = flash.read(Ppn(entry), Cause::Host)?;
        data.host().map(Some).ok_or(Error::Corrupt)
    }

    fn read_to_modify<'f>(&'f mut self, flash: &'f mut F, lpn: Lpn) -> Outcome<F, Option<&'f F::User>> {
        // The host has not asked for it, and the page is about to be written.
        match self.map[lpn.index()] {
            TRIMMED.. => Ok(None),
            page => flash.read(Ppn(page), Cause::Host)?.1.host().map(Some).ok_or(Error::Corrupt),
        }
    }

    fn is_mapped(&self, lpn: Lpn) -> Option<bool> {
        Some(self.map[lpn.index()] < TRIMMED)
    }

    #[inline]
    fn write(&mut self, flash: &mut F, lpn: Lpn, data: &F::User) -> Outcome<F> {
        if self.space.ecc.is_some() {
            return self.write_as_told(flash, lpn, data);
        }
        self.write_in(flash, lpn, data, Mode::Normal)
    }

    fn trim(&mut self, flash: &mut F, first: Lpn, count: u32) -> Outcome<F> {
        if !self.durable_trim {
            for lpn in first.index()..first.index() + count as usize {
                self.point(lpn, NONE);
            }
            return Ok(());
        }
        self.space.collector.beside.clear();
        // Only a failure leaves so many, and a burial takes one page for all of them.
        if self.tombstones.pending.len() >= self.records_per_page() {
            self.write_tombstones(flash, Cause::Metadata)?;
        }
        // A record for each run of pages that are mapped: a mount believes of a record what it says.
        let (mut next, end) = (first.index(), first.index() + count as usize);
        let mut version = None;
        while let Some(start) = (next..end).find(|&lpn| self.map[lpn] < TRIMMED) {
            next = (start..end).find(|&lpn| self.map[lpn] >= TRIMMED).unwrap_or(end);
            (start..next).for_each(|lpn| self.point(lpn, PENDING));
            let version = *version.get_or_insert_with(|| {
                self.version += 1;
                self.version
            });
            let count = (next - start) as u32;
            self.tombstones.pending.push(Tombstone { first: start as u32, count, version });
            if self.tombstones.pending.len() >= self.records_per_page() {
                self.write_tombstones(flash, Cause::Metadata)?;
            }
        }
        Ok(())
    }

    fn flush(&mut self, flash: &mut F) -> Outcome<F> {
        self.space.collector.beside.clear();
        self.write_tombstones(flash, Cause::Metadata)
    }

    fn idle(&mut self, flash: &mut F, copies: u32) -> Outcome<F, bool> {
        self.space.collector.beside.clear();
        self.collect_ahead(flash, copies)
    }
}

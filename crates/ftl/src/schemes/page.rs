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
//! pages than before, so that none may be pending, and a block must have a dead page if there are any on flash.
//!
//! # Departures
//!
//! Striping over dies is not in the papers; it is a parameter of the run (one die). `gc-spread` and durable TRIM are
//! ours, and off (docs/recovery.md).

use crate::ecc_policy;
use crate::parts::collector::{self, Collects, Takes};
use crate::parts::ecc::Ecc;
use crate::parts::lanes::{Lane, Stream};
use crate::parts::space::{self, Fate, MOST_MOVED, Space, lowest_bits};
use crate::parts::supply;
use crate::parts::tombstones::{self, DURABLE_TRIM, Tombstone, Tombstones};
use crate::{Build, BuildError, ConfigError, Error, Ftl, Inspect, Loader, MountReport, Parameter};
use crate::{Saver, Scheme, Settings};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use flash::{Block, Cause, Die, FaultKind, Flash, FlashFault, Geometry, Kind, Lpn, Mode, Oob, Payload, Ppn, prefetch};

mod ecc;
mod survey;
#[cfg(test)]
mod wear;
use survey::Survey;

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
        ("gc_copies", "live pages copied by collections"),
        ("trim_pages", "trim pages programmed"),
    ]],
    phases: &[Cause::Host, Cause::DataGc, Cause::WearLevelling, Cause::EccRewrite, Cause::Metadata, Cause::Recovery],
    has_cache: false,
    keeps_data: true,
    state_version: 2,
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

    fn check(g: &Geometry, logical_pages: u32, settings: &Settings) -> Result<(), ConfigError> {
        let kept = collector::Options::from(settings).kept() + settings.count(&STREAMS);
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
            fix: format!(
                "give more spare space, at least {:.2} %",
                100.0 - 100.0 * (least - kept) as f64 / least as f64
            ),
        })
    }

    /// Programs a page in the host stream; where it went.
    #[inline(always)]
    fn put<F: Flash>(
        &mut self,
        flash: &mut F,
        mut oob: Oob,
        data: Payload<'_, F::User>,
        cause: Cause,
    ) -> Result<(Ppn, Lane), Error<F::Fault>> {
        if self.by_address {
            self.space.streams[HOST.index()].turn_to(oob.address);
        }
        loop {
            let (to, lane) = match self.space.streams[HOST.index()].take_in_turn() {
                Some(taken) => taken,
                None => self.take_elsewhere(flash)?,
            };
            oob.program = self.space.number();
            match flash.program(to, oob, data, cause) {
                Ok(()) => return Ok((to, lane)),
                Err(fault) if fault.kind() == FaultKind::ProgramFailed => self.space.abandon(to),
                Err(fault) => return Err(fault.into()),
            }
        }
    }

    /// Writes a page in a mode. Where all pages have one, the compiler knows it.
    #[inline(always)]
    fn write_in<F: Flash>(
        &mut self,
        flash: &mut F,
        lpn: Lpn,
        data: &F::User,
        mode: Mode,
    ) -> Result<(), Error<F::Fault>> {
        if !self.space.doomed.is_empty() {
            self.evacuate(flash)?;
        }
        self.space.blocks.clock += 1;
        self.version += 1;
        let oob = Oob { mode, ..Oob::data(lpn, self.version, 0) };
        let (to, lane) = self.put(flash, oob, Payload::User(data), Cause::Host)?;
        self.point(lpn.index(), to.0);
        if self.space.collector.is_spread() {
            self.pay_on(flash, lane.die(flash.geometry()))?;
        }
        self.level_if_due(flash)
    }

    /// The block of the lane in turn is full: a page of the next lane that has room, or is given any.
    #[cold]
    #[inline(never)]
    fn take_elsewhere<F: Flash>(&mut self, flash: &mut F) -> Result<(Ppn, Lane), Error<F::Fault>> {
        let turn = self.space.streams[HOST.index()].turn();
        self.refill(flash, HOST, turn)?;
        self.space.streams[HOST.index()].take_in_turn().ok_or(Error::Full)
    }

    /// Makes room for a page in the lane in turn, as for a host write; this may move pages.
    fn ready<F: Flash>(&mut self, flash: &mut F) -> Result<(), Error<F::Fault>> {
        let turn = self.space.streams[HOST.index()].turn();
        if self.space.streams[HOST.index()].room(turn) == 0 {
            self.refill(flash, HOST, turn)?;
        }
        Ok(())
    }

    /// Programs the pending tombstones before a block is erased: it may hold the newest copy of a discarded page, while
    /// an older one lives on elsewhere and would come back if power were cut.
    fn bury<F: Flash>(&mut self, flash: &mut F, die: Die) -> Result<(), Error<F::Fault>> {
        if self.tombstones.pending.is_empty() {
            return Ok(());
        }
        let records = self.tombstones.pending.clone();
        let page = self.put_tombstones(flash, &records, die, Cause::Metadata)?;
        self.tombstones.pending.clear();
        self.point_at_tombstones(page, &records, |entry| entry == PENDING);
        Ok(())
    }

    /// Copies up to `limit` of the pages whose bits are set, counted from page `from` on, into the block that is open
    /// for them on `die`; stops at its end, at a trim page and at a program that fails. The bits of those that moved.
    fn copy_run<F: Flash>(
        &mut self,
        flash: &mut F,
        (from, bits): (Ppn, u64),
        limit: u32,
        die: Die,
        cause: Cause,
    ) -> Result<u64, Error<F::Fault>> {
        let bits = lowest_bits(self.before_trim_page(from, bits), limit);
        let Page { map, moved, .. } = self;
        let run = self.space.move_run(flash, self.gc, die, (from, bits), cause, |i, lpn| {
            prefetch(map, lpn as usize);
            moved[i % MOST_MOVED] = lpn;
        })?;
        // The map is touched only now, when the lines that the copies asked for have arrived; also after a failure, for
        // what was copied has moved.
        for (&lpn, to) in self.moved.iter().zip(run.to.clone()) {
            self.map[lpn as usize] = to;
        }
        self.counters.copies += if cause == Cause::DataGc { run.to.len() as u64 } else { 0 };
        run.result?;
        Ok(run.moved)
    }

    /// Of the bits of live pages, counted from page `from` on, those before the first trim page.
    #[inline(always)]
    fn before_trim_page(&self, from: Ppn, bits: u64) -> u64 {
        if !self.tombstones.any_on_flash() {
            return bits;
        }
        let is_trim_page = |bit: &u32| bits >> bit & 1 == 1 && self.tombstones.is_trim_page(Ppn(from.0 + bit));
        (0..64).find(is_trim_page).map_or(bits, |bit| bits & ((1 << bit) - 1))
    }

    /// Sets a map entry; what it pointed at dies.
    #[inline(always)]
    fn point(&mut self, lpn: usize, entry: u32) {
        let old = core::mem::replace(&mut self.map[lpn], entry);
        if old < TRIMMED {
            self.space.blocks.kill(Ppn(old));
        } else if old < PENDING {
            self.release_tombstone(old);
        }
    }

    #[cold]
    fn release_tombstone(&mut self, entry: u32) {
        let page = Ppn(entry - TRIMMED);
        if self.tombstones.release(page) {
            self.space.blocks.kill(page);
        }
    }

    fn records_per_page(&self) -> usize {
        self.space.blocks.geometry().entries_per_page() as usize / tombstones::RECORD_WORDS
    }

    /// Programs the pending tombstones.
    fn write_tombstones<F: Flash>(&mut self, flash: &mut F, cause: Cause) -> Result<(), Error<F::Fault>> {
        let limit = self.records_per_page();
        while !self.tombstones.pending.is_empty() {
            // A collection that makes room may bury them all.
            self.ready(flash)?;
            let count = self.tombstones.pending.len().min(limit);
            let records: Vec<Tombstone> = self.tombstones.pending[..count].to_vec();
            if records.is_empty() {
                break;
            }
            let (page, _) = self.put(flash, self.trim_oob(), Payload::Meta(&tombstones::encode(&records)), cause)?;
            self.tombstones.pending.drain(..count.min(self.tombstones.pending.len()));
            self.counters.trim_pages += 1;
            self.point_at_tombstones(page, &records, |entry| entry == PENDING);
        }
        Ok(())
    }

    fn trim_oob(&self) -> Oob {
        Oob { kind: Kind::Trim, mode: Mode::Normal, address: 0, version: self.version, program: 0, mark: 0 }
    }

    /// Points the entries of the records' LPNs that satisfy `which` at trim page `page`, which dies if there is none;
    /// how many there are.
    fn point_at_tombstones(&mut self, page: Ppn, records: &[Tombstone], which: impl Fn(u32) -> bool) -> u32 {
        let mut count = 0;
        for lpn in records.iter().flat_map(|record| record.lpns()) {
            let entry = &mut self.map[lpn as usize];
            if which(*entry) {
                *entry = TRIMMED | page.0;
                count += 1;
            }
        }
        if count == 0 {
            self.space.blocks.kill(page);
        } else {
            self.tombstones.refer(page, count);
        }
        count
    }

    /// Programs a trim page where collected pages of `die` go.
    fn put_tombstones<F: Flash>(
        &mut self,
        flash: &mut F,
        records: &[Tombstone],
        die: Die,
        cause: Cause,
    ) -> Result<Ppn, Error<F::Fault>> {
        loop {
            let to = self.space.page_on(flash, self.gc, Lane::of(die))?;
            let oob = Oob { program: self.space.number(), ..self.trim_oob() };
            match flash.program(to, oob, Payload::Meta(&tombstones::encode(records)), cause) {
                Ok(()) => {
                    self.counters.trim_pages += 1;
                    return Ok(to);
                }
                Err(fault) if fault.kind() == FaultKind::ProgramFailed => self.space.abandon(to),
                Err(fault) => return Err(fault.into()),
            }
        }
    }

    /// Collects a trim page: its records that are still needed go to new ones.
    fn rewrite_tombstones<F: Flash>(
        &mut self,
        flash: &mut F,
        from: Ppn,
        die: Die,
        cause: Cause,
    ) -> Result<(), Error<F::Fault>> {
        let (_, content) = flash.read(from, cause)?;
        let entry = TRIMMED | from.0;
        // Of several records of one LPN the newest: its successors may end up in another page than its predecessors.
        let mut newest: BTreeMap<u32, u64> = BTreeMap::new();
        for record in tombstones::decode(content.meta()) {
            for lpn in record.lpns().filter(|&lpn| self.map[lpn as usize] == entry) {
                let version = newest.entry(lpn).or_insert(0);
                *version = record.version.max(*version);
            }
        }
        let mut needed: Vec<Tombstone> = Vec::new();
        for (lpn, version) in newest {
            match needed.last_mut() {
                Some(run) if run.version == version && run.lpns().end == lpn => run.count += 1,
                _ => needed.push(Tombstone { first: lpn, count: 1, version }),
            }
        }
        let limit = self.records_per_page();
        for records in needed.chunks(limit) {
            let page = self.put_tombstones(flash, records, die, cause)?;
            for _ in 0..self.point_at_tombstones(page, records, |old| old == entry) {
                self.release_tombstone(entry);
            }
        }
        Ok(())
    }

    /// While mounting, on a die whose last free block is in use: collects before host writes can take what is left of
    /// the room for it.
    fn regain<F: Flash>(&mut self, flash: &mut F, die: Die) -> Result<(), Error<F::Fault>> {
        let g = *flash.geometry();
        let lane = Lane::of(die);
        while self.space.blocks.free_in(die) == 0 {
            // A collection on another die may have opened a block here already: the one with more room is kept.
            let room = |stream: Stream| self.space.streams[stream.index()].room(lane);
            let (of_host, of_copies) = (room(HOST), room(self.gc));
            let is_better = self.gc != HOST && of_host >= of_copies;
            if let Some(block) = self.space.streams[HOST.index()].block(lane).filter(|_| is_better) {
                self.space.streams[HOST.index()].clear(lane);
                let next = g.pages_per_block - of_host;
                if let Some(former) = self.space.streams[self.gc.index()].replace(&g, lane, block, next) {
                    self.space.blocks.close_early(former, g.pages_per_block - of_copies);
                }
            }
            let blocks = &self.space.blocks;
            let candidates = blocks.range(die).filter(|&block| blocks.is_candidate(block)).map(Block);
            let Some(victim) = candidates.min_by_key(|&block| blocks.live_of(block)) else { return Ok(()) };
            match self.collect(flash, victim, Fate::Erase, None) {
                // The device can still be read, and says that it is full when it is written.
                Err(Error::Full) => return Ok(()),
                collected => collected?,
            }
        }
        Ok(())
    }

    /// While mounting, on a die without a free block: the collection that power interrupted had opened the last one. If
    /// every page in it has a twin of the same version elsewhere, it is erased, and the collection starts afresh with
    /// all the room that it needs, however often that happens.
    fn start_afresh<F: Flash>(flash: &mut F, survey: &mut Survey, die: Die) -> Result<(), Error<F::Fault>> {
        let g = *flash.geometry();
        let mut used = g.blocks_of(die).filter(|&block| !survey.census.bad.contains(&Block(block)));
        if used.any(|block| survey.census.blocks[block as usize].is_none()) {
            return Ok(());
        }
        let Some(newest) = survey.census.newest_of(g.blocks_of(die)) else { return Ok(()) };
        let mut rest = survey.clone();
        rest.census.drop_block(newest, &g);
        rest.settle(flash)?;
        let twins = survey.best.iter().zip(&rest.best).all(|(with, without)| with.0 == without.0);
        if !twins {
            return Ok(());
        }
        match flash.erase(newest, Cause::Recovery) {
            Ok(()) => *survey = rest,
            Err(fault) if fault.kind() == FaultKind::EraseFailed => {}
            Err(fault) => return Err(fault.into()),
        }
        Ok(())
    }

    fn mount_on<F: Flash>(
        flash: &mut F,
        logical_pages: u32,
        settings: &Settings,
    ) -> Result<(Page, MountReport), Error<F::Fault>> {
        let g = *flash.geometry();
        let mut page = Page::blank(g, logical_pages, settings);
        let mut survey = Survey::take(flash, logical_pages)?;
        let report = survey.report();
        for die in (0..g.die_count()).map(Die) {
            Self::start_afresh(flash, &mut survey, die)?;
        }
        let Survey { census, map, version, .. } = survey;
        page.map = map;
        page.version = version;
        page.space.adopt(&census, HOST, None);
        for &entry in page.map.iter().filter(|&&entry| entry != NONE) {
            if entry < TRIMMED {
                page.space.blocks.revive(Ppn(entry));
            } else {
                let ppn = Ppn(entry - TRIMMED);
                if !page.tombstones.is_trim_page(ppn) {
                    page.space.blocks.revive(ppn);
                }
                page.tombstones.refer(ppn, 1);
            }
        }
        for die in (0..g.die_count()).map(Die) {
            page.regain(flash, die)?;
        }
        Ok((page, report))
    }
}

impl Collects for Page {
    #[inline(always)]
    fn space(&self) -> &Space {
        &self.space
    }

    #[inline(always)]
    fn space_mut(&mut self) -> &mut Space {
        &mut self.space
    }

    fn takes(&self, block: Block) -> Takes {
        let records = u32::from(!self.tombstones.pending.is_empty());
        Takes { moved: (self.gc, self.space.blocks.live_of(block)), told: (self.gc, records) }
    }

    fn move_out<F: Flash>(
        &mut self,
        flash: &mut F,
        block: Block,
        mut next: u32,
        limit: u32,
        cause: Option<Cause>,
    ) -> Result<Option<u32>, Error<F::Fault>> {
        let g = *flash.geometry();
        let die = g.die_of(block);
        let cause = cause.unwrap_or(Cause::DataGc);
        let mut left = limit;
        while let Some((first, bits)) = self.space.blocks.live_word(block, next) {
            if left == 0 {
                return Ok(Some(first));
            }
            let from = g.page(block, first);
            if self.tombstones.is_trim_page(from) {
                self.rewrite_tombstones(flash, from, die, cause)?;
                next = first + 1;
                left -= 1;
            } else {
                let copied = self.copy_run(flash, (from, bits), left, die, cause)?;
                next = first + 64 - copied.leading_zeros();
                left -= copied.count_ones();
            }
        }
        Ok(None)
    }

    fn tell<F: Flash>(
        &mut self,
        flash: &mut F,
        block: Block,
        _: u32,
        _: Option<Cause>,
    ) -> Result<bool, Error<F::Fault>> {
        self.bury(flash, flash.geometry().die_of(block)).map(|()| true)
    }

    fn count_victim(&mut self, _: Block) {
        self.counters.victims += 1;
    }

    fn may_level(&self, block: Block) -> bool {
        let gains = self.space.blocks.live_of(block) < self.space.blocks.geometry().pages_per_block;
        self.tombstones.pending.is_empty() && (gains || !self.tombstones.any_on_flash())
    }
}

impl<F: Flash> Build<F> for Page {
    fn format(flash: &mut F, logical_pages: u32, settings: &Settings) -> Result<Self, BuildError<F::Fault>> {
        let g = *flash.geometry();
        Self::check(&g, logical_pages, settings)?;
        let mut page = Page::blank(g, logical_pages, settings);
        page.space.exclude_bad(flash)?;
        Ok(page)
    }

    fn mount(
        flash: &mut F,
        logical_pages: u32,
        settings: &Settings,
    ) -> Result<(Self, MountReport), BuildError<F::Fault>> {
        Self::check(flash.geometry(), logical_pages, settings)?;
        Ok(Self::mount_on(flash, logical_pages, settings)?)
    }

    fn restore(geometry: &Geometry, logical_pages: u32, settings: &Settings, bytes: &[u8]) -> Self {
        let mut from = Loader::new(bytes);
        let mut page = Page::blank(*geometry, logical_pages, settings);
        page.map.iter_mut().for_each(|entry| *entry = from.u32());
        page.space = page.space.load(&mut from);
        page.tombstones = Tombstones::load(&mut from);
        page.version = from.u64();
        debug_assert!(from.is_done());
        page
    }
}

impl<F: Flash> Ftl<F> for Page {
    #[inline]
    fn read<'f>(&'f mut self, flash: &'f mut F, lpn: Lpn) -> Result<Option<&'f F::User>, Error<F::Fault>> {
        let entry = self.map[lpn.index()];
        let hot = self.space.ecc.as_mut().is_some_and(|ecc| ecc.was_read(lpn));
        if entry >= TRIMMED {
            return Ok(None);
        }
        if hot {
            return self.read_hot(flash, lpn).map(Some);
        }
        let (_, data) = flash.read(Ppn(entry), Cause::Host)?;
        Ok(Some(data.user()))
    }

    fn read_to_modify<'f>(&'f mut self, flash: &'f mut F, lpn: Lpn) -> Result<Option<&'f F::User>, Error<F::Fault>> {
        // The host has not asked for it, and the page is about to be written.
        match self.map[lpn.index()] {
            TRIMMED.. => Ok(None),
            page => Ok(Some(flash.read(Ppn(page), Cause::Host)?.1.user())),
        }
    }

    fn is_mapped(&self, lpn: Lpn) -> Option<bool> {
        Some(self.map[lpn.index()] < TRIMMED)
    }

    #[inline]
    fn write(&mut self, flash: &mut F, lpn: Lpn, data: &F::User) -> Result<(), Error<F::Fault>> {
        if self.space.ecc.is_some() {
            return self.write_as_told(flash, lpn, data);
        }
        self.write_in(flash, lpn, data, Mode::Normal)
    }

    fn trim(&mut self, flash: &mut F, first: Lpn, count: u32) -> Result<(), Error<F::Fault>> {
        if !self.durable_trim {
            for lpn in first.index()..first.index() + count as usize {
                self.point(lpn, NONE);
            }
            return Ok(());
        }
        let mut changed = false;
        for lpn in first.index()..first.index() + count as usize {
            if self.map[lpn] < TRIMMED {
                self.point(lpn, PENDING);
                changed = true;
            }
        }
        if changed {
            self.version += 1;
            self.tombstones.pending.push(Tombstone { first: first.0, count, version: self.version });
            if self.tombstones.pending.len() >= self.records_per_page() {
                self.write_tombstones(flash, Cause::Metadata)?;
            }
        }
        Ok(())
    }

    fn flush(&mut self, flash: &mut F) -> Result<(), Error<F::Fault>> {
        self.write_tombstones(flash, Cause::Metadata)
    }

    fn idle(&mut self, flash: &mut F, copies: u32) -> Result<bool, Error<F::Fault>> {
        self.collect_ahead(flash, copies)
    }
}

impl<F: Flash> Inspect<F> for Page {
    fn filling(&mut self, filling: bool) {
        if let Some(ecc) = &mut self.space.ecc {
            ecc.filling(filling);
        }
    }

    #[inline(always)]
    fn hint(&self, lpn: Lpn) {
        prefetch(&self.map, lpn.index());
    }

    #[inline(always)]
    fn hint_soon(&self, lpn: Lpn) {
        if let Some(&entry) = self.map.get(lpn.index()).filter(|&&entry| entry < TRIMMED) {
            self.space.blocks.prefetch(Ppn(entry));
        }
    }

    fn memory(&self) -> Vec<(&'static str, u64)> {
        let mut out = vec![("page map", self.map.len() as u64 * 4)];
        out.extend(self.space.memory());
        out.push(("tombstones", self.tombstones.memory()));
        out
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let Counters { victims, copies, trim_pages } = self.counters;
        vec![("gc_victims", victims), ("gc_copies", copies), ("trim_pages", trim_pages)]
    }

    fn reset_counters(&mut self) {
        self.counters = Counters::default();
    }

    fn erase_counts(&self) -> &[u32] {
        self.space.blocks.erase_counts()
    }

    fn free_blocks(&self) -> u32 {
        self.space.blocks.free_total()
    }

    fn audit(&self, flash: &mut F) -> Result<(), String> {
        let g = *flash.geometry();
        let mut expected = vec![0u32; g.block_count() as usize];
        for (lpn, &entry) in self.map.iter().enumerate().filter(|&(_, &entry)| entry < TRIMMED) {
            self.space.audit_page(flash, Lpn(lpn as u32), Ppn(entry), &mut expected)?;
        }
        for (ppn, count) in self.tombstones.pages() {
            let pointing = self.map.iter().filter(|&&entry| entry == TRIMMED | ppn.0).count() as u32;
            if pointing != count || !self.space.blocks.is_live(ppn) {
                return Err(format!("trim page {ppn} counts {count} entries, but {pointing} point at it"));
            }
            expected[g.block_of(ppn).index()] += 1;
        }
        self.space.audit_counts(expected)
    }

    fn save(&self) -> Vec<u8> {
        let mut out = Saver::default();
        self.map.iter().for_each(|&entry| out.u32(entry));
        self.space.save(&mut out);
        self.tombstones.save(&mut out);
        out.u64(self.version);
        out.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flash::{Brief, CutPoint, Fault, Full, Nand, NoData, PowerCut, Tags, Transcript};

    fn settings(pairs: &[(&str, &str)]) -> Settings {
        let mut settings = ROW.settings();
        for (name, value) in pairs {
            settings.set(name, value).unwrap();
        }
        settings
    }

    /// Four blocks of four pages, eight logical pages; the specification's thirteen writes.
    fn example(pairs: &[(&str, &str)]) -> Vec<String> {
        let g = Geometry { blocks_per_die: 4, pages_per_block: 4, ..Geometry::default() }.checked().unwrap();
        let mut flash = Transcript::new(Nand::<NoData, Brief>::new(g));
        let mut page = Page::format(&mut flash, 8, &settings(pairs)).unwrap();
        flash.take();
        for lpn in [0, 1, 2, 3, 0, 1, 4, 5, 4, 5, 6, 7] {
            page.write(&mut flash, Lpn(lpn), &()).unwrap();
        }
        flash.take();
        page.write(&mut flash, Lpn(0), &()).unwrap();
        page.audit(&mut flash).unwrap();
        let mut lines = flash.take();
        lines.retain(|line| !line.starts_with('O'));
        lines
    }

    #[test]
    fn worked_example_of_the_specification() {
        // The example stops collecting when gc-low blocks are free, which is gc-high = 1 here.
        let lines = example(&[("gc-low", "1"), ("gc-high", "1"), ("gc-spread", "off")]);
        let expected = [
            "R 0.2 data_gc",
            "W 3.0 data 2 data_gc",
            "R 0.3 data_gc",
            "W 3.1 data 3 data_gc",
            "E 0 data_gc",
            "W 3.2 data 0 host",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn worked_example_when_collection_goes_on_above_gc_low() {
        // The rule "until more than gc-low are free" takes a second victim, B1 with its two live pages.
        let lines = example(&[("gc-low", "1"), ("gc-spread", "off")]);
        let expected = [
            "R 0.2 data_gc",
            "W 3.0 data 2 data_gc",
            "R 0.3 data_gc",
            "W 3.1 data 3 data_gc",
            "E 0 data_gc",
            "R 1.0 data_gc",
            "W 3.2 data 0 data_gc",
            "R 1.1 data_gc",
            "W 3.3 data 1 data_gc",
            "E 1 data_gc",
            "W 0.0 data 0 host",
        ];
        assert_eq!(lines, expected);
    }

    /// Consecutive and scattered pages over four dies: in turn whatever they are, or each to the die of its remainder.
    #[test]
    fn pages_go_round_the_dies_in_turn_or_by_address() {
        let g = Geometry { dies: 4, blocks_per_die: 8, pages_per_block: 4, ..Geometry::default() }.checked().unwrap();
        for (by, expected) in [("turn", [0, 1, 2, 3, 0, 1]), ("address", [0, 1, 2, 1, 1, 3])] {
            let mut flash = Nand::<NoData, Brief>::new(g);
            let mut page = Page::format(&mut flash, 32, &settings(&[("stripe-by", by)])).unwrap();
            let dies = [0, 1, 2, 5, 9, 7].map(|lpn| {
                page.write(&mut flash, Lpn(lpn), &()).unwrap();
                g.die_of(g.block_of(Ppn(page.map[lpn as usize]))).index()
            });
            assert_eq!(dies, expected, "{by}");
            for time in 0..2000 {
                page.write(&mut flash, Lpn(time * 7 % 32), &()).unwrap();
            }
            page.audit(&mut flash).unwrap();
        }
    }

    #[test]
    fn a_device_without_enough_spare_space_is_refused_with_the_minimum() {
        let g = Geometry { blocks_per_die: 4, pages_per_block: 4, ..Geometry::default() }.checked().unwrap();
        let mut flash = Nand::<NoData, Brief>::new(g);
        let error = Page::format(&mut flash, 12, &settings(&[])).unwrap_err().config().unwrap();
        assert_eq!(error.key, "spare");
        assert!(error.what.contains("need 7 blocks"), "{error}");
    }

    /// A device of `blocks` blocks of four pages that can be mounted, whose power can be cut, and its scheme.
    fn device(blocks: u32, pages: u32, settings: &Settings) -> (PowerCut<Nand<Tags, Full>>, Page) {
        let g = Geometry { blocks_per_die: blocks, pages_per_block: 4, page_bytes: 512, ..Geometry::default() };
        let mut flash = PowerCut::counting(Nand::new(g.checked().unwrap()));
        let page = Page::format(&mut flash, pages, settings).unwrap();
        (flash, page)
    }

    fn remount(flash: &mut PowerCut<Nand<Tags, Full>>, pages: u32, settings: &Settings) -> Page {
        flash.restart();
        Page::mount(flash, pages, settings).unwrap().0
    }

    /// What broke: a discarded page came back with its last but one content after a power cut. Why: the collection of
    /// the block with its newest copy erased that copy while the tombstone was still in RAM, and an older copy was left
    /// on flash. Since then pending tombstones are programmed before any erase.
    #[test]
    fn a_discard_holds_though_the_newest_copy_is_erased_before_the_flush() {
        let settings = settings(&[("durable-trim", "on"), ("gc-spread", "off")]);
        let (mut flash, mut page) = device(6, 8, &settings);
        let put = |flash: &mut PowerCut<_>, page: &mut Page, lpn| page.write(flash, Lpn(lpn), &u64::from(lpn)).unwrap();
        for lpn in [0, 1, 2, 3, 0, 4, 4, 4] {
            put(&mut flash, &mut page, lpn);
        }
        page.trim(&mut flash, Lpn(0), 1).unwrap();
        while page.space.blocks.erase_counts()[1] == 0 {
            put(&mut flash, &mut page, 4);
        }
        assert_eq!(page.space.blocks.erase_counts()[0], 0, "the older copy is still there");
        let mut page = remount(&mut flash, 8, &settings);
        assert_eq!(page.read(&mut flash, Lpn(0)).unwrap(), None);
    }

    /// What broke: a page whose spare area was sound and whose data was not came back as the newest version at the
    /// second mount after the cut. Why: only the newest pages of a die were read whole, and the first mount had
    /// programmed others since, or the page that was to supersede it had been discarded and erased. Since then every
    /// mount begins a new epoch of program numbers, which tells such pages for as long as they exist.
    #[test]
    fn a_page_with_bad_data_is_known_at_every_later_mount() {
        for durable in ["on", "off"] {
            let settings = settings(&[("durable-trim", durable)]);
            let (mut flash, mut page) = device(8, 8, &settings);
            page.write(&mut flash, Lpn(0), &1).unwrap();
            flash.arm(CutPoint { command: 0, face: 2 }, 1);
            page.write(&mut flash, Lpn(0), &2).unwrap_err();
            for mount in 0..5 {
                let mut page = remount(&mut flash, 8, &settings);
                assert_eq!(page.read(&mut flash, Lpn(0)).unwrap(), Some(&1), "mount {mount}");
                page.write(&mut flash, Lpn(1 + mount), &9).unwrap();
            }
            remount(&mut flash, 8, &settings).trim(&mut flash, Lpn(0), 1).unwrap();
            let value = remount(&mut flash, 8, &settings).read(&mut flash, Lpn(0)).unwrap().copied();
            assert!([None, Some(1)].contains(&value), "{value:?}");
        }
    }

    /// What broke: the device was full for ever after a few cuts in a row. Why: each took pages of the one block that a
    /// die keeps for its collections, host pages followed into it after the mount, and then no collection had room.
    /// Since then a mount gives up an interrupted collection's block and collects before it takes host writes.
    #[test]
    fn collections_keep_their_room_over_any_number_of_cuts() {
        for (spread, streams, face) in
            [("off", "1", 1), ("off", "1", 2), ("off", "2", 1), ("on", "1", 2), ("on", "2", 3)]
        {
            let settings = settings(&[("gc-low", "2"), ("gc-spread", spread), ("streams", streams)]);
            let (mut flash, mut page) = device(11, 24, &settings);
            let mut lpn = 0;
            for round in 0..200u64 {
                flash.arm(CutPoint { command: 3 + round % 4, face }, round);
                let end = (0..10).try_for_each(|_| {
                    lpn = (lpn + 7) % 24;
                    page.write(&mut flash, Lpn(lpn), &round)
                });
                match end {
                    Ok(()) | Err(Error::Flash(Fault(FaultKind::PowerLost))) => {}
                    end => panic!("spread {spread}, {streams} streams, face {face}, round {round}: {end:?}"),
                }
                flash.arm(CutPoint { command: round % 3, face }, round);
                let _ = Page::mount(&mut flash, 24, &settings);
                page = remount(&mut flash, 24, &settings);
                page.audit(&mut flash).unwrap();
            }
        }
    }
}

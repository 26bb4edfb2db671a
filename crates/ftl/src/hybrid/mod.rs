//! Schemes with a block map and a log area: hybrid mapping.
//!
//! A map of blocks is small enough for RAM at any capacity, but then a page has one place, which takes no second write
//! before its block is erased. So some blocks are set apart as a log: a page whose place is taken goes there, where a
//! map of pages finds it, and *merges* bring what the log holds back to data blocks when it is full. What schemes of
//! this family differ in is which log block takes a page, which one is cleaned, and what cleaning it costs.
//!
//! ```text
//!                      place in the data block blank, nothing in the log
//!  write LPN ────────────────────────────────────────────────▶ data block of LPN / P, page LPN mod P
//!      │ taken                                                        ▲
//!      ▼                                                              │ merges (merge.rs)
//!  strategy: which log block? ──▶ log blocks (log.rs) ── full: ──▶ strategy: which victim?
//!                                 found by log map
//! ```
//!
//! [`Core`] keeps the maps, the state of every page and the free blocks, and knows how to merge; a [`Strategy`]
//! decides. [`Hybrid`] makes a scheme of the two. Mounting needs no strategy (mount.rs), and what keeps the scores of
//! merge-aware policies is in score.rs, what keeps their ages on flash in ages.rs. Log blocks that belong to one
//! logical block each are rows of a table (rows.rs).
//!
//! # Placements
//!
//! How pages lie in a data block is a [`Placement`] (placement.rs). In the drawing each has its own place. The other
//! placement (appended.rs) writes them one behind the other until the data block is full, and keeps their map in spare
//! areas. The core asks a placement where a page lies, which page takes the next one, what its spare area holds, and at
//! a mount which blocks are data blocks. All else is the same: the live bits of a data block go by the offset in the
//! logical block under both, so merges, scores, levelling and audits count with them and do not ask.
//!
//! # Space
//!
//! A device has a block for each logical block, the log area, and two blocks that are kept free, or as many as it has
//! dies: a merge copies into one before it frees another, and never needs a third; but power may cut merges short on
//! every die. A log block is begun only while there are fewer than the area has, so the free blocks are never fewer
//! than those but in the middle of a merge. Blocks that go bad make the log
//! area smaller; when it has fewer blocks than its scheme needs, the device is full.
//!
//! # Discards
//!
//! A discard that must hold over a power cut is a write of nothing: a page without data takes the place of the old one,
//! in the log or in the data block, and is merged like any other. It costs what a write costs, and no map of discards
//! is needed. Otherwise a discard is noted in RAM alone.

pub(crate) mod ages;
pub(crate) mod appended;
pub(crate) mod large;
pub(crate) mod log;
mod merge;
mod mount;
pub(crate) mod pages;
pub(crate) mod parameters;
pub(crate) mod placement;
pub(crate) mod rows;
pub(crate) mod score;
pub(crate) mod state;
#[cfg(test)]
pub(crate) mod testing;
mod wear;

pub(crate) use merge::Merge;
pub(crate) use state::{Area, Content, Core, MERGE_COUNTERS, Merges, Write};

use crate::parts::census::mount_through;
use crate::parts::wear_state;
use crate::{Build, Built, ConfigError, Error, Ftl, Inspect, Loader, MountReport, Outcome, Saver, Settings};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Debug;
use core::ops::Range;
use flash::{Block, Cause, Chain, Collection, Flash, Geometry, Kind, Lbn, Lpn, prefetch};
use log::Slot;
use placement::{InPlace, Placement};

/// What a scheme of the family decides.
pub trait Strategy<P: Placement = InPlace>: Sized + Clone + Debug + Send + 'static {
    /// The log area that it wants.
    fn area(settings: &Settings) -> Area;

    /// For a blank device.
    ///
    /// # Errors
    /// Settings that do not fit.
    fn new(core: &Core<P>, settings: &Settings) -> Result<Self, ConfigError>;

    /// The host announces a request.
    fn request(&mut self, core: &Core<P>, first: Lpn, pages: u32) {
        let _ = (core, first, pages);
    }

    /// Of the request announced last the host asks for so many bytes.
    fn request_bytes(&mut self, bytes: u64) {
        let _ = bytes;
    }

    /// Writes a page.
    ///
    /// # Errors
    /// As [`Ftl::write`].
    fn write<F: Flash>(&mut self, core: &mut Core<P>, flash: &mut F, page: Write<'_, F>) -> Outcome<F>;

    /// The host reads a page.
    #[inline(always)]
    fn read(&mut self, core: &Core<P>, lpn: Lpn) {
        let _ = (core, lpn);
    }

    /// Something else than the next page of the announced request follows.
    ///
    /// # Errors
    /// As [`Ftl::write`].
    fn interrupt<F: Flash>(&mut self, core: &mut Core<P>, flash: &mut F) -> Outcome<F> {
        let _ = (core, flash);
        Ok(())
    }

    /// Whether data lie in more places than the core knows of, so that wear levelling is to wait.
    fn is_midway(&self) -> bool {
        false
    }

    /// After a mount, when all log blocks are closed.
    fn adopt(&mut self, core: &mut Core<P>) {
        let _ = core;
    }

    /// Pages may have died or moved that the strategy was not asked about: after a mount and [`Strategy::adopt`], after
    /// discards, and after blocks that failed a program were cleaned.
    ///
    /// # Errors
    /// As [`Ftl::write`].
    fn settle<F: Flash>(&mut self, core: &mut Core<P>, flash: &mut F) -> Outcome<F> {
        let _ = (core, flash);
        Ok(())
    }

    /// Cleans a log block: false if there is none to clean.
    ///
    /// # Errors
    /// As [`Ftl::write`].
    fn clean<F: Flash>(&mut self, core: &mut Core<P>, flash: &mut F) -> Outcome<F, bool>;

    /// Log blocks that the strategy fills.
    fn held(&self) -> Vec<Slot>;

    /// Bytes of RAM beside the core's.
    fn memory(&self, core: &Core<P>) -> Vec<(&'static str, u64)>;

    /// Saves the strategy's state.
    fn save(&self, core: &Core<P>, out: &mut Saver);

    /// Loads what [`Strategy::save`] saved.
    fn load(&mut self, core: &Core<P>, from: &mut Loader<'_>);

    /// Its own counters, behind those of the core.
    fn counters(&self, core: &Core<P>) -> Vec<(&'static str, u64)> {
        let _ = core;
        Vec::new()
    }

    /// Forgets them.
    fn reset_counters(&mut self) {}
}

/// A scheme: the core and a strategy.
#[derive(Clone, Debug)]
pub struct Hybrid<S, P = InPlace> {
    pub(crate) core: Core<P>,
    pub(crate) strategy: S,
}

/// The next victim by the policy of this name, among the closed log blocks.
pub(crate) fn pick<P: Placement>(core: &mut Core<P>, policy: &str) -> Option<Slot> {
    let dead = if policy == "round-robin" { None } else { core.slots.dead() };
    dead.or_else(|| match &mut core.scores {
        Some(scores) => scores.best(),
        None => pick_among(core, policy, |_| true),
    })
}

/// The next victim by the policy of this name, among the closed log blocks of a kind.
pub(crate) fn pick_among<P: Placement>(core: &Core<P>, policy: &str, of_kind: impl Fn(Slot) -> bool) -> Option<Slot> {
    let (slots, blocks) = (&core.slots, &core.pool.blocks);
    let mut closed = slots.closed().filter(|&slot| of_kind(slot));
    let block = |slot: Slot| slots.block(slot);
    match (policy, &core.scores) {
        ("cat", _) => {
            let score = |slot: Slot| {
                let u = f64::from(blocks.live_of(block(slot))) / f64::from(blocks.geometry().pages_per_block);
                let age = blocks.age_since_erase(block(slot).0) as f64;
                crate::gc::cat_score(u, age, blocks.erase_counts()[block(slot).index()])
            };
            let scored = closed.map(|slot| (score(slot), block(slot), slot));
            scored.min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1))).map(|(_, _, slot)| slot)
        }
        (_, Some(scores)) => scores.best_of(&of_kind),
        _ => closed.next(),
    }
}

/// A log block that is being filled, if there is one.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Filling(pub Option<Slot>);

impl Filling {
    /// Appends a page; false if another log block must be begun first. One that is full is closed.
    ///
    /// # Errors
    /// The medium's.
    pub(crate) fn append<F: Flash, P: Placement>(
        &mut self,
        core: &mut Core<P>,
        flash: &mut F,
        kind: Kind,
        page: Write<'_, F>,
    ) -> Outcome<F, bool> {
        let Some(slot) = self.0 else { return Ok(false) };
        let (block, next) = (core.slots.block(slot), core.slots.get(slot).next);
        let Some(offset) = core.next_writable(block, next) else {
            core.close(slot);
            self.0 = None;
            return Ok(false);
        };
        if !core.append(flash, slot, offset, kind, page)? {
            self.0 = None;
            return Ok(false);
        }
        if core.next_writable(block, offset + 1).is_none() {
            core.close(slot);
            self.0 = None;
        }
        Ok(true)
    }

    /// Saves which it is.
    pub(crate) fn save(self, out: &mut Saver) {
        out.u32(self.0.unwrap_or(Slot::NONE).0);
    }

    /// Loads what [`Filling::save`] saved.
    pub(crate) fn load(from: &mut Loader<'_>) -> Filling {
        let slot = Slot(from.u32());
        Filling((slot != Slot::NONE).then_some(slot))
    }
}

/// What the host announced.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Announced {
    first: u32,
    end: u32,
}

impl Announced {
    /// A request.
    pub(crate) fn new(first: Lpn, pages: u32) -> Announced {
        Announced { first: first.0, end: first.0.saturating_add(pages) }
    }

    /// Whether a page is one of the request.
    pub(crate) fn contains(self, lpn: Lpn) -> bool {
        (self.first..self.end).contains(&lpn.0)
    }

    /// Whether a range of pages was announced whole.
    pub(crate) fn covers(self, lpns: &Range<u32>) -> bool {
        self.first <= lpns.start && lpns.end <= self.end
    }

    /// Saves it.
    pub(crate) fn save(self, out: &mut Saver) {
        out.u32(self.first);
        out.u32(self.end);
    }

    /// Loads what [`Announced::save`] saved.
    pub(crate) fn load(from: &mut Loader<'_>) -> Announced {
        Announced { first: from.u32(), end: from.u32() }
    }
}

/// Disposes of a block that a merge has made obsolete by erasing it.
///
/// # Errors
/// The medium's.
pub(crate) fn erase_obsolete<F: Flash, P: Placement>(
    core: &mut Core<P>,
    gc: &mut Collection<'_, F>,
    block: Block,
    cause: Cause,
) -> Outcome<F> {
    core.dispose(&mut **gc, block, cause)
}

impl<P: Placement, S: Strategy<P>> Hybrid<S, P> {
    fn blank(g: Geometry, logical_pages: u32, settings: &Settings) -> Result<Self, ConfigError> {
        let core = Core::new(g, logical_pages, settings, S::area(settings))?;
        let strategy = S::new(&core, settings)?;
        Ok(Hybrid { core, strategy })
    }

    fn on<F: Flash>(flash: &mut F, logical_pages: u32, settings: &Settings) -> Result<Self, ConfigError> {
        let hybrid = Self::blank(*flash.geometry(), logical_pages, settings)?;
        wear_state::Options::from(settings).reserve(flash, hybrid.core.own_bytes())?;
        Ok(hybrid)
    }

    fn mount_on<F: Flash>(mut self, flash: &mut F, report: &mut MountReport) -> Outcome<F, Self> {
        self.core.adopt(flash, report)?;
        self.strategy.adopt(&mut self.core);
        match self.clean_surplus(flash) {
            // The device can still be read, and says that it is full when it is written.
            Ok(()) | Err(Error::Full) => Ok(self),
            Err(error) => Err(error),
        }
    }

    /// After a mount: leaves no more log blocks than there may be, each where the strategy wants it.
    fn clean_surplus<F: Flash>(&mut self, flash: &mut F) -> Outcome<F> {
        self.strategy.settle(&mut self.core, flash)?;
        while self.core.slots.in_use() > self.core.log_limit() && self.strategy.clean(&mut self.core, flash)? {}
        Ok(())
    }

    /// Cleans the blocks that failed a program, if there are any.
    fn tidy<F: Flash>(&mut self, flash: &mut F) -> Outcome<F> {
        if self.core.pool.doomed.is_empty() {
            return Ok(());
        }
        self.core.tidy(flash)?;
        self.strategy.settle(&mut self.core, flash)
    }

    fn discard<F: Flash>(&mut self, flash: &mut F, lpn: Lpn) -> Outcome<F> {
        if !self.core.durable_trim {
            P::forget(&mut self.core, lpn);
            return Ok(());
        }
        let Some(at) = self.core.find(flash, lpn)? else { return Ok(()) };
        if flash.read_oob(at, Cause::Metadata)?.is_some_and(|oob| oob.kind == Kind::Trim) {
            return Ok(());
        }
        let version = self.core.next_version();
        self.strategy.write(&mut self.core, flash, Write { lpn, version, content: Content::Hole })
    }
}

impl<F: Flash, P: Placement, S: Strategy<P>> Build<F> for Hybrid<S, P> {
    fn format(flash: &mut F, logical_pages: u32, settings: &Settings) -> Built<F, Self> {
        let g = *flash.geometry();
        Core::<P>::check(&g, logical_pages, settings, &S::area(settings), parameters::reserve(&g))?;
        let mut hybrid = Self::on(flash, logical_pages, settings)?;
        hybrid.core.pool.exclude_bad(flash)?;
        Ok(hybrid)
    }

    fn mount(flash: &mut F, logical_pages: u32, settings: &Settings) -> Built<F, (Self, MountReport)> {
        let g = *flash.geometry();
        Self::on(flash, logical_pages, settings)?;
        Ok(mount_through(flash, |flash, report| {
            Self::blank(g, logical_pages, settings).expect("just accepted").mount_on(flash, report)
        })?)
    }

    fn restore(geometry: &Geometry, logical_pages: u32, settings: &Settings, bytes: &[u8]) -> Self {
        let blank = Self::blank(*geometry, logical_pages, settings).expect("the settings fitted when it was saved");
        let mut from = Loader::new(bytes);
        let Hybrid { core, mut strategy } = blank;
        let core = core.load(&mut from);
        strategy.load(&core, &mut from);
        debug_assert!(from.is_done());
        Hybrid { core, strategy }
    }
}

impl<F: Flash, P: Placement, S: Strategy<P>> Ftl<F> for Hybrid<S, P> {
    #[inline]
    fn request(&mut self, first: Lpn, pages: u32) {
        self.strategy.request(&self.core, first, pages);
    }

    #[inline]
    fn request_bytes(&mut self, bytes: u64) {
        self.strategy.request_bytes(bytes);
    }

    #[inline]
    fn read<'f>(&'f mut self, flash: &'f mut F, lpn: Lpn) -> Outcome<F, Option<&'f F::User>> {
        self.strategy.read(&self.core, lpn);
        let Some(ppn) = self.core.find(flash, lpn)? else { return Ok(None) };
        let (oob, data) = flash.read(ppn, Cause::Host)?;
        // After a crash of the host a map in a spare area may be there, and what it names not.
        if oob.address != lpn.0 {
            return Err(Error::Corrupt);
        }
        if oob.kind == Kind::Trim { Ok(None) } else { data.host().map(Some).ok_or(Error::Corrupt) }
    }

    fn is_mapped(&self, lpn: Lpn) -> Option<bool> {
        P::is_mapped(&self.core, lpn)
    }

    #[inline]
    fn write(&mut self, flash: &mut F, lpn: Lpn, data: &F::User) -> Outcome<F> {
        self.core.merged = Chain::COLLECTION;
        if !self.core.pool.doomed.is_empty() {
            self.strategy.interrupt(&mut self.core, flash)?;
            self.tidy(flash)?;
        }
        let version = self.core.next_version();
        self.strategy.write(&mut self.core, flash, Write { lpn, version, content: Content::Data(data) })?;
        if self.strategy.is_midway() { Ok(()) } else { self.core.level(flash) }
    }

    fn trim(&mut self, flash: &mut F, first: Lpn, count: u32) -> Outcome<F> {
        self.strategy.interrupt(&mut self.core, flash)?;
        // Where blocks are appended to, the holes of a discard are pages like any other.
        self.strategy.request(&self.core, first, if P::APPENDS { 0 } else { count });
        for lpn in (first.0..first.0 + count).map(Lpn) {
            self.discard(flash, lpn)?;
        }
        if !P::APPENDS {
            let (from, to) = (self.core.split(first).0, self.core.split(Lpn(first.0 + count.max(1) - 1)).0);
            (from.0..=to.0).try_for_each(|lbn| self.core.release_if_dead(flash, Lbn(lbn)))?;
        }
        self.strategy.settle(&mut self.core, flash)
    }

    fn flush(&mut self, _: &mut F) -> Outcome<F> {
        Ok(())
    }

    fn idle(&mut self, flash: &mut F, _: u32) -> Outcome<F, bool> {
        self.strategy.interrupt(&mut self.core, flash)?;
        self.tidy(flash)?;
        if !self.strategy.is_midway() && self.core.refresh(flash)? {
            return Ok(true);
        }
        if self.core.slots.in_use() < self.core.log_limit() {
            return Ok(false);
        }
        self.strategy.clean(&mut self.core, flash)
    }
}

impl<F: Flash, P: Placement, S: Strategy<P>> Inspect<F> for Hybrid<S, P> {
    #[inline(always)]
    fn hint(&self, lpn: Lpn) {
        prefetch(&self.core.log_map, lpn.index());
        prefetch(&self.core.data, lpn.index() / self.core.p() as usize);
    }

    #[inline(always)]
    fn hint_soon(&self, lpn: Lpn) {
        let (lbn, offset) = self.core.split(lpn);
        if let Some(&block) = self.core.data.get(lbn.index()).filter(|&&block| block != log::NONE) {
            let ppn = self.core.g.page(Block(block), offset);
            self.core.pool.blocks.prefetch(ppn);
            self.core.written.prefetch(ppn);
        }
    }

    fn memory(&self) -> Vec<(&'static str, u64)> {
        let mut out = self.core.memory();
        out.extend(self.strategy.memory(&self.core));
        out
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let mut out = P::counters(&self.core);
        out.extend(self.strategy.counters(&self.core));
        out
    }

    fn reset_counters(&mut self) {
        self.core.merges = Merges::default();
        self.core.place.reset_counters();
        if let Some(scores) = &mut self.core.scores {
            scores.effort = score::Effort::default();
        }
        self.strategy.reset_counters();
    }

    fn erase_counts(&self) -> &[u32] {
        self.core.pool.blocks.erase_counts()
    }

    fn free_blocks(&self) -> u32 {
        self.core.pool.blocks.free_total()
    }

    fn audit(&self, flash: &mut F) -> Result<(), String> {
        self.core.audit(flash)?;
        let held = self.strategy.held();
        for (slot, entry) in self.core.slots.iter() {
            if self.core.slots.is_closed(slot) == held.contains(&slot) {
                let what = if held.contains(&slot) { "closed and still filled" } else { "neither closed nor filled" };
                return Err(alloc::format!("log block {} is {what}", entry.block));
            }
        }
        Ok(())
    }

    fn audit_free(&self, flash: &mut F) -> Result<(), String> {
        if P::APPENDS { self.core.pool.audit_free(flash) } else { Ok(()) }
    }

    fn save(&self) -> Vec<u8> {
        let mut out = Saver::default();
        self.core.save(&mut out);
        self.strategy.save(&self.core, &mut out);
        out.finish()
    }
}

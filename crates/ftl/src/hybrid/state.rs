//! What every scheme of the family keeps: the block map, the log area and its page map, and the state of every page.
//!
//! Of a log block the live bit of each place is that of the page there. Of a data block the live bit of place i says
//! whether page i of the logical block counts in it, wherever in the block it lies (placement.rs).

use super::ages::{AGE_BYTES, Ages};
use super::log::{NONE, Slot, Slots};
use super::merge::Source;
use super::pages::PageBits;
use super::parameters::{self, Victims};
use super::placement::{InPlace, Placement};
use super::score::{Logged, Scores};
use crate::parts::pool::Pool;
use crate::parts::space::more_spare;
use crate::parts::supply::{self, audit_version};
use crate::parts::tombstones::DURABLE_TRIM;
use crate::{ConfigError, Loader, Outcome, Saver, Settings};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use flash::{
    Block, Cause, Chain, FaultKind, Flash, FlashFault, Geometry, Kind, Lbn, Lpn, Mode, Oob, Payload, Ppn, ProgramOrder,
};

/// What a logical page is to hold.
#[derive(Debug)]
pub enum Content<'a, U: ?Sized> {
    /// Host data.
    Data(&'a U),
    /// Nothing: a discard that a power cut must not undo. It takes a page like data does.
    Hole,
}

impl<U: ?Sized> Clone for Content<'_, U> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<U: ?Sized> Copy for Content<'_, U> {}

impl<U: ?Sized> Content<'_, U> {
    /// How many host pages it is.
    #[inline(always)]
    pub(crate) fn host_pages(self) -> u64 {
        u64::from(matches!(self, Content::Data(_)))
    }
}

/// A page that the host writes.
#[derive(Debug)]
pub struct Write<'a, F: Flash> {
    /// Which.
    pub lpn: Lpn,
    /// The number of this write.
    pub version: u64,
    /// What the page is to hold.
    pub content: Content<'a, F::User>,
}

impl<F: Flash> Clone for Write<'_, F> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<F: Flash> Copy for Write<'_, F> {}

/// What merges did.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Merges {
    /// Log blocks that became data blocks as they were.
    pub switches: u64,
    /// Log blocks that became data blocks with pages copied in.
    pub partials: u64,
    /// Logical blocks written anew.
    pub fulls: u64,
    /// Log blocks cleaned.
    pub cleaned: u64,
    /// Of these, such that held no live page.
    pub dead: u64,
    /// Sum over cleaned log blocks of the logical blocks with a live page in it.
    pub density: u64,
    /// The most that one held.
    pub most_density: u64,
    /// Cleaned log blocks with live pages of at least as many logical blocks as stands in [`DENSITIES`].
    pub dense: [u64; DENSITIES.len()],
    /// Sum over cleaned log blocks of the logical blocks of which it took a page, live or dead.
    pub took: u64,
    /// Cleaned log blocks that took pages of at least [`MANY`] logical blocks.
    pub took_many: u64,
    /// Programmed pages of erased blocks, dead ones and padding included.
    pub used_pages: u64,
    /// Erased blocks.
    pub erased: u64,
    /// Padding programmed.
    pub dummies: u64,
    /// Host pages written to their data block.
    pub in_place: u64,
    /// Host pages written to the log area.
    pub logged: u64,
    /// Of these, such whose data block had blank pages.
    pub collisions: u64,
    /// Pages copied by merges.
    pub copies: u64,
}

/// Numbers of logical blocks from which on cleaned log blocks are counted: the DFTL paper draws a line at 20.
const DENSITIES: [usize; 6] = [2, 4, 8, 12, 16, MANY];
const MANY: usize = 20;

/// What of [`Merges`] is reported of pages in place, for the tables of counters.
pub(crate) const MERGE_COUNTERS: &[(&str, &str)] = &[
    ("switch_merges", "log blocks that became data blocks as they were"),
    ("partial_merges", "log blocks that became data blocks once the missing pages were copied in"),
    ("full_merges", "logical blocks written anew into a free block"),
    ("cleaned_log_blocks", "log blocks cleaned: all logical blocks with a live page in one are merged"),
    ("dead_log_blocks", "of these, such that held no live page and cost an erase alone"),
    ("density_sum", "logical blocks with a live page, summed over the log blocks cleaned"),
    ("density_max", "the most of them that one log block held"),
    ("log_blocks_of_2", "cleaned log blocks with live pages of 2 logical blocks or more"),
    ("log_blocks_of_4", "the same of 4 or more"),
    ("log_blocks_of_8", "the same of 8 or more"),
    ("log_blocks_of_12", "the same of 12 or more"),
    ("log_blocks_of_16", "the same of 16 or more"),
    ("log_blocks_of_20", "the same of 20 or more (the DFTL paper, figure 7)"),
    ("density_taken_sum", "logical blocks of which a cleaned log block took a page, live or dead, summed over them"),
    ("log_blocks_taken_20", "cleaned log blocks that took pages of 20 logical blocks or more"),
    ("erased_used_pages", "pages of erased blocks that were not blank; over erases and pages per block: utilisation"),
    ("erased_blocks", "blocks erased, those of wear levelling aside"),
    ("dummy_pages", "pages programmed to keep the chip's program order"),
    ("in_place_pages", "host pages written to their data block"),
    ("log_pages", "host pages written to the log area"),
];

impl Merges {
    /// Counts a log block that is cleaned, with live pages of so many logical blocks, and pages of so many at all.
    pub fn clean(&mut self, logical_blocks: usize, took: usize) {
        self.took += took as u64;
        self.took_many += u64::from(took >= MANY);
        self.cleaned += 1;
        self.density += logical_blocks as u64;
        self.most_density = self.most_density.max(logical_blocks as u64);
        for (count, least) in self.dense.iter_mut().zip(DENSITIES) {
            *count += u64::from(logical_blocks >= least);
        }
    }

    /// Values in the order of [`MERGE_COUNTERS`].
    pub fn values(&self) -> [u64; MERGE_COUNTERS.len()] {
        let [of_2, of_4, of_8, of_12, of_16, of_20] = self.dense;
        [
            self.switches,
            self.partials,
            self.fulls,
            self.cleaned,
            self.dead,
            self.density,
            self.most_density,
            of_2,
            of_4,
            of_8,
            of_12,
            of_16,
            of_20,
            self.took,
            self.took_many,
            self.used_pages,
            self.erased,
            self.dummies,
            self.in_place,
            self.logged,
        ]
    }
}

/// What log area a scheme wants.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Area {
    /// The fewest log blocks that it can work with.
    pub least: u32,
    /// The most that it has a use for.
    pub most: u32,
    /// Whether each log block holds pages of one logical block alone, all in their own places.
    pub own_places: bool,
    /// `log-blocks`: log blocks; 0 stands for all that the logical size leaves.
    pub log_blocks: u32,
    /// Which log block to clean, if the core keeps scores or ages for that.
    pub victims: Option<Victims>,
}

impl Area {
    /// Of at least so many log blocks that take pages of any logical block, as many as the settings say.
    pub fn new(least: u32, settings: &Settings) -> Area {
        let log_blocks = settings.small(&parameters::LOG_BLOCKS);
        Area { least, most: u32::MAX, own_places: false, log_blocks, victims: None }
    }
}

/// The one word of a page that was discarded durably: the role of its block.
pub(super) const HOLE_IN_DATA: u32 = 0;
const HOLE_IN_LOG: u32 = 1;

/// Bytes of a scheme's own in each spare area.
fn own_bytes<P: Placement>(place: &P, keeps_ages: bool) -> u32 {
    place.spare_bytes().max(if keeps_ages { AGE_BYTES } else { 0 })
}

/// See the module's description.
#[derive(Clone, Debug)]
pub struct Core<P = InPlace> {
    /// The device's shape.
    pub g: Geometry,
    /// How pages lie in data blocks.
    pub place: P,
    /// Free blocks, live pages, wear, and blocks that failed a program.
    pub pool: Pool,
    /// Pages that cannot be programmed: they are, or their block is sealed.
    pub written: PageBits,
    /// The data block of each logical block.
    pub data: Vec<u32>,
    /// Where each logical page lies in the log area. A controller has a hash table of those that do.
    pub(super) log_map: Vec<u32>,
    /// Live log pages of each logical block.
    pub logged: Vec<u16>,
    /// The log blocks.
    pub slots: Slots,
    /// What cleaning each log block would cost, for policies that want to know. Boxed, as writes take it out and back.
    pub scores: Option<Box<Scores>>,
    /// When log blocks were begun, if that is kept on flash.
    pub(super) ages: Option<Box<Ages>>,
    /// Log blocks that settings allow.
    most_log_blocks: u32,
    pub(super) durable_trim: bool,
    pub(super) version: u64,
    /// What merges did.
    pub merges: Merges,
    /// What the merge in progress copies; means nothing between merges.
    pub(super) sources: Vec<Source>,
    /// The merges since the host's last page came. Not saved: a medium that was restored has nothing under way.
    pub merged: Chain,
}

impl<P: Placement> Core<P> {
    /// How many log blocks a device leaves beside `reserve` blocks that are kept free.
    ///
    /// # Errors
    /// A device with too few blocks for its logical pages and a log area.
    pub fn check(
        g: &Geometry,
        logical_pages: u32,
        settings: &Settings,
        area: &Area,
        reserve: u32,
    ) -> Result<u32, ConfigError> {
        let Area { least, log_blocks: asked, .. } = *area;
        let logical_blocks = logical_pages.div_ceil(g.pages_per_block);
        let kept = logical_blocks + reserve + supply::Options::from(settings).wear_state.blocks(g);
        if g.block_count() < kept + least {
            return Err(ConfigError {
                key: "spare",
                what: format!(
                    "{logical_blocks} logical blocks, {reserve} blocks kept free and a log area of at least {least} \
                     need {} blocks, and there are {}: a merge would have nowhere to go",
                    kept + least,
                    g.block_count()
                ),
                fix: more_spare(g, logical_pages, u64::from(kept + least)),
            });
        }
        let left = g.block_count() - kept;
        if asked != 0 && (asked < least || asked > left) {
            return Err(ConfigError {
                key: "log-blocks",
                what: format!("{asked} given, the scheme needs at least {least} and the device leaves {left}"),
                fix: format!("choose {least} to {left}, or 0 for all that is left"),
            });
        }
        Ok(left)
    }

    /// All blank, for a log area as the scheme wants it.
    ///
    /// # Errors
    /// A device with too few blocks for its logical pages and a log area. What was formatted is mounted, also where
    /// more would have to be kept free today ([`parameters::reserve`]).
    pub fn new(g: Geometry, logical_pages: u32, settings: &Settings, area: Area) -> Result<Core<P>, ConfigError> {
        let left = Self::check(&g, logical_pages, settings, &area, parameters::RESERVE)?;
        let Area { most, own_places, log_blocks: asked, victims, .. } = area;
        let place = P::new(&g, logical_pages, settings)?;
        victims.map_or(Ok(()), |victims| victims.check())?;
        let logical_blocks = logical_pages.div_ceil(g.pages_per_block);
        let supply = supply::Options::from(settings);
        let most = most.min(if asked == 0 { left } else { asked });
        let slots = Slots::new(&g, most + 1, own_places);
        let mut pool = Pool::new(g, &supply, victims.is_some_and(|victims| victims.policy == "cat"));
        let ages = victims.is_some_and(|victims| victims.keeps_ages).then(|| Box::new(Ages::new(slots.capacity())));
        pool.keep_own(own_bytes(&place, ages.is_some()));
        Ok(Core {
            g,
            place,
            pool,
            written: PageBits::new(&g),
            data: vec![NONE; logical_blocks as usize],
            log_map: vec![NONE; logical_pages as usize],
            logged: vec![0; logical_blocks as usize],
            scores: victims.and_then(|victims| Scores::new(&victims, slots.capacity())).map(Box::new),
            ages,
            slots,
            most_log_blocks: most,
            durable_trim: settings.switch(&DURABLE_TRIM),
            version: 0,
            merges: Merges::default(),
            sources: Vec::new(),
            merged: Chain::COLLECTION,
        })
    }

    /// Bytes of its own in each spare area: those of data pages, or of log pages.
    pub fn own_bytes(&self) -> u32 {
        own_bytes(&self.place, self.ages.is_some())
    }

    // ---- addresses ---------------------------------------------------------------------------------------------

    /// Pages of a block.
    #[inline(always)]
    pub fn p(&self) -> u32 {
        self.g.pages_per_block
    }

    /// Logical pages.
    pub fn logical_pages(&self) -> u32 {
        self.log_map.len() as u32
    }

    /// Logical block and place in it.
    #[inline(always)]
    pub fn split(&self, lpn: Lpn) -> (Lbn, u32) {
        // A block has a power of two of pages.
        let p = self.g.pages_per_block;
        (Lbn(lpn.0 >> p.trailing_zeros()), lpn.0 & (p - 1))
    }

    /// All logical blocks.
    pub fn logical_blocks(&self) -> impl Iterator<Item = Lbn> + use<P> {
        (0..self.data.len() as u32).map(Lbn)
    }

    /// The logical pages of a logical block.
    pub fn lpns(&self, lbn: Lbn) -> core::ops::Range<u32> {
        let first = lbn.0 * self.p();
        first..(first + self.p()).min(self.logical_pages())
    }

    /// A page's copy in the log area.
    #[inline(always)]
    pub fn in_log(&self, lpn: Lpn) -> Option<Ppn> {
        let ppn = self.log_map[lpn.index()];
        (ppn != NONE).then_some(Ppn(ppn))
    }

    /// The logical block of a data block.
    pub(super) fn lbn_of(&self, block: Block) -> Option<Lbn> {
        self.logical_blocks().find(|lbn| self.data[lbn.index()] == block.0)
    }

    /// The data block of a logical block.
    #[inline(always)]
    pub fn data_block(&self, lbn: Lbn) -> Option<Block> {
        let block = self.data[lbn.index()];
        (block != NONE).then_some(Block(block))
    }

    /// The live bit of a page in its data block, if the page counts there.
    #[inline(always)]
    pub fn live_bit(&self, lpn: Lpn) -> Option<Ppn> {
        let (lbn, offset) = self.split(lpn);
        let bit = self.g.page(self.data_block(lbn)?, offset);
        self.pool.blocks.is_live(bit).then_some(bit)
    }

    /// Where a page lies.
    ///
    /// # Errors
    /// The medium's.
    #[inline(always)]
    pub fn find<F: Flash>(&mut self, flash: &mut F, lpn: Lpn) -> Outcome<F, Option<Ppn>> {
        if self.place.is_discarded(lpn) {
            return Ok(None);
        }
        match self.in_log(lpn) {
            None => P::find(self, flash, lpn),
            logged => Ok(logged),
        }
    }

    // ---- blocks ------------------------------------------------------------------------------------------------

    /// Log blocks that there may be: what settings allow, less the blocks that went bad.
    pub fn log_limit(&self) -> u32 {
        let good = self.g.block_count() - self.pool.blocks.bad_count() - self.pool.blocks_for_wear();
        self.most_log_blocks.min(good.saturating_sub(self.data.len() as u32 + parameters::reserve(&self.g)))
    }

    /// Takes a free block, as [`Pool::take`] does.
    ///
    /// # Errors
    /// Full, or the medium's.
    pub fn take_block<F: Flash>(&mut self, flash: &mut F) -> Outcome<F, Block> {
        let block = self.pool.take(flash)?;
        self.written.fill(block, false);
        self.place.begun(block);
        Ok(block)
    }

    /// A block that holds nothing live is erased and free, or marked bad if it failed a program.
    ///
    /// # Errors
    /// The medium's.
    pub fn dispose<F: Flash>(&mut self, flash: &mut F, block: Block, cause: Cause) -> Outcome<F> {
        self.pool.dispose(flash, block, cause)?;
        if self.pool.blocks.is_free(block) {
            self.merges.used_pages += u64::from(self.written.count(block));
            self.merges.erased += 1;
            self.written.fill(block, false);
        }
        Ok(())
    }

    /// Whether a page of a block can be programmed now, perhaps behind padding.
    #[inline(always)]
    pub fn is_writable(&self, block: Block, offset: u32) -> bool {
        !self.written.get(self.g.page(block, offset))
            && (self.g.order == ProgramOrder::Any || offset >= self.written.end(block))
    }

    /// Whether nothing of a block was ever programmed.
    pub fn is_blank(&self, block: Block) -> bool {
        self.written.end(block) == 0
    }

    /// Pages of a block that can be programmed.
    pub fn blank_pages(&self, block: Block) -> u32 {
        match self.g.order {
            ProgramOrder::Any => self.p() - self.written.count(block),
            _ => self.p() - self.written.end(block),
        }
    }

    /// The first page of a block at or after `from` that can be programmed.
    #[inline]
    pub fn next_writable(&self, block: Block, from: u32) -> Option<u32> {
        match self.g.order {
            ProgramOrder::Any => self.written.next_zero(block, from),
            _ => self.written.next_zero(block, self.written.end(block).max(from)),
        }
    }

    // ---- programs ----------------------------------------------------------------------------------------------

    /// The version of the next host write.
    #[inline(always)]
    pub fn next_version(&mut self) -> u64 {
        self.version += 1;
        self.pool.blocks.clock += 1;
        self.version
    }

    /// A block failed a program: what it holds is to be moved, and then it is marked bad.
    pub(super) fn doom(&mut self, block: Block) {
        self.pool.fail(block);
        self.written.fill(block, true);
    }

    /// Whether a program went well; its block is doomed if not.
    #[inline(always)]
    pub(super) fn programmed<F: Flash>(&mut self, ppn: Ppn, result: Result<(), F::Fault>) -> Outcome<F, bool> {
        match result {
            Ok(()) => Ok(true),
            Err(fault) if fault.kind() == FaultKind::ProgramFailed => {
                self.doom(self.g.block_of(ppn));
                Ok(false)
            }
            Err(fault) => Err(fault.into()),
        }
    }

    /// Programs dummies up to page `end` of a block, if the chip's order asks for it. False if one failed: the block is
    /// doomed.
    pub(super) fn pad<F: Flash>(&mut self, flash: &mut F, block: Block, end: u32, cause: Cause) -> Outcome<F, bool> {
        if self.g.order != ProgramOrder::Strict {
            return Ok(true);
        }
        for offset in self.written.end(block)..end {
            let ppn = self.g.page(block, offset);
            let program = self.pool.number_for(flash, ppn);
            let oob = Oob { kind: Kind::Dummy, mode: Mode::Normal, address: 0, version: 0, program, mark: 0 };
            self.written.set(ppn);
            let result = flash.program(ppn, oob, Payload::None, cause);
            if !self.programmed::<F>(ppn, result)? {
                return Ok(false);
            }
            self.merges.dummies += 1;
            self.place.padded(block);
        }
        Ok(true)
    }

    /// Programs a page of host data, or a hole. False if the program failed: the block is doomed.
    #[inline]
    pub(super) fn program<F: Flash>(
        &mut self,
        flash: &mut F,
        ppn: Ppn,
        kind: Kind,
        page: Write<'_, F>,
    ) -> Outcome<F, bool> {
        let Write { lpn, version, content } = page;
        match (kind, &mut self.ages) {
            (Kind::Data, _) => P::stage(self, flash, lpn, ppn)?,
            (Kind::Log, Some(ages)) if matches!(content, Content::Data(_)) => {
                let block = self.g.block_of(ppn);
                let told = self.slots.of(block).and_then(|slot| ages.tell(slot, block));
                told.into_iter().for_each(|own| self.pool.stage_spare(flash, ppn, own));
            }
            _ => {}
        }
        let program = self.pool.number_for(flash, ppn);
        let oob = Oob { kind, ..Oob::data(lpn, version, program) };
        self.written.set(ppn);
        let result = match content {
            Content::Data(data) => flash.program(ppn, oob, Payload::User(data), Cause::Host),
            Content::Hole => {
                let role = if kind == Kind::Log { HOLE_IN_LOG } else { HOLE_IN_DATA };
                flash.program(ppn, Oob { kind: Kind::Trim, ..oob }, Payload::Meta(&[role]), Cause::Metadata)
            }
        };
        let done = self.programmed::<F>(ppn, result)?;
        if kind == Kind::Data {
            P::programmed(self, lpn, ppn, done);
        }
        if done {
            self.place.recall(lpn);
        }
        Ok(done)
    }

    /// Copies a page, as `kind` if it is to be of another. False if the program failed: the block is doomed.
    #[inline]
    pub(super) fn copy<F: Flash>(
        &mut self,
        flash: &mut F,
        (from, to): (Ppn, Ppn),
        kind: Option<Kind>,
        cause: Cause,
    ) -> Outcome<F, bool> {
        let program = self.pool.number_for(flash, to);
        self.written.set(to);
        let edit = |oob: &mut Oob, words: &mut [u32]| {
            oob.program = program;
            match kind {
                Some(kind) if oob.kind != Kind::Trim => oob.kind = kind,
                Some(kind) => words[0] = if kind == Kind::Log { HOLE_IN_LOG } else { HOLE_IN_DATA },
                None => {}
            }
        };
        let result = flash.copy(from, to, cause, edit).map(|_| ());
        self.programmed::<F>(to, result)
    }

    /// Writes a page to its data block, if that takes it. False if it is to go elsewhere.
    ///
    /// # Errors
    /// Full, or the medium's.
    #[inline]
    pub fn write_to_data<F: Flash>(&mut self, flash: &mut F, page: Write<'_, F>) -> Outcome<F, bool> {
        let Write { lpn, content, .. } = page;
        let (lbn, offset) = self.split(lpn);
        if !P::APPENDS && self.in_log(lpn).is_some() {
            return Ok(false);
        }
        let Some((block, at)) = self.room_for(flash, lbn, offset)? else { return Ok(false) };
        let ppn = self.g.page(block, at);
        if !self.pad(flash, block, at, Cause::Metadata)? || !self.program(flash, ppn, Kind::Data, page)? {
            return Ok(false);
        }
        self.merges.in_place += content.host_pages();
        self.change_terms(lbn, |core| {
            if P::APPENDS {
                core.supersede(lpn);
            }
            core.pool.blocks.revive(core.g.page(block, offset));
        });
        Ok(true)
    }

    /// Appends a page to a log block that has room. False if the program failed: the block is closed.
    ///
    /// # Errors
    /// The medium's.
    #[inline]
    pub fn append<F: Flash>(
        &mut self,
        flash: &mut F,
        slot: Slot,
        offset: u32,
        kind: Kind,
        page: Write<'_, F>,
    ) -> Outcome<F, bool> {
        let Write { lpn, content, .. } = page;
        let block = self.slots.block(slot);
        let ppn = self.g.page(block, offset);
        if !self.pad(flash, block, offset, Cause::Metadata)? || !self.program(flash, ppn, kind, page)? {
            self.close(slot);
            return Ok(false);
        }
        self.merges.logged += content.host_pages();
        if P::APPENDS && kind == Kind::Log {
            let has_room = self.data_block(self.split(lpn).0).is_some_and(|block| self.written.end(block) < self.p());
            self.merges.collisions += u64::from(has_room) * content.host_pages();
        }
        self.enter_scored(lpn, slot, offset);
        Ok(true)
    }

    /// A place of a log block is where a page lies now, and that block is filled behind it.
    #[inline]
    pub(super) fn enter_scored(&mut self, lpn: Lpn, slot: Slot, offset: u32) {
        self.slots.advance(slot, offset + 1);
        self.score_log_page(lpn, slot);
        self.enter_log(lpn, slot, offset);
    }

    /// The data block of a logical block, a new one if there is none, and the page of it to which this page of the
    /// logical block can go.
    #[inline]
    pub(super) fn room_for<F: Flash>(
        &mut self,
        flash: &mut F,
        lbn: Lbn,
        offset: u32,
    ) -> Outcome<F, Option<(Block, u32)>> {
        let block = match self.data_block(lbn) {
            Some(block) => block,
            None => {
                let block = self.take_block(flash)?;
                self.data[lbn.index()] = block.0;
                block
            }
        };
        Ok(P::next(self, block, offset).map(|page| (block, page)))
    }

    /// A place of a log block is where a page lies now.
    #[inline]
    pub(super) fn enter_log(&mut self, lpn: Lpn, slot: Slot, offset: u32) {
        let ppn = self.g.page(self.slots.block(slot), offset);
        let (lbn, _) = self.split(lpn);
        self.supersede(lpn);
        self.slots.put(slot, offset, lpn);
        self.pool.blocks.revive(ppn);
        self.log_map[lpn.index()] = ppn.0;
        self.logged[lbn.index()] += 1;
    }

    /// The live copy of a page dies, wherever it is.
    #[inline(always)]
    pub(super) fn supersede(&mut self, lpn: Lpn) {
        let (lbn, _) = self.split(lpn);
        if let Some(ppn) = self.in_log(lpn) {
            self.log_map[lpn.index()] = NONE;
            self.logged[lbn.index()] -= 1;
            self.pool.blocks.kill(ppn);
            if let Some(slot) = self.slots.of(self.g.block_of(ppn)) {
                self.slots.died(slot);
            }
        } else if let Some(bit) = self.live_bit(lpn) {
            self.pool.blocks.kill(bit);
        }
    }

    // ---- log blocks --------------------------------------------------------------------------------------------

    /// Begins a log block in a free block.
    ///
    /// # Errors
    /// Full, or the medium's.
    pub fn begin_log_block<F: Flash>(&mut self, flash: &mut F) -> Outcome<F, Slot> {
        let block = self.take_block(flash)?;
        Ok(self.add_log_block(block))
    }

    /// A block becomes a log block.
    pub(super) fn add_log_block(&mut self, block: Block) -> Slot {
        let slot = self.slots.add(block);
        if let Some(scores) = &mut self.scores {
            scores.begin(slot, self.slots.block(slot));
        }
        if let Some(ages) = &mut self.ages {
            ages.begin(slot, block);
        }
        slot
    }

    /// A log block may be cleaned from now on.
    pub fn close(&mut self, slot: Slot) {
        self.slots.close(slot, self.pool.blocks.live_of(self.slots.block(slot)));
        if let Some(scores) = &mut self.scores {
            scores.close(slot);
        }
    }

    /// A log block is taken out of the area: it is to be erased, or has become a data block.
    pub(super) fn remove_log_block(&mut self, slot: Slot) -> Block {
        let block = self.slots.block(slot);
        self.slots.remove(slot);
        if let Some(scores) = &mut self.scores {
            scores.remove(slot);
        }
        if let Some(ages) = &mut self.ages {
            ages.ended(block);
        }
        block
    }

    /// Does what changes the live pages of a logical block, and keeps the scores of the log blocks that it has pages
    /// in.
    #[inline]
    pub(super) fn change_terms<T>(&mut self, lbn: Lbn, change: impl FnOnce(&mut Self) -> T) -> T {
        if self.scores.is_none() {
            return change(self);
        }
        self.add_terms(lbn, -1);
        let result = change(self);
        self.add_terms(lbn, 1);
        result
    }

    /// A page is about to enter a log block.
    #[inline]
    fn score_log_page(&mut self, lpn: Lpn, to: Slot) {
        let Some(mut scores) = self.scores.take() else { return };
        let (lbn, _) = self.split(lpn);
        let from = self.in_log(lpn);
        scores.enter_log(self.logged(lbn), from, from.is_none() && self.live_bit(lpn).is_some(), to);
        self.scores = Some(scores);
    }

    /// Adds what merging a logical block costs to the scores of the log blocks that it has pages in, or takes it off.
    fn add_terms(&mut self, lbn: Lbn, sign: i64) {
        let Some(mut scores) = self.scores.take() else { return };
        scores.add_terms(self.logged(lbn), sign);
        self.scores = Some(scores);
    }

    /// What a logical block has in the log.
    fn logged(&self, lbn: Lbn) -> Logged<'_> {
        let lpns = self.lpns(lbn);
        Logged {
            g: &self.g,
            slots: &self.slots,
            places: &self.log_map[lpns.start as usize..lpns.end as usize],
            data: self.data_block(lbn).map_or(0, |block| self.pool.blocks.live_of(block)),
            log: u32::from(self.logged[lbn.index()]),
        }
    }

    /// Logical blocks with a live page in a log block, in the order of their first such page.
    pub fn logical_blocks_in(&self, slot: Slot) -> Vec<Lbn> {
        let block = self.slots.block(slot);
        let mut found: Vec<Lbn> = Vec::new();
        let mut at = self.pool.blocks.next_live(block, 0);
        while let Some(offset) = at {
            let (lbn, _) = self.split(self.slots.lpn_at(slot, offset));
            if !found.contains(&lbn) {
                found.push(lbn);
            }
            at = self.pool.blocks.next_live(block, offset + 1);
        }
        found
    }

    /// How many logical blocks a log block took pages of, live or dead.
    pub fn taken_in(&self, slot: Slot) -> usize {
        let lpns = (0..self.p()).map(|offset| self.slots.lpn_at(slot, offset)).filter(|lpn| lpn.0 != NONE);
        let mut lbns: Vec<Lbn> = lpns.map(|lpn| self.split(lpn).0).collect();
        lbns.sort_unstable();
        lbns.dedup();
        lbns.len()
    }

    // ---- RAM ---------------------------------------------------------------------------------------------------

    /// Controller RAM, bytes.
    pub fn memory(&self) -> Vec<(&'static str, u64)> {
        let logical = self.data.len() as u64;
        let mut out =
            vec![("block map", logical * 4), ("log blocks", self.slots.memory()), ("log map", self.slots.map_memory())];
        out.extend(P::memory(self));
        out.extend(self.pool.memory());
        if let Some(scores) = &self.scores {
            out.push(("scores of log blocks", scores.memory(self.p())));
        }
        if let Some(ages) = &self.ages {
            out.push(("ages of log blocks", ages.memory()));
        }
        out.push(("version", 8));
        out
    }

    /// Saves the state.
    pub fn save(&self, out: &mut Saver) {
        self.data.iter().for_each(|&block| out.u32(block));
        self.pool.save(out);
        P::save(self, out);
        self.slots.save(out);
        out.u64(self.version);
        if let Some(scores) = &self.scores {
            scores.save(out);
        }
        if let Some(ages) = &self.ages {
            ages.save(out);
        }
    }

    /// Loads what [`Core::save`] saved into a blank core.
    pub fn load(mut self, from: &mut Loader<'_>) -> Self {
        self.data.iter_mut().for_each(|block| *block = from.u32());
        self.pool.load(from);
        P::load_saved(&mut self, from);
        self.slots = Slots::load(&self.g, self.slots.own_places(), from, |block| self.pool.blocks.live_of(block));
        if P::APPENDS {
            self.slots.iter().for_each(|(_, log)| self.written.fill_below(Block(log.block), log.next));
        }
        self.version = from.u64();
        if let Some(scores) = &mut self.scores {
            scores.load(from, &self.slots);
        }
        if let Some(ages) = &mut self.ages {
            ages.load(from);
        }
        self.map_log_pages();
        self
    }

    /// Builds the log map from what the log blocks hold.
    pub(super) fn map_log_pages(&mut self) {
        for (slot, entry) in self.slots.iter().collect::<Vec<_>>() {
            let block = Block(entry.block);
            let mut at = self.pool.blocks.next_live(block, 0);
            while let Some(offset) = at {
                let lpn = self.slots.lpn_at(slot, offset);
                self.log_map[lpn.index()] = self.g.page(block, offset).0;
                let (lbn, _) = self.split(lpn);
                self.logged[lbn.index()] += 1;
                at = self.pool.blocks.next_live(block, offset + 1);
            }
        }
    }

    /// Recomputes all scores.
    pub(super) fn score_all(&mut self) {
        for lbn in self.logical_blocks() {
            self.add_terms(lbn, 1);
        }
    }

    // ---- checks ------------------------------------------------------------------------------------------------

    /// Checks the invariants against the flash.
    ///
    /// # Errors
    /// The first that does not hold.
    pub fn audit<F: Flash>(&self, flash: &mut F) -> Result<(), String> {
        let mut expected = vec![0u32; self.g.block_count() as usize];
        let mut logged = vec![0u16; self.data.len()];
        for lbn in self.logical_blocks() {
            let places = P::audit(self, flash, lbn)?;
            for (lpn, in_data) in self.lpns(lbn).map(Lpn).zip(places) {
                let (in_log, bit) = (self.in_log(lpn), self.live_bit(lpn));
                if bit.is_some() != (in_data.is_some() && in_log.is_none() && !self.place.is_discarded(lpn)) {
                    return Err(format!("LPN {lpn} counts in its data block or not, and its bit says the contrary"));
                }
                let Some(ppn) = in_log.or(in_data) else { continue };
                let oob = flash.read_oob(ppn, Cause::Recovery).map_err(|fault| format!("{fault:?}"))?;
                let holds = |oob: Oob| oob.lpn() == lpn && matches!(oob.kind, Kind::Data | Kind::Log | Kind::Trim);
                let Some(oob) = oob.filter(|&oob| holds(oob)) else {
                    return Err(format!("LPN {lpn} maps to page {ppn}, which holds {oob:?}"));
                };
                audit_version(lpn, &oob, self.version)?;
                logged[lbn.index()] += u16::from(in_log.is_some());
                if let Some(bit) = in_log.or(bit) {
                    if !self.pool.blocks.is_live(bit) {
                        return Err(format!("LPN {lpn} maps to page {ppn}, which is dead"));
                    }
                    expected[self.g.block_of(bit).index()] += 1;
                }
            }
        }
        self.slots.audit()?;
        if logged != self.logged {
            return Err("the log pages of a logical block are counted wrongly".into());
        }
        for (block, &live) in expected.iter().enumerate() {
            let counted = self.pool.blocks.live_of(Block(block as u32));
            if counted != live {
                return Err(format!("block {block} counts {counted} live pages, but {live} are mapped"));
            }
        }
        for (slot, entry) in self.slots.iter() {
            let live = self.pool.blocks.live_of(Block(entry.block));
            if let Some(noted) = self.slots.noted(slot).filter(|&noted| noted != live) {
                return Err(format!("log block {} has {live} live pages and is noted with {noted}", entry.block));
            }
        }
        let data = self.data.iter().filter(|&&block| block != NONE).count() as u32;
        let apart = self.pool.blocks_for_wear();
        let in_use = data + self.slots.in_use() + self.pool.blocks.free_total() + self.pool.blocks.bad_count() + apart;
        // A block that failed may be all that is left of a merge's target.
        let without = self.pool.doomed.len() as u32;
        if !(in_use..=in_use + without).contains(&self.g.block_count()) {
            return Err(format!("{in_use} blocks are accounted for, and there are {}", self.g.block_count()));
        }
        match &self.scores {
            Some(scores) => scores.audit(&self.slots, |slot| self.terms_of(scores, slot)),
            None => Ok(()),
        }
    }

    /// What merging all that a log block holds takes off its score.
    fn terms_of(&self, scores: &Scores, slot: Slot) -> i64 {
        let merged = self.logical_blocks_in(slot).into_iter().map(|lbn| self.logged(lbn));
        merged.map(|of| scores.term(of.data, of.log)).sum()
    }

    /// The ages of all log blocks, in erases of log blocks, by block.
    #[cfg(test)]
    pub(crate) fn ages(&self) -> alloc::collections::BTreeMap<u32, i64> {
        let scores = self.scores.as_ref().expect("the policy keeps scores");
        let age =
            |(slot, log): (Slot, super::log::LogBlock)| (log.block, scores.age(slot, self.terms_of(scores, slot)));
        self.slots.iter().map(age).collect()
    }
}

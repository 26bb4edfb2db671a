//! How the pages of a data block lie in it: what the core asks of the two ways there are.
//!
//! [`InPlace`]: each page has its place, its offset in the logical block. Nothing need be kept to find it, and a second
//! write of it must go to the log.
//!
//! [`Appended`](super::appended::Appended): pages are written one behind the other, each version behind the one before
//! it, and the spare areas say where they are; finding a page may take reads.
//!
//! What is the same in both: *live bits by logical offset*. The live bit of page i of a data block says whether page i
//! of its logical block counts there, wherever in the block it lies. (Of a log block each bit is that of the page in
//! its place.) So all that asks how many pages count, and of which, needs no map.

use super::log::Slot;
use super::pages::PageBits;
use super::state::{Core, MERGE_COUNTERS};
use crate::parts::holdings::Holdings;
use crate::{ConfigError, Loader, Outcome, Saver, Settings};
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt::Debug;
use flash::{Block, Cause, Flash, Geometry, Kind, Lbn, Lpn, Ppn};

/// Pages that count at a mount: of each block that holds such, which they are and where they lie.
pub(crate) type Held = BTreeMap<u32, Vec<(Lpn, Ppn)>>;

/// See the module's description.
pub trait Placement: Sized + Clone + Debug + Send + 'static {
    /// Whether a data block takes version after version of a page. If not, a page of which the log holds a copy goes to
    /// the log.
    const APPENDS: bool;

    /// For a blank device.
    ///
    /// # Errors
    /// Settings that do not fit.
    fn new(g: &Geometry, logical_pages: u32, settings: &Settings) -> Result<Self, ConfigError>;

    /// Bytes that it keeps in each spare area.
    fn spare_bytes(&self) -> u32 {
        0
    }

    /// The page of a data block, or of one that becomes that, to which page `offset` of the logical block can go; it
    /// may take padding.
    fn next(core: &Core<Self>, block: Block, offset: u32) -> Option<u32>;

    /// Where a page lies in its data block.
    ///
    /// # Errors
    /// The medium's.
    fn find<F: Flash>(core: &mut Core<Self>, flash: &mut F, lpn: Lpn) -> Outcome<F, Option<Ppn>>;

    /// Brings in what [`Placement::place`] has to know of a data block.
    ///
    /// # Errors
    /// The medium's.
    fn load<F: Flash>(core: &mut Core<Self>, flash: &mut F, lbn: Lbn) -> Outcome<F>;

    /// Where page `offset` lies in the data block that was loaded last, and counts; at most how many behind it follow
    /// it there, if they count as well, itself included.
    fn place(core: &Core<Self>, block: Block, offset: u32) -> (Ppn, u32);

    /// A page of a data block, or of one that becomes that, is about to be programmed at `ppn`: stages what its spare
    /// area is to hold.
    ///
    /// # Errors
    /// The medium's.
    fn stage<F: Flash>(core: &mut Core<Self>, flash: &mut F, lpn: Lpn, ppn: Ppn) -> Outcome<F>;

    /// It was programmed, or that failed.
    fn programmed(core: &mut Core<Self>, lpn: Lpn, ppn: Ppn, done: bool);

    /// A block that may hold padding of an earlier life is filled anew.
    #[inline(always)]
    fn begun(&mut self, block: Block) {
        let _ = block;
    }

    /// A page of padding was programmed.
    #[inline(always)]
    fn padded(&mut self, block: Block) {
        let _ = block;
    }

    /// A block that was filled is a logical block's data block now, or it has none.
    fn installed(core: &mut Core<Self>, lbn: Lbn);

    /// Whether a page holds anything, where RAM tells.
    fn is_mapped(core: &Core<Self>, lpn: Lpn) -> Option<bool>;

    /// A page is discarded in RAM alone.
    fn forget(core: &mut Core<Self>, lpn: Lpn);

    /// Whether a page was discarded of which a copy is still there.
    #[inline(always)]
    fn is_discarded(&self, lpn: Lpn) -> bool {
        let _ = lpn;
        false
    }

    /// No copy of a page is there any more that was discarded, or a new one is: whether it was.
    #[inline(always)]
    fn recall(&mut self, lpn: Lpn) -> bool {
        let _ = lpn;
        false
    }

    /// While mounting: the blocks that are data blocks, by their logical blocks.
    ///
    /// # Errors
    /// The medium's.
    fn data_blocks<F: Flash>(
        core: &mut Core<Self>,
        flash: &mut F,
        found: &Holdings,
        held: &Held,
    ) -> Outcome<F, BTreeMap<Lbn, u32>>;

    /// For an audit: where each page of a logical block lies in its data block by what flash says.
    ///
    /// # Errors
    /// What flash says and RAM does not.
    fn audit<F: Flash>(core: &Core<Self>, flash: &mut F, lbn: Lbn) -> Result<Vec<Option<Ppn>>, alloc::string::String>;

    /// Controller RAM, bytes.
    fn memory(core: &Core<Self>) -> Vec<(&'static str, u64)>;

    /// What the core and the placement counted.
    fn counters(core: &Core<Self>) -> Vec<(&'static str, u64)>;

    /// Forgets what the placement counted.
    fn reset_counters(&mut self) {}

    /// Saves the state, and what of the data blocks is programmed.
    fn save(core: &Core<Self>, out: &mut Saver);

    /// Loads what [`Placement::save`] saved.
    fn load_saved(core: &mut Core<Self>, from: &mut Loader<'_>);
}

/// Each page has its place.
#[derive(Clone, Copy, Debug)]
pub struct InPlace;

impl Placement for InPlace {
    const APPENDS: bool = false;

    fn new(_: &Geometry, _: u32, _: &Settings) -> Result<Self, ConfigError> {
        Ok(InPlace)
    }

    #[inline(always)]
    fn next(core: &Core, block: Block, offset: u32) -> Option<u32> {
        core.is_writable(block, offset).then_some(offset)
    }

    #[inline(always)]
    fn find<F: Flash>(core: &mut Core, _: &mut F, lpn: Lpn) -> Outcome<F, Option<Ppn>> {
        Ok(core.in_data(lpn))
    }

    #[inline(always)]
    fn load<F: Flash>(_: &mut Core, _: &mut F, _: Lbn) -> Outcome<F> {
        Ok(())
    }

    #[inline(always)]
    fn place(core: &Core, block: Block, offset: u32) -> (Ppn, u32) {
        // Holes may be among the pages, and stay such when they are copied.
        (core.g.page(block, offset), if core.durable_trim { 1 } else { u64::BITS })
    }

    #[inline(always)]
    fn stage<F: Flash>(_: &mut Core, _: &mut F, _: Lpn, _: Ppn) -> Outcome<F> {
        Ok(())
    }

    #[inline(always)]
    fn programmed(_: &mut Core, _: Lpn, _: Ppn, _: bool) {}

    #[inline(always)]
    fn installed(_: &mut Core, _: Lbn) {}

    #[inline]
    fn is_mapped(core: &Core, lpn: Lpn) -> Option<bool> {
        match core.lookup(lpn) {
            None => Some(false),
            // A hole is told from data by its spare area alone.
            Some(_) if core.durable_trim => None,
            Some(_) => Some(true),
        }
    }

    fn forget(core: &mut Core, lpn: Lpn) {
        if core.lookup(lpn).is_some() {
            let (lbn, _) = core.split(lpn);
            core.change_terms(lbn, |core| core.supersede(lpn));
        }
    }

    /// What has all its pages that count in their places in one logical block can be its data block: of several, that
    /// with most pages that were written as data, and of such that with most that count.
    fn data_blocks<F: Flash>(
        core: &mut Core,
        _: &mut F,
        found: &Holdings,
        held: &Held,
    ) -> Outcome<F, BTreeMap<Lbn, u32>> {
        let mut chosen: BTreeMap<Lbn, (u32, usize, u32)> = BTreeMap::new();
        for (&block, pages) in held {
            let (lbn, _) = core.split(pages[0].0);
            if pages.iter().all(|&(lpn, ppn)| core.split(lpn) == (lbn, core.g.offset_of(ppn))) {
                let written = found.census.blocks[block as usize].map_or(0, |found| found.data);
                let rank = (written, pages.len(), block);
                let best = chosen.entry(lbn).or_insert(rank);
                *best = (*best).max(rank);
            }
        }
        Ok(chosen.into_iter().map(|(lbn, (_, _, block))| (lbn, block)).collect())
    }

    fn audit<F: Flash>(core: &Core, _: &mut F, lbn: Lbn) -> Result<Vec<Option<Ppn>>, alloc::string::String> {
        Ok(core.lpns(lbn).map(|lpn| core.in_data(Lpn(lpn))).collect())
    }

    fn memory(core: &Core) -> Vec<(&'static str, u64)> {
        let logged = core.data.len() as u64 * 2;
        vec![("log pages of logical blocks", logged), ("programmed bits", core.written.memory(&core.g))]
    }

    fn counters(core: &Core) -> Vec<(&'static str, u64)> {
        MERGE_COUNTERS.iter().map(|&(name, _)| name).zip(core.merges.values()).collect()
    }

    fn save(core: &Core, out: &mut Saver) {
        core.written.save(&core.g, out);
    }

    fn load_saved(core: &mut Core, from: &mut Loader<'_>) {
        core.written = PageBits::load(&core.g, from);
    }
}

impl Core {
    /// A page's live copy in its data block.
    #[inline(always)]
    pub fn in_data(&self, lpn: Lpn) -> Option<Ppn> {
        self.live_bit(lpn)
    }

    /// Where a page lies.
    #[inline(always)]
    pub fn lookup(&self, lpn: Lpn) -> Option<Ppn> {
        self.in_log(lpn).or_else(|| self.in_data(lpn))
    }

    /// Whether all pages that `target` lacks of a logical block can be programmed in their places, ascending.
    pub fn can_take_rest(&self, lbn: Lbn, target: Block) -> bool {
        let missing = |lpn: Lpn| self.lookup(lpn).is_some_and(|ppn| self.g.block_of(ppn) != target);
        self.lpns(lbn).map(Lpn).all(|lpn| !missing(lpn) || self.is_writable(target, self.split(lpn).1))
    }
    /// Copies a page, wherever it is, to a blank place of a log block, as `kind`. False if the program failed: the
    /// block is closed, and the page is where it was.
    ///
    /// # Errors
    /// The medium's.
    pub fn move_to_log<F: Flash>(
        &mut self,
        flash: &mut F,
        (slot, offset): (Slot, u32),
        lpn: Lpn,
        kind: Kind,
        cause: Cause,
    ) -> Outcome<F, bool> {
        let Some(from) = self.lookup(lpn) else { return Ok(true) };
        let to = self.g.page(self.slots.block(slot), offset);
        if !self.pad(flash, self.slots.block(slot), offset, cause)?
            || !self.copy(flash, (from, to), Some(kind), cause)?
        {
            self.close(slot);
            return Ok(false);
        }
        self.enter_scored(lpn, slot, offset);
        Ok(true)
    }

    /// Copies a page of the log to its own place in its data block, if that is blank. False if it stays where it is.
    ///
    /// # Errors
    /// Full, or the medium's.
    pub fn move_in_place<F: Flash>(&mut self, flash: &mut F, lpn: Lpn, cause: Cause) -> Outcome<F, bool> {
        let (Some(from), (lbn, offset)) = (self.in_log(lpn), self.split(lpn)) else { return Ok(false) };
        let Some((block, _)) = self.room_for(flash, lbn, offset)? else { return Ok(false) };
        let to = self.g.page(block, offset);
        if !self.pad(flash, block, offset, cause)? || !self.copy(flash, (from, to), Some(Kind::Data), cause)? {
            return Ok(false);
        }
        self.change_terms(lbn, |core| {
            core.supersede(lpn);
            core.pool.blocks.revive(to);
        });
        Ok(true)
    }
}

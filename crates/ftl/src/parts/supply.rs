//! The supply of blocks: which are free, what number the next program gets, how a block ends, and what wear levelling
//! hears of it.
//!
//! The supply also keeps erase counts on flash, where that is wanted (`parts/wear_state.rs`): it sees every erase and
//! every program.
//!
//! A block is opened, and erased first if its blankness is not to be trusted. It ends by an erase, or by a bad-block
//! mark: at once if the erase fails, for it holds nothing, and once it was emptied if a program of its failed. Which
//! block is opened when, and which one is emptied, is for those to say who have a supply: [`Space`] fills blocks in
//! lanes, [`Pool`] hands them out whole.
//!
//! [`Space`]: super::space::Space
//! [`Pool`]: super::pool::Pool

use crate::blocks::{Blocks, FoundState, FreeOrder};
use crate::parts::census::Census;
use crate::parts::wear::{self, Task, Wear, WearMode};
use crate::parts::wear_state::{self, WEAR_CHECKPOINT, WEAR_STATE, WearState};
use crate::{Group, Loader, Outcome, Parameter, Saver, Settings};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use flash::{Block, Cause, FaultKind, Flash, FlashFault, Geometry, Kind, Lpn, Mode, Oob, Payload, Ppn};

/// `free-order`: which free block to fill next.
pub(crate) const FREE_ORDER: Parameter = Parameter::word("free-order", "fifo", &["fifo", "least-worn"])
    .text(
        "Which free block to fill next. fifo: the one free for longest. least-worn: the least worn one, which evens \
         out wear among free blocks.",
    )
    .source("{rose}, section 3.3");

/// Free blocks, and wear levelling: the rows of [`Options`].
pub(crate) const GROUP: Group = Group {
    title: "free blocks and wear levelling",
    rows: &[
        FREE_ORDER,
        wear::WEAR_LEVELLING,
        wear::WEAR_THRESHOLD,
        wear::BET_K,
        wear::BET_THRESHOLD,
        WEAR_STATE,
        WEAR_CHECKPOINT,
    ],
};

/// That the version of a page is not above the last one that was given: the next would not be the newest.
///
/// # Errors
/// Both versions.
pub(crate) fn audit_version(lpn: Lpn, oob: &Oob, given: u64) -> Result<(), String> {
    if oob.version <= given {
        return Ok(());
    }
    Err(format!("LPN {lpn} has version {}, and the last one given is {given}", oob.version))
}

/// How a supply hands blocks out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// `free-order`.
    pub free_order: FreeOrder,
    /// Wear levelling.
    pub wear: wear::Options,
    /// What of wear is kept on flash.
    pub wear_state: wear_state::Options,
}

impl From<&Settings> for Options {
    fn from(settings: &Settings) -> Options {
        let free_order = match settings.word(&FREE_ORDER) {
            "least-worn" => FreeOrder::LeastWorn,
            _ => FreeOrder::Fifo,
        };
        Options { free_order, wear: settings.into(), wear_state: settings.into() }
    }
}

/// See the module's description.
#[derive(Clone, Debug)]
pub struct Supply {
    /// Every block's state.
    pub blocks: Blocks,
    /// Programs so far over the device's life; the next program's number.
    pub program: u64,
    /// Blocks that failed a program and still hold what is needed.
    pub doomed: Vec<Block>,
    pub(super) wear: Wear,
    /// While a cold block is being moved: the block that is to be opened next, if it is free.
    pub(super) next: Option<Block>,
    /// Erase counts on flash, if they are kept there.
    pub(super) wear_state: Option<Box<WearState>>,
}

impl Supply {
    /// All blocks free. `ages` keeps what policies by age need.
    pub fn new(g: Geometry, options: &Options, ages: bool) -> Supply {
        let blocks = Blocks::new(g, options.free_order, ages);
        let wear = Wear::new(&options.wear, g.block_count());
        let state = options.wear_state.on.then(|| Box::new(WearState::new(&g, &options.wear_state)));
        Supply { blocks, program: 1, doomed: Vec::new(), wear, next: None, wear_state: state }
    }

    /// The scheme keeps so many bytes of its own in every spare area.
    pub fn keep_own(&mut self, bytes: u32) {
        self.wear_state.iter_mut().for_each(|state| state.keep_own(bytes));
    }

    /// Page `to` is about to be programmed, and takes these bytes of the scheme's own along in its spare area. The next
    /// call is [`Supply::number_for`] that page.
    pub fn stage_spare<F: Flash>(&mut self, flash: &mut F, to: Ppn, own: Vec<u8>) {
        match &mut self.wear_state {
            Some(state) => state.stage(own),
            None => flash.stage_spare(to, &own),
        }
    }

    /// Takes factory-bad blocks out of service on a fresh device.
    ///
    /// # Errors
    /// The medium's.
    pub fn exclude_bad<F: Flash>(&mut self, flash: &mut F) -> Outcome<F> {
        let g = *flash.geometry();
        for block in (0..g.block_count()).map(Block) {
            if flash.read_oob(g.page(block, 0), Cause::Recovery)?.is_some_and(|oob| oob.kind == Kind::Bad) {
                self.retire(block);
            }
        }
        let area = wear_state::area(&g).filter(|&block| !self.blocks.is_bad(block)).collect();
        self.hold(area);
        Ok(())
    }

    /// Takes blocks out of service for checkpoints, if erase counts are kept on flash.
    fn hold(&mut self, area: Vec<Block>) {
        let Some(state) = &mut self.wear_state else { return };
        for &block in &area {
            if self.blocks.open_block(block).is_some() {
                self.blocks.discard_open(block);
            }
            self.wear.retired(block, self.blocks.erase_counts()[block.index()]);
        }
        state.hold(area, self.blocks.geometry());
    }

    /// While mounting: takes over what each block is. Those in use are closed, with no live page yet; all others are
    /// erased before their first use.
    pub(crate) fn adopt(&mut self, census: &Census, in_use: impl Fn(Block) -> bool) {
        census.bad.iter().for_each(|&block| self.retire(block));
        let g = *self.blocks.geometry();
        self.blocks.add_erases(&census.erases);
        let bad: Vec<bool> = (0..g.block_count()).map(|block| self.blocks.is_bad(Block(block))).collect();
        self.blocks.found(|block| match in_use(block) {
            _ if bad[block.index()] => FoundState::Bad,
            true => FoundState::InUse,
            false => FoundState::Empty,
        });
        self.blocks.suspect_free();
        self.program = census.next_program();
        if let Some(state) = &mut self.wear_state {
            state.found(census);
            let held = |block| self.blocks.is_bad(block) || census.area.contains(&block);
            self.wear.know(self.blocks.erase_counts(), held);
            self.hold(census.area_in_turn());
        }
    }

    /// Bytes of the scheme's own in front of an erase count in spare areas, if counts are there: for a census.
    pub fn own_bytes(&self) -> Option<u32> {
        self.wear_state.as_ref().map(|state| state.own_bytes())
    }

    /// Holds free blocks to hold nothing that could count after a power cut: no whole page before the first blank one,
    /// which is where a mount takes a block to end.
    ///
    /// # Errors
    /// The first such page.
    pub fn audit_free<F: Flash>(&self, flash: &mut F) -> Result<(), String> {
        let g = *self.blocks.geometry();
        for block in self.blocks.free_blocks() {
            for ppn in (0..g.pages_per_block).map(|offset| g.page(block, offset)) {
                if flash.read_oob(ppn, Cause::Recovery).map_err(|fault| format!("{fault:?}"))?.is_none() {
                    break;
                }
                // The spare area of a page may be sound, and its data not.
                if let Ok((oob, _)) = flash.read(ppn, Cause::Recovery)
                    && matches!(oob.kind, Kind::Data | Kind::Log | Kind::Trim)
                {
                    return Err(format!("block {block} is free, and page {ppn} holds {oob:?}"));
                }
            }
        }
        Ok(())
    }

    /// Blocks out of service for checkpoints of erase counts.
    pub fn blocks_for_wear(&self) -> u32 {
        self.wear_state.as_ref().map_or(0, |state| state.blocks_held())
    }

    /// The number of the next program, which is that of page `to`.
    #[inline(always)]
    pub fn number_for<F: Flash>(&mut self, flash: &mut F, to: Ppn) -> u64 {
        self.tell_wear(flash, to);
        self.program += 1;
        self.program - 1
    }

    /// Page `to` is the next to be programmed: has its spare area hold what is to stand there.
    #[inline(always)]
    pub fn tell_wear<F: Flash>(&mut self, flash: &mut F, to: Ppn) {
        if let Some(state) = &mut self.wear_state {
            let block = self.blocks.geometry().block_of(to);
            state.tell(flash, to, block, self.blocks.erase_counts()[block.index()]);
        }
    }

    /// Erases a block that was opened or is nobody's, for its blankness is not to be trusted. False if that failed, and
    /// it is marked bad.
    pub(crate) fn cleanse<F: Flash>(&mut self, flash: &mut F, block: Block) -> Outcome<F, bool> {
        match flash.erase(block, Cause::Recovery) {
            Ok(()) => {
                self.blocks.count_erase(block);
                self.note_erase(block, Cause::Recovery);
                self.checkpoint_if_due(flash)?;
                Ok(true)
            }
            Err(fault) if fault.kind() == FaultKind::EraseFailed => {
                self.blocks.discard_open(block);
                self.mark_bad(flash, block).map(|()| false)
            }
            Err(fault) => Err(fault.into()),
        }
    }

    /// A block that holds nothing needed is erased and free again; if that fails it is marked bad.
    pub(crate) fn erase<F: Flash>(&mut self, flash: &mut F, block: Block, cause: Cause) -> Outcome<F> {
        match flash.erase(block, cause) {
            Ok(()) => {
                self.blocks.erased(block);
                self.note_erase(block, cause);
                self.checkpoint_if_due(flash)
            }
            Err(fault) if fault.kind() == FaultKind::EraseFailed => self.mark_bad(flash, block),
            Err(fault) => Err(fault.into()),
        }
    }

    /// Marks a block bad that holds nothing needed.
    pub(crate) fn mark_bad<F: Flash>(&mut self, flash: &mut F, block: Block) -> Outcome<F> {
        let mark = Oob { kind: Kind::Bad, mode: Mode::Normal, address: 0, version: 0, program: 0, mark: 0 };
        flash.program(flash.geometry().page(block, 0), mark, Payload::None, Cause::Metadata)?;
        self.retire(block);
        Ok(())
    }

    fn retire(&mut self, block: Block) {
        self.blocks.retire(block);
        self.wear.retired(block, self.blocks.erase_counts()[block.index()]);
    }

    fn note_erase(&mut self, block: Block, cause: Cause) {
        self.wear.erased(block, self.blocks.erase_counts()[block.index()], cause);
        if let Some(state) = &mut self.wear_state {
            state.erased(block);
        }
    }

    #[inline(always)]
    fn checkpoint_if_due<F: Flash>(&mut self, flash: &mut F) -> Outcome<F> {
        if self.wear_state.as_ref().is_some_and(|state| state.is_due()) { self.checkpoint(flash) } else { Ok(()) }
    }

    /// Whether wear levelling is to be asked what it wants.
    #[inline(always)]
    pub fn is_levelling_due(&self) -> bool {
        self.wear.is_due()
    }

    /// Whether the block that cold data are to go to is free, if they are to go to a certain one. Where the most worn
    /// block holds data already, others catch up with it in time; moving cold data to and fro would not change that.
    pub fn can_take(&self, task: &Task) -> bool {
        task.worn.is_none_or(|worn| self.blocks.is_free(worn))
    }

    /// The next block that is opened (of a space: on its die) is to be this one, if it is free; `None` forgets it.
    pub fn open_next(&mut self, worn: Option<Block>) {
        self.next = worn;
    }

    /// Controller RAM of wear levelling, bytes, if there is any.
    pub(super) fn wear_memory(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let levelling = (self.wear.mode() != WearMode::Off).then(|| ("wear levelling", self.wear.memory()));
        levelling.into_iter().chain(self.wear_state.as_ref().map(|state| ("wear state", state.memory())))
    }

    /// Loads the states of the blocks.
    pub(super) fn load_blocks(&mut self, from: &mut Loader<'_>) {
        self.blocks.load(from);
    }

    /// Saves what wear levelling knows.
    pub(super) fn save_wear(&self, out: &mut Saver) {
        if let Some(state) = &self.wear_state {
            state.save(out);
        }
        self.wear.save(out);
    }

    /// Loads what wear levelling saved, once the states of the blocks are there.
    pub(super) fn load_wear(&mut self, from: &mut Loader<'_>) {
        let mut area: &[Block] = &[];
        if let Some(state) = &mut self.wear_state {
            state.load(from);
            area = &state.area;
        }
        let held = |block| self.blocks.is_bad(block) || area.contains(&block);
        self.wear.load(self.blocks.erase_counts(), held, from);
    }
}

//! The supply of blocks: which are free, what number the next program gets, how a block ends, and what wear levelling
//! hears of it.
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
use crate::{Group, Loader, Outcome, Parameter, Settings};
use alloc::vec::Vec;
use flash::{Block, Cause, FaultKind, Flash, FlashFault, Geometry, Kind, Mode, Oob, Payload};

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
    rows: &[FREE_ORDER, wear::WEAR_LEVELLING, wear::WEAR_THRESHOLD, wear::BET_K, wear::BET_THRESHOLD],
};

/// How a supply hands blocks out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// `free-order`.
    pub free_order: FreeOrder,
    /// Wear levelling.
    pub wear: wear::Options,
}

impl From<&Settings> for Options {
    fn from(settings: &Settings) -> Options {
        let free_order = match settings.word(&FREE_ORDER) {
            "least-worn" => FreeOrder::LeastWorn,
            _ => FreeOrder::Fifo,
        };
        Options { free_order, wear: settings.into() }
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
}

impl Supply {
    /// All blocks free. `ages` keeps what policies by age need.
    pub fn new(g: Geometry, options: &Options, ages: bool) -> Supply {
        let blocks = Blocks::new(g, options.free_order, ages);
        Supply { blocks, program: 1, doomed: Vec::new(), wear: Wear::new(&options.wear, g.block_count()), next: None }
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
        Ok(())
    }

    /// While mounting: takes over what each block is. Those in use are closed, with no live page yet; all others are
    /// erased before their first use.
    pub(crate) fn adopt(&mut self, census: &Census, in_use: impl Fn(Block) -> bool) {
        census.bad.iter().for_each(|&block| self.retire(block));
        let g = *self.blocks.geometry();
        let bad: Vec<bool> = (0..g.block_count()).map(|block| self.blocks.is_bad(Block(block))).collect();
        self.blocks.found(|block| match in_use(block) {
            _ if bad[block.index()] => FoundState::Bad,
            true => FoundState::InUse,
            false => FoundState::Empty,
        });
        self.blocks.suspect_free();
        self.program = census.next_program();
    }

    /// The number of the next program.
    #[inline(always)]
    pub fn number(&mut self) -> u64 {
        self.program += 1;
        self.program - 1
    }

    /// Erases a block that was opened or is nobody's, for its blankness is not to be trusted. False if that failed, and
    /// it is marked bad.
    pub(crate) fn cleanse<F: Flash>(&mut self, flash: &mut F, block: Block) -> Outcome<F, bool> {
        match flash.erase(block, Cause::Recovery) {
            Ok(()) => {
                self.blocks.count_erase(block);
                self.note_erase(block, Cause::Recovery);
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
                Ok(())
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
    pub(super) fn wear_memory(&self) -> Option<(&'static str, u64)> {
        (self.wear.mode() != WearMode::Off).then(|| ("wear levelling", self.wear.memory()))
    }

    /// Loads the states of the blocks.
    pub(super) fn load_blocks(&mut self, from: &mut Loader<'_>) {
        self.blocks.load(from);
    }

    /// Loads what wear levelling saved, once the states of the blocks are there.
    pub(super) fn load_wear(&mut self, from: &mut Loader<'_>) {
        self.wear.load(self.blocks.erase_counts(), |block| self.blocks.is_bad(block), from);
    }
}

//! How often every block was erased, kept on flash, so that wear levelling goes on after a mount where it was.
//!
//! The count of a block that holds pages rides in the spare area of the page that was programmed first since its
//! erase: four bytes, and no command of its own. A block that is free has no such page. So all counts are written to
//! pages of their own as well, after every `wear-checkpoint` erases: a *checkpoint* (the ROSE thesis, section 3.5,
//! keeps erase counts "in extra flash pages"). A mount believes, of each block, the larger of the two, for counts only
//! grow. What it does not find are erases of blocks that were free when power went, since the last checkpoint that was
//! finished: at most `wear-checkpoint`, whichever blocks they were of.
//!
//! # Where checkpoints lie
//!
//! In the *area*: the last blocks of the dies, which hold nothing else while the device lives and are never handed
//! out. A checkpoint has as many pages as the counts take, one behind the other. Its blocks are filled in turn, and a
//! block is erased when it is to be filled again. A checkpoint of at most a block lies in one block, a larger one takes
//! whole blocks; so the area has room for two of them, and the last one that was finished stands until the next one
//! is. It has a block more, for one may be bad. When too many are bad no checkpoints are written any more; the last one
//! and spare areas still tell.
//!
//! ```text
//!  last block of die 1   ckpt 4 │ ckpt 5 │ ckpt 6 │ ckpt 7   full
//!  last block of die 0   ckpt 8 │ ckpt 9 │ blank  │ blank    the next one goes here, until it is full
//!  one before it, die 1  ckpt 0 │ ckpt 1 │ ckpt 2 │ ckpt 3   erased, and then filled next
//! ```
//!
//! # Cost
//!
//! With `wear-checkpoint` at its default, as many erases as there are blocks, a page program for each thousand erases
//! of a device of 4 KiB pages. RAM: a bit for each block, whether its count is still to be programmed, and the area.

use crate::parts::census::Census;
use crate::parts::spare_map::{RECOVERABLE_BYTES, reserve};
use crate::parts::supply::Supply;
use crate::{ConfigError, Dependence, Loader, Outcome, Parameter, Saver, Settings};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use flash::{Block, Cause, Die, FaultKind, Flash, FlashFault, Geometry, Kind, Mode, Oob, Payload, Ppn};

/// `wear-state`: whether counts are kept on flash.
pub const WEAR_STATE: Parameter = Parameter::word("wear-state", "off", &["off", "on"])
    .text(
        "Whether erase counts are kept on flash, in spare areas and checkpoints: wear levelling and least-worn then \
         go on after a mount where they were. off: every mount counts from zero. Takes 4 bytes of a spare area and \
         three blocks or more.",
    )
    .source("{rose}, section 3.5; where they stand is ftlab's");

/// `wear-checkpoint`: how often all counts are written.
pub const WEAR_CHECKPOINT: Parameter = Parameter::count("wear-checkpoint", 0, 0..=1 << 32)
    .unit("erases")
    .text(
        "Erases after which all erase counts are written to pages of their own. So many may be forgotten at a power \
         cut; fewer program more pages. 0 stands for as many as the device has blocks.",
    )
    .source("ftlab; {rose} does not say how often");

/// What is read in which mode.
pub(crate) const DEPENDENCES: [Dependence; 1] =
    [Dependence { parameters: &[WEAR_CHECKPOINT.name], on: WEAR_STATE.name, words: &["on"] }];

/// Bytes of a count in a spare area.
pub(crate) const COUNT_BYTES: u32 = 4;

/// Whether counts are kept, and how often they are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// `wear-state`.
    pub on: bool,
    /// `wear-checkpoint`; 0 for as many as there are blocks.
    pub interval: u64,
}

impl From<&Settings> for Options {
    fn from(settings: &Settings) -> Options {
        Options { on: settings.word(&WEAR_STATE) == "on", interval: settings.count(&WEAR_CHECKPOINT) }
    }
}

impl Options {
    /// Blocks that no scheme is given.
    pub fn blocks(&self, g: &Geometry) -> u32 {
        if self.on { Shape::of(g).area() } else { 0 }
    }

    /// The same of each die, at the most.
    pub fn blocks_of_die(&self, g: &Geometry) -> u32 {
        self.blocks(g).div_ceil(g.die_count())
    }

    /// Has the medium store `own` bytes of the scheme's own in every spare area, and an erase count if they are kept.
    /// To be said first of all in format and in mount.
    ///
    /// # Errors
    /// It stores none, or a spare area has no room.
    pub fn reserve<F: Flash>(&self, flash: &mut F, own: u32) -> Result<(), ConfigError> {
        if !self.on {
            return reserve(flash, own);
        }
        let (used, spare) = (RECOVERABLE_BYTES + own, flash.geometry().oob_bytes);
        if used + COUNT_BYTES > spare {
            return Err(ConfigError {
                key: WEAR_STATE.name,
                what: format!(
                    "an erase count takes {COUNT_BYTES} B of a spare area of {spare}, of which {used} are in use"
                ),
                fix: "use pages with more spare bytes, or wear-state=off".into(),
            });
        }
        reserve(flash, own + COUNT_BYTES)
    }
}

/// How large checkpoints of a device are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Shape {
    /// Pages of a checkpoint.
    pub(super) pages: u32,
    /// Blocks that it takes, in part or whole.
    pub(super) blocks: u32,
}

impl Shape {
    pub(super) fn of(g: &Geometry) -> Shape {
        let pages = g.block_count().div_ceil(g.entries_per_page());
        Shape { pages, blocks: pages.div_ceil(g.pages_per_block) }
    }

    /// Blocks of the area: room for two, and one that may be bad.
    fn area(&self) -> u32 {
        2 * self.blocks + 1
    }
}

/// The blocks of the area: the last one of each die, the one before it of each die, and so on.
pub(super) fn area(g: &Geometry) -> impl Iterator<Item = Block> + use<> {
    let g = *g;
    (0..Shape::of(&g).area()).map(move |i| {
        let die = g.die_count() - 1 - i % g.die_count();
        Block(g.blocks_of(Die(die)).end - 1 - i / g.die_count())
    })
}

/// Erases that no block has lived to see: what says so many was never written.
pub(super) const NEVER: u32 = 1 << 31;

/// The count that a page carries behind `own` bytes of the scheme's in what [`Flash::spare`] gives; 0 if it has none.
pub(super) fn count_in(spare: &[u8], own: u32) -> u32 {
    let at = own as usize;
    let count = spare.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |&bytes| u32::from_le_bytes(bytes));
    if count < NEVER { count } else { 0 }
}

/// See the module's description.
#[derive(Clone, Debug)]
pub(crate) struct WearState {
    /// Bytes of the scheme's own in a spare area, in front of the count.
    own_bytes: u32,
    /// What stands there on the page that is programmed next.
    own: Vec<u8>,
    /// A bit for each block: it was erased, and nothing was programmed since.
    untold: Vec<u64>,
    /// The blocks of the area: the one that is being filled, then the others in their turn.
    pub(super) area: Vec<Block>,
    /// Its next page.
    pub(super) next: u32,
    /// Erases that no finished checkpoint has.
    pub(super) since: u64,
    /// The number of the last finished checkpoint.
    pub(super) number: u64,
    /// After how many erases one is due.
    interval: u64,
}

impl WearState {
    /// For a device whose blocks were never erased; there is no area yet.
    pub(super) fn new(g: &Geometry, options: &Options) -> WearState {
        let blocks = g.block_count();
        let interval = if options.interval == 0 { blocks.into() } else { options.interval };
        let untold = vec![0; blocks.div_ceil(64) as usize];
        let (own, area) = (Vec::new(), Vec::new());
        WearState { own_bytes: 0, own, untold, area, next: 0, since: 0, number: 0, interval }
    }

    /// Bytes of the scheme's own in spare areas, in front of a count.
    pub(super) fn own_bytes(&self) -> u32 {
        self.own_bytes
    }

    /// The scheme keeps so many bytes of its own in front of a count.
    pub(super) fn keep_own(&mut self, bytes: u32) {
        self.own_bytes = bytes;
    }

    /// What the scheme keeps in the spare area of the page that is programmed next.
    pub(super) fn stage(&mut self, own: Vec<u8>) {
        debug_assert!(own.len() <= self.own_bytes as usize);
        self.own = own;
    }

    /// A block was erased.
    pub(super) fn erased(&mut self, block: Block) {
        self.untold[block.index() / 64] |= 1 << (block.index() % 64);
        self.since += 1;
    }

    /// While mounting: what flash has.
    pub(super) fn found(&mut self, census: &Census) {
        (self.since, self.number) = (self.since + census.erases_since, census.last_checkpoint());
    }

    /// The blocks of the area, the one that is entered next behind the first.
    pub(super) fn hold(&mut self, area: Vec<Block>, g: &Geometry) {
        (self.area, self.next) = (area, g.pages_per_block);
    }

    /// Blocks of the area.
    pub(super) fn blocks_held(&self) -> u32 {
        self.area.len() as u32
    }

    /// The first block of the area is lost. A checkpoint that was begun is begun again with the first of the `entered`
    /// blocks that it had entered, the lost one among them.
    pub(super) fn lose_block(&mut self, entered: usize, g: &Geometry) {
        self.area.remove(0);
        let count = self.area.len();
        self.area.rotate_right(entered.max(1).min(count));
        self.next = g.pages_per_block;
    }

    /// Whether a checkpoint is to be written.
    pub(super) fn is_due(&self) -> bool {
        self.since >= self.interval && !self.area.is_empty()
    }

    /// Page `to` is about to be programmed, in a block that was erased so often: stages its spare area, if anything is
    /// to stand there.
    pub(super) fn tell<F: Flash>(&mut self, flash: &mut F, to: Ppn, block: Block, erases: u32) {
        let (word, bit) = (block.index() / 64, 1 << (block.index() % 64));
        if self.untold[word] & bit == 0 && self.own.is_empty() {
            return;
        }
        let mut bytes = core::mem::take(&mut self.own);
        if self.untold[word] & bit != 0 {
            self.untold[word] &= !bit;
            bytes.resize(self.own_bytes as usize, 0);
            bytes.extend(erases.to_le_bytes());
        }
        flash.stage_spare(to, &bytes);
    }

    /// Controller RAM, bytes.
    pub(super) fn memory(&self) -> u64 {
        (self.untold.len() * 8 + self.area.len() * 4 + 4 + 1 + 4 + 8 + 8) as u64
    }

    /// Saves the state.
    pub(super) fn save(&self, out: &mut Saver) {
        self.untold.iter().for_each(|&word| out.u64(word));
        out.u32(self.area.len() as u32);
        self.area.iter().for_each(|block| out.u32(block.0));
        out.u32(self.own_bytes);
        out.u32(self.next);
        out.u64(self.since);
        out.u64(self.number);
    }

    /// Loads what [`WearState::save`] saved.
    pub(super) fn load(&mut self, from: &mut Loader<'_>) {
        self.untold.iter_mut().for_each(|word| *word = from.u64());
        self.area = (0..from.u32()).map(|_| Block(from.u32())).collect();
        self.own_bytes = from.u32();
        (self.next, self.since, self.number) = (from.u32(), from.u64(), from.u64());
    }
}

impl Supply {
    /// Whether a block is kept for checkpoints.
    pub(crate) fn is_of_checkpoints(&self, block: Block) -> bool {
        self.wear_state.as_ref().is_some_and(|state| state.area.contains(&block))
    }

    /// Writes all erase counts, to the block of the area whose turn it is, which is erased for that. False if the area
    /// has become too small.
    pub(super) fn renew_checkpoint<F: Flash>(&mut self, flash: &mut F) -> Outcome<F, bool> {
        let g = *flash.geometry();
        let Some(state) = &mut self.wear_state else { return Ok(false) };
        if state.area.len() < 2 * Shape::of(&g).blocks as usize {
            return Ok(false);
        }
        state.next = g.pages_per_block;
        self.checkpoint(flash).map(|()| true)
    }

    /// Writes all erase counts. If the area has become too small for that, nothing.
    #[cold]
    pub(super) fn checkpoint<F: Flash>(&mut self, flash: &mut F) -> Outcome<F> {
        let Some(mut state) = self.wear_state.take() else { return Ok(()) };
        let mut failed = Vec::new();
        let written = self.try_checkpoint(flash, &mut state, &mut failed);
        self.wear_state = Some(state);
        written?;
        failed.into_iter().try_for_each(|block| self.mark_bad(flash, block))
    }

    /// As [`Supply::checkpoint`]; the blocks that failed a program are to be marked bad.
    fn try_checkpoint<F: Flash>(
        &mut self,
        flash: &mut F,
        state: &mut WearState,
        failed: &mut Vec<Block>,
    ) -> Outcome<F> {
        let g = *flash.geometry();
        let (shape, words) = (Shape::of(&g), g.entries_per_page() as usize);
        'anew: loop {
            let mut entered = 0;
            for index in 0..shape.pages {
                // One that fits a block lies in one block.
                let together = if index == 0 { shape.pages } else { 1 };
                if state.next + together > g.pages_per_block {
                    entered += 1;
                    while !self.enter_next(flash, state, &shape)? {
                        if state.area.len() < 2 * shape.blocks as usize {
                            return Ok(());
                        }
                    }
                }
                let block = state.area[0];
                let to = g.page(block, state.next);
                state.next += 1;
                state.tell(flash, to, block, self.blocks.erase_counts()[block.index()]);
                let oob = Oob {
                    kind: Kind::Checkpoint,
                    mode: Mode::Normal,
                    address: index,
                    version: state.number + 1,
                    program: self.program,
                    mark: 0,
                };
                self.program += 1;
                let counts = self.blocks.erase_counts().chunks(words).nth(index as usize).expect("a page of counts");
                match flash.program(to, oob, Payload::Meta(counts), Cause::Metadata) {
                    Ok(()) => {}
                    Err(fault) if fault.kind() == FaultKind::ProgramFailed => {
                        failed.push(block);
                        state.lose_block(entered, &g);
                        if state.area.len() < 2 * shape.blocks as usize {
                            return Ok(());
                        }
                        continue 'anew;
                    }
                    Err(fault) => return Err(fault.into()),
                }
            }
            state.number += 1;
            state.since = 0;
            return Ok(());
        }
    }

    /// Goes on to the next block of the area, and erases it. False if that failed, and it is marked bad; then the area
    /// has a block less.
    fn enter_next<F: Flash>(&mut self, flash: &mut F, state: &mut WearState, shape: &Shape) -> Outcome<F, bool> {
        if state.area.len() < 2 * shape.blocks as usize {
            return Ok(false);
        }
        state.area.rotate_left(1);
        let block = state.area[0];
        match flash.erase(block, Cause::Metadata) {
            Ok(()) => {
                self.blocks.count_erase(block);
                state.erased(block);
                state.next = 0;
                Ok(true)
            }
            Err(fault) if fault.kind() == FaultKind::EraseFailed => {
                state.lose_block(0, flash.geometry());
                self.mark_bad(flash, block)?;
                Ok(false)
            }
            Err(fault) => Err(fault.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;
    use crate::parts::holdings::Holdings;
    use crate::parts::pool::Pool;
    use crate::parts::supply;
    use alloc::string::ToString;
    use flash::{CutPoint, Failing, FailurePlan, Fault, Full, Lpn, Nand, NoData, PowerCut, Rng};

    type Chip = PowerCut<Failing<Nand<NoData, Full>>>;

    fn settings(interval: &str) -> Settings {
        let mut settings = Settings::defaults(supply::GROUP.rows);
        [("wear-state", "on"), ("wear-checkpoint", interval), ("wear-levelling", "static")]
            .iter()
            .for_each(|(name, value)| settings.set(name, value).unwrap());
        settings
    }

    fn geometry(dies: u32, blocks: u32, pages_per_block: u32) -> Geometry {
        let g =
            Geometry { dies, blocks_per_die: blocks / dies, pages_per_block, page_bytes: 512, ..Geometry::default() };
        g.checked().unwrap()
    }

    /// A pool whose blocks hold a page each, erased and begun again at random.
    struct Run {
        flash: Chip,
        pool: Pool,
        settings: Settings,
        used: Vec<Block>,
        version: u64,
        rng: Rng,
    }

    impl Run {
        fn new(g: Geometry, plan: FailurePlan, interval: &str) -> Run {
            let settings = settings(interval);
            let mut flash = PowerCut::counting(Failing::new(Nand::new(g), plan, 1));
            let mut pool = Pool::new(g, &(&settings).into(), false);
            Options::from(&settings).reserve(&mut flash, 0).unwrap();
            pool.exclude_bad(&mut flash).unwrap();
            Run { flash, pool, settings, used: Vec::new(), version: 0, rng: Rng::new(3) }
        }

        fn step(&mut self) -> Result<(), Error<Fault>> {
            let Run { flash, pool, used, rng, .. } = self;
            let g = *flash.geometry();
            if used.len() < 6 {
                let block = pool.take(flash)?;
                self.version += 1;
                let to = g.page(block, 0);
                let oob = Oob::data(Lpn(block.0), self.version, pool.number_for(flash, to));
                match flash.program(to, oob, Payload::User(&()), Cause::Host) {
                    Ok(()) => used.push(block),
                    Err(fault) if fault.kind() == FaultKind::ProgramFailed => {
                        pool.fail(block);
                        pool.dispose(flash, block, Cause::DataGc)?;
                    }
                    Err(fault) => return Err(fault.into()),
                }
                return Ok(());
            }
            let block = used.swap_remove(rng.below(used.len() as u64) as usize);
            pool.dispose(flash, block, Cause::DataGc)
        }

        fn mount(&mut self) -> Result<(), Error<Fault>> {
            let g = *self.flash.geometry();
            self.pool = Pool::new(g, &(&self.settings).into(), false);
            let found = Holdings::take(&mut self.flash, self.pool.own_bytes(), g.block_count(), 0, true)?;
            self.pool.adopt(&found);
            self.version = found.census.max_version;
            let used = found.blocks_in_use(&g);
            self.used = (0..g.block_count()).map(Block).filter(|block| used[block.index()]).collect();
            Ok(())
        }

        fn counts(&self) -> Vec<u32> {
            self.pool.blocks.erase_counts().to_vec()
        }
    }

    #[test]
    fn the_area_is_the_end_of_the_dies_and_nobody_else_s() {
        let mut run = Run::new(geometry(2, 40, 8), FailurePlan::default(), "0");
        assert_eq!(area(run.flash.geometry()).map(|block| block.0).collect::<Vec<_>>(), [39, 19, 38]);
        assert_eq!(run.pool.free(), 37);
        let taken: Vec<u32> = core::iter::from_fn(|| run.pool.take(&mut run.flash).ok()).map(|block| block.0).collect();
        assert_eq!(taken.len(), 37);
        assert!([39, 19, 38].iter().all(|block| !taken.contains(block)));
        // 600 counts are five pages of 128: one block of eight pages, two of four.
        for (pages_per_block, blocks, area) in [(8, 1, 3), (4, 2, 5)] {
            let g = geometry(2, 600, pages_per_block);
            assert_eq!((Shape::of(&g).pages, Shape::of(&g).blocks, Shape::of(&g).area()), (5, blocks, area));
        }
    }

    /// Checkpoints of a page, of several in a block, and of more than a block; cuts at every kind of command.
    #[test]
    fn counts_survive_cuts_but_for_those_since_the_last_checkpoint() {
        for (blocks, pages_per_block, interval) in [(40, 8, 10u64), (600, 8, 40), (600, 4, 40)] {
            let mut run = Run::new(geometry(2, blocks, pages_per_block), FailurePlan::default(), &interval.to_string());
            let (mut most, mut numbers) = (0, Vec::new());
            for round in 0..400 {
                let point = CutPoint { command: run.rng.below(120), face: run.rng.below(4) as u8 };
                let seed = run.rng.bits();
                run.flash.arm(point, seed);
                let (mut before, mut used) = (run.counts(), run.used.clone());
                while run.step().is_ok() {
                    (before, used) = (run.counts(), run.used.clone());
                }
                run.flash.restart();
                run.mount().unwrap();
                let after = run.counts();
                let lost: u64 = before.iter().zip(&after).map(|(b, a)| u64::from(b.saturating_sub(*a))).sum();
                assert!(lost <= interval, "round {round}: {lost} lost");
                for block in used.iter().filter(|block| run.used.contains(block)) {
                    assert!(after[block.index()] >= before[block.index()], "block {block} holds its count");
                }
                most = lost.max(most);
                numbers.push(run.pool.wear_state.as_ref().unwrap().number);
            }
            assert!(most > 0, "a free block has forgotten an erase now and then");
            // A number comes again if nothing of an unfinished checkpoint is left.
            assert!(numbers[399] > 150, "{numbers:?}");
        }
    }

    /// A block of the area that fails is retired, and the others go on while there are enough; then none is written.
    #[test]
    fn blocks_of_the_area_may_fail() {
        for (blocks, pages_per_block) in [(40, 8), (600, 4)] {
            let plan = FailurePlan { program_rate: 0.004, erase_rate: 0.002, ..FailurePlan::default() };
            let g = geometry(1, blocks, pages_per_block);
            let mut run = Run::new(g, plan, "1");
            let least = 2 * Shape::of(&g).blocks as usize;
            let (mut sizes, mut numbers) = (Vec::new(), Vec::new());
            while sizes.last() != Some(&(least - 1)) || sizes[sizes.len() - 20] != least - 1 {
                run.step().unwrap();
                let state = run.pool.wear_state.as_ref().unwrap();
                sizes.push(state.area.len());
                numbers.push(state.number);
                let bad = |block: &Block| run.pool.blocks.is_bad(*block);
                assert!(!state.area.iter().any(bad));
                assert!(area(&g).all(|block| bad(&block) || state.area.contains(&block)), "no block is nobody's");
            }
            let with = |size: usize| sizes.iter().zip(&numbers).filter(move |(of, _)| **of == size);
            let written = with(least).next_back().unwrap().1 - with(least).next().unwrap().1;
            assert!(written > 1, "with one block less checkpoints are written");
            assert_eq!(with(least - 1).next_back(), with(least - 1).next(), "with two less none is");
            // What the last one has is found all the same.
            let before = run.counts();
            run.mount().unwrap();
            assert!(run.counts().iter().sum::<u32>() * 2 > before.iter().sum::<u32>());
        }
    }

    #[test]
    fn a_spare_area_without_room_is_refused() {
        let g = Geometry { oob_bytes: 24, ..geometry(1, 40, 8) };
        let mut chip = Nand::<NoData, Full>::new(g);
        let options = Options { on: true, interval: 0 };
        let refusal = options.reserve(&mut chip, 1).unwrap_err();
        assert_eq!(refusal.to_string().find("an erase count takes 4 B of a spare area of 24, of which 21"), Some(12));
        assert_eq!(options.reserve(&mut chip, 0), Ok(()));
        assert_eq!(chip.reserved_spare(), 4);
    }
}

//! Wear levelling: which block is too little worn, and must give up its data for others to wear it.
//!
//! Pages that nobody overwrites keep their block from being erased, while the other blocks take all the wear. Every
//! form of static wear levelling moves such data on now and then; the forms differ in how they find it.
//!
//! - `swap` (eNVy; the ROSE thesis, section 3.3): when the most worn block is more than `wear-threshold` erases ahead
//!   of the least worn one, the data of the latter go into the former. Cold data rest in worn blocks. The block that
//!   was just erased, and is free, takes the most worn one's part if it is as far ahead.
//! - `static` (MQSim): when the most worn block is `wear-threshold` erases ahead or more, the least worn block is
//!   collected, wherever its pages then go.
//! - `bet` (Chang, Hsieh and Kuo, DAC 2007): a bit for each set of 2^k blocks says whether one of them was erased in
//!   this round. When there were `bet-threshold` erases for each bit that is set, the next set without a bit is
//!   collected, in cyclic order. When all bits are set, a new round begins. No counts are compared.
//!
//! This part only decides. It is told of every erase, and is asked when nothing is being collected: at most one block
//! is named after an erase, and none after an erase that wear levelling itself did, for that may leave the gap as it
//! was and would call for another. What a block has to be to be moved is the caller's to say; a block that cannot be
//! moved is passed over for the next colder one, a few times.
//!
//! # Cost
//!
//! RAM: for `swap` and `static` the blocks in the order of wear, 8 B each (a place in the order for every block, and
//! the block in every place; erase counts only grow by one, so a firmware exchanges two places with each erase); for
//! `bet` a bit for each set. Here an ordered set: an erase costs O(log n).

use crate::{Dependence, Loader, Parameter, Saver, Settings};
use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;
use flash::{Block, Cause};

/// `wear-levelling`: whether and how cold data are moved.
pub const WEAR_LEVELLING: Parameter = Parameter::word("wear-levelling", "off", &["off", "swap", "static", "bet"])
    .text(
        "How cold data are moved so that their blocks wear too. swap: into the most worn block. static: out of the \
         least worn block. bet: out of sets of blocks without an erase. Moves cost copies.",
    )
    .source("swap: {envy} and {rose}, section 3.3; static: MQSim; bet: {bet}");

/// `wear-threshold`: how far the wear of blocks may differ.
pub(crate) const WEAR_THRESHOLD: Parameter = Parameter::count("wear-threshold", 0, 0..=1_000_000)
    .unit("erases")
    .text(
        "Difference in erases between the most and the least worn block at which swap and static act. Less evens out \
         wear more and copies more. 0 stands for 10 with swap and for 100 with static.",
    )
    .source("{rose}, section 5.6; MQSim");

/// `bet-k`: size of the sets of `bet`.
pub(crate) const BET_K: Parameter = Parameter::count("bet-k", 0, 0..=16)
    .text("bet keeps one bit for each set of 2^k blocks. More takes less RAM and overlooks more cold blocks.")
    .source("{bet}");

/// `bet-threshold`: when `bet` acts.
pub(crate) const BET_THRESHOLD: Parameter = Parameter::count("bet-threshold", 100, 1..=1_000_000)
    .unit("erases")
    .text("Erases of a round, for each bit that is set, at which bet acts. Less evens out wear more and copies more.")
    .source("{bet}");

/// Which wear levelling it is to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// `wear-levelling`.
    pub mode: WearMode,
    /// `wear-threshold`, or the mode's own.
    pub threshold: u32,
    /// `bet-k`.
    pub bet_k: u32,
    /// `bet-threshold`.
    pub bet_threshold: u64,
}

impl From<&Settings> for Options {
    fn from(settings: &Settings) -> Options {
        let (mode, usual) = match settings.word(&WEAR_LEVELLING) {
            "swap" => (WearMode::Swap, 10),
            "static" => (WearMode::Static, 100),
            "bet" => (WearMode::Bet, 0),
            _ => (WearMode::Off, 0),
        };
        let threshold = match settings.small(&WEAR_THRESHOLD) {
            0 => usual,
            given => given,
        };
        Options { mode, threshold, bet_k: settings.small(&BET_K), bet_threshold: settings.count(&BET_THRESHOLD) }
    }
}

/// What is read in which mode.
pub(crate) const DEPENDENCES: [Dependence; 2] = [
    Dependence { parameters: &[WEAR_THRESHOLD.name], on: WEAR_LEVELLING.name, words: &["swap", "static"] },
    Dependence { parameters: &[BET_K.name, BET_THRESHOLD.name], on: WEAR_LEVELLING.name, words: &["bet"] },
];

/// Blocks that are passed over after one erase because they cannot be moved, at the most: those that are free or open
/// are few, and those of dies that are busy are spread over all others.
const MOST_PASSED_OVER: usize = 256;

/// A block's place among equally worn ones, its number scattered: neighbours are mostly of one die, and if that is busy
/// they can all not be moved.
fn place(block: Block) -> u32 {
    block.0.wrapping_mul(0x9e37_79b1)
}

/// The block of a place: the two factors are inverse to each other.
fn block_at(place: u32) -> Block {
    Block(place.wrapping_mul(0x0e8b_2f51))
}

/// Which form of wear levelling.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum WearMode {
    /// None.
    #[default]
    Off,
    /// Cold data go into the most worn block.
    Swap,
    /// The least worn block is collected.
    Static,
    /// Sets of blocks without an erase are collected.
    Bet,
}

/// What is to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Task {
    /// The block whose data are to go elsewhere, and which is then to be erased.
    pub cold: Block,
    /// The block that they are to go to, in mode `swap`: the block that was erased last, if it is worn enough itself,
    /// else the most worn one.
    pub worn: Option<Block>,
}

/// See the module's description. The default is none.
#[derive(Clone, Default, Debug)]
pub struct Wear {
    mode: WearMode,
    threshold: u32,
    /// The block that was erased last and its erases, if nobody asked since.
    erased: Option<(Block, u32)>,
    /// Blocks in service by erase count and place; empty unless counts are compared.
    order: BTreeSet<(u32, u32)>,
    bet: Bet,
}

/// The block erasing table.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
struct Bet {
    k: u32,
    threshold: u64,
    blocks: u32,
    bits: Vec<u64>,
    /// Bits that are set.
    set: u32,
    /// Erases in this round.
    erases: u64,
    /// The block from which the search goes on; within a set, that set is being emptied.
    at: u32,
}

impl Bet {
    fn sets(&self) -> u32 {
        self.blocks.div_ceil(1 << self.k)
    }

    fn has(&self, set: u32) -> bool {
        self.bits[set as usize / 64] >> (set % 64) & 1 == 1
    }

    fn mark(&mut self, set: u32) {
        self.set += u32::from(!self.has(set));
        self.bits[set as usize / 64] |= 1 << (set % 64);
    }

    fn erased(&mut self, block: Block) {
        self.erases += 1;
        self.mark(block.0 >> self.k);
    }

    /// The next set without a bit, from `set` on and then from the first.
    fn next_without(&self, set: u32) -> Option<u32> {
        let sets = self.sets();
        let zeros = |word: usize| {
            let valid = sets - word as u32 * 64;
            !self.bits[word] & if valid < 64 { (1 << valid) - 1 } else { u64::MAX }
        };
        let first = (set / 64) as usize;
        let ahead = zeros(first) & (u64::MAX << (set % 64));
        let words = core::iter::once((first, ahead));
        let rest = (first + 1..self.bits.len()).chain(0..=first).map(|word| (word, zeros(word)));
        words.chain(rest).find(|&(_, zeros)| zeros != 0).map(|(word, zeros)| word as u32 * 64 + zeros.trailing_zeros())
    }

    /// The next block to be moved. A set is marked when its turn comes, also if it has nothing to move: the round goes
    /// on.
    fn cold(&mut self, mut eligible: impl FnMut(Block) -> bool) -> Option<Block> {
        let size = 1 << self.k;
        for _ in 0..MOST_PASSED_OVER {
            if self.at.is_multiple_of(size) {
                if self.set == self.sets() {
                    self.bits.fill(0);
                    (self.set, self.erases) = (0, 0);
                }
                if self.set == 0 || self.erases < self.threshold * u64::from(self.set) {
                    return None;
                }
                let set = self.next_without(self.at >> self.k)?;
                self.mark(set);
                self.at = set << self.k;
            }
            let block = Block(self.at);
            self.at += 1;
            if self.at == self.blocks {
                self.at = 0;
            }
            if eligible(block) {
                return Some(block);
            }
        }
        None
    }
}

impl Wear {
    /// For a device of so many blocks that were never erased.
    pub fn new(options: &Options, block_count: u32) -> Wear {
        let Options { mode, threshold, bet_k: k, bet_threshold } = *options;
        let mut wear = Wear { mode, threshold, ..Wear::default() };
        match mode {
            WearMode::Swap | WearMode::Static => {
                wear.order = (0..block_count).map(|block| (0, place(Block(block)))).collect()
            }
            WearMode::Bet => {
                let words = block_count.div_ceil(1 << k).div_ceil(64) as usize;
                wear.bet =
                    Bet { k, threshold: bet_threshold, blocks: block_count, bits: vec![0; words], ..Bet::default() };
            }
            WearMode::Off => {}
        }
        wear
    }

    /// While mounting: how often each block was erased, where flash tells. Those that are out of service do not count.
    pub fn know(&mut self, erases: &[u32], is_out: impl Fn(Block) -> bool) {
        if matches!(self.mode, WearMode::Swap | WearMode::Static) {
            let counts = erases.iter().zip(0..).filter(|&(_, block)| !is_out(Block(block)));
            self.order = counts.map(|(&count, block)| (count, place(Block(block)))).collect();
        }
    }

    /// Which form it is.
    #[inline(always)]
    pub fn mode(&self) -> WearMode {
        self.mode
    }

    /// A block was erased, and has so many erases now. To be told whatever the erase was for.
    #[inline]
    pub fn erased(&mut self, block: Block, erases: u32, cause: Cause) {
        if self.mode != WearMode::Off {
            self.note(block, erases, cause);
        }
    }

    #[cold]
    fn note(&mut self, block: Block, erases: u32, cause: Cause) {
        if self.mode == WearMode::Bet {
            self.bet.erased(block);
        } else {
            self.order.remove(&(erases - 1, place(block)));
            self.order.insert((erases, place(block)));
        }
        self.erased = (cause != Cause::WearLevelling).then_some((block, erases));
    }

    /// A block with so many erases went out of service.
    pub fn retired(&mut self, block: Block, erases: u32) {
        self.order.remove(&(erases, place(block)));
        self.erased = self.erased.filter(|&(erased, _)| erased != block);
    }

    /// Whether a block was erased since [`Wear::task`] was asked last.
    #[inline(always)]
    pub fn is_due(&self) -> bool {
        self.erased.is_some()
    }

    /// What is to be done after the last erase, if anything is. `eligible` says of a block whether its data can be
    /// moved: it holds some, and nothing is being done with it.
    pub fn task(&mut self, eligible: impl FnMut(Block) -> bool) -> Option<Task> {
        let (erased, erases) = self.erased.take()?;
        if self.mode == WearMode::Bet {
            return self.bet.cold(eligible).map(|cold| Task { cold, worn: None });
        }
        let &(most, last) = self.order.last()?;
        // Swap acts beyond its threshold, static from it on.
        let beyond = self.threshold + u32::from(self.mode == WearMode::Swap);
        let (least, cold) = self.coldest(most.checked_sub(beyond)?, eligible)?;
        let worn = if erases >= least + beyond { erased } else { block_at(last) };
        Some(Task { cold, worn: (self.mode == WearMode::Swap).then_some(worn) })
    }

    /// The least worn block among those with at most so many erases that can be moved, and its erases.
    fn coldest(&self, most: u32, mut eligible: impl FnMut(Block) -> bool) -> Option<(u32, Block)> {
        let cold = self.order.range(..=(most, u32::MAX)).take(MOST_PASSED_OVER);
        cold.map(|&(erases, place)| (erases, block_at(place))).find(|&(_, block)| eligible(block))
    }

    /// Controller RAM, bytes.
    pub fn memory(&self) -> u64 {
        match self.mode {
            WearMode::Off => 0,
            WearMode::Swap | WearMode::Static => self.order.len() as u64 * 8 + 4,
            WearMode::Bet => u64::from(self.bet.sets().div_ceil(8)) + 4 + 8 + 4,
        }
    }

    /// Saves the state. The order of wear follows from the erase counts.
    pub fn save(&self, out: &mut Saver) {
        if self.mode == WearMode::Off {
            return;
        }
        out.u32(self.erased.map_or(u32::MAX, |(block, _)| block.0));
        if self.mode == WearMode::Bet {
            out.u64(self.bet.erases);
            out.u32(self.bet.at);
            for byte in 0..self.bet.sets().div_ceil(8) as usize {
                out.u8((self.bet.bits[byte / 8] >> (byte % 8 * 8)) as u8);
            }
        }
    }

    /// Loads what [`Wear::save`] saved into a new one; `erases` are the counts of all blocks, of which some are out of
    /// service.
    pub fn load(&mut self, erases: &[u32], is_out: impl Fn(Block) -> bool, from: &mut Loader<'_>) {
        if self.mode == WearMode::Off {
            return;
        }
        let erased = Some(from.u32()).filter(|&block| block != u32::MAX).map(Block);
        self.erased = erased.map(|block| (block, erases[block.index()]));
        if self.mode == WearMode::Bet {
            self.bet.erases = from.u64();
            self.bet.at = from.u32();
            for byte in 0..self.bet.sets().div_ceil(8) as usize {
                self.bet.bits[byte / 8] |= u64::from(from.u8()) << (byte % 8 * 8);
            }
            self.bet.set = self.bet.bits.iter().map(|word| word.count_ones()).sum();
        }
        self.know(erases, is_out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flash::Rng;

    fn options(pairs: &[(&str, &str)]) -> Options {
        let mut settings = Settings::defaults(&[WEAR_LEVELLING, WEAR_THRESHOLD, BET_K, BET_THRESHOLD]);
        pairs.iter().for_each(|(name, value)| settings.set(name, value).unwrap());
        Options::from(&settings)
    }

    fn wear(blocks: u32, pairs: &[(&str, &str)]) -> (Wear, Vec<u32>) {
        (Wear::new(&options(pairs), blocks), vec![0; blocks as usize])
    }

    fn erase(wear: &mut Wear, counts: &mut [u32], block: u32, cause: Cause) {
        counts[block as usize] += 1;
        wear.erased(Block(block), counts[block as usize], cause);
    }

    #[test]
    fn worked_example_of_the_specification() {
        let (mut wear, mut counts) = wear(2, &[("wear-levelling", "swap"), ("wear-threshold", "2")]);
        for erases in 1..=3 {
            erase(&mut wear, &mut counts, 1, Cause::DataGc);
            let task = wear.task(|block| block == Block(0));
            assert_eq!(task, (erases == 3).then_some(Task { cold: Block(0), worn: Some(Block(1)) }));
        }
        assert_eq!(wear.task(|_| true), None, "one answer for an erase");
        erase(&mut wear, &mut counts, 0, Cause::WearLevelling);
        assert_eq!((wear.is_due(), wear.task(|_| true)), (false, None));
        assert_eq!(counts, [1, 3]);
        erase(&mut wear, &mut counts, 0, Cause::DataGc);
        assert_eq!(wear.task(|_| true), None, "the gap is no more than the threshold");
    }

    #[test]
    fn every_place_is_one_block_s() {
        for block in (0..1000).chain([655_359, u32::MAX - 1]).map(Block) {
            assert_eq!(block_at(place(block)), block);
        }
        // Of four dies of 1000 blocks the first places are of all.
        let mut order: Vec<Block> = (0..4000).map(Block).collect();
        order.sort_by_key(|&block| place(block));
        assert!((0..4).all(|die| order[..32].iter().any(|block| block.0 / 1000 == die)));
    }

    #[test]
    fn off_is_never_due() {
        let (mut wear, mut counts) = wear(2, &[]);
        (0..1000).for_each(|_| erase(&mut wear, &mut counts, 1, Cause::DataGc));
        assert_eq!((wear.is_due(), wear.task(|_| true), wear.memory()), (false, None, 0));
    }

    #[test]
    fn thresholds_by_mode() {
        for (mode, threshold, first) in
            [("swap", "0", 11), ("static", "0", 100), ("swap", "3", 4), ("static", "3", 3), ("bet", "0", 100)]
        {
            let (mut wear, mut counts) = wear(2, &[("wear-levelling", mode), ("wear-threshold", threshold)]);
            let due = |wear: &mut Wear| wear.task(|block| block == Block(0)).is_some();
            let at = (1..).find(|_| {
                erase(&mut wear, &mut counts, 1, Cause::DataGc);
                due(&mut wear)
            });
            assert_eq!(at, Some(first), "{mode} {threshold}");
        }
    }

    #[test]
    fn the_most_and_the_least_worn_are_those_that_a_search_finds() {
        for seed in 0..20 {
            let mut rng = Rng::new(seed);
            let blocks = 1 + rng.below(30) as u32;
            let (mut wear, mut counts) = wear(blocks, &[("wear-levelling", "swap"), ("wear-threshold", "1")]);
            let mut bad = vec![false; blocks as usize];
            for _ in 0..400 {
                let block = rng.below(blocks.into()).min(rng.below(blocks.into())) as u32;
                if bad[block as usize] {
                    continue;
                }
                erase(&mut wear, &mut counts, block, Cause::Host);
                if rng.chance(0.02) {
                    wear.retired(Block(block), counts[block as usize]);
                    bad[block as usize] = true;
                    assert!(!wear.is_due());
                    continue;
                }
                if rng.chance(0.1) {
                    let options = options(&[("wear-levelling", "swap"), ("wear-threshold", "1")]);
                    let mut saver = Saver::default();
                    wear.save(&mut saver);
                    let bytes = saver.finish();
                    let mut loader = Loader::new(&bytes);
                    wear = Wear::new(&options, blocks);
                    wear.load(&counts, |block| bad[block.index()], &mut loader);
                    assert!(loader.is_done());
                }
                let odd = rng.below(2) as u32;
                let eligible = |block: u32| !bad[block as usize] && (block + odd).is_multiple_of(2);
                let used = || (0..blocks).filter(|&block| !bad[block as usize]);
                let cold = used()
                    .filter(|&block| eligible(block))
                    .min_by_key(|&block| (counts[block as usize], place(Block(block))));
                let last = used().max_by_key(|&block| (counts[block as usize], place(Block(block)))).unwrap();
                let gap = |worn: u32, cold: u32| counts[worn as usize].saturating_sub(counts[cold as usize]);
                let expected = cold.filter(|&cold| gap(last, cold) > 1).map(|cold| {
                    let worn = if gap(block, cold) > 1 { block } else { last };
                    Task { cold: Block(cold), worn: Some(Block(worn)) }
                });
                assert_eq!(wear.task(|block| eligible(block.0)), expected);
            }
        }
    }

    #[test]
    fn bet_takes_the_sets_without_an_erase_in_cyclic_order() {
        let (mut wear, mut counts) = wear(5, &[("wear-levelling", "bet"), ("bet-threshold", "2")]);
        let mut moved = Vec::new();
        for _ in 0..18 {
            erase(&mut wear, &mut counts, 2, Cause::DataGc);
            if let Some(task) = wear.task(|_| true) {
                assert_eq!(task.worn, None);
                moved.push((counts[2], task.cold.0));
                erase(&mut wear, &mut counts, task.cold.0, Cause::WearLevelling);
            }
        }
        // Two erases for the first bit, four for two (of which wear levelling did one), …; after the fifth bit the
        // table is cleared, and the search goes on behind the last set.
        assert_eq!(
            moved,
            [(2, 0), (3, 1), (4, 3), (5, 4), (8, 0), (9, 1), (10, 3), (11, 4), (14, 0), (15, 1), (16, 3), (17, 4)]
        );
    }

    #[test]
    fn bet_empties_a_set_block_by_block_and_passes_over_what_cannot_be_moved() {
        let (mut wear, mut counts) = wear(10, &[("wear-levelling", "bet"), ("bet-threshold", "1"), ("bet-k", "2")]);
        let mut moved = Vec::new();
        for _ in 0..8 {
            erase(&mut wear, &mut counts, 5, Cause::DataGc);
            moved.extend(wear.task(|block| ![0, 9].contains(&block.0)).map(|task| task.cold.0));
        }
        // Sets 0 and 2 are left of the round, of two blocks the latter. The fifth erase finds nothing to move and ends
        // the round; in the next one only the set of the erases has a bit.
        assert_eq!(moved, [1, 2, 3, 8, 1, 2, 3]);
    }

    #[test]
    fn a_table_is_saved_in_what_it_reports() {
        let pairs = [("wear-levelling", "bet"), ("bet-threshold", "3"), ("bet-k", "1")];
        let (mut wear, mut counts) = wear(133, &pairs);
        let mut rng = Rng::new(3);
        for _ in 0..2000 {
            erase(&mut wear, &mut counts, rng.below(90) as u32, Cause::DataGc);
            let mut saver = Saver::default();
            wear.save(&mut saver);
            let bytes = saver.finish();
            assert!(bytes.len() as u64 <= wear.memory());
            let mut again = Wear::new(&options(&pairs), 133);
            let mut loader = Loader::new(&bytes);
            again.load(&counts, |_| false, &mut loader);
            assert!(loader.is_done());
            assert_eq!((&again.bet, again.erased), (&wear.bet, wear.erased));
            assert_eq!(again.task(|_| true), wear.task(|_| true));
        }
    }
}

//! Which block to collect: victim policies, one file each, and their table.
//!
//! A policy picks among the candidates of a range of blocks: closed blocks with at least one dead page (`fifo`: all
//! closed blocks). Ties go to the lowest block number. Ages count host page writes, for schemes have no clock.

mod cat;
mod cicl;
mod cost_benefit;
mod d_choices;
mod fifo;
mod greedy;
mod random;

pub(crate) use greedy::fewest_live;

use crate::blocks::Blocks;
use crate::{Dependence, Parameter, Settings};
use alloc::boxed::Box;
use core::fmt::Debug;
use core::ops::Range;
use flash::{Block, Rng};

/// `gc`: which block to collect.
pub(crate) const POLICY: Parameter = Parameter::word("gc", "greedy", NAMES)
    .text(
        "Policy that names the block to collect. It decides how many live pages are copied and how evenly blocks \
         wear.",
    )
    .source("{rose}, section 2.3; MQSim");

/// `gc-choices`: how many candidates d-choices draws.
pub(crate) const CHOICES: Parameter = Parameter::count("gc-choices", 0, 0..=1 << 27)
    .unit("blocks")
    .text(
        "Candidates that d-choices draws. 1 is random, all blocks is greedy; more copy less and search longer. 0 \
         stands for the binary logarithm of the blocks, at least 2.",
    )
    .source("MQSim");

/// `gc-lambda`: how CICL weighs wear.
pub(crate) const LAMBDA: Parameter = Parameter::real("gc-lambda", 0.0, 0.0..=1.0)
    .text(
        "Weight of wear against live pages in cicl. 1 looks at wear alone. 0 stands for a weight that grows with the \
         spread of wear.",
    )
    .source("{rose}, section 2.3");

/// `gc-wear-spread`: at which spread CICL's rule makes the weight one half.
pub(crate) const WEAR_SPREAD: Parameter = Parameter::real("gc-wear-spread", 10.0, 0.001..=1e9)
    .unit("erases")
    .text(
        "Difference between the most and the least erased block at which cicl weighs wear by one half. Less evens out \
         wear sooner and copies more.",
    )
    .source("reconstructed");

/// `gc-dead-share`: what random looks at.
pub(crate) const DEAD_SHARE: Parameter = Parameter::real("gc-dead-share", 0.0, 0.0..=1.0)
    .text(
        "Share of a block's pages that must be dead for random to take the block, while there is such a block. More \
         copies less.",
    )
    .source("MQSim");

/// What is read by which policy.
pub(crate) const DEPENDENCES: [Dependence; 3] = [
    Dependence { parameters: &[CHOICES.name], on: POLICY.name, words: &["d-choices"] },
    Dependence { parameters: &[LAMBDA.name, WEAR_SPREAD.name], on: POLICY.name, words: &["cicl"] },
    Dependence { parameters: &[DEAD_SHARE.name], on: POLICY.name, words: &["random"] },
];

/// A policy, and what the policies are told.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// `gc`.
    pub policy: &'static GcRow,
    /// `gc-choices`.
    pub choices: u64,
    /// `gc-lambda`.
    pub lambda: f64,
    /// `gc-wear-spread`.
    pub wear_spread: f64,
    /// `gc-dead-share`.
    pub dead_share: f64,
}

impl From<&Settings> for Options {
    fn from(settings: &Settings) -> Options {
        Options {
            policy: settings
                .added(POLICY.name)
                .or_else(|| by_name(settings.word(&POLICY)))
                .expect("the word was validated against the table"),
            choices: settings.count(&CHOICES),
            lambda: settings.real(&LAMBDA),
            wear_spread: settings.real(&WEAR_SPREAD),
            dead_share: settings.real(&DEAD_SHARE),
        }
    }
}

/// Picks victims.
pub trait GcPolicy: Debug {
    /// The victim among the candidates of `among`; `None` if there is no candidate.
    fn pick(&mut self, blocks: &Blocks, among: Range<u32>) -> Option<Block>;

    /// A copy of the policy with its state.
    fn boxed(&self) -> Box<dyn GcPolicy + Send>;

    /// The policy's randomness, if it has any: its whole state.
    fn rng(&mut self) -> Option<&mut Rng> {
        None
    }
}

/// A policy's row.
#[derive(Clone, Copy, Debug)]
pub struct GcRow {
    /// Name on the command line.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// Whether it needs the ages of blocks.
    pub ages: bool,
    /// Makes it, from the run's randomness.
    pub make: fn(Rng, &Options) -> Box<dyn GcPolicy + Send>,
}

/// All policies.
pub const POLICIES: &[GcRow] =
    &[greedy::ROW, cost_benefit::ROW, cat::ROW, cicl::ROW, fifo::ROW, random::ROW, d_choices::ROW];

/// Their names, for parameter ranges.
pub const NAMES: &[&str] = &["greedy", "cost-benefit", "cat", "cicl", "fifo", "random", "d-choices"];

/// Has `gc` stand for a policy that is in no table, which a program brings along.
///
/// # Panics
/// If the scheme of these settings has no parameter `gc`: a bug.
pub fn plug(settings: &mut Settings, row: &'static GcRow) {
    settings.put_added(POLICY.name, row.name, row);
}

/// The row of this name.
pub(crate) fn by_name(name: &str) -> Option<&'static GcRow> {
    POLICIES.iter().find(|row| row.name == name)
}

/// CAT's score of a block: utilisation, age since its last erase and erase count. The least is the victim.
pub(crate) fn cat_score(u: f64, age: f64, erases: u32) -> f64 {
    cat::score(u, age, erases)
}

/// The candidate of the least score.
fn least_by(blocks: &Blocks, among: Range<u32>, mut score: impl FnMut(u32) -> f64) -> Option<Block> {
    let mut best: Option<(f64, u32)> = None;
    for block in among.filter(|&block| blocks.is_candidate(block)) {
        let score = score(block);
        if best.is_none_or(|(least, _)| score < least) {
            best = Some((score, block));
        }
    }
    best.map(|(_, block)| Block(block))
}

/// Live pages as a share of the block.
fn utilisation(blocks: &Blocks, block: u32) -> f64 {
    f64::from(blocks.live_of(Block(block))) / f64::from(blocks.geometry().pages_per_block)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks::FreeOrder;
    use alloc::vec::Vec;
    use flash::{Geometry, Ppn};

    /// The specification's three blocks of four pages: X (block 0: 1 live, age 10, 5 erases), Y (1: 2, 100, 1) and
    /// Z (2: 3, 400, 2), opened in the order Z, Y, X.
    fn three() -> Blocks {
        let g = Geometry { blocks_per_die: 3, pages_per_block: 4, ..Geometry::default() }.checked().unwrap();
        let mut blocks = Blocks::new(g, FreeOrder::Fifo, true);
        for (block, erases) in [(2, 2), (1, 1), (0, 5)] {
            blocks.open_block(Block(block)).unwrap();
            (0..erases).for_each(|_| blocks.count_erase(Block(block)));
        }
        assert_eq!(blocks.erase_counts(), [5, 1, 2]);
        for (block, live, modified) in [(2, 3, 0), (1, 2, 300), (0, 1, 390)] {
            blocks.clock = modified;
            blocks.close(Block(block));
            for offset in live..4 {
                blocks.kill(Ppn(block * 4 + offset));
            }
        }
        blocks.clock = 400;
        blocks
    }

    const PARAMETERS: &[Parameter] = &[POLICY, CHOICES, LAMBDA, WEAR_SPREAD, DEAD_SHARE];

    fn defaults() -> Options {
        Options::from(&Settings::defaults(PARAMETERS))
    }

    fn pick_with(name: &str, parameter: &str, value: &str) -> u32 {
        let mut settings = Settings::defaults(PARAMETERS);
        settings.set(parameter, value).unwrap();
        let mut policy = (by_name(name).unwrap().make)(Rng::new(5), &Options::from(&settings));
        policy.pick(&three(), 0..3).unwrap().0
    }

    fn pick(name: &str) -> u32 {
        let mut policy = (by_name(name).unwrap().make)(Rng::new(1), &defaults());
        policy.pick(&three(), 0..3).unwrap().0
    }

    #[test]
    fn worked_example_of_the_specification() {
        let (x, y, z) = (0, 1, 2);
        assert_eq!(pick("greedy"), x);
        assert_eq!(pick("cost-benefit"), z);
        assert_eq!(pick("fifo"), z);
        // Erase ages all start at 0 here, so CAT's time since reclamation is set through its own test.
        for (lambda, expected) in [("0.1", x), ("0.5", y), ("0.9", y)] {
            assert_eq!(pick_with("cicl", "gc-lambda", lambda), expected, "lambda {lambda}");
        }
        let blocks = three();
        let scores: Vec<f64> =
            (0..3).map(|block| cost_benefit::score(blocks.live_of(Block(block)), 4, blocks.age(block))).collect();
        assert_eq!(scores[0], 15.0);
        assert_eq!(scores[1], 50.0);
        assert!((scores[2] - 200.0 / 3.0).abs() < 1e-9);
        let cat = [(1, 10.0, 5), (2, 100.0, 1), (3, 400.0, 2)]
            .map(|(live, age, e)| cat::score(f64::from(live) / 4.0, age, e));
        assert!((cat[0] - 1.0 / 6.0).abs() < 1e-9 && (cat[1] - 0.01).abs() < 1e-9 && (cat[2] - 0.015).abs() < 1e-9);
    }

    #[test]
    fn every_policy_picks_candidates_only_and_none_when_there_is_none() {
        for row in POLICIES {
            let mut policy = (row.make)(Rng::new(3), &defaults());
            for _ in 0..50 {
                let block = policy.pick(&three(), 0..3).unwrap();
                assert!(three().is_candidate(block.0));
            }
            assert_eq!(policy.pick(&three(), 1..1), None, "{}", row.name);
            let g = *three().geometry();
            assert_eq!(policy.pick(&Blocks::new(g, FreeOrder::Fifo, true), 0..3), None, "{}", row.name);
        }
    }

    #[test]
    fn a_policy_that_a_program_brings_along_is_made_as_one_of_the_table() {
        static OWN: GcRow = GcRow { name: "own", summary: "as fifo", source: "this test", ..fifo::ROW };
        let mut settings = Settings::defaults(PARAMETERS);
        plug(&mut settings, &OWN);
        assert_eq!(settings.get("gc"), Some(crate::Value::Word("own")));
        let options = Options::from(&settings.clone());
        assert_eq!((options.policy.make)(Rng::new(1), &options).pick(&three(), 0..3), Some(Block(2)));
        settings.set("gc", "greedy").unwrap();
        assert_eq!(Options::from(&settings).policy.name, "greedy");
    }

    #[test]
    fn as_many_choices_as_blocks_is_greedy() {
        assert_eq!(pick_with("d-choices", "gc-choices", "3"), 0);
    }

    #[test]
    fn random_takes_a_block_that_is_dead_enough_if_there_is_one() {
        // X has three dead pages of four, Y two, Z one.
        assert_eq!(pick_with("random", "gc-dead-share", "0.75"), 0);
        assert!((0..3).contains(&pick_with("random", "gc-dead-share", "1")));
    }

    #[test]
    fn the_rule_of_cicl_weighs_wear_as_its_spread_says() {
        // Erase counts differ by 4: a spread of almost nothing makes wear count alone, a huge one live pages alone.
        let (x, y) = (0, 1);
        assert_eq!(pick_with("cicl", "gc-wear-spread", "0.001"), y);
        assert_eq!(pick_with("cicl", "gc-wear-spread", "1e9"), x);
    }

    #[test]
    fn the_table_describes_itself() {
        let names: Vec<&str> = POLICIES.iter().map(|row| row.name).collect();
        assert_eq!(names, NAMES);
        for row in POLICIES {
            assert!(!row.summary.is_empty() && !row.source.is_empty());
            assert_eq!(names.iter().filter(|&&name| name == row.name).count(), 1);
        }
    }
}

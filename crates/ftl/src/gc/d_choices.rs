//! d-choices (randomised greedy): the best of a few candidates drawn at random.
//!
//! `d` is `gc-choices`, or the logarithm to base two of the number of blocks, as in MQSim, and at least 2. With d = 1
//! this is random, with all blocks it is greedy.

use super::{GcPolicy, GcRow, random};
use crate::blocks::Blocks;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;
use flash::{Block, Rng};

pub(super) const ROW: GcRow = GcRow {
    name: "d-choices",
    summary: "fewest live pages among log2(blocks) candidates drawn at random",
    source: "MQSim (RGA)",
    ages: false,
    make: |rng, options| {
        let choices = options.choices;
        Box::new(DChoices { choices: (choices > 0).then_some(choices as u32), rng })
    },
};

/// See the module's description.
#[derive(Debug)]
struct DChoices {
    /// How many candidates to draw; `None` for the rule.
    choices: Option<u32>,
    rng: Rng,
}

impl GcPolicy for DChoices {
    fn pick(&mut self, blocks: &Blocks, among: Range<u32>) -> Option<Block> {
        let rule = || (among.len() as u32).max(4).ilog2();
        let choices = (self.choices.unwrap_or_else(rule) as usize).min(among.len());
        let mut drawn: Vec<u32> = Vec::with_capacity(choices);
        // Without replacement: repeats are drawn again, for a bounded number of times.
        for _ in 0..8 * choices {
            if drawn.len() == choices {
                break;
            }
            let block = random::candidate(blocks, among.clone(), &mut self.rng)?.0;
            if !drawn.contains(&block) {
                drawn.push(block);
            }
        }
        drawn.into_iter().min_by_key(|&block| (blocks.live_of(Block(block)), block)).map(Block)
    }

    fn boxed(&self) -> Box<dyn GcPolicy + Send> {
        Box::new(DChoices { choices: self.choices, rng: self.rng.clone() })
    }
    fn rng(&mut self) -> Option<&mut Rng> {
        Some(&mut self.rng)
    }
}

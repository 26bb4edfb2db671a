//! The chains of the pages of the present request, command by command.

use crate::Cause;
use alloc::vec::Vec;

/// A command of a page's chain, or a wait of the chain for a collection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) cause: Cause,
    pub(super) die: u32,
    /// The command before it in its chain: its number, from 1 on.
    pub(super) before: u32,
    /// When its chain had got so far, when it started, and when it ended, ns.
    pub(super) ready_ns: u64,
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    /// Its time in the cells and on the channel, ns. For the rest its channel's backlog held it back.
    pub(super) own_ns: u64,
    /// The backlog of its channel before it, ns.
    pub(super) channel_ns: u64,
}

/// See the module's description.
#[derive(Clone, Debug, Default)]
pub(super) struct Chains {
    steps: Vec<Step>,
    /// When the page ended that ends last, ns, and its last command.
    last: (u64, u32),
}

impl Chains {
    /// A request arrives.
    #[inline(always)]
    pub(super) fn clear(&mut self) {
        self.steps.clear();
        self.last = (0, 0);
    }

    /// A command of a page's chain; its number.
    #[inline(always)]
    pub(super) fn step(&mut self, step: Step) -> u32 {
        self.steps.push(step);
        self.steps.len() as u32
    }

    /// The die of a step; of none, which is as early as a page's chain begins, any.
    pub(super) fn die_of(&self, number: u32) -> u32 {
        self.steps.get((number as usize).wrapping_sub(1)).map_or(0, |step| step.die)
    }

    /// A page's chain, which had got so far by step `before`, waits for a collection whose last command ends on this
    /// die then: what the die works for meanwhile is what it waits for. The number of the step.
    pub(super) fn wait(&mut self, (before, ready_ns): (u32, u64), (die, end_ns): (u32, u64)) -> u32 {
        let (cause, start_ns, own_ns, channel_ns) = (Cause::Host, end_ns, 0, 0);
        self.step(Step { cause, die, before, ready_ns, start_ns, end_ns, own_ns, channel_ns })
    }

    /// A page ends, by this command. Of pages that end together the first counts.
    #[inline(always)]
    pub(super) fn page_end(&mut self, end_ns: u64, step: u32) {
        if end_ns > self.last.0 {
            self.last = (end_ns, step);
        }
    }

    /// The chain of the page that ends last, from its end to its beginning.
    pub(super) fn last(&self) -> impl Iterator<Item = &Step> {
        let step = |number: u32| self.steps.get((number as usize).wrapping_sub(1));
        core::iter::successors(step(self.last.1), move |before| step(before.before))
    }
}

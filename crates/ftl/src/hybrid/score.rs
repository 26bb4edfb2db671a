//! What cleaning each log block would cost, kept up to date as pages come and die: merge-aware round robin (MARO).
//!
//! The score of log block i is its age times a weight, less what it costs to merge the n logical blocks that have a
//! live page in it (the ROSE thesis, equations 2 to 5):
//!
//! ```text
//!   score(i) = age(i) · W_age − Σ_j (lpc_j + α · dpc_j) · C_copy − (n + 1) · C_erase
//! ```
//!
//! lpc is the number of live pages in the data block of j, and dpc that of its live pages in the log area. The victim
//! is the log block of the largest score. Each change of a logical block takes its term off the scores of the log
//! blocks that it has pages in and adds the new one; ages grow by lowering what a new block starts with. All numbers
//! are whole: nanoseconds times hundredths of α.
//!
//! The largest score is found as the thesis's hardware finds it: log blocks are clusters of 64, each change refreshes
//! the maximum of its cluster, and a cleaning compares the maxima. Where only log blocks of a kind may be cleaned, it
//! also looks into clusters, which no count tells.

use super::log::{NONE, Slot, Slots};
use super::parameters::Victims;
use crate::{Loader, Saver};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use flash::{Block, Geometry, Ppn};

/// Hundredths of α.
const UNIT: i64 = 100;
/// Log blocks of a cluster.
const CLUSTER: usize = 64;

/// A score that no log block has.
const LEAST: i64 = i64::MIN;

/// How much work the scores were.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Effort {
    /// Scores changed.
    pub updates: u64,
    /// Scores looked at to find a cluster's new maximum.
    pub refreshed: u64,
    /// Cluster maxima compared by cleanings.
    pub compared: u64,
}

/// A logical block and what it has in the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Logged<'a> {
    /// The device's shape.
    pub g: &'a Geometry,
    /// The log blocks.
    pub slots: &'a Slots,
    /// Where each of its pages lies in the log; [`NONE`] if it does not.
    pub places: &'a [u32],
    /// Live pages of its data block.
    pub data: u32,
    /// Live pages in the log.
    pub log: u32,
}

impl<'a> Logged<'a> {
    fn slot_of(&self, ppn: u32) -> Slot {
        self.slots.of(self.g.block_of(Ppn(ppn))).expect("the log map names log blocks")
    }

    /// The log block of each of its pages in the log.
    fn slots(self) -> impl Iterator<Item = Slot> + use<'a> {
        let logged = self.places.iter().filter(|&&ppn| ppn != NONE).take(self.log as usize);
        logged.map(move |&ppn| self.slot_of(ppn))
    }
}

/// See the module's description.
#[derive(Clone, Debug)]
pub struct Scores {
    copy_ns: i64,
    erase_ns: i64,
    age_ns: i64,
    alpha: i64,
    /// What a log block that is begun now starts with.
    initial: i64,
    scores: Vec<i64>,
    /// Whether a log block may be cleaned.
    closed: Vec<bool>,
    /// Physical block of each slot: the lowest wins among equals.
    blocks: Vec<u32>,
    /// The best slot of each cluster, or [`Slot::NONE`].
    best: Vec<Slot>,
    /// The round in which each slot was last met; means nothing between rounds.
    met: Vec<u32>,
    round: u32,
    /// How much work it was.
    pub effort: Effort,
}

impl Scores {
    /// As the policy asks; `None` for policies that need no scores.
    pub(crate) fn new(victims: &Victims, slots: u32) -> Option<Scores> {
        // The cheapest merge is the score without age, every copy counting in full.
        let (age_us, alpha) = match victims.policy {
            "maro" => (victims.age_us, victims.alpha),
            "cheapest" => (0.0, 1.0),
            _ => return None,
        };
        let ns = |us: f64| libm_round(us * 1000.0);
        let count = slots as usize;
        Some(Scores {
            copy_ns: ns(victims.copy_us),
            erase_ns: ns(victims.erase_us),
            age_ns: ns(age_us),
            alpha: libm_round(alpha * UNIT as f64),
            initial: 0,
            scores: vec![LEAST; count],
            closed: vec![false; count],
            blocks: vec![NONE; count],
            best: vec![Slot::NONE; count.div_ceil(CLUSTER)],
            met: vec![0; count],
            round: 0,
            effort: Effort::default(),
        })
    }

    /// What merging a logical block takes off a score: pages live in its data block, and in the log.
    pub(crate) fn term(&self, data: u32, log: u32) -> i64 {
        -(i64::from(data) * UNIT + i64::from(log) * self.alpha) * self.copy_ns - self.erase_ns * UNIT
    }

    /// The score of a log block.
    pub fn get(&self, slot: Slot) -> i64 {
        self.scores[slot.index()]
    }

    /// The age of a log block, in erases, if merging all that is in it takes so much off its score.
    #[cfg(test)]
    pub(crate) fn age(&self, slot: Slot, terms: i64) -> i64 {
        (self.get(slot) - terms + self.erase_ns * UNIT - self.initial) / (self.age_ns * UNIT)
    }

    /// A log block is begun.
    pub(crate) fn begin(&mut self, slot: Slot, block: Block) {
        let slot = slot.index();
        if slot >= self.scores.len() {
            self.scores.resize(slot + 1, LEAST);
            self.closed.resize(slot + 1, false);
            self.blocks.resize(slot + 1, NONE);
            self.met.resize(slot + 1, 0);
            self.best.resize((slot + 1).div_ceil(CLUSTER), Slot::NONE);
        }
        self.scores[slot] = self.initial - self.erase_ns * UNIT;
        self.blocks[slot] = block.0;
    }

    /// As if a log block had been begun `erases` erases ago: ages after a mount.
    pub(crate) fn set_age(&mut self, slot: Slot, erases: u64) {
        self.scores[slot.index()] += self.age_ns * UNIT * erases as i64;
    }

    /// A log block may be cleaned.
    pub(crate) fn close(&mut self, slot: Slot) {
        self.closed[slot.index()] = true;
        self.raise(slot);
    }

    /// Another block takes over the part of a closed log block.
    pub(crate) fn rename(&mut self, slot: Slot, to: Block) {
        self.blocks[slot.index()] = to.0;
        self.refresh(slot.index() / CLUSTER);
    }

    /// A log block is none any more.
    pub(crate) fn remove(&mut self, slot: Slot) {
        self.scores[slot.index()] = LEAST;
        self.closed[slot.index()] = false;
        self.blocks[slot.index()] = NONE;
        self.refresh_if_best(slot);
    }

    /// A log block was erased: all others are older by one.
    pub(crate) fn erased(&mut self) {
        self.initial -= self.age_ns * UNIT;
    }

    /// Changes a score.
    #[inline]
    fn add(&mut self, slot: Slot, change: i64) {
        self.scores[slot.index()] += change;
        self.effort.updates += 1;
        if !self.closed[slot.index()] {
            return;
        }
        if change > 0 {
            self.raise(slot);
        } else {
            self.refresh_if_best(slot);
        }
    }

    /// Adds what merging a logical block costs to the scores of the log blocks that it has pages in, or takes it off.
    pub(crate) fn add_terms(&mut self, of: Logged<'_>, sign: i64) {
        if of.log == 0 {
            return;
        }
        let term = sign * self.term(of.data, of.log);
        self.new_round();
        for slot in of.slots() {
            if self.is_first(slot) {
                self.add(slot, term);
            }
        }
    }

    /// A page of a logical block is about to enter log block `to`, from place `from` in the log, or out of its data
    /// block if `leaves_data`: changes the scores as taking the terms off and adding the new ones would, with one look
    /// at what the logical block has in the log. Where a page leaves the log for another place there, most scores stay
    /// as they are.
    pub(crate) fn enter_log(&mut self, of: Logged<'_>, from: Option<Ppn>, leaves_data: bool, to: Slot) {
        let from = from.map_or(Slot::NONE, |ppn| of.slot_of(ppn.0));
        let before = self.term(of.data, of.log);
        let after = self.term(of.data - u32::from(leaves_data), of.log + u32::from(from == Slot::NONE));
        let (mut in_from, mut in_to) = (0, 0);
        self.new_round();
        for slot in of.slots() {
            in_from += u32::from(slot == from);
            in_to += u32::from(slot == to);
            if before != after && slot != from && slot != to && self.is_first(slot) {
                self.add(slot, after - before);
            }
        }
        let change = if in_to > 0 { after - before } else { after };
        if change != 0 {
            self.add(to, change);
        }
        if from != Slot::NONE && from != to && in_from == 1 {
            self.add(from, -before);
        }
    }

    fn key(&self, slot: Slot) -> (i64, core::cmp::Reverse<u32>) {
        (self.scores[slot.index()], core::cmp::Reverse(self.blocks[slot.index()]))
    }

    #[inline]
    fn raise(&mut self, slot: Slot) {
        let cluster = slot.index() / CLUSTER;
        let best = self.best[cluster];
        if best == Slot::NONE || self.key(slot) > self.key(best) {
            self.best[cluster] = slot;
        }
    }

    #[inline]
    fn refresh_if_best(&mut self, slot: Slot) {
        let cluster = slot.index() / CLUSTER;
        if self.best[cluster] == slot {
            self.refresh(cluster);
        }
    }

    /// The closed log blocks of a cluster.
    fn closed_in(&self, cluster: usize) -> impl Iterator<Item = Slot> + '_ {
        let first = cluster * CLUSTER;
        let slots = first..(first + CLUSTER).min(self.scores.len());
        slots.filter(|&slot| self.closed[slot]).map(|slot| Slot(slot as u32))
    }

    /// The best of them, or [`Slot::NONE`].
    fn best_in(&self, cluster: usize) -> Slot {
        self.closed_in(cluster).max_by_key(|&slot| self.key(slot)).unwrap_or(Slot::NONE)
    }

    fn refresh(&mut self, cluster: usize) {
        self.effort.refreshed += CLUSTER.min(self.scores.len() - cluster * CLUSTER) as u64;
        self.best[cluster] = self.best_in(cluster);
    }

    /// The best log block of each cluster that has a closed one.
    fn maxima(&self) -> impl Iterator<Item = Slot> + '_ {
        self.best.iter().copied().filter(|&slot| slot != Slot::NONE)
    }

    /// The closed log block of the largest score.
    pub(crate) fn best(&mut self) -> Option<Slot> {
        self.effort.compared += self.best.len() as u64;
        self.best_of(|_| true)
    }

    /// The closed log block of the largest score among those of a kind. A cluster whose maximum is of another kind is
    /// looked through, unless a better one of the kind is known by then.
    pub(crate) fn best_of(&self, is_of_kind: impl Fn(Slot) -> bool) -> Option<Slot> {
        let best = self.maxima().filter(|&slot| is_of_kind(slot)).max_by_key(|&slot| self.key(slot));
        self.maxima().filter(|&slot| !is_of_kind(slot)).fold(best, |best, rival| {
            if best.is_some_and(|best| self.key(best) > self.key(rival)) {
                return best;
            }
            let closed = self.closed_in(rival.index() / CLUSTER).filter(|&slot| is_of_kind(slot));
            best.into_iter().chain(closed).max_by_key(|&slot| self.key(slot))
        })
    }

    /// Begins a round in which each slot is met once.
    #[inline]
    fn new_round(&mut self) {
        self.round = self.round.wrapping_add(1);
        if self.round == 0 {
            self.met.fill(0);
            self.round = 1;
        }
    }

    /// Whether a slot is met for the first time in this round.
    #[inline]
    fn is_first(&mut self, slot: Slot) -> bool {
        core::mem::replace(&mut self.met[slot.index()], self.round) != self.round
    }

    /// Bytes of RAM: a score and a flag for each log block, the cluster maxima, and for each log page its logical block
    /// in the association lists of both sides.
    pub(crate) fn memory(&self, pages_per_block: u32) -> u64 {
        let slots = self.scores.len() as u64;
        slots * 13 + self.best.len() as u64 * 4 + 8 + slots * u64::from(pages_per_block) * 8
    }

    /// Saves the scores.
    pub(crate) fn save(&self, out: &mut Saver) {
        out.u64(self.initial as u64);
        out.u32(self.scores.len() as u32);
        for slot in (0..self.scores.len()).filter(|&slot| self.blocks[slot] != NONE) {
            out.u64(self.scores[slot] as u64);
            out.u8(u8::from(self.closed[slot]));
        }
    }

    /// Loads what [`Scores::save`] saved.
    pub(crate) fn load(&mut self, from: &mut Loader<'_>, slots: &Slots) {
        self.initial = from.u64() as i64;
        let count = from.u32() as usize;
        self.scores.resize(count, LEAST);
        self.closed.resize(count, false);
        self.blocks.resize(count, NONE);
        self.met.resize(count, 0);
        self.best.resize(count.div_ceil(CLUSTER), Slot::NONE);
        for (slot, entry) in slots.iter() {
            self.blocks[slot.index()] = entry.block;
            self.scores[slot.index()] = from.u64() as i64;
            self.closed[slot.index()] = from.u8() == 1;
            if self.closed[slot.index()] {
                self.raise(slot);
            }
        }
    }

    /// Compares every score with equation 5, ages aside, and every cluster with its maximum. `terms` adds up the terms
    /// of the logical blocks that have pages in a log block.
    pub(crate) fn audit(&self, slots: &Slots, terms: impl Fn(Slot) -> i64) -> Result<(), String> {
        for (slot, entry) in slots.iter() {
            let (closed, block) = (self.closed[slot.index()], self.blocks[slot.index()]);
            if block != entry.block || closed != slots.is_closed(slot) {
                return Err(format!("log block {} has its score as block {block}, closed: {closed}", entry.block));
            }
            let terms = terms(slot);
            let age = self.scores[slot.index()] - terms + self.erase_ns * UNIT - self.initial;
            let whole = self.age_ns == 0 || age % (self.age_ns * UNIT) == 0;
            if age < 0 || !whole || (self.age_ns == 0 && age != 0) {
                return Err(format!("the score of log block {} is off by {age}", entry.block));
            }
        }
        for (cluster, &best) in self.best.iter().enumerate() {
            let expected = self.best_in(cluster);
            if best != expected {
                return Err(format!("cluster {cluster} has its maximum in {expected:?}, and {best:?} is noted"));
            }
        }
        Ok(())
    }
}

/// Rounds a number that is not negative.
fn libm_round(x: f64) -> i64 {
    (x + 0.5) as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use flash::Rng;

    /// Whatever scores, kinds and closed log blocks there are: as if each had been looked at.
    #[test]
    fn the_best_of_a_kind_is_found_in_whatever_cluster_it_is() {
        let victims =
            Victims { policy: "maro", age_us: 1.0, alpha: 1.0, copy_us: 1.0, erase_us: 1.0, keeps_ages: false };
        let mut rng = Rng::new(7);
        let mut met = 0;
        for kinds in [1, 2, 40] {
            let count = 5 * CLUSTER as u32 + 3;
            let mut scores = Scores::new(&victims, count).unwrap();
            let mut kind_of = vec![0; count as usize];
            for slot in 0..count {
                scores.begin(Slot(slot), Block(count - slot));
                scores.set_age(Slot(slot), rng.below(50));
                kind_of[slot as usize] = rng.below(kinds);
                // One cluster has no closed log block.
                if slot as usize / CLUSTER != 2 && rng.chance(0.7) {
                    scores.close(Slot(slot));
                }
            }
            for change in 0..count {
                match Slot(rng.below(count.into()) as u32) {
                    slot if scores.get(slot) == LEAST => {}
                    slot if change % 4 == 0 => scores.remove(slot),
                    slot if change % 4 == 1 => scores.rename(slot, Block(count + change)),
                    slot => scores.add(slot, rng.below(4000) as i64 - 2000),
                }
            }
            // The last kind has none.
            for kind in 0..=kinds {
                let of_kind = |slot: Slot| kind_of[slot.index()] == kind;
                let closed = (0..count).map(Slot).filter(|&slot| scores.closed[slot.index()] && of_kind(slot));
                let best = closed.max_by_key(|&slot| scores.key(slot));
                assert_eq!(scores.best_of(of_kind), best, "kind {kind} of {kinds}");
                met += usize::from(best.is_some_and(|best| !scores.best.contains(&best)));
            }
        }
        assert!(met > 10, "{met} of them are no maximum of their cluster");
    }
}

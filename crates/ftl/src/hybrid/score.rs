//! What cleaning each log block would cost, kept up to date as pages come and die: merge-aware round robin (MARO).
//!
//! The score of log block i is its age times a weight, less what it costs to merge the n logical blocks that have a
//! live page in it (S2, equations 2 to 5):
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
//! the maximum of its cluster, and a cleaning compares the maxima.

use super::core::Core;
use super::log::{NONE, Slot, Slots};
use crate::{Loader, Saver, Settings};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use flash::Block;

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
    /// The best slot of each cluster, or [`NONE`].
    best: Vec<Slot>,
    /// The round in which each slot was last met; means nothing between rounds.
    met: Vec<u32>,
    round: u32,
    /// How much work it was.
    pub effort: Effort,
}

impl Scores {
    /// As the settings ask; `None` for policies that need no scores.
    pub(super) fn from_settings(settings: &Settings, slots: u32) -> Option<Scores> {
        settings.get("log-victim")?;
        // The cheapest merge is the score without age, every copy counting in full.
        let (age_us, alpha) = match settings.word("log-victim") {
            "maro" => (settings.real("maro-age"), settings.real("maro-alpha")),
            "cheapest" => (0.0, 1.0),
            _ => return None,
        };
        let ns = |us: f64| libm_round(us * 1000.0);
        let count = slots as usize;
        Some(Scores {
            copy_ns: ns(settings.real("copy-us")),
            erase_ns: ns(settings.real("erase-us")),
            age_ns: ns(age_us),
            alpha: libm_round(alpha * UNIT as f64),
            initial: 0,
            scores: vec![LEAST; count],
            closed: vec![false; count],
            blocks: vec![NONE; count],
            best: vec![NONE; count.div_ceil(CLUSTER)],
            met: vec![0; count],
            round: 0,
            effort: Effort::default(),
        })
    }

    /// What merging a logical block takes off a score: pages live in its data block, and in the log.
    pub(super) fn term(&self, data: u32, log: u32) -> i64 {
        -(i64::from(data) * UNIT + i64::from(log) * self.alpha) * self.copy_ns - self.erase_ns * UNIT
    }

    /// The score of a log block.
    pub fn get(&self, slot: Slot) -> i64 {
        self.scores[slot as usize]
    }

    /// A log block is begun.
    pub(super) fn begin(&mut self, slot: Slot, block: Block) {
        let slot = slot as usize;
        if slot >= self.scores.len() {
            self.scores.resize(slot + 1, LEAST);
            self.closed.resize(slot + 1, false);
            self.blocks.resize(slot + 1, NONE);
            self.met.resize(slot + 1, 0);
            self.best.resize((slot + 1).div_ceil(CLUSTER), NONE);
        }
        self.scores[slot] = self.initial - self.erase_ns * UNIT;
        self.blocks[slot] = block.0;
    }

    /// As if a log block had been begun `erases` erases ago: ages after a mount.
    pub(super) fn set_age(&mut self, slot: Slot, erases: u64) {
        self.scores[slot as usize] += self.age_ns * UNIT * erases as i64;
    }

    /// A log block may be cleaned.
    pub(super) fn close(&mut self, slot: Slot) {
        self.closed[slot as usize] = true;
        self.raise(slot);
    }

    /// Another block takes over the part of a closed log block.
    pub(super) fn rename(&mut self, slot: Slot, to: Block) {
        self.blocks[slot as usize] = to.0;
        self.refresh(slot as usize / CLUSTER);
    }

    /// A log block is none any more.
    pub(super) fn remove(&mut self, slot: Slot) {
        self.scores[slot as usize] = LEAST;
        self.closed[slot as usize] = false;
        self.blocks[slot as usize] = NONE;
        self.refresh_if_best(slot);
    }

    /// A log block was erased: all others are older by one.
    pub(super) fn erased(&mut self) {
        self.initial -= self.age_ns * UNIT;
    }

    /// Changes a score.
    #[inline]
    pub(super) fn add(&mut self, slot: Slot, change: i64) {
        self.scores[slot as usize] += change;
        self.effort.updates += 1;
        if !self.closed[slot as usize] {
            return;
        }
        if change > 0 {
            self.raise(slot);
        } else {
            self.refresh_if_best(slot);
        }
    }

    fn key(&self, slot: Slot) -> (i64, core::cmp::Reverse<u32>) {
        (self.scores[slot as usize], core::cmp::Reverse(self.blocks[slot as usize]))
    }

    #[inline]
    fn raise(&mut self, slot: Slot) {
        let cluster = slot as usize / CLUSTER;
        let best = self.best[cluster];
        if best == NONE || self.key(slot) > self.key(best) {
            self.best[cluster] = slot;
        }
    }

    #[inline]
    fn refresh_if_best(&mut self, slot: Slot) {
        let cluster = slot as usize / CLUSTER;
        if self.best[cluster] == slot {
            self.refresh(cluster);
        }
    }

    fn refresh(&mut self, cluster: usize) {
        let first = cluster * CLUSTER;
        let range = first..(first + CLUSTER).min(self.scores.len());
        self.effort.refreshed += range.len() as u64;
        let closed = range.filter(|&slot| self.closed[slot]).map(|slot| slot as Slot);
        self.best[cluster] = closed.max_by_key(|&slot| self.key(slot)).unwrap_or(NONE);
    }

    /// The closed log block of the largest score.
    pub(super) fn best(&mut self) -> Option<Slot> {
        self.effort.compared += self.best.len() as u64;
        self.best.iter().copied().filter(|&slot| slot != NONE).max_by_key(|&slot| self.key(slot))
    }

    /// Begins a round in which each slot is met once.
    #[inline]
    pub(super) fn new_round(&mut self) {
        self.round = self.round.wrapping_add(1);
        if self.round == 0 {
            self.met.fill(0);
            self.round = 1;
        }
    }

    /// Whether a slot is met for the first time in this round.
    #[inline]
    pub(super) fn is_first(&mut self, slot: Slot) -> bool {
        core::mem::replace(&mut self.met[slot as usize], self.round) != self.round
    }

    /// Bytes of RAM: a score and a flag for each log block, the cluster maxima, and for each log page its logical block
    /// in the association lists of both sides.
    pub(super) fn memory(&self, pages_per_block: u32) -> u64 {
        let slots = self.scores.len() as u64;
        slots * 13 + self.best.len() as u64 * 4 + 8 + slots * u64::from(pages_per_block) * 8
    }

    /// Saves the scores.
    pub(super) fn save(&self, out: &mut Saver) {
        out.u64(self.initial as u64);
        out.u32(self.scores.len() as u32);
        for slot in (0..self.scores.len()).filter(|&slot| self.blocks[slot] != NONE) {
            out.u64(self.scores[slot] as u64);
            out.u8(u8::from(self.closed[slot]));
        }
    }

    /// Loads what [`Scores::save`] saved.
    pub(super) fn load(&mut self, from: &mut Loader<'_>, slots: &Slots) {
        self.initial = from.u64() as i64;
        let count = from.u32() as usize;
        self.scores.resize(count, LEAST);
        self.closed.resize(count, false);
        self.blocks.resize(count, NONE);
        self.met.resize(count, 0);
        self.best.resize(count.div_ceil(CLUSTER), NONE);
        for (slot, entry) in slots.iter() {
            self.blocks[slot as usize] = entry.block;
            self.scores[slot as usize] = from.u64() as i64;
            self.closed[slot as usize] = from.u8() == 1;
            if self.closed[slot as usize] {
                self.raise(slot);
            }
        }
    }

    /// Compares every score with equation 5, ages aside, and every cluster with its maximum.
    pub(super) fn audit(&self, core: &Core) -> Result<(), String> {
        for (slot, entry) in core.slots.iter() {
            let terms: i64 = core
                .logical_blocks_in(slot)
                .into_iter()
                .map(|lbn| {
                    let live = core.data_block(lbn).map_or(0, |block| core.blocks.live_of(block));
                    self.term(live, u32::from(core.logged[lbn as usize]))
                })
                .sum();
            let age = self.scores[slot as usize] - terms + self.erase_ns * UNIT - self.initial;
            let whole = self.age_ns == 0 || age % (self.age_ns * UNIT) == 0;
            if age < 0 || !whole || (self.age_ns == 0 && age != 0) {
                return Err(format!("the score of log block {} is off by {age}", entry.block));
            }
        }
        for (cluster, &best) in self.best.iter().enumerate() {
            let first = cluster * CLUSTER;
            let closed = (first..(first + CLUSTER).min(self.scores.len())).filter(|&slot| self.closed[slot]);
            let expected = closed.max_by_key(|&slot| self.key(slot as Slot)).map_or(NONE, |slot| slot as Slot);
            if best != expected {
                return Err(format!("cluster {cluster} has its maximum in slot {expected}, and {best} is noted"));
            }
        }
        Ok(())
    }
}

/// Rounds a number that is not negative.
fn libm_round(x: f64) -> i64 {
    (x + 0.5) as i64
}

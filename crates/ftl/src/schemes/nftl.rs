//! `nftl`: chains of replacement blocks.
//!
//! The problem: under a block map, a page whose place is taken forces the rewriting of its whole logical block. NFTL
//! (Ban's patents) puts the page into a *replacement block* of the logical block instead, at the same place; if that is
//! taken too, into the next one, until the chain has all the replacement blocks that it may have. Then it is *folded*:
//! the newest version of each page is brought into one block, and the others are erased. No page map is needed: a page
//! is in the last block of its chain that has its place programmed.
//!
//! ```text
//!   logical block ──▶ [primary] ──▶ [replacement 1] ──▶ … ──▶ [replacement K]
//!     page at o ─────────▶ o ─ taken ───▶ o ─ taken ─▶ … ─ taken ─▶ fold: all in one block
//! ```
//!
//! # Structures
//!
//! RAM: 4 B for each logical block; for each replacement block 40 B (block, logical block, next of its chain, links of
//! the order of use, and what every log block has); 2 bits for each physical page, the page states. `mode = log` needs,
//! for each page of a replacement block, 4 B for what it holds and 4 B in the table that finds it. Flash: kind (data or
//! log), LPN, version and program number in every spare area.
//!
//! # Costs
//!
//! A write is a program, a read a read. Folding a chain of L replacement blocks copies the v live pages of the logical
//! block and erases L + 1 blocks. If the last block of the chain can take what it lacks, it is the one they are brought
//! into (`fold-in-place`): only what it lacks is copied, and L blocks are erased. In the table of counters that is a
//! partial merge, a switch merge if nothing was lacking, and the folds into another block are full merges.
//!
//! # Choices
//!
//! `replacements` is K. `mode = log` is the other way of using a replacement block, which the literature on log blocks
//! starts from: one for each logical block, whatever K is, filled in the order of writing. When no replacement block is
//! left, the longest chain is folded, among equals that written longest ago.
//!
//! # Departures
//!
//! Chains were made for chips that take a block's pages in any order. On others a page goes to the first block of its
//! chain in which its place lies above all programmed ones, with padding where the chip wants it; random writes fold
//! chains that are nearly empty then. The order of a chain is not stored: version numbers say which page is newest, and
//! that of the program numbers is the order of the blocks. Blocks of a chain found by a mount take no further page
//! until the chain is folded. Walks along a chain read no spare areas, for the page states are in RAM. Two blocks are
//! kept free, for recovery.

use crate::hybrid::{
    Area, Core, Hybrid, MERGE_COUNTERS, Merge, Strategy, Write, erase_obsolete, log::Slot, parameters, rows::Queues,
};
use crate::{ConfigError, Error, Loader, Outcome, Parameter, Saver, Scheme, Settings};
use alloc::vec;
use alloc::vec::Vec;
use flash::{Cause, Flash, Kind, Lbn};

/// The longest chain that may be asked for.
const LONGEST: usize = 8;

const MODE: Parameter = Parameter::word("mode", "chain", &["chain", "log"])
    .text(
        "Where pages of a replacement block stand. chain: in their own place. log: in the order of writing, so that \
         each block is used up.",
    )
    .source("chain: {nftl}; log: the literature on log blocks");

const REPLACEMENTS: Parameter = Parameter::count("replacements", 1, 1..=(LONGEST as u64))
    .unit("blocks")
    .text(
        "Replacement blocks that a chain may have (K) before it is folded. More delay folds and make look-ups longer. \
         Mode log has one.",
    )
    .source("{dftl}, table 2 (1:K)");

const FOLD_IN_PLACE: Parameter = Parameter::switch("fold-in-place", true)
    .text(
        "Fold a chain into its last block, if that can take what it lacks. On saves copies; off always folds into a \
         free block.",
    )
    .source("ftlab");

const COUNTERS: &[(&str, &str)] = &[
    ("folds_of_1", "chains folded with one replacement block"),
    ("folds_of_2", "with two"),
    ("folds_of_3", "with three"),
    ("folds_of_4", "with four"),
    ("folds_of_5", "with five"),
    ("folds_of_6", "with six"),
    ("folds_of_7", "with seven"),
    ("folds_of_8", "with eight"),
    ("forced_folds", "of all these, such that were folded because another chain needed a block"),
];

/// The row.
pub(super) static ROW: Scheme = Scheme {
    name: "nftl",
    summary: "block map with chains of replacement blocks",
    paper: "{nftl} and US patent 5937425, 1999; cited by {scftl}, {rose} and {dftl}",
    essay: include_str!("nftl.rs"),
    own: &[parameters::LOG_BLOCKS, MODE, REPLACEMENTS, FOLD_IN_PLACE],
    counters: &[MERGE_COUNTERS, COUNTERS],
    ..parameters::ROW
};

/// The scheme.
pub type Nftl = Hybrid<Chains>;

/// See the module's description.
#[derive(Clone, Debug)]
pub struct Chains {
    own_places: bool,
    most: usize,
    fold_in_place: bool,
    /// The first replacement block of each logical block.
    first: Vec<Slot>,
    /// The one after each.
    next: Vec<Slot>,
    /// Logical blocks with replacement blocks, by their number less one, the longest unwritten in front.
    by_length: Queues,
    folds: [u64; LONGEST],
    forced: u64,
}

impl Chains {
    /// The replacement blocks of a logical block.
    fn chain(&self, lbn: Lbn) -> impl Iterator<Item = Slot> + '_ {
        let some = |slot: Slot| (slot != Slot::NONE).then_some(slot);
        core::iter::successors(some(self.first[lbn.index()]), move |&slot| some(self.next[slot.index()]))
    }

    fn length(&self, lbn: Lbn) -> usize {
        self.chain(lbn).count()
    }

    /// Gives a logical block these replacement blocks.
    fn set(&mut self, lbn: Lbn, slots: &[Slot]) {
        let most = slots.iter().copied().max().map_or(0, |slot| slot.index() + 1);
        self.next.resize(self.next.len().max(most), Slot::NONE);
        self.first[lbn.index()] = slots.first().copied().unwrap_or(Slot::NONE);
        for (place, &slot) in slots.iter().enumerate() {
            self.next[slot.index()] = slots.get(place + 1).copied().unwrap_or(Slot::NONE);
        }
        self.touch(lbn);
    }

    fn touch(&mut self, lbn: Lbn) {
        match self.length(lbn) {
            0 => self.by_length.remove(lbn),
            length => self.by_length.push(length as u32 - 1, lbn),
        }
    }

    /// Where a replacement block takes this page, if it does.
    fn place(&self, core: &Core, slot: Slot, offset: u32) -> Option<u32> {
        let block = core.slots.block(slot);
        if self.own_places {
            core.is_writable(block, offset).then_some(offset)
        } else {
            core.next_writable(block, core.slots.get(slot).next)
        }
    }

    /// Brings the pages of a chain into one block.
    fn fold<F: Flash>(&mut self, core: &mut Core, flash: &mut F, lbn: Lbn) -> Outcome<F> {
        let slots: Vec<Slot> = self.chain(lbn).collect();
        let Some(&last) = slots.last() else { return Ok(()) };
        let mut cause = Cause::MergeFull;
        let mut rest = &slots[..];
        if core.logged[lbn.index()] == 0 {
            // Discards have left nothing in the chain.
        } else if self.fold_in_place {
            let merged = core.merge_block(flash, last, lbn, &mut None, &mut erase_obsolete);
            if merged.is_err() && core.has_given_up(last) {
                self.set(lbn, &slots[..slots.len() - 1]);
            }
            cause = match merged? {
                Merge::Switch => Cause::MergeSwitch,
                Merge::Partial => Cause::MergePartial,
                Merge::Full => Cause::MergeFull,
            };
            rest = &slots[..slots.len() - 1];
        } else {
            core.rewrite(flash, lbn, cause)?;
        }
        self.set(lbn, &[]);
        self.folds[slots.len() - 1] += 1;
        core.erase_dead(flash, rest, cause)
    }
}

impl Strategy for Chains {
    fn area(settings: &Settings) -> Area {
        Area { own_places: settings.word(&MODE) == "chain", ..Area::new(1, settings) }
    }

    fn new(core: &Core, settings: &Settings) -> Result<Self, ConfigError> {
        let own_places = Self::area(settings).own_places;
        let logical = core.data.len();
        Ok(Chains {
            own_places,
            most: if own_places { settings.count(&REPLACEMENTS) as usize } else { 1 },
            fold_in_place: settings.switch(&FOLD_IN_PLACE),
            first: vec![Slot::NONE; logical],
            next: vec![Slot::NONE; core.slots.capacity() as usize],
            by_length: Queues::new(logical as u32, LONGEST as u32),
            folds: [0; LONGEST],
            forced: 0,
        })
    }

    #[inline]
    fn write<F: Flash>(&mut self, core: &mut Core, flash: &mut F, page: Write<'_, F>) -> Outcome<F> {
        let (lbn, offset) = core.split(page.lpn);
        loop {
            if core.write_to_data(flash, page)? {
                self.touch(lbn);
                return Ok(());
            }
            let taker = self.chain(lbn).find_map(|slot| Some((slot, self.place(core, slot, offset)?)));
            if let Some((slot, at)) = taker {
                if core.append(flash, slot, at, Kind::Log, page)? {
                    self.touch(lbn);
                    return Ok(());
                }
                let rest: Vec<Slot> = self.chain(lbn).filter(|&other| other != slot).collect();
                self.set(lbn, &rest);
            } else if self.length(lbn) == self.most {
                self.fold(core, flash, lbn)?;
            } else if core.slots.in_use() < core.log_limit() {
                let mut slots: Vec<Slot> = self.chain(lbn).collect();
                slots.push(core.begin_log_block(flash)?);
                self.set(lbn, &slots);
            } else if !self.clean(core, flash)? {
                return Err(Error::Full);
            } else {
                self.forced += 1;
            }
        }
    }

    fn adopt(&mut self, core: &mut Core) {
        let found: Vec<Slot> = core.slots.closed().collect();
        for slot in found {
            let [lbn] = core.logical_blocks_in(slot)[..] else { continue };
            let fits = !self.own_places || core.is_aligned(slot, lbn);
            if fits && self.length(lbn) < self.most {
                core.slots.hold(slot);
                let slots: Vec<Slot> = self.chain(lbn).chain([slot]).collect();
                self.set(lbn, &slots);
            }
        }
    }

    fn settle<F: Flash>(&mut self, core: &mut Core, flash: &mut F) -> Outcome<F> {
        while let Some(slot) = core.slots.oldest() {
            core.clean(flash, slot, &mut erase_obsolete)?;
        }
        let chains = (0..LONGEST as u32).flat_map(|queue| self.by_length.iter(queue));
        let dead: Vec<Lbn> = chains.filter(|&lbn| core.logged[lbn.index()] == 0).collect();
        dead.into_iter().try_for_each(|lbn| self.fold(core, flash, lbn))
    }

    fn clean<F: Flash>(&mut self, core: &mut Core, flash: &mut F) -> Outcome<F, bool> {
        // A block without a chain is one that failed a program.
        if let Some(slot) = core.slots.oldest() {
            core.clean(flash, slot, &mut erase_obsolete)?;
            return Ok(true);
        }
        let Some(lbn) = (0..LONGEST as u32).rev().find_map(|queue| self.by_length.first(queue)) else {
            return Ok(false);
        };
        self.fold(core, flash, lbn)?;
        Ok(true)
    }

    fn held(&self) -> Vec<Slot> {
        let chains = (0..LONGEST as u32).flat_map(|queue| self.by_length.iter(queue));
        chains.flat_map(|lbn| self.chain(lbn)).collect()
    }

    fn memory(&self, core: &Core) -> Vec<(&'static str, u64)> {
        vec![("chains", u64::from(core.slots.capacity()) * 12 + 4 * LONGEST as u64)]
    }

    fn save(&self, _: &Core, out: &mut Saver) {
        for queue in 0..LONGEST as u32 {
            out.u32(self.by_length.iter(queue).count() as u32);
            for lbn in self.by_length.iter(queue) {
                out.u32(lbn.0);
                self.chain(lbn).for_each(|slot| out.u32(slot.0));
            }
        }
    }

    fn load(&mut self, _: &Core, from: &mut Loader<'_>) {
        for length in 1..=LONGEST {
            for _ in 0..from.u32() {
                let lbn = Lbn(from.u32());
                let slots: Vec<Slot> = (0..length).map(|_| Slot(from.u32())).collect();
                self.set(lbn, &slots);
            }
        }
    }

    fn counters(&self, _: &Core) -> Vec<(&'static str, u64)> {
        let values = self.folds.iter().chain([&self.forced]);
        COUNTERS.iter().zip(values).map(|(&(name, _), &value)| (name, value)).collect()
    }

    fn reset_counters(&mut self) {
        (self.folds, self.forced) = ([0; LONGEST], 0);
    }
}

#[cfg(test)]
mod tests;

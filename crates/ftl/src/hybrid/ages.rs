//! When log blocks were begun, kept on flash, so that merge-aware round robin goes on after a mount where it was.
//!
//! The age of a log block is how many log blocks were erased since it was begun. The ROSE thesis (section 3.5) has it
//! stored "in the spare area upon the first page write to a log block": what is stored is how many had been erased by
//! then, six bytes in the place where data pages have the scheme's own, and no command. A block that free page reuse
//! begins with copies has it on each of them, and one that wear levelling fills with the pages of another takes the
//! other's number over.
//!
//! A mount takes the largest number that it finds for what has been erased so far. So all ages together may be too
//! small, by as many log blocks as were erased since the last one was begun; the ages beside each other are right.

use super::log::Slot;
use crate::{Loader, Parameter, Saver};
use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;
use flash::Block;

/// `log-ages`: whether ages are kept on flash.
pub const LOG_AGES: Parameter = Parameter::switch("log-ages", false)
    .text(
        "Keep on flash when each log block was begun, for maro after a mount. Off: it goes by their order. Takes 6 \
         bytes of a spare area.",
    )
    .source("{rose}, section 3.5");

/// Bytes in a spare area.
pub(crate) const AGE_BYTES: u32 = 6;

/// The largest number that is believed: 10^14 log blocks erased.
const LARGEST: u64 = 1 << 47;

/// The most erases that a number on flash is believed to tell: more than scores have room for ([`super::score`]).
const MOST: u64 = 10_000_000;

/// See the module's description.
#[derive(Clone, Debug)]
pub(crate) struct Ages {
    /// Log blocks erased so far.
    erased: u64,
    /// How many had been erased when each log block was begun, by slot.
    begun: Vec<u64>,
    /// Log blocks that have no page yet which tells so.
    untold: BTreeSet<Block>,
}

impl Ages {
    /// Of so many slots.
    pub(super) fn new(slots: u32) -> Ages {
        Ages { erased: 0, begun: vec![0; slots as usize], untold: BTreeSet::new() }
    }

    /// What a spare area carries, if anything; never more than any device erases.
    pub(crate) fn in_spare(spare: &[u8]) -> Option<u64> {
        let mut bytes = [0; 8];
        bytes[..AGE_BYTES as usize].copy_from_slice(spare.get(..AGE_BYTES as usize)?);
        u64::from_le_bytes(bytes).checked_sub(1).filter(|&begun| begun <= LARGEST)
    }

    fn to_spare(begun: u64) -> Vec<u8> {
        // 0 is for a spare area that tells nothing.
        (begun + 1).to_le_bytes()[..AGE_BYTES as usize].to_vec()
    }

    /// A log block is begun.
    pub(super) fn begin(&mut self, slot: Slot, block: Block) {
        // A mount may find log blocks beyond those that the area has.
        if slot.index() >= self.begun.len() {
            self.begun.resize(slot.index() + 1, 0);
        }
        self.begun[slot.index()] = self.erased;
        self.untold.insert(block);
    }

    /// A log block was erased, or goes on as a data block.
    pub(super) fn ended(&mut self, block: Block) {
        self.untold.remove(&block);
    }

    /// A log block was erased: all others are older by one.
    pub(super) fn erased(&mut self) {
        self.erased += 1;
    }

    /// What is to stand in the spare area of the page that a log block takes next.
    pub(super) fn tell(&mut self, slot: Slot, block: Block) -> Option<Vec<u8>> {
        self.untold.remove(&block).then(|| Ages::to_spare(self.begun[slot.index()]))
    }

    /// What is to stand in the spare areas of pages that are copied to a block to begin it as a log block.
    pub(super) fn carry_now(&self) -> Vec<u8> {
        Ages::to_spare(self.erased)
    }

    /// The same of pages of a log block that are copied to one which takes its place.
    pub(super) fn carry(&self, slot: Slot) -> Vec<u8> {
        Ages::to_spare(self.begun[slot.index()])
    }

    /// While mounting: the log blocks, each with the number that flash has for it, if it has one. How old each is then,
    /// in the same order.
    pub(super) fn found(&mut self, logs: &[(Slot, Option<u64>)], largest: u64) -> Vec<Option<u64>> {
        self.erased = largest;
        let age = |&(slot, begun): &(Slot, Option<u64>)| {
            let age = begun.map(|begun| largest.saturating_sub(begun).min(MOST));
            self.begun[slot.index()] = largest - age.unwrap_or(0).min(largest);
            age
        };
        logs.iter().map(age).collect()
    }

    /// Controller RAM, bytes.
    pub(super) fn memory(&self) -> u64 {
        8 + 4 + self.begun.len() as u64 * 8 + self.untold.len() as u64 * 4
    }

    /// Saves the state.
    pub(super) fn save(&self, out: &mut Saver) {
        out.u64(self.erased);
        out.u32(self.begun.len() as u32);
        self.begun.iter().for_each(|&begun| out.u64(begun));
        out.u32(self.untold.len() as u32);
        self.untold.iter().for_each(|block| out.u32(block.0));
    }

    /// Loads what [`Ages::save`] saved.
    pub(super) fn load(&mut self, from: &mut Loader<'_>) {
        self.erased = from.u64();
        self.begun = (0..from.u32()).map(|_| from.u64()).collect();
        self.untold = (0..from.u32()).map(|_| Block(from.u32())).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spare_area_tells_what_was_put_there() {
        for begun in [0, 1, 255, 1 << 40] {
            let bytes = Ages::to_spare(begun);
            assert_eq!((bytes.len() as u32, Ages::in_spare(&bytes)), (AGE_BYTES, Some(begun)));
        }
        assert_eq!(Ages::in_spare(&[0; 8]), None, "nothing stands there");
        assert_eq!(Ages::in_spare(&[1; 5]), None, "it is too short");
        assert_eq!(Ages::in_spare(&[255; 6]), None, "no device has erased so many");
    }

    /// Numbers that damage has made are no age that scores have no room for.
    #[test]
    fn an_age_is_bounded() {
        let mut ages = Ages::new(3);
        let logs = [(Slot(0), Some(5)), (Slot(1), None), (Slot(2), Some(1 << 47))];
        assert_eq!(ages.found(&logs, 1 << 47), [Some(MOST), None, Some(0)]);
        ages.begin(Slot(1), Block(9));
        ages.erased();
        assert_eq!(ages.tell(Slot(1), Block(9)), Some(Ages::to_spare(1 << 47)));
        assert_eq!(ages.tell(Slot(1), Block(9)), None, "one page tells");
        assert_eq!(ages.carry(Slot(0)), Ages::to_spare((1 << 47) - MOST));
    }
}

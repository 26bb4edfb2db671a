//! Log blocks that belong to one logical block each: the table of them, and queues of logical blocks.

use super::erase_obsolete;
use super::log::{NONE, Slot};
use super::state::Core;
use crate::{Error, Loader, Saver};
use alloc::vec;
use alloc::vec::Vec;
use flash::{Cause, Flash};

/// Queues of logical blocks, each in one of them or in none.
#[derive(Clone, Debug)]
pub struct Queues {
    /// Who comes before and after, in rings: logical blocks, then a head for each queue. [`NONE`] if in no queue.
    links: Vec<(u32, u32)>,
    members: u32,
}

impl Queues {
    /// `queues` empty ones.
    pub fn new(members: u32, queues: u32) -> Queues {
        let free = (0..members).map(|_| (NONE, NONE));
        Queues { links: free.chain((members..members + queues).map(|head| (head, head))).collect(), members }
    }

    /// Whether a logical block is in a queue.
    pub fn contains(&self, lbn: u32) -> bool {
        self.links[lbn as usize].0 != NONE
    }

    /// Puts a logical block at the end of a queue, out of that in which it was.
    pub fn push(&mut self, queue: u32, lbn: u32) {
        self.remove(lbn);
        let head = self.members + queue;
        let last = self.links[head as usize].0;
        self.links[lbn as usize] = (last, head);
        self.links[last as usize].1 = lbn;
        self.links[head as usize].0 = lbn;
    }

    /// Takes a logical block out of its queue, if it is in one.
    pub fn remove(&mut self, lbn: u32) {
        let (before, after) = self.links[lbn as usize];
        if before != NONE {
            self.links[before as usize].1 = after;
            self.links[after as usize].0 = before;
            self.links[lbn as usize] = (NONE, NONE);
        }
    }

    /// The first of a queue.
    pub fn first(&self, queue: u32) -> Option<u32> {
        self.iter(queue).next()
    }

    /// A queue from its first on.
    pub fn iter(&self, queue: u32) -> impl Iterator<Item = u32> + '_ {
        let head = self.members + queue;
        core::iter::successors(Some(head), |&at| Some(self.links[at as usize].1))
            .skip(1)
            .take_while(move |&x| x != head)
    }
}

/// Rows {logical block, its log block}, at most one for each logical block, in an order of use.
///
/// A controller has as many rows as log blocks and finds them by a hash of the logical block; here an array finds them.
#[derive(Clone, Debug)]
pub struct Rows {
    slot_of: Vec<Slot>,
    owner: Vec<u32>,
    order: Queues,
    count: u32,
}

impl Rows {
    /// None.
    pub fn new(core: &Core) -> Rows {
        let logical = core.data.len();
        let order = Queues::new(logical as u32, 1);
        Rows { slot_of: vec![Slot::NONE; logical], owner: vec![NONE; core.slots.capacity() as usize], order, count: 0 }
    }

    /// The log block of a logical block.
    #[inline]
    pub fn get(&self, lbn: u32) -> Option<Slot> {
        let slot = self.slot_of[lbn as usize];
        (slot != Slot::NONE).then_some(slot)
    }

    /// The logical block of a log block.
    pub fn owner(&self, slot: Slot) -> Option<u32> {
        self.owner.get(slot.index()).copied().filter(|&lbn| lbn != NONE)
    }

    /// Rows there are.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// A new row, the last used.
    pub fn insert(&mut self, lbn: u32, slot: Slot) {
        debug_assert!(self.get(lbn).is_none(), "logical block {lbn} has a log block");
        if self.owner.len() <= slot.index() {
            self.owner.resize(slot.index() + 1, NONE);
        }
        self.slot_of[lbn as usize] = slot;
        self.owner[slot.index()] = lbn;
        self.order.push(0, lbn);
        self.count += 1;
    }

    /// A row is the last used.
    pub fn touch(&mut self, lbn: u32) {
        self.order.push(0, lbn);
    }

    /// Forgets a row.
    pub fn remove(&mut self, lbn: u32) {
        if let Some(slot) = self.get(lbn) {
            self.slot_of[lbn as usize] = Slot::NONE;
            self.owner[slot.index()] = NONE;
            self.order.remove(lbn);
            self.count -= 1;
        }
    }

    /// Logical blocks and log blocks of the rows, the first used in front.
    pub fn iter(&self) -> impl Iterator<Item = (u32, Slot)> + '_ {
        self.order.iter(0).map(|lbn| (lbn, self.slot_of[lbn as usize]))
    }

    /// A row for every log block that a mount found to hold pages of one logical block alone, and not a younger one of
    /// the same. They take no further page.
    pub fn adopt(&mut self, core: &mut Core) {
        let mut found: Vec<Slot> = core.slots.closed().collect();
        found.sort_by_key(|&slot| core.slots.get(slot).begun);
        let mut chosen: Vec<(u32, Slot)> = Vec::new();
        for &slot in found.iter().rev() {
            if let [lbn] = core.logical_blocks_in(slot)[..]
                && chosen.iter().all(|&(other, _)| other != lbn)
            {
                chosen.push((lbn, slot));
            }
        }
        for (lbn, slot) in chosen.into_iter().rev() {
            core.slots.hold(slot);
            self.insert(lbn, slot);
        }
    }

    /// Merges the logical block of a row, which is none any more; if nothing in its log block is live, that is erased
    /// and no more.
    ///
    /// # Errors
    /// Full, or the medium's.
    pub fn merge<F: Flash>(&mut self, core: &mut Core, flash: &mut F, lbn: u32) -> Result<(), Error<F::Fault>> {
        let Some(slot) = self.get(lbn) else { return Ok(()) };
        if core.pool.blocks.live_of(core.slots.block(slot)) == 0 {
            core.merges.dead += 1;
            core.erase_log_block(flash, slot, Cause::MergeFull)?;
        } else {
            core.merge_block(flash, slot, lbn, None, &mut erase_obsolete)?;
        }
        core.merges.cleaned += 1;
        core.merges.density += 1;
        self.remove(lbn);
        Ok(())
    }

    /// Erases the log blocks of rows in which nothing is live any more.
    ///
    /// # Errors
    /// The medium's.
    pub fn erase_dead<F: Flash>(&mut self, core: &mut Core, flash: &mut F) -> Result<(), Error<F::Fault>> {
        let is_dead = |&(_, slot): &(u32, Slot)| {
            let block = core.slots.block(slot);
            core.pool.blocks.live_of(block) == 0 && !core.is_blank(block)
        };
        let dead: Vec<(u32, Slot)> = self.iter().filter(is_dead).collect();
        dead.into_iter().try_for_each(|(lbn, _)| self.merge(core, flash, lbn))
    }

    /// Bytes of RAM: logical block, log block and two links for each row there may be.
    pub fn memory(core: &Core) -> u64 {
        u64::from(core.slots.capacity()) * 16 + 4
    }

    /// Saves the rows in their order.
    pub fn save(&self, out: &mut Saver) {
        out.u32(self.count);
        for (lbn, slot) in self.iter() {
            out.u32(lbn);
            out.u32(slot.0);
        }
    }

    /// Loads what [`Rows::save`] saved.
    pub fn load(&mut self, from: &mut Loader<'_>) {
        for _ in 0..from.u32() {
            let (lbn, slot) = (from.u32(), Slot(from.u32()));
            self.insert(lbn, slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_keep_their_order() {
        let mut queues = Queues::new(6, 2);
        [3, 1, 5].into_iter().for_each(|lbn| queues.push(0, lbn));
        queues.push(1, 4);
        queues.push(0, 3);
        assert_eq!(queues.iter(0).collect::<Vec<_>>(), [1, 5, 3]);
        queues.push(1, 5);
        queues.remove(1);
        queues.remove(1);
        assert_eq!((queues.first(0), queues.first(1)), (Some(3), Some(4)));
        assert_eq!(queues.iter(1).collect::<Vec<_>>(), [4, 5]);
        assert!(!queues.contains(1) && queues.contains(4));
        queues.remove(3);
        assert_eq!(queues.first(0), None);
    }
}

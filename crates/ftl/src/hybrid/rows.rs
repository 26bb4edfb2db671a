//! Log blocks that belong to one logical block each: the table of them, and queues of logical blocks.

use super::erase_obsolete;
use super::log::{NONE, Slot};
use super::state::Core;
use crate::{Loader, Outcome, Saver};
use alloc::vec;
use alloc::vec::Vec;
use flash::{Block, Cause, Flash, Lbn};

/// Queues of logical blocks, each in one of them or in none.
#[derive(Clone, Debug)]
pub(crate) struct Queues {
    /// Who comes before and after, in rings: logical blocks, then a head for each queue. [`NONE`] if in no queue.
    links: Vec<(u32, u32)>,
    members: u32,
}

impl Queues {
    /// `queues` empty ones.
    pub(crate) fn new(members: u32, queues: u32) -> Queues {
        let free = (0..members).map(|_| (NONE, NONE));
        Queues { links: free.chain((members..members + queues).map(|head| (head, head))).collect(), members }
    }

    /// Puts a logical block at the end of a queue, out of that in which it was.
    pub(crate) fn push(&mut self, queue: u32, lbn: Lbn) {
        self.remove(lbn);
        let head = self.members + queue;
        let last = self.links[head as usize].0;
        self.links[lbn.index()] = (last, head);
        self.links[last as usize].1 = lbn.0;
        self.links[head as usize].0 = lbn.0;
    }

    /// Takes a logical block out of its queue, if it is in one.
    pub(crate) fn remove(&mut self, lbn: Lbn) {
        let (before, after) = self.links[lbn.index()];
        if before != NONE {
            self.links[before as usize].1 = after;
            self.links[after as usize].0 = before;
            self.links[lbn.index()] = (NONE, NONE);
        }
    }

    /// The first of a queue.
    pub(crate) fn first(&self, queue: u32) -> Option<Lbn> {
        self.iter(queue).next()
    }

    /// A queue from its first on.
    pub(crate) fn iter(&self, queue: u32) -> impl Iterator<Item = Lbn> + '_ {
        let head = self.members + queue;
        core::iter::successors(Some(head), |&at| Some(self.links[at as usize].1))
            .skip(1)
            .take_while(move |&x| x != head)
            .map(Lbn)
    }
}

/// Rows {logical block, its log block}, at most one for each logical block, in an order of use.
///
/// A controller has as many rows as log blocks and finds them by a hash of the logical block; here an array finds them.
#[derive(Clone, Debug)]
pub(crate) struct Rows {
    slot_of: Vec<Slot>,
    owner: Vec<Lbn>,
    order: Queues,
    count: u32,
}

impl Rows {
    /// None.
    pub(crate) fn new(core: &Core) -> Rows {
        let logical = core.data.len();
        let order = Queues::new(logical as u32, 1);
        Rows {
            slot_of: vec![Slot::NONE; logical],
            owner: vec![Lbn::NONE; core.slots.capacity() as usize],
            order,
            count: 0,
        }
    }

    /// The log block of a logical block.
    #[inline]
    pub(crate) fn get(&self, lbn: Lbn) -> Option<Slot> {
        let slot = self.slot_of[lbn.index()];
        (slot != Slot::NONE).then_some(slot)
    }

    /// The logical block of a log block.
    pub(crate) fn owner(&self, slot: Slot) -> Option<Lbn> {
        self.owner.get(slot.index()).copied().filter(|&lbn| lbn != Lbn::NONE)
    }

    /// Rows there are.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// A new row, the last used.
    pub(crate) fn insert(&mut self, lbn: Lbn, slot: Slot) {
        debug_assert!(self.get(lbn).is_none(), "logical block {lbn} has a log block");
        if self.owner.len() <= slot.index() {
            self.owner.resize(slot.index() + 1, Lbn::NONE);
        }
        self.slot_of[lbn.index()] = slot;
        self.owner[slot.index()] = lbn;
        self.order.push(0, lbn);
        self.count += 1;
    }

    /// A row is the last used.
    pub(crate) fn touch(&mut self, lbn: Lbn) {
        self.order.push(0, lbn);
    }

    /// Forgets a row.
    pub(crate) fn remove(&mut self, lbn: Lbn) {
        if let Some(slot) = self.get(lbn) {
            self.slot_of[lbn.index()] = Slot::NONE;
            self.owner[slot.index()] = Lbn::NONE;
            self.order.remove(lbn);
            self.count -= 1;
        }
    }

    /// Logical blocks and log blocks of the rows, the first used in front.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Lbn, Slot)> + '_ {
        self.order.iter(0).map(|lbn| (lbn, self.slot_of[lbn.index()]))
    }

    /// A row for every log block that a mount found to hold pages of one logical block alone, and not a younger one of
    /// the same. They take no further page.
    pub(crate) fn adopt(&mut self, core: &mut Core) {
        let mut chosen: Vec<(Lbn, Slot)> = Vec::new();
        for slot in core.slots.closed().rev() {
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
    pub(crate) fn merge<F: Flash>(&mut self, core: &mut Core, flash: &mut F, lbn: Lbn) -> Outcome<F> {
        let Some(slot) = self.get(lbn) else { return Ok(()) };
        if core.pool.blocks.live_of(core.slots.block(slot)) == 0 {
            core.merges.dead += 1;
            core.erase_dead(flash, &[slot], Cause::MergeFull)?;
        } else {
            core.merge_block(flash, slot, lbn, &mut None, &mut erase_obsolete)?;
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
    pub(crate) fn erase_dead<F: Flash>(&mut self, core: &mut Core, flash: &mut F) -> Outcome<F> {
        // A merge into a log block that failed and found no room left the row; the block was emptied since, and is no
        // log block any more.
        let is_gone = |&(_, slot): &(Lbn, Slot)| core.slots.block(slot) == Block(NONE);
        let gone: Vec<(Lbn, Slot)> = self.iter().filter(is_gone).collect();
        gone.into_iter().for_each(|(lbn, _)| self.remove(lbn));
        let is_dead = |&(_, slot): &(Lbn, Slot)| {
            let block = core.slots.block(slot);
            core.pool.blocks.live_of(block) == 0 && !core.is_blank(block)
        };
        let dead: Vec<(Lbn, Slot)> = self.iter().filter(is_dead).collect();
        dead.into_iter().try_for_each(|(lbn, _)| self.merge(core, flash, lbn))
    }

    /// Bytes of RAM: logical block, log block and two links for each row there may be.
    pub(crate) fn memory(core: &Core) -> u64 {
        u64::from(core.slots.capacity()) * 16 + 4
    }

    /// Saves the rows in their order.
    pub(crate) fn save(&self, out: &mut Saver) {
        out.u32(self.count);
        for (lbn, slot) in self.iter() {
            out.u32(lbn.0);
            out.u32(slot.0);
        }
    }

    /// Loads what [`Rows::save`] saved.
    pub(crate) fn load(&mut self, from: &mut Loader<'_>) {
        for _ in 0..from.u32() {
            let (lbn, slot) = (Lbn(from.u32()), Slot(from.u32()));
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
        [3, 1, 5].into_iter().for_each(|lbn| queues.push(0, Lbn(lbn)));
        queues.push(1, Lbn(4));
        queues.push(0, Lbn(3));
        assert_eq!(queues.iter(0).collect::<Vec<_>>(), [1, 5, 3].map(Lbn));
        queues.push(1, Lbn(5));
        queues.remove(Lbn(1));
        queues.remove(Lbn(1));
        assert_eq!((queues.first(0), queues.first(1)), (Some(Lbn(3)), Some(Lbn(4))));
        assert_eq!(queues.iter(1).collect::<Vec<_>>(), [4, 5].map(Lbn));
        assert_eq!((queues.links[1].0, queues.links[4].0), (NONE, 7));
        queues.remove(Lbn(3));
        assert_eq!(queues.first(0), None);
    }
}

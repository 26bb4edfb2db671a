//! What keeps the data right where commands of a die do not run in the order of their issue.
//!
//! - An erase follows all commands on its block that were issued before it.
//! - Every command follows the last erase of its block that was issued before it.
//! - A read, also that of a copy, follows the program of its page and its partial programs.
//! - A partial program follows the program of its page and its earlier partial programs.
//!
//! Programs of one block may swap in time: a page's place in its block is bound when the command reaches the die, not
//! when a scheme issues it.
//!
//! All commands on a block are on one die. A command is overtaken only by one that is issued later and takes a gap
//! before it. So a command on a die without gaps in its future needs no note, and only a command that could take a gap
//! has anything to look up. A note is three times for a block; where programs are among it, the times of the block's
//! pages too, in a slot that goes to another block when they are past. A look-up costs O(1), a note O(1) on average.

use crate::{Block, Geometry, Op};
use alloc::vec;
use alloc::vec::Vec;

const NO_SLOT: u32 = u32::MAX;

/// When noted commands on a block end, ns.
#[derive(Clone, Copy, Debug)]
struct Noted {
    any_ns: u64,
    erase_ns: u64,
    programs_ns: u64,
    slot: u32,
}

impl Noted {
    const NOTHING: Noted = Noted { any_ns: 0, erase_ns: 0, programs_ns: 0, slot: NO_SLOT };
}

/// The ends of the commands that later ones could overtake.
#[derive(Clone, Debug)]
pub(super) struct Order {
    block_count: usize,
    pages_per_block: usize,
    /// Of each block; empty as long as nothing was noted.
    blocks: Vec<Noted>,
    /// Of each page of the blocks that have a slot: the end of its last program. An entry that was left by another
    /// block is past.
    pages_ns: Vec<u64>,
    /// Whose slot it is.
    owners: Vec<Block>,
    free_slots: Vec<u32>,
}

impl Order {
    pub(super) fn new(geometry: &Geometry) -> Order {
        Order {
            block_count: geometry.block_count() as usize,
            pages_per_block: geometry.pages_per_block as usize,
            blocks: Vec::new(),
            pages_ns: Vec::new(),
            owners: Vec::new(),
            free_slots: Vec::new(),
        }
    }

    /// Forgets everything: time begins anew.
    pub(super) fn clear(&mut self) {
        self.blocks.clear();
        self.pages_ns.clear();
        self.owners.clear();
        self.free_slots.clear();
    }

    /// What a command that is issued now does not start before.
    #[inline]
    pub(super) fn ready_ns(&self, op: Op, block: Block, offset: u32) -> u64 {
        let Some(noted) = self.blocks.get(block.index()) else { return 0 };
        match op {
            Op::Erase => noted.any_ns,
            Op::Program => noted.erase_ns,
            Op::Read | Op::OobRead | Op::PartialProgram if noted.slot == NO_SLOT => noted.erase_ns,
            Op::Read | Op::OobRead | Op::PartialProgram => {
                noted.erase_ns.max(self.pages_ns[noted.slot as usize * self.pages_per_block + offset as usize])
            }
        }
    }

    /// A command that later ones could overtake ends at `end_ns`.
    #[inline]
    pub(super) fn note(&mut self, (op, block, offset): (Op, Block, u32), end_ns: u64, now_ns: u64) {
        if self.blocks.is_empty() {
            self.blocks = vec![Noted::NOTHING; self.block_count];
        }
        let noted = &mut self.blocks[block.index()];
        noted.any_ns = noted.any_ns.max(end_ns);
        match op {
            Op::Erase => noted.erase_ns = end_ns,
            Op::Read | Op::OobRead => {}
            Op::Program | Op::PartialProgram => {
                noted.programs_ns = noted.programs_ns.max(end_ns);
                let slot = if noted.slot == NO_SLOT { self.slot_for(block, now_ns) } else { noted.slot };
                let page_ns = &mut self.pages_ns[slot as usize * self.pages_per_block + offset as usize];
                *page_ns = (*page_ns).max(end_ns);
            }
        }
    }

    /// Gives a block a slot: one whose owner's programs have ended, or a new one.
    #[cold]
    fn slot_for(&mut self, block: Block, now_ns: u64) -> u32 {
        if self.free_slots.is_empty() {
            for (slot, owner) in self.owners.iter().enumerate() {
                let noted = &mut self.blocks[owner.index()];
                if noted.programs_ns <= now_ns {
                    noted.slot = NO_SLOT;
                    self.free_slots.push(slot as u32);
                }
            }
            // At least as many are free as are in use, so that a search pays for as many blocks as it looks at.
            let (slots, free) = (self.owners.len(), self.free_slots.len());
            let more = (slots - free).saturating_sub(free).max(if slots == 0 { 4 } else { 0 });
            self.free_slots.extend(slots as u32..(slots + more) as u32);
            self.owners.resize(slots + more, block);
            self.pages_ns.resize((slots + more) * self.pages_per_block, 0);
        }
        let slot = self.free_slots.pop().unwrap_or_else(|| unreachable!("one was made free"));
        self.owners[slot as usize] = block;
        self.blocks[block.index()].slot = slot;
        slot
    }
}

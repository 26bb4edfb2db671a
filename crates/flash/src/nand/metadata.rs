//! Metadata pages as a chip stores them.
//!
//! Few pages hold metadata, so a page finds its words in two steps: a table for each block that has any metadata says
//! which of the stored pages each of its pages is. Tables and stored pages lie in one array each, so that a look-up
//! waits for memory once in each.

use crate::broken::{Command, Rule, refuse};
use crate::{Geometry, Ppn};
use alloc::vec;
use alloc::vec::Vec;

/// A stored page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Slot(u32);

const NONE: u32 = u32::MAX;

/// Words that [`MetaPages::note_blank`] looks at together.
const BLANK_STEP: usize = 16;

/// Programs single bytes, `at` being the first.
fn program_bytes(words: &mut [u32], at: usize, bytes: &[u8]) {
    for (byte, &new) in (at..).zip(bytes) {
        words[byte / 4] &= !(u32::from(!new) << (byte % 4 * 8));
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct State {
    /// Programs since the erase.
    programs: u16,
    /// The mark of the last partial program.
    mark: u16,
    /// All bytes from here on are known to be blank.
    blank: u32,
}

/// See the module's description.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct MetaPages {
    pages_per_block: usize,
    words_per_page: usize,
    table_of: Vec<u32>,
    tables: Vec<u32>,
    free_tables: Vec<u32>,
    words: Vec<u32>,
    states: Vec<State>,
    free_slots: Vec<u32>,
}

impl MetaPages {
    /// None stored yet.
    pub(super) fn new(g: &Geometry) -> Self {
        MetaPages {
            pages_per_block: g.pages_per_block as usize,
            words_per_page: g.entries_per_page() as usize,
            table_of: vec![NONE; g.block_count() as usize],
            tables: Vec::new(),
            free_tables: Vec::new(),
            words: Vec::new(),
            states: Vec::new(),
            free_slots: Vec::new(),
        }
    }

    #[inline(always)]
    fn entry(&self, table: u32, ppn: Ppn) -> usize {
        (table as usize * self.pages_per_block) | (ppn.index() & (self.pages_per_block - 1))
    }

    #[inline(always)]
    fn block(&self, ppn: Ppn) -> usize {
        ppn.index() >> self.pages_per_block.trailing_zeros()
    }

    /// What is stored of a page; `None` if it holds no metadata, or a copy took it away.
    #[inline(always)]
    pub(super) fn find(&self, ppn: Ppn) -> Option<Slot> {
        let table = self.table_of[self.block(ppn)];
        let slot = if table == NONE { NONE } else { self.tables[self.entry(table, ppn)] };
        (slot != NONE).then_some(Slot(slot))
    }

    fn set(&mut self, ppn: Ppn, slot: u32) {
        let block = self.block(ppn);
        if self.table_of[block] == NONE {
            self.table_of[block] = self.free_tables.pop().unwrap_or_else(|| {
                self.tables.resize(self.tables.len() + self.pages_per_block, NONE);
                (self.tables.len() / self.pages_per_block - 1) as u32
            });
        }
        let entry = self.entry(self.table_of[block], ppn);
        self.tables[entry] = slot;
    }

    fn allocate(&mut self) -> Slot {
        Slot(self.free_slots.pop().unwrap_or_else(|| {
            self.states.push(State { programs: 0, mark: 0, blank: 0 });
            self.words.resize(self.words.len() + self.words_per_page, u32::MAX);
            (self.states.len() - 1) as u32
        }))
    }

    /// The words of a stored page, blank ones included.
    #[inline(always)]
    pub(super) fn words(&self, slot: Slot) -> &[u32] {
        &self.words[slot.0 as usize * self.words_per_page..][..self.words_per_page]
    }

    /// The same, to be changed.
    #[inline(always)]
    pub(super) fn words_mut(&mut self, slot: Slot) -> &mut [u32] {
        self.states[slot.0 as usize].blank = self.words_per_page as u32 * 4;
        &mut self.words[slot.0 as usize * self.words_per_page..][..self.words_per_page]
    }

    /// Bytes up to the last that is not blank, and programs since the erase.
    pub(super) fn state(&self, slot: Slot) -> (u32, u32) {
        let last = self.words(slot).iter().rposition(|&word| word != u32::MAX);
        let bytes = last.map_or(0, |last| last * 4 + 4 - (!self.words(slot)[last]).leading_zeros() as usize / 8);
        (bytes as u32, u32::from(self.states[slot.0 as usize].programs))
    }

    /// The mark of the last partial program; 0 if there was none.
    #[inline(always)]
    pub(super) fn mark(&self, slot: Slot) -> u16 {
        self.states[slot.0 as usize].mark
    }

    /// Changes it.
    pub(super) fn set_mark(&mut self, slot: Slot, mark: u16) {
        self.states[slot.0 as usize].mark = mark;
    }

    /// Looks up to where a page is not blank, for the programs that follow: now, while its words are at hand.
    #[inline]
    pub(super) fn note_blank(&mut self, slot: Slot) {
        let used = |words: &&[u32]| words.iter().fold(u32::MAX, |all, &word| all & word) != u32::MAX;
        let blank =
            self.words(slot).rchunks(BLANK_STEP).take_while(|words| !used(words)).map(<[u32]>::len).sum::<usize>();
        self.states[slot.0 as usize].blank = (self.words_per_page - blank) as u32 * 4;
    }

    /// Stores a page.
    pub(super) fn put(&mut self, ppn: Ppn, words: &[u32], mark: u16) {
        let capacity = self.words_per_page;
        if words.len() > capacity {
            let rule = Rule::TooManyWords { words: words.len() as u32, capacity: capacity as u32 };
            refuse(rule.broken_by(Command::Program, ppn));
        }
        let slot = self.allocate();
        let stored = self.words_mut(slot);
        stored[..words.len()].copy_from_slice(words);
        stored[words.len()..].fill(u32::MAX);
        self.states[slot.0 as usize] = State { programs: 1, mark, blank: 0 };
        self.note_blank(slot);
        self.set(ppn, slot.0);
    }

    /// Whether `bytes` bytes of the page in `slot` may be programmed from byte `at` on: all is blank there and behind,
    /// and the page has not had `nop` programs.
    pub(super) fn may_append(&self, slot: Slot, at: usize, bytes: usize, nop: u32) -> Result<(), Rule> {
        let State { programs, blank, .. } = self.states[slot.0 as usize];
        if u32::from(programs) >= nop {
            return Err(Rule::Nop { programs: programs.into(), nop });
        }
        if at + bytes > self.words_per_page * 4 {
            return Err(Rule::BeyondPage);
        }
        let words = self.words(slot);
        let behind = &words[at / 4..(blank as usize).div_ceil(4).max(at / 4)];
        let shared = behind.first().is_some_and(|word| !word >> (at % 4 * 8) != 0);
        if shared || behind.iter().skip(1).any(|&word| word != u32::MAX) {
            let used = |byte: &usize| (words[byte / 4] >> (byte % 4 * 8)) as u8 != u8::MAX;
            let byte = (at..blank as usize).find(used).expect("a word behind it is not blank") as u32;
            return Err(Rule::ByteNotBlank { at: at as u32, byte });
        }
        Ok(())
    }

    /// Programs bytes of the page in `slot`, as [`MetaPages::may_append`] allowed.
    pub(super) fn append(&mut self, slot: Slot, at: usize, bytes: &[u8]) {
        let State { programs, mark, .. } = self.states[slot.0 as usize];
        let end = at + bytes.len();
        let words = self.words_mut(slot);
        let (head, whole) = bytes.split_at(bytes.len().min(at.wrapping_neg() % 4));
        program_bytes(words, at, head);
        let whole = whole.chunks_exact(4);
        program_bytes(words, end - whole.remainder().len(), whole.remainder());
        for (word, four) in words[at.div_ceil(4)..].iter_mut().zip(whole) {
            *word &= u32::from_le_bytes([four[0], four[1], four[2], four[3]]);
        }
        self.states[slot.0 as usize] = State { programs: programs + 1, mark, blank: end as u32 };
    }

    /// Stores what `from` holds under `to` as well, or, if `take`, instead. Where it is.
    #[inline]
    pub(super) fn copy(&mut self, from: Ppn, to: Ppn, take: bool) -> Slot {
        let source = self.find(from);
        let source = source.unwrap_or_else(|| refuse(Rule::Moved.broken_by(Command::Copy, from)));
        let slot = if take {
            self.set(from, NONE);
            source
        } else {
            let copy = self.allocate();
            let first = source.0 as usize * self.words_per_page;
            self.words.copy_within(first..first + self.words_per_page, copy.0 as usize * self.words_per_page);
            copy
        };
        self.set(to, slot.0);
        self.states[slot.0 as usize] = State { programs: 1, mark: 0, blank: self.words_per_page as u32 * 4 };
        slot
    }

    /// A block was erased.
    pub(super) fn release(&mut self, block: usize) {
        let table = core::mem::replace(&mut self.table_of[block], NONE);
        if table == NONE {
            return;
        }
        let first = table as usize * self.pages_per_block;
        for slot in &mut self.tables[first..first + self.pages_per_block] {
            if *slot != NONE {
                self.free_slots.push(core::mem::replace(slot, NONE));
            }
        }
        self.free_tables.push(table);
    }

    /// Memory that the simulator holds, bytes.
    pub(super) fn bytes(&self) -> u64 {
        let lists = self.free_slots.len() + self.free_tables.len();
        let words = self.words.len() + self.tables.len() + self.table_of.len() + lists;
        (words * 4 + self.states.len() * size_of::<State>()) as u64
    }
}

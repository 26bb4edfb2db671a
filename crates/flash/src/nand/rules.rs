//! What the chip refuses, asked beforehand: each command breaks a rule if and only if its `check_*` says so.
//!
//! A command itself looks at as little as it can, and comes here to learn what to panic with.

use super::metadata::Slot;
use super::{BAD_BLOCK, BLANK, BLANK_MARK, METADATA, Nand, Record, SLC_BLOCK, Store, TORN, UNSAFE_BLOCK, may_skip};
use crate::broken::{Broken, Command, Rule, refuse};
use crate::{Block, Kind, Mode, Oob, Payload, Ppn, ProgramOrder};

type Checked = Result<(), Broken>;

impl<S: Store, R: Record> Nand<S, R> {
    /// Whether a page may be read whole.
    ///
    /// # Errors
    /// The rule that it would break. So the others.
    pub fn check_read(&self, ppn: Ppn) -> Checked {
        let page = ppn.index();
        if self.spare[page] == BLANK {
            return Err(Rule::Blank.broken_by(Command::Read, ppn));
        }
        let is_metadata = matches!(self.oob_at(page).kind, Kind::Translation | Kind::Checkpoint | Kind::Trim);
        if is_metadata && !self.spoiled(page) && self.meta.find(ppn).is_none() {
            return Err(Rule::Moved.broken_by(Command::Read, ppn));
        }
        Ok(())
    }

    /// Whether a page may be programmed.
    ///
    /// # Errors
    /// See [`Nand::check_read`].
    pub fn check_program(&self, ppn: Ppn, oob: &Oob, data: Payload<'_, S::User>) -> Checked {
        if oob.kind == Kind::Bad {
            return Ok(());
        }
        self.check_page(ppn, oob.mode)?;
        let capacity = self.geometry.entries_per_page();
        match data {
            Payload::Meta(words) if words.len() > capacity as usize => {
                let words = words.len() as u32;
                Err(Rule::TooManyWords { words, capacity }.broken_by(Command::Program, ppn))
            }
            Payload::None if oob.kind != Kind::Dummy => Err(Rule::NoContent(oob.kind).broken_by(Command::Program, ppn)),
            _ => Ok(()),
        }
    }

    /// Whether a page may take a partial program of `bytes` bytes from byte `at` on, with `mark`.
    ///
    /// # Errors
    /// See [`Nand::check_read`].
    pub fn check_append(&self, ppn: Ppn, at: u32, bytes: u32, mark: u16) -> Checked {
        let found = self.appendable(ppn, at as usize, bytes as usize, mark);
        found.map(drop).map_err(|rule| rule.broken_by(Command::Append, ppn))
    }

    /// Whether page `from` may be copied to page `to`, there programmed in `mode`.
    ///
    /// # Errors
    /// See [`Nand::check_read`].
    pub fn check_copy(&self, from: Ppn, to: Ppn, mode: Mode) -> Checked {
        self.check_source(from)?;
        self.check_page(to, mode)
    }

    /// Whether a block may be erased.
    ///
    /// # Errors
    /// See [`Nand::check_read`].
    pub fn check_erase(&self, block: Block) -> Checked {
        if self.flags[block.index()] & BAD_BLOCK == 0 {
            return Ok(());
        }
        Err(Rule::BadBlock.broken_by(Command::Erase, self.geometry.page(block, 0)))
    }

    /// The stored page to which a partial program may add.
    pub(super) fn appendable(&self, ppn: Ppn, at: usize, bytes: usize, mark: u16) -> Result<Slot, Rule> {
        let g = &self.geometry;
        let block = g.block_of(ppn);
        match (self.flags[block.index()], self.meta.find(ppn)) {
            _ if mark == BLANK_MARK => Err(Rule::BlankMark),
            (flags, _) if flags & BAD_BLOCK != 0 => Err(Rule::BadBlock),
            (flags, _) if flags & UNSAFE_BLOCK != 0 => Err(Rule::EraseCutShort),
            (_, None) => Err(Rule::NoMetadata),
            (_, Some(slot)) => {
                let nop = if self.is_slc_block(block) { g.slc_nop } else { g.nop };
                self.meta.may_append(slot, at, bytes, nop).map(|()| slot)
            }
        }
    }

    /// Whether a page may be copied.
    pub(super) fn check_source(&self, from: Ppn) -> Checked {
        let page = from.index();
        let rule = match self.spare[page] {
            BLANK => Rule::Blank,
            word if word == TORN || self.spoiled(page) => Rule::Torn,
            word if word >= METADATA && self.meta.find(from).is_none() => Rule::Moved,
            _ => return Ok(()),
        };
        Err(rule.broken_by(Command::Copy, from))
    }

    /// Whether a page may be programmed in a mode.
    fn check_page(&self, ppn: Ppn, mode: Mode) -> Checked {
        let g = &self.geometry;
        let (block, offset) = (g.block_of(ppn), g.offset_of(ppn));
        let (flags, is_slc) = (self.flags[block.index()], self.is_slc_block(block));
        let begun = if is_slc { self.slc_next[block.index()] } else { self.next[block.index()] };
        let in_order = match (mode, g.order) {
            (Mode::Slc, ProgramOrder::Strict) => offset == u32::from(begun),
            (Mode::Slc, ProgramOrder::Ascending) => offset >= u32::from(begun),
            (Mode::Slc, ProgramOrder::Any) => true,
            (_, order) => u32::from(begun) == offset || may_skip(order, begun, offset),
        };
        let rule = match flags {
            _ if mode == Mode::Slc && g.bits_per_cell <= 1 => Rule::OneBitCells,
            flags if flags & BAD_BLOCK != 0 => Rule::BadBlock,
            flags if flags & UNSAFE_BLOCK != 0 => Rule::EraseCutShort,
            SLC_BLOCK if mode != Mode::Slc => Rule::InSlcMode,
            0 if mode == Mode::Slc && begun != 0 => Rule::NotInSlcMode,
            _ if mode == Mode::Slc && offset >= g.slc_pages() => Rule::BeyondSlcPages,
            _ if self.spare[ppn.index()] != BLANK => Rule::NotBlank,
            _ if !in_order => Rule::OutOfOrder { next: begun.into() },
            _ => return Ok(()),
        };
        Err(rule.broken_by(Command::Program, ppn))
    }

    /// For a program that was found to break a rule.
    #[cold]
    #[inline(never)]
    pub(super) fn refuse_program(&self, ppn: Ppn, mode: Mode) -> ! {
        match self.check_page(ppn, mode) {
            Err(broken) => refuse(broken),
            Ok(()) => unreachable!("page {ppn} was refused, and no rule forbids it"),
        }
    }

    /// For a run of copies of host pages that was found to break a rule.
    #[cold]
    #[inline(never)]
    pub(super) fn refuse_copy(&self, source: Ppn, target: Ppn) -> ! {
        if let Err(broken) = self.check_source(source) {
            refuse(broken);
        }
        if self.spare[source.index()] >= METADATA {
            refuse(Rule::NoHostPage.broken_by(Command::Copy, source));
        }
        self.refuse_program(target, Mode::Normal)
    }
}

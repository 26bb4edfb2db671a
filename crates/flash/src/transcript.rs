//! A medium that writes down every command, for tests that hold a scheme to an exact sequence.

use crate::{Block, Cause, Chain, Flash, Geometry, Mode, Oob, Payload, Ppn};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::{self, Display, Formatter};

/// The decorator. Each command becomes a line: `R 0.2 data_gc` (block.page), `O` for a read of the spare area, `W` with
/// kind and address (`W 3.0 data 2 host`), `P 3.0 16 bytes at 3072 host` for a partial program, `E 0`. A copy is its
/// read and its program.
#[derive(Clone, Debug)]
pub struct Transcript<F> {
    inner: F,
    /// `None` if nothing is written down.
    lines: Option<Vec<Line>>,
}

/// A command that was written down; what it displays as is its line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Line {
    /// The block.
    pub block: Block,
    /// The page in it; 0 for an erase.
    pub offset: u32,
    /// What was done there.
    pub what: Noted,
    /// What for.
    pub cause: Cause,
}

/// What a command of a [`Transcript`] did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Noted {
    /// Read a page.
    Read,
    /// Read a spare area alone.
    ReadOob,
    /// Programmed a page with this record in its spare area.
    Program(Oob),
    /// Programmed bytes of a page.
    Append {
        /// Offset of the first in the page.
        at: u32,
        /// How many.
        bytes: u32,
    },
    /// Erased the block.
    Erase,
}

impl Display for Line {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Line { block, offset, what, cause } = *self;
        let cause = cause.name();
        match what {
            Noted::Read => write!(f, "R {block}.{offset} {cause}"),
            Noted::ReadOob => write!(f, "O {block}.{offset} {cause}"),
            Noted::Program(oob) => write!(f, "W {block}.{offset} {} {} {cause}", oob.kind.name(), oob.address),
            Noted::Append { at, bytes } => write!(f, "P {block}.{offset} {bytes} bytes at {at} {cause}"),
            Noted::Erase => write!(f, "E {block} {cause}"),
        }
    }
}

impl<F: Flash> Transcript<F> {
    /// Around `inner`.
    pub fn new(inner: F) -> Self {
        Transcript { inner, lines: Some(Vec::new()) }
    }

    /// Around `inner`, with nothing written down: where the same type is to serve without a transcript.
    pub fn silent(inner: F) -> Self {
        Transcript { inner, lines: None }
    }

    /// The lines so far, which are forgotten, as text.
    pub fn take(&mut self) -> Vec<String> {
        self.take_lines().iter().map(Line::to_string).collect()
    }

    /// The lines so far, which are forgotten.
    pub fn take_lines(&mut self) -> Vec<Line> {
        self.lines.as_mut().map(core::mem::take).unwrap_or_default()
    }

    #[inline]
    fn note(&mut self, ppn: Ppn, what: Noted, cause: Cause) {
        let Some(lines) = &mut self.lines else { return };
        let g = self.inner.geometry();
        lines.push(Line { block: g.block_of(ppn), offset: g.offset_of(ppn), what, cause });
    }

    /// The wrapped medium, to look at.
    pub fn inner(&self) -> &F {
        &self.inner
    }

    /// The wrapped medium.
    pub fn inner_mut(&mut self) -> &mut F {
        &mut self.inner
    }
}

impl<F: Flash> Flash for Transcript<F> {
    type User = F::User;
    type Fault = F::Fault;

    #[inline(always)]
    fn geometry(&self) -> &Geometry {
        self.inner.geometry()
    }
    #[inline(always)]
    fn read(&mut self, ppn: Ppn, cause: Cause) -> Result<(Oob, Payload<'_, F::User>), F::Fault> {
        self.note(ppn, Noted::Read, cause);
        self.inner.read(ppn, cause)
    }
    #[inline(always)]
    fn read_oob(&mut self, ppn: Ppn, cause: Cause) -> Result<Option<Oob>, F::Fault> {
        self.note(ppn, Noted::ReadOob, cause);
        self.inner.read_oob(ppn, cause)
    }
    #[inline(always)]
    fn program(&mut self, ppn: Ppn, oob: Oob, data: Payload<'_, F::User>, cause: Cause) -> Result<(), F::Fault> {
        self.note(ppn, Noted::Program(oob), cause);
        self.inner.program(ppn, oob, data, cause)
    }
    fn append(&mut self, ppn: Ppn, at: u32, bytes: &[u8], mark: u16, cause: Cause) -> Result<(), F::Fault> {
        self.note(ppn, Noted::Append { at, bytes: bytes.len() as u32 }, cause);
        self.inner.append(ppn, at, bytes, mark, cause)
    }
    #[inline(always)]
    fn copy(
        &mut self,
        from: Ppn,
        to: Ppn,
        cause: Cause,
        edit: impl FnOnce(&mut Oob, &mut [u32]),
    ) -> Result<Oob, F::Fault> {
        self.note(from, Noted::Read, cause);
        let oob = self.inner.copy(from, to, cause, edit)?;
        self.note(to, Noted::Program(oob), cause);
        Ok(oob)
    }
    fn erase(&mut self, block: Block, cause: Cause) -> Result<(), F::Fault> {
        let first = self.inner.geometry().page(block, 0);
        self.note(first, Noted::Erase, cause);
        self.inner.erase(block, cause)
    }
    fn chain(&mut self, next: Chain) -> Chain {
        self.inner.chain(next)
    }
    fn is_slc(&mut self, block: Block) -> bool {
        self.inner.is_slc(block)
    }
    fn tired(&self, from: Block) -> Option<Block> {
        self.inner.tired(from)
    }
    fn mode_of(&mut self, ppn: Ppn) -> Mode {
        self.inner.mode_of(ppn)
    }
    fn reserve_spare(&mut self, bytes: u32) -> bool {
        self.inner.reserve_spare(bytes)
    }
    fn stage_spare(&mut self, ppn: Ppn, bytes: &[u8]) {
        self.inner.stage_spare(ppn, bytes);
    }
    fn spare(&self, ppn: Ppn) -> &[u8] {
        self.inner.spare(ppn)
    }
}

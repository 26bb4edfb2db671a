//! A medium that writes down every command, for tests that hold a scheme to an exact sequence.

use crate::{Block, Cause, Chain, Flash, Geometry, Mode, Oob, Payload, Ppn};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// The decorator. Each command becomes a line: `R 0.2 data_gc` (block.page), `O` for a read of the spare area, `W` with
/// kind and address (`W 3.0 data 2 host`), `P 3.0 16 bytes at 3072 host` for a partial program, `E 0`. A copy is its
/// read and its program.
#[derive(Clone, Debug)]
pub struct Transcript<F> {
    inner: F,
    /// `None` if nothing is written down.
    lines: Option<Vec<String>>,
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

    /// The lines so far, which are forgotten.
    pub fn take(&mut self) -> Vec<String> {
        self.lines.as_mut().map(core::mem::take).unwrap_or_default()
    }

    #[inline]
    fn note(&mut self, line: impl FnOnce(&Self) -> String) {
        if self.lines.is_some() {
            let line = line(self);
            self.lines.get_or_insert_default().push(line);
        }
    }

    /// The wrapped medium, to look at.
    pub fn inner(&self) -> &F {
        &self.inner
    }

    /// The wrapped medium.
    pub fn inner_mut(&mut self) -> &mut F {
        &mut self.inner
    }

    fn at(&self, ppn: Ppn) -> String {
        let g = self.inner.geometry();
        format!("{}.{}", g.block_of(ppn), g.offset_of(ppn))
    }

    fn programmed(&mut self, ppn: Ppn, oob: &Oob, cause: Cause) {
        self.note(|this| {
            let kind = format!("{:?}", oob.kind).to_lowercase();
            format!("W {} {kind} {} {}", this.at(ppn), oob.address, cause.name())
        });
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
        self.note(|this| format!("R {} {}", this.at(ppn), cause.name()));
        self.inner.read(ppn, cause)
    }
    #[inline(always)]
    fn read_oob(&mut self, ppn: Ppn, cause: Cause) -> Result<Option<Oob>, F::Fault> {
        self.note(|this| format!("O {} {}", this.at(ppn), cause.name()));
        self.inner.read_oob(ppn, cause)
    }
    #[inline(always)]
    fn program(&mut self, ppn: Ppn, oob: Oob, data: Payload<'_, F::User>, cause: Cause) -> Result<(), F::Fault> {
        self.programmed(ppn, &oob, cause);
        self.inner.program(ppn, oob, data, cause)
    }
    fn append(&mut self, ppn: Ppn, at: u32, bytes: &[u8], mark: u16, cause: Cause) -> Result<(), F::Fault> {
        self.note(|this| format!("P {} {} bytes at {at} {}", this.at(ppn), bytes.len(), cause.name()));
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
        self.note(|this| format!("R {} {}", this.at(from), cause.name()));
        let oob = self.inner.copy(from, to, cause, edit)?;
        self.programmed(to, &oob, cause);
        Ok(oob)
    }
    fn erase(&mut self, block: Block, cause: Cause) -> Result<(), F::Fault> {
        self.note(|_| format!("E {block} {}", cause.name()));
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

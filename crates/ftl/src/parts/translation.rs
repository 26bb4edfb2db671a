//! The page map on flash: translation pages, found through the global translation directory (GTD) in RAM.
//!
//! Translation page `t` holds the PPNs of LPNs `t·E` to `(t+1)·E − 1`, four bytes each. It is written out of place: an
//! update reads the old page, changes entries in the page register and programs the new one. Its spare area carries a
//! watermark in place of a version (docs/recovery.md): every data page of these LPNs that was programmed before it is
//! reflected in the page. An update that leaves no dirty entry behind in the cache sets it to now; any other keeps it.

use crate::parts::space::Space;
use crate::{Error, Loader, Saver};
use alloc::vec;
use alloc::vec::Vec;
use flash::{Block, Cause, FaultKind, Flash, FlashFault, Oob, Payload, Ppn, Tvpn};

/// See the module's description.
#[derive(Clone, Debug)]
pub struct TranslationStore {
    directory: Vec<Ppn>,
    /// Entries of a translation page.
    entries: u32,
    /// The write stream of translation pages.
    stream: usize,
}

impl TranslationStore {
    /// For a map of `logical_pages` entries, `entries` to a page; none written yet.
    pub fn new(logical_pages: u32, entries: u32, stream: usize) -> Self {
        TranslationStore { directory: vec![Ppn::NONE; logical_pages.div_ceil(entries) as usize], entries, stream }
    }

    /// Translation pages that the map takes.
    pub fn count(&self) -> u32 {
        self.directory.len() as u32
    }

    /// The translation page of an LPN and the entry in it.
    #[inline(always)]
    pub fn locate(&self, lpn: u32) -> (Tvpn, usize) {
        // `entries` is a power of two: a page size over four.
        (Tvpn(lpn >> self.entries.trailing_zeros()), (lpn & (self.entries - 1)) as usize)
    }

    /// Where a translation page is; [`Ppn::NONE`] if it was never written.
    #[inline(always)]
    pub fn at(&self, tvpn: Tvpn) -> Ppn {
        self.directory[tvpn.index()]
    }

    /// While mounting: where a translation page is.
    pub fn found(&mut self, tvpn: Tvpn, ppn: Ppn) {
        self.directory[tvpn.index()] = ppn;
    }

    /// Writes a translation page anew after `edit`, which sees the entries as they are. `now` moves the watermark.
    ///
    /// # Errors
    /// Full; the medium's.
    pub fn update<F: Flash>(
        &mut self,
        flash: &mut F,
        space: &mut Space,
        tvpn: Tvpn,
        now: bool,
        cause: Cause,
        mut edit: impl FnMut(&mut [u32]),
    ) -> Result<(), Error<F::Fault>> {
        let old = self.at(tvpn);
        loop {
            let lane = space.streams[self.stream].turn();
            let to = space.page_on(flash, self.stream, lane)?;
            space.streams[self.stream].advance();
            let program = space.number();
            let result = if old == Ppn::NONE {
                let mut words = vec![Ppn::NONE.0; self.entries as usize];
                edit(&mut words);
                let watermark = if now { program } else { 0 };
                flash.program(to, Oob::translation(tvpn, watermark, program), Payload::Meta(&words), cause)
            } else {
                let copied = flash.copy(old, to, cause, |oob, words| {
                    edit(words);
                    oob.program = program;
                    if now {
                        oob.version = program;
                    }
                });
                copied.map(|_| ())
            };
            match result {
                Ok(()) => {
                    self.directory[tvpn.index()] = to;
                    if old != Ppn::NONE {
                        space.blocks.kill(old);
                    }
                    return Ok(());
                }
                Err(fault) if fault.kind() == FaultKind::ProgramFailed => space.abandon(to),
                Err(fault) => {
                    if fault.kind() == FaultKind::Uncorrectable {
                        space.give_back(self.stream, to);
                    }
                    return Err(fault.into());
                }
            }
        }
    }

    /// Moves the live translation pages out of a block; how many.
    ///
    /// # Errors
    /// Full; the medium's. What was moved before stays moved.
    pub fn empty<F: Flash>(
        &mut self,
        flash: &mut F,
        space: &mut Space,
        block: Block,
        cause: Cause,
    ) -> Result<u64, Error<F::Fault>> {
        let g = *flash.geometry();
        let die = g.die_of(block).index();
        let mut moved = 0;
        while let Some(offset) = space.blocks.next_live(block, 0) {
            let from = g.page(block, offset);
            let to = space.page_on(flash, self.stream, die)?;
            let program = space.number();
            match flash.copy(from, to, cause, |oob, _| oob.program = program) {
                Ok(oob) => {
                    self.directory[oob.tvpn().index()] = to;
                    space.blocks.kill(from);
                    moved += 1;
                }
                Err(fault) if fault.kind() == FaultKind::ProgramFailed => space.abandon(to),
                Err(fault) => {
                    if fault.kind() == FaultKind::Uncorrectable {
                        space.give_back(self.stream, to);
                    }
                    return Err(fault.into());
                }
            }
        }
        Ok(moved)
    }

    /// Bytes of the directory.
    pub fn memory(&self) -> u64 {
        self.directory.len() as u64 * 4
    }

    /// Saves the directory.
    pub fn save(&self, out: &mut Saver) {
        self.directory.iter().for_each(|ppn| out.u32(ppn.0));
    }

    /// Loads what [`TranslationStore::save`] saved.
    pub fn load(&mut self, from: &mut Loader<'_>) {
        self.directory.iter_mut().for_each(|ppn| *ppn = Ppn(from.u32()));
    }
}

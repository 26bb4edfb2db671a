//! The page map on flash: translation pages, found through the global translation directory (GTD) in RAM.
//!
//! Translation page `t` holds the PPNs of LPNs `t·E` to `(t+1)·E − 1`, four bytes each. It is written out of place: an
//! update reads the old page, changes entries in the page register and programs the new one. Its spare area carries a
//! watermark in place of a version (docs/recovery.md): every data page of these LPNs that was programmed before it is
//! reflected in the page. An update that leaves no dirty entry behind in the cache sets it to now; any other keeps it.

use crate::parts::lanes::{Lane, Stream};
use crate::parts::space::Space;
use crate::{Error, Loader, Outcome, Saver};
use alloc::vec;
use alloc::vec::Vec;
use flash::{Block, Cause, FaultKind, Flash, FlashFault, Geometry, Oob, Payload, Ppn, Tvpn};

/// See the module's description.
#[derive(Clone, Debug)]
pub struct TranslationStore {
    directory: Vec<Ppn>,
    /// Entries of a translation page.
    entries: u32,
    /// The write stream of translation pages.
    stream: Stream,
}

/// An entry that leads beyond the device was never written, and names no page.
#[inline(always)]
pub(crate) fn forget_beyond(entries: &mut [u32], g: &Geometry) {
    let pages = g.page_count();
    entries.iter_mut().for_each(|entry| *entry = if *entry < pages { *entry } else { Ppn::NONE.0 });
}

impl TranslationStore {
    /// For a map of `logical_pages` entries, `entries` to a page; none written yet.
    pub fn new(logical_pages: u32, entries: u32, stream: Stream) -> Self {
        TranslationStore { directory: vec![Ppn::NONE; logical_pages.div_ceil(entries) as usize], entries, stream }
    }

    /// Translation pages that the map takes.
    pub fn count(&self) -> u32 {
        self.directory.len() as u32
    }

    /// Entries of a translation page.
    #[inline(always)]
    pub fn page_entries(&self) -> u32 {
        self.entries
    }

    /// The translation page of an LPN and the entry in it.
    #[inline(always)]
    pub fn locate(&self, lpn: u32) -> (Tvpn, usize) {
        if self.entries.is_power_of_two() {
            (Tvpn(lpn >> self.entries.trailing_zeros()), (lpn & (self.entries - 1)) as usize)
        } else {
            (Tvpn(lpn / self.entries), (lpn % self.entries) as usize)
        }
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
    ) -> Outcome<F> {
        let old = self.at(tvpn);
        let (stream, entries) = (self.stream, self.entries as usize);
        let mode = space.mode(stream);
        let mut is_map = true;
        let to = place(flash, space, stream, |flash, to, program| {
            if old == Ppn::NONE {
                let mut words = vec![Ppn::NONE.0; entries];
                edit(&mut words);
                let watermark = if now { program } else { 0 };
                let oob = Oob { mode, ..Oob::translation(tvpn, watermark, program) };
                return flash.program(to, oob, Payload::Meta(&words), cause);
            }
            let copied = flash.copy(old, to, cause, |oob, words| {
                // What it was copied from may hold no map, whatever led here.
                is_map = !words.is_empty();
                if is_map {
                    edit(words);
                }
                oob.program = program;
                oob.mode = mode;
                if now {
                    oob.version = program;
                }
            });
            copied.map(|_| ())
        })?;
        if !is_map {
            return Err(Error::Corrupt);
        }
        self.put(space, tvpn, to);
        Ok(())
    }

    /// Writes a translation page of which every entry is known, without reading the old one. `now` moves the watermark;
    /// without it there is none.
    ///
    /// # Errors
    /// As [`TranslationStore::update`].
    pub fn rewrite<F: Flash>(
        &mut self,
        flash: &mut F,
        space: &mut Space,
        tvpn: Tvpn,
        words: &[u32],
        now: bool,
        cause: Cause,
    ) -> Outcome<F> {
        let mode = space.mode(self.stream);
        let to = place(flash, space, self.stream, |flash, to, program| {
            let watermark = if now { program } else { 0 };
            let oob = Oob { mode, ..Oob::translation(tvpn, watermark, program) };
            flash.program(to, oob, Payload::Meta(words), cause)
        })?;
        self.put(space, tvpn, to);
        Ok(())
    }

    /// The page was written to `to`: the one before dies.
    #[inline]
    fn put(&mut self, space: &mut Space, tvpn: Tvpn, to: Ppn) {
        let old = core::mem::replace(&mut self.directory[tvpn.index()], to);
        if old != Ppn::NONE {
            space.blocks.kill(old);
        }
    }

    /// Moves up to `limit` live translation pages out of a block; how many.
    ///
    /// # Errors
    /// Full; the medium's. What was moved before stays moved.
    pub fn empty<F: Flash>(
        &mut self,
        flash: &mut F,
        space: &mut Space,
        block: Block,
        limit: u32,
        cause: Cause,
    ) -> Outcome<F, u64> {
        let g = *flash.geometry();
        let die = g.die_of(block);
        let mut moved = 0;
        while moved < u64::from(limit)
            && let Some(offset) = space.blocks.next_live(block, 0)
        {
            let from = g.page(block, offset);
            let to = space.page_on(flash, self.stream, Lane::of(die))?;
            let program = space.number_for(flash, to);
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

/// Takes the next page of a stream and lets `write` write it, given the page and its program number; takes another as
/// often as the program fails.
#[inline]
fn place<F: Flash>(
    flash: &mut F,
    space: &mut Space,
    stream: Stream,
    mut write: impl FnMut(&mut F, Ppn, u64) -> Result<(), F::Fault>,
) -> Outcome<F, Ppn> {
    loop {
        // A collection's updates stay on its die; the others go round.
        let home = space.collector.home;
        let lane = home.map_or(space.streams[stream.index()].turn(), Lane::of);
        let to = space.page_on(flash, stream, lane)?;
        if home.is_none() {
            space.streams[stream.index()].advance();
        }
        let program = space.number_for(flash, to);
        match write(flash, to, program) {
            Ok(()) => {
                let die = lane.die(space.blocks.geometry());
                space.collector.owe(die);
                return Ok(to);
            }
            Err(fault) if fault.kind() == FaultKind::ProgramFailed => space.abandon(to),
            Err(fault) => {
                if fault.kind() == FaultKind::Uncorrectable {
                    space.give_back(stream, to);
                }
                return Err(fault.into());
            }
        }
    }
}

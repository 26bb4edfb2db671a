//! Merges: how pages leave the log area, one piece of code for each.
//!
//! A *full* merge copies the newest pages of a logical block to a free block; a *partial* one copies what is missing
//! into a log block that holds the rest in its own place; a *switch* copies nothing, for the log block holds all. Full
//! and partial are the same copying with another target, and all three end in the same step: the target is the data
//! block. Until then every source stays live, so that a program that fails, or a power cut, costs the target alone.

use super::core::{Content, Core, DENSE};
use super::log::{NONE, Slot};
use crate::Error;
use flash::{Block, Cause, Collection, FaultKind, Flash, FlashFault, Kind, Lpn};

/// A page that the host writes while its logical block is being merged.
#[derive(Debug)]
pub struct NewPage<'a, U: ?Sized> {
    /// Its place in the logical block.
    pub offset: u32,
    /// Its version.
    pub version: u64,
    /// What it holds.
    pub content: Content<'a, U>,
}

impl<U: ?Sized> Clone for NewPage<'_, U> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<U: ?Sized> Copy for NewPage<'_, U> {}

/// How a log block of a single logical block was merged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Merge {
    /// It became the data block.
    Switch,
    /// It became the data block once the missing pages were copied in.
    Partial,
    /// The logical block was written anew.
    Full,
}

impl Core {
    /// Whether every live page of a log block is in its own place in this logical block.
    pub fn is_aligned(&self, slot: Slot, lbn: u32) -> bool {
        let block = self.slots.block(slot);
        let mut at = self.pool.blocks.next_live(block, 0);
        while let Some(offset) = at {
            if self.split(self.slots.lpn_at(slot, offset)) != (lbn, offset) {
                return false;
            }
            at = self.pool.blocks.next_live(block, offset + 1);
        }
        true
    }

    /// Whether all pages that `target` lacks of a logical block can be programmed in their places, ascending.
    pub fn can_take_rest(&self, lbn: u32, target: Block) -> bool {
        let missing = |lpn: Lpn| self.lookup(lpn).is_some_and(|ppn| self.g.block_of(ppn) != target);
        self.lpns(lbn).map(Lpn).all(|lpn| !missing(lpn) || self.is_writable(target, self.split(lpn).1))
    }

    /// Copies the newest pages that `target` lacks of a logical block to their places, ascending; `new` is written
    /// instead of being copied. They are noted in `moved`; nothing dies yet. False if a program failed.
    fn fill<F: Flash>(
        &mut self,
        flash: &mut F,
        lbn: u32,
        target: Block,
        cause: Cause,
        new: Option<NewPage<'_, F::User>>,
    ) -> Result<bool, Error<F::Fault>> {
        self.moved.clear();
        let old = self.data_block(lbn);
        let lpns = self.lpns(lbn);
        let count = lpns.len() as u32;
        let mut offset = 0;
        while offset < count {
            if let Some(new) = new.filter(|new| new.offset == offset) {
                if !self.pad(flash, target, offset, cause)? {
                    return Ok(false);
                }
                let page = (Kind::Data, Lpn(lpns.start + offset), new.version);
                if !self.program(flash, self.g.page(target, offset), page, new.content)? {
                    return Ok(false);
                }
                self.moved.push(offset);
                offset += 1;
                continue;
            }
            let logged = self.in_log(Lpn(lpns.start + offset));
            let live = old.map_or(0, |old| self.pool.blocks.live_bits(old, offset / 64) >> (offset % 64));
            let (from, run) = match (logged, old) {
                (Some(ppn), _) => (ppn, 1),
                (None, Some(old)) if live & 1 == 1 => {
                    // A page that lives in the data block has none in the log, and a hole may be among them.
                    let holes = self.is_mapped(Lpn(lpns.start + offset)).is_none();
                    let before_new = new.filter(|new| new.offset > offset).map_or(64, |new| new.offset - offset);
                    let run = if holes { 1 } else { live.trailing_ones().min(before_new) };
                    (self.g.page(old, offset), run)
                }
                _ => {
                    offset += 1;
                    continue;
                }
            };
            if self.g.block_of(from) == target {
                offset += 1;
                continue;
            }
            if !self.pad(flash, target, offset, cause)? {
                return Ok(false);
            }
            let to = self.g.page(target, offset);
            let program = self.pool.number();
            let (copied, result) = if run == 1 {
                let edit = |oob: &mut flash::Oob, _: &mut [u32]| {
                    oob.program = program;
                    if oob.kind == Kind::Log {
                        oob.kind = Kind::Data;
                    }
                };
                let result = flash.copy(from, to, cause, edit);
                (u32::from(result.is_ok()), result.map(|_| ()))
            } else {
                let bits = if run == 64 { u64::MAX } else { (1 << run) - 1 };
                let ended = flash.copy_run(from, bits, to, program, cause, |_, _| {});
                (1..run).for_each(|_| _ = self.pool.number());
                ended
            };
            for done in 0..copied {
                self.written.set(flash::Ppn(to.0 + done));
                self.moved.push(offset + done);
            }
            match result {
                Ok(()) => {}
                Err(fault) if fault.kind() == FaultKind::ProgramFailed => return Ok(false),
                Err(fault) => return Err(fault.into()),
            }
            offset += run;
        }
        Ok(true)
    }

    /// `target`, into which the pages in `moved` were copied, is the data block now. The one before, if it was another.
    fn install(&mut self, lbn: u32, target: Block) -> Option<Block> {
        let old = self.data_block(lbn);
        let moved = core::mem::take(&mut self.moved);
        self.change_terms(lbn, |core| {
            let first = core.lpns(lbn).start;
            for &offset in &moved {
                core.supersede(Lpn(first + offset));
                core.pool.blocks.revive(core.g.page(target, offset));
            }
            for lpn in core.lpns(lbn) {
                let ppn = core.log_map[lpn as usize];
                if ppn != NONE && core.g.block_of(flash::Ppn(ppn)) == target {
                    core.log_map[lpn as usize] = NONE;
                    core.logged[lbn as usize] -= 1;
                }
            }
            core.data[lbn as usize] = target.0;
        });
        self.moved = moved;
        if let Some(slot) = self.slots.of(target) {
            self.remove_log_block(slot);
        }
        old
    }

    /// Writes the newest pages of a logical block, `new` among them, to a free block, which becomes its data block. The
    /// block that was it, with nothing live in it, is the caller's.
    ///
    /// # Errors
    /// Full (nothing has changed), or the medium's.
    pub fn full_merge<F: Flash>(
        &mut self,
        flash: &mut F,
        lbn: u32,
        cause: Cause,
        new: Option<NewPage<'_, F::User>>,
    ) -> Result<Option<Block>, Error<F::Fault>> {
        self.merges.fulls += 1;
        if new.is_none()
            && self.logged[lbn as usize] == 0
            && self.data_block(lbn).is_none_or(|old| self.pool.blocks.live_of(old) == 0)
        {
            let old = self.data_block(lbn);
            self.data[lbn as usize] = NONE;
            return Ok(old);
        }
        loop {
            let target = self.take_block(flash)?;
            match self.fill(flash, lbn, target, cause, new) {
                Ok(true) => return Ok(self.install(lbn, target)),
                Ok(false) => {
                    self.doom(target);
                    self.dispose(flash, target, cause)?;
                }
                Err(error) => {
                    // What it holds are copies: it is erased before its next use.
                    self.pool.blocks.give_back(target);
                    return Err(error);
                }
            }
        }
    }

    /// Merges a log block that holds pages of one logical block alone, as cheaply as its content allows, and `new` with
    /// it. It is a log block no more. `obsolete` is handed the block that was the data block.
    ///
    /// # Errors
    /// Full, or the medium's.
    pub fn merge_block<F: Flash>(
        &mut self,
        flash: &mut F,
        slot: Slot,
        lbn: u32,
        new: Option<NewPage<'_, F::User>>,
        obsolete: &mut impl FnMut(&mut Core, &mut F, Block, Cause) -> Result<(), Error<F::Fault>>,
    ) -> Result<Merge, Error<F::Fault>> {
        let target = self.slots.block(slot);
        let sound = !self.pool.failed.contains(&target);
        let mut gc = Collection::on(flash);
        if sound && self.is_aligned(slot, lbn) {
            let new_fits = new.is_none_or(|new| self.is_writable(target, new.offset));
            let done = if new.is_none() && self.pool.blocks.live_of(target) == self.lpns(lbn).len() as u32 {
                self.moved.clear();
                self.merges.switches += 1;
                Some((Merge::Switch, Cause::MergeSwitch))
            } else if !new_fits || !self.can_take_rest(lbn, target) {
                None
            } else if self.fill(&mut *gc, lbn, target, Cause::MergePartial, new)? {
                self.merges.partials += 1;
                Some((Merge::Partial, Cause::MergePartial))
            } else {
                self.doom(target);
                None
            };
            if let Some((merge, cause)) = done {
                if let Some(old) = self.install(lbn, target) {
                    gc.then();
                    obsolete(self, &mut *gc, old, cause)?;
                }
                return Ok(merge);
            }
        }
        if let Some(old) = self.full_merge(&mut *gc, lbn, Cause::MergeFull, new)? {
            gc.then();
            obsolete(self, &mut *gc, old, Cause::MergeFull)?;
        }
        gc.then();
        self.erase_log_block(&mut *gc, slot, Cause::MergeFull)?;
        Ok(Merge::Full)
    }

    /// Cleans a log block: every logical block with a live page in it is merged, and it is erased.
    ///
    /// # Errors
    /// Full (what was merged until then is), or the medium's.
    pub fn clean<F: Flash>(
        &mut self,
        flash: &mut F,
        victim: Slot,
        obsolete: &mut impl FnMut(&mut Core, &mut F, Block, Cause) -> Result<(), Error<F::Fault>>,
    ) -> Result<(), Error<F::Fault>> {
        let lbns = self.logical_blocks_in(victim);
        self.merges.cleaned += 1;
        self.merges.dead += u64::from(lbns.is_empty());
        self.merges.density += lbns.len() as u64;
        self.merges.dense += u64::from(lbns.len() >= DENSE);
        self.merges.most_density = self.merges.most_density.max(lbns.len() as u64);
        let mut gc = Collection::on(flash);
        for lbn in lbns {
            if let Some(old) = self.full_merge(&mut *gc, lbn, Cause::MergeFull, None)? {
                gc.then();
                obsolete(self, &mut *gc, old, Cause::MergeFull)?;
            }
        }
        gc.then();
        self.erase_log_block(&mut *gc, victim, Cause::MergeFull)
    }

    /// Erases a log block without live pages; every other has grown older.
    ///
    /// # Errors
    /// The medium's.
    pub fn erase_log_block<F: Flash>(
        &mut self,
        flash: &mut F,
        slot: Slot,
        cause: Cause,
    ) -> Result<(), Error<F::Fault>> {
        let block = self.remove_log_block(slot);
        if let Some(scores) = &mut self.scores {
            scores.erased();
        }
        self.dispose(flash, block, cause)
    }

    /// Free page reuse (S2, section 3.4): if an obsolete block has more blank pages than the emptiest closed log block
    /// has live ones, these move there, the obsolete block takes the log block's place, and the log block is erased.
    /// The slot of the obsolete block, which is held for filling; `None` if it does not pay.
    ///
    /// # Errors
    /// The medium's.
    pub fn reuse<F: Flash>(
        &mut self,
        flash: &mut F,
        obsolete: Block,
        victim: Slot,
    ) -> Result<Option<(Slot, u32)>, Error<F::Fault>> {
        let from = self.next_writable(obsolete, 0);
        let blank = self.blank_pages(obsolete);
        let (Some(first), Some((source, live))) = (from, self.slots.emptiest(victim)) else { return Ok(None) };
        if blank <= live {
            return Ok(None);
        }
        let block = self.slots.block(source);
        let mut moves: alloc::vec::Vec<(u32, u32)> = alloc::vec::Vec::with_capacity(live as usize);
        let (mut at, mut to) = (self.pool.blocks.next_live(block, 0), first);
        while let Some(offset) = at {
            to = self.next_writable(obsolete, to).expect("there are more blank pages than live ones");
            let (target, program) = (self.g.page(obsolete, to), self.pool.number());
            self.written.set(target);
            let edit = |oob: &mut flash::Oob, _: &mut [u32]| {
                oob.program = program;
                if oob.kind == Kind::Data {
                    oob.kind = Kind::Log;
                }
            };
            match flash.copy(self.g.page(block, offset), target, Cause::Swap, edit) {
                Ok(_) => moves.push((offset, to)),
                Err(fault) if fault.kind() == FaultKind::ProgramFailed => {
                    self.doom(obsolete);
                    return Ok(None);
                }
                Err(fault) => return Err(fault.into()),
            }
            at = self.pool.blocks.next_live(block, offset + 1);
        }
        let slot = self.add_log_block(obsolete);
        for (offset, to) in moves {
            let lpn = self.slots.lpn_at(source, offset);
            let (lbn, _) = self.split(lpn);
            self.change_terms(lbn, |core| core.enter_log(lpn, slot, to));
        }
        self.erase_log_block(flash, source, Cause::Swap)?;
        Ok(Some((slot, live)))
    }

    /// A data block in which everything was discarded is erased.
    ///
    /// # Errors
    /// The medium's.
    pub fn release_if_dead<F: Flash>(&mut self, flash: &mut F, lbn: u32) -> Result<(), Error<F::Fault>> {
        let Some(block) = self.data_block(lbn) else { return Ok(()) };
        if self.pool.blocks.live_of(block) > 0 || self.is_blank(block) {
            return Ok(());
        }
        self.change_terms(lbn, |core| core.data[lbn as usize] = NONE);
        self.dispose(flash, block, Cause::DataGc)
    }

    /// Moves what blocks hold that failed a program, and marks them bad.
    ///
    /// # Errors
    /// Full, or the medium's.
    pub fn tidy<F: Flash>(&mut self, flash: &mut F) -> Result<(), Error<F::Fault>> {
        let mut erase = |core: &mut Core, flash: &mut F, block: Block, cause: Cause| core.dispose(flash, block, cause);
        while let Some(&block) = self.pool.failed.last() {
            if let Some(slot) = self.slots.of(block) {
                self.clean(flash, slot, &mut erase)?;
            } else if let Some(lbn) = self.data.iter().position(|&data| data == block.0) {
                if let Some(old) = self.full_merge(flash, lbn as u32, Cause::MergeFull, None)? {
                    self.dispose(flash, old, Cause::MergeFull)?;
                }
            } else {
                self.dispose(flash, block, Cause::Metadata)?;
            }
        }
        Ok(())
    }
}

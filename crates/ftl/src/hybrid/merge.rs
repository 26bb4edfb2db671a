//! Merges: how pages leave the log area, one piece of code for each.
//!
//! A *full* merge copies the newest pages of a logical block to a free block; a *partial* one copies what is missing
//! into a log block that holds the rest in its own place; a *switch* copies nothing, for the log block holds all. Full
//! and partial are the same copying with another target, and all three end in the same step: the target is the data
//! block. Until then every source stays live, so that a program that fails, or a power cut, costs the target alone.
//!
//! What is copied is found before the first copy. It takes reads where the placement keeps its map on flash.

use super::erase_obsolete;
use super::log::{NONE, Slot};
use super::placement::Placement;
use super::state::{Core, Write};
use crate::Outcome;
use alloc::vec::Vec;
use flash::{Block, Cause, Collection, Flash, Kind, Lbn, Lpn, Ppn};

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

/// What a merge brings to its target: a run of pages, or the page that the host writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Source {
    /// The first one's place in the logical block.
    offset: u32,
    /// Where it lies; [`Ppn::NONE`] for the host's.
    from: Ppn,
    /// How many, one behind the other in both.
    run: u32,
}

impl Source {
    fn offsets(self) -> core::ops::Range<u32> {
        self.offset..self.offset + self.run
    }
}

/// Whether the copies of a cause are none of a merge, but move a block for its own sake.
fn moves(cause: Cause) -> bool {
    matches!(cause, Cause::WearLevelling | Cause::Refresh)
}

/// The pages of a merge are on their way. If the host's page is among them, it is taken out of `new`: its write is
/// answered when they are on flash.
fn answer<F: Flash>(gc: &mut Collection<'_, F>, new: &mut Option<Write<'_, F>>) {
    if new.take().is_some() {
        gc.wait_so_far();
    }
}

impl<P: Placement> Core<P> {
    /// Opens the scope of a merge, which none other surrounds. What it erases may have held pages that other merges for
    /// the same page of the host have copied away, and their programs may still be under way on other dies: behind
    /// [`Collection::then`] it waits for all of them.
    ///
    /// # Errors
    /// Those of `merge`.
    pub fn in_merge<F: Flash, T>(
        &mut self,
        flash: &mut F,
        merge: impl FnOnce(&mut Self, &mut Collection<'_, F>) -> Outcome<F, T>,
    ) -> Outcome<F, T> {
        let mut gc = Collection::resume(flash, self.merged);
        let merged = merge(self, &mut gc);
        self.merged = gc.pause();
        merged
    }

    /// Whether every live page of a log block is in its own place in this logical block.
    pub fn is_aligned(&self, slot: Slot, lbn: Lbn) -> bool {
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

    /// Finds what `target` lacks of a logical block, in the order of its pages; the page at `new` is the host's.
    fn find_sources<F: Flash>(
        &mut self,
        flash: &mut F,
        lbn: Lbn,
        target: Option<Block>,
        new: Option<u32>,
    ) -> Outcome<F> {
        P::load(self, flash, lbn)?;
        let mut sources = core::mem::take(&mut self.sources);
        sources.clear();
        let old = self.data_block(lbn);
        let lpns = self.lpns(lbn);
        let mut offset = 0;
        while offset < lpns.len() as u32 {
            let lpn = Lpn(lpns.start + offset);
            let mut run = 1;
            if new == Some(offset) {
                sources.push(Source { offset, from: Ppn::NONE, run });
            } else if let Some(from) = self.in_log(lpn) {
                if Some(self.g.block_of(from)) != target && !self.place.is_discarded(lpn) {
                    sources.push(Source { offset, from, run });
                }
            } else if let Some(old) = old {
                // A page that lives in the data block has none in the log.
                let live = self.pool.blocks.live_bits(old, offset / 64) >> (offset % 64);
                if live & 1 == 1 {
                    let (from, behind) = P::place(self, old, offset);
                    let before_new = new.filter(|&new| new > offset).map_or(u64::BITS, |new| new - offset);
                    run = live.trailing_ones().min(behind).min(before_new);
                    sources.push(Source { offset, from, run });
                }
            }
            offset += run;
        }
        self.sources = sources;
        Ok(())
    }

    /// Copies what was found to `target`, and writes `new`; nothing dies yet. Returns how many of the sources are
    /// there: fewer than all if a program failed, and the target is doomed.
    fn fill<F: Flash>(
        &mut self,
        flash: &mut F,
        lbn: Lbn,
        target: Block,
        cause: Cause,
        new: Option<Write<'_, F>>,
    ) -> Outcome<F, usize> {
        let first = self.lpns(lbn).start;
        for i in 0..self.sources.len() {
            let Source { offset, from, run } = self.sources[i];
            let page = P::next(self, target, offset).expect("a merge has room for all that it found");
            let padding = if P::APPENDS { Cause::Metadata } else { cause };
            if !self.pad(flash, target, page, padding)? {
                return Ok(i);
            }
            let (to, lpn) = (self.g.page(target, page), Lpn(first + offset));
            let done = match new {
                Some(new) if from == Ppn::NONE => self.program(flash, to, Kind::Data, new)?,
                _ if run == 1 => {
                    P::stage(self, flash, lpn, to)?;
                    let done = self.copy(flash, (from, to), Some(Kind::Data), cause)?;
                    P::programmed(self, lpn, to, done);
                    self.merges.copies += u64::from(done && !moves(cause));
                    done
                }
                _ => self.copy_run(flash, (from, run), to, cause)?,
            };
            if !done {
                return Ok(i);
            }
        }
        Ok(self.sources.len())
    }

    /// Copies pages that are in their places to the same places of another block. False if a program failed: the block
    /// is doomed.
    fn copy_run<F: Flash>(
        &mut self,
        flash: &mut F,
        (from, run): (Ppn, u32),
        to: Ppn,
        cause: Cause,
    ) -> Outcome<F, bool> {
        let bits = if run == u64::BITS { u64::MAX } else { (1 << run) - 1 };
        let program = self.pool.number_for(flash, to);
        self.pool.program += u64::from(run) - 1;
        let (copied, result) = flash.copy_run(from, bits, to, program, cause, |_, _| {});
        (0..copied).for_each(|page| self.written.set(Ppn(to.0 + page)));
        self.programmed::<F>(to, result)
    }

    /// `target`, to which the sources were brought, is the data block now, or none is if there were none. The one
    /// before, if it was another.
    fn install(&mut self, lbn: Lbn, target: Option<Block>) -> Option<Block> {
        let old = self.data_block(lbn);
        let sources = core::mem::take(&mut self.sources);
        self.change_terms(lbn, |core| {
            let lpns = core.lpns(lbn);
            for offset in sources.iter().flat_map(|source| source.offsets()) {
                core.supersede(Lpn(lpns.start + offset));
                target.iter().for_each(|&target| core.pool.blocks.revive(core.g.page(target, offset)));
            }
            for lpn in lpns.map(Lpn) {
                if core.place.recall(lpn) {
                    core.supersede(lpn);
                } else if core.in_log(lpn).is_some_and(|ppn| Some(core.g.block_of(ppn)) == target) {
                    core.log_map[lpn.index()] = NONE;
                    core.logged[lbn.index()] -= 1;
                }
            }
            core.data[lbn.index()] = target.map_or(NONE, |target| target.0);
        });
        self.sources = sources;
        if let Some(slot) = target.and_then(|target| self.slots.of(target)) {
            self.remove_log_block(slot);
        }
        P::installed(self, lbn);
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
        lbn: Lbn,
        cause: Cause,
        new: Option<Write<'_, F>>,
    ) -> Outcome<F, Option<Block>> {
        self.merges.fulls += u64::from(!moves(cause));
        self.find_sources(flash, lbn, None, new.map(|new| self.split(new.lpn).1))?;
        if self.sources.is_empty() {
            return Ok(self.install(lbn, None));
        }
        loop {
            let target = self.take_block(flash)?;
            match self.fill(flash, lbn, target, cause, new) {
                Ok(all) if all == self.sources.len() => return Ok(self.install(lbn, Some(target))),
                Ok(_) => self.dispose(flash, target, cause)?,
                Err(error) => {
                    // What it holds are copies, and perhaps a page whose write fails: it is erased before its next use.
                    self.pool.blocks.give_back(target);
                    return Err(error);
                }
            }
        }
    }

    /// Merges a log block that holds pages of one logical block alone, as cheaply as its content allows, and `new` with
    /// it. It is a log block no more. `obsolete` is handed the block that was the data block.
    ///
    /// `new` is for placements that keep pages in their places. It is taken once it counts, which it may do where the
    /// merge fails: in the log block, of which a later program failed.
    ///
    /// # Errors
    /// Full, or the medium's.
    pub fn merge_block<F: Flash>(
        &mut self,
        flash: &mut F,
        slot: Slot,
        lbn: Lbn,
        new: &mut Option<Write<'_, F>>,
        obsolete: &mut impl FnMut(&mut Core<P>, &mut Collection<'_, F>, Block, Cause) -> Outcome<F>,
    ) -> Outcome<F, Merge> {
        self.in_merge(flash, |core, gc| core.merge_block_in(gc, slot, lbn, new, obsolete))
    }

    /// Whether [`Core::merge_block`], which has ended in an error, gave the log block up: it failed a program of the
    /// merge, and no other block was free. It is closed then and emptied like any that failed, and whoever filled it
    /// lets go of it.
    pub fn has_given_up(&mut self, slot: Slot) -> bool {
        let failed = self.pool.doomed.contains(&self.slots.block(slot));
        if failed {
            self.close(slot);
        }
        failed
    }

    fn merge_block_in<F: Flash>(
        &mut self,
        gc: &mut Collection<'_, F>,
        slot: Slot,
        lbn: Lbn,
        new: &mut Option<Write<'_, F>>,
        obsolete: &mut impl FnMut(&mut Core<P>, &mut Collection<'_, F>, Block, Cause) -> Outcome<F>,
    ) -> Outcome<F, Merge> {
        debug_assert!(new.is_none() || !P::APPENDS);
        let target = self.slots.block(slot);
        let sound = !self.pool.doomed.contains(&target);
        if sound && self.is_aligned(slot, lbn) {
            let has_all = new.is_none() && self.pool.blocks.live_of(target) == self.lpns(lbn).len() as u32;
            if has_all {
                self.sources.clear();
            } else {
                self.find_sources(&mut **gc, lbn, Some(target), new.map(|new| self.split(new.lpn).1))?;
            }
            let fits = |offset: u32| self.is_writable(target, offset);
            let switches = has_all || P::APPENDS && self.sources.is_empty();
            if self.sources.iter().all(|source| source.offsets().all(fits)) {
                let brought = self.fill(&mut **gc, lbn, target, Cause::MergePartial, *new)?;
                if brought == self.sources.len() {
                    let (merge, cause) = match switches {
                        true => (Merge::Switch, Cause::MergeSwitch),
                        false => (Merge::Partial, Cause::MergePartial),
                    };
                    self.merges.switches += u64::from(switches);
                    self.merges.partials += u64::from(!switches);
                    answer(gc, new);
                    if let Some(old) = self.install(lbn, Some(target)) {
                        gc.then();
                        obsolete(self, gc, old, cause)?;
                    }
                    return Ok(merge);
                }
                // The host's page may be there already, and a mount would find it whatever becomes of the merge.
                if let Some(source) = self.sources[..brought].iter().find(|source| source.from == Ppn::NONE) {
                    let offset = source.offset;
                    self.enter_scored(Lpn(self.lpns(lbn).start + offset), slot, offset);
                    answer(gc, new);
                }
            }
        }
        let old = self.full_merge(&mut **gc, lbn, Cause::MergeFull, *new)?;
        answer(gc, new);
        if let Some(old) = old {
            gc.then();
            obsolete(self, gc, old, Cause::MergeFull)?;
        }
        gc.then();
        self.erase_log_block(&mut **gc, slot, Cause::MergeFull)?;
        Ok(Merge::Full)
    }

    /// Writes a logical block anew, as [`Core::full_merge`] does, and erases what was its data block.
    ///
    /// # Errors
    /// Full, or the medium's.
    pub fn rewrite<F: Flash>(&mut self, flash: &mut F, lbn: Lbn, cause: Cause) -> Outcome<F> {
        self.in_merge(flash, |core, gc| {
            let Some(old) = core.full_merge(&mut **gc, lbn, cause, None)? else { return Ok(()) };
            gc.then();
            core.dispose(&mut **gc, old, cause)
        })
    }

    /// Cleans a log block: every logical block with a live page in it is merged, and it is erased.
    ///
    /// # Errors
    /// Full (what was merged until then is), or the medium's.
    pub fn clean<F: Flash>(
        &mut self,
        flash: &mut F,
        victim: Slot,
        obsolete: &mut impl FnMut(&mut Core<P>, &mut Collection<'_, F>, Block, Cause) -> Outcome<F>,
    ) -> Outcome<F> {
        let lbns = self.logical_blocks_in(victim);
        self.merges.clean(lbns.len(), self.taken_in(victim));
        self.merges.dead += u64::from(lbns.is_empty());
        self.in_merge(flash, |core, gc| {
            for lbn in lbns {
                if let Some(old) = core.full_merge(&mut **gc, lbn, Cause::MergeFull, None)? {
                    gc.then();
                    obsolete(core, gc, old, Cause::MergeFull)?;
                }
            }
            gc.then();
            core.erase_log_block(&mut **gc, victim, Cause::MergeFull)
        })
    }

    /// Erases log blocks in which merges have left nothing live.
    ///
    /// # Errors
    /// The medium's.
    pub fn erase_dead<F: Flash>(&mut self, flash: &mut F, slots: &[Slot], cause: Cause) -> Outcome<F> {
        self.in_merge(flash, |core, gc| {
            gc.then();
            slots.iter().try_for_each(|&slot| core.erase_log_block(&mut **gc, slot, cause))
        })
    }

    /// Erases a log block without live pages; every other has grown older.
    fn erase_log_block<F: Flash>(&mut self, flash: &mut F, slot: Slot, cause: Cause) -> Outcome<F> {
        let block = self.remove_log_block(slot);
        if let Some(scores) = &mut self.scores {
            scores.erased();
        }
        if let Some(ages) = &mut self.ages {
            ages.erased();
        }
        self.dispose(flash, block, cause)
    }

    /// Free page reuse (the ROSE thesis, section 3.4): if an obsolete block has more blank pages than the emptiest
    /// closed log block has live ones, these move there, the obsolete block takes the log block's place, and the log
    /// block is erased. The slot of the obsolete block, which is held for filling; `None` if it does not pay.
    ///
    /// # Errors
    /// The medium's.
    pub fn reuse<F: Flash>(
        &mut self,
        gc: &mut Collection<'_, F>,
        obsolete: Block,
        victim: Slot,
    ) -> Outcome<F, Option<(Slot, u32)>> {
        let from = self.next_writable(obsolete, 0);
        let blank = self.blank_pages(obsolete);
        let (Some(first), Some((source, live))) = (from, self.slots.emptiest(victim)) else { return Ok(None) };
        if blank <= live {
            return Ok(None);
        }
        let block = self.slots.block(source);
        let mut moves: Vec<(Lpn, u32)> = Vec::with_capacity(live as usize);
        let (mut at, mut to) = (self.pool.blocks.next_live(block, 0), first);
        while let Some(offset) = at {
            to = self.next_writable(obsolete, to).expect("there are more blank pages than live ones");
            let (from, target) = (self.g.page(block, offset), self.g.page(obsolete, to));
            if let Some(ages) = &self.ages {
                self.pool.stage_spare(&mut **gc, target, ages.carry_now());
            }
            if !self.copy(&mut **gc, (from, target), Some(Kind::Log), Cause::Swap)? {
                return Ok(None);
            }
            moves.push((self.slots.lpn_at(source, offset), to));
            at = self.pool.blocks.next_live(block, offset + 1);
        }
        let slot = self.add_log_block(obsolete);
        self.slots.advance(slot, first);
        for (lpn, to) in moves {
            self.change_terms(self.split(lpn).0, |core| core.enter_log(lpn, slot, to));
            self.slots.advance(slot, to + 1);
        }
        gc.then();
        self.erase_log_block(&mut **gc, source, Cause::Swap)?;
        Ok(Some((slot, live)))
    }

    /// A data block in which everything was discarded is erased.
    ///
    /// # Errors
    /// The medium's.
    pub fn release_if_dead<F: Flash>(&mut self, flash: &mut F, lbn: Lbn) -> Outcome<F> {
        let Some(block) = self.data_block(lbn) else { return Ok(()) };
        if self.pool.blocks.live_of(block) > 0 || self.is_blank(block) {
            return Ok(());
        }
        self.change_terms(lbn, |core| core.data[lbn.index()] = NONE);
        self.dispose(flash, block, Cause::DataGc)
    }

    /// Moves what blocks hold that failed a program, and marks them bad.
    ///
    /// # Errors
    /// Full, or the medium's.
    pub fn tidy<F: Flash>(&mut self, flash: &mut F) -> Outcome<F> {
        while let Some(&block) = self.pool.doomed.last() {
            if let Some(slot) = self.slots.of(block) {
                self.clean(flash, slot, &mut erase_obsolete)?;
            } else if let Some(lbn) = self.lbn_of(block) {
                self.rewrite(flash, lbn, Cause::MergeFull)?;
            } else {
                self.dispose(flash, block, Cause::Metadata)?;
            }
        }
        Ok(())
    }
}

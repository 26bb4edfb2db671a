//! What a collection of `lazyftl` moves: live pages into the cold area, and translation pages.

use super::table::{COLD, UPDATED};
use super::{LazyFtl, MAPPING};
use crate::Outcome;
use crate::parts::collector::{Collects, Takes};
use crate::parts::space::{MOST_MOVED, Space, lowest_bits};
use flash::{Block, Cause, Chain, Die, Flash, Kind, Ppn};

impl LazyFtl {
    /// Whether moving so many pages within a die takes a block that the cold area has no place for.
    pub(super) fn overflows(&self, die: Die, pages: u32) -> bool {
        self.table.is_full(COLD) && self.space.room_on(COLD, die) < pages
    }

    /// Moves up to `limit` live data pages of a block to the cold area, from page `next` on; the page to go on from, or
    /// `None` at the end. Those that the table knows better are dead.
    pub(super) fn move_data<F: Flash>(
        &mut self,
        flash: &mut F,
        victim: Block,
        (mut next, limit): (u32, u32),
        cause: Cause,
    ) -> Outcome<F, Option<u32>> {
        let g = *flash.geometry();
        let die = g.die_of(victim);
        let mut left = limit;
        while let Some((first, bits)) = self.space.blocks.live_word(victim, next) {
            if left == 0 {
                return Ok(Some(first));
            }
            let from = g.page(victim, first);
            let bits = lowest_bits(bits, left);
            next = first + 64 - bits.leading_zeros();
            let mut rest = bits & !self.find_stale(flash, from, bits, cause)?;
            left -= rest.count_ones();
            while rest != 0 {
                let LazyFtl { table, moved, .. } = self;
                let run = self.space.move_run(flash, COLD, die, (from, rest), cause, |i, lpn| {
                    table.prefetch(lpn);
                    moved[i % MOST_MOVED] = lpn;
                });
                self.note_openings(COLD);
                let run = run?;
                self.counters.data_copies += if cause == Cause::DataGc { run.to.len() as u64 } else { 0 };
                // A block that was opened for this run and failed in it is in no lane any more.
                let block = g.block_of(Ppn(run.to.start));
                if !run.to.is_empty() && !self.table.covers(block) {
                    self.table.join(block, COLD);
                }
                for (&lpn, to) in self.moved.iter().zip(run.to) {
                    self.table.put(lpn, Ppn(to), true);
                }
                run.result?;
                rest &= !run.moved;
            }
        }
        Ok(None)
    }

    /// Of the live pages whose bits are set, counted from page `from` on, those that the table knows better die; their
    /// bits.
    pub(super) fn find_stale<F: Flash>(
        &mut self,
        flash: &mut F,
        from: Ppn,
        bits: u64,
        cause: Cause,
    ) -> Outcome<F, u64> {
        if !self.table.any_invalid() {
            return Ok(0);
        }
        let mut lpns = [0; MOST_MOVED];
        let mut rest = bits;
        while rest != 0 {
            let bit = rest.trailing_zeros();
            rest &= rest - 1;
            // Whatever is not a host page is found out by the copy.
            let oob = flash.read_oob(Ppn(from.0 + bit), cause)?;
            lpns[bit as usize] = oob.filter(|oob| oob.kind == Kind::Data).map_or(u32::MAX, |oob| oob.address);
            if let Some(oob) = oob {
                self.table.prefetch(oob.address);
            }
        }
        let mut stale = 0u64;
        rest = bits;
        while rest != 0 {
            let bit = rest.trailing_zeros();
            rest &= rest - 1;
            let lpn = lpns[bit as usize];
            if lpn < self.logical_pages {
                let entry = self.table.get(lpn);
                if entry.is_present() && !entry.is_at(Ppn(from.0 + bit)) {
                    self.table.found_stale(lpn);
                    stale |= 1 << bit;
                }
            }
        }
        self.counters.stale_found += u64::from(stale.count_ones());
        self.space.blocks.kill_word(from, stale);
        Ok(stale)
    }
}

impl Collects for LazyFtl {
    #[inline(always)]
    fn space(&self) -> &Space {
        &self.space
    }

    #[inline(always)]
    fn space_mut(&mut self) -> &mut Space {
        &mut self.space
    }

    fn may_be_told_elsewhere(&self, _: Block) -> bool {
        // What is written about the pages comes before they move, and may take the block that these were to go to.
        false
    }

    fn takes(&self, block: Block) -> Takes {
        let live = self.space.blocks.live_of(block);
        let g = self.space.blocks.geometry();
        if self.space.is_translation(block) {
            return Takes { moved: (MAPPING, live), told: (MAPPING, self.discards()) };
        }
        let converts = self.overflows(g.die_of(block), live);
        let convert = if converts { g.pages_per_block.min(self.store.count()) } else { 0 };
        Takes { moved: (COLD, live), told: (MAPPING, convert + self.discards()) }
    }

    fn prepare<F: Flash>(&mut self, flash: &mut F, block: Block) -> Outcome<F> {
        // An erase may take the newest copy of a discarded page while older ones are left: its discard goes first.
        if self.durable_trim && !self.trimmed.is_empty() {
            self.write_discards(flash)?;
            flash.chain(Chain::AFTER);
        }
        let die = flash.geometry().die_of(block);
        while !self.space.is_translation(block)
            && self.overflows(die, self.space.blocks.live_of(block))
            && let Some((full, _)) = self.convertible(Some(COLD))
        {
            self.convert(flash, full)?;
        }
        Ok(())
    }

    fn move_out<F: Flash>(
        &mut self,
        flash: &mut F,
        block: Block,
        next: u32,
        limit: u32,
        cause: Option<Cause>,
    ) -> Outcome<F, Option<u32>> {
        if !self.space.is_translation(block) {
            return self.move_data(flash, block, (next, limit), cause.unwrap_or(Cause::DataGc));
        }
        let told = cause.unwrap_or(Cause::TranslationGc);
        let moved = self.store.empty(flash, &mut self.space, block, limit, told)?;
        self.counters.mapping_copies += if cause.is_none() { moved } else { 0 };
        Ok(self.space.blocks.next_live(block, 0))
    }

    fn tell<F: Flash>(&mut self, _: &mut F, _: Block, _: u32, _: Option<Cause>) -> Outcome<F, bool> {
        // The table knows.
        Ok(true)
    }

    fn count_victim(&mut self, block: Block) {
        if self.space.is_translation(block) {
            self.counters.mapping_victims += 1;
        } else {
            self.counters.data_victims += 1;
        }
    }

    fn count_dead_victim(&mut self) {
        self.counters.dead_victims += 1;
    }

    /// With no victim and little room: what may show that more pages are dead.
    #[cold]
    fn reveal<F: Flash>(&mut self, flash: &mut F, die: Die) -> Outcome<F, bool> {
        let free = self.space.blocks.free_in(die);
        if free > self.space.collector.kept {
            return Ok(false);
        }
        let here = Block(self.space.blocks.range(die).start);
        // The mapping pages that these replace lie on all dies. Were this die's last free block taken for new ones,
        // none would be left to collect what others replace here.
        let left = u32::from(flash.geometry().die_count() > 1);
        let fits = |lazy: &Self, pages| lazy.space.blocks_for(MAPPING, die, pages + lazy.discards()) + left <= free;
        if let Some((block, cost)) = self.convertible(None) {
            let fits = fits(self, cost);
            return if fits {
                self.at_home(flash, here, |lazy, flash| lazy.convert(flash, block)).map(|()| true)
            } else {
                Ok(false)
            };
        }
        match self.table.first_invalid().filter(|_| fits(self, 1)) {
            Some(tvpn) => self.at_home(flash, here, |lazy, flash| lazy.settle(flash, tvpn, 0..0)).map(|()| true),
            None => Ok(false),
        }
    }

    fn leave(&mut self, block: Block) {
        if self.table.covers(block) {
            self.table.leave(block);
        }
    }

    fn let_go(&mut self) {
        self.note_openings(UPDATED);
        self.note_openings(COLD);
    }

    fn may_level(&self, _: Block) -> bool {
        // Discards that are to be written before an erase would take room of their own.
        self.discards() == 0
    }
}

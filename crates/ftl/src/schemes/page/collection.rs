//! What a collection of `page` moves, and what it tells the map.

use super::Page;
use crate::Outcome;
use crate::parts::collector::{Collects, Takes};
use crate::parts::space::{MOST_MOVED, Space, lowest_bits};
use flash::{Block, Cause, Die, Flash, Ppn, prefetch};

impl Page {
    /// Copies up to `limit` of the pages whose bits are set, counted from page `from` on, into the block that is open
    /// for them on `die`; stops at its end, at a trim page and at a program that fails. The bits of those that moved.
    pub(super) fn copy_run<F: Flash>(
        &mut self,
        flash: &mut F,
        (from, bits): (Ppn, u64),
        limit: u32,
        die: Die,
        cause: Cause,
    ) -> Outcome<F, u64> {
        let bits = lowest_bits(self.before_trim_page(from, bits), limit);
        let Page { map, moved, .. } = self;
        let run = self.space.move_run(flash, self.gc, die, (from, bits), cause, |i, lpn| {
            prefetch(map, lpn as usize);
            moved[i % MOST_MOVED] = lpn;
        })?;
        // The map is touched only now, when the lines that the copies asked for have arrived; also after a failure, for
        // what was copied has moved.
        for (&lpn, to) in self.moved.iter().zip(run.to.clone()) {
            self.map[lpn as usize] = to;
        }
        self.counters.copies += if cause == Cause::DataGc { run.to.len() as u64 } else { 0 };
        run.result?;
        Ok(run.moved)
    }

    /// Of the bits of live pages, counted from page `from` on, those before the first trim page.
    #[inline(always)]
    pub(super) fn before_trim_page(&self, from: Ppn, bits: u64) -> u64 {
        if !self.tombstones.any_on_flash() {
            return bits;
        }
        let is_trim_page = |bit: &u32| bits >> bit & 1 == 1 && self.tombstones.is_trim_page(Ppn(from.0 + bit));
        (0..64).find(is_trim_page).map_or(bits, |bit| bits & ((1 << bit) - 1))
    }
}

impl Collects for Page {
    #[inline(always)]
    fn space(&self) -> &Space {
        &self.space
    }

    #[inline(always)]
    fn space_mut(&mut self) -> &mut Space {
        &mut self.space
    }

    fn takes(&self, block: Block) -> Takes {
        let records = u32::from(!self.tombstones.pending.is_empty());
        Takes { moved: (self.gc, self.space.blocks.live_of(block)), told: (self.gc, records) }
    }

    fn move_out<F: Flash>(
        &mut self,
        flash: &mut F,
        block: Block,
        mut next: u32,
        limit: u32,
        cause: Option<Cause>,
    ) -> Outcome<F, Option<u32>> {
        let g = *flash.geometry();
        let die = g.die_of(block);
        let cause = cause.unwrap_or(Cause::DataGc);
        let mut left = limit;
        while let Some((first, bits)) = self.space.blocks.live_word(block, next) {
            if left == 0 {
                return Ok(Some(first));
            }
            let from = g.page(block, first);
            if self.tombstones.is_trim_page(from) {
                self.rewrite_tombstones(flash, from, die, cause)?;
                next = first + 1;
                left -= 1;
            } else {
                let copied = self.copy_run(flash, (from, bits), left, die, cause)?;
                next = first + 64 - copied.leading_zeros();
                left -= copied.count_ones();
            }
        }
        Ok(None)
    }

    fn tell<F: Flash>(&mut self, flash: &mut F, block: Block, _: u32, _: Option<Cause>) -> Outcome<F, bool> {
        self.bury(flash, flash.geometry().die_of(block)).map(|()| true)
    }

    fn count_victim(&mut self, _: Block) {
        self.counters.victims += 1;
    }

    fn count_dead_victim(&mut self) {
        self.counters.dead_victims += 1;
    }

    fn may_level(&self, block: Block) -> bool {
        let g = self.space.blocks.geometry();
        let (first, p) = (g.page(block, 0), g.pages_per_block);
        // A trim page is written again as several, perhaps, if it stands for more LPNs than a page has records.
        let splits = || self.tombstones.any_beyond(self.records_per_page(), first..Ppn(first.0 + p));
        self.tombstones.pending.is_empty() && (self.space.blocks.live_of(block) < p || !splits())
    }
}

//! Collecting a block of a superblock: its live pages go where the superblock writes.

use super::{Stream, Super, Superblock};
use crate::parts::spare_map::{BlockMap, BlockSlot};
use crate::{Error, Outcome};
use alloc::vec::Vec;
use flash::{Cause, Collection, Flash, Lbn};

impl Superblock {
    /// Copies the live pages of a block to where its superblock writes, and erases it.
    pub(super) fn collect<F: Flash>(&mut self, flash: &mut F, s: Super, slot: BlockSlot, cause: Cause) -> Outcome<F> {
        self.seal(s, slot);
        let live = self.pool.blocks.live_of(self.block(s, slot));
        if cause == Cause::DataGc {
            self.counters.victims += 1;
            self.counters.dead += u64::from(live == 0);
        }
        let mut gc = Collection::on(flash);
        if live > 0 {
            let mut maps = self.all_maps(&mut *gc, s, cause)?;
            let moved = self.move_out(&mut *gc, s, slot, &mut maps, cause);
            gc.then();
            self.take_in(&mut *gc, s, maps, cause)?;
            moved?;
        }
        gc.then();
        self.release(&mut *gc, s, slot, cause)?;
        let this = gc.pause();
        let mut all = Collection::resume(flash, self.collected);
        Collection::resume(&mut *all, this).wait();
        self.collected = all.pause();
        Ok(())
    }

    pub(super) fn move_out<F: Flash>(
        &mut self,
        flash: &mut F,
        s: Super,
        slot: BlockSlot,
        maps: &mut [BlockMap],
        cause: Cause,
    ) -> Outcome<F> {
        let layout = *self.cache.layout();
        let mut pages: Vec<(u32, usize, u32)> = Vec::new();
        for (i, map) in maps.iter().enumerate() {
            let here = map.pages().map(|(offset, place)| (layout.split(place), offset));
            pages.extend(here.filter(|&((of, _), _)| of == slot).map(|((_, page), offset)| (page, i, offset)));
        }
        pages.sort_unstable();
        let block = self.block(s, slot);
        // Damage may have taken others, which the mount did not find.
        pages.retain(|&(page, _, _)| self.pool.blocks.is_live(self.g.page(block, page)));
        let live = self.pool.blocks.live_of(block);
        if pages.len() != live as usize {
            return Err(Error::Corrupt);
        }
        let first = s.0 * self.n;
        for (page, i, offset) in pages {
            let from = self.g.page(block, page);
            let page = (Lbn(first + i as u32), offset);
            self.append(flash, page, &mut maps[i], Stream::Kept, |flash, to, program| {
                flash.copy(from, to, cause, |oob, _| oob.program = program).map(|_| ())
            })?;
            self.counters.copies += u64::from(cause == Cause::DataGc);
        }
        Ok(())
    }

    /// Moves what blocks hold that failed a program, and marks them bad.
    pub(super) fn tidy<F: Flash>(&mut self, flash: &mut F) -> Outcome<F> {
        while let Some(&block) = self.pool.doomed.last() {
            if let Some(log) = self.log.as_mut().filter(|log| log.has(block)) {
                log.collect(flash, &mut self.pool, block, Cause::TranslationGc)?;
                continue;
            }
            let at = self.blocks.iter().position(|&other| other == block.0).expect("it has a slot until it is marked");
            self.collect(flash, Super((at / self.k) as u32), BlockSlot((at % self.k) as u8), Cause::DataGc)?;
        }
        Ok(())
    }
}

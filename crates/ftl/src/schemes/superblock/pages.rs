//! Writing and finding a page of `superblock`: its place, its map, and what a failed program takes back.

use super::{Open, SEALED, Stream, Superblock};
use crate::Error;
use crate::Outcome;
use crate::parts::spare_map::{BlockMap, NULL};
use flash::{Cause, FaultKind, Flash, FlashFault, Kind, Lbn, Lpn, Oob, Payload, Ppn};

impl Superblock {
    /// Programs a page where its superblock writes, with its maps if they go along. `map` has its leaf.
    pub(super) fn append<F: Flash>(
        &mut self,
        flash: &mut F,
        (lbn, offset): (Lbn, u32),
        map: &mut BlockMap,
        stream: Stream,
        mut program: impl FnMut(&mut F, Ppn, u64) -> Result<(), F::Fault>,
    ) -> Outcome<F> {
        let (s, layout) = (self.super_of(lbn), *self.cache.layout());
        loop {
            if !self.has_room(s, stream) {
                self.open_block(flash, s, stream)?;
            }
            let filled = self.filled(s, stream);
            let Open { slot, next } = *filled;
            filled.next += 1;
            let place = layout.place(slot, next.into());
            let before = map.set(&layout, offset, place);
            let to = self.ppn(s, place);
            if self.log.is_none() {
                let listed = self.slots(s).iter().map(|&block| block.min(self.g.block_count()));
                let own = layout.encode(listed, map, offset, place);
                self.pool.stage_spare(flash, to, own);
            }
            let number = self.pool.number_for(flash, to);
            match program(flash, to, number) {
                Ok(()) => {
                    // Where flash is damaged, it may not have been found by the mount.
                    if let Some(old) = self.live_page(s, before.0).filter(|_| before.0 != NULL) {
                        self.pool.blocks.kill(old);
                    }
                    self.pool.blocks.revive(to);
                    match self.heads.get_mut(lbn.index()) {
                        Some(head) => {
                            *head = place;
                            map.dirty = map.dirty && !map.is_stored(&layout);
                        }
                        None => map.dirty = true,
                    }
                    return Ok(());
                }
                Err(fault) => {
                    map.undo(&layout, offset, before);
                    if fault.kind() != FaultKind::ProgramFailed {
                        return Err(fault.into());
                    }
                    self.pool.fail(self.g.block_of(to));
                    *self.filled(s, stream) = SEALED;
                }
            }
        }
    }

    /// Writes a page: data, or nothing where it is discarded durably.
    pub(super) fn put<F: Flash>(&mut self, flash: &mut F, lpn: Lpn, data: Option<&F::User>) -> Outcome<F> {
        if !self.pool.doomed.is_empty() {
            self.tidy(flash)?;
        }
        if self.pool.is_levelling_due() {
            self.level(flash)?;
        }
        let (lbn, offset) = self.split(lpn);
        let s = self.super_of(lbn);
        self.pool.blocks.clock += 1;
        self.version += 1;
        self.make_room(flash, s)?;
        if !self.shared.is_empty() && self.shared.remove(&s) {
            self.wait_for_collections(flash);
        }
        self.place_for(flash, lbn)?;
        let mut map = self.find(flash, lbn, offset)?;
        let oob = Oob::data(lpn, self.version, 0);
        let result = self.append(flash, (lbn, offset), &mut map, Stream::Host, |flash, to, program| match data {
            Some(data) => flash.program(to, Oob { program, ..oob }, Payload::User(data), Cause::Host),
            None => {
                let oob = Oob { kind: Kind::Trim, program, ..oob };
                flash.program(to, oob, Payload::Meta(&[]), Cause::Metadata)
            }
        });
        self.cache.keep(lbn, map, false);
        result?;
        self.shrink_if_possible(flash, Cause::TranslationUpdate)?;
        if let Some(written) = self.written.get_mut(s.index()) {
            *written = self.pool.blocks.clock;
        }
        if !self.discarded.is_empty() {
            self.discarded.remove(&lpn.0);
        }
        Ok(())
    }

    /// Where a page lies.
    #[inline]
    pub(super) fn look_up<F: Flash>(&mut self, flash: &mut F, lpn: Lpn) -> Outcome<F, Option<Ppn>> {
        let (lbn, offset) = self.split(lpn);
        if self.is_unwritten(lbn) || (!self.discarded.is_empty() && self.discarded.contains(&lpn.0)) {
            return Ok(None);
        }
        let kept = match self.place_for(flash, lbn) {
            Err(Error::Full) => false,
            made => made.map(|()| true)?,
        };
        let map = self.find(flash, lbn, offset)?;
        let place = map.at(offset);
        if kept {
            self.cache.keep(lbn, map, false);
            self.shrink_if_possible(flash, Cause::TranslationUpdate)?;
        }
        match self.live_page(self.super_of(lbn), place) {
            _ if place == NULL => Ok(None),
            None => Err(Error::Corrupt),
            found => Ok(found),
        }
    }
}

//! The areas of `lazyftl`: host pages fill blocks of the update area, and the oldest block is converted.

use super::table::UPDATED;
use super::{HOST, LazyFtl, MAPPING};
use crate::Outcome;
use crate::parts::collector::Collects;
use crate::parts::lanes::Stream;
use crate::parts::space::Space;
use flash::{Block, Collection, Die, Flash, Ppn};

impl LazyFtl {
    /// After a stream may have opened blocks: they join the area, and the blocks that lanes let go stay out of the
    /// victims until they are converted.
    pub(super) fn note_openings(&mut self, area: Stream) {
        for lane in self.space.streams[area.index()].all() {
            let (now, before) = (self.space.streams[area.index()].block(lane), self.seen[area.index()][lane.index()]);
            if now == before {
                continue;
            }
            if let Some(former) = before.filter(|block| !self.space.doomed.contains(block))
                && self.table.covers(former)
            {
                self.space.blocks.begin_collecting(former);
            }
            // A full block that the lane took back has been in the area before.
            if let Some(block) = now.filter(|_| self.space.streams[area.index()].room(lane) > 0) {
                self.table.join(block, area);
            }
            self.seen[area.index()][lane.index()] = now;
        }
    }

    /// The block to convert next, of one area or of both, and the mapping pages that it takes.
    pub(super) fn convertible(&mut self, area: Option<Stream>) -> Option<(Block, u32)> {
        let lanes = self.space.streams[..MAPPING.index()].iter();
        let open = lanes
            .flat_map(|lanes| lanes.all().filter(|&lane| lanes.room(lane) > 0).filter_map(|lane| lanes.block(lane)));
        let busy = open.chain(self.space.doomed.iter().copied());
        self.table.victim(area, &self.space.blocks, busy)
    }

    /// Turns a full block of an area into a data block, where it is.
    pub(super) fn convert<F: Flash>(&mut self, flash: &mut F, block: Block) -> Outcome<F> {
        let discards = self.trimmed.len();
        let mut scope = Collection::on(flash);
        let settled = self.settle_block(&mut *scope, block);
        let done = scope.pause();
        if self.trimmed.len() < discards {
            self.space.collector.beside.supersedes();
        }
        self.space.collector.beside.done(flash, done);
        settled?;
        self.counters.converts += 1;
        self.table.leave(block);
        // A full block that its lane still holds becomes a candidate when the lane lets it go.
        if self.space.streams[..MAPPING.index()].iter().all(|lanes| lanes.lane_of(block).is_none()) {
            self.space.blocks.stop_collecting(block);
        }
        Ok(())
    }

    /// Writes the mapping pages of what lives in a block, whose entries leave the table.
    fn settle_block<F: Flash>(&mut self, flash: &mut F, block: Block) -> Outcome<F> {
        let g = *flash.geometry();
        let live = |space: &Space, next: u32| space.blocks.next_live(block, next).map(|offset| g.page(block, offset));
        let mut next = 0;
        while let Some(ppn) = live(&self.space, next) {
            next = g.offset_of(ppn) + 1;
            if let Some(lpn) = self.table.lpn_at(ppn) {
                let (tvpn, word) = self.store.locate(lpn);
                let at = self.store.at(tvpn);
                if at != Ppn::NONE {
                    flash.hint(at, word);
                }
            }
        }
        next = 0;
        while let Some(ppn) = live(&self.space, next) {
            next = g.offset_of(ppn) + 1;
            if let Some(lpn) = self.table.lpn_at(ppn) {
                if self.table.get(lpn).is_update() {
                    self.settle(flash, self.store.locate(lpn).0, 0..0)?;
                }
                self.table.remove(lpn);
            }
        }
        Ok(())
    }

    /// A convert writes up to a block of mapping pages, on all dies in turn, and the test behind it looks at one die.
    /// Before it, room is made on each die where its share would open a block that is kept for collections.
    fn make_room_to_convert<F: Flash>(&mut self, flash: &mut F) -> Outcome<F> {
        let g = *flash.geometry();
        let share = g.pages_per_block.min(self.store.count()).div_ceil(g.die_count());
        for die in (0..g.die_count()).map(Die) {
            let space = &self.space;
            if space.room_on(MAPPING, die) < share && space.blocks.free_in(die) <= space.collector.kept {
                self.make_room(flash, die)?;
            }
        }
        Ok(())
    }

    /// The lane in turn has no room: a block for the host, after a convert if the area is full.
    #[cold]
    #[inline(never)]
    pub(super) fn next_page<F: Flash>(&mut self, flash: &mut F) -> Outcome<F, Ppn> {
        while self.table.is_full(UPDATED) {
            self.make_room_to_convert(flash)?;
            let Some((block, cost)) = self.convertible(Some(UPDATED)) else { break };
            self.secure(flash, MAPPING, cost)?;
            self.convert(flash, block)?;
            if self.is_behind(MAPPING) {
                self.catch_up(flash, MAPPING)?;
            }
        }
        let turn = self.space.streams[HOST.index()].turn();
        let lane = self.refill_if_can(flash, HOST, turn)?;
        let to = self.space.page_on(flash, HOST, lane);
        self.note_openings(UPDATED);
        self.space.streams[HOST.index()].advance();
        to
    }

    /// After loading or mounting: the blocks that the lanes hold.
    pub(super) fn see_lanes(&mut self) {
        for (seen, lanes) in self.seen.iter_mut().zip(&self.space.streams) {
            *seen = lanes.all().map(|lane| lanes.block(lane)).collect();
        }
    }
}

//! Mounting `page`: the map of what counts, and room on dies whose collection was cut short.

use super::survey::Survey;
use super::{HOST, NONE, Page, TRIMMED};
use crate::parts::collector::Collects;
use crate::parts::lanes::{Lane, Stream};
use crate::{Error, MountReport, Outcome, Settings};
use flash::{Block, Cause, Die, FaultKind, Flash, FlashFault, Ppn};

impl Page {
    /// While mounting, on a die whose last free block is in use: collects before host writes can take what is left of
    /// the room for it.
    pub(super) fn regain<F: Flash>(&mut self, flash: &mut F, die: Die) -> Outcome<F> {
        let g = *flash.geometry();
        let lane = Lane::of(die);
        while self.space.blocks.free_in(die) == 0 {
            // A collection on another die may have opened a block here already: the one with more room is kept.
            let room = |stream: Stream| self.space.streams[stream.index()].room(lane);
            let (of_host, of_copies) = (room(HOST), room(self.gc));
            let is_better = self.gc != HOST && of_host >= of_copies;
            if let Some(block) = self.space.streams[HOST.index()].block(lane).filter(|_| is_better) {
                self.space.streams[HOST.index()].clear(lane);
                let next = g.pages_per_block - of_host;
                if let Some(former) = self.space.streams[self.gc.index()].replace(&g, lane, block, next) {
                    self.space.blocks.close_early(former, g.pages_per_block - of_copies);
                }
            }
            let blocks = &self.space.blocks;
            let candidates = blocks.range(die).filter(|&block| blocks.is_candidate(block)).map(Block);
            let Some(victim) = candidates.min_by_key(|&block| blocks.live_of(block)) else { return Ok(()) };
            match self.collect(flash, victim, None) {
                // The device can still be read, and says that it is full when it is written.
                Err(Error::Full) => return Ok(()),
                collected => collected?,
            }
        }
        Ok(())
    }

    /// While mounting, on a die without a free block: the collection that power interrupted had opened the last one. If
    /// every page in it has a twin of the same version elsewhere, it is erased, and the collection starts afresh with
    /// all the room that it needs, however often that happens.
    pub(super) fn start_afresh<F: Flash>(&mut self, flash: &mut F, survey: &mut Survey, die: Die) -> Outcome<F> {
        let g = *flash.geometry();
        let census = &survey.census;
        let is_apart = |block: &Block| census.bad.contains(block) || census.area.contains(block);
        let mut used = g.blocks_of(die).filter(|&block| !is_apart(&Block(block)));
        if used.any(|block| survey.census.blocks[block as usize].is_none()) {
            return Ok(());
        }
        let Some(newest) = survey.census.newest_of(g.blocks_of(die)) else { return Ok(()) };
        let mut rest = survey.clone();
        rest.census.drop_block(newest, &g);
        rest.settle(flash)?;
        let twins = survey.best.iter().zip(&rest.best).all(|(with, without)| with.0 == without.0);
        if !twins {
            return Ok(());
        }
        match flash.erase(newest, Cause::Recovery) {
            Ok(()) => *survey = rest,
            // Whatever the erase has left in it, nothing of that is needed.
            Err(fault) if fault.kind() == FaultKind::EraseFailed => {
                self.space.mark_bad(flash, newest)?;
                *survey = rest;
            }
            Err(fault) => return Err(fault.into()),
        }
        Ok(())
    }

    pub(super) fn mount_on<F: Flash>(
        flash: &mut F,
        logical_pages: u32,
        settings: &Settings,
        report: &mut MountReport,
    ) -> Outcome<F, Page> {
        let g = *flash.geometry();
        let mut page = Page::blank(g, logical_pages, settings);
        let mut survey = Survey::take(flash, page.space.own_bytes(), logical_pages)?;
        *report = survey.report();
        for die in (0..g.die_count()).map(Die) {
            page.start_afresh(flash, &mut survey, die)?;
        }
        let Survey { census, map, version, .. } = survey;
        page.map = map;
        page.version = version;
        page.space.adopt(&census, HOST, None);
        for &entry in page.map.iter().filter(|&&entry| entry != NONE) {
            if entry < TRIMMED {
                page.space.blocks.revive(Ppn(entry));
            } else {
                let ppn = Ppn(entry - TRIMMED);
                if !page.tombstones.is_trim_page(ppn) {
                    page.space.blocks.revive(ppn);
                }
                page.tombstones.refer(ppn, 1);
            }
        }
        page.seal_tired(flash);
        for die in (0..g.die_count()).map(Die) {
            page.regain(flash, die)?;
        }
        Ok(page)
    }
}

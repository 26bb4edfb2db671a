//! What a mount of `page` finds: of every logical page the newest sound copy, or the record that discards it.

use super::{NONE, TRIMMED};
use crate::parts::census::{Census, Health};
use crate::parts::tombstones;
use crate::{MountReport, Outcome};
use alloc::vec;
use alloc::vec::Vec;
use flash::{Block, Cause, Flash, Kind, Oob, Ppn, prefetch};

/// Version and program number of a page: the greater wins.
pub(super) type Rank = (u64, u64);

/// What a mount knows of the flash.
#[derive(Clone, Debug)]
pub(super) struct Survey {
    pub(super) census: Census,
    trims: Vec<Ppn>,
    /// The page map.
    pub(super) map: Vec<u32>,
    /// Of the page or record that each entry follows.
    pub(super) best: Vec<Rank>,
    /// The largest version given.
    pub(super) version: u64,
    /// Pages of records of discards that cannot be read.
    lost_discards: u64,
}

impl Survey {
    /// Reads the device, `own_bytes` those of the scheme's own in front of an erase count, if counts are there.
    ///
    /// # Errors
    /// The medium's.
    pub(super) fn take<F: Flash>(flash: &mut F, own_bytes: Option<u32>, logical_pages: u32) -> Outcome<F, Survey> {
        let mut trims: Vec<Ppn> = Vec::new();
        let mut map = vec![NONE; logical_pages as usize];
        let mut best = vec![(0, 0); logical_pages as usize];
        let census = Census::take(flash, own_bytes, |pages, health| {
            for (_, oob) in pages {
                prefetch(&best, oob.address as usize);
                prefetch(&map, oob.address as usize);
            }
            for &(ppn, oob) in pages {
                Self::consider(&mut map, &mut best, ppn, oob, health);
                if oob.kind == Kind::Trim {
                    trims.push(ppn);
                }
            }
        })?;
        let version = census.max_version;
        let mut survey = Survey { census, trims, map, best, version, lost_discards: 0 };
        survey.heed_tombstones(flash)?;
        Ok(survey)
    }

    #[inline]
    fn consider(map: &mut [u32], best: &mut [Rank], ppn: Ppn, oob: Oob, health: Health) {
        // What cannot be read gives way to any sound copy of its version.
        let rank = (oob.version, if health == Health::Sound { oob.program } else { 0 });
        let lpn = oob.address as usize;
        if oob.kind == Kind::Data && lpn < best.len() && rank > best[lpn] {
            best[lpn] = rank;
            map[lpn] = ppn.0;
        }
    }

    /// Finds the newest sound copy of every page among the blocks in the census.
    pub(super) fn settle<F: Flash>(&mut self, flash: &mut F) -> Outcome<F> {
        let g = *flash.geometry();
        self.map.fill(NONE);
        self.best.fill((0, 0));
        for block in (0..g.block_count()).map(Block) {
            let programmed = self.census.blocks[block.index()].map_or(0, |found| found.programmed);
            for ppn in (0..programmed).map(|offset| g.page(block, offset)) {
                if self.census.spoiled.contains(&ppn) || self.census.garbled.contains(&ppn) {
                    continue;
                }
                if let Some(oob) = flash.read_oob(ppn, Cause::Recovery)? {
                    let damaged = self.census.damaged.contains(&ppn);
                    let health = if damaged { Health::Unreadable } else { Health::Sound };
                    Self::consider(&mut self.map, &mut self.best, ppn, oob, health);
                }
            }
        }
        self.heed_tombstones(flash)
    }

    /// Discards what sound trim pages say.
    fn heed_tombstones<F: Flash>(&mut self, flash: &mut F) -> Outcome<F> {
        let Survey { census, trims, map, best, version, lost_discards } = self;
        *lost_discards = 0;
        let g = *flash.geometry();
        let known = |ppn: Ppn| census.blocks[g.block_of(ppn).index()].is_some() && !census.spoiled.contains(&ppn);
        for &ppn in trims.iter().filter(|&&ppn| known(ppn)) {
            let (oob, content) = flash.read(ppn, Cause::Recovery)?;
            if oob.kind != Kind::Trim {
                *lost_discards += 1;
                continue;
            }
            for record in tombstones::decode(content.words().unwrap_or_default(), best.len() as u32) {
                *version = record.version.max(*version);
                for lpn in record.lpns().map(|lpn| lpn as usize) {
                    // An older copy need not be seen to be there: a block whose erase was cut short may show it another
                    // time. Of equal records the one that was programmed last counts, as of equal pages: what a
                    // collection has copied stays copied.
                    let rank = (record.version, oob.program);
                    if rank > best[lpn] {
                        best[lpn] = rank;
                        map[lpn] = TRIMMED | ppn.0;
                    }
                }
            }
        }
        Ok(())
    }

    /// What a mount reports of it.
    pub(super) fn report(&self) -> MountReport {
        MountReport { lost_discards: self.lost_discards, ..self.census.report() }
    }
}

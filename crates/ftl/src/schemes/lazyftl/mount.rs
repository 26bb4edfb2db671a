//! How a `lazyftl` comes back from flash (docs/recovery.md).
//!
//! One pass over the spare areas finds the newest mapping page of each TVPN and the data pages programmed after its
//! watermark. Every convert writes all new entries of a mapping page, so these pages are exactly the entries that had
//! the update flag when power failed, and the blocks that they are in were in the update and cold areas. Both are put
//! back. The invalid flags are not needed: what a mapping page names and a newer page replaces is dead from the start.

use super::{COLD, HOST, LazyFtl, MAPPING, Plan, UPDATED};
use crate::parts::census::{Census, Health};
use crate::parts::collector::Collects;
use crate::parts::translation::forget_beyond;
use crate::{Error, MountReport, Outcome, Settings};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;
use flash::{Block, Cause, Flash, Kind, Oob, Ppn, Tvpn};

impl LazyFtl {
    /// Rebuilds the scheme; the mapping pages in `distrusted` are known to be damaged. `report` has what was found
    /// before anything is changed.
    pub(super) fn mount_on<F: Flash>(
        flash: &mut F,
        logical_pages: u32,
        settings: &Settings,
        plan: &Plan,
        mut distrusted: BTreeSet<Ppn>,
        report: &mut MountReport,
    ) -> Outcome<F, LazyFtl> {
        let g = *flash.geometry();
        let mut lazy = LazyFtl::blank(g, logical_pages, settings, plan);
        let pages = lazy.store.count() as usize;
        // The newest sound mapping page of each TVPN, and its watermark.
        let mut newest: Vec<Option<(Ppn, Oob)>> = vec![None; pages];
        // Data pages programmed after their mapping page's watermark, the newest of each LPN.
        let mut lost: BTreeMap<u32, (u64, u64, Ppn)> = BTreeMap::new();
        let census = Census::take(flash, lazy.space.own_bytes(), |found, health| {
            for &(ppn, oob) in found {
                match oob.kind {
                    Kind::Translation if oob.tvpn().index() < pages && !distrusted.contains(&ppn) => {
                        let best = &mut newest[oob.address as usize];
                        if best.is_none_or(|(_, best)| oob.program > best.program) {
                            *best = Some((ppn, oob));
                        }
                    }
                    Kind::Data if oob.address < logical_pages => {
                        let page = newest[lazy.store.locate(oob.address).0.index()];
                        if oob.program >= page.map_or(0, |(_, oob)| oob.version) {
                            // What cannot be read gives way to any sound copy of its version.
                            let rank = (oob.version, if health == Health::Sound { oob.program } else { 0 }, ppn);
                            lost.entry(oob.address).and_modify(|best| *best = rank.max(*best)).or_insert(rank);
                        }
                    }
                    _ => {}
                }
            }
        })?;
        lazy.adopt(&census);
        *report = census.report();
        // What these alone knew is discards: all else the data pages say.
        report.lost_discards = distrusted.len() as u64;
        if !lazy.rejoin(&census, &lost) {
            return Err(Error::Corrupt);
        }
        for (tvpn, page) in newest.iter().enumerate().map(|(t, page)| (Tvpn(t as u32), *page)) {
            let first = tvpn.0 * g.entries_per_page();
            let range = first..logical_pages.min(first.saturating_add(g.entries_per_page()));
            let mut words = vec![Ppn::NONE.0; g.entries_per_page() as usize];
            let mut watermark = 0;
            if let Some((ppn, oob)) = page {
                watermark = oob.version;
                let (oob, content) = flash.read(ppn, Cause::Recovery)?;
                if oob.kind == Kind::Torn {
                    // It was whole once, and has been damaged since: all over again, without it. Nothing was written
                    // yet, and an older one, or none, only makes more data pages count.
                    distrusted.insert(ppn);
                    return Self::mount_on(flash, logical_pages, settings, plan, distrusted, report);
                }
                words.copy_from_slice(content.words().ok_or(Error::Corrupt)?);
                forget_beyond(&mut words, &g);
                lazy.store.found(tvpn, ppn);
                lazy.space.blocks.claim(ppn)?;
            }
            for lpn in range {
                let entry = Ppn(words[(lpn - first) as usize]);
                if let Some(&(.., ppn)) = lost.get(&lpn) {
                    lazy.table.put(lpn, ppn, true);
                    lazy.space.blocks.claim(ppn)?;
                    report.restored += 1;
                } else if entry != Ppn::NONE {
                    if census.holds(flash, entry, lpn, watermark)? {
                        lazy.space.blocks.claim(entry)?;
                    } else {
                        // The page was discarded, and its place taken since: the entry was lost.
                        lazy.table.discard(lpn);
                        lazy.table.found_stale(lpn);
                        lazy.trimmed.insert(tvpn.0);
                        report.restored += 1;
                    }
                }
            }
        }
        // Cut after cut must not eat up the room that collecting needs: it is made before anything else takes a page.
        match lazy.regain(flash) {
            // The device can still be read, and says that it is full when it is written.
            Err(Error::Full) => {}
            regained => regained?,
        }
        Ok(lazy)
    }

    /// Blocks and lanes as found. The newest data block of a die goes on as the host's; if blocks are scarce, as the
    /// cold area's, so that a collection which was cut short finds the room that it had begun to use.
    fn adopt(&mut self, census: &Census) {
        let empty = census.blocks.iter().filter(|block| block.is_none()).count();
        let empty = empty - census.bad.len() - census.area.len();
        let stream = if empty as u32 <= self.space.collector.low * self.space.blocks.geometry().die_count() {
            COLD
        } else {
            HOST
        };
        self.space.adopt(census, stream, Some(MAPPING));
        self.version = census.max_version;
    }

    /// The blocks with lost entries, and those that are open, are in the areas again, in the order of their opening.
    /// False if one of them is a block of mapping pages, in which no host page was ever written.
    fn rejoin(&mut self, census: &Census, lost: &BTreeMap<u32, (u64, u64, Ppn)>) -> bool {
        let g = *self.space.blocks.geometry();
        let is_mapping = |ppn: Ppn| {
            let found = census.blocks[g.block_of(ppn).index()];
            found.is_some_and(|found| found.kind == Kind::Translation)
        };
        if lost.values().any(|&(.., ppn)| is_mapping(ppn)) {
            return false;
        }
        self.see_lanes();
        let first = |block: Block| census.blocks[block.index()].map_or(0, |found| found.first_program);
        let open: BTreeSet<Block> = self.seen.iter().flatten().copied().flatten().collect();
        let cold: BTreeSet<Block> = self.seen[COLD.index()].iter().copied().flatten().collect();
        let with_lost = lost.values().map(|&(.., ppn)| g.block_of(ppn));
        let blocks: BTreeSet<(u64, Block)> =
            with_lost.chain(open.iter().copied()).map(|block| (first(block), block)).collect();
        for (_, block) in blocks {
            self.table.join(block, if cold.contains(&block) { COLD } else { UPDATED });
            if !open.contains(&block) {
                self.space.blocks.begin_collecting(block);
            }
        }
        true
    }

    /// Makes room, and brings the areas back to their quotas.
    fn regain<F: Flash>(&mut self, flash: &mut F) -> Outcome<F> {
        self.seal_tired(flash);
        self.make_room_everywhere(flash)?;
        for area in [COLD, UPDATED] {
            // A convert may write a block full of mapping pages, on whichever die: room for it comes before.
            while self.table.is_over(area) {
                self.make_room_everywhere(flash)?;
                let Some((block, _)) = self.convertible(Some(area)) else { break };
                self.convert(flash, block)?;
            }
        }
        Ok(())
    }
}

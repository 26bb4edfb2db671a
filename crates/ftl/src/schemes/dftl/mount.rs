//! How a `dftl` comes back from flash (docs/recovery.md).
//!
//! One pass over the spare areas finds the newest translation page of each TVPN and the data pages programmed after
//! its watermark: the entries that were lost with the cache. They go back into the cache as dirty ones, a translation
//! page's all together, or are written at once where they do not fit.

use super::{CachePlan, DATA, Dftl, TRANSLATION};
use crate::parts::census::Census;
use crate::{Error, MountReport, Settings};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;
use flash::{Cause, Flash, Kind, Lpn, Oob, Ppn, Tvpn};

impl Dftl {
    /// Rebuilds the scheme; the translation pages in `distrusted` are known to be damaged.
    pub(super) fn mount_on<F: Flash>(
        flash: &mut F,
        logical_pages: u32,
        settings: &Settings,
        plan: &CachePlan,
        mut distrusted: BTreeSet<Ppn>,
    ) -> Result<(Dftl, MountReport), Error<F::Fault>> {
        let g = *flash.geometry();
        let mut dftl = Dftl::blank(g, logical_pages, settings, plan);
        let pages = dftl.store.count() as usize;
        // The newest sound translation page of each TVPN, and its watermark.
        let mut newest: Vec<Option<(Ppn, Oob)>> = vec![None; pages];
        // Data pages programmed after their translation page's watermark: the entries that were lost with the cache.
        let mut lost: BTreeMap<u32, (u64, u64, Ppn)> = BTreeMap::new();
        let census = Census::take(flash, |found| {
            for &(ppn, oob) in found {
                match oob.kind {
                    Kind::Translation if oob.tvpn().index() < pages && !distrusted.contains(&ppn) => {
                        let best = &mut newest[oob.address as usize];
                        if best.is_none_or(|(_, best)| oob.program > best.program) {
                            *best = Some((ppn, oob));
                        }
                    }
                    Kind::Data if oob.address < logical_pages => {
                        let page = newest[dftl.store.locate(oob.address).0.index()];
                        if oob.program >= page.map_or(0, |(_, oob)| oob.version) {
                            let rank = (oob.version, oob.program, ppn);
                            lost.entry(oob.address).and_modify(|best| *best = rank.max(*best)).or_insert(rank);
                        }
                    }
                    _ => {}
                }
            }
        })?;
        dftl.space.adopt(&census, DATA, Some(TRANSLATION));
        dftl.version = census.max_version;
        let mut report =
            MountReport { pages: census.pages, torn: census.torn, restored: 0, bad_blocks: census.bad.len() as u64 };
        // Groups of entries that do not fit the cache, to be written once everything is known.
        let mut late: Vec<(Tvpn, Vec<(u32, u32)>)> = Vec::new();
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
                    return Self::mount_on(flash, logical_pages, settings, plan, distrusted);
                }
                words.copy_from_slice(content.meta());
                dftl.store.found(tvpn, ppn);
                dftl.space.blocks.revive(ppn);
            }
            let mut group: Vec<(u32, u32)> = Vec::new();
            for lpn in range {
                let entry = &mut words[(lpn - first) as usize];
                let restored = match lost.get(&lpn) {
                    Some(&(.., ppn)) => Some(ppn),
                    None if *entry == Ppn::NONE.0 || names(flash, &census, Ppn(*entry), lpn, watermark)? => None,
                    // The page was discarded, and its place taken since: the entry was lost.
                    None => Some(Ppn::NONE),
                };
                if let Some(ppn) = restored {
                    *entry = ppn.0;
                    group.push((lpn, ppn.0));
                }
                if *entry != Ppn::NONE.0 {
                    dftl.space.blocks.revive(Ppn(*entry));
                }
            }
            report.restored += group.len() as u64;
            dftl.restore_group(tvpn, first, &words, group, &mut late);
        }
        for (tvpn, group) in late {
            dftl.update(flash, tvpn, &group, Cause::Recovery)?;
        }
        // Cut after cut must not eat up the room that collecting needs: it is made before anything else takes a page.
        if dftl.needs_room() {
            dftl.make_room_to_read(flash)?;
        }
        Ok((dftl, report))
    }

    /// Puts a translation page's lost entries into the cache as dirty ones, all or none of them.
    fn restore_group(
        &mut self,
        tvpn: Tvpn,
        first: u32,
        words: &[u32],
        group: Vec<(u32, u32)>,
        late: &mut Vec<(Tvpn, Vec<(u32, u32)>)>,
    ) {
        let lines: BTreeSet<u32> = group.iter().map(|&(lpn, _)| self.cache.line_of(Lpn(lpn))).collect();
        if lines.len() as u32 > self.cache.room() {
            late.push((tvpn, group));
            return;
        }
        for (lpn, ppn) in group.into_iter().map(|(lpn, ppn)| (Lpn(lpn), Ppn(ppn))) {
            let entry = |lpn: Lpn| Ppn(words.get((lpn.0 - first) as usize).copied().unwrap_or(u32::MAX));
            let slot = self.cache.find(lpn).unwrap_or_else(|| self.cache.insert(lpn, entry));
            self.cache.set(slot, lpn, ppn);
            if ppn == Ppn::NONE {
                self.trimmed.insert(tvpn.0);
            }
        }
    }
}

/// Whether a page that a translation page with this watermark points at holds that LPN.
///
/// Only a block that was erased since can hold something else there. If its present life began before the watermark it
/// is the life in which the entry was right, and the spare area need not be read: at the watermark every entry was
/// right, and later ones name pages programmed later still. That the life began so early is known if no page of the
/// block is torn; a block whose erase was cut short may read as old where nothing of the page is left.
fn names<F: Flash>(
    flash: &mut F,
    census: &Census,
    ppn: Ppn,
    lpn: u32,
    watermark: u64,
) -> Result<bool, Error<F::Fault>> {
    let g = *flash.geometry();
    let Some(found) = census.blocks[g.block_of(ppn).index()] else { return Ok(false) };
    if g.offset_of(ppn) >= found.programmed || census.spoiled.contains(&ppn) {
        return Ok(false);
    }
    if found.whole && found.kind == Kind::Data && found.first_program < watermark {
        return Ok(true);
    }
    let oob = flash.read_oob(ppn, Cause::Recovery)?;
    Ok(oob.is_some_and(|oob| oob.kind == Kind::Data && oob.address == lpn))
}

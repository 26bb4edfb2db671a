//! How a demand-paged scheme comes back from flash (docs/recovery.md).
//!
//! One pass over the spare areas finds the newest translation page of each TVPN and the data pages programmed after
//! its watermark: the entries that were lost with the cache. They go back into the cache as dirty ones, a translation
//! page's all together, or are written at once where they do not fit. If a device has so few blocks left that it
//! cannot write them, they stay in RAM as they are, and it is read and no more: without them no page may be collected.

use super::cache::{Cache, Entry};
use super::map::{MapStore, TranslationPage};
use super::{DATA, Demand, TRANSLATION};
use crate::parts::census::{Census, Health};
use crate::parts::collector::Collects;
use crate::parts::translation::forget_beyond;
use crate::{Error, MountReport, Outcome, Settings};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;
use flash::{Cause, Flash, Kind, Lpn, Oob, Ppn, Tvpn};

impl<C: Cache, S: MapStore> Demand<C, S> {
    /// Rebuilds the scheme; the translation pages in `distrusted` are known to be damaged. `report` has what was found
    /// before anything is changed.
    pub(super) fn mount_on<F: Flash>(
        flash: &mut F,
        logical_pages: u32,
        settings: &Settings,
        mut distrusted: BTreeSet<Ppn>,
        report: &mut MountReport,
    ) -> Outcome<F, Self> {
        let g = *flash.geometry();
        let plan = Self::plan(&g, logical_pages, settings).expect("the settings were accepted before");
        let mut ftl = Self::blank(plan);
        let pages = ftl.map.store.count() as usize;
        // The newest sound translation page of each TVPN, and its watermark.
        let mut newest: Vec<Option<(Ppn, Oob)>> = vec![None; pages];
        // Data pages programmed after their translation page's watermark: the entries that were lost with the cache,
        // and those that changed the page afterwards without moving the watermark.
        let mut lost: BTreeMap<u32, (u64, u64, Ppn)> = BTreeMap::new();
        let census = Census::take(flash, ftl.map.space.own_bytes(), |found, health| {
            for &(ppn, oob) in found {
                match oob.kind {
                    Kind::Translation if oob.tvpn().index() < pages && !distrusted.contains(&ppn) => {
                        let best = &mut newest[oob.address as usize];
                        if best.is_none_or(|(_, best)| oob.program > best.program) {
                            *best = Some((ppn, oob));
                        }
                    }
                    Kind::Data if oob.address < logical_pages => {
                        let page = newest[ftl.map.store.locate(oob.address).0.index()];
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
        ftl.map.space.adopt(&census, DATA, Some(TRANSLATION));
        ftl.version = census.max_version;
        *report = census.report();
        // What these alone knew is discards: all else the data pages say.
        report.lost_discards = distrusted.len() as u64;
        let mut words = vec![Ppn::NONE.0; ftl.shape.page_entries as usize];
        for (tvpn, page) in newest.iter().enumerate().map(|(t, page)| (Tvpn(t as u32), *page)) {
            let range = ftl.shape.lpns(tvpn);
            let first = range.start;
            words.fill(Ppn::NONE.0);
            let mut watermark = 0;
            if let Some((ppn, oob)) = page {
                watermark = oob.version;
                let (oob, content) = flash.read(ppn, Cause::Recovery)?;
                if oob.kind == Kind::Torn {
                    // It was whole once, and has been damaged since: all over again, without it. Nothing was written
                    // yet, and an older one, or none, only makes more data pages count.
                    distrusted.insert(ppn);
                    return Self::mount_on(flash, logical_pages, settings, distrusted, report);
                }
                let page = TranslationPage { oob, words: content.words().ok_or(Error::Corrupt)? };
                ftl.map.store.found(ppn, page);
                ftl.map.store.entries(page, 0, &mut words);
                forget_beyond(&mut words, &g);
                ftl.map.space.blocks.claim(ppn)?;
            }
            let mut group: Vec<Entry> = Vec::new();
            for lpn in range {
                let entry = &mut words[(lpn - first) as usize];
                let restored = match lost.get(&lpn) {
                    Some(&(.., ppn)) => (ppn.0 != *entry).then_some(ppn),
                    None if *entry == Ppn::NONE.0 || census.holds(flash, Ppn(*entry), lpn, watermark)? => None,
                    // The page was discarded, and its place taken since: the entry was lost.
                    None => Some(Ppn::NONE),
                };
                if let Some(ppn) = restored {
                    *entry = ppn.0;
                    group.push(Entry { lpn: Lpn(lpn), ppn });
                }
                if *entry != Ppn::NONE.0 {
                    ftl.map.space.blocks.claim(Ppn(*entry))?;
                }
            }
            report.restored += group.len() as u64;
            if group.is_empty() {
                continue;
            }
            // A translation page's lost entries go into the cache as dirty ones, all or none of them.
            if ftl.cache.restore(&group, |lpn| words.get((lpn - first) as usize).copied().unwrap_or(u32::MAX)) {
                if group.iter().any(|entry| entry.ppn == Ppn::NONE) {
                    ftl.map.trimmed.insert(tvpn.0);
                }
            } else {
                // These do not fit, and are written once everything is known.
                ftl.overdue.extend(group.iter().map(|entry| (entry.lpn.0, entry.ppn.0)));
            }
        }
        ftl.erase_dead(flash)?;
        ftl.seal_tired(flash);
        match ftl.write_overdue(flash) {
            // The device can still be read, and says that it is full when it is written.
            Ok(()) | Err(Error::Full) => {}
            Err(error) => return Err(error),
        }
        // Cut after cut must not eat up the room that collecting needs: it is made before anything else takes a page.
        if ftl.overdue.is_empty() {
            ftl.make_room_everywhere(flash)?;
        }
        Ok(ftl)
    }
}

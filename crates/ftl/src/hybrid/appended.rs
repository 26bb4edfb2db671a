//! Data blocks that are written like logs, with their page map in spare areas (the ROSE thesis, chapter 4).
//!
//! A data block takes any page of its logical block until it is full. Where each lies is a map in the spare areas of
//! its pages (`parts/spare_map.rs`), to which the newest page leads; RAM keeps the number of that page for every data
//! block, and a few maps. A merge writes the newest pages one behind the other, so that blank ones are left at the end.
//!
//! A block that a merge or a whole write fills has no map in the cache: it is not the data block yet. Its map is built
//! page by page beside the cache. What is not known of it is what a whole write put there: each page at its own place.
//!
//! A page that is discarded in RAM alone is still named by the map on flash. So RAM remembers that it is discarded
//! until it is written or merged away. In the log it counts until then.
//!
//! With `log-style = off` pages have their places in data blocks as well: what is below the last programmed page goes
//! to the log, and what is above it is padded up to. It is what the ROSE thesis compares log-style blocks with.
//!
//! # Mounting
//!
//! Of the blocks with pages that count, one that was written as data and whose map is whole is a data block. It is not
//! if a torn page lies below a sound one, as an erase that was cut short leaves them: the torn one may have held a
//! section of the map. Of two for one logical block that with more pages that count is it. Whatever else holds pages
//! that count becomes a log block: its pages are found before the data block's, so any such choice is right.

use super::placement::{Held, Placement};
use super::state::{Core, HOLE_IN_DATA};
use crate::parts::holdings::Holdings;
use crate::parts::spare_map::{BlockMap, Layout, MapCache, NULL, SpareArea};
use crate::{ConfigError, Loader, Outcome, Parameter, Saver, Settings};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use flash::{Block, Cause, Flash, Geometry, Kind, Lbn, Lpn, Payload, Ppn, ProgramOrder};

/// `log-style`: whether data blocks are appended to.
pub(crate) const LOG_STYLE: Parameter = Parameter::switch("log-style", true)
    .text(
        "Append to data blocks, with their page map in spare areas. Off gives each page its place and pads what lies \
         below it.",
    )
    .source("{rose}, section 4.1; off: figure 4.1a");

/// `group`: pages of a section of the map.
pub(crate) const GROUP: Parameter = Parameter::count("group", 0, 0..=8192)
    .unit("pages")
    .text(
        "Pages in a section of the map (G). More take longer tables in each spare area; fewer make the directory \
         longer. 0 stands for half a block of up to 64 pages, and for 16 in larger blocks.",
    )
    .source("{rose}, table 4.1 and figure 4.2");

/// `cache-maps`: maps in RAM.
pub(crate) const CACHE_MAPS: Parameter = Parameter::count("cache-maps", 8, 0..=4096)
    .unit("maps")
    .text("Maps of data blocks kept in RAM, those used last. Each saves up to two reads of spare areas.")
    .source("{rose}, section 4.2: 2 to 16");

/// What is counted where data blocks are appended to.
pub(crate) const COUNTERS: &[(&str, &str)] = &[
    ("map_hits", "pages of data blocks found without reading a spare area"),
    ("map_misses", "pages that took the reading of one or two"),
    ("map_reads", "spare areas read for maps, merges included"),
    ("data_pages", "host pages written to their data block"),
    ("log_pages", "host pages written to the log area"),
    ("collisions_with_room", "of these, such whose data block had blank pages"),
    ("dummy_pages", "pages programmed to keep the chip's program order"),
    ("full_data_blocks", "data blocks whose last page was programmed"),
    ("dummy_pages_of_full", "padding that these held then (the ROSE thesis, figure 5.13)"),
    ("full_merges", "logical blocks written anew into a free block"),
    ("merge_copies", "pages copied by merges"),
    ("cleaned_log_blocks", "log blocks cleaned: all logical blocks with a live page in one are merged"),
    ("dead_log_blocks", "of these, such that held no live page and cost an erase alone"),
    ("density_sum", "logical blocks with a live page, summed over the log blocks cleaned"),
];

/// Bytes of a spare area in equation 13 beside the tables: bad mark and LPN.
const PAPER_BYTES: u32 = 5;

const NO_BLOCK: Block = Block(u32::MAX);

/// See the module's description.
#[derive(Clone, Debug)]
pub struct Appended {
    log_style: bool,
    /// The newest page of each data block, which has the directory.
    heads: Vec<u16>,
    pub(crate) cache: MapCache,
    /// The map of the data block that was loaded last.
    loaded: BlockMap,
    /// A block that is being filled, and its map.
    filling: (Block, BlockMap),
    /// What the entries that were changed last held before.
    before: (u16, u16),
    /// Pages that were discarded in RAM alone.
    discarded: BTreeSet<u32>,
    /// Without log style, the padding in each block that was taken to be filled.
    padding: Vec<u16>,
    /// Data blocks that became full, and the padding in them.
    full: (u64, u64),
}

impl Appended {
    fn layout_of(g: &Geometry, group: u32) -> Layout {
        let group = match (group, g.pages_per_block) {
            (0, pages @ ..=64) => pages / 2,
            (0, _) => 16,
            (group, _) => group,
        };
        Layout::single(g.pages_per_block, group)
    }

    /// Group sizes that fit, for the advice.
    fn fitting(g: &Geometry, spare: &SpareArea) -> String {
        let fits = |&group: &u32| {
            Layout::single(g.pages_per_block, group).check(g, spare, PAPER_BYTES, GROUP.name, String::new).is_ok()
        };
        let groups: Vec<u32> = (0..=g.pages_per_block.ilog2()).map(|power| 1 << power).filter(fits).collect();
        if groups.is_empty() {
            return "no group size fits: use smaller blocks, a weaker code (spare-ecc) or pages with more spare bytes"
                .into();
        }
        let groups: Vec<String> = groups.iter().map(|group| format!("{group}")).collect();
        format!("of the powers of two, {} fit", groups.join(", "))
    }

    /// The map of a block that is being filled, of which the pages below `end` are programmed.
    fn filling(&mut self, block: Block, end: u16) -> &mut BlockMap {
        if self.filling.0 != block || end == 0 {
            let layout = self.cache.layout();
            self.filling = (block, BlockMap::empty(layout));
            (0..end).for_each(|page| _ = self.filling.1.set(layout, page.into(), page));
        }
        &mut self.filling.1
    }

    /// Counts a data block whose last page was programmed.
    fn count_full(&mut self, block: Block) {
        self.full.0 += 1;
        self.full.1 += u64::from(self.padding.get(block.index()).copied().unwrap_or(0));
    }

    /// Whether a block was written as data, told by one of its pages.
    fn is_data<F: Flash>(flash: &mut F, ppn: Ppn) -> Outcome<F, bool> {
        Ok(match flash.read_oob(ppn, Cause::Recovery)?.map(|oob| oob.kind) {
            // One that is damaged may be in either sort of block, and a log block can be any.
            Some(Kind::Trim) => match flash.read(ppn, Cause::Recovery)?.1 {
                Payload::Meta(words) => words[0] == HOLE_IN_DATA,
                _ => false,
            },
            kind => kind == Some(Kind::Data),
        })
    }

    /// The newest page of a block that can be a data block: the last one that is whole. `None` if a torn page lies
    /// below it.
    fn head(g: &Geometry, found: &Holdings, block: Block) -> Option<u32> {
        let seen = found.census.blocks[block.index()]?;
        let mut head = None;
        for page in (0..seen.programmed).rev() {
            let ppn = g.page(block, page);
            if found.census.garbled.contains(&ppn) {
                if head.is_some() {
                    return None;
                }
            } else if head.is_none() && !found.census.spoiled.contains(&ppn) {
                head = Some(page);
            }
            if seen.whole && head.is_some() {
                break;
            }
        }
        head
    }
}

impl Core<Appended> {
    /// Whether neither the log nor a data block can hold a page.
    fn is_nowhere(&self, lpn: Lpn) -> bool {
        self.in_log(lpn).is_none() && self.data_block(self.split(lpn).0).is_none()
    }
}

impl Placement for Appended {
    const APPENDS: bool = true;

    fn new(g: &Geometry, logical_pages: u32, settings: &Settings) -> Result<Self, ConfigError> {
        let layout = Self::layout_of(g, settings.small(&GROUP));
        let (log_style, spare) = (settings.switch(&LOG_STYLE), settings.into());
        if !log_style && g.order != ProgramOrder::Strict {
            return Err(ConfigError {
                key: LOG_STYLE.name,
                what: format!(
                    "off pads blocks up to the place of a page, which makes sense on chips of strict program order \
                     alone, and this one's is {}",
                    g.order.name()
                ),
                fix:
                    "give the device order=strict, or use fast with sequential=none, which is the same without padding"
                        .into(),
            });
        }
        if layout.group > g.pages_per_block {
            return Err(ConfigError {
                key: GROUP.name,
                what: format!("groups of {} pages in blocks of {}", layout.group, g.pages_per_block),
                fix: Self::fitting(g, &spare),
            });
        }
        if log_style {
            layout.check(g, &spare, PAPER_BYTES, GROUP.name, || Self::fitting(g, &spare))?;
        }
        Ok(Appended {
            log_style,
            heads: vec![NULL; logical_pages.div_ceil(g.pages_per_block) as usize],
            cache: MapCache::new(layout, settings.count(&CACHE_MAPS) as usize),
            loaded: BlockMap::unknown(&layout),
            filling: (NO_BLOCK, BlockMap::empty(&layout)),
            before: (NULL, NULL),
            discarded: BTreeSet::new(),
            padding: vec![0; if log_style { 0 } else { g.block_count() as usize }],
            full: (0, 0),
        })
    }

    fn spare_bytes(&self) -> u32 {
        if self.log_style { self.cache.layout().bytes() } else { 0 }
    }

    #[inline]
    fn next(core: &Core<Self>, block: Block, offset: u32) -> Option<u32> {
        let end = core.written.end(block);
        let page = if core.place.log_style { end } else { offset };
        (page >= end && page < core.p()).then_some(page)
    }

    #[inline]
    fn find<F: Flash>(core: &mut Core<Self>, flash: &mut F, lpn: Lpn) -> Outcome<F, Option<Ppn>> {
        let (lbn, offset) = core.split(lpn);
        let Some(block) = core.data_block(lbn) else { return Ok(None) };
        if !core.place.log_style {
            return Ok(core.live_bit(lpn));
        }
        let (g, place) = (&core.g, &mut core.place);
        let ppn_of = |page: u16| g.page(block, page.into());
        let head = place.heads[lbn.index()];
        let map = place.cache.find(flash, lbn, offset, head, |page| Some(ppn_of(page)), Cause::TranslationLoad)?;
        let page = map.at(offset);
        place.cache.put(lbn, map);
        Ok((page != NULL).then(|| ppn_of(page)))
    }

    fn load<F: Flash>(core: &mut Core<Self>, flash: &mut F, lbn: Lbn) -> Outcome<F> {
        let Some(block) = core.data_block(lbn).filter(|_| core.place.log_style) else { return Ok(()) };
        let (g, place) = (&core.g, &mut core.place);
        let layout = *place.cache.layout();
        place.loaded = place.cache.get(lbn).cloned().unwrap_or_else(|| BlockMap::unknown(&layout));
        let ppn_of = |page: u16| Some(g.page(block, page.into()));
        let head = place.heads[lbn.index()];
        let reads = place.loaded.fetch_all((&layout, lbn), flash, head, ppn_of, Cause::MergeFull)?;
        place.cache.reads += u64::from(reads);
        Ok(())
    }

    fn place(core: &Core<Self>, block: Block, offset: u32) -> (Ppn, u32) {
        let page = if core.place.log_style { core.place.loaded.at(offset).into() } else { offset };
        (core.g.page(block, page), 1)
    }

    fn stage<F: Flash>(core: &mut Core<Self>, flash: &mut F, lpn: Lpn, ppn: Ppn) -> Outcome<F> {
        let ((lbn, offset), block, page) = (core.split(lpn), core.g.block_of(ppn), core.g.offset_of(ppn) as u16);
        let is_data = core.data_block(lbn) == Some(block);
        let (g, place) = (&core.g, &mut core.place);
        if !place.log_style {
            return Ok(());
        }
        let layout = *place.cache.layout();
        if is_data {
            let ppn_of = |page: u16| Some(g.page(block, page.into()));
            let head = place.heads[lbn.index()];
            let mut map = place.cache.find(flash, lbn, offset, head, ppn_of, Cause::TranslationLoad)?;
            place.before = map.set(&layout, offset, page);
            core.pool.stage_spare(flash, ppn, layout.encode([].into_iter(), &map, offset, page));
            place.cache.put(lbn, map);
        } else {
            let map = place.filling(block, page);
            map.set(&layout, offset, page);
            let own = layout.encode([].into_iter(), map, offset, page);
            core.pool.stage_spare(flash, ppn, own);
        }
        Ok(())
    }

    fn programmed(core: &mut Core<Self>, lpn: Lpn, ppn: Ppn, done: bool) {
        let (lbn, offset) = core.split(lpn);
        let block = core.g.block_of(ppn);
        if core.data_block(lbn) != Some(block) {
            return;
        }
        if done && core.g.offset_of(ppn) == core.p() - 1 {
            core.place.count_full(block);
        }
        if !core.place.log_style {
            return;
        }
        if done {
            core.place.heads[lbn.index()] = core.g.offset_of(ppn) as u16;
        } else {
            let (layout, before) = (*core.place.cache.layout(), core.place.before);
            core.place.cache.get_mut(lbn).into_iter().for_each(|map| map.undo(&layout, offset, before));
        }
    }

    #[inline(always)]
    fn begun(&mut self, block: Block) {
        if let Some(padding) = self.padding.get_mut(block.index()) {
            *padding = 0;
        }
    }

    #[inline(always)]
    fn padded(&mut self, block: Block) {
        if let Some(padding) = self.padding.get_mut(block.index()) {
            *padding += 1;
        }
    }

    fn installed(core: &mut Core<Self>, lbn: Lbn) {
        let mut map = BlockMap::empty(core.place.cache.layout());
        core.place.heads[lbn.index()] = NULL;
        if let Some(block) = core.data_block(lbn) {
            let end = core.written.end(block) as u16;
            if u32::from(end) == core.p() {
                core.place.count_full(block);
            }
            core.place.heads[lbn.index()] = end - 1;
            core::mem::swap(&mut map, core.place.filling(block, end));
            core.place.filling.0 = NO_BLOCK;
        }
        core.place.cache.get_mut(lbn).into_iter().for_each(|cached| core::mem::swap(cached, &mut map));
    }

    fn is_mapped(core: &Core<Self>, lpn: Lpn) -> Option<bool> {
        (core.is_nowhere(lpn) || core.place.is_discarded(lpn)).then_some(false)
    }

    fn forget(core: &mut Core<Self>, lpn: Lpn) {
        if core.is_nowhere(lpn) {
            return;
        }
        core.place.discarded.insert(lpn.0);
        if core.in_log(lpn).is_none() && core.live_bit(lpn).is_some() {
            core.change_terms(core.split(lpn).0, |core| core.supersede(lpn));
        }
    }

    #[inline]
    fn is_discarded(&self, lpn: Lpn) -> bool {
        !self.discarded.is_empty() && self.discarded.contains(&lpn.0)
    }

    #[inline]
    fn recall(&mut self, lpn: Lpn) -> bool {
        !self.discarded.is_empty() && self.discarded.remove(&lpn.0)
    }

    fn data_blocks<F: Flash>(
        core: &mut Core<Self>,
        flash: &mut F,
        found: &Holdings,
        held: &Held,
    ) -> Outcome<F, BTreeMap<Lbn, u32>> {
        let mut chosen: BTreeMap<Lbn, (usize, u32, u16)> = BTreeMap::new();
        for (&block, pages) in held {
            let (lbn, _) = core.split(pages[0].0);
            if pages.iter().all(|&(lpn, _)| core.split(lpn).0 == lbn)
                && Self::is_data(flash, pages[0].1)?
                && let Some(head) = Self::head(&core.g, found, Block(block))
                // Free page reuse leaves log pages behind data pages: then the last page has no map.
                && Self::is_data(flash, core.g.page(Block(block), head))?
            {
                let best = chosen.entry(lbn).or_insert((0, 0, NULL));
                *best = (*best).max((pages.len(), block, head as u16));
            }
        }
        chosen.iter().for_each(|(&lbn, &(_, _, head))| core.place.heads[lbn.index()] = head);
        Ok(chosen.into_iter().map(|(lbn, (_, block, _))| (lbn, block)).collect())
    }

    fn audit<F: Flash>(core: &Core<Self>, flash: &mut F, lbn: Lbn) -> Result<Vec<Option<Ppn>>, String> {
        let place = &core.place;
        let layout = *place.cache.layout();
        let Some(block) = core.data_block(lbn) else { return Ok(vec![None; core.lpns(lbn).len()]) };
        if !place.log_style {
            return Ok(core.lpns(lbn).map(|lpn| core.live_bit(Lpn(lpn))).collect());
        }
        let mut map = BlockMap::unknown(&layout);
        let ppn_of = |page: u16| core.g.page(block, page.into());
        let head = place.heads[lbn.index()];
        let fetched = map.fetch_all((&layout, lbn), flash, head, |page| Some(ppn_of(page)), Cause::Recovery);
        fetched.map_err(|error| format!("{error}"))?;
        let cached = place.cache.get(lbn);
        let page = |(offset, lpn): (u32, u32)| {
            if cached.is_some_and(|cached| cached.has(&layout, offset) && cached.at(offset) != map.at(offset)) {
                return Err(format!("the cached map of LPN {lpn} is not what its spare areas say"));
            }
            Ok(Some(map.at(offset)).filter(|&page| page != NULL).map(ppn_of))
        };
        (0..).zip(core.lpns(lbn)).map(page).collect()
    }

    fn memory(core: &Core<Self>) -> Vec<(&'static str, u64)> {
        let (logical, place) = (core.data.len() as u64, &core.place);
        let one_more = MapCache::bytes_of(place.cache.layout(), 1);
        let mut out = vec![
            ("next and newest pages", logical * 4),
            ("cached maps", if place.log_style { place.cache.memory() + one_more } else { 2 }),
            ("discarded pages", 4 + place.discarded.len() as u64 * 4),
        ];
        if core.scores.is_some() {
            out.push(("log pages of logical blocks", logical * 2));
        }
        out
    }

    fn counters(core: &Core<Self>) -> Vec<(&'static str, u64)> {
        let (cache, merges) = (&core.place.cache, &core.merges);
        let values = [
            cache.hits,
            cache.misses,
            cache.reads,
            merges.in_place,
            merges.logged,
            merges.collisions,
            merges.dummies,
            core.place.full.0,
            core.place.full.1,
            merges.fulls,
            merges.copies,
            merges.cleaned,
            merges.dead,
            merges.density,
        ];
        COUNTERS.iter().map(|&(name, _)| name).zip(values).collect()
    }

    fn reset_counters(&mut self) {
        (self.cache.hits, self.cache.misses, self.cache.reads) = (0, 0, 0);
        self.full = (0, 0);
    }

    fn save(core: &Core<Self>, out: &mut Saver) {
        for (&block, &head) in core.data.iter().zip(&core.place.heads) {
            out.u16(if block == super::log::NONE { 0 } else { core.written.end(Block(block)) as u16 });
            out.u16(head);
            if let Some(&padding) = core.place.padding.get(block as usize) {
                out.u16(padding);
            }
        }
        core.place.cache.save(out);
        out.u32(core.place.discarded.len() as u32);
        core.place.discarded.iter().for_each(|&lpn| out.u32(lpn));
    }

    fn load_saved(core: &mut Core<Self>, from: &mut Loader<'_>) {
        for (&block, head) in core.data.iter().zip(&mut core.place.heads) {
            let next = from.u16();
            *head = from.u16();
            if block != super::log::NONE {
                core.written.fill_below(Block(block), next.into());
            }
            if let Some(padding) = core.place.padding.get_mut(block as usize) {
                *padding = from.u16();
            }
        }
        core.place.cache.load(from);
        core.place.discarded = (0..from.u32()).map(|_| from.u32()).collect();
    }
}

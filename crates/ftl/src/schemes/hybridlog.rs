//! `hybridlog`: data blocks that are written like logs, with their page map in spare areas.
//!
//! The problem: where each page has one place in its data block, a second write of it goes to the log area while most
//! of the block is blank; and a chip that wants its pages programmed in order has the gaps filled with padding. So data
//! blocks are merged half empty. HybridLog (S2, chapter 4) appends to data blocks too: they take any page of their
//! logical block until they are full, and only then does the log area take over. Which page of the data block holds
//! what is a map in its spare areas (`parts/spare_map.rs`), of which RAM keeps a few; a merge writes the newest pages
//! one behind the other, so that blank ones are left at the end.
//!
//! ```text
//!                  a page left                             block map ─▶ data block, newest page
//!  write LPN ──────────────────▶ data block: next page                     │ spare area: MD ─▶ MT ─▶ page
//!      │ full
//!      ▼
//!  log area: pages of any block, found by a map in RAM ── full: ──▶ the oldest is cleaned by full merges
//! ```
//!
//! # Structures
//!
//! RAM: for each logical block its data block, 4 B, and the next and the newest page of that, 4 B (S2 counts a byte;
//! the newest page is another than the last one after a failed program or a mount); for each page of a log block 4 B
//! for what it holds and 4 B in a hash table that finds it; `cache-maps` maps of P + P/G entries of a byte. Flash: in
//! the spare area of each data page a directory (MD, an entry for each group of G pages) and the map of its own group
//! (MT), each entry log2 P bits, by equations 8 to 11 of S2 with the misprints corrected: *l* where a 1 is printed, the
//! section's place *l* mod G, the former MD(i) where nothing changes. `spare-layout` and `spare-ecc` say what has to
//! fit beside them; a group size that does not is refused.
//!
//! # Costs
//!
//! A write is a program, a read a read; with the map not in RAM up to two reads of spare areas come before it. Cleaning
//! a log block with live pages of n logical blocks costs their pages as copies and n + 1 erases. No page is padded.
//! `log-style = off` is what S2 compares it with: pages have their places, what is below the last programmed page goes
//! to the log, and what is above it is padded up to.
//!
//! # Space
//!
//! A device has a block for each logical block, the log area, and two free blocks. A merge takes one of these and gives
//! one back, and never needs the other; a log block is begun only while there are fewer than the area has, and cleaning
//! one frees it. So cleaning ends, and whatever is full is full of live pages.
//!
//! # Mounting
//!
//! The newest version of each page counts, wherever it is (`parts/holdings.rs`). A merge that was cut short leaves a
//! block of copies, which is dropped. A block that was written as data, with pages of one logical block, is its data
//! block; of two (the erase of the older one was cut) that with more pages that count is, and the other becomes a log
//! block, as whatever else holds pages that count, and as a data block with torn pages among its others, whose map is
//! not whole. A log block's pages are found before the data block's, which makes any such choice right. The map starts
//! from the last page of a data block that is whole. Blocks that are partly filled are not filled further: an erase
//! that was cut short can leave a block which looks so.
//!
//! # Discards
//!
//! With `durable-trim` a discarded page is written anew, without data, and merged like any other. Otherwise RAM
//! remembers that it is discarded (4 B each) until it is written or merged away.
//!
//! # Departures
//!
//! S2 does not say which log block is cleaned; here it is the oldest. It gives no code for an entry that is none; see
//! `parts/spare_map.rs`. Versions and program numbers stand in the spare area beside what S2 lists: recovery needs them
//! to tell log pages of the same LPN apart.

use crate::hybrid::log::{NONE, Slot, Slots};
use crate::hybrid::parameters::{LOG_BLOCKS, RESERVE};
use crate::parts::holdings::Holdings;
use crate::parts::pool::Pool;
use crate::parts::space::more_spare;
use crate::parts::spare_map::{self, BlockMap, Layout, MapCache, NULL};
use crate::{ConfigError, Error, Ftl, Loader, MountReport, Parameter, Range, Saver, Scheme, Settings, Value};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use flash::{
    Block, Cause, Collection, FaultKind, Flash, FlashFault, Geometry, Kind, Lpn, Mode, Oob, Payload, Ppn, ProgramOrder,
};

/// The row.
pub(super) static ROW: Scheme = Scheme {
    name: "hybridlog",
    summary: "block map with a log area; data blocks are appended to as well, with their page map in spare areas",
    paper: "S2, chapter 4: HybridLog",
    essay: include_str!("hybridlog.rs"),
    parameters: PARAMETERS,
    counters: &[
        ("map_hits", "pages of data blocks found without reading a spare area"),
        ("map_misses", "pages that took the reading of one or two"),
        ("map_reads", "spare areas read for maps, merges included"),
        ("data_pages", "host pages written to their data block"),
        ("log_pages", "host pages written to the log area"),
        ("collisions_with_room", "of these, such whose data block had blank pages"),
        ("dummy_pages", "pages programmed to keep the chip's program order"),
        ("full_merges", "logical blocks written anew into a free block"),
        ("merge_copies", "pages copied by merges"),
        ("cleaned_log_blocks", "log blocks cleaned: all logical blocks with a live page in one are merged"),
        ("dead_log_blocks", "of these, such that held no live page and cost an erase alone"),
        ("density_sum", "logical blocks with a live page, summed over the log blocks cleaned"),
    ],
    phases: &[Cause::Host, Cause::MergeFull, Cause::Metadata, Cause::Recovery],
    has_cache: false,
    keeps_data: true,
    state_version: 1,
};

const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "log-style",
        summary: "append to data blocks, with their page map in spare areas; off: each page has its place, with \
                  padding",
        unit: "",
        default: Value::Switch(true),
        range: Range::Switch,
        source: "S2 section 4.1; off: figure 4.1a",
    },
    Parameter {
        name: "group",
        summary: "pages in a section of the map (G); 0 stands for half a block of up to 64 pages, for 16 in larger \
                  ones",
        unit: "pages",
        default: Value::Count(0),
        range: Range::Count(0, 8192),
        source: "S2 table 4.1 and figure 4.2",
    },
    Parameter {
        name: "cache-maps",
        summary: "maps of data blocks kept in RAM, those used last: each saves up to two reads of spare areas",
        unit: "maps",
        default: Value::Count(8),
        range: Range::Count(0, 4096),
        source: "S2 section 4.2: 2 to 16",
    },
    LOG_BLOCKS,
    spare_map::spare_layout("recoverable"),
    spare_map::SPARE_ECC,
    super::page::DURABLE_TRIM,
];

/// Bytes of a spare area in equation 13 beside the tables: bad mark and LPN.
const PAPER_BYTES: u32 = 5;
/// The one word of a page that was discarded durably: the role of its block.
const HOLE_IN_DATA: u32 = 0;
const HOLE_IN_LOG: u32 = 1;

/// What is programmed of a data block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Filled {
    /// The page that is programmed next; as many as a block has if none is.
    next: u16,
    /// The newest page, which has the directory.
    head: u16,
}

const EMPTY: Filled = Filled { next: 0, head: NULL };

#[derive(Clone, Copy, Default, Debug)]
struct Counters {
    reads: u64,
    data_pages: u64,
    log_pages: u64,
    collisions: u64,
    dummies: u64,
    merges: u64,
    copies: u64,
    cleaned: u64,
    dead: u64,
    density: u64,
}

/// See the module's description.
#[derive(Clone, Debug)]
pub struct HybridLog {
    g: Geometry,
    log_style: bool,
    pool: Pool,
    /// The data block of each logical block.
    data: Vec<u32>,
    filled: Vec<Filled>,
    /// The log blocks. Pages of theirs alone are counted live where data blocks are appended to.
    slots: Slots,
    /// The log block that is being filled.
    current: Slot,
    /// Where each page lies in the log area. A controller has a hash table of those that do.
    log_map: Vec<u32>,
    most_log_blocks: u32,
    cache: MapCache,
    durable_trim: bool,
    /// Pages that were discarded in RAM alone.
    discarded: BTreeSet<u32>,
    version: u64,
    counters: Counters,
}

impl HybridLog {
    fn layout_of(g: &Geometry, settings: &Settings) -> Layout {
        let group = match (settings.count("group") as u32, g.pages_per_block) {
            (0, pages @ ..=64) => pages / 2,
            (0, _) => 16,
            (group, _) => group,
        };
        Layout::single(g.pages_per_block, group)
    }

    /// Group sizes that fit, for the advice.
    fn fitting(g: &Geometry, settings: &Settings) -> String {
        let fits = |&group: &u32| {
            Layout::single(g.pages_per_block, group).check(g, settings, PAPER_BYTES, "group", String::new).is_ok()
        };
        let groups: Vec<u32> = (0..=g.pages_per_block.ilog2()).map(|power| 1 << power).filter(fits).collect();
        if groups.is_empty() {
            return "no group size fits: use smaller blocks, a weaker code (spare-ecc) or pages with more spare bytes"
                .into();
        }
        let groups: Vec<String> = groups.iter().map(|group| format!("{group}")).collect();
        format!("of the powers of two, {} fit", groups.join(", "))
    }

    fn blank(g: Geometry, logical_pages: u32, settings: &Settings) -> Result<HybridLog, ConfigError> {
        let layout = Self::layout_of(&g, settings);
        let log_style = settings.switch("log-style");
        if !log_style && g.order != ProgramOrder::Strict {
            return Err(ConfigError {
                key: "log-style",
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
                key: "group",
                what: format!("groups of {} pages in blocks of {}", layout.group, g.pages_per_block),
                fix: Self::fitting(&g, settings),
            });
        }
        if log_style {
            layout.check(&g, settings, PAPER_BYTES, "group", || Self::fitting(&g, settings))?;
        }
        let logical_blocks = logical_pages.div_ceil(g.pages_per_block);
        let kept = logical_blocks + RESERVE;
        if g.block_count() <= kept {
            return Err(ConfigError {
                key: "spare",
                what: format!(
                    "{logical_blocks} logical blocks, {RESERVE} blocks kept free and a log block need {} blocks, \
                     and there \
                     are {}",
                    kept + 1,
                    g.block_count()
                ),
                fix: more_spare(&g, logical_pages, u64::from(kept + 1)),
            });
        }
        let (asked, most) = (settings.count("log-blocks"), g.block_count() - kept);
        if asked > u64::from(most) {
            return Err(ConfigError {
                key: "log-blocks",
                what: format!("{asked} log blocks, where the device leaves {most}"),
                fix: format!("choose 1 to {most}, or 0 for all that is left"),
            });
        }
        let most_log_blocks = if asked == 0 { most } else { asked as u32 };
        Ok(HybridLog {
            g,
            log_style,
            pool: Pool::new(g, settings),
            data: vec![NONE; logical_blocks as usize],
            filled: vec![EMPTY; logical_blocks as usize],
            slots: Slots::new(&g, most_log_blocks + 1, false),
            current: NONE,
            log_map: vec![NONE; logical_pages as usize],
            most_log_blocks,
            cache: MapCache::new(layout, settings.count("cache-maps") as usize),
            durable_trim: settings.switch("durable-trim"),
            discarded: BTreeSet::new(),
            version: 0,
            counters: Counters::default(),
        })
    }

    fn reserve<F: Flash>(&self, flash: &mut F) {
        if self.log_style {
            flash.reserve_spare(self.cache.layout().bytes());
        }
    }

    // ---- addresses ---------------------------------------------------------------------------------------------

    /// Logical block and place in it.
    #[inline(always)]
    fn split(&self, lpn: Lpn) -> (u32, u32) {
        (lpn.0 / self.g.pages_per_block, lpn.0 % self.g.pages_per_block)
    }

    fn lpns(&self, lbn: u32) -> core::ops::Range<u32> {
        let first = lbn * self.g.pages_per_block;
        first..(first + self.g.pages_per_block).min(self.log_map.len() as u32)
    }

    #[inline(always)]
    fn data_block(&self, lbn: u32) -> Option<Block> {
        let block = self.data[lbn as usize];
        (block != NONE).then_some(Block(block))
    }

    #[inline(always)]
    fn in_log(&self, lpn: Lpn) -> Option<Ppn> {
        let ppn = self.log_map[lpn.index()];
        (ppn != NONE).then_some(Ppn(ppn))
    }

    /// Takes the map of a data block out of the cache, or reads what is needed of it.
    #[inline]
    fn find<F: Flash>(&mut self, flash: &mut F, lbn: u32, offset: u32) -> Result<BlockMap, Error<F::Fault>> {
        let (g, head, block) = (&self.g, self.filled[lbn as usize].head, Block(self.data[lbn as usize]));
        let ppn_of = |place: u16| g.page(block, place.into());
        Ok(self.cache.find(flash, lbn, offset, head, ppn_of, Cause::TranslationLoad)?)
    }

    /// Where a page lies that was not discarded.
    #[inline]
    fn look_up<F: Flash>(&mut self, flash: &mut F, lpn: Lpn) -> Result<Option<Ppn>, Error<F::Fault>> {
        if !self.discarded.is_empty() && self.discarded.contains(&lpn.0) {
            return Ok(None);
        }
        if let Some(ppn) = self.in_log(lpn) {
            return Ok(Some(ppn));
        }
        let (lbn, offset) = self.split(lpn);
        let Some(block) = self.data_block(lbn) else { return Ok(None) };
        if !self.log_style {
            let ppn = self.g.page(block, offset);
            return Ok(self.pool.blocks.is_live(ppn).then_some(ppn));
        }
        let map = self.find(flash, lbn, offset)?;
        let place = map.at(offset);
        self.cache.put(lbn, map);
        Ok((place != NULL).then(|| self.g.page(block, place.into())))
    }

    // ---- writing -----------------------------------------------------------------------------------------------

    /// Log blocks that there may be: what settings allow, less the blocks that went bad.
    fn log_limit(&self) -> u32 {
        let good = self.g.block_count() - self.pool.blocks.bad_count();
        self.most_log_blocks.min(good.saturating_sub(self.data.len() as u32 + RESERVE))
    }

    /// The copy of a page in the log area, if there is one, is superseded.
    #[inline]
    fn kill_in_log(&mut self, lpn: Lpn) {
        if let Some(ppn) = self.in_log(lpn) {
            self.log_map[lpn.index()] = NONE;
            self.pool.blocks.kill(ppn);
            if let Some(slot) = self.slots.of(self.g.block_of(ppn)) {
                self.slots.died(slot);
            }
        }
    }

    /// Programs a page of host data, or a hole. False if the program failed.
    #[inline]
    fn program<F: Flash>(
        &mut self,
        flash: &mut F,
        ppn: Ppn,
        oob: Oob,
        data: Option<&F::User>,
    ) -> Result<bool, Error<F::Fault>> {
        let oob = Oob { program: self.pool.number(), ..oob };
        let result = match data {
            Some(data) => flash.program(ppn, oob, Payload::User(data), Cause::Host),
            None => {
                let role = if oob.kind == Kind::Log { HOLE_IN_LOG } else { HOLE_IN_DATA };
                flash.program(ppn, Oob { kind: Kind::Trim, ..oob }, Payload::Meta(&[role]), Cause::Metadata)
            }
        };
        self.programmed::<F>(ppn, result)
    }

    /// Whether a program went well; its block is noted if not.
    fn programmed<F: Flash>(&mut self, ppn: Ppn, result: Result<(), F::Fault>) -> Result<bool, Error<F::Fault>> {
        match result {
            Ok(()) => Ok(true),
            Err(fault) if fault.kind() == FaultKind::ProgramFailed => {
                self.pool.fail(self.g.block_of(ppn));
                Ok(false)
            }
            Err(fault) => Err(fault.into()),
        }
    }

    /// Programs dummies over some pages of a block, if the chip's order asks for it. False if one failed.
    fn pad<F: Flash>(
        &mut self,
        flash: &mut F,
        block: Block,
        pages: core::ops::Range<u32>,
    ) -> Result<bool, Error<F::Fault>> {
        if self.g.order != ProgramOrder::Strict {
            return Ok(true);
        }
        for page in pages {
            let (ppn, program) = (self.g.page(block, page), self.pool.number());
            let oob = Oob { kind: Kind::Dummy, mode: Mode::Normal, address: 0, version: 0, program, mark: 0 };
            let result = flash.program(ppn, oob, Payload::None, Cause::Metadata);
            if !self.programmed::<F>(ppn, result)? {
                return Ok(false);
            }
            self.counters.dummies += 1;
        }
        Ok(true)
    }

    /// Writes a page: data, or nothing where it is discarded durably.
    fn put<F: Flash>(&mut self, flash: &mut F, lpn: Lpn, data: Option<&F::User>) -> Result<(), Error<F::Fault>> {
        if !self.pool.failed.is_empty() {
            self.tidy(flash)?;
        }
        self.pool.blocks.clock += 1;
        self.version += 1;
        let oob = Oob::data(lpn, self.version, 0);
        // Cleaning the log for room may merge the page's own logical block, and leave room for it there.
        while !self.put_in_data(flash, oob, data)? && !self.put_in_log(flash, oob, data)? {}
        if !self.discarded.is_empty() {
            self.discarded.remove(&lpn.0);
        }
        Ok(())
    }

    /// Writes a page to its data block. False if that has no room for it, or failed.
    fn put_in_data<F: Flash>(
        &mut self,
        flash: &mut F,
        oob: Oob,
        data: Option<&F::User>,
    ) -> Result<bool, Error<F::Fault>> {
        let (lpn, (lbn, offset)) = (oob.lpn(), self.split(oob.lpn()));
        let Filled { next, head } = self.filled[lbn as usize];
        let page = if self.log_style { u32::from(next) } else { offset };
        if page < u32::from(next) || page >= self.g.pages_per_block {
            return Ok(false);
        }
        let block = match self.data_block(lbn) {
            Some(block) => block,
            None => {
                let block = self.pool.take(flash)?;
                self.data[lbn as usize] = block.0;
                block
            }
        };
        let ppn = self.g.page(block, page);
        let written = if self.log_style {
            let layout = *self.cache.layout();
            let mut map = self.find(flash, lbn, offset)?;
            let before = map.set(&layout, offset, page as u16);
            flash.stage_spare(ppn, &layout.encode([].into_iter(), &map, offset, page as u16));
            let written = self.program(flash, ppn, oob, data)?;
            if !written {
                map.undo(&layout, offset, before);
            }
            self.cache.put(lbn, map);
            written
        } else {
            self.pad(flash, block, next.into()..page)? && self.program(flash, ppn, oob, data)?
        };
        if !written {
            // What it holds is merged before the next write.
            self.filled[lbn as usize] = Filled { next: self.g.pages_per_block as u16, head };
            return Ok(false);
        }
        self.filled[lbn as usize] = Filled { next: page as u16 + 1, head: page as u16 };
        self.kill_in_log(lpn);
        if !self.log_style {
            self.pool.blocks.revive(ppn);
        }
        self.counters.data_pages += u64::from(data.is_some());
        Ok(true)
    }

    /// Appends a page to the log area. False if there was no room: some was made, or the program failed.
    fn put_in_log<F: Flash>(
        &mut self,
        flash: &mut F,
        oob: Oob,
        data: Option<&F::User>,
    ) -> Result<bool, Error<F::Fault>> {
        if self.current == NONE {
            while self.slots.in_use() >= self.log_limit() {
                let victim = self.slots.oldest().ok_or(Error::Full)?;
                self.clean(flash, victim)?;
            }
            let block = self.pool.take(flash)?;
            self.current = self.slots.add(block);
            return Ok(false);
        }
        let (slot, lpn) = (self.current, oob.lpn());
        let page = self.slots.get(slot).next;
        let ppn = self.g.page(self.slots.block(slot), page);
        let written = self.program(flash, ppn, Oob { kind: Kind::Log, ..oob }, data)?;
        if written {
            let (lbn, offset) = self.split(lpn);
            self.kill_in_log(lpn);
            if let Some(block) = self.data_block(lbn).filter(|_| !self.log_style) {
                let old = self.g.page(block, offset);
                if self.pool.blocks.is_live(old) {
                    self.pool.blocks.kill(old);
                }
            }
            self.slots.put(slot, page, lpn);
            self.slots.advance(slot, page + 1);
            self.pool.blocks.revive(ppn);
            self.log_map[lpn.index()] = ppn.0;
            self.counters.log_pages += u64::from(data.is_some());
            let blank = u32::from(self.filled[lbn as usize].next) < self.g.pages_per_block;
            self.counters.collisions += u64::from(blank && data.is_some());
        }
        if !written || page + 1 == self.g.pages_per_block {
            self.slots.close(slot, self.pool.blocks.live_of(self.slots.block(slot)));
            self.current = NONE;
        }
        Ok(written)
    }

    // ---- merging -----------------------------------------------------------------------------------------------

    /// Cleans a log block: every logical block with a live page in it is merged, and it is erased.
    fn clean<F: Flash>(&mut self, flash: &mut F, victim: Slot) -> Result<(), Error<F::Fault>> {
        let block = self.slots.block(victim);
        let mut lbns: Vec<u32> = Vec::new();
        let mut at = self.pool.blocks.next_live(block, 0);
        while let Some(page) = at {
            let (lbn, _) = self.split(self.slots.lpn_at(victim, page));
            if !lbns.contains(&lbn) {
                lbns.push(lbn);
            }
            at = self.pool.blocks.next_live(block, page + 1);
        }
        self.counters.cleaned += 1;
        self.counters.dead += u64::from(lbns.is_empty());
        self.counters.density += lbns.len() as u64;
        let mut gc = Collection::on(flash);
        for lbn in lbns {
            self.merge(&mut *gc, lbn)?;
            gc.then();
        }
        self.slots.remove(victim);
        self.pool.dispose(&mut *gc, block, Cause::MergeFull)
    }

    /// Writes the newest pages of a logical block to a free block, which becomes its data block, and erases the old
    /// one.
    fn merge<F: Flash>(&mut self, flash: &mut F, lbn: u32) -> Result<(), Error<F::Fault>> {
        self.counters.merges += 1;
        let layout = *self.cache.layout();
        let old = self.data_block(lbn);
        let mut map = self.cache.get(lbn).cloned().unwrap_or_else(|| BlockMap::unknown(&layout));
        if let Some(block) = old.filter(|_| self.log_style) {
            let head = self.filled[lbn as usize].head;
            let ppn_of = |place: u16| self.g.page(block, place.into());
            let reads = map.fetch_all(&layout, flash, head, ppn_of, Cause::MergeFull)?;
            self.counters.reads += u64::from(reads);
        }
        let in_data = |offset: u32| {
            let block = old?;
            let page = if self.log_style { u32::from(map.at(offset)) } else { offset };
            let ppn = self.g.page(block, page);
            let there = if self.log_style { page != u32::from(NULL) } else { self.pool.blocks.is_live(ppn) };
            there.then_some(ppn)
        };
        let kept = self.lpns(lbn).map(Lpn).filter(|lpn| !self.discarded.contains(&lpn.0));
        let sources: Vec<(u32, Ppn)> = kept
            .filter_map(|lpn| {
                let (_, offset) = self.split(lpn);
                Some((offset, self.in_log(lpn).or_else(|| in_data(offset))?))
            })
            .collect();
        let (target, filled, map) = self.copy_to_free_block(flash, &sources)?;

        for lpn in self.lpns(lbn).map(Lpn) {
            self.kill_in_log(lpn);
            self.discarded.remove(&lpn.0);
        }
        if !self.log_style {
            let end = self.g.pages_per_block;
            old.into_iter().for_each(|block| self.pool.blocks.shorten(block, 0));
            debug_assert!(sources.iter().all(|&(offset, _)| offset < end));
            sources.iter().for_each(|&(offset, _)| self.pool.blocks.revive(self.g.page(Block(target), offset)));
        }
        self.data[lbn as usize] = target;
        self.filled[lbn as usize] = filled;
        if let Some(cached) = self.cache.get_mut(lbn) {
            *cached = map;
        }
        match old {
            Some(block) => self.pool.dispose(flash, block, Cause::MergeFull),
            None => Ok(()),
        }
    }

    /// Copies pages of one logical block to a free block, one behind the other or each to its place. That block, if
    /// there was anything to copy, and the map of it.
    fn copy_to_free_block<F: Flash>(
        &mut self,
        flash: &mut F,
        sources: &[(u32, Ppn)],
    ) -> Result<(u32, Filled, BlockMap), Error<F::Fault>> {
        let layout = *self.cache.layout();
        'anew: loop {
            let mut map = BlockMap::empty(&layout);
            let mut filled = EMPTY;
            if sources.is_empty() {
                return Ok((NONE, filled, map));
            }
            let target = self.pool.take(flash)?;
            for &(offset, from) in sources {
                let page = if self.log_style { u32::from(filled.next) } else { offset };
                let to = self.g.page(target, page);
                if self.log_style {
                    map.set(&layout, offset, page as u16);
                    flash.stage_spare(to, &layout.encode([].into_iter(), &map, offset, page as u16));
                }
                let copied = self.pad(flash, target, filled.next.into()..page).and_then(|padded| {
                    let program = self.pool.number();
                    let edit = |oob: &mut Oob, words: &mut [u32]| {
                        oob.program = program;
                        match oob.kind {
                            Kind::Log => oob.kind = Kind::Data,
                            Kind::Trim => words[0] = HOLE_IN_DATA,
                            _ => {}
                        }
                    };
                    let copy = |flash: &mut F| flash.copy(from, to, Cause::MergeFull, edit).map(|_| ());
                    if padded {
                        let copied = copy(flash);
                        self.programmed::<F>(to, copied)
                    } else {
                        Ok(false)
                    }
                });
                match copied {
                    Ok(true) => {}
                    Ok(false) => {
                        self.pool.dispose(flash, target, Cause::MergeFull)?;
                        continue 'anew;
                    }
                    Err(error) => {
                        // What it holds are copies: it is erased before its next use.
                        self.pool.blocks.give_back(target);
                        return Err(error);
                    }
                }
                self.counters.copies += 1;
                filled = Filled { next: page as u16 + 1, head: page as u16 };
            }
            return Ok((target.0, filled, map));
        }
    }

    /// Moves what blocks hold that failed a program, and marks them bad.
    fn tidy<F: Flash>(&mut self, flash: &mut F) -> Result<(), Error<F::Fault>> {
        while let Some(&block) = self.pool.failed.last() {
            match self.slots.of(block) {
                Some(slot) => self.clean(flash, slot)?,
                None => {
                    let lbn = self.data.iter().position(|&data| data == block.0).expect("it is a data block or none");
                    self.merge(flash, lbn as u32)?;
                }
            }
        }
        Ok(())
    }

    // ---- mounting ----------------------------------------------------------------------------------------------

    /// Whether a block was written as data, told by one of its pages.
    fn is_data<F: Flash>(flash: &mut F, ppn: Ppn) -> Result<bool, Error<F::Fault>> {
        Ok(match flash.read_oob(ppn, Cause::Recovery)?.map(|oob| oob.kind) {
            Some(Kind::Trim) => flash.read(ppn, Cause::Recovery)?.1.meta()[0] == HOLE_IN_DATA,
            kind => kind == Some(Kind::Data),
        })
    }

    /// The newest page of a block that can be a data block: the last one that is whole. `None` if a torn page lies
    /// below it, as an erase that was cut short leaves them: it may have held a part of the map that is needed, though
    /// none of the pages that are.
    fn head<F: Flash>(flash: &mut F, found: &Holdings, block: Block) -> Result<Option<u32>, Error<F::Fault>> {
        let g = *flash.geometry();
        let Some(seen) = found.census.blocks[block.index()] else { return Ok(None) };
        let mut head = None;
        for page in (0..seen.programmed).rev() {
            let ppn = g.page(block, page);
            if flash.read_oob(ppn, Cause::Recovery)?.is_some_and(|oob| oob.kind == Kind::Torn) {
                if head.is_some() {
                    return Ok(None);
                }
            } else if head.is_none() && !found.census.spoiled.contains(&ppn) {
                head = Some(page);
            }
            if seen.whole && head.is_some() {
                break;
            }
        }
        Ok(head)
    }

    fn mount_on<F: Flash>(mut self, flash: &mut F) -> Result<(Self, MountReport), Error<F::Fault>> {
        let g = self.g;
        let mut found = Holdings::take(flash, self.log_map.len() as u32, 0)?;
        for block in found.settle() {
            found.copies.give_up(block);
        }
        self.pool.adopt(flash, &found)?;
        self.version = found.census.max_version;
        let mut pages: BTreeMap<u32, Vec<(Lpn, Ppn)>> = BTreeMap::new();
        for (lpn, ppn) in found.pages() {
            pages.entry(g.block_of(ppn).0).or_default().push((lpn, ppn));
        }
        // The data block of a logical block: of those written as such and whole, that with the most pages that count.
        let mut chosen: BTreeMap<u32, (usize, u32)> = BTreeMap::new();
        let mut heads: BTreeMap<u32, u32> = BTreeMap::new();
        for (&block, held) in &pages {
            if Self::is_data(flash, held[0].1)?
                && let Some(head) = Self::head(flash, &found, Block(block))?
            {
                heads.insert(block, head);
                let best = chosen.entry(self.split(held[0].0).0).or_insert((0, 0));
                *best = (*best).max((held.len(), block));
            }
        }
        for (&lbn, &(_, block)) in &chosen {
            self.data[lbn as usize] = block;
            self.filled[lbn as usize] = Filled { next: g.pages_per_block as u16, head: heads[&block] as u16 };
            if !self.log_style {
                pages[&block].iter().for_each(|&(_, ppn)| self.pool.blocks.revive(ppn));
            }
        }
        let is_chosen = |block: u32, held: &[(Lpn, Ppn)]| {
            chosen.get(&self.split(held[0].0).0).is_some_and(|&(_, chosen)| chosen == block)
        };
        let mut logs: Vec<u32> =
            pages.iter().filter(|(block, held)| !is_chosen(**block, held)).map(|(b, _)| *b).collect();
        logs.sort_by_key(|&block| found.census.blocks[block as usize].map_or(0, |found| found.first_program));
        for block in logs {
            let slot = self.slots.add(Block(block));
            for &(lpn, ppn) in &pages[&block] {
                self.slots.put(slot, g.offset_of(ppn), lpn);
                self.pool.blocks.revive(ppn);
                self.log_map[lpn.index()] = ppn.0;
            }
            self.slots.close(slot, self.pool.blocks.live_of(Block(block)));
        }
        while self.slots.in_use() > self.log_limit() {
            let Some(victim) = self.slots.oldest() else { break };
            match self.clean(flash, victim) {
                // The device can still be read, and says that it is full when it is written.
                Err(Error::Full) => break,
                cleaned => cleaned?,
            }
        }
        Ok((self, found.report()))
    }
}

impl<F: Flash> Ftl<F> for HybridLog {
    fn format(
        flash: &mut F,
        logical_pages: u32,
        settings: &Settings,
    ) -> Result<Result<Self, Error<F::Fault>>, ConfigError> {
        let mut hybridlog = Self::blank(*flash.geometry(), logical_pages, settings)?;
        hybridlog.reserve(flash);
        Ok(hybridlog.pool.exclude_bad(flash).map(|()| hybridlog))
    }

    fn mount(
        flash: &mut F,
        logical_pages: u32,
        settings: &Settings,
    ) -> Result<Result<(Self, MountReport), Error<F::Fault>>, ConfigError> {
        let hybridlog = Self::blank(*flash.geometry(), logical_pages, settings)?;
        hybridlog.reserve(flash);
        Ok(hybridlog.mount_on(flash))
    }

    #[inline]
    fn read<'f>(&mut self, flash: &'f mut F, lpn: Lpn) -> Result<Option<&'f F::User>, Error<F::Fault>> {
        let Some(ppn) = self.look_up(flash, lpn)? else { return Ok(None) };
        let (oob, data) = flash.read(ppn, Cause::Host)?;
        Ok(if oob.kind == Kind::Trim { None } else { Some(data.user()) })
    }

    fn is_mapped(&self, lpn: Lpn) -> Option<bool> {
        let nowhere = self.in_log(lpn).is_none() && self.data_block(self.split(lpn).0).is_none();
        (nowhere || self.discarded.contains(&lpn.0)).then_some(false)
    }

    #[inline]
    fn write(&mut self, flash: &mut F, lpn: Lpn, data: &F::User) -> Result<(), Error<F::Fault>> {
        self.put(flash, lpn, Some(data))
    }

    fn trim(&mut self, flash: &mut F, first: Lpn, count: u32) -> Result<(), Error<F::Fault>> {
        for lpn in (first.0..first.0 + count).map(Lpn) {
            if self.in_log(lpn).is_none() && self.data_block(self.split(lpn).0).is_none() {
                continue;
            }
            if !self.durable_trim {
                self.discarded.insert(lpn.0);
                continue;
            }
            let Some(at) = self.look_up(flash, lpn)? else { continue };
            if flash.read_oob(at, Cause::Metadata)?.is_some_and(|oob| oob.kind != Kind::Trim) {
                self.put(flash, lpn, None)?;
            }
        }
        Ok(())
    }

    fn flush(&mut self, _: &mut F) -> Result<(), Error<F::Fault>> {
        Ok(())
    }

    fn idle(&mut self, flash: &mut F, _: u32) -> Result<bool, Error<F::Fault>> {
        self.tidy(flash)?;
        if self.slots.in_use() < self.log_limit() {
            return Ok(false);
        }
        let Some(victim) = self.slots.oldest() else { return Ok(false) };
        self.clean(flash, victim)?;
        Ok(true)
    }

    #[inline(always)]
    fn hint(&self, lpn: Lpn) {
        flash::prefetch(&self.log_map, lpn.index());
        flash::prefetch(&self.data, lpn.index() / self.g.pages_per_block as usize);
    }

    fn memory(&self) -> Vec<(&'static str, u64)> {
        let logical = self.data.len() as u64;
        let mut out = vec![
            ("block map", logical * 4),
            ("next and newest pages", logical * 4),
            ("log blocks", self.slots.memory()),
            ("log map", u64::from(self.slots.capacity()) * u64::from(self.g.pages_per_block) * 4),
            ("cached maps", if self.log_style { self.cache.memory() } else { 2 }),
            ("discarded pages", 4 + self.discarded.len() as u64 * 4),
        ];
        out.extend(self.pool.memory());
        out.push(("version and open log block", 8 + 4));
        out
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let c = &self.counters;
        vec![
            ("map_hits", self.cache.hits),
            ("map_misses", self.cache.misses),
            ("map_reads", self.cache.reads + c.reads),
            ("data_pages", c.data_pages),
            ("log_pages", c.log_pages),
            ("collisions_with_room", c.collisions),
            ("dummy_pages", c.dummies),
            ("full_merges", c.merges),
            ("merge_copies", c.copies),
            ("cleaned_log_blocks", c.cleaned),
            ("dead_log_blocks", c.dead),
            ("density_sum", c.density),
        ]
    }

    fn reset_counters(&mut self) {
        self.counters = Counters::default();
        (self.cache.hits, self.cache.misses, self.cache.reads) = (0, 0, 0);
    }

    fn erase_counts(&self) -> &[u32] {
        self.pool.blocks.erase_counts()
    }

    fn free_blocks(&self) -> u32 {
        self.pool.free()
    }

    fn audit(&self, flash: &mut F) -> Result<(), String> {
        let layout = *self.cache.layout();
        let mut expected = vec![0; self.g.block_count() as usize];
        for lbn in 0..self.data.len() as u32 {
            let mut map = BlockMap::unknown(&layout);
            let head = self.filled[lbn as usize].head;
            let block = self.data_block(lbn);
            if let Some(block) = block.filter(|_| self.log_style) {
                let ppn_of = |place: u16| self.g.page(block, place.into());
                let fetched = map.fetch_all(&layout, flash, head, ppn_of, Cause::Recovery);
                fetched.map_err(|fault| format!("{fault:?}"))?;
            }
            for lpn in self.lpns(lbn).map(Lpn) {
                let (_, offset) = self.split(lpn);
                let cached = self.cache.get(lbn).filter(|cached| cached.has(&layout, offset));
                if cached.is_some_and(|cached| cached.at(offset) != map.at(offset)) {
                    return Err(format!("the cached map of LPN {lpn} is not what its spare areas say"));
                }
                let own = block.filter(|_| !self.log_style).map(|block| self.g.page(block, offset));
                let own = own.filter(|&ppn| self.pool.blocks.is_live(ppn));
                let listed = block.filter(|_| map.at(offset) != NULL);
                let in_data = own.or(listed.map(|block| self.g.page(block, map.at(offset).into())));
                let logged = self.in_log(lpn);
                let Some(ppn) = logged.or(in_data) else { continue };
                let oob = flash.read_oob(ppn, Cause::Recovery).map_err(|fault| format!("{fault:?}"))?;
                let holds = |oob: Oob| oob.lpn() == lpn && matches!(oob.kind, Kind::Data | Kind::Log | Kind::Trim);
                if !oob.is_some_and(holds) {
                    return Err(format!("LPN {lpn} maps to page {ppn}, which holds {oob:?}"));
                }
                if logged.is_some() || !self.log_style {
                    if !self.pool.blocks.is_live(ppn) || (logged.is_some() && own.is_some()) {
                        return Err(format!("LPN {lpn} maps to page {ppn}, which is dead, or to two"));
                    }
                    expected[self.g.block_of(ppn).index()] += 1;
                }
            }
        }
        for (block, &live) in expected.iter().enumerate() {
            let counted = self.pool.blocks.live_of(Block(block as u32));
            if counted != live {
                return Err(format!("block {block} counts {counted} live pages, but {live} are mapped"));
            }
        }
        let data = self.data.iter().filter(|&&block| block != NONE).count() as u32;
        let accounted = data + self.slots.in_use() + self.pool.free() + self.pool.blocks.bad_count();
        if accounted != self.g.block_count() {
            return Err(format!("{accounted} blocks are accounted for, and there are {}", self.g.block_count()));
        }
        Ok(())
    }

    fn save(&self) -> Vec<u8> {
        let mut out = Saver::default();
        self.data.iter().for_each(|&block| out.u32(block));
        for filled in &self.filled {
            out.u16(filled.next);
            out.u16(filled.head);
        }
        self.pool.save(&mut out);
        self.slots.save(&mut out);
        out.u32(self.current);
        self.cache.save(&mut out);
        out.u32(self.discarded.len() as u32);
        self.discarded.iter().for_each(|&lpn| out.u32(lpn));
        out.u64(self.version);
        out.finish()
    }

    fn restore(geometry: &Geometry, logical_pages: u32, settings: &Settings, bytes: &[u8]) -> Self {
        let blank = Self::blank(*geometry, logical_pages, settings);
        let mut hybridlog = blank.expect("the settings fitted when it was saved");
        let mut from = Loader::new(bytes);
        hybridlog.data.iter_mut().for_each(|block| *block = from.u32());
        hybridlog.filled.iter_mut().for_each(|filled| *filled = Filled { next: from.u16(), head: from.u16() });
        hybridlog.pool = Pool::load(*geometry, settings, &mut from);
        let blocks = &hybridlog.pool.blocks;
        hybridlog.slots = Slots::load(geometry, false, &mut from, |block| blocks.live_of(block));
        hybridlog.current = from.u32();
        for (slot, entry) in hybridlog.slots.iter() {
            let block = Block(entry.block);
            let mut at = blocks.next_live(block, 0);
            while let Some(page) = at {
                let lpn = hybridlog.slots.lpn_at(slot, page);
                hybridlog.log_map[lpn.index()] = geometry.page(block, page).0;
                at = blocks.next_live(block, page + 1);
            }
        }
        hybridlog.cache.load(&mut from);
        hybridlog.discarded = (0..from.u32()).map(|_| from.u32()).collect();
        hybridlog.version = from.u64();
        debug_assert!(from.is_done());
        hybridlog
    }
}

#[cfg(test)]
mod tests;

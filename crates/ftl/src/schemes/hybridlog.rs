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
//! # Files
//!
//! `hybridlog/`: `merge.rs`, `mount.rs`, `levelling.rs` (wear), `audit.rs`, and `techniques.rs`, what `rose-log` adds:
//! the same scheme with more parameters.
//!
//! # Departures
//!
//! S2 does not say which log block is cleaned; here it is the oldest. It gives no code for an entry that is none; see
//! `parts/spare_map.rs`. Versions and program numbers stand in the spare area beside what S2 lists: recovery needs them
//! to tell log pages of the same LPN apart.

mod audit;
mod levelling;
mod merge;
mod mount;
mod techniques;

use crate::hybrid::log::{NONE, Slot, Slots};
use crate::hybrid::parameters::{LOG_BLOCKS, RESERVE};
use crate::hybrid::score::{Logged, Scores};
use crate::parts::pool::Pool;
use crate::parts::space::{FREE_ORDER, more_spare};
use crate::parts::spare_map::{self, BlockMap, Layout, MapCache, NULL};
use crate::parts::wear;
use crate::{ConfigError, Error, Ftl, Loader, MountReport, Parameter, Range, Saver, Scheme, Settings, Value};
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use flash::{Block, Cause, FaultKind, Flash, FlashFault, Geometry, Kind, Lpn, Mode, Oob, Payload, Ppn, ProgramOrder};
use techniques::Techniques;

/// The row.
pub(super) static ROW: Scheme = Scheme {
    name: "hybridlog",
    summary: "block map with a log area; data blocks are appended to as well, with their page map in spare areas",
    paper: "S2, chapter 4: HybridLog",
    essay: include_str!("hybridlog.rs"),
    parameters: PARAMETERS,
    counters: COUNTERS,
    phases: &[Cause::Host, Cause::MergeFull, Cause::WearLevelling, Cause::Metadata, Cause::Recovery],
    has_cache: false,
    keeps_data: true,
    state_version: 1,
};

pub(super) const COUNTERS: &[(&str, &str)] = &[
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
];

const LOG_STYLE: Parameter = Parameter {
    name: "log-style",
    summary: "append to data blocks, with their page map in spare areas; off: each page has its place, with \
              padding",
    unit: "",
    default: Value::Switch(true),
    range: Range::Switch,
    source: "S2 section 4.1; off: figure 4.1a",
};

pub(super) const GROUP: Parameter = Parameter {
    name: "group",
    summary: "pages in a section of the map (G); 0 stands for half a block of up to 64 pages, for 16 in larger \
              ones",
    unit: "pages",
    default: Value::Count(0),
    range: Range::Count(0, 8192),
    source: "S2 table 4.1 and figure 4.2",
};

pub(super) const CACHE_MAPS: Parameter = Parameter {
    name: "cache-maps",
    summary: "maps of data blocks kept in RAM, those used last: each saves up to two reads of spare areas",
    unit: "maps",
    default: Value::Count(8),
    range: Range::Count(0, 4096),
    source: "S2 section 4.2: 2 to 16",
};

const PARAMETERS: &[Parameter] = &[
    LOG_STYLE,
    GROUP,
    CACHE_MAPS,
    LOG_BLOCKS,
    spare_map::spare_layout("recoverable"),
    spare_map::SPARE_ECC,
    FREE_ORDER,
    wear::WEAR_LEVELLING,
    wear::WEAR_THRESHOLD,
    wear::BET_K,
    wear::BET_THRESHOLD,
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
    /// Of a log block each page that counts is live. Of a data block the live bit of a place says whether the page
    /// that has its offset in the logical block counts, wherever in the block it lies.
    pool: Pool,
    /// The data block of each logical block.
    data: Vec<u32>,
    filled: Vec<Filled>,
    /// The log blocks.
    slots: Slots,
    /// What cleaning each of them would cost, for policies that want to know.
    scores: Option<Scores>,
    /// Live log pages of each logical block.
    logged: Vec<u16>,
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
    techniques: Techniques,
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
        let log_style = settings.get("log-style").is_none() || settings.switch("log-style");
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
        let slots = Slots::new(&g, most_log_blocks + 1, false);
        Ok(HybridLog {
            g,
            log_style,
            pool: Pool::new(g, settings),
            data: vec![NONE; logical_blocks as usize],
            filled: vec![EMPTY; logical_blocks as usize],
            scores: Scores::from_settings(settings, slots.capacity()),
            slots,
            logged: vec![0; logical_blocks as usize],
            current: NONE,
            log_map: vec![NONE; logical_pages as usize],
            most_log_blocks,
            cache: MapCache::new(layout, settings.count("cache-maps") as usize),
            durable_trim: settings.switch("durable-trim"),
            discarded: BTreeSet::new(),
            version: 0,
            techniques: Techniques::new(settings),
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
        if let Some(ppn) = self.in_entire(lbn, offset) {
            return Ok(Some(ppn));
        }
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

    /// A page is discarded in RAM alone. In the log it counts until it is merged.
    fn discard(&mut self, lpn: Lpn) {
        self.discarded.insert(lpn.0);
        if self.in_log(lpn).is_none() && self.live_bit(lpn).is_some() {
            self.change_terms(self.split(lpn).0, |this| this.supersede(lpn));
        }
    }

    // ---- writing -----------------------------------------------------------------------------------------------

    /// Log blocks that there may be: what settings allow, less the blocks that went bad.
    fn log_limit(&self) -> u32 {
        let good = self.g.block_count() - self.pool.blocks.bad_count();
        self.most_log_blocks.min(good.saturating_sub(self.data.len() as u32 + RESERVE))
    }

    /// The live bit of a page that counts in its data block, or in the block that is becoming that.
    #[inline]
    fn live_bit(&self, lpn: Lpn) -> Option<Ppn> {
        let (lbn, offset) = self.split(lpn);
        let entire = self.in_entire(lbn, offset);
        let bit = entire.or_else(|| Some(self.g.page(self.data_block(lbn)?, offset)))?;
        self.pool.blocks.is_live(bit).then_some(bit)
    }

    /// The copy of a page that counts, wherever it is, does not any more.
    #[inline]
    fn supersede(&mut self, lpn: Lpn) {
        if let Some(ppn) = self.in_log(lpn) {
            let (lbn, _) = self.split(lpn);
            self.log_map[lpn.index()] = NONE;
            self.logged[lbn as usize] -= 1;
            self.pool.blocks.kill(ppn);
            if let Some(slot) = self.slots.of(self.g.block_of(ppn)) {
                self.slots.died(slot);
            }
        } else if let Some(bit) = self.live_bit(lpn) {
            self.pool.blocks.kill(bit);
        }
    }

    /// A place of a log block is where a page lies now.
    #[inline]
    fn enter_log(&mut self, lpn: Lpn, slot: Slot, page: u32) {
        let ppn = self.g.page(self.slots.block(slot), page);
        let (lbn, _) = self.split(lpn);
        self.supersede(lpn);
        self.slots.put(slot, page, lpn);
        self.pool.blocks.revive(ppn);
        self.log_map[lpn.index()] = ppn.0;
        self.logged[lbn as usize] += 1;
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
        if self.put_entire(flash, oob, data)? {
            self.discarded.remove(&lpn.0);
            return Ok(());
        }
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
        self.change_terms(lbn, |this| {
            this.supersede(lpn);
            this.pool.blocks.revive(this.g.page(block, offset));
        });
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
            self.current = self.next_log_block(flash)?;
            return Ok(false);
        }
        let (slot, lpn) = (self.current, oob.lpn());
        let page = self.slots.get(slot).next;
        let ppn = self.g.page(self.slots.block(slot), page);
        let written = self.program(flash, ppn, Oob { kind: Kind::Log, ..oob }, data)?;
        if written {
            let (lbn, _) = self.split(lpn);
            self.score_log_page(lpn, slot);
            self.enter_log(lpn, slot, page);
            self.slots.advance(slot, page + 1);
            self.counters.log_pages += u64::from(data.is_some());
            let blank = u32::from(self.filled[lbn as usize].next) < self.g.pages_per_block;
            self.counters.collisions += u64::from(blank && data.is_some());
        }
        if !written || page + 1 == self.g.pages_per_block {
            self.close(slot);
            self.current = NONE;
        }
        Ok(written)
    }

    // ---- log blocks --------------------------------------------------------------------------------------------

    /// A log block to be filled: one that was reused, or a free block, once there is room for one in the log area.
    fn next_log_block<F: Flash>(&mut self, flash: &mut F) -> Result<Slot, Error<F::Fault>> {
        loop {
            if let Some(slot) = self.techniques.reused.pop_front() {
                return Ok(slot);
            }
            if self.slots.in_use() < self.log_limit() {
                let block = self.pool.take(flash)?;
                return Ok(self.add_log_block(block));
            }
            let victim = self.pick().ok_or(Error::Full)?;
            self.clean(flash, victim)?;
        }
    }

    /// A block becomes a log block.
    fn add_log_block(&mut self, block: Block) -> Slot {
        let slot = self.slots.add(block);
        if let Some(scores) = &mut self.scores {
            scores.begin(slot, block);
        }
        slot
    }

    /// A log block may be cleaned from now on.
    fn close(&mut self, slot: Slot) {
        self.slots.close(slot, self.pool.blocks.live_of(self.slots.block(slot)));
        if let Some(scores) = &mut self.scores {
            scores.close(slot);
        }
    }

    /// A log block in which nothing counts is erased; every other has grown older.
    fn erase_log_block<F: Flash>(&mut self, flash: &mut F, slot: Slot, cause: Cause) -> Result<(), Error<F::Fault>> {
        let block = self.slots.block(slot);
        self.slots.remove(slot);
        if let Some(scores) = &mut self.scores {
            scores.remove(slot);
            scores.erased();
        }
        self.pool.dispose(flash, block, cause)
    }

    /// The log block to be cleaned next.
    fn pick(&mut self) -> Option<Slot> {
        crate::hybrid::pick_from(&self.slots, &self.pool.blocks, self.scores.as_mut(), self.techniques.policy)
    }

    /// What a logical block has in the log, and how many of its pages count elsewhere.
    fn logged(&self, lbn: u32) -> Logged<'_> {
        let lpns = self.lpns(lbn);
        let live = |block: Option<Block>| block.map_or(0, |block| self.pool.blocks.live_of(block));
        Logged {
            g: &self.g,
            slots: &self.slots,
            places: &self.log_map[lpns.start as usize..lpns.end as usize],
            data: live(self.data_block(lbn)) + live(self.techniques.entire_block(lbn)),
            log: u32::from(self.logged[lbn as usize]),
        }
    }

    /// Does what changes the pages of a logical block that count, and keeps the scores of the log blocks that it has
    /// pages in.
    #[inline]
    fn change_terms<T>(&mut self, lbn: u32, change: impl FnOnce(&mut Self) -> T) -> T {
        self.add_terms(lbn, -1);
        let result = change(self);
        self.add_terms(lbn, 1);
        result
    }

    #[inline]
    fn add_terms(&mut self, lbn: u32, sign: i64) {
        let Some(mut scores) = self.scores.take() else { return };
        scores.add_terms(self.logged(lbn), sign);
        self.scores = Some(scores);
    }

    /// A page is about to enter a log block.
    #[inline]
    fn score_log_page(&mut self, lpn: Lpn, to: Slot) {
        let Some(mut scores) = self.scores.take() else { return };
        let (lbn, _) = self.split(lpn);
        scores.enter_log(self.logged(lbn), self.in_log(lpn), self.live_bit(lpn).is_some(), to);
        self.scores = Some(scores);
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
    fn request(&mut self, first: Lpn, pages: u32) {
        self.techniques.announce(first, pages);
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
        self.put(flash, lpn, Some(data))?;
        self.level(flash)
    }

    fn trim(&mut self, flash: &mut F, first: Lpn, count: u32) -> Result<(), Error<F::Fault>> {
        self.end_entire(flash)?;
        self.techniques.announce(first, 0);
        for lpn in (first.0..first.0 + count).map(Lpn) {
            if self.in_log(lpn).is_none() && self.data_block(self.split(lpn).0).is_none() {
                continue;
            }
            if !self.durable_trim {
                self.discard(lpn);
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
        self.end_entire(flash)?;
        self.tidy(flash)?;
        if self.slots.in_use() < self.log_limit() {
            return Ok(false);
        }
        let Some(victim) = self.pick() else { return Ok(false) };
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
        out.extend(self.techniques.memory(self.cache.layout()));
        if let Some(scores) = &self.scores {
            out.push(("log pages of logical blocks", logical * 2));
            out.push(("scores of log blocks", scores.memory(self.g.pages_per_block)));
        }
        out.extend(self.pool.memory());
        out.push(("version and open log block", 8 + 4));
        out
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let c = &self.counters;
        let mut out = vec![
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
        ];
        out.extend(self.techniques.counters(self.scores.as_ref()));
        out
    }

    fn reset_counters(&mut self) {
        self.counters = Counters::default();
        self.techniques.counters = techniques::Counters::default();
        (self.cache.hits, self.cache.misses, self.cache.reads) = (0, 0, 0);
    }

    fn erase_counts(&self) -> &[u32] {
        self.pool.blocks.erase_counts()
    }

    fn free_blocks(&self) -> u32 {
        self.pool.free()
    }

    fn audit(&self, flash: &mut F) -> Result<(), String> {
        self.check(flash)
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
        if let Some(scores) = &self.scores {
            scores.save(&mut out);
        }
        self.techniques.save(&mut out);
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
                hybridlog.logged[(lpn.0 / geometry.pages_per_block) as usize] += 1;
                at = blocks.next_live(block, page + 1);
            }
        }
        hybridlog.cache.load(&mut from);
        hybridlog.discarded = (0..from.u32()).map(|_| from.u32()).collect();
        hybridlog.version = from.u64();
        if let Some(scores) = &mut hybridlog.scores {
            scores.load(&mut from, &hybridlog.slots);
        }
        hybridlog.techniques.load(hybridlog.cache.layout(), &mut from);
        debug_assert!(from.is_done());
        hybridlog
    }
}

#[cfg(test)]
mod tests;

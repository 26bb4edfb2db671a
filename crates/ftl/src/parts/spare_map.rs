//! A map of a logical block's pages in the spare areas of the pages themselves.
//!
//! A page that is programmed takes two small tables along: the *leaf* says where the pages of its own group of logical
//! pages lie, itself included, and the *directory* says, for every group, which page holds its newest leaf. So whoever
//! knows the newest page of a logical block finds any other with two reads of spare areas: its directory, and the leaf
//! (the ROSE thesis, chapter 4, where they are called MD and MT; Superblock has the same in other sizes).
//!
//! ```text
//!   newest page ──▶ spare: │ list of blocks │ directory: group 0, 1, … │ leaf of its own group │
//!                                                      │
//!                                  newest page of group 1 ──▶ │ … │ leaf of group 1: page, page, … │
//! ```
//!
//! An entry is a *place*: the page's number in its block, and in front of it, where a logical block may be spread over
//! several blocks, which of them it is. The ROSE thesis gives an entry as many bits as a page number has, so that no
//! code is left for an entry that is none, and does not say what stands there. Here it is the place of the very page
//! that holds the table: in an entry of another page, or of another group, that place can only mean nothing. Which
//! entries are the page's own is known from its LPN, which stands beside them.
//!
//! Entries are packed without gaps, the lowest bit first; the list of blocks and the two tables begin at whole bytes.

use crate::parts::wear_state;
use crate::{ConfigError, Error, Loader, Outcome, Parameter, Saver, Settings};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use flash::{Cause, Flash, Geometry, Kind, Lbn, Ppn};

/// No place.
pub(crate) const NULL: u16 = u16::MAX;

/// `spare-layout`: what has to fit into a spare area beside the maps.
pub(crate) const SPARE_LAYOUT: Parameter = Parameter::word("spare-layout", "recoverable", &["recoverable", "paper"])
    .text(
        "What must fit into a spare area beside maps and error-correcting code. recoverable: bad mark, kind, LPN, \
         version, program number and checksum, which recovery needs. paper: what the paper counts.",
    )
    .source("{rose}, equation 13; ftlab");

/// `spare-ecc`: bytes of the error-correcting code.
pub(crate) const SPARE_ECC: Parameter = Parameter::count("spare-ecc", 0, 0..=1 << 16)
    .unit("bytes")
    .text(
        "Bytes of a spare area that the error-correcting code takes. More leave less for maps. For every 512 B of \
         data, 0 stands for 2 on chips with one bit per cell and for 7 on others.",
    )
    .source("{rose}, table 4.1, rounded up to whole bytes in each sector");

/// What has to fit into a spare area beside the maps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SpareArea {
    /// `spare-layout`: whether the paper's own bytes are to fit, and not what recovery needs.
    pub as_in_paper: bool,
    /// `spare-ecc`.
    pub ecc_bytes: u32,
    /// Bytes of an erase count, if one is there.
    pub count_bytes: u32,
}

impl From<&Settings> for SpareArea {
    fn from(settings: &Settings) -> SpareArea {
        let as_in_paper = settings.word(&SPARE_LAYOUT) == "paper";
        let count_bytes = if wear_state::Options::from(settings).on { wear_state::COUNT_BYTES } else { 0 };
        SpareArea { as_in_paper, ecc_bytes: settings.small(&SPARE_ECC), count_bytes }
    }
}

impl SpareArea {
    /// Bytes that the error-correcting code takes.
    fn ecc_on(&self, g: &Geometry) -> u32 {
        match self.ecc_bytes {
            0 => g.page_bytes / 512 * if g.bits_per_cell > 1 { 7 } else { 2 },
            bytes => bytes,
        }
    }
}

/// Bytes of a spare area that recovery needs: bad mark 1, kind 1, LPN 4, version 6, program number 6, checksum 2.
pub(crate) const RECOVERABLE_BYTES: u32 = 20;

/// Which of the blocks it is over which a logical block is spread, at most 64.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct BlockSlot(pub u8);

impl BlockSlot {
    /// As an array index.
    #[inline(always)]
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The form of the tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Layout {
    /// Pages of a logical block, and of a block.
    pub pages: u32,
    /// Pages of a group: entries of a leaf.
    pub group: u32,
    /// Blocks that a logical block may be spread over.
    pub slots: u32,
    /// Blocks in the list.
    pub listed: u32,
    /// Bits of each.
    pub block_bits: u32,
}

/// Bits that hold numbers below `count`.
const fn bits_for(count: u32) -> u32 {
    if count <= 1 { 0 } else { u32::BITS - (count - 1).leading_zeros() }
}

/// The bytes that hold `width` bits from bit `at` on.
fn bytes_of_bits(at: usize, width: u32) -> core::ops::Range<usize> {
    at / 8..(at + width as usize).div_ceil(8)
}

/// Packs entries one behind the other into bytes, the lowest bit first, and ends at a whole byte.
struct Packer<'a> {
    out: &'a mut Vec<u8>,
    word: u64,
    held: u32,
}

impl Packer<'_> {
    /// Behind what `out` holds.
    fn new(out: &mut Vec<u8>) -> Packer<'_> {
        Packer { out, word: 0, held: 0 }
    }

    /// The next entry, of `width` bits, at most 32.
    #[inline(always)]
    fn push(&mut self, entry: u32, width: u32) {
        self.word |= u64::from(entry) << self.held;
        self.held += width;
        if self.held >= u32::BITS {
            self.out.extend_from_slice(&(self.word as u32).to_le_bytes());
            (self.word, self.held) = (self.word >> u32::BITS, self.held - u32::BITS);
        }
    }

    fn finish(self) {
        self.out.extend_from_slice(&self.word.to_le_bytes()[..self.held.div_ceil(8) as usize]);
    }
}

fn get_bits(bytes: &[u8], at: usize, width: u32) -> u32 {
    let word = bytes[bytes_of_bits(at, width)].iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
    (word >> (at % 8) & ((1 << width) - 1)) as u32
}

impl Layout {
    /// Of logical blocks spread over up to `slots` blocks, for maps that are not in spare areas.
    pub(crate) const fn whole(pages: u32, slots: u32) -> Layout {
        Layout { pages, group: pages, slots, listed: 0, block_bits: 0 }
    }

    /// Of a logical block in one block, whose entries are page numbers.
    pub(crate) const fn single(pages: u32, group: u32) -> Layout {
        Layout { pages, group, slots: 1, listed: 0, block_bits: 0 }
    }

    /// Of logical blocks spread over up to `slots` of `blocks` blocks, which every page lists.
    pub(crate) const fn spread(pages: u32, group: u32, slots: u32, blocks: u32) -> Layout {
        Layout { pages, group, slots, listed: slots, block_bits: bits_for(blocks + 1) }
    }

    /// Groups of a logical block: entries of a directory.
    pub(crate) const fn groups(&self) -> u32 {
        self.pages.div_ceil(self.group)
    }

    /// Bits of an entry.
    pub(crate) const fn entry_bits(&self) -> u32 {
        bits_for(self.slots) + bits_for(self.pages)
    }

    /// Bits of directory and leaf (the ROSE thesis, equation 12).
    pub(crate) const fn map_bits(&self) -> u32 {
        (self.groups() + self.group) * self.entry_bits()
    }

    const fn list_bytes(&self) -> u32 {
        (self.listed * self.block_bits).div_ceil(8)
    }

    /// Bytes of everything.
    pub(crate) const fn bytes(&self) -> u32 {
        self.list_bytes() + self.map_bits().div_ceil(8)
    }

    /// The group of a page.
    #[inline(always)]
    pub(crate) const fn group_of(&self, offset: u32) -> usize {
        (offset / self.group) as usize
    }

    /// A place as block and page.
    #[inline(always)]
    pub(crate) const fn split(&self, place: u16) -> (BlockSlot, u32) {
        (BlockSlot((place as u32 / self.pages) as u8), place as u32 % self.pages)
    }

    /// A block and a page as place.
    #[inline(always)]
    pub(crate) const fn place(&self, slot: BlockSlot, page: u32) -> u16 {
        (slot.0 as u32 * self.pages + page) as u16
    }

    /// Whether a spare area holds this beside `paper` bytes of the paper's own, or what recovery needs, and the
    /// error-correcting code. `key` is to blame if not, and `advice` what to do.
    ///
    /// # Errors
    /// The sum, if it is more than the spare area.
    pub(crate) fn check(
        &self,
        g: &Geometry,
        spare: &SpareArea,
        paper: u32,
        key: &'static str,
        advice: impl FnOnce() -> String,
    ) -> Result<(), ConfigError> {
        let (record, what) = if spare.as_in_paper {
            (paper, "bad mark and LPN")
        } else {
            (RECOVERABLE_BYTES, "bad mark, kind, LPN, version, program number and checksum")
        };
        let (record, counted) = (record + spare.count_bytes, if spare.count_bytes > 0 { ", erase count" } else { "" });
        let ecc = spare.ecc_on(g);
        let sum = record + self.bytes() + ecc;
        if sum <= g.oob_bytes && u64::from(self.slots) * u64::from(self.pages) < u64::from(NULL) {
            return Ok(());
        }
        Err(ConfigError {
            key,
            what: format!(
                "{record} B ({what}{counted}), {} B of maps ({} entries of {} bits{}) and {ecc} B of error-correcting \
                 code are {sum} B, and a spare area has {}",
                self.bytes(),
                self.groups() + self.group,
                self.entry_bits(),
                if self.listed > 0 {
                    format!(", {} blocks of {}", self.listed, self.block_bits)
                } else {
                    String::new()
                },
                g.oob_bytes
            ),
            fix: advice(),
        })
    }

    /// What page `place`, which holds page `offset` of its logical block, takes along: the blocks of the list, and the
    /// tables of a map in which it stands already.
    pub(crate) fn encode(&self, blocks: impl Iterator<Item = u32>, map: &BlockMap, offset: u32, place: u16) -> Vec<u8> {
        let group = self.group_of(offset);
        let first = group * self.group as usize;
        let last = (first + self.group as usize).min(self.pages as usize);
        debug_assert!(map.known && map.loaded[group] && map.leaves[offset as usize] == place);
        let mut out = Vec::with_capacity(self.bytes() as usize);
        let mut list = Packer::new(&mut out);
        blocks.for_each(|block| list.push(block, self.block_bits));
        list.finish();
        out.resize(self.list_bytes() as usize, 0);
        let width = self.entry_bits();
        let mut tables = Packer::new(&mut out);
        for entries in [&map.directory[..], &map.leaves[first..last]] {
            entries.iter().for_each(|&entry| tables.push(u32::from(if entry == NULL { place } else { entry }), width));
        }
        tables.finish();
        out.resize(self.bytes() as usize, 0);
        out
    }

    /// A block of the list.
    pub(crate) fn listed_block(&self, bytes: &[u8], slot: BlockSlot) -> u32 {
        get_bits(bytes, slot.index() * self.block_bits as usize, self.block_bits)
    }

    /// An entry of the tables; `own` if it may be that of the page at `place` itself.
    fn entry(&self, bytes: &[u8], i: usize, place: u16, own: bool) -> u16 {
        let width = self.entry_bits();
        let entry = get_bits(bytes, self.list_bytes() as usize * 8 + i * width as usize, width) as u16;
        if entry == place && !own { NULL } else { entry }
    }
}

/// What RAM knows of a logical block's map.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct BlockMap {
    directory: Vec<u16>,
    leaves: Vec<u16>,
    /// Leaves that are here.
    loaded: Vec<bool>,
    /// Whether the directory is.
    known: bool,
    /// Whether it says what flash does not: no page that holds maps, or not every spare area that leads to a page.
    pub dirty: bool,
}

impl BlockMap {
    /// Nothing known yet.
    pub(crate) fn unknown(layout: &Layout) -> BlockMap {
        BlockMap {
            directory: vec![NULL; layout.groups() as usize],
            leaves: vec![NULL; layout.pages as usize],
            loaded: vec![false; layout.groups() as usize],
            known: false,
            dirty: false,
        }
    }

    /// With these places of all its pages.
    pub(crate) fn of_places(layout: &Layout, places: impl Iterator<Item = u16>) -> BlockMap {
        let mut map = BlockMap::empty(layout);
        map.leaves.iter_mut().zip(places).for_each(|(leaf, place)| *leaf = place);
        map
    }

    /// With the places that a mount found, which flash does not say.
    pub(crate) fn of_found(layout: &Layout, places: impl Iterator<Item = u16>) -> BlockMap {
        BlockMap { dirty: true, ..BlockMap::of_places(layout, places) }
    }

    /// Known to be empty.
    pub(crate) fn empty(layout: &Layout) -> BlockMap {
        BlockMap { known: true, loaded: vec![true; layout.groups() as usize], ..BlockMap::unknown(layout) }
    }

    /// Whether the spare areas that it leads to say all of it: every leaf with a page has been programmed.
    pub(crate) fn is_stored(&self, layout: &Layout) -> bool {
        let mut leaves = self.leaves.chunks(layout.group as usize).zip(&self.directory);
        leaves.all(|(leaf, &at)| at != NULL || leaf.iter().all(|&place| place == NULL))
    }

    /// Whether [`BlockMap::fetch`] of a page would read nothing.
    pub(crate) fn has(&self, layout: &Layout, offset: u32) -> bool {
        let group = layout.group_of(offset);
        self.known && (self.loaded[group] || self.directory[group] == NULL)
    }

    /// Where page `offset` lies, once it was fetched.
    #[inline]
    pub(crate) fn at(&self, offset: u32) -> u16 {
        self.leaves[offset as usize]
    }

    /// Page `offset` is programmed at `place`, and so are its leaf and the directory. What stood there: where the page
    /// lay and its leaf.
    pub(crate) fn set(&mut self, layout: &Layout, offset: u32, place: u16) -> (u16, u16) {
        let page = core::mem::replace(&mut self.leaves[offset as usize], place);
        (page, core::mem::replace(&mut self.directory[layout.group_of(offset)], place))
    }

    /// It failed: what [`BlockMap::set`] returned stands again.
    pub(crate) fn undo(&mut self, layout: &Layout, offset: u32, (page, leaf): (u16, u16)) {
        self.leaves[offset as usize] = page;
        self.directory[layout.group_of(offset)] = leaf;
    }

    /// The places of all pages, once all was fetched.
    pub(crate) fn places(&self) -> &[u16] {
        &self.leaves
    }

    /// Pages that lie somewhere, once all was fetched: offset and place.
    pub(crate) fn pages(&self) -> impl Iterator<Item = (u32, u16)> + '_ {
        (0..).zip(self.leaves.iter().copied()).filter(|&(_, place)| place != NULL)
    }

    /// Brings in what is needed to know where page `offset` lies, and to program it anew: the directory from the newest
    /// page, at place `head` (or [`NULL`]), and the leaf. How many spare areas were read: at most two. `ppn_of` knows
    /// which place is which page, and which places hold nothing.
    ///
    /// # Errors
    /// The medium's; a place where there is no such page of logical block `lbn` is [`Error::Corrupt`].
    pub(crate) fn fetch<F: Flash>(
        &mut self,
        (layout, lbn): (&Layout, Lbn),
        flash: &mut F,
        offset: u32,
        head: u16,
        ppn_of: impl Fn(u16) -> Option<Ppn>,
        cause: Cause,
    ) -> Outcome<F, u32> {
        let mut reads = 0;
        if !self.known {
            if head == NULL {
                *self = BlockMap::empty(layout);
                return Ok(0);
            }
            let (of, bytes) = look((layout, lbn), flash, ppn_of(head), cause)?;
            for (group, entry) in self.directory.iter_mut().enumerate() {
                *entry = layout.entry(bytes, group, head, group == layout.group_of(of));
            }
            self.known = true;
            self.read_leaf(layout, bytes, of, head);
            reads += 1;
        }
        let group = layout.group_of(offset);
        if !self.loaded[group] {
            let place = self.directory[group];
            if place == NULL {
                self.loaded[group] = true;
            } else {
                let (of, bytes) = look((layout, lbn), flash, ppn_of(place), cause)?;
                if layout.group_of(of) != group {
                    return Err(Error::Corrupt);
                }
                self.read_leaf(layout, bytes, of, place);
                reads += 1;
            }
        }
        Ok(reads)
    }

    /// Brings in everything. How many spare areas were read.
    ///
    /// # Errors
    /// As [`BlockMap::fetch`].
    pub(crate) fn fetch_all<F: Flash>(
        &mut self,
        (layout, lbn): (&Layout, Lbn),
        flash: &mut F,
        head: u16,
        ppn_of: impl Fn(u16) -> Option<Ppn>,
        cause: Cause,
    ) -> Outcome<F, u32> {
        let groups = (0..layout.groups()).map(|group| group * layout.group);
        groups.map(|offset| self.fetch((layout, lbn), flash, offset, head, &ppn_of, cause)).sum()
    }

    fn read_leaf(&mut self, layout: &Layout, bytes: &[u8], of: u32, place: u16) {
        let group = layout.group_of(of);
        let first = group * layout.group as usize;
        for i in 0..layout.group as usize {
            if let Some(entry) = self.leaves.get_mut(first + i) {
                *entry = layout.entry(bytes, self.directory.len() + i, place, first + i == of as usize);
            }
        }
        self.loaded[group] = true;
    }
}

/// Has a medium keep `bytes` of the scheme's own in every spare area.
///
/// # Errors
/// The medium stores none.
pub(crate) fn reserve<F: Flash>(flash: &mut F, bytes: u32) -> Result<(), ConfigError> {
    if bytes == 0 || flash.reserve_spare(bytes) {
        return Ok(());
    }
    Err(ConfigError {
        key: "oob",
        what: format!("the scheme keeps {bytes} bytes of its own in every spare area, and this medium stores none"),
        fix: "use another medium, or a scheme that keeps its maps in pages".into(),
    })
}

/// Reads a spare area of a logical block: which page of it that belongs to, and the tables. Damage can have taken the
/// page, or a mount that did not find it its block.
fn look<'f, F: Flash>(
    (layout, lbn): (&Layout, Lbn),
    flash: &'f mut F,
    ppn: Option<Ppn>,
    cause: Cause,
) -> Outcome<F, (u32, &'f [u8])> {
    let ppn = ppn.ok_or(Error::Corrupt)?;
    let oob = flash.read_oob(ppn, cause)?.ok_or(Error::Corrupt)?;
    let bytes = flash.spare(ppn);
    let holds = matches!(oob.kind, Kind::Data | Kind::Log | Kind::Trim) && oob.address / layout.pages == lbn.0;
    if !holds || bytes.is_empty() {
        return Err(Error::Corrupt);
    }
    Ok((oob.address % layout.pages, bytes))
}

/// The maps of the logical blocks used last.
#[derive(Clone, Debug)]
pub(crate) struct MapCache {
    layout: Layout,
    capacity: usize,
    /// Logical block and map, the one used last at the end.
    maps: Vec<(Lbn, BlockMap)>,
    /// Pages that were found without reading a spare area.
    pub hits: u64,
    /// Pages that were not.
    pub misses: u64,
    /// Spare areas read for maps.
    pub reads: u64,
}

impl MapCache {
    /// Room for `capacity` maps.
    pub(crate) fn new(layout: Layout, capacity: usize) -> MapCache {
        MapCache { layout, capacity, maps: Vec::with_capacity(capacity + 1), hits: 0, misses: 0, reads: 0 }
    }

    /// The form of the maps.
    #[inline(always)]
    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Takes a map out, to be handed back; an unknown one if it is not here, and whether it was.
    #[inline]
    pub(crate) fn take(&mut self, lbn: Lbn) -> (BlockMap, bool) {
        match self.maps.iter().rposition(|&(of, _)| of == lbn) {
            Some(at) => (self.maps.remove(at).1, true),
            None => (BlockMap::unknown(&self.layout), false),
        }
    }

    /// Puts a map in as that of the logical block used last.
    #[inline]
    pub(crate) fn put(&mut self, lbn: Lbn, map: BlockMap) {
        if self.maps.len() == self.capacity {
            if self.capacity == 0 {
                return;
            }
            self.maps.remove(0);
        }
        self.maps.push((lbn, map));
    }

    /// Puts a map in, and none out: as that used last, or as the one that is to leave first.
    #[inline]
    pub(crate) fn keep(&mut self, lbn: Lbn, map: BlockMap, leaves_first: bool) {
        if leaves_first {
            self.maps.insert(0, (lbn, map));
        } else {
            self.maps.push((lbn, map));
        }
    }

    /// The map used longest ago and its logical block, if there is no room for so many more.
    #[inline]
    pub(crate) fn surplus(&self, room: usize) -> Option<(Lbn, &BlockMap)> {
        self.maps.first().filter(|_| self.maps.len() + room > self.capacity).map(|(lbn, map)| (*lbn, map))
    }

    /// Drops it.
    pub(crate) fn drop_oldest(&mut self) {
        self.maps.remove(0);
    }

    /// Drops maps that flash has as well, those used longest ago, while there are more than there is room for.
    pub(crate) fn drop_stored(&mut self) {
        while self.maps.len() > self.capacity
            && let Some(at) = self.maps.iter().position(|(_, map)| !map.dirty)
        {
            self.maps.remove(at);
        }
    }

    /// A map, if it is here.
    pub(crate) fn get(&self, lbn: Lbn) -> Option<&BlockMap> {
        self.maps.iter().find(|&&(of, _)| of == lbn).map(|(_, map)| map)
    }

    /// The same, to be changed.
    pub(crate) fn get_mut(&mut self, lbn: Lbn) -> Option<&mut BlockMap> {
        self.maps.iter_mut().find(|&&mut (of, _)| of == lbn).map(|(_, map)| map)
    }

    /// The map in which page `offset` of a logical block is known, taken out of the cache.
    ///
    /// # Errors
    /// The medium's.
    #[inline]
    pub(crate) fn find<F: Flash>(
        &mut self,
        flash: &mut F,
        lbn: Lbn,
        offset: u32,
        head: u16,
        ppn_of: impl Fn(u16) -> Option<Ppn>,
        cause: Cause,
    ) -> Outcome<F, BlockMap> {
        let (mut map, _) = self.take(lbn);
        let reads = map.fetch((&self.layout, lbn), flash, offset, head, ppn_of, cause)?;
        self.reads += u64::from(reads);
        *(if reads == 0 { &mut self.hits } else { &mut self.misses }) += 1;
        Ok(map)
    }

    /// Bytes of an entry in RAM: one code must be left for none.
    const fn entry_bytes(layout: &Layout) -> u64 {
        if layout.slots * layout.pages < 256 { 1 } else { 2 }
    }

    /// Bytes of RAM of `count` maps.
    pub(crate) fn bytes_of(layout: &Layout, count: u64) -> u64 {
        let entries = u64::from(layout.pages + layout.groups());
        count * (4 + 1 + u64::from(layout.groups()).div_ceil(8) + entries * Self::entry_bytes(layout))
    }

    /// Bytes of RAM: of the maps that there is room for, or of more, where a full device holds more.
    pub(crate) fn memory(&self) -> u64 {
        2 + Self::bytes_of(&self.layout, self.capacity.max(self.maps.len()) as u64)
    }

    /// Saves the maps.
    pub(crate) fn save(&self, out: &mut Saver) {
        out.u16(self.maps.len() as u16);
        for (lbn, map) in &self.maps {
            out.u32(lbn.0);
            out.u8(u8::from(map.known) | u8::from(map.dirty) << 1);
            for eight in map.loaded.chunks(8) {
                out.u8(eight.iter().rev().fold(0, |byte, &loaded| byte << 1 | u8::from(loaded)));
            }
            for &entry in map.directory.iter().chain(&map.leaves) {
                if Self::entry_bytes(&self.layout) == 1 { out.u8(entry as u8) } else { out.u16(entry) }
            }
        }
    }

    /// Loads what [`MapCache::save`] saved into an empty cache.
    pub(crate) fn load(&mut self, from: &mut Loader<'_>) {
        let layout = self.layout;
        self.maps = (0..from.u16())
            .map(|_| {
                let lbn = Lbn(from.u32());
                let flags = from.u8();
                let mut map = BlockMap { known: flags & 1 == 1, dirty: flags & 2 == 2, ..BlockMap::unknown(&layout) };
                for eight in map.loaded.chunks_mut(8) {
                    let byte = from.u8();
                    eight.iter_mut().enumerate().for_each(|(bit, loaded)| *loaded = byte >> bit & 1 == 1);
                }
                let narrow = Self::entry_bytes(&layout) == 1;
                let mut entry = || match narrow {
                    true => Some(from.u8()).filter(|&entry| entry != u8::MAX).map_or(NULL, u16::from),
                    false => from.u16(),
                };
                map.directory.iter_mut().chain(&mut map.leaves).for_each(|to| *to = entry());
                (lbn, map)
            })
            .collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use flash::{Full, Lpn, Nand, Oob, Payload, Tags, Transcript};

    /// Groups that fit into `spare` bytes beside `record` bytes and the code, by equation 13.
    fn groups(pages: u32, spare: u32, record: u32, ecc: u32) -> Vec<u32> {
        let fits = |group: &u32| Layout::single(pages, *group).map_bits() <= (spare - record - ecc) * 8;
        (0..=pages.ilog2()).map(|power| 1 << power).filter(fits).collect()
    }

    #[test]
    fn table_4_1_follows_from_equation_13() {
        let bits = |pages, group| Layout::single(pages, group).map_bits();
        assert_eq!([1, 2, 4, 8, 16, 32, 64].map(|group| bits(64, group)), [390, 204, 120, 96, 120, 204, 390]);
        assert_eq!([2, 4, 8, 16, 32, 64].map(|group| bits(128, group)), [462, 252, 168, 168, 252, 462]);
        // SLC: 64 pages, 64 B, mark and LPN 5 B, one bit corrected in 512 B: 7 B in all, or 2 B in each sector.
        assert_eq!(groups(64, 64, 5, 7), [1, 2, 4, 8, 16, 32, 64]);
        assert_eq!(groups(64, 64, 5, 8), [1, 2, 4, 8, 16, 32, 64]);
        // MLC: 128 pages. The code is printed as 26 B, with which 4 and 32 would fit as well; the table lists what fits
        // beside 7 B in each sector.
        assert_eq!(groups(128, 64, 5, 26), [4, 8, 16, 32]);
        assert_eq!(groups(128, 64, 5, 28), [8, 16]);
        // With what recovery needs.
        assert_eq!(groups(64, 64, RECOVERABLE_BYTES, 8), [2, 4, 8, 16, 32]);
        assert_eq!(groups(128, 64, RECOVERABLE_BYTES, 28), []);
    }

    #[test]
    fn the_sizes_of_superblock_are_those_that_the_thesis_gives() {
        // 655,360 blocks, eight to a group: with LPN, mark and a byte more 44 B and 56 B.
        let bytes = |pages| Layout::spread(pages, 8, 8, 655_360).bytes() + 6;
        assert_eq!((bytes(64), bytes(128)), (44, 56));
    }

    fn check(g: Geometry, layout: Layout, spare: &SpareArea) -> Result<(), ConfigError> {
        layout.check(&g, spare, 5, "group", || "take another".into())
    }

    #[test]
    fn a_refusal_shows_the_sum() {
        let mut spare = SpareArea::from(&Settings::defaults(&[
            SPARE_LAYOUT,
            SPARE_ECC,
            wear_state::WEAR_STATE,
            wear_state::WEAR_CHECKPOINT,
        ]));
        let g = Geometry { page_bytes: 2048, oob_bytes: 64, ..Geometry::default() }.checked().unwrap();
        assert_eq!(check(g, Layout::single(64, 32), &spare), Ok(()));
        let error = check(g, Layout::single(64, 1), &spare).unwrap_err();
        assert_eq!(
            error.to_string(),
            "group: 20 B (bad mark, kind, LPN, version, program number and checksum), 49 B of maps (65 entries of 6 \
             bits) and 8 B of error-correcting code are 77 B, and a spare area has 64 (take another)"
        );
        spare.as_in_paper = true;
        assert_eq!(check(g, Layout::single(64, 1), &spare), Ok(()));
        // Superblock with 128 pages leaves 8 B for a code that wants 28.
        let mlc = Geometry { pages_per_block: 128, bits_per_cell: 2, ..g }.checked().unwrap();
        let error = Layout::spread(128, 8, 8, 655_360).check(&mlc, &spare, 6, "leaf", String::new).unwrap_err();
        assert!(error.what.contains("50 B of maps (24 entries of 10 bits, 8 blocks of 20)"), "{error}");
        assert!(error.what.contains("28 B of error-correcting code are 84 B"), "{error}");
        spare.ecc_bytes = 8;
        assert_eq!(Layout::spread(128, 8, 8, 655_360).check(&mlc, &spare, 6, "leaf", String::new), Ok(()));
    }

    type Chip = Transcript<Nand<Tags, Full>>;

    fn chip(pages_per_block: u32, layout: &Layout) -> Chip {
        let g = Geometry { blocks_per_die: 8, pages_per_block, ..Geometry::default() }.checked().unwrap();
        let mut chip = Transcript::new(Nand::new(g));
        assert!(chip.reserve_spare(layout.bytes()));
        chip
    }

    /// Programs page `offset` of a logical block at `place`, of block `place / pages`, with the tables of `map`.
    fn put(chip: &mut Chip, layout: &Layout, map: &mut BlockMap, lbn: Lbn, offset: u32, place: u16) {
        map.set(layout, offset, place);
        let lpn = Lpn(lbn.0 * layout.pages + offset);
        let bytes = layout.encode((0..layout.listed).map(|slot| slot + 1), map, offset, place);
        chip.stage_spare(Ppn(place.into()), &bytes);
        chip.program(Ppn(place.into()), Oob::data(lpn, 1, 1), Payload::User(&1), Cause::Host).unwrap();
    }

    /// The ROSE thesis, figure 4.4: LPN 874 goes to page 3 of PBN 7, where pages 0 to 2 are of groups 0, 1 and 0.
    #[test]
    fn composition_of_figure_4_4() {
        let layout = Layout::single(64, 32);
        let mut chip = chip(64, &layout);
        let first = 7 * 64;
        let at = |place: u16| Ppn(first + u32::from(place));
        let ppn_of = |place: u16| Some(at(place));
        let (lbn, offset) = (Lbn(874 / 64), 874 % 64);
        assert_eq!((lbn, offset, layout.group_of(offset), offset % 32), (Lbn(13), 42, 1, 10));
        let mut map = BlockMap::empty(&layout);
        let program = |chip: &mut Chip, map: &mut BlockMap, offset: u32, place: u16| {
            map.set(&layout, offset, place);
            chip.stage_spare(at(place), &layout.encode([].into_iter(), map, offset, place));
            let oob = Oob::data(Lpn(lbn.0 * 64 + offset), 1, 1);
            chip.program(at(place), oob, Payload::User(&1), Cause::Host).unwrap();
        };
        for (place, offset) in [(0, 5), (1, offset), (2, 6)] {
            program(&mut chip, &mut map, offset, place);
        }
        chip.take();
        let mut found = BlockMap::unknown(&layout);
        assert_eq!(found.fetch((&layout, lbn), &mut chip, offset, 2, ppn_of, Cause::Host), Ok(2));
        assert_eq!((&found.directory[..], found.at(offset)), (&[2, 1][..], 1));
        program(&mut chip, &mut found, offset, 3);
        assert_eq!((&found.directory[..], found.at(offset)), (&[2, 3][..], 3));
        assert_eq!(chip.take(), ["O 7.2 host", "O 7.1 host", "W 7.3 data 874 host"]);
        // Whoever looks next finds all of it.
        let mut again = BlockMap::unknown(&layout);
        assert_eq!(again.fetch_all((&layout, lbn), &mut chip, 3, ppn_of, Cause::Host), Ok(2));
        assert_eq!((again.at(5), again.at(6), again.at(offset), again.at(7)), (0, 2, 3, NULL));
        // A place without a page, one of another logical block, and one that is blank: no map, and no panic.
        let mut ask = |lbn, ppn: Option<Ppn>| {
            BlockMap::unknown(&layout).fetch((&layout, lbn), &mut chip, 5, 3, |_| ppn, Cause::Host)
        };
        for (lbn, ppn) in [(lbn, None), (Lbn(12), Some(at(3))), (lbn, Some(at(4)))] {
            assert_eq!(ask(lbn, ppn), Err(Error::Corrupt));
        }
    }

    #[test]
    fn random_programs_are_found_again_from_the_newest_page_alone() {
        let mut rng = flash::Rng::new(5);
        for (pages, group, slots) in [(4, 2, 1), (16, 8, 1), (16, 4, 3), (64, 5, 8), (8, 8, 2)] {
            let layout =
                if slots == 1 { Layout::single(pages, group) } else { Layout::spread(pages, group, slots, 99) };
            let mut chip = chip(pages, &layout);
            let mut map = BlockMap::empty(&layout);
            let mut truth = vec![NULL; pages as usize];
            for place in 0..(slots * pages) as u16 {
                let offset = rng.below(u64::from(pages)) as u32;
                put(&mut chip, &layout, &mut map, Lbn(3), offset, place);
                truth[offset as usize] = place;
                let mut found = BlockMap::unknown(&layout);
                let one = rng.below(u64::from(pages)) as u32;
                let (layout_of, ppn_of) = ((&layout, Lbn(3)), |place: u16| Some(Ppn(place.into())));
                assert!(found.fetch(layout_of, &mut chip, one, place, ppn_of, Cause::Host).unwrap() <= 2);
                assert_eq!(found.at(one), truth[one as usize]);
                found.fetch_all(layout_of, &mut chip, place, ppn_of, Cause::Host).unwrap();
                assert_eq!(found.leaves, truth);
                chip.read_oob(Ppn(place.into()), Cause::Host).unwrap();
                let listed =
                    (0..layout.listed as u8).map(|i| layout.listed_block(chip.spare(Ppn(place.into())), BlockSlot(i)));
                assert!(listed.eq(1..=layout.listed));
            }
        }
    }

    #[test]
    fn a_cache_keeps_the_maps_used_last_and_survives_saving() {
        for pages in [16, 256] {
            let layout = Layout::single(pages, 4);
            let mut cache = MapCache::new(layout, 2);
            for lbn in 0..3 {
                let mut map = BlockMap::empty(&layout);
                map.set(&layout, 3, lbn as u16);
                cache.put(Lbn(lbn), map);
            }
            let (map, here) = cache.take(Lbn(1));
            assert!(here && map.at(3) == 1 && map.at(4) == NULL);
            cache.put(Lbn(1), map);
            let mut saver = Saver::default();
            cache.save(&mut saver);
            let bytes = saver.finish();
            assert!(bytes.len() as u64 <= cache.memory(), "{} > {}", bytes.len(), cache.memory());
            let mut again = MapCache::new(layout, 2);
            again.load(&mut Loader::new(&bytes));
            assert_eq!(again.maps, cache.maps);
            assert_eq!(again.maps.iter().map(|&(lbn, _)| lbn).collect::<Vec<_>>(), [Lbn(2), Lbn(1)]);
        }
    }
}

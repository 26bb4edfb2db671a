//! What a mount finds on flash.
//!
//! A census reads the spare area of every programmed page and settles three questions that are the same for every
//! scheme (docs/recovery.md):
//!
//! 1. *Which pages are torn?* A page whose spare area is garbage says so. One with a sound spare area and bad data does
//!    not. Such a page was the last one programmed in its block when power was cut, and stays what it was when the
//!    block is filled further. Every mount begins a new *epoch*, the upper bits of the program number, so that the
//!    candidates can be told for ever: in each block the page programmed last in each epoch. They are read whole, about
//!    one page in each block. Of those with bad data only the ones that no sound page of their die and epoch follows
//!    are torn. The others were whole once and have been damaged since: they stay what they are, so that reading them
//!    is an error, and no older version takes their place ([`Health::Unreadable`]).
//! 2. *Which block does a lane go on with?* The newest of its die and class: a block whose erase was cut short never
//!    is, because schemes keep the newest block out of collection, also when it is full.
//! 3. *Which block is empty?* One whose first page is blank, or which has no readable page. Empty blocks are erased
//!    before use. (A first page that is garbage may be the work of an erase, after which nothing in the block is
//!    needed; what else reads there has equal or newer versions elsewhere then. It may be damage as well, and then the
//!    rest of the block is needed.)
//!
//! A spare area that is garbage where no power cut leaves one is damage: whose page it was nobody knows any more, and
//! an older version comes back without an error. [`Census::unreadable`] counts them. A cut explains one such page at
//! the end of what its block took in an epoch, one on each die in each epoch, and any in a block whose erase was cut
//! short.
//!
//! Where erase counts are kept on flash (`parts/wear_state.rs`) the census finds them too, in the spare areas that it
//! reads anyway and in the last checkpoint that was finished. Blocks of checkpoints are empty for everybody else.
//!
//! Blocks are filled from their first page on, and read up to the first blank one. Where pages have places, and the
//! chip takes them in any order, blank pages lie between others: such blocks are read whole, and one that has no
//! readable page is empty.

use crate::hybrid::ages::Ages;
use crate::parts::wear_state::{self, Shape};
use crate::{Error, MountReport, Outcome};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use flash::{Block, Cause, Die, FaultKind, Flash, FlashFault, Geometry, Kind, Oob, Ppn};

/// Where the epoch begins in a program number: below it there is room for 4 * 10^9 programs between two mounts, and
/// more go on in another epoch.
const EPOCH_SHIFT: u32 = 32;
/// Lower bits of an epoch that go by the torn pages which its mount found: those above are for 16 million mounts, and
/// torn pages that these found.
const TORN_BITS: u32 = 8;

fn epoch(program: u64) -> u64 {
    program >> EPOCH_SHIFT
}

/// One block as found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Found {
    /// Kind of its first page that reads.
    pub kind: Kind,
    /// Pages up to the last programmed one.
    pub programmed: u32,
    /// Sound pages that were written as data.
    pub data: u32,
    /// The smallest program number of its sound pages; if none is sound, of its readable ones.
    pub first_program: u64,
    /// The largest.
    pub last_program: u64,
    /// Whether every programmed page has a sound spare area: then all of them are of one life of the
    /// block, which began with [`Found::first_program`].
    pub whole: bool,
    /// Whether it is the newest of its die and class: its lane goes on with it.
    pub newest: bool,
}

/// What can be had of pages that a census found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Health {
    /// All of it, as far as is known: of most pages the spare area alone was read.
    Sound,
    /// The spare area alone: the data of a page of the host or of discards that was whole once cannot be corrected. Any
    /// sound copy of the same version counts before it, and no older version does.
    Unreadable,
}

/// Attempts at a mount, each of which met another page that cannot be read.
const MOST_ATTEMPTS: u64 = 8;

/// Mounts a device. An attempt says in its report what it found as soon as it knows, and changes flash after that. If
/// it meets a page that cannot be read while it makes room, it may have erased by then what it would have reported: so
/// the next attempt's report has that, too. A page that is still there is then counted once for each attempt.
///
/// # Errors
/// Those of the last attempt. One that found no damage is the last, and so is the eighth.
pub(crate) fn mount_through<F: Flash, S>(
    flash: &mut F,
    mut attempt: impl FnMut(&mut F, &mut MountReport) -> Outcome<F, S>,
) -> Outcome<F, (S, MountReport)> {
    let mut former = MountReport::default();
    loop {
        let mut report = MountReport::default();
        let mounted = attempt(flash, &mut report);
        report.torn += former.torn;
        report.unreadable += former.unreadable;
        report.lost_discards += former.lost_discards;
        report.retries = former.retries;
        let met_damage = match &mounted {
            Err(Error::Flash(fault)) => fault.kind() == FaultKind::Uncorrectable,
            mounted => matches!(mounted, Err(Error::Corrupt)),
        };
        let has_something_to_say = report.perhaps_stale() + report.lost_discards > 0;
        if !met_damage || !has_something_to_say || report.retries + 1 == MOST_ATTEMPTS {
            return mounted.map(|scheme| (scheme, report));
        }
        former = MountReport { retries: report.retries + 1, ..report };
    }
}

/// See the module's description.
#[derive(Clone, Debug, Default)]
pub struct Census {
    /// Each block; `None` if it is empty or bad.
    pub blocks: Vec<Option<Found>>,
    /// Bad blocks.
    pub bad: Vec<Block>,
    /// Torn pages whose spare area is sound.
    pub spoiled: BTreeSet<Ppn>,
    /// Pages whose spare area was garbage when it was looked at, torn or not. They stay that: cells that a cut left
    /// between two levels may read otherwise the next time.
    pub garbled: BTreeSet<Ppn>,
    /// Pages of the host, and of discards, whose spare area is sound and whose data is damaged.
    pub damaged: BTreeSet<Ppn>,
    /// The largest version seen.
    pub max_version: u64,
    /// The largest program number seen.
    pub max_program: u64,
    /// Programmed pages.
    pub pages: u64,
    /// Pages found torn, of either sort.
    pub torn: u64,
    /// Pages whose spare area is garbage, which no power cut explains: of each the address is lost, and with it perhaps
    /// the newest version of a logical page.
    pub unreadable: u64,
    /// Erase counts of all blocks, as far as flash tells; empty where none are kept there.
    pub erases: Vec<u32>,
    /// Of these, what the last finished checkpoint does not have.
    pub erases_since: u64,
    /// Readable pages of checkpoints: the number of the checkpoint, and which of its pages it is.
    pub checkpoints: Vec<(u64, u32, Ppn)>,
    /// The blocks that hold the last finished one.
    finished_in: Vec<Block>,
    /// Blocks that are kept for them: nobody else's, though they look empty.
    pub area: Vec<Block>,
    /// What spare areas tell of when log blocks were begun, by block; empty where they do not.
    pub log_begun: BTreeMap<Block, u64>,
    kept: Kept,
    /// The last program number of a page that is not torn, by die and epoch.
    last_whole: BTreeMap<(Die, u64), u64>,
    /// Dies and epochs at whose end a torn page was found.
    ends: BTreeSet<(Die, u64)>,
    /// Pages of the host, and of discards, with bad data, until it is known whether they are torn or damaged.
    doubtful: Vec<(Ppn, Oob)>,
    /// Blocks of which no page is sound.
    hollow: Vec<Block>,
    /// The largest program number of a page that is not torn.
    last_sound: u64,
    /// Torn pages that no sound page of their block follows.
    unseen: u64,
    /// Dies with a block that begins with garbage, of whatever class, and is blank behind. It may be the newest, if the
    /// medium has lost what was programmed there.
    unsure: BTreeSet<Die>,
}

/// What the spare areas of a device carry beside what recovery needs.
#[derive(Clone, Copy, Default, Debug)]
pub struct Kept {
    /// Bytes of the scheme's own in front of an erase count, if counts are there.
    pub count_at: Option<u32>,
    /// Whether log pages tell when their block was begun (`hybrid/ages.rs`).
    pub log_ages: bool,
}

impl From<Option<u32>> for Kept {
    /// Erase counts alone, or nothing.
    fn from(count_at: Option<u32>) -> Kept {
        Kept { count_at, log_ages: false }
    }
}

/// Garbage among the pages of a block.
#[derive(Debug, Default)]
struct Garbage {
    pages: u64,
    /// Of these up to the last readable page.
    before: u64,
    /// The epoch of that page.
    epoch: Option<u64>,
    /// Epochs behind whose last page in the block garbage follows; `None` if it begins with garbage.
    ends: Vec<Option<u64>>,
}

impl Garbage {
    /// A readable page of an epoch follows, or the end of the block.
    fn reaches(&mut self, epoch: u64) {
        let since = self.pages - self.before;
        if since > 0 && self.epoch != Some(epoch) {
            self.ends.push(self.epoch);
        }
        (self.before, self.epoch) = (self.pages, Some(epoch));
    }
}

impl Census {
    /// Reads the device, spare areas as they are `kept`. `each` is handed the sound pages of each block, in order; the
    /// translation blocks come first, so that whoever keeps a map on flash knows the watermarks when the data pages
    /// come. Last come those of which the spare area alone can be read.
    ///
    /// # Errors
    /// The medium's.
    pub fn take<F: Flash>(
        flash: &mut F,
        kept: impl Into<Kept>,
        each: impl FnMut(&[(Ppn, Oob)], Health),
    ) -> Outcome<F, Census> {
        Census::scan(flash, kept.into(), true, each)
    }

    /// As [`Census::take`]; blocks are filled from their first page on if they are `in_order`.
    ///
    /// # Errors
    /// The medium's.
    pub fn scan<F: Flash>(
        flash: &mut F,
        kept: Kept,
        in_order: bool,
        mut each: impl FnMut(&[(Ppn, Oob)], Health),
    ) -> Outcome<F, Census> {
        let g = *flash.geometry();
        let blocks = g.block_count() as usize;
        let erases = if kept.count_at.is_some() { vec![0; blocks] } else { Vec::new() };
        let mut census = Census { blocks: vec![None; blocks], erases, kept, ..Census::default() };
        let mut sound: Vec<(Ppn, Oob)> = Vec::with_capacity(g.pages_per_block as usize);
        let mut others: Vec<Block> = Vec::new();
        let mut apart: Vec<Vec<(Ppn, Oob)>> = Vec::new();
        for block in (0..g.block_count()).map(Block) {
            match flash.read_oob(g.page(block, 0), Cause::Recovery)?.map(|oob| oob.kind) {
                Some(Kind::Bad) => census.bad.push(block),
                None if in_order => {}
                Some(Kind::Translation) => {
                    census.examine(flash, block, in_order, &mut sound)?;
                    each(&sound, Health::Sound);
                }
                // Rarely, and then the rest of the block says what it is.
                Some(Kind::Torn) if census.examine(flash, block, in_order, &mut sound)? == Some(Kind::Translation) => {
                    each(&sound, Health::Sound);
                }
                Some(Kind::Torn) => apart.push(core::mem::take(&mut sound)),
                _ => others.push(block),
            }
        }
        for block in others {
            census.examine(flash, block, in_order, &mut sound)?;
            each(&sound, Health::Sound);
        }
        apart.iter().for_each(|sound| each(sound, Health::Sound));
        each(&census.tell_damage(&g), Health::Unreadable);
        for die in (0..g.die_count()).map(Die) {
            for translation in [false, true] {
                census.mark_newest(&g, die, translation);
            }
        }
        if kept.count_at.is_some() {
            census.read_checkpoint(flash)?;
        }
        Ok(census)
    }

    /// Takes over the counts of the last checkpoint of which every page can be read.
    fn read_checkpoint<F: Flash>(&mut self, flash: &mut F) -> Outcome<F> {
        let shape = Shape::of(flash.geometry());
        let words = flash.geometry().entries_per_page() as usize;
        self.checkpoints.sort_unstable_by_key(|&(number, index, _)| (core::cmp::Reverse(number), index));
        let mut told = vec![0; self.erases.len()];
        for pages in self.checkpoints.chunk_by(|one, other| one.0 == other.0) {
            // A page may be there twice: one whose program failed was written again.
            let is_whole = (0..shape.pages).all(|index| pages.iter().any(|&(_, of, _)| of == index));
            if !is_whole {
                continue;
            }
            for &(_, index, ppn) in pages {
                let (oob, content) = match flash.read(ppn, Cause::Recovery) {
                    Ok(page) => page,
                    Err(fault) if fault.kind() == FaultKind::Uncorrectable => continue,
                    Err(fault) => return Err(fault.into()),
                };
                if oob.kind != Kind::Checkpoint {
                    continue;
                }
                let counts = told.iter_mut().skip(index as usize * words).zip(content.words().unwrap_or_default());
                counts
                    .filter(|(_, count)| **count < wear_state::NEVER)
                    .for_each(|(told, &count)| *told = count.max(*told));
            }
            let g = flash.geometry();
            self.finished_in = pages.iter().map(|&(_, _, ppn)| g.block_of(ppn)).collect();
            break;
        }
        let is_empty = |block: &Block| self.blocks[block.index()].is_none() && !self.bad.contains(block);
        self.area = wear_state::area(flash.geometry()).filter(is_empty).collect();
        for (count, told) in self.erases.iter_mut().zip(told) {
            self.erases_since += u64::from(count.saturating_sub(told));
            *count = told.max(*count);
        }
        Ok(())
    }

    /// Reads the spare areas of a block, and the suspects whole; `sound` is what is left. The kind of the first
    /// readable page, if there is one.
    fn examine<F: Flash>(
        &mut self,
        flash: &mut F,
        block: Block,
        in_order: bool,
        sound: &mut Vec<(Ppn, Oob)>,
    ) -> Outcome<F, Option<Kind>> {
        let g = *flash.geometry();
        let mut found: Option<Found> = None;
        // In each epoch the page programmed last: it may have been in flight when power was cut.
        let mut suspects: Vec<(u64, Ppn, Oob)> = Vec::new();
        let mut garbage = Garbage::default();
        sound.clear();
        let mut end = g.pages_per_block;
        for offset in 0..g.pages_per_block {
            let ppn = g.page(block, offset);
            let Some(oob) = flash.read_oob(ppn, Cause::Recovery)? else {
                if in_order {
                    end = offset;
                    break;
                }
                continue;
            };
            self.pages += 1;
            if let Some(own) = self.kept.count_at {
                let count = wear_state::count_in(flash.spare(ppn), own);
                self.erases[block.index()] = count.max(self.erases[block.index()]);
            }
            if oob.kind == Kind::Torn {
                garbage.pages += 1;
                self.garbled.insert(ppn);
                if let Some(found) = &mut found {
                    (found.whole, found.programmed) = (false, offset + 1);
                }
                continue;
            }
            let tells = self.kept.log_ages && oob.kind == Kind::Log;
            if let Some(begun) = tells.then(|| Ages::in_spare(flash.spare(ppn))).flatten() {
                self.log_begun.insert(block, begun);
            }
            let found = found.get_or_insert(Found {
                kind: oob.kind,
                programmed: 0,
                data: 0,
                first_program: u64::MAX,
                last_program: 0,
                whole: garbage.pages == 0,
                newest: false,
            });
            found.programmed = offset + 1;
            found.first_program = found.first_program.min(oob.program);
            found.last_program = found.last_program.max(oob.program);
            garbage.reaches(epoch(oob.program));
            match suspects.iter_mut().rev().find(|(program, ..)| epoch(*program) == epoch(oob.program)) {
                Some(last) if last.0 > oob.program => {}
                Some(last) => *last = (oob.program, ppn, oob),
                None => suspects.push((oob.program, ppn, oob)),
            }
            if oob.kind != Kind::Checkpoint {
                self.max_version = self.max_version.max(oob.version);
            }
            self.max_program = self.max_program.max(oob.program);
            sound.push((ppn, oob));
        }
        let garbled = garbage.pages;
        self.count_garbage(flash, block, garbage, in_order, end)?;
        let spoiled_before = self.spoiled.len();
        for (_, ppn, oob) in suspects {
            if flash.read(ppn, Cause::Recovery)?.0.kind == Kind::Torn {
                self.torn += 1;
                self.spoiled.insert(ppn);
                if matches!(oob.kind, Kind::Data | Kind::Log | Kind::Trim) {
                    self.doubtful.push((ppn, oob));
                }
            }
        }
        let spoiled = self.spoiled.len() - spoiled_before;
        if spoiled > 0 {
            sound.retain(|(ppn, _)| !self.spoiled.contains(ppn));
        }
        if garbled + spoiled as u64 > 0 {
            self.unseen += match sound.last() {
                // Nothing is programmed behind the first page of such a block before it is erased.
                None => 1,
                Some(&(last, _)) => self.torn_behind(&g, if in_order { last } else { g.page(block, 0) }),
            };
            if let Some(found) = &mut found
                && !sound.is_empty()
            {
                let programs = || sound.iter().map(|(_, oob)| oob.program);
                found.first_program = programs().fold(u64::MAX, u64::min);
                found.last_program = programs().fold(0, u64::max);
            }
        }
        self.last_sound = sound.iter().map(|(_, oob)| oob.program).fold(self.last_sound, u64::max);
        let die = g.die_of(block);
        let mut last = (0, 0);
        for program in sound.iter().map(|(_, oob)| oob.program) {
            if epoch(program) != last.0 {
                self.note_whole(die, last);
                last = (epoch(program), 0);
            }
            last.1 = program.max(last.1);
        }
        self.note_whole(die, last);
        if let Some(found) = &mut found {
            found.data = sound.iter().filter(|(_, oob)| oob.kind == Kind::Data).count() as u32;
        }
        if found.is_some_and(|found| found.kind == Kind::Checkpoint) {
            self.checkpoints.extend(sound.iter().map(|&(ppn, oob)| (oob.version, oob.address, ppn)));
            sound.clear();
            return Ok(Some(Kind::Checkpoint));
        }
        if found.is_some() && sound.is_empty() {
            self.hollow.push(block);
        }
        if found.is_none() && (1..u64::from(g.pages_per_block)).contains(&garbled) {
            self.unsure.insert(die);
        }
        self.blocks[block.index()] = found;
        Ok(found.map(|found| found.kind))
    }

    /// Torn pages of a block behind page `first`.
    fn torn_behind(&self, g: &Geometry, first: Ppn) -> u64 {
        let end = g.page(Block(g.block_of(first).0 + 1), 0);
        (self.spoiled.range(first..end).count() + self.garbled.range(first..end).count()) as u64
    }

    /// Of a die and an epoch this is the last whole page of a block.
    fn note_whole(&mut self, die: Die, (epoch, program): (u64, u64)) {
        let last = self.last_whole.entry((die, epoch)).or_default();
        *last = program.max(*last);
    }

    /// Pages of a block whose spare area is garbage: which of them power cuts explain. The first `end` pages of the
    /// block were looked at.
    fn count_garbage<F: Flash>(
        &mut self,
        flash: &mut F,
        block: Block,
        mut garbage: Garbage,
        in_order: bool,
        end: u32,
    ) -> Outcome<F> {
        if garbage.pages == 0 {
            return Ok(());
        }
        let g = *flash.geometry();
        garbage.reaches(u64::MAX);
        self.torn += garbage.pages;
        let mut explained = 0;
        for epoch in garbage.ends {
            // Of a block that begins with garbage it is not known in which epoch that was.
            explained += u64::from(epoch.is_none_or(|epoch| self.ends.insert((g.die_of(block), epoch))));
        }
        let mut unreadable = garbage.pages - explained;
        if unreadable > 0 && in_order {
            // Nothing stands above a blank page but what an erase has left.
            let mut half_erased = garbage.pages == u64::from(g.pages_per_block);
            for offset in end..g.pages_per_block {
                half_erased |= flash.read_oob(g.page(block, offset), Cause::Recovery)?.is_some();
            }
            unreadable *= u64::from(!half_erased);
        }
        self.torn -= unreadable;
        self.unreadable += unreadable;
        Ok(())
    }

    /// All blocks were examined: which of the doubtful pages are not torn, but damaged. A program that failed and its
    /// repetition, in flight when power was cut, may both have bad data: a page is torn if no whole one follows it.
    fn tell_damage(&mut self, g: &Geometry) -> Vec<(Ppn, Oob)> {
        let mut damaged = core::mem::take(&mut self.doubtful);
        damaged.retain(|(ppn, oob)| {
            let of = (g.die_of(g.block_of(*ppn)), epoch(oob.program));
            self.last_whole.get(&of).is_some_and(|&last| last > oob.program)
        });
        for (ppn, oob) in &damaged {
            self.torn -= 1;
            self.last_sound = self.last_sound.max(oob.program);
            self.spoiled.remove(ppn);
            self.damaged.insert(*ppn);
            if let Some(found) = &mut self.blocks[g.block_of(*ppn).index()] {
                found.data += u32::from(oob.kind == Kind::Data);
                found.first_program = found.first_program.min(oob.program);
                found.last_program = found.last_program.max(oob.program);
            }
        }
        // Torn pages alone may read as garbage another time, and then the block is erased before it is used.
        for block in core::mem::take(&mut self.hollow) {
            if !damaged.iter().any(|(ppn, _)| g.block_of(*ppn) == block) {
                let found = self.blocks[block.index()].take();
                if found.is_some_and(|found| found.programmed < g.pages_per_block) {
                    self.unsure.insert(g.die_of(block));
                }
            }
        }
        damaged
    }

    /// What a mount reports of it.
    pub fn report(&self) -> MountReport {
        let Census { pages, torn, bad, unreadable, .. } = self;
        let (pages, torn, unreadable) = (*pages, *torn, *unreadable);
        MountReport { pages, torn, unreadable, bad_blocks: bad.len() as u64, ..MountReport::default() }
    }

    /// The largest number of a checkpoint, finished or not.
    pub fn last_checkpoint(&self) -> u64 {
        self.checkpoints.iter().map(|&(number, ..)| number).max().unwrap_or(0)
    }

    /// The blocks for checkpoints: those of the last finished one come last but for the first, behind which the next
    /// checkpoint is written.
    pub fn area_in_turn(&self) -> Vec<Block> {
        let mut area = self.area.clone();
        let has_finished = |block: &Block| self.finished_in.contains(block);
        area.sort_by_key(has_finished);
        // The block that was filled last stands first.
        let filled = area.len().min(1);
        area.rotate_right(filled);
        area
    }

    /// The first program number of the epoch that begins with this mount. A torn page may be all that there is of its
    /// epoch, read as garbage now and as a page of that another time. So as many epochs are passed over behind the last
    /// sound page as there are such pages: each mount whose first program is cut short leaves one more. If it had
    /// erased others before, there are no more than it found, but mostly in other places: these decide too.
    pub fn next_program(&self) -> u64 {
        let count = |program| epoch(program) >> TORN_BITS;
        let next = (count(self.max_program) + 1).max(count(self.last_sound) + 1 + self.unseen);
        let mix = |mixed: u32, ppn: &Ppn| (mixed ^ (ppn.0 + 1)).wrapping_mul(0x9e37_79b1).rotate_right(15);
        let places = self.spoiled.union(&self.garbled).fold(0, mix);
        (next << TORN_BITS | u64::from(places) & ((1 << TORN_BITS) - 1)) << EPOCH_SHIFT
    }

    /// Marks the newest among the translation (or other) blocks of a die.
    fn mark_newest(&mut self, g: &Geometry, die: Die, translation: bool) {
        let age = |block: u32| {
            let found = self.blocks[block as usize].filter(|found| (found.kind == Kind::Translation) == translation)?;
            Some((found.last_program, block))
        };
        if let Some((_, block)) = g.blocks_of(die).filter_map(age).max()
            && let Some(found) = &mut self.blocks[block as usize]
        {
            found.newest = true;
        }
    }

    /// The newest block among those in use in a range, translation blocks aside.
    pub fn newest_of(&self, range: Range<u32>) -> Option<Block> {
        let found = |block: u32| self.blocks[block as usize].filter(|found| found.kind != Kind::Translation);
        range.filter(|&block| found(block).is_some_and(|found| found.newest)).map(Block).next()
    }

    /// Whether the blocks of a die that seem the newest may not be.
    pub fn is_unsure(&self, die: Die) -> bool {
        self.unsure.contains(&die)
    }

    /// Whether a page that a translation page with this watermark points at holds that LPN.
    ///
    /// Only a block that was erased since can hold something else there. If its present life began before the watermark
    /// it is the life in which the entry was right, and the spare area need not be read: at the watermark every entry
    /// was right, and later ones name pages programmed later still. That the life began so early is known if no page of
    /// the block is torn; a block whose erase was cut short may read as old where nothing of the page is left.
    ///
    /// # Errors
    /// The medium's.
    pub fn holds<F: Flash>(&self, flash: &mut F, ppn: Ppn, lpn: u32, watermark: u64) -> Outcome<F, bool> {
        let g = *flash.geometry();
        if ppn.0 >= g.page_count() {
            return Ok(false);
        }
        let Some(found) = self.blocks[g.block_of(ppn).index()] else { return Ok(false) };
        let is_torn = self.spoiled.contains(&ppn) || self.garbled.contains(&ppn);
        if g.offset_of(ppn) >= found.programmed || is_torn {
            return Ok(false);
        }
        if found.whole && found.kind == Kind::Data && found.first_program < watermark {
            return Ok(true);
        }
        let oob = flash.read_oob(ppn, Cause::Recovery)?;
        Ok(oob.is_some_and(|oob| oob.kind == Kind::Data && oob.address == lpn))
    }

    /// Forgets a block: it is about to be erased. The next newest of its die and class takes its place.
    pub fn drop_block(&mut self, block: Block, g: &Geometry) {
        let Some(dropped) = self.blocks[block.index()].take() else { return };
        self.spoiled.retain(|&ppn| g.block_of(ppn) != block);
        self.garbled.retain(|&ppn| g.block_of(ppn) != block);
        self.damaged.retain(|&ppn| g.block_of(ppn) != block);
        if dropped.newest {
            self.mark_newest(g, g.die_of(block), dropped.kind == Kind::Translation);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flash::{Failing, FailurePlan, Fragile, Full, Lpn, Nand, NoData, Payload};

    type Chip = Nand<NoData, Full>;

    /// What an attempt found may be erased when it fails, so the next one says it too.
    #[test]
    fn what_a_mount_found_that_did_not_end_well_is_said_by_the_one_that_does() {
        let mut flash = Failing::new(chip(&[(0, 0)]), FailurePlan::default(), 1);
        let mut ends_well_in = |last: u64, error: Error<flash::Fault>, found: MountReport| {
            let mut attempts = 0;
            let mounted = mount_through(&mut flash, |_, report| {
                (attempts, *report) = (attempts + 1, found);
                if attempts < last { Err(error) } else { Ok(()) }
            });
            (attempts, mounted.map(|((), report)| report))
        };
        let [torn, discards, nothing] = [(2, 0), (0, 1), (0, 0)].map(|(torn, lost_discards)| MountReport {
            torn,
            lost_discards,
            ..Default::default()
        });
        for error in [Error::Flash(flash::Fault(FaultKind::Uncorrectable)), Error::Corrupt] {
            assert_eq!(ends_well_in(1, error, torn), (1, Ok(torn)));
            assert_eq!(ends_well_in(3, error, torn), (3, Ok(MountReport { torn: 6, retries: 2, ..torn })));
            assert_eq!(
                ends_well_in(2, error, discards),
                (2, Ok(MountReport { lost_discards: 2, retries: 1, ..discards }))
            );
            assert_eq!(ends_well_in(2, error, nothing), (1, Err(error)), "nothing would be forgotten");
            assert_eq!(ends_well_in(8, error, torn).1.unwrap().torn, 16);
            assert_eq!(ends_well_in(9, error, torn), (8, Err(error)));
        }
        assert_eq!(ends_well_in(2, Error::Full, torn), (1, Err(Error::Full)));
    }

    /// Two dies of four blocks of four pages, of which these are programmed in this order: LPN and program number are
    /// their place in the list.
    fn chip(programs: &[(u32, u64)]) -> Chip {
        let g = Geometry { channels: 2, blocks_per_die: 4, pages_per_block: 4, ..Geometry::default() };
        let mut chip = Nand::new(g.checked().unwrap());
        for (number, &(ppn, epoch)) in (1..).zip(programs) {
            let oob = Oob::data(Lpn(number), number.into(), epoch << EPOCH_SHIFT | u64::from(number));
            let Ok(()) = chip.program(Ppn(ppn), oob, Payload::User(&()), Cause::Host);
        }
        chip
    }

    fn take(chip: &mut Chip) -> (Census, Vec<u32>, Vec<u32>) {
        let (mut sound, mut unreadable) = (Vec::new(), Vec::new());
        let census = Census::take(chip, None, |pages, health| {
            let found = if health == Health::Sound { &mut sound } else { &mut unreadable };
            found.extend(pages.iter().map(|(ppn, _)| ppn.0));
        });
        let Ok(census) = census else { panic!() };
        (census, sound, unreadable)
    }

    /// Any page that was the last of its block was taken for torn, and the version before it for the newest.
    #[test]
    fn what_a_whole_page_of_its_die_follows_is_damaged_and_not_torn() {
        // Block 0 is filled, and block 1 begun; block 4 is on the other die.
        let mut chip = chip(&[(0, 0), (1, 0), (2, 0), (16, 0), (3, 0), (4, 0), (17, 0)]);
        for ppn in [3, 4, 17] {
            chip.chip().spoil(Ppn(ppn));
        }
        let (census, sound, unreadable) = take(&mut chip);
        // Nothing follows pages 4 and 17 on their dies. Page 3 is followed by one that is torn, and by no whole one.
        assert_eq!((census.torn, census.damaged.len(), unreadable), (3, 0, Vec::new()));
        assert_eq!(sound, [0, 1, 2, 16]);
        let Ok(()) = chip.program(Ppn(5), Oob::data(Lpn(9), 9, 9), Payload::User(&()), Cause::Host);
        let (census, sound, unreadable) = take(&mut chip);
        assert_eq!((census.torn, census.spoiled.len(), unreadable), (1, 1, vec![3]));
        assert!(census.damaged.contains(&Ppn(3)) && census.spoiled.contains(&Ppn(17)));
        assert_eq!((sound, census.unreadable), (vec![0, 1, 2, 4, 5, 16], 0), "page 4 is no suspect any more");
    }

    /// Two blocks of a die are filled side by side: a lane goes on with the one that was filled last.
    #[test]
    fn the_newest_block_is_the_one_that_was_programmed_last() {
        let (census, ..) = take(&mut chip(&[(0, 0), (4, 0), (1, 0), (16, 0)]));
        let newest = |block: usize| census.blocks[block].map(|found| found.newest);
        assert_eq!([newest(0), newest(1), newest(2), newest(4)], [Some(true), Some(false), None, Some(true)]);
    }

    /// An entry names a page that is blank, or was in flight at a cut: the block was erased since and is filled anew,
    /// and that its first pages are older than the watermark says nothing about these.
    #[test]
    fn an_entry_is_not_believed_where_its_page_is_blank_or_torn() {
        let mut chip = chip(&[(0, 0), (1, 0), (2, 0)]);
        chip.chip().spoil(Ppn(2));
        let (census, ..) = take(&mut chip);
        assert!(census.spoiled.contains(&Ppn(2)));
        // LPNs count from 1 on; of the third page the spare area says what the entry says.
        let believed =
            [0, 1, 2, 3].map(|ppn| census.holds(&mut chip, Ppn(ppn), ppn + 1, u64::MAX).expect("a sound chip"));
        assert_eq!(believed, [true, true, false, false]);
    }

    /// A block whose first page was garbage counted as empty, with all that it held.
    #[test]
    fn garbage_that_no_power_cut_leaves_is_counted() {
        let programs = [(0, 0), (1, 0), (2, 0), (3, 0), (4, 0), (5, 1), (6, 1)];
        for (ruined, torn, unreadable) in [
            // The page that was to follow page 6: in flight at the last cut.
            (vec![7], 1, 0),
            // At the end of what its block took; nothing else of die and epoch was.
            (vec![3], 1, 0),
            (vec![3, 7], 2, 0),
            (vec![1], 0, 1),
            (vec![2, 3], 1, 1),
            (vec![0], 1, 0),
            (vec![0, 2], 1, 1),
            (vec![5], 1, 0),
        ] {
            let mut chip = self::chip(&[]);
            for (number, &(ppn, epoch)) in (1..).zip(&programs) {
                let oob = Oob::data(Lpn(number), number.into(), epoch << EPOCH_SHIFT | u64::from(number));
                if ruined.contains(&ppn) {
                    chip.chip().ruin(Ppn(ppn));
                } else {
                    let Ok(()) = chip.program(Ppn(ppn), oob, Payload::User(&()), Cause::Host);
                }
            }
            if ruined.contains(&7) {
                chip.chip().ruin(Ppn(7));
            }
            let (census, sound, _) = take(&mut chip);
            assert_eq!((census.torn, census.unreadable), (torn, unreadable), "{ruined:?}");
            assert!((0..7).all(|ppn| sound.contains(&ppn) != ruined.contains(&ppn)), "{ruined:?}: {sound:?}");
        }
    }

    /// A torn page may read as garbage, or as a page whose data alone is bad. What a mount makes of it is the same: the
    /// entry that names it is wrong, a block that holds nothing else is empty, and no page that is written next is of
    /// its epoch.
    #[test]
    fn a_torn_page_is_the_same_whatever_is_seen_of_it() {
        let mut begun = Vec::new();
        for seen_as_garbage in [true, false] {
            let mut chip = chip(&[(0, 0), (1, 1), (16, 1)]);
            // The last page of block 0 and the only one of block 5, both of an epoch of their own.
            let torn = [2, 20];
            for ppn in torn {
                if seen_as_garbage {
                    chip.chip().ruin(Ppn(ppn));
                } else {
                    let oob = Oob::data(Lpn(ppn), 9, 2 << EPOCH_SHIFT | u64::from(ppn));
                    let Ok(()) = chip.program(Ppn(ppn), oob, Payload::User(&()), Cause::Host);
                    chip.chip().spoil(Ppn(ppn));
                }
            }
            let (census, sound, _) = take(&mut chip);
            assert_eq!((sound, census.torn), (vec![0, 1, 16], 2));
            assert!(census.blocks[5].is_none() && census.blocks[0].is_some());
            assert!(torn.iter().all(|&ppn| census.holds(&mut chip, Ppn(ppn), ppn, 0) == Ok(false)));
            assert!(epoch(census.next_program()) > 2, "{seen_as_garbage}");
            begun.push(census.next_program());
        }
        assert_eq!(begun[0], begun[1]);
        // Of three such pages in a row each may be all that there is of its epoch.
        let mut chip = self::chip(&[(0, 0)]);
        [1, 2, 3].into_iter().for_each(|ppn| chip.chip().ruin(Ppn(ppn)));
        assert_eq!(epoch(take(&mut chip).0.next_program()) >> TORN_BITS, 4);
        // A mount erased the one torn page that it had found, and power failed in its first program.
        let found = [4, 8].map(|torn| {
            let mut chip = self::chip(&[(0, 0)]);
            chip.chip().ruin(Ppn(torn));
            take(&mut chip).0.next_program()
        });
        assert_ne!(found[0], found[1]);
        // It had erased several.
        let mut chip = self::chip(&[(0, 0), (1, 9 << TORN_BITS)]);
        chip.chip().spoil(Ppn(1));
        assert_eq!(epoch(take(&mut chip).0.next_program()) >> TORN_BITS, 10);
    }
}

//! A medium that keeps what a torn program may take along.
//!
//! Where cells hold several bits, a program that power cuts short may destroy pages of the same word line that were
//! programmed and acknowledged before ([`Pairs`], docs/fault-model.md). [`Guard`] stands between a scheme and its chip
//! and makes good what was taken, so that no scheme need know of pairs.
//!
//! **Before.** The guard keeps [`Guard::BLOCKS`] blocks at the end of each die to itself; [`Flash::geometry`] does not
//! have them, and addresses are those of that geometry. Before it lets a page be programmed it copies each page of the
//! same word line that holds something into its *ring*, and waits for it. Ring blocks are in SLC mode: they are fast,
//! endure more, and a torn page in them takes nothing along. They are filled one after another, and a block is erased
//! when its turn comes again.
//!
//! **After.** One command of a die is in doubt at a power cut, the last. If that was such a program, its *entry* is the
//! newest of the ring of its die, for the guard writes one before each. So [`Guard::recover`], which comes before any
//! format or mount, looks at one entry a die: if the page that was to be programmed is torn and one that was kept does
//! not read any more, it *repairs* the block. It copies the block to another, kept pages in the place of those that
//! were taken, then erases it and copies everything back; the torn page is blank then, and pages that earlier cuts tore
//! are torn. Power may fail meanwhile: a copy that is complete is copied back again. At the end an empty entry in the
//! ring says that the copy counts no longer. After that all is where the scheme put it, reads go straight to the chip,
//! and no entry is needed any more. Damage looks like a power cut: where none was, [`Guard::resume`] repairs nothing.
//!
//! That the newest entry speaks of the present life of its block needs one rule more. Where the pages of the word line
//! hold nothing worth keeping, the guard writes no entry, unless the newest one names the very page that is programmed:
//! then it writes an empty one.
//!
//! ```text
//!   die:  blocks of the scheme …  │ ring │ ring │ spare │ spare      each may become a copy for a repair
//!
//!   spare area of a page of the guard:  what the scheme had there │ before it, 12 bytes:
//!     page that it is a copy of, plus 1 │ page that was to be programmed │ number, place in its entry, mode
//! ```
//!
//! A program costs a read and a program in SLC mode for each page kept: of two bits, half of the programs keep one
//! page; of three bits, a block's programs keep as many pages as it has. The commands have a cause of their own,
//! [`Cause::PairBackup`]. The ring's blocks wear faster than others, by about a quarter of the blocks of a die for two
//! bits, for cells in SLC mode. A ring block that fails is left out; while fewer than two work, the pages of a die are
//! not guarded. A partial program keeps nothing, for chips of such cells allow none but in SLC mode.
//!
//! Without pairs ([`Pairing::Off`]) everything is handed on as it is.

use crate::device::DeviceError;
use crate::medium::copy_each;
use crate::{
    Block, Cause, Chain, Die, FaultKind, Flash, FlashFault, Geometry, HostData, Kind, Mode, Oob, Pairing, Pairs,
    Payload, Ppn, ProgramOrder, Store,
};
use alloc::format;
use alloc::vec::Vec;
use core::ops::{Deref, DerefMut};

/// Bytes of the guard in every spare area, before those of the scheme.
const OWN: usize = 12;
/// Spare areas with room for them beside the record of every page.
const LEAST_SPARE: u32 = 32;
/// Blocks of each die that a guard keeps to itself.
const BLOCKS: u32 = 4;
/// In place of the page to be programmed: this page is part of a copy of a block.
const COPY: u32 = u32::MAX;
/// The same: this page ends the copy of a block. The page it is a copy of is the first of the block.
const END: u32 = u32::MAX - 1;
/// Pages of an entry: a word line has at most four.
const MOST_KEPT: u32 = 3;
const MODES: [Mode; 4] = Mode::ALL;
/// The spare area of a page that holds nothing.
const PADDING: Oob = Oob { kind: Kind::Dummy, mode: Mode::Normal, address: 0, version: 0, program: 0, mark: 0 };

/// The chip on which a scheme that has a guard beneath it sees this geometry.
///
/// # Errors
/// Spare areas without room for the guard's bytes, or more pages than fit.
pub(crate) fn beneath(seen: Geometry, pairs: Pairing) -> Result<Geometry, DeviceError> {
    if seen.oob_bytes < LEAST_SPARE {
        return Err(DeviceError {
            key: "oob",
            value: format!("{} bytes", seen.oob_bytes),
            what: format!("but a guard of pages that share cells keeps {OWN} bytes in every spare area"),
            fix: format!("give at least {LEAST_SPARE} bytes, or paired=off"),
        });
    }
    Ok(Geometry { pairs, blocks_per_die: seen.blocks_per_die + BLOCKS, ..seen }.checked()?)
}

/// A chip as a scheme that has a guard beneath it sees it.
pub fn seen(chip: Geometry) -> Geometry {
    let (blocks_per_die, oob_bytes) = (chip.blocks_per_die - BLOCKS, chip.oob_bytes.saturating_sub(OWN as u32));
    let geometry = Geometry { blocks_per_die, oob_bytes, pairs: Pairing::Off, ..chip };
    geometry.checked().expect("smaller than one that was checked")
}

/// Whether a block of a chip is a guard's.
pub fn is_guards(chip: &Geometry, block: Block) -> bool {
    chip.pairs != Pairing::Off && block.0 % chip.blocks_per_die >= chip.blocks_per_die - BLOCKS
}

/// What a page of the guard says in its spare area.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Tag {
    /// The page that it is a copy of.
    of: Ppn,
    /// The page that was to be programmed; [`COPY`], [`END`].
    before: u32,
    /// Ring: counts the guard's pages on the die. Copy: the number of the entry that it was made for. It has 28 bits,
    /// more than a ring endures: four blocks of 512 pages, each erased 100,000 times, are 205 million.
    number: u32,
    /// Ring: which page of its entry, from 0. Copy: 1 if the page that it is a copy of was torn.
    place: u32,
    /// The mode of the page that it is a copy of.
    mode: Mode,
}

impl Tag {
    fn encode(self) -> [u8; OWN] {
        let mut bytes = [0; OWN];
        bytes[..4].copy_from_slice(&(self.of.0 + 1).to_le_bytes());
        bytes[4..8].copy_from_slice(&self.before.to_le_bytes());
        debug_assert!(self.number < 1 << 28);
        let word = self.number << 4 | self.place << 2 | self.mode as u32;
        bytes[8..].copy_from_slice(&word.to_le_bytes());
        bytes
    }

    /// `None`: a page of the scheme, or one that says nothing.
    fn decode(bytes: &[u8]) -> Option<Tag> {
        let word = |at: usize| bytes.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes);
        let (of, before, rest) = (word(0)?, word(4)?, word(8)?);
        let mode = MODES[rest as usize % MODES.len()];
        Some(Tag { of: Ppn(of.checked_sub(1)?), before, number: rest >> 4, place: rest >> 2 & 3, mode })
    }
}

/// A page's content, out of the chip.
enum Held<S> {
    User(S),
    Meta(Vec<u32>),
    /// The page, here, is the copy of a lost one: its spare area says that there is no data.
    Lost(Ppn),
    None,
}

/// A page, out of the chip.
struct Kept<S> {
    oob: Oob,
    held: Held<S>,
    /// What the scheme keeps in the spare area.
    own: Vec<u8>,
}

/// The ring of a die.
#[derive(Clone, Debug, Default)]
struct Ring {
    /// Blocks of the guard that work.
    blocks: Vec<Block>,
    /// The one that is being filled, and how many of its pages are programmed.
    filling: Option<(Block, u32)>,
    /// Blocks that hold pages of the newest entry.
    newest: Vec<Block>,
    /// The page that was to be programmed after the newest entry.
    before: Option<Ppn>,
    /// Of the guard's next page.
    number: u32,
    /// It holds pages of which none says what it is. A medium that has forgotten how many bytes of spare areas are
    /// reserved cannot read them before the scheme has said so again.
    unread: bool,
}

/// What a guard did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Guarded {
    /// Pages kept.
    pub kept: u64,
    /// Blocks that were repaired.
    pub repaired: u64,
    /// Pages that repairs made blank. A cut has torn such a page, or somebody has damaged it: then its logical page is
    /// stale, and the scheme's mount finds nothing that says so.
    pub given_up: u64,
}

/// The decorator. See the module's description. It dereferences to the medium inside, to be looked at or harmed; a
/// scheme must not go by it.
#[derive(Clone, Debug)]
pub struct Guard<F> {
    inner: F,
    /// As the scheme sees the device.
    geometry: Geometry,
    /// `None`: there is nothing to guard, or nobody wants it.
    pairs: Option<Pairs>,
    /// Whether the bytes of spare areas were reserved.
    reserved: bool,
    staged: Option<(Ppn, Vec<u8>)>,
    rings: Vec<Ring>,
    guarded: Guarded,
}

impl<F> Deref for Guard<F> {
    type Target = F;
    fn deref(&self) -> &F {
        &self.inner
    }
}

impl<F> DerefMut for Guard<F> {
    fn deref_mut(&mut self) -> &mut F {
        &mut self.inner
    }
}

type StoreOf<F> = <<F as Flash>::User as HostData>::Store;

impl<F: Flash> Guard<F> {
    /// Blocks of each die that a guard keeps to itself: two rings' worth, one for a copy, and one that may go bad.
    pub const BLOCKS: u32 = BLOCKS;
    /// Bytes of each spare area that it keeps to itself.
    pub const SPARE_BYTES: u32 = OWN as u32;

    /// Around a medium; [`Guard::recover`] or [`Guard::resume`] comes first of all.
    ///
    /// # Panics
    /// If a die has no more blocks than the guard takes.
    pub fn new(inner: F) -> Self {
        let chip = *inner.geometry();
        if chip.pairs == Pairing::Off {
            return Self::unguarded(inner);
        }
        assert!(chip.blocks_per_die > Self::BLOCKS, "a die of {} blocks, all of them the guard's", chip.blocks_per_die);
        let (geometry, pairs) = (seen(chip), Some(Pairs::new(&chip)));
        Guard { inner, geometry, pairs, reserved: false, staged: None, rings: Vec::new(), guarded: Guarded::default() }
    }

    /// Around a medium, of which everything is handed on whatever its cells.
    pub fn unguarded(inner: F) -> Self {
        let geometry = Geometry { pairs: Pairing::Off, ..*inner.geometry() };
        let (rings, guarded) = (Vec::new(), Guarded::default());
        Guard { inner, geometry, pairs: None, reserved: true, staged: None, rings, guarded }
    }

    /// Takes the medium out.
    pub fn into_inner(self) -> F {
        self.inner
    }

    /// The pages that repairs gave up since this was asked last ([`Guarded::given_up`]).
    pub fn take_given_up(&mut self) -> u64 {
        core::mem::take(&mut self.guarded.given_up)
    }

    /// What it did.
    pub fn guarded(&self) -> Guarded {
        self.guarded
    }

    /// The block of the chip.
    #[inline]
    fn block(&self, block: Block) -> Block {
        if self.pairs.is_none() { block } else { Block(block.0 + self.geometry.die_of(block).0 * Self::BLOCKS) }
    }

    /// The page of the chip.
    #[inline]
    fn page(&self, ppn: Ppn) -> Ppn {
        match self.pairs {
            None => ppn,
            Some(_) => {
                let g = &self.geometry;
                g.page(self.block(g.block_of(ppn)), g.offset_of(ppn))
            }
        }
    }

    /// The bytes in spare areas, if the scheme has reserved none: at the first command that changes the flash.
    fn reserve(&mut self) {
        if !self.reserved {
            assert!(self.inner.reserve_spare(OWN as u32), "a guard needs a chip that stores bytes in spare areas");
            self.reserved = true;
        }
    }

    /// Does the work that programs a page, for which its word line was made safe, with what is staged for it.
    fn programmed<T>(
        &mut self,
        ppn: Ppn,
        cause: Cause,
        work: impl FnOnce(&mut F) -> Result<T, F::Fault>,
    ) -> Result<T, F::Fault> {
        let Some(pairs) = &self.pairs else { return work(&mut self.inner) };
        let is_alone = pairs.partners(self.geometry.offset_of(ppn)).next().is_none();
        self.reserve();
        let ppn = self.page(ppn);
        let block = self.geometry.block_of(ppn);
        if is_alone || self.inner.is_slc(block) {
            self.stage(ppn);
            return work(&mut self.inner);
        }
        // One after another, in whatever scope this is.
        let outer = self.inner.chain(Chain::PAGE);
        let result = self.keep(ppn, cause).and_then(|()| {
            self.stage(ppn);
            work(&mut self.inner)
        });
        let page = self.inner.chain(outer);
        self.inner.chain(page.awaited());
        result
    }

    /// Hands on what the scheme has staged for a page of the chip.
    fn stage(&mut self, ppn: Ppn) {
        if let Some((_, own)) = self.staged.take_if(|(staged, _)| *staged == ppn) {
            self.inner.stage_spare(ppn, &own);
        }
    }

    /// Reads a page of the chip; `None` if it cannot be read.
    fn hold(&mut self, ppn: Ppn, cause: Cause) -> Result<Option<Kept<StoreOf<F>>>, F::Fault> {
        let page_bytes = self.geometry.page_bytes as usize;
        let (oob, held) = match self.inner.read(ppn, cause) {
            Ok((oob, Payload::User(data))) => {
                let mut store = StoreOf::<F>::new(1, page_bytes);
                store.put(0, data);
                (oob, Held::User(store))
            }
            Ok((oob, Payload::Meta(words))) => (oob, Held::Meta(words.to_vec())),
            Ok((oob, Payload::None)) if oob.kind.is_host() || oob.kind == Kind::Trim => (oob, Held::Lost(ppn)),
            Ok((oob, Payload::None)) => (oob, Held::None),
            Err(fault) if fault.kind() == FaultKind::Uncorrectable => return Ok(None),
            Err(fault) => return Err(fault),
        };
        if matches!(oob.kind, Kind::Torn | Kind::Bad) {
            return Ok(None);
        }
        let own = self.inner.spare(ppn).get(OWN..).unwrap_or_default().to_vec();
        Ok(Some(Kept { oob, held, own }))
    }

    /// Programs what was held, or padding, with a tag or none.
    fn put(
        &mut self,
        ppn: Ppn,
        mode: Option<Mode>,
        kept: Option<&Kept<StoreOf<F>>>,
        tag: Option<Tag>,
        cause: Cause,
    ) -> Result<(), F::Fault> {
        let mut own = tag.map_or([0; OWN], Tag::encode).to_vec();
        let mut oob = kept.map_or(PADDING, |kept| kept.oob);
        oob.mode = mode.unwrap_or(oob.mode);
        if let Some(kept) = kept {
            own.extend(&kept.own);
        }
        self.inner.stage_spare(ppn, &own);
        let payload = match kept.map(|kept| &kept.held) {
            Some(Held::User(store)) => Payload::User(store.get(0)),
            Some(Held::Meta(words)) => Payload::Meta(words),
            // Whoever reads it goes on being told.
            Some(&Held::Lost(from)) => return self.inner.copy(from, ppn, cause, |copy, _| *copy = oob).map(drop),
            Some(Held::None) | None => Payload::None,
        };
        self.inner.program(ppn, oob, payload, cause)
    }

    /// Whether a page of the chip holds something: in a block that is programmed page by page, without a look.
    fn is_programmed(&mut self, ppn: Ppn, before: Ppn, cause: Cause) -> Result<bool, F::Fault> {
        match self.geometry.order {
            ProgramOrder::Strict => Ok(ppn < before),
            _ => Ok(self.inner.read_oob(ppn, cause)?.is_some()),
        }
    }

    /// Keeps what a program of a page of the chip may take along.
    fn keep(&mut self, before: Ppn, cause: Cause) -> Result<(), F::Fault> {
        // The cost of a mount's programs is the mount's.
        let cause = if cause == Cause::Recovery { cause } else { Cause::PairBackup };
        let g = self.geometry;
        let (block, offset) = (g.block_of(before), g.offset_of(before));
        let die = self.die_of(block);
        if self.rings[die.index()].unread {
            // New pages are to be newer than what the ring holds.
            self.read_ring(die)?;
            self.rings[die.index()].unread = false;
        }
        let partners: Vec<u32> = self.pairs.iter().flat_map(|pairs| pairs.partners(offset)).collect();
        let mut place = 0;
        for of in partners.into_iter().map(|offset| g.page(block, offset)) {
            if !self.is_programmed(of, before, cause)? {
                continue;
            }
            // Padding is nothing to lose.
            let Some(kept) = self.hold(of, cause)?.filter(|kept| kept.oob.kind != Kind::Dummy) else { continue };
            self.add(die, (of, before, place), Some(&kept), &[], cause)?;
            self.guarded.kept += 1;
            place += 1;
        }
        if place == 0 && self.rings[die.index()].before == Some(before) {
            self.add(die, (before, before, 0), None, &[], cause)?;
        }
        Ok(())
    }

    /// The die of a block of the chip.
    fn die_of(&self, block: Block) -> Die {
        Die(block.0 / (self.geometry.blocks_per_die + Self::BLOCKS))
    }

    /// Adds a page to the ring: a copy of page `of`, the page `place` of the entry for a program of `before`; or an
    /// empty entry. Never in one of the blocks `not`.
    fn add(
        &mut self,
        die: Die,
        (of, before, place): (Ppn, Ppn, u32),
        kept: Option<&Kept<StoreOf<F>>>,
        not: &[Block],
        cause: Cause,
    ) -> Result<(), F::Fault> {
        debug_assert!(place < MOST_KEPT);
        let number = self.rings[die.index()].number;
        loop {
            let Some(to) = self.next_page(die, not, cause)? else { return Ok(()) };
            let mode = kept.map_or(Mode::Normal, |kept| kept.oob.mode);
            let tag = Tag { of, before: before.0, number, place, mode };
            let block = self.geometry.block_of(to);
            match self.put(to, Some(Mode::Slc), kept, Some(tag), cause) {
                Err(fault) if fault.kind() == FaultKind::ProgramFailed => self.leave_out(die, block),
                result => {
                    result?;
                    let ring = &mut self.rings[die.index()];
                    if place == 0 {
                        ring.newest.clear();
                    }
                    ring.newest.push(block);
                    (ring.number, ring.before) = (number + 1, Some(before));
                    return Ok(());
                }
            }
        }
    }

    /// A block of the guard failed.
    fn leave_out(&mut self, die: Die, block: Block) {
        let ring = &mut self.rings[die.index()];
        ring.blocks.retain(|&other| other != block);
        ring.filling = ring.filling.filter(|&(filling, _)| filling != block);
    }

    /// The next page of the ring; never in one of the blocks `not`. `None` if too few blocks of the die work.
    fn next_page(&mut self, die: Die, not: &[Block], cause: Cause) -> Result<Option<Ppn>, F::Fault> {
        let g = self.geometry;
        if let Some((block, offset)) = self.rings[die.index()].filling.filter(|&(_, offset)| offset < g.slc_pages()) {
            self.rings[die.index()].filling = Some((block, offset + 1));
            return Ok(Some(g.page(block, offset)));
        }
        let block = self.erased(die, not, cause)?;
        self.rings[die.index()].filling = block.map(|block| (block, 1));
        Ok(block.map(|block| g.page(block, 0)))
    }

    /// A block of the guard, erased for new pages: the next in turn that holds nothing of the newest entry, which stays
    /// until the next one is there. A block that cannot be erased is marked as bad.
    fn erased(&mut self, die: Die, not: &[Block], cause: Cause) -> Result<Option<Block>, F::Fault> {
        loop {
            let ring = &self.rings[die.index()];
            if ring.blocks.len() < 2 {
                return Ok(None);
            }
            let last = ring.newest.last().or(not.last()).copied();
            let turn = ring.blocks.iter().position(|&block| Some(block) == last).map_or(0, |at| at + 1);
            let (behind, first) = ring.blocks.split_at(turn);
            let free = |block: &&Block| !ring.newest.contains(block) && !not.contains(block);
            let Some(&block) = first.iter().chain(behind).find(free) else { return Ok(None) };
            match self.inner.erase(block, cause) {
                Err(fault) if fault.kind() == FaultKind::EraseFailed => {
                    self.leave_out(die, block);
                    let bad = Oob { kind: Kind::Bad, ..PADDING };
                    self.inner.program(self.geometry.page(block, 0), bad, Payload::None, cause)?;
                }
                result => return result.map(|()| Some(block)),
            }
        }
    }
}

/// Pages of an entry of the ring, with where they are.
type Entry = Vec<(Tag, Ppn)>;

/// What a scan of the guard's blocks of a die found.
#[derive(Default)]
struct Found {
    blocks: Vec<Block>,
    /// Pages of the ring.
    ring: Vec<(Tag, Ppn)>,
    copies: Vec<Copy>,
    /// Pages of the others.
    untagged: u32,
}

/// A copy of a block, if its pages are whole.
#[derive(Clone, Copy)]
struct Copy {
    at: Block,
    of: Block,
    /// Of the entry that it was made for.
    number: u32,
    /// Pages before the one that ends it.
    pages: u32,
}

impl<F: Flash> Guard<F> {
    /// Looks what a power cut has taken, and brings it back. Before a scheme is formatted or mounted comes this or
    /// [`Guard::resume`], each time: what the guard knew is forgotten, as after a power cut. `reserved`: whether the
    /// medium remembers that bytes of spare areas were reserved, and the scheme may not say so again.
    ///
    /// # Errors
    /// The medium's. Power may fail at any command.
    pub fn recover(&mut self, reserved: bool) -> Result<(), F::Fault> {
        self.begin(reserved, Self::repair)
    }

    /// The same where power is known not to have failed since the last program: nothing was taken. A page that does not
    /// read was damaged otherwise, and stays what it is; a repair would make it blank or torn, and then nothing says
    /// that something is lost.
    ///
    /// # Errors
    /// The medium's.
    pub fn resume(&mut self, reserved: bool) -> Result<(), F::Fault> {
        self.begin(reserved, |guard, die| guard.read_ring(die).map(drop))
    }

    fn begin(
        &mut self,
        reserved: bool,
        mut work: impl FnMut(&mut Self, Die) -> Result<(), F::Fault>,
    ) -> Result<(), F::Fault> {
        self.staged = None;
        if self.pairs.is_none() {
            return Ok(());
        }
        self.reserved = reserved;
        self.rings = alloc::vec![Ring::default(); self.geometry.die_count() as usize];
        (0..self.geometry.die_count()).map(Die).try_for_each(|die| work(self, die))
    }

    /// Finds out what the ring of a die holds: its newest entry, and the copies of blocks beside it.
    fn read_ring(&mut self, die: Die) -> Result<(Entry, Vec<Copy>), F::Fault> {
        let Found { blocks, mut ring, copies, untagged } = self.scan(die)?;
        let unread = ring.is_empty() && copies.is_empty() && untagged > 0;
        ring.sort_by_key(|(tag, _)| tag.number);
        // The numbers of pages that were cut short are not given again: their spare areas may read.
        let number = ring.last().map_or(0, |(tag, _)| tag.number + 1);
        // A page of the ring that was cut short is the newest, and for nothing.
        while let Some(&(_, at)) = ring.last()
            && !self.reads(at)?
        {
            ring.pop();
        }
        let Some(&(newest, _)) = ring.last() else {
            self.rings[die.index()] = Ring { blocks, number, unread, ..Ring::default() };
            return Ok((Vec::new(), copies));
        };
        // The pages of an entry have consecutive numbers and places.
        let is_of_newest = |(tag, _): &&(Tag, Ppn)| tag.number + newest.place == newest.number + tag.place;
        let entry: Entry = ring.iter().rev().take_while(is_of_newest).copied().collect();
        self.rings[die.index()] = Ring {
            blocks,
            filling: None,
            newest: entry.iter().map(|&(_, at)| self.geometry.block_of(at)).collect(),
            before: Some(Ppn(newest.before)),
            number,
            unread,
        };
        Ok((entry, copies))
    }

    /// Brings back what a power cut has taken on a die.
    fn repair(&mut self, die: Die) -> Result<(), F::Fault> {
        let (entry, copies) = self.read_ring(die)?;
        let Some(&(newest, _)) = entry.first() else { return Ok(()) };
        let before = Ppn(newest.before);
        let block = self.geometry.block_of(before);
        let mut copy = None;
        for found in copies.into_iter().filter(|found| (found.number, found.of) == (newest.number, block)) {
            if self.is_whole(found)? {
                copy = Some(found);
            }
        }
        if copy.is_none() && self.is_taken(&entry, before)? {
            copy = self.copy_out(die, &entry, before, newest.number)?;
        }
        let Some(Copy { at: copy, pages, .. }) = copy else { return Ok(()) };
        self.copy_back(copy, block, pages)?;
        // From here on neither the entry nor the copy counts.
        self.add(die, (before, before, 0), None, &[copy], Cause::Recovery)?;
        self.guarded.repaired += 1;
        self.guarded.given_up += 1;
        Ok(())
    }

    /// Reads the spare areas of the guard's blocks of a die.
    fn scan(&mut self, die: Die) -> Result<Found, F::Fault> {
        let g = self.geometry;
        let first = (die.0 + 1) * (g.blocks_per_die + Self::BLOCKS) - Self::BLOCKS;
        let mut found = Found::default();
        for block in (first..first + Self::BLOCKS).map(Block) {
            let mut is_bad = false;
            for ppn in (0..g.pages_per_block).map(|offset| g.page(block, offset)) {
                let Some(oob) = self.inner.read_oob(ppn, Cause::Recovery)? else { break };
                is_bad |= oob.kind == Kind::Bad;
                if is_bad {
                    break;
                }
                let tag = if oob.kind == Kind::Torn { None } else { Tag::decode(self.inner.spare(ppn)) };
                match tag {
                    None => found.untagged += 1,
                    Some(Tag { before: COPY, .. }) => {}
                    Some(Tag { before: END, of, number, .. }) => {
                        let (of, pages) = (g.block_of(of), g.offset_of(ppn));
                        found.copies.push(Copy { at: block, of, number, pages });
                    }
                    Some(tag) => found.ring.push((tag, ppn)),
                }
            }
            if !is_bad {
                found.blocks.push(block);
            }
        }
        Ok(found)
    }

    /// Whether a page that is not blank reads.
    fn reads(&mut self, ppn: Ppn) -> Result<bool, F::Fault> {
        match self.inner.read(ppn, Cause::Recovery) {
            Ok((oob, _)) => Ok(oob.kind != Kind::Torn),
            Err(fault) if fault.kind() == FaultKind::Uncorrectable => Ok(false),
            Err(fault) => Err(fault),
        }
    }

    /// Whether every page of a copy is what it says, and reads.
    fn is_whole(&mut self, copy: Copy) -> Result<bool, F::Fault> {
        let g = self.geometry;
        for ppn in (0..=copy.pages).map(|offset| g.page(copy.at, offset)) {
            if self.inner.read_oob(ppn, Cause::Recovery)?.is_none() || !self.reads(ppn)? {
                return Ok(false);
            }
            let says = |tag: Tag| tag.number == copy.number && g.block_of(tag.of) == copy.of;
            if !Tag::decode(self.inner.spare(ppn)).is_some_and(says) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether the page that was to be programmed is torn and one that was kept is gone.
    fn is_taken(&mut self, entry: &[(Tag, Ppn)], before: Ppn) -> Result<bool, F::Fault> {
        let first = self.geometry.page(self.geometry.block_of(before), 0);
        let is_bad = self.inner.read_oob(first, Cause::Recovery)?.is_some_and(|oob| oob.kind == Kind::Bad);
        if is_bad || self.inner.read_oob(before, Cause::Recovery)?.is_none() || self.reads(before)? {
            return Ok(false);
        }
        // What has a page behind it in such a block was not the last to be programmed: newer entries are damaged. A
        // repair would take the pages behind it away.
        let behind = self.geometry.offset_of(before) + 1;
        if self.geometry.order == ProgramOrder::Strict && behind < self.geometry.pages_per_block {
            let behind = self.geometry.page(self.geometry.block_of(before), behind);
            if self.inner.read_oob(behind, Cause::Recovery)?.is_some() {
                return Ok(false);
            }
        }
        for of in entry.iter().map(|(tag, _)| tag.of).filter(|&of| of != before) {
            if self.inner.read_oob(of, Cause::Recovery)?.is_some() && !self.reads(of)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Copies a block without its torn page, kept pages in place of those that are gone.
    fn copy_out(&mut self, die: Die, entry: &[(Tag, Ppn)], before: Ppn, number: u32) -> Result<Option<Copy>, F::Fault> {
        let g = self.geometry;
        let block = g.block_of(before);
        let Some(copy) = self.erased(die, &[], Cause::Recovery)? else { return Ok(None) };
        let is_strict = g.order == ProgramOrder::Strict;
        let end = if is_strict { g.offset_of(before) } else { g.pages_per_block };
        let mut pages = 0;
        for of in (0..end).map(|offset| g.page(block, offset)).filter(|&of| of != before) {
            let backup = entry.iter().find(|(tag, _)| tag.of == of);
            let is_blank = self.inner.read_oob(of, Cause::Recovery)?.is_none();
            if is_blank && !is_strict {
                continue;
            }
            let mut kept = if is_blank { None } else { self.hold(of, Cause::Recovery)? };
            if let (None, false, Some(&(tag, backup))) = (&kept, is_blank, backup) {
                kept = self.hold(backup, Cause::Recovery)?;
                if let Some(kept) = &mut kept {
                    kept.oob.mode = tag.mode;
                }
            }
            let tag = Tag { of, before: COPY, number, place: u32::from(kept.is_none()), mode: Mode::Normal };
            self.put(g.page(copy, pages), None, kept.as_ref(), Some(tag), Cause::Recovery)?;
            pages += 1;
        }
        let tag = Tag { of: g.page(block, 0), before: END, number, place: 0, mode: Mode::Normal };
        self.put(g.page(copy, pages), None, None, Some(tag), Cause::Recovery)?;
        Ok(Some(Copy { at: copy, of: block, number, pages }))
    }

    /// Erases a block and programs it from its copy.
    fn copy_back(&mut self, copy: Block, block: Block, pages: u32) -> Result<(), F::Fault> {
        self.inner.erase(block, Cause::Recovery)?;
        let g = self.geometry;
        for from in (0..pages).map(|offset| g.page(copy, offset)) {
            let kept = self.hold(from, Cause::Recovery)?;
            let Some(tag) = Tag::decode(self.inner.spare(from)) else { continue };
            if tag.place > 0 {
                self.inner.program(tag.of, Oob { kind: Kind::Torn, ..PADDING }, Payload::None, Cause::Recovery)?;
            } else {
                self.put(tag.of, None, kept.as_ref(), None, Cause::Recovery)?;
            }
        }
        Ok(())
    }
}

impl<F: Flash> Flash for Guard<F> {
    type User = F::User;
    type Fault = F::Fault;

    #[inline(always)]
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    #[inline]
    fn read(&mut self, ppn: Ppn, cause: Cause) -> Result<(Oob, Payload<'_, F::User>), F::Fault> {
        let ppn = self.page(ppn);
        self.inner.read(ppn, cause)
    }

    #[inline]
    fn read_oob(&mut self, ppn: Ppn, cause: Cause) -> Result<Option<Oob>, F::Fault> {
        let ppn = self.page(ppn);
        self.inner.read_oob(ppn, cause)
    }

    fn program(&mut self, ppn: Ppn, oob: Oob, data: Payload<'_, F::User>, cause: Cause) -> Result<(), F::Fault> {
        let to = self.page(ppn);
        if oob.kind == Kind::Bad {
            return self.inner.program(to, oob, data, cause);
        }
        self.programmed(ppn, cause, |inner| inner.program(to, oob, data, cause))
    }

    fn append(&mut self, ppn: Ppn, at: u32, bytes: &[u8], mark: u16, cause: Cause) -> Result<(), F::Fault> {
        self.reserve();
        let ppn = self.page(ppn);
        self.inner.append(ppn, at, bytes, mark, cause)
    }

    fn copy(
        &mut self,
        from: Ppn,
        to: Ppn,
        cause: Cause,
        edit: impl FnOnce(&mut Oob, &mut [u32]),
    ) -> Result<Oob, F::Fault> {
        let (source, target) = (self.page(from), self.page(to));
        self.programmed(to, cause, |inner| inner.copy(source, target, cause, edit))
    }

    fn copy_run(
        &mut self,
        from: Ppn,
        live: u64,
        to: Ppn,
        program: u64,
        cause: Cause,
        moved: impl FnMut(u32, Ppn),
    ) -> (u32, Result<(), F::Fault>) {
        match self.pairs {
            None => self.inner.copy_run(from, live, to, program, cause, moved),
            Some(_) => copy_each(self, (from, live), (to, program), cause, |_| {}, moved),
        }
    }

    #[inline(always)]
    fn hint(&self, ppn: Ppn, word: usize) {
        self.inner.hint(self.page(ppn), word);
    }

    fn is_slc(&mut self, block: Block) -> bool {
        let block = self.block(block);
        self.inner.is_slc(block)
    }

    /// Blocks of the guard aside: what they hold is needed at the next mount alone, and each is erased when its turn
    /// comes.
    fn tired(&self, from: Block) -> Option<Block> {
        if self.pairs.is_none() {
            return self.inner.tired(from);
        }
        let (kept, all) = (self.geometry.blocks_per_die, self.geometry.blocks_per_die + Self::BLOCKS);
        let mut next = self.block(from);
        loop {
            let tired = self.inner.tired(next)?;
            let (die, place) = (tired.0 / all, tired.0 % all);
            if place < kept {
                return Some(Block(die * kept + place));
            }
            next = Block((die + 1) * all);
        }
    }

    fn mode_of(&mut self, ppn: Ppn) -> Mode {
        let ppn = self.page(ppn);
        self.inner.mode_of(ppn)
    }

    fn erase(&mut self, block: Block, cause: Cause) -> Result<(), F::Fault> {
        self.reserve();
        let block = self.block(block);
        self.inner.erase(block, cause)
    }

    #[inline(always)]
    fn chain(&mut self, next: Chain) -> Chain {
        self.inner.chain(next)
    }

    fn reserve_spare(&mut self, bytes: u32) -> bool {
        let guards = if self.pairs.is_some() { OWN as u32 } else { 0 };
        self.reserved = true;
        self.inner.reserve_spare(guards + bytes)
    }

    fn stage_spare(&mut self, ppn: Ppn, bytes: &[u8]) {
        let to = self.page(ppn);
        match self.pairs {
            None => self.inner.stage_spare(to, bytes),
            Some(_) => self.staged = Some((to, [&[0; OWN], bytes].concat())),
        }
    }

    #[inline]
    fn spare(&self, ppn: Ppn) -> &[u8] {
        let own = self.inner.spare(self.page(ppn));
        if self.pairs.is_some() { own.get(OWN..).unwrap_or_default() } else { own }
    }
}

#[cfg(test)]
mod tests;

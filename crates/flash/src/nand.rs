//! The strict in-memory chip.
//!
//! [`Nand`] breaks where a real chip would break: a program of a page that is not blank, out of order or beyond the NOP
//! limit, of both modes in one block, any command to a bad block, a program into a block whose erase was cut short, a
//! read of a blank page. Each is a bug of the scheme and panics. It never fails by itself ([`Failing`](crate::Failing)
//! does that) and knows no time ([`Timeline`](crate::Timeline)).
//!
//! What is kept of each page is chosen by two type parameters, so that what is not kept costs nothing:
//!
//! | parameter | choices | bytes per page |
//! |---|---|---|
//! | [`Store`], host data | [`NoData`], [`Tags`], [`BytesStore`] | 0, 8, page size |
//! | [`Record`], version and program number | [`Brief`], [`Full`] | 0, 16 |
//!
//! Kind, mode and address take 4 bytes always: four bits of kind and mode, and the address; all ones is a blank page.
//! Host pages have modes, metadata pages none but SLC mode, which is a flag of the block. Metadata pages are stored
//! whole by every choice, and so are the bytes that a scheme keeps in spare areas. A measuring chip ([`Brief`]) moves a
//! metadata page's buffer on [`Flash::copy`] instead of copying it, which is ten times faster and safe because a scheme
//! may not read the source again (it panics). A recoverable chip ([`Full`]) keeps the source until its block is erased,
//! as flash does.

use crate::broken::{Command, Rule, refuse};
use crate::medium::copy_each;
use crate::{Block, Cause, Flash, Geometry, Kind, Mode, Oob, Payload, Ppn, ProgramOrder, Rng, prefetch};
use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;
use core::convert::Infallible;
use core::fmt;
use core::ops::Range;
use metadata::MetaPages;
use own::OwnBytes;

mod metadata;
mod own;
mod rules;

/// What a chip, or a write buffer, keeps of host data.
pub trait Store: Clone {
    /// The form in which schemes hand it over.
    type User: HostData + ?Sized;
    /// Space for `pages` pages of `page_bytes` bytes.
    fn new(pages: usize, page_bytes: usize) -> Self;
    /// Keeps the data of a page.
    fn put(&mut self, page: usize, data: &Self::User);
    /// The data of a page.
    fn get(&self, page: usize) -> &Self::User;
    /// Copies a page.
    fn copy(&mut self, from: usize, to: usize);
    /// Appends the data of a page to `out`, in no more bytes than the page has.
    fn save(&self, page: usize, out: &mut Vec<u8>);
    /// Reads back what [`Store::save`] wrote; the rest of the bytes.
    fn load<'a>(&mut self, page: usize, from: &'a [u8]) -> &'a [u8];
}

/// What a host page carries: nothing, a tag, or bytes.
pub trait HostData: 'static {
    /// What keeps pages of it.
    type Store: Store<User = Self> + fmt::Debug + Send + 'static;
}

impl HostData for () {
    type Store = NoData;
}

impl HostData for u64 {
    type Store = Tags;
}

impl HostData for [u8] {
    type Store = BytesStore;
}

/// No host data: for measuring.
#[derive(Clone, Debug)]
pub struct NoData;

impl Store for NoData {
    type User = ();
    fn new(_: usize, _: usize) -> Self {
        NoData
    }
    #[inline(always)]
    fn put(&mut self, _: usize, _: &()) {}
    #[inline(always)]
    fn get(&self, _: usize) -> &() {
        &()
    }
    #[inline(always)]
    fn copy(&mut self, _: usize, _: usize) {}
    fn save(&self, _: usize, _: &mut Vec<u8>) {}
    fn load<'a>(&mut self, _: usize, from: &'a [u8]) -> &'a [u8] {
        from
    }
}

/// A 64-bit tag for each page: for checking.
#[derive(Clone, Debug)]
pub struct Tags(Vec<u64>);

impl Store for Tags {
    type User = u64;
    fn new(pages: usize, _: usize) -> Self {
        Tags(vec![0; pages])
    }
    #[inline(always)]
    fn put(&mut self, page: usize, data: &u64) {
        self.0[page] = *data;
    }
    #[inline(always)]
    fn get(&self, page: usize) -> &u64 {
        &self.0[page]
    }
    #[inline(always)]
    fn copy(&mut self, from: usize, to: usize) {
        self.0[to] = self.0[from];
    }
    fn save(&self, page: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0[page].to_le_bytes());
    }
    fn load<'a>(&mut self, page: usize, from: &'a [u8]) -> &'a [u8] {
        let (tag, rest) = from.split_first_chunk().expect("saved data ends too early");
        self.0[page] = u64::from_le_bytes(*tag);
        rest
    }
}

/// Whole pages of bytes.
#[derive(Clone, Debug)]
pub struct BytesStore {
    bytes: Vec<u8>,
    page_bytes: usize,
}

impl Store for BytesStore {
    type User = [u8];
    fn new(pages: usize, page_bytes: usize) -> Self {
        BytesStore { bytes: vec![0xff; pages * page_bytes], page_bytes }
    }
    fn put(&mut self, page: usize, data: &[u8]) {
        assert_eq!(data.len(), self.page_bytes, "a host page is programmed whole");
        self.bytes[page * self.page_bytes..][..self.page_bytes].copy_from_slice(data);
    }
    fn get(&self, page: usize) -> &[u8] {
        &self.bytes[page * self.page_bytes..][..self.page_bytes]
    }
    fn copy(&mut self, from: usize, to: usize) {
        let start = from * self.page_bytes;
        self.bytes.copy_within(start..start + self.page_bytes, to * self.page_bytes);
    }
    fn save(&self, page: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(self.get(page));
    }
    fn load<'a>(&mut self, page: usize, from: &'a [u8]) -> &'a [u8] {
        let (data, rest) = from.split_at(self.page_bytes);
        self.put(page, data);
        rest
    }
}

/// Whether a chip keeps version and program numbers.
pub trait Record: Clone {
    /// Sources of copies stay readable, and torn pages can exist: what mounting after a power cut needs.
    const RECOVERABLE: bool;
    /// Space for `pages` pages.
    fn new(pages: usize) -> Self;
    /// Keeps a page's version and program number.
    fn put(&mut self, page: usize, version: u64, program: u64);
    /// They again; zeros if not kept.
    fn get(&self, page: usize) -> (u64, u64);
}

/// Neither is kept: for measuring. Such a chip cannot be mounted.
#[derive(Clone, Debug)]
pub struct Brief;

impl Record for Brief {
    const RECOVERABLE: bool = false;
    fn new(_: usize) -> Self {
        Brief
    }
    #[inline(always)]
    fn put(&mut self, _: usize, _: u64, _: u64) {}
    #[inline(always)]
    fn get(&self, _: usize) -> (u64, u64) {
        (0, 0)
    }
}

/// Both are kept, 16 bytes a page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Full(Vec<[u64; 2]>);

impl Record for Full {
    const RECOVERABLE: bool = true;
    fn new(pages: usize) -> Self {
        Full(vec![[0; 2]; pages])
    }
    #[inline(always)]
    fn put(&mut self, page: usize, version: u64, program: u64) {
        self.0[page] = [version, program];
    }
    #[inline(always)]
    fn get(&self, page: usize) -> (u64, u64) {
        let [version, program] = self.0[page];
        (version, program)
    }
}

/// How a program that was cut short may leave its page (docs/fault-model.md).
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord, Hash)]
pub enum ProgramFace {
    /// Nothing happened.
    Blank,
    /// Spare area and data are garbage.
    Garbage,
    /// The spare area reads well, the data does not.
    BadData,
    /// The page is whole, though nobody was told.
    Good,
}

/// How a partial program that was cut short may leave what it was to add, beside not at all and whole. Bits only go
/// from 1 to 0: garbage lies between blank and what was meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord, Hash)]
pub enum AppendFace {
    /// All of it is garbage.
    Garbage,
    /// A part is right, garbage follows, and perhaps nothing in the end; or all is right but one to four bits that are
    /// still blank. The mark is the new one, the old one or garbage.
    Partly,
}

/// How an erase that was cut short may leave its block.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord, Hash)]
pub enum EraseFace {
    /// The old content reads as before.
    Intact,
    /// Each page is old, garbage or blank.
    Mixed,
    /// Every page is garbage.
    Garbage,
    /// Every page reads as blank, but programming one would not hold.
    LooksBlank,
}

impl ProgramFace {
    /// All four.
    pub const ALL: [ProgramFace; 4] =
        [ProgramFace::Blank, ProgramFace::Garbage, ProgramFace::BadData, ProgramFace::Good];
}

impl AppendFace {
    /// Both.
    pub const ALL: [AppendFace; 2] = [AppendFace::Garbage, AppendFace::Partly];

    /// What is left of a partial program of `bytes` with `mark` in a page whose mark was `old`: its bytes and the mark
    /// that reads from then on. `None` if it left no trace.
    pub fn leave(self, bytes: &[u8], mark: u16, old: u16, rng: &mut Rng) -> Option<(Vec<u8>, u16)> {
        let length = bytes.len() as u64;
        let (right, touched) = match self {
            AppendFace::Garbage => (0, length),
            AppendFace::Partly => {
                let right = rng.below(length + 1);
                (right, right + rng.below(length - right + 1))
            }
        };
        let left = (0..length).zip(bytes).map(|(at, &byte)| match at {
            at if at < right => byte,
            at if at < touched => byte | rng.bits() as u8,
            _ => u8::MAX,
        });
        let mut left: Vec<u8> = left.collect();
        if self == AppendFace::Partly && length > 0 && rng.below(4) == 0 {
            left.copy_from_slice(bytes);
            for _ in 0..1 + rng.below(4) {
                left[rng.below(length) as usize] |= 1 << rng.below(8);
            }
        }
        let seen = match (self, rng.below(3)) {
            _ if mark == old => old,
            (AppendFace::Partly, 0) => mark,
            (AppendFace::Partly, 1) => BLANK_MARK,
            _ => mark | rng.bits() as u16,
        };
        let seen = if seen == BLANK_MARK { old } else { seen };
        (seen != old || left.iter().any(|&byte| byte != u8::MAX)).then_some((left, seen))
    }
}

impl EraseFace {
    /// All four.
    pub const ALL: [EraseFace; 4] = [EraseFace::Intact, EraseFace::Mixed, EraseFace::Garbage, EraseFace::LooksBlank];
}

/// A medium into whose chip misbehaviour decorators can reach. Schemes cannot: it is no part of [`Flash`].
pub trait Fragile: Flash {
    /// The chip, under all decorators.
    fn chip(&mut self) -> &mut dyn Damage;
}

/// What no command does to a chip.
pub trait Damage {
    /// Consumes a blank page as torn, spare area included.
    fn ruin(&mut self, ppn: Ppn);
    /// Makes a programmed page's data unreadable; its spare area stays sound.
    fn spoil(&mut self, ppn: Ppn);
    /// Makes a programmed page garbage, spare area included.
    fn wreck(&mut self, ppn: Ppn);
    /// A partial program that is cut short.
    fn tear_append(&mut self, ppn: Ppn, at: u32, bytes: &[u8], mark: u16, face: AppendFace, rng: &mut Rng);
    /// Leaves a block as an erase that was cut short does.
    fn half_erase(&mut self, block: Block, face: EraseFace, rng: &mut Rng);
    /// Marks a block as bad, as a factory does.
    fn mark_bad(&mut self, block: Block);
}

const BLANK: u32 = u32::MAX;
/// Two bytes of a spare area into which no partial program has put its mark.
const BLANK_MARK: u16 = u16::MAX;
const ADDRESS_BITS: u32 = 28;
const ADDRESS_MASK: u32 = (1 << ADDRESS_BITS) - 1;

/// Data and log pages leave two bits for the mode; the other kinds follow.
#[inline(always)]
fn pack(oob: &Oob) -> u32 {
    debug_assert!(oob.address < ADDRESS_MASK, "address {} does not fit the spare area", oob.address);
    let tag = match oob.kind {
        Kind::Data => mode_bits(oob.mode),
        Kind::Log => LOG >> ADDRESS_BITS | mode_bits(oob.mode),
        kind => kind_bits(kind),
    };
    tag << ADDRESS_BITS | oob.address
}

/// SLC mode is known from the block.
#[inline(always)]
const fn mode_bits(mode: Mode) -> u32 {
    match mode {
        Mode::Normal | Mode::Slc => 0,
        Mode::LowCost => 1,
        Mode::Medium => 2,
    }
}

/// Of kinds from [`Kind::Translation`] on.
const fn kind_bits(kind: Kind) -> u32 {
    kind as u32 + 6
}

#[inline(always)]
fn mode_in(word: u32) -> Mode {
    match word >> ADDRESS_BITS {
        1 | 5 => Mode::LowCost,
        2 | 6 => Mode::Medium,
        _ => Mode::Normal,
    }
}

#[inline(always)]
fn unpack(word: u32) -> Oob {
    // A match, not a table: the compiler sees that this undoes `pack`, and a copy becomes a move of the word.
    let kind = match word >> ADDRESS_BITS {
        0..4 => Kind::Data,
        4..8 => Kind::Log,
        8 => Kind::Translation,
        9 => Kind::Dummy,
        10 => Kind::Checkpoint,
        11 => Kind::Trim,
        12 => Kind::Bad,
        _ => Kind::Torn,
    };
    Oob { kind, mode: mode_in(word), address: word & ADDRESS_MASK, version: 0, program: 0, mark: 0 }
}

/// A torn page's spare word: kind torn, address 0. Differs from [`BLANK`], and only that is above it.
const TORN: u32 = kind_bits(Kind::Torn) << ADDRESS_BITS;

const BAD_BLOCK: u8 = 1;
const UNSAFE_BLOCK: u8 = 2;
const SLC_BLOCK: u8 = 4;

/// In place of the next page of a block that may not be programmed: no page has this number.
const CLOSED: u16 = u16::MAX;

/// Packed words in a line of the processor's cache.
const SPARES_PER_LINE: usize = 16;

/// Packed words below this are data pages, and the bit that makes a log page of one.
const LOG: u32 = 4 << ADDRESS_BITS;
/// Packed words below this are host pages: kinds data and log.
const METADATA: u32 = kind_bits(Kind::Translation) << ADDRESS_BITS;

/// Whether an order allows a program at `offset` of a block whose next page in turn is another, [`CLOSED`] perhaps.
#[inline(always)]
fn may_skip(order: ProgramOrder, next: u16, offset: u32) -> bool {
    match order {
        ProgramOrder::Strict => false,
        ProgramOrder::Ascending => offset > u32::from(next),
        ProgramOrder::Any => next != CLOSED,
    }
}

/// The strict chip. See the module's description for the choice of `S` and `R`.
#[derive(Clone, Debug)]
pub struct Nand<S: Store = NoData, R: Record = Brief> {
    geometry: Geometry,
    /// Kind, mode and address of each page, packed.
    spare: Vec<u32>,
    record: R,
    data: S,
    meta: MetaPages,
    own: OwnBytes,
    /// One above the highest programmed page of each block; [`CLOSED`] in a block with flags.
    next: Vec<u16>,
    flags: Vec<u8>,
    /// The same of each block in SLC mode; empty until there is one.
    slc_next: Vec<u16>,
    /// Pages whose spare area is sound and whose data is not.
    spoiled: BTreeSet<u32>,
}

impl<S: Store, R: Record> Nand<S, R> {
    /// A chip fresh from the factory: all blank, no bad block.
    pub fn new(geometry: Geometry) -> Self {
        let pages = geometry.page_count() as usize;
        let blocks = geometry.block_count() as usize;
        Nand {
            geometry,
            spare: vec![BLANK; pages],
            record: R::new(pages),
            data: S::new(pages, geometry.page_bytes as usize),
            meta: MetaPages::new(&geometry),
            own: OwnBytes::NONE,
            next: vec![0; blocks],
            flags: vec![0; blocks],
            slc_next: Vec::new(),
            spoiled: BTreeSet::new(),
        }
    }

    /// Whether every command would do the same on both: pages, blocks, and what no command shows yet.
    pub fn is_as(&self, other: &Self) -> bool
    where
        S: PartialEq,
        R: PartialEq,
    {
        let Nand { geometry, spare, record, data, meta, own, next, flags, slc_next, spoiled } = self;
        *spare == other.spare
            && *record == other.record
            && *data == other.data
            && *meta == other.meta
            && own.is_as(&other.own)
            && (next, flags, slc_next) == (&other.next, &other.flags, &other.slc_next)
            && *spoiled == other.spoiled
            && *geometry == other.geometry
    }

    /// Bytes that the scheme keeps of its own in each spare area.
    pub fn reserved_spare(&self) -> u32 {
        self.own.reserved() as u32
    }

    /// Memory that the simulator holds for this chip, in bytes: (spare areas and block states, stored metadata).
    pub fn simulator_bytes(&self) -> (u64, u64) {
        let record = if R::RECOVERABLE { 16 } else { 0 } + size_of_val(self.data.get(0));
        let blocks = self.next.len() * 3 + self.slc_next.len() * 2;
        ((self.spare.len() * (4 + record) + self.own.memory() + blocks) as u64, self.meta.bytes())
    }

    /// Flips one bit of a stored metadata page: what a test of honesty does. `None` if the page holds no metadata.
    pub fn flip_metadata_bit(&mut self, ppn: Ppn, word: usize, bit: u32) -> Option<()> {
        let slot = self.meta.find(ppn)?;
        self.meta.words_mut(slot)[word] ^= 1 << bit;
        Some(())
    }

    /// Flips one bit of what a scheme keeps in the spare area of a page.
    ///
    /// # Panics
    /// If the scheme keeps no such bit.
    pub fn flip_spare_bit(&mut self, ppn: Ppn, bit: usize) {
        self.own.flip(ppn.index(), bit);
    }

    #[inline(always)]
    fn take_page(&mut self, ppn: Ppn, mode: Mode) -> usize {
        if mode == Mode::Slc {
            self.take_slc(ppn);
            return ppn.index();
        }
        let g = &self.geometry;
        let page = ppn.index();
        let next = &mut self.next[g.block_of(ppn).index()];
        if u32::from(*next) == g.offset_of(ppn) && self.spare[page] == BLANK {
            *next += 1;
        } else if may_skip(g.order, *next, g.offset_of(ppn)) && self.spare[page] == BLANK {
            *next = (*next).max(g.offset_of(ppn) as u16 + 1);
        } else {
            self.refuse_program(ppn, Mode::Normal);
        }
        page
    }

    /// A program in SLC mode. The block's next page is told apart from that of other blocks, where no program of
    /// another mode finds it.
    #[inline(never)]
    fn take_slc(&mut self, ppn: Ppn) {
        let g = &self.geometry;
        let (block, offset) = (g.block_of(ppn).index(), g.offset_of(ppn));
        if g.bits_per_cell <= 1 {
            self.refuse_program(ppn, Mode::Slc);
        }
        if self.slc_next.is_empty() {
            self.slc_next = vec![0; self.flags.len()];
        }
        if self.flags[block] == 0 && self.next[block] == 0 {
            (self.flags[block], self.next[block], self.slc_next[block]) = (SLC_BLOCK, CLOSED, 0);
        }
        let next = u32::from(self.slc_next[block]);
        let in_order = match g.order {
            ProgramOrder::Strict => offset == next,
            ProgramOrder::Ascending => offset >= next,
            ProgramOrder::Any => true,
        };
        let fits = in_order && offset < g.slc_pages();
        if !fits || self.spare[ppn.index()] != BLANK || self.flags[block] != SLC_BLOCK {
            self.refuse_program(ppn, Mode::Slc);
        }
        self.slc_next[block] = next.max(offset + 1) as u16;
    }

    #[inline(always)]
    fn is_slc_block(&self, block: Block) -> bool {
        !self.slc_next.is_empty() && self.flags[block.index()] & SLC_BLOCK != 0
    }

    /// Copies the host pages of a run to `targets`, for each of which `rest` has a bit; without `LOGS` up to the first
    /// log page, so that runs of data pages need not look at kinds. The bits left.
    #[inline(always)]
    fn copy_words<const LOGS: bool>(
        &mut self,
        from: Ppn,
        mut rest: u64,
        targets: Range<usize>,
        program: u64,
        moved: &mut impl FnMut(u32, Ppn),
    ) -> u64 {
        for (page, program) in targets.zip(program..) {
            let source = from.index() + rest.trailing_zeros() as usize;
            let word = self.spare[source];
            if !LOGS && word >= LOG {
                return rest;
            }
            if word >= METADATA || self.spoiled(source) || self.spare[page] != BLANK {
                self.refuse_copy(Ppn(source as u32), Ppn(page as u32));
            }
            rest &= rest - 1;
            self.spare[page] = if LOGS { word & !LOG } else { word };
            self.data.copy(source, page);
            self.record.put(page, self.record.get(source).0, program);
            moved(word & ADDRESS_MASK, Ppn(page as u32));
        }
        rest
    }

    #[inline(always)]
    fn oob_at(&self, page: usize) -> Oob {
        let mut oob = unpack(self.spare[page]);
        (oob.version, oob.program) = self.record.get(page);
        if self.is_slc_block(self.geometry.block_of(Ppn(page as u32))) {
            oob.mode = Mode::Slc;
        }
        oob
    }

    #[inline(always)]
    fn spoiled(&self, page: usize) -> bool {
        R::RECOVERABLE && !self.spoiled.is_empty() && self.spoiled.contains(&(page as u32))
    }

    /// Bytes of a metadata page up to its last that is not blank, and programs since the erase.
    pub fn metadata_state(&self, ppn: Ppn) -> Option<(u32, u32)> {
        self.meta.find(ppn).map(|slot| self.meta.state(slot))
    }

    /// A copy of whatever is no host page.
    fn copy_metadata(&mut self, from: Ppn, to: Ppn, edit: impl FnOnce(&mut Oob, &mut [u32])) -> Oob {
        let source = from.index();
        self.check_source(from).unwrap_or_else(|broken| refuse(broken));
        let mut oob = self.oob_at(source);
        let slot = self.meta.copy(from, to, !R::RECOVERABLE);
        edit(&mut oob, self.meta.words_mut(slot));
        self.meta.note_blank(slot);
        let page = self.take_page(to, oob.mode);
        self.meta.set_mark(slot, oob.mark);
        self.spare[page] = pack(&oob);
        self.record.put(page, oob.version, oob.program);
        oob
    }

    fn append_bytes(&mut self, ppn: Ppn, at: u32, bytes: &[u8], mark: u16) {
        let slot = self.appendable(ppn, at as usize, bytes.len(), mark);
        let slot = slot.unwrap_or_else(|rule| refuse(rule.broken_by(Command::Append, ppn)));
        self.meta.append(slot, at as usize, bytes);
        self.meta.set_mark(slot, mark);
    }
}

impl<S: Store, R: Record> Flash for Nand<S, R> {
    type User = S::User;
    type Fault = Infallible;

    #[inline(always)]
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    #[inline]
    fn read(&mut self, ppn: Ppn, _: Cause) -> Result<(Oob, Payload<'_, S::User>), Infallible> {
        let page = ppn.index();
        if self.spare[page] == BLANK {
            refuse(Rule::Blank.broken_by(Command::Read, ppn));
        }
        self.own.read = page;
        let mut oob = self.oob_at(page);
        if self.spoiled(page) {
            oob.kind = Kind::Torn;
        }
        let payload = match oob.kind {
            Kind::Data | Kind::Log => Payload::User(self.data.get(page)),
            Kind::Translation | Kind::Checkpoint | Kind::Trim => {
                let slot = self.meta.find(ppn);
                let slot = slot.unwrap_or_else(|| refuse(Rule::Moved.broken_by(Command::Read, ppn)));
                oob.mark = self.meta.mark(slot);
                Payload::Meta(self.meta.words(slot))
            }
            Kind::Dummy | Kind::Bad | Kind::Torn => Payload::None,
        };
        Ok((oob, payload))
    }

    #[inline]
    fn read_oob(&mut self, ppn: Ppn, _: Cause) -> Result<Option<Oob>, Infallible> {
        let page = ppn.index();
        self.own.read = page;
        let mut oob = self.oob_at(page);
        if self.spare[page] >= METADATA && matches!(oob.kind, Kind::Translation | Kind::Checkpoint | Kind::Trim) {
            oob.mark = self.meta.find(ppn).map_or(0, |slot| self.meta.mark(slot));
        }
        Ok((self.spare[page] != BLANK).then_some(oob))
    }

    #[inline(always)]
    fn program(&mut self, ppn: Ppn, oob: Oob, data: Payload<'_, S::User>, _: Cause) -> Result<(), Infallible> {
        if oob.kind == Kind::Bad {
            self.mark_bad(self.geometry.block_of(ppn));
            return Ok(());
        }
        let page = self.take_page(ppn, oob.mode);
        self.spare[page] = pack(&oob);
        self.record.put(page, oob.version, oob.program);
        match data {
            Payload::User(user) => {
                debug_assert!(matches!(oob.kind, Kind::Data | Kind::Log) && oob.mark == 0);
                self.data.put(page, user);
            }
            Payload::Meta(words) => self.meta.put(ppn, words, oob.mark),
            Payload::None if matches!(oob.kind, Kind::Dummy | Kind::Torn) => {}
            Payload::None => refuse(Rule::NoContent(oob.kind).broken_by(Command::Program, ppn)),
        }
        Ok(())
    }

    fn append(&mut self, ppn: Ppn, at: u32, bytes: &[u8], mark: u16, _: Cause) -> Result<(), Infallible> {
        self.append_bytes(ppn, at, bytes, mark);
        Ok(())
    }

    #[inline]
    fn copy(
        &mut self,
        from: Ppn,
        to: Ppn,
        _: Cause,
        edit: impl FnOnce(&mut Oob, &mut [u32]),
    ) -> Result<Oob, Infallible> {
        let source = from.index();
        if self.spare[source] >= METADATA || self.spoiled(source) {
            return Ok(self.copy_metadata(from, to, edit));
        }
        let mut oob = self.oob_at(source);
        edit(&mut oob, &mut []);
        let page = self.take_page(to, oob.mode);
        self.data.copy(source, page);
        self.spare[page] = pack(&oob);
        self.record.put(page, oob.version, oob.program);
        Ok(oob)
    }

    #[inline]
    fn copy_run(
        &mut self,
        from: Ppn,
        live: u64,
        to: Ppn,
        program: u64,
        cause: Cause,
        mut moved: impl FnMut(u32, Ppn),
    ) -> (u32, Result<(), Infallible>) {
        let g = &self.geometry;
        let (block, offset, count) = (g.block_of(to), g.offset_of(to), live.count_ones());
        let next = self.next[block.index()];
        let in_order = u32::from(next) == offset || count > 0 && may_skip(g.order, next, offset);
        if !in_order || offset + count > g.pages_per_block || self.is_slc_block(g.block_of(from)) {
            // Out of order, or of two modes: each page is refused, or taken, for itself.
            return copy_each(self, (from, live), (to, program), cause, |_| {}, moved);
        }
        self.next[block.index()] = next.max((offset + count) as u16);
        let targets = to.index()..to.index() + count as usize;
        let rest = self.copy_words::<false>(from, live, targets.clone(), program, &mut moved);
        if rest != 0 {
            let copied = count - rest.count_ones();
            let targets = targets.start + copied as usize..targets.end;
            self.copy_words::<true>(from, rest, targets, program + u64::from(copied), &mut moved);
        }
        // Runs of one block come one after another with other work between them.
        let behind = from.index() + u64::BITS as usize - live.leading_zeros() as usize;
        for line in 0..2 {
            prefetch(&self.spare, behind + line * SPARES_PER_LINE);
        }
        (count, Ok(()))
    }

    #[inline(always)]
    fn hint(&self, ppn: Ppn, word: usize) {
        prefetch(&self.spare, ppn.index());
        if let Some(slot) = self.meta.find(ppn) {
            prefetch(self.meta.words(slot), word);
        }
    }

    #[inline(always)]
    fn is_slc(&mut self, block: Block) -> bool {
        self.is_slc_block(block)
    }

    #[inline(always)]
    fn mode_of(&mut self, ppn: Ppn) -> Mode {
        if self.is_slc_block(self.geometry.block_of(ppn)) { Mode::Slc } else { mode_in(self.spare[ppn.index()]) }
    }

    #[inline]
    fn erase(&mut self, block: Block, _: Cause) -> Result<(), Infallible> {
        let b = block.index();
        self.check_erase(block).unwrap_or_else(|broken| refuse(broken));
        let first = self.geometry.page(block, 0).index();
        let pages = first..first + self.geometry.pages_per_block as usize;
        if R::RECOVERABLE && !self.spoiled.is_empty() {
            self.spoiled.retain(|&page| !pages.contains(&(page as usize)));
        }
        self.own.erase(pages.clone());
        self.spare[pages].fill(BLANK);
        self.meta.release(b);
        self.next[b] = 0;
        self.flags[b] = 0;
        Ok(())
    }

    fn reserve_spare(&mut self, bytes: u32) -> bool {
        self.own.reserve(bytes as usize, self.spare.len());
        true
    }

    fn stage_spare(&mut self, ppn: Ppn, bytes: &[u8]) {
        if self.spare[ppn.index()] != BLANK {
            refuse(Rule::NotBlank.broken_by(Command::Spare, ppn));
        }
        self.own.put(ppn.index(), bytes);
    }

    fn spare(&self, ppn: Ppn) -> &[u8] {
        let page = ppn.index();
        if self.own.read != page {
            refuse(Rule::NotRead.broken_by(Command::Spare, ppn));
        }
        if self.spare[page] >= TORN { &[] } else { self.own.get(page) }
    }
}

impl<S: Store, R: Record> Fragile for Nand<S, R> {
    fn chip(&mut self) -> &mut dyn Damage {
        self
    }
}

impl<S: Store, R: Record> Damage for Nand<S, R> {
    fn ruin(&mut self, ppn: Ppn) {
        // Of a blank block it is not known which mode was meant; no page follows one that was ruined there.
        let mode = if self.is_slc_block(self.geometry.block_of(ppn)) { Mode::Slc } else { Mode::Normal };
        let page = self.take_page(ppn, mode);
        self.spare[page] = TORN;
        self.own.put(page, &[]);
        self.record.put(page, 0, 0);
    }

    fn spoil(&mut self, ppn: Ppn) {
        assert!(R::RECOVERABLE, "a measuring chip has no torn pages");
        self.spoiled.insert(ppn.0);
    }

    fn wreck(&mut self, ppn: Ppn) {
        self.spare[ppn.index()] = TORN;
    }

    fn tear_append(&mut self, ppn: Ppn, at: u32, bytes: &[u8], mark: u16, face: AppendFace, rng: &mut Rng) {
        let slot = self.appendable(ppn, at as usize, bytes.len(), mark);
        let old = self.meta.mark(slot.unwrap_or_else(|rule| refuse(rule.broken_by(Command::Append, ppn))));
        if let Some((left, mark)) = face.leave(bytes, mark, old, rng) {
            self.append_bytes(ppn, at, &left, mark);
        }
    }

    fn half_erase(&mut self, block: Block, face: EraseFace, rng: &mut Rng) {
        let first = self.geometry.page(block, 0).index();
        let pages = first..first + self.geometry.pages_per_block as usize;
        match face {
            EraseFace::Intact => {}
            EraseFace::Mixed => {
                for page in pages {
                    match rng.below(3) {
                        0 => {}
                        1 => self.spare[page] = TORN,
                        _ => self.spare[page] = BLANK,
                    }
                }
            }
            EraseFace::Garbage => self.spare[pages].fill(TORN),
            EraseFace::LooksBlank => self.spare[pages].fill(BLANK),
        }
        self.flags[block.index()] |= UNSAFE_BLOCK;
        self.next[block.index()] = CLOSED;
    }

    fn mark_bad(&mut self, block: Block) {
        let page = self.geometry.page(block, 0).index();
        self.flags[block.index()] = self.flags[block.index()] & !SLC_BLOCK | BAD_BLOCK;
        self.next[block.index()] = CLOSED;
        self.spare[page] = kind_bits(Kind::Bad) << ADDRESS_BITS;
        self.record.put(page, 0, 0);
    }
}

#[cfg(test)]
mod tests;

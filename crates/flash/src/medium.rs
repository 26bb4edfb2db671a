//! The waist: what every scheme may ask of a flash medium, and nothing else.
//!
//! Function first, time second. When a call returns, its effect is there; a medium that also keeps time
//! ([`Timeline`](crate::Timeline)) places the command on its channel and die behind the scheme's back. Schemes write
//! straight-line code.

use crate::broken::{Command, Rule, refuse};
use crate::{Block, Cause, Geometry, HostData, Lpn, Ppn, Tvpn};
use core::convert::Infallible;
use core::fmt::{self, Debug};
use core::ops::{Deref, DerefMut};

/// What a programmed page says it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum Kind {
    /// A host page in its data block (or anywhere, for page mapping).
    Data = 0,
    /// A host page in a log block.
    Log = 1,
    /// A translation page; `Oob::address` is its TVPN.
    Translation = 2,
    /// Padding: dead from birth.
    Dummy = 3,
    /// A checkpoint of the scheme's state.
    Checkpoint = 4,
    /// Tombstones: records of trimmed ranges.
    Trim = 5,
    /// Bad-block mark; stands on page 0 of its block.
    Bad = 6,
    /// The page was programmed or erased incompletely, or its data cannot be corrected.
    Torn = 7,
}

impl Kind {
    /// Whether it is a page of the host's, and not of the scheme's own.
    #[inline(always)]
    pub const fn is_host(self) -> bool {
        matches!(self, Kind::Data | Kind::Log)
    }

    /// The word used in transcripts.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Data => "data",
            Kind::Log => "log",
            Kind::Translation => "translation",
            Kind::Dummy => "dummy",
            Kind::Checkpoint => "checkpoint",
            Kind::Trim => "trim",
            Kind::Bad => "bad",
            Kind::Torn => "torn",
        }
    }
}

/// How a page is programmed (differentiated error correction, the differentiated-ECC paper; tables in SLC mode, the
/// LSFTL paper). The effort is a matter of each host page by itself, and so is the code that it is then protected and
/// read with; metadata pages are programmed with full effort. What the modes of a device cost is in
/// [`device::Timing`](crate::device::Timing).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub enum Mode {
    /// Full program effort.
    #[default]
    Normal,
    /// Fewer, larger program steps: faster, with more raw bit errors.
    LowCost,
    /// One bit in cells that can hold more. A matter of the whole block, for which its first program since the erase
    /// decides: it has [`Geometry::slc_pages`] pages, its own times and its own NOP.
    Slc,
    /// Between the two efforts.
    Medium,
}

impl Mode {
    /// Every mode, in the order of the discriminants.
    pub const ALL: [Mode; 4] = [Mode::Normal, Mode::LowCost, Mode::Slc, Mode::Medium];

    /// The word used in reports and transcripts.
    pub const fn name(self) -> &'static str {
        match self {
            Mode::Normal => "normal",
            Mode::LowCost => "low-cost",
            Mode::Slc => "slc",
            Mode::Medium => "medium",
        }
    }
}

/// The record in a page's spare area.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Oob {
    /// What the page holds.
    pub kind: Kind,
    /// How it was programmed.
    pub mode: Mode,
    /// LPN of a data or log page, TVPN of a translation page. Below 2^28.
    pub address: u32,
    /// Given to a host write once and kept by every later copy: the newest version of an LPN wins. On a translation
    /// page it is the watermark: every data page of its TVPN programmed before it is reflected in the page.
    pub version: u64,
    /// Counts programs over the device's life; orders blocks by age and translation pages by recency.
    pub program: u64,
    /// What the last partial program left in the spare area ([`Flash::append`]); 0 if there was none. Only metadata
    /// pages have it.
    pub mark: u16,
}

impl Oob {
    /// Of a host page.
    #[inline(always)]
    pub const fn data(lpn: Lpn, version: u64, program: u64) -> Oob {
        Oob { kind: Kind::Data, mode: Mode::Normal, address: lpn.0, version, program, mark: 0 }
    }

    /// Of a translation page with watermark `watermark`.
    #[inline(always)]
    pub const fn translation(tvpn: Tvpn, watermark: u64, program: u64) -> Oob {
        let (kind, mode) = (Kind::Translation, Mode::Normal);
        Oob { kind, mode, address: tvpn.0, version: watermark, program, mark: 0 }
    }

    /// The address as LPN.
    #[inline(always)]
    pub const fn lpn(&self) -> Lpn {
        Lpn(self.address)
    }

    /// The address as TVPN.
    #[inline(always)]
    pub const fn tvpn(&self) -> Tvpn {
        Tvpn(self.address)
    }
}

/// What a page carries.
#[derive(Debug)]
pub enum Payload<'a, U: ?Sized> {
    /// Host data, in the form the medium keeps: nothing, a 64-bit tag, or bytes.
    User(&'a U),
    /// Metadata words, really stored and really read back by every medium. At most a page of them; what is missing
    /// reads as `u32::MAX`, as blank flash does.
    Meta(&'a [u32]),
    /// Nothing readable: a torn page, padding, or a bad-block mark.
    None,
}

impl<'a, U: ?Sized> Payload<'a, U> {
    /// The metadata words; `None` if the page holds none.
    #[inline(always)]
    pub fn words(self) -> Option<&'a [u32]> {
        match self {
            Payload::Meta(words) => Some(words),
            _ => None,
        }
    }

    /// The host data; `None` if the page holds none.
    #[inline(always)]
    pub fn host(self) -> Option<&'a U> {
        match self {
            Payload::User(data) => Some(data),
            _ => None,
        }
    }

    /// The metadata words.
    ///
    /// # Panics
    /// If the page holds no metadata: the scheme confused two kinds of page, a bug.
    #[inline(always)]
    #[track_caller]
    pub fn meta(self) -> &'a [u32] {
        match self {
            Payload::Meta(words) => words,
            _ => panic!("a metadata page was expected"),
        }
    }

    /// The host data.
    ///
    /// # Panics
    /// If the page holds none: a bug of the scheme.
    #[inline(always)]
    #[track_caller]
    pub fn user(self) -> &'a U {
        match self {
            Payload::User(data) => data,
            _ => panic!("a host page was expected"),
        }
    }
}

impl<U: ?Sized> Clone for Payload<'_, U> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<U: ?Sized> Copy for Payload<'_, U> {}

/// What a device may do to a scheme. A broken NAND rule is not among them: that is a bug and panics.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultKind {
    /// The program did not verify. The page is torn and its block must be retired once its live pages are out.
    ProgramFailed,
    /// The erase did not verify. The block must be retired; it holds nothing.
    EraseFailed,
    /// The page cannot be corrected.
    Uncorrectable,
    /// Power is gone: stop, and mount again.
    PowerLost,
    /// The host's file failed; stop, and mount again.
    HostFailed,
}

/// A medium's error type. [`Infallible`] for a medium that never fails, so that failure handling compiles away.
pub trait FlashFault: Debug + Copy {
    /// What happened.
    fn kind(self) -> FaultKind;
}

impl FlashFault for Infallible {
    fn kind(self) -> FaultKind {
        match self {}
    }
}

/// A fault of a medium that can fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault(pub FaultKind);

impl FlashFault for Fault {
    fn kind(self) -> FaultKind {
        self.0
    }
}

impl From<Infallible> for Fault {
    fn from(never: Infallible) -> Fault {
        match never {}
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            FaultKind::ProgramFailed => "a page program failed",
            FaultKind::EraseFailed => "a block erase failed",
            FaultKind::Uncorrectable => "a page could not be corrected",
            FaultKind::PowerLost => "power was lost",
            FaultKind::HostFailed => "the file that holds the flash failed",
        })
    }
}

impl core::error::Error for Fault {}

/// The order among commands that a scheme states and a medium that keeps time obeys. Opaque: see [`Flash::chain`].
///
/// What `from` and `end` hold is the medium's matter: times where commands are placed as they are issued, numbers of
/// nodes in a graph where they queue ([`Scheduler`](crate::Scheduler)).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chain {
    pub(crate) enter: Enter,
    /// Commands run one after another (serial), or independently of one another.
    pub(crate) serial: bool,
    /// What no command of this chain starts before.
    pub(crate) from: u64,
    /// When the latest command so far ends; only of chains whose commands are independent.
    pub(crate) end: u64,
    /// Which run of the medium's clock `from` and `end` belong to. It is 0 where they say nothing.
    pub(crate) epoch: u32,
    /// Whether a page's chain goes through this one: through no collection.
    pub(crate) is_page: bool,
    /// By which commands a page's chain got to `from` and to `end`, where commands are placed as they are issued:
    /// numbers of steps from 1 on. Of other chains the dies of these commands.
    pub(crate) steps: [u32; 2],
}

/// What a call of [`Flash::chain`] asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Enter {
    /// This very chain, which was left before.
    Again,
    /// A chain of its own that starts when the present one has got so far.
    New,
    /// The next slice of this collection: as [`Enter::New`], but its next stage waits for this one too.
    Resumed,
    /// The present chain, from now on waiting for everything in it so far.
    After,
    /// The present chain, from now on waiting for this one too.
    Joined,
    /// The same, for a collection: a page waits for it, and its chain goes not through it.
    Waited,
}

impl Chain {
    /// Commands independent of each other, starting when the present chain has got so far. As the earlier slices of a
    /// collection: there are none.
    pub const COLLECTION: Chain =
        Chain { enter: Enter::New, serial: false, from: 0, end: 0, epoch: 0, is_page: false, steps: [0; 2] };
    /// The next stage of the present chain: everything so far ends before anything that follows starts.
    pub const AFTER: Chain = Chain { enter: Enter::After, ..Chain::COLLECTION };
    /// A page of a [`Batch`]: commands one after another, starting when the present chain has got so far.
    pub(crate) const PAGE: Chain = Chain { serial: true, ..Chain::COLLECTION };
    /// A host page, before its first command.
    pub(crate) const fn of_page(from: u64) -> Chain {
        Chain { enter: Enter::Again, serial: true, from, is_page: true, ..Chain::COLLECTION }
    }

    /// When all commands so far have ended, and by which step.
    pub(crate) fn reached(&self) -> (u64, u32) {
        let last = usize::from(!self.serial && self.end > self.from);
        ([self.from, self.end][last], self.steps[last])
    }

    /// For a chain to wait for this one, which was left.
    pub(crate) fn awaited(self) -> Chain {
        Chain { enter: Enter::Joined, ..self }
    }
}

/// A flash medium: seven calls that a chip must have, and others that have a default which suits a plain chip. The
/// contract of each stands above it.
///
/// | a chip must have | |
/// |---|---|
/// | [`geometry`](Flash::geometry) | its shape |
/// | [`read`](Flash::read), [`read_oob`](Flash::read_oob) | a page, or its spare area alone |
/// | [`program`](Flash::program) | a page |
/// | [`append`](Flash::append) | a part of a metadata page: only schemes that log changes into pages call it |
/// | [`copy`](Flash::copy) | a page to another place, changed on the way |
/// | [`erase`](Flash::erase) | a block |
///
/// | who overrides it | |
/// |---|---|
/// | a chip that is faster at many copies than at single ones | [`copy_run`](Flash::copy_run) |
/// | a chip in memory, in front of which there is a processor's cache | [`hint`](Flash::hint) |
/// | a chip with modes | [`is_slc`](Flash::is_slc), [`mode_of`](Flash::mode_of) |
/// | a medium on which commands take time | [`chain`](Flash::chain) |
/// | a chip that stores bytes of a scheme's own in spare areas | [`reserve_spare`](Flash::reserve_spare), [`stage_spare`](Flash::stage_spare), [`spare`](Flash::spare) |
/// | a medium around another | all of them, and hands them on |
///
/// Every command names its [`Cause`]. A medium refuses, by panicking, whatever a real chip would break on: programming
/// a page that is not blank, breaking the program order or the NOP limit, mixing modes in a block, touching a bad
/// block. Such a panic is a bug of the scheme, and its text is that of a [`Broken`](crate::Broken).
///
/// # Order
///
/// Calls are synchronous: when one returns, every later call sees its effect. A medium may still be at work on earlier
/// commands, on several dies at once and not in the order of issue. That shows in when commands end, and in what may be
/// left undone when power fails while several are under way. A scheme may rely on four things:
///
/// - **The data.** An erase follows all commands on its block that were issued before it, and every command follows
///   the erases of its block that were issued before it. A read, also that of a copy, follows the program and the
///   partial programs of its page; a partial program follows the program and the earlier partial programs of its page.
///   Programs of a block may swap in time, but the place of a page is bound when its program reaches the die, so
///   that the program order of the block holds.
/// - **The chain.** The commands for a host page run one after another, each when the one before it has ended. An
///   operation of the host is done when the last of its chain has ended. The pages of a request run beside each other,
///   as do those of a [`Batch`], and whoever opened a batch goes on when the last page has ended.
/// - **The collection.** Commands in a [`Collection`] are independent of each other and of the host page that set it
///   off; none begins before that page's chain has got so far. [`Collection::wait`] makes the page wait for them.
/// - **The stage.** [`Collection::then`] and [`Batch::then`]: all commands of the scope so far, on whichever dies and
///   in whichever slices, end before a later one of the scope begins.
///
/// On nothing else. In particular commands of two chains may end in any order, on one die too; and that a command has
/// ended says nothing of an earlier one of another chain. An erase that must follow the programs of other blocks is put
/// behind a stage, or into the chain of these.
///
/// Where power may fail while commands are under way on several dies, most schemes need a fifth of their controller:
///
/// - **The barrier.** An erase, and a program of what is no host page, a partial one too, follows all programs and
///   erases that were issued before it, on whichever die.
///
/// A chip does not keep it, and a medium that keeps time does if it is told to
/// ([`Timeline::keep_barriers`](crate::Timeline::keep_barriers)). docs/fault-model.md says which schemes need it
/// (classes `flight` and `unordered`; within a page of the host none does, class `stages`), and docs/scheduling.md what
/// it costs.
pub trait Flash {
    /// What a host page carries: `()` nothing, `u64` a tag, `[u8]` a page of bytes.
    type User: HostData + ?Sized;
    /// How the medium can fail.
    type Fault: FlashFault;

    /// The device's shape.
    fn geometry(&self) -> &Geometry;

    /// Reads a whole page: its spare area and payload. A torn page reads as [`Kind::Torn`] with no payload, also when
    /// its spare area alone looks sound. Reading a blank page is a bug: ask [`Flash::read_oob`] first.
    ///
    /// # Errors
    /// Power lost, or uncorrectable.
    fn read(&mut self, ppn: Ppn, cause: Cause) -> Result<(Oob, Payload<'_, Self::User>), Self::Fault>;

    /// Reads the spare area alone: `None` if the page is blank. [`Kind::Bad`] on page 0 marks a bad block.
    ///
    /// # Errors
    /// Power lost.
    fn read_oob(&mut self, ppn: Ppn, cause: Cause) -> Result<Option<Oob>, Self::Fault>;

    /// Programs a blank page. [`Kind::Bad`] on page 0 is the one program that needs no blank page: it marks the block
    /// as bad for ever. [`Kind::Torn`] programs bits that no code corrects: who copies a block copies a torn page so. A
    /// medium whose programs may report success and not stick takes it over such a page too.
    ///
    /// # Errors
    /// Power lost (the page is blank, torn or whole) or program failed (the page is torn).
    fn program(&mut self, ppn: Ppn, oob: Oob, data: Payload<'_, Self::User>, cause: Cause) -> Result<(), Self::Fault>;

    /// Partial program: programs `bytes` into a metadata page, from byte `at` on. Nothing may have been programmed
    /// there or behind: everything from `at` to the end of the page is blank. (Metadata words are little-endian, and a
    /// word may hold bytes of two programs.) Limited by NOP. `mark` goes into the spare area along with it, where every
    /// partial program of a page has two bytes of its own, and is what [`Oob::mark`] says from then on; all ones would
    /// be blank and is no mark, and the mark that the page has already leaves the spare area alone.
    ///
    /// # Errors
    /// As [`Flash::program`]. A torn append leaves the earlier bytes whole, and the last mark or garbage.
    fn append(&mut self, ppn: Ppn, at: u32, bytes: &[u8], mark: u16, cause: Cause) -> Result<(), Self::Fault>;

    /// Reads `from` into the page register, lets `edit` change the spare area and the metadata words (empty for a host
    /// page), and programs the result to `to`: a collection's copy and a metadata read-modify-write are one operation.
    /// Counted and timed as a read and a program. Returns the spare area as programmed. The mode stays what it is
    /// unless `edit` changes it. The mark that `edit` sees is 0, for the new page has no partial program yet.
    ///
    /// `from` counts as dead afterwards: a measuring medium may move its buffer, and reading it again is then a bug.
    ///
    /// A host page whose data cannot be corrected, but whose spare area reads, is copied as *lost*: the copy has the
    /// spare area and no data, and reading it is uncorrectable until its block is erased, over any mount. So no block
    /// with such a page is stuck, and no older version takes its place. Only its LPN's next write or discard ends that.
    ///
    /// # Errors
    /// As [`Flash::program`]; of a metadata page as [`Flash::read`] too. `from` is then untouched.
    fn copy(
        &mut self,
        from: Ppn,
        to: Ppn,
        cause: Cause,
        edit: impl FnOnce(&mut Oob, &mut [u32]),
    ) -> Result<Oob, Self::Fault>;

    /// Many [`Flash::copy`] calls in one, so that a medium can look at the two blocks once: copies the host pages whose
    /// bits are set in `live`, counted from page `from` on within one block, to consecutive pages from `to` on within
    /// another, with program numbers from `program` on. All become data pages, log pages too: this is what collections
    /// and merges do. Tells `moved` each page's address and new place. How many were copied, and the fault that ended
    /// it before the last. Whatever a medium makes of it, its effects, counts and times are those of the single calls.
    fn copy_run(
        &mut self,
        from: Ppn,
        live: u64,
        to: Ppn,
        program: u64,
        cause: Cause,
        moved: impl FnMut(u32, Ppn),
    ) -> (u32, Result<(), Self::Fault>) {
        copy_each(self, (from, live), (to, program), cause, |_| {}, moved)
    }

    /// Metadata page `ppn` is about to be changed, at word `word` among others: a medium in memory fetches it into the
    /// processor's cache. No effect otherwise.
    #[inline(always)]
    fn hint(&self, ppn: Ppn, word: usize) {
        let _ = (ppn, word);
    }

    /// Whether a block was programmed in SLC mode since its last erase: what a medium that keeps time asks the one
    /// under it.
    #[inline(always)]
    fn is_slc(&mut self, block: Block) -> bool {
        let _ = block;
        false
    }

    /// How a page was programmed: what a medium that keeps time asks the one under it. Of a page that is not
    /// programmed, anything. A chip without modes programs every page normally.
    #[inline(always)]
    fn mode_of(&mut self, ppn: Ppn) -> Mode {
        let _ = ppn;
        Mode::Normal
    }

    /// Erases a block.
    ///
    /// # Errors
    /// Power lost (the block holds anything) or erase failed.
    fn erase(&mut self, block: Block, cause: Cause) -> Result<(), Self::Fault>;

    /// The first block from `from` on that is *tired*: the chip's code still corrects its pages, but so many bits of
    /// them that they should be moved soon. Reads and time do that to a block, and only an erase undoes it: until then
    /// it is named. A medium that does not tell how many bits it has corrected names none. UBI learns of such blocks
    /// from reads (`-EUCLEAN`) and scrubs them; the causes are in Y. Cai et al., "Read disturb errors in MLC NAND flash
    /// memory", DSN 2015, and the cure in "Flash Correct-and-Refresh", ICCD 2012.
    #[inline(always)]
    fn tired(&self, from: Block) -> Option<Block> {
        let _ = from;
        None
    }

    /// Enters another chain and returns the present one, to be handed back later. Use [`Collection`] and [`Batch`]. A
    /// medium without time, or one that carries out a command after the other, need not know of chains: it hands back
    /// what it gets.
    #[inline(always)]
    fn chain(&mut self, next: Chain) -> Chain {
        next
    }

    /// The scheme keeps `bytes` of its own in the spare area of every page; whether the medium stores them. Said first
    /// of all in format and in mount, always with the same figure; a scheme that never says it costs a medium nothing.
    /// That they fit beside what every spare area holds is the scheme's to check. A plain chip stores none, and the
    /// scheme refuses the device.
    #[must_use = "a medium that stores none must not be used"]
    fn reserve_spare(&mut self, bytes: u32) -> bool {
        bytes == 0
    }

    /// What goes into these bytes of blank page `ppn`, which the next changing command programs or copies to. What is
    /// missing, or was never staged, is programmed as zero: a copy takes nothing along.
    ///
    /// # Panics
    /// If there are more than were reserved: a bug of the scheme.
    fn stage_spare(&mut self, ppn: Ppn, bytes: &[u8]) {
        if !bytes.is_empty() {
            let rule = Rule::NotReserved { bytes: bytes.len() as u32, reserved: 0 };
            refuse(rule.broken_by(Command::Spare, ppn));
        }
    }

    /// The scheme's bytes in the spare area of page `ppn`, which the last [`Flash::read`] or [`Flash::read_oob`] read
    /// and paid for: no command of its own. Empty if the page is blank, its spare area torn, or nothing reserved.
    fn spare(&self, ppn: Ppn) -> &[u8] {
        let _ = ppn;
        &[]
    }
}

/// [`Flash::copy_run`] as what it stands for, one [`Flash::copy`] after another, with whatever `edit` does to each
/// spare area besides.
///
/// # Errors
/// As there.
pub fn copy_each<F: Flash + ?Sized>(
    flash: &mut F,
    (from, live): (Ppn, u64),
    (to, program): (Ppn, u64),
    cause: Cause,
    mut edit: impl FnMut(&mut Oob),
    mut moved: impl FnMut(u32, Ppn),
) -> (u32, Result<(), F::Fault>) {
    let mut rest = live;
    for copied in 0..live.count_ones() {
        let (source, target) = (Ppn(from.0 + rest.trailing_zeros()), Ppn(to.0 + copied));
        let renew = |oob: &mut Oob, _: &mut [u32]| {
            (oob.kind, oob.program) = (Kind::Data, program + u64::from(copied));
            edit(oob);
        };
        match flash.copy(source, target, cause, renew) {
            Ok(oob) => moved(oob.address, target),
            Err(fault) => return (copied, Err(fault)),
        }
        rest &= rest - 1;
    }
    (live.count_ones(), Ok(()))
}

/// A scope in which commands are a collection's: independent of each other and of the host page that set it off.
/// Dereferences to the medium; leaving the scope returns to the outer chain.
///
/// A collection may be dealt over several requests, a slice for each: [`Collection::pause`] ends a slice, and
/// [`Collection::resume`] begins the next.
///
/// ```
/// use flash::{Block, Cause, Collection, Flash, Kind, Ppn};
///
/// /// Moves the first two pages of block 0 to block 9, and erases it when both have arrived.
/// fn empty<F: Flash>(flash: &mut F) -> Result<(), F::Fault> {
///     let to = flash.geometry().page(Block(9), 0);
///     let mut collection = Collection::on(flash);
///     for page in 0..2 {
///         let as_data = |oob: &mut flash::Oob, _: &mut [u32]| oob.kind = Kind::Data;
///         collection.copy(Ppn(page), Ppn(to.0 + page), Cause::DataGc, as_data)?;
///     }
///     collection.then();
///     collection.erase(Block(0), Cause::DataGc)
/// }
/// ```
#[derive(Debug)]
pub struct Collection<'a, F: Flash> {
    flash: &'a mut F,
    outer: Chain,
}

impl<'a, F: Flash> Collection<'a, F> {
    /// Opens the scope.
    pub fn on(flash: &'a mut F) -> Self {
        Self::resume(flash, Chain::COLLECTION)
    }

    /// Opens the scope for the next slice of a collection, whose slices so far are `earlier`:
    /// [`Chain::COLLECTION`] if there are none. The commands of this slice are independent of each other and do not
    /// wait for the earlier slices; what follows [`Collection::then`] waits for the commands of all of them, on
    /// whichever dies these are.
    ///
    /// A chain of the time before [`Timeline::reset`](crate::Timeline::reset) or
    /// [`Timeline::queue`](crate::Timeline::queue) counts as ended. One of the time before a power cut is the scheme's
    /// to drop, as it drops all that it had in RAM: it must not be handed to another medium.
    pub fn resume(flash: &'a mut F, earlier: Chain) -> Self {
        let outer = flash.chain(Chain { enter: Enter::Resumed, ..earlier });
        Collection { flash, outer }
    }

    /// Leaves the scope. What the next slice of this collection is resumed with.
    pub fn pause(self) -> Chain {
        let slice = self.flash.chain(self.outer);
        // The scope has been left; there is nothing else to drop.
        core::mem::forget(self);
        slice
    }

    /// Leaves the scope. The outer one goes on when everything in this one has ended, and in the slices before it: for
    /// a scheme that must have on flash what the collection gains before it uses that up.
    pub fn wait(self) {
        let slice = self.flash.chain(self.outer);
        self.flash.chain(Chain { enter: Enter::Waited, ..slice });
        core::mem::forget(self);
    }

    /// The outer one goes on when everything in this scope so far has ended; the scope goes on. For a page of the host
    /// that is programmed among copies: it is answered when it is on flash.
    pub fn wait_so_far(&mut self) {
        let slice = self.flash.chain(self.outer);
        self.flash.chain(Chain { enter: Enter::Waited, ..slice });
        self.outer = self.flash.chain(Chain { enter: Enter::Again, ..slice });
    }

    /// What follows starts after everything in this scope so far: the erase after the copies, translation updates after
    /// the copies that they describe.
    pub fn then(&mut self) {
        self.flash.chain(Chain::AFTER);
    }
}

impl<F: Flash> Deref for Collection<'_, F> {
    type Target = F;
    fn deref(&self) -> &F {
        self.flash
    }
}

impl<F: Flash> DerefMut for Collection<'_, F> {
    fn deref_mut(&mut self) -> &mut F {
        self.flash
    }
}

impl<F: Flash> Drop for Collection<'_, F> {
    fn drop(&mut self) {
        self.flash.chain(self.outer);
    }
}

/// A scope in which several host pages are read or written beside each other, each a chain of its own, as the pages of
/// one request are: a write buffer that is flushed. Whoever opened it goes on when the last of them has ended.
#[derive(Debug)]
pub struct Batch<'a, F: Flash> {
    flash: &'a mut F,
    outer: Chain,
}

impl<'a, F: Flash> Batch<'a, F> {
    /// Opens the scope.
    pub fn on(flash: &'a mut F) -> Self {
        let outer = flash.chain(Chain::COLLECTION);
        Batch { flash, outer }
    }

    /// Does the work of one page.
    pub fn page<T>(&mut self, work: impl FnOnce(&mut F) -> T) -> T {
        let batch = self.flash.chain(Chain::PAGE);
        let result = work(self.flash);
        let page = self.flash.chain(batch);
        self.flash.chain(page.awaited());
        result
    }

    /// What follows starts after every page so far.
    pub fn then(&mut self) {
        self.flash.chain(Chain::AFTER);
    }
}

impl<F: Flash> Drop for Batch<'_, F> {
    fn drop(&mut self) {
        let batch = self.flash.chain(self.outer);
        self.flash.chain(batch.awaited());
    }
}

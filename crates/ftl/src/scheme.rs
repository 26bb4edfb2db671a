//! What a flash translation layer is: the trait, its errors, and the row that describes a scheme.

use crate::{Group, Parameter, Settings};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;
use flash::{Cause, Flash, FlashFault, Geometry, Lpn};

/// Why a host operation failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error<E> {
    /// The medium's fault, passed on: power lost, or a page that cannot be corrected.
    Flash(E),
    /// No space can be made: every page holds live data, or too many blocks are bad.
    Full,
    /// What flash holds contradicts itself, as after damage that no code corrects: the request is given up rather than
    /// answered wrongly.
    Corrupt,
}

impl<E> From<E> for Error<E> {
    #[inline(always)]
    fn from(fault: E) -> Self {
        Error::Flash(fault)
    }
}

impl<E: FlashFault> fmt::Display for Error<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Flash(fault) => write!(f, "the flash failed: {:?}", fault.kind()),
            Error::Full => f.write_str("the device is full: no block can be freed"),
            Error::Corrupt => f.write_str("the flash contradicts itself: a map names a page that it does not hold"),
        }
    }
}

/// Why a scheme cannot be built on a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigError {
    /// The parameter or device key at fault.
    pub key: &'static str,
    /// What is wrong, with the value and the minimum.
    pub what: String,
    /// What to do.
    pub fix: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({})", self.key, self.what, self.fix)
    }
}

impl core::error::Error for ConfigError {}

/// How a mapping cache did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CacheCounters {
    /// Look-ups: one for each page of a request. Prefetches are none.
    pub accesses: u64,
    /// Look-ups that found their entry.
    pub hits: u64,
    /// Evictions that forced a translation page program, each victim once (the SCFTL paper, equation 1).
    pub writebacks: u64,
    /// Dirty entries written by those, batched neighbours included.
    pub writeback_entries: u64,
}

/// What a mount found and did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MountReport {
    /// Pages found programmed.
    pub pages: u64,
    /// Pages found torn.
    pub torn: u64,
    /// Pages whose spare area cannot be read, which no power cut explains: of each the newest version of a logical page
    /// may have been there, or a record of discards, and something older have come back.
    pub unreadable: u64,
    /// Pages of records of discards, and pages of maps, that cannot be read: what they alone knew was discarded may
    /// have come back.
    pub lost_discards: u64,
    /// Mapping entries that no translation page held yet.
    pub restored: u64,
    /// Blocks found bad.
    pub bad_blocks: u64,
    /// How often the mount began anew, because it met a page that cannot be read while it made room. Torn and
    /// unreadable pages are counted each time.
    pub retries: u64,
}

impl MountReport {
    /// Logical pages that may be stale since this mount, at the most: one for each page that it took for torn, where
    /// damage looks like that, and one for each that it could not read. One of these may have been a page of records of
    /// discards: then all that it discarded may be back.
    pub fn perhaps_stale(&self) -> u64 {
        self.torn + self.unreadable
    }
}

/// Why no scheme came of a medium.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BuildError<E> {
    /// The settings do not fit the device.
    Config(ConfigError),
    /// The device: its medium failed, or it is full.
    Device(Error<E>),
}

impl<E> BuildError<E> {
    /// What does not fit, if that is why.
    pub fn config(self) -> Option<ConfigError> {
        match self {
            BuildError::Config(error) => Some(error),
            BuildError::Device(_) => None,
        }
    }
}

impl<E> From<ConfigError> for BuildError<E> {
    fn from(error: ConfigError) -> Self {
        BuildError::Config(error)
    }
}

impl<E> From<Error<E>> for BuildError<E> {
    fn from(error: Error<E>) -> Self {
        BuildError::Device(error)
    }
}

impl<E: FlashFault> fmt::Display for BuildError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::Config(error) => error.fmt(f),
            BuildError::Device(error) => error.fmt(f),
        }
    }
}

impl<E: FlashFault> core::error::Error for BuildError<E> {}

/// What comes of an operation on a medium `F`.
pub type Outcome<F, T = ()> = Result<T, Error<<F as Flash>::Fault>>;

/// What comes of making a scheme on a medium `F`.
pub type Built<F, T> = Result<T, BuildError<<F as Flash>::Fault>>;

/// A flash translation layer over a medium: what a host asks of it.
///
/// Pages are whole; the host model cuts requests and merges partial pages. Everything is synchronous: when a write
/// returns, it is acknowledged. [`Build`] makes one, [`Inspect`] looks into it. The trait can be an object: a host that
/// learns at run time which scheme it has may hold a `Box<dyn Ftl<F>>`.
pub trait Ftl<F: Flash> {
    /// The host asks to read or write `pages` pages from `first` on; they follow one by one. A page outside of what was
    /// announced last is a request of its own. A host that announces nothing may find schemes wait for more than they
    /// must.
    #[inline(always)]
    fn request(&mut self, first: Lpn, pages: u32) {
        let _ = (first, pages);
    }

    /// Of the pages announced last the host asks for so many bytes; unless it says so, for all. Whoever hands requests
    /// down in whole pages, such as a write buffer, says nothing.
    #[inline(always)]
    fn request_bytes(&mut self, bytes: u64) {
        let _ = bytes;
    }

    /// Reads a page: `None` if it holds nothing (reads as zeros). The data lies on the medium, or in the scheme's RAM.
    ///
    /// # Errors
    /// Power lost or uncorrectable.
    fn read<'f>(&'f mut self, flash: &'f mut F, lpn: Lpn) -> Outcome<F, Option<&'f F::User>>;

    /// Whether a page holds anything, where the scheme's RAM alone tells: no flash is read, nothing is cached.
    fn is_mapped(&self, lpn: Lpn) -> Option<bool> {
        let _ = lpn;
        None
    }

    /// Reads a page that is about to be written in part. The pair counts as one access of a mapping cache.
    ///
    /// # Errors
    /// As [`Ftl::read`].
    fn read_to_modify<'f>(&'f mut self, flash: &'f mut F, lpn: Lpn) -> Outcome<F, Option<&'f F::User>> {
        self.read(flash, lpn)
    }

    /// Writes a page.
    ///
    /// # Errors
    /// Power lost (the page is old or new), or full (the page is old).
    fn write(&mut self, flash: &mut F, lpn: Lpn, data: &F::User) -> Outcome<F>;

    /// Discards `count` pages from `first`: they read as nothing.
    ///
    /// # Errors
    /// As [`Ftl::write`]; a part of the range may be discarded.
    fn trim(&mut self, flash: &mut F, first: Lpn, count: u32) -> Outcome<F>;

    /// Makes everything acknowledged so far durable.
    ///
    /// # Errors
    /// As [`Ftl::write`].
    fn flush(&mut self, flash: &mut F) -> Outcome<F>;

    /// Does background work, at most about `copies` page copies of it; whether there is more. First comes a block that
    /// the medium names as tired ([`Flash::tired`]): it is moved whole.
    ///
    /// # Errors
    /// As [`Ftl::write`].
    fn idle(&mut self, flash: &mut F, copies: u32) -> Outcome<F, bool>;
}

/// The three ways in which a scheme that is a Rust type comes to be. What is made otherwise, as by an object of another
/// language, has a [`Recipe`] instead.
pub trait Build<F: Flash>: Inspect<F> + Sized + Clone + Send + 'static {
    /// A scheme on a blank medium, as it leaves the factory. Reads bad-block marks, writes what the scheme needs.
    ///
    /// # Errors
    /// Settings that do not fit the device, or a failing medium.
    fn format(flash: &mut F, logical_pages: u32, settings: &Settings) -> Built<F, Self>;

    /// Rebuilds the scheme from flash alone, after power was cut at any point.
    ///
    /// # Errors
    /// As [`Build::format`], but page maps do not ask for the spare blocks that `format` asks for.
    fn mount(flash: &mut F, logical_pages: u32, settings: &Settings) -> Built<F, (Self, MountReport)>;

    /// The scheme from what [`Inspect::save`] wrote; counters start at zero.
    fn restore(geometry: &Geometry, logical_pages: u32, settings: &Settings, bytes: &[u8]) -> Self;
}

/// What whoever measures, checks or saves a scheme asks of it beside what a host does. A firmware needs none of it. As
/// [`Ftl`], it can be an object.
pub trait Inspect<F: Flash>: Ftl<F> {
    /// The device is about to be filled before a workload begins, or that is over. A scheme that learns from what the
    /// host does need not learn from it.
    #[inline(always)]
    fn filling(&mut self, filling: bool) {
        let _ = filling;
    }

    /// `lpn` comes up in some two dozen pages: fetch its mapping entry into the CPU's cache. No effect otherwise. Only
    /// a simulator knows so far ahead what comes.
    fn hint(&self, lpn: Lpn) {
        let _ = lpn;
    }

    /// `lpn` comes up in some ten pages: fetch what its entry points at.
    fn hint_soon(&self, lpn: Lpn) {
        let _ = lpn;
    }

    /// Controller RAM by structure, bytes.
    fn memory(&self) -> Vec<(&'static str, u64)>;

    /// Mapping cache counters, if the scheme has such a cache.
    fn cache(&self) -> Option<CacheCounters> {
        None
    }

    /// The scheme's own counters, described in its row.
    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// Forgets all counters (after filling a device).
    fn reset_counters(&mut self);

    /// Erase count of every block.
    fn erase_counts(&self) -> &[u32];

    /// Blocks that are free.
    fn free_blocks(&self) -> u32;

    /// Checks the scheme's invariants against the flash.
    ///
    /// # Errors
    /// The first that does not hold.
    fn audit(&self, flash: &mut F) -> Result<(), String>;

    /// The same of free blocks, of a scheme that relies on these: none holds a page which could count after a power
    /// cut. True where a page reads the same each time.
    ///
    /// # Errors
    /// The first such page.
    fn audit_free(&self, flash: &mut F) -> Result<(), String> {
        let _ = flash;
        Ok(())
    }

    /// The whole state of the controller's RAM, in no more bytes than [`Inspect::memory`] says.
    fn save(&self) -> Vec<u8>;
}

/// How a scheme is made that was chosen by name: [`Static`] for every type that implements [`Build`], and a type of its
/// own for schemes that come from elsewhere, whose values tell one from another.
///
/// A recipe is cheap to clone. A clone of what it makes, beside a clone of its medium, is a branch of
/// history: how checks try every power cut.
pub trait Recipe<F: Flash>: Clone + Send + 'static {
    /// What it makes.
    type Scheme: Inspect<F> + Clone + Send + 'static;

    /// See [`Build::format`].
    ///
    /// # Errors
    /// As there.
    fn format(&self, flash: &mut F, logical_pages: u32, settings: &Settings) -> Built<F, Self::Scheme>;

    /// See [`Build::mount`].
    ///
    /// # Errors
    /// As there.
    fn mount(&self, flash: &mut F, logical_pages: u32, settings: &Settings) -> Built<F, (Self::Scheme, MountReport)>;

    /// See [`Build::restore`].
    fn restore(&self, geometry: &Geometry, logical_pages: u32, settings: &Settings, bytes: &[u8]) -> Self::Scheme;
}

/// The recipe of a scheme that is a Rust type.
#[derive(Debug)]
pub struct Static<S>(PhantomData<fn() -> S>);

impl<S> Clone for Static<S> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<S> Copy for Static<S> {}

impl<S> Static<S> {
    /// The only one.
    pub const NEW: Self = Static(PhantomData);
}

impl<F: Flash, S: Build<F>> Recipe<F> for Static<S> {
    type Scheme = S;

    fn format(&self, flash: &mut F, logical_pages: u32, settings: &Settings) -> Built<F, S> {
        S::format(flash, logical_pages, settings)
    }

    fn mount(&self, flash: &mut F, logical_pages: u32, settings: &Settings) -> Built<F, (S, MountReport)> {
        S::mount(flash, logical_pages, settings)
    }

    fn restore(&self, geometry: &Geometry, logical_pages: u32, settings: &Settings, bytes: &[u8]) -> S {
        S::restore(geometry, logical_pages, settings, bytes)
    }
}

/// A scheme's row: everything that help, validation, documentation and the conformance tests need.
#[derive(Clone, Copy, Debug)]
pub struct Scheme<'a> {
    /// Name on the command line, kebab-case.
    pub name: &'a str,
    /// One line.
    pub summary: &'a str,
    /// The paper that describes it, by its key in [`crate::papers`].
    pub paper: &'a str,
    /// The file that opens with its essay (`//!`), as text: `include_str!`. Its page of documentation is made of that.
    pub essay: &'a str,
    /// The parameters that are its own.
    pub own: &'static [Parameter],
    /// Those of the parts that it is made of.
    pub parts: &'static [Group],
    /// Parameters that its parts read and that cannot be set: they stand at these defaults.
    pub fixed: &'static [Parameter],
    /// Its counters, by part: name and meaning.
    pub counters: &'a [&'a [(&'a str, &'a str)]],
    /// The causes of its changing commands: the checker wants cuts in each, in those of wear levelling and of rewrites
    /// for another code where settings ask for these, and in no other. ([`Cause::Refresh`] is not among them: in the
    /// runs whose cuts are counted by cause no block tires.)
    pub phases: &'a [Cause],
    /// Whether it has a mapping cache that `cache-bytes` sizes.
    pub has_cache: bool,
    /// Whether it keeps data at all (all but `null`).
    pub keeps_data: bool,
    /// The form of what [`Inspect::save`] writes. Raise it when that changes, in the scheme or in a part of it: saved
    /// state of another form is not restored.
    pub state_version: u32,
}

impl Scheme<'_> {
    /// Whether it is put together from summaries of its paper. Its essay says so, in these words.
    pub fn is_reconstruction(&self) -> bool {
        self.essay.contains("*This is a reconstruction.*")
    }

    /// Every parameter that can be set, its own first.
    pub fn parameters(&self) -> impl Iterator<Item = &'static Parameter> + use<> {
        self.own.iter().chain(self.parts.iter().flat_map(|part| part.rows))
    }

    /// The parameter of this name, if it can be set.
    pub fn parameter(&self, name: &str) -> Option<&'static Parameter> {
        self.parameters().find(|parameter| parameter.name == name)
    }

    /// Every parameter at its default.
    pub fn settings(&self) -> Settings {
        Settings::new(self.parameters(), self.fixed)
    }
}

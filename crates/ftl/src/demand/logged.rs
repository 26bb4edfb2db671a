//! Translation pages with a log area (the LSFTL paper): small updates are appended to the page by partial programs, and
//! brought into its main area when the log is full, or when the page is collected.
//!
//! Where the log of each page ends is kept in the directory, or (`counters = oob`) in the page's spare area, where it
//! costs a reading of the spare area before each update.
//!
//! An appended unit leaves the page's watermark alone. After a power cut the data pages programmed after it are more
//! than the cache has lost, but those whose entries the log holds agree with it and are let be. A discard cannot be
//! told from a loss that way: durable ones are written with a page of their own.

use super::cache::Entry;
use super::map::{Batch, MapStore, TranslationPage, Update};
use super::parameters::TRANSLATION_MODE;
use crate::parts::lanes::Stream;
use crate::parts::log_units::{Flush, LogState, LogUnits, Scan};
use crate::parts::space::Space;
use crate::parts::translation::TranslationStore;
use crate::{ConfigError, Loader, Outcome, Parameter, Saver, Settings};
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use flash::{Cause, FaultKind, Flash, FlashFault, Geometry, Ppn, Tvpn};

/// `lu`: units in a log.
pub const LU: Parameter = Parameter::count("lu", 3, 0..=7)
    .unit("units")
    .text(
        "Log units that a translation page takes before it is written anew. More save programs; the device's nop must \
         be one more than this. 0 is DFTL.",
    )
    .source("{lsftl}, section IV-A");

/// `log-share`: bytes of a log.
pub(crate) const LOG_SHARE: Parameter = Parameter::real("log-share", 0.25, 0.05..=0.5)
    .text("Share of a translation page that is its log area. More takes more updates, but the map needs more pages.")
    .source("{lsftl}, section III-A");

/// `log-header`: bytes of a header.
pub(crate) const LOG_HEADER: Parameter = Parameter::count("log-header", 4, 4..=64)
    .unit("bytes")
    .text("Size of a log unit's header.")
    .source("{lsftl}, figure 4 is lost");

/// `log-entry`: bytes of an entry.
pub(crate) const LOG_ENTRY: Parameter = Parameter::count("log-entry", 6, 6..=64)
    .unit("bytes")
    .text("Size of an entry of a log unit.")
    .source("{lsftl}, figure 4 is lost");

/// `log-parity`: bytes of a parity.
pub(crate) const LOG_PARITY: Parameter = Parameter::count("log-parity", 7, 0..=64)
    .unit("bytes")
    .text(
        "Parity of a log unit per started 512 bytes. A BCH code that corrects 4 bits takes 7. With less no device \
         mounts after a power cut.",
    )
    .source("{lsftl}, figure 4 is lost");

/// `counters`: where the state of each log is kept.
pub(crate) const LOG_COUNTERS: Parameter = Parameter::word("counters", "directory", &["directory", "oob"])
    .text(
        "Where it is kept how far each log is filled. directory: in RAM. oob: in the page's spare area, which costs a \
         reading of it before each update.",
    )
    .source("{lsftl}, section III-B");

/// What the store is told.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// `lu`.
    pub lu: u32,
    /// `log-share`.
    pub share: f64,
    /// `log-header`, `log-entry` and `log-parity`.
    pub sizes: [u32; 3],
    /// `counters`: whether the directory keeps how far each log is filled.
    pub in_directory: bool,
    /// `translation-mode`: whether translation blocks are in SLC mode.
    pub slc: bool,
}

impl From<&Settings> for Options {
    fn from(settings: &Settings) -> Options {
        Options {
            lu: settings.small(&LU),
            share: settings.real(&LOG_SHARE),
            sizes: [&LOG_HEADER, &LOG_ENTRY, &LOG_PARITY].map(|row| settings.small(row)),
            in_directory: settings.word(&LOG_COUNTERS) == "directory",
            slc: settings.word(&TRANSLATION_MODE) == "slc",
        }
    }
}

/// The store's own counters, in the order of [`MapStore::counters`].
pub(crate) const COUNTERS: &[(&str, &str)] = &[
    ("log_appends", "updates appended to a log"),
    ("log_rewrites", "updates for which a translation page was written anew"),
    ("flush_within_quota", "write-backs within the quota (condition 1)"),
    ("flush_victim_alone", "write-backs of the victim alone (condition 2)"),
    ("flush_out_of_place", "write-backs with a new page, for neither condition held"),
    ("logs_retired", "logs brought into their page's main area"),
    ("log_units_retired", "units in them"),
    ("log_bytes_retired", "bytes in them"),
];

#[derive(Clone, Copy, Default, Debug)]
struct Counters {
    appends: u64,
    rewrites: u64,
    within_quota: u64,
    victim_alone: u64,
    out_of_place: u64,
    retired: u64,
    units_retired: u64,
    bytes_retired: u64,
}

/// See the module's description.
#[derive(Clone, Debug)]
pub struct Logged {
    pages: TranslationStore,
    slc: bool,
    units: LogUnits,
    /// How far each page's log is filled; empty if that stands in the spare areas.
    states: Vec<LogState>,
    /// Pages that take no more units, though their log says otherwise: found torn. Only if `states` is empty.
    closed: BTreeSet<u32>,
    /// What a reading of a spare area said, for the update that follows.
    known: Option<(Tvpn, LogState)>,
    counters: Counters,
    /// Scratch space.
    sorted: Vec<Entry>,
    bytes: Vec<u8>,
}

impl Logged {
    fn in_directory(&self) -> bool {
        !self.states.is_empty()
    }

    /// How far the log of a page is filled that was written.
    fn state<F: Flash>(&mut self, flash: &mut F, tvpn: Tvpn, cause: Cause) -> Result<LogState, F::Fault> {
        if self.in_directory() {
            return Ok(self.states[tvpn.index()]);
        }
        if let Some((_, state)) = self.known.filter(|&(known, _)| known == tvpn) {
            return Ok(state);
        }
        let oob = flash.read_oob(self.pages.at(tvpn), cause)?;
        let state = self.units.of_mark(oob.map_or(0, |oob| oob.mark));
        let state = if self.closed.contains(&tvpn.0) { self.units.closed(state) } else { state };
        self.known = Some((tvpn, state));
        Ok(state)
    }

    /// What a state becomes where it is kept.
    fn put(&mut self, tvpn: Tvpn, state: LogState) {
        if self.in_directory() {
            self.states[tvpn.index()] = state;
        }
        self.known = None;
    }

    /// The page was written anew: its log is empty.
    fn retired(&mut self, tvpn: Tvpn, state: LogState) {
        let c = &mut self.counters;
        c.retired += 1;
        c.units_retired += u64::from(state.units);
        c.bytes_retired += u64::from(state.tail);
        self.put(tvpn, LogState::default());
        self.closed.remove(&tvpn.0);
    }

    /// Appends a unit; false if its program failed, and the page's block is to be retired.
    fn append<F: Flash>(
        &mut self,
        flash: &mut F,
        tvpn: Tvpn,
        state: LogState,
        entries: &[Entry],
        cause: Cause,
    ) -> Result<bool, F::Fault> {
        let base = tvpn.0 * self.units.entries();
        // What a collection moved comes in order.
        let ordered = if entries.is_sorted() {
            entries
        } else {
            self.sorted.clear();
            self.sorted.extend_from_slice(entries);
            self.sorted.sort_unstable();
            &self.sorted
        };
        self.units.encode(ordered.iter().map(|&Entry { lpn, ppn }| (lpn.0 - base, ppn)), &mut self.bytes);
        let after = self.units.after(state, entries.len() as u32);
        // Where the directory counts, the spare area says nothing.
        let mark = if self.in_directory() { Some(0) } else { self.units.mark(after) };
        let mark = mark.expect("every state fits: checked when the store was made");
        let at = self.units.log_start() + state.tail;
        match flash.append(self.pages.at(tvpn), at, &self.bytes, mark, cause) {
            Ok(()) => {
                self.put(tvpn, after);
                self.counters.appends += 1;
                Ok(true)
            }
            Err(fault) if fault.kind() == FaultKind::ProgramFailed => {
                self.close(tvpn, state);
                Ok(false)
            }
            Err(fault) => Err(fault),
        }
    }

    /// What lies behind this state's units is neither a unit nor blank: the page takes no more.
    fn close(&mut self, tvpn: Tvpn, state: LogState) {
        if !self.in_directory() {
            self.closed.insert(tvpn.0);
        }
        self.put(tvpn, self.units.closed(state));
    }

    /// The state of the log in words that were read, for one who may not read flash.
    fn state_of(&self, tvpn: Tvpn, words: &[u32]) -> LogState {
        self.states.get(tvpn.index()).copied().unwrap_or_else(|| self.units.walk(words))
    }
}

impl MapStore for Logged {
    type Options = Options;

    fn new(g: &Geometry, logical_pages: u32, stream: Stream, options: &Options) -> Result<Self, ConfigError> {
        let &Options { lu, share, sizes, in_directory, slc } = options;
        let units = LogUnits::new(g.page_bytes, share, sizes, lu).map_err(|what| ConfigError {
            key: "log-share",
            what,
            fix: "use a device with pages of 512 bytes to 256 KiB, or other sizes".into(),
        })?;
        let slc_pages = slc && g.bits_per_cell > 1;
        let (nop, key) = if slc_pages { (g.slc_nop, "slc_nop") } else { (g.nop, "nop") };
        if lu >= nop.max(1) && lu > 0 {
            let instead = if slc_pages || g.bits_per_cell == 1 { "" } else { ", translation-mode=slc" };
            let less = if nop > 1 { format!(", or lu={} or less", nop - 1) } else { ", or lu=0".into() };
            return Err(ConfigError {
                key,
                what: format!(
                    "lu={lu}: {lu} log units are as many partial programs of a page that was programmed before, and \
                     this device allows {nop} program(s) of a page between erases"
                ),
                fix: format!("use a device with {key}={}{instead}{less}", lu + 1),
            });
        }
        if lu > 0 && units.capacity(units.log_bytes()) == 0 {
            return Err(ConfigError {
                key: "log-share",
                what: format!("a log of {} bytes holds no unit of one entry", units.log_bytes()),
                fix: format!("a unit of one entry takes {} bytes", units.unit_bytes(1)),
            });
        }
        if !in_directory && units.mark(LogState { tail: units.log_bytes(), units: lu }).is_none() {
            return Err(ConfigError {
                key: "counters",
                what: format!("a log of {} bytes and {lu} units does not fit 16 bits", units.log_bytes()),
                fix: "use counters=directory".into(),
            });
        }
        let pages = TranslationStore::new(logical_pages, units.entries(), stream);
        let states = if in_directory { vec![LogState::default(); pages.count() as usize] } else { Vec::new() };
        Ok(Logged {
            pages,
            slc,
            units,
            states,
            closed: BTreeSet::new(),
            known: None,
            counters: Counters::default(),
            sorted: Vec::new(),
            bytes: Vec::new(),
        })
    }

    fn is_slc(&self) -> bool {
        self.slc
    }

    #[inline(always)]
    fn pages(&self) -> &TranslationStore {
        &self.pages
    }

    #[inline(always)]
    fn hint<F: Flash>(&self, flash: &F, tvpn: Tvpn, index: usize) {
        let tail = self.states.get(tvpn.index()).map(|state| ((self.units.log_start() + state.tail) / 4) as usize);
        flash.hint(self.at(tvpn), tail.unwrap_or(index));
    }

    fn entries(&self, page: TranslationPage<'_>, first: usize, out: &mut [u32]) {
        let tvpn = page.oob.tvpn();
        let state = if self.in_directory() {
            self.states[tvpn.index()]
        } else if self.closed.contains(&tvpn.0) {
            self.units.walk(page.words)
        } else {
            self.units.of_mark(page.oob.mark)
        };
        if let [entry] = out {
            *entry = self.units.entry(page.words, state, first as u32).0;
            return;
        }
        let known = out.len().min((self.units.entries() as usize).saturating_sub(first));
        out[..known].copy_from_slice(&page.words[first..first + known]);
        out[known..].fill(Ppn::NONE.0);
        self.units.replay(page.words, state, |index, ppn| {
            if let Some(entry) = (index as usize).checked_sub(first).and_then(|index| out.get_mut(index)) {
                *entry = ppn.0;
            }
        });
    }

    fn batch<F: Flash>(&mut self, flash: &mut F, tvpn: Tvpn, dirty: u32) -> Result<Batch, F::Fault> {
        if self.at(tvpn) == Ppn::NONE {
            return Ok(Batch::All);
        }
        let state = self.state(flash, tvpn, Cause::TranslationUpdate)?;
        let c = &mut self.counters;
        Ok(match self.units.flush(state, dirty) {
            Flush::WithinQuota(most) => {
                c.within_quota += 1;
                Batch::UpTo(most)
            }
            Flush::VictimAlone => {
                c.victim_alone += 1;
                Batch::Victim
            }
            Flush::OutOfPlace => {
                c.out_of_place += 1;
                Batch::All
            }
        })
    }

    fn fits<F: Flash>(&mut self, flash: &mut F, tvpn: Tvpn, entries: usize, cause: Cause) -> Result<bool, F::Fault> {
        if self.at(tvpn) == Ppn::NONE {
            return Ok(false);
        }
        let state = self.state(flash, tvpn, cause)?;
        Ok(self.units.fits(state, entries as u32))
    }

    fn check_mountable(&self) -> Result<(), ConfigError> {
        if self.units.is_guarded() {
            return Ok(());
        }
        Err(ConfigError {
            key: "log-parity",
            what: "with so little parity a log unit that was cut short cannot be told from a whole one".into(),
            fix: "format the device with log-parity=7 or more".into(),
        })
    }

    fn update<F: Flash>(
        &mut self,
        flash: &mut F,
        space: &mut Space,
        tvpn: Tvpn,
        entries: &[Entry],
        how: Update,
    ) -> Outcome<F> {
        let at = self.at(tvpn);
        if at != Ppn::NONE && !how.whole && !entries.is_empty() {
            let state = self.state(flash, tvpn, how.cause)?;
            if self.units.fits(state, entries.len() as u32) {
                if self.append(flash, tvpn, state, entries, how.cause)? {
                    return Ok(());
                }
                space.doom(at);
            }
        }
        self.put_entries(flash, space, tvpn, entries, how)
    }

    fn edit<F: Flash>(
        &mut self,
        flash: &mut F,
        space: &mut Space,
        tvpn: Tvpn,
        how: Update,
        mut edit: impl FnMut(&mut [u32]),
    ) -> Outcome<F> {
        self.counters.rewrites += 1;
        let entries = self.units.entries() as usize;
        let written_before = self.at(tvpn) != Ppn::NONE;
        let mut state = LogState::default();
        let Logged { pages, units, states, .. } = self;
        pages.update(flash, space, tvpn, how.all, how.cause, |words| {
            if written_before {
                // The page has no mark in the register: without a directory entry its log is walked.
                state = states.get(tvpn.index()).copied().unwrap_or_else(|| units.walk(words));
                units.fold(words, state);
            }
            edit(&mut words[..entries]);
        })?;
        if written_before {
            self.retired(tvpn, state);
        }
        Ok(())
    }

    fn rewrite<F: Flash>(
        &mut self,
        flash: &mut F,
        space: &mut Space,
        tvpn: Tvpn,
        words: &[u32],
        how: Update,
    ) -> Outcome<F> {
        self.counters.rewrites += 1;
        self.pages.rewrite(flash, space, tvpn, words, how.all, how.cause)?;
        self.put(tvpn, LogState::default());
        self.closed.remove(&tvpn.0);
        Ok(())
    }

    fn compact(&self, tvpn: Tvpn, words: &mut [u32]) {
        self.units.fold(words, self.state_of(tvpn, words));
    }

    fn moved(&mut self, tvpn: Tvpn, to: Ppn) {
        self.pages.found(tvpn, to);
        let state = if self.in_directory() { self.states[tvpn.index()] } else { LogState::default() };
        self.retired(tvpn, state);
    }

    fn found(&mut self, at: Ppn, page: TranslationPage<'_>) {
        let tvpn = page.oob.tvpn();
        self.pages.found(tvpn, at);
        let in_directory = self.in_directory();
        let Scan { state, torn } =
            if in_directory { self.units.scan(page.words) } else { self.units.scan_marked(page.words, page.oob.mark) };
        if torn { self.close(tvpn, state) } else { self.put(tvpn, state) }
    }

    fn memory(&self) -> u64 {
        let states = self.states.len() as u64 * u64::from(self.units.state_bytes());
        self.pages.memory() + states + self.closed.len() as u64 * 4
    }

    fn counters(&self, out: &mut Vec<(&'static str, u64)>) {
        let c = &self.counters;
        let values = [
            c.appends,
            c.rewrites,
            c.within_quota,
            c.victim_alone,
            c.out_of_place,
            c.retired,
            c.units_retired,
            c.bytes_retired,
        ];
        out.extend(COUNTERS.iter().map(|&(name, _)| name).zip(values));
    }

    fn reset_counters(&mut self) {
        self.counters = Counters::default();
    }

    fn save(&self, out: &mut Saver) {
        self.pages.save(out);
        let bytes = self.units.state_bytes() as usize;
        for &state in &self.states {
            self.units.pack(state).to_le_bytes()[..bytes].iter().for_each(|&byte| out.u8(byte));
        }
        if !self.in_directory() {
            out.u32(self.closed.len() as u32);
            self.closed.iter().for_each(|&tvpn| out.u32(tvpn));
        }
    }

    fn load(&mut self, from: &mut Loader<'_>) {
        self.pages.load(from);
        let bytes = self.units.state_bytes();
        for tvpn in 0..self.states.len() {
            let packed = (0..bytes).fold(0, |packed, byte| packed | u32::from(from.u8()) << (byte * 8));
            self.states[tvpn] = self.units.unpack(packed);
        }
        if !self.in_directory() {
            let closed = from.u32();
            self.closed = (0..closed).map(|_| from.u32()).collect();
        }
    }
}

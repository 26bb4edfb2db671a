//! What a read may return: the model that schemes are held to.
//!
//! The oracle follows the contract, not any scheme (docs/fault-model.md, "What is promised"). It is told every
//! operation when it begins and when it is acknowledged, every completed flush and every power cut, and knows for each
//! logical page the set of values that a read may return:
//!
//! - without a cut, exactly what was acknowledged last;
//! - after a cut, what was acknowledged last or is in flight, where acknowledged writes are durable
//!   ([`Durable::Acknowledged`]); elsewhere the value at the last completed flush, or any write since;
//! - where discards are not durable, also nothing or any earlier acknowledged version, if the page was discarded and
//!   not written since, or since that flush;
//! - once a page has been read, exactly what was read: no two reads differ, over any number of further cuts. (There are
//!   two exceptions. A discard was refused since the cut, and nothing was read: what the discard took may come back.
//!   And a discard that is not durable has no end but a write: each further cut may bring back a version that is newer
//!   than what was read, and older than the discard.)
//! - where the medium loses pages for good, an earlier version of one of these instead, of no more pages than the mount
//!   has said, and only when it is read for the first time since that mount.
//!
//! A host page's content is a *tag* that the oracle hands out: a number that grows with every write, and the LPN. A
//! medium can lose, keep or misplace tags but not invent them, so "any earlier version of this page" needs no history:
//! it is a tag of this LPN with a smaller number. Memory is proportional to the pages and to the writes since the last
//! flush.

use flash::Lpn;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;

/// What a discard promises (the parameter `durable-trim`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TrimPromise {
    /// A discard is a write of nothing.
    Durable,
    /// After a power cut, flushed or not, a discarded page may hold nothing or any earlier acknowledged version; after
    /// the next cut also a newer one.
    Loose,
}

/// Which acknowledged writes outlast a power cut. Discards wait for a flush in any case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Durable {
    /// Those before the last completed flush: a write buffer may hold the others.
    Flushed,
    /// Also all but those of the last so many requests that were accepted ([`Oracle::accept`]), of which several may be
    /// under way; with 0 all.
    Acknowledged(u64),
}

/// One state that a page was brought into.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Version {
    Nothing,
    Tag(u64),
    /// Discarded without durability: what it reads as, nothing at first. A cut may turn that to a newer version
    /// whose number is below this.
    Loose(Option<u64>, u64),
}

/// A page was brought into a state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Change {
    lpn: Lpn,
    version: Version,
    /// The request that did it.
    request: u64,
    /// Power was cut since: it may be lost already.
    in_doubt: bool,
}

/// How much is known of what a page reads as now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Known {
    /// What was acknowledged or read last.
    Exactly,
    /// That, or nothing: a discard of it was refused half way.
    PerhapsDiscarded,
    /// Power was cut: whatever the contract allows.
    AfterCut,
    /// That, or nothing: a discard of it was refused half way since the cut.
    AfterCutPerhapsDiscarded,
}

/// See the module's description.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Oracle {
    promise: TrimPromise,
    durable: Durable,
    /// Requests that were accepted.
    request: u64,
    /// What each page was brought to last, acknowledged or read.
    current: Vec<Version>,
    known: Vec<Known>,
    /// What it was at the last completed flush.
    flushed: Vec<Version>,
    /// Every change since, in order.
    since: Vec<Change>,
    /// How many of these, from the end, are not acknowledged yet.
    in_flight: usize,
    /// Writes that a cut interrupted, unless a read returned them since.
    unacknowledged: Vec<u64>,
    /// Number of the next tag.
    number: u64,
    /// What damage may have done; nobody is told of any on most media.
    damage: Option<Box<Damage>>,
}

/// What a mount has said of damage, and what came of it.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
struct Damage {
    /// Pages that may still turn out stale.
    excused: u64,
    /// The pages that may be among them.
    among: BTreeSet<Lpn>,
    /// Pages that were to be read since the mount, and could not be.
    unread: BTreeSet<Lpn>,
    /// Writes that were refused: these never happened.
    refused: BTreeSet<u64>,
    /// Pages that were found stale.
    stale: u64,
}

/// A read that returned what it must not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mismatch {
    /// The page.
    pub lpn: Lpn,
    /// What was read.
    pub read: Option<u64>,
    /// What would have been right.
    pub allowed: Allowed,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LPN {} reads as {}; allowed: {}", self.lpn, Tag(self.read), self.allowed)
    }
}

impl std::error::Error for Mismatch {}

/// The values that a read of a page may return.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Allowed {
    /// One by one, each once, oldest first.
    pub values: Vec<Option<u64>>,
    /// Also any acknowledged version of the page with one of these numbers: it was discarded, and a read may have
    /// returned one since.
    pub back_again: Option<Range<u64>>,
}

impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, &value) in self.values.iter().enumerate() {
            write!(f, "{}{}", if i == 0 { "" } else { " or " }, Tag(value))?;
        }
        match &self.back_again {
            Some(Range { start: 0, end }) => write!(f, " or any acknowledged write before number {end}"),
            Some(Range { start, end }) => write!(f, " or any acknowledged write from number {start} to {}", end - 1),
            None => Ok(()),
        }
    }
}

/// A value as text: `nothing`, or `write 17 of LPN 3`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tag(pub Option<u64>);

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("nothing"),
            Some(tag) => write!(f, "write {} of LPN {}", number_of(tag), lpn_of(tag)),
        }
    }
}

const LPN_BITS: u32 = 28;

fn number_of(tag: u64) -> u64 {
    tag >> LPN_BITS
}

fn lpn_of(tag: u64) -> u32 {
    (tag & ((1 << LPN_BITS) - 1)) as u32
}

impl Version {
    /// What it reads as while power holds.
    fn value(self) -> Option<u64> {
        match self {
            Version::Tag(tag) => Some(tag),
            Version::Nothing => None,
            Version::Loose(held, _) => held,
        }
    }

    /// The numbers of versions that a cut may bring back, if it is a discard without durability.
    fn back_again(self) -> Option<Range<u64>> {
        if let Version::Loose(held, below) = self { Some(held.map_or(0, number_of)..below) } else { None }
    }
}

impl Oracle {
    /// For a device of `pages` logical pages that hold nothing.
    pub fn new(pages: u32, promise: TrimPromise, durable: Durable) -> Oracle {
        Oracle {
            promise,
            durable,
            request: 0,
            current: vec![Version::Nothing; pages as usize],
            known: vec![Known::Exactly; pages as usize],
            flushed: vec![Version::Nothing; pages as usize],
            since: Vec::new(),
            in_flight: 0,
            unacknowledged: Vec::new(),
            number: 1,
            damage: None,
        }
    }

    /// From now on power cuts take other writes back.
    pub fn expect(&mut self, durable: Durable) {
        self.durable = durable;
    }

    /// A request of the host is accepted.
    pub fn accept(&mut self) {
        self.request += 1;
    }

    /// Nothing is under way any more.
    pub fn drain(&mut self) {
        if let Durable::Acknowledged(requests) = self.durable {
            self.request += requests;
        }
    }

    /// The medium may lose pages for good, spare areas among them: from now on mounts are told of
    /// ([`Oracle::excuse`]).
    pub fn expect_damage(&mut self) {
        self.damage = Some(Box::default());
    }

    /// A mount has said that at most `pages` logical pages may be stale, and the medium has lost pages of these. Until
    /// [`Oracle::demand`] a read of one of them may return any earlier acknowledged version, or nothing, once for each
    /// page that was said.
    pub fn excuse(&mut self, pages: u64, among: impl IntoIterator<Item = Lpn>) {
        let damage = self.damage.get_or_insert_default();
        damage.excused += pages;
        damage.among.extend(among);
    }

    /// Whether a page may hold nothing: it was discarded, or never written, and what was written since may be lost with
    /// power.
    pub fn may_be_nothing(&self, lpn: Lpn) -> bool {
        self.states(lpn).any(|version| version.value().is_none())
    }

    /// All such pages.
    pub fn perhaps_nothing(&self) -> Vec<Lpn> {
        (0..self.current.len() as u32).map(Lpn).filter(|&lpn| self.may_be_nothing(lpn)).collect()
    }

    /// Whether a page is among those that [`Oracle::excuse`] was told of, and was not read since.
    pub fn may_be_lost(&self, lpn: Lpn) -> bool {
        self.damage.as_ref().is_some_and(|damage| damage.excused > 0 && damage.among.contains(&lpn))
    }

    /// A read of a page was an error: what it holds is still open.
    pub fn unreadable(&mut self, lpn: Lpn) {
        if let Some(damage) = &mut self.damage {
            damage.unread.insert(lpn);
        }
    }

    /// Every page was read since the mount: from now on nothing is stale that was not, but for pages that could not be
    /// read at all, until they are read or written.
    pub fn demand(&mut self) {
        if let Some(damage) = &mut self.damage {
            let unread = std::mem::take(&mut damage.unread);
            damage.among.retain(|lpn| unread.contains(lpn));
            damage.excused = damage.excused.min(damage.among.len() as u64);
        }
    }

    /// Pages that were found stale, as mounts had said.
    pub fn stale(&self) -> u64 {
        self.damage.as_ref().map_or(0, |damage| damage.stale)
    }

    /// Whether an earlier version of a page, or nothing, is among what a mount has said.
    fn is_excused(&self, lpn: Lpn, value: Option<u64>) -> bool {
        let Some(damage) = &self.damage else { return false };
        let is_earlier = |tag: u64| {
            let newest = self.states(lpn).chain([self.current[lpn.index()]]).last().and_then(Version::value);
            lpn_of(tag) == lpn.0
                && number_of(tag) < newest.map_or(self.number, number_of)
                && !self.unacknowledged.contains(&tag)
                && !damage.refused.contains(&tag)
        };
        self.may_be_lost(lpn) && value.is_none_or(is_earlier)
    }

    /// A read has told what a page holds, over all that may have been: nothing else is right any more, until power is
    /// cut and a discard that is not durable lets a newer version come back.
    fn settle(&mut self, lpn: Lpn, value: Option<u64>) {
        let below = self.states(lpn).filter_map(Version::back_again).map(|numbers| numbers.end).max();
        let version = match (below, value) {
            (Some(below), value) if value.is_none_or(|tag| number_of(tag) < below) => Version::Loose(value, below),
            (_, Some(tag)) => Version::Tag(tag),
            (_, None) => Version::Nothing,
        };
        self.known[lpn.index()] = Known::Exactly;
        self.current[lpn.index()] = version;
        self.flushed[lpn.index()] = version;
        self.since.retain(|change| change.lpn != lpn);
        if !self.unacknowledged.is_empty() {
            self.unacknowledged.retain(|&tag| Some(tag) != value);
        }
    }

    /// A write of `lpn` begins; the tag to write.
    pub fn begin_write(&mut self, lpn: Lpn) -> u64 {
        debug_assert_eq!(self.in_flight, 0, "operations come one after another");
        let tag = self.number << LPN_BITS | u64::from(lpn.0);
        self.number += 1;
        self.since.push(Change { lpn, version: Version::Tag(tag), request: self.request, in_doubt: false });
        self.in_flight = 1;
        tag
    }

    /// A discard of `count` pages from `first` begins.
    pub fn begin_trim(&mut self, first: Lpn, count: u32) {
        debug_assert_eq!(self.in_flight, 0, "operations come one after another");
        let version = match self.promise {
            TrimPromise::Durable => Version::Nothing,
            TrimPromise::Loose => Version::Loose(None, self.number),
        };
        let change = |lpn| Change { lpn: Lpn(lpn), version, request: self.request, in_doubt: false };
        self.since.extend((first.0..first.0 + count).map(change));
        self.in_flight = count as usize;
    }

    /// What began is acknowledged.
    pub fn acknowledge(&mut self) {
        let first = self.since.len() - self.in_flight;
        for &Change { lpn, version, .. } in &self.since[first..] {
            self.current[lpn.index()] = version;
            self.known[lpn.index()] = Known::Exactly;
            if let Some(damage) = &mut self.damage {
                damage.among.remove(&lpn);
            }
        }
        self.in_flight = 0;
    }

    /// What began was refused (the device is full): a write did not happen, of a discard perhaps a part.
    pub fn refuse(&mut self) {
        let first = self.since.len() - self.in_flight;
        self.in_flight = 0;
        if let Some(&Change { version: Version::Tag(tag), .. }) = self.since.get(first) {
            self.since.truncate(first);
            if let Some(damage) = &mut self.damage {
                damage.refused.insert(tag);
            }
            return;
        }
        for change in &self.since[first..] {
            let known = &mut self.known[change.lpn.index()];
            *known = match *known {
                Known::Exactly | Known::PerhapsDiscarded => Known::PerhapsDiscarded,
                Known::AfterCut | Known::AfterCutPerhapsDiscarded => Known::AfterCutPerhapsDiscarded,
            };
        }
    }

    /// A flush completed: everything acknowledged so far is durable.
    pub fn flush(&mut self) {
        debug_assert_eq!(self.in_flight, 0, "a flush comes after what it makes durable");
        let Oracle { since, flushed, current, known, .. } = self;
        // What is not known for certain keeps its whole set.
        since.retain(|change| {
            let lpn = change.lpn.index();
            let exact = known[lpn] == Known::Exactly;
            if exact {
                flushed[lpn] = current[lpn];
            }
            !exact
        });
    }

    /// Power was cut, during what began last or between operations.
    pub fn power_cut(&mut self) {
        let first = self.since.len() - self.in_flight;
        self.unacknowledged.extend(self.since[first..].iter().filter_map(|change| change.version.value()));
        self.in_flight = 0;
        self.keep_durable(first);
        for change in &mut self.since {
            change.in_doubt = true;
            self.known[change.lpn.index()] = Known::AfterCut;
        }
        for (known, flushed) in self.known.iter_mut().zip(&self.flushed) {
            if flushed.back_again().is_some() {
                *known = Known::AfterCut;
            }
        }
    }

    /// Of the changes before `end`, which were acknowledged: writes that the cut cannot take back, and what came before
    /// them, are no longer open. A write that was in doubt before a cut is so after another one, too.
    fn keep_durable(&mut self, end: usize) {
        let Durable::Acknowledged(requests) = self.durable else { return };
        let Oracle { since, flushed, request, .. } = self;
        let is_kept = |change: &Change| {
            matches!(change.version, Version::Tag(_)) && !change.in_doubt && change.request + requests <= *request
        };
        // The last such write of each page.
        let mut kept = BTreeMap::new();
        for (number, change) in since[..end].iter().enumerate().filter(|(_, change)| is_kept(change)) {
            flushed[change.lpn.index()] = change.version;
            kept.insert(change.lpn, number);
        }
        let mut number = 0;
        since.retain(|change| {
            number += 1;
            kept.get(&change.lpn).is_none_or(|&last| number > last + 1)
        });
    }

    /// The states that the contract allows a page to be in after a cut.
    fn states(&self, lpn: Lpn) -> impl Iterator<Item = Version> + '_ {
        let since = self.since.iter().filter(move |change| change.lpn == lpn).map(|change| change.version);
        std::iter::once(self.flushed[lpn.index()]).chain(since)
    }

    /// Whether a read of `lpn` may return `value`.
    pub fn allows(&self, lpn: Lpn, value: Option<u64>) -> bool {
        let current = self.current[lpn.index()].value();
        match self.known[lpn.index()] {
            Known::Exactly => value == current,
            Known::PerhapsDiscarded => value == current || value.is_none(),
            Known::AfterCut | Known::AfterCutPerhapsDiscarded => {
                self.states(lpn).any(|version| match (version.back_again(), value) {
                    (Some(numbers), Some(tag)) => {
                        lpn_of(tag) == lpn.0 && numbers.contains(&number_of(tag)) && !self.unacknowledged.contains(&tag)
                    }
                    _ => version.value() == value,
                })
            }
        }
    }

    /// The values that a read of `lpn` may return.
    pub fn allowed(&self, lpn: Lpn) -> Allowed {
        let current = self.current[lpn.index()].value();
        let mut allowed = Allowed::default();
        let mut add = |value| {
            if !allowed.values.contains(&value) {
                allowed.values.push(value);
            }
        };
        match self.known[lpn.index()] {
            Known::Exactly => add(current),
            Known::PerhapsDiscarded => [current, None].into_iter().for_each(add),
            Known::AfterCut | Known::AfterCutPerhapsDiscarded => {
                self.states(lpn).for_each(|version| add(version.value()));
                let loose = || self.states(lpn).filter_map(Version::back_again);
                let start = loose().map(|numbers| numbers.start).min();
                let end = loose().map(|numbers| numbers.end).max();
                allowed.back_again = start.zip(end).map(|(start, end)| start..end);
            }
        }
        allowed
    }

    /// A read of `lpn` returned `value`. From now on nothing else is right.
    ///
    /// # Errors
    /// A value that is not allowed.
    pub fn observe(&mut self, lpn: Lpn, value: Option<u64>) -> Result<(), Mismatch> {
        if !self.allows(lpn, value) {
            if self.is_excused(lpn, value) {
                let damage = self.damage.as_mut().expect("there is an excuse");
                (damage.excused, damage.stale) = (damage.excused - 1, damage.stale + 1);
                damage.among.remove(&lpn);
                self.settle(lpn, value);
                return Ok(());
            }
            return Err(Mismatch { lpn, read: value, allowed: self.allowed(lpn) });
        }
        let i = lpn.index();
        match self.known[i] {
            Known::Exactly => {}
            Known::PerhapsDiscarded => {
                self.known[i] = Known::Exactly;
                if value != self.current[i].value() {
                    let discarded = self.states(lpn).last();
                    self.current[i] = discarded.unwrap_or(Version::Nothing);
                }
            }
            // Perhaps that is the discard, of which nothing is durable yet: a cut may bring back what was before.
            Known::AfterCutPerhapsDiscarded if value.is_none() => {
                self.known[i] = Known::Exactly;
                self.current[i] = self.states(lpn).last().unwrap_or(Version::Nothing);
            }
            Known::AfterCut | Known::AfterCutPerhapsDiscarded => self.settle(lpn, value),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Lpn = Lpn(0);
    const B: Lpn = Lpn(1);

    fn write(oracle: &mut Oracle, lpn: Lpn) -> Option<u64> {
        let tag = oracle.begin_write(lpn);
        oracle.acknowledge();
        Some(tag)
    }

    fn trim(oracle: &mut Oracle, lpn: Lpn) {
        oracle.begin_trim(lpn, 1);
        oracle.acknowledge();
    }

    fn values(oracle: &Oracle, lpn: Lpn) -> Vec<Option<u64>> {
        oracle.allowed(lpn).values
    }

    #[test]
    fn without_a_cut_only_the_last_acknowledged_value_is_right() {
        let mut oracle = Oracle::new(2, TrimPromise::Durable, Durable::Flushed);
        assert_eq!(values(&oracle, A), [None]);
        let first = write(&mut oracle, A);
        let second = write(&mut oracle, A);
        assert_eq!((values(&oracle, A), values(&oracle, B)), (vec![second], vec![None]));
        let mismatch = oracle.observe(A, first).unwrap_err();
        assert_eq!(mismatch.to_string(), "LPN 0 reads as write 1 of LPN 0; allowed: write 2 of LPN 0");
        trim(&mut oracle, A);
        assert_eq!(values(&oracle, A), [None]);
    }

    /// Without a write buffer: what a cut interrupts is open, what was acknowledged before is not.
    #[test]
    fn acknowledged_writes_are_durable_without_a_flush_where_that_is_promised() {
        for (durable, last) in [(Durable::Acknowledged(0), 2), (Durable::Acknowledged(1), 1), (Durable::Flushed, 0)] {
            let mut oracle = Oracle::new(1, TrimPromise::Durable, durable);
            let mut writes: Vec<Option<u64>> = vec![None];
            for _ in 0..2 {
                oracle.accept();
                writes.push(write(&mut oracle, A));
            }
            writes.push(Some(oracle.begin_write(A)));
            oracle.power_cut();
            // One request is under way, of which a part is acknowledged: with a single one outstanding, the one before.
            assert_eq!(values(&oracle, A), writes[last..], "{durable:?}");
        }
    }

    #[test]
    fn a_write_in_doubt_stays_so_over_further_cuts_and_a_discard_waits_for_a_flush() {
        let mut oracle = Oracle::new(1, TrimPromise::Durable, Durable::Acknowledged(1));
        let first = write(&mut oracle, A);
        oracle.accept();
        let second = write(&mut oracle, A);
        oracle.power_cut();
        assert_eq!(values(&oracle, A), [first, second]);
        oracle.accept();
        oracle.power_cut();
        assert_eq!(values(&oracle, A), [first, second], "it may have been lost in the first cut");
        // Once it is written again, what was before is gone when that is no longer under way.
        let third = write(&mut oracle, A);
        oracle.drain();
        trim(&mut oracle, A);
        oracle.power_cut();
        assert_eq!(values(&oracle, A), [third, None]);
    }

    #[test]
    fn a_write_in_flight_is_not_readable_before_it_is_acknowledged() {
        let mut oracle = Oracle::new(1, TrimPromise::Durable, Durable::Flushed);
        let old = write(&mut oracle, A);
        let new = oracle.begin_write(A);
        assert!(oracle.allows(A, old) && !oracle.allows(A, Some(new)));
    }

    #[test]
    fn after_a_cut_the_flushed_value_or_any_write_since_in_flight_included() {
        let mut oracle = Oracle::new(2, TrimPromise::Durable, Durable::Flushed);
        let before = write(&mut oracle, A);
        let flushed = write(&mut oracle, A);
        oracle.flush();
        let later = write(&mut oracle, A);
        let in_flight = Some(oracle.begin_write(A));
        oracle.power_cut();
        assert_eq!(values(&oracle, A), [flushed, later, in_flight]);
        assert!(!oracle.allows(A, before), "overwritten before the flush");
        assert!(!oracle.allows(A, None), "it was never discarded");
        assert_eq!(values(&oracle, B), [None]);
    }

    #[test]
    fn a_value_once_read_is_the_only_one_over_further_cuts() {
        let mut oracle = Oracle::new(1, TrimPromise::Durable, Durable::Flushed);
        let old = write(&mut oracle, A);
        oracle.flush();
        let new = write(&mut oracle, A);
        oracle.power_cut();
        oracle.power_cut();
        assert_eq!(values(&oracle, A), [old, new], "nobody has looked yet");
        oracle.observe(A, old).unwrap();
        oracle.observe(A, new).unwrap_err();
        oracle.power_cut();
        assert_eq!(values(&oracle, A), [old]);
    }

    #[test]
    fn a_flush_after_a_cut_keeps_what_nobody_has_read_open() {
        let mut oracle = Oracle::new(1, TrimPromise::Durable, Durable::Flushed);
        let old = write(&mut oracle, A);
        oracle.flush();
        let new = write(&mut oracle, A);
        oracle.power_cut();
        oracle.flush();
        oracle.power_cut();
        assert_eq!(values(&oracle, A), [old, new]);
        let newest = write(&mut oracle, A);
        oracle.flush();
        oracle.power_cut();
        assert_eq!(values(&oracle, A), [newest]);
    }

    #[test]
    fn a_durable_discard_is_a_write_of_nothing() {
        let mut oracle = Oracle::new(2, TrimPromise::Durable, Durable::Flushed);
        let old = write(&mut oracle, A);
        oracle.flush();
        trim(&mut oracle, A);
        let mut cut = oracle.clone();
        cut.power_cut();
        assert_eq!(values(&cut, A), [old, None]);
        oracle.flush();
        oracle.power_cut();
        assert_eq!(oracle.allowed(A), Allowed { values: vec![None], back_again: None });
        assert!(!oracle.allows(A, old));
    }

    #[test]
    fn a_loose_discard_may_bring_back_any_earlier_version_of_its_page_even_after_a_flush() {
        let mut oracle = Oracle::new(2, TrimPromise::Loose, Durable::Flushed);
        let (first, second, other) = (write(&mut oracle, A), write(&mut oracle, A), write(&mut oracle, B));
        trim(&mut oracle, A);
        assert_eq!(values(&oracle, A), [None], "power holds");
        oracle.flush();
        let mut cut = oracle.clone();
        cut.power_cut();
        assert!(cut.allows(A, None) && cut.allows(A, first) && cut.allows(A, second));
        assert!(!cut.allows(A, other), "another page's data");
        let new = write(&mut oracle, A);
        oracle.flush();
        oracle.power_cut();
        assert_eq!(oracle.allowed(A), Allowed { values: vec![new], back_again: None });
    }

    /// A block whose erase was cut short may hide a version from one mount and show it to the next.
    #[test]
    fn over_further_cuts_a_loose_discard_brings_back_newer_versions_alone() {
        let mut oracle = Oracle::new(1, TrimPromise::Loose, Durable::Flushed);
        let [first, second, third] = [(); 3].map(|()| write(&mut oracle, A));
        trim(&mut oracle, A);
        oracle.power_cut();
        oracle.observe(A, None).unwrap();
        assert_eq!(values(&oracle, A), [None], "power holds");
        oracle.power_cut();
        assert!([None, first, second, third].into_iter().all(|value| oracle.allows(A, value)));
        oracle.observe(A, second).unwrap();
        assert_eq!(values(&oracle, A), [second], "power holds");
        oracle.flush();
        oracle.power_cut();
        let allowed = [None, first, second, third].map(|value| oracle.allows(A, value));
        assert_eq!(allowed, [false, false, true, true]);
        let mismatch = oracle.clone().observe(A, first).unwrap_err().to_string();
        assert!(
            mismatch.ends_with("allowed: write 2 of LPN 0 or any acknowledged write from number 2 to 3"),
            "{mismatch}"
        );
        // What is written ends it, and so does a read of what was written, over a cut.
        let written = write(&mut oracle, A);
        let mut cut = oracle.clone();
        cut.power_cut();
        assert!(cut.allows(A, third));
        cut.observe(A, written).unwrap();
        cut.power_cut();
        assert_eq!(cut.allowed(A), Allowed { values: vec![written], back_again: None });
        oracle.flush();
        oracle.power_cut();
        assert_eq!(oracle.allowed(A), Allowed { values: vec![written], back_again: None });
    }

    #[test]
    fn a_loose_discard_never_brings_back_a_later_or_an_unacknowledged_write() {
        let mut oracle = Oracle::new(1, TrimPromise::Loose, Durable::Flushed);
        let old = write(&mut oracle, A);
        oracle.flush();
        let lost = Some(oracle.begin_write(A));
        oracle.power_cut();
        oracle.observe(A, old).unwrap();
        trim(&mut oracle, A);
        let new = oracle.begin_write(A);
        oracle.power_cut();
        assert!(oracle.allows(A, old) && oracle.allows(A, None) && oracle.allows(A, Some(new)));
        assert!(!oracle.allows(A, lost), "it was in flight, and then read as its predecessor");
        assert!(!oracle.allows(A, Some(new + (1 << LPN_BITS))), "written never");
    }

    #[test]
    fn a_refused_write_did_not_happen_and_a_refused_discard_perhaps() {
        let mut oracle = Oracle::new(2, TrimPromise::Durable, Durable::Flushed);
        let old = write(&mut oracle, A);
        oracle.begin_write(A);
        oracle.refuse();
        assert_eq!(values(&oracle, A), [old]);
        oracle.begin_trim(A, 2);
        oracle.refuse();
        assert_eq!(values(&oracle, A), [old, None]);
        oracle.observe(A, None).unwrap();
        assert_eq!(values(&oracle, A), [None]);
    }

    /// The page counted as read, and what a cut brought back as lost.
    #[test]
    fn what_a_refused_discard_took_may_come_back_if_nobody_read_it_between_the_cuts() {
        for promise in [TrimPromise::Durable, TrimPromise::Loose] {
            let mut oracle = Oracle::new(1, promise, Durable::Flushed);
            let old = write(&mut oracle, A);
            oracle.flush();
            let new = write(&mut oracle, A);
            oracle.power_cut();
            oracle.begin_trim(A, 1);
            oracle.refuse();
            assert!(oracle.allows(A, old) && oracle.allows(A, new) && oracle.allows(A, None));
            let mut flushed = oracle.clone();
            let mut read = oracle.clone();
            oracle.observe(A, None).unwrap();
            assert_eq!(values(&oracle, A), [None], "while power holds");
            oracle.observe(A, old).unwrap_err();
            oracle.power_cut();
            assert!(oracle.allows(A, old) && oracle.allows(A, new) && oracle.allows(A, None));
            // A flush makes it durable, once it is known that it happened.
            flushed.flush();
            assert!(flushed.allows(A, old) && flushed.allows(A, None));
            flushed.observe(A, None).unwrap();
            flushed.flush();
            flushed.power_cut();
            assert!(flushed.allows(A, None) && flushed.allows(A, old) == (promise == TrimPromise::Loose));
            // It did not happen.
            read.observe(A, old).unwrap();
            read.power_cut();
            assert_eq!(values(&read, A), [old]);
        }
    }

    #[test]
    fn damage_makes_as_many_pages_stale_as_a_mount_has_said_and_no_others() {
        let mut oracle = Oracle::new(3, TrimPromise::Durable, Durable::Flushed);
        oracle.expect_damage();
        let c = Lpn(2);
        let old = [A, B, c].map(|lpn| write(&mut oracle, lpn));
        for lpn in [A, B, c] {
            write(&mut oracle, lpn);
        }
        let refused = Some(oracle.begin_write(A));
        oracle.refuse();
        oracle.flush();
        oracle.power_cut();
        oracle.clone().observe(A, old[0]).unwrap_err();
        // The medium has lost pages of A and B, and the mount speaks of one page.
        oracle.excuse(1, [A, B]);
        oracle.observe(c, old[2]).unwrap_err();
        oracle.observe(A, old[1]).unwrap_err();
        oracle.observe(A, refused).unwrap_err();
        oracle.observe(A, old[0]).unwrap();
        oracle.observe(B, old[1]).unwrap_err();
        assert_eq!((values(&oracle, A), oracle.stale()), (vec![old[0]], 1));
        oracle.power_cut();
        oracle.observe(A, None).unwrap_err();
    }

    #[test]
    fn a_page_that_could_not_be_read_may_turn_out_stale_later_unless_it_is_written() {
        let mut oracle = Oracle::new(2, TrimPromise::Durable, Durable::Flushed);
        oracle.expect_damage();
        let old = write(&mut oracle, A);
        write(&mut oracle, A);
        write(&mut oracle, B);
        oracle.flush();
        oracle.power_cut();
        oracle.excuse(2, [A, B]);
        assert!(oracle.may_be_lost(A) && oracle.may_be_lost(B));
        oracle.unreadable(A);
        oracle.demand();
        assert!(oracle.may_be_lost(A) && !oracle.may_be_lost(B));
        oracle.clone().observe(A, old).unwrap();
        oracle.clone().observe(B, None).unwrap_err();
        write(&mut oracle, A);
        oracle.observe(A, old).unwrap_err();
        assert!(!oracle.may_be_lost(A));
    }

    #[test]
    fn a_page_may_be_nothing_until_what_was_written_behind_a_discard_is_flushed() {
        let mut oracle = Oracle::new(2, TrimPromise::Durable, Durable::Flushed);
        assert_eq!(oracle.perhaps_nothing(), [A, B], "never written");
        for lpn in [A, B] {
            write(&mut oracle, lpn);
        }
        oracle.flush();
        assert!(oracle.perhaps_nothing().is_empty());
        trim(&mut oracle, B);
        oracle.flush();
        write(&mut oracle, B);
        assert_eq!(oracle.perhaps_nothing(), [B]);
        oracle.flush();
        assert!(oracle.perhaps_nothing().is_empty());
    }

    #[test]
    fn memory_does_not_grow_with_flushed_writes() {
        let mut oracle = Oracle::new(2, TrimPromise::Loose, Durable::Flushed);
        for _ in 0..1000 {
            write(&mut oracle, A);
            trim(&mut oracle, B);
            oracle.flush();
        }
        assert!(oracle.since.is_empty() && oracle.unacknowledged.is_empty());
    }
}

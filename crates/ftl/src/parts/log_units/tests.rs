//! The paper's arithmetic, units at any place, torn ones, and what a look-up costs.

use super::*;
use alloc::collections::BTreeMap;
use alloc::vec;
use core::cell::Cell;
use flash::{AppendFace, Cause, Damage, Flash, Full, Kind, Nand, NoData, Oob, Payload, Rng, Tvpn};
use proptest::prelude::*;

/// Headers of 4 and parities of 7 bytes, a quarter of 4 KiB: the defaults.
fn plain() -> LogUnits {
    LogUnits::new(4096, 0.25, [4, 6, 7], 3).unwrap()
}

fn left(log: &LogUnits, state: LogState) -> (u32, u32) {
    (log.log_bytes() - state.tail, log.threshold - state.units)
}

#[test]
fn sizes_are_the_specification_s() {
    let log = plain();
    assert_eq!((log.entries(), log.log_start(), log.log_bytes()), (768, 3072, 1024));
    assert_eq!((log.unit_bytes(1), log.unit_bytes(54), log.unit_bytes(85)), (17, 335, 4 + 510 + 14));
    // 2 B of 11 and 2 bits: a directory entry of 6 B.
    assert_eq!(log.state_bytes(), 2);
    assert!(log.is_guarded() && !LogUnits::new(4096, 0.25, [4, 6, 6], 3).unwrap().is_guarded());
    for bytes in 0..2000 {
        let most = log.capacity(bytes);
        assert!(log.unit_bytes(most + 1) > bytes && (most == 0 || log.unit_bytes(most) <= bytes), "{bytes}");
    }
}

#[test]
fn sizes_that_cannot_work_are_refused() {
    for (page, share, header, parity) in [(4096, 0.0, 4, 7), (4096, 1.0, 4, 7), (4096, f64::NAN, 4, 7)] {
        assert!(LogUnits::new(page, share, [header, 6, parity], 3).is_err());
    }
    assert!(LogUnits::new(4096, 0.25, [3, 6, 7], 3).is_err() && LogUnits::new(4096, 0.25, [4, 6, 65], 3).is_err());
    assert!(LogUnits::new(1 << 20, 0.25, [4, 6, 7], 3).unwrap_err().contains("196608 entries"));
    assert!(LogUnits::new(1 << 20, 0.9, [4, 6, 7], 3).is_err());
    assert!(LogUnits::new(1 << 18, 0.25, [4, 6, 7], 3).is_ok());
}

/// The worked example of the specification, line by line.
#[test]
fn the_worked_example() {
    let log = LogUnits::new(512, 0.125, [4, 6, 0], 3).unwrap();
    assert_eq!(log.log_bytes(), 64);
    let mut state = LogState::default();
    assert_eq!((log.quota(state), log.flush(state, 1)), (21, Flush::WithinQuota(2)));
    assert_eq!((log.unit_bytes(2), log.unit_bytes(4)), (16, 28));
    state = log.after(state, 2);
    assert_eq!(left(&log, state), (48, 2));
    assert_eq!((log.quota(state), log.flush(state, 5)), (24, Flush::VictimAlone));
    assert_eq!(log.unit_bytes(5), 34);
    state = log.after(state, 5);
    assert_eq!(left(&log, state), (14, 1));
    assert_eq!((log.quota(state), log.flush(state, 1)), (14, Flush::WithinQuota(1)));
    state = log.after(state, 1);
    assert_eq!(left(&log, state), (4, 0));
    assert_eq!((log.quota(state), log.flush(state, 1)), (0, Flush::OutOfPlace));
}

#[test]
fn the_quota_is_an_equal_share_of_what_is_left() {
    let log = plain();
    // 1024 / 3 = 341 bytes: 55 entries.
    assert_eq!(log.capacity(log.quota(LogState::default())), 55);
    let flush = |victim| log.flush(LogState::default(), victim);
    assert_eq!((flush(1), flush(55)), (Flush::WithinQuota(55), Flush::WithinQuota(55)));
    assert_eq!((flush(56), flush(170 - 5)), (Flush::VictimAlone, Flush::VictimAlone));
    assert_eq!(flush(200), Flush::OutOfPlace);
    let none = LogUnits { threshold: 0, ..log };
    assert_eq!(none.flush(LogState::default(), 1), Flush::OutOfPlace);
    assert!(!none.fits(LogState::default(), 1));
}

#[test]
fn a_state_fits_the_spare_area_of_small_pages() {
    let log = plain();
    assert_eq!(log.mark(LogState::default()), Some(0), "as a page without partial program says");
    for state in [LogState { tail: 17, units: 1 }, LogState { tail: 1024, units: 31 }] {
        assert_eq!(log.mark(state).map(|mark| log.of_mark(mark)), Some(state));
    }
    assert_eq!(log.mark(LogState { tail: 0, units: 32 }), None);
    let large = LogUnits::new(1 << 16, 0.25, [4, 6, 7], 7).unwrap();
    assert_eq!(large.mark(LogState { tail: 17, units: 7 }), None);
}

/// A page as flash holds it, and what it means.
struct LoggedPage {
    log: LogUnits,
    words: Vec<u32>,
    state: LogState,
    truth: BTreeMap<u32, Ppn>,
}

impl LoggedPage {
    fn new(log: LogUnits, rng: &mut Rng) -> LoggedPage {
        let mut words = vec![u32::MAX; (log.log_start() + log.log_bytes()) as usize / 4];
        let mut truth = BTreeMap::new();
        for index in 0..log.entries() {
            let ppn = any_ppn(rng);
            words[index as usize] = ppn.0;
            truth.insert(index, ppn);
        }
        LoggedPage { log, words, state: LogState::default(), truth }
    }

    fn put(&mut self, at: u32, bytes: &[u8]) {
        for (at, &byte) in (at..).zip(bytes) {
            self.words[at as usize / 4] &= !(u32::from(!byte) << (at % 4 * 8));
        }
    }

    fn main(&self) -> BTreeMap<u32, Ppn> {
        (0..self.log.entries()).map(|index| (index, Ppn(self.words[index as usize]))).collect()
    }

    fn tail(&self) -> u32 {
        self.log.log_start() + self.state.tail
    }

    /// A unit of `count` entries, not appended yet.
    fn unit(&self, count: u32, rng: &mut Rng) -> (Vec<u8>, BTreeMap<u32, Ppn>) {
        let mut entries = BTreeMap::new();
        while (entries.len() as u32) < count.min(self.log.entries()) {
            entries.insert(rng.below(u64::from(self.log.entries())) as u32, any_ppn(rng));
        }
        let mut bytes = vec![1, 2, 3];
        self.log.encode(entries.iter().map(|(&index, &ppn)| (index, ppn)), &mut bytes);
        assert_eq!(bytes.len() as u32, self.log.unit_bytes(entries.len() as u32));
        (bytes, entries)
    }

    fn append(&mut self, count: u32, rng: &mut Rng) {
        let (bytes, entries) = self.unit(count, rng);
        self.put(self.tail(), &bytes);
        self.state = self.log.after(self.state, entries.len() as u32);
        self.truth.extend(entries);
    }
}

fn any_ppn(rng: &mut Rng) -> Ppn {
    if rng.chance(0.1) { Ppn::NONE } else { Ppn(rng.below(Geometry::MAX_PAGES) as u32) }
}

proptest! {
    #[test]
    fn what_is_appended_is_read_back_in_every_way(
        seed: u64, page in 9..14u32, share in 0.05..0.5f64, header in 4..12u32, parity in 0..15u32, threshold in 1..8u32
    ) {
        let rng = &mut Rng::new(seed);
        let log = LogUnits::new(1 << page, share, [header, 6, parity], threshold).unwrap();
        let mut page = LoggedPage::new(log, rng);
        loop {
            let count = 1 + rng.below(u64::from(log.capacity(log.log_bytes()).max(1))) as u32;
            if !log.fits(page.state, count.min(log.entries())) {
                break;
            }
            page.append(count, rng);
            prop_assert_eq!(log.scan(&page.words), Scan { state: page.state, torn: false });
            let mut replayed = page.main();
            log.replay(&page.words, page.state, |index, ppn| _ = replayed.insert(index, ppn));
            prop_assert_eq!(&replayed, &page.truth);
            for (&index, &ppn) in &page.truth {
                prop_assert_eq!(log.entry(&page.words, page.state, index), ppn);
            }
        }
        let state = page.state;
        log.fold(&mut page.words, state);
        prop_assert_eq!(&page.main(), &page.truth);
        prop_assert_eq!(log.scan(&page.words), Scan { state: LogState::default(), torn: false });
    }

    #[test]
    fn up_to_eight_wrong_bits_of_a_unit_are_found(
        seed: u64, before in 0..3u32, count in 1..150u32, wrong in 1..9usize
    ) {
        let rng = &mut Rng::new(seed);
        let log = LogUnits { threshold: 9, ..plain() };
        let mut page = LoggedPage::new(log, rng);
        (0..before).for_each(|_| page.append(1 + rng.clone().below(5) as u32, rng));
        let (bytes, entries) = page.unit(count.min(log.capacity(log.log_bytes() - page.state.tail)), rng);
        let at = page.tail();
        page.put(at, &bytes);
        let whole = log.after(page.state, entries.len() as u32);
        prop_assert_eq!(log.scan(&page.words), Scan { state: whole, torn: false });
        let mut flipped = alloc::collections::BTreeSet::new();
        while flipped.len() < wrong {
            flipped.insert(at * 8 + rng.below(bytes.len() as u64 * 8) as u32);
        }
        flipped.iter().for_each(|bit| page.words[*bit as usize / 32] ^= 1 << (bit % 32));
        prop_assert_eq!(log.scan(&page.words), Scan { state: page.state, torn: true }, "{:?}", flipped);
    }
}

/// Also without parity, of which a blank end needs none.
#[test]
fn every_beginning_of_a_unit_is_recognised_as_torn() {
    let rng = &mut Rng::new(5);
    for parity in [0, 3, 7, 9] {
        let log = LogUnits::new(4096, 0.25, [5, 6, parity], 3).unwrap();
        for count in [1, 2, 30, 84, 85, 140] {
            let mut page = LoggedPage::new(log, rng);
            page.append(2, rng);
            let (bytes, _) = page.unit(count, rng);
            let blank = page.words.clone();
            for length in 0..bytes.len() {
                page.words.copy_from_slice(&blank);
                page.put(page.tail(), &bytes[..length]);
                // What is missing may be blank by itself: the end of an entry that maps to nothing.
                let missing = bytes[length..].iter().any(|&byte| byte != u8::MAX);
                let whole = log.after(page.state, count);
                let expected = Scan { state: if missing { page.state } else { whole }, torn: missing && length > 0 };
                assert_eq!(log.scan(&page.words), expected, "{length} of {} bytes", bytes.len());
                assert!(missing || parity == 0);
            }
        }
    }
}

/// A torn unit of each face on a chip: it is whole, not there, or recognised, and then nothing follows it.
#[test]
fn a_torn_partial_program_is_recognised() {
    let log = plain();
    let (mut torn, mut whole, mut mark_alone) = (0, 0, 0);
    for seed in 0..600 {
        let rng = &mut Rng::new(seed);
        let g = Geometry { blocks_per_die: 1, pages_per_block: 4, nop: 4, ..Geometry::default() };
        let mut chip = Nand::<NoData, Full>::new(g.checked().unwrap());
        let page = LoggedPage::new(log, rng);
        let oob = Oob::translation(Tvpn(0), 1, 1);
        let Ok(()) = chip.program(Ppn(0), oob, Payload::Meta(&page.words), Cause::TranslationUpdate);
        let (first, _) = page.unit(1 + rng.below(40) as u32, rng);
        let count = (first.len() as u32 - 11) / 6;
        let state = log.after(page.state, count);
        let mark = log.mark(state).unwrap();
        let Ok(()) = chip.append(Ppn(0), log.log_start(), &first, mark, Cause::TranslationUpdate);
        let Ok((spare, read)) = chip.read(Ppn(0), Cause::Host);
        assert_eq!(log.of_mark(spare.mark), state);
        assert_eq!(log.scan_marked(read.meta(), spare.mark), Scan { state, torn: false });
        let (second, entries) = page.unit(1 + rng.below(60) as u32, rng);
        let (at, face) = (log.log_start() + state.tail, AppendFace::ALL[seed as usize % 2]);
        // Every third scheme keeps the state in RAM.
        let second_mark = if seed % 3 == 0 { mark } else { log.mark(log.after(state, entries.len() as u32)).unwrap() };
        chip.tear_append(Ppn(0), at, &second, second_mark, face, rng);
        let Ok((oob, read)) = chip.read(Ppn(0), Cause::Recovery);
        assert_eq!(oob.kind, Kind::Translation, "it is for the unit's own parity to tell");
        let found = log.scan(read.meta());
        if found.state != state {
            assert_eq!(found, Scan { state: log.after(state, entries.len() as u32), torn: false });
            whole += 1;
        }
        torn += u32::from(found.torn);
        let programs = chip.metadata_state(Ppn(0)).unwrap().1;
        let marked = log.scan_marked(chip.read(Ppn(0), Cause::Recovery).unwrap().1.meta(), oob.mark);
        if seed % 3 != 0 {
            mark_alone += u32::from(marked.torn && !found.torn);
            assert!(marked.torn || programs == 1 + found.state.units, "a program that nobody sees");
        } else {
            assert!(found.torn || programs == 1 + found.state.units, "a program that nobody sees");
        }
    }
    assert!(torn > 500 && whole < 20 && mark_alone > 0, "{torn} torn, {whole} whole, {mark_alone} by their mark");
}

/// Words read by a look-up: what it costs on every miss of the mapping cache.
#[test]
fn a_look_up_reads_few_words() {
    let rng = &mut Rng::new(7);
    let mut most_words = |units: &[u32]| {
        let mut page = LoggedPage::new(plain(), rng);
        units.iter().for_each(|&count| page.append(count, rng));
        let reads = Cell::new(0);
        let counting = |word: usize| {
            reads.set(reads.get() + 1);
            page.words[word]
        };
        let cost = |index| {
            reads.set(0);
            page.log.entry_from(&counting, page.state.units, index);
            reads.get()
        };
        (0..page.log.entries()).map(cost).max().unwrap()
    };
    assert_eq!(most_words(&[]), 1);
    // The main area; of each unit its header, one place of each bisection, at times in two words, and the page.
    assert!(most_words(&[1]) <= 1 + 2 + 2 + 2);
    let three = most_words(&[54, 54, 54]);
    assert!(three <= 1 + 3 * (2 + 6 * 2 + 2), "{three} words");
}

//! The order in which blocks go.

use super::*;
use crate::schemes::scftl::ROW;
use flash::Geometry;

/// One block of each class of Table I, and two more modified ones in the translation page that has three: its MC is the
/// threshold of two bits.
fn one_of_each() -> Runs {
    let shape = Shape { logical_pages: 1024, page_entries: 128, geometry: Geometry::default().checked().unwrap() };
    let mut settings = ROW.settings();
    settings.set("threshold-bits", "2").unwrap();
    let mut runs = Runs::new(&shape, &(&settings).into(), 1000);
    for (lpn, accessed, modified) in [
        (0, false, false),
        (128, false, true),
        (256, false, true),
        (130, true, true),
        (132, true, true),
        (384, true, false),
        (260, true, true),
    ] {
        let slot = runs.insert(lpn, 1, 2 * lpn, accessed);
        if modified {
            runs.modify(slot);
        }
    }
    runs
}

/// The first LPNs of the blocks in the order in which they are chosen.
fn order(fetching: Fetching) -> Vec<u32> {
    let mut runs = one_of_each();
    let mut gone = Vec::new();
    while let Some(victim) = runs.victim(fetching, NONE) {
        gone.push(runs.tag[victim as usize]);
        if has(&runs.modified, victim) {
            runs.unchain(victim);
        }
        runs.drop_block(victim);
    }
    gone
}

#[test]
fn victims_go_by_the_classes_of_table_i() {
    // Not accessed: clean, modified among many, modified among few. Then the same of those that were accessed.
    assert_eq!(order(Fetching::Normal), [0, 128, 256, 384, 130, 132, 260]);
    // For an entry that nobody asked for, what is modified among few stays.
    assert_eq!(order(Fetching::Spatial), [0, 128, 384, 130, 132]);
    assert_eq!(order(Fetching::Clean), [0, 384]);
}

/// A cache of eight blocks or so over one translation page of 128 entries.
fn runs(pairs: &[(&str, &str)]) -> Runs {
    let shape = Shape { logical_pages: 256, page_entries: 128, geometry: Geometry::default().checked().unwrap() };
    let mut settings = ROW.settings();
    pairs.iter().for_each(|(name, value)| settings.set(name, value).unwrap());
    Runs::new(&shape, &(&settings).into(), 80)
}

/// A run of four modified entries is one block and four entries: with a threshold of three it is worth a write-back or
/// not, and a spatial fetch takes it or not.
#[test]
fn the_count_of_a_translation_page_is_of_entries_or_blocks() {
    for (unit, count, worth) in [("entries", 3, true), ("blocks", 1, false)] {
        let mut runs = runs(&[("threshold-bits", "2"), ("mc-unit", unit)]);
        let slot = runs.insert(8, 4, 100, false);
        runs.modify(slot);
        assert_eq!(runs.modified_count[0], count, "{unit}");
        assert_eq!(runs.victim(Fetching::Spatial, NONE).is_some(), worth, "{unit}");
        runs.audit().unwrap();
    }
    // Entry by entry: a run of eight is split where one of it changes, and the next one joins that.
    let mut counted = runs(&[("threshold-bits", "8")]);
    let slot = counted.insert(8, 8, 100, false);
    for (lpn, ppn, expected) in [(10, 200, 1), (11, 201, 2), (10, 300, 2), (9, 299, 3), (15, 400, 4)] {
        let slot = counted.find(Lpn(lpn)).unwrap_or(slot);
        counted.change(slot, lpn, ppn, true);
        assert_eq!(counted.modified_count[0], expected, "LPN {lpn}");
        counted.audit().unwrap();
    }
}

/// Four blocks that were all used: who has the flag after each use, and after two victims were passed.
#[test]
fn flags_age_at_uses_or_at_evictions_or_under_the_pointer() {
    let flags = |runs: &Runs| (0..4).map(|slot| has(&runs.accessed, slot)).collect::<Vec<_>>();
    for (ageing, used, first, second) in [
        ("access", [false, false, false, true], [false, false, false, true], [false, false, false, true]),
        ("eviction", [true; 4], [false; 4], [false; 4]),
        ("pointer", [true; 4], [false, true, true, true], [false, false, true, true]),
    ] {
        let mut runs = runs(&[("nru-ageing", ageing)]);
        for lpn in [0, 20, 40, 60] {
            let _ = runs.insert(lpn, 1, 2 * lpn, false);
        }
        (0..4).for_each(|slot| runs.touch(slot));
        assert_eq!(flags(&runs), used, "{ageing}");
        // The first two blocks go.
        for (victim, after) in [(0, first), (1, second)] {
            // (The pointer has left the first block without its flag.)
            let next = if ageing == "pointer" { 0 } else { victim };
            assert_eq!(runs.victim(Fetching::Normal, NONE), Some(next), "{ageing}");
            runs.pass(victim);
            assert_eq!(flags(&runs), after, "{ageing}: past {victim}");
            let counted = flags(&runs).iter().filter(|&&flag| !flag).count() as u32;
            assert_eq!(runs.unaccessed, counted, "{ageing}");
        }
    }
}

/// The pointer goes round: it passes the last blocks and then the first ones.
#[test]
fn the_pointer_passes_the_end() {
    let mut runs = runs(&[("nru-ageing", "pointer")]);
    let blocks = runs.capacity;
    for slot in 0..blocks {
        let _ = runs.insert(20 * slot, 1, 2 * slot, true);
    }
    runs.pointer = blocks - 2;
    runs.pass(1);
    let kept: Vec<u32> = (0..blocks).filter(|&slot| has(&runs.accessed, slot)).collect();
    assert_eq!(kept, (2..blocks - 2).collect::<Vec<_>>());
    assert_eq!((runs.pointer, runs.unaccessed), (2, 4));
}

/// Entry 8 is asked for, 9 is cached, 10 maps nothing, 11 to 14 are four pages apart: four entries with the one asked
/// for are 8 to 11, or 8 and 11, 12, 13.
#[test]
fn a_spatial_fetch_counts_what_it_brings_in_or_its_span() {
    for (counts, expected) in [("fetched", &[8, 11, 12, 13][..]), ("span", &[8, 11])] {
        let mut runs = runs(&[("spatial", "4"), ("spatial-counts", counts)]);
        let _ = runs.insert(9, 1, 900, true);
        let words: Vec<u32> = (0..128).map(|lpn| if lpn == 10 { NONE } else { 4 * lpn }).collect();
        runs.plan(8, 0, &words);
        let planned: Vec<u32> = runs.planned.iter().map(|&(lpn, _, _)| lpn).collect();
        assert_eq!(planned, expected, "{counts}");
        assert!(runs.planned.iter().all(|&(lpn, length, ppn)| length == 1 && ppn == 4 * lpn));
    }
}

/// A run that is fetched is cut where so many entries were brought in.
#[test]
fn a_fetched_run_ends_with_the_count() {
    for (counts, expected) in [("fetched", &[(8, 1, 8), (20, 3, 20)][..]), ("span", &[(8, 1, 8)][..])] {
        let mut runs = runs(&[("spatial", "4"), ("spatial-counts", counts)]);
        // From 20 on the pages are one behind the other; between nothing is mapped.
        let words: Vec<u32> = (0..128).map(|lpn| if (9..20).contains(&lpn) { NONE } else { lpn }).collect();
        runs.plan(8, 8, &words[8..]);
        assert_eq!(runs.planned, expected, "{counts}");
    }
}

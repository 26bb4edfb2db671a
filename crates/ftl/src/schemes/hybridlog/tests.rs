//! The worked examples of the ROSE thesis, chapter 4, and what a merge leaves.

use super::*;
use crate::hybrid::testing::settings as with;
use crate::parts::spare_map::{BlockMap, Layout, NULL};
use crate::{Build, Error, Ftl, Inspect, Settings};
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use flash::{CutPoint, Fault, FaultKind, Fragile, Full, Geometry, Lpn, Nand, PowerCut, Ppn, Tags, Transcript};

fn settings(pairs: &[(&str, &str)]) -> Settings {
    with(&ROW, pairs)
}

type Flashed = Transcript<PowerCut<Nand<Tags, Full>>>;

fn device(blocks: u32, pages_per_block: u32, pages: u32, settings: &Settings) -> (Flashed, HybridLog) {
    let g = Geometry { blocks_per_die: blocks, pages_per_block, page_bytes: 512, ..Geometry::default() };
    let mut flash = Transcript::new(PowerCut::counting(Nand::new(g.checked().unwrap())));
    let hybridlog = HybridLog::format(&mut flash, pages, settings).unwrap();
    flash.take();
    (flash, hybridlog)
}

fn write_each(flash: &mut Flashed, hybridlog: &mut HybridLog, lpns: &[u32]) -> Vec<String> {
    for &lpn in lpns {
        hybridlog.write(flash, Lpn(lpn), &u64::from(lpn)).unwrap();
    }
    let lines = flash.take();
    hybridlog.audit(flash).unwrap();
    flash.take();
    lines
}

fn counter(hybridlog: &HybridLog, name: &str) -> u64 {
    let counters = <HybridLog as Inspect<Flashed>>::counters(hybridlog);
    counters.iter().find(|(known, _)| *known == name).unwrap().1
}

/// The ROSE thesis, figure 4.1: the writes of its example.
const FIGURE_4_1: [u32; 7] = [0, 0, 3, 4, 3, 4, 0];

#[test]
fn figure_4_1_with_padding() {
    let (mut flash, mut hybridlog) = device(5, 4, 8, &settings(&[("log-style", "off")]));
    let expected = [
        "W 0.0 data 0 host",
        "W 1.0 log 0 host",
        "W 0.1 dummy 0 metadata",
        "W 0.2 dummy 0 metadata",
        "W 0.3 data 3 host",
        "W 2.0 data 4 host",
        "W 1.1 log 3 host",
        "W 1.2 log 4 host",
        "W 1.3 log 0 host",
    ];
    assert_eq!(write_each(&mut flash, &mut hybridlog, &FIGURE_4_1), expected);
    // Of three colliding pages the last found a data block that was full.
    assert_eq!([counter(&hybridlog, "dummy_pages"), counter(&hybridlog, "collisions_with_room")], [2, 2]);
}

/// The ROSE thesis, figure 5.13, by hand: what is padded counts once its data block is full, and in each of its lives.
#[test]
fn padding_of_data_blocks_that_became_full() {
    let (mut flash, mut hybridlog) = device(5, 4, 8, &settings(&[("log-style", "off"), ("log-blocks", "1")]));
    let counted = |hybridlog: &HybridLog| {
        ["dummy_pages", "full_data_blocks", "dummy_pages_of_full"].map(|n| counter(hybridlog, n))
    };
    // A gap of one page in logical block 0. Neither block is full.
    write_each(&mut flash, &mut hybridlog, &[0, 2, 4]);
    assert_eq!(counted(&hybridlog), [1, 0, 0]);
    // A gap of two pages in logical block 1, whose last page this is; then the last one of logical block 0.
    write_each(&mut flash, &mut hybridlog, &[7]);
    assert_eq!(counted(&hybridlog), [3, 1, 2]);
    write_each(&mut flash, &mut hybridlog, &[3]);
    assert_eq!(counted(&hybridlog), [3, 2, 3]);
    // Four pages of logical block 0 fill the log. The fifth merges it: page 1 is there now, and nothing is padded.
    let lines = write_each(&mut flash, &mut hybridlog, &[1, 0, 2, 3, 0]);
    assert_eq!(lines.iter().filter(|line| line.contains("dummy")).count(), 0, "{lines:?}");
    assert_eq!(counted(&hybridlog), [3, 3, 3]);
    // The log holds that page and three of logical block 1 when the fourth comes: both are merged, and of the second
    // page 6 is still lacking.
    let lines = write_each(&mut flash, &mut hybridlog, &[5, 4, 7, 4, 0]);
    assert_eq!(lines.iter().filter(|line| line.contains("dummy")).count(), 1, "{lines:?}");
    assert_eq!(counted(&hybridlog), [4, 5, 4]);
}

#[test]
fn figure_4_1_with_data_blocks_written_like_logs() {
    let (mut flash, mut hybridlog) = device(5, 4, 8, &settings(&[("group", "2"), ("cache-maps", "0")]));
    let expected = [
        "W 0.0 data 0 host",
        "O 0.0 translation_load",
        "W 0.1 data 0 host",
        "O 0.1 translation_load",
        "W 0.2 data 3 host",
        "W 1.0 data 4 host",
        "O 0.2 translation_load",
        "W 0.3 data 3 host",
        "O 1.0 translation_load",
        "W 1.1 data 4 host",
        "W 2.0 log 0 host",
    ];
    assert_eq!(write_each(&mut flash, &mut hybridlog, &FIGURE_4_1), expected);
    // MD' and MT' of the last page of D0: pages 1 and 3; page 3 of the group 1, whose other page lies nowhere.
    let layout = Layout::single(4, 2);
    let mut map = BlockMap::unknown(&layout);
    map.fetch_all((&layout, flash::Lbn(0)), &mut flash, 3, |place| Some(Ppn(place.into())), Cause::Host).unwrap();
    assert_eq!([0, 1, 2, 3].map(|offset| map.at(offset)), [1, NULL, NULL, 3]);
    assert_eq!(flash.take(), ["O 0.3 host", "O 0.1 host"]);
    assert_eq!([counter(&hybridlog, "dummy_pages"), counter(&hybridlog, "collisions_with_room")], [0, 0]);
    for (lpn, value) in [(0, Some(&0)), (1, None), (3, Some(&3)), (4, Some(&4))] {
        assert_eq!(hybridlog.read(&mut flash, Lpn(lpn)).unwrap(), value);
    }
}

/// The ROSE thesis, figure 4.4: LPN 874 to the fourth page of a data block with 64, in which pages 0 and 2 are of the
/// other group.
#[test]
fn figure_4_4() {
    let (mut flash, mut hybridlog) = device(18, 64, 896, &settings(&[("cache-maps", "0")]));
    assert_eq!(hybridlog.core.place.cache.layout().group, 32);
    let first = 13 * 64;
    write_each(&mut flash, &mut hybridlog, &[first + 1, 874, first + 2]);
    let lines = write_each(&mut flash, &mut hybridlog, &[874]);
    assert_eq!(lines, ["O 0.2 translation_load", "O 0.1 translation_load", "W 0.3 data 874 host"]);
    let lines = write_each(&mut flash, &mut hybridlog, &[first + 1]);
    assert_eq!(lines, ["O 0.3 translation_load", "O 0.2 translation_load", "W 0.4 data 833 host"]);
}

#[test]
fn a_merge_leaves_blank_pages_behind_the_newest_ones() {
    let (mut flash, mut hybridlog) = device(5, 4, 8, &settings(&[("group", "2"), ("log-blocks", "1")]));
    // Fills data block 0 and, with another logical block's page among them, the log.
    write_each(&mut flash, &mut hybridlog, &[0, 1, 0, 1, 0, 1, 0, 1]);
    let lines = write_each(&mut flash, &mut hybridlog, &[0]);
    let expected = [
        "R 1.2 merge_full",
        "W 2.0 data 0 merge_full",
        "R 1.3 merge_full",
        "W 2.1 data 1 merge_full",
        "E 0 merge_full",
        "E 1 merge_full",
        "W 2.2 data 0 host",
    ];
    let changes: Vec<&str> = lines.iter().map(String::as_str).filter(|line| !line.starts_with('O')).collect();
    assert_eq!(changes, expected);
    let counters = ["full_merges", "merge_copies", "cleaned_log_blocks", "density_sum", "log_pages"];
    assert_eq!(counters.map(|name| counter(&hybridlog, name)), [1, 2, 1, 1, 4]);
}

/// What counts nowhere is gone after a mount, so that no later one finds it to count.
#[test]
fn a_mount_erases_what_a_merge_that_was_cut_short_had_copied() {
    let settings = settings(&[("group", "2"), ("log-blocks", "1")]);
    let (mut flash, mut hybridlog) = device(5, 4, 8, &settings);
    write_each(&mut flash, &mut hybridlog, &[0, 1, 0, 1, 0, 1, 0, 1]);
    // The first of two copies is there, in block 2. All pages of the data block, block 0, are superseded.
    flash.inner_mut().arm(CutPoint { command: 1, face: 0 }, 0);
    assert_eq!(hybridlog.write(&mut flash, Lpn(0), &9), Err(Error::Flash(Fault(FaultKind::PowerLost))));
    flash.inner_mut().restart();
    flash.take();
    let mut erased_by_a_mount = || {
        HybridLog::mount(&mut flash, 8, &settings).unwrap();
        let mut lines = flash.take();
        lines.retain(|line| line.starts_with('E'));
        lines
    };
    // The second mount finds nothing more: what is on flash counts.
    assert_eq!([erased_by_a_mount(), erased_by_a_mount()], [vec!["E 0 recovery", "E 2 recovery"], vec![]]);
}

/// What a cut in a merge left is given up, however often that happens, and the log area does not grow.
#[test]
fn merges_cut_short_use_up_no_block() {
    for style in ["on", "off"] {
        let settings = settings(&[("log-style", style), ("log-blocks", "2")]);
        let (mut flash, mut hybridlog) = device(12, 4, 32, &settings);
        let mut lpn = 0;
        for round in 0..300u64 {
            flash.inner_mut().arm(CutPoint { command: 2 + round % 5, face: (round % 4) as u8 }, round);
            let end = (0..10).try_for_each(|_| {
                lpn = (lpn + 7) % 32;
                hybridlog.write(&mut flash, Lpn(lpn), &round)
            });
            match end {
                Ok(()) | Err(Error::Flash(Fault(FaultKind::PowerLost))) => {}
                end => panic!("log-style {style}, round {round}: {end:?}"),
            }
            flash.inner_mut().arm(CutPoint { command: round % 3, face: (round % 4) as u8 }, round);
            let _ = HybridLog::mount(&mut flash, 32, &settings);
            flash.inner_mut().restart();
            hybridlog = HybridLog::mount(&mut flash, 32, &settings).unwrap().0;
            hybridlog.audit(&mut flash).unwrap();
            assert!(hybridlog.core.slots.in_use() <= 2);
        }
    }
}

#[test]
fn a_group_size_that_does_not_fit_is_refused_with_the_sum() {
    let refusal = |pairs: &[(&str, &str)], spare: u32, bits_per_cell: u32, pages_per_block: u32| {
        let g = Geometry { pages_per_block, page_bytes: 2048, oob_bytes: spare, bits_per_cell, ..Geometry::default() };
        let mut flash: Nand<Tags, Full> = Nand::new(g.checked().unwrap());
        HybridLog::format(&mut flash, 640, &settings(pairs)).unwrap_err().config().unwrap()
    };
    let error = refusal(&[("group", "64")], 64, 1, 64);
    assert!(error.key == "group" && error.what.contains("77 B, and a spare area has 64"), "{error}");
    assert_eq!(error.fix, "of the powers of two, 2, 4, 8, 16, 32 fit");
    let error = refusal(&[("group", "4"), ("spare-layout", "paper")], 64, 2, 128);
    assert_eq!(error.fix, "of the powers of two, 8, 16 fit");
    let error = refusal(&[], 64, 2, 128);
    assert!(error.fix.starts_with("no group size fits"), "{error}");
    assert_eq!(refusal(&[("log-blocks", "2000")], 64, 1, 64).key, "log-blocks");
}

/// Two cold data blocks, one of them with a dead page, and a cold log block beside one logical block that is written
/// all the time: with wear levelling their data move, live pages alone, and all blocks wear alike.
#[test]
fn cold_data_move_to_the_most_worn_block() {
    let pairs = [("wear-levelling", "swap"), ("wear-threshold", "2"), ("log-blocks", "2"), ("cache-maps", "2")];
    let spread = |pairs: &[(&str, &str)]| {
        let (mut flash, mut hybridlog) = device(8, 4, 12, &settings(pairs));
        write_each(&mut flash, &mut hybridlog, &[0, 1, 2, 2, 4, 5, 6, 7]);
        let mut moved = Vec::new();
        for round in 0..400 {
            // Now and then another page, so that log blocks are not dead when they are cleaned.
            let lines = write_each(&mut flash, &mut hybridlog, &[if round % 7 == 0 { 9 } else { 8 }]);
            moved.extend(lines.into_iter().filter(|line| line.ends_with("wear_levelling")));
        }
        for lpn in [0, 1, 2, 4, 5, 6, 7] {
            assert_eq!(hybridlog.read(&mut flash, Lpn(lpn)).unwrap(), Some(&u64::from(lpn)));
        }
        let counts = <HybridLog as Inspect<Flashed>>::erase_counts(&hybridlog);
        (counts.iter().max().unwrap() - counts.iter().min().unwrap(), moved)
    };
    let (without, moved) = spread(&[("log-blocks", "2")]);
    assert!(without > 15 && moved.is_empty(), "{without}");
    let (with, moved) = spread(&pairs);
    assert!(with <= 6, "{with}");
    // The first cold block has three pages that count, the others four.
    let copies: Vec<&String> = moved.iter().take_while(|line| !line.starts_with('E')).collect();
    assert!([6, 8].contains(&copies.len()) && moved.iter().any(|line| line.starts_with('E')), "{moved:?}");
}

/// Pages of a group are found one through the other, by what their spare areas say. Where one of these is lost, a mount
/// does not go by them: the pages before and behind it are found by their own addresses.
#[test]
fn a_lost_spare_area_takes_no_other_page_along() {
    let settings = settings(&[("group", "2"), ("cache-maps", "0")]);
    let (mut flash, mut hybridlog) = device(5, 4, 8, &settings);
    // Page 2 of the data block leads to page 1, and that one to page 0.
    write_each(&mut flash, &mut hybridlog, &[2, 3, 0]);
    flash.inner_mut().inner_mut().chip().wreck(Ppn(1));
    let (mut hybridlog, report) = HybridLog::mount(&mut flash, 8, &settings).unwrap();
    assert_eq!(report.perhaps_stale(), 1);
    assert_eq!([2, 0].map(|lpn| hybridlog.read(&mut flash, Lpn(lpn)).unwrap().copied()), [Some(2), Some(0)]);
    hybridlog.audit(&mut flash).unwrap();
}

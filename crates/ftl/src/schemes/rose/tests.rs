//! Worked examples, the scores against their formula, and long runs.

use super::*;
use crate::hybrid::testing::{
    Chip, formatted, settings, small, tally, torture, torture_each_technique, write_each, write_request,
};
use crate::{Build, Ftl};
use flash::{Full, Geometry, Nand, NoData, ProgramOrder};

/// The ROSE thesis, figure 3.3: three logical blocks, three log blocks, and two blocks kept free where the thesis keeps
/// one.
#[test]
fn figure_3_3() {
    let (mut flash, mut rose) = formatted::<Rose>(small(8), 12, &settings(&ROW, &[]));
    // Data blocks are begun in the order of the writes: A is block 0, L 1, B 2, C 3, M 4, N 5.
    let writes = [0, 1, 0, 1, 4, 5, 8, 4, 5, 0, 1, 0, 8, 0, 1, 4, 4, 6];
    let lines = write_each(&mut flash, &mut rose, &writes);
    assert_eq!(tally(&lines), (18, 0, 0));
    let score = |rose: &Rose, block: u32| {
        let slot = rose.core.slots.of(Block(block)).unwrap();
        rose.core.scores.as_ref().unwrap().get(slot)
    };
    // Scores in nanoseconds times a hundred.
    let us = |x: f64| (x * 100_000.0) as i64;
    assert_eq!(score(&rose, 1), us(-4702.0));
    assert_eq!(score(&rose, 4), us(-4175.5));
    assert_eq!(score(&rose, 5), us(-7053.0));
    let lines = write_each(&mut flash, &mut rose, &[6]);
    let expected = [
        "R 4.3 merge_full",
        "W 6.0 data 8 merge_full",
        "R 1.3 swap",
        "W 3.1 log 5 swap",
        "E 1 swap",
        "E 4 merge_full",
        "W 3.2 log 6 host",
    ];
    assert_eq!(lines, expected);
    assert_eq!((rose.strategy.counters.swaps, rose.strategy.counters.swap_pages), (1, 2));
}

/// The same without free page reuse: both blocks are erased.
#[test]
fn figure_3_3_without_free_page_reuse() {
    let (mut flash, mut rose) = formatted::<Rose>(small(8), 12, &settings(&ROW, &[("fpr", "off")]));
    write_each(&mut flash, &mut rose, &[0, 1, 0, 1, 4, 5, 8, 4, 5, 0, 1, 0, 8, 0, 1, 4, 4, 6]);
    assert_eq!(tally(&write_each(&mut flash, &mut rose, &[6])), (1, 1, 2));
}

/// The ROSE thesis, figure 3.2b: a request for a whole logical block becomes its data block.
#[test]
fn figure_3_2b() {
    let (mut flash, mut rose) = formatted::<Rose>(small(7), 12, &settings(&ROW, &[]));
    write_each(&mut flash, &mut rose, &[0, 1, 2, 4, 5, 6, 8, 9, 10, 11]);
    let mut lines = write_request(&mut flash, &mut rose, 0, 4);
    lines.extend(write_each(&mut flash, &mut rose, &[5, 9, 4, 8]));
    let expected = [
        "W 3.0 data 0 host",
        "W 3.1 data 1 host",
        "W 3.2 data 2 host",
        "W 3.3 data 3 host",
        "E 0 merge_switch",
        "W 4.0 log 5 host",
        "W 4.1 log 9 host",
        "W 4.2 log 4 host",
        "W 4.3 log 8 host",
    ];
    assert_eq!(lines, expected);
}

/// The ROSE thesis, section 3.2: 130 pages from page 0 are two logical blocks and two pages.
#[test]
fn requests_are_cut_into_whole_logical_blocks_and_pages() {
    let g = Geometry { pages_per_block: 64, ..small(12) }.checked().unwrap();
    let (mut flash, mut rose) = formatted::<Rose>(g, 256, &settings(&ROW, &[]));
    write_request(&mut flash, &mut rose, 0, 256);
    assert_eq!(rose.strategy.counters.blocks, 0, "nothing was there yet");
    let lines = write_request(&mut flash, &mut rose, 0, 130);
    assert_eq!((rose.strategy.counters.blocks, rose.strategy.counters.pages), (2, 128));
    assert_eq!((rose.core.merges.logged, tally(&lines)), (2, (130, 0, 2)));
}

#[test]
fn a_whole_write_that_is_broken_off_is_completed_by_copies() {
    let (mut flash, mut rose) = formatted::<Rose>(small(7), 12, &settings(&ROW, &[]));
    write_request(&mut flash, &mut rose, 0, 12);
    Ftl::<Chip>::request(&mut rose, Lpn(0), 4);
    let mut lines = Vec::new();
    for lpn in [0, 1, 8] {
        Ftl::write(&mut rose, &mut flash, Lpn(lpn), &()).unwrap();
        lines.extend(flash.take());
    }
    assert_eq!(tally(&lines), (3, 2, 1), "{lines:?}");
    assert_eq!(rose.strategy.counters.broken_off, 1);
}

#[test]
fn data_survives_everything_with_each_technique_alone() {
    torture_each_technique::<Rose>(&ROW);
}

/// Without its techniques, and with `fast` without a sequential log block, the commands are the same.
#[test]
fn without_techniques_it_is_fast_without_a_sequential_log_block() {
    use crate::schemes::fast::{self, Fast};
    let g = small(20);
    let off = [("ebw", "off"), ("fpr", "off"), ("log-victim", "round-robin")];
    let (mut flash, mut rose) = formatted::<Rose>(g, 52, &settings(&ROW, &off));
    let (mut other, mut fast) = formatted::<Fast>(g, 52, &settings(&fast::ROW, &[("sequential", "none")]));
    let mut rng = flash::Rng::new(3);
    for _ in 0..3000 {
        let first = rng.below(52) as u32;
        let pages = (1 + rng.below(6) as u32).min(52 - first);
        let ours = write_request(&mut flash, &mut rose, first, pages);
        assert_eq!(ours, write_request(&mut other, &mut fast, first, pages));
    }
}

#[test]
fn data_survives_wear_levelling_in_every_mode() {
    for order in [ProgramOrder::Any, ProgramOrder::Strict] {
        for mode in ["swap", "static", "bet"] {
            let g = Geometry { order, ..small(16) }.checked().unwrap();
            let pairs = [
                ("wear-levelling", mode),
                ("wear-threshold", "1"),
                ("bet-threshold", "2"),
                ("free-order", "least-worn"),
                ("durable-trim", "on"),
            ];
            torture::<Rose>(&ROW, &pairs, g, 42, 1500);
        }
    }
}

/// The specification of wear levelling: cold data move to the block that was erased most, place by place.
#[test]
fn cold_data_move_to_the_most_worn_block() {
    let pairs = [("wear-levelling", "swap"), ("wear-threshold", "2"), ("ebw", "off"), ("fpr", "off")];
    let (mut flash, mut rose) = formatted::<Rose>(small(5), 8, &settings(&ROW, &pairs));
    write_each(&mut flash, &mut rose, &[0, 1, 2, 3, 4, 5, 6, 7]);
    let mut moved = Vec::new();
    for _ in 0..60 {
        let lines = write_each(&mut flash, &mut rose, &[4]);
        moved.extend(lines.into_iter().filter(|line| line.ends_with("wear_levelling")));
    }
    let (copies, erases) = (
        moved.iter().filter(|line| line.starts_with('R')).count(),
        moved.iter().filter(|line| line.starts_with('E')).count(),
    );
    assert!(erases > 0 && copies >= erases, "{moved:?}");
    let counts = rose.core.pool.blocks.erase_counts();
    let spread = counts.iter().max().unwrap() - counts.iter().min().unwrap();
    assert!(spread <= 3, "{counts:?}");
}

/// Equation 5 as commands: cleaning a log block copies what is live of each of its n logical blocks, in the data block
/// and in the log, and erases n data blocks and the log block.
#[test]
fn a_cleaning_costs_what_the_formula_says() {
    for victim in parameters::VICTIMS {
        let pairs = [("ebw", "off"), ("fpr", "off"), ("log-victim", *victim)];
        let g = Geometry { pages_per_block: 8, ..small(24) }.checked().unwrap();
        let (mut flash, mut rose) = formatted::<Rose>(g, 140, &settings(&ROW, &pairs));
        let mut rng = flash::Rng::new(7);
        let mut cleanings = 0;
        for _ in 0..4000 {
            let pages = if rng.chance(0.7) { 30 } else { 140 };
            let lpn = Lpn(rng.below(pages) as u32);
            let core = &rose.core;
            let (lbn, offset) = core.split(lpn);
            let blank = core.data_block(lbn).is_none_or(|block| core.is_writable(block, offset));
            let in_place = blank && core.in_log(lpn).is_none();
            let full = rose.strategy.filling.0.is_none() && core.slots.in_use() == core.log_limit();
            let mut expected = (1, 0, 0);
            if full && !in_place {
                let victim = hybrid::pick(&mut rose.core.clone(), victim).unwrap();
                let lbns = core.logical_blocks_in(victim);
                expected.2 = lbns.len() + 1;
                for &lbn in &lbns {
                    let data = core.data_block(lbn).map_or(0, |block| core.pool.blocks.live_of(block));
                    expected.1 += data as usize + usize::from(core.logged[lbn.index()]);
                }
                cleanings += 1;
            }
            assert_eq!(tally(&write_each(&mut flash, &mut rose, &[lpn.0])), expected, "{victim}");
        }
        assert!(cleanings > 100, "{victim}: {cleanings}");
    }
}

/// Ages of the log blocks before a mount and after it, after many writes, most of them to a quarter of the pages.
fn ages_over_a_mount(pairs: &[(&str, &str)], writes: u32) -> Vec<(i64, i64)> {
    let g = Geometry { pages_per_block: 8, ..small(48) }.checked().unwrap();
    let pages = 8 * 24;
    let settings = settings(&ROW, pairs);
    let mut flash = Nand::<NoData, Full>::new(g);
    let mut rose = Rose::format(&mut flash, pages, &settings).unwrap();
    let mut rng = flash::Rng::new(7);
    for _ in 0..writes {
        let among = if rng.chance(0.8) { pages / 4 } else { pages };
        let lpn = Lpn(rng.below(among.into()) as u32);
        Ftl::<Nand<NoData, Full>>::request(&mut rose, lpn, 1);
        rose.write(&mut flash, lpn, &()).unwrap();
    }
    let before = rose.core.ages();
    let after = Rose::mount(&mut flash, pages, &settings).unwrap().0.core.ages();
    let both: Vec<(i64, i64)> = before.iter().filter_map(|(block, age)| Some((*age, *after.get(block)?))).collect();
    assert!(both.len() > 15, "{before:?} {after:?}");
    both
}

/// By how many erases all log blocks have become younger, if it is the same number for each.
fn younger(ages: &[(i64, i64)]) -> Option<i64> {
    let lost = ages[0].0 - ages[0].1;
    ages.iter().all(|(before, after)| before - after == lost).then_some(lost)
}

/// With `log-ages` a mount finds every age as it was, but for log blocks that were erased since the last one was begun;
/// without, ages by order are others. Blocks that were levelled keep theirs.
#[test]
fn ages_of_log_blocks_live_over_mounts() {
    for extra in [&[][..], &[("wear-levelling", "swap"), ("wear-threshold", "2")], &[("wear-state", "on")]] {
        for writes in [2_000, 2_001, 2_777, 5_003] {
            let with = [&[("log-ages", "on")], extra].concat();
            let lost = younger(&ages_over_a_mount(&with, writes));
            assert!(lost.is_some_and(|lost| (0..=3).contains(&lost)), "{extra:?}, {writes} writes: {lost:?}");
            assert_eq!(younger(&ages_over_a_mount(extra, writes)), None, "{extra:?}, {writes} writes");
        }
    }
}

//! Worked examples, the scores against their formula, and long runs.

use super::*;
use crate::Ftl;
use crate::hybrid::testing::{Chip, formatted, settings, small, tally, torture, write_each, write_request};
use flash::{Geometry, ProgramOrder};

/// S2, figure 3.3: three logical blocks, three log blocks, and two blocks kept free where the thesis keeps one.
#[test]
fn figure_3_3() {
    let (mut flash, mut rose) = formatted::<Rose>(small(8), 12, &settings(PARAMETERS, &[]));
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
    let (mut flash, mut rose) = formatted::<Rose>(small(8), 12, &settings(PARAMETERS, &[("fpr", "off")]));
    write_each(&mut flash, &mut rose, &[0, 1, 0, 1, 4, 5, 8, 4, 5, 0, 1, 0, 8, 0, 1, 4, 4, 6]);
    assert_eq!(tally(&write_each(&mut flash, &mut rose, &[6])), (1, 1, 2));
}

/// S2, figure 3.2b: a request for a whole logical block becomes its data block.
#[test]
fn figure_3_2b() {
    let (mut flash, mut rose) = formatted::<Rose>(small(7), 12, &settings(PARAMETERS, &[]));
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

/// S2, section 3.2: 130 pages from page 0 are two logical blocks and two pages.
#[test]
fn requests_are_cut_into_whole_logical_blocks_and_pages() {
    let g = Geometry { pages_per_block: 64, ..small(12) }.checked().unwrap();
    let (mut flash, mut rose) = formatted::<Rose>(g, 256, &settings(PARAMETERS, &[]));
    write_request(&mut flash, &mut rose, 0, 256);
    assert_eq!(rose.strategy.counters.blocks, 0, "nothing was there yet");
    let lines = write_request(&mut flash, &mut rose, 0, 130);
    assert_eq!((rose.strategy.counters.blocks, rose.strategy.counters.pages), (2, 128));
    assert_eq!((rose.core.merges.logged, tally(&lines)), (2, (130, 0, 2)));
}

#[test]
fn a_whole_write_that_is_broken_off_is_completed_by_copies() {
    let (mut flash, mut rose) = formatted::<Rose>(small(7), 12, &settings(PARAMETERS, &[]));
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
    for order in [ProgramOrder::Any, ProgramOrder::Ascending, ProgramOrder::Strict] {
        for victim in parameters::VICTIMS {
            for (ebw, fpr) in [("on", "on"), ("on", "off"), ("off", "on"), ("off", "off")] {
                let g = Geometry { order, ..small(16) }.checked().unwrap();
                let pairs = [("ebw", ebw), ("fpr", fpr), ("log-victim", victim), ("durable-trim", "on")];
                torture::<Rose>(PARAMETERS, &pairs, g, 42, 700);
            }
        }
    }
}

/// Without its techniques, and with `fast` without a sequential log block, the commands are the same.
#[test]
fn without_techniques_it_is_fast_without_a_sequential_log_block() {
    use crate::schemes::fast::{self, Fast};
    let g = small(20);
    let off = [("ebw", "off"), ("fpr", "off"), ("log-victim", "round-robin")];
    let (mut flash, mut rose) = formatted::<Rose>(g, 52, &settings(PARAMETERS, &off));
    let (mut other, mut fast) = formatted::<Fast>(g, 52, &settings(fast::PARAMETERS, &[("sequential", "none")]));
    let mut rng = flash::Rng::new(3);
    for _ in 0..3000 {
        let first = rng.below(52) as u32;
        let pages = (1 + rng.below(6) as u32).min(52 - first);
        let ours = write_request(&mut flash, &mut rose, first, pages);
        assert_eq!(ours, write_request(&mut other, &mut fast, first, pages));
    }
}

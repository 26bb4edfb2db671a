//! The worked example, the parameters by hand, a model of the rules, and long runs.

use super::model::{Cost, Model, Rules};
use super::*;
use crate::hybrid::testing::{Chip, formatted, settings, small, tally, torture, write_each, write_request};
use crate::{Ftl, Inspect};
use alloc::string::String;
use flash::{Geometry, ProgramOrder, Rng};

/// The specification's example: a stream, a page that is rewritten, and a hot log block that dies.
#[test]
fn a_hot_log_block_dies_by_itself() {
    let pairs = [("sequential-bytes", "1024"), ("log-blocks", "3"), ("sequential-share", "0.33")];
    let (mut flash, mut last) = formatted::<Last>(small(8), 12, &settings(&ROW, &pairs));
    write_request(&mut flash, &mut last, 0, 12);
    let mut lines = write_request(&mut flash, &mut last, 0, 4);
    lines.extend(write_each(&mut flash, &mut last, &[5, 5, 5, 5, 5, 9, 5]));
    lines.extend(write_request(&mut flash, &mut last, 4, 4));
    let expected = [
        "W 3.0 log 0 host",
        "W 3.1 log 1 host",
        "W 3.2 log 2 host",
        "W 3.3 log 3 host",
        // Cold at first, then hot.
        "W 4.0 log 5 host",
        "W 5.0 log 5 host",
        "W 5.1 log 5 host",
        "W 5.2 log 5 host",
        "W 5.3 log 5 host",
        "W 4.1 log 9 host",
        // The hot log block dies with this write: it is erased after it, where the example erases first.
        "W 6.0 log 5 host",
        "E 5 merge_full",
        // The one sequential log block there may be is full and in order.
        "E 0 merge_switch",
        "W 7.0 log 4 host",
        "W 7.1 log 5 host",
        "W 7.2 log 6 host",
        "W 7.3 log 7 host",
    ];
    assert_eq!(lines, expected);
    assert_eq!(tally(&lines), (15, 0, 2));
}

/// Blocks 0 and 1 full, then pages 0 and 1 and again page 1 and 2 as large requests.
fn overwrite_twice(pairs: &[(&str, &str)]) -> Vec<String> {
    let pairs = [&[("sequential-bytes", "1024"), ("log-blocks", "4"), ("sequential-share", "0.25")], pairs].concat();
    let (mut flash, mut last) = formatted::<Last>(small(8), 8, &settings(&ROW, &pairs));
    write_request(&mut flash, &mut last, 0, 8);
    let mut lines = write_request(&mut flash, &mut last, 0, 2);
    lines.extend(write_request(&mut flash, &mut last, 1, 2));
    lines
}

#[test]
fn a_taken_place_merges_or_goes_to_the_random_log() {
    let merged = [
        "W 2.0 log 0 host",
        "W 2.1 log 1 host",
        // Page 1 has its place no more: pages 2 and 3 complete the log block, and it is the data block.
        "R 0.2 merge_partial",
        "W 2.2 data 2 merge_partial",
        "R 0.3 merge_partial",
        "W 2.3 data 3 merge_partial",
        "E 0 merge_partial",
        "W 3.1 log 1 host",
        "W 3.2 log 2 host",
    ];
    assert_eq!(overwrite_twice(&[]), merged);
    let rw = ["W 2.0 log 0 host", "W 2.1 log 1 host", "W 3.0 log 1 host", "W 2.2 log 2 host"];
    assert_eq!(overwrite_twice(&[("sequential-other", "rw")]), rw);
}

/// A request in the middle of a logical block.
#[test]
fn a_sequential_log_block_begins_anywhere_or_with_the_first_page() {
    let pairs = |start| {
        [("sequential-bytes", "1024"), ("log-blocks", "5"), ("sequential-share", "0.5"), ("sequential-start", start)]
    };
    for (start, expected) in
        [("any", ["W 2.1 log 1 host", "W 2.2 log 2 host"]), ("first", ["W 2.0 log 1 host", "W 2.1 log 2 host"])]
    {
        let (mut flash, mut last) = formatted::<Last>(small(9), 8, &settings(&ROW, &pairs(start)));
        write_request(&mut flash, &mut last, 0, 8);
        assert_eq!(write_request(&mut flash, &mut last, 1, 2), expected, "{start}");
        let lines = write_request(&mut flash, &mut last, 4, 2);
        assert_eq!(lines, ["W 3.0 log 4 host", "W 3.1 log 5 host"], "{start}");
        assert_eq!(last.strategy.sequential.len(), if start == "any" { 2 } else { 1 });
    }
}

/// 600 bytes across a page border touch two pages of 512.
#[test]
fn a_request_is_as_large_as_what_it_asks_for() {
    for (unit, sequential) in [("bytes", 0), ("pages", 2)] {
        let pairs = [("sequential-bytes", "1024"), ("log-blocks", "4"), ("sequential-unit", unit)];
        let (mut flash, mut last) = formatted::<Last>(small(8), 8, &settings(&ROW, &pairs));
        write_request(&mut flash, &mut last, 0, 8);
        send(&mut flash, &mut last, 0, 2, 600);
        assert_eq!(last.strategy.counters.sequential, sequential, "{unit}");
    }
}

fn send(flash: &mut Chip, last: &mut Last, first: u32, pages: u32, bytes: u64) {
    Ftl::<Chip>::request(last, Lpn(first), pages);
    Ftl::<Chip>::request_bytes(last, bytes);
    (first..first + pages).for_each(|lpn| last.write(flash, Lpn(lpn), &()).unwrap());
}

/// Every request of a long run costs what the model of the rules says, to the last command, under every parameter.
#[test]
fn costs_are_those_of_an_independent_model() {
    let g = Geometry { blocks_per_die: 40, pages_per_block: 8, ..small(40) }.checked().unwrap();
    let logical_blocks = 24;
    for variant in 0..16u32 {
        let is = |bit: u32| variant >> bit & 1 == 1;
        let rules = Rules {
            p: 8,
            page_bytes: 512,
            least_bytes: 1536,
            by_pages: is(0),
            merges_taken: !is(1),
            begins_anywhere: !is(2),
            adapts: is(3),
            log: [14, 3, 5],
        };
        let word = |on: bool, word: &'static str, other: &'static str| if on { word } else { other };
        let pairs = [
            ("sequential-bytes", "1536"),
            ("sequential-share", "0.25"),
            ("sequential-unit", word(rules.by_pages, "pages", "bytes")),
            ("sequential-other", word(rules.merges_taken, "merge", "rw")),
            ("sequential-start", word(rules.begins_anywhere, "any", "first")),
            ("adapt-partitions", word(rules.adapts, "on", "off")),
        ];
        let (mut flash, mut last) = formatted::<Last>(g, logical_blocks * 8, &settings(&ROW, &pairs));
        let mut model = Model::new(rules, 40, logical_blocks);
        let mut rng = Rng::new(u64::from(variant) + 7);
        let mut counted = Cost::default();
        for step in 0..4000 {
            let draw = rng.below(10);
            let longest = if draw < 6 {
                1
            } else if draw < 8 {
                4
            } else {
                20
            };
            let pages = 1 + rng.below(longest) as u32;
            let space = if draw < 5 { 20 } else { logical_blocks * 8 };
            let first = rng.below(u64::from(space.max(pages + 1) - pages)) as u32;
            let first = if draw == 9 { first / 8 * 8 } else { first };
            let bytes = (u64::from(pages) * 512 - rng.below(512)).max(1);
            send(&mut flash, &mut last, first, pages, bytes);
            let (writes, copies, erases) = tally(&flash.take());
            counted.writes += writes;
            counted.copies += copies;
            counted.erases += erases;
            model.request(first, pages, bytes);
            assert_eq!(counted, model.cost, "request {step} of variant {variant}: {pages} pages from {first}");
        }
        let counters = Inspect::<Chip>::counters(&last);
        for (name, pages) in &model.pages {
            assert!(counters.contains(&(name, *pages)), "variant {variant}: {name} {pages} in {counters:?}");
        }
        let moves = counters.iter().find(|&&(name, _)| name == "partition_moves").unwrap().1;
        assert_eq!(moves > 0, rules.adapts, "variant {variant}: {moves}");
        assert!(counted.copies > 1000 && counted.erases > 300, "variant {variant}: {counted:?}");
    }
}

#[test]
fn data_survives_under_every_rule_for_sequential_writes() {
    for variant in 0..8u32 {
        let word = |bit: u32, words: [&'static str; 2]| words[(variant >> bit & 1) as usize];
        let pairs = [
            ("sequential-other", word(0, ["merge", "rw"])),
            ("sequential-start", word(1, ["any", "first"])),
            ("adapt-partitions", word(2, ["off", "on"])),
            ("durable-trim", "on"),
            ("sequential-bytes", "1536"),
        ];
        torture::<Last>(&ROW, &pairs, Geometry { dies: 2, ..small(9) }.checked().unwrap(), 38, 800);
    }
}

#[test]
fn data_survives_everything_in_every_variant() {
    for order in [ProgramOrder::Any, ProgramOrder::Ascending, ProgramOrder::Strict] {
        for victim in parameters::VICTIMS {
            for (share, hot) in [("0.125", "0.5"), ("0.5", "0.2")] {
                let g = Geometry { order, dies: 2, ..small(9) }.checked().unwrap();
                let pairs = [
                    ("log-victim", *victim),
                    ("sequential-share", share),
                    ("hot-share", hot),
                    ("durable-trim", "on"),
                    ("sequential-bytes", "1536"),
                ];
                torture::<Last>(&ROW, &pairs, g, 38, 800);
            }
        }
    }
}

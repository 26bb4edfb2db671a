//! The worked example, the choices, and long runs in every variant.

use super::*;
use crate::hybrid::testing::{Chip, formatted, settings, small, tally, torture, write_each, write_request};
use crate::schemes::bast::Bast;
use crate::{Build, Ftl, Inspect};
use alloc::string::String;
use flash::{Full, Geometry, Nand, ProgramOrder, Rng, Tags};

fn aftl(blocks: u32, pages: u32, pairs: &[(&str, &str)]) -> (Chip, Aftl) {
    formatted(small(blocks), pages, &settings(&ROW, pairs))
}

/// The specification's example: what is hot stays where it is, until it is written again.
#[test]
fn a_full_log_block_keeps_what_is_hot() {
    let (mut flash, mut aftl) = aftl(6, 4, &[("fine-entries", "2")]);
    write_request(&mut flash, &mut aftl, 0, 4);
    let lines = write_each(&mut flash, &mut aftl, &[0, 1, 0, 1]);
    assert_eq!(lines, ["W 1.0 log 0 host", "W 1.1 log 1 host", "W 1.2 log 0 host", "W 1.3 log 1 host"]);
    assert_eq!(aftl.strategy.fine.by_use.values().copied().collect::<Vec<_>>(), [0, 1]);
    let lines = write_each(&mut flash, &mut aftl, &[0, 1]);
    assert_eq!(lines, ["W 2.0 log 0 host", "W 2.1 log 1 host", "E 1 merge_full"]);
    let Counters { conversions, migrations, erased, .. } = aftl.strategy.counters;
    assert_eq!((conversions, migrations, erased), (1, 0, 1));
    // The same writes under bast merge at the fifth.
    let (mut flash, mut bast) = formatted::<Bast>(small(6), 4, &settings(&crate::schemes::bast::ROW, &[]));
    write_request(&mut flash, &mut bast, 0, 4);
    assert_eq!(tally(&write_each(&mut flash, &mut bast, &[0, 1, 0, 1, 0, 1])), (6, 4, 2));
}

/// Commands of random requests, discards and mounts.
fn story<S: Build<Chip>>(g: Geometry, settings: &Settings) -> Vec<String> {
    let (mut flash, mut scheme) = formatted::<S>(g, 38, settings);
    let mut rng = Rng::new(7);
    let mut lines = Vec::new();
    for _ in 0..3000 {
        let first = rng.below(38) as u32;
        let pages = (1 + rng.below(5) as u32).min(38 - first);
        if rng.chance(0.02) {
            scheme.trim(&mut flash, Lpn(first), pages).unwrap();
            lines.extend(flash.take());
        } else {
            lines.extend(write_request(&mut flash, &mut scheme, first, pages));
        }
    }
    lines
}

#[test]
fn without_a_fine_table_it_is_bast() {
    for order in [ProgramOrder::Any, ProgramOrder::Strict] {
        for trim in ["on", "off"] {
            let g = Geometry { order, ..small(15) };
            let pairs = [("durable-trim", trim)];
            let bast = story::<Bast>(g, &settings(&crate::schemes::bast::ROW, &pairs));
            let none = story::<Aftl>(g, &settings(&ROW, &[("fine-entries", "0"), pairs[0]]));
            let some = story::<Aftl>(g, &settings(&ROW, &pairs));
            assert!(bast == none, "other commands than bast");
            assert!(bast != some);
        }
    }
}

/// The page used longest ago makes room: a read counts as a use. It goes to the log block of its logical block.
#[test]
fn a_full_table_lets_the_page_go_that_was_used_longest_ago() {
    let (mut flash, mut aftl) = aftl(9, 8, &[("fine-entries", "3")]);
    write_request(&mut flash, &mut aftl, 0, 8);
    write_each(&mut flash, &mut aftl, &[0, 1, 0, 1]);
    aftl.read(&mut flash, Lpn(0)).unwrap();
    flash.take();
    // Pages 4 and 5 take two entries; one of three is free, and page 1 goes.
    let lines = write_each(&mut flash, &mut aftl, &[4, 5, 4, 5]);
    assert_eq!(lines[4..], ["R 2.3 data_gc", "W 4.0 log 1 data_gc"]);
    assert_eq!(aftl.strategy.fine.by_use.values().copied().collect::<Vec<_>>(), [0, 4, 5]);
    assert_eq!((aftl.strategy.counters.migrations, aftl.strategy.counters.reads), (1, 1));
}

/// More live pages than the table has entries: the log block waits, and is merged as in bast.
#[test]
fn a_log_block_too_full_for_the_table_is_merged() {
    let (mut flash, mut aftl) = aftl(7, 8, &[("fine-entries", "2")]);
    write_request(&mut flash, &mut aftl, 0, 8);
    assert_eq!(tally(&write_each(&mut flash, &mut aftl, &[0, 2, 1, 0])), (4, 0, 0));
    assert_eq!(tally(&write_each(&mut flash, &mut aftl, &[1])), (1, 4, 2));
    assert_eq!(aftl.strategy.counters.conversions, 0);
    // In order and complete it is the data block, table or not.
    let (mut flash, mut aftl) = self::aftl(7, 8, &[("fine-entries", "4")]);
    write_request(&mut flash, &mut aftl, 0, 8);
    assert_eq!(tally(&write_each(&mut flash, &mut aftl, &[0, 1, 2, 3])), (4, 0, 1));
}

/// Of a fine block and a log block, the one that costs less goes.
#[test]
fn the_cheaper_of_both_kinds_is_merged() {
    let prepare = || {
        let (mut flash, mut aftl) = aftl(8, 12, &[("log-blocks", "3")]);
        write_request(&mut flash, &mut aftl, 0, 12);
        // A fine block with pages 0 and 2, and the log block of pages 4 on.
        write_each(&mut flash, &mut aftl, &[2, 0, 2, 0]);
        (flash, aftl)
    };
    let (mut flash, mut aftl) = prepare();
    write_each(&mut flash, &mut aftl, &[4, 5, 6, 10]);
    // A copy and an erase against four copies and two erases.
    assert_eq!(tally(&write_each(&mut flash, &mut aftl, &[1])), (1, 1, 1));
    assert_eq!(aftl.core.merges.partials, 1);
    let (mut flash, mut aftl) = prepare();
    // Two full merges of equal price: the fine block first.
    write_each(&mut flash, &mut aftl, &[6, 4, 10]);
    assert_eq!(tally(&write_each(&mut flash, &mut aftl, &[1])), (1, 4, 2));
    assert!(aftl.strategy.fine.len() == 0 && aftl.core.merges.fulls == 1);
}

#[test]
fn a_mount_makes_fine_blocks_of_older_log_blocks() {
    let g = small(12);
    let pairs = [("fine-entries", "3")];
    let settings = settings(&ROW, &pairs);
    let mut flash = Nand::<Tags, Full>::new(g);
    let mut aftl = Aftl::format(&mut flash, 8, &settings).unwrap();
    let mut expected = [0u64; 8];
    for (number, lpn) in (0..8).chain([0, 1, 0, 1, 3, 4]).enumerate() {
        aftl.write(&mut flash, Lpn(lpn), &(number as u64)).unwrap();
        expected[lpn as usize] = number as u64;
    }
    let (mut aftl, _) = <Aftl as Build<Nand<Tags, Full>>>::mount(&mut flash, 8, &settings).unwrap();
    aftl.audit(&mut flash).unwrap();
    let rows: Vec<u32> = aftl.strategy.rows.iter().map(|(lbn, _)| lbn.0).collect();
    // The youngest log block of each logical block is its log block; what the older one holds is in the table.
    assert_eq!(rows, [0, 1]);
    assert_eq!(aftl.strategy.fine.by_use.values().copied().collect::<Vec<_>>(), [0, 1]);
    for lpn in 0..8 {
        assert_eq!(aftl.read(&mut flash, Lpn(lpn)).unwrap(), Some(&expected[lpn as usize]));
    }
}

#[test]
fn data_survives_everything_in_every_variant() {
    for order in [ProgramOrder::Any, ProgramOrder::Ascending, ProgramOrder::Strict] {
        for entries in ["0", "1", "3", "7", "1024"] {
            for blocks in [7, 9] {
                let g = Geometry { order, dies: 2, ..small(blocks) }.checked().unwrap();
                let pairs = [("fine-entries", entries), ("durable-trim", "on")];
                torture::<Aftl>(&ROW, &pairs, g, 38, 1200);
            }
        }
    }
}

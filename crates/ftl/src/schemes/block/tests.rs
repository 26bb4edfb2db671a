//! Exact commands of a rewriting, its cost, and long runs.

use super::*;
use crate::hybrid::testing::{Chip, formatted, settings, small, tally, torture, write_each, write_request};
use crate::{Build, Ftl, Inspect};
use alloc::string::String;
use flash::{Full, Geometry, Nand, ProgramOrder, Tags};

fn block(pairs: &[(&str, &str)]) -> (Chip, BlockMap) {
    let (mut flash, mut block) = formatted::<BlockMap>(small(5), 8, &settings(&ROW, pairs));
    write_request(&mut flash, &mut block, 0, 8);
    (flash, block)
}

#[test]
fn an_overwritten_page_moves_its_logical_block() {
    let (mut flash, mut block) = block(&[]);
    let lines = write_each(&mut flash, &mut block, &[5]);
    let expected = [
        "R 1.0 merge_partial",
        "W 2.0 data 4 merge_partial",
        "W 2.1 data 5 host",
        "R 1.2 merge_partial",
        "W 2.2 data 6 merge_partial",
        "R 1.3 merge_partial",
        "W 2.3 data 7 merge_partial",
        "E 1 merge_partial",
    ];
    assert_eq!(lines, expected);
}

/// P - n copies and an erase for n pages of a request, in every order of programs; n times that if each page pays.
#[test]
fn a_request_pays_once() {
    for order in [ProgramOrder::Any, ProgramOrder::Ascending, ProgramOrder::Strict] {
        for (first, pages, expected) in [(0, 4, (4, 0, 1)), (1, 2, (2, 2, 1)), (2, 4, (4, 4, 2)), (0, 8, (8, 0, 2))] {
            let g = Geometry { order, ..small(5) };
            let (mut flash, mut block) = formatted::<BlockMap>(g, 8, &settings(&ROW, &[]));
            write_request(&mut flash, &mut block, 0, 8);
            let lines = write_request(&mut flash, &mut block, first, pages);
            assert_eq!(tally(&lines), expected, "{first} {pages}");
            assert_eq!(block.strategy.rewritings, expected.2 as u64);
        }
    }
    let (mut flash, mut block) = block(&[("rewrite", "page")]);
    assert_eq!(tally(&write_request(&mut flash, &mut block, 1, 2)), (2, 6, 2));
}

/// What was announced and does not come is copied when something else does.
#[test]
fn a_request_that_stops_is_finished_by_what_follows() {
    let (mut flash, mut block) = block(&[]);
    Ftl::<Chip>::request(&mut block, Lpn(0), 4);
    block.write(&mut flash, Lpn(0), &()).unwrap();
    assert_eq!(flash.take(), ["W 2.0 data 0 host"]);
    block.audit(&mut flash).unwrap();
    for lpn in (0..8).map(Lpn) {
        assert!(block.read(&mut flash, lpn).unwrap().is_some());
    }
    flash.take();
    let lines = write_each(&mut flash, &mut block, &[4]);
    assert_eq!(tally(&lines), (1, 6, 2));
    assert_eq!(lines[0], "R 0.1 merge_partial");
}

#[test]
fn a_page_that_was_never_written_is_no_rewriting() {
    let (mut flash, mut block) = formatted::<BlockMap>(small(5), 8, &settings(&ROW, &[]));
    let lines = write_each(&mut flash, &mut block, &[3, 1, 0, 2]);
    assert_eq!(lines, ["W 0.3 data 3 host", "W 0.1 data 1 host", "W 0.0 data 0 host", "W 0.2 data 2 host"]);
    block.trim(&mut flash, Lpn(0), 4).unwrap();
    let lines: Vec<String> = flash.take();
    assert_eq!(lines, ["E 0 data_gc"]);
}

/// A mount in the midst of a rewriting finds the logical block in two blocks, and finishes.
#[test]
fn a_mount_finishes_a_rewriting() {
    let settings = settings(&ROW, &[]);
    let mut flash = Nand::<Tags, Full>::new(small(5));
    let mut block = BlockMap::format(&mut flash, 8, &settings).unwrap();
    for lpn in 0..8 {
        block.write(&mut flash, Lpn(lpn), &u64::from(lpn)).unwrap();
    }
    Ftl::<Nand<Tags, Full>>::request(&mut block, Lpn(4), 4);
    block.write(&mut flash, Lpn(4), &40).unwrap();
    block.write(&mut flash, Lpn(5), &50).unwrap();
    let (mut block, _) = <BlockMap as Build<Nand<Tags, Full>>>::mount(&mut flash, 8, &settings).unwrap();
    block.audit(&mut flash).unwrap();
    assert_eq!((block.core.slots.in_use(), block.core.merges.fulls), (0, 1));
    let found: Vec<u64> = (0..8).map(|lpn| *block.read(&mut flash, Lpn(lpn)).unwrap().unwrap()).collect();
    assert_eq!(found, [0, 1, 2, 3, 40, 50, 6, 7]);
}

#[test]
fn data_survives_everything() {
    for order in [ProgramOrder::Any, ProgramOrder::Ascending, ProgramOrder::Strict] {
        for rewrite in ["request", "page"] {
            let g = Geometry { order, dies: 2, ..small(7) }.checked().unwrap();
            torture::<BlockMap>(&ROW, &[("rewrite", rewrite), ("durable-trim", "on")], g, 42, 1500);
        }
    }
}

//! Worked examples, the costs of merges, and long runs in every variant.

use super::*;
use crate::hybrid::testing::{Chip, formatted, settings, small, tally, torture};
use crate::hybrid::testing::{write_each, write_request};
use crate::{Build, Ftl, Inspect};
use alloc::string::String;
use flash::{Block, Cause, Full, Geometry, Lpn, Nand, Oob, Payload, ProgramOrder, Tags};

fn bast(blocks: u32, pages: u32, pairs: &[(&str, &str)]) -> (Chip, Bast) {
    formatted(small(blocks), pages, &settings(&ROW, pairs))
}

fn merges(bast: &Bast) -> [u64; 3] {
    let merges = bast.core.merges;
    [merges.switches, merges.partials, merges.fulls]
}

/// The specification's example. It has one block free; here it is two, so that a block comes back into use later.
#[test]
fn one_merge_of_each_kind() {
    let (mut flash, mut bast) = bast(7, 12, &[]);
    write_request(&mut flash, &mut bast, 0, 12);
    let lines = write_each(&mut flash, &mut bast, &[0, 1, 2, 3, 0, 5, 4, 8, 1]);
    let expected = [
        "W 3.0 log 0 host",
        "W 3.1 log 1 host",
        "W 3.2 log 2 host",
        "W 3.3 log 3 host",
        // Full and in order: block 3 is the data block now.
        "E 0 merge_switch",
        "W 4.0 log 0 host",
        "W 5.0 log 5 host",
        "W 5.1 log 4 host",
        // No log block is left; that of logical block 0 was written longest ago, and has its first page in place. The
        // others come from a former log block: copies in a run keep their kind.
        "R 3.1 merge_partial",
        "W 4.1 data 1 merge_partial",
        "R 3.2 merge_partial",
        "W 4.2 data 2 merge_partial",
        "R 3.3 merge_partial",
        "W 4.3 data 3 merge_partial",
        "E 3 merge_partial",
        "W 6.0 log 8 host",
        // Logical block 1 is next, out of order.
        "R 5.1 merge_full",
        "W 0.0 data 4 merge_full",
        "R 5.0 merge_full",
        "W 0.1 data 5 merge_full",
        "R 1.2 merge_full",
        "W 0.2 data 6 merge_full",
        "R 1.3 merge_full",
        "W 0.3 data 7 merge_full",
        "E 1 merge_full",
        "E 5 merge_full",
        "W 3.0 log 1 host",
    ];
    assert_eq!(lines, expected);
    assert_eq!(tally(&lines), (9, 7, 4));
    assert_eq!(merges(&bast), [1, 1, 1]);
    assert_eq!((bast.strategy.evicted, bast.strategy.evicted_pages), (2, 3));
}

/// Erase for a switch, P - n copies and an erase for a partial merge, P copies and two erases for a full one.
#[test]
fn merges_cost_what_the_formulas_say() {
    for (first, expected, kinds) in [
        (&[0, 1, 2, 3][..], (0, 1), [1, 0, 0]),
        (&[0][..], (3, 1), [0, 1, 0]),
        (&[0, 1, 2][..], (1, 1), [0, 1, 0]),
        (&[1][..], (4, 2), [0, 0, 1]),
        (&[0, 1, 1, 3][..], (4, 2), [0, 0, 1]),
    ] {
        let (mut flash, mut bast) = bast(6, 8, &[("log-blocks", "1")]);
        write_request(&mut flash, &mut bast, 0, 8);
        write_each(&mut flash, &mut bast, first);
        let (_, copies, erases) = tally(&write_each(&mut flash, &mut bast, &[4]));
        assert_eq!(((copies, erases), merges(&bast)), (expected, kinds), "{first:?}");
    }
}

/// Four rows; each policy takes another one of them.
#[test]
fn the_victim_is_chosen_as_log_victim_says() {
    for (policy, expected) in [("lru", 1), ("fifo", 0), ("min-live", 2)] {
        let pairs = [("log-victim", policy), ("log-blocks", "4")];
        let (mut flash, mut bast) = bast(11, 20, &pairs);
        write_request(&mut flash, &mut bast, 0, 20);
        write_each(&mut flash, &mut bast, &[0, 1, 5, 4, 9, 13, 12, 2]);
        write_each(&mut flash, &mut bast, &[16]);
        let left: Vec<u32> = (0..4).filter(|&lbn| bast.strategy.rows.get(Lbn(lbn)).is_none()).collect();
        assert_eq!(left, [expected], "{policy}");
    }
    let victims = |seed: &str| {
        let (mut flash, mut bast) = bast(30, 80, &[("log-victim", "random"), ("seed", seed)]);
        write_request(&mut flash, &mut bast, 0, 80);
        let lpns: Vec<u32> = (0..200).map(|i| i * 7 % 20 * 4).collect();
        write_each(&mut flash, &mut bast, &lpns)
    };
    assert_eq!(victims("1"), victims("1"));
    assert_ne!(victims("1"), victims("2"));
}

#[test]
fn first_writes_go_where_they_are_told() {
    for (first, expected) in [("off", "W 0.0 data 0 host"), ("on", "W 0.0 log 0 host")] {
        let (mut flash, mut bast) = bast(6, 8, &[("first-write-to-log", first)]);
        let lines = write_each(&mut flash, &mut bast, &[0, 1, 2, 3]);
        assert_eq!(lines[0], expected);
        // With nothing to copy and nothing to erase the log block becomes the data block.
        let lines = write_each(&mut flash, &mut bast, &[0]);
        assert_eq!(tally(&lines), (1, 0, 0), "{lines:?}");
        assert_eq!(merges(&bast)[0], u64::from(first == "on"));
    }
}

/// A log block in which everything was discarded is erased at once, and so is such a data block.
#[test]
fn what_is_discarded_whole_is_erased() {
    let (mut flash, mut bast) = bast(6, 8, &[]);
    write_request(&mut flash, &mut bast, 0, 8);
    write_each(&mut flash, &mut bast, &[1, 1]);
    let free = bast.core.pool.blocks.free_total();
    bast.trim(&mut flash, Lpn(1), 1).unwrap();
    assert_eq!((bast.core.pool.blocks.free_total(), bast.core.slots.in_use()), (free + 1, 0));
    let lines: Vec<String> = flash.take();
    assert_eq!(lines, ["E 2 merge_full"]);
    bast.trim(&mut flash, Lpn(0), 4).unwrap();
    assert_eq!(flash.take(), ["E 0 data_gc"]);
}

/// Two log blocks of one logical block, and one with pages of two: what blocks that failed can leave behind.
#[test]
fn a_mount_leaves_one_log_block_for_each_logical_block() {
    let mut flash = Nand::<Tags, Full>::new(small(8));
    let mut program = 1;
    for (block, kind, lpns) in [
        (0, Kind::Data, &[0, 1, 2, 3][..]),
        (1, Kind::Data, &[4, 5, 6, 7]),
        (2, Kind::Log, &[1, 0]),
        (3, Kind::Log, &[3, 2]),
        (4, Kind::Log, &[7, 1]),
    ] {
        for (offset, &lpn) in lpns.iter().enumerate() {
            let oob = Oob { kind, ..Oob::data(Lpn(lpn), program, program) };
            let ppn = small(8).page(Block(block), offset as u32);
            flash.program(ppn, oob, Payload::User(&program), Cause::Host).unwrap();
            program += 1;
        }
    }
    let settings = settings(&ROW, &[]);
    let (mut bast, _) = <Bast as Build<Nand<Tags, Full>>>::mount(&mut flash, 8, &settings).unwrap();
    bast.audit(&mut flash).unwrap();
    assert_eq!((bast.strategy.rows.count(), bast.core.slots.in_use()), (0, 0));
    let found: Vec<u64> = (0..8).map(|lpn| *bast.read(&mut flash, Lpn(lpn)).unwrap().unwrap()).collect();
    assert_eq!(found, [10, 14, 12, 11, 5, 6, 7, 13]);
}

#[test]
fn data_survives_everything_in_every_variant() {
    for order in [ProgramOrder::Any, ProgramOrder::Ascending, ProgramOrder::Strict] {
        for victim in ["lru", "fifo", "random", "min-live"] {
            for (first, trim) in [("off", "on"), ("on", "on")] {
                let g = Geometry { order, dies: 2, ..small(7) }.checked().unwrap();
                let pairs = [("log-victim", victim), ("first-write-to-log", first), ("durable-trim", trim)];
                torture::<Bast>(&ROW, &pairs, g, 38, 600);
            }
        }
    }
}

//! The worked example, the costs of folds, and long runs in every variant.

use super::*;
use crate::hybrid::testing::{Chip, formatted, settings, small, tally, torture};
use crate::hybrid::testing::{write_each, write_request};
use crate::{Ftl, Inspect};
use alloc::string::ToString;
use flash::{Geometry, Lpn, ProgramOrder};

fn nftl(blocks: u32, pages: u32, pairs: &[(&str, &str)]) -> (Chip, Nftl) {
    formatted(small(blocks), pages, &settings(&ROW, pairs))
}

fn merges(nftl: &Nftl) -> [u64; 3] {
    let merges = nftl.core.merges;
    [merges.switches, merges.partials, merges.fulls]
}

/// The specification's example, on a device with two blocks more, so that another block comes after the fold.
#[test]
fn a_chain_is_folded_into_its_last_block() {
    let (mut flash, mut nftl) = nftl(6, 4, &[("replacements", "2")]);
    let lines = write_each(&mut flash, &mut nftl, &[0, 1, 0, 0, 1, 0]);
    let expected = [
        "W 0.0 data 0 host",
        "W 0.1 data 1 host",
        "W 1.0 log 0 host",
        "W 2.0 log 0 host",
        "W 1.1 log 1 host",
        "R 1.1 merge_partial",
        "W 2.1 data 1 merge_partial",
        "E 0 merge_partial",
        "E 1 merge_partial",
        "W 3.0 log 0 host",
    ];
    assert_eq!(lines, expected);
    assert_eq!((tally(&lines), merges(&nftl)), ((6, 1, 2), [0, 1, 0]));
    assert_eq!(nftl.strategy.folds, [0, 1, 0, 0, 0, 0, 0, 0]);
}

/// The same with `fold-in-place=off`: the live pages and all K + 1 blocks.
#[test]
fn a_chain_is_folded_into_a_free_block() {
    let (mut flash, mut nftl) = nftl(6, 4, &[("replacements", "2"), ("fold-in-place", "off")]);
    let lines = write_each(&mut flash, &mut nftl, &[0, 1, 0, 0, 1, 0]);
    let expected = [
        "R 2.0 merge_full",
        "W 3.0 data 0 merge_full",
        "R 1.1 merge_full",
        "W 3.1 data 1 merge_full",
        "E 0 merge_full",
        "E 1 merge_full",
        "E 2 merge_full",
        "W 4.0 log 0 host",
    ];
    assert_eq!(lines[5..], expected);
    assert_eq!((tally(&lines), merges(&nftl)), ((6, 2, 3), [0, 0, 1]));
}

/// v copies and K + 1 erases for every K; and for a chain whose last block is complete, K erases and no copy.
#[test]
fn folds_cost_what_the_formulas_say() {
    for k in 1..=8usize {
        for (in_place, copies, erases) in [("off", 4, k + 1), ("on", 3, k)] {
            let pairs = [("replacements", &*k.to_string()), ("fold-in-place", in_place)];
            let (mut flash, mut nftl) = nftl(16, 4, &pairs);
            write_request(&mut flash, &mut nftl, 0, 4);
            write_each(&mut flash, &mut nftl, &vec![2; k]);
            assert_eq!(tally(&write_each(&mut flash, &mut nftl, &[2])), (1, copies, erases), "{k} {in_place}");
        }
        let (mut flash, mut nftl) = nftl(16, 4, &[("replacements", &k.to_string())]);
        (0..=k).for_each(|_| _ = write_request(&mut flash, &mut nftl, 0, 4));
        assert_eq!(tally(&write_each(&mut flash, &mut nftl, &[0])), (1, 0, k));
        assert_eq!((merges(&nftl), nftl.strategy.folds[k - 1]), ([1, 0, 0], 1));
    }
}

/// No replacement block is left: of the longest chains the one written longest ago is folded.
#[test]
fn the_longest_chain_makes_room() {
    let (mut flash, mut nftl) = nftl(9, 12, &[("replacements", "2")]);
    write_request(&mut flash, &mut nftl, 0, 12);
    write_each(&mut flash, &mut nftl, &[0, 4, 4, 0, 5]);
    assert_eq!(tally(&write_each(&mut flash, &mut nftl, &[8])), (1, 3, 2));
    let lengths: Vec<usize> = (0..3).map(|lbn| nftl.strategy.length(Lbn(lbn))).collect();
    assert_eq!((lengths, nftl.strategy.forced), (vec![0, 2, 1], 1));
}

/// In the order of writing: a replacement block full in order is the data block, any other is copied.
#[test]
fn replacement_blocks_filled_in_the_order_of_writing() {
    let (mut flash, mut nftl) = nftl(6, 8, &[("mode", "log"), ("replacements", "3")]);
    write_request(&mut flash, &mut nftl, 0, 8);
    assert_eq!(tally(&write_each(&mut flash, &mut nftl, &[0, 1, 2, 3, 3])), (5, 0, 1));
    assert_eq!(tally(&write_each(&mut flash, &mut nftl, &[2, 1, 1])), (3, 0, 0));
    assert_eq!(tally(&write_each(&mut flash, &mut nftl, &[1])), (1, 4, 2));
    assert_eq!(merges(&nftl), [1, 0, 1]);
}

/// Page states say where a page lies: the tables hold no page map, and the saved state none either.
#[test]
fn chains_need_no_page_map() {
    let bytes = |mode| {
        let (mut flash, mut nftl) = nftl(14, 20, &[("mode", mode)]);
        write_request(&mut flash, &mut nftl, 0, 20);
        write_each(&mut flash, &mut nftl, &[0, 4, 9, 13]);
        let memory: u64 = Inspect::<Chip>::memory(&nftl).iter().map(|(_, bytes)| bytes).sum();
        let saved = Inspect::<Chip>::save(&nftl).len() as u64;
        assert!(saved <= memory);
        (memory, saved)
    };
    // Seven replacement blocks may be, four are, with four pages each.
    let (chain, log) = (bytes("chain"), bytes("log"));
    assert_eq!(log.0 - chain.0, 8 * (4 * 8 - 4));
    assert_eq!(log.1 - chain.1, 4 * (4 * 4 - 4));
}

/// Padding stands in the way of no fold: what the last block lacks lies above what was programmed.
#[test]
fn a_padded_block_is_folded_in_place() {
    let g = Geometry { order: ProgramOrder::Strict, ..small(6) };
    let (mut flash, mut nftl) = formatted::<Nftl>(g, 4, &settings(&ROW, &[]));
    write_each(&mut flash, &mut nftl, &[2, 3, 2]);
    let lines = write_each(&mut flash, &mut nftl, &[2]);
    let expected = [
        "R 0.3 merge_partial",
        "W 1.3 data 3 merge_partial",
        "E 0 merge_partial",
        "W 2.0 dummy 0 metadata",
        "W 2.1 dummy 0 metadata",
        "W 2.2 log 2 host",
    ];
    assert_eq!(lines, expected);
}

/// A chain in which everything was discarded is erased.
#[test]
fn what_is_discarded_whole_is_erased() {
    let (mut flash, mut nftl) = nftl(8, 8, &[("replacements", "2")]);
    write_request(&mut flash, &mut nftl, 0, 8);
    write_each(&mut flash, &mut nftl, &[1, 1]);
    nftl.trim(&mut flash, Lpn(1), 1).unwrap();
    assert_eq!(flash.take(), ["E 2 merge_full", "E 3 merge_full"]);
    assert_eq!(nftl.core.slots.in_use(), 0);
}

#[test]
fn data_survives_everything_in_every_variant() {
    for order in [ProgramOrder::Any, ProgramOrder::Ascending, ProgramOrder::Strict] {
        for (mode, k) in [("chain", "1"), ("chain", "2"), ("chain", "5"), ("log", "1")] {
            for in_place in ["on", "off"] {
                let g = Geometry { order, dies: 2, ..small(8) }.checked().unwrap();
                let pairs = [("mode", mode), ("replacements", k), ("fold-in-place", in_place), ("durable-trim", "on")];
                torture::<Nftl>(&ROW, &pairs, g, 38, 1000);
            }
        }
    }
}

//! Worked examples, and long runs in every variant.

use super::*;
use crate::hybrid::testing::{formatted, settings, small, tally, torture, write_each, write_request};
use crate::{Build, Ftl, Inspect};
use alloc::format;
use flash::{Failing, FailurePlan, Full, Geometry, Nand, ProgramOrder, Tags};

/// The ROSE thesis, figure 3.2a. The figure is lost; that pages 3 and 7 were never written is inferred from the count
/// of copies.
#[test]
fn figure_3_2a() {
    // Three logical blocks, two log blocks, two blocks kept free.
    let (mut flash, mut fast) = formatted::<Fast>(small(7), 12, &settings(&ROW, &[]));
    write_each(&mut flash, &mut fast, &[0, 1, 2, 4, 5, 6, 8, 9, 10, 11]);
    let lines = write_each(&mut flash, &mut fast, &[0, 1, 2, 3, 5, 9, 4, 8]);
    let expected = [
        "W 3.0 log 0 host",
        "W 3.1 log 1 host",
        "W 3.2 log 2 host",
        "W 0.3 data 3 host",
        "W 4.0 log 5 host",
        "W 4.1 log 9 host",
        // A partial merge: the block of pages 0 to 2 takes page 3.
        "R 0.3 merge_partial",
        "W 3.3 data 3 merge_partial",
        "E 0 merge_partial",
        "W 5.0 log 4 host",
        "R 4.0 merge_partial",
        "W 5.1 data 5 merge_partial",
        "R 1.2 merge_partial",
        "W 5.2 data 6 merge_partial",
        "E 1 merge_partial",
        "W 6.0 log 8 host",
    ];
    assert_eq!(lines, expected);
    assert_eq!(tally(&lines), (8, 3, 2));
}

/// The specification's second example: a random log block with pages of two logical blocks.
#[test]
fn cleaning_merges_each_logical_block_once() {
    let pairs = [("sequential", "none")];
    let (mut flash, mut fast) = formatted::<Fast>(small(6), 12, &settings(&ROW, &pairs));
    write_request(&mut flash, &mut fast, 0, 12);
    let lines = write_each(&mut flash, &mut fast, &[5, 9, 6, 5, 10]);
    assert_eq!(tally(&lines), (5, 8, 3));
    let merges = &fast.core.merges;
    assert_eq!((merges.cleaned, merges.density, merges.most_density), (1, 2, 2));
    assert_eq!(merges.dense, [1, 0, 0, 0, 0, 0]);
    let copies: Vec<&str> = lines.iter().filter(|line| line.starts_with('R')).map(|line| &line[2..5]).collect();
    // Logical block 2 first, for its page stands first in the log block; then logical block 1.
    assert_eq!(copies, ["2.0", "3.1", "2.2", "2.3", "1.0", "3.3", "3.2", "1.3"]);
}

#[test]
fn a_log_block_took_pages_that_are_dead_when_it_is_cleaned() {
    let (mut flash, mut fast) = formatted::<Fast>(small(7), 12, &settings(&ROW, &[("sequential", "none")]));
    write_request(&mut flash, &mut fast, 0, 12);
    // Two log blocks. Of the first, pages of three logical blocks, only that of the first one counts at last.
    write_each(&mut flash, &mut fast, &[0, 4, 8, 0, 4, 8, 4, 8, 4]);
    let merges = &fast.core.merges;
    assert_eq!((merges.cleaned, merges.density, merges.took, merges.took_many), (1, 1, 3, 0));
    fast.core.merges.clean(1, 20);
    assert_eq!((fast.core.merges.took, fast.core.merges.took_many), (23, 1));
}

#[test]
fn a_page_out_of_turn_goes_where_sw_other_says() {
    for (other, expected) in [("rw", (2, 0, 0)), ("psu", (2, 2, 1))] {
        let (mut flash, mut fast) = formatted::<Fast>(small(8), 12, &settings(&ROW, &[("sw-other", other)]));
        write_request(&mut flash, &mut fast, 0, 12);
        // The owner's page 3 comes while 1 is next: the merge copies 1 and 2, and takes it.
        let lines = write_each(&mut flash, &mut fast, &[0, 3]);
        assert_eq!(tally(&lines), expected, "{other}: {lines:?}");
    }
}

/// What broke: the page out of turn was on flash, all blocks that the merge went on in failed a program, and the write
/// was refused; the next mount found it. It is done once its page counts, and refused if it does not.
#[test]
fn a_page_out_of_turn_is_written_or_refused_whatever_becomes_of_its_merge() {
    // The first thirteen writes are programs 0 to 12. The merge has pages 1, 2 (the host's) and 3 as programs 13 to 15,
    // and a full merge all four pages behind those. Five blocks are left, the sequential log block among them.
    let from = |first: u64| (first..100).collect::<Vec<_>>();
    for (failing, is_written, bad) in [
        (from(13), false, 5),
        (from(14), false, 5),
        (from(15), true, 5),
        // The full merge copies the host's page out of the log block.
        (vec![15], true, 1),
        // The full merge writes it, and its second try as well.
        (vec![13], true, 1),
        (vec![13, 17], true, 2),
        // It stands in a block that is marked bad.
        ([vec![13], from(17)].concat(), false, 5),
    ] {
        for (trim, hole) in [("off", false), ("on", false), ("on", true)] {
            let case = format!("{failing:?} {trim} {hole}");
            let settings = settings(&ROW, &[("sw-other", "psu"), ("durable-trim", trim)]);
            let plan = FailurePlan { program_schedule: failing.clone(), ..FailurePlan::default() };
            let mut flash = Failing::new(Nand::<Tags, Full>::new(small(8)), plan, 1);
            let mut fast = Fast::format(&mut flash, 12, &settings).unwrap();
            for lpn in (0..12).chain([0]) {
                fast.write(&mut flash, Lpn(lpn), &u64::from(lpn)).unwrap();
            }
            let written = match hole {
                true => fast.trim(&mut flash, Lpn(2), 1),
                false => fast.write(&mut flash, Lpn(2), &100),
            };
            assert_eq!(written.is_ok(), is_written, "{case}: {written:?}");
            assert_eq!(flash.grown_bad_count(), bad, "{case}");
            fast.audit(&mut flash).unwrap();
            let after = (!hole).then_some(100).filter(|_| is_written).or((!is_written).then_some(2));
            assert_eq!(fast.read(&mut flash, Lpn(2)).unwrap().copied(), after, "{case}");
            let (mut fast, _) = Fast::mount(&mut flash, 12, &settings).unwrap();
            for lpn in 0..12 {
                let expected = if lpn == 2 { after } else { Some(u64::from(lpn)) };
                assert_eq!(fast.read(&mut flash, Lpn(lpn)).unwrap().copied(), expected, "{case}: LPN {lpn}");
            }
        }
    }
}

#[test]
fn what_is_written_in_order_costs_an_erase_and_no_copy() {
    for rule in ["first-page", "large", "both"] {
        let (mut flash, mut fast) =
            formatted::<Fast>(small(8), 12, &settings(&ROW, &[("sequential", rule), ("sequential-bytes", "1024")]));
        write_request(&mut flash, &mut fast, 0, 12);
        let lines = write_request(&mut flash, &mut fast, 0, 12);
        assert_eq!(tally(&lines), (12, 0, 2), "{rule}");
        assert_eq!(fast.core.merges.switches, 2);
    }
}

#[test]
fn data_survives_everything_in_every_variant() {
    for order in [ProgramOrder::Any, ProgramOrder::Ascending, ProgramOrder::Strict] {
        for (rule, other) in
            [("first-page", "rw"), ("first-page", "psu"), ("large", "rw"), ("both", "psu"), ("none", "rw")]
        {
            for (victim, trim) in [("round-robin", "on"), ("cat", "on"), ("cheapest", "on"), ("maro", "on")] {
                let g = Geometry { order, dies: 2, ..small(7) }.checked().unwrap();
                let pairs = [
                    ("sequential", rule),
                    ("sw-other", other),
                    ("log-victim", victim),
                    ("durable-trim", trim),
                    ("sequential-bytes", "1024"),
                ];
                torture::<Fast>(&ROW, &pairs, g, 38, 600);
            }
        }
    }
}

/// A log block that is dear to merge and old, against one that is cheap and young: after how many erases age wins.
///
/// The old one has pages of two logical blocks: 8 copies and 3 erases. The young one, page 8 alone, and the youngest,
/// page 9 alone, take 4 copies and 2 erases each: 4 · 351 + 2000 = 3404 us less. `erases` log blocks were erased
/// between the old one's beginning and the young one's.
#[test]
fn the_weight_of_age_is_in_its_unit() {
    for (unit, weight, wins_at) in [
        // It would take 3405 erases.
        ("us", "1", None),
        ("us", "567.5", Some(6)),
        ("ms", "1", Some(4)),
        ("copy", "1", Some(10)),
        ("erase", "1", Some(2)),
    ] {
        for erases in 0..12 {
            let pairs = [
                ("sequential", "none"),
                ("log-victim", "maro"),
                ("log-blocks", "3"),
                ("maro-alpha", "1"),
                ("maro-age", weight),
                ("maro-age-unit", unit),
            ];
            let (mut flash, mut fast) = formatted::<Fast>(small(8), 12, &settings(&ROW, &pairs));
            write_request(&mut flash, &mut fast, 0, 12);
            write_each(&mut flash, &mut fast, &[0, 4, 1, 5]);
            (0..erases + 2).for_each(|_| _ = write_each(&mut flash, &mut fast, &[8; 4]));
            let (_, _, dead) = tally(&write_each(&mut flash, &mut fast, &[9; 4]));
            assert_eq!(dead, 1, "only what dies was erased until now");
            let lines = write_each(&mut flash, &mut fast, &[10]);
            let old_went = tally(&lines) == (1, 8, 3);
            assert!(old_went || tally(&lines) == (1, 4, 2), "{lines:?}");
            assert_eq!(old_went, wins_at.is_some_and(|least| erases >= least), "{weight} {unit}, {erases} erases");
        }
    }
}

/// Scores have room for a second for each erase, and no more.
#[test]
fn a_weight_of_age_beyond_a_second_is_refused() {
    for (unit, weight, refused) in [("ms", "1000", false), ("ms", "1001", true), ("erase", "1000000", true)] {
        let pairs = [("log-victim", "maro"), ("maro-age", weight), ("maro-age-unit", unit)];
        let made =
            <Fast as crate::Build<Nand<Tags, Full>>>::format(&mut Nand::new(small(8)), 12, &settings(&ROW, &pairs));
        let told = made.err().and_then(crate::BuildError::config);
        assert_eq!(told.as_ref().map(|told| told.key), refused.then_some("maro-age"), "{weight} {unit}: {told:?}");
    }
}

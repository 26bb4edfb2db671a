//! Worked examples of each technique, the scores against their formula, and long runs.

use super::*;
use crate::hybrid::Strategy;
use crate::hybrid::appended::Appended;
use crate::hybrid::testing::{
    Chip, formatted, settings, small, tally, torture, torture_each_technique, write_each, write_request,
};
use crate::schemes::hybridlog::HybridLog;
use crate::{Build, Error, Ftl, Inspect};
use alloc::vec;
use alloc::vec::Vec;
use flash::{Block, CutPoint, Fault, FaultKind, Full, Geometry, Lpn, Nand, PowerCut, ProgramOrder, Rng, Tags};

/// A chip that wants its pages in order, as log-style data blocks are for.
fn strict(blocks: u32) -> Geometry {
    Geometry { order: ProgramOrder::Strict, ..small(blocks) }.checked().unwrap()
}

const OFF: [(&str, &str); 3] = [("ebw", "off"), ("fpr", "off"), ("log-victim", "round-robin")];

fn device(blocks: u32, pages: u32, pairs: &[(&str, &str)]) -> (Chip, RoseLog) {
    formatted(strict(blocks), pages, &settings(&ROW, pairs))
}

fn counter(scheme: &RoseLog, name: &str) -> u64 {
    <RoseLog as Inspect<Chip>>::counters(scheme).into_iter().find(|(known, _)| *known == name).unwrap().1
}

/// A request for a whole logical block goes to a free block, without copies, though pages of it are in the log.
#[test]
fn a_whole_write_is_a_switch() {
    let (mut flash, mut scheme) = device(8, 12, &[]);
    write_each(&mut flash, &mut scheme, &[0, 1, 2, 0, 1, 4, 8]);
    let expected =
        ["W 4.0 data 0 host", "W 4.1 data 1 host", "W 4.2 data 2 host", "W 4.3 data 3 host", "E 0 merge_switch"];
    assert_eq!(write_request(&mut flash, &mut scheme, 0, 4), expected);
    // The page in the log is dead; pages are found in the new block, and its next page goes to the log.
    let more = write_each(&mut flash, &mut scheme, &[4, 0]);
    assert_eq!(more, ["W 2.1 data 4 host", "W 1.1 log 0 host"]);
    assert_eq!(["entire_blocks", "entire_block_pages", "swaps"].map(|name| counter(&scheme, name)), [1, 4, 0]);
}

/// Where a data block has nothing yet, it takes the request as it is; so does what is not a whole logical block.
#[test]
fn requests_are_cut_into_whole_logical_blocks_and_pages() {
    let (mut flash, mut scheme) = device(8, 12, &[]);
    write_request(&mut flash, &mut scheme, 0, 8);
    assert_eq!(counter(&scheme, "entire_blocks"), 0);
    let lines = write_request(&mut flash, &mut scheme, 1, 9);
    assert_eq!((counter(&scheme, "entire_blocks"), counter(&scheme, "log_pages"), tally(&lines)), (1, 3, (9, 0, 1)));
}

/// The data block that a whole write leaves has three blank pages, more than the log block has live ones.
#[test]
fn blank_pages_of_a_data_block_are_reused() {
    let (mut flash, mut scheme) = device(8, 12, &[]);
    write_each(&mut flash, &mut scheme, &[0, 4, 5, 6, 7, 8]);
    assert_eq!(write_each(&mut flash, &mut scheme, &[4, 4, 4, 5])[3], "W 3.3 log 5 host");
    let expected = [
        "W 4.0 data 0 host",
        "W 4.1 data 1 host",
        "W 4.2 data 2 host",
        "W 4.3 data 3 host",
        "R 3.2 swap",
        "W 0.1 log 4 swap",
        "R 3.3 swap",
        "W 0.2 log 5 swap",
        "E 3 swap",
    ];
    assert_eq!(write_request(&mut flash, &mut scheme, 0, 4), expected);
    assert_eq!(write_each(&mut flash, &mut scheme, &[6, 7]), ["W 0.3 log 6 host", "W 5.0 log 7 host"]);
    assert_eq!(["swaps", "swap_copies", "swap_pages"].map(|name| counter(&scheme, name)), [1, 2, 1]);
    // A log block with as many live pages as the data block has blank ones stays.
    let (mut flash, mut scheme) = device(8, 12, &[]);
    write_each(&mut flash, &mut scheme, &[0, 4, 5, 6, 7, 8, 4, 5, 6, 6]);
    let lines = write_request(&mut flash, &mut scheme, 0, 4);
    assert_eq!((lines[4].as_str(), tally(&lines)), ("E 0 merge_switch", (4, 0, 1)));
}

/// Three full log blocks: of LBN 0 four pages are live, all in the log, of LBN 1 two, and of LBN 2 two, one of them in
/// its data block. Dead pages of data blocks, which are versions, cost nothing; counted as pages that are copied, as in
/// equation 3, they would make LBN 0 and LBN 1 equal.
#[test]
fn the_victim_is_the_log_block_whose_logical_blocks_have_the_fewest_live_pages() {
    let writes = [0, 1, 2, 3, 0, 1, 2, 3, 4, 4, 4, 4, 5, 4, 5, 4, 8, 9, 8, 9, 8, 8, 8, 8];
    let (mut flash, mut scheme) = device(8, 12, &[]);
    write_each(&mut flash, &mut scheme, &writes);
    let score =
        |scheme: &RoseLog, block: u32| Some(scheme.core.scores.as_ref()?.get(scheme.core.slots.of(Block(block))?));
    // In nanoseconds times a hundred.
    let us = |x: f64| Some((x * 100_000.0) as i64);
    assert_eq!([1, 3, 5].map(|block| score(&scheme, block)), [us(-4702.0), us(-4351.0), us(-4526.5)]);
    let lines = write_each(&mut flash, &mut scheme, &[9]);
    let expected = [
        "R 3.3 merge_full",
        "W 6.0 data 4 merge_full",
        "R 3.2 merge_full",
        "W 6.1 data 5 merge_full",
        "E 2 merge_full",
        "E 3 merge_full",
        "W 7.0 log 9 host",
    ];
    assert_eq!(lines, expected);
    // Two blank pages were left in the data block: the next two pages of LBN 1 do not go to the log.
    assert_eq!(write_each(&mut flash, &mut scheme, &[6, 4]), ["W 6.2 data 6 host", "W 6.3 data 4 host"]);

    let (mut flash, mut scheme) = device(8, 12, &[("log-victim", "round-robin")]);
    write_each(&mut flash, &mut scheme, &writes);
    assert_eq!(tally(&write_each(&mut flash, &mut scheme, &[9])), (1, 4, 2));
}

#[test]
fn a_whole_write_that_is_broken_off_is_completed_by_copies() {
    let (mut flash, mut scheme) = device(8, 12, &[]);
    write_request(&mut flash, &mut scheme, 0, 12);
    write_each(&mut flash, &mut scheme, &[2]);
    Ftl::<Chip>::request(&mut scheme, Lpn(0), 4);
    let mut lines = Vec::new();
    for lpn in [0, 1, 8] {
        scheme.write(&mut flash, Lpn(lpn), &()).unwrap();
        lines.extend(flash.take());
        // In the middle of it the page from the log, the one from the old block and the new one are found.
        for lpn in (0..12).map(Lpn) {
            scheme.read(&mut flash, lpn).unwrap();
        }
        scheme.audit(&mut flash).unwrap();
        flash.take();
    }
    lines.retain(|line| !line.starts_with('O'));
    let expected = [
        "W 4.0 data 0 host",
        "W 4.1 data 1 host",
        "R 3.0 merge_partial",
        "W 4.2 data 2 merge_partial",
        "R 0.3 merge_partial",
        "W 4.3 data 3 merge_partial",
        "E 0 merge_partial",
        "W 3.1 log 8 host",
    ];
    assert_eq!(lines, expected);
    assert_eq!(counter(&scheme, "broken_off"), 1);
}

/// A cut anywhere in a whole write, in the copies of a broken one, in a swap or in a merge leaves the log area as small
/// as it was, and every page with its last acknowledged content or the one that was being written.
#[test]
fn cuts_in_whole_writes_and_swaps_lose_nothing() {
    let settings = settings(&ROW, &[("log-blocks", "3"), ("durable-trim", "on")]);
    let pages = 32;
    let mut flash = PowerCut::counting(Nand::<Tags, Full>::new(strict(13)));
    let mut scheme = RoseLog::format(&mut flash, pages, &settings).unwrap();
    let mut expected = vec![0; pages as usize];
    let mut rng = Rng::new(9);
    let mut cuts = [0; 2];
    for round in 1..3000u64 {
        // Every other request breaks off.
        let (first, whole) = (rng.below(8) as u32 * 4, rng.below(2) == 0);
        let request: Vec<u32> = match rng.below(3) {
            0 => vec![rng.below(32) as u32; 1 + rng.below(3) as usize],
            _ => (first..first + if whole { 4 } else { 1 + rng.below(3) as u32 }).collect(),
        };
        flash.arm(CutPoint { command: rng.below(8), face: (round % 4) as u8 }, round);
        Ftl::<PowerCut<Nand<Tags, Full>>>::request(&mut scheme, Lpn(first), 4);
        let mut written = 0;
        let end = request.iter().try_for_each(|&lpn| {
            scheme.write(&mut flash, Lpn(lpn), &round)?;
            written += 1;
            Ok(())
        });
        cuts[usize::from(Strategy::<Appended>::is_midway(&scheme.strategy))] += u32::from(end.is_err());
        assert!(matches!(end, Ok(()) | Err(Error::Flash(Fault(FaultKind::PowerLost)))), "round {round}: {end:?}");
        request[..written].iter().for_each(|&lpn| expected[lpn as usize] = round);
        flash.restart();
        scheme = RoseLog::mount(&mut flash, pages, &settings).unwrap().0;
        scheme.audit(&mut flash).unwrap_or_else(|what| panic!("round {round}: {what}"));
        for lpn in 0..pages {
            let found = scheme.read(&mut flash, Lpn(lpn)).unwrap().copied().unwrap_or(0);
            let cut = request.get(written) == Some(&lpn);
            assert!(found == expected[lpn as usize] || cut && found == round, "round {round}: LPN {lpn} is {found}");
            expected[lpn as usize] = found;
        }
    }
    assert!(cuts[0] > 500 && cuts[1] > 300, "{cuts:?}");
}

#[test]
fn data_survives_everything_with_each_technique_alone() {
    torture_each_technique::<RoseLog>(&ROW);
}

/// The scores that are kept up to date are equation 5 with the pages that count: audits compute it anew, every 16
/// requests.
#[test]
fn scores_stay_right_in_a_long_run() {
    let g = Geometry { pages_per_block: 16, ..strict(40) }.checked().unwrap();
    torture::<RoseLog>(&ROW, &[("durable-trim", "on"), ("maro-age", "7")], g, 16 * 30 - 5, 20_000);
}

/// So they do where discards are noted in RAM alone, and what was discarded stays so until it is written.
#[test]
fn discards_in_ram_hold_until_the_next_write() {
    let g = Geometry { pages_per_block: 16, ..strict(12) }.checked().unwrap();
    let (mut flash, mut scheme) = formatted::<RoseLog>(g, 96, &settings(&ROW, &[]));
    let mut expected = [false; 96];
    let mut rng = Rng::new(4);
    for _ in 0..3000 {
        let first = rng.below(96) as u32;
        let count = (1 + rng.below(20) as u32).min(96 - first);
        if rng.chance(0.1) {
            scheme.trim(&mut flash, Lpn(first), count).unwrap();
            expected[first as usize..][..count as usize].fill(false);
        } else {
            write_request(&mut flash, &mut scheme, first, count);
            expected[first as usize..][..count as usize].fill(true);
        }
        scheme.audit(&mut flash).unwrap();
        let lpn = rng.below(96) as u32;
        assert_eq!(scheme.read(&mut flash, Lpn(lpn)).unwrap().is_some(), expected[lpn as usize], "LPN {lpn}");
    }
    assert!(counter(&scheme, "entire_blocks") > 100 && counter(&scheme, "full_merges") > 100);
}

/// Without the techniques the commands are those of `hybridlog`, one by one.
#[test]
fn without_techniques_it_is_hybridlog() {
    let (mut flash, mut ours) = device(20, 52, &OFF);
    let (mut other, mut hybridlog) =
        formatted::<HybridLog>(strict(20), 52, &settings(&crate::schemes::hybridlog::ROW, &[]));
    let mut rng = Rng::new(3);
    for round in 0..4000 {
        let first = rng.below(52) as u32;
        let pages = (1 + rng.below(9) as u32).min(52 - first);
        if round % 50 == 49 {
            ours.trim(&mut flash, Lpn(first), pages).unwrap();
            hybridlog.trim(&mut other, Lpn(first), pages).unwrap();
        }
        for lpn in [first, rng.below(52) as u32].map(Lpn) {
            ours.read(&mut flash, lpn).unwrap();
            hybridlog.read(&mut other, lpn).unwrap();
        }
        Ftl::<Chip>::request(&mut ours, Lpn(first), pages);
        Ftl::<Chip>::request(&mut hybridlog, Lpn(first), pages);
        for lpn in (first..first + pages).map(Lpn) {
            ours.write(&mut flash, lpn, &()).unwrap();
            hybridlog.write(&mut other, lpn, &()).unwrap();
        }
        // Looks at spare areas included.
        assert_eq!(flash.take(), other.take());
    }
    assert!(counter(&ours, "full_merges") > 1000);
}

#[test]
fn data_survives_wear_levelling_in_every_mode() {
    for mode in ["swap", "static", "bet"] {
        for ebw in ["on", "off"] {
            let pairs = [
                ("wear-levelling", mode),
                ("wear-threshold", "1"),
                ("bet-threshold", "2"),
                ("free-order", "least-worn"),
                ("durable-trim", "on"),
                ("ebw", ebw),
            ];
            torture::<RoseLog>(&ROW, &pairs, strict(16), 42, 3000);
        }
    }
}

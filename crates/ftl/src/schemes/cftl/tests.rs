//! The specification's worked example command for command, conversions step by step, and what holds whatever happens.

use super::*;
use crate::Error;
use crate::schemes::dftl;
use crate::{Build, Ftl, Inspect};
use alloc::string::ToString;
use alloc::vec;
use flash::{Brief, CutPoint, Failing, FailurePlan, Full, Geometry, Nand, NoData, Op, PowerCut, Rng, Tags, Transcript};

type Recorded = Transcript<Nand<NoData, Brief>>;

fn settings(row: &Scheme, pairs: &[(&str, &str)]) -> Settings {
    let mut settings = row.settings();
    for (name, value) in pairs {
        settings.set(name, value).unwrap();
    }
    settings
}

/// One die of blocks of `pages` pages; 128 entries to a translation page of 512 bytes.
fn geometry(blocks: u32, pages: u32) -> Geometry {
    let g = Geometry { blocks_per_die: blocks, pages_per_block: pages, page_bytes: 512, ..Geometry::default() };
    g.checked().unwrap()
}

/// What was done, without where: operation and cause.
fn done(flash: &mut Recorded) -> Vec<String> {
    let lines = flash.take().into_iter().filter(|line| !line.ends_with(" recovery"));
    lines.map(|line| [line.split(' ').next().unwrap(), line.rsplit(' ').next().unwrap()].join(" ")).collect()
}

fn count(cftl: &Cftl, name: &str) -> u64 {
    Inspect::<Recorded>::counters(cftl).into_iter().find(|&(n, _)| n == name).unwrap().1
}

#[test]
fn worked_example_one_reading_brings_all_four_entries() {
    // LPNs 0 to 3 fill a block in order: with conversions it is one entry of a block, without a run.
    for (convert, hits) in [("on", "block_hits"), ("off", "range_hits")] {
        let mut flash = Recorded::new(Nand::new(geometry(40, 4)));
        let pairs = [("cache-bytes", "100"), ("convert", convert), ("durable-trim", "on")];
        let mut cftl = Cftl::format(&mut flash, 64, &settings(&ROW, &pairs)).unwrap();
        for lpn in 0..4 {
            cftl.write(&mut flash, Lpn(lpn), &()).unwrap();
        }
        // The write of a fifth page closes the block; the discard writes all entries, and others push the run out.
        cftl.write(&mut flash, Lpn(60), &()).unwrap();
        cftl.trim(&mut flash, Lpn(40), 12).unwrap();
        for lpn in (4..60).step_by(2) {
            cftl.read(&mut flash, Lpn(lpn)).unwrap();
        }
        flash.take();
        for lpn in [1, 0, 2, 3] {
            assert!(cftl.read(&mut flash, Lpn(lpn)).unwrap().is_some());
        }
        assert_eq!(
            done(&mut flash),
            ["R translation_load", "R host", "R host", "R host", "R host"],
            "convert {convert}"
        );
        assert_eq!(count(&cftl, hits), if convert == "on" { 3 } else { 2 }, "LPN 0 begins its run");
        cftl.audit(&mut flash).unwrap();
    }
}

/// A device of 32 logical blocks of 8 pages, written in an order that leaves none of them in order.
fn scattered(pairs: &[(&str, &str)]) -> (Cftl, Recorded) {
    let mut flash = Recorded::new(Nand::new(geometry(80, 8)));
    let pairs = [&[("cache-bytes", "400"), ("cold-writes", "20"), ("durable-trim", "on")], pairs].concat();
    let mut cftl = Cftl::format(&mut flash, 256, &settings(&ROW, &pairs)).unwrap();
    for lpn in 0..256 {
        cftl.write(&mut flash, Lpn(lpn * 37 % 256), &()).unwrap();
    }
    // Block 3 is not written for two windows, and nothing is dirty.
    for _ in 0..20 {
        cftl.write(&mut flash, Lpn(200), &()).unwrap();
        cftl.write(&mut flash, Lpn(100), &()).unwrap();
    }
    for lpn in [250, 10] {
        cftl.trim(&mut flash, Lpn(lpn), 1).unwrap();
    }
    cftl.flush(&mut flash).unwrap();
    flash.take();
    (cftl, flash)
}

#[test]
fn a_logical_block_that_is_read_often_is_put_in_order() {
    let (mut cftl, mut flash) = scattered(&[]);
    for lpn in [24, 25, 26] {
        cftl.read(&mut flash, Lpn(lpn)).unwrap();
    }
    done(&mut flash);
    // The fourth read makes it ready; the next page is preceded by the conversion.
    cftl.read(&mut flash, Lpn(27)).unwrap();
    assert_eq!(done(&mut flash), ["R translation_load", "R host"]);
    cftl.read(&mut flash, Lpn(28)).unwrap();
    let mut expected = vec!["R translation_load"];
    (0..8).for_each(|_| expected.extend(["R merge_full", "W merge_full"]));
    expected.extend(["R translation_update", "W translation_update", "R host"]);
    assert_eq!(done(&mut flash), expected);
    cftl.audit(&mut flash).unwrap();
    assert_eq!((count(&cftl, "conversions"), count(&cftl, "conversions_in_place")), (1, 0));
    done(&mut flash);
    for lpn in 24..32 {
        cftl.read(&mut flash, Lpn(lpn)).unwrap();
    }
    assert_eq!(done(&mut flash), ["R host"; 8]);
    // It is in order by now, and its entry is found again with one reading after others pushed it out.
    for lpn in (32..248).step_by(3) {
        cftl.read(&mut flash, Lpn(lpn)).unwrap();
    }
    cftl.audit(&mut flash).unwrap();
}

#[test]
fn a_write_ends_a_block_mapping_without_a_copy() {
    for run_bits in ["0", "2", "5"] {
        let (mut cftl, mut flash) = scattered(&[("run-bits", run_bits)]);
        for lpn in 24..29 {
            cftl.read(&mut flash, Lpn(lpn)).unwrap();
        }
        assert_eq!(count(&cftl, "conversions"), 1);
        done(&mut flash);
        cftl.write(&mut flash, Lpn(26), &()).unwrap();
        let lines = done(&mut flash);
        assert_eq!(lines.last().unwrap(), "W host");
        assert!(!lines.iter().any(|line| line.ends_with("merge_full")), "{lines:?}");
        assert_eq!(count(&cftl, "reversions"), 1);
        cftl.audit(&mut flash).unwrap();
        done(&mut flash);
        // What is left of the run is still cached: 24 and 25, 27; with runs of eight the others too.
        let left: &[u32] = match run_bits {
            "0" => &[26],
            "2" => &[24, 25, 26, 27],
            _ => &[24, 25, 26, 27, 28, 29, 30, 31],
        };
        for &lpn in left {
            cftl.read(&mut flash, Lpn(lpn)).unwrap();
        }
        assert_eq!(done(&mut flash), vec!["R host"; left.len()]);
    }
}

#[test]
fn a_block_that_lies_in_order_is_converted_without_a_copy() {
    let mut flash = Recorded::new(Nand::new(geometry(80, 8)));
    let pairs = [("cache-bytes", "4000"), ("cold-writes", "20")];
    let mut cftl = Cftl::format(&mut flash, 256, &settings(&ROW, &pairs)).unwrap();
    for lpn in 0..256 {
        cftl.write(&mut flash, Lpn(lpn), &()).unwrap();
    }
    done(&mut flash);
    // All entries are dirty in the cache: the conversion writes them.
    for lpn in 0..5 {
        cftl.read(&mut flash, Lpn(lpn)).unwrap();
    }
    let update = ["W translation_update"];
    assert_eq!(done(&mut flash), [&["R host"; 4][..], &update, &["R host"]].concat());
    assert_eq!((count(&cftl, "conversions"), count(&cftl, "conversions_in_place")), (0, 1));
    cftl.audit(&mut flash).unwrap();
}

#[test]
fn what_is_written_or_not_wholly_mapped_is_not_converted() {
    let (mut cftl, mut flash) = scattered(&[]);
    // LPN 10, in block 1, was discarded.
    for _ in 0..40 {
        cftl.read(&mut flash, Lpn(11)).unwrap();
        cftl.write(&mut flash, Lpn(64), &()).unwrap();
        cftl.read(&mut flash, Lpn(65)).unwrap();
    }
    assert_eq!(count(&cftl, "conversions"), 0);
    cftl.audit(&mut flash).unwrap();
}

#[test]
fn without_conversions_and_runs_it_is_dftl_with_lru() {
    let g = geometry(60, 8);
    let pages = 300;
    for batch in ["on", "off"] {
        let dftl = {
            let row = crate::schemes::by_name("dftl").unwrap();
            let cache = (3 * 4 + 20 * 8).to_string();
            let pairs = [("cache-bytes", cache.as_str()), ("replacement", "lru"), ("batch-evict", batch)];
            drive::<dftl::Dftl>(g, pages, &settings(row, &pairs))
        };
        // 67 bits an entry.
        let cache = (3 * 4 + (20 * 67u32).div_ceil(8)).to_string();
        let pairs = [
            ("cache-bytes", cache.as_str()),
            ("convert", "off"),
            ("run-bits", "0"),
            ("stripe", "1"),
            ("batch-evict", batch),
        ];
        assert_eq!(drive::<Cftl>(g, pages, &settings(&ROW, &pairs)), dftl);
    }
}

/// Commands of 20,000 random operations.
fn drive<S: Build<Recorded>>(g: Geometry, pages: u32, settings: &Settings) -> Vec<String> {
    let mut flash = Recorded::new(Nand::new(g));
    let mut ftl = S::format(&mut flash, pages, settings).unwrap();
    let mut rng = Rng::new(5);
    for _ in 0..20_000 {
        let lpn = Lpn(rng.below(u64::from(pages)) as u32);
        match rng.below(20) {
            0..6 => _ = ftl.read(&mut flash, lpn).unwrap(),
            6 => ftl.trim(&mut flash, lpn, (1 + rng.below(12) as u32).min(pages - lpn.0)).unwrap(),
            _ => ftl.write(&mut flash, lpn, &()).unwrap(),
        }
    }
    ftl.audit(&mut flash).unwrap();
    flash.take()
}

/// Conversions on media that fail and fill up, with mounts and saved state in between: nothing is lost.
#[test]
fn conversions_lose_nothing_when_programs_fail_and_power_goes() {
    type Medium = Failing<Nand<Tags, Full>>;
    let (mut conversions, mut full) = (0, 0);
    for seed in 0..120u64 {
        let mut rng = Rng::new(seed);
        let g = Geometry { dies: 1 + rng.below(2) as u32, ..geometry(50 + rng.below(30) as u32, 8) }.checked().unwrap();
        let cache = (200 + rng.below(300)).to_string();
        let run_bits = rng.below(6).to_string();
        let pairs =
            [("cache-bytes", cache.as_str()), ("run-bits", &run_bits), ("cold-writes", "10"), ("read-threshold", "2")];
        let settings = settings(&ROW, &pairs);
        let plan = FailurePlan { program_rate: 0.01, ..FailurePlan::default() };
        let mut flash = Medium::new(Nand::new(g), plan, seed);
        let pages = 300;
        let mut cftl = Cftl::format(&mut flash, pages, &settings).unwrap();
        let mut expected: Vec<Option<u64>> = vec![None; pages as usize];
        let mut refused = 0;
        for tag in 0..2_500u64 {
            // Reads fall anywhere, writes into the first half mostly.
            let among = if tag < 300 || rng.chance(0.1) { pages } else { pages / 2 };
            let lpn = rng.below(u64::from(among)) as u32;
            match cftl.write(&mut flash, Lpn(lpn), &tag) {
                Ok(()) => expected[lpn as usize] = Some(tag),
                Err(Error::Full) if refused == 10 => break,
                Err(Error::Full) => refused += 1,
                Err(error) => panic!("{error:?}"),
            }
            for _ in 0..3 {
                let lpn = rng.below(u64::from(pages)) as u32;
                assert_eq!(cftl.read(&mut flash, Lpn(lpn)).unwrap().copied(), expected[lpn as usize], "seed {seed}");
            }
            if tag % 40 == 0 || refused > 0 {
                cftl.audit(&mut flash).unwrap_or_else(|what| panic!("seed {seed}, write {tag}: {what}"));
                let bytes = Inspect::<Medium>::save(&cftl);
                let reported: u64 = Inspect::<Medium>::memory(&cftl).iter().map(|(_, bytes)| bytes).sum();
                assert!(bytes.len() as u64 <= reported);
            }
            if tag % 500 == 499 {
                conversions += Inspect::<Medium>::counters(&cftl).iter().find(|(n, _)| *n == "conversions").unwrap().1;
                cftl = Cftl::mount(&mut flash, pages, &settings).unwrap().0;
                cftl.audit(&mut flash).unwrap_or_else(|what| panic!("seed {seed}, mount at {tag}: {what}"));
            }
        }
        full += u32::from(refused > 0);
        for (lpn, &tag) in expected.iter().enumerate() {
            assert_eq!(cftl.read(&mut flash, Lpn(lpn as u32)).unwrap().copied(), tag, "seed {seed}, LPN {lpn}");
        }
    }
    assert!(conversions > 1000 && full > 10, "{conversions} conversions, {full} devices filled up");
}

/// A mount goes on in the newest data block of a die. A converted block is that until the host writes to its die: so it
/// is not erased before, though all of it was discarded, for power may fail in the erase.
#[test]
fn a_converted_block_stays_while_it_is_the_newest_of_its_die() {
    let pairs = [("cache-bytes", "400"), ("cold-writes", "8"), ("durable-trim", "on"), ("gc-high", "12")];
    let settings = settings(&ROW, &pairs);
    let mut flash = PowerCut::counting(Nand::<Tags, Full>::new(geometry(44, 8)));
    let mut cftl = Cftl::format(&mut flash, 256, &settings).unwrap();
    // The host's block is full then, and for the next one all blocks are collected that have a dead page.
    for lpn in (0..256).map(|i| i * 37 % 256).chain((0..40).map(|i| 100 + 100 * (i % 2))) {
        cftl.write(&mut flash, Lpn(lpn), &lpn.into()).unwrap();
    }
    (24..29).for_each(|lpn| assert!(cftl.read(&mut flash, Lpn(lpn)).unwrap().is_some()));
    cftl.trim(&mut flash, Lpn(24), 8).unwrap();
    cftl.flush(&mut flash).unwrap();
    let counters = Inspect::<PowerCut<Nand<Tags, Full>>>::counters(&cftl);
    assert!(counters.contains(&("conversions", 1)), "{counters:?}");
    flash.restart();
    let mut whole = flash.clone();
    cftl.clone().write(&mut whole, Lpn(1), &1).unwrap();
    let erases: Vec<u64> =
        (0..).zip(whole.seen()).filter(|(_, met)| met.op == Op::Erase).map(|(command, _)| command).collect();
    assert!(erases.len() > 8, "{erases:?}");
    for (command, face) in erases.into_iter().flat_map(|command| (0..6).map(move |face| (command, face))) {
        let mut flash = flash.clone();
        flash.arm(CutPoint { command, face }, 1);
        assert!(cftl.clone().write(&mut flash, Lpn(1), &1).is_err());
        flash.restart();
        let mut cftl = Cftl::mount(&mut flash, 256, &settings).unwrap().0;
        cftl.write(&mut flash, Lpn(1), &1).unwrap();
        for lpn in 0..256 {
            let expected = (!(24..32).contains(&lpn)).then_some(u64::from(lpn));
            assert_eq!(cftl.read(&mut flash, Lpn(lpn)).unwrap().copied(), expected, "{command}.{face}: LPN {lpn}");
        }
    }
}

//! The specification's worked example, command for command; equivalences; the paper's RAM; random runs.

use super::*;
use crate::schemes::dftl;
use crate::{Build, Error, Ftl, Inspect, Settings};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use flash::{Brief, Failing, FailurePlan, Full, Geometry, Lpn, Nand, NoData, Rng, Tags, Transcript};

fn settings(row: &Scheme, pairs: &[(&str, &str)]) -> Settings {
    let mut settings = row.settings();
    for (name, value) in pairs {
        settings.set(name, value).unwrap();
    }
    settings
}

/// One die of blocks of 8 pages; 128 entries to a translation page of 512 bytes.
fn geometry(blocks: u32) -> Geometry {
    let g = Geometry { blocks_per_die: blocks, pages_per_block: 8, page_bytes: 512, ..Geometry::default() };
    g.checked().unwrap()
}

#[test]
fn worked_example_a_spatial_fetch_and_a_split() {
    // The SCFTL paper, figure 2: translation pages of 8 entries stand for ours of 128, so that LPN 11 is page 1, entry
    // 3.
    let lpn = |example: u32| Lpn(example / 8 * 128 + example % 8);
    let mut flash = Transcript::new(Nand::<Tags, Full>::new(geometry(80)));
    // Four blocks of 9 bytes, four directory entries and MCs.
    let pairs = [("cache-bytes", "54"), ("spatial", "4"), ("stripe", "32")];
    let settings = settings(&ROW, &pairs);
    let mut scftl = Scftl::format(&mut flash, 512, &settings).unwrap();
    for (tag, page) in [30, 3, 17, 20, 10, 11, 12, 14, 13].into_iter().enumerate() {
        scftl.write(&mut flash, lpn(page), &(tag as u64)).unwrap();
    }
    // Discarding many pages writes their translation page with all that the cache has; a mount starts with none.
    for page in 0..4 {
        scftl.write(&mut flash, Lpn(page * 128 + 100), &99).unwrap();
        scftl.trim(&mut flash, Lpn(page * 128 + 100), 20).unwrap();
    }
    let (mut scftl, report) = Scftl::mount(&mut flash, 512, &settings).unwrap();
    assert_eq!(report.restored, 0);
    // 30: not accessed, clean. 3: not accessed, modified, alone in its page. 17: accessed, clean. 20: accessed,
    // modified.
    let tag = |read: Option<&u64>| *read.unwrap();
    assert_eq!(tag(scftl.read(&mut flash, lpn(30)).unwrap()), 0);
    scftl.write(&mut flash, lpn(3), &103).unwrap();
    scftl.read(&mut flash, lpn(17)).unwrap();
    scftl.read(&mut flash, lpn(30)).unwrap();
    // The last of all to be accessed: the others lose their flags.
    scftl.write(&mut flash, lpn(20), &120).unwrap();
    scftl.read(&mut flash, lpn(17)).unwrap();
    scftl.audit(&mut flash).unwrap();
    flash.take();
    // The run 10 to 12 takes the place of 30; 13 takes that of 17, for the other two are not to be written for it.
    assert_eq!(tag(scftl.read(&mut flash, lpn(11)).unwrap()), 5);
    let loads = flash.take();
    assert_eq!(loads.len(), 2, "{loads:?}");
    assert!(loads[0].ends_with("translation_load") && loads[1].ends_with("host"), "{loads:?}");
    scftl.audit(&mut flash).unwrap();
    flash.take();
    // The run is split in three: 13 goes, and 3, whose translation page is written.
    scftl.write(&mut flash, lpn(11), &111).unwrap();
    let mut writes = flash.take();
    // After a mount a free block is erased before it is used.
    writes.retain(|line| !line.ends_with("recovery"));
    assert_eq!(writes.len(), 3, "{writes:?}");
    assert!(writes[0].starts_with('R') && writes[0].ends_with("translation_update"), "{writes:?}");
    assert!(writes[1].starts_with('W') && writes[1].ends_with("translation 0 translation_update"), "{writes:?}");
    assert!(writes[2].starts_with('W') && writes[2].ends_with("data 131 host"), "{writes:?}");
    // What is cached now costs one read of data.
    for (page, expected) in [(10, 4), (11, 111), (12, 6), (20, 120)] {
        assert_eq!(tag(scftl.read(&mut flash, lpn(page)).unwrap()), expected);
        assert_eq!(flash.take().len(), 1, "{page}");
    }
    assert_eq!(tag(scftl.read(&mut flash, lpn(3)).unwrap()), 103);
    assert_eq!(flash.take().len(), 2);
    scftl.audit(&mut flash).unwrap();
}

/// Commands of a run of reads and writes.
fn commands<F: Build<Transcript<Nand>>>(pages: u32, settings: &Settings) -> Vec<String> {
    let mut flash = Transcript::new(Nand::<NoData, Brief>::new(geometry(60)));
    let mut ftl = F::format(&mut flash, pages, settings).unwrap();
    let mut rng = Rng::new(5);
    for _ in 0..20_000 {
        let lpn = Lpn(rng.below(u64::from(pages)) as u32);
        if rng.chance(0.3) {
            ftl.read(&mut flash, lpn).unwrap();
        } else {
            ftl.write(&mut flash, lpn, &()).unwrap();
        }
    }
    let commands = flash.take();
    ftl.audit(&mut flash).unwrap();
    commands
}

#[test]
fn single_entries_replaced_lru_without_prefetching_are_dftl() {
    let entries = 24;
    let dftl = settings(&dftl::ROW, &[("cache-bytes", &(3 * 4 + entries * 8).to_string()), ("replacement", "lru")]);
    // 67 bits a block and half a byte a translation page.
    let bytes = (3 * 4 + (entries * 67_u32).div_ceil(8) + 2).to_string();
    let pairs = [("cache-bytes", bytes.as_str()), ("replacement", "lru"), ("run-bits", "0"), ("spatial", "1")];
    let scftl = settings(&ROW, &[&pairs[..], &[("stripe", "1")]].concat());
    let same = commands::<Scftl>(300, &scftl) == commands::<dftl::Dftl>(300, &dftl);
    assert!(same, "the commands differ");
}

#[test]
fn ram_is_the_papers_sum() {
    // 8 GiB of 8 KiB pages, 256 to a block; 512 translation pages; 2048 blocks: 20.25 KiB (the SCFTL paper, section
    // IV).
    let g = Geometry { blocks_per_die: 4400, pages_per_block: 256, page_bytes: 8192, ..Geometry::default() };
    let mut flash = Nand::<NoData, Brief>::new(g.checked().unwrap());
    let settings = settings(&ROW, &[("cache-bytes", "20736")]);
    let scftl = Scftl::format(&mut flash, 1 << 20, &settings).unwrap();
    let memory = <Scftl as Inspect<Nand>>::memory(&scftl);
    let bytes = |name: &str| memory.iter().find(|&&(n, _)| n == name).unwrap().1;
    assert_eq!(bytes("translation directory"), 512 * 4);
    assert_eq!(bytes("mapping cache"), 512 * 4 / 8 + 2048 * 9);
}

#[test]
fn random_runs_keep_every_invariant() {
    for (i, policy) in ["d-nru", "nru", "lru"].into_iter().enumerate() {
        let variants = [(&ROW, "16", "5"), (&ROW, "1", "2"), (&ROW_ADAPTIVE, "32", "3")];
        for (j, (row, spatial, run_bits)) in variants.into_iter().enumerate() {
            let bytes = if i == 0 { "120" } else { "400" };
            let pairs = [("cache-bytes", bytes), ("replacement", policy), ("spatial", spatial), ("run-bits", run_bits)];
            let readings = [
                ("mc-unit", ["entries", "blocks"][(i + j) % 2]),
                ("nru-ageing", ["access", "eviction", "pointer"][(i + j) % 3]),
                ("spatial-counts", ["fetched", "span"][j % 2]),
            ];
            let settings =
                settings(row, &[&pairs[..], &readings, &[("threshold-bits", "2"), ("stripe", "8")]].concat());
            let plan = FailurePlan { program_rate: 0.0005, ..FailurePlan::default() };
            let mut flash = Failing::new(Nand::<Tags, Full>::new(geometry(200)), plan, 7);
            let pages = 700;
            let mut scftl = Scftl::format(&mut flash, pages, &settings).unwrap();
            let mut rng = Rng::new(11);
            let mut expected: Vec<Option<u64>> = vec![None; pages as usize];
            for tag in 0..6000u64 {
                let lpn = rng.below(u64::from(pages)) as u32;
                let count = (1 + rng.below(20) as u32).min(pages - lpn);
                let what = || format!("{policy} {spatial} {run_bits}, step {tag}");
                match rng.below(10) {
                    0 => {
                        scftl.trim(&mut flash, Lpn(lpn), count).unwrap_or_else(|e| panic!("{}: {e:?}", what()));
                        expected[lpn as usize..(lpn + count) as usize].fill(None);
                    }
                    1..=3 => {
                        let read = scftl.read(&mut flash, Lpn(lpn)).unwrap().copied();
                        assert_eq!(read, expected[lpn as usize], "{}", what());
                    }
                    _ => {
                        for lpn in lpn..lpn + count {
                            match scftl.write(&mut flash, Lpn(lpn), &tag) {
                                Ok(()) => expected[lpn as usize] = Some(tag),
                                Err(Error::Full) => {}
                                Err(error) => panic!("{}: {error:?}", what()),
                            }
                        }
                    }
                }
                if tag % 64 == 0 {
                    scftl.audit(&mut flash).unwrap_or_else(|wrong| panic!("{}: {wrong}", what()));
                }
            }
            let counters = Inspect::<Failing<Nand<Tags, Full>>>::counters(&scftl);
            let count = |name: &str| counters.iter().find(|&&(n, _)| n == name).unwrap().1;
            assert!(count("splits") > 100 && count("merges") > 100, "{counters:?}");
            assert_eq!(count("prefetched") > 0, spatial != "1");
        }
    }
}

#[test]
fn what_comes_along_stays_under_nru_alone() {
    // Commands of reading LPN 128 once more, when two spatial fetches have filled eight blocks and a third has taken
    // four of them. Written backwards, no entries make a run.
    let commands = |pairs: &[(&str, &str)]| {
        let mut flash = Transcript::new(Nand::<Tags, Full>::new(geometry(80)));
        let settings = settings(&ROW, &[&[("cache-bytes", "86"), ("spatial", "4"), ("stripe", "8")], pairs].concat());
        let mut scftl = Scftl::format(&mut flash, 384, &settings).unwrap();
        for lpn in (0..384).rev() {
            scftl.write(&mut flash, Lpn(lpn), &u64::from(lpn)).unwrap();
        }
        scftl.flush(&mut flash).unwrap();
        let (mut scftl, _) = Scftl::mount(&mut flash, 384, &settings).unwrap();
        for lpn in [0, 128, 256] {
            assert_eq!(scftl.read(&mut flash, Lpn(lpn)).unwrap(), Some(&u64::from(lpn)));
        }
        flash.take();
        scftl.read(&mut flash, Lpn(128)).unwrap();
        flash.take().len()
    };
    assert_eq!(commands(&[("replacement", "d-nru")]), 1);
    assert_eq!(commands(&[("replacement", "nru"), ("nru-flags-fetched", "off")]), 1);
    // In the third fetch all blocks have the flag, one use takes it from the others, and the pointer meets LPN 128.
    assert_eq!(commands(&[("replacement", "nru")]), 2);
}

#[test]
fn cast_makes_runs_where_two_writers_take_turns() {
    let entries = |row: &Scheme, pairs: &[(&str, &str)]| {
        let g = Geometry { pages_per_block: 64, blocks_per_die: 64, ..geometry(64) }.checked().unwrap();
        let mut flash = Nand::<NoData, Brief>::new(g);
        let mut ftl = Scftl::format(&mut flash, 2048, &settings(row, pairs)).unwrap();
        for i in 0..500 {
            ftl.write(&mut flash, Lpn(i), &()).unwrap();
            ftl.write(&mut flash, Lpn(1024 + i), &()).unwrap();
        }
        ftl.audit(&mut flash).unwrap();
        let counters = Inspect::<Nand>::counters(&ftl);
        counters.iter().find(|&&(n, _)| n == "cached_entries").unwrap().1
    };
    let cache = ("cache-bytes", "1000");
    let cast = entries(&ROW_CAST, &[cache]);
    let scftl = entries(&ROW, &[cache, ("spatial", "1"), ("replacement", "lru")]);
    assert!(cast > 8 * scftl, "{cast} entries against {scftl}");
}

#[test]
fn what_does_not_fit_is_refused() {
    let mut flash = Nand::<NoData, Brief>::new(geometry(60));
    let refused = |flash: &mut Nand, pairs: &[(&str, &str)]| {
        Scftl::format(flash, 300, &settings(&ROW, pairs)).unwrap_err().to_string()
    };
    assert!(refused(&mut flash, &[("cache-bytes", "40")]).contains("at least 50 bytes"));
    assert!(refused(&mut flash, &[("spatial", "200")]).contains("at most 128"));
}

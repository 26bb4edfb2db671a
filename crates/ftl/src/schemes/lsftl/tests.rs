//! The specification's worked example, command for command; equivalences; what is refused; random runs.

use super::*;
use crate::schemes::dftl;
use crate::{Build, Error, Ftl, Inspect, Recipe, Settings};
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

/// One die of blocks of 8 pages of 512 bytes that may be programmed eight times.
fn geometry(blocks: u32) -> Geometry {
    let g = Geometry { blocks_per_die: blocks, pages_per_block: 8, page_bytes: 512, nop: 8, ..Geometry::default() };
    g.checked().unwrap()
}

/// The same with two bits a cell and no partial programs but in SLC mode.
fn multi_level(blocks: u32) -> Geometry {
    Geometry { bits_per_cell: 2, nop: 1, slc_nop: 4, ..geometry(blocks) }.checked().unwrap()
}

#[test]
fn worked_example_four_evictions() {
    // 112 entries and a log of 64 bytes to a page; lines of 8 entries, 37 bytes; four of them.
    let mut flash = Transcript::new(Nand::<NoData, Brief>::new(geometry(60)));
    let pairs = [("line", "8"), ("log-share", "0.125"), ("log-parity", "0"), ("init-tps", "on")];
    let cache = (2 * (4 + 2) + 4 * 37).to_string();
    let settings = settings(&ROW_E, &[&pairs[..], &[("cache-bytes", &cache)]].concat());
    let mut lsftl = Lsftl::format(&mut flash, 224, &settings).unwrap();
    // Lines of the second translation page push those of the first out.
    let mut push = 112;
    let mut evicting = |lsftl: &mut Lsftl, flash: &mut Transcript<Nand>, lines: u32| {
        flash.take();
        for _ in 0..lines {
            lsftl.read(flash, Lpn(push)).unwrap();
            push = if push + 8 < 224 { push + 8 } else { 112 };
        }
        let commands: Vec<String> = flash.take();
        commands.into_iter().filter(|line| !line.ends_with("translation_load")).collect::<Vec<_>>()
    };
    let write = |lsftl: &mut Lsftl, flash: &mut Transcript<Nand>, lpns: &[u32]| {
        lpns.iter().for_each(|&lpn| lsftl.write(flash, Lpn(lpn), &()).unwrap());
    };
    // Dirty lines of 1, 1 and 2 entries: the quota of 21 bytes holds two entries.
    write(&mut lsftl, &mut flash, &[0, 8, 16, 17]);
    assert_eq!(evicting(&mut lsftl, &mut flash, 2), ["P 0.0 16 bytes at 448 translation_update"]);
    // The line of 2 becomes one of 5: over the quota of 24 bytes, but the log takes it.
    write(&mut lsftl, &mut flash, &[18, 19, 20]);
    assert_eq!(evicting(&mut lsftl, &mut flash, 4), ["P 0.0 34 bytes at 464 translation_update"]);
    // 1 and 1: the quota of 14 bytes holds one entry.
    write(&mut lsftl, &mut flash, &[24, 32]);
    assert_eq!(evicting(&mut lsftl, &mut flash, 3), ["P 0.0 10 bytes at 498 translation_update"]);
    // 1 and 3: no unit is left. The page is written with all four entries and an empty log.
    lsftl.read(&mut flash, Lpn(32)).unwrap();
    write(&mut lsftl, &mut flash, &[40, 41, 42]);
    let commands = evicting(&mut lsftl, &mut flash, 3);
    assert_eq!(commands, ["R 0.0 translation_update", "W 0.2 translation 0 translation_update"]);
    lsftl.audit(&mut flash).unwrap();
    let counters = Inspect::<Transcript<Nand>>::counters(&lsftl);
    let count = |name: &str| counters.iter().find(|&&(n, _)| n == name).unwrap().1;
    assert_eq!((count("log_appends"), count("logs_retired")), (3, 1));
    assert_eq!((count("log_units_retired"), count("log_bytes_retired")), (3, 60));
    assert_eq!((count("flush_within_quota"), count("flush_victim_alone"), count("flush_out_of_place")), (2, 1, 1));
}

/// Commands of a run of reads and writes.
fn commands_on(g: Geometry, row: &Scheme, pages: u32, settings: &Settings) -> Vec<String> {
    struct Run<'a>(Geometry, u32, &'a Settings);
    impl crate::schemes::Visitor<Transcript<Nand>> for Run<'_> {
        type Output = Vec<String>;
        fn visit<S: Recipe<Transcript<Nand>>>(self, _: &Scheme<'_>, recipe: &S) -> Vec<String> {
            let Run(g, pages, settings) = self;
            let mut flash = Transcript::new(Nand::new(g));
            let mut ftl = recipe.format(&mut flash, pages, settings).unwrap();
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
    }
    crate::schemes::visit(row.name, Run(g, pages, settings)).unwrap()
}

fn commands(row: &Scheme, pages: u32, settings: &Settings) -> Vec<String> {
    commands_on(geometry(80), row, pages, settings)
}

#[test]
fn without_log_units_it_is_dftl() {
    // Half of a page of 1 KiB is a log that is not used: 128 entries, as a page of 512 bytes has; four such pages.
    let cache = |directory: u64| (4 * directory + 24 * 8).to_string();
    let off = settings(&ROW, &[("lu", "0"), ("log-share", "0.5"), ("cache-bytes", &cache(6))]);
    let dftl = settings(&dftl::ROW, &[("cache-bytes", &cache(4))]);
    let large = Geometry { page_bytes: 1024, ..geometry(80) };
    let without = commands_on(large, &ROW, 400, &off);
    assert!(without == commands(&dftl::ROW, 400, &dftl), "the commands differ");
    for sort in ["translation_update", "translation_load", "translation_gc", "data_gc"] {
        assert!(without.iter().any(|line| line.ends_with(sort)), "no {sort}");
    }
}

#[test]
fn counters_in_the_spare_area_cost_readings_of_it_and_nothing_else() {
    let home = |home: &str, bytes: &str| settings(&ROW, &[("counters", home), ("cache-bytes", bytes)]);
    let directory = commands(&ROW, 300, &home("directory", &(4 * (4 + 2) + 30 * 8).to_string()));
    let oob = commands(&ROW, 300, &home("oob", &(4 * 4 + 30 * 8).to_string()));
    fn others(commands: &[String]) -> impl Iterator<Item = &String> {
        commands.iter().filter(|line| !(line.starts_with('O') && line.ends_with("translation_update")))
    }
    assert!(others(&oob).count() < oob.len(), "no spare area was read");
    assert!(others(&oob).eq(&directory), "the other commands differ");
    assert!(directory.iter().filter(|line| line.starts_with('P')).count() > 1000);
}

#[test]
fn random_runs_keep_every_invariant() {
    let lsftl: &[(&Scheme, &[(&str, &str)])] = &[
        (&ROW, &[("cache-bytes", "200")]),
        (&ROW, &[("cache-bytes", "200"), ("counters", "oob"), ("lu", "7"), ("log-share", "0.5")]),
        (&ROW, &[("cache-bytes", "200"), ("gc-fold", "off"), ("log-entry", "9"), ("log-header", "5")]),
        (&ROW_E, &[("cache-bytes", "300"), ("line", "4"), ("log-share", "0.25")]),
        (&ROW_RUNS, &[("cache-bytes", "300"), ("spatial", "4"), ("log-share", "0.3"), ("stripe", "8")]),
        (&ROW, &[("cache-bytes", "200"), ("translation-mode", "slc")]),
    ];
    struct Run<'a>(&'a Settings, String);
    impl crate::schemes::Visitor<Failing<Nand<Tags, Full>>> for Run<'_> {
        type Output = ();
        fn visit<S: Recipe<Failing<Nand<Tags, Full>>>>(self, _: &Scheme<'_>, recipe: &S) {
            let Run(settings, what) = self;
            let plan = FailurePlan { program_rate: 0.0005, ..FailurePlan::default() };
            let slc = settings.word(&TRANSLATION_MODE) == "slc";
            let g = if slc { multi_level(220) } else { geometry(220) };
            let mut flash = Failing::new(Nand::<Tags, Full>::new(g), plan, 7);
            let pages = 700;
            let mut ftl = recipe.format(&mut flash, pages, settings).unwrap();
            let mut rng = Rng::new(11);
            let mut expected: Vec<Option<u64>> = vec![None; pages as usize];
            for tag in 0..6000u64 {
                let lpn = rng.below(u64::from(pages)) as u32;
                let count = (1 + rng.below(20) as u32).min(pages - lpn);
                match rng.below(10) {
                    0 => {
                        ftl.trim(&mut flash, Lpn(lpn), count).unwrap();
                        expected[lpn as usize..(lpn + count) as usize].fill(None);
                    }
                    1..=3 => {
                        let read = ftl.read(&mut flash, Lpn(lpn)).unwrap().copied();
                        assert_eq!(read, expected[lpn as usize], "{what}, step {tag}, LPN {lpn}");
                    }
                    _ => {
                        for lpn in lpn..lpn + count.min(4) {
                            match ftl.write(&mut flash, Lpn(lpn), &tag) {
                                Ok(()) => expected[lpn as usize] = Some(tag),
                                Err(Error::Full) => {}
                                Err(error) => panic!("{what}: {error:?}"),
                            }
                        }
                    }
                }
                if tag % 64 == 0 {
                    ftl.audit(&mut flash).unwrap_or_else(|wrong| panic!("{what}, step {tag}: {wrong}"));
                }
                if tag % 1500 == 1499 {
                    let counters = ftl.counters();
                    let count = |name: &str| counters.iter().find(|&&(n, _)| n == name).unwrap().1;
                    assert!(count("log_appends") > 100 && count("logs_retired") > 20, "{what}: {counters:?}");
                    ftl.flush(&mut flash).unwrap();
                    ftl = recipe.mount(&mut flash, pages, settings).unwrap().0;
                    ftl.audit(&mut flash).unwrap_or_else(|wrong| panic!("{what}, mounted at {tag}: {wrong}"));
                }
            }
        }
    }
    for &(row, pairs) in lsftl {
        let settings = settings(row, pairs);
        crate::schemes::visit(row.name, Run(&settings, format!("{} {pairs:?}", row.name))).unwrap();
    }
}

#[test]
fn what_cannot_work_is_refused_with_the_reason() {
    let refused = |g: Geometry, row: &Scheme, pairs: &[(&str, &str)]| {
        let mut flash = Nand::<NoData, Brief>::new(g.checked().unwrap());
        Lsftl::format(&mut flash, 200, &settings(row, pairs)).unwrap_err().to_string()
    };
    let without = refused(Geometry { nop: 1, ..geometry(60) }, &ROW, &[]);
    assert!(without.starts_with("nop: lu=3: 3 log units") && without.contains("nop=4"), "{without}");
    let multi = refused(multi_level(60), &ROW, &[]);
    assert!(multi.contains("nop=4") && multi.contains("translation-mode=slc"), "{multi}");
    assert!(
        refused(multi_level(60), &ROW, &[("translation-mode", "slc"), ("victims", "plain")]).starts_with("victims")
    );
    assert!(
        refused(geometry(60), &ROW, &[("log-share", "0.05"), ("lu", "1"), ("log-header", "30")]).contains("no unit")
    );
    // 96 entries: 64 does not divide them.
    let line = refused(geometry(60), &ROW_E, &[("line", "64")]);
    assert!(line.starts_with("line: ") && line.contains("up to 32"), "{line}");
    let small = refused(geometry(60), &ROW, &[("cache-bytes", "20")]);
    assert!(small.contains("the directory takes 18"), "{small}");
    // A device without parity can be measured, not mounted.
    let mut flash = Nand::<Tags, Full>::new(geometry(60));
    let bare = settings(&ROW, &[("log-parity", "0")]);
    Lsftl::format(&mut flash, 200, &bare).unwrap();
    assert!(Lsftl::mount(&mut flash, 200, &bare).unwrap_err().to_string().contains("log-parity=7"));
}

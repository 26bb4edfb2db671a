//! The specification's worked example, command for command; its invariants and its limits; and what broke once.

use super::*;
use crate::Error;
use crate::Inspect;
use alloc::string::ToString;
use flash::{Brief, Failing, FailurePlan, Fragile, Full, Nand, NoData, Rng, Tags, Transcript};

fn settings(pairs: &[(&str, &str)]) -> Settings {
    let mut settings = ROW.settings();
    for (name, value) in pairs {
        settings.set(name, value).unwrap();
    }
    settings
}

/// One die of 48 blocks of 4 pages; 128 entries to a mapping page of 512 bytes. The tables are the smallest there are:
/// one block in the update area, two in the cold area.
fn geometry() -> Geometry {
    Geometry { blocks_per_die: 48, pages_per_block: 4, page_bytes: 512, ..Geometry::default() }.checked().unwrap()
}

const PAGES: u32 = 132;

/// The example's mapping pages hold 8 LPNs, these 128: its LPN 9 in the second mapping page is 129 here. Both mapping
/// pages were written once.
fn example() -> (Transcript<Nand>, LazyFtl) {
    let mut flash = Transcript::new(Nand::<NoData, Brief>::new(geometry()));
    let mut lazy = LazyFtl::format(&mut flash, PAGES, &settings(&[("quota", "0.0001")])).unwrap();
    for lpn in [4, 5, 6, 130, 0, 1, 2, 129] {
        lazy.write(&mut flash, Lpn(lpn), &()).unwrap();
    }
    let lines = flash.take();
    assert_eq!(
        lines[lines.len() - 6..lines.len() - 4],
        ["W 1.0 translation 0 translation_update", "W 1.1 translation 1 translation_update"]
    );
    (flash, lazy)
}

#[test]
fn worked_example_of_the_specification() {
    let (mut flash, mut lazy) = example();
    lazy.write(&mut flash, Lpn(3), &()).unwrap();
    let expected = [
        "R 1.0 translation_update",
        "W 1.2 translation 0 translation_update",
        "R 1.1 translation_update",
        "W 1.3 translation 1 translation_update",
        "W 3.0 data 3 host",
    ];
    assert_eq!(flash.take(), expected);
    lazy.audit(&mut flash).unwrap();
    assert_eq!(lazy.table.peak(), 4);
}

#[test]
fn stale_pages_stay_live_until_a_collection_or_a_convert_meets_them() {
    let (mut flash, mut lazy) = example();
    // LPNs 4 and 5 were in block 0, which is a data block by now.
    for lpn in [4, 5] {
        lazy.write(&mut flash, Lpn(lpn), &()).unwrap();
    }
    assert_eq!(lazy.space.blocks.live_of(Block(0)), 4, "nobody has looked");
    let mut collected = lazy.clone();
    flash.take();
    collected.collect(&mut flash, Block(0), None).unwrap();
    let expected = [
        "O 0.0 data_gc",
        "O 0.1 data_gc",
        "O 0.2 data_gc",
        "O 0.3 data_gc",
        "R 0.2 data_gc",
        "W 4.0 data 6 data_gc",
        "R 0.3 data_gc",
        "W 4.1 data 130 data_gc",
        "E 0 data_gc",
    ];
    assert_eq!(flash.take(), expected);
    collected.audit(&mut flash).unwrap();
    flash.take();
    // Their mapping page still names the erased block, and is not believed.
    assert!(collected.read(&mut flash, Lpn(4)).unwrap().is_some());
    assert_eq!(flash.take(), ["R 3.0 host"]);
    assert_eq!(collected.counters.stale_found, 2);
}

#[test]
fn a_convert_marks_stale_pages_dead_and_moves_nothing() {
    let (mut flash, mut lazy) = example();
    for lpn in [4, 5, 0, 0] {
        lazy.write(&mut flash, Lpn(lpn), &()).unwrap();
    }
    // Block 2 holds the first copy of LPN 0, block 3 the other two: of the former nobody has told the map.
    assert_eq!([0, 2, 3].map(|block| lazy.space.blocks.live_of(Block(block))), [4, 4, 3]);
    flash.take();
    lazy.convert(&mut flash, Block(3)).unwrap();
    assert_eq!([0, 2, 3].map(|block| lazy.space.blocks.live_of(Block(block))), [2, 3, 3]);
    assert!(flash.take().iter().all(|line| line.contains("translation")));
    assert!(!lazy.table.covers(Block(3)) && !lazy.table.get(4).is_present());
    lazy.audit(&mut flash).unwrap();
}

#[test]
fn writes_read_no_mapping_page_and_sequential_ones_write_one_for_each_block() {
    let g = Geometry { blocks_per_die: 100, pages_per_block: 32, page_bytes: 512, ..Geometry::default() };
    let mut flash = Transcript::new(Nand::<NoData, Brief>::new(g.checked().unwrap()));
    let mut lazy = LazyFtl::format(&mut flash, 2048, &settings(&[("cache-bytes", "8192")])).unwrap();
    for lpn in 0..4 * 2048 {
        lazy.write(&mut flash, Lpn(lpn % 2048), &()).unwrap();
    }
    let lines = flash.take();
    assert!(!lines.iter().any(|line| line.ends_with("translation_load")));
    let Counters { converts, updates, data_copies, .. } = lazy.counters;
    assert!(converts > 200 && updates == converts && data_copies == 0, "{converts}, {updates}, {data_copies}");
    let written = lines.iter().filter(|line| line.starts_with('W') && line.ends_with("translation_update")).count();
    assert_eq!(written as u64, updates);
    lazy.audit(&mut flash).unwrap();
}

#[test]
fn a_cache_of_all_mapping_pages_loads_each_once() {
    let g = Geometry { blocks_per_die: 100, pages_per_block: 8, page_bytes: 512, ..Geometry::default() };
    let mut flash = Nand::<NoData, Brief>::new(g.checked().unwrap());
    let mut lazy = LazyFtl::format(&mut flash, 600, &settings(&[("cache-bytes", "16384")])).unwrap();
    assert_eq!(lazy.store.count(), 5);
    for lpn in 0..600 {
        lazy.write(&mut flash, Lpn(lpn), &()).unwrap();
    }
    let mut rng = Rng::new(2);
    for _ in 0..10_000 {
        let lpn = Lpn(rng.below(600) as u32);
        if rng.chance(0.5) {
            lazy.read(&mut flash, lpn).unwrap();
        } else {
            lazy.write(&mut flash, lpn, &()).unwrap();
        }
    }
    assert_eq!(lazy.counters.loads, 5);
    let CacheCounters { accesses, hits, .. } = lazy.counters.cache;
    assert_eq!((accesses, hits), (10_600, 10_595));
    lazy.audit(&mut flash).unwrap();
}

/// Random writes, reads and discards on one or two dies; `each` sees the state after some of them.
fn play(pairs: &[(&str, &str)], seed: u64, mut each: impl FnMut(&mut Nand<Tags, Full>, &LazyFtl, &Settings)) {
    let settings = settings(pairs);
    let g = Geometry { dies: 1 + seed as u32 % 2, blocks_per_die: 200, ..geometry() }.checked().unwrap();
    let pages = g.page_count() * 9 / 10;
    let mut flash = Nand::<Tags, Full>::new(g);
    let mut lazy = LazyFtl::format(&mut flash, pages, &settings).unwrap();
    let mut rng = Rng::new(seed);
    let mut expected: Vec<Option<u64>> = vec![None; pages as usize];
    for tag in 0..4000 {
        let below = if rng.chance(0.5) { u64::from(pages) } else { 20 };
        let lpn = rng.below(below) as u32;
        if rng.chance(0.7) {
            lazy.write(&mut flash, Lpn(lpn), &tag).unwrap();
            expected[lpn as usize] = Some(tag);
        } else if rng.chance(0.1) {
            let most = if rng.chance(0.2) { 40 } else { 3 };
            let count = (1 + rng.below(most) as u32).min(pages - lpn);
            lazy.trim(&mut flash, Lpn(lpn), count).unwrap();
            expected[lpn as usize..(lpn + count) as usize].fill(None);
        } else {
            assert_eq!(lazy.read(&mut flash, Lpn(lpn)).unwrap().copied(), expected[lpn as usize], "LPN {lpn}");
        }
        if tag % 16 == 0 {
            lazy.audit(&mut flash).unwrap();
            each(&mut flash, &lazy, &settings);
        }
    }
    assert!(lazy.counters.converts > 50 && lazy.counters.stale_found > 0 && lazy.counters.mapping_victims > 0);
}

const LARGE: &[(&str, &str)] = &[("cache-bytes", "6000"), ("quota", "0.1"), ("mapping-pages", "1")];

#[test]
fn the_cheapest_block_is_found_though_costs_are_remembered() {
    for seed in 0..4 {
        let mut costs = BTreeSet::new();
        play(LARGE, seed, |flash, lazy, settings| {
            // A restored scheme remembers no cost, and counts them all.
            let bytes = <LazyFtl as Inspect<Nand<Tags, Full>>>::save(lazy);
            let mut counting =
                <LazyFtl as Build<Nand<Tags, Full>>>::restore(flash.geometry(), lazy.logical_pages, settings, &bytes);
            for area in [Some(UPDATED), Some(COLD), None] {
                let victim = lazy.clone().convertible(area);
                assert_eq!(victim, counting.convertible(area));
                costs.extend(victim.map(|(_, cost)| cost));
            }
        });
        assert!(costs.len() > 2, "{costs:?}");
    }
}

#[test]
fn a_mount_puts_back_exactly_the_entries_that_no_mapping_page_holds() {
    for (seed, durable) in [(0, "on"), (1, "on"), (2, "off"), (3, "off")] {
        let pairs = [LARGE, &[("durable-trim", durable)]].concat();
        let mut restored = 0;
        play(&pairs, seed, |flash, lazy, settings| {
            let mut flash = flash.clone();
            let mut lazy = lazy.clone();
            lazy.flush(&mut flash).unwrap();
            let (again, report) = LazyFtl::mount(&mut flash, lazy.logical_pages, settings).unwrap();
            again.audit(&mut flash).unwrap();
            let Counters { updates, data_victims, .. } = again.counters;
            if updates + data_victims > 0 || lazy.table.discarded() > 0 {
                // The mount made room already, or discards were lost as they may be.
                return;
            }
            for lpn in 0..lazy.logical_pages {
                let (before, after) = (lazy.table.get(lpn), again.table.get(lpn));
                assert_eq!(before.is_update(), after.is_update(), "LPN {lpn}");
                assert!(!before.is_update() || before.page() == after.page(), "LPN {lpn}");
            }
            restored += report.restored;
        });
        assert!(restored > 500, "{restored}");
    }
}

#[test]
fn the_areas_keep_to_their_quotas_and_the_table_to_its_bytes() {
    for seed in 0..2 {
        play(LARGE, seed, |flash, lazy, _| {
            assert!(!lazy.table.is_over(UPDATED) && !lazy.table.is_over(COLD));
            let planned: u64 =
                <LazyFtl as Inspect<Nand<Tags, Full>>>::memory(lazy).iter().take(3).map(|row| row.1).sum();
            assert!(planned <= 6000, "{planned}");
            let areas = flash.geometry().page_count() / 10;
            assert!(lazy.table.peak() <= areas + flash.geometry().pages_per_block);
        });
    }
}

#[test]
fn a_block_over_age_is_converted_though_others_are_cheaper() {
    // A wide block is written first, then narrow ones: by cost alone it would wait for as long as those come.
    for (age, waits) in [("100000", true), ("6", false)] {
        let g = Geometry { blocks_per_die: 100, ..geometry() }.checked().unwrap();
        let mut flash = Nand::<NoData, Brief>::new(g);
        let pairs = [("cache-bytes", "6000"), ("quota", "0.08"), ("age", age)];
        let mut lazy = LazyFtl::format(&mut flash, 300, &settings(&pairs)).unwrap();
        for lpn in [0, 128, 256, 1].into_iter().chain((0..80).map(|i| 2 + i % 40)) {
            lazy.write(&mut flash, Lpn(lpn), &()).unwrap();
        }
        assert_eq!(lazy.table.covers(Block(0)), waits, "age {age}");
        assert_eq!(lazy.table.get(256).is_update(), waits);
        lazy.audit(&mut flash).unwrap();
    }
}

#[test]
fn three_percent_spare_is_enough_to_go_on_for_ever() {
    for (victims, quota) in [("net-gain", "0.001"), ("plain", "0.1")] {
        for gc in crate::gc::NAMES {
            let g = Geometry { blocks_per_die: 300, pages_per_block: 64, page_bytes: 512, ..Geometry::default() };
            let g = g.checked().unwrap();
            let mut flash = Nand::<NoData, Brief>::new(g);
            let logical = g.page_count() * 97 / 100 - 6 * 64;
            let pairs = [("victims", victims), ("gc", gc), ("quota", quota), ("cache-bytes", "40000")];
            let mut lazy = LazyFtl::format(&mut flash, logical, &settings(&pairs)).unwrap();
            let mut rng = Rng::new(9);
            for lpn in 0..logical {
                lazy.write(&mut flash, Lpn(lpn), &()).unwrap();
            }
            for i in 0..60_000 {
                let lpn = Lpn(rng.below(u64::from(logical)) as u32);
                lazy.write(&mut flash, lpn, &()).unwrap_or_else(|e| panic!("{victims} {gc} {quota} write {i}: {e}"));
            }
            lazy.audit(&mut flash).unwrap();
        }
    }
}

/// Devices as full as `check` lets them be: room is found though every page but a few is live.
#[test]
fn the_fullest_device_that_is_accepted_never_fills_up() {
    for dies in 1..=3 {
        let g = Geometry { dies, blocks_per_die: 20, ..geometry() }.checked().unwrap();
        let settings = settings(&[]);
        let fits = |pages: &u32| LazyFtl::plan_with_room(&g, *pages, &settings).is_ok();
        let logical = (1..g.page_count()).rev().find(fits).unwrap();
        let mut flash = Nand::<NoData, Brief>::new(g);
        let mut lazy = LazyFtl::format(&mut flash, logical, &settings).unwrap();
        let mut rng = Rng::new(4);
        for i in 0..logical + 20_000 {
            let lpn = if i < logical { i } else { rng.below(u64::from(logical)) as u32 };
            lazy.write(&mut flash, Lpn(lpn), &()).unwrap_or_else(|e| panic!("{dies} dies, write {i}: {e}"));
        }
        lazy.audit(&mut flash).unwrap();
    }
}

#[test]
fn what_does_not_fit_is_refused_with_what_would() {
    let mut flash = Nand::<NoData, Brief>::new(geometry());
    let error = LazyFtl::format(&mut flash, 32, &settings(&[("cache-bytes", "600")])).unwrap_err();
    assert!(error.to_string().contains("at least 680 bytes"), "{error}");
    LazyFtl::format(&mut flash, 32, &settings(&[("cache-bytes", "680")])).unwrap();
    let error = LazyFtl::format(&mut flash, 180, &settings(&[])).unwrap_err().config().unwrap();
    assert_eq!(error.key, "spare");
}

/// What a run took is what the same run takes when it is asked for (docs/metrics.md, `params.cache-bytes`).
#[test]
fn the_bytes_taken_give_the_same_plan_when_asked_for() {
    let g = Geometry { blocks_per_die: 4096, page_bytes: 2048, ..Geometry::default() }.checked().unwrap();
    let mut seen = BTreeSet::new();
    for (asked, quota, pages) in (0..40).flat_map(|i| [(i * 2500, "0.02", "4"), (i * 9000, "0.005", "1")]) {
        let plan = |bytes: u64| {
            let bytes = bytes.to_string();
            let pairs = [("cache-bytes", bytes.as_str()), ("quota", quota), ("mapping-pages", pages)];
            let lazy = LazyFtl::blank(g, 200_000, &settings(&pairs), &LazyFtl::plan(&g, 200_000, &settings(&pairs))?);
            let taken: u64 = <LazyFtl as Inspect<Nand>>::memory(&lazy).iter().take(3).map(|row| row.1).sum();
            Ok::<_, ConfigError>((taken, LazyFtl::plan(&g, 200_000, &settings(&pairs))?))
        };
        let Ok((taken, first)) = plan(asked) else { continue };
        let (again, second) = plan(taken).unwrap();
        assert_eq!((taken, first.quotas, first.pages), (again, second.quotas, second.pages), "{asked} {quota}");
        seen.insert((first.quotas, first.pages));
    }
    assert!(seen.len() > 20, "{seen:?}");
}

/// Devices that would be accepted without a block for each program that fails, and without one more. The room of a
/// spread collection is kept where converts write mapping pages, and a mapping block waits until its pages have room.
#[test]
fn failed_programs_leave_room_where_blocks_are_to_spare() {
    let cases = [
        (1, (229, 877), ("swap", "2"), vec![806], (1, 5200)),
        (2, (262, 2000), ("static", "2"), vec![1126, 1159, 1192], (11, 7300)),
    ];
    for (dies, (blocks_per_die, pages), (wear, threshold), failing, (stride, writes)) in cases {
        let pairs = [("gc-spread", "on"), ("gc-low", "2"), ("wear-levelling", wear), ("wear-threshold", threshold)];
        let settings = settings(&pairs);
        let g = Geometry { dies, blocks_per_die, ..geometry() }.checked().unwrap();
        let spare = failing.len() as u32 + 1;
        let fewer = Geometry { blocks_per_die: blocks_per_die - spare, ..g };
        assert!(LazyFtl::plan_with_room(&fewer, pages, &settings).is_ok());
        let plan = FailurePlan { program_schedule: failing, ..FailurePlan::default() };
        let mut flash = Failing::new(Nand::<Tags, Full>::new(g), plan, 1);
        let mut lazy = LazyFtl::format(&mut flash, pages, &settings).unwrap();
        for tag in 1..writes {
            let written = lazy.write(&mut flash, Lpn(tag * stride % pages), &tag.into());
            written.unwrap_or_else(|error| panic!("{dies} dies, write {tag}: {error}"));
        }
        assert_eq!(flash.grown_bad_count(), spare - 1);
        lazy.audit(&mut flash).unwrap();
    }
}

/// Programs fail until the device is full: nothing is lost, and everything can still be read.
#[test]
fn a_device_that_bad_blocks_fill_up_can_still_be_read() {
    let mut filled = 0;
    for seed in 0..200u64 {
        let mut rng = Rng::new(seed);
        let durable = if rng.chance(0.5) { "on" } else { "off" };
        let quota = if rng.chance(0.5) { "0.15" } else { "0.001" };
        let settings = settings(&[("durable-trim", durable), ("quota", quota), ("cache-bytes", "3000")]);
        let g = Geometry { dies: 1 + seed as u32 % 2, blocks_per_die: 60, pages_per_block: 8, ..geometry() };
        let plan = FailurePlan { program_rate: 0.02, ..FailurePlan::default() };
        let mut flash = Failing::new(Nand::<Tags, Full>::new(g.checked().unwrap()), plan, seed);
        let pages = 300;
        let mut lazy = LazyFtl::format(&mut flash, pages, &settings).unwrap();
        let mut expected: Vec<Option<u64>> = vec![None; pages as usize];
        let mut refused = 0;
        for tag in 0..6000u64 {
            let lpn = rng.below(u64::from(pages)) as u32;
            match lazy.write(&mut flash, Lpn(lpn), &tag) {
                Ok(()) => expected[lpn as usize] = Some(tag),
                Err(Error::Full) if refused == 20 => break,
                Err(Error::Full) => refused += 1,
                Err(error) => panic!("{error:?}"),
            }
            if refused > 0 {
                lazy.audit(&mut flash).unwrap_or_else(|what| panic!("seed {seed}, write {tag}: {what}"));
            }
        }
        filled += u32::from(refused > 0);
        for (lpn, &tag) in expected.iter().enumerate() {
            let read = lazy.read(&mut flash, Lpn(lpn as u32)).unwrap().copied();
            assert_eq!(read, tag, "seed {seed}, LPN {lpn}");
        }
        lazy.audit(&mut flash).unwrap();
    }
    assert!(filled > 50, "{filled} devices filled up");
}

#[test]
fn discarding_nothing_writes_nothing() {
    let (mut flash, mut lazy) = example();
    lazy.trim(&mut flash, Lpn(20), 32).unwrap();
    assert_eq!(flash.take(), ["R 1.0 translation_load"]);
    // What the table knows needs no reading.
    lazy.write(&mut flash, Lpn(20), &()).unwrap();
    flash.take();
    lazy.trim(&mut flash, Lpn(20), 32).unwrap();
    let lines = flash.take();
    assert!(lines.iter().any(|line| line.ends_with("translation 0 translation_update")), "{lines:?}");
    assert!(!lines.iter().any(|line| line.ends_with("translation_load")), "{lines:?}");
    lazy.audit(&mut flash).unwrap();
}

/// Of two copies of a page with one version the one that can be read counts: a page that is written after a mount needs
/// a version that no page has.
#[test]
fn what_was_written_after_a_mount_and_is_damaged_gives_way_to_nothing_older() {
    let settings = settings(&[("quota", "0.3"), ("cache-bytes", "6000")]);
    let mut flash = Nand::<Tags, Full>::new(geometry());
    let mut lazy = LazyFtl::format(&mut flash, PAGES, &settings).unwrap();
    (0..3).for_each(|lpn| lazy.write(&mut flash, Lpn(lpn), &u64::from(lpn)).unwrap());
    let mut lazy = LazyFtl::mount(&mut flash, PAGES, &settings).unwrap().0;
    // The last page of block 0, and one behind it that says that no cut left it as it is.
    [(2, 102), (3, 3)].into_iter().for_each(|(lpn, tag)| lazy.write(&mut flash, Lpn(lpn), &tag).unwrap());
    flash.chip().spoil(Ppn(3));
    let (mut lazy, report) = LazyFtl::mount(&mut flash, PAGES, &settings).unwrap();
    assert_eq!(report.perhaps_stale(), 0);
    assert!(matches!(lazy.read(&mut flash, Lpn(2)), Err(Error::Corrupt)));
    assert_eq!(lazy.read(&mut flash, Lpn(3)).unwrap(), Some(&3));
}

/// The blocks of the areas are no victims, wherever they come from, and a convert makes victims of those alone that
/// have a dead page.
#[test]
fn blocks_that_a_mount_found_are_no_victims_until_they_are_converted() {
    let settings = settings(&[("quota", "0.3"), ("cache-bytes", "6000")]);
    let mut flash = Nand::<NoData, Full>::new(geometry());
    let mut lazy = LazyFtl::format(&mut flash, PAGES, &settings).unwrap();
    // Block 0 has a dead page then, and block 3 is open.
    for lpn in (0..12).chain([0]) {
        lazy.write(&mut flash, Lpn(lpn), &()).unwrap();
    }
    let mut lazy = LazyFtl::mount(&mut flash, PAGES, &settings).unwrap().0;
    let victims = |lazy: &LazyFtl| (0..3).filter(|&block| lazy.space.blocks.is_candidate(block)).collect::<Vec<_>>();
    assert!((0..3).all(|block| lazy.table.covers(Block(block))));
    assert_eq!(victims(&lazy), Vec::new());
    (0..3).for_each(|block| lazy.convert(&mut flash, Block(block)).unwrap());
    assert_eq!(victims(&lazy), [0]);
    lazy.audit(&mut flash).unwrap();
}

/// A block that failed a program is emptied and marked bad: it is neither converted before nor a victim.
#[test]
fn a_block_that_failed_a_program_is_not_converted() {
    let settings = settings(&[("quota", "0.0001")]);
    let plan = FailurePlan { program_schedule: vec![2], ..FailurePlan::default() };
    let mut flash = Failing::new(Nand::<Tags, Full>::new(geometry()), plan, 1);
    let mut lazy = LazyFtl::format(&mut flash, PAGES, &settings).unwrap();
    // The third write fails, and block 0 is all that the update area may have.
    (0..3).for_each(|lpn| lazy.write(&mut flash, Lpn(lpn), &lpn.into()).unwrap());
    assert_eq!(lazy.space.doomed, [Block(0)]);
    assert!(lazy.table.covers(Block(0)) && !lazy.space.blocks.is_candidate(0));
    assert_eq!(lazy.convertible(None), None);
    lazy.write(&mut flash, Lpn(3), &3).unwrap();
    assert!(lazy.space.doomed.is_empty() && lazy.space.blocks.is_bad(Block(0)));
    (0..4).for_each(|lpn| assert_eq!(lazy.read(&mut flash, Lpn(lpn)).unwrap(), Some(&lpn.into())));
    lazy.audit(&mut flash).unwrap();
}

/// A mount may find more discards in the place of lost pages than the table is to keep, one for each page whose spare
/// area is gone. The next discard has their mapping pages written with its own.
#[test]
fn discards_that_a_mount_found_are_written_when_the_table_has_too_many() {
    let settings = settings(&[("quota", "0.0001")]);
    let mut flash = Nand::<NoData, Full>::new(geometry());
    let mut lazy = LazyFtl::format(&mut flash, PAGES, &settings).unwrap();
    // Blocks 0 and 2 are converted, and mapping page 0 names their pages.
    (0..8).chain([128]).for_each(|lpn| lazy.write(&mut flash, Lpn(lpn), &()).unwrap());
    [0, 1, 2, 3, 8].into_iter().for_each(|ppn| flash.chip().wreck(Ppn(ppn)));
    let mut lazy = LazyFtl::mount(&mut flash, PAGES, &settings).unwrap().0;
    let most = geometry().pages_per_block;
    assert!(lazy.table.discarded() > most);
    lazy.trim(&mut flash, Lpn(128), 1).unwrap();
    assert!(lazy.table.discarded() <= most);
    lazy.audit(&mut flash).unwrap();
}

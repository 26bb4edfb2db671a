//! The specification's worked example, command for command; the SCFTL paper's sum of the RAM; what the levels keep and
//! drop.

use super::*;
use crate::demand::cache::{Cache, Shape};
use crate::demand::testing;
use crate::parts::collector::Collects;
use crate::parts::translation::TranslationStore;
use crate::{Build, Ftl, Inspect, Settings};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use flash::{Block, Brief, CutPoint, Full, Geometry, Lpn, Nand, NoData, PowerCut, Rng, Tags, Transcript};

fn settings(pairs: &[(&str, &str)]) -> Settings {
    let mut settings = ROW.settings();
    for (name, value) in pairs {
        settings.set(name, value).unwrap();
    }
    settings
}

/// One die; 128 entries to a translation page of 512 bytes.
fn geometry(blocks: u32) -> Geometry {
    let g = Geometry { blocks_per_die: blocks, pages_per_block: 8, page_bytes: 512, ..Geometry::default() };
    g.checked().unwrap()
}

/// `cache-bytes` for a map of so many translation pages, so many pages in the second level and entries in the first.
fn bytes(map: u64, pages: u64, entries: u64) -> String {
    (4 * map + 516 * pages + 9 * entries).to_string()
}

fn count(cdftl: &Cdftl, name: &str) -> u64 {
    <Cdftl as Inspect<Nand>>::counters(cdftl).iter().find(|&&(n, _)| n == name).unwrap().1
}

#[test]
fn worked_example() {
    // Two translation pages; LPNs 0, 1 and 128 stand for the example's 0, 1 and 4.
    let mut flash = Transcript::new(Nand::<NoData, Brief>::new(geometry(40)));
    let cache = bytes(2, 1, 1);
    let pairs = [("cache-bytes", cache.as_str()), ("second-level", "1"), ("init-tps", "on")];
    let mut cdftl = Cdftl::format(&mut flash, 200, &settings(&pairs)).unwrap();
    flash.take();
    for lpn in [0, 1, 128] {
        cdftl.write(&mut flash, Lpn(lpn), &()).unwrap();
        cdftl.audit(&mut flash).unwrap();
    }
    let expected = [
        "R 0.0 translation_load",
        "W 1.0 data 0 host",
        "W 1.1 data 1 host",
        "W 0.2 translation 0 translation_update",
        "R 0.1 translation_load",
        "W 1.2 data 128 host",
    ];
    let lines: Vec<String> = flash.take().into_iter().filter(|line| !line.contains("recovery")).collect();
    assert_eq!(lines, expected);
    let counters = <Cdftl as Inspect<Nand>>::cache(&cdftl).unwrap();
    assert_eq!((counters.accesses, counters.hits, counters.writebacks, counters.writeback_entries), (3, 1, 1, 2));
    assert_eq!((count(&cdftl, "second_level_hits"), count(&cdftl, "first_level_merged")), (1, 1));
    assert_eq!((count(&cdftl, "first_level_dropped"), count(&cdftl, "second_level_flushed")), (1, 1));
}

/// The first level holds entries 0 (dirty, its page gone) and 128 (clean), the second level page 2. A fourth entry
/// drives out 0, which costs an update, or 128, which costs nothing, as far as the search goes.
#[test]
fn the_search_for_a_victim_goes_as_far_as_its_window() {
    for (window, update, gone) in [("1", true, 0), ("2", false, 128), ("0", false, 128)] {
        let mut flash = Transcript::new(Nand::<NoData, Brief>::new(geometry(60)));
        let cache = bytes(3, 1, 3);
        let pairs =
            [("cache-bytes", cache.as_str()), ("second-level", "1"), ("init-tps", "on"), ("victim-window", window)];
        let mut cdftl = Cdftl::format(&mut flash, 384, &settings(&pairs)).unwrap();
        cdftl.write(&mut flash, Lpn(0), &()).unwrap();
        cdftl.read(&mut flash, Lpn(128)).unwrap();
        cdftl.read(&mut flash, Lpn(256)).unwrap();
        flash.take();
        cdftl.read(&mut flash, Lpn(257)).unwrap();
        let lines: Vec<String> = flash.take().into_iter().filter(|line| !line.starts_with('O')).collect();
        assert_eq!(lines.iter().any(|line| line.ends_with("translation_update")), update, "{window}: {lines:?}");
        assert_eq!(count(&cdftl, "first_level_flushed"), u64::from(update), "{window}");
        cdftl.audit(&mut flash).unwrap();
        flash.take();
        // The one that stayed takes no look at its page, and the one that went does.
        for lpn in [128 - gone, gone] {
            cdftl.read(&mut flash, Lpn(lpn)).unwrap();
            let loads = flash.take().iter().any(|line| line.ends_with("translation_load"));
            assert_eq!(loads, lpn == gone, "{window}: LPN {lpn}");
        }
    }
}

/// A dirty entry whose translation page is gone from the second level, and nothing else to evict.
#[test]
fn an_entry_without_its_page_is_written_or_has_the_page_installed() {
    for (install, expected) in [
        (
            "off",
            [
                "R 0.1 translation_load",
                "R 0.0 translation_update",
                "W 0.2 translation 0 translation_update",
                "W 1.1 data 128 host",
            ],
        ),
        // Page 0 comes back for entry 0 and drives out page 1, which was loaded for entry 128.
        ("on", ["R 0.1 translation_load", "R 0.0 translation_load", "W 1.1 data 128 host", ""]),
    ] {
        let mut flash = Transcript::new(Nand::<NoData, Brief>::new(geometry(40)));
        let cache = bytes(2, 1, 1);
        let pairs = [("cache-bytes", cache.as_str()), ("second-level", "1"), ("init-tps", "on"), ("install", install)];
        let mut cdftl = Cdftl::format(&mut flash, 200, &settings(&pairs)).unwrap();
        cdftl.write(&mut flash, Lpn(0), &()).unwrap();
        flash.take();
        // The second level holds page 0, clean; the first entry 0, dirty.
        cdftl.write(&mut flash, Lpn(128), &()).unwrap();
        let expected: Vec<&str> = expected.into_iter().filter(|line| !line.is_empty()).collect();
        assert_eq!(flash.take(), expected, "install {install}");
        cdftl.audit(&mut flash).unwrap();
        assert_eq!(count(&cdftl, "first_level_flushed"), 1);
        let programs = u64::from(install == "off");
        assert_eq!(<Cdftl as Inspect<Nand>>::cache(&cdftl).unwrap().writebacks, programs);
        assert!(cdftl.read(&mut flash, Lpn(0)).unwrap().is_some());
        assert!(cdftl.read(&mut flash, Lpn(128)).unwrap().is_some());
    }
}

#[test]
fn the_first_level_prefers_what_takes_no_flash_command() {
    let mut flash = Transcript::new(Nand::<NoData, Brief>::new(geometry(60)));
    let cache = bytes(3, 1, 3);
    let pairs = [("cache-bytes", cache.as_str()), ("second-level", "1"), ("init-tps", "on")];
    let mut cdftl = Cdftl::format(&mut flash, 300, &settings(&pairs)).unwrap();
    // From the least recent: 0, dirty, its page gone; 128, clean; 256, dirty, its page there.
    cdftl.write(&mut flash, Lpn(0), &()).unwrap();
    cdftl.read(&mut flash, Lpn(128)).unwrap();
    cdftl.write(&mut flash, Lpn(256), &()).unwrap();
    flash.take();
    // 128 goes, then 256 into its page; 0 stays.
    for (lpn, lines) in [(257, 0), (258, 0)] {
        cdftl.read(&mut flash, Lpn(lpn)).unwrap();
        assert_eq!(flash.take().len(), lines, "LPN {lpn}");
    }
    assert_eq!((count(&cdftl, "first_level_dropped"), count(&cdftl, "first_level_merged")), (1, 1));
    assert!(cdftl.read(&mut flash, Lpn(0)).unwrap().is_some());
    assert_eq!(flash.take(), ["R 1.0 host"]);
    // 128 is in neither level any more; its page drives out page 2, which has entry 256 and is written without a read.
    cdftl.read(&mut flash, Lpn(128)).unwrap();
    assert_eq!(flash.take(), ["W 0.3 translation 2 translation_update", "R 0.1 translation_load"]);
    cdftl.audit(&mut flash).unwrap();
}

#[test]
fn the_bytes_are_those_of_s1() {
    // 8 GB in pages of 8 KB: 4096 blocks of 256 pages.
    let g = Geometry { blocks_per_die: 4096, pages_per_block: 256, page_bytes: 8192, ..Geometry::default() };
    let g = g.checked().unwrap();
    let shape = Shape { logical_pages: g.page_count(), page_entries: g.entries_per_page(), geometry: g };
    let directory = TranslationStore::new(shape.logical_pages, shape.page_entries, crate::demand::TRANSLATION).memory();
    assert_eq!((shape.pages(), directory), (512, 2048));
    let (pages, tags) = (2 * 8192, 2 * 4);
    let cache = TwoLevels::new(&shape, &(&settings(&[])).into(), 256 * 9 + pages + tags);
    assert_eq!(cache.memory(), 256 * 9 + pages + tags);
    assert_eq!(directory + cache.memory() - tags, 20 * 1024 + 256);
    // What does not make an entry is not taken.
    assert_eq!(TwoLevels::new(&shape, &(&settings(&[])).into(), 256 * 9 + pages + tags + 8).memory(), cache.memory());
}

#[test]
fn a_cache_below_a_page_is_refused_with_the_reason() {
    let mut flash = Nand::<NoData, Brief>::new(geometry(16));
    // One translation page: the second level has no more than that.
    let error = Cdftl::format(&mut flash, 48, &settings(&[("cache-bytes", "528")])).unwrap_err().config().unwrap();
    assert_eq!(error.key, "cache-bytes");
    assert!(error.what.contains("whole translation pages with one entry in front of it 525"), "{error}");
    assert!(error.fix.contains("at least 529 bytes"), "{error}");
    assert!(Cdftl::format(&mut flash, 48, &settings(&[("cache-bytes", "529")])).is_ok());
}

/// A second level of the whole map reads each translation page once and updates none, whatever the first level is.
#[test]
fn a_second_level_of_the_whole_map_misses_once_a_page() {
    let mut flash = Nand::<NoData, Brief>::new(geometry(60));
    let cache = bytes(3, 3, 2);
    let pairs = [("cache-bytes", cache.as_str()), ("second-level", "3"), ("init-tps", "on")];
    let mut cdftl = Cdftl::format(&mut flash, 300, &settings(&pairs)).unwrap();
    let mut rng = Rng::new(3);
    for _ in 0..5_000 {
        cdftl.write(&mut flash, Lpn(rng.below(300) as u32), &()).unwrap();
    }
    cdftl.audit(&mut flash).unwrap();
    // The updates are formatting's.
    assert_eq!((count(&cdftl, "translation_loads"), count(&cdftl, "translation_updates")), (3, 3));
    assert!(count(&cdftl, "gc_data_victims") > 300 && count(&cdftl, "second_level_hits") > 4_900);
}

#[test]
fn mounts_with_what_the_levels_held() {
    for (second, entries) in [(1, 1), (1, 12), (2, 40)] {
        for (install, window) in [("off", "0"), ("on", "0"), ("off", "1"), ("on", "3")] {
            let mut flash = Nand::<Tags, Full>::new(geometry(60));
            let (cache, second) = (bytes(3, second, entries), second.to_string());
            let pairs = [
                ("cache-bytes", cache.as_str()),
                ("second-level", &second),
                ("install", install),
                ("victim-window", window),
            ];
            let settings = settings(&pairs);
            let mut cdftl = Cdftl::format(&mut flash, 300, &settings).unwrap();
            let mut rng = Rng::new(7);
            let mut last = [None; 300];
            for tag in 0..3_000 {
                let lpn = rng.below(300) as u32;
                cdftl.write(&mut flash, Lpn(lpn), &tag).unwrap();
                last[lpn as usize] = Some(tag);
            }
            let (mut again, report) = Cdftl::mount(&mut flash, 300, &settings).unwrap();
            assert!(report.restored > 0);
            again.audit(&mut flash).unwrap();
            for (lpn, &tag) in last.iter().enumerate() {
                assert_eq!(again.read(&mut flash, Lpn(lpn as u32)).unwrap().copied(), tag);
            }
        }
    }
}

#[test]
fn a_collection_that_bad_blocks_cut_short_loses_nothing() {
    testing::a_collection_that_bad_blocks_cut_short_loses_nothing::<TwoLevels, OutOfPlace>(|rng| {
        let [fold, install] = [0.5, 0.5].map(|chance| if rng.chance(chance) { "on" } else { "off" });
        let cache = bytes(3, 1, 1 + rng.below(20));
        settings(&[("cache-bytes", &cache), ("second-level", "1"), ("gc-fold", fold), ("install", install)])
    });
}

/// Entries that were set aside counted as newer than the others once they were restored, so that of those that could
/// go another one went.
#[test]
fn what_is_restored_goes_on_as_the_original() {
    for seed in 0..12 {
        let mut rng = Rng::new(seed);
        let (pages, entries) = (1 + rng.below(2), 1 + rng.below(40));
        let (cache, second) = (bytes(3, pages, entries), pages.to_string());
        let spread = if rng.chance(0.5) { "on" } else { "off" };
        let pairs = [("cache-bytes", cache.as_str()), ("second-level", &second), ("gc-spread", spread)];
        let settings = settings(&pairs);
        let mut flash = Transcript::new(Nand::<Tags, Full>::new(geometry(60)));
        let mut cdftl = Cdftl::format(&mut flash, 300, &settings).unwrap();
        for tag in 0..1_000 {
            let (lpn, reads) = (Lpn(rng.below(300) as u32), rng.chance(0.3));
            if reads {
                cdftl.read(&mut flash, lpn).unwrap();
            } else {
                cdftl.write(&mut flash, lpn, &tag).unwrap();
            }
            if tag % 10 > 0 {
                continue;
            }
            flash.take();
            let saved = <Cdftl as Inspect<Nand>>::save(&cdftl);
            let mut again = <Cdftl as Build<Nand>>::restore(&geometry(60), 300, &settings, &saved);
            let (mut original, mut theirs, mut ours) = (cdftl.clone(), flash.clone(), flash.clone());
            let mut ahead = rng.clone();
            for next in 0..60 {
                let (lpn, reads) = (Lpn(ahead.below(300) as u32), ahead.chance(0.5));
                if reads {
                    original.read(&mut theirs, lpn).unwrap();
                    again.read(&mut ours, lpn).unwrap();
                } else {
                    original.write(&mut theirs, lpn, &next).unwrap();
                    again.write(&mut ours, lpn, &next).unwrap();
                }
                assert_eq!(ours.take(), theirs.take(), "seed {seed}, write {tag}, request {next}");
            }
        }
    }
}

/// A collection that writes moved pages alone into their translation page leaves a dirty entry of that page in the
/// first level: the watermark stays, or a mount would not look for the page that the entry names.
#[test]
fn a_dirty_entry_of_the_first_level_keeps_the_watermark_where_it_is() {
    let mut flash = Nand::<Tags, Full>::new(geometry(40));
    let cache = bytes(2, 1, 3);
    let settings = settings(&[("cache-bytes", cache.as_str()), ("second-level", "1"), ("gc-fold", "off")]);
    let mut cdftl = Cdftl::format(&mut flash, 200, &settings).unwrap();
    let write = |cdftl: &mut Cdftl, flash: &mut _, lpn| cdftl.write(flash, Lpn(lpn), &u64::from(lpn)).unwrap();
    (0..8).for_each(|lpn| write(&mut cdftl, &mut flash, lpn));
    // Page 1 drives page 0 out of the second level, and the three newest entries are of page 1.
    (128..131).for_each(|lpn| write(&mut cdftl, &mut flash, lpn));
    cdftl.write(&mut flash, Lpn(0), &100).unwrap();
    // Once more: page 0 goes without the dirty entry of LPN 0.
    cdftl.read(&mut flash, Lpn(129)).unwrap();
    cdftl.read(&mut flash, Lpn(128)).unwrap();
    assert_eq!(cdftl.space().blocks.live_of(Block(0)), 7);
    cdftl.collect(&mut flash, Block(0), None).unwrap();
    cdftl.audit(&mut flash).unwrap();
    let mut again = Cdftl::mount(&mut flash, 200, &settings).unwrap().0;
    assert_eq!(again.read(&mut flash, Lpn(0)).unwrap(), Some(&100));
    (1..8).for_each(|lpn| assert_eq!(again.read(&mut flash, Lpn(lpn)).unwrap(), Some(&lpn.into())));
}

/// A mount finds two entries of page 0, copies of a collection that was cut short, and three of page 1. These would
/// take the place of those in the second level, but the first has no room for two.
#[test]
fn restored_entries_that_find_no_other_place_stay_dirty_where_they_are() {
    let mut flash = PowerCut::counting(Nand::<Tags, Full>::new(geometry(40)));
    let cache = bytes(2, 1, 1);
    let settings = settings(&[("cache-bytes", cache.as_str()), ("second-level", "1")]);
    let mut cdftl = Cdftl::format(&mut flash, 200, &settings).unwrap();
    for lpn in (0..8).chain(128..131) {
        cdftl.write(&mut flash, Lpn(lpn), &lpn.into()).unwrap();
    }
    flash.arm(CutPoint { command: 2, face: 0 }, 1);
    assert!(cdftl.collect(&mut flash, Block(0), None).is_err());
    flash.restart();
    let (mut cdftl, report) = Cdftl::mount(&mut flash, 200, &settings).unwrap();
    assert_eq!(report.restored, 5);
    // Page 1 drives page 0 out, and what is left of block 0 is moved.
    cdftl.read(&mut flash, Lpn(131)).unwrap();
    cdftl.collect(&mut flash, Block(0), None).unwrap();
    for lpn in (0..8).chain(128..131) {
        assert_eq!(cdftl.read(&mut flash, Lpn(lpn)).unwrap(), Some(&lpn.into()));
    }
    cdftl.audit(&mut flash).unwrap();
}

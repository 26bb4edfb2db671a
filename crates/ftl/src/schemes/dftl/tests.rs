//! The specification's worked examples, command for command.

use super::*;
use crate::demand::testing;
use crate::{Build, Error, Ftl, Inspect, Settings};
use alloc::string::String;
use alloc::string::ToString;
use alloc::vec::Vec;
use flash::device::{CellTimes, PageTimes, Server, Timing};
use flash::{
    Brief, Cause, Clocked, CutPoint, Fragile, Full, Geometry, Lpn, Nand, NoData, Op, Ppn, Rng, Tags, Timeline,
    Transcript,
};

fn settings(row: &Scheme, pairs: &[(&str, &str)]) -> Settings {
    let mut settings = row.settings();
    for (name, value) in pairs {
        settings.set(name, value).unwrap();
    }
    settings
}

/// One die of 16 blocks of 8 pages; 128 entries to a translation page of 512 bytes.
fn geometry() -> Geometry {
    let g = Geometry { blocks_per_die: 16, pages_per_block: 8, page_bytes: 512, ..Geometry::default() };
    g.checked().unwrap()
}

#[test]
fn worked_example_1_a_miss_behind_a_dirty_victim() {
    // The DFTL paper, figure 5: the victim LPN 1 is dirty, LPN 1280 is asked for. Entries: 512 to a page.
    let g = Geometry { blocks_per_die: 64, pages_per_block: 64, page_bytes: 2048, ..Geometry::default() };
    let mut flash = Transcript::new(Nand::<NoData, Brief>::new(g.checked().unwrap()));
    let pages = 1536;
    let cache = (3 * 4 + 2 * 8).to_string();
    let pairs = [("cache-bytes", cache.as_str()), ("replacement", "lru"), ("init-tps", "on")];
    let mut dftl = Dftl::format(&mut flash, pages, &settings(&ROW, &pairs)).unwrap();
    for lpn in [1280, 1, 2] {
        dftl.write(&mut flash, Lpn(lpn), &()).unwrap();
    }
    flash.take();
    // The cache holds 1 and 2, both dirty; 1280 was evicted. Its read evicts 1 and takes 2 along.
    dftl.read(&mut flash, Lpn(1280)).unwrap();
    let expected =
        ["R 0.0 translation_update", "W 0.4 translation 0 translation_update", "R 0.3 translation_load", "R 1.0 host"];
    assert_eq!(flash.take(), expected);
    dftl.audit(&mut flash).unwrap();
}

/// The whole map is cached, so nothing is evicted, and the one block of translation pages stays full. Collections come
/// when a data block is full, as where evictions test for room, and as with a block of translation pages that is not
/// full: blocks of what the host writes now and blocks of copies stay apart.
#[test]
fn a_full_block_of_translation_pages_hurries_no_collection_where_nothing_is_evicted() {
    let programs = |spread: &str, at: &str| {
        let g = Geometry { blocks_per_die: 144, pages_per_block: 8, page_bytes: 512, ..Geometry::default() };
        let mut flash = Transcript::new(Nand::<NoData, Brief>::new(g.checked().unwrap()));
        let pairs = [("cache-bytes", "16384"), ("init-tps", "on"), ("gc-spread", spread), ("gc-in-evictions", at)];
        let mut dftl = Dftl::format(&mut flash, 1024, &settings(&ROW, &pairs)).unwrap();
        let mut rng = Rng::new(1);
        (0..1024).for_each(|lpn| dftl.write(&mut flash, Lpn(lpn), &()).unwrap());
        for _ in 0..10_000 {
            let hot = rng.chance(0.8);
            let lpn = Lpn(rng.below(if hot { 128 } else { 1024 }) as u32);
            dftl.write(&mut flash, lpn, &()).unwrap();
        }
        let lines = flash.take();
        assert_eq!(lines.iter().filter(|line| line.contains("translation_update")).count(), 0);
        lines.iter().filter(|line| line.starts_with('W')).count()
    };
    for spread in ["off", "on"] {
        assert_eq!(programs(spread, "off"), programs(spread, "on"), "gc-spread = {spread}");
    }
}

#[test]
fn worked_example_2_with_and_without_batching() {
    for (batch, reads, writes) in [("on", 7, 2), ("off", 8, 3)] {
        // Two translation pages of 128 entries; LPNs 0, 1 and 128 stand for the example's 0, 1 and 4.
        let g = Geometry { blocks_per_die: 40, pages_per_block: 8, page_bytes: 512, ..Geometry::default() };
        let mut flash = Transcript::new(Nand::<NoData, Brief>::new(g.checked().unwrap()));
        let cache = (2 * 4 + 2 * 8).to_string();
        let pairs =
            [("cache-bytes", cache.as_str()), ("replacement", "lru"), ("batch-evict", batch), ("init-tps", "on")];
        let mut dftl = Dftl::format(&mut flash, 200, &settings(&ROW, &pairs)).unwrap();
        flash.take();
        for lpn in [0, 1, 128] {
            dftl.write(&mut flash, Lpn(lpn), &()).unwrap();
        }
        for lpn in [0, 1] {
            assert!(dftl.read(&mut flash, Lpn(lpn)).unwrap().is_some());
        }
        let lines = flash.take();
        if batch == "on" {
            let expected = [
                "R 0.0 translation_load",
                "W 1.0 data 0 host",
                "R 0.0 translation_load",
                "W 1.1 data 1 host",
                "R 0.0 translation_update",
                "W 0.2 translation 0 translation_update",
                "R 0.1 translation_load",
                "W 1.2 data 128 host",
                "R 0.2 translation_load",
                "R 1.0 host",
                "R 0.1 translation_update",
                "W 0.3 translation 1 translation_update",
                "R 0.2 translation_load",
                "R 1.1 host",
            ];
            assert_eq!(lines, expected);
        }
        let count =
            |start: &str, end: &str| lines.iter().filter(|line| line.starts_with(start) && line.contains(end)).count();
        assert_eq!(count("R", "translation"), reads, "batch {batch}: {lines:?}");
        assert_eq!(count("W", "translation_update"), writes);
        assert_eq!((count("W", "host"), count("R", " host")), (3, 2));
        dftl.audit(&mut flash).unwrap();
    }
}

#[test]
fn lines_of_one_entry_are_dftl_with_lru() {
    let g = Geometry { blocks_per_die: 40, pages_per_block: 8, page_bytes: 512, ..Geometry::default() };
    let g = g.checked().unwrap();
    let run = |row: &Scheme, pairs: &[(&str, &str)]| {
        let mut flash = Transcript::new(Nand::<NoData, Brief>::new(g));
        let mut dftl = Dftl::format(&mut flash, 200, &settings(row, pairs)).unwrap();
        let mut rng = flash::Rng::new(5);
        for _ in 0..20_000 {
            let lpn = Lpn(rng.below(200) as u32);
            if rng.chance(0.3) {
                dftl.read(&mut flash, lpn).unwrap();
            } else {
                dftl.write(&mut flash, lpn, &()).unwrap();
            }
        }
        dftl.audit(&mut flash).unwrap();
        flash.take()
    };
    let dftl = run(&ROW, &[("cache-bytes", "168"), ("replacement", "lru")]);
    // A line of one is stored as a single entry, 8 bytes, so that equal bytes are equal entries.
    let lines = run(&ROW_E, &[("cache-bytes", "168"), ("line", "1")]);
    assert_eq!(dftl, lines);
}

#[test]
fn discarding_nothing_writes_nothing() {
    let mut flash = Transcript::new(Nand::<NoData, Brief>::new(geometry()));
    let pairs = [("cache-bytes", "64"), ("durable-trim", "on")];
    let mut dftl = Dftl::format(&mut flash, 64, &settings(&ROW, &pairs)).unwrap();
    flash.take();
    let discard = |dftl: &mut Dftl, flash: &mut Transcript<Nand<NoData, Brief>>| {
        dftl.trim(flash, Lpn(0), 32).unwrap();
        flash.take().iter().map(|line| line.as_bytes()[0] as char).collect::<Vec<_>>()
    };
    assert_eq!(discard(&mut dftl, &mut flash), []);
    dftl.write(&mut flash, Lpn(5), &()).unwrap();
    flash.take();
    // The cache knows that there is something; afterwards the translation page says that there is not.
    assert_eq!(discard(&mut dftl, &mut flash), ['W']);
    assert_eq!(discard(&mut dftl, &mut flash), ['R']);
}

/// The commands of random writes, reads and discards, over a full device of `dies` dies.
fn commands<S: Build<Transcript<Nand<NoData, Brief>>>>(row: &Scheme, pairs: &[(&str, &str)], dies: u32) -> Vec<String> {
    let g = Geometry { dies, blocks_per_die: 96 / dies, pages_per_block: 16, page_bytes: 4096, ..Geometry::default() };
    let mut flash = Transcript::new(Nand::<NoData, Brief>::new(g.checked().unwrap()));
    let logical = 1536 - 16 * 8 * dies;
    let mut scheme = S::format(&mut flash, logical, &settings(row, pairs)).unwrap();
    let mut rng = flash::Rng::new(5);
    for lpn in (0..logical).map(Lpn) {
        scheme.write(&mut flash, lpn, &()).unwrap();
    }
    for _ in 0..12_000 {
        let lpn = Lpn(if rng.chance(0.5) { rng.below(64) } else { rng.below(u64::from(logical)) } as u32);
        match rng.below(16) {
            0..4 => _ = scheme.read(&mut flash, lpn).unwrap(),
            4 => scheme.trim(&mut flash, lpn, 1).unwrap(),
            _ => scheme.write(&mut flash, lpn, &()).unwrap_or_else(|error| panic!("{pairs:?}, {dies} dies: {error}")),
        }
    }
    scheme.audit(&mut flash).unwrap();
    flash.take()
}

/// With a cache that holds the whole map nothing is left of DFTL but a page map: the same commands, one by one, whoever
/// picks the victims, in both rhythms, on one die and on several.
#[test]
fn a_cache_of_the_whole_map_is_page_mapping() {
    let page = crate::schemes::by_name("page").unwrap();
    for (gc, spread, dies) in crate::gc::NAMES
        .iter()
        .flat_map(|gc| ["off", "on"].map(|spread| [1, 8].map(|dies| (gc, spread, dies))))
        .flatten()
    {
        let pairs = [("gc", *gc), ("gc-spread", spread)];
        let mapped = commands::<crate::schemes::Page>(page, &pairs, dies);
        assert!(mapped.iter().filter(|line| line.ends_with("data_gc")).count() > 2_000, "{gc}");
        let cached = commands::<Dftl>(&ROW, &[&pairs[..], &[("cache-bytes", "32768")]].concat(), dies);
        let differ = mapped.iter().zip(&cached).position(|(page, dftl)| page != dftl);
        assert_eq!((differ, mapped.len()), (None, cached.len()), "{gc}, gc-spread {spread}, {dies} dies");
    }
}

#[test]
fn three_percent_spare_is_enough_to_go_on_for_ever() {
    for victims in ["net-gain", "plain"] {
        for gc in crate::gc::NAMES {
            let g = Geometry { blocks_per_die: 300, pages_per_block: 64, page_bytes: 512, ..Geometry::default() };
            let g = g.checked().unwrap();
            let mut flash = Nand::<NoData, Brief>::new(g);
            let logical = g.page_count() * 97 / 100 - 6 * 64;
            let pairs = [("victims", victims), ("gc", gc)];
            let mut dftl = Dftl::format(&mut flash, logical, &settings(&ROW, &pairs)).unwrap();
            let mut rng = flash::Rng::new(9);
            for lpn in 0..logical {
                dftl.write(&mut flash, Lpn(lpn), &()).unwrap();
            }
            for i in 0..60_000 {
                let lpn = Lpn(rng.below(u64::from(logical)) as u32);
                dftl.write(&mut flash, lpn, &()).unwrap_or_else(|e| panic!("{victims} {gc} write {i}: {e}"));
            }
            dftl.audit(&mut flash).unwrap();
        }
    }
}

#[test]
fn a_cache_below_the_minimum_is_refused_with_it() {
    let mut flash = Nand::<NoData, Brief>::new(geometry());
    let error = Dftl::format(&mut flash, 32, &settings(&ROW, &[("cache-bytes", "10")])).unwrap_err();
    assert!(error.to_string().contains("at least 20 bytes"), "{error}");
    let error = Dftl::format(&mut flash, 32, &settings(&ROW_E, &[("line", "256")])).unwrap_err().config().unwrap();
    assert_eq!(error.key, "line");
    let error = Dftl::format(&mut flash, 120, &settings(&ROW, &[])).unwrap_err().config().unwrap();
    assert_eq!(error.key, "spare");
}

#[test]
fn mounts_with_what_the_cache_held() {
    let mut flash = Nand::<Tags, Full>::new(geometry());
    let settings = settings(&ROW, &[("cache-bytes", "40")]);
    let mut dftl = Dftl::format(&mut flash, 64, &settings).unwrap();
    for i in 0..500u32 {
        dftl.write(&mut flash, Lpn(i * 7 % 64), &u64::from(i)).unwrap();
    }
    let (mut again, report) = Dftl::mount(&mut flash, 64, &settings).unwrap();
    assert!(report.restored > 0);
    again.audit(&mut flash).unwrap();
    for lpn in 0..64 {
        let last = (0..500u32).rev().find(|i| i * 7 % 64 == lpn).map(u64::from);
        assert_eq!(again.read(&mut flash, Lpn(lpn)).unwrap().copied(), last);
    }
}

#[test]
fn a_discard_holds_though_a_spread_collection_erases_the_newest_copy() {
    let settings = settings(&ROW, &[("durable-trim", "on"), ("gc-spread", "on"), ("cache-bytes", "1024")]);
    testing::a_discard_holds_though_a_spread_collection_erases_the_newest_copy::<Lines, OutOfPlace>(&settings);
}

#[test]
fn a_collection_that_bad_blocks_cut_short_loses_nothing() {
    testing::a_collection_that_bad_blocks_cut_short_loses_nothing::<Lines, OutOfPlace>(|rng| {
        let fold = if rng.chance(0.5) { "on" } else { "off" };
        let pairs =
            [("cache-bytes", "60"), ("gc-fold", fold), ("batch-evict", if rng.chance(0.5) { "on" } else { "off" })];
        let row = if rng.chance(0.5) { &ROW } else { &ROW_E };
        let line: &[_] = if core::ptr::eq(row, &ROW_E) { &[("line", "4")] } else { &[] };
        settings(row, &[&pairs[..], line].concat())
    });
}

#[test]
fn a_spread_collection_ends_when_all_its_moves_are_told() {
    let settings = settings(&ROW, &[("cache-bytes", "60"), ("gc-spread", "on")]);
    testing::a_spread_collection_ends_when_all_its_moves_are_told::<Lines, OutOfPlace>(&settings);
}

/// A block is emptied only if its pages and their map entries have room: by collections, and by wear levelling.
#[test]
fn a_failed_program_leaves_room_where_blocks_are_to_spare() {
    let run = |pairs: &[(&str, &str)], device, failing| {
        let settings = settings(&ROW, &[&[("gc-low", "2"), ("victims", "plain")], pairs].concat());
        testing::a_failed_program_leaves_room_where_blocks_are_to_spare::<Lines, OutOfPlace>(
            &settings, device, failing,
        );
    };
    run(&[("gc", "random"), ("batch-evict", "off")], (41, 132), 347);
    let level = |mode| [("cache-bytes", "60"), ("wear-levelling", mode), ("wear-threshold", "1")];
    run(&[&[("gc", "fifo")], &level("swap")[..]].concat(), (41, 132), 203);
    run(&[&[("gc", "fifo")], &level("static")[..]].concat(), (41, 132), 332);
    run(&[&[("gc", "cost-benefit"), ("batch-evict", "off")], &level("static")[..]].concat(), (47, 156), 454);
}

/// A mount makes room before anything else takes a page, and by the cheapest victims: `fifo` would name live blocks.
#[test]
fn collections_keep_their_room_over_many_cuts() {
    let cuts = |round: u64| [7 + round % 3, round % 3].map(|command| CutPoint { command, face: 1 });
    let pairs = [("gc-spread", "on"), ("gc", "fifo"), ("gc-low", "2"), ("victims", "plain"), ("cache-bytes", "40")];
    let device = (Geometry { dies: 2, blocks_per_die: 39, ..Geometry::default() }, 260);
    testing::collections_keep_their_room_over_many_cuts::<Lines, OutOfPlace>(
        &settings(&ROW, &pairs),
        device,
        130,
        cuts,
    );
    let late = |round: u64| [6 + round % 4, 2 * (round % 3)].map(|command| CutPoint { command, face: 1 });
    testing::collections_keep_their_room_over_many_cuts::<Lines, OutOfPlace>(
        &settings(&ROW, &pairs),
        (Geometry { blocks_per_die: 30, ..Geometry::default() }, 92),
        130,
        late,
    );
    let pairs = [("gc-spread", "on"), ("gc", "fifo"), ("gc-low", "2"), ("victims", "plain"), ("gc-fold", "off")];
    let device = (Geometry { blocks_per_die: 36, ..Geometry::default() }, 116);
    testing::collections_keep_their_room_over_many_cuts::<Lines, OutOfPlace>(
        &settings(&ROW, &pairs),
        device,
        130,
        cuts,
    );
}

#[test]
fn ram_is_the_sum_of_the_paper_on_scftl() {
    // 8 GiB of 8 KiB pages: 512 translation pages, 2048 entries of 66 bits, 18.5 KiB (the SCFTL paper, section IV).
    let g = Geometry { blocks_per_die: 4400, pages_per_block: 256, page_bytes: 8192, ..Geometry::default() };
    let mut flash = Nand::<NoData, Brief>::new(g.checked().unwrap());
    let settings = settings(&ROW, &[("cache-bytes", "18944"), ("entry-bits", "66")]);
    let dftl = Dftl::format(&mut flash, 1 << 20, &settings).unwrap();
    let memory = <Dftl as Inspect<Nand>>::memory(&dftl);
    let bytes = |name: &str| memory.iter().find(|&&(n, _)| n == name).unwrap().1;
    assert_eq!((bytes("translation directory"), bytes("mapping cache")), (2048, 2048 * 66 / 8));
}

/// Of two copies of a page with one version the one that can be read counts: a page that is written after a mount needs
/// a version that no page has.
#[test]
fn what_was_written_after_a_mount_and_is_damaged_gives_way_to_nothing_older() {
    let settings = settings(&ROW, &[("cache-bytes", "400")]);
    let mut flash = Nand::<Tags, Full>::new(geometry());
    let mut dftl = Dftl::format(&mut flash, 40, &settings).unwrap();
    (0..7).for_each(|lpn| dftl.write(&mut flash, Lpn(lpn), &u64::from(lpn)).unwrap());
    let mut dftl = Dftl::mount(&mut flash, 40, &settings).unwrap().0;
    // The last page of block 0, and one behind it that says that no cut left it as it is.
    [(6, 106), (7, 7)].into_iter().for_each(|(lpn, tag)| dftl.write(&mut flash, Lpn(lpn), &tag).unwrap());
    flash.chip().spoil(Ppn(7));
    let (mut dftl, report) = Dftl::mount(&mut flash, 40, &settings).unwrap();
    assert_eq!(report.perhaps_stale(), 0);
    assert!(matches!(dftl.read(&mut flash, Lpn(6)), Err(Error::Corrupt)));
    assert_eq!(dftl.read(&mut flash, Lpn(7)).unwrap(), Some(&7));
}

/// The read that asks for a rewrite waits for it if it is told to: a read of two units and a program of ten, on a map
/// whose entry is cached.
#[test]
fn a_read_waits_for_its_rewrite_if_told_to() {
    for (read_waits, waits) in [("off", 2), ("on", 12)] {
        let cells = CellTimes { read_ns: 2, oob_read_ns: 2, program_ns: 10, partial_program_ns: 10, erase_ns: 100 };
        let times = PageTimes { read_ns: 2, program_ns: 10 };
        let timing = Timing {
            read_ns: 2,
            oob_read_ns: 2,
            program_ns: 10,
            partial_program_ns: 10,
            erase_ns: 100,
            page_transfer_ns: 0,
            oob_transfer_ns: 0,
            slc: cells,
            low_cost: times,
            medium: times,
        };
        let mut flash = Timeline::new(Nand::<NoData, Brief>::new(geometry()), timing, Server::Parallel);
        let pairs = [("ecc", "differentiated"), ("ecc-n", "0"), ("ecc-rewrite-waits", read_waits)];
        let mut dftl = Dftl::format(&mut flash, 32, &settings(&ROW, &pairs)).unwrap();
        dftl.write(&mut flash, Lpn(3), &()).unwrap();
        flash.reset();
        let now = flash.idle_at_ns();
        flash.arrive(now);
        flash.page_begin();
        assert!(dftl.read(&mut flash, Lpn(3)).unwrap().is_some());
        assert_eq!(flash.page_end().end_ns - now, waits, "{read_waits}");
        assert_eq!(flash.tally().get(Cause::EccRewrite, Op::Program), 1);
        assert_eq!(flash.idle_at_ns() - now, 12, "the rewrite takes its time in any case");
        dftl.audit(&mut flash).unwrap();
    }
}

//! What the budget holds, what goes into the dirty buffer and comes back, and what a collection may not do.

use super::*;
use crate::demand::cache::{Cache, Entry, Shape};
use crate::demand::testing;
use crate::parts::collector::Collects;
use crate::schemes::dftl::{self, Dftl};
use crate::{Build, Error, Ftl, Inspect, Loader, Saver, Settings};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use flash::{Block, Brief, Failing, FailurePlan, Full, Geometry, Lpn, Nand, NoData, Ppn, Rng, Tags, Transcript, Tvpn};

fn set(row: &Scheme, pairs: &[(&str, &str)]) -> Settings {
    let mut settings = row.settings();
    for (name, value) in pairs {
        settings.set(name, value).unwrap();
    }
    settings
}

/// One die; 128 entries to a translation page of 512 bytes, which takes 44 bytes as one run and at most 520.
fn geometry(blocks: u32) -> Geometry {
    let g = Geometry { blocks_per_die: blocks, pages_per_block: 8, page_bytes: 512, ..Geometry::default() };
    g.checked().unwrap()
}

fn count(sftl: &Sftl, name: &str) -> u64 {
    <Sftl as Inspect<Nand>>::counters(sftl).iter().find(|&&(n, _)| n == name).unwrap().1
}

/// Pages that are stored as they are are a cache of whole pages, replaced LRU: `dftl-e` with lines of a page. Only that
/// the latter reads a page which it is about to write.
#[test]
fn without_runs_and_buffer_it_is_a_cache_of_whole_pages() {
    for pages in [2, 4] {
        let mut rng = Rng::new(pages);
        let operations: Vec<(u32, bool)> = (0..20_000).map(|_| (rng.below(700) as u32, rng.chance(0.6))).collect();
        // Far apart: hardly an entry continues the one before.
        let first = (0..700).map(|i| i * 297 % 700);
        macro_rules! run {
            ($scheme:ty, $row:expr, $pairs:expr) => {{
                let mut flash = Transcript::new(Nand::<NoData, Brief>::new(geometry(140)));
                let mut ftl = <$scheme>::format(&mut flash, 700, &set(&$row, &$pairs)).unwrap();
                let writes = first.clone().map(|lpn| (lpn, true));
                for (lpn, write) in writes.chain(operations.iter().copied()) {
                    if write {
                        ftl.write(&mut flash, Lpn(lpn), &()).unwrap();
                    } else {
                        ftl.read(&mut flash, Lpn(lpn)).unwrap();
                    }
                }
                ftl.audit(&mut flash).unwrap();
                let lines: Vec<String> = flash.take();
                let same = |line: &&String| !(line.starts_with('R') && line.contains("translation"));
                let commands: Vec<String> = lines.iter().filter(same).cloned().collect();
                let loads = lines.iter().filter(|line| line.ends_with("translation_load")).count();
                (commands, loads, <$scheme as Inspect<Nand>>::cache(&ftl).unwrap())
            }};
        }
        // The directory has six pages; a line has a tag, 128 entries and 128 dirty bits.
        let bytes = (24 + 532 * pages).to_string();
        let lines = run!(Dftl, dftl::ROW_E, [("cache-bytes", bytes.as_str()), ("line", "128")]);
        let bytes = (24 + 520 * pages + 40).to_string();
        let pairs = [("cache-bytes", bytes.as_str()), ("buffer-share", "0"), ("threshold", "0"), ("stripe", "1")];
        let raw = run!(Sftl, ROW, pairs);
        assert_eq!(raw.1, lines.1, "loads with {pages} pages");
        assert_eq!(raw.2, lines.2, "the cache of {pages} pages");
        assert!(raw.0 == lines.0, "programs with {pages} pages");
        assert!(raw.2.hits > 1_000 && raw.2.writebacks > 1_000);
    }
}

#[test]
fn few_dirty_entries_wait_in_the_buffer_and_come_back() {
    let mut flash = Transcript::new(Nand::<NoData, Brief>::new(geometry(60)));
    // Three translation pages; the cache holds one raw page, the dirty buffer 7 entries.
    let pairs = [("cache-bytes", "592"), ("threshold", "3"), ("init-tps", "on")];
    let mut sftl = Sftl::format(&mut flash, 300, &set(&ROW, &pairs)).unwrap();
    flash.take();
    sftl.write(&mut flash, Lpn(0), &()).unwrap();
    assert_eq!(flash.take(), ["R 0.0 translation_load", "W 1.0 data 0 host"]);
    // Page 0 leaves with one dirty entry: no write. The buffer answers for it and takes its changes.
    sftl.read(&mut flash, Lpn(128)).unwrap();
    assert_eq!(flash.take(), ["R 0.1 translation_load"]);
    assert_eq!((count(&sftl, "buffered_pages"), count(&sftl, "buffered_entries")), (1, 1));
    sftl.read(&mut flash, Lpn(0)).unwrap();
    sftl.write(&mut flash, Lpn(0), &()).unwrap();
    assert_eq!(flash.take(), ["R 1.0 host", "W 1.1 data 0 host"]);
    assert_eq!(count(&sftl, "buffer_hits"), 2);
    sftl.audit(&mut flash).unwrap();
    flash.take();
    // Another entry of page 0 brings the page back, and the entry with it, dirty; three more, and it is written.
    for lpn in 1..4 {
        sftl.write(&mut flash, Lpn(lpn), &()).unwrap();
    }
    let expected = ["R 0.0 translation_load", "W 1.2 data 1 host", "W 1.3 data 2 host", "W 1.4 data 3 host"];
    assert_eq!(flash.take(), expected);
    sftl.read(&mut flash, Lpn(256)).unwrap();
    assert_eq!(flash.take(), ["R 0.2 translation_load", "W 0.3 translation 0 translation_update"]);
    let counters = <Sftl as Inspect<Nand>>::cache(&sftl).unwrap();
    assert_eq!((counters.writebacks, counters.writeback_entries), (1, 4));
    sftl.audit(&mut flash).unwrap();
}

#[test]
fn a_full_buffer_flushes_the_page_with_most_entries_or_none() {
    // Of three entries in the buffer, page 0 has two; page 2 leaves with one or with two.
    for (dirty, expected) in [
        (1, ["R 0.3 translation_load", "R 0.0 translation_update", "W 0.4 translation 0 translation_update"]),
        (2, ["R 0.3 translation_load", "W 0.4 translation 2 translation_update", ""]),
    ] {
        let mut flash = Transcript::new(Nand::<NoData, Brief>::new(geometry(80)));
        // Four translation pages, one raw page, three entries.
        let bytes = (4 * 4 + 520 + 3 * 8).to_string();
        let pairs = [("cache-bytes", bytes.as_str()), ("buffer-share", "5"), ("threshold", "2"), ("init-tps", "on")];
        let mut sftl = Sftl::format(&mut flash, 450, &set(&ROW, &pairs)).unwrap();
        for lpn in [0, 1, 128].into_iter().chain(256..256 + dirty) {
            sftl.write(&mut flash, Lpn(lpn), &()).unwrap();
        }
        flash.take();
        sftl.read(&mut flash, Lpn(384)).unwrap();
        let expected: Vec<&str> = expected.into_iter().filter(|line| !line.is_empty()).collect();
        assert_eq!(flash.take(), expected, "{dirty} dirty entries");
        assert_eq!(count(&sftl, "buffer_flushes"), u64::from(dirty == 1));
        sftl.audit(&mut flash).unwrap();
    }
}

fn shape(pages: u32) -> Shape {
    let geometry = geometry(200);
    Shape { logical_pages: pages * 128, page_entries: geometry.entries_per_page(), geometry }
}

/// Entries, each an LPN and its PPN.
fn changed<const N: usize>(entries: [(u32, u32); N]) -> [Entry; N] {
    entries.map(|(lpn, ppn)| Entry { lpn: Lpn(lpn), ppn: Ppn(ppn) })
}

/// A translation page and the PPNs of its entries.
type Content = (u32, fn(u32) -> u32);

/// A cache without a buffer, of as many bytes, with these pages, in which one entry each is dirty.
fn with_pages(bytes: u64, pages: &[Content]) -> CompressedPages {
    let settings = set(&ROW, &[("buffer-share", "0")]);
    let mut cache = CompressedPages::new(&shape(8), &(&settings).into(), bytes);
    for &(tvpn, entry) in pages {
        let lpn = tvpn * 128 + 5;
        assert!(cache.restore(&changed([(lpn, entry(lpn))]), entry), "page {tvpn} does not fit");
    }
    cache.audit().unwrap();
    cache
}

#[test]
fn pages_take_what_their_runs_take() {
    let run: fn(u32) -> u32 = |lpn| 1000 + lpn;
    let scattered: fn(u32) -> u32 = |lpn| 1000 + 2 * lpn;
    // One run takes 8 + 16 + 16 + 4; 128 runs would take 552, so that the page stands as it is, in 520.
    for (bytes, fits) in [(520 + 88, 2), (520 + 87, 1), (520 + 44, 1), (520 + 43, 0)] {
        let settings = set(&ROW, &[("buffer-share", "0")]);
        let mut cache = CompressedPages::new(&shape(8), &(&settings).into(), bytes);
        assert!(cache.restore(&changed([(0, scattered(0))]), scattered));
        let fitting = (1..4).filter(|tvpn| cache.restore(&changed([(tvpn * 128, run(tvpn * 128))]), run)).count();
        assert_eq!(fitting, fits, "{bytes} bytes");
        cache.audit().unwrap();
    }
}

#[test]
fn a_collection_leaves_what_does_not_fit() {
    let run: fn(u32) -> u32 = |lpn| 1000 + lpn;
    let most: fn(u32) -> u32 = |lpn| if lpn < 107 { 1000 + 2 * lpn } else { 5000 + lpn };
    // Pages of 108 runs and of one take 472 and 44 bytes. With 8 more an entry of the latter may move, but not another:
    // the former, next to be replaced, is dirty, and there is no buffer.
    let mut cache = with_pages(472 + 44 + 8, &[(0, most), (1, run)]);
    let used = |cache: &CompressedPages| {
        let mut out = Saver::default();
        cache.save(&mut out);
        out.len() as u64
    };
    assert!(used(&cache) <= cache.memory());
    let mut moves = changed([(128 + 20, 77), (128 + 60, 99), (512, 12)]).to_vec();
    cache.absorb(&mut moves);
    cache.audit().unwrap();
    let cached: Vec<u32> = moves.iter().map(|entry| entry.lpn.0).collect();
    assert!(cached.contains(&512), "what is not cached is left: {moves:?}");
    // Whatever was left still says what it said, and what was taken says the new.
    for (lpn, to) in [(148, 77), (188, 99)] {
        let slot = cache.find(Lpn(lpn)).unwrap();
        let expected = if cached.contains(&lpn) { run(lpn) } else { to };
        assert_eq!(cache.get(slot, Lpn(lpn)), Ppn(expected), "LPN {lpn}");
    }
    assert!(cached.contains(&188) && !cached.contains(&148), "{moves:?}");
    // Its translation page was written: the cache hears of it and drops what does not fit.
    let mut written = Vec::new();
    cache.clean_page(Tvpn(1), &mut written);
    assert_eq!(written.len(), 2);
    cache.refresh(Lpn(188), Ppn(99));
    assert!(cache.find(Lpn(188)).is_none_or(|slot| cache.get(slot, Lpn(188)) == Ppn(99)));
    cache.audit().unwrap();
}

#[test]
fn saved_pages_and_entries_come_back_in_the_bytes_reported() {
    let settings = set(&ROW, &[]);
    let mut cache = CompressedPages::new(&shape(8), &(&settings).into(), 1400);
    let mixed = |lpn: u32| if lpn.is_multiple_of(7) { u32::MAX } else { 1000 + lpn };
    assert!(cache.restore(&changed([(3, 1003), (14, u32::MAX)]), mixed));
    assert!(cache.restore(&changed([(130, 1260)]), |lpn| 1000 + 2 * lpn));
    // No page more, but a group for the dirty buffer.
    assert!(cache.restore(&changed([(260, 5), (270, u32::MAX)]), |lpn| 1000 + 2 * lpn));
    cache.audit().unwrap();
    let mut out = Saver::default();
    cache.save(&mut out);
    let bytes = out.finish();
    assert!(bytes.len() as u64 <= cache.memory() + 8);
    let mut again = CompressedPages::new(&shape(8), &(&settings).into(), 1400);
    again.load(&mut Loader::new(&bytes));
    again.audit().unwrap();
    for lpn in (0..384).map(Lpn) {
        let [ours, theirs] =
            [&cache, &again].map(|cache| cache.find(lpn).map(|slot| (cache.get(slot, lpn), cache.is_dirty(slot, lpn))));
        assert_eq!(ours, theirs, "LPN {lpn}");
    }
    let mut out = Saver::default();
    again.save(&mut out);
    assert_eq!(out.finish(), bytes);
}

#[test]
fn a_cache_below_a_page_is_refused_with_the_reason() {
    let mut flash = Nand::<NoData, Brief>::new(geometry(16));
    let error = Sftl::format(&mut flash, 48, &set(&ROW, &[("cache-bytes", "500")])).unwrap_err().config().unwrap();
    assert_eq!(error.key, "cache-bytes");
    assert!(error.what.contains("a cache that holds any translation page"), "{error}");
    let least: String = error.fix.chars().filter(char::is_ascii_digit).collect();
    let format = |flash: &mut Nand<NoData, Brief>, bytes: u64| {
        Sftl::format(flash, 48, &set(&ROW, &[("cache-bytes", &bytes.to_string())])).is_ok()
    };
    let least: u64 = least.parse().unwrap();
    assert!(format(&mut flash, least) && !format(&mut flash, least - 1));
}

/// A device written in sequence fits whole into a small cache: all misses are first ones.
#[test]
fn a_sequential_map_fits_into_a_third_of_its_size() {
    let mut flash = Nand::<NoData, Brief>::new(geometry(160));
    // Six raw pages would take 3120 bytes. Each is loaded when nothing of it is mapped yet, and shrinks.
    let pairs = [("cache-bytes", "900"), ("buffer-share", "0")];
    let mut sftl = Sftl::format(&mut flash, 768, &set(&ROW, &pairs)).unwrap();
    for lpn in 0..768 {
        sftl.write(&mut flash, Lpn(lpn), &()).unwrap();
    }
    for lpn in (0..768).rev() {
        sftl.read(&mut flash, Lpn(lpn)).unwrap();
    }
    sftl.audit(&mut flash).unwrap();
    assert_eq!(count(&sftl, "pages_loaded"), 6);
    assert_eq!(<Sftl as Inspect<Nand>>::cache(&sftl).unwrap().writebacks, 0);
}

#[test]
fn mounts_with_what_cache_and_buffer_held() {
    for bytes in ["640", "1200", "4000"] {
        for sequential in [0.1, 0.9] {
            let mut flash = Nand::<Tags, Full>::new(geometry(80));
            let settings = set(&ROW, &[("cache-bytes", bytes)]);
            let mut sftl = Sftl::format(&mut flash, 400, &settings).unwrap();
            let mut rng = Rng::new(7);
            let mut last = [None; 400];
            let mut lpn = 0;
            for tag in 0..4_000 {
                lpn = if rng.chance(sequential) { (lpn + 1) % 400 } else { rng.below(400) as u32 };
                sftl.write(&mut flash, Lpn(lpn), &tag).unwrap();
                last[lpn as usize] = Some(tag);
            }
            sftl.audit(&mut flash).unwrap();
            let (mut again, report) = Sftl::mount(&mut flash, 400, &settings).unwrap();
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
    testing::a_collection_that_bad_blocks_cut_short_loses_nothing::<CompressedPages, OutOfPlace>(|rng| {
        let fold = if rng.chance(0.5) { "on" } else { "off" };
        let bytes = (600 + rng.below(600)).to_string();
        set(&ROW, &[("cache-bytes", &bytes), ("threshold", ["0", "4", "16"][rng.below(3) as usize]), ("gc-fold", fold)])
    });
}

/// A collection moves eight pages whose entries are the dirty ones of a cached page that has no room to change them,
/// and their translation page cannot be written, for programs fail until no block is free. The pages live on where they
/// were, and their translation page has still to hear of them: the entries do not go with the cached page.
#[test]
fn entries_of_moved_pages_stay_dirty_if_their_translation_page_cannot_be_written() {
    let plan = FailurePlan { program_schedule: (153..193).collect(), ..FailurePlan::default() };
    let mut flash = Failing::new(Nand::<Tags, Full>::new(geometry(60)), plan, 1);
    // Three translation pages; of the cached ones page 1 has 66 runs, and page 0 stands as it is.
    let cache = (3 * 4 + (8 + 2 * 16 + 66 * 4) + 520).to_string();
    let settings = set(&ROW, &[("cache-bytes", &cache), ("buffer-share", "0"), ("durable-trim", "on")]);
    let mut sftl = Sftl::format(&mut flash, 384, &settings).unwrap();
    (128..256).for_each(|lpn| sftl.write(&mut flash, Lpn(lpn), &u64::from(lpn)).unwrap());
    // The discards give back whole blocks, and fill a block with translation page 1.
    sftl.trim(&mut flash, Lpn(176), 56).unwrap();
    for lpn in 232..239 {
        sftl.trim(&mut flash, Lpn(lpn), 1).unwrap();
        sftl.flush(&mut flash).unwrap();
    }
    (128..136).for_each(|lpn| sftl.write(&mut flash, Lpn(lpn), &(1000 + u64::from(lpn))).unwrap());
    sftl.write(&mut flash, Lpn(0), &0).unwrap();
    sftl.read(&mut flash, Lpn(136)).unwrap();
    sftl.audit(&mut flash).unwrap();
    assert_eq!(sftl.collect(&mut flash, Block(17), None), Err(Error::Full));
    // The host's next block takes a collection, of blocks that are dead. Then translation page 2 drives out page 1.
    (0..8).for_each(|tag| sftl.write(&mut flash, Lpn(0), &tag).unwrap());
    assert_eq!(sftl.read(&mut flash, Lpn(256)).unwrap(), None);
    for lpn in 128..136 {
        assert_eq!(sftl.read(&mut flash, Lpn(lpn)).unwrap(), Some(&(1000 + u64::from(lpn))), "LPN {lpn}");
    }
    sftl.audit(&mut flash).unwrap();
}

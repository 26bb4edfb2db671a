//! The specification's worked example command for command, each switch's, and what holds whatever happens.

use super::*;
use crate::schemes::dftl;
use crate::{Build, Ftl, Inspect, Value};
use alloc::string::ToString;
use flash::{Brief, Full, Geometry, Nand, NoData, Rng, Tags, Transcript};

type Recorded = Transcript<Nand<NoData, Brief>>;

fn settings(row: &Scheme, pairs: &[(&str, &str)]) -> Settings {
    let mut settings = row.settings();
    for (name, value) in pairs {
        settings.set(name, value).unwrap();
    }
    settings
}

/// One die of 40 blocks of 8 pages; 128 entries to a translation page of 512 bytes.
fn geometry() -> Geometry {
    Geometry { blocks_per_die: 40, pages_per_block: 8, page_bytes: 512, ..Geometry::default() }.checked().unwrap()
}

/// RAM for so many entries under so many translation pages, on a device of `pages` logical pages.
fn cache(entries: u64, nodes: u64, pages: u32) -> String {
    (u64::from(pages.div_ceil(128)) * 4 + STATE_BYTES + nodes * 8 + entries * 6).to_string()
}

/// A device all of whose pages were written but the last one of each translation page, which was discarded. Nothing in
/// the cache is dirty.
fn device(pages: u32, cache: &str, pairs: &[(&str, &str)]) -> (Tpftl, Recorded) {
    let g = Geometry { blocks_per_die: 200, ..geometry() };
    let mut flash = Recorded::new(Nand::new(g.checked().unwrap()));
    let pairs = [&[("cache-bytes", cache), ("durable-trim", "on")], pairs].concat();
    let mut tpftl = Tpftl::format(&mut flash, pages, &settings(&ROW, &pairs)).unwrap();
    for lpn in 0..pages {
        tpftl.write(&mut flash, Lpn(lpn), &()).unwrap();
    }
    for last in [127, pages - 1].into_iter().filter(|&last| last < pages) {
        tpftl.trim(&mut flash, Lpn(last), 1).unwrap();
    }
    // Discards are made durable by writing all of their translation pages' entries.
    tpftl.flush(&mut flash).unwrap();
    (tpftl, flash)
}

/// Reads single pages, each a request of its own; what that took beside the reads of the host's data.
fn read(tpftl: &mut Tpftl, flash: &mut Recorded, lpns: impl IntoIterator<Item = u32>) -> Vec<String> {
    flash.take();
    for lpn in lpns {
        Ftl::<Recorded>::request(tpftl, Lpn(lpn), 1);
        tpftl.read(flash, Lpn(lpn)).unwrap();
    }
    tpftl.audit(flash).unwrap();
    extra(flash)
}

/// Operation and cause of what was done beside the reads of the host's data.
fn extra(flash: &mut Recorded) -> Vec<String> {
    let lines = flash.take().into_iter().filter(|line| !line.ends_with(" host") && !line.ends_with(" recovery"));
    lines.map(|line| [line.split(' ').next().unwrap(), line.rsplit(' ').next().unwrap()].join(" ")).collect()
}

fn count(tpftl: &Tpftl, name: &str) -> u64 {
    Inspect::<Recorded>::counters(tpftl).into_iter().find(|&(n, _)| n == name).unwrap().1
}

#[test]
fn worked_example_a_request_loads_all_of_its_entries_at_once() {
    let read_three = |prefetch: &str| {
        let (mut tpftl, mut flash) =
            device(64, &cache(3, 1, 64), &[("prefetch-request", prefetch), ("prefetch-select", "off")]);
        read(&mut tpftl, &mut flash, [10, 11, 12]);
        flash.take();
        Ftl::<Recorded>::request(&mut tpftl, Lpn(0), 3);
        for lpn in 0..3 {
            tpftl.read(&mut flash, Lpn(lpn)).unwrap();
        }
        let lines = flash.take();
        (lines.into_iter().map(|line| line.rsplit(' ').next().unwrap().to_string()).collect::<Vec<_>>(), tpftl)
    };
    let (lines, tpftl) = read_three("on");
    assert_eq!(lines, ["translation_load", "host", "host", "host"]);
    assert_eq!((count(&tpftl, "prefetched_by_request"), count(&tpftl, "prefetched_used")), (2, 2));
    // DFTL reads the translation page three times.
    let (lines, _) = read_three("off");
    assert_eq!(lines, ["translation_load", "host", "translation_load", "host", "translation_load", "host"]);
}

#[test]
fn a_request_is_loaded_no_further_than_its_translation_page_and_the_coldest_one_reach() {
    // Two entries under the first translation page and four under the other, which is used last.
    let (mut tpftl, mut flash) = device(200, &cache(6, 2, 200), &[("prefetch-select", "off")]);
    read(&mut tpftl, &mut flash, 80..87);
    read(&mut tpftl, &mut flash, [130, 132, 134, 136]);
    // A request of eight in the hotter page: the colder one gives up its two entries and its node, worth one more; two
    // are loaded ahead.
    let before = count(&tpftl, "prefetched_by_request");
    Ftl::<Recorded>::request(&mut tpftl, Lpn(140), 8);
    tpftl.read(&mut flash, Lpn(140)).unwrap();
    assert_eq!(count(&tpftl, "prefetched_by_request") - before, 2);
    for (lpn, cached) in [(85, None), (86, None), (130, Some(true)), (142, Some(true)), (143, None)] {
        assert_eq!(Ftl::<Recorded>::is_mapped(&tpftl, Lpn(lpn)), cached, "LPN {lpn}");
    }
    // And never across the end of a translation page.
    let (mut tpftl, mut flash) = device(200, &cache(6, 2, 200), &[("prefetch-select", "off")]);
    read(&mut tpftl, &mut flash, (128..200).step_by(5));
    flash.take();
    Ftl::<Recorded>::request(&mut tpftl, Lpn(126), 4);
    (126..130).for_each(|lpn| _ = tpftl.read(&mut flash, Lpn(lpn)).unwrap());
    assert_eq!(extra(&mut flash), ["R translation_load"; 2]);
}

#[test]
fn a_shrinking_cache_loads_as_many_successors_as_predecessors() {
    let run = |select: &str| {
        let (mut tpftl, mut flash) = device(
            200,
            &cache(12, 2, 200),
            &[("prefetch-request", "off"), ("prefetch-select", select), ("threshold", "1")],
        );
        // Both translation pages are cached; reading on in one of them drops the other.
        read(&mut tpftl, &mut flash, [150, 151]);
        read(&mut tpftl, &mut flash, (0..40).step_by(2));
        let before = count(&tpftl, "prefetched_by_selection");
        let extra = read(&mut tpftl, &mut flash, 60..67);
        (extra.len(), count(&tpftl, "prefetched_by_selection") - before)
    };
    assert_eq!(run("off"), (7, 0));
    // 60; 61, and 62 with it; 63, and 64 to 66 with it.
    assert_eq!(run("on"), (3, 4));
}

#[test]
fn clean_entries_go_first_and_a_dirty_one_takes_all_others_along() {
    let run = |written: &[u32], pairs: &[(&str, &str)]| {
        let (mut tpftl, mut flash) = device(64, &cache(4, 1, 64), &[&[("prefetch-select", "off")], pairs].concat());
        for &lpn in written {
            tpftl.write(&mut flash, Lpn(lpn), &()).unwrap();
        }
        read(&mut tpftl, &mut flash, (42..44).take(4 - written.len()));
        [50, 51, 52, 53].map(|lpn| read(&mut tpftl, &mut flash, [lpn]).len())
    };
    // A load takes a command, an update two more. From least to most recent: 40 dirty, 41 dirty, 42 clean, 43 clean.
    // With clean entries first, what was just loaded goes before what is dirty.
    assert_eq!(run(&[40, 41], &[]), [1, 1, 1, 1]);
    assert_eq!(run(&[40, 41], &[("clean-first", "off")]), [3, 1, 1, 1]);
    assert_eq!(run(&[40, 41], &[("clean-first", "off"), ("batch-evict", "off")]), [3, 3, 1, 1]);
    // All dirty.
    assert_eq!(run(&[40, 41, 42, 43], &[]), [3, 1, 1, 1]);
    assert_eq!(run(&[40, 41, 42, 43], &[("clean-first", "off"), ("batch-evict", "off")]), [3, 3, 3, 3]);
}

#[test]
fn the_coldest_translation_page_is_that_of_the_lowest_mean() {
    let (mut tpftl, mut flash) = device(200, &cache(4, 2, 200), &[("prefetch-select", "off")]);
    read(&mut tpftl, &mut flash, (0..200).step_by(7));
    // Ticks: 0 at 1, 130 at 2, 131 at 3, 1 at 6. LRU would evict 130; but the first page's mean is 3.5, the other's
    // 2.5, and with 0 used again at 7, or 130, it changes sides.
    read(&mut tpftl, &mut flash, [0, 130, 131, 131, 131, 1]);
    let cached = |tpftl: &Tpftl, lpn| Ftl::<Recorded>::is_mapped(tpftl, Lpn(lpn)).is_some();
    let mut other = tpftl.clone();
    let mut other_flash = flash.clone();
    read(&mut tpftl, &mut flash, [5]);
    assert_eq!([0, 1, 130, 131].map(|lpn| cached(&tpftl, lpn)), [false, true, true, true]);
    read(&mut other, &mut other_flash, [0, 5]);
    assert_eq!([0, 1, 130, 131].map(|lpn| cached(&other, lpn)), [true, true, false, true]);
}

#[test]
fn without_its_four_ideas_one_translation_page_is_dftl_with_lru() {
    let pages = 128;
    for batch in ["on", "off"] {
        let run = |cache_bytes: u64, row: &Scheme, pairs: &[(&str, &str)], tpftl: bool| {
            let cache_bytes = cache_bytes.to_string();
            let pairs = [&[("cache-bytes", cache_bytes.as_str()), ("batch-evict", batch)], pairs].concat();
            let settings = settings(row, &pairs);
            let mut flash = Recorded::new(Nand::new(geometry()));
            if tpftl {
                drive::<Tpftl>(&mut flash, pages, &settings)
            } else {
                drive::<dftl::Dftl>(&mut flash, pages, &settings)
            }
        };
        let dftl = crate::schemes::by_name("dftl").unwrap();
        let expected = run(4 + 20 * 8, dftl, &[("replacement", "lru")], false);
        let off = ["prefetch-request", "prefetch-select", "clean-first"].map(|name| (name, "off"));
        let pairs = [&off[..], &[("entry-bytes", "8")]].concat();
        assert_eq!(run(4 + STATE_BYTES + 8 + 20 * 8, &ROW, &pairs, true), expected);
    }
}

/// Commands of 20,000 random operations.
fn drive<S: Build<Recorded>>(flash: &mut Recorded, pages: u32, settings: &Settings) -> Vec<String> {
    let mut ftl = S::format(flash, pages, settings).unwrap();
    let mut rng = Rng::new(5);
    for _ in 0..20_000 {
        let lpn = Lpn(rng.below(u64::from(pages)) as u32);
        ftl.request(lpn, 1 + rng.below(4) as u32);
        match rng.below(20) {
            0..6 => _ = ftl.read(flash, lpn).unwrap(),
            6 => ftl.trim(flash, lpn, 1).unwrap(),
            _ => ftl.write(flash, lpn, &()).unwrap(),
        }
    }
    ftl.audit(flash).unwrap();
    flash.take()
}

#[test]
fn all_sixteen_combinations_keep_the_data_and_their_invariants() {
    type Medium = Nand<Tags, Full>;
    let switches = ["prefetch-request", "prefetch-select", "clean-first", "batch-evict"];
    for combination in 0..16 {
        let mut rng = Rng::new(combination);
        let mut settings = settings(&ROW, &[("threshold", "1"), ("durable-trim", "on")]);
        for (bit, name) in switches.iter().enumerate() {
            settings.put(name, Value::Switch(combination >> bit & 1 == 1));
        }
        settings.put("cache-bytes", Value::Count(60 + rng.below(200)));
        settings.put("node-bytes", Value::Count(8 + rng.below(8)));
        let pages = 230;
        let mut flash = Medium::new(geometry());
        let mut tpftl = Tpftl::format(&mut flash, pages, &settings).unwrap();
        let mut expected = vec![None; pages as usize];
        for round in 0..4_000u64 {
            let first = rng.below(u64::from(pages)) as u32;
            let count = (1 + rng.below(12) as u32).min(pages - first);
            Ftl::<Medium>::request(&mut tpftl, Lpn(first), count);
            let write = rng.chance(0.4);
            for lpn in first..first + count {
                if write {
                    let tag = round << 16 | u64::from(lpn);
                    tpftl.write(&mut flash, Lpn(lpn), &tag).unwrap();
                    expected[lpn as usize] = Some(tag);
                } else {
                    assert_eq!(tpftl.read(&mut flash, Lpn(lpn)).unwrap().copied(), expected[lpn as usize]);
                }
            }
            if rng.chance(0.05) {
                tpftl.trim(&mut flash, Lpn(first), count).unwrap();
                expected[first as usize..(first + count) as usize].fill(None);
            }
            if round % 50 == 0 {
                tpftl.audit(&mut flash).unwrap();
                let bytes = Inspect::<Medium>::save(&tpftl);
                let reported: u64 = Inspect::<Medium>::memory(&tpftl).iter().map(|(_, bytes)| bytes).sum();
                assert!(bytes.len() as u64 <= reported);
                tpftl = <Tpftl as Build<Medium>>::restore(&geometry(), pages, &settings, &bytes);
                assert_eq!(Inspect::<Medium>::save(&tpftl), bytes);
                tpftl.audit(&mut flash).unwrap();
            }
        }
    }
}

#[test]
fn ticks_of_few_bits_keep_the_order_of_what_is_recent() {
    let shape = Shape { logical_pages: 512, page_entries: 128, geometry: geometry() };
    let mut cache = TwoLevel::new(&shape, &(&settings(&ROW, &[])).into(), STATE_BYTES + 4 * 8 + 32 * 6);
    cache.layout.tick_bits = 6;
    cache.uses_per_tick = 4;
    let mut rng = Rng::new(3);
    let lpns: Vec<u32> = (0..32).map(|i| i * 16 + rng.below(16) as u32).collect();
    let mut last_use = vec![0u32; 512];
    for (now, &lpn) in (1..).zip(&lpns) {
        let tick = cache.use_now();
        cache.insert(lpn, lpn, tick, false);
        last_use[lpn as usize] = now;
    }
    for now in 33..5_000 {
        let lpn = lpns[rng.below(32) as usize];
        cache.hit(cache.find(Lpn(lpn)).unwrap(), Lpn(lpn));
        last_use[lpn as usize] = now;
        cache.audit().unwrap();
        assert!(cache.tick < 64);
        for (&a, &b) in lpns.iter().zip(&lpns[1..]) {
            let tick = |lpn: u32| cache.entries[cache.index[lpn as usize] as usize].tick;
            // Within the last 32 ticks, which is four uses for each entry, the order is that of the uses.
            if now - last_use[a as usize].min(last_use[b as usize]) < 120 {
                let order = last_use[a as usize].cmp(&last_use[b as usize]);
                assert!(tick(a).cmp(&tick(b)) == order || tick(a) == tick(b));
                assert!(last_use[a as usize].abs_diff(last_use[b as usize]) < 4 || tick(a) != tick(b));
            }
        }
        let mean = |page: u32| {
            let Heat { sum, count } = cache.nodes[page as usize].heat;
            sum as f64 / f64::from(count)
        };
        let expected = (0..4).min_by(|&a, &b| mean(a).total_cmp(&mean(b))).unwrap();
        let nodes = cache.nodes.clone();
        assert_eq!(cache.coldest.coldest(|page| nodes[page as usize].heat), expected);
    }
}

#[test]
fn an_entry_that_does_not_hold_its_bits_is_refused() {
    let g = Geometry { blocks_per_die: 64, pages_per_block: 8, page_bytes: 1 << 20, ..Geometry::default() };
    let mut flash = Nand::<NoData, Brief>::new(g.checked().unwrap());
    let error = Tpftl::format(&mut flash, 256, &settings(&ROW, &[])).map(|_| ());
    assert_eq!(error, Ok(()));
    let g = Geometry { blocks_per_die: 1 << 24, ..g };
    let shape = Shape { logical_pages: 256, page_entries: 1 << 18, geometry: g.checked().unwrap() };
    let error = TwoLevel::least_bytes(&shape, &(&settings(&ROW, &[])).into()).unwrap_err();
    assert!(error.to_string().contains("give at least 7"), "{error}");
    assert!(TwoLevel::least_bytes(&shape, &(&settings(&ROW, &[("entry-bytes", "7")])).into()).is_ok());
}

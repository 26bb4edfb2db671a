//! Worked examples, and what a collection does to the maps.

use super::*;
use crate::Error;
use crate::Inspect;
use crate::hybrid::testing::{settings as settings_of, torture};
use alloc::string::String;
use flash::{CutPoint, Fault, FaultKind, Full, Nand, PowerCut, Rng, Tags, Transcript};

fn settings(pairs: &[(&str, &str)]) -> Settings {
    settings_of(&ROW, pairs)
}

fn geometry(blocks: u32) -> Geometry {
    Geometry { blocks_per_die: blocks, pages_per_block: 4, page_bytes: 512, ..Geometry::default() }.checked().unwrap()
}

type Flashed = Transcript<PowerCut<Nand<Tags, Full>>>;

fn device(blocks: u32, pages: u32, settings: &Settings) -> (Flashed, Superblock) {
    let mut flash = Transcript::new(PowerCut::counting(Nand::new(geometry(blocks))));
    let superblock = Superblock::format(&mut flash, pages, settings).unwrap();
    flash.take();
    (flash, superblock)
}

fn write(flash: &mut Flashed, superblock: &mut Superblock, lpn: u32) -> Vec<String> {
    superblock.write(flash, Lpn(lpn), &u64::from(lpn)).unwrap();
    flash.take()
}

/// N = 1, P = 4, two blocks and one for collections: a block in which everything died costs an erase, and no copy.
#[test]
fn worked_example_of_the_specification() {
    let (mut flash, mut superblock) = device(3, 4, &settings(&[("logical-blocks", "1"), ("slots", "3")]));
    let mut lines = Vec::new();
    for lpn in [0, 3, 0, 1, 2, 3, 1, 0, 2] {
        lines.extend(write(&mut flash, &mut superblock, lpn));
    }
    let expected = [
        "W 0.0 data 0 host",
        "W 0.1 data 3 host",
        "W 0.2 data 0 host",
        "W 0.3 data 1 host",
        "W 1.0 data 2 host",
        "W 1.1 data 3 host",
        "W 1.2 data 1 host",
        "W 1.3 data 0 host",
        "E 0 data_gc",
        "W 2.0 data 2 host",
    ];
    assert_eq!(lines, expected);
    superblock.audit(&mut flash).unwrap();
    let counters = |ftl: &Superblock| <Superblock as Inspect<Flashed>>::counters(ftl);
    let counter = |name: &str| counters(&superblock).iter().find(|(n, _)| *n == name).unwrap().1;
    assert_eq!((counter("gc_victims"), counter("gc_dead"), counter("gc_copies")), (1, 1, 0));
}

#[test]
fn without_a_cache_a_page_takes_two_spare_reads_and_with_one_none() {
    for (maps, expected) in
        [("0", &["O 0.2 translation_load", "O 0.1 translation_load", "R 0.1 host"][..]), ("1", &["R 0.1 host"])]
    {
        let settings = settings(&[("logical-blocks", "1"), ("slots", "3"), ("leaf", "2"), ("cache-maps", maps)]);
        let (mut flash, mut superblock) = device(4, 4, &settings);
        for lpn in [0, 2, 1] {
            write(&mut flash, &mut superblock, lpn);
        }
        assert_eq!(superblock.read(&mut flash, Lpn(2)).unwrap(), Some(&2));
        assert_eq!(flash.take(), expected);
    }
}

/// Two logical blocks in three blocks: one has to be emptied, copies keep the maps of both right.
#[test]
fn a_collection_copies_the_emptiest_block_to_where_the_superblock_writes() {
    let settings = settings(&[("logical-blocks", "2"), ("slots", "4"), ("cache-maps", "0"), ("hot-cold", "off")]);
    let (mut flash, mut superblock) = device(5, 8, &settings);
    for lpn in [0, 1, 4, 5, 2, 3, 6, 7, 0, 4, 0, 4] {
        write(&mut flash, &mut superblock, lpn);
    }
    let lines = write(&mut flash, &mut superblock, 1);
    let changes: Vec<&str> = lines.iter().map(String::as_str).filter(|line| !line.starts_with('O')).collect();
    let expected = [
        "R 0.1 data_gc",
        "W 3.0 data 1 data_gc",
        "R 0.3 data_gc",
        "W 3.1 data 5 data_gc",
        "E 0 data_gc",
        "W 3.2 data 1 host",
    ];
    // The third block, with two dead pages as well, is the emptiest but one.
    assert_eq!(changes, expected);
    superblock.audit(&mut flash).unwrap();
    for lpn in 0..8 {
        assert_eq!(superblock.read(&mut flash, Lpn(lpn)).unwrap(), Some(&u64::from(lpn)));
    }
}

/// Two logical blocks in four blocks, two live pages in each. What a collection keeps and what the host writes share a
/// block, or have one each: then the superblock collects until it has a block to spare.
#[test]
fn what_is_kept_lies_apart_from_what_is_written() {
    let together = [
        "R 0.2 data_gc",
        "W 4.0 data 2 data_gc",
        "R 0.3 data_gc",
        "W 4.1 data 3 data_gc",
        "E 0 data_gc",
        "W 4.2 data 0 host",
        "W 4.3 data 0 host",
    ];
    let apart = [
        "R 0.2 data_gc",
        "W 4.0 data 2 data_gc",
        "R 0.3 data_gc",
        "W 4.1 data 3 data_gc",
        "E 0 data_gc",
        "R 1.2 data_gc",
        "W 4.2 data 6 data_gc",
        "R 1.3 data_gc",
        "W 4.3 data 7 data_gc",
        "E 1 data_gc",
        "W 5.0 data 0 host",
        "W 5.1 data 0 host",
    ];
    for (hot_cold, expected) in [("off", &together[..]), ("on", &apart[..])] {
        let settings = settings(&[("logical-blocks", "2"), ("slots", "5"), ("hot-cold", hot_cold)]);
        let (mut flash, mut superblock) = device(8, 8, &settings);
        for lpn in [0, 1, 2, 3, 4, 5, 6, 7, 0, 4, 1, 5, 0, 4, 0, 4] {
            write(&mut flash, &mut superblock, lpn);
        }
        let mut lines = write(&mut flash, &mut superblock, 0);
        lines.extend(write(&mut flash, &mut superblock, 0));
        let changes: Vec<&str> = lines.iter().map(String::as_str).filter(|line| !line.starts_with('O')).collect();
        assert_eq!(changes, expected, "{hot_cold}");
        superblock.audit(&mut flash).unwrap();
    }
}

/// A page in ten takes nine tenths of the writes: kept apart, less is copied; the little device has blocks for both.
#[test]
fn apart_less_is_copied_where_few_pages_are_hot() {
    let copies = |hot_cold: &str| {
        let g = Geometry { blocks_per_die: 60, pages_per_block: 16, page_bytes: 512, ..Geometry::default() };
        let settings = settings(&[("hot-cold", hot_cold), ("maps", "pages")]);
        let mut flash = Nand::<Tags, Full>::new(g.checked().unwrap());
        let mut superblock = Superblock::format(&mut flash, 32 * 16, &settings).unwrap();
        let mut rng = Rng::new(3);
        for tag in 0..30_000u64 {
            let among = if rng.chance(0.9) { 51 } else { 512 };
            let lpn = rng.below(among) as u32 * 10 % 511;
            superblock.write(&mut flash, Lpn(lpn), &tag).unwrap();
        }
        <Superblock as Inspect<Nand<Tags, Full>>>::audit(&superblock, &mut flash).unwrap();
        superblock.counters.copies
    };
    let (apart, together) = (copies("on"), copies("off"));
    assert!(apart * 10 < together * 9, "{apart} copies apart, {together} together");
}

/// One logical block in a superblock, one map in RAM: a map that was changed is written when another takes its place,
/// and read when it comes back.
#[test]
fn maps_in_pages_are_written_when_they_leave_ram() {
    let settings = settings(&[("logical-blocks", "1"), ("slots", "3"), ("maps", "pages"), ("cache-maps", "1")]);
    let (mut flash, mut superblock) = device(7, 8, &settings);
    let mut lines = Vec::new();
    for lpn in [0, 4, 1, 4] {
        lines.extend(write(&mut flash, &mut superblock, lpn));
    }
    let expected = [
        "W 0.0 data 0 host",
        "W 2.0 translation 0 translation_update",
        "W 1.0 data 4 host",
        "W 2.1 translation 1 translation_update",
        "R 2.0 translation_load",
        "W 0.1 data 1 host",
        "W 2.2 translation 0 translation_update",
        "R 2.1 translation_load",
        "W 1.1 data 4 host",
    ];
    assert_eq!(lines, expected);
    superblock.audit(&mut flash).unwrap();
    // The map in RAM is enough for the one, the other is read.
    flash.take();
    assert_eq!(superblock.read(&mut flash, Lpn(4)).unwrap(), Some(&4));
    assert_eq!(superblock.read(&mut flash, Lpn(0)).unwrap(), Some(&0));
    let expected = ["R 1.1 host", "W 2.3 translation 1 translation_update", "R 2.2 translation_load", "R 0.0 host"];
    assert_eq!(flash.take(), expected);
}

/// Two logical blocks in a superblock, one map in RAM: the map page keeps what it has of the other. A collection reads
/// it once and writes it once.
#[test]
fn a_map_page_has_the_maps_of_all_logical_blocks_of_a_superblock() {
    let pairs = [("logical-blocks", "2"), ("slots", "4"), ("maps", "pages"), ("cache-maps", "1"), ("hot-cold", "off")];
    let (mut flash, mut superblock) = device(8, 8, &settings(&pairs));
    let mut lines = Vec::new();
    for lpn in [0, 1, 4, 5, 2] {
        lines.extend(write(&mut flash, &mut superblock, lpn));
    }
    let expected = [
        "W 0.0 data 0 host",
        "W 0.1 data 1 host",
        "W 1.0 translation 0 translation_update",
        "R 1.0 translation_load",
        "W 0.2 data 4 host",
        "W 0.3 data 5 host",
        "R 1.0 translation_update",
        "W 1.1 translation 0 translation_update",
        "R 1.1 translation_load",
        "W 2.0 data 2 host",
    ];
    assert_eq!(lines, expected);
    for lpn in [3, 6, 7, 1, 2, 0, 1] {
        write(&mut flash, &mut superblock, lpn);
    }
    let expected = [
        "R 1.3 translation_update",
        "R 0.2 data_gc",
        "W 4.0 data 4 data_gc",
        "R 0.3 data_gc",
        "W 4.1 data 5 data_gc",
        "W 5.0 translation 0 translation_update",
        "E 0 data_gc",
        "W 4.2 data 0 host",
    ];
    assert_eq!(write(&mut flash, &mut superblock, 0), expected);
    superblock.audit(&mut flash).unwrap();
}

#[test]
fn with_all_update_blocks_in_use_the_superblock_written_longest_ago_gives_one_back() {
    let pairs = [("logical-blocks", "1"), ("slots", "4"), ("update-blocks", "1"), ("hot-cold", "off")];
    let (mut flash, mut superblock) = device(10, 8, &settings(&pairs));
    for lpn in [0, 1, 2, 3, 4, 5, 6, 7] {
        write(&mut flash, &mut superblock, lpn);
    }
    assert_eq!(write(&mut flash, &mut superblock, 0), ["W 2.0 data 0 host"]);
    let lines = write(&mut flash, &mut superblock, 4);
    let expected = [
        "R 0.1 data_gc",
        "W 2.1 data 1 data_gc",
        "R 0.2 data_gc",
        "W 2.2 data 2 data_gc",
        "R 0.3 data_gc",
        "W 2.3 data 3 data_gc",
        "E 0 data_gc",
        "W 3.0 data 4 host",
    ];
    assert_eq!(lines, expected);
    // The superblock that has the block may go on in it, and with all of it dead it is erased for the next.
    for lpn in [5, 6, 7] {
        assert_eq!(write(&mut flash, &mut superblock, lpn).len(), 1);
    }
    assert_eq!(write(&mut flash, &mut superblock, 4), ["E 1 data_gc", "W 4.0 data 4 host"]);
    superblock.audit(&mut flash).unwrap();
}

#[test]
fn greedy_takes_the_block_from_the_superblock_with_the_fewest_live_pages() {
    for (reclaim, erased) in [("lru", "E 0 data_gc"), ("greedy", "E 1 data_gc")] {
        let pairs = [("logical-blocks", "1"), ("slots", "4"), ("update-blocks", "2"), ("reclaim", reclaim)];
        let (mut flash, mut superblock) = device(10, 12, &settings(&pairs));
        for lpn in [0, 1, 2, 3, 4, 4, 4, 4, 8, 9, 10, 11, 0, 4] {
            write(&mut flash, &mut superblock, lpn);
        }
        let lines = write(&mut flash, &mut superblock, 8);
        assert!(lines.iter().any(|line| line == erased), "{reclaim}: {lines:?}");
    }
}

/// With no block to spare each block that a superblock takes is one that another gives back, by at most as many
/// collections as it has blocks.
#[test]
fn giving_a_block_back_takes_no_more_collections_than_the_superblock_has_blocks() {
    for maps in ["spare", "pages"] {
        let pairs = [("logical-blocks", "3"), ("slots", "6"), ("maps", maps)];
        let (mut flash, mut superblock) = device(if maps == "spare" { 20 } else { 24 }, 72, &settings(&pairs));
        let mut rng = Rng::new(3);
        for round in 0..4000 {
            let before = superblock.counters;
            let lpn = if round < 72 { round } else { rng.below(72) as u32 };
            write(&mut flash, &mut superblock, lpn);
            let Counters { victims, reclaims, copies, .. } = superblock.counters;
            let reclaims = reclaims - before.reclaims;
            assert!(reclaims <= 1, "{reclaims} in round {round}");
            // Beside it one block of the superblock that is written to, and one that is all dead.
            assert!(victims - before.victims <= reclaims * 6 + 2, "round {round}");
            assert!(copies - before.copies <= (reclaims + 1) * 12, "round {round}");
        }
        assert!(superblock.counters.reclaims > 500, "{:?}", superblock.counters);
        superblock.audit(&mut flash).unwrap();
    }
}

/// A bit flipped in a spare area made a map name another page; a superblock then collected, for ever, a block whose
/// live pages no map named.
#[test]
fn a_map_that_misses_a_live_page_is_noticed_by_the_next_collection() {
    let settings = settings(&[("logical-blocks", "1"), ("slots", "3"), ("leaf", "2"), ("cache-maps", "0")]);
    let (mut flash, mut superblock) = device(3, 4, &settings);
    for lpn in [0, 1, 2, 3, 0] {
        write(&mut flash, &mut superblock, lpn);
    }
    // The newest page has the directory: two entries of four bits, behind three blocks of two bits. The second is made
    // to name another page than the newest leaf of pages 2 and 3.
    let newest = superblock.ppn(Super(0), superblock.heads[0]);
    flash.inner_mut().inner_mut().flip_spare_bit(newest, 8 + 4);
    let mut write = |lpn| superblock.write(&mut flash, Lpn(lpn), &0);
    assert!((0..8).any(|_| write(0) == Err(Error::Corrupt)));
}

/// What a cut in a collection left is given up, however often that happens.
#[test]
fn collections_cut_short_use_up_no_block() {
    let modes: [&[(&str, &str)]; 4] = [
        &[],
        &[("maps", "pages")],
        &[("maps", "pages"), ("update-blocks", "1")],
        &[("wear-levelling", "static"), ("wear-threshold", "1"), ("free-order", "least-worn")],
    ];
    for mode in modes {
        let pairs = [&[("logical-blocks", "2"), ("slots", "4"), ("cache-maps", "2")], mode].concat();
        let settings = settings(&pairs);
        let (mut flash, mut superblock) = device(if settings.word(&MAPS) == "pages" { 14 } else { 12 }, 32, &settings);
        let mut lpn = 0;
        for round in 0..300u64 {
            flash.inner_mut().arm(CutPoint { command: 2 + round % 5, face: (round % 4) as u8 }, round);
            let end = (0..10).try_for_each(|_| {
                lpn = (lpn + 7) % 32;
                superblock.write(&mut flash, Lpn(lpn), &round)
            });
            match end {
                Ok(()) | Err(Error::Flash(Fault(FaultKind::PowerLost))) => {}
                end => panic!("{mode:?}, round {round}: {end:?}"),
            }
            flash.inner_mut().arm(CutPoint { command: round % 2, face: (round % 6) as u8 % 4 }, round);
            let _ = Superblock::mount(&mut flash, 32, &settings);
            flash.inner_mut().restart();
            superblock = Superblock::mount(&mut flash, 32, &settings).unwrap().0;
            superblock.audit(&mut flash).unwrap();
        }
    }
}

/// What counts nowhere is gone after a mount, so that no later one finds it to count.
#[test]
fn a_mount_erases_what_a_collection_that_was_cut_short_had_copied() {
    let settings = settings(&[("logical-blocks", "2"), ("slots", "4"), ("hot-cold", "off")]);
    let (mut flash, mut superblock) = device(5, 8, &settings);
    for lpn in [0, 1, 4, 5, 2, 3, 6, 7, 0, 4, 0, 4] {
        write(&mut flash, &mut superblock, lpn);
    }
    // The first of two copies is there, in block 3.
    flash.inner_mut().arm(CutPoint { command: 1, face: 0 }, 0);
    assert_eq!(superblock.write(&mut flash, Lpn(1), &9), Err(Error::Flash(Fault(FaultKind::PowerLost))));
    flash.inner_mut().restart();
    flash.take();
    let mut erased_by_a_mount = || {
        Superblock::mount(&mut flash, 8, &settings).unwrap();
        let mut lines = flash.take();
        lines.retain(|line| line.starts_with('E'));
        lines
    };
    // The second mount finds nothing more: what is on flash counts.
    assert_eq!([erased_by_a_mount(), erased_by_a_mount()], [vec!["E 3 recovery"], vec![]]);
}

/// A block that reads as before may have been about to be erased, and then it holds no program: map pages that are
/// written after a mount go to another one.
#[test]
fn a_mount_fills_no_block_of_map_pages_further() {
    let pairs = [("logical-blocks", "1"), ("slots", "3"), ("maps", "pages"), ("cache-maps", "1")];
    let settings = settings(&pairs);
    let (mut flash, mut superblock) = device(7, 8, &settings);
    for lpn in [0, 4, 1] {
        write(&mut flash, &mut superblock, lpn);
    }
    // Block 2 has two map pages and two blank ones. Power fails in its erase, which leaves all of it to be read.
    flash.inner_mut().arm(CutPoint { command: 0, face: 1 }, 0);
    assert_eq!(flash.erase(Block(2), Cause::TranslationGc), Err(Fault(FaultKind::PowerLost)));
    flash.inner_mut().restart();
    superblock = Superblock::mount(&mut flash, 8, &settings).unwrap().0;
    for lpn in [4, 0, 5] {
        write(&mut flash, &mut superblock, lpn);
    }
    superblock = Superblock::mount(&mut flash, 8, &settings).unwrap().0;
    superblock.audit(&mut flash).unwrap();
    for lpn in [0, 1, 4, 5] {
        assert_eq!(superblock.read(&mut flash, Lpn(lpn)).unwrap(), Some(&u64::from(lpn)));
    }
}

/// A mount finds in which slots blocks are by the map pages, and restores what these lacked: no more than the maps that
/// were in RAM. Afterwards nothing is left to restore.
#[test]
fn a_mount_restores_the_maps_that_were_in_ram() {
    let pairs = [("logical-blocks", "2"), ("slots", "5"), ("maps", "pages"), ("cache-maps", "3")];
    let settings = settings(&pairs);
    let (mut flash, mut superblock) = device(24, 64, &settings);
    let mut rng = Rng::new(9);
    for round in 0..600 {
        write(&mut flash, &mut superblock, if round < 64 { round } else { rng.below(64) as u32 });
    }
    let dirty = (0..16).filter(|&lbn| superblock.cache.get(Lbn(lbn)).is_some_and(|map| map.dirty)).count() as u64;
    let (mut mounted, report) = Superblock::mount(&mut flash, 64, &settings).unwrap();
    assert!(dirty > 0 && report.restored > 0 && report.restored <= dirty * 4, "{dirty} maps, {report:?}");
    mounted.audit(&mut flash).unwrap();
    for lpn in 0..64 {
        assert_eq!(mounted.read(&mut flash, Lpn(lpn)).unwrap(), Some(&u64::from(lpn)));
    }
}

#[test]
fn data_survives_everything_in_every_variant() {
    let g = Geometry { dies: 2, blocks_per_die: 14, pages_per_block: 8, page_bytes: 512, ..Geometry::default() };
    for maps in ["spare", "pages"] {
        for mode in ["off", "swap", "static", "bet"] {
            for (budget, maps_in_ram, n) in [("0", "1", "3"), ("2", "3", "1")] {
                let pairs = [
                    ("maps", maps),
                    ("wear-levelling", mode),
                    ("wear-threshold", "2"),
                    ("bet-threshold", "2"),
                    ("update-blocks", budget),
                    ("cache-maps", maps_in_ram),
                    ("logical-blocks", n),
                    ("hot-cold", if (mode == "off" || mode == "static") == (n == "3") { "on" } else { "off" }),
                    ("durable-trim", "on"),
                ];
                torture::<Superblock>(&ROW, &pairs, g.checked().unwrap(), 150, 800);
            }
        }
    }
}

/// One page in ten is written all the time: without levelling most blocks keep their first data for ever.
#[test]
fn wear_stays_even_under_skewed_writes() {
    for maps in ["spare", "pages"] {
        let spread = |mode| {
            let pairs = [
                ("maps", maps),
                ("wear-levelling", mode),
                ("wear-threshold", "4"),
                ("bet-threshold", "2"),
                ("free-order", "least-worn"),
            ];
            let (mut flash, mut superblock) = device(40, 112, &settings(&pairs));
            let mut rng = Rng::new(7);
            for time in 0..20_000 {
                let lpn = if time < 112 { time } else { rng.below(11) as u32 };
                superblock.write(&mut flash, Lpn(lpn), &0).unwrap();
                flash.take();
            }
            superblock.audit(&mut flash).unwrap();
            let counts = superblock.pool.blocks.erase_counts();
            counts.iter().max().unwrap() - counts.iter().min().unwrap()
        };
        let off = spread("off");
        assert!(off > 150, "{off}");
        for mode in ["swap", "static", "bet"] {
            let spread = spread(mode);
            assert!(spread < off / 2, "{mode}: {spread}, without it {off}");
        }
    }
}

#[test]
fn a_device_that_does_not_fit_is_refused_with_the_sum() {
    let refusal = |g: Geometry, pages, pairs: &[(&str, &str)]| {
        let mut flash: Nand<Tags, Full> = Nand::new(g);
        Superblock::format(&mut flash, pages, &settings(pairs)).unwrap_err().config().unwrap()
    };
    let error = refusal(geometry(4), 12, &[]);
    assert!(error.key == "spare" && error.what.contains("need 5 blocks"), "{error}");
    assert_eq!(refusal(geometry(9), 12, &[("slots", "5")]).key, "slots");
    let mlc = Geometry { page_bytes: 2048, oob_bytes: 64, pages_per_block: 128, bits_per_cell: 2, ..geometry(9) };
    let error = refusal(mlc.checked().unwrap(), 128, &[]);
    assert!(error.key == "spare-layout" && error.what.contains("a spare area has 64"), "{error}");
    // With map pages it fits, and needs blocks for them.
    assert_eq!(refusal(mlc.checked().unwrap(), 1024, &[("maps", "pages")]).key, "spare");
    let error = refusal(mlc.checked().unwrap(), 128, &[("maps", "pages"), ("logical-blocks", "8"), ("slots", "10")]);
    assert!(error.key == "maps" && error.what.contains("takes 2088 B"), "{error}");
    assert_eq!(refusal(geometry(40), 64, &[("maps", "pages"), ("cache-maps", "0")]).key, "cache-maps");
    let error = refusal(geometry(9), 24, &[("logical-blocks", "1"), ("update-blocks", "3")]);
    assert!(error.key == "update-blocks" && error.fix.starts_with("choose 1 to 2"), "{error}");
}

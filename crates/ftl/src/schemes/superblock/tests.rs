//! Worked examples, and what a collection does to the maps.

use super::*;
use flash::{CutPoint, Fault, Full, Nand, PowerCut, Tags, Transcript};

fn settings(pairs: &[(&str, &str)]) -> Settings {
    let mut settings = Settings::defaults(PARAMETERS);
    for (name, value) in pairs {
        settings.set(PARAMETERS, name, value).unwrap();
    }
    settings
}

fn geometry(blocks: u32) -> Geometry {
    Geometry { blocks_per_die: blocks, pages_per_block: 4, page_bytes: 512, ..Geometry::default() }.checked().unwrap()
}

type Flashed = Transcript<PowerCut<Nand<Tags, Full>>>;

fn device(blocks: u32, pages: u32, settings: &Settings) -> (Flashed, Superblock) {
    let mut flash = Transcript::new(PowerCut::counting(Nand::new(geometry(blocks))));
    let superblock = Superblock::format(&mut flash, pages, settings).unwrap().unwrap();
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
    let counters = |ftl: &Superblock| <Superblock as Ftl<Flashed>>::counters(ftl);
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
    let settings = settings(&[("logical-blocks", "2"), ("slots", "4"), ("cache-maps", "0")]);
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

/// What a cut in a collection left is given up, however often that happens.
#[test]
fn collections_cut_short_use_up_no_block() {
    let settings = settings(&[("logical-blocks", "2"), ("slots", "4"), ("cache-maps", "2")]);
    let (mut flash, mut superblock) = device(12, 32, &settings);
    let mut lpn = 0;
    for round in 0..300u64 {
        flash.inner_mut().arm(CutPoint { command: 2 + round % 5, face: (round % 4) as u8 }, round);
        let end = (0..10).try_for_each(|_| {
            lpn = (lpn + 7) % 32;
            superblock.write(&mut flash, Lpn(lpn), &round)
        });
        match end {
            Ok(()) | Err(Error::Flash(Fault(FaultKind::PowerLost))) => {}
            end => panic!("round {round}: {end:?}"),
        }
        flash.inner_mut().arm(CutPoint { command: round % 2, face: (round % 6) as u8 % 4 }, round);
        let _ = Superblock::mount(&mut flash, 32, &settings).unwrap();
        flash.inner_mut().restart();
        superblock = Superblock::mount(&mut flash, 32, &settings).unwrap().unwrap().0;
        superblock.audit(&mut flash).unwrap();
    }
}

#[test]
fn a_device_that_does_not_fit_is_refused_with_the_sum() {
    let refusal = |g: Geometry, pages, pairs: &[(&str, &str)]| {
        let mut flash: Nand<Tags, Full> = Nand::new(g);
        Superblock::format(&mut flash, pages, &settings(pairs)).unwrap_err()
    };
    let error = refusal(geometry(4), 12, &[]);
    assert!(error.key == "spare" && error.what.contains("need 5 blocks"), "{error}");
    assert_eq!(refusal(geometry(9), 12, &[("slots", "5")]).key, "slots");
    let mlc = Geometry { page_bytes: 2048, oob_bytes: 64, pages_per_block: 128, bits_per_cell: 2, ..geometry(9) };
    let error = refusal(mlc.checked().unwrap(), 128, &[]);
    assert!(error.key == "spare-layout" && error.what.contains("a spare area has 64"), "{error}");
}

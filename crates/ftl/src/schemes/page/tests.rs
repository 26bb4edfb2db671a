//! Worked examples of `page`, and what holds where power is cut or data are bad.

use super::*;
use crate::Error;
use crate::Inspect;
use crate::parts::tombstones::{self, Tombstone};
use alloc::string::String;
use flash::{
    Block, Brief, Cause, CutPoint, Die, EraseFace, Failing, FailurePlan, Fault, FaultKind, Fragile, Full, Kind, Nand,
};
use flash::{NoData, Oob, Payload, PowerCut, Ppn, Rng, Tags, Transcript};

fn settings(pairs: &[(&str, &str)]) -> Settings {
    let mut settings = ROW.settings();
    for (name, value) in pairs {
        settings.set(name, value).unwrap();
    }
    settings
}

/// Four blocks of four pages, eight logical pages; the specification's thirteen writes.
fn example(pairs: &[(&str, &str)]) -> Vec<String> {
    let g = Geometry { blocks_per_die: 4, pages_per_block: 4, ..Geometry::default() }.checked().unwrap();
    let mut flash = Transcript::new(Nand::<NoData, Brief>::new(g));
    let mut page = Page::format(&mut flash, 8, &settings(pairs)).unwrap();
    flash.take();
    for lpn in [0, 1, 2, 3, 0, 1, 4, 5, 4, 5, 6, 7] {
        page.write(&mut flash, Lpn(lpn), &()).unwrap();
    }
    flash.take();
    page.write(&mut flash, Lpn(0), &()).unwrap();
    page.audit(&mut flash).unwrap();
    let mut lines = flash.take();
    lines.retain(|line| !line.starts_with('O'));
    lines
}

#[test]
fn worked_example_of_the_specification() {
    // The example stops collecting when gc-low blocks are free, which is gc-high = 1 here.
    let lines = example(&[("gc-low", "1"), ("gc-high", "1"), ("gc-spread", "off")]);
    let expected = [
        "R 0.2 data_gc",
        "W 3.0 data 2 data_gc",
        "R 0.3 data_gc",
        "W 3.1 data 3 data_gc",
        "E 0 data_gc",
        "W 3.2 data 0 host",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn worked_example_when_collection_goes_on_above_gc_low() {
    // The rule "until more than gc-low are free" takes a second victim, B1 with its two live pages.
    let lines = example(&[("gc-low", "1"), ("gc-spread", "off")]);
    let expected = [
        "R 0.2 data_gc",
        "W 3.0 data 2 data_gc",
        "R 0.3 data_gc",
        "W 3.1 data 3 data_gc",
        "E 0 data_gc",
        "R 1.0 data_gc",
        "W 3.2 data 0 data_gc",
        "R 1.1 data_gc",
        "W 3.3 data 1 data_gc",
        "E 1 data_gc",
        "W 0.0 data 0 host",
    ];
    assert_eq!(lines, expected);
}

/// Consecutive and scattered pages over four dies: in turn whatever they are, or each to the die of its remainder.
#[test]
fn pages_go_round_the_dies_in_turn_or_by_address() {
    let g = Geometry { dies: 4, blocks_per_die: 8, pages_per_block: 4, ..Geometry::default() }.checked().unwrap();
    for (by, expected) in [("turn", [0, 1, 2, 3, 0, 1]), ("address", [0, 1, 2, 1, 1, 3])] {
        let mut flash = Nand::<NoData, Brief>::new(g);
        let mut page = Page::format(&mut flash, 32, &settings(&[("stripe-by", by)])).unwrap();
        let dies = [0, 1, 2, 5, 9, 7].map(|lpn| {
            page.write(&mut flash, Lpn(lpn), &()).unwrap();
            g.die_of(g.block_of(Ppn(page.map[lpn as usize]))).index()
        });
        assert_eq!(dies, expected, "{by}");
        for time in 0..2000 {
            page.write(&mut flash, Lpn(time * 7 % 32), &()).unwrap();
        }
        page.audit(&mut flash).unwrap();
    }
}

#[test]
fn a_device_without_enough_spare_space_is_refused_with_the_minimum() {
    let g = Geometry { blocks_per_die: 4, pages_per_block: 4, ..Geometry::default() }.checked().unwrap();
    let mut flash = Nand::<NoData, Brief>::new(g);
    let error = Page::format(&mut flash, 12, &settings(&[])).unwrap_err().config().unwrap();
    assert_eq!(error.key, "spare");
    assert!(error.what.contains("need 7 blocks"), "{error}");
}

/// A device of `blocks` blocks of four pages that can be mounted, whose power can be cut, and its scheme.
fn device(blocks: u32, pages: u32, settings: &Settings) -> (PowerCut<Nand<Tags, Full>>, Page) {
    let g = Geometry { blocks_per_die: blocks, pages_per_block: 4, page_bytes: 512, ..Geometry::default() };
    let mut flash = PowerCut::counting(Nand::new(g.checked().unwrap()));
    let page = Page::format(&mut flash, pages, settings).unwrap();
    (flash, page)
}

fn remount(flash: &mut PowerCut<Nand<Tags, Full>>, pages: u32, settings: &Settings) -> Page {
    flash.restart();
    Page::mount(flash, pages, settings).unwrap().0
}

/// What broke: a discarded page came back with its last but one content after a power cut. Why: the collection of
/// the block with its newest copy erased that copy while the tombstone was still in RAM, and an older copy was left
/// on flash. Since then pending tombstones are programmed before any erase.
#[test]
fn a_discard_holds_though_the_newest_copy_is_erased_before_the_flush() {
    let settings = settings(&[("durable-trim", "on"), ("gc-spread", "off")]);
    let (mut flash, mut page) = device(6, 8, &settings);
    let put = |flash: &mut PowerCut<_>, page: &mut Page, lpn| page.write(flash, Lpn(lpn), &u64::from(lpn)).unwrap();
    for lpn in [0, 1, 2, 3, 0, 4, 4, 4] {
        put(&mut flash, &mut page, lpn);
    }
    page.trim(&mut flash, Lpn(0), 1).unwrap();
    while page.space.blocks.erase_counts()[1] == 0 {
        put(&mut flash, &mut page, 4);
    }
    assert_eq!(page.space.blocks.erase_counts()[0], 0, "the older copy is still there");
    let mut page = remount(&mut flash, 8, &settings);
    assert_eq!(page.read(&mut flash, Lpn(0)).unwrap(), None);
}

/// What broke: a page whose spare area was sound and whose data was not came back as the newest version at the
/// second mount after the cut. Why: only the newest pages of a die were read whole, and the first mount had
/// programmed others since, or the page that was to supersede it had been discarded and erased. Since then every
/// mount begins a new epoch of program numbers, which tells such pages for as long as they exist.
#[test]
fn a_page_with_bad_data_is_known_at_every_later_mount() {
    for durable in ["on", "off"] {
        let settings = settings(&[("durable-trim", durable)]);
        let (mut flash, mut page) = device(8, 8, &settings);
        page.write(&mut flash, Lpn(0), &1).unwrap();
        flash.arm(CutPoint { command: 0, face: 2 }, 1);
        page.write(&mut flash, Lpn(0), &2).unwrap_err();
        for mount in 0..5 {
            let mut page = remount(&mut flash, 8, &settings);
            assert_eq!(page.read(&mut flash, Lpn(0)).unwrap(), Some(&1), "mount {mount}");
            page.write(&mut flash, Lpn(1 + mount), &9).unwrap();
        }
        remount(&mut flash, 8, &settings).trim(&mut flash, Lpn(0), 1).unwrap();
        let value = remount(&mut flash, 8, &settings).read(&mut flash, Lpn(0)).unwrap().copied();
        assert!([None, Some(1)].contains(&value), "{value:?}");
    }
}

/// What broke: a flushed page was gone at the second mount after a cut. Why: the cut had torn the first page of a
/// block, in a state that reads otherwise each time. The first mount could read its spare area, and a lane went on
/// behind it; the second could not, and took the block for empty. Since then the other pages of such a block count.
#[test]
fn no_lane_goes_on_behind_a_first_page_whose_data_is_bad() {
    let settings = settings(&[]);
    for seed in 0..20 {
        let (mut flash, mut page) = device(8, 8, &settings);
        (0..4).for_each(|lpn| page.write(&mut flash, Lpn(lpn), &1).unwrap());
        flash.leave_unstable(true);
        flash.arm(CutPoint { command: 0, face: 2 }, seed);
        page.write(&mut flash, Lpn(4), &1).unwrap_err();
        let mut page = remount(&mut flash, 8, &settings);
        page.write(&mut flash, Lpn(5), &seed).unwrap();
        page.flush(&mut flash).unwrap();
        let mut page = remount(&mut flash, 8, &settings);
        assert_eq!(page.read(&mut flash, Lpn(5)).unwrap(), Some(&seed));
    }
}

/// What broke: a discarded page came back. Why: power failed in the erase of the block with its copy, and the first
/// mount saw nothing of the copy and dropped the tombstone; its block was collected, and a later mount saw the copy.
/// Since then a mount keeps tombstones.
#[test]
fn a_tombstone_is_kept_though_the_copy_that_it_buries_hides() {
    let settings = settings(&[("durable-trim", "on")]);
    let (mut flash, mut page) = device(6, 8, &settings);
    (0..4).for_each(|lpn| page.write(&mut flash, Lpn(lpn), &1).unwrap());
    page.trim(&mut flash, Lpn(0), 1).unwrap();
    page.flush(&mut flash).unwrap();
    (1..4).for_each(|lpn| page.write(&mut flash, Lpn(lpn), &2).unwrap());
    flash.chip().half_erase(Block(0), EraseFace::LooksBlank, &mut Rng::new(0));
    let mut page = remount(&mut flash, 8, &settings);
    assert_eq!(page.read(&mut flash, Lpn(0)).unwrap(), None);
    assert!(page.tombstones.is_trim_page(Ppn(4)), "what buries the copy is live");
    page.audit(&mut flash).unwrap();
}

/// A mount believes all that a record says. So a record names the pages alone that it discards. Others may have a
/// record of their own, which goes if the mount follows this one, and this one may be in a block that is being erased.
#[test]
fn a_record_of_a_discard_names_the_pages_that_it_discards() {
    let settings = settings(&[("durable-trim", "on")]);
    let (mut flash, mut page) = device(6, 8, &settings);
    [1, 2, 5].into_iter().for_each(|lpn| page.write(&mut flash, Lpn(lpn), &1).unwrap());
    page.trim(&mut flash, Lpn(0), 7).unwrap();
    let of = |first, count| Tombstone { first, count, version: 4 };
    assert_eq!(page.tombstones.pending, [of(1, 2), of(5, 1)]);
    page.trim(&mut flash, Lpn(0), 8).unwrap();
    assert_eq!(page.tombstones.pending.len(), 2, "nothing is left to discard");
}

/// What broke: tired blocks lost their pages. Why: a full block with a trim page was moved where two blocks were free
/// alone, for a trim page may be written again as several; on a crowded die none of these blocks was moved for long.
/// Since then it counts whether it can be: of at most as many LPNs as a page has records, one page comes again.
#[test]
fn a_trim_page_of_few_discards_is_one_page_again() {
    let settings = settings(&[("durable-trim", "on")]);
    let (mut flash, mut page) = device(40, 80, &settings);
    (0..80).for_each(|lpn| page.write(&mut flash, Lpn(lpn), &1).unwrap());
    page.trim(&mut flash, Lpn(0), 64).unwrap();
    page.flush(&mut flash).unwrap();
    (77..80).for_each(|lpn| page.write(&mut flash, Lpn(lpn), &2).unwrap());
    let block = Block(20);
    assert!(page.tombstones.is_trim_page(Ppn(80)) && page.space.blocks.live_of(block) == 4);
    // One record goes into pieces: as many as a page has stay.
    for lpn in (1..64).step_by(2) {
        assert!(!page.may_level(block), "before LPN {lpn} is written");
        page.write(&mut flash, Lpn(lpn), &2).unwrap();
    }
    assert!(page.may_level(block));
    let (trim_pages, free) = (page.counters.trim_pages, page.space.blocks.free_in(Die(0)));
    page.collect(&mut flash, block, Some(Cause::Refresh)).unwrap();
    assert_eq!((page.counters.trim_pages, page.space.blocks.free_in(Die(0))), (trim_pages + 1, free));
    page.audit(&mut flash).unwrap();
}

/// What broke: the device was full for ever after a few cuts in a row. Why: each took pages of the one block that a
/// die keeps for its collections, host pages followed into it after the mount, and then no collection had room.
/// Since then a mount gives up an interrupted collection's block and collects before it takes host writes.
#[test]
fn collections_keep_their_room_over_any_number_of_cuts() {
    for (spread, streams, face) in [("off", "1", 1), ("off", "1", 2), ("off", "2", 1), ("on", "1", 2), ("on", "2", 3)] {
        let settings = settings(&[("gc-low", "2"), ("gc-spread", spread), ("streams", streams)]);
        let (mut flash, mut page) = device(11, 24, &settings);
        let mut lpn = 0;
        for round in 0..200u64 {
            flash.arm(CutPoint { command: 3 + round % 4, face }, round);
            let end = (0..10).try_for_each(|_| {
                lpn = (lpn + 7) % 24;
                page.write(&mut flash, Lpn(lpn), &round)
            });
            match end {
                Ok(()) | Err(Error::Flash(Fault(FaultKind::PowerLost))) => {}
                end => panic!("spread {spread}, {streams} streams, face {face}, round {round}: {end:?}"),
            }
            flash.arm(CutPoint { command: round % 3, face }, round);
            let _ = Page::mount(&mut flash, 24, &settings);
            page = remount(&mut flash, 24, &settings);
            page.audit(&mut flash).unwrap();
        }
    }
}

/// The copy of LPN 3 fails in the last free block, and its victim keeps its page. Once that is discarded, the victim
/// makes room like any other block: the device goes on with four blocks, as many as it has to have.
#[test]
fn a_block_whose_collection_found_no_room_is_collected_later() {
    let settings = settings(&[("gc-low", "1"), ("gc-spread", "off"), ("durable-trim", "off")]);
    let g = Geometry { blocks_per_die: 5, pages_per_block: 4, ..Geometry::default() }.checked().unwrap();
    let plan = FailurePlan { program_schedule: [16].into(), ..FailurePlan::default() };
    let mut flash = Failing::new(Nand::<Tags, Full>::new(g), plan, 1);
    let mut page = Page::format(&mut flash, 8, &settings).unwrap();
    for lpn in [0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 4, 5, 6, 0, 1] {
        page.write(&mut flash, Lpn(lpn), &u64::from(lpn)).unwrap();
    }
    assert!(matches!(page.write(&mut flash, Lpn(2), &2), Err(Error::Full)));
    for lpn in [3, 7] {
        assert_eq!(page.read(&mut flash, Lpn(lpn)).unwrap(), Some(&lpn.into()));
        page.trim(&mut flash, Lpn(lpn), 1).unwrap();
    }
    for lpn in (0..8).cycle().take(40) {
        page.write(&mut flash, Lpn(lpn), &1).unwrap();
    }
    page.audit(&mut flash).unwrap();
}

/// Records of a trim page that a collection writes again keep their own versions: here LPN 1 was written between the
/// discards of LPN 0 and of LPN 1, and the page that this left is on flash after both trim pages' first one is gone.
#[test]
fn a_rewritten_tombstone_keeps_its_own_version() {
    let settings = settings(&[("durable-trim", "on"), ("gc-spread", "off"), ("gc-low", "1")]);
    let (mut flash, mut page) = device(8, 8, &settings);
    let put = |flash: &mut PowerCut<_>, page: &mut Page, lpn| page.write(flash, Lpn(lpn), &u64::from(lpn)).unwrap();
    (0..2).for_each(|lpn| put(&mut flash, &mut page, lpn));
    page.trim(&mut flash, Lpn(0), 1).unwrap();
    (1..3).for_each(|lpn| put(&mut flash, &mut page, lpn));
    page.trim(&mut flash, Lpn(1), 1).unwrap();
    page.flush(&mut flash).unwrap();
    let from = Ppn(page.map[0] - TRIMMED);
    assert_eq!((page.map[0], from), (page.map[1], Ppn(4)), "one trim page, the first of block 1");
    [3, 4, 5, 3, 4, 5].into_iter().for_each(|lpn| put(&mut flash, &mut page, lpn));
    assert_eq!(page.space.blocks.live_of(Block(1)), 1);
    page.rewrite_tombstones(&mut flash, from, Die(0), Cause::DataGc).unwrap();
    flash.erase(Block(1), Cause::DataGc).unwrap();
    let mut page = remount(&mut flash, 8, &settings);
    assert_eq!([0, 1].map(|lpn| page.read(&mut flash, Lpn(lpn)).unwrap().copied()), [None, None]);
}

/// Six blocks of four pages, all in use, as a power cut in the middle of a collection leaves them: block 5 is the one
/// that it had opened, in a later epoch. LPN 0 is in blocks 0 and 5. Of the others there is one page each, and nothing
/// in block 3 counts. A page in block 2, LPN 6, is torn: its data reads no more.
fn cut_in_a_collection(record: Option<Tombstone>) -> PowerCut<Nand<Tags, Full>> {
    const LATER: u64 = 1 << 40;
    let g = Geometry { blocks_per_die: 6, pages_per_block: 4, page_bytes: 512, ..Geometry::default() };
    let mut flash = PowerCut::counting(Nand::<Tags, Full>::new(g.checked().unwrap()));
    let mut put = |ppn: u32, lpn: u32, version: u64, program: u64| {
        flash.program(Ppn(ppn), Oob::data(Lpn(lpn), version, program), Payload::User(&version), Cause::Host).unwrap();
    };
    // Block 3 first, and older versions in it.
    (0..4).for_each(|page| put(12 + page, page, 1 + u64::from(page), 1 + u64::from(page)));
    (0..4).for_each(|page| put(page, page, 5 + u64::from(page), 5 + u64::from(page)));
    (4..6).for_each(|page| put(page, page, 9 + u64::from(page), 9 + u64::from(page)));
    put(6, 7, 15, 15);
    put(7, 6, 16, 16);
    put(16, 5, 17, 17);
    put(17, 4, 18, 18);
    put(8, 5, 19, 19);
    put(9, 6, 20, 20);
    // After a mount: LPN 0 is copied.
    put(20, 0, 5, LATER + 1);
    if let Some(record) = record {
        let oob = Oob { kind: Kind::Trim, program: LATER + 2, ..Oob::data(Lpn(0), record.version, 0) };
        flash.program(Ppn(21), oob, Payload::Meta(&tombstones::encode(&[record])), Cause::Metadata).unwrap();
    }
    flash.inner_mut().chip().spoil(Ppn(9));
    flash
}

/// A block that holds copies alone is erased at once by a mount that finds no other one free, whatever torn pages of
/// newer versions there are.
#[test]
fn a_mount_starts_a_collection_afresh_that_was_cut_short_in_the_last_free_block() {
    let settings = settings(&[("gc-low", "1"), ("gc-spread", "off"), ("durable-trim", "on")]);
    let mut flash = cut_in_a_collection(None);
    flash.restart();
    let mut page = Page::mount(&mut flash, 8, &settings).unwrap().0;
    let first = flash.seen()[0];
    assert_eq!((first.op, first.cause), (flash::Op::Erase, Cause::Recovery));
    let read = [0, 3, 5, 6].map(|lpn| page.read(&mut flash, Lpn(lpn)).unwrap().copied());
    assert_eq!(read, [Some(5), Some(8), Some(19), Some(16)]);
    page.audit(&mut flash).unwrap();
}

/// A record of a discard has no twin: the block that it is in stays, and a victim makes room before the host writes.
#[test]
fn a_block_with_the_only_record_of_a_discard_is_not_erased_by_a_mount() {
    let settings = settings(&[("gc-low", "1"), ("gc-spread", "off"), ("durable-trim", "on")]);
    let mut flash = cut_in_a_collection(Some(Tombstone { first: 3, count: 1, version: 30 }));
    for mount in 0..2 {
        let mut page = remount(&mut flash, 8, &settings);
        assert_eq!(page.read(&mut flash, Lpn(3)).unwrap(), None, "mount {mount}");
        assert!(page.space.blocks.free_in(Die(0)) > 0, "mount {mount}");
        page.audit(&mut flash).unwrap();
    }
}

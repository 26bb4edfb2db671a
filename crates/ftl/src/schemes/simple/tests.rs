//! `simple` command for command: one write, one collection, one mount; and that it is `page` on one die.

use super::*;
use crate::Inspect;
use crate::schemes::Page;
use alloc::string::{String, ToString};
use flash::{CutPoint, Failing, FailurePlan, Fault, Full, Nand, NoData, PowerCut, Rng, Tags, Transcript};

/// One die of four blocks of four pages, eight logical pages, and twelve writes that leave one block free.
fn geometry() -> Geometry {
    Geometry { blocks_per_die: 4, pages_per_block: 4, ..Geometry::default() }.checked().unwrap()
}

const WRITES: [u32; 12] = [0, 1, 2, 3, 0, 1, 4, 5, 4, 5, 6, 7];

fn settings() -> Settings {
    let mut settings = ROW.settings();
    settings.set("gc-low", "1").unwrap();
    settings
}

#[test]
fn a_write_is_one_program_and_a_read_one_read() {
    let mut flash = Transcript::new(Nand::<NoData, Full>::new(geometry()));
    let mut simple = Simple::format(&mut flash, 8, &settings()).unwrap();
    flash.take();
    simple.write(&mut flash, Lpn(7), &()).unwrap();
    simple.write(&mut flash, Lpn(7), &()).unwrap();
    assert!(simple.read(&mut flash, Lpn(7)).unwrap().is_some());
    assert!(simple.read(&mut flash, Lpn(6)).unwrap().is_none());
    assert_eq!(flash.take(), ["W 0.0 data 7 host", "W 0.1 data 7 host", "R 0.1 host"]);
    assert_eq!(simple.supply.blocks.live_of(Block(0)), 3, "page 1 and the two that are still blank");
}

/// One block is free, so the next write collects until two are: the block with the fewest live pages goes first.
#[test]
fn a_collection_takes_the_blocks_with_the_fewest_live_pages() {
    let mut flash = Transcript::new(Nand::<NoData, Full>::new(geometry()));
    let mut simple = Simple::format(&mut flash, 8, &settings()).unwrap();
    for lpn in WRITES {
        simple.write(&mut flash, Lpn(lpn), &()).unwrap();
        simple.audit(&mut flash).unwrap();
    }
    flash.take();
    simple.write(&mut flash, Lpn(0), &()).unwrap();
    simple.audit(&mut flash).unwrap();
    let mut lines = flash.take();
    lines.retain(|line| !line.starts_with('O'));
    // Blocks 0 and 1 have two live pages each. Emptying block 0 uses up the free block, so block 1 follows.
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
    assert_eq!(simple.counters, [2, 4]);
}

type Fragile = PowerCut<Nand<Tags, Full>>;

fn written() -> (Fragile, Simple) {
    let mut flash = PowerCut::counting(Nand::<Tags, Full>::new(geometry()));
    let mut simple = Simple::format(&mut flash, 8, &settings()).unwrap();
    for (tag, lpn) in (1..).zip(WRITES) {
        simple.write(&mut flash, Lpn(lpn), &tag).unwrap();
    }
    flash.restart();
    (flash, simple)
}

/// Power fails at every command of that write, in every way: each page is what it was, or the page in flight is new.
#[test]
fn a_mount_finds_every_page_wherever_power_failed() {
    let (mut flash, mut simple) = written();
    simple.write(&mut flash, Lpn(0), &99).unwrap();
    let seen = flash.seen().to_vec();
    assert_eq!(seen.len(), 7, "five programs and two erases change the flash");
    for (command, report) in (0..).zip(seen) {
        for face in 0..CutPoint::faces(report.op) {
            let (mut flash, mut simple) = written();
            flash.arm(CutPoint { command, face }, 1);
            let cut = simple.write(&mut flash, Lpn(0), &99);
            assert_eq!(cut, Err(Error::Flash(Fault(FaultKind::PowerLost))));
            flash.restart();
            let (mut mounted, _) = Simple::mount(&mut flash, 8, &settings()).unwrap();
            mounted.audit(&mut flash).unwrap();
            for lpn in 0..8 {
                let last = (1..).zip(WRITES).filter(|&(_, written)| written == lpn).last().map(|(tag, _)| tag);
                let read = mounted.read(&mut flash, Lpn(lpn)).unwrap().copied();
                assert!(read == last || (lpn, read) == (0, Some(99)), "{command}.{face}: LPN {lpn} is {read:?}");
            }
            for tag in 100..200 {
                mounted.write(&mut flash, Lpn(tag as u32 % 8), &tag).unwrap();
            }
            mounted.audit(&mut flash).unwrap();
        }
    }
}

/// Two programs of a write failed, two blocks were opened for it, and a third failure in the collection behind it met a
/// device that was full, with as many sound blocks as it takes.
#[test]
fn a_write_whose_program_fails_makes_room_before_it_opens_another_block() {
    let g = Geometry { blocks_per_die: 13, pages_per_block: 4, ..Geometry::default() }.checked().unwrap();
    for (first, later) in (24..60).flat_map(|first| (2..16).map(move |later| (first, later))) {
        let failing = vec![first, first + 1, first + later];
        let plan = FailurePlan { program_schedule: failing, ..FailurePlan::default() };
        let mut flash = Failing::new(Nand::<NoData, Full>::new(g), plan, 1);
        let (mut simple, mut rng) = (Simple::format(&mut flash, 24, &ROW.settings()).unwrap(), Rng::new(first));
        for write in 0..200 {
            let done = simple.write(&mut flash, Lpn(rng.below(24) as u32), &());
            assert_eq!(done, Ok(()), "write {write}; programs {first}, {first} + 1 and {first} + {later} fail");
        }
        simple.audit(&mut flash).unwrap();
    }
}

#[test]
fn on_one_die_it_issues_the_commands_of_page() {
    let g = Geometry { blocks_per_die: 32, pages_per_block: 8, ..Geometry::default() }.checked().unwrap();
    fn run<S: Build<Transcript<Nand<NoData, Full>>>>(g: Geometry, settings: &Settings) -> Vec<String> {
        let mut flash = Transcript::new(Nand::<NoData, Full>::new(g));
        let (mut scheme, mut rng) = (S::format(&mut flash, 200, settings).unwrap(), Rng::new(1));
        for _ in 0..5000 {
            let lpn = Lpn(rng.below(200) as u32);
            match rng.below(10) {
                0 => scheme.trim(&mut flash, lpn, 1).unwrap(),
                1..4 => drop(scheme.read(&mut flash, lpn).unwrap()),
                _ => scheme.write(&mut flash, lpn, &()).unwrap(),
            }
        }
        flash.take()
    }
    let page = crate::schemes::by_name("page").unwrap().settings();
    let (ours, theirs) = (run::<Simple>(g, &ROW.settings()), run::<Page>(g, &page));
    assert!(ours.len() > 5000 && ours == theirs, "{} and {} commands", ours.len(), theirs.len());
}

#[test]
fn a_device_without_room_for_collections_is_refused() {
    let mut flash = Nand::<NoData, Full>::new(Geometry { blocks_per_die: 3, ..geometry() });
    let text = Simple::format(&mut flash, 5, &settings()).unwrap_err().to_string();
    let expected = "spare: 5 logical pages need 4 blocks, and there are 3 (give a larger capacity, or set what needs \
                    less; with this one 58.34 %";
    assert!(text.starts_with(expected), "{text}");
    // Where it takes less than half of the device, the advice is to spare that: more than 16 pages make five blocks.
    let mut flash = Nand::<NoData, Full>::new(geometry());
    let text = Simple::format(&mut flash, 9, &settings()).unwrap_err().to_string();
    let expected = "spare: 9 logical pages need 5 blocks, and there are 4 (give more spare space, at least 43.76 %)";
    assert_eq!(text, expected);
}

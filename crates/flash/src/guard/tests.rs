//! What a guard brings back, whatever is cut, and what it leaves alone.

use super::*;
use crate::{CutPoint, Failing, FailurePlan, Full, Lpn, Nand, Op, PowerCut, Tags};

type Bench = Guard<PowerCut<Nand<Tags, Full>>>;

const PAGES: u32 = 16;

/// Two dies of six blocks, of which the guard takes four.
fn chip(bits_per_cell: u32, pairs: Pairing, order: ProgramOrder) -> PowerCut<Nand<Tags, Full>> {
    let g = Geometry {
        dies: 2,
        blocks_per_die: 6,
        pages_per_block: PAGES,
        bits_per_cell,
        pairs,
        order,
        ..Geometry::default()
    };
    PowerCut::counting(Nand::new(g.checked().unwrap()))
}

fn tag(ppn: Ppn) -> u64 {
    u64::from(ppn.0) | 0xab << 32
}

/// Programs the pages `from..end` of both dies in turn, with their numbers in all that a page has: in the first block
/// of a die as metadata, in the second as host pages.
fn fill(bench: &mut Bench, from: u32, end: u32) -> Result<(), crate::Fault> {
    (from..end).flat_map(|page| [Ppn(page), Ppn(page + 2 * PAGES)]).try_for_each(|ppn| put(bench, ppn))
}

fn put(bench: &mut Bench, ppn: Ppn) -> Result<(), crate::Fault> {
    bench.stage_spare(ppn, &[ppn.0 as u8, 7]);
    if ppn.0 % (2 * PAGES) < PAGES {
        let oob = Oob { kind: Kind::Translation, mark: 3, ..Oob::data(Lpn(ppn.0), 5, u64::from(ppn.0)) };
        bench.program(ppn, oob, Payload::Meta(&[ppn.0, 9]), Cause::Host)
    } else {
        bench.program(ppn, Oob::data(Lpn(ppn.0), 5, u64::from(ppn.0)), Payload::User(&tag(ppn)), Cause::Host)
    }
}

/// The first page of `0..end` of the dies that is not what was programmed.
fn lost(bench: &mut Bench, end: u32) -> Option<Ppn> {
    (0..end).flat_map(|page| [Ppn(page), Ppn(page + 2 * PAGES)]).find(|&ppn| {
        let Some(oob) = bench.read_oob(ppn, Cause::Recovery).unwrap() else { return true };
        let is_meta = oob.kind == Kind::Translation && oob.mark == 3;
        let is_sound = match bench.read(ppn, Cause::Recovery).unwrap().1 {
            Payload::User(&user) => oob.kind == Kind::Data && user == tag(ppn),
            Payload::Meta(words) => is_meta && words[..3] == [ppn.0, 9, u32::MAX],
            Payload::None => false,
        };
        let is_oob = (oob.address, oob.version, oob.program) == (ppn.0, 5, u64::from(ppn.0));
        !(is_sound && is_oob && bench.spare(ppn) == [ppn.0 as u8, 7])
    })
}

/// A device that is being filled, cut at a command; how many pages of each die had been programmed. `None` if it is
/// full before.
fn cut(bits: u32, pairs: Pairing, order: ProgramOrder, guarded: bool, point: CutPoint) -> Option<(Bench, u32)> {
    let power = chip(bits, pairs, order);
    let mut bench = if guarded { Guard::new(power) } else { Guard::unguarded(power) };
    bench.recover(false).unwrap();
    assert!(bench.reserve_spare(2));
    bench.arm(point, point.command * 7 + u64::from(point.face));
    let done = (0..2 * PAGES).find(|&page| fill(&mut bench, page, page + 1).is_err())?;
    bench.restart();
    Some((bench, done))
}

/// Every case: how many bits a cell has, the order of its pages and of their programs.
fn cases() -> impl Iterator<Item = (u32, Pairing, ProgramOrder)> {
    let orders = [ProgramOrder::Strict, ProgramOrder::Ascending, ProgramOrder::Any];
    let pairings = [Pairing::Shadow, Pairing::Adjacent];
    (2..=4)
        .flat_map(move |bits| pairings.map(|pairs| (bits, pairs)))
        .flat_map(move |(bits, pairs)| orders.map(|order| (bits, pairs, order)))
}

#[test]
fn without_a_guard_a_torn_page_takes_others_along() {
    for pairs in [Pairing::Shadow, Pairing::Adjacent] {
        let lost = (0..4 * u64::from(PAGES)).filter(|&command| {
            let point = CutPoint { command, face: 1 };
            let (mut bench, done) = cut(2, pairs, ProgramOrder::Strict, false, point).unwrap();
            lost(&mut bench, done).is_some()
        });
        // Each second program is of an upper page, and takes the lower one in two cases of three.
        let lost = lost.count();
        assert!((14..=30).contains(&lost), "{lost} of 64 torn pages took another");
    }
}

#[test]
fn what_a_torn_page_takes_is_brought_back_whatever_is_cut() {
    for (bits, pairs, order) in cases() {
        let mut repaired = 0;
        'cuts: for command in 0.. {
            for face in 0..CutPoint::faces(Op::Erase) {
                // A program has fewer faces than an erase.
                let is_erase = |bench: &Bench| bench.seen().last().is_some_and(|seen| seen.op == Op::Erase);
                let Some((mut bench, done)) = cut(bits, pairs, order, true, CutPoint { command, face: face % 4 })
                else {
                    break 'cuts;
                };
                if face > 3 && !is_erase(&bench) {
                    continue;
                }
                bench.recover(false).unwrap();
                assert_eq!(lost(&mut bench, done), None, "{bits} {pairs:?} {order:?}: command {command}, face {face}");
                assert!(bench.reserve_spare(2));
                repaired += bench.guarded().repaired;
                // What was kept does not come back once its block is erased.
                for block in (0..4).map(Block) {
                    bench.erase(block, Cause::DataGc).unwrap();
                }
                bench.recover(false).unwrap();
                let is_blank = |ppn| bench.read_oob(ppn, Cause::Recovery).unwrap().is_none();
                assert!((0..4 * PAGES).map(Ppn).all(is_blank));
            }
        }
        assert!(repaired > 20, "{bits} {pairs:?} {order:?}: {repaired} repairs");
    }
}

#[test]
fn a_repair_may_be_cut_anywhere_and_cut_again() {
    for (bits, pairs, order) in cases() {
        let start = (0..).find_map(|command| {
            let (bench, done) = cut(bits, pairs, order, true, CutPoint { command, face: 1 })?;
            let mut after = bench.clone();
            after.recover(false).unwrap();
            // Late in the second block, so that the ring has come round.
            (after.guarded().repaired == 1 && done > PAGES + 8).then_some((bench, done))
        });
        let (start, done) = start.expect("some cut is repaired");
        let mut commands = 0;
        for first in 0.. {
            let mut bench = start.clone();
            bench.arm(CutPoint { command: first, face: (first % 4) as u8 }, first);
            if bench.recover(false).is_ok() {
                commands = first;
                break;
            }
            for second in 0.. {
                for face in 0..4 {
                    let mut bench = bench.clone();
                    bench.arm(CutPoint { command: second, face }, second);
                    let is_over = bench.recover(false).is_ok();
                    bench.restart();
                    bench.recover(false).unwrap();
                    let at = (first, second, face);
                    assert_eq!(lost(&mut bench, done), None, "{bits} {pairs:?} {order:?}: {at:?}");
                    if is_over {
                        break;
                    }
                }
                if second > commands + 40 {
                    break;
                }
            }
        }
        assert!(commands > 8, "{bits} {pairs:?} {order:?}: a repair of {commands} commands");
    }
}

/// Power fails three times before one page is programmed. What the guard has written to its ring by then reads in part:
/// a page with a sound spare area and bad data has a number that looks like that of another.
#[test]
fn what_is_kept_before_a_program_may_be_cut_three_times() {
    for (bits, pairs, order) in cases().filter(|&(.., order)| order == ProgramOrder::Strict) {
        let mut repaired = 0;
        for page in 0..2 * PAGES {
            let mut start = Guard::new(chip(bits, pairs, order));
            start.recover(false).unwrap();
            assert!(start.reserve_spare(2));
            fill(&mut start, 0, page).unwrap();
            let commands = || (0..64).map(|cuts| [cuts / 16, cuts / 4 % 4, cuts % 4]);
            for (cuts, lot) in commands().flat_map(|cuts| (0..4).map(move |lot| (cuts, lot))) {
                let mut bench = start.clone();
                for command in cuts {
                    let is_blank = bench.read_oob(Ppn(page), Cause::Recovery).unwrap().is_none();
                    bench.arm(CutPoint { command, face: 2 }, lot);
                    if !is_blank || put(&mut bench, Ppn(page)).is_ok() {
                        break;
                    }
                    bench.restart();
                    bench.recover(true).unwrap();
                    assert_eq!(lost(&mut bench, page), None, "{bits} {pairs:?}, page {page}: {cuts:?}, {lot}");
                }
                repaired += bench.guarded().repaired;
            }
        }
        assert!(repaired > 20, "{bits} {pairs:?}: {repaired} repairs");
    }
}

/// What a torn program leaves looks like damage, and damage like a torn program. Whoever knows that power did not fail
/// has nothing changed.
#[test]
fn where_power_did_not_fail_nothing_is_repaired() {
    for (bits, pairs, order) in cases() {
        let mut repaired = 0;
        for command in 0..120 {
            let Some((bench, _)) = cut(bits, pairs, order, true, CutPoint { command, face: 1 }) else { break };
            let (mut resumed, mut recovered) = (bench.clone(), bench);
            let before = resumed.seen().len();
            resumed.resume(true).unwrap();
            let changes = |op: &Op| matches!(op, Op::Program | Op::PartialProgram | Op::Erase);
            assert!(!resumed.seen()[before..].iter().any(|seen| changes(&seen.op)));
            recovered.recover(true).unwrap();
            repaired += recovered.guarded().repaired;
            // New pages of the ring are newer than those that it holds, repaired or not.
            let number = |bench: &Bench| bench.rings.iter().map(|ring| ring.number).collect::<Vec<_>>();
            let least = number(&recovered).into_iter().zip(number(&resumed));
            assert!(least.into_iter().all(|(recovered, resumed)| recovered - resumed <= 1));
        }
        assert!(repaired > 3, "{bits} {pairs:?} {order:?}: {repaired} repairs");
    }
}

#[test]
fn an_old_entry_says_nothing_about_a_new_life_of_its_block() {
    // Pages 0 and 2 are a pair. The entry for page 2 stays the newest while the block is erased; page 0 of its next
    // life is torn, and so is page 2.
    let mut bench = Guard::new(chip(2, Pairing::Shadow, ProgramOrder::Strict));
    bench.recover(false).unwrap();
    let put = |bench: &mut Bench, page: u32, version| {
        bench.program(Ppn(page), Oob::data(Lpn(page), version, 1), Payload::User(&version), Cause::Host)
    };
    (0..3).for_each(|page| put(&mut bench, page, 1).unwrap());
    bench.erase(Block(0), Cause::DataGc).unwrap();
    let recovered = |bench: &mut Bench| {
        bench.restart();
        bench.recover(false).unwrap();
        bench.read_oob(Ppn(0), Cause::Recovery).unwrap().unwrap().kind
    };
    bench.arm(CutPoint { command: 0, face: 1 }, 1);
    assert!(put(&mut bench, 0, 2).is_err());
    assert_eq!(recovered(&mut bench), Kind::Torn);
    put(&mut bench, 1, 2).unwrap();
    // The empty entry comes first.
    bench.arm(CutPoint { command: 2, face: 1 }, 1);
    assert!(put(&mut bench, 2, 2).is_err());
    assert_eq!(bench.seen().len(), 3);
    assert_eq!(recovered(&mut bench), Kind::Torn);
    assert_eq!(bench.guarded().repaired, 0);
}

/// What broke: a repair programmed the copy of a lost page as a host page without data, which no chip takes. It stays
/// lost: reads of it are errors, and a mount finds whose it is.
#[test]
fn the_copy_of_a_lost_page_is_lost_behind_a_repair() {
    use crate::{Failing, FailurePlan};
    let mut repaired = 0;
    for lots in 0..16 {
        let plan = FailurePlan { unreadable_rate: 0.3, ..FailurePlan::default() };
        let chip = chip(2, Pairing::Shadow, ProgramOrder::Strict).into_inner();
        let mut bench = Guard::new(PowerCut::counting(Failing::new(chip, plan, lots)));
        bench.recover(false).unwrap();
        let oob = |ppn: Ppn| Oob::data(Lpn(ppn.0), 5, u64::from(ppn.0));
        let mut put = |ppn: u32| {
            let ppn = Ppn(ppn);
            bench.program(ppn, oob(ppn), Payload::User(&tag(ppn)), Cause::Host).map(|()| ppn)
        };
        let written: Vec<Ppn> = (0..PAGES).map(|page| put(page).unwrap()).collect();
        let unreadable = written.into_iter().find(|&ppn| bench.read(ppn, Cause::Host).is_err()).unwrap();
        let copy = Ppn(PAGES);
        bench.copy(unreadable, copy, Cause::DataGc, |_, _| {}).unwrap();
        let mut put = |ppn: u32| {
            let ppn = Ppn(ppn);
            bench.program(ppn, oob(ppn), Payload::User(&tag(ppn)), Cause::Host)
        };
        (PAGES + 1..PAGES + 4).for_each(|ppn| put(ppn).unwrap());
        // Pages 1 and 4 of a block are a pair: the one is kept, then the other programmed.
        if bench.read(Ppn(PAGES + 1), Cause::Host).is_err() {
            continue;
        }
        bench.arm(CutPoint { command: 1, face: 1 }, lots);
        let torn = Ppn(PAGES + 4);
        bench.program(torn, oob(torn), Payload::User(&tag(torn)), Cause::Host).unwrap_err();
        bench.restart();
        bench.recover(false).unwrap();
        repaired += bench.guarded().repaired;
        assert_eq!(bench.guarded().given_up, bench.guarded().repaired, "a page is made blank in each repair");
        assert_eq!(bench.read(copy, Cause::Host).map(drop), Err(crate::Fault(FaultKind::Uncorrectable)), "lots {lots}");
        let found = bench.read_oob(copy, Cause::Recovery).unwrap().unwrap();
        assert_eq!((found.kind, found.address), (Kind::Data, unreadable.0), "lots {lots}");
    }
    assert!(repaired > 3, "{repaired} repairs");
}

#[test]
fn a_ring_block_that_fails_is_left_out() {
    use crate::{Failing, FailurePlan};
    let power = chip(2, Pairing::Shadow, ProgramOrder::Strict);
    // The first erase is that of a ring block, and program 5 the second page of the ring: both fail for good.
    let plan = FailurePlan { erase_schedule: alloc::vec![0], program_schedule: alloc::vec![5], ..Default::default() };
    let mut bench = Guard::new(Failing::new(power.into_inner(), plan, 1));
    bench.recover(false).unwrap();
    for ppn in (0..2 * PAGES).map(Ppn) {
        bench.program(ppn, Oob::data(Lpn(ppn.0), 5, 1), Payload::User(&tag(ppn)), Cause::Host).unwrap();
    }
    assert_eq!(bench.rings[0].blocks.len(), 2);
    let chip = *bench.inner.geometry();
    let guards: Vec<u32> = (0..12).filter(|&block| is_guards(&chip, Block(block))).collect();
    assert_eq!(guards, [2, 3, 4, 5, 8, 9, 10, 11]);
    assert_eq!(bench.guarded().kept, u64::from(PAGES));
    assert_eq!(bench.inner.read_oob(Ppn(2 * PAGES), Cause::Recovery).unwrap().unwrap().kind, Kind::Bad);
}

#[test]
fn without_pairs_nothing_is_taken_and_nothing_kept() {
    let mut bench = Guard::new(chip(2, Pairing::Off, ProgramOrder::Strict));
    assert_eq!(bench.geometry().blocks_per_die, 6);
    assert!(!is_guards(bench.geometry(), Block(5)));
    bench.recover(false).unwrap();
    for ppn in (0..PAGES).map(Ppn) {
        bench.program(ppn, Oob::data(Lpn(0), 5, 1), Payload::User(&1), Cause::Host).unwrap();
    }
    assert_eq!(bench.seen().len(), PAGES as usize);
    bench.arm(CutPoint { command: 0, face: 1 }, 1);
    assert!(bench.program(Ppn(PAGES), Oob::data(Lpn(0), 5, 1), Payload::User(&1), Cause::Host).is_err());
    assert_eq!(bench.taken(), 0);
}

/// Tired blocks have the numbers that the scheme knows, and blocks of the guard none.
#[test]
fn of_tired_blocks_the_scheme_hears_of_its_own() {
    let g = *chip(2, Pairing::Shadow, ProgramOrder::Strict).geometry();
    let plan = FailurePlan { reads_endured: Some(8), ..FailurePlan::default() };
    let mut bench = Guard::new(Failing::new(Nand::<Tags, Full>::new(g), plan, 1));
    bench.recover(false).unwrap();
    for ppn in (3 * PAGES..3 * PAGES + 4).map(Ppn) {
        bench.program(ppn, Oob::data(Lpn(0), 5, 1), Payload::User(&1), Cause::Host).unwrap();
    }
    for ppn in g.page(Block(8), 0).0..g.page(Block(11), 0).0 {
        (0..5).for_each(|_| _ = bench.inner.read_oob(Ppn(ppn), Cause::Recovery).unwrap());
    }
    assert_eq!((bench.inner.tired(Block(0)), bench.tired(Block(0))), (Some(Block(8)), None));
    (0..5).for_each(|_| _ = bench.read(Ppn(3 * PAGES), Cause::Host).unwrap());
    assert_eq!(bench.inner.tired(Block(0)), Some(Block(7)));
    assert_eq!([0, 3, 4].map(|from| bench.tired(Block(from))), [Some(Block(3)), Some(Block(3)), None]);
}

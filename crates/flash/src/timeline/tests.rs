//! Times of commands on dies and channels, worked out by hand, and runs of copies against copies one by one.

use super::*;
use crate::device::{CellTimes, PageTimes};
use crate::{
    Batch, Brief, Collection, Failing, FailurePlan, Full, Kind, Lpn, Nand, ProgramOrder, Record, Rng, Tags, Tvpn,
};

const TIMING: Timing = Timing {
    read_ns: 25,
    oob_read_ns: 25,
    program_ns: 200,
    partial_program_ns: 200,
    erase_ns: 1500,
    page_transfer_ns: 10,
    oob_transfer_ns: 1,
    slc: CellTimes { read_ns: 15, oob_read_ns: 14, program_ns: 100, partial_program_ns: 90, erase_ns: 1000 },
    low_cost: PageTimes { read_ns: 45, program_ns: 110 },
    medium: PageTimes { read_ns: 35, program_ns: 150 },
};

fn device(channels: u32, dies: u32, server: Server) -> Timeline<Nand> {
    let g = Geometry { channels, dies, blocks_per_die: 4, pages_per_block: 4, ..Geometry::default() };
    Timeline::new(Nand::new(g.checked().unwrap()), TIMING, server)
}

fn program(t: &mut Timeline<Nand>, ppn: u32) -> PageTime {
    t.page_begin();
    let Ok(()) = t.program(Ppn(ppn), Oob::data(Lpn(ppn), 0, 0), Payload::User(&()), Cause::Host);
    t.page_end()
}

#[test]
fn one_die_works_in_order() {
    let mut t = device(1, 1, Server::Parallel);
    t.arrive(1000);
    assert_eq!(program(&mut t, 0), PageTime { start_ns: 1000, end_ns: 1210 });
    assert_eq!(program(&mut t, 1), PageTime { start_ns: 1210, end_ns: 1420 });
}

#[test]
fn a_clock_that_stands_still_counts_commands_and_places_none() {
    for (server, second_ns) in [(Server::Parallel, 220), (Server::Single, 420)] {
        let mut t = device(1, 2, server);
        t.stop_clock();
        assert_eq!([0, 16].map(|ppn| program(&mut t, ppn).end_ns), [0, 0]);
        Collection::on(&mut t).copy(Ppn(0), Ppn(1), Cause::DataGc, |_, _| ()).unwrap();
        assert_eq!((t.tally().of(Op::Program), t.idle_at_ns()), (3, 0));
        t.reset();
        assert_eq!([2, 17].map(|ppn| program(&mut t, ppn).end_ns), [210, second_ns]);
        assert_eq!(t.tally().of(Op::Program), 2);
    }
}

#[test]
fn a_partial_program_transfers_its_bytes_alone() {
    let mut t = device(1, 1, Server::Parallel);
    t.timing = Timing { partial_program_ns: 150, page_transfer_ns: 4224, ..TIMING };
    let g = Geometry { nop: 2, ..*t.geometry() };
    t.inner = Nand::new(g);
    t.page_begin();
    let oob = Oob::translation(Tvpn(0), 0, 1);
    let Ok(()) = t.program(Ppn(0), oob, Payload::Meta(&[1]), Cause::TranslationUpdate);
    let Ok(()) = t.append(Ppn(0), 5, &[0; 17], 1, Cause::TranslationUpdate);
    // A byte in a nanosecond: page and spare area are 4224.
    assert_eq!(t.page_end().end_ns, 4224 + 200 + 17 + 150);
    assert_eq!((t.tally().get(Cause::TranslationUpdate, Op::PartialProgram), t.tally().partial_bytes), (1, 17));
}

type Tagged = Timeline<Nand<Tags, Full>>;

/// The same commands in a block of either mode: each takes the time of its block's mode and is told apart.
#[test]
fn blocks_in_slc_mode_have_times_of_their_own() {
    let g = Geometry { blocks_per_die: 4, pages_per_block: 4, nop: 2, bits_per_cell: 2, ..Geometry::default() };
    let mut t = Tagged::new(Nand::new(g.checked().unwrap()), TIMING, Server::Single);
    for (block, mode) in [(Block(0), Mode::Normal), (Block(1), Mode::Slc)] {
        let slc = mode == Mode::Slc;
        let [first, second] = [0, 1].map(|offset| t.geometry().page(block, offset));
        let mut took = |run: &mut dyn FnMut(&mut Tagged)| {
            t.reset();
            t.page_begin();
            run(&mut t);
            t.page_end().end_ns
        };
        let oob = Oob { mode, ..Oob::translation(Tvpn(0), 0, 1) };
        let cause = Cause::TranslationUpdate;
        let times = [
            took(&mut |t| t.program(first, oob, Payload::Meta(&[1]), cause).unwrap_or_else(|never| match never {})),
            took(&mut |t| t.append(first, 4, &[0], 0, cause).unwrap_or_else(|never| match never {})),
            took(&mut |t| assert_eq!(t.read(first, cause).unwrap().0.mode, mode)),
            took(&mut |t| assert_eq!(t.read_oob(first, cause).unwrap().unwrap().mode, mode)),
            took(&mut |t| assert_eq!(t.copy(first, second, cause, |_, _| ()).unwrap().mode, mode)),
            took(&mut |t| t.erase(block, cause).unwrap_or_else(|never| match never {})),
        ];
        let cells = TIMING.cells(mode);
        let expected = [
            cells.program_ns + 10,
            cells.partial_program_ns,
            cells.read_ns + 10,
            cells.oob_read_ns + 1,
            cells.read_ns + cells.program_ns + 20,
            cells.erase_ns,
        ];
        assert_eq!(times, expected);
        assert_eq!([Op::Erase, Op::Program].map(|op| t.tally().of_mode(cause, op, Mode::Slc)), [u64::from(slc), 0]);
        assert_eq!(t.command_ns(Op::Read, mode), cells.read_ns + 10);
    }
    assert_eq!(TIMING.cells(Mode::Normal).erase_ns, 1500);
}

/// An erase and a program of metadata wait for what was issued before them on the other die, a host page does not.
#[test]
fn barriers_wait_for_programs_and_erases_on_other_dies() {
    let expected = [[(0, 210), (0, 1500), (1500, 1710), (210, 420)], [(0, 210), (210, 1710), (1710, 1920), (210, 420)]];
    for (barriers, expected) in [false, true].into_iter().zip(expected) {
        let mut t = device(2, 1, Server::Parallel);
        t.keep_barriers(barriers);
        t.arrive(0);
        program(&mut t, 0);
        t.page_begin();
        t.erase(Block(4), Cause::DataGc).unwrap();
        t.page_end();
        t.page_begin();
        let oob = Oob::translation(Tvpn(0), 0, 1);
        t.program(Ppn(20), oob, Payload::Meta(&[1]), Cause::TranslationUpdate).unwrap();
        t.page_end();
        program(&mut t, 1);
        assert_eq!(t.log, expected, "barriers: {barriers}");
    }
}

#[test]
fn dies_overlap_and_share_the_channel() {
    let mut t = device(1, 2, Server::Parallel);
    assert_eq!(program(&mut t, 0).end_ns, 210);
    // The other die (block 4) waits for the first transfer alone.
    assert_eq!(program(&mut t, 16), PageTime { start_ns: 0, end_ns: 220 });
    let mut t = device(2, 1, Server::Parallel);
    program(&mut t, 0);
    assert_eq!(program(&mut t, 16).end_ns, 210);
    let mut t = device(2, 1, Server::Single);
    program(&mut t, 0);
    assert_eq!(program(&mut t, 16).end_ns, 420);
}

#[test]
fn a_read_transfers_after_its_cell_read() {
    let mut t = device(1, 1, Server::Parallel);
    program(&mut t, 0);
    t.page_begin();
    t.read(Ppn(0), Cause::Host).unwrap();
    assert_eq!(t.page_end(), PageTime { start_ns: 210, end_ns: 245 });
    assert_eq!(t.command_ns(Op::Read, Mode::Normal), 35);
}

#[test]
fn pages_of_a_batch_run_beside_each_other_and_whoever_opened_it_waits_for_all() {
    let oob = |lpn| Oob::data(Lpn(lpn), 0, 0);
    let mut t = device(2, 1, Server::Parallel);
    program(&mut t, 0);
    t.arrive(1000);
    t.page_begin();
    let mut batch = Batch::on(&mut t);
    // A page's commands follow one another: a read of 35, a program of 210. So do two pages on one die.
    for (lpn, ppn) in [(1, 1), (2, 2)] {
        batch.page(|t| {
            t.read(Ppn(0), Cause::Host).unwrap();
            t.program(Ppn(ppn), oob(lpn), Payload::User(&()), Cause::Host).unwrap();
        });
    }
    // The other die is free from the start.
    batch.page(|t| t.program(Ppn(16), oob(3), Payload::User(&()), Cause::Host)).unwrap();
    batch.then();
    batch.page(|t| t.program(Ppn(17), oob(4), Payload::User(&()), Cause::Host)).unwrap();
    drop(batch);
    // The second page's program ends at 1490, what comes after it at 1700, and then the page that opened the batch.
    t.program(Ppn(18), oob(5), Payload::User(&()), Cause::Host).unwrap();
    assert_eq!(t.page_end(), PageTime { start_ns: 1000, end_ns: 1910 });
}

#[test]
fn a_collection_is_independent_then_ordered_and_the_host_waits_for_its_own_die() {
    let mut t = device(2, 1, Server::Parallel);
    for ppn in [0, 1] {
        program(&mut t, ppn);
    }
    t.arrive(10_000);
    t.page_begin();
    {
        let mut gc = Collection::on(&mut t);
        // Copies from die 0 to die 1: reads queue on die 0, programs on die 1.
        gc.copy(Ppn(0), Ppn(16), Cause::DataGc, |_, _| ()).unwrap();
        gc.copy(Ppn(1), Ppn(17), Cause::DataGc, |_, _| ()).unwrap();
        gc.then();
        gc.erase(Block(0), Cause::DataGc).unwrap();
    }
    // Reads end at 35 and 70; programs at 245 and 455; only then the erase, until 1955.
    assert_eq!([t.dies[0].free_ns, t.dies[1].free_ns], [11_955, 10_455]);
    let Ok(()) = t.program(Ppn(18), Oob::data(Lpn(9), 0, 0), Payload::User(&()), Cause::Host);
    assert_eq!(t.page_end(), PageTime { start_ns: 10_000, end_ns: 10_665 });
    assert_eq!(t.tally().get(Cause::DataGc, Op::Read), 2);
    assert_eq!(t.tally().get(Cause::DataGc, Op::Erase), 1);
}

/// A page of the host among copies, as in a merge that takes it along.
#[test]
fn a_page_can_wait_for_a_part_of_a_collection() {
    let mut t = device(2, 1, Server::Parallel);
    program(&mut t, 0);
    t.arrive(10_000);
    t.page_begin();
    {
        let mut gc = Collection::on(&mut t);
        gc.copy(Ppn(0), Ppn(16), Cause::DataGc, |_, _| ()).unwrap();
        gc.program(Ppn(17), Oob::data(Lpn(9), 0, 0), Payload::User(&()), Cause::Host).unwrap();
        gc.wait_so_far();
        gc.then();
        gc.erase(Block(0), Cause::DataGc).unwrap();
    }
    // The programs end at 245 and 455. The erase waits for both, until 1955, and nobody for the erase.
    assert_eq!([t.dies[0].free_ns, t.dies[1].free_ns], [11_955, 10_455]);
    assert_eq!(t.page_end(), PageTime { start_ns: 10_000, end_ns: 10_455 });
}

#[test]
fn serial_commands_of_one_page_follow_each_other() {
    let mut t = device(2, 1, Server::Parallel);
    program(&mut t, 0);
    t.arrive(1000);
    t.page_begin();
    t.read(Ppn(0), Cause::TranslationLoad).unwrap();
    let Ok(()) = t.program(Ppn(16), Oob::data(Lpn(9), 0, 0), Payload::User(&()), Cause::Host);
    assert_eq!(t.page_end(), PageTime { start_ns: 1000, end_ns: 1245 });
}

/// The same copies at once in `run` and one by one in `each`.
fn copy_both<F: Flash>(run: &mut Timeline<F>, each: &mut Timeline<F>, from: Ppn, live: u64, to: Ppn)
where
    Timeline<F>: core::fmt::Debug,
{
    let (mut told, mut expected) = (Vec::new(), Vec::new());
    let (copied, result) = run.copy_run(from, live, to, 50, Cause::DataGc, |lpn, to| told.push((lpn, to)));
    let mut end = Ok(());
    for bit in (0..64).filter(|bit| live >> bit & 1 == 1) {
        let (to, number) = (Ppn(to.0 + expected.len() as u32), 50 + expected.len() as u64);
        let edit = |oob: &mut Oob, _: &mut [u32]| (oob.kind, oob.program) = (Kind::Data, number);
        match each.copy(Ppn(from.0 + bit), to, Cause::DataGc, edit) {
            Ok(oob) => expected.push((oob.address, to)),
            Err(fault) => {
                end = Err(fault);
                break;
            }
        }
    }
    assert_eq!((copied as usize, told), (expected.len(), expected));
    assert_eq!(alloc::format!("{result:?}"), alloc::format!("{end:?}"));
    // Times, counts, chain, and every page of the chip.
    let [found, expected] = [alloc::format!("{run:?}"), alloc::format!("{each:?}")];
    let same = found.bytes().zip(expected.bytes()).take_while(|(a, b)| a == b).count();
    assert_eq!(found[same.saturating_sub(80)..], expected[same.saturating_sub(80)..]);
}

/// Runs of copies among the dies of `run`, whose blocks with even numbers are full, also out of program order.
fn copy_at_random<F: Flash + Clone + core::fmt::Debug>(mut run: Timeline<F>, rng: &mut Rng) {
    let g = *run.geometry();
    for now in 0..6 {
        let mut any = |count: u32| rng.below(u64::from(count)) as u32;
        let (from, to) = (Block(2 * any(g.die_count())), Block(2 * any(g.die_count()) + 1));
        let (first, chain, other) = (any(16), any(4), g.page(Block(2 * any(g.die_count())), 0));
        let live = u64::from(any(1 << (16 - first)));
        let mut chip = run.inner.clone();
        let mut is_used = |&offset: &u32| chip.read_oob(g.page(to, offset), Cause::Host).unwrap().is_some();
        let used = (0..16).rev().find(&mut is_used).map_or(0, |used| used + 1);
        let next = match g.order {
            ProgramOrder::Strict => used,
            ProgramOrder::Ascending => used + any(3),
            ProgramOrder::Any => any(16),
        };
        let end = next + live.count_ones();
        if end > 16 || next == 16 || (next..end).any(|offset| is_used(&offset)) {
            continue;
        }
        let mut each = run.clone();
        for timeline in [&mut run, &mut each] {
            timeline.arrive(now * 500);
            timeline.page_begin();
            // A serial chain, alone or behind a read; a collection; its second stage.
            if chain == 1 {
                timeline.read(other, Cause::Host).unwrap();
            }
            if chain >= 2 {
                timeline.chain(Chain::COLLECTION);
            }
            if chain == 3 {
                timeline.read(other, Cause::Host).unwrap();
                timeline.chain(Chain::AFTER);
            }
        }
        copy_both(&mut run, &mut each, g.page(from, first), live, g.page(to, next));
    }
}

fn filled<R: Record>(g: Geometry) -> Nand<Tags, R> {
    let mut chip = Nand::<Tags, R>::new(g);
    for block in (0..g.block_count()).step_by(2).map(Block) {
        for ppn in (0..16).map(|offset| g.page(block, offset)) {
            let tag = u64::from(ppn.0);
            let kind = if ppn.0.is_multiple_of(3) { Kind::Log } else { Kind::Data };
            let oob = Oob { kind, ..Oob::data(Lpn(ppn.0), 7, 1) };
            let Ok(()) = chip.program(ppn, oob, Payload::User(&tag), Cause::Host);
        }
    }
    chip
}

/// The same commands on pages of one block programmed with different effort: each takes the times of its page's
/// mode, also copied, in a run or by itself, and is told apart.
#[test]
fn a_page_takes_the_times_of_its_mode() {
    let modes = [Mode::Normal, Mode::LowCost, Mode::Medium];
    let g = Geometry { blocks_per_die: 4, pages_per_block: 8, ..Geometry::default() };
    let mut t = Tagged::new(Nand::new(g.checked().unwrap()), TIMING, Server::Single);
    let took = |t: &mut Tagged, run: &mut dyn FnMut(&mut Tagged)| {
        t.reset();
        t.page_begin();
        run(t);
        t.page_end().end_ns
    };
    let mut whole = 0;
    for (ppn, mode) in (0..).map(Ppn).zip(modes) {
        let cells = TIMING.cells(mode);
        let oob = Oob { mode, ..Oob::data(Lpn(ppn.0), 1, 1) };
        let program = took(&mut t, &mut |t| {
            let Ok(()) = t.program(ppn, oob, Payload::User(&7), Cause::Host);
        });
        assert_eq!((program, t.tally().of_mode(Cause::Host, Op::Program, mode)), (10 + cells.program_ns, 1));
        let read = took(&mut t, &mut |t| assert_eq!(t.read(ppn, Cause::Host).unwrap().0.mode, mode));
        assert_eq!((read, t.tally().of_mode(Cause::Host, Op::Read, mode)), (cells.read_ns + 10, 1));
        let spare = took(&mut t, &mut |t| assert_eq!(t.read_oob(ppn, Cause::Host).unwrap().unwrap().mode, mode));
        assert_eq!(spare, 26, "the spare area is read alike");
        whole += read + program;
    }
    // A run of copies, and then each in another mode.
    let copied = took(&mut t, &mut |t| {
        let (copied, Ok(())) = t.copy_run(Ppn(0), 0b111, Ppn(8), 2, Cause::DataGc, |_, _| ());
        assert_eq!(copied, 3);
    });
    assert_eq!(copied, whole);
    for (i, (from, to)) in modes.into_iter().zip([Mode::Medium, Mode::Normal, Mode::LowCost]).enumerate() {
        let [source, target] = [8, 16].map(|first| Ppn(first + i as u32));
        let took = took(&mut t, &mut |t| {
            let Ok(oob) = t.copy(source, target, Cause::DataGc, |oob, _| oob.mode = to);
            assert_eq!(oob.mode, to);
        });
        assert_eq!(took, TIMING.cells(from).read_ns + 20 + TIMING.cells(to).program_ns);
        assert_eq!(t.mode_of(target), to);
        let counted = [Op::Read, Op::Program].map(|op| modes.map(|mode| t.tally().of_mode(Cause::DataGc, op, mode)));
        let one = |mode| modes.map(|other| u64::from(other == mode));
        assert_eq!(counted, [one(from), one(to)]);
    }
}

#[test]
fn a_run_of_copies_is_its_copies_one_by_one() {
    let mut rng = Rng::new(4);
    for round in 0..600 {
        let order = [ProgramOrder::Strict, ProgramOrder::Ascending, ProgramOrder::Any][round as usize % 3];
        let (channels, dies) = (1 + rng.below(3) as u32, 1 + rng.below(3) as u32);
        let shape = Geometry { channels, dies, blocks_per_die: 2, pages_per_block: 16, ..Geometry::default() };
        let g = Geometry { page_bytes: 512, order, ..shape }.checked().unwrap();
        let [read_ns, program_ns, page_transfer_ns] = core::array::from_fn(|_| rng.below(300));
        let timing = Timing { read_ns, program_ns, page_transfer_ns, ..TIMING };
        let server = if rng.chance(0.2) { Server::Single } else { Server::Parallel };
        let plan = FailurePlan { program_rate: 0.1, ..FailurePlan::default() };
        let failing = Failing::new(filled::<Full>(g), plan, round);
        copy_at_random(Timeline::new(filled::<Brief>(g), timing, server), &mut rng);
        copy_at_random(Timeline::new(filled::<Full>(g), timing, server), &mut rng);
        copy_at_random(Timeline::new(failing, timing, server), &mut rng);
    }
}

#[test]
fn copies_within_a_die_obey_the_rules_of_placement() {
    let mut rng = Rng::new(9);
    for _ in 0..300 {
        let mut t = device(1, 2, Server::Parallel);
        t.timing.read_ns = rng.below(300);
        t.timing.page_transfer_ns = rng.below(300);
        for ppn in [0, 1, 2, 16, 17, 18] {
            program(&mut t, ppn);
        }
        // What the module's description says, for each die and the channel of both.
        let (mut free, mut backlog) = ([t.dies[0].free_ns, t.dies[1].free_ns], t.channels[0].backlog_ns);
        let Timing { read_ns, program_ns, page_transfer_ns: x, .. } = t.timing;
        for i in 0..6 {
            let (die, now) = ((i % 2) as usize, 100 * i + rng.below(100));
            t.arrive(now);
            t.page_begin();
            let mut gc = Collection::on(&mut t);
            let (from, to) = (16 * die as u32 + i as u32 / 2, 16 * die as u32 + 4 + i as u32 / 2);
            gc.copy(Ppn(from), Ppn(to), Cause::DataGc, |_, _| ()).unwrap();
            drop(gc);
            backlog = backlog.max(now) + x;
            let read = (now.max(free[die]) + read_ns + x).max(backlog);
            backlog += x;
            free[die] = (read + x).max(backlog) + program_ns;
            let placed = (t.dies[0].free_ns, t.dies[1].free_ns, t.channels[0].backlog_ns);
            assert_eq!(placed, (free[0], free[1], backlog));
        }
    }
}

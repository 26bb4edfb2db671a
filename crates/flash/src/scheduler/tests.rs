//! Placement by events against placement at once, and the rules of each policy on small cases.

mod naive;

use super::*;
use crate::device::{CellTimes, PageTimes, Server, Timing};
use crate::{Batch, Clocked, Collection, Flash, Kind, Lpn, Mode, Oob, Payload, Rng, Timeline};
use core::convert::Infallible;

/// A medium that takes every command and does nothing.
struct Blank(Geometry);

const OOB: Oob = Oob::data(Lpn(0), 0, 0);

impl Flash for Blank {
    type User = ();
    type Fault = Infallible;
    fn geometry(&self) -> &Geometry {
        &self.0
    }
    fn read(&mut self, _: Ppn, _: Cause) -> Result<(Oob, Payload<'_, ()>), Infallible> {
        Ok((OOB, Payload::None))
    }
    fn read_oob(&mut self, _: Ppn, _: Cause) -> Result<Option<Oob>, Infallible> {
        Ok(Some(Oob { kind: Kind::Data, mode: Mode::Normal, ..OOB }))
    }
    fn program(&mut self, _: Ppn, _: Oob, _: Payload<'_, ()>, _: Cause) -> Result<(), Infallible> {
        Ok(())
    }
    fn append(&mut self, _: Ppn, _: u32, _: &[u8], _: u16, _: Cause) -> Result<(), Infallible> {
        Ok(())
    }
    fn copy(&mut self, _: Ppn, _: Ppn, _: Cause, edit: impl FnOnce(&mut Oob, &mut [u32])) -> Result<Oob, Infallible> {
        let mut oob = OOB;
        edit(&mut oob, &mut []);
        Ok(oob)
    }
    fn erase(&mut self, _: Block, _: Cause) -> Result<(), Infallible> {
        Ok(())
    }
}

/// What random commands choose from: blocks, and the collections that go on in later requests.
struct Choice<'a> {
    rng: &'a mut Rng,
    blocks: core::ops::Range<u32>,
    paused: &'a mut Vec<Chain>,
}

impl Choice<'_> {
    fn block(&mut self) -> Block {
        Block(self.blocks.start + self.rng.below(self.blocks.len() as u64) as u32)
    }
}

/// Any command.
fn command<F: Flash<User = (), Fault = Infallible>>(t: &mut F, any: &mut Choice<'_>) {
    let g = *t.geometry();
    let (block, other) = (any.block(), any.block());
    let [ppn, to] = [block, other].map(|block| g.page(block, any.rng.below(8) as u32));
    let cause = [Cause::Host, Cause::TranslationLoad, Cause::TranslationUpdate][any.rng.below(3) as usize];
    let kind = [Kind::Data, Kind::Translation][any.rng.below(2) as usize];
    let Ok(()) = match any.rng.below(8) {
        0 | 1 => t.read(ppn, cause).map(drop),
        2 => t.read_oob(ppn, cause).map(drop),
        3 | 4 => t.program(ppn, Oob { kind, ..OOB }, Payload::User(&()), cause),
        5 => t.append(ppn, 0, &[0; 100], 1, cause),
        6 => t.copy(ppn, to, Cause::TranslationUpdate, |oob, _| oob.kind = kind).map(drop),
        _ => t.erase(block, Cause::DataGc),
    };
}

/// The commands of a page: alone, in collections, also over several requests, in batches, and these in each other.
fn commands<F: Flash<User = (), Fault = Infallible>>(t: &mut F, any: &mut Choice<'_>, depth: u32) {
    for _ in 0..any.rng.below(4) {
        match any.rng.below(if depth == 0 { 4 } else { 8 }) {
            0..4 => command(t, any),
            4 | 5 => {
                let paused = any.paused.len() as u64;
                let earlier = match any.rng.below(3) {
                    0 if paused > 0 => any.paused.swap_remove(any.rng.below(paused) as usize),
                    _ => Chain::COLLECTION,
                };
                let mut gc = Collection::resume(t, earlier);
                for _ in 0..any.rng.below(3) {
                    let g = *gc.geometry();
                    let [from, to] = [0; 2].map(|_| any.block());
                    let (live, from, to) = (any.rng.below(256), g.page(from, 0), g.page(to, 0));
                    gc.copy_run(from, live, to, 0, Cause::DataGc, |_, _| ()).1.unwrap_or_else(|never| match never {});
                    if any.rng.chance(0.5) {
                        gc.then();
                    }
                    command(&mut *gc, any);
                    if any.rng.chance(0.3) {
                        nested(&mut *gc, any, depth - 1);
                    }
                }
                match any.rng.below(6) {
                    0..3 => any.paused.push(gc.pause()),
                    3 => gc.wait(),
                    _ => drop(gc),
                }
            }
            _ => {
                let mut batch = Batch::on(t);
                for _ in 0..any.rng.below(4) {
                    batch.page(|t| nested(t, any, depth - 1));
                    if any.rng.chance(0.2) {
                        batch.then();
                    }
                }
            }
        }
    }
}

/// [`commands`] again, of a type that does not grow.
fn nested<F: Flash<User = (), Fault = Infallible>>(t: &mut F, any: &mut Choice<'_>, depth: u32) {
    commands(t, any, depth);
}

/// Requests at random times: of each by number its start, its end, and where the time from its arrival to its end went.
/// A closed loop of `depth` if that is not 0. The commands of a page, and of a collection that it goes on with, are on
/// one die if `apart`.
fn served<T>(t: &mut T, depth: usize, apart: bool, seed: u64) -> Vec<(u64, u64, Response)>
where
    T: Flash<User = (), Fault = Infallible> + Clocked,
{
    let mut rng = Rng::new(seed);
    let g = *t.geometry();
    let (mut times, mut arrivals) = (vec![(0, 0, Response::default()); 60], vec![0; 60]);
    let mut paused = vec![Vec::new(); g.die_count() as usize];
    let (mut now, mut ends) = (0, vec![0u64; depth]);
    let mut under_way = 0;
    for request in 0..times.len() {
        let gap = rng.below(3000) * rng.below(2);
        if depth == 0 {
            now += gap;
        } else if t.scheduler().is_none() {
            ends.sort_unstable();
            now = ends[0];
        } else if under_way == depth {
            let Finished { tag, start_ns, end_ns, response } = t.scheduler().unwrap().next_finished(u64::MAX).unwrap();
            times[tag as usize] = (start_ns, end_ns, response);
            now = end_ns;
            under_way -= 1;
        }
        t.arrive(now);
        arrivals[request] = now;
        let mut time = (u64::MAX, 0, Response::default());
        for _ in 0..1 + rng.below(3) {
            t.page_begin();
            let die = rng.below(u64::from(g.die_count())) as u32;
            let all = 0..g.block_count();
            let blocks = if apart { die * g.blocks_per_die..(die + 1) * g.blocks_per_die } else { all };
            commands(t, &mut Choice { rng: &mut rng, blocks, paused: &mut paused[die as usize] }, 2);
            let page = t.page_end();
            (time.0, time.1) = (time.0.min(page.start_ns), time.1.max(page.end_ns));
        }
        under_way += 1;
        match t.scheduler() {
            Some(queues) => queues.submit(request as u32),
            None => {
                t.each_part(|waited, cause, ns| time.2.add(waited, cause, ns));
                times[request] = time;
            }
        }
        if let Some(end) = ends.first_mut() {
            *end = time.1;
        }
    }
    if let Some(queues) = t.scheduler() {
        while let Some(Finished { tag, start_ns, end_ns, response }) = queues.next_finished(u64::MAX) {
            times[tag as usize] = (start_ns, end_ns, response);
        }
        queues.run_out();
    }
    for (request, (&(_, end_ns, response), arrival_ns)) in times.iter().zip(arrivals).enumerate() {
        assert_eq!(response.total_ns(), end_ns - arrival_ns, "request {request} of seed {seed}: {response:?}");
    }
    times
}

fn device(g: Geometry, timing: Timing) -> Timeline<Blank> {
    Timeline::new(Blank(g.checked().unwrap()), timing, Server::Parallel)
}

/// A random device, also one without any time at all, so that many things happen at one instant.
fn any_device(rng: &mut Rng, dies: u32, with_transfers: bool) -> (Geometry, Timing) {
    let shape = Geometry { channels: 1 + rng.below(3) as u32, dies, blocks_per_die: 3, ..Geometry::default() };
    let g = Geometry { pages_per_block: 8, planes: 1 + rng.below(2) as u32, ..shape };
    let longest = [1, 4, 300][rng.below(3) as usize];
    let [read_ns, oob_read_ns, program_ns, partial_program_ns, erase_ns] = core::array::from_fn(|_| rng.below(longest));
    let slc = CellTimes { read_ns, oob_read_ns, program_ns, partial_program_ns, erase_ns };
    let [page_transfer_ns, oob_transfer_ns] =
        core::array::from_fn(|_| if with_transfers { rng.below(longest) } else { 0 });
    let timing = Timing {
        read_ns,
        oob_read_ns,
        program_ns,
        partial_program_ns,
        erase_ns,
        page_transfer_ns,
        oob_transfer_ns,
        slc,
        low_cost: PageTimes { read_ns: 2 * read_ns, program_ns: program_ns / 2 },
        medium: PageTimes { read_ns, program_ns },
    };
    (g.checked().unwrap(), timing)
}

/// Commands and requests of a random workload on a random device, placed at once and by events, where no chain crosses
/// dies.
fn both_ways(bus: Bus, channels_of_one_die: bool, with_transfers: bool) {
    let mut rng = Rng::new(11);
    for seed in 0..400 {
        let dies = if channels_of_one_die { 1 } else { 1 + rng.below(3) as u32 };
        let (g, timing) = any_device(&mut rng, dies, with_transfers);
        let depth = rng.below(4) as usize;
        let mut at_once = device(g, timing);
        let expected = served(&mut at_once, depth, true, seed);
        let mut by_events = device(g, timing);
        let features = Features::default();
        by_events.queue(Scheduling { policy: Policy::InOrder, bus, features });
        let times = served(&mut by_events, depth, true, seed);
        let queues = by_events.unqueue().unwrap();
        for (number, (placed, queued)) in at_once.log.iter().zip(&queues.log).enumerate() {
            assert_eq!(queued, placed, "command {number} of seed {seed}: {g:?}, {timing:?}, depth {depth}");
        }
        assert_eq!(queues.log.len(), at_once.log.len());
        assert_eq!(times, expected, "seed {seed}");
        assert_eq!(queues.graph.len(), 0);
    }
}

/// Where no chain crosses dies a die is never booked ahead, and the placement by events is the placement at once.
#[test]
fn in_order_is_first_come_first_served_where_no_chain_crosses_dies() {
    both_ways(Bus::Backlog, false, true);
}

/// A channel that serves one die, or transfers nothing, has nothing to arbitrate.
#[test]
fn where_no_one_shares_a_channel_it_does_not_matter_how() {
    both_ways(Bus::Arbitrated, true, true);
    both_ways(Bus::Arbitrated, false, false);
}

// ---- policies and features, by hand --------------------------------------------------------------------------------

const TIMING: Timing = Timing {
    read_ns: 25,
    oob_read_ns: 25,
    program_ns: 200,
    partial_program_ns: 200,
    erase_ns: 1500,
    page_transfer_ns: 10,
    oob_transfer_ns: 1,
    slc: CellTimes { read_ns: 25, oob_read_ns: 25, program_ns: 200, partial_program_ns: 200, erase_ns: 1500 },
    low_cost: PageTimes { read_ns: 25, program_ns: 200 },
    medium: PageTimes { read_ns: 25, program_ns: 200 },
};

/// One channel, blocks of four pages, two planes in each die.
fn small(dies: u32, policy: Policy, features: Features) -> Timeline<Blank> {
    let g = Geometry { dies, planes: 2, blocks_per_die: 4, pages_per_block: 4, ..Geometry::default() };
    let mut t = device(g, TIMING);
    t.queue(Scheduling { policy, bus: Bus::Arbitrated, features });
    t
}

/// One command.
#[derive(Clone, Copy)]
enum Do {
    Read(u32),
    Program(u32),
    Erase(u32),
    Copy(u32, u32),
    /// A read of a collection's.
    Fetch(u32),
}

/// Requests of one command each at their arrivals; when each command started and ended, a copy's as issued.
fn timed(t: &mut Timeline<Blank>, requests: &[(u64, Do)]) -> Vec<(u64, u64)> {
    for (number, &(now, command)) in requests.iter().enumerate() {
        t.arrive(now);
        t.page_begin();
        let Ok(()) = match command {
            Do::Read(ppn) => t.read(Ppn(ppn), Cause::Host).map(drop),
            Do::Fetch(ppn) => t.read(Ppn(ppn), Cause::DataGc).map(drop),
            Do::Program(ppn) => t.program(Ppn(ppn), OOB, Payload::User(&()), Cause::Host),
            Do::Erase(block) => t.erase(Block(block), Cause::DataGc),
            Do::Copy(from, to) => t.copy(Ppn(from), Ppn(to), Cause::DataGc, |_, _| ()).map(drop),
        };
        t.page_end();
        t.scheduler().unwrap().submit(number as u32);
    }
    t.scheduler().unwrap().run_out();
    t.scheduler().unwrap().log.clone()
}

const NONE_OF_THEM: Features =
    Features { suspend: None, multi_plane: MultiPlane::Off, copy_back: false, cache_read: false, cache_program: false };

/// The case that docs/scheduling.md draws. A page is read on die 0 and programmed on die 1; another is read on die 1
/// meanwhile. Placed at once, die 1 is booked for the program from 35 on, and a read that begins at 1 would end at 36,
/// a nanosecond too late for the gap: it comes after the program. By events, the program is not ready when the read is.
/// A read that arrives a nanosecond earlier fits.
#[test]
fn a_die_that_is_booked_ahead_and_one_that_is_not() {
    let g = Geometry { channels: 2, blocks_per_die: 4, pages_per_block: 4, ..Geometry::default() };
    for (second_ns, at_once, by_events) in [(1, (245, 280), (1, 36)), (0, (0, 35), (0, 35))] {
        let run = |t: &mut Timeline<Blank>| {
            for (now, read, program) in [(0, 0, Some(16)), (second_ns, 17, None)] {
                t.arrive(now);
                t.page_begin();
                t.read(Ppn(read), Cause::Host).unwrap();
                if let Some(ppn) = program {
                    t.program(Ppn(ppn), OOB, Payload::User(&()), Cause::Host).unwrap();
                }
                t.page_end();
                if let Some(queues) = t.scheduler() {
                    queues.submit(0);
                }
            }
        };
        let mut placed = device(g, TIMING);
        run(&mut placed);
        assert_eq!(placed.log, [(0, 35), (35, 245), at_once]);
        let mut queued = device(g, TIMING);
        queued.queue(Scheduling { policy: Policy::InOrder, bus: Bus::Arbitrated, features: NONE_OF_THEM });
        run(&mut queued);
        queued.scheduler().unwrap().run_out();
        let program = if second_ns == 0 { (35, 245) } else { (36, 246) };
        assert_eq!(queued.scheduler().unwrap().log, [(0, 35), program, by_events]);
    }
}

/// A program that asks for the channel, and has not got it when a command that was issued before it becomes ready.
#[test]
fn a_program_without_the_channel_steps_back_for_what_was_issued_before_it() {
    let mut t = small(2, Policy::InOrder, NONE_OF_THEM);
    let mut request = |now: u64, commands: &dyn Fn(&mut Timeline<Blank>)| {
        t.arrive(now);
        t.page_begin();
        commands(&mut t);
        t.page_end();
        t.scheduler().unwrap().submit(0);
    };
    // Die 1 reads until 35, holding the channel from 25 on; what depends on it is an erase on die 0.
    request(0, &|t| {
        t.read(Ppn(16), Cause::Host).map(drop).unwrap();
        t.erase(Block(0), Cause::DataGc).unwrap();
    });
    request(30, &|t| t.program(Ppn(4), OOB, Payload::User(&()), Cause::Host).unwrap());
    t.scheduler().unwrap().run_out();
    assert_eq!(t.scheduler().unwrap().log, [(0, 35), (35, 1535), (1535, 1745)]);
}

#[test]
fn reads_overtake_what_has_not_begun() {
    let requests = [(0, Do::Program(0)), (1, Do::Program(1)), (2, Do::Fetch(8)), (3, Do::Read(9))];
    let in_order = timed(&mut small(1, Policy::InOrder, NONE_OF_THEM), &requests);
    assert_eq!(in_order, [(0, 210), (210, 420), (420, 455), (455, 490)]);
    // The first program goes on; then the host's read, not the collection's.
    let first = timed(&mut small(1, Policy::ReadFirst, NONE_OF_THEM), &requests);
    assert_eq!(first, [(0, 210), (245, 455), (455, 490), (210, 245)]);
}

#[test]
fn a_read_waits_for_the_program_of_its_page_and_for_no_other() {
    let requests = [(0, Do::Program(0)), (0, Do::Program(1)), (0, Do::Program(2)), (1, Do::Read(1)), (2, Do::Read(2))];
    let times = timed(&mut small(1, Policy::ReadFirst, NONE_OF_THEM), &requests);
    // Page 1 is read as soon as it is there, before page 2 is programmed.
    assert_eq!(times, [(0, 210), (210, 420), (455, 665), (420, 455), (665, 700)]);
}

#[test]
fn an_erase_waits_for_reads_of_its_block_that_came_before() {
    // The host's page needs a read of die 1 before one of block 0, which is not ready when the erase is.
    let mut t = small(2, Policy::ReadFirst, NONE_OF_THEM);
    let mut request = |now: u64, commands: &dyn Fn(&mut Timeline<Blank>)| {
        t.arrive(now);
        t.page_begin();
        commands(&mut t);
        t.page_end();
        t.scheduler().unwrap().submit(0);
    };
    request(0, &|t| t.program(Ppn(16), OOB, Payload::User(&()), Cause::Host).unwrap());
    request(1, &|t| {
        t.read(Ppn(17), Cause::TranslationLoad).map(drop).unwrap();
        t.read(Ppn(0), Cause::Host).map(drop).unwrap();
    });
    request(2, &|t| t.erase(Block(0), Cause::DataGc).unwrap());
    // What is written into the block afterwards is read after the erase.
    request(3, &|t| t.program(Ppn(0), OOB, Payload::User(&()), Cause::Host).unwrap());
    request(4, &|t| t.read(Ppn(0), Cause::Host).map(drop).unwrap());
    t.scheduler().unwrap().run_out();
    let log = &t.scheduler().unwrap().log;
    assert_eq!(log[..], [(0, 210), (210, 245), (245, 280), (280, 1780), (1780, 1990), (1990, 2025)]);
}

#[test]
fn programs_without_the_channel_step_back_for_reads() {
    // Die 1 holds the channel with a page that was read when die 0 gets a program, and then a read.
    let requests = [(0, Do::Read(16)), (30, Do::Program(0)), (31, Do::Read(4))];
    let times = timed(&mut small(2, Policy::ReadFirst, NONE_OF_THEM), &requests);
    assert_eq!(times, [(0, 35), (66, 276), (31, 66)]);
    // In order it waits.
    let times = timed(&mut small(2, Policy::InOrder, NONE_OF_THEM), &requests);
    assert_eq!(times, [(0, 35), (35, 245), (245, 280)]);
}

#[test]
fn reads_interrupt_programs_and_erases_a_bounded_number_of_times() {
    let suspend = Some(Suspend { program_ns: 20, erase_ns: 50, resume_ns: 5, most: 2 });
    let features = Features { suspend, ..NONE_OF_THEM };
    let requests = [(0, Do::Erase(0)), (100, Do::Read(4)), (300, Do::Read(5)), (301, Do::Read(6)), (400, Do::Read(7))];
    let mut t = small(1, Policy::Suspend, features);
    let times = timed(&mut t, &requests);
    // At 100 the erase needs 1400 more; the read takes 50 + 35, so it goes on at 185, with 5 more. At 300 it needs
    // 1290. Two reads take 50 + 35 + 35. It goes on after the read that came at 400, and is not stopped again.
    assert_eq!(times[1..4], [(100, 185), (300, 385), (385, 420)]);
    assert_eq!(times[4], (420, 455), "it arrived before the erase went on");
    assert_eq!(times[0], (0, 455 + 1290 + 5));
    assert_eq!(t.scheduler().unwrap().busy(), Busy { dies_ns: 1750, channels_ns: 40, suspends: 2 });
    let more = [(0, Do::Erase(0)), (100, Do::Read(4)), (300, Do::Read(5)), (500, Do::Read(6))];
    let times = timed(&mut small(1, Policy::Suspend, features), &more);
    assert_eq!(times[3].0, times[0].1, "the third read waits for the end");
    // Nor is a program stopped that ends as soon as it could be.
    let requests = [(0, Do::Program(0)), (189, Do::Read(4)), (300, Do::Program(1)), (491, Do::Read(5))];
    let times = timed(&mut small(1, Policy::Suspend, features), &requests);
    assert_eq!(times, [(0, 210 + 20 + 35 + 5), (189, 244), (300, 510), (510, 545)]);
}

#[test]
fn planes_work_together_where_the_rule_lets_them() {
    let aligned = Features { multi_plane: MultiPlane::Aligned, ..NONE_OF_THEM };
    let any = Features { multi_plane: MultiPlane::Independent, ..NONE_OF_THEM };
    // Blocks 0 and 1 are in different planes, 0 and 2 in one.
    let same_page = [(0, Do::Program(0)), (0, Do::Program(4)), (0, Do::Program(8))];
    let times = timed(&mut small(1, Policy::InOrder, aligned), &same_page);
    assert_eq!(times, [(0, 220), (0, 220), (220, 430)], "two transfers, one program");
    let other_page = [(0, Do::Program(0)), (0, Do::Program(5))];
    assert_eq!(timed(&mut small(1, Policy::InOrder, aligned), &other_page), [(0, 210), (210, 420)]);
    assert_eq!(timed(&mut small(1, Policy::InOrder, any), &other_page), [(0, 220), (0, 220)]);
    // Of the queue only what follows without a gap, of urgent reads any.
    let reads = [(0, Do::Read(0)), (0, Do::Read(1)), (0, Do::Read(4))];
    assert_eq!(timed(&mut small(1, Policy::InOrder, any), &reads), [(0, 35), (35, 80), (35, 80)]);
    assert_eq!(timed(&mut small(1, Policy::ReadFirst, any), &reads), [(0, 45), (45, 80), (0, 45)]);
}

#[test]
fn copies_within_a_plane_stay_in_the_chip() {
    let features = Features { copy_back: true, ..NONE_OF_THEM };
    let requests = [(0, Do::Copy(0, 8)), (0, Do::Copy(1, 4))];
    let times = timed(&mut small(1, Policy::InOrder, features), &requests);
    // One command; then, to the other plane, two.
    assert_eq!(times, [(0, 225), (225, 260), (260, 470)]);
}

#[test]
fn caches_let_cells_and_channel_work_together() {
    let reads = [(0, Do::Read(0)), (0, Do::Read(1)), (0, Do::Read(2))];
    let cache_read = Features { cache_read: true, ..NONE_OF_THEM };
    let times = timed(&mut small(1, Policy::InOrder, cache_read), &reads);
    assert_eq!(times, [(0, 35), (25, 60), (50, 85)]);
    let programs = [(0, Do::Program(0)), (0, Do::Program(1)), (0, Do::Program(2))];
    let cache_program = Features { cache_program: true, ..NONE_OF_THEM };
    let times = timed(&mut small(1, Policy::InOrder, cache_program), &programs);
    assert_eq!(times, [(0, 210), (10, 410), (210, 610)]);
    // Where the channel is slower than the cells, it sets the pace.
    let mut t = small(1, Policy::InOrder, cache_read);
    let slow = Timing { page_transfer_ns: 100, ..TIMING };
    t = Timeline::new(t.into_inner(), slow, Server::Parallel);
    t.queue(Scheduling { policy: Policy::InOrder, bus: Bus::Arbitrated, features: cache_read });
    assert_eq!(timed(&mut t, &reads), [(0, 125), (25, 225), (125, 325)]);
}

/// Every policy with every feature executes every command of random workloads, and works no part beyond its time.
#[test]
fn whatever_the_rules_every_command_ends() {
    let mut rng = Rng::new(17);
    for seed in 0..300 {
        let suspend = Suspend { program_ns: rng.below(30), erase_ns: rng.below(90), resume_ns: rng.below(9), most: 3 };
        let features = Features {
            suspend: rng.chance(0.7).then_some(suspend),
            multi_plane: MultiPlane::ALL[rng.below(3) as usize],
            copy_back: rng.chance(0.5),
            cache_read: rng.chance(0.5),
            cache_program: rng.chance(0.5),
        };
        let policy = [Policy::InOrder, Policy::ReadFirst, Policy::Suspend][rng.below(3) as usize];
        let (channels, dies) = (1 + rng.below(3) as u32, 1 + rng.below(3) as u32);
        let shape = Geometry { channels, dies, blocks_per_die: 3, pages_per_block: 8, ..Geometry::default() };
        let mut t = device(Geometry { planes: 2, ..shape }, TIMING);
        t.queue(Scheduling { policy, bus: Bus::Arbitrated, features });
        let times = served(&mut t, rng.below(4) as usize, false, seed);
        assert!(times.iter().all(|&(start, end, _)| start <= end));
        let queues = t.unqueue().unwrap();
        let end = queues.log.iter().map(|&(_, end)| end).max().unwrap_or(0);
        assert_eq!(queues.now_ns().max(end), queues.now_ns());
        assert!(queues.log.iter().all(|&(start, end)| start < end), "every command took its time");
        let busy = queues.busy();
        assert!(busy.dies_ns <= u64::from(channels * dies) * end && busy.channels_ns <= u64::from(channels) * end);
    }
}

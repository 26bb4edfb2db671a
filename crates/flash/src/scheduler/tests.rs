//! Placement by events against placement at once, and the rules of each policy on small cases.

use super::*;
use crate::device::{CellTimes, Server, Timing};
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
    fn copy(&mut self, _: Ppn, _: Ppn, _: Cause, _: impl FnOnce(&mut Oob, &mut [u32])) -> Result<Oob, Infallible> {
        Ok(OOB)
    }
    fn erase(&mut self, _: Block, _: Cause) -> Result<(), Infallible> {
        Ok(())
    }
    fn chain(&mut self, next: Chain) -> Chain {
        next
    }
    fn reserve_spare(&mut self, _: u32) {}
    fn stage_spare(&mut self, _: Ppn, _: &[u8]) {}
    fn spare(&self, _: Ppn) -> &[u8] {
        &[]
    }
}

/// Any command.
fn command<F: Flash<User = (), Fault = Infallible>>(t: &mut F, rng: &mut Rng) {
    let g = *t.geometry();
    let block = Block(rng.below(u64::from(g.block_count())) as u32);
    let other = Block(rng.below(u64::from(g.block_count())) as u32);
    let [ppn, to] = [block, other].map(|block| g.page(block, rng.below(8) as u32));
    let cause = [Cause::Host, Cause::TranslationLoad, Cause::TranslationUpdate][rng.below(3) as usize];
    let Ok(()) = match rng.below(8) {
        0 | 1 => t.read(ppn, cause).map(drop),
        2 => t.read_oob(ppn, cause).map(drop),
        3 | 4 => t.program(ppn, OOB, Payload::User(&()), cause),
        5 => t.append(ppn, 0, &[0; 100], 1, cause),
        6 => t.copy(ppn, to, Cause::TranslationUpdate, |_, _| ()).map(drop),
        _ => t.erase(block, Cause::DataGc),
    };
}

/// The commands of a page: alone, in collections, in batches, and these in each other.
fn commands<F: Flash<User = (), Fault = Infallible>>(t: &mut F, rng: &mut Rng, depth: u32) {
    for _ in 0..rng.below(4) {
        match rng.below(if depth == 0 { 4 } else { 8 }) {
            0..4 => command(t, rng),
            4 | 5 => {
                let mut gc = Collection::on(t);
                for _ in 0..rng.below(3) {
                    let g = *gc.geometry();
                    let [from, to] = [0; 2].map(|_| Block(rng.below(u64::from(g.block_count())) as u32));
                    let (live, from, to) = (rng.below(256), g.page(from, 0), g.page(to, 0));
                    gc.copy_run(from, live, to, 0, Cause::DataGc, |_, _| ()).1.unwrap_or_else(|never| match never {});
                    if rng.chance(0.5) {
                        gc.then();
                    }
                    command(&mut *gc, rng);
                    if rng.chance(0.3) {
                        nested(&mut *gc, rng, depth - 1);
                    }
                }
            }
            _ => {
                let mut batch = Batch::on(t);
                for _ in 0..rng.below(4) {
                    batch.page(|t| nested(t, rng, depth - 1));
                    if rng.chance(0.2) {
                        batch.then();
                    }
                }
            }
        }
    }
}

/// [`commands`] again, of a type that does not grow.
fn nested<F: Flash<User = (), Fault = Infallible>>(t: &mut F, rng: &mut Rng, depth: u32) {
    commands(t, rng, depth);
}

/// Requests at random times: start and end of each, by number. A closed loop of `depth` if that is not 0.
fn served(t: &mut Timeline<Blank>, depth: usize, seed: u64) -> Vec<(u64, u64)> {
    let mut rng = Rng::new(seed);
    let mut times = vec![(0, 0); 60];
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
            let Finished { tag, start_ns, end_ns } = t.scheduler().unwrap().next_finished(u64::MAX).unwrap();
            times[tag as usize] = (start_ns, end_ns);
            now = end_ns;
            under_way -= 1;
        }
        t.arrive(now);
        let mut time = (u64::MAX, 0);
        for _ in 0..1 + rng.below(3) {
            t.page_begin();
            commands(t, &mut rng, 2);
            let page = t.page_end();
            time = (time.0.min(page.start_ns), time.1.max(page.end_ns));
        }
        under_way += 1;
        match t.scheduler() {
            Some(queues) => queues.submit(request as u32),
            None => times[request] = time,
        }
        if let Some(end) = ends.first_mut() {
            *end = time.1;
        }
    }
    if let Some(queues) = t.scheduler() {
        while let Some(Finished { tag, start_ns, end_ns }) = queues.next_finished(u64::MAX) {
            times[tag as usize] = (start_ns, end_ns);
        }
        queues.run_out();
    }
    times
}

fn device(g: Geometry, timing: Timing) -> Timeline<Blank> {
    Timeline::new(Blank(g.checked().unwrap()), timing, Server::Parallel)
}

/// Commands and requests of a random workload on a random device, placed at once and by events.
fn both_ways(bus: Bus, channels_of_one_die: bool, with_transfers: bool) {
    let mut rng = Rng::new(11);
    for seed in 0..400 {
        let dies = if channels_of_one_die { 1 } else { 1 + rng.below(3) as u32 };
        let shape = Geometry { channels: 1 + rng.below(3) as u32, dies, blocks_per_die: 3, ..Geometry::default() };
        let g = Geometry { pages_per_block: 8, planes: 1 + rng.below(2) as u32, ..shape };
        // Also without any time at all, so that many things happen at one instant.
        let longest = [1, 4, 300][rng.below(3) as usize];
        let [read_ns, oob_read_ns, program_ns, partial_program_ns, erase_ns] =
            core::array::from_fn(|_| rng.below(longest));
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
        };
        let depth = rng.below(4) as usize;
        let mut at_once = device(g, timing);
        let expected = served(&mut at_once, depth, seed);
        let mut by_events = device(g, timing);
        let features = Features::default();
        by_events.queue(Scheduling { policy: Policy::InOrder, bus, features });
        let times = served(&mut by_events, depth, seed);
        let queues = by_events.unqueue().unwrap();
        for (number, (placed, queued)) in at_once.log.iter().zip(&queues.log).enumerate() {
            assert_eq!(queued, placed, "command {number} of seed {seed}: {g:?}, {timing:?}, depth {depth}");
        }
        assert_eq!(queues.log.len(), at_once.log.len());
        assert_eq!(times, expected, "seed {seed}");
        assert_eq!(queues.graph.len(), 0);
    }
}

/// The placement by events is the placement at once, if it may do no better.
#[test]
fn in_order_is_first_come_first_served() {
    both_ways(Bus::Backlog, false, true);
}

/// A channel that serves one die, or transfers nothing, has nothing to arbitrate.
#[test]
fn where_no_one_shares_a_channel_it_does_not_matter_how() {
    both_ways(Bus::Arbitrated, true, true);
    both_ways(Bus::Arbitrated, false, false);
}

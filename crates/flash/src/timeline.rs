//! A medium that keeps time.
//!
//! [`Timeline`] wraps a medium, counts every command by cause and places it, first come first served, on its die and
//! channel. Schemes never see it; the host model tells it arrivals and page boundaries through [`Clocked`].
//!
//! Placement, in the order of issue:
//!
//! - A die runs one command at a time, and a booking never moves. A command takes the earliest gap between the bookings
//!   of its die in which it fits, at the earliest when its chain has got so far; if it fits in none, it comes after all
//!   of them. A read holds the die through the cell read and the transfer out, a program through the transfer in and
//!   the cell program. Gaps arise where a command's chain comes from another die: the die is booked from the time at
//!   which that chain will have got so far, and what is issued later may use the time before ([`gaps`]).
//! - So commands of a die need not run in the order of their issue, and four rules keep the data right ([`order`]). A
//!   controller that keeps barriers has one more ([`Timeline::keep_barriers`]).
//! - A channel carries transfers. It keeps a backlog `B` of transfer time, never earlier than the arrival in progress.
//!   A transfer of length `x`, ready at `r`, adds `x` to the backlog and ends at `max(r + x, B)`. So a channel never
//!   carries more than it can, and a transfer that is ready only far in the future (behind a long collection on its
//!   die) does not block the channel for the other dies meanwhile. The channel of a single die needs no backlog: the
//!   die makes one transfer after another. What it would cost to have gaps here as well, and what it costs to have
//!   none, is in docs/scheduling.md.
//! - Commands of a serial chain start one after another. Those of a collection start independently; see
//!   [`Collection`](crate::Collection).
//! - In single-server mode (FlashSim) there is one server and every command waits for the one before it.
//!
//! After [`Timeline::queue`] commands are not placed as they are issued but queue in a [`Scheduler`], which this type
//! only feeds. It is one type all the same, so that every scheme is compiled once for both.
//!
//! Times are integer nanoseconds, so runs replay exactly.

mod bookings;
mod chains;
mod gaps;
mod order;

use crate::device::{Server, Timing};
use crate::medium::{Enter, copy_each};
use crate::response::Diary;
use crate::scheduler::{Barrier, Work};
use crate::{Block, Cause, Chain, Flash, Geometry, Mode, Oob, Op, Payload, Ppn, Scheduler, Scheduling, Tally};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use bookings::{ChannelState, DieState};
use chains::{Chains, Step};
use gaps::{Gaps, Wanted};
use order::Order;

/// When a host page was served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageTime {
    /// Start of its first command (the arrival, if it needed none), or end of its first wait for a collection, ns.
    pub start_ns: u64,
    /// End of its last, ns.
    pub end_ns: u64,
}

/// What the host model tells a medium that keeps time, and asks of it.
pub trait Clocked {
    /// A request arrives. Arrivals never go backwards.
    fn arrive(&mut self, now_ns: u64);
    /// The next page of the request begins; it may run beside the others.
    fn page_begin(&mut self);
    /// The page is done; where commands queue, it has only been issued, and the time says nothing.
    fn page_end(&mut self) -> PageTime;
    /// Calls for each part of the time of the present request, all of whose pages are done: whether it waited, for
    /// which cause, and how many nanoseconds. Where commands queue, nothing is known yet; what has ended says it
    /// ([`Finished`](crate::Finished)).
    fn each_part(&self, add: impl FnMut(bool, Cause, u64));
    /// The queues, if commands queue.
    fn scheduler(&mut self) -> Option<&mut Scheduler>;
    /// Commands so far.
    fn tally(&self) -> &Tally;
    /// Time that one command of this kind takes on a page of this mode, transfer included, ns.
    fn command_ns(&self, op: Op, mode: Mode) -> u64;
}

/// How commands are placed.
#[derive(Clone, Debug)]
enum Placement {
    /// At once, on dies and channels.
    Parallel,
    /// At once, one after another.
    Single,
    /// By events.
    Queued(Box<Scheduler>),
    /// Not at all: the clock stands still. How commands are placed when it goes on.
    Stopped(Server),
}

fn placement(server: Server) -> Placement {
    match server {
        Server::Parallel => Placement::Parallel,
        Server::Single => Placement::Single,
    }
}

/// The decorator. See the module's description.
#[derive(Clone, Debug)]
pub struct Timeline<F> {
    inner: F,
    tally: Tally,
    timing: Timing,
    placement: Placement,
    /// In single-server mode only the first is used.
    dies: Vec<DieState>,
    /// The gaps of each die that are not yet past.
    gaps: Vec<Gaps>,
    order: Order,
    channels: Vec<ChannelState>,
    /// What the dies worked for; in single-server mode only the first is used.
    die_diaries: Vec<Diary>,
    /// What the channels worked for, in the time of their backlogs.
    channel_diaries: Vec<Diary>,
    chains: Chains,
    /// Whether several dies share a channel.
    share_channels: bool,
    /// Whether the controller keeps barriers.
    barriers: bool,
    /// If it does: when the last of all programs and erases ends that were issued, ns.
    changed_ns: u64,
    chain: Chain,
    /// How often the clock was set to zero, from 1 on: chains of earlier times are told apart by it.
    epoch: u32,
    now_ns: u64,
    first_start_ns: u64,
    /// A page programmed with less than full effort was met: pages of one block may differ in their times.
    mixed: bool,
    /// Start and end of every command that was placed at once.
    #[cfg(test)]
    pub(crate) log: Vec<(u64, u64)>,
}

impl<F: Flash> Timeline<F> {
    /// Around `inner`, at time zero.
    pub fn new(inner: F, timing: Timing, server: Server) -> Self {
        let g = *inner.geometry();
        let die =
            |die| DieState { free_ns: 0, gaps_end_ns: 0, channel: g.channel_of(crate::Die(die)), cause: Cause::Host };
        Timeline {
            inner,
            tally: Tally::default(),
            timing,
            placement: placement(server),
            dies: (0..g.die_count()).map(die).collect(),
            gaps: vec![Gaps::default(); g.die_count() as usize],
            order: Order::new(&g),
            channels: vec![ChannelState::IDLE; g.channels as usize],
            die_diaries: vec![Diary::default(); g.die_count() as usize],
            channel_diaries: vec![Diary::default(); g.channels as usize],
            chains: Chains::default(),
            share_channels: g.die_count() > g.channels,
            barriers: false,
            changed_ns: 0,
            chain: Chain::of_page(0),
            epoch: 1,
            now_ns: 0,
            first_start_ns: u64::MAX,
            mixed: false,
            #[cfg(test)]
            log: Vec::new(),
        }
    }

    /// Whether the controller keeps *barriers*: an erase, and a program of what is no host page, a partial one too,
    /// starts when all programs and erases have ended that were issued before it, on whichever die. Most schemes need
    /// them where power may fail while several commands are under way (docs/fault-model.md, `flight`).
    pub fn keep_barriers(&mut self, on: bool) {
        self.barriers = on;
    }

    /// What a change of this kind of page, or an erase, has to do with barriers.
    #[inline(always)]
    fn barrier(&self, is_host: bool) -> Barrier {
        match (self.barriers, is_host) {
            (false, _) => Barrier::None,
            (true, true) => Barrier::Before,
            (true, false) => Barrier::At,
        }
    }

    /// The wrapped medium.
    pub fn inner(&self) -> &F {
        &self.inner
    }

    /// The wrapped medium, to change it.
    pub fn inner_mut(&mut self) -> &mut F {
        &mut self.inner
    }

    /// Takes the medium out.
    pub fn into_inner(self) -> F {
        self.inner
    }

    /// Commands are counted and take no time, until [`Timeline::reset`]: for filling a device, or mounting it, where
    /// nobody asks how long it takes.
    ///
    /// # Panics
    /// Where commands queue.
    pub fn stop_clock(&mut self) {
        self.placement = Placement::Stopped(match self.placement {
            Placement::Parallel => Server::Parallel,
            Placement::Single => Server::Single,
            Placement::Stopped(server) => server,
            Placement::Queued(_) => panic!("queues have no clock that could be stopped"),
        });
    }

    /// Forgets counts and times, as after filling a device: everything is idle at time zero.
    pub fn reset(&mut self) {
        self.tally = Tally::default();
        if let Placement::Stopped(server) = self.placement {
            self.placement = placement(server);
        }
        self.rewind();
    }

    /// Everything is idle at time zero.
    fn rewind(&mut self) {
        self.dies.iter_mut().for_each(|die| (die.free_ns, die.gaps_end_ns) = (0, 0));
        self.gaps.fill(Gaps::default());
        self.order.clear();
        self.changed_ns = 0;
        self.channels.fill(ChannelState::IDLE);
        self.die_diaries.fill(Diary::default());
        self.channel_diaries.fill(Diary::default());
        self.chains.clear();
        self.chain = Chain::of_page(0);
        self.epoch += 1;
        self.now_ns = 0;
    }

    /// From now on commands queue; everything is idle, at time zero.
    ///
    /// # Panics
    /// In single-server mode, which has no queues.
    pub fn queue(&mut self, scheduling: Scheduling) {
        assert!(!matches!(self.placement, Placement::Single), "one server has one queue");
        self.rewind();
        self.placement = Placement::Queued(Box::new(Scheduler::new(self.inner.geometry(), scheduling)));
    }

    /// From now on commands are placed at once again, and everything is idle at time zero. The queues as they were
    /// left, if there were any.
    pub fn unqueue(&mut self) -> Option<Scheduler> {
        if !matches!(self.placement, Placement::Queued(_)) {
            return None;
        }
        self.rewind();
        match core::mem::replace(&mut self.placement, Placement::Parallel) {
            Placement::Queued(scheduler) => Some(*scheduler),
            Placement::Parallel | Placement::Single | Placement::Stopped(_) => None,
        }
    }

    /// When the last command of all ends, ns.
    pub fn idle_at_ns(&self) -> u64 {
        self.dies.iter().map(|die| die.free_ns).max().unwrap_or(0)
    }

    /// Places a command, or has it queue.
    #[inline(always)]
    fn place(&mut self, work: Work) {
        if !matches!(self.placement, Placement::Parallel) {
            return self.place_otherwise(work);
        }
        let number = self.inner.geometry().die_of(work.block).index();
        if self.has_gaps(number) || work.barrier == Barrier::At {
            return self.place_among_gaps(number, work);
        }
        let wanted = self.wanted(number, &work);
        let die = &mut self.dies[number];
        let start = self.chain.from.max(die.free_ns);
        let end = wanted.end_ns(start);
        die.book(end, work.cause, &mut self.die_diaries[number], self.now_ns);
        #[cfg(test)]
        self.log.push((start, end));
        self.chained(number, &work, (start, end));
    }

    /// Whether the die has a gap that is not yet past, or will get one by a command of the present chain.
    #[inline(always)]
    fn has_gaps(&self, die: usize) -> bool {
        let die = &self.dies[die];
        die.gaps_end_ns > self.now_ns || self.chain.from > die.free_ns.max(self.now_ns)
    }

    /// What a command of the present chain wants of its die, once its transfer is in the channel's backlog.
    #[inline(always)]
    fn wanted(&mut self, die: usize, work: &Work) -> Wanted {
        let &Work { op, cause, cell_ns, transfer_ns, .. } = work;
        let (from_ns, length_ns) = (self.chain.from, cell_ns + transfer_ns);
        if op == Op::Erase || !self.share_channels {
            return Wanted { from_ns, length_ns, least_end_ns: 0 };
        }
        let number = self.dies[die].channel as usize;
        let channel = &mut self.channels[number];
        let queued_ns = channel.backlog_ns.max(self.now_ns) + transfer_ns;
        channel.queue(queued_ns, cause, &mut self.channel_diaries[number], self.now_ns);
        // A read ends with its transfer; a program goes on in the cells.
        let behind_ns = if matches!(op, Op::Read | Op::OobRead) { 0 } else { cell_ns };
        Wanted { from_ns, length_ns, least_end_ns: queued_ns + behind_ns }
    }

    #[inline(never)]
    fn place_among_gaps(&mut self, number: usize, work: Work) {
        let offset = self.inner.geometry().offset_of(work.ppn);
        let wanted = self.wanted(number, &work);
        let (die, gaps, now_ns) = (&mut self.dies[number], &mut self.gaps[number], self.now_ns);
        let behind_ns = if work.barrier == Barrier::At { self.changed_ns } else { 0 };
        let ready_ns = self.order.ready_ns(work.op, work.block, offset).max(behind_ns).max(now_ns);
        let wanted = Wanted { from_ns: wanted.from_ns.max(ready_ns), ..wanted };
        // Most commands are too late for every gap.
        let is_late = wanted.end_ns(wanted.from_ns) > die.gaps_end_ns;
        let (start, end) = match if is_late { None } else { gaps.take(wanted, now_ns) } {
            Some((found, end)) => {
                die.book_gap((found.gap_ns, end), work.cause, &mut self.die_diaries[number], now_ns);
                die.gaps_end_ns = gaps.end_ns();
                (found.start_ns, end)
            }
            None => {
                let (idle_ns, start) = (die.free_ns.max(now_ns), wanted.from_ns.max(die.free_ns));
                if idle_ns < start {
                    gaps.push((idle_ns, start), now_ns);
                    die.gaps_end_ns = start;
                }
                die.book(wanted.end_ns(start), work.cause, &mut self.die_diaries[number], now_ns);
                (start, die.free_ns)
            }
        };
        // Before this command there may be a gap, which a later one may take.
        if die.gaps_end_ns > now_ns {
            self.order.note((work.op, work.block, offset), end, now_ns);
        }
        #[cfg(test)]
        self.log.push((start, end));
        self.chained(number, &work, (start, end));
    }

    #[inline(never)]
    fn place_otherwise(&mut self, work: Work) {
        match &mut self.placement {
            Placement::Queued(scheduler) => return scheduler.issue(&mut self.chain, work),
            Placement::Stopped(_) => return,
            Placement::Parallel | Placement::Single => {}
        }
        let server = &mut self.dies[0];
        let start = self.chain.from.max(server.free_ns);
        let end = start + work.cell_ns + work.transfer_ns;
        server.book(end, work.cause, &mut self.die_diaries[0], self.now_ns);
        self.chained(0, &work, (start, end));
    }

    /// Counts commands on pages of a mode.
    #[inline(always)]
    fn count(&mut self, cause: Cause, op: Op, count: u64, mode: Mode) {
        self.tally.add_many(cause, op, count);
        if mode != Mode::Normal {
            self.tally.mark(cause, op, mode, count);
            self.mixed |= mode != Mode::Slc;
        }
    }

    /// The mode of commands that are a block's.
    #[inline(always)]
    fn block_mode(&mut self, block: Block) -> Mode {
        if self.inner.is_slc(block) { Mode::Slc } else { Mode::Normal }
    }

    /// Copies of the first `count` pages whose bits are set in `from.1`, counted from page `from.0` on within one
    /// block, all in one mode, to pages of another from `to.0` on. The two halves of a copy follow one another, also
    /// among the independent copies of a collection.
    #[inline(always)]
    fn place_copies(&mut self, cause: Cause, from: (Ppn, u64, Mode), to: (Ppn, Mode, Barrier), count: u32) {
        if count == 0 {
            return;
        }
        let g = self.inner.geometry();
        let (source, target) = (g.block_of(from.0), g.block_of(to.0));
        let page_transfer_ns = self.timing.page_transfer_ns;
        let (read_ns, program_ns) = (self.timing.cells(from.2).read_ns, self.timing.cells(to.1).program_ns);
        let one_die = g.die_of(source) == g.die_of(target);
        let die = g.die_of(source).index();
        let at_once = matches!(self.placement, Placement::Parallel);
        // A page's chain goes through no collection, and nothing is kept of the commands of one.
        let is_collection = !self.chain.serial && !self.chain.is_page;
        if !one_die || !is_collection || !at_once || to.2 == Barrier::At || self.has_gaps(die) {
            return self.place_each_copy(cause, (from.0, from.1, read_ns), (to.0, program_ns, to.2), count);
        }
        // Within one die without gaps, the same with less work: once the read's transfer is out, so is the backlog, and
        // the program's transfer need not wait.
        let die_number = die as u32;
        let (die, diary) = (&mut self.dies[die], &mut self.die_diaries[die]);
        let number = die.channel as usize;
        let channel = &mut self.channels[number];
        let queued_ns = if self.share_channels { 2 * page_transfer_ns } else { 0 };
        let mut end = die.free_ns.max(self.chain.from);
        self.first_start_ns = self.first_start_ns.min(end);
        let mut backlog = if self.share_channels { channel.backlog_ns.max(self.now_ns) } else { 0 };
        for _ in 0..count {
            let read = (end + read_ns + page_transfer_ns).max(backlog + page_transfer_ns);
            #[cfg(test)]
            self.log.extend([(end, read), (read, read + page_transfer_ns + program_ns)]);
            end = read + page_transfer_ns + program_ns;
            backlog += queued_ns;
        }
        die.book(end, cause, diary, self.now_ns);
        if self.share_channels {
            channel.queue(backlog, cause, &mut self.channel_diaries[number], self.now_ns);
        }
        self.changed(to.2, end);
        self.reached(end, die_number);
    }

    /// The same, one after another; where from, and where to, with cell times.
    fn place_each_copy(&mut self, cause: Cause, from: (Ppn, u64, u64), to: (Ppn, u64, Barrier), count: u32) {
        if matches!(self.placement, Placement::Stopped(_)) {
            return;
        }
        let g = self.inner.geometry();
        let (source, target) = (g.block_of(from.0), g.block_of(to.0));
        let transfer_ns = self.timing.page_transfer_ns;
        let one_die = g.die_of(source) == g.die_of(target);
        let is_collection = !self.chain.serial && !self.chain.is_page;
        let in_gaps = one_die && is_collection && to.2 != Barrier::At && matches!(self.placement, Placement::Parallel);
        let (mut live, mut copied) = (from.1, 0);
        while copied < count {
            if in_gaps {
                let left = count - copied;
                let to = (Ppn(to.0.0 + copied), to.1, to.2);
                let run = self.place_copies_in_gap(cause, (from.0, live, from.2), to, left);
                (0..run).for_each(|_| live &= live.wrapping_sub(1));
                copied += run;
                if run == left {
                    return;
                }
            }
            let (page, ppn) = (Ppn(from.0.0 + live.trailing_zeros()), Ppn(to.0.0 + copied));
            live &= live.wrapping_sub(1);
            copied += 1;
            let (block, cell_ns, barrier) = (source, from.2, Barrier::None);
            let read = Work { op: Op::Read, cause, block, ppn: page, cell_ns, transfer_ns, barrier };
            let (block, cell_ns, barrier) = (target, to.1, to.2);
            let program = Work { op: Op::Program, cause, block, ppn, cell_ns, transfer_ns, barrier };
            if let Placement::Queued(scheduler) = &mut self.placement {
                scheduler.issue_copy(&mut self.chain, read, program);
                continue;
            }
            // A chain of its own within the present one.
            let outer = self.chain;
            self.chain = Chain { serial: true, ..outer };
            self.place(read);
            self.place(program);
            let copy = core::mem::replace(&mut self.chain, outer);
            self.reached(copy.from, copy.steps[0]);
        }
    }

    /// As many of these independent copies within a die as fit into the first gap for the first of them, or behind all
    /// bookings, one behind the other and not to the end of the gap; how many. Each goes where it would go by itself:
    /// the gaps before are too short for its read, and what is left of this one is the first for its program.
    fn place_copies_in_gap(&mut self, cause: Cause, from: (Ppn, u64, u64), to: (Ppn, u64, Barrier), count: u32) -> u32 {
        let g = self.inner.geometry();
        let (source, target) = (g.block_of(from.0), g.block_of(to.0));
        let (from_offset, to_offset) = (g.offset_of(from.0), g.offset_of(to.0));
        let (die, now_ns, x) = (g.die_of(source).index(), self.now_ns, self.timing.page_transfer_ns);
        let (state, gaps) = (&mut self.dies[die], &mut self.gaps[die]);
        let (diary, number) = (&mut self.die_diaries[die], state.channel as usize);
        let mut backlog = self.channels[number].backlog_ns;
        let shared = self.share_channels;
        let queued = |backlog: u64| if shared { backlog.max(now_ns) + x } else { 0 };
        let ready_ns = |order: &Order, live: u64| {
            order.ready_ns(Op::Read, source, from_offset + live.trailing_zeros()).max(self.chain.from)
        };
        let (from_ns, least_end_ns) = (ready_ns(&self.order, from.1), queued(backlog));
        let wanted = Wanted { from_ns, length_ns: from.2 + x, least_end_ns };
        let is_late = wanted.end_ns(from_ns) > state.gaps_end_ns;
        let found = if is_late { None } else { gaps.find(wanted, now_ns) };
        let behind_all = self.chain.from.max(state.free_ns);
        let (start, most_ns) = found.map_or((behind_all, u64::MAX), |found| (found.start_ns, found.end_ns));
        let idle_ns = state.free_ns.max(now_ns);
        let is_noted = state.gaps_end_ns > now_ns || found.is_none() && start > idle_ns;
        let (mut live, mut end, mut run) = (from.1, start, 0);
        while run < count {
            let behind_read = queued(backlog);
            let read_end = (end + from.2 + x).max(behind_read);
            let behind_program = queued(behind_read);
            let program_least = if shared { behind_program + to.1 } else { 0 };
            let program_end = (read_end + x + to.1).max(program_least);
            // A read that is ready earlier than the first might have an earlier gap.
            let is_ready = (run == 0 || (from_ns..=end).contains(&ready_ns(&self.order, live)))
                && self.order.ready_ns(Op::Program, target, to_offset + run) <= read_end;
            if program_end >= most_ns || !is_ready {
                break;
            }
            backlog = behind_program;
            if is_noted {
                self.order.note((Op::Read, source, from_offset + live.trailing_zeros()), read_end, now_ns);
                self.order.note((Op::Program, target, to_offset + run), program_end, now_ns);
            }
            #[cfg(test)]
            self.log.extend([(end, read_end), (read_end, program_end)]);
            live &= live.wrapping_sub(1);
            end = program_end;
            run += 1;
        }
        if run > 0 {
            match found {
                Some(found) => {
                    gaps.book(found, end);
                    state.gaps_end_ns = gaps.end_ns();
                    state.book_gap((found.gap_ns, end), cause, diary, now_ns);
                }
                None => {
                    if idle_ns < start {
                        gaps.push((idle_ns, start), now_ns);
                        state.gaps_end_ns = start;
                    }
                    state.book(end, cause, diary, now_ns);
                }
            }
            if shared {
                self.channels[number].queue(backlog, cause, &mut self.channel_diaries[number], now_ns);
            }
            self.first_start_ns = self.first_start_ns.min(start);
            self.changed(to.2, end);
            self.reached(end, die as u32);
        }
        run
    }

    /// The command that was just placed, on this die, belongs to the present chain.
    #[inline(always)]
    fn chained(&mut self, die: usize, work: &Work, (start_ns, end_ns): (u64, u64)) {
        self.first_start_ns = self.first_start_ns.min(start_ns);
        self.changed(work.barrier, end_ns);
        let mut number = die as u32;
        if self.chain.is_page {
            let &Work { cause, cell_ns, transfer_ns, .. } = work;
            number = self.chains.step(Step {
                cause,
                die: die as u32,
                before: self.chain.steps[0],
                ready_ns: self.chain.from,
                start_ns,
                end_ns,
                own_ns: cell_ns + transfer_ns,
                // Nothing was queued since.
                channel_ns: self.channels[self.dies[die].channel as usize].backlog_ns.saturating_sub(transfer_ns),
            });
        }
        self.reached(end_ns, number);
    }

    /// A command ends then that later barriers may have to wait for.
    #[inline(always)]
    fn changed(&mut self, barrier: Barrier, end_ns: u64) {
        if barrier != Barrier::None {
            self.changed_ns = self.changed_ns.max(end_ns);
        }
    }

    /// A command of the present chain, or a chain within it, ends then; by which step, if a page's chain goes there,
    /// and else on which die.
    #[inline(always)]
    fn reached(&mut self, end_ns: u64, step: u32) {
        if self.chain.serial {
            (self.chain.from, self.chain.steps[0]) = (end_ns, step);
        } else if end_ns > self.chain.end {
            (self.chain.end, self.chain.steps[1]) = (end_ns, step);
        }
    }
}

impl<F: Flash> Flash for Timeline<F> {
    type User = F::User;
    type Fault = F::Fault;

    #[inline(always)]
    fn geometry(&self) -> &Geometry {
        self.inner.geometry()
    }

    #[inline]
    fn read(&mut self, ppn: Ppn, cause: Cause) -> Result<(Oob, Payload<'_, F::User>), F::Fault> {
        let block = self.inner.geometry().block_of(ppn);
        let mode = self.inner.mode_of(ppn);
        self.count(cause, Op::Read, 1, mode);
        let cell_ns = self.timing.cells(mode).read_ns;
        let transfer_ns = self.timing.page_transfer_ns;
        self.place(Work { op: Op::Read, cause, block, ppn, cell_ns, transfer_ns, barrier: Barrier::None });
        self.inner.read(ppn, cause)
    }

    #[inline]
    fn read_oob(&mut self, ppn: Ppn, cause: Cause) -> Result<Option<Oob>, F::Fault> {
        let block = self.inner.geometry().block_of(ppn);
        let mode = self.block_mode(block);
        self.count(cause, Op::OobRead, 1, mode);
        let cell_ns = self.timing.cells(mode).oob_read_ns;
        let transfer_ns = self.timing.oob_transfer_ns;
        self.place(Work { op: Op::OobRead, cause, block, ppn, cell_ns, transfer_ns, barrier: Barrier::None });
        let found = self.inner.read_oob(ppn, cause)?;
        // A mount meets what was programmed before this medium was made.
        self.mixed |= found.is_some_and(|oob| matches!(oob.mode, Mode::LowCost | Mode::Medium));
        Ok(found)
    }

    #[inline(always)]
    fn program(&mut self, ppn: Ppn, oob: Oob, data: Payload<'_, F::User>, cause: Cause) -> Result<(), F::Fault> {
        self.count(cause, Op::Program, 1, oob.mode);
        let block = self.inner.geometry().block_of(ppn);
        let cell_ns = self.timing.cells(oob.mode).program_ns;
        let transfer_ns = self.timing.page_transfer_ns;
        let barrier = self.barrier(oob.kind.is_host());
        self.place(Work { op: Op::Program, cause, block, ppn, cell_ns, transfer_ns, barrier });
        self.inner.program(ppn, oob, data, cause)
    }

    fn append(&mut self, ppn: Ppn, at: u32, bytes: &[u8], mark: u16, cause: Cause) -> Result<(), F::Fault> {
        let g = self.inner.geometry();
        let (block, whole) = (g.block_of(ppn), u64::from(g.page_bytes + g.oob_bytes));
        let mode = self.block_mode(block);
        self.count(cause, Op::PartialProgram, 1, mode);
        self.tally.partial_bytes += bytes.len() as u64;
        let transfer_ns = self.timing.page_transfer_ns * bytes.len() as u64 / whole;
        let cell_ns = self.timing.cells(mode).partial_program_ns;
        let barrier = self.barrier(false);
        self.place(Work { op: Op::PartialProgram, cause, block, ppn, cell_ns, transfer_ns, barrier });
        self.inner.append(ppn, at, bytes, mark, cause)
    }

    #[inline]
    fn copy(
        &mut self,
        from: Ppn,
        to: Ppn,
        cause: Cause,
        edit: impl FnOnce(&mut Oob, &mut [u32]),
    ) -> Result<Oob, F::Fault> {
        let from_mode = self.inner.mode_of(from);
        let (mut to_mode, mut is_host) = (Mode::Normal, true);
        // Also a program that fails was made in the mode that was asked for.
        let result = self.inner.copy(from, to, cause, |oob, words| {
            edit(oob, words);
            (to_mode, is_host) = (oob.mode, oob.kind.is_host());
        });
        self.count(cause, Op::Read, 1, from_mode);
        self.count(cause, Op::Program, 1, to_mode);
        self.place_copies(cause, (from, 1, from_mode), (to, to_mode, self.barrier(is_host)), 1);
        result
    }

    #[inline]
    fn copy_run(
        &mut self,
        from: Ppn,
        live: u64,
        to: Ppn,
        program: u64,
        cause: Cause,
        moved: impl FnMut(u32, Ppn),
    ) -> (u32, Result<(), F::Fault>) {
        if self.mixed {
            return copy_each(self, (from, live), (to, program), cause, |_| {}, moved);
        }
        let (source, target) = (self.inner.geometry().block_of(from), self.inner.geometry().block_of(to));
        let from_mode = self.block_mode(source);
        let (copied, result) = self.inner.copy_run(from, live, to, program, cause, moved);
        let to_mode = self.block_mode(target);
        // A copy that failed took its time as well.
        let commands = copied + u32::from(result.is_err());
        self.count(cause, Op::Read, u64::from(commands), from_mode);
        self.count(cause, Op::Program, u64::from(commands), to_mode);
        // A run is of host pages.
        self.place_copies(cause, (from, live, from_mode), (to, to_mode, self.barrier(true)), commands);
        (copied, result)
    }

    #[inline(always)]
    fn hint(&self, ppn: Ppn, word: usize) {
        self.inner.hint(ppn, word);
    }

    #[inline(always)]
    fn is_slc(&mut self, block: Block) -> bool {
        self.inner.is_slc(block)
    }

    #[inline(always)]
    fn tired(&self, from: Block) -> Option<Block> {
        self.inner.tired(from)
    }

    #[inline(always)]
    fn mode_of(&mut self, ppn: Ppn) -> Mode {
        self.inner.mode_of(ppn)
    }

    #[inline]
    fn erase(&mut self, block: Block, cause: Cause) -> Result<(), F::Fault> {
        let mode = self.block_mode(block);
        self.count(cause, Op::Erase, 1, mode);
        let (ppn, cell_ns) = (self.inner.geometry().page(block, 0), self.timing.cells(mode).erase_ns);
        let barrier = self.barrier(false);
        self.place(Work { op: Op::Erase, cause, block, ppn, cell_ns, transfer_ns: 0, barrier });
        self.inner.erase(block, cause)
    }

    #[inline]
    fn chain(&mut self, next: Chain) -> Chain {
        let outer = Chain { epoch: self.epoch, ..self.chain };
        let is_stale = next.enter == Enter::Resumed && next.epoch != self.epoch;
        let next = if is_stale { Chain { enter: Enter::Resumed, ..Chain::COLLECTION } } else { next };
        if let Placement::Queued(scheduler) = &mut self.placement {
            self.chain = scheduler.chain(outer, next);
            return outer;
        }
        self.chain = match next.enter {
            Enter::Again => next,
            Enter::New => {
                let steps = [outer.steps[0]; 2];
                Chain { enter: Enter::Again, serial: next.serial, end: outer.from, steps, ..outer }
            }
            Enter::Resumed => {
                let die = if outer.is_page { self.chains.die_of(outer.steps[0]) } else { outer.steps[0] };
                let (mut end, mut last) = (outer.from, die);
                for (at, of) in [(next.from, next.steps[0]), (next.end, next.steps[1])] {
                    (end, last) = if at > end { (at, of) } else { (end, last) };
                }
                Chain { enter: Enter::Again, serial: false, end, is_page: false, steps: [die, last], ..outer }
            }
            Enter::After => {
                let (reached, step) = outer.reached();
                Chain { from: reached, end: reached, steps: [step; 2], ..outer }
            }
            Enter::Joined | Enter::Waited => {
                let (end, mut step) = next.reached();
                let [from_step, end_step] = outer.steps;
                if outer.serial && end > outer.from {
                    if next.enter == Enter::Waited && outer.is_page {
                        step = self.chains.wait((from_step, outer.from), (step, end));
                        self.first_start_ns = self.first_start_ns.min(end);
                    }
                    Chain { from: end, steps: [step, end_step], ..outer }
                } else if !outer.serial && end > outer.end {
                    Chain { end, steps: [from_step, step], ..outer }
                } else {
                    outer
                }
            }
        };
        outer
    }

    fn reserve_spare(&mut self, bytes: u32) -> bool {
        self.inner.reserve_spare(bytes)
    }

    fn stage_spare(&mut self, ppn: Ppn, bytes: &[u8]) {
        self.inner.stage_spare(ppn, bytes);
    }

    fn spare(&self, ppn: Ppn) -> &[u8] {
        self.inner.spare(ppn)
    }
}

impl<F: Flash> Clocked for Timeline<F> {
    #[inline]
    fn arrive(&mut self, now_ns: u64) {
        debug_assert!(now_ns >= self.now_ns, "arrivals go forwards");
        self.now_ns = now_ns;
        self.chains.clear();
        if let Placement::Queued(scheduler) = &mut self.placement {
            scheduler.arrive(now_ns);
        }
    }

    #[inline]
    fn page_begin(&mut self) {
        // No node of a graph is before a page's first command.
        let from = if matches!(self.placement, Placement::Queued(_)) { 0 } else { self.now_ns };
        self.chain = Chain::of_page(from);
        self.first_start_ns = u64::MAX;
    }

    #[inline]
    fn page_end(&mut self) -> PageTime {
        if let Placement::Queued(scheduler) = &mut self.placement {
            scheduler.page_end(self.chain);
            return PageTime { start_ns: self.now_ns, end_ns: self.now_ns };
        }
        let end_ns = self.chain.from;
        self.chains.page_end(end_ns, self.chain.steps[0]);
        PageTime { start_ns: self.first_start_ns.min(end_ns), end_ns }
    }

    #[inline]
    fn each_part(&self, mut add: impl FnMut(bool, Cause, u64)) {
        self.chains.last().for_each(|step| {
            let die = &self.dies[step.die as usize];
            add(false, step.cause, step.own_ns);
            if step.start_ns > step.ready_ns {
                let wait = (step.ready_ns, step.start_ns);
                self.die_diaries[step.die as usize].each(wait, die.run(), |cause, ns| add(true, cause, ns));
            }
            // A transfer ends at the earliest when all that were queued before it could be over.
            let held_ns = step.end_ns - step.start_ns - step.own_ns;
            if held_ns > 0 {
                let wait = (step.channel_ns - held_ns, step.channel_ns);
                let run = self.channels[die.channel as usize].run();
                self.channel_diaries[die.channel as usize].each(wait, run, |cause, ns| add(true, cause, ns));
            }
        });
    }

    fn scheduler(&mut self) -> Option<&mut Scheduler> {
        match &mut self.placement {
            Placement::Queued(scheduler) => Some(scheduler),
            _ => None,
        }
    }

    fn tally(&self) -> &Tally {
        &self.tally
    }

    fn command_ns(&self, op: Op, mode: Mode) -> u64 {
        let (cells, t) = (self.timing.cells(mode), &self.timing);
        match op {
            Op::Read => cells.read_ns + t.page_transfer_ns,
            Op::OobRead => cells.oob_read_ns + t.oob_transfer_ns,
            Op::Program => cells.program_ns + t.page_transfer_ns,
            Op::PartialProgram => cells.partial_program_ns,
            Op::Erase => cells.erase_ns,
        }
    }
}

#[cfg(test)]
mod tests;

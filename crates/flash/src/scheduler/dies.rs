//! What dies and channels do: one step of a command after another.
//!
//! A die has cells and a page register, and a command passes through both: a read from the cells to the register and
//! out over the channel, a program the other way. Without caching the two serve one command; what caching allows is in
//! [`Scheduler::choose_for`] and nowhere else.

use super::graph::NONE;
use super::responses::{Occupied, Step};
use super::{Bus, Command, Links, MultiPlane, NEVER, Policy, Scheduler, Suspend};
use crate::Op;
use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Reverse;

/// What the page register of a die holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Register {
    /// Nothing.
    Empty,
    /// Nothing yet: a program is next in the queue and asks for the channel, and may still step back.
    Asking,
    /// A program's page is being transferred.
    Filling(u32),
    /// It is there.
    Loaded(u32),
    /// A page that was read waits for the channel, or is being transferred.
    Draining(u32),
}

/// A list of commands, linked through their nodes.
#[derive(Clone, Copy, Debug)]
struct List {
    first: u32,
    last: u32,
}

impl List {
    const EMPTY: List = List { first: NONE, last: NONE };
}

#[derive(Clone, Debug)]
pub(super) struct Die {
    pub(super) channel: u32,
    /// Commands that are ready, urgent reads aside: the first to be issued on top, by number and place.
    queue: BinaryHeap<Reverse<(u64, u32)>>,
    /// Urgent reads that are ready.
    urgent: List,
    /// The command that the cells work for.
    cells: u32,
    /// Whether they are through with it, a read, which waits for the register.
    cells_done: bool,
    register: Register,
    /// The program or erase that was interrupted, and the time that it still needs.
    suspended: u32,
    left_ns: u64,
    pub(super) changed: bool,
    /// Since when it has worked, if it does.
    pub(super) busy_since_ns: Option<u64>,
}

impl Die {
    pub(super) fn new(channel: u32) -> Die {
        Die {
            channel,
            queue: BinaryHeap::new(),
            urgent: List::EMPTY,
            cells: NONE,
            cells_done: false,
            register: Register::Empty,
            suspended: NONE,
            left_ns: 0,
            changed: false,
            busy_since_ns: None,
        }
    }

    /// The command that is next in the queue.
    fn head(&self) -> Option<u32> {
        self.queue.peek().map(|&Reverse((_, place))| place)
    }

    fn is_busy(&self) -> bool {
        self.cells != NONE || self.suspended != NONE || !matches!(self.register, Register::Empty | Register::Asking)
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Channel {
    /// Dies that ask for it: first those with an urgent read.
    asking: [Vec<u32>; 2],
    /// The die whose transfer it carries.
    carries: Option<u32>,
    /// With [`Bus::Backlog`]: when all transfers that were issued could be over.
    pub(super) backlog_ns: u64,
    pub(super) changed: bool,
}

/// Commands that are looked at for planes of a die that could work beside one.
const MOST_LOOKED_AT: u32 = 64;

impl Scheduler {
    fn command(&self, place: u32) -> &Command {
        &self.graph.nodes[place as usize].command
    }

    fn command_mut(&mut self, place: u32) -> &mut Command {
        &mut self.graph.nodes[place as usize].command
    }

    // ---- lists ----------------------------------------------------------------------------------------------------

    /// A command is ready.
    pub(super) fn enqueue(&mut self, place: u32) {
        let Command { die, urgent, tag, .. } = *self.command(place);
        let die = &mut self.dies[die as usize];
        if !urgent {
            return die.queue.push(Reverse((tag, place)));
        }
        let previous = core::mem::replace(&mut die.urgent.last, place);
        if previous == NONE {
            die.urgent.first = place;
        } else {
            self.command_mut(previous).beside.next = place;
        }
        self.command_mut(place).beside = Links { next: NONE, previous };
    }

    fn remove_urgent(&mut self, place: u32) {
        let Command { die, beside: Links { next, previous }, .. } = *self.command(place);
        if previous == NONE {
            self.dies[die as usize].urgent.first = next;
        } else {
            self.command_mut(previous).beside.next = next;
        }
        if next == NONE {
            self.dies[die as usize].urgent.last = previous;
        } else {
            self.command_mut(next).beside.previous = previous;
        }
    }

    /// Takes a command from where it stands: out of the urgent reads, or off the top of the queue. With it go those
    /// that can join it in other planes: of the urgent reads any, of the queue those that follow it without a gap.
    fn take(&mut self, place: u32, urgent: bool) {
        let die = self.command(place).die as usize;
        let mut next = self.command(place).beside.next;
        if urgent {
            self.remove_urgent(place);
        } else {
            let top = self.dies[die].queue.pop();
            debug_assert!(top.is_some_and(|Reverse((_, top))| top == place), "what is taken is next");
        }
        let (g, rule) = (self.geometry, self.scheduling.features.multi_plane);
        if g.planes == 1 || rule == MultiPlane::Off || self.scheduling.bus == Bus::Backlog {
            return;
        }
        let leader = *self.command(place);
        // One bit for each plane; no die has more than four.
        let bit = |block| 1u64 << (g.plane_of(block) % 64);
        let mut taken = bit(leader.block);
        let mut last = place;
        for _ in 0..MOST_LOOKED_AT {
            if !urgent {
                next = self.dies[die].head().unwrap_or(NONE);
            }
            if next == NONE || taken.count_ones() == g.planes.min(64) {
                break;
            }
            let command = *self.command(next);
            let fits = command.op == leader.op
                && (command.transfer_ns > 0) == (leader.transfer_ns > 0)
                && taken & bit(command.block) == 0
                && (rule == MultiPlane::Independent || g.offset_of(command.ppn) == g.offset_of(leader.ppn));
            if fits {
                taken |= bit(command.block);
                if urgent {
                    self.remove_urgent(next);
                } else {
                    self.dies[die].queue.pop();
                }
                self.command_mut(last).joined = next;
                last = next;
                let whole = self.command_mut(place);
                whole.cell_ns = whole.cell_ns.max(command.cell_ns);
                whole.transfer_ns += command.transfer_ns;
            } else if !urgent {
                break;
            }
            next = command.beside.next;
        }
    }

    // ---- steps of a command ---------------------------------------------------------------------------------------

    /// A command starts, and those that have joined it.
    fn start(&mut self, place: u32) {
        let now_ns = self.now_ns;
        let mut member = place;
        while member != NONE {
            let command = self.command_mut(member);
            command.start_ns = now_ns;
            member = command.joined;
            let request = command.request;
            if let Some(request) = self.graph.find(request) {
                let first_ns = &mut self.command_mut(request).start_ns;
                *first_ns = now_ns.min(*first_ns);
            }
        }
    }

    /// A command has ended, and those that have joined it.
    fn end(&mut self, place: u32) {
        let whole = *self.command(place);
        let mut member = place;
        while member != NONE {
            let command = *self.command(member);
            #[cfg(test)]
            {
                self.log[command.tag as usize] = (command.start_ns, self.now_ns);
            }
            self.leave_blocks(member);
            self.note_step(member, &whole);
            self.graph.end(member);
            member = command.joined;
        }
        self.settle();
    }

    /// A command of a page's chain has ended, of a whole that it may have joined: the time of the whole is its own.
    fn note_step(&mut self, place: u32, whole: &Command) {
        let (before, ready_ns) = (self.graph.nodes[place as usize].step, self.graph.nodes[place as usize].reached_ns);
        let &Command { cause, is_page, die, start_ns, request, .. } = self.command(place);
        let end_ns = self.now_ns;
        let mut step = NONE;
        if is_page && let Some(request) = self.graph.find(request) {
            let &Command { cell_ns, transfer_ns, latency_ns, backlog_ns, .. } = whole;
            let resume_ns = self.scheduling.features.suspend.map_or(0, |suspend| suspend.resume_ns);
            let cells_ns = cell_ns + u64::from(whole.suspends) * resume_ns;
            let all_ns = latency_ns + cell_ns + transfer_ns;
            let is_backlog = self.scheduling.bus == Bus::Backlog;
            // What the backlog held a command back for are the last transfers queued before its own.
            let held = |held_ns: u64| {
                let to_ns = backlog_ns.saturating_sub(transfer_ns);
                (to_ns.saturating_sub(held_ns), to_ns)
            };
            let (die_from_ns, die_ns, channel_ns) = match (is_backlog, whole.is_read()) {
                // The cells, then the channel.
                (false, true) => (end_ns, 0, (start_ns + latency_ns + cell_ns, end_ns - transfer_ns)),
                (true, true) => (end_ns, 0, held(end_ns - start_ns - all_ns)),
                // The channel, then the cells, which others may have in between.
                (false, false) => (start_ns + transfer_ns, cells_ns, (end_ns, end_ns)),
                (true, false) => {
                    let held_ns = backlog_ns.saturating_sub(start_ns + transfer_ns);
                    (start_ns, cells_ns + transfer_ns + held_ns, held(held_ns))
                }
            };
            let noted = self.command(request).noted;
            let die_cause = whole.cause;
            let of_page =
                Step { cause, die, before, ready_ns, start_ns, end_ns, die_from_ns, die_ns, die_cause, channel_ns };
            step = self.responses.note(of_page, noted);
            self.command_mut(request).noted = step;
        }
        let node = &mut self.graph.nodes[place as usize];
        (node.step, node.reached_ns, node.issued) = (step, end_ns, 2 * node.command.tag + 1);
    }

    /// A page's chain has waited for a collection: for what the die on which that ended worked for meanwhile.
    pub(super) fn note_wait(&mut self, place: u32) {
        let (step, ready_ns) = (self.graph.nodes[place as usize].step, self.graph.nodes[place as usize].reached_ns);
        let Command { die, request, tag, .. } = *self.command(place);
        let now_ns = self.now_ns;
        let Some(request) = self.graph.find(request).filter(|_| ready_ns < now_ns) else { return };
        self.responses.up_to_now(die, self.dies[die as usize].channel, now_ns);
        let of_wait = Step::of_wait(die, step, (ready_ns, now_ns));
        let Command { noted, start_ns, .. } = *self.command(request);
        let step = self.responses.note(of_wait, noted);
        let request = self.command_mut(request);
        (request.noted, request.start_ns) = (step, start_ns.min(now_ns));
        let node = &mut self.graph.nodes[place as usize];
        (node.step, node.reached_ns, node.issued) = (step, now_ns, 2 * tag);
    }

    /// Notes what a die is occupied with from now on.
    fn note_work(&mut self, number: u32) {
        let Die { channel, cells, register, suspended, .. } = self.dies[number as usize];
        let with = |place| Occupied::With(self.command(place).cause);
        let occupied = match register {
            _ if cells != NONE => with(cells),
            Register::Filling(place) | Register::Loaded(place) | Register::Draining(place) => with(place),
            Register::Asking => Occupied::Asking,
            Register::Empty if suspended != NONE => with(suspended),
            Register::Empty => Occupied::No,
        };
        self.responses.occupy(number, channel, occupied, self.now_ns);
    }

    /// The cells begin to work for a command, after `delay_ns`.
    fn work(&mut self, die: u32, place: u32, delay_ns: u64) {
        self.command_mut(place).latency_ns = delay_ns;
        let Command { cell_ns, transfer_ns, backlog_ns, .. } = *self.command(place);
        let start_ns = self.now_ns + delay_ns;
        let end_ns = match self.scheduling.bus {
            Bus::Arbitrated => start_ns + cell_ns,
            // The whole command at once, as `Timeline` reckons it.
            Bus::Backlog if self.command(place).is_read() => (start_ns + cell_ns + transfer_ns).max(backlog_ns),
            Bus::Backlog if self.command(place).is_program() => (start_ns + transfer_ns).max(backlog_ns) + cell_ns,
            Bus::Backlog => start_ns + cell_ns,
        };
        self.dies[die as usize].cells = place;
        self.clock.set(die as usize, end_ns);
    }

    /// The cells of a die are through.
    pub(super) fn cells_done(&mut self, die: usize) {
        self.clock.set(die, NEVER);
        self.responses.up_to_now(die as u32, self.dies[die].channel, self.now_ns);
        let place = self.dies[die].cells;
        let command = self.command(place);
        if command.is_read() && command.transfer_ns > 0 && self.scheduling.bus == Bus::Arbitrated {
            self.dies[die].cells_done = true;
        } else {
            self.dies[die].cells = NONE;
            self.end(place);
        }
        self.touch_die(die as u32);
    }

    /// A die asks for its channel.
    fn ask(&mut self, die: u32, urgent: bool) {
        let channel = self.dies[die as usize].channel;
        self.channels[channel as usize].asking[usize::from(!urgent)].push(die);
        self.touch_channel(channel);
    }

    /// A channel takes up a transfer, if it is idle and one is asked for.
    pub(super) fn grant(&mut self, number: u32) {
        let channel = &mut self.channels[number as usize];
        if channel.carries.is_some() {
            return;
        }
        let Some(asking) = channel.asking.iter_mut().find(|asking| !asking.is_empty()) else { return };
        let die = asking.remove(0);
        channel.carries = Some(die);
        let place = match self.dies[die as usize].register {
            Register::Asking => {
                let Some(place) = self.dies[die as usize].head() else { unreachable!("a die that asks has a program") };
                self.take(place, false);
                self.start(place);
                self.dies[die as usize].register = Register::Filling(place);
                self.note_busy(die);
                place
            }
            Register::Draining(place) => place,
            other => unreachable!("a die that asks has a page to transfer, not {other:?}"),
        };
        let Command { cause, transfer_ns, .. } = *self.command(place);
        self.responses.carry(number, Occupied::With(cause), self.now_ns);
        self.busy.channels_ns += transfer_ns;
        self.clock.set(self.dies.len() + number as usize, self.now_ns + transfer_ns);
    }

    /// A channel is through with a transfer.
    pub(super) fn transfer_done(&mut self, number: usize) {
        self.clock.set(self.dies.len() + number, NEVER);
        let Some(die) = self.channels[number].carries.take() else { unreachable!("only a transfer ends") };
        self.responses.carry(number as u32, Occupied::No, self.now_ns);
        self.responses.up_to_now(die, number as u32, self.now_ns);
        let register = &mut self.dies[die as usize].register;
        match *register {
            Register::Filling(place) => *register = Register::Loaded(place),
            Register::Draining(place) => {
                *register = Register::Empty;
                self.end(place);
            }
            other => unreachable!("a register that is transferred is not {other:?}"),
        }
        self.touch_die(die);
        self.touch_channel(number as u32);
    }

    /// The program that asks for the channel does so no longer.
    fn step_back(&mut self, die: u32) {
        let channel = self.dies[die as usize].channel;
        self.channels[channel as usize].asking[1].retain(|&other| other != die);
        self.dies[die as usize].register = Register::Empty;
    }

    // ---- choices --------------------------------------------------------------------------------------------------

    /// All that a die can begin at this instant.
    pub(super) fn choose_for(&mut self, die: u32) {
        while self.choose_one(die) {}
        self.note_busy(die);
    }

    /// Begins one thing; false if there is nothing to begin.
    fn choose_one(&mut self, number: u32) -> bool {
        let Die { urgent, cells, cells_done, register, suspended, .. } = self.dies[number as usize];
        let head = self.dies[number as usize].head();
        // Whether it begins with a transfer to the chip.
        let fetches = head.is_some_and(|head| {
            let head = self.command(head);
            head.is_program() && head.transfer_ns > 0 && self.scheduling.bus == Bus::Arbitrated
        });
        if register == Register::Asking && !fetches {
            // What was issued before the program that asks has become ready meanwhile.
            self.step_back(number);
            return true;
        }
        if cells_done && register == Register::Empty {
            // What was read moves on.
            let die = &mut self.dies[number as usize];
            (die.cells, die.cells_done, die.register) = (NONE, false, Register::Draining(cells));
            let urgent = self.command(cells).urgent;
            self.ask(number, urgent);
            return true;
        }
        if cells == NONE
            && let Register::Loaded(place) = register
        {
            self.dies[number as usize].register = Register::Empty;
            self.work(number, place, 0);
            return true;
        }
        if urgent.first != NONE {
            return self.choose_read(number, urgent.first);
        }
        let caches = self.scheduling.features;
        let drains = matches!(register, Register::Draining(_));
        if suspended != NONE {
            let goes_on = cells == NONE && register == Register::Empty;
            if goes_on {
                self.resume(number);
            }
            return goes_on;
        }
        let Some(first) = head else { return false };
        if fetches {
            let beside = cells != NONE && caches.cache_program && self.command(cells).is_program();
            let asks = register == Register::Empty && (cells == NONE || beside);
            if asks {
                self.dies[number as usize].register = Register::Asking;
                self.ask(number, false);
            }
            return asks;
        }
        let overlaps = drains && caches.cache_read && self.command(first).is_read();
        let begins = cells == NONE && (register == Register::Empty || overlaps);
        if begins {
            self.begin(number, first, false, 0);
        }
        begins
    }

    /// Begins an urgent read, if it need not wait, after interrupting what has to be interrupted.
    fn choose_read(&mut self, number: u32, read: u32) -> bool {
        let Die { cells, cells_done, register, suspended, .. } = self.dies[number as usize];
        let free = match register {
            Register::Empty | Register::Asking => true,
            Register::Draining(_) => self.scheduling.features.cache_read && cells == NONE,
            Register::Filling(_) | Register::Loaded(_) => false,
        };
        if !free {
            return false;
        }
        let mut delay_ns = 0;
        if cells != NONE {
            let Some(Suspend { program_ns, erase_ns, most, .. }) = self.scheduling.features.suspend else {
                return false;
            };
            let command = *self.command(cells);
            delay_ns = if command.op == Op::Erase { erase_ns } else { program_ns };
            let stops = self.scheduling.policy == Policy::Suspend
                && !command.is_read()
                && !cells_done
                && suspended == NONE
                && command.suspends < most
                && self.clock.time_ns(number as usize) > self.now_ns + delay_ns;
            if !stops {
                return false;
            }
            self.interrupt(number);
        }
        if register == Register::Asking {
            self.step_back(number);
        }
        self.begin(number, read, true, delay_ns);
        true
    }

    /// A command leaves its list, and the cells work for it.
    fn begin(&mut self, die: u32, place: u32, urgent: bool, delay_ns: u64) {
        self.take(place, urgent);
        self.start(place);
        self.work(die, place, delay_ns);
    }

    /// Stops the program or erase that the cells work for.
    fn interrupt(&mut self, number: u32) {
        let left_ns = self.clock.time_ns(number as usize) - self.now_ns;
        let die = &mut self.dies[number as usize];
        let place = core::mem::replace(&mut die.cells, NONE);
        (die.suspended, die.left_ns) = (place, left_ns);
        self.clock.set(number as usize, NEVER);
        self.command_mut(place).suspends += 1;
        self.busy.suspends += 1;
    }

    /// The cells go on with what was interrupted.
    fn resume(&mut self, number: u32) {
        let resume_ns = self.scheduling.features.suspend.map_or(0, |suspend| suspend.resume_ns);
        let die = &mut self.dies[number as usize];
        die.cells = core::mem::replace(&mut die.suspended, NONE);
        let end_ns = self.now_ns + resume_ns + die.left_ns;
        self.clock.set(number as usize, end_ns);
    }

    fn note_busy(&mut self, number: u32) {
        self.note_work(number);
        let die = &mut self.dies[number as usize];
        match die.busy_since_ns {
            None if die.is_busy() => die.busy_since_ns = Some(self.now_ns),
            Some(since_ns) if !die.is_busy() => {
                die.busy_since_ns = None;
                self.busy.dies_ns += self.now_ns - since_ns;
            }
            _ => {}
        }
    }
}

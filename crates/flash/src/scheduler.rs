//! Commands that queue: placement in time by events.
//!
//! [`Timeline`](crate::Timeline) by itself places a command the moment it is issued: whatever is issued later comes
//! later on its die. With a [`Scheduler`] it only enters commands into queues, and time passes from event to event: a
//! die whose cells are through, a channel whose transfer is over. What a die does next is decided when it can do
//! something, among all that waits for it then. So a read that arrives late may overtake a program that was issued
//! before it, and even interrupt one.
//!
//! # When a request reaches the scheme
//!
//! Schemes remain straight-line code that runs at once. A request's function runs at the very instant of its arrival:
//! everything that ended up to then has been dealt with, and nothing that ends later. In an open loop arrivals are
//! given. In a closed loop a request arrives when one that is under way ends, so time must first pass to that end.
//! Function is therefore ahead of the flash by the requests under way, never by more.
//!
//! This is what a controller does: it takes a request from the host's queue, looks into its map, allocates pages,
//! changes the map, and hands commands to the dies' queues; what it decides can depend on all it has decided before,
//! and not on when the flash is through. What a scheme reads from flash (a translation page, say) it has in hand too
//! early, but it decides nothing from it that it would not decide when the read has ended, because all that lies
//! between are decisions of other requests, and these a firmware must put in the order of arrival as well, by locking
//! what the first is still waiting for. In time they wait: every command of a chain waits for the one before.
//!
//! # Dependences
//!
//! The commands of a page follow one another, as do the stages of collections and batches
//! ([`Flash::chain`](crate::Flash::chain)); pages of a request run beside each other. These are edges of a graph
//! (`graph`), whose nodes are commands, requests and joins. A command is ready when all that it waits for has ended,
//! and of the ready commands of a die the one that was issued first goes. Where no chain crosses dies that is first
//! come, first served, and exactly what `Timeline` places at once (a test holds the two against each other, command for
//! command). Where one does, `Timeline` books a die ahead and a booking never moves, while here nothing is booked:
//! docs/scheduling.md draws both.
//!
//! Under [`Policy::ReadFirst`] and [`Policy::Suspend`] the reads that a host is waiting for (causes host and
//! translation load) go before the others. They start as soon as they are ready and the die can read, in the order in
//! which they became ready.
//!
//! So commands of a die do not run in the order of issue, and edges keep the data right, under every policy:
//!
//! - An erase waits for all commands on its block that were issued before it.
//! - Every command waits for the erase of its block that was issued before it.
//! - A read, also that of a copy, waits for the program of its page and its partial programs. (A controller could serve
//!   it from its buffer. Then the command that the scheme issued, and that every count has, would take no time.)
//! - A partial program waits for the program of its page and its earlier partial programs.
//!
//! Programs of a block may swap in time: a page's place in its block is bound when the command is dispatched.
//!
//! A controller that keeps barriers ([`Timeline::keep_barriers`](crate::Timeline::keep_barriers)) has edges for them as
//! well: from an erase, or a program of metadata, to every program and erase that was issued before it.
//!
//! All edges lead from a command to one that was issued before it. There is no cycle, and something can always start.
//!
//! # Dies and channels
//!
//! A read works in the cells, waits for the channel, and is transferred; a program is transferred, then works in the
//! cells; an erase needs no channel. A die has cells and a page register; without more features one command holds both.
//! A channel carries one transfer at a time and takes up the transfers that ask for it in the order of asking, those of
//! urgent reads first where reads go first. A program that has not got the channel yet steps back for an urgent read,
//! and for a command that was issued before it and became ready meanwhile.
//! ([`Bus::Backlog`] is the simpler channel of `Timeline`, for the comparison of the two.)
//!
//! [`Features`] of the device, each off unless the device has it:
//!
//! - **suspend** (with [`Policy::Suspend`]): an urgent read stops a program or an erase on its die after a latency. The
//!   rest is done when no urgent read is left, with an overhead. A command is stopped a bounded number of times, and
//!   not when it ends sooner than it could be stopped.
//! - **multi-plane**: when a command starts, commands of the same kind to other planes that could start as well join
//!   it: transfers add up, cell times run together. All of them end with the last.
//! - **copy-back**: a copy within a plane is one command of the die that transfers nothing.
//! - **cache read**: a read's data move from the cells to the register, and the cells begin the next read while the
//!   register is being transferred. **cache program**: while the cells program, the register takes the next page in the
//!   queue.
//!
//! # Instants
//!
//! Times are whole nanoseconds. What ends or arrives at one instant is dealt with before anything is chosen at it,
//! events in the order of their parts (dies, then channels), choices in the order in which dies came to have one. So a
//! run is the same wherever it runs.

mod clock;
mod dies;
mod graph;
mod responses;
#[cfg(test)]
mod tests;

use crate::device::{Features, MultiPlane, Suspend};
use crate::medium::Enter;
use crate::{Block, Cause, Chain, Geometry, Op, Ppn, Response};
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use clock::{Clock, NEVER};
use dies::{Channel, Die};
use graph::{Graph, NONE, Role, Token};
use responses::Responses;

/// Who goes first on a die.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    /// Of those that wait for nothing, whoever was issued first.
    InOrder,
    /// The host's reads before everything else that has not begun.
    ReadFirst,
    /// The host's reads also before programs and erases that have begun.
    Suspend,
}

/// How transfers share a channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bus {
    /// As [`Timeline`](crate::Timeline) reckons: by the sum of the transfers of all that was issued, where several dies
    /// share a channel.
    Backlog,
    /// One at a time, in the order in which they ask.
    Arbitrated,
}

/// How commands queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scheduling {
    /// Who goes first.
    pub policy: Policy,
    /// How transfers share a channel.
    pub bus: Bus,
    /// What the chips can do.
    pub features: Features,
}

/// A request that has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Finished {
    /// What [`Scheduler::submit`] was told.
    pub tag: u32,
    /// Start of its first command; the arrival, if a page of it needed none.
    pub start_ns: u64,
    /// End of the last that it waits for.
    pub end_ns: u64,
    /// Where its time went.
    pub response: Response,
}

/// How much the parts of the device worked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Busy {
    /// The dies together.
    pub dies_ns: u64,
    /// The channels together: transfers.
    pub channels_ns: u64,
    /// Programs and erases that were interrupted, each time.
    pub suspends: u64,
}

/// A command as it is issued.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    pub(crate) op: Op,
    pub(crate) cause: Cause,
    pub(crate) block: Block,
    /// The page; of an erase the block's first.
    pub(crate) ppn: Ppn,
    pub(crate) cell_ns: u64,
    pub(crate) transfer_ns: u64,
    pub(crate) barrier: Barrier,
}

/// What the controller's barriers have to do with a command, if it keeps any.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Barrier {
    /// Nothing.
    None,
    /// Later barriers wait for it.
    Before,
    /// It is one: it waits for all programs and erases that were issued before it, on whichever die.
    At,
}

/// What a node knows that is a command, or a request.
#[derive(Clone, Copy, Debug)]
struct Command {
    op: Op,
    cause: Cause,
    /// Whether it is in a page's chain; others are a collection's.
    is_page: bool,
    /// Whether it is a read that the host waits for, under a policy that cares.
    urgent: bool,
    /// How often it was interrupted.
    suspends: u32,
    die: u32,
    block: Block,
    ppn: Ppn,
    /// Times in the cells and on the channel: of a command that others have joined, of all of them.
    cell_ns: u64,
    transfer_ns: u64,
    /// The latency of interrupting another for it.
    latency_ns: u64,
    /// With [`Bus::Backlog`], when the channel is through with it at the earliest.
    backlog_ns: u64,
    /// Neighbours among the urgent reads of its die.
    beside: Links,
    /// The next of those that have joined it.
    joined: u32,
    /// The block that it reads, if it does: also a copy within the chip.
    source: Option<Block>,
    /// Neighbours among the reads of that block, and among the changes of its own.
    in_block: [Links; 2],
    /// The request that it belongs to.
    request: Token,
    /// When it started; of a request, when the first of its commands did.
    start_ns: u64,
    /// Of a request: what its owner knows it by. Of a command: its number in the order of issue.
    tag: u64,
    /// Of a request: the last of its steps that was noted.
    noted: u32,
}

/// Neighbours in a list.
#[derive(Clone, Copy, Debug)]
struct Links {
    next: u32,
    previous: u32,
}

impl Links {
    const NONE: Links = Links { next: NONE, previous: NONE };
}

impl Command {
    const NOTHING: Command = Command {
        op: Op::Read,
        cause: Cause::Host,
        is_page: false,
        urgent: false,
        suspends: 0,
        die: 0,
        block: Block(0),
        ppn: Ppn(0),
        cell_ns: 0,
        transfer_ns: 0,
        latency_ns: 0,
        backlog_ns: 0,
        beside: Links::NONE,
        joined: NONE,
        source: None,
        in_block: [Links::NONE; 2],
        request: 0,
        start_ns: u64::MAX,
        tag: 0,
        noted: NONE,
    };

    fn is_read(&self) -> bool {
        matches!(self.op, Op::Read | Op::OobRead)
    }

    fn is_program(&self) -> bool {
        matches!(self.op, Op::Program | Op::PartialProgram)
    }
}

/// The commands on a block that were issued and have not ended.
#[derive(Clone, Copy, Debug)]
struct BlockState {
    /// The last of its reads, and the last of its changes.
    last: [u32; 2],
    /// The last erase.
    erase: u32,
}

/// The two lists of a block.
const READS: usize = 0;
const CHANGES: usize = 1;

/// The queues, and the time that they have reached.
#[derive(Clone, Debug)]
pub struct Scheduler {
    scheduling: Scheduling,
    geometry: Geometry,
    graph: Graph,
    dies: Vec<Die>,
    channels: Vec<Channel>,
    /// First the dies, then the channels.
    clock: Clock,
    now_ns: u64,
    /// Dies and channels that may have something new to do at this instant.
    changed_dies: Vec<u32>,
    changed_channels: Vec<u32>,
    blocks: Vec<BlockState>,
    /// The request that commands are issued for.
    request: Token,
    /// The node that ends when all programs and erases have ended that were issued, where there are barriers.
    changes: Token,
    issued: u64,
    finished: VecDeque<Finished>,
    responses: Responses,
    busy: Busy,
    /// Start and end of every command by its number.
    #[cfg(test)]
    pub(crate) log: Vec<(u64, u64)>,
}

impl Scheduler {
    /// Empty queues at time zero.
    pub fn new(geometry: &Geometry, scheduling: Scheduling) -> Scheduler {
        let dies = geometry.die_count();
        let nothing = BlockState { last: [NONE; 2], erase: NONE };
        Scheduler {
            scheduling,
            geometry: *geometry,
            graph: Graph::new(),
            dies: (0..dies).map(|die| Die::new(geometry.channel_of(crate::Die(die)))).collect(),
            channels: vec![Channel::default(); geometry.channels as usize],
            clock: Clock::new((dies + geometry.channels) as usize),
            now_ns: 0,
            changed_dies: Vec::with_capacity(dies as usize),
            changed_channels: Vec::with_capacity(geometry.channels as usize),
            blocks: vec![nothing; geometry.block_count() as usize],
            request: 0,
            changes: 0,
            issued: 0,
            finished: VecDeque::new(),
            responses: Responses::new(dies as usize, geometry.channels as usize),
            busy: Busy::default(),
            #[cfg(test)]
            log: Vec::new(),
        }
    }

    /// The time reached.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Lets time pass until a request has ended, or to `by_ns`; the request. Requests are told in the order of their
    /// ends.
    pub fn next_finished(&mut self, by_ns: u64) -> Option<Finished> {
        while self.finished.is_empty() {
            if !self.step(by_ns) {
                if by_ns < NEVER {
                    self.now_ns = self.now_ns.max(by_ns);
                }
                break;
            }
        }
        self.finished.pop_front()
    }

    /// Since when nothing is under way: lets time pass to that moment, unless it is after `by_ns`, or a request ends
    /// before.
    pub fn idle_since(&mut self, by_ns: u64) -> Option<u64> {
        while self.graph.len() > 0 && self.finished.is_empty() && self.step(by_ns) {}
        (self.graph.len() == 0 && self.finished.is_empty()).then_some(self.now_ns)
    }

    /// How much the parts have worked up to now.
    pub fn busy(&self) -> Busy {
        let working = self.dies.iter().filter_map(|die| die.busy_since_ns).map(|since| self.now_ns - since);
        Busy { dies_ns: self.busy.dies_ns + working.sum::<u64>(), ..self.busy }
    }

    /// Lets time pass to `to_ns`. What ends by then has ended; what could start at that very instant has not, for more
    /// may arrive.
    fn advance(&mut self, to_ns: u64) {
        debug_assert!(to_ns >= self.now_ns, "time goes forwards");
        while self.step(to_ns) {}
        self.now_ns = self.now_ns.max(to_ns);
    }

    /// Lets time pass until nothing is left to do.
    pub fn run_out(&mut self) {
        while self.step(NEVER) {}
        assert_eq!(self.graph.len(), 0, "every command that was issued has ended");
    }

    /// Deals with the next event, or makes the choices of this instant if time is to pass beyond it. False if there is
    /// nothing to do up to `to_ns`.
    #[inline]
    fn step(&mut self, to_ns: u64) -> bool {
        let (next_ns, part) = self.clock.next();
        if next_ns > self.now_ns {
            let choices = !(self.changed_dies.is_empty() && self.changed_channels.is_empty());
            if choices && to_ns > self.now_ns {
                self.choose();
                return true;
            }
            if next_ns > to_ns || next_ns == NEVER {
                return false;
            }
            self.now_ns = next_ns;
        }
        match part.checked_sub(self.dies.len()) {
            None => self.cells_done(part),
            Some(channel) => self.transfer_done(channel),
        }
        true
    }

    /// A request arrives: the commands that follow are for it.
    pub(crate) fn arrive(&mut self, now_ns: u64) {
        self.advance(now_ns);
        let request = self.graph.add(Role::Request, 1, Command::NOTHING, now_ns);
        self.request = self.graph.token(request);
        let graph = &self.graph;
        self.responses.arrive(self.request, now_ns, |other| graph.find(other).is_some());
    }

    /// A page of the request is done when `chain` has got so far.
    pub(crate) fn page_end(&mut self, chain: Chain) {
        let Some(request) = self.graph.find(self.request) else { return };
        if self.graph.find(chain.from).is_some() {
            self.graph.wait(request, chain.from);
        } else {
            self.graph.nodes[request as usize].command.start_ns = self.now_ns;
        }
    }

    /// All pages of the request have been issued. It is known as `tag` when it has ended.
    pub fn submit(&mut self, tag: u32) {
        if let Some(request) = self.graph.find(self.request) {
            self.graph.nodes[request as usize].command.tag = tag.into();
            self.graph.release(request);
            self.settle();
        }
        self.request = 0;
    }

    /// Issues a command.
    pub(crate) fn issue(&mut self, chain: &mut Chain, work: Work) {
        let is_read = matches!(work.op, Op::Read | Op::OobRead);
        self.issue_from(chain, work, is_read.then_some((work.block, work.ppn)));
    }

    /// Issues a command that reads a page of a block, or none.
    fn issue_from(&mut self, chain: &mut Chain, work: Work, source: Option<(Block, Ppn)>) {
        let Work { op, cause, block, ppn, cell_ns, transfer_ns, barrier } = work;
        let die = self.geometry.die_of(block).0;
        let urgent = self.scheduling.policy != Policy::InOrder
            && matches!(op, Op::Read | Op::OobRead)
            && matches!(cause, Cause::Host | Cause::TranslationLoad);
        let mut backlog_ns = 0;
        if self.scheduling.bus == Bus::Backlog && op != Op::Erase && self.geometry.die_count() > self.geometry.channels
        {
            let channel = self.dies[die as usize].channel;
            let backlog = &mut self.channels[channel as usize].backlog_ns;
            *backlog = (*backlog).max(self.now_ns) + transfer_ns;
            backlog_ns = *backlog;
            self.responses.queue(channel, backlog_ns, cause);
        }
        let command = Command {
            op,
            cause,
            is_page: chain.is_page,
            urgent,
            die,
            block,
            ppn,
            cell_ns,
            transfer_ns,
            backlog_ns,
            source: source.map(|(block, _)| block),
            request: self.request,
            tag: self.issued,
            ..Command::NOTHING
        };
        self.issued += 1;
        #[cfg(test)]
        self.log.push((0, 0));
        let place = self.graph.add(Role::Command, 0, command, self.now_ns);
        self.graph.wait(place, chain.from);
        self.keep_data_right(place, source);
        self.keep_barrier(place, barrier);
        if self.graph.nodes[place as usize].waits == 0 {
            self.enqueue(place);
        }
        self.touch_die(die);
        let token = self.graph.token(place);
        if chain.serial {
            chain.from = token;
        } else if let Some(join) = self.graph.find(chain.end) {
            self.graph.wait(join, token);
        }
    }

    /// Issues a copy: its two halves follow one another, also where commands are independent.
    pub(crate) fn issue_copy(&mut self, chain: &mut Chain, read: Work, program: Work) {
        let g = &self.geometry;
        let within_plane =
            g.die_of(read.block) == g.die_of(program.block) && g.plane_of(read.block) == g.plane_of(program.block);
        if self.scheduling.features.copy_back && within_plane {
            let cell_ns = read.cell_ns + program.cell_ns;
            let work = Work { cell_ns, transfer_ns: 0, ..program };
            return self.issue_from(chain, work, Some((read.block, read.ppn)));
        }
        let mut own = Chain { serial: true, ..*chain };
        self.issue(&mut own, read);
        if chain.serial {
            *chain = own;
            self.issue(chain, program);
        } else {
            let end = chain.end;
            self.issue(&mut own, program);
            if let Some(join) = self.graph.find(end) {
                self.graph.wait(join, own.from);
            }
        }
    }

    /// The rules that keep the data right: see the module's description. Who looks for a page among the changes of its
    /// block meets an erase after at most as many steps as a block takes programs.
    fn keep_data_right(&mut self, place: u32, source: Option<(Block, Ppn)>) {
        let command = self.graph.nodes[place as usize].command;
        let erase = self.blocks[command.block.index()].erase;
        if command.op == Op::Erase {
            for list in [READS, CHANGES] {
                let mut before = self.blocks[command.block.index()].last[list];
                while before != NONE {
                    let token = self.graph.token(before);
                    self.graph.wait_beside(place, token);
                    before = self.graph.nodes[before as usize].command.in_block[list].previous;
                }
            }
            self.blocks[command.block.index()].erase = place;
        } else if command.is_program() && erase != NONE {
            let token = self.graph.token(erase);
            self.graph.wait_beside(place, token);
        }
        if let Some((block, ppn)) = source {
            self.wait_for_page(place, block, ppn);
            self.enter_block(place, block, READS);
        }
        if !command.is_read() {
            if command.op == Op::PartialProgram {
                self.wait_for_page(place, command.block, command.ppn);
            }
            self.enter_block(place, command.block, CHANGES);
        }
    }

    /// A barrier waits for all changes before it, and the next one for this change as well.
    fn keep_barrier(&mut self, place: u32, barrier: Barrier) {
        let change = self.graph.token(place);
        match barrier {
            Barrier::None => {}
            Barrier::Before if self.graph.find(self.changes).is_some() => {
                let join = self.graph.add(Role::Join, 0, Command::NOTHING, self.now_ns);
                self.graph.wait(join, self.changes);
                self.graph.wait(join, change);
                self.changes = self.graph.token(join);
            }
            Barrier::Before => self.changes = change,
            Barrier::At => {
                self.graph.wait_beside(place, self.changes);
                self.changes = change;
            }
        }
    }

    /// A command waits for the programs of a page since the last erase of its block, and for that erase.
    fn wait_for_page(&mut self, place: u32, block: Block, ppn: Ppn) {
        let mut change = self.blocks[block.index()].last[CHANGES];
        while change != NONE {
            let Command { op, ppn: of, in_block, .. } = self.graph.nodes[change as usize].command;
            if op == Op::Erase || of == ppn {
                let token = self.graph.token(change);
                self.graph.wait_beside(place, token);
            }
            if op == Op::Erase {
                return;
            }
            change = in_block[CHANGES].previous;
        }
    }

    fn enter_block(&mut self, place: u32, block: Block, list: usize) {
        let previous = core::mem::replace(&mut self.blocks[block.index()].last[list], place);
        self.graph.nodes[place as usize].command.in_block[list] = Links { next: NONE, previous };
        if previous != NONE {
            self.graph.nodes[previous as usize].command.in_block[list].next = place;
        }
    }

    fn leave_block(&mut self, place: u32, block: Block, list: usize) {
        let Links { next, previous } = self.graph.nodes[place as usize].command.in_block[list];
        if next == NONE {
            self.blocks[block.index()].last[list] = previous;
        } else {
            self.graph.nodes[next as usize].command.in_block[list].previous = previous;
        }
        if previous != NONE {
            self.graph.nodes[previous as usize].command.in_block[list].next = next;
        }
    }

    /// A command has ended: nothing on its blocks waits for it any more.
    fn leave_blocks(&mut self, place: u32) {
        let command = self.graph.nodes[place as usize].command;
        if let Some(block) = command.source {
            self.leave_block(place, block, READS);
        }
        if !command.is_read() {
            self.leave_block(place, command.block, CHANGES);
            let erase = &mut self.blocks[command.block.index()].erase;
            if *erase == place {
                *erase = NONE;
            }
        }
    }

    /// Enters another chain: [`Flash::chain`](crate::Flash::chain).
    pub(crate) fn chain(&mut self, present: Chain, next: Chain) -> Chain {
        match next.enter {
            Enter::Again => {
                self.seal(present);
                next
            }
            Enter::New if next.serial => Chain { is_page: present.is_page, ..Chain::of_page(present.from) },
            Enter::New => self.open(present.from, present.is_page),
            Enter::Resumed => {
                // Looked up first: a name of earlier times must not be found to be that of the join opened here.
                let earlier = self.graph.find(next.end).map(|_| next.end);
                let opened = self.open(present.from, false);
                if let (Some(join), Some(earlier)) = (self.graph.find(opened.end), earlier) {
                    self.graph.wait(join, earlier);
                }
                opened
            }
            Enter::After if present.serial => present,
            Enter::After => {
                let opened = self.open(present.end, present.is_page);
                self.seal(present);
                // Whatever was empty is over by now.
                Chain { from: present.end, ..opened }
            }
            Enter::Joined => self.joined(present, next),
            Enter::Waited => self.waited(present, next),
        }
    }

    /// A chain of independent commands that start after `from`.
    fn open(&mut self, from: Token, is_page: bool) -> Chain {
        let join = self.graph.add(Role::Join, 1, Command::NOTHING, self.now_ns);
        self.graph.wait(join, from);
        Chain { enter: Enter::Again, from, end: self.graph.token(join), is_page, ..Chain::COLLECTION }
    }

    /// Nothing more is issued in this chain.
    fn seal(&mut self, chain: Chain) {
        if !chain.serial
            && let Some(join) = self.graph.find(chain.end)
        {
            self.graph.release(join);
        }
    }

    /// `chain`, when it has also waited for `other`.
    fn joined(&mut self, chain: Chain, other: Chain) -> Chain {
        let end = if other.serial { other.from } else { other.end };
        if !chain.serial {
            if let Some(join) = self.graph.find(chain.end) {
                self.graph.wait(join, end);
            }
            return chain;
        }
        if self.graph.find(end).is_none() {
            return chain;
        }
        if self.graph.find(chain.from).is_none() {
            return Chain { from: end, ..chain };
        }
        let join = self.graph.add(Role::Join, 0, Command::NOTHING, self.now_ns);
        self.graph.wait(join, chain.from);
        self.graph.wait(join, end);
        Chain { from: self.graph.token(join), ..chain }
    }

    /// `chain`, when it has also waited for this collection.
    fn waited(&mut self, chain: Chain, collection: Chain) -> Chain {
        if !chain.serial || !chain.is_page || self.graph.find(collection.end).is_none() {
            return self.joined(chain, collection);
        }
        let command = Command { request: self.request, tag: self.issued, ..Command::NOTHING };
        let wait = self.graph.add(Role::Wait, 0, command, self.now_ns);
        self.graph.wait(wait, chain.from);
        self.graph.wait_beside(wait, collection.end);
        Chain { from: self.graph.token(wait), ..chain }
    }

    /// Sees to all nodes that wait for nothing any more.
    fn settle(&mut self) {
        let mut at = 0;
        while let Some(&place) = self.graph.ready.get(at) {
            at += 1;
            let Command { die, start_ns, tag, noted, .. } = self.graph.nodes[place as usize].command;
            let role = self.graph.nodes[place as usize].role;
            if role == Role::Wait {
                self.note_wait(place);
                self.graph.end(place);
            } else if role == Role::Request {
                let (tag, end_ns, dies) = (tag as u32, self.now_ns, &self.dies);
                let last = self.graph.nodes[place as usize].step;
                let response = self.responses.response(last, noted, |die| dies[die as usize].channel);
                self.finished.push_back(Finished { tag, start_ns: start_ns.min(end_ns), end_ns, response });
                self.graph.end(place);
            } else {
                self.enqueue(place);
                self.touch_die(die);
            }
        }
        self.graph.ready.clear();
    }

    fn touch_die(&mut self, die: u32) {
        let changed = &mut self.dies[die as usize].changed;
        if !core::mem::replace(changed, true) {
            self.changed_dies.push(die);
        }
    }

    fn touch_channel(&mut self, channel: u32) {
        let changed = &mut self.channels[channel as usize].changed;
        if !core::mem::replace(changed, true) {
            self.changed_channels.push(channel);
        }
    }

    /// What dies and channels do next, from this instant on.
    fn choose(&mut self) {
        let mut at = 0;
        while let Some(&die) = self.changed_dies.get(at) {
            at += 1;
            self.dies[die as usize].changed = false;
            self.choose_for(die);
        }
        self.changed_dies.clear();
        let mut at = 0;
        while let Some(&channel) = self.changed_channels.get(at) {
            at += 1;
            self.channels[channel as usize].changed = false;
            self.grant(channel);
        }
        self.changed_channels.clear();
    }
}

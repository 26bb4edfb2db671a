//! Placement at once and by events, each against one that is written down as the rule says and is slow; and what keeps
//! the data right, under every policy.

use super::*;
use crate::{PageTime, Tally};

/// A command as it was issued.
#[derive(Clone, Debug)]
struct Issued {
    op: Op,
    cause: Cause,
    block: Block,
    ppn: Ppn,
    /// What it reads, if it does.
    source: Option<(Block, Ppn)>,
    /// Whether it is an erase, or a program of what is no host page.
    is_barrier: bool,
    now_ns: u64,
    /// Commands that its chain has it wait for, and waits.
    chain: Vec<usize>,
    /// These commands, and those of the waits.
    after: Vec<usize>,
}

/// A wait for a collection is known by a number from here on.
const WAIT: usize = 1 << 32;

/// A page waited for a collection.
struct Wait {
    /// What its chain had got to.
    before: Vec<usize>,
    /// The commands of the collection.
    of: Vec<usize>,
    now_ns: u64,
}

/// A chain as a list of commands.
#[derive(Clone, Default)]
struct Links {
    inner: Option<Chain>,
    serial: bool,
    /// What no command of it starts before.
    from: Vec<usize>,
    /// What its next stage waits for beside that.
    end: Vec<usize>,
}

impl Links {
    fn all(&self) -> Vec<usize> {
        self.from.iter().chain(&self.end).copied().collect()
    }
}

/// A request: what each of its pages waits for, and how many commands were issued by its end.
#[derive(Default)]
struct Asked {
    pages: Vec<Vec<usize>>,
    issued: usize,
}

/// A timeline, and beside it the commands with all that each waits for.
struct Watched {
    t: Timeline<Blank>,
    issued: Vec<Issued>,
    asked: Vec<Asked>,
    waits: Vec<Wait>,
    now_ns: u64,
    /// The present chain, and all that were left. A chain's `from` is its place among these; 0 is that of no chain.
    present: Links,
    left: Vec<Links>,
    copy_back: bool,
}

impl Watched {
    fn on(t: Timeline<Blank>, copy_back: bool) -> Watched {
        let none = vec![Links::default()];
        Watched {
            t,
            issued: Vec::new(),
            asked: Vec::new(),
            waits: Vec::new(),
            now_ns: 0,
            present: Links::default(),
            left: none,
            copy_back,
        }
    }

    fn note(
        &mut self,
        (op, cause, is_barrier): (Op, Cause, bool),
        ppn: Ppn,
        source: Option<Ppn>,
        chain: Vec<usize>,
    ) -> usize {
        let g = self.t.geometry();
        let source = source.map(|ppn| (g.block_of(ppn), ppn));
        let (block, now_ns, after) = (g.block_of(ppn), self.now_ns, commands_of(&self.waits, &chain));
        self.issued.push(Issued { op, cause, block, ppn, source, is_barrier, now_ns, chain, after });
        self.issued.len() - 1
    }

    /// A command of the present chain.
    fn add(&mut self, op: (Op, Cause, bool), ppn: Ppn, source: Option<Ppn>) {
        let number = self.note(op, ppn, source, self.present.from.clone());
        self.ended(number);
    }

    fn note_copy(&mut self, cause: Cause, from: Ppn, to: Ppn, is_barrier: bool) {
        let g = *self.t.geometry();
        let [source, target] = [from, to].map(|ppn| g.block_of(ppn));
        if self.copy_back && (g.die_of(source), g.plane_of(source)) == (g.die_of(target), g.plane_of(target)) {
            self.add((Op::Program, cause, is_barrier), to, Some(from));
        } else {
            let read = self.note((Op::Read, cause, false), from, Some(from), self.present.from.clone());
            let program = self.note((Op::Program, cause, is_barrier), to, None, vec![read]);
            self.ended(program);
        }
    }

    fn ended(&mut self, number: usize) {
        if self.present.serial {
            self.present.from = vec![number];
        } else {
            self.present.end.push(number);
        }
    }
}

impl Flash for Watched {
    type User = ();
    type Fault = Infallible;
    fn geometry(&self) -> &Geometry {
        self.t.geometry()
    }
    fn read(&mut self, ppn: Ppn, cause: Cause) -> Result<(Oob, Payload<'_, ()>), Infallible> {
        self.add((Op::Read, cause, false), ppn, Some(ppn));
        self.t.read(ppn, cause)
    }
    fn read_oob(&mut self, ppn: Ppn, cause: Cause) -> Result<Option<Oob>, Infallible> {
        self.add((Op::OobRead, cause, false), ppn, Some(ppn));
        self.t.read_oob(ppn, cause)
    }
    fn program(&mut self, ppn: Ppn, oob: Oob, data: Payload<'_, ()>, cause: Cause) -> Result<(), Infallible> {
        self.add((Op::Program, cause, !oob.kind.is_host()), ppn, None);
        self.t.program(ppn, oob, data, cause)
    }
    fn append(&mut self, ppn: Ppn, at: u32, bytes: &[u8], mark: u16, cause: Cause) -> Result<(), Infallible> {
        self.add((Op::PartialProgram, cause, true), ppn, None);
        self.t.append(ppn, at, bytes, mark, cause)
    }
    fn copy(
        &mut self,
        from: Ppn,
        to: Ppn,
        cause: Cause,
        edit: impl FnOnce(&mut Oob, &mut [u32]),
    ) -> Result<Oob, Infallible> {
        let Ok(oob) = self.t.copy(from, to, cause, edit);
        self.note_copy(cause, from, to, !oob.kind.is_host());
        Ok(oob)
    }
    fn copy_run(
        &mut self,
        from: Ppn,
        live: u64,
        to: Ppn,
        program: u64,
        cause: Cause,
        moved: impl FnMut(u32, Ppn),
    ) -> (u32, Result<(), Infallible>) {
        for (bit, to) in (0..64).filter(|bit| live >> bit & 1 == 1).zip(to.0..) {
            self.note_copy(cause, Ppn(from.0 + bit), Ppn(to), false);
        }
        self.t.copy_run(from, live, to, program, cause, moved)
    }
    fn erase(&mut self, block: Block, cause: Cause) -> Result<(), Infallible> {
        self.add((Op::Erase, cause, true), self.t.geometry().page(block, 0), None);
        self.t.erase(block, cause)
    }
    fn chain(&mut self, next: Chain) -> Chain {
        let named = |left: &[Links]| left[next.from as usize].clone();
        let outer = self.present.clone();
        let inner = match next.enter {
            Enter::Again => {
                self.present = named(&self.left);
                self.present.inner.unwrap()
            }
            Enter::New => {
                self.present = Links { inner: None, serial: next.serial, from: outer.from.clone(), end: Vec::new() };
                next
            }
            Enter::Resumed => {
                let earlier = named(&self.left);
                self.present = Links { inner: None, serial: false, from: outer.from.clone(), end: earlier.all() };
                Chain { enter: Enter::Resumed, ..earlier.inner.unwrap_or(Chain::COLLECTION) }
            }
            Enter::After => {
                self.present.from = self.present.all();
                next
            }
            Enter::Joined => {
                let other = named(&self.left);
                let ends = other.all();
                if outer.serial {
                    self.present.from.extend(ends)
                } else {
                    self.present.end.extend(ends)
                }
                Chain { enter: Enter::Joined, ..other.inner.unwrap() }
            }
            Enter::Waited => {
                let other = named(&self.left);
                let (before, of) = (outer.all(), commands_of(&self.waits, &other.all()));
                if outer.serial {
                    self.present.from = vec![WAIT + self.waits.len()];
                    self.waits.push(Wait { before, of, now_ns: self.now_ns });
                } else {
                    self.present.end.extend(of);
                }
                Chain { enter: Enter::Waited, ..other.inner.unwrap() }
            }
        };
        let inner = self.t.chain(inner);
        self.left.push(Links { inner: Some(inner), ..outer });
        Chain { enter: Enter::Again, serial: inner.serial, from: self.left.len() as u64 - 1, ..Chain::COLLECTION }
    }
}

impl Clocked for Watched {
    fn arrive(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
        self.asked.push(Asked::default());
        self.t.arrive(now_ns);
    }
    fn page_begin(&mut self) {
        self.present = Links { serial: true, ..Links::default() };
        self.t.page_begin();
    }
    fn page_end(&mut self) -> PageTime {
        let asked = self.asked.last_mut().unwrap();
        asked.pages.push(self.present.from.clone());
        asked.issued = self.issued.len();
        self.t.page_end()
    }
    fn each_part(&self, add: impl FnMut(bool, Cause, u64)) {
        self.t.each_part(add);
    }
    fn scheduler(&mut self) -> Option<&mut Scheduler> {
        self.t.scheduler()
    }
    fn tally(&self) -> &Tally {
        self.t.tally()
    }
    fn command_ns(&self, op: Op, mode: Mode) -> u64 {
        self.t.command_ns(op, mode)
    }
}

/// Commands, with those that waits are for.
fn commands_of(waits: &[Wait], of: &[usize]) -> Vec<usize> {
    let mut commands = Vec::new();
    for &number in of {
        match number.checked_sub(WAIT) {
            Some(wait) => {
                commands.extend(commands_of(waits, &waits[wait].before));
                commands.extend(&waits[wait].of);
            }
            None => commands.push(number),
        }
    }
    commands
}

fn is_program(op: Op) -> bool {
    matches!(op, Op::Program | Op::PartialProgram)
}

/// What keeps the data right: whether a command must follow one that was issued before it.
fn follows(later: &Issued, earlier: &Issued) -> bool {
    let touches = |block| earlier.block == block || earlier.source.is_some_and(|(source, _)| source == block);
    let is_of = |ppn| earlier.ppn == ppn && is_program(earlier.op);
    match later.op {
        Op::Erase => touches(later.block),
        Op::PartialProgram if is_of(later.ppn) => true,
        _ if later.source.is_some_and(|(_, ppn)| is_of(ppn)) => true,
        _ => {
            earlier.op == Op::Erase && (touches(later.block) || later.source.is_some_and(|(source, _)| touches(source)))
        }
    }
}

/// For each command those that it must follow: by its chain, to keep the data right, and for barriers if there are any.
fn waits(issued: &[Issued], barriers: bool) -> Vec<Vec<usize>> {
    let is_change = |command: &Issued| command.op == Op::Erase || is_program(command.op);
    let of = |(number, command): (usize, &Issued)| {
        let is_barrier = barriers && command.is_barrier;
        let right =
            (0..number).filter(|&before| follows(command, &issued[before]) || is_barrier && is_change(&issued[before]));
        command.after.iter().copied().chain(right).collect()
    };
    issued.iter().enumerate().map(of).collect()
}

/// How long a command takes in the cells and on the channel.
fn cell_and_transfer(g: &Geometry, timing: &Timing, op: Op) -> (u64, u64) {
    match op {
        Op::Read => (timing.read_ns, timing.page_transfer_ns),
        Op::OobRead => (timing.oob_read_ns, timing.oob_transfer_ns),
        Op::Program => (timing.program_ns, timing.page_transfer_ns),
        Op::PartialProgram => {
            let whole = u64::from(g.page_bytes + g.oob_bytes);
            (timing.partial_program_ns, timing.page_transfer_ns * 100 / whole)
        }
        Op::Erase => (timing.erase_ns, 0),
    }
}

/// Backlogs of each command's channel, with its own transfer.
fn backlogs(g: &Geometry, timing: &Timing, issued: &[Issued]) -> Vec<u64> {
    let mut backlogs = vec![0u64; g.channels as usize];
    let of = |command: &Issued| {
        let backlog = &mut backlogs[g.channel_of(g.die_of(command.block)) as usize];
        if command.op != Op::Erase {
            *backlog = command.now_ns.max(*backlog) + cell_and_transfer(g, timing, command.op).1;
        }
        *backlog
    };
    issued.iter().map(of).collect()
}

/// How long commands take, and when their channel is through with them at the earliest: die, length, least end.
fn lengths(g: &Geometry, timing: &Timing, issued: &[Issued]) -> Vec<(usize, u64, u64)> {
    let of = |(command, backlog): (&Issued, u64)| {
        let (cell, transfer) = cell_and_transfer(g, timing, command.op);
        let has_backlog = g.die_count() > g.channels && command.op != Op::Erase;
        let least = if has_backlog { backlog + if is_program(command.op) { cell } else { 0 } } else { 0 };
        (g.die_of(command.block).index(), cell + transfer, least)
    };
    issued.iter().zip(backlogs(g, timing, issued)).map(of).collect()
}

/// Where the time of each request went: the chain of the page that ends last, and of each command what its die worked
/// for before it, and its channel if that held it back. Idle time goes to what is behind it.
fn responses(
    (g, timing): (&Geometry, &Timing),
    issued: &[Issued],
    (asked, paused): (&[Asked], &[Wait]),
    times: &[(u64, u64)],
) -> Vec<Response> {
    let (lengths, backlogs) = (lengths(g, timing, issued), backlogs(g, timing, issued));
    // Of times and causes, each up to its end.
    let add = |sorted: &[(u64, Cause)], (from, to): (u64, u64), sums: &mut crate::NsByCause| {
        let mut start = 0;
        for &(end, cause) in sorted {
            sums[cause as usize] += end.min(to).saturating_sub(start.max(from));
            start = end;
        }
    };
    let end_of = |of: usize| {
        // A collection may have ended before the request came.
        let since = of.checked_sub(WAIT).map_or(0, |wait| paused[wait].now_ns);
        commands_of(paused, &[of]).into_iter().map(|command| times[command].1).fold(since, u64::max)
    };
    // The first of those that end last.
    let last = |of: &[usize]| of.iter().copied().reduce(|a, b| if end_of(b) > end_of(a) { b } else { a });
    let of = |request: &Asked| {
        let booked = |command: &usize, die: usize| lengths[*command].0 == die;
        let of_die = |die: usize| {
            let mut booked: Vec<usize> = (0..request.issued).filter(|command| booked(command, die)).collect();
            booked.sort_by_key(|&command| times[command]);
            booked.iter().map(|&command| (times[command].1, issued[command].cause)).collect::<Vec<_>>()
        };
        let of_channel = |channel: u32| {
            let is_on = |command: &usize| g.channel_of(g.die_of(issued[*command].block)) == channel;
            let queued = (0..request.issued).filter(|command| is_on(command) && issued[*command].op != Op::Erase);
            queued.map(|command| (backlogs[command], issued[command].cause)).collect::<Vec<_>>()
        };
        let mut response = Response::default();
        let ends: Vec<usize> = request.pages.iter().filter_map(|page| last(page)).collect();
        let mut at = last(&ends);
        while let Some(command) = at {
            if let Some(Wait { before, of, now_ns }) = command.checked_sub(WAIT).map(|wait| &paused[wait]) {
                at = last(before);
                let reached = at.map_or(*now_ns, end_of);
                if let Some(last) = last(of) {
                    add(&of_die(lengths[last].0), (reached, times[last].1), &mut response.waited_ns);
                }
                continue;
            }
            let Issued { op, cause, block, ref chain, now_ns, .. } = issued[command];
            at = last(chain);
            let ((start, end), (die, length, _)) = (times[command], lengths[command]);
            response.own_ns[cause as usize] += length;
            add(&of_die(die), (at.map_or(now_ns, end_of), start), &mut response.waited_ns);
            let queued = backlogs[command].saturating_sub(cell_and_transfer(g, timing, op).1);
            let held = (queued.saturating_sub(end - start - length), queued);
            add(&of_channel(g.channel_of(g.die_of(block))), held, &mut response.waited_ns);
        }
        response
    };
    asked.iter().map(of).collect()
}

/// Every command in turn, in the first gap among all bookings of its die.
fn placed(g: &Geometry, issued: &[Issued], waits: &[Vec<usize>], lengths: &[(usize, u64, u64)]) -> Vec<(u64, u64)> {
    let mut bookings: Vec<Vec<(u64, u64)>> = vec![Vec::new(); g.die_count() as usize];
    let mut times: Vec<(u64, u64)> = Vec::new();
    for (number, &(die, length, least)) in lengths.iter().enumerate() {
        let from = waits[number].iter().map(|&before| times[before].1).fold(issued[number].now_ns, u64::max);
        let mut idle = 0;
        let bookings = &mut bookings[die];
        let end = |start: u64| (start + length).max(least);
        let at = bookings.iter().position(|&(start, ends)| {
            // What takes no time starts within a gap, not between bookings that touch.
            let fits = from.max(idle) < start && end(from.max(idle)) <= start;
            if !fits {
                idle = ends;
            }
            fits
        });
        let start = from.max(idle);
        bookings.insert(at.unwrap_or(bookings.len()), (start, end(start)));
        times.push((start, end(start)));
    }
    times
}

/// At each instant every idle die begins the command that was issued first among those that have arrived and wait for
/// nothing.
fn dispatched(g: &Geometry, issued: &[Issued], waits: &[Vec<usize>], lengths: &[(usize, u64, u64)]) -> Vec<(u64, u64)> {
    const LATER: (u64, u64) = (u64::MAX, u64::MAX);
    let mut times = vec![LATER; issued.len()];
    let mut now = 0;
    loop {
        let mut free: Vec<bool> = vec![true; g.die_count() as usize];
        for (&(die, ..), &(start, end)) in lengths.iter().zip(&times) {
            free[die] &= start == u64::MAX || end <= now;
        }
        let mut changed = false;
        // What takes no time is over when the dies choose again.
        let before = times.clone();
        for number in 0..issued.len() {
            let (die, length, least) = lengths[number];
            let ready = issued[number].now_ns <= now && waits[number].iter().all(|&other| before[other].1 <= now);
            if times[number] == LATER && ready && free[die] {
                times[number] = (now, (now + length).max(least));
                free[die] = false;
                changed = true;
            }
        }
        if changed {
            continue;
        }
        let ends = times.iter().map(|&(_, end)| end);
        let Some(next) = ends.chain(issued.iter().map(|c| c.now_ns)).filter(|&at| at > now && at < u64::MAX).min()
        else {
            return times;
        };
        now = next;
    }
}

/// That every command follows what it must.
fn check(issued: &[Issued], waits: &[Vec<usize>], times: &[(u64, u64)], what: &str) {
    assert_eq!(issued.len(), times.len());
    for (number, before) in waits.iter().enumerate() {
        let (start, end) = times[number];
        assert!(issued[number].now_ns <= start && start <= end);
        for &before in before {
            let (first, second) = (&issued[before], &issued[number]);
            assert!(times[before].1 <= start, "{what}: {first:?} {:?}, {second:?} {start}", times[before]);
        }
    }
}

/// The same times; if not, tells of the first command in time that differs.
fn same(found: &[(u64, u64)], expected: &[(u64, u64)], issued: &[Issued], what: &str) {
    assert_eq!(found.len(), expected.len());
    let both = found.iter().zip(expected).enumerate().filter(|(_, (found, expected))| found != expected);
    let first = both.min_by_key(|(_, (found, expected))| found.0.min(expected.0));
    assert!(first.is_none(), "{first:?}, {:?}, of {what}", first.map(|(number, _)| &issued[number]));
}

#[test]
fn a_booking_takes_the_first_gap_of_its_die() {
    let mut rng = Rng::new(21);
    let (mut overtaken, mut commands, mut has_waits) = (0, 0, 0);
    for seed in 0..200 {
        let (g, timing) = any_device(&mut rng, 3, true);
        let barriers = seed % 2 == 1;
        let mut t = device(g, timing);
        t.keep_barriers(barriers);
        let mut watched = Watched::on(t, false);
        let requests = served(&mut watched, rng.below(4) as usize, false, seed);
        let Watched { t, issued, asked, waits: paused, .. } = watched;
        let (waits, lengths) = (waits(&issued, barriers), lengths(&g, &timing, &issued));
        check(&issued, &waits, &t.log, "placed at once");
        let what = alloc::format!("seed {seed}, barriers {barriers}: {g:?}, {timing:?}");
        same(&t.log, &placed(&g, &issued, &waits, &lengths), &issued, &what);
        let went = responses((&g, &timing), &issued, (&asked, &paused), &t.log);
        for (number, (request, expected)) in requests.iter().zip(&went).enumerate() {
            assert_eq!(request.2, *expected, "request {number} of {what}");
            has_waits += usize::from(expected.waited_ns.iter().filter(|&&ns| ns > 0).count() > 2);
        }
        let mut free = vec![0; g.die_count() as usize];
        for (&(die, ..), &(_, end)) in lengths.iter().zip(&t.log) {
            overtaken += usize::from(end < free[die]);
            free[die] = end.max(free[die]);
        }
        commands += issued.len();
    }
    assert!(overtaken * 50 > commands, "{overtaken} of {commands} commands took a gap");
    assert!(has_waits > 1000, "{has_waits} of 12000 requests waited for several causes");
}

#[test]
fn a_die_begins_the_first_issued_of_the_commands_that_are_ready() {
    let mut rng = Rng::new(22);
    for seed in 0..200 {
        let (g, timing) = any_device(&mut rng, 3, true);
        let barriers = seed % 2 == 1;
        let mut t = device(g, timing);
        t.keep_barriers(barriers);
        t.queue(Scheduling { policy: Policy::InOrder, bus: Bus::Backlog, features: Features::default() });
        let mut watched = Watched::on(t, false);
        // In a closed loop a request may arrive at an instant because what takes no time ended at it.
        let timeless =
            [timing.read_ns, timing.oob_read_ns, timing.program_ns, timing.partial_program_ns, timing.erase_ns];
        let depth = if timeless.contains(&0) { 0 } else { rng.below(4) as usize };
        served(&mut watched, depth, false, seed);
        let Watched { mut t, issued, .. } = watched;
        let log = t.unqueue().unwrap().log;
        let (waits, lengths) = (waits(&issued, barriers), lengths(&g, &timing, &issued));
        let what = alloc::format!("seed {seed}, barriers {barriers}: {g:?}, {timing:?}");
        same(&log, &dispatched(&g, &issued, &waits, &lengths), &issued, &what);
    }
}

#[test]
fn no_policy_lets_a_command_overtake_what_it_must_follow() {
    let mut rng = Rng::new(23);
    for seed in 0..200 {
        let (g, timing) = any_device(&mut rng, 1 + seed as u32 % 3, true);
        let suspend = Suspend { program_ns: rng.below(30), erase_ns: rng.below(90), resume_ns: rng.below(9), most: 3 };
        let features = Features {
            suspend: rng.chance(0.7).then_some(suspend),
            multi_plane: MultiPlane::ALL[rng.below(3) as usize],
            copy_back: rng.chance(0.5),
            cache_read: rng.chance(0.5),
            cache_program: rng.chance(0.5),
        };
        for policy in [Policy::InOrder, Policy::ReadFirst, Policy::Suspend] {
            for bus in [Bus::Arbitrated, Bus::Backlog] {
                let mut t = device(g, timing);
                t.keep_barriers(seed % 2 == 1);
                t.queue(Scheduling { policy, bus, features });
                let mut watched = Watched::on(t, features.copy_back);
                served(&mut watched, rng.below(4) as usize, false, seed);
                let Watched { mut t, issued, .. } = watched;
                let log = t.unqueue().unwrap().log;
                check(
                    &issued,
                    &waits(&issued, seed % 2 == 1),
                    &log,
                    &alloc::format!("{policy:?}, {bus:?}, {features:?}, seed {seed}"),
                );
            }
        }
    }
}

/// What waits for the slices of a collection waits for those on every die, and a chain of another time is no wait.
#[test]
fn a_collection_over_several_requests_ends_after_all_of_its_slices() {
    let g = Geometry { channels: 2, blocks_per_die: 4, pages_per_block: 4, ..Geometry::default() };
    for queued in [false, true] {
        let mut t = device(g, TIMING);
        let scheduling = Scheduling { policy: Policy::InOrder, bus: Bus::Arbitrated, features: NONE_OF_THEM };
        if queued {
            t.queue(scheduling);
        }
        let mut earlier = Chain::COLLECTION;
        // Two slices copy from die 0 to die 1, the third erases on die 0: 35 + 210 each, the second program from 245
        // on.
        for (now, page) in [(0, 0), (10, 1), (20, 2)] {
            t.arrive(now);
            t.page_begin();
            let mut gc = Collection::resume(&mut t, earlier);
            if page < 2 {
                gc.copy(Ppn(page), Ppn(16 + page), Cause::DataGc, |_, _| ()).unwrap();
            } else {
                gc.then();
                gc.erase(Block(0), Cause::DataGc).unwrap();
            }
            earlier = gc.pause();
            // The page itself waits for no slice.
            t.read(Ppn(20), Cause::Host).unwrap();
            t.page_end();
            if let Some(queues) = t.scheduler() {
                queues.submit(0);
            }
        }
        if let Some(queues) = t.scheduler() {
            queues.run_out();
        }
        let placed = t.log.clone();
        let log = t.scheduler().map_or(placed, |queues| queues.log.clone());
        let [_, first, _, _, second, _, erase, _] = log[..] else { panic!("{log:?}") };
        assert_eq!(erase.0, first.1.max(second.1), "{log:?}");
        // Time begins anew: the chain says nothing any more, whatever its numbers mean now.
        if queued {
            t.unqueue();
        } else {
            t.reset();
        }
        let start = t.log.len();
        t.page_begin();
        let mut gc = Collection::resume(&mut t, earlier);
        gc.then();
        gc.erase(Block(0), Cause::DataGc).unwrap();
        assert_eq!(gc.pause().from, 0);
        assert_eq!(t.log[start..], [(0, 1500)]);
        t.queue(scheduling);
        t.arrive(7);
        t.page_begin();
        let mut gc = Collection::resume(&mut t, earlier);
        gc.then();
        gc.erase(Block(0), Cause::DataGc).unwrap();
        drop(gc);
        t.page_end();
        t.scheduler().unwrap().submit(0);
        t.scheduler().unwrap().run_out();
        assert_eq!(t.scheduler().unwrap().log, [(7, 1507)]);
    }
}

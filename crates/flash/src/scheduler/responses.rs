//! Where the time of each response went: what dies and channels do is written down as it happens, and the chain of a
//! request is followed back when it has ended.
//!
//! A die works for the command in its cells; with none there, for the one in its page register. While it only asks for
//! the channel, it waits for what the channel carries, and that is what is written down.

use super::graph::{NONE, Token};
use crate::response::{Diary, Entry};
use crate::{Cause, Response};
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

/// What a die is occupied with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Occupied {
    /// Nothing: the time goes to what comes next.
    No,
    /// A command for this cause.
    With(Cause),
    /// It asks for its channel.
    Asking,
}

/// A die or a channel: its diary, with the run of one cause that is not entered yet, and what it does since when.
#[derive(Clone, Debug)]
struct Part {
    diary: Diary,
    run: Entry,
    occupied: Occupied,
    since_ns: u64,
}

impl Part {
    const IDLE: Part =
        Part { diary: Diary::EMPTY, run: Entry { end_ns: 0, cause: Cause::Host }, occupied: Occupied::No, since_ns: 0 };

    /// Up to `end_ns` it worked for this cause.
    fn append(&mut self, end_ns: u64, cause: Cause, past_ns: u64) {
        if cause != self.run.cause {
            self.diary.enter(self.run, past_ns);
            self.run.cause = cause;
        }
        self.run.end_ns = end_ns;
    }
}

/// A command of a page's chain that has ended, or a wait of the chain for a collection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) cause: Cause,
    pub(super) die: u32,
    /// The command before it in its chain.
    pub(super) before: u32,
    /// When its chain had got so far, when it started, and when it ended, ns.
    pub(super) ready_ns: u64,
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    /// From when to its end the die was its own for `die_ns`, and others' for the rest; and for which cause the die
    /// worked then, for commands that others have joined work for the cause of the first.
    pub(super) die_from_ns: u64,
    pub(super) die_ns: u64,
    pub(super) die_cause: Cause,
    /// What it waited for on its channel, from and to.
    pub(super) channel_ns: (u64, u64),
}

impl Step {
    /// No command: the chain waited for what the die worked for, from and to, behind step `before`.
    pub(super) fn of_wait(die: u32, before: u32, (ready_ns, end_ns): (u64, u64)) -> Step {
        let (cause, at_end) = (Cause::Host, (end_ns, end_ns));
        Step {
            cause,
            die,
            before,
            ready_ns,
            start_ns: end_ns,
            end_ns,
            die_from_ns: end_ns,
            die_ns: 0,
            die_cause: cause,
            channel_ns: at_end,
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Responses {
    dies: Vec<Part>,
    channels: Vec<Part>,
    /// Steps of requests under way, each with the one noted before it for the same request; others of these places are
    /// free.
    steps: Vec<(Step, u32)>,
    free: Vec<u32>,
    /// Requests in the order of their arrivals: nobody asks for what was before the first of those under way.
    arrived: VecDeque<(Token, u64)>,
}

impl Responses {
    pub(super) fn new(dies: usize, channels: usize) -> Responses {
        Responses {
            dies: vec![Part::IDLE; dies],
            channels: vec![Part::IDLE; channels],
            steps: Vec::new(),
            free: Vec::new(),
            arrived: VecDeque::new(),
        }
    }

    /// A request arrives. Says which others are under way.
    pub(super) fn arrive(&mut self, request: Token, now_ns: u64, is_under_way: impl Fn(Token) -> bool) {
        while self.arrived.front().is_some_and(|&(request, _)| !is_under_way(request)) {
            self.arrived.pop_front();
        }
        self.arrived.push_back((request, now_ns));
    }

    fn past_ns(&self) -> u64 {
        self.arrived.front().map_or(0, |&(_, arrival_ns)| arrival_ns)
    }

    /// From now on the die is occupied so.
    pub(super) fn occupy(&mut self, die: u32, channel: u32, occupied: Occupied, now_ns: u64) {
        let past_ns = self.past_ns();
        if self.dies[die as usize].occupied == Occupied::Asking {
            // A transfer that goes on.
            self.carry(channel, self.channels[channel as usize].occupied, now_ns);
        }
        let (part, channel) = (&mut self.dies[die as usize], &self.channels[channel as usize]);
        match part.occupied {
            Occupied::With(cause) => part.append(now_ns, cause, past_ns),
            Occupied::Asking if part.since_ns < now_ns => {
                let mut at_ns = part.since_ns;
                let waited = (part.since_ns, now_ns.min(channel.run.end_ns));
                channel.diary.between(waited, channel.run, |cause, ns| {
                    at_ns += ns;
                    part.append(at_ns, cause, past_ns);
                });
            }
            Occupied::Asking | Occupied::No => {}
        }
        (part.occupied, part.since_ns) = (occupied, now_ns);
    }

    /// What the die does now it has done up to now.
    pub(super) fn up_to_now(&mut self, die: u32, channel: u32, now_ns: u64) {
        self.occupy(die, channel, self.dies[die as usize].occupied, now_ns);
    }

    /// From now on the channel carries a transfer for a cause, or nothing.
    pub(super) fn carry(&mut self, channel: u32, occupied: Occupied, now_ns: u64) {
        let past_ns = self.past_ns();
        let part = &mut self.channels[channel as usize];
        if let Occupied::With(cause) = part.occupied {
            part.append(now_ns, cause, past_ns);
        }
        (part.occupied, part.since_ns) = (occupied, now_ns);
    }

    /// A transfer for this cause is added to the backlog of a channel, up to `end_ns`.
    pub(super) fn queue(&mut self, channel: u32, end_ns: u64, cause: Cause) {
        let past_ns = self.past_ns();
        self.channels[channel as usize].append(end_ns, cause, past_ns);
    }

    /// A command of a page's chain has ended; `noted` is the step of the same request that was noted last.
    pub(super) fn note(&mut self, step: Step, noted: u32) -> u32 {
        match self.free.pop() {
            Some(place) => {
                self.steps[place as usize] = (step, noted);
                place
            }
            None => {
                self.steps.push((step, noted));
                self.steps.len() as u32 - 1
            }
        }
    }

    /// A request has ended, by step `last`; `noted` is the last step that was noted for it. Its steps are forgotten.
    pub(super) fn response(&mut self, last: u32, noted: u32, channel_of: impl Fn(u32) -> u32) -> Response {
        let mut response = Response::default();
        let mut at = last;
        while let Some((step, _)) = self.steps.get(at as usize) {
            let (cause, waited_ns) = (step.cause as usize, &mut response.waited_ns);
            let (die, channel) = (&self.dies[step.die as usize], &self.channels[channel_of(step.die) as usize]);
            if step.ready_ns < step.start_ns {
                die.diary.add((step.ready_ns, step.start_ns), die.run, waited_ns);
            }
            let mut own_ns = step.end_ns - step.start_ns;
            let others_ns = step.end_ns - step.die_from_ns - step.die_ns;
            if others_ns > 0 {
                die.diary.add((step.die_from_ns, step.end_ns), die.run, waited_ns);
                waited_ns[step.die_cause as usize] -= step.die_ns;
                own_ns -= others_ns;
            }
            let (from_ns, to_ns) = step.channel_ns;
            if from_ns < to_ns {
                channel.diary.add(step.channel_ns, channel.run, waited_ns);
                own_ns -= to_ns - from_ns;
            }
            response.own_ns[cause] += own_ns;
            at = step.before;
        }
        let mut place = noted;
        while place != NONE {
            self.free.push(place);
            place = self.steps[place as usize].1;
        }
        response
    }
}

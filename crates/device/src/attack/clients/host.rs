//! A client that asks at random, and notes what it was told.

use super::history::{Operation, What};
use super::{CELL, CELLS_OF_A_PAGE, LATE, Wrong, connect, found};
use crate::nbd::client::Client;
use crate::nbd::protocol::{Command, FLAG_FUA, FLAG_NO_HOLE, Request};
use flash::Rng;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::time::Instant;

/// The error number of a device that fails.
const IO: u32 = 5;

/// The value that a cell is full of.
pub(super) fn value_of(cell: &[u8]) -> Result<u64, String> {
    let value = &cell[..8];
    if cell.chunks(8).any(|word| word != value) {
        return Err("a mixture of two writes".into());
    }
    Ok(u64::from_le_bytes(value.try_into().expect("eight bytes")))
}

/// So many cells full of a value.
pub(super) fn cells_of(value: u64, count: u64) -> Vec<u8> {
    value.to_le_bytes().repeat((count * CELL / 8) as usize)
}

/// What a host knows in the end.
#[derive(Default)]
pub(super) struct Told {
    /// Cell by cell.
    pub(super) operations: Vec<(u64, Operation)>,
    /// When acknowledged flushes were asked for and answered.
    pub(super) flushes: Vec<(Instant, Instant)>,
    pub(super) requests: u64,
    /// How often it went away.
    pub(super) vanished: u64,
    /// Requests that were answered with an error of the device.
    pub(super) errors: u64,
}

/// A request that is not answered yet.
struct Asked {
    command: Command,
    flags: u16,
    cells: Range<u64>,
    value: u64,
    at: Instant,
}

impl Asked {
    /// The cells that it changes: a discard leaves what lies in a part of a page alone.
    fn changes(&self) -> Range<u64> {
        match self.command {
            Command::Trim => {
                let whole = |cell: u64| cell / CELLS_OF_A_PAGE * CELLS_OF_A_PAGE;
                let first = whole(self.cells.start + CELLS_OF_A_PAGE - 1);
                first..whole(self.cells.end).max(first)
            }
            Command::Read | Command::Flush => 0..0,
            _ => self.cells.clone(),
        }
    }
}

/// What hosts have in common.
#[derive(Clone)]
pub(super) struct Plan<'a> {
    pub(super) path: &'a Path,
    /// The cells that they ask for.
    pub(super) cells: Range<u64>,
    /// Requests of each.
    pub(super) requests: u64,
    /// What is discarded stays so.
    pub(super) durable: bool,
}

/// A client with up to three requests under way.
pub(super) struct Host<'a> {
    plan: Plan<'a>,
    client: Client,
    number: u64,
    /// It goes away now and then.
    is_fickle: bool,
    rng: Rng,
    asked: BTreeMap<u64, Asked>,
    told: Told,
}

impl<'a> Host<'a> {
    pub(super) fn connect(plan: Plan<'a>, (number, is_fickle): (u64, bool), rng: Rng) -> io::Result<Host<'a>> {
        let client = Client::over(connect(plan.path)?)?;
        Ok(Host { plan, client, number, is_fickle, rng, asked: BTreeMap::new(), told: Told::default() })
    }

    /// Asks what it has to ask, and waits for all answers.
    ///
    /// # Errors
    /// What the server may not do.
    pub(super) fn run(mut self) -> Result<Told, Wrong> {
        while self.told.requests < self.plan.requests {
            if self.is_fickle && self.rng.chance(0.05) {
                self.vanish()?;
            } else if self.asked.len() < 1 + self.rng.below(3) as usize {
                self.ask()?;
            } else {
                self.take()?;
            }
        }
        while !self.asked.is_empty() {
            self.take()?;
        }
        Ok(self.told)
    }

    /// A number that no other write has, once the request is counted.
    fn value(&self) -> u64 {
        (self.number + 1) << 32 | self.told.requests
    }

    fn ask(&mut self) -> io::Result<()> {
        self.told.requests += 1;
        let all = self.plan.cells.end - self.plan.cells.start;
        let (first, most) = (self.rng.below(all), if self.rng.chance(0.1) { all } else { 5 });
        let count = (1 + self.rng.below(most)).min(all - first);
        let cells = self.plan.cells.start + first..self.plan.cells.start + first + count;
        let (command, value) = match self.rng.below(9) {
            0..3 => (Command::Write, self.value()),
            3 => (Command::WriteZeroes, 0),
            4 => (Command::Trim, 0),
            5 => (Command::Flush, 0),
            _ => (Command::Read, 0),
        };
        let mut flags = if command != Command::Flush && self.rng.chance(0.2) { FLAG_FUA } else { 0 };
        if command == Command::WriteZeroes && self.rng.chance(0.5) {
            flags |= FLAG_NO_HOLE;
        }
        let data = if command == Command::Write { cells_of(value, count) } else { Vec::new() };
        let (offset, bytes) = if command == Command::Flush { (0, 0) } else { (cells.start * CELL, count * CELL) };
        let at = Instant::now();
        let cookie = self.client.send(command, flags, offset, bytes as u32, &data)?;
        self.asked.insert(cookie, Asked { command, flags, cells, value, at });
        Ok(())
    }

    /// What a request was, as far as is known.
    fn note(&mut self, asked: &Asked, ended: Instant, certain: bool) {
        let what = match asked.command {
            Command::Trim if !self.plan.durable => What::Discard,
            _ if certain && asked.flags & FLAG_FUA != 0 => What::Fua(asked.value),
            _ => What::Write(asked.value),
        };
        let operation = Operation { asked: asked.at, ended, certain, what };
        self.told.operations.extend(asked.changes().map(|cell| (cell, operation)));
    }

    fn take(&mut self) -> Result<(), Wrong> {
        let answer = self.client.receive()?;
        let ended = Instant::now();
        let asked = self.asked.remove(&answer.cookie).ok_or_else(|| found("an answer to what nobody asked"))?;
        match answer.error {
            0 => {}
            IO => {
                self.told.errors += 1;
                self.note(&asked, ended, false);
                return Ok(());
            }
            error => return Err(found(format!("{:?} is answered with error {error}", asked.command))),
        }
        match asked.command {
            Command::Flush => self.told.flushes.push((asked.at, ended)),
            Command::Read => {
                if answer.data.len() as u64 != (asked.cells.end - asked.cells.start) * CELL {
                    return Err(found(format!("a read of {:?} has {} bytes", asked.cells, answer.data.len())));
                }
                for (cell, data) in asked.cells.clone().zip(answer.data.chunks(CELL as usize)) {
                    let what = What::Read(value_of(data).map_err(|what| found(format!("cell {cell}: {what}")))?);
                    self.told.operations.push((cell, Operation { asked: asked.at, ended, certain: true, what }));
                }
            }
            _ => self.note(&asked, ended, true),
        }
        Ok(())
    }

    /// Goes away without its answers, perhaps in the middle of a write, and comes back: at once, or when the server has
    /// seen it.
    fn vanish(&mut self) -> io::Result<()> {
        if self.rng.chance(0.5) {
            // It has a number of its own, which nothing may ever have.
            self.told.requests += 1;
            let cells = self.plan.cells.clone();
            let data = cells_of(self.value(), cells.end - cells.start);
            let (offset, length) = (cells.start * CELL, data.len() as u32);
            let request = Request { flags: 0, command: Command::Write, cookie: 0, offset, length };
            let sent = if self.rng.chance(0.5) { data.len() - 1 } else { self.rng.below(data.len() as u64) as usize };
            self.client.send_raw(&[&request.encode()[..], &data[..sent]].concat())?;
        }
        let is_seen = self.rng.chance(0.5);
        if is_seen {
            self.client.leave()?;
        }
        let gone = if is_seen { Instant::now() } else { Instant::now() + LATE };
        for asked in std::mem::take(&mut self.asked).into_values() {
            self.note(&asked, gone, false);
        }
        self.told.vanished += 1;
        self.client = Client::over(connect(self.plan.path)?)?;
        Ok(())
    }
}

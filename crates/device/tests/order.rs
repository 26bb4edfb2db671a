//! Several clients at once, some of which vanish, and power that fails: whether all that they were told can have
//! happened in one order, and whether what is left on flash is what that order had come to after a flush.
//!
//! The model is a page that takes one operation after another. Requests overlap, so each operation happened somewhere
//! between its question and its answer; one that was never answered happened after its question, or not at all. What
//! outlives power is a state of the page behind every write that was answered before an answered flush was asked for,
//! and behind every answered write with FUA.

#[path = "support/memory.rs"]
mod memory;

use device::export::{Done, Export, ExportError, Extent};
use device::nbd::client::Client;
use device::nbd::protocol::{Command, FLAG_FUA, Request};
use device::nbd::{Address, Options, Server};
use flash::Rng;
use memory::Memory;
use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::time::{Duration, Instant};

/// What an operation did to a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum What {
    /// It left this value.
    Write(u64),
    /// It left this value, and its answer said that it lasts.
    Fua(u64),
    /// It found this value.
    Read(u64),
    /// Not a request: this value outlived power. From the question of the last acknowledged flush on.
    Kept(u64),
}

/// An operation on a page: when it was asked for, and when it was answered, if it was.
#[derive(Clone, Copy, Debug)]
struct Operation {
    asked: Instant,
    answered: Option<Instant>,
    what: What,
}

/// Whether there is an order of the operations, each of them somewhere between its question and its answer, in which
/// every read finds what was written last. Zero was there before. (Wing and Gong, "Testing and verifying concurrent
/// objects", 1993, with the states that were tried kept in mind.)
fn is_linearisable(operations: &[Operation]) -> bool {
    let mut sorted = operations.to_vec();
    sorted.sort_by_key(|operation| operation.asked);
    let mut tried = HashSet::new();
    let mut left: Vec<(Vec<bool>, usize, u64)> = vec![(vec![false; sorted.len()], 0, 0)];
    while let Some((done, first, value)) = left.pop() {
        let first = (first..sorted.len()).find(|&i| !done[i]).unwrap_or(sorted.len());
        let pending = || (first..sorted.len()).filter(|&i| !done[i]);
        let Some(end) = pending().filter_map(|i| sorted[i].answered).min() else { return true };
        if !tried.insert((done[first..].to_vec(), first, value)) {
            continue;
        }
        for i in pending().take_while(|&i| sorted[i].asked <= end) {
            let (may_be, then) = match sorted[i].what {
                What::Write(next) | What::Fua(next) => (true, next),
                What::Read(found) => (found == value, value),
                What::Kept(found) => {
                    let lasts = |i: usize| matches!(sorted[i].what, What::Fua(_)) && sorted[i].answered.is_some();
                    (found == value && !pending().any(lasts), value)
                }
            };
            if may_be {
                let mut after = done.clone();
                after[i] = true;
                left.push((after, first, then));
            }
        }
    }
    false
}

#[test]
fn the_check_knows_what_cannot_have_happened() {
    use What::{Fua, Kept, Read, Write};
    let began = Instant::now();
    let at = |ms: u64| began + Duration::from_millis(ms);
    let operation = |from, to, what| Operation { asked: at(from), answered: Some(at(to)), what };
    let vanished = |from, what| Operation { asked: at(from), answered: None, what };
    // Two writes at once, and reads in the order of either.
    let writes = [operation(0, 10, Write(1)), operation(0, 10, Write(2))];
    let read = |from, value| operation(from, from + 1, Read(value));
    assert!(is_linearisable(&[writes[0], writes[1], read(11, 1), read(12, 1)]));
    assert!(is_linearisable(&[writes[0], writes[1], read(3, 0), read(4, 2), read(6, 1), read(12, 1)]));
    assert!(!is_linearisable(&[writes[0], writes[1], read(11, 1), read(13, 2)]), "back and forth");
    assert!(!is_linearisable(&[writes[0], writes[1], read(11, 0)]), "lost");
    assert!(!is_linearisable(&[writes[0], writes[1], read(4, 2), read(6, 0)]), "undone");
    assert!(!is_linearisable(&[read(0, 1), operation(5, 9, Write(1))]), "before it was written");
    // A client that was not answered.
    assert!(is_linearisable(&[vanished(0, Write(1)), read(5, 0)]), "it did not happen");
    assert!(is_linearisable(&[vanished(0, Write(1)), read(5, 0), read(90, 1)]), "it did, late");
    assert!(!is_linearisable(&[vanished(0, Write(1)), read(5, 1), read(90, 0)]), "it did, and was undone");
    assert!(!is_linearisable(&[read(0, 1), vanished(5, Write(1))]), "before it was asked for");
    // Power failed at 100; a flush was asked for at 50 and acknowledged.
    let [first, second, third] = [operation(0, 10, Write(1)), operation(60, 70, Write(2)), operation(80, 90, Write(3))];
    let kept = |from, value| operation(from, 100, Kept(value));
    assert!([1, 2, 3].iter().all(|&value| is_linearisable(&[first, second, third, kept(50, value)])));
    assert!(!is_linearisable(&[first, second, third, kept(50, 0)]), "it was flushed");
    assert!(is_linearisable(&[first, second, third, kept(0, 0)]), "nothing was flushed");
    assert!(!is_linearisable(&[first, second, third, read(95, 3), kept(95, 2)]), "a flush at 95 has the last");
    let lasting = operation(60, 70, Fua(2));
    assert!(!is_linearisable(&[first, lasting, third, kept(50, 1)]), "FUA");
    assert!(is_linearisable(&[first, lasting, third, kept(50, 2)]));
    assert!(is_linearisable(&[first, vanished(60, Fua(2)), third, kept(50, 1)]), "nobody was told that it lasts");
}

const PAGE: usize = Memory::BLOCK_BYTES;
const PAGES: u64 = 6;

/// A device with a cache: what outlives power is what there was at the last flush before it failed.
#[derive(Debug)]
struct Cached {
    memory: Memory,
    kept: Vec<u8>,
    /// Operations until power fails.
    left: u32,
    off_at: Option<Instant>,
}

impl Cached {
    fn new(left: u32) -> Cached {
        let memory = Memory::new(PAGE * 16);
        Cached { kept: memory.data.clone(), memory, left, off_at: None }
    }

    /// One more operation begins. What was answered before the moment at which power failed was carried out before it.
    fn begin(&mut self) {
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            self.off_at.get_or_insert_with(Instant::now);
        }
    }
}

impl Export for Cached {
    fn bytes(&self) -> u64 {
        self.memory.bytes()
    }
    fn block_bytes(&self) -> u32 {
        self.memory.block_bytes()
    }
    fn read(&mut self, offset: u64, out: &mut [u8]) -> Result<Done, ExportError> {
        self.begin();
        self.memory.read(offset, out)
    }
    fn write(&mut self, offset: u64, data: &[u8]) -> Result<Done, ExportError> {
        self.begin();
        self.memory.write(offset, data)
    }
    fn trim(&mut self, offset: u64, bytes: u64) -> Result<Done, ExportError> {
        self.begin();
        self.memory.trim(offset, bytes)
    }
    fn zero(&mut self, offset: u64, bytes: u64) -> Result<Done, ExportError> {
        self.begin();
        self.memory.zero(offset, bytes)
    }
    fn flush(&mut self) -> Result<Done, ExportError> {
        self.begin();
        if self.off_at.is_none() {
            self.kept.copy_from_slice(&self.memory.data);
        }
        self.memory.flush()
    }
    fn extents(&mut self, offset: u64, bytes: u64, out: &mut Vec<Extent>) -> Result<(), ExportError> {
        self.memory.extents(offset, bytes, out)
    }
    fn idle(&mut self) -> bool {
        false
    }
}

/// The value that a page is full of.
fn value_of(page: &[u8]) -> u64 {
    let value = &page[..8];
    assert!(page.chunks(8).all(|word| word == value), "a mixture of two writes");
    u64::from_le_bytes(value.try_into().unwrap())
}

/// Four clients, each with several requests under way, write, zero, discard, read and flush the same six pages. Two of
/// them vanish now and then, in the middle of a write too, and come back. Somewhere power fails.
#[test]
fn overlapping_requests_of_several_clients_happen_in_one_order() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let (mut vanished, mut dropped, mut older) = (0, 0, 0);
    for seed in 0..60 {
        let began = Instant::now();
        let cached = Cached::new(20 + 3 * seed as u32);
        let server = Server::start(&Address::Unix(path.clone()), cached, Options::default()).unwrap();
        let told: Vec<Told> = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..4u64)
                .map(|number| {
                    let path = &path;
                    scope.spawn(move || Host::connect(path, number, Rng::new(seed * 4 + number)).run())
                })
                .collect();
            clients.into_iter().map(|client| client.join().unwrap()).collect()
        });
        let Cached { memory, kept, off_at, .. } = server.stop().unwrap();
        let end = Instant::now();
        let off_at = off_at.unwrap_or(end);
        let flushes = told.iter().flat_map(|told| &told.flushes).filter(|&&(_, answered)| answered < off_at);
        let flushed = flushes.map(|&(asked, _)| asked).max().unwrap_or(began);
        vanished += told.iter().map(|told| told.vanished).sum::<u64>();
        let mut pages: BTreeMap<u64, Vec<Operation>> = BTreeMap::new();
        for (page, mut operation) in told.into_iter().flat_map(|told| told.operations) {
            if let (What::Fua(value), Some(answered)) = (operation.what, operation.answered)
                && answered >= off_at
            {
                operation.what = What::Write(value);
            }
            dropped += u64::from(operation.answered.is_none());
            pages.entry(page).or_default().push(operation);
        }
        assert_eq!(pages.len() as u64, PAGES);
        for (page, operations) in &mut pages {
            let [held, left] = [&memory.data, &kept].map(|bytes| value_of(&bytes[*page as usize * PAGE..][..PAGE]));
            older += u64::from(held != left);
            operations.push(Operation { asked: end, answered: Some(end), what: What::Read(held) });
            assert!(is_linearisable(operations), "seed {seed}, page {page}: {operations:?}");
            let outlived = |value| Operation { asked: flushed, answered: Some(end), what: What::Kept(value) };
            operations.push(outlived(left));
            assert!(is_linearisable(operations), "seed {seed}, page {page}, after power was gone: {operations:?}");
            // What nobody wrote would not do.
            *operations.last_mut().unwrap() = outlived(1 << 40);
            assert!(!is_linearisable(operations));
        }
    }
    assert!(vanished > 50 && dropped > 50, "{vanished} times gone, {dropped} operations were not answered");
    assert!(older > 10, "{older} pages lost something with power");
}

/// What a host knows in the end.
#[derive(Default)]
struct Told {
    /// Page by page.
    operations: Vec<(u64, Operation)>,
    /// When acknowledged flushes were asked for and answered.
    flushes: Vec<(Instant, Instant)>,
    /// How often it went away.
    vanished: u64,
}

/// A request that is not answered yet.
struct Asked {
    command: Command,
    flags: u16,
    first: u64,
    count: u64,
    value: u64,
    at: Instant,
}

/// A client that asks at random, up to three requests at a time.
struct Host<'a> {
    path: &'a Path,
    client: Client,
    number: u64,
    rng: Rng,
    asked: BTreeMap<u64, Asked>,
    told: Told,
}

impl<'a> Host<'a> {
    fn connect(path: &'a Path, number: u64, rng: Rng) -> Host<'a> {
        let client = Client::connect(path).unwrap();
        Host { path, client, number, rng, asked: BTreeMap::new(), told: Told::default() }
    }

    fn run(mut self) -> Told {
        for round in 0..60 {
            if self.number >= 2 && self.rng.chance(0.1) {
                self.vanish(round);
            } else if self.asked.len() < 1 + self.rng.below(3) as usize {
                self.ask(round);
            } else {
                self.take();
            }
        }
        while !self.asked.is_empty() {
            self.take();
        }
        self.told
    }

    /// A number that no other write has.
    fn value(&self, round: u64) -> u64 {
        (self.number + 1) << 32 | (round + 1)
    }

    fn ask(&mut self, round: u64) {
        let (first, count) = (self.rng.below(PAGES), 1 + self.rng.below(3));
        let count = count.min(PAGES - first);
        let (command, value) = match self.rng.below(9) {
            0..3 => (Command::Write, self.value(round)),
            3 => (Command::WriteZeroes, 0),
            4 => (Command::Trim, 0),
            5 => (Command::Flush, 0),
            _ => (Command::Read, 0),
        };
        let flags = if command != Command::Flush && self.rng.chance(0.2) { FLAG_FUA } else { 0 };
        let data = if command == Command::Write { pages_of(value, count) } else { Vec::new() };
        let bytes = if command == Command::Flush { 0 } else { count as u32 * PAGE as u32 };
        let offset = if command == Command::Flush { 0 } else { first * PAGE as u64 };
        let at = Instant::now();
        let cookie = self.client.send(command, flags, offset, bytes, &data).unwrap();
        self.asked.insert(cookie, Asked { command, flags, first, count, value, at });
    }

    fn take(&mut self) {
        let answer = self.client.receive().unwrap();
        let answered = Instant::now();
        assert_eq!(answer.error, 0);
        let asked = self.asked.remove(&answer.cookie).unwrap();
        if asked.command == Command::Flush {
            self.told.flushes.push((asked.at, answered));
            return;
        }
        for i in 0..asked.count {
            let what = match asked.command {
                Command::Read => What::Read(value_of(&answer.data[i as usize * PAGE..][..PAGE])),
                _ if asked.flags & FLAG_FUA != 0 => What::Fua(asked.value),
                _ => What::Write(asked.value),
            };
            let operation = Operation { asked: asked.at, answered: Some(answered), what };
            self.told.operations.push((asked.first + i, operation));
        }
    }

    /// Goes away without waiting for answers, perhaps with half a write on the way, and comes back.
    fn vanish(&mut self, round: u64) {
        if self.rng.chance(0.5) {
            let request = Request { flags: 0, command: Command::Write, cookie: 0, offset: 0, length: 3 * PAGE as u32 };
            let data = pages_of(self.value(round), 3);
            let sent = 1 + self.rng.below(data.len() as u64 - 1) as usize;
            self.client.send_raw(&request.encode()).unwrap();
            self.client.send_raw(&data[..sent]).unwrap();
        }
        self.client = Client::connect(self.path).unwrap();
        self.told.vanished += 1;
        for asked in std::mem::take(&mut self.asked).into_values() {
            if matches!(asked.command, Command::Read | Command::Flush) {
                continue;
            }
            let operation = Operation { asked: asked.at, answered: None, what: What::Write(asked.value) };
            self.told.operations.extend((asked.first..asked.first + asked.count).map(|page| (page, operation)));
        }
    }
}

/// So many pages full of a value.
fn pages_of(value: u64, count: u64) -> Vec<u8> {
    value.to_le_bytes().repeat(count as usize * PAGE / 8)
}

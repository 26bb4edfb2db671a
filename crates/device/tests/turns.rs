//! Several clients at once: who waits for whom, and whether what they read can have happened in one order.

#[path = "support/memory.rs"]
mod memory;

use device::export::{Done, Export, ExportError, Extent};
use device::nbd::client::Client;
use device::nbd::protocol::{Command, FLAG_NO_HOLE};
use device::nbd::server::{HOLE_BYTES, SLICE_BYTES};
use device::nbd::{Address, Options, Server};
use flash::Rng;
use memory::Memory;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;

/// A device that notes the bytes of each operation, and holds the first one until it is let go.
struct Gate {
    bytes: u64,
    log: Arc<Mutex<Vec<(u64, u64)>>>,
    open: Arc<(Mutex<bool>, Condvar)>,
}

impl Gate {
    fn pass(&self, offset: u64, bytes: u64) -> Result<Done, ExportError> {
        let (open, opened) = &*self.open;
        drop(opened.wait_while(open.lock().unwrap(), |open| !*open).unwrap());
        self.log.lock().unwrap().push((offset, bytes));
        Ok(Done::default())
    }
}

impl Export for Gate {
    fn bytes(&self) -> u64 {
        self.bytes
    }
    fn block_bytes(&self) -> u32 {
        4096
    }
    fn read(&mut self, offset: u64, out: &mut [u8]) -> Result<Done, ExportError> {
        self.pass(offset, out.len() as u64)
    }
    fn write(&mut self, offset: u64, data: &[u8]) -> Result<Done, ExportError> {
        self.pass(offset, data.len() as u64)
    }
    fn trim(&mut self, offset: u64, bytes: u64) -> Result<Done, ExportError> {
        self.pass(offset, bytes)
    }
    fn zero(&mut self, offset: u64, bytes: u64) -> Result<Done, ExportError> {
        self.pass(offset, bytes)
    }
    fn flush(&mut self) -> Result<Done, ExportError> {
        self.pass(0, 0)
    }
    fn extents(&mut self, _: u64, bytes: u64, out: &mut Vec<Extent>) -> Result<(), ExportError> {
        out.push(Extent { bytes, hole: false });
        Ok(())
    }
    fn idle(&mut self) -> bool {
        false
    }
}

fn wait_until(what: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !what() {
        assert!(Instant::now() < deadline, "it never comes");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// 1 GiB of zeros without holes held the device for 4 s, and a ping beside 40 readers took as long as all they read.
#[test]
fn a_ping_waits_for_one_slice_of_each_other_client() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let (log, open) = (Arc::default(), Arc::new((Mutex::new(false), Condvar::new())));
    let gate = Gate { bytes: 4096 * MIB, log: Arc::clone(&log), open: Arc::clone(&open) };
    let server = Server::start(&Address::Unix(path.clone()), gate, Options::default()).unwrap();
    let long = [
        (Command::WriteZeroes, FLAG_NO_HOLE, 1024 * MIB),
        (Command::WriteZeroes, 0, 1024 * MIB),
        (Command::Trim, 0, 1024 * MIB),
        (Command::Read, 0, 32 * MIB),
        (Command::Write, 0, 32 * MIB),
    ];
    let data = vec![1; 32 << 20];
    let mut clients: Vec<Client> = Vec::new();
    for (number, &(command, flags, bytes)) in long.iter().enumerate() {
        let mut client = Client::connect(&path).unwrap();
        let data = if command == Command::Write { &data[..] } else { &[] };
        client.send(command, flags, 0, bytes as u32, data).unwrap();
        clients.push(client);
        wait_until(|| server.statistics().in_flight == number as u64 + 1);
    }
    let mut ping = Client::connect(&path).unwrap();
    let ping_at = 4095 * MIB;
    ping.send(Command::Read, 0, ping_at, 1, &[]).unwrap();
    wait_until(|| server.statistics().in_flight == long.len() as u64 + 1);
    // It is in the queue a moment later.
    std::thread::sleep(Duration::from_millis(100));
    *open.0.lock().unwrap() = true;
    open.1.notify_all();
    assert_eq!(ping.receive().unwrap().error, 0);
    std::thread::scope(|scope| {
        for client in &mut clients {
            scope.spawn(|| assert_eq!(client.receive().unwrap().error, 0));
        }
    });
    let log = log.lock().unwrap().clone();
    let before: u64 = log.iter().take_while(|&&(offset, _)| offset != ping_at).map(|&(_, bytes)| bytes).sum();
    assert!(before <= 3 * SLICE_BYTES + 2 * HOLE_BYTES, "{before} bytes before the ping");
    // Nothing is done twice, and nothing is left out.
    let all: u64 = log.iter().map(|&(_, bytes)| bytes).sum();
    assert_eq!(all, 1 + long.iter().map(|&(.., bytes)| bytes).sum::<u64>());
    server.stop().unwrap();
}

/// An operation on a page: when it was asked for and when it was answered, and the value that it left or found.
#[derive(Clone, Copy, Debug)]
struct Operation {
    asked: Instant,
    answered: Instant,
    writes: bool,
    value: u64,
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
        if first == sorted.len() {
            return true;
        }
        if !tried.insert((done[first..].to_vec(), first, value)) {
            continue;
        }
        let pending = || (first..sorted.len()).filter(|&i| !done[i]);
        let end = pending().map(|i| sorted[i].answered).min().expect("one is left");
        for i in pending().take_while(|&i| sorted[i].asked <= end) {
            if sorted[i].writes || sorted[i].value == value {
                let mut after = done.clone();
                after[i] = true;
                left.push((after, first, sorted[i].value));
            }
        }
    }
    false
}

#[test]
fn the_check_knows_what_cannot_have_happened() {
    let began = Instant::now();
    let operation = |from: u64, to: u64, writes, value| Operation {
        asked: began + Duration::from_millis(from),
        answered: began + Duration::from_millis(to),
        writes,
        value,
    };
    // Two writes at once, and reads in the order of either.
    let writes = [operation(0, 10, true, 1), operation(0, 10, true, 2)];
    let read = |from, value| operation(from, from + 1, false, value);
    assert!(is_linearisable(&[writes[0], writes[1], read(11, 1), read(12, 1)]));
    assert!(is_linearisable(&[writes[0], writes[1], read(3, 0), read(4, 2), read(6, 1), read(12, 1)]));
    assert!(!is_linearisable(&[writes[0], writes[1], read(11, 1), read(13, 2)]), "back and forth");
    assert!(!is_linearisable(&[writes[0], writes[1], read(11, 0)]), "lost");
    assert!(!is_linearisable(&[writes[0], writes[1], read(4, 2), read(6, 0)]), "undone");
    assert!(!is_linearisable(&[read(0, 1), operation(5, 9, true, 1)]), "before it was written");
}

const PAGE: usize = Memory::BLOCK_BYTES;
const PAGES: u64 = 6;

/// Four clients, each with several requests under way, write, zero, discard and read the same six pages.
#[test]
fn overlapping_requests_of_several_clients_happen_in_one_order() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    for seed in 0..12 {
        let server = Server::start(&Address::Unix(path.clone()), Memory::new(PAGE * 16), Options::default()).unwrap();
        let histories: Vec<Vec<(u64, Operation)>> = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..4u64)
                .map(|number| {
                    let mut client = Client::connect(&path).unwrap();
                    scope.spawn(move || run(&mut client, number, &mut Rng::new(seed * 4 + number)))
                })
                .collect();
            clients.into_iter().map(|client| client.join().unwrap()).collect()
        });
        let mut pages: HashMap<u64, Vec<Operation>> = HashMap::new();
        for (page, operation) in histories.into_iter().flatten() {
            pages.entry(page).or_default().push(operation);
        }
        assert_eq!(pages.len() as u64, PAGES);
        for page in 0..PAGES {
            let operations = &pages[&page];
            assert!(is_linearisable(operations), "seed {seed}, page {page}: {operations:?}");
            // Of what was read last something else would not do.
            let mut changed = operations.clone();
            let read = changed.iter_mut().filter(|operation| !operation.writes).max_by_key(|read| read.asked);
            read.expect("it was read").value = 1 << 40;
            assert!(!is_linearisable(&changed));
        }
        server.stop().unwrap();
    }
}

/// What a client asks at random, up to three requests at a time; what each did to each page.
fn run(client: &mut Client, number: u64, rng: &mut Rng) -> Vec<(u64, Operation)> {
    let mut history = Vec::new();
    let mut asked: HashMap<u64, (Command, u64, u64, u64, Instant)> = HashMap::new();
    for round in 0..60 {
        if asked.len() < 1 + rng.below(3) as usize {
            let (first, count) = (rng.below(PAGES), 1 + rng.below(3));
            let count = count.min(PAGES - first);
            let value = number << 32 | (round + 1);
            let data: Vec<u8> = value.to_le_bytes().repeat(count as usize * PAGE / 8);
            let command = match rng.below(8) {
                0..3 => Command::Write,
                3 => Command::WriteZeroes,
                4 => Command::Trim,
                _ => Command::Read,
            };
            let (data, value) = if command == Command::Write { (&data[..], value) } else { (&[][..], 0) };
            let (offset, bytes) = (first * PAGE as u64, count as u32 * PAGE as u32);
            let now = Instant::now();
            let cookie = client.send(command, 0, offset, bytes, data).unwrap();
            asked.insert(cookie, (command, first, count, value, now));
            continue;
        }
        take(client, &mut asked, &mut history);
    }
    while !asked.is_empty() {
        take(client, &mut asked, &mut history);
    }
    history
}

fn take(
    client: &mut Client,
    asked: &mut HashMap<u64, (Command, u64, u64, u64, Instant)>,
    history: &mut Vec<(u64, Operation)>,
) {
    let answer = client.receive().unwrap();
    let answered = Instant::now();
    assert_eq!(answer.error, 0);
    let (command, first, count, value, asked) = asked.remove(&answer.cookie).unwrap();
    let writes = command != Command::Read;
    for i in 0..count {
        let value = if writes {
            value
        } else {
            let page = &answer.data[i as usize * PAGE..][..PAGE];
            let value = &page[..8];
            assert!(page.chunks(8).all(|word| word == value), "a mixture of two writes");
            u64::from_le_bytes(value.try_into().unwrap())
        };
        history.push((first + i, Operation { asked, answered, writes, value }));
    }
}

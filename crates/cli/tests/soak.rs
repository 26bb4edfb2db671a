//! A server that is killed under load, again and again: what was flushed is there, what came later is old or new.
//!
//! Two clients, each on its half of the device, keep sixteen requests under way: writes of one to four pages, discards,
//! writes that must be durable, flushes. After some milliseconds the server is killed, and started anew on the same
//! image. Each page says which request wrote it, and the oracle knows which of them a page may hold: the last one that
//! was answered before a completed flush was sent, or any later one, whole. What was found is what must be found from
//! then on.
//!
//! `FTLAB_SOAK` is the number of rounds per scheme (`make soak`: 200); a handful without it.

#[path = "support/served.rs"]
mod served;

use device::nbd::client::Client;
use device::nbd::protocol::{Command, FLAG_FUA};
use flash::Rng;
use served::Bench;
use std::collections::BTreeMap;
use std::time::Duration;

const PAGE: u64 = 4096;
const DEVICE: &str = "agrawal08:capacity=8MiB,page=4KiB,spare=35%,pages_per_block=16";
const PAGES: u64 = (8 << 20) / PAGE;
const DEPTH: usize = 16;

/// What a page may hold.
#[derive(Clone, Debug, Default)]
struct Allowed {
    /// The version that is certainly durable; 0 is a page of zeros that was never written.
    durable: u64,
    /// Versions asked for since, in order.
    later: Vec<u64>,
    /// The newest that was answered.
    answered: u64,
}

/// A client's part of the device, and what it may find there.
struct Half {
    pages: std::ops::Range<u64>,
    allowed: BTreeMap<u64, Allowed>,
    /// Versions that discarded their pages: they read as zeros.
    discards: std::collections::BTreeSet<u64>,
    version: u64,
}

/// A request under way: the pages and version that it writes, or what was answered when a flush was sent.
enum Pending {
    Write { first: u64, count: u64, version: u64, durable: bool },
    Flush(Vec<(u64, u64)>),
}

fn content(page: u64, version: u64) -> Vec<u8> {
    [page.to_le_bytes(), version.to_le_bytes()].concat().repeat(PAGE as usize / 16)
}

impl Half {
    fn new(pages: std::ops::Range<u64>) -> Half {
        let allowed = pages.clone().map(|page| (page, Allowed::default())).collect();
        Half { pages, allowed, discards: Default::default(), version: 0 }
    }

    /// Works until the server is gone; how many requests were answered.
    fn work(&mut self, mut client: Client, rng: &mut Rng) -> u64 {
        let mut pending: BTreeMap<u64, Pending> = BTreeMap::new();
        let mut answers = 0;
        loop {
            while pending.len() < DEPTH {
                match self.ask(&mut client, rng) {
                    Ok((cookie, asked)) => drop(pending.insert(cookie, asked)),
                    Err(_) => return answers,
                }
            }
            let Ok(answer) = client.receive() else { return answers };
            assert_eq!(answer.error, 0, "the device failed a request");
            let asked = pending.remove(&answer.cookie).expect("an answer to no request");
            self.answered(asked);
            answers += 1;
        }
    }

    fn ask(&mut self, client: &mut Client, rng: &mut Rng) -> std::io::Result<(u64, Pending)> {
        let kind = rng.below(40);
        if kind == 0 {
            let answered = self.allowed.iter().map(|(&page, allowed)| (page, allowed.answered)).collect();
            return Ok((client.send(Command::Flush, 0, 0, 0, &[])?, Pending::Flush(answered)));
        }
        let count = 1 + rng.below(4);
        let first = self.pages.start + rng.below(self.pages.end - self.pages.start - count);
        self.version += 1;
        let version = self.version;
        for page in first..first + count {
            self.allowed.get_mut(&page).expect("a page of this half").later.push(version);
        }
        let (offset, bytes) = (first * PAGE, (count * PAGE) as u32);
        let durable = kind == 1;
        let cookie = if kind < 6 && !durable {
            self.discards.insert(version);
            client.send(Command::Trim, 0, offset, bytes, &[])?
        } else {
            let data: Vec<u8> = (first..first + count).flat_map(|page| content(page, version)).collect();
            client.send(Command::Write, if durable { FLAG_FUA } else { 0 }, offset, bytes, &data)?
        };
        Ok((cookie, Pending::Write { first, count, version, durable }))
    }

    fn answered(&mut self, asked: Pending) {
        let mut durable = |page: u64, version: u64| {
            let allowed = self.allowed.get_mut(&page).expect("a page of this half");
            if version > allowed.durable {
                allowed.durable = version;
                allowed.later.retain(|&later| later > version);
            }
        };
        match asked {
            Pending::Flush(answered) => answered.into_iter().for_each(|(page, version)| durable(page, version)),
            Pending::Write { first, count, version, durable: at_once } => {
                for page in first..first + count {
                    if at_once {
                        durable(page, version);
                    }
                }
                for page in first..first + count {
                    let allowed = self.allowed.get_mut(&page).expect("a page of this half");
                    allowed.answered = allowed.answered.max(version);
                }
            }
        }
    }

    /// Looks at every page; what is found is durable from now on.
    fn verify(&mut self, client: &mut Client) {
        for (&page, allowed) in &mut self.allowed {
            let answer = client.ask(Command::Read, 0, page * PAGE, PAGE as u32, &[]).unwrap();
            assert_eq!(answer.error, 0, "page {page} cannot be read");
            let zeros = answer.data.iter().all(|&byte| byte == 0);
            let candidates = std::iter::once(allowed.durable).chain(allowed.later.iter().copied());
            let holds = |version: &u64| match *version == 0 || self.discards.contains(version) {
                true => zeros,
                false => answer.data == content(page, *version),
            };
            let found = candidates.rev().find(holds);
            let Some(version) = found else {
                let head = u64::from_le_bytes(answer.data[8..16].try_into().unwrap());
                panic!("page {page} begins with version {head}; allowed: {allowed:?}");
            };
            *allowed = Allowed { durable: version, later: Vec::new(), answered: version };
        }
    }
}

#[test]
fn nothing_that_was_flushed_is_lost_when_the_server_is_killed() {
    let rounds: u32 = match std::env::var("FTLAB_SOAK") {
        Ok(rounds) => rounds.parse().expect("FTLAB_SOAK is a number of rounds"),
        Err(_) => 5,
    };
    for scheme in ["page", "dftl", "dftl-e", "lazyftl"] {
        let bench = Bench::new(scheme, DEVICE);
        let mut halves = [Half::new(0..PAGES / 2), Half::new(PAGES / 2..PAGES)];
        let mut rng = Rng::new(u64::from(rounds)).fork(scheme);
        let mut answers = 0;
        for round in 1..=rounds {
            let served = bench.serve("");
            let mut client = served.client();
            halves.iter_mut().for_each(|half| half.verify(&mut client));
            let life = Duration::from_micros(2_000 + rng.below(250_000));
            let seeds = [rng.bits(), rng.bits()];
            answers += std::thread::scope(|scope| {
                let workers = halves.iter_mut().zip(seeds).map(|(half, seed)| {
                    let client = served.client();
                    scope.spawn(move || half.work(client, &mut Rng::new(seed)))
                });
                let workers: Vec<_> = workers.collect();
                std::thread::sleep(life);
                served.kill();
                workers.into_iter().map(|worker| worker.join().unwrap()).sum::<u64>()
            });
            if round % 20 == 0 {
                println!("{scheme}: {round} kills, {answers} requests answered, nothing lost");
            }
        }
        let served = bench.serve("");
        halves.iter_mut().for_each(|half| half.verify(&mut served.client()));
        served.stop();
        assert!(answers > u64::from(rounds) * 50, "{scheme}: hardly any load: {answers} requests in {rounds} rounds");
        println!("{scheme}: {rounds} kills, {answers} requests answered, nothing lost");
    }
}

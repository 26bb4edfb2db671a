//! How fast traces are parsed, per core: SPC and MSR text generated in memory, read as a file would be.
//!
//! Requests and bytes are counted and checked before any time is told. The hash of the stored bytes is part of the
//! reading; it is timed alone as well, so that the parsing without it can be told: 1/parsing = 1/both - 1/hash.
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "a program that measures and prints")]

use std::io::Cursor;
use std::sync::Arc;
use std::time::Instant;

use sha2::{Digest, Sha256};
use sim::workload::Source;
use sim::workload::format::{OpenOptions, TraceFile};

const REQUESTS: u64 = 3_000_000;
const ROUNDS: usize = 5;

/// A small generator of addresses; the quality of its randomness does not matter here.
fn scramble(number: u64) -> u64 {
    (number ^ number >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24
}

fn spc() -> Vec<u8> {
    let line = |n: u64| {
        let (us, r) = (n * 311, scramble(n));
        let kind = if r % 4 == 0 { 'R' } else { 'W' };
        format!(
            "{},{},{},{kind},{}.{:06}\n",
            r % 24,
            r % 40_000_000,
            (r % 16 + 1) * 512,
            us / 1_000_000,
            us % 1_000_000
        )
    };
    (0..REQUESTS).flat_map(|n| line(n).into_bytes()).collect()
}

fn msr() -> Vec<u8> {
    let line = |n: u64| {
        let (ticks, r) = (128_166_372_000_000_000 + n * 1_311, scramble(n));
        let kind = if r % 4 == 0 { "Read" } else { "Write" };
        format!("{ticks},usr,{},{kind},{},{},{}\n", r % 3, r % 500_000_000_000, (r % 16 + 1) * 4096, r % 100_000)
    };
    (0..REQUESTS).flat_map(|n| line(n).into_bytes()).collect()
}

fn read(text: &Arc<[u8]>) -> u64 {
    let mut trace = TraceFile::from_reader("bench", Box::new(Cursor::new(text.clone())), &OpenOptions::default())
        .expect("a generated trace is recognised");
    let mut batch = Vec::with_capacity(4096);
    let mut requests = 0;
    loop {
        batch.clear();
        trace.fill(&mut batch, 4096).expect("a generated trace is well-formed");
        if batch.is_empty() {
            assert!(trace.intake().sha256.is_some());
            return requests;
        }
        requests += batch.len() as u64;
    }
}

/// The least seconds of several rounds.
fn seconds(mut work: impl FnMut() -> u64, expected: u64) -> f64 {
    let round = |work: &mut dyn FnMut() -> u64| {
        let start = Instant::now();
        assert_eq!(work(), expected);
        start.elapsed().as_secs_f64()
    };
    (0..ROUNDS).map(|_| round(&mut work)).fold(f64::INFINITY, f64::min)
}

fn main() {
    for (name, text) in [("spc", spc()), ("msr", msr())] {
        let text: Arc<[u8]> = text.into();
        let bytes = text.len() as f64;
        println!("{name}: {REQUESTS} requests, {} bytes", text.len());
        let both = seconds(|| read(&text), REQUESTS);
        let hashed = seconds(|| u64::from(Sha256::digest(&text).len() == 32), 1);
        let tell = |what: &str, seconds: f64| {
            println!(
                "  {what:<22} {:7.0} MB/s  {:6.2} M requests/s",
                bytes / seconds / 1e6,
                REQUESTS as f64 / seconds / 1e6
            );
        };
        tell("parsed and hashed", both);
        tell("hash alone", hashed);
        tell("parsed without hash", both - hashed);
    }
}

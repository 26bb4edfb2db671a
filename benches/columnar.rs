//! How fast traces are decoded from the shipped form, a Parquet table, and how many bytes a request takes there.
//!
//! Without arguments: requests made up in memory. With arguments: these Parquet files. Requests are counted and checked
//! before any time is told; decoding goes through the trait that replay uses, and the hash of the stored bytes is part
//! of it. One thread, the time that it has on its core, the best of several rounds.
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "a program that measures and prints")]

use std::time::{Duration, Instant};

use columnar::{Table, write};
use sim::workload::format::OnError;
use sim::workload::generate::{Context, generate};
use sim::workload::{Request, Source};

const ROUNDS: usize = 9;

fn decoded(bytes: &bytes::Bytes, batch: &mut Vec<Request>) -> u64 {
    let mut table = Table::of_bytes("bench", bytes.clone(), OnError::Stop, None).expect("the table is sound");
    loop {
        batch.clear();
        table.fill(batch, 8192).expect("the table is sound");
        if batch.is_empty() {
            assert!(table.intake().sha256.is_some());
            return table.intake().requests;
        }
    }
}

/// Time that this thread has had on a core, where the system tells it.
fn on_core() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}

fn tell(name: &str, bytes: bytes::Bytes) {
    let mut batch = Vec::with_capacity(8192);
    let requests = decoded(&bytes, &mut batch);
    // Small tables are decoded several times a round, so that a round is long enough for the clock.
    let times = (2_000_000 / requests).max(1);
    let round = |batch: &mut Vec<Request>| {
        let (start, before) = (Instant::now(), on_core());
        for _ in 0..times {
            assert_eq!(decoded(&bytes, batch), requests);
        }
        let passed = match (before, on_core()) {
            (Some(before), Some(after)) => after - before,
            _ => start.elapsed(),
        };
        passed.as_secs_f64() / times as f64
    };
    let seconds = (0..ROUNDS).map(|_| round(&mut batch)).fold(f64::INFINITY, f64::min);
    println!(
        "{name}: {requests} requests, {:.2} bytes each, {:.1} M requests/s",
        bytes.len() as f64 / requests as f64,
        requests as f64 / seconds / 1e6
    );
}

fn main() {
    // Cargo hands every benchmark the flag --bench.
    let files: Vec<_> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    for file in &files {
        tell(file, std::fs::read(file).expect("the file can be read").into());
    }
    if files.is_empty() {
        let context = Context { capacity_bytes: 4 << 30, seed: 1 };
        let mut source = generate("zipf:requests=2M", &context).expect("a sound specification");
        let mut bytes = Vec::new();
        write(source.as_mut(), "zipf", OnError::Stop, &mut bytes).expect("a vector takes everything");
        tell("zipf", bytes.into());
    }
}

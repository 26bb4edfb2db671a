//! How fast traces are parsed, per core: lines of every text format, made up in memory, read as a file would be.
//!
//! Requests and bytes are counted and checked before any time is told. The hash of the stored bytes is part of the
//! reading; it is timed alone as well, so that the parsing without it can be told: 1/parsing = 1/both - 1/hash. Time is
//! the thread's own on its core, so that a busy machine tells about the same.
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "a program that measures and prints")]

use std::io::Cursor;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};
use sim::workload::Source;
use sim::workload::format::{Example, FORMATS, OpenOptions, TraceFile};

const REQUESTS: u64 = 1_000_000;
const ROUNDS: usize = 7;

/// A small generator of addresses; the quality of its randomness does not matter here.
fn scramble(number: u64) -> u64 {
    (number ^ number >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24
}

/// What stands before the lines of a format, and the line of request `n`.
fn made(format: &str, n: u64) -> Option<(&'static str, String)> {
    let r = scramble(n);
    let (us, is_read) = (n * 311, r.is_multiple_of(4));
    let (seconds, micros) = (us / 1_000_000, us % 1_000_000);
    let of = |read: &'static str, write: &'static str| if is_read { read } else { write };
    let (sector, offset) = (r % 40_000_000, r % 40_000_000 * 512);
    let (sectors, bytes) = ((r % 16 + 1) * 8, (r % 16 + 1) * 4096);
    let line = match format {
        "spc" => format!("{},{sector},{bytes},{},{seconds}.{micros:06}", r % 24, of("R", "W")),
        "msr" => {
            let ticks = 128_166_372_000_000_000 + n * 3_110;
            format!("{ticks},usr,{},{},{offset},{bytes},{}", r % 3, of("Read", "Write"), r % 100_000)
        }
        "blkparse" => {
            let kind = of("R", "WS");
            format!("  8,16   3 {n:>8} {seconds:>5}.{micros:06}000  4000  Q  {kind} {sector} + {sectors} [java]")
        }
        "fio2" => format!("/dev/sdb {} {offset} {bytes}", of("read", "write")),
        "fio3" => format!("{us} /dev/sdb {} {offset} {bytes}", of("read", "write")),
        "mqsim" => format!("{}000 {} {sector} {sectors} {}", us, r % 4, of("1", "0")),
        "disksim" => format!("{}.{:06} {} {sector} {sectors} {}", us / 1000, us % 1000 * 1000, r % 4, of("1", "0")),
        "alibaba" => format!("{},{},{offset},{bytes},{}", r % 800, of("R", "W"), 1_577_808_000_000_000 + us),
        "tencent" => format!("{},{sector},{sectors},{},{}", 1_538_323_200 + seconds, of("0", "1"), r % 800),
        "systor17" => {
            let response = r % 1_000_000;
            format!(
                "{}.{micros:06}000,0.{response:09},{},{},{offset},{bytes}",
                1_455_592_799 + seconds,
                of("R", "W"),
                r % 6
            )
        }
        "fiu" => {
            let digest = u128::from(r) << 64 | u128::from(n);
            format!("{us}000 {} flusher {sector} {sectors} {} 6 0 {digest:032x}", r % 900, of("R", "W"))
        }
        _ => return None,
    };
    let header = match format {
        "fio2" => "fio version 2 iolog\n/dev/sdb add\n/dev/sdb open\n",
        "fio3" => "fio version 3 iolog\n0 /dev/sdb add\n0 /dev/sdb open\n",
        "systor17" => "Timestamp,Response,IOType,LUN,Offset,Size\n",
        _ => "",
    };
    Some((header, line))
}

fn text(format: &str) -> Arc<[u8]> {
    let mut text = Vec::new();
    for n in 0..REQUESTS {
        let (header, line) = made(format, n).unwrap_or_else(|| panic!("no lines are made for the format {format}"));
        if n == 0 {
            text.extend_from_slice(header.as_bytes());
        }
        text.extend_from_slice(line.as_bytes());
        text.push(b'\n');
    }
    text.into()
}

fn read(text: &Arc<[u8]>, format: &str) -> u64 {
    let mut trace = TraceFile::from_reader("bench", Box::new(Cursor::new(text.clone())), &OpenOptions::default())
        .expect("a generated trace is recognised");
    assert_eq!(trace.format().name, format);
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

/// Time that this thread has had on a core, where the system tells it.
fn on_core() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}

/// The least seconds of several rounds.
fn seconds(mut work: impl FnMut() -> u64, expected: u64) -> f64 {
    let round = |work: &mut dyn FnMut() -> u64| {
        let (start, before) = (Instant::now(), on_core());
        assert_eq!(work(), expected);
        match (before, on_core()) {
            (Some(before), Some(after)) => (after - before).as_secs_f64(),
            _ => start.elapsed().as_secs_f64(),
        }
    };
    (0..ROUNDS).map(|_| round(&mut work)).fold(f64::INFINITY, f64::min)
}

fn main() {
    // Cargo hands every benchmark the flag --bench.
    let asked: Vec<_> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    println!("{REQUESTS} requests of each format\n");
    println!("format    bytes/request   parsed and hashed        hash alone   parsed without hash");
    let formats = FORMATS.iter().filter(|format| matches!(format.example, Example::Text(_)));
    for format in formats.filter(|format| asked.is_empty() || asked.iter().any(|name| name == format.name)) {
        let text = text(format.name);
        let megabytes = text.len() as f64 / 1e6;
        let both = seconds(|| read(&text, format.name), REQUESTS);
        let hashed = seconds(|| u64::from(Sha256::digest(&text).len() == 32), 1);
        println!(
            "{:<10}{:>13.1}{:>15.0} MB/s{:>13.0} MB/s{:>17.0} MB/s",
            format.name,
            text.len() as f64 / REQUESTS as f64,
            megabytes / both,
            megabytes / hashed,
            megabytes / (both - hashed)
        );
    }
}

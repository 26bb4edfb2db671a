//! Speed of the error-correcting codes, data bytes per second of one core, by errors in a frame.
//!
//! `cargo bench -p ftlab-reliability --bench codes [-- FILTER]`; raw runs are kept in `benches/runs/`. What was
//! corrected is checked and printed beside the times, so that no decoder is fast because it does nothing. Times are of
//! the processor, not of the wall.
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "a program that measures and prints")]

use flash::Rng;
use reliability::{Bch, Code, Ldpc};

/// Frames of a case, each wrong in its own way.
const FRAMES: usize = 64;

struct Frame {
    data: Vec<u8>,
    parity: Vec<u8>,
}

fn frames(code: &Code, rng: &mut Rng) -> Vec<Frame> {
    let make = |_| {
        let data: Vec<u8> = (0..code.data_bytes()).map(|_| rng.bits() as u8).collect();
        Frame { parity: code.encode(&data), data }
    };
    (0..FRAMES).map(make).collect()
}

/// Flips different bits of a frame, wherever they are.
fn damage(frame: &mut Frame, errors: usize, rng: &mut Rng) {
    let bits = 8 * (frame.data.len() + frame.parity.len());
    let mut wrong = std::collections::BTreeSet::new();
    while wrong.len() < errors {
        wrong.insert(rng.below(bits as u64) as usize);
    }
    for index in wrong {
        match index.checked_sub(8 * frame.data.len()) {
            None => frame.data[index / 8] ^= 1 << (index % 8),
            Some(index) => frame.parity[index / 8] ^= 1 << (index % 8),
        }
    }
}

/// Processor time of this thread.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux tells how long a thread has run");
    let ns: u64 = stat.split(' ').next().and_then(|field| field.parse().ok()).expect("the first field is in ns");
    ns as f64 / 1e9
}

/// Runs `work` over all frames until a second has passed, and prints what it did.
fn time(filter: &str, name: &str, data_bytes: usize, mut work: impl FnMut(usize) -> String) {
    if !name.contains(filter) {
        return;
    }
    let (mut done, mut told, began) = (0, String::new(), cpu_seconds());
    while cpu_seconds() - began < 1.0 {
        for frame in 0..FRAMES {
            told = work(frame);
        }
        done += FRAMES;
    }
    let seconds = cpu_seconds() - began;
    let rate = (done * data_bytes) as f64 / seconds / 1e6;
    println!("{name:<44} {rate:>8.1} MB/s {:>9.2} µs a frame  {told}", seconds * 1e6 / done as f64);
}

fn measure(filter: &str, name: &str, code: &Code, errors: &[usize]) {
    let mut rng = Rng::new(1);
    let whole = frames(code, &mut rng);
    let mut parity = vec![0; code.parity_bytes()];
    time(filter, &format!("{name} encode"), code.data_bytes(), |frame| {
        code.encode_into(&whole[frame].data, &mut parity);
        assert_eq!(parity, whole[frame].parity);
        String::new()
    });
    for &count in errors {
        let mut damaged = frames(code, &mut Rng::new(1));
        damaged.iter_mut().for_each(|frame| damage(frame, count, &mut rng));
        let mut read = Frame { data: vec![0; code.data_bytes()], parity };
        time(filter, &format!("{name} decode, {count} errors"), code.data_bytes(), |frame| {
            // Copying a frame is part of the time: a tenth of a microsecond.
            read.data.copy_from_slice(&damaged[frame].data);
            read.parity.copy_from_slice(&damaged[frame].parity);
            match code.decode(&mut read.data, &mut read.parity) {
                Ok(corrected) => {
                    assert!(read.data == whole[frame].data && corrected.bits as usize == count);
                    format!("{} iterations in the last", corrected.iterations)
                }
                Err(_) => "uncorrectable".to_owned(),
            }
        });
        parity = read.parity;
    }
}

fn main() {
    let filter = std::env::args().skip(1).find(|word| !word.starts_with('-')).unwrap_or_default();
    let bch = Code::Bch(Bch::new(1024, 24).expect("m = 14"));
    measure(&filter, "bch t=24 over 1 KiB", &bch, &[0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 25, 60]);
    let bch = Code::Bch(Bch::new(512, 8).expect("m = 13"));
    measure(&filter, "bch t=8 over 512 B", &bch, &[0, 1, 4, 8]);
    for (data, parity, errors) in
        [(1024, 128, [0, 10, 20, 40]), (4096, 192, [0, 10, 40, 80]), (4096, 512, [0, 40, 150, 250])]
    {
        let code = Code::Ldpc(Ldpc::new(data, parity).expect("a shape that exists"));
        measure(&filter, &format!("ldpc {parity} B over {} KiB", data / 1024), &code, &errors);
    }
}

//! How fast the generators yield, in requests per second: `cargo bench -p ftlab-sim --bench generators [SPEC…]`.
//!
//! Each specification is drained in batches of 4096, five times; the best run is shown.
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "a program that measures and prints")]

use std::time::Instant;

use sim::workload::generate::{Context, generate};

const SPECS: &[&str] = &[
    "uniform:requests=50M",
    "uniform:requests=50M,reads=0.3",
    "uniform:requests=20M,reads=0.3,size=4KiB*0.7+64KiB*0.3,arrival=poisson",
    "hotcold:requests=20M",
    "sequential:requests=50M",
    "streams:requests=50M,count=16",
    "zipf:requests=20M,theta=0.99",
    "zipf:requests=20M,theta=1",
    "zipf:requests=20M,theta=0.99,scatter=off",
    "overload-sequential:requests=20M",
    "twin:financial1,requests=5M",
    "twin:postmark,requests=5M",
];

fn main() {
    let given: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    let specs: Vec<&str> = if given.is_empty() { SPECS.to_vec() } else { given.iter().map(String::as_str).collect() };
    // 64 GiB: 16 M pages of 4 KiB.
    let context = Context { capacity_bytes: 64 << 30, seed: 1 };
    for spec in specs {
        let mut best = 0f64;
        for _ in 0..5 {
            let mut source = generate(spec, &context).unwrap_or_else(|e| panic!("{e}"));
            let mut batch = Vec::with_capacity(4096);
            let start = Instant::now();
            loop {
                batch.clear();
                source.fill(&mut batch, 4096).expect("generators do not fail");
                if batch.is_empty() {
                    break;
                }
                std::hint::black_box(&batch);
            }
            best = best.max(source.intake().requests as f64 / start.elapsed().as_secs_f64());
        }
        println!("{:8.1} M/s  {spec}", best / 1e6);
    }
}

//! Throughput of whole runs: host page writes and requests per second of CPU time on one core.
//!
//! Counts operations first and prints them beside the times, so that two runs that differ in their work are seen to.
//! `cargo bench -p ftlab-sim --bench throughput [-- FILTER]`; raw runs are kept in `benches/runs/`.
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "a program that measures and prints")]

use flash::device::Device;
use ftl::Settings;
use ftl::schemes;
use sim::device::DeviceSpec;
use sim::experiment::{Config, Fill, Medium, PartialPages, Unobserved, run};
use sim::host::HostModel;
use sim::workload::{Intake, Operation, Request, Source, WorkloadError};

/// Uniformly random page writes.
struct Uniform {
    rng: flash::Rng,
    pages: u64,
    left: u64,
    intake: Intake,
}

impl Source for Uniform {
    fn fill(&mut self, batch: &mut Vec<Request>, limit: usize) -> Result<(), WorkloadError> {
        let count = self.left.min(limit as u64);
        self.left -= count;
        batch.extend((0..count).map(|_| Request {
            arrival_ns: 0,
            offset: self.rng.below(self.pages) * 4096,
            bytes: 4096,
            volume: 0,
            operation: Operation::Write,
        }));
        Ok(())
    }
    fn intake(&self) -> &Intake {
        &self.intake
    }
    fn timed(&self) -> bool {
        false
    }
}

fn device(gib: u32) -> Device {
    let text =
        format!("agrawal08:capacity={gib}GiB,spare=12.5%,pages_per_block=256,channels=4,chips=2,dies=1,planes=1");
    text.parse::<DeviceSpec>().expect("the device is well formed").build(None).expect("the device can be built")
}

/// User and system time of this process, seconds.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    (fields[11].parse::<f64>().unwrap_or(0.0) + fields[12].parse::<f64>().unwrap_or(0.0)) / 100.0
}

fn page(name: &str, gib: u32, medium: Medium, requests: u64) {
    let device = device(gib);
    let mut source = Uniform {
        rng: flash::Rng::new(1).fork("bench"),
        pages: u64::from(device.logical_pages),
        left: requests * 2,
        intake: Intake::default(),
    };
    let config = Config {
        scheme: "page",
        settings: Settings::defaults(schemes::by_name("page").expect("it is in the table").parameters),
        device,
        seed: 1,
        fill: Fill::Steady,
        host: HostModel::Closed(32),
        partial: PartialPages::Ignore,
        medium,
        warmup: requests,
        series_ns: 0,
    };
    let outcome = run(&config, &mut source, &mut Unobserved).expect("the run can be made");
    let result = outcome.result;
    println!(
        "{name:<28} {:>9} writes  WAF {:.3}  {:>10} commands  {:>6.2} s  {:>6.2} M writes/s  p99 {:.1} ms",
        outcome.workload.write_pages,
        result.waf.unwrap_or(0.0),
        result.flash.reads + result.flash.programs + result.flash.erases,
        result.wall_seconds,
        outcome.workload.write_pages as f64 / result.wall_seconds * 1e-6,
        result.response_us.map_or(0.0, |latency| latency.p99 * 1e-3),
    );
}

/// The least that page mapping can be: a map, a reverse map, live bits and counts, one open block a die, greedy
/// victims;
/// no medium, no causes, no time, no checks. What a machine does with it says how fast the machine is.
fn bare(gib: u32, writes: u64) {
    let g = device(gib).geometry;
    let (p, pages) = (g.pages_per_block as usize, device(gib).logical_pages as usize);
    let (dies, per_die) = (g.die_count() as usize, g.blocks_per_die as usize);
    let mut map = vec![u32::MAX; pages];
    let mut reverse = vec![u32::MAX; g.page_count() as usize];
    let mut live = vec![i16::MAX; g.block_count() as usize];
    let mut free: Vec<Vec<usize>> = (0..dies).map(|die| (die * per_die..(die + 1) * per_die).rev().collect()).collect();
    let mut next: Vec<(usize, usize)> = free.iter_mut().map(|list| (list.pop().expect("a block is free"), 0)).collect();
    let mut rng = flash::Rng::new(1);
    let mut began = std::time::Instant::now();
    let mut copies = 0u64;
    for i in 0..2 * writes + pages as u64 {
        if i == writes + pages as u64 {
            (began, copies) = (std::time::Instant::now(), 0);
        }
        let lpn = if i < pages as u64 { i as usize } else { rng.below(pages as u64) as usize };
        let die = i as usize % dies;
        if next[die].1 == p {
            live[next[die].0] = (0..p)
                .filter(|k| map.get(reverse[next[die].0 * p + k] as usize) == Some(&((next[die].0 * p + k) as u32)))
                .count() as i16;
            next[die] = (free[die].pop().expect("a block is free"), 0);
            while free[die].len() < 3 {
                let range = die * per_die..(die + 1) * per_die;
                let least = live[range.clone()].iter().copied().fold(i16::MAX, i16::min);
                let victim = range.start + live[range].iter().position(|&count| count == least).expect("it is there");
                for page in victim * p..(victim + 1) * p {
                    let lpn = reverse[page] as usize;
                    if map[lpn] == page as u32 {
                        if next[die].1 == p {
                            let block = next[die].0;
                            live[block] = (0..p)
                                .filter(|k| map[reverse[block * p + k] as usize] == (block * p + k) as u32)
                                .count() as i16;
                            next[die] = (free[die].pop().expect("a block is free"), 0);
                        }
                        let to = next[die].0 * p + next[die].1;
                        next[die].1 += 1;
                        (map[lpn], reverse[to]) = (to as u32, lpn as u32);
                        copies += 1;
                    }
                }
                live[victim] = i16::MAX;
                free[die].insert(0, victim);
            }
        }
        let to = next[die].0 * p + next[die].1;
        next[die].1 += 1;
        let old = map[lpn];
        if old != u32::MAX && live[old as usize / p] != i16::MAX {
            live[old as usize / p] -= 1;
        }
        (map[lpn], reverse[to]) = (to as u32, lpn as u32);
    }
    let seconds = began.elapsed().as_secs_f64();
    println!(
        "bare loop {gib} GiB                          WAF {:.3}  {seconds:>30.2} s  {:>6.2} M writes/s",
        1.0 + copies as f64 / writes as f64,
        writes as f64 / seconds * 1e-6
    );
}

fn main() {
    let filter = std::env::args().skip(1).find(|arg| !arg.starts_with("--")).unwrap_or_default();
    let cases: &[(&str, u32, Medium, u64)] = &[
        ("page 4 GiB", 4, Medium::Brief, 20_000_000),
        ("page 8 GiB", 8, Medium::Brief, 20_000_000),
        ("page 8 GiB recoverable", 8, Medium::Recoverable, 20_000_000),
        ("page 64 GiB", 64, Medium::Brief, 40_000_000),
    ];
    let began = cpu_seconds();
    for gib in [4, 8, 64].into_iter().filter(|gib| format!("bare {gib} GiB").contains(&filter)) {
        bare(gib, 20_000_000);
    }
    for &(name, gib, medium, requests) in cases.iter().filter(|(name, ..)| name.contains(&filter)) {
        page(name, gib, medium, requests);
    }
    println!("CPU time of everything, filling included: {:.1} s", cpu_seconds() - began);
}

//! Throughput of whole runs, host page writes or requests per second of one core, and the time that mounts take.
//!
//! `cargo bench -p ftlab-sim --bench throughput [-- FILTER]`; raw runs are kept in `benches/runs/`. Operations are
//! counted and printed beside the times, so that two runs that differ in their work are seen to. Times are of the
//! processor, not of the wall. Each page case is preceded by a bare loop of the same work: shared machines differ more
//! from hour to hour than simulators do, and the ratio of the two is what can be compared.
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "a program that measures and prints")]

use flash::device::{Device, Features, Suspend};
use flash::{Bus, Full, Nand, NoData, Op, Policy, Scheduling, Timeline};
use ftl::schemes::{self, Visitor};
use ftl::{Ftl, Recipe, Scheme};
use sim::device::DeviceSpec;
use sim::experiment::{Config, Fill, Medium, Observer, PartialPages, run};
use sim::host::HostModel;
use sim::workload::generate::{Context, generate};
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

/// Requests made beforehand.
struct Kept {
    requests: Vec<Request>,
    next: usize,
    intake: Intake,
}

impl Source for Kept {
    fn fill(&mut self, batch: &mut Vec<Request>, limit: usize) -> Result<(), WorkloadError> {
        let end = (self.next + limit).min(self.requests.len());
        batch.extend_from_slice(&self.requests[self.next..end]);
        self.next = end;
        Ok(())
    }
    fn intake(&self) -> &Intake {
        &self.intake
    }
    fn timed(&self) -> bool {
        true
    }
}

/// Notes the processor's time at the end of the warm-up.
struct Stopwatch {
    warmup: u64,
    served: u64,
    began: f64,
}

impl Observer for Stopwatch {
    fn served(&mut self, requests: u64) -> bool {
        self.served += requests;
        if self.served == self.warmup {
            self.began = cpu_seconds();
        }
        true
    }
}

/// Time that this thread has run, seconds.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux tells how long a thread has run");
    stat.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).expect("its first number is in nanoseconds") * 1e-9
}

fn built(spec: &str) -> Device {
    spec.parse::<DeviceSpec>().expect("the device is well formed").build(None).expect("the device can be built")
}

fn device(gib: u32) -> Device {
    built(&format!("agrawal08:capacity={gib}GiB,spare=12.5%,pages_per_block=256,channels=4,chips=2,dies=1,planes=1"))
}

fn config(scheme: &'static str, settings: &[(&str, &str)], device: Device) -> Config {
    let row = schemes::by_name(scheme).expect("it is in the table");
    let mut values = row.settings();
    for (key, value) in settings {
        values.set(key, value).expect("the setting is valid");
    }
    Config {
        fill: Fill::Steady,
        host: HostModel::Closed(32),
        partial: PartialPages::Ignore,
        ..Config::new(row.name, values, device)
    }
}

/// Runs a workload whose first half, `warmup` requests, is not measured.
fn measure(name: &str, config: &Config, source: &mut dyn Source) {
    let mut watch = Stopwatch { warmup: config.warmup, served: 0, began: 0.0 };
    let outcome = run(config, source, &mut watch).expect("the run can be made");
    let seconds = cpu_seconds() - watch.began;
    let (result, work) = (outcome.result, outcome.workload);
    let rate = |count: u64| count as f64 / seconds * 1e-6;
    println!(
        "{name:<26} {:>9} requests {:>9} writes  WAF {:>6.3} {:>10} commands {:>6.2} s {:>6.2} M requests/s {:>6.2} M \
         page writes/s {:>5.1} M commands/s  p99 {:.1} ms",
        work.requests,
        work.write_pages,
        result.waf.unwrap_or(0.0),
        result.flash.reads + result.flash.programs + result.flash.erases,
        seconds,
        rate(work.requests),
        rate(work.write_pages),
        rate(result.flash.reads + result.flash.programs + result.flash.erases),
        result.response_us.map_or(0.0, |latency| latency.p99 * 1e-3),
    );
}

fn page(name: &str, gib: u32, medium: Medium, requests: u64) {
    let config = Config { medium, warmup: requests, ..config("page", &[], device(gib)) };
    let rng = flash::Rng::new(1).fork("bench");
    let pages = u64::from(config.device.logical_pages);
    measure(name, &config, &mut Uniform { rng, pages, left: requests * 2, intake: Intake::default() });
}

/// Page mapping where commands queue, under reads and writes, 32 requests under way.
fn queued(name: &str, policy: Policy, requests: u64) {
    let suspend = Suspend { program_ns: 10_000, erase_ns: 20_000, resume_ns: 5000, most: 8 };
    let features = Features { suspend: (policy == Policy::Suspend).then_some(suspend), ..Features::default() };
    let scheduling = Some(Scheduling { policy, bus: Bus::Arbitrated, features });
    let config = Config { scheduling, warmup: requests, ..config("page", &[], device(4)) };
    let capacity_bytes = u64::from(config.device.logical_pages) * u64::from(config.device.geometry.page_bytes);
    let spec = format!("uniform:reads=0.5,requests={}", 2 * requests);
    let mut source = generate(&spec, &Context { capacity_bytes, seed: 1 }).expect("it can be generated");
    measure(name, &config, &mut *source);
}

/// A scheme under a twin as `ftlab compare` runs it.
fn under_twin(name: &str, config: Config, requests: u64) {
    let device = &config.device;
    let capacity_bytes = u64::from(device.logical_pages) * u64::from(device.geometry.page_bytes);
    let spec = format!("twin:financial1,requests={}", requests * 2);
    let mut twin = generate(&spec, &Context { capacity_bytes, seed: 1 }).expect("the twin exists");
    let mut kept = Kept { requests: Vec::new(), next: 0, intake: Intake::default() };
    twin.fill(&mut kept.requests, 2 * requests as usize).expect("it can be generated");
    measure(name, &Config { host: HostModel::Open, warmup: requests, ..config }, &mut kept);
}

/// A demand-paged scheme on a device of 4 GiB, with 64 KiB of cache.
fn demand_paged(name: &str, scheme: &'static str, requests: u64) {
    let config = config(scheme, &[("cache-bytes", "65536")], built("agrawal08:capacity=4GiB"));
    under_twin(name, Config { fill: Fill::Sequential, ..config }, requests);
}

/// A scheme with a log area on the thesis's device of 80 GiB, blank at the start as there.
fn log_buffered(name: &str, scheme: &'static str, requests: u64) {
    let config = config(scheme, &[], built("thesis-80g"));
    under_twin(name, Config { fill: Fill::None, ..config }, requests);
}

/// Mounts a device of 8 GiB that was filled and overwritten once at random, from its spare areas.
struct Mount<'a>(&'a str);

impl Visitor<Timeline<Nand<NoData, Full>>> for Mount<'_> {
    type Output = ();
    fn visit<S: Recipe<Timeline<Nand<NoData, Full>>>>(self, row: &Scheme<'_>, recipe: &S) {
        let device = device(8);
        let settings = row.settings();
        let mut flash = Timeline::new(Nand::new(device.geometry), device.timing, device.server);
        let mut scheme = recipe.format(&mut flash, device.logical_pages, &settings).expect("it fits");
        let mut rng = flash::Rng::new(1);
        for lpn in 0..2 * device.logical_pages {
            let lpn = if lpn < device.logical_pages { lpn } else { rng.below(u64::from(device.logical_pages)) as u32 };
            scheme.write(&mut flash, flash::Lpn(lpn), &()).expect("there is room");
        }
        drop(scheme);
        flash.reset();
        let began = cpu_seconds();
        let (_, report) = recipe.mount(&mut flash, device.logical_pages, &settings).expect("it can be mounted");
        let seconds = cpu_seconds() - began;
        let tally = flash::Clocked::tally(&flash);
        println!(
            "{:<26} {:>9} pages found, {} spare areas and {} pages read  {seconds:>6.3} s",
            self.0,
            report.pages,
            tally.of(Op::OobRead),
            tally.of(Op::Read)
        );
    }
}

/// The least that page mapping can be: a map, a reverse map, live bits and counts, one open block a die, greedy
/// victims; no medium, no causes, no time, no checks. What a machine does with it says how fast the machine is.
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
    let mut began = cpu_seconds();
    let mut copies = 0u64;
    for i in 0..2 * writes + pages as u64 {
        if i == writes + pages as u64 {
            (began, copies) = (cpu_seconds(), 0);
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
    let seconds = cpu_seconds() - began;
    println!(
        "bare loop {gib} GiB {writes:>16} writes  WAF {:.3} {seconds:>6.2} s {:>6.2} M page writes/s",
        1.0 + copies as f64 / writes as f64,
        writes as f64 / seconds * 1e-6
    );
}

fn main() {
    let filter = std::env::args().skip(1).find(|arg| !arg.starts_with("--")).unwrap_or_default();
    let wanted = |name: &str| name.contains(&filter);
    for (name, gib, medium, requests) in [
        ("page 1 GiB", 1, Medium::Brief, 5_000_000),
        ("page 4 GiB", 4, Medium::Brief, 20_000_000),
        ("page 8 GiB", 8, Medium::Brief, 20_000_000),
        ("page 8 GiB recoverable", 8, Medium::Recoverable, 20_000_000),
        ("page 64 GiB", 64, Medium::Brief, 20_000_000),
    ] {
        if wanted(name) {
            bare(gib, requests);
            page(name, gib, medium, requests);
        }
    }
    for (name, policy) in [
        ("queued in-order 4 GiB", Policy::InOrder),
        ("queued read-first 4 GiB", Policy::ReadFirst),
        ("queued suspend 4 GiB", Policy::Suspend),
    ] {
        if wanted(name) {
            queued(name, policy, 2_000_000);
        }
    }
    for row in schemes::SCHEMES.iter().filter(|row| row.has_cache && row.name != "canary") {
        let name = format!("{} financial1 64 KiB", row.name);
        if wanted(&name) {
            demand_paged(&name, row.name, 3_000_000);
        }
    }
    let has_log = |row: &&&Scheme| row.parameter("log-blocks").is_some();
    for row in schemes::SCHEMES.iter().filter(has_log) {
        let name = format!("{} financial1 80 GiB", row.name);
        if wanted(&name) {
            log_buffered(&name, row.name, 500_000);
        }
    }
    for (name, scheme) in
        [("mount page 8 GiB", "page"), ("mount dftl 8 GiB", "dftl"), ("mount lazyftl 8 GiB", "lazyftl")]
    {
        if wanted(name) {
            schemes::visit::<Timeline<Nand<NoData, Full>>, _>(scheme, Mount(name)).expect("it is in the table");
        }
    }
}

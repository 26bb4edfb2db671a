//! Commands that queue: placement by events against placement at once and against queueing theory, and what reads gain
//! by going first. docs/scheduling.md has the rules, docs/validation.md the tables.
//!
//! Every run ends with two assertions of its own: no die and no channel has worked more than all of the time, and the
//! requests in the system, summed over time, are the sum of all response times (Little's law, exactly).
#![allow(clippy::print_stdout, reason = "the tables stand in docs/validation.md")]

mod support;

use flash::device::{Features, MultiPlane, Suspend};
use flash::{Bus, Policy, Rng, Scheduling};
use sim::experiment::{Config, Fill, Observer, run};
use sim::host::HostModel;
use sim::report::{RequestRecord, ResponseParts, SchemeResult};
use sim::workload::generate::{Context, generate};
use sim::workload::{Intake, Operation, Request, Source, WorkloadError};
use support::{Uniform, config, generated, served};

const BACKLOG: Scheduling =
    Scheduling { policy: Policy::InOrder, bus: Bus::Backlog, features: Features { suspend: None, ..OFF } };
const OFF: Features =
    Features { suspend: None, multi_plane: MultiPlane::Off, copy_back: false, cache_read: false, cache_program: false };
const SUSPEND: Suspend = Suspend { program_ns: 10_000, erase_ns: 20_000, resume_ns: 5000, most: 8 };

fn queued(policy: Policy, features: Features) -> Option<Scheduling> {
    Some(Scheduling { policy, bus: Bus::Arbitrated, features })
}

// ---- placement at once ---------------------------------------------------------------------------------------------

/// Every request of a run, sorted.
#[derive(Default)]
struct All(Vec<[u64; 8]>);

impl Observer for All {
    fn wants_records(&self) -> bool {
        true
    }
    fn record(&mut self, r: &RequestRecord) {
        let commands = r.commands.iter().fold(0, |all, &count| all << 12 | u64::from(count));
        let kind = r.operation as u64;
        self.0.push([r.arrival_ns, r.offset, r.bytes, kind, r.queue_ns, r.service_ns, r.response_ns, commands]);
    }
}

fn records(config: &Config, spec: &str) -> (Vec<[u64; 8]>, SchemeResult) {
    let capacity_bytes = u64::from(config.device.logical_pages) * u64::from(config.device.geometry.page_bytes);
    let mut source = generate(spec, &Context { capacity_bytes, seed: config.seed }).unwrap();
    let mut all = All::default();
    let outcome = run(config, &mut *source, &mut all).unwrap();
    all.0.sort_unstable();
    (all.0, outcome.result)
}

const HOSTS: [HostModel; 4] = [HostModel::Open, HostModel::Closed(1), HostModel::Closed(7), HostModel::Closed(64)];

/// What was recorded of every request of a run, and its result.
type Run = (Vec<[u64; 8]>, SchemeResult);

/// A run placed at once, and the same by events: in order, with the channel reckoned as placement at once does.
fn both_ways(rng: &mut Rng, (scheme, shape, host): (&str, &str, HostModel)) -> ([Run; 2], String) {
    let seed = rng.below(1000);
    let skew = ["uniform:", "zipf:theta=0.9,"][rng.below(2) as usize];
    let reads = rng.unit();
    let spec = format!("{skew}reads={reads:.2},requests=6000,size=4KiB*0.6+12KiB*0.4,arrival=poisson,rate=2000");
    let mut config =
        Config { seed, host, ..config(scheme, "", &format!("agrawal08:capacity=32MiB,planes=1,{shape},spare=40%")) };
    let placed = records(&config, &spec);
    config.scheduling = Some(BACKLOG);
    let queued = records(&config, &spec);
    assert_eq!((placed.0.len(), queued.0.len()), (6000, 6000));
    assert_eq!(queued.1.by_cause, placed.1.by_cause);
    ([placed, queued], format!("{scheme}, {shape}, {host}, {spec}, seed {seed}"))
}

/// Where no chain crosses dies the two give the same times for every request: on one die, and where a scheme keeps what
/// belongs to a page on a die.
#[test]
fn events_in_order_are_first_come_first_served_where_no_chain_crosses_dies() {
    let mut rng = Rng::new(3);
    let (one, more) = ("channels=1,chips=1,dies=1", ["channels=2,chips=2,dies=2", "channels=4,chips=1,dies=2"]);
    for (scheme, shape) in [("page", one), ("dftl", one), ("fast", one), ("page", more[0]), ("page", more[1])] {
        for host in HOSTS {
            let ([placed, queued], what) = both_ways(&mut rng, (scheme, shape, host));
            assert_eq!(queued.0, placed.0, "{what}");
            assert_eq!(queued.1.response_by_cause, placed.1.response_by_cause, "{what}");
            // Squares are summed in the order of ends.
            let [mut found_us, mut expected_us] = [&queued.1, &placed.1].map(|r| r.response_us.clone().unwrap());
            assert!((found_us.stdev / expected_us.stdev - 1.0).abs() < 1e-9);
            for latency in [&mut found_us, &mut expected_us] {
                (latency.stdev, latency.read, latency.write) = (0.0, None, None);
            }
            assert_eq!(found_us, expected_us);
        }
    }
}

/// Elsewhere placement at once books dies ahead, and events do not: docs/scheduling.md has the figures.
#[test]
fn where_chains_cross_dies_placement_at_once_is_close_to_events() {
    let mut rng = Rng::new(3);
    for scheme in ["dftl", "fast"] {
        for shape in ["channels=2,chips=2,dies=2", "channels=4,chips=1,dies=2"] {
            for host in HOSTS {
                let (runs, what) = both_ways(&mut rng, (scheme, shape, host));
                let [placed, queued] = runs.map(|(_, result)| result.response_us.unwrap().mean);
                println!("{what}: mean response {placed:.0} at once, {queued:.0} µs by events");
                assert!((0.8..1.05).contains(&(placed / queued)), "{what}: {placed} {queued}");
            }
        }
    }
}

/// More channels for the same capacity and the same requests. A die more is a die that others need not wait for, so
/// mean responses do not rise. Page maps are the exception once dies are small. Each die keeps its own blocks free, so
/// that victims hold more; all that is added is waited for, behind collections and the updates that they cause.
#[test]
fn more_channels_make_no_request_slower_but_by_collections() {
    let page_maps = ["page", "dftl", "sftl", "lsftl", "cast", "lazyftl"];
    let log_buffers = ["superblock", "fast", "last", "rose", "hybridlog"];
    let runs = page_maps.map(|scheme| (scheme, "gc-spread=off")).into_iter();
    let runs = runs.chain(page_maps.map(|scheme| (scheme, "gc-spread=on"))).chain(log_buffers.map(|s| (s, "")));
    let spec = "zipf:theta=0.9,reads=0.3,requests=20000,size=4KiB,arrival=poisson,rate=100";
    let (mut rises, mut compared) = (0, 0);
    for (scheme, settings) in runs {
        let results = [1, 2, 4, 8].map(|channels| {
            let shape = format!("channels={channels},chips=1,dies=1,planes=1,spare=25%");
            let device = format!("agrawal08:capacity=64MiB,{shape}");
            generated(&Config { host: HostModel::Open, ..config(scheme, settings, &device) }, spec).result
        });
        for pair in results.windows(2).filter(|pair| pair.iter().all(|result| !result.is_overloaded())) {
            let [mean, waf] =
                [|r: &SchemeResult| r.response_us.as_ref().unwrap().mean, |r: &SchemeResult| r.waf.unwrap()]
                    .map(|of| (of(&pair[0]), of(&pair[1])));
            let parts = |result: &SchemeResult| result.response_by_cause.clone().unwrap().mean;
            let (before, after) = (parts(&pair[0]), parts(&pair[1]));
            let own = |of: &ResponseParts| of.own["host"];
            let what = format!("{scheme} {settings}: mean {mean:?}, WAF {waf:?}, {before:?}, {after:?}");
            compared += 1;
            assert!((own(&after) / own(&before) - 1.0).abs() < 1e-3, "{what}");
            if mean.1 <= 1.02 * mean.0 {
                continue;
            }
            rises += 1;
            assert!(page_maps.contains(&scheme) && waf.1 > 1.02 * waf.0, "{what}");
            let cleaning = ["data_gc", "translation_gc", "translation_update"];
            let waits = |of: &ResponseParts| cleaning.iter().filter_map(|&cause| of.waited_for.get(cause)).sum::<f64>();
            assert!(waits(&after) - waits(&before) > 0.9 * (mean.1 - mean.0), "{what}");
        }
    }
    println!("{rises} of {compared} steps to twice as many channels make responses longer, by collections");
    assert!(compared > 40 && rises > 0 && rises < compared / 2, "{rises} of {compared}");
}

// ---- closed forms --------------------------------------------------------------------------------------------------

/// Reads of page after page, which lie on die after die, with Poisson arrivals; or none, back to back.
struct Cyclic {
    rng: Rng,
    pages: u64,
    next: u64,
    left: u64,
    gap_ns: f64,
    now_ns: f64,
    intake: Intake,
}

impl Cyclic {
    fn new(config: &Config, count: u64, gap_ns: f64) -> Cyclic {
        let rng = Rng::new(config.seed).fork("cyclic");
        let pages = u64::from(config.device.logical_pages);
        Cyclic { rng, pages, next: 0, left: count, gap_ns, now_ns: 0.0, intake: Intake::default() }
    }
}

impl Source for Cyclic {
    fn fill(&mut self, batch: &mut Vec<Request>, limit: usize) -> Result<(), WorkloadError> {
        for _ in 0..self.left.min(limit as u64) {
            self.left -= 1;
            self.now_ns -= (1.0 - self.rng.unit()).ln() * self.gap_ns;
            let offset = self.next * 4096;
            self.next = (self.next + 1) % self.pages;
            let arrival_ns = self.now_ns.round() as u64;
            batch.push(Request { arrival_ns, offset, bytes: 4096, volume: 0, operation: Operation::Read });
        }
        Ok(())
    }
    fn intake(&self) -> &Intake {
        &self.intake
    }
    fn timed(&self) -> bool {
        self.gap_ns > 0.0
    }
}

/// P(N >= least) of a Poisson variable N.
fn poisson_tail(mean: f64, least: u64) -> f64 {
    // The smaller side is summed, term by term from its largest.
    let log_of = |k: u64| -> f64 {
        let factorial: f64 = (1..=k).map(|i| (i as f64).ln()).sum();
        k as f64 * mean.ln() - mean - factorial
    };
    if least as f64 > mean {
        let (mut k, mut term, mut sum) = (least, log_of(least).exp(), 0.0);
        while term > sum * 1e-17 {
            sum += term;
            k += 1;
            term *= mean / k as f64;
        }
        sum
    } else {
        let (mut k, mut sum) = (least, 0.0);
        let mut term = if k > 0 { log_of(k - 1).exp() } else { 0.0 };
        while k > 0 && term > sum * 1e-17 {
            sum += term;
            k -= 1;
            term *= k as f64 / mean;
        }
        1.0 - sum
    }
}

/// Mean wait of M/D/c in service times: with constant service, c servers taken in turn are a single queue before all
/// of them (Crommelin 1932), so each is E_c/D/1, whose mean wait by Spitzer's identity is the sum over n of
/// E[(n - Γ(n·c))+] / n = P(N >= n·c) - P(N > n·c) / ρ, N Poisson with mean n·c·ρ.
fn m_d_c_wait(servers: u64, load: f64) -> f64 {
    let term = |n: u64| {
        let mean = (n * servers) as f64 * load;
        poisson_tail(mean, n * servers) - poisson_tail(mean, n * servers + 1) / load
    };
    (1..4000).map(term).sum()
}

#[test]
fn the_series_for_m_d_c_is_m_d_1_for_one_server() {
    for load in [0.3, 0.6, 0.9] {
        let (sum, closed) = (m_d_c_wait(1, load), load / (2.0 * (1.0 - load)));
        assert!((sum / closed - 1.0).abs() < 1e-6, "{load}: {sum} {closed}");
    }
    // Tables of queueing theory (Seelen, Tijms, van Hoorn 1985): M/D/4 at 0.9.
    assert!(m_d_c_wait(4, 0.9) < m_d_c_wait(2, 0.9) / 1.9);
}

/// Reads of 25 µs on dies without a bus. In turn over c dies they wait as in M/D/c; on one die as in M/D/1.
#[test]
fn reads_in_turn_wait_as_m_d_c() {
    for dies in [1, 4] {
        for (load, requests) in [(0.3, 4_000_000), (0.6, 2_000_000), (0.9, 6_000_000)] {
            let device = "agrawal08:capacity=16MiB,channels=1,chips=1,planes=1,bus_mbps=0,spare=12.5%";
            let mut config = config("page", "gc-low=2", &format!("{device},dies={dies}"));
            config.host = HostModel::Open;
            config.warmup = 10_000;
            let gap_ns = 25_000.0 / (load * dies as f64);
            for scheduling in [None, queued(Policy::ReadFirst, OFF)] {
                config.scheduling = scheduling;
                let result = served(&config, &mut Cyclic::new(&config, requests, gap_ns)).result;
                let service = result.service_us.unwrap();
                assert_eq!((service.mean, service.max), (25.0, 25.0));
                let measured = result.response_us.unwrap().mean - 25.0;
                let predicted = 25.0 * m_d_c_wait(dies, load);
                let off = measured / predicted - 1.0;
                let how = scheduling.map_or("at once".to_owned(), |scheduling| format!("{:?}", scheduling.policy));
                println!("M/D/{dies}, load {load}, {how} | {measured:.3} | {predicted:.3} | {:+.2} %", 100.0 * off);
                assert!(off.abs() < 0.02, "{dies} dies, load {load}: {measured} {predicted}");
                // What the report says of utilisation.
                if let Some(share) = result.extra.get("die_busy_share") {
                    assert!((share.as_f64().unwrap() / load - 1.0).abs() < 0.02, "{share} of {load}");
                }
            }
        }
    }
}

/// Reads use dies side by side until the channel is full: min(dies / (cell + transfer), 1 / transfer) a second.
#[test]
fn reads_scale_with_dies_until_the_channel_is_full() {
    // 4,224 bytes in 10 µs.
    let device = "agrawal08:capacity=64MiB,channels=1,chips=1,planes=1,read_us=40,bus_mbps=422.4,oob=128,spare=25%";
    for cache_read in [false, true] {
        let mut before = 0.0;
        for dies in [1, 2, 3, 4, 5, 6, 8, 16] {
            let mut config = config("page", "", &format!("{device},dies={dies}"));
            assert_eq!(config.device.timing.page_transfer_ns, 10_000);
            config.scheduling = queued(Policy::InOrder, Features { cache_read, ..OFF });
            // A caching die begins the next read as soon as it has handed over the last.
            let die_us = if cache_read { 40.0 } else { 50.0 };
            let bound = f64::min(f64::from(dies) / die_us, 1.0 / 10.0) * 1e6;
            config.host = HostModel::Closed(4 * dies);
            let cyclic = served(&config, &mut Cyclic::new(&config, 100_000, 0.0)).result;
            config.host = HostModel::Closed(200 * dies);
            let random = generated(&config, "uniform:reads=1,requests=400000").result;
            let [cyclic, random] = [(cyclic, 100_000.0), (random, 400_000.0)]
                .map(|(result, requests)| requests / result.extra["simulated_seconds"].as_f64().unwrap());
            println!("{dies} dies, cache {cache_read}: {cyclic:.0} in turn, {random:.0} at random, bound {bound:.0}");
            assert!(cyclic <= bound * 1.001 && random <= bound * 1.001, "{dies} dies: {cyclic} {random} {bound}");
            assert!(cyclic >= bound * 0.99, "{dies} dies, in turn: {cyclic} {bound}");
            assert!(random >= bound * 0.93, "{dies} dies, at random: {random} {bound}");
            assert!(random >= 0.99 * before, "{dies} dies are no worse than fewer: {random} {before}");
            before = random;
        }
    }
}

// ---- policies ------------------------------------------------------------------------------------------------------

const MIXED: &str = "agrawal08:capacity=64MiB,channels=2,chips=1,dies=2,planes=2,bus_mbps=200,spare=12.5%";

fn read_latency(result: &SchemeResult) -> (f64, f64) {
    let read = result.response_us.as_ref().unwrap().read.as_ref().unwrap();
    (read.mean, read.p99)
}

/// Over mixes of reads and writes, loads, schemes and hosts: reads that go first do not wait longer, and interrupting
/// programs and erases shortens their tail.
#[test]
fn reads_that_go_first_wait_less_and_interrupting_cuts_their_tail() {
    // The reads of `dftl` may have to evict before they can read, and then wait for programs of their own.
    for (scheme, rate) in [("page", 1500), ("dftl", 200)] {
        let (mut mean, mut tail) = ([0.0; 3], [0.0; 3]);
        for reads in [0.2, 0.5, 0.8] {
            for host in [HostModel::Open, HostModel::Closed(4), HostModel::Closed(32)] {
                // Whole collections of a closed loop would decide its tail.
                let mut config = Config { host, ..config(scheme, "gc-spread=on", MIXED) };
                let spec = format!("uniform:reads={reads},requests=40000,arrival=poisson,rate={rate}");
                let suspend = Features { suspend: Some(SUSPEND), ..OFF };
                let of = [(Policy::InOrder, OFF), (Policy::ReadFirst, OFF), (Policy::Suspend, suspend)];
                let times = of.map(|(policy, features)| {
                    config.scheduling = queued(policy, features);
                    let result = generated(&config, &spec).result;
                    let stops = result.extra["suspends"].as_u64().unwrap();
                    assert_eq!(stops > 0, policy == Policy::Suspend, "{policy:?} stopped {stops} commands");
                    read_latency(&result)
                });
                println!("{scheme}, {reads} reads, {host}: mean and p99 of reads, µs: {times:.0?}");
                assert!(times[1].0 <= times[0].0 * 1.001, "{scheme}, {reads}, {host}: read-first {times:?}");
                assert!(scheme != "page" || times[2].1 < times[1].1, "{reads}, {host}: the tail {times:?}");
                for (i, (of_mean, of_tail)) in times.into_iter().enumerate() {
                    mean[i] += of_mean;
                    tail[i] += of_tail;
                }
            }
        }
        assert!(mean[1] < 0.9 * mean[0] && mean[2] < mean[1], "{scheme}: {mean:?}");
        assert!(tail[2] < if scheme == "page" { 0.5 } else { 1.01 } * tail[1], "{scheme}: {tail:?}");
    }
}

/// What a chip can do more is of use where there is something to do, and every command is still executed.
#[test]
fn features_of_the_chip_shorten_what_they_are_made_for() {
    let seconds = |features: Features, fill: Fill, shape: &str, spec: &str| {
        let device = format!("agrawal08:capacity=64MiB,channels=1,chips=1,spare=12.5%,{shape}");
        let mut config = Config { host: HostModel::Closed(64), fill, ..config("page", "", &device) };
        config.scheduling = queued(Policy::InOrder, features);
        let result = generated(&config, spec).result;
        (result.extra["simulated_seconds"].as_f64().unwrap(), result.by_cause)
    };
    let (few, writes) = ("uniform:reads=0,requests=10000", "uniform:reads=0,requests=40000");
    let reads = "uniform:reads=1,requests=60000";
    let planes = Features { multi_plane: MultiPlane::Independent, ..OFF };
    for (features, fill, shape, spec, least) in [
        (Features { cache_program: true, ..OFF }, Fill::None, "planes=1,dies=2,bus_mbps=40", few, 1.3),
        (Features { cache_read: true, ..OFF }, Fill::Sequential, "planes=1,dies=1,bus_mbps=40", reads, 1.2),
        (Features { copy_back: true, ..OFF }, Fill::Sequential, "planes=1,dies=2,bus_mbps=40", writes, 1.2),
        (planes, Fill::Sequential, "planes=4,dies=1,bus_mbps=1000", reads, 1.5),
    ] {
        let (plain, commands) = seconds(OFF, fill, shape, spec);
        let (fast, same) = seconds(features, fill, shape, spec);
        println!("{features:?}: {:.2} times as fast", plain / fast);
        assert_eq!(commands, same, "the commands do not depend on what the chip makes of them");
        assert!(plain / fast > least, "{features:?}: {plain} s, {fast} s");
    }
}

/// Barriers change when commands run, and none of the commands: a scheme that logs every change of its map waits for
/// them, placed at once and in queues.
#[test]
fn barriers_take_time_and_change_no_command() {
    for scheduling in [None, queued(Policy::InOrder, OFF)] {
        let [without, with] = ["off", "on"].map(|barriers| {
            let device = format!("agrawal08:capacity=64MiB,channels=8,planes=1,spare=25%,barriers={barriers}");
            let host = HostModel::Closed(16);
            let config = Config { host, scheduling, ..config("lsftl-e", "cache-bytes=4096", &device) };
            let result = generated(&config, "uniform:reads=0.5,requests=10000").result;
            (result.extra["simulated_seconds"].as_f64().unwrap(), result.by_cause)
        });
        println!("{scheduling:?}: {:.3} s, with barriers {:.3} s", without.0, with.0);
        assert_eq!(without.1, with.1);
        assert!(with.0 > 1.05 * without.0, "{} s, with barriers {} s", without.0, with.0);
    }
}

// ---- collecting when idle ------------------------------------------------------------------------------------------

/// Writes of several streams in turn, as long as each lasts; those of an open one come `GAP_NS` apart.
struct Streams {
    left: Vec<u64>,
    turn: u64,
    rng: Rng,
    pages: u64,
    intake: Intake,
}

const GAP_NS: u64 = 50_000_000;

impl Source for Streams {
    fn fill(&mut self, batch: &mut Vec<Request>, limit: usize) -> Result<(), WorkloadError> {
        let end = batch.len() + limit;
        while batch.len() < end && self.left.iter().any(|&left| left > 0) {
            self.turn += 1;
            for (flow, left) in self.left.iter_mut().enumerate().filter(|(_, left)| **left > 0) {
                *left -= 1;
                let (arrival_ns, offset) = (self.turn * GAP_NS, self.rng.below(self.pages) * 4096);
                let (volume, operation) = (flow as u32, Operation::Write);
                batch.push(Request { arrival_ns, offset, bytes: 4096, volume, operation });
            }
        }
        Ok(())
    }
    fn intake(&self) -> &Intake {
        &self.intake
    }
    fn timed(&self) -> bool {
        true
    }
}

/// What broke: without a scheduler, background work went ahead of the next request of a closed loop, five times as
/// slow. Why: that request waits for the end of another, which is known beforehand and was not asked for.
#[test]
fn a_closed_loop_leaves_no_pause_to_collect_in() {
    for scheme in ["page", "fast"] {
        for scheduling in [None, queued(Policy::InOrder, OFF)] {
            for depth in [1, 7] {
                let device = "agrawal08:capacity=32MiB,channels=1,chips=2,planes=1,spare=40%";
                let host = HostModel::Closed(depth);
                let plain = Config { host, scheduling, ..config(scheme, "", device) };
                let idle = Config { idle_ns: Some(1000), ..plain.clone() };
                let [(plain, without), (idle, with)] =
                    [plain, idle].map(|config| records(&config, "uniform:reads=20%,requests=12000"));
                assert_eq!(with.extra["idle_steps"], 0, "{scheme}, {scheduling:?}, closed:{depth}");
                assert_eq!(plain, idle, "{scheme}, {scheduling:?}, closed:{depth}");
                assert_eq!(with.response_us, without.response_us);
            }
        }
    }
}

/// As long as a closed stream has requests, there is no pause beside an open one either; afterwards there is.
#[test]
fn a_closed_flow_beside_an_open_one_is_not_kept_waiting_by_idle_work() {
    let device = "agrawal08:capacity=16MiB,channels=1,chips=2,planes=1,spare=40%";
    for scheduling in [None, queued(Policy::InOrder, OFF)] {
        let plain = Config {
            flows: vec![HostModel::Closed(2), HostModel::Open],
            scheduling,
            fill: Fill::Random,
            ..config("page", "", device)
        };
        let of = |config: &Config, open: u64| {
            let pages = u64::from(config.device.logical_pages);
            let (left, rng, intake) = (vec![6000, open], Rng::new(5), Intake::default());
            served(config, &mut Streams { left, turn: 0, rng, pages, intake }).result
        };
        // Half a second, within which the closed stream is not over, and ten, within which it is.
        for (open, pauses) in [(10, false), (200, true)] {
            let idle = Config { idle_ns: Some(1_000_000), ..plain.clone() };
            let [without, with] = [&plain, &idle].map(|config| of(config, open));
            let steps = with.extra["idle_steps"].as_u64().unwrap();
            assert_eq!(with.flows[0].response_us, without.flows[0].response_us, "{scheduling:?}, {open} open");
            assert_eq!(steps > 0, pauses, "{scheduling:?}, {open} open: {steps} steps");
        }
    }
}

// ---- channels ------------------------------------------------------------------------------------------------------

/// What it costs that a channel is reckoned as a backlog: the same runs with one that carries one transfer at a time.
/// On the channel of a single die it costs nothing.
#[test]
fn a_channel_reckoned_as_a_backlog_against_one_that_is_arbitrated() {
    for (scheme, most) in [("page", 0.25), ("dftl", 0.25), ("fast", 4.0)] {
        for (dies, rate) in [(1, 400), (4, 1200)] {
            let device = format!("agrawal08:capacity=64MiB,channels=2,chips=1,dies={dies},planes=1,spare=25%");
            let rhythm = if scheme == "fast" { "" } else { "gc-spread=on" };
            let mut config = Config { host: HostModel::Open, ..config(scheme, rhythm, &device) };
            let spec = format!("uniform:reads=0.7,requests=40000,arrival=poisson,rate={rate}");
            let mean = |config: &Config| generated(config, &spec).result.response_us.unwrap().mean;
            config.scheduling = Some(BACKLOG);
            let backlog = mean(&config);
            config.scheduling = queued(Policy::InOrder, OFF);
            let arbitrated = mean(&config);
            let off = 100.0 * (backlog / arbitrated - 1.0);
            println!("{scheme}, {dies} dies a channel: {backlog:.1} with a backlog, {arbitrated:.1} µs, {off:+.2} %");
            let most = if dies == 1 { 0.0 } else { 100.0 * most };
            assert!((-5.0..=most).contains(&off), "{scheme}, {dies} dies a channel: {backlog} {arbitrated}");
        }
    }
}

// ---- time ----------------------------------------------------------------------------------------------------------

/// An interval had all that ended before the first arrival behind it, and the rest of a burst was in none.
#[test]
fn an_interval_of_the_series_has_the_requests_that_ended_in_it() {
    for (host, policy) in HOSTS.into_iter().flat_map(|host| [(host, Policy::InOrder), (host, Policy::Suspend)]) {
        let mut config = config("page", "", "agrawal08:capacity=32MiB,planes=1,spare=40%");
        let features = Features { suspend: Some(SUSPEND), ..OFF };
        config = Config { host, series_ns: 1_000_000, scheduling: queued(policy, features), ..config };
        let (records, result) = records(&config, "uniform:reads=0.5,requests=3000,arrival=poisson,rate=20000");
        let mut from_ns = 0;
        for interval in &result.series {
            let end_ns = (interval.seconds * 1e9).round() as u64;
            let ended = records.iter().filter(|of| (from_ns..end_ns).contains(&(of[0] + of[6]))).count() as u64;
            assert_eq!(interval.requests, ended, "{host} {policy:?}, up to {} s", interval.seconds);
            from_ns = end_ns;
        }
        assert_eq!(result.series.iter().map(|interval| interval.requests).sum::<u64>(), 3000);
    }
}

/// Dies times nanoseconds do not fit into 64 bits: a share of the time was wrong, or the run ended in a panic.
#[test]
fn requests_may_be_decades_apart() {
    for scheduling in [None, queued(Policy::InOrder, OFF)] {
        let device = "agrawal08:capacity=32MiB,channels=4,chips=1,dies=4,planes=1,spare=40%";
        let config = Config { host: HostModel::Open, scheduling, ..config("page", "", device) };
        let result = served(&config, &mut Uniform::new(&config, Operation::Write, 3).poisson(1e18)).result;
        assert!(result.response_us.unwrap().mean < 1000.0);
        let share = |name: &str| result.extra.get(name).map(|share| share.as_f64().unwrap());
        assert!(share("die_busy_share").is_none_or(|share| (1e-15..1e-12).contains(&share)), "{:?}", result.extra);
        assert_eq!(share("die_busy_share").is_some(), scheduling.is_some());
    }
}

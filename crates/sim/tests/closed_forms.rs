//! Simulation against theory: write amplification, hit ratios, waiting times and conservation laws that have closed
//! forms. docs/validation.md derives each formula and tabulates measured against predicted.
//!
//! Every run prints its row, so that `cargo test -p ftlab-sim --test closed_forms -- --nocapture` gives the tables.
#![allow(clippy::print_stdout, reason = "the tables stand in docs/validation.md")]

mod support;

use ftl::parameters::{GC_LOW, SPREAD};
use sim::experiment::{Config, Fill, Outcome};
use sim::host::HostModel;
use sim::workload::Operation;
use support::{Uniform, config, generated, served};

/// The root of a continuous function that is negative at `low` and positive at `high`.
fn bisect(mut low: f64, mut high: f64, f: impl Fn(f64) -> f64) -> f64 {
    assert!(f(low) <= 0.0 && f(high) >= 0.0, "the root is not between {low} and {high}");
    for _ in 0..200 {
        let middle = (low + high) / 2.0;
        if f(middle) < 0.0 { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

// ---- write amplification -------------------------------------------------------------------------------------------

/// FIFO victims: x = e^(-(1-x)·T/U), WA = 1/(1-x).
fn fifo_write_amplification(effective: &dyn Fn(f64) -> f64, logical: f64) -> f64 {
    let x = bisect(0.0, 1.0 - 1e-6, |x| x - (-(1.0 - x) * effective(x) / logical).exp());
    1.0 / (1.0 - x)
}

/// FIFO victims where a share `hot` of the pages gets a share `to` of the writes. Every block is passed once in H host
/// writes. A page of a class with h of the pages and w of the writes is still live then with probability
/// s = e^(-H·w/(h·U)); between two host writes it is copied s/(1-s) times on average. WA = 1 + sum w·s/(1-s), and host
/// writes and copies fill what takes part: H·WA = T.
fn fifo_hot_cold_write_amplification(effective: &dyn Fn(f64) -> f64, logical: f64, hot: f64, to: f64) -> f64 {
    let copies = |h: f64, share: f64, writes: f64| {
        let live = (-h * writes / (share * logical)).exp();
        writes * live / (1.0 - live)
    };
    let amplification = |h: f64| 1.0 + copies(h, hot, to) + copies(h, 1.0 - hot, 1.0 - to);
    let h = bisect(1e-6 * logical, 2.0 * logical, |h| {
        let wa = amplification(h);
        h * wa - effective(1.0 - 1.0 / wa)
    });
    amplification(h)
}

/// H(n) between the integers: linear, as is exact here (docs/validation.md).
fn harmonic(n: f64) -> f64 {
    let whole = n.floor();
    let sum: f64 = (1..=whole as u32).map(|j| 1.0 / f64::from(j)).sum();
    sum + (n - whole) / (whole + 1.0)
}

/// Greedy victims with blocks of P pages: (H(P) - H(v)) / (P - v) = T / (U·P), WA = P / (P - v); the mean-field limit
/// of Van Houdt (SIGMETRICS 2013, d-choices for d to infinity), which Desnoyers (SYSTOR 2012) writes with Lambert's W.
fn greedy_write_amplification(effective: &dyn Fn(f64) -> f64, logical: f64, pages: f64) -> f64 {
    let v = bisect(0.0, pages - 1e-6, |v| {
        effective(v / pages) / (logical * pages) - (harmonic(pages) - harmonic(v)) / (pages - v)
    });
    pages / (pages - v)
}

/// Desnoyers' closed form: X0 = 1/2 - (P/a)·W(-(1 + 1/2P)·a·e^(-(1 + 1/2P)·a)), WA = P / (P - (X0 - 1)), a = T/U.
fn desnoyers_write_amplification(effective: f64, logical: f64, pages: f64) -> f64 {
    let a = effective / logical;
    let b = (1.0 + 0.5 / pages) * a;
    // The principal branch: w·e^w = -b·e^-b with w > -1.
    let w = bisect(-1.0, 0.0, |w| w * w.exp() + b * (-b).exp());
    let x0 = 0.5 - pages / a * w;
    pages / (pages - (x0 - 1.0))
}

/// Pages that take part in the log when the victims hold a share `x` of live pages (docs/validation.md).
fn effective_pages(config: &Config, x: f64) -> f64 {
    let g = config.device.geometry;
    let low = config.settings.count(&GC_LOW) as f64;
    let idle_blocks = match config.settings.switch(&SPREAD) {
        // Spread collections begin a block earlier.
        true => low + 1.0,
        // A round of collections ends with a block, and half a victim's gain, more than it began with.
        false => low + (1.0 + (1.0 - x) / 2.0) / 2.0,
    };
    f64::from(g.page_count()) - f64::from(g.die_count()) * f64::from(g.pages_per_block) * idle_blocks
}

/// The mean over the dies. Host pages go round them, but which die a page of data is found on is chance: each die is a
/// log of its own, that holds U/D pages with variance U·(D-1)/2D² (docs/validation.md) at a time. Gauss-Hermite
/// quadrature with three points.
fn over_dies(logical: f64, dies: f64, predict: impl Fn(f64) -> f64) -> f64 {
    let deviation = dies * (logical * (dies - 1.0) / (2.0 * dies * dies)).sqrt();
    let at = |sigmas: f64| predict(logical + sigmas * deviation);
    2.0 / 3.0 * at(0.0) + (at(3f64.sqrt()) + at(-(3f64.sqrt()))) / 6.0
}

fn written_until_steady(config: &mut Config) -> Outcome {
    let logical = u64::from(config.device.logical_pages);
    config.warmup = 8 * logical;
    served(config, &mut Uniform::new(config, Operation::Write, config.warmup + 10 * logical))
}

/// Runs all spares on a shape and holds each to within 2 % of the closed form, and to within 1 % of its mean over dies.
fn write_amplification(policy: &str, shape: &str) {
    for spread in ["on", "off"] {
        for spare in ["7", "12.5", "28"] {
            let device = format!("agrawal08:capacity=256MiB,{shape},spare={spare}%");
            let mut config = config("page", &format!("gc={policy} gc-spread={spread} gc-low=2"), &device);
            let measured = written_until_steady(&mut config).result.waf.unwrap();
            let g = config.device.geometry;
            let (logical, pages) = (f64::from(config.device.logical_pages), f64::from(g.pages_per_block));
            let effective = |x: f64| effective_pages(&config, x);
            let predict = |logical: f64| match policy {
                "fifo" => fifo_write_amplification(&effective, logical),
                _ => greedy_write_amplification(&effective, logical, pages),
            };
            let predicted = over_dies(logical, f64::from(g.die_count()), predict);
            let plain = predict(logical);
            let off = measured / predicted - 1.0;
            println!(
                "{policy:<6} | {:>2} x {:>5} x {pages:>3} | {spare:>4} % | {spread:<3} | {:.4} | {measured:.4} | \
                 {plain:.4} | {predicted:.4} | {:+.2} %",
                g.die_count(),
                g.blocks_per_die,
                effective(1.0 - 1.0 / measured) / logical,
                100.0 * off
            );
            assert!((measured / plain - 1.0).abs() < 0.02, "{policy}, {shape}, spare {spare} %: {measured} {plain}");
            assert!(off.abs() < 0.01, "{policy}, {shape}, spare {spare} %, spread {spread}: {measured} {predicted}");
        }
    }
}

const ONE_DIE: &str = "channels=1,chips=1,dies=1,planes=1,pages_per_block=64";
const EIGHT_DIES: &str = "channels=4,chips=2,dies=1,planes=1,pages_per_block=64";

#[test]
fn fifo_victims_on_one_die() {
    write_amplification("fifo", ONE_DIE);
}

#[test]
fn fifo_victims_on_eight_dies() {
    write_amplification("fifo", EIGHT_DIES);
}

/// Blocks without a dead page are collected too when their turn comes; skipping them would measure 4.77 instead of 5.18
/// for 10/90.
#[test]
fn fifo_victims_among_hot_and_cold_pages() {
    for spread in ["off", "on"] {
        for (hot, to) in [(0.1, 0.9), (0.2, 0.8)] {
            let device = format!("agrawal08:capacity=256MiB,{ONE_DIE},spare=12.5%");
            let mut config = config("page", &format!("gc=fifo gc-spread={spread}"), &device);
            let logical = u64::from(config.device.logical_pages);
            config.warmup = 12 * logical;
            let spec = format!("hotcold:hot={hot},to={to},reads=0,requests={}", 30 * logical);
            let measured = generated(&config, &spec).result.waf.unwrap();
            let effective = |x: f64| effective_pages(&config, x);
            let predicted = fifo_hot_cold_write_amplification(&effective, logical as f64, hot, to);
            let off = measured / predicted - 1.0;
            println!("fifo, {hot}/{to}, {spread:<3} | {measured:.4} | {predicted:.4} | {:+.2} %", 100.0 * off);
            assert!(off.abs() < 0.01, "hot {hot}, to {to}, spread {spread}: {measured} {predicted}");
        }
    }
}

#[test]
fn greedy_victims_on_one_die() {
    write_amplification("greedy", ONE_DIE);
}

#[test]
fn greedy_victims_on_eight_dies() {
    write_amplification("greedy", EIGHT_DIES);
}

#[test]
fn greedy_victims_in_small_blocks() {
    write_amplification("greedy", "channels=1,chips=1,dies=1,planes=1,pages_per_block=16");
}

/// Copies dealt in slices fell behind, so that now and then a block was full before the victim was empty; the die then
/// ran with fewer free blocks than `gc-low`, until one write had to wait for a whole round of collections (0.47 s).
/// Slices are dealt in advance now.
#[test]
fn spread_collections_keep_up_with_the_writes() {
    for (policy, low, spare) in [("fifo", 2, 12.5), ("fifo", 4, 12.5), ("greedy", 2, 7.0), ("greedy", 4, 12.5)] {
        let device = format!("agrawal08:capacity=128MiB,{ONE_DIE},spare={spare}%");
        let mut config = config("page", &format!("gc={policy} gc-spread=on gc-low={low}"), &device);
        let result = written_until_steady(&mut config).result;
        let (g, timing) = (config.device.geometry, config.device.timing);
        let copy_ns = timing.read_ns + timing.program_ns + 2 * timing.page_transfer_ns;
        let victim_us = (timing.erase_ns + u64::from(g.pages_per_block) * copy_ns) as f64 * 1e-3;
        let longest_us = result.response_us.unwrap().max;
        assert!(longest_us < victim_us, "{policy}, gc-low {low}: a write took {longest_us} µs");
        let effective = |x: f64| effective_pages(&config, x);
        let (logical, pages) = (f64::from(config.device.logical_pages), f64::from(g.pages_per_block));
        let predicted = match policy {
            "fifo" => fifo_write_amplification(&effective, logical),
            _ => greedy_write_amplification(&effective, logical, pages),
        };
        let measured = result.waf.unwrap();
        println!(
            "{policy}, gc-low {low}, spare {spare} %: {measured:.4}, {predicted:.4}; longest write {longest_us} µs"
        );
        assert!((measured / predicted - 1.0).abs() < 0.005, "{policy}, gc-low {low}: {measured} {predicted}");
    }
}

#[test]
fn desnoyers_closed_form_is_the_exact_solution_but_for_the_harmonic_numbers() {
    // Published form against sums, for the blocks and spares above; they part for tiny blocks only.
    for pages in [16.0, 64.0, 256.0] {
        for ratio in [1.07, 1.14, 1.38] {
            let exact = greedy_write_amplification(&|_| ratio, 1.0, pages);
            let published = desnoyers_write_amplification(ratio, 1.0, pages);
            assert!((published / exact - 1.0).abs() < 0.6 / pages, "P {pages}, T/U {ratio}: {published} {exact}");
        }
    }
    // Large blocks under greedy victims are FIFO's (Desnoyers 2012).
    let greedy = greedy_write_amplification(&|_| 1.14, 1.0, 8192.0);
    let fifo = fifo_write_amplification(&|_| 1.14, 1.0);
    assert!((greedy / fifo - 1.0).abs() < 0.002, "{greedy} {fifo}");
}

// ---- mapping caches ------------------------------------------------------------------------------------------------

/// Probability of each rank.
fn zipf(items: u64, theta: f64) -> Vec<f64> {
    let weights: Vec<f64> = (1..=items).map(|k| (k as f64).powf(-theta)).collect();
    let total: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / total).collect()
}

/// Che's approximation of an LRU cache's hit ratio: the characteristic time t solves sum (1 - e^(-p·t)) = C.
fn che_hit_ratio(popularity: &[f64], entries: f64) -> f64 {
    let held = |t: f64| popularity.iter().map(|p| -(-p * t).exp_m1()).sum::<f64>();
    let t = bisect(0.0, 1e12, |t| held(t) - entries);
    popularity.iter().map(|p| p * -(-p * t).exp_m1()).sum()
}

const ZIPF_DEVICE: &str = "agrawal08:capacity=128MiB,channels=1,chips=1,dies=1,planes=1,pages_per_block=64,spare=12.5%";

/// Hit ratio of `entries` cached entries, directory aside, after a warm-up.
fn hit_ratio(replacement: &str, entries: u64, theta: f64, reads: f64) -> f64 {
    let plain = config("dftl", "", ZIPF_DEVICE);
    let directory = u64::from(plain.device.logical_pages.div_ceil(plain.device.geometry.entries_per_page())) * 4;
    // LFU keeps a count with each entry.
    let bytes = directory + entries * if replacement == "lfu" { 12 } else { 8 };
    let mut config = config("dftl", &format!("replacement={replacement} cache-bytes={bytes}"), ZIPF_DEVICE);
    config.warmup = 400_000;
    let outcome = generated(&config, &format!("zipf:theta={theta},reads={reads},requests=1400000"));
    let cache = outcome.result.cache.unwrap();
    assert_eq!(cache.accesses, 1_000_000);
    if reads == 1.0 {
        assert_eq!(outcome.result.flash.programs, 0, "reads of a filled device write nothing back after the warm-up");
        assert!(!outcome.result.extra.contains_key("unmapped_page_reads"));
    }
    cache.hit_ratio.unwrap()
}

fn che(theta: f64, reads: f64) {
    let popularity = zipf(32_768, theta);
    for entries in [64, 512, 4096, 16_384] {
        let measured = hit_ratio("lru", entries, theta, reads);
        let predicted = che_hit_ratio(&popularity, entries as f64);
        println!(
            "zipf {theta:<4} | {:>3} % reads | {entries:>5} | {:.2} | {:.2} | {:+.2}",
            100.0 * reads,
            100.0 * measured,
            100.0 * predicted,
            100.0 * (measured - predicted)
        );
        assert!((measured - predicted).abs() < 0.01, "theta {theta}, {entries} entries: {measured} {predicted}");
    }
}

#[test]
fn lru_hit_ratio_is_ches() {
    for theta in [0.6, 0.8, 0.99, 1.2] {
        che(theta, 1.0);
    }
}

#[test]
fn lru_hit_ratio_is_ches_among_writes_and_collections_too() {
    che(0.8, 0.5);
    che(0.99, 0.0);
}

#[test]
fn keeping_what_is_popular_beats_keeping_what_is_recent() {
    for theta in [0.8, 0.99] {
        let [lru, slru, lfu] = ["lru", "slru", "lfu"].map(|order| hit_ratio(order, 1024, theta, 1.0));
        let ideal: f64 = zipf(32_768, theta)[..1024].iter().sum();
        println!("zipf {theta:<4} | 1024 | lru {lru:.4} | slru {slru:.4} | lfu {lfu:.4} | ideal {ideal:.4}");
        assert!(slru > lru && lfu > lru, "theta {theta}: lru {lru}, slru {slru}, lfu {lfu}");
        assert!(lfu < ideal, "no order beats knowing the popularity: {lfu} {ideal}");
    }
}

// ---- queues --------------------------------------------------------------------------------------------------------

const READ_US: f64 = 25.0;
const SERVER: &str = "agrawal08:capacity=16MiB,channels=1,chips=1,dies=1,planes=1,bus_mbps=0,spare=12.5%";

/// M/D/1: Poisson arrivals at load r, constant service time s: mean wait s·r / 2(1-r).
#[test]
fn one_die_under_poisson_reads_waits_as_m_d_1() {
    for (load, requests) in [(0.3, 2_000_000), (0.6, 4_000_000), (0.9, 16_000_000)] {
        let mut config = config("page", "", SERVER);
        config.host = HostModel::Open;
        config.warmup = 10_000;
        let gap_ns = READ_US * 1000.0 / load;
        let outcome = served(&config, &mut Uniform::new(&config, Operation::Read, requests).poisson(gap_ns));
        let service = outcome.result.service_us.as_ref().unwrap();
        assert_eq!((service.mean, service.max), (READ_US, READ_US));
        let measured = outcome.result.response_us.as_ref().unwrap().mean - service.mean;
        let predicted = READ_US * load / (2.0 * (1.0 - load));
        let off = measured / predicted - 1.0;
        println!("load {load} | {measured:.3} | {predicted:.3} | {:+.2} %", 100.0 * off);
        assert!(off.abs() < 0.02, "load {load}: {measured} {predicted}");
    }
}

/// Little's law: requests in the system = throughput x response; and nothing works more than all the time.
#[test]
fn a_closed_loop_obeys_littles_law_and_no_part_is_overworked() {
    for (scheme, shape) in [
        ("page", "channels=1,chips=1,dies=1"),
        ("page", "channels=2,chips=2,dies=2"),
        ("dftl", "channels=2,chips=2,dies=2"),
        ("dftl-e", "channels=4,chips=1,dies=1"),
        ("lazyftl", "channels=2,chips=2,dies=1"),
    ] {
        for depth in [1, 8, 64] {
            let mut config = config(scheme, "", &format!("agrawal08:capacity=64MiB,planes=1,{shape},spare=20%"));
            config.host = HostModel::Closed(depth);
            let outcome = generated(&config, "uniform:reads=0.5,requests=200000,size=4KiB*0.7+16KiB*0.3");
            let result = &outcome.result;
            let seconds = result.extra["simulated_seconds"].as_f64().unwrap();
            let response = result.response_us.as_ref().unwrap();
            let inside = 200_000.0 / seconds * response.mean * 1e-6;
            // All but the last requests have a successor: the ends differ by at most depth times the longest response.
            let slack = f64::from(depth) * response.max * 1e-6 / seconds * f64::from(depth);
            assert!((inside - f64::from(depth)).abs() <= slack.max(1e-6), "{scheme}, {shape}: {inside} of {depth}");
            // Collections may go on after the last request has ended, by what one of them takes on each die.
            let (g, timing) = (config.device.geometry, config.device.timing);
            let copy_ns = timing.read_ns + timing.program_ns + 2 * timing.page_transfer_ns;
            let tail = (timing.erase_ns + u64::from(2 * g.pages_per_block) * copy_ns) as f64 * 1e-9;
            let dies = f64::from(g.die_count());
            let utilisation = result.flash.busy_us * 1e-6 / (dies * (seconds + tail));
            let transfers = (result.flash.reads + result.flash.programs) as f64 * timing.page_transfer_ns as f64 * 1e-9;
            let channels = transfers / (f64::from(g.channels) * (seconds + tail));
            println!("{scheme}, {shape}, depth {depth}: {inside:.4} inside, dies {utilisation:.3}, bus {channels:.3}");
            assert!(utilisation <= 1.0 && channels <= 1.0, "{scheme}, {shape}: {utilisation}, {channels}");
            if dies == 1.0 {
                assert!(utilisation > 0.99, "one die with work waiting is never idle: {utilisation}");
            }
        }
    }
}

// ---- equivalences --------------------------------------------------------------------------------------------------

const TWIN_DEVICE: &str = "agrawal08:capacity=4GiB,channels=1,chips=1,dies=1,planes=1,spare=12.5%";

/// DFTL-E with lines of one entry is DFTL with LRU.
#[test]
fn lines_of_one_entry_are_dftl() {
    let results = ["dftl replacement=lru", "dftl-e line=1"].map(|words| {
        let (scheme, settings) = words.split_once(' ').unwrap();
        let mut config = config(scheme, &format!("{settings} cache-bytes=65536"), TWIN_DEVICE);
        config.host = HostModel::Open;
        generated(&config, "twin:financial1,requests=200000").result
    });
    let [dftl, lines] = &results;
    assert!(dftl.cache.as_ref().unwrap().writebacks > 1000, "the twin exercises evictions");
    assert_eq!((&dftl.by_cause, &dftl.cache, &dftl.flash), (&lines.by_cause, &lines.cache, &lines.flash));
    assert_eq!((&dftl.response_us, &dftl.service_us), (&lines.response_us, &lines.service_us));
    assert_eq!((&dftl.extra, &dftl.erase_count), (&lines.extra, &lines.erase_count));
}

/// A cache that holds the whole map, loaded by filling, makes DFTL a page mapping: no translation page ever reaches
/// flash, and all blocks hold data. The same commands, at the same times, whoever picks the victims, in both rhythms,
/// on one die and on eight. (That they come in the same order is a test of `ftl`.)
#[test]
fn a_cache_of_the_whole_map_is_page_mapping() {
    for (shape, spread) in [(ONE_DIE, "off"), (ONE_DIE, "on"), (EIGHT_DIES, "off"), (EIGHT_DIES, "on")] {
        for policy in ftl::GC_NAMES {
            let device = format!("agrawal08:capacity=64MiB,{shape},spare=20%");
            let rhythm = format!("gc={policy} gc-spread={spread}");
            let page = config("page", &rhythm, &device);
            let whole = config("dftl", &format!("{rhythm} cache-bytes=1000000"), &device);
            let spec = "zipf:theta=0.9,reads=0.3,requests=120000,arrival=poisson,rate=800";
            let [page, whole] = [page, whole].map(|mut config| {
                config.host = HostModel::Open;
                generated(&config, spec).result
            });
            assert!(page.by_cause["data_gc"].erases > 100, "{policy}, {shape}: something is collected");
            assert_eq!(whole.cache.as_ref().unwrap().misses, 0);
            assert_eq!((&page.by_cause, &page.flash), (&whole.by_cause, &whole.flash), "{policy}, {shape}, {spread}");
            assert_eq!(page.response_us, whole.response_us, "{policy}, {shape}, spread {spread}");
            assert_eq!(page.erase_count, whole.erase_count, "{policy}, {shape}, spread {spread}");
        }
    }
}

/// What uniform writes leave behind does not depend on how the device was filled.
#[test]
fn the_steady_state_forgets_the_fill() {
    let mut amplification = [Fill::None, Fill::Sequential, Fill::Random].map(|fill| {
        let mut config = config("page", "", "agrawal08:capacity=64MiB,channels=1,chips=1,dies=1,planes=1,spare=12.5%");
        config.fill = fill;
        written_until_steady(&mut config).result.waf.unwrap()
    });
    amplification.sort_by(f64::total_cmp);
    assert!(amplification[2] / amplification[0] < 1.01, "{amplification:?}");
}

//! Runs by hand: small enough to know every number.

use flash::{Rng, Scheduling};
use ftl::schemes::Registry;
use ftl::{buffer, schemes};
use sim::device::DeviceSpec;
use sim::experiment::{
    Config, Fill, Medium, Observer, Outcome, PartialPages, RunError, Unobserved, Until, run, run_from,
};
use sim::host::HostModel;
use sim::report::{self, Interval, RequestRecord, SchemeResult};
use sim::workload::{Intake, Operation, Request, Source, WorkloadError};
use std::sync::Arc;

/// Pages between looking at whether to go on.
const BATCH: u64 = 1024;

/// Requests from a list, and those that were taken.
struct List(Vec<Request>, usize, Intake);

impl Source for List {
    fn fill(&mut self, batch: &mut Vec<Request>, limit: usize) -> Result<(), WorkloadError> {
        let before = batch.len();
        batch.extend(self.0.iter().skip(self.1).take(limit));
        self.1 += batch.len() - before;
        Ok(())
    }
    fn rewind(&mut self) -> bool {
        self.1 = 0;
        true
    }
    fn intake(&self) -> &Intake {
        &self.2
    }
    fn timed(&self) -> bool {
        true
    }
}

fn request(arrival_us: u64, operation: Operation, offset: u64, bytes: u64) -> Request {
    Request { arrival_ns: arrival_us * 1000, offset, bytes, volume: 0, operation }
}

fn config(scheme: &'static str, device: &str) -> Config {
    let device = device.parse::<DeviceSpec>().unwrap().build(None).unwrap();
    Config::new(scheme, schemes::by_name(scheme).unwrap().settings(), device)
}

/// One die, no bus time: read 25, program 200, erase 1500 µs.
const PLAIN: &str = "agrawal08:capacity=4MiB,channels=1,bus_mbps=0,oob_read_us=0,planes=1,spare=30%";

fn run_list(config: &Config, requests: Vec<Request>) -> Outcome {
    run(config, &mut List(requests, 0, Intake::default()), &mut Unobserved).unwrap()
}

#[test]
fn times_of_single_requests_add_up() {
    let outcome = run_list(
        &config("page", PLAIN),
        vec![
            request(0, Operation::Write, 0, 8192),
            request(100, Operation::Read, 0, 4096),
            request(5000, Operation::Read, 4096, 4096),
            request(6000, Operation::Read, 1 << 20, 4096),
        ],
    );
    let response = outcome.result.response_us.as_ref().unwrap();
    // Two programs one after the other: 400. The first read waits for them: 400 − 100 + 25. Then 25, and nothing.
    assert_eq!(response.write.as_ref().unwrap().mean, 400.0);
    assert_eq!(response.read.as_ref().unwrap().mean, (325.0 + 25.0 + 0.0) / 3.0);
    let service = outcome.result.service_us.as_ref().unwrap();
    assert_eq!(service.read.as_ref().unwrap().mean, (25.0 + 25.0 + 0.0) / 3.0);
    assert_eq!((outcome.workload.write_pages, outcome.workload.read_pages), (2, 3));
    assert_eq!(outcome.result.extra["unmapped_page_reads"], 1);
    assert_eq!(outcome.result.waf, Some(1.0));
    assert_eq!(outcome.result.flash.busy_us, 450.0);
}

#[test]
fn partial_pages_are_read_first_unless_told_otherwise() {
    let requests = || vec![request(0, Operation::Write, 0, 8192), request(5000, Operation::Write, 2048, 4096)];
    let outcome = run_list(&config("page", PLAIN), requests());
    assert_eq!(outcome.result.flash.reads, 2);
    assert_eq!(outcome.result.extra["partial_page_writes"], 2);
    let ignore = Config { partial: PartialPages::Ignore, ..config("page", PLAIN) };
    assert_eq!(run_list(&ignore, requests()).result.flash.reads, 0);
    // The pair is one access of a mapping cache.
    let outcome = run_list(&config("dftl", PLAIN), requests());
    assert_eq!(outcome.result.cache.unwrap().accesses, 4);
}

/// 6 KiB that touch two pages of 4 KiB: less than 8 KiB for who counts bytes, and no less for who counts pages.
#[test]
fn schemes_are_told_the_bytes_of_a_request() {
    for (scheme, rule) in [("last", None), ("fast", Some(("sequential", "large")))] {
        for (unit, expected) in [("bytes", 0), ("pages", 2)] {
            let mut config = Config { fill: Fill::Sequential, ..config(scheme, PLAIN) };
            rule.into_iter().for_each(|(name, value)| config.settings.set(name, value).unwrap());
            config.settings.set("sequential-unit", unit).unwrap();
            let result = run_list(&config, vec![request(0, Operation::Write, 8 * 4096 + 2048, 6144)]).result;
            assert_eq!(result.extra["sequential_pages"], expected, "{scheme}, {unit}");
        }
    }
}

#[test]
fn causes_partition_the_time() {
    let mut rng = Rng::new(3);
    let requests: Vec<Request> =
        (0..20_000).map(|i| request(i * 300, Operation::Write, rng.below(1024) * 4096, 4096)).collect();
    for scheme in ["page", "dftl", "dftl-e", "lazyftl"] {
        let mut config = config(scheme, PLAIN);
        config.fill = Fill::Sequential;
        if scheme.starts_with("dftl") {
            config.settings.set("cache-bytes", "1000").unwrap();
        }
        let result = run_list(&config, requests.clone()).result;
        assert_eq!(result.ended, "complete");
        let causes: f64 = result.by_cause.values().map(|totals| totals.us).sum();
        assert!((causes - result.flash.busy_us).abs() < 1e-6);
        assert_eq!(result.by_cause["host"].programs, 20_000);
        assert_eq!(result.waf.unwrap(), result.flash.programs as f64 / 20_000.0);
        let erases = result.erase_count.as_ref().unwrap();
        let blocks = config.device.geometry.block_count();
        assert!((erases.mean * f64::from(blocks) - result.flash.erases as f64).abs() < 1e-6);
    }
}

#[test]
fn a_warm_up_is_not_measured() {
    let requests: Vec<Request> =
        (0..3000).map(|i| request(i * 1000, Operation::Write, i % 1024 * 4096, 4096)).collect();
    let outcome = run_list(&Config { warmup: 2000, ..config("page", PLAIN) }, requests.clone());
    assert_eq!(outcome.workload.requests, 1000);
    assert_eq!(outcome.result.by_cause["host"].programs, 1000);
    for warmup in [3000, 5000] {
        let outcome = run_list(&Config { warmup, ..config("page", PLAIN) }, requests.clone());
        assert_eq!(outcome.result.ended, "in the warm-up: the workload ended after 3000 requests", "{warmup}");
    }
}

/// Keeps every record, and ends filling after so many pages.
struct Listener {
    records: Vec<RequestRecord>,
    filled: u64,
    most_filled: u64,
}

impl Observer for Listener {
    fn filled(&mut self, pages: u64) -> bool {
        self.filled += pages;
        self.filled < self.most_filled
    }
    fn wants_records(&self) -> bool {
        true
    }
    fn record(&mut self, record: &RequestRecord) {
        self.records.push(*record);
    }
}

#[test]
fn records_and_series_leave_the_warm_up_out() {
    let requests: Vec<Request> =
        (0..3000).map(|i| request(i * 1000, Operation::Write, i % 1024 * 4096, 4096)).collect();
    let config = Config { warmup: 1500, series_ns: 100_000_000, ..config("page", PLAIN) };
    let mut listener = Listener { records: Vec::new(), filled: 0, most_filled: u64::MAX };
    let outcome = run(&config, &mut List(requests.clone(), 0, Intake::default()), &mut listener).unwrap();
    assert_eq!(listener.records.len(), 1500);
    assert_eq!(listener.records[0].arrival_ns, 1_500_000_000);
    let counted: u64 = outcome.result.series.iter().map(|interval| interval.requests).sum();
    assert_eq!((counted, outcome.result.series.len()), (1500, 16));
    // The end of an interval as long as 64 bits allow came before its beginning.
    let longest = Config { series_ns: u64::MAX, ..config };
    let outcome = run_list(&longest, requests.clone());
    assert_eq!(outcome.result.series.iter().map(|interval| interval.requests).collect::<Vec<_>>(), [1500]);
    // A workload that ends in its warm-up leaves nothing to measure.
    let config = Config { series_ns: 100_000_000, ..longest };
    let mut listener = Listener { records: Vec::new(), ..listener };
    let config = Config { warmup: 5000, ..config };
    let outcome = run(&config, &mut List(requests, 0, Intake::default()), &mut listener).unwrap();
    assert!(listener.records.is_empty());
    assert!(outcome.result.series.iter().all(|interval| interval.requests == 0));
    assert_eq!((outcome.workload.requests, outcome.result.flash.programs), (0, 0));
    assert_eq!((outcome.result.response_us, outcome.result.waf), (None, None));
}

#[test]
fn filling_can_be_ended() {
    let pages = u64::from(config("page", PLAIN).device.logical_pages);
    for (fill, most_filled) in [(Fill::Sequential, 1), (Fill::Random, 1), (Fill::Steady, 1), (Fill::Steady, pages + 1)]
    {
        let config = Config { fill, ..config("page", PLAIN) };
        let mut listener = Listener { records: Vec::new(), filled: 0, most_filled };
        let requests = vec![request(0, Operation::Write, 0, 4096)];
        let outcome = run(&config, &mut List(requests, 0, Intake::default()), &mut listener).unwrap();
        assert_eq!(outcome.result.ended, report::INTERRUPTED);
        assert!(listener.filled < most_filled + BATCH, "{fill:?}: {} pages", listener.filled);
        assert_eq!((outcome.workload.requests, listener.records.len()), (0, 0));
    }
    let mut listener = Listener { records: Vec::new(), filled: 0, most_filled: u64::MAX };
    let config = Config { fill: Fill::Sequential, ..config("page", PLAIN) };
    run(&config, &mut List(Vec::new(), 0, Intake::default()), &mut listener).unwrap();
    assert_eq!(listener.filled, pages, "every page is counted");
}

#[test]
fn the_series_covers_the_run_and_sums_to_it() {
    let requests: Vec<Request> = (0..1000).map(|i| request(i * 1000, Operation::Write, i % 64 * 4096, 4096)).collect();
    let outcome = run_list(&Config { series_ns: 100_000_000, ..config("page", PLAIN) }, requests);
    assert_eq!(outcome.result.series.len(), 10);
    assert!(outcome.result.series.iter().all(|interval| interval.requests == 100 && interval.iops == 1000.0));
}

fn buffered(scheme: &'static str, policy: &str, bytes: u64) -> Config {
    let mut config = config(scheme, PLAIN);
    buffer::add_to(&mut config.settings, buffer::by_name(policy).unwrap(), bytes);
    config
}

#[test]
fn a_write_buffer_saves_programs_and_what_it_holds_at_the_end_is_charged() {
    let pages = |pages: &[u64]| -> Vec<Request> {
        (0..).zip(pages).map(|(i, page)| request(i * 1000, Operation::Write, page * 4096, 4096)).collect()
    };
    for policy in buffer::NAMES {
        let outcome = run_list(&buffered("page", policy, 1 << 20), pages(&[0, 1, 0, 1, 0, 7, 1, 0]));
        let result = &outcome.result;
        // Three pages were written, in two requests; no response waited for them.
        assert_eq!((result.flash.programs, result.waf), (3, Some(3.0 / 8.0)), "{policy}");
        assert_eq!(
            (&result.extra["write_buffer_drain_pages"], &result.extra["write_buffer_drain_seconds"]),
            (&3.into(), &(600_000.0 * 1e-9).into())
        );
        assert_eq!(result.response_us.as_ref().unwrap().max, 0.0);
        assert_eq!(result.extra["write_buffer_write_hit_ratio"], 5.0 / 8.0);
        assert_eq!(result.extra["write_buffer_requests"], 2);
        assert_eq!(result.extra["simulated_seconds"], 7e-3, "the drain is no part of it");
        assert!(!result.extra.contains_key("write_buffer_read_hit_ratio"));
        assert_eq!((&result.params["buffer"], &result.params["buffer-bytes"]), (&(*policy).into(), &(1 << 20).into()));
        assert_eq!(result.sram["write buffer data"], 1 << 20);
        assert!(result.sram_bytes > 1 << 20);
    }
    let result = run_list(&config("page", PLAIN), pages(&[0, 1, 0])).result;
    assert!(!result.extra.keys().any(|key| key.starts_with("write_buffer")), "{:?}", result.extra);
}

/// Where commands queue in order, and channels are reckoned as they are without, a run is what it is without: what a
/// write buffer holds at the end, requests of a warm-up that outlast it, repetitions, a device that is full.
#[test]
fn queues_in_order_change_nothing() {
    use flash::device::Features;
    use flash::{Bus, Policy};
    let parallel = "agrawal08:capacity=4MiB,channels=2,chips=1,dies=2,planes=1,spare=55%";
    let mut rng = Rng::new(4);
    let requests: Vec<Request> = (0..4000)
        .map(|i| {
            let operation = [Operation::Write, Operation::Write, Operation::Read, Operation::Flush, Operation::Trim];
            let operation = operation[if rng.chance(0.01) { 3 + rng.below(2) } else { rng.below(3) } as usize];
            request(i * 700, operation, rng.below(1000) * 4096, 4096 * (1 + rng.below(3)))
        })
        .collect();
    let plain = config("page", parallel);
    let mut buffered = buffered("page", "fab", 1 << 20);
    buffered.device = plain.device.clone();
    let scheduling = Scheduling { policy: Policy::InOrder, bus: Bus::Backlog, features: Features::default() };
    for (host, config) in [
        (HostModel::Open, plain.clone()),
        (HostModel::Closed(5), Config { warmup: 1500, ..plain.clone() }),
        (HostModel::Open, buffered.clone()),
        (HostModel::Closed(3), buffered),
        (HostModel::Open, Config { until: Until::MeanErases(3.0), ..plain.clone() }),
        (HostModel::Closed(9), Config { until: Until::MeanErases(3.0), ..plain }),
    ] {
        let config = Config { host, ..config };
        let [expected, found] = [None, Some(scheduling)].map(|scheduling| {
            let config = Config { scheduling, ..config.clone() };
            let mut result = run_list(&config, requests.clone()).result;
            for key in [report::SUSPENDS, "die_busy_share", "channel_busy_share"] {
                assert_eq!(result.extra.remove(key).is_some(), scheduling.is_some(), "{key}");
            }
            result
        });
        let times = |result: &SchemeResult| {
            let of = |latency: &Option<report::Latency>| latency.as_ref().map(|l| (l.mean, l.p50, l.p99, l.max));
            [of(&result.response_us), of(&result.service_us), of(&result.queue_us)]
        };
        assert_eq!(
            (&found.ended, &found.by_cause, &found.until),
            (&expected.ended, &expected.by_cause, &expected.until)
        );
        // Where a buffer's pages of several dies come before the host's, commands wait for other dies, and which goes
        // first on one depends on when that is decided.
        if !config.settings.iter().any(|(name, _)| name == "buffer-bytes") {
            assert_eq!(times(&found), times(&expected));
            assert_eq!(found.extra, expected.extra);
        }
        assert!(found.response_us.unwrap().mean > 0.0);
    }
}

#[test]
fn a_write_waits_for_the_victim_whose_room_it_takes() {
    // A block has 64 pages. The first 64 writes fill the buffer; the next makes room by writing 64 pages.
    let blocks = [(0, 64), (64, 1)].map(|(first, pages)| request(0, Operation::Write, first * 4096, pages * 4096));
    let result = run_list(&buffered("page", "fab", 64 * 4096), blocks.to_vec()).result;
    assert_eq!(result.response_us.unwrap().max, 64.0 * 200.0);
    assert_eq!(
        (&result.extra["write_buffer_block_requests"], &result.extra["write_buffer_flush_of_64"]),
        (&1.into(), &1.into())
    );
    assert_eq!(result.extra["write_buffer_drain_pages"], 1);
    // Four pages of block 5, which was written least recently but for the block that is written: 60 reads come before
    // the 64 programs.
    let mut config = buffered("page", "bplru", 64 * 4096);
    config.fill = Fill::Sequential;
    let scattered = (0..65).map(|i| request(0, Operation::Write, i % 15 * 64 * 4096 + i / 15 * 4096, 4096)).collect();
    let result = run_list(&config, scattered).result;
    assert_eq!(result.response_us.unwrap().max, 60.0 * 25.0 + 64.0 * 200.0);
    assert_eq!(result.extra["write_buffer_block_request_share"], 1.0);
}

#[test]
fn a_buffer_that_does_not_fit_is_refused() {
    let refused = |bytes| {
        let mut list = List(Vec::new(), 0, Intake::default());
        run(&buffered("page", "bplru", bytes), &mut list, &mut Unobserved).unwrap_err().to_string()
    };
    assert!(refused(4096).contains("bplru gathers blocks of 64 pages, and 4096 bytes hold 1"), "{}", refused(4096));
    assert!(refused(8 << 20).contains("larger than the device, which exports 1024 pages"), "{}", refused(8 << 20));
}

#[test]
fn the_same_seed_gives_the_same_result() {
    let mut rng = Rng::new(3);
    let requests: Vec<Request> =
        (0..5000).map(|i| request(i * 300, Operation::Write, rng.below(1024) * 4096, 4096)).collect();
    let mut config = config("page", PLAIN);
    config.fill = Fill::Random;
    config.settings.set("gc", "random").unwrap();
    let results = [(); 2].map(|()| {
        let mut result = run_list(&config, requests.clone()).result;
        (result.wall_seconds, result.fill_wall_seconds) = (0.0, 0.0);
        result
    });
    assert_eq!(results[0], results[1]);
}

/// A device of 1,456 pages in 64-page blocks, overwritten page by page.
fn overwriting(config: &Config) -> (Vec<Request>, u64) {
    let pages = u64::from(config.device.logical_pages);
    ((0..pages).map(|page| request(page * 300, Operation::Write, page * 4096, 4096)).collect(), pages)
}

#[test]
fn a_workload_is_repeated_whole_until_blocks_are_worn_as_asked() {
    for host in [HostModel::Open, HostModel::Closed(1)] {
        let config = Config { until: Until::MeanErases(3.0), host, ..config("page", PLAIN) };
        let (requests, pages) = overwriting(&config);
        let outcome = run_list(&config, requests);
        let until = outcome.result.until.as_ref().unwrap();
        assert!(outcome.result.is_complete() && until.iterations.fract() == 0.0, "{until:?}");
        assert_eq!(outcome.workload.requests, until.iterations as u64 * pages);
        assert_eq!(until.host_bytes_written, outcome.workload.write_pages * 4096);
        assert_eq!(until.worn_out_blocks, None);
        // Written in order, every block is erased once for each device of pages beyond the first; what is spare comes
        // on top. The iteration before the last had not got there.
        let count = outcome.result.erase_count.as_ref().unwrap();
        let blocks = f64::from(config.device.geometry.block_count());
        assert!(count.mean >= 3.0 && count.mean < 3.0 + pages as f64 / 64.0 / blocks, "{count:?}");
        assert_eq!(count.histogram.iter().map(|bin| bin.blocks).sum::<u64>() as f64, blocks);
        // One iteration follows the other.
        if host == HostModel::Open {
            let seconds = outcome.result.extra["simulated_seconds"].as_f64().unwrap();
            assert!(seconds > 300e-6 * (until.iterations * (pages - 1) as f64), "{seconds}");
        }
    }
}

#[test]
fn a_device_comes_to_the_end_of_its_life() {
    let plain = config("page", &format!("{PLAIN},endurance=5"));
    let config = Config { until: Until::EndOfLife, ..plain };
    let (requests, pages) = overwriting(&config);
    let outcome = run_list(&config, requests.clone());
    let (result, until) = (&outcome.result, outcome.result.until.as_ref().unwrap());
    assert_eq!(result.ended, report::END_OF_LIFE);
    assert_eq!(result.erase_count.as_ref().unwrap().max, 5);
    // So many blocks are bad that the others do not hold the data and what is kept free.
    let blocks = u64::from(config.device.geometry.block_count());
    let bad = until.worn_out_blocks.unwrap();
    assert!(bad > 0 && (blocks - bad) * 64 < pages + 4 * 64, "{bad} of {blocks}");
    assert_eq!(until.iterations, outcome.workload.write_pages as f64 / pages as f64);
    assert!(until.iterations > 4.0 && until.iterations < 9.0, "{until:?}");
    // It may be over before the workload is.
    let long: Vec<Request> = (0..20)
        .flat_map(|turn| {
            requests.iter().map(move |r| Request { arrival_ns: r.arrival_ns + turn * 1_000_000_000, ..*r })
        })
        .collect();
    let part = run_list(&config, long).result.until.unwrap();
    assert!((part.iterations * 20.0 - until.iterations).abs() < 1e-9, "{part:?} {until:?}");
}

/// What broke: erases of the fill wore blocks out, and its writes did not count as the host's. Schemes whose fill takes
/// more erases were left a shorter life, and `bast` was full in the fill.
#[test]
fn the_fill_costs_no_life() {
    let device = "agrawal08:capacity=4MiB,channels=1,planes=1,spare=30%,endurance=20";
    for scheme in ["page", "bast"] {
        let life = |fill: Fill| {
            let config = Config { until: Until::EndOfLife, fill, ..config(scheme, device) };
            let (requests, _) = overwriting(&config);
            let result = run_list(&config, requests).result;
            assert_eq!(result.ended, report::END_OF_LIFE, "{scheme}, {}", fill.name());
            assert_eq!(result.erase_count.unwrap().max, 20, "{scheme}, {}", fill.name());
            result.until.unwrap().host_bytes_written as f64
        };
        let (new, used) = (life(Fill::None), life(Fill::Steady));
        assert!((used / new - 1.0).abs() < 0.1, "{scheme}: {new} and {used} B");
    }
}

#[test]
fn a_workload_that_wears_nothing_is_not_repeated_for_ever() {
    let config = Config { until: Until::MeanErases(1.0), ..config("page", PLAIN) };
    let run = |requests| run(&config, &mut List(requests, 0, Intake::default()), &mut Unobserved);
    for requests in [vec![], vec![request(0, Operation::Read, 0, 4096)]] {
        assert!(matches!(run(requests), Err(RunError::Endless(_))));
    }
}

#[test]
fn wear_levelling_is_reported_where_it_is_on() {
    let run_with = |mode: &str| {
        let mut config = Config { until: Until::MeanErases(40.0), fill: Fill::Sequential, ..config("page", PLAIN) };
        config.settings.set("wear-levelling", mode).unwrap();
        let requests = (0..200).map(|i| request(i * 300, Operation::Write, i * 7 % 100 * 4096, 4096)).collect();
        run_list(&config, requests).result
    };
    let (off, swap) = (run_with("off"), run_with("swap"));
    assert!(off.wear_levelling.is_none() && !off.by_cause.contains_key("wear_levelling"));
    let (cause, levelling) = (&swap.by_cause["wear_levelling"], swap.wear_levelling.as_ref().unwrap());
    assert!(levelling.copies > 0 && (levelling.copies, levelling.erases) == (cause.programs, cause.erases));
    assert_eq!(levelling.seconds, cause.us * 1e-6);
    let percent = 100.0 * levelling.seconds / swap.cleaning_seconds.unwrap();
    assert!((levelling.percent_of_cleaning.unwrap() / percent - 1.0).abs() < 1e-12);
    let stdev = |result: &SchemeResult| result.erase_count.as_ref().unwrap().stdev;
    assert!(stdev(&swap) < stdev(&off) / 2.0, "{} {}", stdev(&swap), stdev(&off));
}

/// The differentiated-ECC paper's device and its worked example as requests a second apart: what the report says of
/// modes, pages and times.
#[test]
fn error_correction_is_reported_where_a_policy_decides() {
    let run_with = |policy: &str| {
        let mut config = Config {
            partial: PartialPages::Ignore,
            series_ns: 4_000_000_000,
            ..config("page", "ecc-paper:capacity=64MiB,channels=1,chips=1,spare=15%")
        };
        config.settings.set("ecc", policy).unwrap();
        config.fill = Fill::Sequential;
        let x = "wwrwrrrrw".chars().map(|access| (access, 9));
        // Two pages more, one only read and one only written.
        let accesses = x.chain([('r', 4000), ('w', 7000)]);
        let requests = (0..).zip(accesses).map(|(second, (access, page))| {
            let operation = if access == 'w' { Operation::Write } else { Operation::Read };
            request(second * 1_000_000, operation, page * 8192, 8192)
        });
        run_list(&config, requests.collect()).result
    };
    let plain = run_with("none");
    assert!(plain.ecc.is_none() && plain.series.iter().all(|interval| interval.page_reads.is_empty()));
    let result = run_with("differentiated");
    let ecc = result.ecc.as_ref().unwrap();
    assert_eq!((ecc.normal_writes, ecc.low_cost_writes, ecc.normal_reads, ecc.low_cost_reads), (1, 4, 2, 4));
    assert_eq!((ecc.rewrites, ecc.medium_writes, ecc.low_cost_write_ratio), (1, 0, Some(0.8)));
    assert_eq!((ecc.read_only_pages, ecc.write_only_pages, ecc.overlapped_pages), (1, 1, 1));
    // The read that orders a rewrite does not wait for it.
    let response = result.response_us.as_ref().unwrap();
    assert_eq!(response.write.as_ref().unwrap().mean, (4.0 * 650.0 + 1300.0) / 5.0);
    assert_eq!(response.read.as_ref().unwrap().mean, (4.0 * 140.0 + 2.0 * 75.0) / 6.0);
    let us = |cause: &str| result.by_cause[cause].us;
    assert_eq!((us("host"), us("ecc_rewrite")), (4.0 * 650.0 + 1300.0 + 4.0 * 140.0 + 2.0 * 75.0, 1300.0));
    // Nothing was collected: host time is that of the pages in their modes.
    assert_eq!(result.war, Some(1.0));
    let page_reads = |interval: &Interval| interval.page_reads.iter().sum::<u64>();
    assert_eq!(result.series.iter().map(page_reads).collect::<Vec<_>>(), [1, 4, 1]);
    let bch = run_with("uniform-bch");
    assert_eq!((bch.response_us, bch.by_cause), (plain.response_us, plain.by_cause));
    assert_eq!(bch.ecc.unwrap().low_cost_write_ratio, Some(0.0));
}

/// The page whose first byte is asked for, and how the request lies in it.
fn at(operation: Operation, page: u64, from: u64, bytes: u64) -> Request {
    request(0, operation, page * 4096 + from, bytes)
}

#[test]
fn the_workload_fills_the_device_once_and_is_then_measured() {
    let pages = config("page", PLAIN).device.logical_pages as f64;
    let requests = vec![
        at(Operation::Write, 0, 0, 8192),
        // Read and never written: live all the same.
        at(Operation::Read, 2, 0, 4096),
        // Half a page on either side of a border: two pages, written whole.
        at(Operation::Write, 10, 2048, 4096),
        at(Operation::Read, 20, 0, 4096),
        // Pages 0 and 10 lie in these whole; page 11 lies in one in part, and page 20 is written again afterwards.
        at(Operation::Trim, 0, 0, 4096),
        at(Operation::Trim, 10, 0, 6000),
        at(Operation::Trim, 20, 0, 4096),
        at(Operation::Flush, 0, 0, 0),
        at(Operation::Write, 20, 100, 100),
    ];
    let config = Config { fill: Fill::Trace, partial: PartialPages::Ignore, ..config("page", PLAIN) };
    let mut listener = Listener { records: Vec::new(), filled: 0, most_filled: u64::MAX };
    let outcome = run(&config, &mut List(requests.clone(), 0, Intake::default()), &mut listener).unwrap();
    let result = &outcome.result;
    assert_eq!(result.ended, "complete");
    assert_eq!(listener.filled, 2 + 1 + 2 + 1 + 1, "pages, reads among them");
    // Live: 1, 2, 11, 20.
    assert_eq!(result.extra[report::LIVE_SHARE], 4.0 / pages);
    // What is counted is the second time: two pages, two halves, one part; reads of 2 and 20 find what the fill wrote.
    assert_eq!((outcome.workload.requests, outcome.workload.write_pages, result.flash.programs), (9, 5, 5));
    assert_eq!((result.flash.reads, result.extra.get("unmapped_page_reads")), (2, None));
    assert_eq!(result.extra["trims"], 3);
    // The clock starts at zero: five programs one behind the other, and two reads.
    assert_eq!(result.extra["simulated_seconds"], (5.0 * 200_000.0 + 2.0 * 25_000.0) * 1e-9);
    assert_eq!(listener.records.iter().map(|record| record.arrival_ns).max(), Some(0));
    // Twenty times over it wears the device, of which nothing is counted; the mapping cache stays warm.
    let many: Vec<Request> = (0..20_000).map(|i| at(Operation::Write, i % 900, 0, 4096)).collect();
    let few = |fill, warmup, requests: &[Request]| {
        let mut config = Config { fill, warmup, ..config.clone() };
        config.scheme = "dftl".into();
        config.settings = schemes::by_name("dftl").unwrap().settings();
        run_list(&config, requests.to_vec()).result
    };
    let (cold, warm) = (few(Fill::None, 0, &many[..1]), few(Fill::Trace, 0, &many[..1]));
    assert_eq!((cold.cache.unwrap().misses, warm.cache.unwrap().misses), (1, 0));
    let warm = few(Fill::Trace, 0, &many);
    let erases = warm.erase_count.unwrap();
    assert!(erases.mean > 5.0, "{}", erases.mean);
    let blocks = f64::from(config.device.geometry.block_count());
    assert_eq!((erases.mean * blocks).round(), warm.flash.erases as f64, "those of the second time");
}

#[test]
fn a_fill_by_the_workload_is_the_workload_as_writes_before_it() {
    let mut rng = Rng::new(8);
    let requests: Vec<Request> = (0..6000)
        .map(|i| match rng.below(8) {
            0..3 => request(i * 400, Operation::Read, rng.below(1000) * 4096, 8192),
            3 => request(i * 400, Operation::Trim, rng.below(1000) * 4096, 5 * 4096),
            _ => request(i * 400, Operation::Write, rng.below(1000) * 4096, 4096),
        })
        .collect();
    let of = |operation| if operation == Operation::Read { Operation::Write } else { operation };
    let writes = requests.iter().map(|request| Request { operation: of(request.operation), ..*request });
    let shifted = |request: &Request| Request { arrival_ns: request.arrival_ns + 6000 * 400_000, ..*request };
    let before: Vec<Request> = writes.chain(requests.iter().map(shifted)).collect();
    for row in schemes::SCHEMES.iter().filter(|row| row.keeps_data) {
        let config = || config(row.name, "agrawal08:capacity=4MiB,channels=1,planes=1,spare=50%");
        let filled = Config { fill: Fill::Trace, ..config() };
        let warmed = Config { warmup: requests.len() as u64, ..config() };
        let (filled, warmed) = (run_list(&filled, requests.clone()), run_list(&warmed, before.clone()));
        assert_eq!(filled.result.ended, "complete", "{}", row.name);
        assert_eq!(filled.workload, warmed.workload, "{}", row.name);
        assert_eq!(filled.result.flash, warmed.result.flash, "{}", row.name);
        assert_eq!(filled.result.erase_count, warmed.result.erase_count, "{}", row.name);
        assert_eq!(filled.result.extra[report::LIVE_SHARE], warmed.result.extra[report::LIVE_SHARE], "{}", row.name);
    }
}

#[test]
fn the_live_share_is_that_at_the_end_of_a_warm_up() {
    let pages = u64::from(config("page", PLAIN).device.logical_pages);
    let share = |fill, warmup, paced: bool, requests: &[Request]| {
        let mut config = Config { fill, warmup, ..config("page", PLAIN) };
        config.idle_ns = paced.then_some(1_000_000_000);
        run_list(&config, requests.to_vec()).result.extra[report::LIVE_SHARE].as_f64().unwrap()
    };
    let requests: Vec<Request> = (0..64)
        .map(|page| {
            request(page * 1000, if page % 4 == 3 { Operation::Trim } else { Operation::Write }, page * 4096, 4096)
        })
        .collect();
    for paced in [false, true] {
        assert_eq!(share(Fill::None, 0, paced, &requests), 0.0);
        assert_eq!(share(Fill::None, 32, paced, &requests), 24.0 / pages as f64);
        assert_eq!(share(Fill::Sequential, 0, paced, &requests), 1.0);
        assert_eq!(share(Fill::Random, 32, paced, &requests), (pages - 8) as f64 / pages as f64);
        assert_eq!(share(Fill::Trace, 0, paced, &requests), 48.0 / pages as f64);
        assert_eq!(share(Fill::Trace, 4, paced, &requests), 48.0 / pages as f64);
        // A warm-up that never ends has met all of them.
        assert_eq!(share(Fill::None, 1000, paced, &requests), 48.0 / pages as f64);
    }
}

/// A run that begins with a copy of a device that another run has filled reports what it would have reported.
#[test]
fn a_copy_of_a_filled_device_is_as_good_as_filling_it() {
    /// Counts the pages of a fill.
    struct Counting(u64);
    impl Observer for Counting {
        fn filled(&mut self, pages: u64) -> bool {
            self.0 += pages;
            true
        }
    }
    let requests: Vec<Request> =
        (0..400).map(|i| request(i * 1000, Operation::Write, i * 7919 % 512 * 4096, 4096)).collect();
    let run_counting = |config: &Config| {
        let mut filling = Counting(0);
        let mut source = List(requests.clone(), 0, Intake::default());
        let mut result = run(config, &mut source, &mut filling).unwrap().result;
        (result.wall_seconds, result.fill_wall_seconds) = (0.0, 0.0);
        (format!("{result:?}"), filling.0)
    };
    for row in schemes::SCHEMES.iter().filter(|row| row.keeps_data) {
        for fill in [Fill::None, Fill::Sequential, Fill::Random, Fill::Trace] {
            let plain = Config { fill, ..config(row.name, "agrawal08:capacity=4MiB,channels=1,planes=1,spare=50%") };
            let shared = Config { filled: Some(Arc::default()), ..plain.clone() };
            let (expected, pages) = run_counting(&plain);
            assert_eq!(run_counting(&shared), (expected.clone(), pages), "{} {fill:?}", row.name);
            let is_kept = matches!(fill, Fill::Sequential | Fill::Random);
            assert_eq!(run_counting(&shared), (expected, if is_kept { 0 } else { pages }), "{} {fill:?}", row.name);
            if !is_kept {
                continue;
            }
            // Whatever a start depends on begins otherwise.
            let larger = config(row.name, "agrawal08:capacity=8MiB,channels=1,planes=1,spare=50%").device;
            let mut trims = shared.settings.clone();
            let is_set = trims.set("durable-trim", "off").is_ok() || trims.set("gc-low", "3").is_ok();
            let others = [
                Config { seed: 2, ..shared.clone() },
                Config { fill: if fill == Fill::Random { Fill::Sequential } else { Fill::Random }, ..shared.clone() },
                Config { device: larger, ..shared.clone() },
                Config { medium: Medium::Recoverable, ..shared.clone() },
                Config { settings: trims, ..shared.clone() },
            ];
            for other in others.into_iter().take(if is_set { 5 } else { 4 }) {
                assert!(run_counting(&other).1 >= pages, "{} {other:?}", row.name);
                assert_eq!(run_counting(&other).1, 0, "{} {other:?}", row.name);
            }
        }
    }
}

/// A source that is gone once it was read cannot be measured after it has filled the device.
#[test]
fn what_comes_once_fills_no_device() {
    struct Once(List);
    impl Source for Once {
        fn fill(&mut self, batch: &mut Vec<Request>, limit: usize) -> Result<(), WorkloadError> {
            self.0.fill(batch, limit)
        }
        fn intake(&self) -> &Intake {
            self.0.intake()
        }
        fn timed(&self) -> bool {
            true
        }
    }
    let config = Config { fill: Fill::Trace, ..config("page", PLAIN) };
    let mut source = Once(List(vec![at(Operation::Write, 0, 0, 4096)], 0, Intake::default()));
    let error = run(&config, &mut source, &mut Unobserved).unwrap_err();
    assert!(error.to_string().contains("second time"), "{error}");
}

#[test]
fn a_scheme_that_was_added_to_a_registry_runs_as_those_of_the_table() {
    let mut registry = Registry::default();
    let name = format!("page-{}", 2);
    let row = ftl::Scheme { name: &name, ..*schemes::by_name("page").unwrap() };
    registry.add(row, ftl::Static::<schemes::Page>::NEW).unwrap();
    let requests: Vec<Request> = (0..3000).map(|i| request(i * 300, Operation::Write, i % 700 * 4096, 4096)).collect();
    for change in [|_: &mut Config| {}, |config: &mut Config| config.medium = Medium::Recoverable] {
        let mut config = config("page", PLAIN);
        change(&mut config);
        let built_in = run_list(&config, requests.clone()).result;
        config.scheme = name.clone();
        let unknown = run(&config, &mut List(Vec::new(), 0, Intake::default()), &mut Unobserved).unwrap_err();
        assert_eq!(unknown.to_string(), "there is no scheme page-2");
        let mut list = List(requests.clone(), 0, Intake::default());
        let added = run_from(&registry, &config, &mut list, &mut Unobserved).unwrap().result;
        assert_eq!((added.scheme.as_str(), &added.flash), ("page-2", &built_in.flash));
    }
}

//! Helpers of this crate's unit tests.

use serde_json::json;
use sim::report::*;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A directory of one test's own, removed when dropped.
pub(crate) struct Directory(PathBuf);

impl Directory {
    pub(crate) fn new() -> Directory {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("ftlab-test-{}-{count}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Directory(path)
    }

    pub(crate) fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.join(name)
    }

    /// The names in the directory, hidden ones included, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn latency(mean: f64) -> Latency {
    Latency {
        mean,
        stdev: 1.7 * mean,
        p50: 0.6 * mean,
        p95: 3.1 * mean,
        p99: 9.4 * mean,
        p999: 31.0 * mean,
        p9999: 64.0 * mean,
        max: 118.0 * mean,
        read: None,
        write: None,
    }
}

fn totals(reads: u64, programs: u64, erases: u64) -> CauseTotals {
    let us = 25.0 * reads as f64 + 200.0 * programs as f64 + 1500.0 * erases as f64;
    CauseTotals { reads, programs, erases, us, ..CauseTotals::default() }
}

/// Parts of a response: a fifth of it the host's own, a tenth loads on misses, the rest waits for collections.
fn parts(us: f64, misses: bool) -> ResponseParts {
    let loads = if misses { 0.1 * us } else { 0.0 };
    let mut own = BTreeMap::from([("host".to_owned(), 0.2 * us)]);
    if misses {
        own.insert("translation_load".to_owned(), loads);
    }
    ResponseParts { own, waited_for: BTreeMap::from([("data_gc".to_owned(), 0.8 * us - loads)]) }
}

/// A result whose commands and times fit together; `misses` is the share of accesses that cost a translation read.
pub(crate) fn result(scheme: &str, mean: f64, waf: f64, misses: f64) -> SchemeResult {
    let (host_reads, host_writes) = (200_000, 800_000);
    let copies = ((waf - 1.0) * host_writes as f64) as u64;
    let mut by_cause = BTreeMap::from([
        ("host".to_owned(), totals(host_reads, host_writes, 0)),
        ("data_gc".to_owned(), totals(copies, copies, (host_writes + copies) / 64)),
    ]);
    let accesses = host_reads + host_writes;
    let missed = (misses * accesses as f64) as u64;
    if missed > 0 {
        by_cause.insert("translation_load".into(), totals(missed, 0, 0));
        by_cause.insert("translation_update".into(), totals(missed / 2, missed / 2, 0));
        by_cause.insert("translation_gc".into(), totals(missed / 8, missed / 8, missed / 128));
    }
    let sum = |of: fn(&CauseTotals) -> u64| by_cause.values().map(of).sum::<u64>();
    let flash = FlashTotals {
        reads: sum(|totals| totals.reads),
        programs: sum(|totals| totals.programs),
        erases: sum(|totals| totals.erases),
        busy_us: by_cause.values().map(|totals| totals.us).sum(),
        ..FlashTotals::default()
    };
    let translation: f64 = ["translation_load", "translation_update", "translation_gc"]
        .iter()
        .filter_map(|&cause| by_cause.get(cause))
        .map(|totals| totals.us)
        .sum();
    let sram = if missed > 0 { 65_536 } else { 4 << 20 };
    let mut result = SchemeResult {
        scheme: scheme.into(),
        params: Fields::from([("gc".into(), json!("greedy")), ("gc_low".into(), json!(3))]),
        ended: COMPLETE.into(),
        wall_seconds: 0.41,
        fill_wall_seconds: 0.09,
        sram_bytes: sram,
        sram: BTreeMap::from([("map".into(), sram)]),
        response_us: Some(Latency {
            read: Some(Box::new(latency(0.7 * mean))),
            write: Some(Box::new(latency(1.1 * mean))),
            ..latency(mean)
        }),
        response_by_cause: Some(ResponseByCause {
            mean: parts(mean, missed > 0),
            tail: TailParts { from_us: 3.0 * mean, requests: 10_000, parts: parts(4.0 * mean, missed > 0) },
        }),
        service_us: Some(latency(0.8 * mean)),
        queue_us: Some(latency(0.2 * mean)),
        waf: Some(flash.programs as f64 / host_writes as f64),
        waf_bytes: Some(flash.programs as f64 / host_writes as f64),
        war: Some(1.9),
        cleaning_seconds: Some(copies as f64 * 225e-6),
        space_utilisation: Some(1.0),
        erase_count: Some(EraseCount {
            mean: 12.5,
            stdev: 2.25,
            min: 3,
            max: 31,
            histogram: vec![Bin { from: 3, to: 12, blocks: 40 }, Bin { from: 13, to: 31, blocks: 24 }],
        }),
        flash,
        by_cause,
        ..SchemeResult::default()
    };
    if missed > 0 {
        result.tp_overhead = Some(translation / result.flash.busy_us);
        result.cache = Some(Cache::of(accesses, accesses - missed, missed / 2));
        result.params.insert("cache-bytes".into(), json!(65_536));
        result.extra.insert("batched_updates".into(), json!(1234));
    }
    result
}

/// A report over these results.
pub(crate) fn report(results: Vec<SchemeResult>) -> Report {
    let device = Fields::from([
        ("name".into(), json!("agrawal08")),
        ("capacity".into(), json!(4u64 << 30)),
        ("page".into(), json!(4096)),
    ]);
    let workload = Workload {
        name: "twin:financial1".into(),
        requests: 500_000,
        reads: 95_000,
        writes: 405_000,
        read_pages: 200_000,
        write_pages: 800_000,
        sha256: None,
    };
    let mut report = Report::new(1, device, workload);
    report.assumptions = vec![
        "The device was filled once in order before the measured phase (--fill sequential).".into(),
        "Writes of parts of a page read the rest of it first (--partial rmw).".into(),
    ];
    report.results = results;
    report.compare_with_page_mapping();
    report
}

/// The three schemes of a plain `ftlab compare`.
pub(crate) fn three() -> Report {
    report(vec![
        result("page", 412.0, 1.62, 0.0),
        result("dftl", 1804.0, 3.1, 0.61),
        result("dftl-e", 1210.5, 2.4, 0.38),
    ])
}

/// Eight combinations with long labels, extreme numbers, and runs that ended early.
pub(crate) fn eight() -> Report {
    let mut results = vec![result("page", 9.5, 1.0, 0.0)];
    for (index, scheme) in ["dftl", "dftl-e", "superblock", "hybridlog"].iter().enumerate() {
        for cache in [65_536u64, 4 << 20] {
            let mut result = result(scheme, 123_456.0 * (index + 1) as f64, 3.7 + index as f64 * 100.0, 0.5);
            result.params.insert("cache-bytes".into(), json!(cache));
            result.flash.erases = 123_456_789;
            results.push(result);
        }
    }
    results.truncate(8);
    results[3].ended = "device full: no block can be reclaimed after 123,456 requests".into();
    results[4].ended = INTERRUPTED.into();
    results[5].response_us = None;
    report(results)
}

/// Three schemes with two minutes of simulated time.
pub(crate) fn with_series() -> Report {
    let mut report = three();
    for (index, result) in report.results.iter_mut().enumerate() {
        let mean = result.response_us.as_ref().map_or(0.0, |latency| latency.mean);
        let waf = result.waf;
        result.series = (1..=120)
            .map(|second| {
                let wave = 1.0 + 0.3 * (f64::from(second) / (5.0 + index as f64)).sin();
                Interval {
                    seconds: f64::from(second),
                    requests: (4000.0 * wave) as u64,
                    iops: 4000.0 * wave,
                    waf: waf.map(|waf| waf * wave),
                    free_blocks: (100.0 - 80.0 * (f64::from(second) / 120.0).sqrt()) as u64 + index as u64,
                    mean_us: (second % 17 != 0).then_some(mean * wave),
                    p99_us: (second % 17 != 0).then_some(9.0 * mean * wave),
                    ..Interval::default()
                }
            })
            .collect();
    }
    report
}

//! Golden counts: every scheme on one small workload, command by command.
//!
//! A change of these numbers is a change of behaviour. If it is meant, rewrite them with
//! `FTLAB_BLESS=1 cargo test -p ftlab-sim --test golden` and let the review see the difference.
#![allow(clippy::disallowed_methods, reason = "the golden counts are a file, and one variable rewrites it")]

mod support;

use sim::experiment::{Fill, Outcome, PartialPages};
use std::collections::BTreeMap;
use support::{config, generated};

/// Schemes with a scheme's variants that take other paths: name, scheme, settings.
const RUNS: &[(&str, &str, &str)] = &[
    ("simple", "simple", ""),
    ("page", "page", ""),
    ("page fifo, collections at once, two streams", "page", "gc=fifo gc-spread=off streams=2"),
    ("dftl", "dftl", "cache-bytes=4096"),
    ("dftl lru, plain victims, no batching", "dftl", "cache-bytes=4096 replacement=lru victims=plain batch-evict=off"),
    ("dftl-e", "dftl-e", "cache-bytes=4096"),
    ("tpftl", "tpftl", "cache-bytes=4096"),
    (
        "tpftl without its four ideas",
        "tpftl",
        "cache-bytes=4096 prefetch-request=off prefetch-select=off clean-first=off batch-evict=off",
    ),
    ("cftl", "cftl", "cache-bytes=4096 stripe=32"),
    ("cftl without conversions, single entries", "cftl", "cache-bytes=4096 convert=off run-bits=0 stripe=1"),
    ("cdftl", "cdftl", "cache-bytes=8192"),
    ("cdftl install, one page in the second level", "cdftl", "cache-bytes=4096 second-level=1 install=on"),
    ("sftl", "sftl", "cache-bytes=4096 stripe=32"),
    ("sftl without a buffer", "sftl", "cache-bytes=4096 buffer-share=0 stripe=1 gc-fold=off"),
    ("scftl", "scftl", "cache-bytes=4096 stripe=32"),
    ("scftl lru, short runs, no stripe", "scftl", "cache-bytes=4096 replacement=lru run-bits=2 stripe=1"),
    ("scftl-a", "scftl-a", "cache-bytes=4096 replacement=nru stripe=32"),
    ("cast", "cast", "cache-bytes=4096"),
    ("lsftl", "lsftl", "cache-bytes=4096"),
    ("lsftl-e, counters in the spare area", "lsftl-e", "cache-bytes=4096 counters=oob"),
    ("scftl-log", "scftl-log", "cache-bytes=4096 stripe=32"),
    ("lazyftl", "lazyftl", "cache-bytes=16384"),
    (
        "lazyftl small, plain victims by age and wear",
        "lazyftl",
        "cache-bytes=4096 victims=plain gc=cat durable-trim=on",
    ),
    ("block", "block", ""),
    ("nftl", "nftl", ""),
    ("nftl, replacement blocks in the order of writing", "nftl", "mode=log"),
    ("bast", "bast", ""),
    ("aftl", "aftl", ""),
    ("fast", "fast", ""),
    ("fast without a sequential log block, CAT", "fast", "sequential=none log-victim=cat"),
    ("last", "last", ""),
    ("rose", "rose", ""),
    ("rose without its techniques", "rose", "ebw=off fpr=off log-victim=round-robin"),
    ("superblock", "superblock", ""),
    (
        "superblock with map pages, few update blocks and wear levelling",
        "superblock",
        "maps=pages cache-maps=4 update-blocks=40 reclaim=greedy wear-levelling=static wear-threshold=20",
    ),
    ("hybridlog", "hybridlog", ""),
    ("rose-log", "rose-log", ""),
];

const DEVICE: &str =
    "agrawal08:capacity=32MiB,channels=2,chips=1,dies=1,planes=1,pages_per_block=32,page=2KiB,nop=4,spare=15%";
const WORKLOAD: &str = "zipf:theta=0.9,reads=0.4,trims=0.02,size=1KiB*0.2+2KiB*0.4+4KiB*0.3+16KiB*0.1,requests=60000";

/// Cause, then kind of command, then count; `cache`, `merges` and `extra` beside the causes.
type Counts = BTreeMap<String, BTreeMap<String, u64>>;

fn counts(outcome: &Outcome) -> Counts {
    let result = &outcome.result;
    let mut counts: Counts = BTreeMap::new();
    let mut put = |group: &str, name: &str, count: u64| {
        if count > 0 {
            counts.entry(group.to_owned()).or_default().insert(name.to_owned(), count);
        }
    };
    for (cause, totals) in &result.by_cause {
        put(cause, "reads", totals.reads);
        put(cause, "oob_reads", totals.oob_reads);
        put(cause, "programs", totals.programs);
        put(cause, "partial_programs", totals.partial_programs);
        put(cause, "erases", totals.erases);
    }
    if let Some(cache) = &result.cache {
        put("cache", "accesses", cache.accesses);
        put("cache", "hits", cache.hits);
        put("cache", "writebacks", cache.writebacks);
    }
    if let Some(merges) = &result.merges {
        put("merges", "switch", merges.switch);
        put("merges", "partial", merges.partial);
        put("merges", "full", merges.full);
    }
    let is_count = |name: &str| !["simulated_seconds", "live_share"].contains(&name);
    for (name, value) in result.extra.iter().filter(|(name, _)| is_count(name)) {
        put("extra", name, value.as_u64().unwrap());
    }
    put("workload", "read_pages", outcome.workload.read_pages);
    put("workload", "write_pages", outcome.workload.write_pages);
    counts
}

#[test]
fn every_scheme_that_keeps_data_has_a_run() {
    for row in ftl::schemes::SCHEMES.iter().filter(|row| row.keeps_data && row.name != "canary") {
        assert!(RUNS.iter().any(|&(_, scheme, _)| scheme == row.name), "add a run of {}", row.name);
    }
}

#[test]
fn counts_are_what_they_were() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden.json");
    let measured: BTreeMap<&str, Counts> = RUNS
        .iter()
        .map(|&(name, scheme, settings)| {
            let mut config = config(scheme, settings, DEVICE);
            config.fill = Fill::Random;
            config.partial = PartialPages::ReadModifyWrite;
            (name, counts(&generated(&config, WORKLOAD)))
        })
        .collect();
    let text = serde_json::to_string_pretty(&measured).unwrap() + "\n";
    if std::env::var_os("FTLAB_BLESS").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    let golden = std::fs::read_to_string(path).expect("golden.json; FTLAB_BLESS=1 writes it");
    let wrong = golden.lines().zip(text.lines()).find(|(golden, measured)| golden != measured);
    assert!(
        golden == text,
        "counts changed; the first difference: {wrong:?}. If it is meant: FTLAB_BLESS=1 cargo test -p ftlab-sim --test \
         golden"
    );
}

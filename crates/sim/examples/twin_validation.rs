//! Holds twins against the traces they were fitted to, by what schemes make of both: hit ratios and write
//! amplification.
//!
//! A twin is fitted to the first 10,000 requests of a trace; both then go through `page` and `dftl` on one device. The
//! table is the one in `docs/twins.md`:
//!
//! `cargo run --release -p ftlab-sim --example twin_validation [-- REQUESTS]`
//!
//! Traces are looked for in `$FTLAB_TRACES`, and `../shared/traces` beside the workspace. What
//! is missing is named and left out.
#![allow(clippy::disallowed_methods, clippy::print_stdout, clippy::print_stderr, reason = "a program of its own")]

use std::fs::File;
use std::path::PathBuf;

use ftl::schemes;
use sim::device::DeviceSpec;
use sim::experiment::{Config, Fill, Medium, Outcome, PartialPages, Unobserved, Until, run};
use sim::host::HostModel;
use sim::workload::adapt::{Adaptation, Fit, adapt};
use sim::workload::format::{OpenOptions, TraceFile};
use sim::workload::generate::{Twin, fit};
use sim::workload::profile::Profile;
use sim::workload::{Intake, Operation, Request, Source, WorkloadError};

const PREFIX: usize = 10_000;
const TRACES: &[&str] = &[
    "captured_postmark.msr.csv.zst",
    "cloudphysics_2h.vscsi.zst",
    "hplajw_1week.msr.csv.zst",
    "alibaba_1h.alibaba.csv.zst",
];

type Failure = Box<dyn std::error::Error>;

/// Requests in memory.
#[derive(Clone)]
struct Requests {
    left: std::vec::IntoIter<Request>,
    intake: Intake,
}

impl Requests {
    fn new(requests: &[Request]) -> Requests {
        let intake = Intake { volumes: vec!["0".to_owned()], ..Intake::default() };
        Requests { left: Vec::from(requests).into_iter(), intake }
    }
}

impl Source for Requests {
    fn fill(&mut self, batch: &mut Vec<Request>, limit: usize) -> Result<(), WorkloadError> {
        let before = batch.len();
        batch.extend(self.left.by_ref().take(limit));
        self.intake.requests += (batch.len() - before) as u64;
        Ok(())
    }
    fn intake(&self) -> &Intake {
        &self.intake
    }
    fn timed(&self) -> bool {
        true
    }
}

fn collect(source: &mut dyn Source) -> Result<Vec<Request>, WorkloadError> {
    let mut requests = Vec::new();
    loop {
        let before = requests.len();
        source.fill(&mut requests, 4096)?;
        if requests.len() == before {
            return Ok(requests);
        }
    }
}

fn find(name: &str) -> Option<PathBuf> {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/traces");
    let traces = std::env::var_os("FTLAB_TRACES").map_or_else(|| PathBuf::from(beside), PathBuf::from);
    Some(traces.join(name)).filter(|path| path.is_file())
}

/// The first `limit` reads and writes, volumes one after the other.
fn read(path: &std::path::Path, limit: u64) -> Result<Vec<Request>, Failure> {
    let name = path.display().to_string();
    let open = || -> Result<TraceFile, Failure> {
        let options = OpenOptions { limit: Some(limit), ..OpenOptions::default() };
        Ok(TraceFile::from_reader(&name, Box::new(File::open(path)?), &options)?)
    };
    let profile = Profile::of(&mut open()?, 4096)?;
    let mut requests = collect(&mut *adapt(Box::new(open()?), &name, &Adaptation::default(), &profile)?)?;
    requests.retain(|request| matches!(request.operation, Operation::Read | Operation::Write));
    Ok(requests)
}

fn put_through(scheme: &str, requests: &[Request], capacity: u64) -> Result<Outcome, Failure> {
    let profile = Profile::of(&mut Requests::new(requests), 4096)?;
    let adaptation = Adaptation { capacity_bytes: Some(capacity), fit: Fit::Compact, ..Adaptation::default() };
    let mut source = adapt(Box::new(Requests::new(requests)), "requests", &adaptation, &profile)?;
    let row = schemes::by_name(scheme).ok_or("no such scheme")?;
    let config = Config {
        scheme: row.name.to_owned(),
        settings: row.settings(),
        device: "agrawal08".parse::<DeviceSpec>()?.build(Some(capacity))?,
        seed: 1,
        fill: Fill::Sequential,
        host: HostModel::Closed(1),
        partial: PartialPages::ReadModifyWrite,
        medium: Medium::Brief,
        warmup: 0,
        until: Until::WorkloadEnds,
        mount: false,
        series_ns: 0,
        scheduling: None,
        flows: Vec::new(),
        only_flow: None,
        idle_ns: None,
    };
    let outcome = run(&config, &mut *source, &mut Unobserved)?;
    if !outcome.result.is_complete() {
        return Err(format!("{scheme}: {}", outcome.result.ended).into());
    }
    Ok(outcome)
}

/// Real and twin, and how far apart.
fn cell(real: Option<f64>, twin: Option<f64>, relative: bool) -> String {
    let (Some(real), Some(twin)) = (real, twin) else { return "-".to_owned() };
    if relative {
        format!("{real:.3} / {twin:.3} | {:+.1} %", 100.0 * (twin / real - 1.0))
    } else {
        format!("{:.1} / {:.1} | {:+.1}", 100.0 * real, 100.0 * twin, 100.0 * (twin - real))
    }
}

fn main() -> Result<(), Failure> {
    let limit = match std::env::args().nth(1) {
        Some(count) => sim::units::parse_count(&count)?,
        None => 300_000,
    };
    println!(
        "| original | requests | device MiB | device writes real / twin | hit % real / twin | points | \
         WAF dftl real / twin | error | WAF page real / twin | error |\n|---|---|---|---|---|---|---|---|---|---|"
    );
    for name in TRACES {
        let Some(path) = find(name) else {
            eprintln!("{name} is not among the traces: left out (FTLAB_TRACES names their directory)");
            continue;
        };
        let real = read(&path, limit)?;
        let model = fit(&real[..real.len().min(PREFIX)])?;
        let twin = Twin::new(&model, real.len() as u64, 1)?.collect();
        let mut capacity = 0;
        for requests in [&real, &twin] {
            capacity = capacity.max(Profile::of(&mut Requests::new(requests), 4096)?.used_extent_bytes());
        }
        let runs = |scheme| -> Result<[Outcome; 2], Failure> {
            Ok([put_through(scheme, &real, capacity)?, put_through(scheme, &twin, capacity)?])
        };
        let ([real_dftl, twin_dftl], [real_page, twin_page]) = (runs("dftl")?, runs("page")?);
        let hits = |outcome: &Outcome| outcome.result.cache.as_ref().and_then(|cache| cache.hit_ratio);
        let volume = |outcome: &Outcome| (outcome.workload.write_pages << 12) as f64 / capacity as f64;
        println!(
            "| {} | {} | {} | {:.2} / {:.2} | {} | {} | {} |",
            name.split('.').next().unwrap_or(name),
            real.len(),
            capacity >> 20,
            volume(&real_page),
            volume(&twin_page),
            cell(hits(&real_dftl), hits(&twin_dftl), false),
            cell(real_dftl.result.waf, twin_dftl.result.waf, true),
            cell(real_page.result.waf, twin_page.result.waf, true),
        );
    }
    Ok(())
}

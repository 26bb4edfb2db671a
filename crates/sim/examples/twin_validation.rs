//! Holds twins against requests of their originals: by the statistics that the model is made of, and by the write
//! amplification that `page` makes of both. The tables are those in `docs/twins.md`.
//!
//! `cargo run --release -p ftlab-sim --example twin_validation -- prefix FILE...` fits a twin to the first 10,000
//! requests of each trace and holds it against the rest. `… -- published` holds published twins against what there is
//! of their originals in `$FTLAB_TRACES` or beside the workspace; what is missing is named and left out.
//!
//! The device is `agrawal08` with its own spare space, as large as the larger of the two footprints (1 MiB extents,
//! compacted), filled in order; requests come one after the other, again and again until they have written the device
//! twice.
#![allow(clippy::disallowed_methods, clippy::print_stdout, clippy::print_stderr, reason = "a program of its own")]

use std::fs::File;
use std::path::PathBuf;

use ftl::schemes;
use sim::device::DeviceSpec;
use sim::experiment::{Config, Fill, Unobserved, run};
use sim::host::HostModel;
use sim::workload::adapt::{Adaptation, Fit, adapt};
use sim::workload::format::{OpenOptions, TraceFile};
use sim::workload::generate::validate::{HOTTEST, Profile as Statistics, measure};
use sim::workload::generate::{Twin, fit, published};
use sim::workload::profile::Profile;
use sim::workload::{Intake, Operation, Request, Source, WorkloadError};

const PREFIX: usize = 10_000;
/// Requests of a trace that are looked at.
const LIMIT: u64 = 300_000;
/// How often the device is written over.
const DEVICE_WRITES: u64 = 2;
/// Published twins, what there is of their originals or of a recording of the same program, and how much of that is
/// taken.
const ORIGINALS: &[(&str, &str, u64)] = &[
    ("financial1", "financial1_prefix10k.spc.zst", 10_000),
    ("financial1-s2", "financial1_prefix10k.spc.zst", 10_000),
    ("financial1-s3", "financial1_prefix10k.spc.zst", 10_000),
    ("financial1-s4", "financial1_prefix10k.spc.zst", 10_000),
    ("postmark", "captured_postmark.msr.csv.zst", 100_000),
    ("largefile", "captured_largefile.msr.csv.zst", 10_000),
    ("4vms", "captured_fourvms.msr.csv.zst", 20_000),
];

type Failure = Box<dyn std::error::Error>;

/// Requests in memory, several times over.
#[derive(Clone)]
struct Requests {
    requests: Vec<Request>,
    at: usize,
    left: u64,
    intake: Intake,
}

impl Requests {
    fn new(requests: &[Request], times: u64) -> Requests {
        let intake = Intake { volumes: vec!["0".to_owned()], ..Intake::default() };
        Requests { requests: requests.to_vec(), at: 0, left: times * requests.len() as u64, intake }
    }
}

impl Source for Requests {
    fn fill(&mut self, batch: &mut Vec<Request>, limit: usize) -> Result<(), WorkloadError> {
        let count = self.left.min(limit as u64);
        for _ in 0..count {
            // One after the other, whatever their times: none goes back.
            batch.push(Request { arrival_ns: 0, ..self.requests[self.at] });
            self.at = (self.at + 1) % self.requests.len();
        }
        self.left -= count;
        self.intake.requests += count;
        Ok(())
    }
    fn intake(&self) -> &Intake {
        &self.intake
    }
    fn timed(&self) -> bool {
        false
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

/// The reads and writes among the first `limit` requests, volumes one after the other.
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

/// Write amplification under `page` of requests that write something.
fn amplification(requests: &[Request], capacity: u64) -> Result<Option<f64>, Failure> {
    let written: u64 = requests.iter().filter(|r| r.operation == Operation::Write).map(|r| r.bytes).sum();
    let times = (DEVICE_WRITES * capacity).div_ceil(written);
    let profile = Profile::of(&mut Requests::new(requests, 1), 4096)?;
    let adaptation = Adaptation { capacity_bytes: Some(capacity), fit: Fit::Compact, ..Adaptation::default() };
    let mut source = adapt(Box::new(Requests::new(requests, times)), "requests", &adaptation, &profile)?;
    let row = schemes::by_name("page").ok_or("no such scheme")?;
    let config = Config {
        fill: Fill::Sequential,
        host: HostModel::Closed(1),
        ..Config::new(row.name, row.settings(), "agrawal08".parse::<DeviceSpec>()?.build(Some(capacity))?)
    };
    let outcome = run(&config, &mut *source, &mut Unobserved)?;
    if !outcome.result.is_complete() {
        return Err(outcome.result.ended.to_string().into());
    }
    Ok(outcome.result.waf)
}

const HEADINGS: &str = "| original | requests | reads % | writes % on hottest 1, 5, 10 % | continuing 8, 32 % | \
    simultaneous % | dispersion | first touches %, halves | overwrites | WAF | error % | |\n\
    |---|---|---|---|---|---|---|---|---|---|---|---|";

/// One line of the table: real / twin.
fn line(name: &str, real: &[Request], twin: &[Request]) -> Result<(), Failure> {
    let mut capacity = 0;
    for requests in [real, twin] {
        capacity = capacity.max(Profile::of(&mut Requests::new(requests, 1), 4096)?.used_extent_bytes());
    }
    // Without writes on one side there is nothing to compare, and a few would take forever to fill a device.
    let writes = |requests: &[Request]| requests.iter().any(|r| r.operation == Operation::Write);
    let amplified = match writes(real) && writes(twin) {
        true => [amplification(real, capacity)?, amplification(twin, capacity)?],
        false => [None, None],
    };
    let [a, b] = [measure(real, 4096), measure(twin, 4096)];
    let percents = |values: &[f64]| -> String {
        values.iter().map(|value| format!("{:.0}", 100.0 * value)).collect::<Vec<_>>().join(", ")
    };
    let pair = |of: &dyn Fn(&Statistics) -> String| format!("{} / {}", of(&a), of(&b));
    let hottest = |p: &Statistics| percents(&p.hottest[..HOTTEST.len()]);
    let (waf, error, word) = match amplified {
        [Some(real), Some(twin)] => {
            let error = 100.0 * (twin / real - 1.0);
            let word = if error.abs() > published::ROUGH_PERCENT { published::ROUGH } else { "" };
            (format!("{real:.2} / {twin:.2}"), format!("{error:+.0}"), word)
        }
        _ => ("- / -".to_owned(), "-".to_owned(), ""),
    };
    println!(
        "| {name} | {} | {} | {} | {} | {} | {} | {} | {} | {waf} | {error} | {word} |",
        real.len(),
        pair(&|p| percents(&[p.reads])),
        pair(&hottest),
        pair(&|p| percents(&p.continuing)),
        pair(&|p| percents(&[p.simultaneous])),
        pair(&|p| format!("{:.1}", p.dispersion)),
        pair(&|p| percents(&p.first_touches)),
        pair(&|p| format!("{:.1}", p.overwrites)),
    );
    Ok(())
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.split_first() {
        Some((mode, files)) if mode == "prefix" && !files.is_empty() => {
            println!("{HEADINGS}");
            for file in files {
                let path = PathBuf::from(file);
                let real = read(&path, LIMIT)?;
                if real.len() < 2 * PREFIX {
                    eprintln!("{file} has {} reads and writes, too few: left out", real.len());
                    continue;
                }
                let twin = Twin::new(&fit(&real[..PREFIX])?, real.len() as u64, 1)?.collect();
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                line(name.split('.').next().unwrap_or_default(), &real[PREFIX..], &twin[PREFIX..])?;
            }
            Ok(())
        }
        Some((mode, [])) if mode == "published" => {
            println!("{HEADINGS}");
            for (name, original, limit) in ORIGINALS {
                let Some(path) = find(original) else {
                    eprintln!("{original} is not among the traces: left out (FTLAB_TRACES names their directory)");
                    continue;
                };
                let real = read(&path, *limit)?;
                let model = published::find(name).ok_or("there is no such twin")?.model();
                line(name, &real, &Twin::new(&model, real.len() as u64, 1)?.collect())?;
            }
            Ok(())
        }
        _ => Err("usage: twin_validation prefix FILE... | twin_validation published".into()),
    }
}

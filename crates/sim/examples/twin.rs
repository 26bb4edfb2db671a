//! Fits twins and lists the published ones: `twin fit TRACE PREFIX` prints a model of the first PREFIX requests of a
//! trace file as JSON (`fit-merged`: a smaller one), `twin validate TRACE PREFIX LIMIT` builds a twin of the first
//! PREFIX and holds it against the first LIMIT, `twin published NAME TRACE` holds a published twin against a trace
//! (`validate-merged`: with the smaller model), and `twin document` prints the table of the published twins for
//! `docs/twins.md`.
//!
//! A trace is a file in any format that ftlab reads. How far twins are off by what schemes make of them:
//! `twin_validation`.
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "a program that reads and prints")]

use std::fs::File;

use sim::workload::format::{OpenOptions, TraceFile};
use sim::workload::generate::{Twin, fit, fit_merged, published, validate};
use sim::workload::{Request, Source as _};

type Failure = Box<dyn std::error::Error>;

/// The first `count` requests of a file, trims and flushes among them.
fn read(path: &str, count: &str) -> Result<Vec<Request>, Failure> {
    let options = OpenOptions { limit: Some(sim::units::parse_count(count)?), ..OpenOptions::default() };
    let mut trace = TraceFile::from_reader(path, Box::new(File::open(path)?), &options)?;
    let mut requests = Vec::new();
    loop {
        let before = requests.len();
        trace.fill(&mut requests, 1 << 16)?;
        if requests.len() == before {
            return Ok(requests);
        }
    }
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["document"] => print!("{}", published::document()),
        ["fit", trace, prefix] => println!("{}", serde_json::to_string(&fit(&read(trace, prefix)?)?)?),
        ["fit-merged", trace, prefix] => println!("{}", serde_json::to_string(&fit_merged(&read(trace, prefix)?)?)?),
        ["validate" | "validate-merged", trace, prefix, limit] => {
            let real = validate::flatten(&read(trace, limit)?);
            let fit = if arguments[0] == "validate" { fit } else { fit_merged };
            let prefix = sim::units::parse_count(prefix)? as usize;
            let model = fit(&real[..real.len().min(prefix)])?;
            let twin = Twin::new(&model, real.len() as u64, 1)?.collect();
            print!("{}", validate::compare(&real, &twin, 4096));
        }
        ["published", name, trace] => {
            let real = validate::flatten(&read(trace, "1M")?);
            let model = published::find(name).ok_or("there is no such published twin")?.model();
            let twin = Twin::new(&model, real.len() as u64, 1)?.collect();
            print!("{}", validate::compare(&real, &twin, 4096));
        }
        _ => {
            return Err(
                "usage: twin fit|fit-merged TRACE PREFIX | twin validate|validate-merged TRACE PREFIX LIMIT | \
                        twin published NAME TRACE | twin document"
                    .into(),
            );
        }
    }
    Ok(())
}

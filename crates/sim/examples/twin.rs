//! Fits and validates twins: `zstd -dc TRACE | twin fit PREFIX` prints a model as JSON (`fit-merged`: a smaller one);
//! `… | twin validate PREFIX LIMIT` builds a twin of the first PREFIX requests and holds it against the first LIMIT.
//!
//! `twin document` prints the table of the published twins for `docs/twins.md`.
//!
//! The standard input is SPC text (`asu,sector,bytes,r|w,seconds`), the simplest form that any trace can be brought to.
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "a program that reads and prints")]

use std::io::Read as _;

use sim::workload::generate::{Twin, fit, fit_merged, published, validate};
use sim::workload::{Operation, Request};

fn read() -> Result<Vec<Request>, Box<dyn std::error::Error>> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    let mut volumes: Vec<&str> = Vec::new();
    let mut requests: Vec<Request> = Vec::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split(',').collect();
        let [volume, sector, bytes, operation, seconds] = fields[..] else {
            return Err(format!("not asu,sector,bytes,r|w,seconds: {line}").into());
        };
        let volume = volumes.iter().position(|v| *v == volume).unwrap_or_else(|| {
            volumes.push(volume);
            volumes.len() - 1
        });
        let operation = if operation.eq_ignore_ascii_case("r") { Operation::Read } else { Operation::Write };
        let previous = requests.last().map_or(0, |r| r.arrival_ns);
        let arrival_ns = ((seconds.parse::<f64>()? * 1e9) as u64).max(previous);
        let (offset, bytes) = (sector.parse::<u64>()? * 512, bytes.parse::<u64>()?);
        if bytes > 0 {
            requests.push(Request { arrival_ns, offset, bytes, volume: volume as u32, operation });
        }
    }
    Ok(requests)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments == ["document"] {
        print!("{}", published::document());
        return Ok(());
    }
    let requests = read()?;
    let first = |count: &str| -> Result<&[Request], Box<dyn std::error::Error>> {
        Ok(&requests[..requests.len().min(sim::units::parse_count(count)? as usize)])
    };
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["fit", prefix] => println!("{}", serde_json::to_string(&fit(first(prefix)?)?)?),
        ["fit-merged", prefix] => println!("{}", serde_json::to_string(&fit_merged(first(prefix)?)?)?),
        ["validate" | "validate-merged", prefix, limit] => {
            let real = first(limit)?;
            let fit = if arguments[0] == "validate" { fit } else { fit_merged };
            let model = fit(first(prefix)?)?;
            let twin = Twin::new(&model, real.len() as u64, 1)?.collect();
            print!("{}", validate::compare(real, &twin, 4096));
        }
        _ => {
            return Err(
                "usage: twin fit|fit-merged PREFIX | twin validate|validate-merged PREFIX LIMIT | twin document".into(),
            );
        }
    }
    Ok(())
}

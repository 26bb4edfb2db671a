//! What the integration tests share: runs described in a few words.
#![allow(dead_code, unreachable_pub, reason = "every test file uses a part")]

use flash::Rng;
use ftl::schemes;
use sim::device::DeviceSpec;
use sim::experiment::{Config, Fill, Outcome, PartialPages, Unobserved, run};
use sim::host::HostModel;
use sim::workload::generate::{Context, generate};
use sim::workload::{Intake, Operation, Request, Source, WorkloadError};

/// A run of `scheme` with `settings` (`key=value`, separated by spaces) on a device given as on the command line.
pub fn config(scheme: &str, settings: &str, device: &str) -> Config {
    let row = schemes::by_name(scheme).unwrap();
    let mut values = row.settings();
    for (key, value) in settings.split_whitespace().map(|pair| pair.split_once('=').unwrap()) {
        values.set(key, value).unwrap();
    }
    let device = device.parse::<DeviceSpec>().unwrap().build(None).unwrap();
    Config {
        fill: Fill::Sequential,
        host: HostModel::Closed(1),
        partial: PartialPages::Ignore,
        ..Config::new(row.name, values, device)
    }
}

/// Runs a generator's specification.
pub fn generated(config: &Config, spec: &str) -> Outcome {
    let capacity_bytes = u64::from(config.device.logical_pages) * u64::from(config.device.geometry.page_bytes);
    let mut source = generate(spec, &Context { capacity_bytes, seed: config.seed }).unwrap();
    served(config, &mut *source)
}

/// Runs a source to its end.
pub fn served(config: &Config, source: &mut dyn Source) -> Outcome {
    let outcome = run(config, source, &mut Unobserved).unwrap();
    assert_eq!(outcome.result.ended, "complete");
    outcome
}

/// Whole pages, uniformly at random, all read or all written.
pub struct Uniform {
    rng: Rng,
    operation: Operation,
    page_bytes: u64,
    pages: u64,
    left: u64,
    /// Mean gap of Poisson arrivals, ns; 0 for none.
    gap_ns: f64,
    now_ns: f64,
    intake: Intake,
}

impl Uniform {
    /// `count` requests over the whole of the config's device.
    pub fn new(config: &Config, operation: Operation, count: u64) -> Uniform {
        Uniform {
            rng: Rng::new(config.seed).fork("uniform"),
            operation,
            page_bytes: u64::from(config.device.geometry.page_bytes),
            pages: u64::from(config.device.logical_pages),
            left: count,
            gap_ns: 0.0,
            now_ns: 0.0,
            intake: Intake::default(),
        }
    }

    /// The same with Poisson arrivals.
    pub fn poisson(self, gap_ns: f64) -> Uniform {
        Uniform { gap_ns, ..self }
    }
}

impl Source for Uniform {
    fn fill(&mut self, batch: &mut Vec<Request>, limit: usize) -> Result<(), WorkloadError> {
        let count = self.left.min(limit as u64);
        self.left -= count;
        for _ in 0..count {
            if self.gap_ns > 0.0 {
                self.now_ns -= (1.0 - self.rng.unit()).ln() * self.gap_ns;
            }
            batch.push(Request {
                arrival_ns: self.now_ns.round() as u64,
                offset: self.rng.below(self.pages) * self.page_bytes,
                bytes: self.page_bytes,
                volume: 0,
                operation: self.operation,
            });
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

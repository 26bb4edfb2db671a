//! The simulator: workloads, the host model, metrics, experiments, the oracle and the checker.
//!
//! Data flows one way: a [`workload::Source`] yields requests, the host model cuts them into pages and hands them to a
//! scheme, the scheme commands a medium, and the report is read off the medium's tally and the host's histograms.

pub mod ageing;
pub mod check;
pub mod device;
pub mod ecc;
pub mod experiment;
pub mod hand;
pub mod host;
pub mod latency;
pub mod oracle;
pub mod report;
pub mod summary;
pub mod units;
pub mod workload;

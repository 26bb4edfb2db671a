//! Streams that shared a device, as rows for the table on the terminal.

use super::labels;
use super::table::Estimates;
use crate::units;
use sim::report::{FlowResult, Report};

/// Characters of a flow's name that are shown.
const WIDTH: usize = 24;

/// A row for each flow of each run; nothing if no run had several.
pub(super) fn rows(report: &Report) -> Option<Estimates> {
    if report.results.iter().all(|result| result.flows.is_empty()) {
        return None;
    }
    let several = report.results.len() > 1;
    let rows = labels(report).into_iter().zip(&report.results).flat_map(|(label, result)| {
        result.flows.iter().enumerate().map(move |(number, flow)| {
            let name = shortened(&flow.name);
            let label =
                if several { format!("{label}: {} {name}", number + 1) } else { format!("{} {name}", number + 1) };
            (label, cells(flow))
        })
    });
    let columns = vec![
        ("host", ""),
        ("requests", ""),
        ("mean resp.", "µs"),
        ("p99 resp.", "µs"),
        ("p99 read", "µs"),
        ("mean alone", "µs"),
        ("slowdown", "times"),
    ];
    Some((columns, rows.collect()))
}

fn cells(flow: &FlowResult) -> Vec<String> {
    let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), units::number);
    let latency = flow.response_us.as_ref();
    vec![
        flow.host.clone(),
        units::whole(flow.requests),
        number(latency.map(|latency| latency.mean)),
        number(latency.map(|latency| latency.p99)),
        number(latency.and_then(|latency| latency.read.as_ref()).map(|read| read.p99)),
        number(flow.alone_mean_us),
        number(flow.slowdown),
    ]
}

fn shortened(name: &str) -> String {
    match name.char_indices().nth(WIDTH) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}

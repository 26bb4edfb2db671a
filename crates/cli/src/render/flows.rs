//! Streams that shared a device, as rows for the table on the terminal.

use super::rows::Rows;
use super::words::labels;
use crate::units;
use sim::report::{FlowResult, Report};
use sim::workload::generate::published;

/// A row for each flow of each run; nothing if no run had several.
pub(super) fn rows(report: &Report) -> Option<Rows> {
    if report.results.iter().all(|result| result.flows.is_empty()) {
        return None;
    }
    let rows = labels(report).into_iter().zip(&report.results).flat_map(|(label, result)| {
        let row = move |(number, flow): (usize, &FlowResult)| {
            // What a flow is called in full stands among the assumptions.
            let name = match flow.name.split_once(':') {
                Some(("recording" | "twin", name)) => name.split(',').next(),
                _ => flow.name.split([':', '.']).next(),
            };
            let name = name.unwrap_or_default();
            let word = published::word(&flow.name).map_or_else(String::new, |word| format!(" ({word})"));
            (format!("{label}: {} {name}{word}", number + 1), cells(flow))
        };
        result.flows.iter().enumerate().map(row)
    });
    let columns = vec![
        ("host", ""),
        ("requests", ""),
        ("mean resp.", "µs"),
        ("p99 resp.", "µs"),
        ("mean alone", "µs"),
        ("slowdown", "times"),
    ];
    Some((columns, rows.collect()))
}

fn cells(flow: &FlowResult) -> Vec<String> {
    let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), units::number);
    vec![
        flow.host.clone(),
        units::whole(flow.requests),
        number(flow.response_us.as_ref().map(|latency| latency.mean)),
        number(flow.response_us.as_ref().map(|latency| latency.p99)),
        number(flow.alone_mean_us),
        number(flow.slowdown),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::three;

    #[test]
    fn every_flow_of_every_run_has_a_row() {
        let mut report = three();
        assert_eq!(rows(&report), None);
        let response_us = report.results[0].response_us.clone();
        let served = FlowResult { requests: 5, response_us, slowdown: Some(1.5), ..FlowResult::default() };
        let idle = FlowResult { name: "web.spc.zst".into(), host: "open".into(), ..FlowResult::default() };
        // What broke: of two recordings both were called so.
        let named = |name: &str| FlowResult { name: name.into(), ..idle.clone() };
        let others = [named("recording:redis"), named("twin:pc,requests=5")];
        report.results[0].flows = vec![FlowResult { name: "zipf:reads=1".into(), ..served }, idle];
        report.results[0].flows.extend(others);
        let (columns, rows) = rows(&report).unwrap();
        assert!(rows.iter().all(|(_, cells)| cells.len() == columns.len()));
        assert_eq!(
            rows.iter().map(|(label, _)| label.as_str()).collect::<Vec<_>>(),
            ["page: 1 zipf", "page: 2 web", "page: 3 redis", "page: 4 pc (rough)"]
        );
        assert_eq!((rows[0].1[1].as_str(), rows[0].1[5].as_str()), ("5", "1.50"));
        assert_eq!(rows[1].1[2..], ["-", "-", "-", "-"]);
    }
}

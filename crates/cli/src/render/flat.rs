//! A report as rows and columns: one row per result, one column per number, named by its dotted path.

use serde_json::Value;
use sim::report::Report;
use std::collections::BTreeMap;

/// Columns in a stable order, and for each result the values it has.
#[derive(Clone, PartialEq, Debug)]
pub struct Flat {
    /// Names of the columns.
    pub columns: Vec<String>,
    /// The rows, in the order of the report.
    pub rows: Vec<BTreeMap<String, Value>>,
}

/// Path segments in the order in which readers expect them; others follow alphabetically.
const ORDER: &[&str] = &[
    "scheme",
    "params",
    "scheduler",
    "ended",
    "response_us",
    "service_us",
    "queue_us",
    "response_by_cause",
    "waf",
    "waf_bytes",
    "war",
    "cleaning_seconds",
    "tp_overhead",
    "t_pc",
    "cache",
    "merges",
    "flash",
    "by_cause",
    "space_utilisation",
    "erase_count",
    "wear_levelling",
    "ecc",
    "until",
    "sram_bytes",
    "sram",
    "extra",
    "repeats",
    "wall_seconds",
    "fill_wall_seconds",
    "ftlab",
    "seed",
    "workload",
    "run",
    "device",
    "assumptions",
    "schema",
    // Inside.
    "name",
    "mean",
    "stdev",
    "min",
    "p50",
    "p95",
    "p99",
    "p999",
    "p9999",
    "max",
    "accesses",
    "hits",
    "misses",
    "hit_ratio",
    "writebacks",
    "wb_ratio",
    "switch",
    "partial",
    "full",
    "requests",
    "reads",
    "writes",
    "oob_reads",
    "programs",
    "partial_programs",
    "erases",
    "us",
    "busy_us",
    "read",
    "write",
    "n",
    "metrics",
    "own",
    "waited_for",
    "tail",
];

impl Flat {
    /// Flattens a report. Series over time and flows do not fit into one row and are left to JSON; assumptions become
    /// one text.
    ///
    /// # Errors
    /// A value that JSON cannot hold.
    pub fn of(report: &Report) -> Result<Flat, serde_json::Error> {
        let mut common = BTreeMap::new();
        let head = Report { results: Vec::new(), assumptions: Vec::new(), ..report.clone() };
        flatten("", serde_json::to_value(head)?, &mut common);
        common.insert("assumptions".to_owned(), Value::String(report.assumptions.join(" ")));
        let mut rows = Vec::with_capacity(report.results.len());
        for result in &report.results {
            let mut row = common.clone();
            flatten("", serde_json::to_value(result)?, &mut row);
            rows.push(row);
        }
        let mut columns: Vec<String> = rows.iter().flat_map(BTreeMap::keys).cloned().collect();
        columns.sort_by_cached_key(|name| {
            name.split('.')
                .map(|segment| {
                    (ORDER.iter().position(|known| *known == segment).unwrap_or(ORDER.len()), segment.to_owned())
                })
                .collect::<Vec<_>>()
        });
        columns.dedup();
        Ok(Flat { columns, rows })
    }
}

fn flatten(path: &str, value: Value, row: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let path = if path.is_empty() { key } else { format!("{path}.{key}") };
                flatten(&path, value, row);
            }
        }
        Value::Array(_) | Value::Null => {}
        scalar => {
            row.insert(path.to_owned(), scalar);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::three;

    #[test]
    fn columns_are_dotted_unique_and_in_order() {
        let flat = Flat::of(&three()).unwrap();
        assert_eq!(flat.columns[..4], ["scheme", "params.cache-bytes", "params.gc", "params.gc_low"]);
        let position = |name: &str| flat.columns.iter().position(|column| column == name).expect(name);
        assert!(position("response_us.mean") < position("response_us.p50"));
        assert!(position("response_us.max") < position("response_us.read.mean"));
        assert!(position("by_cause.host.us") < position("workload.requests"));
        assert!(!flat.rows[0].contains_key("cache.hits"), "absent stays absent");
        assert!(flat.rows[1].contains_key("cache.hits"));
    }
}

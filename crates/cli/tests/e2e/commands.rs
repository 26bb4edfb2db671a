//! The commands beside `compare`, as a user runs them.

use crate::common::{Directory, spc};
use std::fs;

#[test]
fn alone_it_explains_itself() {
    let directory = Directory::new();
    let help = directory.ftlab("").succeeded().stdout;
    for command in ["compare", "run", "check", "image", "trace", "schemes", "devices"] {
        assert!(help.contains(command), "{help}");
    }
    assert!(directory.ftlab("--version").succeeded().stdout.starts_with("ftlab "));
}

#[test]
fn tables() {
    let directory = Directory::new();
    assert!(directory.ftlab("schemes").succeeded().stdout.contains("dftl-e"));
    let text = directory.ftlab("schemes dftl").succeeded().stdout;
    assert!(text.contains("Gupta") && text.contains("cache-bytes") && text.contains("translation_loads"), "{text}");
    assert!(directory.ftlab("devices").succeeded().stdout.contains("agrawal08"));
    assert!(directory.ftlab("devices agrawal08").succeeded().stdout.contains("µs"));
}

#[test]
fn traces_are_described_shown_and_converted() {
    let directory = Directory::new();
    directory.file("t.spc", spc(2000));
    let text = directory.ftlab("trace info t.spc --json t.json").succeeded().stdout;
    assert!(text.contains("requests: 2,000") && text.contains("asu 1"), "{text}");
    assert!(fs::read_to_string(directory.path().join("t.json")).unwrap().contains("\"span_bytes\""));
    let text = directory.ftlab("trace head t.spc -n 3").succeeded().stdout;
    assert_eq!(
        text.lines().filter(|line| line.starts_with("read ") || line.starts_with("write ")).count(),
        3,
        "{text}"
    );
    for name in ["t.csv", "t.csv.zst", "t.csv.gz"] {
        let text = directory.ftlab(&format!("trace convert t.spc {name} --to msr")).succeeded().stdout;
        assert!(text.contains(&format!("2,000 requests written to {name} as msr")), "{text}");
        let text = directory.ftlab(&format!("trace info {name}")).succeeded().stdout;
        assert!(text.contains("requests: 2,000") && text.contains("msr"), "{text}");
    }
    let sizes = ["t.csv", "t.csv.zst", "t.csv.gz"].map(|name| fs::metadata(directory.path().join(name)).unwrap().len());
    assert!(sizes[1] < sizes[0] / 2 && sizes[2] < sizes[0] / 2, "{sizes:?}");
    let line = "trace convert t.spc one.spc --to spc --volumes select=1 --limit 10 --time-scale 2";
    assert!(directory.ftlab(line).succeeded().stdout.contains("10 requests written"));
}

#[cfg(unix)]
#[test]
fn an_interrupted_trace_leaves_no_file() {
    let directory = Directory::new();
    directory.file("out.csv", "kept");
    directory.interrupted("trace generate uniform:requests=30M out.csv --to msr");
    assert_eq!(directory.names(), ["out.csv"]);
    assert_eq!(fs::read_to_string(directory.path().join("out.csv")).unwrap(), "kept");
}

#[test]
fn generated_traces_run_like_their_generators() {
    let directory = Directory::new();
    directory.ftlab("trace generate twin:financial1,requests=2k twin.spc.zst --to spc --seed 3").succeeded();
    let ran = directory.ftlab("compare twin.spc.zst --schemes page --partial ignore --fill none").succeeded();
    let own = "compare --workload twin:financial1,requests=2k --seed 3 --schemes page --fill none";
    let row = |text: &str| text.lines().find(|line| line.starts_with("page ")).map(str::to_owned);
    assert_eq!(row(&ran.stdout), row(&directory.ftlab(own).succeeded().stdout));
}

//! The commands beside `compare`, as a user runs them.

use crate::common::{Directory, spc};
use std::fs;

#[test]
fn alone_it_explains_itself() {
    let directory = Directory::new();
    let help = directory.ftlab("").succeeded().stdout;
    for command in ["compare", "run", "reproduce", "check", "image", "trace", "schemes", "devices"] {
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
fn pages_of_schemes_and_papers_are_listed() {
    let directory = Directory::new();
    assert!(directory.ftlab("schemes dftl --markdown pages").succeeded().stdout.contains("pages/dftl.md"));
    let page = fs::read_to_string(directory.path().join("pages/dftl.md")).unwrap();
    assert!(page.starts_with("# dftl\n") && page.contains("| `cache-bytes` |"), "{page}");
    let text = directory.ftlab("reproduce --list").succeeded().stdout;
    assert!(text.contains("lsftl/table-1") && text.contains("S4 Figure 9"), "{text}");
}

#[test]
fn a_paper_of_ones_own_is_set_beside_what_it_says() {
    let directory = Directory::new();
    fs::create_dir_all(directory.path().join("mine/short")).unwrap();
    let paper = "title = \"Mine\"\ndevice = \"agrawal08:capacity=64MiB\"\n[[workload]]\nname = \"W\"\n\
                 generator = \"uniform:requests=5k\"\n";
    directory.file("mine/short/paper.toml", paper);
    let experiment = "title = \"One\"\nsource = \"s\"\nsays = \"s\"\nconfiguration = [{ name = \"page\" }, \
                      { name = \"dftl\" }]\n[[row]]\nlabel = \"WAF\"\nmeasure = \"waf\"\nof = [\"page\", \"dftl\"]\n\
                      published = 1\n";
    directory.file("mine/short/one.toml", experiment);
    let ran = directory.ftlab("reproduce short/one --experiments mine --csv one.csv --threads 1").succeeded().stdout;
    assert!(ran.contains("WAF, dftl") && ran.contains("generator"), "{ran}");
    let csv = fs::read_to_string(directory.path().join("one.csv")).unwrap();
    assert_eq!(csv.lines().count(), 3, "{csv}");
    directory.file("mine/short/one.toml", experiment.replace("says", "say"));
    let refused = directory.ftlab("reproduce --experiments mine --csv two.csv").refused();
    assert_eq!(refused, "mine/short/one.toml:3: unknown key \"say\"; did you mean \"says\"?");
    assert_eq!(directory.names(), ["mine", "one.csv"]);
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

//! The commands beside `compare`, as a user runs them.

use crate::common::{Directory, spc};
use std::fs;

#[test]
fn alone_it_explains_itself() {
    let directory = Directory::new();
    let help = directory.ftlab("").succeeded().stdout;
    let commands =
        "compare run reproduce check step image serve trace recordings reliability schemes devices reference";
    for command in commands.split(' ') {
        assert!(help.contains(command), "{help}");
    }
    assert!(directory.ftlab("--version").succeeded().stdout.starts_with("ftlab "));
}

#[test]
fn tables() {
    let directory = Directory::new();
    assert!(directory.ftlab("schemes").succeeded().stdout.contains("dftl-e"));
    let text = directory.ftlab("schemes dftl").succeeded().stdout;
    assert!(text.contains("Gupta") && text.contains("cache-bytes = 0 bytes") && text.contains("gc-low"), "{text}");
    let text = directory.ftlab("schemes dftl --all").succeeded().stdout;
    assert!(text.contains("gc-low = 3 blocks") && text.contains("translation_loads"), "{text}");
    assert!(directory.ftlab("devices").succeeded().stdout.contains("agrawal08"));
    assert!(directory.ftlab("devices agrawal08").succeeded().stdout.contains("µs"));
}

/// A table stood behind the report, and no reader of JSON took the two.
#[test]
#[cfg(target_os = "linux")]
fn a_report_on_standard_output_is_alone_there() {
    let directory = Directory::new();
    directory.file("t.spc", spc(2_000));
    directory.file("e.toml", "trace = \"t.spc\"\nschemes = [\"page\"]\njson = \"/dev/stdout\"\n");
    directory.ftlab("image create ssd.img --device agrawal08:capacity=16MiB,spare=50% --scheme page").succeeded();
    for (line, told) in [
        ("compare t.spc --schemes page --json /dev/stdout", "WAF"),
        ("run e.toml", "WAF"),
        ("trace info t.spc --json /proc/self/fd/1", "2,000"),
        ("recordings postmark --json /dev/fd/1", "postmark"),
        ("image verify ssd.img --json /dev/stdout", "verdict: sound"),
    ] {
        let ran = directory.ftlab(line);
        assert_eq!(ran.code, Some(0), "{line}: {}", ran.stderr);
        assert!(serde_json::from_str::<serde_json::Value>(&ran.stdout).is_ok(), "{line}: {}", ran.stdout);
        assert!(ran.stderr.contains(told), "{line}: {}", ran.stderr);
    }
}

#[test]
fn pages_of_schemes_and_papers_are_listed() {
    let directory = Directory::new();
    assert!(directory.ftlab("schemes dftl --markdown pages").succeeded().stdout.contains("pages/dftl.md"));
    let page = fs::read_to_string(directory.path().join("pages/dftl.md")).unwrap();
    assert!(page.starts_with("# dftl\n") && page.contains("| `cache-bytes` |"), "{page}");
    let text = directory.ftlab("reproduce --list").succeeded().stdout;
    assert!(text.contains("lsftl/table-1") && text.contains("DFTL, Figure 9"), "{text}");
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
    // Both had the number 0 in their names, and became one.
    directory.file("two.csv", "1000,hosta,0,Read,0,512,1\n1001,hostb,0,Read,0,512,1\n");
    let text = directory.ftlab("trace convert two.csv two.spc --to spc").succeeded().stdout;
    assert!(text.contains("the volume hostb.0 is number 1 in it, for another volume has its number"), "{text}");
    let text = directory.ftlab("trace convert two.csv back.csv --to msr").succeeded().stdout;
    assert!(!text.contains("number"), "{text}");
}

/// A trace keeps its requests as a table, in whatever row groups, and runs to the same report.
#[test]
fn tables_are_traces() {
    let directory = Directory::new();
    directory.file("t.spc", spc(3000));
    let text = directory.ftlab("trace convert t.spc t.parquet").succeeded().stdout;
    assert!(text.contains("3,000 requests written to t.parquet as parquet"), "{text}");
    let text = directory.ftlab("trace info t.parquet").succeeded().stdout;
    assert!(text.contains("t.parquet: parquet: a table of 3000 rows, times in column time_us"), "{text}");
    assert!(text.contains("requests: 3,000") && text.contains("asu 1"), "{text}");
    // The content tells, not the name.
    fs::rename(directory.path().join("t.parquet"), directory.path().join("other.csv")).unwrap();
    let rows = |name: &str| {
        let line = format!("compare {name} --schemes page,dftl --csv {name}.rows");
        directory.ftlab(&line).succeeded();
        let text = fs::read_to_string(directory.path().join(format!("{name}.rows"))).unwrap();
        let mut lines = csv::Reader::from_reader(text.as_bytes());
        let header = lines.headers().unwrap().clone();
        // What differs is the file: its name, its hash, what is said of its format, and how long the run took.
        let same = |name: &str| !["workload", "wall_seconds", "assumptions"].iter().any(|word| name.contains(word));
        let kept = |row: &csv::StringRecord| -> Vec<String> {
            header.iter().zip(row).filter(|(name, _)| same(name)).map(|(_, value)| value.to_owned()).collect()
        };
        lines.records().map(|row| kept(&row.unwrap())).collect::<Vec<_>>()
    };
    let (text, table) = (rows("t.spc"), rows("other.csv"));
    assert!(text.len() == 2 && text[0].len() > 20, "{text:?}");
    assert_eq!(text, table);
    let text = directory.ftlab("trace convert other.csv back.spc --to spc").succeeded().stdout;
    assert!(text.contains("3,000 requests written"), "{text}");
    directory.ftlab("trace generate zipf:requests=1k z.parquet").succeeded();
    directory.ftlab("compare --workload twin-of:z.parquet,requests=1k --schemes page").succeeded();
}

/// Recordings are workloads wherever one is named.
#[test]
fn recordings_are_workloads() {
    let directory = Directory::new();
    let text = directory.ftlab("recordings --json all.json").succeeded().stdout;
    let all: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(directory.path().join("all.json")).unwrap()).unwrap();
    for recording in all.as_array().unwrap() {
        assert!(text.contains(recording["name"].as_str().unwrap()), "{text}");
    }
    // The one with the fewest requests, for the sake of time.
    let requests = |one: &serde_json::Value| one["profile"]["requests"].as_u64().unwrap();
    let one = all.as_array().unwrap().iter().min_by_key(|one| requests(one)).unwrap();
    let (name, requests) = (one["name"].as_str().unwrap(), requests(one));
    let text = directory.ftlab(&format!("recordings {name}")).succeeded().stdout;
    assert!(text.contains(one["profile"]["sha256"].as_str().unwrap()), "{text}");
    directory.ftlab(&format!("trace info recording:{name} --json info.json")).succeeded();
    let info: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(directory.path().join("info.json")).unwrap()).unwrap();
    assert_eq!(info["requests"], requests);
    directory.ftlab(&format!("trace head recording:{name}")).succeeded();
    directory.ftlab(&format!("trace convert recording:{name} own.iolog.zst --to fio3")).succeeded();
    directory.file("run.toml", format!("workload = \"recording:{name}\"\nlimit = 1000\nschemes = [\"page\"]\n"));
    for line in [
        "run run.toml".to_owned(),
        format!("compare recording:{name} --limit 1k --schemes page"),
        format!("compare --workload recording:{name} --limit 1k --schemes page"),
        format!("compare --flow recording:{name}@closed:1 --flow zipf:requests=1k --schemes page"),
        format!("compare --workload twin-of:recording:{name},requests=1k --schemes page"),
    ] {
        let text = directory.ftlab(&line).succeeded().stdout;
        assert!(text.contains(&format!("recording:{name}")), "{line}: {text}");
    }
    let text =
        directory.ftlab(&format!("compare recording:{name} --limit 1k --schemes page --verbose")).succeeded().stdout;
    assert!(text.contains("as the recorded one did"), "{text}");
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

#[test]
fn what_a_format_cannot_express_is_left_out_where_that_is_asked_for() {
    let directory = Directory::new();
    let line = "trace generate zipf:requests=1000,trims=0.5 z.spc --to spc --on-error skip";
    let text = directory.ftlab(line).succeeded().stdout;
    assert!(text.contains("requests were left out because spc cannot express them"), "{text}");
    let kept = fs::read_to_string(directory.path().join("z.spc")).unwrap().lines().count();
    assert!(text.starts_with(&format!("{kept} requests written")) && (400..600).contains(&kept), "{text}");
}

#[test]
fn bit_errors_of_a_chip_over_its_life() {
    let directory = Directory::new();
    let text = directory.ftlab("reliability --json r.json").succeeded().stdout;
    assert!(text.contains("bch:t=24,data=1024: 8 frames x 42 bytes of parity + 32 of metadata = 368 of 448"), "{text}");
    assert!(text.contains("ldpc:parity=192,data=4096: 2 frames x 192"), "{text}");
    let report: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(directory.path().join("r.json")).unwrap()).unwrap();
    assert_eq!((&report["schema"], &report["profile"]), (&1.into(), &"derived".into()));
    // Two modes, three ages of wear, two of retention.
    let results = report["results"].as_array().unwrap();
    assert_eq!(results.len(), 12);
    // A worn chip after a year: BCH bears pages of the normal step and not those of twice the step.
    let worn = |mode: &str| {
        let is = |row: &&serde_json::Value| {
            row["mode"] == mode && row["pe_cycles"] == 3000 && row["retention_hours"] == 8760.0
        };
        results.iter().find(is).unwrap()
    };
    let (normal, low_cost) = (worn("normal"), worn("low-cost"));
    let (few, many) = (normal["rber"]["mean"].as_f64().unwrap(), low_cost["rber"]["mean"].as_f64().unwrap());
    assert!((2.3e-4..2.5e-4).contains(&few) && (8.5e-3..9.5e-3).contains(&many), "{few} {many}");
    assert_eq!(
        (&normal["codes"][0]["correctable"], &low_cost["codes"][0]["correctable"]),
        (&true.into(), &false.into())
    );
    assert!(low_cost["codes"][0].get("read_us").is_none());
    let read = &normal["codes"][0]["read_us"];
    let parts = ["sense", "transfer", "decode"].map(|part| read[part].as_f64().unwrap());
    assert!((parts.iter().sum::<f64>() - read["total"].as_f64().unwrap()).abs() < 1e-9, "{read}");
    // The next chip has room for a code that bears them.
    let line = "reliability --device mlc-mt29f64g08cbabx --mode low-cost --pe-cycles 3k --retention 1y --json s.json";
    assert!(directory.ftlab(line).succeeded().stdout.contains("ldpc:parity=352,data=4096"));
    let next = fs::read_to_string(directory.path().join("s.json")).unwrap();
    let next: serde_json::Value = serde_json::from_str(&next).unwrap();
    assert_eq!(next["results"][0]["codes"][1]["correctable"], true, "{next}");
    let paper =
        directory.ftlab("reliability --profile paper --mode normal --pe-cycles 0 --retention 0").succeeded().stdout;
    assert!(
        paper.lines().any(|line| line.ends_with(" 75.0")) && paper.lines().any(|line| line.ends_with(" 140")),
        "{paper}"
    );
    let constants = directory.ftlab("reliability --constants").succeeded().stdout;
    assert!(constants.contains("assumed") && constants.contains("JESD218"), "{constants}");
}

#[test]
fn trials_and_matrices_are_written() {
    let directory = Directory::new();
    let told = directory.ftlab("reliability --derive-latencies t.csv --frames 1 --threads 2").succeeded().stdout;
    assert_eq!(told, "t.csv: 204 trials of 1 frames, seed 1\n");
    let table = fs::read_to_string(directory.path().join("t.csv")).unwrap();
    assert_eq!(table.lines().count(), 205);
    assert!(
        table.starts_with("code,data_bytes,strength,rber,levels,frames,failed,iterations,corrected_bits\nbch,1024,24,")
    );
    let told = directory.ftlab("reliability --code ldpc:parity=64,data=512 --alist m.alist").succeeded().stdout;
    assert_eq!(told, "m.alist: 512 checks of 4,608 bits, 512 of them parity, circulants of 64\n");
    let matrix = fs::read_to_string(directory.path().join("m.alist")).unwrap();
    assert!(matrix.starts_with("4608 512\n"), "{}", &matrix[..40]);
    assert_eq!(matrix.lines().count(), 4 + 4608 + 512);
}

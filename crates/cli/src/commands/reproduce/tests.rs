//! The files that come with ftlab, mistakes in files, and a small reproduction from end to end.

use super::*;
use crate::args::Fill;
use crate::testing::Directory;

const PAPER: &str = "title = 'A paper'\ndevice = 'lsftl-paper:capacity=16MiB,spare=20%'\nrequests = '3k'\n\
                     assumptions = ['Nothing.']\n\n[[workload]]\nname = 'Zipf'\n\
                     generator = 'zipf:theta=0.9,reads=0.2,arrival=fixed,rate=100'\nexcerpts = ['part.spc']\n";

const EXPERIMENT: &str = "title = 'Table 9'\nsource = 'section 1'\nsays = 'dftl costs something.'\n\
                          configuration = [\n  { name = 'page' },\n  \
                          { name = 'dftl', set = { cache-bytes = '1KiB' } },\n  \
                          { name = 'unheard' },\n]\n";

const ROWS: &str = "[[row]]\nlabel = 'T_PC'\nmeasure = 'response_us.mean'\nrelation = 'change'\n\
                    of = ['dftl', 'unheard']\n\
                    against = 'page'\npublished = { Zipf = 80.0, mean = 80.0 }\n\n\
                    [[row]]\nlabel = 'erases'\nmeasure = 'flash.erases'\nunit = 'blocks'\nof = 'dftl'\n\
                    lost = 'the figure is not in the text'\n\n\
                    [[sensitivity]]\nlabel = 'spare space'\ndevice-key = 'spare'\nvalues = ['20%', '30%']\n\
                    rows = ['T_PC']\n\n\
                    [microscope]\nworkload = 'Zipf'\nof = ['dftl', 'page']\nfrom = 100\nrequests = 20\n\
                    collection = true\n";

fn read(paper: &str, experiment: &str) -> Result<Experiment, CliError> {
    let paper = Paper::read("p", "p/paper.toml", paper)?;
    Experiment::read(&paper, "e", "p/e.toml", experiment)
}

#[test]
fn every_shipped_experiment_can_be_read() {
    let experiments = chosen(&shipped(), None).unwrap();
    let mut papers: Vec<&str> = experiments.iter().map(|experiment| experiment.paper.name.as_str()).collect();
    papers.dedup();
    assert_eq!(papers, ["dftl", "ecc", "hybridlog", "lsftl", "rose", "scftl"]);
    for experiment in &experiments {
        let place = format!("{}/{}", experiment.paper.name, experiment.name);
        assert!(!experiment.rows.is_empty() || experiment.microscope.is_some(), "{place} measures nothing");
        // All its sources are there, or are files.
        for workload in &experiment.workloads {
            for spec in workload.twin.iter().chain(&workload.generator) {
                crate::workload::Origin::generated(spec, crate::workload::GENERATED_BYTES)
                    .unwrap_or_else(|error| panic!("{place}: {error}"));
            }
            let device = workload.device.as_ref().unwrap_or(&experiment.paper.device);
            super::super::experiment::device_spec(Some(device)).unwrap().build(None).unwrap();
        }
    }
    let dftl: Vec<&str> = experiments.iter().take(6).map(|experiment| experiment.name.as_str()).collect();
    assert_eq!(dftl, ["figure-6", "figure-7", "figure-8", "figure-9", "figure-10", "figure-11"]);
    assert!(render::list(&experiments).lines().all(|line| line.chars().count() <= 100));
}

#[test]
fn papers_and_experiments_are_chosen_by_name() {
    let files = shipped();
    let one = chosen(&files, Some("lsftl/table-1")).unwrap();
    assert_eq!((one.len(), one[0].paper.name.as_str(), one[0].name.as_str()), (1, "lsftl", "table-1"));
    assert!(chosen(&files, Some("dftl/")).unwrap().iter().all(|experiment| experiment.paper.name == "dftl"));
    let refused = |asked| chosen(&files, Some(asked)).unwrap_err().to_string();
    assert_eq!(refused("lsfl"), "unknown paper \"lsfl\"; did you mean \"lsftl\"?");
    assert_eq!(refused("lsftl/tabel-1"), "unknown experiment of lsftl \"tabel-1\"; did you mean \"table-1\"?");
}

#[test]
fn mistakes_name_file_line_and_remedy() {
    for (old, new, expected) in [
        ("requests = '3k'", "request = '3k'", "p/paper.toml:3: unknown key \"request\"; did you mean \"requests\"?"),
        ("generator =", "generater =", "p/paper.toml:8: unknown key \"generater\"; did you mean \"generator\"?"),
        (
            "'lsftl-paper:",
            "'lsftl-papper:",
            "p/paper.toml:2: there is no device \"lsftl-papper\"; did you mean lsftl-paper?",
        ),
        ("requests = '3k'", "requests = '3x'", "p/paper.toml:3: "),
        (
            "requests = '3k'",
            "fill = 'sequental'",
            "p/paper.toml:3: unknown word \"sequental\"; did you mean \"sequential\"?",
        ),
        ("requests = '3k'", "set = { gcc = 'fifo' }", "p/paper.toml:3: unknown parameter of any scheme here \"gcc\""),
    ] {
        let error = read(&PAPER.replacen(old, new, 1), EXPERIMENT).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{new}: {error}");
    }
    let whole = format!("{EXPERIMENT}{ROWS}");
    for (old, new, expected) in [
        ("says =", "say =", "p/e.toml:3: unknown key \"say\"; did you mean \"says\"?"),
        (
            "cache-bytes = '1KiB'",
            "cache-byte = 1",
            "p/e.toml:6: unknown parameter of dftl \"cache-byte\"; did you mean",
        ),
        ("cache-bytes = '1KiB'", "gc-low = 0", "p/e.toml:6: gc-low = 0: must be 2 to"),
        ("{ name = 'page' }", "{ name = 'page', buffer = 'fba:1MiB' }", "p/e.toml:5: unknown write buffer \"fba\""),
        ("relation = 'change'", "relation = 'chang'", "p/e.toml:12: unknown variant `chang`"),
        ("'response_us.mean'", "'respons_us.mean'", "p/e.toml:11: unknown measure \"respons_us.mean\""),
        (
            "of = ['dftl', 'unheard']",
            "of = ['dtfl']",
            "p/e.toml:13: unknown configuration \"dtfl\"; did you mean \"dftl\"?",
        ),
        ("against = 'page'", "", "p/e.toml:11: this relation needs `against`"),
        ("Zipf = 80.0", "Zip = 80.0", "p/e.toml:15: unknown workload \"Zip\"; did you mean \"Zipf\"?"),
        ("Zipf = 80.0", "Zipf = [2, 1]", "p/e.toml:15: a range is [low, high]"),
        ("Zipf = 80.0", "Zipf = 'dftl'", "p/e.toml:15: what was published is a number, or a range"),
        ("unit = 'blocks'", "unit = 'block'", "p/e.toml:20: unknown unit \"block\"; did you mean \"blocks\"?"),
        ("rows = ['T_PC']", "rows = ['T_PX']", "p/e.toml:28: unknown row \"T_PX\"; did you mean \"T_PC\"?"),
        ("device-key = 'spare'", "fill = true", "p/e.toml:27: unknown word \"20%\"; known are none, sequential"),
        ("device-key = 'spare'\n", "", "p/e.toml:26: a sensitivity has one of device-key, parameter, and fill"),
        (
            "workload = 'Zipf'\nof",
            "workload = 'Zip'\nof",
            "p/e.toml:31: unknown workload \"Zip\"; did you mean \"Zipf\"?",
        ),
        ("source = 'section 1'\n", "", "p/e.toml:1: missing field `source`"),
        ("label = 'T_PC'", "label = ", "p/e.toml:10: "),
    ] {
        assert!(whole.contains(old), "{old}");
        let error = read(PAPER, &whole.replacen(old, new, 1)).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{new}: {error}");
    }
    read(PAPER, &whole).unwrap();
}

#[test]
fn an_experiment_may_start_from_another_device_than_its_paper() {
    let fill = |paper: &str, experiment: &str| {
        let paper = PAPER.replacen("requests =", &format!("{paper}requests ="), 1);
        read(&paper, &format!("{experiment}{EXPERIMENT}")).unwrap().paper.fill
    };
    assert_eq!(fill("", ""), Fill::Sequential);
    assert_eq!(fill("fill = 'trace'\n", ""), Fill::Trace);
    assert_eq!(fill("fill = 'none'\n", "fill = 'trace'\n"), Fill::Trace);
}

#[test]
fn parameters_go_to_those_who_have_them_the_nearest_last() {
    let paper = PAPER.replacen("requests = '3k'", "set = { cache-bytes = '2KiB', gc = 'fifo' }", 1);
    let experiment = read(&paper, &format!("set = {{ gc = 'random' }}\n{EXPERIMENT}")).unwrap();
    let of = |name: &str, varied| {
        let settings = experiment.settings(experiment.configuration(name).unwrap(), &experiment.workloads[0], varied);
        settings.into_iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(of("page", None), "gc=random");
    assert_eq!(of("dftl", None), "cache-bytes=1024 gc=random");
    assert_eq!(of("dftl", Some(("cache-bytes", "4096"))), "cache-bytes=4096 gc=random");
    assert_eq!(of("page", Some(("cache-bytes", "4096"))), "gc=random");
    assert_eq!(of("unheard", None), "", "of a scheme that is not there nothing is known");
}

/// A directory of experiments with one of them, and a part of its trace.
fn tree() -> Directory {
    let directory = Directory::new();
    fs::create_dir_all(directory.join("experiments/small")).unwrap();
    fs::create_dir(directory.join("traces")).unwrap();
    fs::write(directory.join("experiments/small/paper.toml"), PAPER).unwrap();
    fs::write(directory.join("experiments/small/table-9.toml"), format!("{EXPERIMENT}{ROWS}")).unwrap();
    let line = |i: u64| format!("0,{},4096,w,{}.0\n", i * 7919 % 4096 * 8, i);
    fs::write(directory.join("traces/part.spc"), (0..500).map(line).collect::<String>()).unwrap();
    directory
}

fn args(directory: &Directory) -> ReproduceArgs {
    ReproduceArgs {
        paper: Some("small".into()),
        traces: None,
        experiments: Some(directory.join("experiments")),
        list: false,
        quick: false,
        requests: None,
        threads: Some(2),
        json: Some(directory.join("all.json")),
        csv: Some(directory.join("all.csv")),
    }
}

#[test]
fn a_small_reproduction_end_to_end() {
    let directory = tree();
    let args = ReproduceArgs { traces: Some(directory.join("traces")), ..args(&directory) };
    let mut stdout = Vec::new();
    assert_eq!(reproduce(&args, &AtomicBool::new(false), &mut stdout).unwrap(), Ended::Done);
    let text = String::from_utf8(stdout).unwrap();
    println!("{text}");
    for line in text.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
    for expected in [
        "small: A paper\nassumed: Nothing.\n",
        "small/table-9: Table 9 (section 1)\nThe paper: dftl costs something.\n",
        "(generator, 3,000 requests); part.spc\n  (excerpt, 500 requests).",
        "not measured: unheard: unknown scheme \"unheard\"",
        "nothing was collected under Zipf (part.spc) by dftl, page",
        "lost: the figure is not in the text (erases)",
        "spare space:",
        "dftl          ",
    ] {
        assert!(text.contains(expected), "{expected}");
    }
    assert!(!text.contains("reproduced"));

    let json: serde_json::Value = serde_json::from_slice(&fs::read(directory.join("all.json")).unwrap()).unwrap();
    let experiment = &json["experiments"][0];
    let figures = experiment["figures"].as_array().unwrap();
    // T_PC of dftl: generator, excerpt, mean; of unheard: the same; erases: generator, excerpt. Then T_PC under the
    // generator alone of two configurations at two spare spaces, and of the one that could be run with its mean.
    assert_eq!(figures.len(), 3 + 3 + 2 + 2 * (2 + 1));
    let ground = &experiment["workloads"][0];
    let mean = |scheme: &str| ground["results"][scheme]["response_us"]["mean"].as_f64().unwrap();
    let t_pc = 100.0 * (mean("dftl") - mean("page")) / mean("page");
    assert!(t_pc > 0.0);
    assert!((figures[0]["measured"].as_f64().unwrap() - t_pc).abs() < 1e-9);
    assert!((figures[0]["deviation"].as_f64().unwrap() - (t_pc - 80.0)).abs() < 1e-9);
    assert_eq!((figures[0]["holds"].as_bool(), figures[0]["ran_on"].as_str()), (Some(true), Some("generator")));
    assert_eq!(figures[1]["ran_on"], "excerpt");
    assert_eq!(figures[2]["measured"], figures[0]["measured"], "the mean is over first sources");
    let why = figures[3]["not_measured"].as_str().unwrap();
    assert!(why.starts_with("unheard: unknown scheme \"unheard\"; known are null, page, dftl"), "{why}");
    assert_eq!((figures[6]["published"].is_null(), figures[6]["lost"].is_string()), (true, true));
    assert_eq!(figures[6]["measured"].as_f64(), ground["results"]["dftl"]["flash"]["erases"].as_f64());
    let same = figures.iter().find(|figure| figure["varied"] == "spare=20%").unwrap();
    assert_eq!(same["measured"], figures[0]["measured"], "as in the paper's set-up");
    let windows = experiment["microscope"].as_array().unwrap();
    let window = windows[0]["requests"].as_array().unwrap();
    assert_eq!(window.len(), 20);
    assert!(window[10]["commands"]["erases"].as_u64().unwrap() > 0, "a collection stands in the middle");
    assert_eq!(window[0]["number"], windows[1]["requests"][0]["number"]);

    let mut csv = csv::Reader::from_path(directory.join("all.csv")).unwrap();
    let lines: Vec<csv::StringRecord> = csv.records().map(Result::unwrap).collect();
    assert_eq!(lines.len(), figures.len());
    assert_eq!((&lines[0][3], &lines[0][11], &lines[6][11]), ("T_PC", "80", "lost"));
    assert_eq!(lines[0][14].parse::<f64>().ok(), figures[0]["measured"].as_f64());
}

#[test]
fn ctrl_c_leaves_what_was_finished() {
    let directory = tree();
    let mut stdout = Vec::new();
    let ended = reproduce(&args(&directory), &AtomicBool::new(true), &mut stdout).unwrap();
    assert_eq!((ended, stdout.len()), (Ended::Interrupted, 0));
}

#[test]
fn fewer_requests_on_request() {
    let directory = tree();
    let mut stdout = Vec::new();
    let args = ReproduceArgs { requests: Some(100), json: None, csv: None, ..args(&directory) };
    reproduce(&args, &AtomicBool::new(false), &mut stdout).unwrap();
    assert!(String::from_utf8(stdout).unwrap().contains("(generator, 100 requests)"));
}

//! The files that come with ftlab, mistakes in files, and a small reproduction from end to end.

use super::file::MEAN;
use super::finding::Found;
use super::measure::Measured;
use super::*;
use crate::args::Fill;
use crate::testing::Directory;
use std::collections::BTreeMap;

const PAPER: &str = "title = 'A paper'\ndevice = 'lsftl-paper:capacity=16MiB,spare=20%'\nrequests = '3k'\n\
                     assumptions = ['Nothing.']\n\n[[workload]]\nname = 'Zipf'\n\
                     generator = 'zipf:theta=0.9,reads=0.2,arrival=fixed,rate=100'\nexcerpts = ['part.spc']\n";

const EXPERIMENT: &str = "title = 'Table 9'\nsource = 'section 1'\nsays = 'dftl costs something.'\n\
                          configuration = [\n  { name = 'page' },\n  \
                          { name = 'dftl', set = { cache-bytes = '1KiB' } },\n  \
                          { name = 'unheard' },\n]\n";

const CLAIMS: &str = "[[claim]]\nname = 'costs'\nsays = 'dftl costs something'\nexperiment = 'table-9'\n\
                      workloads = ['Zipf', 'mean']\nrow = 'T_PC'\nof = 'dftl'\nsee = 'small.md'\n\n\
                      [[claim]]\nname = 'backwards'\nsays = 'dftl answers before page'\nexperiment = 'table-9'\n\
                      workloads = ['Zipf']\norder = ['dftl', 'page']\nmeasure = 'response_us.mean'\nunit = 'ms'\n\
                      cause = 'It was never so.'\ncauses = { excerpt = 'Too short.' }\nsee = 'small.md'\n";

const ROWS: &str = "[[row]]\nlabel = 'T_PC'\nmeasure = 'response_us.mean'\nrelation = 'change'\n\
                    of = ['dftl', 'unheard']\n\
                    against = 'page'\npublished = { Zipf = 80.0, mean = 80.0 }\n\n\
                    [[row]]\nlabel = 'erases'\nmeasure = 'flash.erases'\nunit = 'blocks'\nof = 'dftl'\n\
                    lost = 'the figure is not in the text'\n\n\
                    [[sensitivity]]\nlabel = 'spare space'\ndevice-key = 'spare'\nvalues = ['20%', '30%']\n\
                    rows = ['T_PC']\nrequests = '2k'\n\n\
                    [[curve]]\ntitle = 'T_PC as space grows'\nx = 'spare space'\nalong = 'spare'\n\
                    rows = ['T_PC']\nat = [['20%', 'a fifth'], ['30%', '3/10']]\n\n\
                    [microscope]\nworkload = 'Zipf'\nof = ['dftl', 'page']\nfrom = 100\nrequests = 20\n\
                    collection = true\n";

fn read(paper: &str, experiment: &str) -> Result<Experiment, CliError> {
    let paper = Paper::read("p", "p/paper.toml", paper)?;
    Experiment::read(&paper, "e", "p/e.toml", experiment)
}

/// Values, workloads and configurations multiply, as do the configurations and workloads of rows.
#[test]
fn an_experiment_of_too_many_runs_or_figures_is_refused() {
    let values: Vec<String> = (0..10_000).map(|n| format!("'{n}%'")).collect();
    let many =
        format!("{EXPERIMENT}[[sensitivity]]\nlabel = 's'\ndevice-key = 'spare'\nvalues = [{}]\n", values.join(","));
    let error = read(PAPER, &many).unwrap_err().to_string();
    assert!(error.starts_with("p/e.toml: 30,003 runs are asked for, and at most 10,000"), "{error}");
    let names: Vec<String> = (0..100_001).map(|n| format!("'{n}'")).collect();
    let of = format!("{EXPERIMENT}[[row]]\nlabel = 'r'\nmeasure = 'waf'\nof = [{}]\n", names.join(","));
    let error = read(PAPER, &of).unwrap_err().to_string();
    assert!(error.starts_with("p/e.toml: its rows have 100001 figures, and at most 100000"), "{error}");
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
            assert!(workload.recordings.is_empty() || experiment.until.is_none(), "{place}: recordings are short");
            for spec in workload.twin.iter().chain(&workload.generator) {
                crate::workload::Origin::generated(spec.get_ref(), crate::workload::GENERATED_BYTES)
                    .unwrap_or_else(|error| panic!("{place}: {error}"));
            }
            let device = workload.device(&experiment.paper);
            super::super::experiment::device_spec(Some(device)).unwrap().build(None).unwrap();
        }
    }
    let dftl: Vec<&str> = experiments.iter().take(6).map(|experiment| experiment.name.as_str()).collect();
    assert_eq!(dftl, ["figure-6", "figure-7", "figure-8", "figure-9", "figure-10", "figure-11"]);
    assert!(render::list(&experiments).lines().all(|line| line.chars().count() <= 100));
}

/// A counter that no scheme has is measured nowhere, and its row stays empty. Merges by kind are no counters.
#[test]
fn every_counter_asked_for_is_one_of_a_scheme() {
    let known: BTreeSet<&str> = ftl::schemes::SCHEMES
        .iter()
        .flat_map(|scheme| scheme.counters.iter().copied().flatten())
        .map(|&(name, _)| name)
        .collect();
    let mut asked = 0;
    for file in shipped() {
        for after in file.text.split("extra.").skip(1) {
            let name = after.split(['"', '\'']).next().unwrap();
            let merges = ["switch_merges", "partial_merges", "full_merges"].contains(&name);
            assert!(known.contains(name) && !merges, "{}: extra.{name} (merges are merges.switch, …)", file.place);
            asked += 1;
        }
    }
    assert!(asked > 20, "{asked}");
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
        ("requests = '3k'", "set = { gc-low = -1 }", "p/paper.toml:3: gc-low = -1: must be 1 to"),
        ("requests = '3k'", "requests = -1", "p/paper.toml:3: "),
        ("requests = '3k'", "requests = [1]", "p/paper.toml:3: a count is a whole number, or a string"),
        ("lsftl-paper:capacity=16MiB", "agrawal08:nop=4", "p/paper.toml:2: "),
        ("spare=20%", "spare=200%", "p/paper.toml:2: "),
        (
            "'zipf:theta",
            "'zpif:theta",
            "p/paper.toml:8: zpif:theta=0.9,reads=0.2,arrival=fixed,rate=100: there is no generator `zpif`",
        ),
        ("'zipf:theta", "'zipf:teta", "p/paper.toml:8: "),
        ("excerpts = ['part.spc']", "device = 'lsftl-paper:spare=2'", "p/paper.toml:9: "),
        (
            "excerpts = ['part.spc']\n",
            "[[workload]]\nname = 'Zipf'\n",
            "p/paper.toml: a second workload \"Zipf\"; give it a name of its own",
        ),
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
        (
            "{ name = 'page' }",
            "{ name = 'page', cache-as = 'dftl' }",
            "p/e.toml:5: cache-as gives a scheme with a mapping cache",
        ),
        ("{ name = 'page' }", "{ name = 'page', cache-as = 'fats' }", "p/e.toml:5: unknown configuration \"fats\""),
        ("{ name = 'page' }", "{ name = 'page' }, { name = 'page' }", "p/e.toml: a second configuration \"page\""),
        (
            "{ name = 'page' }",
            "{ name = 'page', change-device = 'nopp=3' }",
            "p/e.toml:5: a device has no key \"nopp\"; did you mean nop?",
        ),
        ("says =", "set = { gc-low = -1 }\nsays =", "p/e.toml:3: gc-low = -1: must be 1 to"),
        ("says =", "set = { gc-low = 1 }\nsays =", "p/e.toml: dftl under Zipf: gc-low = 1: must be 2 to"),
        ("says =", "repeat = 0\nsays =", "p/e.toml:3: repeat = 0: must be from 1 to 1000"),
        ("'dftl', 'unheard'", "'dftl', 'dftl'", "p/e.toml:13: of names \"dftl\" twice"),
        ("'dftl', 'unheard'", "'dftl', 3", "p/e.toml:13: of is the name of a configuration, or a list of them"),
        ("label = 'erases'", "label = 'T_PC'", "p/e.toml: a second row \"T_PC\" of dftl under Zipf; give it another"),
        ("Zipf = 80.0", "Zipf = nan", "p/e.toml:15: what was published is a number"),
        ("device-key = 'spare'", "device-key = 'spar'", "p/e.toml:26: unknown key of a device \"spar\"; did you mean"),
        ("'20%', '30%'", "'20%', '300%'", "p/e.toml:27: "),
        ("'20%', '30%'", "", "p/e.toml: the sensitivity \"spare space\" has no values; give at least one"),
        ("device-key = 'spare'\nvalues = ['20%'", "parameter = 'gc-low'\nvalues = [0", "p/e.toml:27: gc-low = 0: must"),
        ("relation = 'change'", "relation = 'chang'", "p/e.toml:12: unknown word \"chang\"; did you mean \"change\"?"),
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
        ("requests = '2k'", "requests = '2x'", "p/e.toml:29: "),
        ("along = 'spare'", "along = 'spar'", "p/e.toml:34: unknown direction \"spar\"; did you mean \"spare\"?"),
        ("'20%', 'a fifth'", "'25%', 'a quarter'", "p/e.toml:36: unknown value \"25%\""),
        ("along = 'spare'\n", "along = 'spare'\nlog = true\n", "p/e.toml:34: log = true draws times; the unit of"),
        ("unit = 'blocks'", "unit = 'blocks'\nexercised-by = 'swap'", "p/e.toml:21: unknown measure \"swap\""),
        ("device-key = 'spare'\n", "", "p/e.toml:26: a sensitivity has one of device-key, parameter, and fill"),
        (
            "workload = 'Zipf'\nof",
            "workload = 'Zip'\nof",
            "p/e.toml:39: unknown workload \"Zip\"; did you mean \"Zipf\"?",
        ),
        ("source = 'section 1'\n", "", "p/e.toml:1: missing field `source`"),
        ("label = 'T_PC'", "label = ", "p/e.toml:10: "),
    ] {
        assert!(whole.contains(old), "{old}");
        let error = read(PAPER, &whole.replacen(old, new, 1)).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{new}: {error}");
    }
    read(PAPER, &whole).unwrap();
    read(&PAPER.replace("'3k'", "3000"), &whole).unwrap();
}

#[test]
fn a_directory_without_experiments_says_how_it_is_laid_out() {
    let directory = Directory::new();
    let refused = || {
        let args = ReproduceArgs { paper: None, experiments: Some(directory.join("")), ..args(&directory) };
        reproduce(&args, &AtomicBool::new(false), &mut Vec::new()).unwrap_err().to_string()
    };
    let error = refused();
    assert!(
        error.starts_with("--experiments: no paper in ") && error.contains("/PAPER/paper.toml and beside"),
        "{error}"
    );
    fs::create_dir(directory.join("p")).unwrap();
    fs::write(directory.join("p/paper.toml"), PAPER).unwrap();
    let error = refused();
    assert!(error.contains("p/paper.toml: the paper p has no experiments: write beside its set-up a file"), "{error}");
}

/// A user saw a table of dashes and the exit code of a success.
#[test]
fn a_run_without_a_figure_has_failed() {
    let directory = tree();
    let run = |experiment: String| {
        fs::write(directory.join("experiments/small/table-9.toml"), experiment).unwrap();
        let args = ReproduceArgs { requests: Some(100), quick: true, ..args(&directory) };
        reproduce(&args, &AtomicBool::new(false), &mut Vec::new()).unwrap()
    };
    let whole = format!("{EXPERIMENT}{ROWS}");
    assert_eq!(run(whole.clone()), Ended::Done);
    fs::remove_file(directory.join("experiments/small/claims.toml")).unwrap();
    let unknown =
        whole.replace("{ name = 'dftl'", "{ name = 'dftl', scheme = 'unheard-of'").replace("of = ['dftl', ", "of = [");
    assert_eq!(run(unknown), Ended::Failed);
}

#[test]
fn a_microscope_beyond_the_workload_says_so() {
    let directory = tree();
    let whole = format!("{EXPERIMENT}{ROWS}").replace("from = 100", "from = 1_000_000");
    fs::write(directory.join("experiments/small/table-9.toml"), whole).unwrap();
    let mut stdout = Vec::new();
    reproduce(&args(&directory), &AtomicBool::new(false), &mut stdout).unwrap();
    let text = String::from_utf8(stdout).unwrap();
    assert!(text.contains("dftl: not looked at: no request 1,000,000, for there were 3,000\n"), "{text}");
    assert!(!text.contains("longest"), "{text}");
    let page = fs::read_to_string(directory.join("all.html")).unwrap();
    assert!(page.contains("dftl: not looked at: no request 1,000,000") && !page.contains("of each request"), "{page}");
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

/// FAST's maps on the very device: of blocks, and of the pages of its log.
#[test]
fn a_cache_may_be_as_large_as_the_maps_of_another_scheme() {
    let text = EXPERIMENT.replacen("{ name = 'page' }", "{ name = 'fast' }, { name = 'page' }", 1);
    let text = text.replacen(
        "{ name = 'page' }",
        "{ name = 'page' }, { name = 'like', scheme = 'dftl', cache-as = 'fast' }",
        1,
    );
    let experiment = read(PAPER, &text).unwrap();
    let workload = &experiment.workloads[0];
    let (sources, _) = lab::Shelf::default().sources(workload);
    let at = lab::At { workload, found: &sources[0], varied: None, requests: None };
    let stop = AtomicBool::new(false);
    let session = Session::new(&stop);
    let pool = Pool::new(&session, 2);
    let lab = Lab::new(Amount { requests: None, quick: true }, &session, &pool);
    let sram = |name: &str| lab.built(&experiment, experiment.configuration(name).unwrap(), at).unwrap().1;
    let (fast, like) = (sram("fast"), sram("like"));
    let maps = fast["block map"] + fast["log map"];
    assert!(fast["block map"] > 0 && fast["log map"] > 0);
    // Entries of eight bytes fill it, and no more fits.
    let taken = like["mapping cache"] + like["translation directory"];
    assert!(taken <= maps && maps < taken + 8, "{taken} of {maps}");
}

/// A directory of experiments with one of them, and a part of its trace.
fn tree() -> Directory {
    let directory = Directory::new();
    fs::create_dir_all(directory.join("experiments/small")).unwrap();
    fs::create_dir(directory.join("traces")).unwrap();
    fs::write(directory.join("experiments/small/paper.toml"), PAPER).unwrap();
    fs::write(directory.join("experiments/small/table-9.toml"), format!("{EXPERIMENT}{ROWS}")).unwrap();
    fs::write(directory.join("experiments/small/claims.toml"), CLAIMS).unwrap();
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
        summary: false,
        quick: false,
        unvaried: false,
        requests: None,
        threads: Some(2),
        json: Some(directory.join("all.json")),
        csv: Some(directory.join("all.csv")),
        html: Some(directory.join("all.html")),
    }
}

/// Where one value has a mean and another has none, what stood below the mean slid into its place.
#[test]
fn a_cell_stands_in_the_line_of_its_own_figure() {
    let experiment = read(PAPER, &format!("{EXPERIMENT}{ROWS}")).unwrap();
    let finding = |row: usize, workload: &str, value: f64| Finding {
        row,
        of: Some("dftl".into()),
        workload: workload.into(),
        from: "excerpt".into(),
        source: "part.spc".into(),
        requests: None,
        published: None,
        measured: Ok(Found::Number(Measured::exact(value))),
        deviation: None,
        sign: None,
        order: None,
        idle: None,
        overloaded: false,
    };
    let without = vec![finding(0, "Zipf", 1.0), finding(1, "Zipf", 2.0)];
    let with = vec![finding(0, "Zipf", 3.0), finding(0, MEAN, 4.0), finding(1, "Zipf", 5.0)];
    let lines = [["T_PC, dftl", "Zipf"], ["", MEAN], ["erases", "Zipf"]];
    let expected = [["1.00 %", "3.00 %"], ["", "4.00 %"], ["2.00 blocks", "5.00 blocks"]];
    for swapped in [false, true] {
        let mut values = [without.clone(), with.clone()];
        let mut expected = expected;
        if swapped {
            values.reverse();
            expected.iter_mut().for_each(|cells| cells.reverse());
        }
        let cells = render::value_cells(&experiment, &values);
        assert_eq!(cells.len(), 3, "{cells:?}");
        for ((cells, line), expected) in cells.iter().zip(lines).zip(expected) {
            assert_eq!((&cells[..2], &cells[3..]), (&line.map(String::from)[..], &expected.map(String::from)[..]));
        }
    }
}

/// A workload without a trace stands in no table, but both say so, the text and the file.
#[test]
fn what_has_no_trace_is_named() {
    let directory = tree();
    let away = "\n[[workload]]\nname = 'Away'\ntraces = ['away.spc']\n";
    fs::write(directory.join("experiments/small/paper.toml"), format!("{PAPER}{away}")).unwrap();
    let mut stdout = Vec::new();
    assert_eq!(reproduce(&args(&directory), &AtomicBool::new(false), &mut stdout).unwrap(), Ended::Done);
    let text = String::from_utf8(stdout).unwrap();
    assert!(text.contains("\nNot run, for no trace of theirs was found: Away (away.spc).\n"), "{text}");
    let json: serde_json::Value = serde_json::from_slice(&fs::read(directory.join("all.json")).unwrap()).unwrap();
    let not_run = &json["experiments"][0]["not_run"];
    assert_eq!(*not_run, serde_json::json!([{ "workload": "Away", "not_found": ["away.spc"] }]));
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
        "nothing was collected under Zipf (part.spc, 500 requests) by dftl, page",
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
    assert!(why.starts_with("unheard: unknown scheme \"unheard\"; known are null, simple, page, dftl"), "{why}");
    assert_eq!((figures[6]["published"].is_null(), figures[6]["lost"].is_string()), (true, true));
    assert_eq!(figures[6]["measured"].as_f64(), ground["results"]["dftl"]["flash"]["erases"].as_f64());
    let windows = experiment["microscope"].as_array().unwrap();
    let window = windows[0]["requests"].as_array().unwrap();
    assert_eq!(window.len(), 20);
    assert!(window[10]["commands"]["erases"].as_u64().unwrap() > 0, "a collection stands in the middle");
    assert_eq!(window[0]["number"], windows[1]["requests"][0]["number"]);

    let mut csv = csv::Reader::from_path(directory.join("all.csv")).unwrap();
    let lines: Vec<csv::StringRecord> = csv.records().map(Result::unwrap).collect();
    assert_eq!(lines.len(), figures.len());
    assert_eq!((&lines[0][3], &lines[0][12], &lines[6][12]), ("T_PC", "80", "lost"));
    assert_eq!(lines[0][10].parse::<u64>().ok(), figures[0]["requests"].as_u64());
    assert_eq!(lines[0][10].parse::<u64>().ok(), ground["requests"].as_u64());
    assert_eq!(lines[0][15].parse::<f64>().ok(), figures[0]["measured"].as_f64());
}

/// `--json` over an experiment of `--experiments` replaced it by the report.
#[test]
fn no_output_takes_the_place_of_what_is_read() {
    let directory = tree();
    fs::write(directory.join("traces/r.json"), "not a trace of any workload").unwrap();
    let refused = |json: &str| {
        let (csv, html, traces) = (None, None, Some(directory.join("traces")));
        let args = ReproduceArgs { json: Some(directory.join(json)), csv, html, traces, ..args(&directory) };
        reproduce(&args, &AtomicBool::new(true), &mut Vec::new()).map_err(|error| error.to_string())
    };
    for (json, what) in [
        ("experiments/small/table-9.toml", "an experiment"),
        ("experiments/small/paper.toml", "an experiment"),
        ("traces/part.spc", "a trace"),
    ] {
        let before = fs::read(directory.join(json)).unwrap();
        let error = refused(json).unwrap_err();
        assert!(error.ends_with(&format!("{json} is {what} already; name another file")), "{error}");
        assert_eq!(fs::read(directory.join(json)).unwrap(), before);
    }
    assert_eq!(refused("traces/r.json"), Ok(Ended::Interrupted));
}

#[test]
fn several_experiments_end_in_their_balance() {
    let directory = tree();
    let other = format!("{EXPERIMENT}{}", ROWS.replace("Zipf = 80.0, mean = 80.0", "Zipf = -80.0"));
    fs::write(directory.join("experiments/small/table-10.toml"), other.replace("Table 9", "Table 10")).unwrap();
    let mut stdout = Vec::new();
    let args = ReproduceArgs { quick: true, requests: Some(500), csv: None, html: None, ..args(&directory) };
    reproduce(&args, &AtomicBool::new(false), &mut stdout).unwrap();
    let text = String::from_utf8(stdout).unwrap();
    // The generator's figure and the mean of table 9; the generator's of table 10, against its sign.
    assert!(text.ends_with("\nIn all, the published sign or order holds in 2 of 3 figures that have one.\n"), "{text}");
    let json: serde_json::Value = serde_json::from_slice(&fs::read(directory.join("all.json")).unwrap()).unwrap();
    assert_eq!(json["claims"].as_array().unwrap().len(), 3, "headlines are told whatever was printed");
}

#[test]
fn a_page_draws_what_was_measured() {
    let directory = tree();
    let mut stdout = Vec::new();
    let args = ReproduceArgs { requests: Some(500), json: None, csv: None, ..args(&directory) };
    reproduce(&args, &AtomicBool::new(false), &mut stdout).unwrap();
    let page = fs::read_to_string(directory.join("all.html")).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    for expected in ["<h3>T_PC as space grows</h3>", ">a fifth</text>", ">3/10</text>", "Below: spare space."] {
        assert!(page.contains(expected), "{expected}");
    }
    // Two measured points and two published ones under the generator, and two of the mean; unheard has only those.
    let line = |label: &str| page.matches(&format!("<title>{label}: ")).count();
    assert_eq!(line("T_PC, dftl, Zipf, zipf:theta=0.9"), 2, "{page}");
    let published = |label: &str| page.matches(&format!("<title>{label}, published: 80</title>")).count();
    assert_eq!(published("T_PC, dftl, Zipf, zipf:theta=0.9"), 2, "{page}");
    // Each of the two configurations under the microscope has a line through its 20 requests, in three plots.
    let service = page.split("<h3>Service of each request, Zipf</h3>").nth(1).unwrap().split("<h3>").next().unwrap();
    for name in ["dftl", "page"] {
        let path = service.split(&format!("\"><title>{name}</title>")).next().unwrap();
        let path = path.rsplit("d=\"M").next().unwrap();
        assert_eq!(path.split('L').count(), 20, "{name}: {path}");
    }
    assert_eq!(page.matches(" of each request, Zipf</h3>").count(), 3);
    assert_eq!(page.matches('<').count(), page.matches('>').count());
}

#[test]
fn claims_are_told_line_by_line() {
    let directory = tree();
    let mut stdout = Vec::new();
    let traces = Some(directory.join("traces"));
    let args = ReproduceArgs { summary: true, requests: Some(400), traces, csv: None, html: None, ..args(&directory) };
    reproduce(&args, &AtomicBool::new(false), &mut stdout).unwrap();
    let text = String::from_utf8(stdout).unwrap();
    println!("{text}");
    let command = "`ftlab reproduce small --summary --requests 400 --experiments DIR --traces DIR`";
    assert!(text.starts_with(&format!("ftlab {}, seed 1: {command}\n\n| claim |", env!("CARGO_PKG_VERSION"))));
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("| small/")).collect();
    // Generator, excerpt and mean of the first; generator and excerpt of the second.
    assert_eq!(lines.len(), 5);
    let starts = [
        "| small/costs: dftl costs something | 80.0 % | Zipf: generator zipf:",
        "| small/costs, as above | 80.0 % | Zipf: excerpt part.spc, 400 requests |",
    ];
    assert!(starts.iter().zip(&lines).all(|(start, line)| line.starts_with(start)), "{lines:?}");
    assert!(lines[0].contains(", 400 requests | T_PC, dftl: ") && lines[0].ends_with("| yes | - |  |"), "{}", lines[0]);
    assert!(lines[3].contains("| dftl < page | Zipf: generator zipf:") && lines[3].contains("| page "), "{}", lines[3]);
    assert!(lines[3].ends_with("| - | NO | It was never so. [figures](reproduce/small.md) |"), "{}", lines[3]);
    assert!(lines[4].ends_with("| - | NO | Too short. [figures](reproduce/small.md) |"), "{}", lines[4]);
    assert!(text.contains("\nSign and order hold in 3 of 5 lines that have one.\n"), "{text}");
    let json: serde_json::Value = serde_json::from_slice(&fs::read(directory.join("all.json")).unwrap()).unwrap();
    assert_eq!(json["claims"].as_array().unwrap().len(), 5);
    assert_eq!(json["claims"][3]["cause"], "It was never so.");
    assert!(json["claims"][0]["cause"].is_null());
    // Figures are there, and no sensitivities.
    let figures = json["experiments"][0]["figures"].as_array().unwrap();
    assert!(!figures.is_empty() && figures.iter().all(|figure| figure["varied"] == ""), "{figures:?}");
}

#[test]
fn mistakes_in_claims_name_file_line_and_remedy() {
    let read = |claims: &str| {
        let directory = tree();
        let files = from(&directory.join("experiments")).unwrap();
        let mut files: Vec<File> = files.into_iter().filter(|file| file.name != claim::CLAIMS).collect();
        let place = "small/claims.toml".to_owned();
        files.push(File { paper: "small".into(), name: claim::CLAIMS.into(), place, text: claims.to_owned() });
        super::claims(&files, &chosen(&files, None).unwrap()).map(|claims| claims.len())
    };
    assert_eq!(read(CLAIMS).unwrap(), 2);
    for (old, new, expected) in [
        ("'table-9'", "'table-8'", "small/claims.toml:4: unknown experiment \"table-8\"; did you mean \"table-9\"?"),
        ("'Zipf', 'mean'", "'Zip'", "small/claims.toml:5: unknown workload \"Zip\"; did you mean \"Zipf\"?"),
        ("row = 'T_PC'", "row = 'T_PX'", "small/claims.toml:6: unknown row \"T_PX\"; did you mean \"T_PC\"?"),
        (
            "row = 'T_PC'\nof = 'dftl'\n",
            "",
            "small/claims.toml:2: a claim has either row, with of where it has several,",
        ),
        ("['dftl', 'page']", "['dftl', 'pag']", "small/claims.toml:15: unknown configuration \"pag\"; did you mean"),
        ("name = 'backwards'", "name = 'costs'", "small/claims.toml:11: a second claim \"costs\""),
        ("cause =", "couse =", "small/claims.toml:18: unknown key \"couse\"; did you mean \"cause\"?"),
    ] {
        assert!(CLAIMS.contains(old), "{old}");
        let error = read(&CLAIMS.replacen(old, new, 1)).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{new}: {error}");
    }
}

/// The page has a line for each claim and no other, so that a claim cannot be added or dropped behind its back, and
/// what a claim refers to is there.
#[test]
fn the_page_of_claims_is_that_of_the_files() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let page = fs::read_to_string(docs.join("reproduce.md")).unwrap();
    let files = shipped();
    let claims = claims(&files, &chosen(&files, None).unwrap()).unwrap();
    let filed: BTreeSet<String> = claims.iter().map(Claim::title).collect();
    let is_claim = |cell: &str| filed.iter().any(|title| title.split('/').next() == cell.split('/').next());
    let told: BTreeSet<String> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split([':', ',']).next().map(str::to_owned))
        .filter(|cell| cell.contains('/') && !cell.contains(' ') && is_claim(cell))
        .collect();
    assert_eq!(told, filed, "docs/reproduce.md and experiments/*/claims.toml: run ftlab reproduce --summary again");
    assert!(page.contains(&format!("ftlab {}, seed 1: `ftlab reproduce ", env!("CARGO_PKG_VERSION"))));
    for claim in &claims {
        let (file, section) = claim.see().split_once('#').unwrap_or((claim.see(), ""));
        let text = fs::read_to_string(docs.join("reproduce").join(file)).unwrap_or_else(|e| panic!("{file}: {e}"));
        let anchor = |heading: &str| -> String {
            let word = |c: char| c.is_alphanumeric() || "-_ ".contains(c);
            heading.to_lowercase().chars().filter(|&c| word(c)).map(|c| if c == ' ' { '-' } else { c }).collect()
        };
        let mut headings =
            text.lines().filter_map(|line| line.strip_prefix("## ").or_else(|| line.strip_prefix("### ")));
        assert!(section.is_empty() || headings.any(|heading| anchor(heading) == section), "{}", claim.see());
    }
}

#[test]
fn quick_runs_what_the_files_call_quick_and_varies_nothing() {
    let directory = tree();
    let paper = PAPER.replacen("requests =", "quick = '1200'\nrequests =", 1);
    fs::write(directory.join("experiments/small/paper.toml"), paper).unwrap();
    let silent = format!("{EXPERIMENT}{ROWS}").replace("published = { Zipf = 80.0, mean = 80.0 }", "lost = 'gone'");
    fs::write(directory.join("experiments/small/table-11.toml"), silent).unwrap();
    let worn = format!("until = 'mean-erases=1'\n{EXPERIMENT}{ROWS}");
    fs::write(directory.join("experiments/small/table-10.toml"), worn).unwrap();
    let mut stdout = Vec::new();
    let args = ReproduceArgs { quick: true, csv: None, html: None, ..args(&directory) };
    reproduce(&args, &AtomicBool::new(false), &mut stdout).unwrap();
    let text = String::from_utf8(stdout).unwrap().replace("\n  ", " ");
    assert!(text.contains("(generator, 1,200 requests)") && !text.contains("spare space:"), "{text}");
    assert!(
        text.contains("--quick leaves out what is repeated") && text.contains("(small/table-10, small/table-11)"),
        "{text}"
    );
}

/// A run that repeats its requests says how many they were then, and no other experiment does.
#[test]
fn repeated_requests_are_told_of_their_experiment_alone() {
    let directory = tree();
    let worn = format!("until = 'mean-erases=1'\n{EXPERIMENT}{ROWS}");
    fs::write(directory.join("experiments/small/a-worn-device.toml"), worn).unwrap();
    let mut stdout = Vec::new();
    let args = ReproduceArgs { unvaried: true, csv: None, html: None, ..args(&directory) };
    reproduce(&args, &AtomicBool::new(false), &mut stdout).unwrap();
    let text = String::from_utf8(stdout).unwrap().replace("\n  ", " ");
    let (worn, plain) = text.split_once("small/table-9:").unwrap();
    assert!(worn.contains("(generator, ") && !worn.contains("(generator, 3,000 requests)"), "{worn}");
    assert!(plain.contains("(generator, 3,000 requests)"), "{plain}");
}

/// The figures are those of a run that varies things too.
#[test]
fn what_is_unvaried_has_the_figures_alone() {
    let directory = tree();
    let figures = |unvaried: bool| {
        let args = ReproduceArgs { unvaried, csv: None, html: None, ..args(&directory) };
        reproduce(&args, &AtomicBool::new(false), &mut Vec::new()).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&fs::read(directory.join("all.json")).unwrap()).unwrap();
        let (own, varied): (Vec<_>, Vec<_>) = json["experiments"][0]["figures"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| (one["varied"].clone(), one["measured"].clone()))
            .partition(|(varied, _)| varied == "");
        (own, varied.len())
    };
    let ((alone, none), (beside, some)) = (figures(true), figures(false));
    assert_eq!((alone, none), (beside, 0));
    assert!(some > 0);
}

#[test]
fn a_sensitivity_may_be_shorter_than_its_experiment() {
    let directory = tree();
    reproduce(&args(&directory), &AtomicBool::new(false), &mut Vec::new()).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&fs::read(directory.join("all.json")).unwrap()).unwrap();
    let figures = json["experiments"][0]["figures"].as_array().unwrap();
    let of = |varied: &str| {
        let own = |one: &&serde_json::Value| one["varied"] == varied && one["configuration"] == "dftl";
        figures.iter().find(own).unwrap()["measured"].as_f64().unwrap()
    };
    assert_ne!(of("spare=20%"), of(""), "2,000 requests and 3,000");
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

/// Every figure that does not hold on whole workloads is among the misses whose causes its paper's page tells.
#[test]
fn every_miss_has_its_row() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let cells = |line: &str| -> Vec<String> { line.split('|').map(|cell| cell.trim().to_owned()).collect() };
    let name = |cell: &str| cell.split('`').nth(1).unwrap_or_default().to_owned();
    let page = fs::read_to_string(docs.join("reproduce.md")).unwrap();
    let whole = page.split("### Of whole workloads").nth(1).unwrap();
    let mut missed = BTreeMap::new();
    for row in whole.lines().map(cells).filter(|row| row.len() == 5 && name(&row[1]).contains('/')) {
        let (held, of) = row[3].split_once(" of ").unwrap();
        missed.insert(name(&row[1]), of.parse::<u32>().unwrap() - held.parse::<u32>().unwrap());
    }
    let papers: BTreeSet<&str> = missed.keys().map(|name| name.split('/').next().unwrap()).collect();
    let mut told = BTreeMap::new();
    for &paper in &papers {
        let text = fs::read_to_string(docs.join("reproduce").join(format!("{paper}.md"))).unwrap();
        let misses = text.split("## What misses, and why").nth(1).unwrap_or_default();
        // Below the section's first table stand others, of what was varied.
        let table = misses.split("| experiment | misses |").nth(1).unwrap_or_default();
        for row in table.lines().take_while(|line| line.contains('|')).map(cells).filter(|row| row[1].starts_with('`'))
        {
            *told.entry(format!("{paper}/{}", name(&row[1]))).or_insert(0) += row[2].parse::<u32>().unwrap();
        }
    }
    missed.retain(|_, &mut count| count > 0);
    assert_eq!(told, missed, "docs/reproduce, What misses, and why");
    let sum: u32 = missed.values().sum();
    assert!(page.contains(&format!("Why the {sum} others do not")), "{sum} figures miss");
}

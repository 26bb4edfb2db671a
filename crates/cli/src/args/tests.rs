//! The command line: what is understood, and what is refused.

use super::*;
use clap::CommandFactory;

fn command(line: &str) -> Command {
    match parse(format!("ftlab {line}").split_whitespace()) {
        Ok(Invocation::Command(command)) => command,
        other => panic!("{line}: {other:?}"),
    }
}

fn compare(line: &str) -> CompareArgs {
    match command(&format!("compare {line}")) {
        Command::Compare(args) => *args,
        other => panic!("{other:?}"),
    }
}

fn message(line: &str) -> String {
    match parse(format!("ftlab {line}").split_whitespace()) {
        Err(error) => error.to_string(),
        Ok(other) => panic!("{line}: {other:?}"),
    }
}

fn printed(line: &str) -> String {
    match parse(format!("ftlab {line}").split_whitespace()) {
        Ok(Invocation::Print(text)) => text,
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn the_table_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn compare_alone_is_the_default() {
    assert_eq!(compare(""), CompareArgs::default());
}

#[test]
fn every_flag_of_compare() {
    let args = compare(
        "t.spc --schemes page,dftl --device x:capacity=8GiB,spare=0.07 --cache 16KiB,64KiB --gc greedy,fifo \
         --rhythm spread \
         --buffer none,bplru:1MiB --set dftl.gc_low=2 --set dftl-e.x=a=b --fill steady --host closed:32 --seed 7 \
         --scheduler in-order,suspend --idle-gc 1ms \
         --warmup 10k --limit 5M --until mean-erases=20 --mount-cost --repeat 3 --format spc --on-error skip \
         --out-of-range fold --volumes select=2 --time-scale 0.5 --partial ignore --threads 2 --json a --csv b \
         --parquet c --html d --per-request e --series 100ms \
         --verbose",
    );
    let setting = |scheme: &str, param: &str, value: &str| Setting {
        scheme: scheme.into(),
        param: param.into(),
        value: value.into(),
    };
    assert_eq!(
        args,
        CompareArgs {
            trace: Some("t.spc".into()),
            workload: None,
            schemes: vec!["page".into(), "dftl".into()],
            device: Some("x:capacity=8GiB,spare=0.07".into()),
            cache: vec![16 << 10, 64 << 10],
            buffer: vec![Buffer::None, Buffer::Of { policy: "bplru".into(), bytes: 1 << 20 }],
            gc: vec!["greedy".into(), "fifo".into()],
            rhythm: Some(Rhythm::Spread),
            set: vec![setting("dftl", "gc_low", "2"), setting("dftl-e", "x", "a=b")],
            fill: Fill::Steady,
            host: Some(Host::Closed { depth: 32 }),
            scheduler: vec![Scheduler::InOrder, Scheduler::Suspend],
            idle_gc: Some(1_000_000),
            flow: Vec::new(),
            seed: 7,
            warmup: 10_000,
            limit: Some(5_000_000),
            until: Some(Until::MeanErases(20.0)),
            mount_cost: true,
            repeat: 3,
            format: Some("spc".into()),
            on_error: OnError::Skip,
            out_of_range: Some(OutOfRange::Fold),
            volumes: Volumes::Select("2".into()),
            time_scale: 0.5,
            partial: Some(Partial::Ignore),
            threads: Some(2),
            json: Some("a".into()),
            csv: Some("b".into()),
            parquet: Some("c".into()),
            html: Some("d".into()),
            per_request: Some("e".into()),
            series: Some(100_000_000),
            verbose: true,
        }
    );
}

#[test]
fn flows_take_the_place_of_a_workload() {
    let args = compare("--flow zipf:reads=1@closed:4 --flow a.spc");
    assert_eq!(args.flow, ["zipf:reads=1@closed:4", "a.spc"]);
    assert_eq!(args.scheduler, [Scheduler::Fcfs]);
    for line in ["compare t.spc --flow zipf", "compare --workload zipf --flow zipf", "compare --scheduler fifo"] {
        parse(format!("ftlab {line}").split_whitespace()).unwrap_err();
    }
}

#[test]
fn the_other_commands() {
    assert_eq!(command("run a.toml"), Command::Run(RunArgs { file: "a.toml".into() }));
    assert_eq!(
        command("schemes dftl"),
        Command::Schemes(SchemesArgs { name: Some("dftl".into()), all: false, markdown: None })
    );
    let pages = |name: Option<&str>, directory: Option<&str>| {
        Command::Schemes(SchemesArgs {
            name: name.map(str::to_owned),
            all: false,
            markdown: Some(directory.map(Into::into)),
        })
    };
    assert_eq!(command("schemes dftl --markdown"), pages(Some("dftl"), None));
    assert_eq!(command("schemes --markdown target/schemes"), pages(None, Some("target/schemes")));
    assert_eq!(command("devices"), Command::Devices(NameArgs { name: None }));
    for line in ["trace info a", "trace head a -n 3", "trace convert a b --to spc", "trace generate zipf b --to msr"] {
        assert!(matches!(command(line), Command::Trace(_)), "{line}");
    }
}

#[test]
fn what_to_check() {
    let defaults = CheckArgs {
        scheme: "all".into(),
        seeds: None,
        faults: None,
        images: false,
        server: false,
        fail_fast: false,
        cuts: None,
        nested: None,
        buffer: None,
        set: vec![],
        operations: None,
        replay: None,
        shrink: false,
        threads: None,
    };
    assert_eq!(command("check"), Command::Check(Box::new(defaults.clone())));
    let replay = Some("7:123.2.1/storm".parse().unwrap());
    let expected = CheckArgs { scheme: "dftl".into(), replay, ..defaults.clone() };
    assert_eq!(command("check --scheme dftl --replay 7:123.2.1/storm"), Command::Check(Box::new(expected)));
    let expected =
        CheckArgs { cuts: Some(Cuts::All), seeds: Some(Seeds::These(0, 3)), threads: Some(2), ..defaults.clone() };
    assert_eq!(command("check --cuts all --seeds 3 --threads 2"), Command::Check(Box::new(expected)));
    let faults = Some("cut,flight".parse().unwrap());
    let expected = CheckArgs { seeds: Some(Seeds::Fresh(4)), faults, fail_fast: true, ..defaults.clone() };
    assert_eq!(command("check --seeds fresh:4 --faults cut,flight --fail-fast"), Command::Check(Box::new(expected)));
    let expected = CheckArgs { seeds: Some(Seeds::These(32, 64)), ..defaults.clone() };
    assert_eq!(command("check --seeds 32..64"), Command::Check(Box::new(expected)));
    let expected = CheckArgs { buffer: Some("fab".into()), ..defaults.clone() };
    assert_eq!(command("check --buffer fab"), Command::Check(Box::new(expected)));
    let set = vec![("ecc".to_owned(), "differentiated".to_owned()), ("ecc-n".to_owned(), "2".to_owned())];
    assert_eq!(
        command("check --set ecc=differentiated --set ecc-n=2"),
        Command::Check(Box::new(CheckArgs { set, ..defaults }))
    );
}

#[test]
fn which_parts_of_a_check() {
    for (line, parts) in [
        ("check", [true, true, true]),
        ("check --scheme dftl --seeds 3 --operations 9 --threads 1 --fail-fast", [true, true, true]),
        ("check --images", [false, true, false]),
        ("check --server --images", [false, true, true]),
        ("check --cuts 80000", [true, false, false]),
        ("check --nested 100", [true, false, false]),
        ("check --faults cut", [true, false, false]),
        ("check --buffer fab", [true, false, false]),
        ("check --scheme dftl --replay 0:1", [true, false, false]),
    ] {
        let Command::Check(args) = command(line) else { panic!("{line} is another command") };
        assert_eq!(args.parts(), parts, "{line}");
    }
}

#[test]
fn fresh_seeds_follow_from_the_date() {
    let at = |seconds| std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
    let seeds: Seeds = "fresh:3".parse().unwrap();
    assert_eq!((seeds.range(at(7)), seeds.range(at(8))), (7_000..7_003, 8_000..8_003));
    assert_eq!("5..9".parse::<Seeds>().unwrap().range(at(7)), 5..9);
    for wrong in ["9..5", "5..5", "fresh:0", "fresh:", "0", "..", "a..b"] {
        wrong.parse::<Seeds>().unwrap_err();
    }
}

#[test]
fn what_to_reproduce() {
    let expected = ReproduceArgs {
        paper: Some("lsftl/table-1".into()),
        traces: Some("traces".into()),
        experiments: None,
        list: false,
        summary: false,
        quick: true,
        unvaried: false,
        requests: None,
        threads: Some(2),
        json: Some("a".into()),
        csv: None,
        html: None,
    };
    let line = "reproduce lsftl/table-1 --traces traces --quick --threads 2 --json a";
    assert_eq!(command(line), Command::Reproduce(expected));
    assert!(message("reproduce --quick --requests 5").contains("cannot be used with"));
    assert!(message("reproduce --quick --unvaried").contains("cannot be used with"));
}

#[test]
fn alone_it_prints_help() {
    for line in ["", "--help", "compare --help", "trace", "trace convert --help"] {
        let text = printed(line);
        assert!(text.contains("Usage:"), "{line}");
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{line}");
    }
    assert!(printed("--version").starts_with("ftlab "));
    assert!(printed("").contains("ftlab compare"));
}

#[test]
fn errors_are_one_line_that_names_the_fault() {
    for (line, expected) in [
        ("compare --chache 64KiB", "unexpected argument '--chache' found; a similar argument exists: '--cache'"),
        ("compare --cache 64KB", "has a unit that some read as decimal and some as binary; write a size such as"),
        ("compare --fill stedy", "invalid value 'stedy' for '--fill"),
        ("compare --fill stedy", "'steady'"),
        ("compare --host closed:0", "the queue depth is a number from 1 to 65536"),
        ("compare --time-scale 0", "a factor is a number above 0"),
        ("compare --limit 0", "it must be at least 1"),
        ("compare --until mean-erases=0", "mean-erases is a number above 0"),
        ("compare --until mean-erases=inf", "mean-erases is a number above 0"),
        ("compare --until forever", "write mean-erases=N, as in mean-erases=20, or end-of-life"),
        ("compare --repeat 0", "0 is not in 1..=1000"),
        ("compare --seed x", "a seed is a whole number from 0 to 2^64 - 1"),
        ("check --threads 0", "a number of threads is 1 to 1024"),
        ("compare --set dftl=3", "write SCHEME.PARAM=VALUE, as in dftl.gc-low=4"),
        ("compare --schemes page,,dftl", "a name is missing"),
        ("compare a.spc --workload zipf", "cannot be used with"),
        ("compare --buffer bprlu:1MiB", "unknown write buffer \"bprlu\"; did you mean \"bplru\"?"),
        ("compare --buffer lru:1MiB", "unknown write buffer \"lru\"; known are fab, bplru, cflru, none"),
        ("compare --buffer fab", "the size is missing; write POLICY:SIZE, as in fab:1MiB"),
        ("compare --buffer fab:", "for '--buffer <POLICY:SIZE>': the size is missing"),
        ("compare --buffer fab:1MB", "has a unit that some read as decimal"),
        ("compare --buffer none:1MiB", "none has no size"),
        ("compair", "unrecognized subcommand 'compair'; a similar subcommand exists: 'compare'"),
        ("check --replay 7", "must be SEED:OPERATION"),
        ("check --cuts 0", "it must be at least 1"),
        ("run", "FILE.toml"),
    ] {
        let message = message(line);
        assert!(message.contains(expected), "{line}: {message}");
        assert!(!message.contains('\n') && !message.contains("Usage") && !message.starts_with("error"), "{message}");
    }
}

#[test]
fn codes_cycles_and_times_of_reliability() {
    let Command::Reliability(args) = command(
        "reliability --code bch:t=8,data=512 --code ldpc:parity=192,data=4096 --pe-cycles 0,3k \
         --retention 0,12h,30d,2y --reads 1M --mode low-cost --profile paper",
    ) else {
        panic!("another command");
    };
    let codes: Vec<String> = args.code.iter().map(ToString::to_string).collect();
    assert_eq!(codes, ["bch:t=8,data=512", "ldpc:parity=192,data=4096"]);
    assert_eq!((args.pe_cycles, args.reads), (vec![0, 3000], 1_000_000));
    let shown: Vec<String> = args.retention.iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["0", "12h", "30d", "2y"]);
    assert_eq!(args.retention[3], Retention(17_520.0));
    assert_eq!((args.mode, args.profile), (ProgramMode::LowCost, LatencyProfile::Paper));
    let told = "give a time with h, d or y, such as 12h, 30d or 1y, or 0";
    assert!(message("reliability --retention 5").contains(told));
    assert!(message("reliability --retention=-1d").contains(told));
    assert!(message("reliability --code bch:t=8").contains("bch needs t= and data="));
    assert!(message("reliability --pe-cycles 5G").contains("5000000000 cycles are more"));
    assert!(message("reliability --frames 3").contains("--derive-latencies"));
}

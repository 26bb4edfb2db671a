//! `ftlab compare` and `ftlab run` as a user runs them: reports, determinism, and every kind of workload.

use crate::common::{Directory, spc};
use ftlab_cli::args::{Command, Invocation, parse};
use ftlab_cli::commands::experiment::{Limits, run};
use ftlab_cli::session::Session;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

fn json(path: impl AsRef<Path>) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// The report without what no two runs have in common.
fn timeless(mut report: Value) -> Value {
    for result in report["results"].as_array_mut().unwrap() {
        let result = result.as_object_mut().unwrap();
        result.remove("wall_seconds");
        result.remove("fill_wall_seconds");
        if let Some(metrics) = result.get_mut("repeats").and_then(|repeats| repeats["metrics"].as_object_mut()) {
            metrics.remove("wall_seconds");
        }
    }
    report
}

#[test]
fn a_trace_gives_a_table_and_all_files() {
    let directory = Directory::new();
    directory.file("t.spc", spc(4000));
    let ran = directory
        .ftlab("compare t.spc --json a.json --csv a.csv --parquet a.parquet --html a.html --series 100ms --verbose")
        .succeeded();
    for expected in ["t.spc: 4,000 requests", "recognised by content", "--partial rmw", "seed 1", "dftl-e", "* best"] {
        assert!(ran.stdout.contains(expected), "{expected}: {}", ran.stdout);
    }
    assert_eq!(directory.names(), ["a.csv", "a.html", "a.json", "a.parquet", "t.spc"]);
    let report = json(directory.path().join("a.json"));
    assert_eq!(report["workload"]["name"], "t.spc");
    assert_eq!(report["workload"]["reads"], 1000);
    assert_eq!(report["workload"]["sha256"].as_str().unwrap().len(), 64);
    assert_eq!(report["device"]["name"], "agrawal08");
    assert_eq!(report["device"]["capacity"], 512u64 << 20);
    let results = report["results"].as_array().unwrap();
    assert_eq!(results.len(), 3);
    for result in results {
        assert_eq!(result["ended"], "complete");
        for key in ["params", "wall_seconds", "sram_bytes", "response_us", "service_us", "flash", "by_cause", "waf"] {
            assert!(!result[key].is_null(), "{key}");
        }
        assert!(!result["series"].as_array().unwrap().is_empty());
        assert_eq!(result["cache"].is_null(), result["scheme"] == "page", "absent where there is none");
    }
    assert_eq!(fs::read_to_string(directory.path().join("a.csv")).unwrap().lines().count(), 4);
    assert!(fs::read(directory.path().join("a.parquet")).unwrap().starts_with(b"PAR1"));
    assert!(fs::read_to_string(directory.path().join("a.html")).unwrap().contains("<svg"));
}

#[test]
fn write_buffers_stand_in_front_of_every_scheme() {
    let directory = Directory::new();
    let line = "compare --workload zipf:reads=0.3,requests=3k,span=8MiB --device agrawal08:capacity=128MiB --schemes \
                page,dftl --buffer none,bplru:1MiB,cflru:512KiB --set cflru.window=0.25 --json a.json";
    let text = directory.ftlab(line).succeeded().stdout;
    for label in ["\npage ", "\npage bplru", "\npage cflru", "\ndftl ", "\ndftl bplru", "\ndftl cflru"] {
        assert!(text.contains(label), "{label}: {text}");
    }
    let report = json(directory.path().join("a.json"));
    let [plain, bplru, cflru] = &report["results"].as_array().unwrap()[3..] else { panic!("{report}") };
    assert!(plain["params"].get("buffer").is_none() && plain["extra"].get("write_buffer_writes").is_none());
    for (result, policy, bytes) in [(bplru, "bplru", 1u64 << 20), (cflru, "cflru", 512 << 10)] {
        assert_eq!((&result["params"]["buffer"], &result["params"]["buffer-bytes"]), (&policy.into(), &bytes.into()));
        assert_eq!(result["sram"]["write buffer data"], bytes);
        assert!(result["extra"]["write_buffer_write_hit_ratio"].as_f64().unwrap() > 0.1, "{result}");
        assert!(result["extra"]["write_buffer_drain_pages"].as_u64().unwrap() > 0, "{result}");
        assert!(result["sram_bytes"].as_u64() > plain["sram_bytes"].as_u64());
    }
    assert_eq!(cflru["params"]["buffer-window"], 0.25);
    assert!(cflru["waf"].as_f64() < plain["waf"].as_f64());
    assert_eq!(bplru["extra"]["write_buffer_block_request_share"], 1.0, "every page is live");
}

#[test]
fn one_seed_gives_one_report_whatever_the_threads() {
    let directory = Directory::new();
    directory.file("t.spc", spc(3000));
    let report = |name: &str, flags: &str| {
        directory.ftlab(&format!("compare {flags} --schemes page,dftl --gc greedy,random --json {name}")).succeeded();
        timeless(json(directory.path().join(name)))
    };
    for workload in [
        "t.spc",
        "--workload zipf:reads=0.2,requests=3k,span=48MiB --device agrawal08:capacity=128MiB",
        "--flow zipf:reads=1,requests=2k@closed:4 --flow uniform:reads=0,requests=1k@closed:8 --scheduler fcfs,suspend \
         --device agrawal08:capacity=128MiB,suspend_program_us=20,suspend_erase_us=50",
    ] {
        for repeat in ["", "--repeat 3"] {
            let flags = format!("{workload} {repeat}");
            let one = report("1.json", &format!("{flags} --threads 1"));
            assert_eq!(one, report("2.json", &format!("{flags} --threads 1")));
            assert_eq!(one, report("3.json", &format!("{flags} --threads 4")));
        }
    }
    let zipf = "--workload zipf:requests=3k,span=48MiB --device agrawal08:capacity=128MiB";
    assert_ne!(report("1.json", zipf)["results"], report("2.json", &format!("{zipf} --seed 2"))["results"]);
}

/// What broke: the warm-up was left out of a flow's mean beside the others, and was part of its mean alone.
#[test]
fn a_flow_alone_is_measured_over_the_same_requests_as_beside_the_others() {
    // Reads of 64 KiB until the warm-up ends, then of 4 KiB. The second flow's are half as many, and no two of those
    // that are measured are under way together.
    let directory = Directory::new();
    let trace = |each_ms: usize, shift_ms: usize, long: usize| -> String {
        let line = |i: usize| {
            let ms = each_ms * i + if i > 0 { shift_ms } else { 0 };
            format!("0,{},{},r,{}.{:03}\n", 8 * i, if i < long { 65536 } else { 4096 }, ms / 1000, ms % 1000)
        };
        (0..2 * long).map(line).collect()
    };
    directory.file("a.spc", trace(10, 0, 100));
    directory.file("b.spc", trace(20, 5, 50));
    for scheduler in ["fcfs", "read-first"] {
        let ran = directory
            .ftlab(&format!(
                "compare --schemes page --scheduler {scheduler} --device agrawal08:capacity=64MiB,channels=1 --flow \
                 a.spc --flow b.spc --warmup 150 --json f.json"
            ))
            .succeeded();
        assert!(ran.stdout.contains("Alone, too,"), "{}", ran.stdout);
        let flows = &json(directory.path().join("f.json"))["results"][0]["flows"];
        assert_eq!([&flows[0]["warmup"], &flows[1]["warmup"]], [100, 50]);
        assert_eq!([&flows[0]["requests"], &flows[1]["requests"]], [100, 50]);
        for flow in [&flows[0], &flows[1]] {
            assert_eq!((&flow["alone_mean_us"], &flow["slowdown"]), (&flow["response_us"]["mean"], &1.0.into()));
        }
    }
}

#[test]
fn flows_share_a_device_and_are_served_alone_too() {
    let directory = Directory::new();
    let run = directory
        .ftlab(
            "compare --schemes page --scheduler fcfs,in-order,read-first --json f.json \
             --device agrawal08:capacity=128MiB --flow zipf:reads=1,requests=4k@closed:2 \
             --flow uniform:reads=0,requests=4k,arrival=poisson,rate=3000",
        )
        .succeeded();
    assert!(run.stdout.contains("flows that shared the device"), "{}", run.stdout);
    let report = json(directory.path().join("f.json"));
    let results = report["results"].as_array().unwrap();
    let schedulers: Vec<_> = results.iter().map(|result| result["scheduler"].as_str().unwrap_or("fcfs")).collect();
    assert_eq!(schedulers, ["fcfs", "in-order", "read-first"]);
    let slowdown = |result: usize, flow: usize| results[result]["flows"][flow]["slowdown"].as_f64().unwrap();
    for (number, result) in results.iter().enumerate() {
        let flows = result["flows"].as_array().unwrap();
        assert_eq!(flows.iter().map(|flow| flow["host"].as_str().unwrap()).collect::<Vec<_>>(), ["closed:2", "open"]);
        assert_eq!(flows[0]["name"], "zipf:reads=1,requests=4k");
        assert_eq!([&flows[0]["requests"], &flows[1]["requests"]], [4000, 4000]);
        let means = |flow: usize, key: &str| flows[flow]["response_us"][key].as_f64().unwrap();
        assert_eq!(slowdown(number, 0), means(0, "mean") / flows[0]["alone_mean_us"].as_f64().unwrap());
        assert!(slowdown(number, 0) > 1.0 && slowdown(number, 1) > 1.0, "{flows:?}");
    }
    assert!(slowdown(2, 0) < slowdown(1, 0), "reads that go first are slowed down less");
    // As many requests as both have, and no share of time above all of it.
    assert_eq!(report["workload"]["requests"], 8000);
    assert!(results[1]["extra"]["die_busy_share"].as_f64().unwrap() <= 1.0);
    assert!(results[0]["extra"].get("die_busy_share").is_none());
}

#[test]
fn idle_devices_collect_ahead_of_need() {
    let directory = Directory::new();
    let run = |name: &str, flags: &str| {
        let line = "compare --schemes page,fast --rhythm spread --device \
                    agrawal08:capacity=64MiB,spare=20%,channels=1,chips=1,dies=2 --workload \
                    uniform:reads=0,requests=30k,arrival=poisson,rate=200 --json";
        directory.ftlab(&format!("{line} {name} {flags}")).succeeded();
        json(directory.path().join(name))
    };
    let steps = |report: &Value, scheme: usize| report["results"][scheme]["extra"]["idle_steps"].as_u64();
    for scheduler in ["fcfs", "in-order"] {
        let plain = run("plain.json", &format!("--scheduler {scheduler}"));
        let idle = run("idle.json", &format!("--scheduler {scheduler} --idle-gc 1ms"));
        for scheme in 0..2 {
            assert_eq!(steps(&plain, scheme), None);
            assert!(steps(&idle, scheme).unwrap() > 100, "{scheduler}: {idle}");
            assert_eq!(idle["results"][scheme]["ended"], "complete");
        }
    }
}

/// What broke: no report said that `--idle-gc`, `--until`, `--warmup` or a single scheduler had been asked for.
#[test]
fn a_report_says_what_it_takes_to_repeat_it() {
    let directory = Directory::new();
    let device = "--device agrawal08:capacity=64MiB,suspend_program_us=20,suspend_erase_us=50";
    let timed = "--workload uniform:reads=50%,requests=2k,arrival=poisson,rate=500";
    for (flags, sentences, run) in [
        (
            format!("{timed} {device} --warmup 500 --limit 900 --time-scale 2 --idle-gc 1500us --scheduler suspend"),
            &[
                "assumed: The first 500 requests are served and not measured (--warmup 500).",
                "at the workload's times, multiplied by 2 (--time-scale 2) (--host open).",
                "nothing has been under way for 1500us (--idle-gc 1500us).",
                "assumed: Flash commands queue, reads that the host waits for first, also before",
                "(--scheduler suspend).",
            ][..],
            r#"{"fill":"sequential","host":"open","idle_gc_us":1500.0,"limit":900,"partial":"rmw","time_scale":2.0,
                "warmup":500}"#,
        ),
        (
            "--workload uniform:requests=9k --device agrawal08:capacity=64MiB --until mean-erases=0.5 --fill random \
             --partial ignore"
                .to_owned(),
            &["until blocks had been erased 0.5 times on average (--until mean-erases=0.5)."],
            r#"{"fill":"random","host":"closed:32","partial":"ignore","until":"mean-erases=0.5"}"#,
        ),
        (
            format!(
                "--flow zipf:requests=1k@closed:4 --flow {} --time-scale 3",
                timed.trim_start_matches("--workload ")
            ),
            &["rate=500) arrive at its own times, multiplied by 3 (--time-scale 3)."],
            r#"{"fill":"sequential","partial":"rmw","time_scale":3.0}"#,
        ),
    ] {
        let ran = directory.ftlab(&format!("compare --schemes page {flags} --json a.json")).succeeded();
        let text = ran.stdout.replace("\n  ", " ");
        for sentence in sentences {
            assert!(text.contains(sentence), "{sentence}: {text}");
        }
        let expected: Value = serde_json::from_str(run).unwrap();
        assert_eq!(json(directory.path().join("a.json"))["run"], expected, "{flags}");
    }
    // Of several schedulers each run says its own.
    let flags = format!("{timed} {device} --schemes page --scheduler in-order,suspend");
    let text = directory.ftlab(&format!("compare {flags}")).succeeded().stdout;
    assert!(text.contains("page suspend") && !text.contains("commands queue"), "{text}");
}

#[test]
fn a_policy_about_modes_that_make_no_difference_is_told() {
    let directory = Directory::new();
    let told = |device: &str| {
        let line = format!(
            "compare --schemes page --set page.ecc=differentiated --workload uniform:requests=1k --device {device}"
        );
        directory.ftlab(&line).succeeded().stdout.contains("in every mode, so no policy about them (ecc, of page)")
    };
    assert!(told("agrawal08:capacity=64MiB"));
    assert!(!told("ecc-paper:capacity=64MiB,spare=40%"));
}

/// To ask whether it has times, a flow was opened again: a pipe was empty by then, and a named one waited for good.
#[cfg(unix)]
#[test]
fn a_flow_may_come_through_a_pipe() {
    let directory = Directory::new();
    directory.file("t.spc", spc(200).replace("\n1,", "\n0,"));
    let line = "\"$FTLAB\" compare --flow /dev/stdin --flow uniform:requests=10 --schemes page";
    let mut command = std::process::Command::new("sh");
    command.args(["-c", &format!("cat t.spc | {line}")]).env("FTLAB", env!("CARGO_BIN_EXE_ftlab"));
    let output = command.current_dir(directory.path()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && text.contains("Requests of flow 1 (stdin) arrive at its own times"), "{text}");
}

#[test]
fn a_volume_that_is_run_alone_is_named() {
    let directory = Directory::new();
    directory.file("two.csv", "1000,hosta,4,Write,0,512,1\n1001,hosta,1,Write,0,512,1\n");
    for (asked, named) in [("1", "number 1, hosta.1,"), ("hosta.1", "hosta.1")] {
        let line = format!("compare two.csv --schemes page --volumes select={asked}");
        let text = directory.ftlab(&line).succeeded().stdout;
        assert!(text.contains(&format!("Of 2 volumes only {named} was run.")), "{text}");
    }
}

#[test]
fn flows_that_outrun_the_device_are_told_from_others() {
    let directory = Directory::new();
    let run = |rate: u32| {
        let line = format!(
            "compare --schemes page --device agrawal08:capacity=64MiB,channels=1,chips=1 --flow zipf:reads=1,\
             requests=2k@closed:2 --flow uniform:reads=0,requests=4k,arrival=poisson,rate={rate} --json f.json"
        );
        let text = directory.ftlab(&line).succeeded().stdout.replace('\n', " ");
        let flows = json(directory.path().join("f.json"))["results"][0]["flows"].clone();
        (text.contains("page does not keep up with flow 2 (uniform:reads=0"), flows)
    };
    let (told, flows) = run(20_000);
    assert!(told && flows[1]["overloaded"] == true && flows[1]["backlog_seconds"].as_f64() > Some(0.1), "{flows}");
    assert!(flows[0]["backlog_seconds"].is_null(), "{flows}");
    let (told, flows) = run(100);
    assert!(!told && flows[1]["overloaded"].is_null() && flows[1]["backlog_seconds"].as_f64() < Some(0.1), "{flows}");
}

#[test]
fn a_long_life_is_announced() {
    let directory = Directory::new();
    let ran = directory.interrupted(
        "compare --schemes page --workload uniform:requests=1k --device agrawal08:capacity=64MiB,endurance=1000000 \
         --until end-of-life",
    );
    let expected = "blocks are erased up to 1,000,000 times each: up to 1.9e10 page programs of every run";
    assert!(ran.stderr.starts_with("note: ") && ran.stderr.contains(expected), "{}", ran.stderr);
}

#[test]
fn streamed_and_in_memory_runs_are_equal() {
    let directory = Directory::new();
    let trace = directory.file("t.spc", spc(20_000));
    let trace = trace.display();
    let report = |line: &str, requests_in_memory: u64| {
        let Ok(Invocation::Command(Command::Compare(args))) = parse(line.split_whitespace()) else { panic!("{line}") };
        let stop = AtomicBool::new(false);
        let session = Session { limits: Limits { requests_in_memory }, ..Session::new(&stop) };
        let report = run(&args, &session).unwrap().unwrap();
        timeless(serde_json::to_value(report).unwrap())
    };
    for line in [
        format!("ftlab compare {trace} --threads 2 --warmup 1k"),
        format!("ftlab compare {trace} --threads 2 --limit 5k --volumes select=1 --schemes page"),
        format!("ftlab compare {trace} --device agrawal08:capacity=128MiB --out-of-range fold --repeat 2"),
        "ftlab compare --workload uniform:requests=20k --device agrawal08:capacity=128MiB --repeat 2".to_owned(),
        format!("ftlab compare {trace} --threads 2 --fill trace --limit 9k --warmup 1k"),
    ] {
        assert_eq!(report(&line, 1 << 20), report(&line, 100), "{line}");
    }
}

/// What the host did before counting started is the harness's to know, and is the same for every scheme.
#[test]
fn every_report_says_how_much_of_the_device_is_live_at_the_start() {
    let directory = Directory::new();
    // Pages 0 to 3 written, 1 and 9 read, 1, 2 and 100 written.
    directory.file(
        "t.spc",
        "0,0,16384,w,0.0\n0,8,4096,r,0.1\n0,72,4096,r,0.2\n0,8,4096,w,0.3\n0,16,4096,w,0.4\n0,800,4096,w,0.5\n",
    );
    let pages = (64 << 20) / 4096;
    let shares = |flags: &str, live: u64, sentence: &str| {
        let line = format!(
            "compare t.spc --schemes page,dftl,fast --device agrawal08:capacity=64MiB,spare=20% --json a.json \
             --html a.html {flags}"
        );
        let text = directory.ftlab(&line).succeeded().stdout.replace("\n  ", " ");
        assert!(text.contains(sentence), "{sentence}: {text}");
        assert!(fs::read_to_string(directory.path().join("a.html")).unwrap().contains(sentence), "{sentence}");
        let report = json(directory.path().join("a.json"));
        for result in report["results"].as_array().unwrap() {
            assert_eq!(result["extra"]["live_share"], live as f64 / f64::from(pages), "{flags}");
        }
        report
    };
    shares("", pages as u64, "All of the logical pages held data when counting started.");
    shares("--fill none", 0, "None of the logical pages held data");
    shares("--fill none --warmup 1", 4, "Less than 0.1 % of the logical pages held data");
    let report = shares("--fill trace", 6, "Every request was served once before measuring, reads too as writes");
    assert_eq!((&report["run"]["fill"], &report["workload"]["requests"]), (&"trace".into(), &6.into()));
    for result in report["results"].as_array().unwrap() {
        assert_eq!(result["by_cause"]["host"]["programs"], 7, "those of the second time");
        assert_eq!(result["extra"].get("unmapped_page_reads"), None, "what is read was written");
    }
    // The limit, and the warm-up before it, are the fill's too.
    shares("--fill trace --limit 3", 5, "--fill trace");
    shares("--fill trace --limit 2 --warmup 1", 5, "--fill trace");
    directory.file("r.spc", "0,0,4096,r,0.0\n0,8,4096,r,0.1\n");
    let line = "compare r.spc --schemes page --fill trace --device agrawal08:capacity=64MiB";
    let text = directory.ftlab(line).succeeded().stdout.replace("\n  ", " ");
    assert!(text.contains("The workload writes nothing: all that the device held came from reads."), "{text}");
}

/// What broke: a script took it for a measurement, for the exit code was 0.
#[test]
fn a_comparison_that_measured_nothing_fails() {
    let directory = Directory::new();
    let ended = directory.ftlab("compare --workload zipf:requests=200,span=16MiB --schemes page,bast --warmup 200");
    assert_eq!(ended.code, Some(1), "{}", ended.stdout);
    assert!(ended.stdout.contains("Nothing was measured."), "{}", ended.stdout);
    directory.ftlab("compare --workload zipf:requests=201,span=16MiB --schemes page,bast --warmup 200").succeeded();
}

/// On a full device `last` has log blocks that begin in the middle of a logical block, and `fast` has not. Page maps
/// have no places.
#[test]
fn padding_is_said_where_there_is_some() {
    let directory = Directory::new();
    let text = |order: &str| {
        let line = format!(
            "compare uniform:requests=20k,size=8KiB,span=48MiB --schemes page,fast,last --json a.json \
             --device agrawal08:capacity=64MiB,order={order}"
        );
        directory.ftlab(&line).succeeded().stdout.replace("\n  ", " ")
    };
    let strict = text("strict");
    let report = json(directory.path().join("a.json"));
    let [page, fast, last] = report["results"].as_array().unwrap().as_slice() else { panic!("{report}") };
    assert_eq!((page["extra"].get("dummy_pages"), &fast["extra"]["dummy_pages"]), (None, &0.into()));
    let dummies = last["extra"]["dummy_pages"].as_u64().unwrap();
    assert!(dummies > 0);
    let said = strict.split("assumed: ").find(|sentence| sentence.contains("dummy pages")).unwrap();
    assert!(said.starts_with("agrawal08 takes the pages of a block in order."), "{said}");
    assert!(said.contains("(--device agrawal08:order=any needs none)"), "{said}");
    assert!(said.replace(',', "").contains(&format!("any more: last {dummies} dummy pages")), "{said}");
    assert!(!text("any").contains("dummy pages"));
    let any = json(directory.path().join("a.json"));
    assert_eq!(any["results"][2]["extra"]["dummy_pages"], 0);
    let partial = |result: &Value| result["merges"]["partial"].as_u64().unwrap();
    assert!(partial(&any["results"][2]) > 2 * partial(last), "padding keeps partial merges out");
}

#[test]
fn a_raised_flag_ends_before_the_first_run() {
    let Ok(Invocation::Command(Command::Compare(args))) = parse(["ftlab", "compare"]) else { panic!() };
    assert_eq!(run(&args, &Session::new(&AtomicBool::new(true))).unwrap(), None);
}

/// What broke: a fill that had ended after 60 rounds was said to have ended because write amplification was steady.
#[test]
fn a_fill_that_never_was_steady_says_so() {
    let directory = Directory::new();
    // Blocks are so large that some rounds collect and others do not.
    let report = |schemes: &str, pages: u32| {
        let ran = directory.ftlab(&format!(
            "compare --workload uniform:reads=0,requests=1k --device agrawal08:capacity=64MiB,channels=1,chips=1,\
             dies=1,spare=60%,pages_per_block={pages} --schemes {schemes} --fill steady --json a.json"
        ));
        ran.succeeded();
        let report = json(directory.path().join("a.json"));
        let assumed = report["assumptions"].as_array().unwrap().iter().map(|sentence| sentence.as_str().unwrap());
        let said =
            assumed.filter(|sentence| sentence.contains("not steady yet")).map(str::to_owned).collect::<Vec<_>>();
        let rounds = |result: &Value| result["extra"]["unsteady_fill_rounds"].clone();
        (said, report["results"].as_array().unwrap().iter().map(rounds).collect::<Vec<_>>())
    };
    let sentence = "After 60 rounds write amplification was not steady yet: page.";
    assert_eq!(report("page,null", 4096), (vec![sentence.to_owned()], vec![60.into(), Value::Null]));
    assert_eq!(report("page,null", 64), (vec![], vec![Value::Null, Value::Null]));
}

#[cfg(unix)]
#[test]
fn a_steady_fill_can_be_interrupted() {
    let directory = Directory::new();
    let ran = directory.interrupted(
        "compare --workload uniform:requests=1k --device agrawal08:capacity=16GiB --fill steady --schemes page,dftl \
         --json a.json",
    );
    assert!(ran.stdout.contains("! page ended early: interrupted"), "{}", ran.stdout);
    assert!(ran.stdout.contains("No run served its whole workload"), "{}", ran.stdout);
    assert!(!ran.stdout.contains("best of its column"), "{}", ran.stdout);
    assert_eq!(json(directory.path().join("a.json"))["results"][0]["ended"], "interrupted");
    assert_eq!(directory.names(), ["a.json"]);
}

#[test]
fn lists_cross_and_settings_reach_the_schemes() {
    let directory = Directory::new();
    directory.file("t.spc", spc(1000));
    let line =
        "compare t.spc --schemes page,dftl --cache 8KiB,16KiB --gc greedy,fifo --set dftl.gc-low=4 --json a.json";
    let ran = directory.ftlab(line).succeeded();
    assert!(ran.stdout.contains("dftl cache 16 KiB fifo"), "{}", ran.stdout);
    let report = json(directory.path().join("a.json"));
    let results = report["results"].as_array().unwrap();
    assert_eq!(results.len(), 6);
    assert_eq!(results[5]["params"]["cache-bytes"], 16384);
    assert_eq!(results[5]["params"]["gc"], "fifo");
    assert_eq!(results[5]["params"]["gc-low"], 4);
}

#[test]
fn a_cache_that_nobody_sized_is_reported_as_it_is() {
    let directory = Directory::new();
    directory.file("t.spc", spc(1000));
    directory.ftlab("compare t.spc --schemes dftl --json unset.json").succeeded();
    let unset = json(directory.path().join("unset.json"));
    let bytes = unset["results"][0]["params"]["cache-bytes"].as_u64().unwrap();
    let sram = &unset["results"][0]["sram"];
    let parts = ["mapping cache", "translation directory"].map(|part| sram[part].as_u64().unwrap());
    assert_eq!(bytes, parts.iter().sum::<u64>());
    // Asked for, the same size gives the same run.
    directory.ftlab(&format!("compare t.spc --schemes dftl --cache {bytes} --json set.json")).succeeded();
    assert_eq!(timeless(unset)["results"], timeless(json(directory.path().join("set.json")))["results"]);
}

#[test]
fn requests_are_recorded_one_by_one() {
    let directory = Directory::new();
    directory.file("t.spc", spc(500));
    directory.ftlab("compare t.spc --schemes page,dftl --per-request r.csv").succeeded();
    assert_eq!(directory.names(), ["r-dftl.csv", "r-page.csv", "t.spc"]);
    assert_eq!(fs::read_to_string(directory.path().join("r-page.csv")).unwrap().lines().count(), 501);
    directory.ftlab("compare t.spc --schemes page --per-request warm.csv --warmup 120").succeeded();
    let warm = fs::read_to_string(directory.path().join("warm.csv")).unwrap();
    let all = fs::read_to_string(directory.path().join("r-page.csv")).unwrap();
    let measured: Vec<&str> = all.lines().skip(121).collect();
    assert_eq!(warm.lines().skip(1).collect::<Vec<_>>(), measured, "the warm-up is left out, nothing else differs");
    directory.ftlab("compare t.spc --schemes page --per-request one.csv.zst").succeeded();
    assert!(directory.names().contains(&"one.csv.zst".to_owned()));
}

/// What broke: two flows of one specification could not be told apart, neither line by line nor in the assumptions.
#[test]
fn requests_of_flows_are_told_apart() {
    let directory = Directory::new();
    let run = directory
        .ftlab(
            "compare --schemes page --device agrawal08:capacity=128MiB --flow zipf:requests=90@closed:2 --flow \
             zipf:requests=90@closed:2 --per-request r.csv",
        )
        .succeeded();
    let lines = fs::read_to_string(directory.path().join("r.csv")).unwrap();
    assert!(lines.starts_with("flow,arrival_us,"), "{lines}");
    let of = |flow: &str| lines.lines().filter(|line| line.starts_with(flow)).count();
    assert_eq!([of("1,"), of("2,")], [90, 90]);
    assert!(run.stdout.contains("2 requests of flow 2 (zipf:requests=90) are always under way."), "{}", run.stdout);
}

/// What broke: `workload` was of the last seed and all else of the first.
#[test]
fn repeated_runs_have_the_workload_of_the_first() {
    let directory = Directory::new();
    let workload = |repeat: u32| {
        let flags = "--workload zipf:reads=0.5,requests=1k,span=48MiB --device agrawal08:capacity=128MiB";
        let run = directory.ftlab(&format!("compare {flags} --schemes page --repeat {repeat} --json r.json"));
        run.succeeded();
        json(directory.path().join("r.json"))["workload"].clone()
    };
    assert_eq!(workload(3), workload(1));
}

#[test]
fn an_experiment_file_is_a_compare() {
    let directory = Directory::new();
    directory.file("t.spc", spc(1000));
    directory
        .file("e.toml", "trace = \"t.spc\"\nschemes = [\"page\"]\njson = \"run.json\"\n[set]\npage.gc = \"fifo\"\n");
    directory.ftlab("run e.toml").succeeded();
    directory.ftlab("compare t.spc --schemes page --set page.gc=fifo --json compare.json").succeeded();
    let read = |name| timeless(json(directory.path().join(name)));
    assert_eq!(read("run.json"), read("compare.json"));
}

#[test]
fn workloads_of_all_kinds_find_a_device() {
    let directory = Directory::new();
    directory.file("tiny.spc", "0,0,512,w,0.0\n0,8,512,r,0.1\n");
    directory.file("wide.spc", "0,0,4096,w,0.0\n0,400000000,4096,w,0.1\n");
    directory.file("base.spc", spc(2000));
    for (flags, expected) in [
        ("tiny.spc", "of 128 MiB"),
        ("wide.spc", "The addresses span 190.7 GiB; the 2 MiB of them"),
        ("wide.spc --out-of-range fold --device agrawal08:capacity=128MiB", "--out-of-range fold"),
        ("wide.spc --out-of-range scale --device agrawal08:capacity=128MiB", "--out-of-range scale"),
        ("--workload twin:financial2,requests=1k", "as in the twins' papers"),
        ("--workload uniform:requests=1k --fill none", "always under way (--host closed:32)"),
        (
            "--workload twin-of:base.spc,prefix=1k,requests=2k",
            "twin-of:base.spc,prefix=1k,requests=2k (rough): 2,000 requests",
        ),
        ("base.spc --warmup 1k --limit 500", "base.spc: 500 requests"),
        ("base.spc --volumes select=1 --host closed:4", "Of 2 volumes only number 1, asu 1, was run."),
    ] {
        let ran = directory.ftlab(&format!("compare {flags} --schemes page,dftl")).succeeded();
        let text = ran.stdout.replace("\n  ", " ");
        assert!(text.contains(expected), "{flags}: {expected}\n{text}");
    }
}

#[test]
fn a_full_device_is_a_result_and_no_error() {
    let directory = Directory::new();
    let device = "agrawal08:capacity=16MiB,channels=1,planes=1,spare=3%";
    let ran = directory.ftlab(&format!(
        "compare --workload uniform:requests=20k --device {device} --schemes page,dftl --json a.json --csv a.csv"
    ));
    // Either the scheme says at once that it cannot work there, or it runs to the end or until the device is full.
    if ran.code == Some(0) {
        let report = json(directory.path().join("a.json"));
        for result in report["results"].as_array().unwrap() {
            let ended = result["ended"].as_str().unwrap();
            assert!(ended == "complete" || ended.starts_with("device full"), "{ended}");
        }
    } else {
        assert!(ran.refused().contains("cannot be built on this device: spare"));
        assert!(directory.names().is_empty());
    }
}

#[test]
fn the_real_traces_run() {
    let traces = std::env::var_os("FTLAB_TRACES")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces"), PathBuf::from);
    let Ok(entries) = fs::read_dir(&traces) else {
        eprintln!("SKIPPED: no traces in {}; set FTLAB_TRACES to a directory of traces", traces.display());
        return;
    };
    let mut count = 0;
    for path in entries.map(|entry| entry.unwrap().path()).filter(|path| path.extension().is_some_and(|e| e == "zst")) {
        let directory = Directory::new();
        let trace = path.display();
        let ran =
            directory.ftlab(&format!("compare {trace} --schemes page,dftl,dftl-e --fill none --limit 1k")).succeeded();
        assert!(ran.stdout.contains("recognised by content"), "{}", ran.stdout);
        directory.ftlab(&format!("trace head {trace}")).succeeded();
        count += 1;
    }
    assert!(count > 0, "{} holds no .zst trace", traces.display());
}

/// Reads and writes of the true trace leave behind what its profile calls its footprint, whatever the scheme.
#[test]
fn a_real_trace_fills_the_device_with_what_it_touches() {
    let traces = std::env::var_os("FTLAB_TRACES")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces"), PathBuf::from);
    let trace = traces.join("financial1_prefix10k.spc.zst");
    if !trace.exists() {
        eprintln!("SKIPPED: there is no {}; set FTLAB_TRACES to a directory of traces", trace.display());
        return;
    }
    let directory = Directory::new();
    let trace = trace.display();
    directory.ftlab(&format!("trace info {trace} --json i.json")).succeeded();
    let footprint = json(directory.path().join("i.json"))["footprint_bytes"].as_u64().unwrap();
    let line = format!("compare {trace} --schemes page,dftl,fast,rose --fill trace --json a.json");
    directory.ftlab(&line).succeeded();
    let report = json(directory.path().join("a.json"));
    let capacity = report["device"]["capacity"].as_u64().unwrap();
    for result in report["results"].as_array().unwrap() {
        assert_eq!(result["ended"], "complete");
        assert_eq!(result["extra"]["live_share"], footprint as f64 / capacity as f64);
        assert_eq!(result["extra"].get("unmapped_page_reads"), None, "every page that is read was written");
    }
}

const WORN: &str = "--workload hotcold:hot=0.1,to=0.9,requests=20k,span=48MiB --device \
                    agrawal08:capacity=48MiB,spare=15%,channels=1,planes=1,endurance=12 --schemes page,dftl";

#[test]
fn a_workload_is_repeated_until_blocks_are_worn() {
    let directory = Directory::new();
    let result = |flags: &str| {
        let ran = directory.ftlab(&format!("compare {WORN} {flags} --json a.json --html a.html")).succeeded();
        assert!(ran.stdout.contains("erases of each block:") && ran.stdout.contains("iterations"), "{}", ran.stdout);
        let page = fs::read_to_string(directory.path().join("a.html")).unwrap();
        assert!(page.contains("How blocks were worn"));
        let lives = ran.stdout.replace('\n', " ").contains(" times as many as under ");
        assert_eq!(lives, flags.contains("end-of-life"), "{}", ran.stdout);
        assert!(!ran.stdout.contains("No run served its whole workload"), "{}", ran.stdout);
        json(directory.path().join("a.json"))["results"].as_array().unwrap().clone()
    };
    let off = result("--until mean-erases=6");
    let on = result(
        "--until mean-erases=6 --set page.wear-levelling=swap --set page.wear-threshold=2 \
         --set dftl.wear-levelling=static --set dftl.wear-threshold=3",
    );
    for (off, on) in off.iter().zip(&on) {
        for result in [off, on] {
            assert_eq!(result["ended"], "complete");
            assert!(result["erase_count"]["mean"].as_f64().unwrap() >= 6.0, "{result}");
            assert_eq!(result["until"]["iterations"].as_f64().unwrap().fract(), 0.0);
        }
        assert!(off["wear_levelling"].is_null() && off["by_cause"]["wear_levelling"].is_null());
        assert!(on["wear_levelling"]["percent_of_cleaning"].as_f64().unwrap() > 0.0, "{on}");
        let stdev = |result: &Value| result["erase_count"]["stdev"].as_f64().unwrap();
        assert!(stdev(on) < stdev(off), "{} {}", stdev(on), stdev(off));
    }
    // Worn evenly, a device takes more before it fails.
    let life = |flags: &str| {
        let results = result(&format!("--until end-of-life {flags}"));
        results
            .into_iter()
            .map(|result| {
                assert_eq!(result["ended"], "end of life");
                assert!(result["until"]["worn_out_blocks"].as_u64().unwrap() > 0);
                assert!(result["erase_count"]["max"].as_u64().unwrap() <= 12);
                result["until"]["host_bytes_written"].as_u64().unwrap()
            })
            .collect::<Vec<_>>()
    };
    let (short, long) = (
        life(""),
        life(
            "--set page.wear-levelling=static --set page.wear-threshold=3 --set dftl.wear-levelling=static \
              --set dftl.wear-threshold=3",
        ),
    );
    assert!(short.iter().zip(&long).all(|(short, long)| short < long), "{short:?} {long:?}");
}

#[test]
fn what_a_mount_takes_is_reported_if_asked() {
    let directory = Directory::new();
    let line = "compare --workload uniform:reads=0,requests=12k,span=16MiB --schemes page,dftl,rose --device \
                agrawal08:capacity=16MiB,channels=1,spare=30% --mount-cost";
    let table = directory.ftlab(&format!("{line} --json a.json")).succeeded().stdout;
    assert!(table.contains("mounting from flash"), "{table}");
    for result in json(directory.path().join("a.json"))["results"].as_array().unwrap() {
        let extra = |key: &str| result["extra"][key].as_f64().unwrap_or_else(|| panic!("{key} in {result}"));
        // Of every page that holds data at least, and of every page at most; some entries are checked once more.
        assert!((4096.0..=9000.0).contains(&extra("mount_oob_reads")), "{result}");
        assert!(
            extra("mount_state_seconds") > 0.0 && extra("mount_state_seconds") < extra("mount_seconds"),
            "{result}"
        );
    }
}

#[test]
fn a_report_says_whether_the_controller_keeps_barriers() {
    let directory = Directory::new();
    let mean = |barriers: &str| {
        let line =
            "compare --workload zipf:requests=5k --schemes lsftl-e --json a.json --device agrawal08:capacity=256MiB";
        directory.ftlab(&format!("{line}{barriers}")).succeeded();
        let report = json(directory.path().join("a.json"));
        assert_eq!(report["device"]["barriers"] == "on", !barriers.is_empty(), "{}", report["device"]);
        report["results"][0]["response_us"]["mean"].as_f64().unwrap()
    };
    assert!(mean(",barriers=on") > mean(""));
}

#[test]
fn a_device_at_an_age_has_reads_of_its_own_and_a_lifetime() {
    let directory = Directory::new();
    let result = |age: &str| {
        let line = format!(
            "compare --workload hotcold:reads=30%,requests=60k,span=64MiB --schemes page --set page.ecc=differentiated \
             --device mlc-mt29f64g08cbabx:capacity=64MiB{age} --json a.json"
        );
        let table = directory.ftlab(&line).succeeded().stdout;
        assert_eq!(table.contains("assumed: Latencies are derived for pages after"), !age.is_empty(), "{table}");
        let report = json(directory.path().join("a.json"));
        assert_eq!(report["device"]["latencies"].is_null(), age.is_empty());
        assert_eq!(report["device"]["retention"] == "1y", age.ends_with("retention=1y"));
        report["results"][0].clone()
    };
    let (own, new) = (result(""), result(",latencies=derived"));
    let worn = result(",latencies=derived,pe_cycles=3k,retention=1y");
    let read_us = |result: &Value| result["by_cause"]["host"]["us"].as_f64().unwrap();
    assert!(read_us(&new) < read_us(&worn), "{new} {worn}");
    assert!(own["lifetime"].is_null() && own["flash"]["erases"] == worn["flash"]["erases"], "{own} {worn}");
    let life = |result: &Value, key: &str| result["lifetime"][key].as_f64().unwrap();
    assert_eq!((life(&new, "retention_hours"), life(&worn, "retention_hours")), (0.0, 8760.0));
    // Of what a new chip bears, 3000 cycles are gone.
    let left = (life(&worn, "pe_cycles") - 3000.0) / life(&new, "pe_cycles");
    assert!(left > 0.0 && (life(&worn, "host_bytes") / life(&new, "host_bytes") - left).abs() < 1e-9, "{new} {worn}");
}

#[test]
fn requests_that_a_program_hands_over_run_as_those_of_a_file() {
    use ftlab_cli::session::{Given, Requests};
    use sim::workload::{Intake, Request, Source, WorkloadError};
    #[derive(Clone)]
    struct Kept(std::sync::Arc<(Vec<Request>, Intake)>, usize);
    impl Requests for Kept {
        fn source(&self) -> Box<dyn Source> {
            Box::new(self.clone())
        }
    }
    impl Source for Kept {
        fn fill(&mut self, batch: &mut Vec<Request>, limit: usize) -> Result<(), WorkloadError> {
            let rest = &self.0.0[self.1..];
            batch.extend_from_slice(&rest[..limit.min(rest.len())]);
            self.1 += limit.min(rest.len());
            Ok(())
        }
        fn intake(&self) -> &Intake {
            &self.0.1
        }
        fn timed(&self) -> bool {
            true
        }
    }
    let directory = Directory::new();
    let trace = directory.file("t.spc", spc(20_000));
    let stop = AtomicBool::new(false);
    let report = |line: &str, session: &Session<'_>| {
        let Ok(Invocation::Command(Command::Compare(args))) = parse(line.split_whitespace()) else { panic!("{line}") };
        timeless(serde_json::to_value(run(&args, session).unwrap().unwrap()).unwrap())
    };
    let line = format!("ftlab compare {}", trace.display());
    let Ok(Invocation::Command(Command::Compare(args))) = parse(line.split_whitespace()) else { panic!() };
    let (mut source, _) = ftlab_cli::commands::experiment::open(&args, &Session::new(&stop)).unwrap();
    let mut requests = Vec::new();
    while source.fill(&mut requests, 1000).is_ok_and(|()| requests.len() < 20_000) {}
    let kept = Kept(std::sync::Arc::new((requests, source.intake().clone())), 0);
    let given = [("mine".to_owned(), Given(std::sync::Arc::new(kept)))].into();
    let session = Session { given, ..Session::new(&stop) };
    for flags in ["--threads 2 --warmup 1k", "--fill trace --schemes page", "--until mean-erases=2 --schemes page"] {
        let file = report(&format!("ftlab compare {} {flags}", trace.display()), &Session::new(&stop));
        let own = report(&format!("ftlab compare mine {flags}"), &session);
        assert_eq!(own["results"], file["results"], "{flags}");
        assert_eq!(own["workload"]["name"], "mine");
    }
}

#[test]
fn a_scheme_that_is_no_paper_s_says_so_beside_its_figures() {
    let directory = Directory::new();
    let says = |schemes: &str| {
        let line = format!("compare --workload zipf:requests=200,span=16MiB --schemes {schemes}");
        directory
            .ftlab(&line)
            .succeeded()
            .stdout
            .contains("assumed: cftl: a reconstruction from summaries of its paper")
    };
    assert!(says("cftl,page") && !says("page,dftl"));
}

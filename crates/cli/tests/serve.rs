//! `ftlab serve` as users meet it: the process, its clients, its signals, its capture.

#[path = "support/served.rs"]
mod served;

use device::nbd::client::Client;
use device::nbd::protocol::{Command, FLAG_FUA, FLAG_NO_HOLE};
use flash::Rng;
use serde_json::Value;
use served::{Bench, until};
use sim::workload::format::OnError;
use sim::workload::{Operation, Request, Source};

const DEVICE: &str = "agrawal08:capacity=16MiB,page=4KiB,spare=25%,pages_per_block=16";

fn read(client: &mut Client, offset: u64, bytes: u32) -> Vec<u8> {
    let answer = client.ask(Command::Read, 0, offset, bytes, &[]).unwrap();
    assert_eq!(answer.error, 0);
    answer.data
}

fn write(client: &mut Client, flags: u16, offset: u64, data: &[u8]) {
    assert_eq!(client.ask(Command::Write, flags, offset, data.len() as u32, data).unwrap().error, 0);
}

fn json(path: &std::path::Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[test]
fn what_was_written_is_there_after_a_clean_stop() {
    for (signal, scheme) in [("-TERM", "page"), ("-INT", "dftl")] {
        let bench = Bench::new(scheme, DEVICE);
        let served = bench.serve("--stats 100ms --json report.json");
        assert!(served.said().starts_with("formatted in "), "{}", served.said());
        let mut client = served.client();
        assert_eq!(client.bytes(), 16 << 20);
        let data: Vec<u8> = (0..70_000u32).map(|i| (i / 3) as u8).collect();
        write(&mut client, 0, 12_345, &data);
        let mut served = served;
        until("a line that counts the write", || {
            let line = served.line();
            line.contains("writes 10/s") && line.contains("WAF") && line.contains("1 clients")
        });
        let (status, said, errors) = served.end(signal);
        assert!(status.success() && errors.is_empty(), "{status}: {said}{errors}");
        assert!(said.contains(scheme), "{said}");
        let report = json(&bench.file("report.json"));
        let result = &report["results"][0];
        assert_eq!(result["scheme"], scheme);
        assert_eq!(result["ended"], "complete");
        assert_eq!(report["workload"]["writes"], 1);
        assert_eq!(result["extra"]["mount"], "formatted");
        assert!(!bench.file("socket").exists());

        let served = bench.serve("");
        assert!(served.said().starts_with("mounted from its checkpoint in "), "{}", served.said());
        assert_eq!(read(&mut served.client(), 12_345, 70_000), data);
        served.stop();
    }
}

#[test]
fn what_was_flushed_survives_a_kill() {
    let bench = Bench::new("dftl", DEVICE);
    let served = bench.serve("");
    let mut client = served.client();
    for page in 0..64 {
        write(&mut client, 0, page * 8192, &[page as u8 + 1; 4096]);
    }
    assert_eq!(client.ask(Command::Flush, 0, 0, 0, &[]).unwrap().error, 0);
    write(&mut client, FLAG_FUA, 4096, b"durable by itself");
    served.kill();
    // The socket that the dead server left is in nobody's way.
    assert!(bench.file("socket").exists());
    let served = bench.serve("");
    assert!(served.said().starts_with("mounted by scan in "), "{}", served.said());
    let mut client = served.client();
    for page in 0..64 {
        assert_eq!(read(&mut client, page * 8192, 4096), [page as u8 + 1; 4096]);
    }
    assert_eq!(read(&mut client, 4096, 17), b"durable by itself");
    let said = served.stop();
    assert!(said.contains("\nmounting from flash: a scan of all spare areas:\n"), "it has no other figure: {said}");
}

/// A report that could not be written took the table along, and what was worse was not said.
#[test]
#[cfg(target_os = "linux")]
fn what_cannot_be_written_costs_nothing_else() {
    let bench = Bench::new("page", DEVICE);
    let served = bench.serve("--json /dev/full --capture /dev/full");
    write(&mut served.client(), 0, 0, &[1; 4096]);
    let (status, said, errors) = served.end("-TERM");
    assert_eq!(status.code(), Some(2), "{said}{errors}");
    assert!(said.contains("WAF") && said.contains("The device held what it held at the mount"), "{said}");
    assert_eq!((errors.lines().count(), errors.matches("cannot write /dev/full").count()), (1, 2), "{errors}");
}

/// After a kill without a flush it said that nothing had been written.
#[test]
fn info_after_a_kill_says_what_is_not_known() {
    let bench = Bench::new("page", DEVICE);
    let written = || {
        let text = String::from_utf8(bench.ftlab("image info image").output().unwrap().stdout).unwrap();
        text.lines().find(|line| line.contains("written: ")).unwrap().trim().to_owned()
    };
    assert_eq!(written(), "written: nothing yet");
    let served = bench.serve("");
    write(&mut served.client(), 0, 0, &[1; 4096]);
    served.kill();
    assert_eq!(written(), "written: not known: it was neither flushed nor shut down");
}

#[test]
fn a_cut_is_an_error_to_the_client_and_then_the_device_is_there_again() {
    let bench = Bench::new("page", DEVICE);
    let served = bench.serve("--cut-after 10 --seed 3 --json report.json");
    let mut client = served.client();
    let mut failed = 0;
    for page in 0..40u64 {
        let answer = client.ask(Command::Write, 0, page * 4096, 4096, &[7; 4096]).unwrap();
        failed += u64::from(answer.error == 5);
    }
    assert_eq!(failed, 1, "one request met the cut");
    assert_eq!(read(&mut client, 39 * 4096, 4096), [7; 4096]);
    served.stop();
    let extra = &json(&bench.file("report.json"))["results"][0]["extra"];
    assert_eq!((&extra["remounts"], &extra["failed_requests"]), (&1.into(), &1.into()));
}

#[test]
fn the_first_program_is_number_one_and_a_device_that_is_there_again_was_not_lost() {
    let bench = Bench::new("page", DEVICE);
    let served = bench.serve("--cut-after 1 --json report.json");
    let mut client = served.client();
    let answers: Vec<u32> =
        (0..6u64).map(|page| client.ask(Command::Write, 0, page * 4096, 4096, &[7; 4096]).unwrap().error).collect();
    assert_eq!(answers, [5, 0, 0, 0, 0, 0]);
    served.stop();
    let report = json(&bench.file("report.json"));
    assert_eq!(report["results"][0]["ended"], "complete");
    let assumed = report["assumptions"].as_array().unwrap().iter().filter_map(Value::as_str);
    let lost: Vec<&str> = assumed.filter(|what| what.contains("was lost")).collect();
    assert_eq!(lost, ["The device was lost, last because power was lost, and was mounted again once."]);
    let refused = said(&bench, "serve --image image --scheme page --socket socket --cut-after 0");
    assert!(refused.contains("--cut-after") && refused.contains("it must be at least 1"), "{refused}");
}

/// An image on cells of two bits, whose every page holds something.
fn filled(code: &str) -> Bench {
    let device = "mlc-mt29f64g08cbabx:capacity=16MiB,pages_per_block=16,spare=50%";
    let bench = Bench::new("page", device);
    let made =
        bench.ftlab(&format!("image create image --device {device} --scheme page --ecc {code} --force")).output();
    assert!(made.unwrap().status.success());
    let served = bench.serve("");
    let mut client = served.client();
    for part in 0..16 {
        write(&mut client, 0, part << 20, &[part as u8 + 1; 1 << 20]);
    }
    served.stop();
    bench
}

fn said(bench: &Bench, line: &str) -> String {
    let output = bench.ftlab(line).output().unwrap();
    [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat()
}

#[test]
fn a_year_costs_a_new_chip_nothing_and_a_worn_one_what_its_code_does_not_bear() {
    let bench = filled("bch:t=4,data=1024");
    let told = said(&bench, "image age image --retention 1y");
    assert!(
        told.contains(" bits flipped, at raw bit error rates of 6.1e-6 to 1.8e-5; `ftlab image verify image`\n"),
        "{told}"
    );
    let told = said(&bench, "image verify image");
    assert!(told.contains("wrong bits, by the code\n") && told.contains("verdict: sound\n"), "{told}");
    let told = said(&bench, "image age image --retention 1y --pe-cycles 3k");
    assert!(told.contains("bits flipped"), "{told}");
    bench.ftlab("image verify image --json verify.json").output().unwrap();
    let lost = json(&bench.file("verify.json"))["lost_pages"].as_array().unwrap().len();
    assert!((1..2048).contains(&lost), "{lost} pages lost");
    // What is left is what was written.
    let served = bench.serve("");
    let mut client = served.client();
    let mut errors = 0;
    for page in 0..2048u64 {
        let answer = client.ask(Command::Read, 0, page * 8192, 8192, &[]).unwrap();
        assert!(answer.error == 5 || answer.data == [(page >> 7) as u8 + 1; 8192], "page {page}");
        errors += usize::from(answer.error == 5);
    }
    assert_eq!(errors, lost);
    served.stop();
}

#[test]
fn ages_beyond_the_model_change_nothing() {
    let bench = filled("bch:t=8,data=512");
    let before = std::fs::read(bench.file("image")).unwrap();
    for (flags, expected) in [
        ("--retention 11y", "a retention of 11y: the model holds up to 10y"),
        ("--retention 1y --reads 1G", "1000000000 reads: the model holds up to 10000000"),
        ("--retention 1y --pe-cycles 20k", "20000 P/E cycles: the model holds up to 5 x the endurance of 3000 = 15000"),
        ("--retention 1y --pe-cycles 15k --reads 10M", "beyond the model's 0.05: take fewer cycles"),
    ] {
        let told = said(&bench, &format!("image age image {flags}"));
        assert!(told.starts_with("error: block 0, erased 0 times: ") && told.contains(expected), "{told}");
    }
    assert!(std::fs::read(bench.file("image")).unwrap() == before);
}

/// Random requests of all kinds, aligned and not.
/// A read that makes room in the cache of the map changes the flash, and a page that it cannot read ends the mount.
#[test]
fn verifying_goes_on_where_a_page_ended_the_mount() {
    let bench = Bench::new("dftl", DEVICE);
    let line = format!(
        "image create image --device {DEVICE} --scheme dftl --set cache-bytes=512 --ecc bch:t=8,data=512 --force"
    );
    assert!(bench.ftlab(&line).output().unwrap().status.success());
    let served = bench.serve("");
    let mut client = served.client();
    for at in (0..16u64 << 20).step_by(1 << 16) {
        write(&mut client, 0, (at * 37) % (16 << 20), &[7; 1 << 16]);
    }
    served.kill();
    assert!(said(&bench, "image age image --rber 1.4e-3").contains("bits flipped"));
    let output = bench.ftlab("image verify image --json verify.json").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("logical pages cannot be read: ") && text.contains("verdict: DAMAGED\n"), "{text}");
    assert!(!json(&bench.file("verify.json"))["lost_pages"].as_array().unwrap().is_empty());
}

fn work(client: &mut Client, seed: u64, requests: u32) {
    let mut rng = Rng::new(seed);
    let size = client.bytes();
    for _ in 0..requests {
        let unit = if rng.chance(0.7) { 4096 } else { 1 };
        let offset = rng.below(size / 4 / unit) * unit;
        let bytes = (1 + rng.below(6 * 4096 / unit)) * unit;
        let (command, flags) = match rng.below(16) {
            0..3 => (Command::Read, 0),
            3..9 => (Command::Write, 0),
            9 => (Command::Write, FLAG_FUA),
            10..12 => (Command::Trim, 0),
            12 => (Command::WriteZeroes, 0),
            13 => (Command::WriteZeroes, FLAG_NO_HOLE | FLAG_FUA),
            14 => (Command::BlockStatus, 0),
            _ => (Command::Flush, 0),
        };
        let data = vec![rng.bits() as u8; if command == Command::Write { bytes as usize } else { 0 }];
        let (offset, bytes) = if command == Command::Flush { (0, 0) } else { (offset, bytes as u32) };
        assert_eq!(client.ask(command, flags, offset, bytes, &data).unwrap().error, 0, "{command:?}");
    }
}

/// The waist's proof: what is served and what is simulated are one code, and a capture leaves nothing out.
#[test]
fn a_capture_brings_about_the_same_flash_commands_when_it_is_simulated() {
    for scheme in ["page", "dftl", "dftl-e", "lazyftl"] {
        captured_and_simulated(scheme, scheme, |client| work(client, 11, 6000));
    }
}

/// The same of requests as programs make them, each recording under another scheme.
#[test]
fn recordings_bring_about_the_same_flash_commands_served_and_simulated() {
    let recorded = [("postgres-ext4", "page"), ("sqlite-ext4", "dftl"), ("rocksdb-ext4", "dftl-e")];
    for (name, scheme) in recorded {
        let recording = recordings::by_name(name).unwrap();
        let table = recording.table().unwrap();
        let mut source = columnar::Table::of_bytes(name, table, OnError::Stop, Some(8000)).unwrap();
        let mut requests = Vec::new();
        source.fill(&mut requests, 8000).unwrap();
        captured_and_simulated(name, scheme, |client| again(client, &requests));
    }
}

/// Sends recorded requests, their addresses taken modulo the device.
fn again(client: &mut Client, requests: &[Request]) {
    let size = client.bytes();
    for request in requests {
        let bytes = request.bytes.min(1 << 20);
        let offset = if bytes == 0 { 0 } else { request.offset % (size - bytes + 512) / 512 * 512 };
        let (command, data) = match request.operation {
            Operation::Read => (Command::Read, 0),
            Operation::Write => (Command::Write, bytes),
            Operation::Trim => (Command::Trim, 0),
            Operation::Flush => (Command::Flush, 0),
        };
        let data = vec![request.offset as u8; data as usize];
        assert_eq!(client.ask(command, 0, offset, bytes as u32, &data).unwrap().error, 0, "{request:?}");
    }
}

/// Captures what a client does to a served image, and simulates the capture and the table that it converts to.
fn captured_and_simulated(what: &str, scheme: &str, client: impl FnOnce(&mut Client)) {
    let bench = Bench::new(scheme, DEVICE);
    let served = bench.serve("--capture clients.zst --json live.json");
    client(&mut served.client());
    served.stop();
    let run = |line: &str| {
        let output = bench.ftlab(line).output().unwrap();
        assert!(output.status.success(), "{what}: {}", String::from_utf8_lossy(&output.stderr));
    };
    run("trace convert clients.zst clients.parquet");
    for trace in ["clients.zst", "clients.parquet"] {
        run(&format!(
            "compare {trace} --schemes {scheme} --device {DEVICE} --fill none --rhythm spread \
             --set {scheme}.durable-trim=on --json simulated.json"
        ));
        let (live, simulated) = (json(&bench.file("live.json")), json(&bench.file("simulated.json")));
        for key in ["requests", "reads", "writes", "read_pages", "write_pages"] {
            assert_eq!(live["workload"][key], simulated["workload"][key], "{what}, {trace}: {key}");
        }
        let (live, simulated) = (&live["results"][0], &simulated["results"][0]);
        assert!(live["flash"]["erases"].as_u64().unwrap() > 0, "{what}: nothing was collected");
        for key in ["by_cause", "flash", "waf", "cache", "erase_count"] {
            assert_eq!(live[key], simulated[key], "{what}, {trace}: {key}");
        }
        for key in ["trims", "flushes", "partial_page_writes"] {
            assert_eq!(live["extra"][key], simulated["extra"][key], "{what}, {trace}: {key}");
        }
    }
}

#[test]
fn a_capture_can_be_read_after_a_kill() {
    let bench = Bench::new("page", DEVICE);
    let served = bench.serve("--capture clients.zst");
    let mut client = served.client();
    for page in 0..100u64 {
        write(&mut client, 0, page * 4096, &[1; 4096]);
    }
    until("the capture's second", || std::fs::metadata(bench.file("clients.zst")).unwrap().len() > 0);
    served.kill();
    let output = bench.ftlab("trace info clients.zst --json info.json").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(json(&bench.file("info.json"))["requests"], 100);
}

#[test]
fn emulated_timing_answers_as_late_as_the_device() {
    let bench = Bench::new("page", DEVICE);
    let served = bench.serve("--timing emulate --json report.json");
    let mut client = served.client();
    let began = std::time::Instant::now();
    for page in 0..50u64 {
        write(&mut client, 0, page * 4096, &[1; 4096]);
    }
    let elapsed = began.elapsed();
    served.stop();
    let report = json(&bench.file("report.json"));
    let mean_us = report["results"][0]["response_us"]["write"]["mean"].as_f64().unwrap();
    let program_us = report["device"]["program_us"].as_f64().unwrap();
    assert!(mean_us >= program_us, "{mean_us} {program_us}");
    assert!(elapsed.as_secs_f64() * 1e6 >= 50.0 * mean_us, "{elapsed:?} {mean_us}");
}

#[test]
fn mistakes_are_named() {
    let bench = Bench::new("page", DEVICE);
    let serve = |flags: &str| {
        let output = bench.ftlab(&format!("serve {flags}")).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{flags}: {}", String::from_utf8_lossy(&output.stdout));
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(error.lines().count(), 1, "{error}");
        error
    };
    for (flags, expected) in [
        ("--image image --scheme page", "say where to serve: --socket PATH or --port N"),
        ("--image image --scheme dftl --socket s", "image is for scheme page: say --scheme page"),
        ("--image none --scheme page --socket s", "none: No such file"),
        ("--image image --scheme page --socket no/s", "cannot listen at no/s: no such file or directory"),
        ("--image image --scheme page --socket s --capture no/c", "cannot write no/c: no such file or directory"),
        ("--image image --scheme page --socket s --json no/j", "--json: cannot write no/j: no directory no"),
        ("--image image --scheme page --socket s --port 1", "cannot be used with"),
        ("--image image --scheme page --socket s --seed 3", "--cut-after <N>"),
        ("--image image --scheme page --socket s --json s", "--json: s is --socket already; name another file"),
        ("--image image --scheme page --socket s --capture ./s", "--capture: ./s is --socket already"),
        ("--image image --scheme page --socket image", "--socket: image is the image already"),
        ("--image image --scheme page --port 1 --bind here", "invalid value 'here'"),
        ("--image image --scheme page --socket s --bind 127.0.0.2", "cannot be used with"),
    ] {
        let error = serve(flags);
        assert!(error.contains(expected), "{flags}: {error}");
    }
    assert!(!bench.file("s").exists());
    let served = bench.serve("");
    let error = serve("--image image --scheme page --socket other");
    assert!(error.contains("image is in use by another process"), "{error}");
    served.stop();
}

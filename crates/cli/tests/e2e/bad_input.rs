//! Whatever is wrong with what the user gives: one line that names it, exit code 2, no file left, no panic.

use crate::common::{Directory, spc};
use std::fs;

/// Runs lines that must be refused with these words, and leaves no trace of itself.
fn refuse(directory: &Directory, cases: &[(&str, &[&str])]) {
    let before = directory.names();
    for (line, expected) in cases {
        let message = directory.ftlab(line).refused();
        for words in *expected {
            assert!(message.contains(words), "{line}: expected {words:?} in: {message}");
        }
        assert_eq!(directory.names(), before, "{line}");
    }
}

/// What broke: the advice left out that blocks are whole on every die, and asked for more than was needed.
#[test]
fn the_spare_space_that_a_refusal_asks_for_is_the_least_that_works() {
    let directory = Directory::new();
    for (scheme, capacity) in [("page", "64MiB"), ("dftl", "64MiB"), ("hybridlog", "64MiB"), ("hybridlog", "3MiB")] {
        let line = |spare: f64| {
            let device = format!("agrawal08:capacity={capacity},spare={spare:.2}%");
            format!("compare --workload uniform:requests=9 --schemes {scheme} --device {device}")
        };
        let message = directory.ftlab(&line(1.0)).refused();
        let (_, rest) = message.split_once("give more spare space, at least ").expect(&message);
        let least: f64 = rest.split(' ').next().unwrap().parse().expect(&message);
        directory.ftlab(&line(least - 0.01)).refused();
        directory.ftlab(&line(least)).succeeded();
    }
}

#[test]
fn names_and_values() {
    let directory = Directory::new();
    directory.file("t.spc", spc(100));
    directory.file("far.spc", spc(100) + "0,137438953472,4096,w,0.05\n");
    directory.file("my.toml", "base = \"agrawal08\"\nchanels = 3\n");
    directory.file("dev.toml", "base = \"agrawal08\"\n");
    directory.file("full.toml", "base = \"agrawal08\"\ncapacity = \"1GiB\"\n");
    directory.file("late.toml", "trace = \"t.spc\"\nschemes = [\"dtfl\"]\n");
    directory.file("self.toml", "trace = \"t.spc\"\njson = \"self.toml\"\n");
    refuse(
        &directory,
        &[
            ("compare t.spc --schemes dtfl --json a.json", &["unknown scheme \"dtfl\"; did you mean \"dftl\"?"]),
            ("compare t.spc --device agrawal8", &["there is no device \"agrawal8\"; did you mean agrawal08?"]),
            ("compare t.spc --device my.toml", &["my.toml:2", "did you mean channels?"]),
            ("compare t.spc --device no.toml", &["cannot read no.toml: no such file"]),
            ("compare late.toml", &["late.toml: is no trace", "an experiment file is for `ftlab run late.toml`"]),
            ("compare t.spc --set dftl.gc-lo=4", &["unknown parameter of dftl \"gc-lo\"; did you mean \"gc-low\"?"]),
            ("compare t.spc --gc gredy", &["unknown policy \"gredy\"; did you mean \"greedy\"?"]),
            ("compare t.spc --set page.gc=gredy", &["gc = gredy: must be one of greedy, cost-benefit"]),
            ("compare t.spc --set dftl.gc-low=1", &["gc-low = 1: must be 2 to 1048576"]),
            ("compare t.spc --device agrawal08:spare=95%", &["spare = 0.95", "1% to 90%"]),
            ("compare t.spc --device agrawal08:spare=x", &["spare", "not understood", "1% to 90%"]),
            ("compare t.spc --cache 16", &["a cache of 16 bytes is too small", "give at least"]),
            (
                "compare t.spc --buffer bprlu:1MiB",
                &["--buffer", "unknown write buffer \"bprlu\"; did you mean \"bplru\"?"],
            ),
            ("compare t.spc --buffer bplru", &["--buffer", "the size is missing; write POLICY:SIZE, as in bplru:1MiB"]),
            ("compare t.spc --buffer fab:4KiB", &["gathers blocks of 64 pages", "give at least --buffer fab:256KiB"]),
            ("compare t.spc --buffer cflru:1", &["holds no page of 4096 bytes", "give at least --buffer cflru:4KiB"]),
            ("compare t.spc --buffer fab:4GiB", &["is larger than the device", "give at most --buffer fab:524288KiB"]),
            ("compare t.spc --buffer bplru:1MiB --set bplru.pad-min=0", &["--set bplru", "pad-min = 0: must be 1 to"]),
            ("compare t.spc --cache 64KB", &["a unit that some read as decimal", "4KiB"]),
            ("compare t.spc --until mean-erases=0", &["--until", "a number above 0"]),
            ("compare t.spc --until death", &["--until", "write mean-erases=N, as in mean-erases=20, or end-of-life"]),
            (
                "compare --workload uniform:reads=1,requests=1k --until mean-erases=2",
                &["--until: the workload writes nothing"],
            ),
            ("compare t.spc --until mean-erases=2 --warmup 10", &["--until", "leave --warmup out"]),
            ("compare t.spc --schemes null --until mean-erases=2", &["--until: the scheme null erases nothing"]),
            (
                "compare t.spc --device slc-ssdsim --until end-of-life",
                &["--until: how often a block of slc-ssdsim can be erased is not known", "endurance=N"],
            ),
            (
                "compare --workload uniform:requests=9,span=8MiB --schemes rose --device agrawal08:capacity=64MiB \
                 --set rose.log-blocks=4000",
                &["log-blocks: 4000 given", "the device leaves", "or 0 for all that is left"],
            ),
            ("compare t.spc --schemes rose --set rose.maro-alpha=2", &["maro-alpha = 2: must be 0 to 1"]),
            (
                "compare --workload uniform:requests=9,span=8MiB --schemes last --device \
                 agrawal08:capacity=64MiB,spare=1%,channels=1",
                &["cannot be built on this device: spare", "a log area of at least 3", "nowhere to go"],
            ),
            (
                "compare t.spc --set page.wear-levelling=hot",
                &["wear-levelling = hot: must be one of off, swap, static, bet"],
            ),
            ("compare t.spc --scheduler fifo", &["--scheduler", "fifo"]),
            (
                "compare t.spc --scheduler suspend",
                &["--scheduler suspend: agrawal08 cannot suspend", "suspend_program_us=20,suspend_erase_us=50"],
            ),
            (
                "compare t.spc --device dftl-paper --scheduler read-first",
                &["--scheduler read-first: dftl-paper executes one command after another", "server=parallel"],
            ),
            (
                "compare t.spc --device agrawal08:copy_back=on",
                &["--device: copy_back has no effect here; add --scheduler in-order"],
            ),
            (
                "compare t.spc --device agrawal08:channels=1,barriers=on",
                &["--device: barriers has no effect here: agrawal08 executes one command", "channels=4"],
            ),
            ("compare t.spc --device dftl-paper:channels=4,barriers=on", &["--device: barriers", "server=parallel"]),
            (
                "compare t.spc --device agrawal08:suspend_erase_us=9 --scheduler suspend",
                &["suspend_program_us = nothing but suspend_erase_us is given", "give both or neither"],
            ),
            (
                "compare t.spc --device agrawal08:multi_plane=some",
                &["multi_plane", "give off or aligned or independent"],
            ),
            (
                "compare t.spc --device agrawal08:planes=1,multi_plane=aligned --scheduler in-order",
                &["--device: multi_plane has no effect here: dies of agrawal08 have one plane; give them planes=2"],
            ),
            (
                "compare t.spc --set page.wear-threshold=3",
                &["--set page: wear-threshold has no effect with wear-levelling=off", "to swap or static"],
            ),
            ("compare t.spc --set page.ecc=agcr --set page.ecc-m=2", &["ecc-m has no effect with ecc=agcr"]),
            (
                "compare t.spc --schemes page --gc greedy,fifo --set page.gc-lambda=0.5",
                &["--set page: gc-lambda has no effect with gc=greedy", "set gc to cicl"],
            ),
            ("compare --flow zipf", &["--flow: one flow is no several"]),
            ("compare --flow zipf:thta=1", &["--flow: zipf:thta=1", "did you mean `theta`?"]),
            ("compare --flow zipf --set dftl.gc-low=x", &["gc-low = x"]),
            ("compare --flow zipf@open", &["--flow: one flow is no several"]),
            ("compare --flow zipf --flow t.spc@foo", &["t.spc@foo: after @ stands no host: write open, or closed:QD"]),
            (
                "compare --flow zipf --flow uniform:requests=9@open",
                &[
                    "--flow: in an open loop all of uniform:requests=9 would arrive at once",
                    "arrival=poisson,rate=1000",
                ],
            ),
            (
                "compare --host open --workload uniform:requests=9",
                &[
                    "--host: in an open loop all of uniform:requests=9",
                    "as in uniform:requests=9,arrival=poisson,rate=1000, or",
                ],
            ),
            (
                "compare --flow uniform:span=10GiB --flow zipf --device agrawal08:capacity=1GiB",
                &["--flow, each of 2 has 512 MiB of the device: uniform:span=10GiB", "a span of 1 to 536870912"],
            ),
            ("compare --flow zipf --flow t.spc --limit 5", &["--flow: --limit is of a single workload"]),
            ("compare t.spc --idle-gc soon", &["--idle-gc"]),
            (
                "compare --workload uniform:requests=9 --idle-gc 1ms",
                &["--idle-gc: it has no effect, for in a closed loop", "or give --host open"],
            ),
            ("compare zipff:requests=9", &["cannot read zipff:requests=9", "did you mean zipf:requests=9?"]),
            ("compare rediss", &["cannot read rediss: no such file", "did you mean recording:redis?"]),
            ("compare financial1", &["did you mean twin:financial1?"]),
            ("compare web.csv", &["cannot read web.csv: no such file or directory"]),
            ("compare --workload twin:fin", &["`fin` is not a choice", "did you mean `financial1`?"]),
            ("check --scheme page --set page.gc-low=3", &["--set: it is set in all schemes", "write gc-low=VALUE"]),
            ("compare --workload zipff", &["there is no generator `zipff`", "did you mean `zipf`?"]),
            ("compare --workload zipf:thta=1", &["did you mean `theta`?"]),
            ("compare --workload uniform:reads=2", &["reads", "above 1"]),
            (
                "compare --workload zipf:requests=0 --json a.json",
                &["zipf:requests=0: requests: 0 is out of range (allowed: at least 1)"],
            ),
            ("compare twin:financial1,requests=0", &["requests: 0 is out of range (allowed: at least 1)"]),
            ("compare --workload twin-of:t.spc,requests=0", &["requests: 0 is out of range (allowed: at least 1)"]),
            (
                "compare --flow zipf --flow uniform:requests=0",
                &["--flow: uniform:requests=0: requests: 0 is out of range"],
            ),
            ("trace generate uniform:requests=0 b --to msr", &["requests: 0 is out of range (allowed: at least 1)"]),
            (
                "compare /dev/stdin --fill trace --json a.json",
                &["--fill trace: requests fill the device and are then measured", "/dev/stdin can be read only once"],
            ),
            ("compare - --fill trace", &["--fill trace: ", "- can be read only once; write them to a file"]),
            // A second reading found nothing left, or waited for good.
            (
                "trace convert /dev/stdin b --to fio3 --volumes concat",
                &["--volumes: ", "/dev/stdin can be read only once; write it to a file"],
            ),
            (
                "compare --flow /dev/stdin --flow zipf:requests=9 --repeat 2",
                &["--repeat: ", "/dev/stdin can be read only once; write it to a file"],
            ),
            // Both were clipped to 2^64 ns.
            ("trace convert t.spc b --to spc --time-scale 1e17", &["t.spc: request 2 arrives", "4611686018 s are the"]),
            (
                "trace generate uniform:requests=9,arrival=bursts,burst=1,idle=9000000000s b --to spc",
                &["request 2 arrives", "4611686018 s are the"],
            ),
            (
                "compare --workload twin-of:far.spc,requests=9",
                &["the addresses span 70368908804096 bytes, and 4398046511104 are the most"],
            ),
            (
                "compare --flow zipf --flow uniform --fill trace",
                &["--flow: --fill trace is of a single workload; leave it out"],
            ),
            ("compare --workload twin:financal1", &["did you mean `financial1`?"]),
            ("compare --workload twin-of:no.spc", &["no.spc: there is no such file"]),
            ("compare --workload twin-of:t.spc,prefx=3", &["unknown key \"prefx\"; did you mean \"prefix\"?"]),
            ("schemes dtfl", &["unknown scheme \"dtfl\"; did you mean \"dftl\"?"]),
            ("devices agrawal8", &["unknown device \"agrawal8\"; did you mean \"agrawal08\"?"]),
            ("compair", &["compare"]),
            ("reproduce lsfl", &["unknown paper \"lsfl\"; did you mean \"lsftl\"?"]),
            ("reproduce dftl/figure-66", &["unknown experiment of dftl", "did you mean \"figure-6\"?"]),
            ("reproduce dftl/figure-6 --traces no", &["cannot read no: no such file"]),
            ("reproduce dftl/figure-6 --json no/a.json", &["cannot write no/a.json"]),
            ("compare t.spc --volumes select=7", &["there is no volume `7`"]),
            ("trace convert t.spc b --to spk", &["unknown trace format \"spk\"; did you mean \"spc\"?"]),
            ("trace convert t.spc t.spc --to msr", &["t.spc is the trace already"]),
            ("trace convert t.spc b", &["say with --to in which format b is to be"]),
            ("trace convert t.spc b.gz --to parquet", &["b.gz would be compressed twice; let it end in .parquet"]),
            ("trace generate zipf:requests=9 b.parquet --to spc", &["b.parquet would hold spc; say --to parquet"]),
            ("trace convert t.spc b.xz --to msr", &["b.xz would not be compressed; let it end in .zst or .gz"]),
            ("compare t.spc --json -", &["--json: - is no file; write /dev/stdout"]),
            ("trace info t.spc --format parquet", &["t.spc: is not Parquet"]),
            ("compare --workload recording:no-such", &["recording:no-such: unknown recording \"no-such\""]),
            ("compare recording:no-such", &["unknown recording \"no-such\""]),
            ("trace info recording:no-such", &["unknown recording \"no-such\""]),
            ("recordings no-such", &["unknown recording \"no-such\""]),
            ("trace generate zipff b --to msr", &["did you mean `zipf`?"]),
            ("trace generate zipf:requests=9,trims=0.5 b --to spc", &["leave such out with --on-error skip"]),
            // What is read is not written over.
            ("trace info t.spc --json t.spc", &["--json: t.spc is the trace already; name another file"]),
            ("compare t.spc --device dev.toml --csv ./dev.toml", &["--csv: ./dev.toml is the device already"]),
            ("compare t.spc --json h.x --html ./h.x", &["--html: ./h.x is --json already"]),
            ("run self.toml", &["self.toml:2: json: self.toml is the experiment already"]),
            ("run late.toml", &["late.toml:2: schemes: unknown scheme \"dtfl\"; did you mean \"dftl\"?"]),
            ("reliability --device dev.toml --json dev.toml", &["--json: dev.toml is the device already"]),
            ("compare --workload twin-of:t.spc --json t.spc", &["--json: t.spc is the trace already"]),
            ("trace generate twin-of:t.spc t.spc --to spc", &["t.spc is the trace already"]),
            (
                "image create full.toml --device full.toml --scheme page --force",
                &["FILE: full.toml is the device already; name another file"],
            ),
            // What has no effect is no flag.
            (
                "compare --workload uniform:requests=9 --time-scale 4",
                &["--time-scale: it has no effect, for in a closed loop", "or give --host open"],
            ),
            ("check --scheme page --seeds 2 --shrink", &["--shrink makes one case short: add --replay CASE"]),
            ("check --scheme page --faults cut --nested 9", &["--nested is about cuts in recoveries: add nested or"]),
            ("check --scheme page --set gclow=1", &["--set: unknown parameter \"gclow\"; did you mean \"gc-low\"?"]),
            ("serve --image a.img --scheme page --port 0 --socket-mode 660", &["cannot be used with", "--port"]),
            ("reliability --constants --json c.json", &["cannot be used with", "--json"]),
            ("step simple cut:0.99 write:0", &["cut:0.99: the faces of this program are 0 to 3"]),
            ("step simple write:0 cut:0", &["cut:0.0: no step follows in which power could fail"]),
            ("step page --logical-pages 1000 write:0", &["(give more --blocks or --dies, or fewer --logical-pages)"]),
            ("reproduce --list --json a.json", &["'--list' cannot be used with '--json <FILE>'"]),
            ("compare --seed -1", &["unexpected argument '-1' found"]),
        ],
    );
}

#[test]
fn devices_that_are_too_small() {
    let directory = Directory::new();
    directory.file("t.spc", spc(100));
    refuse(
        &directory,
        &[
            (
                "compare t.spc --device agrawal08:capacity=64MiB --json a.json",
                &["t.spc: the addresses span", "the device exports 67108864", "--out-of-range fold, compact or scale"],
            ),
            (
                "compare --workload uniform:requests=100,span=8MiB --device agrawal08:capacity=8MiB,spare=1%",
                &["cannot be built on this device: spare", "kept free or open"],
            ),
            (
                "compare t.spc --device agrawal08:capacity=64MiB --out-of-range compact --schemes page",
                &["its used extents of 1 MiB hold", "enlarge the device, or fold or scale the workload"],
            ),
        ],
    );
}

#[test]
fn traces() {
    let directory = Directory::new();
    let good = spc(3000);
    directory.file("good.spc", &good);
    directory.file("empty.spc", "");
    let compressed = zstd::encode_all(good.as_bytes(), 3).unwrap();
    directory.file("cut.spc.zst", &compressed[..compressed.len() / 2]);
    let garbage: Vec<u8> = (0..5000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    directory.file("garbage", garbage);
    let mut lines: Vec<&str> = good.lines().collect();
    lines[1499] = "1,oops,4096,w,0.75";
    directory.file("malformed.spc", lines.join("\n"));
    directory.file("zero.spc", "0,0,512,w,0.0\n0,8,0,w,0.1\n0,8,512,w,0.2\n");
    let line = |offset: &str| format!("128166372003061629,hm,0,Write,{offset},4096,10\n");
    directory.file("all_beyond.csv", line("9223372036854775808").repeat(3));
    directory.file("all_over.csv", line("99999999999999999999").repeat(3));
    directory.file("all_beyond.spc", "0,36028797018963970,4096,w,0.1\n".repeat(3));
    directory.file("wide.csv", line("4611686018427387904").repeat(3));
    directory.file("beyond.csv", line("0").repeat(2) + &line("9223372036854775808") + &line("4096"));
    refuse(
        &directory,
        &[
            ("compare no.spc --json a.json", &["cannot read no.spc: no such file"]),
            ("compare . --json a.json", &["it is a directory"]),
            ("compare empty.spc --json a.json", &["empty.spc: the file is empty"]),
            ("compare cut.spc.zst --json a.json", &["cut.spc.zst:", "the zstd stream is cut short"]),
            ("compare garbage --json a.json", &["garbage: the format is not recognised"]),
            ("compare good.spc --format msr --json a.json", &["good.spc:1: no valid msr record", "--format"]),
            ("compare good.spc --format spk", &["unknown trace format \"spk\"; did you mean \"spc\"?"]),
            ("compare malformed.spc --json a.json", &["malformed.spc:1500: ", "--on-error skip"]),
            ("compare zero.spc --json a.json", &["zero.spc:2: ", "size"]),
            ("compare beyond.csv --json a.json", &["beyond.csv:3: ", "2^63"]),
            (
                "compare all_beyond.csv --json a.json",
                &["all_beyond.csv:1: no valid msr record: the extent ends beyond 2^63 bytes"],
            ),
            ("compare all_beyond.csv --on-error skip", &["all_beyond.csv", "2^63"]),
            ("compare all_beyond.spc", &["all_beyond.spc:1: no valid spc record: the extent ends beyond 2^63 bytes"]),
            (
                "compare all_over.csv",
                &["all_over.csv:1: no valid msr record: the offset is `99999999999999999999`", "below 2^64"],
            ),
            (
                "trace head all_beyond.csv",
                &["all_beyond.csv:1: no valid msr record: the extent ends beyond 2^63 bytes"],
            ),
            (
                "compare wide.csv --device agrawal08 --out-of-range error",
                &["wide.csv: the addresses span 4611686018427392000", "--out-of-range fold, compact or scale"],
            ),
            ("trace info empty.spc", &["the file is empty"]),
            ("trace head malformed.spc -n 2k", &["malformed.spc:1500: "]),
            ("trace convert malformed.spc out.csv.zst --to msr", &["malformed.spc:1500: "]),
        ],
    );
    let skipped = directory.ftlab("compare malformed.spc --on-error skip --schemes page").succeeded();
    assert!(skipped.stdout.contains("2,999 requests"), "{}", skipped.stdout);
    assert!(skipped.stdout.contains("1 malformed record was skipped; it is record 1500"), "{}", skipped.stdout);
}

#[test]
fn times_going_backwards_are_mended_and_told() {
    let directory = Directory::new();
    directory.file("back.spc", "0,0,512,w,0.5\n0,8,512,w,0.1\n0,8,512,w,0.6\n");
    let ran = directory.ftlab("compare back.spc --schemes page").succeeded();
    assert!(
        ran.stdout.replace("\n  ", " ").contains("1 arrival out of order, by up to 400 ms, was moved"),
        "{}",
        ran.stdout
    );
}

#[test]
fn files_that_cannot_be_written() {
    let directory = Directory::new();
    directory.file("t.spc", spc(1000));
    refuse(
        &directory,
        &[
            ("compare t.spc --schemes page --json no/a.json", &["--json: cannot write no/a.json: no directory no"]),
            ("compare t.spc --schemes page --csv t.spc", &["t.spc is the trace already"]),
            ("compare t.spc --schemes page --per-request no/a.csv", &["--per-request: cannot write no/a.csv"]),
            ("trace info t.spc --json no/a.json", &["--json: cannot write no/a.json: no directory no"]),
        ],
    );
    if cfg!(target_os = "linux") {
        for line in [
            "compare t.spc --schemes page --json /dev/full",
            "compare t.spc --schemes page --html /dev/full",
            "compare t.spc --schemes page --per-request /dev/full",
            "trace convert t.spc /dev/full --to msr",
            "trace generate uniform:requests=100k /dev/full --to msr",
        ] {
            let ran = directory.ftlab(line);
            assert_eq!(ran.code, Some(2), "{line}");
            assert_eq!(ran.stderr, "error: cannot write /dev/full: no space left on the device\n", "{line}");
        }
        assert_eq!(directory.names(), ["t.spc"]);
    }
}

#[test]
fn experiment_files() {
    let directory = Directory::new();
    directory.file("key.toml", "schemes = \"page\"\nchache = \"64KiB\"\n");
    directory.file("value.toml", "\nfill = \"stedy\"\n");
    directory.file("broken.toml", "seed = = 3\n");
    directory.file("scheme.toml", "seed = 1\nschemes = [\"pge\"]\n");
    directory.file("name.toml", "schemes = [\"page\"]\n[set]\npage.gc-high = 8\npage.foo = 1\n");
    directory.file("range.toml", "schemes = \"page\"\n[set]\npage = { gc = \"fifo\", gc-low = -4 }\n");
    directory.file("twice.toml", "schemes = \"dftl\"\ncache = \"64KiB\"\n[set]\ndftl.cache-bytes = 4096\n");
    directory.file("gc.toml", "\ngc = \"gredy\"\n");
    directory.file("device.toml", "\ndevice = \"agrawal08:spar=7%\"\n");
    directory.file("workload.toml", "seed = 1\nworkload = \"zipf:teta=0.9\"\n");
    directory.file("latin1.toml", b"# \xe9\nseed = 1\n");
    refuse(
        &directory,
        &[
            ("run key.toml", &["key.toml:2: unknown key \"chache\"; did you mean \"cache\"?"]),
            ("run value.toml", &["value.toml:2: ", "'steady'"]),
            ("run broken.toml", &["broken.toml:1: "]),
            ("run scheme.toml", &["scheme.toml:2: schemes: unknown scheme \"pge\"; did you mean \"page\"?"]),
            ("run name.toml", &["name.toml:4: set page.foo: unknown parameter of page \"foo\""]),
            ("run range.toml", &["range.toml:3: set page: gc-low = -4: must be"]),
            ("run twice.toml", &["twice.toml:4: set dftl.cache-bytes: --cache sets it too"]),
            ("run gc.toml", &["gc.toml:2: gc: unknown policy \"gredy\"; did you mean \"greedy\"?"]),
            ("run device.toml", &["device.toml:2: device: a device has no key \"spar\"; did you mean spare?"]),
            ("run workload.toml", &["workload.toml:2: workload: ", "teta"]),
            ("run latin1.toml", &["latin1.toml: the byte at offset 2 is not UTF-8; save the file as UTF-8"]),
            ("run no.toml", &["cannot read no.toml: no such file"]),
        ],
    );
}

#[test]
fn what_was_there_before_stays_if_a_run_fails() {
    let directory = Directory::new();
    directory.file("a.json", "kept");
    directory.file("t.spc", "0,0,512,w,0.0\nnonsense\n0,8,512,w,0.2\n");
    directory.ftlab("compare t.spc --json a.json").refused();
    assert_eq!(fs::read_to_string(directory.path().join("a.json")).unwrap(), "kept");
    assert_eq!(directory.names(), ["a.json", "t.spc"]);
}

#[test]
fn codes_that_do_not_fit_and_ages_beyond_the_model() {
    let directory = Directory::new();
    refuse(
        &directory,
        &[
            ("reliability --device agrawal08 --json r.json", &["agrawal08 has SLC cells", "take an MLC device"]),
            ("reliability --device mlc-l74", &["did you mean mlc-l74a?"]),
            (
                "reliability --device ecc-paper:endurance=3000,oob=744,latencies=derived",
                &["--device: latencies has no place here", "give --profile, --pe-cycles or --retention"],
            ),
            (
                "reliability --device ecc-paper:endurance=3000,oob=744,retention=1y",
                &["--device: retention has no place here"],
            ),
            ("reliability --code rs:t=4,data=512", &["unknown code \"rs\"; write bch:t=24,data=1024 or ldpc:"]),
            (
                "reliability --code bch:t=40,data=1024",
                &[
                    "--code bch:t=40,data=1024: 8 frames x 70 bytes of parity + 32 of metadata = 592 bytes, more than \
                     the 448 spare bytes of a page of mlc-mt29f64g08cbaaa",
                    "at most 52 bytes of parity for 1024 of data",
                    "--device mlc-mt29f64g08cbaaa:oob=592",
                ],
            ),
            (
                "reliability --code bch:t=24,data=4096",
                &["32768 bits of data and 360 of parity are 33128 bits, more than the 32767 of a codeword"],
            ),
            ("reliability --code bch:t=24,data=1000", &["frames of 1000 bytes do not fill a page of 8192"]),
            (
                "reliability --code ldpc:parity=100,data=4096",
                &["a multiple of 32 bytes of parity, not 100: take 96 or 128"],
            ),
            ("reliability --code ldpc:parity=16,data=1024", &["a rate of 0.985, which no LDPC code here has"]),
            ("reliability --code ldpc:parity=32,data=1024", &["a rate of 0.970, which no LDPC code here has"]),
            ("reliability --code ldpc:parity=48,data=1024", &["ldpc:parity=48,data=1024 was not tried"]),
            (
                "reliability --pe-cycles 20k",
                &["--pe-cycles: 20000 P/E cycles: the model holds up to 5 x the endurance of 3000 = 15000"],
            ),
            ("reliability --retention 11y", &["--retention: a retention of 11y: the model holds up to 10y"]),
            ("reliability --reads 1G", &["--reads: 1000000000 reads: the model holds up to 10000000"]),
            (
                "reliability --pe-cycles 15k --reads 10M",
                &["15000 cycles", "LSB +", "MSB) / 2 = ", "beyond the model's 0.05: take fewer cycles"],
            ),
            ("reliability --alist m.alist", &["--alist writes the matrix of one code: add --code ldpc:"]),
            ("reliability --code bch:t=4,data=512 --alist m.alist", &["bch:t=4,data=512 is no LDPC code"]),
            ("reliability --alist m.alist --pe-cycles 1k", &["'--alist <FILE>' cannot be used with '--pe-cycles"]),
            ("reliability --derive-latencies l.csv --reads 5", &["'--derive-latencies <FILE>' cannot be used with"]),
            (
                "compare --workload uniform --device ecc-paper:latencies=derived",
                &["ecc-paper does not say how many erases a block endures", "--device ecc-paper:endurance=3000"],
            ),
            (
                "compare --workload uniform --device \
                 ecc-paper:endurance=3000,latencies=derived,pe_cycles=3k,retention=1y",
                &[
                    "low-cost pages have a raw bit error rate of 9.0e-3",
                    "ldpc:parity=192,data=4096 bears 6.0e-3",
                    "oob",
                ],
            ),
            (
                "compare --workload uniform --device ecc-paper:pe_cycles=3k",
                &["pe_cycles = 3000 has no effect on a device's own latencies; add latencies=derived"],
            ),
            (
                "compare --workload uniform --device ecc-paper:endurance=3000,latencies=paper,read_us=500",
                &[
                    "read_us = 500 has no effect beside latencies=paper, which says what it is",
                    "leave one of the two out",
                ],
            ),
            ("reliability --json no/r.json", &["cannot write no/r.json: no directory no"]),
            ("reliability --derive-latencies no/t.csv", &["cannot write no/t.csv: no directory no"]),
        ],
    );
}

//! The server under clients that nobody here wrote: libnbd's tools, QEMU's, and fio. Each test needs its programs and
//! says so where they are missing.

#![allow(clippy::print_stdout, reason = "says which tests were skipped")]

#[path = "support/memory.rs"]
mod memory;

use device::nbd::{Address, Options, Server};
use memory::Memory;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

/// Not a multiple of anything, as devices may be.
const BYTES: usize = (8 << 20) + 1536;

/// A served memory with a directory for files; both go at the end.
struct Served {
    directory: PathBuf,
    server: Option<Server<Memory>>,
}

impl Served {
    fn new(options: Options) -> Served {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir().join(format!("ftlab-clients-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let address = Address::Unix(directory.join("socket"));
        let server = Server::start(&address, Memory::new(BYTES), options).unwrap();
        Served { directory, server: Some(server) }
    }

    fn uri(&self) -> String {
        format!("nbd+unix:///?socket={}", self.file("socket").display())
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn stop(mut self) -> Memory {
        self.server.take().unwrap().stop().unwrap()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn installed(programs: &[&str]) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let missing = |program: &&&str| !std::env::split_paths(&path).any(|directory| directory.join(program).is_file());
    let missing: Vec<_> = programs.iter().filter(missing).copied().collect();
    if !missing.is_empty() {
        println!("skipped: {} not installed on this machine", missing.join(" and "));
    }
    missing.is_empty()
}

fn run(program: &str, arguments: &[&str]) -> Output {
    let output = Command::new(program).args(arguments).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{program} {}: {}\n{}{}",
        arguments.join(" "),
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    );
    output
}

fn said(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Content with holes, as sparse images have.
fn image(path: &Path) -> Vec<u8> {
    let mut content: Vec<u8> = (0..BYTES).map(|i| (i / 7 + i / 4096 * 3) as u8).collect();
    content[1 << 20..3 << 20].fill(0);
    std::fs::write(path, &content).unwrap();
    content
}

#[test]
fn nbdinfo_finds_what_is_served() {
    if !installed(&["nbdinfo"]) {
        return;
    }
    let served = Served::new(Options::default());
    let info = said(&run("nbdinfo", &["--json", &served.uri()]));
    for expected in [
        "\"protocol\": \"newstyle-fixed\"",
        "\"TLS\": false",
        "\"structured\": true",
        "\"base:allocation\"",
        &format!("\"export-size\": {BYTES}"),
        "\"can_flush\": true",
        "\"can_fua\": true",
        "\"can_multi_conn\": true",
        "\"can_trim\": true",
        "\"can_zero\": true",
        "\"can_df\": true",
        "\"is_read_only\": false",
        "\"block_size_minimum\": 1",
        "\"block_size_preferred\": 4096",
        "\"block_size_maximum\": 33554432",
    ] {
        assert!(info.contains(expected), "{expected} is missing in\n{info}");
    }
    let listed = said(&run("nbdinfo", &["--list", "--json", &served.uri()]));
    assert_eq!(listed.matches("export-name").count(), 1, "{listed}");
    run("nbdinfo", &["--can", "trim", &served.uri()]);
    let map = said(&run("nbdinfo", &["--map", &served.uri()]));
    assert_eq!(map.split_whitespace().collect::<Vec<_>>(), ["0", &BYTES.to_string(), "3", "hole,zero"], "{map}");
    served.stop();
}

#[test]
fn nbdcopy_copies_there_and_back() {
    if !installed(&["nbdcopy", "nbdinfo"]) {
        return;
    }
    for delayed in [false, true] {
        let served = Served::new(Options { delayed, ..Options::default() });
        let (there, back) = (served.file("there"), served.file("back"));
        let content = image(&there);
        // Four connections, each with requests in flight.
        run("nbdcopy", &["--connections=4", "--flush", there.to_str().unwrap(), &served.uri()]);
        let totals = said(&run("nbdinfo", &["--map", "--totals", &served.uri()]));
        assert!(totals.contains("2097152") && totals.contains("hole,zero"), "{totals}");
        run("nbdcopy", &["--connections=4", &served.uri(), back.to_str().unwrap()]);
        assert!(std::fs::read(back).unwrap() == content, "what came back is something else");
        assert!(served.stop().data == content, "what arrived is something else");
    }
}

#[test]
fn qemu_img_converts_and_compares() {
    if !installed(&["qemu-img"]) {
        return;
    }
    let served = Served::new(Options::default());
    let (raw, uri, qcow) = (served.file("raw"), served.uri(), served.file("copy.qcow2"));
    let content = image(&raw);
    let (raw, qcow) = (raw.to_str().unwrap(), qcow.to_str().unwrap());
    run("qemu-img", &["convert", "-n", "-f", "raw", "-O", "raw", raw, &uri]);
    let info = said(&run("qemu-img", &["info", &uri]));
    assert!(info.contains(&format!("({BYTES} bytes)")), "{info}");
    run("qemu-img", &["compare", "-f", "raw", "-F", "raw", raw, &uri]);
    run("qemu-img", &["convert", "-f", "raw", "-O", "qcow2", &uri, qcow]);
    run("qemu-img", &["compare", "-f", "qcow2", "-F", "raw", qcow, &uri]);
    let map = said(&run("qemu-img", &["map", "--output=json", "-f", "raw", &uri]));
    assert!(map.contains("\"zero\": true") && map.contains("\"data\": true"), "{map}");
    assert!(served.stop().data == content);
}

#[test]
fn qemu_io_writes_discards_and_zeroes() {
    if !installed(&["qemu-io"]) {
        return;
    }
    let served = Served::new(Options::default());
    let commands = [
        "write -P 0xa5 0 1M",
        "write -f -P 0x5a 511 3",
        "read -P 0x5a 511 3",
        "read -P 0xa5 0 511",
        "discard 64k 64k",
        "read -P 0 64k 64k",
        "write -z 200k 1234",
        "read -P 0 200k 1234",
        "write -z -u 300k 64k",
        "read -P 0 300k 64k",
        "aio_write -P 1 2M 64k",
        "aio_write -P 2 3M 64k",
        "aio_flush",
        "read -P 1 2M 64k",
        "read -P 2 3M 64k",
        "flush",
    ];
    let mut arguments = vec!["-f", "raw"];
    commands.iter().for_each(|command| arguments.extend(["-c", command]));
    let uri = served.uri();
    arguments.push(&uri);
    let output = said(&run("qemu-io", &arguments));
    assert!(!output.contains("failed") && !output.contains("error"), "{output}");
    let memory = served.stop();
    assert_eq!(memory.data[511..515], [0x5a, 0x5a, 0x5a, 0xa5]);
    assert_eq!(memory.data[2 << 20], 1);
}

#[test]
fn fio_reads_back_what_it_wrote() {
    if !installed(&["fio"]) {
        return;
    }
    for delayed in [false, true] {
        let served = Served::new(Options { delayed, ..Options::default() });
        let uri = format!("--uri={}", served.uri());
        for mix in [
            ["--rw=randwrite", "--bs=4k", "--iodepth=16"],
            ["--rw=randwrite", "--bsrange=512-64k", "--iodepth=8"],
            ["--rw=write", "--bs=1M", "--iodepth=4"],
        ] {
            let fixed = ["--name=verify", "--ioengine=nbd", &uri, "--size=8M", "--verify=crc32c", "--verify_fatal=1"];
            let arguments: Vec<&str> = fixed.iter().copied().chain(mix).chain(["--fsync=64"]).collect();
            run("fio", &arguments);
        }
        served.stop();
    }
}

/// What the same questions get from `nbdkit memory`, which is the yardstick in other respects, too.
#[test]
fn answers_are_those_of_nbdkit() {
    if !installed(&["nbdkit", "nbdinfo", "qemu-io"]) {
        return;
    }
    let served = Served::new(Options::default());
    let size = BYTES.to_string();
    let peer = |command: String| {
        let output = run("nbdkit", &["-U", "-", "memory", &size, "--run", &command]);
        said(&output)
    };
    for capability in ["flush", "fua", "multi-conn", "trim", "zero", "df", "structured-reply"] {
        let question = format!("nbdinfo --can {capability}");
        let theirs = peer(format!("{question} \"$uri\"; echo $?"));
        let ours = Command::new("nbdinfo").args(["--can", capability, &served.uri()]).status().unwrap();
        assert_eq!(theirs.trim(), ours.code().unwrap().to_string(), "{capability}");
    }
    let commands = "-c 'write -P 3 4097 10k' -c 'discard 8k 4k' -c 'read -v 4090 32' -c 'read -v 8190 16'";
    let script = |uri: &str| format!("qemu-io -f raw {commands} '{uri}' | grep -v ops");
    let ours = said(&run("sh", &["-c", &script(&served.uri())]));
    let theirs = peer(script("'\"$uri\"'"));
    assert_eq!(ours, theirs);
    served.stop();
}

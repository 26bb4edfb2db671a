//! A thousand clients that stop in the middle of something: what they cost the server, and another client.
//!
//! The one test here has a process of its own, since it measures how much memory its process has.

#![cfg(target_os = "linux")]

#[path = "support/memory.rs"]
mod memory;

use device::nbd::client::Client;
use device::nbd::protocol::{Command, MAX_PAYLOAD_BYTES, REQUEST_BYTES, Request};
use device::nbd::{Address, Options, Server};
use memory::Memory;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// Clients that stop within their handshake, and as many that stop within the header of a request.
const CLIENTS: usize = 500;

/// Clients that promise the longest write there is and send one byte of it.
const PROMISING: usize = 60;

/// Reads of the client that wants something.
const READS: usize = 200;

/// Bytes of memory that this process has.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux says what a process takes");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line with resident memory");
    line.trim().strip_suffix(" kB").expect("in units of 1,024 bytes").parse::<u64>().expect("a number") << 10
}

/// Makes sure of so many open files, if the system allows them.
fn allow_files(wanted: u64) -> bool {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // No limit is as good as a high one.
    let enough = |limit: Option<u64>| limit.is_none_or(|limit| limit >= wanted);
    enough(current) || enough(maximum) && setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum }).is_ok()
}

/// A client that has sent so much of a handshake, and has the server's greeting.
fn greeted(path: &Path, sent: &[u8]) -> UnixStream {
    let mut stream = UnixStream::connect(path).expect("the server takes so many");
    stream.read_exact(&mut [0; 18]).expect("a greeting");
    stream.write_all(sent).expect("the server listens");
    stream
}

/// Each client that promised a long write took 64 MiB once, and 60 of them ended a server that had 2.5 GB. A client
/// that stops earlier has a thread and a buffer, of which it must touch no more than it sent.
#[test]
fn clients_that_stop_half_way_take_little_memory_and_nobodys_time() {
    let most_connections = 2 * CLIENTS + PROMISING + 1;
    // Both ends of each connection are in this process.
    if !allow_files(2 * most_connections as u64 + 100) {
        println!("skipped: this system does not let a process have {} open files", 2 * most_connections + 100);
        return;
    }
    let directory = tempfile::tempdir().expect("a place for the socket");
    let path = directory.path().join("socket");
    // By default the server takes 1,000 clients, and leaves one that is 10 s into its handshake: all are to stay.
    let options = Options { most_connections, patience: Duration::from_secs(600), ..Options::default() };
    let server = Server::start(&Address::Unix(path.clone()), Memory::new(1 << 20), options).expect("it listens");
    let before = resident_bytes();

    // Flags, and an option with 60,000 bytes of data: the clients stop within either, or after some of the data.
    let option = [&3u32.to_be_bytes()[..], b"IHAVEOPT", &7u32.to_be_bytes(), &60_000u32.to_be_bytes()].concat();
    let option = [option, vec![0; 80]].concat();
    let shaking: Vec<UnixStream> = (0..CLIENTS).map(|i| greeted(&path, &option[..i % option.len()])).collect();
    let export = [&3u32.to_be_bytes()[..], b"IHAVEOPT", &1u32.to_be_bytes(), &0u32.to_be_bytes()].concat();
    let begun = |sent: &[u8]| {
        let mut stream = greeted(&path, &export);
        stream.read_exact(&mut [0; 10]).expect("size and flags");
        stream.write_all(sent).expect("the server listens");
        stream
    };
    let header = |command, length| Request { flags: 0, command, cookie: 1, offset: 0, length }.encode();
    let request = header(Command::Read, 4096);
    let (half, rest) = request.split_at(REQUEST_BYTES / 2);
    let mut asking: Vec<UnixStream> = (0..CLIENTS).map(|_| begun(half)).collect();
    let promise = [&header(Command::Write, MAX_PAYLOAD_BYTES)[..], b"x"].concat();
    let promising: Vec<UnixStream> = (0..PROMISING).map(|_| begun(&promise)).collect();

    let mut client = Client::connect(&path).expect("there is room for one more");
    let mut took: Vec<Duration> = (0..READS)
        .map(|_| {
            let began = Instant::now();
            assert_eq!(client.ask(Command::Read, 0, 0, 4096, &[]).expect("an answer").data.len(), 4096);
            began.elapsed()
        })
        .collect();
    let more = resident_bytes().saturating_sub(before);
    took.sort_unstable();
    let (median, most) = (took[READS / 2], took[READS * 95 / 100]);
    println!("{} KiB more; a read took {median:?}, 95 of 100 at most {most:?}, all {:?}", more >> 10, took[READS - 1]);
    assert_eq!(server.statistics().connections, most_connections, "somebody was left meanwhile");
    assert!(more < 200 << 20, "{more} bytes more");
    // Not the slowest read: on a machine that does other things any one of them may wait for the processor as long as
    // that pleases. Clients that are in the way are so each time.
    assert!(median < Duration::from_millis(100) && most < Duration::from_millis(100), "{median:?}, {most:?}");

    // Whoever goes on where he stopped is served.
    let last = &mut asking[CLIENTS - 1];
    last.write_all(rest).expect("the server listens");
    let mut reply = [0xee; 16 + 4096];
    last.read_exact(&mut reply).expect("an answer");
    assert_eq!((&reply[4..8], &reply[16..]), (&[0; 4][..], &[0; 4096][..]));
    drop((shaking, asking, promising));
    let deadline = Instant::now() + Duration::from_secs(60);
    while server.statistics().connections > 1 {
        assert!(Instant::now() < deadline, "connections of clients that are gone stay open");
        std::thread::sleep(Duration::from_millis(5));
    }
    server.stop().expect("no request panicked");
}

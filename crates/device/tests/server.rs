//! The server over real sockets, with the small client: what is promised, and what harms nobody.

#[path = "support/memory.rs"]
mod memory;

use device::export::{Done, Export, ExportError, Extent};
use device::nbd::client::Client;
use device::nbd::protocol::{Command, FLAG_FUA, FLAG_NO_HOLE, FLAG_REQ_ONE, MAX_PAYLOAD_BYTES, Request};
use device::nbd::statistics::Kind;
use device::nbd::{Address, Options, Server};
use memory::Memory;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const BYTES: usize = 1 << 20;

/// A path for a socket that is gone at the end.
struct Socket(PathBuf);

impl Socket {
    fn new() -> Socket {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Socket(std::env::temp_dir().join(format!("ftlab-server-{}-{number}", std::process::id())))
    }

    fn serve<E: Export + 'static>(&self, export: E, options: Options) -> Server<E> {
        Server::start(&Address::Unix(self.0.clone()), export, options).unwrap()
    }

    fn client(&self) -> Client {
        Client::connect(&self.0).unwrap()
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn pattern(bytes: usize, seed: u8) -> Vec<u8> {
    (0..bytes).map(|i| (i as u8).wrapping_mul(31).wrapping_add(seed)).collect()
}

#[test]
fn every_command_does_what_it_says() {
    let socket = Socket::new();
    let server = socket.serve(Memory::new(BYTES), Options::default());
    let mut client = socket.client();
    assert_eq!((client.bytes(), client.flags()), (BYTES as u64, 0x1ed));
    let data = pattern(10_000, 1);
    assert_eq!(client.ask(Command::Write, FLAG_FUA, 3000, 10_000, &data).unwrap().error, 0);
    assert_eq!(client.ask(Command::Read, 0, 3000, 10_000, &[]).unwrap().data, data);
    assert_eq!(client.ask(Command::Flush, 0, 0, 0, &[]).unwrap().error, 0);
    let extents = client.ask(Command::BlockStatus, 0, 0, 40_960, &[]).unwrap().extents;
    assert_eq!(extents, [Extent { bytes: 16_384, hole: false }, Extent { bytes: 24_576, hole: true }]);
    let one = client.ask(Command::BlockStatus, FLAG_REQ_ONE, 100, 40_000, &[]).unwrap().extents;
    assert_eq!(one, [Extent { bytes: 16_284, hole: false }]);
    assert_eq!(client.ask(Command::Trim, 0, 4096, 8192, &[]).unwrap().error, 0);
    assert_eq!(client.ask(Command::Read, 0, 4096, 8192, &[]).unwrap().data, vec![0; 8192]);
    assert_eq!(client.ask(Command::WriteZeroes, 0, 3000, 1096, &[]).unwrap().error, 0);
    assert_eq!(client.ask(Command::WriteZeroes, FLAG_NO_HOLE | FLAG_FUA, 500_000, 300_000, &[]).unwrap().error, 0);
    let extents = client.ask(Command::BlockStatus, FLAG_REQ_ONE, 500_000, 300_000, &[]).unwrap().extents;
    assert!(!extents[0].hole && extents[0].bytes >= 300_000, "{extents:?}");
    let statistics = server.statistics();
    assert_eq!(statistics.of(Kind::Write).requests, 1);
    assert_eq!(statistics.of(Kind::Read).bytes, 10_000 + 8192);
    assert_eq!((statistics.requests(), statistics.latency_ns.len()), (10, 10));
    assert_eq!((statistics.connections, statistics.refused), (1, 0));
    let memory = server.stop().unwrap();
    assert_eq!(memory.flushes, 3, "a write and zeros that are to be durable, and a flush");
    assert_eq!(memory.data[3000..4096], [0; 1096]);
    assert_eq!(memory.data[12_288..13_000], data[9288..]);
}

#[test]
fn what_is_wrong_is_refused_and_the_connection_lives_on() {
    let socket = Socket::new();
    let server = socket.serve(Memory::new(BYTES), Options::default());
    let mut client = socket.client();
    let (end, most) = (BYTES as u64, MAX_PAYLOAD_BYTES);
    let too_long = vec![0; most as usize + 1];
    /// Command, flags, offset, length, data, and the error that is due.
    type Case<'a> = (Command, u16, u64, u32, &'a [u8], u32);
    let cases: &[Case<'_>] = &[
        (Command::Read, 0, end - 100, 101, &[], 22),
        (Command::Read, 0, u64::MAX, 1, &[], 22),
        (Command::Read, 0, 0, 0, &[], 22),
        (Command::Read, 0, 0, most + 1, &[], 22),
        (Command::Read, 0, 0, u32::MAX, &[], 22),
        (Command::Read, 1 << 9, 0, 1, &[], 22),
        (Command::Write, 0, end, 1, b"x", 28),
        (Command::Write, 0, 0, most + 1, &too_long, 22),
        (Command::Write, FLAG_NO_HOLE, 0, 1, b"x", 22),
        (Command::Trim, 0, end, 1, &[], 22),
        (Command::WriteZeroes, 0, end - 1, 2, &[], 28),
        (Command::Flush, FLAG_NO_HOLE, 0, 0, &[], 22),
        (Command::Unknown(5), 0, 0, 1, &[], 22),
        (Command::Unknown(999), 0, 0, 77, &[], 22),
    ];
    for &(command, flags, offset, length, data, error) in cases {
        let answer = client.ask(command, flags, offset, length, data).unwrap();
        assert_eq!(answer.error, error, "{command:?} {flags} {offset} {length}");
    }
    assert_eq!(client.ask(Command::Read, 0, end - 1, 1, &[]).unwrap().data, [0]);
    assert_eq!(server.statistics().refused, cases.len() as u64);
    assert!(server.stop().unwrap().written.iter().all(|written| !written));
}

/// A device that fails, each request in another way.
struct Bad(ExportError);

impl Export for Bad {
    fn bytes(&self) -> u64 {
        BYTES as u64
    }
    fn block_bytes(&self) -> u32 {
        4096
    }
    fn read(&mut self, offset: u64, _: &mut [u8]) -> Result<Done, ExportError> {
        assert_ne!(offset, 13, "a bug of the device");
        Err(self.0)
    }
    fn write(&mut self, _: u64, _: &[u8]) -> Result<Done, ExportError> {
        Err(self.0)
    }
    fn trim(&mut self, _: u64, _: u64) -> Result<Done, ExportError> {
        Err(self.0)
    }
    fn zero(&mut self, _: u64, _: u64) -> Result<Done, ExportError> {
        Err(self.0)
    }
    fn flush(&mut self) -> Result<Done, ExportError> {
        Err(self.0)
    }
    fn extents(&mut self, _: u64, _: u64, _: &mut Vec<Extent>) -> Result<(), ExportError> {
        Err(self.0)
    }
    fn idle(&mut self) -> bool {
        false
    }
}

#[test]
fn errors_of_the_device_reach_the_client() {
    for (error, number) in [(ExportError::Io, 5), (ExportError::NoSpace, 28), (ExportError::Invalid, 22)] {
        let socket = Socket::new();
        let server = socket.serve(Bad(error), Options::default());
        let mut client = socket.client();
        for command in [Command::Read, Command::Write, Command::Trim, Command::WriteZeroes, Command::BlockStatus] {
            let data = if command == Command::Write { &b"x"[..] } else { &[] };
            assert_eq!(client.ask(command, 0, 0, 1, data).unwrap().error, number, "{command:?}");
        }
        assert_eq!(client.ask(Command::Flush, 0, 0, 0, &[]).unwrap().error, number);
        assert_eq!(server.statistics().of(Kind::Flush).failed, 1);
        server.stop().unwrap();
    }
}

#[test]
fn a_device_that_panics_takes_nobody_with_it() {
    for delayed in [false, true] {
        let socket = Socket::new();
        let server = socket.serve(Bad(ExportError::NoSpace), Options { delayed, ..Options::default() });
        let mut other = socket.client();
        assert!(socket.client().ask(Command::Read, 0, 13, 1, &[]).is_err(), "the reply of a request that panicked");
        assert!(server.failed());
        assert_eq!(other.ask(Command::Read, 0, 0, 1, &[]).unwrap().error, 5);
        assert!(server.stop().is_none());
    }
}

#[test]
fn a_client_that_vanishes_in_the_middle_of_a_write_changes_nothing() {
    let socket = Socket::new();
    let server = socket.serve(Memory::new(BYTES), Options::default());
    let mut witness = socket.client();
    let mut leaving = socket.client();
    let request = Request { flags: 0, command: Command::Write, cookie: 1, offset: 0, length: 500_000 };
    leaving.send_raw(&request.encode()).unwrap();
    leaving.send_raw(&vec![0xff; 400_000]).unwrap();
    drop(leaving);
    let deadline = Instant::now() + Duration::from_secs(10);
    while server.statistics().connections > 1 {
        assert!(Instant::now() < deadline, "the connection of a client that is gone stays open");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(witness.ask(Command::Read, 0, 0, 500_000, &[]).unwrap().data, vec![0; 500_000]);
    // Gone with replies outstanding that nobody reads.
    let mut leaving = socket.client();
    for _ in 0..20 {
        leaving.send(Command::Read, 0, 0, 1 << 20, &[]).unwrap();
    }
    drop(leaving);
    assert_eq!(witness.ask(Command::Write, 0, 0, 5, b"still").unwrap().error, 0);
    let memory = server.stop().unwrap();
    assert_eq!(memory.data[..5], *b"still");
}

#[test]
fn whoever_breaks_the_protocol_is_left_and_the_others_are_served() {
    let socket = Socket::new();
    let server = socket.serve(Memory::new(BYTES), Options::default());
    let mut witness = socket.client();
    let mut stranger = UnixStream::connect(&socket.0).unwrap();
    stranger.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut heard = Vec::new();
    // The server closes with bytes unread, which the system may report as a reset.
    let _ = stranger.read_to_end(&mut heard);
    assert_eq!(heard, b"NBDMAGICIHAVEOPT\0\x03");
    let mut lost = socket.client();
    lost.send_raw(&[0x25; 100]).unwrap();
    assert!(lost.receive().is_err());
    assert_eq!(witness.ask(Command::Read, 0, 0, 3, &[]).unwrap().data, [0; 3]);
    server.stop().unwrap();
}

#[test]
fn many_connections_share_one_device() {
    let socket = Socket::new();
    let server = socket.serve(Memory::new(BYTES), Options::default());
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let mut client = socket.client();
            scope.spawn(move || {
                // Requests in flight, several at once, replies in whatever order.
                for round in 0..50u64 {
                    let at =
                        |slot: u64| ((slot * 4 + thread) * 4096, pattern(4096, (thread * 50 + round + slot) as u8));
                    for slot in 0..16 {
                        let (offset, data) = at(slot);
                        client.send(Command::Write, 0, offset, 4096, &data).unwrap();
                    }
                    (0..16).for_each(|_| assert_eq!(client.receive().unwrap().error, 0));
                    for slot in 0..16 {
                        let (offset, data) = at(slot);
                        assert_eq!(client.ask(Command::Read, 0, offset, 4096, &[]).unwrap().data, data);
                    }
                }
            });
        }
    });
    assert_eq!(server.statistics().of(Kind::Write).requests, 4 * 50 * 16);
    server.stop().unwrap();
}

#[test]
fn tcp_serves_as_well() {
    let address = Address::Tcp((Ipv4Addr::LOCALHOST, 0).into());
    let server = Server::start(&address, Memory::new(BYTES), Options::default()).unwrap();
    let Address::Tcp(address) = server.address().clone() else { panic!("another kind of address") };
    let mut stream = TcpStream::connect(address).unwrap();
    let mut greeting = [0; 18];
    stream.read_exact(&mut greeting).unwrap();
    let options = [&3u32.to_be_bytes()[..], b"IHAVEOPT", &1u32.to_be_bytes(), &0u32.to_be_bytes()].concat();
    let read = Request { flags: 0, command: Command::Read, cookie: 9, offset: 0, length: 4 };
    stream.write_all(&[options, read.encode().to_vec()].concat()).unwrap();
    let mut reply = [0; 10 + 16 + 4];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!(reply[10..], [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0]);
    server.stop().unwrap();
}

#[test]
fn a_socket_that_a_dead_server_left_is_taken_over_and_one_in_use_is_not() {
    let socket = Socket::new();
    drop(std::os::unix::net::UnixListener::bind(&socket.0).unwrap());
    let server = socket.serve(Memory::new(BYTES), Options::default());
    let second = Server::start(&Address::Unix(socket.0.clone()), Memory::new(BYTES), Options::default());
    assert_eq!(second.unwrap_err().kind(), std::io::ErrorKind::AddrInUse);
    socket.client();
    server.stop().unwrap();
    assert!(!socket.0.exists());
    std::fs::write(&socket.0, "a file of somebody").unwrap();
    Server::start(&Address::Unix(socket.0.clone()), Memory::new(BYTES), Options::default()).unwrap_err();
    assert_eq!(std::fs::read_to_string(&socket.0).unwrap(), "a file of somebody");
}

/// A connection in its transmission phase, without the small client's manners.
fn raw(socket: &Socket) -> UnixStream {
    let mut stream = UnixStream::connect(&socket.0).unwrap();
    let option = [&3u32.to_be_bytes()[..], b"IHAVEOPT", &1u32.to_be_bytes(), &0u32.to_be_bytes()].concat();
    stream.write_all(&option).unwrap();
    stream.read_exact(&mut [0; 18 + 10]).unwrap();
    stream
}

fn write_header(length: u32) -> [u8; 28] {
    Request { flags: 0, command: Command::Write, cookie: 1, offset: 0, length }.encode()
}

#[test]
fn a_client_that_does_not_finish_its_handshake_is_left() {
    let socket = Socket::new();
    let patience = Duration::from_millis(300);
    let server = socket.serve(Memory::new(BYTES), Options { patience, ..Options::default() });
    let mut in_time = socket.client();
    let began = Instant::now();
    let mut slow = UnixStream::connect(&socket.0).unwrap();
    slow.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    // A byte now and then: flags, and an option of which there is always more to come.
    let dripping = slow.try_clone().unwrap();
    let drip = std::thread::spawn(move || {
        let bytes = [&3u32.to_be_bytes()[..], b"IHAVEOPT", &7u32.to_be_bytes(), &60_000u32.to_be_bytes()].concat();
        let forever = bytes.into_iter().chain(std::iter::repeat(0));
        for byte in forever.take_while(|_| began.elapsed() < Duration::from_secs(20)) {
            if (&dripping).write_all(&[byte]).is_err() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    assert_eq!(in_time.ask(Command::Write, 0, 0, 4, b"time").unwrap().error, 0);
    let mut heard = Vec::new();
    // It is left with bytes on their way, which may count as a broken connection.
    let _ = slow.read_to_end(&mut heard);
    assert_eq!(heard.len(), 18, "nothing but the greeting");
    assert!(began.elapsed() >= patience && began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    drip.join().unwrap();
    // Who has shaken hands may be silent for longer.
    assert_eq!(in_time.ask(Command::Read, 0, 0, 4, &[]).unwrap().data, b"time");
    server.stop().unwrap();
}

#[test]
fn beyond_the_most_connections_a_client_is_turned_away() {
    let socket = Socket::new();
    let server = socket.serve(Memory::new(BYTES), Options { most_connections: 2, ..Options::default() });
    let (first, mut second) = (socket.client(), socket.client());
    let mut third = UnixStream::connect(&socket.0).unwrap();
    assert!(matches!(third.read(&mut [0; 18]), Ok(0) | Err(_)), "not even a greeting");
    assert_eq!(second.ask(Command::Flush, 0, 0, 0, &[]).unwrap().error, 0);
    drop(first);
    let began = Instant::now();
    while Client::connect(&socket.0).is_err() {
        assert!(began.elapsed() < Duration::from_secs(10), "the place of one that left is free");
        std::thread::sleep(Duration::from_millis(5));
    }
    server.stop().unwrap();
}

#[test]
fn who_has_much_under_way_holds_up_long_requests_alone() {
    let socket = Socket::new();
    let patience = Duration::from_millis(200);
    let server = socket.serve(Memory::new(BYTES), Options { most_bytes: 1 << 20, patience, ..Options::default() });
    let data = pattern(900_000, 3);
    let mut slow = raw(&socket);
    slow.write_all(&[&write_header(900_000)[..], &data[..800_000]].concat()).unwrap();
    let mut client = socket.client();
    let mut ask = |length| client.ask(Command::Read, 0, 0, length, &[]).unwrap();
    let began = Instant::now();
    while ask(BYTES as u32).error == 0 {
        assert!(began.elapsed() < Duration::from_secs(10), "it has not all arrived yet");
    }
    assert_eq!((ask(BYTES as u32).error, ask(4096).error), (12, 0));
    slow.write_all(&data[800_000..]).unwrap();
    slow.read_exact(&mut [0; 16]).unwrap();
    assert_eq!(ask(BYTES as u32).data[..900_000], data);
    drop(slow);
    server.stop().unwrap();
}

#[test]
fn a_socket_is_its_owners_alone_unless_asked_otherwise() {
    use std::os::unix::fs::PermissionsExt;
    for (options, expected) in
        [(Options::default(), 0o600), (Options { socket_mode: 0o666, ..Options::default() }, 0o666)]
    {
        let socket = Socket::new();
        let server = socket.serve(Memory::new(BYTES), options);
        assert_eq!(std::fs::metadata(&socket.0).unwrap().permissions().mode() & 0o777, expected);
        socket.client();
        server.stop().unwrap();
    }
}

#[test]
fn stopping_answers_what_was_begun_and_waits_for_nobody() {
    let socket = Socket::new();
    let server = socket.serve(Memory::new(BYTES), Options::default());
    let idle = socket.client();
    let mut deaf = socket.client();
    // Replies that nobody takes block that connection's thread.
    for _ in 0..40 {
        deaf.send(Command::Read, 0, 0, 1 << 20, &[]).unwrap();
    }
    let mut writing = socket.client();
    writing.send(Command::Write, 0, 0, 4, b"done").unwrap();
    assert_eq!(writing.receive().unwrap().error, 0);
    let began = Instant::now();
    let memory = server.stop().unwrap();
    assert!(began.elapsed() < Duration::from_secs(10));
    assert_eq!(memory.data[..4], *b"done");
    for mut client in [idle, writing] {
        let refused = client.ask(Command::Read, 0, 0, 1, &[]).map_or(true, |answer| answer.error == 108);
        assert!(refused, "a server that has stopped serves");
    }
}

#[test]
fn emulated_timing_holds_replies_and_not_requests() {
    let socket = Socket::new();
    let slow = Memory { delay_ns: 50_000_000, ..Memory::new(BYTES) };
    let server = socket.serve(slow, Options { delayed: true, ..Options::default() });
    let mut client = socket.client();
    let began = Instant::now();
    for i in 0..32 {
        client.send(Command::Write, 0, i * 4096, 4096, &pattern(4096, i as u8)).unwrap();
    }
    assert_eq!(client.receive().unwrap().error, 0);
    assert!(began.elapsed() >= Duration::from_millis(50));
    (1..32).for_each(|_| assert_eq!(client.receive().unwrap().error, 0));
    // One after the other they would take 1.6 s.
    assert!(began.elapsed() < Duration::from_millis(800), "{:?}", began.elapsed());
    let latency = server.statistics().latency_ns;
    assert!(latency.min() >= 49_000_000 && latency.len() == 32);
    assert_eq!(server.stop().unwrap().data[4096..8192], pattern(4096, 1));
}

/// Counts the steps of its background work, each of which takes a while.
struct Busy {
    memory: Memory,
    left: Arc<Mutex<u32>>,
}

impl Export for Busy {
    fn bytes(&self) -> u64 {
        self.memory.bytes()
    }
    fn block_bytes(&self) -> u32 {
        4096
    }
    fn read(&mut self, offset: u64, out: &mut [u8]) -> Result<Done, ExportError> {
        self.memory.read(offset, out)
    }
    fn write(&mut self, offset: u64, data: &[u8]) -> Result<Done, ExportError> {
        *self.left.lock().unwrap() = 3;
        self.memory.write(offset, data)
    }
    fn trim(&mut self, offset: u64, bytes: u64) -> Result<Done, ExportError> {
        self.memory.trim(offset, bytes)
    }
    fn zero(&mut self, offset: u64, bytes: u64) -> Result<Done, ExportError> {
        self.memory.zero(offset, bytes)
    }
    fn flush(&mut self) -> Result<Done, ExportError> {
        *self.left.lock().unwrap() = u32::MAX;
        self.memory.flush()
    }
    fn extents(&mut self, offset: u64, bytes: u64, out: &mut Vec<Extent>) -> Result<(), ExportError> {
        self.memory.extents(offset, bytes, out)
    }
    fn idle(&mut self) -> bool {
        std::thread::sleep(Duration::from_millis(20));
        let mut left = self.left.lock().unwrap();
        *left = left.saturating_sub(1);
        *left > 0
    }
}

#[test]
fn silence_is_used_for_background_work_and_a_request_ends_it() {
    let socket = Socket::new();
    let left = Arc::new(Mutex::new(1));
    let server = socket.serve(Busy { memory: Memory::new(BYTES), left: Arc::clone(&left) }, Options::default());
    let until = |wanted: u32| {
        let deadline = Instant::now() + Duration::from_secs(20);
        while *left.lock().unwrap() != wanted {
            assert!(Instant::now() < deadline, "the device got no time");
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    until(0);
    let mut client = socket.client();
    for _ in 0..3 {
        assert_eq!(client.ask(Command::Write, 0, 0, 1, b"x").unwrap().error, 0);
        until(0);
    }
    // Work without end: a request waits for one step, and a few of them if the machine is busy.
    client.ask(Command::Flush, 0, 0, 0, &[]).unwrap();
    std::thread::sleep(Duration::from_millis(50));
    let began = Instant::now();
    for _ in 0..10 {
        client.ask(Command::Read, 0, 0, 1, &[]).unwrap();
    }
    assert!(began.elapsed() < Duration::from_millis(150), "{:?}", began.elapsed());
    server.stop().unwrap();
}

/// docs/serving.md, *The protocol*.
#[test]
fn turns_and_limits_are_those_that_are_promised() {
    let Options { slice_bytes, hole_bytes, most_connections, most_bytes, patience, .. } = Options::default();
    assert_eq!((slice_bytes, hole_bytes), (1 << 20, 16 << 20));
    assert_eq!((most_connections, most_bytes, patience), (1000, 512 << 20, Duration::from_secs(10)));
}

//! Several clients at once: who waits for whom.

use device::export::{Done, Export, ExportError, Extent};
use device::nbd::client::Client;
use device::nbd::protocol::{Command, FLAG_NO_HOLE};
use device::nbd::server::{HOLE_BYTES, SLICE_BYTES};
use device::nbd::{Address, Options, Server};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;

/// A device that notes the bytes of each operation, and holds the first one until it is let go.
struct Gate {
    bytes: u64,
    log: Arc<Mutex<Vec<(u64, u64)>>>,
    open: Arc<(Mutex<bool>, Condvar)>,
}

impl Gate {
    fn pass(&self, offset: u64, bytes: u64) -> Result<Done, ExportError> {
        let (open, opened) = &*self.open;
        drop(opened.wait_while(open.lock().unwrap(), |open| !*open).unwrap());
        self.log.lock().unwrap().push((offset, bytes));
        Ok(Done::default())
    }
}

impl Export for Gate {
    fn bytes(&self) -> u64 {
        self.bytes
    }
    fn block_bytes(&self) -> u32 {
        4096
    }
    fn read(&mut self, offset: u64, out: &mut [u8]) -> Result<Done, ExportError> {
        self.pass(offset, out.len() as u64)
    }
    fn write(&mut self, offset: u64, data: &[u8]) -> Result<Done, ExportError> {
        self.pass(offset, data.len() as u64)
    }
    fn trim(&mut self, offset: u64, bytes: u64) -> Result<Done, ExportError> {
        self.pass(offset, bytes)
    }
    fn zero(&mut self, offset: u64, bytes: u64) -> Result<Done, ExportError> {
        self.pass(offset, bytes)
    }
    fn flush(&mut self) -> Result<Done, ExportError> {
        self.pass(0, 0)
    }
    fn extents(&mut self, _: u64, bytes: u64, out: &mut Vec<Extent>) -> Result<(), ExportError> {
        out.push(Extent { bytes, hole: false });
        Ok(())
    }
    fn idle(&mut self) -> bool {
        false
    }
}

fn wait_until(what: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !what() {
        assert!(Instant::now() < deadline, "it never comes");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// 1 GiB of zeros without holes held the device for 4 s, and a ping beside 40 readers took as long as all they read.
#[test]
fn a_ping_waits_for_one_slice_of_each_other_client() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let (log, open) = (Arc::default(), Arc::new((Mutex::new(false), Condvar::new())));
    let gate = Gate { bytes: 4096 * MIB, log: Arc::clone(&log), open: Arc::clone(&open) };
    let server = Server::start(&Address::Unix(path.clone()), gate, Options::default()).unwrap();
    let long = [
        (Command::WriteZeroes, FLAG_NO_HOLE, 1024 * MIB),
        (Command::WriteZeroes, 0, 1024 * MIB),
        (Command::Trim, 0, 1024 * MIB),
        (Command::Read, 0, 32 * MIB),
        (Command::Write, 0, 32 * MIB),
    ];
    let data = vec![1; 32 << 20];
    let mut clients: Vec<Client> = Vec::new();
    for (number, &(command, flags, bytes)) in long.iter().enumerate() {
        let mut client = Client::connect(&path).unwrap();
        let data = if command == Command::Write { &data[..] } else { &[] };
        client.send(command, flags, 0, bytes as u32, data).unwrap();
        clients.push(client);
        wait_until(|| server.statistics().in_flight == number as u64 + 1);
    }
    let mut ping = Client::connect(&path).unwrap();
    let ping_at = 4095 * MIB;
    ping.send(Command::Read, 0, ping_at, 1, &[]).unwrap();
    wait_until(|| server.statistics().in_flight == long.len() as u64 + 1);
    // It is in the queue a moment later.
    std::thread::sleep(Duration::from_millis(100));
    *open.0.lock().unwrap() = true;
    open.1.notify_all();
    assert_eq!(ping.receive().unwrap().error, 0);
    std::thread::scope(|scope| {
        for client in &mut clients {
            scope.spawn(|| assert_eq!(client.receive().unwrap().error, 0));
        }
    });
    let log = log.lock().unwrap().clone();
    let before: u64 = log.iter().take_while(|&&(offset, _)| offset != ping_at).map(|&(_, bytes)| bytes).sum();
    assert!(before <= 3 * SLICE_BYTES + 2 * HOLE_BYTES, "{before} bytes before the ping");
    // Nothing is done twice, and nothing is left out.
    let all: u64 = log.iter().map(|&(_, bytes)| bytes).sum();
    assert_eq!(all, 1 + long.iter().map(|&(.., bytes)| bytes).sum::<u64>());
    server.stop().unwrap();
}

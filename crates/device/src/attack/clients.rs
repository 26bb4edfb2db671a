//! Attacks on the server by its clients: what `ftlab check --server` does (docs/serving.md, *Attacks on the server*).
//!
//! A *seed* stands for a small disk that is served. First clients with long requests and one with a short one wait for
//! the disk, which is held up, and must get it in turn. Then four clients, each with several requests under way, read
//! and write the same places, over a disk that fails now and then; two of them vanish and come back, while others break
//! the protocol. What all were told must have happened in one order, and what outlives power must be what that order
//! had come to after the last flush. Some servers are asked for more than they have: connections, bytes, patience.
//!
//! The choices follow from scheme, settings and seed. When which thread runs does not: the same seed may meet another
//! order of requests.
//!
//! ```text
//!  host, rude ── socket ──▶ Server ──▶ Watched ──▶ disk      watched: holds up, fails, keeps what outlives power
//!      │ what it was told                 │ image behind the last flush
//!      └────────────▶ history: one order? ◀┘
//! ```

mod history;
mod host;
mod rude;
mod watched;

use super::report::{Attacks, Counts};
use super::{Attack, Finding, Fresh, PAGE, PAGES, quietly};
use crate::export::{Export, Extent};
use crate::image::{Access, Image};
use crate::nbd::client::Client;
use crate::nbd::handshake::{FIXED_NEWSTYLE, option};
use crate::nbd::protocol::{Command, FLAG_NO_HOLE};
use crate::nbd::statistics::Statistics;
use crate::nbd::{Address, Options, Server};
use flash::Rng;
use history::{Operation, What, is_linearisable};
use host::{Host, Plan, Told, cells_of, value_of};
use rude::{NO_SPACE, Refused, Rude, answer, greeted, is_ended, keep, promise};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::ops::Range;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use watched::{Watch, Watched};

/// Bytes of a place that is watched: requests begin and end where one does.
pub(super) const CELL: u64 = 256;
const CELLS_OF_A_PAGE: u64 = PAGE as u64 / CELL;
const CELLS: u64 = PAGES as u64 * CELLS_OF_A_PAGE;
/// Cells that four clients share.
const SHARED_CELLS: u64 = 10;
/// Bytes of a turn with the disk, so few that there are longer requests.
const SLICE_BYTES: u64 = 2 * PAGE as u64;
const HOLE_BYTES: u64 = 4 * PAGE as u64;
/// Pages of each long request, of which there are so many.
const LONG_PAGES: u64 = 13;
const LONG: u64 = 5;

/// A server that says nothing for so long says nothing any more.
const PATIENCE: Duration = Duration::from_secs(60);

/// The end of what may happen at any time later.
const LATE: Duration = Duration::from_secs(3_600);

/// What an attack on servers did.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Served {
    /// Disks that were served.
    pub servers: u64,
    /// Connections of clients that keep to the protocol.
    pub clients: u64,
    /// Their requests.
    pub requests: u64,
    /// How often they went away without waiting for answers.
    pub vanished: u64,
    /// Requests that were answered with an error of the device.
    pub errors: u64,
    /// Requests and options that had to be refused, and were.
    pub refused: u64,
    /// Connections that the server had to end, and did.
    pub ended: u64,
    /// Servers that were asked for more connections, bytes and patience than they have.
    pub bounds: u64,
    /// Places held to one order of all that clients were told of them.
    pub cells: u64,
    /// Of these, such as were older behind a failure of power.
    pub older: u64,
}

impl Counts for Served {
    const WHAT: &'static str = "server";
    const REQUESTS: u64 = 400;
    const MOST_AT_ONCE: usize = 16;

    fn attack(asked: &Attack<'_>, seed: u64, directory: &Path, stop: &AtomicBool) -> Attacks<Served> {
        let mut served = Served { servers: 1, ..Served::default() };
        let rng = Rng::new(seed).fork(asked.scheme).fork("server");
        let lived = quietly(|| Siege { asked, seed, rng, directory, served: &mut served }.live(stop));
        let what = match lived {
            Ok(Ok(())) => None,
            Ok(Err(Wrong::Found(what) | Wrong::Lost(what))) => Some(what),
            Ok(Err(Wrong::Host(error))) => return Err(error),
            Err(panic) => Some(format!("a panic: {}", super::message(&*panic))),
        };
        Ok((served, what.map(|what| Finding { seed, what })))
    }

    fn add(&mut self, other: &Served) {
        let Served { servers, clients, requests, vanished, errors, refused, ended, bounds, cells, older } = other;
        self.servers += servers;
        self.clients += clients;
        self.requests += requests;
        self.vanished += vanished;
        self.errors += errors;
        self.refused += refused;
        self.ended += ended;
        self.bounds += bounds;
        self.cells += cells;
        self.older += older;
    }
}

/// Why an attack ends early.
enum Wrong {
    /// What the server or the disk did.
    Found(String),
    /// A client lost its connection, or was not answered.
    Lost(String),
    /// There is no place for the image or its socket.
    Host(String),
}

impl From<io::Error> for Wrong {
    fn from(error: io::Error) -> Wrong {
        Wrong::Lost(match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                format!("the server says nothing for {} s", PATIENCE.as_secs())
            }
            _ => format!("a client gets no answer: {error}"),
        })
    }
}

impl Wrong {
    /// Says what it happened in.
    fn within(self, what: &str) -> Wrong {
        match self {
            Wrong::Found(why) => Wrong::Found(format!("{what}: {why}")),
            Wrong::Lost(why) => Wrong::Lost(format!("{what}: {why}")),
            host => host,
        }
    }
}

fn found(what: impl Into<String>) -> Wrong {
    Wrong::Found(what.into())
}

/// A connection that nobody waits at for ever.
fn connect(path: &Path) -> io::Result<UnixStream> {
    let stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// Waits until the server's figures are such.
fn until(server: &Server<Watched>, what: &str, holds: impl Fn(&Statistics) -> bool) -> Result<(), Wrong> {
    let began = Instant::now();
    loop {
        let statistics = server.statistics();
        if holds(&statistics) {
            return Ok(());
        }
        if began.elapsed() > PATIENCE {
            let Statistics { in_flight, connections, waiting, held_bytes, .. } = statistics;
            return Err(found(format!(
                "{what} for {} s: {connections} connections, {in_flight} requests under way, {waiting} wait, \
                 {held_bytes} bytes",
                PATIENCE.as_secs()
            )));
        }
        std::thread::sleep(Duration::from_micros(100));
    }
}

/// Clients that are gone leave nothing behind.
fn until_nobody_is_left(server: &Server<Watched>) -> Result<(), Wrong> {
    until(server, "clients that are gone are there", |statistics| statistics.connections == 0)?;
    let Statistics { in_flight, waiting, held_bytes, .. } = server.statistics();
    if (in_flight, waiting, held_bytes) != (0, 0, 0) {
        return Err(found(format!(
            "all clients are gone, and {in_flight} requests are under way, {waiting} wait, {held_bytes} bytes are held"
        )));
    }
    Ok(())
}

/// What clients have asked, and were told.
struct Asked {
    began: Instant,
    /// All were gone.
    ended: Instant,
    /// The cells that they shared.
    cells: Range<u64>,
    told: Vec<Told>,
}

/// One seed.
struct Siege<'a> {
    asked: &'a Attack<'a>,
    seed: u64,
    rng: Rng,
    directory: &'a Path,
    served: &'a mut Served,
}

impl Siege<'_> {
    fn live(&mut self, stop: &AtomicBool) -> Result<(), Wrong> {
        let image = self.directory.join("ssd.img");
        let fresh = Fresh::create(self.asked, &mut self.rng, &image).map_err(Wrong::Host)?;
        let durable = fresh.is_durable();
        let host = |error: io::Error| Wrong::Host(format!("{}: {error}", image.display()));
        let watched = Watched::new(fresh.disk, &image, self.rng.fork("disk")).map_err(host)?;
        let watch = watched.watch();
        let idle_after = Duration::from_micros(if self.rng.chance(0.5) { 20 } else { 1_000 });
        let socket_mode = if self.rng.chance(0.5) { 0o600 } else { 0o660 };
        let options =
            Options { idle_after, socket_mode, slice_bytes: SLICE_BYTES, hole_bytes: HOLE_BYTES, ..Options::default() };
        let server = self.start(watched, options)?;
        let asked = self.turns(&server, &watch).and_then(|values| {
            let told = self.ask(&server, &watch, durable)?;
            self.extents(&server, &watch)?;
            Ok((values, told))
        });
        // Whatever was found, nobody goes on.
        watch.hold(false);
        let stopped = server.stop();
        if let Some(what) = watch.state().wrong.take() {
            return Err(found(what));
        }
        let (values, told) = asked?;
        let mut watched = stopped.ok_or_else(|| found("a request panicked"))?;
        self.judge(&mut watched, &watch, told, &values)?;
        if self.seed.is_multiple_of(16) && !stop.load(Ordering::Relaxed) {
            watched = self.bounds(watched)?;
            self.served.bounds += 1;
        }
        self.occupied(watched)
    }

    fn socket(&self) -> PathBuf {
        self.directory.join("socket")
    }

    /// Starts a server at the socket, at which there may be what a dead one has left.
    fn start(&mut self, watched: Watched, options: Options) -> Result<Server<Watched>, Wrong> {
        let path = self.socket();
        let host = |error: io::Error| {
            let cure = if path.as_os_str().len() > 100 { "; set TMPDIR to a shorter path" } else { "" };
            Wrong::Host(format!("{}: {error}{cure}", path.display()))
        };
        if self.rng.chance(0.3) {
            drop(UnixListener::bind(&path).map_err(host)?);
        }
        let server = Server::start(&Address::Unix(path.clone()), watched, options).map_err(host)?;
        let mode = fs::metadata(&path).map_err(host)?.permissions().mode() & 0o777;
        if mode != options.socket_mode {
            return Err(found(format!("a socket of mode {mode:o} instead of {:o}", options.socket_mode)));
        }
        Ok(server)
    }

    /// Clients that came one after another get the disk one after another, with a slice of their requests each. The
    /// values of all cells afterwards.
    fn turns(&mut self, server: &Server<Watched>, watch: &Watch) -> Result<Vec<u64>, Wrong> {
        let path = self.socket();
        let client = || connect(&path).and_then(Client::over);
        let bytes = LONG_PAGES * PAGE as u64;
        let mut kinds = [
            (Command::Write, 0),
            (Command::WriteZeroes, FLAG_NO_HOLE),
            (Command::WriteZeroes, 0),
            (Command::Trim, 0),
            (Command::Read, 0),
        ];
        kinds.rotate_left(self.rng.below(LONG) as usize);
        let mut values = vec![0; CELLS as usize];
        let mut clients = Vec::new();
        watch.hold(true);
        let queued = |number: usize| {
            until(server, "a request does not wait for the disk", |statistics| {
                watch.state().is_waited_for && statistics.waiting == number
            })
        };
        for (number, &(command, flags)) in kinds.iter().enumerate() {
            let (mut client, offset) = (client()?, number as u64 * bytes);
            let data = if command == Command::Write { cells_of(1, bytes / CELL) } else { Vec::new() };
            client.send(command, flags, offset, bytes as u32, &data)?;
            let first = (offset / CELL) as usize;
            values[first..first + data.len() / CELL as usize].fill(1);
            clients.push(client);
            queued(number)?;
        }
        let (mut ping, ping_at) = (client()?, (CELLS - 1) * CELL);
        ping.send(Command::Read, 0, ping_at, 1, &[])?;
        queued(LONG as usize)?;
        watch.hold(false);
        for client in clients.iter_mut().chain([&mut ping]) {
            let error = client.receive()?.error;
            if error != 0 {
                return Err(found(format!("a long request is answered with error {error}")));
            }
        }
        let log = std::mem::take(&mut watch.state().log);
        let whose = |&(offset, _): &(u64, u64)| if offset == ping_at { LONG } else { offset / bytes };
        let first: Vec<u64> = log.iter().take(LONG as usize + 1).map(whose).collect();
        if first != (0..=LONG).collect::<Vec<_>>() {
            return Err(found(format!("clients that came one after another get the disk in the order {first:?}")));
        }
        let most = |&(offset, _): &(u64, u64)| match kinds.get((offset / bytes) as usize) {
            Some((Command::Trim, _) | (Command::WriteZeroes, 0)) => HOLE_BYTES,
            _ => SLICE_BYTES,
        };
        if let Some(&(_, taken)) = log.iter().find(|turn| turn.1 > most(turn)) {
            return Err(found(format!("a turn with the disk has {taken} bytes")));
        }
        let mut sorted = log;
        sorted.sort_unstable();
        let mut end = 0;
        let is_next = |&(offset, bytes): &(u64, u64)| offset == std::mem::replace(&mut end, offset + bytes);
        let ping_alone = sorted.pop() == Some((ping_at, 1));
        if !ping_alone || !sorted.iter().all(is_next) || end != LONG * bytes {
            return Err(found(format!("the disk did not do each byte of the requests once: {sorted:?}")));
        }
        let flushed = ping.ask(Command::Flush, 0, 0, 0, &[])?.error;
        let answer = ping.ask(Command::Read, 0, 0, (CELLS * CELL) as u32, &[])?;
        let read: Result<Vec<u64>, String> = answer.data.chunks(CELL as usize).map(value_of).collect();
        if (flushed, answer.error) != (0, 0) || read.as_ref() != Ok(&values) {
            return Err(found("long requests have not left what they wrote, or zeros"));
        }
        self.served.clients += LONG + 1;
        self.served.requests += LONG + 3;
        Ok(values)
    }

    /// Several clients at once, and power that fails.
    fn ask(&mut self, server: &Server<Watched>, watch: &Watch, durable: bool) -> Result<Asked, Wrong> {
        const HOSTS: u64 = 4;
        let path = self.socket();
        let first = self.rng.below(CELLS - SHARED_CELLS + 1);
        let cells = first..first + SHARED_CELLS;
        let requests = (self.asked.requests / HOSTS).max(1);
        let plan = Plan { path: &path, cells: cells.clone(), requests, durable };
        let fails = if self.rng.chance(0.3) { 0.02 } else { 0.0 };
        {
            let mut state = watch.state();
            // Somewhere among their operations, or behind all.
            state.until_off = 1 + self.rng.below(3 * HOSTS * requests);
            state.fails = fails;
        }
        let began = Instant::now();
        let rng = &self.rng;
        let (told, rude) = std::thread::scope(|scope| {
            let host = |number: u64| {
                let (plan, rng) = (plan.clone(), rng.fork(&format!("host {number}")));
                scope.spawn(move || Host::connect(plan, (number, number >= HOSTS / 2), rng)?.run())
            };
            let hosts: Vec<_> = (0..HOSTS).map(host).collect();
            let (path, rng) = (&path, rng.fork("rude"));
            let rude = scope.spawn(move || {
                let (bytes, fails, refused) = (CELLS * CELL, fails > 0.0, Refused::default());
                let mut rude = Rude { path, bytes, fails, rng, refused };
                let calls = 1 + rude.rng.below(8);
                (0..calls).try_for_each(|_| rude.call()).map(|()| rude.refused)
            });
            let told: Vec<_> = hosts.into_iter().map(|host| host.join().expect("a host does not panic")).collect();
            (told, rude.join().expect("a client does not panic"))
        });
        watch.state().fails = 0.0;
        let told = told.into_iter().collect::<Result<Vec<Told>, Wrong>>()?;
        let rude = rude?;
        until_nobody_is_left(server)?;
        let (errors, failed) = (told.iter().map(|told| told.errors).sum::<u64>(), watch.state().failed);
        if errors > failed {
            return Err(found(format!("{errors} requests failed, and the disk {failed} times")));
        }
        self.served.clients += HOSTS;
        self.served.requests += told.iter().map(|told| told.requests).sum::<u64>();
        self.served.vanished += told.iter().map(|told| told.vanished).sum::<u64>();
        self.served.errors += errors;
        self.served.refused += rude.requests;
        self.served.ended += rude.ended;
        Ok(Asked { began, ended: Instant::now(), cells, told })
    }

    /// Whether there is one order of all, and whether that is what is left.
    fn judge(&mut self, watched: &mut Watched, watch: &Watch, asked: Asked, values: &[u64]) -> Result<(), Wrong> {
        let Asked { began, ended, cells, told } = asked;
        let (off_at, kept) = {
            let mut state = watch.state();
            (state.off_at.unwrap_or(ended), std::mem::take(&mut state.kept))
        };
        let flushes = told.iter().flat_map(|told| &told.flushes).filter(|&&(_, answered)| answered < off_at);
        let flushed = flushes.map(|&(asked, _)| asked).max().unwrap_or(began);
        let mut histories: BTreeMap<u64, Vec<Operation>> = BTreeMap::new();
        for (cell, mut operation) in told.into_iter().flat_map(|told| told.operations) {
            if let What::Fua(value) = operation.what
                && operation.ended >= off_at
            {
                operation.what = What::Write(value);
            }
            // Of connections that are gone nothing comes any more.
            operation.ended = operation.ended.min(ended);
            histories.entry(cell).or_default().push(operation);
        }
        let held = contents(&mut watched.disk, "the disk")?;
        let outlived = self.outlived(&kept)?;
        for cell in 0..CELLS {
            let mut history = histories.remove(&cell).unwrap_or_default();
            let (held, kept) = (held[cell as usize], outlived[cell as usize]);
            let at_the_end = |asked, what| Operation { asked, ended, certain: true, what };
            let value = values[cell as usize];
            history.push(at_the_end(ended, What::Read(held)));
            let wrong = |what: &str, history: &[Operation]| {
                let lines: Vec<String> = history.iter().map(|operation| line(operation, began)).collect();
                found(format!("cell {cell}, which held {value:#x}: {what}:\n    {}", lines.join("\n    ")))
            };
            if !is_linearisable(value, &history) {
                return Err(wrong("what clients were told of it cannot have happened in one order", &history));
            }
            history.push(at_the_end(flushed, What::Kept(kept)));
            if !is_linearisable(value, &history) {
                return Err(wrong("what outlived power is older than the last flush, or was never there", &history));
            }
            self.served.cells += u64::from(cells.contains(&cell));
            self.served.older += u64::from(held != kept);
        }
        Ok(())
    }

    /// What the image holds that outlived power.
    fn outlived(&self, kept: &[u8]) -> Result<Vec<u64>, Wrong> {
        let path = self.directory.join("kept.img");
        fs::write(&path, kept).map_err(|error| Wrong::Host(format!("{}: {error}", path.display())))?;
        let opened = Image::open(&path, Access::Use).map_err(|error| error.to_string());
        let mounted = opened.and_then(|image| (self.asked.mount)(image).map_err(|error| error.to_string()));
        let mut disk = mounted.map_err(|error| found(format!("what a flush has left cannot be mounted: {error}")))?;
        contents(&mut disk, "what a flush has left")
    }

    /// BLOCK_STATUS says what the disk has said, in runs as long as can be.
    fn extents(&mut self, server: &Server<Watched>, watch: &Watch) -> Result<(), Wrong> {
        let mut client = connect(&self.socket()).and_then(Client::over)?;
        let told = client.ask(Command::BlockStatus, 0, 0, (CELLS * CELL) as u32, &[])?;
        let said = std::mem::take(&mut watch.state().extents);
        let by_cell = |extents: &[Extent]| -> Vec<bool> {
            extents.iter().flat_map(|extent| vec![extent.hole; (extent.bytes / CELL) as usize]).collect()
        };
        let is_short = told.extents.windows(2).any(|pair| pair[0].hole == pair[1].hole);
        if told.error != 0 || is_short || by_cell(&told.extents) != by_cell(&said) {
            return Err(found(format!("BLOCK_STATUS says {:?} where the disk has {said:?}", told.extents)));
        }
        client.leave()?;
        until_nobody_is_left(server)
    }

    /// More than a server has. Who loses a connection on a busy machine may have been late, and tries again.
    fn bounds(&mut self, mut watched: Watched) -> Result<Watched, Wrong> {
        let options = Options {
            most_connections: 3,
            most_bytes: 1 << 20,
            patience: Duration::from_millis(500),
            idle_after: Duration::from_millis(1),
            ..Options::default()
        };
        for is_last in [false, false, true] {
            let server = self.start(watched, options)?;
            let asked = self.most_bytes(&server, options.most_bytes).and_then(|()| self.most_connections(&server));
            let asked = asked.and_then(|()| self.patience(&server));
            watched = server.stop().ok_or_else(|| found("a request panicked"))?;
            match asked {
                Ok(()) => break,
                Err(Wrong::Lost(_)) if !is_last => {}
                Err(wrong) => return Err(wrong),
            }
        }
        Ok(watched)
    }

    /// Where a socket should be is a file of somebody.
    fn occupied(&mut self, watched: Watched) -> Result<(), Wrong> {
        let path = self.directory.join("occupied");
        let text = "a file of somebody";
        fs::write(&path, text).map_err(|error| Wrong::Host(format!("{}: {error}", path.display())))?;
        let is_served = Server::start(&Address::Unix(path.clone()), watched, Options::default()).is_ok();
        if is_served || fs::read(&path).ok().as_deref() != Some(text.as_bytes()) {
            return Err(found("a server takes the place of a file that is no socket"));
        }
        Ok(())
    }

    /// All clients together have at most so many bytes under way, and who promises many has only what came.
    fn most_bytes(&mut self, server: &Server<Watched>, most: usize) -> Result<(), Wrong> {
        const LENGTH: usize = 900_000;
        const SENT: usize = 700_000;
        let path = self.socket();
        let mut first = promise(&path, LENGTH as u32)?;
        keep(&mut first, SENT)?;
        until(server, "what a client sends does not count", |statistics| statistics.held_bytes > most / 2)?;
        let mut second = promise(&path, LENGTH as u32)?;
        // It may be left in the middle of this.
        let sent = keep(&mut second, LENGTH - 1);
        let (began, mut over) = (Instant::now(), 0);
        let is_left = || server.statistics().connections == 1;
        while !is_left() && over == 0 && began.elapsed() < PATIENCE {
            over = server.statistics().held_bytes.saturating_sub(most);
            std::thread::sleep(Duration::from_millis(1));
        }
        if over > 0 || !is_left() {
            return Err(found(format!("two clients have {over} bytes more under way than all may have")));
        }
        if sent.is_ok() {
            is_ended(&mut second)?;
        }
        keep(&mut first, LENGTH - SENT)?;
        let error = answer(&mut first)?;
        drop((first, second));
        if error != NO_SPACE {
            return Err(found(format!("a long write beyond the end is answered with error {error}")));
        }
        until_nobody_is_left(server)?;
        let mut third = promise(&path, 32 << 20)?;
        keep(&mut third, 300_000)?;
        until(server, "what a client sends does not count", |statistics| {
            statistics.held_bytes > 0 || statistics.connections == 0
        })?;
        if server.statistics().connections == 0 {
            return Err(found("a client that promised 32 MiB is left when it has sent 300,000 bytes"));
        }
        drop(third);
        until_nobody_is_left(server)
    }

    /// The last of too many is turned away, and has room when another leaves.
    fn most_connections(&mut self, server: &Server<Watched>) -> Result<(), Wrong> {
        let path = self.socket();
        let client = || connect(&path).and_then(Client::over);
        let mut clients = Vec::new();
        for _ in 0..3 {
            clients.push(client()?);
        }
        let mut more = connect(&path)?;
        is_ended(&mut more).map_err(|wrong| wrong.within("a connection too many"))?;
        clients.pop().expect("three").leave()?;
        until(server, "a client that is gone is there", |statistics| statistics.connections == 2)?;
        clients.push(client()?);
        for client in &mut clients {
            client.leave()?;
        }
        until_nobody_is_left(server)
    }

    /// A handshake that comes byte by byte comes to an end.
    fn patience(&mut self, server: &Server<Watched>) -> Result<(), Wrong> {
        let mut stream = greeted(&self.socket(), FIXED_NEWSTYLE)?;
        let endless = crate::nbd::client::option_bytes(option::INFO, &[0; 60_000]);
        let began = Instant::now();
        for byte in endless {
            if stream.write_all(&[byte]).is_err() {
                return until_nobody_is_left(server);
            }
            if began.elapsed() > PATIENCE / 4 {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Err(found("a handshake that comes byte by byte may take for ever"))
    }
}

/// What the cells of a disk hold.
fn contents(disk: &mut dyn Export, what: &str) -> Result<Vec<u64>, Wrong> {
    let mut out = vec![0; (CELLS * CELL) as usize];
    for (page, out) in out.chunks_mut(PAGE).enumerate() {
        disk.read((page * PAGE) as u64, out).map_err(|error| found(format!("{what}: page {page}: {error:?}")))?;
    }
    let value = |(cell, bytes)| value_of(bytes).map_err(|why| found(format!("{what}: cell {cell}: {why}")));
    out.chunks(CELL as usize).enumerate().map(value).collect()
}

/// An operation for people: microseconds from the beginning on.
fn line(operation: &Operation, began: Instant) -> String {
    let Operation { asked, ended, certain, what } = operation;
    let at = |when: Instant| when.saturating_duration_since(began).as_micros();
    let end = if *certain { "" } else { ", not answered" };
    format!("{:>8} to {:>8} us: {what:x?}{end}", at(*asked), at(*ended))
}

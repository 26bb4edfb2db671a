//! Sockets and threads: who listens, who executes, who stops whom.
//!
//! Connections take turns with the device, in the order in which they ask for it (`turns`), and the device sees
//! requests one at a time. Since all share one device, a flush on one connection covers what was answered on any other,
//! which is what CAN_MULTI_CONN promises.
//!
//! A turn is a request, or a slice of a long one ([`Options::slice_bytes`], [`Options::hole_bytes`]). So a short
//! request waits for one slice of each other connection at most, however long their requests are. Each slice is whole
//! to the others; a long request need not be, and the protocol does not ask for it.
//!
//! A connection ends when its client says so, vanishes, or breaks the protocol. Whatever of a request had not arrived
//! by then was never given to the device.
//!
//! Clients are not trusted with the server's memory: how many there are, how long one takes to shake hands, and how
//! many bytes they all have under way is bounded ([`Options`]).
//!
//! While nothing arrives, one more thread gives the device time for work of its own, in steps, and looks between two
//! steps whether a request has come.

use super::delay::Delay;
use super::handshake::{Agreed, Handshake, Progress, Served};
use super::limits::{Budget, Held};
use super::protocol::{
    Command, ErrorNumber, FLAG_DF, FLAG_FUA, FLAG_NO_HOLE, FLAG_REQ_ONE, MAX_PAYLOAD_BYTES, Malformed, Receiver,
    Replies, Request,
};
use super::statistics::{Kind, Statistics};
use super::turns::Turns;
use crate::export::{Done, Export, ExportError, Extent};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Replies are sent once they fill this much, although more requests are at hand.
const GATHER_BYTES: usize = 256 << 10;

/// Extents in one answer to BLOCK_STATUS; clients ask again for the rest.
const MOST_EXTENTS: usize = 4096;

/// Bytes of the device that are looked at in a row for extents.
const EXTENT_STEP_BYTES: u64 = 64 << 20;

/// Bytes of zeros that are written in a row where no hole may be made.
const ZEROS: &[u8] = &[0; 64 << 10];

/// How long a client that takes no replies may hold up a shutdown.
const GRACE: Duration = Duration::from_secs(2);

/// Clients that may wait to be accepted.
const BACKLOG: i32 = 128;

/// Memory that a connection keeps for its next long request.
const KEPT_BYTES: usize = 4 << 20;

/// Where a server listens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Address {
    /// A Unix socket. A file that a dead server left there is replaced.
    Unix(PathBuf),
    /// TCP; port 0 takes a free one.
    Tcp(SocketAddr),
}

/// How to serve.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Replies are held as long as the device says.
    pub delayed: bool,
    /// Silence after which the device gets time for work of its own.
    pub idle_after: Duration,
    /// Permissions of a Unix socket.
    pub socket_mode: u32,
    /// Most connections; a further one is closed at once.
    pub most_connections: usize,
    /// Most bytes that all connections together have under way: requests that are arriving and replies that are not
    /// sent, beyond the first 256 KiB of each. Who needs more waits, for `patience` at most.
    pub most_bytes: usize,
    /// How long a client may take for its handshake, and how long a request waits for bytes that others have under way.
    pub patience: Duration,
    /// Bytes of a long read or write that are carried out in one turn; rounded up to whole blocks of the device.
    pub slice_bytes: u64,
    /// Bytes of a long discard, or of a long range of zeros that may be a hole, that are carried out in one turn;
    /// rounded up as well.
    pub hole_bytes: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            delayed: false,
            idle_after: Duration::from_millis(5),
            socket_mode: 0o600,
            most_connections: 1000,
            most_bytes: 512 << 20,
            patience: Duration::from_secs(10),
            slice_bytes: 1 << 20,
            hole_bytes: 16 << 20,
        }
    }
}

/// A connection's socket.
#[derive(Debug)]
enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Stream {
    fn shutdown(&self, how: Shutdown) {
        // It fails where the peer has closed already, which is as well.
        let _ = match self {
            Stream::Unix(stream) => stream.shutdown(how),
            Stream::Tcp(stream) => stream.shutdown(how),
        };
    }

    /// Reads and writes that take longer fail; `None`: they may take for ever.
    fn limit(&self, time: Option<Duration>) -> io::Result<()> {
        match self {
            Stream::Unix(stream) => stream.set_read_timeout(time).and_then(|()| stream.set_write_timeout(time)),
            Stream::Tcp(stream) => stream.set_read_timeout(time).and_then(|()| stream.set_write_timeout(time)),
        }
    }
}

impl Read for &Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => (&*stream).read(buffer),
            Stream::Tcp(stream) => (&*stream).read(buffer),
        }
    }
}

impl Write for &Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => (&*stream).write(bytes),
            Stream::Tcp(stream) => (&*stream).write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[derive(Debug)]
enum Listener {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Listener {
    /// Listens at an address; a Unix socket comes with its file, which has this mode.
    fn bind(address: &Address, mode: u32) -> io::Result<(Listener, Option<SocketFile>)> {
        match address {
            Address::Tcp(address) => {
                let listener = TcpListener::bind(address)?;
                listener.set_nonblocking(true)?;
                Ok((Listener::Tcp(listener), None))
            }
            Address::Unix(path) => {
                let (socket, file) = match bind_unix(path) {
                    Err(error) if error.kind() == io::ErrorKind::AddrInUse && abandoned(path) => {
                        std::fs::remove_file(path)?;
                        bind_unix(path)?
                    }
                    other => other?,
                };
                // Before anybody can connect.
                std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
                rustix::net::listen(&socket, BACKLOG)?;
                let listener = UnixListener::from(socket);
                listener.set_nonblocking(true)?;
                Ok((Listener::Unix(listener), Some(file)))
            }
        }
    }

    fn accept(&self) -> io::Result<Stream> {
        match self {
            Listener::Unix(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(false)?;
                Ok(Stream::Unix(stream))
            }
            Listener::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(false)?;
                // Replies are gathered here already.
                stream.set_nodelay(true)?;
                Ok(Stream::Tcp(stream))
            }
        }
    }

    fn poll_fd(&self) -> PollFd<'_> {
        match self {
            Listener::Unix(listener) => PollFd::new(listener, PollFlags::IN),
            Listener::Tcp(listener) => PollFd::new(listener, PollFlags::IN),
        }
    }
}

/// A socket's file. Dropped, it is removed, unless another has taken its place.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    inode: u64,
}

impl SocketFile {
    fn at(path: &Path) -> io::Result<SocketFile> {
        Ok(SocketFile { path: path.to_owned(), inode: std::fs::symlink_metadata(path)?.ino() })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if std::fs::symlink_metadata(&self.path).is_ok_and(|found| found.ino() == self.inode) {
            // What cannot be removed is replaced by the next server.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// A Unix socket that has its file, and nobody can connect to yet.
fn bind_unix(path: &Path) -> io::Result<(OwnedFd, SocketFile)> {
    let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
    rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    Ok((socket, SocketFile::at(path)?))
}

/// Whether there is a socket that nobody listens at: a server that was killed leaves one behind.
fn abandoned(path: &Path) -> bool {
    // The system refuses a connection to an ordinary file in the same way.
    std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket())
        && UnixStream::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

#[derive(Debug, Default)]
struct Connections {
    number: u64,
    open: BTreeMap<u64, Arc<Stream>>,
}

/// What all threads of a server share.
#[derive(Debug)]
struct Shared<E> {
    served: Served,
    options: Options,
    /// Taken out when the server has stopped.
    device: Mutex<Option<E>>,
    /// Who takes the device next.
    turns: Turns,
    /// Bytes of a slice with data, and of one without: whole blocks.
    slices: (u64, u64),
    statistics: Mutex<Statistics>,
    /// Requests that have come so far: how the idler knows that one has.
    arrivals: AtomicU64,
    in_flight: AtomicU64,
    stopping: AtomicBool,
    /// The idler waits for a request, however long it takes.
    dormant: Mutex<()>,
    asleep: AtomicBool,
    woken: Condvar,
    connections: Mutex<Connections>,
    closed: Condvar,
    budget: Budget,
}

/// Goes on after a panic of another thread: what these locks protect is whole at any moment.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A running server. Dropped without [`Server::stop`], it takes no more connections, and leaves its other threads to
/// the process.
#[derive(Debug)]
pub struct Server<E> {
    shared: Arc<Shared<E>>,
    address: Address,
    /// Closing it wakes the acceptor.
    wake: UnixStream,
    socket: Option<SocketFile>,
    acceptor: JoinHandle<()>,
    idler: JoinHandle<()>,
}

impl<E: Export + 'static> Server<E> {
    /// Serves `export` at `address` until stopped.
    ///
    /// # Errors
    /// The address cannot be listened at.
    pub fn start(address: &Address, export: E, options: Options) -> io::Result<Server<E>> {
        // What the protocol allows for the preferred unit.
        let block_bytes = export.block_bytes().next_power_of_two().clamp(512, MAX_PAYLOAD_BYTES);
        let served = Served { bytes: export.bytes(), block_bytes };
        let (listener, socket) = Listener::bind(address, options.socket_mode)?;
        let address = match &listener {
            Listener::Tcp(listener) => Address::Tcp(listener.local_addr()?),
            Listener::Unix(..) => address.clone(),
        };
        let (wake, woken) = UnixStream::pair()?;
        let shared = Arc::new(Shared {
            served,
            options,
            slices: {
                let block = u64::from(export.block_bytes()).max(1);
                let whole = |bytes: u64| bytes.next_multiple_of(block);
                (whole(options.slice_bytes.max(1)), whole(options.hole_bytes.max(1)))
            },
            device: Mutex::new(Some(export)),
            turns: Turns::default(),
            statistics: Mutex::default(),
            arrivals: AtomicU64::new(0),
            in_flight: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
            dormant: Mutex::new(()),
            asleep: AtomicBool::new(false),
            woken: Condvar::new(),
            connections: Mutex::default(),
            closed: Condvar::new(),
            budget: Budget::new(options.most_bytes, options.patience),
        });
        let named = |name: &str| thread::Builder::new().name(name.to_owned());
        let idling = Arc::clone(&shared);
        let idler = named("idle").spawn(move || idling.idle())?;
        let accepting = Arc::clone(&shared);
        let acceptor = named("accept").spawn(move || accept(&accepting, &listener, &woken))?;
        Ok(Server { shared, address, wake, socket, acceptor, idler })
    }

    /// Where it listens.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// What was served since the last call.
    pub fn statistics(&self) -> Statistics {
        let mut gathered = lock(&self.shared.statistics);
        let mut statistics = gathered.clone();
        gathered.clear();
        drop(gathered);
        statistics.in_flight = self.shared.in_flight.load(Ordering::Relaxed);
        statistics.connections = lock(&self.shared.connections).open.len();
        statistics.waiting = self.shared.turns.waiting();
        statistics.held_bytes = self.shared.budget.used();
        statistics
    }

    /// Looks at the device between two requests; `None` if a request panicked.
    pub fn with<T>(&self, look: impl FnOnce(&mut E) -> T) -> Option<T> {
        Some(look(self.shared.device.lock().ok()?.as_mut()?))
    }

    /// A request panicked. All that follow are answered with an input/output error.
    pub fn failed(&self) -> bool {
        self.shared.device.is_poisoned()
    }

    /// Stops: no new connections; requests in progress are finished and answered, what comes later is refused. Gives
    /// the device back, or nothing if a request panicked.
    pub fn stop(self) -> Option<E> {
        let shared = self.shared;
        shared.stopping.store(true, Ordering::SeqCst);
        drop(self.wake);
        // A panic there has been reported by its thread; there is nothing to save from it.
        let _ = self.acceptor.join();
        drop(self.socket);
        for how in [Shutdown::Read, Shutdown::Both] {
            let connections = lock(&shared.connections);
            connections.open.values().for_each(|stream| stream.shutdown(how));
            let open = |connections: &mut Connections| !connections.open.is_empty();
            drop(shared.closed.wait_timeout_while(connections, GRACE, open));
        }
        shared.wake_idler();
        let _ = self.idler.join();
        shared.device.lock().ok()?.take()
    }
}

fn accept<E: Export + 'static>(shared: &Arc<Shared<E>>, listener: &Listener, woken: &UnixStream) {
    loop {
        let mut wanted = [listener.poll_fd(), PollFd::new(woken, PollFlags::IN)];
        let polled = poll(&mut wanted, None);
        // Told to stop, or the server was dropped.
        if shared.stopping.load(Ordering::SeqCst) || !wanted[1].revents().is_empty() {
            return;
        }
        let accepted = polled.map_err(io::Error::from).and_then(|_| listener.accept());
        match accepted {
            Ok(stream) => Connection::start(shared, stream),
            Err(error) if [io::ErrorKind::WouldBlock, io::ErrorKind::Interrupted].contains(&error.kind()) => {}
            // Out of files, or a client that is gone again: others may do better in a moment.
            Err(_) => thread::sleep(Duration::from_millis(20)),
        }
    }
}

impl<E: Export> Shared<E> {
    /// Gives the device time while nothing arrives.
    fn idle(&self) {
        let stopping = || self.stopping.load(Ordering::SeqCst);
        let arrivals = || self.arrivals.load(Ordering::SeqCst);
        while !stopping() {
            let seen = arrivals();
            thread::sleep(self.options.idle_after);
            let mut more = true;
            while more && arrivals() == seen && !stopping() {
                // Who has a turn works for a request.
                let Some(turn) = self.turns.take() else { break };
                let Ok(mut device) = self.device.lock() else { return };
                match device.as_mut() {
                    Some(export) if arrivals() == seen => more = export.idle(),
                    _ => break,
                }
                drop((device, turn));
            }
            if !more {
                let dormant = lock(&self.dormant);
                self.asleep.store(true, Ordering::SeqCst);
                let silent = |_: &mut ()| arrivals() == seen && !stopping();
                drop(self.woken.wait_while(dormant, silent));
                self.asleep.store(false, Ordering::SeqCst);
            }
        }
    }

    fn wake_idler(&self) {
        let dormant = lock(&self.dormant);
        self.woken.notify_all();
        drop(dormant);
    }

    /// Memory that a connection may keep for its next long request: none if others may want it.
    fn kept_bytes(&self) -> usize {
        if self.budget.is_scarce() { Receiver::BUFFER_BYTES } else { KEPT_BYTES }
    }

    /// A request has come.
    fn arrived(&self) {
        self.arrivals.fetch_add(1, Ordering::SeqCst);
        if self.asleep.load(Ordering::SeqCst) {
            self.wake_idler();
        }
    }

    /// Why a request is not even tried.
    fn refusal(&self, request: &Request, agreed: Agreed) -> Option<ErrorNumber> {
        let (allowed, payload) = match request.command {
            Command::Read => (FLAG_FUA | FLAG_DF, true),
            Command::Write => (FLAG_FUA, true),
            Command::Trim => (FLAG_FUA, false),
            Command::WriteZeroes => (FLAG_FUA | FLAG_NO_HOLE, false),
            Command::BlockStatus if agreed.allocation => (FLAG_FUA | FLAG_REQ_ONE, false),
            Command::Flush => return (request.flags & !FLAG_FUA != 0).then_some(ErrorNumber::Invalid),
            Command::BlockStatus | Command::Disconnect | Command::Unknown(_) => return Some(ErrorNumber::Invalid),
        };
        let too_long = payload && request.length > MAX_PAYLOAD_BYTES;
        if request.flags & !allowed != 0 || request.length == 0 || too_long {
            return Some(ErrorNumber::Invalid);
        }
        let end = request.offset.checked_add(u64::from(request.length));
        if end.is_none_or(|end| end > self.served.bytes) {
            return Some(match request.command {
                Command::Write | Command::WriteZeroes => ErrorNumber::NoSpace,
                _ => ErrorNumber::Invalid,
            });
        }
        None
    }

    /// Carries a request out; its reply is in `replies` afterwards. Returns how long the reply is to be held.
    fn execute(
        &self,
        (request, payload): (&Request, &[u8]),
        agreed: Agreed,
        arrived: Instant,
        extents: &mut Vec<Extent>,
        replies: &mut Replies,
    ) -> Duration {
        let kind = match self.refusal(request, agreed) {
            None => Kind::of(request.command),
            Some(error) => {
                replies.fail(request, error);
                lock(&self.statistics).refused += 1;
                return Duration::ZERO;
            }
        };
        let kind = kind.expect("what no device carries out is refused");
        if self.stopping.load(Ordering::Relaxed) {
            replies.fail(request, ErrorNumber::Shutdown);
            return Duration::ZERO;
        }
        self.arrived();
        let began = Instant::now();
        let mut slices = Slices { shared: self, began, wait: Duration::ZERO };
        let result = slices.carry_out(request, payload, extents, replies);
        let wait = slices.wait;
        if let Err(error) = result {
            replies.fail(request, error);
        }
        lock(&self.statistics).record(kind, request.length, result.is_err(), arrived.elapsed() + wait);
        if result.is_err() { Duration::ZERO } else { wait }
    }
}

/// A request that is carried out, turn by turn.
struct Slices<'a, E> {
    shared: &'a Shared<E>,
    began: Instant,
    /// How long after `began` the device is done with it.
    wait: Duration,
}

impl<E: Export> Slices<'_, E> {
    /// One turn with the device.
    fn turn<T>(&mut self, work: impl FnOnce(&mut E) -> Result<T, ExportError>) -> Result<T, ErrorNumber> {
        let turn = self.shared.turns.wait();
        let mut device = self.shared.device.lock().map_err(|_| ErrorNumber::Io)?;
        let result = work(device.as_mut().ok_or(ErrorNumber::Shutdown)?);
        drop((device, turn));
        Ok(result?)
    }

    /// One turn; the device says when it is done.
    fn slice(&mut self, work: impl FnOnce(&mut E) -> Result<Done, ExportError>) -> Result<(), ErrorNumber> {
        let began = self.began;
        let (since, done) = self.turn(|export| {
            let since = began.elapsed();
            Ok((since, work(export)?))
        })?;
        if done.after_ns > 0 {
            self.wait = self.wait.max(since + Duration::from_nanos(done.after_ns));
        }
        Ok(())
    }

    /// The range in slices of at most so many bytes, which begin where a multiple of that does.
    fn each(
        &mut self,
        request: &Request,
        most: u64,
        mut work: impl FnMut(&mut E, u64, u64) -> Result<Done, ExportError>,
    ) -> Result<(), ErrorNumber> {
        let (mut at, end) = (request.offset, request.offset + u64::from(request.length));
        while at < end {
            let next = end.min((at / most + 1) * most);
            self.slice(|export| work(export, at, next - at))?;
            at = next;
        }
        Ok(())
    }

    /// Has the device do what is asked; the reply is gathered if it succeeds.
    fn carry_out(
        &mut self,
        request: &Request,
        payload: &[u8],
        extents: &mut Vec<Extent>,
        replies: &mut Replies,
    ) -> Result<(), ErrorNumber> {
        let (data, holes) = self.shared.slices;
        let part = |at: u64, bytes: u64| {
            let from = (at - request.offset) as usize;
            from..from + bytes as usize
        };
        match request.command {
            Command::Read => {
                return replies.data(request, |out| {
                    self.each(request, data, |export, at, bytes| export.read(at, &mut out[part(at, bytes)]))
                });
            }
            Command::BlockStatus => {
                self.extents_of(request, extents)?;
                replies.extents(request, extents);
                return Ok(());
            }
            Command::Write => {
                self.each(request, data, |export, at, bytes| export.write(at, &payload[part(at, bytes)]))?;
            }
            Command::Trim => self.each(request, holes, E::trim)?,
            Command::WriteZeroes if request.flags & FLAG_NO_HOLE == 0 => self.each(request, holes, E::zero)?,
            Command::WriteZeroes => self.each(request, data, |export, at, bytes| {
                let mut done = Done::default();
                for from in (at..at + bytes).step_by(ZEROS.len()) {
                    let step = (at + bytes - from).min(ZEROS.len() as u64);
                    let written = export.write(from, &ZEROS[..step as usize])?;
                    done = Done { after_ns: done.after_ns.max(written.after_ns) };
                }
                Ok(done)
            })?,
            Command::Flush => self.slice(E::flush)?,
            Command::Disconnect | Command::Unknown(_) => return Err(ErrorNumber::Invalid),
        }
        if request.flags & FLAG_FUA != 0 && request.command != Command::Flush {
            self.slice(E::flush)?;
        }
        replies.succeed(request);
        Ok(())
    }

    /// The extents of a range from its beginning, as many as one answer holds, neighbours of one state joined.
    fn extents_of(&mut self, request: &Request, found: &mut Vec<Extent>) -> Result<(), ErrorNumber> {
        let most = if request.flags & FLAG_REQ_ONE != 0 { 1 } else { MOST_EXTENTS };
        let end = request.offset + u64::from(request.length);
        let mut at = request.offset;
        found.clear();
        // One more than is wanted shows where the last one ends.
        while at < end && found.len() <= most {
            let step = (end - at).min(EXTENT_STEP_BYTES);
            let before = found.len();
            self.turn(|export| export.extents(at, step, found))?;
            let covered: u64 = found[before..].iter().map(|extent| extent.bytes).sum();
            assert_eq!(covered, step, "the extents cover the range");
            found.dedup_by(|next, first| {
                let joined = next.hole == first.hole;
                first.bytes += if joined { next.bytes } else { 0 };
                joined
            });
            at += step;
        }
        found.truncate(most);
        Ok(())
    }
}

/// One client.
struct Connection<E: Export> {
    shared: Arc<Shared<E>>,
    stream: Arc<Stream>,
    number: u64,
}

impl<E: Export> Drop for Connection<E> {
    fn drop(&mut self) {
        // The registry's handle would keep the socket open.
        self.stream.shutdown(Shutdown::Both);
        lock(&self.shared.connections).open.remove(&self.number);
        self.shared.closed.notify_all();
    }
}

/// The connection is at its end: the client left, said so, or broke the protocol.
struct Over;

impl From<io::Error> for Over {
    fn from(_: io::Error) -> Over {
        Over
    }
}

impl From<Malformed> for Over {
    fn from(_: Malformed) -> Over {
        Over
    }
}

impl<E: Export + 'static> Connection<E> {
    fn start(shared: &Arc<Shared<E>>, stream: Stream) {
        let stream = Arc::new(stream);
        let mut connections = lock(&shared.connections);
        if connections.open.len() >= shared.options.most_connections {
            return;
        }
        let number = connections.number;
        connections.number += 1;
        connections.open.insert(number, Arc::clone(&stream));
        drop(connections);
        let connection = Connection { shared: Arc::clone(shared), stream, number };
        // Without a thread the connection is dropped, and with it closed; the client may try again.
        let _ = thread::Builder::new().name(format!("client {number}")).spawn(move || connection.serve());
    }

    fn serve(&self) {
        let mut incoming = Incoming { receiver: Receiver::default(), held: self.shared.budget.hold() };
        let Ok(agreed) = self.shake_hands(&mut incoming) else { return };
        if !self.shared.options.delayed {
            self.transmit(&mut incoming, agreed, None);
            return;
        }
        let delay = Delay::default();
        let answered = || {
            self.shared.in_flight.fetch_sub(1, Ordering::Relaxed);
        };
        let write = || delay.run(&*self.stream, answered);
        thread::scope(|scope| {
            // Also if a request panics: the scope waits for the writer.
            let _closed = delay.closed_when_dropped();
            let writer = thread::Builder::new().name(format!("replies {}", self.number));
            if writer.spawn_scoped(scope, write).is_ok() {
                self.transmit(&mut incoming, agreed, Some(&delay));
            }
        });
    }

    fn shake_hands(&self, incoming: &mut Incoming<'_>) -> Result<Agreed, Over> {
        let end = Instant::now() + self.shared.options.patience;
        let mut out = Vec::new();
        let mut handshake = Handshake::new(self.shared.served, &mut out);
        loop {
            // All of it counts: a byte now and then does not keep a connection open.
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Over);
            }
            self.stream.limit(Some(left))?;
            (&*self.stream).write_all(&out)?;
            out.clear();
            self.receive(incoming)?;
            while let (consumed @ 1.., progress) = handshake.step(incoming.receiver.bytes(), &mut out)? {
                incoming.receiver.consume(consumed);
                match progress {
                    Progress::Waiting => {}
                    Progress::Transmission(agreed) => {
                        (&*self.stream).write_all(&out)?;
                        self.stream.limit(None)?;
                        return Ok(agreed);
                    }
                    Progress::Close => {
                        (&*self.stream).write_all(&out)?;
                        return Err(Over);
                    }
                }
            }
        }
    }

    /// Waits until something arrives.
    fn receive(&self, incoming: &mut Incoming<'_>) -> Result<(), Over> {
        let Incoming { receiver, held } = incoming;
        receiver.shrink(self.shared.kept_bytes());
        if !held.resize(receiver.memory().saturating_sub(Receiver::BUFFER_BYTES)) {
            return Err(Over);
        }
        let space = receiver.space();
        loop {
            match (&*self.stream).read(space) {
                Ok(0) => return Err(Over),
                Ok(bytes) => {
                    receiver.received(bytes);
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Serves requests until the connection is over.
    fn transmit(&self, incoming: &mut Incoming<'_>, agreed: Agreed, delay: Option<&Delay>) {
        let (replies, held) = (Replies::new(agreed.structured), self.shared.budget.hold());
        let mut gathered = Gathered { connection: self, replies, held, count: 0, extents: Vec::new() };
        loop {
            let served = gathered.serve_arrived(&mut incoming.receiver, agreed, delay);
            if served.and_then(|()| self.receive(incoming)).is_err() {
                return;
            }
        }
    }
}

/// What has arrived on a connection, and what it takes of the bytes that all may have under way.
struct Incoming<'a> {
    receiver: Receiver,
    held: Held<'a>,
}

/// Replies of a connection that were not handed on.
struct Gathered<'a, E: Export> {
    connection: &'a Connection<E>,
    replies: Replies,
    /// What they take of the bytes that all may have under way.
    held: Held<'a>,
    count: u64,
    extents: Vec<Extent>,
}

impl<E: Export> Gathered<'_, E> {
    /// Serves the requests that have arrived whole.
    fn serve_arrived(&mut self, receiver: &mut Receiver, agreed: Agreed, delay: Option<&Delay>) -> Result<(), Over> {
        let shared = &self.connection.shared;
        let arrived = Instant::now();
        while let Some((request, payload)) = receiver.take()? {
            if request.command == Command::Disconnect {
                self.send()?;
                return Err(Over);
            }
            self.count += 1;
            shared.in_flight.fetch_add(1, Ordering::Relaxed);
            let called = if delay.is_some() { Instant::now() } else { arrived };
            let taken = (&request, payload);
            let wait = if self.make_room(&request) {
                shared.execute(taken, agreed, arrived, &mut self.extents, &mut self.replies)
            } else {
                self.replies.fail(&request, ErrorNumber::NoMemory);
                Duration::ZERO
            };
            match delay {
                Some(delay) => self.hold(delay, called + wait)?,
                None if self.replies.bytes().len() >= GATHER_BYTES => self.send()?,
                None => {}
            }
        }
        Ok(self.send()?)
    }

    /// Makes sure of the memory for a long read, whose reply is sent as soon as it is there.
    fn make_room(&mut self, request: &Request) -> bool {
        let long = request.command == Command::Read
            && (GATHER_BYTES..=MAX_PAYLOAD_BYTES as usize).contains(&(request.length as usize));
        let memory = if long { self.replies.memory(request.length as usize) } else { 0 };
        !long || self.held.resize(memory.saturating_sub(GATHER_BYTES).max(self.held.bytes()))
    }

    /// Forgets what was handed on, and gives memory back that is not to be kept.
    fn clear(&mut self) {
        self.replies.clear();
        self.replies.shrink(self.connection.shared.kept_bytes());
        // No more than before, so that there is nothing to wait for.
        let _ = self.held.resize(self.replies.memory(0).saturating_sub(GATHER_BYTES).min(self.held.bytes()));
    }

    fn send(&mut self) -> io::Result<()> {
        if self.count == 0 {
            return Ok(());
        }
        self.connection.shared.in_flight.fetch_sub(self.count, Ordering::Relaxed);
        self.count = 0;
        let sent = (&*self.connection.stream).write_all(self.replies.bytes());
        self.clear();
        sent
    }

    /// Hands the only reply on to the thread that holds it.
    fn hold(&mut self, delay: &Delay, at: Instant) -> io::Result<()> {
        delay.hold(at, self.replies.bytes())?;
        self.clear();
        self.count = 0;
        Ok(())
    }
}

impl<E: Export> Drop for Gathered<'_, E> {
    fn drop(&mut self) {
        // Requests of a client that is gone.
        self.connection.shared.in_flight.fetch_sub(self.count, Ordering::Relaxed);
    }
}

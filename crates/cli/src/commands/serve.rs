//! `ftlab serve`: an image as a block device, until somebody stops it.
//!
//! Between the server and the disk stands [`Watched`], which sees every request in the order in which it is carried
//! out: it writes the capture and times what the report needs. A capture says what the scheme was asked for: a write
//! that must be durable is a write and a flush, zeros over whole pages are a discard where discards are durable. Since
//! a trace has no idle time to collect in, a captured device does no background work; then the trace brings about the
//! same flash commands when it is simulated.

use super::Ended;
use super::experiment::device_fields;
use crate::args::{ServeArgs, Timing};
use crate::capture::Capture;
use crate::error::CliError;
use crate::output::Outputs;
use crate::render;
use crate::render::text::wrap;
use crate::units;
use device::nbd::statistics::{Kind, Statistics};
use device::nbd::{Address, Options, Server};
use device::{Access, AnyDisk, Done, Export, ExportError, Extent, Image, Mounted};
use flash::{CutPoint, Flash, Op, PowerCut, Rng};
use ftl::Value;
use sim::latency::ByKind;
use sim::report::{self, Report};
use sim::summary::{Counts, Driven};
use sim::workload::Operation;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How often this thread looks whether something is to be done.
const TICK: Duration = Duration::from_millis(50);

/// Signals that come closer together are one.
const TWICE: Duration = Duration::from_secs(1);

/// Serves an image until SIGTERM or Ctrl-C.
///
/// # Errors
/// The image cannot be used, the address not be listened at, a file not be written; a bug of the scheme.
pub(super) fn serve(args: &ServeArgs, stdout: &mut dyn Write) -> Result<Ended, CliError> {
    let stop = stop_flag()?;
    let mut outputs = Outputs::beside([("the image", &*args.image)]);
    args.socket.as_ref().map_or(Ok(()), |path| outputs.take("--socket", path))?;
    args.json.as_ref().map_or(Ok(()), |path| outputs.claim("--json", path))?;
    args.capture.as_ref().map_or(Ok(()), |path| outputs.reserve_new("--capture", path))?;
    let address = address(args)?;
    let image = Image::open(&args.image, Access::Use).map_err(CliError::new)?;
    if image.spec().scheme != args.scheme {
        let (image, scheme) = (args.image.display(), &image.spec().scheme);
        return Err(CliError::new(format_args!("{image} is for scheme {scheme}: say --scheme {scheme}")));
    }
    let erases_before: Vec<u32> = image.erase_counts().collect();
    let emulate = args.timing == Timing::Emulate;
    // Power that holds is a decorator too, so that every scheme is compiled for one medium.
    let medium = match args.cut_after {
        None => PowerCut::counting(image),
        Some(number) => {
            // Commands are counted from 0. The first three faces are ones that every command has.
            let face = Rng::new(args.seed).fork("face of the cut").below(3) as u8;
            PowerCut::armed(image, CutPoint { command: number - 1, face }, args.seed)
        }
    };
    let mounted = device::mount(medium.without_log(), emulate);
    let disk = mounted.map_err(|error| CliError::new(error).within(args.image.display()))?;
    crate::print(stdout, &wrap(&disk.mounted().to_string(), "  "))?;
    let name = args.image.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let capture = args.capture.as_deref().map(|path| Capture::create(path, &name)).transpose()?;
    let capacity = units::bytes(disk.bytes());
    let watched = Watched::new(disk, capture, emulate);
    let options = Options { delayed: emulate, socket_mode: args.socket_mode, ..Options::default() };
    let server = Server::start(&address, watched, options).map_err(|cause| refused(&address, &cause))?;
    let uri = uri(server.address());
    crate::print(stdout, &format!("serving {name} ({}, {capacity}) at {uri}\n", args.scheme))?;

    let began = Instant::now();
    let outcome = attend(&server, args, &stop, stdout);
    let total = outcome.as_ref().map_or_else(|_| Statistics::default(), Clone::clone);
    let Some(watched) = server.stop() else {
        return Err(CliError::new(format_args!(
            "the scheme has a bug: a request panicked. {} holds what was durable; the next mount reads the flash",
            args.image.display()
        )));
    };
    let seconds = began.elapsed().as_secs_f64();
    let report = watched.report(args, &erases_before, seconds, &total);
    let Watched { disk, capture, .. } = watched;
    let captured = capture.map_or(Ok(()), Capture::finish);
    let failure = disk.failure().map(str::to_owned);
    let closed = disk.close().map_err(|_| {
        let reason = failure.map(|reason| format!(" ({reason})")).unwrap_or_default();
        CliError::new(format_args!(
            "{} could not be shut down cleanly{reason}; the next mount reads the flash",
            args.image.display()
        ))
    });
    let told = outcome.and_then(|_| crate::print(stdout, &render::table::render(&report, false)));
    let written = args.json.as_ref().map_or(Ok(()), |path| render::json::write(&report, path));
    all([closed, captured, written, told]).map(|()| Ended::Done)
}

/// Everything that went wrong, the most serious first.
fn all(outcomes: impl IntoIterator<Item = Result<(), CliError>>) -> Result<(), CliError> {
    let errors: Vec<CliError> = outcomes.into_iter().filter_map(Result::err).collect();
    let messages: Vec<&str> = errors.iter().map(CliError::message).collect();
    if messages.is_empty() { Ok(()) } else { Err(CliError::new(messages.join("; "))) }
}

/// Raised by SIGTERM and Ctrl-C. A second one ends the process at once, as if it were killed, unless it follows within
/// [`TWICE`]: `timeout` and some shells send one signal twice.
fn stop_flag() -> Result<Arc<AtomicBool>, CliError> {
    let (asked, is_urgent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
        signal_hook::flag::register_conditional_default(signal, Arc::clone(&is_urgent))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&asked)))
            .map_err(|cause| CliError::new(format_args!("cannot watch for signals: {cause}")))?;
    }
    let watched = Arc::clone(&asked);
    thread::spawn(move || {
        while !watched.load(Ordering::Relaxed) {
            thread::sleep(TICK);
        }
        thread::sleep(TWICE);
        is_urgent.store(true, Ordering::Relaxed);
    });
    Ok(asked)
}

fn address(args: &ServeArgs) -> Result<Address, CliError> {
    match (&args.socket, args.port) {
        (Some(path), None) => Ok(Address::Unix(path.clone())),
        (None, Some(port)) => Ok(Address::Tcp(SocketAddr::new(args.bind, port))),
        _ => Err(CliError::new("say where to serve: --socket PATH or --port N")),
    }
}

fn uri(address: &Address) -> String {
    match address {
        Address::Unix(path) => format!("nbd+unix:///?socket={}", path.display()),
        Address::Tcp(address) => format!("nbd://{address}"),
    }
}

fn refused(address: &Address, cause: &std::io::Error) -> CliError {
    match address {
        Address::Unix(path) if path.is_file() => {
            CliError::new(format_args!("cannot listen at {}: it is a file and no socket; name another", path.display()))
        }
        Address::Unix(path) => CliError::file("listen at", path, cause),
        Address::Tcp(address) => CliError::file("listen at", Path::new(&address.to_string()), cause),
    }
}

/// Looks after a running server until it is to stop; what was served.
fn attend(
    server: &Server<Watched>,
    args: &ServeArgs,
    stop: &AtomicBool,
    stdout: &mut dyn Write,
) -> Result<Statistics, CliError> {
    let began = Instant::now();
    let interval = args.stats.map(Duration::from_nanos);
    let mut next = interval.map(|interval| began + interval);
    let mut total = Statistics::default();
    while !stop.load(Ordering::Relaxed) && !server.failed() {
        let left = next.map_or(TICK, |next| next.saturating_duration_since(Instant::now()));
        thread::sleep(left.min(TICK));
        if let Some(Some(failure)) = server.with(Watched::tick) {
            crate::print(stdout, &format!("{failure}; the capture ends here\n"))?;
        }
        let (Some(due), Some(interval)) = (next, interval) else { continue };
        if Instant::now() >= due {
            let statistics = server.statistics();
            let state = server.with(|watched| watched.state()).unwrap_or_default();
            let line = line(began.elapsed(), interval, &statistics, &state);
            total.add(&statistics);
            crate::print(stdout, &line)?;
            next = Some(due + interval);
        }
    }
    total.add(&server.statistics());
    Ok(total)
}

/// One line of `--stats`.
fn line(at: Duration, interval: Duration, statistics: &Statistics, state: &str) -> String {
    let per_second = |count: u64| units::whole((count as f64 / interval.as_secs_f64()).round() as u64);
    let mut line = format!("{:>6.1} s", at.as_secs_f64());
    for kind in Kind::ALL {
        let amount = statistics.of(kind);
        if amount.requests == 0 && !matches!(kind, Kind::Read | Kind::Write) {
            continue;
        }
        line += &format!("  {} {}/s", kind.name(), per_second(amount.requests));
        if amount.bytes > 0 {
            line += &format!(" {}/s", units::bytes((amount.bytes as f64 / interval.as_secs_f64()).round() as u64));
        }
        if amount.failed > 0 {
            line += &format!(" ({} failed)", units::whole(amount.failed));
        }
    }
    let quantile = |q: f64| units::time_us(statistics.latency_ns.value_at_quantile(q) as f64 / 1e3);
    if !statistics.latency_ns.is_empty() {
        line += &format!("  p50 {}  p99 {}", quantile(0.5), quantile(0.99));
    }
    if statistics.refused > 0 {
        line += &format!("  {} refused", units::whole(statistics.refused));
    }
    format!("{line}  {} in flight, {} clients{state}\n", statistics.in_flight, statistics.connections)
}

/// A disk whose requests are watched.
struct Watched {
    disk: Box<dyn AnyDisk>,
    capture: Option<Capture>,
    /// What the server's clients met; only with emulated timing, where it says something of the device.
    response: Option<ByKind>,
    durable_trim: bool,
    page_bytes: u64,
}

impl Watched {
    fn new(disk: Box<dyn AnyDisk>, capture: Option<Capture>, emulate: bool) -> Watched {
        let durable_trim = disk.settings().get("durable-trim") == Some(Value::Switch(true));
        let page_bytes = u64::from(disk.block_bytes());
        Watched { disk, capture, response: emulate.then(ByKind::default), durable_trim, page_bytes }
    }

    fn record(&mut self, operation: Operation, offset: u64, bytes: u64) {
        if let Some(capture) = &mut self.capture {
            capture.record(operation, offset, bytes);
        }
    }

    /// Why the capture ended, if it just did.
    fn tick(&mut self) -> Option<CliError> {
        let capture = self.capture.as_mut()?;
        capture.tick();
        capture.failure()
    }

    /// The device's state, for a line of statistics.
    fn state(&self) -> String {
        let counts = self.disk.counts();
        let programs = self.disk.tally().of(Op::Program);
        let waf = report::ratio(programs as f64, counts.write_pages as f64);
        let waf = waf.map(|waf| format!("  WAF {}", units::number(waf))).unwrap_or_default();
        let lost = if counts.remounts > 0 { format!("  {} remounts", counts.remounts) } else { String::new() };
        // After the first mount its own line has said so.
        let stale = match counts.perhaps_stale {
            pages if pages > 0 && counts.remounts > 0 => format!("  {pages} pages perhaps stale"),
            _ => String::new(),
        };
        format!("{waf}  {} blocks free{lost}{stale}", units::whole(u64::from(self.disk.free_blocks())))
    }

    /// What was served, in the form of a comparison.
    fn report(&self, args: &ServeArgs, erases_before: &[u32], seconds: f64, total: &Statistics) -> Report {
        let disk = &self.disk;
        let counts = disk.counts();
        let counts = Counts {
            requests: counts.reads + counts.writes + counts.trims + counts.flushes,
            reads: counts.reads,
            writes: counts.writes,
            read_pages: counts.read_pages,
            write_pages: counts.write_pages,
            trims: counts.trims,
            flushes: counts.flushes,
            partial_writes: counts.partial_writes,
            unmapped_reads: counts.unmapped_reads,
        };
        let erases_now: Vec<u32> = disk.image().erase_counts().collect();
        let lost = disk.failure().filter(|_| disk.is_lost());
        let ended = lost.map_or_else(|| report::COMPLETE.to_owned(), |why| format!("device lost: {why}"));
        let driven = Driven {
            row: disk.scheme(),
            settings: disk.settings(),
            ended,
            page_bytes: self.page_bytes,
            pages_per_block: disk.image().geometry().pages_per_block,
            tally: disk.tally(),
            command_ns: &|op, mode| disk.command_ns(op, mode),
            memory: disk.memory(),
            cache: disk.cache(),
            counters: disk.counters(),
            erases: [&erases_now, erases_before],
            counts,
        };
        let mut result = driven.result();
        result.wall_seconds = seconds;
        result.response_us = self.response.as_ref().and_then(ByKind::summary);
        let mounted = disk.mounted();
        result.extra.insert("mount".to_owned(), mounted.how.name().into());
        if mounted.how == Mounted::Scan {
            result.extra.insert("mount_seconds".to_owned(), mounted.seconds.into());
        }
        for (name, count) in [
            ("failed_requests", Kind::ALL.iter().map(|&kind| total.of(kind).failed).sum()),
            ("refused_requests", total.refused),
            ("remounts", disk.counts().remounts),
            ("perhaps_stale_pages", disk.counts().perhaps_stale),
            ("lost_discard_pages", disk.counts().lost_discards),
            ("uncorrectable_pages", disk.counts().uncorrectable),
        ] {
            if count > 0 {
                result.extra.insert(name.to_owned(), count.into());
            }
        }
        let mut workload = counts.workload();
        workload.name = format!("NBD clients of {}", args.image.display());
        let seed = match disk.settings().get("seed") {
            Some(Value::Count(seed)) => seed,
            _ => args.seed,
        };
        let mut report = Report::new(seed, device_fields(&disk.image().spec().device), workload);
        report.assumptions.push("The device held what it held at the mount; nothing was filled.".to_owned());
        if let (times @ 1.., Some(why)) = (disk.counts().remounts, disk.failure().filter(|_| !disk.is_lost())) {
            let often = if times == 1 { "once".to_owned() } else { format!("{} times", units::whole(times)) };
            report.assumptions.push(format!("The device was lost, last because {why}, and was mounted again {often}."));
        }
        report.assumptions.push("Pages written in part are read first.".to_owned());
        report.assumptions.push(match (self.response.is_some(), self.capture.is_some()) {
            (true, _) => "Replies were held as long as the simulated device takes.".to_owned(),
            (false, true) => "The device did no background work, since it was captured.".to_owned(),
            (false, false) => "The device collected in the background while nothing was asked of it.".to_owned(),
        });
        report.results.push(result);
        report
    }
}

impl Export for Watched {
    fn bytes(&self) -> u64 {
        self.disk.bytes()
    }

    fn block_bytes(&self) -> u32 {
        self.disk.block_bytes()
    }

    fn read(&mut self, offset: u64, out: &mut [u8]) -> Result<Done, ExportError> {
        self.record(Operation::Read, offset, out.len() as u64);
        let done = self.disk.read(offset, out)?;
        if let Some(response) = &mut self.response {
            response.reads.record(done.after_ns);
        }
        Ok(done)
    }

    fn write(&mut self, offset: u64, data: &[u8]) -> Result<Done, ExportError> {
        self.record(Operation::Write, offset, data.len() as u64);
        let done = self.disk.write(offset, data)?;
        if let Some(response) = &mut self.response {
            response.writes.record(done.after_ns);
        }
        Ok(done)
    }

    fn trim(&mut self, offset: u64, bytes: u64) -> Result<Done, ExportError> {
        self.record(Operation::Trim, offset, bytes);
        self.disk.trim(offset, bytes)
    }

    fn zero(&mut self, offset: u64, bytes: u64) -> Result<Done, ExportError> {
        let (end, size) = (offset + bytes, self.page_bytes);
        let (first, last) = (offset.next_multiple_of(size), end / size * size);
        if self.durable_trim && first < last {
            self.record(Operation::Trim, first, last - first);
            for (start, stop) in [(offset, first), (last, end)] {
                if start < stop {
                    self.record(Operation::Write, start, stop - start);
                }
            }
        } else {
            self.record(Operation::Write, offset, bytes);
        }
        self.disk.zero(offset, bytes)
    }

    fn flush(&mut self) -> Result<Done, ExportError> {
        self.record(Operation::Flush, 0, 0);
        self.disk.flush()
    }

    fn extents(&mut self, offset: u64, bytes: u64, out: &mut Vec<Extent>) -> Result<(), ExportError> {
        self.disk.extents(offset, bytes, out)
    }

    fn idle(&mut self) -> bool {
        self.capture.is_none() && self.disk.idle()
    }
}

//! A trace of what clients of a served device do, as it happens.
//!
//! The format is fio's iolog, version 3: it has discards and flushes, and `compare` reads it. Times are cut to
//! microseconds. The file is a sequence of Zstandard frames, each complete in itself and handed to the system in one
//! write when it is full or a second old, so that what a killed server leaves behind can be read. A thread of its own
//! encodes, compresses and writes; the request that is being served only leaves 32 bytes in a list.

use crate::error::CliError;
use sim::workload::format;
use sim::workload::{Operation, Request};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Requests that are handed on together.
const BATCH: usize = 4096;

/// Batches that wait at the most; beyond that requests wait for the disk.
const WAITING: usize = 16;

/// Age at which a batch is handed on although it is not full.
const OLDEST: Duration = Duration::from_secs(1);

/// A trace under construction.
#[derive(Debug)]
pub struct Capture {
    began: Instant,
    batch: Vec<Request>,
    handed_on: Instant,
    sender: SyncSender<Vec<Request>>,
    writer: JoinHandle<()>,
    failed: Arc<Failed>,
    told: bool,
}

/// How the writer's thread reports that it could not go on.
#[derive(Debug, Default)]
struct Failed {
    raised: AtomicBool,
    error: Mutex<Option<CliError>>,
}

impl Capture {
    /// Begins a trace at `path` whose requests are to a device called `volume`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn create(path: &Path, volume: &str) -> Result<Capture, CliError> {
        let fail = |cause| CliError::file("write", path, &cause);
        let file = File::create(path).map_err(fail)?;
        let (sender, receiver) = sync_channel(WAITING);
        let failed = Arc::new(Failed::default());
        let trace = Trace { path: path.to_owned(), file, volume: volume.to_owned() };
        let told = Arc::clone(&failed);
        let writer = thread::Builder::new().name("capture".to_owned()).spawn(move || {
            if let Err(error) = trace.write(&receiver) {
                *told.error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                told.raised.store(true, Ordering::Release);
            }
        });
        let writer = writer.map_err(fail)?;
        let now = Instant::now();
        Ok(Capture {
            began: now,
            batch: Vec::with_capacity(BATCH),
            handed_on: now,
            sender,
            writer,
            failed,
            told: false,
        })
    }

    /// Records a request that is about to be carried out.
    pub fn record(&mut self, operation: Operation, offset: u64, bytes: u64) {
        let arrival_ns = self.began.elapsed().as_nanos() as u64;
        self.batch.push(Request { arrival_ns, offset, bytes, volume: 0, operation });
        if self.batch.len() == BATCH {
            self.hand_on();
        }
    }

    /// To be called now and then: hands on what has waited long enough.
    pub fn tick(&mut self) {
        if self.handed_on.elapsed() >= OLDEST && !self.batch.is_empty() {
            self.hand_on();
        }
    }

    fn hand_on(&mut self) {
        self.handed_on = Instant::now();
        // A writer that has failed has said so; the rest of the trace is lost.
        let _ = self.sender.send(std::mem::replace(&mut self.batch, Vec::with_capacity(BATCH)));
    }

    /// Why nothing is recorded any more, the first time that somebody asks.
    pub fn failure(&mut self) -> Option<CliError> {
        if self.told || !self.failed.raised.load(Ordering::Acquire) {
            return None;
        }
        self.told = true;
        self.failed.error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Completes the trace.
    ///
    /// # Errors
    /// The file could not be written.
    pub fn finish(mut self) -> Result<(), CliError> {
        self.hand_on();
        let Capture { sender, writer, failed, .. } = self;
        drop(sender);
        writer.join().map_err(|_| CliError::new("the thread that wrote the capture panicked"))?;
        let error = failed.error.lock().unwrap_or_else(PoisonError::into_inner).take();
        error.map_or(Ok(()), Err)
    }
}

/// The writer's side.
struct Trace {
    path: PathBuf,
    file: File,
    volume: String,
}

impl Trace {
    fn write(mut self, batches: &Receiver<Vec<Request>>) -> Result<(), CliError> {
        let mut encoder =
            format::by_name("fio3").and_then(format::TraceFormat::encoder).expect("the format can be written");
        let (mut text, mut written) = (Vec::new(), 0);
        encoder.start(&mut text);
        for batch in batches {
            for request in &batch {
                encoder.request(request, &self.volume, &mut text).expect("the format has every operation");
            }
            self.frame(&mut text, &mut written)?;
        }
        encoder.finish(&mut text);
        self.frame(&mut text, &mut written)?;
        self.file.sync_all().map_err(|cause| CliError::file("write", &self.path, &cause))
    }

    /// Appends the text as one frame; of one that does not fit nothing stays.
    fn frame(&mut self, text: &mut Vec<u8>, written: &mut u64) -> Result<(), CliError> {
        if text.is_empty() {
            return Ok(());
        }
        let stored = zstd::bulk::compress(text, 0).and_then(|frame| {
            self.file.write_all(&frame)?;
            Ok(frame.len() as u64)
        });
        text.clear();
        match stored {
            Ok(bytes) => {
                *written += bytes;
                Ok(())
            }
            Err(cause) => {
                // What is no ordinary file cannot be cut; then nobody reads it by frames either.
                let _ = self.file.set_len(*written);
                Err(CliError::file("write", &self.path, &cause))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open::open;
    use crate::testing::Directory;

    fn read(path: &Path) -> Vec<Request> {
        let mut trace = open(path, &format::OpenOptions::default()).unwrap();
        let mut requests = Vec::new();
        while {
            let before = requests.len();
            trace.source.fill(&mut requests, 4096).unwrap();
            requests.len() > before
        } {}
        requests
    }

    #[test]
    fn every_operation_is_read_back_in_order() {
        let directory = Directory::new();
        let path = directory.join("trace.zst");
        let mut capture = Capture::create(&path, "my image.img").unwrap();
        let of = |i: u64| match i % 4 {
            0 => (Operation::Write, i * 512, 512 + i),
            1 => (Operation::Read, i * 4096 + 1, 4096),
            2 => (Operation::Trim, i * 4096, 1 << 32),
            _ => (Operation::Flush, 0, 0),
        };
        for i in 0..3 * BATCH as u64 + 5 {
            let (operation, offset, bytes) = of(i);
            capture.record(operation, offset, bytes);
        }
        capture.finish().unwrap();
        let requests = read(&path);
        assert_eq!(requests.len(), 3 * BATCH + 5);
        for (request, i) in requests.iter().zip(0..) {
            assert_eq!((request.operation, request.offset, request.bytes), of(i));
        }
        assert!(requests.is_sorted_by_key(|request| request.arrival_ns));
    }

    #[test]
    fn what_has_been_handed_on_is_whole_at_any_moment() {
        let directory = Directory::new();
        let path = directory.join("trace.zst");
        let mut capture = Capture::create(&path, "image").unwrap();
        for i in 0..2 * BATCH as u64 {
            capture.record(Operation::Write, i * 4096, 4096);
        }
        capture.record(Operation::Read, 0, 4096);
        capture.tick();
        let deadline = Instant::now() + Duration::from_secs(20);
        let mut seen = 0;
        while seen < 2 * BATCH {
            assert!(Instant::now() < deadline, "{seen} requests are in the file");
            thread::sleep(Duration::from_millis(2));
            seen = if std::fs::metadata(&path).unwrap().len() > 0 { read(&path).len() } else { 0 };
        }
        // The young one waits; dropping the capture is what a kill does.
        assert_eq!(seen, 2 * BATCH);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_told_once_and_at_the_end() {
        let mut capture = Capture::create(Path::new("/dev/full"), "image").unwrap();
        for _ in 0..BATCH {
            capture.record(Operation::Flush, 0, 0);
        }
        let deadline = Instant::now() + Duration::from_secs(20);
        let error = loop {
            if let Some(error) = capture.failure() {
                break error;
            }
            assert!(Instant::now() < deadline, "nobody was told");
            thread::sleep(Duration::from_millis(1));
        };
        assert_eq!(error.message(), "cannot write /dev/full: no space left on the device");
        assert_eq!(capture.failure(), None);
        assert_eq!(capture.finish(), Err(error));
    }
}

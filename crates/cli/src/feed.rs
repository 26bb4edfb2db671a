//! Feeding one workload to many runs.
//!
//! A workload is read once, on a thread of its own ([`broadcast`]), while [`Recorder`] keeps its requests and they are
//! profiled: the device's size and the addresses' layout follow from the whole of it, so no run can begin before. If
//! the requests fit in memory, every run replays them ([`Replay`]) at its own pace. If they do not, the workload is
//! read again for each wave of runs, beside them, and every batch is handed to all of them. Channels are so short that
//! memory stays bounded.

use crate::progress::Progress;
use sim::workload::{Intake, Request, Source, WorkloadError};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};

/// Requests in a chunk: 2 MiB.
const CHUNK: usize = 1 << 16;

/// Requests in a batch that is handed to several runs: 256 KiB.
const BATCH: usize = 1 << 13;

/// Batches that a run may lie behind the others.
pub(crate) const BEHIND: usize = 8;

/// A source that ends after so many requests, or when it is told to.
pub(crate) struct Limited<'a> {
    inner: &'a mut dyn Source,
    left: u64,
    stop: &'a AtomicBool,
}

impl<'a> Limited<'a> {
    /// Ends after `limit` requests, or when `stop` is raised.
    pub(crate) fn new(inner: &'a mut dyn Source, limit: Option<u64>, stop: &'a AtomicBool) -> Limited<'a> {
        Limited { inner, left: limit.unwrap_or(u64::MAX), stop }
    }
}

impl Source for Limited<'_> {
    fn fill(&mut self, batch: &mut Vec<Request>, limit: usize) -> Result<(), WorkloadError> {
        if self.stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        let before = batch.len();
        let read = self.inner.fill(batch, limit.min(usize::try_from(self.left).unwrap_or(usize::MAX)));
        self.left -= (batch.len() - before) as u64;
        read
    }

    fn intake(&self) -> &Intake {
        self.inner.intake()
    }

    fn timed(&self) -> bool {
        self.inner.timed()
    }
}

/// Passes a source on and keeps its requests, unless they are too many.
pub(crate) struct Recorder<'a> {
    inner: Received,
    kept: Option<VecDeque<Vec<Request>>>,
    count: u64,
    most: u64,
    progress: &'a Progress,
}

impl<'a> Recorder<'a> {
    /// Keeps the requests unless they are more than `most`.
    pub(crate) fn new(inner: Received, most: u64, progress: &'a Progress) -> Recorder<'a> {
        Recorder { inner, kept: Some(VecDeque::new()), count: 0, most, progress }
    }

    /// All requests, if they were not too many.
    pub(crate) fn kept(self) -> Option<Drain> {
        let Recorder { inner, kept, .. } = self;
        let (intake, timed) = (inner.intake().clone(), inner.timed());
        kept.map(|chunks| Drain { chunks, at: 0, intake, timed })
    }
}

impl Source for Recorder<'_> {
    fn fill(&mut self, batch: &mut Vec<Request>, limit: usize) -> Result<(), WorkloadError> {
        let before = batch.len();
        self.inner.fill(batch, limit)?;
        let new = &batch[before..];
        self.progress.add(new.len() as u64);
        self.count += new.len() as u64;
        if self.count > self.most {
            self.kept = None;
        }
        if let Some(chunks) = &mut self.kept {
            if chunks.back().is_none_or(|chunk| chunk.len() + new.len() > CHUNK) {
                chunks.push_back(Vec::with_capacity(CHUNK.max(new.len())));
            }
            if let Some(chunk) = chunks.back_mut() {
                chunk.extend_from_slice(new);
            }
        }
        Ok(())
    }

    fn intake(&self) -> &Intake {
        self.inner.intake()
    }

    fn timed(&self) -> bool {
        self.inner.timed()
    }
}

/// Recorded requests, given up as they are read.
pub(crate) struct Drain {
    chunks: VecDeque<Vec<Request>>,
    at: usize,
    intake: Intake,
    timed: bool,
}

impl Source for Drain {
    fn fill(&mut self, batch: &mut Vec<Request>, limit: usize) -> Result<(), WorkloadError> {
        let end = batch.len() + limit;
        while batch.len() < end {
            let Some(chunk) = self.chunks.front() else { break };
            let rest = &chunk[self.at..];
            let take = rest.len().min(end - batch.len());
            batch.extend_from_slice(&rest[..take]);
            self.at += take;
            if self.at == chunk.len() {
                self.chunks.pop_front();
                self.at = 0;
            }
        }
        Ok(())
    }

    fn intake(&self) -> &Intake {
        &self.intake
    }

    fn timed(&self) -> bool {
        self.timed
    }
}

/// Requests in memory, shared by many runs.
#[derive(Clone)]
pub(crate) struct Shared {
    chunks: Arc<Vec<Vec<Request>>>,
    intake: Arc<Intake>,
    timed: bool,
}

impl Shared {
    /// Reads all of `source`.
    pub(crate) fn read(source: &mut dyn Source) -> Result<Shared, WorkloadError> {
        let mut chunks = Vec::new();
        loop {
            let mut chunk = Vec::with_capacity(CHUNK);
            source.fill(&mut chunk, CHUNK)?;
            if chunk.is_empty() {
                break;
            }
            chunks.push(chunk);
        }
        Ok(Shared { chunks: Arc::new(chunks), intake: Arc::new(source.intake().clone()), timed: source.timed() })
    }

    /// The requests from the first on.
    pub(crate) fn replay(&self) -> Replay {
        Replay { shared: self.clone(), chunk: 0, at: 0 }
    }
}

/// Shared requests as a source.
pub(crate) struct Replay {
    shared: Shared,
    chunk: usize,
    at: usize,
}

impl Source for Replay {
    fn fill(&mut self, batch: &mut Vec<Request>, limit: usize) -> Result<(), WorkloadError> {
        let end = batch.len() + limit;
        while batch.len() < end {
            let Some(chunk) = self.shared.chunks.get(self.chunk) else { break };
            let rest = &chunk[self.at..];
            let take = rest.len().min(end - batch.len());
            batch.extend_from_slice(&rest[..take]);
            self.at += take;
            if self.at == chunk.len() {
                self.chunk += 1;
                self.at = 0;
            }
        }
        Ok(())
    }

    fn rewind(&mut self) -> bool {
        (self.chunk, self.at) = (0, 0);
        true
    }

    fn intake(&self) -> &Intake {
        &self.shared.intake
    }

    fn timed(&self) -> bool {
        self.shared.timed
    }
}

/// Requests that can be made any number of times, as a source.
pub(crate) struct Again<'a> {
    make: Make<'a>,
    source: Result<Box<dyn Source>, WorkloadError>,
    nothing: Intake,
}

/// Makes a source.
type Make<'a> = &'a (dyn Fn() -> Result<Box<dyn Source>, WorkloadError> + Send + Sync);

impl<'a> Again<'a> {
    /// What `make` makes.
    pub(crate) fn new(make: Make<'a>) -> Again<'a> {
        Again { make, source: make(), nothing: Intake::default() }
    }
}

impl Source for Again<'_> {
    fn fill(&mut self, batch: &mut Vec<Request>, limit: usize) -> Result<(), WorkloadError> {
        self.source.as_mut().map_err(|error| error.clone())?.fill(batch, limit)
    }

    fn rewind(&mut self) -> bool {
        self.source = (self.make)();
        self.source.is_ok()
    }

    fn intake(&self) -> &Intake {
        self.source.as_ref().map_or(&self.nothing, |source| source.intake())
    }

    fn timed(&self) -> bool {
        self.source.as_ref().is_ok_and(|source| source.timed())
    }
}

/// What a producer hands over: requests, or why there are no more.
pub(crate) type Batch = Result<Part, WorkloadError>;

/// A part of a workload.
#[derive(Clone)]
pub(crate) enum Part {
    /// Requests.
    Requests(Arc<[Request]>),
    /// The end: what was met, and whether the arrivals mean anything.
    End(Arc<Intake>, bool),
}

/// Reads `source` and hands every batch to all receivers that still listen; the others are dropped.
pub(crate) fn broadcast(source: &mut dyn Source, receivers: &mut Vec<SyncSender<Batch>>) {
    let mut batch = Vec::with_capacity(BATCH);
    let mut hand = |part: Batch| {
        // A run that has ended does not mind.
        receivers.retain(|receiver| receiver.send(part.clone()).is_ok());
        !receivers.is_empty()
    };
    loop {
        batch.clear();
        let read = source.fill(&mut batch, BATCH);
        if !batch.is_empty() && !hand(Ok(Part::Requests(batch.as_slice().into()))) {
            return;
        }
        if let Err(error) = read {
            hand(Err(error));
            return;
        }
        if batch.is_empty() {
            hand(Ok(Part::End(Arc::new(source.intake().clone()), source.timed())));
            return;
        }
    }
}

/// Requests from a producer as a source, which hands the workload over once or several times.
pub(crate) struct Received {
    from: Receiver<Batch>,
    /// How often it will still be handed over, this time included.
    times: u32,
    /// Whether this time is over.
    ended: bool,
    batch: Arc<[Request]>,
    at: usize,
    intake: Arc<Intake>,
    timed: bool,
}

impl Received {
    /// What comes out of `from`, into which the workload is handed so many times.
    pub(crate) fn new(from: Receiver<Batch>, times: u32) -> Received {
        Received { from, times, ended: false, batch: Arc::new([]), at: 0, intake: Arc::default(), timed: false }
    }
}

impl Source for Received {
    fn fill(&mut self, batch: &mut Vec<Request>, limit: usize) -> Result<(), WorkloadError> {
        let end = batch.len() + limit;
        while batch.len() < end && !self.ended {
            if self.at == self.batch.len() {
                match self.from.recv() {
                    Ok(part) => match part? {
                        Part::Requests(next) => (self.batch, self.at) = (next, 0),
                        Part::End(intake, timed) => (self.intake, self.timed, self.ended) = (intake, timed, true),
                    },
                    Err(_) => self.ended = true,
                }
            }
            let rest = &self.batch[self.at..];
            let take = rest.len().min(end - batch.len());
            batch.extend_from_slice(&rest[..take]);
            self.at += take;
        }
        Ok(())
    }

    /// Goes on to the next time, if this one has been read to its end.
    fn rewind(&mut self) -> bool {
        let again = self.ended && self.times > 1;
        if again {
            (self.times, self.ended) = (self.times - 1, false);
        }
        again
    }

    fn intake(&self) -> &Intake {
        &self.intake
    }

    fn timed(&self) -> bool {
        self.timed
    }
}

//! What stands between the server and the disk: it can hold the disk up, fails now and then, and keeps what would have
//! outlived power.

use super::super::{message, quietly};
use crate::disk::AnyDisk;
use crate::export::{Done, Export, ExportError, Extent};
use flash::Rng;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// What is seen of the disk, and done to it.
#[derive(Debug)]
pub(super) struct State {
    /// The disk is held up.
    pub(super) is_held: bool,
    /// An operation waits for it to be let go.
    pub(super) is_waited_for: bool,
    /// Each operation: its place and bytes.
    pub(super) log: Vec<(u64, u64)>,
    /// Operations until power fails.
    pub(super) until_off: u64,
    /// When power failed: what was answered before was carried out before.
    pub(super) off_at: Option<Instant>,
    /// What outlives power: the image behind the last flush before.
    pub(super) kept: Vec<u8>,
    /// Probability that an operation fails, done or not.
    pub(super) fails: f64,
    /// Operations that did.
    pub(super) failed: u64,
    /// The disk's own failure, which there is no reason for.
    pub(super) wrong: Option<String>,
    /// What it said last of what is a hole.
    pub(super) extents: Vec<Extent>,
    rng: Rng,
}

/// The state, from outside.
#[derive(Clone, Debug)]
pub(super) struct Watch(Arc<(Mutex<State>, Condvar)>);

impl Watch {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds the disk up from its next operation on, or lets it go.
    pub(super) fn hold(&self, is_held: bool) {
        self.state().is_held = is_held;
        self.0.1.notify_all();
    }
}

/// A disk that is watched.
pub(super) struct Watched {
    pub(super) disk: Box<dyn AnyDisk>,
    path: PathBuf,
    watch: Watch,
}

impl Watched {
    /// Watches the disk over the image at `path`.
    pub(super) fn new(disk: Box<dyn AnyDisk>, path: &Path, rng: Rng) -> std::io::Result<Watched> {
        let state = State {
            is_held: false,
            is_waited_for: false,
            log: Vec::new(),
            until_off: u64::MAX,
            off_at: None,
            kept: fs::read(path)?,
            fails: 0.0,
            failed: 0,
            wrong: None,
            extents: Vec::new(),
            rng,
        };
        Ok(Watched { disk, path: path.to_owned(), watch: Watch(Arc::new((Mutex::new(state), Condvar::new()))) })
    }

    pub(super) fn watch(&self) -> Watch {
        self.watch.clone()
    }

    /// One operation of the disk.
    fn meet<T>(
        &mut self,
        place: (u64, u64),
        work: impl FnOnce(&mut dyn AnyDisk) -> Result<T, ExportError>,
    ) -> Result<T, ExportError> {
        let released = &self.watch.0.1;
        let mut state = self.watch.state();
        state.is_waited_for = state.is_held;
        let mut state = released.wait_while(state, |state| state.is_held).unwrap_or_else(PoisonError::into_inner);
        state.log.push(place);
        state.until_off = state.until_off.saturating_sub(1);
        if state.until_off == 0 {
            state.off_at.get_or_insert_with(Instant::now);
        }
        let fails = state.fails;
        let (fails, undone) = (state.rng.chance(fails), state.rng.chance(0.5));
        state.failed += u64::from(fails);
        drop(state);
        if fails && undone {
            return Err(ExportError::Io);
        }
        let wrong = |what: String| _ = self.watch.state().wrong.get_or_insert(what);
        match quietly(|| work(&mut *self.disk)) {
            Ok(_) if fails => Err(ExportError::Io),
            Ok(Ok(done)) => Ok(done),
            Ok(Err(error)) => {
                wrong(format!("{error:?} is the disk's answer though the host does its part"));
                Err(error)
            }
            Err(panic) => {
                wrong(format!("the disk panics: {}", message(&*panic)));
                std::panic::resume_unwind(panic)
            }
        }
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
        self.meet((offset, out.len() as u64), |disk| disk.read(offset, out))
    }
    fn write(&mut self, offset: u64, data: &[u8]) -> Result<Done, ExportError> {
        self.meet((offset, data.len() as u64), |disk| disk.write(offset, data))
    }
    fn trim(&mut self, offset: u64, bytes: u64) -> Result<Done, ExportError> {
        self.meet((offset, bytes), |disk| disk.trim(offset, bytes))
    }
    fn zero(&mut self, offset: u64, bytes: u64) -> Result<Done, ExportError> {
        self.meet((offset, bytes), |disk| disk.zero(offset, bytes))
    }
    fn flush(&mut self) -> Result<Done, ExportError> {
        let (path, watch) = (self.path.clone(), self.watch());
        self.meet((0, 0), |disk| {
            let done = disk.flush()?;
            let image = fs::read(&path).map_err(|_| ExportError::Io)?;
            let mut state = watch.state();
            if state.off_at.is_none() {
                state.kept = image;
            }
            Ok(done)
        })
    }
    fn extents(&mut self, offset: u64, bytes: u64, out: &mut Vec<Extent>) -> Result<(), ExportError> {
        let from = out.len();
        self.meet((offset, bytes), |disk| disk.extents(offset, bytes, out))?;
        self.watch.state().extents = out[from..].to_vec();
        Ok(())
    }
    fn idle(&mut self) -> bool {
        !self.watch.state().is_held && self.disk.idle()
    }
}

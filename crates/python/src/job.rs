//! Long work beside the interpreter: the work has a thread of its own, and the thread that Python called from is
//! detached from the interpreter but for a moment now and then, in which it hears of Ctrl-C and tells how far the work
//! is. Other Python threads run meanwhile.

use crate::errors;
use cli::progress::Meter;
use pyo3::prelude::*;
use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::Duration;

/// Between two looks at Ctrl-C.
const LOOK: Duration = Duration::from_millis(20);

/// Looks between two calls of what shows the progress.
const LOOKS_PER_TELL: u32 = 5;

/// Where and why a thread panicked last, for the exception that tells of it.
static PANICKED: Mutex<String> = Mutex::new(String::new());

/// From now on what a panic says is kept and not printed.
pub(crate) fn keep_panics() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        panic::set_hook(Box::new(|info| {
            let payload = info.payload();
            let text = payload.downcast_ref::<&str>().copied();
            let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
            let text = text.unwrap_or("without a message");
            let place = info.location().map(|at| format!(" ({}:{})", at.file(), at.line())).unwrap_or_default();
            *PANICKED.lock().unwrap_or_else(PoisonError::into_inner) = format!("{text}{place}");
        }));
    });
}

/// What became of a job.
pub(crate) struct Done<T> {
    /// What it returned.
    pub(crate) value: T,
    /// Why it was asked to end early: an exception that a signal raised (Ctrl-C), or one of what shows the progress.
    pub(crate) interrupted: Option<PyErr>,
}

/// Runs `work` beside the interpreter. The flag that it gets is raised when it shall end early. `tell(label, done,
/// total)` is called now and then.
pub(crate) fn run<T: Send>(
    py: Python<'_>,
    meter: &Arc<Meter>,
    tell: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce(&AtomicBool) -> T + Send,
) -> PyResult<Done<T>> {
    let stop = AtomicBool::new(false);
    let mut interrupted = None;
    let ended = std::thread::scope(|scope| {
        let (alive, ended) = channel::<()>();
        let ended = Mutex::new(ended);
        let worker = scope.spawn(|| {
            let value = work(&stop);
            drop(alive);
            value
        });
        let mut looks = 0u32;
        loop {
            let wait = || ended.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(LOOK);
            if py.detach(wait) != Err(RecvTimeoutError::Timeout) {
                break;
            }
            looks += 1;
            if interrupted.is_none()
                && let Err(exception) = look(py, meter, tell.filter(|_| looks.is_multiple_of(LOOKS_PER_TELL)))
            {
                stop.store(true, Ordering::Relaxed);
                interrupted = Some(exception);
            }
        }
        py.detach(|| worker.join())
    });
    if let Some(tell) = tell.filter(|_| interrupted.is_none()) {
        interrupted = look(py, meter, Some(tell)).err();
    }
    match ended {
        Ok(value) => Ok(Done { value, interrupted }),
        Err(_) => {
            let text = PANICKED.lock().unwrap_or_else(PoisonError::into_inner).clone();
            Err(errors::bug(py, format!("a bug of ftlab: {text}; please report it with what you called")))
        }
    }
}

/// Hears of signals, warns of what the meter notes, and tells how far the work is.
fn look(py: Python<'_>, meter: &Meter, tell: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
    py.check_signals()?;
    for note in meter.notes() {
        py.import("warnings")?.call_method1("warn", (note,))?;
    }
    if let (Some(tell), Some(reading)) = (tell, meter.read()) {
        tell.call1((reading.label, reading.done, reading.total))?;
    }
    Ok(())
}

//! What the user sees while a run is under way, and how the user stops it.

use crate::error::CliError;
use crate::units;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A bar with rate and remaining time on standard error, if that is a terminal; silent otherwise. Clones share one bar,
/// from any thread. It counts requests; while runs fill their devices it says so, and counts those pages beside.
#[derive(Clone, Debug)]
pub struct Progress {
    bar: ProgressBar,
    label: Arc<str>,
    bounded: bool,
    filling: Arc<Filling>,
    meter: Option<Arc<Meter>>,
}

/// How far a comparison is, for a program that asks now and then.
#[derive(Debug, Default)]
pub struct Meter {
    bar: Mutex<Option<ProgressBar>>,
    notes: Mutex<Vec<String>>,
}

/// What a [`Meter`] says.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reading {
    /// What is being done.
    pub label: String,
    /// Requests served.
    pub done: u64,
    /// Requests to be served, if that is known.
    pub total: Option<u64>,
}

impl Meter {
    /// How far it is; `None` before it began.
    pub fn read(&self) -> Option<Reading> {
        let bar = self.bar.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        Some(Reading { label: bar.message(), done: bar.position(), total: bar.length() })
    }

    /// What the user may want to know before it is over; forgotten then.
    pub fn notes(&self) -> Vec<String> {
        std::mem::take(&mut *self.notes.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Runs that are filling their devices, and the pages that were written so.
#[derive(Debug, Default)]
struct Filling {
    runs: AtomicU64,
    pages: AtomicU64,
}

/// One run's filling; it ends when this is dropped.
#[derive(Debug)]
pub struct Fill {
    progress: Progress,
    pages: u64,
}

/// Pages between two looks at the label: a message costs more than a batch of writes.
const PAGES_PER_MESSAGE: u64 = 1 << 18;

impl Progress {
    /// A bar over `total` requests, or a counter if the number is not known beforehand.
    pub fn new(total: Option<u64>, label: impl Into<String>) -> Progress {
        Progress::shown(total, label, None)
    }

    /// The same, on a meter if there is one, and then not on the terminal.
    pub fn shown(total: Option<u64>, label: impl Into<String>, meter: Option<&Arc<Meter>>) -> Progress {
        let target = if meter.is_none() && std::io::stderr().is_terminal() {
            ProgressDrawTarget::stderr_with_hz(8)
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(total, target);
        bar.set_style(style(if total.is_some() { BOUNDED } else { COUNTING }));
        let label: Arc<str> = label.into().into();
        bar.set_message(label.to_string());
        if let Some(meter) = meter {
            *meter.bar.lock().unwrap_or_else(PoisonError::into_inner) = Some(bar.clone());
        }
        Progress { bar, label, bounded: total.is_some(), filling: Arc::default(), meter: meter.cloned() }
    }

    /// A bar over runs, whose number grows as they are planned.
    pub fn of_runs(label: &str, meter: Option<&Arc<Meter>>) -> Progress {
        let progress = Progress::shown(Some(0), label, meter);
        progress.bar.set_style(style(RUNS));
        progress
    }

    /// A bar over the seeds of a check.
    pub fn of_seeds(label: &str, seeds: u64) -> Progress {
        let progress = Progress::new(Some(seeds), label);
        progress.bar.set_style(style(SEEDS));
        progress
    }

    /// There will be so many more.
    pub fn expect(&self, more: u64) {
        self.bar.inc_length(more);
    }

    /// Says what is being done now.
    pub fn say(&self, label: &str) {
        self.bar.set_message(label.to_owned());
    }

    /// Takes the bar off the screen while something else is printed.
    pub fn aside<T>(&self, print: impl FnOnce() -> T) -> T {
        self.bar.suspend(print)
    }

    /// Says what the user may want to know before a long run is over: on standard error, or on the meter.
    pub fn note(&self, text: &str) {
        match &self.meter {
            Some(meter) => meter.notes.lock().unwrap_or_else(PoisonError::into_inner).push(text.to_owned()),
            None => self.aside(|| note(text)),
        }
    }

    /// A run begins to fill its device.
    pub fn fill(&self) -> Fill {
        if self.filling.runs.fetch_add(1, Ordering::Relaxed) == 0 {
            self.bar.set_style(style(if self.bounded { FILLING } else { COUNTING }));
            self.bar.set_message(self.message());
        }
        Fill { progress: self.clone(), pages: 0 }
    }

    /// What is being done now.
    fn message(&self) -> String {
        match self.filling.runs.load(Ordering::Relaxed) {
            0 => self.label.to_string(),
            _ => format!("filling, {} pages", units::whole(self.filling.pages.load(Ordering::Relaxed))),
        }
    }

    /// Adds served requests. Cheap enough for every batch, not for every request.
    pub fn add(&self, n: u64) {
        self.bar.inc(n);
    }

    /// Requests added so far.
    pub fn position(&self) -> u64 {
        self.bar.position()
    }

    /// Takes the bar off the screen.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

impl Fill {
    /// Adds written pages. Cheap enough for every batch.
    pub fn add(&mut self, pages: u64) {
        self.pages += pages;
        if self.pages >= PAGES_PER_MESSAGE {
            let pages = std::mem::take(&mut self.pages);
            self.progress.filling.pages.fetch_add(pages, Ordering::Relaxed);
            self.progress.bar.set_message(self.progress.message());
        }
    }
}

impl Drop for Fill {
    fn drop(&mut self) {
        let Progress { bar, filling, bounded, .. } = &self.progress;
        filling.pages.fetch_add(self.pages, Ordering::Relaxed);
        if filling.runs.fetch_sub(1, Ordering::Relaxed) == 1 {
            bar.set_style(style(if *bounded { BOUNDED } else { COUNTING }));
            // What comes is served at another rate.
            bar.reset_eta();
        }
        bar.set_message(self.progress.message());
    }
}

/// Requests of a known number. Each of these fits 80 columns.
const BOUNDED: &str = "{msg} [{bar:20}] {percent:>3} %  {human_pos}/{human_len} requests  {rate}  {eta} left";

/// Runs.
const RUNS: &str = "{msg} [{bar:20}] {human_pos}/{human_len} runs  {elapsed}";

/// Seeds of a check.
const SEEDS: &str = "{msg} [{bar:20}] {human_pos}/{human_len} seeds  {elapsed}  {eta} left";

/// Requests of an unknown number.
const COUNTING: &str = "{msg} {spinner} {human_pos} requests  {rate}  {elapsed}";

/// Requests while a device is being filled: there is no rate to tell the remaining time from.
const FILLING: &str = "{msg} {spinner} {human_pos}/{human_len} requests  {elapsed}";

fn style(template: &str) -> ProgressStyle {
    // A test checks that the templates are valid; were one not, the plain bar would do.
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    let rate = |state: &ProgressState, out: &mut dyn std::fmt::Write| {
        // A terminal that cannot be written to shows nothing.
        let _ = write!(out, "{}/s", units::whole(state.per_sec() as u64));
    };
    style.with_key("rate", rate).progress_chars("=> ")
}

/// Says on standard error what the user may want to know before a long run is over.
#[expect(clippy::print_stderr, reason = "beside the bar, which has no other stream")]
fn note(text: &str) {
    eprintln!("note: {text}");
}

/// Arranges that the first Ctrl-C raises the returned flag, which running simulations poll, and that a second one
/// removes unfinished files and exits at once with code 130. May be called once per process.
///
/// # Errors
/// The system refused the signal handler.
#[expect(clippy::print_stderr, reason = "the handler runs on a thread that has no other stream")]
pub fn interrupt_flag() -> Result<Arc<AtomicBool>, CliError> {
    let flag = Arc::new(AtomicBool::new(false));
    let raised = Arc::clone(&flag);
    ctrlc::set_handler(move || {
        if raised.swap(true, Ordering::Relaxed) {
            crate::output::remove_temporaries();
            std::process::exit(130);
        }
        eprintln!("\ninterrupted: what was finished, if anything was, is printed; press Ctrl-C again to leave at once");
    })
    .map_err(|cause| CliError::new(format_args!("cannot watch for Ctrl-C: {cause}")))?;
    Ok(flag)
}

/// Arranges that Ctrl-C removes unfinished files and exits with code 130: for work of which no part is worth keeping.
/// May be called once per process, and not beside [`interrupt_flag`].
///
/// # Errors
/// The system refused the signal handler.
#[expect(clippy::print_stderr, reason = "the handler runs on a thread that has no other stream")]
pub fn leave_nothing_at_interrupt() -> Result<(), CliError> {
    ctrlc::set_handler(|| {
        crate::output::remove_temporaries();
        eprintln!("\ninterrupted");
        std::process::exit(130);
    })
    .map_err(|cause| CliError::new(format_args!("cannot watch for Ctrl-C: {cause}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_valid() {
        for template in [BOUNDED, COUNTING, FILLING, RUNS, SEEDS] {
            assert!(ProgressStyle::with_template(template).is_ok());
        }
    }

    #[test]
    fn filling_is_said_as_long_as_any_run_fills() {
        let progress = Progress::new(Some(10), "running");
        assert_eq!(progress.bar.message(), "running");
        let (mut one, two) = (progress.fill(), progress.fill());
        one.add(PAGES_PER_MESSAGE);
        assert_eq!(progress.bar.message(), "filling, 262,144 pages");
        one.add(1);
        drop(one);
        assert_eq!(progress.bar.message(), "filling, 262,145 pages");
        drop(two);
        assert_eq!((progress.bar.message().as_str(), progress.position()), ("running", 0));
    }

    #[test]
    fn counts_from_many_threads() {
        let progress = Progress::new(Some(4000), "test");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let progress = progress.clone();
                scope.spawn(move || (0..1000).for_each(|_| progress.add(1)));
            }
        });
        assert_eq!(progress.position(), 4000);
        progress.finish();
    }
}

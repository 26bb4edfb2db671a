//! What the user sees while a run is under way, and how the user stops it.

use crate::error::CliError;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A bar with rate and remaining time on standard error, if that is a terminal; silent otherwise. Clones share one bar,
/// from any thread.
#[derive(Clone, Debug)]
pub struct Progress(ProgressBar);

impl Progress {
    /// A bar over `total` requests, or a counter if the number is not known beforehand.
    pub fn new(total: Option<u64>, label: impl Into<String>) -> Progress {
        let target = if std::io::stderr().is_terminal() {
            ProgressDrawTarget::stderr_with_hz(8)
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(total, target);
        bar.set_style(style(total.is_some()));
        bar.set_message(label.into());
        Progress(bar)
    }

    /// Adds served requests. Cheap enough for every batch, not for every request.
    pub fn add(&self, n: u64) {
        self.0.inc(n);
    }

    /// Requests added so far.
    pub fn position(&self) -> u64 {
        self.0.position()
    }

    /// Says what is being done now.
    pub fn set_label(&self, label: impl Into<String>) {
        self.0.set_message(label.into());
    }

    /// Takes the bar off the screen.
    pub fn finish(&self) {
        self.0.finish_and_clear();
    }
}

fn template(bounded: bool) -> &'static str {
    if bounded {
        "{msg} [{bar:30}] {percent:>3} %  {human_pos}/{human_len} requests  {per_sec}  {eta} left"
    } else {
        "{msg} {spinner} {human_pos} requests  {per_sec}  {elapsed}"
    }
}

fn style(bounded: bool) -> ProgressStyle {
    // A test checks that both templates are valid; were one not, the plain bar would do.
    let style = ProgressStyle::with_template(template(bounded)).unwrap_or_else(|_| ProgressStyle::default_bar());
    style.progress_chars("=> ")
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
        eprintln!("\ninterrupted: printing what was finished; press Ctrl-C again to leave at once");
    })
    .map_err(|cause| CliError::new(format_args!("cannot watch for Ctrl-C: {cause}")))?;
    Ok(flag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_valid() {
        for bounded in [true, false] {
            assert!(ProgressStyle::with_template(template(bounded)).is_ok());
        }
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

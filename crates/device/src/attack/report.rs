//! What attacks of many seeds did and found, and how it is told.

use super::clients::{CELL, Served};
use super::{Aftermath, Attack, Attacked, End, Finding};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// What came of one seed: what was done, and what is wrong, if anything is. Fails where the host does not do its part
/// though nobody asked it not to, and where the scheme does not take its settings.
pub type Attacks<C> = Result<(C, Option<Finding>), String>;

/// A kind of attack, by what it counts.
pub trait Counts: Default + Send {
    /// What is attacked, as the command line calls it.
    const WHAT: &'static str;
    /// Requests of each seed, unless somebody says how many.
    const REQUESTS: u64;
    /// Most seeds at a time: each may have many threads and files of its own.
    const MOST_AT_ONCE: usize;

    /// Attacks with one seed, whose files may lie in `directory`. Ends early when told to `stop`.
    ///
    /// # Errors
    /// As [`Attacks`] says.
    fn attack(asked: &Attack<'_>, seed: u64, directory: &Path, stop: &AtomicBool) -> Attacks<Self>;

    /// Adds what another one did.
    fn add(&mut self, other: &Self);
}

/// What was attacked and what was found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report<C> {
    /// Name of the scheme.
    pub scheme: String,
    /// Whether it was stopped before it was through: the counts are those of what was done.
    pub interrupted: bool,
    /// What was done.
    pub done: C,
    /// What went wrong.
    pub failures: Vec<Finding>,
}

impl<C> Report<C> {
    /// Whether nothing went wrong.
    pub fn passed(&self) -> bool {
        self.failures.is_empty()
    }

    /// The verdict in words.
    fn verdict(&self) -> &'static str {
        match (self.passed(), self.interrupted) {
            (true, false) => "held",
            (true, true) => "interrupted; held so far",
            (false, false) => "FAILED",
            (false, true) => "interrupted; FAILED",
        }
    }

    fn tell_failures(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.failures.iter().try_for_each(|Finding { seed, what }| writeln!(f, "  {seed}: {what}"))
    }
}

/// Attacks a scheme with each of these seeds, on as many threads. Images lie in `directory`, each seed's in one of its
/// own. With `fail_fast` no seed is begun once one has failed. Behind each seed `seed_done` is called, from any thread.
///
/// # Errors
/// As [`Counts::attack`].
pub fn attack_all<C: Counts>(
    asked: &Attack<'_>,
    seeds: Range<u64>,
    (threads, fail_fast): (usize, bool),
    directory: &Path,
    stop: &AtomicBool,
    seed_done: &(dyn Fn() + Sync),
) -> Result<Report<C>, String> {
    let next = AtomicU64::new(seeds.start);
    let failed = AtomicBool::new(false);
    let done = Mutex::new(BTreeMap::new());
    let work = || loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= seeds.end || fail_fast && failed.load(Ordering::Relaxed) || stop.load(Ordering::Relaxed) {
            break;
        }
        let place = directory.join(format!("{}-{seed}", asked.scheme));
        let made = std::fs::create_dir_all(&place).map_err(|error| format!("{}: {error}", place.display()));
        let result = made.and_then(|()| C::attack(asked, seed, &place, stop));
        // What is left there is of no use to anybody, and whoever gave the directory removes it.
        let _ = std::fs::remove_dir_all(&place);
        if result.as_ref().is_ok_and(|(_, finding)| finding.is_some()) {
            failed.store(true, Ordering::Relaxed);
        }
        done.lock().unwrap_or_else(PoisonError::into_inner).insert(seed, result);
        seed_done();
    };
    std::thread::scope(|scope| (0..threads.clamp(1, C::MOST_AT_ONCE)).for_each(|_| _ = scope.spawn(work)));
    let mut report =
        Report { scheme: asked.scheme.into(), interrupted: false, done: C::default(), failures: Vec::new() };
    for result in done.into_inner().unwrap_or_else(PoisonError::into_inner).into_values() {
        let (lived, finding) = result?;
        report.done.add(&lived);
        report.failures.extend(finding);
    }
    report.interrupted = stop.load(Ordering::Relaxed);
    Ok(report)
}

impl fmt::Display for Report<Attacked> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Attacked { images, requests, hitches, errors, ends, believed, pages, others, refused, harmed } = &self.done;
        let [killed, in_order, scattered, misdirected, _] = ends;
        let (scheme, crashes) = (&self.scheme, in_order + scattered + misdirected);
        writeln!(
            f,
            "{scheme}: {} over {crashes} crashes of the host and {killed} kills of {images} images in use",
            self.verdict()
        )?;
        let [partly, interrupted, nothing, full, fleeting] = hitches;
        writeln!(f, "  {requests} requests; {errors} failed for the host's doing and were done again")?;
        let parts =
            format!("{partly} in part, {interrupted} interrupted, {nothing} did nothing, {full} met a full disk");
        writeln!(f, "  reads and writes of the file: {parts}")?;
        writeln!(f, "  the file could not be made durable {fleeting} times")?;
        for (end, (count, other)) in End::ALL.into_iter().zip(ends.iter().zip(others)) {
            let words = end.words();
            write!(f, "  {words}: {count} times, then {other} pages not as the host had left them")?;
            match end {
                End::Shutdown => writeln!(f, "; {believed} checkpoints believed")?,
                _ => writeln!(f)?,
            }
        }
        writeln!(f, "  {pages} pages held to what they may be")?;
        if *refused > 0 {
            writeln!(f, "  {refused} images and copies could not be mounted in the end, and said so")?;
        }
        let Aftermath { images, refused, errors, stale, said, undone, .. } = harmed;
        writeln!(f, "  {images} copies were harmed: {refused} refused; {errors} pages cannot be read")?;
        writeln!(f, "  {stale} pages stale of {said} said to be, and {undone} discards undone")?;
        self.tell_failures(f)
    }
}

impl fmt::Display for Report<Served> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Served { servers, clients, requests, vanished, errors, refused, ended, bounds, cells, older } = &self.done;
        let (scheme, verdict) = (&self.scheme, self.verdict());
        writeln!(f, "{scheme}: {verdict} over {requests} requests of {clients} clients to {servers} servers")?;
        writeln!(
            f,
            "  clients went away {vanished} times without their answers; {errors} requests failed with the disk"
        )?;
        writeln!(f, "  {refused} requests and options were refused, and {ended} connections ended, as they must be")?;
        writeln!(f, "  {bounds} servers were asked for more clients, bytes and patience than they have")?;
        writeln!(f, "  {cells} places of {CELL} bytes: all that clients were told happened in one order")?;
        writeln!(f, "  {older} of them lost what no flush had covered when power failed")?;
        self.tell_failures(f)
    }
}

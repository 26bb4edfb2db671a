//! The conformance checker: one suite for all schemes.
//!
//! A *seed* stands for a small device, a scheme's settings and a stream of operations: requests of one page, a few or
//! whole blocks, discards, flushes and idle times. For each seed the checker
//!
//! 1. runs the operations and holds every read to the [`Oracle`](crate::oracle::Oracle) and the scheme to its own
//!    audit;
//! 2. cuts power at the commands of that run, in every way that a cut command can look (docs/fault-model.md): it mounts
//!    the device, reads everything twice, audits, goes on for some operations, and mounts once more. Behind a sample of
//!    these cuts it cuts again, at every command of the mount and of the first operations after it, and many times in a
//!    row;
//! 3. runs the operations on media whose blocks are or go bad, until no space is left, on media that fail now and then,
//!    on media that do not give a page back, on media whose programs do not stick, and on media that lose what is read
//!    often or kept long;
//! 4. writes to sound devices without a block to spare;
//! 5. tests two claims: that the RAM which the scheme reports holds its whole state, and that the metadata which it
//!    keeps on flash is what it works from.
//!
//! A write buffer may stand in front of the scheme, and what it holds is lost by a cut: there, only flushes make writes
//! durable. Without one, an acknowledged write is so at once, and every scheme is held to that. All schemes are run
//! through [`ftl::buffer::Buffered`], which without a buffer hands everything through, and as one type, [`AnyRecipe`]:
//! so the check is compiled once, and each scheme once for it.
//!
//! Every run is a branch: scheme, chip and oracle are cloned before an operation, so that a cut costs what happens
//! after it and not what led to it. A failure names a [`Replay`], which [`replay`] turns into a story. Results depend
//! on the configuration alone, not on threads.

mod bed;
mod content;
mod cuts;
mod disturb;
mod failed;
mod faults;
mod fewest;
mod full;
mod honesty;
mod life;
mod media;
mod numbers;
mod remounts;
mod replay;
mod report;
mod session;
mod shrink;
pub mod step;

use bed::{Lay, Shape};
pub use content::{Stamp, Stamps};
pub use faults::{FaultClass, Faults, LOSES, NOBODY};
use flash::{Cause, Failing, FailurePlan, Full, Geometry, Guard, InFlight, Nand, PowerCut, Transcript, Verified};
use ftl::buffer::{self, Behind, BufferRow};
use ftl::parameters::ECC;
use ftl::schemes::{self, Registry};
use ftl::{AnyRecipe, Recipe, Scheme};
pub use replay::{Kept, Picked, Replay};
pub use report::{CheckReport, Failure, HonestyReport, MediaReport, MetadataReport};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, Once};

/// The chip that schemes are checked on.
pub type Chip = Nand<Stamps, Full>;

/// The same, with commands that can be under way together, blocks that can fail, power that can be cut, what it was
/// told if somebody wants to know, programs that are read back, and a guard of pages that share cells. One type for all
/// checks, because every scheme is compiled for it.
pub type Bench = Guard<Verified<Transcript<Powered>>>;

/// The chip with all that can happen to it.
pub(crate) type Powered = PowerCut<Failing<InFlight<Chip, Stamps>>>;

/// A chip without faults, whose power holds until it is told otherwise.
pub(crate) fn sound(geometry: Geometry) -> Powered {
    PowerCut::counting(Failing::new(InFlight::new(Chip::new(geometry)), FailurePlan::default(), 0))
}

/// A medium for checks, whose commands are written down if they are to be told.
pub(crate) fn bench(power: Powered, told: bool) -> Bench {
    Guard::new(Verified::trusting(if told { Transcript::new(power) } else { Transcript::silent(power) }))
}

/// The same, whose programs are read back.
pub(crate) fn verified_bench(power: Powered, told: bool) -> Bench {
    Guard::new(Verified::new(if told { Transcript::new(power) } else { Transcript::silent(power) }))
}

/// Failures after which a seed is given up: they are mostly the same one.
const FAILURES_PER_SEED: usize = 5;

/// Cuts of the first level for each seed; with more than half as many, a seed has all devices without a block to spare.
const CUTS_FOR_ALL_DEVICES: u64 = 2_500;

/// Which cuts to make behind the operations of the seeds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cuts {
    /// Every command of every operation, in every face.
    All,
    /// About this many over all seeds, drawn evenly, and at least one for each cause in each seed. 0 makes none.
    Count(u64),
}

/// What to check.
#[derive(Clone, PartialEq, Debug)]
pub struct CheckConfig {
    /// Name of the scheme.
    pub scheme: String,
    /// Policy of a write buffer in front of it. Its size, one to two blocks, and its parameters go by seed.
    pub buffer: Option<String>,
    /// Settings that no seed varies: name and text.
    pub settings: Vec<(String, String)>,
    /// Seeds, each a device and a run of its own.
    pub seeds: Range<u64>,
    /// Operations of each run.
    pub operations: u32,
    /// The device; `None`: by seed, one or two dies of 8 to 24 blocks of 4 to 16 pages.
    pub geometry: Option<Geometry>,
    /// Its logical pages; `None`: as many as the scheme takes, or an eighth less.
    pub logical_pages: Option<u32>,
    /// Cuts of the first level.
    pub cuts: Cuts,
    /// One in so many of them is followed by cuts at every command of its recovery; 0: none.
    pub second_level: u64,
    /// The classes of faults.
    pub faults: Faults,
    /// Of these, such that the scheme does not promise to survive: what they show is told, and is no failure.
    pub told: Faults,
    /// Whether pages that share cells are guarded ([`flash::Guard`]), where torn pages take others along.
    pub guarded: bool,
    /// Whether programs are read back ([`flash::Verified`]), where some do not stick.
    pub verified: bool,
    /// Whether pages may be stale after a mount that has said so, where the medium loses pages for good.
    pub excused: bool,
    /// Whether the host leaves the device idle time, where reads and time wear on blocks: without it, none is
    /// refreshed but by chance.
    pub rests: bool,
    /// One in so many of the devices that live on that there are for each seed, 1 at the least.
    pub lives: usize,
    /// One in so many of the devices without a block to spare that there are for each seed; 0: none.
    pub fewest: usize,
    /// Whether to test what the scheme claims of its RAM and of its metadata. If not, no device is saved and
    /// restored either.
    pub honesty: bool,
    /// Whether the two claims have a run of their own too.
    pub claims: bool,
    /// Whether to stop at the first seed that fails.
    pub fail_fast: bool,
    /// Threads; 0: one for each core.
    pub threads: usize,
}

impl CheckConfig {
    /// A check of a scheme in some minutes: 256 seeds of 400 operations, and more than 80,000 cuts. A bug shows on
    /// devices that suit it, so many devices with few cuts each find more than few with many.
    pub fn new(scheme: &str) -> CheckConfig {
        let config = CheckConfig {
            scheme: scheme.into(),
            buffer: None,
            settings: Vec::new(),
            seeds: 0..256,
            operations: 400,
            geometry: None,
            logical_pages: None,
            cuts: Cuts::All,
            second_level: 400,
            faults: Faults::promised(scheme),
            told: Faults::NONE,
            guarded: true,
            verified: true,
            excused: true,
            rests: true,
            lives: 1,
            fewest: 1,
            honesty: true,
            claims: true,
            fail_fast: false,
            threads: 0,
        };
        config.with_cuts(Cuts::Count(80_000))
    }

    /// With so many cuts, and as large a share of the devices without a block to spare: all where each of its seeds,
    /// which are given before, has 2,500 cuts; half of them where it has no more than half of these, a quarter, and so
    /// on. The devices of a smaller share are among those of a larger one. Without any cut there are all of those on
    /// which power is not cut.
    #[must_use]
    pub fn with_cuts(self, cuts: Cuts) -> CheckConfig {
        let seeds = self.seeds.end.saturating_sub(self.seeds.start).max(1);
        let share = match cuts {
            Cuts::All | Cuts::Count(0) => 1,
            Cuts::Count(count) => CUTS_FOR_ALL_DEVICES.saturating_mul(seeds) / count,
        };
        let fewest = 1 << share.clamp(1, fewest::DEVICES).ilog2();
        CheckConfig { cuts, fewest, ..self }
    }

    /// Behind a write buffer of this policy, or none, with what is promised there. A buffer gives many pages back for
    /// one of the host, so [`FaultClass::Stages`] is not.
    #[must_use]
    pub fn behind(self, buffer: Option<String>) -> CheckConfig {
        let config = CheckConfig { buffer, ..self };
        CheckConfig { faults: config.promised(), ..config }
    }

    /// What the scheme promises to survive, behind its buffer if it has one.
    fn promised(&self) -> Faults {
        let promised = Faults::promised(&self.scheme);
        if self.buffer.is_some() { promised.without(FaultClass::Stages) } else { promised }
    }

    /// With these classes of faults. Who asks for all wants to know what the scheme does under each: those that it
    /// does not promise to survive are told, and fail nothing. Who asks for some of them wants those to hold, and the
    /// two claims to be left alone.
    #[must_use]
    pub fn with_faults(self, faults: Faults) -> CheckConfig {
        let told = if faults == Faults::ALL { faults.but(self.promised()) } else { Faults::NONE };
        let claims = self.promised().but(faults) == Faults::NONE;
        CheckConfig { faults, told, claims, ..self }
    }

    /// Whether power is cut at all.
    fn cuts_power(&self) -> bool {
        self.faults.contain(FaultClass::Cut) && self.cuts != Cuts::Count(0)
    }
}

/// Why nothing could be checked: the configuration is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CheckError(pub String);

impl fmt::Display for CheckError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CheckError {}

/// Which part of the check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// Operations and power cuts.
    Cuts,
    /// Power cuts with several commands under way, of a controller that lets erases and metadata wait.
    Flight,
    /// The same without that.
    Unordered,
    /// The same, within what a scheme does for a page of the host.
    Stages,
    /// Power cuts of pages that share their cells.
    Paired,
    /// Power cuts that leave cells which read otherwise each time.
    Unstable,
    /// The same, with several commands under way.
    UnstableFlight,
    /// The same, of pages that share their cells.
    UnstablePaired,
    /// Failing media.
    Media,
    /// The same, where the device is full and goes on.
    Full,
    /// Media that fail now and then.
    Intermittent,
    /// Media that do not give pages back.
    Unreadable,
    /// Media whose programs do not stick.
    Silent,
    /// Media that lose what is read often or kept long.
    Disturb,
    /// Power cuts one after another, on a device that goes on.
    Life,
    /// Sound devices without a block to spare.
    Fewest,
    /// Media that do not give pages back, over mounts.
    Remounts,
    /// The same, and of some pages the spare area neither.
    Spare,
    /// Media that do not give metadata back, over mounts.
    Metadata,
    /// Saving and restoring RAM.
    Ram,
    /// Flipping bits of metadata.
    Flips,
}

impl Part {
    const NAMED: [(Part, &'static str); 20] = [
        (Part::Flight, "flight."),
        (Part::Unordered, "unordered."),
        (Part::Stages, "stages."),
        (Part::Paired, "paired."),
        (Part::Unstable, "unstable."),
        (Part::UnstableFlight, "unstable-flight."),
        (Part::UnstablePaired, "unstable-paired."),
        (Part::Media, "media."),
        (Part::Full, "full."),
        (Part::Intermittent, "intermittent."),
        (Part::Unreadable, "unreadable."),
        (Part::Silent, "silent."),
        (Part::Disturb, "disturb."),
        (Part::Life, "life."),
        (Part::Fewest, "fewest."),
        (Part::Remounts, "remounts."),
        (Part::Spare, "spare."),
        (Part::Metadata, "metadata."),
        (Part::Ram, "ram."),
        (Part::Flips, "flips."),
    ];

    /// The class of faults that its cases are of, without a cut during a recovery; RAM and metadata are of none.
    const fn class(self) -> Option<FaultClass> {
        Some(match self {
            Part::Cuts => FaultClass::Cut,
            Part::Flight => FaultClass::Flight,
            Part::Unordered => FaultClass::Unordered,
            Part::Stages => FaultClass::Stages,
            Part::Paired => FaultClass::Paired,
            Part::Unstable => FaultClass::Unstable,
            Part::UnstableFlight => FaultClass::UnstableFlight,
            Part::UnstablePaired => FaultClass::UnstablePaired,
            Part::Media | Part::Full => FaultClass::Failing,
            Part::Intermittent => FaultClass::Intermittent,
            Part::Unreadable | Part::Remounts => FaultClass::Unreadable,
            Part::Silent => FaultClass::Silent,
            Part::Disturb => FaultClass::Disturb,
            Part::Life | Part::Fewest => FaultClass::Nested,
            Part::Spare => FaultClass::Spare,
            Part::Metadata => FaultClass::Metadata,
            Part::Ram | Part::Flips => return None,
        })
    }

    /// Whether power is cut in it.
    const fn has_cuts(self) -> bool {
        matches!(self, Part::Cuts) || self.is_paired() || self.is_unstable() || self.is_in_flight()
    }

    /// Whether a case of it is done again by itself, told, and made short.
    const fn is_told(self) -> bool {
        self.has_cuts() || self.is_medium()
    }

    /// Whether it is runs on media that may fail, in which nothing is branched.
    const fn is_medium(self) -> bool {
        use Part::{Disturb, Full, Intermittent, Life, Media, Silent, Unreadable};
        matches!(self, Media | Full | Intermittent | Unreadable | Silent | Disturb | Life)
    }

    /// Whether a case of it may say in which run it is, or on which device.
    const fn has_runs(self) -> bool {
        self.is_medium() || matches!(self, Part::Fewest)
    }

    /// Whether several commands are under way then.
    const fn is_in_flight(self) -> bool {
        matches!(self, Part::Flight | Part::Unordered | Part::Stages | Part::UnstableFlight)
    }

    /// Whether pages share cells then.
    const fn is_paired(self) -> bool {
        matches!(self, Part::Paired | Part::UnstablePaired)
    }

    /// Whether what a cut leaves reads otherwise each time.
    const fn is_unstable(self) -> bool {
        matches!(self, Part::Unstable | Part::UnstableFlight | Part::UnstablePaired)
    }
}

thread_local! {
    /// Whether this thread runs a scheme, and where that panicked last.
    static RUNNING: Cell<bool> = const { Cell::new(false) };
    static PANICKED_AT: RefCell<String> = const { RefCell::new(String::new()) };
}

/// What a scheme unwinds with that failed in code of its own, which is no panic: what happened, as a finding.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Raised(pub String);

/// Runs `work`; a panic of the scheme or of the chip under it becomes a finding, and is not printed.
fn guarded<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let others = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if RUNNING.get() {
                let at = info.location().map(|at| format!("{}:{}", at.file(), at.line()));
                PANICKED_AT.set(at.unwrap_or_default());
            } else {
                others(info);
            }
        }));
    });
    let outer = RUNNING.replace(true);
    let result = panic::catch_unwind(AssertUnwindSafe(work));
    RUNNING.set(outer);
    result.unwrap_or_else(|panic| {
        let panic = match panic.downcast::<Raised>() {
            Ok(raised) => return Err(raised.0),
            Err(panic) => panic,
        };
        let text = match panic.downcast::<String>() {
            Ok(text) => *text,
            Err(panic) => panic.downcast_ref::<&str>().map_or("without a message", |text| text).to_string(),
        };
        Err(format!("panic at {}: {text}", PANICKED_AT.take()))
    })
}

/// How the scheme that is checked is made: behind the write buffer that its settings name.
pub(crate) type Checked = Behind<AnyRecipe<Bench>>;

/// That scheme, formatted or mounted.
pub(crate) type CheckedScheme = <Checked as Recipe<Bench>>::Scheme;

/// The scheme that is checked.
struct Subject<'a> {
    row: &'a Scheme<'a>,
    /// Makes its recipe, which belongs to one thread.
    make: &'a (dyn Fn() -> AnyRecipe<Bench> + Sync),
}

impl Subject<'_> {
    fn recipe(&self) -> Checked {
        Behind((self.make)())
    }
}

/// The recipe of a row.
fn recipe_of(row: &Scheme<'_>) -> AnyRecipe<Bench> {
    Registry::BUILT_IN.recipe(row.name).expect("the scheme has a row")
}

/// The scheme's row, if it can be checked.
fn row(config: &CheckConfig) -> Result<&'static ftl::Scheme<'static>, CheckError> {
    let row = schemes::by_name(&config.scheme).ok_or_else(|| {
        let names: Vec<&str> = schemes::SCHEMES.iter().map(|row| row.name).collect();
        CheckError(format!("no scheme {}; there are {}", config.scheme, names.join(", ")))
    })?;
    write_buffer(config)?;
    if row.keeps_data { Ok(row) } else { Err(CheckError(format!("{} keeps no data: nothing to check", row.name))) }
}

/// The row of the write buffer, if there is to be one.
fn write_buffer(config: &CheckConfig) -> Result<Option<&'static BufferRow>, CheckError> {
    let Some(name) = &config.buffer else { return Ok(None) };
    let unknown = || CheckError(format!("no write buffer {name}; there are {}", buffer::NAMES.join(", ")));
    buffer::by_name(name).map(Some).ok_or_else(unknown)
}

fn check_seed(
    subject: &Subject<'_>,
    config: &CheckConfig,
    seed: u64,
    stop: &AtomicBool,
) -> Result<CheckReport, CheckError> {
    let (row, recipe) = (subject.row, &subject.recipe());
    let bed = Lay { config, seed, shape: Shape::FewBlocks }.run(row, recipe)?;
    let mut report = CheckReport::default();
    report.merge(cuts::CutEverywhere { config, bed: &bed, stop, part: Part::Cuts }.run(recipe));
    for (class, part) in cuts::PARTS {
        let is_asked =
            config.faults.contain(class) || part == Part::Unstable && config.faults.contain(FaultClass::UnstableNested);
        if !is_asked {
            continue;
        }
        let wide = wide_bed(subject, config, part, &bed);
        let bed = wide.as_ref().unwrap_or(&bed);
        if cuts::is_for(part, bed) {
            report.merge(cuts::CutEverywhere { config, bed, stop, part }.run(recipe));
        }
    }
    for (class, part) in media::PARTS {
        if config.faults.contain(class) && (part != Part::Life || config.cuts_power()) {
            report.merge(media::OnFailingMedia { config, bed: &bed, stop, part }.run(recipe));
        }
    }
    for (class, part) in remounts::PARTS {
        if config.faults.contain(class) {
            report.merge(remounts::OverMounts { config, bed: &bed, stop, part }.run(recipe));
        }
    }
    report.merge(fewest::OnFewestBlocks { config, seed, stop, only: None }.run(row, recipe));
    if config.honesty && config.claims {
        report.merge(honesty::Honest { config, bed: &bed, stop }.run(recipe));
    }
    report.excuse(config.told);
    report.interrupted = stop.load(Ordering::Relaxed);
    report.seeds = u64::from(!report.interrupted);
    report.levelling = u64::from(bed.levels_wear());
    report.wear_kept = u64::from(bed.wear_checkpoint().is_some());
    Ok(report)
}

/// Another device for the seed where several commands are to be under way and its own has one die: one with four. Where
/// the scheme takes none such with its settings, there is none.
fn wide_bed(subject: &Subject<'_>, config: &CheckConfig, part: Part, bed: &bed::Bed) -> Option<bed::Bed> {
    if !part.is_in_flight() || bed.geometry.die_count() > 1 || config.geometry.is_some() {
        return None;
    }
    Lay { config, seed: bed.seed, shape: Shape::FourDies }.run(subject.row, &subject.recipe()).ok()
}

/// Checks a scheme until it is through or `stop` is raised. What was done until then is in the report too.
///
/// # Errors
/// A configuration that is wrong. What is wrong with the scheme is in the report.
pub fn check(config: &CheckConfig, stop: &AtomicBool) -> Result<CheckReport, CheckError> {
    check_telling(config, stop, &|| ())
}

/// The same, which calls `seed_done` behind each seed, from any thread.
///
/// # Errors
/// As [`check`].
pub fn check_telling(
    config: &CheckConfig,
    stop: &AtomicBool,
    seed_done: &(dyn Fn() + Sync),
) -> Result<CheckReport, CheckError> {
    let row = row(config)?;
    check_subject(&Subject { row, make: &|| recipe_of(row) }, config, stop, seed_done)
}

/// Checks a scheme that is in no table: the one that `recipe` makes and `row` describes.
///
/// # Errors
/// As [`check`].
pub fn check_recipe<R: Recipe<Bench> + Sync>(
    row: &Scheme<'_>,
    recipe: &R,
    config: &CheckConfig,
    stop: &AtomicBool,
) -> Result<CheckReport, CheckError> {
    write_buffer(config)?;
    check_subject(&Subject { row, make: &|| AnyRecipe::of(recipe) }, config, stop, &|| ())
}

fn check_subject(
    subject: &Subject<'_>,
    config: &CheckConfig,
    stop: &AtomicBool,
    seed_done: &(dyn Fn() + Sync),
) -> Result<CheckReport, CheckError> {
    let row = subject.row;
    let cores = || std::thread::available_parallelism().map_or(1, |count| count.get());
    let threads = if config.threads == 0 { cores() } else { config.threads };
    let next = AtomicU64::new(config.seeds.start);
    let failed = AtomicBool::new(false);
    let done = Mutex::new(BTreeMap::new());
    #[expect(clippy::disallowed_methods, reason = "seeds are independent; results do not depend on the threads")]
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let enough = config.fail_fast && failed.load(Ordering::Relaxed);
                    if seed >= config.seeds.end || enough || stop.load(Ordering::Relaxed) {
                        break;
                    }
                    // Also where nothing is guarded: a scheme from elsewhere may fail as it is formatted.
                    let result = guarded(|| Ok(check_seed(subject, config, seed, stop)));
                    let result = result.unwrap_or_else(|what| Err(CheckError(format!("seed {seed}: {what}"))));
                    if result.as_ref().is_ok_and(|report| !report.passed()) {
                        failed.store(true, Ordering::Relaxed);
                    }
                    done.lock().expect("no thread panics while it holds the lock").insert(seed, result);
                    seed_done();
                }
            });
        }
    });
    let behind = config.buffer.as_ref().map(|name| format!(" behind {name}")).unwrap_or_default();
    let mut report = CheckReport { scheme: format!("{}{behind}", row.name), ..CheckReport::default() };
    for result in done.into_inner().expect("no thread panics while it holds the lock").into_values() {
        report.merge(result?);
    }
    // A part of a check does not show what the whole would have met.
    report.interrupted |= report.seeds < config.seeds.end - config.seeds.start;
    if report.interrupted {
        return Ok(report);
    }
    if config.cuts_power() {
        // Rewrites for another code are a phase of the policy that orders them, where every seed has it.
        let orders = |(name, value): &(String, String)| name == ECC.name && value == "differentiated";
        let is_demanded = |phase: &Cause| match phase {
            Cause::WearLevelling => report.levelling > 0,
            Cause::EccRewrite => config.settings.iter().any(orders),
            _ => true,
        };
        let missed = row.phases.iter().filter(|phase| is_demanded(phase) && !report.by_cause.contains_key(phase));
        let missed: Vec<String> = missed
            .map(|phase| {
                let phase = phase.name();
                format!(
                    "no command of phase {phase} was cut: the check proves nothing about it; ask for more cuts, seeds \
                     or operations"
                )
            })
            .collect();
        // Checkpoints of erase counts are metadata of every scheme.
        let is_listed = |cause: &Cause| row.phases.contains(cause) || *cause == Cause::Metadata && report.wear_kept > 0;
        let unlisted = report.by_cause.keys().filter(|cause| !is_listed(cause));
        let unlisted =
            unlisted.map(|cause| format!("commands of phase {} were cut: its row does not list it", cause.name()));
        let unlisted: Vec<String> = unlisted.collect();
        missed.into_iter().for_each(|what| report.miss(what));
        unlisted.into_iter().for_each(|what| report.fail_all(what));
    }
    let is_asked = |&(class, _): &(FaultClass, Part)| config.faults.contain(class);
    let asked = cuts::PARTS.iter().any(is_asked) || config.faults.contain(FaultClass::UnstableNested);
    if asked && config.cuts != Cuts::Count(0) && report.cuts == 0 && report.passed() {
        report.miss(
            "no power was cut: no device that was drawn can be cut so (several commands under way take two dies, cells \
             that read otherwise durable discards)"
                .into(),
        );
    }
    if report.media.disturbed > 0 && report.media.refreshed == 0 {
        report.miss("no tired block was refreshed: the check proves nothing about media that wear on blocks".into());
    }
    if report.honesty.flips > 0 && report.honesty.noticed * 4 < report.honesty.flips * 3 {
        let HonestyReport { flips, noticed, .. } = report.honesty;
        let what = format!(
            "of {flips} bits flipped in metadata, {noticed} made a difference: the scheme works from elsewhere"
        );
        report.fail_all(what);
    }
    if report.honesty.spare_flips > 200 && report.honesty.spare_noticed * 50 < report.honesty.spare_flips {
        let HonestyReport { spare_flips, spare_noticed, .. } = report.honesty;
        let what = format!(
            "of {spare_flips} bits flipped in spare areas, {spare_noticed} made a difference: the scheme works from \
             elsewhere"
        );
        report.fail_all(what);
    }
    Ok(report)
}

/// Runs one case again and tells what happens: the device, the operation and its commands, what is on flash, what was
/// allowed and what was read. One line each.
///
/// # Errors
/// A configuration that is wrong, or a case that it does not have.
pub fn replay(config: &CheckConfig, replay: &Replay) -> Result<Vec<String>, CheckError> {
    let row = row(config)?;
    replay_subject(&Subject { row, make: &|| recipe_of(row) }, config, replay)
}

/// [`replay`] of a scheme that is in no table.
///
/// # Errors
/// As there.
pub fn replay_recipe<R: Recipe<Bench> + Sync>(
    row: &Scheme<'_>,
    recipe: &R,
    config: &CheckConfig,
    replay: &Replay,
) -> Result<Vec<String>, CheckError> {
    write_buffer(config)?;
    replay_subject(&Subject { row, make: &|| AnyRecipe::of(recipe) }, config, replay)
}

/// Makes the case of a failure short: leaves out what of the fill, of the operations before its cut and of those after
/// it can go with the same finding. The case that is left, and [`replay`] of it.
///
/// # Errors
/// As [`replay`]; a case that holds, or one of the two claims, of which nothing can be left out.
pub fn shrink(config: &CheckConfig, replay: &Replay) -> Result<(Replay, Vec<String>), CheckError> {
    let row = row(config)?;
    let subject = Subject { row, make: &|| recipe_of(row) };
    if !replay.part.is_told() {
        return Err(CheckError(format!("case {replay}: only a case of power cuts or of failing media can be shrunk")));
    }
    let bed = bed_of(&subject, config, replay)?;
    let (short, of) =
        shrink::shrink(replay, shrink::MOST_RUNS, |replay| run_again(&subject, config, &bed, replay, false))?;
    let mut lines = replay_subject(&subject, config, &short)?;
    lines.insert(1, of);
    Ok((short, lines))
}

/// A case, done again.
struct Told {
    /// What happened, if that was to be told.
    lines: Vec<String>,
    end: Result<(), String>,
    /// How many requests the fill has, and how many operations come after the cut.
    requests: u32,
    after: u32,
    /// The run, on failing media.
    run: Option<u64>,
}

fn bed_of(subject: &Subject<'_>, config: &CheckConfig, replay: &Replay) -> Result<bed::Bed, CheckError> {
    let is_long = media::PARTS.iter().chain(&remounts::PARTS).any(|&(_, part)| part == replay.part)
        || replay.part == Part::Fewest;
    let most = if is_long { config.operations.saturating_mul(media::LONGER) } else { config.operations };
    // The device of a long run is read, audited or mounted behind its last operation.
    let behind = is_long && replay.operation == most;
    if replay.operation >= most && !behind {
        let what = format!("case {replay}: there is no operation {} among {most}", replay.operation);
        return Err(CheckError(format!("{what} (as many as with --operations {})", config.operations)));
    }
    if replay.part != Part::Fewest {
        let bed = Lay { config, seed: replay.seed, shape: Shape::FewBlocks }.run(subject.row, &subject.recipe())?;
        return Ok(wide_bed(subject, config, replay.part, &bed).unwrap_or(bed));
    }
    let Some(device) = replay.run.filter(|&device| device < fewest::DEVICES) else {
        let what = format!("there are {} devices to choose from, counted from 0", fewest::DEVICES);
        return Err(CheckError(format!("case {replay}: {what} (fewest.OPERATION.DEVICE)")));
    };
    fewest::LayFewest { config, seed: replay.seed, device }.run(subject.row, &subject.recipe())
}

/// A case of power cuts, or of failing media.
fn run_again(
    subject: &Subject<'_>,
    config: &CheckConfig,
    bed: &bed::Bed,
    replay: &Replay,
    told: bool,
) -> Result<Told, CheckError> {
    if replay.part.has_cuts() {
        cuts::Tell { config, bed, replay, told }.run(&subject.recipe())
    } else {
        media::Tell { config, bed, replay, told }.run(&subject.recipe())
    }
}

fn replay_subject(subject: &Subject<'_>, config: &CheckConfig, replay: &Replay) -> Result<Vec<String>, CheckError> {
    let bed = bed_of(subject, config, replay)?;
    let mut lines = vec![format!("{} {replay}", config.scheme), bed.to_string()];
    if replay.part.is_told() {
        let told = run_again(subject, config, &bed, replay, true)?;
        lines.extend(told.lines);
        lines.push(told.end.err().unwrap_or_else(|| "nothing went wrong".into()));
        return Ok(lines);
    }
    let on = AtomicBool::new(false);
    let recipe = &subject.recipe();
    let report = match replay.part {
        part @ (Part::Remounts | Part::Spare | Part::Metadata) => {
            remounts::OverMounts { config, bed: &bed, stop: &on, part }.run(recipe)
        }
        Part::Fewest => {
            let (seed, only) = (replay.seed, replay.run);
            fewest::OnFewestBlocks { config, seed, stop: &on, only }.run(subject.row, recipe)
        }
        _ => honesty::Honest { config, bed: &bed, stop: &on }.run(recipe),
    };
    let failures = report.failures;
    lines.extend(failures.iter().filter(|failure| failure.replay == replay.to_string()).map(|f| f.what.clone()));
    if lines.len() == 2 {
        lines.push("nothing went wrong".into());
    }
    Ok(lines)
}

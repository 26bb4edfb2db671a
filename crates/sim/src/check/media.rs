//! Operations on media whose blocks are or go bad.
//!
//! Nothing acknowledged may be lost. A device that has lost too many blocks says that it is full, and then every page
//! must still be readable, however often it refuses, and also once it was mounted again. Four media: blocks that fail
//! for good; programs and erases that fail now and then, some or all of them leaving a block that works; host pages
//! that cannot be read back, of which a read is an error, and never an earlier version; programs that report success
//! and do not stick, which a layer beneath the scheme finds out ([`flash::Verified`]).

use super::bed::{Action, Bed};
use super::content::Medium;
use super::session::{Session, Stop};
use super::{Bench, CheckConfig, CheckReport, Chip, FaultClass, Part, Replay, bench, guarded, verified_bench};
use flash::{Block, Failing, FailurePlan, InFlight, PowerCut, Rng};
use ftl::schemes::Visitor;
use ftl::{Recipe, Scheme};
use std::sync::atomic::{AtomicBool, Ordering};

/// How many times as many operations as a run with cuts.
pub(super) const LONGER: u32 = 4;
/// Runs on each medium, with failures of their own.
const RUNS: u64 = 6;
/// Operations after the first that a full device refuses.
const INSISTENCE: usize = 32;

/// The media, by the class of their faults.
pub(super) const PARTS: [(FaultClass, Part); 4] = [
    (FaultClass::Failing, Part::Media),
    (FaultClass::Intermittent, Part::Intermittent),
    (FaultClass::Unreadable, Part::Unreadable),
    (FaultClass::Silent, Part::Silent),
];

/// The visitor.
pub(super) struct OnFailingMedia<'a> {
    pub(super) config: &'a CheckConfig,
    pub(super) bed: &'a Bed,
    pub(super) stop: &'a AtomicBool,
    pub(super) part: Part,
}

/// What fails on the medium in a run. Of blocks that fail for good each run has another kind.
fn plan(bed: &Bed, part: Part, run: u64) -> FailurePlan {
    let lots = bed.seed ^ run.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut lot = Rng::new(lots).fork("failures that pass");
    match part {
        Part::Intermittent => FailurePlan {
            program_rate: 0.01 * lot.unit(),
            erase_rate: 0.04 * lot.unit(),
            passing: if lot.chance(0.5) { 1.0 } else { 0.5 },
            half_erased: true,
            ..FailurePlan::default()
        },
        Part::Unreadable => FailurePlan { unreadable_rate: 0.01 * lot.unit(), ..FailurePlan::default() },
        Part::Silent => FailurePlan { silent_rate: 0.01 * lot.unit(), ..FailurePlan::default() },
        _ => lasting(bed, lots, (bed.seed + run) % 3),
    }
}

/// Failures for good: two programs, two erases, or some of either.
fn lasting(bed: &Bed, lots: u64, kind: u64) -> FailurePlan {
    let mut rng = Rng::new(lots).fork("failure plan");
    let mut schedule = |count: u64, until: u64| {
        let mut numbers: Vec<u64> = (0..count).map(|_| rng.below(until)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    };
    let pages = u64::from(bed.geometry.page_count());
    let (program_schedule, erase_schedule) = match kind {
        0 => (schedule(2, 6 * pages), Vec::new()),
        1 => (Vec::new(), schedule(2, pages)),
        _ => (Vec::new(), Vec::new()),
    };
    let rate = if kind == 2 { 0.001 + 0.004 * rng.unit() } else { 0.0 };
    let factory_bad = vec![Block(rng.below(u64::from(bed.geometry.block_count())) as u32)];
    FailurePlan {
        factory_bad,
        factory_bad_rate: 0.03 * rng.unit(),
        program_schedule,
        program_rate: rate,
        erase_schedule,
        erase_rate: rate * 4.0,
        ..FailurePlan::default()
    }
}

impl Visitor<Bench> for OnFailingMedia<'_> {
    type Output = CheckReport;

    fn visit<S: Recipe<Bench>>(self, _: &Scheme<'_>, recipe: &S) -> CheckReport {
        let OnFailingMedia { config, bed, stop, part } = self;
        let mut report = CheckReport::default();
        // Room for blocks that go bad.
        let pages = (bed.logical_pages - bed.logical_pages / 6).max(bed.least_pages());
        let bed = &Bed { logical_pages: pages, ..bed.clone() };
        let mix = bed.mix.within(bed.logical_pages);
        let bed = &Bed { mix: if part == Part::Unreadable { mix.on() } else { mix }, ..bed.clone() };
        for run in 0..RUNS {
            on_medium(recipe, config, bed, part, run, stop, &mut report);
        }
        report
    }
}

/// One run.
fn on_medium<S: Recipe<Bench>>(
    recipe: &S,
    config: &CheckConfig,
    bed: &Bed,
    part: Part,
    which: u64,
    stop: &AtomicBool,
    report: &mut CheckReport,
) {
    let mut number = 0;
    let mut full = false;
    let mut session = None;
    let result = guarded(|| {
        let medium =
            Failing::new(InFlight::new(Chip::new(bed.geometry)), plan(bed, part, which), bed.seed ^ which << 32);
        let powered = PowerCut::counting(medium).without_log();
        let is_verified = part == Part::Silent && config.verified;
        let medium = if is_verified { verified_bench(powered) } else { bench(powered, false) };
        match Session::<'_, S, _>::format(bed, recipe, medium) {
            Ok(formatted) => session = Some(formatted),
            Err(Stop::Full) => full = true,
            Err(stop) => return Err(stop.text()),
        }
        let Some(session) = &mut session else { return Ok(()) };
        session.unreadable = part == Part::Unreadable;
        let end = run(session, config.operations.saturating_mul(LONGER), stop, &mut number);
        full = end == Err(Stop::Full);
        if full {
            insist(session).map_err(Stop::text)?;
        } else {
            end.map_err(Stop::text)?;
        }
        let compare = |session: &mut Session<'_, S, _>| session.read_all().and_then(|()| session.audit());
        compare(session).map_err(Stop::text)?;
        if full && part != Part::Unreadable {
            session.oracle.power_cut();
            session.mount().and_then(|()| compare(session)).map_err(Stop::text)?;
            insist(session).and_then(|()| compare(session)).map_err(Stop::text)?;
        }
        Ok(())
    });
    if let Some(session) = session {
        let operations = match part {
            Part::Intermittent => &mut report.media.intermittent,
            Part::Unreadable => &mut report.media.unreadable,
            Part::Silent => &mut report.media.silent,
            _ => &mut report.media.operations,
        };
        *operations += session.work.operations;
        report.media.errors += session.work.errors;
        report.media.grown_bad += u64::from(session.flash.inner().inner().grown_bad_count());
        report.media.unstuck += session.flash.inner().inner().silent_count();
        report.add_work(session.work);
    }
    report.media.full += u64::from(full);
    if let Err(what) = result {
        let replay = Replay { seed: bed.seed, part, operation: number, first: None, second: None, storm: false };
        report.fail(replay, what);
    }
}

/// Goes on with a device that is full: some operations may still be done, and those that are refused change nothing.
fn insist<S: Recipe<F>, F: Medium>(session: &mut Session<'_, S, F>) -> Result<(), Stop> {
    for operation in session.bed.operations("operations on a full device").take(INSISTENCE) {
        match session.step(&operation) {
            Ok(()) | Err(Stop::Full) => {}
            Err(stop) => return Err(stop),
        }
    }
    Ok(())
}

/// Runs the operations, with a mount now and then.
fn run<S: Recipe<Bench>>(
    session: &mut Session<'_, S, Bench>,
    operations: u32,
    stop: &AtomicBool,
    number: &mut u32,
) -> Result<(), Stop> {
    session.fill()?;
    for operation in session.bed.operations("operations on failing media").take(operations as usize) {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        session.step(&operation)?;
        *number += 1;
        if number.is_multiple_of(32) {
            session.read_all()?;
            session.audit()?;
        }
        let mounts = !session.unreadable && operation.action != Action::Flush;
        if mounts && number.is_multiple_of((operations / 4).max(1)) {
            session.oracle.power_cut();
            session.mount()?;
            session.read_all()?;
            session.audit()?;
        }
    }
    Ok(())
}

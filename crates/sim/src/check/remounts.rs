//! Operations on media that lose pages for good, with mounts between them.
//!
//! Of some pages the data cannot be read: then reads of the logical page are errors until it is written or discarded,
//! and over any mount no older version takes its place, with one exception. A mount takes a bad page for torn that no
//! sound page of its die and epoch follows. Of other pages the spare area cannot be read either: then a mount does not
//! know whose they were, and older versions come back. Both are counted: the mount says how many logical pages may be
//! stale ([`ftl::MountReport::perhaps_stale`]). The oracle excuses so many, no others than the medium has lost, and
//! only in the first read since that mount. Nobody hears what a mount had found in which power failed: then it excuses
//! as many as the medium has lost.
//!
//! On a third medium pages of metadata are lost. A mount does without them: what is mapped it finds in the spare areas
//! of the host's pages. What was discarded it may not find, and says so; then the oracle excuses what may hold nothing
//! as well.
//!
//! What meets a page that cannot be read half way, a collection or a write, ends in an error, as it does in a mounted
//! image: RAM is dropped, the device is mounted, and the host does it again.

use super::bed::{Action, Bed, Operation, Request};
use super::content::Medium;
use super::life;
use super::media::LONGER;
use super::session::{Session, Stop};
use super::{CheckConfig, CheckReport, Checked, Chip, FaultClass, Part, Replay, bench, guarded};
use flash::{Failing, FailurePlan, Fault, InFlight, Lpn, PowerCut, Rng};
use ftl::{Error, MountReport};
use std::sync::atomic::{AtomicBool, Ordering};

/// Runs on each medium, with losses of their own.
const RUNS: usize = 6;
/// Operations between two mounts that no operation asks for, by run. What is lost counts until the next mount at the
/// most; a block that is to be moved for wear has been left alone for long.
const INTERVALS: [u32; RUNS] = [48, 48, 288, 96, 288, 96];
/// Share of the operations in which power fails, by run.
const RATES: [f64; RUNS] = [0.0, 0.0, 0.0, 0.3, 0.1, 0.2];
/// Share of the mounts in which it fails, too.
const IN_MOUNTS: [f64; RUNS] = [0.0, 0.0, 0.0, 0.0, 0.0, 0.3];
/// Behind one in so many of these mounts another one follows soon.
const AGAIN: u32 = 3;
/// Mounts that may follow each other, because each time something meets another page that cannot be read.
const MOST_MOUNTS: usize = 24;

/// The media, by the class of their faults.
pub(super) const PARTS: [(FaultClass, Part); 3] = [
    (FaultClass::Unreadable, Part::Remounts),
    (FaultClass::Spare, Part::Spare),
    (FaultClass::Metadata, Part::Metadata),
];

/// The visitor.
pub(super) struct OverMounts<'a> {
    pub(super) config: &'a CheckConfig,
    pub(super) bed: &'a Bed,
    pub(super) stop: &'a AtomicBool,
    pub(super) part: Part,
}

/// What is lost on the medium in a run.
fn plan(lots: u64, part: Part) -> FailurePlan {
    let mut lot = Rng::new(lots).fork("pages that are lost");
    let rate = 0.001 + 0.009 * lot.unit();
    match part {
        Part::Spare => {
            let unreadable_rate = if lot.chance(0.5) { rate / 2.0 } else { 0.0 };
            FailurePlan { spare_rate: rate / 2.0, unreadable_rate, ..FailurePlan::default() }
        }
        // A page of metadata goes with many of the host.
        Part::Metadata => FailurePlan { metadata_lost_rate: 4.0 * rate, ..FailurePlan::default() },
        _ => FailurePlan { unreadable_rate: rate, ..FailurePlan::default() },
    }
}

impl OverMounts<'_> {
    pub(super) fn run(self, recipe: &Checked) -> CheckReport {
        let OverMounts { config, bed, stop, part } = self;
        let mut report = CheckReport::default();
        // What cannot be read takes room until its block is collected.
        let pages = (bed.logical_pages - bed.logical_pages / 6).max(bed.least_pages());
        let bed = &Bed { logical_pages: pages, mix: bed.mix.within(pages), ..bed.clone() };
        let runs = if config.cuts_power() { RUNS } else { RATES.iter().filter(|&&rate| rate == 0.0).count() };
        for run in 0..runs {
            on_medium(recipe, config, bed, part, run, stop, &mut report);
        }
        report
    }
}

/// One run.
fn on_medium(
    recipe: &Checked,
    config: &CheckConfig,
    bed: &Bed,
    part: Part,
    which: usize,
    stop: &AtomicBool,
    report: &mut CheckReport,
) {
    let (mut number, mut full) = (0, false);
    let mut session = None;
    let result = guarded(|| {
        let lots = bed.seed ^ (which as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let medium = Failing::new(InFlight::new(Chip::new(bed.geometry)), plan(lots, part), lots);
        let medium = bench(PowerCut::counting(medium).without_log(), false);
        let session = session.insert(Session::format(bed, recipe, medium).map_err(Stop::text)?);
        (session.unreadable, session.excusing) = (true, true);
        session.oracle.expect_damage();
        session.excused = config.excused;
        let lots = Rng::new(lots).fork("cuts beside what is lost");
        let cuts = Cuts { lots, rate: RATES[which], in_mounts: IN_MOUNTS[which] };
        let operations = config.operations.saturating_mul(LONGER);
        let end = run(session, operations, INTERVALS[which], &cuts, stop, &mut number);
        full = end == Err(Stop::Full);
        if !full {
            end.map_err(Stop::text)?;
        }
        session.power_off_and_on().map_err(Stop::text)
    });
    if let Some(mut session) = session {
        report.media.errors += session.work.errors;
        if part == Part::Metadata {
            report.media.metadata.operations += session.work.operations;
            report.media.metadata.lost += session.flash.failing().metadata_lost();
            report.media.metadata.stale += session.oracle.stale();
        } else {
            report.media.over_mounts += session.work.operations;
            report.media.stale[0] += session.work.said;
            report.media.stale[1] += session.oracle.stale();
        }
        report.add_cuts_on(part, session.work.cuts);
        report.add_work(session.work);
    }
    report.media.full += u64::from(full);
    if let Err(what) = result {
        let replay = Replay::of(bed.seed, part, number);
        report.fail(replay, what);
    }
}

/// Where power fails.
struct Cuts {
    lots: Rng,
    rate: f64,
    in_mounts: f64,
}

impl Cuts {
    /// Does an operation, in which power may fail, and mounts the device then.
    fn step(&self, session: &mut Session<'_>, operation: &Operation, number: u32) -> Result<(), Stop> {
        let mut lot = self.lots.fork(&format!("operation {number}"));
        session.flash.inner_mut().set_limit(life::COMMAND_LIMIT);
        let fails = operation.action != Action::Restart && lot.chance(self.rate);
        let at = fails.then(|| (life::point(&mut lot), lot.bits()));
        if !session.meets_cut(at, |session| session.step(operation))? {
            return Ok(());
        }
        session.work.cuts += 1;
        self.mount(session, &mut lot)
    }

    /// Mounts the device and reads every page. Power may fail meanwhile, again and again.
    fn mount(&self, session: &mut Session<'_>, lot: &mut Rng) -> Result<(), Stop> {
        loop {
            let at = lot.chance(self.in_mounts).then(|| (life::point(lot), lot.bits()));
            if !session.meets_cut(at, Session::power_off_and_on)? {
                return Ok(());
            }
            session.work.cuts += 1;
            session.excuse_all();
        }
    }
}

/// Runs the operations, with a mount now and then.
fn run(
    session: &mut Session<'_>,
    operations: u32,
    interval: u32,
    cuts: &Cuts,
    stop: &AtomicBool,
    number: &mut u32,
) -> Result<(), Stop> {
    let mut done = session.again(|session| session.fill(None))?;
    let mut last = None;
    for operation in session.bed.operations("operations over mounts").take(operations as usize) {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let before = std::mem::replace(&mut done, session.again(|session| cuts.step(session, &operation, *number))?);
        if !before && !done {
            let what =
                format!("two operations in a row were tried {MOST_MOUNTS} times, and met pages that cannot be read");
            return Err(Stop::Wrong(what));
        }
        *number += 1;
        if let Action::Write(request, written) = operation.action {
            last = request.start(written).last().or(last);
        }
        if number.is_multiple_of(interval) {
            cuts.mount(session, &mut cuts.lots.fork(&format!("mount behind {number}")))?;
            if session.is_whole() {
                session.audit()?;
            }
            // The newest page gets a newer one, which has to be newer by what flash says of both. Where it ends a block
            // it cannot be read, and the mounts that follow find out: no older one may take its place.
            if let Some(lpn) = last {
                session.flash.failing().lose_next();
                let action = Action::Write(Request { first: lpn, pages: 1 }, 1);
                session.again(|session| session.step(&Operation { action, probe: lpn }))?;
                if number.is_multiple_of(interval * AGAIN) {
                    // A sound page of each die follows before the next mount, so that it is not taken for torn.
                    for next in 1..=4 {
                        let other = Lpn((lpn.0 + next) % session.bed.logical_pages);
                        let action = Action::Write(Request { first: other, pages: 1 }, 1);
                        session.again(|session| session.step(&Operation { action, probe: lpn }))?;
                    }
                    session.power_off_and_on()?;
                }
            }
        }
    }
    Ok(())
}

impl Session<'_> {
    /// Does something, over as many mounts as it takes. False if the host has given it up, with a device that works: a
    /// request of many pages, each of which is merged, meets pages again and again that were lost on the way.
    fn again(&mut self, mut work: impl FnMut(&mut Self) -> Result<(), Stop>) -> Result<bool, Stop> {
        for _ in 0..MOST_MOUNTS {
            match work(self) {
                Err(Stop::Damage(_)) => self.power_off_and_on()?,
                done => return done.map(|()| true),
            }
        }
        Ok(false)
    }

    fn power_off_and_on(&mut self) -> Result<(), Stop> {
        self.oracle.power_cut();
        self.mount_excused()
    }

    /// Mounts the device and reads every page, of which so many may be stale as the mount has said.
    pub(super) fn mount_excused(&mut self) -> Result<(), Stop> {
        for _ in 0..MOST_MOUNTS {
            match self.mount().and_then(|()| self.read_all()) {
                Err(Stop::Damage(_)) => self.oracle.power_cut(),
                Ok(()) => {
                    self.oracle.demand();
                    return Ok(());
                }
                stopped => return stopped,
            }
        }
        Err(Stop::Wrong(format!("{MOST_MOUNTS} mounts met pages that cannot be read, one after another")))
    }

    /// A mount has found this.
    pub(super) fn excuse(&mut self, found: &MountReport) {
        if self.excusing {
            let said = found.perhaps_stale();
            self.work.said += said;
            self.oracle.excuse(if self.excused { said } else { 0 }, []);
            if found.lost_discards + said > 0 {
                self.excuse_discards();
            }
            // What was lost since such a mount first began counts as well.
            if found.retries > 0 {
                let lost = self.lost_lpns();
                self.oracle.excuse(0, lost);
            }
        }
    }

    /// A mount was cut short. Nobody hears what it had found, and it may have erased that: as many pages may be stale
    /// as the medium has lost.
    fn excuse_all(&mut self) {
        let lost = self.lost_lpns();
        self.oracle.excuse(if self.excused { lost.len() as u64 } else { 0 }, lost);
        self.excuse_discards();
    }

    /// Whose discards a record of them had, or a map, nobody knows. What was written before comes back.
    fn excuse_discards(&mut self) {
        if self.flash.failing().metadata_lost() > 0 {
            let discarded = self.oracle.perhaps_nothing();
            self.oracle.excuse(if self.excused { discarded.len() as u64 } else { 0 }, discarded);
        }
    }

    /// The logical pages of those that the medium has lost, such as were erased since the last mount began among them.
    fn lost_lpns(&mut self) -> Vec<Lpn> {
        let failing = self.flash.failing();
        failing.unreadable_lpns().into_iter().chain(failing.buried_lpns().clone()).collect()
    }

    /// A mount begins: only pages of which the medium has lost some may be stale after it.
    pub(super) fn expect_stale(&mut self) {
        if self.excusing {
            self.lost = self.lost_so_far();
            self.oracle.excuse(0, self.flash.failing().unreadable_lpns());
        }
    }

    /// Spare areas, and pages of metadata, that the medium has lost.
    fn lost_so_far(&mut self) -> u64 {
        let failing = self.flash.failing();
        failing.spares_lost() + failing.metadata_lost()
    }

    /// Whether none of these was lost since the last mount began.
    fn is_whole(&mut self) -> bool {
        self.lost_so_far() == self.lost
    }

    /// A read was an error: the medium must have lost a page of that LPN, or since the last mount what leads to it. If
    /// something else met it than the read of the page itself, and has changed anything, then the scheme has stopped
    /// half way.
    pub(super) fn bear(&mut self, lpn: Lpn, error: Error<Fault>, before: [u64; 3]) -> Result<(), Stop> {
        let after = self.flash.failing().changes();
        if after[2] != before[2] || error == Error::Corrupt && after != before {
            return Err(Stop::Damage(error));
        }
        self.oracle.unreadable(lpn);
        // Where a discard is a page of its LPN, that page may be what is lost.
        let discard_lost = self.flash.failing().metadata_lost() > 0 && self.oracle.may_be_nothing(lpn);
        // Maps in spare areas lead to other pages too.
        if discard_lost || !self.is_whole() || self.flash.failing().unreadable_lpns().contains(&lpn) {
            return Ok(());
        }
        Err(Stop::Wrong(format!("LPN {lpn} cannot be read, and nothing of it was lost")))
    }
}

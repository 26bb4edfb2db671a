//! Power cuts during the recovery from a cut.
//!
//! The recovery is the mount and the first operations after it. It is run once, and the device is kept as it was before
//! each of its parts; a cut begins with the part that it comes in. What a cut leaves is often what the one before it
//! left: a page that is whole though nobody was told, and then the next command not begun. From there on all is the
//! same, for what follows goes by the first cut alone. So such a cut counts with what the other was found to do, and is
//! not run again.

use super::super::session::{Session, Stop, Work};
use super::super::{CheckReport, FAILURES_PER_SEED, Part, guarded};
use super::{Case, Lot, Stage, count, moved, places};
use flash::{CutPoint, CutReport, Rng};
use std::collections::VecDeque;
use std::slice;
use std::sync::atomic::{AtomicBool, Ordering};

/// Cuts in a row of a storm.
const STORM: usize = 24;
/// Outcomes that are remembered: those of an erase and of the command before it.
const REMEMBERED: usize = 10;
/// The most cuts of the second level behind one of the first, drawn evenly: a device that is slow to come back would
/// take the time of all others.
const SECONDS: u64 = 2_000;
/// One in so many cuts of the second level is followed by some of the third.
const THIRD_LEVEL: u64 = 25;
/// So many, drawn evenly.
const THIRDS: u64 = 4;

/// A recovery, and the device at the beginning of each of its parts.
struct Recovery<'a> {
    stages: Vec<Stage>,
    /// With the changing commands before.
    starts: Vec<(u64, Session<'a>)>,
    seen: Vec<CutReport>,
}

impl<'a> Recovery<'a> {
    /// The recovery from what is left in `image`.
    fn of(case: &mut Case<'_>, image: &Session<'a>, report: &mut CheckReport) -> Result<Self, String> {
        let stages = case.stages();
        let (mut starts, mut seen) = (Vec::new(), Vec::new());
        let mut session = image.clone();
        for stage in &stages {
            session.work = Work::default();
            session.flash.inner_mut().restart();
            starts.push((seen.len() as u64, session.clone()));
            let result = case.stage(&mut session, stage);
            report.add_work(session.work);
            result.map_err(Stop::text)?;
            seen.extend_from_slice(session.flash.inner().seen());
        }
        Ok(Recovery { stages, starts, seen })
    }

    /// The device after a cut in it.
    fn cut(&self, case: &mut Case<'_>, point: CutPoint) -> Result<Session<'a>, String> {
        // What is unstable reads otherwise each time: from the beginning.
        let is_before = |(before, _): &(u64, _)| *before <= point.command;
        let start = if self.starts[0].1.flash.inner().unstable() > 0 { Some(0) } else { None };
        let start = start.or_else(|| self.starts.iter().rposition(is_before)).unwrap_or(0);
        let (before, session) = &self.starts[start];
        let mut session = session.clone();
        let within = CutPoint { command: point.command - before, ..point };
        session.flash.inner_mut().arm(within, garbage(case));
        let end = self.stages[start..].iter().try_for_each(|stage| case.stage(&mut session, stage));
        case.lose_power(&mut session, end)?;
        Ok(session)
    }
}

/// Whether all that follows is the same.
fn is_same(one: &Session<'_>, other: &Session<'_>) -> bool {
    let (ours, theirs) = (one.flash.inner(), other.flash.inner());
    ours.unstable() + theirs.unstable() == 0
        && one.oracle == other.oracle
        && one.worn == other.worn
        && ours.inner().inner().inner().is_as(theirs.inner().inner().inner())
}

/// Randomness of the second cut of a case. That of its recovery goes by the first alone.
fn rng(case: &Case<'_>, purpose: &str) -> Rng {
    let place = case.second.map_or(0, |point| point.command << 8 | u64::from(point.face));
    Rng::new(case.rng("second").bits() ^ place.wrapping_mul(0x9e37_79b9_7f4a_7c15)).fork(purpose)
}

/// What chooses the garbage of a second cut, or a third one.
fn garbage(case: &Case<'_>) -> u64 {
    let of = |point: CutPoint| point.command << 8 ^ u64::from(point.face);
    match (case.second, case.third) {
        (_, Some(third)) => rng(case, "third garbage").bits() ^ of(third),
        (Some(second), None) => case.rng("second garbage").bits() ^ of(second),
        (None, None) => 0,
    }
}

/// The cuts of the second level behind one of the first, which left `image`, and some of the third.
pub(super) fn cut_recovery(image: &Session<'_>, mut case: Case<'_>, stop: &AtomicBool, report: &mut CheckReport) {
    let recovery = match guarded(|| Recovery::of(&mut case, image, report)) {
        Ok(recovery) => recovery,
        Err(what) => return report.fail(case.replay(), what),
    };
    case.storm = true;
    let result = guarded(|| {
        let mut session = image.clone();
        let result = storm(&mut case, &mut session, report);
        report.add_work(session.work);
        result
    });
    if let Err(what) = result {
        report.fail(case.replay(), what);
    }
    case.storm = false;
    // What some cuts left, and held.
    let mut held: VecDeque<Session<'_>> = VecDeque::new();
    let seconds = || places(slice::from_ref(&recovery.seen), Part::Cuts);
    let mut lot = Lot::new(SECONDS, seconds().count() as u64, case.rng("second place"));
    for (_, second, command) in seconds().filter(|_| lot.draw()) {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        count(report, command, second.face, &case);
        report.second_level_cuts += 1;
        case.second = Some(second);
        let is_deep = rng(&case, "third").below(THIRD_LEVEL) == 0;
        let mut image = None;
        let result = guarded(|| {
            let mut session = recovery.cut(&mut case, second)?;
            image = is_deep.then(|| session.clone());
            if held.iter().any(|left| is_same(left, &session)) {
                report.add_work(session.work);
                return Ok(());
            }
            let left = session.clone();
            let result = case.recover(&mut session);
            report.add_work(session.work);
            if result.is_ok() {
                held.push_front(left);
                held.truncate(REMEMBERED);
            }
            result
        });
        match (result, image) {
            (Ok(()), Some(image)) => cut_a_third_time(&image, &mut case, report),
            (Ok(()), None) => {}
            (Err(what), _) => report.fail(case.replay(), what),
        }
        if report.failures.len() >= FAILURES_PER_SEED {
            return;
        }
    }
}

/// Some cuts in the recovery from the second of two, which left `image`: in the mount, if that changes the flash.
fn cut_a_third_time(image: &Session<'_>, case: &mut Case<'_>, report: &mut CheckReport) {
    let recovery = match guarded(|| Recovery::of(case, image, report)) {
        Ok(recovery) => recovery,
        Err(what) => return report.fail(case.replay(), what),
    };
    let in_mount = match recovery.starts[1].0 as usize {
        0 => recovery.seen.len(),
        commands => commands,
    };
    let seen = [recovery.seen[..in_mount].to_vec()];
    let thirds = || places(&seen, Part::Cuts);
    let mut lot = Lot::new(THIRDS, thirds().count() as u64, rng(case, "third place"));
    for (_, third, command) in thirds().filter(|_| lot.draw()) {
        count(report, command, third.face, case);
        report.second_level_cuts += 1;
        report.third_level_cuts += 1;
        case.third = Some(third);
        let result = guarded(|| {
            let mut session = recovery.cut(case, third)?;
            let result = case.recover(&mut session);
            report.add_work(session.work);
            result
        });
        if let Err(what) = result {
            report.fail(case.replay(), what);
        }
    }
    case.third = None;
}

/// The second cut, and perhaps a third.
pub(super) fn cut_again(
    case: &mut Case<'_>,
    session: &mut Session<'_>,
    second: CutPoint,
    third: Option<CutPoint>,
) -> Result<(), String> {
    case.second = Some(second);
    for (at, point, third) in [(1, Some(second), None), (2, third, third)] {
        let Some(point) = point else { continue };
        case.third = third;
        session.flash.inner_mut().arm(moved(point, case.moved[at]), garbage(case));
        let end = case.resume(session);
        case.lose_power(session, end)?;
    }
    Ok(())
}

/// Many cuts in a row, each a few commands into the recovery from the one before: room and progress must not be used
/// up.
pub(super) fn storm(case: &mut Case<'_>, session: &mut Session<'_>, report: &mut CheckReport) -> Result<(), String> {
    let mut rng = case.rng("storm");
    for _ in 0..STORM {
        let point = CutPoint { command: rng.below(6), face: rng.below(4) as u8 };
        case.second = Some(point);
        session.flash.inner_mut().arm(point, rng.bits());
        match case.resume(session) {
            Ok(()) => {
                session.flash.inner_mut().restart();
                session.oracle.power_cut();
            }
            end => {
                let command = session.flash.inner_mut().seen().last().copied();
                case.lose_power(session, end)?;
                count(report, command.expect("power is lost at a command"), point.face, case);
                report.second_level_cuts += 1;
            }
        }
    }
    case.recover(session)
}

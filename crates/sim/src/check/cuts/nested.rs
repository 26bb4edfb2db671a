//! Power cuts during the recovery from a cut.
//!
//! The recovery is the mount and the first operations after it. It is run once, and the device is kept as it was before
//! each of its parts; a cut begins with the part that it comes in. What a cut leaves is often what the one before it
//! left: a page that is whole though nobody was told, and then the next command not begun. From there on all is the
//! same, for what follows goes by the first cut alone. So such a cut counts with what the other was found to do, and is
//! not run again.

use super::super::session::{Session, Stop, Work};
use super::super::{Bench, CheckReport, FAILURES_PER_SEED, Part, guarded};
use super::{Case, Stage, count, places};
use flash::{CutPoint, CutReport};
use ftl::Recipe;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

/// Cuts in a row of a storm.
const STORM: usize = 24;
/// Outcomes that are remembered: those of an erase and of the command before it.
const REMEMBERED: usize = 10;

/// A recovery, and the device at the beginning of each of its parts.
struct Recovery<'a, S: Recipe<Bench>> {
    stages: Vec<Stage>,
    /// With the changing commands before.
    starts: Vec<(u64, Session<'a, S, Bench>)>,
    seen: Vec<CutReport>,
}

/// What a cut left, of which the recovery found nothing wrong.
struct Held<'a, S: Recipe<Bench>> {
    left: Session<'a, S, Bench>,
    /// Done since.
    work: Work,
}

impl<'a, S: Recipe<Bench>> Recovery<'a, S> {
    /// The recovery from what is left in `image`.
    fn of(case: &mut Case<'_>, image: &Session<'a, S, Bench>) -> Result<Self, Stop> {
        let stages = case.stages();
        let (mut starts, mut seen) = (Vec::new(), Vec::new());
        let mut session = image.clone();
        for stage in &stages {
            session.flash.inner_mut().restart();
            starts.push((seen.len() as u64, session.clone()));
            case.stage(&mut session, stage)?;
            seen.extend_from_slice(session.flash.inner().seen());
        }
        Ok(Recovery { stages, starts, seen })
    }

    /// The device after a cut in it.
    fn cut(&self, case: &mut Case<'_>, point: CutPoint) -> Result<Session<'a, S, Bench>, String> {
        // What is unstable reads otherwise each time: from the beginning.
        let is_before = |(before, _): &(u64, _)| *before <= point.command;
        let start = if self.starts[0].1.flash.inner().unstable() > 0 { Some(0) } else { None };
        let start = start.or_else(|| self.starts.iter().rposition(is_before)).unwrap_or(0);
        let (before, session) = &self.starts[start];
        let mut session = session.clone();
        let within = CutPoint { command: point.command - before, ..point };
        session.flash.inner_mut().arm(within, garbage(case, point));
        let end = self.stages[start..].iter().try_for_each(|stage| case.stage(&mut session, stage));
        case.lose_power(&mut session, end)?;
        Ok(session)
    }
}

/// Whether all that follows is the same.
fn is_same<S: Recipe<Bench>>(one: &Session<'_, S, Bench>, other: &Session<'_, S, Bench>) -> bool {
    let (ours, theirs) = (one.flash.inner(), other.flash.inner());
    ours.unstable() + theirs.unstable() == 0
        && one.oracle == other.oracle
        && one.worn == other.worn
        && ours.inner().inner().inner().is_as(theirs.inner().inner().inner())
}

/// What chooses the garbage of a second cut.
fn garbage(case: &Case<'_>, point: CutPoint) -> u64 {
    case.rng("second garbage").bits() ^ point.command << 8 ^ u64::from(point.face)
}

/// All cuts of the second level behind one of the first, which left `image`.
pub(super) fn cut_recovery<S: Recipe<Bench>>(
    image: &Session<'_, S, Bench>,
    mut case: Case<'_>,
    stop: &AtomicBool,
    report: &mut CheckReport,
) {
    let recovery = match guarded(|| Recovery::of(&mut case, image).map_err(Stop::text)) {
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
    let mut held: VecDeque<Held<'_, S>> = VecDeque::new();
    for (_, second, command) in places(std::slice::from_ref(&recovery.seen), Part::Cuts) {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        count(report, command, second.face, &case);
        report.second_level_cuts += 1;
        case.second = Some(second);
        let result = guarded(|| {
            let mut session = recovery.cut(&mut case, second)?;
            let before = session.work;
            if let Some(same) = held.iter().rev().find(|held| is_same(&held.left, &session)) {
                report.add_work(before);
                report.add_work(same.work);
                return Ok(());
            }
            let left = session.clone();
            let result = case.recover(&mut session);
            report.add_work(session.work);
            result?;
            if held.len() == REMEMBERED {
                held.pop_front();
            }
            held.push_back(Held { left, work: session.work.since(before) });
            Ok(())
        });
        if let Err(what) = result {
            report.fail(case.replay(), what);
            if report.failures.len() >= FAILURES_PER_SEED {
                return;
            }
        }
    }
}

/// The second cut, and the recovery from both.
pub(super) fn cut_again<S: Recipe<Bench>>(
    case: &mut Case<'_>,
    session: &mut Session<'_, S, Bench>,
    second: CutPoint,
) -> Result<(), String> {
    case.second = Some(second);
    session.flash.inner_mut().arm(second, garbage(case, second));
    let end = case.resume(session);
    case.lose_power(session, end)?;
    case.recover(session)
}

/// Many cuts in a row, each a few commands into the recovery from the one before: room and progress must not be used
/// up.
pub(super) fn storm<S: Recipe<Bench>>(
    case: &mut Case<'_>,
    session: &mut Session<'_, S, Bench>,
    report: &mut CheckReport,
) -> Result<(), String> {
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

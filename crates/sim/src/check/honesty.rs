//! Two claims that a simulator could make without anybody noticing.
//!
//! *The RAM that a scheme reports is all that it has.* Its state is saved into at most that many bytes, dropped and
//! restored, and the restored scheme must go on with exactly the commands of the original.
//!
//! *The metadata that it writes to flash is what it works from.* A bit of a stored word is flipped in a copy of the
//! chip, and what follows must differ: commands, values read, or the state at the end, whether the scheme runs on or
//! mounts first. Only words in use count, and which are is found by experiment: erasing the whole word to ones must
//! change what follows. Of the bytes that a scheme keeps in spare areas, where several entries share a byte and those
//! of most pages are out of date, single bits are flipped, and some must make a difference.

use super::bed::{Action, Bed, Operation};
use super::numbers::Numbers;
use super::session::{Session, Stop, reported};
use super::{CheckConfig, CheckReport, Checked, Chip, Part, Replay, bench, guarded, sound};
use flash::{Cause, Flash, Kind, Line, Noted, Oob, Payload, Ppn, Rng};
use ftl::Inspect;
use std::sync::atomic::{AtomicBool, Ordering};

/// Operations between two tests, and after each.
const EVERY: usize = 40;

/// The visitor.
pub(super) struct Honest<'a> {
    pub(super) config: &'a CheckConfig,
    pub(super) bed: &'a Bed,
    pub(super) stop: &'a AtomicBool,
}

impl Honest<'_> {
    pub(super) fn run(self, recipe: &Checked) -> CheckReport {
        let Honest { config, bed, stop } = self;
        let mut report = CheckReport::default();
        let bed = &Bed { mix: bed.mix.on(), ..bed.clone() };
        let operations: Vec<Operation> = bed.operations("honesty").take(config.operations as usize + EVERY).collect();
        let mut at = Replay::of(bed.seed, Part::Ram, 0);
        let mut rng = Rng::new(bed.seed).fork("honesty");
        let result = guarded(|| {
            let flash = bench(sound(bed.geometry), true);
            let mut session: Session<'_> = Session::format(bed, recipe, flash).map_err(Stop::text)?;
            let mut numbers = Numbers::default();
            session.fill(None).map_err(Stop::text)?;
            numbers.follow(&session.flash.take_lines())?;
            let mut next = rng.below(EVERY as u64) as usize;
            for (number, operation) in operations.iter().enumerate().take(config.operations as usize) {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                at = Replay::of(bed.seed, Part::Ram, number as u32);
                // A mount goes on behind the numbers that it finds.
                if operation.action == Action::Restart {
                    numbers = Numbers::default();
                }
                session.step(operation).map_err(Stop::text)?;
                numbers.follow(&session.flash.take_lines())?;
                session.flash.inner_mut().restart();
                if number < next {
                    continue;
                }
                next += 1 + rng.below(EVERY as u64) as usize;
                let ahead = &operations[number + 1..number + 1 + EVERY];
                restore(&session, ahead, &mut report)?;
                // Pages in a buffer hide what becomes of those on flash.
                if config.buffer.is_none() {
                    at.part = Part::Flips;
                    flip(&session, ahead, &mut rng, &mut report)?;
                }
            }
            Ok(())
        });
        if let Err(what) = result {
            report.fail(at, what);
        }
        report
    }
}

/// The commands of some operations, and the state that they lead to.
type Future = (Vec<Line>, Vec<u8>);

fn future(mut session: Session<'_>, ahead: &[Operation]) -> Result<Future, String> {
    for operation in ahead {
        session.step(operation).map_err(Stop::text)?;
    }
    session.read_all().map_err(Stop::text)?;
    let (ftl, _) = session.parts();
    let state = ftl.save();
    Ok((session.flash.take_lines(), state))
}

/// In what commands of the same text differ.
fn unlike(ours: &Line, theirs: &Line) -> String {
    let (Noted::Program(ours), Noted::Program(theirs)) = (ours.what, theirs.what) else { return String::new() };
    let of =
        |oob: Oob| format!("mode {:?}, version {}, program {}, mark {}", oob.mode, oob.version, oob.program, oob.mark);
    format!(": {}, not {}", of(ours), of(theirs))
}

/// Saves, drops and restores the scheme, and compares what it does next.
fn restore(session: &Session<'_>, ahead: &[Operation], report: &mut CheckReport) -> Result<(), String> {
    let ftl = session.restored().map_err(Stop::text)?;
    let (bytes, reported) = (ftl.save().len() as u64, reported(&ftl));
    let slack = (reported - bytes) * 1000 / reported.max(1);
    report.honesty.slack_per_mille = Some(report.honesty.slack_per_mille.map_or(slack, |least| least.min(slack)));
    let restored = Session { ftl: Some(ftl), ..session.clone() };
    let (expected, end) = future(session.clone(), ahead)?;
    let (lines, same_end) = future(restored, ahead)?;
    if let Some((ours, theirs)) = lines.iter().zip(&expected).find(|(a, b)| a != b) {
        let differs = if ours.to_string() == theirs.to_string() { unlike(ours, theirs) } else { String::new() };
        return Err(format!(
            "restored from saved RAM, it issues `{ours}` where the original issued `{theirs}`{differs}"
        ));
    }
    if lines.len() != expected.len() || end != same_end {
        return Err("restored from saved RAM, it ends in another state than the original".into());
    }
    report.honesty.restores += 1;
    Ok(())
}

/// Whether what follows is as expected; an error is not. A change may have a scheme go on for long: it is stopped after
/// the first operation that issues another command, and at the first command beyond as many as are expected.
fn follows(mut session: Session<'_>, ahead: &[Operation], mounts: bool, (lines, end): &Future) -> bool {
    session.flash.inner_mut().restart();
    session.flash.inner_mut().set_limit(lines.len() as u64);
    let mut rest = &lines[..];
    let take = |session: &mut Session<'_>, rest: &mut &[Line]| {
        let left = rest.strip_prefix(&session.flash.take_lines()[..]);
        *rest = left.unwrap_or_default();
        left.is_some()
    };
    let outcome = guarded(|| {
        if mounts {
            mount(&mut session).map_err(Stop::text)?;
        }
        for operation in ahead {
            session.step(operation).map_err(Stop::text)?;
            if !take(&mut session, &mut rest) {
                return Ok(false);
            }
        }
        session.read_all().map_err(Stop::text)?;
        Ok(take(&mut session, &mut rest) && rest.is_empty() && session.parts().0.save() == *end)
    });
    outcome == Ok(true)
}

fn mount(session: &mut Session<'_>) -> Result<(), Stop> {
    session.oracle.power_cut();
    session.mount()?;
    session.read_all()
}

const fn is_metadata(kind: Kind) -> bool {
    matches!(kind, Kind::Translation | Kind::Checkpoint | Kind::Trim)
}

/// Flips a bit in random stored words of metadata, and others in spare areas, and looks whether it makes a difference.
fn flip(session: &Session<'_>, ahead: &[Operation], rng: &mut Rng, report: &mut CheckReport) -> Result<(), String> {
    let mut chip = session.flash.inner().inner().inner().inner().clone();
    let (mut pages, mut spares) = (Vec::new(), Vec::new());
    for ppn in (0..chip.geometry().page_count()).map(Ppn) {
        match chip.read_oob(ppn, Cause::Recovery) {
            Ok(Some(oob)) if is_metadata(oob.kind) => pages.push(ppn),
            Ok(_) if !chip.spare(ppn).is_empty() => spares.push((ppn, chip.spare(ppn).len())),
            Ok(_) => {}
        }
    }
    if pages.is_empty() && spares.is_empty() {
        return Ok(());
    }
    let expected = future(session.clone(), ahead)?;
    let mut mounted = session.clone();
    mount(&mut mounted).map_err(Stop::text)?;
    let expected_mounted = future(mounted, ahead)?;
    // Whether what follows a change differs, with or without a mount.
    let matters = |change: &dyn Fn(&mut Chip)| {
        let mut other = session.clone();
        change(other.flash.inner_mut().inner_mut().inner_mut().inner_mut());
        !(follows(other.clone(), ahead, false, &expected) && follows(other, ahead, true, &expected_mounted))
    };
    // The newest pages are the likeliest to be in use; dead ones cost two runs and count for nothing.
    for _ in 0..if pages.is_empty() { 0 } else { 4 } {
        let ppn = pages[rng.below(pages.len() as u64) as usize];
        report.honesty.metadata_pages += 1;
        let Some((used, _)) = chip.metadata_state(ppn) else { continue };
        let word = rng.below(u64::from(used.div_ceil(4).max(1))) as usize;
        let Ok((_, Payload::Meta(words))) = chip.read(ppn, Cause::Recovery) else { continue };
        let stored = words[word];
        let flipped = |bits: u32| {
            matters(&|chip: &mut Chip| {
                for bit in (0..32).filter(|bit| bits >> bit & 1 == 1) {
                    chip.flip_metadata_bit(ppn, word, bit).expect("the page holds metadata");
                }
            })
        };
        if stored == u32::MAX || !flipped(!stored) {
            continue;
        }
        report.honesty.flips += 1;
        report.honesty.noticed += u64::from(flipped(1 << rng.below(32)));
    }
    for _ in 0..if spares.is_empty() { 0 } else { 4 } {
        let (ppn, bytes) = spares[rng.below(spares.len() as u64) as usize];
        let bit = rng.below(bytes as u64 * 8) as usize;
        report.honesty.spare_flips += 1;
        report.honesty.spare_noticed += u64::from(matters(&|chip: &mut Chip| chip.flip_spare_bit(ppn, bit)));
    }
    Ok(())
}

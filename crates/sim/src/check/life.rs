//! Devices that live on: power fails again and again, and the device goes on from what each cut has left.
//!
//! A branch behind a cut ends after some hundred operations at most, and what one cut has left is soon collected. Here
//! nothing is branched. In a run of some thousand operations power fails at every third, tenth or fiftieth of them, at
//! a command near its beginning more often than at a later one; so it does in some of the mounts that follow, and in
//! mounts behind those. What many cuts leave adds up: blocks that are neither empty nor full, places that a mount must
//! not trust, numbers that were given twice. Now and then the device is saved and restored instead, as it is when a
//! host shuts it down. In a third of the others blocks go bad too, in another third programs and erases fail now and
//! then, if the scheme is checked for these classes. In four runs more blocks go bad, programs and erases fail, or
//! programs do not stick and are read back: so rarely that the device is not full before many cuts have come.
//!
//! In eight of the runs cuts are *aimed*. An operation has some commands of the host's, and rarely some of a
//! collection, a merge, a map, a move for wear, so a command that is drawn evenly is mostly the host's. There the
//! operation is done on a copy of the device first, one of the causes that changed the flash is drawn, and one of its
//! commands; and so is the command of a mount, most of which change nothing. The medium is a sound one then, and the
//! device has as many logical pages as the scheme takes: what cuts leave of collections, over and over, must not use up
//! the room for the next.
//!
//! What the host asks for changes with each spell. What happens behind an operation is drawn by its number alone, so
//! that a case can be made short.

use super::Part;
use super::bed::{Action, Bed, Operation, Request};
use super::cuts::Story;
use super::session::{Session, Stop};
use flash::{Cause, CutPoint, Lpn, Rng};

/// Operations of a spell.
const SPELL: usize = 64;
/// Kinds of media that a device lives on: without failures, and with failures that stay or pass.
pub(super) const KINDS: u64 = 3;
/// Runs; from which one on cuts are aimed; and from which one on media fail so rarely that devices live long.
pub(super) const RUNS: u64 = 24;
pub(super) const AIMED: u64 = 12;
const LONG: u64 = 20;
/// Shares of the operations in which power is to fail, by run; where cuts are aimed, many in a row.
const RATES: [f64; 3] = [0.3, 0.1, 0.02];
const AIMED_RATES: [f64; 3] = [0.5, 0.15, 0.04];
const LONG_RATE: f64 = 0.5;
/// Share of the mounts in which it is to fail too.
const IN_MOUNTS: f64 = 0.3;
const IN_AIMED_MOUNTS: f64 = 0.5;
/// Share of the operations behind which the device is saved and restored.
const RESTORED: f64 = 0.03;
/// Programs and erases between two cuts that no scheme needs on devices this small.
pub(super) const COMMAND_LIMIT: u64 = 100_000;

/// What comes with each operation of a run.
#[derive(Debug)]
pub(super) struct Life {
    lots: Rng,
    rate: f64,
    aimed: bool,
    /// The page that was written last.
    newest: Option<Lpn>,
}

/// What the host asks for: each spell has a mix of its own.
pub(super) fn operations(bed: &Bed, lots: u64, aimed: bool) -> impl Iterator<Item = Operation> + use<'_> {
    (0u64..).flat_map(move |spell| {
        let mut rng = Rng::new(lots).fork(&format!("spell {spell}"));
        let mix = if aimed { bed.mix.of_an_aimed_spell(&mut rng) } else { bed.mix.of_a_spell(&mut rng) };
        Bed { seed: rng.bits(), mix, ..bed.clone() }.operations("spell").take(SPELL)
    })
}

/// A command within reach: the first is as likely as those from the second to the third, or from the fourth to the
/// eighth. `lot` chooses the face, too.
pub(super) fn point(lot: &mut Rng) -> CutPoint {
    let reach = lot.below(8);
    CutPoint { command: lot.below(1 << reach), face: lot.below(6) as u8 }
}

/// Whether the cuts of a run are aimed.
pub(super) const fn is_aimed(run: u64) -> bool {
    AIMED <= run && run < LONG
}

/// Whether a run is on a medium that fails so rarely that the device lives long.
pub(super) const fn is_long(run: u64) -> bool {
    run >= LONG
}

/// What fails on a device that lives long.
pub(super) const fn fails_rarely(run: u64) -> Part {
    match run - LONG {
        0 => Part::Media,
        1 => Part::Intermittent,
        _ => Part::Silent,
    }
}

/// A command of what comes next, which is done on a copy: each cause of commands that change the flash is as likely as
/// another. `None` if nothing changes it.
fn aim<'a>(
    session: &Session<'a>,
    lot: &mut Rng,
    next: impl FnOnce(&mut Session<'a>) -> Result<(), Stop>,
) -> Option<CutPoint> {
    let mut copy = session.clone();
    copy.flash.inner_mut().restart();
    // What goes wrong here goes wrong once more.
    let _ = next(&mut copy);
    let seen: Vec<Cause> = copy.flash.inner().seen().iter().map(|command| command.cause).collect();
    let mut causes = seen.clone();
    causes.sort_unstable();
    causes.dedup();
    let cause = *causes.get(lot.below(causes.len().max(1) as u64) as usize)?;
    let commands: Vec<u64> = (0..).zip(&seen).filter(|&(_, of)| *of == cause).map(|(command, _)| command).collect();
    Some(CutPoint { command: commands[lot.below(commands.len() as u64) as usize], face: lot.below(6) as u8 })
}

/// Where power fails in what comes next, at such a rate, and with which garbage: at a command that is aimed at or at
/// any.
fn place<'a>(
    session: &Session<'a>,
    lot: &mut Rng,
    (rate, aimed): (f64, bool),
    next: impl FnOnce(&mut Session<'a>) -> Result<(), Stop>,
) -> Option<(CutPoint, u64)> {
    if !lot.chance(rate) {
        return None;
    }
    let at = if aimed { aim(session, lot, next)? } else { point(lot) };
    Some((at, lot.bits()))
}

impl Life {
    /// Of a run with these lots.
    pub(super) fn of(lots: u64, which: u64) -> Life {
        let rates = if is_aimed(which) { AIMED_RATES } else { RATES };
        let drawn = rates[((which / KINDS).wrapping_add(lots) % rates.len() as u64) as usize];
        let rate = if is_long(which) { LONG_RATE } else { drawn };
        Life { lots: Rng::new(lots).fork("life"), rate, aimed: is_aimed(which), newest: None }
    }

    /// Does an operation, in which power may fail, and mounts the device then. Behind some operations the host does it
    /// again if it was cut short, or writes once more what was newest: who gives numbers that were given before gives
    /// them to the same pages then.
    pub(super) fn step(
        &mut self,
        session: &mut Session<'_>,
        operation: &Operation,
        number: u32,
        story: &mut Story,
    ) -> Result<(), Stop> {
        let mut lot = self.lots.fork(&format!("operation {number}"));
        session.flash.inner_mut().set_limit(COMMAND_LIMIT);
        let at = place(session, &mut lot, (self.rate, self.aimed), |copy| copy.step(operation));
        let is_cut = session.meets_cut(at, |session| session.step(operation))?;
        if is_cut {
            wake(session, &mut lot, self.aimed, story)?;
        }
        if lot.chance(RESTORED) && session.bed.saves {
            story.hear(&mut session.flash);
            story.say(|| "saved and restored".into());
            session.ftl = Some(session.restored()?);
        }
        let again = match (lot.below(4), operation.action) {
            (0, Action::Write(request, _) | Action::Trim(request)) if is_cut => Some(request),
            (1, _) if is_cut => self.newest.map(|lpn| Request { first: lpn, pages: 1 }),
            _ => None,
        };
        if let Action::Write(request, written) = operation.action {
            self.newest = request.start(written).last().or(self.newest);
        }
        let Some(request) = again else { return Ok(()) };
        let again = Operation { action: Action::Write(request, request.pages), ..*operation };
        story.say(|| again.to_string());
        session.step(&again)
    }
}

/// Power has failed: the device is mounted, over more cuts perhaps, and every page is read.
fn wake(session: &mut Session<'_>, lot: &mut Rng, aimed: bool, story: &mut Story) -> Result<(), Stop> {
    loop {
        session.work.cuts += 1;
        story.hear(&mut session.flash);
        story.say(|| "POWER CUT; mount, and read every page".into());
        session.oracle.power_cut();
        let rate = if aimed { IN_AIMED_MOUNTS } else { IN_MOUNTS };
        let at = place(session, lot, (rate, aimed), |copy| copy.mount());
        if !session.meets_cut(at, |session| session.mount().and_then(|()| session.read_all()))? {
            return session.audit();
        }
    }
}

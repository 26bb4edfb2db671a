//! Devices that are full, and go on.
//!
//! A medium that fails ends most runs where room ends: the device says that it is full, is asked for a little more, and
//! that is all. What a scheme does there is what few people ever see: a map that cannot be written, a collection that
//! stops half way because the block that it copies to has failed, a victim for which there is no room any more. So in
//! these runs a device is brought to its last free block soon, and stays there. It has as many logical pages as the
//! scheme takes, or a few blocks of room, which blocks that fail take one after another. What fails is a kind of its
//! own in each run: any program; programs of metadata alone, of which there are few, and which are the ones that a
//! scheme cannot simply do again elsewhere; erases; several programs in a row, so that one operation meets more
//! failures than there are free blocks.
//!
//! A refusal is no end. The host reads every page, discards some, flushes, switches the device off and on, or goes on
//! as if nothing had happened: what it discards makes room, what it writes then takes it, and the device is full again.

use super::bed::{Action, Bed, Operation, Request};
use super::cuts::Story;
use super::session::{Session, Stop};
use flash::{FailurePlan, Lpn, Rng};

/// Runs, with failures of their own.
pub(super) const RUNS: u64 = 8;
/// Kinds of failures.
const KINDS: u64 = 4;
/// Refusals after which a run has seen enough.
const REFUSALS: u32 = 48;
/// Operations between two looks at all of it.
const LOOK: u32 = 12;

/// Whether a run's device has a few blocks of room.
pub(super) const fn has_room(run: u64) -> bool {
    run / KINDS % 2 == 1
}

/// What fails in a run.
pub(super) fn plan(bed: &Bed, lots: u64, run: u64) -> FailurePlan {
    let mut lot = Rng::new(lots).fork("failures of a full device");
    let pages = u64::from(bed.geometry.page_count());
    match run % KINDS {
        0 => FailurePlan { program_rate: 0.03 * lot.unit(), ..FailurePlan::default() },
        1 => FailurePlan { metadata_rate: 0.3 * lot.unit().powi(2), ..FailurePlan::default() },
        2 => FailurePlan { erase_rate: 0.2 * lot.unit().powi(2), ..FailurePlan::default() },
        _ => {
            let mut programs = Vec::new();
            for _ in 0..3 {
                let first = lot.below(3 * pages);
                programs.extend(first..first + 2 + lot.below(3));
            }
            programs.sort_unstable();
            programs.dedup();
            FailurePlan { program_schedule: programs, ..FailurePlan::default() }
        }
    }
}

/// What comes with each operation of a run.
#[derive(Debug)]
pub(super) struct Brink {
    lots: Rng,
    pages: u32,
    refused: u32,
}

impl Brink {
    /// Of a run with these lots.
    pub(super) fn of(lots: u64, bed: &Bed) -> Brink {
        Brink { lots: Rng::new(lots).fork("on the brink"), pages: bed.logical_pages, refused: 0 }
    }

    /// Does an operation. If it is refused, what the host does about it follows.
    pub(super) fn step(
        &mut self,
        session: &mut Session<'_>,
        operation: &Operation,
        number: u32,
        story: &mut Story,
    ) -> Result<(), Stop> {
        let mut lot = self.lots.fork(&format!("operation {number}"));
        match session.step(operation) {
            Err(Stop::Full) => {
                story.say(|| "refused: the device says that it is full".into());
                self.refused += 1;
                look(session)?;
                if self.refused == REFUSALS {
                    return Err(Stop::Full);
                }
                let page = lot.below(u64::from(self.pages)) as u32;
                let few = Request { first: Lpn(page), pages: (1 + lot.below(12) as u32).min(self.pages - page) };
                let next = match lot.below(6) {
                    0 | 1 => Action::Trim(few),
                    2 => Action::Write(few, few.pages),
                    3 => Action::Flush,
                    4 => Action::Restart,
                    _ => return Ok(()),
                };
                let next = Operation { action: next, probe: Lpn(page) };
                story.say(|| next.to_string());
                match session.step(&next) {
                    Err(Stop::Full) => {}
                    end => end?,
                }
                look(session)?;
            }
            end => end?,
        }
        if number.is_multiple_of(LOOK) { look(session) } else { Ok(()) }
    }
}

/// Reads every page, which no device refuses, and audits.
fn look(session: &mut Session<'_>) -> Result<(), Stop> {
    match session.read_all().and_then(|()| session.audit()) {
        Err(Stop::Full) => Err(Stop::Wrong("a read is refused because the device is full".into())),
        looked => looked,
    }
}

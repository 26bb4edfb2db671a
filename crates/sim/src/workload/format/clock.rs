//! Times as arrivals: relative to the first record's, never decreasing, and not dragged along by a broken clock.
//!
//! Text traces and tables share this piece, so that the same records arrive at the same times in either.

use crate::workload::Intake;

/// A record this far ahead of both its neighbours has a broken clock, not a late successor.
const LEAP_NS: u64 = 3_600_000_000_000;

/// So far ahead (a year), a last record has a broken clock although none follows to contradict it: blkparse sorts by
/// time, which puts such records last.
const LAST_LEAP_NS: u64 = 365 * 24 * LEAP_NS;

/// Turns the times of records of type `R` into arrivals, in nanoseconds.
///
/// Arrivals are relative to the first record's. An arrival earlier than its predecessor's is clamped to it and counted
/// in the [`Intake`]. A single record that lies more than an hour ahead of both its neighbours is itself the one out
/// of order (else the clamp would drag the rest of the trace along); it takes its predecessor's arrival. So does a last
/// record more than a year ahead. To know its successor, such a record is held back until that comes.
#[derive(Debug)]
pub struct Clock<R> {
    base_ns: u64,
    /// The last delivered time; `None` before the first.
    last_ns: Option<u64>,
    /// A record far ahead of its predecessor (or the first), with its time; its successor will tell whether it is off.
    held: Option<(u64, R)>,
}

impl<R> Default for Clock<R> {
    fn default() -> Self {
        Self { base_ns: 0, last_ns: None, held: None }
    }
}

impl<R> Clock<R> {
    /// The arrival of a record at this time if it can be delivered at once, as nearly all can; the clock then advances
    /// to it. Else the record goes to [`Clock::tick`].
    #[inline]
    pub fn follows(&mut self, time_ns: u64) -> Option<u64> {
        let follows = self.held.is_none()
            && self.last_ns.is_some_and(|last_ns| time_ns >= last_ns && time_ns - last_ns <= LEAP_NS);
        follows.then(|| self.deliver(time_ns))
    }

    /// What can be delivered now that the next record is known, each with its arrival: the record that was held, then
    /// the next itself unless it is held now.
    #[inline]
    pub fn tick(&mut self, next_ns: u64, next: R, intake: &mut Intake) -> [Option<(u64, R)>; 2] {
        let mut released = None;
        if let Some((mut held_ns, held)) = self.held.take() {
            if held_ns.saturating_sub(next_ns) > LEAP_NS {
                note(held_ns - next_ns, intake);
                held_ns = self.last_ns.unwrap_or(next_ns);
            }
            released = Some((self.deliver(held_ns), held));
        }
        let next_ns = match self.last_ns {
            Some(last_ns) if next_ns < last_ns => {
                note(last_ns - next_ns, intake);
                last_ns
            }
            Some(last_ns) if next_ns - last_ns <= LEAP_NS => next_ns,
            _ => {
                self.held = Some((next_ns, next));
                return [released, None];
            }
        };
        [released, Some((self.deliver(next_ns), next))]
    }

    /// The record that is held when the trace ends, with its arrival.
    pub fn end(&mut self, intake: &mut Intake) -> Option<(u64, R)> {
        let (mut held_ns, held) = self.held.take()?;
        if let Some(last_ns) = self.last_ns
            && held_ns - last_ns > LAST_LEAP_NS
        {
            note(held_ns - last_ns, intake);
            held_ns = last_ns;
        }
        Some((self.deliver(held_ns), held))
    }

    /// The arrival of what is delivered at this time.
    #[inline]
    fn deliver(&mut self, time_ns: u64) -> u64 {
        if self.last_ns.is_none() {
            self.base_ns = time_ns;
        }
        self.last_ns = Some(time_ns);
        time_ns - self.base_ns
    }
}

/// Counts an arrival that is off by so much.
fn note(off_ns: u64, intake: &mut Intake) {
    intake.out_of_order += 1;
    intake.worst_disorder_ns = intake.worst_disorder_ns.max(off_ns);
}

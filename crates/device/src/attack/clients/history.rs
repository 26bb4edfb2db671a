//! Whether what several clients were told can have happened in one order.

use std::collections::HashSet;
use std::time::Instant;

/// What an operation did to a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum What {
    /// It left this value.
    Write(u64),
    /// It left zero, and with power any of what was there before may come back.
    Discard,
    /// It left this value, and its answer said that it lasts.
    Fua(u64),
    /// It found this value.
    Read(u64),
    /// Not a request: this value outlived power. Asked for with the last acknowledged flush.
    Kept(u64),
}

impl What {
    /// What is there afterwards, if it changes that.
    fn leaves(self) -> Option<u64> {
        match self {
            What::Write(value) | What::Fua(value) => Some(value),
            What::Discard => Some(0),
            What::Read(_) | What::Kept(_) => None,
        }
    }
}

/// An operation on a place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operation {
    /// When it was asked for.
    pub(super) asked: Instant,
    /// From when on it has happened, if it has.
    pub(super) ended: Instant,
    /// It has happened. The others were not answered, or with an error.
    pub(super) certain: bool,
    pub(super) what: What,
}

/// Where a search stands: which operations are behind it, and what the place holds.
#[derive(Clone, PartialEq, Eq, Hash)]
struct State {
    /// All before this one are.
    begun: usize,
    /// Of the others, these, in order.
    ahead: Vec<usize>,
    value: u64,
    /// It was discarded since it was written last.
    discarded: bool,
}

impl State {
    fn is_done(&self, i: usize) -> bool {
        i < self.begun || self.ahead.binary_search(&i).is_ok()
    }

    /// With one operation more behind it.
    fn after(&self, i: usize) -> State {
        let mut after = self.clone();
        let at = after.ahead.partition_point(|&other| other < i);
        after.ahead.insert(at, i);
        let run = after.ahead.iter().zip(after.begun..).take_while(|&(&i, next)| i == next).count();
        after.ahead.drain(..run);
        after.begun += run;
        after
    }
}

/// Whether there is an order of the operations on a place that held `first`, each of them somewhere between its
/// question and its end, in which every read finds what was written last. (Wing and Gong, "Testing and verifying
/// concurrent objects", 1993, with the states that were tried kept in mind.)
pub(super) fn is_linearisable(first: u64, operations: &[Operation]) -> bool {
    let mut sorted = operations.to_vec();
    sorted.sort_by_key(|operation| operation.asked);
    let mut tried = HashSet::new();
    let mut left = vec![State { begun: 0, ahead: Vec::new(), value: first, discarded: false }];
    while let Some(state) = left.pop() {
        if !tried.insert(state.clone()) {
            continue;
        }
        let pending = || (state.begun..sorted.len()).filter(|&i| !state.is_done(i));
        if !pending().any(|i| sorted[i].certain) {
            return true;
        }
        let next = pending().min_by_key(|&i| sorted[i].ended).expect("some are pending");
        // What may not have happened is left out at the last moment.
        if !sorted[next].certain {
            left.push(state.after(next));
        }
        let lasts = |i: usize| matches!(sorted[i].what, What::Fua(_)) && sorted[i].certain;
        let was = |found: u64| {
            found == first || (0..sorted.len()).any(|i| state.is_done(i) && sorted[i].what.leaves() == Some(found))
        };
        for i in pending().take_while(|&i| sorted[i].asked <= sorted[next].ended) {
            let State { value, discarded, .. } = state;
            let may_be = match sorted[i].what {
                What::Read(found) => found == value,
                What::Kept(found) => (found == value || discarded && was(found)) && !pending().any(lasts),
                What::Write(_) | What::Fua(_) | What::Discard => true,
            };
            if may_be {
                let value = sorted[i].what.leaves().unwrap_or(value);
                let discarded = match sorted[i].what {
                    What::Write(_) | What::Fua(_) => false,
                    What::Discard => true,
                    What::Read(_) | What::Kept(_) => discarded,
                };
                left.push(State { value, discarded, ..state.after(i) });
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_check_knows_what_cannot_have_happened() {
        use What::{Discard, Fua, Kept, Read, Write};
        let began = Instant::now();
        let at = |ms: u64| began + Duration::from_millis(ms);
        let operation = |from, to, what| Operation { asked: at(from), ended: at(to), certain: true, what };
        let vanished = |from, to, what| Operation { certain: false, ..operation(from, to, what) };
        let fits = |operations: &[Operation]| is_linearisable(0, operations);
        // Two writes at once, and reads in the order of either.
        let writes = [operation(0, 10, Write(1)), operation(0, 10, Write(2))];
        let read = |from, value| operation(from, from + 1, Read(value));
        assert!(fits(&[writes[0], writes[1], read(11, 1), read(12, 1)]));
        assert!(fits(&[writes[0], writes[1], read(3, 0), read(4, 2), read(6, 1), read(12, 1)]));
        assert!(!fits(&[writes[0], writes[1], read(11, 1), read(13, 2)]), "back and forth");
        assert!(!fits(&[writes[0], writes[1], read(11, 0)]), "lost");
        assert!(!fits(&[writes[0], writes[1], read(4, 2), read(6, 0)]), "undone");
        assert!(!fits(&[read(0, 1), operation(5, 9, Write(1))]), "before it was written");
        assert!(is_linearisable(7, &[read(0, 7)]) && !is_linearisable(7, &[read(0, 0)]), "what there was");
        // A client that was not answered.
        assert!(fits(&[vanished(0, 99, Write(1)), read(5, 0)]), "it did not happen");
        assert!(fits(&[vanished(0, 99, Write(1)), read(5, 0), read(90, 1)]), "it did, late");
        assert!(!fits(&[vanished(0, 60, Write(1)), read(65, 0), read(90, 1)]), "later than it can have");
        assert!(fits(&[vanished(0, 60, Write(1)), read(65, 1), read(90, 1)]), "in time");
        assert!(!fits(&[vanished(0, 99, Write(1)), read(5, 1), read(90, 0)]), "it did, and was undone");
        assert!(!fits(&[read(0, 1), vanished(5, 99, Write(1))]), "before it was asked for");
        assert!(fits(&[vanished(0, 3, Write(1)), vanished(4, 8, Write(2)), read(9, 1)]), "the first and not the other");
        // Power failed at 100; a flush was asked for at 50 and acknowledged.
        let writes = [operation(0, 10, Write(1)), operation(60, 70, Write(2)), operation(80, 90, Write(3))];
        let kept = |from, value| operation(from, 100, Kept(value));
        let [first, _, third] = writes;
        let with = |last: &[Operation]| fits(&[&writes[..], last].concat());
        assert!([1, 2, 3].iter().all(|&value| with(&[kept(50, value)])));
        assert!(!with(&[kept(50, 0)]), "it was flushed");
        assert!(with(&[kept(0, 0)]), "nothing was flushed");
        assert!(!with(&[read(95, 3), kept(95, 2)]), "a flush at 95 has the last");
        let lasting = operation(60, 70, Fua(2));
        assert!(!fits(&[first, lasting, third, kept(50, 1)]), "FUA");
        assert!(fits(&[first, lasting, third, kept(50, 2)]));
        assert!(fits(&[first, vanished(60, 99, Fua(2)), third, kept(50, 1)]), "nobody was told that it lasts");
        // Discards that need not last.
        let discarded = [first, operation(20, 30, Discard)];
        assert!(fits(&[discarded[0], discarded[1], kept(50, 0)]) && fits(&[discarded[0], discarded[1], kept(50, 1)]));
        assert!(!fits(&[discarded[0], discarded[1], kept(50, 2)]), "what was never there");
        let twice = [first, writes[1], operation(71, 75, Discard)];
        assert!([0, 1, 2].iter().all(|&value| fits(&[&twice[..], &[kept(80, value)]].concat())), "any that was there");
        assert!(!fits(&[discarded[0], discarded[1], read(40, 1)]), "while there is power they do");
        assert!(!fits(&[discarded[0], discarded[1], third, kept(95, 1)]), "beneath what was written since");
    }
}

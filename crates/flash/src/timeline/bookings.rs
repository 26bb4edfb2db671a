//! What a die and a channel are booked for: the ends of the bookings, and the run of one cause that a diary does not
//! have yet.

use crate::Cause;
use crate::response::{Diary, Entry};

/// A die: when it is free again, when the last gap between its bookings ends, the channel that it is on, and the cause
/// of its last booking.
#[derive(Clone, Copy, Debug)]
pub(super) struct DieState {
    pub(super) free_ns: u64,
    pub(super) gaps_end_ns: u64,
    pub(super) channel: u32,
    pub(super) cause: Cause,
}

impl DieState {
    /// The run of bookings of one cause that is not in the die's diary yet.
    #[inline(always)]
    pub(super) fn run(&self) -> Entry {
        Entry { end_ns: self.free_ns, cause: self.cause }
    }

    /// A booking behind all others, for this cause, ends at `end_ns`.
    #[inline(always)]
    pub(super) fn book(&mut self, end_ns: u64, cause: Cause, diary: &mut Diary, now_ns: u64) {
        if cause != self.cause {
            diary.enter(self.run(), now_ns);
            self.cause = cause;
        }
        self.free_ns = end_ns;
    }

    /// A booking for this cause takes the time of a gap, from its beginning to `end_ns`, which was that of what is
    /// behind.
    pub(super) fn book_gap(&mut self, (gap_ns, end_ns): (u64, u64), cause: Cause, diary: &mut Diary, now_ns: u64) {
        if gap_ns < diary.end_ns() {
            diary.correct(gap_ns, end_ns, cause);
        } else if cause != self.cause {
            diary.enter(Entry { end_ns: gap_ns, cause: self.cause }, now_ns);
            diary.enter(Entry { end_ns, cause }, now_ns);
        }
    }
}

/// A channel: its backlog of transfers, ns, and the cause of the last of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChannelState {
    pub(super) backlog_ns: u64,
    pub(super) cause: Cause,
}

impl ChannelState {
    pub(super) const IDLE: ChannelState = ChannelState { backlog_ns: 0, cause: Cause::Host };

    #[inline(always)]
    pub(super) fn run(&self) -> Entry {
        Entry { end_ns: self.backlog_ns, cause: self.cause }
    }

    /// Transfers for this cause are added to the backlog, up to `end_ns`.
    #[inline(always)]
    pub(super) fn queue(&mut self, end_ns: u64, cause: Cause, diary: &mut Diary, now_ns: u64) {
        if cause != self.cause {
            diary.enter(self.run(), now_ns);
            self.cause = cause;
        }
        self.backlog_ns = end_ns;
    }
}

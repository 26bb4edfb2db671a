//! Replacement orders of a mapping cache.
//!
//! | order | victim |
//! |---|---|
//! | LRU | least recently used |
//! | segmented LRU | LRU of the probationary segment; a second use moves a line to the protected segment, whose
//! overflow returns (Karedla et al. 1994; DFTL names it) |
//! | LFU | least often used since it was loaded; among equals the least recently used |
//! | real + ghost | FlashSim's: lines enter the real list as its most used; its overflow moves the least used to the
//! ghost list; the least used ghost is evicted; a ghost hit that has been used as often as the least used real line
//! changes places with it |

use crate::{Loader, Saver};
use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;

/// Which order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OrderKind {
    /// Least recently used.
    Lru,
    /// Segmented LRU, four fifths protected.
    SegmentedLru,
    /// Least often used.
    Lfu,
    /// FlashSim's two lists, four fifths real.
    RealGhost,
}

impl OrderKind {
    /// All.
    pub const ALL: &'static [OrderKind] =
        &[OrderKind::Lru, OrderKind::SegmentedLru, OrderKind::Lfu, OrderKind::RealGhost];

    /// Words for parameters, in the order of [`OrderKind::ALL`].
    pub const NAMES: &'static [&'static str] = &["lru", "slru", "lfu", "real-ghost"];

    /// The order of this name.
    pub fn by_name(name: &str) -> Option<OrderKind> {
        Self::NAMES.iter().position(|&n| n == name).map(|i| Self::ALL[i])
    }

    /// Bytes kept for each line beside its place in the order: a use count, and for LFU the time of use.
    pub const fn bytes_per_line(self) -> u64 {
        match self {
            OrderKind::Lru | OrderKind::SegmentedLru => 0,
            OrderKind::Lfu | OrderKind::RealGhost => 4,
        }
    }
}

const NONE: u32 = u32::MAX;

/// A doubly linked list of slots through shared arrays; the head is the most recent.
#[derive(Clone, Copy, Debug)]
struct List {
    head: u32,
    tail: u32,
    length: u32,
}

const EMPTY: List = List { head: NONE, tail: NONE, length: 0 };

/// A line's rank among those counted by use: uses, then recency, then slot.
type Rank = (u32, u64, u32);

/// See the module's description.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    kind: OrderKind,
    next: Vec<u32>,
    previous: Vec<u32>,
    /// Segment of each slot: 0 probationary or real, 1 protected or ghost.
    segment: Vec<u8>,
    lists: [List; 2],
    /// Longest that segment 1 (protected) or 0 (real) may be.
    limit: usize,
    uses: Vec<u32>,
    stamp: Vec<u64>,
    ranks: [BTreeSet<Rank>; 2],
    clock: u64,
    /// Saved lines are being put back: nothing is demoted.
    loading: bool,
}

impl Order {
    /// Over `slots` slots, none in use.
    pub(crate) fn new(kind: OrderKind, slots: usize) -> Order {
        let counts = matches!(kind, OrderKind::Lfu | OrderKind::RealGhost);
        let (lists, counted) = if counts { (0, slots) } else { (slots, 0) };
        Order {
            kind,
            next: vec![NONE; lists],
            previous: vec![NONE; lists],
            segment: vec![0; slots],
            lists: [EMPTY; 2],
            limit: (slots * 4 / 5).max(1),
            uses: vec![0; counted],
            stamp: vec![0; slots],
            ranks: [BTreeSet::new(), BTreeSet::new()],
            clock: 0,
            loading: false,
        }
    }

    /// Which order this is.
    pub(crate) fn kind(&self) -> OrderKind {
        self.kind
    }

    fn push(&mut self, slot: u32, segment: usize) {
        let list = &mut self.lists[segment];
        self.clock += 1;
        self.stamp[slot as usize] = self.clock;
        self.segment[slot as usize] = segment as u8;
        self.next[slot as usize] = list.head;
        self.previous[slot as usize] = NONE;
        match list.head {
            NONE => list.tail = slot,
            head => self.previous[head as usize] = slot,
        }
        list.head = slot;
        list.length += 1;
    }

    fn detach(&mut self, slot: u32) {
        let list = &mut self.lists[self.segment[slot as usize] as usize];
        let (previous, next) = (self.previous[slot as usize], self.next[slot as usize]);
        match previous {
            NONE => list.head = next,
            previous => self.next[previous as usize] = next,
        }
        match next {
            NONE => list.tail = previous,
            next => self.previous[next as usize] = previous,
        }
        list.length -= 1;
    }

    fn rank(&self, slot: u32) -> Rank {
        (self.uses[slot as usize], self.stamp[slot as usize], slot)
    }

    fn enter(&mut self, slot: u32, segment: usize) {
        self.segment[slot as usize] = segment as u8;
        let rank = self.rank(slot);
        self.ranks[segment].insert(rank);
    }

    fn leave(&mut self, slot: u32) {
        let rank = self.rank(slot);
        self.ranks[self.segment[slot as usize] as usize].remove(&rank);
    }

    /// A new line.
    #[inline]
    pub(crate) fn insert(&mut self, slot: u32) {
        match self.kind {
            OrderKind::Lru | OrderKind::SegmentedLru => self.push(slot, 0),
            OrderKind::Lfu | OrderKind::RealGhost => {
                self.clock += 1;
                // FlashSim takes a new line for the most used.
                let most = self.ranks[0].last().filter(|_| self.kind == OrderKind::RealGhost).map_or(0, |rank| rank.0);
                self.uses[slot as usize] = (most + 1).min(u32::MAX >> 1);
                self.stamp[slot as usize] = self.clock;
                if self.kind == OrderKind::RealGhost && !self.loading && self.ranks[0].len() >= self.limit {
                    self.demote();
                }
                self.enter(slot, 0);
            }
        }
    }

    /// The least used real line becomes a ghost.
    fn demote(&mut self) {
        if let Some((_, _, least)) = self.ranks[0].pop_first() {
            self.enter(least, 1);
        }
    }

    /// A line was used.
    #[inline]
    pub(crate) fn hit(&mut self, slot: u32) {
        match self.kind {
            OrderKind::Lru => {
                if self.lists[0].head != slot {
                    self.detach(slot);
                    self.push(slot, 0);
                }
            }
            OrderKind::SegmentedLru => {
                self.detach(slot);
                self.push(slot, 1);
                if self.lists[1].length as usize > self.limit {
                    let least = self.lists[1].tail;
                    self.detach(least);
                    self.push(least, 0);
                }
            }
            OrderKind::Lfu | OrderKind::RealGhost => {
                self.leave(slot);
                self.clock += 1;
                self.uses[slot as usize] = (self.uses[slot as usize] + 1).min(u32::MAX >> 1);
                self.stamp[slot as usize] = self.clock;
                let segment = self.segment[slot as usize] as usize;
                let least_real = self.ranks[0].first().map_or(0, |&(uses, ..)| uses);
                if segment == 1 && self.uses[slot as usize] >= least_real {
                    if self.ranks[0].len() >= self.limit {
                        self.demote();
                    }
                    self.enter(slot, 0);
                } else {
                    self.enter(slot, segment);
                }
            }
        }
    }

    /// The line to be replaced next.
    ///
    /// # Panics
    /// If there is no line: a bug.
    #[inline]
    pub(crate) fn victim(&self) -> u32 {
        match self.kind {
            OrderKind::Lru | OrderKind::SegmentedLru => {
                let slot = if self.lists[0].length > 0 { self.lists[0].tail } else { self.lists[1].tail };
                assert!(slot != NONE, "an empty cache has no victim");
                slot
            }
            OrderKind::Lfu | OrderKind::RealGhost => {
                let least = self.ranks[1].first().or(self.ranks[0].first());
                least.expect("an empty cache has no victim").2
            }
        }
    }

    /// The slots of an LRU order, the least recently used first.
    pub(crate) fn oldest_first(&self) -> impl Iterator<Item = u32> + '_ {
        let some = |slot: u32| (slot != NONE).then_some(slot);
        core::iter::successors(some(self.lists[0].tail), move |&slot| some(self.previous[slot as usize]))
    }

    /// The least recently used line of an LRU order that is not set aside.
    #[inline]
    pub(crate) fn oldest(&self) -> Option<u32> {
        (self.lists[0].length > 0).then_some(self.lists[0].tail)
    }

    /// Sets aside what [`Order::oldest`] is, until it is used again. What was set aside last is the most recent of
    /// those, and all of them are older than the others.
    pub(crate) fn set_aside(&mut self, slot: u32) {
        debug_assert!(self.kind == OrderKind::Lru && self.oldest() == Some(slot), "only the oldest is set aside");
        let stamp = self.stamp[slot as usize];
        self.detach(slot);
        self.push(slot, 1);
        self.stamp[slot as usize] = stamp;
    }

    /// Whether any line is set aside.
    #[inline(always)]
    pub(crate) fn any_aside(&self) -> bool {
        self.lists[1].length > 0
    }

    /// Whether a line is set aside.
    #[inline(always)]
    pub(crate) fn is_aside(&self, slot: u32) -> bool {
        self.segment[slot as usize] == 1
    }

    /// Where a line stands: the less, the sooner it is replaced.
    pub(crate) fn standing(&self, slot: u32) -> (u8, u32, u64) {
        let (segment, stamp) = (self.segment[slot as usize], self.stamp[slot as usize]);
        match self.kind {
            OrderKind::Lru => (1 - segment, 0, stamp),
            OrderKind::SegmentedLru => (segment, 0, stamp),
            OrderKind::Lfu | OrderKind::RealGhost => (1 - segment, self.uses[slot as usize], stamp),
        }
    }

    /// A line is dropped.
    #[inline]
    pub(crate) fn remove(&mut self, slot: u32) {
        match self.kind {
            OrderKind::Lru | OrderKind::SegmentedLru => self.detach(slot),
            OrderKind::Lfu | OrderKind::RealGhost => self.leave(slot),
        }
    }

    /// The slots of each segment in the order in which inserting them again restores this order. Orders that count
    /// uses have all in the first, by recency, so that times of use need not be stored.
    pub(crate) fn segments(&self) -> [Vec<u32>; 2] {
        match self.kind {
            OrderKind::Lru | OrderKind::SegmentedLru => [0, 1].map(|segment| {
                let tail = self.lists[segment].tail;
                core::iter::successors((tail != NONE).then_some(tail), |&slot| {
                    let previous = self.previous[slot as usize];
                    (previous != NONE).then_some(previous)
                })
                .collect()
            }),
            OrderKind::Lfu | OrderKind::RealGhost => {
                let mut slots: Vec<u32> = self.ranks.iter().flatten().map(|&(.., slot)| slot).collect();
                slots.sort_unstable_by_key(|&slot| self.stamp[slot as usize]);
                [slots, Vec::new()]
            }
        }
    }

    /// Saves what a line needs beside its place: its uses, and which list it is in.
    pub(crate) fn save_line(&self, slot: u32, out: &mut Saver) {
        if self.kind.bytes_per_line() > 0 {
            let uses = self.uses[slot as usize].min(u32::MAX >> 1);
            out.u32(uses | u32::from(self.segment[slot as usize]) << 31);
        }
    }

    /// Begins and ends putting saved lines back.
    pub(crate) fn set_loading(&mut self, loading: bool) {
        self.loading = loading;
        if self.kind == OrderKind::Lru && !loading {
            // What is set aside came last, and is older than the others.
            for slot in self.segments().into_iter().rev().flatten() {
                self.clock += 1;
                self.stamp[slot as usize] = self.clock;
            }
        }
    }

    /// Moves a line that was just inserted to its segment, with what [`Order::save_line`] saved.
    pub(crate) fn load_line(&mut self, slot: u32, segment: usize, from: &mut Loader<'_>) {
        match self.kind {
            OrderKind::Lru | OrderKind::SegmentedLru => {
                self.detach(slot);
                self.push(slot, segment);
            }
            OrderKind::Lfu | OrderKind::RealGhost => {
                self.leave(slot);
                let word = from.u32();
                self.uses[slot as usize] = word & u32::MAX >> 1;
                self.enter(slot, (word >> 31) as usize);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evictions(kind: OrderKind, capacity: usize, uses: &[u32]) -> Vec<u32> {
        let mut order = Order::new(kind, capacity);
        let mut cached: Vec<Option<u32>> = vec![None; capacity];
        let mut out = Vec::new();
        for &name in uses {
            if let Some(slot) = cached.iter().position(|&c| c == Some(name)) {
                order.hit(slot as u32);
                continue;
            }
            let slot = cached.iter().position(Option::is_none).unwrap_or_else(|| {
                let victim = order.victim();
                order.remove(victim);
                out.push(cached[victim as usize].unwrap());
                victim as usize
            });
            cached[slot] = Some(name);
            order.insert(slot as u32);
        }
        out
    }

    #[test]
    fn lru_replaces_the_least_recent() {
        assert_eq!(evictions(OrderKind::Lru, 3, &[1, 2, 3, 1, 4, 5]), [2, 3]);
    }

    #[test]
    fn segmented_lru_keeps_what_was_used_twice() {
        // 1 and 2 are protected by their second use; the scan 3 to 6 passes through probation.
        assert_eq!(evictions(OrderKind::SegmentedLru, 4, &[1, 2, 1, 2, 3, 4, 5, 6]), [3, 4]);
        // The protected segment holds three of four: a fourth sends its oldest back to probation.
        assert_eq!(evictions(OrderKind::SegmentedLru, 4, &[1, 2, 3, 4, 1, 2, 3, 4, 5]), [1]);
    }

    #[test]
    fn lfu_replaces_the_least_often_used() {
        assert_eq!(evictions(OrderKind::Lfu, 3, &[1, 1, 1, 2, 2, 3, 4, 5]), [3, 4]);
    }

    #[test]
    fn real_and_ghost_lists_as_in_flashsim() {
        // Five places: four real, one ghost. 5 enters real and pushes the least used (1) to the ghosts; 6 evicts it.
        assert_eq!(evictions(OrderKind::RealGhost, 5, &[1, 2, 3, 4, 5, 6]), [1]);
        // A hit on ghost 1 makes it as used as no real line, so it returns and 2 becomes the ghost.
        assert_eq!(evictions(OrderKind::RealGhost, 5, &[1, 2, 3, 4, 5, 1, 6]), [2]);
        // Uses of long ago do not keep 1: what was loaded since counts as used more often.
        assert_eq!(evictions(OrderKind::RealGhost, 5, &[1, 1, 1, 2, 3, 4, 5, 6]), [1]);
    }
}

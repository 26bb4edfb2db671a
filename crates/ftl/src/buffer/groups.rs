//! Resident pages gathered by logical block, the blocks in order of use.
//!
//! FAB takes the largest group, BPLRU the one that was used least recently; both are one ordered set of (size or
//! nothing, time of last use), of which the last element is the victim. A time is a number that grows with every use;
//! a group that is to leave before all others is given one below all others.

use crate::{Loader, Saver};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::cmp::Reverse;
use flash::Lpn;

/// A logical block of which pages are resident.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Group {
    /// Resident pages.
    pub(super) pages: u32,
    /// How many pages came in order, from the block's first on; [`NOT_IN_ORDER`] once one did not.
    pub(super) in_order: u32,
    used: i64,
}

/// See [`Group::in_order`].
pub(super) const NOT_IN_ORDER: u32 = u32::MAX;

/// See the module's description.
#[derive(Clone, Debug)]
pub(super) struct Groups {
    pages_per_block: u32,
    by_size: bool,
    groups: BTreeMap<u32, Group>,
    order: BTreeSet<(u32, Reverse<i64>, u32)>,
    latest: i64,
    earliest: i64,
}

impl Groups {
    /// No group. `by_size`: larger ones leave first.
    pub(super) fn new(pages_per_block: u32, by_size: bool) -> Groups {
        let (groups, order) = (BTreeMap::new(), BTreeSet::new());
        Groups { pages_per_block, by_size, groups, order, latest: 0, earliest: 0 }
    }

    fn block_of(&self, lpn: Lpn) -> u32 {
        lpn.0 / self.pages_per_block
    }

    /// First page of a block.
    pub(super) fn first_of(&self, block: u32) -> Lpn {
        Lpn(block * self.pages_per_block)
    }

    fn key(&self, block: u32, group: &Group) -> (u32, Reverse<i64>, u32) {
        (if self.by_size { group.pages } else { 0 }, Reverse(group.used), block)
    }

    /// Changes a block's group, which may come into being or end by it.
    fn change(&mut self, block: u32, change: impl FnOnce(&mut Group)) {
        let mut group = self.groups.get(&block).copied().unwrap_or(Group { pages: 0, in_order: 0, used: 0 });
        self.order.remove(&self.key(block, &group));
        change(&mut group);
        if group.pages == 0 {
            self.groups.remove(&block);
        } else {
            self.order.insert(self.key(block, &group));
            self.groups.insert(block, group);
        }
    }

    /// A page of a block was used: `write` tells whether it was written, `new` whether it just came.
    pub(super) fn use_page(&mut self, lpn: Lpn, write: bool, new: bool) {
        self.latest += 1;
        let (used, offset) = (self.latest, lpn.0 % self.pages_per_block);
        self.change(self.block_of(lpn), |group| {
            group.used = used;
            group.pages += u32::from(new);
            if write {
                group.in_order = if group.in_order == offset { offset + 1 } else { NOT_IN_ORDER };
            }
        });
    }

    /// The group of this page goes before all others.
    pub(super) fn demote(&mut self, lpn: Lpn) {
        self.earliest -= 1;
        let used = self.earliest;
        self.change(self.block_of(lpn), |group| group.used = used);
    }

    /// A resident page leaves.
    pub(super) fn remove(&mut self, lpn: Lpn) {
        self.change(self.block_of(lpn), |group| {
            group.pages -= 1;
            group.in_order = NOT_IN_ORDER;
        });
    }

    /// The group of this page.
    pub(super) fn of(&self, lpn: Lpn) -> Option<&Group> {
        self.groups.get(&self.block_of(lpn))
    }

    /// The block that leaves next, and its group. That of `coming` does so only if it is alone.
    pub(super) fn victim(&self, coming: Option<Lpn>) -> Option<(u32, &Group)> {
        let own = coming.map(|lpn| self.block_of(lpn));
        let other = self.order.iter().rev().map(|&(_, _, block)| block).find(|&block| Some(block) != own);
        let block = other.or(own.filter(|own| self.groups.contains_key(own)))?;
        Some((block, &self.groups[&block]))
    }

    /// Resident pages of all groups.
    pub(super) fn pages(&self) -> u32 {
        self.groups.values().map(|group| group.pages).sum()
    }

    /// Writes block, pages and order of arrival of every group, from the least to the most recently used: 12 B each.
    pub(super) fn save(&self, out: &mut Saver) {
        let mut groups: Vec<(&u32, &Group)> = self.groups.iter().collect();
        groups.sort_unstable_by_key(|(_, group)| group.used);
        out.u32(groups.len() as u32);
        for (&block, group) in groups {
            out.u32(block);
            out.u32(group.pages);
            out.u32(group.in_order);
        }
    }

    /// Reads them back.
    pub(super) fn load(&mut self, from: &mut Loader<'_>) {
        for _ in 0..from.u32() {
            self.latest += 1;
            let block = from.u32();
            let group = Group { pages: from.u32(), in_order: from.u32(), used: self.latest };
            self.order.insert(self.key(block, &group));
            self.groups.insert(block, group);
        }
    }
}

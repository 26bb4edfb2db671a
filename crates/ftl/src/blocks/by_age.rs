//! Candidates in lists, so that a policy that weighs age against live pages need not look at every block.
//!
//! Each die has a list for each number of live pages, the block that was left alone longest first. Blocks are the nodes
//! `0..blocks`; every list has a node of its own behind them, and runs round through it. A block in no list is linked
//! with itself.

use alloc::vec::Vec;

/// The nodes before and after one.
type Links = (u32, u32);

/// See the module's description.
#[derive(Clone, Debug)]
pub(super) struct ByAge {
    links: Vec<Links>,
    blocks: u32,
}

impl ByAge {
    /// Of so many blocks, all in no list, and so many lists.
    pub(super) fn new(blocks: u32, lists: u32) -> ByAge {
        ByAge { links: (0..blocks + lists).map(|node| (node, node)).collect(), blocks }
    }

    /// Puts a block into a list, behind those that were modified before it or with it, or into none.
    pub(super) fn place(&mut self, block: u32, list: Option<u32>, modified: &[u64]) {
        let (before, after) = self.links[block as usize];
        self.links[before as usize].1 = after;
        self.links[after as usize].0 = before;
        self.links[block as usize] = (block, block);
        let Some(list) = list else { return };
        let end = self.blocks + list;
        // Nearly always the last of all.
        let mut before = self.links[end as usize].0;
        while before != end && modified[before as usize] > modified[block as usize] {
            before = self.links[before as usize].0;
        }
        let after = self.links[before as usize].1;
        self.links[before as usize].1 = block;
        self.links[after as usize].0 = block;
        self.links[block as usize] = (before, after);
    }

    /// A list's blocks, the longest unmodified first.
    pub(super) fn list(&self, list: u32) -> impl Iterator<Item = u32> + '_ {
        let end = self.blocks + list;
        let next = move |node: u32| Some(self.links[node as usize].1).filter(|&next| next != end);
        core::iter::successors(next(end), move |&node| next(node))
    }
}

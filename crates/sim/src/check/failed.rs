//! What becomes of blocks that failed.
//!
//! A block of which a program or an erase failed takes nothing more but its mark, and does not stay without one.

use flash::Block;
use std::collections::{BTreeMap, BTreeSet};

/// Looks at which a block that failed may be without a mark. A scheme that leaves its live pages to a collection
/// (`simple`) takes a while.
const LOOKS: u32 = 24;

/// How often in a row each block that failed was seen without a mark.
#[derive(Default)]
pub(super) struct Watch(BTreeMap<Block, u32>);

impl Watch {
    /// Looks at the blocks that failed and bear no mark, and at the commands that went to such blocks.
    pub(super) fn look(&mut self, unmarked: &BTreeSet<Block>, misused: u64) -> Result<(), String> {
        if misused > 0 {
            return Err(format!("{misused} commands went to blocks that had failed, and were no marks"));
        }
        let seen = |&block: &Block| (block, self.0.get(&block).map_or(1, |looks| looks + 1));
        self.0 = unmarked.iter().map(seen).collect();
        match self.0.iter().find(|&(_, &looks)| looks > LOOKS) {
            Some((block, _)) => Err(format!("block {block} failed long ago, and bears no mark")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_may_be_without_a_mark_for_a_while_and_takes_nothing() {
        let (mut watch, blocks) = (Watch::default(), |blocks: &[u32]| blocks.iter().copied().map(Block).collect());
        for look in 1..=LOOKS {
            // Block 3 is marked in between, and fails anew.
            let unmarked = if look == 4 { blocks(&[7]) } else { blocks(&[3, 7]) };
            assert_eq!(watch.look(&unmarked, 0), Ok(()), "{look}");
        }
        assert_eq!(watch.look(&blocks(&[3]), 0), Ok(()), "block 7 is marked in time");
        for _ in 0..3 {
            assert_eq!(watch.look(&blocks(&[3]), 0), Ok(()));
        }
        assert!(watch.look(&blocks(&[3]), 0).unwrap_err().starts_with("block 3 failed long ago"));
        assert!(watch.look(&blocks(&[]), 2).unwrap_err().starts_with("2 commands"));
    }
}

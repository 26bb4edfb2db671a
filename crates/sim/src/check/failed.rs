//! What becomes of blocks that failed.
//!
//! A block of which a program or an erase failed takes nothing more but its mark, and does not stay without one.

use super::content::Medium;
use super::session::{Session, Stop};
use flash::Block;
use ftl::Recipe;
use std::collections::BTreeMap;

/// Looks at which a block that failed may be without a mark. A scheme that leaves its live pages to a collection
/// (`simple`) takes a while.
const LOOKS: u32 = 8;

/// How often in a row each block that failed was seen without a mark.
#[derive(Default)]
pub(super) struct Watch(BTreeMap<Block, u32>);

impl Watch {
    /// Looks at what became of them.
    pub(super) fn look<S: Recipe<F>, F: Medium>(&mut self, session: &mut Session<'_, S, F>) -> Result<(), Stop> {
        let failing = session.flash.failing();
        if failing.misused() > 0 {
            let what = format!("{} commands went to blocks that had failed, and were no marks", failing.misused());
            return Err(Stop::Wrong(what));
        }
        let seen = |&block: &Block| (block, self.0.get(&block).map_or(1, |looks| looks + 1));
        self.0 = failing.unmarked().iter().map(seen).collect();
        match self.0.iter().find(|&(_, &looks)| looks > LOOKS) {
            Some((block, _)) => Err(Stop::Wrong(format!("block {block} failed long ago, and bears no mark"))),
            None => Ok(()),
        }
    }
}

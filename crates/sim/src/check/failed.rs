//! What becomes of blocks that failed.
//!
//! A block of which a program or an erase failed takes nothing more but its mark, and does not stay without one. And a
//! device says that it is full only where the scheme would not take so many logical pages on a device that has no more
//! blocks than are left, one less even: what it asks of a new one it makes do with later.

use super::bed::Bed;
use super::content::Medium;
use super::session::{Session, Stop};
use super::{Bench, bench, sound};
use flash::{Block, Geometry};
use ftl::Recipe;
use std::collections::BTreeMap;

/// Looks at which a block that failed may be without a mark. A scheme that leaves its live pages to a collection
/// (`simple`) takes a while.
const LOOKS: u32 = 8;

/// Blocks of each die that what is done half way, when the device says that it is full, may take.
const UNDER_WAY: u32 = 1;

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

/// A device says that it is full. Nobody is asked who has log blocks: a device of fewer blocks may have fewer of these.
pub(super) fn is_full<S: Recipe<Bench>>(session: &mut Session<'_, S, Bench>) -> Result<(), Stop> {
    let Bed { geometry, logical_pages, settings, .. } = session.bed;
    let bad = session.flash.failing().bad_blocks();
    let in_die = |die: u32| bad.iter().filter(|&&block| geometry.die_of(block).0 == die).count() as u32;
    let most = (0..geometry.die_count()).map(in_die).max().unwrap_or(0);
    let left = geometry.blocks_per_die.saturating_sub(most + UNDER_WAY);
    let Ok(g) = (Geometry { blocks_per_die: left, ..*geometry }).checked() else { return Ok(()) };
    if ["log-blocks", "update-blocks"].iter().any(|name| settings.get(name).is_some()) {
        return Ok(());
    }
    match session.recipe.format(&mut bench(sound(g), false), *logical_pages, settings) {
        Err(_) => Ok(()),
        Ok(_) => Err(Stop::Wrong(format!(
            "says that it is full with {most} bad blocks on a die at the most, and would take as many pages on a \
             device of {left} blocks a die"
        ))),
    }
}

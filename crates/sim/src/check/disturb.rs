//! Media that lose what is read often or kept long, and hosts that leave them time to move it.
//!
//! A block endures so many reads between two erases, keeps its charge for so long, or both. Half way it is tired, which
//! the medium tells ([`flash::Flash::tired`]), and whatever has it is to move what it holds in idle time. So after each
//! operation the host leaves the device alone until that says that there is no more to do. It reads a few pages again
//! and again, which is what wears on blocks most; mounts and audits read all of them. In some of these pauses power
//! fails, and the device is mounted. Nothing may be lost, and no read may be an error: how often a block was read the
//! medium keeps over mounts, and names the block again to a scheme that has forgotten it.
//!
//! The least that a block endures is more than twice what is read of it between two pauses: by a request of two blocks'
//! pages, by a mount, or by reading every page, with all that these read of maps.

use super::bed::{Action, Bed, Operation, Request};
use super::content::{Medium, Stamp};
use super::media::CACHE_BYTES;
use super::session::{Session, Stop};
use flash::{Block, Cause, CutPoint, Die, FailurePlan, Flash, Lpn, Oob, Payload, Rng};
use ftl::Ftl;

/// Page copies that a device is asked for at a time.
const COPIES: u32 = 8;
/// Operations between two spells of reading the same page.
const SPELL: u32 = 4;
/// Spells for which the page stays the same.
const HOT: u32 = 16;
/// Blank blocks of a die with which a tired block of it can be moved: one for its pages, two for what is written about
/// them, as blocks of the map may hold half as many pages, and one for what comes before the block.
const ROOM: usize = 4;

/// What wears on blocks in a run: reads, time, or both. A block that is not tired yet endures that every page of the
/// host is read without a pause, where each of these reads loads the same page of a map.
pub(super) fn plan(bed: &Bed, lots: u64, kind: u64) -> FailurePlan {
    let g = &bed.geometry;
    let mut lot = Rng::new(lots).fork("what blocks endure");
    let reads = 64 + g.pages_per_block * (32 + lot.below(64) as u32);
    let loads = if bed.settings.get(CACHE_BYTES).is_some() { bed.logical_pages } else { 0 };
    let reads = reads.max(2 * loads);
    let age = u64::from(g.page_count()) * (40 + lot.below(80));
    FailurePlan {
        reads_endured: (kind != 1).then_some(reads),
        age_endured: (kind != 0).then_some(age),
        ..FailurePlan::default()
    }
}

/// What comes behind each operation.
#[derive(Debug)]
pub(super) struct Disturbance {
    lots: Rng,
    /// Reads of a spell.
    spell: u32,
    pages: u64,
    /// Blocks whose pages were lost so far.
    spent: u64,
}

impl Disturbance {
    /// Of a run with this plan.
    pub(super) fn of(plan: &FailurePlan, bed: &Bed, run: u64) -> Disturbance {
        let lots = Rng::new(bed.seed ^ (run + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)).fork("disturbance");
        Disturbance { lots, spell: plan.reads_endured.unwrap_or(128) / 8, pages: bed.logical_pages.into(), spent: 0 }
    }

    /// Behind an operation: a pause, in which power may fail, and now and then reads of one page and another pause. If
    /// a block was spent, nothing that counts was in it: every page is read. The `last` operation has a sequel.
    pub(super) fn follow(&mut self, session: &mut Session<'_>, number: u32, last: bool) -> Result<(), Stop> {
        let mut lot = self.lots.fork(&format!("operation {number}"));
        self.pause(session, &mut lot)?;
        if last && session.rests {
            return self.empty(session, Lpn(lot.below(self.pages) as u32));
        }
        if !number.is_multiple_of(SPELL) {
            return Ok(());
        }
        let hot = self.lots.fork(&format!("hot page {}", number / SPELL / HOT)).below(self.pages);
        (0..self.spell).try_for_each(|_| session.read(Lpn(hot as u32)))?;
        self.pause(session, &mut lot)?;
        hold_to_places(session)?;
        let spent = session.flash.failing().spent();
        if spent > self.spent {
            session.read_all()?;
            session.audit()?;
        }
        self.spent = spent;
        Ok(())
    }

    /// Everything is discarded, and then a page that was written last and read until its block was tired. That block is
    /// all dead then, and the newest of its die, so that a mount would go on with it: what is written next must not go
    /// there.
    fn empty(&mut self, session: &mut Session<'_>, lpn: Lpn) -> Result<(), Stop> {
        let write = Operation { action: Action::Write(Request { first: lpn, pages: 1 }, 1), probe: lpn };
        let (all, most) = (self.pages as u32, session.bed.geometry.pages_per_block);
        for first in (0..all).step_by(most as usize) {
            let pages = Request { first: Lpn(first), pages: most.min(all - first) };
            session.step(&Operation { action: Action::Trim(pages), probe: lpn })?;
            session.rest()?;
        }
        session.step(&write)?;
        self.tire(session, lpn)?;
        session.step(&Operation { action: Action::Trim(Request { first: lpn, pages: 1 }), probe: lpn })?;
        session.rest()?;
        session.step(&Operation { action: Action::Restart, probe: lpn })?;
        session.rest()?;
        session.step(&write)?;
        hold_to_places(session)?;
        self.empty_the_newer(session, lpn)
    }

    /// Two blocks of a die are tired, and what the newer one holds is discarded: while it is the newest of its die it
    /// has to wait. The other one does not wait for it, nor do its pages go there.
    fn empty_the_newer(&mut self, session: &mut Session<'_>, probe: Lpn) -> Result<(), Stop> {
        let g = session.bed.geometry;
        let pages = (2 * g.pages_per_block * g.die_count()).min(self.pages as u32);
        session.rest()?;
        for first in (0..pages).step_by(g.pages_per_block as usize) {
            let request = Request { first: Lpn(first), pages: g.pages_per_block.min(pages - first) };
            session.step(&Operation { action: Action::Write(request, request.pages), probe })?;
        }
        let [newest, others] = session.newest(Die(0));
        let (Some(&new), Some(&old)) = (newest.first(), others.last()) else { return Ok(()) };
        [new, old].into_iter().try_for_each(|lpn| self.tire(session, lpn))?;
        for lpn in newest {
            session.step(&Operation { action: Action::Trim(Request { first: lpn, pages: 1 }), probe })?;
        }
        session.rest()?;
        hold_to_places(session)
    }

    /// A page is read until a block more is tired, or one is all but spent.
    fn tire(&self, session: &mut Session<'_>, lpn: Lpn) -> Result<(), Stop> {
        let before = session.tired().len();
        for _ in 0..8 * self.spell {
            if session.tired().len() > before || session.flash.failing().is_nearly_spent() {
                break;
            }
            session.read(lpn)?;
        }
        Ok(())
    }

    /// The device rests; in some of the pauses power fails at one of its commands.
    fn pause(&mut self, session: &mut Session<'_>, lot: &mut Rng) -> Result<(), Stop> {
        if !session.rests || !lot.chance(0.6) {
            return session.rest();
        }
        // Most pauses have hardly a command, and some a whole block's copies.
        let most = if lot.chance(0.5) { 2 } else { 24 };
        let point = CutPoint { command: lot.below(most), face: lot.below(4) as u8 };
        if !session.meets_cut(Some((point, lot.bits())), Session::rest)? {
            return Ok(());
        }
        session.work.idle_cuts += 1;
        session.drain();
        session.oracle.power_cut();
        session.mount()?;
        session.rest()?;
        session.read_all()
    }
}

/// No page may have gone where it will not last.
fn hold_to_places(session: &mut Session<'_>) -> Result<(), Stop> {
    match session.flash.failing().misplaced() {
        0 => Ok(()),
        pages => Err(Stop::Wrong(format!("{pages} pages went into tired blocks where others were to be had"))),
    }
}

impl Session<'_> {
    /// The logical pages with a page in the block of a die that was programmed last, and those that other blocks alone
    /// have, the newest block last.
    fn newest(&mut self, die: Die) -> [Vec<Lpn>; 2] {
        let g = self.bed.geometry;
        let chip = self.flash.in_flight().inner_mut();
        let mut read = |block: u32| -> Vec<Oob> {
            let pages = (0..g.pages_per_block).map(|page| g.page(Block(block), page));
            let found = pages.filter_map(|ppn| chip.read_oob(ppn, Cause::Recovery).ok().flatten());
            found.filter(|oob| oob.kind.is_host()).collect()
        };
        let mut blocks: Vec<Vec<Oob>> = g.blocks_of(die).map(&mut read).collect();
        blocks.sort_by_key(|pages| pages.last().map(|oob| oob.program));
        let newest: Vec<Lpn> = blocks.pop().unwrap_or_default().iter().map(Oob::lpn).collect();
        let others = blocks.iter().flatten().map(Oob::lpn).filter(|lpn| !newest.contains(lpn)).collect();
        [newest, others]
    }

    /// The tired blocks.
    fn tired(&mut self) -> Vec<Block> {
        let failing = self.flash.failing();
        std::iter::successors(failing.tired(Block(0)), |block| failing.tired(Block(block.0 + 1))).collect()
    }

    /// The device rests no longer: of the blocks that were tired before its last step none holds a page of the host
    /// that counts, unless there was no room to move it. Such a page is one that the scheme reads there.
    fn hold_to_rest(&mut self, tired: Vec<Block>) -> Result<(), Stop> {
        let g = self.bed.geometry;
        for block in tired {
            if self.flash.failing().tired(block) != Some(block) || self.flash.failing().blank_beside(block) < ROOM {
                continue;
            }
            for ppn in (0..g.pages_per_block).map(|page| g.page(block, page)) {
                let chip = self.flash.in_flight().inner_mut();
                let Ok(Some(oob)) = chip.read_oob(ppn, Cause::Recovery) else { continue };
                let Ok((_, Payload::User(data))) = chip.read(ppn, Cause::Recovery) else { continue };
                let tag = data.tag();
                if !oob.kind.is_host() || tag.is_none() || !self.oracle.allows(oob.lpn(), tag) {
                    continue;
                }
                let before = self.flash.failing().reads_of(block);
                let value = self.chained(|ftl, flash| ftl.read(flash, oob.lpn()).map(|data| data.map(Stamp::tag)))?;
                if value == Some(tag) && self.flash.failing().reads_of(block) > before {
                    return Err(Stop::Wrong(format!("LPN {} was left in block {block}, which is tired", oob.lpn())));
                }
            }
        }
        Ok(())
    }

    /// The host leaves the device alone until there is no more to do, if it does that at all.
    pub(super) fn rest(&mut self) -> Result<(), Stop> {
        if !self.rests {
            return Ok(());
        }
        // Each block may be tired, and worth collecting ahead of need, a few times.
        let most = 64 + 16 * self.bed.geometry.block_count();
        self.flash.failing().rests();
        for _ in 0..most {
            let before = self.tired();
            if !self.chained(|ftl, flash| ftl.idle(flash, COPIES))? {
                self.flash.failing().rested();
                return self.hold_to_rest(before);
            }
        }
        Err(Stop::Wrong(format!("{most} times the device says that there is more to do in idle time")))
    }
}

//! A medium that wears out: blocks bad from the factory, programs and erases that fail.
//!
//! A failed program leaves its page torn, a failed partial program what it was to add; a failed erase leaves its block
//! as it was. Either way the block is a grown bad block: every later program or erase of it fails too, until the scheme
//! retires it with a bad-block mark. Failures may also pass ([`FailurePlan::passing`]), and pages may be lost without
//! any command that failed ([`FailurePlan::unreadable_rate`], [`FailurePlan::spare_rate`],
//! [`FailurePlan::silent_rate`]).
//!
//! Reads and time wear on what a block holds ([`FailurePlan::reads_endured`], [`FailurePlan::age_endured`]): from half
//! of what it endures the block is *tired* ([`Flash::tired`]), and its pages still read. Beyond that it is *spent*, and
//! its pages are lost. Both begin with the first program after an erase, for what a blank block loses nobody misses.
//!
//! A lost page reads as an image says: whoever mounts ([`Cause::Recovery`]) asks whether the page is whole and finds it
//! torn, or finds its spare area alone if it is the copy of a lost one; whoever wants its data gets an error.

use crate::{
    AppendFace, Block, Cause, Chain, Damage, EraseFace, Fault, FaultKind, Flash, Fragile, Geometry, Kind, Lpn, Mode,
    Oob, Payload, Ppn, Rng,
};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;

/// What fails, and when.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FailurePlan {
    /// Blocks marked bad by the factory.
    pub factory_bad: Vec<Block>,
    /// Share of blocks marked bad by the factory, chosen by the seed, beside the listed ones.
    pub factory_bad_rate: f64,
    /// Programs that fail, by number from 0, ascending.
    pub program_schedule: Vec<u64>,
    /// Probability that a program fails.
    pub program_rate: f64,
    /// Probability that a program or a copy of what is no host page fails, or a partial program, beside that.
    pub metadata_rate: f64,
    /// Erases that fail, by number from 0, ascending.
    pub erase_schedule: Vec<u64>,
    /// Probability that an erase fails.
    pub erase_rate: f64,
    /// Erases that a block endures: every later one fails.
    pub endurance: Option<u32>,
    /// Share of the failures, scheduled or drawn, that pass: the command fails and the block works as before.
    pub passing: f64,
    /// Whether a failed erase leaves its block as one that power cut short ([`EraseFace`]); else as it was.
    pub half_erased: bool,
    /// Probability that a host page cannot be read back, from its program to the erase of its block: reads of it are
    /// uncorrectable, and a copy of it is lost as well ([`Flash::copy`]). Its spare area reads.
    pub unreadable_rate: f64,
    /// Probability that a program, a copy or a partial program reports success and does not stick: the page cannot be
    /// read, in half of the cases its spare area neither; of a partial program a part is garbage.
    pub silent_rate: f64,
    /// Probability that nothing of a host page can be read, its spare area neither, from its program to the erase of
    /// its block: reads and copies of it are uncorrectable, and whoever mounts finds garbage.
    pub spare_rate: f64,
    /// Probability that a page which is no host page cannot be read back, from its program to the erase of its block;
    /// in half of the cases its spare area neither. Padding and bad-block marks are not lost.
    pub metadata_lost_rate: f64,
    /// Reads that a block endures between its first program and its erase. Each command that reads a page of it is one:
    /// reads of spare areas too, and copies, for whatever cause, those of mounts among them.
    pub reads_endured: Option<u32>,
    /// How long a block keeps its charge from its first program on. The medium has no clock but the commands that it
    /// has done, on whichever block: each is one, and a copy a read and a program.
    pub age_endured: Option<u64>,
}

/// What of a page cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Lost {
    /// The data; the spare area reads.
    Data,
    /// The same, of the copy of a lost page: its spare area says that there is no data.
    Copied,
    /// Everything.
    Page,
}

const UNCORRECTABLE: Fault = Fault(FaultKind::Uncorrectable);

/// What has worn on a block since its erase.
#[derive(Clone, Copy, Default, Debug)]
struct Strain {
    /// The command at which it was programmed first.
    begun: Option<u64>,
    /// Reads since then.
    reads: u32,
    /// Whether it was too much.
    spent: bool,
    /// Whether it was tired when the device began to rest, or had rested.
    left: bool,
}

/// A page of which nothing reads.
const TORN: Oob = Oob { kind: Kind::Torn, mode: Mode::Normal, address: 0, version: 0, program: 0, mark: 0 };

/// The decorator. See the module's description.
#[derive(Clone, Debug)]
pub struct Failing<F> {
    inner: F,
    plan: FailurePlan,
    rng: Rng,
    programs: u64,
    erases: u64,
    grown_bad: Vec<bool>,
    /// Erases of each block, if they wear it out.
    worn: Vec<u32>,
    /// Pages that cannot be read.
    lost: BTreeMap<Ppn, Lost>,
    /// The logical pages of such that were erased since the last mount began.
    buried: BTreeSet<Lpn>,
    /// Whether the next page that the host writes is to be lost, if it is the last of its block.
    loses_next: bool,
    /// Programs that reported success and did not stick.
    silent: u64,
    /// Commands but the host's reads that came to nothing, because what they were to begin with cannot be read.
    stopped: u64,
    /// Pages so far of which nothing can be read.
    spares_lost: u64,
    /// Pages so far of metadata that cannot be read.
    metadata_lost: u64,
    /// Programs, partial ones too, and erases so far that failed.
    failures: u64,
    /// Blocks that failed and bear no mark.
    unmarked: BTreeSet<Block>,
    /// What was done to such blocks all the same.
    misused: u64,
    /// What has worn on each block; empty if nothing does.
    strain: Vec<Strain>,
    /// Commands so far, if time wears on blocks.
    clock: u64,
    /// Tired blocks that were erased under [`Cause::Refresh`], and blocks whose pages were lost.
    refreshed: u64,
    spent: u64,
    /// Whether the device rests.
    rests: bool,
    /// Pages that went into tired blocks without need.
    misplaced: u64,
}

impl<F: Fragile> Failing<F>
where
    Fault: From<F::Fault>,
{
    /// Around a blank medium, on which it puts the factory's marks.
    pub fn new(mut inner: F, plan: FailurePlan, seed: u64) -> Self {
        let rng = Rng::new(seed);
        let mut factory = rng.fork("factory bad blocks");
        let blocks = inner.geometry().block_count();
        for block in (0..blocks).map(Block) {
            if plan.factory_bad.contains(&block) || factory.chance(plan.factory_bad_rate) {
                inner.chip().mark_bad(block);
            }
        }
        let rng = rng.fork("failures");
        let worn = vec![0; if plan.endurance.is_some() { blocks as usize } else { 0 }];
        let (grown_bad, lost) = (vec![false; blocks as usize], BTreeMap::new());
        let wears = plan.reads_endured.is_some() || plan.age_endured.is_some();
        let strain = vec![Strain::default(); if wears { blocks as usize } else { 0 }];
        Failing {
            inner,
            plan,
            rng,
            programs: 0,
            erases: 0,
            grown_bad,
            worn,
            lost,
            loses_next: false,
            silent: 0,
            stopped: 0,
            spares_lost: 0,
            metadata_lost: 0,
            buried: BTreeSet::new(),
            failures: 0,
            unmarked: BTreeSet::new(),
            misused: 0,
            strain,
            clock: 0,
            refreshed: 0,
            spent: 0,
            rests: false,
            misplaced: 0,
        }
    }

    /// The wrapped medium.
    pub fn inner(&self) -> &F {
        &self.inner
    }

    /// The wrapped medium, to harm it.
    pub fn inner_mut(&mut self) -> &mut F {
        &mut self.inner
    }

    /// Takes the medium out.
    pub fn into_inner(self) -> F {
        self.inner
    }

    /// Blocks that failed and were not marked yet or were.
    pub fn grown_bad_count(&self) -> u32 {
        self.grown_bad.iter().filter(|&&bad| bad).count() as u32
    }

    /// From now on each block endures so many erases, whatever it has been through; `None`: any number.
    pub fn endure(&mut self, endurance: Option<u32>) {
        self.plan.endurance = endurance;
        self.worn = vec![0; if endurance.is_some() { self.grown_bad.len() } else { 0 }];
    }

    fn program_fails(&mut self, ppn: Ppn, kind: Kind) -> bool {
        let block = self.inner.geometry().block_of(ppn);
        let fails = self.programs_fail(block, !kind.is_host());
        self.note(block, fails);
        fails
    }

    /// The next program, partial or not, of a block, of `metadata` or of a host page: whether it fails.
    fn programs_fail(&mut self, block: Block, metadata: bool) -> bool {
        let number = self.programs;
        self.programs += 1;
        let fails = self.grown_bad[block.index()]
            || self.plan.program_schedule.binary_search(&number).is_ok()
            || (self.plan.program_rate > 0.0 && self.rng.chance(self.plan.program_rate))
            || (metadata && self.plan.metadata_rate > 0.0 && self.rng.chance(self.plan.metadata_rate));
        self.grown_bad[block.index()] |= fails && !self.passes();
        self.failures += u64::from(fails);
        fails
    }

    /// A program or an erase of a block: whether it fails.
    fn note(&mut self, block: Block, fails: bool) {
        self.misused += u64::from(self.unmarked.contains(&block));
        if fails {
            self.unmarked.insert(block);
        }
    }

    /// Whether a failure passes.
    fn passes(&mut self) -> bool {
        self.plan.passing > 0.0 && self.rng.chance(self.plan.passing)
    }

    /// Pages that cannot be read now.
    pub fn unreadable_count(&self) -> usize {
        self.lost.len()
    }

    /// Has the next page that the host writes be lost, its data, not its spare area, if it is the last of its block: a
    /// mount reads that one, and takes most others on trust.
    pub fn lose_next(&mut self) {
        self.loses_next = true;
    }

    /// The logical pages of host pages that cannot be read now, each as often as there are such pages of it.
    pub fn unreadable_lpns(&mut self) -> Vec<Lpn> {
        self.lost.keys().copied().collect::<Vec<_>>().into_iter().filter_map(|ppn| self.lpn_of(ppn)).collect()
    }

    /// The logical page that a page is of, if it is the host's.
    fn lpn_of(&mut self, ppn: Ppn) -> Option<Lpn> {
        let oob = self.inner.read_oob(ppn, Cause::Recovery).ok().flatten()?;
        oob.kind.is_host().then(|| oob.lpn())
    }

    /// The logical pages of host pages that could not be read and were erased since the last mount began.
    pub fn buried_lpns(&self) -> &BTreeSet<Lpn> {
        &self.buried
    }

    /// A block is about to be erased.
    fn bury(&mut self, block: Block) {
        let first = self.geometry().page(block, 0);
        let pages = self.lost.range(first..Ppn(first.0 + self.geometry().pages_per_block)).map(|(&ppn, _)| ppn);
        for ppn in pages.collect::<Vec<_>>() {
            let lpn = self.lpn_of(ppn);
            self.buried.extend(lpn);
        }
    }

    /// What tells whether anything was changed: programs and erases so far, and commands but the host's reads that came
    /// to nothing, because what they were to begin with cannot be read. After one of these a scheme may be half way
    /// through something.
    pub fn changes(&self) -> [u64; 3] {
        [self.programs, self.erases, self.stopped]
    }

    /// Whether there are two blank blocks on a block's die, of which one can be filled instead.
    fn has_choice(&self, block: Block) -> bool {
        self.blank_beside(block) > 1
    }

    /// Blocks of a block's die that were not programmed since their erase, bad ones too; where something wears on
    /// blocks.
    pub fn blank_beside(&self, block: Block) -> usize {
        let g = self.inner.geometry();
        g.blocks_of(g.die_of(block)).filter(|&block| self.strain[block as usize].begun.is_none()).count()
    }

    /// Whether more than seven eighths of what a block endures have worn on some block.
    pub fn is_nearly_spent(&self) -> bool {
        self.strain.iter().any(|strain| self.is_worn(strain, 7, 8))
    }

    /// Reads of a block since it was programmed first, where something wears on blocks.
    pub fn reads_of(&self, block: Block) -> u32 {
        self.strain[block.index()].reads
    }

    /// The device begins to rest: pages of the host that are moved for [`Cause::Refresh`] are to go into no block that
    /// is tired now.
    pub fn rests(&mut self) {
        self.rests = true;
        self.note_tired();
    }

    /// The device has rested: no block that is tired now is to be filled further.
    pub fn rested(&mut self) {
        self.rests = false;
        self.note_tired();
    }

    fn note_tired(&mut self) {
        for block in 0..self.strain.len() {
            self.strain[block].left = self.is_worn(&self.strain[block], 1, 2);
        }
    }

    /// Pages so far that went into blocks which had been tired at [`Failing::rests`] or [`Failing::rested`], though
    /// others were to be had.
    pub fn misplaced(&self) -> u64 {
        self.misplaced
    }

    /// Programs, partial ones too, and erases so far that failed.
    pub fn failures(&self) -> u64 {
        self.failures
    }

    /// Blocks of which a program or an erase failed and that bear no mark, as whoever had them fail knows. A partial
    /// program does not count: if it fails, the page holds what it held, and so does its block.
    pub fn unmarked(&self) -> &BTreeSet<Block> {
        &self.unmarked
    }

    /// Programs and erases so far of blocks that had failed and bore no mark; not the marks, nor partial programs.
    pub fn misused(&self) -> u64 {
        self.misused
    }

    /// Whoever knew of failures is gone: a mount knows of marks alone.
    pub fn mounted(&mut self) {
        self.unmarked.clear();
        self.buried.clear();
    }

    /// Host pages so far of which nothing can be read, by [`FailurePlan::spare_rate`].
    pub fn spares_lost(&self) -> u64 {
        self.spares_lost
    }

    /// Pages of metadata so far that cannot be read, by [`FailurePlan::metadata_lost_rate`].
    pub fn metadata_lost(&self) -> u64 {
        self.metadata_lost
    }

    /// Programs so far that reported success and did not stick.
    pub fn silent_count(&self) -> u64 {
        self.silent
    }

    /// Tired blocks so far that were erased for that ([`Cause::Refresh`]).
    pub fn refreshed(&self) -> u64 {
        self.refreshed
    }

    /// Blocks so far that were read too often or kept too long, and whose pages were lost.
    pub fn spent(&self) -> u64 {
        self.spent
    }

    /// Whether more than `of` / `parts` of what a block endures has worn on it.
    fn is_worn(&self, strain: &Strain, of: u64, parts: u64) -> bool {
        let Some(begun) = strain.begun else { return false };
        let FailurePlan { reads_endured, age_endured, .. } = self.plan;
        reads_endured.is_some_and(|most| u64::from(strain.reads) * parts > u64::from(most) * of)
            || age_endured.is_some_and(|most| (self.clock - begun) * parts > most * of)
    }

    /// A page of a block is read.
    #[inline(always)]
    fn disturb(&mut self, ppn: Ppn) -> Result<(), Fault> {
        if self.strain.is_empty() { Ok(()) } else { self.disturb_block(ppn) }
    }

    #[cold]
    fn disturb_block(&mut self, ppn: Ppn) -> Result<(), Fault> {
        let g = *self.inner.geometry();
        let block = g.block_of(ppn);
        self.clock += 1;
        self.strain[block.index()].reads += 1;
        let strain = self.strain[block.index()];
        if strain.spent || !self.is_worn(&strain, 1, 1) {
            return Ok(());
        }
        self.strain[block.index()].spent = true;
        self.spent += 1;
        for ppn in (0..g.pages_per_block).map(|offset| g.page(block, offset)) {
            let oob = self.inner.read_oob(ppn, Cause::Recovery)?;
            if oob.is_some_and(|oob| oob.kind != Kind::Torn) {
                self.lose(ppn);
            }
        }
        Ok(())
    }

    /// A page is lost, unless it is already.
    fn lose(&mut self, ppn: Ppn) {
        let lost = if self.rng.chance(0.5) { Lost::Data } else { Lost::Page };
        self.lost.entry(ppn).or_insert(lost);
    }

    /// A block is programmed: what wears on it begins with that.
    fn begin(&mut self, ppn: Ppn, kind: Kind, cause: Cause) {
        if self.strain.is_empty() {
            return;
        }
        self.clock += 1;
        let block = self.inner.geometry().block_of(ppn);
        let strain = &mut self.strain[block.index()];
        if strain.begun.is_none() {
            *strain = Strain { begun: Some(self.clock), ..Strain::default() };
        }
        let strain = *strain;
        let counts = !self.rests || kind.is_host() && cause == Cause::Refresh;
        if strain.left && counts && self.has_choice(block) {
            self.misplaced += 1;
        }
        if strain.spent {
            self.lose(ppn);
        }
    }

    /// A page was programmed: whether it stuck, and whether it can be read, is decided now.
    fn programmed(&mut self, ppn: Ppn, kind: Kind, cause: Cause) {
        self.begin(ppn, kind, cause);
        if kind != Kind::Torn && self.is_silent() {
            let lost = if self.rng.chance(0.5) { Lost::Data } else { Lost::Page };
            self.lost.insert(ppn, lost);
        } else if self.loses_spare(kind) {
            self.lost.insert(ppn, Lost::Page);
        } else if self.plan.unreadable_rate > 0.0 && kind.is_host() && self.rng.chance(self.plan.unreadable_rate) {
            self.lost.insert(ppn, Lost::Data);
        } else if self.loses_metadata(kind) {
            self.lose(ppn);
        }
    }

    /// Whether a page of metadata cannot be read from now on.
    fn loses_metadata(&mut self, kind: Kind) -> bool {
        let is_metadata = !kind.is_host() && !matches!(kind, Kind::Torn | Kind::Dummy);
        let is_lost =
            self.plan.metadata_lost_rate > 0.0 && is_metadata && self.rng.chance(self.plan.metadata_lost_rate);
        self.metadata_lost += u64::from(is_lost);
        is_lost
    }

    /// Whether nothing of a page can be read from now on.
    fn loses_spare(&mut self, kind: Kind) -> bool {
        let is_lost = self.plan.spare_rate > 0.0 && kind.is_host() && self.rng.chance(self.plan.spare_rate);
        self.spares_lost += u64::from(is_lost);
        is_lost
    }

    /// Whether a program that reports success does not stick.
    fn is_silent(&mut self) -> bool {
        let is_silent = self.plan.silent_rate > 0.0 && self.rng.chance(self.plan.silent_rate);
        self.silent += u64::from(is_silent);
        is_silent
    }

    /// What was lost in a block is gone, or of no use to anybody, and nothing wears on it any more.
    fn forget(&mut self, block: Block) {
        let g = self.inner.geometry();
        if let Some(strain) = self.strain.get_mut(block.index()) {
            *strain = Strain::default();
        }
        self.lost.retain(|&ppn, _| g.block_of(ppn) != block);
    }

    fn erase_fails(&mut self, block: Block) -> bool {
        let number = self.erases;
        self.erases += 1;
        let fails = self.grown_bad[block.index()]
            || self.plan.erase_schedule.binary_search(&number).is_ok()
            || (self.plan.erase_rate > 0.0 && self.rng.chance(self.plan.erase_rate))
            || self.plan.endurance.is_some_and(|endurance| self.worn[block.index()] >= endurance);
        let was_bad = self.grown_bad[block.index()];
        self.grown_bad[block.index()] |= fails && !self.passes();
        if fails && !was_bad && self.plan.half_erased {
            let face = EraseFace::ALL[self.rng.below(4) as usize];
            self.inner.chip().half_erase(block, face, &mut self.rng);
        }
        self.failures += u64::from(fails);
        self.note(block, fails);
        if let Some(erases) = self.worn.get_mut(block.index()) {
            *erases += u32::from(!fails);
        }
        fails
    }
}

impl<F: Fragile> Flash for Failing<F>
where
    Fault: From<F::Fault>,
{
    type User = F::User;
    type Fault = Fault;

    #[inline(always)]
    fn geometry(&self) -> &Geometry {
        self.inner.geometry()
    }

    #[inline(always)]
    fn read(&mut self, ppn: Ppn, cause: Cause) -> Result<(Oob, Payload<'_, F::User>), Fault> {
        self.disturb(ppn)?;
        let lost = self.lost.get(&ppn).copied();
        if lost.is_some() && cause != Cause::Recovery {
            self.stopped += u64::from(cause != Cause::Host);
            return Err(UNCORRECTABLE);
        }
        let (oob, payload) = self.inner.read(ppn, cause)?;
        Ok(match lost {
            None => (oob, payload),
            Some(Lost::Data) => (Oob { kind: Kind::Torn, ..oob }, Payload::None),
            Some(Lost::Copied) => (oob, Payload::None),
            Some(Lost::Page) => (TORN, Payload::None),
        })
    }

    #[inline(always)]
    fn read_oob(&mut self, ppn: Ppn, cause: Cause) -> Result<Option<Oob>, Fault> {
        self.disturb(ppn)?;
        let oob = self.inner.read_oob(ppn, cause)?;
        Ok(oob.map(|oob| if self.lost.get(&ppn) == Some(&Lost::Page) { TORN } else { oob }))
    }

    #[inline(always)]
    fn program(&mut self, ppn: Ppn, oob: Oob, data: Payload<'_, F::User>, cause: Cause) -> Result<(), Fault> {
        if oob.kind == Kind::Bad {
            self.inner.program(ppn, oob, data, cause)?;
            let block = self.inner.geometry().block_of(ppn);
            self.forget(block);
            self.unmarked.remove(&block);
            return Ok(());
        }
        if oob.kind == Kind::Torn
            && let Some(lost) = self.lost.get_mut(&ppn)
        {
            *lost = Lost::Page;
            return Ok(());
        }
        if self.program_fails(ppn, oob.kind) {
            self.inner.chip().ruin(ppn);
            return Err(Fault(FaultKind::ProgramFailed));
        }
        self.inner.program(ppn, oob, data, cause)?;
        self.programmed(ppn, oob.kind, cause);
        if self.loses_next && cause == Cause::Host && oob.kind.is_host() {
            self.loses_next = false;
            let g = self.inner.geometry();
            if g.offset_of(ppn) == g.pages_per_block - 1 {
                self.lost.entry(ppn).or_insert(Lost::Data);
            }
        }
        Ok(())
    }

    fn append(&mut self, ppn: Ppn, at: u32, bytes: &[u8], mark: u16, cause: Cause) -> Result<(), Fault> {
        if self.programs_fail(self.inner.geometry().block_of(ppn), true) {
            self.inner.chip().tear_append(ppn, at, bytes, mark, AppendFace::Partly, &mut self.rng);
            return Err(Fault(FaultKind::ProgramFailed));
        }
        self.clock += 1;
        if self.lost.contains_key(&ppn) {
            self.stopped += 1;
            return Err(UNCORRECTABLE);
        }
        if self.is_silent() {
            self.inner.chip().tear_append(ppn, at, bytes, mark, AppendFace::Partly, &mut self.rng);
            return Ok(());
        }
        Ok(self.inner.append(ppn, at, bytes, mark, cause)?)
    }

    #[inline(always)]
    fn copy(
        &mut self,
        from: Ppn,
        to: Ppn,
        cause: Cause,
        edit: impl FnOnce(&mut Oob, &mut [u32]),
    ) -> Result<Oob, Fault> {
        self.disturb(from)?;
        let lost = self.lost.get(&from).copied();
        if let Some(lost) = lost {
            let kind = self.inner.read_oob(from, cause)?.map(|oob| oob.kind);
            // There is nothing to take along but the spare area of a host page, or of a record of discards.
            if lost == Lost::Page || !kind.is_some_and(|kind| kind.is_host() || kind == Kind::Trim) {
                self.stopped += 1;
                return Err(UNCORRECTABLE);
            }
        }
        // What a copy is of is asked only where that makes a difference.
        let kind = if self.plan.metadata_rate > 0.0 { self.inner.read_oob(from, cause)? } else { None };
        if self.program_fails(to, kind.map_or(Kind::Data, |oob| oob.kind)) {
            self.inner.chip().ruin(to);
            return Err(Fault(FaultKind::ProgramFailed));
        }
        let oob = self.inner.copy(from, to, cause, edit)?;
        match lost {
            Some(_) => {
                self.begin(to, oob.kind, cause);
                let lost = if self.loses_spare(oob.kind) { Lost::Page } else { Lost::Copied };
                self.lost.insert(to, lost);
            }
            None => self.programmed(to, oob.kind, cause),
        }
        Ok(oob)
    }

    fn erase(&mut self, block: Block, cause: Cause) -> Result<(), Fault> {
        if self.erase_fails(block) {
            return Err(Fault(FaultKind::EraseFailed));
        }
        if !self.lost.is_empty() {
            self.bury(block);
        }
        self.inner.erase(block, cause)?;
        self.clock += 1;
        let is_tired = self.strain.get(block.index()).is_some_and(|strain| self.is_worn(strain, 1, 2));
        self.refreshed += u64::from(is_tired && cause == Cause::Refresh);
        self.forget(block);
        Ok(())
    }

    #[inline(always)]
    fn hint(&self, ppn: Ppn, word: usize) {
        self.inner.hint(ppn, word);
    }

    #[inline(always)]
    fn chain(&mut self, next: Chain) -> Chain {
        self.inner.chain(next)
    }

    #[inline(always)]
    fn is_slc(&mut self, block: Block) -> bool {
        self.inner.is_slc(block)
    }

    #[inline(always)]
    fn mode_of(&mut self, ppn: Ppn) -> Mode {
        self.inner.mode_of(ppn)
    }

    fn tired(&self, from: Block) -> Option<Block> {
        let (first, end) = (from.0.min(self.strain.len() as u32), self.strain.len() as u32);
        let own = (first..end).map(Block).find(|block| self.is_worn(&self.strain[block.index()], 1, 2));
        [own, self.inner.tired(from)].into_iter().flatten().min()
    }

    fn reserve_spare(&mut self, bytes: u32) -> bool {
        self.inner.reserve_spare(bytes)
    }

    fn stage_spare(&mut self, ppn: Ppn, bytes: &[u8]) {
        self.inner.stage_spare(ppn, bytes);
    }

    #[inline(always)]
    fn spare(&self, ppn: Ppn) -> &[u8] {
        if self.lost.get(&ppn) == Some(&Lost::Page) { &[] } else { self.inner.spare(ppn) }
    }
}

impl<F: Fragile> Fragile for Failing<F>
where
    Fault: From<F::Fault>,
{
    fn chip(&mut self) -> &mut dyn Damage {
        self.inner.chip()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Brief, Full, Nand, NoData, Tvpn};

    fn chip(plan: FailurePlan) -> Failing<Nand<NoData, Brief>> {
        let g = Geometry { blocks_per_die: 64, pages_per_block: 4, ..Geometry::default() }.checked().unwrap();
        Failing::new(Nand::new(g), plan, 1)
    }

    /// Each kind of page, all of which are lost if they may be: those of the host and padding are not.
    #[test]
    fn metadata_alone_is_lost_with_its_spare_area_or_without() {
        let mut chip = chip(FailurePlan { metadata_lost_rate: 1.0, ..FailurePlan::default() });
        let kinds = [Kind::Data, Kind::Log, Kind::Dummy, Kind::Translation, Kind::Trim, Kind::Checkpoint];
        let mut seen = [0; 3];
        for block in 0..32 {
            for (offset, kind) in (0..4).zip(kinds.into_iter().cycle().skip(block as usize)) {
                let oob = Oob { kind, ..Oob::data(Lpn(0), 0, 0) };
                let payload = if kind.is_host() { Payload::User(&()) } else { Payload::Meta(&[1]) };
                let ppn = Ppn(block * 4 + offset);
                chip.program(ppn, oob, payload, Cause::Host).unwrap();
                let (found, _) = chip.read(ppn, Cause::Recovery).unwrap();
                let spare = chip.read_oob(ppn, Cause::Recovery).unwrap().unwrap();
                let is_metadata = matches!(kind, Kind::Translation | Kind::Trim | Kind::Checkpoint);
                assert_eq!(found.kind, if is_metadata { Kind::Torn } else { kind });
                seen[usize::from(is_metadata) * (1 + usize::from(spare.kind == Kind::Torn))] += 1;
            }
        }
        assert!(seen[1] > 10 && seen[2] > 10, "{seen:?}");
        assert_eq!(chip.metadata_lost(), seen[1] + seen[2]);
        assert!(chip.unreadable_lpns().is_empty());
    }

    #[test]
    fn a_failed_program_makes_its_block_bad_for_good() {
        let mut chip = chip(FailurePlan { program_schedule: vec![1], ..FailurePlan::default() });
        let put = |chip: &mut Failing<_>, ppn: u32| {
            chip.program(Ppn(ppn), Oob::data(Lpn(0), 0, 0), Payload::User(&()), Cause::Host)
        };
        assert!(put(&mut chip, 0).is_ok());
        assert_eq!(put(&mut chip, 1).unwrap_err().0, FaultKind::ProgramFailed);
        assert_eq!(put(&mut chip, 2).unwrap_err().0, FaultKind::ProgramFailed);
        assert_eq!(chip.erase(Block(0), Cause::DataGc).unwrap_err().0, FaultKind::EraseFailed);
        assert!(put(&mut chip, 4).is_ok());
        assert_eq!(chip.grown_bad_count(), 1);
    }

    #[test]
    fn a_block_that_failed_is_noted_until_it_bears_its_mark() {
        let mut chip = chip(FailurePlan { program_schedule: vec![1, 4], ..FailurePlan::default() });
        let put = |chip: &mut Failing<_>, ppn: u32, kind: Kind| {
            chip.program(Ppn(ppn), Oob { kind, ..Oob::data(Lpn(0), 0, 0) }, Payload::User(&()), Cause::Host)
        };
        put(&mut chip, 0, Kind::Data).unwrap();
        assert!(put(&mut chip, 1, Kind::Data).is_err());
        assert_eq!((chip.unmarked().iter().copied().collect::<Vec<_>>(), chip.misused()), (vec![Block(0)], 0));
        put(&mut chip, 4, Kind::Data).unwrap();
        assert_eq!(chip.misused(), 0, "another block");
        assert!(put(&mut chip, 2, Kind::Data).is_err());
        assert!(chip.erase(Block(0), Cause::DataGc).is_err());
        assert_eq!(chip.misused(), 2);
        put(&mut chip, 0, Kind::Bad).unwrap();
        assert!(chip.unmarked().is_empty());
        assert!(put(&mut chip, 8, Kind::Data).is_err());
        assert_eq!((chip.unmarked().len(), chip.misused()), (1, 2), "a third block, for the first time");
        chip.mounted();
        assert!(chip.unmarked().is_empty(), "a mount knows of marks alone");
    }

    /// Programs and copies of metadata, and no others; a host page that was singled out, and no other.
    #[test]
    fn metadata_fails_by_itself_and_one_host_page_is_lost_when_asked() {
        let mut chip = chip(FailurePlan { metadata_rate: 1.0, ..FailurePlan::default() });
        let put = |chip: &mut Failing<_>, ppn: u32| {
            chip.program(Ppn(ppn), Oob::data(Lpn(ppn), 0, 0), Payload::User(&()), Cause::Host).unwrap();
        };
        let tell = |chip: &mut Failing<Nand<NoData, Brief>>, ppn: u32| {
            chip.program(Ppn(ppn), Oob::translation(Tvpn(0), 0, 1), Payload::Meta(&[7]), Cause::Metadata)
        };
        put(&mut chip, 0);
        chip.copy(Ppn(0), Ppn(4), Cause::DataGc, |_, _| {}).unwrap();
        assert_eq!(tell(&mut chip, 8).unwrap_err().0, FaultKind::ProgramFailed);
        chip.plan.metadata_rate = 0.0;
        tell(&mut chip, 12).unwrap();
        chip.plan.metadata_rate = 1.0;
        let copied = chip.copy(Ppn(12), Ppn(16), Cause::TranslationGc, |_, _| {});
        assert_eq!(copied.unwrap_err().0, FaultKind::ProgramFailed);
        (20..23).for_each(|ppn| put(&mut chip, ppn));
        chip.lose_next();
        chip.copy(Ppn(0), Ppn(24), Cause::DataGc, |_, _| {}).unwrap();
        put(&mut chip, 23);
        (25..28).for_each(|ppn| put(&mut chip, ppn));
        chip.lose_next();
        (28..32).for_each(|ppn| put(&mut chip, ppn));
        let lost = |chip: &mut Failing<Nand<NoData, Brief>>, ppn| chip.read(Ppn(ppn), Cause::Host).is_err();
        let those: Vec<u32> = (20..32).filter(|&ppn| lost(&mut chip, ppn)).collect();
        assert_eq!(those, [23], "the next page of the host is the last of its block once");
    }

    #[test]
    fn a_block_endures_so_many_erases() {
        let mut chip = chip(FailurePlan { endurance: Some(3), ..FailurePlan::default() });
        for _ in 0..3 {
            chip.erase(Block(5), Cause::DataGc).unwrap();
        }
        assert_eq!(chip.erase(Block(5), Cause::DataGc).unwrap_err().0, FaultKind::EraseFailed);
        assert!(chip.erase(Block(6), Cause::DataGc).is_ok());
        assert_eq!(chip.grown_bad_count(), 1);
    }

    #[test]
    fn erases_before_endurance_counts_wear_nothing() {
        let mut chip = chip(FailurePlan::default());
        let erases = |chip: &mut Failing<_>| (0..9).take_while(|_| chip.erase(Block(5), Cause::DataGc).is_ok()).count();
        assert_eq!(erases(&mut chip), 9);
        chip.endure(Some(3));
        assert_eq!((erases(&mut chip), chip.grown_bad_count()), (3, 1));
    }

    #[test]
    fn a_failure_that_passes_leaves_a_block_that_works() {
        let plan = FailurePlan {
            program_schedule: vec![1],
            erase_schedule: vec![0],
            passing: 1.0,
            half_erased: true,
            ..FailurePlan::default()
        };
        let g = Geometry { blocks_per_die: 64, pages_per_block: 4, ..Geometry::default() }.checked().unwrap();
        let mut chip = Failing::new(Nand::<NoData, Full>::new(g), plan, 1);
        let put = |chip: &mut Failing<_>, ppn: u32| {
            chip.program(Ppn(ppn), Oob::data(Lpn(0), 0, 0), Payload::User(&()), Cause::Host)
        };
        put(&mut chip, 0).unwrap();
        assert_eq!(put(&mut chip, 1).unwrap_err().0, FaultKind::ProgramFailed);
        put(&mut chip, 2).unwrap();
        assert_eq!(chip.erase(Block(0), Cause::DataGc).unwrap_err().0, FaultKind::EraseFailed);
        chip.erase(Block(0), Cause::DataGc).unwrap();
        put(&mut chip, 0).unwrap();
        assert_eq!(chip.grown_bad_count(), 0);
    }

    #[test]
    fn a_page_that_cannot_be_read_is_so_until_its_block_is_erased() {
        let mut chip = chip(FailurePlan { unreadable_rate: 1.0, ..FailurePlan::default() });
        chip.program(Ppn(0), Oob::data(Lpn(3), 0, 0), Payload::User(&()), Cause::Host).unwrap();
        let uncorrectable = Some(FaultKind::Uncorrectable);
        assert_eq!(chip.read(Ppn(0), Cause::Host).err().map(|fault| fault.0), uncorrectable);
        // A copy takes along that it is lost, whatever becomes of the block that it was in.
        chip.plan.unreadable_rate = 0.0;
        let copied = chip.copy(Ppn(0), Ppn(4), Cause::DataGc, |_, _| {}).unwrap();
        assert_eq!((copied.kind, copied.address), (Kind::Data, 3));
        chip.erase(Block(0), Cause::DataGc).unwrap();
        assert_eq!(chip.read(Ppn(4), Cause::Host).err().map(|fault| fault.0), uncorrectable);
        assert_eq!(chip.read_oob(Ppn(4), Cause::Host).unwrap(), Some(copied));
        assert_eq!(chip.unreadable_count(), 1);
        chip.erase(Block(1), Cause::DataGc).unwrap();
        assert_eq!(chip.unreadable_count(), 0);
    }

    #[test]
    fn lost_pages_that_are_erased_are_remembered_until_the_next_mount() {
        let mut chip = chip(FailurePlan { unreadable_rate: 1.0, ..FailurePlan::default() });
        chip.program(Ppn(0), Oob::data(Lpn(3), 1, 1), Payload::User(&()), Cause::Host).unwrap();
        chip.plan.unreadable_rate = 0.0;
        chip.program(Ppn(1), Oob::data(Lpn(4), 2, 2), Payload::User(&()), Cause::Host).unwrap();
        assert_eq!((chip.unreadable_lpns(), chip.buried_lpns().len()), (vec![Lpn(3)], 0));
        chip.erase(Block(0), Cause::DataGc).unwrap();
        assert_eq!((chip.unreadable_lpns(), chip.buried_lpns()), (vec![], &BTreeSet::from([Lpn(3)])));
        chip.mounted();
        assert!(chip.buried_lpns().is_empty());
    }

    #[test]
    fn a_page_without_a_spare_area_is_garbage_to_mounts_and_cannot_be_copied() {
        let mut chip = chip(FailurePlan { spare_rate: 1.0, ..FailurePlan::default() });
        chip.program(Ppn(0), Oob::data(Lpn(3), 0, 0), Payload::User(&()), Cause::Host).unwrap();
        chip.program(Ppn(1), Oob::translation(Tvpn(0), 0, 1), Payload::Meta(&[]), Cause::Metadata).unwrap();
        chip.plan.spare_rate = 0.0;
        let uncorrectable = Some(FaultKind::Uncorrectable);
        let before = chip.changes();
        assert_eq!(chip.read(Ppn(0), Cause::Host).err().map(|fault| fault.0), uncorrectable);
        assert_eq!(chip.changes(), before, "the host has read, and nothing has stopped half way");
        assert_eq!(chip.read_oob(Ppn(0), Cause::Recovery).unwrap().map(|oob| oob.kind), Some(Kind::Torn));
        assert_eq!(chip.copy(Ppn(0), Ppn(4), Cause::DataGc, |_, _| {}).err().map(|fault| fault.0), uncorrectable);
        assert_eq!(chip.changes()[2], before[2] + 1);
        // The next page of the target is blank, and metadata is not lost so.
        chip.copy(Ppn(1), Ppn(4), Cause::DataGc, |_, _| {}).unwrap();
        assert_eq!((chip.unreadable_lpns(), chip.spares_lost()), (vec![Lpn(3)], 1));
        chip.erase(Block(0), Cause::DataGc).unwrap();
        assert_eq!(chip.unreadable_lpns(), []);
    }

    /// Reads of all kinds wear on a block from its first program on; half of what it endures is told, and all of it
    /// takes its pages.
    #[test]
    fn a_block_that_is_read_too_often_is_tired_and_then_spent() {
        let plan = FailurePlan { reads_endured: Some(8), ..FailurePlan::default() };
        let mut chip = chip(plan);
        let put = |chip: &mut Failing<_>, ppn: u32| {
            chip.program(Ppn(ppn), Oob::data(Lpn(ppn), 0, 0), Payload::User(&()), Cause::Host).unwrap();
        };
        (0..20).for_each(|_| _ = chip.read_oob(Ppn(4), Cause::Recovery).unwrap());
        put(&mut chip, 4);
        put(&mut chip, 8);
        for read in 0..4 {
            assert_eq!(chip.tired(Block(0)), None, "after {read} reads");
            assert!(chip.read(Ppn(4), Cause::Host).is_ok());
        }
        chip.copy(Ppn(4), Ppn(12), Cause::DataGc, |_, _| {}).unwrap();
        assert_eq!([0, 1, 2].map(|from| chip.tired(Block(from))), [Some(Block(1)), Some(Block(1)), None]);
        (0..3).for_each(|_| _ = chip.read_oob(Ppn(4), Cause::Recovery).unwrap());
        assert!(chip.read(Ppn(8), Cause::Host).is_ok() && chip.spent() == 0);
        let lost = |chip: &mut Failing<Nand<NoData, Brief>>, ppn| chip.read(Ppn(ppn), Cause::Host).is_err();
        assert!(lost(&mut chip, 4), "the ninth read is one too many");
        put(&mut chip, 5);
        assert!(lost(&mut chip, 5) && chip.spent() == 1, "and what is programmed there now is lost as well");
        chip.erase(Block(1), Cause::Refresh).unwrap();
        assert_eq!((chip.tired(Block(0)), chip.refreshed(), chip.unreadable_count()), (None, 1, 0));
        put(&mut chip, 4);
        assert!(chip.read(Ppn(4), Cause::Host).is_ok());
    }

    /// A block that is tired when the device has rested takes a page in vain, until it is erased; not one that tires
    /// later, and not where no other block is blank.
    #[test]
    fn pages_that_go_into_tired_blocks_are_counted() {
        let mut chip = chip(FailurePlan { reads_endured: Some(40), ..FailurePlan::default() });
        let put = |chip: &mut Failing<_>, ppn: u32| {
            chip.program(Ppn(ppn), Oob::data(Lpn(ppn), 0, 0), Payload::User(&()), Cause::Host).unwrap();
        };
        put(&mut chip, 0);
        chip.rested();
        (0..21).for_each(|_| _ = chip.read_oob(Ppn(0), Cause::Recovery).unwrap());
        put(&mut chip, 1);
        assert_eq!((chip.tired(Block(0)), chip.misplaced()), (Some(Block(0)), 0), "nobody has had time to know");
        chip.rested();
        put(&mut chip, 2);
        assert_eq!(chip.misplaced(), 1);
        (2..64).for_each(|block| put(&mut chip, 4 * block));
        put(&mut chip, 3);
        assert_eq!(chip.misplaced(), 1, "one block is blank, and may be all that is left");
        chip.erase(Block(0), Cause::Refresh).unwrap();
        put(&mut chip, 0);
        assert_eq!(chip.misplaced(), 1);
    }

    /// While the device rests, what is moved for refresh counts, and nothing else.
    #[test]
    fn pages_that_are_moved_into_tired_blocks_are_counted() {
        let mut chip = chip(FailurePlan { reads_endured: Some(40), ..FailurePlan::default() });
        let put = |chip: &mut Failing<_>, ppn: u32, cause: Cause| {
            chip.program(Ppn(ppn), Oob::data(Lpn(ppn), 0, 0), Payload::User(&()), cause).unwrap();
        };
        put(&mut chip, 0, Cause::Host);
        (0..20).for_each(|_| _ = chip.read_oob(Ppn(0), Cause::Recovery).unwrap());
        chip.rests();
        put(&mut chip, 1, Cause::Refresh);
        assert_eq!((chip.misplaced(), chip.is_nearly_spent()), (0, false), "not yet tired");
        (0..16).for_each(|_| _ = chip.read_oob(Ppn(0), Cause::Recovery).unwrap());
        assert!(chip.is_nearly_spent(), "36 reads of 40");
        chip.rests();
        put(&mut chip, 2, Cause::DataGc);
        assert_eq!(chip.misplaced(), 0);
        put(&mut chip, 3, Cause::Refresh);
        assert_eq!(chip.misplaced(), 1);
        assert_eq!(chip.blank_beside(Block(1)), chip.geometry().blocks_per_die as usize - 1);
    }

    /// The clock of the medium are its commands. Metadata age as data do.
    #[test]
    fn charge_stays_for_so_many_commands() {
        let mut chip = chip(FailurePlan { age_endured: Some(20), ..FailurePlan::default() });
        chip.program(Ppn(0), Oob::translation(Tvpn(0), 0, 1), Payload::Meta(&[]), Cause::Metadata).unwrap();
        (0..10).for_each(|_| _ = chip.read_oob(Ppn(40), Cause::Recovery).unwrap());
        assert_eq!(chip.tired(Block(0)), None);
        chip.program(Ppn(4), Oob::data(Lpn(3), 0, 0), Payload::User(&()), Cause::Host).unwrap();
        assert_eq!(chip.tired(Block(0)), Some(Block(0)));
        (0..9).for_each(|_| chip.erase(Block(9), Cause::DataGc).unwrap());
        assert!(chip.spent() == 0 && chip.read(Ppn(0), Cause::TranslationLoad).is_err(), "the 21st command behind it");
        assert!(chip.read(Ppn(4), Cause::Host).is_ok());
        assert_eq!((chip.tired(Block(1)), chip.spent()), (Some(Block(1)), 1));
    }

    #[test]
    fn factory_marks_read_as_bad() {
        let mut chip =
            chip(FailurePlan { factory_bad: vec![Block(3)], factory_bad_rate: 0.1, ..FailurePlan::default() });
        let bad: Vec<u32> = (0..64)
            .filter(|block| {
                chip.read_oob(Ppn(block * 4), Cause::Recovery).unwrap().is_some_and(|oob| oob.kind == Kind::Bad)
            })
            .collect();
        assert!(bad.contains(&3) && bad.len() > 2 && bad.len() < 20, "{bad:?}");
    }
}

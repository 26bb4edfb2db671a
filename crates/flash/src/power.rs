//! A medium whose power fails at a chosen command.
//!
//! Commands that change the flash (program, partial program, copy, erase) are numbered from 0. [`PowerCut`] either
//! counts them, or fails at one of them in one of its faces (docs/fault-model.md): before it, inside it in every way
//! that a torn command can look, or after it but before the scheme is told. From then on every call answers power lost,
//! and the medium inside is what a mount finds. What a cut command left may also be *unstable*
//! ([`PowerCut::leave_unstable`]): then it reads otherwise each time, until its block is erased. Where cells are shared
//! ([`Geometry::pairs`]) a torn page may take pages of its word line along: of each the data, or the spare area too.

use crate::{
    AppendFace, Block, Cause, Chain, Damage, EraseFace, Fault, FaultKind, Flash, Fragile, Geometry, Kind, Mode, Oob,
    Op, Pairing, Pairs, Payload, Ppn, ProgramFace, Rng,
};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

/// Where power fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub struct CutPoint {
    /// Which changing command, from 0.
    pub command: u64,
    /// Which of its faces: the remainder of the division by [`CutPoint::faces`].
    pub face: u8,
}

impl CutPoint {
    /// How many faces a cut at a command of this kind has: four for a program ([`ProgramFace`]); four for a partial
    /// program (nothing, the two of [`AppendFace`], whole); six for an erase (not begun, the four of [`EraseFace`],
    /// whole).
    pub const fn faces(op: Op) -> u8 {
        match op {
            Op::Program | Op::PartialProgram => 4,
            Op::Erase => 6,
            Op::Read | Op::OobRead => 0,
        }
    }
}

/// A changing command that was met, for counting cuts by phase.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CutReport {
    /// What the command was for.
    pub cause: Cause,
    /// Its kind; a copy counts as a program.
    pub op: Op,
}

/// What cut commands left between two states.
#[derive(Clone, Debug, Default)]
pub struct Unstable {
    /// Pages whose program was cut short: the data never reads, the spare area now and then.
    pages: BTreeSet<Ppn>,
    /// Blocks whose erase was cut short: each page is old, garbage or blank.
    blocks: BTreeSet<Block>,
}

impl Unstable {
    /// These cells and others.
    pub fn add(&mut self, others: &Unstable) {
        self.pages.extend(&others.pages);
        self.blocks.extend(&others.blocks);
    }

    fn is_empty(&self) -> bool {
        self.pages.is_empty() && self.blocks.is_empty()
    }
}

/// How a page shows itself.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    AsIs,
    Torn,
    Blank,
}

/// A page that reads as garbage.
const TORN: Oob = Oob { kind: Kind::Torn, mode: Mode::Normal, address: 0, version: 0, program: 0, mark: 0 };

/// The decorator. See the module's description.
#[derive(Clone, Debug)]
pub struct PowerCut<F> {
    inner: F,
    armed: Option<CutPoint>,
    rng: Rng,
    count: u64,
    /// What was met, if somebody wants to know.
    seen: Option<Vec<CutReport>>,
    limit: u64,
    lost: bool,
    /// Whether what the next cut leaves is unstable.
    leaves_unstable: bool,
    unstable: Unstable,
    /// The page that was read last, if it did not show what the chip holds.
    hidden: Option<Ppn>,
    /// What unstable cells show: a stream of its own, so that a later cut leaves what was shown before it as it was.
    looks: Rng,
    /// Pages that torn ones took along.
    taken: u64,
}

impl<F: Fragile> PowerCut<F>
where
    Fault: From<F::Fault>,
{
    /// Power holds; commands are counted.
    pub fn counting(inner: F) -> Self {
        let seen = Some(Vec::new());
        PowerCut {
            inner,
            armed: None,
            rng: Rng::new(0),
            count: 0,
            seen,
            limit: u64::MAX,
            lost: false,
            leaves_unstable: false,
            unstable: Unstable::default(),
            hidden: None,
            looks: Rng::new(0),
            taken: 0,
        }
    }

    /// Commands are counted but not remembered: for a device that is used for long. [`PowerCut::seen`] stays empty.
    pub fn without_log(mut self) -> Self {
        self.seen = None;
        self
    }

    /// Power fails at `point`; `seed` chooses the garbage.
    pub fn armed(inner: F, point: CutPoint, seed: u64) -> Self {
        let mut cut = PowerCut::counting(inner);
        cut.arm(point, seed);
        cut
    }

    /// Power will fail at `point`, counted from now; `seed` chooses the garbage.
    pub fn arm(&mut self, point: CutPoint, seed: u64) {
        self.restart();
        self.armed = Some(point);
        self.rng = Rng::new(seed).fork("garbage");
    }

    /// Power is back, and holds; commands are counted from 0.
    pub fn restart(&mut self) {
        self.armed = None;
        self.lost = false;
        self.count = 0;
        if let Some(seen) = &mut self.seen {
            seen.clear();
        }
    }

    /// Whether what later cuts leave is unstable. A page that [`ProgramFace::Garbage`] or [`ProgramFace::BadData`]
    /// tells of never has sound data; its spare area reads or not, each time anew. In a block that an [`EraseFace`]
    /// tells of, each page that held something is as it was, garbage or blank, each time anew. The spare area of a
    /// page is drawn when it is read, and again when the page is read whole.
    pub fn leave_unstable(&mut self, unstable: bool) {
        self.leaves_unstable = unstable;
    }

    /// Pages and blocks that read otherwise each time.
    pub fn unstable(&self) -> usize {
        self.unstable.pages.len() + self.unstable.blocks.len()
    }

    /// The same pages and blocks.
    pub fn unstable_cells(&self) -> &Unstable {
        &self.unstable
    }

    /// What a cut beneath has left unstable is so from now on; `rng` chooses what it shows.
    pub fn take_over(&mut self, unstable: Unstable, rng: &Rng) {
        if !unstable.is_empty() {
            self.unstable.add(&unstable);
            self.looks = rng.fork("looks");
        }
    }

    /// How a page shows itself this time.
    #[inline(always)]
    fn look(&mut self, ppn: Ppn) -> Look {
        if self.unstable.is_empty() {
            return Look::AsIs;
        }
        self.look_anew(ppn)
    }

    #[inline(never)]
    fn look_anew(&mut self, ppn: Ppn) -> Look {
        let block = self.inner.geometry().block_of(ppn);
        let draws = if self.unstable.blocks.contains(&block) {
            3
        } else if self.unstable.pages.contains(&ppn) {
            2
        } else {
            1
        };
        let look = [Look::AsIs, Look::Torn, Look::Blank][self.looks.below(draws) as usize];
        self.hidden = (look != Look::AsIs).then_some(ppn);
        look
    }

    /// A block that was erased, or marked as bad, is stable.
    fn settle(&mut self, block: Block) {
        if !self.unstable.is_empty() {
            let g = *self.inner.geometry();
            self.unstable.blocks.remove(&block);
            self.unstable.pages.retain(|&ppn| g.block_of(ppn) != block);
            self.hidden = self.hidden.filter(|&ppn| g.block_of(ppn) != block);
        }
    }

    /// More than `limit` changing commands without a restart are a bug of the scheme, which makes no progress: panics.
    pub fn set_limit(&mut self, limit: u64) {
        self.limit = limit;
    }

    /// The changing commands so far, the one that was cut included.
    pub fn seen(&self) -> &[CutReport] {
        self.seen.as_deref().unwrap_or_default()
    }

    /// Whether the power has failed.
    pub fn lost(&self) -> bool {
        self.lost
    }

    /// The medium as a mount finds it.
    pub fn into_inner(self) -> F {
        self.inner
    }

    /// The medium, to look at.
    pub fn inner(&self) -> &F {
        &self.inner
    }

    /// The medium, to harm it.
    pub fn inner_mut(&mut self) -> &mut F {
        &mut self.inner
    }

    const LOST: Fault = Fault(FaultKind::PowerLost);

    fn powered(&self) -> Result<(), Fault> {
        if self.lost { Err(Self::LOST) } else { Ok(()) }
    }

    /// Counts a changing command; the face to fail in, if it is the one.
    fn meet(&mut self, cause: Cause, op: Op) -> Option<u8> {
        let command = self.count;
        assert!(command < self.limit, "{command} programs and erases without getting anywhere");
        self.count += 1;
        if let Some(seen) = &mut self.seen {
            seen.push(CutReport { cause, op });
        }
        let face = self.armed.filter(|point| point.command == command)?.face;
        self.lost = true;
        Some(face % CutPoint::faces(op).max(1))
    }

    /// Pages that torn ones took along.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Page `ppn` is torn: each other page of its word line survives, loses its data, or its spare area with it.
    fn take_partners(&mut self, ppn: Ppn) -> Result<(), Fault> {
        let g = *self.inner.geometry();
        let (block, offset) = (g.block_of(ppn), g.offset_of(ppn));
        if g.pairs == Pairing::Off || self.inner.is_slc(block) {
            return Ok(());
        }
        for partner in Pairs::new(&g).partners(offset).map(|offset| g.page(block, offset)) {
            if self.inner.read_oob(partner, Cause::Recovery)?.is_none_or(|oob| oob.kind == Kind::Torn) {
                continue;
            }
            match self.rng.below(3) {
                0 => continue,
                1 => self.inner.chip().spoil(partner),
                _ => self.inner.chip().wreck(partner),
            }
            self.taken += 1;
        }
        Ok(())
    }

    /// Leaves page `ppn` as `face` says; `run` programs it.
    fn tear(&mut self, ppn: Ppn, face: u8, run: impl FnOnce(&mut F) -> Result<(), F::Fault>) -> Result<(), Fault> {
        let face = ProgramFace::ALL[usize::from(face)];
        match face {
            ProgramFace::Blank => self.inner.stage_spare(ppn, &[]),
            ProgramFace::Garbage | ProgramFace::BadData if self.leaves_unstable => {
                run(&mut self.inner)?;
                self.inner.chip().spoil(ppn);
                self.unstable.pages.insert(ppn);
                self.looks = self.rng.fork("looks");
            }
            ProgramFace::Garbage => self.inner.chip().ruin(ppn),
            ProgramFace::BadData => {
                run(&mut self.inner)?;
                self.inner.chip().spoil(ppn);
            }
            ProgramFace::Good => run(&mut self.inner)?,
        }
        // Last, for a copy may read one of them.
        if matches!(face, ProgramFace::Garbage | ProgramFace::BadData) {
            self.take_partners(ppn)?;
        }
        Err(Self::LOST)
    }
}

impl<F: Fragile> Flash for PowerCut<F>
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
        self.powered()?;
        let look = self.look(ppn);
        // The chip's rules for reads hold all the same.
        let found = self.inner.read(ppn, cause)?;
        Ok(if look == Look::AsIs { found } else { (TORN, Payload::None) })
    }

    #[inline(always)]
    fn read_oob(&mut self, ppn: Ppn, cause: Cause) -> Result<Option<Oob>, Fault> {
        self.powered()?;
        let look = self.look(ppn);
        let found = self.inner.read_oob(ppn, cause)?;
        Ok(match look {
            Look::AsIs => found,
            Look::Torn => found.map(|_| TORN),
            Look::Blank => None,
        })
    }

    fn program(&mut self, ppn: Ppn, oob: Oob, data: Payload<'_, F::User>, cause: Cause) -> Result<(), Fault> {
        self.powered()?;
        if oob.kind == Kind::Bad {
            self.settle(self.inner.geometry().block_of(ppn));
        }
        match self.meet(cause, Op::Program) {
            None => Ok(self.inner.program(ppn, oob, data, cause)?),
            // A bad-block mark is one bit: it is there or not.
            Some(face) if oob.kind == Kind::Bad => {
                if face % 2 == 1 {
                    self.inner.program(ppn, oob, data, cause)?;
                }
                Err(Self::LOST)
            }
            // What did not stick is programmed once more, with bits that no code corrects: it is no better for half of
            // them.
            Some(face) if oob.kind == Kind::Torn && self.inner.read_oob(ppn, Cause::Recovery)?.is_some() => {
                if face % 2 == 1 {
                    self.inner.program(ppn, oob, data, cause)?;
                }
                Err(Self::LOST)
            }
            Some(face) => self.tear(ppn, face, |inner| inner.program(ppn, oob, data, cause)),
        }
    }

    fn append(&mut self, ppn: Ppn, at: u32, bytes: &[u8], mark: u16, cause: Cause) -> Result<(), Fault> {
        self.powered()?;
        match self.meet(cause, Op::PartialProgram) {
            None => Ok(self.inner.append(ppn, at, bytes, mark, cause)?),
            Some(0) => Err(Self::LOST),
            Some(face @ 1..=2) => {
                let face = AppendFace::ALL[usize::from(face) - 1];
                self.inner.chip().tear_append(ppn, at, bytes, mark, face, &mut self.rng);
                Err(Self::LOST)
            }
            Some(_) => {
                self.inner.append(ppn, at, bytes, mark, cause)?;
                Err(Self::LOST)
            }
        }
    }

    fn copy(
        &mut self,
        from: Ppn,
        to: Ppn,
        cause: Cause,
        edit: impl FnOnce(&mut Oob, &mut [u32]),
    ) -> Result<Oob, Fault> {
        self.powered()?;
        if self.look(from) != Look::AsIs {
            return Err(Fault(FaultKind::Uncorrectable));
        }
        match self.meet(cause, Op::Program) {
            None => Ok(self.inner.copy(from, to, cause, edit)?),
            Some(face) => {
                self.tear(to, face, |inner| inner.copy(from, to, cause, edit).map(|_| ()))?;
                Err(Self::LOST)
            }
        }
    }

    fn erase(&mut self, block: Block, cause: Cause) -> Result<(), Fault> {
        self.powered()?;
        match self.meet(cause, Op::Erase) {
            None => {
                self.inner.erase(block, cause)?;
                self.settle(block);
                Ok(())
            }
            Some(0) => Err(Self::LOST),
            Some(1..=4) if self.leaves_unstable => {
                self.inner.chip().half_erase(block, EraseFace::Intact, &mut self.rng);
                self.unstable.blocks.insert(block);
                self.looks = self.rng.fork("looks");
                Err(Self::LOST)
            }
            Some(face @ 1..=4) => {
                self.settle(block);
                self.inner.chip().half_erase(block, EraseFace::ALL[usize::from(face) - 1], &mut self.rng);
                Err(Self::LOST)
            }
            Some(_) => {
                self.inner.erase(block, cause)?;
                self.settle(block);
                Err(Self::LOST)
            }
        }
    }

    fn chain(&mut self, next: Chain) -> Chain {
        self.inner.chain(next)
    }

    fn is_slc(&mut self, block: Block) -> bool {
        self.inner.is_slc(block)
    }

    #[inline(always)]
    fn tired(&self, from: Block) -> Option<Block> {
        self.inner.tired(from)
    }

    fn mode_of(&mut self, ppn: Ppn) -> Mode {
        self.inner.mode_of(ppn)
    }

    fn reserve_spare(&mut self, bytes: u32) -> bool {
        self.inner.reserve_spare(bytes)
    }

    fn stage_spare(&mut self, ppn: Ppn, bytes: &[u8]) {
        if !self.lost {
            self.inner.stage_spare(ppn, bytes);
        }
    }

    fn spare(&self, ppn: Ppn) -> &[u8] {
        if self.hidden == Some(ppn) { &[] } else { self.inner.spare(ppn) }
    }
}

impl<F: Fragile> Fragile for PowerCut<F>
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
    use crate::{Failing, FailurePlan, Full, Kind, Lpn, Nand, Tags, Tvpn};
    use alloc::vec;

    fn cut(face: u8) -> Nand<Tags, Full> {
        let g = Geometry { blocks_per_die: 4, pages_per_block: 4, ..Geometry::default() }.checked().unwrap();
        let mut p = PowerCut::armed(Nand::<Tags, Full>::new(g), CutPoint { command: 1, face }, 1);
        for i in 0..2u32 {
            let result = p.program(Ppn(i), Oob::data(Lpn(i), 1, 1), Payload::User(&7), Cause::Host);
            assert_eq!(result.is_err(), i == 1);
        }
        assert_eq!(p.read(Ppn(0), Cause::Host).unwrap_err().0, FaultKind::PowerLost);
        assert_eq!(p.seen().len(), 2);
        p.into_inner()
    }

    #[test]
    fn a_torn_program_has_four_faces() {
        let faces: Vec<_> = (0..CutPoint::faces(Op::Program))
            .map(|face| {
                let mut chip = cut(face);
                let Ok(oob) = chip.read_oob(Ppn(1), Cause::Recovery);
                oob.map(|oob| {
                    let Ok((whole, _)) = chip.read(Ppn(1), Cause::Recovery);
                    (oob.kind, whole.kind)
                })
            })
            .collect();
        let expected =
            [None, Some((Kind::Torn, Kind::Torn)), Some((Kind::Data, Kind::Torn)), Some((Kind::Data, Kind::Data))];
        assert_eq!(faces, expected);
    }

    #[test]
    fn a_page_that_did_not_stick_and_is_programmed_over_holds_what_it_held_or_garbage() {
        let mut sound = 0;
        for (face, seed) in (0..4).flat_map(|face| (0..8).map(move |seed| (face, seed))) {
            let g = Geometry { blocks_per_die: 4, pages_per_block: 4, ..Geometry::default() }.checked().unwrap();
            let plan = FailurePlan { silent_rate: 1.0, ..FailurePlan::default() };
            let medium = Failing::new(Nand::<Tags, Full>::new(g), plan, seed);
            let mut p = PowerCut::armed(medium, CutPoint { command: 1, face }, seed);
            let oob = Oob::data(Lpn(3), 1, 1);
            p.program(Ppn(0), oob, Payload::User(&7), Cause::Host).unwrap();
            let held = p.read_oob(Ppn(0), Cause::Recovery).unwrap().unwrap();
            sound += u32::from(held.kind == Kind::Data);
            p.program(Ppn(0), Oob { kind: Kind::Torn, ..oob }, Payload::None, Cause::Host).unwrap_err();
            p.restart();
            let found = p.read_oob(Ppn(0), Cause::Recovery).unwrap().unwrap();
            assert_eq!(found.kind, if face % 2 == 0 { held.kind } else { Kind::Torn }, "face {face}, seed {seed}");
        }
        assert!((8..24).contains(&sound), "of 32 pages the spare area of {sound} read before");
    }

    #[test]
    fn an_unstable_page_never_has_sound_data_and_its_spare_area_now_and_then() {
        for face in 0..4 {
            let g = Geometry { blocks_per_die: 4, pages_per_block: 4, ..Geometry::default() }.checked().unwrap();
            let mut p = PowerCut::armed(Nand::<Tags, Full>::new(g), CutPoint { command: 1, face }, 1);
            p.leave_unstable(true);
            for i in 0..2u32 {
                let _ = p.program(Ppn(i), Oob::data(Lpn(i), 1, 1), Payload::User(&7), Cause::Host);
            }
            p.restart();
            let kinds: Vec<_> =
                (0..40).map(|_| p.read_oob(Ppn(1), Cause::Recovery).unwrap().map(|oob| oob.kind)).collect();
            let seen = |kind| kinds.contains(&kind);
            let expected = match face {
                0 => [true, false, false],
                1 | 2 => [false, true, true],
                _ => [false, false, true],
            };
            assert_eq!([seen(None), seen(Some(Kind::Torn)), seen(Some(Kind::Data))], expected, "face {face}");
            if face != 0 {
                let whole = (0..40).all(|_| p.read(Ppn(1), Cause::Recovery).unwrap().0.kind == Kind::Data);
                assert_eq!(whole, face == 3);
            }
            assert_eq!(p.read(Ppn(0), Cause::Host).unwrap().0.kind, Kind::Data, "the other page is not touched");
            assert_eq!(p.unstable(), usize::from(face == 1 || face == 2));
            p.erase(Block(0), Cause::DataGc).unwrap();
            assert_eq!((p.unstable(), p.read_oob(Ppn(1), Cause::Recovery).unwrap()), (0, None));
        }
    }

    #[test]
    fn what_is_programmed_over_an_unstable_page_shows_its_own_bytes() {
        let g = Geometry { blocks_per_die: 4, pages_per_block: 4, ..Geometry::default() }.checked().unwrap();
        for seed in 0..20 {
            let mut p = PowerCut::armed(Nand::<Tags, Full>::new(g), CutPoint { command: 0, face: 1 }, seed);
            assert!(p.reserve_spare(2));
            p.leave_unstable(true);
            p.program(Ppn(0), Oob::data(Lpn(0), 1, 1), Payload::User(&7), Cause::Host).unwrap_err();
            p.restart();
            let _ = p.read_oob(Ppn(0), Cause::Recovery);
            p.erase(Block(0), Cause::DataGc).unwrap();
            p.stage_spare(Ppn(0), &[3, 4]);
            p.program(Ppn(0), Oob::data(Lpn(0), 2, 2), Payload::User(&7), Cause::Host).unwrap();
            assert_eq!((p.spare(Ppn(0)), p.unstable()), (&[3, 4][..], 0), "seed {seed}");
        }
    }

    #[test]
    fn pages_of_an_unstable_block_are_old_garbage_or_blank_each_time() {
        let g = Geometry { blocks_per_die: 4, pages_per_block: 4, ..Geometry::default() }.checked().unwrap();
        let mut p = PowerCut::armed(Nand::<Tags, Full>::new(g), CutPoint { command: 2, face: 4 }, 1);
        p.leave_unstable(true);
        for i in 0..2u32 {
            p.program(Ppn(i), Oob::data(Lpn(i), 1, 1), Payload::User(&7), Cause::Host).unwrap();
        }
        p.erase(Block(0), Cause::DataGc).unwrap_err();
        p.restart();
        for page in 0..2 {
            let looks: Vec<_> =
                (0..60).map(|_| p.read_oob(Ppn(page), Cause::Recovery).unwrap().map(|oob| oob.kind)).collect();
            assert!([None, Some(Kind::Torn), Some(Kind::Data)].iter().all(|look| looks.contains(look)), "{looks:?}");
        }
        p.erase(Block(0), Cause::DataGc).unwrap();
        assert_eq!(p.read_oob(Ppn(0), Cause::Recovery).unwrap(), None);
    }

    #[test]
    fn without_a_log_it_cuts_where_it_would_with_one() {
        let g = Geometry { blocks_per_die: 4, pages_per_block: 4, ..Geometry::default() }.checked().unwrap();
        let mut p = PowerCut::armed(Nand::<Tags, Full>::new(g), CutPoint { command: 2, face: 3 }, 1).without_log();
        let mut put = |i| p.program(Ppn(i), Oob::data(Lpn(i), 1, 1), Payload::User(&7), Cause::Host).is_ok();
        assert_eq!([put(0), put(1), put(2), put(3)], [true, true, false, false]);
        assert!(p.lost() && p.seen().is_empty());
        p.restart();
        assert!(!p.lost() && p.read_oob(Ppn(2), Cause::Recovery).unwrap().is_some());
    }

    #[test]
    fn power_can_be_cut_on_a_failing_medium() {
        let g = Geometry { blocks_per_die: 4, pages_per_block: 4, ..Geometry::default() }.checked().unwrap();
        let plan = FailurePlan { factory_bad: vec![Block(3)], program_schedule: vec![0], ..FailurePlan::default() };
        let failing = Failing::new(Nand::<Tags, Full>::new(g), plan, 1);
        let mut p = PowerCut::armed(failing, CutPoint { command: 1, face: 1 }, 1);
        let mut put = |ppn| p.program(Ppn(ppn), Oob::data(Lpn(0), 1, 1), Payload::User(&7), Cause::Host);
        assert_eq!(put(0).unwrap_err().0, FaultKind::ProgramFailed);
        assert_eq!(put(4).unwrap_err().0, FaultKind::PowerLost);
        // Both left their page torn in the one chip under them, beside the factory's mark.
        let mut chip = p.into_inner().into_inner();
        let mut kind = |ppn| chip.read_oob(Ppn(ppn), Cause::Recovery).unwrap().map(|oob| oob.kind);
        assert_eq!([kind(0), kind(4), kind(12)], [Some(Kind::Torn), Some(Kind::Torn), Some(Kind::Bad)]);
    }

    #[test]
    fn a_torn_partial_program_has_two_faces_beside_before_and_after() {
        let seen = |face, seed| {
            let g = Geometry { blocks_per_die: 1, pages_per_block: 4, nop: 2, ..Geometry::default() };
            let mut chip = Nand::<Tags, Full>::new(g.checked().unwrap());
            let Ok(()) = chip.program(Ppn(0), Oob::translation(Tvpn(0), 1, 1), Payload::Meta(&[7]), Cause::Metadata);
            let mut p = PowerCut::armed(chip, CutPoint { command: 0, face }, seed);
            let cut = p.append(Ppn(0), 4, &[0, 0, 0, 0], 9, Cause::TranslationUpdate);
            assert_eq!(cut.unwrap_err().0, FaultKind::PowerLost);
            let Ok((oob, page)) = p.inner_mut().read(Ppn(0), Cause::Recovery);
            let words = page.meta();
            assert_eq!((words[0], words[2]), (7, u32::MAX));
            (words[1], oob.mark)
        };
        assert_eq!(CutPoint::faces(Op::PartialProgram), 4);
        assert_eq!((seen(0, 1), seen(3, 1)), ((u32::MAX, 0), (0, 9)));
        let garbage: Vec<_> = (0..50).map(|seed| seen(1, seed)).collect();
        assert!(garbage.iter().all(|&(word, mark)| word != 0 && word != u32::MAX && mark & 9 == 9));
        // Also right to the last byte, with or without its mark.
        let partly: Vec<_> = (0..50).map(|seed| seen(2, seed)).collect();
        assert!(partly.contains(&(0, 0)) && partly.contains(&(0, 9)), "{partly:x?}");
        assert!(partly.iter().any(|&(word, _)| word & 0xffff == 0 && word >> 24 == 0xff), "{partly:x?}");
    }

    #[test]
    fn a_half_erase_has_four_faces_beside_before_and_after() {
        let kinds = |face| {
            let g = Geometry { blocks_per_die: 1, pages_per_block: 64, ..Geometry::default() }.checked().unwrap();
            let mut chip = Nand::<Tags, Full>::new(g);
            for i in 0..64 {
                let Ok(()) = chip.program(Ppn(i), Oob::data(Lpn(i), 1, 1), Payload::User(&7), Cause::Host);
            }
            let mut p = PowerCut::armed(chip, CutPoint { command: 0, face }, 9);
            assert!(p.erase(Block(0), Cause::DataGc).is_err());
            let mut chip = p.into_inner();
            let mut counts = [0; 3];
            for i in 0..64 {
                let Ok(oob) = chip.read_oob(Ppn(i), Cause::Recovery);
                counts[oob.map_or(0, |oob| if oob.kind == Kind::Torn { 1 } else { 2 })] += 1;
            }
            counts
        };
        assert_eq!(kinds(0), [0, 0, 64]);
        assert_eq!(kinds(1), [0, 0, 64]);
        assert!(kinds(2).iter().all(|&n| n > 5), "{:?}", kinds(2));
        assert_eq!(kinds(3), [0, 64, 0]);
        assert_eq!(kinds(4), [64, 0, 0]);
        assert_eq!(kinds(5), [64, 0, 0]);
    }

    #[test]
    fn a_cut_program_leaves_its_staged_bytes_with_its_spare_area() {
        let staged = |face| {
            let g = Geometry { blocks_per_die: 1, pages_per_block: 4, ..Geometry::default() }.checked().unwrap();
            let mut p = PowerCut::armed(Nand::<Tags, Full>::new(g), CutPoint { command: 0, face }, 1);
            assert!(p.reserve_spare(2));
            p.stage_spare(Ppn(0), &[5, 6]);
            assert!(p.program(Ppn(0), Oob::data(Lpn(0), 1, 1), Payload::User(&7), Cause::Host).is_err());
            // What is staged without power is lost.
            p.stage_spare(Ppn(1), &[7, 8]);
            let mut chip = p.into_inner();
            if face == 0 {
                let Ok(()) = chip.program(Ppn(0), Oob::data(Lpn(0), 1, 1), Payload::User(&7), Cause::Host);
            }
            let Ok(_) = chip.read_oob(Ppn(0), Cause::Recovery);
            chip.spare(Ppn(0)).to_vec()
        };
        assert_eq!([0, 1, 2, 3].map(staged), [vec![0, 0], vec![], vec![5, 6], vec![5, 6]]);
    }
}

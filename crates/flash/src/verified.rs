//! A medium that reads back what it has programmed.
//!
//! A chip says whether a program failed. Should it say that all is well and the page not hold what it was given, nobody
//! notices before the page is read, and then the data are gone. [`Verified`] stands between a scheme and its chip and
//! reads each page once, directly after its program, while the scheme still has the data: a page that did not stick is
//! a program that failed ([`FaultKind::ProgramFailed`]), and every scheme knows what to do then.
//!
//! What tells a sound page is the chip's code: a page that reads, and says of itself what it was told, holds what it
//! was given. A partial program adds to a page that reads in any case, so its bytes and its mark are compared. The copy
//! of a page that cannot be read is *lost*, and reads no better than its source ([`Flash::copy`]): then the source is
//! asked too.
//!
//! A page whose program failed is torn: a scheme may write its data elsewhere, or refuse them, and must not find
//! them again at a mount. But what did not stick may have a sound spare area. So the page is *scrubbed*: programmed
//! once more, with bits that no code corrects.
//!
//! A read for each program, partial program and copy, of the same cause: that is all it costs, and it waits for the
//! program. A bad-block mark is not read back, nor are bits that no code corrects ([`Kind::Torn`]).

use crate::medium::copy_each;
use crate::{Block, Cause, Chain, Fault, FaultKind, Flash, FlashFault, Geometry, Kind, Mode, Oob, Payload, Ppn};
use core::ops::{Deref, DerefMut};

const FAILED: Fault = Fault(FaultKind::ProgramFailed);

/// The decorator. See the module's description. It dereferences to the medium inside, to be looked at or harmed; a
/// scheme must not go by it.
#[derive(Clone, Debug)]
pub struct Verified<F> {
    inner: F,
    verifies: bool,
    caught: u64,
}

impl<F> Deref for Verified<F> {
    type Target = F;
    fn deref(&self) -> &F {
        &self.inner
    }
}

impl<F> DerefMut for Verified<F> {
    fn deref_mut(&mut self) -> &mut F {
        &mut self.inner
    }
}

impl<F: Flash> Verified<F>
where
    Fault: From<F::Fault>,
{
    /// Around a medium, of which every program is read back.
    pub fn new(inner: F) -> Self {
        Verified { inner, verifies: true, caught: 0 }
    }

    /// Around a medium, with everything handed on: where the same type is to serve without reading back.
    pub fn trusting(inner: F) -> Self {
        Verified { inner, verifies: false, caught: 0 }
    }

    /// Takes the medium out.
    pub fn into_inner(self) -> F {
        self.inner
    }

    /// Programs that did not stick.
    pub fn caught(&self) -> u64 {
        self.caught
    }

    /// Whether a page reads, and as what it was programmed as.
    fn holds(&mut self, ppn: Ppn, oob: Oob, cause: Cause) -> Result<bool, Fault> {
        self.is(ppn, cause, |found, _| (found.kind, found.address) == (oob.kind, oob.address))
    }

    /// Whether a page reads, and as something of which `what` is true.
    fn is(
        &mut self,
        ppn: Ppn,
        cause: Cause,
        what: impl FnOnce(&Oob, Payload<'_, F::User>) -> bool,
    ) -> Result<bool, Fault> {
        match self.inner.read(ppn, cause) {
            Ok((oob, _)) if oob.kind == Kind::Torn => Ok(false),
            Ok((oob, payload)) => Ok(what(&oob, payload)),
            Err(fault) if fault.kind() == FaultKind::Uncorrectable => Ok(false),
            Err(fault) => Err(fault.into()),
        }
    }

    /// A page was programmed, and read back.
    fn end(&mut self, ppn: Ppn, oob: Oob, is_sound: bool, cause: Cause) -> Result<(), Fault> {
        if is_sound {
            return Ok(());
        }
        self.caught += 1;
        match self.inner.program(ppn, Oob { kind: Kind::Torn, ..oob }, Payload::None, cause) {
            Err(fault) if fault.kind() != FaultKind::ProgramFailed => Err(fault.into()),
            _ => Err(FAILED),
        }
    }
}

impl<F: Flash> Flash for Verified<F>
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
        Ok(self.inner.read(ppn, cause)?)
    }

    #[inline(always)]
    fn read_oob(&mut self, ppn: Ppn, cause: Cause) -> Result<Option<Oob>, Fault> {
        Ok(self.inner.read_oob(ppn, cause)?)
    }

    #[inline(always)]
    fn program(&mut self, ppn: Ppn, oob: Oob, data: Payload<'_, F::User>, cause: Cause) -> Result<(), Fault> {
        self.inner.program(ppn, oob, data, cause)?;
        if !self.verifies || matches!(oob.kind, Kind::Bad | Kind::Torn) {
            return Ok(());
        }
        let is_sound = self.holds(ppn, oob, cause)?;
        self.end(ppn, oob, is_sound, cause)
    }

    fn append(&mut self, ppn: Ppn, at: u32, bytes: &[u8], mark: u16, cause: Cause) -> Result<(), Fault> {
        self.inner.append(ppn, at, bytes, mark, cause)?;
        if !self.verifies {
            return Ok(());
        }
        let is_sound = self.is(ppn, cause, |oob, payload| {
            let words = payload.meta();
            // Words that are missing are blank.
            let byte = |at: usize| words.get(at / 4).map_or(u8::MAX, |word| word.to_le_bytes()[at % 4]);
            oob.mark == mark && (at as usize..).zip(bytes).all(|(at, &to)| byte(at) == to)
        })?;
        // What was there before is whole.
        self.caught += u64::from(!is_sound);
        if is_sound { Ok(()) } else { Err(FAILED) }
    }

    #[inline(always)]
    fn copy(
        &mut self,
        from: Ppn,
        to: Ppn,
        cause: Cause,
        edit: impl FnOnce(&mut Oob, &mut [u32]),
    ) -> Result<Oob, Fault> {
        let oob = self.inner.copy(from, to, cause, edit)?;
        if self.verifies {
            let is_sound = self.holds(to, oob, cause)? || !self.is(from, cause, |_, _| true)?;
            self.end(to, oob, is_sound, cause)?;
        }
        Ok(oob)
    }

    fn copy_run(
        &mut self,
        from: Ppn,
        live: u64,
        to: Ppn,
        program: u64,
        cause: Cause,
        moved: impl FnMut(u32, Ppn),
    ) -> (u32, Result<(), Fault>) {
        if self.verifies {
            return copy_each(self, (from, live), (to, program), cause, |_| {}, moved);
        }
        let (copied, result) = self.inner.copy_run(from, live, to, program, cause, moved);
        (copied, result.map_err(Fault::from))
    }

    #[inline(always)]
    fn hint(&self, ppn: Ppn, word: usize) {
        self.inner.hint(ppn, word);
    }

    #[inline(always)]
    fn is_slc(&mut self, block: Block) -> bool {
        self.inner.is_slc(block)
    }

    #[inline(always)]
    fn tired(&self, from: Block) -> Option<Block> {
        self.inner.tired(from)
    }

    #[inline(always)]
    fn mode_of(&mut self, ppn: Ppn) -> Mode {
        self.inner.mode_of(ppn)
    }

    #[inline(always)]
    fn erase(&mut self, block: Block, cause: Cause) -> Result<(), Fault> {
        Ok(self.inner.erase(block, cause)?)
    }

    #[inline(always)]
    fn chain(&mut self, next: Chain) -> Chain {
        self.inner.chain(next)
    }

    fn reserve_spare(&mut self, bytes: u32) -> bool {
        self.inner.reserve_spare(bytes)
    }

    fn stage_spare(&mut self, ppn: Ppn, bytes: &[u8]) {
        self.inner.stage_spare(ppn, bytes);
    }

    #[inline(always)]
    fn spare(&self, ppn: Ppn) -> &[u8] {
        self.inner.spare(ppn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Block, Failing, FailurePlan, Full, Lpn, Nand, Tags, Transcript};
    use alloc::vec::Vec;

    type Chip = Verified<Transcript<Failing<Nand<Tags, Full>>>>;

    fn chip(plan: FailurePlan) -> Chip {
        let g = Geometry { blocks_per_die: 8, pages_per_block: 16, nop: 4, ..Geometry::default() }.checked().unwrap();
        Verified::new(Transcript::new(Failing::new(Nand::new(g), plan, 3)))
    }

    fn put(chip: &mut Chip, ppn: u32) -> Result<(), Fault> {
        chip.program(Ppn(ppn), Oob::data(Lpn(ppn), 1, u64::from(ppn)), Payload::User(&7), Cause::Host)
    }

    #[test]
    fn a_program_that_does_not_stick_fails_and_any_other_costs_a_read() {
        let mut chip = chip(FailurePlan { silent_rate: 0.3, ..FailurePlan::default() });
        let failed = (0..100).filter(|&ppn| put(&mut chip, ppn) == Err(Fault(FaultKind::ProgramFailed))).count() as u64;
        assert!(failed > 20 && failed < 40, "{failed}");
        assert_eq!((chip.caught(), chip.inner().silent_count()), (failed, failed));
        let reads = chip.take().iter().filter(|line| line.starts_with('R')).count();
        assert_eq!(reads, 100);
        let is_torn = |oob: Option<Oob>| oob.is_some_and(|oob| oob.kind == Kind::Torn);
        let torn = (0..100).filter(|&ppn| is_torn(chip.read_oob(Ppn(ppn), Cause::Recovery).unwrap())).count() as u64;
        assert_eq!(torn, failed, "no spare area of them reads");
        let mut trusting = Verified::trusting(chip.into_inner());
        assert!((100..120).all(|ppn| put(&mut trusting, ppn).is_ok()));
        assert!(trusting.inner().silent_count() > failed);
    }

    /// What was appended is garbage, and what was there before is whole.
    #[test]
    fn a_partial_program_is_compared() {
        let mut failed = 0;
        for seed in 0..20 {
            let mut chip = chip(FailurePlan::default());
            let oob = Oob { kind: Kind::Translation, ..Oob::data(Lpn(3), 1, 1) };
            chip.program(Ppn(0), oob, Payload::Meta(&[1, 2]), Cause::TranslationUpdate).unwrap();
            chip.append(Ppn(0), 8, &[4, 5, 6, 7, 8], 9, Cause::TranslationUpdate).unwrap();
            let plan = FailurePlan { silent_rate: 1.0, ..FailurePlan::default() };
            let nand = chip.into_inner().inner().inner().clone();
            let mut chip: Chip = Verified::new(Transcript::new(Failing::new(nand, plan, seed)));
            let result = chip.append(Ppn(0), 13, &[1, 2, 3], 10, Cause::TranslationUpdate);
            failed += u32::from(result == Err(Fault(FaultKind::ProgramFailed)));
            let (oob, payload) = chip.read(Ppn(0), Cause::Host).unwrap();
            assert_eq!((oob.kind, &payload.meta()[..3]), (Kind::Translation, &[1, 2, 0x0706_0504][..]));
        }
        // By chance a part is all of it.
        assert!(failed > 15, "{failed}");
    }

    #[test]
    fn the_copy_of_a_lost_page_is_lost_and_sticks() {
        let mut chip = chip(FailurePlan { unreadable_rate: 1.0, ..FailurePlan::default() });
        assert!(put(&mut chip, 0).is_err(), "a page that cannot be read did not stick");
        let oob = Oob::data(Lpn(0), 1, 0);
        chip.inner_mut().program(Ppn(1), oob, Payload::User(&7), Cause::Host).unwrap();
        let as_data = |oob: &mut Oob, _: &mut [u32]| oob.kind = Kind::Data;
        let copied = chip.copy(Ppn(1), Ppn(16), Cause::DataGc, as_data);
        assert_eq!(copied.map(|oob| oob.address), Ok(0));
        let mut moved = Vec::new();
        let run = chip.copy_run(Ppn(16), 1, Ppn(32), 5, Cause::DataGc, |lpn, ppn| moved.push((lpn, ppn)));
        assert_eq!((run, moved), ((1, Ok(())), [(0, Ppn(32))].to_vec()));
        assert_eq!(chip.caught(), 1);
        assert_eq!(chip.erase(Block(0), Cause::DataGc), Ok(()));
    }
}

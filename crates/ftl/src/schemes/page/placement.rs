//! Where `page` puts a host page: lanes in turn or by address, room for it, and what the ECC policy says of it.

use super::{HOST, Page};
use crate::Error;
use crate::Outcome;
use crate::parts::collector::Collects;
use crate::parts::lanes::Lane;
use flash::{Cause, FaultKind, Flash, FlashFault, Lpn, Mode, Oob, Payload, Ppn};

impl Page {
    /// Programs a page in the host stream; where it went.
    #[inline(always)]
    pub(super) fn put<F: Flash>(
        &mut self,
        flash: &mut F,
        mut oob: Oob,
        data: Payload<'_, F::User>,
        cause: Cause,
    ) -> Outcome<F, (Ppn, Lane)> {
        if self.by_address {
            self.space.streams[HOST.index()].turn_to(oob.address);
        }
        loop {
            let (to, lane) = match self.space.streams[HOST.index()].take_in_turn() {
                Some(taken) => taken,
                None => self.take_elsewhere(flash)?,
            };
            oob.program = self.space.number_for(flash, to);
            match flash.program(to, oob, data, cause) {
                Ok(()) => return Ok((to, lane)),
                Err(fault) if fault.kind() == FaultKind::ProgramFailed => self.space.abandon(to),
                Err(fault) => return Err(fault.into()),
            }
        }
    }

    /// Writes a page in a mode. Where all pages have one, the compiler knows it.
    #[inline(always)]
    pub(super) fn write_in<F: Flash>(&mut self, flash: &mut F, lpn: Lpn, data: &F::User, mode: Mode) -> Outcome<F> {
        if !self.space.doomed.is_empty() {
            self.evacuate(flash)?;
        }
        self.space.blocks.clock += 1;
        self.version += 1;
        let oob = Oob { mode, ..Oob::data(lpn, self.version, 0) };
        let (to, lane) = self.put(flash, oob, Payload::User(data), Cause::Host)?;
        self.point(lpn.index(), to.0);
        if self.space.collector.is_spread() {
            self.pay_on(flash, lane.die(flash.geometry()))?;
        }
        self.level_if_due(flash)
    }

    /// The block of the lane in turn is full: a page of the next lane that has room, or is given any.
    #[cold]
    #[inline(never)]
    pub(super) fn take_elsewhere<F: Flash>(&mut self, flash: &mut F) -> Outcome<F, (Ppn, Lane)> {
        let turn = self.space.streams[HOST.index()].turn();
        self.refill(flash, HOST, turn)?;
        self.space.streams[HOST.index()].take_in_turn().ok_or(Error::Full)
    }

    /// Makes room for a page in the lane in turn, as for a host write; this may move pages.
    pub(super) fn ready<F: Flash>(&mut self, flash: &mut F) -> Outcome<F> {
        let turn = self.space.streams[HOST.index()].turn();
        if self.space.streams[HOST.index()].room(turn) == 0 {
            self.refill(flash, HOST, turn)?;
        }
        Ok(())
    }
}

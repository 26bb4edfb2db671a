//! A scheme, its medium and the oracle, in step.

use super::bed::{Action, Bed, Operation, Request};
use super::content::{Medium, Stamp};
use super::replay::Kept;
use super::{Bench, Checked, CheckedScheme};
use crate::oracle::{Durable, Oracle, TrimPromise};
use flash::{CutPoint, Fault, FaultKind, Lpn};
use ftl::{BuildError, Error, Ftl, Inspect, Recipe};

/// Why a session stops.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Stop {
    /// Power was lost, as intended.
    PowerLost,
    /// The device is full.
    Full,
    /// A page cannot be read, or a map leads to a page that is not there, and what met it has stopped half way.
    Damage(Error<Fault>),
    /// Something is wrong.
    Wrong(String),
}

impl Stop {
    /// As a finding, for where none of them may happen.
    pub(super) fn text(self) -> String {
        match self {
            Stop::PowerLost => "power was lost where it was to hold".into(),
            Stop::Full => "the device says it is full, though it took this many logical pages".into(),
            Stop::Damage(Error::Flash(fault)) => format!("a sound page was lost: {fault}"),
            Stop::Damage(error) => error.to_string(),
            Stop::Wrong(what) => what,
        }
    }
}

impl From<Error<Fault>> for Stop {
    fn from(error: Error<Fault>) -> Stop {
        match error {
            Error::Full => Stop::Full,
            Error::Flash(Fault(FaultKind::PowerLost)) => Stop::PowerLost,
            Error::Corrupt | Error::Flash(Fault(FaultKind::Uncorrectable)) => Stop::Damage(error),
            Error::Flash(fault) => Stop::Wrong(format!("a sound page was lost: {fault}")),
        }
    }
}

impl From<BuildError<Fault>> for Stop {
    fn from(error: BuildError<Fault>) -> Stop {
        match error {
            BuildError::Device(error) => error.into(),
            BuildError::Config(error) => {
                Stop::Wrong(format!("the scheme refuses the device that it was formatted on: {error}"))
            }
        }
    }
}

/// The RAM that a scheme reports, bytes.
pub(super) fn reported(ftl: &CheckedScheme) -> u64 {
    ftl.memory().iter().map(|(_, bytes)| bytes).sum()
}

/// What was done, for the report.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Work {
    pub(super) operations: u64,
    pub(super) mounts: u64,
    pub(super) audits: u64,
    pub(super) reads: u64,
    /// Reads that ended in an error, where pages cannot be read.
    pub(super) errors: u64,
    /// Pages that mounts have said may be stale, where they are asked.
    pub(super) said: u64,
    /// Power cuts while the device rested.
    pub(super) idle_cuts: u64,
    /// Power cuts of a device that lives on.
    pub(super) cuts: u64,
}

/// See the module's description.
#[derive(Clone)]
pub(super) struct Session<'a> {
    pub(super) bed: &'a Bed,
    pub(super) recipe: &'a Checked,
    /// `None` before the first mount.
    pub(super) ftl: Option<CheckedScheme>,
    pub(super) flash: Bench,
    pub(super) oracle: Oracle,
    pub(super) work: Work,
    /// Whether the medium does not give every page back.
    pub(super) unreadable: bool,
    /// Whether mounts are asked what may be stale (`remounts.rs`).
    pub(super) excusing: bool,
    /// Whether so much may be stale then.
    pub(super) excused: bool,
    /// Whether the host leaves the device alone now and then, for as long as it has something to do (`disturb.rs`).
    pub(super) rests: bool,
    /// Whether each page of the host is a request of its own, where several commands are under way.
    pub(super) by_page: bool,
    /// Spare areas and pages of metadata that the medium had lost when it was mounted last.
    pub(super) lost: u64,
    /// Erase counts before the last operation, or after the last mount, if a mount is held to them: where they are kept
    /// on flash, and no command is lost that was issued before the one that was cut.
    pub(super) worn: Option<Vec<u32>>,
}

impl<'a> Session<'a> {
    /// A freshly formatted device.
    pub(super) fn format(bed: &'a Bed, recipe: &'a Checked, mut flash: Bench) -> Result<Self, Stop> {
        flash.power_up().map_err(Error::Flash)?;
        let ftl = recipe.format(&mut flash, bed.logical_pages, &bed.settings)?;
        let promise = if bed.durable_trim() { TrimPromise::Durable } else { TrimPromise::Loose };
        // Pages in a write buffer wait for a flush.
        let durable = if bed.has_buffer() { Durable::Flushed } else { Durable::Acknowledged(0) };
        let oracle = Oracle::new(bed.logical_pages, promise, durable);
        let [unreadable, excusing, excused, rests, by_page] = [false; 5];
        let (ftl, work, lost, worn) = (Some(ftl), Work::default(), 0, None);
        Ok(Session { bed, recipe, ftl, flash, oracle, work, unreadable, excusing, excused, rests, by_page, lost, worn })
    }

    /// Writes the first pages, as many as the seed says; of the requests in which it does, those that are `kept`.
    pub(super) fn fill(&mut self, kept: Option<&Kept>) -> Result<(), Stop> {
        for (number, request) in (0..).zip(self.bed.mix.requests()) {
            if kept.is_some_and(|kept| !kept.fill.has(number)) {
                continue;
            }
            self.announce(request);
            request.all().try_for_each(|lpn| self.write(lpn))?;
        }
        Ok(())
    }

    /// Tells the scheme what the host is about to read or write.
    fn announce(&mut self, request: Request) {
        let (ftl, _) = self.parts();
        ftl.request(request.first, request.pages);
    }

    /// The mounted scheme and its medium.
    pub(super) fn parts(&mut self) -> (&mut CheckedScheme, &mut Bench) {
        (self.ftl.as_mut().expect("the device was mounted"), &mut self.flash)
    }

    /// Does something, and tells whether power failed meanwhile: at a point, if one is given, with garbage by a seed.
    /// Power is back then, and holds.
    pub(super) fn meets_cut(
        &mut self,
        at: Option<(CutPoint, u64)>,
        work: impl FnOnce(&mut Self) -> Result<(), Stop>,
    ) -> Result<bool, Stop> {
        if let Some((point, seed)) = at {
            self.flash.inner_mut().arm(point, seed);
        }
        let end = work(self);
        self.flash.inner_mut().restart();
        if end == Err(Stop::PowerLost) { Ok(true) } else { end.map(|()| false) }
    }

    /// Mounts the device, from flash alone. To be full is no reason not to be mounted.
    pub(super) fn mount(&mut self) -> Result<(), Stop> {
        self.ftl = None;
        self.work.mounts += 1;
        self.expect_stale();
        self.flash.power_up().map_err(Error::Flash)?;
        self.flash.failing().mounted();
        match self.recipe.mount(&mut self.flash, self.bed.logical_pages, &self.bed.settings) {
            Ok((ftl, found)) => {
                self.ftl = Some(ftl);
                if found.retries > 0 && !self.unreadable {
                    return Err(Stop::Wrong(format!(
                        "a mount began anew {} times, and no page was lost",
                        found.retries
                    )));
                }
                self.excuse(&found);
            }
            Err(BuildError::Device(Error::Full)) => {
                return Err(Stop::Wrong("cannot be mounted: the device says it is full".into()));
            }
            Err(error) => return Err(error.into()),
        }
        self.hold_to_wear().map_err(Stop::Wrong)
    }

    /// Has mounts from now on find the erase counts of before, if these are kept on flash.
    pub(super) fn keep_wear(&mut self) {
        if self.bed.wear_checkpoint().is_some() {
            self.worn = self.ftl.as_ref().map(|ftl| ftl.erase_counts().to_vec());
        }
    }

    /// Holds the erase counts that a mount found to those before it: no more may be missing, over all blocks, than were
    /// erased since the last checkpoint. Erases of a mount itself set off none, so each block may have one more.
    fn hold_to_wear(&mut self) -> Result<(), String> {
        let Some(before) = self.worn.take() else { return Ok(()) };
        self.keep_wear();
        let after = self.worn.as_deref().unwrap_or_default();
        let lost: u64 = before.iter().zip(after).map(|(before, after)| u64::from(before.saturating_sub(*after))).sum();
        let most = self.bed.wear_checkpoint().unwrap_or(0) + before.len() as u64;
        if lost <= most {
            return Ok(());
        }
        Err(format!("{lost} erases are forgotten, where at most {most} may be: {before:?} before, {after:?} after"))
    }

    /// Tells the oracle how an operation ended.
    fn settle(&mut self, result: Result<(), Error<Fault>>) -> Result<(), Stop> {
        match result {
            Ok(()) => self.oracle.acknowledge(),
            Err(Error::Full) => self.oracle.refuse(),
            Err(_) => {}
        }
        Ok(result?)
    }

    /// Whether an error says that a page cannot be read, on a medium where that may be.
    fn is_unreadable(&self, error: &Error<Fault>) -> bool {
        let is_corrupt = self.excusing && *error == Error::Corrupt;
        self.unreadable && (is_corrupt || *error == Error::Flash(Fault(FaultKind::Uncorrectable)))
    }

    /// A request of the host is accepted.
    fn accept(&mut self) {
        self.flash.in_flight().request_begin();
        self.oracle.accept();
    }

    /// From now on so many requests of the host are under way at once.
    pub(super) fn expect_under_way(&mut self, requests: usize) {
        if !self.bed.has_buffer() {
            self.oracle.expect(Durable::Acknowledged(requests as u64));
        }
    }

    /// Nothing is under way any more.
    pub(super) fn drain(&mut self) {
        self.flash.in_flight().drain();
        self.oracle.drain();
    }

    /// Does something for a page, or for the whole device, as a chain of commands of its own.
    pub(super) fn chained<T>(&mut self, work: impl FnOnce(&mut CheckedScheme, &mut Bench) -> T) -> T {
        if self.by_page {
            self.accept();
        }
        let (ftl, flash) = self.parts();
        flash.in_flight().page_begin();
        let result = work(ftl, flash);
        flash.in_flight().page_end();
        result
    }

    fn write(&mut self, lpn: Lpn) -> Result<(), Stop> {
        let tag = self.oracle.begin_write(lpn);
        let result = self.chained(|ftl, flash| ftl.write(flash, lpn, &Stamp::of(tag)));
        self.settle(result)
    }

    /// Does one operation, then reads the pages that it touched and another. Those reads are not announced: after a
    /// request that was broken off, the scheme hears of it from what comes next.
    pub(super) fn step(&mut self, operation: &Operation) -> Result<(), Stop> {
        self.work.operations += 1;
        if self.worn.is_some() {
            self.keep_wear();
        }
        self.accept();
        match operation.action {
            Action::Write(request, written) => {
                self.announce(request);
                request.start(written).try_for_each(|lpn| self.write(lpn))?;
                request.start(written).try_for_each(|lpn| self.read(lpn))?;
            }
            Action::Read(request) => {
                self.announce(request);
                request.all().try_for_each(|lpn| self.read(lpn))?;
            }
            Action::Trim(request) => {
                self.oracle.begin_trim(request.first, request.pages);
                let result = self.chained(|ftl, flash| ftl.trim(flash, request.first, request.pages));
                self.settle(result)?;
                request.all().try_for_each(|lpn| self.read(lpn))?;
            }
            Action::Flush => {
                let result = self.chained(|ftl, flash| ftl.flush(flash));
                result?;
                self.drain();
                self.oracle.flush();
            }
            Action::Idle(copies) => {
                self.chained(|ftl, flash| ftl.idle(flash, copies))?;
            }
            Action::Restart => {
                self.drain();
                self.oracle.power_cut();
                if self.excusing { self.mount_excused() } else { self.mount() }?;
            }
        }
        self.read(operation.probe)
    }

    /// Reads a page and holds the value to the oracle.
    pub(super) fn read(&mut self, lpn: Lpn) -> Result<(), Stop> {
        self.work.reads += 1;
        let before = self.flash.failing().changes();
        let value = self.chained(|ftl, flash| ftl.read(flash, lpn).map(|data| data.map(Stamp::tag)));
        // Never an earlier version instead: what is read in place of an error is held to the oracle as ever.
        if let Err(error) = value
            && self.is_unreadable(&error)
        {
            self.work.errors += 1;
            return if self.excusing { self.bear(lpn, error, before) } else { Ok(()) };
        }
        if value == Err(Error::Corrupt) && self.oracle.may_be_lost(lpn) {
            self.oracle.unreadable(lpn);
            return Ok(());
        }
        let value = match value? {
            None => None,
            Some(Some(tag)) => Some(tag),
            Some(None) => return Err(Stop::Wrong(format!("LPN {lpn} reads as bytes that nobody wrote as a page"))),
        };
        self.oracle.observe(lpn, value).map_err(|mismatch| Stop::Wrong(mismatch.to_string()))
    }

    /// Reads every page, and rests now and then.
    pub(super) fn read_all(&mut self) -> Result<(), Stop> {
        for lpn in 0..self.bed.logical_pages {
            self.read(Lpn(lpn))?;
            if lpn % 8 == 7 {
                self.rest()?;
            }
        }
        Ok(())
    }

    /// Has the scheme check its invariants, and restores a copy of it from its RAM, if that can be saved.
    pub(super) fn audit(&mut self) -> Result<(), Stop> {
        self.work.audits += 1;
        let (ftl, flash) = self.parts();
        ftl.audit(flash).map_err(Stop::Wrong)?;
        if flash.is_stable() {
            ftl.audit_free(flash).map_err(Stop::Wrong)?;
        }
        if self.bed.saves { self.restored().map(drop) } else { Ok(()) }
    }

    /// The scheme, restored from its saved RAM, which takes no more bytes than it reports. What is left behind there
    /// the restored one lacks, and saves something else.
    pub(super) fn restored(&self) -> Result<CheckedScheme, Stop> {
        let (bed, ftl) = (self.bed, self.ftl.as_ref().expect("the device was mounted"));
        let saved = ftl.save();
        let reported = reported(ftl);
        if saved.len() as u64 > reported {
            let what = format!("the state takes {} bytes of RAM; {reported} are reported", saved.len());
            return Err(Stop::Wrong(what));
        }
        let restored = self.recipe.restore(&bed.geometry, bed.logical_pages, &bed.settings, &saved);
        if restored.save() == saved {
            return Ok(restored);
        }
        Err(Stop::Wrong("restored from saved RAM, it saves something else".into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::bed::{Lay, Shape};
    use crate::check::{CheckConfig, bench, recipe_of, sound};
    use ftl::buffer::Behind;
    use ftl::schemes;

    /// Power fails after a few acknowledged writes that nobody flushed; what is read then.
    fn unflushed(buffer: Option<&str>, durable: Durable) -> Result<(), Stop> {
        let config = &CheckConfig::new("page").behind(buffer.map(String::from));
        let row = schemes::by_name("page").unwrap();
        let recipe = &Behind(recipe_of(row));
        let bed = Lay { config, seed: 1, shape: Shape::FewBlocks }.run(row, recipe).unwrap();
        let mut session = Session::format(&bed, recipe, bench(sound(bed.geometry), false))?;
        session.oracle.expect(durable);
        (0..4).try_for_each(|lpn| session.write(Lpn(lpn)))?;
        session.oracle.power_cut();
        session.mount()?;
        session.read_all()
    }

    #[test]
    fn who_keeps_acknowledged_writes_in_ram_is_caught_where_they_are_to_be_durable() {
        assert_eq!(unflushed(None, Durable::Acknowledged(0)), Ok(()));
        assert_eq!(unflushed(Some("fab"), Durable::Flushed), Ok(()));
        let caught = unflushed(Some("fab"), Durable::Acknowledged(0)).unwrap_err().text();
        assert_eq!(caught, "LPN 0 reads as nothing; allowed: write 1 of LPN 0");
    }
}

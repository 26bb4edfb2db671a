//! One request of a run: cut into pages, served by the scheme, and its times noted.

use super::config::PartialPages;
use super::medium::Measured;
use super::{Run, fill};
use crate::latency::Times;
use crate::report::RequestRecord;
use crate::workload::{Operation, Request};
use flash::{Lpn, Op, Tally};
use ftl::{Error, Inspect};

/// When a request was served.
#[derive(Clone, Copy)]
pub(super) struct Served {
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
}

impl<F: Measured, S: Inspect<F>> Run<'_, F, S> {
    #[inline(always)]
    pub(super) fn request(&mut self, request: &Request) -> Result<Served, Error<F::Fault>> {
        let arrival_ns = self.arrivals.next(request.arrival_ns);
        let served = self.perform(request, arrival_ns)?;
        self.arrivals.ends(served.end_ns);
        if cfg!(debug_assertions) {
            self.responses_ns += u128::from(served.end_ns - arrival_ns);
        }
        self.note_end(request.operation, Times { arrival_ns, start_ns: served.start_ns, end_ns: served.end_ns });
        if matches!(request.operation, Operation::Read | Operation::Write) {
            let mut of = self.responses.of(served.end_ns - arrival_ns);
            self.flash.each_part(|waited, cause, ns| of.add(waited, cause, ns));
        }
        Ok(served)
    }

    /// The function of a request that arrives now. Its times, if commands are placed as they are issued.
    #[inline(always)]
    pub(super) fn perform(&mut self, request: &Request, arrival_ns: u64) -> Result<Served, Error<F::Fault>> {
        self.last_arrival_ns = arrival_ns;
        self.flash.arrive(arrival_ns);
        if self.window.as_ref().is_some_and(|window| arrival_ns >= window.end_ns) {
            self.advance_window(arrival_ns);
        }
        let served = match request.operation {
            Operation::Write => self.write(request)?,
            Operation::Read => self.read(request)?,
            Operation::Trim | Operation::Flush => self.control(request)?,
        };
        self.counts.requests += 1;
        Ok(served)
    }

    /// A request of the measured phase, or so far of the warm-up, has its times.
    #[inline(always)]
    pub(super) fn note_end(&mut self, operation: Operation, times: Times) {
        self.last_end_ns = self.last_end_ns.max(times.end_ns);
        match operation {
            Operation::Write => self.writes.record(times),
            Operation::Read => self.reads.record(times),
            Operation::Trim | Operation::Flush => return,
        }
        if let Some(window) = &mut self.window {
            window.response.record(times.end_ns - times.arrival_ns);
        }
    }

    /// First and last page of an extent.
    #[inline(always)]
    fn cut(&self, request: &Request) -> (u64, u64) {
        let end = request.offset + request.bytes;
        let pages = (request.offset >> self.page_shift, (end - 1) >> self.page_shift);
        assert!(pages.1 < self.logical_pages, "the workload was fitted to the device");
        pages
    }

    #[inline(always)]
    fn write(&mut self, request: &Request) -> Result<Served, Error<F::Fault>> {
        let (first, last) = self.cut(request);
        let mut served = Served { start_ns: u64::MAX, end_ns: 0 };
        let end = request.offset + request.bytes;
        self.scheme.request(Lpn(first as u32), (last - first + 1) as u32);
        self.scheme.request_bytes(request.bytes);
        for page in first..=last {
            let lpn = Lpn(page as u32);
            if page > first {
                self.scheme.hint(Lpn(page as u32 + 8));
            }
            self.flash.page_begin();
            let partial = (page == first && request.offset & (self.page_bytes - 1) != 0)
                || (page == last && end & (self.page_bytes - 1) != 0);
            if partial && self.config.partial == PartialPages::ReadModifyWrite {
                self.counts.partial_writes += 1;
                self.scheme.read_to_modify(&mut self.flash, lpn)?;
            }
            self.scheme.write(&mut self.flash, lpn, &())?;
            if let Some(overlap) = &mut self.overlap {
                overlap.note(lpn, true);
            }
            let times = self.flash.page_end();
            served = Served { start_ns: served.start_ns.min(times.start_ns), end_ns: served.end_ns.max(times.end_ns) };
        }
        self.counts.writes += 1;
        self.counts.write_pages += last - first + 1;
        if let Some(window) = &mut self.window {
            window.write_pages += last - first + 1;
        }
        Ok(served)
    }

    #[inline(always)]
    fn read(&mut self, request: &Request) -> Result<Served, Error<F::Fault>> {
        let (first, last) = self.cut(request);
        let mut served = Served { start_ns: u64::MAX, end_ns: 0 };
        self.scheme.request(Lpn(first as u32), (last - first + 1) as u32);
        self.scheme.request_bytes(request.bytes);
        for page in first..=last {
            if page > first {
                self.scheme.hint(Lpn(page as u32 + 8));
            }
            self.flash.page_begin();
            let found = self.scheme.read(&mut self.flash, Lpn(page as u32))?;
            self.counts.unmapped_reads += u64::from(found.is_none());
            if let Some(overlap) = &mut self.overlap {
                overlap.note(Lpn(page as u32), false);
            }
            let times = self.flash.page_end();
            served = Served { start_ns: served.start_ns.min(times.start_ns), end_ns: served.end_ns.max(times.end_ns) };
        }
        self.counts.reads += 1;
        self.counts.read_pages += last - first + 1;
        Ok(served)
    }

    /// A trim discards the pages that lie in it whole; a flush makes everything durable.
    #[cold]
    fn control(&mut self, request: &Request) -> Result<Served, Error<F::Fault>> {
        self.flash.page_begin();
        if request.operation == Operation::Flush {
            self.scheme.flush(&mut self.flash)?;
            self.counts.flushes += 1;
        } else {
            let pages = fill::covered(request, self.page_bytes);
            if !pages.is_empty() {
                assert!(pages.end <= self.logical_pages, "the workload was fitted to the device");
                self.scheme.trim(&mut self.flash, Lpn(pages.start as u32), (pages.end - pages.start) as u32)?;
            }
            self.counts.trims += 1;
        }
        let times = self.flash.page_end();
        Ok(Served { start_ns: times.start_ns, end_ns: times.end_ns })
    }

    /// Commands issued since the tally was `before`, by kind.
    pub(super) fn commands_since(&self, before: &Tally) -> [u32; Op::ALL.len()] {
        let commands = self.flash.tally().since(before);
        std::array::from_fn(|op| commands.of(Op::ALL[op]) as u32)
    }
}

pub(super) fn record(
    request: &Request,
    flow: u32,
    arrival_ns: u64,
    times: Served,
    commands: [u32; Op::ALL.len()],
) -> RequestRecord {
    RequestRecord {
        arrival_ns,
        flow,
        operation: request.operation,
        offset: request.offset,
        bytes: request.bytes,
        queue_ns: times.start_ns - arrival_ns,
        service_ns: times.end_ns - times.start_ns,
        response_ns: times.end_ns - arrival_ns,
        commands,
    }
}

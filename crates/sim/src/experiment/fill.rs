//! What happens to a device before its workload is measured, and which of its pages hold data then.
//!
//! A fill takes no simulated time: afterwards everything is idle at time zero and nothing has been counted. What it
//! leaves behind is the contents of the flash, warm caches, and the scheme's own counts of erases. It wears no block
//! out: blocks endure as many erases of the measured phase under every scheme, whatever its fill took.
//!
//! How much of a device is live decides more than any policy, so the share of its logical pages that hold data when
//! counting starts is part of every result. [`Live`] keeps that book beside the scheme, from what the host asked for,
//! and only until then.

use super::{BATCH, Config, Fill, Measured, Observer, RunError, hint_ahead};
use crate::workload::{Operation, Request, Source, WorkloadError};
use flash::{FlashFault, Lpn, Op, Rng};
use ftl::{Error, Inspect};
use std::ops::Range;

/// Rounds of steady filling at the most.
pub const MOST_ROUNDS: usize = 60;

/// What a fill left beside the contents of flash and RAM.
#[derive(Clone)]
pub(super) struct Left {
    pub(super) live: Live,
    /// Whether it ended before write amplification was steady, and was to go on until then.
    pub(super) unsteady: bool,
}

/// The logical pages that hold data: written, or filled, and not discarded since.
#[derive(Clone)]
pub(super) struct Live {
    /// A bit for each page.
    words: Vec<u64>,
    pages: u64,
    page_bytes: u64,
}

impl Live {
    /// Of a blank device.
    fn blank(config: &Config) -> Live {
        let (pages, page_bytes) = (config.device.logical_pages.into(), config.device.geometry.page_bytes.into());
        Live { words: vec![0; u64::div_ceil(pages, 64) as usize], pages, page_bytes }
    }

    /// Of a device all of whose pages were written.
    fn full(config: &Config) -> Live {
        let mut live = Live::blank(config);
        live.set(0..live.pages, true);
        live
    }

    fn set(&mut self, pages: Range<u64>, holds_data: bool) {
        for page in pages {
            let (word, bit) = (&mut self.words[(page / 64) as usize], 1 << (page % 64));
            *word = if holds_data { *word | bit } else { *word & !bit };
        }
    }

    /// A request was served.
    pub(super) fn serve(&mut self, request: &Request) {
        match request.operation {
            Operation::Write => self.set(touched(request, self.page_bytes), true),
            Operation::Trim => self.set(covered(request, self.page_bytes), false),
            Operation::Read | Operation::Flush => {}
        }
    }

    /// The share of pages that hold data.
    pub(super) fn share(&self) -> f64 {
        let live: u64 = self.words.iter().map(|word| u64::from(word.count_ones())).sum();
        live as f64 / self.pages as f64
    }
}

/// The pages that a request lies in, in part or whole.
pub(super) fn touched(request: &Request, page_bytes: u64) -> Range<u64> {
    request.offset / page_bytes..(request.offset + request.bytes).div_ceil(page_bytes)
}

/// The pages that lie in a request whole; none if the end is not after the beginning.
pub(super) fn covered(request: &Request, page_bytes: u64) -> Range<u64> {
    request.offset.div_ceil(page_bytes)..(request.offset + request.bytes) / page_bytes
}

/// Why a device was not filled.
pub(super) enum Unfilled<E: FlashFault> {
    /// It ended the fill.
    Device(Error<E>),
    /// The observer did.
    Ended,
    /// The workload that was to fill it did.
    Run(RunError),
}

impl<E: FlashFault> From<Error<E>> for Unfilled<E> {
    fn from(error: Error<E>) -> Self {
        Unfilled::Device(error)
    }
}

impl<E: FlashFault> From<WorkloadError> for Unfilled<E> {
    fn from(error: WorkloadError) -> Self {
        Unfilled::Run(error.into())
    }
}

/// Fills the device.
pub(super) fn fill<F: Measured, S: Inspect<F>>(
    config: &Config,
    scheme: &mut S,
    flash: &mut F,
    source: &mut dyn Source,
    observer: &mut dyn Observer,
) -> Result<Left, Unfilled<F::Fault>> {
    let pages = config.device.logical_pages;
    let mut rng = Rng::new(config.seed).fork("fill");
    let mut unsteady = false;
    match config.fill {
        Fill::None => return Ok(Left { live: Live::blank(config), unsteady }),
        Fill::Sequential => write_all(scheme, flash, observer, (0..pages).map(Lpn))?,
        Fill::Random => {
            let mut order: Vec<u32> = (0..pages).collect();
            for i in (1..order.len()).rev() {
                order.swap(i, rng.below(i as u64 + 1) as usize);
            }
            write_all(scheme, flash, observer, order.into_iter().map(Lpn))?;
        }
        Fill::Steady => {
            write_all(scheme, flash, observer, (0..pages).map(Lpn))?;
            // A round writes half the device; five in a row that agree end the fill (SNIA PTS: range within 20 % of
            // their mean, fitted slope within 10 %).
            let round = u64::from(pages / 2).max(1);
            let mut amplification: Vec<f64> = Vec::new();
            unsteady = true;
            while unsteady && amplification.len() < MOST_ROUNDS {
                let before = flash.tally().of(Op::Program);
                let order = (0..round).map(|_| Lpn(rng.below(u64::from(pages)) as u32));
                write_all(scheme, flash, observer, order)?;
                amplification.push((flash.tally().of(Op::Program) - before) as f64 / round as f64);
                unsteady = !amplification.last_chunk::<5>().is_some_and(is_steady);
            }
        }
        Fill::Trace => return Ok(Left { live: replay(config, scheme, flash, source, observer)?, unsteady }),
    }
    Ok(Left { live: Live::full(config), unsteady })
}

/// SNIA's rule over five rounds.
pub(super) fn is_steady(rounds: &[f64; 5]) -> bool {
    let mean = rounds.iter().sum::<f64>() / 5.0;
    let range = rounds.iter().copied().fold(f64::MIN, f64::max) - rounds.iter().copied().fold(f64::MAX, f64::min);
    let slope = rounds.iter().enumerate().map(|(i, y)| (i as f64 - 2.0) * y).sum::<f64>() / 10.0;
    range <= 0.2 * mean && (slope * 4.0).abs() <= 0.1 * mean
}

/// Writes pages.
fn write_all<F: Measured, S: Inspect<F>>(
    scheme: &mut S,
    flash: &mut F,
    observer: &mut dyn Observer,
    lpns: impl Iterator<Item = Lpn>,
) -> Result<(), Unfilled<F::Fault>> {
    let mut batch = Vec::with_capacity(BATCH);
    let mut lpns = lpns.peekable();
    while lpns.peek().is_some() {
        batch.clear();
        batch.extend(lpns.by_ref().take(BATCH));
        for (i, &lpn) in batch.iter().enumerate() {
            hint_ahead::<F, S>(scheme, &batch, i);
            scheme.write(flash, lpn, &())?;
        }
        if !observer.filled(batch.len() as u64) {
            return Err(Unfilled::Ended);
        }
    }
    Ok(())
}

/// Makes every request of the workload a write, and goes back to its beginning.
fn replay<F: Measured, S: Inspect<F>>(
    config: &Config,
    scheme: &mut S,
    flash: &mut F,
    source: &mut dyn Source,
    observer: &mut dyn Observer,
) -> Result<Live, Unfilled<F::Fault>> {
    let mut live = Live::blank(config);
    let page_bytes = live.page_bytes;
    let mut batch: Vec<Request> = Vec::with_capacity(BATCH);
    while source.refill(&mut batch, BATCH)? {
        let firsts: Vec<Lpn> = batch.iter().map(|request| Lpn((request.offset / page_bytes) as u32)).collect();
        let mut written = 0;
        for (i, request) in batch.iter_mut().enumerate() {
            hint_ahead::<F, S>(scheme, &firsts, i);
            match request.operation {
                Operation::Read | Operation::Write => {
                    request.operation = Operation::Write;
                    let pages = touched(request, page_bytes);
                    assert!(pages.end <= live.pages, "the workload was fitted to the device");
                    written += pages.end - pages.start;
                    scheme.request(Lpn(pages.start as u32), (pages.end - pages.start) as u32);
                    scheme.request_bytes(request.bytes);
                    for page in pages {
                        scheme.write(flash, Lpn(page as u32), &())?;
                    }
                }
                Operation::Trim => {
                    let pages = covered(request, page_bytes);
                    if !pages.is_empty() {
                        assert!(pages.end <= live.pages, "the workload was fitted to the device");
                        scheme.trim(flash, Lpn(pages.start as u32), (pages.end - pages.start) as u32)?;
                    }
                }
                Operation::Flush => scheme.flush(flash)?,
            }
            live.serve(request);
        }
        if !observer.filled(written) {
            return Err(Unfilled::Ended);
        }
    }
    match source.rewind() {
        true => Ok(live),
        false => {
            Err(Unfilled::Run(RunError::Endless("the workload cannot be had a second time, after filling the device")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_steady;

    #[test]
    fn steadiness_is_snias_rule() {
        assert!(is_steady(&[1.0, 1.02, 0.98, 1.0, 1.01]));
        assert!(!is_steady(&[1.0, 1.1, 1.2, 1.3, 1.4]));
        assert!(!is_steady(&[1.0, 1.0, 1.3, 1.0, 1.0]));
    }
}

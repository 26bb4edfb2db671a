//! Sound devices without a block to spare, many of them.
//!
//! The device of a seed has a few pages to spare more often than not, and a scheme that gives away a block too many is
//! full only once everything comes together: the open blocks are nearly full, the map is dirty, a block is to be moved
//! for wear. So each seed stands for many devices more. Each has as many logical pages as the scheme takes, all of them
//! written, and settings of its own, also of how many blocks collections keep free. Nothing ever fails on them. On two
//! of three, pages are written over and over, some are discarded, and power goes off between requests alone: no write
//! may be refused. On the others power is cut at commands that are aimed at (`life.rs`). A few more devices have a map
//! of several pages on flash: what it takes of the room that is kept free can be more than a block. There discards
//! come several at a time, and their pages are written again.

use super::bed::{Action, Bed, Lay, Operation, Request, Shape};
use super::cuts::Story;
use super::life::{self, Life};
use super::media::LONGER;
use super::session::{Session, Stop};
use super::{
    CheckConfig, CheckError, CheckReport, Checked, FAILURES_PER_SEED, FaultClass, Part, Replay, bench, guarded, sound,
};
use flash::{Lpn, Rng};
use ftl::parameters::{GC_HIGH, GC_LOW};
use ftl::{Range, Scheme};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

/// Devices of a seed; from which one on power is cut; and from which one on their map is large, and power is not cut.
pub(super) const DEVICES: u64 = 224;
const CUT: u64 = 128;
const LARGE: u64 = 192;
/// One of four of the others has many blocks, in groups of so many: a check of every second to sixteenth device has
/// both.
const GROUP: u64 = 16;
/// Operations of a device on which it is: each of its cuts takes a mount, and reads of all pages.
const LIFE: u32 = 400;
/// The scheme whose collections need a second free block where power is cut, as it says of itself.
const KEEPS_TWO: &str = "simple";
/// Devices are seeds of their own, apart from those that are checked otherwise; those with a large map are apart again.
const APART: u64 = 0x5eed_0000_0000;
const FARTHER: u64 = 0x1_5eed_0000_0000;

fn is_cut(device: u64) -> bool {
    (CUT..LARGE).contains(&device)
}

fn is_large(device: u64) -> bool {
    device >= LARGE
}

/// The device of a seed and a number.
pub(super) struct LayFewest<'a> {
    pub(super) config: &'a CheckConfig,
    pub(super) seed: u64,
    pub(super) device: u64,
}

impl LayFewest<'_> {
    pub(super) fn run(self, row: &Scheme<'_>, recipe: &Checked) -> Result<Bed, CheckError> {
        let LayFewest { config, seed, device } = self;
        let (devices, apart) = if is_large(device) { (DEVICES - LARGE, FARTHER) } else { (LARGE, APART) };
        let seed = seed.wrapping_mul(devices).wrapping_add(apart + device);
        let mut rng = Rng::new(seed).fork("collections");
        let mut config = config.clone();
        let least = if is_cut(device) && row.name == KEEPS_TWO { 2 } else { 1 };
        for parameter in row.parameters() {
            let value = match (parameter.name, parameter.range) {
                (name, _) if config.settings.iter().any(|(of, _)| of == name) => continue,
                (name, Range::Count(low, _)) if name == GC_LOW.name => (least + rng.below(4)).max(low).to_string(),
                (name, _) if name == GC_HIGH.name => rng.below(6).to_string(),
                // Half of the seeds would keep the default of these.
                ("gc" | "victims" | "wear-levelling", Range::Words(words)) => {
                    words[rng.below(words.len() as u64) as usize].to_owned()
                }
                _ => continue,
            };
            config.settings.push((parameter.name.into(), value));
        }
        let shape = if is_large(device) {
            Shape::LargeMap
        } else if device / GROUP % 4 == 1 {
            Shape::ManyBlocks
        } else {
            Shape::FewBlocks
        };
        Ok(Lay { config: &config, seed, shape }.run(row, recipe)?.full())
    }
}

/// The visitor.
pub(super) struct OnFewestBlocks<'a> {
    pub(super) config: &'a CheckConfig,
    pub(super) seed: u64,
    pub(super) stop: &'a AtomicBool,
    /// The one device that is asked for; `None`: those that the check has.
    pub(super) only: Option<u64>,
}

impl OnFewestBlocks<'_> {
    pub(super) fn run(self, row: &Scheme<'_>, recipe: &Checked) -> CheckReport {
        let OnFewestBlocks { config, seed, stop, only } = self;
        let mut report = CheckReport::default();
        // Who asks for some other class of faults asks for that alone.
        let has_none = config.fewest == 0 || !config.faults.contain(FaultClass::Nested);
        if only.is_none() && has_none {
            return report;
        }
        let cuts = config.cuts_power();
        let all = (0..DEVICES).filter(|&device| cuts || !is_cut(device)).step_by(config.fewest.max(1));
        let devices: Vec<u64> = only.map_or_else(|| all.collect(), |device| vec![device]);
        for device in devices {
            if stop.load(Ordering::Relaxed) || report.failures.len() >= FAILURES_PER_SEED {
                break;
            }
            // What was drawn may fit no device.
            if let Ok(bed) = (LayFewest { config, seed, device }).run(row, recipe) {
                on_device(recipe, &bed, config, (seed, device), stop, &mut report);
            }
        }
        report
    }
}

fn on_device(
    recipe: &Checked,
    bed: &Bed,
    config: &CheckConfig,
    (seed, device): (u64, u64),
    stop: &AtomicBool,
    report: &mut CheckReport,
) {
    let mut number = 0;
    let mut session = None;
    let result = guarded(|| {
        let powered = sound(bed.geometry);
        let powered = if is_cut(device) { powered } else { powered.without_log() };
        let medium = bench(powered, false);
        let session = session.insert(Session::format(bed, recipe, medium).map_err(Stop::text)?);
        session.fill(None).map_err(Stop::text)?;
        let done = if is_cut(device) {
            live(session, config.operations.min(LIFE), stop, &mut number)
        } else {
            let host = Host::of(session.bed, is_large(device));
            write_over(session, host, config.operations.saturating_mul(LONGER), stop, &mut number)
        };
        done.and_then(|()| session.read_all()).and_then(|()| session.audit()).map_err(Stop::text)
    });
    report.media.spared += 1;
    if let Some(session) = session {
        report.media.fewest += session.work.operations;
        report.media.fewest_cuts += session.work.cuts;
        report.add_work(session.work);
    }
    if let Err(what) = result {
        report.fail(Replay { run: Some(device), ..Replay::of(seed, Part::Fewest, number) }, what);
    }
}

/// Goes on with a full device for so many operations, in an order of its own.
fn write_over(
    session: &mut Session<'_>,
    mut host: Host,
    operations: u32,
    stop: &AtomicBool,
    number: &mut u32,
) -> Result<(), Stop> {
    while *number < operations && !stop.load(Ordering::Relaxed) {
        let (action, probe) = (host.next(), host.probe());
        session.step(&Operation { action, probe })?;
        if action == Action::Restart {
            session.read_all()?;
            session.audit()?;
        }
        *number += 1;
    }
    Ok(())
}

/// Goes on with a full device for so many operations, in which power is cut over and over.
fn live(session: &mut Session<'_>, operations: u32, stop: &AtomicBool, number: &mut u32) -> Result<(), Stop> {
    let lots = session.bed.seed;
    let mut life = Life::of(lots, life::AIMED);
    for operation in life::operations(session.bed, lots, true).take(operations as usize) {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        life.step(session, &operation, *number, &mut Story(None))?;
        *number += 1;
        session.flash.take();
    }
    Ok(())
}

/// What the host asks of a device: writes of one page in an order of its own, on half of the devices a few discards as
/// well, and on half of them power goes off now and then. On half it reads a page anywhere after each, and so loads
/// entries between the writes; on the others the same page each time. Devices with a large map all have discards, in
/// `bursts`.
#[derive(Debug)]
struct Host {
    lots: Rng,
    pages: u32,
    order: u64,
    stride: u32,
    hot: u32,
    last: u32,
    discarded: u32,
    discards: f64,
    restarts: f64,
    /// Whether discards come several at a time, and all pages but the first are written again at once.
    bursts: bool,
    ahead: VecDeque<Action>,
    /// Lots for pages to read, apart from those for writes.
    reads: Option<Rng>,
}

impl Host {
    fn of(bed: &Bed, bursts: bool) -> Host {
        let mut lots = Rng::new(bed.seed).fork("writes");
        let pages = bed.logical_pages;
        let (order, stride, hot) = (lots.below(4), 1 + lots.below(7) as u32, 1 + lots.below(u64::from(pages)) as u32);
        let discards = if bursts || lots.chance(0.5) { 0.05 } else { 0.0 };
        let restarts = if lots.chance(0.5) { 0.01 } else { 0.0 };
        let mut reads = Rng::new(bed.seed).fork("reads");
        let reads = reads.chance(0.5).then_some(reads);
        let ahead = VecDeque::new();
        Host { bursts, ahead, lots, pages, order, stride, hot, last: 0, discarded: 0, discards, restarts, reads }
    }

    /// The page to read after an action.
    fn probe(&mut self) -> Lpn {
        let pages = u64::from(self.pages);
        Lpn(self.reads.as_mut().map_or(0, |reads| reads.below(pages) as u32))
    }

    fn next(&mut self) -> Action {
        let anywhere = self.lots.below(u64::from(self.pages)) as u32;
        if self.lots.chance(self.restarts) {
            return Action::Restart;
        }
        if let Some(action) = self.ahead.pop_front() {
            return action;
        }
        if self.lots.chance(self.discards) {
            if self.bursts {
                let pages: Vec<u64> = (0..2 + self.lots.below(7)).map(|_| self.lots.below(self.pages.into())).collect();
                let requests = pages.iter().map(|&page| Request { first: Lpn(page as u32), pages: 1 });
                self.ahead.extend(requests.clone().map(Action::Trim));
                self.ahead.extend(requests.map(|request| Action::Write(request, 1)));
            }
            // Records of neighbours' discards are kept together.
            let beside = (self.discarded + 1) % self.pages;
            self.discarded = if self.lots.chance(0.5) { beside } else { anywhere };
            return Action::Trim(Request { first: Lpn(self.discarded), pages: 1 });
        }
        let mut walk = |stride| {
            self.last = (self.last + stride) % self.pages;
            self.last
        };
        let lpn = match self.order {
            0 => walk(self.stride),
            1 if self.lots.chance(0.5) => walk(1),
            2 if self.lots.chance(0.9) => anywhere % self.hot,
            _ => anywhere,
        };
        Action::Write(Request { first: Lpn(lpn), pages: 1 }, 1)
    }
}

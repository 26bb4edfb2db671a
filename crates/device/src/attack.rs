//! Attacks on images by a host that misbehaves: what `ftlab check --images` does (docs/mount.md, *Attacks on images*).
//!
//! A *seed* stands for lives of disks on small images. In each round the disk is flushed, serves some requests, over a
//! host that reads and writes in parts or fails now and then, and comes to an end: it is killed, the host crashes, or
//! the disk is shut down. A crash of the host leaves of what was written since the last flush what a disk may have of
//! it: all up to some point, any of it, whole or torn, or one write in another place. Then the image is opened and
//! mounted, and each page is held to what it may be. Copies of it are harmed and held to what damage may cost. Results
//! depend on scheme, settings and seed alone.

mod clients;
mod crash;
pub(crate) mod harm;
mod model;
mod report;
pub(crate) mod requests;

use crate::disk::{AnyDisk, MountError, Mounted};
use crate::export::ExportError;
use crate::image::{Access, Host, Image, ImageError, Journal, Spec, written_by_another};
pub use clients::Served;
use flash::device::{CellTimes, Device, Features, PageTimes, Server, Timing};
use flash::{Cause, Geometry, Op, Pairing, Rng};
use ftl::Value;
pub use harm::Aftermath;
use harm::{Facts, Harm, Memory, Places, Victim, Was};
use model::{Model, Since};
pub use report::{Attacks, Counts, Report, attack_all};
use requests::Request;
use std::cell::Cell;
use std::fs;
use std::io;
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Once, PoisonError};

/// Pages that the host sees.
const PAGES: usize = 80;
/// Bytes of a page.
const PAGE: usize = 512;
/// No work on the flash.
const NOTHING: Since = Since { moved: false, appended: false };
/// Requests of a round, and rounds of a life: fewer than these.
const MOST_REQUESTS: u64 = 30;
const MOST_ROUNDS: u64 = 24;

/// Bits of a frame that an image's code corrects, if it has one.
const CORRECTED: u32 = 4;

/// How a round of a disk's life ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The process is killed: the host has all that it was given.
    Kill,
    /// The host crashes, and its disk has everything up to some point.
    InOrder,
    /// The same, and its disk has any of the writes, in any order; of some only a part of their sectors.
    Scattered,
    /// The same, and one of them lies in another place.
    Misdirected,
    /// A clean shutdown, of whose checkpoint the host's disk has a part, or all.
    Shutdown,
}

impl End {
    /// All of them.
    pub const ALL: [End; 5] = [End::Kill, End::InOrder, End::Scattered, End::Misdirected, End::Shutdown];

    /// The end of a round, which is none of the whole life.
    fn draw(rng: &mut Rng) -> End {
        [End::Kill, End::InOrder, End::Shutdown][rng.below(3) as usize]
    }

    /// The end of a life: what a disk that has any of the writes lacks may come to light at any time.
    fn draw_last(rng: &mut Rng) -> End {
        if rng.chance(0.75) { End::Scattered } else { End::Misdirected }
    }

    /// Words for a message.
    const fn words(self) -> &'static str {
        match self {
            End::Kill => "killed",
            End::InOrder => "crash, writes in order",
            End::Scattered => "crash, any of the writes",
            End::Misdirected => "crash, a write in another place",
            End::Shutdown => "shut down",
        }
    }
}

/// Mounts an image. Whoever attacks says how, so that schemes are compiled for the medium that it has anyway.
pub type Mount = fn(Image) -> Result<Box<dyn AnyDisk>, MountError>;

/// What is attacked.
#[derive(Clone, Debug)]
pub struct Attack<'a> {
    /// The scheme's name.
    pub scheme: &'a str,
    /// Its parameters that are not drawn by seed, name and text.
    pub settings: &'a [(String, String)],
    /// Requests of each seed, at the least.
    pub requests: u64,
    /// How images are mounted.
    pub mount: Mount,
}

/// What an attack did.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Attacked {
    /// Images.
    pub images: u64,
    /// Requests served.
    pub requests: u64,
    /// Reads and writes of the file that did a part of what they were asked for, that were interrupted, that did
    /// nothing, writes behind a part of which the disk was full, and times that the file could not be made durable.
    pub hitches: [u64; 5],
    /// Requests that were answered with an I/O error for them, and done again.
    pub errors: u64,
    /// Rounds, and copies beside, that ended so, as in [`End::ALL`].
    pub ends: [u64; 5],
    /// Of the shutdowns, such whose checkpoint was believed.
    pub believed: u64,
    /// Pages held to what they may be.
    pub pages: u64,
    /// Of these, behind each end, such that did not read as what the host wrote or discarded last, errors among them.
    pub others: [u64; 5],
    /// Images and copies that could not be mounted in the end, and said so.
    pub refused: u64,
    /// Copies that were harmed, and what became of them.
    pub harmed: Aftermath,
}

impl Attacked {
    /// What a host did with reads and writes of the file.
    fn hear(&mut self, host: &Host) {
        self.hitches.iter_mut().zip(host.counts).for_each(|(sum, more)| *sum += more);
    }
}

impl Counts for Attacked {
    const WHAT: &'static str = "images";
    const REQUESTS: u64 = 2_000;
    const MOST_AT_ONCE: usize = usize::MAX;

    fn attack(asked: &Attack<'_>, seed: u64, directory: &Path, stop: &AtomicBool) -> Attacks<Attacked> {
        attack(asked, seed, directory, stop)
    }

    fn add(&mut self, other: &Attacked) {
        let Attacked { images, requests, hitches, errors, ends, believed, pages, others, refused, harmed } = other;
        self.images += images;
        self.requests += requests;
        self.errors += errors;
        self.believed += believed;
        self.pages += pages;
        self.refused += refused;
        self.harmed.add(harmed);
        let sum = |into: &mut [u64], from: &[u64]| into.iter_mut().zip(from).for_each(|(sum, more)| *sum += more);
        sum(&mut self.hitches, hitches);
        sum(&mut self.ends, ends);
        sum(&mut self.others, others);
    }
}

/// What is wrong with a disk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// Its seed.
    pub seed: u64,
    /// The life, the round, how that ended, and what happened.
    pub what: String,
}

/// Why an attack ends early.
enum Stop {
    /// What is wrong.
    Wrong(String),
    /// The file could not be made what a crash leaves.
    Host(io::Error),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Stop {
        Stop::Host(error)
    }
}

/// The life of a disk.
struct Life<'a> {
    attack: &'a Attack<'a>,
    rng: Rng,
    path: &'a Path,
    /// Bytes of the image without a checkpoint.
    least: usize,
    places: Places,
    /// Bits in a frame that the image's code corrects.
    corrects: Option<u32>,
    /// The host does its part all life long, so that the file holds what the disk has written.
    is_calm: bool,
    /// It is always shut down whole, and was so far.
    is_steady: bool,
    uninterrupted: bool,
    /// Its host crashed once, and had the writes up to some point.
    was_in_order: bool,
    /// The file was changed since the round's last flush, so that no state of before is to be believed.
    is_changed: bool,
    /// The host's disk is full, and does its part otherwise.
    is_full: bool,
    disk: Option<Box<dyn AnyDisk>>,
    journal: Journal,
    model: Model,
    done: Attacked,
}

/// The lives of one seed, one after another until the requests are served, with their images in `directory`. Ends early
/// when told to `stop`.
fn attack(attack: &Attack<'_>, seed: u64, directory: &Path, stop: &AtomicBool) -> Attacks<Attacked> {
    let path = directory.join("ssd.img");
    let rng = Rng::new(seed).fork(attack.scheme);
    let mut done = Attacked::default();
    for number in 0.. {
        if done.requests >= attack.requests || stop.load(Ordering::Relaxed) {
            break;
        }
        let mut life = match quietly(|| Life::begin(attack, rng.fork(&format!("life {number}")), &path)) {
            Ok(begun) => begun?,
            Err(panic) => {
                let what = format!("life {number}, its first mount: a panic: {}", message(&*panic));
                return Ok((done, Some(Finding { seed, what })));
            }
        };
        let lived = life.live(attack.requests - done.requests, stop);
        done.add(&life.done);
        match lived {
            Ok(()) => {}
            Err(Stop::Host(error)) => return Err(format!("{}: {error}", path.display())),
            Err(Stop::Wrong(what)) => {
                return Ok((done, Some(Finding { seed, what: format!("life {number}, {what}") })));
            }
        }
    }
    Ok((done, None))
}

thread_local! {
    /// Whether this thread lives the life of a disk.
    static LIVES: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work`; a panic of the scheme or of the image under it becomes a finding, and is not printed.
fn quietly<T>(work: impl FnOnce() -> T) -> std::thread::Result<T> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !LIVES.get() {
                before(info)
            }
        }));
    });
    LIVES.set(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    LIVES.set(false);
    done
}

/// What a panic says.
fn message(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("of no words")
}

/// An image: blocks of four pages on one die or two, mostly with discards that last, perhaps with a code and with a
/// guard beneath.
fn draw_spec(attack: &Attack<'_>, rng: &mut Rng) -> Spec {
    let dies = 1 + rng.below(2) as u32;
    let geometry = Geometry {
        channels: dies,
        blocks_per_die: if dies == 1 { 32 } else { 24 },
        pages_per_block: 4,
        page_bytes: PAGE as u32,
        oob_bytes: 96,
        nop: 3,
        bits_per_cell: 2,
        slc_nop: 4,
        ..Geometry::default()
    };
    // Times decide about nothing.
    let cells = CellTimes { read_ns: 1, oob_read_ns: 1, program_ns: 1, partial_program_ns: 1, erase_ns: 1 };
    let pages = PageTimes { read_ns: 1, program_ns: 1 };
    let timing = Timing {
        read_ns: 1,
        oob_read_ns: 1,
        program_ns: 1,
        partial_program_ns: 1,
        erase_ns: 1,
        page_transfer_ns: 1,
        oob_transfer_ns: 1,
        slc: cells,
        low_cost: pages,
        medium: pages,
    };
    let device = Device {
        name: "attacked".into(),
        geometry: geometry.checked().expect("a geometry within all bounds"),
        timing,
        server: Server::Parallel,
        logical_pages: PAGES as u32,
        spare: 0.4,
        endurance: None,
        features: Features::default(),
        barriers: false,
        paired: Pairing::Off,
    };
    let known = ftl::schemes::by_name(attack.scheme).map(ftl::Scheme::settings);
    let mut settings = attack.settings.to_vec();
    let either = |rng: &mut Rng| if rng.chance(0.5) { "on" } else { "off" };
    let durable = if rng.chance(0.85) { "on" } else { "off" };
    let drawn = [("durable-trim", durable), ("lu", "2"), ("wear-state", either(rng)), ("gc-spread", either(rng))];
    for (name, value) in drawn {
        let knows = known.as_ref().is_some_and(|known| known.get(name).is_some());
        if knows && settings.iter().all(|(set, _)| set != name) {
            settings.push((name.into(), value.into()));
        }
    }
    let code = rng.chance(0.3).then(|| format!("bch:t={CORRECTED},data=256").parse().expect("a code"));
    let paired = if rng.chance(0.25) { Pairing::Shadow } else { Pairing::Off };
    let device = Device { paired, ..device }.guarded().expect("spare areas with room for the guard");
    Spec { device, scheme: attack.scheme.into(), settings, ecc: code }
}

/// A disk over a new image.
struct Fresh {
    spec: Spec,
    places: Places,
    journal: Journal,
    disk: Box<dyn AnyDisk>,
}

impl Fresh {
    fn create(attack: &Attack<'_>, rng: &mut Rng, path: &Path) -> Result<Fresh, String> {
        let mut spec = draw_spec(attack, rng);
        let text = |error: ImageError| error.to_string();
        loop {
            let mut image = Image::create(path, &spec, true).map_err(text)?;
            let (places, journal) = (Places::of(&image), image.keep_journal());
            match (attack.mount)(image) {
                Ok(disk) => return Ok(Fresh { spec, places, journal, disk }),
                Err(MountError::Config(error)) if error.key == "spare" && spec.device.geometry.blocks_per_die < 256 => {
                    // Some schemes keep more blocks than others.
                    spec.device.geometry.blocks_per_die += 8;
                    spec.device.geometry = spec.device.geometry.checked().map_err(|error| error.to_string())?;
                }
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    /// What is discarded stays so, once it is flushed.
    fn is_durable(&self) -> bool {
        matches!(self.disk.settings().get("durable-trim"), Some(Value::Switch(true)))
    }
}

/// Which pages a disk calls holes, before any of them is read.
fn holes(disk: &mut dyn AnyDisk) -> Vec<bool> {
    let (mut extents, bytes) = (Vec::new(), disk.bytes());
    // Who cannot say so says nothing.
    if disk.extents(0, bytes, &mut extents).is_err() {
        return vec![false; PAGES];
    }
    extents.iter().flat_map(|extent| vec![extent.hole; extent.bytes as usize / PAGE]).collect()
}

/// What the pages of an image have been when a round had come to such an end.
struct Known<'a> {
    model: &'a Model,
    end: End,
    since: Since,
}

impl Memory for Known<'_> {
    fn was(&self, page: usize, content: &[u8]) -> Was {
        let allowed = |end| self.model.allows(page, end, self.since, Some(content));
        if allowed(self.end) || allowed(End::Kill) {
            Was::Newest
        } else if self.model.was_ever(page, content) {
            Was::Older
        } else {
            Was::Nothing
        }
    }

    fn is_blank(&self, page: usize) -> bool {
        self.model.is_blank(page, self.end)
    }
}

impl<'a> Life<'a> {
    fn begin(attack: &'a Attack<'a>, mut rng: Rng, path: &'a Path) -> Result<Life<'a>, String> {
        let fresh = Fresh::create(attack, &mut rng, path)?;
        let model = Model::new(fresh.is_durable());
        let Fresh { spec, places, journal, disk } = fresh;
        let done = Attacked { images: 1, ..Attacked::default() };
        let least = fs::metadata(path).map_err(|error| error.to_string())?.len() as usize;
        let (corrects, is_calm) = (spec.ecc.is_some().then_some(CORRECTED), rng.chance(0.5));
        let (is_steady, uninterrupted, is_full) = (is_calm && rng.chance(0.3), true, false);
        let disk = Some(disk);
        let life = Life {
            attack,
            rng,
            path,
            least,
            places,
            corrects,
            is_calm,
            is_steady,
            uninterrupted,
            was_in_order: false,
            is_changed: false,
            is_full,
            disk,
            journal,
            model,
            done,
        };
        Ok(life)
    }

    /// The rounds of a life, the last when so many requests are served.
    fn live(&mut self, requests: u64, stop: &AtomicBool) -> Result<(), Stop> {
        if Image::open(self.path, Access::Use).is_ok() {
            return Err(Stop::Wrong("a second process may use the image while the first is there".into()));
        }
        let rounds = self.rng.below(MOST_ROUNDS);
        for round in 0..=rounds {
            let is_last = round == rounds || self.done.requests >= requests;
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let end = match is_last {
                true => End::draw_last(&mut self.rng),
                false if self.is_steady => End::Shutdown,
                false => End::draw(&mut self.rng),
            };
            let lived = quietly(|| self.round(end));
            let lived = lived.unwrap_or_else(|panic| Err(Stop::Wrong(format!("a panic: {}", message(&*panic)))));
            match lived {
                Err(Stop::Wrong(what)) => return Err(Stop::Wrong(format!("round {round}, {}: {what}", end.words()))),
                lived => lived?,
            }
            if is_last {
                break;
            }
        }
        Ok(())
    }

    fn disk(&mut self) -> &mut dyn AnyDisk {
        &mut **self.disk.as_mut().expect("a disk is mounted in every round")
    }

    /// Pages that were programmed, but not for the host, erases, and partial programs.
    fn work(&mut self) -> (u64, u64, u64) {
        let tally = self.disk().tally();
        let programs = tally.of(Op::Program) - tally.get(Cause::Host, Op::Program);
        (programs, tally.of(Op::Erase), tally.of(Op::PartialProgram))
    }

    /// One round.
    fn round(&mut self, end: End) -> Result<(), Stop> {
        self.disk().flush().map_err(|error| self.refused(error))?;
        self.model.flush();
        // Which pages a collection has moved since nobody knows: only whether there was any.
        let mut before = self.work();
        let over = (!self.is_calm && self.rng.chance(0.6)).then(|| Host::hitches(self.rng.fork("hitches")));
        let has_hitches = over.is_some();
        if let Some(over) = over {
            self.disk().image().set_host(Some(over));
        }
        let is_clean = self.disk().mounted().how == Mounted::Checkpoint;
        for number in 0..self.rng.below(MOST_REQUESTS) {
            // Full until something cannot be written: often the mark that the state is worthless.
            let share = if is_clean && number == 0 { 0.4 } else { 0.05 };
            if !self.is_calm && !has_hitches && !self.is_full && self.rng.chance(share) {
                let full = Host::full(self.rng.fork("full"));
                self.disk().image().set_host(Some(full));
                self.is_full = true;
            }
            let bytes = self.disk().bytes();
            let request = Request::draw(&mut self.rng, bytes);
            let mounts = self.disk().counts().remounts;
            self.serve(&request)?;
            self.done.requests += 1;
            self.model.did(&request);
            // Where the flush had the device mounted, pages were read behind it, which may program some.
            if matches!(request, Request::Flush) && self.disk().counts().remounts == mounts {
                before = self.work();
            }
        }
        self.hear();
        let now = self.work();
        let since = Since { moved: (now.0, now.1) != (before.0, before.1), appended: now.2 != before.2 };
        let is_whole = self.end(end, since)?;
        self.done.ends[end as usize] += 1;
        if is_whole && self.is_calm {
            self.harm(end, since)?;
        }
        if is_whole && end == End::Shutdown && self.rng.fork("upgrade").chance(0.2) {
            self.upgrade(since)?;
        }
        let opened = Image::open(self.path, Access::Use).map_err(|error| error.to_string());
        let mounted = opened.and_then(|mut image| {
            self.journal = image.keep_journal();
            (self.attack.mount)(image).map_err(|error| error.to_string())
        });
        let mut disk = match mounted {
            Ok(disk) => disk,
            Err(_) if self.may_be_gone(end) => {
                self.done.refused += 1;
                return Ok(());
            }
            Err(error) => return Err(Stop::Wrong(format!("it cannot be mounted: {error}"))),
        };
        self.believe(&*disk, end).map_err(Stop::Wrong)?;
        let pages = self.look(&mut *disk, end, since).map_err(Stop::Wrong)?;
        for (page, content) in pages.iter().enumerate() {
            content.iter().for_each(|content| self.model.found(page, content));
        }
        self.disk = Some(disk);
        Ok(())
    }

    /// Serves a request. One that met a host that did not do its part is done again over a host that does.
    fn serve(&mut self, request: &Request) -> Result<(), Stop> {
        let mounts = self.disk().counts().remounts;
        let mut asked = self.ask(request);
        let failed = asked == Err(ExportError::Io);
        let mounted = self.disk().counts().remounts != mounts;
        if failed && self.is_full && matches!(request, Request::Read(..)) {
            return Err(Stop::Wrong(format!("{request:?} is not answered while the host's disk is full")));
        }
        if (failed || mounted) && self.hear() {
            self.done.errors += u64::from(failed);
            self.settle(request)?;
            asked = self.ask(request);
        } else if mounted {
            self.settle(request)?;
        }
        match asked {
            Ok(true) => Ok(()),
            Ok(false) => Err(Stop::Wrong(format!("{request:?} does not read what was written last"))),
            Err(error) => Err(self.refused(error)),
        }
    }

    /// The disk answers with an error that no host has given it a reason for.
    fn refused(&mut self, error: ExportError) -> Stop {
        let why = self.disk().failure().unwrap_or("no reason is known");
        Stop::Wrong(format!("{error:?} is the answer though the host does its part: {why}"))
    }

    fn ask(&mut self, request: &Request) -> Result<bool, ExportError> {
        let disk = self.disk.as_mut().expect("a disk is mounted in every round");
        request.ask(&mut **disk, &self.model.contents)
    }

    /// The disk was mounted afresh in the course of a request. What was discarded may be as it was before, and what the
    /// request changes as it will be.
    fn settle(&mut self, request: &Request) -> Result<(), Stop> {
        let mut after = self.model.contents.clone();
        request.model(&mut after, PAGE as u64);
        let mut out = vec![0; PAGE];
        for page in 0..PAGES {
            if !self.model.is_discarded(page) {
                continue;
            }
            self.disk().read((page * PAGE) as u64, &mut out).map_err(|error| self.refused(error))?;
            if !self.model.allows(page, End::Kill, NOTHING, Some(&out)) && out != after[page * PAGE..][..PAGE] {
                return Err(Stop::Wrong(format!("page {page} was discarded and is nothing that it may be")));
            }
            self.model.found(page, &out);
        }
        Ok(())
    }

    /// The host does its part again; whether it did not.
    fn hear(&mut self) -> bool {
        self.is_full = false;
        let host = self.disk().image().set_host(None);
        host.inspect(|host| self.done.hear(host)).is_some()
    }

    /// The round comes to its end. Whether the file is as the disk has written it, up to some point.
    fn end(&mut self, end: End, since: Since) -> Result<bool, Stop> {
        if end == End::Shutdown {
            self.disk().flush().map_err(|error| self.refused(error))?;
            self.model.flush();
        }
        let before = if end == End::Shutdown { fs::read(self.path)? } else { Vec::new() };
        let disk = self.disk.take().expect("a disk is mounted in every round");
        if end == End::Shutdown {
            disk.close().map_err(|error| Stop::Wrong(format!("it cannot be shut down: {error:?}")))?;
            let forgets = !self.is_steady && self.rng.chance(0.5);
            if forgets {
                crash::forget_some(self.path, &before, self.least, &mut self.rng)?;
            }
            self.uninterrupted &= !forgets;
            return Ok(!forgets);
        }
        self.uninterrupted = false;
        drop(disk);
        let writes = std::mem::take(&mut *self.journal.lock().unwrap_or_else(PoisonError::into_inner));
        self.is_changed = writes.iter().any(|&(place, ..)| self.places.is_flash(place));
        let is_whole = matches!(end, End::Kill | End::InOrder);
        if is_whole {
            self.crash_copy(&writes, since)?;
        }
        if end != End::Kill {
            crash::crash(self.path, &writes, end, &mut self.rng)?;
        }
        Ok(is_whole)
    }

    /// Looks at a copy of the image of which the host's disk has any of the writes: the life goes on without it.
    fn crash_copy(&mut self, writes: &[(u64, Vec<u8>, Vec<u8>)], since: Since) -> Result<(), Stop> {
        let end = End::draw_last(&mut self.rng);
        let wrong = |what| Stop::Wrong(format!("a copy, {}: {what}", end.words()));
        let path = self.path.with_file_name("crashed.img");
        fs::copy(self.path, &path)?;
        crash::crash(&path, writes, end, &mut self.rng)?;
        self.done.ends[end as usize] += 1;
        let opened = Image::open(&path, Access::Use).map_err(|error| error.to_string());
        match opened.and_then(|image| (self.attack.mount)(image).map_err(|error| error.to_string())) {
            Ok(mut disk) => {
                self.believe(&*disk, end).map_err(wrong)?;
                self.look(&mut *disk, end, since).map_err(wrong)?;
            }
            Err(_) if self.may_be_gone(end) => self.done.refused += 1,
            Err(error) => return Err(wrong(format!("it cannot be mounted: {error}"))),
        }
        Ok(())
    }

    /// Counts the states that are believed behind a shutdown; behind another end there may be none, once the file was
    /// changed.
    fn believe(&mut self, disk: &dyn AnyDisk, end: End) -> Result<(), String> {
        let believed = disk.mounted().how == Mounted::Checkpoint;
        self.done.believed += u64::from(believed && end == End::Shutdown);
        match believed && end != End::Shutdown && self.is_changed {
            true => Err("its state is believed, and is older than what else is in the file".into()),
            false => Ok(()),
        }
    }

    /// A copy of the image is harmed, or in one case of five only looked at.
    fn harm(&mut self, end: End, since: Since) -> Result<(), Stop> {
        let whole = fs::read(self.path)?;
        // Between the parity of a partial program and its record some frames go without correction, until their page is
        // written anew.
        self.was_in_order |= end == End::InOrder;
        let code = self.corrects.filter(|_| !self.was_in_order);
        let harm = Harm::ALL[self.rng.below(4) as usize];
        let areas = self.places.areas(whole.len() as u64);
        let area = &areas[self.rng.below(areas.len() as u64) as usize];
        let times = if self.rng.chance(0.2) { 0 } else { harm.times()[self.rng.below(6) as usize] };
        let mut bytes = whole.clone();
        harm.harm(&mut bytes, area, (times, self.places), &mut self.rng);
        let mut harmless = times == 0 || harm == Harm::Flips && self.places.corrects(area, times, code);
        let mut what = format!("harmed {times} times by {} in {area:?}", harm.words());
        let mut each = self.rng.fork("a bit of each");
        if code.is_some() && each.chance(0.25) {
            bytes.clone_from(&whole);
            self.places.flip_each(&mut bytes, &mut each);
            (what, harmless) = ("a bit of each page is another".to_owned(), true);
        }
        let (path, memory) = (self.path.with_file_name("harmed.img"), Known { model: &self.model, end, since });
        let (places, mount) = (self.places, self.attack.mount);
        let facts = Facts { harmless, uninterrupted: self.uninterrupted };
        let victim = Victim { path: &path, whole: &whole, places, mount, memory: &memory, facts };
        let suffered = victim.suffer(&bytes, &mut self.rng.fork("harmed"));
        let done = suffered.map_err(|why| Stop::Wrong(format!("a copy, {what}: {why}")))?;
        self.done.harmed.add(&done);
        Ok(())
    }

    /// A copy of an image that another version of ftlab has shut down, or one whose state has another form.
    fn upgrade(&mut self, since: Since) -> Result<(), Stop> {
        let path = self.path.with_file_name("another.img");
        let mut bytes = fs::read(self.path)?;
        written_by_another(&mut bytes, self.rng.fork("version").chance(0.5));
        fs::write(&path, &bytes)?;
        let wrong = |what: String| Stop::Wrong(format!("a copy that another version has shut down: {what}"));
        let image = Image::open(&path, Access::Use).map_err(|error| wrong(error.to_string()))?;
        let mut disk = (self.attack.mount)(image).map_err(|error| wrong(error.to_string()))?;
        if disk.mounted().how == Mounted::Checkpoint {
            return Err(wrong("its state is believed".into()));
        }
        self.look(&mut *disk, End::Shutdown, since).map_err(wrong)?;
        Ok(())
    }

    /// Whether what this end has left may be refused (docs/mount.md, *Crashes of the host*).
    fn may_be_gone(&self, end: End) -> bool {
        end == End::Misdirected || end == End::Scattered && self.attack.scheme == "superblock"
    }

    /// Reads every page of a disk, and holds it to what it may be; what they are.
    fn look(&mut self, disk: &mut dyn AnyDisk, end: End, since: Since) -> Result<Vec<Option<Vec<u8>>>, String> {
        let holes = holes(disk);
        let mut pages = Vec::with_capacity(PAGES);
        for (page, is_hole) in holes.into_iter().enumerate() {
            let mut out = vec![0; PAGE];
            let read = disk.read((page * PAGE) as u64, &mut out).is_ok();
            let is_zeros = out.iter().all(|&byte| byte == 0);
            self.done.pages += 1;
            if !self.model.allows(page, end, since, read.then_some(&out)) {
                let how = match read {
                    false => "cannot be read",
                    true if is_zeros => "is zeros",
                    true if self.model.was_ever(page, &out) => "is not what it was, but older",
                    true => "is not what it was at any time",
                };
                return Err(format!("page {page} {how}"));
            }
            let same = read && out == self.model.contents[page * PAGE..][..PAGE];
            if same && is_hole && !is_zeros {
                return Err(format!("page {page} is called a hole and holds data"));
            }
            self.done.others[end as usize] += u64::from(!same);
            pages.push(read.then_some(out));
        }
        if !matches!(end, End::Scattered | End::Misdirected) {
            disk.audit().map_err(|what| format!("the audit: {what}"))?;
        }
        Ok(pages)
    }
}

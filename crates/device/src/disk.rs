//! A scheme over an image, as a disk: bytes at any address.
//!
//! ```text
//!   Export: read, write, trim, zero, flush ─▶ Disk ─▶ scheme ─▶ Timeline ─▶ Image (or PowerCut<Image>)
//!             any offset and length           whole pages      counts, times   the file
//! ```
//!
//! Requests are cut into pages exactly as the simulator's host model cuts them: a page written in part is read first
//! (`read_to_modify`), a discard takes the pages that lie in it whole. So a captured run has the same flash counts when
//! it is simulated.
//!
//! What a request did is in the file before it is answered ([`Image::settle`]); until then its programs are gathered,
//! so that a large write is a few writes of the file. A flush is the scheme's flush, and then the host's disk. When
//! power is lost or the host's file fails, the request is answered with an I/O error, what the scheme had in RAM is
//! dropped, and a later request mounts the device afresh, from the file. So it is if a collection or a write meets a
//! page of metadata that cannot be corrected: a mount does without it, and the write is tried once more then.
//!
//! Schemes may write when they read, for they make room in their caches. While the host's disk takes nothing, a device
//! that is read keeps such writes in RAM, beside the file, and forgets them before the next change
//! ([`Counts::rescues`]): what was acknowledged can be read under any scheme. A clean shutdown ([`AnyDisk::close`])
//! leaves the scheme's RAM in the image, and the next mount need not read the flash.
//!
//! The timeline is told when requests arrive in real time. Without emulated timing it only counts; with it, [`Done`]
//! says when the simulated device would have answered.

use crate::export::{Done, Export, ExportError, Extent};
use crate::image::{Image, ImageError, Life};
use flash::{Clocked, Fault, FaultKind, Flash, FlashFault, Fragile, Guard, Lpn, Mode, Op, PowerCut, Tally, Timeline};
use ftl::schemes::{self, Registry};
use ftl::{
    AnyRecipe, AnyScheme, BuildError, CacheCounters, ConfigError, Error, Ftl, Inspect, MountReport, Recipe, Scheme,
    Settings, Value,
};
use std::fmt;
use std::time::Instant;

/// Page copies of background work at a time.
const IDLE_COPIES: u32 = 16;

/// Bytes that are kept in RAM while the host's file takes no changes; with more the device is mounted afresh.
const MOST_BESIDE: u64 = 64 << 20;

/// An image, perhaps with decorators around it.
pub trait Medium: Flash<User = [u8], Fault = Fault> + Send + 'static {
    /// The image inside.
    fn image(&self) -> &Image;
    /// The same, to be changed.
    fn image_mut(&mut self) -> &mut Image;
    /// Power is back, or the host's disk has room again.
    ///
    /// # Errors
    /// The file cannot be read.
    fn power_up(&mut self) -> Result<(), ImageError>;
    /// Power is back, and the host's disk may take nothing: the file is read, and changes are kept beside it.
    ///
    /// # Errors
    /// The file cannot be read.
    fn rescue(&mut self) -> Result<(), ImageError>;
    /// Whether it has carried out whole whatever it was asked since it was opened, and the file has it.
    fn is_whole(&self) -> bool;
}

impl Medium for Image {
    fn image(&self) -> &Image {
        self
    }
    fn image_mut(&mut self) -> &mut Image {
        self
    }
    fn power_up(&mut self) -> Result<(), ImageError> {
        if self.failure().is_some() || self.is_beside() { self.reload() } else { Ok(()) }
    }
    fn rescue(&mut self) -> Result<(), ImageError> {
        self.reload_beside()
    }
    fn is_whole(&self) -> bool {
        self.failure().is_none() && !self.is_beside()
    }
}

impl<M: Medium + Fragile> Medium for PowerCut<M> {
    fn image(&self) -> &Image {
        self.inner().image()
    }
    fn image_mut(&mut self) -> &mut Image {
        self.inner_mut().image_mut()
    }
    fn power_up(&mut self) -> Result<(), ImageError> {
        if self.lost() {
            self.restart();
        }
        self.inner_mut().power_up()
    }
    fn rescue(&mut self) -> Result<(), ImageError> {
        if self.lost() {
            self.restart();
        }
        self.inner_mut().rescue()
    }
    fn is_whole(&self) -> bool {
        !self.lost() && self.inner().is_whole()
    }
}

/// Why a device could not be mounted.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The image names a scheme that there is not.
    #[error("the image is for scheme {0}, which this ftlab does not have")]
    UnknownScheme(String),
    /// Its parameters are not understood.
    #[error("the image's parameters are not understood: {0}")]
    Settings(String),
    /// The scheme does not take the device.
    #[error("{0}")]
    Config(ConfigError),
    /// The flash failed, or the file under it.
    #[error("{0}")]
    Flash(String),
    /// The image cannot be read.
    #[error(transparent)]
    Image(#[from] ImageError),
}

/// How a device was mounted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mounted {
    /// It was new, and formatted.
    Formatted,
    /// From what a clean shutdown had left.
    Checkpoint,
    /// By reading the flash.
    Scan,
}

impl Mounted {
    /// The word in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Mounted::Formatted => "formatted",
            Mounted::Checkpoint => "checkpoint",
            Mounted::Scan => "scan",
        }
    }
}

/// What a mount did.
#[derive(Clone, Debug, PartialEq)]
pub struct MountSummary {
    /// How.
    pub how: Mounted,
    /// How long it took, real time.
    pub seconds: f64,
    /// Spare areas read.
    pub oob_reads: u64,
    /// Whole pages read.
    pub reads: u64,
    /// Pages programmed to repair what was cut short.
    pub programs: u64,
    /// Blocks erased for the same purpose.
    pub erases: u64,
    /// What the scheme found.
    pub found: MountReport,
}

impl fmt::Display for MountSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MountSummary { how, seconds, oob_reads, reads, programs, erases, found } = self;
        match how {
            Mounted::Formatted => write!(f, "formatted in {seconds:.3} s"),
            Mounted::Checkpoint => write!(f, "mounted from its checkpoint in {seconds:.3} s"),
            Mounted::Scan => write!(
                f,
                "mounted by scan in {seconds:.3} s: {oob_reads} spare areas and {reads} pages read, {} torn, {} map \
                 entries restored, {programs} pages programmed, {erases} blocks erased, {} bad blocks",
                found.torn, found.restored, found.bad_blocks
            ),
        }?;
        if found.retries > 0 {
            let s = if found.retries == 1 { "" } else { "s" };
            write!(f, "; begun anew {} time{s}, because it met a page that cannot be read", found.retries)?;
        }
        if found.unreadable > 0 {
            let pages = found.unreadable;
            let s = if pages == 1 { "" } else { "s" };
            write!(f, "; {pages} page{s} unreadable: as many logical pages may be stale, or discards undone")?;
        }
        if found.lost_discards > 0 {
            let pages = found.lost_discards;
            let s = if pages == 1 { "" } else { "s" };
            write!(f, "; {pages} page{s} of discards unreadable: what was discarded there may be back")?;
        }
        Ok(())
    }
}

/// What the host asked for, since the mount.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Read requests.
    pub reads: u64,
    /// Write requests, those of zeros included.
    pub writes: u64,
    /// Pages that they touched, reads.
    pub read_pages: u64,
    /// Of these, pages that hold nothing.
    pub unmapped_reads: u64,
    /// Pages that they touched, writes.
    pub write_pages: u64,
    /// Pages written in part: each was read first.
    pub partial_writes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Discards.
    pub trims: u64,
    /// Flushes.
    pub flushes: u64,
    /// Pages that could not be corrected.
    pub uncorrectable: u64,
    /// Mounts after power was lost or the host's file failed.
    pub remounts: u64,
    /// Of these while the host's file took no changes, to be read.
    pub rescues: u64,
    /// Pages that mounts took for torn or found unreadable, summed over all mounts, the first included: of each a
    /// logical page may be stale since, or a discard undone.
    pub perhaps_stale: u64,
    /// Pages of records of discards that mounts could not read, summed likewise: what they discarded may be back.
    pub lost_discards: u64,
}

impl Counts {
    /// A mount has said this.
    fn hear(&mut self, found: &MountReport) {
        self.perhaps_stale += found.perhaps_stale();
        self.lost_discards += found.lost_discards;
    }
}

/// A mounted disk whose scheme was chosen at run time.
pub trait AnyDisk: Export {
    /// How the device was mounted, the last time.
    fn mounted(&self) -> &MountSummary;
    /// What the host asked for.
    fn counts(&self) -> Counts;
    /// Flash commands since the first mount, by cause.
    fn tally(&self) -> &Tally;
    /// Time that commands of this kind take, in a block in SLC mode or in another, ns.
    fn command_ns(&self, op: Op, mode: Mode) -> u64;
    /// The image.
    fn image(&self) -> &Image;
    /// The scheme's row.
    fn scheme(&self) -> &'static Scheme<'static>;
    /// Its parameters.
    fn settings(&self) -> &Settings;
    /// Its RAM by structure; nothing while the device is not mounted, as what follows.
    fn memory(&self) -> Vec<(&'static str, u64)>;
    /// Its own counters.
    fn counters(&self) -> Vec<(&'static str, u64)>;
    /// Its mapping cache.
    fn cache(&self) -> Option<CacheCounters>;
    /// Its free blocks.
    fn free_blocks(&self) -> u32;
    /// Has it check its invariants.
    ///
    /// # Errors
    /// The first that does not hold.
    fn audit(&mut self) -> Result<(), String>;
    /// Why the device was lost last, if it was: an I/O error was answered.
    fn failure(&self) -> Option<&str>;
    /// Whether it is lost now: the next request mounts it.
    fn is_lost(&self) -> bool;
    /// Shuts down cleanly: everything is durable, and the next mount need not read the flash.
    ///
    /// # Errors
    /// The flash or the host's file failed. The next mount reads the flash.
    fn close(self: Box<Self>) -> Result<(), ExportError>;
}

/// A mounted disk. See the module's description.
pub struct Disk<M: Medium> {
    flash: Guard<Timeline<M>>,
    /// `None` after power was lost or the host's file failed.
    ftl: Option<AnyScheme<Guard<Timeline<M>>>>,
    recipe: AnyRecipe<Guard<Timeline<M>>>,
    row: &'static Scheme<'static>,
    settings: Settings,
    logical_pages: u32,
    page_bytes: u64,
    durable_trim: bool,
    emulate: bool,
    began: Instant,
    /// A page being put together.
    page: Vec<u8>,
    zeros: Vec<u8>,
    /// Whether something was written or discarded since the mount.
    changed: bool,
    /// Changes are kept beside the file, which takes none.
    rescued: bool,
    /// Whether a page of metadata that could not be corrected was the last failure.
    damaged: bool,
    counts: Counts,
    mounted: MountSummary,
    failure: Option<String>,
}

/// The scheme that an image is for, and its parameters.
///
/// # Errors
/// There is no such scheme, or its parameters are not understood.
pub fn scheme_of(image: &Image) -> Result<(&'static Scheme<'static>, Settings), MountError> {
    let spec = image.spec();
    let row = schemes::by_name(&spec.scheme).ok_or_else(|| MountError::UnknownScheme(spec.scheme.clone()))?;
    let mut settings = row.settings();
    for (name, text) in &spec.settings {
        settings.set(name, text).map_err(MountError::Settings)?;
    }
    Ok((row, settings))
}

/// Mounts an image with the scheme that it names. With `emulate`, answers say when the simulated device would be ready.
///
/// # Errors
/// [`MountError`].
pub fn mount<M: Medium>(medium: M, emulate: bool) -> Result<Box<dyn AnyDisk>, MountError> {
    let (row, settings) = scheme_of(medium.image())?;
    let recipe = Registry::BUILT_IN.recipe(row.name).expect("the scheme has a row");
    Ok(Box::new(Disk::mount(medium, (row, recipe), settings, emulate)?))
}

/// A scheme with what its mount found.
type Start<M> = (AnyScheme<Guard<Timeline<M>>>, MountSummary);

/// Formats or mounts. `was_cut`: whether the last command may have been cut short, of a device that was not shut down.
fn start<M: Medium>(
    flash: &mut Guard<Timeline<M>>,
    (row, recipe): (&Scheme<'_>, &AnyRecipe<Guard<Timeline<M>>>),
    logical_pages: u32,
    settings: &Settings,
    was_cut: bool,
) -> Result<Start<M>, MountError> {
    let began = Instant::now();
    let before = flash.tally().clone();
    let failed = |image: &Image, error: Error<Fault>| {
        let reason = image.failure().map(|cause| format!(" ({cause})")).unwrap_or_default();
        MountError::Flash(format!("{error}{reason}"))
    };
    let (life, reserved) = (flash.inner().image().life(), flash.inner().image().reserved_spare() > 0);
    let recovered = if was_cut && life != Life::Clean { flash.recover(reserved) } else { flash.resume(reserved) };
    recovered.map_err(|fault| failed(flash.inner().image(), fault.into()))?;
    let saved = flash.inner_mut().image_mut().checkpoint(row.state_version);
    let saved = saved.map_err(|fault| failed(flash.inner().image(), fault.into()))?;
    let (how, ftl) = match (life, saved) {
        (_, Some(bytes)) => {
            let ftl = recipe.restore(flash.geometry(), logical_pages, settings, &bytes);
            (Mounted::Checkpoint, Ok((ftl, MountReport::default())))
        }
        (Life::Fresh, None) => {
            let ftl = recipe.format(flash, logical_pages, settings);
            (Mounted::Formatted, ftl.map(|ftl| (ftl, MountReport::default())))
        }
        (_, None) => (Mounted::Scan, recipe.mount(flash, logical_pages, settings)),
    };
    let (ftl, mut found) = ftl.map_err(|error| match error {
        BuildError::Config(error) => MountError::Config(error),
        BuildError::Device(error) => failed(flash.inner().image(), error),
    })?;
    // Of these the scheme's own mount does not know. They are told by the mount that succeeds.
    found.torn += flash.take_given_up();
    let spent = flash.tally().since(&before);
    let summary = MountSummary {
        how,
        seconds: began.elapsed().as_secs_f64(),
        oob_reads: spent.of(Op::OobRead),
        reads: spent.of(Op::Read),
        programs: spent.of(Op::Program) + spent.of(Op::PartialProgram),
        erases: spent.of(Op::Erase),
        found,
    };
    Ok((ftl, summary))
}

impl<M: Medium> Disk<M> {
    /// Mounts the device.
    ///
    /// # Errors
    /// [`MountError`].
    pub fn mount(
        medium: M,
        (row, recipe): (&'static Scheme<'static>, AnyRecipe<Guard<Timeline<M>>>),
        settings: Settings,
        emulate: bool,
    ) -> Result<Self, MountError> {
        let device = medium.image().spec().device.clone();
        let mut flash = Guard::new(Timeline::new(medium, device.timing, device.server));
        flash.stop_clock();
        let mut started = start(&mut flash, (row, &recipe), device.logical_pages, &settings, true);
        // What the mount changes may find no room on the host's disk: it can be read all the same.
        let rescued =
            started.is_err() && flash.inner().image().failure().is_some() && flash.inner_mut().rescue().is_ok();
        if rescued {
            started = start(&mut flash, (row, &recipe), device.logical_pages, &settings, true);
        }
        let (ftl, mounted) = started?;
        flash.reset();
        let page_bytes = device.geometry.page_bytes as usize;
        let mut counts = Counts { rescues: u64::from(rescued), ..Counts::default() };
        counts.hear(&mounted.found);
        Ok(Disk {
            flash,
            ftl: Some(ftl),
            recipe,
            row,
            durable_trim: settings.get("durable-trim") == Some(Value::Switch(true)),
            settings,
            logical_pages: device.logical_pages,
            page_bytes: page_bytes as u64,
            emulate,
            began: Instant::now(),
            page: vec![0; page_bytes],
            zeros: vec![0; page_bytes],
            changed: false,
            rescued,
            damaged: false,
            counts,
            mounted,
            failure: None,
        })
    }

    /// The medium.
    pub fn medium(&self) -> &M {
        self.flash.inner()
    }

    /// The medium, to arm or to harm it.
    pub fn medium_mut(&mut self) -> &mut M {
        self.flash.inner_mut()
    }

    /// Takes the medium out, as if power were cut: nothing is flushed.
    pub fn into_medium(self) -> M {
        self.flash.into_inner().into_inner()
    }

    fn bytes_total(&self) -> u64 {
        u64::from(self.logical_pages) * self.page_bytes
    }

    /// A request arrives, over `bytes` from `offset`: the device is mounted, and the range is on it.
    fn arrive(&mut self, offset: u64, bytes: u64) -> Result<u64, ExportError> {
        if offset.checked_add(bytes).is_none_or(|end| end > self.bytes_total()) {
            return Err(ExportError::Invalid);
        }
        if self.ftl.is_none() {
            self.remount()?;
        }
        let now_ns = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.flash.arrive(now_ns);
        Ok(now_ns)
    }

    #[cold]
    fn remount(&mut self) -> Result<(), ExportError> {
        let medium = self.flash.inner_mut();
        let was_cut = !(self.damaged && medium.is_whole());
        let powered = if self.rescued { medium.rescue() } else { medium.power_up() }.map_err(MountError::Image);
        // What RAM knew has led to a page that cannot be corrected: the flash says what there is without it.
        if std::mem::take(&mut self.damaged) && medium.image_mut().distrust_checkpoint().is_err() {
            return Err(ExportError::Io);
        }
        let row = (self.row, &self.recipe);
        let started = powered.and_then(|()| start(&mut self.flash, row, self.logical_pages, &self.settings, was_cut));
        match started {
            Ok((ftl, mounted)) => {
                self.ftl = Some(ftl);
                self.counts.hear(&mounted.found);
                self.mounted = mounted;
                self.counts.remounts += 1;
                self.counts.rescues += u64::from(self.rescued);
                Ok(())
            }
            Err(error) => {
                self.failure = Some(error.to_string());
                Err(ExportError::Io)
            }
        }
    }

    /// Before a request that changes something: it goes to the file, or fails.
    fn leave_rescue(&mut self) {
        if self.rescued {
            self.rescued = false;
            self.ftl = None;
        }
    }

    /// Has a request that changes nothing carried out, once more with changes beside the file if that takes none.
    fn reading<T>(&mut self, mut work: impl FnMut(&mut Self) -> Result<T, ExportError>) -> Result<T, ExportError> {
        if self.rescued && self.image().bytes_beside() > MOST_BESIDE {
            self.ftl = None;
        }
        match work(self) {
            Err(ExportError::Io) if !self.rescued && self.image().failure().is_some() => {
                self.rescued = true;
                self.ftl = None;
                work(self)
            }
            result => result,
        }
    }

    /// Carries out one page of a request; when the simulated device was done with it.
    #[inline]
    fn page<T>(
        &mut self,
        reads: bool,
        work: impl FnOnce(&mut AnyScheme<Guard<Timeline<M>>>, &mut Guard<Timeline<M>>) -> Result<T, Error<Fault>>,
    ) -> Result<(T, u64), ExportError> {
        let Some(ftl) = &mut self.ftl else { return Err(ExportError::Io) };
        // A copy that came to nothing has left the scheme with a page less to program than the flash has.
        let changes = |image: &Image| (image.totals().programs, image.stopped_changes);
        let before = changes(self.flash.inner().image());
        self.flash.page_begin();
        match work(ftl, &mut self.flash) {
            Ok(result) => Ok((result, self.flash.page_end().end_ns)),
            Err(error) => {
                let unchanged = reads && changes(self.image()) == before;
                Err(self.failed(error, unchanged))
            }
        }
    }

    /// A request failed. A page that cannot be corrected is the end of the request alone if nothing but reading was
    /// done for it; a collection that meets one has stopped half way, and only the flash is sure to be right.
    #[cold]
    fn failed(&mut self, error: Error<Fault>, unchanged: bool) -> ExportError {
        let (uncorrectable, why) = match error {
            Error::Full => return ExportError::NoSpace,
            Error::Corrupt => (true, error.to_string()),
            Error::Flash(fault) => (fault.kind() == FaultKind::Uncorrectable, fault.to_string()),
        };
        self.counts.uncorrectable += u64::from(uncorrectable);
        self.damaged = uncorrectable;
        if !(uncorrectable && unchanged) {
            let cause = self.image().failure().map(|cause| format!(": {cause}")).unwrap_or_default();
            self.failure = Some(format!("{why}{cause}"));
            self.ftl = None;
        }
        ExportError::Io
    }

    /// A request has been carried out: what it did survives the end of this process from here on.
    fn done(&mut self, now_ns: u64, end_ns: u64) -> Result<Done, ExportError> {
        let settled = self.flash.inner_mut().image_mut().settle();
        settled.map_err(|fault| self.failed(Error::Flash(fault), false))?;
        Ok(Done { after_ns: if self.emulate { end_ns.saturating_sub(now_ns) } else { 0 } })
    }

    /// The pages that a range touches, each with the part of it that lies in the range.
    fn parts(&self, offset: u64, bytes: u64) -> impl Iterator<Item = Part> + use<M> {
        let size = self.page_bytes;
        let end = offset + bytes;
        let pages = if bytes == 0 { 0..0 } else { offset / size..end.div_ceil(size) };
        pages.map(move |page| {
            let (start, stop) = (offset.max(page * size), end.min((page + 1) * size));
            Part {
                lpn: Lpn(page as u32),
                in_page: (start - page * size) as usize,
                in_range: (start - offset) as usize,
                bytes: (stop - start) as usize,
                whole: stop - start == size,
            }
        })
    }

    /// Tells the scheme which pages a read or a write is about to ask for.
    fn announce(&mut self, offset: u64, bytes: u64) {
        let first = offset / self.page_bytes;
        let pages = (offset + bytes).div_ceil(self.page_bytes) - first;
        if let Some(ftl) = self.ftl.as_mut().filter(|_| bytes > 0) {
            ftl.request(Lpn(first as u32), pages as u32);
            ftl.request_bytes(bytes);
        }
    }

    /// Reads.
    fn get(&mut self, offset: u64, out: &mut [u8]) -> Result<Done, ExportError> {
        let now_ns = self.arrive(offset, out.len() as u64)?;
        let mut last_ns = 0;
        self.counts.reads += 1;
        self.counts.read_bytes += out.len() as u64;
        self.announce(offset, out.len() as u64);
        for part in self.parts(offset, out.len() as u64) {
            let out = &mut out[part.in_range..part.in_range + part.bytes];
            let (is_mapped, end_ns) = self.page(true, |ftl, flash| {
                let found = ftl.read(flash, part.lpn)?;
                match found {
                    Some(data) => out.copy_from_slice(&data[part.in_page..part.in_page + part.bytes]),
                    None => out.fill(0),
                }
                Ok(found.is_some())
            })?;
            last_ns = last_ns.max(end_ns);
            self.counts.read_pages += 1;
            self.counts.unmapped_reads += u64::from(!is_mapped);
        }
        self.done(now_ns, last_ns)
    }

    /// Writes `data`, or zeros.
    fn put(&mut self, offset: u64, bytes: u64, data: Option<&[u8]>) -> Result<u64, ExportError> {
        let mut end_ns = 0;
        self.changed = true;
        self.counts.writes += 1;
        self.counts.write_bytes += bytes;
        self.announce(offset, bytes);
        for part in self.parts(offset, bytes) {
            let zeros = std::mem::take(&mut self.zeros);
            let mut page = std::mem::take(&mut self.page);
            let source = match data {
                Some(data) => &data[part.in_range..part.in_range + part.bytes],
                None => &zeros[..part.bytes],
            };
            let mut write = |disk: &mut Self| {
                disk.page(!part.whole, |ftl, flash| {
                    if part.whole {
                        return ftl.write(flash, part.lpn, source);
                    }
                    match ftl.read_to_modify(flash, part.lpn)? {
                        Some(old) => page.copy_from_slice(old),
                        None => page.fill(0),
                    }
                    page[part.in_page..part.in_page + part.bytes].copy_from_slice(source);
                    ftl.write(flash, part.lpn, &page)
                })
            };
            let mut written = write(self);
            if written.is_err() && self.ftl.is_none() && self.damaged {
                written = self.remount().and_then(|()| write(self));
            }
            self.zeros = zeros;
            self.page = page;
            end_ns = end_ns.max(written?.1);
            self.counts.write_pages += 1;
            self.counts.partial_writes += u64::from(!part.whole);
        }
        Ok(end_ns)
    }

    /// Discards the pages that lie in the range whole.
    fn discard(&mut self, offset: u64, bytes: u64) -> Result<u64, ExportError> {
        let (first, end) = (offset.div_ceil(self.page_bytes), (offset + bytes) / self.page_bytes);
        self.counts.trims += 1;
        if end <= first {
            return Ok(0);
        }
        self.changed = true;
        let ((), end_ns) = self.page(false, |ftl, flash| ftl.trim(flash, Lpn(first as u32), (end - first) as u32))?;
        Ok(end_ns)
    }
}

/// A page of a request.
#[derive(Clone, Copy)]
struct Part {
    lpn: Lpn,
    /// Where the part begins in its page, and in the request's data.
    in_page: usize,
    in_range: usize,
    bytes: usize,
    whole: bool,
}

impl<M: Medium> Export for Disk<M> {
    fn bytes(&self) -> u64 {
        self.bytes_total()
    }

    fn block_bytes(&self) -> u32 {
        self.page_bytes as u32
    }

    fn read(&mut self, offset: u64, out: &mut [u8]) -> Result<Done, ExportError> {
        self.reading(|disk| disk.get(offset, out))
    }

    fn write(&mut self, offset: u64, data: &[u8]) -> Result<Done, ExportError> {
        self.leave_rescue();
        let now_ns = self.arrive(offset, data.len() as u64)?;
        let end_ns = self.put(offset, data.len() as u64, Some(data))?;
        self.done(now_ns, end_ns)
    }

    fn trim(&mut self, offset: u64, bytes: u64) -> Result<Done, ExportError> {
        self.leave_rescue();
        let now_ns = self.arrive(offset, bytes)?;
        let end_ns = self.discard(offset, bytes)?;
        self.done(now_ns, end_ns)
    }

    /// Whole pages are discarded if discards are durable, else written; pages in part are written.
    fn zero(&mut self, offset: u64, bytes: u64) -> Result<Done, ExportError> {
        self.leave_rescue();
        let now_ns = self.arrive(offset, bytes)?;
        let size = self.page_bytes;
        let (first, last) = (offset.next_multiple_of(size), (offset + bytes) / size * size);
        if !self.durable_trim || last <= first {
            let end_ns = self.put(offset, bytes, None)?;
            return self.done(now_ns, end_ns);
        }
        let mut end_ns = self.discard(first, last - first)?;
        for (start, stop) in [(offset, first), (last, offset + bytes)] {
            if stop > start {
                end_ns = end_ns.max(self.put(start, stop - start, None)?);
            }
        }
        self.done(now_ns, end_ns)
    }

    fn flush(&mut self) -> Result<Done, ExportError> {
        self.leave_rescue();
        let now_ns = self.arrive(0, 0)?;
        self.counts.flushes += 1;
        let ((), end_ns) = self.page(false, |ftl, flash| ftl.flush(flash))?;
        let synced = self.flash.inner_mut().image_mut().sync();
        synced.map_err(|fault| self.failed(Error::Flash(fault), false))?;
        self.done(now_ns, end_ns)
    }

    fn extents(&mut self, offset: u64, bytes: u64, out: &mut Vec<Extent>) -> Result<(), ExportError> {
        self.reading(|disk| disk.arrive(offset, bytes))?;
        let Some(ftl) = &self.ftl else { return Err(ExportError::Io) };
        for part in self.parts(offset, bytes) {
            // Where the scheme would have to read flash to know, data is the safe answer.
            let hole = ftl.is_mapped(part.lpn) == Some(false);
            match out.last_mut().filter(|last| last.hole == hole && part.in_range > 0) {
                Some(last) => last.bytes += part.bytes as u64,
                None => out.push(Extent { bytes: part.bytes as u64, hole }),
            }
        }
        Ok(())
    }

    fn idle(&mut self) -> bool {
        // A device that was lost stays so until somebody asks for something.
        if self.ftl.is_none() || self.rescued || self.arrive(0, 0).is_err() {
            return false;
        }
        let more = self.page(false, |ftl, flash| ftl.idle(flash, IDLE_COPIES)).is_ok_and(|(more, _)| more);
        self.done(0, 0).is_ok() && more
    }
}

impl<M: Medium> AnyDisk for Disk<M> {
    fn mounted(&self) -> &MountSummary {
        &self.mounted
    }
    fn counts(&self) -> Counts {
        self.counts
    }
    fn tally(&self) -> &Tally {
        self.flash.tally()
    }
    fn command_ns(&self, op: Op, mode: Mode) -> u64 {
        self.flash.command_ns(op, mode)
    }
    fn image(&self) -> &Image {
        self.flash.inner().image()
    }
    fn scheme(&self) -> &'static Scheme<'static> {
        self.row
    }
    fn settings(&self) -> &Settings {
        &self.settings
    }
    fn memory(&self) -> Vec<(&'static str, u64)> {
        self.ftl.as_ref().map(Inspect::memory).unwrap_or_default()
    }
    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.ftl.as_ref().map(Inspect::counters).unwrap_or_default()
    }
    fn cache(&self) -> Option<CacheCounters> {
        self.ftl.as_ref().and_then(Inspect::cache)
    }
    fn free_blocks(&self) -> u32 {
        self.ftl.as_ref().map_or(0, Inspect::free_blocks)
    }
    fn audit(&mut self) -> Result<(), String> {
        match &self.ftl {
            Some(ftl) => ftl.audit(&mut self.flash),
            None => Err("the device is not mounted".into()),
        }
    }
    fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    fn is_lost(&self) -> bool {
        self.ftl.is_none()
    }

    fn close(mut self: Box<Self>) -> Result<(), ExportError> {
        self.flush()?;
        let Some(ftl) = &self.ftl else { return Err(ExportError::Io) };
        // Reads may change what a scheme caches; that is not worth a checkpoint.
        if !self.changed && self.image().life() != Life::Dirty {
            return Ok(());
        }
        let saved = ftl.save();
        let stored = self.flash.inner_mut().image_mut().store_checkpoint(self.row.state_version, &saved);
        stored.map_err(|fault| self.failed(Error::Flash(fault), false))
    }
}

#[cfg(test)]
mod tests;

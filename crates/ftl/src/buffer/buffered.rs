//! A scheme behind a write buffer, which is a scheme itself: it is measured, checked and audited like any other.
//!
//! A victim is handed down as one request for each run of consecutive pages, and its pages run beside each other, as
//! those of a host request do; the write that needed the room waits for all of them. A page leaves the buffer only when
//! flash has it: if a victim cannot be written because the device is full, the host's write is refused and nothing is
//! lost. A discard goes to the scheme first, for the same reason. Reads are answered from the buffer; what it does not
//! hold is announced to the scheme in runs too.
//!
//! A flush writes all that is dirty: policies that gather blocks give up their victims one after another, a cache
//! writes its dirty pages in ascending order and keeps them. Background work is the scheme's alone.

use super::{BYTES, BufferPolicy, BufferRow, POLICY, Shape, Victim, by_name};
use crate::{
    Built, CacheCounters, ConfigError, Error, Ftl, Inspect, Loader, MountReport, Outcome, Recipe, Saver, Settings,
};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;
use flash::{Batch, FaultKind, Flash, FlashFault, Geometry, HostData, Lpn, Store};

/// What a buffer counts, beside the scheme: names and meanings. The sizes of flushes follow, `write_buffer_flush_of_N`
/// for N to 2 N − 1 pages.
pub const COUNTERS: &[(&str, &str)] = &[
    ("write_buffer_writes", "pages that the host wrote"),
    (
        "write_buffer_write_hits",
        "of these, pages that were in the buffer: one program saved each, unless flushed between",
    ),
    ("write_buffer_reads", "pages that the host read, those before a partial write left out"),
    ("write_buffer_read_hits", "of these, pages that were in the buffer"),
    ("write_buffer_flushes", "times that dirty pages were written: a victim, or all of a cache at a flush of the host"),
    ("write_buffer_drops", "clean pages that made room without being written"),
    ("write_buffer_requests", "requests that the scheme was handed by them, one for each run of consecutive pages"),
    ("write_buffer_block_requests", "of these, requests for exactly one whole block"),
    ("write_buffer_written_pages", "pages in those requests, padding included"),
    ("write_buffer_padding_reads", "pages read from flash to complete a block"),
];

/// Flushes by size, in powers of two.
const SIZES: [&str; 16] = [
    "write_buffer_flush_of_1",
    "write_buffer_flush_of_2",
    "write_buffer_flush_of_4",
    "write_buffer_flush_of_8",
    "write_buffer_flush_of_16",
    "write_buffer_flush_of_32",
    "write_buffer_flush_of_64",
    "write_buffer_flush_of_128",
    "write_buffer_flush_of_256",
    "write_buffer_flush_of_512",
    "write_buffer_flush_of_1024",
    "write_buffer_flush_of_2048",
    "write_buffer_flush_of_4096",
    "write_buffer_flush_of_8192",
    "write_buffer_flush_of_16384",
    "write_buffer_flush_of_32768",
];

#[derive(Clone, Copy, Default, Debug)]
struct Counters {
    writes: u64,
    write_hits: u64,
    reads: u64,
    read_hits: u64,
    flushes: u64,
    drops: u64,
    requests: u64,
    block_requests: u64,
    written_pages: u64,
    padding_reads: u64,
    sizes: [u64; SIZES.len()],
}

/// A resident page.
#[derive(Clone, Copy, Debug)]
struct Resident {
    /// Where its content lies.
    frame: u32,
    dirty: bool,
}

/// Where the content of a page to be written lies.
#[derive(Clone, Copy, Debug)]
enum Source {
    Frame(u32),
    Padding(u32),
}

/// A page in saved state that is dirty.
const DIRTY: u32 = 1 << 31;

/// A buffer: contents, and who holds which. `D` keeps pages in the medium's form.
#[derive(Clone, Debug)]
struct Buffer<D> {
    policy: Box<dyn BufferPolicy + Send>,
    shape: Shape,
    page_bytes: u32,
    logical_pages: u32,
    resident: BTreeMap<u32, Resident>,
    /// Frames that hold nothing.
    free: Vec<u32>,
    frames: D,
    /// The other pages of a block that is padded, by their offset: means nothing between flushes.
    padding: D,
    pads: bool,
    /// The host's request in progress, and the part of it that the scheme was told of.
    extent: Range<u32>,
    announced: Range<u32>,
    /// A page that was read to be written in part, and whether it was in the buffer: for a count alone, so not saved.
    modifying: Option<(Lpn, bool)>,
    /// What is about to be written; means nothing between flushes.
    list: Vec<(u32, Source)>,
    counters: Counters,
}

impl<D: Store> Buffer<D> {
    /// The buffer that the settings ask for, empty.
    fn plan(g: &Geometry, logical_pages: u32, settings: &Settings) -> Result<Option<Self>, ConfigError> {
        if settings.get(POLICY.name).is_none() {
            return Ok(None);
        }
        let row = by_name(settings.word(&POLICY)).expect("a policy has a row");
        let bytes = settings.count(&BYTES);
        let pages = bytes / u64::from(g.page_bytes);
        check(row, g, logical_pages, bytes, pages)?;
        let shape = Shape { pages: pages as u32, pages_per_block: g.pages_per_block };
        let padding = if row.pads { shape.pages_per_block as usize } else { 0 };
        Ok(Some(Buffer {
            policy: (row.make)(shape, settings),
            shape,
            page_bytes: g.page_bytes,
            logical_pages,
            resident: BTreeMap::new(),
            free: (0..shape.pages).rev().collect(),
            frames: D::new(shape.pages as usize, g.page_bytes as usize),
            padding: D::new(padding, g.page_bytes as usize),
            pads: row.pads,
            extent: 0..0,
            announced: 0..0,
            modifying: None,
            list: Vec::new(),
            counters: Counters::default(),
        }))
    }

    /// The frame of a resident page.
    fn frame(&self, lpn: Lpn) -> Option<usize> {
        self.resident.get(&lpn.0).map(|page| page.frame as usize)
    }

    /// The first resident page of `lpns`, or their end.
    fn next_resident(&self, lpns: Range<u32>) -> u32 {
        self.resident.range(lpns.clone()).next().map_or(lpns.end, |(&lpn, _)| lpn)
    }

    /// A page comes in; there is a free frame.
    fn admit(&mut self, lpn: Lpn, data: &D::User, dirty: bool) {
        let frame = self.free.pop().expect("room was made");
        self.frames.put(frame as usize, data);
        self.resident.insert(lpn.0, Resident { frame, dirty });
        self.policy.admit(lpn, dirty);
    }

    /// A resident page leaves.
    fn forget(&mut self, lpn: Lpn) {
        let page = self.resident.remove(&lpn.0).expect("the page is resident");
        self.free.push(page.frame);
        self.policy.remove(lpn);
    }

    /// Reads a page that is not resident from the scheme, and keeps it if the policy keeps what is read.
    fn fetch<'f, F: Flash<User = D::User>, S: Ftl<F>>(
        &'f mut self,
        scheme: &'f mut S,
        flash: &'f mut F,
        lpn: Lpn,
    ) -> Outcome<F, Option<&'f D::User>> {
        let keep = self.policy.keeps_clean_pages()
            && match self.make_room(scheme, flash, lpn) {
                Ok(()) => true,
                // A full device can still be read.
                Err(Error::Full) => false,
                Err(error) => return Err(error),
            };
        self.announce(scheme, lpn);
        let data = scheme.read(flash, lpn)?;
        if let Some(data) = data.filter(|_| keep) {
            self.admit(lpn, data, false);
        }
        Ok(data)
    }

    /// Tells the scheme of a page that is to be read from it, with those of the host's request that follow and are not
    /// in the buffer either.
    fn announce<F: Flash, S: Ftl<F>>(&mut self, scheme: &mut S, lpn: Lpn) {
        if !self.announced.contains(&lpn.0) {
            let end = if self.extent.contains(&lpn.0) { self.extent.end } else { lpn.0 + 1 };
            self.announced = lpn.0..self.next_resident(lpn.0..end);
            scheme.request(lpn, self.announced.end - lpn.0);
        }
    }

    /// Makes room for a page.
    fn make_room<F: Flash<User = D::User>, S: Ftl<F>>(
        &mut self,
        scheme: &mut S,
        flash: &mut F,
        coming: Lpn,
    ) -> Outcome<F> {
        while self.free.is_empty() {
            let victim = self.policy.victim(Some(coming)).expect("a full buffer has a victim");
            self.evict(scheme, flash, victim)?;
        }
        Ok(())
    }

    /// Writes a victim as far as it is dirty, and drops it.
    fn evict<F: Flash<User = D::User>, S: Ftl<F>>(
        &mut self,
        scheme: &mut S,
        flash: &mut F,
        victim: Victim,
    ) -> Outcome<F> {
        match victim {
            Victim::Page(lpn) => {
                if self.resident[&lpn.0].dirty {
                    self.hand_down(scheme, flash, lpn.0..lpn.0 + 1, false)?;
                } else {
                    self.counters.drops += 1;
                }
                self.forget(lpn);
            }
            Victim::Block { first, pad } => {
                let block = first.0..self.logical_pages.min(first.0 + self.shape.pages_per_block);
                self.hand_down(scheme, flash, block.clone(), pad)?;
                self.forget_all(block);
            }
        }
        Ok(())
    }

    /// The resident pages of a range leave.
    fn forget_all(&mut self, lpns: Range<u32>) {
        loop {
            match self.next_resident(lpns.clone()) {
                lpn if lpn == lpns.end => return,
                lpn => self.forget(Lpn(lpn)),
            }
        }
    }

    /// Writes the dirty pages of a range, and what else it takes to write all of it if it is to be padded.
    fn hand_down<F: Flash<User = D::User>, S: Ftl<F>>(
        &mut self,
        scheme: &mut S,
        flash: &mut F,
        lpns: Range<u32>,
        pad: bool,
    ) -> Outcome<F> {
        self.announced = 0..0;
        let mut list = core::mem::take(&mut self.list);
        list.clear();
        let dirty = self.resident.range(lpns.clone()).filter(|(_, page)| page.dirty);
        list.extend(dirty.map(|(&lpn, page)| (lpn, Source::Frame(page.frame))));
        let size = list.len();
        let mut batch = Batch::on(flash);
        if pad && size < lpns.len() {
            self.pad(scheme, &mut batch, lpns, &mut list)?;
            batch.then();
        }
        for run in list.chunk_by(|a, b| a.0 + 1 == b.0) {
            let first = run[0].0;
            scheme.request(Lpn(first), run.len() as u32);
            for &(lpn, source) in run {
                let data = match source {
                    Source::Frame(frame) => self.frames.get(frame as usize),
                    Source::Padding(offset) => self.padding.get(offset as usize),
                };
                batch.page(|flash| scheme.write(flash, Lpn(lpn), data))?;
            }
            let whole = run.len() as u32 == self.shape.pages_per_block;
            self.counters.requests += 1;
            self.counters.block_requests += u64::from(whole && first.is_multiple_of(self.shape.pages_per_block));
            self.counters.written_pages += run.len() as u64;
        }
        self.counters.flushes += 1;
        self.counters.sizes[(size.ilog2() as usize).min(SIZES.len() - 1)] += 1;
        self.list = list;
        Ok(())
    }

    /// Reads the pages of a block that are not in the buffer. Those that hold nothing, or cannot be read, stay as they
    /// are.
    fn pad<F: Flash<User = D::User>, S: Ftl<F>>(
        &mut self,
        scheme: &mut S,
        batch: &mut Batch<'_, F>,
        lpns: Range<u32>,
        list: &mut Vec<(u32, Source)>,
    ) -> Outcome<F> {
        let mut told = lpns.start;
        for lpn in lpns.clone() {
            if self.resident.contains_key(&lpn) {
                continue;
            }
            if lpn >= told {
                told = self.next_resident(lpn..lpns.end);
                scheme.request(Lpn(lpn), told - lpn);
            }
            let offset = lpn % self.shape.pages_per_block;
            let padding = &mut self.padding;
            let found = batch.page(|flash| match scheme.read(flash, Lpn(lpn)) {
                Ok(data) => {
                    data.into_iter().for_each(|data| padding.put(offset as usize, data));
                    Ok(data.is_some())
                }
                Err(Error::Flash(fault)) if fault.kind() == FaultKind::Uncorrectable => Ok(false),
                Err(error) => Err(error),
            })?;
            if found {
                self.counters.padding_reads += 1;
                list.push((lpn, Source::Padding(offset)));
            }
        }
        list.sort_unstable_by_key(|&(lpn, _)| lpn);
        Ok(())
    }

    /// Writes everything that is dirty.
    fn drain<F: Flash<User = D::User>, S: Ftl<F>>(&mut self, scheme: &mut S, flash: &mut F) -> Outcome<F> {
        if !self.policy.keeps_clean_pages() {
            while let Some(victim) = self.policy.victim(None) {
                self.evict(scheme, flash, victim)?;
            }
            return Ok(());
        }
        if !self.resident.values().any(|page| page.dirty) {
            return Ok(());
        }
        self.hand_down(scheme, flash, 0..self.logical_pages, false)?;
        for (&lpn, page) in self.resident.iter_mut().filter(|(_, page)| page.dirty) {
            page.dirty = false;
            self.policy.clean(Lpn(lpn));
        }
        Ok(())
    }

    fn memory(&self) -> [(&'static str, u64); 5] {
        let (pages, page_bytes) = (u64::from(self.shape.pages), u64::from(self.page_bytes));
        let padding = if self.pads { u64::from(self.shape.pages_per_block) * page_bytes } else { 0 };
        [
            ("write buffer data", pages * page_bytes),
            ("write buffer padding", padding),
            ("write buffer pages", 8 * pages),
            ("write buffer groups", 12 * u64::from(self.policy.most_groups())),
            ("write buffer state", 20),
        ]
    }

    fn counters(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let c = &self.counters;
        let counts = [
            c.writes,
            c.write_hits,
            c.reads,
            c.read_hits,
            c.flushes,
            c.drops,
            c.requests,
            c.block_requests,
            c.written_pages,
            c.padding_reads,
        ];
        let sizes = SIZES.iter().copied().zip(c.sizes).filter(|&(_, count)| count > 0);
        COUNTERS.iter().map(|&(name, _)| name).zip(counts).chain(sizes)
    }

    fn audit(&self) -> Result<(), String> {
        let (held, free) = (self.resident.len(), self.free.len());
        if held + free != self.shape.pages as usize {
            return Err(format!("the buffer holds {held} pages and has {free} free of {}", self.shape.pages));
        }
        let mut frames: Vec<u32> = self.resident.values().map(|page| page.frame).chain(self.free.clone()).collect();
        frames.sort_unstable();
        if frames.iter().zip(0..).any(|(&frame, expected)| frame != expected) {
            return Err("two pages of the buffer share a frame".into());
        }
        if self.policy.pages() as usize != held {
            return Err(format!("the buffer holds {held} pages, its policy knows of {}", self.policy.pages()));
        }
        let clean = self.resident.iter().find(|(_, page)| !page.dirty).filter(|_| !self.policy.keeps_clean_pages());
        match clean {
            Some((lpn, _)) => Err(format!("LPN {lpn} is clean in a buffer of writes")),
            None => Ok(()),
        }
    }

    /// The request in progress, what the policy knows, which pages, dirty or clean, 4 B each, and what they hold.
    fn save(&self, out: &mut Saver) {
        for pages in [&self.extent, &self.announced] {
            out.u32(pages.start);
            out.u32(pages.end);
        }
        self.policy.save(out);
        for (&lpn, page) in &self.resident {
            out.u32(if page.dirty { lpn | DIRTY } else { lpn });
            out.append(|bytes| self.frames.save(page.frame as usize, bytes));
        }
    }

    fn load(&mut self, from: &mut Loader<'_>) {
        self.extent = from.u32()..from.u32();
        self.announced = from.u32()..from.u32();
        self.policy.load(from);
        for _ in 0..self.policy.pages() {
            let page = from.u32();
            let frame = self.free.pop().expect("no more pages were saved than fit");
            self.resident.insert(page & !DIRTY, Resident { frame, dirty: page & DIRTY != 0 });
            from.split(|bytes| self.frames.load(frame as usize, bytes));
        }
    }
}

/// Whether a buffer suits a device.
fn check(row: &BufferRow, g: &Geometry, logical_pages: u32, bytes: u64, pages: u64) -> Result<(), ConfigError> {
    let refuse = |what: String, least: u64, size: &str| {
        let fix = least * u64::from(g.page_bytes);
        let fix = if fix.is_multiple_of(1024) { format!("{}KiB", fix / 1024) } else { format!("{fix}") };
        Err(ConfigError { key: BYTES.name, what, fix: format!("give {size} --buffer {}:{fix}", row.name) })
    };
    let least = if row.gathers_blocks { g.pages_per_block } else { 1 };
    if pages < u64::from(least) {
        let what = match least {
            1 => format!("a write buffer of {bytes} bytes holds no page of {} bytes", g.page_bytes),
            _ => format!("{} gathers blocks of {least} pages, and {bytes} bytes hold {pages}", row.name),
        };
        return refuse(what, u64::from(least), "at least");
    }
    if pages > u64::from(logical_pages) {
        let what =
            format!("a write buffer of {bytes} bytes is larger than the device, which exports {logical_pages} pages");
        return refuse(what, u64::from(logical_pages), "at most");
    }
    Ok(())
}

/// A scheme behind the write buffer that its settings name; without one, everything is handed through.
#[derive(Clone, Debug)]
pub struct Buffered<S, D> {
    pub(super) scheme: S,
    buffer: Option<Buffer<D>>,
}

impl<F: Flash, S: Ftl<F>> Ftl<F> for Buffered<S, <F::User as HostData>::Store> {
    fn request(&mut self, first: Lpn, pages: u32) {
        match &mut self.buffer {
            Some(buffer) => (buffer.extent, buffer.announced) = (first.0..first.0 + pages, 0..0),
            None => self.scheme.request(first, pages),
        }
    }

    fn request_bytes(&mut self, bytes: u64) {
        if self.buffer.is_none() {
            self.scheme.request_bytes(bytes);
        }
    }

    fn read<'f>(&'f mut self, flash: &'f mut F, lpn: Lpn) -> Outcome<F, Option<&'f F::User>> {
        let Buffered { scheme, buffer: Some(buffer) } = self else { return self.scheme.read(flash, lpn) };
        buffer.counters.reads += 1;
        if let Some(frame) = buffer.frame(lpn) {
            buffer.counters.read_hits += 1;
            buffer.policy.hit(lpn, false);
            return Ok(Some(buffer.frames.get(frame)));
        }
        buffer.fetch(scheme, flash, lpn)
    }

    fn is_mapped(&self, lpn: Lpn) -> Option<bool> {
        match self.buffer.as_ref().and_then(|buffer| buffer.frame(lpn)) {
            Some(_) => Some(true),
            None => self.scheme.is_mapped(lpn),
        }
    }

    fn read_to_modify<'f>(&'f mut self, flash: &'f mut F, lpn: Lpn) -> Outcome<F, Option<&'f F::User>> {
        let Buffered { scheme, buffer: Some(buffer) } = self else { return self.scheme.read_to_modify(flash, lpn) };
        let frame = buffer.frame(lpn);
        buffer.modifying = Some((lpn, frame.is_some()));
        if let Some(frame) = frame {
            return Ok(Some(buffer.frames.get(frame)));
        }
        // Of a write request only the first and the last page may be read.
        buffer.announced = lpn.0..lpn.0 + 1;
        scheme.request(lpn, 1);
        buffer.fetch(scheme, flash, lpn)
    }

    fn write(&mut self, flash: &mut F, lpn: Lpn, data: &F::User) -> Outcome<F> {
        let Buffered { scheme, buffer: Some(buffer) } = self else { return self.scheme.write(flash, lpn, data) };
        let resident = buffer.resident.get_mut(&lpn.0);
        let hit = match buffer.modifying.take() {
            Some((read, hit)) if read == lpn => hit,
            _ => resident.is_some(),
        };
        match resident {
            Some(page) => {
                page.dirty = true;
                buffer.frames.put(page.frame as usize, data);
                buffer.policy.hit(lpn, true);
            }
            None => {
                buffer.make_room(scheme, flash, lpn)?;
                buffer.admit(lpn, data, true);
            }
        }
        buffer.counters.writes += 1;
        buffer.counters.write_hits += u64::from(hit);
        Ok(())
    }

    fn trim(&mut self, flash: &mut F, first: Lpn, count: u32) -> Outcome<F> {
        self.scheme.trim(flash, first, count)?;
        if let Some(buffer) = &mut self.buffer {
            buffer.forget_all(first.0..first.0 + count);
        }
        Ok(())
    }

    fn flush(&mut self, flash: &mut F) -> Outcome<F> {
        if let Some(buffer) = &mut self.buffer {
            buffer.drain(&mut self.scheme, flash)?;
        }
        self.scheme.flush(flash)
    }

    fn idle(&mut self, flash: &mut F, copies: u32) -> Outcome<F, bool> {
        self.scheme.idle(flash, copies)
    }
}

impl<F: Flash, S: Inspect<F>> Inspect<F> for Buffered<S, <F::User as HostData>::Store> {
    fn hint(&self, lpn: Lpn) {
        self.scheme.hint(lpn);
    }

    fn hint_soon(&self, lpn: Lpn) {
        self.scheme.hint_soon(lpn);
    }

    fn memory(&self) -> Vec<(&'static str, u64)> {
        let own = self.buffer.iter().flat_map(|buffer| buffer.memory()).filter(|&(_, bytes)| bytes > 0);
        self.scheme.memory().into_iter().chain(own).collect()
    }

    fn cache(&self) -> Option<CacheCounters> {
        self.scheme.cache()
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let own = self.buffer.iter().flat_map(|buffer| buffer.counters());
        self.scheme.counters().into_iter().chain(own).collect()
    }

    fn filling(&mut self, filling: bool) {
        self.scheme.filling(filling);
    }

    fn reset_counters(&mut self) {
        self.scheme.reset_counters();
        if let Some(buffer) = &mut self.buffer {
            buffer.counters = Counters::default();
        }
    }

    fn erase_counts(&self) -> &[u32] {
        self.scheme.erase_counts()
    }

    fn free_blocks(&self) -> u32 {
        self.scheme.free_blocks()
    }

    fn audit(&self, flash: &mut F) -> Result<(), String> {
        self.buffer.as_ref().map_or(Ok(()), Buffer::audit)?;
        self.scheme.audit(flash)
    }

    fn audit_free(&self, flash: &mut F) -> Result<(), String> {
        self.scheme.audit_free(flash)
    }

    fn save(&self) -> Vec<u8> {
        let mut out = Saver::default();
        if let Some(buffer) = &self.buffer {
            buffer.save(&mut out);
        }
        out.append(|bytes| bytes.extend(self.scheme.save()));
        out.finish()
    }
}

/// The recipe of a scheme behind the write buffer that its settings name.
#[derive(Clone, Copy, Debug)]
pub struct Behind<R>(pub R);

impl<F: Flash, R: Recipe<F>> Recipe<F> for Behind<R> {
    type Scheme = Buffered<R::Scheme, <F::User as HostData>::Store>;

    fn format(&self, flash: &mut F, logical_pages: u32, settings: &Settings) -> Built<F, Self::Scheme> {
        let buffer = Buffer::plan(flash.geometry(), logical_pages, settings)?;
        let scheme = self.0.format(flash, logical_pages, settings)?;
        Ok(Buffered { scheme, buffer })
    }

    fn mount(&self, flash: &mut F, logical_pages: u32, settings: &Settings) -> Built<F, (Self::Scheme, MountReport)> {
        let buffer = Buffer::plan(flash.geometry(), logical_pages, settings)?;
        let (scheme, report) = self.0.mount(flash, logical_pages, settings)?;
        Ok((Buffered { scheme, buffer }, report))
    }

    fn restore(&self, geometry: &Geometry, logical_pages: u32, settings: &Settings, bytes: &[u8]) -> Self::Scheme {
        let mut from = Loader::new(bytes);
        let mut buffer = Buffer::plan(geometry, logical_pages, settings).expect("the settings were accepted before");
        if let Some(buffer) = &mut buffer {
            buffer.load(&mut from);
        }
        Buffered { scheme: self.0.restore(geometry, logical_pages, settings, from.rest()), buffer }
    }
}

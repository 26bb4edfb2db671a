//! Images of which somebody changes bytes: each page reads as what it was, as an error, or as one of so many older
//! versions as the mounts have said (docs/mount.md, *Damaged pages*).

use super::{Mount, PAGE, PAGES, holes};
use crate::disk::AnyDisk;
use crate::export::ExportError;
use crate::image::{Access, Image, Scrub, Unsound, layout};
use crate::verify::{Verified, verify};
use flash::{Lpn, Ppn, Rng};
use std::fs;
use std::ops::Range;
use std::path::Path;

/// Writes to an image after it was harmed: collections meet what is damaged.
const WRITES: u64 = 300;

/// Wrong bits of a record that its code corrects (docs/mount.md).
const RECORD_BITS: usize = 12;

/// What is done to a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Harm {
    /// Bits flip.
    Flips,
    /// Up to 256 bytes in a row are zeros.
    Zeros,
    /// 64 bytes, a record or as much of anything else, come from another place; or an entry of the block table.
    Copies,
    /// The file ends earlier.
    Cut,
}

impl Harm {
    /// All of them.
    pub(crate) const ALL: [Harm; 4] = [Harm::Flips, Harm::Zeros, Harm::Copies, Harm::Cut];

    /// Words for a message.
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Harm::Flips => "flipped bits",
            Harm::Zeros => "zeros",
            Harm::Copies => "bytes of another place",
            Harm::Cut => "an early end",
        }
    }

    /// How often it is done to a file, few times mostly.
    pub(crate) const fn times(self) -> [usize; 6] {
        match self {
            Harm::Flips => [1, 1, 2, 5, 20, 100],
            Harm::Zeros | Harm::Copies => [1, 1, 1, 2, 3, 5],
            Harm::Cut => [1; 6],
        }
    }

    /// Does it `times` times within a part of the file.
    pub(crate) fn harm(self, bytes: &mut Vec<u8>, area: &Range<u64>, (times, places): (usize, Places), rng: &mut Rng) {
        for _ in 0..if area.is_empty() { 0 } else { times } {
            let at = (area.start + rng.below(area.end - area.start)) as usize;
            match self {
                Harm::Flips => bytes[at] ^= 1 << rng.below(8),
                Harm::Zeros => {
                    // Whole records as often as not.
                    let (at, size) = match rng.below(2) {
                        0 => (at, 1 + rng.below(255) as usize),
                        _ => (at / 64 * 64, 64 << rng.below(3)),
                    };
                    let end = (at + size).min(area.end as usize);
                    bytes[at.max(area.start as usize)..end].fill(0);
                }
                Harm::Copies => {
                    let from = (area.start + rng.below(area.end - area.start)) as usize;
                    let (size, [from, to]) = if places.is_table(area) {
                        (ENTRY, [from, at].map(|at| places.entry(at)))
                    } else {
                        (64, [from, at].map(|at| at / 64 * 64))
                    };
                    let end = (from + size).min(bytes.len()).min(from + bytes.len() - to);
                    bytes.copy_within(from..end, to);
                }
                Harm::Cut => bytes.truncate(at),
            }
        }
    }
}

/// Where records, data and spare areas begin in the file, and bytes of each; where the flash ends; its blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places {
    pages: [(u64, u64); 3],
    end: u64,
    blocks: usize,
}

/// Two headers and the state are in front of the block table, which is there twice.
const UNIT: usize = layout::UNIT as usize;
const TABLE: usize = 3 * UNIT;
const ENTRY: usize = layout::ENTRY as usize;

impl Places {
    pub(crate) fn of(image: &Image) -> Places {
        let ([records, data, spares, end], geometry) = (image.areas(), image.spec().device.geometry);
        let (page, spare) = (u64::from(geometry.page_bytes), u64::from(geometry.oob_bytes));
        let blocks = geometry.block_count() as usize;
        Places { pages: [(records, 64), (data, page), (spares, spare)], end, blocks }
    }

    /// Whether what stands at a place is of blocks and pages.
    pub(crate) fn is_flash(&self, place: u64) -> bool {
        (TABLE as u64..self.end).contains(&place)
    }

    /// Whether codes correct so many flipped bits in a part of the file wherever they are: of a record, and of pages
    /// and their spare areas up to `frame` bits in a frame of the image's own code.
    pub(crate) fn corrects(&self, area: &Range<u64>, bits: usize, frame: Option<u32>) -> bool {
        let [(records, _), (data, _), _] = self.pages;
        let within = |start, end| area.start >= start && area.end <= end;
        let corrected = frame.map_or(0, |bits| bits as usize);
        within(records, data) && bits <= RECORD_BITS || within(data, self.end) && bits <= corrected
    }

    /// Flips a bit of each record, of the data of each page and of each spare area.
    pub(crate) fn flip_each(&self, bytes: &mut [u8], rng: &mut Rng) {
        let [(records, record), (data, page), (spares, spare)] = self.pages;
        for (part, size) in [(records..data, record), (data..spares, page), (spares..self.end, spare)] {
            for unit in bytes[part.start as usize..part.end as usize].chunks_exact_mut(size as usize) {
                unit[rng.below(size) as usize] ^= 1 << rng.below(8);
            }
        }
    }

    /// The parts of a file of `size` bytes, each of them to be harmed as often: twice the records, which say most.
    pub(crate) fn areas(&self, size: u64) -> [Range<u64>; 8] {
        let [(records, _), (data, _), (spares, _)] = self.pages;
        let end = self.end;
        // The header, and the state with the block table.
        [records..data, data..spares, spares..end, end..size, 0..8192, 8192..records, records..data, 0..size]
    }

    /// Both copies of the header, and of each entry of the block table.
    fn twins(&self) -> impl Iterator<Item = [Range<usize>; 2]> {
        let table = self.table_bytes();
        let twins = move |at| [at..at + ENTRY, at + table..at + table + ENTRY];
        core::iter::once([0..UNIT, UNIT..2 * UNIT]).chain((TABLE..TABLE + table).step_by(ENTRY).map(twins))
    }

    /// Bytes of one of the two block tables, which ends in bytes that are no entry.
    fn table_bytes(&self) -> usize {
        (self.pages[0].0 as usize - TABLE) / 2
    }

    /// Whether a part of the file is the state with the block table.
    fn is_table(&self, area: &Range<u64>) -> bool {
        area.start >= 2 * UNIT as u64 && area.end <= self.pages[0].0
    }

    /// The entry of either block table that `at` leads to, or as many bytes of the state.
    fn entry(&self, at: usize) -> usize {
        let table = self.table_bytes();
        match at.checked_sub(TABLE) {
            Some(at) => TABLE + at / table * table + at % table / ENTRY % self.blocks * ENTRY,
            None => at / ENTRY * ENTRY,
        }
    }
}

/// What something that a page reads as has been.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Was {
    /// What it is to be.
    Newest,
    /// What it was once, or zeros.
    Older,
    /// Never its own.
    Nothing,
}

/// What was in the pages of an image before it was harmed.
pub(crate) trait Memory {
    /// What such a content of a page has been.
    fn was(&self, page: usize, content: &[u8]) -> Was;

    /// Whether a page was never written, or was discarded.
    fn is_blank(&self, page: usize) -> bool;
}

/// What became of harmed images.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Aftermath {
    /// Images.
    pub images: u64,
    /// Of these, not opened, or not mounted.
    pub refused: u64,
    /// Pages read after the mount, and of these with an I/O error.
    pub read: u64,
    /// See `read`.
    pub errors: u64,
    /// Pages that read as an older version or zeros, then or later.
    pub stale: u64,
    /// Pages that mounts took for torn or could not read: so many may be stale.
    pub said: u64,
    /// Discarded pages that were back.
    pub undone: u64,
    /// Wrong bits that codes set right.
    pub corrected_bits: u64,
    /// Images that `ftlab image verify` calls sound, and damaged pages that it names in the others.
    pub sound: u64,
    /// See `sound`.
    pub named: u64,
}

impl Aftermath {
    /// Adds what became of others.
    pub fn add(&mut self, more: &Aftermath) {
        let Aftermath { images, refused, read, errors, stale, said, undone, corrected_bits, sound, named } = more;
        self.images += images;
        self.refused += refused;
        self.read += read;
        self.errors += errors;
        self.stale += stale;
        self.said += said;
        self.undone += undone;
        self.corrected_bits += corrected_bits;
        self.sound += sound;
        self.named += named;
    }
}

/// What is known of an image that is to be harmed, or of the harm.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Facts {
    /// Codes correct all that was changed.
    pub(crate) harmless: bool,
    /// It was always shut down, so that no power cut has torn a page.
    pub(crate) uninterrupted: bool,
}

/// An image that is to be harmed.
pub(crate) struct Victim<'a> {
    /// Where the harmed file is made.
    pub(crate) path: &'a Path,
    /// The whole file, of an image that was killed or shut down.
    pub(crate) whole: &'a [u8],
    pub(crate) places: Places,
    pub(crate) mount: Mount,
    pub(crate) memory: &'a dyn Memory,
    pub(crate) facts: Facts,
}

/// Pages that read as older versions, and how many may, by what all mounts have said.
#[derive(Default)]
struct Old {
    is: Vec<bool>,
    was: u64,
    allowed: u64,
    /// Discarded pages that are back, and what mounts have said of records of discards.
    undone: u64,
    lost_discards: u64,
    /// What was said before the image was opened last.
    before: u64,
}

impl Victim<'_> {
    /// Writes these bytes to the file, whose head or end may be harmed too, and looks at what has become of it.
    ///
    /// # Errors
    /// What is wrong.
    pub(crate) fn suffer(&self, bytes: &[u8], rng: &mut Rng) -> Result<Aftermath, String> {
        fs::write(self.path, bytes).map_err(|error| format!("the host cannot write: {error}"))?;
        let mut done = Aftermath { images: 1, ..Aftermath::default() };
        let verified = self.verify(bytes)?;
        let image = Image::open(self.path, Access::Use);
        if image.is_ok() != verified.is_some() {
            return Err("it can be opened to be used or to be looked at, and not both".into());
        }
        let cut = (bytes.len() as u64) < self.places.end;
        if cut && image.is_ok() {
            return Err(format!("of {} bytes {} are there, and it is opened", self.whole.len(), bytes.len()));
        }
        // Each page may be damaged, and the others are to be had: only header and block table are needed, and they are
        // there twice.
        let is_lost = |part: &Range<usize>| self.whole[part.clone()] != bytes[part.clone()];
        let may_be_refused = cut || self.places.twins().any(|twins| twins.iter().all(is_lost));
        let mut refused = || {
            done.refused += 1;
            if may_be_refused { Ok(done.clone()) } else { Err("it is refused for damaged pages".to_owned()) }
        };
        let (Ok(image), Some(verified)) = (image, verified) else { return refused() };
        let Ok(mut disk) = (self.mount)(image) else {
            return if verified.contents.is_err() {
                refused()
            } else {
                Err("it cannot be mounted, and verify has mounted it".into())
            };
        };
        if verified.contents.is_err() {
            return Err(format!("it is mounted, and verify says {:?}", verified.findings()));
        }
        let mut old = Old { is: vec![false; PAGES], ..Old::default() };
        let mut written = vec![None; PAGES];
        let errors = self.look(&mut *disk, &mut old, &written)?;
        self.agree(&verified, bytes, &errors, &old)?;
        self.costs_nothing(&errors, &old)?;
        done.sound = u64::from(verified.findings().is_empty());
        done.named = (verified.scrub.bad_records.len() + verified.scrub.bad_data.len()) as u64;
        (done.read, done.errors) = (PAGES as u64, errors.len() as u64);
        // It may say that an invariant does not hold.
        let _ = disk.audit();
        self.write(&mut *disk, &mut written, rng)?;
        let errors = self.look(&mut *disk, &mut old, &written)?;
        self.costs_nothing(&errors, &old)?;
        done.corrected_bits = disk.image().corrected_bits();
        // A kill, and all is found by what stands on flash.
        drop(disk);
        self.new_pages_are_whole(bytes)?;
        let image = Image::open(self.path, Access::Use).map_err(|error| format!("after a kill: {error}"))?;
        let mut disk = (self.mount)(image).map_err(|error| format!("after a kill: {error}"))?;
        old.before = old.allowed;
        let errors = self.look(&mut *disk, &mut old, &written)?;
        if let Some(page) = errors.iter().find(|&&page| written[page as usize].is_some()) {
            return Err(format!("page {page} was written, and cannot be read after a kill"));
        }
        self.costs_nothing(&errors, &old)?;
        let _ = disk.close();
        (done.stale, done.said, done.undone) = (old.was, old.allowed, old.undone);
        Ok(done)
    }

    /// A kill tears no page. What was programmed since the file had these bytes is whole, or says that it copies
    /// a page that is lost.
    fn new_pages_are_whole(&self, bytes: &[u8]) -> Result<(), String> {
        let image = Image::open(self.path, Access::Look);
        let scrub = image.map_err(|error| format!("after a kill: {error}"))?.scrub();
        let now = fs::read(self.path).map_err(|error| error.to_string())?;
        let (start, size) = self.places.pages[0];
        let is_new = |ppn: Ppn| {
            let record = (start + u64::from(ppn.0) * size) as usize..(start + u64::from(ppn.0 + 1) * size) as usize;
            now[record.clone()] != bytes[record]
        };
        let maybe_torn = scrub.map_err(|_| "the host cannot read")?.maybe_torn;
        match maybe_torn.iter().find(|page| page.lpn.is_some() && is_new(page.ppn)) {
            Some(Unsound { ppn, .. }) => Err(format!("after a kill: page {ppn} was programmed since, and may be torn")),
            None => Ok(()),
        }
    }

    /// What codes correct costs nothing, neither at once nor later.
    fn costs_nothing(&self, errors: &[u64], old: &Old) -> Result<(), String> {
        if !self.facts.harmless || errors.is_empty() && old.is.iter().all(|is| !is) {
            return Ok(());
        }
        let stale: Vec<_> = (0..PAGES).filter(|&page| old.is[page]).collect();
        Err(format!("so few bits cost something: errors {errors:?}, older versions {stale:?}"))
    }

    /// What `ftlab image verify` says of the file, which holds these bytes; nothing if it is no image any more.
    ///
    /// # Errors
    /// What is wrong.
    pub(crate) fn verify(&self, bytes: &[u8]) -> Result<Option<Verified>, String> {
        let Ok(image) = Image::open(self.path, Access::Look) else { return Ok(None) };
        let verified = verify(image).map_err(|error| format!("verify: {error}"))?;
        let is_same = fs::read(self.path).map_err(|error| error.to_string())? == bytes;
        if is_same { Ok(Some(verified)) } else { Err("verify has written to the image".into()) }
    }

    /// What a page is, in which `written` may have been put since.
    fn was(&self, page: usize, written: &[Option<Vec<u8>>], content: &[u8]) -> Was {
        match &written[page] {
            Some(newest) if newest == content => Was::Newest,
            Some(_) => Was::Nothing,
            None => self.memory.was(page, content),
        }
    }

    /// Every page is what it was, or an error, or one of as many older versions as the mount has said that there may
    /// be. Returns those that are an error.
    fn look(&self, disk: &mut dyn AnyDisk, old: &mut Old, written: &[Option<Vec<u8>>]) -> Result<Vec<u64>, String> {
        let holes = holes(disk);
        let mut out = vec![0; PAGE];
        let mut errors = Vec::new();
        for (page, is_hole) in holes.into_iter().enumerate() {
            if disk.read((page * PAGE) as u64, &mut out).is_err() {
                errors.push(page as u64);
                continue;
            }
            match self.was(page, written, &out) {
                Was::Newest if is_hole && out.iter().any(|&byte| byte != 0) => {
                    return Err(format!("page {page} is called a hole and holds data"));
                }
                Was::Newest => {}
                Was::Nothing => return Err(format!("page {page} is nothing that was written")),
                Was::Older if std::mem::replace(&mut old.is[page], true) => {}
                // A page of a map, or of records, may have known of several discards.
                Was::Older if self.memory.is_blank(page) => old.undone += 1,
                Was::Older => old.was += 1,
            }
        }
        let counts = disk.counts();
        old.allowed = old.before + counts.perhaps_stale;
        old.lost_discards += counts.lost_discards;
        let Old { was, allowed, undone, lost_discards, .. } = *old;
        if was > allowed {
            return Err(format!("{was} pages are stale, {allowed} were said: {:?}", disk.mounted().found));
        }
        if undone > 0 && allowed + lost_discards == 0 {
            return Err(format!("{undone} discards are undone and nothing was said: {:?}", disk.mounted().found));
        }
        Ok(errors)
    }

    /// Holds what `ftlab image verify` says of an image with these bytes against the harm that was done to it, and
    /// against what reading it has found: which pages could not be read, and how many were older versions.
    fn agree(&self, verified: &Verified, bytes: &[u8], errors: &[u64], old: &Old) -> Result<(), String> {
        let Scrub { torn, bad_records, bad_data, .. } = &verified.scrub;
        if verified.unreadable() != errors {
            return Err(format!("verify cannot read {:?}, and {errors:?} cannot be read", verified.unreadable()));
        }
        // It names no page of which nothing was changed.
        for ppn in bad_records.iter().chain(bad_data.iter().map(|Unsound { ppn, .. }| ppn)) {
            let is_changed = self.places.pages.iter().any(|(start, size)| {
                let part = (start + u64::from(ppn.0) * size) as usize..(start + u64::from(ppn.0 + 1) * size) as usize;
                self.whole[part.clone()] != bytes[part]
            });
            if !is_changed {
                return Err(format!("verify calls page {ppn} damaged, and it is as it was written"));
            }
        }
        // A page without a record may have been anybody's, one of metadata may have led to any other.
        let is_vague =
            verified.damaged_state || !bad_records.is_empty() || bad_data.iter().any(|page| page.lpn.is_none());
        let is_named = |lpn: u64| bad_data.iter().any(|page| page.lpn == Some(Lpn(lpn as u32)));
        if let Some(lpn) = errors.iter().find(|&&lpn| !is_named(lpn) && !is_vague) {
            return Err(format!("page {lpn} is lost, and verify names no page that was its own"));
        }
        let (named, torn) = ((bad_records.len() + bad_data.len()) as u64, *torn);
        let Old { was, undone, .. } = *old;
        if was > named + torn && !verified.damaged_state {
            let findings = verified.findings();
            return Err(format!("{was} pages are stale, verify names {named} pages and {torn} torn: {findings:?}"));
        }
        if undone > 0 && named + torn == 0 && !verified.damaged_state {
            return Err(format!("{undone} discards are undone, and verify names no page"));
        }
        if bytes == self.whole && !verified.findings().is_empty() {
            return Err(format!("nothing was changed, and verify says: {}", verified.findings().join("; ")));
        }
        if self.facts.uninterrupted && torn > 0 && !verified.damaged_state {
            return Err(format!("verify takes {torn} pages for torn by a power cut, of which there was none"));
        }
        if verified.findings().is_empty() && (named > 0 || !errors.is_empty()) {
            return Err("verify calls it sound".into());
        }
        Ok(())
    }

    /// Writes half of the pages again and again: what a write meets does not stop it.
    fn write(&self, disk: &mut dyn AnyDisk, written: &mut [Option<Vec<u8>>], rng: &mut Rng) -> Result<(), String> {
        for _ in 0..WRITES {
            let page = rng.below(PAGES as u64 / 2) as usize * 2;
            let content: Vec<u8> = (0..PAGE / 8).flat_map(|_| rng.bits().to_le_bytes()).collect();
            let at = (page * PAGE) as u64;
            match disk.write(at, &content) {
                Ok(_) => written[page] = Some(content),
                Err(ExportError::Io) => {
                    let why = (disk.failure(), disk.mounted().found, disk.free_blocks());
                    return Err(format!("page {page} cannot be written: {why:?}"));
                }
                Err(_) => {}
            }
        }
        Ok(())
    }
}

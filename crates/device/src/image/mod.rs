//! A NAND chip in a file.
//!
//! [`Image`] keeps what [`flash::Nand`] keeps in memory, under the same rules and as strictly: a program out of order,
//! of a page that is not blank or beyond the NOP limit, of both modes in one block, a command to a bad block and a read
//! of a blank page are bugs of the scheme and panic. What it adds is that everything is there again when the process is
//! gone.
//!
//! ```text
//!   header, 2 copies │ state │ block table, 2 copies │ page records │ page data │ spare areas │ checkpoint
//!   text, written    │ fresh │ 16 B a block: erases, │ 64 B a page  │ a page    │ bytes of a  │ RAM of the
//!   once             │ clean │ generation, flags     │              │ each      │ scheme's    │ scheme
//!                    │ dirty │                       │              │           │ own         │
//! ```
//!
//! **Always a prefix.** A program writes the data, what the scheme keeps in the spare area, and then the record; an
//! erase is one small write that gives the block a new *generation*, and a page is blank unless its record names the
//! present one. A record never lies across two pages of the host's cache, so the kernel takes each of them whole or not
//! at all. Therefore, whenever the process is killed, the file holds exactly the effect of the commands up to some
//! point: what a power cut between two commands leaves, the mildest case of docs/fault-model.md. The harsher ones are
//! made by [`flash::PowerCut`], through [`Damage`].
//!
//! **Gathered, then settled.** Programs reach the file together, without giving up the prefix (`gather`).
//! [`Image::settle`] says when: what was done before it survives the process. A [`crate::Disk`] settles before it
//! answers a request. An image that is dropped with programs still gathered is one whose process was killed before
//! them.
//!
//! **Never silently wrong.** Every record, entry and page of data has a checksum. A page whose data is not what was
//! programmed reads as torn while a device is mounted (a mount asks which pages are whole) and is uncorrectable
//! afterwards. A copy takes a host page's checksum along without looking, as a chip's copy-back does, so that damage
//! stays known wherever the page moves and a collection does not stop at it. A damaged record is a torn page; of the
//! two copies of the block table and of the header the sound one counts.
//!
//! **The host's failures.** If a write fails (a full disk, a broken one), the command has not happened, and the image
//! refuses everything from then on ([`FaultKind::HostFailed`]) until it is loaded again: a scheme that went on would
//! know less than the file.
//!
//! **Costs.** The file is sparse and costs what was written. RAM: 16 B a block, and 32 B for each page of a block that
//! was touched and is not blank, with what the scheme keeps in its spare area; a mount reads the records of a block at
//! once.
//!
//! **Bit errors.** With an error-correcting code (`ecc`) each page has its parity in what the scheme leaves of the
//! spare area, each record in 14 of its bytes. Without one a flipped bit costs the page, as above. [`Image::age`] flips
//! bits.
//!
//! Rejected: punching holes to erase (slow, and not atomic),
//! memory mapping (needs `unsafe`, and a full disk becomes a signal), records of 32 B (too small for both the checks
//! and that code), an appended journal (compaction would be a translation layer below the translation layer).

mod backing;
mod ecc;
mod error;
mod gather;
mod header;
mod layout;
mod record;
mod standing;
#[cfg(test)]
pub(crate) mod tests;

pub use error::ImageError;
pub use header::Spec;
pub use standing::{Life, Totals};

use backing::Backing;
use ecc::{Ecc, SPARE_CHECK};
use flash::{
    AppendFace, Block, Cause, Chain, Damage, EraseFace, Fault, FaultKind, Flash, Fragile, Geometry, Kind, Mode, Oob,
    Payload, Ppn, ProgramOrder, Rng,
};
use gather::Gather;
use layout::{ENTRY, Layout, RECORD, UNIT};
use record::{Entry, Page, State};
use standing::Standing;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

/// What an image is opened for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// To be used.
    Use,
    /// To be looked at: the file is not written to, what a scheme changes is kept in RAM and forgotten.
    Look,
}

/// Pages of a block.
#[derive(Clone, Debug, Default)]
struct Pages {
    /// Empty if all are blank.
    pages: Box<[Page]>,
    /// What the scheme keeps in their spare areas; empty as well if that is nothing.
    own: Box<[u8]>,
    /// One above the highest page that was programmed and is not damaged.
    next: u32,
    /// The first page was blank, and the records above it were not looked at.
    unseen: bool,
    /// They were programmed in SLC mode.
    slc: bool,
}

impl Pages {
    fn at(&self, offset: u32) -> Page {
        self.pages.get(offset as usize).copied().unwrap_or(Page::BLANK)
    }
}

/// What is wrong with pages, as far as the file knows.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Scrub {
    /// Pages programmed.
    pub pages: u64,
    /// Pages torn by a power cut: dead from birth.
    pub torn: u64,
    /// Pages whose record is not what was written.
    pub bad_records: Vec<Ppn>,
    /// Pages whose data is not what was programmed.
    pub bad_data: Vec<Ppn>,
    /// Wrong bits that the error-correcting code set right.
    pub corrected_bits: u64,
}

/// The chip. See the module's description.
#[derive(Debug)]
pub struct Image {
    path: PathBuf,
    access: Access,
    backing: Backing,
    spec: Spec,
    layout: Layout,
    standing: Standing,
    totals: Totals,
    /// The totals in the file.
    stored_totals: Totals,
    blocks: Vec<Entry>,
    /// Pages of the blocks that were touched.
    loaded: Vec<Option<Pages>>,
    /// Copies of header and table entries that are damaged while the other one is sound.
    damaged_copies: u64,
    failed: Option<io::Error>,
    /// Programs that are not in the file yet.
    gather: Gather,
    /// What the next program puts into the spare area of its page.
    staged: Option<(Ppn, Vec<u8>)>,
    /// The page whose spare area was read last.
    looked_at: Option<Ppn>,
    buffer: Vec<u8>,
    words: Vec<u32>,
    /// The error-correcting code, if there is one.
    ecc: Option<Box<Ecc>>,
    /// Wrong bits that it set right since the file was opened.
    corrected_bits: u64,
    /// Pages of zeros are left holes in the file: a large image at the cost of its records.
    #[cfg(test)]
    pub(crate) sparse_zeros: bool,
}

impl Image {
    /// A chip fresh from the factory, in a new file. With `replace` an existing file is emptied first.
    ///
    /// # Errors
    /// The file exists, is in use, or the host refuses.
    pub fn create(path: &Path, spec: &Spec, replace: bool) -> Result<Image, ImageError> {
        let host = |cause| ImageError::Host { verb: "create", path: path.to_owned(), cause };
        let header = spec.encode().ok_or(ImageError::TooLong)?;
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        let file = if replace { options.create(true).truncate(false) } else { options.create_new(true) }.open(path);
        let file = file.map_err(|cause| match cause.kind() {
            io::ErrorKind::AlreadyExists => ImageError::Exists(path.to_owned()),
            _ => host(cause),
        })?;
        lock(&file, path, Access::Use)?;
        let written = file.set_len(0).and_then(|()| {
            let layout = Layout::new(&spec.device.geometry);
            let mut backing = Backing::new(file, false);
            backing.set_bytes(layout.end)?;
            let blocks = (0..spec.device.geometry.block_count()).map(Block);
            let table: Vec<u8> = blocks.flat_map(|block| Entry::NEW.encode(block)).collect();
            for start in layout.tables {
                backing.write(start, &table)?;
            }
            backing.write(Layout::STATE, &Standing::FRESH.encode())?;
            // Last, so that a file without them is no image.
            backing.sync()?;
            for start in Layout::HEADERS {
                backing.write(start, &header)?;
            }
            backing.sync()?;
            Ok(backing)
        });
        let loaded = written.map_err(host).and_then(|backing| Image::load(path, Access::Use, backing));
        if loaded.is_err() {
            // What could not be completed is of no use; if it cannot be removed either, the first error says why.
            let _ = fs::remove_file(path);
        }
        loaded
    }

    /// Opens an image.
    ///
    /// # Errors
    /// The file is missing, in use, or no sound image: [`ImageError`].
    pub fn open(path: &Path, access: Access) -> Result<Image, ImageError> {
        let host = |cause| ImageError::Host { verb: "open", path: path.to_owned(), cause };
        let file = OpenOptions::new().read(true).write(access == Access::Use).open(path).map_err(host)?;
        if !file.metadata().map_err(host)?.is_file() {
            return Err(ImageError::Foreign(path.to_owned()));
        }
        lock(&file, path, access)?;
        Image::load(path, access, Backing::new(file, access == Access::Look))
    }

    fn load(path: &Path, access: Access, backing: Backing) -> Result<Image, ImageError> {
        let host = |cause| ImageError::Host { verb: "read", path: path.to_owned(), cause };
        let damaged = |what: String| ImageError::Damaged { path: path.to_owned(), what };
        let bytes = backing.bytes().map_err(host)?;
        let truncated = |needed| ImageError::Truncated { path: path.to_owned(), bytes, needed };
        let mut damaged_copies = 0;
        let copies = Layout::HEADERS.map(|start| {
            let mut copy = vec![0; bytes.saturating_sub(start).min(UNIT) as usize];
            backing.read(start, &mut copy).map(|()| header::Spec::decode(&copy))
        });
        let [first, second] = copies;
        let spec = match (first.map_err(host)?, second.map_err(host)?) {
            (Ok(spec), Ok(_)) => spec,
            (Ok(spec), Err(_)) | (Err(_), Ok(spec)) => {
                damaged_copies += 1;
                spec
            }
            (Err(header::Fault::Newer(found)), _) | (_, Err(header::Fault::Newer(found))) => {
                return Err(ImageError::Newer { path: path.to_owned(), found });
            }
            (Err(header::Fault::Code(code)), _) | (_, Err(header::Fault::Code(code))) => {
                return Err(ImageError::UnknownCode { path: path.to_owned(), code });
            }
            (Err(header::Fault::Foreign), Err(header::Fault::Foreign)) => {
                return Err(ImageError::Foreign(path.to_owned()));
            }
            _ if bytes < 3 * UNIT => return Err(truncated(3 * UNIT)),
            _ => return Err(damaged("neither copy of its header is what was written".into())),
        };
        let g = spec.device.geometry;
        let layout = Layout::new(&g);
        if bytes < layout.end {
            return Err(truncated(layout.end));
        }
        let mut standing = [0; 32];
        backing.read(Layout::STATE, &mut standing).map_err(host)?;
        let mut totals = [0; 20];
        backing.read(Layout::TOTALS, &mut totals).map_err(host)?;
        let totals = Totals::decode(&totals);
        let tables = layout.tables.map(|start| {
            let mut table = vec![0; g.block_count() as usize * ENTRY as usize];
            backing.read(start, &mut table).map(|()| table)
        });
        let [first, second] = tables;
        let (first, second) = (first.map_err(host)?, second.map_err(host)?);
        let mut blocks = Vec::with_capacity(g.block_count() as usize);
        let rows = first.as_chunks::<{ ENTRY as usize }>().0.iter().zip(second.as_chunks().0);
        for (block, (first, second)) in (0..).map(Block).zip(rows) {
            blocks.push(match (Entry::decode(first, block), Entry::decode(second, block)) {
                // The first is written first: where they differ, it is the newer one.
                (Some(entry), Some(_)) => entry,
                (Some(entry), None) | (None, Some(entry)) => {
                    damaged_copies += 1;
                    entry
                }
                (None, None) => return Err(damaged(format!("neither entry of block {block} is what was written"))),
            });
        }
        let standing = Standing::decode(&standing);
        let ecc = match spec.ecc {
            Some(code) => Some(Box::new(Ecc::new(code, &g, standing.own).map_err(damaged)?)),
            None => None,
        };
        Ok(Image {
            path: path.to_owned(),
            access,
            backing,
            layout,
            standing,
            totals,
            stored_totals: totals,
            loaded: vec![None; blocks.len()],
            blocks,
            damaged_copies,
            failed: None,
            gather: Gather::default(),
            staged: None,
            looked_at: None,
            buffer: vec![0; g.page_bytes as usize],
            words: Vec::new(),
            ecc,
            corrected_bits: 0,
            #[cfg(test)]
            sparse_zeros: false,
            spec,
        })
    }

    /// After a failure of the host: reads the file again, which holds exactly what was acknowledged by this chip.
    ///
    /// # Errors
    /// As [`Image::open`]; the image keeps refusing then.
    pub fn reload(&mut self) -> Result<(), ImageError> {
        let host = |cause| ImageError::Host { verb: "open", path: self.path.clone(), cause };
        let backing = self.backing.again(self.access == Access::Look).map_err(host)?;
        *self = Image::load(&self.path, self.access, backing)?;
        Ok(())
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the image is made of.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// What the file knows of the scheme's state.
    pub fn life(&self) -> Life {
        self.standing.life
    }

    /// Erases of each block since the image was created.
    pub fn erase_counts(&self) -> impl Iterator<Item = u32> + '_ {
        self.blocks.iter().map(|entry| entry.erases)
    }

    /// Programs since the image was created; after a kill those of the last seconds may be missing.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Blocks marked bad.
    pub fn bad_blocks(&self) -> impl Iterator<Item = Block> + '_ {
        (0..).map(Block).zip(&self.blocks).filter(|(_, entry)| entry.flags & Entry::BAD != 0).map(|(block, _)| block)
    }

    /// Damaged copies of the header or of entries of the block table, whose other copy is sound.
    pub fn damaged_copies(&self) -> u64 {
        self.damaged_copies
    }

    /// Wrong bits that the error-correcting code set right since the file was opened.
    pub fn corrected_bits(&self) -> u64 {
        self.corrected_bits
    }

    /// Which modes the pages are in that [`Image::age`] changes: each block with each mode of such a page, by blocks.
    ///
    /// # Errors
    /// The host failed.
    pub fn modes(&mut self) -> Result<Vec<(Block, Mode)>, Fault> {
        self.usable()?;
        let mut modes = Vec::new();
        for block in (0..self.spec.device.geometry.block_count()).map(Block) {
            let pages = &self.pages(block)?.pages;
            for mode in Mode::ALL {
                if pages.iter().any(|page| page.is_whole() && page.mode == mode) {
                    modes.push((block, mode));
                }
            }
        }
        Ok(modes)
    }

    /// Time goes by: flips each bit of what is programmed with the probability that `rate` gives for its page, the
    /// data, the spare area and the record of it. How many bits were flipped. What the scheme knows stays as it is, so
    /// a clean image is clean afterwards.
    ///
    /// # Errors
    /// The host failed.
    pub fn age(&mut self, rng: &mut Rng, rate: impl Fn(Ppn, Mode) -> f64) -> Result<u64, Fault> {
        self.settle()?;
        let g = self.spec.device.geometry;
        let mut flipped = 0;
        for ppn in (0..g.page_count()).map(Ppn) {
            let page = self.page(ppn)?;
            if !page.is_whole() {
                continue;
            }
            let data = self.data_bytes(page);
            let kept = if self.standing.own == 0 { 0 } else { (self.standing.own + SPARE_CHECK) as usize };
            let spare = self.ecc.as_ref().map_or(kept, |ecc| ecc.at() + ecc.parity_bytes(data));
            let rate = rate(ppn, page.mode);
            for (at, bytes) in [
                (self.layout.page(ppn), data),
                (self.layout.spare(ppn), spare),
                (self.layout.record(ppn), RECORD as usize),
            ] {
                let mut stored = vec![0; bytes];
                self.fetch(at, &mut stored)?;
                let flips = ecc::flip(&mut stored, rate, rng);
                if flips > 0 {
                    self.write(at, &stored)?;
                    flipped += flips;
                }
            }
        }
        self.loaded.fill(None);
        self.sync()?;
        Ok(flipped)
    }

    /// Why the host failed, if it did: everything is refused until [`Image::reload`].
    pub fn failure(&self) -> Option<&io::Error> {
        self.failed.as_ref()
    }

    /// Bytes that the file seems to have, and bytes that it takes on the host's disk.
    ///
    /// # Errors
    /// The host's.
    pub fn file_bytes(&self) -> io::Result<(u64, u64)> {
        self.backing.bytes_and_cost()
    }

    /// The host will fail after so many more writes: a full disk, or a kill between two of them.
    #[cfg(test)]
    pub(crate) fn fail_after(&mut self, writes: u64) {
        self.backing.writes_left = writes;
    }

    /// Brings every command so far into the file: it survives the end of this process, however that comes about.
    ///
    /// # Errors
    /// The host failed. The file holds a part of the commands since the last call, up to some point.
    #[inline]
    pub fn settle(&mut self) -> Result<(), Fault> {
        self.usable()?;
        if self.gather.is_empty() { Ok(()) } else { self.write_gathered() }
    }

    /// Makes everything so far durable on the host's disk.
    ///
    /// # Errors
    /// The host failed.
    pub fn sync(&mut self) -> Result<(), Fault> {
        self.settle()?;
        if self.totals != self.stored_totals {
            self.write(Layout::TOTALS, &self.totals.encode())?;
            self.stored_totals = self.totals;
        }
        let synced = self.backing.sync();
        self.host(synced)
    }

    /// Stores the scheme's RAM: the next mount need not read the flash. Any change afterwards makes it worthless.
    /// `form` is the version of the form that the bytes have.
    ///
    /// # Errors
    /// The host failed. The image is then mounted by reading the flash.
    pub fn store_checkpoint(&mut self, form: u32, bytes: &[u8]) -> Result<(), Fault> {
        self.touch()?;
        self.write(self.layout.end, bytes)?;
        self.sync()?;
        let (length, check) = (bytes.len() as u64, crc32fast::hash(bytes));
        self.stand(Standing { life: Life::Clean, bytes: length, check, form, ..self.standing })
    }

    /// The scheme's RAM, if the image was shut down cleanly by this version of ftlab and left it in this form.
    ///
    /// # Errors
    /// The host failed. A checkpoint that is not what was written is none.
    pub fn checkpoint(&mut self, form: u32) -> Result<Option<Vec<u8>>, Fault> {
        self.usable()?;
        let Standing { life, bytes, check, .. } = self.standing;
        if life != Life::Clean || self.standing.form != form {
            return Ok(None);
        }
        let total = self.backing.bytes();
        if self.host(total)? < self.layout.end + bytes {
            return Ok(None);
        }
        let mut saved = vec![0; bytes as usize];
        self.fetch(self.layout.end, &mut saved)?;
        Ok((crc32fast::hash(&saved) == check).then_some(saved))
    }

    /// Looks at every page: records and data.
    ///
    /// # Errors
    /// The host failed.
    pub fn scrub(&mut self) -> Result<Scrub, Fault> {
        let g = self.spec.device.geometry;
        let mut scrub = Scrub::default();
        let corrected = self.corrected_bits;
        for ppn in (0..g.page_count()).map(Ppn) {
            let page = self.page(ppn)?;
            match (page.state(), page.kind) {
                (State::Blank, _) => continue,
                (State::Damaged, _) => scrub.bad_records.push(ppn),
                (State::Programmed, Kind::Torn) => scrub.torn += 1,
                (State::Programmed, _) if !self.fill(ppn, page)? => scrub.bad_data.push(ppn),
                _ => {}
            }
            scrub.pages += 1;
        }
        scrub.corrected_bits = self.corrected_bits - corrected;
        Ok(scrub)
    }

    // ---- the file ----------------------------------------------------------------------------------------------

    const FAILED: Fault = Fault(FaultKind::HostFailed);

    fn usable(&self) -> Result<(), Fault> {
        if self.failed.is_some() { Err(Self::FAILED) } else { Ok(()) }
    }

    fn host<T>(&mut self, result: io::Result<T>) -> Result<T, Fault> {
        result.map_err(|cause| {
            self.failed = Some(cause);
            Self::FAILED
        })
    }

    #[inline(never)]
    fn write_gathered(&mut self) -> Result<(), Fault> {
        let written = self.gather.write_to(&mut self.backing);
        self.host(written)
    }

    /// Writes at once, after everything that is gathered.
    fn write(&mut self, offset: u64, data: &[u8]) -> Result<(), Fault> {
        self.settle()?;
        let written = self.backing.write(offset, data);
        self.host(written)
    }

    fn fetch(&mut self, offset: u64, out: &mut [u8]) -> Result<(), Fault> {
        let read = self.backing.read(offset, out);
        self.host(read)
    }

    fn stand(&mut self, standing: Standing) -> Result<(), Fault> {
        self.write(Layout::STATE, &standing.encode())?;
        self.sync()?;
        self.standing = standing;
        Ok(())
    }

    /// Before a change: the checkpoint is worthless, durably.
    #[inline]
    fn touch(&mut self) -> Result<(), Fault> {
        self.usable()?;
        if self.standing.life == Life::Dirty { Ok(()) } else { self.stand(Standing::dirty(self.standing.own)) }
    }

    fn put_entry(&mut self, block: Block, entry: Entry) -> Result<(), Fault> {
        let bytes = entry.encode(block);
        for copy in 0..2 {
            self.write(self.layout.entry(copy, block), &bytes)?;
        }
        self.blocks[block.index()] = entry;
        Ok(())
    }

    /// Reads the records of a block, unless that was done already.
    #[inline]
    fn load_block(&mut self, block: Block) -> Result<(), Fault> {
        if self.loaded[block.index()].is_some() { Ok(()) } else { self.read_records(block) }
    }

    #[cold]
    fn read_records(&mut self, block: Block) -> Result<(), Fault> {
        let g = self.spec.device.geometry;
        let entry = self.blocks[block.index()];
        let strict = g.order == ProgramOrder::Strict && entry.flags & Entry::UNSAFE == 0;
        let at = self.layout.block_records(block);
        let size = g.pages_per_block as usize * RECORD as usize;
        let mut bytes = vec![0; size];
        let (head, tail) = bytes.split_at_mut(size.min(UNIT as usize));
        self.fetch(at, head)?;
        let first = head.first_chunk().expect("a block has a page");
        let (first, of) = self.decode_record(first, g.page(block, 0), entry.generation);
        if strict && (first.state() == State::Blank || of < entry.generation) {
            // Nothing stands above a blank page, and most of the file may be a hole, which is slow to read.
            self.loaded[block.index()] = Some(Pages { unseen: true, ..Pages::default() });
            return Ok(());
        }
        self.fetch(at + head.len() as u64, tail)?;
        let own_bytes = self.standing.own as usize;
        let mut spares = vec![0; if own_bytes == 0 { 0 } else { g.pages_per_block as usize * g.oob_bytes as usize }];
        self.fetch(self.layout.spare(g.page(block, 0)), &mut spares)?;
        let records = bytes.as_chunks::<{ RECORD as usize }>().0;
        let count = records.len();
        let mut pages = Pages::default();
        for (offset, record) in (0..).zip(records) {
            let ppn = g.page(block, offset);
            let (mut page, of) = self.decode_record(record, ppn, entry.generation);
            if of > entry.generation {
                // The host crashed, and the disk had taken a later program before the erase: the erase has happened.
                let erases = entry.erases + (of - entry.generation);
                self.put_entry(block, Entry { erases, generation: of, ..entry })?;
                return self.read_records(block);
            }
            if page.state() == State::Blank || of != entry.generation {
                continue;
            }
            if pages.pages.is_empty() {
                pages.pages = vec![Page::BLANK; count].into();
                pages.own = vec![0; count * own_bytes].into();
            }
            if own_bytes > 0 && page.kind != Kind::Torn {
                let spare = &mut spares[offset as usize * g.oob_bytes as usize..][..g.oob_bytes as usize];
                let wrong = spare_decode(spare, own_bytes, ppn, of).is_none();
                let bits = self.ecc.as_ref().filter(|_| wrong).map_or(0, |ecc| ecc.correct_kept(spare));
                match spare_decode(spare, own_bytes, ppn, of) {
                    Some(own) => {
                        pages.own[offset as usize * own_bytes..][..own_bytes].copy_from_slice(own);
                        self.corrected_bits += bits;
                    }
                    None => page = Page::DAMAGED,
                }
            }
            pages.pages[offset as usize] = page;
            pages.slc |= page.mode == Mode::Slc;
            if page.state() == State::Programmed {
                pages.next = offset + 1;
            }
        }
        if strict {
            // A blank page below a programmed one: its record was lost when the host crashed.
            let below = &mut pages.pages[..pages.next as usize];
            below.iter_mut().filter(|page| page.state() == State::Blank).for_each(|page| *page = Page::DAMAGED);
        }
        self.loaded[block.index()] = Some(pages);
        Ok(())
    }

    /// A record as it was written, if it can be had.
    fn decode_record(&mut self, record: &[u8; RECORD as usize], ppn: Ppn, generation: u32) -> (Page, u32) {
        let Some(ecc) = &self.ecc else { return Page::decode(record, ppn, generation) };
        let (record, bits) = ecc.record(record, ppn);
        self.corrected_bits += bits;
        Page::decode(&record, ppn, generation)
    }

    #[inline]
    fn pages(&mut self, block: Block) -> Result<&mut Pages, Fault> {
        self.load_block(block)?;
        Ok(self.loaded[block.index()].as_mut().expect("its records were read"))
    }

    #[inline]
    fn page(&mut self, ppn: Ppn) -> Result<Page, Fault> {
        let g = &self.spec.device.geometry;
        let (block, offset) = (g.block_of(ppn), g.offset_of(ppn));
        Ok(self.pages(block)?.at(offset))
    }

    /// Gathers what was staged for the spare area of a page, before its record.
    #[inline]
    fn put_own(&mut self, ppn: Ppn) -> Result<(), Fault> {
        if self.standing.own == 0 { Ok(()) } else { self.put_staged(ppn) }
    }

    fn put_staged(&mut self, ppn: Ppn) -> Result<(), Fault> {
        let g = self.spec.device.geometry;
        let (block, offset) = (g.block_of(ppn), g.offset_of(ppn) as usize);
        let bytes = self.standing.own as usize;
        let mut own = match self.staged.take() {
            Some((of, staged)) if of == ppn => staged,
            _ => Vec::new(),
        };
        own.resize(bytes, 0);
        let mut spare = spare_encode(&own, ppn, self.blocks[block.index()].generation);
        if let Some(ecc) = &self.ecc {
            ecc.protect_kept(&mut spare);
        }
        self.gather.data(self.layout.spare(ppn), &spare);
        let pages = self.pages(block)?;
        if pages.own.is_empty() {
            pages.own = vec![0; g.pages_per_block as usize * bytes].into();
        }
        pages.own[offset * bytes..][..bytes].copy_from_slice(&own);
        Ok(())
    }

    /// Gathers the parity of what a page holds.
    fn put_parity(&mut self, ppn: Ppn, data: &[u8]) {
        if let Some(ecc) = &mut self.ecc {
            self.gather.data(self.layout.spare(ppn) + ecc.at() as u64, ecc.protect(data));
        }
    }

    /// Gathers a page's record, last of all that belongs to its program.
    fn put_record(&mut self, ppn: Ppn, page: Page) -> Result<(), Fault> {
        let g = self.spec.device.geometry;
        let (block, offset) = (g.block_of(ppn), g.offset_of(ppn));
        let record = match page.state() {
            State::Blank => [0; RECORD as usize],
            _ => {
                let mut record = page.encode(ppn, self.blocks[block.index()].generation);
                if let Some(ecc) = &self.ecc {
                    ecc.protect_record(&mut record);
                }
                record
            }
        };
        self.gather.record(self.layout.record(ppn), &record);
        let pages = self.pages(block)?;
        if pages.pages.is_empty() {
            pages.pages = vec![Page::BLANK; g.pages_per_block as usize].into();
        }
        pages.pages[offset as usize] = page;
        pages.slc |= page.mode == Mode::Slc;
        if page.state() == State::Programmed {
            pages.next = pages.next.max(offset + 1);
        }
        if self.gather.is_full() { self.write_gathered() } else { Ok(()) }
    }

    // ---- the chip ----------------------------------------------------------------------------------------------

    /// Insists that a page may be programmed now. A page whose record is damaged counts as one or the other, whichever
    /// lets the scheme go on: it is the file that is at fault.
    fn take_page(&mut self, ppn: Ppn, mode: Mode) -> Result<(), Fault> {
        let g = self.spec.device.geometry;
        let (block, offset) = (g.block_of(ppn), g.offset_of(ppn));
        let slc = mode == Mode::Slc;
        assert!(!slc || g.bits_per_cell > 1, "a program in SLC mode of cells that hold one bit");
        let flags = self.blocks[block.index()].flags;
        let pages = self.pages(block)?;
        let next = pages.next;
        let in_order = match g.order {
            ProgramOrder::Strict => {
                offset >= next && (next..offset).all(|below| pages.at(below).state() == State::Damaged)
            }
            ProgramOrder::Ascending => offset >= next,
            ProgramOrder::Any => true,
        };
        let reason = match flags {
            flags if flags & Entry::BAD != 0 => "the block is bad",
            flags if flags & Entry::UNSAFE != 0 => "the block's erase was cut short: erase it first",
            _ if pages.slc && !slc => "the block is in SLC mode",
            _ if slc && !pages.slc && next > 0 => "the block is not in SLC mode",
            _ if slc && offset >= g.slc_pages() => "a block in SLC mode has no such page",
            _ if pages.at(offset).state() == State::Programmed => "the page is not blank",
            _ if !in_order => "the page is out of program order",
            _ => return Ok(()),
        };
        panic!("program of page {offset} of block {block} (next is {next}): {reason}");
    }

    /// Bytes that a page's checksum covers.
    fn data_bytes(&self, page: Page) -> usize {
        match page.kind {
            Kind::Data | Kind::Log => self.buffer.len(),
            Kind::Translation | Kind::Checkpoint | Kind::Trim => page.used(),
            Kind::Dummy | Kind::Bad | Kind::Torn => 0,
        }
    }

    /// Reads a page's data into the buffer; whether it is what was programmed, or could be made that again.
    fn fill(&mut self, ppn: Ppn, page: Page) -> Result<bool, Fault> {
        let (bytes, at) = (self.data_bytes(page), self.layout.page(ppn));
        if self.gather.holds(at..at + bytes as u64) {
            self.settle()?;
        }
        let read = self.backing.read(at, &mut self.buffer[..bytes]);
        self.host(read)?;
        let sound = crc32fast::hash(&self.buffer[..bytes]) == page.check;
        if sound { Ok(true) } else { self.correct(ppn, page) }
    }

    /// Corrects the data of a page in the buffer, if that can be.
    #[cold]
    fn correct(&mut self, ppn: Ppn, page: Page) -> Result<bool, Fault> {
        self.settle()?;
        let bytes = self.data_bytes(page);
        let Some(ecc) = &mut self.ecc else { return Ok(false) };
        let mut parities = vec![0; ecc.parity_bytes(bytes)];
        let read = self.backing.read(self.layout.spare(ppn) + ecc.at() as u64, &mut parities);
        let bits = ecc.correct(&mut self.buffer[..bytes], &mut parities);
        self.host(read)?;
        let sound = crc32fast::hash(&self.buffer[..bytes]) == page.check;
        self.corrected_bits += if sound { bits } else { 0 };
        Ok(sound)
    }

    /// The first `used` bytes of the buffer as words of metadata; what is missing is blank.
    fn fill_words(&mut self, used: usize) {
        self.words.clear();
        let whole = used.next_multiple_of(4);
        self.buffer[used..whole].fill(u8::MAX);
        let bytes = self.buffer[..whole].as_chunks().0;
        self.words.extend(bytes.iter().map(|&word| u32::from_le_bytes(word)));
        self.words.resize(self.spec.device.geometry.entries_per_page() as usize, u32::MAX);
    }

    /// Words of metadata into the buffer; how many bytes they are, up to the last that is not blank.
    fn pour_words(&mut self, words: &[u32]) -> usize {
        let capacity = self.buffer.len() / 4;
        assert!(words.len() <= capacity, "{} words of metadata do not fit a page of {capacity}", words.len());
        for (to, word) in self.buffer.as_chunks_mut().0.iter_mut().zip(words) {
            *to = word.to_le_bytes();
        }
        used_bytes(&self.buffer[..words.len() * 4])
    }

    /// Programs the first `bytes` of the buffer; the page's checksum is theirs.
    fn program_buffer(&mut self, ppn: Ppn, page: Page, bytes: usize) -> Result<(), Fault> {
        self.totals.programs += 1;
        let buffer = std::mem::take(&mut self.buffer);
        self.gather.data(self.layout.page(ppn), &buffer[..bytes]);
        self.put_parity(ppn, &buffer[..bytes]);
        self.buffer = buffer;
        self.put_record(ppn, page)
    }

    /// Bytes behind those that a page holds are nothing until its record says so: a partial program is gathered as a
    /// program is.
    fn append_bytes(&mut self, ppn: Ppn, at: u32, bytes: &[u8], mark: u16) -> Result<(), Fault> {
        self.touch()?;
        let g = self.spec.device.geometry;
        let page = self.appendable(ppn)?;
        assert!(mark != u16::MAX, "a mark of all ones is none");
        let programs = u32::from(page.programs);
        let nop = if page.mode == Mode::Slc { g.slc_nop } else { g.nop };
        assert!(programs < nop, "page {ppn} was programmed {programs} times; NOP is {nop}");
        let (used, at) = (page.used(), at as usize);
        assert!(at + bytes.len() <= self.buffer.len(), "partial program of page {ppn} beyond its end");
        assert!(used <= at, "partial program of page {ppn} from byte {at} on: byte {} is not blank", used - 1);
        if self.ecc.is_some() {
            // The parity of what is there already, corrected if need be, goes on with the new bytes.
            self.fill(ppn, page)?;
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        let new = &mut buffer[used..at + bytes.len()];
        new[..at - used].fill(u8::MAX);
        new[at - used..].copy_from_slice(bytes);
        let length = used_bytes(new);
        let new = &buffer[used..used + length];
        // The checksum goes on from what it was: if the earlier bytes are not what was programmed, it stays wrong.
        let mut check = crc32fast::Hasher::new_with_initial_len(page.check, used as u64);
        check.update(new);
        let page = Page { programs: page.programs + 1, mark, ..page };
        let page = page.with_metadata(used + new.len(), check.finalize());
        self.gather.data(self.layout.page(ppn) + used as u64, new);
        self.put_parity(ppn, &buffer[..used + length]);
        self.buffer = buffer;
        self.put_record(ppn, page)
    }

    /// A page that a partial program may add to.
    fn appendable(&mut self, ppn: Ppn) -> Result<Page, Fault> {
        let block = self.spec.device.geometry.block_of(ppn);
        let flags = self.blocks[block.index()].flags;
        assert!(flags & Entry::BAD == 0, "partial program into bad block {block}");
        assert!(flags & Entry::UNSAFE == 0, "partial program into block {block}, whose erase was cut short");
        let page = self.page(ppn)?;
        let sound = page.state() == State::Programmed && page.is_metadata();
        assert!(sound, "partial program of page {ppn}, which holds no metadata");
        Ok(page)
    }

    fn set_flag(&mut self, block: Block, flag: u32) -> Result<(), Fault> {
        let entry = self.blocks[block.index()];
        self.put_entry(block, Entry { flags: entry.flags | flag, ..entry })
    }

    fn try_half_erase(&mut self, block: Block, face: EraseFace, rng: &mut Rng) -> Result<(), Fault> {
        self.touch()?;
        let g = self.spec.device.geometry;
        let torn = Page::new(&Oob { kind: Kind::Torn, ..Page::BLANK.oob() });
        // First, so that no process that is killed meanwhile leaves the pages without it.
        self.set_flag(block, Entry::UNSAFE)?;
        for ppn in (0..g.pages_per_block).map(|offset| g.page(block, offset)) {
            match face {
                EraseFace::Mixed => match rng.below(3) {
                    0 => {}
                    1 => self.put_record(ppn, torn)?,
                    _ => self.put_record(ppn, Page::BLANK)?,
                },
                EraseFace::Garbage => self.put_record(ppn, torn)?,
                EraseFace::Intact | EraseFace::LooksBlank => {}
            }
        }
        match face {
            EraseFace::LooksBlank => self.forget(block, self.blocks[block.index()].erases, Entry::UNSAFE),
            _ => Ok(()),
        }
    }

    /// Begins the next life of a block: later than any that its records name. When the host crashed, its disk may have
    /// lost an erase and the first records after it, and taken later ones; their life must not come again.
    fn forget(&mut self, block: Block, erases: u32, flags: u32) -> Result<(), Fault> {
        let mut newest = self.blocks[block.index()].generation;
        if self.pages(block)?.unseen {
            let g = self.spec.device.geometry;
            let mut bytes = vec![0; g.pages_per_block as usize * RECORD as usize];
            self.fetch(self.layout.block_records(block), &mut bytes)?;
            for (offset, record) in (0..).zip(bytes.as_chunks().0) {
                newest = newest.max(self.decode_record(record, g.page(block, offset), newest).1);
            }
        }
        let generation = newest + 1;
        self.put_entry(block, Entry { erases, generation, flags })?;
        self.loaded[block.index()] = Some(Pages::default());
        Ok(())
    }
}

/// The checksum covers the page's number and life as well: what stands there from an earlier one is none of it.
fn spare_check(own: &[u8], ppn: Ppn, generation: u32) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(own);
    crc.update(&ppn.0.to_le_bytes());
    crc.update(&generation.to_le_bytes());
    crc.finalize()
}

/// What a scheme keeps in a spare area, with its checksum.
fn spare_encode(own: &[u8], ppn: Ppn, generation: u32) -> Vec<u8> {
    let mut spare = own.to_vec();
    spare.extend(spare_check(own, ppn, generation).to_le_bytes());
    spare
}

/// The `bytes` that a scheme keeps in a spare area; `None` if they are not what was written.
fn spare_decode(spare: &[u8], bytes: usize, ppn: Ppn, generation: u32) -> Option<&[u8]> {
    let (own, check) = spare.split_at(bytes);
    check.starts_with(&spare_check(own, ppn, generation).to_le_bytes()).then_some(own)
}

/// Bytes up to the last that is not blank.
fn used_bytes(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|&byte| byte != u8::MAX).map_or(0, |last| last + 1)
}

fn lock(file: &File, path: &Path, access: Access) -> Result<(), ImageError> {
    let locked = match access {
        Access::Use => file.try_lock(),
        Access::Look => file.try_lock_shared(),
    };
    locked.map_err(|refused| match refused {
        TryLockError::WouldBlock => ImageError::InUse(path.to_owned()),
        TryLockError::Error(cause) => ImageError::Host { verb: "lock", path: path.to_owned(), cause },
    })
}

impl Flash for Image {
    type User = [u8];
    type Fault = Fault;

    #[inline]
    fn geometry(&self) -> &Geometry {
        &self.spec.device.geometry
    }

    fn read(&mut self, ppn: Ppn, cause: Cause) -> Result<(Oob, Payload<'_, [u8]>), Fault> {
        self.usable()?;
        self.looked_at = Some(ppn);
        let page = self.page(ppn)?;
        assert!(page.state() != State::Blank, "read of blank page {ppn}");
        let mut oob = page.oob();
        if page.state() == State::Damaged || !self.fill(ppn, page)? {
            // Whoever mounts asks whether the page is whole; whoever reads wants its data.
            if cause != Cause::Recovery {
                return Err(Fault(FaultKind::Uncorrectable));
            }
            oob.kind = Kind::Torn;
        }
        let payload = match oob.kind {
            Kind::Data | Kind::Log => Payload::User(&self.buffer[..]),
            Kind::Translation | Kind::Checkpoint | Kind::Trim => {
                self.fill_words(page.used());
                Payload::Meta(&self.words)
            }
            Kind::Dummy | Kind::Bad | Kind::Torn => Payload::None,
        };
        Ok((oob, payload))
    }

    fn read_oob(&mut self, ppn: Ppn, _: Cause) -> Result<Option<Oob>, Fault> {
        self.usable()?;
        self.looked_at = Some(ppn);
        let g = &self.spec.device.geometry;
        if g.offset_of(ppn) == 0 && self.blocks[g.block_of(ppn).index()].flags & Entry::BAD != 0 {
            return Ok(Some(Oob { kind: Kind::Bad, ..Page::BLANK.oob() }));
        }
        let page = self.page(ppn)?;
        Ok((page.state() != State::Blank).then(|| page.oob()))
    }

    fn program(&mut self, ppn: Ppn, oob: Oob, data: Payload<'_, [u8]>, cause: Cause) -> Result<(), Fault> {
        self.touch()?;
        if oob.kind == Kind::Bad {
            return self.set_flag(self.spec.device.geometry.block_of(ppn), Entry::BAD);
        }
        self.take_page(ppn, oob.mode)?;
        self.put_own(ppn)?;
        let page = Page::new(&oob);
        match data {
            Payload::User(user) => {
                assert!(matches!(oob.kind, Kind::Data | Kind::Log), "host data in a page of kind {:?}", oob.kind);
                assert_eq!(user.len(), self.buffer.len(), "a host page is programmed whole");
                self.totals.programs += 1;
                self.totals.host += u64::from(cause == Cause::Host);
                #[cfg(test)]
                if self.sparse_zeros && self.ecc.is_none() && user.iter().all(|&byte| byte == 0) {
                    return self.put_record(ppn, Page { check: crc32fast::hash(user), ..page });
                }
                self.gather.data(self.layout.page(ppn), user);
                self.put_parity(ppn, user);
                self.put_record(ppn, Page { check: crc32fast::hash(user), ..page })
            }
            Payload::Meta(words) => {
                let bytes = self.pour_words(words);
                let check = crc32fast::hash(&self.buffer[..bytes]);
                self.program_buffer(ppn, page.with_metadata(bytes, check), bytes)
            }
            Payload::None => {
                assert!(oob.kind == Kind::Dummy, "a page of kind {:?} needs content", oob.kind);
                self.put_record(ppn, page)
            }
        }
    }

    fn append(&mut self, ppn: Ppn, at: u32, bytes: &[u8], mark: u16, _: Cause) -> Result<(), Fault> {
        self.append_bytes(ppn, at, bytes, mark)
    }

    fn copy(&mut self, from: Ppn, to: Ppn, _: Cause, edit: impl FnOnce(&mut Oob, &mut [u32])) -> Result<Oob, Fault> {
        self.touch()?;
        let source = self.page(from)?;
        assert!(source.state() != State::Blank, "copy of blank page {from}");
        assert!(source.state() == State::Damaged || source.kind != Kind::Torn, "copy of torn page {from}");
        let sound = self.fill(from, source)?;
        let mut oob = Oob { mark: 0, ..source.oob() };
        match source.kind {
            // Its checksum goes with it, right or wrong.
            Kind::Data | Kind::Log => {
                edit(&mut oob, &mut []);
                self.take_page(to, oob.mode)?;
                self.put_own(to)?;
                let page = Page { check: source.check, ..Page::new(&oob) };
                self.program_buffer(to, page, self.buffer.len())?;
            }
            _ if !sound || source.state() == State::Damaged => return Err(Fault(FaultKind::Uncorrectable)),
            _ => {
                self.fill_words(source.used());
                let mut words = std::mem::take(&mut self.words);
                edit(&mut oob, &mut words);
                self.take_page(to, oob.mode)?;
                self.put_own(to)?;
                let bytes = self.pour_words(&words);
                let check = crc32fast::hash(&self.buffer[..bytes]);
                self.words = words;
                self.program_buffer(to, Page::new(&oob).with_metadata(bytes, check), bytes)?;
            }
        }
        Ok(oob)
    }

    fn erase(&mut self, block: Block, _: Cause) -> Result<(), Fault> {
        self.touch()?;
        let entry = self.blocks[block.index()];
        assert!(entry.flags & Entry::BAD == 0, "erase of bad block {block}");
        self.forget(block, entry.erases + 1, 0)
    }

    #[inline]
    fn chain(&mut self, next: Chain) -> Chain {
        next
    }

    /// A failure of the host shows at the command that this is asked for.
    fn is_slc(&mut self, block: Block) -> bool {
        self.pages(block).is_ok_and(|pages| pages.slc)
    }

    fn mode_of(&mut self, ppn: Ppn) -> Mode {
        self.page(ppn).map_or(Mode::Normal, |page| page.mode)
    }

    /// The file remembers it, so that a scheme whose RAM is restored need not say it again.
    fn reserve_spare(&mut self, bytes: u32) -> bool {
        let before = self.standing.own;
        if self.failed.is_some() || before == bytes {
            return true;
        }
        assert!(before == 0, "{before} bytes of each spare area were reserved, now {bytes}");
        let spare = self.spec.device.geometry.oob_bytes;
        assert!(bytes + SPARE_CHECK <= spare, "{bytes} bytes and a checksum do not fit a spare area of {spare}");
        if let Some(code) = self.spec.ecc {
            let ecc = Ecc::new(code, &self.spec.device.geometry, bytes).unwrap_or_else(|why| panic!("{why}"));
            self.ecc = Some(Box::new(ecc));
        }
        if self.stand(Standing { own: bytes, ..self.standing }).is_ok() {
            self.loaded.fill(None);
        }
        true
    }

    fn stage_spare(&mut self, ppn: Ppn, bytes: &[u8]) {
        let own = self.standing.own as usize;
        assert!(
            bytes.len() <= own || self.failed.is_some(),
            "{} bytes in a spare area, {own} are reserved",
            bytes.len()
        );
        self.staged = Some((ppn, bytes.to_vec()));
    }

    fn spare(&self, ppn: Ppn) -> &[u8] {
        assert!(self.looked_at == Some(ppn), "bytes of the spare area of page {ppn}, which was not read");
        let g = &self.spec.device.geometry;
        let (offset, own) = (g.offset_of(ppn), self.standing.own as usize);
        match &self.loaded[g.block_of(ppn).index()] {
            Some(pages)
                if !matches!(pages.at(offset).state(), State::Blank | State::Damaged)
                    && pages.at(offset).kind != Kind::Torn =>
            {
                &pages.own[offset as usize * own..][..own]
            }
            _ => &[],
        }
    }
}

impl Fragile for Image {
    fn chip(&mut self) -> &mut dyn Damage {
        self
    }
}

/// A failure of the host in one of these shows at the next command.
impl Damage for Image {
    fn ruin(&mut self, ppn: Ppn) {
        // Of a blank block it is not known which mode was meant; no page follows one that was ruined there.
        let slc = self.is_slc(self.spec.device.geometry.block_of(ppn));
        let mode = if slc { Mode::Slc } else { Mode::Normal };
        let torn = Page::new(&Oob { kind: Kind::Torn, mode, ..Page::BLANK.oob() });
        let _ = self.touch().and_then(|()| self.take_page(ppn, mode)).and_then(|()| self.put_record(ppn, torn));
    }

    /// Changes the data itself, so that the checksum has to find it.
    fn spoil(&mut self, ppn: Ppn) {
        let mut spoil = || {
            self.touch()?;
            let page = self.page(ppn)?;
            self.settle()?;
            match self.data_bytes(page) {
                0 => self.put_record(ppn, Page { check: !page.check, ..page }),
                bytes => {
                    // With the parity, which alone may be enough to bring back a few bytes.
                    let (at, parity) =
                        self.ecc.as_ref().map_or((0, 0), |ecc| (ecc.at() as u64, ecc.parity_bytes(bytes)));
                    for (at, bytes) in [(self.layout.page(ppn), bytes), (self.layout.spare(ppn) + at, parity)] {
                        let mut stored = vec![0; bytes];
                        self.fetch(at, &mut stored)?;
                        stored.iter_mut().for_each(|byte| *byte = !*byte);
                        self.write(at, &stored)?;
                    }
                    Ok(())
                }
            }
        };
        let _ = spoil();
    }

    fn tear_append(&mut self, ppn: Ppn, at: u32, bytes: &[u8], mark: u16, face: AppendFace, rng: &mut Rng) {
        let Ok(page) = self.appendable(ppn) else { return };
        if let Some((left, mark)) = face.leave(bytes, mark, page.mark, rng) {
            let _ = self.append_bytes(ppn, at, &left, mark);
        }
    }

    fn half_erase(&mut self, block: Block, face: EraseFace, rng: &mut Rng) {
        let _ = self.try_half_erase(block, face, rng);
    }

    fn mark_bad(&mut self, block: Block) {
        let _ = self.touch().and_then(|()| self.set_flag(block, Entry::BAD));
    }
}

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
//! made by [`flash::PowerCut`], through [`flash::Damage`].
//!
//! **Gathered, then settled.** Programs reach the file together, without giving up the prefix (`gather`).
//! [`Image::settle`] says when: what was done before it survives the process. A [`crate::Disk`] settles before it
//! answers a request. An image that is dropped with programs still gathered is one whose process was killed before
//! them.
//!
//! **Never silently wrong.** Every record, entry and page of data has a checksum. A page whose data is not what was
//! programmed reads as torn while a device is mounted (a mount asks which pages are whole) and is uncorrectable
//! afterwards. A copy of a host page that cannot be corrected is a page that says so: it has the address and the
//! version and is *lost*. So a collection does not stop at it, and no older version takes its place. A damaged record
//! is a torn page; of the two copies of the block table and of the header the sound one counts. A record of zeros is
//! damaged too: before the first page of a block is programmed, all of its records are written, as of an earlier life.
//!
//! **The host's failures.** If a write fails (a full disk, a broken one), it is done again, for a part of a record is
//! none: the command has not happened, or has in spite of the error. The image refuses everything from then on
//! ([`flash::FaultKind::HostFailed`]) until it is loaded again: a scheme that went on would know less than the file.
//!
//! **Costs.** The file is sparse and costs what was written. RAM: 16 B a block, and 32 B for each page of a block that
//! was touched and is not blank, with what the scheme keeps in its spare area; a mount reads the records of a block at
//! once.
//!
//! **Bit errors.** Each record has parity in 14 of its bytes, but in images of format 1. With an error-correcting code
//! (`ecc`) each page has its own in what the scheme leaves of the spare area. Without one a flipped bit costs the page,
//! as above. [`Image::age`] flips bits.
//!
//! Rejected: punching holes to erase (slow, and not atomic),
//! memory mapping (needs `unsafe`, and a full disk becomes a signal), records of 32 B (too small for both the checks
//! and that code), an appended journal (compaction would be a translation layer below the translation layer).

pub(crate) mod backing;
mod chip;
mod damage;
mod ecc;
mod error;
mod file;
#[cfg(any(test, feature = "fuzzing"))]
pub mod forge;
mod gather;
mod header;
pub(crate) mod layout;
mod open;
mod pages;
mod record;
mod scrub;
mod standing;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use backing::{Host, Journal};
pub use error::ImageError;
pub use header::Spec;
pub use open::Access;
pub use scrub::{Scrub, Unsound};
pub(crate) use standing::written_by_another;
pub use standing::{Life, Totals};

use backing::Backing;
use ecc::Ecc;
use flash::{Block, Ppn};
use gather::Gather;
use layout::Layout;
use pages::Pages;
use record::Entry;
use standing::Standing;
use std::io;
use std::path::{Path, PathBuf};

/// The chip. See the module's description.
#[derive(Debug)]
pub struct Image {
    path: PathBuf,
    access: Access,
    backing: Backing,
    spec: Spec,
    format: u32,
    layout: Layout,
    standing: Standing,
    /// The host's disk has it that the checkpoint is worthless. What is read from the file when it is opened may be in
    /// the host's cache alone: whoever wrote it was killed, or failed, before it was durable.
    is_durably_dirty: bool,
    totals: Totals,
    /// The totals in the file.
    stored_totals: Totals,
    blocks: Vec<Entry>,
    /// Pages of the blocks that were touched.
    loaded: Vec<Option<Pages>>,
    /// Copies of header and table entries that are damaged while the other one is sound.
    damaged_copies: u64,
    /// Blocks of whose entry one copy is not what the other is: both are written before anything changes.
    unlike: Vec<Block>,
    failed: Option<io::Error>,
    /// Copies and partial programs that came to nothing because their page cannot be corrected.
    pub(crate) stopped_changes: u64,
    /// There was something in the file when it was opened, and it may be damaged.
    opened: bool,
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
    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the image is made of.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// The version of the file's format.
    pub fn format(&self) -> u32 {
        self.format
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

    /// Bytes of every spare area that are reserved for what the medium's user keeps there.
    pub fn reserved_spare(&self) -> u32 {
        self.standing.own
    }

    /// Blocks marked bad.
    pub fn bad_blocks(&self) -> impl Iterator<Item = Block> + '_ {
        (0..).map(Block).zip(&self.blocks).filter(|(_, entry)| entry.flags & Entry::BAD != 0).map(|(block, _)| block)
    }

    /// Damaged copies of the header or of entries of the block table, whose other copy is sound.
    pub fn damaged_copies(&self) -> u64 {
        self.damaged_copies
    }

    /// Whether the state in the file is damaged. Until the image is mounted nobody knows then what the scheme keeps in
    /// spare areas.
    pub fn is_state_damaged(&self) -> bool {
        self.standing.damaged
    }

    /// Wrong bits that the error-correcting code set right since the file was opened.
    pub fn corrected_bits(&self) -> u64 {
        self.corrected_bits
    }

    /// Why the host failed, if it did: everything is refused until [`Image::reload`].
    pub fn failure(&self) -> Option<&io::Error> {
        self.failed.as_ref()
    }

    /// Bytes of changes that are kept beside the file.
    pub(crate) fn bytes_beside(&self) -> u64 {
        self.backing.bytes_beside().unwrap_or(0)
    }

    /// Whether changes are kept beside a file that takes some otherwise.
    pub(crate) fn is_beside(&self) -> bool {
        self.access == Access::Use && self.backing.bytes_beside().is_some()
    }

    /// Bytes that the file seems to have, and bytes that it takes on the host's disk.
    ///
    /// # Errors
    /// The host's.
    pub fn file_bytes(&self) -> io::Result<(u64, u64)> {
        self.backing.bytes_and_cost()
    }

    /// Where records, data, spare areas and the checkpoint begin in the file.
    pub(crate) fn areas(&self) -> [u64; 4] {
        [self.layout.records, self.layout.data, self.layout.spares, self.layout.end]
    }

    /// From now on the host's disk takes nothing, or something again.
    #[cfg(test)]
    pub(crate) fn fill_disk(&self, full: bool) {
        self.backing.full.store(full, std::sync::atomic::Ordering::Relaxed);
    }

    /// Keeps what the host's disk was given since it was last made durable.
    pub(crate) fn keep_journal(&mut self) -> Journal {
        self.backing.keep_journal()
    }

    /// The host's disk fails to read, once, after so many more reads.
    #[cfg(test)]
    pub(crate) fn fail_to_read_after(&self, reads: u64) {
        self.backing.reads_left.set(reads);
    }

    /// What the host does with single reads and writes of the file from now on, however often it is opened again;
    /// returns what it did so far.
    pub(crate) fn set_host(&self, host: Option<Host>) -> Option<Host> {
        self.backing.set_host(host)
    }

    /// The host will fail after so many more writes: a full disk, or a kill between two of them.
    #[cfg(test)]
    pub(crate) fn fail_after(&mut self, writes: u64) {
        self.backing.writes_left = writes;
    }
}

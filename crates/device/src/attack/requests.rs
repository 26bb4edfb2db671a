//! What a host asks of a disk, at random, and what its contents are then.

use crate::disk::AnyDisk;
use crate::export::ExportError;
use flash::Rng;
use std::ops::Range;

/// What a host asks.
#[derive(Clone, Debug)]
pub(crate) enum Request {
    /// Place and bytes.
    Read(u64, usize),
    /// Place and data.
    Write(u64, Vec<u8>),
    /// Place and bytes.
    Trim(u64, u64),
    /// Place and bytes.
    Zero(u64, u64),
    Flush,
}

impl Request {
    /// One at random for a disk of `size` bytes; half of them are of odd alignment.
    pub(crate) fn draw(rng: &mut Rng, size: u64) -> Request {
        let aligned = rng.chance(0.5);
        let unit = if aligned { 512 } else { 1 };
        let offset = rng.below(size / unit) * unit;
        let bytes = (unit * (1 + rng.below(if aligned { 6 } else { 2500 }))).min(size - offset);
        match rng.below(20) {
            0..4 => Request::Read(offset, bytes as usize),
            4..14 => Request::Write(offset, (0..bytes).map(|_| rng.bits() as u8).collect()),
            14..16 => Request::Trim(offset, bytes),
            16..18 => Request::Zero(offset, bytes),
            _ => Request::Flush,
        }
    }

    /// Whether the disk answers it, and a read with what is in `contents`.
    ///
    /// # Errors
    /// The disk's.
    pub(crate) fn ask(&self, disk: &mut dyn AnyDisk, contents: &[u8]) -> Result<bool, ExportError> {
        match self {
            Request::Read(offset, bytes) => {
                let mut out = vec![0xee; *bytes];
                disk.read(*offset, &mut out)?;
                return Ok(out == contents[*offset as usize..][..*bytes]);
            }
            Request::Write(offset, data) => disk.write(*offset, data)?,
            Request::Trim(offset, bytes) => disk.trim(*offset, *bytes)?,
            Request::Zero(offset, bytes) => disk.zero(*offset, *bytes)?,
            Request::Flush => disk.flush()?,
        };
        Ok(true)
    }

    /// The pages, of `page` bytes, that it writes in whole or in part, or discards.
    pub(crate) fn changes(&self, page: usize) -> Range<usize> {
        match self {
            Request::Read(..) | Request::Flush => 0..0,
            Request::Write(offset, data) => *offset as usize / page..(*offset as usize + data.len()).div_ceil(page),
            Request::Zero(offset, bytes) => *offset as usize / page..((offset + bytes) as usize).div_ceil(page),
            Request::Trim(..) => self.discards(page, true),
        }
    }

    /// The pages that it discards. Zeros are written where discards are not durable.
    pub(crate) fn discards(&self, page: usize, durable: bool) -> Range<usize> {
        match self {
            Request::Zero(..) if !durable => 0..0,
            Request::Trim(offset, bytes) | Request::Zero(offset, bytes) => {
                (*offset as usize).div_ceil(page)..(offset + bytes) as usize / page
            }
            Request::Read(..) | Request::Write(..) | Request::Flush => 0..0,
        }
    }

    /// Changes `contents` as a disk of pages of `page` bytes has to.
    pub(crate) fn model(&self, contents: &mut [u8], page: u64) {
        let mut zero = |from: u64, to: u64| {
            if to > from {
                contents[from as usize..to as usize].fill(0);
            }
        };
        match self {
            Request::Read(..) | Request::Flush => {}
            Request::Write(offset, data) => contents[*offset as usize..][..data.len()].copy_from_slice(data),
            Request::Trim(offset, bytes) => zero(offset.next_multiple_of(page), (offset + bytes) / page * page),
            Request::Zero(offset, bytes) => zero(*offset, offset + bytes),
        }
    }
}

//! The file under an image, or the file and changes beside it that are never written to it.

use rustix::fs::{Advice, fadvise};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};

/// Bytes of a changed piece.
const PIECE: u64 = 4096;

/// What a disk has been given since it was last told to be durable: place, and bytes before and after.
#[cfg(test)]
pub(crate) type Journal = std::sync::Arc<std::sync::Mutex<Vec<(u64, Vec<u8>, Vec<u8>)>>>;

/// See the module's description.
#[derive(Debug)]
pub(super) struct Backing {
    file: File,
    /// Changed pieces, if the file itself must stay as it is.
    beside: Option<BTreeMap<u64, Box<[u8]>>>,
    /// Writes after which the host fails: what a test of full disks and of kills needs.
    #[cfg(test)]
    pub(super) writes_left: u64,
    /// The host's disk takes nothing, however often the file is opened.
    #[cfg(test)]
    pub(super) full: std::sync::Arc<std::sync::atomic::AtomicBool>,
    /// For a test of crashes of the host.
    #[cfg(test)]
    pub(super) journal: Option<Journal>,
    /// Reads after which the host's disk fails to read, once.
    #[cfg(test)]
    pub(super) reads_left: std::cell::Cell<u64>,
}

impl Backing {
    pub(super) fn new(file: File, beside: bool) -> Backing {
        // What is read ahead enters the host's cache in large pieces, and ext4 looks at every block of a piece for each
        // small write into it: half of the time of a random write. A host that takes no advice is only slower.
        let _ = fadvise(&file, 0, None, Advice::Random);
        Backing {
            file,
            beside: beside.then(BTreeMap::new),
            #[cfg(test)]
            writes_left: u64::MAX,
            #[cfg(test)]
            full: std::sync::Arc::default(),
            #[cfg(test)]
            journal: None,
            #[cfg(test)]
            reads_left: u64::MAX.into(),
        }
    }

    /// The same file again, without what stands beside it.
    pub(super) fn again(&self, beside: bool) -> io::Result<Backing> {
        let again = Backing::new(self.file.try_clone()?, beside);
        #[cfg(test)]
        let again = Backing { full: self.full.clone(), journal: self.journal.clone(), ..again };
        Ok(again)
    }

    /// Bytes of changed pieces, if changes are kept beside the file.
    pub(super) fn bytes_beside(&self) -> Option<u64> {
        self.beside.as_ref().map(|pieces| pieces.len() as u64 * PIECE)
    }

    /// Bytes that the file seems to have, and bytes that it takes on the disk.
    pub(super) fn bytes_and_cost(&self) -> io::Result<(u64, u64)> {
        let metadata = self.file.metadata()?;
        Ok((metadata.len(), metadata.blocks() * 512))
    }

    pub(super) fn bytes(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    pub(super) fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        #[cfg(test)]
        {
            let left = self.reads_left.get().checked_sub(1);
            self.reads_left.set(left.unwrap_or(u64::MAX));
            left.ok_or_else(|| io::Error::from_raw_os_error(5))?;
        }
        self.file.read_exact_at(out, offset)?;
        let Some(beside) = &self.beside else { return Ok(()) };
        let end = offset + out.len() as u64;
        for (&number, piece) in beside.range(offset / PIECE..end.div_ceil(PIECE)) {
            let start = number * PIECE;
            let (from, to) = (start.max(offset), (start + PIECE).min(end));
            let part = &piece[(from - start) as usize..(to - start) as usize];
            out[(from - offset) as usize..(to - offset) as usize].copy_from_slice(part);
        }
        Ok(())
    }

    pub(super) fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        #[cfg(test)]
        {
            self.writes_left = self.writes_left.checked_sub(1).ok_or(io::ErrorKind::StorageFull)?;
        }
        #[cfg(test)]
        if self.beside.is_none() && self.full.load(std::sync::atomic::Ordering::Relaxed) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        #[cfg(test)]
        if let (Some(journal), None) = (&self.journal, &self.beside) {
            // What lies beyond the end of the file is zeros until it is longer.
            let mut before = vec![0; data.len()];
            read_up_to(&self.file, offset, &mut before)?;
            journal.lock().unwrap().push((offset, before, data.to_vec()));
        }
        let Some(beside) = &mut self.beside else { return self.file.write_all_at(data, offset) };
        let end = offset + data.len() as u64;
        for number in offset / PIECE..end.div_ceil(PIECE) {
            let start = number * PIECE;
            let piece = match beside.entry(number) {
                std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
                std::collections::btree_map::Entry::Vacant(entry) => {
                    let mut piece = vec![0; PIECE as usize].into_boxed_slice();
                    read_up_to(&self.file, start, &mut piece)?;
                    entry.insert(piece)
                }
            };
            let (from, to) = (start.max(offset), (start + PIECE).min(end));
            piece[(from - start) as usize..(to - start) as usize]
                .copy_from_slice(&data[(from - offset) as usize..(to - offset) as usize]);
        }
        Ok(())
    }

    /// Makes everything written durable.
    pub(super) fn sync(&self) -> io::Result<()> {
        #[cfg(test)]
        if let Some(journal) = &self.journal {
            // Nothing else is to survive, so that the real disk need not be asked.
            journal.lock().unwrap().clear();
            return Ok(());
        }
        if self.beside.is_some() { Ok(()) } else { self.file.sync_data() }
    }

    pub(super) fn set_bytes(&self, bytes: u64) -> io::Result<()> {
        if self.beside.is_some() { Ok(()) } else { self.file.set_len(bytes) }
    }
}

/// Fills `out` from the file; what lies beyond its end stays.
fn read_up_to(file: &File, mut offset: u64, mut out: &mut [u8]) -> io::Result<()> {
    while !out.is_empty() {
        match file.read_at(out, offset) {
            Ok(0) => break,
            Ok(count) => {
                offset += count as u64;
                out = &mut out[count..];
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_beside_the_file_are_read_and_leave_it_alone() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&[1; 10_000], 0).unwrap();
        let mut backing = Backing::new(file.try_clone().unwrap(), true);
        backing.write(4000, &[2; 5000]).unwrap();
        backing.write(4090, &[3; 10]).unwrap();
        let mut read = [0; 6000];
        backing.read(3500, &mut read).unwrap();
        let expected = |at: usize| match at {
            4090..4100 => 3,
            4000..9000 => 2,
            _ => 1,
        };
        assert!(read.iter().enumerate().all(|(i, &byte)| byte == expected(3500 + i)));
        let mut plain = [0; 10_000];
        file.read_exact_at(&mut plain, 0).unwrap();
        assert_eq!(plain, [1; 10_000]);
    }
}

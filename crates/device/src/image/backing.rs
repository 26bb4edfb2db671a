//! The file under an image, or the file and changes beside it that are never written to it.
//!
//! The host may take or give less than it was asked for, or be interrupted: then the rest is asked for again. An end
//! where the file has none is an error, so that nothing reads as zeros that was not read.
//!
//! A host that cannot make the file durable says so once, and takes for done what it could not write: the next request
//! to make it durable succeeds, and what the host's cache shows may be gone. So what was written since it was durable
//! last is written again after such a failure, as it reads.

use rustix::fs::{Advice, fadvise};
use rustix::io::Errno;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Bytes of a changed piece.
const PIECE: u64 = 4096;
/// Reads of a piece that is to be written again, until it counts as one that cannot be read.
const TRIES: u32 = 3;

/// What a disk has been given since it was last told to be durable: place, and bytes before and after.
pub(crate) type Journal = Arc<Mutex<Vec<(u64, Vec<u8>, Vec<u8>)>>>;

/// What a host does when a file is read, written and made durable, drawn at random: what attacks and tests set.
#[derive(Clone, Debug)]
pub(crate) struct Host {
    pub(crate) rng: flash::Rng,
    /// Shares of the reads and writes that do a part of what they are asked for, that are interrupted, and that do
    /// nothing and report no error: an end of the file, or of the disk.
    pub(crate) partly: f64,
    pub(crate) interrupted: f64,
    pub(crate) nothing: f64,
    /// Share of the writes behind the first part of which the disk is full, up to a border of sectors.
    pub(crate) full: f64,
    /// The disk is full, once, and with each write.
    pub(crate) is_full: bool,
    pub(crate) stays_full: bool,
    /// Share of the times that the file cannot be made durable.
    pub(crate) fleeting: f64,
    /// How often each of them has happened.
    pub(crate) counts: [u64; 5],
}

impl Host {
    /// One that does all of these now and then.
    pub(crate) fn hitches(rng: flash::Rng) -> Host {
        Host { partly: 0.3, interrupted: 0.1, nothing: 0.002, full: 0.01, fleeting: 0.05, ..Host::willing(rng) }
    }

    /// One whose disk is full.
    pub(crate) fn full(rng: flash::Rng) -> Host {
        Host { stays_full: true, ..Host::willing(rng) }
    }

    /// One that does its part.
    pub(crate) fn willing(rng: flash::Rng) -> Host {
        let (partly, interrupted, nothing, full, fleeting) = (0.0, 0.0, 0.0, 0.0, 0.0);
        let (is_full, stays_full, counts) = (false, false, [0; 5]);
        Host { rng, partly, interrupted, nothing, full, is_full, stays_full, fleeting, counts }
    }

    /// Whether the file cannot be made durable now.
    fn fails_to_sync(&mut self) -> bool {
        let fails = self.rng.chance(self.fleeting);
        self.counts[4] += u64::from(fails);
        fails
    }

    /// Bytes that are read or written at once.
    fn draw(&mut self, offset: u64, bytes: usize, writes: bool) -> io::Result<usize> {
        let mut happens = |mood: usize, share: f64| {
            let does = self.rng.chance(share);
            self.counts[mood] += u64::from(does);
            does
        };
        if (std::mem::take(&mut self.is_full) || self.stays_full) && writes {
            self.counts[3] += u64::from(self.stays_full);
            return Err(io::ErrorKind::StorageFull.into());
        }
        if happens(1, self.interrupted) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        if happens(2, self.nothing) {
            return Ok(0);
        }
        let sectors = (offset / 512 + 1..).map(|sector| (sector * 512 - offset) as usize);
        let borders: Vec<usize> = sectors.take_while(|&part| part < bytes).collect();
        if writes && !borders.is_empty() && happens(3, self.full) {
            self.is_full = true;
            return Ok(borders[self.rng.below(borders.len() as u64) as usize]);
        }
        Ok(if bytes > 1 && happens(0, self.partly) { 1 + self.rng.below(bytes as u64 - 1) as usize } else { bytes })
    }
}

/// A file of the host. All of it is read and written by [`FileExt`], which goes on where the host has done a part.
#[derive(Debug)]
struct HostFile {
    file: File,
    /// A host that misbehaves, however often the file is opened, if somebody has asked for one.
    trouble: OnceLock<Arc<Mutex<Option<Host>>>>,
    /// What a crash of the host may take, if that is asked for.
    journal: Option<Journal>,
    /// Writes of the journal that the host takes for durable, and that its disk does not have.
    lost: Arc<AtomicUsize>,
    /// Where the rest of a write has to begin that was done in part.
    rest: Cell<u64>,
}

impl HostFile {
    #[inline(always)]
    fn at_once(&self, offset: u64, bytes: usize, writes: bool) -> io::Result<usize> {
        let Some(trouble) = self.trouble.get() else { return Ok(bytes) };
        locked(trouble).as_mut().map_or(Ok(bytes), |host| host.draw(offset, bytes, writes))
    }

    /// Makes durable what the host still takes for undone.
    fn sync(&self) -> io::Result<()> {
        let fails = self.trouble.get().is_some_and(|host| locked(host).as_mut().is_some_and(Host::fails_to_sync));
        let Some(journal) = &self.journal else {
            return if fails { Err(Errno::IO.into()) } else { self.file.sync_data() };
        };
        // Nothing else is to survive, so that the real disk need not be asked.
        let mut journal = locked(journal);
        if fails {
            self.lost.store(journal.len(), Ordering::Relaxed);
            return Err(Errno::IO.into());
        }
        let lost = self.lost.load(Ordering::Relaxed).min(journal.len());
        let since = journal.split_off(lost);
        journal.retain(|(place, _, data)| !is_covered(*place..*place + data.len() as u64, &since));
        self.lost.store(journal.len(), Ordering::Relaxed);
        Ok(())
    }
}

/// Whether all of a range was written.
fn is_covered(range: Range<u64>, writes: &[(u64, Vec<u8>, Vec<u8>)]) -> bool {
    let mut at = range.start;
    while at < range.end {
        let ends = writes.iter().map(|(place, _, data)| (*place, *place + data.len() as u64));
        match ends.filter(|&(start, end)| start <= at && at < end).map(|(_, end)| end).max() {
            Some(end) => at = end,
            None => return false,
        }
    }
    true
}

/// What a lock keeps is whole whenever somebody else may panic.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FileExt for HostFile {
    fn read_at(&self, out: &mut [u8], offset: u64) -> io::Result<usize> {
        let bytes = self.at_once(offset, out.len(), false)?;
        self.file.read_at(&mut out[..bytes], offset)
    }

    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<usize> {
        let whole = data.len();
        let data = &data[..self.at_once(offset, whole, true)?];
        let Some(journal) = &self.journal else { return self.file.write_at(data, offset) };
        // What lies beyond the end of the file is zeros until it is longer.
        let mut before = vec![0; data.len()];
        let mut read = 0;
        while read < before.len() {
            match self.file.read_at(&mut before[read..], offset + read as u64)? {
                0 => break,
                count => read += count,
            }
        }
        let count = self.file.write_at(data, offset)?;
        before.truncate(count);
        let mut journal = locked(journal);
        // The rest of a write goes with its beginning: what is left of it is left by sectors.
        let rest = self.rest.get();
        match journal.last_mut().filter(|(begin, ..)| rest != u64::MAX && (rest == offset || *begin == offset)) {
            Some((begin, first, begun)) => {
                // The rest, or all of it again.
                let at = (offset - *begin) as usize;
                let known = first.len() - at;
                first.extend(before.iter().skip(known));
                let behind = begun.split_off(at);
                begun.extend_from_slice(&data[..count]);
                begun.extend(behind.iter().skip(count));
            }
            None => journal.push((offset, before, data[..count].to_vec())),
        }
        self.rest.set(if count < whole { offset + count as u64 } else { u64::MAX });
        Ok(count)
    }
}

impl HostFile {
    /// Fills `out`; what lies beyond the end of the file stays.
    fn read_up_to(&self, mut offset: u64, mut out: &mut [u8]) -> io::Result<()> {
        while !out.is_empty() {
            match self.read_at(out, offset) {
                Ok(0) if offset < self.file.metadata()?.len() => return Err(io::ErrorKind::UnexpectedEof.into()),
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
}

/// See the module's description.
#[derive(Debug)]
pub(super) struct Backing {
    host: HostFile,
    /// Changed pieces, if the file itself must stay as it is.
    beside: Option<BTreeMap<u64, Box<[u8]>>>,
    /// A write that failed, perhaps in the middle of what stood there.
    unfinished: Option<(u64, Box<[u8]>)>,
    /// Pieces of the file that were written since it was made durable: 64 neighbours a word.
    undurable: BTreeMap<u64, u64>,
    /// The host failed to make them durable, and some could not be written again.
    is_lost: bool,
    /// Writes after which the host fails: what a test of full disks and of kills needs.
    #[cfg(test)]
    pub(super) writes_left: u64,
    /// The host's disk takes nothing, however often the file is opened.
    #[cfg(test)]
    pub(super) full: std::sync::Arc<std::sync::atomic::AtomicBool>,
    /// Reads after which the host's disk fails to read, once.
    #[cfg(test)]
    pub(super) reads_left: Cell<u64>,
}

impl Backing {
    pub(super) fn new(file: File, beside: bool) -> Backing {
        // What is read ahead enters the host's cache in large pieces, and ext4 looks at every block of a piece for each
        // small write into it: half of the time of a random write. A host that takes no advice is only slower.
        let _ = fadvise(&file, 0, None, Advice::Random);
        Backing {
            host: HostFile {
                file,
                trouble: OnceLock::new(),
                journal: None,
                lost: Arc::default(),
                rest: Cell::new(u64::MAX),
            },
            beside: beside.then(BTreeMap::new),
            unfinished: None,
            undurable: BTreeMap::new(),
            is_lost: false,
            #[cfg(test)]
            writes_left: u64::MAX,
            #[cfg(test)]
            full: std::sync::Arc::default(),
            #[cfg(test)]
            reads_left: u64::MAX.into(),
        }
    }

    /// The same file again, without what stands beside it. A write that failed is done again first: a part of it would
    /// be neither what was there nor what was to be. So is what the host may take for durable although it is not.
    ///
    /// # Errors
    /// The host refuses that.
    pub(super) fn again(&self, beside: bool) -> io::Result<Backing> {
        let again = Backing::new(self.host.file.try_clone()?, beside);
        let (trouble, journal) = (self.host.trouble.clone(), self.host.journal.clone());
        let mut again = Backing {
            host: HostFile { trouble, journal, lost: self.host.lost.clone(), ..again.host },
            undurable: self.undurable.clone(),
            is_lost: self.is_lost,
            #[cfg(test)]
            full: self.full.clone(),
            unfinished: self.unfinished.clone(),
            ..again
        };
        if let Some((offset, data)) = &self.unfinished {
            // A host that refuses it three times leaves what there is of it.
            let _ = again.write(*offset, data);
            // Beside the file it has to be done once more when there is another again.
            again.unfinished = again.unfinished.take().filter(|_| beside);
        }
        if again.is_lost && !beside {
            again.write_again()?;
        }
        Ok(again)
    }

    /// Bytes of changed pieces, if changes are kept beside the file.
    pub(super) fn bytes_beside(&self) -> Option<u64> {
        self.beside.as_ref().map(|pieces| pieces.len() as u64 * PIECE)
    }

    /// Bytes that the file seems to have, and bytes that it takes on the disk.
    pub(super) fn bytes_and_cost(&self) -> io::Result<(u64, u64)> {
        let metadata = self.host.file.metadata()?;
        Ok((metadata.len(), metadata.blocks() * 512))
    }

    pub(super) fn bytes(&self) -> io::Result<u64> {
        Ok(self.host.file.metadata()?.len())
    }

    pub(super) fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        #[cfg(test)]
        {
            let left = self.reads_left.get().checked_sub(1);
            self.reads_left.set(left.unwrap_or(u64::MAX));
            left.ok_or_else(|| io::Error::from(Errno::IO))?;
        }
        self.host.read_exact_at(out, offset)?;
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
        let Some(beside) = &mut self.beside else {
            let (mut piece, end) = (offset / PIECE, (offset + data.len() as u64).div_ceil(PIECE));
            while piece < end {
                let next = end.min((piece / 64 + 1) * 64);
                *self.undurable.entry(piece / 64).or_default() |= u64::MAX >> (64 - (next - piece)) << (piece % 64);
                piece = next;
            }
            let written = self.host.write_all_at(data, offset);
            // A part of it is neither what was there nor what is to be, and a record of which a part is new is none.
            if written.is_err() && self.host.write_all_at(data, offset).is_err() {
                self.unfinished = Some((offset, data.into()));
            }
            return written;
        };
        let end = offset + data.len() as u64;
        for number in offset / PIECE..end.div_ceil(PIECE) {
            let start = number * PIECE;
            let piece = match beside.entry(number) {
                std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
                std::collections::btree_map::Entry::Vacant(entry) => {
                    let mut piece = vec![0; PIECE as usize].into_boxed_slice();
                    self.host.read_up_to(start, &mut piece)?;
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
    ///
    /// # Errors
    /// The host's: its disk has any part of what was written since the last time.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        if self.beside.is_some() {
            return Ok(());
        }
        let synced = self.host.sync();
        match &synced {
            Ok(()) => self.undurable.clear(),
            // At once: whoever opens the file next, after the end of this process, does not know of it.
            Err(_) => _ = self.write_again(),
        }
        synced
    }

    /// Writes again what was written since the file was durable, as it reads now, so that the host does not take it for
    /// done.
    #[cold]
    fn write_again(&mut self) -> io::Result<()> {
        self.is_lost = true;
        let bytes = self.bytes()?;
        let mut piece = [0; PIECE as usize];
        let pieces = |(&word, &bits): (&u64, &u64)| {
            (0..64).filter(move |bit| bits >> bit & 1 == 1).map(move |bit| word * 64 + bit)
        };
        for start in self.undurable.iter().flat_map(pieces).map(|number| number * PIECE) {
            let piece = &mut piece[..bytes.saturating_sub(start).min(PIECE) as usize];
            // A read that failed once may do the next time. Of what cannot be read nothing is to be saved.
            if (0..TRIES).any(|_| self.host.read_exact_at(piece, start).is_ok()) {
                self.host.write_all_at(piece, start)?;
            }
        }
        self.is_lost = false;
        Ok(())
    }

    /// What the host does with reads and writes from now on; what it did so far.
    pub(super) fn set_host(&self, host: Option<Host>) -> Option<Host> {
        std::mem::replace(&mut *locked(self.host.trouble.get_or_init(Arc::default)), host)
    }

    /// Keeps from now on what the host's disk was given since it was last made durable.
    pub(super) fn keep_journal(&mut self) -> Journal {
        self.host.journal.get_or_insert_default().clone()
    }

    pub(super) fn set_bytes(&self, bytes: u64) -> io::Result<()> {
        if self.beside.is_some() { Ok(()) } else { self.host.file.set_len(bytes) }
    }
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

    fn parts(nothing: f64, seed: u64) -> Host {
        let rng = flash::Rng::new(seed);
        Host { partly: 0.5, interrupted: 0.2, nothing, ..Host::willing(rng) }
    }

    #[test]
    fn what_the_host_does_in_parts_is_done_whole() {
        let contents: Vec<u8> = (0..10_000).map(|at| (at % 251) as u8).collect();
        for beside in [false, true] {
            let file = tempfile::tempfile().unwrap();
            file.write_all_at(&[1; 10_000], 0).unwrap();
            let mut backing = Backing::new(file, beside);
            backing.set_host(Some(parts(0.0, 3)));
            let mut read = vec![0; 10_000];
            for (at, part) in (0..).step_by(333).zip(contents.chunks(333)) {
                backing.write(at, part).unwrap();
                backing.read(0, &mut read).unwrap();
                let written = at as usize + part.len();
                assert!(read[..written] == contents[..written] && read[written..].iter().all(|&byte| byte == 1));
            }
            let counts = backing.set_host(None).unwrap().counts;
            assert!(counts[0] > 30 && counts[1] > 10, "{counts:?}");
        }
    }

    /// A piece that is changed beside the file has zeros where the file ends. One read that gave nothing in the middle
    /// of the file made zeros of the rest of the piece, and reads of it gave these without an error.
    #[test]
    fn an_end_in_the_middle_of_the_file_is_an_error_and_no_zeros() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&[1; 10_000], 0).unwrap();
        let mut errors = 0;
        for seed in 0..200 {
            let mut backing = Backing::new(file.try_clone().unwrap(), true);
            backing.set_host(Some(parts(0.1, seed)));
            let mut read = [0; 10_000];
            let written = backing.write(9_990, &[2; 20]).is_ok();
            let all = backing.read(0, &mut read);
            backing.set_host(None);
            let known = |read: &[u8]| {
                let end = if written { 2 } else { 1 };
                read[..9_990].iter().all(|&byte| byte == 1) && read[9_990..].iter().all(|&byte| byte == end)
            };
            assert!(all.is_err() || known(&read), "seed {seed}");
            backing.read(0, &mut read).unwrap();
            assert!(known(&read), "seed {seed}: the write was {}", if written { "done" } else { "refused" });
            errors += u32::from(!written) + u32::from(all.is_err());
        }
        assert!(errors > 20, "{errors}");
    }
}

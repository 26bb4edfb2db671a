//! Programs on their way to the file.
//!
//! A program that went to the file at once would cost two writes, of a page and of its 64-byte record, and a file
//! system charges more for a write than for the 4 KiB in it. So programs are gathered, and written together: the data,
//! pages that follow each other in the file in one write, and then the records, *in the order of the programs*,
//! neighbours in one write.
//!
//! **Still a prefix.** A page is blank to everybody until its record is in the file. Killed while it writes data, the
//! process leaves the file as it was before all that was gathered; killed among the records, it leaves the first of
//! them, and all their data. A write of several records is taken up by the kernel from its beginning, a page of its
//! cache at a time, and no record lies across two of those. So whatever is gathered, however many blocks are open, the
//! file is the effect of the commands up to some point, and no scheme needs to know.
//!
//! Rejected: records gathered for each block, fewer writes if dies take turns, but then a page may be missing that was
//! programmed before another one. A translation page that is there while a data page is not, which its watermark says
//! it reflects, makes a mount take the logical page for a discarded one: what was flushed before would read as zeros.
//!
//! Partial programs are gathered as well: a page's record says how many of its bytes were programmed, and those that a
//! partial program adds lie behind them. Everything else that changes the file comes after what is gathered: erases,
//! bad-block marks. A read of gathered data brings it into the file first.

use super::backing::Backing;
use super::layout::RECORD;
use std::io;
use std::ops::Range;

/// Bytes at which programs are written.
const MOST_BYTES: usize = 1 << 20;

/// Data that follows each other in the file.
#[derive(Debug, Default)]
struct Run {
    start: u64,
    data: Vec<u8>,
}

impl Run {
    fn end(&self) -> u64 {
        self.start + self.data.len() as u64
    }
}

/// See the module's description.
#[derive(Debug, Default)]
pub(super) struct Gather {
    /// The first `open` are in use, the others keep their memory.
    runs: Vec<Run>,
    open: usize,
    /// Where each record goes.
    places: Vec<u64>,
    records: Vec<u8>,
    bytes: usize,
}

impl Gather {
    pub(super) fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Whether it is time to write.
    pub(super) fn is_full(&self) -> bool {
        self.bytes >= MOST_BYTES
    }

    /// Takes the data of a page.
    pub(super) fn data(&mut self, offset: u64, data: &[u8]) {
        self.bytes += data.len();
        // What is here of the same place already stands in a run that may be written later: it must not come last.
        let is_new = !self.holds(offset..offset + data.len() as u64);
        if let Some(run) = self.runs[..self.open].iter_mut().find(|run| is_new && run.end() == offset) {
            run.data.extend_from_slice(data);
            return;
        }
        if self.open == self.runs.len() {
            self.runs.push(Run::default());
        }
        let run = &mut self.runs[self.open];
        run.start = offset;
        run.data.extend_from_slice(data);
        self.open += 1;
    }

    /// Takes a record: of all that was taken so far.
    pub(super) fn record(&mut self, offset: u64, record: &[u8; RECORD as usize]) {
        self.bytes += record.len();
        self.places.push(offset);
        self.records.extend_from_slice(record);
    }

    /// Whether any data of a range of the file is here.
    pub(super) fn holds(&self, range: Range<u64>) -> bool {
        self.runs[..self.open].iter().any(|run| run.start < range.end && range.start < run.end())
    }

    /// Writes everything. If that fails, some of it may be in the file, as after a kill.
    pub(super) fn write_to(&mut self, backing: &mut Backing) -> io::Result<()> {
        for run in &self.runs[..self.open] {
            backing.write(run.start, &run.data)?;
        }
        let mut first = 0;
        for neighbours in self.places.chunk_by(|one, next| one + RECORD == *next) {
            let size = neighbours.len() * RECORD as usize;
            backing.write(neighbours[0], &self.records[first..first + size])?;
            first += size;
        }
        self.runs[..self.open].iter_mut().for_each(|run| run.data.clear());
        self.open = 0;
        self.places.clear();
        self.records.clear();
        self.bytes = 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_goes_by_place_and_records_by_order() {
        let mut backing = Backing::new(tempfile::tempfile().unwrap(), false);
        backing.set_bytes(1 << 20).unwrap();
        let mut gather = Gather::default();
        // Two open blocks take turns; then three pages of one block.
        for (number, page) in [8u64, 16, 9, 17, 18, 19].into_iter().enumerate() {
            gather.data(4096 * page, &[number as u8; 4096]);
            gather.record((100 << 10) + 64 * page, &[number as u8; 64]);
        }
        let holds = |range| gather.holds(range);
        assert!(holds(4096 * 9..4096 * 9 + 1) && holds(4096 * 10 - 1..4096 * 12) && !holds(4096 * 10..4096 * 16));
        backing.writes_left = 2 + 3;
        assert!(gather.write_to(&mut backing).is_err(), "two runs of data, then records 8, 16, 9 and 17 to 19");
        let seen = |offset| {
            let mut byte = [0xee];
            backing.read(offset, &mut byte).unwrap();
            byte[0]
        };
        assert_eq!([8, 16, 9, 17, 18, 19].map(|page| seen(4096 * page)), [0, 1, 2, 3, 4, 5]);
        assert_eq!([16, 9, 17, 18, 19].map(|page| seen((100 << 10) + 64 * page)), [1, 2, 0, 0, 0]);
        backing.writes_left = u64::MAX;
        gather.write_to(&mut backing).unwrap();
        assert!(gather.is_empty());
        let mut last = [0];
        backing.read((100 << 10) + 64 * 19, &mut last).unwrap();
        assert_eq!(last, [5]);
    }

    /// The parity of a page that took a partial program was older in the file than in RAM.
    #[test]
    fn what_was_taken_last_of_a_place_is_what_is_written() {
        let mut backing = Backing::new(tempfile::tempfile().unwrap(), false);
        let mut gather = Gather::default();
        gather.data(0, &[1; 8]);
        gather.data(16, &[2; 8]);
        gather.data(8, &[3; 8]);
        gather.data(16, &[4; 8]);
        gather.write_to(&mut backing).unwrap();
        let mut read = [0; 24];
        backing.read(0, &mut read).unwrap();
        assert_eq!(read, [[1; 8], [3; 8], [4; 8]].concat()[..]);
    }
}

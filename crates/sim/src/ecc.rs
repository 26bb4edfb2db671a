//! What differentiated error correction had to work with, and what it did (the differentiated-ECC paper, sections III
//! and VI).
//!
//! [`Ecc`] is the part of a result that says which codes the host's pages were written and read with, and how well
//! reads and writes are separated in the workload: over the whole of it by address (Figure 1), and within short windows
//! of it (Figure 2). [`Overlap`] counts the latter beside the run.

use crate::report::ratio;
use flash::{Cause, Lpn, Mode, Op, Tally};
use serde::{Deserialize, Serialize};

/// Codes and efforts of the host's pages; absent where no policy decides about them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ecc {
    /// Host pages programmed in normal mode, with BCH.
    pub normal_writes: u64,
    /// With medium effort.
    pub medium_writes: u64,
    /// With low cost, and LDPC.
    pub low_cost_writes: u64,
    /// Share of the last in all; absent without writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low_cost_write_ratio: Option<f64>,
    /// Pages read for the host that were in normal mode: the fast code.
    pub normal_reads: u64,
    /// That were programmed with medium effort.
    pub medium_reads: u64,
    /// That were programmed with low cost: the slow code.
    pub low_cost_reads: u64,
    /// Share of the last in all; absent without reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low_cost_read_ratio: Option<f64>,
    /// Share of collected pages whose copies were programmed with low cost; absent without copies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low_cost_copy_ratio: Option<f64>,
    /// Pages rewritten in normal mode because they were read often.
    pub rewrites: u64,
    /// Logical pages that the host only read.
    pub read_only_pages: u64,
    /// That it only wrote.
    pub write_only_pages: u64,
    /// That it read and wrote.
    pub overlapped_pages: u64,
    /// Share of the last in the three; absent without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap_ratio: Option<f64>,
    /// The same share within windows of [`WINDOW`] page accesses, as a mean weighted by the pages of each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_overlap_ratio: Option<f64>,
}

impl Ecc {
    /// What the commands of a run say.
    pub fn of(tally: &Tally) -> Ecc {
        let host = |op, mode| tally.of_mode(Cause::Host, op, mode);
        let share = |cause, op, mode| ratio(tally.of_mode(cause, op, mode) as f64, tally.get(cause, op) as f64);
        Ecc {
            normal_writes: host(Op::Program, Mode::Normal),
            medium_writes: host(Op::Program, Mode::Medium),
            low_cost_writes: host(Op::Program, Mode::LowCost),
            low_cost_write_ratio: share(Cause::Host, Op::Program, Mode::LowCost),
            normal_reads: host(Op::Read, Mode::Normal),
            medium_reads: host(Op::Read, Mode::Medium),
            low_cost_reads: host(Op::Read, Mode::LowCost),
            low_cost_read_ratio: share(Cause::Host, Op::Read, Mode::LowCost),
            low_cost_copy_ratio: share(Cause::DataGc, Op::Program, Mode::LowCost),
            rewrites: tally.get(Cause::EccRewrite, Op::Program),
            ..Ecc::default()
        }
    }
}

/// Page accesses in a window: what the filters of the differentiated-ECC paper remember, four pairs of 512.
pub const WINDOW: u64 = 2048;

/// Equal parts of the device's addresses, the rows in which an interval of a series counts accesses.
pub const ROWS: usize = 48;

/// Pages read and pages written of each row.
pub type Rows = [[u64; ROWS]; 2];

/// Which pages were read and written, ever and in the present window.
#[derive(Clone, Debug)]
pub struct Overlap {
    /// Of each page the last window, from 1 on, in which it was read and written; 0 for never.
    last: Vec<[u32; 2]>,
    accesses: u64,
    /// Pages of each window, summed over the windows, and those of them that were read and written in it.
    touched: u64,
    both: u64,
    /// Accesses by address since they were taken last.
    rows: Rows,
}

impl Overlap {
    /// Nothing was touched yet.
    pub fn new(logical_pages: u64) -> Overlap {
        Overlap { last: vec![[0; 2]; logical_pages as usize], accesses: 0, touched: 0, both: 0, rows: [[0; ROWS]; 2] }
    }

    /// The host reads or writes a page.
    #[inline]
    pub fn note(&mut self, lpn: Lpn, write: bool) {
        let window = (self.accesses / WINDOW) as u32 + 1;
        self.accesses += 1;
        let row = lpn.index() * ROWS / self.last.len();
        self.rows[usize::from(write)][row] += 1;
        let last = &mut self.last[lpn.index()];
        let before = last.map(|then| then == window);
        last[usize::from(write)] = window;
        match (before[usize::from(write)], before[usize::from(!write)]) {
            (true, _) => {}
            (false, false) => self.touched += 1,
            (false, true) => self.both += 1,
        }
    }

    /// Takes the accesses by address since they were taken last: an interval's.
    pub fn take_rows(&mut self) -> Rows {
        core::mem::replace(&mut self.rows, [[0; ROWS]; 2])
    }

    /// Puts it into a result.
    pub fn describe(&self, ecc: &mut Ecc) {
        for last in &self.last {
            match last.map(|window| window > 0) {
                [false, false] => {}
                [true, false] => ecc.read_only_pages += 1,
                [false, true] => ecc.write_only_pages += 1,
                [true, true] => ecc.overlapped_pages += 1,
            }
        }
        let pages = ecc.read_only_pages + ecc.write_only_pages + ecc.overlapped_pages;
        ecc.overlap_ratio = ratio(ecc.overlapped_pages as f64, pages as f64);
        ecc.window_overlap_ratio = ratio(self.both as f64, self.touched as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_told_apart_over_all_and_within_windows() {
        let mut overlap = Overlap::new(8);
        // The first window reads pages 0 to 3 over and over, the second writes pages 2 to 5; page 2 is read in it too.
        (0..WINDOW).for_each(|i| overlap.note(Lpn((i % 4) as u32), false));
        (0..WINDOW - 1).for_each(|i| overlap.note(Lpn(2 + (i % 4) as u32), true));
        overlap.note(Lpn(2), false);
        let mut ecc = Ecc::default();
        overlap.describe(&mut ecc);
        assert_eq!((ecc.read_only_pages, ecc.write_only_pages, ecc.overlapped_pages), (2, 2, 2));
        assert_eq!(ecc.overlap_ratio, Some(2.0 / 6.0));
        assert_eq!(ecc.window_overlap_ratio, Some(1.0 / 8.0));
        // Eight pages in 48 rows: page 2 begins row 12.
        let [reads, writes] = overlap.take_rows();
        assert_eq!((reads[12], writes[12], reads[13], writes[0]), (WINDOW / 4 + 1, WINDOW / 4, 0, 0));
        assert_eq!((reads.iter().sum::<u64>(), writes.iter().sum::<u64>()), (WINDOW + 1, WINDOW - 1));
        assert_eq!(overlap.take_rows(), [[0; ROWS]; 2]);
    }

    #[test]
    fn shares_come_from_the_tally() {
        let mut tally = Tally::default();
        tally.add_many(Cause::Host, Op::Program, 10);
        tally.mark(Cause::Host, Op::Program, Mode::LowCost, 6);
        tally.mark(Cause::Host, Op::Program, Mode::Medium, 1);
        tally.add_many(Cause::DataGc, Op::Program, 4);
        tally.add_many(Cause::EccRewrite, Op::Program, 3);
        let ecc = Ecc::of(&tally);
        assert_eq!((ecc.normal_writes, ecc.medium_writes, ecc.low_cost_writes, ecc.rewrites), (3, 1, 6, 3));
        assert_eq!((ecc.low_cost_write_ratio, ecc.low_cost_copy_ratio), (Some(0.6), Some(0.0)));
        assert_eq!((ecc.low_cost_read_ratio, ecc.overlap_ratio), (None, None));
    }
}

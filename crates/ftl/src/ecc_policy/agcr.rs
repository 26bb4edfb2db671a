//! A classifier by past accesses with three write costs, after AGCR (Li et al. 2016) as the differentiated-ECC paper
//! describes it, section II.C.
//!
//! The controller remembers of every logical page whether its last few accesses were reads or writes. If all were
//! writes, the page is programmed with low cost; if all were reads, with high cost, which makes its reads cheap; if
//! they are interleaved, or nothing is known, with medium cost. One strong code protects all pages, and a read is the
//! dearer the coarser the steps were: the device's times of low-cost, normal and medium pages stand for the three.
//!
//! The differentiated-ECC paper describes AGCR in these words and gives no figures; the rest is our reading, marked so
//! here:
//!
//! - the history is that of the last 4 accesses of the page (`ecc-history`), and an access is judged by those before
//!   it, for otherwise no write could meet a page that is only read;
//! - high cost is the differentiated-ECC paper's normal program and its 75 µs read; the device says what medium cost
//!   is;
//! - copies of collections are classified too, and nothing is rewritten on its own account.
//!
//! RAM: a byte for each logical page, which is what the differentiated-ECC paper holds against it.

use super::{EccPolicy, EccRow};
use crate::{Loader, Parameter, Saver};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use flash::{Lpn, Mode};

/// `ecc-history`: accesses remembered of each page.
pub(crate) const HISTORY: Parameter = Parameter::count("ecc-history", 4, 1..=7)
    .unit("accesses")
    .text("Accesses that agcr remembers of each logical page. A longer history follows a change of behaviour later.")
    .source("ftlab; {ecc} is silent");

pub(super) const ROW: EccRow = EccRow {
    name: "agcr",
    summary: "pages only written with low cost, only read with high, interleaved with medium, by each page's history",
    source: "{agcr}, as {ecc} describes it in section II.C",
    make: |logical_pages, options| Box::new(Agcr::new(logical_pages, options.history)),
};

/// A history: the last accesses, a bit each and 1 for a write, below a 1 that says how many there are.
const EMPTY: u8 = 1;

#[derive(Clone, Debug)]
struct Agcr {
    histories: Vec<u8>,
    /// The largest history.
    full: u8,
}

impl Agcr {
    fn new(logical_pages: u32, length: u32) -> Agcr {
        Agcr { histories: vec![EMPTY; logical_pages as usize], full: 1 << length }
    }

    fn note(&mut self, lpn: Lpn, write: bool) {
        let history = &mut self.histories[lpn.index()];
        let longer = u16::from(*history) << 1 | u16::from(write);
        let full = u16::from(self.full);
        *history = if longer < 2 * full { longer as u8 } else { (longer & (full - 1) | full) as u8 };
    }

    fn judge(&self, lpn: Lpn) -> Mode {
        let history = self.histories[lpn.index()];
        let accesses = u8::BITS - 1 - history.leading_zeros();
        match (accesses, history.count_ones() - 1) {
            (0, _) => Mode::Medium,
            (_, 0) => Mode::Normal,
            (accesses, writes) if writes == accesses => Mode::LowCost,
            _ => Mode::Medium,
        }
    }
}

impl EccPolicy for Agcr {
    fn written(&mut self, lpn: Lpn) -> Mode {
        let mode = self.judge(lpn);
        self.note(lpn, true);
        mode
    }

    fn was_read(&mut self, lpn: Lpn) -> bool {
        self.note(lpn, false);
        false
    }

    fn copied(&self, lpn: Lpn, _: Mode) -> Mode {
        self.judge(lpn)
    }

    fn unknown(&self) -> Mode {
        Mode::Medium
    }

    fn memory(&self) -> u64 {
        self.histories.len() as u64
    }

    fn save(&self, out: &mut Saver) {
        self.histories.iter().for_each(|&history| out.u8(history));
    }

    fn load(&mut self, from: &mut Loader<'_>) {
        self.histories.fill_with(|| from.u8());
    }

    fn boxed(&self) -> Box<dyn EccPolicy + Send> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(history: &str, length: u32) -> Mode {
        let mut agcr = Agcr::new(4, length);
        let x = Lpn(2);
        for access in history.chars() {
            if access == 'w' {
                agcr.written(x);
            } else {
                assert!(!agcr.was_read(x));
            }
        }
        agcr.judge(x)
    }

    #[test]
    fn pages_are_classified_by_their_last_accesses() {
        for (history, mode) in [
            ("", Mode::Medium),
            ("w", Mode::LowCost),
            ("r", Mode::Normal),
            ("wr", Mode::Medium),
            ("wwww", Mode::LowCost),
            ("rwww", Mode::Medium),
            ("rwwww", Mode::LowCost),
            ("wwwwwrrrr", Mode::Normal),
            ("wrrr", Mode::Medium),
        ] {
            assert_eq!(after(history, 4), mode, "{history:?}");
        }
        assert_eq!([after("wr", 1), after("wrw", 1)], [Mode::Normal, Mode::LowCost]);
        assert_eq!([after("rwwwwww", 7), after("rwwwwwww", 7)], [Mode::Medium, Mode::LowCost]);
    }

    #[test]
    fn a_write_is_judged_by_what_came_before_it() {
        let mut agcr = Agcr::new(1, 4);
        assert_eq!(agcr.written(Lpn(0)), Mode::Medium);
        assert_eq!(agcr.written(Lpn(0)), Mode::LowCost);
        (0..4).for_each(|_| _ = agcr.was_read(Lpn(0)));
        assert_eq!(agcr.written(Lpn(0)), Mode::Normal);
        assert_eq!(agcr.written(Lpn(0)), Mode::Medium);
    }
}

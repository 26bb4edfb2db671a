//! One mode for every page: what differentiated policies are compared with.
//!
//! `uniform-bch` is page mapping as ever, command for command; `uniform-ldpc` has the fastest writes and the slowest
//! reads everywhere.

use super::{EccPolicy, EccRow};
use crate::{Loader, Saver};
use alloc::boxed::Box;
use flash::{Lpn, Mode};

pub(super) const BCH: EccRow = EccRow {
    name: "uniform-bch",
    summary: "every page in normal mode with BCH: the baseline",
    source: "{ecc}",
    make: |_, _| Box::new(Uniform(Mode::Normal)),
};

pub(super) const LDPC: EccRow = EccRow {
    name: "uniform-ldpc",
    summary: "every page with low cost and LDPC",
    source: "{ecc}, where it is what makes differentiation worth while",
    make: |_, _| Box::new(Uniform(Mode::LowCost)),
};

#[derive(Clone, Debug)]
struct Uniform(Mode);

impl EccPolicy for Uniform {
    fn written(&mut self, _: Lpn) -> Mode {
        self.0
    }
    fn was_read(&mut self, _: Lpn) -> bool {
        false
    }
    fn copied(&self, _: Lpn, _: Mode) -> Mode {
        self.0
    }
    fn unknown(&self) -> Mode {
        self.0
    }
    fn memory(&self) -> u64 {
        0
    }
    fn save(&self, _: &mut Saver) {}
    fn load(&mut self, _: &mut Loader<'_>) {}
    fn boxed(&self) -> Box<dyn EccPolicy + Send> {
        Box::new(self.clone())
    }
}

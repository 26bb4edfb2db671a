//! A look at every page of an image: what is wrong with it.

use super::Image;
use super::record::State;
use flash::{Fault, Kind, Ppn};

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

impl Image {
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
}

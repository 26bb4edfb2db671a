//! A look at every page of an image: what is wrong with it.
//!
//! A power cut and a damaged file can look the same: the record is good, and the data is not what it says. A cut tears
//! pages in an image that was not always shut down cleanly, and since such a program was never acknowledged, nothing is
//! lost with its page. Where in its block the page lies tells nothing: some schemes fill the block further after the
//! cut. Whether something is lost a look at the pages does not tell: [`Scrub::judge`] is told by whoever mounts the
//! image.

use super::Image;
use super::record::{Page, State};
use flash::{Fault, Kind, Lpn, Ppn};

/// A page whose data is not what its record says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unsound {
    /// The page.
    pub ppn: Ppn,
    /// The logical page of which it held a version; `None` of a page of metadata.
    pub lpn: Option<Lpn>,
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
    pub bad_data: Vec<Unsound>,
    /// Such pages that a power cut may have torn: see [`Scrub::judge`].
    pub maybe_torn: Vec<Unsound>,
    /// Wrong bits that the error-correcting code set right.
    pub corrected_bits: u64,
}

impl Scrub {
    /// Says which logical pages cannot be read from the mounted image: the pages that held them are damaged, the others
    /// that may have been torn were. Of a page of metadata it counts whether anything is lost at all.
    pub fn judge(&mut self, lost: &[u64]) {
        for page in std::mem::take(&mut self.maybe_torn) {
            let costs = page.lpn.map_or(!lost.is_empty(), |lpn| lost.contains(&u64::from(lpn.0)));
            if costs {
                self.bad_data.push(page);
            } else {
                self.torn += 1;
            }
        }
        self.bad_data.sort_unstable_by_key(|page| page.ppn);
    }
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
                (State::Programmed, _) if !self.fill(ppn, page)? => {
                    let may_be = self.standing.interrupted && !page.is_lost();
                    let found = if may_be { &mut scrub.maybe_torn } else { &mut scrub.bad_data };
                    found.push(Unsound { ppn, lpn: held(page) });
                }
                _ => {}
            }
            scrub.pages += 1;
        }
        scrub.corrected_bits = self.corrected_bits - corrected;
        Ok(scrub)
    }
}

/// The logical page of which a page holds a version.
fn held(page: Page) -> Option<Lpn> {
    matches!(page.kind, Kind::Data | Kind::Log | Kind::Trim).then_some(Lpn(page.address))
}

//! What harms an image beside the commands of its scheme: time, and power cuts.

use super::Image;
use super::ecc::{self, SPARE_CHECK};
use super::layout::RECORD;
use super::record::{Entry, Page};
use flash::{AppendFace, Block, Damage, EraseFace, Fault, Flash, Fragile, Kind, Mode, Oob, Ppn, Rng};

impl Image {
    /// Which modes the pages are in that [`Image::age`] changes: each block with each mode of such a page, by blocks.
    ///
    /// # Errors
    /// The host failed.
    pub fn modes(&mut self) -> Result<Vec<(Block, Mode)>, Fault> {
        self.usable()?;
        let mut modes = Vec::new();
        for block in (0..self.spec.device.geometry.block_count()).map(Block) {
            let pages = &self.pages(block)?.pages;
            for mode in Mode::ALL {
                if pages.iter().any(|page| page.is_whole() && page.mode == mode) {
                    modes.push((block, mode));
                }
            }
        }
        Ok(modes)
    }

    /// Time goes by: flips each bit of what is programmed with the probability that `rate` gives for its page, the
    /// data, the spare area and the record of it. How many bits were flipped. What the scheme knows stays as it is, so
    /// a clean image is clean afterwards. The image counts its ageings, and each has randomness of its own: under one
    /// seed a second one would flip back what the first has flipped.
    ///
    /// # Errors
    /// The host failed.
    pub fn age(&mut self, seed: &Rng, rate: impl Fn(Ppn, Mode) -> f64) -> Result<u64, Fault> {
        let mut rng = seed.fork(&format!("ageing {}", self.totals.ageings));
        // Durably, before a bit has flipped: an ageing that is interrupted has been one.
        self.totals.ageings = self.totals.ageings.wrapping_add(1);
        self.sync()?;
        let g = self.spec.device.geometry;
        let mut flipped = 0;
        for ppn in (0..g.page_count()).map(Ppn) {
            let page = self.page(ppn)?;
            if !page.is_whole() {
                continue;
            }
            let data = self.data_bytes(page);
            let kept = if self.standing.own == 0 { 0 } else { (self.standing.own + SPARE_CHECK) as usize };
            let spare = self.ecc.as_ref().map_or(kept, |ecc| kept.max(ecc.at() + ecc.parity_bytes(data)));
            let rate = rate(ppn, page.mode);
            for (at, bytes) in [
                (self.layout.page(ppn), data),
                (self.layout.spare(ppn), spare),
                (self.layout.record(ppn), RECORD as usize),
            ] {
                let mut stored = vec![0; bytes];
                self.fetch(at, &mut stored)?;
                let flips = ecc::flip(&mut stored, rate, &mut rng);
                if flips > 0 {
                    self.write(at, &stored)?;
                    flipped += flips;
                }
            }
        }
        self.loaded.fill(None);
        self.sync()?;
        Ok(flipped)
    }

    fn try_half_erase(&mut self, block: Block, face: EraseFace, rng: &mut Rng) -> Result<(), Fault> {
        self.touch()?;
        let g = self.spec.device.geometry;
        let torn = Page::new(&Oob { kind: Kind::Torn, ..Page::BLANK.oob() });
        // First, so that no process that is killed meanwhile leaves the pages without it.
        self.set_flag(block, Entry::UNSAFE)?;
        for ppn in (0..g.pages_per_block).map(|offset| g.page(block, offset)) {
            match face {
                EraseFace::Mixed => match rng.below(3) {
                    0 => {}
                    1 => self.put_record(ppn, torn)?,
                    _ => self.put_record(ppn, Page::BLANK)?,
                },
                EraseFace::Garbage => self.put_record(ppn, torn)?,
                EraseFace::Intact | EraseFace::LooksBlank => {}
            }
        }
        match face {
            EraseFace::LooksBlank => self.forget(block, self.blocks[block.index()].erases, Entry::UNSAFE),
            _ => Ok(()),
        }
    }
}

impl Fragile for Image {
    fn chip(&mut self) -> &mut dyn Damage {
        self
    }
}

/// A failure of the host in one of these shows at the next command.
impl Damage for Image {
    fn ruin(&mut self, ppn: Ppn) {
        self.standing.interrupted = true;
        // Of a blank block it is not known which mode was meant; no page follows one that was ruined there.
        let slc = self.is_slc(self.spec.device.geometry.block_of(ppn));
        let mode = if slc { Mode::Slc } else { Mode::Normal };
        let torn = Page::new(&Oob { kind: Kind::Torn, mode, ..Page::BLANK.oob() });
        let _ = self.touch().and_then(|()| self.take_page(ppn, mode)).and_then(|()| self.put_record(ppn, torn));
    }

    /// Changes the data itself, so that the checksum has to find it.
    fn spoil(&mut self, ppn: Ppn) {
        self.standing.interrupted = true;
        let mut spoil = || {
            self.touch()?;
            let page = self.page(ppn)?;
            self.settle()?;
            match self.data_bytes(page) {
                _ if page.is_lost() => Ok(()),
                0 => self.put_record(ppn, Page { check: !page.check, ..page }),
                bytes => {
                    // With the parity, which alone may be enough to bring back a few bytes.
                    let (at, parity) =
                        self.ecc.as_ref().map_or((0, 0), |ecc| (ecc.at() as u64, ecc.parity_bytes(bytes)));
                    for (at, bytes) in [(self.layout.page(ppn), bytes), (self.layout.spare(ppn) + at, parity)] {
                        let mut stored = vec![0; bytes];
                        self.fetch(at, &mut stored)?;
                        stored.iter_mut().for_each(|byte| *byte = !*byte);
                        self.write(at, &stored)?;
                    }
                    Ok(())
                }
            }
        };
        let _ = spoil();
    }

    fn wreck(&mut self, ppn: Ppn) {
        self.standing.interrupted = true;
        let mut wreck = || {
            let torn = Page::new(&Oob { kind: Kind::Torn, mode: self.page(ppn)?.mode, ..Page::BLANK.oob() });
            self.touch()?;
            self.put_record(ppn, torn)
        };
        let _ = wreck();
    }

    fn tear_append(&mut self, ppn: Ppn, at: u32, bytes: &[u8], mark: u16, face: AppendFace, rng: &mut Rng) {
        self.standing.interrupted = true;
        let Ok(page) = self.appendable(ppn) else { return };
        if let Some((left, mark)) = face.leave(bytes, mark, page.mark, rng) {
            let _ = self.append_bytes(ppn, at, &left, mark);
        }
    }

    fn half_erase(&mut self, block: Block, face: EraseFace, rng: &mut Rng) {
        let _ = self.try_half_erase(block, face, rng);
    }

    fn mark_bad(&mut self, block: Block) {
        let _ = self.touch().and_then(|()| self.set_flag(block, Entry::BAD));
    }
}

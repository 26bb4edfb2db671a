//! The pages of a block as the file keeps them: their records, and what the scheme keeps in their spare areas.

use super::Image;
use super::layout::{RECORD, UNIT};
use super::record::{Entry, Page, State};
use flash::{Block, Fault, Kind, Mode, Ppn, ProgramOrder};

/// Pages of a block.
#[derive(Clone, Debug, Default)]
pub(super) struct Pages {
    /// Empty if all are blank.
    pub(super) pages: Box<[Page]>,
    /// What the scheme keeps in their spare areas; empty as well if that is nothing.
    pub(super) own: Box<[u8]>,
    /// One above the highest page that was programmed and is not damaged.
    pub(super) next: u32,
    /// The first page was blank, and the records above it were not looked at.
    pub(super) unseen: bool,
    /// They are as an image that was opened had them: a record that damage zeroed looks like a blank page.
    pub(super) stored: bool,
    /// They were programmed in SLC mode.
    pub(super) slc: bool,
}

impl Pages {
    pub(super) fn at(&self, offset: u32) -> Page {
        self.pages.get(offset as usize).copied().unwrap_or(Page::BLANK)
    }
}

impl Image {
    /// Reads the records of a block, unless that was done already.
    #[inline]
    fn load_block(&mut self, block: Block) -> Result<(), Fault> {
        if self.loaded[block.index()].is_some() { Ok(()) } else { self.read_records(block) }
    }

    #[cold]
    fn read_records(&mut self, block: Block) -> Result<(), Fault> {
        let g = self.spec.device.geometry;
        let entry = self.blocks[block.index()];
        let strict = g.order == ProgramOrder::Strict && entry.flags & Entry::UNSAFE == 0;
        let at = self.layout.block_records(block);
        let size = g.pages_per_block as usize * RECORD as usize;
        let mut bytes = vec![0; size];
        let (head, tail) = bytes.split_at_mut(size.min(UNIT as usize));
        self.fetch(at, head)?;
        let first = head.first_chunk().expect("a block has a page");
        let (first, of) = self.decode_stored(first, g.page(block, 0), entry);
        if strict && (first.state() == State::Blank || of < entry.generation) {
            // Nothing stands above a blank page, and most of the file may be a hole, which is slow to read.
            self.loaded[block.index()] = Some(Pages { unseen: true, stored: self.opened, ..Pages::default() });
            return Ok(());
        }
        self.fetch(at + head.len() as u64, tail)?;
        let own_bytes = self.standing.own as usize;
        let mut spares = vec![0; if own_bytes == 0 { 0 } else { g.pages_per_block as usize * g.oob_bytes as usize }];
        self.fetch(self.layout.spare(g.page(block, 0)), &mut spares)?;
        let records = bytes.as_chunks::<{ RECORD as usize }>().0;
        let count = records.len();
        let mut pages = Pages { stored: self.opened, ..Pages::default() };
        for (offset, record) in (0..).zip(records) {
            let ppn = g.page(block, offset);
            let (mut page, of) = self.decode_stored(record, ppn, entry);
            if of > entry.generation {
                // The host crashed, and the disk had taken a later program before the erase: the erase has happened.
                let erases = entry.erases + (of - entry.generation);
                self.put_entry(block, Entry { erases, generation: of, ..entry })?;
                return self.read_records(block);
            }
            if page.state() == State::Blank || of != entry.generation {
                continue;
            }
            if pages.pages.is_empty() {
                pages.pages = vec![Page::BLANK; count].into();
                pages.own = vec![0; count * own_bytes].into();
            }
            if own_bytes > 0 && page.kind != Kind::Torn {
                let spare = &mut spares[offset as usize * g.oob_bytes as usize..][..g.oob_bytes as usize];
                let wrong = spare_decode(spare, own_bytes, ppn, of).is_none();
                let bits = self.ecc.as_ref().filter(|_| wrong).map_or(0, |ecc| ecc.correct_kept(spare));
                match spare_decode(spare, own_bytes, ppn, of) {
                    Some(own) => {
                        pages.own[offset as usize * own_bytes..][..own_bytes].copy_from_slice(own);
                        self.corrected_bits += bits;
                    }
                    None => page = Page::DAMAGED,
                }
            }
            pages.pages[offset as usize] = page;
            pages.slc |= page.mode == Mode::Slc;
            if page.state() == State::Programmed {
                pages.next = offset + 1;
            }
        }
        if strict {
            // A blank page below a programmed one: its record was lost when the host crashed.
            let below = &mut pages.pages[..pages.next as usize];
            below.iter_mut().filter(|page| page.state() == State::Blank).for_each(|page| *page = Page::DAMAGED);
        }
        self.loaded[block.index()] = Some(pages);
        Ok(())
    }

    /// A record as the file has it. Zeros are a page that was never programmed, or damage.
    fn decode_stored(&mut self, record: &[u8; RECORD as usize], ppn: Ppn, entry: Entry) -> (Page, u32) {
        let (page_bytes, is_slc) = (self.buffer.len(), self.spec.device.geometry.bits_per_cell > 1);
        match self.decode_record(record, ppn, entry.generation) {
            (page, of) if !page.may_be(page_bytes, is_slc) => (Page::DAMAGED, of),
            (Page::BLANK, 0) if entry.flags & Entry::WRITTEN != 0 => (Page::DAMAGED, entry.generation),
            decoded => decoded,
        }
    }

    /// Before the first page of a block is programmed: from now on none of its records is zeros. Otherwise a record
    /// that damage zeroed could not be told from that of a blank page, and a mount by scan would not say that it has
    /// lost one; of a first record it would take the whole block for empty.
    #[cold]
    pub(super) fn write_all_records(&mut self, block: Block) -> Result<(), Fault> {
        let g = self.spec.device.geometry;
        let entry = self.blocks[block.index()];
        if !self.pages(block)?.pages.is_empty() {
            // An earlier version of ftlab has begun it.
            return Ok(());
        }
        let entry = Entry { generation: entry.generation.max(Entry::NEW.generation), ..entry };
        if entry != self.blocks[block.index()] {
            self.put_entry(block, entry)?;
        }
        let mut records = Vec::with_capacity(g.pages_per_block as usize * RECORD as usize);
        for ppn in (0..g.pages_per_block).map(|offset| g.page(block, offset)) {
            let mut record = Page::encode_blank(ppn, entry.generation);
            if let Some(ecc) = &self.ecc {
                ecc.protect_record(&mut record);
            }
            records.extend(record);
        }
        self.write(self.layout.block_records(block), &records)?;
        self.put_entry(block, Entry { flags: entry.flags | Entry::WRITTEN, ..entry })
    }

    /// A record as it was written, if it can be had.
    pub(super) fn decode_record(&mut self, record: &[u8; RECORD as usize], ppn: Ppn, generation: u32) -> (Page, u32) {
        let Some(ecc) = &self.ecc else { return Page::decode(record, ppn, generation) };
        let (record, bits) = ecc.record(record, ppn);
        self.corrected_bits += bits;
        Page::decode(&record, ppn, generation)
    }

    #[inline]
    pub(super) fn pages(&mut self, block: Block) -> Result<&mut Pages, Fault> {
        self.load_block(block)?;
        Ok(self.loaded[block.index()].as_mut().expect("its records were read"))
    }

    #[inline]
    pub(super) fn page(&mut self, ppn: Ppn) -> Result<Page, Fault> {
        let g = &self.spec.device.geometry;
        let (block, offset) = (g.block_of(ppn), g.offset_of(ppn));
        Ok(self.pages(block)?.at(offset))
    }

    /// Gathers what was staged for the spare area of a page, before its record.
    #[inline]
    pub(super) fn put_own(&mut self, ppn: Ppn) -> Result<(), Fault> {
        if self.standing.own == 0 { Ok(()) } else { self.put_staged(ppn) }
    }

    fn put_staged(&mut self, ppn: Ppn) -> Result<(), Fault> {
        let g = self.spec.device.geometry;
        let (block, offset) = (g.block_of(ppn), g.offset_of(ppn) as usize);
        let bytes = self.standing.own as usize;
        let mut own = match self.staged.take() {
            Some((of, staged)) if of == ppn => staged,
            _ => Vec::new(),
        };
        own.resize(bytes, 0);
        let mut spare = spare_encode(&own, ppn, self.blocks[block.index()].generation);
        if let Some(ecc) = &self.ecc {
            ecc.protect_kept(&mut spare);
        }
        self.gather.data(self.layout.spare(ppn), &spare);
        let pages = self.pages(block)?;
        if pages.own.is_empty() {
            pages.own = vec![0; g.pages_per_block as usize * bytes].into();
        }
        pages.own[offset * bytes..][..bytes].copy_from_slice(&own);
        Ok(())
    }

    /// Gathers the parity of what a page holds.
    pub(super) fn put_parity(&mut self, ppn: Ppn, data: &[u8]) {
        if let Some(ecc) = &mut self.ecc {
            self.gather.data(self.layout.spare(ppn) + ecc.at() as u64, ecc.protect(data));
        }
    }

    /// Gathers a page's record, last of all that belongs to its program.
    pub(super) fn put_record(&mut self, ppn: Ppn, page: Page) -> Result<(), Fault> {
        let g = self.spec.device.geometry;
        let (block, offset) = (g.block_of(ppn), g.offset_of(ppn));
        let Entry { generation, flags, .. } = self.blocks[block.index()];
        let mut record = match page.state() {
            State::Blank if flags & Entry::WRITTEN == 0 => [0; RECORD as usize],
            State::Blank => Page::encode_blank(ppn, generation),
            _ => page.encode(ppn, generation),
        };
        if let Some(ecc) = self.ecc.as_ref().filter(|_| record != [0; RECORD as usize]) {
            ecc.protect_record(&mut record);
        }
        self.gather.record(self.layout.record(ppn), &record);
        let pages = self.pages(block)?;
        if pages.pages.is_empty() {
            pages.pages = vec![Page::BLANK; g.pages_per_block as usize].into();
        }
        pages.pages[offset as usize] = page;
        pages.slc |= page.mode == Mode::Slc;
        if page.state() == State::Programmed {
            pages.next = pages.next.max(offset + 1);
        }
        if self.gather.is_full() { self.write_gathered() } else { Ok(()) }
    }
}

/// The checksum covers the page's number and life as well: what stands there from an earlier one is none of it.
fn spare_check(own: &[u8], ppn: Ppn, generation: u32) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(own);
    crc.update(&ppn.0.to_le_bytes());
    crc.update(&generation.to_le_bytes());
    crc.finalize()
}

/// What a scheme keeps in a spare area, with its checksum.
fn spare_encode(own: &[u8], ppn: Ppn, generation: u32) -> Vec<u8> {
    let mut spare = own.to_vec();
    spare.extend(spare_check(own, ppn, generation).to_le_bytes());
    spare
}

/// The `bytes` that a scheme keeps in a spare area; `None` if they are not what was written.
fn spare_decode(spare: &[u8], bytes: usize, ppn: Ppn, generation: u32) -> Option<&[u8]> {
    let (own, check) = spare.split_at(bytes);
    check.starts_with(&spare_check(own, ppn, generation).to_le_bytes()).then_some(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After a crash of the host the record of a new life may be there and the spare area still be that of the former.
    #[test]
    fn a_spare_area_is_of_one_page_and_one_life() {
        let spare = spare_encode(&[1, 2, 3], Ppn(5), 7);
        assert_eq!(spare_decode(&spare, 3, Ppn(5), 7), Some(&[1, 2, 3][..]));
        assert_eq!(spare_decode(&spare, 3, Ppn(5), 8), None);
        assert_eq!(spare_decode(&spare, 3, Ppn(6), 7), None);
    }
}

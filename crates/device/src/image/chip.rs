//! The commands of the chip, under the rules of NAND.

use super::Image;
use super::ecc::{Ecc, SPARE_CHECK};
use super::layout::RECORD;
use super::pages::Pages;
use super::record::{Entry, Page, State};
use super::standing::Standing;
use std::io;

use flash::{
    Block, Cause, Chain, Command, Fault, FaultKind, Flash, Geometry, Kind, Mode, Oob, Payload, Ppn, ProgramOrder, Rule,
    refuse,
};

impl Image {
    /// The scheme keeps so many bytes in spare areas, and an opened image says otherwise.
    #[cold]
    fn keeps_otherwise(&mut self, bytes: u32) {
        let own = self.standing.own;
        let what = format!("its state says {own} bytes of the scheme in each spare area, and it keeps {bytes}");
        self.failed = Some(io::Error::new(io::ErrorKind::InvalidData, what));
    }

    /// A rule of the chip was broken. By a bug of the scheme, unless the block is as an image that was opened had it:
    /// then what stands there, and was not what the scheme had reason to believe, may have led it. Copies take the mode
    /// of what stood there along to other blocks.
    #[cold]
    fn refuse_in(&mut self, block: Block, rule: Rule, command: Command, ppn: Ppn) -> Result<(), Fault> {
        let is_of_mode =
            matches!(rule, Rule::OneBitCells | Rule::InSlcMode | Rule::NotInSlcMode | Rule::BeyondSlcPages);
        if self.opened && (is_of_mode || self.pages(block)?.stored) {
            self.stopped_changes += 1;
            return Err(Fault(FaultKind::Uncorrectable));
        }
        refuse(rule.broken_by(command, ppn))
    }

    /// Insists that a page may be programmed now. A page whose record is damaged counts as one or the other, whichever
    /// lets the scheme go on: it is the file that is at fault.
    pub(super) fn take_page(&mut self, ppn: Ppn, mode: Mode) -> Result<(), Fault> {
        let g = self.spec.device.geometry;
        let (block, offset) = (g.block_of(ppn), g.offset_of(ppn));
        let slc = mode == Mode::Slc;
        let flags = self.blocks[block.index()].flags;
        let pages = self.pages(block)?;
        let next = pages.next;
        let in_order = match g.order {
            ProgramOrder::Strict => {
                offset >= next
                    && (next..offset).all(|below| match pages.at(below).state() {
                        State::Blank => pages.stored,
                        state => state == State::Damaged,
                    })
            }
            ProgramOrder::Ascending => offset >= next,
            ProgramOrder::Any => true,
        };
        let rule = match flags {
            _ if slc && g.bits_per_cell == 1 => Rule::OneBitCells,
            flags if flags & Entry::BAD != 0 => Rule::BadBlock,
            flags if flags & Entry::UNSAFE != 0 => Rule::EraseCutShort,
            _ if pages.slc && !slc => Rule::InSlcMode,
            _ if slc && !pages.slc && next > 0 => Rule::NotInSlcMode,
            _ if slc && offset >= g.slc_pages() => Rule::BeyondSlcPages,
            _ if pages.at(offset).state() == State::Programmed => Rule::NotBlank,
            _ if !in_order => Rule::OutOfOrder { next },
            flags if flags & Entry::WRITTEN == 0 => return self.write_all_records(block),
            _ => return Ok(()),
        };
        self.refuse_in(block, rule, Command::Program, ppn)
    }

    /// Bytes that a page's checksum covers.
    pub(super) fn data_bytes(&self, page: Page) -> usize {
        match page.kind {
            Kind::Data | Kind::Log => self.buffer.len(),
            Kind::Translation | Kind::Checkpoint | Kind::Trim => page.used(),
            Kind::Dummy | Kind::Bad | Kind::Torn => 0,
        }
    }

    /// Reads a page's data into the buffer; whether it is what was programmed, or could be made that again.
    pub(super) fn fill(&mut self, ppn: Ppn, page: Page) -> Result<bool, Fault> {
        if page.is_lost() {
            return Ok(false);
        }
        let (bytes, at) = (self.data_bytes(page), self.layout.page(ppn));
        if self.gather.holds(at..at + bytes as u64) {
            self.settle()?;
        }
        let read = self.backing.read(at, &mut self.buffer[..bytes]);
        self.host(read)?;
        let sound = crc32fast::hash(&self.buffer[..bytes]) == page.check;
        if sound { Ok(true) } else { self.correct(ppn, page) }
    }

    /// Corrects the data of a page in the buffer, if that can be.
    #[cold]
    fn correct(&mut self, ppn: Ppn, page: Page) -> Result<bool, Fault> {
        self.settle()?;
        let bytes = self.data_bytes(page);
        let Some(ecc) = self.ecc.as_mut().filter(|ecc| ecc.protects_data()) else { return Ok(false) };
        let mut parities = vec![0; ecc.parity_bytes(bytes)];
        let read = self.backing.read(self.layout.spare(ppn) + ecc.at() as u64, &mut parities);
        let bits = ecc.correct(&mut self.buffer[..bytes], &mut parities);
        self.host(read)?;
        let sound = crc32fast::hash(&self.buffer[..bytes]) == page.check;
        self.corrected_bits += if sound { bits } else { 0 };
        Ok(sound)
    }

    /// The first `used` bytes of the buffer as words of metadata; what is missing is blank.
    fn fill_words(&mut self, used: usize) {
        self.words.clear();
        let whole = used.next_multiple_of(4);
        self.buffer[used..whole].fill(u8::MAX);
        let bytes = self.buffer[..whole].as_chunks().0;
        self.words.extend(bytes.iter().map(|&word| u32::from_le_bytes(word)));
        self.words.resize(self.spec.device.geometry.entries_per_page() as usize, u32::MAX);
    }

    /// Words of metadata into the buffer; how many bytes they are, up to the last that is not blank.
    fn pour_words(&mut self, ppn: Ppn, words: &[u32]) -> usize {
        let capacity = self.buffer.len() / 4;
        if words.len() > capacity {
            let rule = Rule::TooManyWords { words: words.len() as u32, capacity: capacity as u32 };
            refuse(rule.broken_by(Command::Program, ppn));
        }
        for (to, word) in self.buffer.as_chunks_mut().0.iter_mut().zip(words) {
            *to = word.to_le_bytes();
        }
        used_bytes(&self.buffer[..words.len() * 4])
    }

    /// Programs the first `bytes` of the buffer; the page's checksum is theirs.
    fn program_buffer(&mut self, ppn: Ppn, page: Page, bytes: usize) -> Result<(), Fault> {
        self.totals.programs += 1;
        let buffer = std::mem::take(&mut self.buffer);
        self.gather.data(self.layout.page(ppn), &buffer[..bytes]);
        self.put_parity(ppn, &buffer[..bytes]);
        self.buffer = buffer;
        self.put_record(ppn, page)
    }

    /// Bytes behind those that a page holds are nothing until its record says so: a partial program is gathered as a
    /// program is.
    pub(super) fn append_bytes(&mut self, ppn: Ppn, at: u32, bytes: &[u8], mark: u16) -> Result<(), Fault> {
        self.touch()?;
        let g = self.spec.device.geometry;
        let page = self.appendable(ppn)?;
        let programs = u32::from(page.programs);
        let nop = if page.mode == Mode::Slc { g.slc_nop } else { g.nop };
        let (used, from) = (page.used(), at);
        let at = at as usize;
        let rule = match () {
            () if mark == u16::MAX => Some(Rule::BlankMark),
            () if programs >= nop => Some(Rule::Nop { programs, nop }),
            () if at + bytes.len() > self.buffer.len() => Some(Rule::BeyondPage),
            () if used > at => Some(Rule::ByteNotBlank { at: from, byte: used as u32 - 1 }),
            () => None,
        };
        if let Some(rule) = rule {
            self.refuse_in(g.block_of(ppn), rule, Command::Append, ppn)?;
        }
        if self.protects_data() {
            // The parity of what is there already, corrected if need be, goes on with the new bytes.
            self.fill(ppn, page)?;
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        let new = &mut buffer[used..at + bytes.len()];
        new[..at - used].fill(u8::MAX);
        new[at - used..].copy_from_slice(bytes);
        let length = used_bytes(new);
        let new = &buffer[used..used + length];
        // The checksum goes on from what it was: if the earlier bytes are not what was programmed, it stays wrong.
        let mut check = crc32fast::Hasher::new_with_initial_len(page.check, used as u64);
        check.update(new);
        let page = Page { programs: page.programs + 1, mark, ..page };
        let page = page.with_metadata(used + new.len(), check.finalize());
        self.gather.data(self.layout.page(ppn) + used as u64, new);
        self.put_parity(ppn, &buffer[..used + length]);
        self.buffer = buffer;
        self.put_record(ppn, page)
    }

    fn protects_data(&self) -> bool {
        self.ecc.as_ref().is_some_and(|ecc| ecc.protects_data())
    }

    /// A page that a partial program may add to.
    pub(super) fn appendable(&mut self, ppn: Ppn) -> Result<Page, Fault> {
        let block = self.spec.device.geometry.block_of(ppn);
        let flags = self.blocks[block.index()].flags;
        let page = self.page(ppn)?;
        let blank = page.state() == State::Blank && self.pages(block)?.stored;
        if page.state() == State::Damaged || page.is_lost() || blank {
            self.stopped_changes += 1;
            return Err(Fault(FaultKind::Uncorrectable));
        }
        let rule = match flags {
            flags if flags & Entry::BAD != 0 => Rule::BadBlock,
            flags if flags & Entry::UNSAFE != 0 => Rule::EraseCutShort,
            _ if page.state() == State::Programmed && page.is_metadata() => return Ok(page),
            _ => Rule::NoMetadata,
        };
        self.refuse_in(block, rule, Command::Append, ppn).map(|()| page)
    }

    /// A blank page is asked for what it holds: a bug of the scheme, unless damage may have zeroed its record.
    #[cold]
    fn refuse_blank(&mut self, command: Command, ppn: Ppn) -> Result<(), Fault> {
        let block = self.spec.device.geometry.block_of(ppn);
        if self.pages(block)?.stored {
            self.stopped_changes += u64::from(command == Command::Copy);
            return Err(Fault(FaultKind::Uncorrectable));
        }
        refuse(Rule::Blank.broken_by(command, ppn))
    }

    pub(super) fn set_flag(&mut self, block: Block, flag: u32) -> Result<(), Fault> {
        let entry = self.blocks[block.index()];
        self.put_entry(block, Entry { flags: entry.flags | flag, ..entry })
    }

    /// Begins the next life of a block: later than any that its records name. When the host crashed, its disk may have
    /// lost an erase and the first records after it, and taken later ones; their life must not come again.
    pub(super) fn forget(&mut self, block: Block, erases: u32, flags: u32) -> Result<(), Fault> {
        let flags = flags | self.blocks[block.index()].flags & Entry::WRITTEN;
        let mut newest = self.blocks[block.index()].generation;
        if self.pages(block)?.unseen {
            let g = self.spec.device.geometry;
            let mut bytes = vec![0; g.pages_per_block as usize * RECORD as usize];
            self.fetch(self.layout.block_records(block), &mut bytes)?;
            for (offset, record) in (0..).zip(bytes.as_chunks().0) {
                newest = newest.max(self.decode_record(record, g.page(block, offset), newest).1);
            }
        }
        let generation = newest + 1;
        self.put_entry(block, Entry { erases, generation, flags })?;
        self.loaded[block.index()] = Some(Pages::default());
        Ok(())
    }
}

/// Bytes up to the last that is not blank.
fn used_bytes(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|&byte| byte != u8::MAX).map_or(0, |last| last + 1)
}

impl Flash for Image {
    type User = [u8];
    type Fault = Fault;

    #[inline]
    fn geometry(&self) -> &Geometry {
        &self.spec.device.geometry
    }

    fn read(&mut self, ppn: Ppn, cause: Cause) -> Result<(Oob, Payload<'_, [u8]>), Fault> {
        self.usable()?;
        self.looked_at = Some(ppn);
        let page = self.page(ppn)?;
        if page.state() == State::Blank {
            self.refuse_blank(Command::Read, ppn)?;
        }
        let mut oob = page.oob();
        if page.state() == State::Damaged || !self.fill(ppn, page)? {
            // Whoever mounts asks whether the page is whole; whoever reads wants its data.
            if cause != Cause::Recovery {
                return Err(Fault(FaultKind::Uncorrectable));
            }
            if page.is_lost() {
                return Ok((oob, Payload::None));
            }
            oob.kind = Kind::Torn;
        }
        let payload = match oob.kind {
            Kind::Data | Kind::Log => Payload::User(&self.buffer[..]),
            Kind::Translation | Kind::Checkpoint | Kind::Trim => {
                self.fill_words(page.used());
                Payload::Meta(&self.words)
            }
            Kind::Dummy | Kind::Bad | Kind::Torn => Payload::None,
        };
        Ok((oob, payload))
    }

    fn read_oob(&mut self, ppn: Ppn, _: Cause) -> Result<Option<Oob>, Fault> {
        self.usable()?;
        self.looked_at = Some(ppn);
        let g = &self.spec.device.geometry;
        if g.offset_of(ppn) == 0 && self.blocks[g.block_of(ppn).index()].flags & Entry::BAD != 0 {
            return Ok(Some(Oob { kind: Kind::Bad, ..Page::BLANK.oob() }));
        }
        let page = self.page(ppn)?;
        Ok((page.state() != State::Blank).then(|| page.oob()))
    }

    fn program(&mut self, ppn: Ppn, oob: Oob, data: Payload<'_, [u8]>, cause: Cause) -> Result<(), Fault> {
        self.touch()?;
        if oob.kind == Kind::Bad {
            return self.set_flag(self.spec.device.geometry.block_of(ppn), Entry::BAD);
        }
        self.take_page(ppn, oob.mode)?;
        self.put_own(ppn)?;
        let page = Page::new(&oob);
        match data {
            Payload::User(user) => {
                assert!(matches!(oob.kind, Kind::Data | Kind::Log), "host data in a page of kind {:?}", oob.kind);
                assert_eq!(user.len(), self.buffer.len(), "a host page is programmed whole");
                self.totals.programs += 1;
                self.totals.host += u64::from(cause == Cause::Host);
                #[cfg(test)]
                if self.sparse_zeros && !self.protects_data() && user.iter().all(|&byte| byte == 0) {
                    return self.put_record(ppn, Page { check: crc32fast::hash(user), ..page });
                }
                self.gather.data(self.layout.page(ppn), user);
                self.put_parity(ppn, user);
                self.put_record(ppn, Page { check: crc32fast::hash(user), ..page })
            }
            Payload::Meta(words) => {
                let bytes = self.pour_words(ppn, words);
                let check = crc32fast::hash(&self.buffer[..bytes]);
                self.program_buffer(ppn, page.with_metadata(bytes, check), bytes)
            }
            Payload::None => {
                if !matches!(oob.kind, Kind::Dummy | Kind::Torn) {
                    refuse(Rule::NoContent(oob.kind).broken_by(Command::Program, ppn));
                }
                self.totals.programs += 1;
                self.put_record(ppn, page)
            }
        }
    }

    fn append(&mut self, ppn: Ppn, at: u32, bytes: &[u8], mark: u16, _: Cause) -> Result<(), Fault> {
        self.append_bytes(ppn, at, bytes, mark)
    }

    fn copy(&mut self, from: Ppn, to: Ppn, _: Cause, edit: impl FnOnce(&mut Oob, &mut [u32])) -> Result<Oob, Fault> {
        self.touch()?;
        let source = self.page(from)?;
        match source.state() {
            State::Blank => self.refuse_blank(Command::Copy, from)?,
            State::Programmed if source.kind == Kind::Torn => {
                let block = self.spec.device.geometry.block_of(from);
                self.refuse_in(block, Rule::Torn, Command::Copy, from)?;
            }
            _ => {}
        }
        let sound = self.fill(from, source)?;
        let mut oob = Oob { mark: 0, ..source.oob() };
        match source.kind {
            Kind::Data | Kind::Log | Kind::Trim if !sound && source.state() != State::Damaged => {
                self.words.clear();
                if source.kind == Kind::Trim {
                    self.words.resize(self.spec.device.geometry.entries_per_page() as usize, u32::MAX);
                }
                edit(&mut oob, &mut self.words);
                self.take_page(to, oob.mode)?;
                self.put_own(to)?;
                self.totals.programs += 1;
                self.put_record(to, Page::new(&oob).lost())?;
            }
            Kind::Data | Kind::Log => {
                edit(&mut oob, &mut []);
                self.take_page(to, oob.mode)?;
                self.put_own(to)?;
                let page = Page { check: source.check, ..Page::new(&oob) };
                self.program_buffer(to, page, self.buffer.len())?;
            }
            _ if !sound || source.state() == State::Damaged => {
                self.stopped_changes += 1;
                return Err(Fault(FaultKind::Uncorrectable));
            }
            _ => {
                self.fill_words(source.used());
                let mut words = std::mem::take(&mut self.words);
                edit(&mut oob, &mut words);
                self.take_page(to, oob.mode)?;
                self.put_own(to)?;
                let bytes = self.pour_words(to, &words);
                let check = crc32fast::hash(&self.buffer[..bytes]);
                self.words = words;
                self.program_buffer(to, Page::new(&oob).with_metadata(bytes, check), bytes)?;
            }
        }
        Ok(oob)
    }

    fn erase(&mut self, block: Block, _: Cause) -> Result<(), Fault> {
        self.touch()?;
        let entry = self.blocks[block.index()];
        if entry.flags & Entry::BAD != 0 {
            let first = self.spec.device.geometry.page(block, 0);
            self.refuse_in(block, Rule::BadBlock, Command::Erase, first)?;
        }
        self.forget(block, entry.erases + 1, 0)
    }

    #[inline]
    fn chain(&mut self, next: Chain) -> Chain {
        next
    }

    /// A failure of the host shows at the command that this is asked for.
    fn is_slc(&mut self, block: Block) -> bool {
        self.pages(block).is_ok_and(|pages| pages.slc)
    }

    fn mode_of(&mut self, ppn: Ppn) -> Mode {
        self.page(ppn).map_or(Mode::Normal, |page| page.mode)
    }

    /// The file remembers it, so that a scheme whose RAM is restored need not say it again.
    fn reserve_spare(&mut self, bytes: u32) -> bool {
        let before = self.standing.own;
        if self.failed.is_some() || before == bytes {
            return true;
        }
        if before != 0 && self.opened {
            self.keeps_otherwise(bytes);
            return true;
        }
        if before != 0 {
            refuse(Rule::ReservedBefore { before, now: bytes }.broken_by(Command::Spare, Ppn(0)));
        }
        let spare = self.spec.device.geometry.oob_bytes;
        assert!(bytes + SPARE_CHECK <= spare, "{bytes} bytes and a checksum do not fit a spare area of {spare}");
        if self.format > 1 {
            let ecc = Ecc::new(self.spec.ecc, &self.spec.device.geometry, bytes);
            self.ecc = Some(Box::new(ecc.unwrap_or_else(|why| panic!("{why}"))));
        }
        if self.stand(Standing { own: bytes, ..self.standing }).is_ok() {
            self.loaded.fill(None);
        }
        true
    }

    fn stage_spare(&mut self, ppn: Ppn, bytes: &[u8]) {
        let (length, reserved) = (bytes.len() as u32, self.standing.own);
        if length > reserved && self.failed.is_none() {
            // A scheme that was restored from saved RAM has reserved nothing anew.
            if !self.opened {
                refuse(Rule::NotReserved { bytes: length, reserved }.broken_by(Command::Spare, ppn));
            }
            self.keeps_otherwise(length);
        }
        self.staged = Some((ppn, bytes.to_vec()));
    }

    fn spare(&self, ppn: Ppn) -> &[u8] {
        if self.looked_at != Some(ppn) {
            refuse(Rule::NotRead.broken_by(Command::Spare, ppn));
        }
        let g = &self.spec.device.geometry;
        let (offset, own) = (g.offset_of(ppn), self.standing.own as usize);
        match &self.loaded[g.block_of(ppn).index()] {
            Some(pages)
                if !matches!(pages.at(offset).state(), State::Blank | State::Damaged)
                    && pages.at(offset).kind != Kind::Torn =>
            {
                &pages.own[offset as usize * own..][..own]
            }
            _ => &[],
        }
    }
}

//! Pages and blocks as the file holds them: fixed little-endian records, each with a checksum of its own that covers
//! its number too, so that a record in the wrong place is none.

use super::layout::{ENTRY, RECORD};
use flash::{Block, Kind, Mode, Oob, Ppn};

/// What the spare area of a page holds, and what the file needs to know of its data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Page {
    pub(super) kind: Kind,
    pub(super) mode: Mode,
    /// Programs since the erase; 0 in a page that is blank or damaged, [`Page::LOST`] in one that a copy took along
    /// although its data could not be corrected.
    pub(super) programs: u8,
    /// Bytes of metadata up to the last that is not blank, little-endian.
    pub(super) used: [u8; 3],
    pub(super) mark: u16,
    pub(super) address: u32,
    pub(super) version: u64,
    pub(super) program: u64,
    /// Checksum of the data.
    pub(super) check: u32,
}

/// What a record says of its page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// Not programmed since the last erase.
    Blank,
    /// Programmed; torn pages among them.
    Programmed,
    /// The record is not what was written: reads as torn.
    Damaged,
}

impl Page {
    pub(super) const BLANK: Page = Page {
        kind: Kind::Data,
        mode: Mode::Normal,
        programs: 0,
        used: [0; 3],
        mark: 0,
        address: 0,
        version: 0,
        program: 0,
        check: 0,
    };
    pub(super) const DAMAGED: Page = Page { kind: Kind::Torn, ..Page::BLANK };

    pub(super) fn new(oob: &Oob) -> Page {
        let Oob { kind, mode, address, version, program, mark } = *oob;
        Page { kind, mode, programs: 1, mark, address, version, program, ..Page::BLANK }
    }

    /// What [`Page::programs`] says of a page without data: NOP limits are far below.
    pub(super) const LOST: u8 = u8::MAX;

    /// The page keeps its place and its version, so that no older one is taken for it, and holds nothing.
    pub(super) fn lost(self) -> Page {
        Page { programs: Self::LOST, used: [0; 3], check: 0, ..self }
    }

    pub(super) fn is_lost(&self) -> bool {
        self.programs == Self::LOST
    }

    pub(super) fn oob(&self) -> Oob {
        let Page { kind, mode, address, version, program, mark, .. } = *self;
        Oob { kind, mode, address, version, program, mark }
    }

    pub(super) fn state(&self) -> State {
        match (self.programs, self.kind) {
            (0, Kind::Torn) => State::Damaged,
            (0, _) => State::Blank,
            _ => State::Programmed,
        }
    }

    /// Programmed, and not torn.
    pub(super) fn is_whole(&self) -> bool {
        self.state() == State::Programmed && self.kind != Kind::Torn
    }

    pub(super) fn is_metadata(&self) -> bool {
        matches!(self.kind, Kind::Translation | Kind::Checkpoint | Kind::Trim)
    }

    /// Bytes of metadata up to the last that is not blank.
    pub(super) fn used(&self) -> usize {
        let [low, middle, high] = self.used;
        u32::from_le_bytes([low, middle, high, 0]) as usize
    }

    /// The page with so many bytes of metadata, of this checksum.
    pub(super) fn with_metadata(self, bytes: usize, check: u32) -> Page {
        let [low, middle, high, _] = (bytes as u32).to_le_bytes();
        Page { used: [low, middle, high], check, ..self }
    }

    /// The record of a programmed page. Bytes 46 to 60 are zero: there an error-correcting code keeps the record's
    /// parity.
    pub(super) fn encode(&self, ppn: Ppn, generation: u32) -> [u8; RECORD as usize] {
        let mut out = [0; RECORD as usize];
        let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &generation.to_le_bytes());
        // Words of metadata, and the bytes of the last one that are blank.
        let (words, blank) = (self.used().div_ceil(4) as u32, self.used().next_multiple_of(4) - self.used());
        put(4, &[self.kind as u8, self.mode as u8, self.programs, blank as u8]);
        put(8, &self.version.to_le_bytes());
        put(16, &self.program.to_le_bytes());
        put(24, &self.address.to_le_bytes());
        put(28, &words.to_le_bytes());
        put(32, &self.check.to_le_bytes());
        // Once more, so that a damaged record still tells whether it belongs to an earlier life of its block.
        put(36, &generation.to_le_bytes());
        put(40, &ppn.0.to_le_bytes());
        put(44, &self.mark.to_le_bytes());
        let crc = crc32fast::hash(&out[..60]);
        out[60..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// The record of a blank page in a block of which every record is written: one of the life before.
    pub(super) fn encode_blank(ppn: Ppn, generation: u32) -> [u8; RECORD as usize] {
        Page { kind: Kind::Dummy, programs: 1, ..Page::BLANK }.encode(ppn, generation - 1)
    }

    /// Numbers from here on were never given: what a mount adds to one of a record, about 2^40, does not overflow.
    const NEVER: u64 = u64::MAX - (1 << 48);

    /// Lives from here on were never led.
    pub(super) const NO_LIFE: u32 = 1 << 31;

    /// Whether a page of `page_bytes` may be as its record says; `is_slc` if cells can hold fewer bits than they do.
    /// Other records were never written, whatever their checksums say.
    pub(super) fn may_be(&self, page_bytes: usize, is_slc: bool) -> bool {
        self.used() <= page_bytes && (is_slc || self.mode != Mode::Slc) && self.kind != Kind::Bad
    }

    /// Whether these are the bytes of a record as it was written.
    pub(super) fn is_sound(bytes: &[u8; RECORD as usize], ppn: Ppn) -> bool {
        let word = |at: usize| u32::from_le_bytes(*bytes[at..].first_chunk().expect("a record is longer"));
        let long = |at: usize| u64::from_le_bytes(*bytes[at..].first_chunk().expect("a record is longer"));
        word(60) == crc32fast::hash(&bytes[..60])
            && word(40) == ppn.0
            && bytes[4] < 8
            && usize::from(bytes[5]) < Mode::ALL.len()
            && bytes[6] > 0
            && u32::from(bytes[7]) <= word(28).saturating_mul(4).min(3)
            && word(0) == word(36)
            && word(0) < Self::NO_LIFE
            && [8, 16].into_iter().all(|at| long(at) < Self::NEVER)
    }

    /// Reads a record; the page with the generation that it was programmed in.
    pub(super) fn decode(bytes: &[u8; RECORD as usize], ppn: Ppn, generation: u32) -> (Page, u32) {
        const KINDS: [Kind; 8] = [
            Kind::Data,
            Kind::Log,
            Kind::Translation,
            Kind::Dummy,
            Kind::Checkpoint,
            Kind::Trim,
            Kind::Bad,
            Kind::Torn,
        ];
        let word = |at: usize| u32::from_le_bytes(*bytes[at..].first_chunk().expect("a record is longer"));
        let long = |at: usize| u64::from_le_bytes(*bytes[at..].first_chunk().expect("a record is longer"));
        if word(60) == 0 && bytes.iter().all(|&byte| byte == 0) {
            return (Page::BLANK, 0);
        }
        if !Self::is_sound(bytes, ppn) {
            // A record of an earlier generation means nothing, damaged or not. It has to say so twice, and to name its
            // page: one from elsewhere has taken the place of what was here.
            let earlier = (1..generation).contains(&word(0)) && word(0) == word(36) && word(40) == ppn.0;
            return (if earlier { Page::BLANK } else { Page::DAMAGED }, generation);
        }
        let used = word(28) as usize * 4 - usize::from(bytes[7]);
        let page = Page {
            kind: KINDS[usize::from(bytes[4])],
            mode: Mode::ALL[usize::from(bytes[5])],
            programs: bytes[6],
            version: long(8),
            program: long(16),
            mark: u16::from_le_bytes([bytes[44], bytes[45]]),
            address: word(24),
            ..Page::BLANK
        };
        let page = page.with_metadata(used, word(32));
        (page, word(0))
    }
}

/// A block's entry: what is kept of it over its erases.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    pub(super) erases: u32,
    /// Lives of the block; a page is blank unless its record names the present one.
    pub(super) generation: u32,
    pub(super) flags: u32,
}

impl Entry {
    /// The block must not be used.
    pub(super) const BAD: u32 = 1;
    /// Its erase was cut short.
    pub(super) const UNSAFE: u32 = 2;
    /// Each of its records was written, those of blank pages too: a record of zeros is damaged.
    pub(super) const WRITTEN: u32 = 4;

    /// There is a life before the first, which the records of blank pages name.
    pub(super) const NEW: Entry = Entry { erases: 0, generation: 2, flags: 0 };

    pub(super) fn encode(&self, block: Block) -> [u8; ENTRY as usize] {
        let mut out = [0; ENTRY as usize];
        out[..4].copy_from_slice(&self.erases.to_le_bytes());
        out[4..8].copy_from_slice(&self.generation.to_le_bytes());
        out[8..12].copy_from_slice(&self.flags.to_le_bytes());
        let crc = Self::check(&out, block);
        out[12..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// `None` if it is damaged, or says what was never written.
    pub(super) fn decode(bytes: &[u8; ENTRY as usize], block: Block) -> Option<Entry> {
        let word = |at: usize| u32::from_le_bytes(*bytes[at..].first_chunk().expect("an entry is longer"));
        let was_written = (1..Page::NO_LIFE).contains(&word(4)) && word(0) < Page::NO_LIFE;
        let is_sound = was_written && word(12) == Self::check(bytes, block);
        is_sound.then(|| Entry { erases: word(0), generation: word(4), flags: word(8) })
    }

    fn check(bytes: &[u8], block: Block) -> u32 {
        let mut crc = crc32fast::Hasher::new();
        crc.update(&bytes[..12]);
        crc.update(&block.0.to_le_bytes());
        crc.finalize()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flash::Lpn;
    use proptest::prelude::*;

    fn page(version: u64, program: u64, check: u32) -> Page {
        let page = Page { programs: 3, mark: check as u16, ..Page::new(&Oob::data(Lpn(9), version, program)) };
        page.with_metadata(version as usize % (1 << 20), check)
    }

    proptest! {
        #[test]
        fn records_and_entries_survive(
            version in 0..Page::NEVER,
            program in 0..Page::NEVER,
            check: u32,
            generation in 1..Page::NO_LIFE,
            erases in 0..Page::NO_LIFE,
        ) {
            let page = page(version, program, check);
            let bytes = page.encode(Ppn(5), generation);
            prop_assert_eq!(Page::decode(&bytes, Ppn(5), generation), (page, generation));
            let entry = Entry { erases, generation, flags: Entry::BAD };
            prop_assert_eq!(Entry::decode(&entry.encode(Block(3)), Block(3)), Some(entry));
            prop_assert_eq!(Entry::decode(&entry.encode(Block(3)), Block(4)), None);
        }

        #[test]
        fn any_changed_byte_of_a_record_is_found(at in 0..RECORD as usize, change in 1..=255u8, generation in 1..9u32) {
            let mut bytes = page(1, 2, 3).encode(Ppn(5), generation);
            bytes[at] ^= change;
            prop_assert_eq!(Page::decode(&bytes, Ppn(5), generation).0, Page::DAMAGED);
            // Of an earlier life of the block nothing is left, unless the change is in what says so.
            let stale = Page::decode(&bytes, Ppn(5), generation + 10).0;
            prop_assert_eq!(stale == Page::BLANK, !matches!(at, 0..4 | 36..44));
        }

        #[test]
        fn any_changed_byte_of_an_entry_is_found(at in 0..ENTRY as usize, change in 1..=255u8) {
            let mut bytes = Entry::NEW.encode(Block(7));
            bytes[at] ^= change;
            prop_assert_eq!(Entry::decode(&bytes, Block(7)), None);
        }
    }

    /// With many flipped bits neither copy of the generation may be left. Such a page was taken for a blank one, and a
    /// scheme that knew better from its checkpoint was told that it had read what it never programmed.
    #[test]
    fn a_record_that_names_no_life_of_its_block_is_damaged() {
        for generation in 1..9 {
            let mut bytes = page(1, 2, 3).encode(Ppn(5), generation);
            bytes[2] ^= 1;
            bytes[38] ^= 32;
            assert_eq!(Page::decode(&bytes, Ppn(5), generation).0, Page::DAMAGED);
        }
    }

    /// A checksum that is right says nothing of what was never written: a sum with such a number overflowed, and a page
    /// was read past its end.
    #[test]
    fn numbers_that_were_never_given_are_damage() {
        let record = |page: Page, generation| Page::decode(&page.encode(Ppn(5), generation), Ppn(5), 1).0;
        let most = page(Page::NEVER - 1, Page::NEVER - 1, 3);
        assert_eq!(record(most, Page::NO_LIFE - 1), most);
        assert_eq!(record(most, Page::NO_LIFE), Page::DAMAGED);
        assert_eq!(record(Page { version: Page::NEVER, ..most }, 1), Page::DAMAGED);
        assert_eq!(record(Page { program: u64::MAX, ..most }, 1), Page::DAMAGED);
        for (generation, erases) in [(0, 0), (Page::NO_LIFE, 0), (1, u32::MAX)] {
            assert_eq!(Entry::decode(&Entry { erases, generation, flags: 0 }.encode(Block(3)), Block(3)), None);
        }
        let full = page(1, 2, 3).with_metadata(512, 3);
        assert!(full.may_be(512, true) && !full.with_metadata(513, 3).may_be(512, true));
        assert!(!Page { kind: Kind::Bad, ..full }.may_be(512, true));
        assert!(!Page { mode: Mode::Slc, ..full }.may_be(512, false));
    }

    #[test]
    fn a_page_takes_half_of_its_record_in_ram() {
        assert_eq!(size_of::<Page>(), 32);
    }

    #[test]
    fn nothing_written_is_a_blank_page_and_no_entry() {
        assert_eq!(Page::decode(&[0; 64], Ppn(1), 1).0, Page::BLANK);
        assert_eq!(Entry::decode(&[0; 16], Block(1)), None);
    }

    /// A record that was copied to another page's place was blank there, if it was of a life that is over there.
    #[test]
    fn a_record_of_another_page_is_damaged_in_any_life() {
        let mut elsewhere = page(1, 2, 3).encode(Ppn(5), 3);
        for damage in [0, 1] {
            elsewhere[20] ^= damage;
            for generation in [2, 3, 4] {
                assert_eq!(Page::decode(&elsewhere, Ppn(6), generation).0, Page::DAMAGED);
            }
        }
    }
}

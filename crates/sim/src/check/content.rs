//! What host pages carry in a check.
//!
//! The oracle deals in tags, and so does the medium: a host page is a [`Stamp`], a tag in the place of its bytes. That
//! loses nothing. A scheme is written for any medium, so it cannot look into a host page, nor make one of parts of two:
//! the compiler holds it to handing pages on whole (`flash::Flash::User`). The chips of images, which do hold bytes,
//! have tests of their own.
//!
//! Where a page counts in bytes, in what a scheme saves of its RAM, a stamp takes as many as the page would: every word
//! follows from the tag and from its place, and all of them are looked at when it is loaded.
//!
//! A device in hand (`sim::hand`) has the medium of the checks, and bytes of its user's. They hang on the stamp.

use super::{Bench, Chip};
use flash::{Failing, Fault, Flash, HostData, InFlight, Store};
use std::sync::Arc;

/// What a host page holds: a tag, or bytes of a user's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stamp {
    tag: u64,
    bytes: Option<Arc<Vec<u8>>>,
}

/// In place of the tag: there is none.
const NONE: u64 = u64::MAX;
/// Of a page that was never written.
const BLANK: Stamp = Stamp { tag: NONE, bytes: None };

/// The pages of a medium, each a stamp.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stamps {
    stamps: Vec<Stamp>,
    /// Of the page that a stamp stands for.
    page_bytes: usize,
}

impl Stamp {
    /// The page of a tag.
    #[inline]
    pub(super) fn of(tag: u64) -> Stamp {
        debug_assert!(tag != NONE, "the oracle counts tags from 1 on");
        Stamp { tag, bytes: None }
    }

    /// The tag of a page; `None` if this is no page of a tag.
    #[inline]
    pub(super) fn tag(&self) -> Option<u64> {
        (self.tag != NONE).then_some(self.tag)
    }

    /// A page of a user's.
    pub(crate) fn holding(bytes: &[u8]) -> Stamp {
        Stamp { tag: NONE, bytes: Some(Arc::new(bytes.to_vec())) }
    }

    /// What the user has put there.
    pub(crate) fn bytes(&self) -> Option<&[u8]> {
        self.bytes.as_ref().map(|bytes| &bytes[..])
    }
}

impl HostData for Stamp {
    type Store = Stamps;
}

impl Store for Stamps {
    type User = Stamp;

    fn new(pages: usize, page_bytes: usize) -> Self {
        Stamps { stamps: vec![BLANK; pages], page_bytes }
    }

    #[inline]
    fn put(&mut self, page: usize, data: &Stamp) {
        self.stamps[page] = data.clone();
    }

    #[inline]
    fn get(&self, page: usize) -> &Stamp {
        &self.stamps[page]
    }

    #[inline]
    fn copy(&mut self, from: usize, to: usize) {
        self.stamps[to] = self.stamps[from].clone();
    }

    fn save(&self, page: usize, out: &mut Vec<u8>) {
        if let Some(bytes) = self.stamps[page].bytes() {
            return out.extend_from_slice(bytes);
        }
        let end = out.len() + self.page_bytes;
        let places = 0..self.page_bytes as u64 / 8;
        out.extend(places.flat_map(|place| word(self.stamps[page].tag, place).to_le_bytes()));
        out.resize(end, 0);
    }

    fn load<'a>(&mut self, page: usize, from: &'a [u8]) -> &'a [u8] {
        let (bytes, rest) = from.split_at(self.page_bytes);
        self.stamps[page] = read(bytes).unwrap_or_else(|| Stamp::holding(bytes));
        rest
    }
}

/// Word `place` of the page of a tag. The first is the tag itself.
#[inline]
fn word(tag: u64, place: u64) -> u64 {
    tag ^ place.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The stamp of the bytes of a page; `None` if they are not those of any.
fn read(page: &[u8]) -> Option<Stamp> {
    let (words, rest) = page.as_chunks();
    let tag = u64::from_le_bytes(*words.first()?);
    let is_right = |(place, &bytes): (u64, &[u8; 8])| u64::from_le_bytes(bytes) == word(tag, place);
    (rest.iter().all(|&byte| byte == 0) && (0..).zip(words).all(is_right)).then_some(Stamp { tag, bytes: None })
}

/// A medium of the checks carries stamps, has the wide error, and may have several commands under way.
pub(super) trait Medium: Flash<Fault = Fault, User = Stamp> + Clone {
    fn in_flight(&mut self) -> &mut InFlight<Chip, Stamps>;
    fn failing(&mut self) -> &mut Failing<InFlight<Chip, Stamps>>;
    /// Power is back, or on for the first time.
    fn power_up(&mut self) -> Result<(), Fault>;
    /// Whether no page reads otherwise each time.
    fn is_stable(&self) -> bool;
}

impl Medium for Bench {
    fn in_flight(&mut self) -> &mut InFlight<Chip, Stamps> {
        self.failing().inner_mut()
    }

    fn failing(&mut self) -> &mut Failing<InFlight<Chip, Stamps>> {
        self.inner_mut().inner_mut()
    }

    fn power_up(&mut self) -> Result<(), Fault> {
        self.recover(false)
    }

    fn is_stable(&self) -> bool {
        self.inner().unstable() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page_of(tag: u64) -> Vec<u8> {
        let mut store = Stamps::new(2, 512);
        store.put(1, &Stamp::of(tag));
        let mut bytes = Vec::new();
        store.save(1, &mut bytes);
        bytes
    }

    #[test]
    fn a_saved_stamp_takes_a_page_and_only_a_whole_page_is_one() {
        let (one, two) = (page_of(7 << 32 | 5), page_of(8 << 32 | 5));
        assert_eq!((one.len(), read(&one)), (512, Some(Stamp::of(7 << 32 | 5))));
        for at in 0..512 {
            let mut changed = one.clone();
            changed[at] ^= 0x10;
            assert_eq!(read(&changed), None, "byte {at}");
        }
        for cut in (8..512).step_by(8) {
            assert_eq!(read(&[&one[..cut], &two[cut..]].concat()), None, "mixed at {cut}");
        }
        let mut swapped = one.clone();
        swapped.copy_within(64..128, 256);
        assert_eq!(read(&swapped), None);
        assert_eq!(read(&[0; 512]), None);
    }

    #[test]
    fn a_page_that_nobody_wrote_has_no_tag() {
        let mut store = Stamps::new(4, 512);
        store.put(2, &Stamp::of(9));
        store.copy(2, 0);
        assert_eq!([0, 1, 2, 3].map(|page| store.get(page).tag()), [Some(9), None, Some(9), None]);
        let bytes = [page_of(9), page_of(10)].concat();
        let rest = store.load(3, &bytes);
        assert_eq!((store.get(3).tag(), rest.len()), (Some(9), 512));
        let mut bytes = Vec::new();
        store.put(1, &Stamp::holding(&[7; 512]));
        store.save(1, &mut bytes);
        store.load(0, &bytes);
        assert_eq!((store.get(0).tag(), store.get(0).bytes()), (None, Some(&[7; 512][..])));
    }
}

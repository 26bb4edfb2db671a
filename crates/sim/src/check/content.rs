//! What host pages carry in a check.
//!
//! The oracle deals in tags. A medium that keeps bytes is given a page in which every word follows from the tag and
//! from its place, so that nothing but the whole of a page that was once written reads back as a tag.

use flash::{Fault, Flash};

/// A form of host data that a tag can be put into and read out of.
pub(super) trait Content {
    /// Puts a tag into a page of `page_bytes` bytes, and hands it over.
    fn carry<T>(tag: u64, page_bytes: usize, hand: impl FnOnce(&Self) -> T) -> T;
    /// The tag; `None` if this is no page that was ever written.
    fn tag(&self) -> Option<u64>;
}

impl Content for u64 {
    fn carry<T>(tag: u64, _: usize, hand: impl FnOnce(&u64) -> T) -> T {
        hand(&tag)
    }
    fn tag(&self) -> Option<u64> {
        Some(*self)
    }
}

/// Word `place` of the page of a tag. The first is the tag itself.
fn word(tag: u64, place: u64) -> u64 {
    (tag ^ place.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(place << 1 | 1)
}

impl Content for [u8] {
    fn carry<T>(tag: u64, page_bytes: usize, hand: impl FnOnce(&[u8]) -> T) -> T {
        let mut page = vec![0; page_bytes];
        for (place, to) in (0..).zip(page.as_chunks_mut().0) {
            *to = word(tag, place).to_le_bytes();
        }
        hand(&page)
    }

    fn tag(&self) -> Option<u64> {
        let (words, rest) = self.as_chunks();
        let tag = u64::from_le_bytes(*words.first()?);
        let whole = (0..).zip(words).all(|(place, &bytes)| u64::from_le_bytes(bytes) == word(tag, place));
        (whole && rest.is_empty()).then_some(tag)
    }
}

/// A medium of the checks carries a tag in some form, and has the wide error.
pub(super) trait Medium: Flash<Fault = Fault, User: Content> + Clone {}
impl<F: Flash<Fault = Fault, User: Content> + Clone> Medium for F {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_page_has_a_tag() {
        let page = |tag| <[u8]>::carry(tag, 512, <[u8]>::to_vec);
        let (one, two) = (page(7 << 32 | 5), page(8 << 32 | 5));
        assert_eq!(one.tag(), Some(7 << 32 | 5));
        for at in 0..512 {
            let mut changed = one.clone();
            changed[at] ^= 0x10;
            assert_eq!(changed.tag(), None, "byte {at}");
        }
        for cut in (8..512).step_by(8) {
            assert_eq!([&one[..cut], &two[cut..]].concat().tag(), None, "mixed at {cut}");
        }
        let mut swapped = one.clone();
        swapped.copy_within(64..128, 256);
        assert_eq!(swapped.tag(), None);
        assert_eq!([0; 512].tag(), None);
    }
}

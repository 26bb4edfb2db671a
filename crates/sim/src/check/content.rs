//! What host pages carry in a check.
//!
//! The oracle deals in tags. A page is given bytes of which every word follows from the tag and from its place, so that
//! nothing but the whole of a page that was once written reads back as a tag.

use super::{Bench, Chip};
use flash::{BytesStore, Failing, Fault, Flash, InFlight};

/// Word `place` of the page of a tag. The first is the tag itself.
#[inline]
fn word(tag: u64, place: u64) -> u64 {
    tag ^ place.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The page of a tag.
pub(super) fn page_of(tag: u64, page_bytes: usize) -> Vec<u8> {
    let mut page = vec![0; page_bytes];
    for (place, to) in (0..).zip(page.as_chunks_mut().0) {
        *to = word(tag, place).to_le_bytes();
    }
    page
}

/// The tag of a page; `None` if this is no page that was ever written.
pub(super) fn tag_of(page: &[u8]) -> Option<u64> {
    let (words, rest) = page.as_chunks();
    let tag = u64::from_le_bytes(*words.first()?);
    let differs = |(place, &bytes): (u64, &[u8; 8])| u64::from_le_bytes(bytes) ^ word(tag, place);
    // Without a branch in it: every page that is read goes through here.
    let difference = (0..).zip(words).map(differs).fold(0, |all, word| all | word);
    (difference == 0 && rest.is_empty()).then_some(tag)
}

/// A medium of the checks carries bytes, has the wide error, and may have several commands under way.
pub(super) trait Medium: Flash<Fault = Fault, User = [u8]> + Clone {
    fn in_flight(&mut self) -> &mut InFlight<Chip, BytesStore>;
    fn failing(&mut self) -> &mut Failing<InFlight<Chip, BytesStore>>;
    /// Power is back, or on for the first time.
    fn power_up(&mut self) -> Result<(), Fault>;
}

impl Medium for Bench {
    fn in_flight(&mut self) -> &mut InFlight<Chip, BytesStore> {
        self.failing().inner_mut()
    }

    fn failing(&mut self) -> &mut Failing<InFlight<Chip, BytesStore>> {
        self.inner_mut().inner_mut()
    }

    fn power_up(&mut self) -> Result<(), Fault> {
        self.recover(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_page_has_a_tag() {
        let page = |tag| page_of(tag, 512);
        let (one, two) = (page(7 << 32 | 5), page(8 << 32 | 5));
        assert_eq!(tag_of(&one), Some(7 << 32 | 5));
        for at in 0..512 {
            let mut changed = one.clone();
            changed[at] ^= 0x10;
            assert_eq!(tag_of(&changed), None, "byte {at}");
        }
        for cut in (8..512).step_by(8) {
            assert_eq!(tag_of(&[&one[..cut], &two[cut..]].concat()), None, "mixed at {cut}");
        }
        let mut swapped = one.clone();
        swapped.copy_within(64..128, 256);
        assert_eq!(tag_of(&swapped), None);
        assert_eq!(tag_of(&[0; 512]), None);
    }
}

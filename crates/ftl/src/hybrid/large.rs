//! Which requests are large, for schemes that tell sequential writes by the size of the request.

use super::Announced;
use crate::{Loader, Parameter, Saver, Settings};
use flash::{Geometry, Lpn};

/// `sequential-bytes`: which requests are large.
pub(crate) const SEQUENTIAL_BYTES: Parameter = Parameter::count("sequential-bytes", 8192, 1..=1 << 40)
    .unit("bytes")
    .text(
        "Requests of at least so many bytes are sequential where size decides; sequential-unit says whether bytes or \
         whole pages count. More sends fewer writes to sequential log blocks.",
    )
    .source("{rose}, section 5.1");

/// `sequential-unit`: what of a request is compared with `sequential-bytes`.
pub(crate) const SEQUENTIAL_UNIT: Parameter = Parameter::word("sequential-unit", "bytes", &["bytes", "pages"])
    .text(
        "What sequential-bytes is compared with. bytes: what the host asks for. pages: the pages that the request \
         touches, whole, so that a request across a page border counts for more than it writes and more requests are \
         sequential.",
    )
    .source("{rose}, section 5.1: \"requests with sizes equal to or larger than 8 Kbytes\"; pages: ftlab");

/// The request that the host announced last, and whether it is large.
///
/// Where the host says nothing of bytes, as a write buffer does, it asks for whole pages, and the two units agree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Large {
    by_pages: bool,
    least: u64,
    page_bytes: u64,
    request: Announced,
    /// Bytes of the request by the unit.
    bytes: u64,
}

impl Large {
    /// No request.
    pub(crate) fn new(g: &Geometry, settings: &Settings) -> Large {
        Large {
            by_pages: settings.word(&SEQUENTIAL_UNIT) == "pages",
            least: settings.count(&SEQUENTIAL_BYTES),
            page_bytes: g.page_bytes.into(),
            request: Announced::default(),
            bytes: 0,
        }
    }

    /// The host announces a request.
    pub(crate) fn announce(&mut self, first: Lpn, pages: u32) {
        self.request = Announced::new(first, pages);
        self.bytes = u64::from(pages) * self.page_bytes;
    }

    /// Of that it asks for so many bytes.
    pub(crate) fn narrow(&mut self, bytes: u64) {
        if !self.by_pages {
            self.bytes = bytes;
        }
    }

    /// Whether a page is one of a large request. A page that was not announced is a request of its own.
    pub(crate) fn has(&self, lpn: Lpn) -> bool {
        self.least <= if self.request.contains(lpn) { self.bytes } else { self.page_bytes }
    }

    /// Bytes that [`Large::save`] takes.
    pub(crate) const BYTES: u64 = 16;

    /// Saves the request.
    pub(crate) fn save(&self, out: &mut Saver) {
        self.request.save(out);
        out.u64(self.bytes);
    }

    /// Loads what [`Large::save`] saved.
    pub(crate) fn load(&mut self, from: &mut Loader<'_>) {
        self.request = Announced::load(from);
        self.bytes = from.u64();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn large(unit: &str) -> Large {
        let mut settings = Settings::defaults(&[SEQUENTIAL_BYTES, SEQUENTIAL_UNIT]);
        settings.set("sequential-unit", unit).unwrap();
        Large::new(&Geometry { page_bytes: 4096, ..Geometry::default() }, &settings)
    }

    /// 6 KiB across a page border touch three pages of 4 KiB, and are fewer than 8 KiB.
    #[test]
    fn bytes_are_fewer_than_the_pages_they_touch() {
        for (unit, is_large) in [("bytes", false), ("pages", true)] {
            let mut request = large(unit);
            request.announce(Lpn(4), 3);
            request.narrow(6144);
            assert_eq!(request.has(Lpn(5)), is_large, "{unit}");
            request.narrow(8192);
            assert!(request.has(Lpn(6)), "{unit}: just as many are enough");
            assert!(!request.has(Lpn(7)), "{unit}: the page behind is a request of a page");
        }
    }

    /// Without a word about bytes both units count whole pages.
    #[test]
    fn whole_pages_are_their_bytes() {
        for unit in ["bytes", "pages"] {
            let mut request = large(unit);
            request.announce(Lpn(4), 1);
            assert!(!request.has(Lpn(4)));
            request.announce(Lpn(4), 2);
            assert!(request.has(Lpn(4)) && request.has(Lpn(5)));
        }
    }
}

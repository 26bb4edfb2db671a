//! What each page of a disk has held, and what it may be after a round has come to an end.

use super::requests::Request;
use super::{End, PAGE, PAGES};

/// What was done on the flash since the last flush beside writing the host's pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Since {
    /// A page was moved, and nobody knows which.
    pub(super) moved: bool,
    /// Something was added to a page in place. What that page alone knew, such as that pages were discarded, is lost
    /// where the disk has a part of the addition.
    pub(super) appended: bool,
}

/// See the module's description.
pub(super) struct Model {
    /// What the host wrote and discarded last, or has read since.
    pub(super) contents: Vec<u8>,
    pages: Vec<Page>,
    /// Discards hold once they are flushed.
    durable: bool,
}

/// What is known of a page beside its contents.
#[derive(Clone, Default)]
struct Page {
    /// What it has held, the newest last.
    held: Vec<Vec<u8>>,
    /// Which of these it held at the last flush.
    flushed: usize,
    /// It was written or discarded since, perhaps with what it held.
    touched: bool,
    /// It was written since, and not discarded later.
    written: bool,
    /// It was discarded, and that may come undone: since the last flush, or if discards are not durable, since a write
    /// that was flushed.
    discarded: bool,
}

fn is_zeros(content: &[u8]) -> bool {
    content.iter().all(|&byte| byte == 0)
}

impl Model {
    /// Of a new disk.
    pub(super) fn new(durable: bool) -> Model {
        let page = Page { held: vec![vec![0; PAGE]], ..Page::default() };
        Model { contents: vec![0; PAGES * PAGE], pages: vec![page; PAGES], durable }
    }

    /// A request was answered.
    pub(super) fn did(&mut self, request: &Request) {
        request.model(&mut self.contents, PAGE as u64);
        let discards = request.discards(PAGE, self.durable);
        for number in request.changes(PAGE) {
            let page = &mut self.pages[number];
            page.touched = true;
            page.written = !discards.contains(&number);
            page.discarded |= !page.written;
            page.hold(&self.contents[number * PAGE..][..PAGE]);
        }
        if matches!(request, Request::Flush) {
            self.flush();
        }
    }

    /// The disk was flushed.
    pub(super) fn flush(&mut self) {
        for page in &mut self.pages {
            page.flushed = page.held.len() - 1;
            page.discarded &= !self.durable && !page.written;
            (page.touched, page.written) = (false, false);
        }
    }

    /// A page was read as this, or written to be sure.
    pub(super) fn found(&mut self, number: usize, content: &[u8]) {
        self.contents[number * PAGE..][..PAGE].copy_from_slice(content);
        self.pages[number].hold(content);
    }

    /// Whether a discard of a page may come undone when the disk is mounted afresh.
    pub(super) fn is_discarded(&self, number: usize) -> bool {
        self.pages[number].discarded && !self.pages[number].written
    }

    /// Whether a page was ever this, or is zeros now.
    pub(super) fn was_ever(&self, number: usize, content: &[u8]) -> bool {
        is_zeros(content) || self.pages[number].held.iter().any(|held| held == content)
    }

    /// Whether a page holds nothing that counts behind such an end, or may hold nothing, since it was discarded.
    pub(super) fn is_blank(&self, number: usize, end: End) -> bool {
        let page = &self.pages[number];
        let (newest, discarded) = match end {
            End::InOrder => (page.flushed, page.discarded),
            _ => (page.held.len() - 1, self.is_discarded(number)),
        };
        discarded || page.held[newest..].iter().any(|held| is_zeros(held))
    }

    /// Whether a page may read as this, or as an error (`None`), behind such an end.
    pub(super) fn allows(&self, number: usize, end: End, since: Since, content: Option<&[u8]>) -> bool {
        let page = &self.pages[number];
        let Some(content) = content else {
            return match end {
                End::Misdirected => true,
                End::Scattered => !page.stays(since),
                End::Kill | End::InOrder | End::Shutdown => false,
            };
        };
        let now = content == &self.contents[number * PAGE..][..PAGE];
        let once = self.was_ever(number, content);
        match end {
            End::Kill if self.is_discarded(number) => self.undone(number, content),
            End::Shutdown if self.is_discarded(number) && !self.durable => self.undone(number, content),
            End::Kill | End::Shutdown => now,
            End::InOrder if page.discarded => self.undone(number, content),
            End::InOrder => page.held[page.flushed..].iter().any(|held| held == content),
            End::Scattered if page.stays(since) => content == page.held[page.flushed],
            End::Scattered | End::Misdirected => once,
        }
    }

    /// Whether a page whose discard may have come undone can be this.
    fn undone(&self, number: usize, content: &[u8]) -> bool {
        let page = &self.pages[number];
        let from = if self.durable { page.flushed } else { 0 };
        is_zeros(content) || page.held[from..].iter().any(|held| held == content)
    }
}

impl Page {
    fn hold(&mut self, content: &[u8]) {
        if self.held.last().is_none_or(|last| last != content) {
            self.held.push(content.to_vec());
        }
    }

    /// Whether it is what it was at the last flush, whatever of the writes since then is lost.
    fn stays(&self, since: Since) -> bool {
        let known = since.appended && is_zeros(&self.held[self.flushed]);
        !(self.touched || self.discarded || since.moved || known)
    }
}

//! `cflru`: clean-first least recently used (Park et al. 2006).
//!
//! The problem: a cache of pages that evicts a dirty one pays a program, which costs several times the read that a
//! clean one may cost later. CFLRU is an LRU cache of reads and writes with a *window* of its least recently used
//! pages: as long as there is a clean page in the window the least recent of these is dropped, at no cost; only then
//! the least recently used page of all is written.
//!
//! ```text
//!   most recent ── … ──┃── window: w least recent ──
//!                      ┃  d  c  d  c  d     drop the clean page nearest to the end;
//!                                           if there is none, write the last one
//! ```
//!
//! The window is a fraction of the buffer: 0 is plain LRU, 1 drops any clean page before it writes a dirty one.

use super::{BufferPolicy, BufferRow, Victim};
use crate::{Loader, Parameter, Saver};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use flash::Lpn;

/// `buffer-window`: w.
const WINDOW: Parameter = Parameter::real("buffer-window", 0.5, 0.0..=1.0)
    .text(
        "Least recently used share of the buffer in which a clean page leaves before a dirty one. More saves programs \
         and costs read hits. 0 is plain LRU.",
    )
    .source("SimpleSSDsim");

/// The row.
pub(super) const ROW: BufferRow = BufferRow {
    name: "cflru",
    summary: "caches reads and writes by page; clean pages of the least recently used part leave first",
    paper: "{cflru}",
    parameters: &[WINDOW],
    gathers_blocks: false,
    pads: false,
    make: |shape, settings| {
        let window = (settings.real(&WINDOW) * f64::from(shape.pages) + 0.5) as u32;
        Box::new(Cflru { window, ..Cflru::default() })
    },
};

/// A dirty page in saved state.
const DIRTY: u32 = 1 << 31;

#[derive(Clone, Copy, Debug)]
struct Resident {
    used: u64,
    dirty: bool,
}

/// Pages by the time of their last use: those in the window, and those more recent. The window is full before any page
/// lies beyond it.
#[derive(Clone, Default, Debug)]
struct Cflru {
    /// Pages of the window at the most.
    window: u32,
    time: u64,
    pages: BTreeMap<u32, Resident>,
    recent: BTreeMap<u64, u32>,
    old: BTreeMap<u64, u32>,
    /// The clean ones of the window.
    clean: BTreeMap<u64, u32>,
}

impl Cflru {
    /// A page that is not resident becomes the most recently used one.
    fn push(&mut self, lpn: u32, dirty: bool) {
        self.time += 1;
        self.pages.insert(lpn, Resident { used: self.time, dirty });
        if self.old.len() < self.window as usize {
            self.enter_window(self.time, lpn, dirty);
        } else {
            self.recent.insert(self.time, lpn);
        }
    }

    fn enter_window(&mut self, used: u64, lpn: u32, dirty: bool) {
        self.old.insert(used, lpn);
        if !dirty {
            self.clean.insert(used, lpn);
        }
    }

    /// Takes a page out; whether it was dirty.
    fn take(&mut self, lpn: u32) -> bool {
        let page = self.pages.remove(&lpn).expect("the page is resident");
        self.clean.remove(&page.used);
        if self.old.remove(&page.used).is_none() {
            self.recent.remove(&page.used);
        } else if let Some((used, next)) = self.recent.pop_first() {
            self.enter_window(used, next, self.pages[&next].dirty);
        }
        page.dirty
    }
}

impl BufferPolicy for Cflru {
    fn admit(&mut self, lpn: Lpn, dirty: bool) {
        self.push(lpn.0, dirty);
    }

    fn hit(&mut self, lpn: Lpn, write: bool) {
        let dirty = self.take(lpn.0);
        self.push(lpn.0, dirty || write);
    }

    fn remove(&mut self, lpn: Lpn) {
        self.take(lpn.0);
    }

    fn clean(&mut self, lpn: Lpn) {
        let page = self.pages.get_mut(&lpn.0).expect("the page is resident");
        page.dirty = false;
        if self.old.contains_key(&page.used) {
            self.clean.insert(page.used, lpn.0);
        }
    }

    fn keeps_clean_pages(&self) -> bool {
        true
    }

    fn victim(&self, _: Option<Lpn>) -> Option<Victim> {
        let orders = [&self.clean, &self.old, &self.recent];
        let (_, &lpn) = orders.into_iter().find_map(BTreeMap::first_key_value)?;
        Some(Victim::Page(Lpn(lpn)))
    }

    fn pages(&self) -> u32 {
        self.pages.len() as u32
    }

    /// The pages from the least to the most recently used: 4 B each.
    fn save(&self, out: &mut Saver) {
        out.u32(self.pages.len() as u32);
        for &lpn in self.old.values().chain(self.recent.values()) {
            out.u32(if self.pages[&lpn].dirty { lpn | DIRTY } else { lpn });
        }
    }

    fn load(&mut self, from: &mut Loader<'_>) {
        for _ in 0..from.u32() {
            let page = from.u32();
            self.push(page & !DIRTY, page & DIRTY != 0);
        }
    }

    fn boxed(&self) -> Box<dyn BufferPolicy + Send> {
        Box::new(self.clone())
    }
}

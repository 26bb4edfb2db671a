//! Write buffers in front of a scheme: policies, one file each, their table, and [`Buffered`], which puts one before
//! any scheme.
//!
//! The problem: what a host writes twice need not be programmed twice, and pages of one block that a host writes one by
//! one cost a log-block scheme far less if they come together. A buffer of some pages of RAM stands between the host
//! and the scheme. A write ends when its page lies there, and pages go on to flash when their room is needed, in
//! whichever groups the policy chooses: single pages (`cflru`), all pages of a block (`fab`), or whole blocks padded
//! with what is on flash (`bplru`).
//!
//! ```text
//!   host ──read, write──▶ Buffered ──▶ scheme ──▶ flash
//!                          │  pages by LPN: frame, dirty or clean
//!                          └─ policy: who goes next, a page or a block, padded or not
//! ```
//!
//! A policy is pure logic over page numbers: it is told of every access and names the next victim. What pages hold,
//! which are dirty, and how a victim is handed down as one request for each run of consecutive pages, is the business
//! of [`Buffered`].
//!
//! RAM: the pages themselves, 8 B for each, 12 B for each group of a policy that gathers blocks, and a block of pages
//! where padding is read into. What the buffer holds is lost when power is: a write is durable after a flush, as behind
//! any volatile cache.

mod bplru;
mod buffered;
mod cflru;
mod fab;
mod groups;
#[cfg(test)]
mod tests;

pub use buffered::{Behind, Buffered, COUNTERS};

use crate::{Loader, Parameter, Saver, Settings, Value};
use alloc::boxed::Box;
use core::fmt::Debug;
use flash::Lpn;

/// `buffer`: the policy, in the settings of a run.
pub const POLICY: Parameter =
    Parameter::word("buffer", "fab", NAMES).text("Policy of the write buffer in front of the scheme.").source("ftlab");

/// `buffer-bytes`: its size.
pub const BYTES: Parameter = Parameter::count("buffer-bytes", 1 << 20, 1..=1 << 46)
    .unit("bytes")
    .text(
        "Size of the write buffer: the pages that it holds, without its tables. More absorbs more rewrites and loses \
         more when power is cut.",
    )
    .source("ftlab");

/// What goes next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Victim {
    /// This page: written if it is dirty, then dropped.
    Page(Lpn),
    /// All resident pages of the block that begins at `first`.
    Block {
        /// The block's first page.
        first: Lpn,
        /// Whether the block's other pages are read and written along.
        pad: bool,
    },
}

/// Decides which pages leave. It is told of every page that comes, is used or goes, and of nothing else.
pub trait BufferPolicy: Debug {
    /// A page comes in: written by the host (dirty), or read from flash.
    fn admit(&mut self, lpn: Lpn, dirty: bool);
    /// A resident page is read, or written again.
    fn hit(&mut self, lpn: Lpn, write: bool);
    /// A resident page leaves.
    fn remove(&mut self, lpn: Lpn);
    /// A resident page was written to flash and stays. Only told to policies that keep what is read.
    fn clean(&mut self, lpn: Lpn) {
        let _ = lpn;
    }
    /// Whether pages that were read stay, and pages that were flushed: a cache, where others hold writes alone.
    fn keeps_clean_pages(&self) -> bool {
        false
    }
    /// Who leaves next; `coming` is the page that room is made for. `None` if nothing is resident.
    fn victim(&self, coming: Option<Lpn>) -> Option<Victim>;
    /// Resident pages, for audits.
    fn pages(&self) -> u32;
    /// Groups of pages that it may have to keep track of at once.
    fn most_groups(&self) -> u32 {
        0
    }
    /// Writes its state.
    fn save(&self, out: &mut Saver);
    /// Reads it back, into a policy that knows of no page yet.
    fn load(&mut self, from: &mut Loader<'_>);
    /// A copy.
    fn boxed(&self) -> Box<dyn BufferPolicy + Send>;
}

impl Clone for Box<dyn BufferPolicy + Send> {
    fn clone(&self) -> Self {
        self.boxed()
    }
}

/// The shape of a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Pages that it holds.
    pub pages: u32,
    /// Pages of a block.
    pub pages_per_block: u32,
}

/// A policy's row.
#[derive(Clone, Copy, Debug)]
pub struct BufferRow {
    /// Name on the command line.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// The paper that describes it.
    pub paper: &'static str,
    /// Its own parameters, beside [`POLICY`] and [`BYTES`].
    pub parameters: &'static [Parameter],
    /// Whether it gathers blocks, and so must hold at least one.
    pub gathers_blocks: bool,
    /// Whether it reads pages to complete a block.
    pub pads: bool,
    /// Makes it.
    pub make: fn(Shape, &Settings) -> Box<dyn BufferPolicy + Send>,
}

/// All policies.
pub const POLICIES: &[BufferRow] = &[fab::ROW, bplru::ROW, cflru::ROW];

/// Their names, for parameter ranges.
pub const NAMES: &[&str] = &["fab", "bplru", "cflru"];

/// The row of this name.
pub fn by_name(name: &str) -> Option<&'static BufferRow> {
    POLICIES.iter().find(|row| row.name == name)
}

/// Adds a buffer to a scheme's settings: its policy, its size, and the policy's parameters at their defaults.
///
/// ```
/// use flash::{Geometry, Lpn, Nand, Tags};
/// use ftl::buffer::{self, Behind};
/// use ftl::schemes::{Page, by_name};
/// use ftl::{Ftl, Inspect, Recipe, Static};
///
/// let geometry = Geometry { blocks_per_die: 32, pages_per_block: 16, ..Geometry::default() }.checked().unwrap();
/// let mut settings = by_name("page").unwrap().settings();
/// buffer::add_to(&mut settings, buffer::by_name("fab").unwrap(), 64 * u64::from(geometry.page_bytes));
/// let mut chip: Nand<Tags> = Nand::new(geometry);
/// let mut ftl = Behind(Static::<Page>::NEW).format(&mut chip, 384, &settings).unwrap();
/// ftl.write(&mut chip, Lpn(5), &42).unwrap();
/// assert_eq!(ftl.read(&mut chip, Lpn(5)).unwrap(), Some(&42));
/// let counters = Inspect::<Nand<Tags>>::counters(&ftl);
/// assert!(counters.contains(&("write_buffer_read_hits", 1)));
/// ```
pub fn add_to(settings: &mut Settings, row: &BufferRow, bytes: u64) {
    settings.extend(&[POLICY, BYTES]);
    settings.extend(row.parameters);
    settings.put(POLICY.name, Value::Word(row.name));
    settings.put(BYTES.name, Value::Count(bytes));
}

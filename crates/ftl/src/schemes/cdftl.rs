//! `cdftl`: a page map on flash, cached on two levels.
//!
//! The problem: DFTL caches single entries and so follows only what is used again (temporal locality), although the
//! translation page that it reads on a miss holds the neighbours' entries too. CDFTL's idea (Qin, Wang, Liu and Shao
//! 2011; the SCFTL paper compares with it): two levels. The first caches single entries as DFTL does. The second caches
//! the few translation pages that were read last, whole, so that neighbours of a missed entry are found there (spatial
//! locality). An entry that leaves the first level goes into its page in the second, if that is there, and costs
//! nothing; a page that leaves the second level is complete, so that it is written without being read.
//!
//! ```text
//!             first level: entries        second level: translation pages      flash
//!  LPN ─▶ hit │ LPN, PPN, dirty  │ ◀─up─ │ E entries, each with a dirty bit │ ◀─read─ translation page
//!             │       …          │ ─down▶│                …                 │ ─write▶ (complete: no read)
//!             └── dirty, and its page not in the second level: update ───────────────▶
//! ```
//!
//! # Structures
//!
//! RAM: directory, 4 B for each translation page; second level, 4 + 4·E B a page, `second-level` of them; first level,
//! 9 B an entry (LPN, PPN, flags) in what is left of `cache-bytes`. The SCFTL paper sums up 2 KB of directory, 256
//! entries and 2 pages of 8 KB: 20.25 KB, and the pages' tags here. Flash: as `dftl`.
//!
//! # Costs
//!
//! A hit in either level costs nothing, unless the entry that moves up drives out one that costs. A miss costs one read
//! of a translation page; a program more if a dirty page leaves the second level, and a read and a program more if the
//! first level holds dirty entries alone whose pages are not in the second. Each of these cleans all dirty entries of
//! its page in both levels. The SCFTL paper's write-backs are `first_level_flushed` and `second_level_flushed`
//! together; the report's `writebacks` counts those that programmed a page, which with `install` the former do not.
//!
//! # Departures
//!
//! The conference paper is not at hand: which entry leaves the first level (the least recently used of those that need
//! no flash command, over the whole level or over the `victim-window` used longest ago, else the least recently used of
//! all), that its update takes all dirty
//! entries of its page along, and that it does not pass through the second level (`install`) are reconstructions. A
//! collected translation page is copied as it is on flash, also if the second level has newer entries. Otherwise those
//! of the engine (striping over dies, `victims = net-gain`, watermarks, TRIM).

mod cache;

use crate::Scheme;
use crate::demand::Demand;
use crate::demand::out_of_place::{BATCH_EVICT, OutOfPlace};
use crate::demand::parameters::{self, CACHE_BYTES, DATA_BLOCKS, STRIPE};

pub(super) use cache::{INSTALL, SECOND_LEVEL, TwoLevels, WINDOW};

/// The row of `cdftl`.
pub(super) static ROW: Scheme = Scheme {
    name: "cdftl",
    summary: "page map on flash, cached on two levels: entries and whole translation pages",
    paper: "{cdftl}; {scftl} compares with it",
    essay: include_str!("cdftl.rs"),
    own: &[CACHE_BYTES, SECOND_LEVEL, INSTALL, WINDOW, STRIPE],
    fixed: &[BATCH_EVICT, DATA_BLOCKS],
    counters: &[parameters::COUNTERS, cache::COUNTERS],
    ..parameters::ROW
};

/// The scheme: two levels over translation pages that are written out of place.
pub type Cdftl = Demand<TwoLevels, OutOfPlace>;

#[cfg(test)]
mod tests;

//! `sftl`: a page map on flash, cached in compressed translation pages.
//!
//! The problem: whole translation pages use a workload's spatial locality, but few of them fit. S-FTL's idea (Jiang,
//! Zhang, Yuan, Hu and Chen 2011): what was written in sequence lies in sequence, so that the entries of a translation
//! page are mostly runs of consecutive PPNs. A cached page is a bit for each entry that says whether it starts a run,
//! and the first PPN of each run: the more sequential its part of the address space was written, the less it takes, and
//! the cache adapts to the workload by itself. A page that is evicted with few dirty entries is not written for them:
//! they wait in a dirty buffer until the page is loaded again, or until the buffer is full.
//!
//! ```text
//!  entries of a translation page   40 41 42 43 90 45 46 47
//!  starts a run                     1  0  0  0  1  1  0  0     entry 7: the third run, 2 behind its start: 45 + 2
//!  first PPNs                      40          90 45
//!
//!             cache: compressed pages             dirty buffer: entries            flash
//!  LPN ─▶ hit │ 8 B, 2 bits an entry, │ ◀─overlay──────── │ LPN, PPN │ ◀──╴╴╴╴╴ translation page
//!             │ 4 B a run             │ ─few dirty──────▶ │    …     │ ─full────▶ (read and program)
//!             │           …           │ ─many dirty──────────────────────────────▶ (complete: no read)
//! ```
//!
//! # Structures
//!
//! RAM: directory, 4 B for each translation page; of the rest of `cache-bytes`, `buffer-share` for the dirty buffer, 8
//! B an entry; the others for pages of 8 + 2·⌈E/8⌉ + 4 B a run (tag, number of runs, start bits, dirty bits), or 8 +
//! 4·E B as they are, if compressing does not bring them below 4·E. An unmapped entry is a run. Flash: as `dftl`.
//!
//! # Costs
//!
//! A hit costs nothing, in the dirty buffer as well. A miss costs one read; making room for the page that was read
//! costs a program for each page evicted with more than `threshold` dirty entries, and a read and a program if the
//! dirty buffer must first be relieved of the translation page that has most entries there. (That is done only if they
//! are more than the evicted page has; otherwise this is written.) A write that makes its page grow may evict another.
//! Moved data pages of cached translation pages change there, if the cache can take what these grow by without flash
//! commands; otherwise their translation page is written.
//!
//! # Departures
//!
//! Buffer share, threshold, and what a full buffer does are reconstructions; that the dirty buffer answers look-ups,
//! and the dirty bits of cached pages, are ours. `stripe` is 4, as with all caches by runs: consecutive LPNs
//! only get consecutive PPNs as long as they go to the same die, which the paper's device of one die does by itself.
//! Otherwise those of the engine (striping over dies, `victims = net-gain`, watermarks, TRIM).

mod buffer;
mod cache;
mod runs;

use crate::Scheme;
use crate::demand::Demand;
use crate::demand::out_of_place::{BATCH_EVICT, OutOfPlace};
use crate::demand::parameters::{self, CACHE_BYTES, DATA_BLOCKS, RUN_STRIPE};

pub(super) use cache::{BUFFER_SHARE, CompressedPages, THRESHOLD};

/// The row of `sftl`.
pub(super) static ROW: Scheme = Scheme {
    name: "sftl",
    summary: "page map on flash, cached in translation pages that shrink with the sequentiality of their entries",
    paper: "{sftl}; {scftl} names it",
    essay: include_str!("sftl.rs"),
    own: &[CACHE_BYTES, BUFFER_SHARE, THRESHOLD, RUN_STRIPE],
    fixed: &[BATCH_EVICT, DATA_BLOCKS],
    counters: &[parameters::COUNTERS, cache::COUNTERS],
    ..parameters::ROW
};

/// The scheme: compressed pages over translation pages that are written out of place.
pub type Sftl = Demand<CompressedPages, OutOfPlace>;

#[cfg(test)]
mod tests;

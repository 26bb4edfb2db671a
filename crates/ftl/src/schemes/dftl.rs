//! `dftl` and `dftl-e`: a page map on flash, of which the part in use is cached.
//!
//! The problem: a map of every page takes more RAM than a controller has, and coarser maps pay for it in merges. DFTL's
//! idea (Gupta, Kim and Urgaonkar 2009): keep the whole page map on flash in translation pages, cache
//! the entries that the workload uses now, and exploit that workloads reuse addresses. A small directory in RAM says
//! where each translation page is. Entries change in the cache and are written back when they are evicted, together
//! with all other changed entries of the same translation page. When collection moves data pages, cached entries are
//! only changed in the cache (lazy copying), the others are grouped by translation page (batch update).
//!
//! DFTL-E (from the LSFTL paper) caches aligned lines of entries instead of single ones, since a translation page is
//! read whole anyway.
//!
//! ```text
//!  LPN ─▶ cached mapping table ──hit──────────────────────────────▶ PPN
//!             │ miss: evict (dirty: update its translation page)
//!             └─▶ directory[LPN / E] ─▶ translation page on flash ─▶ entry into the cache
//!  flash: data blocks │ translation blocks, striped over the dies
//! ```
//!
//! # Structures
//!
//! RAM: directory, 4 B for each translation page; cache, 8 B an entry (`dftl`; 12 with `lfu` and `real-ghost`, which
//! count uses) or 4 + 4·L + ⌈L/8⌉ B a line of L
//! (`dftl-e`), both out of `cache-bytes`; live bits and block states as for `page`. Flash: a translation page of E =
//! page size / 4 entries for every E logical pages.
//!
//! # Costs
//!
//! A hit costs nothing. A miss costs one read of a translation page; if the entry that makes room for it is dirty, a
//! read and a program more, which clean all dirty entries of that page. A collected data block of `v` live pages costs
//! `v` copies and an erase, and a read and a program for each translation page that uncached ones lie in.
//!
//! # Departures
//!
//! Victims are the greedy policy's, the paper's are by cost and benefit (`gc = cost-benefit`); of segmented LRU, which
//! it only names, four fifths are protected; an update that moved data causes takes the page's dirty entries along
//! (`gc-fold`), of which it says nothing. Otherwise those of the engine (striping over dies, `victims = net-gain`,
//! watermarks, TRIM). FlashSim's own ways are parameters: `replacement = real-ghost`, `batch-evict = off`, `gc-fold =
//! off`, `init-tps = on`, `victims = plain`.

use crate::demand::Demand;
use crate::demand::lines::{ENTRY_BITS, LINE, Lines, REPLACEMENT};
use crate::demand::out_of_place::{BATCH_EVICT, OutOfPlace};
use crate::demand::parameters::{self, CACHE_BYTES, DATA_BLOCKS, STRIPE};
use crate::{Scheme, Value};

/// The row of `dftl`.
pub(super) static ROW: Scheme = Scheme {
    name: "dftl",
    summary: "page map on flash, single entries cached on demand",
    paper: "{dftl}",
    essay: include_str!("dftl.rs"),
    own: &[CACHE_BYTES, REPLACEMENT, ENTRY_BITS, BATCH_EVICT, STRIPE],
    fixed: &[LINE.at(Value::Count(1)), DATA_BLOCKS],
    state_version: 5,
    ..parameters::ROW
};

/// The row of `dftl-e`.
pub(super) static ROW_E: Scheme = Scheme {
    name: "dftl-e",
    summary: "DFTL that caches aligned lines of entries",
    paper: "{lsftl}, where it is called DFTL-E",
    own: &[CACHE_BYTES, LINE, BATCH_EVICT, STRIPE],
    fixed: &[REPLACEMENT.at(Value::Word("lru")), ENTRY_BITS.at(Value::Count(0)), DATA_BLOCKS],
    ..ROW
};

/// Both schemes: lines (of one entry) over translation pages that are written out of place.
pub type Dftl = Demand<Lines, OutOfPlace>;

#[cfg(test)]
mod tests;

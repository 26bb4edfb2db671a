//! `scftl`, its replacement policies, and `scftl-a` and `cast`: runs of consecutive entries in a small cache.
//!
//! The problem (the SCFTL paper): with large flash pages a translation page holds thousands of entries. Caching whole
//! translation pages takes more RAM than a small controller has; caching single entries wastes what one reading brings
//! in. SCFTL spends a few cache blocks of each reading on neighbours, keeps consecutive entries in one block, and
//! avoids writing translation pages back for the sake of a few entries.
//!
//! ```text
//!  block: │ tag LPN │ PPN │ C │ V M A │     maps LPN tag + k to PPN + k for k = 0 … C
//!
//!  miss on 11:  translation page 1: … 10→40 11→41 12→42 13→77 …
//!               normal fetch   {10, 40, C=2, A}    the run around the entry
//!               spatial fetch  {13, 77, C=0}       followers, up to `spatial` entries on; not accessed yet
//! ```
//!
//! **Consecutive field.** Updating an entry of a run splits its block, in up to three; an entry that continues a
//! modified neighbour in both addresses joins it, so that sequential writes grow one block.
//!
//! **D-NRU** (Table I). Victims are taken by class: not recently accessed before accessed; within that, unmodified,
//! then modified ones whose translation page has at least `2^threshold-bits − 1` modified entries (its MC), so that a
//! write-back is worth its program, then the other modified ones. The last are never given up for a spatial fetch.
//! Within a class the first from a pointer that moves past each victim. If all blocks have been accessed, all but the
//! one just used lose the flag (`nru-ageing`).
//!
//! `cast` (Xu, Li and Xu 2012, as the SCFTL paper describes it) caches runs too, replaces them LRU, and instead of
//! prefetching makes runs: it keeps several data blocks open and writes a page behind its predecessor where it can.
//!
//! `scftl-a` adapts the spatial size to what comes of it, which the SCFTL paper names as its outlook: of each 64
//! prefetched blocks, more than half used doubles it, fewer than a quarter halves it, between 2 and `spatial`.
//!
//! # Structures
//!
//! RAM: directory, 4 B for each translation page, and its MC, `threshold-bits` rounded up to half a byte (the SCFTL
//! paper's sum has 36 bits for each); cache blocks of 64 + `run-bits` + 3 bits (72 in the SCFTL paper; one more in
//! `scftl-a`), out of `cache-bytes`. Flash: as `dftl`.
//!
//! # Costs
//!
//! A hit costs nothing. A miss costs one read of a translation page whatever it brings in. Each block that has to make
//! room, for the run, for a prefetched run or for a fragment of a split, costs a read and a program more if it is
//! modified; they clean all modified blocks of that translation page.
//!
//! # Departures
//!
//! MC counts modified entries, as the paper says (`mc-unit`); followers are fetched until so many entries were brought
//! in, those that are unmapped or cached aside (`spatial-counts`). NRU, which the paper holds D-NRU against, gives the
//! accessed flag to followers too (`nru-flags-fetched`). The paper leaves open: the spatial size (`spatial`, 16), the
//! ageing of accessed flags (`nru-ageing`: three readings), in which
//! direction a run that is longer than a block is taken (forward first), whether a write miss fetches neighbours too
//! (it does), and collection: moved pages change in the cache, by splits if need be, but a collection gives up only
//! unmodified blocks for that; where there are none, the translation page is written with all its modified entries.
//! With several dies, `stripe` consecutive pages stay on one die; otherwise there would be no runs. Four are a
//! compromise: 32 fill a block, but a 128 KiB request is then one die's work, and with bursts of them the response is
//! many times that of four.

use crate::Scheme;
use crate::demand::Demand;
use crate::demand::out_of_place::{BATCH_EVICT, OutOfPlace};
use crate::demand::parameters::{self, CACHE_BYTES, DATA_BLOCKS, RUN_STRIPE, STRIPE};
use crate::{Parameter, Value};

pub(super) mod runs;
pub(super) use runs::Runs;

/// The row of `scftl`.
pub(super) static ROW: Scheme = Scheme {
    name: "scftl",
    summary: "runs of entries, spatial prefetch, replacement that spares translation pages",
    paper: "{scftl}",
    essay: include_str!("scftl.rs"),
    own: &[
        CACHE_BYTES,
        REPLACEMENT,
        THRESHOLD,
        MC_UNIT,
        AGEING,
        FLAGS_FETCHED,
        SPATIAL,
        SPATIAL_COUNTS,
        RUN_BITS,
        BATCH_EVICT,
        RUN_STRIPE,
    ],
    fixed: &[ADAPT.at(Value::Switch(false)), DATA_BLOCKS],
    counters: &[parameters::COUNTERS, COUNTERS],
    ..parameters::ROW
};

/// The row of `scftl-a`.
pub(super) static ROW_ADAPTIVE: Scheme = Scheme {
    name: "scftl-a",
    summary: "scftl that prefetches as much as is used",
    paper: "{scftl}, section V: outlook",
    own: &[
        CACHE_BYTES,
        REPLACEMENT,
        THRESHOLD,
        MC_UNIT,
        AGEING,
        FLAGS_FETCHED,
        MOST_SPATIAL,
        SPATIAL_COUNTS,
        ADAPT,
        RUN_BITS,
        BATCH_EVICT,
        RUN_STRIPE,
    ],
    fixed: &[DATA_BLOCKS],
    ..ROW
};

/// The row of `cast`.
pub(super) static ROW_CAST: Scheme = Scheme {
    name: "cast",
    summary: "runs of entries, made by writing pages behind their predecessors",
    paper: "{cast}, by its description in {scftl}",
    own: &[CACHE_BYTES, RUN_BITS, BATCH_EVICT, DATA_BLOCKS.at(Value::Count(4))],
    fixed: &[
        REPLACEMENT.at(Value::Word("lru")),
        THRESHOLD.at(Value::Count(0)),
        SPATIAL.at(Value::Count(1)),
        MC_UNIT,
        AGEING,
        FLAGS_FETCHED,
        SPATIAL_COUNTS,
        ADAPT.at(Value::Switch(false)),
        STRIPE,
    ],
    ..ROW
};

/// Runs over translation pages that are written out of place.
pub type Scftl = Demand<Runs, OutOfPlace>;

pub(super) const REPLACEMENT: Parameter = Parameter::word("replacement", "d-nru", &["d-nru", "nru", "lru"])
    .text(
        "Which block of entries to evict. d-nru: by class, which spares translation pages. nru: one not accessed \
         lately. lru: the one unused for longest.",
    )
    .source("{scftl}, section III-B, Table III");

pub(super) const THRESHOLD: Parameter = Parameter::count("threshold-bits", 3, 1..=8)
    .unit("bits")
    .text(
        "Bits of the count of what is modified of each translation page, in RAM (the n of D-NRU-n; mc-unit says what \
         it counts). Writing a page back pays once they are all ones. More waits for more changes.",
    )
    .source("{scftl}, section IV, Table III");

pub(super) const MC_UNIT: Parameter = Parameter::word("mc-unit", "entries", &["entries", "blocks"])
    .text(
        "What the count of a translation page (MC) counts. entries: modified entries, which a run has many of, so \
         that runs reach the threshold sooner and are victims sooner. blocks: modified blocks of the cache, so that a \
         page with few and long runs is spared for longer. With run-bits 0 they are the same.",
    )
    .source("{scftl}, section III-B: \"the number of modified mapping entries\"; blocks: ftlab");

pub(super) const AGEING: Parameter = Parameter::word("nru-ageing", "access", &["access", "eviction", "pointer"])
    .text(
        "When blocks lose the accessed flag (nru and d-nru). access: at the use that would leave no block without it, \
         all others; a block without is always at hand. eviction: when a victim is sought and none is without it, all, \
         after the victim was chosen among the classes of accessed ones. pointer: each block that the pointer passes, \
         so that flags are young and say less.",
    )
    .source("{scftl}, section III-B: \"very similar to NRU\" (of the UltraSPARC T2's manual), and no more");

pub(super) const FLAGS_FETCHED: Parameter = Parameter::switch("nru-flags-fetched", true)
    .text("Whether nru gives the accessed flag to entries that come along with the one asked for. d-nru never does.")
    .source("{scftl}, section IV-A: what D-NRU gains by not setting the flag; off: ftlab");

pub(super) const SPATIAL_COUNTS: Parameter = Parameter::word("spatial-counts", "fetched", &["fetched", "span"])
    .text(
        "Which entries count for spatial. fetched: those that a reading brings in, so that it goes on behind such as \
         are cached or map nothing, up to the end of the translation page. span: all from the one asked for on, which \
         keeps the reach short and brings in fewer.",
    )
    .source("{scftl}, section III-B: limits what \"can be cached in each translation page read\"; span: ftlab");

pub(super) const SPATIAL: Parameter = Parameter::count("spatial", 16, 1..=1024)
    .unit("entries")
    .text(
        "Entries that one reading of a translation page caches, from the one asked for on. More serves sequential \
         reads and drives out other entries. 1: no prefetching.",
    )
    .source("{scftl}, section III-B leaves it open");

/// `spatial` where it adapts.
const MOST_SPATIAL: Parameter =
    SPATIAL.at(Value::Count(64)).text("Most entries that one miss caches. More serves sequential reads.");

pub(super) const ADAPT: Parameter = Parameter::switch("adapt", true)
    .text("The number of prefetched entries follows the share of them that is used.")
    .source("ftlab");

pub(super) const RUN_BITS: Parameter = Parameter::count("run-bits", 5, 0..=8)
    .unit("bits")
    .text(
        "Bits of the consecutive field. A block of the cache holds up to 2 to that power entries. More take more RAM \
         for each block. 0: single entries.",
    )
    .source("{scftl}, section III-B");

pub(super) const COUNTERS: &[(&str, &str)] = &[
    ("splits", "blocks split because an entry of theirs changed"),
    ("merges", "entries or blocks that joined a neighbour"),
    ("prefetched", "blocks brought in by spatial fetches"),
    ("prefetch_used", "of those, blocks that were used"),
    ("prefetch_unused", "of those, blocks that were dropped unused"),
    ("victims_unaccessed_clean", "victims not accessed, not modified"),
    ("victims_unaccessed_many", "victims not accessed, modified, of a translation page with many"),
    ("victims_unaccessed_few", "victims not accessed, modified, of a translation page with few"),
    ("victims_accessed_clean", "victims accessed, not modified"),
    ("victims_accessed_many", "victims accessed, modified, of a translation page with many"),
    ("victims_accessed_few", "victims accessed, modified, of a translation page with few"),
    ("cached_blocks", "blocks in use at the end"),
    ("cached_entries", "entries in them"),
    ("spatial_size", "entries that a miss caches at the end"),
];

#[cfg(test)]
mod tests;

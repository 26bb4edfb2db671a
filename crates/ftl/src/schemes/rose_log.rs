//! `rose-log`: entire-block writing, merge-aware round robin and free page reuse over log-style data blocks.
//!
//! The problem: `rose` wants a chip that takes the pages of a block in any order, and `hybridlog` sends whatever does
//! not fit into a data block any more to the log and cleans the oldest log block. The ROSE thesis names the combination
//! as future work (section 6.2) and three questions: what a merge costs where data blocks are written like logs, how
//! sequential writes are told, and whether free page reuse still pays.
//!
//! - *What a merge costs.* A merge copies the pages of a logical block that count and nothing else. Dead pages of a
//!   log-style data block are mostly versions that the block itself superseded; they are no copies, as equation 3 takes
//!   them to be. So a term of the score is (l + α · d) · C_copy + C_erase, with l the pages that count in the data
//!   block and d those in the log. l needs to know *which* offsets the data block still holds, which its map in the
//!   spare areas does not say once a newer page is in the log: a live bit for each logical page says it, in the place
//!   of the bits that every scheme has for the pages of its blocks. Both are kept up to date with every page that comes
//!   and dies.
//! - *Sequential writes* are not told from their order but from their request, as in `rose`: where one covers a logical
//!   block, its pages go to a free block, one after the other, which is what a log-style block wants in any case. The
//!   old data block is obsolete when the last one is there, whatever was left blank in it, and nothing is copied.
//! - *Free page reuse* hardly ever finds anything at a merge, for the log takes pages of a logical block only while its
//!   data block is full: log-style writing uses the blank pages that are left to `rose`. It finds them where an entire
//!   block was written over a data block that was not full. There the live pages of the emptiest log block are
//!   appended, if they are fewer than the blank ones, the block takes the log block's place, and that is erased.
//!
//! ```text
//!  request ──▶ whole logical blocks ──▶ free block ═▶ data block;  the old one is obsolete ─▶ blank pages? FPR : erase
//!     └─ other pages ──▶ next page of the data block; full ──▶ log area ── full: ──▶ MARO victim ─ merges, compact
//! ```
//!
//! # Structures
//!
//! As `hybridlog`, on flash too. RAM beside that: for each log block its score and its lists of logical blocks, for
//! each logical block the number of its pages in the log, 2 B, with `maro` and `cheapest`; the reused log blocks, 4 B
//! each. The strategy is that of `rose`: the block that a request is written to whole is a log block beyond the area,
//! until it becomes the data block. With all three techniques off, by `ebw = off`, `fpr = off` and `log-victim =
//! round-robin`, it is `hybridlog`, command by command.
//!
//! # Costs
//!
//! Those of `hybridlog`. An entire-block write costs its programs and an erase. A swap costs as many copies as the log
//! block had live pages, and gains more blank pages than that.
//!
//! # Space and mounting
//!
//! As `hybridlog`, with one more log block while a request is written whole, which takes the second of the free blocks:
//! a mount finds what was written of it as a data block or a log block, cleans the surplus, and reads the new pages
//! from the one and the rest from the other. A whole write begins only while two blocks are free. A swap that was cut
//! short is a block of copies, which is dropped, as after a merge. Ages after a mount are those of the order in which
//! log blocks were begun.
//!
//! # Departures
//!
//! There is no paper. A request that is broken off in the middle of a logical block is completed by copies, behind what
//! was written. A page that is discarded in RAM alone counts as one in the log until it is merged, if it is there. What
//! a merge leaves blank in the new data block is worth something, since writes to it do not go to the log; the score
//! does not say so.

use super::{hybridlog, rose};
use crate::hybrid::ages::LOG_AGES;
use crate::hybrid::{appended, parameters};
use crate::parts::spare_map::{SPARE_ECC, SPARE_LAYOUT};
use crate::{Scheme, Value};
use flash::Cause;

/// The row.
pub(super) static ROW: Scheme = Scheme {
    name: "rose-log",
    summary: "hybridlog with entire-block writing, merge-aware round robin and free page reuse",
    paper: "{rose}, section 6.2: future work",
    essay: include_str!("rose_log.rs"),
    own: &[
        parameters::LOG_BLOCKS,
        rose::EBW,
        rose::FPR,
        parameters::LOG_VICTIM.at(Value::Word("maro")),
        parameters::AGE_WEIGHT,
        parameters::AGE_UNIT,
        parameters::ALPHA,
        parameters::COPY_COST,
        parameters::ERASE_COST,
        LOG_AGES,
        appended::GROUP,
        appended::CACHE_MAPS,
        SPARE_LAYOUT,
        SPARE_ECC,
    ],
    fixed: &[appended::LOG_STYLE],
    counters: &[appended::COUNTERS, rose::COUNTERS],
    phases: &[
        Cause::Host,
        Cause::MergeSwitch,
        Cause::MergePartial,
        Cause::MergeFull,
        Cause::Swap,
        Cause::WearLevelling,
        Cause::Metadata,
        Cause::Recovery,
    ],
    state_version: 2,
    ..parameters::ROW
};

/// The scheme: `hybridlog`, whose strategy has the techniques if its settings name them.
pub type RoseLog = hybridlog::HybridLog;

#[cfg(test)]
mod tests;

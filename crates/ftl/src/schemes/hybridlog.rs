//! `hybridlog`: data blocks that are written like logs, with their page map in spare areas.
//!
//! The problem: where each page has one place in its data block, a second write of it goes to the log area while most
//! of the block is blank; and a chip that wants its pages programmed in order has the gaps filled with padding. So data
//! blocks are merged half empty. HybridLog (the ROSE thesis, chapter 4) appends to data blocks too: they take any page
//! of their logical block until they are full, and only then does the log area take over. Which page of the data block
//! holds what is a map in its spare areas (`parts/spare_map.rs`), of which RAM keeps a few; a merge writes the newest
//! pages one behind the other, so that blank ones are left at the end.
//!
//! ```text
//!                  a page left                             block map ─▶ data block, newest page
//!  write LPN ──────────────────▶ data block: next page                     │ spare area: MD ─▶ MT ─▶ page
//!      │ full
//!      ▼
//!  log area: pages of any block, found by a map in RAM ── full: ──▶ the oldest is cleaned by full merges
//! ```
//!
//! # Structures
//!
//! RAM: for each logical block its data block, 4 B, and the next and the newest page of that, 4 B (the ROSE thesis
//! counts a byte; the newest page is another than the last one after a failed program or a mount); for each page of a
//! log block 4 B for what it holds and 4 B in a hash table that finds it; `cache-maps` maps of P + P/G entries of a
//! byte, and one of the block that a merge fills. Flash: in the spare area of each data page a directory (MD, an entry
//! for each group of G pages) and the map of its own group (MT), each entry log2 P bits, by equations 8 to 11 of the
//! ROSE thesis with the misprints corrected: *l* where a 1 is printed, the section's place *l* mod G, the former MD(i)
//! where nothing changes. `spare-layout` and `spare-ecc` say what has to fit beside them; a group size that does not is
//! refused.
//!
//! # Costs
//!
//! A write is a program, a read a read; with the map not in RAM up to two reads of spare areas come before it. Cleaning
//! a log block with live pages of n logical blocks costs their pages as copies and n + 1 erases. No page is padded.
//! `log-style = off` is what the ROSE thesis compares it with: pages have their places, what is below the last
//! programmed page goes to the log, and what is above it is padded up to.
//!
//! # Parts
//!
//! The block map, the log area, merges, levelling and mounting are those of every scheme with a log area
//! (`crates/ftl/src/hybrid/mod.rs` says what room they take); how data blocks are appended to, found again and read is
//! in `crates/ftl/src/hybrid/appended.rs`. The strategy is that of `rose` with none of its techniques.
//!
//! # Discards
//!
//! With `durable-trim` a discarded page is written anew, without data, and merged like any other. Otherwise RAM
//! remembers that it is discarded (4 B each) until it is written or merged away.
//!
//! # Departures
//!
//! The ROSE thesis does not say which log block is cleaned; here it is the oldest. It gives no code for an entry that
//! is none; see `parts/spare_map.rs`. Versions and program numbers stand in the spare area beside what the ROSE thesis
//! lists: recovery needs them to tell log pages of the same LPN apart.

use crate::hybrid::Hybrid;
use crate::hybrid::ages::LOG_AGES;
use crate::hybrid::appended::{Appended, CACHE_MAPS, COUNTERS, GROUP, LOG_STYLE};
use crate::hybrid::parameters::{self, AGE_UNIT, AGE_WEIGHT, ALPHA, COPY_COST, ERASE_COST, LOG_BLOCKS, LOG_VICTIM};
use crate::parts::spare_map::{SPARE_ECC, SPARE_LAYOUT};
use crate::schemes::rose::{EBW, FPR, Techniques};
use crate::{Scheme, Value};
use flash::Cause;

/// The row.
pub(super) static ROW: Scheme = Scheme {
    name: "hybridlog",
    summary: "block map with a log area; data blocks are appended to as well, with their page map in spare areas",
    paper: "{rose}, chapter 4: HybridLog",
    essay: include_str!("hybridlog.rs"),
    own: &[LOG_STYLE, GROUP, CACHE_MAPS, LOG_BLOCKS, SPARE_LAYOUT, SPARE_ECC],
    fixed: &[
        EBW.at(Value::Switch(false)),
        FPR.at(Value::Switch(false)),
        LOG_VICTIM,
        AGE_WEIGHT,
        AGE_UNIT,
        ALPHA,
        COPY_COST,
        ERASE_COST,
        LOG_AGES,
    ],
    counters: &[COUNTERS],
    phases: &[Cause::Host, Cause::MergeFull, Cause::WearLevelling, Cause::Metadata, Cause::Recovery],
    state_version: 3,
    ..parameters::ROW
};

/// The scheme: ROSE's strategy over data blocks that are appended to, with none of its techniques.
pub type HybridLog = Hybrid<Techniques, Appended>;

#[cfg(test)]
mod tests;

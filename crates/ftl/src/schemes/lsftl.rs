//! `lsftl` and `lsftl-e`, and `scftl-log`: translation pages that take their updates in place, in a log.
//!
//! The problem (the LSFTL paper): in DFTL 40 % of the time of all flash commands goes to translation pages, nine tenths
//! of that to updating and collecting them, although most updates change a few entries of a thousand. LSFTL's idea: SLC
//! flash can be programmed in parts. Each translation page leaves an area blank for a log; an update appends its
//! entries there (a log unit) by a partial program instead of writing the page anew. Translation pages are used up that
//! much more slowly, and so collected less.
//!
//! ```text
//!  translation page: │ main area: E entries │ unit │ unit │ blank ……… │    r of the page is the log
//!                                             └── partial programs, `lu` at the most
//!
//!  evict a dirty line:  quota = bytes left ÷ units left
//!    fits the quota                     append it with as many other dirty lines of its page as the quota holds
//!    over the quota, but fits the log   append it alone
//!    neither                            write the page anew, with all its dirty lines and an empty log
//! ```
//!
//! **Log-aware flush-back** makes bytes and units of a log run out together: a unit that spends few bytes takes other
//! dirty lines along, the least recently used first. `lsftl` caches single entries, `lsftl-e` lines (the LSFTL paper
//! section III-C). Collection moves a translation page with its log brought into the main area; what a data collection
//! changes is appended too if it fits.
//!
//! `scftl-log` is a combination that no paper tried: SCFTL's runs over LSFTL's pages.
//!
//! # Structures
//!
//! RAM: directory, 4 B for each translation page and where its log ends, in as few bytes as that takes (2 for 4 KiB
//! pages); with `counters = oob` the latter stands in the spare areas. Cache as in `dftl` and `dftl-e`. Flash: a
//! translation page has (1 − `log-share`)·S/4 entries, 768 of 4 KiB, so that there are more of them than in DFTL. A log
//! unit is a header of 4 B (a marker of zeros, and the count), 6 B an entry (index and PPN) and 7 B of BCH parity for
//! each started 512 B. On chips with several bits a cell, `translation-mode = slc` has translation blocks programmed in
//! SLC mode: fewer pages in each, but fast ones that take partial programs (the LSFTL paper, section II-B).
//!
//! # Costs
//!
//! As `dftl`, but that a dirty eviction costs one partial program, without a read, as long as the log takes it. A
//! partial program takes as long as a program unless the device says otherwise (`partial_program_us`).
//!
//! # Departures
//!
//! The paper's figure 4, which gives the sizes, is lost in the copy at hand; equation 2 is garbled there: its sum is
//! read as that of the lines up to the one in question, and condition 2 additionally needs a unit to be left, or
//! the limit on units would not hold. Recovery is ours: logs are replayed, units that were cut short are told by their
//! parity, and a page with such a unit takes no more (docs/recovery.md).

use super::scftl;
use crate::demand::Demand;
use crate::demand::lines::{ENTRY_BITS, LINE, Lines, REPLACEMENT};
use crate::demand::logged::{self, LOG_COUNTERS, LOG_ENTRY, LOG_HEADER, LOG_PARITY, LOG_SHARE, LU, Logged};
use crate::demand::parameters::{self, CACHE_BYTES, DATA_BLOCKS, RUN_STRIPE, STRIPE, TRANSLATION_MODE};
use crate::{Scheme, Value};

/// The row of `lsftl`.
pub(super) static ROW: Scheme = Scheme {
    name: "lsftl",
    summary: "DFTL whose translation pages take updates in a log, by partial programs",
    paper: "{lsftl}",
    essay: include_str!("lsftl.rs"),
    own: &[
        CACHE_BYTES,
        REPLACEMENT,
        LU,
        LOG_SHARE,
        LOG_HEADER,
        LOG_ENTRY,
        LOG_PARITY,
        LOG_COUNTERS,
        TRANSLATION_MODE,
        STRIPE,
    ],
    fixed: &[LINE.at(Value::Count(1)), ENTRY_BITS.at(Value::Count(0)), DATA_BLOCKS],
    counters: &[parameters::COUNTERS, logged::COUNTERS],
    ..parameters::ROW
};

/// The row of `lsftl-e`.
pub(super) static ROW_E: Scheme = Scheme {
    name: "lsftl-e",
    summary: "LSFTL that caches aligned lines of entries",
    paper: "{lsftl}, where it is called LSFTL-E",
    own: &[CACHE_BYTES, LINE, LU, LOG_SHARE, LOG_HEADER, LOG_ENTRY, LOG_PARITY, LOG_COUNTERS, TRANSLATION_MODE, STRIPE],
    fixed: &[REPLACEMENT.at(Value::Word("lru")), ENTRY_BITS.at(Value::Count(0)), DATA_BLOCKS],
    ..ROW
};

/// Both schemes: lines (of one entry) over translation pages with a log.
pub type Lsftl = Demand<Lines, Logged>;

/// The row of `scftl-log`.
pub(super) static ROW_RUNS: Scheme = Scheme {
    name: "scftl-log",
    summary: "SCFTL's cache over LSFTL's translation pages",
    paper: "none: ftlab's combination of {lsftl} and {scftl}",
    own: &[
        CACHE_BYTES,
        scftl::REPLACEMENT,
        scftl::THRESHOLD,
        scftl::MC_UNIT,
        scftl::AGEING,
        scftl::SPATIAL,
        scftl::SPATIAL_COUNTS,
        scftl::RUN_BITS,
        LU,
        LOG_SHARE,
        LOG_HEADER,
        LOG_ENTRY,
        LOG_PARITY,
        LOG_COUNTERS,
        TRANSLATION_MODE,
        RUN_STRIPE,
    ],
    fixed: &[scftl::ADAPT.at(Value::Switch(false)), scftl::FLAGS_FETCHED, DATA_BLOCKS],
    counters: &[parameters::COUNTERS, scftl::COUNTERS, logged::COUNTERS],
    ..ROW
};

/// SCFTL's runs over translation pages with a log.
pub type ScftlLog = Demand<scftl::Runs, Logged>;

#[cfg(test)]
mod tests;

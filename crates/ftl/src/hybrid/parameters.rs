//! Parameters that schemes of the family share.

use crate::parts::{supply, tombstones};
use crate::{Group, Parameter, Scheme, Settings};
use flash::Cause;

/// Blocks kept free beside the log area: one that a merge goes to, and one more for a write of an entire block or a
/// merge that was cut short.
pub(crate) const RESERVE: u32 = 2;

/// Causes of changing commands of the family.
const PHASES: &[Cause] = &[
    Cause::Host,
    Cause::DataGc,
    Cause::MergeSwitch,
    Cause::MergePartial,
    Cause::MergeFull,
    Cause::WearLevelling,
    Cause::Metadata,
    Cause::Recovery,
];

/// `log-blocks`: the size of the log area.
pub(crate) const LOG_BLOCKS: Parameter = Parameter::count("log-blocks", 0, 0..=1 << 27)
    .unit("blocks")
    .text(
        "Log blocks. More delay merges and need more spare space. 0 takes all blocks that the logical size leaves, \
         less two that are kept free.",
    )
    .source("{rose}: 2.5 % of all blocks, {dftl}: 3 %");

/// The words of [`LOG_VICTIM`].
pub(crate) const VICTIMS: &[&str] = &["round-robin", "cat", "cheapest", "maro"];

/// `log-victim`; a scheme has a default of its own.
pub(crate) const LOG_VICTIM: Parameter = Parameter::word("log-victim", "round-robin", VICTIMS)
    .text(
        "Which log block to clean. round-robin: the oldest. cat: by live pages, age and wear. cheapest: the one \
         that is cheapest to merge. maro: as cheapest, but age counts too. All but round-robin take a log block \
         without live pages first.",
    )
    .source("{rose}, section 3.3 and figures 5.3, 5.4");

/// `maro-age`: what an erase of a log block adds to the age of every other.
pub(crate) const AGE_WEIGHT: Parameter = Parameter::real("maro-age", 1.0, 0.0..=1e6)
    .unit("us")
    .text(
        "Weight of age in maro, in microseconds of merging for each log block erased since a log block was begun. \
         Larger values clean old log blocks sooner and copy more pages for it; 0 looks at merge cost alone.",
    )
    .source("{rose}, equation 2 (W_age)");

/// `maro-alpha`: what a page in the log counts of a page in the data block.
pub(crate) const ALPHA: Parameter = Parameter::real("maro-alpha", 0.5, 0.0..=1.0)
    .text(
        "In maro, weight of a live page in the log against one in the data block, in steps of 0.01. Smaller values \
         prefer log blocks whose logical blocks have many live pages in the log.",
    )
    .source("{rose}, equation 3 (alpha)");

/// `copy-us`: what a page copy costs in a score.
pub(crate) const COPY_COST: Parameter = Parameter::real("copy-us", 351.0, 0.001..=1e6)
    .unit("us")
    .text("Cost of copying a page in a merge score. A scheme has no clock, so it cannot measure the cost.")
    .source("{rose}, table 5.1: 88 + 263");

/// `erase-us`: what an erase costs in a score.
pub(crate) const ERASE_COST: Parameter = Parameter::real("erase-us", 2000.0, 0.0..=1e7)
    .unit("us")
    .text("Cost of erasing a block in a merge score.")
    .source("{rose}, table 5.1");

/// The parts of every scheme of the family.
const PARTS: &[Group] = &[supply::GROUP, tombstones::GROUP];

/// What the rows of the family have in common.
pub(crate) const ROW: Scheme = Scheme {
    name: "",
    summary: "",
    paper: "",
    essay: "",
    own: &[],
    parts: PARTS,
    fixed: &[],
    counters: &[],
    phases: PHASES,
    has_cache: false,
    keeps_data: true,
    state_version: 1,
};

/// Which log block to clean.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Victims {
    /// `log-victim`.
    pub policy: &'static str,
    /// `maro-age`.
    pub age_us: f64,
    /// `maro-alpha`.
    pub alpha: f64,
    /// `copy-us`.
    pub copy_us: f64,
    /// `erase-us`.
    pub erase_us: f64,
}

impl From<&Settings> for Victims {
    fn from(settings: &Settings) -> Victims {
        Victims {
            policy: settings.word(&LOG_VICTIM),
            age_us: settings.real(&AGE_WEIGHT),
            alpha: settings.real(&ALPHA),
            copy_us: settings.real(&COPY_COST),
            erase_us: settings.real(&ERASE_COST),
        }
    }
}

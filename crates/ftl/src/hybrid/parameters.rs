//! Parameters that schemes of the family share.

use super::ages::LOG_AGES;
use crate::parts::{supply, tombstones};
use crate::{ConfigError, Dependence, Group, Parameter, Scheme, Settings};
use alloc::format;
use flash::{Cause, Geometry};

/// Blocks kept free beside the log area: one that a merge goes to, and one more for a write of an entire block or a
/// merge that was cut short.
pub(crate) const RESERVE: u32 = 2;

/// The same on a device that is formatted: on each die power may cut a merge short, so there are as many as dies.
pub(crate) fn reserve(g: &Geometry) -> u32 {
    if g.die_count() > RESERVE { g.die_count() } else { RESERVE }
}

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
         less one for each die that is kept free, and two at the least.",
    )
    .source("{rose}: 2.5 % of all blocks, {dftl}: 3 %");

/// The words of [`LOG_VICTIM`].
pub(crate) const VICTIMS: &[&str] = &["round-robin", "cat", "cheapest", "maro"];

/// `log-victim`; a scheme has a default of its own.
pub const LOG_VICTIM: Parameter = Parameter::word("log-victim", "round-robin", VICTIMS)
    .text(
        "Which log block to clean. round-robin: the oldest. cat: by live pages, age and wear. cheapest: the one \
         that is cheapest to merge. maro: as cheapest, but age counts too. All but round-robin take a log block \
         without live pages first.",
    )
    .source("{rose}, section 3.3 and figures 5.3, 5.4");

/// `maro-age`: what an erase of a log block adds to the age of every other.
pub(crate) const AGE_WEIGHT: Parameter = Parameter::real("maro-age", 1.0, 0.0..=1e6)
    .unit("of maro-age-unit")
    .text(
        "Weight of age in maro: so much merging, in maro-age-unit, for each log block erased since a log block was \
         begun; at most a second. More cleans old log blocks sooner and copies more for it; 0 looks at merge cost \
         alone.",
    )
    .source("{rose}, equation 2 (W_age)");

/// `maro-age-unit`: what `maro-age` is counted in.
pub(crate) const AGE_UNIT: Parameter = Parameter::word("maro-age-unit", "us", &["us", "ms", "copy", "erase"])
    .text(
        "Unit of maro-age. us, ms: micro- and milliseconds. copy, erase: what a score takes for copying a page \
         (copy-us) and erasing a block (erase-us). A larger unit makes the same weight count for more.",
    )
    .source("ftlab; {rose} sets W_age to 1 and names no unit (us: that of its table 5.1)");

/// The largest weight of age, in microseconds: with it a score is a 64-bit number for ten million erases of log blocks.
const MOST_AGE_US: f64 = 1e6;

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

/// What is read for which choice of a log block to clean.
pub(crate) const DEPENDENCES: [Dependence; 2] = [
    Dependence {
        parameters: &[AGE_WEIGHT.name, AGE_UNIT.name, ALPHA.name, LOG_AGES.name],
        on: LOG_VICTIM.name,
        words: &["maro"],
    },
    Dependence { parameters: &[COPY_COST.name, ERASE_COST.name], on: LOG_VICTIM.name, words: &["cheapest", "maro"] },
];

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
    /// `maro-age`, in microseconds whatever its unit.
    pub age_us: f64,
    /// `maro-alpha`.
    pub alpha: f64,
    /// `copy-us`.
    pub copy_us: f64,
    /// `erase-us`.
    pub erase_us: f64,
    /// `log-ages`, where ages count.
    pub keeps_ages: bool,
}

impl Victims {
    /// Refuses a weight of age that scores have no room for.
    ///
    /// # Errors
    /// `maro-age` is more than a second.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        if self.policy != "maro" || self.age_us <= MOST_AGE_US {
            return Ok(());
        }
        Err(ConfigError {
            key: AGE_WEIGHT.name,
            what: format!("a weight of {} us for each erase is more than a second", self.age_us),
            fix: format!("lower maro-age, or take a smaller {}", AGE_UNIT.name),
        })
    }
}

impl From<&Settings> for Victims {
    fn from(settings: &Settings) -> Victims {
        let unit_us = match settings.word(&AGE_UNIT) {
            "ms" => 1000.0,
            "copy" => settings.real(&COPY_COST),
            "erase" => settings.real(&ERASE_COST),
            _ => 1.0,
        };
        Victims {
            policy: settings.word(&LOG_VICTIM),
            age_us: settings.real(&AGE_WEIGHT) * unit_us,
            alpha: settings.real(&ALPHA),
            copy_us: settings.real(&COPY_COST),
            erase_us: settings.real(&ERASE_COST),
            keeps_ages: settings.switch(&LOG_AGES) && settings.word(&LOG_VICTIM) == "maro",
        }
    }
}

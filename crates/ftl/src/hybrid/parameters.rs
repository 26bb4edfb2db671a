//! Parameters that schemes of the family share.

use crate::{Parameter, Range, Value};
use flash::Cause;

/// Blocks kept free beside the log area: one that a merge goes to, and one more for a write of an entire block or a
/// merge that was cut short.
pub const RESERVE: u32 = 2;

/// Causes of changing commands of the family.
pub const PHASES: &[Cause] = &[
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
pub const LOG_BLOCKS: Parameter = Parameter {
    name: "log-blocks",
    summary: "log blocks; 0 stands for all blocks that the logical size leaves, less two that are kept free",
    unit: "blocks",
    default: Value::Count(0),
    range: Range::Count(0, 1 << 27),
    source: "{rose}: 2.5 % of all blocks, {dftl}: 3 %",
};

/// `log-victim`: which log block to clean.
pub const VICTIMS: &[&str] = &["round-robin", "cat", "cheapest", "maro"];

/// `log-victim` with a scheme's own default.
pub const fn log_victim(default: &'static str) -> Parameter {
    Parameter {
        name: "log-victim",
        summary: "which log block to clean: the oldest, by CAT, the one that is cheapest to merge (LAST), or \
                  merge-aware round robin; one without live pages first, but for round-robin",
        unit: "",
        default: Value::Word(default),
        range: Range::Words(VICTIMS),
        source: "{rose}, section 3.3 and figures 5.3, 5.4",
    }
}

/// `maro-age`: what an erase of a log block adds to the age of every other.
pub const AGE_WEIGHT: Parameter = Parameter {
    name: "maro-age",
    summary: "how many microseconds of merging a log block may cost more for each log block erased since it was begun",
    unit: "us",
    default: Value::Real(1.0),
    range: Range::Real(0.0, 1e6),
    source: "{rose}, equation 2 (W_age)",
};

/// `maro-alpha`: what a page in the log counts of a page in the data block.
pub const ALPHA: Parameter = Parameter {
    name: "maro-alpha",
    summary: "weight of a logical block's pages in the log against those in its data block, in hundredths",
    unit: "",
    default: Value::Real(0.5),
    range: Range::Real(0.0, 1.0),
    source: "{rose}, equation 3 (alpha)",
};

/// `copy-us`: what a page copy costs in a score.
pub const COPY_COST: Parameter = Parameter {
    name: "copy-us",
    summary: "what copying a page counts in a merge cost; a scheme has no clock and cannot measure it",
    unit: "us",
    default: Value::Real(351.0),
    range: Range::Real(0.001, 1e6),
    source: "{rose}, table 5.1: 88 + 263",
};

/// `erase-us`: what an erase costs in a score.
pub const ERASE_COST: Parameter = Parameter {
    name: "erase-us",
    summary: "what erasing a block counts in a merge cost",
    unit: "us",
    default: Value::Real(2000.0),
    range: Range::Real(0.0, 1e7),
    source: "{rose}, table 5.1",
};

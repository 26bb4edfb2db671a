//! Parameters and counters that all demand-paged schemes share, and the lists that make up their rows.

use super::map::{Counters, UPDATE_SIZES};
use crate::parts::space;
use crate::{Parameter, Range, Value};
use alloc::vec;
use alloc::vec::Vec;
use flash::Cause;

/// `cache-bytes`: the RAM to be shared out.
pub const CACHE_BYTES: Parameter = Parameter {
    name: "cache-bytes",
    summary: "RAM for the directory and the cache together; 0 gives what a block map of the device would take (the \
              papers' rule), or the least that works",
    unit: "bytes",
    default: Value::Count(0),
    range: Range::Count(0, 1 << 40),
    source: "{dftl}, section 5.1, {lsftl}",
};

/// `gc-fold`: what updates for moved data take along.
pub const GC_FOLD: Parameter = Parameter {
    name: "gc-fold",
    summary: "a translation page updated by data collection takes the cache's dirty entries along",
    unit: "",
    default: Value::Switch(true),
    range: Range::Switch,
    source: "ftlab; the papers are silent",
};

/// `victims`: how data and translation blocks compete.
pub const VICTIMS: Parameter = Parameter {
    name: "victims",
    summary: "plain: one policy over data and translation blocks; net-gain: translation blocks wait until half dead",
    unit: "",
    default: Value::Word("net-gain"),
    range: Range::Words(&["net-gain", "plain"]),
    source: "plain {dftl}; net-gain ftlab",
};

/// `init-tps`: whether formatting writes the map.
pub const INIT_TPS: Parameter = Parameter {
    name: "init-tps",
    summary: "write all translation pages when formatting, as FlashSim does; otherwise each with its first entry",
    unit: "",
    default: Value::Switch(false),
    range: Range::Switch,
    source: "{flashsim}",
};

/// `gc-low`: when to collect. Fewer could not take a collection's data and its translation pages.
pub const GC_LOW: Parameter = Parameter { range: Range::Count(2, 1 << 20), ..space::GC_LOW };

/// `gc-in-evictions`: when an eviction's update tests for room.
pub const GC_IN_EVICTIONS: Parameter = Parameter {
    name: "gc-in-evictions",
    summary: "an eviction that needs a new translation block collects first, inside the request, as the released \
              FlashSim does; otherwise it takes a free block, and the next host page collects",
    unit: "",
    default: Value::Switch(false),
    range: Range::Switch,
    source: "{flashsim}",
};

/// `stripe`: how host pages are dealt to the dies.
pub const STRIPE: Parameter = Parameter {
    name: "stripe",
    summary: "consecutive pages that go to one die before the next takes its turn: runs for caches that use them, \
              against parallelism",
    unit: "pages",
    default: Value::Count(1),
    range: Range::Count(1, 4096),
    source: "ftlab; the papers have one die",
};

/// `stripe` for caches that live on runs.
pub const RUN_STRIPE: Parameter = Parameter { default: Value::Count(4), ..STRIPE };

/// `data-blocks`: how many data blocks a die has open, and that a page goes behind its predecessor if it can. For
/// schemes that have the parameter.
pub const DATA_BLOCKS: Parameter = Parameter {
    name: "data-blocks",
    summary: "data blocks open in each die; a page goes behind the one before it if that one's entry is cached and the \
              next page of its block free, else to the block unused for longest",
    unit: "blocks",
    default: Value::Count(1),
    range: Range::Count(1, 64),
    source: "{scftl}, section II on CAST",
};

/// `translation-mode`: how translation pages are programmed. For schemes that have the parameter.
pub const TRANSLATION_MODE: Parameter = Parameter {
    name: "translation-mode",
    summary: "native: as all pages; slc: translation blocks in SLC mode, on chips with several bits a cell, which \
              makes \
              them faster, smaller, and lets their pages be programmed in parts",
    unit: "",
    default: Value::Word("native"),
    range: Range::Words(&["native", "slc"]),
    source: "{lsftl}, section II-B",
};

/// A list of parameters: what is the scheme's own first, then what the whole family has.
macro_rules! demand_parameters {
    ($($own:expr),* $(,)?) => {
        &[
            $crate::demand::parameters::CACHE_BYTES,
            $($own,)*
            $crate::demand::parameters::GC_FOLD,
            $crate::demand::parameters::VICTIMS,
            $crate::demand::parameters::INIT_TPS,
            $crate::parts::space::GC,
            $crate::demand::parameters::GC_LOW,
            $crate::parts::space::GC_HIGH,
            $crate::parts::collector::SPREAD,
            $crate::demand::parameters::GC_IN_EVICTIONS,
            $crate::gc::CHOICES,
            $crate::gc::LAMBDA,
            $crate::gc::WEAR_SPREAD,
            $crate::gc::DEAD_SHARE,
            $crate::parts::space::FREE_ORDER,
            $crate::parts::wear::WEAR_LEVELLING,
            $crate::parts::wear::WEAR_THRESHOLD,
            $crate::parts::wear::BET_K,
            $crate::parts::wear::BET_THRESHOLD,
            $crate::schemes::page::DURABLE_TRIM,
            $crate::ecc_policy::POLICY,
            $crate::ecc_policy::FILL,
            $crate::ecc_policy::MARGIN,
            $crate::ecc_policy::REWRITE,
            $crate::ecc_policy::WRITE_ONLY,
            $crate::ecc_policy::PAIRS,
            $crate::ecc_policy::HASHES,
            $crate::ecc_policy::BITS,
            $crate::ecc_policy::WEIGHT,
            $crate::ecc_policy::DECAY,
            $crate::ecc_policy::NEXT_PAIR,
            $crate::ecc_policy::HISTORY,
            $crate::parts::space::SEED,
        ]
    };
}
pub(crate) use demand_parameters;

/// Counters of the whole family; a scheme's row adds its own behind them.
pub const COUNTERS: &[(&str, &str)] = &[
    ("clean_evictions", "evictions of lines without a dirty entry"),
    ("dirty_evictions", "evictions that had to update a translation page"),
    ("translation_loads", "translation pages read on misses"),
    ("translation_updates", "translation pages written for evictions and moved data"),
    ("gc_data_victims", "data blocks collected"),
    ("gc_translation_victims", "translation blocks collected"),
    ("gc_data_copies", "live data pages copied by collections"),
    ("gc_translation_copies", "live translation pages copied by collections"),
    ("update_entries_le_1", "updates of at most 1 entry"),
    ("update_entries_le_2", "updates of at most 2 entries"),
    ("update_entries_le_4", "updates of at most 4 entries"),
    ("update_entries_le_8", "updates of at most 8 entries"),
    ("update_entries_le_16", "updates of at most 16 entries"),
    ("update_entries_le_24", "updates of at most 24 entries"),
    ("update_entries_le_32", "updates of at most 32 entries"),
    ("update_entries_le_64", "updates of at most 64 entries"),
    ("update_entries_le_128", "updates of at most 128 entries"),
    ("update_entries_le_256", "updates of at most 256 entries"),
    ("update_entries_le_512", "updates of at most 512 entries"),
    ("update_entries_le_1024", "updates of at most 1024 entries"),
];

/// Two lists of counters, one behind the other; `N` is their number.
pub const fn chain<const N: usize>(
    first: &[(&'static str, &'static str)],
    then: &[(&'static str, &'static str)],
) -> [(&'static str, &'static str); N] {
    assert!(N == first.len() + then.len());
    let mut out = [("", ""); N];
    let mut at = 0;
    while at < N {
        out[at] = if at < first.len() { first[at] } else { then[at - first.len()] };
        at += 1;
    }
    out
}

/// [`COUNTERS`] and a scheme's own behind them; `N` is their number.
pub const fn counters_and<const N: usize>(own: &[(&'static str, &'static str)]) -> [(&'static str, &'static str); N] {
    chain(COUNTERS, own)
}

/// Causes of changing commands of the whole family.
pub const PHASES: &[Cause] = &[
    Cause::Host,
    Cause::TranslationUpdate,
    Cause::TranslationGc,
    Cause::DataGc,
    Cause::WearLevelling,
    Cause::EccRewrite,
    Cause::Recovery,
];

/// The values of [`COUNTERS`].
pub(super) fn counters(c: &Counters) -> Vec<(&'static str, u64)> {
    let mut out = vec![
        ("clean_evictions", c.clean_evictions),
        ("dirty_evictions", c.cache.writebacks),
        ("translation_loads", c.loads),
        ("translation_updates", c.updates),
        ("gc_data_victims", c.data_victims),
        ("gc_translation_victims", c.translation_victims),
        ("gc_data_copies", c.data_copies),
        ("gc_translation_copies", c.translation_copies),
    ];
    let mut so_far = 0;
    let sizes = &COUNTERS[COUNTERS.len() - UPDATE_SIZES.len()..];
    out.extend(sizes.iter().zip(c.update_sizes).map(|(&(name, _), updates)| {
        so_far += updates;
        (name, so_far)
    }));
    out
}

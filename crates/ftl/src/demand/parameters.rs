//! Parameters and counters that all demand-paged schemes share.

use super::map::{Counters, UPDATE_SIZES};
use crate::parts::collector::{self, GC_HIGH, SPREAD};
use crate::parts::tombstones::{self, DURABLE_TRIM};
use crate::parts::{space, supply};
use crate::{Group, Parameter, Range, Scheme, Settings, Value, ecc_policy, gc};
use alloc::vec;
use alloc::vec::Vec;
use flash::Cause;

/// `cache-bytes`: the RAM to be shared out.
pub(crate) const CACHE_BYTES: Parameter = Parameter::count("cache-bytes", 0, 0..=1 << 40)
    .unit("bytes")
    .text(
        "RAM for directory and cache together. More raises the hit ratio. 0 gives as much as a block map of the \
         device would take (the papers' rule), or the least that works.",
    )
    .source("{dftl}, section 5.1, {lsftl}");

/// `gc-fold`: what updates for moved data take along.
pub(crate) const GC_FOLD: Parameter = Parameter::switch("gc-fold", true)
    .text(
        "When a collection updates a translation page, write the cache's dirty entries of that page too. On saves \
         later updates.",
    )
    .source("ftlab; the papers are silent");

/// `victims`: how data and translation blocks compete.
pub(crate) const VICTIMS: Parameter = Parameter::word("victims", "net-gain", &["net-gain", "plain"])
    .text(
        "How translation blocks compete with data blocks. net-gain: a translation block waits until it is half dead. \
         plain: one policy ranks both, which may collect translation blocks that are nearly full of live pages.",
    )
    .source("plain {dftl}; net-gain ftlab");

/// `init-tps`: whether formatting writes the map.
pub(crate) const INIT_TPS: Parameter = Parameter::switch("init-tps", false)
    .text(
        "Formatting writes every translation page. Off writes each page with its first entry, which leaves more free \
         blocks at the start.",
    )
    .source("{flashsim}");

/// `gc-low`: when to collect. Fewer could not take a collection's data and its translation pages.
pub(crate) const GC_LOW: Parameter = Parameter { range: Range::Count(2, 1 << 20), ..collector::GC_LOW }.text(
    "Collect when a die has no more free blocks than this. More leave less room for data, so that more live pages \
     are copied.",
);

/// `gc-in-evictions`: when an eviction's update tests for room.
pub(crate) const GC_IN_EVICTIONS: Parameter = Parameter::switch("gc-in-evictions", false)
    .text(
        "An eviction that needs a new translation block collects first, inside the host's request. Off takes a free \
         block, and the next host page collects.",
    )
    .source("{flashsim}");

/// `stripe`: how host pages are dealt to the dies.
pub(crate) const STRIPE: Parameter = Parameter::count("stripe", 1, 1..=4096)
    .unit("pages")
    .text(
        "Consecutive pages that go to one die before the next die takes its turn. More make longer runs for caches \
         that use them; fewer spread a request over more dies.",
    )
    .source("ftlab; the papers have one die");

/// `stripe` for caches that live on runs.
pub(crate) const RUN_STRIPE: Parameter = STRIPE.at(Value::Count(4));

/// `data-blocks`: how many data blocks a die has open, and that a page goes behind its predecessor if it can. For
/// schemes that have the parameter.
pub(crate) const DATA_BLOCKS: Parameter = Parameter::count("data-blocks", 1, 1..=64)
    .unit("blocks")
    .text(
        "Data blocks open in each die. A page goes behind the page before it, if that page's entry is cached and the \
         place is blank, else to the block unused for longest. More keep more runs whole.",
    )
    .source("{scftl}, section II on CAST");

/// `translation-mode`: how translation pages are programmed. For schemes that have the parameter.
pub(crate) const TRANSLATION_MODE: Parameter = Parameter::word("translation-mode", "native", &["native", "slc"])
    .text(
        "How translation pages are programmed. native: as all pages. slc: in SLC mode, on chips with several bits per \
         cell; such pages are faster and take partial programs, but a block holds fewer.",
    )
    .source("{lsftl}, section II-B");

/// Map and collections of every scheme of the family: with the parts, all that such a scheme has beside its own.
const PARTS: &[Group] = &[
    Group { title: "map on flash", rows: &[GC_FOLD, VICTIMS, INIT_TPS] },
    Group {
        title: "collection of blocks",
        rows: &[
            gc::POLICY,
            GC_LOW,
            GC_HIGH,
            SPREAD,
            GC_IN_EVICTIONS,
            gc::CHOICES,
            gc::LAMBDA,
            gc::WEAR_SPREAD,
            gc::DEAD_SHARE,
            space::SEED,
        ],
    },
    supply::GROUP,
    tombstones::GROUP,
    ecc_policy::GROUP,
];

/// What the engine is told; caches and stores have options of their own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    /// `cache-bytes`.
    pub cache_bytes: u64,
    /// `gc-fold`.
    pub gc_fold: bool,
    /// `victims`: whether one policy ranks data and translation blocks.
    pub among_data: bool,
    /// `init-tps`.
    pub init_tps: bool,
    /// `gc-in-evictions`.
    pub gc_in_evictions: bool,
    /// `stripe`.
    pub stripe: u32,
    /// `data-blocks`.
    pub data_blocks: u32,
    /// `durable-trim`.
    pub durable_trim: bool,
    /// Blocks and collections.
    pub space: space::Options,
    /// Error correction.
    pub ecc: ecc_policy::Options,
}

impl From<&Settings> for Options {
    fn from(settings: &Settings) -> Options {
        Options {
            cache_bytes: settings.count(&CACHE_BYTES),
            gc_fold: settings.switch(&GC_FOLD),
            among_data: settings.word(&VICTIMS) == "plain",
            init_tps: settings.switch(&INIT_TPS),
            gc_in_evictions: settings.switch(&GC_IN_EVICTIONS),
            stripe: settings.small(&STRIPE),
            data_blocks: settings.small(&DATA_BLOCKS),
            durable_trim: settings.switch(&DURABLE_TRIM),
            space: settings.into(),
            ecc: settings.into(),
        }
    }
}

/// Counters of the whole family; a scheme's row adds its own.
pub(crate) const COUNTERS: &[(&str, &str)] = &[
    ("clean_evictions", "evictions of lines without a dirty entry"),
    ("dirty_evictions", "evictions that had to update a translation page"),
    ("translation_loads", "translation pages read on misses"),
    ("translation_updates", "translation pages written for evictions and moved data"),
    ("gc_data_victims", "data blocks collected"),
    ("gc_translation_victims", "translation blocks collected"),
    ("gc_dead_victims", "blocks collected that held no live page"),
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

/// Causes of changing commands of the whole family.
const PHASES: &[Cause] = &[
    Cause::Host,
    Cause::TranslationUpdate,
    Cause::TranslationGc,
    Cause::DataGc,
    Cause::WearLevelling,
    Cause::EccRewrite,
    Cause::Recovery,
];

/// What the rows of the family have in common.
pub(crate) const ROW: Scheme = Scheme {
    name: "",
    summary: "",
    paper: "",
    essay: "",
    own: &[],
    parts: PARTS,
    fixed: &[],
    counters: &[COUNTERS],
    phases: PHASES,
    has_cache: true,
    keeps_data: true,
    state_version: 4,
};

/// The values of [`COUNTERS`].
pub(super) fn counters(c: &Counters) -> Vec<(&'static str, u64)> {
    let mut out = vec![
        ("clean_evictions", c.clean_evictions),
        ("dirty_evictions", c.cache.writebacks),
        ("translation_loads", c.loads),
        ("translation_updates", c.updates),
        ("gc_data_victims", c.data_victims),
        ("gc_translation_victims", c.translation_victims),
        ("gc_dead_victims", c.dead_victims),
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

//! What a run comes to, whoever drove it: the host model of a simulation, or the clients of a served device.
//!
//! Commands, memory and counters are read off the medium and the scheme; times are left to whoever measured them.

use crate::ecc::Ecc;
use crate::report::{self, Cache, EraseCount, Merges, SchemeResult, WearLevelling, ratio};
use flash::{Cause, Mode, Op, Tally};
use ftl::parameters::{ECC, WEAR_LEVELLING};
use ftl::{CacheCounters, Scheme, Settings, Value};

/// What the host asked for, after requests were cut at page borders.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Requests of all kinds.
    pub requests: u64,
    /// Read requests.
    pub reads: u64,
    /// Write requests.
    pub writes: u64,
    /// Pages read.
    pub read_pages: u64,
    /// Pages written.
    pub write_pages: u64,
    /// Discards.
    pub trims: u64,
    /// Flushes.
    pub flushes: u64,
    /// Pages written in part, each read first.
    pub partial_writes: u64,
    /// Pages read that held nothing.
    pub unmapped_reads: u64,
}

impl Counts {
    /// The workload section of a report; name and hash are left to whoever knows them.
    pub fn workload(&self) -> report::Workload {
        report::Workload {
            requests: self.requests,
            reads: self.reads,
            writes: self.writes,
            read_pages: self.read_pages,
            write_pages: self.write_pages,
            ..report::Workload::default()
        }
    }
}

/// A scheme on its medium at the end of a run.
pub struct Driven<'a> {
    /// The scheme's row.
    pub row: &'a Scheme<'a>,
    /// Its parameters.
    pub settings: &'a Settings,
    /// How the run ended.
    pub ended: String,
    /// Size of a page.
    pub page_bytes: u64,
    /// Pages of a block.
    pub pages_per_block: u32,
    /// Commands of the run.
    pub tally: &'a Tally,
    /// Time that a command of each kind takes on a page of each mode, ns.
    pub command_ns: &'a dyn Fn(Op, Mode) -> u64,
    /// Controller RAM by structure.
    pub memory: Vec<(&'static str, u64)>,
    /// The mapping cache.
    pub cache: Option<CacheCounters>,
    /// The scheme's own counters.
    pub counters: Vec<(&'static str, u64)>,
    /// Erases of each block, by now and at the start of the run.
    pub erases: [&'a [u32]; 2],
    /// What the host asked for.
    pub counts: Counts,
}

/// The causes whose time is cleaning cost (docs/metrics.md).
const CLEANING: &[Cause] =
    &[Cause::DataGc, Cause::TranslationGc, Cause::MergeSwitch, Cause::MergePartial, Cause::MergeFull, Cause::Swap];

/// Shares of a write buffer's counters.
const RATIOS: [(&str, &str, &str); 3] = [
    ("write_buffer_write_hit_ratio", "write_buffer_write_hits", "write_buffer_writes"),
    ("write_buffer_read_hit_ratio", "write_buffer_read_hits", "write_buffer_reads"),
    ("write_buffer_block_request_share", "write_buffer_block_requests", "write_buffer_requests"),
];

impl Driven<'_> {
    /// The result, without response times and without a series.
    pub fn result(self) -> SchemeResult {
        let Driven {
            row,
            settings,
            ended,
            page_bytes,
            pages_per_block,
            tally,
            command_ns,
            memory,
            cache,
            counters,
            erases,
            counts,
        } = self;
        let op_us = |cause: Cause, op: Op| {
            let of = |mode: Mode| tally.of_mode(cause, op, mode) as f64 * command_ns(op, mode) as f64;
            Mode::ALL.map(of).iter().sum::<f64>() * 1e-3
        };
        let us = |cause: Cause| Op::ALL.iter().map(|&op| op_us(cause, op)).sum::<f64>();
        let mut result = SchemeResult {
            scheme: row.name.to_owned(),
            params: parameters(settings),
            ended,
            ..SchemeResult::default()
        };
        result.set_commands(tally, us);
        result.sram_bytes = memory.iter().map(|(_, bytes)| bytes).sum();
        result.sram = memory.into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).collect();
        if row.has_cache && settings.get("cache-bytes") == Some(Value::Count(0)) {
            // Nobody sized the cache: what the scheme took.
            let of = |name| result.sram.get(name).copied().unwrap_or(0);
            let bytes = of("mapping cache") + of("translation directory") + of("update mapping table");
            result.params.insert("cache-bytes".to_owned(), bytes.into());
        }
        let host_pages = counts.write_pages as f64;
        if row.keeps_data {
            let programs = tally.of(Op::Program) as f64;
            result.waf = ratio(programs, host_pages);
            let partial = tally.partial_bytes as f64 / page_bytes as f64;
            result.waf_bytes = ratio(programs + partial, host_pages);
            let cleaning: f64 = CLEANING.iter().map(|&cause| us(cause)).sum();
            result.cleaning_seconds = Some(cleaning * 1e-6);
            // A host page takes what its mode takes; where all have one mode, exactly that.
            let normal_us = command_ns(Op::Program, Mode::Normal) as f64 * 1e-3;
            let host_programs = tally.get(Cause::Host, Op::Program);
            let host_us = match tally.of_mode(Cause::Host, Op::Program, Mode::Normal) {
                normal if normal == host_programs => host_pages * normal_us,
                _ => host_pages * op_us(Cause::Host, Op::Program) / host_programs as f64,
            };
            result.war = ratio(host_us + cleaning, host_us);
            let [now, before] = erases;
            let counts: Vec<u64> = now.iter().zip(before).map(|(&now, &before)| u64::from(now - before)).collect();
            result.erase_count = EraseCount::of(&counts);
            if settings.get(WEAR_LEVELLING.name).is_some_and(|mode| mode != WEAR_LEVELLING.default) {
                let levelling = us(Cause::WearLevelling);
                result.wear_levelling = Some(WearLevelling {
                    copies: tally.get(Cause::WearLevelling, Op::Program),
                    erases: tally.get(Cause::WearLevelling, Op::Erase),
                    seconds: levelling * 1e-6,
                    percent_of_cleaning: ratio(100.0 * levelling, cleaning),
                });
            }
        }
        if settings.get(ECC.name).is_some_and(|policy| policy != ECC.default) {
            result.ecc = Some(Ecc::of(tally));
        }
        if let Some(cache) = cache {
            result.cache = Some(Cache::of(cache.accesses, cache.hits, cache.writebacks));
            let translation = [Cause::TranslationLoad, Cause::TranslationUpdate, Cause::TranslationGc];
            result.tp_overhead = ratio(translation.map(us).iter().sum(), result.flash.busy_us);
            result.extra.insert("writeback_entries".to_owned(), cache.writeback_entries.into());
        }
        let counted = |name: &str| counters.iter().find(|(known, _)| *known == name).map(|&(_, count)| count as f64);
        for (name, part, whole) in RATIOS {
            if let Some(share) = counted(part).zip(counted(whole)).and_then(|(part, whole)| ratio(part, whole)) {
                result.extra.insert(name.to_owned(), share.into());
            }
        }
        if let (Some(pages), Some(blocks)) = (counted("erased_used_pages"), counted("erased_blocks")) {
            result.space_utilisation = ratio(pages, blocks * f64::from(pages_per_block));
        }
        let mut merges = Merges::default();
        let mut merged = false;
        for (name, count) in counters {
            let kind = match name {
                "switch_merges" => &mut merges.switch,
                "partial_merges" => &mut merges.partial,
                "full_merges" => &mut merges.full,
                _ => {
                    result.extra.insert(name.to_owned(), count.into());
                    continue;
                }
            };
            *kind = count;
            merged = true;
        }
        result.merges = merged.then_some(merges);
        for (name, count) in [
            ("trims", counts.trims),
            ("flushes", counts.flushes),
            ("partial_page_writes", counts.partial_writes),
            ("unmapped_page_reads", counts.unmapped_reads),
        ] {
            if count > 0 {
                result.extra.insert(name.to_owned(), count.into());
            }
        }
        result
    }
}

/// A scheme's parameters as a report has them.
pub fn parameters(settings: &Settings) -> report::Fields {
    settings
        .iter()
        .map(|(name, value)| {
            let value = match value {
                Value::Count(n) => n.into(),
                Value::Real(x) => x.into(),
                Value::Switch(on) => on.into(),
                Value::Word(word) => word.into(),
            };
            (name.to_owned(), value)
        })
        .collect()
}

//! What an experiment found, as plain data: the JSON contract of ftlab.
//!
//! A [`Report`] holds everything that a reader needs to trust a number and to run it again: version, seed, resolved
//! device, workload with its hash, what was assumed, and one [`SchemeResult`] per combination that ran. The field
//! names *are* the JSON keys and stay as they are within a schema version; keys may be added.
//!
//! Two rules keep reports honest. A key that does not apply (a mapping cache for page mapping, a write amplification
//! without writes) is absent, never zero. And every number is finite: JSON has no other, so a metric that divides by
//! zero is absent too (see [`ratio`]).

use crate::ecc::Ecc;
use crate::workload::Operation;
use flash::{Cause, Op, Tally};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// The schema version written into every report.
pub const SCHEMA: u32 = 1;

/// The value of [`SchemeResult::ended`] of a run that served its whole workload.
pub const COMPLETE: &str = "complete";

/// The value of [`SchemeResult::ended`] of a run that was to go on until worn blocks leave no room, and did.
pub const END_OF_LIFE: &str = "end of life";

/// How the [`SchemeResult::ended`] of a run begins that had a warm-up and measured nothing.
pub const IN_WARM_UP: &str = "in the warm-up: ";

/// The value of [`SchemeResult::ended`] of a run that was stopped by the user.
pub const INTERRUPTED: &str = "interrupted";

/// Keys in [`SchemeResult::extra`] of what a mount from flash took: reads of spare areas and of pages, programs,
/// erases; and the bytes of the controller's state that it found again.
pub const MOUNT: [&str; 5] = ["mount_oob_reads", "mount_reads", "mount_programs", "mount_erases", "mount_state_bytes"];
/// And of how long the mount takes, one command after another, in seconds.
pub const MOUNT_SECONDS: &str = "mount_seconds";
/// And of how long it would take to read that state from metadata pages.
pub const STATE_SECONDS: &str = "mount_state_seconds";
/// The key in [`SchemeResult::extra`] of how long after the last arrival of an open loop the last request ended, in
/// simulated seconds.
pub const BACKLOG: &str = "backlog_seconds";

/// The key in [`SchemeResult::extra`] that says that a device did not keep up with the arrivals; absent if it did.
pub const OVERLOADED: &str = "overloaded";

/// The key in [`SchemeResult::extra`] of how often programs and erases were interrupted for reads.
pub const SUSPENDS: &str = "suspends";

/// The key in [`SchemeResult::extra`] of how often a scheme did background work while nothing was under way.
pub const IDLE_STEPS: &str = "idle_steps";

/// In `extra`: the share of the logical pages that hold data when counting starts.
pub const LIVE_SHARE: &str = "live_share";

/// In `extra`: rounds of a steady fill after which write amplification was not steady yet, and the fill ended; absent
/// where it was. Of repeated runs: of any of them.
pub const UNSTEADY_ROUNDS: &str = "unsteady_fill_rounds";

/// The share of the arrivals' time that the backlog at their end may have before the device counts as overloaded.
const MOST_BACKLOG: f64 = 0.05;

/// Fewer requests tell nothing about keeping up: a single erase at their end may take as long as all of them.
const LEAST_REQUESTS: u64 = 100;

/// Whether a device that is so far behind after arrivals of so many requests in so long does not keep up with them.
fn is_behind(arrivals_seconds: f64, backlog_seconds: f64, requests: u64) -> bool {
    requests >= LEAST_REQUESTS && backlog_seconds > MOST_BACKLOG * arrivals_seconds
}

/// Named values in alphabetical order: device keys, scheme parameters, scheme counters.
pub type Fields = BTreeMap<String, Value>;

/// One experiment: a workload on a device, under one or more schemes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Version of this layout; [`SCHEMA`].
    pub schema: u32,
    /// Version of ftlab that ran the experiment.
    pub ftlab: String,
    /// The seed that all randomness was forked from.
    pub seed: u64,
    /// The device as the run had it: name, geometry, timings, capacity, spare.
    pub device: Fields,
    /// What was run.
    pub workload: Workload,
    /// How it was run, as far as neither device nor workload nor scheme say: what is needed to run it again
    /// (docs/metrics.md); empty where nothing was run.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub run: Fields,
    /// What was assumed on the user's behalf, one sentence each (format, units, partial pages, addresses, fill).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assumptions: Vec<String>,
    /// One entry per combination of scheme and parameters, in the order asked for.
    pub results: Vec<SchemeResult>,
}

/// The requests of the measured phase.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workload {
    /// Trace file name, or generator specification.
    pub name: String,
    /// Requests of all kinds.
    pub requests: u64,
    /// Read requests.
    pub reads: u64,
    /// Write requests.
    pub writes: u64,
    /// Pages read, after cutting requests at page borders.
    pub read_pages: u64,
    /// Pages written, after cutting requests at page borders.
    pub write_pages: u64,
    /// SHA-256 of the trace file as stored, in hexadecimal; absent for generators.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

/// What one scheme did with the workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SchemeResult {
    /// Name of the scheme.
    pub scheme: String,
    /// Every parameter of the scheme as resolved, defaults included.
    pub params: Fields,
    /// How the run ended: [`COMPLETE`], [`END_OF_LIFE`], [`INTERRUPTED`], or `"device full: …"`,
    /// perhaps behind [`IN_WARM_UP`].
    pub ended: String,
    /// Wall-clock seconds of the measured phase alone.
    pub wall_seconds: f64,
    /// Wall-clock seconds of filling the device and of the warm-up.
    pub fill_wall_seconds: f64,
    /// Controller RAM that the scheme needs, in bytes: the sum of `sram`.
    pub sram_bytes: u64,
    /// Controller RAM by structure, in bytes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sram: BTreeMap<String, u64>,
    /// Arrival to end, in microseconds; absent if no request was served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_us: Option<Latency>,
    /// Start of service to end, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_us: Option<Latency>,
    /// Arrival to start of service, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_us: Option<Latency>,
    /// Where the response times went; absent if no request was served, or by an earlier version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_by_cause: Option<ResponseByCause>,
    /// All flash commands of the measured phase.
    pub flash: FlashTotals,
    /// The same commands by [`Cause::name`]; only the causes that occurred.
    pub by_cause: BTreeMap<String, CauseTotals>,
    /// Write amplification: full programs per host page write; absent without host writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waf: Option<f64>,
    /// Write amplification in programmed bytes, partial programs by their size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waf_bytes: Option<f64>,
    /// Write amplification in time: (host programs + cleaning) / host programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub war: Option<f64>,
    /// Copies and erases caused by cleaning, in seconds of flash time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cleaning_seconds: Option<f64>,
    /// Share of flash time spent on translation pages; absent for schemes that have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tp_overhead: Option<f64>,
    /// Mean response time above page mapping's in percent; absent unless both it and page mapping served the whole
    /// workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub t_pc: Option<f64>,
    /// The mapping cache; absent for schemes without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<Cache>,
    /// Merges of log blocks; absent for schemes without a log area.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merges: Option<Merges>,
    /// Mean share of a block's pages that were in use when it was erased; absent if nothing was erased.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space_utilisation: Option<f64>,
    /// Erases of each block in the measured phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub erase_count: Option<EraseCount>,
    /// What wear levelling took; absent where it is off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wear_levelling: Option<WearLevelling>,
    /// Codes of the host's pages; absent where no policy decides about them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ecc: Option<Ecc>,
    /// How much can be written until the codes give up; absent for devices with latencies of their own, and where
    /// nothing was erased.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifetime: Option<Lifetime>,
    /// How far a run came that repeats its workload; absent otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Until>,
    /// How commands queued; absent where they were placed as they were issued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<String>,
    /// The streams of requests that shared the device, in the order asked for; empty if there was one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flows: Vec<FlowResult>,
    /// The scheme's own counters.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub extra: Fields,
    /// The run over time; empty unless asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<Interval>,
    /// Means over repeated runs; absent after a single run. The other fields are then those of the first run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeats: Option<Repeats>,
}

/// The distribution of a time, in microseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard deviation.
    pub stdev: f64,
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// 99.99th percentile.
    pub p9999: f64,
    /// The largest.
    pub max: f64,
    /// The same of reads alone; absent without reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read: Option<Box<Latency>>,
    /// The same of writes alone; absent without writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write: Option<Box<Latency>>,
}

/// Where response times went, by [`Cause::name`]: mean microseconds a request.
///
/// Of a request the page that ends last counts. What its chain of commands works in the cells and on the channel is the
/// request's own; between these it waits, for what its die or channel works for meanwhile.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ResponseByCause {
    /// Over all reads and writes: together the mean response time.
    pub mean: ResponseParts,
    /// Over the longest of them.
    pub tail: TailParts,
}

/// Mean microseconds a request; only the causes that occurred.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ResponseParts {
    /// The request's own commands.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub own: BTreeMap<String, f64>,
    /// What it waited for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub waited_for: BTreeMap<String, f64>,
}

/// The same of the requests in or above the bucket of the 99th percentile, a bucket being 1.6 % wide.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TailParts {
    /// The shortest that such a request can be, in microseconds.
    pub from_us: f64,
    /// How many there are.
    pub requests: u64,
    /// Where their time went.
    #[serde(flatten)]
    pub parts: ResponseParts,
}

/// Flash commands of all causes together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlashTotals {
    /// Full page reads.
    pub reads: u64,
    /// Page programs.
    pub programs: u64,
    /// Partial programs.
    pub partial_programs: u64,
    /// Block erases.
    pub erases: u64,
    /// Reads of the spare area alone.
    pub oob_reads: u64,
    /// Sum of the times of all commands, in microseconds.
    pub busy_us: f64,
}

/// Flash commands of one cause.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CauseTotals {
    /// Full page reads.
    pub reads: u64,
    /// Reads of the spare area alone.
    pub oob_reads: u64,
    /// Page programs.
    pub programs: u64,
    /// Partial programs.
    pub partial_programs: u64,
    /// Block erases.
    pub erases: u64,
    /// Sum of the times of these commands, in microseconds.
    pub us: f64,
}

/// The mapping cache, one access per page of a request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cache {
    /// Look-ups.
    pub accesses: u64,
    /// Look-ups that found their entry.
    pub hits: u64,
    /// Look-ups that did not.
    pub misses: u64,
    /// `hits / accesses`; absent without accesses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hit_ratio: Option<f64>,
    /// Victims whose eviction forced a translation page write.
    pub writebacks: u64,
    /// `writebacks / accesses`; absent without accesses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wb_ratio: Option<f64>,
}

impl Cache {
    /// Completes the counts with what follows from them.
    pub fn of(accesses: u64, hits: u64, writebacks: u64) -> Cache {
        Cache {
            accesses,
            hits,
            misses: accesses - hits,
            hit_ratio: ratio(hits as f64, accesses as f64),
            writebacks,
            wb_ratio: ratio(writebacks as f64, accesses as f64),
        }
    }
}

/// Merges of log blocks by kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Merges {
    /// The log block took the data block's place.
    pub switch: u64,
    /// The log block was completed with the data block's remaining pages.
    pub partial: u64,
    /// A new block was written from several.
    pub full: u64,
}

/// Erases per block.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EraseCount {
    /// Mean over all blocks.
    pub mean: f64,
    /// Standard deviation over all blocks.
    pub stdev: f64,
    /// The least worn block's.
    pub min: u64,
    /// The most worn block's.
    pub max: u64,
    /// Blocks by their erases, from the least to the most, in at most [`MOST_BINS`] ranges of equal width.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub histogram: Vec<Bin>,
}

/// Ranges of a histogram of erases, at the most.
pub const MOST_BINS: u64 = 32;

/// Blocks of about the same wear.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bin {
    /// The fewest erases of such a block.
    pub from: u64,
    /// The most.
    pub to: u64,
    /// How many blocks.
    pub blocks: u64,
}

impl EraseCount {
    /// The distribution of these counts; nothing of no blocks.
    pub fn of(counts: &[u64]) -> Option<EraseCount> {
        let (min, max) = (*counts.iter().min()?, *counts.iter().max()?);
        let n = counts.len() as f64;
        let mean = counts.iter().sum::<u64>() as f64 / n;
        let variance = counts.iter().map(|&count| (count as f64 - mean).powi(2)).sum::<f64>() / n;
        let width = (max - min + 1).div_ceil(MOST_BINS);
        let mut histogram: Vec<Bin> = (min..=max)
            .step_by(width as usize)
            .map(|from| Bin { from, to: (from + width - 1).min(max), blocks: 0 })
            .collect();
        counts.iter().for_each(|&count| histogram[((count - min) / width) as usize].blocks += 1);
        Some(EraseCount { mean, stdev: variance.sqrt(), min, max, histogram })
    }
}

/// What it took to even out wear.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WearLevelling {
    /// Pages that were copied.
    pub copies: u64,
    /// Blocks that were erased.
    pub erases: u64,
    /// Time of all its commands, in seconds of flash time.
    pub seconds: f64,
    /// That time in percent of the cleaning cost (`cleaning_seconds`), which it is no part of; absent without cleaning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent_of_cleaning: Option<f64>,
}

/// One of several streams of requests that shared the device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowResult {
    /// Trace file name, or generator specification.
    pub name: String,
    /// When its requests arrived: `open` or `closed:QD`.
    pub host: String,
    /// Its requests of all kinds in the measured phase.
    pub requests: u64,
    /// Those before it, in the warm-up; absent without any.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub warmup: u64,
    /// Arrival to end, in microseconds; absent if no request was served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_us: Option<Latency>,
    /// Start of service to end, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_us: Option<Latency>,
    /// Arrival to start of service, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_us: Option<Latency>,
    /// Mean response time of the same stream with the device to itself, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alone_mean_us: Option<f64>,
    /// Mean response time here, in that of the same stream with the device to itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slowdown: Option<f64>,
    /// How long after its last arrival the last of its requests ended, in simulated seconds; absent in a closed loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backlog_seconds: Option<f64>,
    /// That the device did not keep up with its arrivals; absent if it did.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub overloaded: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl FlowResult {
    /// Enters how far behind its arrivals the device was at their end, in seconds.
    pub fn set_backlog(&mut self, arrivals_seconds: f64, backlog_seconds: f64) {
        self.backlog_seconds = Some(backlog_seconds);
        self.overloaded = is_behind(arrivals_seconds, backlog_seconds, self.requests);
    }
}

/// A run that repeated its workload until the device was worn.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Until {
    /// How often the workload was served; the last time may be a part of it.
    pub iterations: f64,
    /// Bytes that the host wrote, whole pages.
    pub host_bytes_written: u64,
    /// Blocks that failed an erase, of those that endure a number of them; absent where blocks endure any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worn_out_blocks: Option<u64>,
}

/// How much the host can still write until the codes of its pages no longer bear the errors, if all blocks wear alike.
/// A bound has another path in JSON than a number, so that nothing compares the two.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lifetime {
    /// Time for which written pages must stay readable.
    pub retention_hours: f64,
    /// Absent where the model of the cells ends before a code gives up.
    #[serde(flatten)]
    pub known: Option<Life>,
    /// What is left up to the model's end; absent where a code gives up before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<Life>,
}

/// What can be written in the cycles that are left of those that the codes bear.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Life {
    /// The most P/E cycles, from a new chip on, at which all codes of the modes that were used bear their pages.
    pub pe_cycles: u32,
    /// Bytes that the host writes until then, from the device's age on.
    pub host_bytes: f64,
    /// The same in times of the exported capacity.
    pub drive_writes: f64,
}

/// One interval of a run in simulated time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// End of the interval, in simulated seconds since the measured phase began.
    pub seconds: f64,
    /// Reads and writes that arrived in the interval; where commands queue, those that ended in it.
    pub requests: u64,
    /// Requests per simulated second.
    pub iops: f64,
    /// Write amplification within the interval; absent without host writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waf: Option<f64>,
    /// Free blocks at its end.
    pub free_blocks: u64,
    /// Mean response time, in microseconds; absent if no request arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_us: Option<f64>,
    /// 99th percentile of the response time, in microseconds; absent if no request arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_us: Option<f64>,
    /// Pages read of each of [`crate::ecc::ROWS`] equal parts of the device's addresses; absent where no
    /// error-correction policy decides about pages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub page_reads: Vec<u64>,
    /// Pages written of each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub page_writes: Vec<u64>,
}

/// Means over runs that differ in their seed alone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Repeats {
    /// Number of runs.
    pub n: u64,
    /// Mean and confidence by metric; keys are dotted paths into the result (`response_us.mean`).
    pub metrics: BTreeMap<String, Estimate>,
}

/// A mean with its uncertainty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Mean over the runs.
    pub mean: f64,
    /// Half the width of the 95 % confidence interval (Student's t).
    pub half_width_95: f64,
}

/// One served request, for those who want every one of them (`--per-request`). Not part of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestRecord {
    /// Arrival, in nanoseconds of simulated time.
    pub arrival_ns: u64,
    /// Which of several streams it belongs to, numbered from 0; 0 if there is one.
    pub flow: u32,
    /// What was asked.
    pub operation: Operation,
    /// First byte on the device.
    pub offset: u64,
    /// Bytes.
    pub bytes: u64,
    /// Arrival to start of service.
    pub queue_ns: u64,
    /// Start of service to end.
    pub service_ns: u64,
    /// Arrival to end.
    pub response_ns: u64,
    /// Flash commands that the request caused, collections included, by [`Op`].
    pub commands: [u32; Op::ALL.len()],
}

/// `part / whole`, or nothing where that is no finite number: the rule for every ratio of a report.
pub fn ratio(part: f64, whole: f64) -> Option<f64> {
    let quotient = part / whole;
    quotient.is_finite().then_some(quotient)
}

impl Report {
    /// An empty report of this version of ftlab.
    pub fn new(seed: u64, device: Fields, workload: Workload) -> Report {
        Report {
            schema: SCHEMA,
            ftlab: env!("CARGO_PKG_VERSION").to_owned(),
            seed,
            device,
            workload,
            run: Fields::new(),
            assumptions: Vec::new(),
            results: Vec::new(),
        }
    }

    /// Reads a report back.
    ///
    /// # Errors
    /// What is wrong and where, if this is no report or one of another schema.
    pub fn from_json(text: &str) -> Result<Report, ReportError> {
        #[derive(Deserialize)]
        struct Head {
            schema: u32,
        }
        let head: Head = serde_json::from_str(text)?;
        if head.schema != SCHEMA {
            return Err(ReportError::Schema { found: head.schema });
        }
        Ok(serde_json::from_str(text)?)
    }

    /// Whether no run had a request left behind its warm-up.
    pub fn measured_nothing(&self) -> bool {
        !self.results.is_empty() && self.results.iter().all(|result| result.ended.starts_with(IN_WARM_UP))
    }

    /// Sets `t_pc` of every result against the page mapping of the same report whose parameters differ least. Runs that
    /// did not serve the whole workload are compared with nothing, nor are those of an overloaded device: these have no
    /// mean response of their own.
    pub fn compare_with_page_mapping(&mut self) {
        let mean = |result: &SchemeResult| {
            result.response_us.as_ref().filter(|_| !result.is_overloaded()).map(|response| response.mean)
        };
        let page: Vec<(Option<String>, Fields, Option<f64>)> = self
            .results
            .iter()
            .filter(|result| result.scheme == "page" && result.is_complete())
            .map(|result| (result.scheduler.clone(), result.params.clone(), mean(result)))
            .collect();
        for result in self.results.iter_mut().filter(|result| result.scheme != "page") {
            let shared =
                |params: &Fields| params.iter().filter(|(key, value)| result.params.get(*key) == Some(*value)).count();
            // Of equally near ones the first, so that the order asked for decides.
            let alike = page.iter().rev().filter(|(scheduler, ..)| *scheduler == result.scheduler);
            let nearest = alike.max_by_key(|(_, params, _)| shared(params));
            let own = mean(result).filter(|_| result.ended == COMPLETE);
            result.t_pc = match (nearest, own) {
                (Some(&(_, _, Some(base))), Some(own)) => ratio(100.0 * (own - base), base),
                _ => None,
            };
        }
    }
}

/// Why a text is not a readable report.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// Not the JSON of a report.
    #[error("not an ftlab report: {0}")]
    Malformed(#[from] serde_json::Error),
    /// A report of another schema.
    #[error("report has schema {found}, this ftlab reads schema {SCHEMA}")]
    Schema {
        /// The schema number in the text.
        found: u32,
    },
}

impl SchemeResult {
    /// Whether the whole workload was served.
    pub fn is_complete(&self) -> bool {
        self.ended == COMPLETE
    }

    /// Whether it ended before it was to.
    pub fn ended_early(&self) -> bool {
        !self.is_complete() && self.ended != END_OF_LIFE
    }

    /// Whether the run was an open loop that the device did not keep up with: its response times then measure how long
    /// the workload is.
    pub fn is_overloaded(&self) -> bool {
        self.extra.contains_key(OVERLOADED)
    }

    /// Enters how far behind the arrivals of an open loop the device was at their end, in seconds.
    pub fn set_backlog(&mut self, arrivals_seconds: f64, backlog_seconds: f64, requests: u64) {
        self.extra.insert(BACKLOG.to_owned(), backlog_seconds.into());
        if is_behind(arrivals_seconds, backlog_seconds, requests) {
            self.extra.insert(OVERLOADED.to_owned(), true.into());
        }
    }

    /// Enters a tally: `flash` and `by_cause`, with the time in microseconds that each cause took.
    pub fn set_commands(&mut self, tally: &Tally, us: impl Fn(Cause) -> f64) {
        self.by_cause = Cause::ALL
            .iter()
            .filter(|&&cause| tally.by(cause) > 0)
            .map(|&cause| {
                let totals = CauseTotals {
                    reads: tally.get(cause, Op::Read),
                    oob_reads: tally.get(cause, Op::OobRead),
                    programs: tally.get(cause, Op::Program),
                    partial_programs: tally.get(cause, Op::PartialProgram),
                    erases: tally.get(cause, Op::Erase),
                    us: us(cause),
                };
                (cause.name().to_owned(), totals)
            })
            .collect();
        self.flash = FlashTotals {
            reads: tally.of(Op::Read),
            programs: tally.of(Op::Program),
            partial_programs: tally.of(Op::PartialProgram),
            erases: tally.of(Op::Erase),
            oob_reads: tally.of(Op::OobRead),
            busy_us: self.by_cause.values().map(|totals| totals.us).sum(),
        };
    }

    /// The metrics that repeated runs are averaged over, by their dotted path.
    pub fn key_metrics(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let response = self.response_us.as_ref();
        [
            ("response_us.mean", response.map(|latency| latency.mean)),
            ("response_us.p99", response.map(|latency| latency.p99)),
            ("response_us.p999", response.map(|latency| latency.p999)),
            ("service_us.mean", self.service_us.as_ref().map(|latency| latency.mean)),
            ("waf", self.waf),
            ("war", self.war),
            ("cleaning_seconds", self.cleaning_seconds),
            ("tp_overhead", self.tp_overhead),
            ("cache.hit_ratio", self.cache.as_ref().and_then(|cache| cache.hit_ratio)),
            ("flash.erases", Some(self.flash.erases as f64)),
            ("erase_count.stdev", self.erase_count.as_ref().map(|count| count.stdev)),
            ("until.iterations", self.until.as_ref().map(|until| until.iterations)),
            ("until.host_bytes_written", self.until.as_ref().map(|until| until.host_bytes_written as f64)),
            ("wall_seconds", Some(self.wall_seconds)),
        ]
        .into_iter()
        .filter_map(|(key, value)| Some((key, value?)))
    }

    /// Folds runs of one combination under different seeds into one result: the first run, with [`Repeats`].
    /// `None` if there is no run.
    pub fn repeated(runs: Vec<SchemeResult>) -> Option<SchemeResult> {
        let repeats = (runs.len() > 1).then(|| Repeats::over(&runs));
        let unsteady = runs.iter().find_map(|run| run.extra.get_key_value(UNSTEADY_ROUNDS));
        let unsteady = unsteady.map(|(key, rounds)| (key.clone(), rounds.clone()));
        let mut first = runs.into_iter().next()?;
        first.repeats = repeats;
        first.extra.extend(unsteady);
        Some(first)
    }
}

impl Repeats {
    /// Whether the runs have the same in every key metric but the real time that they took.
    pub fn are_identical(&self) -> bool {
        let drawn = |(key, estimate): (&String, &Estimate)| key != "wall_seconds" && estimate.half_width_95 > 0.0;
        !self.metrics.iter().any(drawn)
    }

    /// Mean and confidence of every key metric that all runs have.
    pub fn over(runs: &[SchemeResult]) -> Repeats {
        let mut samples: BTreeMap<&'static str, Vec<f64>> = BTreeMap::new();
        for (key, value) in runs.iter().flat_map(SchemeResult::key_metrics) {
            samples.entry(key).or_default().push(value);
        }
        let metrics = samples
            .into_iter()
            .filter(|(_, values)| values.len() == runs.len())
            .map(|(key, values)| (key.to_owned(), Estimate::of(&values)))
            .collect();
        Repeats { n: runs.len() as u64, metrics }
    }
}

impl Estimate {
    /// Mean and half-width of independent samples; equal samples have half-width 0, exactly, and so has a single one.
    /// No samples have no mean: it is NaN.
    pub fn of(samples: &[f64]) -> Estimate {
        if samples.windows(2).all(|pair| pair[0] == pair[1]) {
            return Estimate { mean: samples.first().copied().unwrap_or(f64::NAN), half_width_95: 0.0 };
        }
        let n = samples.len() as f64;
        let mean = samples.iter().sum::<f64>() / n;
        let variance = samples.iter().map(|sample| (sample - mean).powi(2)).sum::<f64>() / (n - 1.0);
        Estimate { mean, half_width_95: student_t_975(samples.len() - 1) * (variance / n).sqrt() }
    }

    /// Half the width of the 99 % confidence interval, if this came of so many samples: the two differ by a factor that
    /// depends on nothing else.
    pub fn half_width_99(&self, samples: u64) -> f64 {
        match usize::try_from(samples).unwrap_or(usize::MAX).saturating_sub(1) {
            0 => 0.0,
            freedom => self.half_width_95 * student_t_995(freedom) / student_t_975(freedom),
        }
    }
}

/// A quantile of Student's t: tabulated up to 30 degrees of freedom, beyond that by the Cornish–Fisher expansion around
/// the normal quantile `z` (error below 0.0015).
fn student_t(table: &[f64; 30], z: f64, freedom: usize) -> f64 {
    match freedom.checked_sub(1).and_then(|index| table.get(index)) {
        Some(&quantile) => quantile,
        None => {
            let v = freedom as f64;
            z + (z.powi(3) + z) / (4.0 * v) + (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * v * v)
        }
    }
}

fn student_t_975(freedom: usize) -> f64 {
    const TABLE: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
        2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
    ];
    student_t(&TABLE, 1.959_964, freedom)
}

fn student_t_995(freedom: usize) -> f64 {
    const TABLE: [f64; 30] = [
        63.657, 9.925, 5.841, 4.604, 4.032, 3.707, 3.499, 3.355, 3.250, 3.169, 3.106, 3.055, 3.012, 2.977, 2.947,
        2.921, 2.898, 2.878, 2.861, 2.845, 2.831, 2.819, 2.807, 2.797, 2.787, 2.779, 2.771, 2.763, 2.756, 2.750,
    ];
    student_t(&TABLE, 2.575_829, freedom)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn latency(mean: f64) -> Latency {
        Latency { mean, p50: mean, max: 10.0 * mean, ..Latency::default() }
    }

    /// A result with every optional part present.
    fn full() -> SchemeResult {
        let mut tally = Tally::default();
        tally.add(Cause::Host, Op::Program);
        tally.add(Cause::DataGc, Op::Erase);
        let mut result = SchemeResult {
            scheme: "dftl".into(),
            params: Fields::from([("cache".into(), json!(65536))]),
            ended: COMPLETE.into(),
            sram: BTreeMap::from([("mapping cache".into(), 65536)]),
            sram_bytes: 65536,
            response_us: Some(Latency {
                read: Some(Box::new(latency(1.0))),
                write: Some(Box::new(latency(3.0))),
                ..latency(2.0)
            }),
            service_us: Some(latency(1.5)),
            queue_us: Some(latency(0.5)),
            waf: Some(1.25),
            waf_bytes: Some(1.25),
            war: Some(1.5),
            cleaning_seconds: Some(0.25),
            tp_overhead: Some(0.1),
            t_pc: Some(7.0),
            cache: Some(Cache::of(10, 7, 2)),
            merges: Some(Merges::default()),
            space_utilisation: Some(1.0),
            erase_count: EraseCount::of(&[1, 3]),
            wear_levelling: Some(WearLevelling { percent_of_cleaning: Some(1.0), ..WearLevelling::default() }),
            ecc: Some(Ecc {
                low_cost_write_ratio: Some(0.5),
                low_cost_read_ratio: Some(0.5),
                low_cost_copy_ratio: Some(0.5),
                overlap_ratio: Some(0.5),
                window_overlap_ratio: Some(0.5),
                ..Ecc::default()
            }),
            lifetime: Some(Lifetime { known: Some(Life::default()), ..Lifetime::default() }),
            until: Some(Until { worn_out_blocks: Some(1), ..Until::default() }),
            extra: Fields::from([("prefetches".into(), json!(3))]),
            series: vec![Interval { waf: Some(1.0), mean_us: Some(2.0), p99_us: Some(4.0), ..Interval::default() }],
            ..SchemeResult::default()
        };
        result.set_commands(&tally, |cause| if cause == Cause::Host { 200.0 } else { 1500.0 });
        result.repeats = Some(Repeats::over(&[result.clone(), result.clone()]));
        result
    }

    fn report(results: Vec<SchemeResult>) -> Report {
        let workload = Workload { name: "w".into(), sha256: Some("00".into()), ..Workload::default() };
        let mut report = Report::new(1, Fields::from([("name".into(), json!("agrawal08"))]), workload);
        report.run.insert("fill".into(), json!("none"));
        report.assumptions.push("seed 1".into());
        report.results = results;
        report
    }

    fn keys(value: &Value) -> Vec<&str> {
        value.as_object().unwrap().keys().map(String::as_str).collect()
    }

    fn sorted(text: &str) -> Vec<&str> {
        let mut words: Vec<&str> = text.split_whitespace().collect();
        words.sort_unstable();
        words
    }

    #[test]
    fn keys_are_those_of_the_contract() {
        let json = serde_json::to_value(report(vec![full()])).unwrap();
        assert_eq!(keys(&json), sorted("schema ftlab seed device workload run assumptions results"));
        assert_eq!(keys(&json["workload"]), sorted("name requests reads writes read_pages write_pages sha256"));
        let result = &json["results"][0];
        assert_eq!(
            keys(result),
            sorted(
                "scheme params ended wall_seconds fill_wall_seconds sram_bytes sram response_us service_us queue_us \
                 flash by_cause waf waf_bytes war cleaning_seconds tp_overhead t_pc cache merges space_utilisation \
                 erase_count wear_levelling ecc lifetime until extra series repeats"
            )
        );
        let latency = "mean stdev p50 p95 p99 p999 p9999 max";
        assert_eq!(keys(&result["response_us"]), sorted(&format!("{latency} read write")));
        assert_eq!(keys(&result["response_us"]["read"]), sorted(latency));
        assert_eq!(keys(&result["flash"]), sorted("reads programs partial_programs erases oob_reads busy_us"));
        assert_eq!(keys(&result["by_cause"]), ["data_gc", "host"]);
        assert_eq!(keys(&result["by_cause"]["host"]), sorted("reads oob_reads programs partial_programs erases us"));
        assert_eq!(keys(&result["cache"]), sorted("accesses hits misses hit_ratio writebacks wb_ratio"));
        assert_eq!(keys(&result["merges"]), sorted("switch partial full"));
        assert_eq!(keys(&result["erase_count"]), sorted("mean stdev min max histogram"));
        assert_eq!(keys(&result["erase_count"]["histogram"][0]), sorted("from to blocks"));
        assert_eq!(keys(&result["wear_levelling"]), sorted("copies erases seconds percent_of_cleaning"));
        assert_eq!(
            keys(&result["ecc"]),
            sorted(
                "normal_writes medium_writes low_cost_writes low_cost_write_ratio normal_reads medium_reads \
                 low_cost_reads low_cost_read_ratio low_cost_copy_ratio rewrites read_only_pages write_only_pages \
                 overlapped_pages overlap_ratio window_overlap_ratio"
            )
        );
        let life = "pe_cycles host_bytes drive_writes";
        assert_eq!(keys(&result["lifetime"]), sorted(&format!("retention_hours {life}")));
        let bound = Lifetime { retention_hours: 1.0, known: None, at_least: Some(Life::default()) };
        let json = serde_json::to_value(&bound).unwrap();
        assert_eq!((keys(&json), keys(&json["at_least"])), (sorted("retention_hours at_least"), sorted(life)));
        assert_eq!(serde_json::from_value::<Lifetime>(json).unwrap(), bound);
        assert_eq!(keys(&result["until"]), sorted("iterations host_bytes_written worn_out_blocks"));
        assert_eq!(keys(&result["series"][0]), sorted("seconds requests iops waf free_blocks mean_us p99_us"));
        assert_eq!(keys(&result["repeats"]), sorted("n metrics"));
        assert_eq!(keys(&result["repeats"]["metrics"]["waf"]), sorted("mean half_width_95"));
    }

    #[test]
    fn erase_counts_are_binned() {
        let bins = |counts: &[u64]| {
            let histogram = EraseCount::of(counts).unwrap().histogram;
            histogram.iter().map(|bin| (bin.from, bin.to, bin.blocks)).collect::<Vec<_>>()
        };
        assert_eq!(bins(&[4, 4, 6]), [(4, 4, 2), (5, 5, 0), (6, 6, 1)]);
        assert_eq!(bins(&[7]), [(7, 7, 1)]);
        let counts: Vec<u64> = (10..=110).collect();
        let wide = bins(&counts);
        assert_eq!((wide.len(), wide[0], wide[25]), (26, (10, 13, 4), (110, 110, 1)));
        assert!(bins(&[0, 1 << 40]).len() <= MOST_BINS as usize);
        assert_eq!(EraseCount::of(&[]), None);
    }

    #[test]
    fn what_does_not_apply_is_absent() {
        let json = serde_json::to_value(report(vec![SchemeResult::default()])).unwrap();
        assert_eq!(
            keys(&json["results"][0]),
            sorted("scheme params ended wall_seconds fill_wall_seconds sram_bytes flash by_cause")
        );
    }

    #[test]
    fn a_report_reads_back_exactly() {
        let mut result = full();
        result.waf = Some(0.1 + 0.2);
        result.wall_seconds = 1.0 / 3.0;
        let report = report(vec![result, SchemeResult::default()]);
        assert_eq!(Report::from_json(&serde_json::to_string(&report).unwrap()).unwrap(), report);
    }

    #[test]
    fn other_schemas_and_other_texts_are_refused() {
        let mut other = report(vec![]);
        other.schema = 7;
        let error = Report::from_json(&serde_json::to_string(&other).unwrap()).unwrap_err();
        assert_eq!(error.to_string(), "report has schema 7, this ftlab reads schema 1");
        assert!(Report::from_json("[]").unwrap_err().to_string().starts_with("not an ftlab report"));
    }

    #[test]
    fn causes_partition_the_commands_and_the_time() {
        let result = full();
        assert_eq!(result.flash.busy_us, 1700.0);
        assert_eq!(result.flash.programs, 1);
        assert_eq!(result.flash.erases, 1);
    }

    #[test]
    fn t_pc_is_measured_against_the_nearest_page_mapping() {
        let with = |scheme: &str, spare: u64, mean| SchemeResult {
            scheme: scheme.into(),
            ended: COMPLETE.into(),
            params: Fields::from([("gc".into(), json!(spare))]),
            response_us: Some(latency(mean)),
            ..SchemeResult::default()
        };
        let mut report = report(vec![with("page", 1, 10.0), with("page", 2, 20.0), with("dftl", 2, 25.0)]);
        report.compare_with_page_mapping();
        assert_eq!(report.results[2].t_pc, Some(25.0));
        assert_eq!(report.results[0].t_pc, None);
        // A run that was cut short has responded to other requests than page mapping: neither may it be compared, nor
        // may others be compared with it.
        for halved in [1, 2] {
            report.results[halved].ended = INTERRUPTED.into();
            report.compare_with_page_mapping();
        }
        assert_eq!(report.results[2].t_pc, None);
        report.results[2].ended = COMPLETE.into();
        report.compare_with_page_mapping();
        assert_eq!(report.results[2].t_pc, Some(150.0));
        // A device that did not keep up has no mean response of its own, and is no measure of another's.
        for overloaded in [0, 2] {
            report.results[overloaded].extra.insert(OVERLOADED.into(), true.into());
            report.compare_with_page_mapping();
            assert_eq!(report.results[2].t_pc, None);
            report.results[overloaded].extra.clear();
        }
    }

    #[test]
    fn confidence_follows_student() {
        // Textbook case: 5 samples, mean 10, standard deviation 1.5811, t = 2.776.
        let estimate = Estimate::of(&[8.0, 9.0, 10.0, 11.0, 12.0]);
        assert_eq!(estimate.mean, 10.0);
        assert!((estimate.half_width_95 - 1.963).abs() < 0.001);
        for (freedom, quantile) in [(31, 2.0395), (40, 2.0211), (120, 1.9799)] {
            assert!((student_t_975(freedom) - quantile).abs() < 0.0005, "{freedom}");
        }
        assert_eq!(Estimate::of(&[3.0]), Estimate { mean: 3.0, half_width_95: 0.0 });
        assert!(Estimate::of(&[]).mean.is_nan());
        // Equal samples are exact; their sum is not.
        assert_eq!(Estimate::of(&[0.1; 3]), Estimate { mean: 0.1, half_width_95: 0.0 });
        // The same samples: t = 4.604.
        assert!((estimate.half_width_99(5) - 3.2556).abs() < 0.001);
        for (freedom, quantile) in [(40, 2.7045), (120, 2.6174)] {
            assert!((student_t_995(freedom) - quantile).abs() < 0.0015, "{freedom}");
        }
        assert_eq!(Estimate::of(&[3.0]).half_width_99(1), 0.0);
    }

    #[test]
    fn repeats_keep_only_metrics_of_all_runs() {
        let mut lame = full();
        lame.waf = None;
        let folded = SchemeResult::repeated(vec![full(), lame]).unwrap();
        let repeats = folded.repeats.unwrap();
        assert_eq!(repeats.n, 2);
        assert!(!repeats.metrics.contains_key("waf"));
        assert_eq!(repeats.metrics["war"], Estimate { mean: 1.5, half_width_95: 0.0 });
        assert!(repeats.metrics.contains_key("until.host_bytes_written"));
        assert!(repeats.are_identical());
        let slower = SchemeResult { war: Some(1.6), wall_seconds: 9.0, ..full() };
        assert!(!Repeats::over(&[full(), slower]).are_identical());
        assert!(Repeats::over(&[full(), SchemeResult { wall_seconds: 9.0, ..full() }]).are_identical());
        // A fill that was not steady in any of the runs is told of.
        let mut unsteady = full();
        unsteady.extra.insert(UNSTEADY_ROUNDS.to_owned(), 60.into());
        assert_eq!(SchemeResult::repeated(vec![full(), unsteady]).unwrap().extra[UNSTEADY_ROUNDS], 60);
        assert!(SchemeResult::repeated(vec![SchemeResult::default()]).unwrap().repeats.is_none());
        assert!(SchemeResult::repeated(vec![]).is_none());
    }

    #[test]
    fn ratios_are_finite_or_absent() {
        assert_eq!(ratio(1.0, 4.0), Some(0.25));
        assert_eq!(ratio(1.0, 0.0), None);
        assert_eq!(ratio(0.0, 0.0), None);
    }
}

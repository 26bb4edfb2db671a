//! Twins: synthetic imitations of traces that cannot be passed on.
//!
//! A twin draws one request after the other. First the operation, which tends to repeat the one before. Then one of
//! three classes decides where the request goes:
//!
//! * **continue**: on from the end of one of the last [`LAGS`] requests, so that as many streams run side by side as in
//!   the original; into new pages or over old ones, the former less and less often, as with fresh requests;
//! * **reuse**: to an extent last touched `age` requests ago. The age follows a distribution over octaves that is
//!   fitted per operation, separately for pages last read and pages last written, so that reads of fresh writes and
//!   overwrites of what was just read come out as often as they should. A reuse may *follow* the previous one, that
//!   is, go to the extent that was touched next after it back then: sequences repeat as sequences;
//! * **fresh**: a page never touched, in a region of 1 MiB already in use (popular regions attract more) or anywhere.
//!
//! There is no share of reuse among the parameters: ages are drawn without a limit, and an age before the beginning
//! means a fresh page. A young twin therefore touches mostly new pages and an old one mostly known ones, as traces do.
//!
//! Ages alone make no hot pages: each reuse would draw anew, whatever the page did before. An extent therefore
//! remembers how often it was touched, and a share of reuses (`loyalty`) takes, of the extents about the drawn age, the
//! one that was touched most often.
//!
//! The history is a ring of extents with two bitmaps of those not touched since, last read and last written. Drawing
//! costs a few table look-ups and a short scan of a bitmap, whatever the length. A share of requests arrives together
//! with the one before. The other gaps are two-phase hyperexponential (gamma-like mixtures of fixed and exponential
//! below variation 1); short gaps follow short ones and long ones long ones, so that bursts are as long as they should
//! be.
//!
//! How models are made from traces: [`super::fit`]; the published ones: [`super::published`]; how far off they are:
//! `docs/twins.md`.

use flash::Rng;
use serde::{Deserialize, Serialize};

use super::size::Alias;
use crate::workload::{Intake, Operation, Request, Source, WorkloadError};

/// How many requests back a continuation looks.
pub const LAGS: usize = 32;
/// How far back, of those, a reuse follows another.
pub(super) const FOLLOWS: usize = 8;
/// Granularity of reuse.
pub const PAGE_BYTES: u64 = 4096;
/// Granularity of popularity for fresh pages.
pub const REGION_BYTES: u64 = 1 << 20;
/// Extents remembered; what was touched longer ago counts as fresh. 2^22 extents take 64 MiB.
const HISTORY: u64 = 1 << 22;
/// The largest span of addresses, 4 TiB: when each 4 KiB was touched last takes 4 bytes, hence 4 GiB of memory.
const SPAN_BYTES_MAX: u64 = 4 << 40;
/// Live extents considered on each side of the drawn age in search of one of the drawn size.
const CANDIDATES: usize = 12;
/// The same in search of the one touched most often.
const LOYAL_CANDIDATES: usize = 32;
/// Words of 64 extents scanned on each side before the search gives up.
const WORDS: u64 = 512;

/// How a request relates to those before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// On from the end of a recent request.
    Continue,
    /// To a page touched before.
    Reuse,
    /// To a page never touched.
    Fresh,
}

/// The page whose history decides whether an extent is new: the one in its middle. The first page will not do: where
/// partitions begin at sector 63, each request of a run shares its first page with the request before.
pub(super) fn key_page(offset: u64, bytes: u64) -> u64 {
    (offset + bytes / 2) / PAGE_BYTES
}

/// Reuse has a size table per so many octaves of age: what is soon touched again is smaller than what is not.
const AGE_GROUP_OCTAVES: u32 = 4;
/// Size tables of reuse; the last is for all older ages.
pub(super) const AGE_GROUPS: usize = 5;
/// Size tables per operation.
pub(super) const SIZE_TABLES: usize = 2 + AGE_GROUPS;

/// The group of an age in requests.
pub(super) fn age_group(age: u64) -> usize {
    ((age.max(1).ilog2() / AGE_GROUP_OCTAVES) as usize).min(AGE_GROUPS - 1)
}

impl Class {
    /// Which size table applies; `age` in requests matters for reuse only.
    pub(super) fn size_table(self, age: u64) -> usize {
        match self {
            Class::Continue => 0,
            Class::Fresh => 1,
            Class::Reuse => 2 + age_group(age),
        }
    }
}

/// A size and its share.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SizeShare {
    /// Bytes.
    pub bytes: u64,
    /// Share or weight; they need not add up to exactly 1.
    pub share: f64,
}

/// The parameters of one operation.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Side {
    /// Size distributions: of continuations, of fresh requests, and of reuses after up to 15, 255, 4095, 65,535
    /// requests and beyond. The last given stands for the rest, so one is enough.
    pub sizes: Vec<Vec<SizeShare>>,
    /// Share of requests that begin where one of the last [`LAGS`] requests ended.
    pub continues: f64,
    /// How often a continuation goes to new pages, as a multiple of how often a request that is no continuation does.
    pub continues_new: f64,
    /// Weight of continuing the last, the last but one, … request.
    pub lags: Vec<f64>,
    /// Probability that, after a reuse, the next request that is no continuation follows it; by the age of that reuse,
    /// in the groups of `sizes`.
    pub follows: Vec<f64>,
    /// Cumulative hazard of reuse over the ages `2^i..2^(i+1)` requests, of pages last `[read, written]`.
    pub reuse: Vec<[f64; 2]>,
    /// The same for each octave beyond.
    pub reuse_tail: [f64; 2],
    /// Share of fresh requests that go to a region (1 MiB) in use.
    pub near: f64,
    /// Weights of offsets that are multiples of exactly 512, 1024 and 2048, and of 4096 bytes.
    pub alignment: Vec<f64>,
}

/// All parameters of a twin. Serialisable; made by [`fit`](super::fit()) or taken from the published ones.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TwinModel {
    /// Requests lie within the first so many bytes.
    pub span_bytes: u64,
    /// Share of reads.
    pub reads: f64,
    /// Probability that an operation repeats the one before instead of being drawn anew.
    pub persistence: f64,
    /// Reads.
    pub read: Side,
    /// Writes.
    pub write: Side,
    /// Mean gap between arrivals, nanoseconds; 0: no times.
    pub gap_ns_mean: f64,
    /// Squared coefficient of variation of the gaps that are not 0.
    pub gap_variation_squared: f64,
    /// Share of requests that arrive together with the one before.
    pub simultaneous: f64,
    /// Probability that a gap is of the phase (short or long) of the gap before instead of being drawn anew.
    pub gap_persistence: f64,
    /// Share of reuses that take, of the extents about the drawn age, the one touched most often.
    pub loyalty: f64,
    /// A continuation goes on from the request immediately before, whatever its operation, rather than from one of the
    /// same operation. Set where only a strict sequential share is published.
    #[serde(default)]
    pub sequential_strict: bool,
}

/// The share of short gaps if the squared variation of gaps is `square`, above 1.
pub(super) fn short_gaps(square: f64) -> f64 {
    0.5 * (1.0 + ((square - 1.0) / (square + 1.0)).sqrt())
}

fn weight(sizes: &[SizeShare]) -> f64 {
    sizes.iter().map(|s| s.share).sum()
}

impl Side {
    /// The mean size if all classes are drawn equally often, in bytes; exact if there is only one size distribution.
    pub fn bytes_mean(&self) -> f64 {
        let mean = |sizes: &Vec<SizeShare>| sizes.iter().map(|s| s.bytes as f64 * s.share).sum::<f64>() / weight(sizes);
        self.sizes.iter().map(mean).sum::<f64>() / self.sizes.len() as f64
    }

    /// The probability that a request that is no continuation is for a page not touched within `age` requests.
    pub(super) fn survival(&self, age: f64) -> f64 {
        let octaves = age.max(1.0).log2().min(f64::from(HISTORY.ilog2()));
        let hazard = |octave: usize| self.reuse.get(octave).unwrap_or(&self.reuse_tail).iter().sum::<f64>();
        let whole = octaves as usize;
        let sum: f64 = (0..whole).map(hazard).sum::<f64>() + octaves.fract() * hazard(whole);
        (-sum).exp()
    }

    /// The probability that a continuation after `age` requests goes to new pages.
    pub(super) fn continues_to_new(&self, age: f64) -> f64 {
        (self.continues_new * self.survival(age)).min(1.0)
    }

    /// Replaces the size distributions by one of mean `bytes`: their average, with the shares multiplied by a power of
    /// the size (the smallest change, in relative entropy, that shifts the mean logarithm), so that the modes stay
    /// where they are. If no size reaches four times the mean, doublings of the largest are added,
    /// and if none is below half the mean, halvings of the smallest.
    ///
    /// # Panics
    /// If the mean is below a sector.
    pub fn set_mean_bytes(&mut self, bytes: f64) {
        let mut pool = std::collections::BTreeMap::new();
        for sizes in &self.sizes {
            for size in sizes {
                *pool.entry(size.bytes).or_insert(0.0) += size.share / weight(sizes);
            }
        }
        // A mean near or below the smallest size needs smaller ones, down to a sector.
        while let Some((&smallest, &share)) = pool.first_key_value() {
            if smallest as f64 <= bytes / 2.0 || smallest < 1024 {
                break;
            }
            pool.insert((smallest / 2).next_multiple_of(512), share / 2.0);
        }
        // A mean near or beyond the largest size needs larger ones: doublings, each half as frequent.
        while let Some((&largest, &share)) = pool.last_key_value() {
            if largest as f64 >= 4.0 * bytes {
                break;
            }
            pool.insert(2 * largest, share / 2.0);
        }
        let tilted = |power: f64| -> Vec<SizeShare> {
            let share = |(&bytes, &share): (&u64, &f64)| SizeShare {
                bytes,
                share: share * (bytes as f64 / 4096.0).powf(power),
            };
            let mut sizes: Vec<_> = pool.iter().map(share).collect();
            let total = weight(&sizes);
            sizes.iter_mut().for_each(|s| s.share /= total);
            sizes
        };
        let (mut low, mut high) = (-16.0, 16.0);
        for _ in 0..100 {
            let middle = (low + high) / 2.0;
            self.sizes = vec![tilted(middle)];
            if self.bytes_mean() < bytes { low = middle } else { high = middle }
        }
        assert!((self.bytes_mean() / bytes - 1.0).abs() < 1e-3, "a mean of {bytes} bytes is out of reach");
    }
}

impl TwinModel {
    /// Pages that `requests` requests touch, expected, if new pages never ran out.
    fn pages_touched(&self, requests: f64) -> f64 {
        let pages = |side: &Side| {
            // Octave by octave: the middle of each stands for it.
            let (mut from, mut new) = (0.0, 0.0);
            while from < requests {
                let to = (2.0 * from).max(1.0).min(requests);
                let at = (from + to) / 2.0;
                let share = side.continues * side.continues_to_new(at) + (1.0 - side.continues) * side.survival(at);
                new += (to - from) * share;
                from = to;
            }
            new * (side.bytes_mean() / PAGE_BYTES as f64).max(1.0)
        };
        self.reads * pages(&self.read) + (1.0 - self.reads) * pages(&self.write)
    }

    /// Bounds the rate of first touches over `requests` requests by the room there is: raises the hazards of reuse at
    /// ages that the fit has not seen until the pages touched fit into the span. A model for which they fit stays as it
    /// is.
    pub fn bound_first_touches(&mut self, requests: u64) {
        let room = (self.span_bytes / PAGE_BYTES) as f64;
        let bounded = |model: &TwinModel, factor: f64| {
            let mut model = model.clone();
            for side in [&mut model.read, &mut model.write] {
                // Where nothing was reused late, all that is known of late reuse is that there must be some.
                side.reuse_tail = side.reuse_tail.map(|hazard| hazard.max(1e-3) * factor);
            }
            model
        };
        if self.pages_touched(requests as f64) <= room {
            return;
        }
        let (mut low, mut high) = (0.0f64, 14.0);
        for _ in 0..60 {
            let middle = (low + high) / 2.0;
            let fits = bounded(self, middle.exp2()).pages_touched(requests as f64) <= room;
            if fits { high = middle } else { low = middle }
        }
        *self = bounded(self, high.exp2());
    }

    /// Whether the model can be drawn from: what is wrong, if not.
    ///
    /// # Errors
    /// Shares outside 0 to 1, empty or negative distributions, a span smaller than the largest request or too large for
    /// what a twin remembers of it.
    pub fn check(&self) -> Result<(), WorkloadError> {
        let fail = |what: String| Err(WorkloadError { origin: "twin".to_owned(), line: 0, what, fix: String::new() });
        if self.span_bytes > SPAN_BYTES_MAX {
            let what = format!(
                "the addresses span {} bytes, and {SPAN_BYTES_MAX} are the most: a twin takes 4 bytes of memory for \
                 each 4 KiB",
                self.span_bytes
            );
            let fix = "leave the requests to far addresses out, or move them nearer".to_owned();
            return Err(WorkloadError { origin: "twin".to_owned(), line: 0, what, fix });
        }
        let shares = [
            ("reads", self.reads),
            ("persistence", self.persistence),
            ("gap persistence", self.gap_persistence),
            ("loyalty", self.loyalty),
        ];
        let sides = [("read", &self.read), ("write", &self.write)];
        let side_shares = sides.iter().flat_map(|(_, side)| [("continues", side.continues), ("near", side.near)]);
        for (name, share) in shares.into_iter().chain(side_shares) {
            if !(0.0..=1.0).contains(&share) {
                return fail(format!("{name}: {share} is not a share"));
            }
        }
        let usable = |x: &f64| x.is_finite() && *x >= 0.0;
        if !usable(&self.gap_ns_mean) || !usable(&self.gap_variation_squared) {
            return fail("the gaps need a finite mean and variation".to_owned());
        }
        if !(0.0..1.0).contains(&self.simultaneous) {
            return fail(format!("simultaneous: {} is not a share below 1", self.simultaneous));
        }
        for (name, side) in sides {
            for sizes in &side.sizes {
                if !sizes.iter().all(|s| usable(&s.share) && s.bytes > 0) || weight(sizes) <= 0.0 {
                    return fail(format!("{name}: sizes need positive bytes and shares"));
                }
                if sizes.iter().any(|s| s.bytes > self.span_bytes) {
                    return fail(format!("{name}: a size exceeds the span of {} bytes", self.span_bytes));
                }
            }
            if !(1..=SIZE_TABLES).contains(&side.sizes.len()) || side.follows.len() != AGE_GROUPS {
                return fail(format!("{name}: 1 to {SIZE_TABLES} size distributions, {AGE_GROUPS} follows"));
            }
            if !side.follows.iter().all(|p| (0.0..=1.0).contains(p)) {
                return fail(format!("{name}: follows are shares"));
            }
            if side.lags.len() > LAGS || side.alignment.len() != 4 || side.reuse.len() > 40 {
                return fail(format!("{name}: at most {LAGS} lags, exactly 4 alignments, at most 40 octaves"));
            }
            let mut numbers =
                side.lags.iter().chain(&side.alignment).chain(&side.reuse_tail).chain([&side.continues_new]);
            if !numbers.all(usable) || !side.reuse.iter().flatten().all(usable) {
                return fail(format!("{name}: weights and hazards are at least 0"));
            }
        }
        Ok(())
    }
}

/// Tables drawn from, per operation.
struct Tables {
    sizes: Vec<(Alias, Vec<u64>)>,
    continues: f64,
    /// The probability that a continuation goes to new pages, per octave of requests so far.
    continues_new: Vec<f64>,
    lags: Alias,
    follows: Vec<f64>,
    /// Columns: age octave times two plus last touch; the last column is "never".
    ages: Alias,
    octaves: usize,
    near: f64,
    alignment: Alias,
}

fn alias_or_last(weights: &[f64], length: usize) -> Alias {
    let mut weights = weights.to_vec();
    weights.resize(length, 0.0);
    if weights.iter().sum::<f64>() <= 0.0 {
        // Nothing was seen: the nearest lag, the finest alignment that flash pages have.
        let place = if length == 4 { 3 } else { 0 };
        weights[place] = 1.0;
    }
    Alias::new(&weights)
}

impl Tables {
    fn new(side: &Side) -> Tables {
        let sizes = |sizes: &Vec<SizeShare>| {
            let weights: Vec<f64> = sizes.iter().map(|s| s.share).collect();
            (Alias::new(&weights), sizes.iter().map(|s| s.bytes).collect())
        };
        let octaves = HISTORY.ilog2() as usize;
        let (mut survival, mut cells) = (1.0f64, Vec::new());
        for octave in 0..octaves {
            let hazard = side.reuse.get(octave).unwrap_or(&side.reuse_tail);
            let total = hazard[0] + hazard[1];
            let reused = survival * (1.0 - (-total).exp());
            cells.extend(hazard.map(|h| if total > 0.0 { reused * h / total } else { 0.0 }));
            survival -= reused;
        }
        cells.push(survival.max(0.0));
        Tables {
            sizes: side.sizes.iter().map(sizes).collect(),
            continues: side.continues,
            continues_new: (0..=octaves).map(|octave| side.continues_to_new((octave as f64 + 0.5).exp2())).collect(),
            lags: alias_or_last(&side.lags, LAGS),
            follows: side.follows.clone(),
            ages: Alias::new(&cells),
            octaves,
            near: side.near,
            alignment: alias_or_last(&side.alignment, 4),
        }
    }

    fn size(&self, class: Class, age: u64, rng: &mut Rng) -> u64 {
        let (alias, bytes) = &self.sizes[class.size_table(age).min(self.sizes.len() - 1)];
        bytes[alias.draw(rng)]
    }
}

#[derive(Clone, Copy, Default)]
struct Extent {
    offset: u64,
    bytes: u64,
    /// How often it was touched before.
    touches: u32,
}

impl Extent {
    fn new(offset: u64, bytes: u64) -> Extent {
        Extent { offset, bytes, touches: 0 }
    }

    /// Once more than `old`, perhaps another part of it.
    fn again(offset: u64, bytes: u64, old: Extent) -> Extent {
        Extent { offset, bytes, touches: old.touches + 1 }
    }
}

/// The last extents in order of time, and which of them are still the latest touch of their pages.
struct History {
    extents: Vec<Extent>,
    /// Per last touch (read, written): one bit per slot.
    live: [Vec<u64>; 2],
    length: u64,
}

impl History {
    fn new() -> History {
        History { extents: Vec::new(), live: [Vec::new(), Vec::new()], length: 0 }
    }

    fn oldest(&self) -> u64 {
        self.length.saturating_sub(HISTORY)
    }

    fn at(&self, position: u64) -> Extent {
        self.extents[(position % HISTORY) as usize]
    }

    fn push(&mut self, extent: Extent, write: bool) {
        let slot = self.length % HISTORY;
        let (word, bit) = ((slot / 64) as usize, 1 << (slot % 64));
        if self.length < HISTORY {
            self.extents.push(extent);
        } else {
            self.extents[slot as usize] = extent;
        }
        for live in &mut self.live {
            if live.len() <= word {
                live.push(0);
            }
            live[word] &= !bit;
        }
        self.live[usize::from(write)][word] |= bit;
        self.length += 1;
    }

    fn is_live(&self, position: u64, write: bool) -> bool {
        let slot = position % HISTORY;
        self.live[usize::from(write)][(slot / 64) as usize] >> (slot % 64) & 1 == 1
    }

    fn retire(&mut self, position: u64) {
        let slot = position % HISTORY;
        for live in &mut self.live {
            live[(slot / 64) as usize] &= !(1 << (slot % 64));
        }
    }

    /// The live position at or before `position` (down) or at or after it, within [`WORDS`] words.
    fn next_live(&self, write: bool, position: u64, down: bool) -> Option<u64> {
        let live = &self.live[usize::from(write)];
        let mut at = position;
        for _ in 0..WORDS {
            let slot = at % HISTORY;
            let word = live[(slot / 64) as usize];
            let bit = slot % 64;
            let masked = if down { word << (63 - bit) } else { word >> bit };
            if masked != 0 {
                let found = if down {
                    at.checked_sub(u64::from(masked.leading_zeros()))?
                } else {
                    at + u64::from(masked.trailing_zeros())
                };
                return (found >= self.oldest() && found < self.length).then_some(found);
            }
            at = if down { at.checked_sub(bit + 1)? } else { at + (64 - bit) };
            if at < self.oldest() || at >= self.length {
                return None;
            }
        }
        None
    }

    /// The live position nearest to `target` whose extent has `bytes`; failing that, the nearest. `loyal`: of those
    /// about the target the one touched most often.
    fn nearest(&self, write: bool, target: u64, bytes: u64, loyal: bool) -> Option<u64> {
        let mut best: Option<((u32, bool, u64), u64)> = None;
        let candidates = if loyal { LOYAL_CANDIDATES } else { CANDIDATES };
        for down in [true, false] {
            let mut from = if down { Some(target) } else { Some(target + 1) };
            for _ in 0..candidates {
                let Some(position) = from.filter(|&p| p < self.length) else { break };
                let Some(position) = self.next_live(write, position, down) else { break };
                let extent = self.at(position);
                let coldness = if loyal { u32::MAX - extent.touches } else { 0 };
                let rank = (coldness, extent.bytes != bytes, position.abs_diff(target));
                if best.is_none_or(|(least, _)| rank < least) {
                    best = Some((rank, position));
                }
                if !loyal && !rank.1 {
                    break;
                }
                from = if down { position.checked_sub(1) } else { Some(position + 1) };
            }
        }
        best.map(|(_, position)| position)
    }
}

/// A source that draws from a [`TwinModel`].
pub struct Twin {
    tables: [Tables; 2],
    span_bytes: u64,
    reads: f64,
    persistence: f64,
    remaining: u64,
    rng: Rng,
    size_rng: Rng,
    arrival_rng: Rng,
    previous: Option<bool>,
    /// Where the last requests ended, the latest first; `None` where another has gone on.
    ends: [Option<u64>; LAGS],
    /// Position and kind of last touch of what the latest request reused, if it was a reuse.
    last_source: [Option<(u64, bool)>; 2],
    /// Where the latest reuse ended.
    reused_end: [u64; 2],
    history: History,
    /// For each page one more than the request that touched it last, modulo 2^32; 0 for a page never touched.
    latest: Vec<u32>,
    loyalty: f64,
    gap_ns_mean: f64,
    gap_variation_squared: f64,
    simultaneous: f64,
    gap_persistence: f64,
    /// Whether the latest gap was a short one.
    short_gap: Option<bool>,
    now_ns: f64,
    /// Where the request before ended, if continuations are strict.
    strict_end: Option<Option<u64>>,
    intake: Intake,
}

impl Twin {
    /// `requests` requests of `model`, determined by `seed`.
    ///
    /// # Errors
    /// A model that fails [`TwinModel::check`].
    pub fn new(model: &TwinModel, requests: u64, seed: u64) -> Result<Twin, WorkloadError> {
        model.check()?;
        let rng = Rng::new(seed);
        Ok(Twin {
            tables: [Tables::new(&model.read), Tables::new(&model.write)],
            span_bytes: model.span_bytes,
            reads: model.reads,
            persistence: model.persistence,
            remaining: requests,
            rng: rng.fork("twin place"),
            size_rng: rng.fork("twin size"),
            arrival_rng: rng.fork("twin arrival"),
            previous: None,
            ends: [None; LAGS],
            last_source: [None; 2],
            reused_end: [0; 2],
            history: History::new(),
            latest: vec![0; (model.span_bytes / PAGE_BYTES + 1) as usize],
            loyalty: model.loyalty,
            gap_ns_mean: model.gap_ns_mean,
            gap_variation_squared: model.gap_variation_squared,
            simultaneous: model.simultaneous,
            gap_persistence: model.gap_persistence,
            short_gap: None,
            now_ns: 0.0,
            strict_end: model.sequential_strict.then_some(None),
            intake: Intake::default(),
        })
    }

    /// All of its requests at once.
    pub fn collect(mut self) -> Vec<Request> {
        (0..self.remaining).map(|_| self.request()).collect()
    }

    fn is_new(&self, extent: Extent) -> bool {
        self.latest[key_page(extent.offset, extent.bytes) as usize] == 0
    }

    /// Which request touched a page last, if it is remembered.
    fn toucher(&self, page: u64) -> Option<u64> {
        let next = self.history.length + 1;
        // Requests since, modulo 2^32; the history is shorter than that.
        let age = u64::from((next as u32).wrapping_sub(self.latest[page as usize]));
        (self.latest[page as usize] != 0 && age <= HISTORY.min(self.history.length)).then(|| next - age - 1)
    }

    fn next_gap_ns(&mut self) -> f64 {
        let square = self.gap_variation_squared;
        let rng = &mut self.arrival_rng;
        if rng.chance(self.simultaneous) {
            return 0.0;
        }
        let mean = self.gap_ns_mean / (1.0 - self.simultaneous);
        if square <= 1.0 {
            // A fixed part and an exponential part whose deviation is the whole deviation.
            let exponential = square.sqrt();
            return mean * (1.0 - exponential - exponential * (1.0 - rng.unit()).ln());
        }
        // Two phases of equal total time ("balanced means"): a short one with probability p, a long one else.
        let p = short_gaps(square);
        let short = match self.short_gap {
            Some(short) if rng.chance(self.gap_persistence) => short,
            _ => rng.chance(p),
        };
        self.short_gap = Some(short);
        let phase = if short { p } else { 1.0 - p };
        -(1.0 - rng.unit()).ln() * mean / (2.0 * phase)
    }

    /// So many gaps, for fitting.
    pub(super) fn gaps_ns(&mut self, count: usize) -> Vec<f64> {
        (0..count).map(|_| self.next_gap_ns()).collect()
    }

    /// A continuation of a recent request; `None` if none can go on into pages of the kind that is called for, and
    /// whether that was new pages.
    fn continuation(&mut self, side: usize) -> Result<Extent, bool> {
        let tables = &self.tables[side];
        let bytes = tables.size(Class::Continue, 0, &mut self.size_rng);
        if let Some(end) = self.strict_end {
            let end = end.filter(|end| end + bytes <= self.span_bytes);
            return end.map(|offset| self.extent(offset, bytes)).ok_or(true);
        }
        let octave = (self.history.length.max(1).ilog2() as usize).min(tables.continues_new.len() - 1);
        let new = self.rng.chance(tables.continues_new[octave]);
        let drawn = tables.lags.draw(&mut self.rng);
        // The drawn run if it can go on so, else the next older that can.
        for lag in (drawn..LAGS).chain(0..drawn) {
            let Some(offset) = self.ends[lag].filter(|end| end + bytes <= self.span_bytes) else { continue };
            // Within the page that the run ended in, it goes on either way.
            let same = key_page(offset, bytes) == (offset - 1) / PAGE_BYTES;
            if same || self.is_new(Extent::new(offset, bytes)) == new {
                self.ends[lag] = None;
                return Ok(self.extent(offset, bytes));
            }
        }
        Err(new)
    }

    /// An extent at a place that no age was drawn for.
    fn extent(&self, offset: u64, bytes: u64) -> Extent {
        match self.toucher(key_page(offset, bytes)) {
            Some(position) => Extent::again(offset, bytes, self.history.at(position)),
            None => Extent::new(offset, bytes),
        }
    }

    /// The extent touched next after the source of the previous reuse.
    fn follow(&mut self, side: usize) -> Option<Extent> {
        let (source, written) = self.last_source[side]?;
        let group = age_group(self.history.length - source);
        if !self.rng.chance(self.tables[side].follows[group]) {
            return None;
        }
        let mut candidates = source + 1..(source + 1 + FOLLOWS as u64).min(self.history.length);
        let live = |&p: &u64| p >= self.history.oldest() && self.history.is_live(p, written);
        let position = candidates.find(live)?;
        let extent = self.history.at(position);
        self.history.retire(position);
        self.last_source[side] = Some((position, written));
        // A fresh draw of the size: copying it would let a few hot extents pull the mean size anywhere. Where the
        // extents lay end to end they still do.
        let bytes = self.tables[side].size(Class::Reuse, self.history.length - position, &mut self.size_rng);
        let source = self.history.at(source);
        let adjacent = source.offset + source.bytes == extent.offset;
        let offset = if adjacent { self.reused_end[side] } else { extent.offset };
        let extent = Extent::again(offset.min(self.span_bytes - bytes), bytes, extent);
        self.reused_end[side] = extent.offset + extent.bytes;
        Some(extent)
    }

    /// An extent touched a drawn number of requests ago, or `None` if that is before the beginning.
    fn reuse(&mut self, side: usize) -> Option<Extent> {
        let tables = &self.tables[side];
        let cell = tables.ages.draw(&mut self.rng);
        if cell == 2 * tables.octaves {
            return None;
        }
        let age = ((cell / 2) as f64 + self.rng.unit()).exp2() as u64;
        let target = self.history.length.checked_sub(age).filter(|&t| t >= self.history.oldest())?;
        let bytes = tables.size(Class::Reuse, age, &mut self.size_rng);
        let written = cell % 2 == 1;
        let loyal = self.rng.chance(self.loyalty);
        let position = self.history.nearest(written, target, bytes, loyal)?;
        let old = self.history.at(position);
        self.last_source[side] = Some((position, written));
        if old.bytes >= 2 * bytes && old.bytes > PAGE_BYTES {
            // A part of a large extent; the rest keeps its age.
            let step = PAGE_BYTES.min(bytes.next_power_of_two());
            let offset = old.offset + self.rng.below((old.bytes - bytes) / step + 1) * step;
            self.reused_end[side] = offset + bytes;
            return Some(Extent::again(offset, bytes, old));
        }
        self.history.retire(position);
        let offset = old.offset.min(self.span_bytes - bytes);
        self.reused_end[side] = offset + bytes;
        Some(Extent::again(offset, bytes, old))
    }

    /// A page never touched, or any if none is found.
    fn fresh(&mut self, side: usize) -> Extent {
        self.last_source[side] = None;
        let bytes = self.tables[side].size(Class::Fresh, 0, &mut self.size_rng);
        let near = self.history.length > 0 && self.rng.chance(self.tables[side].near);
        let exponent = 9 + self.tables[side].alignment.draw(&mut self.rng) as u32;
        let room = self.span_bytes - bytes;
        let mut offset = 0;
        for attempt in 0..16 {
            offset = if near && attempt < 12 {
                let remembered = self.history.length - self.history.oldest();
                let popular = self.history.at(self.history.length - 1 - self.rng.below(remembered)).offset;
                popular / REGION_BYTES * REGION_BYTES + self.rng.below(REGION_BYTES)
            } else {
                self.rng.below(room + 1)
            };
            // An offset that is a multiple of exactly this power, of 4096 or more if that is the class.
            let unit = 1u64 << exponent;
            offset = offset / unit * unit;
            if exponent < 12 {
                offset |= unit;
            }
            offset = offset.min(room / 512 * 512);
            if self.is_new(Extent::new(offset, bytes)) {
                break;
            }
        }
        self.extent(offset, bytes)
    }

    fn request(&mut self) -> Request {
        let write = match self.previous {
            Some(previous) if self.rng.chance(self.persistence) => previous,
            _ => !self.rng.chance(self.reads),
        };
        self.previous = Some(write);
        let side = usize::from(write);
        let continued = match self.rng.chance(self.tables[side].continues) {
            true => self.continuation(side),
            false => Err(false),
        };
        let extent = match continued {
            Ok(extent) => extent,
            Err(true) => self.fresh(side),
            Err(false) => self.follow(side).or_else(|| self.reuse(side)).unwrap_or_else(|| self.fresh(side)),
        };
        self.ends.rotate_right(1);
        self.ends[0] = Some(extent.offset + extent.bytes);
        if let Some(end) = &mut self.strict_end {
            *end = Some(extent.offset + extent.bytes);
        }
        for page in extent.offset / PAGE_BYTES..=(extent.offset + extent.bytes - 1) / PAGE_BYTES {
            // What was touched here before is superseded if this covers its middle.
            if let Some(position) = self.toucher(page) {
                let old = self.history.at(position);
                if key_page(old.offset, old.bytes) == page {
                    self.history.retire(position);
                }
            }
            let number = (self.history.length + 1) as u32;
            self.latest[page as usize] = if number == 0 { 1 } else { number };
        }
        self.history.push(extent, write);
        let arrival_ns = self.now_ns as u64;
        if self.gap_ns_mean > 0.0 {
            self.now_ns += self.next_gap_ns();
        }
        let operation = if write { Operation::Write } else { Operation::Read };
        Request { arrival_ns, offset: extent.offset, bytes: extent.bytes, volume: 0, operation }
    }
}

impl Source for Twin {
    fn fill(&mut self, batch: &mut Vec<Request>, limit: usize) -> Result<(), WorkloadError> {
        let count = self.remaining.min(limit as u64);
        batch.extend((0..count).map(|_| self.request()));
        self.remaining -= count;
        self.intake.requests += count;
        Ok(())
    }

    fn intake(&self) -> &Intake {
        &self.intake
    }

    fn timed(&self) -> bool {
        self.gap_ns_mean > 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::super::validate::compare;
    use super::super::{Context, fit, fit_merged, generate};
    use super::*;

    fn original(spec: &str) -> Vec<Request> {
        let mut source = generate(spec, &Context { capacity_bytes: 1 << 30, seed: 5 }).unwrap();
        let mut requests = Vec::new();
        source.fill(&mut requests, usize::MAX).unwrap();
        requests
    }

    #[test]
    fn a_twin_of_a_prefix_predicts_a_stationary_workload() {
        let real = original("zipf:requests=100k,theta=0.9,reads=0.3,arrival=poisson");
        let model = fit(&real[..10_000]).unwrap();
        let twin = Twin::new(&model, 100_000, 1).unwrap().collect();
        let validation = compare(&real, &twin, PAGE_BYTES);
        assert!(validation.hit_ratio_error() < 0.1, "{validation}");
        assert!((validation.footprint_ratio() - 1.0).abs() < 0.35, "{validation}");
        assert!((validation.real.reads - validation.twin.reads).abs() < 0.02, "{validation}");
        assert!((validation.twin.gap_ns_mean / 1e6 - 1.0).abs() < 0.05, "{validation}");
    }

    #[test]
    fn runs_stay_runs() {
        let real = original("sequential:requests=50k,size=16KiB");
        let twin = Twin::new(&fit(&real[..10_000]).unwrap(), 10_000, 1).unwrap().collect();
        let validation = compare(&real[..10_000], &twin, PAGE_BYTES);
        assert!(validation.twin.sequential > 0.95, "{validation}");
        assert!(validation.hit_ratio_error() < 0.01, "{validation}");
    }

    /// Six streams side by side over a hot set and a cold one, in bursts of three, ten seconds busy and ten idle.
    fn busy() -> Vec<Request> {
        let mut rng = Rng::new(4);
        let mut ends = [0_u64; 6];
        let request = |index: u64| {
            let stream = rng.below(6) as usize;
            let offset = match rng.below(10) {
                0..=4 => {
                    ends[stream] += 8192;
                    ((stream as u64) << 26) + ends[stream] - 8192
                }
                5..=7 => (1 << 30) + rng.below(20) * 65_536,
                _ => (1 << 30) + (20 + rng.below(2000)) * 65_536,
            };
            // 300 bursts of three in each busy phase.
            let (phase, place) = (index / 900, index % 900);
            let arrival_ns = phase * 20_000_000_000 + place / 3 * 33_000_000;
            Request { arrival_ns, offset, bytes: 8192, volume: 0, operation: Operation::Write }
        };
        (0..20_000).map(request).collect()
    }

    #[test]
    fn streams_hot_pages_and_bursts_are_met() {
        let real = busy();
        let twin = Twin::new(&fit(&real).unwrap(), real.len() as u64, 1).unwrap().collect();
        let validation = compare(&real, &twin, PAGE_BYTES);
        let (real, twin) = (&validation.real, &validation.twin);
        for (real, twin) in real.continuing.iter().zip(twin.continuing) {
            assert!((real - twin).abs() < 0.08, "{validation}");
        }
        assert!((real.sequential - twin.sequential).abs() < 0.05, "{validation}");
        for (real, twin) in real.hottest.iter().zip(twin.hottest) {
            assert!((real - twin).abs() < 0.08, "{validation}");
        }
        assert!((real.simultaneous - twin.simultaneous).abs() < 0.02, "{validation}");
        assert!((0.5..2.0).contains(&(twin.dispersion / real.dispersion)), "{validation}");
        for (real, twin) in real.first_touches.iter().zip(twin.first_touches) {
            assert!((real - twin).abs() < 0.1, "{validation}");
        }
    }

    #[test]
    fn models_survive_as_text_and_seeds_decide() {
        let real = original("hotcold:requests=5k,reads=0.5,size=4KiB*0.5+32KiB*0.5");
        for model in [fit(&real).unwrap(), fit_merged(&real).unwrap()] {
            let text = serde_json::to_string(&model).unwrap();
            assert_eq!(serde_json::from_str::<TwinModel>(&text).unwrap(), model);
            assert!(serde_json::from_str::<TwinModel>(&text.replacen("reads", "raeds", 1)).is_err());
            let draw = |seed| Twin::new(&model, 5000, seed).unwrap().collect();
            assert_eq!(draw(1), draw(1));
            assert_ne!(draw(1), draw(2));
        }
    }

    #[test]
    fn impossible_models_are_refused() {
        let model = fit(&original("uniform:requests=1k")).unwrap();
        let broken = |change: fn(&mut TwinModel)| {
            let mut model = model.clone();
            change(&mut model);
            assert!(Twin::new(&model, 1, 1).is_err());
        };
        broken(|m| m.reads = 1.5);
        broken(|m| m.span_bytes = 512);
        // The memory for it was asked for, and the program aborted.
        broken(|m| m.span_bytes = 1 << 46);
        broken(|m| m.write.sizes.clear());
        broken(|m| m.write.sizes[0][0].bytes = 0);
        broken(|m| m.read.near = f64::NAN);
        broken(|m| m.read.follows = vec![2.0; 5]);
        broken(|m| m.gap_ns_mean = f64::INFINITY);
        broken(|m| m.simultaneous = 1.0);
        broken(|m| m.loyalty = -0.5);
        broken(|m| m.gap_persistence = 1.5);
        broken(|m| m.write.continues_new = f64::NAN);
        assert!(fit(&original("uniform:requests=99")).is_err());
        let mut far = original("uniform:requests=1k,arrival=bursts,burst=10");
        far[500].offset = 1 << 46;
        assert!(fit(&far).unwrap_err().what.contains("4398046511104 are the most"));
    }

    #[test]
    fn means_can_be_set() {
        let mut side = fit_merged(&original("uniform:requests=1k,size=4KiB*0.5+32KiB*0.5")).unwrap().write;
        for bytes in [700.0, 5000.0, 20_000.0, 100_000.0] {
            side.set_mean_bytes(bytes);
            assert!((side.bytes_mean() / bytes - 1.0).abs() < 1e-3);
        }
    }

    #[test]
    fn the_nearest_live_extent_of_the_size_is_found() {
        let mut history = History::new();
        for i in 0..200 {
            let bytes = if i % 10 == 0 { 8 } else { 4 };
            history.push(Extent { offset: i, bytes, touches: (i / 50) as u32 }, i % 2 == 0);
        }
        assert_eq!(history.nearest(true, 101, 8, false), Some(100));
        assert_eq!(history.nearest(false, 101, 4, false), Some(101));
        history.retire(100);
        assert_eq!(history.nearest(true, 101, 8, false), Some(110), "9 after beats 11 before");
        assert_eq!(history.nearest(false, 101, 64, false), Some(101), "no such size: the nearest");
        assert_eq!(history.nearest(false, 101, 4, true), Some(151), "touched most often, and in reach");
        for i in 0..200 {
            history.retire(i);
        }
        assert_eq!(history.nearest(true, 101, 8, false), None);
    }
}

//! Twins: synthetic imitations of traces that cannot be passed on.
//!
//! A twin draws one request after the other. First the operation, which tends to repeat the one before. Then one of
//! three classes decides where the request goes:
//!
//! * **continue**: on from the end of one of the last [`LAGS`] requests of its operation to new pages, into new pages;
//! * **reuse**: to an extent last touched `age` requests ago. The age follows a distribution over octaves that is
//!   fitted per operation, separately for pages last read and pages last written, so that reads of fresh writes and
//!   overwrites of what was just read come out as often as they should. A reuse may *follow* the previous one, that
//!   is, go to the extent that was touched next after it back then: sequences repeat as sequences;
//! * **fresh**: a page never touched, in a region of 1 MiB already in use (popular regions attract more) or anywhere.
//!
//! There is no share of reuse among the parameters: ages are drawn without a limit, and an age before the beginning
//! means a fresh page. A young twin therefore touches mostly new pages and an old one mostly known ones, as traces do.
//!
//! The history is a ring of extents with two bitmaps of those not touched since, last read and last written. Drawing
//! costs a few table look-ups and a short scan of a bitmap, whatever the length. Gaps between arrivals are
//! two-phase hyperexponential (gamma-like mixtures of fixed and exponential below variation 1), each by itself.
//!
//! How models are made from traces: [`super::fit`]; the published ones: [`super::published`]; how far off they are:
//! `docs/twins.md`.

use flash::Rng;
use serde::{Deserialize, Serialize};

use super::size::Alias;
use crate::workload::{Intake, Operation, Request, Source, WorkloadError};

/// How many requests back a continuation looks, per operation.
pub const LAGS: usize = 8;
/// Granularity of reuse.
pub const PAGE_BYTES: u64 = 4096;
/// Granularity of popularity for fresh pages.
pub const REGION_BYTES: u64 = 1 << 20;
/// Extents remembered; what was touched longer ago counts as fresh. 2^22 extents take 64 MiB.
const HISTORY: u64 = 1 << 22;
/// Live extents considered on each side of the drawn age in search of one of the drawn size.
const CANDIDATES: usize = 12;
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
    /// Share of requests that continue one of the last [`LAGS`] of the same operation.
    pub continues: f64,
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
    /// Squared coefficient of variation of the gaps.
    pub gap_variation_squared: f64,
    /// A continuation goes on from the request immediately before, whatever its operation, rather than from one of the
    /// same operation. Set where only a strict sequential share is published.
    #[serde(default)]
    pub sequential_strict: bool,
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
    /// Whether the model can be drawn from: what is wrong, if not.
    ///
    /// # Errors
    /// Shares outside 0 to 1, empty or negative distributions, a span smaller than the largest request.
    pub fn check(&self) -> Result<(), WorkloadError> {
        let fail = |what: String| Err(WorkloadError { origin: "twin".to_owned(), line: 0, what, fix: String::new() });
        let shares = [("reads", self.reads), ("persistence", self.persistence)];
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
            let mut numbers = side.lags.iter().chain(&side.alignment).chain(&side.reuse_tail);
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

    /// The live position nearest to `target` whose extent has `bytes`; failing that, the nearest.
    fn nearest(&self, write: bool, target: u64, bytes: u64) -> Option<u64> {
        let mut best: Option<(bool, u64, u64)> = None;
        for down in [true, false] {
            let mut from = if down { Some(target) } else { Some(target + 1) };
            for _ in 0..CANDIDATES {
                let Some(position) = from.filter(|&p| p < self.length) else { break };
                let Some(position) = self.next_live(write, position, down) else { break };
                let candidate = (self.at(position).bytes != bytes, position.abs_diff(target), position);
                if best.is_none_or(|b| candidate < b) {
                    best = Some(candidate);
                }
                if !candidate.0 {
                    break;
                }
                from = if down { position.checked_sub(1) } else { Some(position + 1) };
            }
        }
        best.map(|b| b.2)
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
    ends: [[Option<u64>; LAGS]; 2],
    /// Position and kind of last touch of what the latest request reused, if it was a reuse.
    last_source: [Option<(u64, bool)>; 2],
    /// Where the latest reuse ended.
    reused_end: [u64; 2],
    history: History,
    /// One bit per page ever touched.
    touched: Vec<u64>,
    gap_ns_mean: f64,
    gap_variation_squared: f64,
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
            ends: [[None; LAGS]; 2],
            last_source: [None; 2],
            reused_end: [0; 2],
            history: History::new(),
            touched: vec![0; (model.span_bytes / PAGE_BYTES / 64 + 1) as usize],
            gap_ns_mean: model.gap_ns_mean,
            gap_variation_squared: model.gap_variation_squared,
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
        let page = key_page(extent.offset, extent.bytes);
        self.touched[(page / 64) as usize] >> (page % 64) & 1 == 0
    }

    fn next_gap_ns(&mut self) -> f64 {
        let square = self.gap_variation_squared;
        let rng = &mut self.arrival_rng;
        if square <= 1.0 {
            // A fixed part and an exponential part whose deviation is the whole deviation.
            let exponential = square.sqrt();
            return self.gap_ns_mean * (1.0 - exponential - exponential * (1.0 - rng.unit()).ln());
        }
        // Two phases of equal total time ("balanced means"): a short one with probability p, a long one else.
        let p = 0.5 * (1.0 + ((square - 1.0) / (square + 1.0)).sqrt());
        let phase = if rng.chance(p) { p } else { 1.0 - p };
        -(1.0 - rng.unit()).ln() * self.gap_ns_mean / (2.0 * phase)
    }

    /// A continuation of a recent request, unless there is none or it would run into old pages.
    fn continuation(&mut self, side: usize) -> Option<Extent> {
        let tables = &self.tables[side];
        let drawn = tables.lags.draw(&mut self.rng);
        let bytes = tables.size(Class::Continue, 0, &mut self.size_rng);
        if let Some(end) = self.strict_end {
            let offset = end.filter(|end| end + bytes <= self.span_bytes)?;
            return Some(Extent { offset, bytes });
        }
        // The drawn run if it can go on, else the most recent that can.
        for lag in std::iter::once(drawn).chain(0..LAGS) {
            let Some(offset) = self.ends[side][lag] else { continue };
            let extent = Extent { offset, bytes };
            let fits = offset + bytes <= self.span_bytes;
            // Within the page that the run ended in, it goes on as well.
            if fits && (key_page(offset, bytes) == (offset - 1) / PAGE_BYTES || self.is_new(extent)) {
                // The run moves to the front; its old end is no longer one.
                self.ends[side][lag..].rotate_left(1);
                self.ends[side][LAGS - 1] = None;
                return Some(extent);
            }
        }
        None
    }

    /// The extent touched next after the source of the previous reuse.
    fn follow(&mut self, side: usize) -> Option<Extent> {
        let (source, written) = self.last_source[side]?;
        let group = age_group(self.history.length - source);
        if !self.rng.chance(self.tables[side].follows[group]) {
            return None;
        }
        let mut candidates = source + 1..(source + 1 + LAGS as u64).min(self.history.length);
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
        let extent = Extent { offset: offset.min(self.span_bytes - bytes), bytes };
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
        let position = self.history.nearest(written, target, bytes)?;
        let old = self.history.at(position);
        self.last_source[side] = Some((position, written));
        if old.bytes >= 2 * bytes && old.bytes > PAGE_BYTES {
            // A part of a large extent; the rest keeps its age.
            let step = PAGE_BYTES.min(bytes.next_power_of_two());
            let offset = old.offset + self.rng.below((old.bytes - bytes) / step + 1) * step;
            self.reused_end[side] = offset + bytes;
            return Some(Extent { offset, bytes });
        }
        self.history.retire(position);
        let offset = old.offset.min(self.span_bytes - bytes);
        self.reused_end[side] = offset + bytes;
        Some(Extent { offset, bytes })
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
            if self.is_new(Extent { offset, bytes }) {
                break;
            }
        }
        Extent { offset, bytes }
    }

    fn request(&mut self) -> Request {
        let write = match self.previous {
            Some(previous) if self.rng.chance(self.persistence) => previous,
            _ => !self.rng.chance(self.reads),
        };
        self.previous = Some(write);
        let side = usize::from(write);
        let (extent, reused) = if self.rng.chance(self.tables[side].continues) {
            (self.continuation(side).unwrap_or_else(|| self.fresh(side)), false)
        } else {
            match self.follow(side).or_else(|| self.reuse(side)) {
                Some(extent) => (extent, true),
                None => (self.fresh(side), false),
            }
        };
        if !reused {
            // Runs go on from new data; a run over old data is a reuse that follows another.
            self.ends[side].rotate_right(1);
            self.ends[side][0] = Some(extent.offset + extent.bytes);
        }
        if let Some(end) = &mut self.strict_end {
            *end = Some(extent.offset + extent.bytes);
        }
        for page in extent.offset / PAGE_BYTES..=(extent.offset + extent.bytes - 1) / PAGE_BYTES {
            self.touched[(page / 64) as usize] |= 1 << (page % 64);
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
        broken(|m| m.write.sizes.clear());
        broken(|m| m.write.sizes[0][0].bytes = 0);
        broken(|m| m.read.near = f64::NAN);
        broken(|m| m.read.follows = vec![2.0; 5]);
        broken(|m| m.gap_ns_mean = f64::INFINITY);
        assert!(fit(&original("uniform:requests=99")).is_err());
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
            history.push(Extent { offset: i, bytes: if i % 10 == 0 { 8 } else { 4 } }, i % 2 == 0);
        }
        assert_eq!(history.nearest(true, 101, 8), Some(100));
        assert_eq!(history.nearest(false, 101, 4), Some(101));
        history.retire(100);
        assert_eq!(history.nearest(true, 101, 8), Some(110), "9 after beats 11 before");
        assert_eq!(history.nearest(false, 101, 64), Some(101), "no such size: the nearest");
        for i in 0..200 {
            history.retire(i);
        }
        assert_eq!(history.nearest(true, 101, 8), None);
    }
}

//! Fitting a twin to the beginning of a trace.
//!
//! The hard part is not to mistake the beginning for the whole. In the first 10,000 requests most pages are new merely
//! because nothing came before. Each request that is no continuation is therefore treated as a *lifetime* in the sense
//! of survival analysis: either its middle page was touched `age` requests ago, or the observation is cut off at the
//! request's own index ("touched longer ago than we have watched, or never"). The Nelson-Aalen estimator (Aalen 1978)
//! of the cumulative hazard over age, per octave and by whether the page was last read or written, is unbiased under
//! such censoring, and its last octaves extrapolate: a constant hazard per octave is a footprint that grows as a power
//! of the number of requests (Heaps' law), as footprints of block traces do.

use std::collections::{BTreeMap, VecDeque};

use super::pages::Pages;
use super::twin::{
    AGE_GROUPS, Class, FOLLOWS, LAGS, PAGE_BYTES, REGION_BYTES, SIZE_TABLES, Side, SizeShare, Twin, TwinModel,
    age_group, key_page, short_gaps,
};
use super::validate::{dispersion, flatten, hottest};
use crate::workload::{Operation, Request, WorkloadError};

/// Sizes kept exactly per operation and class; the rest is pooled per octave.
const MODES: usize = 12;

/// Requests drawn at most in search of a parameter that has no closed form.
const SIMULATED: usize = 50_000;

/// Phases of long gaps at least over the requests fitted to.
const LONG_PHASES: f64 = 50.0;

/// Observations of one operation.
#[derive(Default)]
struct Seen {
    count: u64,
    continued: u64,
    /// Continuations to new pages, and after how many requests each continuation came.
    continued_new: u64,
    continued_at: Vec<u32>,
    lags: [u64; LAGS],
    /// Per age group of the reuse before: how often it could be followed, and was.
    follows: [(u64, u64); AGE_GROUPS],
    /// Age and whether the page was last written, or the age at which observation was cut off.
    lives: Vec<(u64, Option<bool>)>,
    fresh: u64,
    fresh_near: u64,
    aligned: [u64; 4],
    sizes: [BTreeMap<u64, u64>; SIZE_TABLES],
}

/// Fits every parameter of a twin to `requests`, which should be the unbroken beginning of a trace (volumes are put
/// one after the other; trims and flushes are ignored). 10,000 requests suffice for the shape; the more, the further
/// the reuse ages reach before they are extrapolated.
///
/// An operation seen fewer than 50 times is given the parameters of the other.
///
/// The span is the highest end seen, rounded up to 1 MiB: set [`TwinModel::span_bytes`] if more is known.
///
/// # Errors
/// Fewer than 100 reads and writes, or addresses too far apart for a twin ([`TwinModel::check`]).
pub fn fit(requests: &[Request]) -> Result<TwinModel, WorkloadError> {
    fit_tables(requests, false)
}

/// As [`fit`], with one size distribution per operation whatever the class: a tenth of the numbers, for models that are
/// kept as text or whose sizes are then changed ([`Side::set_mean_bytes`]).
///
/// # Errors
/// As [`fit`].
pub fn fit_merged(requests: &[Request]) -> Result<TwinModel, WorkloadError> {
    fit_tables(requests, true)
}

fn fit_tables(requests: &[Request], merged: bool) -> Result<TwinModel, WorkloadError> {
    let requests = flatten(requests);
    if requests.len() < 100 {
        return Err(WorkloadError {
            origin: "twin".to_owned(),
            line: 0,
            what: format!("{} reads and writes are too few to fit a model", requests.len()),
            fix: "give at least 100, better 10,000".to_owned(),
        });
    }
    let mut last = Pages::default();
    let mut regions = Pages::default();
    let mut seen = [Seen::default(), Seen::default()];
    let mut ends: VecDeque<u64> = VecDeque::new();
    // Position, kind of last touch and age group of what the latest request of each operation reused.
    let mut last_source: [Option<(u64, bool, usize)>; 2] = [None; 2];
    let (mut same, mut previous) = (0u64, None);
    for (index, r) in requests.iter().enumerate() {
        let write = usize::from(r.operation == Operation::Write);
        same += u64::from(previous == Some(write));
        previous = Some(write);
        let side = &mut seen[write];
        side.count += 1;
        let first = r.offset / PAGE_BYTES;
        let toucher = last.get(key_page(r.offset, r.bytes)).map(|touch| (u64::from(touch >> 1), touch & 1 == 1));
        let lag = ends.iter().position(|&end| end == r.offset);
        let class = if let Some(lag) = lag {
            side.continued += 1;
            // Within the page that the run ended in, a run goes on whether that is new or not.
            if key_page(r.offset, r.bytes) != r.offset.saturating_sub(1) / PAGE_BYTES {
                side.continued_new += u64::from(toucher.is_none());
                side.continued_at.push(index as u32);
            }
            side.lags[lag] += 1;
            Class::Continue
        } else {
            let follows = match (toucher, last_source[write]) {
                (Some((by, written)), Some((source, source_written, _))) => {
                    written == source_written && by > source && by <= source + FOLLOWS as u64
                }
                _ => false,
            };
            if let Some((_, _, group)) = last_source[write] {
                side.follows[group].0 += 1;
                side.follows[group].1 += u64::from(follows);
            }
            last_source[write] = toucher.map(|(by, written)| (by, written, age_group(index as u64 - by)));
            match toucher {
                Some((by, written)) => {
                    if !follows {
                        side.lives.push((index as u64 - by, Some(written)));
                    }
                    Class::Reuse
                }
                None => {
                    side.lives.push((index as u64, None));
                    side.fresh += 1;
                    side.fresh_near += u64::from(regions.get(r.offset / REGION_BYTES).is_some());
                    // 512, 1024, 2048, 4096 and above.
                    side.aligned[(r.offset.trailing_zeros().clamp(9, 12) - 9) as usize] += 1;
                    Class::Fresh
                }
            }
        };
        let age = toucher.map_or(0, |(by, _)| index as u64 - by);
        *side.sizes[class.size_table(age)].entry(r.bytes).or_insert(0) += 1;
        ends.push_front(r.offset + r.bytes);
        ends.truncate(LAGS);
        for page in first..=(r.offset + r.bytes - 1) / PAGE_BYTES {
            last.set(page, (index as u32) << 1 | write as u32);
        }
        regions.set(r.offset / REGION_BYTES, 0);
    }
    let count = requests.len() as f64;
    let reads = seen[0].count as f64 / count;
    // If each operation repeats the one before with probability rho and is drawn anew otherwise, neighbours agree with
    // probability rho + (1 - rho) * (reads^2 + writes^2).
    let chance = reads * reads + (1.0 - reads) * (1.0 - reads);
    let agree = same as f64 / (count - 1.0);
    let persistence = if chance < 1.0 { ((agree - chance) / (1.0 - chance)).clamp(0.0, 0.999) } else { 0.0 };
    let end = requests.iter().map(|r| r.offset + r.bytes).max().expect("there are at least 100");
    // An operation seen too rarely borrows everything from the other.
    let sides = seen.map(|side| (side.count >= 50).then(|| side.fit(requests.len() as u64, merged)));
    let [read, write] = match sides {
        [Some(read), Some(write)] => [read, write],
        [Some(only), None] | [None, Some(only)] => [only.clone(), only],
        [None, None] => unreachable!("at least 100 requests are reads or writes"),
    };
    let mut model = TwinModel {
        span_bytes: end.next_multiple_of(1 << 20),
        reads: rounded(reads),
        persistence: rounded(persistence),
        read,
        write,
        gap_ns_mean: 0.0,
        gap_variation_squared: 0.0,
        simultaneous: 0.0,
        gap_persistence: 0.0,
        loyalty: 0.0,
        sequential_strict: false,
    };
    // What follows draws from it.
    model.check()?;
    fit_arrivals(&mut model, &requests);
    fit_loyalty(&mut model, &requests)?;
    Ok(model)
}

/// Gaps of 0 are counted; mean and variation are those of the others. How gaps follow each other has no closed form:
/// the persistence is the one at which as many arrivals as the trace has are as dispersed over seconds as they are
/// there.
fn fit_arrivals(model: &mut TwinModel, requests: &[Request]) {
    let gaps: Vec<f64> = requests.windows(2).map(|w| (w[1].arrival_ns - w[0].arrival_ns) as f64).collect();
    let count = gaps.len() as f64;
    let others = gaps.iter().filter(|&&gap| gap > 0.0).count() as f64;
    if others == 0.0 {
        return;
    }
    let sum: f64 = gaps.iter().sum();
    let square = gaps.iter().map(|gap| gap * gap).sum::<f64>() / others;
    model.gap_ns_mean = rounded(sum / count);
    model.simultaneous = rounded(1.0 - others / count).max(0.0);
    model.gap_variation_squared = rounded((square / (sum / others).powi(2) - 1.0).max(0.0));
    if model.gap_variation_squared <= 1.0 {
        return;
    }
    let requests = &requests[..requests.len().min(SIMULATED)];
    let target = dispersion(requests.iter().map(|r| r.arrival_ns));
    // Phases of long gaps, half of all time, are many enough, else the mean would be a matter of luck.
    let long = (1.0 - short_gaps(model.gap_variation_squared)) * (1.0 - model.simultaneous) * requests.len() as f64;
    let most = (1.0 - LONG_PHASES / long).max(0.0);
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..12 {
        let middle: f64 = (low + high) / 2.0;
        // Finer towards 1, for long bursts need gaps that nearly always persist.
        model.gap_persistence = rounded(most * (1.0 - (1.0 - middle).powi(3)));
        if simulated_dispersion(model, requests.len()) < target { low = middle } else { high = middle }
    }
    model.gap_persistence = rounded(most * (1.0 - (1.0 - low).powi(3)));
}

/// Mean over a few seeds.
fn simulated_dispersion(model: &TwinModel, requests: usize) -> f64 {
    let once = |seed| {
        let gaps = Twin::new(model, 0, seed).expect("fitted models can be drawn from").gaps_ns(requests);
        let mut now_ns = 0.0;
        let arrivals = gaps.into_iter().map(move |gap| {
            now_ns += gap;
            now_ns as u64
        });
        dispersion(arrivals)
    };
    (0..8).map(once).sum::<f64>() / 8.0
}

/// The share of loyal reuses, too, is found by drawing: the one at which the writes are as concentrated on the hottest
/// pages as they are in the trace.
fn fit_loyalty(model: &mut TwinModel, requests: &[Request]) -> Result<(), WorkloadError> {
    let requests = &requests[..requests.len().min(SIMULATED)];
    let target = hottest(writes(requests));
    let mut best = (f64::INFINITY, 0.0);
    for tenth in 0..=10 {
        model.loyalty = f64::from(tenth) / 10.0;
        let drawn = hottest(writes(&Twin::new(model, requests.len() as u64, 1)?.collect()));
        let error = drawn.iter().zip(target).map(|(drawn, target)| (drawn - target).abs()).sum();
        if error < best.0 {
            best = (error, model.loyalty);
        }
    }
    model.loyalty = best.1;
    Ok(())
}

/// How often each page that is written is.
fn writes(requests: &[Request]) -> Vec<u32> {
    let mut counts = BTreeMap::new();
    for r in requests.iter().filter(|r| r.operation == Operation::Write) {
        for page in r.offset / PAGE_BYTES..=(r.offset + r.bytes - 1) / PAGE_BYTES {
            *counts.entry(page).or_insert(0) += 1;
        }
    }
    counts.into_values().collect()
}

/// To five significant digits: more would be noise, and models are kept as text.
pub(super) fn rounded(x: f64) -> f64 {
    format!("{x:.4e}").parse().expect("a formatted number reads back")
}

impl Seen {
    fn fit(&self, requests: u64, merged: bool) -> Side {
        let share = |part: u64, whole: u64| if whole == 0 { 0.0 } else { rounded(part as f64 / whole as f64) };
        let mut pooled = BTreeMap::new();
        for (&bytes, &count) in self.sizes.iter().flatten() {
            *pooled.entry(bytes).or_insert(0) += count;
        }
        // A table seen too rarely borrows: reuse from the next younger ages, all else from the whole operation.
        let mut tables: Vec<Vec<SizeShare>> = Vec::new();
        if merged {
            tables.push(shares(&pooled));
        }
        for (index, own) in self.sizes.iter().enumerate().filter(|_| !merged) {
            let known = own.values().sum::<u64>() >= 50;
            tables.push(match tables.last() {
                _ if known => shares(own),
                Some(younger) if index > Class::Reuse.size_table(1) => younger.clone(),
                _ => shares(&pooled),
            });
        }
        let (reuse, reuse_tail) = hazards(&self.lives, requests);
        let mut side = Side {
            sizes: tables,
            continues: share(self.continued, self.count),
            continues_new: 1.0,
            lags: self.lags.map(|n| share(n, self.continued)).to_vec(),
            follows: self.follows.map(|(chances, follows)| share(follows, chances)).to_vec(),
            reuse,
            reuse_tail,
            near: share(self.fresh_near, self.fresh),
            alignment: self.aligned.map(|n| share(n, self.fresh)).to_vec(),
        };
        // As many continuations go to new pages, expected, as there were.
        let expected: f64 = self.continued_at.iter().map(|&at| side.survival(f64::from(at))).sum();
        side.continues_new = if expected > 0.0 { rounded(self.continued_new as f64 / expected) } else { 0.0 };
        side
    }
}

/// The most frequent sizes as they are, the others pooled per octave at their mean, in whole sectors.
fn shares(sizes: &BTreeMap<u64, u64>) -> Vec<SizeShare> {
    let total: u64 = sizes.values().sum();
    let mut by_count: Vec<(u64, u64)> = sizes.iter().map(|(&bytes, &count)| (count, bytes)).collect();
    by_count.sort_unstable_by(|a, b| b.cmp(a));
    let mut shares: BTreeMap<u64, u64> = by_count.iter().take(MODES).map(|&(count, bytes)| (bytes, count)).collect();
    let mut octaves: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for &(count, bytes) in by_count.iter().skip(MODES) {
        let pool = octaves.entry(bytes.ilog2()).or_default();
        *pool = (pool.0 + count, pool.1 + count * bytes);
    }
    for (count, sum) in octaves.into_values() {
        *shares.entry((sum / count).next_multiple_of(512)).or_insert(0) += count;
    }
    let share = |(bytes, count)| SizeShare { bytes, share: rounded(count as f64 / total as f64) };
    shares.into_iter().map(share).collect()
}

/// Cumulative hazard of reuse per octave of age, split by the last touch (`[read, written]`), and beyond.
fn hazards(lives: &[(u64, Option<bool>)], requests: u64) -> (Vec<[f64; 2]>, [f64; 2]) {
    let mut lives = lives.to_vec();
    lives.sort_unstable_by_key(|life| life.0);
    // Octaves that at least half of the requests could have lived through.
    let octaves = (requests / 2).max(2).ilog2() as usize;
    let mut hazards = vec![[0.0; 2]; octaves];
    for (index, &(age, source)) in lives.iter().enumerate() {
        let octave = age.max(1).ilog2() as usize;
        if let (Some(written), Some(cell)) = (source, hazards.get_mut(octave)) {
            cell[usize::from(written)] += 1.0 / (lives.len() - index) as f64;
        }
    }
    let tail = hazards.len().saturating_sub(3);
    let mean = |s: usize| hazards[tail..].iter().map(|h| h[s]).sum::<f64>() / (octaves - tail) as f64;
    let tail = [rounded(mean(0)), rounded(mean(1))];
    (hazards.into_iter().map(|h| h.map(rounded)).collect(), tail)
}

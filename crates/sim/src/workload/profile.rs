//! What a workload is like: one pass over a source, in memory that grows with the touched space only.
//!
//! Footprints are kept as bitmaps of 4 KiB units within extents of 1 MiB; an extent that no request touches costs
//! nothing. Requests are counted as they come; a request that is not aligned touches every unit it overlaps.

use rustc_hash::FxHashMap;
use serde::Serialize;

use super::{Intake, Operation, Source, WorkloadError};

/// Granularity of the footprints, in bytes.
pub const FOOTPRINT_BYTES: u64 = 4096;

/// Extent of the bitmaps, and of the regions and renumbering of the adaptors, in bytes.
pub const EXTENT_BYTES: u64 = 1 << 20;

/// Units of 4 KiB in an extent, as bits in words.
const WORDS: usize = (EXTENT_BYTES / FOOTPRINT_BYTES / 64) as usize;

/// Requests and bytes of one operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Amount {
    /// How many.
    pub requests: u64,
    /// Their bytes together, 2^64 - 1 if more; 0 for flushes.
    pub bytes: u64,
}

/// Requests of one size class.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct SizeClass {
    /// Largest number of pages a request of this class touches, a power of two; the smallest is one more than the
    /// class before has.
    pub pages_max: u64,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
}

/// One volume of a workload.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct VolumeProfile {
    /// Its name.
    pub name: String,
    /// Its requests, flushes included.
    pub requests: u64,
    /// Where its furthest request ends, in bytes.
    pub span_bytes: u64,
    /// Reads and writes that start where this volume's previous read or write ended.
    pub sequential: u64,
}

/// A workload's profile.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Profile {
    /// Requests, all operations.
    pub requests: u64,
    /// Reads.
    pub reads: Amount,
    /// Writes.
    pub writes: Amount,
    /// Trims.
    pub trims: Amount,
    /// Flushes.
    pub flushes: Amount,
    /// The page size in bytes that `sizes` were counted with.
    pub page_bytes: u64,
    /// Reads and writes by the number of pages they touch, smallest class first, without gaps.
    pub sizes: Vec<SizeClass>,
    /// Where the furthest request of any volume ends, in bytes.
    pub span_bytes: u64,
    /// The volumes, by number.
    pub volumes: Vec<VolumeProfile>,
    /// Whether the arrivals mean anything.
    pub timed: bool,
    /// Arrival of the last request, in nanoseconds.
    pub duration_ns: u64,
    /// Bytes in units of 4 KiB that were read.
    pub read_footprint_bytes: u64,
    /// Bytes in units of 4 KiB that were written.
    pub written_footprint_bytes: u64,
    /// Bytes in units of 4 KiB that were read or written.
    pub footprint_bytes: u64,
    /// Reads and writes that start where their volume's previous read or write ended.
    pub sequential: u64,
    /// Records left out as malformed.
    pub skipped: u64,
    /// The first of them and why.
    pub first_skipped: Option<(u64, String)>,
    /// Records without a request.
    pub ignored: u64,
    /// Arrivals clamped to their predecessor's.
    pub out_of_order: u64,
    /// The largest step back in time, in nanoseconds.
    pub worst_disorder_ns: u64,
    /// Whether the last line of a text is a request without a line end.
    pub unended: bool,
    /// SHA-256 of the file as stored, if it was read to its end.
    pub sha256: Option<String>,
    /// The extents of 1 MiB that were read or written, by volume and number.
    #[serde(skip)]
    pub(super) used: Vec<Vec<u64>>,
}

/// The units of an extent that were touched.
#[derive(Clone, Copy, Default)]
struct Touched {
    read: [u64; WORDS],
    written: [u64; WORDS],
}

impl Profile {
    /// Reads `source` to its end. `page_bytes` is the page size for the classes of sizes.
    ///
    /// # Errors
    /// Those of the source.
    ///
    /// # Panics
    /// If `page_bytes` is 0.
    pub fn of(source: &mut dyn Source, page_bytes: u64) -> Result<Self, WorkloadError> {
        assert!(page_bytes > 0, "a page has bytes");
        let mut profile = Self { page_bytes, ..Self::default() };
        let mut ends: Vec<Option<u64>> = Vec::new();
        let mut extents: Extents = Extents::default();
        // Reads and writes of each power of two of pages.
        let mut classes = [(0, 0); u64::BITS as usize];
        let mut batch = Vec::new();
        while source.refill(&mut batch, 4096)? {
            for request in &batch {
                let index = request.volume as usize;
                if profile.volumes.len() <= index {
                    profile.volumes.resize_with(index + 1, VolumeProfile::default);
                    ends.resize(index + 1, None);
                }
                let volume = &mut profile.volumes[index];
                let end = request.offset.saturating_add(request.bytes);
                profile.requests += 1;
                profile.duration_ns = request.arrival_ns;
                volume.requests += 1;
                volume.span_bytes = volume.span_bytes.max(end);
                let amount = match request.operation {
                    Operation::Read => &mut profile.reads,
                    Operation::Write => &mut profile.writes,
                    Operation::Trim => &mut profile.trims,
                    Operation::Flush => &mut profile.flushes,
                };
                amount.requests += 1;
                amount.bytes = amount.bytes.saturating_add(request.bytes);
                let written = request.operation == Operation::Write;
                if (request.operation == Operation::Read || written) && request.bytes > 0 {
                    volume.sequential += u64::from(ends[index] == Some(request.offset));
                    ends[index] = Some(end);
                    let pages = (end - 1) / page_bytes - request.offset / page_bytes + 1;
                    let class = &mut classes[pages.next_power_of_two().trailing_zeros() as usize];
                    *(if written { &mut class.1 } else { &mut class.0 }) += 1;
                    extents.touch(
                        request.volume,
                        request.offset / FOOTPRINT_BYTES,
                        (end - 1) / FOOTPRINT_BYTES,
                        written,
                    );
                }
            }
        }
        let used = classes.iter().rposition(|&class| class != (0, 0)).map_or(0, |largest| largest + 1);
        let size = |(class, &(reads, writes))| SizeClass { pages_max: 1u64 << class, reads, writes };
        profile.sizes = classes[..used].iter().enumerate().map(size).collect();
        // Requests that all arrive at once were given times by a format that asks for some.
        profile.timed = source.timed() && (profile.duration_ns > 0 || profile.requests < 2);
        profile.span_bytes = profile.volumes.iter().map(|volume| volume.span_bytes).max().unwrap_or(0);
        profile.sequential = profile.volumes.iter().map(|volume| volume.sequential).sum();
        profile.note_extents(&extents);
        profile.note_intake(source.intake());
        Ok(profile)
    }

    fn note_extents(&mut self, extents: &Extents) {
        self.used = vec![Vec::new(); self.volumes.len()];
        let bits = |words: &[u64; WORDS]| words.iter().map(|word| u64::from(word.count_ones())).sum::<u64>();
        #[expect(clippy::iter_over_hash_type, reason = "only sums are taken, and what is collected is sorted")]
        for (&(volume, extent), &slot) in &extents.slots {
            let Touched { read, written } = extents.touched[slot];
            let both = std::array::from_fn(|word| read[word] | written[word]);
            self.read_footprint_bytes += bits(&read) * FOOTPRINT_BYTES;
            self.written_footprint_bytes += bits(&written) * FOOTPRINT_BYTES;
            self.footprint_bytes += bits(&both) * FOOTPRINT_BYTES;
            self.used[volume as usize].push(extent);
        }
        for used in &mut self.used {
            used.sort_unstable();
        }
    }

    fn note_intake(&mut self, intake: &Intake) {
        for (volume, name) in self.volumes.iter_mut().zip(&intake.volumes) {
            volume.name.clone_from(name);
        }
        self.skipped = intake.skipped;
        self.first_skipped.clone_from(&intake.first_skipped);
        self.ignored = intake.ignored;
        self.out_of_order = intake.out_of_order;
        self.worst_disorder_ns = intake.worst_disorder_ns;
        self.unended = intake.unended;
        self.sha256.clone_from(&intake.sha256);
    }

    /// Share of reads among reads and writes, 0 to 1; 0 if there are neither.
    pub fn read_share(&self) -> f64 {
        ratio(self.reads.requests, self.reads.requests + self.writes.requests)
    }

    /// Mean size of reads and writes, in bytes.
    pub fn mean_bytes(&self) -> f64 {
        ratio(self.reads.bytes.saturating_add(self.writes.bytes), self.reads.requests + self.writes.requests)
    }

    /// Mean time between arrivals, in nanoseconds.
    pub fn mean_interarrival_ns(&self) -> f64 {
        ratio(self.duration_ns, self.requests.saturating_sub(1))
    }

    /// Share of sequential requests among reads and writes, 0 to 1.
    pub fn sequential_share(&self) -> f64 {
        ratio(self.sequential, self.reads.requests + self.writes.requests)
    }

    /// Bytes of the 1 MiB extents that were read or written: what [`Fit::Compact`](super::adapt::Fit) needs.
    pub fn used_extent_bytes(&self) -> u64 {
        self.used.iter().map(|used| used.len() as u64).sum::<u64>() * EXTENT_BYTES
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// The touched extents, found by volume and number.
#[derive(Default)]
struct Extents {
    slots: FxHashMap<(u32, u64), usize>,
    touched: Vec<Touched>,
    last: Option<((u32, u64), usize)>,
}

impl Extents {
    /// Marks the units from `first` to `last`, both included.
    fn touch(&mut self, volume: u32, first: u64, last: u64, written: bool) {
        const UNITS: u64 = EXTENT_BYTES / FOOTPRINT_BYTES;
        for extent in first / UNITS..=last / UNITS {
            let slot = self.slot((volume, extent));
            let words = if written { &mut self.touched[slot].written } else { &mut self.touched[slot].read };
            let from = first.max(extent * UNITS) % UNITS;
            let to = last.min(extent * UNITS + UNITS - 1) % UNITS;
            for word in from / 64..=to / 64 {
                let (low, high) = (from.max(word * 64) % 64, to.min(word * 64 + 63) % 64);
                words[word as usize] |= u64::MAX << low & u64::MAX >> (63 - high);
            }
        }
    }

    fn slot(&mut self, key: (u32, u64)) -> usize {
        if let Some((known, slot)) = self.last
            && known == key
        {
            return slot;
        }
        let slot = *self.slots.entry(key).or_insert_with(|| {
            self.touched.push(Touched::default());
            self.touched.len() - 1
        });
        self.last = Some((key, slot));
        slot
    }
}

#[cfg(test)]
mod tests {
    use super::super::adapt::testing::{Fixed, request};
    use super::*;

    #[test]
    fn requests_that_all_arrive_at_once_have_no_times() {
        use Operation::Write;
        let timed = |arrivals: &[u64]| {
            let requests = arrivals.iter().map(|&at| request(at, Write, 0, 4096, 0)).collect();
            Profile::of(&mut Fixed::new(requests), 4096).unwrap().timed
        };
        assert!(timed(&[0, 0, 1]) && timed(&[0]));
        assert!(!timed(&[0, 0, 0]));
    }

    #[test]
    fn counts_footprints_and_sequences() {
        use Operation::{Flush, Read, Trim, Write};
        let mut source = Fixed::new(vec![
            request(0, Write, 0, 8192, 0),
            request(10, Write, 8192, 1, 0),
            request(20, Read, 4095, 2, 0),
            request(30, Write, EXTENT_BYTES - 4096, 8192, 1),
            request(30, Trim, 0, 1 << 40, 1),
            request(40, Flush, 0, 0, 0),
            request(50, Write, EXTENT_BYTES + 4096, 4096, 1),
        ]);
        let profile = Profile::of(&mut source, 4096).unwrap();
        assert_eq!(profile.requests, 7);
        assert_eq!((profile.reads.requests, profile.writes.requests), (1, 4));
        assert_eq!((profile.trims.requests, profile.flushes.requests), (1, 1));
        assert_eq!(profile.written_footprint_bytes, 6 * 4096);
        assert_eq!(profile.read_footprint_bytes, 2 * 4096);
        assert_eq!(profile.footprint_bytes, 6 * 4096);
        assert_eq!(profile.span_bytes, 1 << 40);
        assert_eq!((profile.volumes[0].sequential, profile.volumes[1].sequential), (1, 1));
        assert_eq!(profile.used, [vec![0], vec![0, 1]]);
        let class = |pages_max, reads, writes| SizeClass { pages_max, reads, writes };
        assert_eq!(profile.sizes, [class(1, 0, 2), class(2, 1, 2)]);
        assert_eq!(profile.mean_interarrival_ns(), 50.0 / 6.0);
        assert_eq!(profile.read_share(), 0.2);
        assert!(serde_json::to_string(&profile).unwrap().contains("\"written_footprint_bytes\":24576"));
    }
}

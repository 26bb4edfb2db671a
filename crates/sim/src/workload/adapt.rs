//! Fitting a workload to a device: volumes, time, space.
//!
//! A trace has several volumes, more space than the device, and a pace of its own. What is done about each is asked
//! for, never assumed: [`Volumes`] makes one address space of several, [`Fit`] deals with requests beyond the
//! capacity, a time factor stretches the arrivals, a limit ends early. [`adapt`] stacks them in this order.

use std::collections::VecDeque;

use super::profile::{EXTENT_BYTES, FOOTPRINT_BYTES, Profile};
use super::{Intake, Operation, Request, Source, WorkloadError};

/// How several volumes become one address space.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Volumes {
    /// Each volume gets a region of its own, packed in order of volume number, each rounded up to 1 MiB.
    Concat,
    /// Only the volume with this name, or else with this number in order of appearance; the others' requests are
    /// dropped and counted as ignored. Arrivals are relative to its first request's.
    Select(String),
}

impl Volumes {
    /// The number of the one volume that is taken; `None` if all are, or if there is no such volume.
    pub fn selected(&self, profile: &Profile) -> Option<usize> {
        let Self::Select(wanted) = self else { return None };
        let named = profile.volumes.iter().position(|volume| volume.name == *wanted);
        named.or_else(|| wanted.parse().ok()).filter(|&number| number < profile.volumes.len())
    }
}

/// What becomes of requests beyond the capacity. Nothing is changed if the whole workload fits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Fit {
    /// The first is an error that names the request, its offset and the capacity.
    #[default]
    Error,
    /// Offset modulo capacity. An extent that crosses the end is split and goes on at 0. Keeps locality and sizes;
    /// distinct addresses may coincide, so the footprint can shrink and overwrites grow.
    Fold,
    /// The used extents of 1 MiB are renumbered in address order. Keeps every request whole and distinct addresses
    /// distinct; gaps between used regions vanish. Fails if the used extents exceed the capacity. Trims lose what lies
    /// in extents that are never read or written; those that lose all are dropped and counted as ignored.
    Compact,
    /// Offsets times capacity over span, rounded down to 4 KiB, the offset within 4 KiB kept. Keeps the spread over the
    /// device; reads and writes keep their sizes, so neighbours can come to overlap. Trims shrink with their space;
    /// those that shrink to nothing are dropped and counted as ignored.
    Scale,
}

/// How to adapt a workload; the default passes a single volume through and refuses what does not fit.
#[derive(Clone, Debug)]
pub struct Adaptation {
    /// What to do with the volumes. [`Volumes::Concat`] leaves a single volume as it is.
    pub volumes: Volumes,
    /// Capacity in bytes, with [`Fit::Scale`] a multiple of 4 KiB; `None`: unlimited.
    pub capacity_bytes: Option<u64>,
    /// What to do with requests beyond the capacity.
    pub fit: Fit,
    /// Factor on all arrivals: 0.5 makes the workload arrive twice as fast.
    pub time_factor: f64,
    /// Requests to yield at most.
    pub limit: Option<u64>,
    /// Whether requests go on saying which volume they are of, although there is one address space.
    pub tell_volumes: bool,
}

impl Default for Adaptation {
    fn default() -> Self {
        Self {
            volumes: Volumes::Concat,
            capacity_bytes: None,
            fit: Fit::Error,
            time_factor: 1.0,
            limit: None,
            tell_volumes: false,
        }
    }
}

/// Stacks the adaptors that `adaptation` asks for on `source`.
///
/// `profile` is that of a whole pass over the same workload; it tells the volumes' spans and the used extents. `origin`
/// stands for the workload in errors.
///
/// # Errors
/// An unknown volume, a time factor that is no positive number, a capacity of 0 or, with [`Fit::Scale`], one that is no
/// multiple of 4 KiB, used extents that exceed the capacity with [`Fit::Compact`]. Reading may later fail as the source
/// does, at an arrival that is too late, and with [`Fit::Error`] at the first request beyond the capacity.
pub fn adapt(
    source: Box<dyn Source>,
    origin: &str,
    adaptation: &Adaptation,
    profile: &Profile,
) -> Result<Box<dyn Source>, WorkloadError> {
    let error =
        |what: String, fix: &str| WorkloadError { origin: origin.to_owned(), line: 0, what, fix: fix.to_owned() };
    let layout = layout(origin, &adaptation.volumes, profile)?;
    if !(adaptation.time_factor.is_finite() && adaptation.time_factor > 0.0) {
        let what = format!("the time factor {} cannot be used", adaptation.time_factor);
        return Err(error(what, "give a positive number"));
    }
    let mut map = Map::Keep;
    let mut capacity_bytes = u64::MAX;
    if let Some(capacity) = adaptation.capacity_bytes {
        if capacity == 0 {
            return Err(error("the device has no capacity".to_owned(), "give it some"));
        }
        capacity_bytes = capacity;
        if layout.span_bytes > capacity {
            map = match adaptation.fit {
                Fit::Error => Map::Keep,
                Fit::Fold => Map::Fold,
                Fit::Scale if capacity % FOOTPRINT_BYTES != 0 => {
                    let what = format!(
                        "it cannot be scaled to the device's capacity of {capacity} bytes, which is not a multiple of \
                         4 KiB"
                    );
                    return Err(error(what, "round the capacity, or fold or compact the workload"));
                }
                Fit::Scale => Map::Scale { span_bytes: layout.span_bytes },
                Fit::Compact => {
                    let used = layout.used(profile);
                    let used_bytes = used.len() as u64 * EXTENT_BYTES;
                    if used_bytes > capacity {
                        let what = format!("its used extents of 1 MiB hold {used_bytes} bytes, the device {capacity}");
                        return Err(error(what, "enlarge the device, or fold or scale the workload"));
                    }
                    Map::Compact { used }
                }
            };
        }
    }
    Ok(Box::new(Adapted {
        inner: source,
        origin: origin.to_owned(),
        layout,
        map,
        capacity_bytes,
        base_ns: (adaptation.volumes == Volumes::Concat).then_some(0),
        time_factor: adaptation.time_factor,
        left: adaptation.limit.unwrap_or(u64::MAX),
        tell_volumes: adaptation.tell_volumes,
        number: 0,
        input: Vec::new(),
        ready: VecDeque::new(),
        ended: false,
        dropped: 0,
        intake: Intake::default(),
    }))
}

/// Where the workload ends once its volumes are one address space, in bytes.
///
/// # Errors
/// An unknown volume; volumes that together exceed 2^63 bytes. `origin` stands for the workload in them.
pub fn span_bytes(origin: &str, volumes: &Volumes, profile: &Profile) -> Result<u64, WorkloadError> {
    layout(origin, volumes, profile).map(|layout| layout.span_bytes)
}

/// Bytes of the 1 MiB extents that are read or written once its volumes are one address space: the least capacity that
/// [`Fit::Compact`] takes.
///
/// # Errors
/// As [`span_bytes`].
pub fn used_bytes(origin: &str, volumes: &Volumes, profile: &Profile) -> Result<u64, WorkloadError> {
    Ok(layout(origin, volumes, profile)?.used(profile).len() as u64 * EXTENT_BYTES)
}

fn layout(origin: &str, volumes: &Volumes, profile: &Profile) -> Result<Layout, WorkloadError> {
    Layout::new(volumes, profile).map_err(|what| {
        let fix = volume_names(profile);
        WorkloadError { origin: origin.to_owned(), line: 0, what, fix }
    })
}

fn volume_names(profile: &Profile) -> String {
    let mut names: Vec<_> = profile.volumes.iter().take(16).map(|volume| volume.name.as_str()).collect();
    if profile.volumes.len() > names.len() {
        names.push("…");
    }
    format!("its {} volumes are, by number from 0: {}", profile.volumes.len(), names.join(", "))
}

/// Where each volume starts in the one address space; `None` for a volume left out.
struct Layout {
    bases: Vec<Option<u64>>,
    span_bytes: u64,
    name: String,
}

impl Layout {
    fn new(volumes: &Volumes, profile: &Profile) -> Result<Self, String> {
        let count = profile.volumes.len();
        match volumes {
            Volumes::Select(wanted) => {
                let index = volumes.selected(profile).ok_or_else(|| format!("there is no volume `{wanted}`"))?;
                let bases = (0..count).map(|other| (other == index).then_some(0)).collect();
                let VolumeSpan { span_bytes, name } = VolumeSpan::of(profile, index);
                Ok(Self { bases, span_bytes, name })
            }
            Volumes::Concat => {
                let mut end = 0_u64;
                let mut bases = Vec::with_capacity(count);
                let mut span_bytes = 0;
                for volume in &profile.volumes {
                    bases.push(Some(end));
                    let past = end.checked_add(volume.span_bytes).filter(|&past| past < 1 << 63);
                    span_bytes = past.ok_or("its volumes together exceed 2^63 bytes")?;
                    end = span_bytes.next_multiple_of(EXTENT_BYTES);
                }
                let names: Vec<_> = profile.volumes.iter().map(|volume| volume.name.as_str()).collect();
                let name = if count == 1 { names[0].to_owned() } else { format!("{count} volumes") };
                Ok(Self { bases, span_bytes, name })
            }
        }
    }

    /// The used extents in the one address space, ascending.
    fn used(&self, profile: &Profile) -> Vec<u64> {
        let mut all = Vec::new();
        for (base, used) in self.bases.iter().zip(&profile.used) {
            if let Some(base) = base {
                all.extend(used.iter().map(|extent| base / EXTENT_BYTES + extent));
            }
        }
        all
    }
}

struct VolumeSpan {
    span_bytes: u64,
    name: String,
}

impl VolumeSpan {
    fn of(profile: &Profile, index: usize) -> Self {
        let volume = &profile.volumes[index];
        Self { span_bytes: volume.span_bytes, name: volume.name.clone() }
    }
}

enum Map {
    Keep,
    Fold,
    Compact { used: Vec<u64> },
    Scale { span_bytes: u64 },
}

/// The latest arrival, 146 years after the first: what a device does afterwards ends within 64 bits.
const LATEST_NS: u64 = 1 << 62;

/// An arrival times `factor`. `origin` and `number` stand for the request in the error.
///
/// # Errors
/// It comes so late that times after it would overflow.
#[inline]
pub fn stretched(origin: &str, number: u64, arrival_ns: u64, factor: f64) -> Result<u64, WorkloadError> {
    let stretched_ns = arrival_ns as f64 * factor;
    if stretched_ns > LATEST_NS as f64 {
        return Err(late(origin, number, stretched_ns));
    }
    Ok(if factor == 1.0 { arrival_ns } else { stretched_ns as u64 })
}

#[cold]
fn late(origin: &str, number: u64, arrival_ns: f64) -> WorkloadError {
    let what = format!(
        "request {number} arrives {:.0} s after the first, and {:.0} s are the most",
        arrival_ns * 1e-9,
        LATEST_NS as f64 * 1e-9
    );
    let fix = "check the unit of the times, or bring requests nearer together".to_owned();
    WorkloadError { origin: origin.to_owned(), line: 0, what, fix }
}

struct Adapted {
    inner: Box<dyn Source>,
    origin: String,
    layout: Layout,
    map: Map,
    capacity_bytes: u64,
    /// When the first request came that is not left out; `None` before it.
    base_ns: Option<u64>,
    time_factor: f64,
    left: u64,
    tell_volumes: bool,
    /// Requests of the inner source so far.
    number: u64,
    input: Vec<Request>,
    ready: VecDeque<Request>,
    ended: bool,
    /// Requests left out here: of other volumes, and trims of space that does not exist after the fit.
    dropped: u64,
    intake: Intake,
}

impl Adapted {
    fn place(&mut self, mut request: Request) -> Result<(), WorkloadError> {
        let Some(base) = self.layout.bases.get(request.volume as usize).copied().flatten() else {
            self.dropped += 1;
            return Ok(());
        };
        if !self.tell_volumes {
            request.volume = 0;
        }
        let base_ns = *self.base_ns.get_or_insert(request.arrival_ns);
        request.arrival_ns = request.arrival_ns.saturating_sub(base_ns);
        request.arrival_ns = stretched(&self.origin, self.number, request.arrival_ns, self.time_factor)?;
        if request.operation == Operation::Flush {
            self.ready.push_back(request);
            return Ok(());
        }
        request.offset += base;
        let capacity = self.capacity_bytes;
        let fits = request.offset.checked_add(request.bytes).is_some_and(|end| end <= capacity);
        match &self.map {
            Map::Keep if fits => self.ready.push_back(request),
            Map::Keep => return Err(self.beyond(&request, "choose to fold, compact or scale, or enlarge the device")),
            Map::Fold => fold(request, capacity, &mut self.ready),
            Map::Compact { used } => {
                if !compact(request, used, &mut self.ready) {
                    if request.operation != Operation::Trim {
                        return Err(self.beyond(&request, "profile the same workload that is run"));
                    }
                    self.dropped += 1;
                }
            }
            Map::Scale { span_bytes } => match scale(request, capacity, *span_bytes) {
                Some(scaled) => self.ready.push_back(scaled),
                None if request.operation == Operation::Trim => self.dropped += 1,
                None => return Err(self.beyond(&request, "enlarge the device, or fold the workload")),
            },
        }
        Ok(())
    }

    fn beyond(&self, request: &Request, fix: &str) -> WorkloadError {
        let what = format!(
            "request {} covers {} bytes at offset {}, beyond the capacity of {} bytes",
            self.number, request.bytes, request.offset, self.capacity_bytes
        );
        WorkloadError { origin: self.origin.clone(), line: 0, what, fix: fix.to_owned() }
    }
}

fn fold(mut request: Request, capacity: u64, out: &mut VecDeque<Request>) {
    request.offset %= capacity;
    if request.operation == Operation::Trim && request.bytes >= capacity {
        (request.offset, request.bytes) = (0, capacity);
    }
    while request.bytes > 0 {
        let part = Request { bytes: request.bytes.min(capacity - request.offset), ..request };
        out.push_back(part);
        request.bytes -= part.bytes;
        request.offset = 0;
    }
}

/// Renumbers; `false` if nothing of the request lies in a used extent.
fn compact(request: Request, used: &[u64], out: &mut VecDeque<Request>) -> bool {
    let end = request.offset.saturating_add(request.bytes);
    let from = used.partition_point(|&extent| extent < request.offset / EXTENT_BYTES);
    let to = used.partition_point(|&extent| extent <= (end - 1) / EXTENT_BYTES);
    if from == to {
        return false;
    }
    // Consecutive numbers touch each other after the renumbering, so what is left of the request stays one extent.
    let first = used[from] * EXTENT_BYTES;
    let last = used[to - 1] * EXTENT_BYTES;
    let offset = from as u64 * EXTENT_BYTES + request.offset.saturating_sub(first);
    let new_end = (to as u64 - 1) * EXTENT_BYTES + (end - last).min(EXTENT_BYTES);
    out.push_back(Request { offset, bytes: new_end - offset, ..request });
    true
}

fn scale(request: Request, capacity: u64, span_bytes: u64) -> Option<Request> {
    let within = request.offset % FOOTPRINT_BYTES;
    let scaled = u128::from(request.offset - within) * u128::from(capacity) / u128::from(span_bytes);
    let scaled = (scaled as u64) / FOOTPRINT_BYTES * FOOTPRINT_BYTES;
    if request.operation == Operation::Trim {
        // A trim shrinks with its space, down to nothing; one of its full size would hit its neighbours' data.
        let end =
            u128::from(request.offset.saturating_add(request.bytes)) * u128::from(capacity) / u128::from(span_bytes);
        let offset = scaled + within;
        let bytes = (end as u64).min(capacity).checked_sub(offset).filter(|&bytes| bytes > 0)?;
        return Some(Request { offset, bytes: bytes.min(request.bytes), ..request });
    }
    // Near the end the size, which is not scaled, may reach beyond: such requests move down.
    let highest = capacity.checked_sub(within + request.bytes)? / FOOTPRINT_BYTES * FOOTPRINT_BYTES;
    Some(Request { offset: scaled.min(highest) + within, ..request })
}

impl Source for Adapted {
    fn fill(&mut self, batch: &mut Vec<Request>, limit: usize) -> Result<(), WorkloadError> {
        let limit = limit.min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let mut wanted = limit;
        let mut result = Ok(());
        loop {
            let ready = self.ready.len().min(wanted);
            batch.extend(self.ready.drain(..ready));
            wanted -= ready;
            if wanted == 0 || self.ended || result.is_err() {
                break;
            }
            let mut input = std::mem::take(&mut self.input);
            input.clear();
            result = self.inner.fill(&mut input, wanted);
            self.ended = input.is_empty();
            for &request in &input {
                self.number += 1;
                if let Err(beyond) = self.place(request) {
                    result = Err(beyond);
                    break;
                }
            }
            self.input = input;
        }
        let yielded = (limit - wanted) as u64;
        self.left -= yielded;
        let inner = self.inner.intake();
        self.intake.requests += yielded;
        self.intake.skipped = inner.skipped;
        self.intake.first_skipped.clone_from(&inner.first_skipped);
        self.intake.out_of_order = inner.out_of_order;
        self.intake.worst_disorder_ns = inner.worst_disorder_ns;
        self.intake.unended = inner.unended;
        self.intake.sha256.clone_from(&inner.sha256);
        self.intake.ignored = inner.ignored + self.dropped;
        if self.intake.volumes.is_empty() {
            self.intake.volumes = vec![self.layout.name.clone()];
        }
        result
    }

    fn intake(&self) -> &Intake {
        &self.intake
    }

    fn timed(&self) -> bool {
        self.inner.timed()
    }
}

#[cfg(test)]
pub(super) mod testing {
    use super::*;

    /// A source of given requests.
    pub(in crate::workload) struct Fixed {
        requests: VecDeque<Request>,
        intake: Intake,
    }

    impl Fixed {
        pub(in crate::workload) fn new(requests: Vec<Request>) -> Self {
            let volumes = requests.iter().map(|request| request.volume).max().map_or(0, |last| last + 1);
            let volumes = (0..volumes).map(|number| format!("device {number}")).collect();
            Self { requests: requests.into(), intake: Intake { volumes, ..Intake::default() } }
        }
    }

    impl Source for Fixed {
        fn fill(&mut self, batch: &mut Vec<Request>, limit: usize) -> Result<(), WorkloadError> {
            let count = limit.min(self.requests.len());
            batch.extend(self.requests.drain(..count));
            self.intake.requests += count as u64;
            Ok(())
        }

        fn intake(&self) -> &Intake {
            &self.intake
        }

        fn timed(&self) -> bool {
            true
        }
    }

    pub(in crate::workload) fn request(
        arrival_ns: u64,
        operation: Operation,
        offset: u64,
        bytes: u64,
        volume: u32,
    ) -> Request {
        Request { arrival_ns, offset, bytes, volume, operation }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::testing::{Fixed, request};
    use super::*;

    fn run(requests: &[Request], adaptation: &Adaptation) -> Result<(Vec<Request>, Intake), WorkloadError> {
        let profile = Profile::of(&mut Fixed::new(requests.to_vec()), 4096).unwrap();
        let mut source = adapt(Box::new(Fixed::new(requests.to_vec())), "test", adaptation, &profile)?;
        let mut all = Vec::new();
        loop {
            let before = all.len();
            source.fill(&mut all, 3)?;
            if all.len() == before {
                return Ok((all, source.intake().clone()));
            }
        }
    }

    fn extents(requests: &[Request]) -> Vec<(u64, u64)> {
        requests.iter().map(|request| (request.offset, request.bytes)).collect()
    }

    const MIB: u64 = 1 << 20;
    use Operation::{Flush, Read, Trim, Write};

    #[test]
    fn concat_rounds_regions_and_select_drops() {
        let all = [request(0, Write, 0, 4096, 0), request(2, Read, 4096, 512, 1), request(4, Flush, 0, 0, 2)];
        let (got, intake) = run(&all, &Adaptation::default()).unwrap();
        assert_eq!(extents(&got), [(0, 4096), (MIB + 4096, 512), (0, 0)]);
        assert!(got.iter().all(|request| request.volume == 0));
        assert_eq!(intake.requests, 3);
        // The idle time before a volume's first request was kept, and the device waited for it.
        assert_eq!(got.iter().map(|request| request.arrival_ns).collect::<Vec<_>>(), [0, 2, 4]);
        for volumes in ["1", "device 1"] {
            let adaptation = Adaptation { volumes: Volumes::Select(volumes.into()), ..Adaptation::default() };
            let (got, intake) = run(&all, &adaptation).unwrap();
            assert_eq!((got[0].arrival_ns, extents(&got)), (0, vec![(4096, 512)]));
            assert_eq!((intake.ignored, &intake.volumes[0][..]), (2, "device 1"));
        }
        let adaptation = Adaptation { volumes: Volumes::Select("9".into()), ..Adaptation::default() };
        assert!(run(&all, &adaptation).unwrap_err().fix.contains("device 2"));
    }

    #[test]
    fn time_and_limit() {
        let all = [request(0, Write, 0, 512, 0), request(1000, Write, 0, 512, 0), request(9000, Write, 0, 512, 0)];
        let adaptation = Adaptation { time_factor: 0.5, limit: Some(2), ..Adaptation::default() };
        let (got, _) = run(&all, &adaptation).unwrap();
        assert_eq!(got.iter().map(|request| request.arrival_ns).collect::<Vec<_>>(), [0, 500]);
        assert!(run(&all, &Adaptation { time_factor: f64::NAN, ..Adaptation::default() }).is_err());
        // It was clipped to 64 bits, and the device's times ran over.
        let far = Adaptation { time_factor: 1e20, ..Adaptation::default() };
        let error = run(&all, &far).unwrap_err().to_string();
        assert!(error.contains("after the first, and 4611686018 s are the most (check the unit"), "{error}");
    }

    fn fitted(all: &[Request], fit: Fit, capacity: u64) -> Result<Vec<Request>, WorkloadError> {
        run(all, &Adaptation { capacity_bytes: Some(capacity), fit, ..Adaptation::default() }).map(|(got, _)| got)
    }

    #[test]
    fn beyond_the_capacity() {
        let all = [request(0, Write, 0, 4096, 0), request(0, Write, 5 * MIB - 4096, 8192, 0)];
        let error = fitted(&all, Fit::Error, 4 * MIB).unwrap_err();
        assert!(error.what.contains("request 2") && error.what.contains("5238784"), "{error}");
        let got = fitted(&all, Fit::Fold, 5 * MIB).unwrap();
        assert_eq!(extents(&got), [(0, 4096), (5 * MIB - 4096, 4096), (0, 4096)]);
        let got = fitted(&all, Fit::Compact, 4 * MIB).unwrap();
        assert_eq!(extents(&got), [(0, 4096), (2 * MIB - 4096, 8192)]);
        assert!(fitted(&all, Fit::Compact, 2 * MIB).is_err());
        let got = fitted(&all, Fit::Scale, MIB).unwrap();
        assert_eq!(extents(&got), [(0, 4096), (MIB - 8192, 8192)]);
        for fit in [Fit::Error, Fit::Fold, Fit::Compact, Fit::Scale] {
            assert_eq!(fitted(&all, fit, 6 * MIB).unwrap(), all, "what fits is left alone");
            assert!(fitted(&all, fit, 0).is_err());
        }
        // Devices with smaller pages have such capacities; only scaling moves pages of 4 KiB.
        let uneven = 5 * MIB + 2048;
        let error = fitted(&all, Fit::Scale, uneven).unwrap_err();
        assert!(error.what.contains("cannot be scaled") && error.what.contains("multiple of 4 KiB"), "{error}");
        assert_eq!(extents(&fitted(&all, Fit::Fold, uneven).unwrap())[2], (0, 2048));
        assert_eq!(fitted(&all, Fit::Scale, uneven + 4096).unwrap(), all, "what fits is not scaled");
    }

    #[test]
    fn trims_of_everything() {
        let all = [request(0, Write, 9 * MIB + 512, 512, 0), request(0, Trim, 0, 100 * MIB, 0)];
        assert_eq!(extents(&fitted(&all, Fit::Fold, MIB).unwrap()), [(512, 512), (0, MIB)]);
        assert_eq!(extents(&fitted(&all, Fit::Compact, MIB).unwrap()), [(512, 512), (0, MIB)]);
        assert_eq!(extents(&fitted(&all, Fit::Scale, MIB).unwrap())[1], (0, MIB));
        let all = [request(0, Write, 9 * MIB, 512, 0), request(0, Trim, 3 * MIB, MIB, 0)];
        assert_eq!(extents(&fitted(&all, Fit::Compact, MIB).unwrap()), [(0, 512)]);
    }

    proptest! {
        #[test]
        fn everything_fits_and_nothing_is_lost(
            raw in prop::collection::vec((0_u64..64 * MIB, 1_u64..3 * MIB, 0_u32..3, 0..3_u8), 1..40),
            capacity in 1_u64..64,
        ) {
            let capacity = capacity * MIB;
            let kind = |kind| [Read, Write, Trim][usize::from(kind)];
            let all: Vec<_> =
                raw.iter().map(|&(offset, bytes, volume, op)| request(0, kind(op), offset, bytes, volume)).collect();
            let bytes = |of: &[Request]| {
                of.iter().filter(|request| request.operation != Trim).map(|request| request.bytes).sum::<u64>()
            };
            for fit in [Fit::Fold, Fit::Compact, Fit::Scale] {
                let Ok(got) = fitted(&all, fit, capacity) else {
                    prop_assert!(fit != Fit::Fold);
                    continue;
                };
                prop_assert!(got.iter().all(|request| request.bytes > 0));
                prop_assert!(got.iter().all(|request| request.offset + request.bytes <= capacity));
                prop_assert_eq!(bytes(&got), bytes(&all));
                if fit != Fit::Fold {
                    let pages = |of: &[Request]| {
                        let kept = of.iter().filter(|request| request.operation != Trim);
                        kept.map(|request| request.offset % 4096).collect::<Vec<_>>()
                    };
                    prop_assert_eq!(pages(&got), pages(&all));
                }
            }
        }
    }
}

//! The workload of a comparison: it is read once, the device is sized by it, and its requests are fitted to the device.

use super::Experiment;
use super::checks::check_times;
use crate::args::{CompareArgs, Host, OutOfRange};
use crate::commands::compare::Workload;
use crate::error::CliError;
use crate::feed::{BEHIND, Limited, Received, Recorder, Shared, broadcast};
use crate::units;
use crate::workload::{GENERATED_BYTES, Opened, Origin, Space, share_bytes};
use flash::device::Device;
use sim::host::HostModel;
use sim::workload::adapt::{self, Adaptation, Fit, adapt};
use sim::workload::profile::Profile;
use sim::workload::{Source, WorkloadError};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread;

/// The widest address span that is simulated as it is unless the user fixes a capacity.
const WIDEST_BYTES: u64 = 64 << 30;

/// Requests under way if the workload has no times.
const DEPTH: u32 = 32;

/// Where the requests of a workload come from that has so many bytes of the device.
pub(super) fn origin(args: &CompareArgs, workload: &Workload, capacity_bytes: u64) -> Result<Origin, CliError> {
    Ok(match workload {
        Workload::Trace(path) => {
            Origin::Trace { path: path.clone(), format: args.format.clone(), on_error: args.on_error }
        }
        Workload::Given(name, given) => Origin::Given(name.clone(), given.clone()),
        Workload::Generated(spec) => Origin::generated(spec, capacity_bytes)?,
        Workload::Flows(flows) => {
            let each_bytes = share_bytes(capacity_bytes, flows.len());
            let of = |(flow, _): &(Workload, _)| {
                origin(args, flow, each_bytes).map_err(|error| {
                    let share = format!("each of {} has {} of the device", flows.len(), units::bytes(each_bytes));
                    let is_of_size = error.message().contains("capacity");
                    error.within(if is_of_size { format!("--flow, {share}") } else { "--flow".to_owned() })
                })
            };
            Origin::Flows(flows.iter().map(of).collect::<Result<_, _>>()?)
        }
    })
}

/// The requests of one seed, as every run gets them.
pub(super) enum Feed {
    /// In memory, as every run takes them.
    Shared(Shared),
    /// In memory, as they were handed over: every run adapts them for itself.
    Given(Box<dyn Fn() -> Result<Box<dyn Source>, WorkloadError> + Send + Sync>),
    /// Read again for each wave.
    Streamed { profile: Arc<Profile>, adaptation: Adaptation, seed: u64 },
}

/// A workload after its first reading.
pub(super) struct Read {
    pub(super) profile: Arc<Profile>,
    pub(super) kept: Option<Box<dyn Source>>,
    /// Whether the requests can be had again without reading the workload again.
    pub(super) in_memory: bool,
    pub(super) announcement: Option<String>,
    /// Whether the arrivals of each flow mean anything; nothing of a single workload.
    pub(super) flows_timed: Vec<bool>,
}

/// What the device is and how the workload was fitted to it.
pub(super) struct Fitted {
    pub(super) device: Device,
    pub(super) fit: Fit,
    pub(super) sentence: String,
}

/// When requests arrive: as asked for, or as suits the workload.
pub(super) fn model(asked: Option<Host>, timed: bool) -> HostModel {
    match asked {
        Some(Host::Open) => HostModel::Open,
        Some(Host::Closed { depth }) => HostModel::Closed(depth),
        None if timed => HostModel::Open,
        None => HostModel::Closed(DEPTH),
    }
}

impl Experiment<'_> {
    /// The streams that share the device: what each is called, and when its requests arrive.
    pub(super) fn flows(&self, read: &Read) -> Result<Vec<(String, HostModel)>, CliError> {
        let (Workload::Flows(flows), Origin::Flows(origins)) = (&self.plan.workload, &self.origin) else {
            return Ok(Vec::new());
        };
        if !read.in_memory {
            let what = "together they do not fit in memory, where each waits for its turn; give shorter ones";
            return Err(CliError::new(what).within("--flow"));
        }
        let of = |(((_, own), origin), &timed): ((&(Workload, Option<Host>), &Origin), &bool)| {
            let host = own.or(self.args.host);
            check_times(origin, host, timed).map_err(|error| error.within("--flow"))?;
            Ok((origin.name(), model(host, timed)))
        };
        flows.iter().zip(origins).zip(&read.flows_timed).map(of).collect()
    }

    pub(super) fn open(&self, seed: u64) -> Result<Opened, CliError> {
        self.origin.open(seed, self.spec.capacity().unwrap_or(GENERATED_BYTES))
    }

    /// Reads the workload, or takes what was read for another run: its profile, and its requests if they fit in memory.
    pub(super) fn read(&self, seed: u64) -> Result<Read, CliError> {
        let capacity = self.spec.capacity().unwrap_or(GENERATED_BYTES);
        match self.readings.as_ref().zip(self.origin.identity(seed, capacity)) {
            Some((readings, identity)) => {
                let key = format!("{identity} {:?} {:?}", self.most(), self.args.volumes.adapted());
                readings.get(&key, || self.read_anew(seed), || !self.stopped())
            }
            None => self.read_anew(seed),
        }
    }

    /// Reads the workload. Parsing and profiling go side by side.
    fn read_anew(&self, seed: u64) -> Result<Read, CliError> {
        let Opened { mut source, announcement, timed } = self.open(seed)?;
        let flows_timed = if matches!(self.origin, Origin::Flows(_)) { timed } else { Vec::new() };
        // Of one volume among several the limit counts its own requests only.
        let limit = self.most().filter(|_| self.args.volumes.adapted() == adapt::Volumes::Concat);
        let mut source = Limited::new(source.as_mut(), limit, self.stop);
        if let Origin::Given(..) = self.origin {
            let profile = Arc::new(Profile::of(&mut source, 4096)?);
            return Ok(Read { profile, kept: None, in_memory: true, announcement, flows_timed });
        }
        thread::scope(|scope| {
            let (sender, receiver) = sync_channel(BEHIND);
            scope.spawn(move || broadcast(&mut source, &mut vec![sender]));
            let mut recorder =
                Recorder::new(Received::new(receiver, 1), self.limits.requests_in_memory, &self.progress);
            let profile = Arc::new(Profile::of(&mut recorder, 4096)?);
            let kept = recorder.kept().map(|kept| Box::new(kept) as Box<dyn Source>);
            Ok(Read { profile, in_memory: kept.is_some(), kept, announcement, flows_timed })
        })
    }

    /// Sizes the device and decides how addresses beyond it are treated.
    pub(super) fn fit(&self, profile: &Profile) -> Result<Fitted, CliError> {
        let place = self.origin.place();
        let volumes = self.args.volumes.adapted();
        let span = adapt::span_bytes(&place, &volumes, profile)?;
        let asked = self.args.out_of_range;
        let space = self.origin.space();
        let (capacity, fit, sentence) = match (self.spec.capacity(), space) {
            (Some(capacity), _) => {
                let fit = asked.unwrap_or(OutOfRange::Error).fit();
                (capacity, fit, self.beyond(&place, span, capacity, fit)?)
            }
            (None, Space::Device) => {
                let sentence = format!(
                    "The device exports {}, as no capacity is given (--device NAME:capacity=SIZE).",
                    units::bytes(GENERATED_BYTES)
                );
                (GENERATED_BYTES, Fit::Error, sentence)
            }
            // As large as then, so that blocks are collected as they were.
            (None, Space::Recorded(bytes)) if span <= bytes.max(self.least_bytes) => {
                let capacity = bytes.max(self.least_bytes);
                let how =
                    if capacity == bytes { "as the recorded one did" } else { "the least that all schemes can use" };
                (capacity, Fit::Error, format!("The device exports {}, {how}.", units::bytes(capacity)))
            }
            (None, Space::Bytes(_) | Space::Recorded(_) | Space::Requests) => {
                let span = if let Space::Bytes(bytes) = space { span.max(bytes) } else { span };
                self.sized(&place, span, profile)?
            }
        };
        let device = self.spec.build(Some(capacity)).map_err(CliError::new)?;
        Ok(Fitted { device, fit, sentence })
    }

    /// A device as large as the addresses, or if they are too far apart as the parts of them that are used.
    fn sized(&self, place: &str, span: u64, profile: &Profile) -> Result<(u64, Fit, String), CliError> {
        let rounded = |bytes: u64| bytes.next_power_of_two().max(self.least_bytes);
        if span <= WIDEST_BYTES {
            let capacity = rounded(span);
            let how = if capacity == self.least_bytes { ", but no less than all schemes can use" } else { "" };
            let sentence = format!(
                "The device exports {}: the addresses' span of {}, rounded up to a power of two{how}.",
                units::bytes(capacity),
                units::bytes(span)
            );
            return Ok((capacity, Fit::Error, sentence));
        }
        match self.args.out_of_range.unwrap_or(OutOfRange::Compact) {
            OutOfRange::Compact => {
                let used = adapt::used_bytes(place, &self.args.volumes.adapted(), profile)?;
                let sentence = format!(
                    "The addresses span {}; the {} of them in used extents of 1 MiB were moved together, in order, on \
                     a device that exports {} (--out-of-range compact).",
                    units::bytes(span),
                    units::bytes(used),
                    units::bytes(rounded(used))
                );
                Ok((rounded(used), Fit::Compact, sentence))
            }
            other => Ok((WIDEST_BYTES, other.fit(), self.beyond(place, span, WIDEST_BYTES, other.fit())?)),
        }
    }

    /// What happens to addresses beyond a capacity.
    fn beyond(&self, place: &str, span: u64, capacity: u64, fit: Fit) -> Result<String, CliError> {
        let (span_text, capacity_text) = (units::bytes(span), units::bytes(capacity));
        if span <= capacity {
            return Ok(format!("The device exports {capacity_text}; the addresses span {span_text}."));
        }
        let how = match fit {
            Fit::Error => {
                return Err(CliError::new(format_args!(
                    "{place}: the addresses span {span} bytes ({span_text}), the device exports {capacity} \
                     ({capacity_text}); enlarge its capacity, or give --out-of-range fold, compact or scale"
                )));
            }
            Fit::Fold => "addresses are taken modulo that (--out-of-range fold)",
            Fit::Compact => "used extents of 1 MiB are moved together, in order (--out-of-range compact)",
            Fit::Scale => "addresses are scaled down (--out-of-range scale)",
        };
        Ok(format!("The addresses span {span_text}, the device exports {capacity_text}: {how}."))
    }

    /// Fits a workload to the device; its requests are given up.
    pub(super) fn feed(&self, read: &mut Read, fitted: &Fitted, seed: u64) -> Result<Feed, CliError> {
        let device = &fitted.device;
        let adaptation = Adaptation {
            volumes: self.args.volumes.adapted(),
            capacity_bytes: Some(u64::from(device.logical_pages) * u64::from(device.geometry.page_bytes)),
            fit: fitted.fit,
            time_factor: self.args.time_scale,
            limit: self.most(),
            tell_volumes: !self.flows.is_empty(),
        };
        if let Origin::Given(name, given) = &self.origin {
            let (name, given, profile) = (name.clone(), given.clone(), Arc::clone(&read.profile));
            let open = move || adapt(given.0.source(), &name, &adaptation, &profile);
            // What is wrong with the adaptation is said here, and by no run.
            open()?;
            return Ok(Feed::Given(Box::new(open)));
        }
        let Some(kept) = read.kept.take() else {
            if let Some(once) = self.origin.read_once() {
                let what = "its requests do not fit in memory, but it can be read only once; write them to a file, or \
                            give --limit";
                return Err(CliError::new(what).within(once.display()));
            }
            return Ok(Feed::Streamed { profile: Arc::clone(&read.profile), adaptation, seed });
        };
        let mut source = adapt(kept, &self.origin.place(), &adaptation, &read.profile)?;
        Ok(Feed::Shared(Shared::read(source.as_mut())?))
    }
}

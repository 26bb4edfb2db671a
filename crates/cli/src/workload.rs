//! Where the requests of a command come from: a trace file, a recording, a generator, or a twin of a trace's beginning.

use crate::args::{OnError, OutOfRange, Volumes};
use crate::error::CliError;
use crate::open::{RECORDING, Trace, is_read_once, open, open_recording, recording};
use crate::session::Given;
use recordings::Recording;
use sim::units;
use sim::workload::adapt::Fit;
use sim::workload::generate::{self, Context, Twin, TwinModel, fit, published};
use sim::workload::merge::Merged;
use sim::workload::{Source, WorkloadError, adapt, format};
use std::path::{Path, PathBuf};

/// The generator that is fitted to a trace file: `twin-of:FILE,prefix=10k,requests=1M`.
pub(crate) const TWIN_OF: &str = "twin-of";

/// Bytes of the device that a generator fills if nobody says otherwise.
pub(crate) const GENERATED_BYTES: u64 = 4 << 30;

/// A source that can be opened any number of times.
pub(crate) enum Origin {
    /// A trace file.
    Trace {
        /// The file.
        path: PathBuf,
        /// The format, if it shall not be recognised.
        format: Option<String>,
        /// What to do at malformed records.
        on_error: OnError,
    },
    /// A recording that is on board.
    Recording(&'static Recording),
    /// Requests that were handed over, by their name.
    Given(String, Given),
    /// A specification in the table of generators.
    Generated(String),
    /// A twin of the beginning of a trace file.
    Fitted {
        /// The specification.
        spec: String,
        /// What was fitted.
        model: Box<TwinModel>,
        /// Requests to make.
        requests: u64,
    },
    /// Several at once, each a volume of its own.
    Flows(Vec<Origin>),
}

/// Seeds of streams lie so far apart, and those of repetitions between them.
const SEED_STEP: u64 = 1 << 32;

/// An opened workload.
pub(crate) struct Opened {
    /// The requests.
    pub(crate) source: Box<dyn Source>,
    /// What was recognised, for a trace.
    pub(crate) announcement: Option<String>,
    /// Whether arrivals mean anything: of each flow, or of the one workload.
    pub(crate) timed: Vec<bool>,
}

impl Opened {
    fn of(source: Box<dyn Source>, announcement: Option<String>) -> Opened {
        let timed = vec![source.timed()];
        Opened { source, announcement, timed }
    }
}

impl From<WorkloadError> for CliError {
    fn from(error: WorkloadError) -> CliError {
        CliError::new(error)
    }
}

impl Origin {
    /// The workload of this specification, if it suits a device of so many bytes.
    ///
    /// # Errors
    /// Whatever is wrong with it.
    pub(crate) fn generated(spec: &str, capacity_bytes: u64) -> Result<Origin, CliError> {
        let (name, rest) = spec.split_once(':').unwrap_or((spec, ""));
        if name == TWIN_OF {
            return fitted(spec, rest);
        }
        if let Some(recording) = recording(&format!("{name}:{rest}"))? {
            return Ok(Origin::Recording(recording));
        }
        let origin = Origin::Generated(spec.to_owned());
        // Anything wrong with a specification is found by making its source.
        origin.open(1, capacity_bytes)?;
        Ok(origin)
    }

    /// What a report calls it.
    pub(crate) fn name(&self) -> String {
        match self {
            Origin::Trace { path, .. } => path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned(),
            Origin::Recording(recording) => format!("{RECORDING}:{}", recording.name),
            Origin::Generated(spec) | Origin::Fitted { spec, .. } | Origin::Given(spec, _) => spec.clone(),
            Origin::Flows(flows) => flows.iter().map(Origin::name).collect::<Vec<_>>().join(" + "),
        }
    }

    /// What stands for it in errors.
    pub(crate) fn place(&self) -> String {
        match self {
            Origin::Trace { path, .. } => path.display().to_string(),
            Origin::Recording(_) => self.name(),
            Origin::Generated(spec) | Origin::Fitted { spec, .. } | Origin::Given(spec, _) => spec.clone(),
            Origin::Flows(flows) => flows.iter().map(Origin::place).collect::<Vec<_>>().join(" + "),
        }
    }

    /// Whether every seed gives another workload.
    pub(crate) fn is_seeded(&self) -> bool {
        match self {
            Origin::Trace { .. } | Origin::Recording(_) | Origin::Given(..) => false,
            Origin::Generated(_) | Origin::Fitted { .. } => true,
            Origin::Flows(flows) => flows.iter().any(Origin::is_seeded),
        }
    }

    /// What tells its requests from those of any other workload, opened with this seed for a device of so many bytes;
    /// `None` if only whoever brought them along can tell.
    pub(crate) fn identity(&self, seed: u64, capacity_bytes: u64) -> Option<String> {
        match self {
            Origin::Trace { path, format, on_error } => Some(format!("{path:?} {format:?} {on_error:?}")),
            Origin::Recording(_) => Some(self.name()),
            Origin::Generated(_) | Origin::Fitted { .. } => {
                let room = (self.space() == Space::Device).then_some(capacity_bytes);
                Some(format!("{} {seed} {room:?}", self.place()))
            }
            Origin::Given(..) | Origin::Flows(_) => None,
        }
    }

    /// What of it is gone once it was read.
    pub(crate) fn read_once(&self) -> Option<&Path> {
        match self {
            Origin::Trace { path, .. } => Some(path.as_path()).filter(|path| is_read_once(path)),
            Origin::Flows(flows) => flows.iter().find_map(Origin::read_once),
            Origin::Recording(_) | Origin::Given(..) | Origin::Generated(_) | Origin::Fitted { .. } => None,
        }
    }

    /// Opens it. Generators spread over `capacity_bytes` unless they have a space of their own.
    ///
    /// # Errors
    /// Those of opening a trace or making a generator.
    pub(crate) fn open(&self, seed: u64, capacity_bytes: u64) -> Result<Opened, CliError> {
        let silent = |source| Opened::of(source, None);
        Ok(match self {
            Origin::Trace { path, format, on_error } => {
                let Trace { source, announcement } = open(path, &reading(format.as_deref(), *on_error))?;
                Opened::of(source, Some(announcement))
            }
            Origin::Recording(recording) => silent(open_recording(recording, None)?.source),
            Origin::Given(_, given) => silent(given.0.source()),
            Origin::Generated(spec) => {
                let made = generate::generate(spec, &Context { capacity_bytes, seed });
                silent(made.map_err(|mut error| {
                    if Path::new(spec).is_file() {
                        let read = "there is a file of that name: `compare FILE` reads it, `trace convert` converts it";
                        error.fix = read.to_owned();
                    }
                    error
                })?)
            }
            Origin::Fitted { model, requests, .. } => silent(Box::new(Twin::new(model, *requests, seed)?)),
            Origin::Flows(flows) => {
                let each_bytes = share_bytes(capacity_bytes, flows.len());
                let mut sources = Vec::new();
                let (mut announcements, mut each_timed) = (Vec::new(), Vec::new());
                for (number, flow) in flows.iter().enumerate() {
                    let seed = seed.wrapping_add(number as u64 * SEED_STEP);
                    let Opened { source, announcement, timed } = flow.open(seed, each_bytes)?;
                    each_timed.extend(timed);
                    sources.push((flow.place(), source));
                    announcements.extend(announcement);
                }
                let announcement = (!announcements.is_empty()).then(|| announcements.join(", "));
                Opened { source: Box::new(Merged::new(sources)), announcement, timed: each_timed }
            }
        })
    }

    /// The address space that the workload was made for, in bytes; `None` if only its requests can tell, or if it
    /// adapts to the device.
    pub(crate) fn space(&self) -> Space {
        match self {
            Origin::Trace { .. } | Origin::Given(..) | Origin::Flows(_) => Space::Requests,
            Origin::Recording(recording) => Space::Recorded(recording.capacity_bytes),
            Origin::Fitted { model, .. } => Space::Bytes(model.span_bytes),
            Origin::Generated(spec) => match spec.split_once(':').unwrap_or((spec, "")) {
                ("twin", rest) => {
                    let first = rest.split(',').next().unwrap_or_default();
                    let named = rest.split(',').find_map(|item| item.strip_prefix("of="));
                    let name =
                        named.unwrap_or(if first.is_empty() || first.contains('=') { "financial1" } else { first });
                    published::find(name).map_or(Space::Device, |twin| Space::Bytes(twin.model().span_bytes))
                }
                _ => Space::Device,
            },
        }
    }
}

/// Bytes of a device that each of several flows has. Regions are rounded up to 1 MiB when they are laid one behind the
/// other.
pub(crate) fn share_bytes(capacity_bytes: u64, flows: usize) -> u64 {
    ((capacity_bytes / flows as u64) >> 20 << 20).max(1 << 20)
}

/// What determines a workload's address space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Space {
    /// Its requests alone: a trace.
    Requests,
    /// It was recorded on a device of so many bytes.
    Recorded(u64),
    /// It has one of so many bytes: a twin.
    Bytes(u64),
    /// It takes the device's: a generator.
    Device,
}

/// How a trace is opened.
pub(crate) fn reading(format: Option<&str>, on_error: OnError) -> format::OpenOptions<'_> {
    let on_error = match on_error {
        OnError::Stop => format::OnError::Stop,
        OnError::Skip => format::OnError::Skip,
    };
    format::OpenOptions { format, on_error, limit: None }
}

impl Volumes {
    /// The same for the adaptors.
    pub(crate) fn adapted(&self) -> adapt::Volumes {
        match self {
            Volumes::Concat => adapt::Volumes::Concat,
            Volumes::Select(volume) => adapt::Volumes::Select(volume.clone()),
        }
    }
}

impl OutOfRange {
    /// The same for the adaptors.
    pub(crate) fn fit(self) -> Fit {
        match self {
            OutOfRange::Error => Fit::Error,
            OutOfRange::Fold => Fit::Fold,
            OutOfRange::Compact => Fit::Compact,
            OutOfRange::Scale => Fit::Scale,
        }
    }
}

/// `FILE,prefix=10k,requests=1M`: fits a twin to the beginning of a file.
fn fitted(spec: &str, rest: &str) -> Result<Origin, CliError> {
    let fault = |what: String| CliError::new(what).within(spec);
    let mut items = rest.split(',');
    let file = items.next().filter(|file| !file.is_empty() && !file.contains('='));
    let file = file.ok_or_else(|| fault(format!("name the trace file, as in {TWIN_OF}:FILE,prefix=10k")))?;
    let (mut prefix, mut requests) = (10_000, 1_000_000);
    for item in items {
        let (key, value) =
            item.split_once('=').ok_or_else(|| fault(format!("`{item}` is not of the form key=value")))?;
        let place = match key {
            "prefix" => &mut prefix,
            "requests" => &mut requests,
            _ => return Err(CliError::unknown("key", key, ["prefix", "requests"]).within(spec)),
        };
        *place = units::parse_count(value).map_err(|error| fault(error.to_string()))?;
        if *place == 0 {
            return Err(fault(format!("{key}: 0 is out of range (allowed: at least 1)")));
        }
    }
    let mut source = open(Path::new(file), &reading(None, OnError::Stop))?.source;
    let mut first = Vec::new();
    while (first.len() as u64) < prefix {
        let (before, left) = (first.len(), prefix - first.len() as u64);
        source.fill(&mut first, left.min(1 << 16) as usize)?;
        if first.len() == before {
            break;
        }
    }
    let model = fit(&first).map_err(|error| fault(format!("{} ({})", error.what, error.fix)))?;
    Ok(Origin::Fitted { spec: spec.to_owned(), model: Box::new(model), requests })
}

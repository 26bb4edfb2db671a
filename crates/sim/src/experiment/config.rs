//! What a run depends on beside its workload: the device and how it is filled, the scheme, the host, the end.

use super::Filled;
use crate::host::HostModel;
use flash::Scheduling;
use flash::device::Device;
use ftl::{Settings, buffer};
use std::sync::Arc;

/// How the device is filled before the workload begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fill {
    /// Blank.
    None,
    /// Every page written once, in order.
    Sequential,
    /// Every page written once, in random order.
    Random,
    /// Filled in order, then overwritten at random until write amplification is steady by SNIA's five-round rule, but
    /// for no more than [`super::MOST_ROUNDS`].
    Steady,
    /// By the workload itself, every request once: reads as writes, and writes of parts of pages as writes of whole
    /// ones, as the released FlashSim warms up. Discards and flushes are what they are, in their places. The source can
    /// be rewound, and there is one stream.
    Trace,
}

impl Fill {
    /// Names on the command line.
    pub const NAMES: &'static [(&'static str, Fill)] = &[
        ("none", Fill::None),
        ("sequential", Fill::Sequential),
        ("random", Fill::Random),
        ("steady", Fill::Steady),
        ("trace", Fill::Trace),
    ];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, fill)| *fill == self).expect("every fill has a name").0
    }
}

/// What a host write that covers only a part of a page costs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PartialPages {
    /// The page is read first, if it holds anything.
    ReadModifyWrite,
    /// It is written as if whole, as FlashSim does.
    Ignore,
}

/// How long the workload is repeated.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Until {
    /// It is served once.
    WorkloadEnds,
    /// To the end of the iteration in which blocks have been erased so often on average, in the measured phase.
    MeanErases(f64),
    /// Until worn blocks leave no room. A block fails the first erase beyond the device's endurance. Erases of the fill
    /// do not count.
    EndOfLife,
}

/// What the medium keeps of each page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Medium {
    /// Kind and LPN: for measuring.
    Brief,
    /// Version and program number too: what a mount needs.
    Recoverable,
}

/// Everything that a run depends on beside its workload.
#[derive(Clone, Debug)]
pub struct Config {
    /// Name of the scheme.
    pub scheme: String,
    /// Its parameters, and those of the write buffer in front of it if there is one ([`ftl::buffer::add_to`]).
    pub settings: Settings,
    /// The device.
    pub device: Device,
    /// Seed of everything random in the run.
    pub seed: u64,
    /// How the device is filled first.
    pub fill: Fill,
    /// When requests arrive.
    pub host: HostModel,
    /// What partial pages cost.
    pub partial: PartialPages,
    /// What the medium keeps.
    pub medium: Medium,
    /// Requests served before measuring begins.
    pub warmup: u64,
    /// How long the workload is repeated. The source can be rewound, and there is no warm-up, unless it is served once.
    pub until: Until,
    /// Whether to mount the device from flash afterwards and report what that takes ([`crate::report::MOUNT`]).
    pub mount: bool,
    /// Length of an interval of the series in simulated time, ns; 0 for no series.
    pub series_ns: u64,
    /// How commands queue; `None`: they are placed as they are issued. Not in single-server
    /// mode.
    pub scheduling: Option<Scheduling>,
    /// When requests arrive of each of several streams, which are told apart by [`crate::workload::Request::volume`];
    /// empty if there is only one, to which [`Config::host`] applies. Several are served once.
    pub flows: Vec<HostModel>,
    /// The stream whose requests alone are served, if not all.
    pub only_flow: Option<u32>,
    /// How long nothing must have been under way before the scheme does background work, ns; `None`: it does none.
    pub idle_ns: Option<u64>,
    /// Where the filled device is kept for later runs that begin alike, and taken from; `None`: nowhere.
    pub filled: Option<Arc<Filled>>,
}

impl Config {
    /// A scheme with its settings on a blank device: one open host that does whole requests at their arrivals, from a
    /// workload that is served once, measured from its first request on.
    pub fn new(scheme: &str, settings: Settings, device: Device) -> Config {
        Config {
            scheme: scheme.to_owned(),
            settings,
            device,
            seed: 1,
            fill: Fill::None,
            host: HostModel::Open,
            partial: PartialPages::ReadModifyWrite,
            medium: Medium::Brief,
            warmup: 0,
            until: Until::WorkloadEnds,
            mount: false,
            series_ns: 0,
            scheduling: None,
            flows: Vec::new(),
            only_flow: None,
            idle_ns: None,
            filled: None,
        }
    }

    /// Whether requests are served one by one, as time passes.
    pub(super) fn is_paced(&self) -> bool {
        self.scheduling.is_some() || !self.flows.is_empty() || self.idle_ns.is_some()
    }

    /// Whether a write buffer stands in front of the scheme.
    pub fn is_buffered(&self) -> bool {
        self.settings.get(buffer::POLICY.name).is_some()
    }
}

//! Values of flags: the words that one takes, and what several forms of text mean.

use crate::error::CliError;
use clap::ValueEnum;
use clap::builder::PossibleValue;
use flash::Policy;
use reliability::CodeSpec;
use reliability::cells::Retention;
use sim::units::{UnitError, parse_bytes, parse_count, parse_duration_ns};
use std::ops::Range;
use std::str::FromStr;
use std::time::SystemTime;

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum $name { $($(#[$vdoc])* $variant),+ }

        impl ValueEnum for $name {
            fn value_variants<'a>() -> &'a [Self] {
                &[$($name::$variant),+]
            }
            fn to_possible_value(&self) -> Option<PossibleValue> {
                Some(PossibleValue::new(self.name()))
            }
        }

        impl $name {
            /// The word on the command line.
            pub fn name(self) -> &'static str {
                match self { $($name::$variant => $text),+ }
            }
        }
    };
}

words!(
    /// How collections are dealt over time.
    Rhythm {
        /// Victims in a row, each emptied at once.
        Whole = "whole",
        /// A victim's copies are dealt over the writes that follow.
        Spread = "spread",
    }
);

words!(
    /// The device's state at the start.
    Fill {
        /// Nothing written.
        None = "none",
        /// Every page written once, in order.
        Sequential = "sequential",
        /// Every page written once, in random order.
        Random = "random",
        /// Overwritten at random until the write amplification is steady (SNIA's five rounds).
        Steady = "steady",
        /// Every request of the workload served once, reads as writes.
        Trace = "trace",
    }
);

words!(
    /// What to do at a malformed record.
    OnError {
        /// Stop, naming the file and the line.
        Stop = "stop",
        /// Skip and count it.
        Skip = "skip",
    }
);

words!(
    /// When a served device answers.
    Timing {
        /// When the simulated device would have.
        Emulate = "emulate",
        /// As soon as it can.
        None = "none",
    }
);

words!(
    /// What to do with requests beyond the capacity.
    OutOfRange {
        /// Stop.
        Error = "error",
        /// Address modulo capacity.
        Fold = "fold",
        /// Used extents are moved together, in order.
        Compact = "compact",
        /// All addresses are scaled down.
        Scale = "scale",
    }
);

words!(
    /// How flash commands queue.
    Scheduler {
        /// Not: they are placed as they are issued.
        Fcfs = "fcfs",
        /// By events, in the order of issue.
        InOrder = "in-order",
        /// The host's reads first.
        ReadFirst = "read-first",
        /// The host's reads also before what has begun.
        Suspend = "suspend",
    }
);

impl Scheduler {
    /// Who goes first, if commands queue.
    pub fn policy(self) -> Option<Policy> {
        match self {
            Scheduler::Fcfs => None,
            Scheduler::InOrder => Some(Policy::InOrder),
            Scheduler::ReadFirst => Some(Policy::ReadFirst),
            Scheduler::Suspend => Some(Policy::Suspend),
        }
    }
}

words!(
    /// What to do with writes that cover part of a page.
    Partial {
        /// Read the rest of the page first.
        Rmw = "rmw",
        /// Write the page regardless.
        Ignore = "ignore",
    }
);

/// Who decides when a request arrives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Host {
    /// The workload's own times.
    Open,
    /// A host that keeps `depth` requests under way.
    Closed {
        /// Requests under way, 1 to 65536.
        depth: u32,
    },
}

/// How long the workload is repeated.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Until {
    /// Until blocks were erased so often on average.
    MeanErases(f64),
    /// Until worn blocks leave no room.
    EndOfLife,
}

impl FromStr for Until {
    type Err = String;

    fn from_str(text: &str) -> Result<Until, String> {
        if text.trim() == "end-of-life" {
            return Ok(Until::EndOfLife);
        }
        let number =
            text.split_once('=').filter(|(key, _)| key.trim() == "mean-erases").map(|(_, number)| number.trim());
        match number.map(str::parse::<f64>) {
            Some(Ok(mean)) if mean > 0.0 && mean <= 1e9 => Ok(Until::MeanErases(mean)),
            Some(_) => Err("mean-erases is a number above 0 and up to 1e9, as in mean-erases=20".to_owned()),
            None => Err("write mean-erases=N, as in mean-erases=20, or end-of-life".to_owned()),
        }
    }
}

impl FromStr for Host {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "open" => Ok(Host::Open),
            Some(("closed", depth)) => match depth.parse() {
                Ok(depth @ 1..=65536) => Ok(Host::Closed { depth }),
                _ => Err("the queue depth is a number from 1 to 65536, as in closed:32".to_owned()),
            },
            _ => Err("write open, or closed:QD with a queue depth such as closed:32".to_owned()),
        }
    }
}

/// A write buffer in front of a scheme, or the lack of one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Buffer {
    /// None.
    None,
    /// One of so many bytes.
    Of {
        /// Name of the policy.
        policy: String,
        /// Its size: the pages that it holds.
        bytes: u64,
    },
}

/// Reads `none` or `POLICY:SIZE`.
///
/// # Errors
/// An unknown policy, or a size that is none.
pub(crate) fn parse_buffer(text: &str) -> Result<Buffer, CliError> {
    let names = || ftl::buffer::NAMES.iter().copied();
    let (policy, size) = text.split_once(':').map_or((text, None), |(policy, size)| (policy, Some(size)));
    let policy = policy.trim();
    if policy == "none" {
        return match size {
            None => Ok(Buffer::None),
            Some(_) => Err(CliError::new("none has no size; write none, or POLICY:SIZE as in bplru:1MiB")),
        };
    }
    if ftl::buffer::by_name(policy).is_none() {
        return Err(CliError::unknown("write buffer", policy, names().chain(["none"])));
    }
    let size = size
        .filter(|size| !size.trim().is_empty())
        .ok_or_else(|| CliError::new(format_args!("the size is missing; write POLICY:SIZE, as in {policy}:1MiB")))?;
    let bytes = parse_bytes(size).map_err(CliError::new)?;
    Ok(Buffer::Of { policy: policy.to_owned(), bytes })
}

/// What to make of a trace's several volumes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Volumes {
    /// One behind the other.
    Concat,
    /// This one alone: its number in order of appearance, or its name.
    Select(String),
}

impl FromStr for Volumes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            None if text == "concat" => Ok(Volumes::Concat),
            Some(("select", volume)) if !volume.is_empty() => Ok(Volumes::Select(volume.to_owned())),
            _ => Err("write concat, or select=N with a volume's number or name".to_owned()),
        }
    }
}

/// The seeds of a check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seeds {
    /// These.
    These(u64, u64),
    /// So many that follow from the date.
    Fresh(u64),
}

impl FromStr for Seeds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(count) = text.strip_prefix("fresh:") {
            return parse_positive_count(count).map(Seeds::Fresh);
        }
        let Some((first, end)) = text.split_once("..") else {
            return parse_positive_count(text).map(|count| Seeds::These(0, count));
        };
        match (first.parse(), end.parse()) {
            (Ok(first), Ok(end)) if first < end => Ok(Seeds::These(first, end)),
            _ => Err("write a number of seeds, A..B with A below B, or fresh:N".into()),
        }
    }
}

impl Seeds {
    /// The seeds. Fresh ones begin at a thousand times the seconds since 1970.
    pub fn range(self, now: SystemTime) -> Range<u64> {
        match self {
            Seeds::These(first, end) => first..end,
            Seeds::Fresh(count) => {
                let seconds = now.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
                let first = seconds.saturating_mul(1000);
                first..first.saturating_add(count)
            }
        }
    }
}

/// Where a check cuts the power.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cuts {
    /// At every flash command, in every way.
    All,
    /// At about this many.
    Number(u64),
}

impl FromStr for Cuts {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "all" { Ok(Cuts::All) } else { parse_positive_count(text).map(Cuts::Number) }
    }
}

impl From<Cuts> for sim::check::Cuts {
    fn from(cuts: Cuts) -> Self {
        match cuts {
            Cuts::All => sim::check::Cuts::All,
            Cuts::Number(count) => sim::check::Cuts::Count(count),
        }
    }
}

/// One parameter of one scheme.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setting {
    /// Name of the scheme.
    pub scheme: String,
    /// Name of the parameter.
    pub param: String,
    /// The value as written.
    pub value: String,
}

impl FromStr for Setting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('=').and_then(|(key, value)| Some((key.trim().split_once('.')?, value.trim())));
        match parts {
            Some(((scheme, param), value)) if !scheme.is_empty() && !param.is_empty() && !value.is_empty() => {
                Ok(Setting { scheme: scheme.to_owned(), param: param.to_owned(), value: value.to_owned() })
            }
            _ => Err("write SCHEME.PARAM=VALUE, as in dftl.gc-low=4".to_owned()),
        }
    }
}

pub(super) fn parse_name(text: &str) -> Result<String, String> {
    let name = text.trim();
    if name.is_empty() { Err("a name is missing".to_owned()) } else { Ok(name.to_owned()) }
}

pub(super) fn parse_cache(text: &str) -> Result<u64, String> {
    match parse_bytes(text).map_err(|error| error.to_string())? {
        0 => Err("give a size, or leave --cache out for the default".to_owned()),
        bytes => Ok(bytes),
    }
}

pub(super) fn parse_rber(text: &str) -> Result<f64, String> {
    let rate = text.trim().parse().ok().filter(|rate| (0.0..=0.5).contains(rate));
    rate.ok_or_else(|| "write a probability from 0 to 0.5, as in 1e-4".to_owned())
}

pub(super) fn parse_pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=').map(|(name, value)| (name.trim(), value.trim())) {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write PARAM=VALUE, as in gc-low=2".to_owned()),
    }
}

pub(super) fn parse_pause_ns(text: &str) -> Result<u64, String> {
    parse_duration_ns(text).map_err(|error| error.to_string())
}

pub(super) fn parse_interval_ns(text: &str) -> Result<u64, String> {
    match parse_duration_ns(text).map_err(|error: UnitError| error.to_string())? {
        0 => Err("it must be longer than nothing".to_owned()),
        ns => Ok(ns),
    }
}

pub(super) fn parse_positive_count(text: &str) -> Result<u64, String> {
    match parse_count(text).map_err(|error| error.to_string())? {
        0 => Err("it must be at least 1".to_owned()),
        count => Ok(count),
    }
}

pub(super) fn parse_factor(text: &str) -> Result<f64, String> {
    text.parse::<f64>()
        .ok()
        .filter(|factor| factor.is_finite() && *factor > 0.0)
        .ok_or_else(|| "a factor is a number above 0, such as 0.5 or 10".to_owned())
}

pub(super) fn parse_code(text: &str) -> Result<CodeSpec, String> {
    text.parse()
}

pub(super) fn parse_cycles(text: &str) -> Result<u32, String> {
    let count = parse_count(text).map_err(|error| error.to_string())?;
    count.try_into().map_err(|_| format!("{count} cycles are more than the {} that are understood", u32::MAX))
}

pub(super) fn parse_retention(text: &str) -> Result<Retention, String> {
    text.trim().parse().map_err(|fix| format!("give {fix}"))
}

pub(super) fn parse_threads(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|threads| (1..=1024).contains(threads))
        .ok_or_else(|| "a number of threads is 1 to 1024".to_owned())
}

pub(super) fn parse_mode(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| "a mode is 0 to 777 in octal: 600 for yourself, 660 for your group, 666 for all".to_owned())
}

pub(super) fn parse_seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| "a seed is a whole number from 0 to 2^64 - 1".to_owned())
}

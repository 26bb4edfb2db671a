//! What a comparison has beside its flags: which schemes there are, requests that a program hands over, when to stop,
//! and who is told how far it is. The command line has the schemes of this build, no requests of its own and a bar on
//! the terminal; a program that uses this crate as a library may have others.

use crate::commands::experiment::{Limits, Readings};
use crate::progress::Meter;
use ftl::GcRow;
use ftl::Scheme;
use ftl::schemes::SCHEMES;
use sim::experiment::{self, Config, Filled, Observer, Outcome, RunError};
use sim::workload::Source;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The schemes and victim policies of a comparison.
pub trait Schemes: Sync {
    /// The schemes' rows.
    fn rows(&self) -> Vec<&'static Scheme<'static>>;

    /// The rows of victim policies that are not in the table of this build.
    fn policies(&self) -> Vec<&'static GcRow>;

    /// Runs the scheme that `config` names.
    ///
    /// # Errors
    /// As [`experiment::run`].
    fn run(&self, config: &Config, source: &mut dyn Source, observer: &mut dyn Observer) -> Result<Outcome, RunError>;
}

/// The schemes and policies of this build alone.
#[derive(Clone, Copy, Debug)]
pub struct BuiltIn;

impl Schemes for BuiltIn {
    fn rows(&self) -> Vec<&'static Scheme<'static>> {
        SCHEMES.to_vec()
    }

    fn policies(&self) -> Vec<&'static GcRow> {
        Vec::new()
    }

    fn run(&self, config: &Config, source: &mut dyn Source, observer: &mut dyn Observer) -> Result<Outcome, RunError> {
        experiment::run(config, source, observer)
    }
}

/// Requests that are in memory already; they can be read any number of times, by several threads at once.
pub trait Requests: Send + Sync {
    /// The requests from the first on.
    fn source(&self) -> Box<dyn Source>;
}

/// Requests that a program hands over.
#[derive(Clone)]
pub struct Given(pub Arc<dyn Requests>);

/// Two are equal if they are the same requests in memory.
impl PartialEq for Given {
    fn eq(&self, other: &Given) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Given {}

impl fmt::Debug for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("requests in memory")
    }
}

/// See the module's description.
#[derive(Clone)]
pub struct Session<'a> {
    /// Raised to end the comparison early: what was finished by then is reported.
    pub stop: &'a AtomicBool,
    /// How much memory it may take.
    pub limits: Limits,
    /// Its schemes.
    pub schemes: &'a dyn Schemes,
    /// Workloads by the name that a trace or a flow calls them by.
    pub given: BTreeMap<String, Given>,
    /// Who wants to know how far it is; `None`: whoever looks at the terminal.
    pub meter: Option<Arc<Meter>>,
    /// Where workloads are kept for later comparisons; `None`: nowhere.
    pub readings: Option<Arc<Readings>>,
    /// Where a filled device is kept for runs that begin alike; `None`: nowhere.
    pub filled: Option<Arc<Filled>>,
}

impl<'a> Session<'a> {
    /// That of the command line.
    pub fn new(stop: &'a AtomicBool) -> Session<'a> {
        let (limits, given) = (Limits::default(), BTreeMap::new());
        Session { stop, limits, schemes: &BuiltIn, given, meter: None, readings: None, filled: None }
    }
}

impl fmt::Debug for Session<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("limits", &self.limits).field("given", &self.given).finish_non_exhaustive()
    }
}

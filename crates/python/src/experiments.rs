//! `compare`: keys and values become the flags of the command line, and what it reports comes back.

use crate::errors;
use crate::job;
use crate::policy::Policy;
use crate::requests::Requests;
use crate::scheme::{Foreign, take_raised};
use cli::commands::compare::write;
use cli::commands::experiment::run;
use cli::progress::Meter;
use cli::render;
use cli::render::flat::Flat;
use cli::session::{self, Given, Session};
use cli::{CliError, experiment_file};
use ftl::GcRow;
use ftl::Scheme;
use ftl::schemes::SCHEMES;
use pyo3::prelude::*;
use serde_json::Value;
use sim::check::Raised;
use sim::experiment::{self, Config, Observer, Outcome, RunError};
use sim::report::{self, RequestRecord};
use sim::workload::Source;
use std::collections::BTreeMap;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// The schemes of this build, and those that are written in Python.
struct Schemes {
    own: Vec<Foreign>,
    policies: Vec<&'static GcRow>,
    /// The first exception of the user's code that ended a run.
    raised: Mutex<Option<PyErr>>,
}

impl session::Schemes for Schemes {
    fn rows(&self) -> Vec<&'static Scheme<'static>> {
        SCHEMES.iter().copied().chain(self.own.iter().map(Foreign::row)).collect()
    }

    fn policies(&self) -> Vec<&'static GcRow> {
        self.policies.clone()
    }

    fn run(&self, config: &Config, source: &mut dyn Source, observer: &mut dyn Observer) -> Result<Outcome, RunError> {
        let mut watch = Watch { observer, filled: 0, serving: false, broke: None };
        let own = self.own.iter().find(|own| own.row().name == config.scheme);
        let run = AssertUnwindSafe(|| match own {
            // The interpreter is kept between calls: whoever else wants it gets it while the scheme's code runs.
            Some(own) => Python::attach(|_| experiment::run_recipe(own.row(), own, config, source, &mut watch)),
            None => experiment::run(config, source, &mut watch),
        });
        panic::catch_unwind(run).unwrap_or_else(|cause| {
            let place = match watch.broke {
                Some(request) => format!("at request {request} of the run of {}", config.scheme),
                None if watch.serving => format!("after the last request of the run of {}", config.scheme),
                None => format!("while the device of {} was filled, after {} pages", config.scheme, watch.filled),
            };
            if let Some(exception) = take_raised() {
                let note = format!("raised {place}");
                // An exception that takes no notes is raised without one.
                let _ = Python::attach(|py| exception.value(py).call_method1("add_note", (note,)).map(drop));
                self.raised.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(exception);
                let text = cause.downcast_ref::<Raised>().map_or("", |raised| &raised.0);
                return Err(RunError::Foreign(format!("{place}: {text}")));
            }
            panic::resume_unwind(cause)
        })
    }
}

/// Passes everything on, and remembers where a run broke.
struct Watch<'a> {
    observer: &'a mut dyn Observer,
    filled: u64,
    serving: bool,
    broke: Option<u64>,
}

impl Observer for Watch<'_> {
    fn filled(&mut self, pages: u64) -> bool {
        self.filled += pages;
        self.observer.filled(pages)
    }

    fn served(&mut self, requests: u64) -> bool {
        self.serving = true;
        self.observer.served(requests)
    }

    fn broke(&mut self, request: u64) {
        self.broke = Some(request);
        self.observer.broke(request);
    }

    fn wants_records(&self) -> bool {
        self.observer.wants_records()
    }

    fn record(&mut self, record: &RequestRecord) {
        self.observer.record(record);
    }
}

/// What a comparison found.
#[pyclass(frozen, module = "ftlab._native")]
pub(crate) struct Report {
    report: report::Report,
}

#[pymethods]
impl Report {
    /// The table and its sentences, as the command line prints them.
    fn text(&self, verbose: bool) -> String {
        render::table::render(&self.report, verbose)
    }

    /// The same for a page that has a style of its own.
    fn brief(&self) -> String {
        render::html::brief(&self.report)
    }

    /// A page with tables and plots.
    fn page(&self) -> String {
        render::html::render(&self.report)
    }

    /// The JSON of the command line.
    fn json(&self, py: Python<'_>) -> PyResult<String> {
        render::json::render(&self.report).map_err(|error| errors::input(py, error))
    }

    /// What each result is called.
    fn labels(&self) -> Vec<String> {
        render::labels(&self.report)
    }

    /// One row per result: columns with their values, as JSON.
    fn flat(&self, py: Python<'_>) -> PyResult<String> {
        let flat = Flat::of(&self.report).map_err(|error| errors::input(py, error))?;
        let column = |name: &String| {
            let values = flat.rows.iter().map(|row| row.get(name).cloned().unwrap_or(Value::Null));
            Value::Array(vec![Value::String(name.clone()), values.collect()])
        };
        Ok(Value::Array(flat.columns.iter().map(column).collect()).to_string())
    }
}

/// A report from the JSON of the command line.
#[pyfunction]
pub(crate) fn load(py: Python<'_>, text: &str, name: &str) -> PyResult<Report> {
    let refused = |error: serde_json::Error| errors::input(py, format!("{name}: this is no report of ftlab: {error}"));
    let value: Value = serde_json::from_str(text).map_err(refused)?;
    let (schema, known) = (value.get("schema").and_then(Value::as_u64), u64::from(report::SCHEMA));
    if let Some(schema) = schema.filter(|schema| *schema != known) {
        let what = format!("{name}: the report has schema {schema}, this version of ftlab reads {known}");
        return Err(errors::input(py, what));
    }
    let report = serde_json::from_value(value).map_err(refused)?;
    Ok(Report { report })
}

/// The keys that [`compare`] knows.
#[pyfunction]
pub(crate) fn keys() -> Vec<String> {
    experiment_file::keys()
}

/// Runs a comparison. `keys` are lines `KEY = VALUE` as an experiment file has them, `given` requests in memory by the
/// name that they are called by there. The report, if a run began; and the exception that ended it early, if one did.
#[pyfunction]
pub(crate) fn compare(
    py: Python<'_>,
    keys: &str,
    given: Vec<(String, Py<Requests>)>,
    schemes: Vec<Py<Foreign>>,
    policies: Vec<Py<Policy>>,
    tell: Option<Bound<'_, PyAny>>,
) -> PyResult<(Option<Report>, Option<Py<PyAny>>)> {
    let given: BTreeMap<String, Given> =
        given.into_iter().map(|(name, requests)| (name, requests.get().given())).collect();
    let args = experiment_file::parse_keys(keys, Path::new("")).map_err(|error| errors::input(py, error))?;
    let schemes = Schemes {
        own: schemes.iter().map(|scheme| scheme.get().clone()).collect(),
        policies: policies.iter().map(|policy| policy.get().row()).collect(),
        raised: Mutex::default(),
    };
    let meter = Arc::new(Meter::default());
    let done = job::run(py, &meter, tell.as_ref(), |stop| {
        let session = Session { given, meter: Some(Arc::clone(&meter)), schemes: &schemes, ..Session::new(stop) };
        let report = run(&args, &session)?;
        report.iter().try_for_each(|report| write(report, &args))?;
        Ok::<_, CliError>(report)
    })?;
    // What the user's own code raised is raised again, as it was.
    let raised = || schemes.raised.lock().unwrap_or_else(PoisonError::into_inner).take();
    let report = done.value.map_err(|error| raised().unwrap_or_else(|| errors::input(py, error)))?;
    let interrupted = done.interrupted.map(|exception| exception.into_value(py).into_any());
    Ok((report.map(|report| Report { report }), interrupted))
}

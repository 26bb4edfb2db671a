//! `check`, `reproduce` and `reliability`: the command line's arguments in, its findings out.

use crate::errors;
use crate::job;
use crate::scheme::{Foreign, take_raised};
use cli::CliError;
use cli::args::{self, CheckArgs, Command, Invocation};
use cli::commands::{reliability as part, reproduce as papers};
use cli::progress::Meter;
use cli::session::Session;
use pyo3::prelude::*;
use serde_json::json;
use sim::check::{self as checker, CheckConfig, CheckReport, Failure, FaultClass, Faults};
use std::sync::Arc;
use std::time::SystemTime;

/// The command that these words ask for.
fn command(py: Python<'_>, words: Vec<String>) -> PyResult<Command> {
    let words = std::iter::once("ftlab".to_owned()).chain(words);
    match args::parse(words).map_err(|error| errors::input(py, error))? {
        Invocation::Command(command) => Ok(command),
        Invocation::Print(_) => Err(errors::bug(py, "help was asked for")),
    }
}

/// What [`reproduce`] found: text, JSON, page, and the exception that ended it early.
type Reproduced = (String, Option<String>, Option<String>, Option<Py<PyAny>>);

/// What `ftlab reproduce` with these words finds: the text for people, the JSON if there is any, the page if it is
/// wanted, and the exception that ended it early, if one did. The page is written too, if the words name a file.
#[pyfunction]
pub(crate) fn reproduce(
    py: Python<'_>,
    words: Vec<String>,
    page: bool,
    tell: Option<Bound<'_, PyAny>>,
) -> PyResult<Reproduced> {
    let Command::Reproduce(args) = command(py, words)? else { return Err(errors::bug(py, "not reproduce")) };
    let meter = Arc::new(Meter::default());
    let mut text = String::new();
    let done = job::run(py, &meter, tell.as_ref(), |stop| {
        let session = Session { meter: Some(Arc::clone(&meter)), ..Session::new(stop) };
        let answer = papers::reproduced(&args, page, &session, &mut |part| {
            text.push_str(part);
            Ok(())
        })?;
        papers::write(&args, &answer)?;
        Ok::<_, CliError>(answer)
    })?;
    let answer = done.value.map_err(|error| errors::input(py, error))?;
    let json = answer.json.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    Ok((text, json, answer.html, done.interrupted.map(|exception| exception.into_value(py).into_any())))
}

/// What `ftlab reliability` with these words finds: the text for people and the JSON.
#[pyfunction]
pub(crate) fn reliability(py: Python<'_>, words: Vec<String>) -> PyResult<(String, String)> {
    let Command::Reliability(args) = command(py, words)? else { return Err(errors::bug(py, "not reliability")) };
    let answer = py.detach(|| part::computed(&args)).map_err(|error| errors::input(py, error))?;
    Ok((answer.text, answer.json))
}

/// The configuration of a check of one scheme. One that is written in Python has no RAM to be saved, knows nothing of
/// failing media, and runs on one thread, for there is one interpreter.
fn config(args: &CheckArgs, is_own: bool) -> CheckConfig {
    let all = CheckConfig::new(&args.scheme).behind(args.buffer.clone());
    let config = CheckConfig {
        seeds: args.seeds.map_or(all.seeds.clone(), |seeds| seeds.range(SystemTime::now())),
        operations: args.operations(),
        settings: args.set.clone(),
        threads: if is_own { 1 } else { args.threads.unwrap_or(0) },
        fail_fast: args.fail_fast,
        honesty: !is_own,
        ..all
    };
    let faults = args.faults.unwrap_or(if is_own { CUTS } else { config.faults });
    config.with_faults(faults).with_cuts(args.cuts().into())
}

/// What a scheme that is written in Python is checked for.
const CUTS: Faults = Faults::NONE.with(FaultClass::Cut).with(FaultClass::Nested);

/// A check's report as JSON.
fn told(report: &CheckReport) -> String {
    let phases: Vec<_> =
        report.by_cause.iter().map(|(cause, cuts)| json!({ "phase": cause.name(), "cuts": cuts })).collect();
    let faces: Vec<_> = report.by_face.iter().map(|(face, cuts)| json!({ "left": face, "cuts": cuts })).collect();
    let cases = |failures: &[Failure]| -> Vec<_> {
        failures.iter().map(|failure| json!({ "replay": failure.replay, "what": failure.what })).collect()
    };
    json!({
        "scheme": report.scheme, "passed": report.passed(), "interrupted": report.interrupted,
        "seeds": report.seeds, "operations": report.operations, "cuts": report.cuts,
        "second_level_cuts": report.second_level_cuts, "mounts": report.mounts, "audits": report.audits,
        "reads": report.reads, "phases": phases, "faces": faces, "failures": cases(&report.failures),
        "unpromised": cases(&report.unpromised), "text": report.to_string(),
    })
    .to_string()
}

/// What the power cuts of `ftlab check` find of one scheme, as JSON; and the exception that ended them, if one did.
#[pyfunction]
pub(crate) fn check(
    py: Python<'_>,
    words: Vec<String>,
    own: Option<Py<Foreign>>,
) -> PyResult<(String, Option<Py<PyAny>>)> {
    let Command::Check(args) = command(py, words)? else { return Err(errors::bug(py, "not check")) };
    let own = own.map(|own| own.get().clone());
    let config = config(&args, own.is_some());
    let meter = Arc::new(Meter::default());
    let done = job::run(py, &meter, None, |stop| match &own {
        Some(own) => checker::check_recipe(own.row(), own, &config, stop),
        None => checker::check(&config, stop),
    })?;
    let report = done.value.map_err(|error| errors::input(py, error))?;
    Ok((told(&report), done.interrupted.map(|exception| exception.into_value(py).into_any())))
}

/// One case of a check again, told line by line.
#[pyfunction]
pub(crate) fn replay(py: Python<'_>, words: Vec<String>, own: Option<Py<Foreign>>) -> PyResult<Vec<String>> {
    let Command::Check(args) = command(py, words)? else { return Err(errors::bug(py, "not check")) };
    let Some(case) = &args.replay else { return Err(errors::bug(py, "no case")) };
    let own = own.map(|own| own.get().clone());
    let config = config(&args, own.is_some());
    let told = py.detach(|| match &own {
        Some(own) => checker::replay_recipe(own.row(), own, &config, case),
        None => checker::replay(&config, case),
    });
    // What the scheme's code raised is told.
    take_raised();
    told.map_err(|error| errors::input(py, error))
}

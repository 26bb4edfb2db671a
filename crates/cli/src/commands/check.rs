//! `ftlab check`: every scheme under power cuts, on failing media, and held to its claims; its images, and the server
//! over them, under attack.

use super::Ended;
use crate::args::{CheckArgs, Seeds};
use crate::error::CliError;
use crate::progress::Progress;
use device::attack::{Attack, Attacked, Counts, Finding, Report, Served, attack_all};
use flash::PowerCut;
use ftl::schemes::{SCHEMES, by_name};
use sim::check::{self, CheckConfig, FaultClass, Faults};
use std::collections::BTreeSet;
use std::fmt::Display;
use std::io::Write;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

/// Checks the schemes, or shows one case again. Stopped, it prints what was checked until then.
///
/// # Errors
/// A scheme that is unknown or keeps no data, a case that does not exist.
pub(super) fn check(args: &CheckArgs, stop: &AtomicBool, stdout: &mut dyn Write) -> Result<Ended, CliError> {
    let schemes = schemes(&args.scheme)?;
    if let Some(name) = args.buffer.as_deref().filter(|name| ftl::buffer::by_name(name).is_none()) {
        return Err(CliError::unknown("write buffer", name, ftl::buffer::NAMES.iter().copied()).within("--buffer"));
    }
    for (name, _) in &args.set {
        let rows = || schemes.iter().filter_map(|scheme| by_name(scheme));
        if rows().all(|row| row.parameter(name).is_none()) {
            let known: BTreeSet<_> = rows().flat_map(|row| row.parameters()).map(|parameter| parameter.name).collect();
            if let Some((_, bare)) = name.split_once('.').filter(|(_, bare)| known.contains(bare)) {
                let what = format_args!("it is set in all schemes that are checked: write {bare}=VALUE");
                return Err(CliError::new(what).within("--set"));
            }
            return Err(CliError::unknown("parameter", name, known).within("--set"));
        }
    }
    let nests = |faults: Faults| faults.contain(FaultClass::Nested) || faults.contain(FaultClass::UnstableNested);
    if args.nested.is_some() && args.faults.is_some_and(|faults| !nests(faults)) {
        return Err(CliError::new("--nested is about cuts in recoveries: add nested or unstable-nested to --faults"));
    }
    let seeds = args.seeds.map(|seeds| seeds.range(SystemTime::now()));
    if let (Some(Seeds::Fresh(_)), Some(Range { start, end })) = (args.seeds, &seeds) {
        crate::print(stdout, &format!("fresh seeds: --seeds {start}..{end}\n"))?;
    }
    let config = |scheme: &str| {
        let defaults = CheckConfig::new(scheme);
        let config = CheckConfig {
            seeds: seeds.clone().unwrap_or(defaults.seeds.clone()),
            second_level: args.nested.unwrap_or(defaults.second_level),
            fail_fast: args.fail_fast,
            operations: args.operations(),
            settings: args.set.clone(),
            threads: args.threads.unwrap_or(0),
            ..defaults.behind(args.buffer.clone())
        };
        let faults = args.faults.unwrap_or(config.faults);
        config.with_faults(faults).with_cuts(args.cuts().into())
    };
    if let Some(replay) = &args.replay {
        let [scheme] = schemes[..] else {
            return Err(CliError::new("--replay shows a case of one scheme: add --scheme NAME"));
        };
        if args.shrink {
            let (short, lines) = check::shrink(&config(scheme), replay).map_err(CliError::new)?;
            let again = again(args, scheme, &short.to_string());
            crate::print(stdout, &format!("{}\n{again}\n", lines.join("\n")))?;
            return Ok(Ended::Failed);
        }
        let lines = check::replay(&config(scheme), replay).map_err(CliError::new)?;
        crate::print(stdout, &format!("{}\n", lines.join("\n")))?;
        let held = lines.last().is_some_and(|line| line == "nothing went wrong");
        return Ok(if held { Ended::Done } else { Ended::Failed });
    }
    // The parser does not say it: what --replay excludes has defaults.
    if args.shrink {
        return Err(CliError::new("--shrink makes one case short: add --replay CASE"));
    }
    let parts = args.parts();
    let [_, images, server] = parts;
    let directory = if images || server { Some(place()?) } else { None };
    let place = directory.as_ref().map_or(Path::new(""), |directory| directory.path());
    let attacked = seeds.clone().unwrap_or(ATTACKED);
    let mut ended = Ended::Done;
    for scheme in schemes {
        for (number, _) in parts.into_iter().enumerate().filter(|&(_, asked)| asked) {
            if stop.load(Ordering::Relaxed) {
                let what = ["", ", images", ", the server"][number];
                crate::print(stdout, &format!("{scheme}{what}: not checked\n"))?;
                ended = Ended::Interrupted;
                continue;
            }
            let (text, held, interrupted) = match number {
                0 => cut(args, &config(scheme), stop)?,
                1 => attack::<Attacked>(args, scheme, &attacked, place, stop)?,
                _ => attack::<Served>(args, scheme, &attacked, place, stop)?,
            };
            crate::print(stdout, &text)?;
            if interrupted {
                ended = Ended::Interrupted;
            } else if !held && ended == Ended::Done {
                ended = Ended::Failed;
            }
        }
    }
    Ok(ended)
}

/// Seeds of attacks on images and on the server, unless others are asked for.
const ATTACKED: Range<u64> = 0..32;

/// A directory for images and sockets, which goes with the value.
fn place() -> Result<tempfile::TempDir, CliError> {
    tempfile::tempdir().map_err(|error| CliError::new(format_args!("no place for images: {error}")))
}

/// What a part of a check says, whether the scheme held, and whether it was interrupted.
type Told = (String, bool, bool);

/// Cuts the power of a scheme.
fn cut(args: &CheckArgs, config: &CheckConfig, stop: &AtomicBool) -> Result<Told, CliError> {
    let progress = Progress::of_seeds(&config.scheme, config.seeds.end - config.seeds.start);
    let report = check::check_telling(config, stop, &|| progress.add(1));
    progress.finish();
    let report = report.map_err(CliError::new)?;
    let mut text = report.to_string();
    let failed = report.failures.iter().map(|failure| &failure.replay).filter(|replay| !replay.is_empty());
    for replay in failed.chain(report.told().map(|(_, _, first)| &first.replay)) {
        text += &format!("  {}\n", again(args, &config.scheme, replay));
    }
    Ok((text, report.passed(), report.interrupted))
}

/// Attacks images of a scheme, or their server, in a directory.
fn attack<C: Counts>(
    args: &CheckArgs,
    scheme: &str,
    seeds: &Range<u64>,
    directory: &Path,
    stop: &AtomicBool,
) -> Result<Told, CliError>
where
    Report<C>: Display,
{
    // Power that holds is a decorator, too: schemes are compiled for the medium that `serve` has.
    let mount = |image| device::mount(PowerCut::counting(image).without_log(), false);
    let cores = || std::thread::available_parallelism().map_or(1, |count| count.get());
    let requests = args.operations.map_or(C::REQUESTS, u64::from);
    let all = super::image::settings(by_name(scheme).expect("a scheme of the table"), &args.set)?;
    let settings: Vec<_> =
        args.set.iter().filter_map(|(name, _)| Some((name.clone(), all.get(name)?.to_string()))).collect();
    let asked = Attack { scheme, settings: &settings, requests, mount };
    let how = (args.threads.unwrap_or_else(cores), args.fail_fast);
    let progress = Progress::of_seeds(&format!("{scheme}, {}", C::WHAT), seeds.end - seeds.start);
    let report = attack_all::<C>(&asked, seeds.clone(), how, directory, stop, &|| progress.add(1));
    progress.finish();
    let report = report.map_err(CliError::new)?;
    let mut text = report.to_string();
    for Finding { seed, .. } in &report.failures {
        let (what, set, seeds) = (C::WHAT, set_again(args), format!("{seed}..{}", seed + 1));
        text += &format!("  ftlab check --scheme {scheme} --{what}{set} --operations {requests} --seeds {seeds}\n");
    }
    Ok((text, report.passed(), report.interrupted))
}

/// The command that shows a case again.
fn again(args: &CheckArgs, scheme: &str, replay: &str) -> String {
    let buffer = args.buffer.as_ref().map(|name| format!(" --buffer {name}")).unwrap_or_default();
    let set = set_again(args);
    let all = |faults| faults == Faults::ALL;
    let faults = args.faults.map(|of| if all(of) { " --faults all".into() } else { format!(" --faults {of}") });
    let faults = faults.unwrap_or_default();
    let operations = args.operations();
    format!("ftlab check --scheme {scheme}{buffer}{set}{faults} --operations {operations} --replay {replay}")
}

/// What was set, as the command line has it.
fn set_again(args: &CheckArgs) -> String {
    args.set.iter().map(|(name, value)| format!(" --set {name}={value}")).collect()
}

/// The scheme of this name, or all that are meant to pass: test builds have one that must not.
fn schemes(name: &str) -> Result<Vec<&'static str>, CliError> {
    if name == "all" {
        let rows = SCHEMES.iter().filter(|row| row.keeps_data && row.name != "canary");
        return Ok(rows.map(|row| row.name).collect());
    }
    match by_name(name) {
        Some(row) if row.keeps_data => Ok(vec![row.name]),
        Some(row) => Err(CliError::new(format_args!("scheme {} keeps no data: there is nothing to check", row.name))),
        None => Err(CliError::unknown("scheme", name, SCHEMES.iter().map(|row| row.name))),
    }
}

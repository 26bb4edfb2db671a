//! `ftlab trace`: looking at traces, writing them in other formats, and making them.

use super::Ended;
use super::compare::fitted_file;
use crate::args::{TraceCommand, TraceConvertArgs, TraceGenerateArgs, TraceHeadArgs, TraceInfoArgs, TraceReading};
use crate::error::CliError;
use crate::open::{Trace, formats, is_read_once, open};
use crate::output::{self, Outputs, Sink};
use crate::render::text::{align, new_table, trimmed, wrap};
use crate::units;
use crate::workload::{GENERATED_BYTES, Origin, reading};
use sim::workload::adapt::{Adaptation, adapt, stretched};
use sim::workload::format::{self, Converted, FORMATS, convert};
use sim::workload::profile::Profile;
use sim::workload::{Intake, Operation, Request, Source, WorkloadError};
use std::io::Write;
use std::path::Path;

/// Does what is asked for.
///
/// # Errors
/// The first thing that is wrong.
pub(super) fn trace(command: &TraceCommand, stdout: &mut dyn Write) -> Result<Ended, CliError> {
    let text = match command {
        TraceCommand::Info(args) => info(args)?,
        TraceCommand::Head(args) => head(args)?,
        TraceCommand::Convert(args) => converted(args)?,
        TraceCommand::Generate(args) => generated(args)?,
    };
    crate::print(stdout, &text).map(|()| Ended::Done)
}

fn opened(args: &TraceReading, limit: Option<u64>) -> Result<Trace, CliError> {
    let options = format::OpenOptions { limit, ..reading(args.format.as_deref(), args.on_error) };
    args.format.as_deref().map_or(Ok(()), |name| known_format(name, formats()))?;
    Ok(open(&args.file, &options)?)
}

/// A format's name is among those that are known.
fn known_format(name: &str, known: impl Iterator<Item = &'static str> + Clone) -> Result<(), CliError> {
    match known.clone().any(|known| known == name) {
        true => Ok(()),
        false => Err(CliError::unknown("trace format", name, known)),
    }
}

/// The format to write: the one asked for, or the one that the file's name says. It can be written, and suits the file.
fn target<'a>(asked: Option<&'a str>, output: &Path) -> Result<&'a str, CliError> {
    let writable = FORMATS.iter().filter(|format| format.writable()).map(|format| format.name).chain([columnar::NAME]);
    let to = match asked {
        Some(to) => to,
        None if output.extension().is_some_and(|extension| extension == columnar::NAME) => columnar::NAME,
        None => {
            let names: Vec<&str> = writable.collect();
            let what =
                format_args!("say with --to in which format {} is to be: {}", output.display(), names.join(", "));
            return Err(CliError::new(what));
        }
    };
    known_format(to, writable).map_err(|error| error.within("--to"))?;
    let refuse = |what: &str| Err(CliError::new(format_args!("{} {what}", output.display())));
    match output.extension().and_then(|extension| extension.to_str()) {
        Some("zst" | "gz") if to == columnar::NAME => refuse("would be compressed twice; let it end in .parquet"),
        Some("parquet") if to != columnar::NAME => refuse(&format!("would hold {to}; say --to parquet, or name it so")),
        Some("xz" | "bz2") => refuse("would not be compressed; let it end in .zst or .gz"),
        _ => Ok(to),
    }
}

fn info(args: &TraceInfoArgs) -> Result<String, CliError> {
    if let Some(path) = &args.json {
        Outputs::beside([("the trace", &*args.reading.file)]).claim("--json", path)?;
    }
    let Trace { mut source, announcement } = opened(&args.reading, args.limit)?;
    let profile = Profile::of(source.as_mut(), 4096)?;
    if let Some(path) = &args.json {
        let mut text = serde_json::to_string_pretty(&profile).map_err(CliError::new)?;
        text.push('\n');
        output::write_file(path, text.as_bytes())?;
    }
    Ok(wrap(&format!("{}: {announcement}", args.reading.file.display()), "  ") + &facts(&profile))
}

/// A profile for people.
pub(super) fn facts(profile: &Profile) -> String {
    let mut text = String::new();
    let amount = |amount: &sim::workload::profile::Amount| {
        format!("{} ({})", units::whole(amount.requests), units::bytes(amount.bytes))
    };
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    let mut lines: Vec<(&str, String)> = vec![
        ("requests", units::whole(profile.requests)),
        ("reads", format!("{}, {} of reads and writes", amount(&profile.reads), percent(profile.read_share()))),
        ("writes", amount(&profile.writes)),
    ];
    if profile.trims.requests > 0 {
        lines.push(("trims", amount(&profile.trims)));
    }
    if profile.flushes.requests > 0 {
        lines.push(("flushes", units::whole(profile.flushes.requests)));
    }
    lines.push(("mean size", units::bytes(profile.mean_bytes().round() as u64)));
    lines.push(("sequential", format!("{} of reads and writes", percent(profile.sequential_share()))));
    lines.push(("span", format!("{} (the widest volume's)", units::bytes(profile.span_bytes))));
    lines.push((
        "footprint",
        format!(
            "{} ({} read, {} written; in units of 4 KiB)",
            units::bytes(profile.footprint_bytes),
            units::bytes(profile.read_footprint_bytes),
            units::bytes(profile.written_footprint_bytes)
        ),
    ));
    lines.push(match profile.timed {
        true => (
            "time",
            format!(
                "{}, a request every {} on average",
                units::time_us(profile.duration_ns as f64 / 1e3),
                units::time_us(profile.mean_interarrival_ns() / 1e3)
            ),
        ),
        false => ("time", "none in this format, or all requests arrive at once".to_owned()),
    });
    if profile.skipped > 0 {
        let first = profile.first_skipped.as_ref().map_or_else(String::new, |(line, why)| format!("; {line}: {why}"));
        lines.push(("skipped", format!("{} malformed records{first}", units::whole(profile.skipped))));
    }
    if profile.ignored > 0 {
        lines.push(("ignored", format!("{} records without a request", units::whole(profile.ignored))));
    }
    if profile.out_of_order > 0 {
        let worst = units::time_us(profile.worst_disorder_ns as f64 / 1e3);
        lines.push(("disorder", format!("{} arrivals, by up to {worst}", units::whole(profile.out_of_order))));
    }
    if profile.unended {
        lines.push(("last line", "has no line end: if the file was cut short, its last number may be, too".to_owned()));
    }
    if let Some(sha256) = &profile.sha256 {
        lines.push(("sha256", sha256.clone()));
    }
    for (label, value) in lines {
        text += &wrap(&format!("{label}: {value}"), "  ");
    }
    let mut sizes = new_table();
    sizes.set_header(["pages of 4 KiB\nup to", "reads\n", "writes\n"]);
    for class in &profile.sizes {
        sizes.add_row([units::whole(class.pages_max), units::whole(class.reads), units::whole(class.writes)]);
    }
    align(&mut sizes, 0);
    text += &format!("\n{}", trimmed(&sizes));
    if profile.volumes.len() > 1 {
        let mut volumes = new_table();
        volumes.set_header(["volume", "number", "requests", "span", "sequential"]);
        const MOST: usize = 24;
        for (number, volume) in profile.volumes.iter().enumerate().take(MOST) {
            volumes.add_row([
                volume.name.clone(),
                number.to_string(),
                units::whole(volume.requests),
                units::bytes(volume.span_bytes),
                units::whole(volume.sequential),
            ]);
        }
        align(&mut volumes, 1);
        text += &format!("\n{}", trimmed(&volumes));
        if profile.volumes.len() > MOST {
            text += &format!("… and {} more volumes\n", profile.volumes.len() - MOST);
        }
    }
    text
}

fn head(args: &TraceHeadArgs) -> Result<String, CliError> {
    let Trace { mut source, announcement } = opened(&args.reading, Some(args.limit))?;
    let mut requests = Vec::new();
    loop {
        let before = requests.len();
        source.fill(&mut requests, 4096)?;
        if requests.len() == before {
            break;
        }
    }
    let mut table = new_table();
    table.set_header(["operation\n", "volume\n", "arrival\nµs", "offset\nbytes", "size\nbytes"]);
    let volumes = &source.intake().volumes;
    for request in &requests {
        let operation = match request.operation {
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::Trim => "trim",
            Operation::Flush => "flush",
        };
        table.add_row([
            operation.to_owned(),
            volumes.get(request.volume as usize).cloned().unwrap_or_default(),
            format!("{}.{:03}", request.arrival_ns / 1000, request.arrival_ns % 1000),
            request.offset.to_string(),
            request.bytes.to_string(),
        ]);
    }
    align(&mut table, 2);
    Ok(wrap(&announcement, "  ") + "\n" + &trimmed(&table))
}

fn converted(args: &TraceConvertArgs) -> Result<String, CliError> {
    let to = target(args.to.as_deref(), &args.output)?;
    if args.volumes.is_some() && is_read_once(&args.reading.file) {
        let what = format_args!(
            "the volumes are looked for before they are converted, but {} can be read only once; write it to a file",
            args.reading.file.display()
        );
        return Err(CliError::new(what).within("--volumes"));
    }
    Outputs::beside([("the trace", &*args.reading.file)]).claim("OUTPUT", &args.output)?;
    let origin = args.reading.file.display().to_string();
    let Trace { source: trace, announcement } = opened(&args.reading, args.limit.filter(|_| args.volumes.is_none()))?;
    let mut source: Box<dyn Source> = match &args.volumes {
        Some(volumes) => {
            let profile = Profile::of(opened(&args.reading, None)?.source.as_mut(), 4096)?;
            let adaptation = Adaptation {
                volumes: volumes.adapted(),
                time_factor: args.time_scale,
                limit: args.limit,
                ..Adaptation::default()
            };
            adapt(trace, &origin, &adaptation, &profile)?
        }
        None => Box::new(Stretched::new(trace, &origin, args.time_scale)),
    };
    let on_error = reading(None, args.reading.on_error).on_error;
    let converted = write(source.as_mut(), &origin, to, on_error, &args.output)?;
    let mut text = wrap(&format!("{origin}: {announcement}"), "  ");
    let intake = source.intake();
    if intake.skipped > 0 {
        text += &format!("{} malformed records were skipped\n", units::whole(intake.skipped));
    }
    Ok(text + &summary(&converted, to, &args.output))
}

fn generated(args: &TraceGenerateArgs) -> Result<String, CliError> {
    let to = target(args.to.as_deref(), &args.output)?;
    let origin = Origin::generated(&args.workload, GENERATED_BYTES)?;
    let fitted = fitted_file(&args.workload).map(|file| ("the trace", Path::new(file)));
    Outputs::beside(fitted).claim("OUTPUT", &args.output)?;
    let place = origin.place();
    let mut source = Stretched::new(origin.open(args.seed, GENERATED_BYTES)?.source, &place, 1.0);
    let on_error = reading(None, args.on_error).on_error;
    let converted = write(&mut source, &place, to, on_error, &args.output)?;
    Ok(summary(&converted, to, &args.output))
}

fn write(
    source: &mut dyn Source,
    origin: &str,
    to: &str,
    on_error: format::OnError,
    path: &Path,
) -> Result<Converted, CliError> {
    let mut sink = Sink::create(path)?;
    let converted = match to {
        columnar::NAME => columnar::write(source, origin, on_error, &mut sink),
        _ => convert(source, origin, to, on_error, &mut sink),
    };
    let converted = converted.map_err(|error| {
        // A disk that is full is the output's fault, not the origin's.
        match sink.failure() {
            Some(failure) => failure,
            None => error.into(),
        }
    })?;
    sink.commit()?;
    Ok(converted)
}

fn summary(converted: &Converted, to: &str, path: &Path) -> String {
    let mut text = format!("{} requests written to {} as {to}\n", units::whole(converted.requests), path.display());
    if let Some((number, why)) = &converted.first_refused {
        text += &wrap(
            &format!(
                "{} requests were left out because {to} cannot express them; the first is request {number}: {why}",
                units::whole(converted.refused)
            ),
            "  ",
        );
    }
    if let Some((name, number)) = &converted.renumbered.first {
        let what = match converted.renumbered.volumes {
            1 => format!("the volume {name} is number {number} in it, for another volume has its number"),
            many => format!(
                "{} volumes have other numbers in it, for other volumes have theirs; the first is {name}, now {number}",
                units::whole(many)
            ),
        };
        text += &wrap(&what, "  ");
    }
    if converted.times_cut > 0 {
        text += &format!("{} arrivals were cut to the unit of {to}\n", units::whole(converted.times_cut));
    }
    text
}

/// A source whose arrivals are multiplied, and are within what times can be.
struct Stretched {
    inner: Box<dyn Source>,
    origin: String,
    factor: f64,
    /// Requests so far.
    number: u64,
}

impl Stretched {
    fn new(inner: Box<dyn Source>, origin: &str, factor: f64) -> Self {
        Self { inner, origin: origin.to_owned(), factor, number: 0 }
    }
}

impl Source for Stretched {
    fn fill(&mut self, batch: &mut Vec<Request>, limit: usize) -> Result<(), WorkloadError> {
        let before = batch.len();
        let result = self.inner.fill(batch, limit);
        for request in &mut batch[before..] {
            self.number += 1;
            request.arrival_ns = stretched(&self.origin, self.number, request.arrival_ns, self.factor)?;
        }
        result
    }

    fn intake(&self) -> &Intake {
        self.inner.intake()
    }

    fn timed(&self) -> bool {
        self.inner.timed()
    }
}

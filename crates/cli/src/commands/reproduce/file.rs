//! The files of `ftlab reproduce`: what a paper's set-up was, and what each of its tables and figures says.
//!
//! A directory is a paper. `paper.toml` holds what its experiments share: device, starting state, parameters,
//! workloads. Every other file is a published table or figure: configurations, and rows that name a measure of a result
//! and the value that was published for it. Nothing in these files is computed; docs/reproduce.md lists every key.
//!
//! A key that nobody reads, a name that nothing bears and a parameter that its scheme refuses are errors that name the
//! file and the line. One name may be unknown: a scheme that this build does not have. What needs it is not run.

use crate::args::{Buffer, Fill, Host, OutOfRange, Partial, Until, parse_buffer};
use crate::commands::compare::few;
use crate::commands::experiment::device_spec;
use crate::error::CliError;
use flash::device::Device;
use serde::Deserialize;
use sim::units::parse_count;
use std::collections::{BTreeMap, BTreeSet};
use toml::{Spanned, Value};

mod text;
pub(super) use text::Text;

/// A count as it is written in a file: `"500k"`, or `500000`.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(try_from = "Value")]
pub(super) struct Count(pub(super) u64);

impl TryFrom<Value> for Count {
    type Error = String;

    fn try_from(value: Value) -> Result<Count, String> {
        let text = match value {
            Value::String(text) => text,
            Value::Integer(number) => number.to_string(),
            _ => return Err("a count is a whole number, or a string such as \"500k\"".to_owned()),
        };
        parse_count(&text).map(Count).map_err(|error| error.to_string())
    }
}

/// An end as it is written in a workload: `"mean-erases=2"`.
#[derive(Deserialize, Clone, Copy, PartialEq, Debug)]
#[serde(try_from = "String")]
pub(super) struct End(pub(super) Until);

impl TryFrom<String> for End {
    type Error = String;

    fn try_from(text: String) -> Result<End, String> {
        text.parse().map(End)
    }
}

/// Parameters by name.
pub(super) type Set = BTreeMap<String, Spanned<Value>>;

/// `paper.toml` as it is written.
#[derive(Deserialize, Clone, Debug)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct PaperFile {
    title: String,
    device: Spanned<String>,
    requests: Option<Count>,
    quick: Option<Count>,
    fill: Option<Spanned<String>>,
    host: Option<Spanned<String>>,
    partial: Option<Spanned<String>>,
    out_of_range: Option<Spanned<String>>,
    #[serde(default)]
    assumptions: Vec<String>,
    #[serde(default)]
    set: Set,
    #[serde(default)]
    workload: Vec<Workload>,
}

/// What the experiments of a paper share.
#[derive(Clone, Debug)]
pub(super) struct Paper {
    /// Name of its directory.
    pub(super) name: String,
    /// Its title and authors.
    pub(super) title: String,
    /// The device, as for `--device`.
    pub(super) device: String,
    /// Requests of a workload that is made, not read.
    pub(super) requests: Option<u64>,
    /// Requests of every workload with `--quick`, if its own file or the workload says no other number.
    pub(super) quick: Option<u64>,
    /// State of the device at the start.
    pub(super) fill: Fill,
    /// When requests arrive.
    pub(super) host: Option<Host>,
    /// What writes of parts of a page cost.
    pub(super) partial: Partial,
    /// Requests beyond the capacity.
    pub(super) out_of_range: OutOfRange,
    /// What the paper leaves open and how it was filled, a sentence each.
    pub(super) assumptions: Vec<String>,
    set: Set,
    workloads: Vec<Workload>,
}

/// A workload of a paper and where its requests may come from.
#[derive(Deserialize, Clone, Debug)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Workload {
    /// What the paper calls it.
    pub(super) name: String,
    /// Well-known names of the whole trace.
    #[serde(default)]
    pub(super) traces: Vec<String>,
    /// Names of parts of it.
    #[serde(default)]
    pub(super) excerpts: Vec<String>,
    /// Names of recordings of something like it.
    #[serde(default)]
    pub(super) similar: Vec<String>,
    /// Names of recordings of something like it that ship with the program.
    #[serde(default)]
    pub(super) recordings: Vec<Spanned<String>>,
    /// The twin that stands in.
    pub(super) twin: Option<Spanned<String>>,
    /// The generator that makes it, if it never was a trace.
    pub(super) generator: Option<Spanned<String>>,
    /// The device, if not the paper's.
    pub(super) device: Option<Spanned<String>>,
    /// Requests with `--quick`.
    pub(super) quick: Option<Count>,
    /// How long it is repeated, if not as the experiment says.
    pub(super) until: Option<End>,
    /// Parameters of the schemes that have them.
    #[serde(default)]
    pub(super) set: Set,
    /// For messages.
    #[serde(skip)]
    pub(super) places: Places,
}

/// File and line of a workload's keys; the file alone of those that it does not have.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    twin: String,
    generator: String,
    device: String,
}

impl Workload {
    /// Its device, on a paper's.
    pub(super) fn device<'a>(&'a self, paper: &'a Paper) -> &'a str {
        self.device.as_ref().map_or(&paper.device, |device| device.get_ref())
    }
}

/// An experiment's file as it is written.
#[derive(Deserialize, Clone, Debug)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct ExperimentFile {
    title: String,
    source: String,
    says: String,
    workloads: Option<Vec<Spanned<String>>>,
    device: Option<Spanned<String>>,
    requests: Option<Count>,
    quick: Option<Count>,
    fill: Option<Spanned<String>>,
    until: Option<Spanned<String>>,
    repeat: Option<Spanned<u32>>,
    #[serde(default)]
    set: Set,
    #[serde(default)]
    workload: Vec<Workload>,
    configuration: Vec<Configuration>,
    #[serde(default)]
    row: Vec<RowFile>,
    #[serde(default)]
    sensitivity: Vec<SensitivityFile>,
    #[serde(default)]
    curve: Vec<CurveFile>,
    microscope: Option<Microscope>,
}

/// A published table or figure.
#[derive(Clone, Debug)]
pub(super) struct Experiment {
    /// Name of its file.
    pub(super) name: String,
    /// What it is.
    pub(super) title: String,
    /// Where in the paper it stands.
    pub(super) source: String,
    /// What the paper says.
    pub(super) says: String,
    /// How long the workload is repeated, if it is not run once.
    pub(super) until: Option<Until>,
    /// Runs under different seeds.
    pub(super) repeat: u32,
    /// Requests of every workload with `--quick`, if the experiment has a number of its own.
    pub(super) quick: Option<u64>,
    /// The paper, with what the experiment changes of its set-up.
    pub(super) paper: Paper,
    /// The workloads, in order.
    pub(super) workloads: Vec<Workload>,
    /// The configurations.
    pub(super) configurations: Vec<Configuration>,
    /// What was published.
    pub(super) rows: Vec<Row>,
    /// What the rows owe to a choice that the paper does not state.
    pub(super) sensitivities: Vec<Sensitivity>,
    /// What is drawn of its figures.
    pub(super) curves: Vec<Curve>,
    /// Some requests looked at one by one.
    pub(super) microscope: Option<Microscope>,
    set: Set,
}

/// A scheme with its parameters.
#[derive(Deserialize, Clone, Debug)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Configuration {
    /// What rows call it.
    pub(super) name: String,
    scheme: Option<String>,
    /// Its own parameters.
    #[serde(default)]
    pub(super) set: Set,
    /// Keys of the device that differ for it, as `key=value,…`.
    pub(super) change_device: Option<Spanned<String>>,
    buffer: Option<Spanned<String>>,
    /// The configuration whose maps say how large the mapping cache is.
    pub(super) cache_as: Option<Spanned<String>>,
}

impl Configuration {
    /// The scheme: that of its name, if no other is named.
    pub(super) fn scheme(&self) -> &str {
        self.scheme.as_deref().unwrap_or(&self.name)
    }

    /// The write buffer in front of it, if there is one: policy and bytes.
    pub(super) fn buffer(&self) -> Result<Option<(String, u64)>, CliError> {
        let Some(buffer) = &self.buffer else { return Ok(None) };
        Ok(match parse_buffer(buffer.get_ref())? {
            Buffer::None => None,
            Buffer::Of { policy, bytes } => Some((policy, bytes)),
        })
    }
}

#[derive(Deserialize, Clone, Debug)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RowFile {
    label: String,
    measure: Spanned<String>,
    #[serde(default)]
    relation: Relation,
    of: Spanned<Value>,
    against: Option<Spanned<String>>,
    whole: Option<Spanned<String>>,
    exercised_by: Option<Spanned<String>>,
    unit: Option<Spanned<String>>,
    published: Option<Spanned<Value>>,
    lost: Option<String>,
    note: Option<String>,
    workloads: Option<Vec<Spanned<String>>>,
    #[serde(default)]
    mean: bool,
}

/// What a row says of its measure.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug, Default)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Relation {
    /// The measure itself.
    #[default]
    Value,
    /// Its share of another measure of the same run (`whole`).
    Share,
    /// 100 · (own − other) / other, the other being that of another configuration (`against`).
    Change,
    /// Own − other.
    Difference,
    /// Own / other.
    Ratio,
    /// Which configuration has the least.
    Least,
    /// Which configuration has the most.
    Most,
}

impl Relation {
    fn is_comparison(self) -> bool {
        matches!(self, Relation::Change | Relation::Difference | Relation::Ratio)
    }

    /// Whether the answer is the name of a configuration.
    pub(super) fn is_choice(self) -> bool {
        matches!(self, Relation::Least | Relation::Most)
    }
}

/// Units of rows: name, and what a measure is multiplied by.
pub(super) const UNITS: &[(&str, f64)] = &[
    ("", 1.0),
    ("%", 100.0),
    ("points", 100.0),
    ("times", 1.0),
    ("µs", 1.0),
    ("ms", 1e-3),
    ("s", 1.0),
    ("KiB", 1.0 / 1024.0),
    ("blocks", 1.0),
    ("pages", 1.0),
];

/// What a paper gives for one row and workload.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Published {
    /// A number.
    Number(f64),
    /// Somewhere from the first to the second; either may be infinite.
    Range(f64, f64),
    /// A configuration.
    Name(String),
}

/// A line of a published table, or a point of a figure.
#[derive(Clone, Debug)]
pub(super) struct Row {
    /// What it is about.
    pub(super) label: String,
    /// The measure, as [`measure::value`] knows it.
    pub(super) measure: String,
    /// What is said of it.
    pub(super) relation: Relation,
    /// The configurations that it is said of.
    pub(super) of: Vec<String>,
    /// The configuration that they are compared with.
    pub(super) against: Option<String>,
    /// The measure of which it is a share.
    pub(super) whole: Option<String>,
    /// The measure that is zero if the run did not come to what the row is about.
    pub(super) exercised_by: Option<String>,
    /// One of [`UNITS`].
    pub(super) unit: &'static str,
    /// What every workload shares, or each has of its own under its name; that of their mean under [`MEAN`].
    pub(super) published: BTreeMap<String, Published>,
    /// Why a figure cannot be given.
    pub(super) lost: Option<String>,
    /// A remark.
    pub(super) note: Option<String>,
    /// Names of its workloads.
    pub(super) workloads: Vec<String>,
    /// Whether the mean over the workloads is shown.
    pub(super) mean: bool,
}

/// The most figures of an experiment: its rows have one for each of their configurations and workloads.
const FIGURES_MAX: usize = 100_000;

/// The name of the mean over a row's workloads among the published values.
pub(super) const MEAN: &str = "mean";

#[derive(Deserialize, Clone, Debug)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct SensitivityFile {
    label: String,
    device_key: Option<Spanned<String>>,
    parameter: Option<Spanned<String>>,
    #[serde(default)]
    fill: bool,
    values: Vec<Spanned<Value>>,
    requests: Option<Count>,
    workloads: Option<Vec<Spanned<String>>>,
    rows: Option<Vec<Spanned<String>>>,
}

#[derive(Deserialize, Clone, Debug)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct CurveFile {
    title: String,
    x: String,
    along: Spanned<String>,
    at: Vec<(Spanned<String>, String)>,
    #[serde(default)]
    log: bool,
    rows: Option<Vec<Spanned<String>>>,
}

/// What the points of a line differ in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Along {
    /// The workload.
    Workload,
    /// The configuration.
    Configuration,
    /// The row.
    Row,
    /// The experiment, among those of the paper.
    Experiment,
    /// The value of a sensitivity: what it varies.
    Varied(String),
}

/// Figures as points of lines.
#[derive(Clone, Debug)]
pub(super) struct Curve {
    /// What is drawn.
    pub(super) title: String,
    /// What stands below the points, with its unit.
    pub(super) x: String,
    /// What the points differ in.
    pub(super) along: Along,
    /// The points from left to right: what it is among those, and how it is labelled.
    pub(super) at: Vec<(String, String)>,
    /// Whether heights, which are times then, are logarithmic.
    pub(super) log: bool,
    /// Labels of the rows whose figures are the heights.
    pub(super) rows: Vec<String>,
}

/// What is varied.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Varied {
    /// A key of the device.
    Device(String),
    /// A parameter of the schemes that have it.
    Parameter(String),
    /// The device's state at the start.
    Fill,
}

impl Varied {
    /// What is varied, in a word.
    pub(super) fn name(&self) -> &str {
        match self {
            Varied::Device(name) | Varied::Parameter(name) => name,
            Varied::Fill => "fill",
        }
    }
}

/// Rows again, with something varied that the paper does not state.
#[derive(Clone, Debug)]
pub(super) struct Sensitivity {
    /// What is varied and why.
    pub(super) label: String,
    /// What is varied.
    pub(super) varied: Varied,
    /// What it becomes.
    pub(super) values: Vec<String>,
    /// Requests of every workload, if fewer than else.
    pub(super) requests: Option<u64>,
    /// Names of its workloads.
    pub(super) workloads: Vec<String>,
    /// Labels of its rows.
    pub(super) rows: Vec<String>,
}

impl Sensitivity {
    /// Its rows.
    pub(super) fn rows_of<'a>(&self, experiment: &'a Experiment) -> Vec<&'a Row> {
        experiment.rows.iter().filter(|row| self.rows.contains(&row.label)).collect()
    }
}

/// Some requests one by one.
#[derive(Deserialize, Clone, Debug)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Microscope {
    /// The workload's name.
    pub(super) workload: Spanned<String>,
    /// The configurations.
    pub(super) of: Vec<Spanned<String>>,
    /// Number of the first request, from 1.
    pub(super) from: u64,
    /// How many.
    pub(super) requests: u64,
    /// Whether the window moves on until a collection stands in its middle.
    #[serde(default)]
    pub(super) collection: bool,
}

/// The device of a specification, with a capacity.
fn built(device: &str) -> Result<Device, CliError> {
    device_spec(Some(device))?.build(None).map_err(CliError::new)
}

/// A value as its parameter is written on the command line; sizes in bytes may have a unit.
pub(super) fn setting(unit: &str, value: &Value) -> Result<String, String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Boolean(on) => on.to_string(),
        other => return Err(format!("a parameter is one value, not a {}", other.type_str())),
    };
    let bytes = sim::units::parse_bytes(&text).ok().filter(|_| unit == "bytes");
    Ok(bytes.map_or(text, |bytes| bytes.to_string()))
}

impl Paper {
    /// Reads `paper.toml`.
    ///
    /// # Errors
    /// What is wrong, with file and line.
    pub(super) fn read(name: &str, file: &str, text: &str) -> Result<Paper, CliError> {
        let text = Text { name: file, text };
        let read: PaperFile = text.parse()?;
        let host =
            read.host.as_ref().map(|host| host.get_ref().parse::<Host>().map_err(|what| text.fault(host.span(), what)));
        let all: Vec<&str> = ftl::schemes::SCHEMES.iter().map(|row| row.name).collect();
        for set in std::iter::once(&read.set).chain(read.workload.iter().map(|workload| &workload.set)) {
            text.shared_parameters(&all, set)?;
        }
        Ok(Paper {
            name: name.to_owned(),
            device: text.device(&read.device)?,
            requests: read.requests.map(|Count(requests)| requests),
            quick: read.quick.map(|Count(requests)| requests),
            fill: text.word(read.fill.as_ref(), Fill::Sequential)?,
            host: host.transpose()?,
            partial: text.word(read.partial.as_ref(), Partial::Ignore)?,
            out_of_range: text.word(read.out_of_range.as_ref(), OutOfRange::Fold)?,
            title: read.title,
            assumptions: read.assumptions,
            set: read.set,
            workloads: text.workloads(read.workload)?,
        })
    }
}

impl Experiment {
    /// Reads an experiment of a paper.
    ///
    /// # Errors
    /// What is wrong, with file and line.
    pub(super) fn read(paper: &Paper, name: &str, file: &str, text: &str) -> Result<Experiment, CliError> {
        let text = Text { name: file, text };
        let read: ExperimentFile = text.parse()?;
        let own = text.workloads(read.workload)?;
        let is_own = |name: &str| own.iter().any(|workload| workload.name == name);
        let mut workloads: Vec<Workload> =
            paper.workloads.iter().filter(|workload| !is_own(&workload.name)).cloned().collect();
        workloads.extend(own);
        let names: Vec<String> = workloads.iter().map(|workload| workload.name.clone()).collect();
        let chosen = text.chosen("workload", read.workloads.as_ref(), &names)?;
        workloads.retain(|workload| chosen.contains(&workload.name));
        let own_error = |error: CliError| error.within(file);
        let values = read.sensitivity.iter().map(|one| one.values.len()).fold(1, usize::saturating_add);
        few([workloads.len(), read.configuration.len(), values]).map_err(own_error)?;
        let of = |row: &RowFile| row.of.get_ref().as_array().map_or(1, Vec::len);
        let under = |row: &RowFile| row.workloads.as_ref().map_or(chosen.len(), Vec::len);
        let figures = read.row.iter().map(|row| of(row).saturating_mul(under(row))).fold(0, usize::saturating_add);
        if figures > FIGURES_MAX {
            let what = format_args!("its rows have {figures} figures, and at most {FIGURES_MAX} are read");
            return Err(own_error(CliError::new(what)));
        }
        let schemes: Vec<&str> = read.configuration.iter().map(Configuration::scheme).collect();
        for configuration in &read.configuration {
            text.own_parameters(configuration.scheme(), &configuration.set)?;
            if let (Some(buffer), Err(error)) = (&configuration.buffer, configuration.buffer()) {
                return Err(text.fault(buffer.span(), error));
            }
        }
        text.shared_parameters(&schemes, &read.set)?;
        let configurations: Vec<String> = read.configuration.iter().map(|one| one.name.clone()).collect();
        text.unique("configuration", &configurations)?;
        for configuration in &read.configuration {
            let Some(like) = &configuration.cache_as else { continue };
            text.known("configuration", like, &configurations)?;
            let cached = |name: &str| ftl::schemes::by_name(name).is_none_or(|row| row.has_cache);
            let other = read.configuration.iter().find(|one| one.name == *like.get_ref());
            if !cached(configuration.scheme()) || other.is_some_and(|other| cached(other.scheme())) {
                let what = "cache-as gives a scheme with a mapping cache the RAM of one whose maps are all in RAM";
                return Err(text.fault(like.span(), what));
            }
        }
        let rows = read.row.into_iter().map(|row| text.row(row, &chosen, &configurations));
        let rows = rows.collect::<Result<Vec<Row>, CliError>>()?;
        text.told_apart(&rows)?;
        let mut paper = paper.clone();
        if let Some(device) = &read.device {
            paper.device = text.device(device)?;
        }
        for workload in &workloads {
            text.can_run(workload, &paper, &read.configuration)?;
        }
        // What configurations change of a device, nothing among it.
        let changed = read.configuration.iter().filter_map(|one| one.change_device.as_ref());
        let changes: BTreeSet<&str> = changed.map(|changes| changes.get_ref().as_str()).chain([""]).collect();
        let sensitivities = read
            .sensitivity
            .into_iter()
            .map(|one| text.sensitivity(one, &workloads, &paper, &rows, (&schemes, &changes)));
        let sensitivities = sensitivities.collect::<Result<Vec<Sensitivity>, CliError>>()?;
        let curves = read.curve.into_iter().map(|one| text.curve(one, &chosen, &configurations, &rows, &sensitivities));
        let curves = curves.collect::<Result<Vec<Curve>, CliError>>()?;
        if let Some(microscope) = &read.microscope {
            text.known("workload", &microscope.workload, &chosen)?;
            for name in &microscope.of {
                text.known("configuration", name, &configurations)?;
            }
        }
        paper.requests = read.requests.map(|Count(requests)| requests).or(paper.requests);
        paper.fill = text.word(read.fill.as_ref(), paper.fill)?;
        let until = read.until.as_ref();
        let until = until.map(|until| until.get_ref().parse().map_err(|error: String| text.fault(until.span(), error)));
        let repeat = match &read.repeat {
            Some(not) if !(1..=1000).contains(not.get_ref()) => {
                let what = format_args!("repeat = {}: must be from 1 to 1000", not.get_ref());
                return Err(text.fault(not.span(), what));
            }
            repeat => repeat.as_ref().map_or(1, |repeat| *repeat.get_ref()),
        };
        let experiment = Experiment {
            name: name.to_owned(),
            title: read.title,
            source: ftl::papers::cite(&read.source),
            says: read.says,
            until: until.transpose()?,
            repeat,
            quick: read.quick.map(|Count(requests)| requests),
            sensitivities,
            curves,
            paper,
            workloads,
            configurations: read.configuration,
            rows,
            microscope: read.microscope,
            set: read.set,
        };
        experiment.check_settings().map_err(|error| error.within(file))?;
        Ok(experiment)
    }

    /// Every configuration takes the parameters that it has under each workload, whichever file they are from.
    fn check_settings(&self) -> Result<(), CliError> {
        for configuration in &self.configurations {
            let Some(row) = ftl::schemes::by_name(configuration.scheme()) else { continue };
            let takes = |name: &str, value: &str| {
                let Some(parameter) = row.parameter(name) else { return Ok(()) };
                let text = setting(parameter.unit, &Value::String(value.to_owned()))?;
                parameter.parse(&text).map(drop)
            };
            for workload in &self.workloads {
                let place = format_args!("{} under {}", configuration.name, workload.name);
                let fault = |what: String| CliError::new(what).within(place);
                for (name, value) in self.settings(configuration, workload, None) {
                    takes(&name, &value).map_err(fault)?;
                }
                for one in self.sensitivities.iter().filter(|one| one.workloads.contains(&workload.name)) {
                    let Varied::Parameter(name) = &one.varied else { continue };
                    one.values.iter().try_for_each(|value| takes(name, value)).map_err(fault)?;
                }
            }
        }
        Ok(())
    }

    /// The parameters of a configuration under a workload: the paper's, the workload's, the experiment's, its own, and
    /// last what is varied. Of those that are not its own it takes what its scheme has.
    pub(super) fn settings(
        &self,
        configuration: &Configuration,
        workload: &Workload,
        varied: Option<(&str, &str)>,
    ) -> BTreeMap<String, String> {
        let Some(row) = ftl::schemes::by_name(configuration.scheme()) else { return BTreeMap::new() };
        let unit = |name: &str| row.parameter(name).map(|one| one.unit);
        let mut settings = BTreeMap::new();
        for (name, value) in
            [&self.paper.set, &workload.set, &self.set, &configuration.set].into_iter().flat_map(BTreeMap::iter)
        {
            if let Some(unit) = unit(name) {
                settings.insert(name.clone(), setting(unit, value.get_ref()).unwrap_or_default());
            }
        }
        if let Some((name, value)) = varied.filter(|(name, _)| unit(name).is_some()) {
            settings.insert(name.to_owned(), value.to_owned());
        }
        settings
    }

    /// `paper/experiment`, as it is asked for.
    pub(super) fn title(&self) -> String {
        format!("{}/{}", self.paper.name, self.name)
    }

    /// The configuration of this name.
    pub(super) fn configuration(&self, name: &str) -> Option<&Configuration> {
        self.configurations.iter().find(|configuration| configuration.name == name)
    }
}

/// How many microseconds a row's unit has, if it is a unit of time.
pub(super) fn microseconds(row: &Row) -> Option<f64> {
    match (row.relation, row.unit) {
        (Relation::Value, "µs") => Some(1.0),
        (Relation::Value, "ms") => Some(1e3),
        (Relation::Value, "s") => Some(1e6),
        _ => None,
    }
}

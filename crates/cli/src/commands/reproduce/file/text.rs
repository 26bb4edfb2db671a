//! What a file of `ftlab reproduce` says, judged with the line that says it: names that are known, devices that can be
//! built, parameters that a scheme takes, rows and curves that mean something.

use super::super::lab::changed;
use super::super::measure;
use super::{
    Along, Configuration, Count, Curve, CurveFile, MEAN, Paper, Places, Published, Relation, Row, RowFile, Sensitivity,
    SensitivityFile, Set, UNITS, Varied, Workload, built, microseconds, setting,
};
use crate::args::Fill;
use crate::commands::experiment::device_spec;
use crate::error::CliError;
use crate::workload::{GENERATED_BYTES, Origin};
use clap::ValueEnum;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use toml::{Spanned, Value};

/// A file's text with its name, for messages.
pub(in crate::commands::reproduce) struct Text<'a> {
    pub(in crate::commands::reproduce) name: &'a str,
    pub(in crate::commands::reproduce) text: &'a str,
}

impl Text<'_> {
    /// Workloads of names of their own. Every recording that is named is on board.
    pub(super) fn workloads(&self, mut workloads: Vec<Workload>) -> Result<Vec<Workload>, CliError> {
        self.unique("workload", workloads.iter().map(|workload| &workload.name))?;
        for name in workloads.iter().flat_map(|workload| &workload.recordings) {
            let spec = format!("{}:{}", crate::open::RECORDING, name.get_ref());
            crate::open::recording(&spec).map_err(|error| self.fault(name.span(), error.what))?;
        }
        for workload in &mut workloads {
            let place = |written: &Option<Spanned<String>>| match written {
                Some(text) => format!("{}:{}", self.name, self.line(text.span().start)),
                None => self.name.to_owned(),
            };
            workload.places = Places {
                twin: place(&workload.twin),
                generator: place(&workload.generator),
                device: place(&workload.device),
            };
        }
        Ok(workloads)
    }

    /// No name is given twice.
    pub(super) fn unique<'n>(&self, what: &str, names: impl IntoIterator<Item = &'n String>) -> Result<(), CliError> {
        let mut seen = BTreeSet::new();
        match names.into_iter().find(|name| !seen.insert(*name)) {
            None => Ok(()),
            Some(name) => {
                let what = format_args!("a second {what} {name:?}; give it a name of its own");
                Err(CliError::new(what).within(self.name))
            }
        }
    }

    fn line(&self, at: usize) -> usize {
        1 + self.text.bytes().take(at).filter(|&byte| byte == b'\n').count()
    }

    pub(in crate::commands::reproduce) fn fault(&self, span: Range<usize>, what: impl std::fmt::Display) -> CliError {
        CliError::new(what).within(format_args!("{}:{}", self.name, self.line(span.start)))
    }

    pub(in crate::commands::reproduce) fn parse<T: DeserializeOwned>(&self) -> Result<T, CliError> {
        toml::from_str(self.text).map_err(|error| {
            let span = error.span().unwrap_or(0..0);
            self.fault(span, unknown_key(error.message()).unwrap_or_else(|| error.message().trim().to_owned()))
        })
    }

    /// One of a few words.
    pub(super) fn word<T: ValueEnum>(&self, text: Option<&Spanned<String>>, otherwise: T) -> Result<T, CliError> {
        let Some(text) = text else { return Ok(otherwise) };
        T::from_str(text.get_ref(), false).map_err(|_| {
            let words: Vec<String> = T::value_variants()
                .iter()
                .filter_map(|word| Some(word.to_possible_value()?.get_name().to_owned()))
                .collect();
            let hint = crate::suggest::hint(text.get_ref(), words.iter().map(String::as_str));
            self.fault(text.span(), format_args!("unknown word \"{}\"{hint}", text.get_ref()))
        })
    }

    pub(super) fn device(&self, text: &Spanned<String>) -> Result<String, CliError> {
        let built = built(text.get_ref()).map_err(|error| self.fault(text.span(), error));
        built.map(|_| text.get_ref().clone())
    }

    /// A name among known ones.
    pub(in crate::commands::reproduce) fn known<'n>(
        &self,
        what: &str,
        name: &'n Spanned<String>,
        known: &[impl AsRef<str>],
    ) -> Result<&'n String, CliError> {
        if known.iter().any(|known| known.as_ref() == name.get_ref()) {
            return Ok(name.get_ref());
        }
        let unknown = CliError::unknown(what, name.get_ref(), known.iter().map(AsRef::as_ref));
        Err(self.fault(name.span(), unknown))
    }

    /// Some of the known names: all, if none are given.
    pub(super) fn chosen(
        &self,
        what: &str,
        names: Option<&Vec<Spanned<String>>>,
        known: &[String],
    ) -> Result<Vec<String>, CliError> {
        let Some(names) = names else { return Ok(known.to_vec()) };
        names.iter().map(|name| self.known(what, name, known).cloned()).collect()
    }

    /// Parameters that a scheme has and takes.
    pub(super) fn own_parameters(&self, scheme: &str, set: &Set) -> Result<(), CliError> {
        let Some(row) = ftl::schemes::by_name(scheme) else { return Ok(()) };
        for (name, value) in set {
            let Some(parameter) = row.parameter(name) else {
                let known = row.parameters().map(|parameter| parameter.name);
                let unknown = CliError::unknown(&format!("parameter of {scheme}"), name, known);
                return Err(self.fault(value.span(), unknown));
            };
            let text = setting(parameter.unit, value.get_ref()).map_err(|what| self.fault(value.span(), what))?;
            parameter.parse(&text).map_err(|what| self.fault(value.span(), what))?;
        }
        Ok(())
    }

    /// Parameters for whoever has them: somebody must, and take the value, unless a scheme is not there to ask.
    pub(super) fn shared_parameters(&self, schemes: &[&str], set: &Set) -> Result<(), CliError> {
        let rows: Vec<_> = schemes.iter().map(|scheme| ftl::schemes::by_name(scheme)).collect();
        for (name, value) in set {
            let takes = |row: &ftl::Scheme| row.parameter(name).is_some();
            if !rows.iter().any(|row| row.is_none_or(takes)) {
                let known = rows.iter().flatten().flat_map(|row| row.parameters()).map(|parameter| parameter.name);
                let unknown = CliError::unknown("parameter of any scheme here", name, known);
                return Err(self.fault(value.span(), unknown));
            }
            let parameters: Vec<_> = rows.iter().flatten().filter_map(|row| row.parameter(name)).collect();
            let taken = parameters
                .iter()
                .map(|one| setting(one.unit, value.get_ref()).and_then(|text| one.parse(&text).map(drop)));
            let refused: Vec<String> = taken.filter_map(Result::err).collect();
            if let Some(what) = refused.first().filter(|_| refused.len() == parameters.len()) {
                return Err(self.fault(value.span(), what));
            }
        }
        Ok(())
    }

    /// No two rows have one label, configuration and workload: figures could not be told apart.
    pub(super) fn told_apart(&self, rows: &[Row]) -> Result<(), CliError> {
        let mut seen = BTreeSet::new();
        for row in rows {
            let figures = row.of.iter().flat_map(|of| row.workloads.iter().map(move |workload| (of, workload)));
            if let Some((of, workload)) = figures.clone().find(|figure| seen.contains(&(&row.label, *figure))) {
                let what = format_args!("a second row {:?} of {of} under {workload}; give it another label", row.label);
                return Err(CliError::new(what).within(self.name));
            }
            seen.extend(figures.map(|figure| (&row.label, figure)));
        }
        Ok(())
    }

    /// The devices of a workload can be built, and what stands in for its trace can be made on them.
    pub(super) fn can_run(
        &self,
        workload: &Workload,
        paper: &Paper,
        configurations: &[Configuration],
    ) -> Result<(), CliError> {
        let device = workload.device(paper);
        let capacity = built(device).and_then(|_| device_spec(Some(device))).map(|spec| spec.capacity());
        let Places { twin, generator, device: place } = &workload.places;
        let capacity = capacity.map_err(|error| error.within(place))?.unwrap_or(GENERATED_BYTES);
        for (spec, place) in [(&workload.generator, generator), (&workload.twin, twin)] {
            let made = spec.as_ref().map(|spec| Origin::generated(spec.get_ref(), capacity));
            made.transpose().map_err(|error| error.within(place))?;
        }
        for changes in configurations.iter().filter_map(|one| one.change_device.as_ref()) {
            built(&changed(device, changes.get_ref())).map_err(|error| self.fault(changes.span(), error))?;
        }
        Ok(())
    }

    pub(super) fn row(&self, read: RowFile, workloads: &[String], configurations: &[String]) -> Result<Row, CliError> {
        let workloads = self.chosen("workload", read.workloads.as_ref(), workloads)?;
        let of = match read.of.get_ref() {
            Value::String(name) => vec![name.clone()],
            Value::Array(names) => names.iter().map_while(|name| Some(name.as_str()?.to_owned())).collect(),
            _ => Vec::new(),
        };
        if of.is_empty() || read.of.get_ref().as_array().is_some_and(|names| names.len() > of.len()) {
            return Err(self.fault(read.of.span(), "of is the name of a configuration, or a list of them"));
        }
        if let Some((_, name)) = of.iter().enumerate().find(|&(index, name)| of[..index].contains(name)) {
            return Err(self.fault(read.of.span(), format_args!("of names {name:?} twice")));
        }
        for name in of.iter().chain(read.against.as_ref().map(Spanned::get_ref)) {
            if !configurations.contains(name) {
                let known = configurations.iter().map(String::as_str);
                return Err(self.fault(read.of.span(), CliError::unknown("configuration", name, known)));
            }
        }
        for name in std::iter::once(&read.measure).chain(&read.whole).chain(&read.exercised_by) {
            measure::check(name.get_ref()).map_err(|error| self.fault(name.span(), error))?;
        }
        let needs = |what: &str, given: bool, needed: bool| match (given, needed) {
            (false, true) => Err(self.fault(read.measure.span(), format_args!("this relation needs `{what}`"))),
            (true, false) => Err(self.fault(read.measure.span(), format_args!("this relation has no `{what}`"))),
            _ => Ok(()),
        };
        needs("against", read.against.is_some(), read.relation.is_comparison())?;
        needs("whole", read.whole.is_some(), read.relation == Relation::Share)?;
        let unit = match (&read.unit, read.relation) {
            (Some(unit), _) => {
                let known: Vec<&str> = UNITS.iter().map(|(name, _)| *name).collect();
                let name = self.known("unit", unit, &known)?;
                UNITS.iter().find(|(known, _)| known == name).map_or("", |(known, _)| known)
            }
            (None, Relation::Change | Relation::Share) => "%",
            (None, Relation::Difference) => "points",
            (None, Relation::Ratio) => "times",
            (None, Relation::Value | Relation::Least | Relation::Most) => "",
        };
        let published = match &read.published {
            None => BTreeMap::new(),
            Some(value) => self.published(value, &workloads, read.relation, configurations)?,
        };
        Ok(Row {
            label: read.label,
            measure: read.measure.into_inner(),
            relation: read.relation,
            of,
            against: read.against.map(Spanned::into_inner),
            whole: read.whole.map(Spanned::into_inner),
            exercised_by: read.exercised_by.map(Spanned::into_inner),
            unit,
            mean: read.mean || published.contains_key(MEAN),
            published,
            lost: read.lost,
            note: read.note,
            workloads,
        })
    }

    fn published(
        &self,
        value: &Spanned<Value>,
        workloads: &[String],
        relation: Relation,
        configurations: &[String],
    ) -> Result<BTreeMap<String, Published>, CliError> {
        let one = |value: &Value| -> Result<Published, CliError> {
            let number = |value: &Value| value.as_float().or_else(|| value.as_integer().map(|number| number as f64));
            match value {
                Value::String(name) if relation.is_choice() => match configurations.contains(name) {
                    true => Ok(Published::Name(name.clone())),
                    false => Err(CliError::unknown("configuration", name, configurations.iter().map(String::as_str))),
                },
                _ if relation.is_choice() => Err(CliError::new("what was published is a configuration's name here")),
                Value::Array(ends) if ends.len() == 2 => number(&ends[0])
                    .zip(number(&ends[1]))
                    .filter(|(low, high)| low < high)
                    .map(|(low, high)| Published::Range(low, high))
                    .ok_or_else(|| CliError::new("a range is [low, high]")),
                value => number(value)
                    .filter(|number| number.is_finite())
                    .map(Published::Number)
                    .ok_or_else(|| CliError::new("what was published is a number, or a range [low, high]")),
            }
        };
        let read = match value.get_ref() {
            Value::Table(table) => table
                .iter()
                .map(|(name, value)| match name == MEAN || workloads.contains(name) {
                    true => Ok((name.clone(), one(value)?)),
                    false => {
                        let known = workloads.iter().map(String::as_str).chain([MEAN]);
                        Err(CliError::unknown("workload", name, known))
                    }
                })
                .collect(),
            value => {
                one(value).map(|published| workloads.iter().map(|name| (name.clone(), published.clone())).collect())
            }
        };
        read.map_err(|error: CliError| self.fault(value.span(), error))
    }

    pub(super) fn sensitivity(
        &self,
        read: SensitivityFile,
        workloads: &[Workload],
        paper: &Paper,
        rows: &[Row],
        (schemes, changes): (&[&str], &BTreeSet<&str>),
    ) -> Result<Sensitivity, CliError> {
        let names: Vec<String> = workloads.iter().map(|workload| workload.name.clone()).collect();
        let chosen = self.chosen("workload", read.workloads.as_ref(), &names)?;
        let varied = match (&read.device_key, &read.parameter, read.fill) {
            (Some(key), None, false) => {
                let keys: Vec<&str> = sim::device::keys().map(|key| key.name).collect();
                Varied::Device(self.known("key of a device", key, &keys)?.clone())
            }
            (None, Some(name), false) => Varied::Parameter(name.get_ref().clone()),
            (None, None, true) => Varied::Fill,
            _ => {
                let span = read.values.first().map_or(0..0, Spanned::span);
                return Err(self.fault(span, "a sensitivity has one of device-key, parameter, and fill = true"));
            }
        };
        if read.values.is_empty() {
            let what = format_args!("the sensitivity {:?} has no values; give at least one", read.label);
            return Err(CliError::new(what).within(self.name));
        }
        let mut values = Vec::new();
        for value in &read.values {
            let text = setting("", value.get_ref()).map_err(|what| self.fault(value.span(), what))?;
            match &varied {
                Varied::Fill => {
                    self.word(Some(&Spanned::new(value.span(), text.clone())), Fill::Sequential)?;
                }
                Varied::Parameter(name) => {
                    self.shared_parameters(schemes, &Set::from([(name.clone(), value.clone())]))?;
                }
                Varied::Device(key) => {
                    for workload in workloads.iter().filter(|workload| chosen.contains(&workload.name)) {
                        for changes in changes {
                            let device = changed(&changed(workload.device(paper), changes), &format!("{key}={text}"));
                            built(&device).map_err(|error| self.fault(value.span(), error))?;
                        }
                    }
                }
            }
            values.push(text);
        }
        let labels: Vec<String> = rows.iter().map(|row| row.label.clone()).collect();
        Ok(Sensitivity {
            varied,
            values,
            requests: read.requests.map(|Count(requests)| requests),
            workloads: chosen,
            rows: self.chosen("row", read.rows.as_ref(), &labels)?,
            label: read.label,
        })
    }

    pub(super) fn curve(
        &self,
        read: CurveFile,
        workloads: &[String],
        configurations: &[String],
        rows: &[Row],
        sensitivities: &[Sensitivity],
    ) -> Result<Curve, CliError> {
        let labels: Vec<String> = rows.iter().map(|row| row.label.clone()).collect();
        let rows_drawn = self.chosen("row", read.rows.as_ref(), &labels)?;
        let all = |what: &str, known: &[String]| -> Result<(), CliError> {
            read.at.iter().try_for_each(|(name, _)| self.known(what, name, known).map(|_| ()))
        };
        let along = match read.along.get_ref().as_str() {
            "workload" => all("workload", workloads).map(|()| Along::Workload)?,
            "configuration" => all("configuration", configurations).map(|()| Along::Configuration)?,
            "row" => all("row", &labels).map(|()| Along::Row)?,
            // Which other experiments the paper has is not known here.
            "experiment" => Along::Experiment,
            varied => {
                let named = sensitivities.iter().filter(|one| one.varied.name() == varied);
                let values: Vec<String> = named.flat_map(|one| one.values.clone()).collect();
                if values.is_empty() {
                    let fixed = ["workload", "configuration", "row", "experiment"].into_iter();
                    let known = fixed.chain(sensitivities.iter().map(|one| one.varied.name()));
                    return Err(self.fault(read.along.span(), CliError::unknown("direction", varied, known)));
                }
                all("value", &values)?;
                Along::Varied(varied.to_owned())
            }
        };
        let drawn = |label: &String| match along {
            Along::Row => read.at.iter().any(|(name, _)| name.get_ref() == label),
            _ => rows_drawn.contains(label),
        };
        if let Some(row) = rows.iter().find(|row| read.log && drawn(&row.label) && microseconds(row).is_none()) {
            let what = format_args!("log = true draws times; the unit of {:?} is none", row.label);
            return Err(self.fault(read.along.span(), what));
        }
        Ok(Curve {
            title: read.title,
            x: read.x,
            along,
            at: read.at.into_iter().map(|(name, label)| (name.into_inner(), label)).collect(),
            log: read.log,
            rows: rows_drawn,
        })
    }
}

/// The parser's message about an unknown key or word, with the nearest one.
fn unknown_key(message: &str) -> Option<String> {
    let of = |beginning, what| Some((message.strip_prefix(beginning)?, what));
    let (rest, what) = of("unknown field ", "key").or_else(|| of("unknown variant ", "word"))?;
    let mut words = rest.split('`').skip(1).step_by(2);
    let name = words.next()?;
    Some(format!("unknown {what} \"{name}\"{}", crate::suggest::hint(name, words)))
}

//! Specification strings, `NAME[:key=value,...]`, read against a row of the table.
//!
//! A specification is a command line in small: unknown names are answered with the nearest known one, a value out of
//! range with the range, a value of the wrong form with the right form. Every fault names the specification itself as
//! its origin, so that the message stands alone in a report of a hundred runs.

use std::collections::{BTreeMap, BTreeSet};

use super::size::SizeMix;
use crate::units::{self, UnitError};
use crate::workload::WorkloadError;

/// What a parameter's value is, hence how it is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A count, decimal units ([`units::parse_count`]).
    Count,
    /// A size in bytes, binary units ([`units::parse_bytes`]).
    Bytes,
    /// A duration ([`units::parse_duration_ns`]).
    Duration,
    /// A share from 0 to 1 ([`units::parse_share`]).
    Share,
    /// A plain number of at least 0 ([`units::parse_number`]).
    Number,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A size or a mix of sizes ([`SizeMix::parse`]).
    Sizes,
}

impl Kind {
    /// The kind in one word, for tables.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Count => "count",
            Kind::Bytes => "size",
            Kind::Duration => "duration",
            Kind::Share => "share",
            Kind::Number => "number",
            Kind::Choice(_) => "choice",
            Kind::Sizes => "size mix",
        }
    }

    fn show(self, value: f64) -> String {
        match self {
            Kind::Count => units::show_count(value as u64),
            Kind::Bytes | Kind::Sizes => units::show_bytes(value as u64),
            Kind::Duration => units::show_duration_ns(value as u64),
            Kind::Share | Kind::Number | Kind::Choice(_) => value.to_string(),
        }
    }
}

/// What holds when a parameter is not given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Default {
    /// This text, read as if it had been given.
    Text(&'static str),
    /// A value that follows from others; the text says which.
    Derived(&'static str),
}

/// One parameter of a generator: enough to parse it, check it and document it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Parameter {
    /// The key, kebab-case.
    pub name: &'static str,
    /// How the value is written, hence its unit.
    pub kind: Kind,
    /// What holds when it is not given.
    pub default: Default,
    /// Least and greatest value allowed, in the kind's unit (bytes, nanoseconds); unused for choices.
    pub range: (f64, f64),
    /// What it does.
    pub doc: &'static str,
}

impl Parameter {
    /// The allowed values, as text.
    pub fn allowed(&self) -> String {
        if let Kind::Choice(words) = self.kind {
            return words.join(" | ");
        }
        let (least, greatest) = self.range;
        if greatest == f64::INFINITY {
            format!("at least {}", self.kind.show(least))
        } else {
            format!("{} to {}", self.kind.show(least), self.kind.show(greatest))
        }
    }
}

/// A value after parsing and range checks.
#[derive(Clone, PartialEq, Debug)]
enum Value {
    Integer(u64),
    Real(f64),
    Word(&'static str),
    Sizes(SizeMix),
}

/// The checked arguments of one specification. A getter asked for a parameter that the row does not list, or of another
/// kind, is a bug of the generator and panics.
#[derive(Clone, PartialEq, Debug)]
pub struct Arguments {
    spec: String,
    values: BTreeMap<&'static str, Value>,
    given: BTreeSet<&'static str>,
}

impl Arguments {
    /// Reads `text` (what follows the colon; may be empty) against `parameters`. A `positional` parameter may be given
    /// first without its key. `overrides` replace defaults.
    ///
    /// # Errors
    /// Unknown or repeated keys, values of the wrong form or out of range.
    pub fn parse(
        spec: &str,
        text: &str,
        parameters: &[Parameter],
        positional: Option<&str>,
        overrides: &[(&str, &'static str)],
    ) -> Result<Arguments, WorkloadError> {
        let (values, given) = (BTreeMap::new(), BTreeSet::new());
        let mut arguments = Arguments { spec: spec.to_owned(), values, given };
        for (index, item) in text.split(',').enumerate() {
            if text.is_empty() {
                break;
            }
            let (key, value) = match (item.split_once('='), positional) {
                (Some(pair), _) => pair,
                (None, Some(name)) if index == 0 => (name, item),
                (None, _) => {
                    let keys: Vec<_> = parameters.iter().map(|p| p.name).collect();
                    let what = format!("`{item}` is not of the form key=value");
                    return Err(arguments.fault(what, format!("keys: {}", keys.join(", "))));
                }
            };
            let names = parameters.iter().map(|p| p.name);
            let Some(parameter) = parameters.iter().find(|p| p.name == key) else {
                let what = format!("there is no parameter `{key}` here");
                return Err(arguments.fault(what, suggest(key, names, "parameters")));
            };
            if !arguments.given.insert(parameter.name) {
                return Err(arguments.fault(format!("`{key}` is given twice"), "keep one of them".to_owned()));
            }
            let value = arguments.read(parameter, value)?;
            arguments.values.insert(parameter.name, value);
        }
        for parameter in parameters {
            let replaced = overrides.iter().find(|(name, _)| *name == parameter.name).map(|(_, text)| *text);
            let text = match (replaced, parameter.default) {
                (Some(text), _) | (None, Default::Text(text)) => text,
                (None, Default::Derived(_)) => continue,
            };
            if !arguments.given.contains(parameter.name) {
                let value = arguments.read(parameter, text)?;
                arguments.values.insert(parameter.name, value);
            }
        }
        Ok(arguments)
    }

    fn read(&self, parameter: &Parameter, text: &str) -> Result<Value, WorkloadError> {
        let form = |e: UnitError| {
            self.fault(format!("{}: `{}` {}", parameter.name, e.text, e.what), format!("write {}", e.accepted))
        };
        let (value, size) = match parameter.kind {
            Kind::Count => units::parse_count(text).map(|v| (Value::Integer(v), v as f64)).map_err(form)?,
            Kind::Bytes => units::parse_bytes(text).map(|v| (Value::Integer(v), v as f64)).map_err(form)?,
            Kind::Duration => units::parse_duration_ns(text).map(|v| (Value::Integer(v), v as f64)).map_err(form)?,
            Kind::Share => units::parse_share(text).map(|v| (Value::Real(v), v)).map_err(form)?,
            Kind::Number => units::parse_number(text).map(|v| (Value::Real(v), v)).map_err(form)?,
            Kind::Choice(words) => match words.iter().find(|w| **w == text) {
                Some(word) => return Ok(Value::Word(word)),
                None => {
                    let what = format!("{}: `{text}` is not a choice", parameter.name);
                    return Err(self.fault(what, suggest(text, words.iter().copied(), "choices")));
                }
            },
            Kind::Sizes => {
                let mix = SizeMix::parse(text).map_err(form)?;
                let worst = if (mix.smallest() as f64) < parameter.range.0 { mix.smallest() } else { mix.largest() };
                (Value::Sizes(mix), worst as f64)
            }
        };
        if size < parameter.range.0 || size > parameter.range.1 {
            let what = format!("{}: {text} is out of range", parameter.name);
            return Err(self.fault(what, format!("allowed: {}", parameter.allowed())));
        }
        Ok(value)
    }

    /// A fault of this specification.
    pub fn fault(&self, what: impl Into<String>, fix: impl Into<String>) -> WorkloadError {
        WorkloadError { origin: self.spec.clone(), line: 0, what: what.into(), fix: fix.into() }
    }

    /// The value of a count, size (bytes) or duration (nanoseconds); `None` if it was not given and is derived.
    pub fn integer(&self, name: &str) -> Option<u64> {
        self.values.get(name).map(|value| match value {
            Value::Integer(v) => *v,
            _ => panic!("parameter {name} is not an integer"),
        })
    }

    /// The value of a share or number.
    pub fn real(&self, name: &str) -> f64 {
        match self.values.get(name) {
            Some(Value::Real(v)) => *v,
            other => panic!("parameter {name} is not a number: {other:?}"),
        }
    }

    /// Whether a parameter was given, also if with its default.
    pub fn is_given(&self, name: &str) -> bool {
        self.given.contains(name)
    }

    /// The word chosen; `None` if it was not given and is derived.
    pub fn word(&self, name: &str) -> Option<&'static str> {
        self.values.get(name).map(|value| match value {
            Value::Word(word) => *word,
            _ => panic!("parameter {name} is not a choice"),
        })
    }

    /// The size mix.
    pub fn sizes(&self, name: &str) -> &SizeMix {
        match self.values.get(name) {
            Some(Value::Sizes(mix)) => mix,
            other => panic!("parameter {name} is not a size mix: {other:?}"),
        }
    }
}

/// "did you mean …?" and the whole list.
pub(super) fn suggest<'a>(word: &str, known: impl Iterator<Item = &'a str>, list: &str) -> String {
    let known: Vec<_> = known.collect();
    // Who wrote the beginning of a name meant that name.
    let begins = |name: &str| !word.is_empty() && name.starts_with(word);
    let nearest = known.iter().min_by_key(|name| (!begins(name), strsim::damerau_levenshtein(word, name)));
    match nearest {
        Some(nearest) => format!("did you mean `{nearest}`? {list}: {}", known.join(", ")),
        None => format!("it takes no {list}"),
    }
}

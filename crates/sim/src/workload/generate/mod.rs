//! Generators: workloads made from a one-line specification.
//!
//! `NAME[:key=value,...]`, for example `zipf:theta=0.99,reads=0.3,requests=5M`. The table [`GENERATORS`] has one row
//! per generator that describes itself: help, documentation and every check of the specification follow from it. A
//! specification and a seed determine every request; nothing else does.
//!
//! Real workloads that nobody may pass on are imitated by [twins](twin): statistical models of published traces.

mod arrival;
mod common;
mod fit;
mod hotcold;
mod overload;
mod pages;
pub mod published;
mod scatter;
mod size;
mod spec;
mod streams;
pub mod twin;
mod uniform;
pub mod validate;
mod zipf;

pub use common::PARAMETERS as COMMON_PARAMETERS;
pub use fit::{fit, fit_merged};
pub use size::SizeMix;
pub use spec::{Arguments, Default, Kind, Parameter};
pub use twin::{Twin, TwinModel};

use super::{Source, WorkloadError};

/// What a constructor returns.
pub type SpecSource = Box<dyn Source>;

/// What a generator needs to know beside its specification.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Context {
    /// Bytes of the device that will serve the requests; the default `span`.
    pub capacity_bytes: u64,
    /// Determines every draw.
    pub seed: u64,
}

/// A row of the table: one generator.
#[derive(Clone, Copy, Debug)]
pub struct Generator {
    /// Its name in specifications, kebab-case.
    pub name: &'static str,
    /// What it makes, in one line.
    pub summary: &'static str,
    /// The parameter that may be given first without its key, if any.
    pub positional: Option<&'static str>,
    /// Its own parameters.
    pub parameters: &'static [Parameter],
    /// Whether it takes [`COMMON_PARAMETERS`] too.
    pub common: bool,
    /// Common parameters whose default differs here.
    pub defaults: &'static [(&'static str, &'static str)],
    /// Makes the source from checked arguments.
    pub construct: fn(&Arguments, &Context) -> Result<SpecSource, WorkloadError>,
}

impl Generator {
    /// All parameters it takes, its own first.
    pub fn all_parameters(&self) -> Vec<Parameter> {
        let common = if self.common { COMMON_PARAMETERS } else { &[] };
        self.parameters.iter().chain(common).copied().collect()
    }

    /// The default of `parameter` in this generator, as text.
    pub fn default_of(&self, parameter: &Parameter) -> &'static str {
        match (self.defaults.iter().copied().find(|(name, _)| *name == parameter.name), parameter.default) {
            (Some((_, text)), _) | (None, Default::Text(text) | Default::Derived(text)) => text,
        }
    }

    /// Its documentation: the summary and a line per parameter.
    pub fn help(&self) -> String {
        let mut text = format!("{}: {}\n", self.name, self.summary);
        for parameter in self.all_parameters() {
            let positional =
                if self.positional == Some(parameter.name) { ", may come first without its key" } else { "" };
            text += &format!(
                "  {} ({}; {}; default {}{positional})\n      {}\n",
                parameter.name,
                parameter.kind.name(),
                parameter.allowed(),
                self.default_of(&parameter),
                parameter.doc
            );
        }
        text
    }
}

/// All generators.
pub const GENERATORS: &[Generator] = &[
    uniform::ROW,
    zipf::ROW,
    hotcold::ROW,
    streams::SEQUENTIAL,
    streams::STREAMS,
    overload::RANDOM,
    overload::SEQUENTIAL,
    published::ROW,
];

/// Short names kept because the papers' readers look for them: name, what it stands for.
pub const ALIASES: &[(&str, &str)] = &[("s4a", "overload-random"), ("s4b", "overload-sequential")];

/// The row called `name` (or by an alias).
pub fn find(name: &str) -> Option<&'static Generator> {
    let name = ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, full)| full);
    GENERATORS.iter().find(|row| row.name == name)
}

/// The source that `spec` describes.
///
/// # Errors
/// Unknown generators and parameters (with the nearest known one), values of the wrong form or out of range, and
/// combinations that leave no valid extent. The origin is `spec`.
pub fn generate(spec: &str, context: &Context) -> Result<SpecSource, WorkloadError> {
    let (name, text) = spec.split_once(':').unwrap_or((spec, ""));
    let Some(row) = find(name) else {
        let names = GENERATORS.iter().map(|row| row.name);
        let fix = spec::suggest(name, names, "generators");
        let what = format!("there is no generator `{name}`");
        return Err(WorkloadError { origin: spec.to_owned(), line: 0, what, fix });
    };
    let arguments = Arguments::parse(spec, text, &row.all_parameters(), row.positional, row.defaults)?;
    (row.construct)(&arguments, context)
}

#[cfg(test)]
mod tests;

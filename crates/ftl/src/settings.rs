//! A scheme's parameters: rows that describe themselves, and the values chosen for one run.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::any::Any;
use core::fmt;
use core::ops::RangeInclusive;

/// The value of a parameter.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Value {
    /// A count.
    Count(u64),
    /// A share or another real number.
    Real(f64),
    /// `on` or `off`.
    Switch(bool),
    /// One of a list of words.
    Word(&'static str),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Count(n) => write!(f, "{n}"),
            Value::Real(x) => write!(f, "{x}"),
            Value::Switch(on) => f.write_str(if *on { "on" } else { "off" }),
            Value::Word(word) => f.write_str(word),
        }
    }
}

/// What values a parameter takes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Range {
    /// Counts from the first to the second, both included.
    Count(u64, u64),
    /// Powers of two from the first to the second, both included.
    PowerOfTwo(u64, u64),
    /// Real numbers from the first to the second, both included.
    Real(f64, f64),
    /// `on` or `off`.
    Switch,
    /// One of these words.
    Words(&'static [&'static str]),
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Range::Count(low, high) => write!(f, "{low} to {high}"),
            Range::PowerOfTwo(low, high) => write!(f, "a power of two from {low} to {high}"),
            Range::Real(low, high) => write!(f, "{low} to {high}"),
            Range::Switch => f.write_str("on or off"),
            Range::Words(words) => f.write_str(&words.join(", ")),
        }
    }
}

/// One parameter: a row from which help, validation and documentation are made. It stands with the part that reads it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Parameter {
    /// Name, kebab-case.
    pub name: &'static str,
    /// What it means, what larger values gain, and what they cost.
    pub text: &'static str,
    /// Unit; empty if it has none.
    pub unit: &'static str,
    /// Value if nobody says otherwise.
    pub default: Value,
    /// What it may be.
    pub range: Range,
    /// Where it comes from, with keys of [`crate::papers`]; or "ftlab".
    pub source: &'static str,
}

impl Parameter {
    const fn new(name: &'static str, default: Value, range: Range) -> Parameter {
        Parameter { name, text: "", unit: "", default, range, source: "" }
    }

    /// A count in a range.
    pub const fn count(name: &'static str, default: u64, range: RangeInclusive<u64>) -> Parameter {
        Parameter::new(name, Value::Count(default), Range::Count(*range.start(), *range.end()))
    }

    /// A power of two in a range.
    pub const fn power(name: &'static str, default: u64, range: RangeInclusive<u64>) -> Parameter {
        Parameter::new(name, Value::Count(default), Range::PowerOfTwo(*range.start(), *range.end()))
    }

    /// A real number in a range.
    pub const fn real(name: &'static str, default: f64, range: RangeInclusive<f64>) -> Parameter {
        Parameter::new(name, Value::Real(default), Range::Real(*range.start(), *range.end()))
    }

    /// `on` or `off`.
    pub const fn switch(name: &'static str, default: bool) -> Parameter {
        Parameter::new(name, Value::Switch(default), Range::Switch)
    }

    /// One of some words.
    pub const fn word(name: &'static str, default: &'static str, words: &'static [&'static str]) -> Parameter {
        Parameter::new(name, Value::Word(default), Range::Words(words))
    }

    /// With a unit.
    pub const fn unit(self, unit: &'static str) -> Parameter {
        Parameter { unit, ..self }
    }

    /// With its text.
    pub const fn text(self, text: &'static str) -> Parameter {
        Parameter { text, ..self }
    }

    /// With its source.
    pub const fn source(self, source: &'static str) -> Parameter {
        Parameter { source, ..self }
    }

    /// With another default.
    pub const fn at(self, default: Value) -> Parameter {
        Parameter { default, ..self }
    }
}

/// The parameters of one part.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Group {
    /// What the part does.
    pub title: &'static str,
    /// Its rows.
    pub rows: &'static [Parameter],
}

impl Parameter {
    /// Reads a value of this parameter.
    ///
    /// # Errors
    /// What is wrong with `text` and what is accepted.
    ///
    /// ```
    /// use ftl::{Parameter, Value};
    /// const SHARE: Parameter = Parameter::real("share", 0.5, 0.0..=1.0);
    /// assert_eq!(SHARE.parse("0.25"), Ok(Value::Real(0.25)));
    /// assert_eq!(SHARE.parse("2").unwrap_err(), "share = 2: must be 0 to 1");
    /// ```
    pub fn parse(&self, text: &str) -> Result<Value, String> {
        let text = text.trim();
        let one_of = if matches!(self.range, Range::Words(_)) { "one of " } else { "" };
        let refuse = || format!("{} = {text}: must be {one_of}{}", self.name, self.range);
        match self.range {
            Range::Count(low, high) => {
                let n = text.parse::<u64>().map_err(|_| refuse())?;
                if (low..=high).contains(&n) { Ok(Value::Count(n)) } else { Err(refuse()) }
            }
            Range::PowerOfTwo(low, high) => {
                let n = text.parse::<u64>().map_err(|_| refuse())?;
                if (low..=high).contains(&n) && n.is_power_of_two() { Ok(Value::Count(n)) } else { Err(refuse()) }
            }
            Range::Real(low, high) => {
                let x = text.parse::<f64>().map_err(|_| refuse())?;
                if (low..=high).contains(&x) { Ok(Value::Real(x)) } else { Err(refuse()) }
            }
            Range::Switch => match text {
                "on" | "true" | "yes" | "1" => Ok(Value::Switch(true)),
                "off" | "false" | "no" | "0" => Ok(Value::Switch(false)),
                _ => Err(refuse()),
            },
            Range::Words(words) => {
                words.iter().find(|&&word| word == text).map(|&word| Value::Word(word)).ok_or_else(refuse)
            }
        }
    }
}

/// What a word stands for that a program added at run time. Two are equal if they are the same object.
#[derive(Clone, Copy)]
struct Added(&'static (dyn Any + Send + Sync));

impl PartialEq for Added {
    fn eq(&self, other: &Added) -> bool {
        core::ptr::addr_eq(self.0, other.0)
    }
}

impl fmt::Debug for Added {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("added at run time")
    }
}

/// The values of all parameters in one run. A part reads its own when it is made, by their rows, into a struct of its
/// own; nothing looks one up by name later.
///
/// ```
/// let mut settings = ftl::schemes::by_name("dftl").unwrap().settings();
/// settings.set("cache-bytes", "65536").unwrap();
/// assert_eq!(settings.get("cache-bytes"), Some(ftl::Value::Count(65536)));
/// assert!(settings.set("cache-byte", "1").unwrap_err().starts_with("no parameter cache-byte; there are cache-bytes"));
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Settings {
    /// What can be set.
    values: Vec<(&'static Parameter, Value)>,
    /// What the scheme has fixed.
    fixed: &'static [Parameter],
    /// What words stand for that are in no table, by the parameter's name.
    added: Vec<(&'static str, Added)>,
    /// What was read.
    #[cfg(test)]
    read: core::cell::RefCell<alloc::collections::BTreeSet<&'static str>>,
}

impl Settings {
    /// Everything at its default; `fixed` can be read and not be set.
    pub fn new(rows: impl IntoIterator<Item = &'static Parameter>, fixed: &'static [Parameter]) -> Settings {
        let mut settings = Settings {
            values: Vec::new(),
            fixed,
            added: Vec::new(),
            #[cfg(test)]
            read: core::cell::RefCell::default(),
        };
        settings.extend(rows);
        settings
    }

    /// Everything at its default.
    pub fn defaults(rows: impl IntoIterator<Item = &'static Parameter>) -> Settings {
        Settings::new(rows, &[])
    }

    /// Adds parameters at their defaults.
    ///
    /// # Panics
    /// If one of the names is there already: a bug.
    pub fn extend(&mut self, rows: impl IntoIterator<Item = &'static Parameter>) {
        for row in rows {
            let taken = self.get(row.name).is_some() || self.fixed.iter().any(|fixed| fixed.name == row.name);
            assert!(!taken, "two parameters are called {}", row.name);
            self.values.push((row, row.default));
        }
    }

    /// Sets one parameter.
    ///
    /// # Errors
    /// An unknown name (with the list of known ones) or a bad value.
    pub fn set(&mut self, name: &str, text: &str) -> Result<(), String> {
        let Some((row, value)) = self.values.iter_mut().find(|(row, _)| row.name == name) else {
            let names: Vec<&str> = self.values.iter().map(|(row, _)| row.name).collect();
            return Err(format!("no parameter {name}; there are {}", names.join(", ")));
        };
        *value = row.parse(text)?;
        self.added.retain(|(other, _)| *other != name);
        Ok(())
    }

    /// Sets a parameter to a value that is known to fit.
    ///
    /// # Panics
    /// If there is no such parameter: a bug.
    pub fn put(&mut self, name: &str, value: Value) {
        let slot = self.values.iter_mut().find(|(row, _)| row.name == name);
        slot.unwrap_or_else(|| panic!("no parameter {name}")).1 = value;
    }

    /// Sets a parameter to a word that is in no table, and keeps what it stands for.
    ///
    /// # Panics
    /// If there is no such parameter: a bug.
    pub fn put_added(&mut self, name: &'static str, word: &'static str, meaning: &'static (dyn Any + Send + Sync)) {
        self.put(name, Value::Word(word));
        self.added.retain(|(other, _)| *other != name);
        self.added.push((name, Added(meaning)));
    }

    /// What the word of a parameter stands for, if it is in no table.
    pub fn added<T: Any>(&self, name: &str) -> Option<&'static T> {
        let found = self.added.iter().find(|(other, _)| *other == name);
        found.and_then(|(_, meaning)| meaning.0.downcast_ref())
    }

    /// Names and values of what can be set, in the order of the rows.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, Value)> + '_ {
        self.values.iter().map(|&(row, value)| (row.name, value))
    }

    /// The value of a parameter, if it can be set.
    pub fn get(&self, name: &str) -> Option<Value> {
        self.values.iter().find(|(row, _)| row.name == name).map(|&(_, value)| value)
    }

    fn value(&self, row: &Parameter) -> Value {
        #[cfg(test)]
        self.read.borrow_mut().insert(row.name);
        let fixed = || self.fixed.iter().find(|fixed| fixed.name == row.name).map(|fixed| fixed.default);
        self.get(row.name).or_else(fixed).unwrap_or_else(|| panic!("{} is neither set nor fixed", row.name))
    }

    /// A count.
    ///
    /// # Panics
    /// If no such parameter of this type can be set or is fixed: a bug. So the other getters.
    pub fn count(&self, row: &Parameter) -> u64 {
        let Value::Count(n) = self.value(row) else { panic!("{} is not a count", row.name) };
        n
    }

    /// A count of pages, blocks or bits, all of which fit 32 bits.
    pub fn small(&self, row: &Parameter) -> u32 {
        u32::try_from(self.count(row)).unwrap_or(u32::MAX)
    }

    /// A real number.
    pub fn real(&self, row: &Parameter) -> f64 {
        let Value::Real(x) = self.value(row) else { panic!("{} is not a number", row.name) };
        x
    }

    /// A switch.
    pub fn switch(&self, row: &Parameter) -> bool {
        let Value::Switch(on) = self.value(row) else { panic!("{} is not a switch", row.name) };
        on
    }

    /// A word.
    pub fn word(&self, row: &Parameter) -> &'static str {
        let Value::Word(word) = self.value(row) else { panic!("{} is not a word", row.name) };
        word
    }
}

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text: Vec<String> = self.iter().map(|(name, value)| format!("{name}={value}")).collect();
        f.write_str(&text.join(" "))
    }
}

/// Parameters that are read only where another one has one of some words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dependence {
    /// Their names.
    pub parameters: &'static [&'static str],
    /// The other's name.
    pub on: &'static str,
    /// The words with which they are read.
    pub words: &'static [&'static str],
}

impl Dependence {
    /// Why one of the parameters has no effect, if it has none.
    pub fn refusal(&self, name: &str, settings: &Settings) -> Option<String> {
        let Some(Value::Word(word)) = settings.get(self.on) else { return None };
        let (on, words) = (self.on, self.words);
        (!words.contains(&word)).then(|| {
            format!("{name} has no effect with {on}={word}; leave it out, or set {on} to {}", words.join(" or "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schemes::{SCHEMES, Visitor, visit};
    use crate::{Recipe, Scheme};
    use alloc::collections::BTreeSet;
    use alloc::string::ToString;
    use flash::{Full, Geometry, Nand, Tags};

    type Chip = Nand<Tags, Full>;

    const ROWS: &[Parameter] = &[Parameter::count("gc-low", 2, 1..=100)];

    #[test]
    fn says_the_range_and_the_known_names() {
        let mut settings = Settings::defaults(ROWS);
        settings.set("gc-low", "7").unwrap();
        assert_eq!(settings.count(&ROWS[0]), 7);
        assert_eq!(settings.set("gc-low", "0").unwrap_err(), "gc-low = 0: must be 1 to 100");
        assert_eq!(settings.set("gclow", "1").unwrap_err(), "no parameter gclow; there are gc-low");
    }

    #[test]
    fn what_is_fixed_is_read_and_not_set() {
        let mut settings = Settings::new(&[], ROWS);
        assert_eq!((settings.count(&ROWS[0]), settings.get("gc-low")), (2, None));
        assert_eq!(settings.iter().count(), 0);
        settings.set("gc-low", "7").unwrap_err();
    }

    /// A scheme on a small device, and the names that it read.
    struct Read;

    impl Visitor<Chip> for Read {
        type Output = BTreeSet<&'static str>;

        fn visit<S: Recipe<Chip>>(self, row: &Scheme<'_>, recipe: &S) -> Self::Output {
            let g = Geometry { blocks_per_die: 96, pages_per_block: 8, page_bytes: 512, ..Geometry::default() };
            let settings = row.settings();
            recipe.format(&mut Chip::new(Geometry { nop: 4, ..g }.checked().unwrap()), 160, &settings).unwrap();
            settings.read.take()
        }
    }

    /// Nothing is read that the row does not name, for that would panic, and nothing is named that nobody reads.
    #[test]
    fn a_scheme_reads_what_its_row_names() {
        for row in SCHEMES {
            let read = visit(row.name, Read).unwrap();
            let named: BTreeSet<&str> = row.parameters().chain(row.fixed).map(|parameter| parameter.name).collect();
            assert_eq!(read, named, "{}", row.name);
        }
    }

    #[test]
    fn rows_say_what_they_mean() {
        let buffers = crate::buffer::POLICIES.iter().flat_map(|row| row.parameters);
        for row in SCHEMES.iter().flat_map(|row| row.parameters().chain(row.fixed)).chain(buffers) {
            let Parameter { name, text, unit, default, source, .. } = row;
            assert!(text.starts_with(char::is_uppercase) || text.starts_with("bet "), "{name}: {text}");
            assert!(text.ends_with(['.', ')']) && !source.is_empty(), "{name}: {text}");
            let counted = matches!(default, Value::Count(_)) && !matches!(*name, "seed" | "streams" | "bet-k");
            assert!(!counted || !unit.is_empty() || name.starts_with("ecc-"), "{name} has no unit");
        }
        for row in SCHEMES {
            assert!(row.parameters().all(|parameter| parameter.parse(&parameter.default.to_string()).is_ok()));
        }
    }
}

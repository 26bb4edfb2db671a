//! A scheme's parameters: rows that describe themselves, and the values chosen for one run.

use crate::ecc_policy;
use crate::parts::wear;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

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

/// One parameter of a scheme: a row from which help, validation and documentation are made.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Parameter {
    /// Name, kebab-case.
    pub name: &'static str,
    /// What it means and what it trades.
    pub summary: &'static str,
    /// Unit; empty if it has none.
    pub unit: &'static str,
    /// Value if nobody says otherwise.
    pub default: Value,
    /// What it may be.
    pub range: Range,
    /// Where it comes from: paper and section, or "ftlab".
    pub source: &'static str,
}

impl Parameter {
    /// Reads a value of this parameter.
    ///
    /// # Errors
    /// What is wrong with `text` and what is accepted.
    pub fn parse(&self, text: &str) -> Result<Value, String> {
        let text = text.trim();
        let refuse = || format!("{} = {text}: must be {}", self.name, self.range);
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

/// The values of all parameters of one scheme in one run.
#[derive(Clone, PartialEq, Debug)]
pub struct Settings {
    values: Vec<(&'static str, Value)>,
}

impl Settings {
    /// Everything at its default.
    pub fn defaults(parameters: &[Parameter]) -> Settings {
        Settings { values: parameters.iter().map(|p| (p.name, p.default)).collect() }
    }

    /// Adds parameters at their defaults.
    ///
    /// # Panics
    /// If one of the names is there already: a bug.
    pub fn extend(&mut self, parameters: &[Parameter]) {
        let taken = parameters.iter().find(|p| self.get(p.name).is_some());
        assert!(taken.is_none(), "two parameters are called {}", taken.map_or("", |p| p.name));
        self.values.extend(parameters.iter().map(|p| (p.name, p.default)));
    }

    /// Sets one parameter. The name must be among `parameters`.
    ///
    /// # Errors
    /// An unknown name (with the list of known ones) or a bad value.
    pub fn set(&mut self, parameters: &[Parameter], name: &str, text: &str) -> Result<(), String> {
        let parameter = parameters.iter().find(|p| p.name == name).ok_or_else(|| {
            let names: Vec<&str> = parameters.iter().map(|p| p.name).collect();
            format!("no parameter {name}; there are {}", names.join(", "))
        })?;
        let value = parameter.parse(text)?;
        self.put(parameter.name, value);
        Ok(())
    }

    /// Sets a parameter to a value that is known to fit.
    pub fn put(&mut self, name: &str, value: Value) {
        let slot = self.values.iter_mut().find(|(n, _)| *n == name);
        slot.unwrap_or_else(|| panic!("no parameter {name}")).1 = value;
    }

    /// Names and values, in the order of the rows.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, Value)> + '_ {
        self.values.iter().copied()
    }

    /// The value of a parameter, if the scheme has it.
    pub fn get(&self, name: &str) -> Option<Value> {
        self.values.iter().find(|(n, _)| *n == name).map(|&(_, value)| value)
    }

    fn value(&self, name: &str) -> Value {
        self.values.iter().find(|(n, _)| *n == name).unwrap_or_else(|| panic!("no parameter {name}")).1
    }

    /// A count.
    ///
    /// # Panics
    /// If the scheme has no such parameter of this type: a bug. So the other getters.
    pub fn count(&self, name: &str) -> u64 {
        match self.value(name) {
            Value::Count(n) => n,
            other => panic!("{name} is {other}, not a count"),
        }
    }

    /// A real number.
    pub fn real(&self, name: &str) -> f64 {
        match self.value(name) {
            Value::Real(x) => x,
            other => panic!("{name} is {other}, not a number"),
        }
    }

    /// A switch.
    pub fn switch(&self, name: &str) -> bool {
        match self.value(name) {
            Value::Switch(on) => on,
            other => panic!("{name} is {other}, not a switch"),
        }
    }

    /// A word.
    pub fn word(&self, name: &str) -> &'static str {
        match self.value(name) {
            Value::Word(word) => word,
            other => panic!("{name} is {other}, not a word"),
        }
    }
}

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text: Vec<String> = self.values.iter().map(|(n, v)| format!("{n}={v}")).collect();
        f.write_str(&text.join(" ").to_string())
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
    /// What a parameter depends on, if on anything.
    pub fn of(name: &str) -> Option<&'static Dependence> {
        let rows: [&'static [Dependence]; 2] = [&wear::DEPENDENCES, &ecc_policy::DEPENDENCES];
        rows.into_iter().flatten().find(|row| row.parameters.contains(&name))
    }

    /// Why one of the parameters has no effect, if it has none.
    pub fn refusal(&self, name: &str, settings: &Settings) -> Option<String> {
        let Some(Value::Word(word)) = settings.get(self.on) else { return None };
        let (on, words) = (self.on, self.words);
        (!words.contains(&word)).then(|| {
            format!("{name} has no effect with {on}={word}; leave it out, or set {on} to {}", words.join(" or "))
        })
    }
}

/// Why one of the parameters that the user has set does nothing beside the others, and what to do about it.
pub fn without_effect<'a>(settings: &Settings, set: impl IntoIterator<Item = &'a str>) -> Option<String> {
    set.into_iter().find_map(|name| Dependence::of(name)?.refusal(name, settings))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: Parameter = Parameter {
        name: "gc-low",
        summary: "",
        unit: "blocks",
        default: Value::Count(2),
        range: Range::Count(1, 100),
        source: "",
    };

    #[test]
    fn says_the_range_and_the_known_names() {
        let mut settings = Settings::defaults(&[ROW]);
        settings.set(&[ROW], "gc-low", "7").unwrap();
        assert_eq!(settings.count("gc-low"), 7);
        assert_eq!(settings.set(&[ROW], "gc-low", "0").unwrap_err(), "gc-low = 0: must be 1 to 100");
        assert_eq!(settings.set(&[ROW], "gclow", "1").unwrap_err(), "no parameter gclow; there are gc-low");
    }

    #[test]
    fn what_another_parameter_leaves_without_effect_is_told() {
        let parameters = crate::schemes::by_name("page").unwrap().parameters;
        let told = |pairs: &[(&str, &str)]| {
            let mut settings = Settings::defaults(parameters);
            pairs.iter().for_each(|(name, text)| settings.set(parameters, name, text).unwrap());
            without_effect(&settings, pairs.iter().map(|&(name, _)| name))
        };
        for (pairs, expected) in [
            (&[("wear-threshold", "3")][..], "wear-threshold has no effect with wear-levelling=off; leave it out, or"),
            (&[("wear-levelling", "swap"), ("bet-k", "2")], "set wear-levelling to bet"),
            (&[("wear-levelling", "bet"), ("wear-threshold", "2")], "set wear-levelling to swap or static"),
            (&[("ecc", "agcr"), ("ecc-m", "1")], "ecc-m has no effect with ecc=agcr"),
            (&[("ecc", "differentiated"), ("ecc-history", "3")], "set ecc to agcr"),
            (&[("ecc-fill", "policy")], "ecc-fill has no effect with ecc=none"),
        ] {
            let what = told(pairs).unwrap_or_else(|| panic!("{pairs:?}"));
            assert!(what.contains(expected), "{pairs:?}: {what}");
        }
        for pairs in [
            &[("wear-levelling", "static"), ("wear-threshold", "3")][..],
            &[("wear-levelling", "bet"), ("bet-threshold", "9")],
            &[("ecc", "agcr"), ("ecc-history", "3"), ("ecc-fill", "policy")],
            &[("ecc", "differentiated"), ("ecc-m", "1"), ("gc-low", "5")],
        ] {
            assert_eq!(told(pairs), None, "{pairs:?}");
        }
        // Every parameter and word of a row exists.
        let parameter = |name: &str| parameters.iter().find(|parameter| parameter.name == name);
        for row in [&wear::DEPENDENCES[..], &ecc_policy::DEPENDENCES].into_iter().flatten() {
            assert!(row.parameters.iter().all(|name| parameter(name).is_some()), "{row:?}");
            let Range::Words(words) = parameter(row.on).unwrap().range else { panic!("{row:?}") };
            assert!(row.words.iter().all(|word| words.contains(word)), "{row:?}");
        }
        for name in parameters.iter().map(|parameter| parameter.name) {
            let depends = name.starts_with("bet-") || name.starts_with("ecc-") || name == "wear-threshold";
            assert_eq!(Dependence::of(name).is_some(), depends, "{name}");
        }
    }
}

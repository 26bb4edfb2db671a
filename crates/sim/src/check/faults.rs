//! The classes of faults that a check can inject, and which of them a scheme does not promise to survive.
//!
//! docs/fault-model.md says of each class what it is, where it is known from, and what is promised under it. Its table
//! of schemes and classes is [`LOSES`] in other words, and a test holds the two together.

use std::fmt;
use std::str::FromStr;

/// A class of faults.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum FaultClass {
    /// Power fails at a command.
    Cut,
    /// Power fails again during the recovery, and many times in a row.
    Nested,
    /// What a cut command left reads otherwise each time.
    Unstable,
    /// The same, and power fails again during the recovery, and many times in a row, with the same result.
    UnstableNested,
    /// What cut commands left reads otherwise each time, and several commands were under way.
    UnstableFlight,
    /// What a cut command left reads otherwise each time, and a torn page takes others of its word line along.
    UnstablePaired,
    /// Several commands are under way when power fails; erases and programs of metadata follow all programs before
    /// them.
    Flight,
    /// As [`FaultClass::Flight`], with no order but what schemes state and the dies keep. A page of which a program or
    /// a copy was not carried out may be lost, and no other.
    Unordered,
    /// The same, within what a scheme does for a page of the host: what earlier operations have issued is on flash.
    Stages,
    /// Programs and erases fail, and their blocks for good; blocks are bad from the factory.
    Failing,
    /// Programs and erases fail now and then, and the block works again.
    Intermittent,
    /// Host pages cannot be read.
    Unreadable,
    /// A torn page takes others of its word line along.
    Paired,
    /// Programs report success and do not stick; they are read back.
    Silent,
    /// Nothing of a host page can be read, its spare area neither.
    Spare,
    /// Reads and time wear on what blocks hold, until it is lost.
    Disturb,
    /// Pages of metadata cannot be read, some of them with their spare areas.
    Metadata,
}

impl FaultClass {
    /// Every class, in the order of the discriminants.
    pub const ALL: [FaultClass; 17] = [
        FaultClass::Cut,
        FaultClass::Nested,
        FaultClass::Unstable,
        FaultClass::UnstableNested,
        FaultClass::UnstableFlight,
        FaultClass::UnstablePaired,
        FaultClass::Flight,
        FaultClass::Unordered,
        FaultClass::Stages,
        FaultClass::Failing,
        FaultClass::Intermittent,
        FaultClass::Unreadable,
        FaultClass::Paired,
        FaultClass::Silent,
        FaultClass::Spare,
        FaultClass::Disturb,
        FaultClass::Metadata,
    ];

    /// The word on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            FaultClass::Cut => "cut",
            FaultClass::Nested => "nested",
            FaultClass::Unstable => "unstable",
            FaultClass::UnstableNested => "unstable-nested",
            FaultClass::UnstableFlight => "unstable-flight",
            FaultClass::UnstablePaired => "unstable-paired",
            FaultClass::Flight => "flight",
            FaultClass::Unordered => "unordered",
            FaultClass::Stages => "stages",
            FaultClass::Failing => "failing",
            FaultClass::Intermittent => "intermittent",
            FaultClass::Unreadable => "unreadable",
            FaultClass::Paired => "paired",
            FaultClass::Silent => "silent",
            FaultClass::Spare => "spare",
            FaultClass::Disturb => "disturb",
            FaultClass::Metadata => "metadata",
        }
    }
}

/// A set of classes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Faults(u32);

impl Faults {
    /// None: a check of operations and of the two claims alone.
    pub const NONE: Faults = Faults(0);
    /// Every class.
    pub const ALL: Faults = Faults((1 << FaultClass::ALL.len()) - 1);

    /// What a scheme promises to survive, and is checked for unless somebody asks for something else. A scheme that is
    /// not in the table promises no durable discards and nothing that takes them, nor to do without its metadata.
    pub fn promised(scheme: &str) -> Faults {
        let is_own = ftl::schemes::by_name(scheme).is_none();
        let is_lost = |class: &FaultClass| {
            let lost = LOSES.iter().any(|&(name, lost)| name == scheme && lost == *class);
            NOBODY.contains(class) || lost || is_own && OWN.contains(class)
        };
        FaultClass::ALL.into_iter().filter(is_lost).fold(Faults::ALL, Faults::without)
    }

    /// All of these but the others.
    #[must_use]
    pub const fn but(self, others: Faults) -> Faults {
        Faults(self.0 & !others.0)
    }

    /// Whether a class is among them.
    pub const fn contain(self, class: FaultClass) -> bool {
        self.0 & 1 << class as u8 != 0
    }

    /// These and another.
    #[must_use]
    pub const fn with(self, class: FaultClass) -> Faults {
        Faults(self.0 | 1 << class as u8)
    }

    /// These but one.
    #[must_use]
    pub const fn without(self, class: FaultClass) -> Faults {
        Faults(self.0 & !(1 << class as u8))
    }

    /// The classes.
    pub fn classes(self) -> impl Iterator<Item = FaultClass> {
        FaultClass::ALL.into_iter().filter(move |&class| self.contain(class))
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.classes().map(FaultClass::name).collect();
        f.write_str(&names.join(","))
    }
}

impl FromStr for Faults {
    type Err = String;

    fn from_str(text: &str) -> Result<Faults, String> {
        if text == "all" {
            return Ok(Faults::ALL);
        }
        text.split(',').try_fold(Faults::NONE, |faults, word| {
            let class = FaultClass::ALL.into_iter().find(|class| class.name() == word.trim());
            let class = class.ok_or_else(|| {
                let names = FaultClass::ALL.map(FaultClass::name).join(", ");
                format!("no class of faults {word:?}; write all, or some of {names}, with commas between them")
            })?;
            Ok(faults.with(class))
        })
    }
}

/// Classes that no scheme promises to survive, though some may.
pub const NOBODY: &[FaultClass] = &[FaultClass::UnstableNested];

/// Classes that a scheme of somebody's own is not asked for.
const OWN: &[FaultClass] = &[
    FaultClass::Unstable,
    FaultClass::UnstableFlight,
    FaultClass::UnstablePaired,
    FaultClass::Unordered,
    FaultClass::Stages,
    FaultClass::Metadata,
];

/// Schemes that lose acknowledged data under another class of faults, or give up. They are not checked for it by
/// default; `ftlab check --faults all` shows what happens.
pub const LOSES: &[(&str, FaultClass)] = &[
    ("simple", FaultClass::Unstable),
    ("simple", FaultClass::UnstableFlight),
    ("simple", FaultClass::UnstablePaired),
    ("dftl", FaultClass::Unordered),
    ("dftl-e", FaultClass::Unordered),
    ("tpftl", FaultClass::Unordered),
    ("cftl", FaultClass::Unordered),
    ("lsftl", FaultClass::Unordered),
    ("lsftl-e", FaultClass::Unordered),
    ("cdftl", FaultClass::Unordered),
    ("sftl", FaultClass::Unordered),
    ("scftl", FaultClass::Unordered),
    ("scftl-a", FaultClass::Unordered),
    ("cast", FaultClass::Unordered),
    ("scftl-log", FaultClass::Unordered),
    ("lazyftl", FaultClass::Unordered),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_classes_survive_their_text() {
        for bits in 1..=Faults::ALL.0 {
            assert_eq!(Faults(bits).to_string().parse(), Ok(Faults(bits)));
        }
        assert_eq!("all".parse(), Ok(Faults::ALL));
        assert_eq!("cut, failing".parse(), Ok(Faults::NONE.with(FaultClass::Cut).with(FaultClass::Failing)));
        let error = "cut,pared".parse::<Faults>().unwrap_err();
        assert!(error.starts_with("no class of faults \"pared\"; write all, or some of cut, nested"), "{error}");
    }

    #[test]
    fn what_is_lost_is_lost_by_schemes_that_there_are() {
        for (scheme, class) in LOSES {
            assert!(ftl::schemes::by_name(scheme).is_some(), "{scheme}");
            assert!(!Faults::promised(scheme).contain(*class));
        }
        assert!(LOSES.iter().all(|(_, class)| !NOBODY.contains(class)), "said twice");
        let others = Faults::promised("rose");
        assert!(FaultClass::ALL.iter().all(|class| others.contain(*class) != NOBODY.contains(class)));
        assert_eq!(Faults::promised("no such scheme"), OWN.iter().fold(others, |left, class| left.without(*class)));
    }
}

//! Differentiated error correction: policies that say with how much effort each host page is programmed, one file each,
//! and their table.
//!
//! The problem: a program in large steps is fast and leaves many bit errors, which only a strong code corrects, and
//! that code makes reads slow (the differentiated-ECC paper, section I). So pages that are written more than read are
//! best programmed in large steps and protected by LDPC ([`Mode::LowCost`]), pages that are read more than written in
//! small steps and by BCH ([`Mode::Normal`]). Which is which changes over time, and a policy follows it.
//!
//! ```text
//!   host write ──▶ written(LPN) ──▶ mode of the program
//!   host read  ──▶ was_read(LPN) ─▶ if the page turns out to be a low-cost one: rewrite it?
//!   collection ──▶ copied(LPN, mode) ─▶ mode of the copy
//! ```
//!
//! A policy is pure logic over LPNs. Which mode a page has stands in its spare area and nowhere else, so that a mount
//! has nothing to restore: a policy starts anew. What the modes cost is the device's matter. [`Space`] asks the policy
//! for the schemes that have one.
//!
//! [`Space`]: crate::parts::space::Space

mod agcr;
mod differentiated;
mod separator;
mod uniform;

pub(crate) use agcr::HISTORY;
pub(crate) use differentiated::{MARGIN, REWRITE, REWRITE_WAITS, UNKNOWN, WRITE_ONLY};
pub(crate) use separator::{BITS, DECAY, DECAY_BY, HASHES, NEXT_PAIR, PAIRS, Shape, WEIGHT};

use crate::{Dependence, Group, Loader, Parameter, Saver, Settings};
use alloc::boxed::Box;
use core::fmt::Debug;
use flash::{Lpn, Mode};

/// `ecc`: the policy.
pub const POLICY: Parameter = Parameter::word("ecc", "none", NAMES)
    .text(
        "How host pages are programmed and protected. none: all alike, in normal mode. Any other word is a policy \
         that names a mode for each page.",
    )
    .source("{ecc}");

/// `ecc-fill`: what a policy makes of the fill.
pub(crate) const FILL: Parameter = Parameter::word("ecc-fill", "unknown", &["unknown", "policy"])
    .text(
        "How the fill is programmed. unknown: as pages of which nothing is known. policy: as ordinary writes; the \
         policy sees pages that were never read, so it programs them at low cost.",
    )
    .source("ftlab; {ecc} is silent");

/// Every parameter of every policy, for schemes that take one: the rows of [`Options`].
pub(crate) const GROUP: Group = Group {
    title: "differentiated error correction",
    rows: &[
        POLICY,
        FILL,
        MARGIN,
        REWRITE,
        REWRITE_WAITS,
        WRITE_ONLY,
        UNKNOWN,
        PAIRS,
        HASHES,
        BITS,
        WEIGHT,
        DECAY,
        DECAY_BY,
        NEXT_PAIR,
        HISTORY,
    ],
};

/// A policy, and what the policies are told.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// `ecc`; `None` programs all pages alike.
    pub policy: Option<&'static EccRow>,
    /// `ecc-fill`: whether the fill is asked about too.
    pub judges_fill: bool,
    /// `ecc-m`.
    pub margin: f64,
    /// `ecc-n`.
    pub rewrite: f64,
    /// `ecc-rewrite-waits`.
    pub rewrite_waits: bool,
    /// `ecc-write-only`.
    pub write_only: bool,
    /// `ecc-unknown`: the mode of a page neither read nor written lately; `None` leaves it as it is.
    pub unknown: Option<Mode>,
    /// `ecc-pairs` to `ecc-next-pair`.
    pub separator: Shape,
    /// `ecc-history`.
    pub history: u32,
}

impl From<&Settings> for Options {
    fn from(settings: &Settings) -> Options {
        Options {
            policy: by_name(settings.word(&POLICY)),
            judges_fill: settings.word(&FILL) == "policy",
            margin: settings.real(&MARGIN),
            rewrite: settings.real(&REWRITE),
            rewrite_waits: settings.switch(&REWRITE_WAITS),
            write_only: settings.switch(&WRITE_ONLY),
            unknown: match settings.word(&UNKNOWN) {
                "keep" => None,
                "low-cost" => Some(Mode::LowCost),
                _ => Some(Mode::Normal),
            },
            separator: settings.into(),
            history: settings.small(&HISTORY),
        }
    }
}

/// What is read under which policy.
pub(crate) const DEPENDENCES: [Dependence; 3] = [
    Dependence {
        parameters: &[
            MARGIN.name,
            REWRITE.name,
            REWRITE_WAITS.name,
            WRITE_ONLY.name,
            UNKNOWN.name,
            PAIRS.name,
            HASHES.name,
            BITS.name,
            WEIGHT.name,
            DECAY.name,
            DECAY_BY.name,
            NEXT_PAIR.name,
        ],
        on: POLICY.name,
        words: &["differentiated"],
    },
    Dependence { parameters: &[HISTORY.name], on: POLICY.name, words: &["agcr"] },
    Dependence { parameters: &[FILL.name], on: POLICY.name, words: NAMES.split_at(1).1 },
];

/// Decides about the mode of each host page. Only accesses of the host teach it anything.
pub trait EccPolicy: Debug {
    /// The host announces a request; its pages follow.
    fn request(&mut self, first: Lpn, pages: u32) {
        let _ = (first, pages);
    }
    /// The host writes a page: the mode to program it in.
    fn written(&mut self, lpn: Lpn) -> Mode;
    /// The host reads a page: whether it is to be rewritten in normal mode, if it has been programmed with low cost.
    fn was_read(&mut self, lpn: Lpn) -> bool;
    /// A page of this mode is copied: the mode of the copy.
    fn copied(&self, lpn: Lpn, now: Mode) -> Mode;
    /// The mode of a page of which nothing is known.
    fn unknown(&self) -> Mode;
    /// Whether [`EccPolicy::was_read`] ever asks for a rewrite, for which a page is held in RAM.
    fn rewrites(&self) -> bool {
        false
    }
    /// Controller RAM, bytes.
    fn memory(&self) -> u64;
    /// Writes its state.
    fn save(&self, out: &mut Saver);
    /// Reads it back, into a new policy.
    fn load(&mut self, from: &mut Loader<'_>);
    /// A copy.
    fn boxed(&self) -> Box<dyn EccPolicy + Send>;
}

impl Clone for Box<dyn EccPolicy + Send> {
    fn clone(&self) -> Self {
        self.boxed()
    }
}

/// A policy's row.
#[derive(Clone, Copy, Debug)]
pub struct EccRow {
    /// Name on the command line.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// Makes it, for a number of logical pages.
    pub make: fn(u32, &Options) -> Box<dyn EccPolicy + Send>,
}

/// All policies.
pub(crate) const POLICIES: &[EccRow] = &[differentiated::ROW, uniform::BCH, uniform::LDPC, agcr::ROW];

/// Their names, for parameter ranges, after the word for no policy.
pub(crate) const NAMES: &[&str] = &["none", "differentiated", "uniform-bch", "uniform-ldpc", "agcr"];

/// Name, summary and source of each policy.
pub fn described() -> impl Iterator<Item = [&'static str; 3]> {
    POLICIES.iter().map(|row| [row.name, row.summary, row.source])
}

/// The row of this name.
pub(crate) fn by_name(name: &str) -> Option<&'static EccRow> {
    POLICIES.iter().find(|row| row.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn the_table_describes_itself() {
        let names: Vec<&str> = POLICIES.iter().map(|row| row.name).collect();
        assert_eq!(names, NAMES[1..]);
        for row in POLICIES {
            assert!(!row.summary.is_empty() && !row.source.is_empty());
            assert_eq!(names.iter().filter(|&&name| name == row.name).count(), 1);
        }
        for parameter in GROUP.rows {
            assert!(parameter.name.starts_with("ecc") && !parameter.text.is_empty());
        }
    }

    /// Of every policy: what is saved fits into what it reports, and goes on as the original does.
    #[test]
    fn a_policy_goes_on_from_saved_state() {
        let options = Options::from(&Settings::defaults(GROUP.rows));
        for row in POLICIES {
            let mut rng = flash::Rng::new(11);
            let mut policy = (row.make)(64, &options);
            for step in 0..4000 {
                let lpn = Lpn(rng.below(64) as u32);
                if rng.chance(0.4) {
                    policy.was_read(lpn);
                } else {
                    policy.written(lpn);
                }
                if step == 1500 {
                    let mut out = Saver::default();
                    policy.save(&mut out);
                    let bytes = out.finish();
                    assert!(bytes.len() as u64 <= policy.memory(), "{}: {} bytes", row.name, bytes.len());
                    let mut loaded = (row.make)(64, &options);
                    loaded.load(&mut Loader::new(&bytes));
                    let mut other = policy.clone();
                    for lpn in (0..600).map(|i| Lpn(i * 7 % 64)) {
                        let now = Mode::Normal;
                        assert_eq!(loaded.copied(lpn, now), other.copied(lpn, now), "{}", row.name);
                        assert_eq!(loaded.was_read(lpn), other.was_read(lpn), "{}", row.name);
                        assert_eq!(loaded.written(Lpn(lpn.0 / 2)), other.written(Lpn(lpn.0 / 2)), "{}", row.name);
                    }
                }
            }
        }
    }
}

//! Parameters that are read only beside certain words of another one: which these are, over all parts and policies,
//! and what a user is told who has set one in vain.

use crate::hybrid::parameters as hybrid;
use crate::parts::{wear, wear_state};
use crate::schemes::fast;
use crate::{Dependence, Settings, ecc_policy, gc};
use alloc::string::String;

impl Dependence {
    /// What a parameter depends on, if on anything.
    pub fn of(name: &str) -> Option<&'static Dependence> {
        ROWS.into_iter().flatten().find(|row| row.parameters.contains(&name))
    }
}

/// The rows of all parts and policies.
const ROWS: [&[Dependence]; 6] = [
    &wear::DEPENDENCES,
    &wear_state::DEPENDENCES,
    &ecc_policy::DEPENDENCES,
    &gc::DEPENDENCES,
    &hybrid::DEPENDENCES,
    &fast::DEPENDENCES,
];

/// Why one of the parameters that the user has set does nothing beside the others, and what to do about it.
///
/// ```
/// let mut settings = ftl::schemes::by_name("page").unwrap().settings();
/// settings.set("wear-threshold", "3").unwrap();
/// let told = ftl::without_effect(&settings, ["wear-threshold"]).unwrap();
/// assert!(told.starts_with("wear-threshold has no effect with wear-levelling=off"));
/// settings.set("wear-levelling", "swap").unwrap();
/// assert_eq!(ftl::without_effect(&settings, ["wear-threshold"]), None);
/// ```
pub fn without_effect<'a>(settings: &Settings, set: impl IntoIterator<Item = &'a str>) -> Option<String> {
    set.into_iter().find_map(|name| Dependence::of(name)?.refusal(name, settings))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Range;

    #[test]
    fn what_another_parameter_leaves_without_effect_is_told() {
        let [page, fast] = ["page", "fast"].map(|name| crate::schemes::by_name(name).unwrap());
        let told = |pairs: &[(&str, &str)]| {
            let is_of_page = pairs.iter().all(|&(name, _)| page.parameter(name).is_some());
            let mut settings = if is_of_page { page } else { fast }.settings();
            pairs.iter().for_each(|(name, text)| settings.set(name, text).unwrap());
            without_effect(&settings, pairs.iter().map(|&(name, _)| name))
        };
        for (pairs, expected) in [
            (&[("wear-threshold", "3")][..], "wear-threshold has no effect with wear-levelling=off; leave it out, or"),
            (&[("wear-levelling", "swap"), ("bet-k", "2")], "set wear-levelling to bet"),
            (&[("wear-levelling", "bet"), ("wear-threshold", "2")], "set wear-levelling to swap or static"),
            (&[("ecc", "agcr"), ("ecc-m", "1")], "ecc-m has no effect with ecc=agcr"),
            (&[("ecc", "differentiated"), ("ecc-history", "3")], "set ecc to agcr"),
            (&[("wear-checkpoint", "9")], "set wear-state to on"),
            (&[("ecc-fill", "policy")], "ecc-fill has no effect with ecc=none"),
            (&[("gc-lambda", "0.5")], "gc-lambda has no effect with gc=greedy; leave it out, or set gc to cicl"),
            (&[("gc", "cat"), ("gc-wear-spread", "3")], "set gc to cicl"),
            (&[("gc", "random"), ("gc-choices", "3")], "set gc to d-choices"),
            (&[("gc", "fifo"), ("gc-dead-share", "0.5")], "set gc to random"),
            (&[("maro-alpha", "1")], "maro-alpha has no effect with log-victim=round-robin"),
            (&[("log-victim", "cheapest"), ("maro-age", "7")], "set log-victim to maro"),
            (&[("log-victim", "cat"), ("copy-us", "7")], "set log-victim to cheapest or maro"),
            (&[("sequential-unit", "pages")], "set sequential to large or both"),
            (&[("sequential", "large"), ("sw-other", "psu")], "set sequential to first-page or both"),
        ] {
            let what = told(pairs).unwrap_or_else(|| panic!("{pairs:?}"));
            assert!(what.contains(expected), "{pairs:?}: {what}");
        }
        for pairs in [
            &[("wear-levelling", "static"), ("wear-threshold", "3")][..],
            &[("wear-levelling", "bet"), ("bet-threshold", "9")],
            &[("ecc", "agcr"), ("ecc-history", "3"), ("ecc-fill", "policy")],
            &[("ecc", "differentiated"), ("ecc-m", "1"), ("gc-low", "5")],
            &[("gc", "cicl"), ("gc-lambda", "0.5"), ("gc-wear-spread", "3")],
            &[("log-victim", "cheapest"), ("erase-us", "7"), ("sw-other", "psu")],
            &[("log-victim", "maro"), ("maro-age", "7"), ("maro-age-unit", "ms"), ("copy-us", "7")],
        ] {
            assert_eq!(told(pairs), None, "{pairs:?}");
        }
        // A scheme without the other parameter, or that fixes it, reads them all.
        for (scheme, name) in [("aftl", "copy-us"), ("last", "sequential-bytes"), ("rose", "maro-alpha")] {
            let settings = crate::schemes::by_name(scheme).unwrap().settings();
            assert!(settings.get(name).is_some(), "{scheme}");
            assert_eq!(without_effect(&settings, [name]), None, "{scheme}");
        }
        // Every parameter and word of a row exists.
        let parameter = |name: &str| page.parameter(name).or_else(|| fast.parameter(name));
        for row in ROWS.into_iter().flatten() {
            assert!(row.parameters.iter().all(|name| parameter(name).is_some()), "{row:?}");
            let Range::Words(words) = parameter(row.on).unwrap().range else { panic!("{row:?}") };
            assert!(row.words.iter().all(|word| words.contains(word)), "{row:?}");
        }
        for name in page.parameters().map(|parameter| parameter.name) {
            let alone = ["wear-threshold", "wear-checkpoint", "gc-choices", "gc-lambda", "gc-wear-spread"];
            let alone = alone.contains(&name) || name == "gc-dead-share";
            let depends = name.starts_with("bet-") || name.starts_with("ecc-") || alone;
            assert_eq!(Dependence::of(name).is_some(), depends, "{name}");
        }
    }
}

//! Parameters that are read only beside certain words of another one: which these are, over all parts and policies,
//! and what a user is told who has set one in vain.

use crate::hybrid::ages;
use crate::parts::{wear, wear_state};
use crate::{Dependence, Settings, ecc_policy};
use alloc::string::String;

impl Dependence {
    /// What a parameter depends on, if on anything.
    pub fn of(name: &str) -> Option<&'static Dependence> {
        let rows: [&'static [Dependence]; 4] =
            [&wear::DEPENDENCES, &wear_state::DEPENDENCES, &ecc_policy::DEPENDENCES, &ages::DEPENDENCES];
        rows.into_iter().flatten().find(|row| row.parameters.contains(&name))
    }
}

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
        let page = crate::schemes::by_name("page").unwrap();
        let told = |pairs: &[(&str, &str)]| {
            let mut settings = page.settings();
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
        let parameter = |name: &str| page.parameter(name);
        for row in [&wear::DEPENDENCES[..], &wear_state::DEPENDENCES, &ecc_policy::DEPENDENCES].into_iter().flatten() {
            assert!(row.parameters.iter().all(|name| parameter(name).is_some()), "{row:?}");
            let Range::Words(words) = parameter(row.on).unwrap().range else { panic!("{row:?}") };
            assert!(row.words.iter().all(|word| words.contains(word)), "{row:?}");
        }
        for name in page.parameters().map(|parameter| parameter.name) {
            let alone = ["wear-threshold", "wear-checkpoint"].contains(&name);
            let depends = name.starts_with("bet-") || name.starts_with("ecc-") || alone;
            assert_eq!(Dependence::of(name).is_some(), depends, "{name}");
        }
    }
}

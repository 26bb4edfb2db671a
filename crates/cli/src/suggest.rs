//! The nearest known name to a misspelt one.

/// The known name that `name` was most likely meant to be, if any is near enough: a third of its letters may differ,
/// or one may begin with the other.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_lowercase().replace('_', "-");
    let allowed = (name.chars().count() / 3).max(1);
    known
        .into_iter()
        .filter(|candidate| !candidate.is_empty())
        .filter_map(|candidate| {
            let folded = candidate.to_lowercase().replace('_', "-");
            let distance = strsim::damerau_levenshtein(&name, &folded);
            let prefix = name.len() >= 2 && (folded.starts_with(&name) || name.starts_with(&folded));
            (distance <= allowed || prefix).then_some((distance, candidate))
        })
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, candidate)| candidate)
}

/// The end of a message about an unknown name: the nearest one, or all.
pub fn hint<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.into_iter().filter(|known| !known.is_empty()).collect();
    match nearest(name, known.iter().copied()) {
        Some(near) => format!("; did you mean \"{near}\"?"),
        None if known.is_empty() => String::new(),
        None => format!("; known are {}", known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMES: [&str; 5] = ["page", "dftl", "dftl-e", "lsftl", "superblock"];

    #[test]
    fn finds_slips_of_the_pen() {
        for (slip, meant) in [
            ("dtfl", "dftl"),
            ("DFTL", "dftl"),
            ("dftl_e", "dftl-e"),
            ("pages", "page"),
            ("super", "superblock"),
            ("supperblok", "superblock"),
        ] {
            assert_eq!(nearest(slip, SCHEMES), Some(meant), "{slip}");
        }
    }

    #[test]
    fn does_not_guess_wildly() {
        assert_eq!(nearest("mqsim", SCHEMES), None);
        assert_eq!(nearest("x", SCHEMES), None);
        assert_eq!(hint("mqsim", SCHEMES), "; known are page, dftl, dftl-e, lsftl, superblock");
        assert_eq!(hint("mqsim", []), "");
        assert_eq!(hint("parsec", ["", "s"]), "; known are s", "no name is no guess");
    }
}

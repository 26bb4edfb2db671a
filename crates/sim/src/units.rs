//! Counts, sizes, durations and shares as people write them: `10M`, `4KiB`, `500us`, `0.3`.
//!
//! Counts are decimal (`k`, `M`, `G`), sizes binary (`KiB`, `MiB`, `GiB`, `TiB`, or plain bytes), durations carry their
//! unit. `KB` and `K` are refused rather than guessed: half of the field reads them as 1000 and half as 1024. A
//! fraction is accepted where the result is whole (`1.5M`, `0.5KiB`), so nothing is rounded behind the writer's back.

use std::fmt;

/// A text that is not the quantity it should be: the text, what is wrong, and the form that is accepted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnitError {
    /// The text as given.
    pub text: String,
    /// What is wrong with it.
    pub what: &'static str,
    /// The accepted form, with examples.
    pub accepted: &'static str,
}

impl fmt::Display for UnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` {}; write {}", self.text, self.what, self.accepted)
    }
}

impl std::error::Error for UnitError {}

/// The accepted form of a count.
pub const COUNT_FORM: &str = "a count such as 2500, 64k, 1.5M or 2G (decimal)";
/// The accepted form of a size.
pub const BYTES_FORM: &str = "a size such as 512, 4KiB, 64MiB, 8GiB or 1TiB (binary; no unit means bytes)";
/// The accepted form of a duration.
pub const DURATION_FORM: &str = "a duration such as 200ns, 50us, 1.5ms or 2s";
/// The accepted form of a share.
pub const SHARE_FORM: &str = "a share from 0 to 1 such as 0.3, or a percentage such as 30%";
/// The accepted form of a number.
pub const NUMBER_FORM: &str = "a number of at least 0 such as 0.99 or 12";

/// Splits off the unit: digits and at most one point, then letters or `%`.
fn split<'a>(text: &'a str, accepted: &'static str) -> Result<(&'a str, &'a str), UnitError> {
    let fail = |what| Err(UnitError { text: text.to_owned(), what, accepted });
    if text.is_empty() {
        return fail("is empty");
    }
    if text.starts_with('-') {
        return fail("is negative");
    }
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    if !number.bytes().any(|b| b.is_ascii_digit()) {
        return fail("has no number");
    }
    if number.bytes().filter(|&b| b == b'.').count() > 1 || number.ends_with('.') || number.starts_with('.') {
        return fail("has a misplaced decimal point");
    }
    Ok((number, unit))
}

/// `number` times `scale`, exactly; refuses overflow and results that are not whole.
fn scaled(text: &str, number: &str, scale: u64, accepted: &'static str) -> Result<u64, UnitError> {
    let fail = |what| UnitError { text: text.to_owned(), what, accepted };
    let overflow = || fail("is larger than 2^64 - 1");
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let whole: u128 = whole.parse().map_err(|_| overflow())?;
    let fraction = fraction.trim_end_matches('0');
    if fraction.len() > 18 {
        return Err(fail("has more than 18 decimals"));
    }
    let mut total = whole.checked_mul(u128::from(scale)).ok_or_else(overflow)?;
    if !fraction.is_empty() {
        let parts: u128 = fraction.parse().map_err(|_| overflow())?;
        let product = parts * u128::from(scale);
        let denominator = 10u128.pow(fraction.len() as u32);
        if !product.is_multiple_of(denominator) {
            return Err(fail("is not a whole number of its smallest unit"));
        }
        total = total.checked_add(product / denominator).ok_or_else(overflow)?;
    }
    u64::try_from(total).map_err(|_| overflow())
}

/// A count: digits with an optional `k`, `M` or `G` (thousand, million, thousand million).
///
/// # Errors
/// Anything else, overflow of 64 bits, and fractions that do not come out whole.
pub fn parse_count(text: &str) -> Result<u64, UnitError> {
    let (number, unit) = split(text, COUNT_FORM)?;
    let scale = match unit {
        "" => 1,
        "k" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        _ => return Err(UnitError { text: text.to_owned(), what: "has an unknown unit", accepted: COUNT_FORM }),
    };
    scaled(text, number, scale, COUNT_FORM)
}

/// A size in bytes: digits with an optional `KiB`, `MiB`, `GiB` or `TiB`; `B` or no unit means bytes.
///
/// # Errors
/// Anything else (also the ambiguous `K` and `KB`), overflow of 64 bits, and fractions of a byte.
pub fn parse_bytes(text: &str) -> Result<u64, UnitError> {
    let (number, unit) = split(text, BYTES_FORM)?;
    let scale = match unit {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        "K" | "KB" | "k" | "kB" | "M" | "MB" | "G" | "GB" | "T" | "TB" => {
            let what = "has a unit that some read as decimal and some as binary";
            return Err(UnitError { text: text.to_owned(), what, accepted: BYTES_FORM });
        }
        _ => return Err(UnitError { text: text.to_owned(), what: "has an unknown unit", accepted: BYTES_FORM }),
    };
    scaled(text, number, scale, BYTES_FORM)
}

/// A duration in nanoseconds: digits with `ns`, `us`, `ms` or `s`. Only `0` may go without a unit.
///
/// # Errors
/// Anything else, overflow of 64 bits, and fractions of a nanosecond.
pub fn parse_duration_ns(text: &str) -> Result<u64, UnitError> {
    let (number, unit) = split(text, DURATION_FORM)?;
    let scale = match unit {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "" if number.bytes().all(|b| b == b'0' || b == b'.') => 1,
        "" => return Err(UnitError { text: text.to_owned(), what: "has no unit", accepted: DURATION_FORM }),
        _ => return Err(UnitError { text: text.to_owned(), what: "has an unknown unit", accepted: DURATION_FORM }),
    };
    scaled(text, number, scale, DURATION_FORM)
}

/// A share from 0 to 1, also as a percentage.
///
/// # Errors
/// Anything else, and shares above 1.
pub fn parse_share(text: &str) -> Result<f64, UnitError> {
    let (number, unit) = split(text, SHARE_FORM)?;
    let fail = |what| UnitError { text: text.to_owned(), what, accepted: SHARE_FORM };
    let value: f64 = number.parse().map_err(|_| fail("is not a number"))?;
    let share = match unit {
        "" => value,
        "%" => value / 100.0,
        _ => return Err(fail("has an unknown unit")),
    };
    if share > 1.0 {
        return Err(fail("is above 1"));
    }
    Ok(share)
}

/// A number of at least 0 without unit.
///
/// # Errors
/// Anything else; also `inf` and `nan`.
pub fn parse_number(text: &str) -> Result<f64, UnitError> {
    let (number, unit) = split(text, NUMBER_FORM)?;
    let fail = |what| UnitError { text: text.to_owned(), what, accepted: NUMBER_FORM };
    if !unit.is_empty() {
        return Err(fail("has a unit or an exponent"));
    }
    let value: f64 = number.parse().map_err(|_| fail("is not a number"))?;
    if value.is_finite() { Ok(value) } else { Err(fail("is too large")) }
}

/// `count` in the shortest exact form [`parse_count`] reads back.
pub fn show_count(count: u64) -> String {
    for (unit, scale) in [("G", 1_000_000_000), ("M", 1_000_000), ("k", 1_000)] {
        if count >= scale && count.is_multiple_of(scale) {
            return format!("{}{unit}", count / scale);
        }
    }
    count.to_string()
}

/// `bytes` in the shortest exact form [`parse_bytes`] reads back.
pub fn show_bytes(bytes: u64) -> String {
    for (unit, shift) in [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)] {
        if bytes >= 1 << shift && bytes.trailing_zeros() >= shift {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    bytes.to_string()
}

/// `ns` nanoseconds in the shortest exact form [`parse_duration_ns`] reads back.
pub fn show_duration_ns(ns: u64) -> String {
    for (unit, scale) in [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)] {
        if ns >= scale && ns.is_multiple_of(scale) {
            return format!("{}{unit}", ns / scale);
        }
    }
    format!("{ns}ns")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn counts() {
        for (text, count) in [("0", 0), ("2500", 2500), ("64k", 64_000), ("1.5M", 1_500_000), ("2G", 2_000_000_000)] {
            assert_eq!(parse_count(text), Ok(count), "{text}");
        }
        assert_eq!(parse_count("18446744073709551615"), Ok(u64::MAX));
        for text in ["", "-1", "k", "1K", "1.2.3", "1.", ".5k", "1.5", "1 k", "0x10", "1e6", "1m", "+4", "٣", "1.0001k"]
        {
            let error = parse_count(text).expect_err(text);
            assert!(error.to_string().contains("decimal"), "{error}");
        }
        for text in ["18446744073709551616", "20000000000G", "99999999999999999999999999999999999999999999"] {
            assert_eq!(parse_count(text).expect_err(text).what, "is larger than 2^64 - 1");
        }
    }

    #[test]
    fn sizes() {
        for (text, bytes) in [("512", 512), ("512B", 512), ("4KiB", 4096), ("0.5KiB", 512), ("1.5MiB", 3 << 19)] {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
        assert_eq!(parse_bytes("16777215TiB"), Ok(16_777_215 << 40));
        assert_eq!(parse_bytes("16777216TiB").expect_err("2^64").what, "is larger than 2^64 - 1");
        assert!(parse_bytes("4KB").expect_err("ambiguous").what.contains("decimal and some as binary"));
        for text in ["-4KiB", "KiB", "4kib", "4 KiB", "0.3KiB", "four", "4KiB*1"] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations() {
        for (text, ns) in [("0", 0), ("7ns", 7), ("50us", 50_000), ("1.5ms", 1_500_000), ("2s", 2_000_000_000)] {
            assert_eq!(parse_duration_ns(text), Ok(ns), "{text}");
        }
        assert_eq!(parse_duration_ns("5").expect_err("no unit").what, "has no unit");
        for text in ["-1s", "1m", "0.1ns", "s", "1.5.5s", "18446744074s"] {
            assert!(parse_duration_ns(text).is_err(), "{text}");
        }
    }

    #[test]
    fn shares_and_numbers() {
        assert_eq!(parse_share("0.25"), Ok(0.25));
        assert_eq!(parse_share("25%"), Ok(0.25));
        assert_eq!(parse_share("1"), Ok(1.0));
        for text in ["1.01", "101%", "-0.1", "nan", "inf", "", "1e-3", "%", "0,5"] {
            assert!(parse_share(text).is_err(), "{text}");
        }
        assert_eq!(parse_number("0.99"), Ok(0.99));
        for text in ["-1", "nan", "inf", "1e9", "3x", &"9".repeat(400)] {
            assert!(parse_number(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn shown_is_read_back(value: u64) {
            prop_assert_eq!(parse_count(&show_count(value)), Ok(value));
            prop_assert_eq!(parse_bytes(&show_bytes(value)), Ok(value));
            prop_assert_eq!(parse_duration_ns(&show_duration_ns(value)), Ok(value));
        }

        #[test]
        fn junk_never_panics(text in "\\PC{0,24}") {
            let _ = (parse_count(&text), parse_bytes(&text), parse_duration_ns(&text), parse_share(&text));
            let _ = parse_number(&text);
        }
    }
}

//! Values of device keys from text. Bare numbers are in the key's unit.

/// Bytes: a whole number of them, or a number with B, KiB, MiB, GiB or TiB that comes out whole.
pub(super) fn bytes(text: &str) -> Result<u64, String> {
    let units = [("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40), ("B", 0)];
    let (digits, shift) = units
        .iter()
        .find_map(|&(unit, shift)| text.strip_suffix(unit).map(|digits| (digits.trim_end(), shift)))
        .unwrap_or((text, 0));
    let whole = || digits.parse::<u64>().ok().and_then(|n| n.checked_mul(1 << shift));
    let fraction = || {
        let bytes = real(digits).ok()? * (1u64 << shift) as f64;
        (bytes.fract() == 0.0 && (0.0..=(1u64 << 53) as f64).contains(&bytes)).then_some(bytes as u64)
    };
    whole().or_else(fraction).ok_or_else(|| "give whole bytes or a size such as 4KiB, 512MiB, 8GiB".to_string())
}

/// A count.
pub(super) fn count(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| "give a whole number".to_string())
}

/// A number with or without a fraction; never NaN or infinite.
pub(super) fn real(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|n: &f64| n.is_finite()).ok_or_else(|| "give a number".to_string())
}

/// A share: `0.125` or `12.5%`.
pub(super) fn share(text: &str) -> Result<f64, String> {
    let number = match text.strip_suffix('%') {
        Some(percent) => real(percent.trim_end()).map(|n| n / 100.0),
        None => real(text),
    };
    number.map_err(|_| "give a share such as 12.5% or 0.125".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, expected) in [
            ("0", 0),
            ("512", 512),
            ("512B", 512),
            ("4KiB", 4096),
            ("4 KiB", 4096),
            ("1.5GiB", 3 << 29),
            ("2TiB", 2 << 40),
        ] {
            assert_eq!(bytes(text), Ok(expected), "{text}");
        }
        for text in ["", "KiB", "4KB", "4k", "-1", "0.3KiB", "99999999999999999999", "16777216TiB", "NaN", "infGiB"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn shares_and_numbers() {
        assert_eq!((share("12.5%"), share("0.125"), share("7 %")), (Ok(0.125), Ok(0.125), Ok(0.07)));
        assert!(share("%").is_err() && share("NaN").is_err() && share("1/8").is_err());
        assert_eq!((real("40.95"), count("8")), (Ok(40.95), Ok(8)));
        assert!(real("inf").is_err() && count("-1").is_err() && count("1.5").is_err() && count("4294967296").is_err());
    }
}

//! Numbers as people write them on the command line, and as they read them in tables.

/// A count: `2500`, `10k`, `5M`, `1G` (powers of 1000).
///
/// # Errors
/// How a count is written.
pub fn parse_count(text: &str) -> Result<u64, String> {
    let (digits, factor) = match text.strip_suffix(['k', 'K', 'M', 'G']) {
        Some(digits) => match text.as_bytes()[text.len() - 1] {
            b'M' => (digits, 1_000_000),
            b'G' => (digits, 1_000_000_000),
            _ => (digits, 1000),
        },
        None => (text, 1),
    };
    scaled(digits, factor).ok_or_else(|| "a count is a number such as 2500, 10k, 5M or 1G".to_owned())
}

/// A size in bytes: `65536`, `64KiB`, `1.5MiB`, `8GiB`, `1TiB` (powers of 1024).
///
/// # Errors
/// How a size is written.
pub fn parse_size(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, u64); 5] = [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40), ("B", 1)];
    let (digits, factor) = UNITS
        .iter()
        .find_map(|&(unit, factor)| Some((text.strip_suffix(unit)?.trim_end(), factor)))
        .unwrap_or((text, 1));
    scaled(digits, factor).ok_or_else(|| "a size is a number of bytes such as 65536, 64KiB, 8MiB or 1GiB".to_owned())
}

/// A time span in nanoseconds: `1s`, `100ms`, `250us`, `5m`, `1h`.
///
/// # Errors
/// How a time span is written.
pub fn parse_span_ns(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, u64); 6] = [
        ("ns", 1),
        ("us", 1000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("m", 60_000_000_000),
        ("h", 3_600_000_000_000),
    ];
    UNITS
        .iter()
        .find_map(|&(unit, factor)| scaled(text.strip_suffix(unit)?.trim_end(), factor))
        .filter(|&span| span > 0)
        .ok_or_else(|| "a time span is a number with its unit, such as 1s, 100ms or 5m".to_owned())
}

/// `digits × factor`, exactly for whole numbers, rounded for fractions; nothing if negative, beyond 2^63 or no number.
fn scaled(digits: &str, factor: u64) -> Option<u64> {
    let digits = digits.replace('_', "");
    if !digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') || digits.is_empty() {
        return None;
    }
    let product = match digits.parse::<u64>() {
        Ok(whole) => whole.checked_mul(factor)?,
        Err(_) => {
            let product = digits.parse::<f64>().ok()? * factor as f64;
            if product >= i64::MAX as f64 {
                return None;
            }
            product.round() as u64
        }
    };
    (product <= i64::MAX as u64).then_some(product)
}

/// Bytes in the largest unit that keeps at most one decimal: `64 KiB`, `1.5 MiB`.
pub fn bytes(count: u64) -> String {
    let mut value = count as f64;
    let mut unit = "B";
    for next in ["KiB", "MiB", "GiB", "TiB"] {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    if value.fract() < 0.05 || value.fract() > 0.95 {
        format!("{value:.0} {unit}")
    } else {
        format!("{value:.1} {unit}")
    }
}

/// A number to three significant digits or all its whole ones, thousands grouped: `0.123`, `4.56`, `12,345`.
pub fn number(value: f64) -> String {
    let size = value.abs();
    let decimals = match size {
        0.0 => 0,
        _ if size < 1e-3 => return format!("{value:.1e}"),
        _ if size < 9.995 => 2 + usize::from(size < 0.9995) + usize::from(size < 0.0995),
        _ if size < 99.95 => 1,
        _ => 0,
    };
    group(&format!("{value:.decimals$}"))
}

/// A whole number with its thousands grouped: `1,234,567`.
pub fn whole(value: u64) -> String {
    group(&value.to_string())
}

fn group(text: &str) -> String {
    let (sign, digits) = text.strip_prefix('-').map_or(("", text), |digits| ("-", digits));
    let (integer, fraction) = digits.split_at(digits.find('.').unwrap_or(digits.len()));
    let mut grouped = String::with_capacity(text.len() + integer.len() / 3);
    for (index, digit) in integer.chars().enumerate() {
        if index > 0 && (integer.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    format!("{sign}{grouped}{fraction}")
}

/// A time given in microseconds, in the unit that suits it: `12.3 µs`, `4.56 ms`, `7.89 s`.
pub fn time_us(us: f64) -> String {
    match us.abs() {
        size if size < 1e3 => format!("{} µs", number(us)),
        size if size < 1e6 => format!("{} ms", number(us / 1e3)),
        _ => format!("{} s", number(us / 1e6)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_sizes() {
        assert_eq!(parse_count("10M"), Ok(10_000_000));
        assert_eq!(parse_count("1.5k"), Ok(1500));
        assert_eq!(parse_count("18_000"), Ok(18_000));
        assert_eq!(parse_size("64KiB"), Ok(65536));
        assert_eq!(parse_size("1.5 MiB"), Ok(1_572_864));
        assert_eq!(parse_size("0"), Ok(0));
        for bad in ["", "k", "-1", "1e3", "1KiB", "1.2.3", "nan", "9999999999G"] {
            assert!(parse_count(bad).is_err(), "{bad}");
        }
        for bad in ["64KB", "64k", "KiB", "-4KiB", "8388608TiB"] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn spans() {
        assert_eq!(parse_span_ns("1s"), Ok(1_000_000_000));
        assert_eq!(parse_span_ns("100ms"), Ok(100_000_000));
        assert_eq!(parse_span_ns("0.5us"), Ok(500));
        assert_eq!(parse_span_ns("2m"), Ok(120_000_000_000));
        assert!(parse_span_ns("5").is_err());
        assert!(parse_span_ns("0s").is_err());
    }

    #[test]
    fn reading_matter() {
        assert_eq!(bytes(65536), "64 KiB");
        assert_eq!(bytes(1_572_864), "1.5 MiB");
        assert_eq!(bytes(512), "512 B");
        assert_eq!(number(0.0), "0");
        assert_eq!(number(0.12345), "0.123");
        assert_eq!(number(0.012345), "0.0123");
        assert_eq!(number(1.0), "1.00");
        assert_eq!(number(9.999), "10.0");
        assert_eq!(number(12345.6), "12,346");
        assert_eq!(number(-1234.0), "-1,234");
        assert_eq!(number(0.00012), "1.2e-4");
        assert_eq!(whole(1_234_567), "1,234,567");
        assert_eq!(whole(123), "123");
        assert_eq!(time_us(12_345.0), "12.3 ms");
        assert_eq!(time_us(12_345_678.0), "12.3 s");
    }
}

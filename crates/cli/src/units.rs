//! Numbers as people read them in tables. How people write them is in [`sim::units`].

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

/// A percentage as [`number`], but that nothing below 100 reads as 100.
pub fn percent(value: f64) -> String {
    let text = number(value);
    if text == "100" && value < 100.0 { ">99.9".to_owned() } else { text }
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
        assert_eq!([99.94, 99.988, 100.0, 1e-6].map(percent), ["99.9", ">99.9", "100", "1.0e-6"]);
        assert_eq!(whole(1_234_567), "1,234,567");
        assert_eq!(whole(123), "123");
        assert_eq!(time_us(12_345.0), "12.3 ms");
        assert_eq!(time_us(12_345_678.0), "12.3 s");
    }
}

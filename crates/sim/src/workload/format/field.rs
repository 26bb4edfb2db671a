//! Fields of text records, parsed from bytes without allocation and without floating point.
//!
//! Numbers are read eight digits at a time; times are decimals turned exactly into nanoseconds. A record that does not
//! fit yields a [`Malformed`] that names the field and quotes it; building that text is the only allocation here and
//! happens on the cold path.

use std::borrow::Cow;

use crate::workload::{Operation, Request};

/// Why a record is malformed: what the field is and what stands there instead.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Malformed(pub(crate) Cow<'static, str>);

/// What is said of an address that no device can have.
const BEYOND: &str = "the extent ends beyond 2^63 bytes";

/// What was expected where digits stand that make too large a number.
const BELOW: &str = "a whole number below 2^64";

impl Malformed {
    /// Whether the record has its format's shape and only a number in it is too large.
    pub(crate) fn is_of_size(&self) -> bool {
        self.0 == BEYOND || self.0.ends_with(BELOW)
    }

    #[cold]
    pub(crate) fn new(what: &'static str) -> Self {
        Self(Cow::Borrowed(what))
    }

    #[cold]
    pub(crate) fn field(name: &'static str, expected: &'static str, found: &[u8]) -> Self {
        if found.is_empty() {
            return Self(Cow::Owned(format!("the {name} is missing; expected {expected}")));
        }
        Self(Cow::Owned(format!("the {name} is {}, not {expected}", quote(found))))
    }
}

/// Bytes of a record as text for a message: printable, at most 40 characters.
pub(crate) fn quote(bytes: &[u8]) -> String {
    let shown = bytes.get(..40).unwrap_or(bytes);
    let dots = if shown.len() < bytes.len() { "…" } else { "" };
    format!("`{}{dots}`", shown.escape_ascii())
}

/// One parsed record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Record {
    /// Time on the trace's own clock, in nanoseconds.
    pub(crate) time_ns: u64,
    pub(crate) volume: u32,
    pub(crate) extent: Extent,
}

impl Record {
    /// Its request, which arrives so long after the first.
    #[inline]
    pub(crate) fn arriving(self, arrival_ns: u64) -> Request {
        let Extent { operation, offset, bytes } = self.extent;
        Request { arrival_ns, offset, bytes, volume: self.volume, operation }
    }
}

/// What a record turned out to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Parsed {
    /// A record of another kind; carries no request.
    Ignored,
    /// One request.
    Request(Record),
    /// A write that asks for a flush before it: two requests.
    FlushFirst(Record),
}

/// A checked extent with what is asked of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Extent {
    pub(crate) operation: Operation,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

/// Largest read or write believed: no block layer issues more at once.
const REQUEST_BYTES_MAX: u64 = 4 << 30;

impl Extent {
    pub(crate) const FLUSH: Self = Self { operation: Operation::Flush, offset: 0, bytes: 0 };

    /// Offset and size in bytes. A size of 0, an end beyond 2^63 and reads or writes above 4 GiB are malformed.
    #[inline]
    pub(crate) fn new(operation: Operation, offset: u64, bytes: u64) -> Result<Self, Malformed> {
        if bytes == 0 {
            return Err(Malformed::new("the size is 0"));
        }
        if offset.checked_add(bytes).is_none_or(|end| end > 1 << 63) {
            return Err(Malformed::new(BEYOND));
        }
        if bytes > REQUEST_BYTES_MAX && operation != Operation::Trim {
            return Err(Malformed::new("a single read or write above 4 GiB"));
        }
        Ok(Self { operation, offset, bytes })
    }

    /// Offset and size in sectors of 512 bytes.
    #[inline]
    pub(crate) fn sectors(operation: Operation, offset: u64, count: u64) -> Result<Self, Malformed> {
        match (offset.checked_mul(512), count.checked_mul(512)) {
            (Some(offset), Some(bytes)) => Self::new(operation, offset, bytes),
            _ => Err(Malformed::new(BEYOND)),
        }
    }

    #[inline]
    pub(crate) fn at(self, time_ns: u64, volume: u32) -> Parsed {
        Parsed::Request(Record { time_ns, volume, extent: self })
    }
}

/// `count` units of `unit_ns` nanoseconds each.
#[inline]
pub(crate) fn nanoseconds(count: u64, unit_ns: u64) -> Result<u64, Malformed> {
    count.checked_mul(unit_ns).ok_or_else(|| Malformed::new("the time overflows 64 bits of nanoseconds"))
}

/// The decimal number at the start of `bytes`: its value and how many digits it has. More than fits: `None`.
#[inline]
pub(crate) fn digits(bytes: &[u8]) -> Option<(u64, usize)> {
    const POWERS: [u64; 9] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];
    let mut value = 0_u64;
    let mut count = 0;
    while let Some(chunk) = bytes[count..].first_chunk::<8>() {
        // Per byte: 0..=9 for a digit. Adding 0x76 sets the high bit of every byte above 9; a carry can only reach
        // bytes after the first that is no digit.
        let word = u64::from_le_bytes(*chunk) ^ 0x3030_3030_3030_3030;
        let others = (word.wrapping_add(0x7676_7676_7676_7676) | word) & 0x8080_8080_8080_8080;
        let run = (others.trailing_zeros() / 8) as usize;
        if run == 0 {
            return Some((value, count));
        }
        let mut word = word << (64 - 8 * run);
        word = (word & 0x0f0f_0f0f_0f0f_0f0f).wrapping_mul(2561) >> 8;
        word = (word & 0x00ff_00ff_00ff_00ff).wrapping_mul(6_553_601) >> 16;
        word = (word & 0x0000_ffff_0000_ffff).wrapping_mul(42_949_672_960_001) >> 32;
        value =
            if count < 8 { value * POWERS[run] + word } else { value.checked_mul(POWERS[run])?.checked_add(word)? };
        count += run;
        if run < 8 {
            return Some((value, count));
        }
    }
    for &byte in &bytes[count..] {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        value = if count < 19 {
            value * 10 + u64::from(digit)
        } else {
            value.checked_mul(10)?.checked_add(u64::from(digit))?
        };
        count += 1;
    }
    Some((value, count))
}

/// A whole decimal number filling all of `bytes`.
#[inline]
pub(crate) fn whole(bytes: &[u8], name: &'static str) -> Result<u64, Malformed> {
    match digits(bytes) {
        Some((value, count)) if count > 0 && count == bytes.len() => Ok(value),
        None if bytes.iter().all(u8::is_ascii_digit) => Err(Malformed::field(name, BELOW, bytes)),
        _ => Err(Malformed::field(name, "a whole number", bytes)),
    }
}

/// A decimal such as `12.003456` filling all of `bytes`, in units of ten to the minus `places`; finer digits are cut.
#[inline]
pub(crate) fn decimal(bytes: &[u8], places: usize, name: &'static str) -> Result<u64, Malformed> {
    const POWERS: [u64; 10] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000];
    let parse = || {
        let (units, count) = digits(bytes).filter(|&(_, count)| count > 0)?;
        let scaled = units.checked_mul(POWERS[places])?;
        let Some((b'.', fraction)) = bytes[count..].split_first() else {
            return (count == bytes.len()).then_some(scaled);
        };
        let kept = fraction.get(..places).unwrap_or(fraction);
        let (value, count) = digits(kept).filter(|&(_, count)| count == kept.len())?;
        if !fraction[count..].iter().all(u8::is_ascii_digit) {
            return None;
        }
        scaled.checked_add(value * POWERS[places - count])
    };
    parse().ok_or_else(|| Malformed::field(name, "a decimal number in range", bytes))
}

/// Walks the fields of one line, between single separators; blanks (and tabs) may run together.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'a, const SEPARATOR: u8> {
    rest: &'a [u8],
    ended: bool,
}

/// Fields between commas.
pub(crate) type Commas<'a> = Fields<'a, b','>;

/// Fields between runs of blanks or tabs.
pub(crate) type Blanks<'a> = Fields<'a, b' '>;

impl<'a, const SEPARATOR: u8> Fields<'a, SEPARATOR> {
    #[inline]
    pub(crate) fn new(line: &'a [u8]) -> Self {
        if SEPARATOR == b' ' {
            let rest = line.trim_ascii();
            return Self { rest, ended: rest.is_empty() };
        }
        Self { rest: line, ended: false }
    }

    /// What is left of the line.
    #[inline]
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The next field, or an empty one after the last.
    #[inline]
    pub(crate) fn text(&mut self) -> &'a [u8] {
        self.next().unwrap_or_default()
    }

    /// The next field as a whole number.
    #[inline]
    pub(crate) fn whole(&mut self, name: &'static str) -> Result<u64, Malformed> {
        // The common case runs over the digits once, without looking for the separator first.
        if let Some((value, count)) = digits(self.rest)
            && count > 0
        {
            match self.rest.get(count) {
                Some(byte) if *byte == SEPARATOR => {
                    self.rest = &self.rest[count + 1..];
                    if SEPARATOR == b' ' {
                        self.rest = self.rest.trim_ascii_start();
                    }
                    return Ok(value);
                }
                None => {
                    self.rest = &[];
                    self.ended = true;
                    return Ok(value);
                }
                Some(_) => {}
            }
        }
        whole(self.text(), name)
    }

    /// The next field, spaces around it removed, as a whole number.
    #[inline]
    pub(crate) fn padded_whole(&mut self, name: &'static str) -> Result<u64, Malformed> {
        self.rest = self.rest.trim_ascii_start();
        let before = *self;
        self.whole(name).or_else(|_| {
            *self = before;
            whole(self.text().trim_ascii(), name)
        })
    }

    /// Complains about anything left.
    #[inline]
    pub(crate) fn end(mut self) -> Result<(), Malformed> {
        match self.next() {
            None => Ok(()),
            Some(found) => Err(Malformed(Cow::Owned(format!("a field too many: {}", quote(found))))),
        }
    }
}

impl<'a, const SEPARATOR: u8> Iterator for Fields<'a, SEPARATOR> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        if self.ended {
            return None;
        }
        let spaced = SEPARATOR == b' ';
        let cut = self.rest.iter().position(|&byte| byte == SEPARATOR || (spaced && byte == b'\t'));
        let Some(cut) = cut else {
            self.ended = true;
            return Some(std::mem::take(&mut self.rest));
        };
        let field = &self.rest[..cut];
        self.rest = &self.rest[cut + 1..];
        if spaced {
            self.rest = self.rest.trim_ascii_start();
        }
        Some(field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_of_every_length() {
        let all = b"12345678901234567890";
        for length in 0..=all.len() {
            for tail in [&b""[..], b",", b",123456789", b"x:::::::"] {
                let text = [&all[..length], tail].concat();
                let expected = std::str::from_utf8(&all[..length]).unwrap().parse().unwrap_or(0);
                assert_eq!(digits(&text), Some((expected, length)), "{length} {tail:?}");
            }
        }
        assert_eq!(digits(b"18446744073709551615"), Some((u64::MAX, 20)));
        assert_eq!(digits(b"18446744073709551616"), None);
        assert_eq!(digits(b"99999999999999999999999999"), None);
        assert_eq!(digits(b"/0000000"), Some((0, 0)));
        assert_eq!(digits(b":0000000"), Some((0, 0)));
        assert_eq!(digits(b"\xff0000000"), Some((0, 0)));
    }

    #[test]
    fn decimals_are_exact() {
        assert_eq!(decimal(b"0.250000", 9, "t"), Ok(250_000_000));
        assert_eq!(decimal(b"1200000000.123456789", 9, "t"), Ok(1_200_000_000_123_456_789));
        assert_eq!(decimal(b"7", 9, "t"), Ok(7_000_000_000));
        assert_eq!(decimal(b"1000.313", 6, "t"), Ok(1_000_313_000));
        assert_eq!(decimal(b"0.1234567899", 6, "t"), Ok(123_456), "finer digits are cut");
        for wrong in [&b""[..], b".", b".5", b"1.5e3", b"-1", b"1.2.3", b"1.2345678901x", b"99999999999999"] {
            assert!(decimal(wrong, 9, "t").is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn blanks_run_together() {
        let fields: Vec<_> = Blanks::new(b"  a \t b  c ").collect();
        assert_eq!(fields, [b"a", b"b", b"c"]);
        assert_eq!(Blanks::new(b"   ").count(), 0);
        assert_eq!(Commas::new(b"a,,b").count(), 3);
    }
}

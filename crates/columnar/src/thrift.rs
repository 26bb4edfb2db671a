//! Values of Thrift's compact form, passed over before the decoder believes what they say of their length
//! (<https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md>).

use bytes::Buf;

/// Values within values: more than a directory or what the decoder passes over has.
const DEPTH_MAX: u32 = 80;

/// Types of fields and of entries, as the form numbers them. A boolean is its value, 1 or 2.
const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const I16: u8 = 4;
const I32: u8 = 5;
const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const STRUCT: u8 = 12;

/// The fields of a struct by their numbers.
pub(crate) type Fields = &'static [(i16, Kind)];

/// What a field or an entry is. No list is of booleans.
pub(crate) enum Kind {
    Boolean,
    Byte,
    I16,
    I32,
    I64,
    Double,
    Binary,
    List(&'static Kind),
    Struct(Fields),
}

impl Kind {
    /// Whether the form says this type of it.
    fn is(&self, kind: u8) -> bool {
        match self {
            Self::Boolean => kind == TRUE || kind == FALSE,
            Self::Byte => kind == BYTE,
            Self::I16 => kind == I16,
            Self::I32 => kind == I32,
            Self::I64 => kind == I64,
            Self::Double => kind == DOUBLE,
            Self::Binary => kind == BINARY,
            Self::List(_) => kind == LIST,
            Self::Struct(_) => kind == STRUCT,
        }
    }
}

/// A number of at most `bits` bits, seven in a byte, the lowest first.
pub(crate) fn number(rest: &mut &[u8], bits: u32) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..bits).step_by(7) {
        let byte = rest.try_get_u8().ok()?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// Whether bytes begin with a struct of these fields that ends before the bytes do.
///
/// The decoder reads a field that it knows by its number, and passes over another by its type, which takes no byte for
/// each boolean of a list: six bytes would have it count to 2^31. So a field that is known here has to have its type,
/// and one that is not has no list of booleans, nor a set, a map or a UUID, of which Parquet has none.
pub(crate) fn is_struct(mut bytes: &[u8], fields: Fields) -> bool {
    pass(&mut bytes, STRUCT, Some(&Kind::Struct(fields)), DEPTH_MAX).is_some()
}

/// Passes over a value. Each entry of a list takes a byte at least, so that this ends with the bytes.
fn pass(rest: &mut &[u8], kind: u8, known: Option<&Kind>, depth: u32) -> Option<()> {
    let depth = depth.checked_sub(1)?;
    if known.is_some_and(|known| !known.is(kind)) {
        return None;
    }
    match kind {
        BYTE => forth(rest, 1),
        I16..=I64 => number(rest, 70).map(|_| ()),
        DOUBLE => forth(rest, 8),
        BINARY => {
            let bytes = number(rest, 35)?;
            forth(rest, bytes)
        }
        LIST => {
            let entry = match known {
                Some(Kind::List(entry)) => Some(*entry),
                _ => None,
            };
            let head = rest.try_get_u8().ok()?;
            let entries = if head >> 4 == 15 { number(rest, 35)? } else { u64::from(head >> 4) };
            (0..entries).try_for_each(|_| pass(rest, head & 15, entry, depth))
        }
        STRUCT => {
            let fields = match known {
                Some(Kind::Struct(fields)) => *fields,
                _ => &[],
            };
            let mut field = 0_i16;
            loop {
                let head = rest.try_get_u8().ok()?;
                if head == 0 {
                    return Some(());
                }
                field = match head >> 4 {
                    // No distance from the field before: the field's number stands behind.
                    0 => zigzag(number(rest, 21)?)?,
                    distance => field.checked_add(i16::from(distance))?,
                };
                let known = fields.iter().find(|(number, _)| *number == field).map(|(_, kind)| kind);
                match head & 15 {
                    kind @ (TRUE | FALSE) => known.is_none_or(|known| known.is(kind)).then_some(())?,
                    kind => pass(rest, kind, known, depth)?,
                }
            }
        }
        _ => None,
    }
}

/// The number of a field, whose lowest bit is its sign.
fn zigzag(value: u64) -> Option<i16> {
    let magnitude = i16::try_from(value >> 1).ok()?;
    Some(if value & 1 == 0 { magnitude } else { !magnitude })
}

fn forth(rest: &mut &[u8], bytes: u64) -> Option<()> {
    *rest = rest.get(usize::try_from(bytes).ok()?..)?;
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_end_with_a_byte_below_128() {
        let mut bytes = &[0xac, 2, 0x80, 0x80, 0x80, 0x80, 0x80, 0][..];
        assert_eq!(number(&mut bytes, 35), Some(300));
        assert_eq!(number(&mut bytes, 35), None, "six bytes");
        assert_eq!(number(&mut &[0x80][..], 35), None);
    }

    #[test]
    fn a_struct_ends_before_its_bytes_do() {
        // A boolean; a number; field 9 of two bytes; three numbers; a byte; a double; a struct with a boolean.
        let mut bytes = vec![0x11, 0x15, 0x80, 1, 0x08, 18, 2, b'a', b'b', 0x19, 0x35, 2, 4, 6, 0x13, 0xff, 0x17];
        bytes.extend([0; 8]);
        bytes.extend([0x1c, 0x12, 0, 0]);
        assert!(is_struct(&bytes, &[]));
        assert!(is_struct(&[&bytes[..], &[0xff; 4]].concat(), &[]), "more may follow");
        for length in 0..bytes.len() {
            assert!(!is_struct(&bytes[..length], &[]), "{length}");
        }
    }

    #[test]
    fn what_takes_no_bytes_is_refused() {
        for kind in [0, 1, 2, 10, 11, 13, 14] {
            assert!(!is_struct(&[0x19, 0xf0 | kind, 0xff, 0xff, 0xff, 0xff, 7, 0, 0], &[]), "{kind}");
        }
        assert!(!is_struct(&[0x1b, 0xff, 0xff, 0xff, 0xff, 7, 0x11, 0, 0], &[]), "a map of booleans");
        assert!(!is_struct(&[0x19; 1000], &[]), "lists in lists");
        assert!(is_struct(&[0x19, 0, 0], &[]), "some programs write an empty list without a kind");
    }

    #[test]
    fn a_field_that_is_known_has_its_type() {
        const FIELDS: Fields =
            &[(2, Kind::I32), (3, Kind::Boolean), (4, Kind::List(&Kind::Struct(&[(1, Kind::Binary)])))];
        // Field 2 is a number, 3 a boolean, 4 a list of one struct whose field 1 has two bytes.
        let sound = [0x25, 4, 0x12, 0x19, 0x1c, 0x18, 2, b'a', b'b', 0, 0];
        assert!(is_struct(&sound, FIELDS));
        // Each type that is said in another way: bytes, a number, a number, numbers, a number. The struct that follows
        // ends before the bytes do whatever is read.
        for (at, other) in [(0, 0x28), (2, 0x15), (3, 0x15), (4, 0x15), (5, 0x15)] {
            let mut bytes = [&sound[..], &[0; 9]].concat();
            bytes[at] = other;
            assert!(is_struct(&bytes, &[]), "{at}");
            assert!(!is_struct(&bytes, FIELDS), "{at}");
        }
    }

    #[test]
    fn a_field_is_known_by_its_number_however_that_is_said() {
        const FIELDS: Fields = &[(-1, Kind::I32), (20, Kind::I32)];
        // 20 as 15 behind 5, and as a number of its own; -1.
        for (sound, other) in [([0x55, 0, 0xf5, 0, 0], 0xf6), ([0x51, 0x05, 40, 0, 0], 6), ([0x51, 0x05, 1, 0, 0], 6)] {
            assert!(is_struct(&sound, FIELDS), "{sound:?}");
            let other = sound.map(|byte| if byte & 15 == 5 && byte != 0x55 { other } else { byte });
            assert!(is_struct(&other, &[]), "{other:?}");
            assert!(!is_struct(&other, FIELDS), "{other:?}");
        }
        assert!(!is_struct(&[0x05, 0xfe, 0xff, 3, 0, 0x15, 0, 0], FIELDS), "beyond the last number");
        assert!(!is_struct(&[0x05, 0x80, 0x80, 4, 0, 0], FIELDS), "a number of 17 bits");
    }
}

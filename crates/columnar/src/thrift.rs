//! Values of Thrift's compact form, passed over before the decoder believes what they say of their length
//! (<https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md>).

use bytes::Buf;

/// Values within values: more than a directory or what the decoder passes over has.
const DEPTH_MAX: u32 = 80;

/// Types of fields and of entries, as the form numbers them. 1 and 2 are a boolean.
const BYTE: u8 = 3;
const I16: u8 = 4;
const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const STRUCT: u8 = 12;

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

/// Whether bytes begin with a struct whose values all end before the bytes do. The decoder passes over lists of
/// booleans without a byte for each, so that six bytes would have it count to 2^31; no directory has one, and what has
/// one is no struct here, nor what has a set, a map or a UUID, of which Parquet has none. The decoder reads fields that
/// it knows by their number and whatever their type, and this goes by types: a struct whose fields have other types
/// than Parquet's may still hold such a list for the decoder.
pub(crate) fn is_struct(mut bytes: &[u8]) -> bool {
    pass(&mut bytes, STRUCT, DEPTH_MAX).is_some()
}

/// Passes over a value. Each entry of a list takes a byte at least, so that this ends with the bytes.
fn pass(rest: &mut &[u8], kind: u8, depth: u32) -> Option<()> {
    let depth = depth.checked_sub(1)?;
    match kind {
        BYTE => forth(rest, 1),
        I16..=I64 => number(rest, 70).map(|_| ()),
        DOUBLE => forth(rest, 8),
        BINARY => {
            let bytes = number(rest, 35)?;
            forth(rest, bytes)
        }
        LIST => {
            let head = rest.try_get_u8().ok()?;
            let entries = if head >> 4 == 15 { number(rest, 35)? } else { u64::from(head >> 4) };
            (0..entries).try_for_each(|_| pass(rest, head & 15, depth))
        }
        STRUCT => loop {
            let head = rest.try_get_u8().ok()?;
            if head == 0 {
                return Some(());
            }
            // No distance from the field before: the field's number stands behind.
            if head >> 4 == 0 {
                number(rest, 21)?;
            }
            match head & 15 {
                1 | 2 => {}
                kind => pass(rest, kind, depth)?,
            }
        },
        _ => None,
    }
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
        assert!(is_struct(&bytes));
        assert!(is_struct(&[&bytes[..], &[0xff; 4]].concat()), "more may follow");
        for length in 0..bytes.len() {
            assert!(!is_struct(&bytes[..length]), "{length}");
        }
    }

    #[test]
    fn what_takes_no_bytes_is_refused() {
        for kind in [0, 1, 2, 10, 11, 13, 14] {
            assert!(!is_struct(&[0x19, 0xf0 | kind, 0xff, 0xff, 0xff, 0xff, 7, 0, 0]), "{kind}");
        }
        assert!(!is_struct(&[0x1b, 0xff, 0xff, 0xff, 0xff, 7, 0x11, 0, 0]), "a map of booleans");
        assert!(!is_struct(&[0x19; 1000]), "lists in lists");
        assert!(is_struct(&[0x19, 0, 0]), "some programs write an empty list without a kind");
    }
}

//! Numbers for the volumes of a trace, in order of first appearance.
//!
//! Traces name their volumes on every record, nearly always with the name of one of the last few. A scan over the
//! recently used keys answers those; a map answers the thousands of interleaved disks of a cloud trace.

use std::collections::HashMap;

use super::field::Malformed;

/// How many recent keys are scanned before the map is asked.
const RECENT: usize = 4;

/// Volume numbers below this are looked up in a table.
const SMALL: u64 = 1 << 16;

/// Marks a number not seen yet; no volume gets it.
const UNSEEN: u32 = u32::MAX;

/// The longest volume name believed, in bytes.
const NAME_BYTES_MAX: usize = 256;

/// Volume keys (as they stand in the file) with their numbers and names.
#[derive(Default)]
pub(crate) struct Volumes {
    numbers: HashMap<Box<[u8]>, u32>,
    recent: Vec<(Box<[u8]>, u32)>,
    by_number: HashMap<u64, u32>,
    /// The numbers of volumes that are small in the file, `UNSEEN` if not seen.
    small: Vec<u32>,
    names: Vec<String>,
}

impl Volumes {
    /// The number of the volume with this key; `name` makes the name of one not seen before.
    #[inline]
    pub(crate) fn text(&mut self, key: &[u8], name: impl FnOnce(&str) -> String) -> Result<u32, Malformed> {
        match self.recent.iter().find(|(known, _)| **known == *key) {
            Some(&(_, number)) => Ok(number),
            None => self.look_up_text(key, name),
        }
    }

    #[cold]
    fn look_up_text(&mut self, key: &[u8], name: impl FnOnce(&str) -> String) -> Result<u32, Malformed> {
        let number = match self.numbers.get(key) {
            Some(&number) => number,
            None => {
                if key.is_empty() || key.len() > NAME_BYTES_MAX {
                    return Err(Malformed::field("volume name", "1 to 256 bytes", key));
                }
                let number = push(&mut self.names, name(&String::from_utf8_lossy(key)))?;
                self.numbers.insert(key.into(), number);
                number
            }
        };
        if self.recent.len() == RECENT {
            self.recent.rotate_right(1);
            self.recent[0] = (key.into(), number);
        } else {
            self.recent.push((key.into(), number));
        }
        Ok(number)
    }

    /// The number of the volume with this number in the file, named `prefix number`.
    #[inline]
    pub(crate) fn number(&mut self, key: u64, prefix: &'static str) -> Result<u32, Malformed> {
        match usize::try_from(key).ok().and_then(|key| self.small.get(key)) {
            Some(&number) if number != UNSEEN => Ok(number),
            _ => self.look_up_number(key, prefix),
        }
    }

    fn look_up_number(&mut self, key: u64, prefix: &'static str) -> Result<u32, Malformed> {
        if let Some(&number) = self.by_number.get(&key) {
            return Ok(number);
        }
        let number = push(&mut self.names, format!("{prefix} {key}"))?;
        if key < SMALL {
            self.small.resize(self.small.len().max(key as usize + 1), UNSEEN);
            self.small[key as usize] = number;
        } else {
            self.by_number.insert(key, number);
        }
        Ok(number)
    }

    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }
}

/// The most volumes believed: more are keys read from garbage.
const VOLUMES_MAX: usize = 1 << 20;

fn push(names: &mut Vec<String>, name: String) -> Result<u32, Malformed> {
    if names.len() >= VOLUMES_MAX {
        return Err(Malformed::new("more than 1,048,576 different volumes"));
    }
    names.push(name);
    Ok(names.len() as u32 - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_order_of_first_appearance() {
        let mut volumes = Volumes::default();
        let keys = [9, 3, 9, 7, 100, 101, 102, 103, 104, 105, 106, 3, 9];
        let numbers: Vec<_> = keys.iter().map(|&key| volumes.number(key, "asu").unwrap()).collect();
        assert_eq!(numbers, [0, 1, 0, 2, 3, 4, 5, 6, 7, 8, 9, 1, 0]);
        assert_eq!(volumes.names()[1], "asu 3");
        let mut volumes = Volumes::default();
        let numbers: Vec<_> = b"abcdefgabc".iter().map(|&key| volumes.text(&[key], str::to_owned).unwrap()).collect();
        assert_eq!(numbers, [0, 1, 2, 3, 4, 5, 6, 0, 1, 2]);
        assert!(volumes.text(b"", str::to_owned).is_err());
    }
}

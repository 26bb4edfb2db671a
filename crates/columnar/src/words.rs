//! A column of few different texts, such as operations: each row as the number of its word.
//!
//! The Parquet library hands out a counted reference for each value, which takes longer than all else that a row needs.
//! Programs write such columns by dictionary: a page of words, then pages of their numbers, each number in as many
//! bits as the largest needs, in runs of equal ones or packed (Apache Parquet, Encodings.md: RLE/bit-packing hybrid).
//! Columns without nulls are read so here; others come from the library.

use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::Encoding;
use parquet::column::page::{Page, PageReader};
use parquet::column::reader::{ColumnReaderImpl, get_typed_column_reader};
use parquet::data_type::{ByteArray, ByteArrayType};
use parquet::errors::ParquetError;

use crate::limits::Stored;
use crate::read::{Column, read};

/// The texts of the rows that were decoded last: for each row the number of its word. A null is an empty word.
#[derive(Default)]
pub(crate) struct Words {
    pub(crate) numbers: Vec<u32>,
    dictionary: Arc<[ByteArray]>,
    /// Words with the numbers behind those of the dictionary.
    spelt: Vec<ByteArray>,
}

impl Words {
    /// The text in a row.
    #[inline]
    pub(crate) fn text(&self, row: usize) -> &[u8] {
        let number = self.numbers[row] as usize;
        match self.dictionary.get(number) {
            Some(word) => word.data(),
            None => self.spelt[number - self.dictionary.len()].data(),
        }
    }
}

/// A column of texts, being read.
pub(crate) enum Texts {
    /// Page by page.
    Pages(Pages),
    /// By the library, value by value.
    Values { reader: Box<ColumnReaderImpl<ByteArrayType>>, level: i16, raw: Vec<ByteArray> },
}

impl Texts {
    pub(crate) fn of(stored: &Stored, group: usize, column: &Column) -> Result<Self, ParquetError> {
        Ok(match column.level {
            0 => Self::Pages(Pages::of(stored.pages(group, column.index)?)),
            level => {
                let reader = Box::new(get_typed_column_reader(stored.column(group, column.index)?));
                Self::Values { reader, level, raw: Vec::new() }
            }
        })
    }

    /// Replaces what is in `words` by the next `rows`.
    pub(crate) fn read(&mut self, rows: usize, words: &mut Words, levels: &mut Vec<i16>) -> Result<(), ParquetError> {
        match self {
            Self::Pages(pages) => pages.read(rows, words),
            Self::Values { reader, level, raw } => {
                read(reader, *level, rows, ByteArray::from(""), raw, levels)?;
                words.dictionary = Arc::default();
                words.spelt.clear();
                words.spelt.append(raw);
                words.numbers.clear();
                words.numbers.extend(0..rows as u32);
                Ok(())
            }
        }
    }
}

/// The pages of a column of texts without nulls.
pub(crate) struct Pages {
    pages: Box<dyn PageReader>,
    dictionary: Arc<[ByteArray]>,
    page: Body,
    /// Values of the page that were not read yet.
    left: usize,
}

/// What is left of a data page.
enum Body {
    /// Numbers of words.
    Numbers(Numbers),
    /// The words themselves, each behind its length.
    Words(Bytes),
}

fn damaged() -> ParquetError {
    ParquetError::General("a page of texts ends too early".to_owned())
}

impl Pages {
    fn of(pages: Box<dyn PageReader>) -> Self {
        Self { pages, dictionary: Arc::default(), page: Body::Words(Bytes::new()), left: 0 }
    }

    fn read(&mut self, rows: usize, words: &mut Words) -> Result<(), ParquetError> {
        words.numbers.clear();
        words.spelt.clear();
        let mut known = self.dictionary.len();
        while words.numbers.len() < rows {
            if self.left == 0 {
                self.next_page()?;
                known = known.max(self.dictionary.len());
                continue;
            }
            let most = self.left.min(rows - words.numbers.len());
            match &mut self.page {
                Body::Numbers(numbers) => numbers.read(most, &mut words.numbers)?,
                Body::Words(rest) => {
                    for _ in 0..most {
                        words.numbers.push((known + words.spelt.len()) as u32);
                        words.spelt.push(word(rest)?);
                    }
                }
            }
            self.left -= most;
        }
        // Numbers beyond the dictionary are those of words that were spelt out in this very call.
        words.dictionary = self.dictionary.clone();
        let count = words.dictionary.len() + words.spelt.len();
        match words.numbers.iter().all(|&number| (number as usize) < count) {
            true => Ok(()),
            false => Err(ParquetError::General("a text has a number that its dictionary has not".to_owned())),
        }
    }

    fn next_page(&mut self) -> Result<(), ParquetError> {
        let page = self.pages.get_next_page()?;
        let page =
            page.ok_or_else(|| ParquetError::General("a column has fewer values than its group has rows".to_owned()))?;
        let (encoding, body, values) = match page {
            Page::DictionaryPage { mut buf, num_values, .. } => {
                if !self.dictionary.is_empty() {
                    return Err(ParquetError::General("a column has two dictionaries".to_owned()));
                }
                self.dictionary = (0..num_values).map(|_| word(&mut buf)).collect::<Result<_, _>>()?;
                return Ok(());
            }
            Page::DataPage { buf, num_values, encoding, .. } => (encoding, buf, num_values),
            Page::DataPageV2 { buf, num_values, encoding, def_levels_byte_len, rep_levels_byte_len, .. } => {
                let levels = def_levels_byte_len as usize + rep_levels_byte_len as usize;
                if levels > buf.len() {
                    return Err(damaged());
                }
                (encoding, buf.slice(levels..), num_values)
            }
        };
        self.left = values as usize;
        self.page = match encoding {
            Encoding::PLAIN => Body::Words(body),
            // Older programs write the second, and mean the same.
            Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY => Body::Numbers(Numbers::of(body)?),
            other => {
                return Err(ParquetError::NYI(format!("texts in the encoding {other}; write them by dictionary")));
            }
        };
        Ok(())
    }
}

/// Takes the next word off a page of words.
fn word(rest: &mut Bytes) -> Result<ByteArray, ParquetError> {
    let length = rest.first_chunk::<4>().map(|bytes| u32::from_le_bytes(*bytes) as usize).ok_or_else(damaged)?;
    if rest.len() - 4 < length {
        return Err(damaged());
    }
    let word = rest.slice(4..4 + length);
    *rest = rest.slice(4 + length..);
    Ok(word.into())
}

/// Numbers of words, in runs.
struct Numbers {
    rest: Bytes,
    /// Bits of a number.
    bits: usize,
    run: Run,
}

/// What is left of a run.
enum Run {
    /// So many times the same number.
    Equal(u64, u32),
    /// Packed numbers, from this bit on to that.
    Packed(usize, usize, Bytes),
}

impl Numbers {
    fn of(body: Bytes) -> Result<Self, ParquetError> {
        match body.first() {
            Some(&bits @ 0..=32) => Ok(Self { rest: body.slice(1..), bits: bits.into(), run: Run::Equal(0, 0) }),
            _ => Err(damaged()),
        }
    }

    /// Appends the next `most`.
    fn read(&mut self, most: usize, to: &mut Vec<u32>) -> Result<(), ParquetError> {
        let end = to.len() + most;
        while to.len() < end {
            let room = end - to.len();
            match &mut self.run {
                Run::Equal(left, number) if *left > 0 => {
                    let take = room.min(usize::try_from(*left).unwrap_or(usize::MAX));
                    to.resize(to.len() + take, *number);
                    *left -= take as u64;
                }
                Run::Packed(at, last, packed) if *at < *last => {
                    let take = room.min((*last - *at) / self.bits);
                    let mask = (1_u64 << self.bits) - 1;
                    to.extend((0..take).map(|number| {
                        let bit = *at + number * self.bits;
                        let bytes = &packed[bit / 8..];
                        let word = bytes.first_chunk::<8>().map_or_else(
                            || bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)),
                            |chunk| u64::from_le_bytes(*chunk),
                        );
                        (word >> (bit % 8) & mask) as u32
                    }));
                    *at += take * self.bits;
                }
                _ => self.next_run()?,
            }
        }
        Ok(())
    }

    fn next_run(&mut self) -> Result<(), ParquetError> {
        let mut header = 0_u64;
        let mut shift = 0;
        loop {
            let byte = self.take(1)?[0];
            header |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            match byte {
                0x80.. if shift > 56 => return Err(damaged()),
                0x80.. => {}
                _ => break,
            }
        }
        self.run = match header & 1 {
            0 => {
                let bytes = self.take(self.bits.div_ceil(8))?;
                Run::Equal(header >> 1, bytes.iter().rev().fold(0, |number, &byte| number << 8 | u32::from(byte)))
            }
            // Groups of eight; the last may be cut where the values end.
            _ if self.bits == 0 => Run::Equal((header >> 1).saturating_mul(8), 0),
            _ => {
                let groups = usize::try_from(header >> 1).map_err(|_| damaged())?;
                let bytes = groups.saturating_mul(self.bits).min(self.rest.len());
                let packed = self.take(bytes)?;
                Run::Packed(0, 8 * bytes / self.bits * self.bits, packed)
            }
        };
        match self.run {
            Run::Equal(0, _) | Run::Packed(_, 0, _) => Err(damaged()),
            _ => Ok(()),
        }
    }

    fn take(&mut self, bytes: usize) -> Result<Bytes, ParquetError> {
        match bytes <= self.rest.len() {
            true => Ok(self.rest.split_to(bytes)),
            false => Err(damaged()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_and_packed_numbers() {
        // The example of the format's own text: 0 to 7 in three bits each; then five times 6.
        let body = [3, 0b0000_0011, 0b1000_1000, 0b1100_0110, 0b1111_1010, 10, 6];
        let mut numbers = Numbers::of(Bytes::copy_from_slice(&body)).unwrap();
        let mut got = Vec::new();
        for most in [3, 1, 6, 3] {
            numbers.read(most, &mut got).unwrap();
        }
        assert_eq!(got, [0, 1, 2, 3, 4, 5, 6, 7, 6, 6, 6, 6, 6]);
        assert!(numbers.read(1, &mut got).is_err());
    }

    #[test]
    fn what_ends_too_early_is_damaged() {
        for body in [&[][..], &[33, 2, 0], &[1], &[1, 0x80], &[8, 4], &[1, 0, 0], &[1, 1]] {
            let numbers = Numbers::of(Bytes::copy_from_slice(body));
            assert!(numbers.and_then(|mut numbers| numbers.read(9, &mut Vec::new())).is_err(), "{body:?}");
        }
    }
}

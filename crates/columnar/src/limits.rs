//! What is not believed of a file. The decoder takes memory for as many bytes and values as a header says before it
//! looks at how many there are, so that a few bytes would have it take gigabytes; here the headers are looked at first.

use std::fmt;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use parquet::basic::{Encoding, Type as Physical};
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::column::reader::{ColumnReader, get_column_reader};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, ParquetMetaDataReader};
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::serialized_reader::SerializedPageReader;

use crate::{fields, thrift};

/// Bytes of a page after decompression. Programs write pages of 1 MiB, a few a whole group of rows as one.
pub(crate) const PAGE_BYTES_MAX: u64 = 256 << 20;

/// Words of a dictionary of texts; a trace has at most as many volumes.
pub(crate) const WORDS_MAX: u32 = 1 << 20;

/// Rows in a row that hold no request: equal rows take no room, so that a small file may have any number of them.
pub(crate) const BARREN_ROWS_MAX: u64 = 1 << 20;

/// Bytes that are looked at first for a page's header: more than one takes that says no least and largest text.
const HEADER_BYTES: u64 = 256;

/// Bytes of a page's header. It may say the least and the largest value of its page.
const HEADER_BYTES_MAX: u64 = 1 << 20;

/// A limit that a file is beyond.
#[derive(Debug)]
pub(crate) enum Beyond {
    Page,
    Dictionary,
}

impl fmt::Display for Beyond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Page => "a page has more than 256 MiB after decompression",
            Self::Dictionary => "a dictionary has more than 1,048,576 words",
        })
    }
}

impl std::error::Error for Beyond {}

impl From<Beyond> for ParquetError {
    fn from(beyond: Beyond) -> Self {
        Self::External(Box::new(beyond))
    }
}

fn damaged(what: &str) -> ParquetError {
    ParquetError::General(what.to_owned())
}

type OpenChunk = dyn Fn(&ColumnChunkMetaData, usize) -> Result<Box<dyn PageReader>, ParquetError> + Send + Sync;

/// A table as it is stored: its directory, and the pages of its columns.
pub(crate) struct Stored {
    pub(crate) metadata: ParquetMetaData,
    open: Box<OpenChunk>,
}

impl Stored {
    /// # Errors
    /// No directory, or one of more bytes of columns than the file has: groups that share their bytes would unfold to
    /// any number of requests, each at the cost of a page.
    pub(crate) fn of<R: ChunkReader + 'static>(source: R) -> Result<Self, ParquetError> {
        check_directory(&source)?;
        let metadata = ParquetMetaDataReader::new().parse_and_finish(&source)?;
        let sizes = metadata.row_groups().iter().flat_map(|group| group.columns()).map(|chunk| chunk.compressed_size());
        let total = sizes.map(|bytes| u64::try_from(bytes).ok()).try_fold(0_u64, |sum, bytes| sum.checked_add(bytes?));
        if total.is_none_or(|total| total > source.len()) {
            return Err(damaged("its columns have more bytes than the file"));
        }
        let source = Arc::new(Headed(source));
        let open = move |chunk: &ColumnChunkMetaData, rows| {
            let pages = SerializedPageReader::new(source.clone(), chunk, rows, None)?;
            Ok(Box::new(Bounded { pages, physical: chunk.column_type() }) as Box<dyn PageReader>)
        };
        Ok(Self { metadata, open: Box::new(open) })
    }

    /// Rows of a group.
    pub(crate) fn rows(&self, group: usize) -> Result<usize, ParquetError> {
        let rows = usize::try_from(self.metadata.row_group(group).num_rows());
        rows.map_err(|_| damaged("a group has a negative number of rows"))
    }

    /// The pages of a column in a group.
    pub(crate) fn pages(&self, group: usize, column: usize) -> Result<Box<dyn PageReader>, ParquetError> {
        let chunk = self.metadata.row_group(group).columns().get(column);
        (self.open)(chunk.ok_or_else(|| damaged("a group lacks a column"))?, self.rows(group)?)
    }

    /// The values of a column in a group.
    pub(crate) fn column(&self, group: usize, column: usize) -> Result<ColumnReader, ParquetError> {
        let pages = self.pages(group, column)?;
        Ok(get_column_reader(self.metadata.file_metadata().schema_descr().column(column), pages))
    }
}

/// Where a directory stands and in what form is the decoder's to say: it gives errors of its own.
fn check_directory(source: &impl ChunkReader) -> Result<(), ParquetError> {
    let Some(end) = source.len().checked_sub(8) else { return Ok(()) };
    let tail = source.get_bytes(end, 8)?;
    let (mut length, mark) = tail.split_at(4);
    match end.checked_sub(u64::from(length.get_u32_le())) {
        Some(start) if mark == *b"PAR1" => {
            let directory = source.get_bytes(start, (end - start) as usize)?;
            if thrift::is_struct(&directory, fields::DIRECTORY) {
                Ok(())
            } else {
                Err(damaged("its directory does not end, or has what no directory has"))
            }
        }
        _ => Ok(()),
    }
}

/// Bytes of a file of which only headers of pages are read one by one, each once its size is believed.
struct Headed<R>(R);

impl<R: Length> Length for Headed<R> {
    fn len(&self) -> u64 {
        self.0.len()
    }
}

impl<R: ChunkReader> ChunkReader for Headed<R> {
    type T = R::T;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        let most = self.len().saturating_sub(start).min(HEADER_BYTES_MAX);
        let mut here = HEADER_BYTES.min(most);
        let header = loop {
            let bytes = self.0.get_bytes(start, here as usize)?;
            match thrift::is_struct(&bytes, fields::PAGE) {
                true => break bytes,
                false if here == most => {
                    return Err(damaged("the header of a page does not end, or has what no header has"));
                }
                false => here = (2 * here).min(most),
            }
        };
        match page_bytes(&header) {
            Some(bytes) if bytes <= PAGE_BYTES_MAX => self.0.get_read(start),
            Some(_) => Err(Beyond::Page.into()),
            None => Err(damaged("what should be a page begins otherwise")),
        }
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        self.0.get_bytes(start, length)
    }
}

/// Bytes of a page after decompression, as its header says: in Thrift's compact form the second of three numbers that
/// always stand first, each behind a byte that says "the next field, of 32 bits".
fn page_bytes(mut header: &[u8]) -> Option<u64> {
    let mut number = || {
        (header.try_get_u8().ok()? == 0x15).then_some(())?;
        let value = thrift::number(&mut header, 35)?;
        // Zigzag; no size is negative.
        (value & 1 == 0).then_some(value >> 1)
    };
    let (_kind, bytes, _compressed) = (number()?, number()?, number()?);
    Some(bytes)
}

/// The pages of a column, none with counts that its bytes cannot hold.
struct Bounded<R: ChunkReader> {
    pages: SerializedPageReader<R>,
    physical: Physical,
}

impl<R: ChunkReader> Bounded<R> {
    fn check(&self, page: &Page) -> Result<(), ParquetError> {
        let is_text = self.physical == Physical::BYTE_ARRAY;
        // A text takes four bytes and more.
        let least = if matches!(self.physical, Physical::INT64 | Physical::DOUBLE) { 8 } else { 4 };
        match page {
            _ if page.buffer().len() as u64 > PAGE_BYTES_MAX => Err(Beyond::Page.into()),
            Page::DictionaryPage { num_values, .. } if is_text && *num_values > WORDS_MAX => {
                Err(Beyond::Dictionary.into())
            }
            Page::DictionaryPage { buf, num_values, .. } if *num_values as usize > buf.len() / least => {
                Err(damaged("a dictionary has fewer values than its header says"))
            }
            // Texts by differences say themselves how many they are.
            Page::DataPage { encoding, .. } | Page::DataPageV2 { encoding, .. } if is_text && !is_read(*encoding) => {
                Err(ParquetError::NYI(format!("texts in the encoding {encoding}; write them by dictionary")))
            }
            _ => Ok(()),
        }
    }
}

/// Whether texts in an encoding are read.
fn is_read(encoding: Encoding) -> bool {
    // Older programs write the last, and mean the same.
    matches!(encoding, Encoding::PLAIN | Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY)
}

impl<R: ChunkReader> Iterator for Bounded<R> {
    type Item = Result<Page, ParquetError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl<R: ChunkReader> PageReader for Bounded<R> {
    fn get_next_page(&mut self) -> Result<Option<Page>, ParquetError> {
        let page = self.pages.get_next_page()?;
        page.as_ref().map_or(Ok(()), |page| self.check(page))?;
        Ok(page)
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>, ParquetError> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<(), ParquetError> {
        self.pages.skip_next_page()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_pages_are_read_from_their_headers() {
        // A data page of 300 bytes, 20 of them stored; the largest that 32 bits hold; what begins otherwise.
        assert_eq!(page_bytes(&[0x15, 0, 0x15, 0xd8, 4, 0x15, 40, 0x2c]), Some(300));
        let most = [0x15, 4, 0x15, 0xfe, 0xff, 0xff, 0xff, 0x0f, 0x15, 2];
        assert_eq!(page_bytes(&most), Some((1 << 31) - 1));
        for other in [&[][..], &[0x15], &[0x25, 0], &[0x15, 0, 0x15, 1, 0x15, 2], &[0x15, 0, 0x15, 2, 0x15]] {
            assert_eq!(page_bytes(other), None, "{other:?}");
        }
    }
}

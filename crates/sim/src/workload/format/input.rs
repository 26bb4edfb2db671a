//! The bytes of a trace: hashed as stored, decompressed by their magic, never by a file's name.

use std::io::{self, BufRead, BufReader, Chain, Cursor, Read};

use bzip2::bufread::MultiBzDecoder;
use flate2::bufread::MultiGzDecoder;
use liblzma::bufread::XzDecoder;
use liblzma::stream::{CONCATENATED, Stream};
use sha2::{Digest, Sha256};

/// Bytes read from the file at once.
const STORED_BYTES: usize = 256 << 10;

/// The largest window that a Zstandard stream may ask for, as a power of two: `zstd --long=31`.
const ZST_WINDOW_LOG_MAX: u32 = 31;

/// The most memory that an xz stream may ask for. The largest dictionary that `xz` writes takes 1.5 GiB; a header can
/// ask for 4.
const XZ_MEMORY_MAX: u64 = 2 << 30;

/// The file as stored; hashes everything that passes.
struct Stored {
    inner: Chain<Cursor<Vec<u8>>, Box<dyn Read + Send>>,
    hash: Sha256,
}

impl Read for Stored {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.hash.update(&buffer[..count]);
        Ok(count)
    }
}

enum Decoder {
    Plain(Stored),
    Gz(Box<MultiGzDecoder<BufReader<Stored>>>),
    Zst(zstd::Decoder<'static, BufReader<Stored>>),
    Xz(XzDecoder<BufReader<Stored>>),
    Bz(MultiBzDecoder<BufReader<Stored>>),
}

/// A decompressed stream that knows the hash of what it was stored as.
pub(super) struct Input {
    decoder: Decoder,
    /// What this was unpacked from.
    outer: Option<Box<Input>>,
}

impl Input {
    /// Recognises gzip, Zstandard, xz and bzip2 by their first bytes; anything else is passed as it is. `None`: no
    /// byte.
    pub(super) fn new(mut reader: Box<dyn Read + Send>) -> io::Result<Option<Self>> {
        let mut magic = Vec::new();
        reader.by_ref().take(6).read_to_end(&mut magic)?;
        if magic.is_empty() {
            return Ok(None);
        }
        let gz = magic.starts_with(&[0x1f, 0x8b]);
        let zst = magic.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]);
        let xz = magic.starts_with(&[0xfd, b'7', b'z', b'X', b'Z', 0]);
        let bz = magic.starts_with(b"BZh") && matches!(magic.get(3), Some(b'1'..=b'9'));
        let stored = Stored { inner: Cursor::new(magic).chain(reader), hash: Sha256::new() };
        let buffered = |stored| BufReader::with_capacity(STORED_BYTES, stored);
        let decoder = if gz {
            Decoder::Gz(Box::new(MultiGzDecoder::new(buffered(stored))))
        } else if zst {
            let mut decoder = zstd::Decoder::with_buffer(buffered(stored))?;
            decoder.window_log_max(ZST_WINDOW_LOG_MAX)?;
            Decoder::Zst(decoder)
        } else if xz {
            Decoder::Xz(XzDecoder::new_stream(
                buffered(stored),
                Stream::new_stream_decoder(XZ_MEMORY_MAX, CONCATENATED)?,
            ))
        } else if bz {
            Decoder::Bz(MultiBzDecoder::new(buffered(stored)))
        } else {
            Decoder::Plain(stored)
        };
        Ok(Some(Self { decoder, outer: None }))
    }

    /// This, known to have been unpacked from `outer`: compression and hash are those of the file as stored.
    pub(super) fn within(self, outer: Input) -> Self {
        Self { outer: Some(Box::new(outer)), ..self }
    }

    /// The compression's name, if any.
    pub(super) fn compression(&self) -> Option<&'static str> {
        match self.decoder {
            Decoder::Plain(_) => self.outer.as_ref().and_then(|outer| outer.compression()),
            Decoder::Gz(_) => Some("gzip"),
            Decoder::Zst(_) => Some("zstd"),
            Decoder::Xz(_) => Some("xz"),
            Decoder::Bz(_) => Some("bzip2"),
        }
    }

    /// SHA-256 over all stored bytes, in hexadecimal; reads what the decoder left over.
    pub(super) fn sha256(&mut self) -> io::Result<String> {
        if let Some(outer) = &mut self.outer {
            return outer.sha256();
        }
        fn drain(reader: &mut BufReader<Stored>) -> io::Result<&mut Stored> {
            while !reader.fill_buf()?.is_empty() {
                reader.consume(reader.buffer().len());
            }
            Ok(reader.get_mut())
        }
        let stored = match &mut self.decoder {
            Decoder::Plain(stored) => stored,
            Decoder::Gz(decoder) => drain(decoder.get_mut())?,
            Decoder::Zst(decoder) => drain(decoder.get_mut())?,
            Decoder::Xz(decoder) => drain(decoder.get_mut())?,
            Decoder::Bz(decoder) => drain(decoder.get_mut())?,
        };
        let mut text = String::with_capacity(64);
        for byte in stored.hash.finalize_reset() {
            use std::fmt::Write;
            let _ = write!(text, "{byte:02x}");
        }
        Ok(text)
    }
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.decoder {
            Decoder::Plain(stored) => stored.read(buffer),
            Decoder::Gz(decoder) => decoder.read(buffer),
            Decoder::Zst(decoder) => decoder.read(buffer),
            Decoder::Xz(decoder) => decoder.read(buffer),
            Decoder::Bz(decoder) => decoder.read(buffer),
        }
    }
}

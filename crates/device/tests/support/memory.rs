//! A device of memory: what a server serves where the device itself is not under test.

#![allow(missing_docs, unreachable_pub, dead_code, reason = "shared by tests, none of which uses all of it")]

use device::export::{Done, Export, ExportError, Extent};

/// Bytes, and which blocks of them were written.
pub struct Memory {
    pub data: Vec<u8>,
    pub written: Vec<bool>,
    /// How long each reply is held.
    pub delay_ns: u64,
    /// Flushes so far.
    pub flushes: u64,
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes of memory", self.data.len())
    }
}

impl Memory {
    pub const BLOCK_BYTES: usize = 4096;

    pub fn new(bytes: usize) -> Memory {
        Memory {
            data: vec![0; bytes],
            written: vec![false; bytes.div_ceil(Self::BLOCK_BYTES)],
            delay_ns: 0,
            flushes: 0,
        }
    }

    fn done(&self) -> Result<Done, ExportError> {
        Ok(Done { after_ns: self.delay_ns })
    }
}

impl Export for Memory {
    fn bytes(&self) -> u64 {
        self.data.len() as u64
    }

    fn block_bytes(&self) -> u32 {
        Self::BLOCK_BYTES as u32
    }

    fn read(&mut self, offset: u64, out: &mut [u8]) -> Result<Done, ExportError> {
        out.copy_from_slice(&self.data[offset as usize..][..out.len()]);
        self.done()
    }

    fn write(&mut self, offset: u64, data: &[u8]) -> Result<Done, ExportError> {
        let end = offset as usize + data.len();
        self.data[offset as usize..end].copy_from_slice(data);
        self.written[offset as usize / Self::BLOCK_BYTES..=(end - 1) / Self::BLOCK_BYTES].fill(true);
        self.done()
    }

    fn trim(&mut self, offset: u64, bytes: u64) -> Result<Done, ExportError> {
        let blocks = (offset as usize).div_ceil(Self::BLOCK_BYTES)..(offset + bytes) as usize / Self::BLOCK_BYTES;
        for block in blocks {
            self.data[block * Self::BLOCK_BYTES..][..Self::BLOCK_BYTES].fill(0);
            self.written[block] = false;
        }
        self.done()
    }

    fn zero(&mut self, offset: u64, bytes: u64) -> Result<Done, ExportError> {
        self.data[offset as usize..][..bytes as usize].fill(0);
        self.trim(offset, bytes)
    }

    fn flush(&mut self) -> Result<Done, ExportError> {
        self.flushes += 1;
        self.done()
    }

    fn extents(&mut self, offset: u64, bytes: u64, out: &mut Vec<Extent>) -> Result<(), ExportError> {
        let (mut at, end) = (offset, offset + bytes);
        while at < end {
            let block = at as usize / Self::BLOCK_BYTES;
            let next = end.min((block + 1) as u64 * Self::BLOCK_BYTES as u64);
            out.push(Extent { bytes: next - at, hole: !self.written[block] });
            at = next;
        }
        Ok(())
    }

    fn idle(&mut self) -> bool {
        false
    }
}

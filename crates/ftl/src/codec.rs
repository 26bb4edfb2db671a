//! A scheme's RAM as bytes, for the test that it is as small as it says (docs/accounting.md).
//!
//! Little-endian, no padding, no tags: what a firmware would keep.

use alloc::vec::Vec;

/// Writes state.
///
/// ```
/// use ftl::{Loader, Saver};
/// let mut out = Saver::default();
/// out.u16(7);
/// out.u32(9);
/// assert_eq!(out.len(), 6);
/// let bytes = out.finish();
/// let mut from = Loader::new(&bytes);
/// assert_eq!((from.u16(), from.u32(), from.is_done()), (7, 9, true));
/// ```
#[derive(Debug, Default)]
pub struct Saver {
    bytes: Vec<u8>,
}

impl Saver {
    /// One byte.
    pub fn u8(&mut self, x: u8) {
        self.bytes.push(x);
    }
    /// Two bytes.
    pub fn u16(&mut self, x: u16) {
        self.bytes.extend_from_slice(&x.to_le_bytes());
    }
    /// Four bytes.
    pub fn u32(&mut self, x: u32) {
        self.bytes.extend_from_slice(&x.to_le_bytes());
    }
    /// Eight bytes.
    pub fn u64(&mut self, x: u64) {
        self.bytes.extend_from_slice(&x.to_le_bytes());
    }
    /// Whatever `write` appends.
    pub fn append(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.bytes);
    }
    /// The bytes.
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }
    /// How many so far.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }
    /// Whether none yet.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

/// Reads state back.
#[derive(Debug)]
pub struct Loader<'a> {
    bytes: &'a [u8],
}

impl<'a> Loader<'a> {
    /// From what a [`Saver`] made.
    pub fn new(bytes: &'a [u8]) -> Self {
        Loader { bytes }
    }
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let (head, rest) = self.bytes.split_first_chunk::<N>().expect("saved state ends too early");
        self.bytes = rest;
        *head
    }
    /// One byte.
    pub fn u8(&mut self) -> u8 {
        self.take::<1>()[0]
    }
    /// Two bytes.
    pub fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.take())
    }
    /// Four bytes.
    pub fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }
    /// Eight bytes.
    pub fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }
    /// What `read` takes off the front; it returns the rest.
    pub fn split(&mut self, read: impl FnOnce(&'a [u8]) -> &'a [u8]) {
        self.bytes = read(self.bytes);
    }
    /// All that was not read.
    pub fn rest(self) -> &'a [u8] {
        self.bytes
    }
    /// Whether everything was read.
    pub fn is_done(&self) -> bool {
        self.bytes.is_empty()
    }
}

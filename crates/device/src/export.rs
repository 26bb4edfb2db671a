//! What a server serves.

/// Why a request failed, in the terms of block devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExportError {
    /** Input/output error. */
    Io,
    /** No space left. */
    NoSpace,
    /** Offset or length out of range. */
    Invalid,
}

/// A run of bytes of one state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// Length of the run.
    pub bytes: u64,
    /** Holds nothing: reads as zeros. */
    pub hole: bool,
}

/// When a request that has been carried out may be answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Done {
    /** Delay from the request's arrival; zero without emulated timing. */
    pub after_ns: u64,
}

/// A block device as a server sees it. Requests are carried out one at a time, in the order of the calls.
pub trait Export: Send {
    /// Size of the device.
    fn bytes(&self) -> u64;
    /// The preferred unit of requests.
    fn block_bytes(&self) -> u32;
    /// Reads `out.len()` bytes; what was never written, or discarded, reads as zeros.
    ///
    /// # Errors
    /// As the other calls: the flash or the host's file failed, no space is left, or the range is not on the device.
    fn read(&mut self, offset: u64, out: &mut [u8]) -> Result<Done, ExportError>;
    /// Writes `data`.
    ///
    /// # Errors
    /// As [`Export::read`].
    fn write(&mut self, offset: u64, data: &[u8]) -> Result<Done, ExportError>;
    /// Discards what lies whole in the range; the rest keeps its content.
    ///
    /// # Errors
    /// As [`Export::read`].
    fn trim(&mut self, offset: u64, bytes: u64) -> Result<Done, ExportError>;
    /// Makes the range read as zeros.
    ///
    /// # Errors
    /// As [`Export::read`].
    fn zero(&mut self, offset: u64, bytes: u64) -> Result<Done, ExportError>;
    /// Makes everything acknowledged so far durable.
    ///
    /// # Errors
    /// As [`Export::read`].
    fn flush(&mut self) -> Result<Done, ExportError>;
    /// Appends the runs that make up the range to `out`.
    ///
    /// # Errors
    /// As [`Export::read`].
    fn extents(&mut self, offset: u64, bytes: u64, out: &mut Vec<Extent>) -> Result<(), ExportError>;
    /// Nothing is waiting: does a bounded piece of background work; whether there is more.
    fn idle(&mut self) -> bool;
}

impl<E: Export + ?Sized> Export for Box<E> {
    fn bytes(&self) -> u64 {
        (**self).bytes()
    }
    fn block_bytes(&self) -> u32 {
        (**self).block_bytes()
    }
    fn read(&mut self, offset: u64, out: &mut [u8]) -> Result<Done, ExportError> {
        (**self).read(offset, out)
    }
    fn write(&mut self, offset: u64, data: &[u8]) -> Result<Done, ExportError> {
        (**self).write(offset, data)
    }
    fn trim(&mut self, offset: u64, bytes: u64) -> Result<Done, ExportError> {
        (**self).trim(offset, bytes)
    }
    fn zero(&mut self, offset: u64, bytes: u64) -> Result<Done, ExportError> {
        (**self).zero(offset, bytes)
    }
    fn flush(&mut self) -> Result<Done, ExportError> {
        (**self).flush()
    }
    fn extents(&mut self, offset: u64, bytes: u64, out: &mut Vec<Extent>) -> Result<(), ExportError> {
        (**self).extents(offset, bytes, out)
    }
    fn idle(&mut self) -> bool {
        (**self).idle()
    }
}

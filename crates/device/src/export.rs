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
    fn bytes(&self) -> u64;
    fn block_bytes(&self) -> u32; // preferred unit
    fn read(&mut self, offset: u64, out: &mut [u8]) -> Result<Done, ExportError>;
    fn write(&mut self, offset: u64, data: &[u8]) -> Result<Done, ExportError>;
    fn trim(&mut self, offset: u64, bytes: u64) -> Result<Done, ExportError>;
    fn zero(&mut self, offset: u64, bytes: u64) -> Result<Done, ExportError>;
    fn flush(&mut self) -> Result<Done, ExportError>;
    fn extents(&mut self, offset: u64, bytes: u64, out: &mut Vec<Extent>) -> Result<(), ExportError>;
    /// Nothing is waiting: does a bounded piece of background work; whether there is more.
    fn idle(&mut self) -> bool;
}

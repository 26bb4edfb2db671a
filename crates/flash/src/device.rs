//! Device presets.

/// Times of a device's commands, nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timing {
    /// Cell read of a page.
    pub read_ns: u64,
    /// Cell read of a spare area alone.
    pub oob_read_ns: u64,
    /// Cell program.
    pub program_ns: u64,
    /// Partial program.
    pub partial_program_ns: u64,
    /// Block erase.
    pub erase_ns: u64,
    /// Transfer of a whole page, spare area included.
    pub page_transfer_ns: u64,
    /// Transfer of a spare area.
    pub oob_transfer_ns: u64,
}

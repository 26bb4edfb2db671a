//! What chips can do beside one command after another.
//!
//! Only a [`Scheduler`](crate::Scheduler) makes use of it, and only of what the device has: a preset claims nothing
//! that its source does not say.

/// What the chips of a device can do. By default nothing of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Features {
    /// Programs and erases can be interrupted.
    pub suspend: Option<Suspend>,
    /// Planes of a die can work at the same time.
    pub multi_plane: MultiPlane,
    /// A page can be copied within its plane without leaving the chip.
    pub copy_back: bool,
    /// The next page is read while the last one is transferred.
    pub cache_read: bool,
    /// The next page is transferred while the last one is programmed.
    pub cache_program: bool,
}

/// How programs and erases are interrupted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Suspend {
    /// From the command to suspend a program until the die can read.
    pub program_ns: u64,
    /// From the command to suspend an erase until the die can read.
    pub erase_ns: u64,
    /// What going on takes, beside the time that was left.
    pub resume_ns: u64,
    /// How often one program or erase is interrupted at the most.
    pub most: u32,
}

/// Which commands the planes of a die can execute at the same time, if they are of one kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MultiPlane {
    /// None.
    #[default]
    Off,
    /// Those to the same page of their blocks, as ONFI demands.
    Aligned,
    /// Any.
    Independent,
}

impl MultiPlane {
    /// Every choice.
    pub const ALL: [MultiPlane; 3] = [MultiPlane::Off, MultiPlane::Aligned, MultiPlane::Independent];

    /// The word used on the command line and in device files.
    pub const fn name(self) -> &'static str {
        match self {
            MultiPlane::Off => "off",
            MultiPlane::Aligned => "aligned",
            MultiPlane::Independent => "independent",
        }
    }
}

//! A rule of the chip that a command would break, as a value.

use crate::{Kind, Ppn};
use core::fmt;

/// What a scheme did wrong: a bug of the scheme, and nothing that a device does to it. A chip panics with it as text;
/// whoever drives a chip from outside asks the chip's `check_*` first, as [`Nand::check_program`](crate::Nand), and
/// has it as a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Broken {
    /// The rule.
    pub rule: Rule,
    /// The command that breaks it.
    pub command: Command,
    /// The page at fault; of an erase, the first of its block.
    pub ppn: Ppn,
}

/// What a scheme wanted to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Command {
    /// Read a page.
    Read,
    /// Program a page: also the second half of a copy.
    Program,
    /// Program a part of a page.
    Append,
    /// Copy from a page.
    Copy,
    /// Erase a block.
    Erase,
    /// Reserve, stage or look at bytes of the scheme's own in a spare area.
    Spare,
}

/// What a chip does not allow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rule {
    /// A bad block takes no command but reads.
    BadBlock,
    /// A block whose erase was cut short is erased before it is programmed.
    EraseCutShort,
    /// A page is programmed once between erases.
    NotBlank,
    /// Pages of a block are programmed in an order.
    OutOfOrder {
        /// The page of the block that is next, counted from 0.
        next: u32,
    },
    /// A block that was begun in SLC mode goes on in it.
    InSlcMode,
    /// A block that was begun in another mode does not go on in SLC mode.
    NotInSlcMode,
    /// A block in SLC mode has fewer pages.
    BeyondSlcPages,
    /// Cells that hold one bit have no SLC mode.
    OneBitCells,
    /// A blank page is neither read whole nor copied.
    Blank,
    /// A torn page is not copied.
    Torn,
    /// A run of copies is of host pages.
    NoHostPage,
    /// What a copy took along is gone from its source.
    Moved,
    /// Partial programs are of metadata pages.
    NoMetadata,
    /// A page is programmed so often between erases, and no oftener.
    Nop {
        /// How often it was programmed.
        programs: u32,
        /// The limit.
        nop: u32,
    },
    /// A partial program ends where its page does.
    BeyondPage,
    /// A partial program finds everything blank from where it begins.
    ByteNotBlank {
        /// Where it begins.
        at: u32,
        /// The first byte that is not blank.
        byte: u32,
    },
    /// A mark of all ones is blank.
    BlankMark,
    /// Metadata words fit their page.
    TooManyWords {
        /// How many there are.
        words: u32,
        /// How many fit.
        capacity: u32,
    },
    /// Only padding has no content.
    NoContent(Kind),
    /// What a scheme keeps in spare areas is reserved once.
    ReservedBefore {
        /// Bytes of each page.
        before: u32,
        /// What is asked for now.
        now: u32,
    },
    /// What goes into a spare area fits what was reserved.
    NotReserved {
        /// Bytes to be stored.
        bytes: u32,
        /// Bytes reserved.
        reserved: u32,
    },
    /// The bytes of a spare area are had after it was read.
    NotRead,
}

impl Rule {
    /// As the answer to a command.
    pub const fn broken_by(self, command: Command, ppn: Ppn) -> Broken {
        Broken { rule: self, command, ppn }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Rule::BadBlock => f.write_str("the block is bad"),
            Rule::EraseCutShort => f.write_str("the block's erase was cut short: erase it first"),
            Rule::NotBlank => f.write_str("the page is not blank"),
            Rule::OutOfOrder { next } => {
                write!(f, "the page is out of program order; page {next} of its block is next")
            }
            Rule::InSlcMode => f.write_str("the block is in SLC mode"),
            Rule::NotInSlcMode => f.write_str("the block is not in SLC mode"),
            Rule::BeyondSlcPages => f.write_str("a block in SLC mode has no such page"),
            Rule::OneBitCells => f.write_str("SLC mode of cells that hold one bit"),
            Rule::Blank => f.write_str("the page is blank"),
            Rule::Torn => f.write_str("the page is torn"),
            Rule::NoHostPage => f.write_str("the page holds metadata, and is copied as a host page"),
            Rule::Moved => f.write_str("the page's content had been moved by a copy"),
            Rule::NoMetadata => f.write_str("the page holds no metadata"),
            Rule::Nop { programs, nop } => write!(f, "the page was programmed {programs} times; NOP is {nop}"),
            Rule::BeyondPage => f.write_str("it goes beyond its end"),
            Rule::ByteNotBlank { at, byte } => write!(f, "from byte {at} on: byte {byte} is not blank"),
            Rule::BlankMark => f.write_str("a mark of all ones is none"),
            Rule::TooManyWords { words, capacity } => {
                write!(f, "{words} words of metadata do not fit a page of {capacity}")
            }
            Rule::NoContent(kind) => write!(f, "a page of kind {kind:?} needs content"),
            Rule::ReservedBefore { before, now } => {
                write!(f, "{before} bytes of each spare area were reserved, now {now}")
            }
            Rule::NotReserved { bytes, reserved } => write!(f, "{bytes} bytes, {reserved} are reserved"),
            Rule::NotRead => f.write_str("the spare area was not read"),
        }
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let command = match self.command {
            Command::Read => "read of page",
            Command::Program => "program of page",
            Command::Append => "partial program of page",
            Command::Copy => "copy of page",
            Command::Erase => "erase of the block of page",
            Command::Spare => "bytes in the spare area of page",
        };
        write!(f, "{command} {}: {}", self.ppn, self.rule)
    }
}

impl core::error::Error for Broken {}

/// What a chip does where a rule is broken.
///
/// # Panics
/// Always, with the rule, the command and the page.
#[cold]
#[inline(never)]
#[track_caller]
pub fn refuse(broken: Broken) -> ! {
    panic!("{broken}")
}

//! Devices: how long a chip takes, what it is shaped like, and who says so.
//!
//! A simulated response time is only as good as the datasheet behind it, so a number here never travels alone: each
//! carries the [`Origin`] of its value, and where nobody published one, the reason for the value we chose. A row of
//! [`PRESETS`] is one published device or one paper's simulated device. [`Preset::build`] crosses a row with the user's
//! [`Overrides`] and yields a [`Device`], in which every value is checked and every unit is an integer of nanoseconds,
//! bytes or pages. [`KEYS`] says for each override what it means and what it may be; help texts, the parser of device
//! strings and the error messages are read off it.
//!
//! Sizing: the user asks for an exported capacity and a spare share; the number of blocks follows. Physical pages are
//! `logical / (1 - spare)`, rounded up to whole blocks on every die, so that a scheme never gets less than was asked
//! for. The block count of the real die is kept in the row as information and does not limit the device.

use crate::{Geometry, GeometryError, Mode, Pairing, ProgramOrder};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

mod features;
mod presets;

pub use features::{Features, MultiPlane, Suspend};
pub use presets::PRESETS;

/// How long a chip and its channel take, in nanoseconds. Cell times are spent in the die, transfer times on the
/// channel; a transfer time of 0 means that transfers are not charged separately.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timing {
    /// Cell time of a page read.
    pub read_ns: u64,
    /// Cell time of reading the spare area alone.
    pub oob_read_ns: u64,
    /// Cell time of a page program.
    pub program_ns: u64,
    /// Cell time of a partial program.
    pub partial_program_ns: u64,
    /// Cell time of a block erase.
    pub erase_ns: u64,
    /// Channel time of a whole page, its spare area included.
    pub page_transfer_ns: u64,
    /// Channel time of the spare area alone.
    pub oob_transfer_ns: u64,
    /// Cell times of blocks in SLC mode.
    pub slc: CellTimes,
    /// Times of pages programmed with low cost.
    pub low_cost: PageTimes,
    /// Times of pages programmed with medium effort.
    pub medium: PageTimes,
}

/// How long a page takes that was programmed with less effort, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageTimes {
    /// A read, with what its code needs to be decoded beyond what that of other pages needs.
    pub read_ns: u64,
    /// A program.
    pub program_ns: u64,
}

/// How long the cells take, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CellTimes {
    /// A page read.
    pub read_ns: u64,
    /// Reading the spare area alone.
    pub oob_read_ns: u64,
    /// A page program.
    pub program_ns: u64,
    /// A partial program.
    pub partial_program_ns: u64,
    /// A block erase.
    pub erase_ns: u64,
}

impl Timing {
    /// The cell times of pages of a mode: the one place that says what a mode costs.
    #[inline(always)]
    pub const fn cells(&self, mode: Mode) -> CellTimes {
        let Timing { read_ns, oob_read_ns, program_ns, partial_program_ns, erase_ns, .. } = *self;
        let normal = CellTimes { read_ns, oob_read_ns, program_ns, partial_program_ns, erase_ns };
        let page = match mode {
            Mode::Normal => return normal,
            Mode::Slc => return self.slc,
            Mode::LowCost => self.low_cost,
            Mode::Medium => self.medium,
        };
        // The spare area is read as ever, for it says which code the page has.
        CellTimes { read_ns: page.read_ns, program_ns: page.program_ns, ..normal }
    }
}

/// Where a number comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// The maximum that a datasheet guarantees.
    DatasheetMax,
    /// The typical value that a datasheet states.
    DatasheetTyp,
    /// Measured on a chip.
    Measured,
    /// Chosen by a simulator's authors so that the whole drive behaves like a real one.
    Tuned,
    /// Stated in a paper.
    Paper,
    /// Shipped in the configuration of a published simulator that does not say where it has it from.
    Simulator,
    /// Computed by us from numbers of the other kinds; the row says how.
    Derived,
    /// Chosen by us because the source is silent; the row says why.
    Assumed,
}

impl Origin {
    /// Every origin, in the order of the type.
    pub const ALL: [Origin; 8] = [
        Origin::DatasheetMax,
        Origin::DatasheetTyp,
        Origin::Measured,
        Origin::Tuned,
        Origin::Paper,
        Origin::Simulator,
        Origin::Derived,
        Origin::Assumed,
    ];

    /// The word used in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Origin::DatasheetMax => "datasheet-max",
            Origin::DatasheetTyp => "datasheet-typ",
            Origin::Measured => "measured",
            Origin::Tuned => "tuned",
            Origin::Paper => "paper",
            Origin::Simulator => "simulator",
            Origin::Derived => "derived",
            Origin::Assumed => "assumed",
        }
    }
}

/// A value with its origin. The unit is that of the field which holds it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Number {
    /// The value. Counts are whole.
    pub value: f64,
    /// Where it comes from.
    pub origin: Origin,
    /// How it was derived or why it was assumed; never empty for those two, a remark or nothing for the others.
    pub why: &'static str,
}

impl Number {
    /// The value as a count. Rows hold whole numbers wherever this is used; a test sees to it.
    const fn count(self) -> u32 {
        self.value as u32
    }
}

/// Which pages of a block share their cells, with the origin of that.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sharing {
    /// The order of the pages of a word line.
    pub order: Pairing,
    /// Where it comes from.
    pub origin: Origin,
    /// Why it was assumed; else a remark or nothing.
    pub why: &'static str,
}

/// Bits stored in a cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CellKind {
    /// One bit.
    Slc,
    /// Two bits.
    Mlc,
    /// Three bits.
    Tlc,
    /// Four bits.
    Qlc,
}

impl CellKind {
    /// Every kind, by the bits that it stores.
    pub const ALL: [CellKind; 4] = [CellKind::Slc, CellKind::Mlc, CellKind::Tlc, CellKind::Qlc];

    /// Bits in a cell.
    pub const fn bits(self) -> u32 {
        self as u32 + 1
    }

    /// The word used on the command line and in device files.
    pub const fn word(self) -> &'static str {
        match self {
            CellKind::Slc => "slc",
            CellKind::Mlc => "mlc",
            CellKind::Tlc => "tlc",
            CellKind::Qlc => "qlc",
        }
    }

    /// The word used in tables.
    pub const fn name(self) -> &'static str {
        match self {
            CellKind::Slc => "SLC",
            CellKind::Mlc => "MLC",
            CellKind::Tlc => "TLC",
            CellKind::Qlc => "QLC",
        }
    }
}

/// How commands share the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Server {
    /// One server: every command waits for the one before it. FlashSim and the papers that used it.
    Single,
    /// Dies work and channels transfer side by side.
    Parallel,
}

impl Server {
    /// The word used on the command line and in device files.
    pub const fn name(self) -> &'static str {
        match self {
            Server::Single => "single",
            Server::Parallel => "parallel",
        }
    }
}

/// One published device, or the device that one paper simulated.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// Unique, kebab-case.
    pub name: &'static str,
    /// Other names it answers to.
    pub aliases: &'static [&'static str],
    /// One line.
    pub summary: &'static str,
    /// Where its numbers were published.
    pub source: &'static str,
    /// What a reader must know before trusting or changing the numbers.
    pub notes: &'static str,
    /// Bits per cell.
    pub cell: CellKind,
    /// Which pages share cells.
    pub paired: Sharing,
    /// Queueing that the source used, or that the part allows.
    pub server: Server,
    /// Program order that the chip enforces. `Any` only where the source's simulator did not check it.
    pub order: ProgramOrder,
    /// Cell time of a page read, µs. Where page types differ, the mean of [`Preset::read_types_us`].
    pub read_us: Number,
    /// Page read time by page type, lower page first, µs; empty where one time holds for all.
    pub read_types_us: &'static [Number],
    /// Cell time of reading the spare area alone, µs.
    pub oob_read_us: Number,
    /// Cell time of a page program, µs. Where page types differ, the mean of [`Preset::program_types_us`].
    pub program_us: Number,
    /// Page program time by page type, lower page first, µs; empty where one time holds for all.
    pub program_types_us: &'static [Number],
    /// Cell time of a partial program, µs.
    pub partial_program_us: Number,
    /// Cell time of a block erase, µs.
    pub erase_us: Number,
    /// Cell times of a page read and a page program in SLC mode, µs, of cells that hold more than one bit.
    pub slc_us: Option<[Number; 2]>,
    /// Times of a read and a program of a page programmed with low cost, µs, where they differ.
    pub low_cost_us: Option<[Number; 2]>,
    /// The same of medium effort.
    pub medium_us: Option<[Number; 2]>,
    /// From the command to suspend until the die can read, µs, of a program and of an erase, where they can be
    /// suspended.
    pub suspend_us: Option<[Number; 2]>,
    /// What planes of a die can do at the same time.
    pub multi_plane: MultiPlane,
    /// Rate of a channel, MB/s (10^6 bytes); 0 = transfers are part of the times above, or free.
    pub bus_mbps: Number,
    /// Data bytes of a page.
    pub page: Number,
    /// Spare bytes of a page.
    pub oob: Number,
    /// Pages of a block.
    pub pages_per_block: Number,
    /// Blocks of the real die over all its planes, where stated. Information: [`Preset::build`] sizes dies by capacity.
    pub blocks_per_die: Option<Number>,
    /// Channels.
    pub channels: Number,
    /// Chips on each channel.
    pub chips: Number,
    /// Dies in each chip.
    pub dies: Number,
    /// Planes in each die.
    pub planes: Number,
    /// Programs of one page between two erases (NOP).
    pub nop: Number,
    /// Exported bytes, where the profile fixes them.
    pub capacity: Option<Number>,
    /// Share of the physical pages that is not exported.
    pub spare: Number,
    /// Erases that a block endures, where stated.
    pub endurance: Option<Number>,
}

/// What a key of [`Overrides`] means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Key {
    /// The word before `=`.
    pub name: &'static str,
    /// Unit of a bare number; empty for words and plain counts.
    pub unit: &'static str,
    /// What it sets.
    pub effect: &'static str,
    /// What it may be.
    pub range: &'static str,
}

const fn key(name: &'static str, unit: &'static str, effect: &'static str, range: &'static str) -> Key {
    Key { name, unit, effect, range }
}

/// Every key by which a device can be changed, in the order of [`Overrides`].
pub const KEYS: &[Key] = &[
    key("capacity", "bytes", "exported bytes", "a positive multiple of the page size"),
    key("spare", "share", "share of the physical pages that is not exported", "0.01 to 0.9 (1% to 90%)"),
    key("page", "bytes", "data bytes of a page", "a power of two from 512 to 1048576 bytes"),
    key("oob", "bytes", "spare bytes of a page; unset, they grow with the page", "16 bytes to the page size"),
    key("pages_per_block", "", "pages of a block", "a power of two from 2 to 8192"),
    key("channels", "", "channels that transfer independently", "1 to 1024"),
    key("chips", "", "chips on each channel", "1 to 1024"),
    key("dies", "", "dies in each chip", "1 to 1024"),
    key("planes", "", "planes in each die", "1 to 1024"),
    key("read_us", "µs", "cell time of a page read", "0 to 1000000 µs"),
    key(
        "oob_read_us",
        "µs",
        "cell time of reading the spare area; unset, it keeps its share of read_us",
        "0 to read_us",
    ),
    key("program_us", "µs", "cell time of a program", "0 to 1000000 µs"),
    key(
        "partial_program_us",
        "µs",
        "cell time of a partial program; unset, it keeps its share of program_us",
        "0 to 1000000 µs",
    ),
    key("erase_us", "µs", "cell time of an erase", "0 to 1000000 µs"),
    key("bus_mbps", "MB/s", "rate of a channel; 0 = transfers not charged", "0 or 0.1 to 100000 MB/s"),
    key("order", "", "program order that the chip enforces", "any, ascending or strict"),
    key("nop", "", "programs of one page between two erases", "1 to 64"),
    key("cell", "", "bits that a cell holds: how many pages a block has in SLC mode", "slc, mlc, tlc or qlc"),
    key("slc_nop", "", "programs of one page in SLC mode between two erases; unset, 4", "1 to 64"),
    key("slc_read_us", "µs", "cell time of a page read in SLC mode", "0 to 1000000 µs"),
    key("slc_program_us", "µs", "cell time of a program in SLC mode", "0 to 1000000 µs"),
    key("slc_erase_us", "µs", "cell time of an erase in SLC mode; unset, erase_us", "0 to 1000000 µs"),
    key(
        "low_cost_read_us",
        "µs",
        "time of reading a page programmed with low cost, its code's decoding included; unset, read_us",
        "0 to 1000000 µs",
    ),
    key("low_cost_program_us", "µs", "cell time of a program with low cost; unset, program_us", "0 to 1000000 µs"),
    key(
        "medium_read_us",
        "µs",
        "time of reading a page programmed with medium effort; unset, read_us",
        "0 to 1000000 µs",
    ),
    key("medium_program_us", "µs", "cell time of a program with medium effort; unset, program_us", "0 to 1000000 µs"),
    key("server", "", "whether commands overlap", "single or parallel"),
    key("endurance", "erases", "erases that a block endures", "at least 1"),
    key(
        "suspend_program_us",
        "µs",
        "until a die can read after a program was suspended; with suspend_erase_us, for --scheduler suspend",
        "0 to 1000000 µs",
    ),
    key("suspend_erase_us", "µs", "until a die can read after an erase was suspended", "0 to 1000000 µs"),
    key("resume_us", "µs", "what going on with a suspended command takes; unset, 0", "0 to 1000000 µs"),
    key("suspends", "", "how often one command is suspended at the most; unset, 8", "1 to 1000"),
    key("multi_plane", "", "commands of one kind that planes execute together", "off, aligned or independent"),
    key("copy_back", "", "whether copies within a plane stay in the chip; unset, off", "on or off"),
    key("cache_read", "", "whether a die reads while it transfers what it read before; unset, off", "on or off"),
    key("cache_program", "", "whether a die programs while it takes the next page; unset, off", "on or off"),
    key(
        "barriers",
        "",
        "whether erases and programs of metadata wait for all programs and erases before them on all dies; unset, off",
        "on or off",
    ),
    key(
        "paired",
        "",
        "which pages of a block share their cells, so that a torn one takes others along; for ftlab image create",
        "off, shadow or adjacent",
    ),
];

/// Changes to a preset, or with every value given a device of one's own. See [`KEYS`] for meanings and ranges.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Overrides {
    /// Exported bytes. Callers that size the device by a trace fill this in when neither user nor preset fixes it.
    pub capacity: Option<u64>,
    /// Share of the physical pages that is not exported.
    pub spare: Option<f64>,
    /// Data bytes of a page.
    pub page: Option<u32>,
    /// Spare bytes of a page; unset, the preset's share of the page.
    pub oob: Option<u32>,
    /// Pages of a block.
    pub pages_per_block: Option<u32>,
    /// Channels.
    pub channels: Option<u32>,
    /// Chips on each channel.
    pub chips: Option<u32>,
    /// Dies in each chip.
    pub dies: Option<u32>,
    /// Planes in each die.
    pub planes: Option<u32>,
    /// Cell time of a page read, µs.
    pub read_us: Option<f64>,
    /// Cell time of reading the spare area, µs; unset, the preset's share of `read_us`.
    pub oob_read_us: Option<f64>,
    /// Cell time of a page program, µs.
    pub program_us: Option<f64>,
    /// Cell time of a partial program, µs; unset, the preset's share of `program_us`.
    pub partial_program_us: Option<f64>,
    /// Cell time of a block erase, µs.
    pub erase_us: Option<f64>,
    /// Rate of a channel, MB/s; 0 = transfers not charged.
    pub bus_mbps: Option<f64>,
    /// Program order.
    pub order: Option<ProgramOrder>,
    /// Programs of one page between two erases.
    pub nop: Option<u32>,
    /// Bits in a cell; unset and without a preset, one.
    pub cell: Option<CellKind>,
    /// The NOP of pages in SLC mode; unset, 4.
    pub slc_nop: Option<u32>,
    /// Cell time of a page read in SLC mode, µs; unset and without a preset's, `read_us`.
    pub slc_read_us: Option<f64>,
    /// Cell time of a program in SLC mode, µs; unset and without a preset's, `program_us`.
    pub slc_program_us: Option<f64>,
    /// Cell time of an erase in SLC mode, µs; unset, `erase_us`.
    pub slc_erase_us: Option<f64>,
    /// Time of reading a page programmed with low cost, µs; unset and without a preset's, `read_us`.
    pub low_cost_read_us: Option<f64>,
    /// Cell time of a program with low cost, µs; unset and without a preset's, `program_us`.
    pub low_cost_program_us: Option<f64>,
    /// Time of reading a page programmed with medium effort, µs; unset and without a preset's, `read_us`.
    pub medium_read_us: Option<f64>,
    /// Cell time of a program with medium effort, µs; unset and without a preset's, `program_us`.
    pub medium_program_us: Option<f64>,
    /// Queueing.
    pub server: Option<Server>,
    /// Erases that a block endures.
    pub endurance: Option<u32>,
    /// Until a die can read after a program was suspended, µs.
    pub suspend_program_us: Option<f64>,
    /// Until a die can read after an erase was suspended, µs.
    pub suspend_erase_us: Option<f64>,
    /// What going on with a suspended command takes, µs; unset, nothing.
    pub resume_us: Option<f64>,
    /// How often one command is suspended at the most; unset, 8.
    pub suspends: Option<u32>,
    /// What planes of a die can do at the same time; unset and without a preset's, nothing.
    pub multi_plane: Option<MultiPlane>,
    /// Copies within a plane stay in the chip; unset, they do not.
    pub copy_back: Option<bool>,
    /// A die reads while it transfers; unset, it does not.
    pub cache_read: Option<bool>,
    /// A die programs while it takes the next page; unset, it does not.
    pub cache_program: Option<bool>,
    /// The controller keeps barriers; unset, it does not.
    pub barriers: Option<bool>,
    /// Which pages of a block share their cells; unset, the preset's, and without a preset none.
    pub paired: Option<Pairing>,
}

/// A device ready to be simulated: every value checked, every unit fixed.
#[derive(Clone, PartialEq, Debug)]
pub struct Device {
    /// The preset's name, or the user's.
    pub name: String,
    /// Its shape; physical pages are at least `logical_pages / (1 - spare)`.
    pub geometry: Geometry,
    /// Its times, ns.
    pub timing: Timing,
    /// Whether every command waits for the one before it.
    pub server: Server,
    /// Pages exported to the host.
    pub logical_pages: u32,
    /// Share of the physical pages not exported, as asked; rounding to whole blocks may leave more.
    pub spare: f64,
    /// Erases that a block endures, where known.
    pub endurance: Option<u32>,
    /// What its chips can do where commands queue.
    pub features: Features,
    /// Whether its controller keeps barriers ([`Timeline::keep_barriers`](crate::Timeline::keep_barriers)).
    pub barriers: bool,
    /// Which pages of a block share their cells. A simulated device loses no power, and [`Geometry::pairs`] is off: see
    /// [`Device::guarded`].
    pub paired: Pairing,
}

impl Device {
    /// The device with cells that are shared, and with the blocks on top that a [`Guard`](crate::Guard) then takes, so
    /// that a scheme has as many as before.
    ///
    /// # Errors
    /// Spare areas without room for what the guard keeps in them, or more pages than fit.
    pub fn guarded(mut self) -> Result<Device, DeviceError> {
        if self.paired != Pairing::Off {
            self.geometry = crate::guard::beneath(self.geometry, self.paired)?;
        }
        Ok(self)
    }
}

/// Why a device cannot be built.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceError {
    /// The key that is wrong, as in [`KEYS`].
    pub key: &'static str,
    /// What it was.
    pub value: String,
    /// What is wrong with it.
    pub what: String,
    /// What it may be, or what to do.
    pub fix: String,
}

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {} {}; {}", self.key, self.value, self.what, self.fix)
    }
}

impl core::error::Error for DeviceError {}

/// The range of a key of [`KEYS`].
fn range_of(key: &str) -> &'static str {
    KEYS.iter().find(|k| k.name == key).map_or("", |k| k.range)
}

fn out_of_range(key: &'static str, value: impl ToString) -> DeviceError {
    DeviceError {
        key,
        value: value.to_string(),
        what: "is out of range".to_string(),
        fix: format!("give {}", range_of(key)),
    }
}

impl From<GeometryError> for DeviceError {
    fn from(e: GeometryError) -> Self {
        DeviceError {
            key: e.field,
            value: e.value.to_string(),
            what: "is out of range".to_string(),
            fix: format!("give {}", e.range),
        }
    }
}

/// Denominator of the spare share in integer arithmetic: block counts must not hang on a rounding error.
const BILLION: u64 = 1_000_000_000;
const GIB: f64 = (1u64 << 30) as f64;

fn ns(us: f64) -> u64 {
    (us * 1000.0 + 0.5) as u64
}

/// `value` if it lies in `low..=high`; a NaN never does.
fn within(key: &'static str, value: f64, low: f64, high: f64) -> Result<f64, DeviceError> {
    if value >= low && value <= high { Ok(value) } else { Err(out_of_range(key, value)) }
}

impl Overrides {
    /// The keys that a device without a preset still lacks. `capacity` may be filled in later; `oob_read_us` is then
    /// the page read's cell time, `partial_program_us` the program's, `endurance` unknown, and a cell holds one bit.
    pub fn missing(&self) -> Vec<&'static str> {
        let given = [
            ("spare", self.spare.is_some()),
            ("page", self.page.is_some()),
            ("oob", self.oob.is_some()),
            ("pages_per_block", self.pages_per_block.is_some()),
            ("channels", self.channels.is_some()),
            ("chips", self.chips.is_some()),
            ("dies", self.dies.is_some()),
            ("planes", self.planes.is_some()),
            ("read_us", self.read_us.is_some()),
            ("program_us", self.program_us.is_some()),
            ("erase_us", self.erase_us.is_some()),
            ("bus_mbps", self.bus_mbps.is_some()),
            ("order", self.order.is_some()),
            ("nop", self.nop.is_some()),
            ("server", self.server.is_some()),
        ];
        given.into_iter().filter(|(_, is_given)| !is_given).map(|(key, _)| key).collect()
    }

    /// Builds a device that starts from no preset.
    ///
    /// # Errors
    /// A key that is missing (see [`Overrides::missing`]) or out of its range.
    pub fn build(&self, name: &str) -> Result<Device, DeviceError> {
        if let Some(&key) = self.missing().first() {
            return Err(DeviceError {
                key,
                value: "nothing".to_string(),
                what: "but a device without a base must give it".to_string(),
                fix: format!("start from a preset, or give also: {}", self.missing().join(", ")),
            });
        }
        build(name, None, self)
    }
}

impl Preset {
    /// The device that this row describes, changed by `overrides`.
    ///
    /// # Errors
    /// A value out of its range, a capacity that no one gave, or one that needs more than [`Geometry::MAX_PAGES`].
    pub fn build(&self, overrides: &Overrides) -> Result<Device, DeviceError> {
        build(self.name, Some(self), overrides)
    }

    /// Every number of the row with its label and unit, for tables and tests.
    pub fn numbers(&self) -> Vec<(&'static str, Number, &'static str)> {
        const TYPES: [[&str; 4]; 2] = [
            ["read, lower page", "read, 2nd page type", "read, 3rd page type", "read, 4th page type"],
            ["program, lower page", "program, 2nd page type", "program, 3rd page type", "program, 4th page type"],
        ];
        let mut rows = Vec::new();
        rows.push(("read", self.read_us, "µs"));
        rows.extend(TYPES[0].into_iter().zip(self.read_types_us).map(|(label, &n)| (label, n, "µs")));
        rows.push(("read spare area", self.oob_read_us, "µs"));
        rows.push(("program", self.program_us, "µs"));
        rows.extend(TYPES[1].into_iter().zip(self.program_types_us).map(|(label, &n)| (label, n, "µs")));
        rows.push(("partial program", self.partial_program_us, "µs"));
        rows.push(("erase", self.erase_us, "µs"));
        if let Some([read, program]) = self.slc_us {
            rows.push(("read, SLC mode", read, "µs"));
            rows.push(("program, SLC mode", program, "µs"));
        }
        let efforts = [
            (self.low_cost_us, "read, low cost", "program, low cost"),
            (self.medium_us, "read, medium effort", "program, medium effort"),
        ];
        for (us, read, program) in efforts {
            rows.extend(us.into_iter().flat_map(|us| [(read, us[0], "µs"), (program, us[1], "µs")]));
        }
        if let Some([program, erase]) = self.suspend_us {
            rows.push(("suspend a program", program, "µs"));
            rows.push(("suspend an erase", erase, "µs"));
        }
        rows.push(("channel rate", self.bus_mbps, "MB/s"));
        rows.push(("page", self.page, "bytes"));
        rows.push(("spare area", self.oob, "bytes"));
        rows.push(("pages per block", self.pages_per_block, ""));
        rows.extend(self.blocks_per_die.map(|n| ("blocks per die", n, "")));
        rows.push(("channels", self.channels, ""));
        rows.push(("chips per channel", self.chips, ""));
        rows.push(("dies per chip", self.dies, ""));
        rows.push(("planes per die", self.planes, ""));
        rows.push(("programs per page (NOP)", self.nop, ""));
        rows.extend(self.capacity.map(|n| ("capacity", n, "bytes")));
        rows.push(("spare share", self.spare, "of physical pages"));
        rows.extend(self.endurance.map(|n| ("endurance", n, "erases")));
        rows
    }
}

/// The preset of that name or alias.
pub fn by_name(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|p| p.name == name || p.aliases.contains(&name))
}

/// `asked`, else the preset's. Callers have made sure that one of them exists.
fn count(asked: Option<u32>, base: Option<&Preset>, field: fn(&Preset) -> Number) -> u32 {
    asked.or(base.map(|b| field(b).count())).unwrap_or(0)
}

/// As [`count`], for values with a fraction.
fn real(asked: Option<f64>, base: Option<&Preset>, field: fn(&Preset) -> Number) -> f64 {
    asked.or(base.map(|b| field(b).value)).unwrap_or(0.0)
}

/// `part` of the preset as a share of `whole`; 1 without a preset.
fn share(base: Option<&Preset>, part: fn(&Preset) -> Number, whole: fn(&Preset) -> Number) -> f64 {
    base.map_or(1.0, |b| part(b).value / whole(b).value)
}

fn build(name: &str, base: Option<&Preset>, o: &Overrides) -> Result<Device, DeviceError> {
    let geometry = shape(base, o)?;
    let spare = within("spare", real(o.spare, base, |b| b.spare), 0.01, 0.9)?;
    let capacity = o.capacity.or(base.and_then(|b| b.capacity).map(|n| n.value as u64));
    let (logical_pages, geometry) = size(geometry, capacity, spare)?;
    let endurance = o.endurance.or(base.and_then(|b| b.endurance).map(Number::count));
    if endurance == Some(0) {
        return Err(out_of_range("endurance", 0));
    }
    let paired = o.paired.or(base.map(|b| b.paired.order)).filter(|_| geometry.bits_per_cell > 1);
    if o.paired.is_some_and(|order| order != Pairing::Off) && paired.is_none() {
        return Err(DeviceError {
            key: "paired",
            value: o.paired.unwrap_or_default().name().to_string(),
            what: "but cells of one bit are shared by no pages".to_string(),
            fix: "give paired=off, or cells of more bits, such as cell=mlc".to_string(),
        });
    }
    Ok(Device {
        name: name.to_string(),
        timing: times(base, o, &geometry)?,
        geometry,
        server: o.server.or(base.map(|b| b.server)).unwrap_or(Server::Parallel),
        logical_pages,
        spare,
        endurance,
        features: features(base, o)?,
        barriers: o.barriers.unwrap_or(false),
        paired: paired.unwrap_or_default(),
    })
}

/// Times that one command is suspended at the most, unless it is said.
const MOST_SUSPENDS: u32 = 8;

fn features(base: Option<&Preset>, o: &Overrides) -> Result<Features, DeviceError> {
    let preset = base.and_then(|b| b.suspend_us).map(|us| us.map(|n| n.value));
    let time = |key, asked: Option<f64>, preset: Option<f64>| {
        asked.or(preset).map(|us| within(key, us, 0.0, LONGEST_US).map(ns)).transpose()
    };
    let program_ns = time("suspend_program_us", o.suspend_program_us, preset.map(|us| us[0]))?;
    let erase_ns = time("suspend_erase_us", o.suspend_erase_us, preset.map(|us| us[1]))?;
    let resume_ns = time("resume_us", o.resume_us, None)?;
    let most = o.suspends.unwrap_or(MOST_SUSPENDS);
    if !(1..=1000).contains(&most) {
        return Err(out_of_range("suspends", most));
    }
    let suspend = match (program_ns, erase_ns) {
        (Some(program_ns), Some(erase_ns)) => {
            Some(Suspend { program_ns, erase_ns, resume_ns: resume_ns.unwrap_or(0), most })
        }
        (None, None) if resume_ns.is_none() && o.suspends.is_none() => None,
        (program_ns, _) => {
            let (given, missing) = match program_ns {
                Some(_) => ("suspend_program_us", "suspend_erase_us"),
                None if erase_ns.is_some() => ("suspend_erase_us", "suspend_program_us"),
                None => (
                    if resume_ns.is_some() { "resume_us" } else { "suspends" },
                    "suspend_program_us and suspend_erase_us",
                ),
            };
            return Err(DeviceError {
                key: missing,
                value: "nothing".to_string(),
                what: format!("but {given} is given"),
                fix: "commands can be suspended if both times are known; give both or neither".to_string(),
            });
        }
    };
    Ok(Features {
        suspend,
        multi_plane: o.multi_plane.or(base.map(|b| b.multi_plane)).unwrap_or_default(),
        copy_back: o.copy_back.unwrap_or(false),
        cache_read: o.cache_read.unwrap_or(false),
        cache_program: o.cache_program.unwrap_or(false),
    })
}

/// Everything of the geometry but the number of blocks: one block per die.
fn shape(base: Option<&Preset>, o: &Overrides) -> Result<Geometry, DeviceError> {
    let page_bytes = count(o.page, base, |b| b.page);
    let oob_bytes = o.oob.unwrap_or_else(|| {
        let preset = base.map_or(0.0, |b| b.oob.value / b.page.value);
        ((f64::from(page_bytes) * preset) as u32).max(16)
    });
    let one_block = Geometry {
        channels: count(o.channels, base, |b| b.channels),
        chips: count(o.chips, base, |b| b.chips),
        dies: count(o.dies, base, |b| b.dies),
        planes: count(o.planes, base, |b| b.planes),
        blocks_per_die: 1,
        pages_per_block: count(o.pages_per_block, base, |b| b.pages_per_block),
        page_bytes,
        oob_bytes,
        order: o.order.or(base.map(|b| b.order)).unwrap_or_default(),
        nop: count(o.nop, base, |b| b.nop),
        bits_per_cell: o.cell.or(base.map(|b| b.cell)).map_or(1, CellKind::bits),
        slc_nop: o.slc_nop.unwrap_or(Geometry::default().slc_nop),
        ..Geometry::default()
    };
    let one_block = one_block.checked().map_err(|e| match e.field {
        "physical pages" => DeviceError {
            key: "channels",
            value: one_block.channels.to_string(),
            what: format!(
                "with {} chips and {} dies is more than {} pages at one block per die",
                one_block.chips,
                one_block.dies,
                Geometry::MAX_PAGES
            ),
            fix: "use fewer channels, chips or dies, or smaller blocks".to_string(),
        },
        _ => e.into(),
    })?;
    if !(16..=page_bytes).contains(&oob_bytes) {
        return Err(out_of_range("oob", oob_bytes));
    }
    Ok(one_block)
}

/// Logical pages, and the geometry with as many blocks as they and the spare share need.
fn size(one_block: Geometry, capacity: Option<u64>, spare: f64) -> Result<(u32, Geometry), DeviceError> {
    let page_bytes = u64::from(one_block.page_bytes);
    let Some(capacity) = capacity else {
        return Err(DeviceError {
            key: "capacity",
            value: "nothing".to_string(),
            what: "but this device fixes none".to_string(),
            fix: "give one, such as capacity=8GiB".to_string(),
        });
    };
    if capacity == 0 || !capacity.is_multiple_of(page_bytes) {
        return Err(DeviceError {
            key: "capacity",
            value: format!("{capacity} bytes"),
            what: if capacity == 0 { "is empty".to_string() } else { format!("is not whole pages of {page_bytes}") },
            fix: format!(
                "give a positive multiple of {page_bytes}, such as {}",
                capacity.div_ceil(page_bytes).max(1).saturating_mul(page_bytes)
            ),
        });
    }
    let logical = capacity / page_bytes;
    // The share in billionths, rounded up but for the noise of its binary fraction.
    let kept = BILLION - (spare * BILLION as f64 + 0.9999) as u64;
    // One block on every die: the step in which a device grows.
    let step = u64::from(one_block.page_count());
    let largest = (Geometry::MAX_PAGES / step * step) * kept / BILLION;
    if logical > largest {
        let limit_gib = (largest * page_bytes) as f64 / GIB;
        return Err(DeviceError {
            key: "capacity",
            value: format!("{capacity} bytes"),
            what: format!("needs more than {} physical pages", Geometry::MAX_PAGES),
            fix: format!(
                "at most {:.1} GiB at {page_bytes}-byte pages and {}% spare; \
                 lower it or use larger pages, such as page={}",
                // Shown rounded down, so that the printed limit is itself accepted.
                (limit_gib * 10.0) as u64 as f64 / 10.0,
                (spare * 1e6 + 0.5) as u64 as f64 / 1e4,
                (page_bytes * 4).min(1 << 20),
            ),
        });
    }
    let physical = (logical * BILLION).div_ceil(kept);
    let mut geometry = one_block;
    geometry.blocks_per_die = physical.div_ceil(step) as u32;
    let geometry = geometry.checked()?;
    debug_assert!(u64::from(geometry.page_count()) >= physical);
    Ok((logical as u32, geometry))
}

/// The longest time that a device may be given, µs.
const LONGEST_US: f64 = 1e6;

fn times(base: Option<&Preset>, o: &Overrides, geometry: &Geometry) -> Result<Timing, DeviceError> {
    let read_us = within("read_us", real(o.read_us, base, |b| b.read_us), 0.0, LONGEST_US)?;
    let program_us = within("program_us", real(o.program_us, base, |b| b.program_us), 0.0, LONGEST_US)?;
    let erase_us = within("erase_us", real(o.erase_us, base, |b| b.erase_us), 0.0, LONGEST_US)?;
    let bus_mbps = within("bus_mbps", real(o.bus_mbps, base, |b| b.bus_mbps), 0.0, 1e5)?;
    if bus_mbps > 0.0 && bus_mbps < 0.1 {
        return Err(out_of_range("bus_mbps", bus_mbps));
    }
    let oob_read_us = match o.oob_read_us {
        Some(us) => within("oob_read_us", us, 0.0, read_us)?,
        None => read_us * share(base, |b| b.oob_read_us, |b| b.read_us),
    };
    let partial_program_us = match o.partial_program_us {
        Some(us) => within("partial_program_us", us, 0.0, LONGEST_US)?,
        None => program_us * share(base, |b| b.partial_program_us, |b| b.program_us),
    };
    let [slc_read, slc_program] = base.and_then(|b| b.slc_us).map_or([read_us, program_us], |us| us.map(|n| n.value));
    let slc_read_us = within("slc_read_us", o.slc_read_us.unwrap_or(slc_read), 0.0, LONGEST_US)?;
    let slc_program_us = within("slc_program_us", o.slc_program_us.unwrap_or(slc_program), 0.0, LONGEST_US)?;
    let slc_erase_us = within("slc_erase_us", o.slc_erase_us.unwrap_or(erase_us), 0.0, LONGEST_US)?;
    // Spare areas and partial programs keep their share of the whole page's time.
    let part =
        |part_us: f64, whole_us: f64, slc_us: f64| if whole_us > 0.0 { slc_us * part_us / whole_us } else { slc_us };
    let slc = CellTimes {
        read_ns: ns(slc_read_us),
        oob_read_ns: ns(part(oob_read_us, read_us, slc_read_us)),
        program_ns: ns(slc_program_us),
        partial_program_ns: ns(part(partial_program_us, program_us, slc_program_us)),
        erase_ns: ns(slc_erase_us),
    };
    let page = |key, asked: [Option<f64>; 2], base: Option<[Number; 2]>| {
        let [read, program] = base.map_or([read_us, program_us], |us| us.map(|n| n.value));
        let [read_key, program_key]: [&'static str; 2] = key;
        Ok::<_, DeviceError>(PageTimes {
            read_ns: ns(within(read_key, asked[0].unwrap_or(read), 0.0, LONGEST_US)?),
            program_ns: ns(within(program_key, asked[1].unwrap_or(program), 0.0, LONGEST_US)?),
        })
    };
    let low_cost = page(
        ["low_cost_read_us", "low_cost_program_us"],
        [o.low_cost_read_us, o.low_cost_program_us],
        base.and_then(|b| b.low_cost_us),
    )?;
    let medium = page(
        ["medium_read_us", "medium_program_us"],
        [o.medium_read_us, o.medium_program_us],
        base.and_then(|b| b.medium_us),
    )?;
    // A MB/s is a byte per µs.
    let transfer_ns = |bytes: u32| if bus_mbps > 0.0 { ns(f64::from(bytes) / bus_mbps) } else { 0 };
    Ok(Timing {
        read_ns: ns(read_us),
        oob_read_ns: ns(oob_read_us),
        program_ns: ns(program_us),
        partial_program_ns: ns(partial_program_us),
        erase_ns: ns(erase_us),
        page_transfer_ns: transfer_ns(geometry.page_bytes + geometry.oob_bytes),
        oob_transfer_ns: transfer_ns(geometry.oob_bytes),
        slc,
        low_cost,
        medium,
    })
}

#[cfg(test)]
mod tests;

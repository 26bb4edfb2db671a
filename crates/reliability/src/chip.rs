//! A chip's pages, programmed in a mode, aged and read through a code: what fits beside them, how many bits are wrong,
//! what a read takes, and for how many P/E cycles a code bears it.

use crate::cells::{Age, AgeError, Cells, Mode, PageType};
use crate::code::CodeSpec;
use crate::latency::{CostError, Profile, ReadCost, ReadTiming};
use crate::trial;
use alloc::string::{String, ToString};
use core::fmt;
use flash::device::{CellKind, Device};

/// What a scheme keeps in a page's spare area: kind and marks, address, version, program number, checksum, with room.
pub const METADATA_BYTES: usize = 32;

/// Raw bit error rate beyond which states overlap so far that read levels would have to move.
pub const MOST_RBER: f64 = 0.05;

/// What the model needs to know of a device.
#[derive(Clone, PartialEq, Debug)]
pub struct Chip {
    /// The device's name.
    pub name: String,
    /// P/E cycles of the end of life.
    pub endurance: u32,
    /// Spare bytes of a page.
    pub spare_bytes: usize,
    /// The chip's part of a read.
    pub timing: ReadTiming,
}

/// A code whose parity fits into the spare area.
#[derive(Clone, Debug)]
pub struct Fitted {
    /// The code.
    pub spec: CodeSpec,
    /// Bytes of parity of a frame.
    pub parity_bytes: usize,
    /// What reads cost.
    pub cost: ReadCost,
}

/// For how many P/E cycles, counted from a new chip, a code bears pages. More cycles are greater.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Borne {
    /// For so many, and not for one more.
    UpTo(u32),
    /// For so many at least: there the model ends.
    AtLeast(u32),
}

impl Borne {
    /// The cycles that are known to be borne.
    pub const fn cycles(self) -> u32 {
        match self {
            Borne::UpTo(cycles) | Borne::AtLeast(cycles) => cycles,
        }
    }
}

/// Raw bit error rates of a row of cells.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rber {
    /// Of the page of the lower bits.
    pub lsb: f64,
    /// Of the page of the upper bits.
    pub msb: f64,
    /// Of both.
    pub mean: f64,
}

/// Why there is no answer.
#[derive(Clone, PartialEq, Debug)]
pub enum ChipError {
    /// The model knows cells of two bits.
    Cells {
        /// The device.
        device: String,
        /// What it has.
        kind: CellKind,
    },
    /// The device does not say how many erases a block endures.
    Endurance {
        /// The device.
        device: String,
    },
    /// There is no such code, or nobody knows what its reads cost.
    Code(CostError),
    /// The parity does not fit.
    Spare {
        /// The device.
        device: String,
        /// The code.
        spec: CodeSpec,
        /// Frames of a page.
        frames: usize,
        /// Bytes of parity of a frame.
        parity_bytes: usize,
        /// Spare bytes of a page.
        spare_bytes: usize,
    },
    /// An age of which the model says nothing.
    Age(AgeError),
    /// More wrong bits than the model is good for.
    Rber(Rber),
}

impl fmt::Display for ChipError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChipError::Cells { device, kind } => write!(
                f,
                "{device} has {} cells; the model knows MLC cells, of two bits: take an MLC device, such as \
                 mlc-mt29f64g08cbaaa (ftlab devices lists them)",
                kind.name()
            ),
            ChipError::Endurance { device } => write!(
                f,
                "{device} does not say how many erases a block endures: add it, as in --device {device}:endurance=3000"
            ),
            ChipError::Code(error) => write!(f, "{error}"),
            ChipError::Spare { device, spec, frames, parity_bytes, spare_bytes } => {
                let needed = frames * parity_bytes + METADATA_BYTES;
                let room = spare_bytes.saturating_sub(METADATA_BYTES) / frames;
                write!(
                    f,
                    "{frames} frames x {parity_bytes} bytes of parity + {METADATA_BYTES} of metadata = {needed} bytes, \
                     more than the {spare_bytes} spare bytes of a page of {device}: take a code with at most {room} \
                     bytes of parity for {} of data, or a device with more (--device {device}:oob={needed})",
                    spec.data_bytes()
                )
            }
            ChipError::Age(error) => write!(f, "{error}"),
            ChipError::Rber(Rber { lsb, msb, mean }) => write!(
                f,
                "the raw bit error rate is ({lsb:.4} LSB + {msb:.4} MSB) / 2 = {mean:.4}, beyond the model's \
                 {MOST_RBER}: take fewer cycles, a shorter time or fewer reads"
            ),
        }
    }
}

impl core::error::Error for ChipError {}

impl Chip {
    /// The chip of a device.
    ///
    /// # Errors
    /// Its cells do not hold two bits, or its endurance is unknown.
    pub fn of(device: &Device) -> Result<Chip, ChipError> {
        let (geometry, name) = (&device.geometry, device.name.to_string());
        if geometry.bits_per_cell != CellKind::Mlc.bits() {
            let kind = CellKind::ALL[geometry.bits_per_cell as usize - 1];
            return Err(ChipError::Cells { device: name, kind });
        }
        let Some(endurance) = device.endurance else { return Err(ChipError::Endurance { device: name }) };
        let timing = ReadTiming {
            read_ns: device.timing.read_ns,
            transfer_ns: device.timing.page_transfer_ns,
            page_bytes: geometry.page_bytes as usize,
        };
        Ok(Chip { name, endurance, spare_bytes: geometry.oob_bytes as usize, timing })
    }

    /// A code, if its parity fits into the spare area beside the metadata.
    ///
    /// # Errors
    /// No such code, no known cost of its reads, or the sum that shows what does not fit.
    pub fn fit(&self, profile: Profile, spec: CodeSpec) -> Result<Fitted, ChipError> {
        let code = spec.build().map_err(|error| ChipError::Code(CostError::Code(error)))?;
        let parity_bytes = code.parity_bytes();
        // A frame longer than a page fits no spare area of any size.
        let cost = ReadCost::new(profile, self.timing, spec).map_err(ChipError::Code)?;
        let frames = cost.frames() as usize;
        if frames * parity_bytes + METADATA_BYTES > self.spare_bytes {
            return Err(ChipError::Spare {
                device: self.name.clone(),
                spec,
                frames,
                parity_bytes,
                spare_bytes: self.spare_bytes,
            });
        }
        Ok(Fitted { spec, parity_bytes, cost })
    }

    /// The usual BCH code.
    ///
    /// # Errors
    /// It does not fit.
    pub fn bch(&self, profile: Profile) -> Result<Fitted, ChipError> {
        self.fit(profile, trial::CODES[0])
    }

    /// The strongest LDPC code that was tried and fits.
    ///
    /// # Errors
    /// Not even the weakest fits.
    pub fn ldpc(&self, profile: Profile) -> Result<Fitted, ChipError> {
        // Weakest first.
        let mut tried = trial::CODES.into_iter().filter(|spec| spec.family() == "ldpc");
        let weakest = self.fit(profile, tried.next().expect("LDPC codes were tried"))?;
        Ok(tried.rev().find_map(|spec| self.fit(profile, spec).ok()).unwrap_or(weakest))
    }

    /// How many bits are wrong in pages of a mode at an age.
    ///
    /// # Errors
    /// The model does not reach so far.
    pub fn rber(&self, mode: Mode, age: &Age) -> Result<Rber, ChipError> {
        age.check().map_err(ChipError::Age)?;
        let cells = Cells::new(mode, age);
        let [lsb, msb] = PageType::ALL.map(|page| cells.page_rber(page));
        let rber = Rber { lsb, msb, mean: cells.rber() };
        if rber.mean > MOST_RBER { Err(ChipError::Rber(rber)) } else { Ok(rber) }
    }

    /// P/E cycles for which a code bears pages of a mode that are kept for a time and not read meanwhile; `None` if not
    /// even a new chip's.
    pub fn borne_cycles(&self, mode: Mode, code: &Fitted, retention_h: f64) -> Option<Borne> {
        let limit = code.cost.limit();
        let borne = |pe_cycles: u32| {
            let age = Age { pe_cycles, endurance: self.endurance, retention_h, reads: 0 };
            Cells::new(mode, &age).rber() <= limit
        };
        // The error rate grows with the cycles.
        let most = Age::MOST_LIVES.saturating_mul(self.endurance);
        if borne(most) {
            return Some(Borne::AtLeast(most));
        }
        let (mut low, mut high) = (0, most);
        if !borne(low) {
            return None;
        }
        while low < high {
            let middle = high - (high - low) / 2;
            if borne(middle) {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        Some(Borne::UpTo(low))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flash::device::{Overrides, by_name};

    fn chip(preset: &str, overrides: Overrides) -> Result<Chip, ChipError> {
        let overrides = Overrides { capacity: Some(1 << 30), ..overrides };
        Chip::of(&by_name(preset).unwrap().build(&overrides).unwrap())
    }

    #[test]
    fn what_a_chip_can_have_follows_from_its_spare_area() {
        let l74a = chip("mlc-mt29f64g08cbaaa", Overrides::default()).unwrap();
        assert_eq!(l74a.bch(Profile::Derived).unwrap().parity_bytes, 42);
        assert_eq!(l74a.ldpc(Profile::Derived).unwrap().parity_bytes, 192);
        let roomy = chip("mlc-mt29f64g08cbaaa", Overrides { oob: Some(744), ..Overrides::default() }).unwrap();
        assert_eq!(roomy.ldpc(Profile::Derived).unwrap().parity_bytes, 352);
        let narrow = chip("mlc-mt29f64g08cbaaa", Overrides { oob: Some(400), ..Overrides::default() }).unwrap();
        let refused = narrow.ldpc(Profile::Derived).unwrap_err().to_string();
        assert!(refused.starts_with("2 frames x 192 bytes of parity + 32 of metadata = 416 bytes, more"), "{refused}");
        let small = chip("mlc-mt29f64g08cbaaa", Overrides { page: Some(2048), ..Overrides::default() }).unwrap();
        let refused = small.ldpc(Profile::Derived).unwrap_err().to_string();
        assert!(refused.starts_with("frames of 4096 bytes do not fill a page of 2048"), "{refused}");
    }

    #[test]
    fn other_cells_and_unknown_endurance_are_refused() {
        let refused = |preset| chip(preset, Overrides::default()).unwrap_err().to_string();
        assert!(refused("agrawal08").starts_with("agrawal08 has SLC cells"));
        let silent = by_name("mlc-mt29f64g08cbaaa")
            .unwrap()
            .build(&Overrides { capacity: Some(1 << 30), ..Overrides::default() });
        let silent = Device { endurance: None, ..silent.unwrap() };
        assert!(Chip::of(&silent).unwrap_err().to_string().contains(":endurance=3000"));
    }

    #[test]
    fn cycles_are_borne_up_to_the_limit_and_not_beyond() {
        let chip = chip("mlc-mt29f64g08cbabx", Overrides::default()).unwrap();
        let (bch, ldpc) = (chip.bch(Profile::Derived).unwrap(), chip.ldpc(Profile::Derived).unwrap());
        for (mode, code, hours) in [(Mode::Normal, &bch, 8760.0), (Mode::LowCost, &ldpc, 8760.0)] {
            let Some(Borne::UpTo(cycles)) = chip.borne_cycles(mode, code, hours) else { panic!("{mode:?} has an end") };
            let at = |pe_cycles| Age { pe_cycles, endurance: chip.endurance, retention_h: hours, reads: 0 };
            let read = |cycles| code.cost.latency_ns(mode, chip.rber(mode, &at(cycles)).unwrap().mean);
            assert!(read(cycles).is_some() && read(cycles + 1).is_none(), "{mode:?} {cycles}");
        }
        assert_eq!(
            chip.borne_cycles(Mode::LowCost, &bch, 0.0),
            None,
            "twice the step is beyond BCH from the first day"
        );
    }

    /// What broke: the last cycle of the model was told as the last that the code bears.
    #[test]
    fn where_the_model_ends_a_code_bears_at_least_so_much() {
        let chip = chip("mlc-mt29f64g08cbabx", Overrides::default()).unwrap();
        let ldpc = chip.ldpc(Profile::Derived).unwrap();
        let most = Age::MOST_LIVES * chip.endurance;
        assert_eq!(chip.borne_cycles(Mode::LowCost, &ldpc, 0.0), Some(Borne::AtLeast(most)));
        let year = chip.borne_cycles(Mode::LowCost, &ldpc, 8760.0).unwrap();
        assert!(year < Borne::AtLeast(most) && year.cycles() < most, "{year:?}");
    }
}

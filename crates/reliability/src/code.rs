//! What the codes have in common: one interface, and what can go wrong.
//!
//! A code protects a whole number of bytes, its *frame*; a page holds several frames and the parities of all of them in
//! its spare area. [`CodeSpec`] names a code on a command line and in a report; [`Code`] is the code itself, with its
//! tables, made once and shared.

use crate::bch::Bch;
use crate::ldpc::Ldpc;
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

/// A frame that was corrected, or had no error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Corrected {
    /// Wrong bits of data and parity.
    pub bits: u32,
    /// Iterations of an iterative decoder; 0 where the parity was right, and of codes that do not iterate.
    pub iterations: u32,
}

/// A frame that the code cannot correct; it was left as it was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Uncorrectable {
    /// Iterations that an iterative decoder spent.
    pub iterations: u32,
}

impl fmt::Display for Uncorrectable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("more bits are wrong than the code corrects")
    }
}

impl core::error::Error for Uncorrectable {}

/// Why there is no such code.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CodeError {
    /// No data, or nothing to correct.
    Empty,
    /// No field of this degree.
    NoField {
        /// m of GF(2^m).
        degree: u32,
    },
    /// t is too high.
    TooStrong {
        /// t asked for.
        correctable: usize,
        /// The highest that can be had.
        most: usize,
    },
    /// Data and parity are longer than the codewords of the field.
    TooLong {
        /// Bits of data.
        data_bits: usize,
        /// Bits of parity.
        parity_bits: usize,
        /// Bits that a codeword may have.
        most_bits: usize,
    },
    /// Parity that is not whole circulants.
    Granularity {
        /// Bytes of data.
        data_bytes: usize,
        /// Bytes of parity asked for.
        parity_bytes: usize,
        /// Bytes of parity are a multiple of it.
        granule: usize,
    },
    /// A rate at which no code is made.
    Rate {
        /// Bytes of data.
        data_bytes: usize,
        /// Bytes of parity asked for.
        parity_bytes: usize,
        /// Fewest bytes of parity that may work.
        least: usize,
        /// Most bytes of parity.
        most: usize,
    },
    /// Data that are not whole circulants.
    Shape {
        /// Bytes of data asked for.
        data_bytes: usize,
        /// Bytes of data are a multiple of it.
        granule: usize,
    },
}

impl fmt::Display for CodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CodeError::Empty => f.write_str("a code needs data to protect and errors to correct: both are at least 1"),
            CodeError::NoField { degree } => write!(f, "GF(2^{degree}) is not supported: m is 3 to 15"),
            CodeError::TooStrong { correctable, most } => {
                write!(f, "t = {correctable} is too many errors: at most {most} here")
            }
            CodeError::TooLong { data_bits, parity_bits, most_bits } => write!(
                f,
                "{data_bits} bits of data and {parity_bits} of parity are {} bits, more than the {most_bits} of a \
                 codeword: protect less data in a frame or correct fewer errors",
                data_bits + parity_bits
            ),
            CodeError::Granularity { data_bytes, parity_bytes, granule } => {
                let below = parity_bytes / granule * granule;
                write!(
                    f,
                    "an LDPC code over {data_bytes} bytes has a multiple of {granule} bytes of parity, not \
                     {parity_bytes}: take "
                )?;
                if below > 0 {
                    write!(f, "{below} or ")?;
                }
                write!(f, "{}", below + granule)
            }
            CodeError::Rate { data_bytes, parity_bytes, least, most } => write!(
                f,
                "{parity_bytes} bytes of parity over {data_bytes} are a rate of {:.3}, which no LDPC code here has: \
                 take {least} to {most} bytes",
                *data_bytes as f64 / (data_bytes + parity_bytes) as f64
            ),
            CodeError::Shape { data_bytes, granule } => write!(
                f,
                "an LDPC frame of {data_bytes} bytes is no whole number of circulants: take a multiple of {granule} \
                 bytes, such as {}",
                data_bytes.next_multiple_of(*granule)
            ),
        }
    }
}

impl core::error::Error for CodeError {}

/// Which code: what stands on a command line, in a report and in the table of trials.
///
/// As text `bch:t=24,data=1024` or `ldpc:parity=192,data=4096`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum CodeSpec {
    /// A BCH code.
    Bch {
        /// Bytes of data in a frame.
        data_bytes: usize,
        /// t, errors that it corrects in a frame.
        correctable: usize,
    },
    /// An LDPC code.
    Ldpc {
        /// Bytes of data in a frame.
        data_bytes: usize,
        /// Bytes of parity of a frame.
        parity_bytes: usize,
    },
}

impl CodeSpec {
    /// The code with its tables.
    ///
    /// # Errors
    /// There is no such code.
    pub fn build(self) -> Result<Code, CodeError> {
        match self {
            CodeSpec::Bch { data_bytes, correctable } => Bch::new(data_bytes, correctable).map(Code::Bch),
            CodeSpec::Ldpc { data_bytes, parity_bytes } => Ldpc::new(data_bytes, parity_bytes).map(Code::Ldpc),
        }
    }

    /// The family: `bch` or `ldpc`.
    pub const fn family(self) -> &'static str {
        match self {
            CodeSpec::Bch { .. } => "bch",
            CodeSpec::Ldpc { .. } => "ldpc",
        }
    }

    /// Bytes of data in a frame.
    pub const fn data_bytes(self) -> usize {
        match self {
            CodeSpec::Bch { data_bytes, .. } | CodeSpec::Ldpc { data_bytes, .. } => data_bytes,
        }
    }

    /// What the family counts strength in: t of a BCH code, bytes of parity of an LDPC code.
    pub const fn strength(self) -> usize {
        match self {
            CodeSpec::Bch { correctable, .. } => correctable,
            CodeSpec::Ldpc { parity_bytes, .. } => parity_bytes,
        }
    }

    /// From its parts, as the table of trials has them.
    pub fn from_parts(family: &str, data_bytes: usize, strength: usize) -> Option<CodeSpec> {
        match family {
            "bch" => Some(CodeSpec::Bch { data_bytes, correctable: strength }),
            "ldpc" => Some(CodeSpec::Ldpc { data_bytes, parity_bytes: strength }),
            _ => None,
        }
    }
}

impl fmt::Display for CodeSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CodeSpec::Bch { data_bytes, correctable } => write!(f, "bch:t={correctable},data={data_bytes}"),
            CodeSpec::Ldpc { data_bytes, parity_bytes } => write!(f, "ldpc:parity={parity_bytes},data={data_bytes}"),
        }
    }
}

impl core::str::FromStr for CodeSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<CodeSpec, String> {
        const FORMS: &str = "write bch:t=24,data=1024 or ldpc:parity=192,data=4096";
        let (family, keys) = text.split_once(':').unwrap_or((text, ""));
        let strength_key = match family {
            "bch" => "t",
            "ldpc" => "parity",
            _ => return Err(format!("unknown code \"{family}\"; {FORMS}")),
        };
        let (mut data_bytes, mut strength) = (None, None);
        for pair in keys.split(',').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').ok_or_else(|| format!("\"{pair}\" is no key=value; {FORMS}"))?;
            let slot = match key {
                "data" => &mut data_bytes,
                _ if key == strength_key => &mut strength,
                _ => return Err(format!("{family} has no key \"{key}\"; {FORMS}")),
            };
            let number: u32 = value.parse().map_err(|_| format!("{key}={value} is no whole number; {FORMS}"))?;
            *slot = Some(number as usize);
        }
        let (Some(data_bytes), Some(strength)) = (data_bytes, strength) else {
            return Err(format!("{family} needs {strength_key}= and data=; {FORMS}"));
        };
        CodeSpec::from_parts(family, data_bytes, strength).ok_or_else(|| FORMS.to_owned())
    }
}

/// A code with its tables.
#[derive(Clone, Debug)]
pub enum Code {
    /// Bose, Ray-Chaudhuri and Hocquenghem.
    Bch(Bch),
    /// Quasi-cyclic low-density parity checks.
    Ldpc(Ldpc),
}

impl Code {
    /// Bytes of data in a frame.
    pub fn data_bytes(&self) -> usize {
        match self {
            Code::Bch(code) => code.data_bytes(),
            Code::Ldpc(code) => code.data_bytes(),
        }
    }

    /// Bytes of parity of a frame.
    pub fn parity_bytes(&self) -> usize {
        match self {
            Code::Bch(code) => code.parity_bytes(),
            Code::Ldpc(code) => code.parity_bytes(),
        }
    }

    /// The parity of `data`.
    ///
    /// # Panics
    /// If the length is not that of a frame.
    pub fn encode(&self, data: &[u8]) -> Vec<u8> {
        let mut parity = vec![0; self.parity_bytes()];
        self.encode_into(data, &mut parity);
        parity
    }

    /// Writes the parity of `data`.
    ///
    /// # Panics
    /// If a length is not that of a frame.
    pub fn encode_into(&self, data: &[u8], parity: &mut [u8]) {
        match self {
            Code::Bch(code) => code.encode(data, parity),
            Code::Ldpc(code) => code.encode(data, parity),
        }
    }

    /// Corrects `data` and `parity` in place, from bits as they were read.
    ///
    /// # Errors
    /// The code cannot correct them; they are left as they were.
    ///
    /// # Panics
    /// If a length is not that of a frame.
    pub fn decode(&self, data: &mut [u8], parity: &mut [u8]) -> Result<Corrected, Uncorrectable> {
        match self {
            Code::Bch(code) => code.decode(data, parity),
            Code::Ldpc(code) => code.decode(data, parity),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn names_read_back_and_slips_are_explained() {
        for text in ["bch:t=24,data=1024", "ldpc:parity=192,data=4096"] {
            let spec: CodeSpec = text.parse().unwrap();
            assert_eq!(spec.to_string(), text);
            assert_eq!(CodeSpec::from_parts(spec.family(), spec.data_bytes(), spec.strength()), Some(spec));
            let code = spec.build().unwrap();
            assert_eq!(code.data_bytes(), spec.data_bytes());
        }
        let forms = "write bch:t=24,data=1024 or ldpc:parity=192,data=4096";
        for (text, told) in [
            ("rs:t=4", "unknown code \"rs\"; "),
            ("bch:t=4", "bch needs t= and data=; "),
            ("bch:t=4,data=x", "data=x is no whole number; "),
            ("ldpc:t=4,data=1", "ldpc has no key \"t\"; "),
            ("ldpc:4", "\"4\" is no key=value; "),
        ] {
            assert_eq!(text.parse::<CodeSpec>().unwrap_err(), format!("{told}{forms}"));
        }
    }

    #[test]
    fn both_families_answer_through_one_interface() {
        for text in ["bch:t=4,data=512", "ldpc:parity=64,data=512"] {
            let code = text.parse::<CodeSpec>().unwrap().build().unwrap();
            let data = vec![0x5a; code.data_bytes()];
            let mut parity = code.encode(&data);
            let mut read = data.clone();
            read[7] ^= 0x10;
            parity[1] ^= 0x02;
            let corrected = code.decode(&mut read, &mut parity).unwrap();
            assert_eq!((corrected.bits, read, parity), (2, data.clone(), code.encode(&data)));
        }
    }
}

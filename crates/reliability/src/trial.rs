//! Decoders tried on pages of known error rates.
//!
//! How often an LDPC decoder fails, and after how many iterations it is done, no formula tells. Here random data are
//! encoded, read through the cells of [`crate::cells`] whose error rate is asked for, and decoded. A trial is a code,
//! an error rate and a number of sensing levels; its randomness is its own, forked from the seed by its name, so that a
//! single row of the table can be made again.
//!
//! `crates/reliability/data/latencies.csv` holds the trials that read latencies are derived from; `ftlab reliability
//! --derive-latencies FILE` runs them all again. Cells are those of low-cost programs with equal tails, read as the
//! page of the lower bits; the other page has two boundaries of the same kind.

use crate::cells::{Cells, Mode, PageType};
use crate::code::{Code, CodeSpec};
use crate::sensing::{LEVELS, Sensing};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use flash::Rng;

/// Seed of the table that is kept.
pub const SEED: u64 = 1;

/// Frames of each trial of the table.
pub const FRAMES: u32 = 1000;

/// Codes that are tried: one BCH code, and LDPC codes for spare areas of growing size (rates 0.955 to 0.889).
pub const CODES: [CodeSpec; 5] = [
    CodeSpec::Bch { data_bytes: 1024, correctable: 24 },
    CodeSpec::Ldpc { data_bytes: 4096, parity_bytes: 192 },
    CodeSpec::Ldpc { data_bytes: 4096, parity_bytes: 256 },
    CodeSpec::Ldpc { data_bytes: 4096, parity_bytes: 352 },
    CodeSpec::Ldpc { data_bytes: 4096, parity_bytes: 512 },
];

/// Raw bit error rates that are tried.
pub const RBERS: [f64; 12] = [2.5e-4, 5e-4, 1e-3, 1.5e-3, 2e-3, 3e-3, 4e-3, 6e-3, 8e-3, 1e-2, 1.25e-2, 1.5e-2];

/// The first line of the table.
pub const HEADER: &str = "code,data_bytes,strength,rber,levels,frames,failed,iterations,corrected_bits";

/// The table that is kept.
const TABLE: &str = include_str!("../data/latencies.csv");

/// What came of the frames of a trial.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Trial {
    /// The code.
    pub code: CodeSpec,
    /// Raw bit error rate.
    pub rber: f64,
    /// Sensing levels at the boundary; 1 is a hard read.
    pub levels: u32,
    /// Frames read.
    pub frames: u32,
    /// Frames that could not be corrected.
    pub failed: u32,
    /// Iterations over all frames, those that failed too.
    pub iterations: u64,
    /// Wrong bits of the frames that were corrected.
    pub corrected_bits: u64,
}

impl Trial {
    /// Share of frames that failed.
    pub fn failure_rate(&self) -> f64 {
        f64::from(self.failed) / f64::from(self.frames)
    }

    /// Iterations of a frame on average.
    pub fn mean_iterations(&self) -> f64 {
        self.iterations as f64 / f64::from(self.frames)
    }

    /// The row of the table.
    pub fn row(&self) -> String {
        let Trial { code, rber, levels, frames, failed, iterations, corrected_bits } = self;
        let (family, data_bytes, strength) = (code.family(), code.data_bytes(), code.strength());
        format!("{family},{data_bytes},{strength},{rber:e},{levels},{frames},{failed},{iterations},{corrected_bits}")
    }

    fn parse(row: &str) -> Option<Trial> {
        let mut fields = row.split(',');
        let mut next = || fields.next();
        let trial = Trial {
            code: CodeSpec::from_parts(next()?, next()?.parse().ok()?, next()?.parse().ok()?)?,
            rber: next()?.parse().ok()?,
            levels: next()?.parse().ok()?,
            frames: next()?.parse().ok()?,
            failed: next()?.parse().ok()?,
            iterations: next()?.parse().ok()?,
            corrected_bits: next()?.parse().ok()?,
        };
        (next().is_none() && trial.frames > 0).then_some(trial)
    }
}

/// The trials of the table that is kept, in its order.
///
/// # Panics
/// If the table is damaged, which a test would have found.
pub fn kept() -> Vec<Trial> {
    let mut rows = TABLE.lines();
    assert_eq!(rows.next(), Some(HEADER), "the table of trials has another form");
    rows.map(|row| Trial::parse(row).unwrap_or_else(|| panic!("not a trial: {row}"))).collect()
}

/// The trials that make the table: of BCH codes hard reads alone, of the others each number of levels.
pub fn plan() -> Vec<(CodeSpec, f64, u32)> {
    let mut plan = Vec::new();
    for code in CODES {
        let levels: &[u32] = if code.family() == "bch" { &LEVELS[..1] } else { &LEVELS };
        for rber in RBERS {
            plan.extend(levels.iter().map(|&levels| (code, rber, levels)));
        }
    }
    plan
}

/// Reads and decodes `frames` frames.
///
/// # Panics
/// If there is no such code, or no cells with this error rate.
pub fn run(spec: CodeSpec, rber: f64, levels: u32, frames: u32, seed: u64) -> Trial {
    let code = spec.build().unwrap_or_else(|error| panic!("{spec}: {error}"));
    let cells =
        Cells::with_rber(Mode::LowCost, rber).unwrap_or_else(|| panic!("no cells have an error rate of {rber:e}"));
    let sensing = Sensing::new(&cells, PageType::Lsb, levels);
    let mut rng = Rng::new(seed).fork(&format!("{spec} {rber:e} {levels}"));
    let mut trial = Trial { code: spec, rber, levels, frames, failed: 0, iterations: 0, corrected_bits: 0 };
    let (mut data, mut parity) = (vec![0; code.data_bytes()], vec![0; code.parity_bytes()]);
    for _ in 0..frames {
        data.fill_with(|| rng.bits() as u8);
        code.encode_into(&data, &mut parity);
        let (written, written_parity) = (data.clone(), parity.clone());
        let ratios = sensing.sample(bits(&data).chain(bits(&parity)), &mut rng);
        let outcome = match &code {
            Code::Ldpc(code) if levels > 1 => code.decode_soft(&ratios, &mut data, &mut parity),
            _ => {
                let count = 8 * data.len();
                write(&ratios[..count], &mut data);
                write(&ratios[count..], &mut parity);
                code.decode(&mut data, &mut parity)
            }
        };
        match outcome {
            Ok(corrected) if data == written && parity == written_parity => {
                trial.iterations += u64::from(corrected.iterations);
                trial.corrected_bits += u64::from(corrected.bits);
            }
            // A wrong codeword is as bad as none, and worse in that nobody knows.
            Ok(corrected) => {
                trial.failed += 1;
                trial.iterations += u64::from(corrected.iterations);
            }
            Err(given_up) => {
                trial.failed += 1;
                trial.iterations += u64::from(given_up.iterations);
            }
        }
    }
    trial
}

/// Bits in the order of LDPC codes, from the lowest of each byte; to independent errors the order of a BCH code's is
/// the same.
fn bits(bytes: &[u8]) -> impl Iterator<Item = bool> {
    bytes.iter().flat_map(|byte| (0..8).map(move |bit| byte >> bit & 1 == 1))
}

/// Bits as a hard read finds them.
fn write(ratios: &[i16], bytes: &mut [u8]) {
    for (byte, ratios) in bytes.iter_mut().zip(ratios.chunks(8)) {
        *byte = ratios.iter().rev().fold(0, |byte, &ratio| byte << 1 | u8::from(ratio < 0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binomial::frame_error_rate;

    #[test]
    fn the_table_holds_the_plan() {
        let kept = kept();
        let shapes: Vec<_> = kept.iter().map(|trial| (trial.code, trial.rber, trial.levels)).collect();
        assert_eq!(shapes, plan());
        assert!(kept.iter().all(|trial| trial.frames == FRAMES && trial.failed <= trial.frames));
    }

    /// Rows of each family come out of the decoders of today exactly as they stand in the table.
    #[test]
    fn rows_are_made_again_exactly() {
        let wanted = [(CODES[0], 5e-4, 1), (CODES[0], 3e-3, 1), (CODES[1], 5e-4, 1), (CODES[4], 6e-3, 3)];
        let kept = kept();
        for (code, rber, levels) in wanted {
            let row = kept.iter().find(|trial| (trial.code, trial.rber, trial.levels) == (code, rber, levels)).unwrap();
            assert_eq!(run(code, rber, levels, FRAMES, SEED), *row);
        }
    }

    /// Failures of a BCH code by trial are as many as the binomial tail says, within five deviations of their count.
    #[test]
    fn failures_agree_with_the_binomial_tail() {
        for (correctable, rber) in [(4, 6e-4), (8, 1.2e-3), (8, 2e-3), (24, 3.5e-3)] {
            let spec = CodeSpec::Bch { data_bytes: 512, correctable };
            let bits = 8 * 512 + 13 * correctable;
            let expected = frame_error_rate(bits, correctable, rber);
            let trial = run(spec, rber, 1, 4000, 7);
            let count = f64::from(trial.frames) * expected;
            let tolerance = 5.0 * libm::sqrt(count * (1.0 - expected));
            assert!(count > 20.0, "a trial that shows something: {count}");
            assert!((f64::from(trial.failed) - count).abs() < tolerance, "{spec} {rber}: {} {count}", trial.failed);
        }
    }
}

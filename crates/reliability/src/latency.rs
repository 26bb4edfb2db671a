//! What a read costs under a code, at an error rate.
//!
//! Two profiles. `paper` has the constants of the differentiated-ECC paper: a read takes 75 µs under BCH and 140 µs
//! under LDPC, whatever is on the page. Pages of medium effort, of which the paper gives no times, are half way between
//! the two. `derived` puts a read together from the chip's times and what decoders did in trials ([`crate::trial`]):
//!
//! ```text
//! read = sensing + transfer + decoding of the last frame    (the others are decoded while the next is transferred)
//!   sensing    page read, and a sixth of it for each further level
//!   transfer   page and spare area, for each bit that names the region of a cell: 1, 2, 3, 3 for 1, 3, 5, 7 levels
//!   decoding   BCH: 2t cycles for the locator, a cycle for each 16 bits for its roots
//!              LDPC: iterations × blocks of the matrix, a block a cycle
//! ```
//!
//! An LDPC page that fails is sensed at more levels, where it pays only for what is added; the read begins with the
//! number of levels by which it takes least on average, which a controller knows from the last read of the block
//! (LaLDPC, Du et al., MSST 2017). Error rates between two of the table's count as the higher.

use crate::binomial;
use crate::cells::{Constant, Mode};
use crate::code::{CodeError, CodeSpec};
use crate::trial::{self, Trial};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::fmt;
use flash::device::{Number, Origin};

/// Uncorrectable bit error rate that a code may have: the requirement of JEDEC JESD218 on client drives.
pub const UBER: f64 = 1e-15;

/// Raw bit error rate that the paper's LDPC code bears.
const PAPER_LDPC_LIMIT: f64 = 1e-2;

const fn assumed(name: &'static str, unit: &'static str, value: f64, why: &'static str) -> Constant {
    Constant { name, unit, number: Number { value, origin: Origin::Assumed, why } }
}

const CLOCK: Constant = assumed("decoder clock", "MHz", 400.0, "usual for controllers of 40 nm");
const CHIEN_BITS: Constant =
    assumed("bits a BCH decoder searches in a cycle", "", 16.0, "a small decoder; twice as many hardly show");
const LEVEL_SHARE: Constant = assumed(
    "share of a page read that a further sensing level takes",
    "",
    1.0 / 6.0,
    "with it a read at three levels adds about the 65 µs that the paper's LDPC read takes more than its BCH read",
);

/// Constants of the derived profile with their sources.
pub const CONSTANTS: &[Constant] = &[CLOCK, CHIEN_BITS, LEVEL_SHARE];

/// Where read latencies come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Profile {
    /// The constants of the differentiated-ECC paper.
    Paper,
    /// The chip's times, and trials of the decoders.
    Derived,
}

impl Profile {
    /// Every profile.
    pub const ALL: [Profile; 2] = [Profile::Paper, Profile::Derived];

    /// Program time of a page where the chip's is `normal_ns`: by pulses, or the paper's 1300 and 650 µs.
    pub fn program_ns(self, mode: Mode, normal_ns: u64) -> u64 {
        match (self, mode) {
            (Profile::Derived, mode) => mode.program_ns(normal_ns),
            (Profile::Paper, Mode::Normal) => 1_300_000,
            (Profile::Paper, Mode::LowCost) => 650_000,
            // The paper has no third mode; program time is inverse to the step.
            (Profile::Paper, Mode::Medium) => 866_667,
        }
    }

    /// The word used on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Profile::Paper => "paper",
            Profile::Derived => "derived",
        }
    }
}

/// The chip's part of a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadTiming {
    /// Cell time of a page read at one level, ns.
    pub read_ns: u64,
    /// Transfer of a page with its spare area, ns.
    pub transfer_ns: u64,
    /// Data bytes of a page.
    pub page_bytes: usize,
}

/// The parts of a read, ns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadParts {
    /// In the die.
    pub sense_ns: u64,
    /// On the channel.
    pub transfer_ns: u64,
    /// In the decoder, as far as it follows the transfer.
    pub decode_ns: u64,
    /// Sensing levels that the read begins with.
    pub levels: u32,
}

impl ReadParts {
    /// From command to data.
    pub const fn latency_ns(&self) -> u64 {
        self.sense_ns + self.transfer_ns + self.decode_ns
    }
}

/// A frame error rate, as well as it is known.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum FrameErrors {
    /// Computed, or counted in trials.
    Rate(f64),
    /// No trial failed: with 95 % confidence not more than this, three over the number of trials.
    AtMost(f64),
}

impl FrameErrors {
    /// The rate, or its bound.
    pub const fn value(self) -> f64 {
        match self {
            FrameErrors::Rate(rate) | FrameErrors::AtMost(rate) => rate,
        }
    }
}

/// Why there is no read cost for a code.
#[derive(Clone, PartialEq, Debug)]
pub enum CostError {
    /// There is no such code.
    Code(CodeError),
    /// Frames do not fill the page.
    Frames {
        /// Bytes of data in a frame.
        data_bytes: usize,
        /// Bytes of data in a page.
        page_bytes: usize,
    },
    /// An LDPC code that was not tried.
    Untried(CodeSpec),
}

impl fmt::Display for CostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CostError::Code(error) => write!(f, "{error}"),
            CostError::Frames { data_bytes, page_bytes } => write!(
                f,
                "frames of {data_bytes} bytes do not fill a page of {page_bytes}: {} and {} bytes over; take a length \
                 that divides the page",
                page_bytes / (*data_bytes).max(1),
                page_bytes % (*data_bytes).max(1)
            ),
            CostError::Untried(spec) => {
                write!(f, "{spec} was not tried, so nobody knows how often it fails; tried were")?;
                let tried = trial::CODES.iter().filter(|code| code.family() == "ldpc");
                tried.enumerate().try_for_each(|(index, code)| write!(f, "{} {code}", if index > 0 { "," } else { "" }))
            }
        }
    }
}

impl core::error::Error for CostError {}

/// Read costs of one code on one chip.
#[derive(Clone, Debug)]
pub struct ReadCost {
    profile: Profile,
    timing: ReadTiming,
    spec: CodeSpec,
    frames: u32,
    codeword_bits: usize,
    /// Cycles of an iteration of an LDPC decoder, or of a BCH decoder's correction.
    cycles: f64,
    /// Trials by error rate, in the order of their levels; none of BCH codes, which need none.
    trials: Vec<(f64, Vec<Trial>)>,
}

impl ReadCost {
    /// For reads of pages whose frames a code protects.
    ///
    /// # Errors
    /// There is no such code, its frames do not fill a page, or nobody tried it.
    pub fn new(profile: Profile, timing: ReadTiming, spec: CodeSpec) -> Result<ReadCost, CostError> {
        let code = spec.build().map_err(CostError::Code)?;
        if !timing.page_bytes.is_multiple_of(spec.data_bytes()) {
            return Err(CostError::Frames { data_bytes: spec.data_bytes(), page_bytes: timing.page_bytes });
        }
        let (codeword_bits, cycles) = match &code {
            crate::Code::Bch(code) => {
                let bits = code.codeword_bits();
                (bits, 2.0 * code.correctable() as f64 + bits as f64 / CHIEN_BITS.number.value)
            }
            crate::Code::Ldpc(code) => (code.codeword_bits(), code.blocks() as f64),
        };
        // Error rates as the bits of their doubles, which sort as the numbers do.
        let mut trials: BTreeMap<u64, Vec<Trial>> = BTreeMap::new();
        if spec.family() == "ldpc" {
            trial::kept().into_iter().filter(|trial| trial.code == spec).for_each(|trial| {
                trials.entry(trial.rber.to_bits()).or_default().push(trial);
            });
            if trials.is_empty() {
                return Err(CostError::Untried(spec));
            }
        }
        let frames = (timing.page_bytes / spec.data_bytes()) as u32;
        let trials = trials.into_iter().map(|(rber, trials)| (f64::from_bits(rber), trials)).collect();
        Ok(ReadCost { profile, timing, spec, frames, codeword_bits, cycles, trials })
    }

    /// The code.
    pub fn spec(&self) -> CodeSpec {
        self.spec
    }

    /// Frames of a page.
    pub fn frames(&self) -> u32 {
        self.frames
    }

    /// How often a frame cannot be corrected; `None` where the error rate is beyond all trials.
    pub fn frame_errors(&self, rber: f64) -> Option<FrameErrors> {
        match self.spec {
            CodeSpec::Bch { correctable, .. } => {
                Some(FrameErrors::Rate(binomial::frame_error_rate(self.codeword_bits, correctable, rber)))
            }
            CodeSpec::Ldpc { .. } => {
                // At the most levels, for a page that fails is sensed again.
                let trial = self.trials_at(rber)?.last()?;
                Some(match trial.failed {
                    0 => FrameErrors::AtMost(3.0 / f64::from(trial.frames)),
                    _ => FrameErrors::Rate(trial.failure_rate()),
                })
            }
        }
    }

    /// Uncorrectable bit error rate: frames that fail over the bits of data in them.
    pub fn uber(&self, rber: f64) -> Option<FrameErrors> {
        let bits = 8.0 * self.spec.data_bytes() as f64;
        self.frame_errors(rber).map(|errors| match errors {
            FrameErrors::Rate(rate) => FrameErrors::Rate(rate / bits),
            FrameErrors::AtMost(rate) => FrameErrors::AtMost(rate / bits),
        })
    }

    /// The highest raw bit error rate at which a read counts as correctable: of a BCH code where its uncorrectable bit
    /// error rate reaches 10^-15; of an LDPC code the paper's 10^-2, or the highest rate from which on down no trial
    /// failed.
    pub fn limit(&self) -> f64 {
        match (self.spec, self.profile) {
            (CodeSpec::Bch { data_bytes, correctable }, _) => {
                binomial::max_rber(self.codeword_bits, 8 * data_bytes, correctable, UBER)
            }
            (CodeSpec::Ldpc { .. }, Profile::Paper) => PAPER_LDPC_LIMIT,
            (CodeSpec::Ldpc { .. }, Profile::Derived) => {
                let sound = |trials: &Vec<Trial>| trials.last().is_some_and(|trial| trial.failed == 0);
                self.trials.iter().take_while(|(_, trials)| sound(trials)).last().map_or(0.0, |&(rber, _)| rber)
            }
        }
    }

    /// What a read of a page of a mode takes, on average; `None` above [`ReadCost::limit`], where it counts as
    /// uncorrectable. The derived profile knows the mode by its error rate alone.
    pub fn parts(&self, mode: Mode, rber: f64) -> Option<ReadParts> {
        if rber > self.limit() {
            return None;
        }
        match (self.profile, self.spec) {
            (Profile::Paper, spec) => {
                let sense_ns = match (spec.family(), mode) {
                    ("bch", _) => 75_000,
                    // The paper has no third mode: half way, for fewer sensing levels than at twice the step.
                    (_, Mode::Medium) => 107_500,
                    _ => 140_000,
                };
                Some(ReadParts { sense_ns, transfer_ns: 0, decode_ns: 0, levels: 1 })
            }
            (Profile::Derived, CodeSpec::Bch { .. }) => {
                let wrong = 1.0 - libm::exp(self.codeword_bits as f64 * libm::log1p(-rber));
                Some(ReadParts {
                    sense_ns: self.timing.read_ns,
                    transfer_ns: self.timing.transfer_ns,
                    decode_ns: nanoseconds(wrong * self.cycles * cycle_ns()),
                    levels: 1,
                })
            }
            (Profile::Derived, CodeSpec::Ldpc { .. }) => {
                let trials = self.trials_at(rber)?;
                (0..trials.len()).map(|first| self.beginning_with(&trials[first..])).min_by_key(ReadParts::latency_ns)
            }
        }
    }

    /// From command to data on average, ns; `None` where the page counts as uncorrectable.
    pub fn latency_ns(&self, mode: Mode, rber: f64) -> Option<u64> {
        self.parts(mode, rber).map(|parts| parts.latency_ns())
    }

    /// The trials at the least error rate of the table that is not below `rber`.
    fn trials_at(&self, rber: f64) -> Option<&[Trial]> {
        self.trials.iter().find(|&&(tried, _)| tried >= rber).map(|(_, trials)| trials.as_slice())
    }

    /// Mean parts of a read that begins with the levels of the first trial and goes on while some frame fails.
    fn beginning_with(&self, trials: &[Trial]) -> ReadParts {
        let (mut sense_ns, mut transfer_ns, mut decode_ns) = (0.0, 0.0, 0.0);
        // Probability that the read gets here, and what has been sensed and transferred before.
        let (mut reached, mut sensed, mut bits) = (1.0, 0.0, 0.0);
        for trial in trials {
            let levels = 1.0 + f64::from(trial.levels - 1) * LEVEL_SHARE.number.value;
            let planes = f64::from((trial.levels + 1).next_power_of_two().ilog2());
            sense_ns += reached * (levels - sensed) * self.timing.read_ns as f64;
            // Finer regions are at least one bit more.
            transfer_ns += reached * f64::max(planes - bits, 1.0) * self.timing.transfer_ns as f64;
            decode_ns += reached * trial.mean_iterations() * self.cycles * cycle_ns();
            let frame = 1.0 - trial.failure_rate();
            reached = 1.0 - (0..self.frames).fold(1.0, |page, _| page * frame);
            (sensed, bits) = (levels, planes);
        }
        ReadParts {
            sense_ns: nanoseconds(sense_ns),
            transfer_ns: nanoseconds(transfer_ns),
            decode_ns: nanoseconds(decode_ns),
            levels: trials[0].levels,
        }
    }
}

fn cycle_ns() -> f64 {
    1e3 / CLOCK.number.value
}

fn nanoseconds(time: f64) -> u64 {
    libm::round(time) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    const L74A: ReadTiming = ReadTiming { read_ns: 75_000, transfer_ns: 43_200, page_bytes: 8192 };
    const BCH: CodeSpec = CodeSpec::Bch { data_bytes: 1024, correctable: 24 };
    const LDPC: CodeSpec = CodeSpec::Ldpc { data_bytes: 4096, parity_bytes: 512 };

    fn cost(profile: Profile, spec: CodeSpec) -> ReadCost {
        ReadCost::new(profile, L74A, spec).unwrap()
    }

    #[test]
    fn the_paper_has_two_constants_and_we_one_between_them() {
        let (bch, ldpc) = (cost(Profile::Paper, BCH), cost(Profile::Paper, LDPC));
        assert_eq!([2.4e-4, 9e-3].map(|rber| bch.latency_ns(Mode::Normal, rber)), [Some(75_000), None]);
        assert_eq!([9e-3, 1.1e-2].map(|rber| ldpc.latency_ns(Mode::LowCost, rber)), [Some(140_000), None]);
        assert_eq!([3e-3, 1.1e-2].map(|rber| ldpc.latency_ns(Mode::Medium, rber)), [Some(107_500), None]);
        assert_eq!(Mode::ALL.map(|mode| Profile::Paper.program_ns(mode, 900_000)), [1_300_000, 866_667, 650_000]);
        // 15, 10 and 8 pulses.
        assert_eq!(Mode::ALL.map(|mode| Profile::Derived.program_ns(mode, 900_000)), [900_000, 600_000, 480_000]);
    }

    #[test]
    fn a_derived_read_is_the_sum_of_its_parts() {
        let bch = cost(Profile::Derived, BCH);
        let parts = bch.parts(Mode::Normal, 2.4e-4).unwrap();
        // 48 cycles and 8528 / 16 more at 2.5 ns, in the 87 % of frames that have an error.
        let expected = (48.0 + 533.0) * 2.5 * (1.0 - libm::pow(1.0 - 2.4e-4, 8528.0));
        assert_eq!((parts.sense_ns, parts.transfer_ns, parts.levels), (75_000, 43_200, 1));
        assert!((parts.decode_ns as f64 - expected).abs() <= 0.5, "{parts:?} {expected}");
        assert_eq!(bch.latency_ns(Mode::Normal, 2.4e-4), Some(parts.latency_ns()));
        assert_eq!(bch.parts(Mode::Normal, 1e-3), None);
    }

    #[test]
    fn reads_under_ldpc_take_longer_the_more_errors_there_are() {
        let ldpc = cost(Profile::Derived, LDPC);
        let limit = ldpc.limit();
        let parts = |rber| ldpc.parts(Mode::LowCost, rber);
        let reads: Vec<ReadParts> =
            trial::RBERS.iter().filter(|&&rber| rber <= limit).map(|&rber| parts(rber).unwrap()).collect();
        assert!(reads.is_sorted_by_key(ReadParts::latency_ns), "{reads:?}");
        assert_eq!(reads[0].levels, 1);
        assert!(reads.last().unwrap().levels > 1, "{reads:?}");
        // Between two rates of the table, as the higher.
        assert_eq!(parts(1.1e-3), parts(1.5e-3));
        assert_eq!(parts(limit * 1.01), None);
    }

    /// A read that begins at one level and fails pays for what is added, weighed by how often that is.
    #[test]
    fn what_further_levels_add() {
        let ldpc = cost(Profile::Derived, LDPC);
        let trial = |levels, failed, iterations| Trial {
            code: LDPC,
            rber: 1e-2,
            levels,
            frames: 100,
            failed,
            iterations,
            corrected_bits: 0,
        };
        // A page of two frames fails at one level in 1 − 0.9² of cases.
        let parts = ldpc.beginning_with(&[trial(1, 10, 500), trial(3, 0, 400)]);
        let again = 1.0 - 0.9 * 0.9;
        assert_eq!(parts.sense_ns, nanoseconds(75_000.0 + again * 25_000.0));
        assert_eq!(parts.transfer_ns, nanoseconds(43_200.0 * (1.0 + again)));
        let cycles = (5.0 + again * 4.0) * ldpc.cycles;
        assert_eq!(parts.decode_ns, nanoseconds(cycles * 2.5));
    }

    #[test]
    fn rates_are_computed_or_bounded() {
        let bch = cost(Profile::Derived, BCH);
        let Some(FrameErrors::Rate(rate)) = bch.uber(bch.limit()) else { panic!("BCH is computed") };
        assert!((rate / 1e-15 - 1.0).abs() < 1e-6, "{rate}");
        let ldpc = cost(Profile::Derived, LDPC);
        assert_eq!(ldpc.frame_errors(1e-3), Some(FrameErrors::AtMost(3.0 / f64::from(trial::FRAMES))));
        assert_eq!(ldpc.frame_errors(0.2), None);
    }

    #[test]
    fn what_cannot_be_is_explained() {
        let told = |spec| ReadCost::new(Profile::Derived, L74A, spec).unwrap_err().to_string();
        assert_eq!(
            told(CodeSpec::Bch { data_bytes: 1000, correctable: 24 }),
            "frames of 1000 bytes do not fill a page of 8192: 8 and 192 bytes over; take a length that divides the page"
        );
        let untried = told(CodeSpec::Ldpc { data_bytes: 1024, parity_bytes: 64 });
        assert!(untried.starts_with("ldpc:parity=64,data=1024 was not tried"), "{untried}");
        assert!(untried.contains("tried were ldpc:parity=192,data=4096, ldpc:"), "{untried}");
    }
}

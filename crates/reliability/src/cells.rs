//! Threshold voltages of 2-bit cells, and the raw bit errors that follow from them.
//!
//! A cell is in one of four states, told apart by its threshold voltage: erased, a wide Gaussian, or programmed to one
//! of three levels. Programming by pulses of a growing voltage (ISPP: program, verify, repeat) leaves a cell somewhere
//! between the level at which it passed and one step ΔVp above it: a uniform core. Interference from neighbours adds a
//! Gaussian tail above it, loss of charge one below (Liu, Yang and Wu, "Optimizing NAND flash-based SSDs via retention
//! relaxation", FAST 2012, as quoted by the differentiated-ECC paper, whose equation 2 has its two inequalities swapped
//! in print):
//!
//! ```text
//! erased        P(v) = exp(−(v − μ)² / 2σ²) / σ√2π
//! programmed    P(v) = α exp(−(v − a)² / 2σ_low²)     v < a = μ − ΔVp/2, the verify level
//!                      α                              a ≤ v ≤ b
//!                      α exp(−(v − b)² / 2σ_high²)    v > b = μ + ΔVp/2
//!               α = 1 / (ΔVp + √(π/2) (σ_low + σ_high))
//! ```
//!
//! The states are Gray-coded, so that a cell taken for its neighbour is one wrong bit, in the page of the lower bits
//! (LSB, told by the middle read level) or of the upper bits (MSB, told by the two outer ones).
//!
//! ```text
//!   erased         level 1        level 2        level 3
//!   LSB 1 MSB 1 │  LSB 1 MSB 0 │  LSB 0 MSB 0 │  LSB 0 MSB 1
//! ```
//!
//! Neither paper gives numbers. Those here are one set by which the normal step has an error rate that a BCH code of a
//! real chip bears and twice the step one that only LDPC does, at the end of life. [`CONSTANTS`] says of each where it
//! comes from; most are assumptions, and the results are the model's, not a chip's.

use core::fmt;
use core::str::FromStr;
use flash::device::{Number, Origin};
use libm::{erfc, exp, fabs, log1p, pow};

/// √2.
const SQRT_2: f64 = core::f64::consts::SQRT_2;
/// √(π/2).
const SQRT_HALF_PI: f64 = 1.253_314_137_315_500_1;

/// A constant of the model.
#[derive(Clone, Copy, Debug)]
pub struct Constant {
    /// What it is, unique.
    pub name: &'static str,
    /// Its unit; empty for plain numbers.
    pub unit: &'static str,
    /// Its value, and who says so.
    pub number: Number,
}

const fn constant(name: &'static str, unit: &'static str, value: f64, origin: Origin, why: &'static str) -> Constant {
    Constant { name, unit, number: Number { value, origin, why } }
}

const NO_NUMBERS: &str = "no source gives voltages; one set by which BCH bears the normal step and LDPC twice the step";
const TAIL_END: f64 = 0.065;
const TAIL_NEW: f64 = 0.05;

const ERASED_MEAN: Constant = constant("mean of erased cells", "V", 1.05, Origin::Assumed, NO_NUMBERS);
const ERASED_SIGMA: Constant = constant("deviation of erased cells", "V", 0.32, Origin::Assumed, NO_NUMBERS);
const VERIFY: [Constant; 3] = [
    constant("verify level 1", "V", 2.55, Origin::Assumed, NO_NUMBERS),
    constant("verify level 2", "V", 3.15, Origin::Assumed, NO_NUMBERS),
    constant("verify level 3", "V", 3.75, Origin::Assumed, NO_NUMBERS),
];
const FIRST_READ: Constant = constant("read level 1", "V", 2.30, Origin::Assumed, NO_NUMBERS);
const STEP: Constant = constant("step of normal programs", "V", 0.2, Origin::Assumed, NO_NUMBERS);
const LOW_COST: Constant = constant(
    "step of low-cost programs, in normal ones",
    "",
    2.0,
    Origin::Paper,
    "Improving MLC Flash Performance with Workload-Aware Differentiated ECC: low-cost writes double the step",
);
const MEDIUM: Constant = constant(
    "step of medium programs, in normal ones",
    "",
    1.5,
    Origin::Assumed,
    "half way between a normal and a low-cost program; AGCR, which has them, is described without numbers",
);
const SIGMA_NEW: Constant = constant(
    "tails of a new chip",
    "V",
    TAIL_NEW,
    Origin::Assumed,
    "three quarters of those at the end of life; leaves error rates of new chips near 10^-5",
);
const SIGMA_END: Constant = constant(
    "tails at the end of life",
    "V",
    TAIL_END,
    Origin::Assumed,
    "the error rates 2.4e-4 and 9e-3 of the two steps, on either side of what BCH of t = 24 in 1080 bytes bears",
);
const WEAR_EXPONENT: Constant = constant(
    "power of P/E cycles by which tails widen",
    "",
    0.6,
    Origin::Assumed,
    "near the powers 0.5 and 0.62 of trap generation in the model of Pan, Dong and Zhang, FAST 2011",
);
const RETENTION_UNIT: Constant = constant(
    "time constant of charge loss",
    "h",
    1.0,
    Origin::Assumed,
    "logarithmic loss after one hour, as in models of retention noise by Pan, Dong, Wu and Zhang, HPCA 2012",
);
const RETENTION_END: Constant = constant(
    "retention at the end of life",
    "h",
    8760.0,
    Origin::Assumed,
    "the year of client drives in JEDEC JESD218",
);
const DISTURB: Constant = constant(
    "bit errors a read adds at the end of life",
    "per bit",
    1.6e-9,
    Origin::Assumed,
    "of the order that Cai et al., DSN 2015, measured on 2Y-nm MLC at 3000 P/E cycles",
);
const DISTURB_EXPONENT: Constant = constant(
    "power of P/E cycles in read disturb",
    "",
    1.5,
    Origin::Assumed,
    "growth of the slopes over P/E cycles in Cai et al., DSN 2015, roughly",
);

/// Every constant of the model with its source.
pub const CONSTANTS: &[Constant] = &[
    ERASED_MEAN,
    ERASED_SIGMA,
    VERIFY[0],
    VERIFY[1],
    VERIFY[2],
    FIRST_READ,
    STEP,
    MEDIUM,
    LOW_COST,
    SIGMA_NEW,
    SIGMA_END,
    WEAR_EXPONENT,
    RETENTION_UNIT,
    RETENTION_END,
    DISTURB,
    DISTURB_EXPONENT,
];

/// How a page is programmed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// At the usual step.
    Normal,
    /// At one and a half times the step.
    Medium,
    /// At twice the step: faster, and with wider levels.
    LowCost,
}

impl Mode {
    /// Every mode, the most careful first.
    pub const ALL: [Mode; 3] = [Mode::Normal, Mode::Medium, Mode::LowCost];

    /// The word used in tables and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Mode::Normal => "normal",
            Mode::Medium => "medium",
            Mode::LowCost => "low-cost",
        }
    }

    /// ΔVp, V.
    pub const fn step_v(self) -> f64 {
        match self {
            Mode::Normal => STEP.number.value,
            Mode::Medium => STEP.number.value * MEDIUM.number.value,
            Mode::LowCost => STEP.number.value * LOW_COST.number.value,
        }
    }

    /// Pulses that lift a cell from the erased mean to the highest level: ⌈distance / ΔVp⌉ + 1, for the last one
    /// passes.
    pub fn pulses(self) -> u32 {
        // A hair less than the distance, so that 2.7 V are nine steps of 0.3.
        let distance = VERIFY[2].number.value - ERASED_MEAN.number.value - 1e-9;
        libm::ceil(distance / self.step_v()) as u32 + 1
    }

    /// Program time where a normal program takes `normal_ns`: in proportion to the pulses.
    pub fn program_ns(self, normal_ns: u64) -> u64 {
        normal_ns * u64::from(self.pulses()) / u64::from(Mode::Normal.pulses())
    }
}

/// What a block has been through.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Age {
    /// Programs and erases.
    pub pe_cycles: u32,
    /// P/E cycles of the end of life, as the datasheet has it.
    pub endurance: u32,
    /// Time since the page was programmed, h.
    pub retention_h: f64,
    /// Reads of the block since it was erased.
    pub reads: u64,
}

impl Age {
    /// Multiples of the endurance up to which the model is believed.
    pub const MOST_LIVES: u32 = 5;
    /// Hours up to which the model is believed: ten years.
    pub const MOST_RETENTION_H: f64 = 87_600.0;
    /// Reads up to which the model is believed.
    pub const MOST_READS: u64 = 10_000_000;

    /// Whether the model says anything about this age.
    ///
    /// # Errors
    /// Which part of it goes too far, and how far it may go.
    pub fn check(&self) -> Result<(), AgeError> {
        let most_cycles = Age::MOST_LIVES.saturating_mul(self.endurance);
        if self.pe_cycles > most_cycles {
            return Err(AgeError::Cycles { asked: self.pe_cycles, endurance: self.endurance });
        }
        if self.retention_h > Age::MOST_RETENTION_H {
            return Err(AgeError::Retention(Retention(self.retention_h)));
        }
        if self.reads > Age::MOST_READS {
            return Err(AgeError::Reads(self.reads));
        }
        Ok(())
    }

    /// Share of the life that has passed.
    fn life(&self) -> f64 {
        f64::from(self.pe_cycles) / f64::from(self.endurance.max(1))
    }
}

/// An age beyond the model.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum AgeError {
    /// Too many P/E cycles.
    Cycles {
        /// How many.
        asked: u32,
        /// Those of the end of life.
        endurance: u32,
    },
    /// Too long a time.
    Retention(Retention),
    /// Too many reads.
    Reads(u64),
}

impl fmt::Display for AgeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            AgeError::Cycles { asked, endurance } => {
                let (lives, most) = (Age::MOST_LIVES, Age::MOST_LIVES.saturating_mul(endurance));
                write!(f, "{asked} P/E cycles: the model holds up to {lives} x the endurance of {endurance} = {most}")
            }
            AgeError::Retention(asked) => {
                write!(f, "a retention of {asked}: the model holds up to {}", Retention(Age::MOST_RETENTION_H))
            }
            AgeError::Reads(asked) => write!(f, "{asked} reads: the model holds up to {}", Age::MOST_READS),
        }
    }
}

impl core::error::Error for AgeError {}

/// A time since a page was programmed, h. Written as a number with h, d or y.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug, Default)]
pub struct Retention(pub f64);

impl Retention {
    const UNITS: [(&'static str, f64); 3] = [("y", 8760.0), ("d", 24.0), ("h", 1.0)];
}

impl fmt::Display for Retention {
    /// In the largest unit of which it is a whole number, else in hours.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = |hours: f64| self.0 > 0.0 && libm::fmod(self.0, hours) == 0.0;
        match Retention::UNITS.iter().find(|(_, hours)| whole(*hours)) {
            Some((unit, hours)) => write!(f, "{}{unit}", self.0 / hours),
            None if self.0 == 0.0 => f.write_str("0"),
            None => write!(f, "{}h", self.0),
        }
    }
}

impl FromStr for Retention {
    /// What to write.
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Retention, &'static str> {
        let parsed = Retention::UNITS
            .iter()
            .find_map(|(unit, hours)| Some(text.strip_suffix(unit)?.parse::<f64>().ok()? * hours))
            .or_else(|| (text == "0").then_some(0.0));
        parsed
            .filter(|hours| hours.is_finite() && *hours >= 0.0)
            .map(Retention)
            .ok_or("a time with h, d or y, such as 12h, 30d or 1y, or 0")
    }
}

/// One state's voltages.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum State {
    /// Never programmed since the erase.
    Erased {
        /// Mean, V.
        mean_v: f64,
        /// Standard deviation, V.
        sigma_v: f64,
    },
    /// Programmed to a level.
    Programmed {
        /// Lower edge of the uniform core: the verify level, V.
        from_v: f64,
        /// Upper edge, V.
        to_v: f64,
        /// Deviation of the tail below, V.
        low_v: f64,
        /// Deviation of the tail above, V.
        high_v: f64,
    },
}

impl State {
    /// Density at `v`, 1/V.
    pub fn density(&self, v: f64) -> f64 {
        match *self {
            State::Erased { mean_v, sigma_v } => {
                let x = (v - mean_v) / sigma_v;
                exp(-x * x / 2.0) / (sigma_v * 2.0 * SQRT_HALF_PI)
            }
            State::Programmed { from_v, to_v, low_v, high_v } => {
                let x = if v < from_v {
                    (v - from_v) / low_v
                } else if v > to_v {
                    (v - to_v) / high_v
                } else {
                    0.0
                };
                self.height() * exp(-x * x / 2.0)
            }
        }
    }

    /// α of a programmed state; of the erased one, its density at the mean.
    fn height(&self) -> f64 {
        match *self {
            State::Erased { sigma_v, .. } => 1.0 / (sigma_v * 2.0 * SQRT_HALF_PI),
            State::Programmed { from_v, to_v, low_v, high_v } => {
                1.0 / (to_v - from_v + SQRT_HALF_PI * (low_v + high_v))
            }
        }
    }

    /// Probability of a voltage below `v`. Tails keep their digits: nothing is subtracted from 1 there.
    pub fn below(&self, v: f64) -> f64 {
        match *self {
            State::Erased { mean_v, sigma_v } => 0.5 * erfc((mean_v - v) / (sigma_v * SQRT_2)),
            State::Programmed { from_v, to_v, low_v, .. } => {
                let tail = self.height() * low_v * SQRT_HALF_PI;
                if v < from_v {
                    tail * erfc((from_v - v) / (low_v * SQRT_2))
                } else if v <= to_v {
                    tail + self.height() * (v - from_v)
                } else {
                    1.0 - self.above(v)
                }
            }
        }
    }

    /// Probability of a voltage above `v`.
    pub fn above(&self, v: f64) -> f64 {
        match *self {
            State::Erased { mean_v, sigma_v } => 0.5 * erfc((v - mean_v) / (sigma_v * SQRT_2)),
            State::Programmed { to_v, high_v, .. } if v > to_v => {
                self.height() * high_v * SQRT_HALF_PI * erfc((v - to_v) / (high_v * SQRT_2))
            }
            State::Programmed { .. } => 1.0 - self.below(v),
        }
    }

    /// Probability of a voltage between two, computed in the tail in which they lie.
    pub fn between(&self, from_v: f64, to_v: f64) -> f64 {
        let middle = match *self {
            State::Erased { mean_v, .. } => mean_v,
            State::Programmed { from_v, to_v, .. } => (from_v + to_v) / 2.0,
        };
        let share =
            if from_v > middle { self.above(from_v) - self.above(to_v) } else { self.below(to_v) - self.below(from_v) };
        share.max(0.0)
    }
}

/// The pages that share a row of cells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PageType {
    /// Of the lower bits: one read level.
    Lsb,
    /// Of the upper bits: two read levels.
    Msb,
}

impl PageType {
    /// Both types.
    pub const ALL: [PageType; 2] = [PageType::Lsb, PageType::Msb];

    /// The word used in tables.
    pub const fn name(self) -> &'static str {
        match self {
            PageType::Lsb => "LSB",
            PageType::Msb => "MSB",
        }
    }

    /// The bit that a state stores in the page.
    pub const fn bit(self, state: usize) -> bool {
        match self {
            PageType::Lsb => state < 2,
            PageType::Msb => state == 0 || state == 3,
        }
    }
}

/// The four states of a population of cells, and where they are told apart.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Cells {
    /// Erased first.
    pub states: [State; 4],
    /// Read levels between neighbouring states, V.
    pub reads_v: [f64; 3],
    /// Share of the erased cells that reads have lifted over the first level, beside their own spread.
    pub disturbed: f64,
}

impl Cells {
    /// Cells programmed in a mode, at an age. Tails widen with wear, the lower ones with time, and reads lift erased
    /// cells:
    ///
    /// ```text
    /// σ_high = σ_new (1 + b (N/E)^0.6)        σ_low = σ_new (1 + a (N/E)^0.6 ln(1 + t/t0))
    /// ```
    ///
    /// with a and b such that both reach σ_end at N = E cycles, and the lower one after a year.
    pub fn new(mode: Mode, age: &Age) -> Cells {
        let wear = pow(age.life(), WEAR_EXPONENT.number.value);
        let growth = SIGMA_END.number.value / SIGMA_NEW.number.value - 1.0;
        let time = log1p(age.retention_h / RETENTION_UNIT.number.value)
            / log1p(RETENTION_END.number.value / RETENTION_UNIT.number.value);
        let low_v = SIGMA_NEW.number.value * (1.0 + growth * wear * time);
        let high_v = SIGMA_NEW.number.value * (1.0 + growth * wear);
        let mut cells = Cells::with_tails(mode, low_v, high_v);
        // A bit error rate is a mean over four states and two bits; only erased cells are disturbed, in one of them.
        let errors = DISTURB.number.value * pow(age.life(), DISTURB_EXPONENT.number.value) * age.reads as f64;
        cells.disturbed = (8.0 * errors).min(1.0);
        cells
    }

    /// Cells with given deviations of the tails.
    pub fn with_tails(mode: Mode, low_v: f64, high_v: f64) -> Cells {
        let erased = State::Erased { mean_v: ERASED_MEAN.number.value, sigma_v: ERASED_SIGMA.number.value };
        let step = mode.step_v();
        let level = |index: usize| {
            let from_v = VERIFY[index].number.value;
            State::Programmed { from_v, to_v: from_v + step, low_v, high_v }
        };
        let middle = |index: usize| (VERIFY[index].number.value + step + VERIFY[index + 1].number.value) / 2.0;
        Cells {
            states: [erased, level(0), level(1), level(2)],
            reads_v: [FIRST_READ.number.value, middle(0), middle(1)],
            disturbed: 0.0,
        }
    }

    /// Cells with equal tails by which the raw bit error rate is `rber`, if some are: the tails of new chips have a
    /// lowest rate, set by the erased cells.
    pub fn with_rber(mode: Mode, rber: f64) -> Option<Cells> {
        let (mut low, mut high) = (0.001, 0.5);
        let at = |sigma: f64| Cells::with_tails(mode, sigma, sigma);
        if rber < at(low).rber() || rber > at(high).rber() {
            return None;
        }
        for _ in 0..60 {
            let middle = (low + high) / 2.0;
            if at(middle).rber() < rber {
                low = middle;
            } else {
                high = middle;
            }
        }
        debug_assert!(fabs(at(low).rber() / rber - 1.0) < 1e-6);
        Some(at(low))
    }

    /// Probability that a cell in `state` is read as `other`.
    pub fn misread(&self, state: usize, other: usize) -> f64 {
        let from_v = if other == 0 { f64::NEG_INFINITY } else { self.reads_v[other - 1] };
        let to_v = if other == 3 { f64::INFINITY } else { self.reads_v[other] };
        let plain = match other {
            0 => self.states[state].below(to_v),
            3 => self.states[state].above(from_v),
            _ => self.states[state].between(from_v, to_v),
        };
        match (state, other) {
            (0, 0) => (plain - self.disturbed).max(0.0),
            (0, 1) => (plain + self.disturbed).min(1.0),
            _ => plain,
        }
    }

    /// Raw bit error rate of a page: the mean over the states of being read as one with the other bit.
    pub fn page_rber(&self, page: PageType) -> f64 {
        let wrong = |state: usize| -> f64 {
            (0..4).filter(|&other| page.bit(other) != page.bit(state)).map(|other| self.misread(state, other)).sum()
        };
        (0..4).map(wrong).sum::<f64>() / 4.0
    }

    /// Raw bit error rate over both pages.
    pub fn rber(&self) -> f64 {
        (self.page_rber(PageType::Lsb) + self.page_rber(PageType::Msb)) / 2.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end_of_life(retention_h: f64) -> Age {
        Age { pe_cycles: 3000, endurance: 3000, retention_h, reads: 0 }
    }

    /// The calibration: 2.4e-4 and 9e-3, with the limit of BCH between them.
    #[test]
    fn error_rates_at_the_end_of_life() {
        let normal = Cells::new(Mode::Normal, &end_of_life(8760.0)).rber();
        let low_cost = Cells::new(Mode::LowCost, &end_of_life(8760.0)).rber();
        assert!((2.35e-4..2.5e-4).contains(&normal), "{normal}");
        assert!((8.5e-3..9.5e-3).contains(&low_cost), "{low_cost}");
        let limit = crate::binomial::max_rber(8640, 8304, 24, 1e-15);
        assert!(normal < limit && limit < low_cost && low_cost < 1e-2);
    }

    #[test]
    fn densities_are_whole_and_agree_with_their_sums() {
        for (mode, age) in [(Mode::Normal, end_of_life(0.0)), (Mode::LowCost, end_of_life(80_000.0))] {
            for state in Cells::new(mode, &age).states {
                // Midpoint rule over the whole range, and over the part below each of some voltages.
                let width = 1e-4;
                let mut sum = 0.0;
                let mut next = 0;
                let marks = [1.0, 2.3, 2.52, 2.6, 2.9, 3.3, 3.7, 4.2];
                for index in 0..80_000 {
                    let v = -1.0 + (f64::from(index) + 0.5) * width;
                    if next < marks.len() && v > marks[next] {
                        assert!((sum - state.below(marks[next])).abs() < 1e-7, "{state:?} {}", marks[next]);
                        assert!((1.0 - sum - state.above(marks[next])).abs() < 1e-7, "{state:?} {}", marks[next]);
                        next += 1;
                    }
                    sum += state.density(v) * width;
                }
                assert!((sum - 1.0).abs() < 1e-7 && next == marks.len(), "{state:?}: {sum}");
            }
        }
    }

    /// Equation 2 as printed would put the tails inside the core; corrected, the density is continuous at both edges.
    #[test]
    fn the_density_is_continuous_and_flat_between_the_edges() {
        let State::Programmed { from_v, to_v, .. } = Cells::new(Mode::Normal, &end_of_life(10.0)).states[2] else {
            panic!("state 2 is programmed");
        };
        let state = Cells::new(Mode::Normal, &end_of_life(10.0)).states[2];
        let core = state.density((from_v + to_v) / 2.0);
        for edge in [from_v, to_v] {
            assert!((state.density(edge - 1e-9) - core).abs() < 1e-6);
            assert!((state.density(edge + 1e-9) - core).abs() < 1e-6);
        }
        assert!(state.density(from_v - 0.1) < core / 2.0 && state.density(to_v + 0.1) < core / 2.0);
    }

    #[test]
    fn misreads_of_a_state_sum_to_one_and_neighbours_differ_in_one_page() {
        let mut cells = Cells::new(Mode::LowCost, &end_of_life(8760.0));
        cells.disturbed = 1e-4;
        for state in 0..4 {
            let sum: f64 = (0..4).map(|other| cells.misread(state, other)).sum();
            assert!((sum - 1.0).abs() < 1e-12);
        }
        for state in 0..3 {
            let differ = PageType::ALL.iter().filter(|page| page.bit(state) != page.bit(state + 1)).count();
            assert_eq!(differ, 1);
        }
    }

    #[test]
    fn everything_that_ages_a_page_adds_errors() {
        let base = Age { pe_cycles: 1500, endurance: 3000, retention_h: 100.0, reads: 1000 };
        for mode in Mode::ALL {
            let rber = |age: Age| Cells::new(mode, &age).rber();
            let now = rber(base);
            assert!(rber(Age { pe_cycles: 3000, ..base }) > now);
            assert!(rber(Age { retention_h: 1000.0, ..base }) > now);
            assert!(rber(Age { reads: 1_000_000, ..base }) > now);
            assert!(rber(Age { pe_cycles: 0, retention_h: 0.0, reads: 0, ..base }) < now);
        }
        // Reads add what the constant says, in the page of the upper bits.
        let quiet = Age { pe_cycles: 3000, endurance: 3000, retention_h: 0.0, reads: 0 };
        let (before, after) =
            (Cells::new(Mode::Normal, &quiet), Cells::new(Mode::Normal, &Age { reads: 100_000, ..quiet }));
        assert!((after.rber() - before.rber() - 1.6e-4).abs() < 1e-9);
        assert_eq!(before.page_rber(PageType::Lsb), after.page_rber(PageType::Lsb));
    }

    #[test]
    fn programs_take_pulses() {
        assert_eq!((Mode::Normal.pulses(), Mode::LowCost.pulses()), (15, 8));
        assert_eq!(Mode::Normal.program_ns(1_300_000), 1_300_000);
        // The paper halves 1300 to 650; the last pulse, which only passes, makes it a little more.
        assert_eq!(Mode::LowCost.program_ns(1_300_000), 693_333);
    }

    #[test]
    fn tails_are_found_for_an_error_rate() {
        for rber in [1e-5, 1e-4, 5e-3, 2e-2] {
            let cells = Cells::with_rber(Mode::LowCost, rber).unwrap();
            assert!((cells.rber() / rber - 1.0).abs() < 1e-6, "{rber}");
        }
        assert_eq!(Cells::with_rber(Mode::Normal, 1e-9), None);
        assert_eq!(Cells::with_rber(Mode::Normal, 0.5), None);
    }

    #[test]
    fn every_constant_says_where_it_comes_from() {
        for (index, constant) in CONSTANTS.iter().enumerate() {
            assert!(!constant.number.why.is_empty(), "{}", constant.name);
            assert!(CONSTANTS[..index].iter().all(|other| other.name != constant.name), "{} twice", constant.name);
        }
    }
}

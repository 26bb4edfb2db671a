//! Binary BCH codes: any t and any length up to 2^15 − 1 bits.
//!
//! The code is systematic and narrow-sense: codewords are multiples of the polynomial g whose roots are α, α², …,
//! α^2t, data are the high coefficients and the parity is the remainder. Bits are taken from the top of the first byte
//! on, the field's polynomials are the kernel's, so the parity bytes are exactly those of Linux's `lib/bch.c`, which
//! chips and controllers in the field use.
//!
//! Decoding is made for pages of few errors. What was read is divided by g once, eight bytes at a step
//! (`remainder.rs`); a remainder of 0 means no error, and most pages end here. All else works on the r bits of the
//! remainder, not on the page: syndromes are sums of table rows, one for each four bits of the remainder; the
//! Berlekamp–Massey algorithm in its binary form finds the error locator; its roots are found by a Chien search, eight
//! positions at a time in logarithms, which divides each root out and ends with the formula for quadratics.
//!
//! A pattern of more than t errors is reported unless it lies within t errors of another codeword, which no decoder can
//! know. The locator must have as many different roots within the (shortened) code as its degree says.

mod field;
mod remainder;

use crate::code::{CodeError, Corrected, Uncorrectable};
use alloc::vec;
use alloc::vec::Vec;
use field::Field;
use remainder::{Divider, MAX_WORDS, Remainder};

/// Most errors that a code here corrects: what fits into the widest remainder at the smallest useful field.
pub const MAX_T: usize = 128;

/// Bits of the remainder that a row of the table of syndromes stands for.
const NIBBLE: usize = 4;

/// Lanes by which rows of syndromes are added.
const LANES: usize = 8;

/// Positions that a step of the Chien search looks at.
const STEP: usize = 8;

/// A binary BCH code over whole bytes of data.
#[derive(Clone, Debug)]
pub struct Bch {
    field: Field,
    correctable: usize,
    data_bytes: usize,
    parity_bits: usize,
    divider: Divider,
    /// Odd syndromes of each value of each four bits of the remainder; a row has `stride` of them.
    syndromes: Vec<u16>,
    stride: usize,
}

/// The error locator with its roots inverted: its roots are α^p for each position p in error, counted from the end of
/// the codeword. Coefficients from the lowest; monic.
struct Locator {
    coefficients: [u16; MAX_T + 1],
    degree: usize,
}

impl Bch {
    /// A code that corrects `correctable` errors (t) in `data_bytes` of data and its parity, over the smallest field
    /// whose codes are long enough.
    ///
    /// # Errors
    /// No code of this length and t exists up to 2^15 − 1 bits, or its parity is longer than 1024 bits.
    pub fn new(data_bytes: usize, correctable: usize) -> Result<Bch, CodeError> {
        if data_bytes == 0 || correctable == 0 {
            return Err(CodeError::Empty);
        }
        let mut made = Err(CodeError::Empty);
        for degree in Field::DEGREES {
            // The parity has at least a bit for each error, in most codes m.
            if 8 * data_bytes + correctable < 1 << degree || degree == *Field::DEGREES.end() {
                made = Bch::over(degree, data_bytes, correctable);
                if made.is_ok() {
                    break;
                }
            }
        }
        made
    }

    /// A code over GF(2^`degree`).
    ///
    /// # Errors
    /// As [`Bch::new`], within this field.
    pub fn over(degree: u32, data_bytes: usize, correctable: usize) -> Result<Bch, CodeError> {
        if data_bytes == 0 || correctable == 0 {
            return Err(CodeError::Empty);
        }
        if !Field::DEGREES.contains(&degree) {
            return Err(CodeError::NoField { degree });
        }
        let most_bits = (1usize << degree) - 1;
        if correctable > MAX_T.min(most_bits / 2) {
            return Err(CodeError::TooStrong { correctable, most: MAX_T.min(most_bits / 2) });
        }
        let field = Field::new(degree);
        let generator = generator(&field, correctable);
        let parity_bits = generator.len() - 1;
        if 8 * data_bytes + parity_bits > most_bits {
            return Err(CodeError::TooLong { data_bits: 8 * data_bytes, parity_bits, most_bits });
        }
        let words = parity_bits.div_ceil(64);
        if words > MAX_WORDS {
            return Err(CodeError::TooStrong { correctable, most: 64 * MAX_WORDS / degree as usize });
        }
        let mut taps = vec![0u64; words];
        for index in 0..parity_bits {
            taps[index / 64] |= u64::from(generator[parity_bits - 1 - index]) << (63 - index % 64);
        }
        let divider = Divider::new(&taps);
        let stride = correctable.next_multiple_of(LANES);
        let nibbles = parity_bits.div_ceil(NIBBLE);
        let mut syndromes = vec![0u16; nibbles * (1 << NIBBLE) * stride];
        for nibble in 0..nibbles {
            for value in 0..1usize << NIBBLE {
                let row = &mut syndromes[((nibble << NIBBLE) + value) * stride..][..correctable];
                for bit in 0..NIBBLE {
                    let index = nibble * NIBBLE + bit;
                    if value >> (NIBBLE - 1 - bit) & 1 == 1 && index < parity_bits {
                        let position = (parity_bits - 1 - index) as u32;
                        for (order, syndrome) in row.iter_mut().enumerate() {
                            *syndrome ^= field.power((2 * order as u32 + 1) * position);
                        }
                    }
                }
            }
        }
        Ok(Bch { field, correctable, data_bytes, parity_bits, divider, syndromes, stride })
    }

    /// Bytes of data that a codeword holds.
    pub fn data_bytes(&self) -> usize {
        self.data_bytes
    }

    /// Bits of parity: the degree of the generator polynomial, m·t in most codes.
    pub fn parity_bits(&self) -> usize {
        self.parity_bits
    }

    /// Bytes that hold the parity; unused bits of the last are 0 when written and not looked at when read.
    pub fn parity_bytes(&self) -> usize {
        self.parity_bits.div_ceil(8)
    }

    /// Bits of a codeword.
    pub fn codeword_bits(&self) -> usize {
        8 * self.data_bytes + self.parity_bits
    }

    /// Errors that are always corrected, t.
    pub fn correctable(&self) -> usize {
        self.correctable
    }

    /// m of the field GF(2^m).
    pub fn field_degree(&self) -> u32 {
        self.field.degree
    }

    /// Writes the parity of `data`.
    ///
    /// # Panics
    /// If a length is not that of the code.
    pub fn encode(&self, data: &[u8], parity: &mut [u8]) {
        assert_eq!((data.len(), parity.len()), (self.data_bytes, self.parity_bytes()), "lengths of data and parity");
        let remainder = self.divider.remainder(data);
        for (bytes, word) in parity.chunks_mut(8).zip(&remainder) {
            bytes.copy_from_slice(&word.to_be_bytes()[..bytes.len()]);
        }
    }

    /// Corrects up to t wrong bits of `data` and `parity` in place.
    ///
    /// # Errors
    /// More than t bits are wrong, and then nothing is changed.
    ///
    /// # Panics
    /// If a length is not that of the code.
    pub fn decode(&self, data: &mut [u8], parity: &mut [u8]) -> Result<Corrected, Uncorrectable> {
        assert_eq!((data.len(), parity.len()), (self.data_bytes, self.parity_bytes()), "lengths of data and parity");
        let mut remainder = self.divider.remainder(data);
        for (word, bytes) in remainder.iter_mut().zip(parity.chunks(8)) {
            let mut read = [0; 8];
            read[..bytes.len()].copy_from_slice(bytes);
            *word ^= u64::from_be_bytes(read);
        }
        if !self.parity_bits.is_multiple_of(64) {
            remainder[self.parity_bits / 64] &= !(u64::MAX >> (self.parity_bits % 64));
        }
        if remainder == [0; MAX_WORDS] {
            return Ok(Corrected { bits: 0, iterations: 0 });
        }
        let mut positions = [0; MAX_T];
        let locator = self.locator(&self.all_syndromes(&remainder)).ok_or(Uncorrectable { iterations: 0 })?;
        let count = locator.degree;
        self.roots(locator, &mut positions).ok_or(Uncorrectable { iterations: 0 })?;
        for &position in &positions[..count] {
            let index = self.codeword_bits() - 1 - position as usize;
            match index.checked_sub(8 * self.data_bytes) {
                None => data[index / 8] ^= 0x80 >> (index % 8),
                Some(index) => parity[index / 8] ^= 0x80 >> (index % 8),
            }
        }
        Ok(Corrected { bits: count as u32, iterations: 0 })
    }

    /// S_1, …, S_2t at index 0 and on. The odd ones are linear in the remainder, the even ones squares.
    fn all_syndromes(&self, remainder: &Remainder) -> [u16; 2 * MAX_T] {
        let mut odd = [0u16; MAX_T];
        let (sums, _) = odd.as_chunks_mut::<LANES>();
        let (lanes, _) = self.syndromes.as_chunks::<LANES>();
        let per_row = self.stride / LANES;
        for nibble in 0..self.parity_bits.div_ceil(NIBBLE) {
            let bit = nibble * NIBBLE;
            let value = (remainder[bit / 64] >> (64 - NIBBLE - bit % 64)) as usize & ((1 << NIBBLE) - 1);
            let row = &lanes[((nibble << NIBBLE) + value) * per_row..][..per_row];
            for (sum, more) in sums.iter_mut().zip(row) {
                for lane in 0..LANES {
                    sum[lane] ^= more[lane];
                }
            }
        }
        let mut all = [0; 2 * MAX_T];
        for order in 1..=2 * self.correctable {
            all[order - 1] = if order % 2 == 1 {
                odd[order / 2]
            } else {
                let half = all[order / 2 - 1];
                self.field.multiply(half, half)
            };
        }
        all
    }

    /// The Berlekamp–Massey algorithm in its binary form, which takes two syndromes at a step because the discrepancy
    /// of every second one is 0. `None` if no locator of degree t or less explains the syndromes.
    fn locator(&self, syndromes: &[u16; 2 * MAX_T]) -> Option<Locator> {
        let (field, t) = (&self.field, self.correctable);
        let mut now = [0u16; 2 * MAX_T + 2];
        let mut before = now;
        (now[0], before[0]) = (1, 1);
        let (mut length, mut before_length) = (0, 0);
        // Steps since `before` was current, and its discrepancy.
        let (mut distance, mut before_discrepancy) = (1, 1);
        for step in 0..t {
            let mut discrepancy = syndromes[2 * step];
            for index in 1..=length.min(2 * step) {
                discrepancy ^= field.multiply(now[index], syndromes[2 * step - index]);
            }
            if discrepancy != 0 {
                if before_length + distance > t {
                    return None;
                }
                let kept = now;
                let factor = field.divide(discrepancy, before_discrepancy);
                for index in 0..=before_length {
                    now[index + distance] ^= field.multiply(factor, before[index]);
                }
                if before_length + distance > length {
                    (before, before_length, length) = (kept, length, before_length + distance);
                    before_discrepancy = discrepancy;
                    distance = 0;
                }
            }
            distance += 2;
        }
        // The highest coefficient belongs to the last error; without it there are fewer roots than `length`.
        if now[length] == 0 {
            return None;
        }
        let mut coefficients = [0; MAX_T + 1];
        for (index, coefficient) in coefficients[..=length].iter_mut().enumerate() {
            *coefficient = now[length - index];
        }
        Some(Locator { coefficients, degree: length })
    }

    /// Writes the positions in error; `None` if there are not as many within the code as the locator's degree.
    fn roots(&self, mut locator: Locator, positions: &mut [u32; MAX_T]) -> Option<()> {
        let field = &self.field;
        let end = self.codeword_bits() as u32;
        let (mut found, mut from) = (0, 0);
        while locator.degree > 2 {
            let position = self.first_root(&locator, from)?;
            positions[found] = position;
            (found, from) = (found + 1, position + 1);
            locator.divide_out(field, field.power(position));
        }
        let [constant, linear, ..] = locator.coefficients;
        let rest: &[u16] = match locator.degree {
            1 => &[constant],
            _ => &field.quadratic_roots(linear, constant)?,
        };
        for &root in rest {
            let position = field.log(root);
            // Positions below `from` have been searched: a root there is a double one.
            if !(from..end).contains(&position) {
                return None;
            }
            positions[found] = position;
            found += 1;
        }
        Some(())
    }

    /// The first position from `from` on whose power of α is a root.
    fn first_root(&self, locator: &Locator, from: u32) -> Option<u32> {
        let (field, degree) = (&self.field, locator.degree);
        // Logarithms of the terms at the position that is looked at, and by how much a term's grows from one position
        // to the next. The highest coefficient is 1.
        let mut terms = [(0u32, 0u32); MAX_T + 1];
        let mut count = 0;
        for (index, &coefficient) in locator.coefficients[1..=degree].iter().enumerate() {
            if coefficient != 0 {
                let growth = index as u32 + 1;
                terms[count] = ((field.log(coefficient) + growth * from) % field.order, growth);
                count += 1;
            }
        }
        let (end, constant) = (self.codeword_bits() as u32, locator.coefficients[0]);
        for position in (from..end).step_by(STEP) {
            let mut values = [constant; STEP];
            for (logarithm, growth) in &mut terms[..count] {
                let powers = &field.power[*logarithm as usize..];
                for (ahead, value) in values.iter_mut().enumerate() {
                    *value ^= powers[ahead * *growth as usize];
                }
                // Growth is at most t, so 8 of them are at most twice the order in the smallest fields.
                *logarithm += STEP as u32 * *growth;
                while *logarithm >= field.order {
                    *logarithm -= field.order;
                }
            }
            if let Some(ahead) = values.iter().position(|&value| value == 0) {
                let position = position + ahead as u32;
                return (position < end).then_some(position);
            }
        }
        None
    }
}

impl Locator {
    /// Divides by (x − `root`), by Horner's rule.
    fn divide_out(&mut self, field: &Field, root: u16) {
        let mut carry = 0;
        for coefficient in self.coefficients[..=self.degree].iter_mut().rev() {
            (*coefficient, carry) = (carry, *coefficient ^ field.multiply(carry, root));
        }
        debug_assert_eq!(carry, 0, "a root leaves no remainder");
        self.degree -= 1;
    }
}

/// The product of the minimal polynomials of α, α³, …, α^(2t−1), coefficients from the lowest.
fn generator(field: &Field, correctable: usize) -> Vec<bool> {
    let mut seen = vec![false; field.order as usize];
    let mut product = vec![true];
    for odd in (1..2 * correctable as u32).step_by(2) {
        if seen[odd as usize] {
            continue;
        }
        // Conjugates of a root are its squares.
        let mut minimal = vec![1u16];
        let mut exponent = odd;
        while !seen[exponent as usize] {
            seen[exponent as usize] = true;
            let root = field.power(exponent);
            minimal.push(0);
            for index in (0..minimal.len()).rev() {
                let below = if index > 0 { minimal[index - 1] } else { 0 };
                minimal[index] = below ^ field.multiply(minimal[index], root);
            }
            exponent = exponent * 2 % field.order;
        }
        let mut next = vec![false; product.len() + minimal.len() - 1];
        for (low, &coefficient) in minimal.iter().enumerate() {
            assert!(coefficient <= 1, "a minimal polynomial has coefficients 0 and 1");
            if coefficient == 1 {
                product.iter().enumerate().for_each(|(index, &bit)| next[low + index] ^= bit);
            }
        }
        product = next;
    }
    product
}

#[cfg(test)]
mod tests;

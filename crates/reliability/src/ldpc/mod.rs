//! Quasi-cyclic low-density parity-check codes.
//!
//! A code is named by its bytes of data and of parity; `matrix.rs` draws its circulants. Bits are numbered from the
//! lowest of the first byte on, so that a circulant is whole 64-bit words, and encoding and checking are rotations and
//! exclusive ors of words. Frames without error end at the check. Others go through the decoder, with one
//! reliability for all bits (hard decoding) or with ratios by sensing level (soft decoding), until all checks hold or
//! 30 iterations are spent.
//!
//! Unlike a BCH code an LDPC code corrects no fixed number of errors, and how often it fails is known from trials
//! alone: `crates/reliability/data/latencies.csv` has them.

mod alist;
mod decoder;
mod matrix;

use crate::code::{CodeError, Corrected, Uncorrectable};
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use decoder::Decoder;
pub use matrix::Block;
use matrix::Matrix;

/// Iterations after which a frame is given up.
pub const MAX_ITERATIONS: u32 = 30;

/// Ratio of a bit about which nothing is known but its value. Min-sum does not depend on it: only leave room to scale.
const HARD: i16 = 64;

/// A quasi-cyclic LDPC code over whole bytes of data.
#[derive(Clone, Debug)]
pub struct Ldpc {
    matrix: Matrix,
}

impl Ldpc {
    /// A code of `parity_bytes` over `data_bytes`.
    ///
    /// # Errors
    /// Circulants do not fit these lengths, or there is no matrix without cycles of four.
    pub fn new(data_bytes: usize, parity_bytes: usize) -> Result<Ldpc, CodeError> {
        Ok(Ldpc { matrix: Matrix::new(data_bytes, parity_bytes)? })
    }

    /// Bytes of data that a codeword holds.
    pub fn data_bytes(&self) -> usize {
        self.matrix.data_columns * self.matrix.circulant / 8
    }

    /// Bytes of parity.
    pub fn parity_bytes(&self) -> usize {
        self.matrix.rows.len() * self.matrix.circulant / 8
    }

    /// Bits of a codeword.
    pub fn codeword_bits(&self) -> usize {
        8 * (self.data_bytes() + self.parity_bytes())
    }

    /// Rows and columns of a circulant, Z.
    pub fn circulant(&self) -> usize {
        self.matrix.circulant
    }

    /// The parity-check matrix by rows of blocks.
    pub fn rows(&self) -> &[Vec<Block>] {
        &self.matrix.rows
    }

    /// Blocks of the matrix that are not zero: what a decoder handles in an iteration.
    pub fn blocks(&self) -> usize {
        self.matrix.rows.iter().map(Vec::len).sum()
    }

    /// The parity-check matrix in MacKay's alist format, for other people's decoders.
    pub fn alist(&self) -> String {
        alist::render(self)
    }

    /// Writes the parity of `data`.
    ///
    /// # Panics
    /// If a length is not that of the code.
    pub fn encode(&self, data: &[u8], parity: &mut [u8]) {
        assert_eq!((data.len(), parity.len()), (self.data_bytes(), self.parity_bytes()), "lengths of data and parity");
        let (z, data_columns) = (self.words(), self.matrix.data_columns);
        let bits = words(data, &[]);
        // What the data add to each row.
        let rows = &self.matrix.rows;
        let mut sums = vec![0; rows.len() * z];
        for (row, sum) in rows.iter().zip(sums.chunks_exact_mut(z)) {
            for block in row.iter().filter(|block| block.column < data_columns) {
                add_rotated(sum, &bits[block.column * z..][..z], block.rotation);
            }
        }
        let mut columns = vec![0; rows.len() * z];
        let (first, staircase) = columns.split_at_mut(z);
        for sum in sums.chunks_exact(z) {
            first.iter_mut().zip(sum).for_each(|(word, more)| *word ^= more);
        }
        let mut step = vec![0; z];
        for (index, (row, sum)) in rows.iter().zip(sums.chunks_exact(z)).take(rows.len() - 1).enumerate() {
            step.iter_mut().zip(sum).for_each(|(word, more)| *word ^= more);
            if let Some(block) = row.iter().find(|block| block.column == data_columns) {
                add_rotated(&mut step, first, block.rotation);
            }
            staircase[index * z..][..z].copy_from_slice(&step);
        }
        for (bytes, word) in parity.chunks_exact_mut(8).zip(&columns) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
    }

    /// Whether all checks hold.
    ///
    /// # Panics
    /// If a length is not that of the code.
    pub fn is_codeword(&self, data: &[u8], parity: &[u8]) -> bool {
        assert_eq!((data.len(), parity.len()), (self.data_bytes(), self.parity_bytes()), "lengths of data and parity");
        self.holds(&words(data, parity))
    }

    /// Corrects `data` and `parity` in place from the bits alone.
    ///
    /// # Errors
    /// The checks do not hold after [`MAX_ITERATIONS`], and then nothing is changed.
    ///
    /// # Panics
    /// If a length is not that of the code.
    pub fn decode(&self, data: &mut [u8], parity: &mut [u8]) -> Result<Corrected, Uncorrectable> {
        assert_eq!((data.len(), parity.len()), (self.data_bytes(), self.parity_bytes()), "lengths of data and parity");
        let read = words(data, parity);
        if self.holds(&read) {
            return Ok(Corrected { bits: 0, iterations: 0 });
        }
        let mut ratios = vec![0; self.codeword_bits()];
        for (ratios, word) in ratios.as_chunks_mut::<64>().0.iter_mut().zip(&read) {
            for (bit, ratio) in ratios.iter_mut().enumerate() {
                *ratio = HARD - 2 * HARD * (word >> bit & 1) as i16;
            }
        }
        self.finish(Decoder::new(&self.matrix, ratios), &read, data, parity)
    }

    /// Corrects from log-likelihood ratios, one for each bit of data and parity in the order of the code, positive for
    /// 0, in any unit of which 8000 are certainty; a unit of 1/16 serves well. Writes `data` and `parity`; bits that
    /// the ratios had wrong count as corrected.
    ///
    /// # Errors
    /// The checks do not hold after [`MAX_ITERATIONS`]; data and parity are then not written.
    ///
    /// # Panics
    /// If a length is not that of the code.
    pub fn decode_soft(&self, ratios: &[i16], data: &mut [u8], parity: &mut [u8]) -> Result<Corrected, Uncorrectable> {
        assert_eq!(ratios.len(), self.codeword_bits(), "a ratio for each bit");
        assert_eq!((data.len(), parity.len()), (self.data_bytes(), self.parity_bytes()), "lengths of data and parity");
        let decoder = Decoder::new(&self.matrix, ratios.to_vec());
        let mut read = vec![0; self.codeword_bits() / 64];
        decoder.decide(&mut read);
        if self.holds(&read) {
            write(&read, data, parity);
            return Ok(Corrected { bits: 0, iterations: 0 });
        }
        self.finish(decoder, &read, data, parity)
    }

    fn finish(
        &self,
        mut decoder: Decoder<'_>,
        read: &[u64],
        data: &mut [u8],
        parity: &mut [u8],
    ) -> Result<Corrected, Uncorrectable> {
        let mut bits = vec![0; read.len()];
        for iterations in 1..=MAX_ITERATIONS {
            decoder.iterate();
            decoder.decide(&mut bits);
            if self.holds(&bits) {
                write(&bits, data, parity);
                let changed = bits.iter().zip(read).map(|(now, before)| (now ^ before).count_ones()).sum();
                return Ok(Corrected { bits: changed, iterations });
            }
        }
        Err(Uncorrectable { iterations: MAX_ITERATIONS })
    }

    fn holds(&self, bits: &[u64]) -> bool {
        let z = self.words();
        let mut sum = vec![0; z];
        self.matrix.rows.iter().all(|row| {
            sum.fill(0);
            row.iter().for_each(|block| add_rotated(&mut sum, &bits[block.column * z..][..z], block.rotation));
            sum.iter().all(|&word| word == 0)
        })
    }

    /// Words of a circulant.
    fn words(&self) -> usize {
        self.matrix.circulant / 64
    }
}

/// Data and parity as words.
fn words(data: &[u8], parity: &[u8]) -> Vec<u64> {
    let (data, parity) = (data.as_chunks::<8>().0, parity.as_chunks::<8>().0);
    data.iter().chain(parity).map(|bytes| u64::from_le_bytes(*bytes)).collect()
}

/// Data and parity from words.
fn write(bits: &[u64], data: &mut [u8], parity: &mut [u8]) {
    let (data, parity) = (data.as_chunks_mut::<8>().0, parity.as_chunks_mut::<8>().0);
    data.iter_mut().chain(parity).zip(bits).for_each(|(bytes, word)| *bytes = word.to_le_bytes());
}

/// Adds a column to a row: bit k of the sum gets bit (k + rotation) mod Z.
fn add_rotated(sum: &mut [u64], column: &[u64], rotation: usize) {
    let (skip, shift) = (rotation / 64, rotation % 64);
    let count = column.len();
    let sum = &mut sum[..count];
    // Each word of the sum takes the upper part of one word and the lower part of the next; shifted in two steps, since
    // one by 64 is none.
    let mut from = skip;
    let mut word = column[from];
    for into in sum {
        from = if from + 1 == count { 0 } else { from + 1 };
        let next = column[from];
        *into ^= word >> shift | next << 1 << (63 - shift);
        word = next;
    }
}

#[cfg(test)]
mod tests;

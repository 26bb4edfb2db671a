//! The decoder: layered, normalised min-sum on integers.
//!
//! Each bit has a log-likelihood ratio, positive for 0. A row of blocks is a layer: its messages of the last iteration
//! are taken out of the ratios, every check answers each of its bits with the least reliability among the others and
//! the product of their signs, and the answers go in again, so that the next layer already profits from them (Mansour
//! and Shanbhag 2003; Hocevar 2004). The least of the others overestimates what a check knows; it is scaled by 3/4
//! (normalised min-sum, Chen and Fossorier 2002). A layer treats all Z checks of its circulants at a time, in arrays of
//! 16 bits over which the loops become vector instructions.

use super::matrix::Matrix;
use alloc::vec;
use alloc::vec::Vec;

/// Largest ratio that is kept. Doubts are small numbers and certainty is bounded, so that errors can still be
/// overruled.
const LIMIT: i16 = 8191;

/// Ratios, messages and what a layer works with.
pub(super) struct Decoder<'a> {
    matrix: &'a Matrix,
    ratios: Vec<i16>,
    messages: Vec<i16>,
    least: Vec<i16>,
    second: Vec<i16>,
    signs: Vec<i16>,
    sums: Vec<i16>,
}

impl<'a> Decoder<'a> {
    pub(super) fn new(matrix: &'a Matrix, ratios: Vec<i16>) -> Decoder<'a> {
        let blocks: usize = matrix.rows.iter().map(Vec::len).sum();
        let z = matrix.circulant;
        Decoder {
            matrix,
            ratios,
            messages: vec![0; blocks * z],
            least: vec![0; z],
            second: vec![0; z],
            signs: vec![0; z],
            sums: vec![0; z],
        }
    }

    /// Goes through all layers once.
    pub(super) fn iterate(&mut self) {
        let z = self.matrix.circulant;
        let mut messages = self.messages.as_mut_slice();
        for row in &self.matrix.rows {
            let (mine, rest) = messages.split_at_mut(row.len() * z);
            messages = rest;
            self.least.fill(i16::MAX);
            self.second.fill(i16::MAX);
            self.signs.fill(0);
            for (block, message) in row.iter().zip(mine.chunks_exact_mut(z)) {
                let column = &self.ratios[block.column * z..][..z];
                let (high, low) = column.split_at(block.rotation);
                self.sums[..low.len()].copy_from_slice(low);
                self.sums[low.len()..].copy_from_slice(high);
                gather(&self.sums, message, &mut self.least, &mut self.second, &mut self.signs);
            }
            for (block, message) in row.iter().zip(mine.chunks_exact_mut(z)) {
                answer(&mut self.sums, message, &self.least, &self.second, &self.signs);
                let column = &mut self.ratios[block.column * z..][..z];
                let (high, low) = column.split_at_mut(block.rotation);
                low.copy_from_slice(&self.sums[..low.len()]);
                high.copy_from_slice(&self.sums[low.len()..]);
            }
        }
    }

    /// Writes what the ratios say the bits are.
    pub(super) fn decide(&self, bits: &mut [u64]) {
        for (word, ratios) in bits.iter_mut().zip(self.ratios.as_chunks::<64>().0) {
            *word = 0;
            for (bit, &ratio) in ratios.iter().enumerate() {
                *word |= u64::from(ratio < 0) << bit;
            }
        }
    }
}

/// Takes a block's messages out of its ratios, leaves the rest in their place, and counts it in.
fn gather(ratios: &[i16], messages: &mut [i16], least: &mut [i16], second: &mut [i16], signs: &mut [i16]) {
    let count = ratios.len();
    let (messages, least) = (&mut messages[..count], &mut least[..count]);
    let (second, signs) = (&mut second[..count], &mut signs[..count]);
    for k in 0..count {
        let rest = ratios[k].saturating_sub(messages[k]).clamp(-LIMIT, LIMIT);
        let size = rest.abs();
        second[k] = second[k].min(size.max(least[k]));
        least[k] = least[k].min(size);
        signs[k] ^= rest;
        messages[k] = rest;
    }
}

/// Answers a block: its new messages, and its ratios with them. The bit that has the least reliability is answered with
/// the second; where two are least, both are the same.
fn answer(ratios: &mut [i16], messages: &mut [i16], least: &[i16], second: &[i16], signs: &[i16]) {
    let count = ratios.len();
    let (messages, least) = (&mut messages[..count], &least[..count]);
    let (second, signs) = (&second[..count], &signs[..count]);
    for k in 0..count {
        let (rest, least, second) = (messages[k], least[k], second[k]);
        // Without a branch, for which there is no vector instruction: all ones where this bit is the least reliable.
        let own = -i16::from(rest.abs() == least);
        let size = least ^ ((least ^ second) & own);
        let scaled = size - (size >> 2);
        // All ones where the other bits of the check say 1.
        let sign = (signs[k] ^ rest) >> 15;
        let message = (scaled ^ sign) - sign;
        messages[k] = message;
        // At most LIMIT and three quarters of it.
        ratios[k] = rest + message;
    }
}

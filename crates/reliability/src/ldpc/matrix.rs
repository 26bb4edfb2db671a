//! The parity-check matrix: circulants in an array, no cycle of four, an encoder for free.
//!
//! The matrix is an array of Z×Z blocks, each zero or the identity with its columns rotated ("quasi-cyclic"). Data
//! columns have four blocks each where that fits, else three. The parity columns are those of IEEE 802.11n and
//! 802.16e: one with three blocks, of which the outer two are rotated alike, and a staircase of identities. All rows
//! added up leave the first parity column alone, and each row then gives the next one: encoding is a sum and a walk.
//!
//! ```text
//!    data columns            │ parity
//!    s   ·   s   s   ·  …    │ 1  0  ·  ·  ·        s a rotation, · a zero block
//!    s   s   ·   s   s  …    │ ·  0  0  ·  ·
//!    ·   s   s   s   s  …    │ 0  ·  0  0  ·
//!    s   s   s   ·   s  …    │ ·  ·  ·  0  0
//!    s   s   s   s   s  …    │ 1  ·  ·  ·  0
//! ```
//!
//! Two columns that meet in two rows close a cycle of four exactly if the difference of their rotations is the same in
//! both (Fossorier, "Quasi-cyclic low-density parity-check codes from circulant permutation matrices", IEEE Trans. Inf.
//! Theory 2004). Rotations are drawn one after the other from those whose differences are still free, so the girth is
//! six or more by construction; which they are follows from a fixed seed, so a shape always has the same code.

use crate::code::CodeError;
use alloc::vec;
use alloc::vec::Vec;
use flash::Rng;

/// Columns of data that a code has as a rule: of longer frames the circulants are larger.
const DATA_COLUMNS: usize = 128;

/// Bits of a word; circulants are whole words.
const WORD: usize = 64;

/// Draws of one column before a shape is given up.
const ATTEMPTS: usize = 400;

/// A block that is not zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Block {
    /// Its column of blocks; parity follows data.
    pub column: usize,
    /// Bit k of its row checks bit (k + rotation) mod Z of its column.
    pub rotation: usize,
}

/// The blocks of a matrix, by rows.
#[derive(Clone, Debug)]
pub(super) struct Matrix {
    pub(super) circulant: usize,
    pub(super) data_columns: usize,
    pub(super) rows: Vec<Vec<Block>>,
}

impl Matrix {
    /// For these numbers of bytes.
    pub(super) fn new(data_bytes: usize, parity_bytes: usize) -> Result<Matrix, CodeError> {
        if data_bytes == 0 || parity_bytes == 0 {
            return Err(CodeError::Empty);
        }
        // The largest power of two that leaves as many columns as a rule has.
        let circulant = 1 << (8 * data_bytes / DATA_COLUMNS).max(WORD).ilog2();
        if !(8 * data_bytes).is_multiple_of(circulant) {
            return Err(CodeError::Shape { data_bytes, granule: circulant / 8 });
        }
        if !(8 * parity_bytes).is_multiple_of(circulant) {
            return Err(CodeError::Granularity { data_bytes, parity_bytes, granule: circulant / 8 });
        }
        let (data_columns, rows) = (8 * data_bytes / circulant, 8 * parity_bytes / circulant);
        if !(4..=data_columns).contains(&rows) {
            return Err(CodeError::Rate { data_bytes, parity_bytes, least: 4 * circulant / 8, most: data_bytes });
        }
        [4, 3]
            .iter()
            .find_map(|&weight| draw(circulant, data_columns, rows, weight))
            .map(|rows| Matrix { circulant, data_columns, rows })
            .ok_or(CodeError::Rate { data_bytes, parity_bytes, least: parity_bytes + circulant / 8, most: data_bytes })
    }
}

/// Differences of rotations that two rows have already.
struct Used {
    circulant: usize,
    rows: usize,
    taken: Vec<bool>,
}

impl Used {
    fn at(&self, (row, rotation): (usize, usize), (other, other_rotation): (usize, usize)) -> usize {
        debug_assert!(row < other);
        let difference = (self.circulant + rotation - other_rotation) % self.circulant;
        (row * self.rows + other) * self.circulant + difference
    }

    fn take(&mut self, column: &[(usize, usize)]) {
        for (index, &one) in column.iter().enumerate() {
            for &other in &column[index + 1..] {
                let at = self.at(one, other);
                debug_assert!(!self.taken[at], "a cycle of four");
                self.taken[at] = true;
            }
        }
    }
}

/// The rows of a matrix whose data columns have `weight` blocks, if the draws find one.
fn draw(circulant: usize, data_columns: usize, row_count: usize, weight: usize) -> Option<Vec<Vec<Block>>> {
    let mut used = Used { circulant, rows: row_count, taken: vec![false; row_count * row_count * circulant] };
    let mut columns = vec![Vec::new(); data_columns];
    // The staircase takes differences first, for it has no choice.
    columns.push(vec![(0, 1), (row_count / 2, 0), (row_count - 1, 1)]);
    columns.extend((1..row_count).map(|row| vec![(row - 1, 0), (row, 0)]));
    columns.iter().for_each(|column| used.take(column));
    let mut rng = Rng::new(0x1dbc).fork("circulants");
    let mut loads = vec![0usize; row_count];
    for column in &mut columns[..data_columns] {
        let found = (0..ATTEMPTS).find_map(|_| {
            // The rows with fewest blocks, ties at random, so that all rows check equally many bits.
            let mut order: Vec<(usize, u64, usize)> =
                loads.iter().enumerate().map(|(row, &load)| (load, rng.bits(), row)).collect();
            order.sort_unstable();
            let mut chosen: Vec<usize> = order[..weight].iter().map(|&(_, _, row)| row).collect();
            chosen.sort_unstable();
            let mut drawn: Vec<(usize, usize)> = Vec::with_capacity(weight);
            for row in chosen {
                let free =
                    |rotation: &usize| drawn.iter().all(|&before| !used.taken[used.at(before, (row, *rotation))]);
                let candidates: Vec<usize> = (0..circulant).filter(free).collect();
                if candidates.is_empty() {
                    return None;
                }
                let rotation = candidates[rng.below(candidates.len() as u64) as usize];
                drawn.push((row, rotation));
            }
            Some(drawn)
        })?;
        used.take(&found);
        found.iter().for_each(|&(row, _)| loads[row] += 1);
        *column = found;
    }
    let mut rows = vec![Vec::new(); row_count];
    for (column, blocks) in columns.iter().enumerate() {
        blocks.iter().for_each(|&(row, rotation)| rows[row].push(Block { column, rotation }));
    }
    Some(rows)
}

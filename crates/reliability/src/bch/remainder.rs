//! Remainders of long polynomials by the generator polynomial, eight bytes at a time.
//!
//! A remainder of r bits stands in ⌈r/64⌉ words, its highest coefficient at the top of the first. Eight more bytes of
//! the dividend are taken in by one step: they are added to the first word, the words move up by one, and what the
//! first word stood for is replaced by its remainder, the sum of one table row for each of its bytes ("slicing"). Rows
//! are whole arrays of words, so that adding them is done by vector instructions.

use alloc::vec;
use alloc::vec::Vec;

/// Bytes that one step takes in.
const SLICES: usize = 8;

/// Most words that a remainder may have.
pub(super) const MAX_WORDS: usize = 16;

/// Rows of remainders: of b(x)·x^(8(7−j))·x^r for slice j and byte b.
#[derive(Clone, Debug)]
pub(super) struct Divider {
    words: usize,
    rows: Vec<u64>,
}

/// A remainder; words beyond those of the divider are 0.
pub(super) type Remainder = [u64; MAX_WORDS];

impl Divider {
    /// For a generator of degree `bits`, without its highest coefficient, at the top of `generator`.
    pub(super) fn new(generator: &[u64]) -> Divider {
        let words = generator.len();
        assert!((1..=MAX_WORDS).contains(&words), "a generator of {words} words");
        let mut rows = vec![0; SLICES * 256 * words];
        let row = |slice: usize, byte: usize| {
            let start = (slice * 256 + byte) * words;
            start..start + words
        };
        for byte in 0..256 {
            // Bit by bit, from the highest: as a shift register with feedback divides.
            let mut state = vec![0; words];
            state[0] = (byte as u64) << 56;
            for _ in 0..8 {
                let carry = state[0] >> 63 == 1;
                shift_left(&mut state, 1);
                if carry {
                    state.iter_mut().zip(generator).for_each(|(word, tap)| *word ^= tap);
                }
            }
            rows[row(SLICES - 1, byte)].copy_from_slice(&state);
        }
        for slice in (0..SLICES - 1).rev() {
            for byte in 0..256 {
                let mut state = rows[row(slice + 1, byte)].to_vec();
                let top = (state[0] >> 56) as usize;
                shift_left(&mut state, 8);
                state.iter_mut().zip(&rows[row(SLICES - 1, top)]).for_each(|(word, more)| *word ^= more);
                rows[row(slice, byte)].copy_from_slice(&state);
            }
        }
        Divider { words, rows }
    }

    /// The remainder of data(x)·x^r, where the first byte's highest bit is the highest coefficient.
    pub(super) fn remainder(&self, data: &[u8]) -> Remainder {
        let mut whole = [0; MAX_WORDS];
        macro_rules! by_words {
            ($($words:literal)*) => {
                match self.words {
                    $($words => whole[..$words].copy_from_slice(&divide::<$words>(&self.rows, data)),)*
                    words => unreachable!("a divider of {words} words"),
                }
            };
        }
        by_words!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16);
        whole
    }
}

fn shift_left(words: &mut [u64], bits: u32) {
    let mut below = 0;
    for word in words.iter_mut().rev() {
        let out = *word >> (64 - bits);
        *word = *word << bits | below;
        below = out;
    }
}

fn divide<const WORDS: usize>(rows: &[u64], data: &[u8]) -> [u64; WORDS] {
    let (rows, _) = rows.as_chunks::<WORDS>();
    let rows: &[[u64; WORDS]; SLICES * 256] = rows.try_into().expect("a row for each byte of each slice");
    let (steps, rest) = data.as_chunks::<SLICES>();
    let mut state = [0; WORDS];
    for step in steps {
        let head = state[0] ^ u64::from_be_bytes(*step);
        let mut next = [0; WORDS];
        next[..WORDS - 1].copy_from_slice(&state[1..]);
        for slice in 0..SLICES {
            let byte = (head >> (56 - 8 * slice)) as usize & 0xff;
            let row = &rows[slice * 256 + byte];
            for word in 0..WORDS {
                next[word] ^= row[word];
            }
        }
        state = next;
    }
    for &byte in rest {
        let row = &rows[(SLICES - 1) * 256 + (usize::from(byte) ^ (state[0] >> 56) as usize)];
        shift_left(&mut state, 8);
        for word in 0..WORDS {
            state[word] ^= row[word];
        }
    }
    state
}

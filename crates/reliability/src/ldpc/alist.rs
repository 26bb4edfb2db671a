//! The parity-check matrix as others read it: MacKay's alist format.
//!
//! Numbers of columns and rows, the largest weights of each, the weight of every column, of every row, then for every
//! column the rows that it is in and for every row its columns, counted from 1 and filled up with zeros.

use super::Ldpc;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt::Write;

/// The matrix of a code, its bits numbered as the code numbers them.
pub(super) fn render(code: &Ldpc) -> String {
    let z = code.circulant();
    let mut rows: Vec<Vec<usize>> = Vec::new();
    for row in code.rows() {
        for k in 0..z {
            let mut bits: Vec<usize> = row.iter().map(|block| block.column * z + (k + block.rotation) % z).collect();
            bits.sort_unstable();
            rows.push(bits);
        }
    }
    let mut columns = vec![Vec::new(); code.codeword_bits()];
    for (number, bits) in rows.iter().enumerate() {
        bits.iter().for_each(|&bit| columns[bit].push(number));
    }
    let most = |lists: &[Vec<usize>]| lists.iter().map(Vec::len).max().unwrap_or(0);
    let mut text = String::new();
    line(&mut text, [columns.len(), rows.len()]);
    line(&mut text, [most(&columns), most(&rows)]);
    line(&mut text, columns.iter().map(Vec::len));
    line(&mut text, rows.iter().map(Vec::len));
    for lists in [&columns, &rows] {
        let width = most(lists);
        for list in lists {
            let numbers = list.iter().map(|&number| number + 1);
            line(&mut text, numbers.chain(core::iter::repeat(0)).take(width));
        }
    }
    text
}

fn line(text: &mut String, numbers: impl IntoIterator<Item = usize>) {
    for (index, number) in numbers.into_iter().enumerate() {
        let blank = if index > 0 { " " } else { "" };
        write!(text, "{blank}{number}").expect("a string takes everything");
    }
    text.push('\n');
}

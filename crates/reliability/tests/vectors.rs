//! Our codes beside others': vectors that `scripts/code-vectors.py` made with the kernel's BCH library, with `galois`,
//! with Gaussian elimination over our matrices and with the decoder of the package `ldpc`. The script says what a line
//! means.

use reliability::{Bch, Code, Ldpc, Uncorrectable};

const VECTORS: &str = include_str!("../data/vectors.txt");

/// Data of a seed: bytes from splitmix64.
fn data(seed: u64, count: usize) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    };
    (0..count).map(|_| next() as u8).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Flips bits of data and parity; the number of a bit within its byte becomes a mask.
fn flip(errors: &str, mask: fn(usize) -> u8, data: &mut [u8], parity: &mut [u8]) {
    for position in errors.split(',').map(|number| number.parse::<usize>().unwrap()) {
        let byte = match (position / 8).checked_sub(data.len()) {
            None => &mut data[position / 8],
            Some(index) => &mut parity[index],
        };
        *byte ^= mask(position % 8);
    }
}

/// Lines of a kind, split into fields.
fn lines(kind: &str) -> Vec<Vec<&'static str>> {
    let fields = VECTORS.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let found: Vec<_> = fields.filter(|fields| fields[0] == kind).map(|fields| fields[1..].to_vec()).collect();
    assert!(found.len() >= 5, "{} vectors of {kind}", found.len());
    found
}

fn number(text: &str) -> usize {
    text.parse().unwrap()
}

fn bch(fields: &[&str]) -> Bch {
    Bch::over(number(fields[0]) as u32, number(fields[2]), number(fields[1])).unwrap()
}

#[test]
fn bch_parities_are_those_of_the_kernel_and_of_galois() {
    for fields in lines("bch") {
        let code = Code::Bch(bch(&fields));
        let data = data(number(fields[3]) as u64, code.data_bytes());
        assert_eq!(hex(&code.encode(&data)), fields[4], "{fields:?}");
    }
}

#[test]
fn bch_corrects_and_gives_up_where_the_kernel_does() {
    let mut given_up = 0;
    for fields in lines("bch-read") {
        let code = bch(&fields);
        let written = data(number(fields[3]) as u64, code.data_bytes());
        let mut written_parity = vec![0; code.parity_bytes()];
        code.encode(&written, &mut written_parity);
        let (mut read, mut parity) = (written.clone(), written_parity.clone());
        flip(fields[4], |bit| 0x80 >> bit, &mut read, &mut parity);
        match (code.decode(&mut read, &mut parity), fields[5]) {
            (Ok(corrected), count) => {
                assert_eq!(corrected.bits as usize, number(count), "{fields:?}");
                if fields[4].split(',').count() <= code.correctable() {
                    assert!(read == written && parity == written_parity, "{fields:?}");
                }
            }
            (Err(Uncorrectable { .. }), told) => {
                assert_eq!(told, "-", "{fields:?}");
                given_up += 1;
            }
        }
    }
    assert!(given_up > 10, "vectors beyond t");
}

#[test]
fn ldpc_parities_solve_the_checks() {
    for fields in lines("ldpc") {
        let code = Code::Ldpc(Ldpc::new(number(fields[0]), number(fields[1])).unwrap());
        let data = data(number(fields[2]) as u64, code.data_bytes());
        assert_eq!(hex(&code.encode(&data)), fields[3], "{fields:?}");
    }
}

#[test]
fn ldpc_corrects_what_another_min_sum_decoder_corrects() {
    for fields in lines("ldpc-read") {
        let code = Code::Ldpc(Ldpc::new(number(fields[0]), number(fields[1])).unwrap());
        let written = data(number(fields[2]) as u64, code.data_bytes());
        let written_parity = code.encode(&written);
        let (mut read, mut parity) = (written.clone(), written_parity.clone());
        flip(fields[3], |bit| 1 << bit, &mut read, &mut parity);
        let corrected = code.decode(&mut read, &mut parity).unwrap();
        assert_eq!(corrected.bits as usize, fields[3].split(',').count(), "{fields:?}");
        assert!(read == written && parity == written_parity, "{fields:?}");
    }
}

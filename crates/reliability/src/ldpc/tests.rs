//! Tests of LDPC codes: the matrix, the encoder against it, and what the decoder brings back.

use super::*;
use alloc::collections::BTreeMap;
use flash::Rng;
use proptest::prelude::*;

fn bytes(rng: &mut Rng, count: usize) -> Vec<u8> {
    (0..count).map(|_| rng.bits() as u8).collect()
}

/// Flips each bit with probability `p`, and says how many.
fn flip(rng: &mut Rng, bytes: &mut [u8], p: f64) -> u32 {
    let mut count = 0;
    for byte in bytes {
        for bit in 0..8 {
            if rng.chance(p) {
                *byte ^= 1 << bit;
                count += 1;
            }
        }
    }
    count
}

/// The matrix bit by bit: for each check the bits that it adds.
fn checks(code: &Ldpc) -> Vec<Vec<usize>> {
    let z = code.circulant();
    let mut checks = Vec::new();
    for row in code.rows() {
        for k in 0..z {
            checks.push(row.iter().map(|block| block.column * z + (k + block.rotation) % z).collect());
        }
    }
    checks
}

#[test]
fn no_two_bits_share_two_checks() {
    for (data_bytes, parity_bytes) in [(1024, 56), (1024, 128), (4096, 192), (4096, 512)] {
        let code = Ldpc::new(data_bytes, parity_bytes).unwrap();
        let mut together = BTreeMap::new();
        for (number, check) in checks(&code).iter().enumerate() {
            for (index, &one) in check.iter().enumerate() {
                for &other in &check[index + 1..] {
                    let pair = (one.min(other), one.max(other));
                    assert!(one != other, "a bit twice in check {number}");
                    assert_eq!(together.insert(pair, number), None, "{pair:?} share checks: a cycle of four");
                }
            }
        }
    }
}

#[test]
fn what_is_encoded_fulfils_every_check_bit_by_bit() {
    let mut rng = Rng::new(5);
    for (data_bytes, parity_bytes) in [(512, 48), (1024, 56), (4096, 224), (8192, 1024)] {
        let code = Ldpc::new(data_bytes, parity_bytes).unwrap();
        assert_eq!((code.data_bytes(), code.parity_bytes()), (data_bytes, parity_bytes));
        let data = bytes(&mut rng, data_bytes);
        let mut parity = vec![0; parity_bytes];
        code.encode(&data, &mut parity);
        let bit = |index: usize| match index.checked_sub(8 * data_bytes) {
            None => data[index / 8] >> (index % 8) & 1,
            Some(index) => parity[index / 8] >> (index % 8) & 1,
        };
        for check in checks(&code) {
            assert_eq!(check.iter().fold(0, |sum, &index| sum ^ bit(index)), 0);
        }
        assert!(code.is_codeword(&data, &parity));
        let mut wrong = data.clone();
        wrong[rng.below(data_bytes as u64) as usize] ^= 1 << rng.below(8);
        assert!(!code.is_codeword(&wrong, &parity));
    }
}

#[test]
fn errors_are_corrected_and_too_many_reported() {
    let code = Ldpc::new(4096, 512).unwrap();
    let mut rng = Rng::new(8);
    let data = bytes(&mut rng, 4096);
    let mut parity = vec![0; 512];
    code.encode(&data, &mut parity);
    let mut iterations = Vec::new();
    for p in [0.0, 1e-4, 1e-3, 3e-3] {
        for _ in 0..20 {
            let (mut read, mut read_parity) = (data.clone(), parity.clone());
            let wrong = flip(&mut rng, &mut read, p) + flip(&mut rng, &mut read_parity, p);
            let corrected = code.decode(&mut read, &mut read_parity).unwrap();
            assert_eq!((corrected.bits, corrected.iterations == 0), (wrong, wrong == 0));
            assert!(read == data && read_parity == parity);
            iterations.push(corrected.iterations);
        }
    }
    assert!(iterations[..20].iter().all(|&count| count == 0) && iterations[60..].iter().all(|&count| count >= 1));
    let (mut read, mut read_parity) = (data.clone(), parity.clone());
    flip(&mut rng, &mut read, 0.05);
    let (kept, kept_parity) = (read.clone(), read_parity.clone());
    assert_eq!(code.decode(&mut read, &mut read_parity), Err(Uncorrectable { iterations: MAX_ITERATIONS }));
    assert!(read == kept && read_parity == kept_parity, "left as it was read");
}

/// Errors whose bits are known to be doubtful are corrected far beyond what hard decoding can.
#[test]
fn doubts_help() {
    let code = Ldpc::new(1024, 128).unwrap();
    let mut rng = Rng::new(9);
    let data = bytes(&mut rng, 1024);
    let mut parity = vec![0; 128];
    code.encode(&data, &mut parity);
    let (mut read, mut read_parity) = (data.clone(), parity.clone());
    let mut ratios: Vec<i16> = Vec::new();
    let mut wrong = 0;
    for byte in read.iter_mut().chain(&mut read_parity) {
        for bit in 0..8 {
            let mut ratio = 160;
            if rng.chance(0.02) {
                *byte ^= 1 << bit;
                ratio = 8;
                wrong += 1;
            }
            ratios.push(if *byte >> bit & 1 == 1 { -ratio } else { ratio });
        }
    }
    assert!(code.decode(&mut read, &mut read_parity).is_err());
    let corrected = code.decode_soft(&ratios, &mut read, &mut read_parity).unwrap();
    assert_eq!(corrected.bits, wrong);
    assert!(read == data && read_parity == parity);
}

#[test]
fn shapes_that_do_not_exist_are_explained() {
    let told = |data_bytes, parity_bytes| {
        alloc::string::ToString::to_string(&Ldpc::new(data_bytes, parity_bytes).unwrap_err())
    };
    assert_eq!(
        told(4100, 64),
        "an LDPC frame of 4100 bytes is no whole number of circulants: take a multiple of 32 bytes, such as 4128"
    );
    assert_eq!(
        told(4096, 200),
        "an LDPC code over 4096 bytes has a multiple of 32 bytes of parity, not 200: take 192 or 224"
    );
    assert!(told(4096, 1).ends_with("not 1: take 32"));
    assert_eq!(
        told(1024, 24),
        "24 bytes of parity over 1024 are a rate of 0.977, which no LDPC code here has: take 32 to 1024 bytes"
    );
    assert_eq!(Ldpc::new(0, 3).unwrap_err(), CodeError::Empty);
}

proptest! {
    #[test]
    fn round_trips(shape in 0usize..4, seed: u64, wrong in 0usize..4) {
        let (data_bytes, parity_bytes) = [(512, 64), (1024, 56), (1024, 128), (2048, 192)][shape];
        let code = Ldpc::new(data_bytes, parity_bytes).unwrap();
        let mut rng = Rng::new(seed);
        let data = bytes(&mut rng, data_bytes);
        let mut parity = vec![0; parity_bytes];
        code.encode(&data, &mut parity);
        let (mut read, mut read_parity) = (data.clone(), parity.clone());
        for _ in 0..wrong {
            let index = rng.below((data_bytes + parity_bytes) as u64) as usize;
            let byte = if index < data_bytes { &mut read[index] } else { &mut read_parity[index - data_bytes] };
            *byte ^= 1 << rng.below(8);
        }
        prop_assert!(code.decode(&mut read, &mut read_parity).is_ok());
        prop_assert!(read == data && read_parity == parity);
    }
}

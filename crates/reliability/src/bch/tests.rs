//! Tests of BCH codes: round trips, what theory says of patterns beyond t, and 10^5 patterns within it.

use super::*;
use flash::Rng;
use proptest::prelude::*;

fn bytes(rng: &mut Rng, count: usize) -> Vec<u8> {
    (0..count).map(|_| rng.bits() as u8).collect()
}

fn flip(code: &Bch, index: usize, data: &mut [u8], parity: &mut [u8]) {
    match index.checked_sub(8 * code.data_bytes()) {
        None => data[index / 8] ^= 0x80 >> (index % 8),
        Some(index) => parity[index / 8] ^= 0x80 >> (index % 8),
    }
}

/// Different positions of a codeword.
fn positions(rng: &mut Rng, code: &Bch, count: usize) -> Vec<usize> {
    let mut chosen = Vec::with_capacity(count);
    while chosen.len() < count {
        let position = rng.below(code.codeword_bits() as u64) as usize;
        if !chosen.contains(&position) {
            chosen.push(position);
        }
    }
    chosen
}

/// Corrects `count` random patterns of 1 to t errors, and says how many bits there were.
fn correct(code: &Bch, count: usize, seed: u64) -> u64 {
    let mut rng = Rng::new(seed);
    let data = bytes(&mut rng, code.data_bytes());
    let mut parity = vec![0; code.parity_bytes()];
    code.encode(&data, &mut parity);
    let (mut read, mut read_parity, mut bits) = (data.clone(), parity.clone(), 0);
    for _ in 0..count {
        let errors = 1 + rng.below(code.correctable() as u64) as usize;
        for position in positions(&mut rng, code, errors) {
            flip(code, position, &mut read, &mut read_parity);
        }
        let done = code.decode(&mut read, &mut read_parity);
        assert_eq!(done, Ok(Corrected { bits: errors as u32, iterations: 0 }));
        assert!(read == data && read_parity == parity);
        bits += errors as u64;
    }
    bits
}

#[test]
fn the_code_of_a_chip_with_24_errors_in_1080_bytes() {
    let code = Bch::new(1038, 24).unwrap();
    assert_eq!((code.field_degree(), code.parity_bits(), code.parity_bytes()), (14, 336, 42));
    assert_eq!(code.codeword_bits(), 8640);
    assert_eq!(Bch::new(1024, 24).unwrap().codeword_bits(), 8528);
}

/// The (15, 7) code that corrects 2 errors has g = x^8 + x^7 + x^6 + x^4 + 1 (Lin and Costello, example 6.1).
#[test]
fn the_generator_of_a_textbook() {
    let g = generator(&Field::new(4), 2);
    let expected = [1, 0, 0, 0, 1, 0, 1, 1, 1].map(|bit| bit == 1);
    assert_eq!(g, expected);
}

#[test]
fn all_patterns_of_up_to_three_errors_in_a_short_code() {
    let code = Bch::over(6, 4, 3).unwrap();
    let data = [0x12, 0x34, 0xab, 0xff];
    let mut parity = vec![0; code.parity_bytes()];
    code.encode(&data, &mut parity);
    let n = code.codeword_bits();
    for a in 0..n {
        for b in a..n {
            for c in b..n {
                let (mut read, mut read_parity) = (data, parity.clone());
                let mut wrong = vec![a, b, c];
                wrong.dedup();
                wrong.iter().for_each(|&position| flip(&code, position, &mut read, &mut read_parity));
                let done = code.decode(&mut read, &mut read_parity).unwrap();
                assert_eq!(done.bits as usize, wrong.len());
                assert!(read == data && read_parity == parity);
            }
        }
    }
}

#[test]
fn a_hundred_thousand_patterns_are_corrected() {
    // Mostly short codes, which take microseconds; the full ones among them.
    for (degree, data_bytes, correctable, count) in
        [(8, 24, 4, 60_000), (10, 100, 8, 30_000), (13, 512, 8, 6_000), (14, 1024, 24, 4_000)]
    {
        let code = Bch::over(degree, data_bytes, correctable).unwrap();
        assert!(correct(&code, count, u64::from(degree)) > count as u64);
    }
}

/// Of the patterns with more than t errors, those within t errors of another codeword are miscorrected, the others are
/// reported. Codewords are spread like random words, so the share of miscorrected patterns is that of words within t
/// errors of any codeword: Σ C(n, i) / 2^r over i ≤ t, near 1/t! in a code of full length.
#[test]
fn patterns_beyond_t_are_reported_as_often_as_spheres_leave_room() {
    for (degree, data_bytes, correctable) in [(8, 29, 2), (10, 124, 2), (9, 60, 3), (10, 121, 3)] {
        let code = Bch::over(degree, data_bytes, correctable).unwrap();
        let n = code.codeword_bits() as f64;
        let mut sphere = 1.0;
        let mut binomial = 1.0;
        for i in 1..=correctable {
            binomial *= (n - i as f64 + 1.0) / i as f64;
            sphere += binomial;
        }
        let expected = sphere / libm::exp2(code.parity_bits() as f64);
        let mut rng = Rng::new(u64::from(degree) + correctable as u64);
        let trials = 20_000;
        let mut miscorrected = 0;
        let data = bytes(&mut rng, data_bytes);
        let mut parity = vec![0; code.parity_bytes()];
        code.encode(&data, &mut parity);
        for _ in 0..trials {
            let (mut read, mut read_parity) = (data.clone(), parity.clone());
            // Far beyond t, so that the distance to the right codeword plays no part.
            for position in positions(&mut rng, &code, 4 * correctable + 3) {
                flip(&code, position, &mut read, &mut read_parity);
            }
            let (kept, kept_parity) = (read.clone(), read_parity.clone());
            match code.decode(&mut read, &mut read_parity) {
                Ok(corrected) => {
                    miscorrected += 1;
                    assert!((1..=correctable as u32).contains(&corrected.bits));
                    let mut right = vec![0; code.parity_bytes()];
                    code.encode(&read, &mut right);
                    assert_eq!(right, read_parity, "what comes out is a codeword");
                }
                Err(_) => assert!(read == kept && read_parity == kept_parity, "left as it was read"),
            }
        }
        // Five standard deviations of the count, and 3 % for codewords that are not quite random.
        let count = trials as f64 * expected;
        let tolerance = 5.0 * libm::sqrt(count * (1.0 - expected)) + 0.03 * count;
        assert!((f64::from(miscorrected) - count).abs() < tolerance, "{miscorrected} of {trials}, expected {count}");
    }
}

/// With t = 24 the spheres fill 1/24! of the space: no pattern that a test finds is miscorrected.
#[test]
fn a_strong_code_reports_everything_beyond_t() {
    let code = Bch::new(1024, 24).unwrap();
    let mut rng = Rng::new(3);
    let data = bytes(&mut rng, 1024);
    let mut parity = vec![0; code.parity_bytes()];
    code.encode(&data, &mut parity);
    for count in (25..60).chain([100, 1000, 4264]) {
        let (mut read, mut read_parity) = (data.clone(), parity.clone());
        for position in positions(&mut rng, &code, count) {
            flip(&code, position, &mut read, &mut read_parity);
        }
        assert_eq!(code.decode(&mut read, &mut read_parity), Err(Uncorrectable { iterations: 0 }), "{count} errors");
    }
}

#[test]
fn codes_that_do_not_exist_are_explained() {
    let told = |code: Result<Bch, CodeError>| alloc::string::ToString::to_string(&code.unwrap_err());
    assert_eq!(
        told(Bch::new(4096, 40)),
        "32768 bits of data and 600 of parity are 33368 bits, more than the 32767 of a codeword: protect less data in \
         a frame or correct fewer errors"
    );
    assert_eq!(told(Bch::new(100, 129)), "t = 129 is too many errors: at most 128 here");
    assert_eq!(told(Bch::over(16, 100, 2)), "GF(2^16) is not supported: m is 3 to 15");
    assert_eq!(Bch::new(0, 3).unwrap_err(), CodeError::Empty);
    // A field in which t reaches the trivial code still encodes and corrects.
    assert!(Bch::new(1, 1).is_ok_and(|code| code.field_degree() == 4));
}

proptest! {
    #[test]
    fn round_trips(data_bytes in 1usize..300, correctable in 1usize..30, seed: u64, beyond in 0usize..5) {
        let code = Bch::new(data_bytes, correctable).unwrap();
        let mut rng = Rng::new(seed);
        let data = bytes(&mut rng, data_bytes);
        let mut parity = vec![0; code.parity_bytes()];
        code.encode(&data, &mut parity);
        let count = (rng.below(correctable as u64 + 1) as usize + beyond).min(code.codeword_bits());
        let (mut read, mut read_parity) = (data.clone(), parity.clone());
        for position in positions(&mut rng, &code, count) {
            flip(&code, position, &mut read, &mut read_parity);
        }
        match code.decode(&mut read, &mut read_parity) {
            Ok(corrected) if count <= correctable => {
                prop_assert_eq!(corrected.bits as usize, count);
                prop_assert!(read == data && read_parity == parity);
            }
            Ok(_) => prop_assert!(read != data || read_parity != parity, "a miscorrection"),
            Err(_) => prop_assert!(count > correctable),
        }
    }
}

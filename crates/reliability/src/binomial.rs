//! How often a code fails, computed where it is too rare to be tried.
//!
//! With independent errors at a raw bit error rate p, a frame of n bits under a code that corrects t errors fails with
//! the probability of more than t errors, the upper tail of the binomial distribution. At the rates of interest it is
//! 10^-15 and less, so everything is summed in logarithms, outward from the largest term, which loses nothing.
//!
//! ```text
//! frame error rate = Σ C(n, i) p^i (1 − p)^(n − i) over i > t      UBER = frame error rate / k, with k bits of data
//! ```

use libm::{exp, lgamma, log, log1p};

/// Natural logarithm of the probability that more than `correctable` of `bits` are wrong, each with probability `rber`.
///
/// # Panics
/// If `rber` is not between 0 and 1.
pub fn ln_frame_error_rate(bits: usize, correctable: usize, rber: f64) -> f64 {
    assert!((0.0..=1.0).contains(&rber), "a rate is between 0 and 1, not {rber}");
    if correctable >= bits || rber == 0.0 {
        return f64::NEG_INFINITY;
    }
    if rber == 1.0 {
        return 0.0;
    }
    let n = bits as f64;
    let first = correctable as f64 + 1.0;
    // The largest term of the tail: the mode, or where the tail begins beyond it.
    let mode = libm::floor((n + 1.0) * rber).min(n);
    let largest = first.max(mode);
    let ln_largest = lgamma(n + 1.0) - lgamma(largest + 1.0) - lgamma(n - largest + 1.0)
        + largest * log(rber)
        + (n - largest) * log1p(-rber);
    let odds = rber / (1.0 - rber);
    let mut sum = 1.0;
    let (mut i, mut term) = (largest, 1.0);
    while i < n && term > sum * 1e-18 {
        term *= (n - i) / (i + 1.0) * odds;
        i += 1.0;
        sum += term;
    }
    (i, term) = (largest, 1.0);
    while i > first && term > sum * 1e-18 {
        term *= i / (n - i + 1.0) / odds;
        i -= 1.0;
        sum += term;
    }
    // A tail that holds nearly everything is 1 up to rounding.
    (ln_largest + log(sum)).min(0.0)
}

/// Probability that more than `correctable` of `bits` are wrong; 0 where it is below 10^-308.
pub fn frame_error_rate(bits: usize, correctable: usize, rber: f64) -> f64 {
    exp(ln_frame_error_rate(bits, correctable, rber))
}

/// The highest raw bit error rate at which a code of `bits`, of which `data_bits` are data, keeps the uncorrectable bit
/// error rate at or below `uber`.
///
/// # Panics
/// If `uber` is not between 0 and 1, or there is no data.
pub fn max_rber(bits: usize, data_bits: usize, correctable: usize, uber: f64) -> f64 {
    assert!(uber > 0.0 && uber < 1.0 && data_bits > 0, "an uncorrectable bit error rate of {uber} over {data_bits}");
    let allowed = log(uber) + log(data_bits as f64);
    // The rate grows with the logarithm of p; 60 halvings exhaust a double.
    let (mut low, mut high) = (log(1e-12), log(0.5));
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if ln_frame_error_rate(bits, correctable, exp(middle)) <= allowed {
            low = middle;
        } else {
            high = middle;
        }
    }
    exp(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Terms by multiplication, summed plainly: right where nothing is tiny.
    fn plainly(bits: usize, correctable: usize, rber: f64) -> f64 {
        let n = bits as f64;
        let mut term = libm::pow(1.0 - rber, n);
        let mut tail = 0.0;
        for i in 0..=bits {
            if i > correctable {
                tail += term;
            }
            term *= (n - i as f64) / (i as f64 + 1.0) * rber / (1.0 - rber);
        }
        tail
    }

    #[test]
    fn agrees_with_plain_sums() {
        for (bits, correctable, rber) in [
            (15, 2, 0.1),
            (15, 2, 0.9),
            (255, 4, 0.01),
            (255, 100, 0.3),
            (8528, 24, 1e-3),
            (8528, 0, 1e-5),
            (100, 99, 0.5),
        ] {
            let (one, other) = (frame_error_rate(bits, correctable, rber), plainly(bits, correctable, rber));
            assert!((one - other).abs() <= 1e-10 * other, "{bits} {correctable} {rber}: {one} {other}");
        }
    }

    #[test]
    fn keeps_its_digits_where_doubles_end() {
        // One term dominates: C(8640, 25) p^25, here as a product.
        let exact = (0..25).map(|i| log((8640 - i) as f64 / (i + 1) as f64)).sum::<f64>() + 25.0 * log(1e-40);
        assert!((ln_frame_error_rate(8640, 24, 1e-40) - exact).abs() < 1e-8);
        assert_eq!(frame_error_rate(8640, 24, 1e-40), 0.0);
        assert_eq!(frame_error_rate(8640, 24, 0.0), 0.0);
        assert!((frame_error_rate(8640, 24, 0.4) - 1.0).abs() < 1e-12);
        assert_eq!(frame_error_rate(8640, 8640, 0.4), 0.0);
        assert_eq!(frame_error_rate(8640, 24, 1.0), 1.0);
    }

    /// What the chip of the SCFTL paper asks for, and the limit that the differentiated-ECC rules use.
    #[test]
    fn twenty_four_errors_in_1080_bytes_bear_an_error_rate_of_5e_4() {
        let limit = max_rber(8640, 8640 - 336, 24, 1e-15);
        assert!((4.95e-4..5.05e-4).contains(&limit), "{limit}");
        let back = ln_frame_error_rate(8640, 24, limit) - log(8304.0);
        assert!((back - log(1e-15)).abs() < 1e-9);
    }
}

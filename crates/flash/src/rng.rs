//! Seeded randomness, forked by purpose.

/// A small, fast, seeded generator (xoshiro256++ seeded by splitmix64; Blackman and Vigna 2019).
///
/// Never share one stream between purposes: [`Rng::fork`] gives each its own, so that adding a draw in one place
/// changes nothing elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rng {
    state: [u64; 4],
}

fn splitmix(x: &mut u64) -> u64 {
    *x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *x;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Rng {
    /// From a seed.
    pub fn new(seed: u64) -> Rng {
        let mut x = seed;
        Rng { state: [splitmix(&mut x), splitmix(&mut x), splitmix(&mut x), splitmix(&mut x)] }
    }

    /// The state, to be saved.
    pub fn state(&self) -> [u64; 4] {
        self.state
    }

    /// From a saved state.
    pub fn from_state(state: [u64; 4]) -> Rng {
        Rng { state }
    }

    /// An independent generator for `purpose`. Does not advance this one.
    #[must_use]
    pub fn fork(&self, purpose: &str) -> Rng {
        let mut x = self.state[0] ^ self.state[2].rotate_left(17);
        for &byte in purpose.as_bytes() {
            x = (x ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        Rng::new(x)
    }

    /// 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        let s = &mut self.state;
        let out = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        out
    }

    /// Uniform in `0..bound` (multiply-shift; the bias is below bound / 2^64).
    ///
    /// # Panics
    /// If `bound` is 0.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "an empty range has no random element");
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// Uniform in [0, 1), 53 bits.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// True with probability `p`.
    #[inline]
    pub fn chance(&mut self, p: f64) -> bool {
        self.unit() < p
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forks_differ_and_do_not_advance_the_parent() {
        let parent = Rng::new(7);
        let before = parent.clone();
        assert_ne!(parent.fork("gc").bits(), parent.fork("host").bits());
        assert_eq!(parent, before);
        assert_eq!(parent.fork("gc").bits(), parent.fork("gc").bits());
    }

    #[test]
    fn below_covers_its_range_evenly() {
        let mut rng = Rng::new(1);
        let mut seen = [0u32; 10];
        for _ in 0..100_000 {
            seen[rng.below(10) as usize] += 1;
        }
        assert!(seen.iter().all(|&n| (9_500..10_500).contains(&n)), "{seen:?}");
    }
}

//! A bijection that spreads consecutive ranks over the address space.
//!
//! If rank 0 were address 0 and rank 1 the next, the hottest pages of a skewed workload would share flash blocks and
//! translation pages by construction, and every scheme that profits from neighbourhood would shine for no reason. A
//! table of a permutation of 16 M items costs 128 MiB and a cache miss per draw; this one costs a few multiplications:
//! odd multiplications and right xor-shifts are bijections of the k-bit integers, and an image beyond `count` is sent
//! round again ("cycle walking", Black and Rogaway 2002), on average less than once.

use flash::Rng;

/// A seeded permutation of `0..count`.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Scatter {
    count: u64,
    mask: u64,
    shift: u32,
    odd: [u64; 3],
    add: u64,
}

impl Scatter {
    /// Of `count` >= 1 items.
    pub(super) fn new(count: u64, mut rng: Rng) -> Scatter {
        assert!(count > 0, "nothing to permute");
        let bits = 64 - (count - 1).leading_zeros();
        let mask = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
        Scatter {
            count,
            mask,
            shift: bits.div_ceil(2).max(1),
            odd: [rng.bits() | 1, rng.bits() | 1, rng.bits() | 1],
            add: rng.bits(),
        }
    }

    /// The image of `index`.
    #[inline]
    pub(super) fn of(&self, index: u64) -> u64 {
        debug_assert!(index < self.count, "{index} is not below {}", self.count);
        let mut x = index;
        loop {
            x = x.wrapping_add(self.add) & self.mask;
            for odd in self.odd {
                x = x.wrapping_mul(odd) & self.mask;
                x ^= x >> self.shift;
            }
            if x < self.count {
                return x;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_bijection_of_every_size() {
        for count in (1..70).chain([1000, 4096, 4097, 65_535]) {
            let scatter = Scatter::new(count, Rng::new(count));
            let mut image: Vec<u64> = (0..count).map(|i| scatter.of(i)).collect();
            image.sort_unstable();
            assert!(image.iter().copied().eq(0..count), "{count}");
        }
    }

    #[test]
    fn neighbours_part() {
        let scatter = Scatter::new(1 << 20, Rng::new(5));
        let near = (0..1000).filter(|&i| scatter.of(i).abs_diff(scatter.of(i + 1)) < 1024).count();
        assert!(near < 20, "{near} of 1000 neighbours stayed within 1024 of each other");
    }
}

//! Request sizes: one, or a mix such as `4KiB*0.7+64KiB*0.3`.

use flash::Rng;

use crate::units::{self, UnitError};

/// The accepted form of a size mix.
const FORM: &str = "one size such as 4KiB, or sizes with shares that add up to 1 such as 4KiB*0.7+64KiB*0.3";

/// Sizes and their shares. Never empty; the shares add up to 1.
#[derive(Clone, PartialEq, Debug)]
pub struct SizeMix {
    parts: Vec<(u64, f64)>,
}

impl SizeMix {
    /// Reads `SIZE` or `SIZE*SHARE+SIZE*SHARE…`.
    ///
    /// # Errors
    /// Anything else, a size of 0, shares that do not add up to 1 (to 1e-6), more than 255 sizes.
    pub fn parse(text: &str) -> Result<SizeMix, UnitError> {
        let fail = |what| UnitError { text: text.to_owned(), what, accepted: FORM };
        let mut parts = Vec::new();
        let items: Vec<_> = text.split('+').collect();
        for item in &items {
            let (size, share) = match item.split_once('*') {
                Some((size, share)) => (size, units::parse_share(share)?),
                None if items.len() == 1 => (*item, 1.0),
                None => return Err(fail("has a size without share")),
            };
            let bytes = units::parse_bytes(size)?;
            if bytes == 0 {
                return Err(fail("has a size of 0"));
            }
            parts.push((bytes, share));
        }
        if (parts.iter().map(|p| p.1).sum::<f64>() - 1.0).abs() > 1e-6 {
            return Err(fail("has shares that do not add up to 1"));
        }
        if parts.len() > 255 {
            return Err(fail("has more than 255 sizes"));
        }
        Ok(SizeMix { parts })
    }

    /// Sizes in bytes, each with its share.
    pub fn parts(&self) -> &[(u64, f64)] {
        &self.parts
    }

    /// The smallest size, in bytes.
    pub fn smallest(&self) -> u64 {
        self.parts.iter().map(|p| p.0).min().expect("a mix is never empty")
    }

    /// The largest size, in bytes.
    pub fn largest(&self) -> u64 {
        self.parts.iter().map(|p| p.0).max().expect("a mix is never empty")
    }
}

/// A discrete distribution drawn in constant time (Walker 1977, in Vose's 1991 construction).
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Alias {
    /// Per column: the bound below which the column itself is drawn, and the column drawn otherwise.
    columns: Vec<(f64, u32)>,
}

impl Alias {
    /// From weights of at least 0 with a positive sum.
    pub(super) fn new(weights: &[f64]) -> Alias {
        let total: f64 = weights.iter().sum();
        assert!(total > 0.0 && weights.iter().all(|w| *w >= 0.0), "weights must be at least 0 and not all 0");
        let mut height: Vec<f64> = weights.iter().map(|w| w / total * weights.len() as f64).collect();
        let (mut low, mut high): (Vec<usize>, Vec<usize>) = (0..height.len()).partition(|&i| height[i] < 1.0);
        let mut columns: Vec<(f64, u32)> = (0..height.len()).map(|i| (1.0, i as u32)).collect();
        while let (Some(&short), Some(&tall)) = (low.last(), high.last()) {
            low.pop();
            columns[short] = (height[short], tall as u32);
            height[tall] -= 1.0 - height[short];
            if height[tall] < 1.0 {
                high.pop();
                low.push(tall);
            }
        }
        Alias { columns }
    }

    /// The index drawn.
    #[inline]
    pub(super) fn draw(&self, rng: &mut Rng) -> usize {
        let x = rng.unit() * self.columns.len() as f64;
        let column = (x as usize).min(self.columns.len() - 1);
        let (bound, other) = self.columns[column];
        if x - (column as f64) < bound { column } else { other as usize }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixes_are_read() {
        assert_eq!(SizeMix::parse("4KiB").unwrap().parts(), &[(4096, 1.0)]);
        let mix = SizeMix::parse("4KiB*0.7+64KiB*0.3").unwrap();
        assert_eq!((mix.smallest(), mix.largest()), (4096, 65536));
        for text in ["", "0", "4KiB*0.7", "4KiB+8KiB", "4KiB*0.7+8KiB*0.4", "4KB", "4KiB*-1+8KiB*2"] {
            assert!(SizeMix::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn alias_draws_the_weights() {
        let weights = [5.0, 0.0, 1.0, 3.0, 1.0];
        let alias = Alias::new(&weights);
        let mut rng = Rng::new(3);
        let mut seen = [0u32; 5];
        for _ in 0..1_000_000 {
            seen[alias.draw(&mut rng)] += 1;
        }
        for (count, weight) in seen.iter().zip(weights) {
            assert!((f64::from(*count) / 1e6 - weight / 10.0).abs() < 0.002, "{seen:?}");
        }
    }
}

//! Arithmetic in GF(2^m) by tables of logarithms.
//!
//! An element is the vector of its coefficients over 1, α, …, α^(m-1), where α is a root of the primitive polynomial of
//! the field. The polynomials are those of the BCH library of the Linux kernel (`lib/bch.c`), so that parities are the
//! same as its.

use alloc::vec;
use alloc::vec::Vec;

/// Primitive polynomials by m, beginning with m = 3; bit i is the coefficient of x^i.
const PRIMITIVE: [u32; 13] = [0xb, 0x13, 0x25, 0x43, 0x83, 0x11d, 0x211, 0x409, 0x805, 0x1053, 0x201b, 0x402b, 0x8003];

/// Powers kept beyond twice the order of α, so that a few steps ahead of any sum of two logarithms can be looked up.
const AHEAD: usize = 1024;

/// GF(2^m) for m from 3 to 15.
#[derive(Clone, Debug)]
pub(super) struct Field {
    /// m.
    pub(super) degree: u32,
    /// 2^m − 1, how many powers α has.
    pub(super) order: u32,
    /// α^i for i up to twice the order and some.
    pub(super) power: Vec<u16>,
    /// Logarithms to the base α; that of 0 is unused.
    logarithm: Vec<u16>,
    /// For each c, a y with y² + y = c, or 0 if there is none; c = 0 has y = 0.
    half: Vec<u16>,
}

impl Field {
    /// The degrees for which there is a field.
    pub(super) const DEGREES: core::ops::RangeInclusive<u32> = 3..=15;

    pub(super) fn new(degree: u32) -> Field {
        assert!(Field::DEGREES.contains(&degree), "no field of degree {degree}");
        let (order, polynomial) = ((1u32 << degree) - 1, PRIMITIVE[degree as usize - 3]);
        let mut power = vec![0; 2 * order as usize + AHEAD];
        let mut logarithm = vec![0; order as usize + 1];
        let mut element = 1;
        for (index, power) in power.iter_mut().enumerate() {
            *power = element as u16;
            if index < order as usize {
                assert!(index == 0 || element != 1, "the polynomial of degree {degree} is not primitive");
                logarithm[element as usize] = index as u16;
            }
            element <<= 1;
            if element > order {
                element ^= polynomial;
            }
        }
        let mut field = Field { degree, order, power, logarithm, half: vec![0; order as usize + 1] };
        for y in 0..=order as u16 {
            let sum = field.multiply(y, y) ^ y;
            field.half[usize::from(sum)] = y;
        }
        field
    }

    /// α^exponent.
    pub(super) fn power(&self, exponent: u32) -> u16 {
        self.power[(exponent % self.order) as usize]
    }

    /// The logarithm of an element that is not 0.
    #[inline]
    pub(super) fn log(&self, element: u16) -> u32 {
        debug_assert!(element != 0, "0 has no logarithm");
        u32::from(self.logarithm[usize::from(element)])
    }

    #[inline]
    pub(super) fn multiply(&self, a: u16, b: u16) -> u16 {
        if a == 0 || b == 0 { 0 } else { self.power[(self.log(a) + self.log(b)) as usize] }
    }

    /// `a` / `b`; `b` is not 0.
    #[inline]
    pub(super) fn divide(&self, a: u16, b: u16) -> u16 {
        if a == 0 { 0 } else { self.power[(self.log(a) + self.order - self.log(b)) as usize] }
    }

    /// The two roots of x² + `b`x + `c` if they are different and in the field.
    ///
    /// With x = by the equation is y² + y = c / b², whose left side is linear over GF(2): a table has its solutions.
    pub(super) fn quadratic_roots(&self, b: u16, c: u16) -> Option<[u16; 2]> {
        if b == 0 {
            return None;
        }
        let right = self.divide(c, self.multiply(b, b));
        let y = self.half[usize::from(right)];
        (self.multiply(y, y) ^ y == right).then(|| {
            let root = self.multiply(b, y);
            [root, root ^ b]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Multiplication without tables: shift and add, reduced by the polynomial.
    fn slowly(field: &Field, a: u16, b: u16) -> u16 {
        let (mut product, mut shifted) = (0u32, u32::from(a));
        for bit in 0..field.degree {
            if b >> bit & 1 == 1 {
                product ^= shifted;
            }
            shifted <<= 1;
            if shifted > field.order {
                shifted ^= PRIMITIVE[field.degree as usize - 3];
            }
        }
        product as u16
    }

    #[test]
    fn multiplication_is_that_of_polynomials() {
        for degree in Field::DEGREES {
            let field = Field::new(degree);
            let mut rng = flash::Rng::new(u64::from(degree));
            let mut element = || rng.below(u64::from(field.order) + 1) as u16;
            for _ in 0..2000 {
                let (a, b) = (element(), element());
                assert_eq!(field.multiply(a, b), slowly(&field, a, b));
                if b != 0 {
                    assert_eq!(field.multiply(field.divide(a, b), b), a);
                }
            }
        }
    }

    #[test]
    fn quadratics_are_solved_exactly_when_they_have_two_roots() {
        let field = Field::new(6);
        for b in 0..64 {
            for c in 0..64 {
                let value = |x: u16| field.multiply(x, x) ^ field.multiply(b, x) ^ c;
                let roots: Vec<u16> = (0..64).filter(|&x| value(x) == 0).collect();
                match field.quadratic_roots(b, c) {
                    Some(mut found) => {
                        found.sort_unstable();
                        assert_eq!(roots, found);
                    }
                    None => assert!(roots.len() < 2, "{b} {c}: {roots:?}"),
                }
            }
        }
    }
}

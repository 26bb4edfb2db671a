//! The parity of a binary BCH code that corrects four errors in 512 bytes.
//!
//! Over GF(2^13), as NAND controllers used it: the generator polynomial is the product of the minimal polynomials of α,
//! α^3, α^5 and α^7, so that it has eight consecutive powers of α among its roots, degree 52, and any two codewords
//! differ in nine bits or more. Here it only detects: up to eight wrong bits for sure, anything else but for one case
//! in 2^52. Correction is the medium's work.
//!
//! The parity is the remainder of the message, shifted up by 52 bits, divided by the generator: a shift register, 32
//! bits at a time by tables. Generator and tables are computed when the crate is compiled.

/// Bytes of message that one parity covers.
pub(crate) const PIECE: usize = 512;
/// Bytes that a parity takes: 52 bits, and four zeros.
pub(crate) const PARITY: usize = 7;

/// Degree of the field over GF(2).
const FIELD: u32 = 13;
/// x^13 + x^4 + x^3 + x + 1, of which α is a root.
const PRIMITIVE: u32 = 0x201b;
/// Degree of the generator.
const DEGREE: usize = 52;
const MASK: u64 = (1 << DEGREE) - 1;

/// The product of two elements of the field.
const fn multiply(mut a: u32, b: u32) -> u32 {
    let (mut product, mut bit) = (0, 0);
    while bit < FIELD {
        if b >> bit & 1 == 1 {
            product ^= a;
        }
        a <<= 1;
        if a >> FIELD == 1 {
            a ^= PRIMITIVE;
        }
        bit += 1;
    }
    product
}

/// The generator without its highest term: the product of x + ρ over all roots ρ. Its coefficients are elements of the
/// field, and in the end all of them are 0 or 1.
const fn generator() -> u64 {
    let mut terms = [0u32; DEGREE + 1];
    terms[0] = 1;
    let (mut degree, mut power, mut root) = (0, 1, 2);
    while power < 8 {
        // The root and its conjugates: squares of one another.
        let mut conjugate = 0;
        while conjugate < FIELD {
            degree += 1;
            let mut term = degree;
            while term > 0 {
                terms[term] = terms[term - 1] ^ multiply(terms[term], root);
                term -= 1;
            }
            terms[0] = multiply(terms[0], root);
            root = multiply(root, root);
            conjugate += 1;
        }
        // After all of them the root is what it was; the next one is that times α^2.
        root = multiply(root, 4);
        power += 2;
    }
    assert!(degree == DEGREE && terms[DEGREE] == 1);
    let (mut low, mut term) = (0, 0);
    while term < DEGREE {
        assert!(terms[term] <= 1, "a coefficient outside of GF(2)");
        low |= (terms[term] as u64) << term;
        term += 1;
    }
    low
}

const GENERATOR: u64 = generator();

/// Bytes that the register takes at once.
const STEP: usize = 4;

/// The register after eight bits, and after `k` times eight zeros more.
static TABLES: [[u64; 256]; STEP] = {
    let mut tables = [[0; 256]; STEP];
    let mut byte = 0;
    while byte < 256 {
        let mut register = (byte as u64) << (DEGREE - 8);
        let mut step = 0;
        while step < STEP {
            let mut bit = 0;
            while bit < 8 {
                let feedback = register >> (DEGREE - 1) & 1;
                register = (register << 1 & MASK) ^ (feedback * GENERATOR);
                bit += 1;
            }
            tables[step][byte] = register;
            step += 1;
        }
        byte += 1;
    }
    tables
};

/// The parity of at most [`PIECE`] bytes.
pub(crate) fn parity(message: &[u8]) -> [u8; PARITY] {
    let mut register = 0u64;
    let steps = message.chunks_exact(STEP);
    let rest = steps.remainder();
    for step in steps {
        let four = (register >> (DEGREE - 32)) as u32 ^ u32::from_be_bytes([step[0], step[1], step[2], step[3]]);
        let after = |zeros: usize| TABLES[zeros][(four >> (zeros * 8)) as usize & 0xff];
        register = (register << 32 & MASK) ^ after(3) ^ after(2) ^ after(1) ^ after(0);
    }
    for byte in rest {
        let index = (register >> (DEGREE - 8)) as u8 ^ byte;
        register = (register << 8 & MASK) ^ TABLES[0][usize::from(index)];
    }
    let [a, b, c, d, e, f, g, _] = (register << (64 - DEGREE)).to_be_bytes();
    [a, b, c, d, e, f, g]
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use flash::Rng;

    fn power(exponent: u32) -> u32 {
        (0..exponent).fold(1, |product, _| multiply(product, 2))
    }

    /// A binary polynomial at a point of the field.
    fn at(polynomial: u64, point: u32) -> u32 {
        (0..64).rev().fold(0, |sum, term| multiply(sum, point) ^ (polynomial >> term & 1) as u32)
    }

    #[test]
    fn alpha_generates_the_field() {
        let mut seen = alloc::collections::BTreeSet::new();
        let mut element = 1;
        while seen.insert(element) {
            element = multiply(element, 2);
        }
        assert_eq!((seen.len(), element), (8191, 1));
    }

    /// By search: the minimal polynomial of an element is the one of least degree that it is a root of.
    #[test]
    fn the_generator_is_the_product_of_the_minimal_polynomials() {
        let minimal = |point| (2u64..1 << 14).find(|&polynomial| at(polynomial, point) == 0).unwrap();
        let minimal = [1, 3, 5, 7].map(|exponent| minimal(power(exponent)));
        assert_eq!(minimal[0], u64::from(PRIMITIVE));
        let product = minimal.iter().fold(1u64, |product, &factor| {
            (0..14).filter(|bit| factor >> bit & 1 == 1).fold(0, |sum, bit| sum ^ product << bit)
        });
        assert_eq!(product, 1 << DEGREE | GENERATOR);
        for exponent in 1..=8 {
            assert_eq!(at(1 << DEGREE | GENERATOR, power(exponent)), 0, "α^{exponent} is a root");
        }
    }

    fn message(rng: &mut Rng) -> Vec<u8> {
        (0..1 + rng.below(PIECE as u64)).map(|_| rng.bits() as u8).collect()
    }

    /// A codeword, highest term first, vanishes at the first eight powers of α.
    #[test]
    fn a_message_with_its_parity_is_a_codeword() {
        let mut rng = Rng::new(1);
        for _ in 0..20 {
            let message = message(&mut rng);
            let parity = parity(&message);
            assert_eq!(parity[6] & 0xf, 0, "four bits are unused");
            let bits = message.iter().chain(&parity).flat_map(|&byte| (0..8).rev().map(move |bit| byte >> bit & 1));
            let word: Vec<u8> = bits.take(message.len() * 8 + DEGREE).collect();
            for exponent in 1..=8 {
                let point = power(exponent);
                let value = word.iter().fold(0, |sum, &bit| multiply(sum, point) ^ u32::from(bit));
                assert_eq!(value, 0, "at α^{exponent}, {} bytes", message.len());
            }
        }
    }

    #[test]
    fn up_to_eight_wrong_bits_are_detected() {
        let mut rng = Rng::new(2);
        for round in 0..4000 {
            let message = message(&mut rng);
            let mut word: Vec<u8> = message.iter().copied().chain(parity(&message)).collect();
            let mut flipped = alloc::collections::BTreeSet::new();
            while flipped.len() < 1 + round % 8 {
                flipped.insert(rng.below(word.len() as u64 * 8) as usize);
            }
            flipped.iter().for_each(|bit| word[bit / 8] ^= 1 << (bit % 8));
            let (message, stored) = word.split_at(message.len());
            assert_ne!(parity(message), *stored, "{flipped:?}");
        }
    }
}

//! The read and write separator of the differentiated-ECC paper, section IV.A: how hot a page is for reads and for
//! writes, by Bloom filters.
//!
//! ```text
//!              pair 0     pair 1     pair 2     pair 3        the pointer goes round, a step for each access
//!   reads     [M bits]   [M bits]   [M bits]   [M bits]       an access sets K bits in one filter of one pair
//!   writes    [M bits]   [M bits]   [M bits]   [M bits]       hotness = sum of the weights of the pairs that hold it
//!   weight       2          ½          1          1½          by how recently the pair was cleared
//! ```
//!
//! Every `decay` requests the pair that was cleared longest ago is cleared, and has the largest weight from then on.
//! With 4 pairs, hotness is a multiple of ½ from 0 to 5. There are false positives, as in any Bloom filter, and no
//! false negatives: a page is held by the pair that took it until that is cleared.
//!
//! Where the paper is open, as the multiple Bloom filters that it cites do, or as its worked reading says:
//!
//! - Age is the order in which pairs were *cleared*. (Taken literally, "latest updated" would rotate with each access.)
//! - A pair that holds the page already passes the access on to the next one, so that repeated accesses count
//!   (`ecc-next-pair`). The pointer goes to the pair behind the one used; if all hold the page, a step on.
//! - An access is a page of a request, in the order of its pages, for each page is to be judged. The paper counts the
//!   period in requests; `ecc-decay-by` says so or counts these accesses. A page that no request has announced is a
//!   request of its own, and a write buffer's requests are the runs that it hands down.
//! - A decay comes before the access that follows the period, so that each access is seen by its own decision.
//!
//! RAM: 2·V·M bits (2 KiB), a byte for each pair's age, the pointer, the count, and the request under way.

use crate::{Loader, Parameter, Saver, Settings};
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use flash::Lpn;

/// `ecc-pairs`: V.
pub(crate) const PAIRS: Parameter = Parameter::count("ecc-pairs", 4, 1..=16)
    .unit("pairs")
    .text(
        "Pairs of Bloom filters that remember accesses (V). More pairs tell shades of hotness apart and take more RAM.",
    )
    .source("{ecc}, section IV.A");

/// `ecc-hashes`: K.
pub(crate) const HASHES: Parameter = Parameter::count("ecc-hashes", 2, 1..=8)
    .text(
        "Hash functions of each Bloom filter (K). With more of them fewer pages are taken for others, until the \
         filter fills up.",
    )
    .source("{ecc}, section IV.A");

/// `ecc-bits`: M.
pub(crate) const BITS: Parameter = Parameter::power("ecc-bits", 2048, 64..=1 << 24)
    .unit("bits")
    .text("Bits of each Bloom filter (M), in RAM. In a larger filter fewer pages are taken for others.")
    .source("{ecc}, section IV.A");

/// `ecc-weight`: the largest weight.
pub(crate) const WEIGHT: Parameter = Parameter::real("ecc-weight", 2.0, 0.001..=1e6)
    .text(
        "Weight of the pair that was cleared last. The weights of the earlier pairs fall evenly: four pairs have 2, \
         1.5, 1 and 0.5.",
    )
    .source("{ecc}, section IV.A");

/// `ecc-decay`: the period of clearing.
pub(crate) const DECAY: Parameter = Parameter::count("ecc-decay", 512, 1..=1 << 32)
    .unit("accesses")
    .text(
        "Accesses of the host after which the oldest pair is cleared, in the unit of ecc-decay-by. Less forgets \
         sooner, so that more pages are of the class of ecc-unknown; more fills the filters.",
    )
    .source("{ecc}, section IV.A");

/// `ecc-decay-by`: the unit of the period.
pub(crate) const DECAY_BY: Parameter = Parameter::word("ecc-decay-by", "requests", &["requests", "pages"])
    .text(
        "What ecc-decay counts. requests: those of the host, of any size, so that large ones fill the filters further \
         before they are cleared. pages: the pages of its requests, so that filters are equally full whatever the \
         size.",
    )
    .source("{ecc}, section IV.A: \"512 requests\"; pages: ftlab");

/// `ecc-next-pair`: what becomes of an access that its pair holds already.
pub(crate) const NEXT_PAIR: Parameter = Parameter::switch("ecc-next-pair", true)
    .text(
        "An access to a page that the pair in turn holds goes to the next pair that does not hold it. Off drops the \
         access, which makes hot pages look cooler.",
    )
    .source("{bloom}, cited by {ecc}");

/// What the host did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    /// It read the page.
    Read = 0,
    /// It wrote it.
    Write = 1,
}

/// The parameters of a separator.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Shape {
    /// Pairs of filters.
    pub pairs: usize,
    /// Hash functions.
    pub hashes: usize,
    /// Bits of a filter, a power of two from 64 on.
    pub bits: usize,
    /// Weight of the pair cleared last.
    pub weight: f64,
    /// Requests or accesses after which the oldest pair is cleared.
    pub decay: u64,
    /// Whether these are requests.
    pub by_requests: bool,
    /// Whether an access passes on to a pair that does not hold the page.
    pub next_pair: bool,
}

impl From<&Settings> for Shape {
    fn from(settings: &Settings) -> Shape {
        Shape {
            pairs: settings.count(&PAIRS) as usize,
            hashes: settings.count(&HASHES) as usize,
            bits: settings.count(&BITS) as usize,
            weight: settings.real(&WEIGHT),
            decay: settings.count(&DECAY),
            by_requests: settings.word(&DECAY_BY) == "requests",
            next_pair: settings.switch(&NEXT_PAIR),
        }
    }
}

/// See the module's description.
#[derive(Clone, Debug)]
pub(crate) struct Separator {
    shape: Shape,
    /// The filters' words: of each pair the read filter, then the write filter.
    words: Vec<u64>,
    /// The pairs in the order in which they were cleared, the oldest first.
    cleared: Vec<u8>,
    /// The pair in turn.
    next: usize,
    /// Requests or accesses since the last decay.
    accesses: u64,
    /// The pages announced last, and whether one of them was counted as that request.
    request: Range<u32>,
    begun: bool,
}

/// The position that hash function `number` gives a page, before it is cut to the filter's size: the finalizer of
/// SplitMix64, whose increments tell the functions apart.
fn hash(lpn: Lpn, number: usize) -> u64 {
    let mut x = u64::from(lpn.0).wrapping_add(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(number as u64 + 1));
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

impl Separator {
    /// Empty filters; pair 0 counts as cleared first.
    pub(crate) fn new(shape: Shape) -> Separator {
        Separator {
            words: vec![0; shape.pairs * 2 * (shape.bits / 64)],
            cleared: (0..shape.pairs as u8).collect(),
            next: 0,
            accesses: 0,
            request: 0..0,
            begun: false,
            shape,
        }
    }

    /// The words of one filter, in all words.
    fn filter(&self, pair: usize, access: Access) -> usize {
        (pair * 2 + access as usize) * (self.shape.bits / 64)
    }

    /// A page's positions in any filter: word and bit.
    fn places(&self, lpn: Lpn) -> impl Iterator<Item = (usize, u64)> + use<> {
        let bits = self.shape.bits;
        (0..self.shape.hashes).map(move |number| {
            let position = hash(lpn, number) as usize & (bits - 1);
            (position / 64, 1 << (position % 64))
        })
    }

    fn holds(&self, pair: usize, access: Access, lpn: Lpn) -> bool {
        let filter = self.filter(pair, access);
        self.places(lpn).all(|(word, bit)| self.words[filter + word] & bit != 0)
    }

    /// The host announces a request.
    pub(crate) fn announce(&mut self, first: Lpn, pages: u32) {
        self.request = first.0..first.0.saturating_add(pages);
        self.begun = false;
    }

    /// The host reads or writes a page.
    pub(crate) fn note(&mut self, access: Access, lpn: Lpn) {
        let announced = self.request.contains(&lpn.0);
        if !(self.shape.by_requests && announced && self.begun) {
            if self.accesses == self.shape.decay {
                self.decay();
            }
            self.accesses += 1;
            self.begun |= announced;
        }
        let pairs = self.shape.pairs;
        let tries = if self.shape.next_pair { pairs } else { 1 };
        let used = (0..tries).map(|i| (self.next + i) % pairs).find(|&pair| !self.holds(pair, access, lpn));
        if let Some(pair) = used {
            let filter = self.filter(pair, access);
            for (word, bit) in self.places(lpn) {
                self.words[filter + word] |= bit;
            }
        }
        self.next = (used.unwrap_or(self.next) + 1) % pairs;
    }

    /// Clears the oldest pair.
    fn decay(&mut self) {
        let oldest = self.cleared.remove(0);
        let from = self.filter(oldest.into(), Access::Read);
        self.words[from..from + 2 * (self.shape.bits / 64)].fill(0);
        self.cleared.push(oldest);
        self.accesses = 0;
    }

    /// How hot a page is for an access.
    pub(crate) fn hotness(&self, access: Access, lpn: Lpn) -> f64 {
        let step = self.shape.weight / self.shape.pairs as f64;
        let ranks = (1u32..).zip(&self.cleared).filter(|&(_, &pair)| self.holds(pair.into(), access, lpn));
        f64::from(ranks.map(|(rank, _)| rank).sum::<u32>()) * step
    }

    /// Controller RAM, bytes.
    pub(crate) fn memory(&self) -> u64 {
        self.words.len() as u64 * 8 + self.cleared.len() as u64 + 1 + 8 + 8 + 1
    }

    /// Writes the state.
    pub(crate) fn save(&self, out: &mut Saver) {
        self.words.iter().for_each(|&word| out.u64(word));
        self.cleared.iter().for_each(|&pair| out.u8(pair));
        out.u8(self.next as u8);
        out.u64(self.accesses);
        out.u32(self.request.start);
        out.u32(self.request.end);
        out.u8(u8::from(self.begun));
    }

    /// Reads it back.
    pub(crate) fn load(&mut self, from: &mut Loader<'_>) {
        self.words.fill_with(|| from.u64());
        self.cleared.fill_with(|| from.u8());
        self.next = from.u8().into();
        self.accesses = from.u64();
        self.request = from.u32()..from.u32();
        self.begun = from.u8() == 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use flash::Rng;

    const PAPER: Shape =
        Shape { pairs: 4, hashes: 2, bits: 2048, weight: 2.0, decay: 512, by_requests: true, next_pair: true };

    /// The specification's example, step by step: reads and writes of one page from fresh filters on.
    #[test]
    fn worked_example_of_the_specification() {
        use Access::{Read, Write};
        let mut separator = Separator::new(PAPER);
        let steps = [
            (Write, 0.0, 0.5, 1),
            (Write, 0.0, 1.5, 2),
            (Read, 1.5, 1.5, 3),
            (Write, 1.5, 3.5, 0),
            (Read, 2.0, 3.5, 1),
            (Read, 3.0, 3.5, 2),
            // Pair 3 holds it: the access goes to pair 4.
            (Read, 5.0, 3.5, 0),
            // All pairs hold it: only the pointer moves.
            (Read, 5.0, 3.5, 1),
            // Pair 2 holds it: pair 3.
            (Write, 5.0, 5.0, 3),
        ];
        let x = Lpn(77);
        for (step, (access, read, write, next)) in steps.into_iter().enumerate() {
            separator.note(access, x);
            let hot = [Read, Write].map(|access| separator.hotness(access, x));
            assert_eq!((hot, separator.next), ([read, write], next), "step {step}");
        }
    }

    /// Figure 3: two writes and two reads of three pages go to the four pairs in turn.
    #[test]
    fn accesses_go_round_the_pairs() {
        use Access::{Read, Write};
        let mut separator = Separator::new(PAPER);
        let (x, y, z) = (Lpn(1), Lpn(2), Lpn(3));
        [(Write, x), (Write, y), (Read, z), (Read, x)].iter().for_each(|&(access, lpn)| separator.note(access, lpn));
        let held = [(0, Write, x), (1, Write, y), (2, Read, z), (3, Read, x)];
        for pair in 0..4 {
            for access in [Read, Write] {
                for lpn in [x, y, z] {
                    let expected = held.contains(&(pair, access, lpn));
                    assert_eq!(separator.holds(pair, access, lpn), expected, "{pair} {access:?} {lpn}");
                }
            }
        }
    }

    #[test]
    fn the_pair_cleared_last_weighs_most() {
        let mut separator = Separator::new(Shape { decay: 4, ..PAPER });
        // Four different pages, one in each pair.
        (0..4).for_each(|lpn| separator.note(Access::Write, Lpn(lpn)));
        let hot = |separator: &Separator| [0, 1, 2, 3].map(|lpn| separator.hotness(Access::Write, Lpn(lpn)));
        assert_eq!(hot(&separator), [0.5, 1.0, 1.5, 2.0]);
        // The fifth access clears the first pair, which takes it and is the newest from now on.
        separator.note(Access::Write, Lpn(9));
        assert_eq!(hot(&separator), [0.0, 0.5, 1.0, 1.5]);
        assert_eq!(separator.hotness(Access::Write, Lpn(9)), 2.0);
    }

    /// Random accesses against a model that remembers exactly which page went to which pair: hotness is one of the
    /// eleven values and never below the model's, which it exceeds seldom.
    #[test]
    fn there_are_no_false_negatives_and_eleven_values() {
        let mut rng = Rng::new(3);
        let mut separator = Separator::new(PAPER);
        let mut exact: Vec<BTreeMap<(usize, Lpn), ()>> = vec![BTreeMap::new(); 4];
        let mut false_positives = 0;
        let mut asked = 0;
        for _ in 0..40_000 {
            let lpn = Lpn(if rng.chance(0.5) { rng.below(50) } else { rng.below(100_000) } as u32);
            let access = if rng.chance(0.5) { Access::Read } else { Access::Write };
            if separator.accesses == PAPER.decay {
                exact[usize::from(separator.cleared[0])].clear();
            }
            let before: Vec<bool> = (0..4).map(|pair| separator.holds(pair, access, lpn)).collect();
            separator.note(access, lpn);
            for (pair, held) in (0..4).zip(before) {
                if !held && separator.holds(pair, access, lpn) {
                    exact[pair].insert((access as usize, lpn), ());
                }
            }
            for access in [Access::Read, Access::Write] {
                let hot = separator.hotness(access, lpn);
                assert!((0..=10).any(|halves| f64::from(halves) / 2.0 == hot), "{hot}");
                for (pair, exact) in exact.iter().enumerate() {
                    let known = exact.contains_key(&(access as usize, lpn));
                    let held = separator.holds(pair, access, lpn);
                    assert!(held || !known, "a false negative");
                    asked += 1;
                    false_positives += u32::from(held && !known);
                }
            }
        }
        // At most half a filter's 1,024 bits are set when it is cleared: 2048 accesses over 8 filters, 2 bits each.
        assert!(false_positives * 5 < asked, "{false_positives} of {asked}");
    }
}

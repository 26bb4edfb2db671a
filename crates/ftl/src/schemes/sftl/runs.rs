//! A translation page in S-FTL's compressed form: a bit for each entry says whether it starts a new run of consecutive
//! PPNs, and only the first PPN of each run is kept. An entry that maps nothing is a run of its own.

use alloc::vec;
use alloc::vec::Vec;
use flash::Ppn;

/// Whether an entry starts a run behind the one before it.
#[inline(always)]
pub(super) fn starts(before: u32, entry: u32) -> bool {
    (entry != before.wrapping_add(1)) | (before == Ppn::NONE.0)
}

/// Runs of a page.
pub(super) fn count(entries: &[u32]) -> u32 {
    let pairs = entries.iter().zip(&entries[1..]);
    1 + pairs.map(|(&before, &entry)| u32::from(starts(before, entry))).sum::<u32>()
}

/// How many runs more, or fewer, a page has once `entries[index]` becomes `ppn`.
#[inline(always)]
pub(super) fn growth(entries: &[u32], index: usize, ppn: u32) -> i32 {
    let mut growth = 0;
    if index > 0 {
        let before = entries[index - 1];
        growth += i32::from(starts(before, ppn)) - i32::from(starts(before, entries[index]));
    }
    if let Some(&after) = entries.get(index + 1) {
        growth += i32::from(starts(ppn, after)) - i32::from(starts(entries[index], after));
    }
    growth
}

/// A compressed page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Runs {
    /// Bit `i` is set if entry `i` starts a run, the lowest first.
    pub(super) starts: Vec<u64>,
    /// The first PPN of each run.
    pub(super) firsts: Vec<u32>,
}

impl Runs {
    pub(super) fn compress(entries: &[u32]) -> Runs {
        let mut runs = Runs { starts: vec![0; entries.len().div_ceil(64)], firsts: Vec::new() };
        let mut before = Ppn::NONE.0;
        for (index, &entry) in entries.iter().enumerate() {
            if starts(before, entry) {
                runs.starts[index / 64] |= 1 << (index % 64);
                runs.firsts.push(entry);
            }
            before = entry;
        }
        runs
    }

    /// An entry: the first PPN of its run and the distance from there.
    pub(super) fn get(&self, index: usize) -> u32 {
        let mut below = self.starts[index / 64] & (u64::MAX >> (63 - index % 64));
        let mut word = index / 64;
        let mut run: u32 = self.starts[..word].iter().map(|word| word.count_ones()).sum::<u32>() + below.count_ones();
        while below == 0 {
            word -= 1;
            below = self.starts[word];
        }
        run -= 1;
        let start = word * 64 + 63 - below.leading_zeros() as usize;
        self.firsts[run as usize] + (index - start) as u32
    }

    pub(super) fn decompress(&self, entries: &mut [u32]) {
        entries.iter_mut().enumerate().for_each(|(index, entry)| *entry = self.get(index));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn worked_example() {
        let mut page = [40, 41, 42, 43, 90, 45, 46, 47];
        let runs = Runs::compress(&page);
        assert_eq!(runs, Runs { starts: vec![0b0011_0001], firsts: vec![40, 90, 45] });
        assert_eq!((runs.get(7), count(&page)), (47, 3));
        // Entry 4 becomes 44: one run is left.
        assert_eq!(growth(&page, 4, 44), -2);
        page[4] = 44;
        assert_eq!(Runs::compress(&page), Runs { starts: vec![1], firsts: vec![40] });
    }

    /// Pages of runs, single entries and holes.
    fn page() -> impl Strategy<Value = Vec<u32>> {
        let piece = prop_oneof![
            (0..1000u32, 1..40u32).prop_map(|(first, length)| (first..first + length).collect::<Vec<u32>>()),
            (1..10usize).prop_map(|length| vec![Ppn::NONE.0; length]),
            proptest::collection::vec(0..50u32, 1..10),
        ];
        proptest::collection::vec(piece, 1..30).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn what_was_compressed_comes_back(page in page()) {
            let runs = Runs::compress(&page);
            let mut again = vec![7; page.len()];
            runs.decompress(&mut again);
            prop_assert_eq!(&again, &page);
            prop_assert_eq!(runs.firsts.len() as u32, count(&page));
            prop_assert_eq!(runs.starts.iter().map(|word| word.count_ones()).sum::<u32>(), count(&page));
            let holes = page.iter().filter(|&&entry| entry == Ppn::NONE.0).count();
            prop_assert_eq!(runs.firsts.iter().filter(|&&first| first == Ppn::NONE.0).count(), holes);
        }

        #[test]
        fn growth_is_the_difference_in_runs(page in page(), index in any::<prop::sample::Index>(), ppn in page()) {
            let (index, ppn) = (index.index(page.len()), ppn[0]);
            let mut changed = page.clone();
            changed[index] = ppn;
            prop_assert_eq!(growth(&page, index, ppn), count(&changed) as i32 - count(&page) as i32);
        }
    }
}

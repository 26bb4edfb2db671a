//! What schemes lose when power fails with commands under way on two dies, and nothing keeps an order between these but
//! what the scheme has stated: nothing that was there before the request.

use super::{Aftl, Bast, BlockMap, Fast, HybridLog, Last, Nftl, Page, Rose, RoseLog, Simple, Superblock, by_name};
use crate::Build;
use crate::hybrid::testing::{cut_in_flight, drawn, small};
use alloc::vec::Vec;
use flash::{Full, Geometry, InFlight, Nand, Rng, Tags};

const LOGGED: [(u32, u32); 2] = [(7, 30), (9, 38)];
const PAGED: [(u32, u32); 2] = [(13, 28), (15, 40)];

/// Each with its defaults, with static wear levelling, and with `variants`, on small devices that are nearly full.
fn holds<S: Build<InFlight<Nand<Tags, Full>, Tags>>>(name: &str, sizes: [(u32, u32); 2], variants: &[&[(&str, &str)]]) {
    const LEVELLED: &[(&str, &str)] = &[("wear-levelling", "static"), ("wear-threshold", "1")];
    let row = by_name(name).unwrap();
    for (blocks, pages) in sizes {
        let g = Geometry { dies: 2, nop: 8, ..small(blocks) }.checked().unwrap();
        let levelled = row.parameter("wear-levelling").map(|_| LEVELLED);
        for pairs in [&[][..]].into_iter().chain(levelled).chain(variants.iter().copied()) {
            for seed in 0..2 {
                let mut rng = Rng::new(seed);
                let anywhere: Vec<u32> = (0..400).map(|_| rng.below(u64::from(pages)) as u32).collect();
                cut_in_flight::<S>(row, pairs, g, pages, &anywhere);
            }
            cut_in_flight::<S>(row, pairs, g, pages, &drawn(pages, 600));
        }
    }
}

#[test]
fn simple() {
    holds::<Simple>("simple", LOGGED, &[]);
}

#[test]
fn block() {
    holds::<BlockMap>("block", LOGGED, &[]);
}

#[test]
fn nftl() {
    holds::<Nftl>(
        "nftl",
        LOGGED,
        &[&[("replacements", "3")], &[("fold-in-place", "off"), ("replacements", "3")], &[("mode", "log")]],
    );
}

#[test]
fn bast() {
    holds::<Bast>("bast", LOGGED, &[&[("first-write-to-log", "on")]]);
}

#[test]
fn fast() {
    holds::<Fast>("fast", LOGGED, &[&[("sequential", "none")], &[("sw-other", "psu")]]);
}

#[test]
fn last() {
    holds::<Last>(
        "last",
        LOGGED,
        &[&[("sequential-bytes", "512")], &[("sequential-bytes", "1024"), ("sequential-other", "rw")]],
    );
}

#[test]
fn aftl() {
    holds::<Aftl>("aftl", LOGGED, &[&[("fine-entries", "8")]]);
}

#[test]
fn superblock() {
    holds::<Superblock>("superblock", LOGGED, &[]);
}

#[test]
fn hybridlog() {
    holds::<HybridLog>("hybridlog", LOGGED, &[]);
}

#[test]
fn rose() {
    holds::<Rose>("rose", LOGGED, &[&[("fpr", "off")], &[("ebw", "off")]]);
}

#[test]
fn rose_log() {
    holds::<RoseLog>("rose-log", LOGGED, &[&[("fpr", "off")]]);
}

/// The others of its family write maps, which may name pages that are still under way.
#[test]
fn page() {
    holds::<Page>("page", PAGED, &[&[("gc-spread", "on")], &[("gc-spread", "off")]]);
}

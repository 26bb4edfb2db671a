//! What schemes lose when power fails with commands under way on two dies, and nothing keeps an order between these but
//! what the scheme has stated: nothing that was there before the request.

use super::{
    Aftl, Bast, BlockMap, Dftl, Fast, HybridLog, Last, LazyFtl, Lsftl, Nftl, Page, Rose, RoseLog, Scftl, Simple,
    Superblock, by_name,
};
use crate::hybrid::testing::{settings, small};
use crate::{Build, Scheme};
use alloc::vec;
use alloc::vec::Vec;
use flash::{Full, Geometry, InFlight, Lpn, Nand, Rng, Tags};

const LOGGED: [(u32, u32); 2] = [(7, 30), (9, 38)];
const PAGED: [(u32, u32); 2] = [(13, 28), (15, 40)];

/// LPNs to write, in the order of a draw: some in turn, some anywhere.
fn drawn(pages: u32, writes: usize) -> Vec<u32> {
    let mut rng = Rng::new(writes as u64);
    let mut next = || rng.below(pages.into()) as u32;
    let mut lpns: Vec<u32> = (0..pages).collect();
    while lpns.len() < writes {
        let (first, count) = (next(), 1 + next() % 8);
        lpns.extend((first..first + count).filter(|&lpn| lpn < pages));
    }
    lpns
}

/// Writes pages one by one, and power fails while the commands of each are under way, on a controller that keeps no
/// order but what a scheme states: an erase has to follow the copies of what it takes. What was there before is there,
/// and so is the page itself once it is answered.
/// Pages that follow one another are announced as one request.
fn cut_in_flight<S>(row: &Scheme, pairs: &[(&str, &str)], g: Geometry, pages: u32, lpns: &[u32])
where
    S: Build<InFlight<Nand<Tags, Full>, Tags>>,
{
    let settings = settings(row, pairs);
    let mut flash = InFlight::new(Nand::<Tags, Full>::new(g));
    let mut scheme = S::format(&mut flash, pages, &settings).unwrap();
    let mut expected: Vec<Option<u64>> = vec![None; pages as usize];
    for (place, (&lpn, value)) in lpns.iter().zip(0..).enumerate() {
        flash.begin(1, false);
        flash.request_begin();
        flash.page_begin();
        if place == 0 || lpns[place - 1] + 1 != lpn {
            let run = lpns[place..].iter().zip(lpn..).take_while(|&(&next, in_turn)| next == in_turn).count();
            scheme.request(Lpn(lpn), run as u32);
        }
        scheme.write(&mut flash, Lpn(lpn), &value).unwrap();
        flash.page_end();
        // A page that costs no more than its program has little to lose.
        for lot in 0..if flash.in_doubt() > 1 { 16 } else { 0 } {
            let mut left = flash.clone();
            // In half of the cases the host has its answer, and has begun something else.
            let answered = lot % 2 == 1;
            if answered {
                left.request_begin();
            }
            left.lose_power(&mut Rng::new(lot), false);
            let (mut mounted, _) = S::mount(&mut left, pages, &settings).unwrap();
            for (of, &before) in (0..).zip(&expected) {
                let found = mounted.read(&mut left, Lpn(of)).unwrap().copied();
                let is_new = of == lpn && found == Some(value);
                let is_old = found == before && !(answered && of == lpn);
                assert!(is_old || is_new, "LPN {of} behind write {value}, lot {lot}: {found:?}, before {before:?}");
            }
        }
        expected[lpn as usize] = Some(value);
    }
}

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

const RHYTHMS: &[&[(&str, &str)]] = &[&[("gc-spread", "on")], &[("gc-spread", "off")]];

#[test]
fn page() {
    holds::<Page>("page", PAGED, RHYTHMS);
}

#[test]
fn dftl() {
    holds::<Dftl>("dftl", PAGED, RHYTHMS);
}

#[test]
fn lsftl() {
    holds::<Lsftl>("lsftl", PAGED, RHYTHMS);
}

#[test]
fn scftl() {
    holds::<Scftl>("scftl", PAGED.map(|(blocks, pages)| (blocks + 1, pages)), RHYTHMS);
}

#[test]
fn lazyftl() {
    holds::<LazyFtl>("lazyftl", PAGED, RHYTHMS);
}

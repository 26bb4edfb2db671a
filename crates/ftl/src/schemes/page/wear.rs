//! Wear levelling of `page`: the worked example, and long runs under skewed writes.

use super::{Page, ROW};
use crate::{Build, Ftl, Inspect, Settings};
use alloc::string::String;
use alloc::vec::Vec;
use flash::{Brief, Full, Geometry, Lpn, Nand, NoData, Rng, Tags, Transcript};

fn settings(pairs: &[(&str, &str)]) -> Settings {
    let mut settings = ROW.settings();
    pairs.iter().for_each(|(name, value)| settings.set(name, value).unwrap());
    settings
}

/// Six blocks of four pages; LPNs 0 to 3 are written once, LPN 4 ever after.
fn until_levelled(mode: &str) -> (Vec<String>, Vec<u32>) {
    let g = Geometry { blocks_per_die: 6, pages_per_block: 4, ..Geometry::default() }.checked().unwrap();
    let mut flash = Transcript::new(Nand::<NoData, Brief>::new(g));
    let settings =
        settings(&[("gc-low", "1"), ("gc-spread", "off"), ("wear-levelling", mode), ("wear-threshold", "2")]);
    let mut page = Page::format(&mut flash, 8, &settings).unwrap();
    (0..4).for_each(|lpn| page.write(&mut flash, Lpn(lpn), &()).unwrap());
    for _ in 0..200 {
        flash.take();
        let before = page.space.blocks.erase_counts().to_vec();
        page.write(&mut flash, Lpn(4), &()).unwrap();
        page.audit(&mut flash).unwrap();
        let mut lines = flash.take();
        lines.retain(|line| line.ends_with("wear_levelling"));
        if !lines.is_empty() {
            return (lines, before);
        }
    }
    (Vec::new(), Vec::new())
}

/// The specification's example: all blocks but one wear, until one of them is three erases ahead; then the cold
/// block's four pages are copied and it is erased.
#[test]
fn a_cold_block_is_emptied_as_in_the_specification() {
    let (lines, before) = until_levelled("swap");
    assert_eq!(before[0], 0);
    let (copies, erase) = lines.split_at(lines.len() - 1);
    assert_eq!(erase, ["E 0 wear_levelling"]);
    let reads: Vec<_> = copies.iter().filter(|line| line.starts_with('R')).collect();
    assert_eq!(reads, ["R 0.0 wear_levelling", "R 0.1 wear_levelling", "R 0.2 wear_levelling", "R 0.3 wear_levelling"]);
    assert_eq!(copies.len(), 8, "{copies:?}");
    // What the open block has no room for goes to the block that was erased last, the most worn one.
    let most = before.iter().max().unwrap();
    let written: Vec<&String> = copies.iter().filter(|line| line.starts_with('W')).collect();
    let block: usize = written[3].split(['W', ' ', '.']).find_map(|word| word.parse().ok()).unwrap();
    assert!(before[block] >= *most, "{before:?} {written:?}");
    let (at_threshold, _) = until_levelled("static");
    assert_eq!(at_threshold.len(), 9);
    assert_eq!(until_levelled("off").0, Vec::<String>::new());
}

/// Skewed writes with every mode and shape: nothing is lost, the device is never full, and the erase counts stay
/// together, where without it most blocks keep their first data for ever.
#[test]
fn wear_stays_even_under_skewed_writes() {
    let mut spreads = Vec::new();
    for mode in ["off", "swap", "static", "bet"] {
        for (streams, spread, dies) in [("1", "off", 1), ("2", "on", 1), ("1", "on", 2)] {
            let g = Geometry { dies, blocks_per_die: 40 / dies, pages_per_block: 8, ..Geometry::default() };
            let mut flash = Nand::<Tags, Full>::new(g.checked().unwrap());
            let settings = settings(&[
                ("wear-levelling", mode),
                ("wear-threshold", "4"),
                ("bet-threshold", "2"),
                ("gc-low", "2"),
                ("streams", streams),
                ("gc-spread", spread),
            ]);
            let pages = 240;
            let mut page = Page::format(&mut flash, pages, &settings).unwrap();
            let mut newest = [0u64; 240];
            let mut rng = Rng::new(7);
            for time in 1..30_000u64 {
                let lpn = if time <= u64::from(pages) { time - 1 } else { rng.below(24) };
                newest[lpn as usize] = time;
                page.write(&mut flash, Lpn(lpn as u32), &time).unwrap();
            }
            page.audit(&mut flash).unwrap();
            for (lpn, time) in (0..).zip(newest) {
                assert_eq!(page.read(&mut flash, Lpn(lpn)).unwrap(), Some(&time));
            }
            let counts = page.space.blocks.erase_counts();
            let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
            spreads.push((mode, most - least));
        }
    }
    for (mode, spread) in spreads {
        match mode {
            "off" => assert!(spread > 300, "{spread}"),
            "swap" => assert!(spread < 60, "{spread}"),
            // Neither says where the cold pages go, and bet leaves sets alone that have had an erase.
            _ => assert!(spread < 250, "{mode} {spread}"),
        }
    }
}

/// Power fails every so many writes. With counts on flash levelling goes on over mounts as if there had been none;
/// without, every mount begins with blocks that count as unworn, and the true counts drift apart.
#[test]
fn levelling_goes_on_over_mounts() {
    let spread = |state: &str, mounts: bool| {
        let g = Geometry { blocks_per_die: 43, pages_per_block: 8, ..Geometry::default() };
        let mut flash = Nand::<Tags, Full>::new(g.checked().unwrap());
        let settings = settings(&[
            ("wear-levelling", "swap"),
            ("wear-threshold", "8"),
            ("wear-state", state),
            ("wear-checkpoint", "4"),
        ]);
        let mut page = Page::format(&mut flash, 240, &settings).unwrap();
        let mut rng = Rng::new(7);
        let mut worn = alloc::vec![0u32; 43];
        let mut known = worn.clone();
        for time in 0..40_000u64 {
            let lpn = if time < 240 { time } else { rng.below(24) };
            page.write(&mut flash, Lpn(lpn as u32), &time).unwrap();
            if mounts && time % 400 == 399 || time == 39_999 {
                let counts = page.space.blocks.erase_counts();
                worn.iter_mut().zip(counts.iter().zip(&known)).for_each(|(worn, (now, before))| *worn += now - before);
                page = Page::mount(&mut flash, 240, &settings).unwrap().0;
                known = page.space.blocks.erase_counts().to_vec();
            }
        }
        page.audit(&mut flash).unwrap();
        // Blocks for checkpoints are levelled by nobody.
        let others = &worn[..40];
        others.iter().max().unwrap() - others.iter().min().unwrap()
    };
    let [unmounted, kept, forgotten] = [("on", false), ("on", true), ("off", true)].map(|(s, m)| spread(s, m));
    // A hundred mounts forget at most four erases each, and those of blocks that they erase themselves.
    assert!(kept <= unmounted + 40, "{kept} with mounts, {unmounted} without");
    assert!(forgotten > 3 * kept, "{forgotten} where every mount forgets, {kept} where none does");
}

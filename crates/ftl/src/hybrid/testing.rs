//! What the tests of the family share.

use super::parameters::VICTIMS;
use crate::{Build, Scheme, Settings};
use alloc::string::String;
use alloc::vec::Vec;
use flash::{Brief, Full, Geometry, Lpn, Nand, NoData, ProgramOrder, Rng, Tags, Transcript};

/// Settings by name.
pub(crate) fn settings(row: &Scheme, pairs: &[(&str, &str)]) -> Settings {
    let mut settings = row.settings();
    for (name, value) in pairs {
        settings.set(name, value).unwrap();
    }
    settings
}

/// A chip of `blocks` blocks of four pages that takes them in any order.
pub(crate) fn small(blocks: u32) -> Geometry {
    let order = ProgramOrder::Any;
    Geometry { blocks_per_die: blocks, pages_per_block: 4, page_bytes: 512, order, ..Geometry::default() }
        .checked()
        .unwrap()
}

/// A measuring chip with a transcript.
pub(crate) type Chip = Transcript<Nand<NoData, Brief>>;

/// A scheme on a chip of its own.
pub(crate) fn formatted<S: Build<Chip>>(g: Geometry, pages: u32, settings: &Settings) -> (Chip, S) {
    let mut flash = Transcript::new(Nand::new(g));
    let scheme = S::format(&mut flash, pages, settings).unwrap();
    flash.take();
    (flash, scheme)
}

/// Writes pages one by one, each a request of its own, and audits; the commands without looks at spare areas.
pub(crate) fn write_each<S: Build<Chip>>(flash: &mut Chip, scheme: &mut S, lpns: &[u32]) -> Vec<String> {
    for &lpn in lpns {
        scheme.request(Lpn(lpn), 1);
        scheme.write(flash, Lpn(lpn), &()).unwrap();
    }
    commands(flash, scheme)
}

/// Writes a request; the commands.
pub(crate) fn write_request<S: Build<Chip>>(flash: &mut Chip, scheme: &mut S, first: u32, pages: u32) -> Vec<String> {
    scheme.request(Lpn(first), pages);
    for lpn in first..first + pages {
        scheme.write(flash, Lpn(lpn), &()).unwrap();
    }
    commands(flash, scheme)
}

fn commands<S: Build<Chip>>(flash: &mut Chip, scheme: &S) -> Vec<String> {
    let mut lines = flash.take();
    scheme.audit(flash).unwrap();
    flash.take();
    lines.retain(|line| !line.starts_with('O'));
    lines
}

/// Copies and erases among commands, and programs for the host.
pub(crate) fn tally(lines: &[String]) -> (usize, usize, usize) {
    let host = lines.iter().filter(|line| line.starts_with('W') && line.ends_with(" host")).count();
    let copies = lines.iter().filter(|line| line.starts_with('R')).count();
    (host, copies, lines.iter().filter(|line| line.starts_with('E')).count())
}

/// A long run of random writes, trims and mounts against what was written; every merge is audited on the way.
pub(crate) fn torture<S>(row: &Scheme, pairs: &[(&str, &str)], g: Geometry, pages: u32, rounds: u32)
where
    S: Build<Nand<Tags, Full>>,
{
    let settings = settings(row, pairs);
    let mut flash = Nand::<Tags, Full>::new(g);
    let mut scheme = S::format(&mut flash, pages, &settings).unwrap();
    let mut expected: Vec<Option<u64>> = alloc::vec![None; pages as usize];
    let mut rng = Rng::new(u64::from(rounds) + g.pages_per_block as u64);
    for round in 0..rounds {
        let draw = rng.below(100);
        let first = rng
            .below(u64::from(if draw.is_multiple_of(2) { pages } else { pages / 4 + 1 }).min(u64::from(pages)))
            as u32;
        let longest = if draw < 20 { 3 * g.pages_per_block } else { 2 };
        let count = (1 + rng.below(u64::from(longest)) as u32).min(pages - first);
        if draw == 99 {
            scheme.trim(&mut flash, Lpn(first), count).unwrap();
            expected[first as usize..(first + count) as usize].fill(None);
        } else if draw == 98 {
            let (mounted, _) = S::mount(&mut flash, pages, &settings).unwrap();
            scheme = mounted;
        } else {
            let first = if draw < 10 { first / g.pages_per_block * g.pages_per_block } else { first };
            scheme.request(Lpn(first), count);
            for lpn in first..first + count {
                let value = u64::from(round) << 32 | u64::from(lpn);
                scheme.write(&mut flash, Lpn(lpn), &value).unwrap();
                expected[lpn as usize] = Some(value);
            }
        }
        if round.is_multiple_of(16) {
            scheme.audit(&mut flash).unwrap_or_else(|what| panic!("round {round}: {what}"));
        }
        for lpn in [first, rng.below(u64::from(pages)) as u32] {
            let value = scheme.read(&mut flash, Lpn(lpn)).unwrap().copied();
            assert_eq!(value, expected[lpn as usize], "LPN {lpn} in round {round}");
        }
    }
    for lpn in 0..pages {
        assert_eq!(scheme.read(&mut flash, Lpn(lpn)).unwrap().copied(), expected[lpn as usize], "LPN {lpn}");
    }
}

/// The same under every victim policy and program order, with entire-block writing and free page reuse or without.
pub(crate) fn torture_each_technique<S>(row: &Scheme)
where
    S: Build<Nand<Tags, Full>>,
{
    for order in [ProgramOrder::Any, ProgramOrder::Ascending, ProgramOrder::Strict] {
        for victim in VICTIMS {
            for (ebw, fpr) in [("on", "on"), ("on", "off"), ("off", "on"), ("off", "off")] {
                let g = Geometry { order, ..small(16) }.checked().unwrap();
                let pairs = [("ebw", ebw), ("fpr", fpr), ("log-victim", victim), ("durable-trim", "on")];
                torture::<S>(row, &pairs, g, 42, 700);
            }
        }
    }
}

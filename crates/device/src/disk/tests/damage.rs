//! Images that somebody damages: what is read is the data, or an error, or what a mount has said beforehand.

use super::*;
use crate::image::tests::make_format_1;
use crate::image::{Scrub, Unsound};
use crate::verify::{Verified, verify};
use std::ops::Range;

/// Pages that the host sees.
const PAGES: u64 = 80;

/// A small image of a scheme on the smallest device that it takes, and the disk on it.
fn smallest(scheme: &str, path: &Path, format: u32) -> Box<dyn AnyDisk> {
    let mut why = String::new();
    for blocks in [32, 48, 64, 96, 128, 256] {
        let mut spec = spec(blocks, scheme);
        spec.device.logical_pages = PAGES as u32;
        spec.device.geometry.oob_bytes = 128;
        let row = schemes::by_name(scheme).unwrap();
        let mut settings = row.settings();
        let mut set = |name: &str, text: &str| {
            if settings.get(name).is_some() {
                settings.set(name, text).unwrap();
                spec.settings.push((name.into(), text.into()));
            }
        };
        set("durable-trim", "on");
        if format == 3 {
            spec.device.paired = Pairing::Shadow;
            spec.device = spec.device.guarded().unwrap();
        }
        for (name, text) in [("leaf", "2"), ("cache-maps", "1"), ("lu", "2")] {
            set(name, text);
        }
        let image = Image::create(path, &spec, true).unwrap();
        let image = match format {
            1 => {
                drop(image);
                make_format_1(path);
                Image::open(path, Access::Use).unwrap()
            }
            _ => {
                assert_eq!(image.format(), format);
                image
            }
        };
        match mount(image, false) {
            Ok(disk) => return disk,
            Err(MountError::Config(error)) => why = error.to_string(),
            Err(error) => panic!("{scheme}: {error}"),
        }
    }
    panic!("{scheme} takes none of these devices: {why}")
}

fn page_of(lpn: u64, round: u64) -> Vec<u8> {
    let mut page = vec![round as u8; 512];
    page[..16].copy_from_slice(&(u128::from(lpn) << 64 | u128::from(round)).to_le_bytes());
    page
}

/// What became of damaged images.
#[derive(Default, Debug)]
struct Tally {
    images: u64,
    /// Not opened, or not mounted.
    refused: u64,
    /// Pages read after the mount, and of these with an I/O error.
    read: u64,
    errors: u64,
    /// Pages that read as an older version or zeros, then or later.
    stale: u64,
    /// Pages that mounts took for torn or could not read: so many may be stale.
    said: u64,
    /// Discarded pages that were back.
    undone: u64,
    corrected_bits: u64,
    /// Images that `ftlab image verify` calls sound, and damaged pages that it names in the others.
    sound: u64,
    named: u64,
}

impl Tally {
    fn add(&mut self, more: &Tally) {
        let Tally { images, refused, read, errors, stale, said, undone, corrected_bits, sound, named } = self;
        *images += more.images;
        *refused += more.refused;
        *read += more.read;
        *errors += more.errors;
        *stale += more.stale;
        *said += more.said;
        *undone += more.undone;
        *corrected_bits += more.corrected_bits;
        *sound += more.sound;
        *named += more.named;
    }
}

/// What becomes of the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Harm {
    /// Bits flip.
    Flips,
    /// Up to 256 bytes in a row are zeros.
    Zeros,
    /// 64 bytes, a record or as much of anything else, come from another place.
    Copies,
}

/// One image, written at random, and then damaged again and again.
struct Damaged<'a> {
    scheme: &'a str,
    format: u32,
    whole: Vec<u8>,
    /// The newest round that each page was written in; 0 if it was never, or was discarded since.
    rounds: Vec<u64>,
    areas: Vec<Range<u64>>,
    /// Where records, data and spare areas begin in the file, and bytes of each.
    pages: [(u64, u64); 3],
    path: std::path::PathBuf,
    _directory: tempfile::TempDir,
}

impl Damaged<'_> {
    fn new(scheme: &str, format: u32, clean: bool) -> Damaged<'_> {
        let (directory, path) = place();
        let mut disk = smallest(scheme, &path, format);
        let mut rng = Rng::new(11);
        let mut discards = rng.fork("discards");
        let is_durable = disk.settings().get("durable-trim").is_some();
        let mut rounds = vec![0; PAGES as usize];
        for round in 1..500 {
            let lpn = rng.below(PAGES);
            disk.write(lpn * 512, &page_of(lpn, round)).unwrap();
            rounds[lpn as usize] = round;
            if is_durable && round % 8 == 0 {
                let first = discards.below(PAGES);
                let count = (1 + discards.below(3)).min(PAGES - first);
                disk.trim(first * 512, count * 512).unwrap();
                disk.flush().unwrap();
                rounds[first as usize..(first + count) as usize].fill(0);
            }
            if round == 250 {
                // Two epochs.
                drop(disk);
                disk = open(&path);
            }
        }
        let [records, data, spares, end] = disk.image().areas();
        let geometry = disk.image().spec().device.geometry;
        let pages = [(records, 64), (data, u64::from(geometry.page_bytes)), (spares, u64::from(geometry.oob_bytes))];
        if clean {
            disk.close().unwrap();
        } else {
            drop(disk);
        }
        let whole = fs::read(&path).unwrap();
        let size = whole.len() as u64;
        // The header and the state with the block table; twice the records, which say most.
        let areas =
            vec![records..data, data..spares, spares..end, end..size, 0..8192, 8192..records, records..data, 0..size];
        let damaged = Damaged { scheme, format, whole, rounds, areas, pages, path, _directory: directory };
        let verified = damaged.verify(&damaged.whole, scheme).expect("nobody has damaged it yet");
        assert_eq!(verified.findings(), Vec::<String>::new(), "{scheme} format {format}");
        assert_eq!(verified.scrub.torn, 0, "{scheme} format {format}");
        damaged
    }

    /// What `ftlab image verify` says of the file, which holds these bytes; nothing if it is no image any more.
    fn verify(&self, bytes: &[u8], context: &str) -> Option<Verified> {
        let image = Image::open(&self.path, Access::Look).ok()?;
        let verified = verify(image).unwrap_or_else(|error| panic!("{context}: {error}"));
        assert!(fs::read(&self.path).unwrap() == bytes, "{context}: verify has written to the image");
        Some(verified)
    }

    /// Holds what `ftlab image verify` says of an image with these bytes against the harm that was done to it, and
    /// against what reading it has found: which pages could not be read, and how many were older versions.
    fn agrees(&self, verified: &Verified, bytes: &[u8], (errors, old): (&[u64], &Old), context: &str) {
        let Scrub { torn, bad_records, bad_data, .. } = &verified.scrub;
        assert_eq!(verified.unreadable(), errors, "{context}: what verify cannot read, and what cannot be read");
        // It names no page of which nothing was changed.
        for ppn in bad_records.iter().chain(bad_data.iter().map(|Unsound { ppn, .. }| ppn)) {
            let is_changed = self.pages.iter().any(|(start, size)| {
                let part = (start + u64::from(ppn.0) * size) as usize..(start + u64::from(ppn.0 + 1) * size) as usize;
                self.whole[part.clone()] != bytes[part]
            });
            assert!(is_changed, "{context}: verify calls page {ppn} damaged, and it is as it was written");
        }
        // A page without a record may have been anybody's, one of metadata may have led to any other.
        let is_vague = !bad_records.is_empty() || bad_data.iter().any(|page| page.lpn.is_none());
        for &lpn in errors {
            let is_named = bad_data.iter().any(|page| page.lpn == Some(Lpn(lpn as u32)));
            assert!(is_named || is_vague, "{context}: page {lpn} is lost, and verify names no page that was its own");
        }
        let (named, torn) = ((bad_records.len() + bad_data.len()) as u64, *torn);
        let Old { was, undone, .. } = *old;
        assert!(was <= named + torn, "{context}: {was} pages are stale, verify names {named} pages and {torn} torn");
        assert!(undone == 0 || named + torn > 0, "{context}: {undone} discards undone, and verify names no page");
        assert!(!verified.findings().is_empty() || named == 0 && errors.is_empty(), "{context}: it is not sound");
    }

    fn known(&self, lpn: u64, round: u64, out: &[u8]) -> bool {
        if round == 0 { out == [0; 512] } else { out == page_of(lpn, round) }
    }

    /// Harms the file, and looks.
    fn case(&self, harm: Harm, case: usize, rng: &mut Rng, tally: &mut Tally) {
        let area = &self.areas[case % self.areas.len()];
        let mut bytes = self.whole.clone();
        let times = match harm {
            Harm::Flips => [1, 1, 2, 5, 20, 100],
            Harm::Zeros | Harm::Copies => [1, 1, 1, 2, 3, 5],
        };
        for _ in 0..times[case / self.areas.len() % 6] {
            if area.is_empty() {
                break;
            }
            let at = (area.start + rng.below(area.end - area.start)) as usize;
            match harm {
                Harm::Flips => bytes[at] ^= 1 << rng.below(8),
                Harm::Zeros => {
                    // Whole records as often as not.
                    let (at, size) = match rng.below(2) {
                        0 => (at, 1 + rng.below(255) as usize),
                        _ => (at / 64 * 64, 64 << rng.below(3)),
                    };
                    let end = (at + size).min(area.end as usize);
                    bytes[at.max(area.start as usize)..end].fill(0);
                }
                Harm::Copies => {
                    let from = (area.start + rng.below(area.end - area.start)) as usize / 64 * 64;
                    let end = (from + 64).min(bytes.len()).min(from + bytes.len() - at / 64 * 64);
                    bytes.copy_within(from..end, at / 64 * 64);
                }
            }
        }
        fs::write(&self.path, &bytes).unwrap();
        tally.images += 1;
        let context = format!("{} format {} {harm:?} case {case}", self.scheme, self.format);
        let verified = self.verify(&bytes, &context);
        let image = Image::open(&self.path, Access::Use);
        assert_eq!(image.is_ok(), verified.is_some(), "{context}: opened to be used, and to be looked at");
        // Each page may be damaged, and the others are to be had: nothing but header, state and table is needed.
        let mut refused = || {
            let head = self.pages[0].0 as usize;
            assert!(bytes[..head] != self.whole[..head], "{context}: it is refused for damaged pages");
            tally.refused += 1;
        };
        let (Ok(image), Some(verified)) = (image, verified) else { return refused() };
        let Ok(mut disk) = mount(image, false) else {
            assert!(verified.contents.is_err(), "{context}: it cannot be mounted, and verify has mounted it");
            return refused();
        };
        assert!(verified.contents.is_ok(), "{context}: it is mounted, and verify says {:?}", verified.findings());
        let mut old = Old { is: vec![false; PAGES as usize], ..Old::default() };
        let errors = self.look(&mut *disk, &mut old, &self.rounds, &context);
        self.agrees(&verified, &bytes, (&errors, &old), &context);
        tally.sound += u64::from(verified.findings().is_empty());
        tally.named += (verified.scrub.bad_records.len() + verified.scrub.bad_data.len()) as u64;
        let mut failed = vec![false; PAGES as usize];
        for lpn in 0..PAGES {
            failed[lpn as usize] = disk.read(lpn * 512, &mut [0; 512]).is_err();
        }
        tally.read += PAGES;
        tally.errors += failed.iter().filter(|&&failed| failed).count() as u64;
        // It may say that an invariant does not hold.
        let _ = disk.audit();
        // Collections meet what is damaged. Half of the pages are not written again.
        let mut rounds = self.rounds.clone();
        for round in 1000..1300 {
            let lpn = rng.below(PAGES / 2) * 2;
            match disk.write(lpn * 512, &page_of(lpn, round)) {
                Ok(_) => {
                    rounds[lpn as usize] = round;
                    failed[lpn as usize] = false;
                }
                Err(ExportError::NoSpace) => {}
                // What the write has met is known now, and it does not stop the next one.
                Err(_) => {
                    let again = disk.write(lpn * 512, &page_of(lpn, round));
                    if again.is_ok() {
                        rounds[lpn as usize] = round;
                        failed[lpn as usize] = false;
                    }
                    let why = (disk.failure(), disk.mounted(), disk.free_blocks());
                    assert_ne!(again.err(), Some(ExportError::Io), "{context}: page {lpn} cannot be written: {why:?}");
                }
            }
        }
        self.look(&mut *disk, &mut old, &rounds, &context);
        // A kill, and all is found by what stands on flash.
        tally.corrected_bits += disk.image().corrected_bits();
        drop(disk);
        let Ok(image) = Image::open(&self.path, Access::Use) else { panic!("{context}") };
        let mut disk = match mount(image, false) {
            Ok(disk) => disk,
            Err(error) => panic!("{context}: {error}"),
        };
        old.before = old.allowed;
        self.look(&mut *disk, &mut old, &rounds, &context);
        let mut out = vec![0; 512];
        for lpn in (0..PAGES).filter(|&lpn| failed[lpn as usize]) {
            let read = disk.read(lpn * 512, &mut out);
            let is_newest = self.known(lpn, rounds[lpn as usize], &out);
            assert!(read.is_err() || is_newest || old.is[lpn as usize], "{context}: page {lpn} was lost and is back");
        }
        let _ = disk.close();
        tally.stale += old.was;
        tally.said += old.allowed;
        tally.undone += old.undone;
    }

    /// Every page is what it was, or an error, or one of as many older versions as the mount has said that there may
    /// be. Returns those that are an error.
    fn look(&self, disk: &mut dyn AnyDisk, old: &mut Old, rounds: &[u64], context: &str) -> Vec<u64> {
        let mut out = vec![0; 512];
        let mut errors = Vec::new();
        for lpn in 0..PAGES {
            if disk.read(lpn * 512, &mut out).is_err() {
                errors.push(lpn);
                continue;
            }
            if self.known(lpn, rounds[lpn as usize], &out) {
                continue;
            }
            let known = (0..500).any(|round| self.known(lpn, round, &out));
            assert!(known && rounds[lpn as usize] < 1000, "{context}: page {lpn} is nothing that was written");
            if !std::mem::replace(&mut old.is[lpn as usize], true) {
                // A page of a map, or of records, may have known of several discards.
                old.was += u64::from(rounds[lpn as usize] > 0);
                old.undone += u64::from(rounds[lpn as usize] == 0);
            }
        }
        let counts = disk.counts();
        old.allowed = old.before + counts.perhaps_stale;
        old.lost_discards += counts.lost_discards;
        let Old { was, allowed, undone, lost_discards, .. } = *old;
        assert!(was <= allowed, "{context}: {was} pages are stale, {allowed} were said, {:?}", disk.mounted());
        let may_be_undone = allowed + lost_discards > 0;
        assert!(undone == 0 || may_be_undone, "{context}: {undone} discards undone unsaid, {:?}", disk.mounted());
        errors
    }
}

/// Pages that read as older versions, and how many may, by what all mounts have said.
#[derive(Default)]
struct Old {
    is: Vec<bool>,
    was: u64,
    allowed: u64,
    /// Discarded pages that are back, and what mounts have said of records of discards.
    undone: u64,
    lost_discards: u64,
    /// What was said before the image was opened last.
    before: u64,
}

/// Has images of schemes harmed, and each read held against the promises; the sum of what became of them.
fn harm_images(harm: Harm) -> Tally {
    let wanted = std::env::var("FTLAB_DAMAGED_IMAGES").ok().map(|count| count.parse::<usize>().unwrap());
    let few = ["page", "dftl", "fast", "superblock", "hybridlog", "lsftl"];
    let all = schemes::SCHEMES.iter().filter(|row| row.keeps_data && row.name != "canary").map(|row| row.name);
    let names: Vec<&str> = if wanted.is_some() { all.collect() } else { few.to_vec() };
    let bases = [(2, false), (2, true), (3, false), (1, false)];
    let each = wanted.map_or(48, |wanted| wanted.div_ceil(names.len() * bases.len()));
    let only = std::env::var("FTLAB_DAMAGED_SCHEME").ok();
    let mut sum = Tally::default();
    let mut wrong = Vec::new();
    for &scheme in names.iter().filter(|&&name| only.as_ref().is_none_or(|only| only == name)) {
        for (format, clean) in bases {
            let image = Damaged::new(scheme, format, clean);
            let rng = Rng::new(5).fork(scheme);
            let mut tally = Tally::default();
            for case in 0..each {
                let run = || image.case(harm, case, &mut rng.fork(&case.to_string()), &mut tally);
                if std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err() {
                    wrong.push(format!("{scheme} format {format} clean {clean} case {case}"));
                }
            }
            println!("{scheme} format {format} clean {clean}: {tally:?}");
            sum.add(&tally);
            if format != 1 && harm == Harm::Flips {
                // Of a record nothing is lost, and of data the page that was programmed last alone.
                assert!(tally.stale * 10 <= tally.images, "{scheme}: {tally:?}");
            }
        }
    }
    println!("{sum:?}");
    assert!(wrong.is_empty(), "what is wrong stands above: {wrong:#?}");
    sum
}

/// One flipped bit of one record made every read of a `superblock` panic, for a map led to a page that was none; and a
/// page whose record or data was damaged read as an older version, or as zeros, and nobody was told.
///
/// `FTLAB_DAMAGED_IMAGES=10000` does it with so many images, of all schemes, and names all that go wrong at the end;
/// `FTLAB_DAMAGED_SCHEME=cftl` beside it takes that scheme's part of them alone.
#[test]
fn flipped_bits_anywhere_give_the_data_or_an_error_or_what_was_said() {
    let sum = harm_images(Harm::Flips);
    assert!(sum.errors > 50 && sum.stale > 0 && sum.corrected_bits > 100, "{sum:?}");
    assert!(sum.named > 500 && sum.sound > 100, "{sum:?}");
    // 97 to 104 of 1,000 images: 20 or 100 bits in the headers, or in the block tables, meet both copies.
    assert!(sum.refused * 8 <= sum.images, "{sum:?}");
}

/// A record of zeros was taken for that of a blank page. A mount by scan then said nothing of the page that was lost,
/// and of a block whose first record was zeros it saw no page at all.
#[test]
fn zeros_anywhere_give_the_data_or_an_error_or_what_was_said() {
    let sum = harm_images(Harm::Zeros);
    assert!(sum.errors > 50 && sum.stale > 20 && sum.said >= sum.stale, "{sum:?}");
    // 2 to 4 of 1,000 images.
    assert!(sum.refused * 50 <= sum.images, "{sum:?}");
}

/// The record of a page that was copied to another page's place said that its page was blank, if it was of an earlier
/// life than that block.
#[test]
fn records_in_other_places_give_the_data_or_an_error_or_what_was_said() {
    let sum = harm_images(Harm::Copies);
    assert!(sum.errors > 20 && sum.stale > 5 && sum.said >= sum.stale, "{sum:?}");
    // 7 of 1,000 images.
    assert!(sum.refused * 50 <= sum.images, "{sum:?}");
}

/// Damage can look to a guard like a program that took a page of its word line along. Its repair made the last page of
/// the block blank, and tore others again that did not read. No mount said so, and the pages read as older versions. So
/// did pages behind one that the guard took for the last, where the newest entries of its ring were damaged.
#[test]
fn pages_that_a_guards_repair_gives_up_are_counted() {
    for (scheme, case) in [("simple", 39), ("dftl-e", 41), ("bast", 41), ("lsftl", 89), ("lsftl", 95)] {
        let mut tally = Tally::default();
        let mut rng = Rng::new(5).fork(scheme).fork(&case.to_string());
        Damaged::new(scheme, 3, false).case(Harm::Flips, case, &mut rng, &mut tally);
        assert_eq!((tally.images, tally.refused), (1, 0), "{scheme} case {case}");
        assert!(tally.said > 0, "{scheme} case {case}: nothing was given up");
    }
}

/// 39 damaged records of a `page` image made zeros of an acknowledged page.
#[test]
fn records_survive_bits_that_flip_and_what_does_not_is_counted() {
    for format in [2, 1] {
        let (_directory, path) = place();
        let mut disk = smallest("page", &path, format);
        for round in 1..6 {
            for lpn in 0..PAGES {
                disk.write(lpn * 512, &page_of(lpn, round)).unwrap();
            }
        }
        let [records, data, ..] = disk.image().areas();
        drop(disk);
        let mut bytes = fs::read(&path).unwrap();
        let mut rng = Rng::new(2);
        for _ in 0..39 {
            let record = records + rng.below((data - records) / 64) * 64;
            bytes[(record + rng.below(64)) as usize] ^= 1 << rng.below(8);
        }
        fs::write(&path, &bytes).unwrap();
        let mut disk = open(&path);
        let mut out = vec![0; 512];
        let mut stale = 0;
        for lpn in 0..PAGES {
            disk.read(lpn * 512, &mut out).unwrap();
            stale += u64::from(out != page_of(lpn, 5));
        }
        let found = disk.mounted().found;
        if format == 2 {
            assert_eq!((stale, found.unreadable, found.torn), (0, 0, 0));
            assert!(disk.image().corrected_bits() > 20);
        } else {
            assert!(stale > 0 && stale <= found.unreadable + found.torn, "{stale} stale, {found:?}");
            let said = format!("; {} pages unreadable: as many logical pages may be stale", found.unreadable);
            assert!(disk.mounted().to_string().contains(&said), "{}", disk.mounted());
        }
    }
}

/// `lsftl` makes room in its cache when it reads, and could not read 197 of 6,010 acknowledged pages.
#[test]
fn with_a_full_host_disk_every_scheme_reads_what_was_acknowledged() {
    let mut rescues = 0;
    for row in schemes::SCHEMES.iter().filter(|row| row.keeps_data && row.name != "canary") {
        let (_directory, path) = place();
        let mut disk = smallest(row.name, &path, 2);
        let mut rng = Rng::new(3);
        let mut rounds = vec![0; PAGES as usize];
        for round in 1..300 {
            let lpn = rng.below(PAGES);
            disk.write(lpn * 512, &page_of(lpn, round)).unwrap();
            rounds[lpn as usize] = round;
        }
        let mut out = vec![0; 512];
        for full in [true, false, true] {
            disk.image().fill_disk(full);
            for _ in 0..400 {
                let lpn = rng.below(PAGES);
                let round = rounds[lpn as usize];
                disk.read(lpn * 512, &mut out).unwrap();
                assert!(out == if round == 0 { vec![0; 512] } else { page_of(lpn, round) }, "{} {full}", row.name);
                if rng.chance(0.05) {
                    let written = disk.write(lpn * 512, &page_of(lpn, round + 1000));
                    assert_eq!(written.is_err(), full, "{}", row.name);
                    rounds[lpn as usize] += if full { 0 } else { 1000 };
                }
            }
        }
        rescues += disk.counts().rescues;
        disk.image().fill_disk(false);
        disk.close().unwrap();
        let mut disk = open(&path);
        assert_eq!(disk.mounted().how, Mounted::Checkpoint);
        for lpn in 0..PAGES {
            disk.read(lpn * 512, &mut out).unwrap();
            let round = rounds[lpn as usize];
            assert!(out == if round == 0 { vec![0; 512] } else { page_of(lpn, round) }, "{}", row.name);
        }
    }
    assert!(rescues > 0, "no scheme wrote when it read");
}

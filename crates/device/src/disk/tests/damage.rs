//! Images that somebody damages: what is read is the data, or an error, or what a mount has said beforehand.

use super::*;
use crate::attack::harm::{Aftermath, Facts, Harm, Memory, Places, Victim, Was};
use crate::image::tests::make_format_1;

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

/// One image, written at random, and then damaged again and again.
struct Damaged<'a> {
    scheme: &'a str,
    format: u32,
    whole: Vec<u8>,
    /// The newest round that each page was written in; 0 if it was never, or was discarded since.
    rounds: Vec<u64>,
    places: Places,
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
        let places = Places::of(disk.image());
        if clean {
            disk.close().unwrap();
        } else {
            drop(disk);
        }
        let whole = fs::read(&path).unwrap();
        let damaged = Damaged { scheme, format, whole, rounds, places, path, _directory: directory };
        let verified = damaged.victim().verify(&damaged.whole).unwrap().expect("nobody has damaged it yet");
        assert_eq!(verified.findings(), Vec::<String>::new(), "{scheme} format {format}");
        assert_eq!(verified.scrub.torn, 0, "{scheme} format {format}");
        damaged
    }

    fn victim(&self) -> Victim<'_> {
        let mount = |image| mount(image, false);
        let (places, facts) = (self.places, Facts::default());
        Victim { path: &self.path, whole: &self.whole, places, mount, memory: self, facts }
    }

    fn known(&self, lpn: u64, round: u64, out: &[u8]) -> bool {
        if round == 0 { out == [0; 512] } else { out == page_of(lpn, round) }
    }

    /// Harms the file, and looks.
    fn case(&self, harm: Harm, case: usize, rng: &mut Rng) -> Aftermath {
        let mut bytes = self.whole.clone();
        let areas = self.places.areas(bytes.len() as u64);
        let times = harm.times()[case / areas.len() % 6];
        harm.harm(&mut bytes, &areas[case % areas.len()], (times, self.places), rng);
        let context = format!("{} format {} {harm:?} case {case}", self.scheme, self.format);
        self.victim().suffer(&bytes, rng).unwrap_or_else(|what| panic!("{context}: {what}"))
    }
}

impl Memory for Damaged<'_> {
    fn was(&self, page: usize, content: &[u8]) -> Was {
        let is = |round| self.known(page as u64, round, content);
        match self.rounds[page] {
            newest if is(newest) => Was::Newest,
            _ if (0..500).any(is) => Was::Older,
            _ => Was::Nothing,
        }
    }

    fn is_blank(&self, page: usize) -> bool {
        self.rounds[page] == 0
    }
}

/// Has images of schemes harmed, and each read held against the promises; the sum of what became of them.
fn harm_images(harm: Harm) -> Aftermath {
    let wanted = std::env::var("FTLAB_DAMAGED_IMAGES").ok().map(|count| count.parse::<usize>().unwrap());
    let few = ["page", "dftl", "fast", "superblock", "hybridlog", "lsftl"];
    let all = schemes::SCHEMES.iter().filter(|row| row.keeps_data && row.name != "canary").map(|row| row.name);
    let names: Vec<&str> = if wanted.is_some() { all.collect() } else { few.to_vec() };
    let bases = [(2, false), (2, true), (3, false), (1, false)];
    let each = wanted.map_or(48, |wanted| wanted.div_ceil(names.len() * bases.len()));
    let only = std::env::var("FTLAB_DAMAGED_SCHEME").ok();
    let mut sum = Aftermath::default();
    let mut wrong = Vec::new();
    for &scheme in names.iter().filter(|&&name| only.as_ref().is_none_or(|only| only == name)) {
        for (format, clean) in bases {
            let image = Damaged::new(scheme, format, clean);
            let rng = Rng::new(5).fork(scheme);
            let mut tally = Aftermath::default();
            for case in 0..each {
                let run = || image.case(harm, case, &mut rng.fork(&case.to_string()));
                match std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)) {
                    Ok(aftermath) => tally.add(&aftermath),
                    Err(_) => wrong.push(format!("{scheme} format {format} clean {clean} case {case}")),
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
        let mut rng = Rng::new(5).fork(scheme).fork(&case.to_string());
        let tally = Damaged::new(scheme, 3, false).case(Harm::Flips, case, &mut rng);
        assert_eq!((tally.images, tally.refused), (1, 0), "{scheme} case {case}");
        assert!(tally.said > 0, "{scheme} case {case}: nothing was given up");
    }
}

/// Damage of an image that was shut down looked to its guard like a power cut. It copied the block whose last page did
/// not read, and each page there that no code corrected was blank or torn then: zeros, where a read is to fail. Under a
/// map on flash that is damaged too, a mount by scan takes the page that was programmed last for one in flight, and
/// counts it.
#[test]
fn a_guard_repairs_nothing_where_no_power_failed() {
    for (scheme, most_stale) in [("page", 0), ("dftl", 1)] {
        let (_directory, path) = place();
        let mut disk = smallest(scheme, &path, 3);
        for (round, lpn) in (1..3).flat_map(|round| (0..PAGES).map(move |lpn| (round, lpn))) {
            disk.write(lpn * 512, &page_of(lpn, round)).unwrap();
        }
        let ([_, data, ..], chip) = (disk.image().areas(), *disk.image().geometry());
        disk.close().unwrap();
        let mut bytes = fs::read(&path).unwrap();
        let is_guards = |ppn: u32| flash::is_guards(&chip, chip.block_of(flash::Ppn(ppn)));
        for ppn in (0..chip.page_count()).filter(|&ppn| !is_guards(ppn)) {
            bytes[data as usize + ppn as usize * 512] ^= 1;
        }
        fs::write(&path, &bytes).unwrap();
        let mut disk = open(&path);
        let mut out = vec![0; 512];
        let stale = (0..PAGES).filter(|lpn| disk.read(lpn * 512, &mut out).is_ok()).count() as u64;
        assert!(stale <= most_stale, "{scheme}: {stale} pages read");
        assert!(disk.counts().perhaps_stale <= most_stale, "{scheme}: {:?}", disk.counts());
    }
}

/// A guard cannot read its ring while the state is damaged. It numbered new pages from 0, older ones looked newer at
/// the next power cut, and what a torn page took along was lost.
#[test]
fn a_guard_goes_on_numbering_when_the_state_was_damaged() {
    type Medium = Guard<PowerCut<Image>>;
    let program = |flash: &mut Medium, page: u32| {
        let oob = flash::Oob::data(Lpn(page), 1, u64::from(page));
        flash.program(flash::Ppn(page), oob, flash::Payload::User(&page_of(page.into(), 1)), flash::Cause::Host)
    };
    let (_directory, path) = place();
    let mut flash = Guard::new(PowerCut::counting(Image::create(&path, &paired("page"), false).unwrap()));
    flash.recover(false).unwrap();
    // Five blocks: the ring has come round.
    (0..20).for_each(|page| program(&mut flash, page).unwrap());
    flash.image_mut().sync().unwrap();
    drop(flash);
    let mut harmed = fs::read(&path).unwrap();
    harmed[2 * crate::image::layout::UNIT as usize + 8] ^= 1;
    let mut repaired = 0;
    for seed in 0..40 {
        fs::write(&path, &harmed).unwrap();
        let image = Image::open(&path, Access::Use).unwrap();
        assert!(image.is_state_damaged());
        let mut flash = Guard::new(PowerCut::counting(image));
        flash.recover(false).unwrap();
        flash.arm(CutPoint { command: seed % 10, face: 1 }, seed);
        let done = (20..).take_while(|&page| program(&mut flash, page).is_ok()).count() as u32;
        flash.restart();
        flash.recover(true).unwrap();
        for page in 20..20 + done {
            let (_, data) = flash.read(flash::Ppn(page), flash::Cause::Recovery).unwrap();
            assert!(matches!(data, flash::Payload::User(user) if user == page_of(page.into(), 1)), "{seed}: {page}");
        }
        repaired += flash.guarded().repaired;
    }
    assert!(repaired > 0);
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

/// Pages that are programmed without data were not counted, so that the write amplification of schemes that pad blocks
/// was too low.
#[test]
fn every_program_is_counted() {
    for row in schemes::SCHEMES.iter().filter(|row| row.keeps_data && row.name != "canary") {
        let (_directory, path) = place();
        let mut disk = smallest(row.name, &path, 2);
        let before = disk.image().totals();
        let mut rng = Rng::new(4);
        for round in 1..400 {
            let lpn = rng.below(PAGES);
            disk.write(lpn * 512, &page_of(lpn, round)).unwrap();
        }
        let totals = disk.image().totals();
        let counted = (totals.host - before.host, totals.programs - before.programs);
        assert_eq!(counted, (399, disk.tally().of(Op::Program)), "{}", row.name);
    }
}

/// Under a scheme whose RAM does not tell which pages hold something, all of them were counted as holding data.
#[test]
fn live_are_the_pages_that_hold_something() {
    for row in schemes::SCHEMES.iter().filter(|row| row.keeps_data && row.name != "canary") {
        let (_directory, path) = place();
        let live = || crate::verify(Image::open(&path, Access::Look).unwrap()).unwrap().contents.unwrap().data;
        drop(smallest(row.name, &path, 2));
        assert_eq!(live(), 0, "{}", row.name);
        let mut disk = open(&path);
        for lpn in [0, 3, 9, 70] {
            disk.write(lpn * 512, &page_of(lpn, 1)).unwrap();
        }
        disk.trim(3 * 512, 512).unwrap();
        let mut out = vec![0; 4 * 512];
        disk.read(0, &mut out).unwrap();
        assert_eq!(disk.counts().unmapped_reads, 3, "{}", row.name);
        disk.close().unwrap();
        assert_eq!(live(), 3, "{}", row.name);
    }
}

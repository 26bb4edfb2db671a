//! Disks under requests, kills, cuts, damage and full host disks.

use super::*;
use crate::attack::requests::Request;
use crate::image::tests::{CODES, place, spec, spec_with_code};
use crate::image::{Access, Life, Spec};
use flash::{CutPoint, Geometry, Pairing, Rng};
use std::fs;
use std::path::Path;

mod damage;
mod forged;
mod host;

const SCHEMES: [&str; 4] = ["page", "dftl", "dftl-e", "lazyftl"];

/// A small image of a scheme, discards durable.
fn small(scheme: &str) -> Spec {
    let mut spec = spec(32, scheme);
    spec.settings.push(("durable-trim".into(), "on".into()));
    spec.device.logical_pages = 80;
    spec
}

/// The same on two dies that take turns.
fn striped(scheme: &str) -> Spec {
    let mut spec = small(scheme);
    let geometry = Geometry { channels: 2, blocks_per_die: 24, ..spec.device.geometry };
    spec.device.geometry = geometry.checked().unwrap();
    spec
}

/// The same of cells of two bits that pages share, with a guard beneath.
fn paired(scheme: &str) -> Spec {
    let mut spec = small(scheme);
    let geometry = Geometry { bits_per_cell: 2, oob_bytes: 64, ..spec.device.geometry };
    spec.device.geometry = geometry.checked().unwrap();
    spec.device.paired = Pairing::Shadow;
    Spec { device: spec.device.guarded().unwrap(), ..spec }
}

/// Mounts an image. Power that holds is a decorator too, so that every scheme is compiled for one medium.
fn mount(image: Image, emulate: bool) -> Result<Box<dyn AnyDisk>, MountError> {
    super::mount(PowerCut::counting(image).without_log(), emulate)
}

fn create(path: &Path, scheme: &str) -> Box<dyn AnyDisk> {
    mount(Image::create(path, &small(scheme), false).unwrap(), false).unwrap()
}

fn open(path: &Path) -> Box<dyn AnyDisk> {
    mount(Image::open(path, Access::Use).unwrap(), false).unwrap()
}

impl Request {
    /// As [`Request::ask`]; what is read is what is expected.
    fn serve(&self, disk: &mut dyn AnyDisk, contents: &[u8]) -> Result<(), ExportError> {
        self.ask(disk, contents).map(|same| assert!(same, "{self:?}"))
    }
}

fn contents(disk: &mut dyn AnyDisk) -> Vec<u8> {
    let mut out = vec![0xee; disk.bytes() as usize];
    disk.read(0, &mut out).unwrap();
    out
}

#[test]
fn any_request_reads_back_over_clean_shutdowns_and_kills() {
    for scheme in SCHEMES {
        let (_directory, path) = place();
        let mut disk = create(&path, scheme);
        assert_eq!((disk.bytes(), disk.block_bytes()), (80 * 512, 512));
        assert_eq!(disk.mounted().how, Mounted::Formatted);
        let mut expected = vec![0; 80 * 512];
        let mut rng = Rng::new(3);
        for round in 0..60 {
            for _ in 0..40 {
                let request = Request::draw(&mut rng, disk.bytes());
                request.serve(&mut *disk, &expected).unwrap();
                request.model(&mut expected, 512);
                if rng.chance(0.2) {
                    disk.idle();
                }
            }
            let erases: u32 = disk.image().erase_counts().sum();
            let clean = round % 2 == 0;
            if clean {
                disk.close().unwrap();
            } else {
                // Discards are durable once flushed.
                disk.flush().unwrap();
                drop(disk);
            }
            disk = open(&path);
            let mounted = disk.mounted();
            assert_eq!(mounted.how, if clean { Mounted::Checkpoint } else { Mounted::Scan }, "{mounted}");
            assert_eq!(mounted.oob_reads == 0, clean, "{mounted}");
            assert!(contents(&mut *disk) == expected, "{scheme}, round {round}");
            disk.audit().unwrap();
            assert!(disk.image().erase_counts().sum::<u32>() >= erases);
        }
        let counts = disk.counts();
        assert!(counts.read_pages == 80 && counts.remounts == 0, "{counts:?}");
    }
}

/// Whether each page is as before or as after.
fn old_or_new(found: &[u8], before: &[u8], after: &[u8]) -> bool {
    let pages = found.chunks(512).zip(before.chunks(512)).zip(after.chunks(512));
    pages.into_iter().all(|((found, before), after)| found == before || found == after)
}

#[test]
fn killed_between_any_two_writes_to_the_file_it_loses_nothing() {
    for spec in SCHEMES.into_iter().flat_map(|scheme| [small(scheme), striped(scheme)]) {
        let (_directory, path) = place();
        let mut disk = mount(Image::create(&path, &spec, false).unwrap(), false).unwrap();
        let scheme = &spec.scheme;
        let mut expected = vec![0; 80 * 512];
        let mut rng = Rng::new(5);
        // Each round is killed somewhat later than the one before; the first kills come during the mount itself.
        for round in 0..400u64 {
            drop(disk);
            let mut image = Image::open(&path, Access::Use).unwrap();
            image.fail_after(round % 97);
            let mut in_flight = expected.clone();
            match mount(image, false) {
                Err(error) => assert!(error.to_string().contains("the flash failed: HostFailed"), "{error}"),
                Ok(mut disk) => loop {
                    let mut request = Request::draw(&mut rng, 80 * 512);
                    if let Request::Trim(offset, bytes) = request {
                        // A discard is not durable before the flush; zeros are checked below.
                        request = Request::Read(offset, bytes as usize);
                    }
                    request.model(&mut in_flight, 512);
                    match request.serve(&mut *disk, &expected) {
                        Ok(()) => {}
                        Err(ExportError::Io) => break,
                        Err(error) => panic!("{error:?}"),
                    }
                    if let Request::Zero(..) = request
                        && disk.flush().is_err()
                    {
                        break;
                    }
                    expected.clone_from(&in_flight);
                    if disk.counts().rescues > 0 {
                        // A read has met the failure, and was answered all the same.
                        break;
                    }
                },
            }
            disk = open(&path);
            let found = contents(&mut *disk);
            assert!(old_or_new(&found, &expected, &in_flight), "{scheme}, round {round}");
            disk.audit().unwrap();
            expected = found;
        }
    }
}

#[test]
fn power_cut_at_any_command_in_any_way_it_loses_nothing_acknowledged() {
    for spec in SCHEMES.map(small).into_iter().chain(SCHEMES.map(paired)) {
        let (scheme, (_directory, path)) = (&spec.scheme, place());
        drop(mount(Image::create(&path, &spec, false).unwrap(), false).unwrap());
        let mut rng = Rng::new(8);
        let mut expected = vec![0; 80 * 512];
        let mut cuts = 0;
        for round in 0..300 {
            let image = Image::open(&path, Access::Use).unwrap();
            let point = CutPoint { command: rng.below(60), face: rng.below(4) as u8 };
            let mut in_flight = expected.clone();
            if let Ok(mut disk) = super::mount(PowerCut::armed(image, point, round), false) {
                for _ in 0..30 {
                    let request = Request::draw(&mut rng, 80 * 512);
                    if matches!(request, Request::Trim(..) | Request::Zero(..)) {
                        continue;
                    }
                    request.model(&mut in_flight, 512);
                    if request.serve(&mut *disk, &expected).is_err() {
                        assert_eq!(disk.failure(), Some("power was lost"));
                        cuts += 1;
                        break;
                    }
                    expected.clone_from(&in_flight);
                }
            }
            let mut disk = open(&path);
            let found = contents(&mut *disk);
            assert!(old_or_new(&found, &expected, &in_flight), "{scheme}, round {round}, {point:?}");
            disk.audit().unwrap();
            expected = found;
        }
        assert!(cuts > 100, "{cuts}");
    }
}

/// A page with a good record and bad data was called damaged, in 5 of 12 images whose power was cut.
#[test]
fn what_a_power_cut_tore_is_told_from_damage() {
    for scheme in SCHEMES {
        let mut torn = 0;
        for round in 0..60 {
            let (_directory, path) = place();
            let mut rng = Rng::new(round);
            let image = Image::create(&path, &small(scheme), false).unwrap();
            let point = CutPoint { command: 1 + rng.below(300), face: rng.below(4) as u8 };
            let mut disk = super::mount(PowerCut::armed(image, point, round), false).unwrap();
            // It goes on after the cut, and is shut down cleanly.
            for _ in 0..200 {
                let _ = disk.write(rng.below(80) * 512, &[round as u8; 512]);
            }
            disk.close().unwrap();
            let mut scrub = Image::open(&path, Access::Look).unwrap().scrub().unwrap();
            contents(&mut *open(&path));
            torn += scrub.maybe_torn.len();
            scrub.judge(&[]);
            assert!(scrub.bad_data.is_empty() && scrub.bad_records.is_empty(), "{scheme}, {point:?}: {scrub:?}");
        }
        assert!(torn > 0, "{scheme}");
    }
    // Shut down cleanly from the beginning, nothing can be torn.
    let (_directory, path) = place();
    let mut disk = create(&path, "page");
    disk.write(0, &[1; 512]).unwrap();
    disk.close().unwrap();
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes.windows(512).position(|window| window == [1; 512]).unwrap();
    bytes[at] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let scrub = Image::open(&path, Access::Look).unwrap().scrub().unwrap();
    assert_eq!((scrub.bad_data.len(), scrub.bad_data[0].lpn, scrub.maybe_torn.len()), (1, Some(Lpn(0)), 0));
}

#[test]
fn a_copy_of_the_file_mounts_whenever_it_is_taken() {
    let (directory, path) = place();
    let copy = directory.path().join("copy.img");
    for scheme in SCHEMES {
        let mut disk = mount(Image::create(&path, &small(scheme), true).unwrap(), false).unwrap();
        let mut expected = vec![0; 80 * 512];
        let mut rng = Rng::new(4);
        for _ in 0..200 {
            let request = Request::Write(rng.below(80) * 512, (0..512).map(|_| rng.bits() as u8).collect());
            request.serve(&mut *disk, &expected).unwrap();
            request.model(&mut expected, 512);
            fs::copy(&path, &copy).unwrap();
            let mut copied = open(&copy);
            assert!(contents(&mut *copied) == expected);
        }
    }
}

#[test]
fn a_full_host_disk_is_an_error_and_no_damage() {
    for scheme in SCHEMES {
        let (_directory, path) = place();
        let image = Image::create(&path, &small(scheme), false).unwrap();
        let (row, settings) = scheme_of(&image).unwrap();
        let recipe = Registry::BUILT_IN.recipe(row.name).unwrap();
        let medium = PowerCut::counting(image).without_log();
        let mut disk = Disk::mount(medium, (row, recipe), settings, false).unwrap();
        disk.write(0, &[1; 40 * 512]).unwrap();
        for writes in 0..20 {
            disk.medium_mut().image_mut().fail_after(writes);
            let failed = (0..40).find_map(|page| disk.write(page * 512, &[2; 512]).err());
            assert_eq!(failed, Some(ExportError::Io));
            assert!(disk.failure().unwrap().starts_with("the file that holds the flash failed: "));
            assert!(disk.memory().is_empty());
            // The disk has room again: the next request mounts the device.
            let mut out = [0; 80 * 512];
            disk.read(0, &mut out).unwrap();
            assert!(out[..40 * 512].chunks(512).all(|page| page == [1; 512] || page == [2; 512]));
            assert!(out[40 * 512..].iter().all(|&byte| byte == 0));
            assert_eq!(disk.counts().remounts, writes + 1);
            disk.audit().unwrap();
        }
    }
}

/// A mount by scan may write. It was refused where the host's disk was full, and nothing could be read.
#[test]
fn killed_and_opened_over_a_full_host_disk_it_can_be_read() {
    for scheme in SCHEMES {
        let (_directory, path) = place();
        let mut disk = create(&path, scheme);
        let mut expected = vec![0; 80 * 512];
        let mut rng = Rng::new(7);
        for _ in 0..200 {
            let request = Request::draw(&mut rng, disk.bytes());
            if matches!(request, Request::Write(..) | Request::Flush) {
                request.serve(&mut *disk, &expected).unwrap();
                request.model(&mut expected, 512);
            }
        }
        drop(disk);
        let image = Image::open(&path, Access::Use).unwrap();
        image.fill_disk(true);
        let mut disk = mount(image, false).unwrap();
        assert_eq!(contents(&mut *disk), expected, "{scheme}");
        assert_eq!(disk.write(0, &[1; 512]), Err(ExportError::Io));
        disk.image().fill_disk(false);
        assert_eq!(contents(&mut *disk), expected, "{scheme}");
        disk.write(0, &[1; 512]).unwrap();
        expected[..512].fill(1);
        assert_eq!(contents(&mut *disk), expected, "{scheme}");
    }
}

#[test]
fn altered_data_is_an_error_and_never_other_data() {
    for scheme in SCHEMES {
        let (_directory, path) = place();
        let mut disk = create(&path, scheme);
        for page in 0..80 {
            disk.write(page * 512, &[page as u8; 512]).unwrap();
        }
        disk.close().unwrap();
        // Every byte in the file that looks like page 33's.
        let mut bytes = fs::read(&path).unwrap();
        let at = bytes.windows(512).position(|window| window == [33; 512]).unwrap();
        bytes[at + 100] = 34;
        fs::write(&path, &bytes).unwrap();
        let mut disk = open(&path);
        // Collections move the page, and it stays what it is.
        for round in 0..20u8 {
            for page in (0..80).filter(|&page| page != 33) {
                disk.write(page * 512, &[page as u8 ^ round; 512]).unwrap();
            }
            assert_eq!(disk.read(33 * 512, &mut [0; 512]), Err(ExportError::Io), "{scheme}");
        }
        assert_eq!(disk.counts().uncorrectable, 20);
        drop(disk);
        let mut disk = open(&path);
        let mut out = [0; 512];
        let result = disk.read(33 * 512, &mut out);
        assert_eq!(result, Err(ExportError::Io), "{scheme}: collections have taken along that it is lost");
        // Written again, it is well again.
        disk.write(33 * 512, &[7; 512]).unwrap();
        disk.read(33 * 512, &mut out).unwrap();
        assert_eq!(out, [7; 512]);
    }
}

#[test]
fn with_a_code_flipped_bits_are_set_right_and_counted() {
    for scheme in SCHEMES {
        for (clean, code) in [(true, CODES[0]), (false, CODES[1])] {
            let (_directory, path) = place();
            let with = spec_with_code(1, scheme, code);
            let mut spec = Spec { ecc: with.ecc, ..small(scheme) };
            spec.device.geometry.oob_bytes = with.device.geometry.oob_bytes;
            let mut disk = mount(Image::create(&path, &spec, false).unwrap(), false).unwrap();
            let mut rng = Rng::new(9);
            let mut expected = [0u8; 80];
            for round in 1..200u8 {
                let page = rng.below(80);
                disk.write(page * 512, &[round; 512]).unwrap();
                expected[page as usize] = round;
            }
            if clean {
                disk.close().unwrap();
            } else {
                drop(disk);
            }
            let mut image = Image::open(&path, Access::Use).unwrap();
            assert!(image.age(&rng, |_, _| 5e-5).unwrap() > 5);
            assert_eq!(image.life() == Life::Clean, clean, "time changes nothing that the scheme knows");
            let mut disk = mount(image, false).unwrap();
            for (page, round) in (0..).zip(expected) {
                let mut out = [0; 512];
                disk.read(page * 512, &mut out).unwrap();
                assert_eq!(out, [round; 512], "{scheme}");
            }
            assert!(disk.image().corrected_bits() > 0, "{scheme}");
        }
    }
}

/// Of two codes whose parities take as many bytes LDPC bears more, and beyond both a page is an I/O error. With
/// `--nocapture` it prints the share of readable pages at each rate, of `FTLAB_CODES_MIB` MiB of pages (1 if unset).
#[test]
fn what_codes_with_the_same_bytes_of_parity_bear() {
    let mib: u64 = std::env::var("FTLAB_CODES_MIB").map_or(1, |mib| mib.parse().unwrap());
    let rates = [1e-4, 1e-3, 1.5e-3, 2e-3, 3e-3, 5e-3, 7e-3, 9e-3, 1.2e-2];
    let share = |code: &str| {
        let (directory, path) = place();
        let overrides = flash::device::Overrides {
            capacity: Some(mib << 20),
            spare: Some(0.4),
            pages_per_block: Some(16),
            ..flash::device::Overrides::default()
        };
        let device = flash::device::by_name("mlc-mt29f64g08cbabx").unwrap().build(&overrides).unwrap();
        let spec = Spec { device, ecc: Some(code.parse().unwrap()), ..small("page") };
        let mut disk = mount(Image::create(&path, &spec, false).unwrap(), false).unwrap();
        let page_of = |lpn: u64| {
            let mut rng = Rng::new(lpn);
            (0..1024).flat_map(|_| rng.bits().to_le_bytes()).collect::<Vec<_>>()
        };
        let pages = disk.bytes() / 8192;
        let began = Instant::now();
        for lpn in 0..pages {
            disk.write(lpn * 8192, &page_of(lpn)).unwrap();
        }
        println!("{code}: {:.0} MiB/s written", mib as f64 / began.elapsed().as_secs_f64());
        disk.close().unwrap();
        let aged = directory.path().join("aged.img");
        rates.map(|rate| {
            fs::copy(&path, &aged).unwrap();
            let mut image = Image::open(&aged, Access::Use).unwrap();
            image.age(&Rng::new(7), |_, _| rate).unwrap();
            let mut disk = mount(image, false).unwrap();
            let mut out = vec![0; 8192];
            let readable = (0..pages).filter(|&lpn| match disk.read(lpn * 8192, &mut out) {
                Ok(_) => {
                    assert!(out == page_of(lpn), "{code} at {rate}: page {lpn} reads as something else");
                    true
                }
                Err(error) => {
                    assert_eq!(error, ExportError::Io);
                    false
                }
            });
            let share = readable.count() as f64 / pages as f64;
            println!("{code} at {rate:e}: {:.2} % readable", 100.0 * share);
            share
        })
    };
    let [bch, ldpc] = ["bch:t=50,data=1024", "ldpc:parity=352,data=4096"].map(share);
    assert!(bch[0] == 1.0 && ldpc[0] == 1.0);
    assert!(bch.iter().zip(&ldpc).all(|(bch, ldpc)| ldpc >= bch), "{bch:?}, {ldpc:?}");
    assert!(bch[7] == 0.0 && ldpc[8] < 1.0);
}

/// Any byte of the file is changed: what is read was once written to that page, or is an error, also after the device
/// was written all over.
#[test]
fn any_changed_byte_leaves_a_device_that_reads_what_was_written_or_says_so() {
    let mut errors = 0;
    for (scheme, clean) in [("page", true), ("page", false), ("dftl", true), ("dftl", false)] {
        let (directory, path) = place();
        let mut disk = create(&path, scheme);
        let mut rng = Rng::new(6);
        let page_of = |lpn: u64, round: u64| {
            let mut page = vec![round as u8; 512];
            page[..8].copy_from_slice(&lpn.to_le_bytes());
            page
        };
        let mut rounds = [0; 80];
        for round in 1..400 {
            let lpn = rng.below(80);
            disk.write(lpn * 512, &page_of(lpn, round)).unwrap();
            rounds[lpn as usize] = round;
        }
        if clean {
            disk.close().unwrap();
        } else {
            drop(disk);
        }
        let whole = fs::read(&path).unwrap();
        let used = whole.iter().rposition(|&byte| byte != 0).unwrap() as u64;
        let changed = directory.path().join("changed.img");
        for case in 0..300 {
            let mut bytes = whole.clone();
            // Half of the changes go where the records are.
            let at = if case % 2 == 0 { rng.below(used) } else { 4096 * 5 + rng.below(128 * 64) } as usize;
            bytes[at] ^= 1 + rng.below(255) as u8;
            fs::write(&changed, &bytes).unwrap();
            let mut disk = open(&changed);
            for lpn in 0..80 {
                let mut out = vec![0; 512];
                match disk.read(lpn * 512, &mut out) {
                    Err(ExportError::Io) => errors += 1,
                    Err(error) => panic!("{error:?}"),
                    Ok(_) => {
                        let known = out == [0; 512] || (0..=rounds[lpn as usize]).any(|r| out == page_of(lpn, r));
                        assert!(known, "{scheme}, byte {at}, page {lpn}");
                    }
                }
            }
            let mut refused = 0;
            for lpn in 0..80 {
                // A collection may meet a page that nobody can read any more.
                refused += u32::from(disk.write(lpn * 512, &page_of(lpn, 9)).is_err());
            }
            let mut out = vec![0; 512];
            let lost = (0..80).filter(|lpn| disk.read(lpn * 512, &mut out).is_err() || out != page_of(*lpn, 9)).count();
            assert!(lost as u32 <= refused, "{scheme}, byte {at}: {lost} of {refused}");
        }
    }
    assert!(errors > 50, "{errors}");
}

#[test]
fn holes_are_known_where_ram_tells() {
    let (_directory, path) = place();
    let mut disk = create(&path, "page");
    disk.write(2 * 512, &[1; 2 * 512]).unwrap();
    let mut extents = Vec::new();
    disk.extents(100, 6 * 512, &mut extents).unwrap();
    let expected = [(2 * 512 - 100, true), (2 * 512, false), (2 * 512 + 100, true)];
    assert_eq!(extents, expected.map(|(bytes, hole)| Extent { bytes, hole }));
    disk.trim(0, 80 * 512).unwrap();
    extents.clear();
    disk.extents(0, 80 * 512, &mut extents).unwrap();
    assert_eq!(extents, [Extent { bytes: 80 * 512, hole: true }]);
}

#[test]
fn where_ram_does_not_tell_there_are_no_holes() {
    let (_directory, path) = place();
    let mut disk = create(&path, "dftl");
    assert!((0..80).all(|page| disk.write(page * 512, &[1; 512]).is_ok()));
    let mut extents = Vec::new();
    disk.extents(0, 80 * 512, &mut extents).unwrap();
    assert_eq!(extents, [Extent { bytes: 80 * 512, hole: false }]);
}

/// The scheme's RAM is as it was left, and a map that it leads to is not: a write has the device mounted by scan, where
/// data pages say the same, and is carried out.
#[test]
fn a_write_that_meets_a_damaged_map_is_tried_once_more() {
    let (_directory, path) = place();
    let mut disk = create(&path, "dftl");
    assert!((0..80).all(|page| disk.write(page * 512, &[page as u8 + 1; 512]).is_ok()));
    disk.close().unwrap();
    let mut bytes = fs::read(&path).unwrap();
    let is_host = |page: &[u8]| page[0] > 0 && page[0] <= 80 && page.iter().all(|&byte| byte == page[0]);
    let first = bytes.windows(512).position(is_host).unwrap();
    let last = bytes.windows(512).rposition(is_host).unwrap();
    let maps = bytes[first..last].chunks_mut(512).filter(|page| !is_host(page));
    assert!(maps.map(|page| page[100] ^= 1).count() > 0);
    fs::write(&path, &bytes).unwrap();
    let mut disk = open(&path);
    assert!((0..80).rev().all(|page| disk.write(page * 512, &[9; 512]).is_ok()));
    assert!(disk.counts().remounts > 0, "no write met a damaged map");
    assert_eq!(contents(&mut *disk), [9; 80 * 512]);
}

/// A damaged page of a map was left out, and the discards that it alone knew came back without a word.
#[test]
fn discards_that_a_damaged_map_alone_knew_are_said_to_be_lost() {
    for scheme in ["dftl", "lazyftl"] {
        let (_directory, path) = place();
        let mut disk = create(&path, scheme);
        assert!((0..80).all(|page| disk.write(page * 512, &[page as u8 + 1; 512]).is_ok()));
        disk.trim(0, 8 * 512).unwrap();
        disk.flush().unwrap();
        // The map's pages are not the last of their die.
        assert!((40..44).all(|page| disk.write(page * 512, &[page as u8 + 1; 512]).is_ok()));
        drop(disk);
        assert_eq!(open(&path).counts().lost_discards, 0);
        let mut bytes = fs::read(&path).unwrap();
        let is_host = |page: &[u8]| page[0] > 0 && page[0] <= 80 && page.iter().all(|&byte| byte == page[0]);
        let first = bytes.windows(512).position(is_host).unwrap();
        let last = bytes.windows(512).rposition(is_host).unwrap();
        bytes[first..last].chunks_mut(512).filter(|page| !is_host(page)).for_each(|page| page[100] ^= 1);
        fs::write(&path, &bytes).unwrap();
        let mut disk = open(&path);
        assert_eq!(contents(&mut *disk)[..512], [1; 512], "{scheme} has kept the discard");
        assert!(disk.counts().lost_discards > 0, "{scheme}: {:?}", disk.mounted());
        assert!(disk.mounted().to_string().contains("of discards unreadable"), "{scheme}: {}", disk.mounted());
    }
}

/// A discard that is not durable lets the old content come back after a kill; zeros that were answered must not.
#[test]
fn zeros_outlive_a_kill_where_discards_do_not() {
    let (_directory, path) = place();
    let mut spec = small("page");
    spec.settings.retain(|(name, _)| name != "durable-trim");
    spec.settings.push(("durable-trim".into(), "off".into()));
    let mut disk = mount(Image::create(&path, &spec, false).unwrap(), false).unwrap();
    disk.write(0, &[7; 4 * 512]).unwrap();
    disk.zero(512, 2 * 512).unwrap();
    drop(disk);
    let expected = [[7; 512], [0; 512], [0; 512], [7; 512]].concat();
    assert_eq!(contents(&mut *open(&path))[..4 * 512], expected);
}

#[test]
fn what_is_not_on_the_device_is_invalid() {
    let (_directory, path) = place();
    let mut disk = create(&path, "page");
    let size = disk.bytes();
    assert_eq!(disk.read(size - 1, &mut [0; 2]), Err(ExportError::Invalid));
    assert_eq!(disk.write(u64::MAX, &[0; 2]), Err(ExportError::Invalid));
    assert_eq!(disk.trim(1, size), Err(ExportError::Invalid));
    assert_eq!(disk.extents(size + 1, 0, &mut Vec::new()), Err(ExportError::Invalid));
    assert_eq!(disk.read(size, &mut []), Ok(Done::default()));
}

#[test]
fn partial_pages_are_read_first_and_counted() {
    let (_directory, path) = place();
    let mut disk = create(&path, "page");
    disk.write(100, &[1; 2000]).unwrap();
    disk.zero(1000, 2000).unwrap();
    let mut out = [9; 2100];
    disk.read(0, &mut out).unwrap();
    assert!(out[100..1000].iter().all(|&byte| byte == 1) && out[..100].iter().chain(&out[1000..]).all(|&b| b == 0));
    let counts = disk.counts();
    // The first write: pages 0 to 4, 0 and 4 in part. The zeros: pages 1 and 5 in part, 2 to 4 discarded.
    assert_eq!((counts.writes, counts.write_pages, counts.partial_writes, counts.trims), (3, 7, 4, 1));
    assert_eq!(disk.tally().get(flash::Cause::Host, Op::Program), 7);
    disk.close().unwrap();
    assert_eq!(open(&path).image().totals(), crate::Totals { host: 7, programs: 8, ageings: 0 });
}

#[test]
fn emulated_timing_delays_answers_and_plain_serving_does_not() {
    for emulate in [false, true] {
        let (_directory, path) = place();
        let image = Image::create(&path, &small("page"), false).unwrap();
        let mut disk = mount(image, emulate).unwrap();
        let done = disk.write(0, &[1; 512]).unwrap();
        assert_eq!(done.after_ns, if emulate { 210 } else { 0 });
    }
}

/// Scheme, version, and length and checksum of what it saves.
const PINNED: [(&str, u32, usize, u32); 4] = [
    ("page", 4, 724, 1_488_943_074),
    ("dftl", 5, 452, 3_862_510_618),
    ("dftl-e", 5, 576, 3_356_431_501),
    ("lazyftl", 3, 501, 959_175_911),
];

/// What [`Inspect::save`] writes of a device with one page. If this fails, the saved form has changed: raise the
/// scheme's `state_version`, so that checkpoints of the old form are not restored, and enter what is found.
#[test]
fn the_form_of_saved_state_is_what_its_version_says() {
    let found = SCHEMES.map(|scheme| {
        let (_directory, path) = place();
        let mut disk = create(&path, scheme);
        let version = disk.scheme().state_version;
        disk.write(0, &[1; 512]).unwrap();
        disk.close().unwrap();
        let mut image = Image::open(&path, Access::Use).unwrap();
        assert_eq!(image.checkpoint(version + 1), Ok(None));
        let saved = image.checkpoint(version).unwrap().expect("a clean shutdown");
        (scheme, version, saved.len(), crc32fast::hash(&saved))
    });
    assert_eq!(found, PINNED);
}

#[test]
fn an_image_of_another_build_is_refused() {
    let (_directory, path) = place();
    let error = |spec: &Spec| {
        let image = Image::create(&path, spec, true).unwrap();
        mount(image, false).err().unwrap().to_string()
    };
    let wrong = Spec { scheme: "mosaic".into(), ..small("page") };
    assert_eq!(error(&wrong), "the image is for scheme mosaic, which this ftlab does not have");
    let mut wrong = small("page");
    wrong.settings.push(("gc-lower".into(), "3".into()));
    assert!(error(&wrong).starts_with("the image's parameters are not understood: no parameter gc-lower"));
    let mut wrong = small("page");
    wrong.device.logical_pages = 128;
    assert!(error(&wrong).starts_with("spare: "), "{}", error(&wrong));
}

/// A half-full image of `FTLAB_MOUNT_GIB` GiB (1 if unset; 64 is the size that docs/mount.md states times for) mounts
/// in time. With `--nocapture` it prints how long that took.
#[test]
fn large_images_mount_in_time() {
    let gib: u64 = std::env::var("FTLAB_MOUNT_GIB").map_or(1, |gib| gib.parse().unwrap());
    for scheme in ["page", "dftl"] {
        let (_directory, path) = place();
        let overrides = flash::device::Overrides {
            capacity: Some(gib << 30),
            spare: Some(0.125),
            page: Some(4096),
            pages_per_block: Some(256),
            ..flash::device::Overrides::default()
        };
        let device = flash::device::by_name("agrawal08").unwrap().build(&overrides).unwrap();
        let mut image = Image::create(&path, &Spec { device, ..small(scheme) }, false).unwrap();
        image.sparse_zeros = true;
        let mut disk = mount(image, false).unwrap();
        let size = disk.bytes();
        // Not in order: a page that is found by its LPN lies in another block than the one before.
        let chunk = vec![0; 1 << 16];
        let chunks = size / chunk.len() as u64;
        for i in 0..chunks / 2 {
            disk.write(i * 40_503 % chunks * chunk.len() as u64, &chunk).unwrap();
        }
        drop(disk);
        for (how, limit) in [(Mounted::Scan, 5.0), (Mounted::Checkpoint, 0.5)] {
            let began = Instant::now();
            let mut disk = open(&path);
            let seconds = began.elapsed().as_secs_f64();
            println!("{scheme}, {gib} GiB: {seconds:.3} s; {}", disk.mounted());
            assert_eq!(disk.mounted().how, how);
            // At full size a busy machine is no failure: look at what is printed.
            assert!(seconds < limit || gib > 1, "{}", disk.mounted());
            disk.write(0, &[1; 4096]).unwrap();
            disk.close().unwrap();
        }
    }
}

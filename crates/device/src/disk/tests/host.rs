//! The same random requests while the host misbehaves: its disk is cut off between two writes that were made durable,
//! and has then any part of what came since, whole or torn, in any order, or in another place; it cannot be read for a
//! moment; it reads and writes in parts; it is full.

use super::*;
use crate::attack::{Attack, Attacked, Counts, End};
use crate::image::Host;
use std::sync::atomic::AtomicBool;

const PAGES: usize = 80;

const SECTOR: usize = 512;

/// Attacks of some seeds hold, and each kind of crash leaves pages that are not what was written last.
#[test]
fn whatever_the_host_does_pages_are_what_they_have_been_or_errors() {
    for scheme in ["page", "dftl", "lsftl", "superblock", "fast"] {
        let mount = |image| mount(image, false);
        let known = schemes::by_name(scheme).unwrap().settings();
        let durable = [("durable-trim".to_owned(), "on".to_owned())];
        let settings = if known.get("durable-trim").is_some() { &durable[..] } else { &[] };
        let asked = Attack { scheme, settings, requests: 1_000, mount };
        let mut done = Attacked::default();
        for seed in 0..8 {
            let directory = tempfile::tempdir().unwrap();
            let (lived, wrong) = Attacked::attack(&asked, seed, directory.path(), &AtomicBool::new(false)).unwrap();
            assert_eq!(wrong, None, "{scheme}, seed {seed}");
            done.add(&lived);
        }
        let of = |end: End| done.others[end as usize];
        assert!(of(End::InOrder) > 0 && of(End::Scattered) > of(End::Kill), "{scheme}: {done:?}");
        assert_eq!(of(End::Shutdown), 0, "{scheme}");
        let shutdowns = done.ends[End::Shutdown as usize];
        assert!(0 < done.believed && done.believed < shutdowns, "{scheme}: {done:?}");
        assert!(done.errors > 0 && done.hitches.iter().all(|&count| count > 0), "{scheme}: {done:?}");
        let harmed = &done.harmed;
        assert!(harmed.images > 50 && harmed.sound < harmed.images, "{scheme}: {done:?}");
        assert!(harmed.named > 10 && harmed.said >= harmed.stale, "{scheme}: {done:?}");
    }
}

/// What every check must catch: a scheme whose flush does nothing, so that discards come back.
#[test]
fn the_canary_is_caught_in_its_image() {
    let asked = Attack { scheme: "canary", settings: &[], requests: 400, mount: |image| mount(image, false) };
    let lives = (0..8).filter_map(|seed| {
        let directory = tempfile::tempdir().unwrap();
        Attacked::attack(&asked, seed, directory.path(), &AtomicBool::new(false)).unwrap().1
    });
    let found: Vec<_> = lives.collect();
    let is_back = |what: &str| what.contains("is not what it was") || what.contains("discards are undone");
    assert!(found.len() > 4 && found.iter().all(|finding| is_back(&finding.what)), "{found:?}");
}

/// The checkpoint's own crash: whatever the disk has of it, it is believed only if it is all there.
#[test]
fn a_checkpoint_of_which_the_disk_has_a_part_is_not_believed() {
    let mut believed = 0;
    for seed in 0..40 {
        let (_directory, path) = place();
        let mut rng = Rng::new(seed);
        let mut image = Image::create(&path, &small("dftl"), false).unwrap();
        let journal = image.keep_journal();
        let mut disk = mount(image, false).unwrap();
        let mut contents = vec![0; PAGES * 512];
        for _ in 0..60 {
            let request = Request::draw(&mut rng, disk.bytes());
            request.serve(&mut *disk, &contents).unwrap();
            request.model(&mut contents, 512);
        }
        disk.flush().unwrap();
        // As if no write of the shutdown had been waited for.
        let before = fs::read(&path).unwrap();
        disk.close().unwrap();
        let after = fs::read(&path).unwrap();
        assert!(journal.lock().unwrap().is_empty());
        let mut bytes = after.clone();
        for (sector, old) in before.chunks(SECTOR).enumerate() {
            if rng.chance(0.3) {
                bytes[sector * SECTOR..][..old.len()].copy_from_slice(old);
            }
        }
        bytes.truncate(if rng.chance(0.3) { before.len() + 100 } else { bytes.len() });
        fs::write(&path, &bytes).unwrap();
        let mut disk = open(&path);
        believed += u32::from(disk.mounted().how == Mounted::Checkpoint);
        assert_eq!(super::contents(&mut *disk), contents, "seed {seed}");
    }
    assert!(believed > 0 && believed < 40, "{believed}");
}

/// A disk that cannot be read for a moment costs the request, and nothing else.
#[test]
fn a_host_that_cannot_read_for_a_moment_loses_nothing() {
    for scheme in SCHEMES {
        let (_directory, path) = place();
        let mut disk = create(&path, scheme);
        let mut rng = Rng::new(5);
        let mut contents = vec![0; PAGES * 512];
        let mut errors = 0;
        for _ in 0..600 {
            let request = Request::draw(&mut rng, disk.bytes());
            if rng.chance(0.5) {
                disk.image().fail_to_read_after(rng.below(6));
            }
            match request.serve(&mut *disk, &contents) {
                Ok(()) => {
                    request.model(&mut contents, 512);
                    disk.image().fail_to_read_after(u64::MAX);
                }
                Err(error) => {
                    assert_eq!(error, ExportError::Io);
                    errors += 1;
                    disk.image().fail_to_read_after(u64::MAX);
                    // Of a request in flight each page may be old or new: it is done again.
                    request.serve(&mut *disk, &contents).unwrap();
                    request.model(&mut contents, 512);
                }
            }
            if matches!(request, Request::Trim(..) | Request::Zero(..)) {
                // Discards hold once they are flushed.
                disk.flush().unwrap();
            }
        }
        disk.image().fail_to_read_after(u64::MAX);
        assert_eq!(super::contents(&mut *disk), contents, "{scheme}");
        assert!(errors > 10, "{scheme}: {errors}");
    }
}

/// Shares of the host's reads and writes that are done in part, that are interrupted, that do nothing, and of the
/// writes behind the first part of which its disk is full.
type Shares = [f64; 4];

/// Random requests over a host with such reads and writes, and kills between them. Every request is carried out or is
/// an I/O error, and then each page of it is old or new. How many errors there were, and how often each fault.
fn run_over(scheme: &str, shares: Shares, seed: u64) -> (u32, [u64; 4]) {
    let [partly, interrupted, nothing, full] = shares;
    let (_directory, path) = place();
    let mut rng = Rng::new(seed);
    let host = |rng: &mut Rng| {
        let rng = rng.fork("host");
        Some(Host { partly, interrupted, nothing, full, ..Host::willing(rng) })
    };
    let mut spec = small(scheme);
    if scheme == "lsftl" {
        spec.settings.push(("lu".into(), "2".into()));
    }
    spec.device.geometry.oob_bytes = 64;
    let mut disk = mount(Image::create(&path, &spec, false).unwrap(), false).unwrap();
    let mut expected = vec![0; PAGES * 512];
    let (mut errors, mut faults) = (0, [0; 4]);
    for round in 0..40 {
        let context = format!("{scheme}, {shares:?}, seed {seed}, round {round}");
        disk.image().set_host(host(&mut rng));
        let mut in_flight = expected.clone();
        for _ in 0..20 {
            let request = Request::draw(&mut rng, disk.bytes());
            request.model(&mut in_flight, 512);
            let mut served = request.serve(&mut *disk, &expected);
            if served.is_ok() && matches!(request, Request::Trim(..) | Request::Zero(..)) {
                // Discards hold once they are flushed.
                served = disk.flush().map(drop);
            }
            match served {
                Ok(()) => expected.clone_from(&in_flight),
                Err(error) => {
                    assert_eq!(error, ExportError::Io, "{context}");
                    errors += 1;
                    break;
                }
            }
        }
        let counts = disk.image().set_host(None).expect("they were set").counts;
        faults.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        match round % 4 {
            // The same process goes on, another one does after a kill, or after a clean shutdown.
            0 | 1 => {}
            2 => {
                drop(disk);
                disk = open(&path);
            }
            _ => {
                let found = contents(&mut *disk);
                assert!(old_or_new(&found, &expected, &in_flight), "{context}");
                expected.clone_from(&found);
                disk.image().set_host(host(&mut rng));
                errors += u32::from(disk.close().is_err());
                disk = open(&path);
                in_flight.clone_from(&expected);
            }
        }
        let found = contents(&mut *disk);
        assert!(old_or_new(&found, &expected, &in_flight), "{context}");
        disk.audit().unwrap_or_else(|what| panic!("{context}: {what}"));
        expected = found;
    }
    (errors, faults)
}

const OVER: [&str; 6] = ["page", "dftl", "dftl-e", "lazyftl", "lsftl", "superblock"];

/// A host may do less than it is asked for, and say so, and a signal may interrupt it: it is asked for the rest.
#[test]
fn a_host_that_reads_and_writes_in_parts_is_asked_for_the_rest() {
    for scheme in OVER {
        let (errors, faults) = run_over(scheme, [0.5, 0.2, 0.0, 0.0], 1);
        assert_eq!(errors, 0, "{scheme}");
        assert!(faults[0] > 1000 && faults[1] > 500, "{scheme}: {faults:?}");
    }
}

/// A read or a write that does nothing and reports no error, as at the end of a file or of a disk, is an I/O error:
/// what was not read is no zeros.
#[test]
fn a_host_that_does_nothing_for_once_is_an_error_and_no_zeros() {
    for scheme in OVER {
        let errors: u32 = (0..4).map(|seed| run_over(scheme, [0.2, 0.1, 0.01, 0.0], seed).0).sum();
        assert!(errors > 40, "{scheme}: {errors}");
    }
}

/// A disk that fills up in the middle of a write has taken the first sectors of it.
#[test]
fn a_write_of_which_the_disk_takes_the_first_sectors_is_an_error_and_loses_nothing() {
    for scheme in OVER {
        let errors: u32 = (0..4).map(|seed| run_over(scheme, [0.2, 0.1, 0.0, 0.1], seed).0).sum();
        assert!(errors > 40, "{scheme}: {errors}");
    }
}

/// Somebody cuts the file off while it is in use: what lay beyond is an error, and not what a file has beyond its end.
#[test]
fn a_file_that_is_cut_off_while_it_is_in_use_reads_as_errors_and_no_zeros() {
    for scheme in OVER {
        let (_directory, path) = place();
        let mut spec = small(scheme);
        spec.device.geometry.oob_bytes = 64;
        if scheme == "lsftl" {
            spec.settings.push(("lu".into(), "2".into()));
        }
        let mut disk = mount(Image::create(&path, &spec, false).unwrap(), false).unwrap();
        assert!((0..80).all(|page| disk.write(page * 512, &[page as u8 + 1; 512]).is_ok()));
        disk.flush().unwrap();
        let [_, data, spares, _] = disk.image().areas();
        let whole = fs::read(&path).unwrap();
        fs::OpenOptions::new().write(true).open(&path).unwrap().set_len((data + spares) / 2).unwrap();
        let mut out = [0xee; 512];
        let mut errors = 0;
        for page in 0..80u64 {
            match disk.read(page * 512, &mut out) {
                Ok(_) => assert_eq!(out, [page as u8 + 1; 512], "{scheme}, page {page}"),
                Err(error) => {
                    assert_eq!(error, ExportError::Io);
                    errors += 1;
                }
            }
        }
        assert!(errors > 0, "{scheme}: nothing of it lay beyond");
        // A scheme that writes when it reads makes the file longer again, with zeros in between: no checksum is theirs.
        let is_short = disk.failure().is_some_and(|why| why.contains("is truncated"));
        assert!(is_short || disk.counts().uncorrectable == errors, "{scheme}: {:?}", disk.failure());
        // With the whole file everything is there again.
        drop(disk);
        fs::write(&path, &whole).unwrap();
        let mut disk = open(&path);
        let expected: Vec<u8> = (0..80).flat_map(|page| [page + 1; 512]).collect();
        assert_eq!(contents(&mut *disk), expected, "{scheme}");
    }
}

//! Images of a few schemes, written at random and then changed: the input says where and how. A read gives what was
//! written to that page last, or an error, before and after writes; or something older, of no more pages than mounts
//! have said. Behind edits that make checksums right again a page may read as anything, and nothing may panic.
#![no_main]

use device::AnyDisk;
use device::image::forge::forge;
use device::image::{Access, Image, Spec};
use flash::device::{Overrides, by_name};
use libfuzzer_sys::fuzz_target;
use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

const PAGES: u64 = 64;
const BYTES: u64 = 512;

struct Base {
    bytes: Vec<u8>,
    geometry: flash::Geometry,
    rounds: Vec<u64>,
    scheme: &'static str,
}

fn page_of(lpn: u64, round: u64) -> Vec<u8> {
    let mut page = vec![round as u8; BYTES as usize];
    page[..16].copy_from_slice(&(u128::from(lpn) << 64 | u128::from(round)).to_le_bytes());
    page
}

fn place() -> PathBuf {
    PathBuf::from(format!("/dev/shm/ftlab-fuzz-image-{}", std::process::id()))
}

fn base(scheme: &'static str, clean: bool) -> Base {
    let overrides = Overrides {
        capacity: Some(PAGES * BYTES),
        spare: Some(0.6),
        page: Some(BYTES as u32),
        pages_per_block: Some(4),
        oob: Some(128),
        channels: Some(1),
        chips: Some(1),
        dies: Some(1),
        planes: Some(1),
        nop: Some(4),
        ..Overrides::default()
    };
    let device = by_name("agrawal08").unwrap().build(&overrides).unwrap();
    let row = ftl::schemes::by_name(scheme).unwrap();
    let mut settings = row.settings();
    settings.set("durable-trim", "on").unwrap();
    let settings = vec![("durable-trim".to_owned(), "on".to_owned())];
    let geometry = device.geometry;
    let spec = Spec { device, scheme: scheme.to_owned(), settings, ecc: None };
    let path = place();
    let image = Image::create(&path, &spec, path.exists()).unwrap();
    let mut disk = device::mount(image, false).unwrap();
    let mut rounds = vec![0; PAGES as usize];
    let mut state = 7u64;
    for round in 1..400 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let lpn = (state >> 33) % PAGES;
        disk.write(lpn * BYTES, &page_of(lpn, round)).unwrap();
        rounds[lpn as usize] = round;
    }
    if clean {
        disk.close().unwrap();
    } else {
        drop(disk);
    }
    Base { bytes: fs::read(&path).unwrap(), geometry, rounds, scheme }
}

/// Pages that read as an older version.
type Stale = [bool; PAGES as usize];

/// No more pages are stale than mounts have said.
fn look(disk: &mut dyn AnyDisk, base: &Base, forged: bool, written: &[bool], stale: &mut Stale) {
    let mut out = vec![0; BYTES as usize];
    for lpn in 0..PAGES {
        if disk.read(lpn * BYTES, &mut out).is_err() || forged {
            continue;
        }
        let known =
            |round: u64| if round == 0 { out.iter().all(|&byte| byte == 0) } else { out == page_of(lpn, round) };
        let newest = base.rounds[lpn as usize];
        if known(if written[lpn as usize] { 1000 } else { newest }) {
            continue;
        }
        assert!(!written[lpn as usize] && (0..newest).any(known), "{}: page {lpn}", base.scheme);
        stale[lpn as usize] = true;
    }
    let (are, said) = (stale.iter().filter(|&&page| page).count() as u64, disk.counts().perhaps_stale);
    assert!(are <= said, "{}: {are} pages are stale, {said} were said", base.scheme);
}

fuzz_target!(|data: &[u8]| {
    static BASES: OnceLock<Vec<Base>> = OnceLock::new();
    let bases = BASES.get_or_init(|| {
        let schemes = ["page", "dftl", "fast", "superblock", "hybridlog", "lsftl"];
        schemes.iter().flat_map(|scheme| [base(scheme, false), base(scheme, true)]).collect()
    });
    let Some((&choice, edits)) = data.split_first() else { return };
    let base = &bases[usize::from(choice) % bases.len()];
    let mut bytes = base.bytes.clone();
    let mut forged = false;
    // Each edit: a place of three bytes, what to do, and with what.
    for edit in edits.chunks_exact(5).take(64) {
        let at = usize::from(edit[0]) | usize::from(edit[1]) << 8 | usize::from(edit[2]) << 16;
        let at = at % bytes.len();
        match edit[3] & 7 {
            0..4 => bytes[at] ^= edit[4],
            4 => bytes[at] = edit[4],
            5 => {
                let end = (at + usize::from(edit[4])).min(bytes.len());
                bytes[at..end].fill(0);
            }
            6 => {
                // A record, or as much of anything else, from elsewhere.
                let from = at / 64 * 64;
                let to = (from + usize::from(edit[4]) * 64) % bytes.len().saturating_sub(64).max(1);
                let end = (from + 64).min(bytes.len()).min(from + bytes.len() - to);
                bytes.copy_within(from..end, to);
            }
            _ if edit[3] >> 3 == 0 => bytes.truncate(at.max(1)),
            _ if bytes.len() == base.bytes.len() => {
                forge(&mut bytes, &base.geometry, at, (edit[3] >> 3) - 1, edit[4]);
                forged = true;
            }
            _ => {}
        }
    }
    let path = place();
    fs::write(&path, &bytes).unwrap();
    let Ok(image) = Image::open(&path, Access::Use) else { return };
    let Ok(mut disk) = device::mount(image, false) else { return };
    let _ = disk.audit();
    let mut written = vec![false; PAGES as usize];
    let mut stale = [false; PAGES as usize];
    look(&mut *disk, base, forged, &written, &mut stale);
    for lpn in (0..PAGES).step_by(2).chain(0..PAGES / 2) {
        let done = disk.write(lpn * BYTES, &page_of(lpn, 1000)).is_ok();
        written[lpn as usize] |= done;
    }
    look(&mut *disk, base, forged, &written, &mut stale);
});

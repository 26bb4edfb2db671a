//! Images of which somebody has changed bytes and made the checksums right.

use super::*;
use crate::image::forge::{SORTS, forge, pages_of_maps, sort};

const BYTES: u64 = 512;

/// An image that was written at random, some of it discarded, and closed or killed.
fn base(path: &Path, spec: &Spec, clean: bool) -> Vec<u8> {
    let mut disk = mount(Image::create(path, spec, false).unwrap(), false).unwrap();
    let pages = u64::from(spec.device.logical_pages);
    let mut rng = Rng::new(7);
    for round in 0..3 * pages {
        let lpn = rng.below(pages);
        disk.write(lpn * BYTES, &[round as u8; BYTES as usize]).unwrap();
        if round % 16 == 0 {
            let _ = disk.trim(rng.below(pages) * BYTES, BYTES);
            disk.flush().unwrap();
        }
    }
    if clean {
        disk.close().unwrap()
    } else {
        drop(disk)
    }
    let bytes = fs::read(path).unwrap();
    fs::remove_file(path).unwrap();
    bytes
}

/// Mounts, reads, writes and reads again, as far as it goes.
fn use_all(path: &Path, pages: u64) {
    let Ok(image) = Image::open(path, Access::Use) else { return };
    let Ok(mut disk) = mount(image, false) else { return };
    let _ = disk.audit();
    let mut out = vec![0; BYTES as usize];
    for round in 0..2 {
        for lpn in 0..pages {
            let _ = disk.read(lpn * BYTES, &mut out);
        }
        for lpn in (0..pages).filter(|lpn| lpn % 2 == round) {
            let _ = disk.write(lpn * BYTES, &[9; BYTES as usize]);
        }
        let _ = disk.trim(0, 4 * BYTES);
        let _ = disk.flush();
    }
}

/// What an image says is believed by its checksums alone, which anybody can make right: whatever it says, nothing may
/// panic. A program number near 2^64 overflowed in the mount, a length beyond a page was read past its end, a map's
/// entry led beyond the device, a page of another kind than the map has was taken for what it was.
#[test]
fn forged_content_is_an_error_at_worst() {
    let seeds: u64 = std::env::var("FTLAB_FORGED").map_or(40, |text| text.parse().unwrap());
    let mut failed: Vec<String> = Vec::new();
    for row in ftl::schemes::SCHEMES.iter().filter(|row| row.keeps_data && row.name != "canary") {
        let mut spec = spec(64, row.name);
        if row.name != "simple" {
            spec.settings.push(("durable-trim".into(), "on".into()));
        }
        spec.device.logical_pages = 64;
        spec.device.geometry.oob_bytes = 128;
        spec.device.geometry.nop = 4;
        let (_directory, path) = place();
        for clean in [false, true] {
            let base = base(&path, &spec, clean);
            let maps = pages_of_maps(&base, &spec.device.geometry);
            let pages = u64::from(spec.device.geometry.page_count());
            for seed in 0..seeds {
                let mut rng = Rng::new(seed);
                let mut bytes = base.clone();
                let mut done = Vec::new();
                for _ in 0..1 + rng.below(4) {
                    let (mut at, sort, value) = (rng.below(1 << 24), rng.below(SORTS.into()), rng.below(256));
                    // Of which there are few, so they are met as often as all others.
                    if let Some(&map) = maps.get(rng.below(1 + 2 * maps.len() as u64) as usize) {
                        at = at / pages * pages + map;
                    }
                    forge(&mut bytes, &spec.device.geometry, at as usize, sort as u8, value as u8);
                    done.push((at, sort, value));
                }
                fs::write(&path, &bytes).unwrap();
                let pages = u64::from(spec.device.logical_pages);
                if std::panic::catch_unwind(|| use_all(&path, pages)).is_err() {
                    failed.push(format!("{} clean={clean} seed={seed} {done:?}", row.name));
                }
            }
            fs::remove_file(&path).unwrap();
        }
    }
    assert!(failed.is_empty(), "{} failed:\n{}", failed.len(), failed.join("\n"));
}

/// Each change (`at`, sort, value) to an image of this scheme, alone, is an error at worst.
fn each(scheme: &str, clean: bool, changes: impl Fn(u32) -> Vec<(u32, u8, u8)>) {
    let mut spec = spec(64, scheme);
    spec.settings.push(("wear-state".into(), "on".into()));
    spec.device.logical_pages = 64;
    spec.device.geometry.oob_bytes = 128;
    spec.device.geometry.nop = 4;
    let (_directory, path) = place();
    let base = base(&path, &spec, clean);
    let g = &spec.device.geometry;
    for (at, sort, value) in changes(g.page_count()) {
        let mut bytes = base.clone();
        forge(&mut bytes, g, at as usize, sort, value);
        fs::write(&path, &bytes).unwrap();
        let used = std::panic::catch_unwind(|| use_all(&path, 64));
        assert!(used.is_ok(), "{scheme}: {value} at {at}");
    }
}

/// A map on flash is right about some pages without a look at their spare areas. Such a page may there say that it is
/// another logical page, whose newest it is then, too.
#[test]
fn a_page_that_two_entries_name_is_an_error_at_worst() {
    for scheme in ["dftl", "lsftl", "sftl", "lazyftl"] {
        each(scheme, false, |pages| (0..pages).flat_map(|ppn| [0, 42].map(|lpn| (ppn, sort::ADDRESS, lpn))).collect());
    }
}

/// A block of `hybridlog` holds the pages of one logical block, in any order. One of them may be, with all that stands
/// beside it, a page of another logical block.
#[test]
fn a_block_with_a_page_of_another_is_an_error_at_worst() {
    for scheme in ["hybridlog", "rose-log"] {
        each(scheme, false, |pages| (0..pages).flat_map(|to| [21, 78].map(|from| (to, sort::ALL, from))).collect());
    }
}

/// The state of an image that was shut down cleanly says how many bytes the scheme keeps in spare areas. It may say
/// less than the scheme needs, and no mount by scan asks.
#[test]
fn too_few_bytes_in_spare_areas_are_an_error_at_worst() {
    for scheme in ["superblock", "hybridlog", "page"] {
        each(scheme, true, |_| (0..64).map(|own| (0, sort::OWN_BYTES, own)).collect());
    }
}

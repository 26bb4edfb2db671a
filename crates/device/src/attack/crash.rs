//! What a crash of the host leaves of a file.

use super::End;
use flash::Rng;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The host's disk writes sectors whole.
const SECTOR: usize = 512;

/// Makes a file what the host's disk has of it behind a crash: `writes` are those since it was last made durable, each
/// with its place and the bytes before and after.
///
/// # Errors
/// The host's.
pub(super) fn crash(path: &Path, writes: &[(u64, Vec<u8>, Vec<u8>)], end: End, rng: &mut Rng) -> io::Result<()> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    for (offset, before, _) in writes.iter().rev() {
        file.write_all_at(before, *offset)?;
    }
    let mut order: Vec<usize> = (0..writes.len()).collect();
    if end == End::InOrder {
        order.truncate(rng.below(writes.len() as u64 + 1) as usize);
    } else {
        (1..order.len()).rev().for_each(|last| order.swap(last, rng.below(last as u64 + 1) as usize));
        order.retain(|_| rng.chance(0.7));
    }
    let strays = (end == End::Misdirected).then(|| rng.below(order.len().max(1) as u64) as usize);
    let size = file.metadata()?.len();
    for (number, write) in order.into_iter().enumerate() {
        let (place, _, data) = &writes[write];
        let mut offset = *place;
        if strays == Some(number) {
            offset = rng.below((size - data.len() as u64) / SECTOR as u64) * SECTOR as u64;
        }
        let torn = end != End::InOrder && rng.chance(0.2);
        let mut at = 0;
        while at < data.len() {
            // To the next border of a sector.
            let to = data.len().min(at + SECTOR - (offset as usize + at) % SECTOR);
            if !torn || rng.chance(0.5) {
                file.write_all_at(&data[at..to], offset + at as u64)?;
            }
            at = to;
        }
    }
    Ok(())
}

/// Takes back some sectors of what a file has got since it was `before`, or cuts off its end: what a disk has that was
/// not waited for. The first `least` bytes are those of an image without a checkpoint, which stands behind them.
///
/// # Errors
/// The host's.
pub(super) fn forget_some(path: &Path, before: &[u8], least: usize, rng: &mut Rng) -> io::Result<()> {
    let mut bytes = std::fs::read(path)?;
    for (sector, new) in bytes.chunks_mut(SECTOR).enumerate() {
        if rng.chance(0.3) {
            let old = before.get(sector * SECTOR..).unwrap_or_default();
            let known = old.len().min(new.len());
            new[..known].copy_from_slice(&old[..known]);
            new[known..].fill(0);
        }
    }
    if rng.chance(0.3) {
        bytes.truncate(least + rng.below((bytes.len() - least) as u64 + 1) as usize);
    }
    std::fs::write(path, &bytes)
}

//! Changes to an image's bytes behind which the checksums are right: what no scheme and no damage has left there.
//! Nothing that an image says may make a scheme panic; what pages read as is another matter (docs/recovery.md, *What
//! content may reach*).

use super::layout::{ENTRY, Layout, RECORD};
use flash::{Block, Geometry, Ppn};

/// How many sorts of change there are.
pub const SORTS: u8 = 27;

/// Those that tests ask for by name: a page's address, the bytes of the scheme in spare areas, all of another page.
pub(crate) mod sort {
    pub(crate) const ADDRESS: u8 = 8;
    pub(crate) const OWN_BYTES: u8 = 17;
    pub(crate) const ALL: u8 = 21;
}

/// Changes what stands of a page, of a block's entry, or of the state. `at` says which page and where in it; `sort`, to
/// what. The image has its full length.
pub fn forge(bytes: &mut [u8], g: &Geometry, at: usize, sort: u8, value: u8) {
    let layout = Layout::new(g);
    let (ppn, within) = (Ppn((at % g.page_count() as usize) as u32), at / g.page_count() as usize);
    let place = |of: u64| of as usize;
    let (state, record) = (place(Layout::STATE), place(layout.record(ppn)));
    let (data, spare) = (place(layout.page(ppn)), place(layout.spare(ppn)));
    let (page_bytes, spare_bytes) = (g.page_bytes as usize, g.oob_bytes as usize);
    let word = |bytes: &[u8], at: usize| u32::from_le_bytes(*bytes[at..].first_chunk().expect("an image is longer"));
    let far = |to: &mut [u8]| {
        to.fill(u8::MAX);
        to[0] -= value;
    };
    match sort % SORTS {
        // Kind, mode, programs, blank bytes of the last word.
        0 => bytes[record + 4] = value & 7,
        1 => bytes[record + 5] = value & 3,
        2 => bytes[record + 6] = value.max(1),
        3 => bytes[record + 7] = value & 3,
        // Version, program number, address: near zero, and near the end.
        4 => bytes[record + 8] = value,
        5 => far(&mut bytes[record + 8..][..8]),
        6 => bytes[record + 16] = value,
        7 => far(&mut bytes[record + 16..][..8]),
        sort::ADDRESS => bytes[record + 24] = value,
        9 => far(&mut bytes[record + 24..][..4]),
        // Words, mark.
        10 => bytes[record + 28] = value,
        11 => bytes[record + 28 + usize::from(value & 3)] = value,
        12 => bytes[record + 44] = value,
        // Life.
        13 => {
            let generation = word(bytes, record).wrapping_add_signed(i32::from(value.cast_signed())).to_le_bytes();
            [0, 36].iter().for_each(|at| bytes[record + at..][..4].copy_from_slice(&generation));
        }
        // What it holds: a byte, a word, a byte of the spare area.
        14 => bytes[data + within % page_bytes] = value,
        15 => far(&mut bytes[data + within % (page_bytes / 4) * 4..][..4]),
        16 => bytes[spare + within % spare_bytes] = value,
        // The state: what the scheme keeps in spare areas, the length of its RAM, its life.
        sort::OWN_BYTES => bytes[state + 24] = value,
        18 => far(&mut bytes[state + 24..][..4]),
        19 => far(&mut bytes[state + 8..][..8]),
        20 => bytes[state + usize::from(value & 1)] = value >> 6,
        // All of another page.
        sort::ALL => {
            let from = Ppn(u32::from(value) % g.page_count());
            for (start, to, size) in [
                (layout.record(from), record, RECORD as usize),
                (layout.page(from), data, page_bytes),
                (layout.spare(from), spare, spare_bytes),
            ] {
                bytes.copy_within(place(start)..place(start) + size, to);
            }
            bytes[record + 40..][..4].copy_from_slice(&ppn.0.to_le_bytes());
        }
        sort => {
            let block = Block(at as u32 % g.block_count());
            let entry = place(layout.entry(0, block));
            match sort {
                22 => bytes[entry + 8] = value & 7,
                23 => far(&mut bytes[entry + 4..][..4]),
                24 => bytes[entry + 4] = value,
                25 => far(&mut bytes[entry..][..4]),
                _ => bytes[entry] = value,
            }
            let of = [&bytes[entry..][..12], &block.0.to_le_bytes()].concat();
            bytes[entry + 12..][..4].copy_from_slice(&crc32fast::hash(&of).to_le_bytes());
            bytes.copy_within(entry..entry + ENTRY as usize, place(layout.entry(1, block)));
        }
    }
    seal(bytes, state, 28);
    // As the state has it before the change: what it says now is of no page.
    let own = word(bytes, state + 24) as usize;
    if bytes[record..][..RECORD as usize].iter().all(|&byte| byte == 0) {
        return;
    }
    let used = match bytes[record + 4] {
        0 | 1 => page_bytes,
        2 | 4 | 5 => {
            let words = word(bytes, record + 28) as usize;
            (words * 4).saturating_sub(bytes[record + 7].into()).min(page_bytes)
        }
        _ => 0,
    };
    let check = crc32fast::hash(&bytes[data..][..used]);
    bytes[record + 32..][..4].copy_from_slice(&check.to_le_bytes());
    // The parity of a record, which is not under its checksum, is looked at only if that is wrong.
    bytes[record + 46..record + 60].fill(0);
    seal(bytes, record, 60);
    if own > 0 && own + 4 <= spare_bytes {
        let of = [&bytes[spare..][..own], &ppn.0.to_le_bytes(), &bytes[record..][..4]].concat();
        bytes[spare + own..][..4].copy_from_slice(&crc32fast::hash(&of).to_le_bytes());
    }
}

/// Pages that hold metadata.
#[cfg(test)]
pub(crate) fn pages_of_maps(bytes: &[u8], g: &Geometry) -> Vec<u64> {
    let kind = |ppn: &u32| bytes[Layout::new(g).record(Ppn(*ppn)) as usize + 4];
    (0..g.page_count()).filter(|ppn| matches!(kind(ppn), 2 | 4 | 5)).map(u64::from).collect()
}

/// Puts the checksum of so many bytes behind them.
fn seal(bytes: &mut [u8], at: usize, size: usize) {
    let check = crc32fast::hash(&bytes[at..][..size]);
    bytes[at + size..][..4].copy_from_slice(&check.to_le_bytes());
}

//! A log inside a translation page (the LSFTL paper, sections III-B and III-C).
//!
//! A page of `S` bytes has a main area, its map entries in order, and a log area behind it, `share` of the page, which
//! is blank when the page is programmed. An update is appended as a *log unit* by a partial program:
//!
//! ```text
//!   main area: E entries of 4 B             │ unit │ unit │ blank …                │ log area
//!                                            ╱      ╲
//!              marker 0x0000 │ count │ (zeros) │ count × (index 2 B, PPN 4 B, (zeros)) │ parity 7 B for each 512 B
//! ```
//!
//! All numbers are little-endian, and a unit begins at any byte. The entries of a unit ascend by index, so that a
//! look-up is a binary search in each unit, the newest unit winning. Blank flash reads as ones: an entry that maps to
//! nothing is written as [`INVALID`]. What the paper draws in figure 4, the sizes, is lost in the copy at hand; they
//! are parameters (what a header has beyond four bytes, an entry beyond six and a parity beyond seven, is zeros; less
//! parity is the first bytes of it).
//!
//! **Torn units.** A partial program that was cut short leaves its unit as any mixture of blank and new.
//! [`LogUnits::scan`] finds it out by the parity (`bch`) and by form: marker, count, order and range of the entries. A
//! torn unit is ignored, and its page takes no more units; nor does it if anything behind the last unit is not blank.
//! With less than seven bytes of parity garbage may pass for entries, so that a scheme that is to survive power cuts
//! refuses such sizes ([`LogUnits::is_guarded`]); what a cut leaves blank is told from entries also then.
//!
//! **When to flush what.** Bytes and units of the log should run out together: equation 1 divides what bytes are left
//! by the units that are left, and equation 2 takes as many lines of the page's dirty entries as that quota holds. Its
//! sum is garbled in print and read here as that of the lines up to the one in question. Two things are added:
//! condition 2 needs a unit to be left, and the order of the lines behind the victim is the caller's.

pub(crate) mod bch;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use flash::{Geometry, Ppn};

/// An entry that maps to nothing, in a unit.
pub(crate) const INVALID: u32 = 0xffff_fffe;

/// Bytes of an entry that are used.
const ENTRY: u32 = 6;
/// Bytes of a header that are used.
const HEADER: u32 = 4;
const MARKER: u16 = 0;

/// How far a page's log is filled.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct LogState {
    /// Bytes of it that are used.
    pub tail: u32,
    /// Units in it.
    pub units: u32,
}

/// What a scan found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Scan {
    /// The sound units.
    pub state: LogState,
    /// Something follows them that is neither a unit nor blank: nothing may be appended any more.
    pub torn: bool,
}

/// What to do with the dirty lines of a translation page when one of them is evicted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Flush {
    /// Append the first of them, the victim's included, while they have no more entries than this: condition 1.
    WithinQuota(u32),
    /// Append the victim alone, although it is over the quota: condition 2.
    VictimAlone,
    /// Write the page anew, with all of them.
    OutOfPlace,
}

/// Sizes and places of main area, log area and units. See the module's description.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LogUnits {
    entries: u32,
    log_bytes: u32,
    header: u32,
    entry: u32,
    parity: u32,
    threshold: u32,
}

impl LogUnits {
    /// For pages of `page_bytes` bytes, of which `share` is the log area, rounded up to whole entries; `sizes` are
    /// the bytes of headers, entries and parities; at most `threshold` units in a page.
    ///
    /// # Errors
    /// Sizes with which no log works, by the parameter's meaning.
    pub(crate) fn new(page_bytes: u32, share: f64, sizes: [u32; 3], threshold: u32) -> Result<LogUnits, String> {
        let [header, entry, parity] = sizes;
        if !(share > 0.0 && share < 1.0) {
            return Err(format!("a log area of {share} of a page is none"));
        }
        if !(HEADER..=64).contains(&header) || !(ENTRY..=64).contains(&entry) || parity > 64 {
            return Err(format!(
                "a log unit needs a header of {HEADER} to 64 bytes, entries of {ENTRY} to 64, a parity of at most 64"
            ));
        }
        let entries = (f64::from(page_bytes) * (1.0 - share) / 4.0) as u32;
        let log_bytes = page_bytes - entries * 4;
        let layout = LogUnits { entries, log_bytes, header, entry, parity, threshold };
        let most = 1 << 16;
        if entries == 0 || entries > most || layout.capacity(log_bytes) >= most {
            return Err(format!(
                "{entries} entries beside a log of {log_bytes} bytes: each must be 1 to {most} entries"
            ));
        }
        Ok(layout)
    }

    /// Entries of the main area: E.
    pub(crate) fn entries(&self) -> u32 {
        self.entries
    }

    /// The byte of the page at which the log area begins.
    pub(crate) fn log_start(&self) -> u32 {
        self.entries * 4
    }

    /// Bytes of the log area.
    pub(crate) fn log_bytes(&self) -> u32 {
        self.log_bytes
    }

    /// Whether a torn unit is told from a whole one for sure: then pages may be used after a power cut.
    pub(crate) fn is_guarded(&self) -> bool {
        self.parity >= bch::PARITY as u32
    }

    /// Bytes of a unit of `count` entries: the paper's Func.
    pub(crate) fn unit_bytes(&self, count: u32) -> u32 {
        let content = self.header + self.entry * count;
        content + self.parity * content.div_ceil(bch::PIECE as u32)
    }

    /// The most entries whose unit fits into `bytes`.
    pub(crate) fn capacity(&self, bytes: u32) -> u32 {
        let without_parity = bytes.saturating_sub(self.header) / self.entry;
        (1..=without_parity).rev().find(|&count| self.unit_bytes(count) <= bytes).unwrap_or(0)
    }

    /// Whether a page in this state takes another unit of `count` entries (the LSFTL paper, the basic process).
    pub(crate) fn fits(&self, state: LogState, count: u32) -> bool {
        state.units < self.threshold && state.tail + self.unit_bytes(count) <= self.log_bytes
    }

    /// The state after a unit of `count` entries was appended.
    pub(crate) fn after(&self, state: LogState, count: u32) -> LogState {
        LogState { tail: state.tail + self.unit_bytes(count), units: state.units + 1 }
    }

    /// Bytes that a state takes in the translation directory: as many bits as the largest tail and count need.
    pub(crate) fn state_bytes(&self) -> u32 {
        (self.tail_bits() + bits(self.threshold)).div_ceil(8)
    }

    fn tail_bits(&self) -> u32 {
        bits(self.log_bytes)
    }

    /// A state as a number of [`LogUnits::state_bytes`] bytes.
    pub(crate) fn pack(&self, state: LogState) -> u32 {
        debug_assert!(state.units <= self.threshold && state.tail <= self.log_bytes);
        state.units << self.tail_bits() | state.tail
    }

    /// What [`LogUnits::pack`] was made of.
    pub(crate) fn unpack(&self, packed: u32) -> LogState {
        LogState { tail: packed & ((1 << self.tail_bits()) - 1), units: packed >> self.tail_bits() }
    }

    /// A state as a mark of the spare area; an empty log's is 0. `None` if it does not fit.
    pub(crate) fn mark(&self, state: LogState) -> Option<u16> {
        let mark = state.units.checked_shl(self.tail_bits())? | state.tail;
        u16::try_from(mark).ok().filter(|&mark| mark != u16::MAX)
    }

    /// What [`LogUnits::mark`] was made of.
    pub(crate) fn of_mark(&self, mark: u16) -> LogState {
        self.unpack(u32::from(mark))
    }

    /// The state of a log that takes no more units.
    pub(crate) fn closed(&self, state: LogState) -> LogState {
        LogState { tail: self.log_bytes, ..state }
    }

    // ---- flush-back --------------------------------------------------------------------------------------------

    /// Bytes that the next unit may take, so that units and bytes of the log run out together: equation 1.
    pub(crate) fn quota(&self, state: LogState) -> u32 {
        match self.threshold.saturating_sub(state.units) {
            0 => 0,
            left => (self.log_bytes - state.tail) / left,
        }
    }

    /// What to do when a line with `victim` dirty entries is evicted: equation 2. Its sum runs over the page's dirty
    /// lines in the caller's order, the victim first, and ends at the first that the quota does not hold.
    pub(crate) fn flush(&self, state: LogState, victim: u32) -> Flush {
        let quota = self.quota(state);
        if self.unit_bytes(victim) <= quota {
            Flush::WithinQuota(self.capacity(quota))
        } else if self.fits(state, victim) {
            Flush::VictimAlone
        } else {
            Flush::OutOfPlace
        }
    }

    // ---- units -------------------------------------------------------------------------------------------------

    /// A unit of entries, index and page, ascending by index; [`Ppn::NONE`] maps to nothing. It replaces what `out`
    /// holds.
    pub(crate) fn encode(&self, entries: impl ExactSizeIterator<Item = (u32, Ppn)>, out: &mut Vec<u8>) {
        let count = entries.len();
        assert!(count > 0, "a log unit without entries");
        out.clear();
        out.resize(self.unit_bytes(count as u32) as usize, 0);
        let (content, parity) = out.split_at_mut((self.header + self.entry * count as u32) as usize);
        content[..2].copy_from_slice(&MARKER.to_le_bytes());
        content[2..4].copy_from_slice(&(count as u16).to_le_bytes());
        let mut least = 0;
        let places = content[self.header as usize..].chunks_exact_mut(self.entry as usize);
        for (place, (index, ppn)) in places.zip(entries) {
            debug_assert!(least <= index && index < self.entries, "entry {index}, of {} from {least} on", self.entries);
            least = index + 1;
            place[..2].copy_from_slice(&(index as u16).to_le_bytes());
            place[2..6].copy_from_slice(&if ppn == Ppn::NONE { INVALID } else { ppn.0 }.to_le_bytes());
        }
        if self.parity > 0 {
            let kept = self.parity.min(bch::PARITY as u32) as usize;
            for (piece, stored) in content.chunks(bch::PIECE).zip(parity.chunks_exact_mut(self.parity as usize)) {
                stored[..kept].copy_from_slice(&bch::parity(piece)[..kept]);
            }
        }
    }

    /// The entries of the units of a page, from the oldest to the newest: where an index comes again, the later one
    /// counts.
    pub(crate) fn replay(&self, words: &[u32], state: LogState, each: impl FnMut(u32, Ppn)) {
        self.replay_from(&|word| words[word], state.units, each);
    }

    /// Brings the log into the main area, and leaves it blank: what a page is before it is written anew. Behind the
    /// state's tail it was blank.
    pub(crate) fn fold(&self, words: &mut [u32], state: LogState) {
        let entries = self.entries as usize;
        let (main, log) = words.split_at_mut(entries);
        self.replay_from(&|word| log[word - entries], state.units, |index, ppn| main[index as usize] = ppn.0);
        let (used, blank) = log.split_at_mut(state.tail.div_ceil(4) as usize);
        used.fill(u32::MAX);
        debug_assert!(blank.iter().all(|&word| word == u32::MAX), "a log goes on behind its tail");
    }

    /// An entry of a page, as its newest unit that has it says.
    #[inline]
    pub(crate) fn entry(&self, words: &[u32], state: LogState, index: u32) -> Ppn {
        self.entry_from(&|word| words[word], state.units, index)
    }

    #[inline(always)]
    fn entry_from(&self, read: &impl Fn(usize) -> u32, units: u32, index: u32) -> Ppn {
        let mut found = read(index as usize);
        self.each_unit(read, units, |first, count| {
            // The first entry that is not below the index.
            let (mut low, mut high) = (0, count);
            while low < high {
                let middle = (low + high) / 2;
                match u32::from(u16_at(read, first + self.entry * middle)) {
                    at if at < index => low = middle + 1,
                    at => {
                        if at == index {
                            found = u32_at(read, first + self.entry * middle + 2);
                            break;
                        }
                        high = middle;
                    }
                }
            }
        });
        ppn(found)
    }

    fn replay_from(&self, read: &impl Fn(usize) -> u32, units: u32, mut each: impl FnMut(u32, Ppn)) {
        self.each_unit(read, units, |first, count| {
            for entry in (0..count).map(|entry| first + self.entry * entry) {
                each(u32::from(u16_at(read, entry)), ppn(u32_at(read, entry + 2)));
            }
        });
    }

    /// The place of each unit's first entry, and its count.
    #[inline(always)]
    fn each_unit(&self, read: &impl Fn(usize) -> u32, units: u32, mut each: impl FnMut(u32, u32)) {
        let mut at = self.log_start();
        for _ in 0..units {
            let count = u32::from(u16_at(read, at + 2));
            each(at + self.header, count);
            at += self.unit_bytes(count);
        }
    }

    /// As [`LogUnits::scan`], of a page whose state stands in its mark as well ([`LogUnits::mark`]). A partial program
    /// that was cut short may have left nothing but its mark.
    pub(crate) fn scan_marked(&self, words: &[u32], mark: u16) -> Scan {
        let Scan { state, torn } = self.scan(words);
        Scan { state, torn: torn || self.mark(state) != Some(mark) }
    }

    /// The state of a log of which nothing is known: [`LogUnits::closed`] if it is torn.
    pub(crate) fn walk(&self, words: &[u32]) -> LogState {
        let Scan { state, torn } = self.scan(words);
        if torn { self.closed(state) } else { state }
    }

    /// What the log of a page of which nothing is known holds.
    pub(crate) fn scan(&self, words: &[u32]) -> Scan {
        let mut state = LogState::default();
        // More than a page is to hold nobody has written.
        while state.units < self.threshold
            && let Some(count) = self.sound_unit(words, self.log_start() + state.tail)
        {
            state = self.after(state, count);
        }
        let behind = self.log_start() + state.tail..self.log_start() + self.log_bytes;
        Scan { state, torn: behind.into_iter().any(|at| byte_at(words, at) != u8::MAX) }
    }

    /// The entries of the unit at a byte of the page, if one is there and whole.
    fn sound_unit(&self, words: &[u32], at: u32) -> Option<u32> {
        let left = self.log_start() + self.log_bytes - at;
        let read = &|word: usize| words[word];
        if left < self.header || u16_at(read, at) != MARKER {
            return None;
        }
        let count = u32::from(u16_at(read, at + 2));
        let zeros = (at + HEADER..at + self.header).all(|at| byte_at(words, at) == 0);
        if count == 0 || self.unit_bytes(count) > left || !zeros {
            return None;
        }
        let mut least = 0;
        for entry in (0..count).map(|entry| at + self.header + self.entry * entry) {
            let (index, ppn) = (u32::from(u16_at(read, entry)), u32_at(read, entry + 2));
            if index < least || index >= self.entries || (u64::from(ppn) >= Geometry::MAX_PAGES && ppn != INVALID) {
                return None;
            }
            least = index + 1;
        }
        let content = self.header + self.entry * count;
        let mut stored = at + content;
        for first in (0..content).step_by(bch::PIECE) {
            let bytes = at + first..at + content.min(first + bch::PIECE as u32);
            let mut piece = [0; bch::PIECE];
            let piece = &mut piece[..bytes.len()];
            piece.iter_mut().zip(bytes).for_each(|(byte, at)| *byte = byte_at(words, at));
            let code = bch::parity(piece);
            for byte in 0..self.parity {
                if byte_at(words, stored) != code.get(byte as usize).copied().unwrap_or(0) {
                    return None;
                }
                stored += 1;
            }
        }
        Some(count)
    }
}

/// Bits that a number up to `most` needs.
fn bits(most: u32) -> u32 {
    u32::BITS - most.leading_zeros()
}

/// What a stored entry says.
#[inline(always)]
fn ppn(stored: u32) -> Ppn {
    if stored == INVALID { Ppn::NONE } else { Ppn(stored) }
}

fn byte_at(words: &[u32], at: u32) -> u8 {
    (words[at as usize / 4] >> (at % 4 * 8)) as u8
}

#[inline(always)]
fn u16_at(read: &impl Fn(usize) -> u32, at: u32) -> u16 {
    let (word, shift) = (at as usize / 4, at % 4 * 8);
    let low = read(word) >> shift;
    if shift < 24 { low as u16 } else { (low | read(word + 1) << 8) as u16 }
}

#[inline(always)]
fn u32_at(read: &impl Fn(usize) -> u32, at: u32) -> u32 {
    let (word, shift) = (at as usize / 4, at % 4 * 8);
    let low = read(word) >> shift;
    if shift == 0 { low } else { low | read(word + 1) << (32 - shift) }
}

#[cfg(test)]
mod tests;

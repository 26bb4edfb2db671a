//! What an image says of the scheme's state, and of its life.

use super::layout::Layout;
use std::ops::Range;

/// What the file knows of the scheme's state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Life {
    /// Nothing was programmed or erased yet.
    Fresh,
    /// It was shut down cleanly: the scheme's RAM is in the file.
    Clean,
    /// It was changed since: a mount must read the flash.
    Dirty,
}

impl Life {
    /// The word in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Life::Fresh => "fresh",
            Life::Clean => "clean",
            Life::Dirty => "dirty",
        }
    }
}

/// The state as it stands in the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Standing {
    pub(super) life: Life,
    /// Bytes and checksum of the checkpoint.
    pub(super) bytes: u64,
    pub(super) check: u32,
    /// The form of what is in it.
    pub(super) form: u32,
    /// Bytes of its own that the scheme keeps in each spare area.
    pub(super) own: u32,
    /// It was not always shut down cleanly: pages may have been torn.
    pub(super) interrupted: bool,
    /// What stands in the file is damaged, so that nothing of this is known.
    pub(super) damaged: bool,
}

impl Standing {
    pub(super) const FRESH: Standing =
        Standing { life: Life::Fresh, bytes: 0, check: 0, form: 0, own: 0, interrupted: false, damaged: false };

    /// Of a flash that must be read.
    pub(super) const fn dirty(own: u32) -> Standing {
        Standing { life: Life::Dirty, own, ..Standing::FRESH }
    }

    /// Saved RAM is read back by the version that wrote it only.
    fn version() -> u32 {
        crc32fast::hash(env!("CARGO_PKG_VERSION").as_bytes())
    }

    pub(super) fn encode(&self) -> [u8; 32] {
        let mut out = [0; 32];
        out[0] = self.life as u8;
        out[1] = u8::from(self.interrupted);
        out[4..8].copy_from_slice(&Self::version().to_le_bytes());
        out[8..16].copy_from_slice(&self.bytes.to_le_bytes());
        out[16..20].copy_from_slice(&self.check.to_le_bytes());
        out[20..24].copy_from_slice(&self.form.to_le_bytes());
        out[24..28].copy_from_slice(&self.own.to_le_bytes());
        let crc = crc32fast::hash(&out[..28]);
        out[28..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// What another version of ftlab, or one whose state has another form, would have written.
    fn of_another(bytes: &[u8; 32], is_version: bool) -> [u8; 32] {
        let mut out = *bytes;
        out[if is_version { 4 } else { 20 }] ^= 1;
        let crc = crc32fast::hash(&out[..28]);
        out[28..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// What cannot be read means that the flash must be.
    pub(super) fn decode(bytes: &[u8; 32]) -> Standing {
        let word = |at: usize| u32::from_le_bytes(*bytes[at..].first_chunk().expect("a standing is longer"));
        if word(28) != crc32fast::hash(&bytes[..28]) {
            return Standing { interrupted: true, damaged: true, ..Standing::dirty(0) };
        }
        let life = match bytes[0] {
            0 => Life::Fresh,
            1 if word(4) == Self::version() => Life::Clean,
            _ => Life::Dirty,
        };
        if life == Life::Dirty {
            // Of another version it may have been shut down all the same.
            return Standing { interrupted: bytes[0] != 1 || bytes[1] != 0, ..Standing::dirty(word(24)) };
        }
        let long = u64::from_le_bytes(*bytes[8..].first_chunk().expect("a standing is longer"));
        let (own, interrupted) = (word(24), bytes[1] != 0);
        Standing { life, bytes: long, check: word(16), form: word(20), own, interrupted, damaged: false }
    }
}

/// Makes the bytes of an image what another version of ftlab would have left, or one whose state has another form.
pub(crate) fn written_by_another(image: &mut [u8], is_version: bool) {
    let standing = &mut image[Layout::STATE as usize..][..32];
    let other = Standing::of_another(standing.as_ref().try_into().expect("32 bytes"), is_version);
    standing.copy_from_slice(&other);
}

/// What an image saw over its life, as of the last time that it was made durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Pages that the host wrote.
    pub host: u64,
    /// Pages programmed, those included.
    pub programs: u64,
    /// How often time went by ([`super::Image::age`]).
    pub ageings: u32,
}

impl Totals {
    /// Pages programmed for each page that the host wrote.
    pub fn waf(&self) -> Option<f64> {
        (self.host > 0).then(|| self.programs as f64 / self.host as f64)
    }

    pub(super) fn encode(&self) -> [u8; 28] {
        let mut out = [0; 28];
        out[..8].copy_from_slice(&self.host.to_le_bytes());
        out[8..16].copy_from_slice(&self.programs.to_le_bytes());
        out[20..24].copy_from_slice(&self.ageings.to_le_bytes());
        for part in Self::PARTS {
            let crc = crc32fast::hash(&out[part.clone()]);
            out[part.end..part.end + 4].copy_from_slice(&crc.to_le_bytes());
        }
        out
    }

    /// Programs and ageings, each with its checksum behind: earlier versions of ftlab know and write the first alone.
    const PARTS: [Range<usize>; 2] = [0..16, 20..24];

    /// What is damaged, or was never written, counts from zero.
    pub(super) fn decode(bytes: &[u8; 28]) -> Totals {
        let [programs, ageings] = Self::PARTS.map(|part| {
            let crc = crc32fast::hash(&bytes[part.clone()]).to_le_bytes();
            (bytes[part.end..part.end + 4] == crc).then_some(&bytes[part])
        });
        let long = |at: usize| programs.and_then(|part| part[at..].first_chunk()).map_or(0, |&n| u64::from_le_bytes(n));
        let ageings = ageings.and_then(|part| part.first_chunk()).map_or(0, |&n| u32::from_le_bytes(n));
        Totals { host: long(0), programs: long(8), ageings }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_of_an_earlier_version_are_read_and_damage_counts_from_zero() {
        let totals = Totals { host: 7, programs: 8, ageings: 9 };
        let bytes = totals.encode();
        assert_eq!(Totals::decode(&bytes), totals);
        let mut earlier = bytes;
        earlier[20..].fill(0);
        assert_eq!(Totals::decode(&earlier), Totals { ageings: 0, ..totals });
        let mut damaged = bytes;
        damaged[3] ^= 1;
        assert_eq!(Totals::decode(&damaged), Totals { ageings: 9, ..Totals::default() });
    }

    /// Saved RAM has no other check of what wrote it than the version.
    #[test]
    fn a_checkpoint_of_another_version_is_none() {
        let clean = Standing { life: Life::Clean, bytes: 7, check: 1, form: 2, own: 3, ..Standing::FRESH };
        let bytes = clean.encode();
        assert_eq!(Standing::decode(&bytes), clean);
        assert_eq!(Standing::decode(&Standing::of_another(&bytes, true)), Standing::dirty(3));
        assert_eq!(Standing::decode(&Standing::of_another(&bytes, false)), Standing { form: 3, ..clean });
    }
}

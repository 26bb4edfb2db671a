//! The error-correcting code of an image: what a controller keeps beside the data so that flipped bits do no harm.
//!
//! Data are protected in *frames* of [`EccSpec::frame_bytes`], each with the parity of a BCH code. The first frame of a
//! page has one more passenger: what the scheme keeps in the spare area, with its checksum. Parities stand in the spare
//! area behind that. Records have a code of their own, whose parity lies in them.
//!
//! A checksum says whether anything is wrong, and only then the code is asked. So reads of sound pages cost nothing,
//! and what the code believes to have corrected is believed only if the checksum agrees. What cannot be corrected is what
//! it was without a code: a torn record, an uncorrectable page.
//!
//! A partial program changes the parity of the frames it touches. A chip would keep that of each partial program in
//! bytes of its own; the file has one parity of all that the page holds, as it has one checksum.

use super::layout::RECORD;
use super::record::Page;
use flash::{Geometry, Ppn, Rng};
use reliability::Bch;
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

/// Bytes of the checksum behind what a scheme keeps in a spare area.
pub(super) const SPARE_CHECK: u32 = 4;

/// Which code an image has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EccSpec {
    /// Bit errors that each frame survives, t.
    pub correctable: u32,
    /// Bytes of data in a frame.
    pub frame_bytes: u32,
}

impl EccSpec {
    /// Bytes of data in a frame where nobody says otherwise: a sector.
    pub const FRAME: u32 = 512;

    /// Bytes of a spare area that the code takes, parities of all frames together, if a scheme keeps `own` bytes there.
    ///
    /// # Errors
    /// There is no such code, or it does not fit: the sum, and what to do.
    pub fn fits(&self, g: &Geometry, own: u32) -> Result<u32, String> {
        let EccSpec { correctable, frame_bytes } = *self;
        if frame_bytes == 0 || !g.page_bytes.is_multiple_of(frame_bytes) {
            let page = g.page_bytes;
            return Err(format!("pages of {page} B cannot be cut into frames of {frame_bytes} B; give a divisor"));
        }
        let kept = passengers(own);
        let code = Bch::new((frame_bytes + kept) as usize, correctable as usize).map_err(|error| error.to_string())?;
        let (frames, each) = (g.page_bytes / frame_bytes, code.parity_bytes() as u32);
        let sum = kept + frames * each;
        if sum > g.oob_bytes {
            let scheme = if own == 0 {
                String::new()
            } else {
                format!("{own} B of the scheme and {SPARE_CHECK} B of checksum + ")
            };
            return Err(format!(
                "{self} needs {scheme}{frames} frames x {each} B of parity = {sum} B, and the spare area has {} B; \
                 correct fewer bits, or take another device",
                g.oob_bytes
            ));
        }
        Ok(frames * each)
    }
}

impl fmt::Display for EccSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bch:{}/{}", self.correctable, self.frame_bytes)
    }
}

impl FromStr for EccSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<EccSpec, String> {
        let wrong =
            || format!("{text:?} is no code: write bch:T or bch:T/BYTES, T bits corrected in each BYTES of data [512]");
        let numbers = text.strip_prefix("bch:").ok_or_else(wrong)?;
        let (correctable, frame) = numbers.split_once('/').map_or((numbers, None), |(t, frame)| (t, Some(frame)));
        let number = |text: &str| text.parse::<u32>().ok().filter(|&number| number > 0).ok_or_else(wrong);
        Ok(EccSpec { correctable: number(correctable)?, frame_bytes: frame.map_or(Ok(EccSpec::FRAME), number)? })
    }
}

/// Bytes of a spare area in front of the parities.
fn passengers(own: u32) -> u32 {
    if own == 0 { 0 } else { own + SPARE_CHECK }
}

/// Bytes of a record that are its content, and where its parity stands; behind that is the checksum of the content.
const CONTENT: usize = 46;
const RECORD_PARITY: Range<usize> = CONTENT..60;
/// Bit errors that a record survives: what fits its 14 bytes of parity.
const RECORD_CORRECTABLE: usize = 12;

/// The codes with their tables, for one image.
#[derive(Debug)]
pub(super) struct Ecc {
    frame_bytes: usize,
    /// Bytes of a spare area in front of the parities.
    kept: usize,
    pages: Bch,
    records: Bch,
    /// A frame as the code sees it: data, and what the scheme keeps beside the first one.
    frame: Vec<u8>,
    parity: Vec<u8>,
}

impl Ecc {
    /// For a scheme that keeps `own` bytes in each spare area; [`EccSpec::fits`] said yes.
    pub(super) fn new(spec: &EccSpec, own: u32) -> Ecc {
        let (frame_bytes, kept) = (spec.frame_bytes as usize, passengers(own) as usize);
        let known = "EccSpec::fits made this code before";
        Ecc {
            frame_bytes,
            kept,
            pages: Bch::new(frame_bytes + kept, spec.correctable as usize).expect(known),
            records: Bch::new(CONTENT + 4, RECORD_CORRECTABLE).expect("50 bytes and 12 errors fit GF(2^9)"),
            frame: vec![0; frame_bytes + kept],
            parity: Vec::new(),
        }
    }

    /// Where the parities begin in a spare area.
    pub(super) fn at(&self) -> u64 {
        self.kept as u64
    }

    /// Bytes of parity of a page with so many bytes of data. One that holds none still has what the scheme keeps.
    pub(super) fn parity_bytes(&self, data: usize) -> usize {
        data.div_ceil(self.frame_bytes).max(1) * self.pages.parity_bytes()
    }

    fn load(&mut self, number: usize, data: &[u8], kept: &[u8]) {
        let part = &data[(number * self.frame_bytes).min(data.len())..data.len().min((number + 1) * self.frame_bytes)];
        self.frame.fill(0);
        self.frame[..part.len()].copy_from_slice(part);
        if number == 0 {
            self.frame[self.frame_bytes..].copy_from_slice(kept);
        }
    }

    /// The parities of a page, for its spare area; `kept` is what stands there before them.
    pub(super) fn protect(&mut self, data: &[u8], kept: &[u8]) -> &[u8] {
        let each = self.pages.parity_bytes();
        self.parity.resize(self.parity_bytes(data.len()), 0);
        for number in 0..self.parity.len() / each {
            self.load(number, data, kept);
            self.pages.encode(&self.frame, &mut self.parity[number * each..][..each]);
        }
        &self.parity
    }

    /// Corrects what can be corrected of a page, frame by frame; `spare` is its spare area. How many bits were wrong.
    pub(super) fn correct(&mut self, data: &mut [u8], spare: &mut [u8]) -> u64 {
        let each = self.pages.parity_bytes();
        let mut bits = 0;
        let (kept, parities) = spare.split_at_mut(self.kept);
        for (number, parity) in (0..self.parity_bytes(data.len()) / each).zip(parities.chunks_exact_mut(each)) {
            self.load(number, data, kept);
            let Ok(corrected) = self.pages.decode(&mut self.frame, parity) else { continue };
            if corrected.bits > 0 {
                bits += u64::from(corrected.bits);
                let part = (number * self.frame_bytes).min(data.len())..data.len().min((number + 1) * self.frame_bytes);
                let length = part.len();
                data[part].copy_from_slice(&self.frame[..length]);
                if number == 0 {
                    kept.copy_from_slice(&self.frame[self.frame_bytes..]);
                }
            }
        }
        bits
    }

    /// Gives a record its parity.
    pub(super) fn protect_record(&self, record: &mut [u8; RECORD as usize]) {
        let mut parity = [0; RECORD_PARITY.end - RECORD_PARITY.start];
        self.records.encode(&content(record), &mut parity);
        record[RECORD_PARITY].copy_from_slice(&parity);
    }

    /// A record without its parity, corrected if it has to be and can be; and how many bits were wrong.
    pub(super) fn record(&self, record: &[u8; RECORD as usize], ppn: Ppn) -> ([u8; RECORD as usize], u64) {
        let mut bare = *record;
        bare[RECORD_PARITY].fill(0);
        if Page::is_sound(&bare, ppn) || record.iter().all(|&byte| byte == 0) {
            return (bare, 0);
        }
        let mut sound = content(record);
        let mut parity = [0; RECORD_PARITY.end - RECORD_PARITY.start];
        parity.copy_from_slice(&record[RECORD_PARITY]);
        let Ok(corrected) = self.records.decode(&mut sound, &mut parity) else { return (bare, 0) };
        bare[..CONTENT].copy_from_slice(&sound[..CONTENT]);
        bare[RECORD_PARITY.end..].copy_from_slice(&sound[CONTENT..]);
        (bare, u64::from(corrected.bits))
    }
}

/// What a record's code covers: all of it but the parity.
fn content(record: &[u8; RECORD as usize]) -> [u8; CONTENT + 4] {
    let mut content = [0; CONTENT + 4];
    content[..CONTENT].copy_from_slice(&record[..CONTENT]);
    content[CONTENT..].copy_from_slice(&record[RECORD_PARITY.end..]);
    content
}

/// Flips each bit with probability `rate`. How many were flipped.
pub(super) fn flip(bytes: &mut [u8], rate: f64, rng: &mut Rng) -> u64 {
    let mut flipped = 0;
    if rate <= 0.0 {
        return flipped;
    }
    // From one flip to the next it is a geometric distance.
    let mut at = 0.0;
    loop {
        at += (rng.unit().max(f64::MIN_POSITIVE).ln() / (1.0 - rate.min(0.5)).ln()).floor();
        if at >= 8.0 * bytes.len() as f64 {
            return flipped;
        }
        let bit = at as usize;
        bytes[bit / 8] ^= 1 << (bit % 8);
        flipped += 1;
        at += 1.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flash::{Lpn, Oob};

    #[test]
    fn a_page_survives_as_many_errors_in_each_frame_as_its_code_corrects() {
        let spec: EccSpec = "bch:8".parse().unwrap();
        let mut ecc = Ecc::new(&spec, 12);
        let mut rng = Rng::new(5);
        let data: Vec<u8> = (0..1300).map(|_| rng.bits() as u8).collect();
        let kept: Vec<u8> = (0..16).collect();
        let spare = [&kept, ecc.protect(&data, &kept)].concat();
        assert_eq!(spare.len(), 16 + 3 * 13);
        let (mut wrong, mut area) = (data.clone(), spare.clone());
        for bit in [0, 77, 4095] {
            wrong[bit / 8] ^= 1 << (bit % 8);
        }
        area[3] ^= 0b11;
        area[20] ^= 0b111;
        wrong[512] ^= 255;
        assert_eq!(ecc.correct(&mut wrong, &mut area), 8 + 8);
        assert_eq!((&wrong, &area), (&data, &spare));
        wrong[1024] = !wrong[1024];
        wrong[1025] ^= 1;
        let left = wrong.clone();
        assert_eq!(ecc.correct(&mut wrong, &mut area), 0, "nine errors in a frame");
        assert_eq!(wrong, left);
    }

    #[test]
    fn a_record_survives_twelve_errors() {
        let ecc = Ecc::new(&"bch:1".parse().unwrap(), 0);
        let page = Page::new(&Oob::data(Lpn(7), 1 << 40, u64::MAX));
        let bare = page.encode(Ppn(12), 77);
        let mut sound = bare;
        ecc.protect_record(&mut sound);
        assert_eq!(ecc.record(&sound, Ppn(12)), (bare, 0));
        for errors in 1..=12 {
            for start in 0..64 * 8 - errors * 40 {
                let mut wrong = sound;
                // The last half byte of the parity is not used.
                let bits: Vec<usize> =
                    (0..errors).map(|i| start + i * 40).filter(|bit| !(59 * 8..59 * 8 + 4).contains(bit)).collect();
                bits.iter().for_each(|bit| wrong[bit / 8] ^= 1 << (bit % 8));
                let (read, corrected) = ecc.record(&wrong, Ppn(12));
                assert_eq!(read, bare);
                // While only the parity is wrong nobody looks at it.
                assert!(corrected == bits.len() as u64 || wrong[..46] == sound[..46] && wrong[60..] == sound[60..]);
            }
        }
    }

    #[test]
    fn bits_are_flipped_as_often_as_asked() {
        let mut bytes = vec![0; 1 << 20];
        let flipped = flip(&mut bytes, 1e-3, &mut Rng::new(3));
        let ones: u64 = bytes.iter().map(|byte| u64::from(byte.count_ones())).sum();
        assert_eq!(flipped, ones);
        // 8389 expected; five standard deviations are 458.
        assert!((7931..8847).contains(&flipped), "{flipped}");
        assert_eq!(flip(&mut bytes, 0.0, &mut Rng::new(3)), 0);
    }

    #[test]
    fn what_does_not_fit_is_refused_with_the_sum() {
        let g = Geometry { page_bytes: 2048, oob_bytes: 64, ..Geometry::default() };
        let spec: EccSpec = "bch:8".parse().unwrap();
        assert_eq!(spec.fits(&g, 0), Ok(52));
        let why = spec.fits(&g, 44).unwrap_err();
        assert!(why.contains("44 B of the scheme and 4 B of checksum + 4 frames x 13 B of parity = 100 B"), "{why}");
        assert!("bch:8/600".parse::<EccSpec>().unwrap().fits(&g, 0).unwrap_err().contains("divisor"));
        assert!("bch:400".parse::<EccSpec>().unwrap().fits(&g, 0).unwrap_err().contains("too many"));
        for wrong in ["bch", "bch:", "bch:0", "bch:-1", "ldpc:8", "bch:8/0", "bch:8/x", ""] {
            assert!(wrong.parse::<EccSpec>().unwrap_err().contains("bch:T/BYTES"), "{wrong}");
        }
        assert_eq!("bch:40/1024".parse::<EccSpec>().unwrap().to_string(), "bch:40/1024");
    }
}

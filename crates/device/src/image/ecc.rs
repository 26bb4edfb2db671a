//! The error-correcting codes of an image: what a controller keeps beside the data so that flipped bits do no harm.
//!
//! Records have a small BCH code, whose parity lies in them, in every image of format 2: a spare area says whose page
//! it is and how new, and without it an older version would be taken for the newest. What the scheme keeps in the spare
//! area, and its checksum, have such a code of their own, where there is room for its parity.
//!
//! Data are protected if the image is given a code ([`CodeSpec`], the one of `ftlab reliability`), in *frames*, each
//! with its parity. The code decodes from bits: a file knows no more of a cell.
//!
//! ```text
//!   spare area   scheme's bytes │ checksum │ their parity │ parity of frame 0 │ frame 1 │ …
//! ```
//!
//! Not as passengers of the first frame, as some controllers have it: LDPC codes come in few lengths, the frame that
//! `ftlab reliability` speaks of would be another one, and a mount, which looks at spare areas alone, would have to
//! read a page to correct them.
//!
//! A checksum says whether anything is wrong, and only then a code is asked. So reads of sound pages cost nothing,
//! and what a code believes to have corrected is believed only if the checksum agrees. What cannot be corrected is what
//! it was without a code: a torn record, an uncorrectable page.
//!
//! A partial program changes the parity of the frames it touches. A chip would keep that of each partial program in
//! bytes of its own; the file has one parity of all that the page holds, as it has one checksum.

use super::header::Spec;
use super::layout::RECORD;
use super::record::Page;
use flash::{Geometry, Ppn, Rng};
use reliability::{Bch, Code, CodeSpec};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of the checksum behind what a scheme keeps in a spare area.
pub(super) const SPARE_CHECK: u32 = 4;

/// Bytes of a record that are its content, and where its parity stands; behind that is the checksum of the content.
const CONTENT: usize = 46;
const RECORD_PARITY: Range<usize> = CONTENT..60;
/// Bit errors that a record survives, for its 14 bytes of parity, and what a scheme keeps in a spare area.
const CORRECTABLE: usize = 12;

impl Spec {
    /// Whether the parities of the image's code fit its spare areas if the scheme keeps `own` bytes in each.
    ///
    /// # Errors
    /// There is no such code, or it does not fit: the sum, and what to do.
    pub fn check_ecc(&self, own: u32) -> Result<(), String> {
        Ecc::new(self.ecc, &self.device.geometry, own).map(drop)
    }
}

/// The codes with their tables, for one image.
#[derive(Debug)]
pub(super) struct Ecc {
    /// Of the data, if the image has a code for them.
    pages: Option<Frames>,
    /// Of what the scheme keeps in a spare area and its checksum, if it keeps anything and there is room.
    kept: Option<Arc<Bch>>,
    records: Arc<Bch>,
}

#[derive(Debug)]
struct Frames {
    code: Code,
    /// A frame as its code sees it; what the page has no data for is zero.
    frame: Vec<u8>,
    parity: Vec<u8>,
}

impl Ecc {
    /// For a scheme that keeps `own` bytes in each spare area.
    ///
    /// # Errors
    /// There is no such code, or it does not fit: the sum, and what to do.
    pub(super) fn new(code: Option<CodeSpec>, g: &Geometry, own: u32) -> Result<Ecc, String> {
        let (page, spare) = (g.page_bytes as usize, g.oob_bytes as usize);
        let records = small_code(CONTENT + 4).expect("50 bytes and 12 errors fit GF(2^9)");
        let kept = if own == 0 { 0 } else { (own + SPARE_CHECK) as usize };
        let kept_code = (kept > 0).then(|| small_code(kept)).transpose()?;
        let kept_parity = kept_code.as_ref().map_or(0, |code| code.parity_bytes());
        let Some(code) = code else {
            let kept = kept_code.filter(|_| kept + kept_parity <= spare);
            return Ok(Ecc { pages: None, kept, records });
        };
        let data = code.data_bytes();
        let pages = code.build().map_err(|error| format!("{code}: {error}"))?;
        if !page.is_multiple_of(data) {
            return Err(format!("{code}: frames of {data} B do not fill a page of {page} B; take a divisor"));
        }
        let (frames, each) = (page / data, pages.parity_bytes());
        let sum = kept + kept_parity + frames * each;
        if sum > spare {
            let scheme = if own == 0 {
                String::new()
            } else {
                format!("{own} B of the scheme, {SPARE_CHECK} B of checksum and {kept_parity} B of their parity + ")
            };
            let weaker = match spare.saturating_sub(kept + kept_parity) / frames {
                0 => String::new(),
                room => format!("a code with at most {room} B of parity for {data} B of data, or "),
            };
            return Err(format!(
                "{code} needs {scheme}{frames} frames x {each} B of parity = {sum} B, and the spare area has {spare} \
                 B; take {weaker}a device with more (oob={sum})"
            ));
        }
        let pages = Frames { code: pages, frame: vec![0; data], parity: Vec::new() };
        Ok(Ecc { pages: Some(pages), kept: kept_code, records })
    }

    /// Whether the data of pages have parities.
    pub(super) fn protects_data(&self) -> bool {
        self.pages.is_some()
    }

    /// Where the parities of the frames begin in a spare area.
    pub(super) fn at(&self) -> usize {
        self.kept.as_ref().map_or(0, |code| code.data_bytes() + code.parity_bytes())
    }

    /// Bytes of parity of a page with so many bytes of data.
    pub(super) fn parity_bytes(&self, data: usize) -> usize {
        self.pages.as_ref().map_or(0, |pages| pages.parity_bytes(data))
    }

    /// The parities of a page's data.
    pub(super) fn protect(&mut self, data: &[u8]) -> &[u8] {
        self.pages.as_mut().map_or(&[], |pages| pages.protect(data))
    }

    /// Corrects what can be corrected of a page's data, frame by frame. How many bits were wrong.
    pub(super) fn correct(&mut self, data: &mut [u8], parities: &mut [u8]) -> u64 {
        self.pages.as_mut().map_or(0, |pages| pages.correct(data, parities))
    }

    /// Appends its parity to what a scheme keeps in a spare area.
    pub(super) fn protect_kept(&self, kept: &mut Vec<u8>) {
        let Some(code) = &self.kept else { return };
        kept.resize(code.data_bytes() + code.parity_bytes(), 0);
        let (kept, parity) = kept.split_at_mut(code.data_bytes());
        code.encode(kept, parity);
    }

    /// Corrects what a scheme keeps in a spare area, if that can be. How many bits were wrong.
    pub(super) fn correct_kept(&self, spare: &mut [u8]) -> u64 {
        let Some(code) = &self.kept else { return 0 };
        let (kept, parity) = spare[..self.at()].split_at_mut(code.data_bytes());
        code.decode(kept, parity).map_or(0, |corrected| u64::from(corrected.bits))
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
        let bits = if Page::is_sound(&bare, ppn) { corrected.bits } else { 0 };
        (bare, u64::from(bits))
    }
}

/// The code of so many bytes of a spare area. Its tables take longer to make than an image to open, and few sizes
/// occur.
fn small_code(bytes: usize) -> Result<Arc<Bch>, String> {
    static MADE: Mutex<BTreeMap<usize, Arc<Bch>>> = Mutex::new(BTreeMap::new());
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(code) = made.get(&bytes) {
        return Ok(Arc::clone(code));
    }
    let code = Arc::new(Bch::new(bytes, CORRECTABLE).map_err(|error| error.to_string())?);
    made.insert(bytes, Arc::clone(&code));
    Ok(code)
}

impl Frames {
    fn parity_bytes(&self, data: usize) -> usize {
        data.div_ceil(self.frame.len()) * self.code.parity_bytes()
    }

    fn protect(&mut self, data: &[u8]) -> &[u8] {
        self.parity.resize(self.parity_bytes(data.len()), 0);
        let parities = self.parity.chunks_exact_mut(self.code.parity_bytes());
        for (part, parity) in data.chunks(self.frame.len()).zip(parities) {
            load(&mut self.frame, part);
            self.code.encode_into(&self.frame, parity);
        }
        &self.parity
    }

    fn correct(&mut self, data: &mut [u8], parities: &mut [u8]) -> u64 {
        let mut bits = 0;
        let parities = parities.chunks_exact_mut(self.code.parity_bytes());
        for (part, parity) in data.chunks_mut(self.frame.len()).zip(parities) {
            load(&mut self.frame, part);
            if let Ok(corrected) = self.code.decode(&mut self.frame, parity) {
                part.copy_from_slice(&self.frame[..part.len()]);
                bits += u64::from(corrected.bits);
            }
        }
        bits
    }
}

/// Data into a frame.
fn load(frame: &mut [u8], part: &[u8]) {
    let (data, rest) = frame.split_at_mut(part.len());
    data.copy_from_slice(part);
    rest.fill(0);
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

    fn ecc(code: &str, page_bytes: u32, oob_bytes: u32, own: u32) -> Result<Ecc, String> {
        let g = Geometry { page_bytes, oob_bytes, ..Geometry::default() };
        Ecc::new(Some(code.parse().unwrap()), &g, own)
    }

    fn noise(bytes: usize, seed: u64) -> Vec<u8> {
        let mut rng = Rng::new(seed);
        (0..bytes).map(|_| rng.bits() as u8).collect()
    }

    fn turn(bytes: &mut [u8], bits: impl IntoIterator<Item = usize>) {
        bits.into_iter().for_each(|bit| bytes[bit / 8] ^= 1 << (bit % 8));
    }

    #[test]
    fn a_page_survives_as_many_errors_in_each_frame_as_its_code_corrects() {
        let mut ecc = ecc("bch:t=8,data=512", 2048, 128, 0).unwrap();
        // Two frames and a part of a third.
        let data = noise(1300, 5);
        let parity = ecc.protect(&data).to_vec();
        assert_eq!(parity.len(), 3 * 13);
        let (mut wrong, mut area) = (data.clone(), parity.clone());
        turn(&mut wrong, [0, 77, 4095]);
        turn(&mut area, [3, 4, 5, 50, 51]);
        turn(&mut wrong[512..], 0..8);
        turn(&mut wrong[1024..], 2100..2108);
        assert_eq!(ecc.correct(&mut wrong, &mut area), 3 * 8);
        assert_eq!((&wrong, &area), (&data, &parity));
        turn(&mut wrong[1024..], 2100..2109);
        turn(&mut wrong, [9]);
        assert_eq!(ecc.correct(&mut wrong, &mut area), 1, "nine errors in the third frame");
        assert_eq!(wrong[..1024], data[..1024]);
        turn(&mut wrong[1024..], 2100..2109);
        assert_eq!(wrong, data, "what cannot be corrected is left as it was");
    }

    /// An LDPC code corrects no fixed number; these few it always does.
    #[test]
    fn a_page_under_ldpc_survives_flips_all_over_it_and_is_left_alone_beyond() {
        let mut ecc = ecc("ldpc:parity=64,data=512", 2048, 256, 0).unwrap();
        for seed in 0..20 {
            let data = noise(1300, seed);
            let parity = ecc.protect(&data).to_vec();
            assert_eq!(parity.len(), 3 * 64);
            let (mut wrong, mut area) = (data.clone(), parity.clone());
            let mut rng = Rng::new(seed);
            let flipped = flip(&mut wrong, 2e-3, &mut rng) + flip(&mut area, 2e-3, &mut rng);
            assert!(flipped > 10);
            assert_eq!(ecc.correct(&mut wrong, &mut area), flipped, "seed {seed}");
            assert_eq!((&wrong, &area), (&data, &parity));
            flip(&mut wrong, 0.1, &mut rng);
            let before = wrong.clone();
            assert_eq!((ecc.correct(&mut wrong, &mut area), wrong), (0, before));
        }
    }

    #[test]
    fn what_a_scheme_keeps_survives_twelve_errors_whatever_the_code() {
        for (code, own) in [("bch:t=1,data=512", 1), ("bch:t=8,data=512", 44), ("ldpc:parity=64,data=512", 300)] {
            let ecc = ecc(code, 512, 1024, own).unwrap();
            let mut spare = noise(own as usize + 4, 7);
            ecc.protect_kept(&mut spare);
            assert_eq!(spare.len(), ecc.at());
            let mut wrong = spare.clone();
            turn(&mut wrong, (0..12).map(|i| i * 9));
            assert_eq!(ecc.correct_kept(&mut wrong), 12);
            assert_eq!(wrong, spare);
            turn(&mut wrong, (0..13).map(|i| i * 9));
            let before = wrong.clone();
            assert_eq!((ecc.correct_kept(&mut wrong), wrong), (0, before), "{code}");
        }
    }

    #[test]
    fn a_record_survives_twelve_errors() {
        let ecc = ecc("bch:t=1,data=512", 512, 16, 0).unwrap();
        let page = Page::new(&Oob::data(Lpn(7), 1 << 40, u64::MAX >> 1));
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
        let refused = |code: &str, own: u32| ecc(code, 2048, 64, own).unwrap_err();
        assert_eq!(ecc("bch:t=8,data=512", 2048, 64, 0).unwrap().parity_bytes(2048), 52);
        assert_eq!(
            refused("bch:t=8,data=512", 11),
            "bch:t=8,data=512 needs 11 B of the scheme, 4 B of checksum and 12 B of their parity + 4 frames x 13 B of \
             parity = 79 B, and the spare area has 64 B; take a code with at most 9 B of parity for 512 B of data, or \
             a device with more (oob=79)"
        );
        let nothing = refused("ldpc:parity=64,data=512", 60);
        assert!(nothing.ends_with(" B; take a device with more (oob=335)"), "{nothing}");
        assert!(
            refused("bch:t=8,data=600", 0).contains("frames of 600 B do not fill a page of 2048 B; take a divisor")
        );
        assert!(refused("bch:t=400,data=512", 0).contains("too many"));
        assert!(refused("ldpc:parity=60,data=512", 0).contains("a multiple of 8 bytes of parity"));
    }
}

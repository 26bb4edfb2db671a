//! Images against the chip in memory, under kills, truncation and damage.

mod ageing;
mod durable;

use super::*;
use flash::device::{CellTimes, Device, Features, PageTimes, Server, Timing};
use flash::{
    AppendFace, BytesStore, Cause, Damage, EraseFace, Fault, FaultKind, Flash, Fragile, Full, Geometry, Kind, Lpn,
    Mode, Nand, Oob, Pairing, Payload, ProgramOrder, Rng, Tvpn,
};
use layout::{RECORD, UNIT};
use proptest::prelude::*;
use record::Page;
use reliability::CodeSpec;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;

type Chip = Nand<BytesStore, Full>;

/// A spec of `blocks` blocks of four pages of 512 bytes.
pub(crate) fn spec(blocks: u32, scheme: &str) -> Spec {
    let geometry = Geometry {
        blocks_per_die: blocks,
        pages_per_block: 4,
        page_bytes: 512,
        oob_bytes: 16,
        nop: 3,
        bits_per_cell: 2,
        slc_nop: 4,
        ..Geometry::default()
    };
    let timing = Timing {
        read_ns: 25,
        oob_read_ns: 25,
        program_ns: 200,
        partial_program_ns: 200,
        erase_ns: 1500,
        page_transfer_ns: 10,
        oob_transfer_ns: 1,
        slc: CellTimes { read_ns: 15, oob_read_ns: 15, program_ns: 100, partial_program_ns: 100, erase_ns: 1500 },
        low_cost: PageTimes { read_ns: 40, program_ns: 100 },
        medium: PageTimes { read_ns: 30, program_ns: 150 },
    };
    let device = Device {
        name: "small".into(),
        geometry: geometry.checked().unwrap(),
        timing,
        server: Server::Parallel,
        logical_pages: blocks * 2,
        spare: 0.5,
        endurance: None,
        features: Features::default(),
        barriers: false,
        paired: Pairing::Off,
    };
    Spec { device, scheme: scheme.into(), settings: Vec::new(), ecc: None }
}

/// Codes that images of small pages are tried with.
pub(crate) const CODES: [&str; 2] = ["bch:t=4,data=256", "ldpc:parity=64,data=512"];

/// The same with an error-correcting code that fills the spare area up.
pub(crate) fn spec_with_code(blocks: u32, scheme: &str, code: &str) -> Spec {
    let mut spec = spec(blocks, scheme);
    let code: CodeSpec = code.parse().unwrap();
    let parities = 512 / code.data_bytes() * code.build().unwrap().parity_bytes();
    // In front of them is what the steps keep, its checksum and its parity.
    spec.device.geometry.oob_bytes = OWN_BYTES + 4 + 12 + parities as u32;
    Spec { ecc: Some(code), ..spec }
}

/// Makes a new image one of format 1, whose records have no error-correcting code.
pub(crate) fn make_format_1(path: &Path) {
    let spec = Image::open(path, Access::Look).unwrap().spec().clone();
    let file = OpenOptions::new().write(true).open(path).unwrap();
    for copy in Layout::HEADERS {
        file.write_all_at(&spec.encode(1).unwrap(), copy).unwrap();
    }
    assert_eq!(Image::open(path, Access::Look).unwrap().format(), 1);
}

/// A directory and the path of an image in it.
pub(crate) fn place() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ssd.img");
    (directory, path)
}

fn page_of(tag: u64) -> Vec<u8> {
    let mut rng = Rng::new(tag);
    (0..64).flat_map(|_| rng.bits().to_le_bytes()).collect()
}

/// A change of a chip, applied to any medium.
#[derive(Clone, Copy, Debug)]
enum Step {
    Program(Ppn, u64),
    Metadata(Ppn, u64),
    /// In SLC mode.
    Slc(Ppn, u64),
    Append(Ppn, u32, u64),
    TearAppend(Ppn, u32, u64),
    Copy(Ppn, Ppn, u64),
    Erase(Block),
    MarkBad(Block),
    Ruin(Ppn),
    Spoil(Ppn),
    HalfErase(Block, EraseFace, u64),
}

fn words_of(tag: u64) -> Vec<u32> {
    let mut rng = Rng::new(tag);
    (0..1 + tag % 40).map(|_| rng.bits() as u32).collect()
}

/// What a partial program adds, and its mark; the last byte may be blank.
fn addition_of(tag: u64) -> (Vec<u8>, u16) {
    let mut rng = Rng::new(tag);
    let mut bytes: Vec<u8> = (0..1 + tag % 70).map(|_| rng.bits() as u8).collect();
    if tag.is_multiple_of(3) {
        *bytes.last_mut().unwrap() = 0xff;
    }
    (bytes, tag as u16 % 999)
}

/// Bytes that are kept in each spare area, and what a program stages for one.
const OWN_BYTES: u32 = 5;

fn own_of(tag: u64) -> Vec<u8> {
    tag.to_le_bytes()[..1 + tag as usize % OWN_BYTES as usize].to_vec()
}

impl Step {
    fn apply<F: Fragile<User = [u8]>>(self, medium: &mut F) -> Result<(), F::Fault> {
        assert!(medium.reserve_spare(OWN_BYTES));
        if let Step::Program(to, tag) | Step::Metadata(to, tag) | Step::Copy(_, to, tag) = self
            && tag % 4 > 0
        {
            medium.stage_spare(to, &own_of(tag));
        }
        match self {
            Step::Program(ppn, tag) => {
                let mode = [Mode::Normal, Mode::LowCost, Mode::Medium][tag as usize % 3];
                let oob = Oob { mode, ..Oob::data(Lpn(tag as u32 % 99), tag, tag << 33) };
                medium.program(ppn, oob, Payload::User(&page_of(tag)), Cause::Host)
            }
            Step::Metadata(ppn, tag) => {
                let oob = Oob::translation(Tvpn(tag as u32), tag, tag);
                medium.program(ppn, oob, Payload::Meta(&words_of(tag)), Cause::Metadata)
            }
            Step::Slc(ppn, tag) => {
                let oob = Oob { mode: Mode::Slc, ..Oob::translation(Tvpn(tag as u32), tag, tag) };
                medium.program(ppn, oob, Payload::Meta(&words_of(tag)), Cause::Metadata)
            }
            Step::Append(ppn, at, tag) => {
                let (bytes, mark) = addition_of(tag);
                medium.append(ppn, at, &bytes, mark, Cause::TranslationUpdate)
            }
            Step::TearAppend(ppn, at, tag) => {
                let (bytes, mark) = addition_of(tag);
                let face = AppendFace::ALL[tag as usize / 2 % 2];
                medium.chip().tear_append(ppn, at, &bytes, mark, face, &mut Rng::new(tag));
                Ok(())
            }
            Step::Copy(from, to, tag) => {
                let edit = |oob: &mut Oob, words: &mut [u32]| {
                    oob.program = tag;
                    words.iter_mut().take(1).for_each(|word| *word = tag as u32);
                };
                medium.copy(from, to, Cause::DataGc, edit).map(|_| ())
            }
            Step::Erase(block) => medium.erase(block, Cause::DataGc),
            Step::MarkBad(block) => {
                let oob = Oob { kind: Kind::Bad, ..Oob::data(Lpn(0), 0, 0) };
                let first = medium.geometry().page(block, 0);
                medium.program(first, oob, Payload::None, Cause::Metadata)
            }
            Step::Ruin(ppn) => {
                medium.chip().ruin(ppn);
                Ok(())
            }
            Step::Spoil(ppn) => {
                medium.chip().spoil(ppn);
                Ok(())
            }
            Step::HalfErase(block, face, seed) => {
                medium.chip().half_erase(block, face, &mut Rng::new(seed));
                Ok(())
            }
        }
    }
}

/// Everything that can be seen of a page.
type Seen = Option<(Oob, Kind, Vec<u8>)>;

fn look<F: Flash<User = [u8]>>(medium: &mut F) -> Result<Vec<Seen>, F::Fault> {
    let pages = medium.geometry().page_count();
    let one = |ppn| {
        let Some(mut oob) = medium.read_oob(ppn, Cause::Recovery)? else { return Ok(None) };
        let own = medium.spare(ppn).to_vec();
        if oob.kind == Kind::Bad {
            return Ok(Some((oob, Kind::Bad, Vec::new())));
        }
        if oob.kind == Kind::Torn {
            // What else the spare area of a torn page says is garbage.
            oob = Oob { kind: Kind::Torn, ..Page::BLANK.oob() };
        }
        let (whole, payload) = medium.read(ppn, Cause::Recovery)?;
        let mut bytes = match payload {
            Payload::User(data) => data.to_vec(),
            Payload::Meta(words) => words.iter().flat_map(|word| word.to_le_bytes()).collect(),
            Payload::None => Vec::new(),
        };
        bytes.extend(own);
        Ok(Some((oob, whole.kind, bytes)))
    };
    (0..pages).map(Ppn).map(one).collect()
}

/// Random legal changes of a chip.
struct Steps {
    rng: Rng,
    chip: Chip,
    bad: Vec<Block>,
    unsafe_blocks: Vec<Block>,
    spoiled: Vec<Ppn>,
    tag: u64,
    harm: bool,
}

impl Steps {
    fn new(spec: &Spec, seed: u64, harm: bool) -> Steps {
        let (bad, unsafe_blocks, spoiled) = (Vec::new(), Vec::new(), Vec::new());
        Steps { rng: Rng::new(seed), chip: Chip::new(spec.device.geometry), bad, unsafe_blocks, spoiled, tag: 0, harm }
    }

    fn below(&mut self, limit: u32) -> u32 {
        self.rng.below(u64::from(limit)) as u32
    }

    /// The next page of a block that can be programmed; the last two blocks are for SLC mode.
    fn free(&mut self, slc: bool) -> Option<Ppn> {
        let g = *self.chip.geometry();
        let count = g.block_count();
        let block = Block(if slc { count - 2 + self.below(2) } else { self.below(count - 2) });
        if self.bad.contains(&block) || self.unsafe_blocks.contains(&block) {
            return None;
        }
        let used = |ppn: &Ppn| matches!(self.chip.clone().read_oob(*ppn, Cause::Host), Ok(Some(_)));
        let limit = if slc { g.slc_pages() } else { g.pages_per_block };
        (0..limit).map(|offset| g.page(block, offset)).find(|ppn| !used(ppn))
    }

    /// A page that may be copied, and whether it holds metadata.
    fn source(&mut self) -> Option<(Ppn, bool)> {
        let ppn = Ppn(self.below(self.chip.geometry().page_count()));
        let block = self.chip.geometry().block_of(ppn);
        if self.spoiled.contains(&ppn) || self.bad.contains(&block) || self.unsafe_blocks.contains(&block) {
            return None;
        }
        match self.chip.read_oob(ppn, Cause::Host) {
            Ok(Some(Oob { kind: Kind::Data, .. })) => Some((ppn, false)),
            Ok(Some(Oob { kind: Kind::Translation, .. })) => Some((ppn, true)),
            _ => None,
        }
    }

    fn draw(&mut self) -> Option<Step> {
        self.tag += 1;
        let tag = self.tag;
        let g = *self.chip.geometry();
        Some(match self.below(if self.harm { 24 } else { 20 }) {
            0..9 => Step::Program(self.free(false)?, tag),
            9..11 => Step::Metadata(self.free(false)?, tag),
            11 => Step::Slc(self.free(true)?, tag),
            12..14 => {
                let (ppn, _) = self.source().filter(|&(_, metadata)| metadata)?;
                let (used, programs) = self.chip.metadata_state(ppn)?;
                let at = used + self.below(3) * self.below(20);
                let slc = self.chip.is_slc(g.block_of(ppn));
                let nop = if slc { g.slc_nop } else { g.nop };
                let fits = at + addition_of(tag).0.len() as u32 <= g.page_bytes && programs < nop;
                let torn = self.harm && self.below(4) == 0;
                fits.then_some(if torn { Step::TearAppend(ppn, at, tag) } else { Step::Append(ppn, at, tag) })?
            }
            14..17 => {
                let (from, _) = self.source()?;
                let slc = self.chip.is_slc(g.block_of(from));
                Step::Copy(from, self.free(slc)?, tag)
            }
            17..20 => {
                let block = Block(self.below(g.block_count()));
                (!self.bad.contains(&block)).then_some(Step::Erase(block))?
            }
            20 => {
                // Not the first page of a block that may become one of either mode.
                let slc = self.below(2) == 1;
                let ppn = self.free(slc)?;
                (!slc || g.offset_of(ppn) > 0).then_some(Step::Ruin(ppn))?
            }
            21 => Step::Spoil(self.source()?.0),
            22 => {
                let block = Block(self.below(g.block_count()));
                let face = EraseFace::ALL[self.below(4) as usize];
                (!self.bad.contains(&block)).then_some(Step::HalfErase(block, face, tag))?
            }
            _ => {
                let block = Block(self.below(g.block_count()));
                (self.bad.is_empty() && !self.unsafe_blocks.contains(&block)).then_some(Step::MarkBad(block))?
            }
        })
    }

    /// A step that the chip has taken already.
    fn next(&mut self) -> Step {
        let step = loop {
            if let Some(step) = self.draw() {
                break step;
            }
        };
        let Ok(()) = step.apply(&mut self.chip);
        let g = *self.chip.geometry();
        match step {
            Step::Erase(block) => {
                self.unsafe_blocks.retain(|&other| other != block);
                self.spoiled.retain(|&ppn| g.block_of(ppn) != block);
            }
            Step::HalfErase(block, ..) => self.unsafe_blocks.push(block),
            Step::MarkBad(block) => self.bad.push(block),
            Step::Spoil(ppn) => self.spoiled.push(ppn),
            _ => {}
        }
        step
    }
}

#[test]
fn does_what_the_chip_in_memory_does_also_when_opened_again() {
    for seed in 0..12 {
        let (_directory, path) = place();
        let spec = match seed as usize % 3 {
            0 => spec(6, "page"),
            code => spec_with_code(6, "page", CODES[code - 1]),
        };
        let mut steps = Steps::new(&spec, seed, true);
        let mut image = Image::create(&path, &spec, false).unwrap();
        for number in 0..400 {
            let step = steps.next();
            step.apply(&mut image).unwrap();
            if number % 3 == 0 {
                image.settle().unwrap();
                drop(image);
                image = Image::open(&path, Access::Use).unwrap();
                assert_eq!(image.spec(), &spec);
            }
            let Ok(expected) = look(&mut steps.chip);
            assert_eq!(look(&mut image).unwrap(), expected, "seed {seed}, step {number}: {step:?}");
        }
        assert_eq!(image.bad_blocks().collect::<Vec<_>>(), steps.bad);
        assert!(image.erase_counts().sum::<u32>() > 10);
    }
}

/// Kills it between any two writes of the file, also among those of gathered programs, and without any.
#[test]
fn killed_at_any_moment_it_holds_a_prefix_of_the_commands() {
    let (mut exact, mut within) = (0, 0);
    for writes in 0..400 {
        let (_directory, path) = place();
        let spec = match writes % 4 {
            code @ 0..2 => spec_with_code(3, "page", CODES[code as usize]),
            _ => spec(3, "page"),
        };
        let mut steps = Steps::new(&spec, 7 + writes % 5, false);
        let mut pace = Rng::new(writes);
        let mut image = Image::create(&path, &spec, false).unwrap();
        image.fail_after(writes);
        // What the file may hold: from what was settled last to all that was done.
        let Ok(first) = look(&mut steps.chip);
        let mut allowed = vec![first];
        let fault = loop {
            let step = steps.next();
            let Ok(after) = look(&mut steps.chip);
            allowed.push(after);
            if let Err(fault) = step.apply(&mut image) {
                break fault;
            }
            if pace.below(12) == 0 {
                if let Err(fault) = image.settle() {
                    break fault;
                }
                allowed.drain(..allowed.len() - 1);
            }
        };
        assert_eq!(fault.0, FaultKind::HostFailed);
        assert_eq!(look(&mut image), Err(Fault(FaultKind::HostFailed)), "it refuses everything now");
        assert_eq!(image.failure().unwrap().kind(), io::ErrorKind::StorageFull);
        drop(image);
        let found = look(&mut Image::open(&path, Access::Use).unwrap()).unwrap();
        let at = allowed.iter().position(|state| *state == found);
        let at = at.unwrap_or_else(|| panic!("after {writes} writes: none of {} states", allowed.len()));
        exact += u32::from(at == 0);
        within += u32::from(at > 0 && at + 1 < allowed.len());
    }
    assert!(
        exact > 30 && within > 100,
        "{exact} at the last settled state, {within} between that and the last command"
    );
}

/// Dies take turns, and the process ends without a word: what was not settled is gone, all of it or none.
#[test]
fn dropped_with_gathered_programs_it_is_as_it_was_settled() {
    let (_directory, path) = place();
    let mut spec = spec(2, "page");
    spec.device.geometry = Geometry { channels: 4, ..spec.device.geometry }.checked().unwrap();
    let mut image = Image::create(&path, &spec, false).unwrap();
    let turn = |image: &mut Image, offset: u32, tag: u64| {
        for die in 0..4 {
            Step::Program(Ppn(die * 8 + offset), tag + u64::from(die)).apply(image).unwrap();
        }
    };
    turn(&mut image, 0, 10);
    image.settle().unwrap();
    let settled = look(&mut image).unwrap();
    turn(&mut image, 1, 20);
    // It is read from where it is, and so comes into the file with all that is gathered.
    assert_eq!(image.read_oob(Ppn(9), Cause::Host).unwrap().unwrap().version, 21);
    drop(image);
    let mut image = Image::open(&path, Access::Use).unwrap();
    assert_eq!(look(&mut image).unwrap(), settled);
    turn(&mut image, 1, 30);
    assert_eq!(image.read(Ppn(9), Cause::Host).unwrap().1.user(), page_of(31));
    let read = look(&mut image).unwrap();
    drop(image);
    assert_eq!(look(&mut Image::open(&path, Access::Use).unwrap()).unwrap(), read);
}

#[test]
fn after_a_failure_of_the_host_it_goes_on_once_loaded_again() {
    let (_directory, path) = place();
    let spec = spec(4, "page");
    let mut image = Image::create(&path, &spec, false).unwrap();
    let put = |image: &mut Image, ppn| Step::Program(Ppn(ppn), 1 + u64::from(ppn)).apply(image);
    put(&mut image, 0).unwrap();
    image.settle().unwrap();
    image.fail_after(1);
    put(&mut image, 1).unwrap();
    image.settle().unwrap_err();
    put(&mut image, 1).unwrap_err();
    image.reload().unwrap();
    put(&mut image, 1).unwrap();
    assert_eq!(image.read(Ppn(1), Cause::Host).unwrap().1.user(), page_of(2));
    // The lock was kept all the time.
    assert!(matches!(Image::open(&path, Access::Use), Err(ImageError::InUse(_))));
}

/// An image with something of everything, closed.
fn sample(path: &Path, seed: u64) -> (Spec, Vec<Seen>) {
    let spec = spec(4, "page");
    let mut steps = Steps::new(&spec, seed, true);
    let mut image = Image::create(path, &spec, false).unwrap();
    for _ in 0..60 {
        steps.next().apply(&mut image).unwrap();
    }
    image.settle().unwrap();
    let Ok(seen) = look(&mut steps.chip);
    (spec, seen)
}

#[test]
fn cut_short_at_any_length_it_is_refused_and_left_alone() {
    let (directory, path) = place();
    sample(&path, 1);
    let whole = fs::read(&path).unwrap();
    let cut = directory.path().join("cut.img");
    for bytes in (0..whole.len()).step_by(97).chain([28, 4096, 8192, 12_288, whole.len() - 1]) {
        fs::write(&cut, &whole[..bytes]).unwrap();
        let error = Image::open(&cut, Access::Use).unwrap_err();
        match error {
            ImageError::Foreign(_) => assert!(bytes < 16, "{bytes}"),
            ImageError::Truncated { bytes: found, needed, .. } => {
                assert!(found == bytes as u64 && needed > found, "{bytes}: {needed}");
            }
            other => panic!("cut to {bytes} bytes: {other}"),
        }
        assert_eq!(fs::read(&cut).unwrap(), whole[..bytes]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn any_changed_byte_is_recognised(seed in 0..20u64, share in 0.0..1.0f64, change in 1..=255u8) {
        let (_directory, path) = place();
        let (_, before) = sample(&path, seed);
        let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let end = file.metadata().unwrap().len();
        // Half of the changes go where most of the meaning is.
        let limit = if seed % 2 == 0 { end } else { 3 * UNIT + 2 * UNIT + 16 * RECORD };
        let at = (share * limit as f64) as u64;
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ change], at).unwrap();
        drop(file);
        let mut image = Image::open(&path, Access::Use).unwrap();
        // As a mount does, for the state may be what was damaged.
        assert!(image.reserve_spare(OWN_BYTES));
        for (page, (was, is)) in before.into_iter().zip(look(&mut image).unwrap()).enumerate() {
            let torn = is.as_ref().is_some_and(|(_, whole, _)| *whole == Kind::Torn);
            prop_assert!(is == was || torn, "page {page}: {was:?} became {is:?}, byte {at}");
        }
    }
}

#[test]
fn damage_is_found_by_a_scrub_and_travels_with_copies() {
    let (_directory, path) = place();
    let mut image = Image::create(&path, &spec(4, "page"), false).unwrap();
    for (ppn, tag) in [(0, 10), (1, 11)] {
        Step::Program(Ppn(ppn), tag).apply(&mut image).unwrap();
    }
    Step::Metadata(Ppn(2), 39).apply(&mut image).unwrap();
    image.spoil(Ppn(1));
    image.spoil(Ppn(2));
    assert_eq!(image.read(Ppn(1), Cause::Host).unwrap_err().0, FaultKind::Uncorrectable);
    Step::Copy(Ppn(1), Ppn(4), 12).apply(&mut image).unwrap();
    assert_eq!(image.read(Ppn(4), Cause::Host).unwrap_err().0, FaultKind::Uncorrectable);
    assert_eq!(Step::Copy(Ppn(2), Ppn(5), 12).apply(&mut image).unwrap_err().0, FaultKind::Uncorrectable);
    // A record that is damaged, too.
    let at = image.layout.record(Ppn(0)) + 9;
    image.write(at, &[0xee; 16]).unwrap();
    image.reload().unwrap();
    assert_eq!(image.read_oob(Ppn(0), Cause::Recovery).unwrap().unwrap().kind, Kind::Torn);
    let unsound = |ppn, lpn: Option<u32>| Unsound { ppn: Ppn(ppn), lpn: lpn.map(Lpn) };
    // A mount finds the copy in its place, whose data nobody can read.
    let (oob, content) = image.read(Ppn(4), Cause::Recovery).unwrap();
    assert!((oob.kind, oob.lpn()) == (Kind::Data, Lpn(11)) && matches!(content, Payload::None));
    // The others may have been torn, for nobody shut the image down.
    let maybe_torn = vec![unsound(1, Some(11)), unsound(2, None)];
    let lost = vec![unsound(4, Some(11))];
    let mut scrub = image.scrub().unwrap();
    let expected =
        Scrub { pages: 4, bad_records: vec![Ppn(0)], bad_data: lost.clone(), maybe_torn, ..Scrub::default() };
    assert_eq!(scrub, expected);
    // They were unless something is lost with them.
    let mut sound = expected.clone();
    sound.judge(&[]);
    assert_eq!((sound.torn, &sound.bad_data), (2, &lost), "a collection has met it");
    scrub.judge(&[11]);
    assert_eq!((scrub.torn, scrub.bad_data), (0, vec![unsound(1, Some(11)), unsound(2, None), unsound(4, Some(11))]));
}

/// Bits flip while programs, partial programs and copies go on: with a code nobody sees it, and the file is as it was.
#[test]
fn with_a_code_a_few_flipped_bits_do_no_harm() {
    let (mut flipped, mut corrected) = (0, 0);
    for seed in 0..20 {
        let (_directory, path) = place();
        let spec = spec_with_code(6, "page", CODES[seed as usize % 2]);
        let mut steps = Steps::new(&spec, seed, false);
        let mut image = Image::create(&path, &spec, false).unwrap();
        for round in 0..10 {
            for _ in 0..12 {
                steps.next().apply(&mut image).unwrap();
            }
            flipped += image.age(&Rng::new(seed << 8 | round), |_, _| 1e-5).unwrap();
            let Ok(expected) = look(&mut steps.chip);
            assert_eq!(look(&mut image).unwrap(), expected, "seed {seed}, round {round}");
        }
        let scrub = image.scrub().unwrap();
        assert!(scrub.bad_data.is_empty() && scrub.maybe_torn.is_empty() && scrub.bad_records.is_empty(), "{scrub:?}");
        corrected += scrub.corrected_bits;
    }
    assert!(flipped > 50 && corrected > 10, "{flipped} flipped, {corrected} corrected at the end");
}

/// Too many: a page is whole or torn, never something else.
#[test]
fn more_flipped_bits_than_the_code_corrects_are_known() {
    for (code, rate) in [(None, 1e-3), (Some(CODES[0]), 3e-3), (Some(CODES[1]), 1.5e-2)] {
        let (mut sound, mut torn) = (0, 0);
        for seed in 1..5 {
            let (_directory, path) = place();
            let spec = code.map_or_else(|| spec(6, "page"), |code| spec_with_code(6, "page", code));
            let mut steps = Steps::new(&spec, seed, false);
            let mut image = Image::create(&path, &spec, false).unwrap();
            (0..100).for_each(|_| steps.next().apply(&mut image).unwrap());
            let before = look(&mut image).unwrap();
            assert!(image.age(&Rng::new(seed), |_, _| rate).unwrap() > 10);
            for (found, before) in look(&mut image).unwrap().into_iter().zip(before) {
                if found == before {
                    sound += 1;
                } else {
                    assert!(matches!(found, Some((_, Kind::Torn, _))), "{found:?} was {before:?}");
                    torn += 1;
                }
            }
        }
        assert!(sound > 10 && torn > 10, "{code:?}: {sound} sound, {torn} torn");
    }
}

/// Each partial program, torn or whole, leaves a parity of all that the page holds then.
#[test]
fn partial_programs_keep_the_parity_right() {
    for code in CODES {
        let (_directory, path) = place();
        let spec = spec_with_code(4, "page", code);
        let mut image = Image::create(&path, &spec, false).unwrap();
        let mut chip = Chip::new(spec.device.geometry);
        // 160 bytes, then some across the end of the first 256, then some of which a half or nothing is left.
        for step in [Step::Metadata(Ppn(0), 39), Step::Append(Ppn(0), 230, 69), Step::TearAppend(Ppn(0), 400, 68)] {
            step.apply(&mut image).unwrap();
            let Ok(()) = step.apply(&mut chip);
            let Ok(expected) = look(&mut chip);
            let at = image.layout.page(Ppn(0));
            for bit in (0..1280).step_by(97) {
                image.settle().unwrap();
                let mut stored = [0; 160];
                image.fetch(at, &mut stored).unwrap();
                let mut wrong = stored;
                for bit in [bit, (bit + 500) % 1280, (bit + 901) % 1280] {
                    wrong[bit / 8] ^= 1 << (bit % 8);
                }
                image.write(at, &wrong).unwrap();
                let before = image.corrected_bits();
                assert_eq!(look(&mut image).unwrap(), expected, "{code}, {step:?}");
                assert_eq!(image.corrected_bits(), before + 3);
                image.write(at, &stored).unwrap();
            }
        }
    }
}

/// What is corrected when a partial program comes goes on corrected in the parity, although the flash keeps the error.
#[test]
fn a_partial_program_of_a_page_with_flipped_bits_loses_nothing() {
    for code in CODES {
        let (_directory, path) = place();
        let spec = spec_with_code(4, "page", code);
        let mut image = Image::create(&path, &spec, false).unwrap();
        let mut chip = Chip::new(spec.device.geometry);
        for (number, step) in [Step::Metadata(Ppn(0), 39), Step::Append(Ppn(0), 180, 50), Step::Append(Ppn(0), 240, 60)]
            .into_iter()
            .enumerate()
        {
            // The page is not what the image had in its hands last.
            for step in [step, Step::Metadata(Ppn(1 + number as u32), 9)] {
                step.apply(&mut image).unwrap();
                let Ok(()) = step.apply(&mut chip);
            }
            let at = image.layout.page(Ppn(0)) + 30 * number as u64;
            image.settle().unwrap();
            let mut byte = [0];
            image.fetch(at, &mut byte).unwrap();
            image.write(at, &[byte[0] ^ 1]).unwrap();
        }
        let Ok(expected) = look(&mut chip);
        assert_eq!(look(&mut image).unwrap(), expected, "{code}");
        assert_eq!(image.scrub().unwrap().corrected_bits, 3);
    }
}

#[test]
fn an_image_of_an_unknown_code_is_refused_by_its_name() {
    let (_directory, path) = place();
    drop(Image::create(&path, &spec_with_code(4, "page", CODES[0]), false).unwrap());
    let mut bytes = fs::read(&path).unwrap();
    for copy in Layout::HEADERS {
        let header = &mut bytes[copy as usize..][..UNIT as usize];
        let at = header.windows(8).position(|window| window == b"ecc=bch:").unwrap();
        header[at + 4..at + 8].copy_from_slice(b"fog:");
        let text = 28..28 + u32::from_le_bytes(header[20..24].try_into().unwrap()) as usize;
        let check = crc32fast::hash(&[&header[..24], &header[text]].concat());
        header[24..28].copy_from_slice(&check.to_le_bytes());
    }
    fs::write(&path, &bytes).unwrap();
    let error = Image::open(&path, Access::Look).unwrap_err();
    let named = "has the error-correcting code fog:t=4,data=256, which this ftlab does not know";
    assert_eq!(error.to_string(), format!("{} {named}", path.display()));
}

/// Zeros were a blank page. A mount did not say that it had lost one; of a first record it lost the whole block.
#[test]
fn a_record_of_zeros_is_damaged_in_a_block_that_was_begun() {
    let lose = |lost: u32, order| {
        let (_directory, path) = place();
        let mut spec = spec(4, "page");
        spec.device.geometry.order = order;
        let mut image = Image::create(&path, &spec, false).unwrap();
        for ppn in 0..3 {
            Step::Program(Ppn(ppn), 10).apply(&mut image).unwrap();
        }
        image.write(image.layout.record(Ppn(lost)), &[0; 64]).unwrap();
        image.reload().unwrap();
        (0..8).map(|ppn| image.read_oob(Ppn(ppn), Cause::Recovery).unwrap().map(|oob| oob.kind)).collect::<Vec<_>>()
    };
    for order in [ProgramOrder::Strict, ProgramOrder::Any] {
        for lost in 0..3 {
            let mut expected = vec![None; 8];
            expected[..3].fill(Some(Kind::Data));
            expected[lost as usize] = Some(Kind::Torn);
            assert_eq!(lose(lost, order), expected, "{order:?}");
        }
    }
}

/// Earlier versions of ftlab left the records of blank pages zeros, and began with the first life.
#[test]
fn blocks_that_an_earlier_version_has_begun_are_read_and_filled_further() {
    for order in [ProgramOrder::Strict, ProgramOrder::Any] {
        let (_directory, path) = place();
        let mut spec = spec(4, "page");
        spec.device.geometry.order = order;
        let mut image = Image::create(&path, &spec, false).unwrap();
        for block in (0..4).map(Block) {
            image.put_entry(block, Entry { erases: 0, generation: 1, flags: Entry::WRITTEN }).unwrap();
        }
        for ppn in [0, 1] {
            Step::Program(Ppn(ppn), 10 + u64::from(ppn)).apply(&mut image).unwrap();
        }
        image.settle().unwrap();
        for block in (0..4).map(Block) {
            image.put_entry(block, Entry { erases: 0, generation: 1, flags: 0 }).unwrap();
        }
        let kinds = |image: &mut Image| {
            image.reload().unwrap();
            let kind = |ppn| image.read_oob(Ppn(ppn), Cause::Recovery).unwrap().map(|oob| oob.kind);
            (0..8).map(kind).collect::<Vec<_>>()
        };
        let data = Some(Kind::Data);
        assert_eq!(kinds(&mut image), [data, data, None, None, None, None, None, None]);
        // The block that was begun goes on as it is; the next one is a block of this version.
        Step::Program(Ppn(2), 12).apply(&mut image).unwrap();
        Step::Program(Ppn(4), 14).apply(&mut image).unwrap();
        image.settle().unwrap();
        assert_eq!(image.blocks[0].flags, 0);
        assert_eq!((image.blocks[1].flags, image.blocks[1].generation), (Entry::WRITTEN, 2));
        assert_eq!(kinds(&mut image), [data, data, data, None, data, None, None, None]);
        assert_eq!(image.read(Ppn(0), Cause::Host).unwrap().1.user(), page_of(10));
        // Erased, it is one as well, with its next page.
        Step::Erase(Block(0)).apply(&mut image).unwrap();
        assert_eq!(image.blocks[0].flags, 0);
        Step::Program(Ppn(0), 20).apply(&mut image).unwrap();
        image.settle().unwrap();
        assert_eq!(image.blocks[0].flags, Entry::WRITTEN);
        Step::Erase(Block(0)).apply(&mut image).unwrap();
        assert_eq!(image.blocks[0].flags, Entry::WRITTEN);
        assert_eq!(kinds(&mut image), [None, None, None, None, data, None, None, None]);
    }
}

#[test]
fn a_checkpoint_lives_until_the_first_change() {
    let (_directory, path) = place();
    let mut image = Image::create(&path, &spec(4, "page"), false).unwrap();
    assert_eq!((image.life(), image.checkpoint(1)), (Life::Fresh, Ok(None)));
    Step::Program(Ppn(0), 1).apply(&mut image).unwrap();
    assert_eq!(image.life(), Life::Dirty);
    let saved: Vec<u8> = (0..10_000u32).flat_map(u32::to_le_bytes).collect();
    image.store_checkpoint(1, &saved).unwrap();
    image.reload().unwrap();
    assert_eq!((image.life(), image.checkpoint(1)), (Life::Clean, Ok(Some(saved.clone()))));
    // It is not believed once a byte of it is another.
    image.write(image.layout.end + 77, &[0xaa]).unwrap();
    assert_eq!(image.checkpoint(1), Ok(None));
    image.store_checkpoint(1, &saved).unwrap();
    // Nor is one of another form.
    assert_eq!(image.checkpoint(2), Ok(None));
    // The file knows before the change happens.
    image.fail_after(1);
    Step::Erase(Block(0)).apply(&mut image).unwrap_err();
    image.reload().unwrap();
    assert_eq!((image.life(), image.checkpoint(1)), (Life::Dirty, Ok(None)));
    assert_eq!(image.erase_counts().next(), Some(0));
}

#[test]
fn one_opener_at_a_time_and_any_number_of_onlookers() {
    let (_directory, path) = place();
    let spec = spec(4, "page");
    let mut image = Image::create(&path, &spec, false).unwrap();
    let refused = |access| matches!(Image::open(&path, access), Err(ImageError::InUse(_)));
    assert!(refused(Access::Use) && refused(Access::Look));
    assert!(matches!(Image::create(&path, &spec, false), Err(ImageError::Exists(_))));
    assert!(matches!(Image::create(&path, &spec, true), Err(ImageError::InUse(_))));
    Step::Program(Ppn(0), 1).apply(&mut image).unwrap();
    image.settle().unwrap();
    drop(image);
    let before = fs::read(&path).unwrap();
    let mut onlookers = [(); 2].map(|()| Image::open(&path, Access::Look).unwrap());
    assert!(refused(Access::Use));
    for (ppn, image) in [1, 4].into_iter().zip(&mut onlookers) {
        Step::Program(Ppn(ppn), 5).apply(image).unwrap();
        Step::Erase(Block(0)).apply(image).unwrap();
        image.store_checkpoint(1, &[1, 2, 3]).unwrap();
    }
    drop(onlookers);
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn what_is_no_image_is_named_and_left_alone() {
    let (directory, path) = place();
    fs::write(&path, "an old love letter, longer than a magic").unwrap();
    let error = Image::open(&path, Access::Use).unwrap_err();
    assert_eq!(error.to_string(), format!("{} is not an ftlab image", path.display()));
    assert!(matches!(Image::open(directory.path(), Access::Look), Err(ImageError::NotAFile(_))));
    let missing = Image::open(&directory.path().join("none"), Access::Use).unwrap_err();
    assert!(missing.to_string().starts_with("cannot open "), "{missing}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "an old love letter, longer than a magic");
    assert!(!Image::is_begun(&path));
    // Emptied on request only.
    drop(Image::create(&path, &spec(4, "page"), true).unwrap());
    let mut bytes = fs::read(&path).unwrap();
    // Either copy of its header tells that it is an image.
    for copy in Layout::HEADERS {
        let mut damaged = bytes.clone();
        damaged[copy as usize] ^= 1;
        fs::write(&path, &damaged).unwrap();
        assert!(Image::is_begun(&path), "without the copy at {copy}");
    }
    for copy in Layout::HEADERS {
        bytes[copy as usize + 16] = 9;
    }
    fs::write(&path, &bytes).unwrap();
    let error = Image::open(&path, Access::Use).unwrap_err();
    assert!(error.to_string().ends_with("is an image of format 9; this ftlab knows formats up to 3"), "{error}");
    for copy in Layout::HEADERS {
        bytes[copy as usize + 16] = 1;
        bytes[copy as usize + 50] ^= 4;
    }
    fs::write(&path, &bytes).unwrap();
    assert!(matches!(Image::open(&path, Access::Use), Err(ImageError::Damaged { .. })));
    assert_eq!(fs::read(&path).unwrap(), bytes);
}

/// `image verify` of a pipe waited for ever.
#[test]
fn a_pipe_is_refused_at_once() {
    let (_directory, path) = place();
    // No program is started for it: between fork and exec the child has the locks of other tests' images.
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let (says, hears) = std::sync::mpsc::channel();
    let pipe = path.clone();
    std::thread::spawn(move || says.send([Access::Look, Access::Use].map(|access| Image::open(&pipe, access).err())));
    let errors = hears.recv_timeout(std::time::Duration::from_secs(20)).expect("it waits for a writer");
    let expected = format!("{} is not a regular file, and an image is one", path.display());
    assert_eq!(errors.map(|error| error.unwrap().to_string()), [expected.clone(), expected.clone()]);
    let over = Image::create(&path, &spec(4, "page"), true).unwrap_err();
    assert_eq!(over.to_string(), expected);
}

#[test]
fn it_costs_what_was_written() {
    let (_directory, path) = place();
    let mut large = spec(4, "page");
    large.device.geometry =
        Geometry { blocks_per_die: 4096, pages_per_block: 256, ..Geometry::default() }.checked().unwrap();
    let mut image = Image::create(&path, &large, false).unwrap();
    let oob = Oob::data(Lpn(1), 1, 1);
    image.program(Ppn(256 * 77), oob, Payload::User(&[1; 4096]), Cause::Host).unwrap();
    image.sync().unwrap();
    let (bytes, cost) = image.file_bytes().unwrap();
    assert!(bytes > 4 << 30 && cost < 1 << 20, "{bytes} bytes, {cost} on the disk");
}

mod strict {
    use super::*;

    fn image() -> (tempfile::TempDir, Image) {
        let (directory, path) = place();
        (directory, Image::create(&path, &spec(4, "page"), false).unwrap())
    }

    fn apply(image: &mut Image, steps: &[Step]) {
        for step in steps {
            step.apply(image).unwrap();
        }
    }

    #[test]
    #[should_panic(expected = "out of program order")]
    fn refuses_a_gap() {
        apply(&mut image().1, &[Step::Program(Ppn(1), 1)]);
    }

    #[test]
    #[should_panic(expected = "not blank")]
    fn refuses_to_program_twice() {
        apply(&mut image().1, &[Step::Program(Ppn(0), 1), Step::Program(Ppn(0), 1)]);
    }

    #[test]
    #[should_panic(expected = "NOP is 3")]
    fn refuses_more_partial_programs_than_nop() {
        let append = |number: u32| Step::Append(Ppn(0), 100 + 10 * number, 1);
        apply(&mut image().1, &[Step::Metadata(Ppn(0), 1), append(0), append(1), append(2)]);
    }

    #[test]
    #[should_panic(expected = "NOP is 4")]
    fn refuses_more_partial_programs_than_slc_nop() {
        let append = |number: u32| Step::Append(Ppn(0), 100 + 10 * number, 1);
        apply(&mut image().1, &[Step::Slc(Ppn(0), 1), append(0), append(1), append(2), append(3)]);
    }

    #[test]
    #[should_panic(expected = "the block is in SLC mode")]
    fn refuses_another_mode_in_a_block_in_slc_mode() {
        apply(&mut image().1, &[Step::Slc(Ppn(0), 1), Step::Metadata(Ppn(1), 1)]);
    }

    #[test]
    #[should_panic(expected = "the block is not in SLC mode")]
    fn refuses_slc_mode_in_a_block_of_another() {
        apply(&mut image().1, &[Step::Metadata(Ppn(0), 1), Step::Slc(Ppn(1), 1)]);
    }

    #[test]
    #[should_panic(expected = "has no such page")]
    fn refuses_more_pages_in_slc_mode_than_cells_give() {
        apply(&mut image().1, &[Step::Slc(Ppn(0), 1), Step::Slc(Ppn(1), 1), Step::Slc(Ppn(2), 1)]);
    }

    #[test]
    #[should_panic(expected = "byte 101 is not blank")]
    fn refuses_a_partial_program_of_programmed_bytes() {
        let append = |at| Step::Append(Ppn(0), at, 1);
        apply(&mut image().1, &[Step::Metadata(Ppn(0), 1), append(100), append(101)]);
    }

    #[test]
    #[should_panic(expected = "partial program of page 0: the block's erase was cut short")]
    fn refuses_a_partial_program_into_a_block_that_is_half_erased() {
        let half = Step::HalfErase(Block(0), EraseFace::Intact, 1);
        apply(&mut image().1, &[Step::Metadata(Ppn(0), 1), half, Step::Append(Ppn(0), 100, 1)]);
    }

    #[test]
    #[should_panic(expected = "block is bad")]
    fn refuses_a_bad_block() {
        apply(&mut image().1, &[Step::MarkBad(Block(0)), Step::Program(Ppn(0), 1)]);
    }

    #[test]
    #[should_panic(expected = "erase was cut short")]
    fn refuses_a_block_that_only_looks_blank() {
        let half = Step::HalfErase(Block(0), EraseFace::LooksBlank, 1);
        apply(&mut image().1, &[Step::Program(Ppn(0), 1), half, Step::Program(Ppn(0), 1)]);
    }

    #[test]
    #[should_panic(expected = "read of page 0: the page is blank")]
    fn refuses_to_read_a_blank_page() {
        let _ = image().1.read(Ppn(0), Cause::Host);
    }

    #[test]
    #[should_panic(expected = "the page is torn")]
    fn refuses_to_copy_a_torn_page() {
        apply(&mut image().1, &[Step::Ruin(Ppn(0)), Step::Copy(Ppn(0), Ppn(4), 1)]);
    }
}

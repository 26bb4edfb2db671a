//! A firmware in small: a chip of its own under page mapping, a power cut, a mount.
//! `cargo run -p ftlab-ftl --example firmware`
//!
//! The chip keeps bytes, as a driver finds them: a page of data and a spare area that holds the record of the page and
//! two checksums. It has the seven calls of [`Flash`] that a chip must have. Only `main` prints; the rest needs no more
//! than `alloc`.
#![no_std]
#![expect(clippy::print_stdout, reason = "an example shows what it does")]
extern crate alloc;
extern crate std;

use alloc::{vec, vec::Vec};
use flash::*;
use ftl::schemes::{Page, by_name};
use ftl::{Build, Error, Ftl};

/// Bytes of a spare area: kind, mode, mark, address, version, program number, sum of the data, sum of all that.
const SPARE: usize = 32;
const KINDS: [Kind; 8] = {
    use Kind::{Bad, Checkpoint, Data, Dummy, Log, Torn, Translation, Trim};
    [Data, Log, Translation, Dummy, Checkpoint, Trim, Bad, Torn]
};

/// How this chip fails: its power goes.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Off;
impl FlashFault for Off {
    fn kind(self) -> FaultKind {
        FaultKind::PowerLost
    }
}

struct Toy {
    geometry: Geometry,
    /// Page by page: data, then spare area. Ones are blank.
    cells: Vec<u8>,
    /// The page register, for metadata words.
    register: Vec<u32>,
    /// Programs and erases until the power goes.
    power: u32,
}

fn sum(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |sum, &byte| (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

fn record(oob: &Oob, data: &[u8]) -> [u8; SPARE] {
    let mut spare = [0; SPARE];
    (spare[0], spare[1]) = (oob.kind as u8, oob.mode as u8);
    spare[2..4].copy_from_slice(&oob.mark.to_le_bytes());
    spare[4..8].copy_from_slice(&oob.address.to_le_bytes());
    spare[8..16].copy_from_slice(&oob.version.to_le_bytes());
    spare[16..24].copy_from_slice(&oob.program.to_le_bytes());
    spare[24..28].copy_from_slice(&sum(data).to_le_bytes());
    let all = sum(&spare[..28]).to_le_bytes();
    spare[28..].copy_from_slice(&all);
    spare
}

fn refuse(rule: Rule, command: Command, ppn: Ppn) -> ! {
    panic!("{}", Broken { rule, command, ppn })
}

impl Toy {
    fn new(geometry: Geometry) -> Toy {
        let bytes = geometry.page_count() as usize * (geometry.page_bytes as usize + SPARE);
        Toy { geometry, cells: vec![0xff; bytes], register: Vec::new(), power: u32::MAX }
    }

    fn at(&self, ppn: Ppn) -> (usize, usize) {
        let first = ppn.index() * (self.geometry.page_bytes as usize + SPARE);
        (first, first + self.geometry.page_bytes as usize)
    }

    fn spare(&self, ppn: Ppn) -> Option<Oob> {
        let spare = &self.cells[self.at(ppn).1..][..SPARE];
        let long = |at: usize| u64::from_le_bytes(spare[at..at + 8].try_into().expect("eight bytes"));
        let word = |at: usize| (long(at) & 0xffff_ffff) as u32;
        if spare.iter().all(|&byte| byte == 0xff) {
            return None;
        }
        let is_sound = sum(&spare[..28]).to_le_bytes() == spare[28..];
        let kind = if is_sound { KINDS[spare[0] as usize] } else { Kind::Torn };
        let (mode, mark) = (Mode::ALL[spare[1] as usize % 4], word(2) as u16);
        Some(Oob { kind, mode, address: word(4), version: long(8), program: long(16), mark })
    }

    /// A page with its data, which is in the register too.
    fn load(&mut self, ppn: Ppn) -> Oob {
        let (data, spare) = self.at(ppn);
        let oob = self.spare(ppn).unwrap_or_else(|| refuse(Rule::Blank, Command::Read, ppn));
        let word = |four: &[u8]| u32::from_le_bytes(four.try_into().expect("four bytes"));
        self.register = self.cells[data..spare].chunks_exact(4).map(word).collect();
        let is_whole = sum(&self.cells[data..spare]).to_le_bytes() == self.cells[spare + 24..spare + 28];
        Oob { kind: if is_whole { oob.kind } else { Kind::Torn }, ..oob }
    }

    /// Programs a page. When the power goes, half of it is there.
    fn store(&mut self, ppn: Ppn, oob: &Oob, data: &[u8]) -> Result<(), Off> {
        if self.spare(ppn).is_some() && oob.kind != Kind::Bad {
            refuse(Rule::NotBlank, Command::Program, ppn);
        }
        let (first, spare) = self.at(ppn);
        let mut page = vec![0xff; spare - first];
        page[..data.len()].copy_from_slice(data);
        page.extend(record(oob, &page));
        let end = self.spend();
        let begin = if end.is_ok() { 0 } else { page.len() / 2 };
        self.cells[first + begin..first + page.len()].copy_from_slice(&page[begin..]);
        end
    }

    fn spend(&mut self) -> Result<(), Off> {
        self.power.checked_sub(1).map(|left| self.power = left).ok_or(Off)
    }
}

impl Flash for Toy {
    type User = [u8];
    type Fault = Off;

    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn read(&mut self, ppn: Ppn, _: Cause) -> Result<(Oob, Payload<'_, [u8]>), Off> {
        let oob = self.load(ppn);
        let (data, spare) = self.at(ppn);
        Ok(match oob.kind {
            Kind::Data | Kind::Log => (oob, Payload::User(&self.cells[data..spare])),
            Kind::Dummy | Kind::Bad | Kind::Torn => (oob, Payload::None),
            Kind::Translation | Kind::Checkpoint | Kind::Trim => (oob, Payload::Meta(&self.register)),
        })
    }

    fn read_oob(&mut self, ppn: Ppn, _: Cause) -> Result<Option<Oob>, Off> {
        Ok(self.spare(ppn))
    }

    fn program(&mut self, ppn: Ppn, oob: Oob, data: Payload<'_, [u8]>, _: Cause) -> Result<(), Off> {
        match data {
            Payload::User(bytes) => self.store(ppn, &oob, bytes),
            Payload::Meta(words) => {
                self.store(ppn, &oob, &words.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<_>>())
            }
            Payload::None => self.store(ppn, &oob, &[]),
        }
    }

    // Never called: the geometry says that a page is programmed once.
    fn append(&mut self, ppn: Ppn, _: u32, _: &[u8], _: u16, _: Cause) -> Result<(), Off> {
        refuse(Rule::Nop { programs: 1, nop: 1 }, Command::Append, ppn)
    }

    fn copy(&mut self, from: Ppn, to: Ppn, cause: Cause, edit: impl FnOnce(&mut Oob, &mut [u32])) -> Result<Oob, Off> {
        let mut oob = self.load(from);
        let mut words = core::mem::take(&mut self.register);
        let is_host = oob.kind.is_host();
        edit(&mut oob, if is_host { &mut [] } else { &mut words });
        self.program(to, oob, Payload::Meta(&words), cause).map(|()| oob)
    }

    fn erase(&mut self, block: Block, _: Cause) -> Result<(), Off> {
        self.spend()?;
        let [first, end] = [block.0, block.0 + 1].map(|block| self.at(self.geometry.page(Block(block), 0)).0);
        self.cells[first..end].fill(0xff);
        Ok(())
    }
}

fn main() {
    let shape = Geometry { blocks_per_die: 32, pages_per_block: 16, page_bytes: 512, ..Geometry::default() };
    let mut chip = Toy::new(shape.checked().expect("the chip has a shape"));
    let (pages, settings) = (384, by_name("page").expect("it is in the table").settings());
    let mut ftl = Page::format(&mut chip, pages, &settings).expect("the chip is sound, and large enough");

    chip.power = 3000;
    let mut written = vec![0; pages as usize];
    let mut n = 0;
    let ((unanswered, last), error) = loop {
        n += 1;
        let (lpn, byte) = (n * (n + 1) / 2 % pages as usize, n as u8 | 1);
        match ftl.write(&mut chip, Lpn(lpn as u32), &[byte; 512]) {
            Ok(()) => written[lpn] = byte,
            Err(error) => break ((lpn, byte), error),
        }
    };
    assert_eq!(error, Error::Flash(Off));
    std::println!("power went in write {n}, of page {unanswered}");

    chip.power = u32::MAX;
    let (mut ftl, found) = Page::mount(&mut chip, pages, &settings).expect("whatever it holds can be mounted");
    std::println!("mounted: {} pages programmed, {} of them torn", found.pages, found.torn);
    for (lpn, &byte) in written.iter().enumerate() {
        let data = ftl.read(&mut chip, Lpn(lpn as u32)).expect("the chip has power").map_or(0, |data| data[0]);
        assert!(data == byte || lpn == unanswered && data == last, "page {lpn} holds {data}, not {byte}");
    }
    std::println!("all {} pages that were written are there", written.iter().filter(|&&byte| byte != 0).count());
}

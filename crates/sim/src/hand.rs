//! One device in hand: a scheme on a chip of bytes, asked page by page, with every command of the last request, the
//! state of every page, and power that can be cut. For teaching and debugging; nothing here takes time.
//!
//! The chip is that of the checks, so that every scheme is compiled for it once.

use crate::check::{Bench, Checked, CheckedScheme, Stamp, bench, sound};
use flash::device::Device;
use flash::{Block, Cause, CutPoint, Fault, FaultKind, Flash, Geometry, Kind, Lpn, Ppn};
use ftl::buffer::Behind;
use ftl::schemes::Registry;
use ftl::{AnyRecipe, BuildError, Error, Ftl, Inspect, MountReport, Recipe, Settings};
use std::collections::BTreeMap;
use std::fmt;

/// Bytes that a chip may have: they are all in memory.
pub const MOST_BYTES: u64 = 1 << 30;

/// Why nothing came of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HandError {
    /// There is no scheme of this name.
    UnknownScheme(String),
    /// The request is wrong.
    Input(String),
    /// The power is gone, before or now: mount.
    PowerLost,
    /// No block can be freed.
    Full,
}

impl fmt::Display for HandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HandError::UnknownScheme(name) => write!(f, "there is no scheme {name}"),
            HandError::Input(what) => f.write_str(what),
            HandError::PowerLost => f.write_str("the power is off; mount the device"),
            HandError::Full => f.write_str("the device is full: no block can be freed"),
        }
    }
}

impl std::error::Error for HandError {}

impl From<Error<Fault>> for HandError {
    fn from(error: Error<Fault>) -> HandError {
        match error {
            Error::Full => HandError::Full,
            Error::Flash(Fault(FaultKind::PowerLost)) => HandError::PowerLost,
            Error::Corrupt => HandError::Input(error.to_string()),
            Error::Flash(fault) => HandError::Input(fault.to_string()),
        }
    }
}

impl From<BuildError<Fault>> for HandError {
    fn from(error: BuildError<Fault>) -> HandError {
        match error {
            BuildError::Config(error) => HandError::Input(error.to_string()),
            BuildError::Device(error) => error.into(),
        }
    }
}

/// What a page is, as far as flash alone tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum PageState {
    /// Nothing was programmed since the erase.
    Blank,
    /// The newest version of a logical page, or the newest translation page of its place.
    Current,
    /// An older version, or an older copy of the newest.
    Old,
    /// Other metadata, padding among it.
    Other,
    /// It was programmed or erased incompletely.
    Torn,
    /// It marks a bad block.
    Bad,
}

impl PageState {
    /// Their names, by number.
    pub const NAMES: [&'static str; 6] = ["blank", "current", "old", "other", "torn", "bad"];
}

/// A page as it is found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Page {
    /// What it is.
    pub state: PageState,
    /// What it says it is, if it is programmed.
    pub kind: Option<Kind>,
    /// LPN, or number of the translation page.
    pub address: Option<u32>,
    /// Version, or watermark.
    pub version: u64,
    /// What it was last programmed for, if it is programmed.
    pub cause: Option<Cause>,
}

/// See the module's description.
pub struct Hand {
    bench: Bench,
    logical_pages: u32,
    settings: Settings,
    recipe: Checked,
    /// `None` while the power is off.
    scheme: Option<CheckedScheme>,
    commands: Vec<String>,
    /// What each page was last programmed for.
    causes: Vec<Option<Cause>>,
    /// Erases of each block, those that a cut left half done among them.
    erases: Vec<u32>,
}

impl fmt::Debug for Hand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hand").field("logical_pages", &self.logical_pages).finish_non_exhaustive()
    }
}

impl Hand {
    /// A scheme of [`ftl::schemes`] on a blank chip of this shape.
    ///
    /// # Errors
    /// No scheme of this name, settings that do not fit, a chip that does not fit in memory.
    pub fn new(scheme: &str, device: &Device, settings: Settings) -> Result<Hand, HandError> {
        let recipe = Registry::BUILT_IN.recipe(scheme);
        let recipe = recipe.ok_or_else(|| HandError::UnknownScheme(scheme.to_owned()))?;
        Hand::made(Behind(recipe), device, settings)
    }

    /// Another scheme on a blank chip.
    ///
    /// # Errors
    /// As [`Hand::new`].
    pub fn of<R: Recipe<Bench>>(recipe: R, device: &Device, settings: Settings) -> Result<Hand, HandError> {
        Hand::made(Behind(AnyRecipe::of(&recipe)), device, settings)
    }

    fn made(recipe: Checked, device: &Device, settings: Settings) -> Result<Hand, HandError> {
        let g = device.geometry;
        let bytes = u64::from(g.page_count()) * u64::from(g.page_bytes);
        if bytes > MOST_BYTES {
            let what = format!(
                "the chip has {bytes} bytes, which are all in memory: at most {MOST_BYTES} are allowed; give a \
                 smaller capacity"
            );
            return Err(HandError::Input(what));
        }
        let mut bench = bench(sound(g), true);
        let scheme = recipe.format(&mut bench, device.logical_pages, &settings)?;
        let mut hand = Hand {
            bench,
            logical_pages: device.logical_pages,
            settings,
            recipe,
            scheme: Some(scheme),
            commands: Vec::new(),
            causes: vec![None; g.page_count() as usize],
            erases: vec![0; g.block_count() as usize],
        };
        hand.note();
        Ok(hand)
    }

    /// The chip's shape.
    pub fn geometry(&self) -> &Geometry {
        self.bench.geometry()
    }

    /// Pages that a host sees.
    pub fn logical_pages(&self) -> u32 {
        self.logical_pages
    }

    /// Whether it has power and is mounted.
    pub fn is_on(&self) -> bool {
        self.scheme.is_some()
    }

    /// The flash commands of the last request, a line each, in the form of [`flash::Transcript`].
    pub fn commands(&self) -> &[String] {
        &self.commands
    }

    /// The scheme's own counters.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        self.scheme.as_ref().map(|scheme| scheme.counters()).unwrap_or_default()
    }

    fn range(&self, first: u32, count: u32) -> Result<(), HandError> {
        match first.checked_add(count) {
            Some(end) if end <= self.logical_pages && count > 0 => Ok(()),
            _ => Err(HandError::Input(format!(
                "pages {first} to {}: the device has pages 0 to {}",
                u64::from(first) + u64::from(count.max(1)) - 1,
                self.logical_pages - 1
            ))),
        }
    }

    fn ask<T>(
        &mut self,
        request: impl FnOnce(&mut CheckedScheme, &mut Bench) -> Result<T, Error<Fault>>,
    ) -> Result<T, HandError> {
        let scheme = self.scheme.as_mut().ok_or(HandError::PowerLost)?;
        let answer = request(scheme, &mut self.bench);
        self.note();
        if self.bench.inner().lost() {
            self.scheme = None;
            return Err(HandError::PowerLost);
        }
        Ok(answer?)
    }

    /// Keeps the commands of a request, and what they were for.
    fn note(&mut self) {
        self.commands = self.bench.take();
        let g = *self.bench.geometry();
        for line in &self.commands {
            let mut words = line.split(' ');
            let (command, place) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
            let cause = line.rsplit(' ').next().and_then(|name| Cause::ALL.iter().find(|cause| cause.name() == name));
            let numbers = || {
                let (block, page) = place.split_once('.').unwrap_or((place, "0"));
                Some((block.parse::<u32>().ok()?, page.parse::<u32>().ok()?))
            };
            let Some((block, page)) = numbers() else { continue };
            match command {
                "W" | "P" => self.causes[g.page(Block(block), page).index()] = cause.copied(),
                "E" => {
                    let first = g.page(Block(block), 0).index();
                    self.causes[first..first + g.pages_per_block as usize].fill(None);
                    self.erases[block as usize] += 1;
                }
                _ => {}
            }
        }
    }

    /// Reads a page; `None` if it holds nothing.
    ///
    /// # Errors
    /// A page that there is not, or no power.
    pub fn read(&mut self, lpn: u32) -> Result<Option<Vec<u8>>, HandError> {
        self.range(lpn, 1)?;
        self.ask(|scheme, bench| {
            scheme.request(Lpn(lpn), 1);
            Ok(scheme.read(bench, Lpn(lpn))?.and_then(Stamp::bytes).map(<[u8]>::to_vec))
        })
    }

    /// Writes pages from `first` on, as one request; each has the bytes of a page.
    ///
    /// # Errors
    /// Pages that there are not, bytes of another number, no power, a full device.
    pub fn write(&mut self, first: u32, pages: &[u8]) -> Result<(), HandError> {
        let page_bytes = self.geometry().page_bytes as usize;
        if pages.is_empty() || !pages.len().is_multiple_of(page_bytes) {
            let what = format!("{} bytes are no whole pages of {page_bytes}", pages.len());
            return Err(HandError::Input(what));
        }
        let count = u32::try_from(pages.len() / page_bytes).unwrap_or(u32::MAX);
        self.range(first, count)?;
        self.ask(|scheme, bench| {
            scheme.request(Lpn(first), count);
            let lpns = (first..first + count).map(Lpn);
            lpns.zip(pages.chunks(page_bytes))
                .try_for_each(|(lpn, page)| scheme.write(bench, lpn, &Stamp::holding(page)))
        })
    }

    /// Discards pages.
    ///
    /// # Errors
    /// As [`Hand::write`].
    pub fn trim(&mut self, first: u32, count: u32) -> Result<(), HandError> {
        self.range(first, count)?;
        self.ask(|scheme, bench| scheme.trim(bench, Lpn(first), count))
    }

    /// Makes everything durable.
    ///
    /// # Errors
    /// As [`Hand::write`].
    pub fn flush(&mut self) -> Result<(), HandError> {
        self.ask(|scheme, bench| scheme.flush(bench))
    }

    /// Lets the scheme work in the background, about so many page copies; whether there is more.
    ///
    /// # Errors
    /// As [`Hand::write`].
    pub fn idle(&mut self, copies: u32) -> Result<bool, HandError> {
        self.ask(|scheme, bench| scheme.idle(bench, copies))
    }

    /// Cuts the power now, between two commands.
    pub fn cut(&mut self) {
        self.scheme = None;
    }

    /// Power will fail at a changing command, counted from 0 from now on, in a face that every command has (0 to 3,
    /// [`CutPoint::faces`]). `seed` chooses the garbage.
    pub fn arm(&mut self, point: CutPoint, seed: u64) {
        self.bench.inner_mut().arm(point, seed);
    }

    /// Power is back: the scheme is built again from flash alone.
    ///
    /// # Errors
    /// What flash holds cannot be mounted.
    pub fn mount(&mut self) -> Result<MountReport, HandError> {
        self.scheme = None;
        self.bench.inner_mut().restart();
        let mounted = self.recipe.mount(&mut self.bench, self.logical_pages, &self.settings);
        self.note();
        let (scheme, report) = mounted?;
        self.scheme = Some(scheme);
        Ok(report)
    }

    /// Every page, in order. Looking at them is no command.
    pub fn pages(&self) -> Vec<Page> {
        let mut chip = self.bench.inner().inner().inner().inner().clone();
        let mut pages = Vec::with_capacity(self.causes.len());
        // The newest page of each address: its place, by kind of content.
        let mut newest: BTreeMap<(bool, u32), (u64, u64, usize)> = BTreeMap::new();
        for (index, &cause) in self.causes.iter().enumerate() {
            let ppn = Ppn(index as u32);
            let Ok(oob) = chip.read_oob(ppn, Cause::Recovery);
            let Some(oob) = oob else {
                let (kind, address) = (None, None);
                pages.push(Page { state: PageState::Blank, kind, address, version: 0, cause: None });
                continue;
            };
            let Ok((whole, _)) = chip.read(ppn, Cause::Recovery);
            let is_translation = oob.kind == Kind::Translation;
            let (state, address) = match whole.kind {
                Kind::Torn => (PageState::Torn, None),
                Kind::Bad => (PageState::Bad, None),
                Kind::Data | Kind::Log | Kind::Translation => {
                    // Of translation pages the one that was programmed last, of host pages the newest version.
                    let version = if is_translation { oob.program } else { oob.version };
                    let this = (version, oob.program, index);
                    let best = newest.entry((is_translation, oob.address)).or_insert(this);
                    *best = this.max(*best);
                    (PageState::Old, Some(oob.address))
                }
                Kind::Dummy | Kind::Checkpoint | Kind::Trim => (PageState::Other, None),
            };
            pages.push(Page { state, kind: Some(whole.kind), address, version: oob.version, cause });
        }
        for (_, _, index) in newest.into_values() {
            pages[index].state = PageState::Current;
        }
        pages
    }

    /// Erases of every block.
    pub fn erases(&self) -> &[u32] {
        &self.erases
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ftl::schemes::by_name;

    fn device() -> Device {
        let one_die = "agrawal08:page=4KiB,spare=20%,capacity=64MiB,channels=1,chips=1,dies=1,planes=1";
        let spec: crate::device::DeviceSpec = one_die.parse().unwrap();
        spec.build(None).unwrap()
    }

    fn page(byte: u8) -> Vec<u8> {
        vec![byte; 4096]
    }

    #[test]
    fn a_page_is_written_read_and_found() {
        let mut hand = Hand::new("page", &device(), by_name("page").unwrap().settings()).unwrap();
        assert_eq!(hand.read(5).unwrap(), None);
        hand.write(5, &page(1)).unwrap();
        assert_eq!(hand.commands(), ["W 0.0 data 5 host"]);
        hand.write(5, &page(2)).unwrap();
        assert_eq!(hand.read(5).unwrap(), Some(page(2)));
        let pages = hand.pages();
        let brief = |page: &Page| (page.state, page.address, page.cause);
        assert_eq!(brief(&pages[0]), (PageState::Old, Some(5), Some(Cause::Host)));
        assert_eq!(brief(&pages[1]), (PageState::Current, Some(5), Some(Cause::Host)));
        assert_eq!(brief(&pages[2]), (PageState::Blank, None, None));
        let wrong = hand.read(16_384).unwrap_err().to_string();
        assert_eq!(wrong, "pages 16384 to 16384: the device has pages 0 to 16383");
        assert!(matches!(hand.write(0, &[1]), Err(HandError::Input(_))));
    }

    #[test]
    fn power_is_cut_in_a_write_and_the_device_mounts() {
        let mut hand = Hand::new("dftl", &device(), by_name("dftl").unwrap().settings()).unwrap();
        hand.write(7, &page(1)).unwrap();
        for face in 0..4 {
            hand.arm(CutPoint { command: 0, face }, 1);
            assert_eq!(hand.write(7, &page(2 + face)), Err(HandError::PowerLost), "face {face}");
            assert_eq!(hand.read(7), Err(HandError::PowerLost));
            hand.mount().unwrap();
            // Of the faces only the last leaves the page whole, and what is whole stays.
            let found = hand.read(7).unwrap().unwrap()[0];
            assert_eq!(found, if face == 3 { 5 } else { 1 }, "face {face}");
        }
        hand.cut();
        assert!(!hand.is_on() && hand.flush() == Err(HandError::PowerLost));
        hand.mount().unwrap();
        assert!(hand.read(7).unwrap().is_some());
    }

    #[test]
    fn what_cannot_be_is_said() {
        let settings = || by_name("page").unwrap().settings();
        assert_eq!(Hand::new("pge", &device(), settings()).unwrap_err().to_string(), "there is no scheme pge");
        let large: crate::device::DeviceSpec = "agrawal08:capacity=8GiB".parse().unwrap();
        let error = Hand::new("page", &large.build(None).unwrap(), settings()).unwrap_err().to_string();
        assert!(error.contains("at most 1073741824 are allowed"), "{error}");
    }
}

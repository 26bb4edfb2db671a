//! A few operations on a tiny device, told command by command: what a scheme does, for whoever learns it or writes one.
//!
//! The device is the one of the checks: the strict chip, whose power can be cut at any changing command, in every way
//! that a cut command can look. Nothing here is timed.

use super::content::Stamp;
use super::cuts::face_name;
use super::{Bench, CheckError, Checked, CheckedScheme, Raised, bench, recipe_of, sound};
use flash::{Cause, CutPoint, Flash, Geometry, Kind, Line, Lpn, Noted, Op, Ppn};
use ftl::buffer::Behind;
use ftl::schemes;
use ftl::{BuildError, ConfigError, Error, Ftl, Recipe, Scheme, Settings, Value};
use std::fmt;
use std::str::FromStr;

/// What is to be done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// A request that writes `.1` pages from `.0` on.
    Write(u32, u32),
    /// A request that reads them.
    Read(u32, u32),
    /// A request that discards them.
    Discard(u32, u32),
    /// Makes everything acknowledged durable.
    Flush,
    /// Background work of at most so many page copies.
    Idle(u32),
    /// Power fails in the operation that follows.
    Cut(CutPoint),
    /// Power is back: the scheme is rebuilt from flash alone.
    Mount,
    /// Prints what the blocks hold.
    Show,
}

/// The forms of a [`Step`], for help and errors.
pub const FORMS: &str =
    "write:PAGES, read:PAGES, discard:PAGES, flush, idle:COPIES, cut:COMMAND[.FACE], mount and show";

/// Steps of one word: `write:7` is one, `write:0-7` too (a request of eight pages), `write:3,5,0-1` are three.
///
/// # Errors
/// A word that is none.
///
/// ```
/// use sim::check::step::{Step, parse};
/// assert_eq!(parse("write:0-3,7"), Ok(vec![Step::Write(0, 4), Step::Write(7, 1)]));
/// assert!(parse("wrote:7").is_err());
/// ```
pub fn parse(word: &str) -> Result<Vec<Step>, CheckError> {
    let wrong = || CheckError(format!("{word}: not a step; there are {FORMS}, with PAGES as 7, 0-7 or 3,5,0-1"));
    let (name, value) = word.split_once(':').map_or((word, None), |(name, value)| (name, Some(value)));
    let pages = |of: fn(u32, u32) -> Step| {
        let requests = value.ok_or_else(wrong)?.split(',').map(|request| {
            let (first, last) = request.split_once('-').unwrap_or((request, request));
            let (first, last) = (number(first).ok_or_else(wrong)?, number(last).ok_or_else(wrong)?);
            if first <= last && last - first < 1 << 20 { Ok(of(first, last - first + 1)) } else { Err(wrong()) }
        });
        requests.collect()
    };
    match (name, value) {
        ("write", _) => pages(Step::Write),
        ("read", _) => pages(Step::Read),
        ("discard", _) => pages(Step::Discard),
        ("flush", None) => Ok(vec![Step::Flush]),
        ("idle", Some(copies)) => number(copies).map(|copies| vec![Step::Idle(copies)]).ok_or_else(wrong),
        ("cut", Some(at)) => {
            let (command, face) = at.split_once('.').unwrap_or((at, "0"));
            let point = number::<u64>(command).zip(number(face));
            let (command, face) = point.ok_or_else(wrong)?;
            Ok(vec![Step::Cut(CutPoint { command, face })])
        }
        ("mount", None) => Ok(vec![Step::Mount]),
        ("show", None) => Ok(vec![Step::Show]),
        _ => Err(wrong()),
    }
}

fn number<N: FromStr>(text: &str) -> Option<N> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let request = |f: &mut fmt::Formatter<'_>, verb: &str, first: u32, pages: u32| {
            write!(f, "{verb} LPN {first}")?;
            if pages > 1 { write!(f, " to {}", first + pages - 1) } else { Ok(()) }
        };
        match *self {
            Step::Write(first, pages) => request(f, "write", first, pages),
            Step::Read(first, pages) => request(f, "read", first, pages),
            Step::Discard(first, pages) => request(f, "discard", first, pages),
            Step::Flush => f.write_str("flush"),
            Step::Idle(copies) => write!(f, "idle for {copies} copies"),
            Step::Cut(CutPoint { command, face }) => write!(f, "cut at command {command}, face {face}"),
            Step::Mount => f.write_str("mount"),
            Step::Show => f.write_str("blocks"),
        }
    }
}

/// A device and a scheme on it.
#[derive(Clone, PartialEq, Debug)]
pub struct StepConfig {
    /// Name of the scheme.
    pub scheme: String,
    /// Its settings: name and text. A mapping cache that nobody sets is the smallest that the scheme takes.
    pub settings: Vec<(String, String)>,
    /// The chip.
    pub geometry: Geometry,
    /// Logical pages; `None`: as many as the scheme takes.
    pub logical_pages: Option<u32>,
}

/// Formats the device and does the steps. What is told, line by line; of the first `quiet` steps nothing.
///
/// # Errors
/// A scheme, setting, device or step that is wrong.
pub fn tell(config: &StepConfig, steps: &[Step], quiet: usize) -> Result<Vec<String>, CheckError> {
    let geometry = config.geometry.checked().map_err(|error| CheckError(error.to_string()))?;
    let config = &StepConfig { geometry, ..config.clone() };
    let told = super::guarded(|| {
        let row = schemes::by_name(&config.scheme);
        Ok(row.map_or_else(
            || Err(CheckError(format!("no scheme {}", config.scheme))),
            |row| run(config, steps, quiet, row),
        ))
    });
    told.unwrap_or_else(|panic| Err(CheckError(panic)))
}

fn run(config: &StepConfig, steps: &[Step], quiet: usize, row: &Scheme<'_>) -> Result<Vec<String>, CheckError> {
    if !row.keeps_data {
        return Err(CheckError(format!("scheme {} keeps no data: there is nothing to see", row.name)));
    }
    let recipe = &Behind(recipe_of(row));
    let mut settings = row.settings();
    config.settings.iter().try_for_each(|(name, text)| settings.set(name, text)).map_err(CheckError)?;
    let pages = fit(config, recipe, &mut settings)?;
    let mut flash = bench(sound(config.geometry), true);
    let ftl = recipe.format(&mut flash, pages, &settings).map_err(refused)?;
    flash.take();
    let mut told = Told { recipe, settings, pages, flash, ftl: Some(ftl), writes: Vec::new(), lines: Vec::new() };
    let g = &config.geometry;
    let dies = if g.die_count() == 1 { "1 die".to_owned() } else { format!("{} dies", g.die_count()) };
    let (blocks, size) = (g.blocks_per_die, g.pages_per_block);
    told.say(format!("{} on {dies} of {blocks} blocks of {size} pages; LPN 0 to {}", row.name, pages - 1));
    let mut cut = None;
    for (number, step) in steps.iter().enumerate() {
        let before = told.lines.len();
        if let Step::Cut(point) = step {
            if let Some(CutPoint { command, face }) = cut.replace(*point) {
                return Err(CheckError(format!("cut:{command}.{face}: another cut comes before any step")));
            }
            continue;
        }
        // What only looks leaves the cut to the step behind it.
        told.step(step, if *step == Step::Show { None } else { cut.take() })?;
        if number < quiet {
            told.lines.truncate(before);
        }
    }
    match cut {
        None => Ok(told.lines),
        Some(CutPoint { command, face }) => {
            Err(CheckError(format!("cut:{command}.{face}: no step follows in which power could fail")))
        }
    }
}

/// As many logical pages as the scheme takes, and the smallest cache.
fn fit(config: &StepConfig, recipe: &Checked, settings: &mut Settings) -> Result<u32, CheckError> {
    let is_set = |key: &str| config.settings.iter().any(|(name, _)| name == key);
    let mut pages = config.logical_pages.unwrap_or(config.geometry.page_count());
    loop {
        match recipe.format(&mut bench(sound(config.geometry), false), pages, settings) {
            Ok(_) => return Ok(pages),
            Err(BuildError::Config(refusal)) if refusal.key == "cache-bytes" && !is_set("cache-bytes") => {
                let bytes = settings.iter().find(|(name, _)| *name == "cache-bytes").map(|(_, value)| value);
                match bytes {
                    Some(Value::Count(bytes)) if bytes < 1 << 20 => {
                        settings.put("cache-bytes", Value::Count(bytes + 4));
                    }
                    _ => return Err(CheckError(refusal.to_string())),
                }
            }
            Err(refusal) if pages == 1 || config.logical_pages.is_some() => return Err(refused(refusal)),
            Err(_) => pages -= 1,
        }
    }
}

/// Why a scheme takes no such device, and what may be changed about it here.
fn refused<E>(refusal: BuildError<E>) -> CheckError
where
    BuildError<E>: fmt::Display,
{
    CheckError(match refusal {
        BuildError::Config(ConfigError { key: "spare", what, .. }) => {
            format!("{what} (give more --blocks or --dies, or fewer --logical-pages)")
        }
        other => other.to_string(),
    })
}

/// A device under observation.
struct Told<'a> {
    recipe: &'a Checked,
    settings: Settings,
    pages: u32,
    flash: Bench,
    /// `None` while power is off.
    ftl: Option<CheckedScheme>,
    /// The LPN of each write so far: a page holds the number of its write.
    writes: Vec<u32>,
    lines: Vec<String>,
}

impl Told<'_> {
    fn say(&mut self, line: String) {
        self.lines.push(line);
    }

    fn step(&mut self, step: &Step, cut: Option<CutPoint>) -> Result<(), CheckError> {
        if let Step::Write(first, pages) | Step::Read(first, pages) | Step::Discard(first, pages) = *step
            && u64::from(first) + u64::from(pages) > u64::from(self.pages)
        {
            return Err(CheckError(format!("{step}: the last logical page is {}", self.pages - 1)));
        }
        if self.ftl.is_none() && !matches!(step, Step::Mount | Step::Show) {
            return Err(CheckError(format!("{step}: power has failed; mount comes first")));
        }
        self.say(String::new());
        self.say(step.to_string());
        if *step == Step::Show {
            self.show();
            return Ok(());
        }
        match cut {
            Some(point) => self.flash.inner_mut().arm(point, 1),
            None => self.flash.inner_mut().restart(),
        }
        let mut read = Vec::new();
        let done = if *step == Step::Mount { self.mount() } else { self.operate(step, &mut read) };
        let commands = self.flash.take();
        self.lines.extend(plain(&commands));
        self.lines.extend(read);
        let seen = self.flash.inner().seen().to_vec();
        match (done, cut) {
            (Ok(()), None) => Ok(()),
            (Ok(()), Some(CutPoint { command, .. })) => Err(CheckError(match seen.len() {
                0 => format!("cut:{command}: {step} does not change the flash"),
                count => format!("cut:{command}: the last command of {step} that changes the flash is {}", count - 1),
            })),
            (Err(Error::Full), None) => {
                self.say("  refused: the device is full".into());
                Ok(())
            }
            (Err(Error::Flash(_)), Some(CutPoint { command, face })) => {
                if let Some(report) = seen.last() {
                    let op = match report.op {
                        Op::PartialProgram => "append",
                        Op::Erase => "erase",
                        _ => "program",
                    };
                    let faces = CutPoint::faces(report.op);
                    if face >= faces {
                        let what = format!("cut:{command}.{face}: the faces of this {op} are 0 to {}", faces - 1);
                        return Err(CheckError(what));
                    }
                    self.say(format!("  power fails in the {op}, which leaves: {}", face_name(report.op, face)));
                }
                self.flash.inner_mut().restart();
                self.ftl = None;
                Ok(())
            }
            (Err(error), _) => Err(CheckError(format!("{step}: {error}"))),
        }
    }

    fn mount(&mut self) -> Result<(), Error<flash::Fault>> {
        self.ftl = None;
        match self.recipe.mount(&mut self.flash, self.pages, &self.settings) {
            Ok((ftl, _)) => self.ftl = Some(ftl),
            Err(BuildError::Device(error)) => return Err(error),
            Err(BuildError::Config(refusal)) => std::panic::panic_any(Raised(refusal.to_string())),
        }
        Ok(())
    }

    fn operate(&mut self, step: &Step, read: &mut Vec<String>) -> Result<(), Error<flash::Fault>> {
        let Told { flash, ftl: Some(ftl), writes, .. } = self else { return Ok(()) };
        match *step {
            Step::Write(first, pages) => {
                ftl.request(Lpn(first), pages);
                for lpn in first..first + pages {
                    writes.push(lpn);
                    ftl.write(flash, Lpn(lpn), &Stamp::of(writes.len() as u64))?;
                }
            }
            Step::Read(first, pages) => {
                ftl.request(Lpn(first), pages);
                for lpn in first..first + pages {
                    let tag = ftl.read(flash, Lpn(lpn))?.map(Stamp::tag);
                    let holds = match tag {
                        None => "nothing: it reads as zeros".to_owned(),
                        Some(Some(tag)) => {
                            let nth = writes.iter().take(tag as usize).filter(|&&written| written == lpn).count();
                            format!("what write {nth} of this page wrote")
                        }
                        Some(None) => "bytes that nobody wrote".to_owned(),
                    };
                    read.push(format!("  LPN {lpn} holds {holds}"));
                }
            }
            Step::Discard(first, pages) => ftl.trim(flash, Lpn(first), pages)?,
            Step::Flush => ftl.flush(flash)?,
            Step::Idle(copies) => drop(ftl.idle(flash, copies)?),
            Step::Cut(_) | Step::Mount | Step::Show => {}
        }
        Ok(())
    }

    /// Where the scheme finds each logical page; while power is off, `None`.
    fn live(&self) -> Option<Vec<Ppn>> {
        let ftl = self.ftl.as_ref()?;
        let g = *self.flash.geometry();
        let page = |lpn: u32| {
            let (mut ftl, mut flash) = (ftl.clone(), self.flash.clone());
            ftl.read(&mut flash, Lpn(lpn)).ok()??;
            let is_host = |line: &&Line| line.what == Noted::Read && line.cause == Cause::Host;
            flash.take_lines().iter().rev().find(is_host).map(|line| g.page(line.block, line.offset))
        };
        Some((0..self.pages).filter_map(page).collect())
    }

    /// What stands in every block that is not blank.
    fn show(&mut self) {
        let live = self.live();
        let mut chip = self.flash.inner().inner().inner().clone();
        let g = *chip.geometry();
        let pages: Vec<_> = (0..g.page_count()).map(|ppn| chip.read_oob(Ppn(ppn), Cause::Recovery)).collect();
        // Of a page of metadata the one that was programmed last is in use.
        let newest = |kind: Kind, address: u32| {
            let same = pages.iter().flatten().flatten().filter(|oob| oob.kind == kind && oob.address == address);
            same.map(|oob| oob.program).max()
        };
        let cell = |ppn: usize| {
            let Ok(Some(oob)) = pages[ppn] else { return "·".to_owned() };
            let (text, in_use) = match oob.kind {
                Kind::Data => (oob.address.to_string(), live.as_ref().map(|live| live.contains(&Ppn(ppn as u32)))),
                Kind::Log => (format!("L{}", oob.address), live.as_ref().map(|live| live.contains(&Ppn(ppn as u32)))),
                Kind::Translation => {
                    (format!("T{}", oob.address), Some(newest(oob.kind, oob.address) == Some(oob.program)))
                }
                Kind::Trim => ("D".to_owned(), None),
                Kind::Checkpoint => ("C".to_owned(), None),
                Kind::Dummy => ("-".to_owned(), None),
                Kind::Bad => ("bad".to_owned(), None),
                Kind::Torn => ("torn".to_owned(), None),
            };
            if in_use == Some(false) { format!("({text})") } else { text }
        };
        let size = g.pages_per_block as usize;
        let blocks: Vec<Vec<String>> =
            (0..g.block_count() as usize).map(|block| (block * size..(block + 1) * size).map(cell).collect()).collect();
        let width = blocks.iter().flatten().map(|cell| cell.chars().count()).max().unwrap_or(1) + 2;
        let mut blank = 0;
        for (block, cells) in blocks.iter().enumerate() {
            if cells.iter().all(|cell| cell == "·") {
                blank += 1;
                continue;
            }
            let row: String = cells.iter().map(|cell| format!("{cell:>width$}")).collect();
            self.say(format!("  block {block:>3} {row}"));
        }
        let what = if live.is_some() { "in brackets: dead" } else { "power is off: nobody knows what is dead" };
        let are = if blank == 1 { " is" } else { "s are" };
        self.say(format!("  {blank} block{are} blank; ·: a blank page; {what}"));
    }
}

/// Commands in words. Looks at spare areas in a row are one line.
fn plain(commands: &[String]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut looks = 0;
    let end = |looks: &mut u32, lines: &mut Vec<String>| {
        if *looks > 0 {
            let pages = if *looks == 1 { "1 page".to_owned() } else { format!("{looks} pages") };
            lines.push(format!("  read     the spare areas of {pages}"));
        }
        *looks = 0;
    };
    for command in commands {
        let words: Vec<&str> = command.split(' ').collect();
        let (kind, at, cause) = (words[0], words.get(1).copied().unwrap_or(""), words.last().copied().unwrap_or(""));
        if kind == "O" {
            looks += 1;
            continue;
        }
        end(&mut looks, &mut lines);
        let place = match at.split_once('.') {
            Some((block, page)) => format!("block {block} page {page}"),
            None => format!("block {at}"),
        };
        let (verb, what) = match (kind, words.get(2), words.get(3)) {
            ("R", ..) => ("read", String::new()),
            ("E", ..) => ("erase", String::new()),
            ("P", ..) => ("append", words[2..words.len() - 1].join(" ")),
            (_, Some(&"data"), Some(lpn)) => ("program", format!("LPN {lpn}")),
            (_, Some(&"log"), Some(lpn)) => ("program", format!("LPN {lpn} (log)")),
            (_, Some(&"translation"), Some(tvpn)) => ("program", format!("translation page {tvpn}")),
            (_, kind, _) => ("program", kind.copied().unwrap_or("").to_owned()),
        };
        lines.push(format!("  {verb:<8} {place:<16} {what:<20} {cause}"));
    }
    end(&mut looks, &mut lines);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(scheme: &str, settings: &[(&str, &str)]) -> StepConfig {
        StepConfig {
            scheme: scheme.into(),
            settings: settings.iter().map(|&(name, text)| (name.into(), text.into())).collect(),
            geometry: Geometry { blocks_per_die: 6, pages_per_block: 4, page_bytes: 512, ..Geometry::default() },
            logical_pages: None,
        }
    }

    fn steps(words: &str) -> Vec<Step> {
        words.split(' ').flat_map(|word| parse(word).unwrap()).collect()
    }

    fn four_blocks() -> StepConfig {
        let config = config("simple", &[("gc-low", "1")]);
        StepConfig { geometry: Geometry { blocks_per_die: 4, ..config.geometry }, ..config }
    }

    #[test]
    fn a_cut_leaves_both_copies_and_a_mount_decides() {
        let words = "write:0-3,0,1,4,5,4,5,6,7 cut:1.1 write:0 show mount show read:0";
        let lines = tell(&four_blocks(), &steps(words), 9).unwrap();
        let expected = [
            "simple on 1 die of 4 blocks of 4 pages; LPN 0 to 7",
            "",
            "write LPN 0",
            "  read     block 0 page 2                        data_gc",
            "  program  block 3 page 0   LPN 2                data_gc",
            "  read     block 0 page 3                        data_gc",
            "  power fails in the program, which leaves: page garbage",
            "",
            "blocks",
            "  block   0      0     1     2     3",
            "  block   1      0     1     4     5",
            "  block   2      4     5     6     7",
            "  block   3      2  torn     ·     ·",
            "  0 blocks are blank; ·: a blank page; power is off: nobody knows what is dead",
            "",
            "mount",
        ];
        assert_eq!(lines[..expected.len()], expected);
        let end = [
            "blocks",
            "  block   0    (0)   (1)     2     3",
            "  block   1      0     1   (4)   (5)",
            "  block   2      4     5     6     7",
            "  block   3    (2)  torn     ·     ·",
            "  0 blocks are blank; ·: a blank page; in brackets: dead",
            "",
            "read LPN 0",
            "  read     block 1 page 0                        host",
            "  LPN 0 holds what write 2 of this page wrote",
        ];
        assert_eq!(lines[lines.len() - end.len()..], end);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let refused = |scheme, words| tell(&config(scheme, &[]), &steps(words), 0).unwrap_err().0;
        assert_eq!(refused("null", "show"), "scheme null keeps no data: there is nothing to see");
        assert_eq!(refused("page", "write:99"), "write LPN 99: the last logical page is 7");
        let words = "cut:0.1 write:0 read:0";
        assert_eq!(refused("page", words), "read LPN 0: power has failed; mount comes first");
        assert_eq!(refused("page", "cut:0 read:0"), "cut:0: read LPN 0 does not change the flash");
        let words = "cut:0.4 write:0";
        assert_eq!(refused("page", words), "cut:0.4: the faces of this program are 0 to 3");
        assert_eq!(refused("page", "cut:1.2 cut:0 write:0"), "cut:1.2: another cut comes before any step");
        assert_eq!(refused("page", "cut:0.4 show write:0"), "cut:0.4: the faces of this program are 0 to 3");
        assert_eq!(refused("page", "write:0 cut:0"), "cut:0.0: no step follows in which power could fail");
        let words = "cut:5 write:0";
        assert_eq!(refused("page", words), "cut:5: the last command of write LPN 0 that changes the flash is 0");
        for word in ["", "write", "write:", "write:3-1", "write:x", "cut:1.x", "flush:1", "idle:-1", "mount:2"] {
            let error = parse(word).unwrap_err().0;
            assert!(error.contains("not a step; there are write:PAGES"), "{error}");
        }
    }

    #[test]
    fn every_scheme_can_be_watched() {
        for row in ftl::schemes::SCHEMES.iter().filter(|row| row.keeps_data) {
            let geometry =
                Geometry { blocks_per_die: 40, pages_per_block: 4, page_bytes: 512, nop: 8, ..<_>::default() };
            let config = StepConfig { geometry, logical_pages: Some(24), ..config(row.name, &[]) };
            let lines = tell(&config, &steps("write:0-23 write:5,5,5 flush mount read:5 show"), 0);
            let lines = lines.unwrap_or_else(|error| panic!("{}: {error}", row.name));
            assert!(lines.contains(&"  LPN 5 holds what write 4 of this page wrote".to_owned()), "{lines:#?}");
        }
    }
}

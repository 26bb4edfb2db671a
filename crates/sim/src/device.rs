//! Devices as users write them: `NAME[:key=value,...]` on the command line, or a TOML file.
//!
//! Both forms name a preset of [`flash::device::PRESETS`] and change some of its values; a TOML file may instead leave
//! `base` out and give every value itself. The keys are those of [`keys`] in both. Text is judged here
//! (is this a key, is this a number); ranges are judged by [`DeviceSpec::build`], where all values are known.

use crate::ageing::{self, Ageing};
use crate::units::{self, UnitError};
use flash::device::{
    self, CellKind, Device, DeviceError, Key, MultiPlane, Overrides, PRESETS, Preset, Server, Sharing,
};
use flash::{Pairing, ProgramOrder};
use std::collections::BTreeMap;
use std::fmt;
use toml::{Spanned, Value};

/// A device as the user asked for it: a preset, unless the user gave every value, and the changes to it.
#[derive(Clone, Debug)]
pub struct DeviceSpec {
    /// What reports call it: the preset's name, or the file's.
    pub name: String,
    /// The preset that it starts from.
    pub base: Option<&'static Preset>,
    /// The values that the user gave.
    pub overrides: Overrides,
    /// Whose times reads take, and at which age.
    pub ageing: Ageing,
}

/// Every key by which a device can be changed: those of its numbers, and those of its age.
pub fn keys() -> impl Iterator<Item = &'static Key> + Clone {
    device::KEYS.iter().chain(&ageing::KEYS)
}

/// Why a device string or file was refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SpecError {
    /// `FILE:LINE` for a file; nothing for a device string.
    pub place: Option<String>,
    /// What is wrong, naming the device or the key and its value.
    pub what: String,
    /// What to write instead.
    pub fix: String,
}

impl SpecError {
    fn new(what: String, fix: impl Into<String>) -> Self {
        SpecError { place: None, what, fix: fix.into() }
    }
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.place {
            write!(f, "{place}: ")?;
        }
        write!(f, "{}; {}", self.what, self.fix)
    }
}

impl std::error::Error for SpecError {}

/// `did you mean X? ` if a name comes near, then all of them.
fn suggest<'a>(wrong: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    const NEAR: f64 = 0.5;
    let lower = wrong.to_lowercase();
    let nearest = known
        .clone()
        .map(|name| (strsim::normalized_damerau_levenshtein(&lower, name), name))
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .filter(|&(likeness, _)| likeness >= NEAR)
        .map(|(_, name)| format!("did you mean {name}? "))
        .unwrap_or_default();
    format!("{nearest}known are {}", known.collect::<Vec<_>>().join(", "))
}

fn preset(name: &str) -> Result<&'static Preset, SpecError> {
    let known = PRESETS.iter().flat_map(|p| std::iter::once(p.name).chain(p.aliases.iter().copied()));
    device::by_name(name).ok_or_else(|| {
        let file = if name.contains('/') { "the name of a device file ends in .toml; " } else { "" };
        SpecError::new(format!("there is no device {name:?}"), format!("{file}{}", suggest(name, known)))
    })
}

/// One of a few words.
fn word<T: Copy>(text: &str, choices: &[(&str, T)]) -> Result<T, String> {
    choices.iter().find(|(word, _)| *word == text).map(|&(_, choice)| choice).ok_or_else(|| {
        let words: Vec<_> = choices.iter().map(|(word, _)| *word).collect();
        format!("give {}", words.join(" or "))
    })
}

fn set(spec: &mut DeviceSpec, key: &str, text: &str) -> Result<(), SpecError> {
    let o = &mut spec.overrides;
    let give = |error: UnitError| format!("give {}", error.accepted);
    let bytes = |text: &str| units::parse_bytes(text).map_err(give);
    let share = |text: &str| units::parse_share(text).map_err(give);
    let real = |text: &str| units::parse_number(text).map_err(give);
    let count = |text: &str| text.parse::<u32>().map_err(|_| "give a whole number".to_string());
    let u32_bytes =
        |text: &str| bytes(text).and_then(|n| u32::try_from(n).map_err(|_| "give less than 4GiB".to_string()));
    let orders = [ProgramOrder::Any, ProgramOrder::Ascending, ProgramOrder::Strict].map(|order| (order.name(), order));
    let servers = [Server::Single, Server::Parallel].map(|server| (server.name(), server));
    let cells = CellKind::ALL.map(|cell| (cell.word(), cell));
    let planes = MultiPlane::ALL.map(|rule| (rule.name(), rule));
    let pairings = Pairing::ALL.map(|order| (order.name(), order));
    let switch = [("on", true), ("off", false)];
    let result = match key {
        "capacity" => bytes(text).map(|n| o.capacity = Some(n)),
        "spare" => share(text).map(|n| o.spare = Some(n)),
        "page" => u32_bytes(text).map(|n| o.page = Some(n)),
        "oob" => u32_bytes(text).map(|n| o.oob = Some(n)),
        "pages_per_block" => count(text).map(|n| o.pages_per_block = Some(n)),
        "channels" => count(text).map(|n| o.channels = Some(n)),
        "chips" => count(text).map(|n| o.chips = Some(n)),
        "dies" => count(text).map(|n| o.dies = Some(n)),
        "planes" => count(text).map(|n| o.planes = Some(n)),
        "read_us" => real(text).map(|n| o.read_us = Some(n)),
        "oob_read_us" => real(text).map(|n| o.oob_read_us = Some(n)),
        "program_us" => real(text).map(|n| o.program_us = Some(n)),
        "partial_program_us" => real(text).map(|n| o.partial_program_us = Some(n)),
        "erase_us" => real(text).map(|n| o.erase_us = Some(n)),
        "bus_mbps" => real(text).map(|n| o.bus_mbps = Some(n)),
        "order" => word(text, &orders).map(|n| o.order = Some(n)),
        "nop" => count(text).map(|n| o.nop = Some(n)),
        "cell" => word(text, &cells).map(|n| o.cell = Some(n)),
        "slc_nop" => count(text).map(|n| o.slc_nop = Some(n)),
        "slc_read_us" => real(text).map(|n| o.slc_read_us = Some(n)),
        "slc_program_us" => real(text).map(|n| o.slc_program_us = Some(n)),
        "slc_erase_us" => real(text).map(|n| o.slc_erase_us = Some(n)),
        "low_cost_read_us" => real(text).map(|n| o.low_cost_read_us = Some(n)),
        "low_cost_program_us" => real(text).map(|n| o.low_cost_program_us = Some(n)),
        "medium_read_us" => real(text).map(|n| o.medium_read_us = Some(n)),
        "medium_program_us" => real(text).map(|n| o.medium_program_us = Some(n)),
        "server" => word(text, &servers).map(|n| o.server = Some(n)),
        "endurance" => count(text).map(|n| o.endurance = Some(n)),
        "suspend_program_us" => real(text).map(|n| o.suspend_program_us = Some(n)),
        "suspend_erase_us" => real(text).map(|n| o.suspend_erase_us = Some(n)),
        "resume_us" => real(text).map(|n| o.resume_us = Some(n)),
        "suspends" => count(text).map(|n| o.suspends = Some(n)),
        "multi_plane" => word(text, &planes).map(|n| o.multi_plane = Some(n)),
        "copy_back" => word(text, &switch).map(|n| o.copy_back = Some(n)),
        "cache_read" => word(text, &switch).map(|n| o.cache_read = Some(n)),
        "cache_program" => word(text, &switch).map(|n| o.cache_program = Some(n)),
        "barriers" => word(text, &switch).map(|n| o.barriers = Some(n)),
        "paired" => word(text, &pairings).map(|n| o.paired = Some(n)),
        _ => match spec.ageing.set(key, text) {
            Ok(false) => {
                let known = keys().map(|k| k.name);
                return Err(SpecError::new(format!("a device has no key {key:?}"), suggest(key, known)));
            }
            set => set.map(drop),
        },
    };
    result.map_err(|fix| {
        let range = keys().find(|k| k.name == key).map_or("", |k| k.range);
        SpecError::new(format!("{key} = {text:?} is not understood"), format!("{fix} ({key}: {range})"))
    })
}

impl std::str::FromStr for DeviceSpec {
    type Err = SpecError;

    /// Reads `NAME[:key=value,...]`, such as `agrawal08:channels=4,spare=7%`.
    fn from_str(text: &str) -> Result<Self, SpecError> {
        let (name, changes) = match text.split_once(':') {
            Some((name, changes)) => (name.trim(), changes.split(',').collect()),
            None => (text.trim(), Vec::new()),
        };
        let base = preset(name)?;
        let mut spec = DeviceSpec {
            name: base.name.to_string(),
            base: Some(base),
            overrides: Overrides::default(),
            ageing: Ageing::default(),
        };
        let mut seen = Vec::new();
        for change in changes {
            let (key, value) = change.split_once('=').map(|(k, v)| (k.trim(), v.trim())).ok_or_else(|| {
                SpecError::new(format!("{change:?} after {name}: is no change"), "give key=value, such as spare=7%")
            })?;
            if seen.contains(&key) {
                return Err(SpecError::new(format!("{key} is given twice"), "give each key once"));
            }
            seen.push(key);
            set(&mut spec, key, value)?;
        }
        Ok(spec)
    }
}

impl DeviceSpec {
    /// Reads a device from the text of a TOML file. `file` is its name for messages; without directories and
    /// extension it also names the device.
    ///
    /// The file holds keys of [`keys`] as numbers or strings (`page = 4096`, `page = "4KiB"`), and `base`, the preset
    /// to start from. Without `base` it must give every value that `latencies` does not; see [`Overrides::missing`].
    ///
    /// # Errors
    /// Text that is not TOML, an unknown key or base, a value that cannot be read, a value missing without a base:
    /// each with the file and line.
    pub fn from_toml(file: &str, text: &str) -> Result<Self, SpecError> {
        let line_of = |offset: usize| 1 + text.bytes().take(offset).filter(|&b| b == b'\n').count();
        let at = |offset: usize, e: SpecError| SpecError { place: Some(format!("{file}:{}", line_of(offset))), ..e };
        let table: BTreeMap<Spanned<String>, Spanned<Value>> = toml::from_str(text).map_err(|e| {
            let start = e.span().map_or(0, |span| span.start);
            at(start, SpecError::new(e.message().trim().replace('\n', ", "), "see docs/devices.md for an example"))
        })?;
        let stem = file.rsplit(['/', '\\']).next().unwrap_or(file);
        let name = stem.strip_suffix(".toml").unwrap_or(stem).to_string();
        let mut spec = DeviceSpec { name, base: None, overrides: Overrides::default(), ageing: Ageing::default() };
        let mut lines: Vec<_> = table.iter().collect();
        lines.sort_by_key(|(key, _)| key.span().start);
        for (key, value) in lines {
            let text = match value.get_ref() {
                Value::String(text) => text.trim().to_string(),
                Value::Integer(number) => number.to_string(),
                Value::Float(number) => number.to_string(),
                other => {
                    let kind = other.type_str();
                    let what = format!("{} is {} {kind}", key.get_ref(), if kind == "array" { "an" } else { "a" });
                    return Err(at(key.span().start, SpecError::new(what, "give a number or a string")));
                }
            };
            let result = if key.get_ref() == "base" {
                preset(&text).map(|base| spec.base = Some(base))
            } else if key.get_ref() == "name" {
                Err(SpecError::new("a device has no key \"name\"".to_string(), "the file's name names the device"))
            } else {
                set(&mut spec, key.get_ref(), &text)
            };
            result.map_err(|e| at(key.span().start, e))?;
        }
        let mut missing = spec.overrides.missing();
        missing.retain(|key| !spec.ageing.gives(key));
        if spec.base.is_none() && !missing.is_empty() {
            let what = format!("without a base it must also give {}", missing.join(", "));
            return Err(at(0, SpecError::new(what, "give them, or start with base = \"agrawal08\"")));
        }
        Ok(spec)
    }

    /// The exported bytes that the user or the preset fixed. If none, the caller sizes the device.
    pub fn capacity(&self) -> Option<u64> {
        self.overrides.capacity.or(self.base.and_then(|b| b.capacity).map(|n| n.value as u64))
    }

    /// The device. `span` is the capacity in bytes for a device that fixes none, as by the addresses of a trace.
    ///
    /// # Errors
    /// A value out of its range or without effect, no capacity at all, or an age that its pages do not bear.
    pub fn build(&self, span: Option<u64>) -> Result<Device, DeviceError> {
        let asked = Overrides { capacity: self.capacity().or(span), ..self.overrides };
        self.ageing.build(&asked, |overrides| {
            let device = match self.base {
                Some(base) => base.build(overrides),
                None => overrides.build(&self.name),
            };
            Ok(Device { name: self.name.clone(), ..device? })
        })
    }
}

/// A line of `ftlab devices NAME`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    /// What the value is.
    pub label: &'static str,
    /// The value, without trailing zeros.
    pub value: String,
    /// Its unit; empty for words and counts.
    pub unit: &'static str,
    /// Where a number comes from; empty for words.
    pub origin: &'static str,
    /// How it was derived or why it was assumed; else a remark or nothing.
    pub why: &'static str,
}

/// Everything a preset says, a row per fact: words first, then every number with its origin, then the notes.
pub fn describe(preset: &Preset) -> Vec<Row> {
    let words = |label, value: &str| Row { label, value: value.to_string(), unit: "", origin: "", why: "" };
    let mut rows = vec![words("name", preset.name)];
    if !preset.aliases.is_empty() {
        rows.push(words("also", &preset.aliases.join(", ")));
    }
    rows.push(words("summary", preset.summary));
    rows.push(words("source", preset.source));
    rows.push(words("cell", preset.cell.name()));
    let Sharing { order, origin, why } = preset.paired;
    if preset.cell != CellKind::Slc {
        rows.push(Row { origin: origin.name(), why, ..words("pages that share cells", order.name()) });
    }
    rows.push(words("program order", preset.order.name()));
    rows.push(words("server", preset.server.name()));
    if preset.multi_plane != MultiPlane::Off {
        rows.push(words("multi-plane", preset.multi_plane.name()));
    }
    rows.extend(preset.numbers().into_iter().map(|(label, n, unit)| {
        // Four decimals are more than any source states; the print of a rounded value drops trailing zeros.
        let value = ((n.value * 1e4).round() / 1e4).to_string();
        Row { label, value, unit, origin: n.origin.name(), why: n.why }
    }));
    if !preset.notes.is_empty() {
        rows.push(words("notes", preset.notes));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY_KEY: &str = "capacity=1GiB,spare=7%,page=8KiB,oob=744,pages_per_block=128,channels=2,chips=3,\
                             dies=4,planes=2,read_us=50.5,oob_read_us=26,program_us=600,partial_program_us=500,\
                             erase_us=3000,bus_mbps=166,order=ascending,nop=2,cell=mlc,slc_nop=3,slc_read_us=20,\
                             slc_program_us=300,slc_erase_us=2500,server=single,endurance=5000,\
                             suspend_program_us=20,suspend_erase_us=50,resume_us=2,suspends=3,\
                             multi_plane=aligned,copy_back=on,cache_read=on,cache_program=on,barriers=on,\
                             low_cost_read_us=140,low_cost_program_us=650,medium_read_us=107.5,\
                             medium_program_us=866.7,paired=adjacent,latencies=derived,pe_cycles=2k,retention=30d";

    fn refusal(text: &str) -> String {
        text.parse::<DeviceSpec>().unwrap_err().to_string()
    }

    fn toml_refusal(text: &str) -> String {
        DeviceSpec::from_toml("dir/my.toml", text).unwrap_err().to_string()
    }

    #[test]
    fn a_bare_name_is_the_preset() {
        let spec: DeviceSpec = "agrawal08".parse().unwrap();
        assert_eq!((spec.capacity(), spec.overrides), (None, Overrides::default()));
        assert_eq!(spec.build(Some(1 << 30)).unwrap().logical_pages, 1 << 18);
        assert_eq!(spec.build(None).unwrap_err().key, "capacity");
        let alias: DeviceSpec = "slc-k9wag08".parse().unwrap();
        assert_eq!(alias.name, "agrawal08");
    }

    #[test]
    fn capacity_comes_from_the_user_then_the_preset_then_the_caller() {
        let pages = |text: &str| text.parse::<DeviceSpec>().unwrap().build(Some(1 << 30)).unwrap().logical_pages;
        assert_eq!(pages("lsftl-paper:capacity=2GiB"), 1 << 19);
        assert_eq!(pages("lsftl-paper"), 1 << 20);
        assert_eq!(pages("ecc-paper"), 1 << 17);
    }

    #[test]
    fn every_key_is_read() {
        let spec: DeviceSpec = format!("agrawal08:{EVERY_KEY}").parse().unwrap();
        let o = spec.overrides;
        assert_eq!((o.capacity, o.spare, o.page, o.oob), (Some(1 << 30), Some(0.07), Some(8192), Some(744)));
        assert_eq!(
            (o.pages_per_block, o.channels, o.chips, o.dies, o.planes),
            (Some(128), Some(2), Some(3), Some(4), Some(2))
        );
        assert_eq!((o.read_us, o.oob_read_us, o.program_us), (Some(50.5), Some(26.0), Some(600.0)));
        assert_eq!(o.partial_program_us, Some(500.0));
        assert_eq!((o.erase_us, o.bus_mbps, o.nop, o.endurance), (Some(3000.0), Some(166.0), Some(2), Some(5000)));
        assert_eq!((o.cell, o.slc_nop), (Some(CellKind::Mlc), Some(3)));
        assert_eq!((o.low_cost_read_us, o.low_cost_program_us), (Some(140.0), Some(650.0)));
        assert_eq!((o.medium_read_us, o.medium_program_us), (Some(107.5), Some(866.7)));
        let mut ageing = Ageing::default();
        for (key, text) in [("latencies", "derived"), ("pe_cycles", "2000"), ("retention", "720h")] {
            assert_eq!(ageing.set(key, text), Ok(true));
        }
        assert_eq!(spec.ageing, ageing);
        assert_eq!((o.slc_read_us, o.slc_program_us, o.slc_erase_us), (Some(20.0), Some(300.0), Some(2500.0)));
        assert_eq!((o.order, o.server), (Some(ProgramOrder::Ascending), Some(Server::Single)));
        assert_eq!((o.suspend_program_us, o.suspend_erase_us, o.resume_us), (Some(20.0), Some(50.0), Some(2.0)));
        assert_eq!((o.suspends, o.multi_plane), (Some(3), Some(MultiPlane::Aligned)));
        assert_eq!(o.paired, Some(Pairing::Adjacent));
        assert_eq!([o.copy_back, o.cache_read, o.cache_program, o.barriers], [Some(true); 4]);
        for key in keys() {
            assert!(EVERY_KEY.contains(&format!("{}=", key.name)), "{} is not covered here", key.name);
            let message = refusal(&format!("agrawal08:{}=nonsense", key.name));
            assert!(message.starts_with(&format!("{} = \"nonsense\" is not understood; give ", key.name)), "{message}");
            assert!(message.contains(key.range), "{message}");
        }
    }

    #[test]
    fn wrong_strings_name_the_culprit_and_the_fix() {
        let unknown = refusal("agrawal8");
        assert!(
            unknown.starts_with("there is no device \"agrawal8\"; did you mean agrawal08? known are agrawal08, slc-")
        );
        assert!(refusal("AGRAWAL08").contains("did you mean agrawal08? "));
        assert!(refusal("zzz").starts_with("there is no device \"zzz\"; known are "));
        assert!(refusal("./zzz").contains("; the name of a device file ends in .toml; known are "));
        assert!(refusal("").starts_with("there is no device \"\""));
        let key = refusal("agrawal08:chanels=3");
        assert!(key.starts_with("a device has no key \"chanels\"; did you mean channels? known are capacity, spare, "));
        assert!(refusal("agrawal08:").contains("give key=value"));
        assert!(refusal("agrawal08:spare").contains("\"spare\" after agrawal08: is no change; give key=value"));
        assert_eq!(refusal("agrawal08:dies=2,dies=3"), "dies is given twice; give each key once");
        assert!(refusal("agrawal08:order=random").contains("give any or ascending or strict"));
        assert!(refusal("agrawal08:page=8GiB").contains("give less than 4GiB"));
        let range = "agrawal08:spare=0.95".parse::<DeviceSpec>().unwrap().build(Some(1 << 30)).unwrap_err();
        assert_eq!(range.to_string(), "spare = 0.95 is out of range; give 0.01 to 0.9 (1% to 90%)");
    }

    #[test]
    fn a_file_starts_from_a_base() {
        let text = "base = 'thesis-80g'\ncapacity = \"8GiB\"\nread_us = 90\nspare = 0.125\nplanes = '2'\n";
        let spec = DeviceSpec::from_toml("dir/my.toml", text).unwrap();
        let device = spec.build(None).unwrap();
        assert_eq!((device.name.as_str(), device.timing.read_ns, device.spare), ("my", 90_000, 0.125));
        assert_eq!((device.logical_pages, device.geometry.planes), (8 << 19, 2));
        assert_eq!(device.server, flash::device::Server::Single);
    }

    #[test]
    fn a_file_without_a_base_gives_everything() {
        // `latencies` gives the times of these itself.
        let given = |key: &str| key.starts_with("low_cost_") || key.starts_with("medium_");
        let lines = EVERY_KEY.split(',').map(|pair| {
            let (key, value) = pair.split_once('=').unwrap();
            if given(key) { String::new() } else { format!("{key} = '{value}'\n") }
        });
        let whole: String = lines.collect();
        let spec = DeviceSpec::from_toml("C:\\devices\\own.toml", &whole).unwrap();
        assert!(spec.base.is_none());
        let device = spec.build(None).unwrap();
        assert_eq!((device.name.as_str(), device.timing.oob_read_ns), ("own", 26_000));
        // 50.5 µs and what the code takes.
        assert!((50_500..52_500).contains(&device.timing.read_ns), "{:?}", device.timing);
        assert_eq!((device.geometry.die_count(), device.endurance), (24, Some(5000)));
        let paper: String = whole.replace("derived", "paper");
        let refused = DeviceSpec::from_toml("own.toml", &paper).unwrap().build(None).unwrap_err();
        assert!(refused.to_string().starts_with("read_us = 50.5 has no effect beside latencies=paper"), "{refused}");
        let own = |line: &&str| line.starts_with("read_us") || line.starts_with("program_us");
        let paper: String = paper.split_inclusive('\n').filter(|line| !own(line)).collect();
        let paper = paper.replace("oob_read_us = '26'", "oob_read_us = '20'");
        let device = DeviceSpec::from_toml("own.toml", &paper).unwrap().build(None).unwrap();
        // A page of 8 KiB with 744 bytes takes 53.8 µs on the channel, and the paper's read has it.
        assert_eq!((device.timing.read_ns, device.timing.program_ns), (75_000 - 53_831, 1_300_000));
        let partly = toml_refusal("read_us = 1\npage = 4096\n");
        assert!(
            partly.starts_with("dir/my.toml:1: without a base it must also give spare, oob, pages_per_block"),
            "{partly}"
        );
        assert!(partly.ends_with("start with base = \"agrawal08\""), "{partly}");
    }

    #[test]
    fn wrong_files_name_the_line() {
        for (text, start) in [
            (
                "base = 'agrawal08'\n\nreed_us = 3\n",
                "dir/my.toml:3: a device has no key \"reed_us\"; did you mean read_us? ",
            ),
            ("base = 'agrawal'\n", "dir/my.toml:1: there is no device \"agrawal\"; did you mean agrawal08? "),
            (
                "base = 'agrawal08'\npage = '4kb'\n",
                "dir/my.toml:2: page = \"4kb\" is not understood; give a size such as 512, 4KiB",
            ),
            ("base = 'agrawal08'\nnop = true\n", "dir/my.toml:2: nop is a boolean; give a number or a string"),
            ("zzz = 1\naaa = 2\n", "dir/my.toml:1: a device has no key \"zzz\""),
            ("# x\n[device]\npage = 4096\n", "dir/my.toml:2: device is a table; "),
            ("base = 'agrawal08'\nname = 'x'\n", "dir/my.toml:2: a device has no key \"name\"; the file's name"),
            ("base = 'agrawal08'\nbase = 'ecc-paper'\n", "dir/my.toml:2: duplicate key"),
            ("base = \n", "dir/my.toml:1: "),
            ("base = 'agrawal08'\npage = -1\n", "dir/my.toml:2: page = \"-1\""),
            ("base = 'agrawal08'\nread_us = nan\n", "dir/my.toml:2: read_us = \"NaN\""),
        ] {
            let message = toml_refusal(text);
            assert!(message.starts_with(start), "{message}");
            assert!(!message.contains('\n'), "{message}");
        }
    }

    #[test]
    fn describe_says_where_each_number_comes_from() {
        for preset in PRESETS {
            let rows = describe(preset);
            let shares = usize::from(preset.cell != CellKind::Slc);
            assert_eq!(rows.iter().filter(|row| !row.origin.is_empty()).count(), preset.numbers().len() + shares);
            assert!(rows.iter().all(|row| !row.value.is_empty()), "{}", preset.name);
        }
        let rows = describe(device::by_name("mlc-l95b").unwrap());
        let find = |label| rows.iter().find(|row| row.label == label).unwrap();
        let read = find("read");
        assert_eq!(
            (read.value.as_str(), read.unit, read.origin, read.why),
            ("56", "µs", "derived", "mean of the page types")
        );
        assert_eq!(
            (find("read, 2nd page type").value.as_str(), find("read, 2nd page type").origin),
            ("64", "measured")
        );
        assert_eq!(find("cell").value, "MLC");
    }

    /// The examples of the docs page are read from it and built.
    #[test]
    fn the_documented_devices_work() {
        let page = include_str!("../../../docs/devices.md");
        let blocks: Vec<_> = page.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
        assert_eq!(blocks.len(), 2);
        let drive = DeviceSpec::from_toml("my-drive.toml", blocks[0]).unwrap().build(None).unwrap();
        assert_eq!((drive.geometry.die_count(), drive.geometry.page_bytes), (8, 8192));
        assert_eq!((drive.logical_pages, drive.timing.page_transfer_ns), (1 << 21, 25_946));
        let own = DeviceSpec::from_toml("own.toml", blocks[1]).unwrap();
        assert!(own.base.is_none() && own.build(Some(1 << 30)).is_ok());
        let strings: Vec<_> = page.lines().filter_map(|line| line.split_once("--device ")).collect();
        assert!(!strings.is_empty());
        for (_, rest) in strings {
            let text = rest.split_whitespace().next().unwrap();
            if !text.ends_with(".toml") {
                text.parse::<DeviceSpec>().unwrap().build(Some(1 << 30)).unwrap();
            }
        }
        for key in keys() {
            assert!(page.contains(&format!("| `{}` |", key.name)), "{} is not documented", key.name);
        }
        for origin in device::Origin::ALL {
            assert!(page.contains(&format!("| `{}` |", origin.name())), "{} is not explained", origin.name());
        }
    }
}

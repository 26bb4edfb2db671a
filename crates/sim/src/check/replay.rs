//! A case of a check as text: where it is, and what of it is left out.

use super::{CheckError, FaultClass, Part};
use flash::CutPoint;
use std::fmt;
use std::str::FromStr;

/// One case of a check. As text `SEED:CUT`, for example `7:123.2.1/4.0`: seed 7, operation 123, its changing command 2
/// in face 1, then changing command 4 of the recovery in face 0, perhaps with one more cut behind it (`/4.0/2.3`), or
/// `/storm`, many more in a row; `7:123` is operation 123 without a cut, `7:media.123` operation 123 on a failing
/// medium, `7:media.123.2` the same in run 2, `7:fewest.123.2` operation 123 on device 2 of those without a block to
/// spare, and `7:flight.123.2.1` a cut before changing command 2 while others are under way, of which a lot decides
/// that is drawn for the second time. Commands, operations, runs and faces count from 0; the faces of a program and of
/// an erase are in docs/fault-model.md.
///
/// A case that was made short ends with what is kept of it (`+FILL+BEFORE+AFTER`, see [`Kept`]). With operations
/// commands go, too: a cut that comes at another command now says so (`2.1@0`: the case of 2.1, cut at command 0).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Replay {
    /// The seed.
    pub seed: u64,
    /// The part of the check.
    pub part: Part,
    /// The operation.
    pub operation: u32,
    /// The run, on failing media; `None`: the first that fails there. Of devices without a block to spare, which.
    pub run: Option<u64>,
    /// Where power is cut in it.
    pub first: Option<CutPoint>,
    /// Where power is cut once more, counted from the mount.
    pub second: Option<CutPoint>,
    /// Where it is cut a third time, counted from the mount after the second cut.
    pub third: Option<CutPoint>,
    /// Whether many cuts follow, each soon after the mount from the one before.
    pub storm: bool,
    /// The commands at which these three cuts come instead. What is random goes by the ones above all the same.
    pub moved: [Option<u64>; 3],
    /// What of the case is done; `None`: all of it.
    pub kept: Option<Kept>,
}

/// What is kept of a case that was made short.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Kept {
    /// Requests of the fill.
    pub fill: Picked,
    /// Operations before the one that is cut; on failing media, all of them.
    pub before: Picked,
    /// Operations after the cut: those in which a second one may come, if there is one, and those that follow.
    pub after: Picked,
}

/// Numbers, ascending. As text `0-3,9`, or `none`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Picked(Vec<u32>);

impl Picked {
    /// Numbers of a text, to be kept in mind one by one.
    const MOST: u32 = 1 << 20;

    /// These.
    pub fn new(mut numbers: Vec<u32>) -> Picked {
        numbers.sort_unstable();
        numbers.dedup();
        Picked(numbers)
    }

    /// Whether a number is among them.
    pub fn has(&self, number: u32) -> bool {
        self.0.binary_search(&number).is_ok()
    }

    /// All of them.
    pub fn numbers(&self) -> &[u32] {
        &self.0
    }
}

impl fmt::Display for Picked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("none");
        }
        let runs = self.0.chunk_by(|a, b| a + 1 == *b);
        for (at, run) in runs.enumerate() {
            let comma = if at > 0 { "," } else { "" };
            match run {
                [one] => write!(f, "{comma}{one}")?,
                [first, .., last] => write!(f, "{comma}{first}-{last}")?,
                [] => {}
            }
        }
        Ok(())
    }
}

impl FromStr for Picked {
    type Err = ();

    fn from_str(text: &str) -> Result<Picked, ()> {
        let mut numbers = Vec::new();
        for run in text.split(',').filter(|_| text != "none") {
            let (first, last) = run.split_once('-').unwrap_or((run, run));
            let (first, last) = (first.parse::<u32>().map_err(drop)?, last.parse::<u32>().map_err(drop)?);
            let next = numbers.last().map_or(0, |last| last + 1);
            if first < next || last < first || last >= Self::MOST {
                return Err(());
            }
            numbers.extend(first..=last);
        }
        Ok(Picked(numbers))
    }
}

impl Replay {
    /// An operation without a cut.
    pub const fn of(seed: u64, part: Part, operation: u32) -> Replay {
        let (first, second, third) = (None, None, None);
        Replay { seed, part, operation, run: None, first, second, third, storm: false, moved: [None; 3], kept: None }
    }

    /// The class of faults that it is a case of, if of one: RAM and metadata are of none.
    pub const fn class(&self) -> Option<FaultClass> {
        let is_nested = self.second.is_some() || self.storm;
        match self.part {
            part if part.is_unstable() && is_nested => Some(FaultClass::UnstableNested),
            Part::Cuts if is_nested => Some(FaultClass::Nested),
            part => part.class(),
        }
    }

    /// The cuts, each with the command at which it comes instead.
    pub(super) fn points(&self) -> [(Option<CutPoint>, Option<u64>); 3] {
        let [first, second, third] = self.moved;
        [(self.first, first), (self.second, second), (self.third, third)]
    }
}

impl fmt::Display for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = Part::NAMED.iter().find(|(part, _)| *part == self.part).map_or("", |(_, name)| name);
        write!(f, "{}:{part}{}", self.seed, self.operation)?;
        if let Some(run) = self.run {
            write!(f, ".{run}")?;
        }
        for (at, (point, moved)) in self.points().into_iter().enumerate() {
            let Some(CutPoint { command, face }) = point else { continue };
            write!(f, "{}{command}.{face}", if at == 0 { '.' } else { '/' })?;
            if let Some(moved) = moved {
                write!(f, "@{moved}")?;
            }
        }
        f.write_str(if self.storm { "/storm" } else { "" })?;
        match &self.kept {
            Some(Kept { fill, before, after }) => write!(f, "+{fill}+{before}+{after}"),
            None => Ok(()),
        }
    }
}

/// A cut, and where it comes instead.
fn point(text: &str) -> Option<(CutPoint, Option<u64>)> {
    let (text, moved) = text.split_once('@').map_or((text, None), |(text, moved)| (text, Some(moved)));
    let (command, face) = text.split_once('.')?;
    let point = CutPoint { command: command.parse().ok()?, face: face.parse().ok()? };
    Some((point, moved.map(str::parse).transpose().ok()?))
}

fn read(text: &str) -> Option<Replay> {
    let (seed, mut rest) = text.split_once(':')?;
    let mut replay = Replay::of(seed.parse().ok()?, Part::Cuts, 0);
    for (part, name) in Part::NAMED {
        if let Some(operation) = rest.strip_prefix(name) {
            (replay.part, rest) = (part, operation);
        }
    }
    if let Some((case, kept)) = rest.split_once('+') {
        let mut sets = kept.split('+').map(str::parse);
        let mut next = || sets.next()?.ok();
        replay.kept = Some(Kept { fill: next()?, before: next()?, after: next()? });
        if sets.next().is_some() || matches!(replay.part, Part::Ram | Part::Flips | Part::Fewest) {
            return None;
        }
        rest = case;
    }
    let mut words = rest.split('/');
    let first = words.next()?;
    let (operation, cut) = first.split_once('.').map_or((first, None), |(at, cut)| (at, Some(cut)));
    replay.operation = operation.parse().ok()?;
    match cut {
        Some(run) if replay.part.has_runs() => replay.run = Some(run.parse().ok()?),
        Some(cut) if replay.part.has_cuts() => {
            let (cut, moved) = point(cut)?;
            (replay.first, replay.moved[0]) = (Some(cut), moved);
        }
        Some(_) => return None,
        None => {}
    }
    for (at, word) in words.enumerate() {
        replay.first?;
        match at {
            0 if word == "storm" => replay.storm = true,
            _ if replay.storm => return None,
            0 | 1 => {
                let (cut, moved) = point(word)?;
                let which = if at == 0 { &mut replay.second } else { &mut replay.third };
                *which = Some(cut);
                replay.moved[at + 1] = moved;
            }
            _ => return None,
        }
    }
    Some(replay)
}

impl FromStr for Replay {
    type Err = CheckError;

    fn from_str(text: &str) -> Result<Replay, CheckError> {
        read(text).ok_or_else(|| {
            let named = |has: fn(Part) -> bool| {
                let names =
                    Part::NAMED.iter().filter(|(part, _)| has(*part)).map(|(_, name)| name.trim_end_matches('.'));
                names.collect::<Vec<_>>().join(", ")
            };
            CheckError(format!(
                "replay {text}: must be SEED:OPERATION or SEED:OPERATION.COMMAND.FACE, the latter perhaps with \
                 /COMMAND.FACE once or twice, or /storm; SEED:PART.OPERATION.COMMAND.FACE where PART is one of {}; \
                 SEED:PART.OPERATION or SEED:PART.OPERATION.RUN where it is one of {}; SEED:PART.OPERATION where it \
                 is one of {} (docs/fault-model.md); a case that was made short ends with +FILL+BEFORE+AFTER",
                named(Part::has_cuts),
                named(Part::has_runs),
                named(|part| !part.has_cuts() && !part.has_runs()),
            ))
        })
    }
}

//! Operations, and power cuts at their commands.

use super::bed::{Action, Bed, Operation};
use super::content::Medium;
use super::replay::{Kept, Replay};
use super::session::{Session, Stop};
use super::{
    Bench, CheckConfig, CheckError, CheckReport, Checked, Chip, Cuts, FAILURES_PER_SEED, FaultClass, Part, Told, bench,
    guarded, sound,
};
use crate::oracle::Tag;
use flash::{
    Cause, CutPoint, CutReport, EraseFace, Flash, Geometry, Guard, Lpn, Noted, Op, Pairing, Payload, ProgramFace, Rng,
};
use ftl::Value;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

mod nested;

/// Operations that are told before the one of a case.
pub(super) const LAST: u32 = 5;
/// Operations between two audits of the run itself.
const AUDIT_EVERY: usize = 16;
/// Operations after a mount in which a second cut may come, beside the mount itself.
const SECOND_WINDOW: usize = 6;
/// Requests that the host has out at once, where several commands are under way.
const DEPTHS: [usize; 3] = [1, 8, 32];
/// Cuts of a kind of its own, by the class of faults.
pub(super) const PARTS: [(FaultClass, Part); 7] = [
    (FaultClass::Flight, Part::Flight),
    (FaultClass::Unordered, Part::Unordered),
    (FaultClass::Stages, Part::Stages),
    (FaultClass::Paired, Part::Paired),
    (FaultClass::Unstable, Part::Unstable),
    (FaultClass::UnstableFlight, Part::UnstableFlight),
    (FaultClass::UnstablePaired, Part::UnstablePaired),
];
/// One cut of these for so many others.
const SHARE: u64 = 8;
/// Lots that are drawn at each command for what of those is carried out.
const LOTS: u8 = 4;
/// Programs and erases between two cuts that no scheme needs on devices this small.
const COMMAND_LIMIT: u64 = 100_000;

/// What happens, told if somebody listens.
pub(super) struct Story(pub(super) Option<Vec<String>>);

impl Story {
    pub(super) fn say(&mut self, line: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.0 {
            lines.push(line());
        }
    }

    pub(super) fn hear(&mut self, flash: &mut Bench) {
        let Some(lines) = &mut self.0 else { return };
        // A mount looks at every spare area: one line for all of them.
        let (mut commands, mut looks) = (flash.take_lines().into_iter().peekable(), 0);
        while let Some(command) = commands.next() {
            let look = command.what == Noted::ReadOob;
            looks += u32::from(look);
            if looks > 0 && !commands.peek().is_some_and(|next| look && next.what == Noted::ReadOob) {
                lines.push(format!("    O {looks} spare areas"));
                looks = 0;
            }
            if !look {
                lines.push(format!("    {command}"));
            }
        }
    }
}

/// What a cut command of this kind leaves behind.
pub(super) fn face_name(op: Op, face: u8) -> &'static str {
    let face = usize::from(face);
    match op {
        Op::Program => match ProgramFace::ALL[face] {
            ProgramFace::Blank => "page blank",
            ProgramFace::Garbage => "page garbage",
            ProgramFace::BadData => "page with bad data",
            ProgramFace::Good => "page whole",
        },
        Op::PartialProgram => ["append not begun", "append garbage", "append torn", "append whole"][face.min(3)],
        Op::Erase if face == 0 => "erase not begun",
        Op::Erase if face == 5 => "erase whole",
        Op::Erase => match EraseFace::ALL[face - 1] {
            EraseFace::Intact => "block intact",
            EraseFace::Mixed => "block mixed",
            EraseFace::Garbage => "block garbage",
            EraseFace::LooksBlank => "block looks blank",
        },
        Op::Read | Op::OobRead => "nothing",
    }
}

/// Everything that the flash holds of a page, newest version first.
fn on_flash(chip: &Chip, lpn: Lpn) -> Vec<String> {
    let mut chip = chip.clone();
    let g = *chip.geometry();
    let mut copies = Vec::new();
    for ppn in (0..g.page_count()).map(flash::Ppn) {
        let Ok(Some(oob)) = chip.read_oob(ppn, Cause::Recovery) else { continue };
        if oob.address != lpn.0 || !matches!(oob.kind, flash::Kind::Data | flash::Kind::Log) {
            continue;
        }
        let Ok((whole, data)) = chip.read(ppn, Cause::Recovery);
        let data = match data {
            Payload::User(data) if whole.kind == oob.kind => data.tag().map(|tag| Tag(Some(tag)).to_string()),
            _ => None,
        };
        let at = format!("{}.{}", g.block_of(ppn), g.offset_of(ppn));
        let data = data.unwrap_or_else(|| "bad data".into());
        copies.push((oob.version, format!("{at}: version {}, program {}, {data}", oob.version, oob.program)));
    }
    copies.sort_by(|a, b| b.cmp(a));
    copies.into_iter().map(|(_, line)| line).collect()
}

/// A part of a recovery in which a second cut may come.
enum Stage {
    Mount,
    ReadAll,
    Do(Operation),
}

/// A place to cut, and all that follows from it.
struct Case<'a> {
    bed: &'a Bed,
    part: Part,
    operation: u32,
    first: CutPoint,
    second: Option<CutPoint>,
    third: Option<CutPoint>,
    storm: bool,
    /// Where these three come instead, and what is left of a case that was made short.
    moved: [Option<u64>; 3],
    kept: Option<&'a Kept>,
    story: Story,
    /// The operation that was cut.
    cut_short: Option<Operation>,
    /// Commands that were not carried out, beside the one that was cut.
    in_doubt: usize,
    /// Pages of the host that may be lost with them.
    may_be_lost: usize,
}

impl Case<'_> {
    fn replay(&self) -> Replay {
        let Case { first, third, storm, moved, .. } = *self;
        let (first, second) = (Some(first), self.second.filter(|_| !storm));
        let plain = Replay::of(self.bed.seed, self.part, self.operation);
        Replay { first, second, third, storm, moved, kept: self.kept.cloned(), ..plain }
    }

    /// Randomness of what follows the cut: garbage, operations. The same for every second cut behind a first one.
    fn rng(&self, purpose: &str) -> Rng {
        let CutPoint { command, face } = self.first;
        let place = (u64::from(self.operation) << 32) ^ (command << 8) ^ u64::from(face);
        Rng::new(self.bed.seed ^ place.wrapping_mul(0x9e37_79b9_7f4a_7c15)).fork(purpose)
    }

    /// Does the operation up to the first cut; the device without power, not yet mounted.
    fn cut<'s>(&mut self, start: &Session<'s>, operation: &Operation) -> Result<Session<'s>, String> {
        let mut session = start.clone();
        session.work = Default::default();
        self.cut_short = Some(*operation);
        // With several commands under way the face is the number of the lot, and the command is not issued any more.
        let point = moved(self.first, self.moved[0]);
        let point = if self.part.is_in_flight() { CutPoint { face: 0, ..point } } else { point };
        session.flash.inner_mut().leave_unstable(self.part.is_unstable());
        session.flash.inner_mut().arm(point, self.rng("first garbage").bits());
        self.story.say(|| format!("operation {}: {operation}", self.operation));
        let end = session.step(operation);
        self.lose_power(&mut session, end)?;
        if self.part.is_in_flight() {
            session.worn = None;
            // One command after another from here on.
            session.expect_under_way(0);
            let under_way = session.flash.in_flight().in_doubt();
            let mut lots = self.rng("in flight");
            let undone = session.flash.in_flight().lose_power(&mut lots, self.part.is_unstable());
            self.in_doubt = undone.commands;
            session.flash.inner_mut().take_over(undone.unstable, &lots);
            if self.part == Part::Unordered {
                // What an erase destroyed too early was to stand on one of these pages; a discard, where discards are.
                let discarded = if undone.metadata { session.oracle.perhaps_nothing() } else { Vec::new() };
                let lost: BTreeSet<Lpn> = undone.pages.into_iter().chain(discarded).collect();
                self.may_be_lost = lost.len();
                session.oracle.excuse(lost.len() as u64, lost);
            }
            let lost = self.in_doubt;
            self.story.say(|| format!("of the last {under_way} commands {lost} were not carried out, or in part"));
        }
        Ok(session)
    }

    /// What a command that is cut short leaves.
    fn left(&self, op: Op, face: u8) -> &'static str {
        match (op, face) {
            (Op::Program, 1 | 2) if self.part.is_unstable() => "page unstable",
            (Op::Erase, 1..=4) if self.part.is_unstable() => "block unstable",
            (op, face) => face_name(op, face),
        }
    }

    /// After a run that was to end in a cut: the report of it, and power back.
    fn lose_power(&mut self, session: &mut Session<'_>, end: Result<(), Stop>) -> Result<(), String> {
        self.story.hear(&mut session.flash);
        match end {
            Err(Stop::PowerLost) => {}
            Err(stop) => return Err(stop.text()),
            Ok(()) => return Err("the run ends before the command that was to be cut".into()),
        }
        let [first, second, third] = self.moved;
        let last = self.third.map(|point| moved(point, third)).or(self.second.map(|point| moved(point, second)));
        let point = last.unwrap_or(moved(self.first, first));
        let power = session.flash.inner_mut();
        let CutReport { cause, op } = *power.seen().last().expect("power is lost at a command");
        power.restart();
        // With several commands under way it is not issued: what became of those before it is told by whoever chose.
        let left = if self.part.is_in_flight() && last.is_none() { "not issued" } else { self.left(op, point.face) };
        self.story.say(|| format!("POWER CUT at changing command {} ({}); left: {left}", point.command, cause.name()));
        session.oracle.power_cut();
        session.ftl = None;
        Ok(())
    }

    fn mount(&mut self, session: &mut Session<'_>) -> Result<(), Stop> {
        self.story.say(|| "mount".into());
        let result = session.mount();
        self.story.hear(&mut session.flash);
        result
    }

    /// The recovery in which a second cut may come: the mount, and the first operations after it.
    fn stages(&self) -> Vec<Stage> {
        // Power goes off there anyway.
        let window = self.operations("window").filter(|of| of.action != Action::Restart).take(SECOND_WINDOW);
        let window = (0..).zip(window).filter(|&(number, _)| self.keeps(number)).map(|(_, of)| Stage::Do(of));
        [Stage::Mount, Stage::ReadAll].into_iter().chain(window).collect()
    }

    fn stage(&mut self, session: &mut Session<'_>, stage: &Stage) -> Result<(), Stop> {
        match stage {
            Stage::Mount => self.mount(session),
            Stage::ReadAll => {
                session.read_all()?;
                session.oracle.demand();
                session.flash.take();
                Ok(())
            }
            Stage::Do(operation) => {
                self.story.say(|| operation.to_string());
                let result = session.step(operation);
                self.story.hear(&mut session.flash);
                result
            }
        }
    }

    /// Whether an operation after the cut is left, of a case that was made short.
    fn keeps(&self, number: u32) -> bool {
        self.kept.is_none_or(|kept| kept.after.has(number))
    }

    /// Operations of the window, if a second cut comes in it.
    fn window(&self) -> u32 {
        if self.storm || self.second.is_some() { SECOND_WINDOW as u32 } else { 0 }
    }

    /// Operations after the recovery.
    fn count(&self) -> u32 {
        let mut length = self.rng("length");
        (if length.below(4) == 0 { length.below(9) } else { 20 + length.below(101) }) as u32
    }

    /// All of that.
    fn resume(&mut self, session: &mut Session<'_>) -> Result<(), Stop> {
        self.stages().iter().try_for_each(|stage| self.stage(session, stage))
    }

    /// What the host asks for once power is back. In one case of four that begins with what was cut short, or with a
    /// write of what was to be discarded: who gives numbers that were given before gives them to the same pages then.
    fn operations(&self, purpose: &str) -> impl Iterator<Item = Operation> + use<> {
        let seed = self.rng(purpose).bits();
        let mix = self.bed.mix.after_a_cut(&mut self.rng("mix"));
        let mut rng = self.rng("again");
        let again = self.cut_short.filter(|_| rng.below(4) == 0).and_then(|operation| match operation.action {
            Action::Write(request, _) => Some(Action::Write(request, request.pages)),
            Action::Trim(request) if rng.chance(0.5) => Some(Action::Write(request, request.pages)),
            action @ Action::Trim(_) => Some(action),
            _ => None,
        });
        let again = again.map(|action| Operation { action, ..self.cut_short.expect("it is done again") });
        again.into_iter().chain(Bed { seed, mix, ..self.bed.clone() }.operations("after a cut"))
    }

    /// Mounts, compares, goes on, mounts again, compares.
    fn recover(&mut self, session: &mut Session<'_>) -> Result<(), String> {
        let result = self.try_recover(session);
        self.story.hear(&mut session.flash);
        result.map_err(Stop::text)
    }

    fn try_recover(&mut self, session: &mut Session<'_>) -> Result<(), Stop> {
        self.mount(session)?;
        self.story.say(|| "read every page, twice".into());
        session.read_all()?;
        session.oracle.demand();
        session.read_all()?;
        session.audit()?;
        session.flash.take();
        for (number, operation) in (self.window()..self.window() + self.count()).zip(self.operations("after")) {
            if !self.keeps(number) {
                continue;
            }
            self.story.say(|| operation.to_string());
            session.step(&operation)?;
            self.story.hear(&mut session.flash);
        }
        session.read_all()?;
        session.audit()?;
        session.flash.take();
        self.story.say(|| "power off between operations".into());
        session.oracle.power_cut();
        self.mount(session)?;
        session.read_all()?;
        session.read_all()?;
        session.audit()
    }
}

/// The same cut at another command, if it has moved.
fn moved(point: CutPoint, to: Option<u64>) -> CutPoint {
    CutPoint { command: to.unwrap_or(point.command), ..point }
}

/// Whether a seed's device can be cut so. Several commands need several dies. Where cells read otherwise each time,
/// discards have to be durable: a block may be erased for discards that RAM alone knows, and if that erase is cut
/// short, pages that nothing replaces change.
pub(super) fn is_for(part: Part, bed: &Bed) -> bool {
    let bears_it = !part.is_unstable() || bed.settings.get("durable-trim") != Some(Value::Switch(false));
    bears_it && (!part.is_in_flight() || bed.geometry.die_count() > 1)
}

/// The faces of a first cut. Of those that leave unstable cells, one stands for all.
fn faces(op: Op, part: Part) -> Range<u8> {
    match op {
        _ if part.is_in_flight() => 0..LOTS,
        Op::Program | Op::Erase if part.is_unstable() => 1..2,
        _ if part.is_unstable() => 0..0,
        _ => 0..CutPoint::faces(op),
    }
}

/// The places of a run at which power can be cut, by operation.
fn places(seen: &[Vec<CutReport>], part: Part) -> impl Iterator<Item = (u32, CutPoint, CutReport)> + '_ {
    seen.iter().enumerate().flat_map(move |(operation, seen)| {
        seen.iter().enumerate().flat_map(move |(command, &report)| {
            let command = command as u64;
            faces(report.op, part).map(move |face| (operation as u32, CutPoint { command, face }, report))
        })
    })
}

/// Does the operations of a seed without a cut; the commands of each.
fn dry_run(
    start: &Session<'_>,
    operations: &[Operation],
    stop: &AtomicBool,
    report: &mut CheckReport,
) -> Vec<Vec<CutReport>> {
    let mut seen = Vec::new();
    let mut session = start.clone();
    for (number, operation) in operations.iter().enumerate() {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let result = guarded(|| {
            session.flash.inner_mut().restart();
            session.step(operation).map_err(Stop::text)?;
            seen.push(session.flash.inner_mut().seen().to_vec());
            if number.is_multiple_of(AUDIT_EVERY) || number + 1 == operations.len() {
                // On a branch: reading may change what a scheme caches, and with it the commands that follow.
                let mut branch = session.clone();
                branch.read_all().and_then(|()| branch.audit()).map_err(Stop::text)?;
                session.work = branch.work;
            }
            Ok(())
        });
        if let Err(what) = result {
            report.fail(Replay::of(session.bed.seed, Part::Cuts, number as u32), what);
            break;
        }
    }
    report.add_work(session.work);
    seen
}

/// A formatted and filled device, whose commands are written down if they are to be told.
fn begin<'a>(
    bed: &'a Bed,
    recipe: &'a Checked,
    told: bool,
    (part, is_guarded): (Part, bool),
    kept: Option<&Kept>,
) -> Result<Session<'a>, String> {
    let mut flash = match part {
        _ if part.is_paired() && is_guarded => bench(sound(paired(bed, Guard::<Bench>::BLOCKS)), told),
        _ if part.is_paired() => Guard::unguarded(bench(sound(paired(bed, 0)), told).into_inner()),
        _ => bench(sound(bed.geometry), told),
    };
    flash.inner_mut().set_limit(COMMAND_LIMIT);
    let mut session = Session::format(bed, recipe, flash).map_err(Stop::text)?;
    session.fill(kept).map_err(Stop::text)?;
    session.flash.take();
    if part.is_in_flight() {
        session.by_page = part == Part::Stages;
        let drawn = || DEPTHS[Rng::new(bed.seed).fork("depth").below(DEPTHS.len() as u64) as usize];
        let depth = if session.by_page { 1 } else { drawn() };
        session.expect_under_way(depth);
        session.flash.in_flight().begin(depth, !matches!(part, Part::Unordered | Part::Stages));
    } else {
        session.keep_wear();
    }
    Ok(session)
}

/// The chip of a seed, of cells of two bits or three that pages share. A scheme sees it without the `more` blocks of
/// each die that a guard takes.
fn paired(bed: &Bed, more: u32) -> Geometry {
    let g = bed.geometry;
    let mut rng = Rng::new(bed.seed).fork("pairs");
    // A seed with blocks in SLC mode has room for tables in cells of two bits.
    let bits_per_cell = if g.bits_per_cell > 1 { g.bits_per_cell } else { 2 + rng.below(2) as u32 };
    let pairs = if rng.chance(0.75) { Pairing::Shadow } else { Pairing::Adjacent };
    let g = Geometry { bits_per_cell, pairs, blocks_per_die: g.blocks_per_die + more, ..g };
    g.checked().expect("a few blocks more than one that was checked")
}

/// The visitor for a seed's cuts.
pub(super) struct CutEverywhere<'a> {
    pub(super) config: &'a CheckConfig,
    pub(super) bed: &'a Bed,
    pub(super) stop: &'a AtomicBool,
    /// One command after another, or several under way.
    pub(super) part: Part,
}

impl CutEverywhere<'_> {
    pub(super) fn run(self, recipe: &Checked) -> CheckReport {
        let CutEverywhere { config, bed, stop, part } = self;
        let mut report = CheckReport::default();
        let mut session = match guarded(|| begin(bed, recipe, false, (part, config.guarded), None)) {
            Ok(session) => session,
            Err(what) => {
                report.fail(Replay::of(bed.seed, part, 0), format!("while the device was filled: {what}"));
                return report;
            }
        };
        let operations: Vec<Operation> = bed.operations("operations").take(config.operations as usize).collect();
        let seen = dry_run(&session, &operations, stop, &mut report);
        let has_cuts = part != Part::Cuts || config.faults.contain(FaultClass::Cut);
        if !report.passed() || config.cuts == Cuts::Count(0) || !has_cuts {
            return report;
        }
        let mut lot = Lot::of_seed(config, bed, part, places(&seen, part).count() as u64);
        let mut points = places(&seen, part).peekable();
        for (number, operation) in operations.iter().enumerate() {
            let number = number as u32;
            while let Some((_, first, command)) = points.next_if(|&(of, ..)| of == number) {
                if !lot.draw() && (part != Part::Cuts || report.by_cause.contains_key(&command.cause)) {
                    continue;
                }
                let class = if part.is_unstable() { FaultClass::UnstableNested } else { FaultClass::Nested };
                let nested = config.faults.contain(class) && config.second_level > 0;
                let case = Case {
                    bed,
                    part,
                    operation: number,
                    first,
                    second: None,
                    third: None,
                    storm: false,
                    moved: [None; 3],
                    kept: None,
                    story: Story(None),
                    cut_short: None,
                    in_doubt: 0,
                    may_be_lost: 0,
                };
                // By the case alone: a check of more cuts makes all those of one of fewer. A short check would cut no
                // recovery at all, so the first cut of its first seed is followed by others in any case.
                let first_of_all = bed.seed == config.seeds.start && report.cuts == 0;
                let deep = nested && (first_of_all || case.rng("deep").below(config.second_level) == 0);
                cut_here(&session, operation, case, command, deep, stop, &mut report);
                if stop.load(Ordering::Relaxed) || report.failures.len() >= FAILURES_PER_SEED {
                    return report;
                }
            }
            session.flash.inner_mut().restart();
            if let Err(what) = guarded(|| session.step(operation).map_err(Stop::text)) {
                report.fail(Replay::of(bed.seed, part, number), what);
                return report;
            }
        }
        report
    }
}

/// Draws `wanted` of `left` places evenly, one after another.
struct Lot {
    wanted: u64,
    left: u64,
    rng: Rng,
}

impl Lot {
    fn new(wanted: u64, places: u64, rng: Rng) -> Lot {
        Lot { wanted: wanted.min(places), left: places, rng }
    }

    /// Of the places of a seed's run, what is to be cut of this kind.
    fn of_seed(config: &CheckConfig, bed: &Bed, part: Part, places: u64) -> Lot {
        let seeds = (config.seeds.end - config.seeds.start).max(1);
        let share = if part == Part::Cuts { 1 } else { SHARE };
        let wanted = match config.cuts {
            Cuts::All => places,
            Cuts::Count(count) => count.div_ceil(seeds * share),
        };
        let purpose = match part {
            Part::Cuts => "cuts",
            Part::Paired => "cuts of pairs",
            Part::Unstable => "unstable cuts",
            Part::UnstableFlight => "unstable cuts in flight",
            Part::UnstablePaired => "unstable cuts of pairs",
            _ => "cuts in flight",
        };
        Lot::new(wanted, places, Rng::new(bed.seed).fork(purpose))
    }

    fn draw(&mut self) -> bool {
        let drawn = self.rng.below(self.left.max(1)) < self.wanted;
        self.left -= 1;
        self.wanted -= u64::from(drawn);
        drawn
    }
}

/// One cut of the first level and, if it is to go `deep`, those of the second level behind it.
fn cut_here(
    start: &Session<'_>,
    operation: &Operation,
    mut case: Case<'_>,
    command: CutReport,
    deep: bool,
    stop: &AtomicBool,
    report: &mut CheckReport,
) {
    report.cuts += 1;
    // What is in flight has other causes than the command that power fails at.
    if !case.part.is_in_flight() {
        count(report, command, case.first.face, &case);
    }
    report.paired_cuts += u64::from(case.part.is_paired());
    report.flight_cuts += u64::from(case.part.is_in_flight());
    let mut image = None;
    let result = guarded(|| {
        let mut session = case.cut(start, operation)?;
        report.in_doubt += case.in_doubt as u64;
        report.lost[0] += case.may_be_lost as u64;
        report.unstable_cuts += u64::from(session.flash.inner_mut().unstable() > 0);
        if deep {
            image = Some(session.clone());
        }
        let result = case.recover(&mut session);
        report.add_work(session.work);
        report.add_taken(&session.flash, &start.flash);
        report.lost[1] += session.oracle.stale();
        result
    });
    if let Err(what) = result {
        report.fail(case.replay(), what);
        return;
    }
    if let Some(image) = image {
        nested::cut_recovery(&image, case, stop, report);
    }
}

/// Counts a cut by phase and face.
fn count(report: &mut CheckReport, command: CutReport, face: u8, case: &Case<'_>) {
    // The phases of a row are those of the scheme alone.
    if case.part.is_paired() {
        return;
    }
    *report.by_cause.entry(command.cause).or_insert(0) += 1;
    *report.by_face.entry(case.left(command.op, face)).or_insert(0) += 1;
}

/// The visitor that tells one case.
pub(super) struct Tell<'a> {
    pub(super) config: &'a CheckConfig,
    pub(super) bed: &'a Bed,
    pub(super) replay: &'a Replay,
    /// Whether anybody listens.
    pub(super) told: bool,
}

impl Tell<'_> {
    pub(super) fn run(self, recipe: &Checked) -> Result<Told, CheckError> {
        let Tell { config, bed, replay, told } = self;
        let (part, kept) = (replay.part, replay.kept.as_ref());
        let begun = guarded(|| begin(bed, recipe, told, (part, config.guarded), kept));
        let mut session = begun.map_err(CheckError)?;
        let mut operations = bed.operations("operations");
        let mut run_up = Vec::new();
        if let Some(kept) = kept {
            let filled = (0..).zip(bed.mix.requests()).filter(|&(number, _)| kept.fill.has(number));
            run_up.extend(filled.map(|(number, request)| format!("fill, request {number}: write {request}")));
        }
        for number in 0..replay.operation {
            let operation = operations.next().expect("operations never end");
            if kept.is_some_and(|kept| !kept.before.has(number)) {
                continue;
            }
            let result = guarded(|| session.step(&operation).map_err(Stop::text));
            result.map_err(|what| CheckError(format!("operation {number} fails already: {what}")))?;
            session.flash.take();
            session.flash.inner_mut().restart();
            run_up.push(format!("operation {number}: {operation}"));
        }
        let operation = operations.next().expect("operations never end");
        // All that is left of a short case.
        let first_told = if kept.is_some() { 0 } else { run_up.len().saturating_sub(LAST as usize) };
        let mut story = Story(told.then(|| run_up.split_off(first_told)));
        if let Some(first) = replay.first {
            let CutPoint { command, face } = moved(first, replay.moved[0]);
            let mut dry = session.clone();
            guarded(|| dry.step(&operation).map_err(Stop::text)).map_err(CheckError)?;
            let seen = dry.flash.inner_mut().seen();
            let lots = part.is_in_flight().then_some(LOTS);
            let faces = seen.get(command as usize).map(|seen| lots.unwrap_or(CutPoint::faces(seen.op)));
            if faces.is_none_or(|faces| face >= faces) {
                let there = faces.map_or(format!("{} changing commands", seen.len()), |faces| format!("{faces} faces"));
                return Err(CheckError(format!("case {replay}: there are {there} to choose from, counted from 0")));
            }
        }
        let mut after = 0;
        let end = if let Some(first) = replay.first {
            let mut case = Case {
                bed,
                part,
                operation: replay.operation,
                first,
                second: None,
                third: None,
                storm: replay.storm,
                moved: replay.moved,
                kept,
                story,
                cut_short: None,
                in_doubt: 0,
                may_be_lost: 0,
            };
            let end = guarded(|| tell_cut(&mut case, &session, &operation, replay));
            after = case.window() + case.count();
            story = case.story;
            end
        } else {
            story.say(|| format!("operation {}: {operation}", replay.operation));
            let end = guarded(|| {
                let result = session.step(&operation).map_err(Stop::text);
                story.hear(&mut session.flash);
                result?;
                session.read_all().and_then(|()| session.audit()).map_err(Stop::text)
            });
            if let Err(what) = &end {
                add_copies(what, &mut story, session.flash.in_flight().inner());
            }
            end
        };
        let requests = bed.mix.requests().count() as u32;
        Ok(Told { lines: story.0.unwrap_or_default(), end, requests, after, run: None })
    }
}

/// The cuts of a case, and the recovery from the last.
fn tell_cut(case: &mut Case<'_>, start: &Session<'_>, operation: &Operation, replay: &Replay) -> Result<(), String> {
    let mut cut = case.cut(start, operation)?;
    let mut result = Ok(());
    if replay.storm {
        result = nested::storm(case, &mut cut, &mut CheckReport::default());
    } else if let Some(second) = replay.second {
        result = nested::cut_again(case, &mut cut, second, replay.third);
    }
    if !replay.storm {
        result = result.and_then(|()| case.recover(&mut cut));
    }
    if let Err(what) = &result {
        add_copies(what, &mut case.story, cut.flash.in_flight().inner());
    }
    result
}

/// Adds what the flash holds of the page that a finding is about.
pub(super) fn add_copies(what: &str, story: &mut Story, chip: &Chip) {
    let number = what.strip_prefix("LPN ").and_then(|rest| rest.split_whitespace().next());
    if let Some(lpn) = number.and_then(|number| number.parse().ok()) {
        story.say(|| format!("flash holds of LPN {lpn}:"));
        for line in on_flash(chip, Lpn(lpn)) {
            story.say(|| format!("    {line}"));
        }
    }
}

//! Operations on media whose blocks are or go bad.
//!
//! Nothing acknowledged may be lost. A device that has lost too many blocks says that it is full, and then every page
//! must still be readable, however often it refuses, and also once it was mounted again. Five media: blocks that fail
//! for good; programs and erases that fail now and then, some or all of them leaving a block that works; host pages
//! that cannot be read back, of which a read is an error, and never an earlier version; programs that report success
//! and do not stick, which a layer beneath the scheme finds out ([`flash::Verified`]); blocks that lose what is read
//! often or kept long, unless it is moved in time (`disturb.rs`). Devices that live on over power cuts (`life.rs`) have
//! one of the first two, or a sound one. Devices that are full go on (`full.rs`).

use super::bed::{Action, Bed, Operation};
use super::content::Medium;
use super::cuts::{LAST, Story, add_copies};
use super::disturb::{self, Disturbance};
use super::failed::Watch;
use super::full::{self, Brink};
use super::life::{self, Life};
use super::replay::{Kept, Replay};
use super::session::{Session, Stop};
use super::{
    CheckConfig, CheckError, CheckReport, Checked, Chip, FaultClass, Part, Told, bench, guarded, sound, verified_bench,
};
use flash::{Block, Cause, Die, Failing, FailurePlan, Flash, Geometry, InFlight, Kind, PowerCut, Rng};
use ftl::{BuildError, Recipe, Settings, Value};
use std::sync::atomic::{AtomicBool, Ordering};

/// How many times as many operations as a run with cuts.
pub(super) const LONGER: u32 = 4;
/// Runs on each medium, with failures of their own: nothing is branched in these, so they cost little.
const RUNS: u64 = 6;
/// Operations after the first that a full device refuses.
const INSISTENCE: usize = 32;

/// Blocks of a die that a device may lack beside the bad ones when it says that it is full: one has failed just now.
const SLACK: u32 = 1;
/// Settings of schemes that collect by them; bytes of which no cache is as small as can be.
const GC_LOW: &str = "gc-low";
const SPREAD: &str = "gc-spread";
pub(super) const CACHE_BYTES: &str = "cache-bytes";
const LARGE_CACHE: u64 = 1 << 16;

/// The media, by the class of their faults.
pub(super) const PARTS: [(FaultClass, Part); 7] = [
    (FaultClass::Failing, Part::Media),
    (FaultClass::Failing, Part::Full),
    (FaultClass::Intermittent, Part::Intermittent),
    (FaultClass::Unreadable, Part::Unreadable),
    (FaultClass::Silent, Part::Silent),
    (FaultClass::Disturb, Part::Disturb),
    (FaultClass::Nested, Part::Life),
];

/// The visitor.
pub(super) struct OnFailingMedia<'a> {
    pub(super) config: &'a CheckConfig,
    pub(super) bed: &'a Bed,
    pub(super) stop: &'a AtomicBool,
    pub(super) part: Part,
}

const fn runs(part: Part) -> u64 {
    match part {
        Part::Life => life::RUNS,
        Part::Full => full::RUNS,
        _ => RUNS,
    }
}

/// The part whose medium a run has. A life is on a sound one, or on one that others are on if its cuts are not aimed.
fn medium(config: &CheckConfig, part: Part, run: u64) -> Part {
    match (part, run % life::KINDS) {
        (Part::Life, _) if life::is_aimed(run) => part,
        (Part::Life, _) if life::is_long(run) => life::fails_rarely(run),
        (Part::Life, 1) if config.faults.contain(FaultClass::Failing) => Part::Media,
        (Part::Life, 2) if config.faults.contain(FaultClass::Intermittent) => Part::Intermittent,
        _ => part,
    }
}

/// What fails on the medium in a run. Of blocks that fail for good each run has another kind.
fn plan(bed: &Bed, (part, fails): (Part, Part), run: u64) -> FailurePlan {
    let lots = bed.seed ^ run.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut lot = Rng::new(lots).fork("failures that pass");
    // A device that lives long has few blocks that go bad.
    let exponent = if part == Part::Life && life::is_long(run) { 3 } else { 1 };
    match fails {
        Part::Intermittent => FailurePlan {
            program_rate: 0.01 * lot.unit().powi(exponent),
            erase_rate: 0.04 * lot.unit().powi(exponent),
            passing: if lot.chance(0.5) { 1.0 } else { 0.5 },
            half_erased: true,
            ..FailurePlan::default()
        },
        Part::Unreadable => FailurePlan { unreadable_rate: 0.01 * lot.unit(), ..FailurePlan::default() },
        Part::Silent => FailurePlan { silent_rate: 0.01 * lot.unit().powi(exponent), ..FailurePlan::default() },
        Part::Disturb => disturb::plan(bed, lots, (bed.seed + run) % 3),
        Part::Life => FailurePlan::default(),
        Part::Full => full::plan(bed, lots, run),
        _ if part == Part::Life => wearing_out(bed, lots, if life::is_long(run) { 0.02 } else { 0.05 }),
        _ => lasting(bed, lots, (bed.seed + run) % 3),
    }
}

/// Of a life: the more fail, up to `most`, the sooner the device is full, and that is when they matter.
fn wearing_out(bed: &Bed, lots: u64, most: f64) -> FailurePlan {
    let mut lot = Rng::new(lots).fork("failures of a life");
    let rate = most * lot.unit().powi(3);
    FailurePlan { program_rate: rate, erase_rate: rate * 2.0 * lot.unit(), ..lasting(bed, lots, 1) }
}

/// Failures for good: two programs, two erases, or some of either.
fn lasting(bed: &Bed, lots: u64, kind: u64) -> FailurePlan {
    let mut rng = Rng::new(lots).fork("failure plan");
    let mut schedule = |count: u64, until: u64| {
        let mut numbers: Vec<u64> = (0..count).map(|_| rng.below(until)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    };
    let pages = u64::from(bed.geometry.page_count());
    let (program_schedule, erase_schedule) = match kind {
        0 => (schedule(2, 6 * pages), Vec::new()),
        1 => (Vec::new(), schedule(2, pages)),
        _ => (Vec::new(), Vec::new()),
    };
    let rate = if kind == 2 { 0.001 + 0.004 * rng.unit() } else { 0.0 };
    let factory_bad = vec![Block(rng.below(u64::from(bed.geometry.block_count())) as u32)];
    FailurePlan {
        factory_bad,
        factory_bad_rate: 0.03 * rng.unit(),
        program_schedule,
        program_rate: rate,
        erase_schedule,
        erase_rate: rate * 4.0,
        ..FailurePlan::default()
    }
}

impl OnFailingMedia<'_> {
    pub(super) fn run(self, recipe: &Checked) -> CheckReport {
        let OnFailingMedia { config, bed, stop, part } = self;
        let mut report = CheckReport::default();
        let step = if part == Part::Life { config.lives.max(1) } else { 1 };
        // What a device lives long on is another class.
        let is_asked = |&run: &u64| {
            let class = medium(config, part, run).class().filter(|_| part == Part::Life && life::is_long(run));
            class.is_none_or(|class| config.faults.contain(class))
        };
        for which in (0..runs(part)).step_by(step).filter(is_asked) {
            let run = Run { config, bed, part, which, stop, of: None };
            if let Err((number, what)) = on_medium(recipe, &run, &mut Story(None), &mut report) {
                report.fail(Replay::of(bed.seed, part, number), what);
            }
        }
        report
    }
}

/// The device of a run: with room for blocks that go bad, if any do; of those that are to be full, half without.
fn with_room(bed: &Bed, (part, fails): (Part, Part), run: u64) -> Bed {
    let is_full = match part {
        Part::Full => !full::has_room(run),
        Part::Life => life::is_aimed(run),
        _ => false,
    };
    if is_full {
        return bed.clone().full();
    }
    if matches!(fails, Part::Disturb | Part::Life) {
        return bed.clone();
    }
    let pages = (bed.logical_pages - bed.logical_pages / 6).max(bed.least_pages());
    let mix = bed.mix.within(pages);
    Bed { logical_pages: pages, mix: if fails == Part::Unreadable { mix.on() } else { mix }, ..bed.clone() }
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
        let (part, stop) = (replay.part, &AtomicBool::new(false));
        let runs = runs(part);
        if replay.run.is_some_and(|run| run >= runs) {
            return Err(CheckError(format!("case {replay}: there are {runs} runs to choose from, counted from 0")));
        }
        let whole = |which: u64, of: Option<&Replay>, story: &mut Story| {
            let run = Run { config, bed, part, which, stop, of };
            on_medium(recipe, &run, story, &mut CheckReport::default())
        };
        // Nobody has said which run: the first that fails there.
        let fails = |&which: &u64| whole(which, None, &mut Story(None)).is_err_and(|(at, _)| at == replay.operation);
        let which = match replay.run {
            Some(which) => Some(which),
            None => (0..runs).find(fails),
        };
        let mut story = Story(told.then(Vec::new));
        let end = which.map_or(Ok(()), |which| whole(which, Some(replay), &mut story));
        let end = end.map_err(|(_, what)| what);
        let requests = {
            let which = which.unwrap_or(0);
            with_room(bed, (part, medium(config, part, which)), which).mix.requests().count() as u32
        };
        Ok(Told { lines: story.0.unwrap_or_default(), end, requests, after: 0, run: which })
    }
}

/// A run on a failing medium.
#[derive(Clone, Copy)]
struct Run<'a> {
    config: &'a CheckConfig,
    bed: &'a Bed,
    part: Part,
    which: u64,
    stop: &'a AtomicBool,
    /// The case, if it is one that is done again: what is kept of it, and up to where.
    of: Option<&'a Replay>,
}

impl Run<'_> {
    fn kept(&self) -> Option<&Kept> {
        self.of.and_then(|replay| replay.kept.as_ref())
    }

    /// Whether an operation is told: those before the last one, or all that are left of a short case.
    fn tells(&self, number: u32) -> bool {
        self.kept().is_some() || self.of.is_some_and(|replay| number + LAST >= replay.operation)
    }
}

/// Does it; if something goes wrong, what, and after how many operations.
fn on_medium(
    recipe: &Checked,
    run: &Run<'_>,
    story: &mut Story,
    report: &mut CheckReport,
) -> Result<(), (u32, String)> {
    let Run { config, part, which, .. } = *run;
    let fails = medium(config, part, which);
    let aims = part == Part::Life && life::is_aimed(which);
    let bed = with_room(run.bed, (part, fails), which);
    let bed = &if aims || part == Part::Full { with_busy_map(recipe, config, bed, which) } else { bed };
    let mut number = 0;
    let mut full = false;
    let mut session = None;
    let mut result = guarded(|| {
        let plan = plan(bed, (part, fails), which);
        let mut disturbance = Disturbance::of(&plan, bed, which);
        let medium = Failing::new(InFlight::new(Chip::new(bed.geometry)), plan, bed.seed ^ which << 32);
        let powered = PowerCut::counting(medium);
        // Who aims has to know the commands.
        let powered = if aims { powered } else { powered.without_log() };
        let (is_verified, told) = (fails == Part::Silent && config.verified, story.0.is_some());
        let medium = if is_verified { verified_bench(powered, told) } else { bench(powered, told) };
        match Session::format(bed, recipe, medium) {
            Ok(formatted) => session = Some(formatted),
            Err(Stop::Full) => full = true,
            Err(stop) => return Err(stop.text()),
        }
        let Some(session) = &mut session else { return Ok(()) };
        session.unreadable = part == Part::Unreadable;
        session.rests = part == Part::Disturb && config.rests;
        let end = operate(session, run, &mut disturbance, story, &mut number);
        story.hear(&mut session.flash);
        // No block goes bad on the others.
        full = end == Err(Stop::Full) && !matches!(fails, Part::Disturb | Part::Life);
        if full {
            // Power cuts take pages of the room, and so do pages that did not stick.
            if matches!(part, Part::Media | Part::Intermittent) && bed.settings.get(GC_LOW).is_some() {
                has_reason(recipe, session)?;
            }
            story.say(|| "the device says that it is full: it is asked for more".into());
            insist(session).map_err(Stop::text)?;
        } else {
            end.map_err(Stop::text)?;
        }
        session.flash.take();
        story.say(|| "read every page".into());
        let compare = |session: &mut Session<'_>| session.read_all().and_then(|()| session.audit());
        compare(session).map_err(Stop::text)?;
        if full && part != Part::Unreadable {
            session.oracle.power_cut();
            session.flash.take();
            story.say(|| "power off and on; read every page".into());
            session.mount().and_then(|()| compare(session)).map_err(Stop::text)?;
            story.say(|| "it is asked for more, once again".into());
            insist(session).and_then(|()| compare(session)).map_err(Stop::text)?;
        }
        Ok(())
    });
    if let Some(mut session) = session {
        if let Err(what) = &mut result {
            story.hear(&mut session.flash);
            add_copies(what, story, session.flash.in_flight().inner());
        }
        let operations = match part {
            Part::Intermittent => &mut report.media.intermittent,
            Part::Unreadable => &mut report.media.unreadable,
            Part::Silent => &mut report.media.silent,
            Part::Disturb => &mut report.media.disturbed,
            Part::Life => &mut report.media.lived,
            Part::Full => &mut report.media.brink,
            _ => &mut report.media.operations,
        };
        *operations += session.work.operations;
        report.media.errors += session.work.errors;
        report.media.grown_bad += u64::from(session.flash.inner().inner().grown_bad_count());
        report.media.unstuck += session.flash.inner().inner().silent_count();
        report.media.refreshed += session.flash.inner().inner().refreshed();
        report.media.spent += session.flash.inner().inner().spent();
        report.media.idle_cuts += session.work.idle_cuts;
        report.media.life_cuts += session.work.cuts;
        if fails != Part::Life {
            report.add_cuts_on(fails, session.work.cuts);
        }
        report.add_work(session.work);
    }
    report.media.full += u64::from(full);
    result.map_err(|what| (number, what))
}

/// A device may say that it is full when so many of its blocks are bad that the scheme would not take what is left of
/// it: not before. Schemes whose collections have their room for certain (`parts/collector.rs`) are held to that.
/// Others may be full sooner, where a program fails in the middle of a merge, or of a round of collections.
fn has_reason(recipe: &Checked, session: &mut Session<'_>) -> Result<(), String> {
    let (bed, g) = (session.bed, session.bed.geometry);
    let unmarked = session.flash.failing().unmarked().clone();
    let chip = session.flash.in_flight().inner_mut();
    let mut is_bad = |block: u32| {
        let Ok(first) = chip.read_oob(g.page(Block(block), 0), Cause::Recovery);
        unmarked.contains(&Block(block)) || first.is_some_and(|oob| oob.kind == Kind::Bad)
    };
    let mut bad_on = |die: u32| g.blocks_of(Die(die)).filter(|&block| is_bad(block)).count() as u32;
    let bad = (0..g.die_count()).map(&mut bad_on).max().unwrap_or(0);
    let Some(left) = g.blocks_per_die.checked_sub(bad + SLACK).filter(|&left| left > 0) else { return Ok(()) };
    let Ok(left) = (Geometry { blocks_per_die: left, ..g }).checked() else { return Ok(()) };
    match recipe.format(&mut bench(sound(left), false), bed.logical_pages, &bed.settings) {
        Ok(_) => Err(format!(
            "the device says that it is full with {bad} bad blocks of {} on a die, and {} would do",
            g.blocks_per_die, left.blocks_per_die
        )),
        Err(_) => Ok(()),
    }
}

/// In half of the runs in which room is what matters the mapping cache is as small as the scheme takes, and in half of
/// them collections are spread, if the scheme takes the device so: then the map is written all the time, and
/// collections are always under way.
fn with_busy_map(recipe: &Checked, config: &CheckConfig, bed: Bed, run: u64) -> Bed {
    let takes =
        |settings: &Settings| recipe.format(&mut bench(sound(bed.geometry), false), bed.logical_pages, settings);
    let is_free = |name: &str| bed.settings.get(name).is_some() && !config.settings.iter().any(|(of, _)| of == name);
    let mut settings = bed.settings.clone();
    if (bed.seed / 2 + run / 4) % 2 == 1 && is_free(SPREAD) {
        settings.put(SPREAD, Value::Switch(true));
        if takes(&settings).is_err() {
            settings = bed.settings.clone();
        }
    }
    if (bed.seed + run / 4) % 2 == 1 && is_free(CACHE_BYTES) {
        let mut small = settings.clone();
        let mut bytes = 16;
        while bytes < LARGE_CACHE {
            small.put(CACHE_BYTES, Value::Count(bytes));
            match takes(&small) {
                Ok(_) => {
                    settings = small;
                    break;
                }
                Err(BuildError::Config(refusal)) if refusal.key == CACHE_BYTES => bytes += bytes / 8,
                Err(_) => break,
            }
        }
    }
    Bed { settings, ..bed }
}

/// Goes on with a device that is full: some operations may still be done, and those that are refused change nothing.
fn insist(session: &mut Session<'_>) -> Result<(), Stop> {
    for operation in session.bed.operations("operations on a full device").take(INSISTENCE) {
        match session.step(&operation) {
            Ok(()) | Err(Stop::Full) => {}
            Err(stop) => return Err(stop),
        }
    }
    Ok(())
}

/// Runs the operations, with a mount now and then.
fn operate(
    session: &mut Session<'_>,
    run: &Run<'_>,
    disturbance: &mut Disturbance,
    story: &mut Story,
    number: &mut u32,
) -> Result<(), Stop> {
    let longer = if run.part == Part::Full { 1 } else { LONGER };
    let count = run.config.operations.saturating_mul(longer);
    match session.fill(run.kept()) {
        // That is where the run begins.
        Err(Stop::Full) if run.part == Part::Full => {}
        filled => filled?,
    }
    session.flash.take();
    let mut watch = Watch::default();
    // A case ends with its operation. What is not kept of it takes along the mount and the reads that follow it.
    let last = run.of.filter(|replay| replay.kept.is_some()).map_or(u32::MAX, |replay| replay.operation);
    let lots = session.bed.seed ^ run.which << 32;
    let mut life = (run.part == Part::Life).then(|| Life::of(lots, run.which));
    let mut brink = (run.part == Part::Full).then(|| Brink::of(lots, session.bed));
    let operations: &mut dyn Iterator<Item = Operation> = match run.part {
        Part::Life | Part::Full => {
            let aimed = run.part == Part::Life && life::is_aimed(run.which);
            &mut life::operations(session.bed, lots, aimed)
        }
        _ => &mut session.bed.operations("operations on failing media"),
    };
    let mut failures = 0;
    for operation in operations.take(count as usize) {
        if run.stop.load(Ordering::Relaxed) || *number > last {
            break;
        }
        if run.kept().is_some_and(|kept| !kept.before.has(*number)) {
            *number += 1;
            continue;
        }
        let tells = run.tells(*number);
        if tells {
            story.say(|| format!("operation {number}: {operation}"));
        }
        match (&mut life, &mut brink) {
            (Some(life), _) => life.step(session, &operation, *number, story)?,
            (_, Some(brink)) => brink.step(session, &operation, *number, story)?,
            _ => session.step(&operation)?,
        }
        if run.part == Part::Disturb {
            disturbance.follow(session, *number, *number + 1 == count)?;
        }
        if tells {
            story.hear(&mut session.flash);
        }
        *number += 1;
        // What a failure leaves in RAM a later operation may mend.
        let before = std::mem::replace(&mut failures, session.flash.failing().failures());
        if failures > before {
            session.audit()?;
        }
        if number.is_multiple_of(32) {
            if tells {
                story.say(|| "read every page, and audit".into());
            }
            session.read_all()?;
            session.audit()?;
            let failing = session.flash.failing();
            watch.look(failing.unmarked(), failing.misused()).map_err(Stop::Wrong)?;
            if tells {
                story.hear(&mut session.flash);
            }
        }
        let mounts = !session.unreadable && operation.action != Action::Flush;
        if mounts && number.is_multiple_of((count / 4).max(1)) {
            if tells {
                story.say(|| "power off and on; read every page, and audit".into());
            }
            session.oracle.power_cut();
            session.mount()?;
            session.read_all()?;
            session.audit()?;
            if tells {
                story.hear(&mut session.flash);
            }
        }
        session.flash.take();
    }
    Ok(())
}

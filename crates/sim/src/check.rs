//! The conformance checker: one suite for all schemes.
//!
//! A *seed* stands for a small device, a scheme's settings and a stream of operations: requests of one page, a few or
//! whole blocks, discards, flushes and idle times. For each seed the checker
//!
//! 1. runs the operations and holds every read to the [`Oracle`](crate::oracle::Oracle) and the scheme to its own
//!    audit;
//! 2. cuts power at the commands of that run, in every way that a cut command can look (docs/fault-model.md): it mounts
//!    the device, reads everything twice, audits, goes on for some operations, and mounts once more. Behind a sample of
//!    these cuts it cuts again, at every command of the mount and of the first operations after it, and many times in a
//!    row;
//! 3. runs the operations on media whose blocks are or go bad, until no space is left, on media that fail now and then,
//!    on media that do not give a page back, on media whose programs do not stick, and on media that lose what is read
//!    often or kept long;
//! 4. writes to sound devices without a block to spare;
//! 5. tests two claims: that the RAM which the scheme reports holds its whole state, and that the metadata which it
//!    keeps on flash is what it works from.
//!
//! A write buffer may stand in front of the scheme, and what it holds is lost by a cut: only flushes make writes
//! durable, which is what the oracle assumes of every scheme. So that each scheme is compiled once, all are run through
//! [`ftl::buffer::Buffered`], which without a buffer hands everything through.
//!
//! Every run is a branch: scheme, chip and oracle are cloned before an operation, so that a cut costs what happens
//! after it and not what led to it. A failure names a [`Replay`], which [`replay`] turns into a story. Results depend
//! on the configuration alone, not on threads.

mod bed;
mod content;
mod cuts;
mod disturb;
mod failed;
mod faults;
mod fewest;
mod full;
mod honesty;
mod life;
mod media;
mod remounts;
mod replay;
mod session;
mod shrink;
pub mod step;

use bed::Lay;
pub use content::{Stamp, Stamps};
pub use faults::{FaultClass, Faults, LOSES, NOBODY};
use flash::{Cause, Failing, FailurePlan, Full, Geometry, Guard, InFlight, Nand, PowerCut, Transcript, Verified};
use ftl::buffer::{self, Behind, BufferRow};
use ftl::parameters::ECC;
use ftl::schemes::{self, Registry, Visitor};
use ftl::{Recipe, Scheme};
pub use replay::{Kept, Picked, Replay};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, Once};

/// The chip that schemes are checked on.
pub type Chip = Nand<Stamps, Full>;

/// The same, with commands that can be under way together, blocks that can fail, power that can be cut, what it was
/// told if somebody wants to know, programs that are read back, and a guard of pages that share cells. One type for all
/// checks, because every scheme is compiled for it.
pub type Bench = Guard<Verified<Transcript<Powered>>>;

/// The chip with all that can happen to it.
pub(crate) type Powered = PowerCut<Failing<InFlight<Chip, Stamps>>>;

/// A chip without faults, whose power holds until it is told otherwise.
pub(crate) fn sound(geometry: Geometry) -> Powered {
    PowerCut::counting(Failing::new(InFlight::new(Chip::new(geometry)), FailurePlan::default(), 0))
}

/// A medium for checks, whose commands are written down if they are to be told.
pub(crate) fn bench(power: Powered, told: bool) -> Bench {
    Guard::new(Verified::trusting(if told { Transcript::new(power) } else { Transcript::silent(power) }))
}

/// The same, whose programs are read back.
pub(crate) fn verified_bench(power: Powered, told: bool) -> Bench {
    Guard::new(Verified::new(if told { Transcript::new(power) } else { Transcript::silent(power) }))
}

/// Failures after which a seed is given up: they are mostly the same one.
const FAILURES_PER_SEED: usize = 5;

/// Cuts of the first level for each seed, unless another number is asked for.
const CUTS_PER_SEED: u64 = 2_500;

/// Which cuts to make behind the operations of the seeds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cuts {
    /// Every command of every operation, in every face.
    All,
    /// About this many over all seeds, drawn evenly, and at least one for each cause in each seed. 0 makes none.
    Count(u64),
}

/// What to check.
#[derive(Clone, PartialEq, Debug)]
pub struct CheckConfig {
    /// Name of the scheme.
    pub scheme: String,
    /// Policy of a write buffer in front of it. Its size, one to two blocks, and its parameters go by seed.
    pub buffer: Option<String>,
    /// Settings that no seed varies: name and text.
    pub settings: Vec<(String, String)>,
    /// Seeds, each a device and a run of its own.
    pub seeds: Range<u64>,
    /// Operations of each run.
    pub operations: u32,
    /// The device; `None`: by seed, one or two dies of 8 to 24 blocks of 4 to 16 pages.
    pub geometry: Option<Geometry>,
    /// Its logical pages; `None`: as many as the scheme takes, or an eighth less.
    pub logical_pages: Option<u32>,
    /// Cuts of the first level.
    pub cuts: Cuts,
    /// One in so many of them is followed by cuts at every command of its recovery; 0: none.
    pub second_level: u64,
    /// The classes of faults.
    pub faults: Faults,
    /// Of these, such that the scheme does not promise to survive: what they show is told, and is no failure.
    pub told: Faults,
    /// Whether pages that share cells are guarded ([`flash::Guard`]), where torn pages take others along.
    pub guarded: bool,
    /// Whether programs are read back ([`flash::Verified`]), where some do not stick.
    pub verified: bool,
    /// Whether pages may be stale after a mount that has said so, where the medium loses pages for good.
    pub excused: bool,
    /// Whether the host leaves the device idle time, where reads and time wear on blocks: without it, none is
    /// refreshed but by chance.
    pub rests: bool,
    /// One in so many of the devices that live on that there are for each seed, 1 at the least.
    pub lives: usize,
    /// One in so many of the devices without a block to spare that there are for each seed; 0: none.
    pub fewest: usize,
    /// Whether to test what the scheme claims of its RAM and of its metadata. If not, no device is saved and
    /// restored either.
    pub honesty: bool,
    /// Whether to stop at the first seed that fails.
    pub fail_fast: bool,
    /// Threads; 0: one for each core.
    pub threads: usize,
}

impl CheckConfig {
    /// A check of a scheme in a few seconds: 32 seeds of 400 operations, and more than 100,000 cuts.
    pub fn new(scheme: &str) -> CheckConfig {
        CheckConfig {
            scheme: scheme.into(),
            buffer: None,
            settings: Vec::new(),
            seeds: 0..32,
            operations: 400,
            geometry: None,
            logical_pages: None,
            cuts: Cuts::Count(32 * CUTS_PER_SEED),
            second_level: 50,
            faults: Faults::promised(scheme),
            told: Faults::NONE,
            guarded: true,
            verified: true,
            excused: true,
            rests: true,
            lives: 1,
            fewest: 1,
            honesty: true,
            fail_fast: false,
            threads: 0,
        }
    }
}

impl CheckConfig {
    /// With so many cuts, and as large a share of the devices without a block to spare: all where each of its seeds,
    /// which are given before, has the cuts that a seed of [`CheckConfig::new`] has; half of them where it has no more
    /// than half of these, a quarter, and so on. The devices of a smaller share are among those of a larger one.
    /// Without any cut there are all of those on which power is not cut.
    #[must_use]
    pub fn with_cuts(self, cuts: Cuts) -> CheckConfig {
        let seeds = self.seeds.end.saturating_sub(self.seeds.start).max(1);
        let share = match cuts {
            Cuts::All | Cuts::Count(0) => 1,
            Cuts::Count(count) => CUTS_PER_SEED.saturating_mul(seeds) / count,
        };
        let fewest = 1 << share.clamp(1, fewest::DEVICES).ilog2();
        CheckConfig { cuts, fewest, ..self }
    }

    /// With these classes of faults. Who asks for all wants to know what the scheme does under each: those that it
    /// does not promise to survive are told, and fail nothing. Who asks for some of them wants those to hold.
    #[must_use]
    pub fn with_faults(self, faults: Faults) -> CheckConfig {
        let told = if faults == Faults::ALL { faults.but(Faults::promised(&self.scheme)) } else { Faults::NONE };
        CheckConfig { faults, told, ..self }
    }

    /// Whether power is cut at all.
    fn cuts_power(&self) -> bool {
        self.faults.contain(FaultClass::Cut) && self.cuts != Cuts::Count(0)
    }
}

/// Why nothing could be checked: the configuration is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CheckError(pub String);

impl fmt::Display for CheckError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CheckError {}

/// Which part of the check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// Operations and power cuts.
    Cuts,
    /// Power cuts with several commands under way, of a controller that lets erases and metadata wait.
    Flight,
    /// The same without that.
    Unordered,
    /// Power cuts of pages that share their cells.
    Paired,
    /// Power cuts that leave cells which read otherwise each time.
    Unstable,
    /// Failing media.
    Media,
    /// The same, where the device is full and goes on.
    Full,
    /// Media that fail now and then.
    Intermittent,
    /// Media that do not give pages back.
    Unreadable,
    /// Media whose programs do not stick.
    Silent,
    /// Media that lose what is read often or kept long.
    Disturb,
    /// Power cuts one after another, on a device that goes on.
    Life,
    /// Sound devices without a block to spare.
    Fewest,
    /// Media that do not give pages back, over mounts.
    Remounts,
    /// The same, and of some pages the spare area neither.
    Spare,
    /// Media that do not give metadata back, over mounts.
    Metadata,
    /// Saving and restoring RAM.
    Ram,
    /// Flipping bits of metadata.
    Flips,
}

impl Part {
    const NAMED: [(Part, &'static str); 17] = [
        (Part::Flight, "flight."),
        (Part::Unordered, "unordered."),
        (Part::Paired, "paired."),
        (Part::Unstable, "unstable."),
        (Part::Media, "media."),
        (Part::Full, "full."),
        (Part::Intermittent, "intermittent."),
        (Part::Unreadable, "unreadable."),
        (Part::Silent, "silent."),
        (Part::Disturb, "disturb."),
        (Part::Life, "life."),
        (Part::Fewest, "fewest."),
        (Part::Remounts, "remounts."),
        (Part::Spare, "spare."),
        (Part::Metadata, "metadata."),
        (Part::Ram, "ram."),
        (Part::Flips, "flips."),
    ];

    /// Whether power is cut in it.
    const fn has_cuts(self) -> bool {
        matches!(self, Part::Cuts | Part::Paired | Part::Unstable) || self.is_in_flight()
    }

    /// Whether a case of it is done again by itself, told, and made short.
    const fn is_told(self) -> bool {
        self.has_cuts() || self.is_medium()
    }

    /// Whether it is runs on media that may fail, in which nothing is branched.
    const fn is_medium(self) -> bool {
        use Part::{Disturb, Full, Intermittent, Life, Media, Silent, Unreadable};
        matches!(self, Media | Full | Intermittent | Unreadable | Silent | Disturb | Life)
    }

    /// Whether a case of it may say in which run it is, or on which device.
    const fn has_runs(self) -> bool {
        self.is_medium() || matches!(self, Part::Fewest)
    }

    /// Whether several commands are under way then.
    const fn is_in_flight(self) -> bool {
        matches!(self, Part::Flight | Part::Unordered)
    }
}

/// What went wrong, and how to see it again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The case, as [`Replay`] reads it; empty if the failure belongs to the check as a whole.
    pub replay: String,
    /// The class of faults that it shows, if it is of one.
    pub class: Option<FaultClass>,
    /// What happened.
    pub what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.replay.is_empty() { f.write_str(&self.what) } else { write!(f, "{}  {}", self.replay, self.what) }
    }
}

/// What the runs on failing media met.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MediaReport {
    /// Operations done.
    pub operations: u64,
    /// Runs that ended with a full device, every acknowledged page still readable.
    pub full: u64,
    /// Operations done on devices that were brought to their last free block, and went on.
    pub brink: u64,
    /// Blocks that went bad on the way.
    pub grown_bad: u64,
    /// Operations done while programs and erases failed now and then.
    pub intermittent: u64,
    /// Operations done while pages could not be read.
    pub unreadable: u64,
    /// Reads that ended in an error, as they should.
    pub errors: u64,
    /// Operations done while programs did not stick.
    pub silent: u64,
    /// Programs that reported success and did not stick.
    pub unstuck: u64,
    /// Operations done while reads and time wore on blocks.
    pub disturbed: u64,
    /// Tired blocks that were refreshed meanwhile.
    pub refreshed: u64,
    /// Blocks that were not, and lost what they held: nothing that counts, where the check holds.
    pub spent: u64,
    /// Power cuts in idle time meanwhile.
    pub idle_cuts: u64,
    /// Operations done on devices that live on over power cuts.
    pub lived: u64,
    /// Those cuts.
    pub life_cuts: u64,
    /// Devices without a block to spare.
    pub spared: u64,
    /// Operations done on these.
    pub fewest: u64,
    /// Power cuts meanwhile.
    pub fewest_cuts: u64,
    /// Operations done while pages were lost, with mounts between them.
    pub over_mounts: u64,
    /// Logical pages that these mounts said may be stale, and those that were.
    pub stale: [u64; 2],
    /// Pages of metadata that were lost, over mounts.
    pub metadata: MetadataReport,
}

/// What became of media that do not give metadata back.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct MetadataReport {
    /// Operations done on them, with mounts between them.
    pub operations: u64,
    /// Pages of metadata that were lost.
    pub lost: u64,
    /// Logical pages that were stale, as mounts had said: discards undone, and pages lost like those in flight.
    pub stale: u64,
}

/// What became of the two claims.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HonestyReport {
    /// Times that the state was saved, dropped and restored, and went on with the same commands.
    pub restores: u64,
    /// The smallest share of the reported RAM that was left over by the saved state, in per mille.
    pub slack_per_mille: Option<u64>,
    /// Metadata pages looked at.
    pub metadata_pages: u64,
    /// Bits flipped in stored words that are in use: erasing the word to ones changes what follows.
    pub flips: u64,
    /// Flips of these that changed what follows, with or without a mount, or were detected.
    pub noticed: u64,
    /// Bits flipped in what the scheme keeps in spare areas, in use or not.
    pub spare_flips: u64,
    /// Flips of these that were noticed.
    pub spare_noticed: u64,
}

/// What was checked and what was found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CheckReport {
    /// Name of the scheme, and of the write buffer in front of it.
    pub scheme: String,
    /// Whether it was stopped before it was through: the counts are those of what was done.
    pub interrupted: bool,
    /// Seeds done.
    pub seeds: u64,
    /// Of these, such whose settings ask for wear levelling.
    pub levelling: u64,
    /// Such whose settings keep erase counts on flash.
    pub wear_kept: u64,
    /// Operations done, those after cuts included.
    pub operations: u64,
    /// Cuts during the operations of the seeds.
    pub cuts: u64,
    /// Cuts during a recovery from one of those.
    pub second_level_cuts: u64,
    /// Of these, such during the recovery from the second of two.
    pub third_level_cuts: u64,
    /// Of those of the first level, such with several commands under way.
    pub flight_cuts: u64,
    /// Commands that were not carried out, or in part, at those.
    pub in_doubt: u64,
    /// Of those of the first level, such on a device whose pages share cells.
    pub paired_cuts: u64,
    /// Of those of the first level, such that left cells which read otherwise each time.
    pub unstable_cuts: u64,
    /// Pages that torn ones took along, and blocks that the guard repaired.
    pub taken: [u64; 2],
    /// All cuts by the cause of the command that was cut: the phases.
    pub by_cause: BTreeMap<Cause, u64>,
    /// All cuts by what the command left behind.
    pub by_face: BTreeMap<&'static str, u64>,
    /// Mounts.
    pub mounts: u64,
    /// Audits of a scheme's invariants.
    pub audits: u64,
    /// Reads held to the oracle.
    pub reads: u64,
    /// Failing media.
    pub media: MediaReport,
    /// The two claims.
    pub honesty: HonestyReport,
    /// What went wrong.
    pub failures: Vec<Failure>,
    /// What went wrong under classes that the scheme does not promise to survive ([`CheckConfig::told`]).
    pub unpromised: Vec<Failure>,
}

impl CheckReport {
    /// Whether nothing went wrong.
    pub fn passed(&self) -> bool {
        self.failures.is_empty()
    }

    fn add_work(&mut self, work: session::Work) {
        self.operations += work.operations;
        self.mounts += work.mounts;
        self.audits += work.audits;
        self.reads += work.reads;
    }

    /// What torn pages took along, and what of it was brought back, since `before`.
    fn add_taken(&mut self, flash: &Bench, before: &Bench) {
        self.taken[0] += flash.inner().taken() - before.inner().taken();
        self.taken[1] += flash.guarded().repaired - before.guarded().repaired;
    }

    fn merge(&mut self, other: CheckReport) {
        self.interrupted |= other.interrupted;
        self.seeds += other.seeds;
        self.levelling += other.levelling;
        self.wear_kept += other.wear_kept;
        self.operations += other.operations;
        self.cuts += other.cuts;
        self.second_level_cuts += other.second_level_cuts;
        self.third_level_cuts += other.third_level_cuts;
        self.flight_cuts += other.flight_cuts;
        self.in_doubt += other.in_doubt;
        self.paired_cuts += other.paired_cuts;
        self.unstable_cuts += other.unstable_cuts;
        self.taken = [0, 1].map(|at| self.taken[at] + other.taken[at]);
        for (cause, count) in other.by_cause {
            *self.by_cause.entry(cause).or_insert(0) += count;
        }
        for (face, count) in other.by_face {
            *self.by_face.entry(face).or_insert(0) += count;
        }
        self.mounts += other.mounts;
        self.audits += other.audits;
        self.reads += other.reads;
        self.media.operations += other.media.operations;
        self.media.full += other.media.full;
        self.media.brink += other.media.brink;
        self.media.grown_bad += other.media.grown_bad;
        self.media.intermittent += other.media.intermittent;
        self.media.unreadable += other.media.unreadable;
        self.media.errors += other.media.errors;
        self.media.silent += other.media.silent;
        self.media.unstuck += other.media.unstuck;
        self.media.disturbed += other.media.disturbed;
        self.media.refreshed += other.media.refreshed;
        self.media.spent += other.media.spent;
        self.media.idle_cuts += other.media.idle_cuts;
        self.media.lived += other.media.lived;
        self.media.life_cuts += other.media.life_cuts;
        self.media.spared += other.media.spared;
        self.media.fewest += other.media.fewest;
        self.media.fewest_cuts += other.media.fewest_cuts;
        self.media.over_mounts += other.media.over_mounts;
        self.media.stale = [0, 1].map(|at| self.media.stale[at] + other.media.stale[at]);
        let MetadataReport { operations, lost, stale } = other.media.metadata;
        self.media.metadata.operations += operations;
        self.media.metadata.lost += lost;
        self.media.metadata.stale += stale;
        self.honesty.restores += other.honesty.restores;
        let slacks = [self.honesty.slack_per_mille, other.honesty.slack_per_mille];
        self.honesty.slack_per_mille = slacks.into_iter().flatten().min();
        self.honesty.metadata_pages += other.honesty.metadata_pages;
        self.honesty.flips += other.honesty.flips;
        self.honesty.noticed += other.honesty.noticed;
        self.honesty.spare_flips += other.honesty.spare_flips;
        self.honesty.spare_noticed += other.honesty.spare_noticed;
        self.failures.extend(other.failures);
        self.unpromised.extend(other.unpromised);
    }

    fn fail(&mut self, replay: Replay, what: String) {
        self.failures.push(Failure { replay: replay.to_string(), class: replay.class(), what });
    }

    /// The check as a whole fails.
    fn fail_all(&mut self, what: String) {
        self.failures.push(Failure { replay: String::new(), class: None, what });
    }

    /// Failures of these classes are told, and are none.
    fn excuse(&mut self, told: Faults) {
        let is_told = |failure: &mut Failure| failure.class.is_some_and(|class| told.contain(class));
        self.unpromised.extend(self.failures.extract_if(.., is_told));
    }

    /// What went wrong under each class that the scheme does not promise to survive: how often, and the first time.
    pub fn told(&self) -> impl Iterator<Item = (FaultClass, usize, &Failure)> {
        FaultClass::ALL.into_iter().filter_map(|class| {
            let mut of = self.unpromised.iter().filter(move |failure| failure.class == Some(class));
            let first = of.next()?;
            Some((class, 1 + of.count(), first))
        })
    }
}

impl fmt::Display for CheckReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match (self.passed(), self.interrupted) {
            (true, false) => "held",
            (true, true) => "interrupted; held so far",
            (false, false) => "FAILED",
            (false, true) => "interrupted; FAILED",
        };
        writeln!(
            f,
            "{}: {verdict} over {} power cuts ({} of them during recovery) on {} devices",
            self.scheme,
            self.cuts + self.second_level_cuts,
            self.second_level_cuts,
            self.seeds
        )?;
        writeln!(
            f,
            "  {} operations, {} mounts, {} audits, {} reads held to the oracle",
            self.operations, self.mounts, self.audits, self.reads
        )?;
        for (cause, count) in &self.by_cause {
            writeln!(f, "  cut in {:<20} {count:>10}", cause.name())?;
        }
        for (face, count) in &self.by_face {
            writeln!(f, "  left   {face:<20} {count:>10}")?;
        }
        if self.third_level_cuts > 0 {
            writeln!(f, "  cut a third time: {} of those during recovery", self.third_level_cuts)?;
        }
        if self.flight_cuts > 0 {
            writeln!(f, "  in flight: {} of the cuts, with {} commands in doubt", self.flight_cuts, self.in_doubt)?;
        }
        if self.paired_cuts > 0 {
            let [taken, repaired] = self.taken;
            writeln!(
                f,
                "  shared cells: {} of the cuts; torn pages took {taken} others, {repaired} blocks were repaired",
                self.paired_cuts
            )?;
        }
        if self.unstable_cuts > 0 {
            writeln!(f, "  unstable cells: left by {} of the cuts", self.unstable_cuts)?;
        }
        let MediaReport { operations, full, grown_bad, intermittent, unreadable, errors, silent, unstuck, .. } =
            self.media;
        if operations > 0 {
            writeln!(
                f,
                "  failing media: {operations} operations, {grown_bad} blocks went bad, {full} devices filled up"
            )?;
        }
        if self.media.brink > 0 {
            writeln!(f, "  devices that are full and go on: {} operations", self.media.brink)?;
        }
        if intermittent > 0 {
            writeln!(f, "  media that fail now and then: {intermittent} operations")?;
        }
        if unreadable > 0 {
            writeln!(f, "  unreadable pages: {unreadable} operations, {errors} reads ended in an error")?;
        }
        if silent > 0 {
            writeln!(f, "  programs that do not stick: {silent} operations, {unstuck} such programs")?;
        }
        if self.media.disturbed > 0 {
            let MediaReport { disturbed, refreshed, spent, idle_cuts, .. } = self.media;
            writeln!(
                f,
                "  tired blocks: {disturbed} operations, {refreshed} blocks refreshed, {spent} spent, {idle_cuts} \
                 power cuts in idle time"
            )?;
        }
        if self.media.lived > 0 {
            let MediaReport { lived, life_cuts, .. } = self.media;
            writeln!(f, "  devices that live on: {lived} operations, {life_cuts} power cuts one after another")?;
        }
        if self.media.spared > 0 {
            let MediaReport { spared, fewest, fewest_cuts, .. } = self.media;
            writeln!(f, "  {spared} devices without a block to spare: {fewest} operations, {fewest_cuts} power cuts")?;
        }
        if self.media.over_mounts > 0 {
            let (operations, [said, stale]) = (self.media.over_mounts, self.media.stale);
            writeln!(f, "  pages lost over mounts: {operations} operations, {stale} pages stale of {said} said to be")?;
        }
        if self.media.metadata.operations > 0 {
            let MetadataReport { operations, lost, stale } = self.media.metadata;
            let what = format!("{operations} operations, {lost} such pages, {stale} pages of the host stale");
            writeln!(f, "  metadata lost over mounts: {what}")?;
        }
        let HonestyReport { restores, slack_per_mille, metadata_pages, flips, noticed, spare_flips, spare_noticed } =
            self.honesty;
        if let Some(slack) = slack_per_mille {
            writeln!(f, "  RAM: restored {restores} times, at least {slack} per mille of what is reported to spare")?;
            if metadata_pages == 0 {
                writeln!(f, "  metadata: none on flash")?;
            } else {
                writeln!(f, "  metadata: {noticed} of {flips} bits flipped in words in use made a difference")?;
            }
            if spare_flips > 0 {
                writeln!(f, "  spare areas: {spare_noticed} of {spare_flips} bits flipped made a difference")?;
            }
        }
        for failure in &self.failures {
            writeln!(f, "  {failure}")?;
        }
        for (class, count, first) in self.told() {
            writeln!(f, "  {}, which it does not promise to survive: {count} findings, as {first}", class.name())?;
        }
        Ok(())
    }
}

thread_local! {
    /// Whether this thread runs a scheme, and where that panicked last.
    static RUNNING: Cell<bool> = const { Cell::new(false) };
    static PANICKED_AT: RefCell<String> = const { RefCell::new(String::new()) };
}

/// What a scheme unwinds with that failed in code of its own, which is no panic: what happened, as a finding.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Raised(pub String);

/// Runs `work`; a panic of the scheme or of the chip under it becomes a finding, and is not printed.
fn guarded<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let others = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if RUNNING.get() {
                let at = info.location().map(|at| format!("{}:{}", at.file(), at.line()));
                PANICKED_AT.set(at.unwrap_or_default());
            } else {
                others(info);
            }
        }));
    });
    let outer = RUNNING.replace(true);
    let result = panic::catch_unwind(AssertUnwindSafe(work));
    RUNNING.set(outer);
    result.unwrap_or_else(|panic| {
        let panic = match panic.downcast::<Raised>() {
            Ok(raised) => return Err(raised.0),
            Err(panic) => panic,
        };
        let text = match panic.downcast::<String>() {
            Ok(text) => *text,
            Err(panic) => panic.downcast_ref::<&str>().map_or("without a message", |text| text).to_string(),
        };
        Err(format!("panic at {}: {text}", PANICKED_AT.take()))
    })
}

/// The scheme that is checked.
trait Subject: Sync {
    /// Does something with its recipe.
    fn visit<V: Visitor<Bench>>(&self, visitor: V) -> V::Output;
}

/// A scheme of the table.
struct Named<'a>(&'a str);

impl Subject for Named<'_> {
    fn visit<V: Visitor<Bench>>(&self, visitor: V) -> V::Output {
        Registry::BUILT_IN.visit_buffered(self.0, visitor).expect("the scheme has a row")
    }
}

/// Another scheme.
struct Own<'a, R>(&'a Scheme<'a>, &'a R);

impl<R: Recipe<Bench> + Sync> Subject for Own<'_, R> {
    fn visit<V: Visitor<Bench>>(&self, visitor: V) -> V::Output {
        visitor.visit(self.0, &Behind(self.1.clone()))
    }
}

/// The scheme's row, if it can be checked.
fn row(config: &CheckConfig) -> Result<&'static ftl::Scheme<'static>, CheckError> {
    let row = schemes::by_name(&config.scheme).ok_or_else(|| {
        let names: Vec<&str> = schemes::SCHEMES.iter().map(|row| row.name).collect();
        CheckError(format!("no scheme {}; there are {}", config.scheme, names.join(", ")))
    })?;
    write_buffer(config)?;
    if row.keeps_data { Ok(row) } else { Err(CheckError(format!("{} keeps no data: nothing to check", row.name))) }
}

/// The row of the write buffer, if there is to be one.
fn write_buffer(config: &CheckConfig) -> Result<Option<&'static BufferRow>, CheckError> {
    let Some(name) = &config.buffer else { return Ok(None) };
    let unknown = || CheckError(format!("no write buffer {name}; there are {}", buffer::NAMES.join(", ")));
    buffer::by_name(name).map(Some).ok_or_else(unknown)
}

fn check_seed(
    subject: &impl Subject,
    config: &CheckConfig,
    seed: u64,
    stop: &AtomicBool,
) -> Result<CheckReport, CheckError> {
    let bed = subject.visit(Lay { config, seed })?;
    let mut report = CheckReport::default();
    report.merge(subject.visit(cuts::CutEverywhere { config, bed: &bed, stop, part: Part::Cuts }));
    for (class, part) in cuts::PARTS {
        let is_asked =
            config.faults.contain(class) || part == Part::Unstable && config.faults.contain(FaultClass::UnstableNested);
        if is_asked && cuts::is_for(part, &bed) {
            report.merge(subject.visit(cuts::CutEverywhere { config, bed: &bed, stop, part }));
        }
    }
    for (class, part) in media::PARTS {
        if config.faults.contain(class) && (part != Part::Life || config.cuts_power()) {
            report.merge(subject.visit(media::OnFailingMedia { config, bed: &bed, stop, part }));
        }
    }
    for (class, part) in remounts::PARTS {
        if config.faults.contain(class) {
            report.merge(subject.visit(remounts::OverMounts { config, bed: &bed, stop, part }));
        }
    }
    report.merge(subject.visit(fewest::OnFewestBlocks { config, seed, stop, only: None }));
    if config.honesty {
        report.merge(subject.visit(honesty::Honest { config, bed: &bed, stop }));
    }
    report.excuse(config.told);
    report.interrupted = stop.load(Ordering::Relaxed);
    report.seeds = u64::from(!report.interrupted);
    report.levelling = u64::from(bed.levels_wear());
    report.wear_kept = u64::from(bed.wear_checkpoint().is_some());
    Ok(report)
}

/// Checks a scheme until it is through or `stop` is raised. What was done until then is in the report too.
///
/// # Errors
/// A configuration that is wrong. What is wrong with the scheme is in the report.
pub fn check(config: &CheckConfig, stop: &AtomicBool) -> Result<CheckReport, CheckError> {
    let row = row(config)?;
    check_subject(&Named(row.name), row, config, stop)
}

/// Checks a scheme that is in no table: the one that `recipe` makes and `row` describes.
///
/// # Errors
/// As [`check`].
pub fn check_recipe<R: Recipe<Bench> + Sync>(
    row: &Scheme<'_>,
    recipe: &R,
    config: &CheckConfig,
    stop: &AtomicBool,
) -> Result<CheckReport, CheckError> {
    write_buffer(config)?;
    check_subject(&Own(row, recipe), row, config, stop)
}

fn check_subject(
    subject: &impl Subject,
    row: &Scheme<'_>,
    config: &CheckConfig,
    stop: &AtomicBool,
) -> Result<CheckReport, CheckError> {
    let cores = || std::thread::available_parallelism().map_or(1, |count| count.get());
    let threads = if config.threads == 0 { cores() } else { config.threads };
    let next = AtomicU64::new(config.seeds.start);
    let failed = AtomicBool::new(false);
    let done = Mutex::new(BTreeMap::new());
    #[expect(clippy::disallowed_methods, reason = "seeds are independent; results do not depend on the threads")]
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let enough = config.fail_fast && failed.load(Ordering::Relaxed);
                    if seed >= config.seeds.end || enough || stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let result = check_seed(subject, config, seed, stop);
                    if result.as_ref().is_ok_and(|report| !report.passed()) {
                        failed.store(true, Ordering::Relaxed);
                    }
                    done.lock().expect("no thread panics while it holds the lock").insert(seed, result);
                }
            });
        }
    });
    let behind = config.buffer.as_ref().map(|name| format!(" behind {name}")).unwrap_or_default();
    let mut report = CheckReport { scheme: format!("{}{behind}", row.name), ..CheckReport::default() };
    for result in done.into_inner().expect("no thread panics while it holds the lock").into_values() {
        report.merge(result?);
    }
    // A part of a check does not show what the whole would have met.
    report.interrupted |= report.seeds < config.seeds.end - config.seeds.start;
    if report.interrupted {
        return Ok(report);
    }
    if config.cuts_power() {
        // Rewrites for another code are a phase of the policy that orders them, where every seed has it.
        let orders = |(name, value): &(String, String)| name == ECC.name && value == "differentiated";
        let is_demanded = |phase: &Cause| match phase {
            Cause::WearLevelling => report.levelling > 0,
            Cause::EccRewrite => config.settings.iter().any(orders),
            _ => true,
        };
        let missed = row.phases.iter().filter(|phase| is_demanded(phase) && !report.by_cause.contains_key(phase));
        let missed = missed
            .map(|phase| format!("no command of phase {} was cut: the check proves nothing about it", phase.name()));
        // Checkpoints of erase counts are metadata of every scheme.
        let is_listed = |cause: &Cause| row.phases.contains(cause) || *cause == Cause::Metadata && report.wear_kept > 0;
        let unlisted = report.by_cause.keys().filter(|cause| !is_listed(cause));
        let unlisted =
            unlisted.map(|cause| format!("commands of phase {} were cut: its row does not list it", cause.name()));
        let failures: Vec<String> = missed.chain(unlisted).collect();
        failures.into_iter().for_each(|what| report.fail_all(what));
    }
    let is_asked = |&(class, _): &(FaultClass, Part)| config.faults.contain(class);
    let asked = cuts::PARTS.iter().any(is_asked) || config.faults.contain(FaultClass::UnstableNested);
    if asked && config.cuts != Cuts::Count(0) && report.cuts == 0 && report.passed() {
        report.fail_all(
            "no power was cut: no device that was drawn can be cut so (several commands under way take two dies, cells \
             that read otherwise durable discards)"
                .into(),
        );
    }
    if report.media.disturbed > 0 && report.media.refreshed == 0 {
        report
            .fail_all("no tired block was refreshed: the check proves nothing about media that wear on blocks".into());
    }
    if report.honesty.flips > 0 && report.honesty.noticed * 4 < report.honesty.flips * 3 {
        let HonestyReport { flips, noticed, .. } = report.honesty;
        let what = format!(
            "of {flips} bits flipped in metadata, {noticed} made a difference: the scheme works from elsewhere"
        );
        report.fail_all(what);
    }
    if report.honesty.spare_flips > 200 && report.honesty.spare_noticed * 50 < report.honesty.spare_flips {
        let HonestyReport { spare_flips, spare_noticed, .. } = report.honesty;
        let what = format!(
            "of {spare_flips} bits flipped in spare areas, {spare_noticed} made a difference: the scheme works from \
             elsewhere"
        );
        report.fail_all(what);
    }
    Ok(report)
}

/// Runs one case again and tells what happens: the device, the operation and its commands, what is on flash, what was
/// allowed and what was read. One line each.
///
/// # Errors
/// A configuration that is wrong, or a case that it does not have.
pub fn replay(config: &CheckConfig, replay: &Replay) -> Result<Vec<String>, CheckError> {
    replay_subject(&Named(row(config)?.name), config, replay)
}

/// [`replay`] of a scheme that is in no table.
///
/// # Errors
/// As there.
pub fn replay_recipe<R: Recipe<Bench> + Sync>(
    row: &Scheme<'_>,
    recipe: &R,
    config: &CheckConfig,
    replay: &Replay,
) -> Result<Vec<String>, CheckError> {
    write_buffer(config)?;
    replay_subject(&Own(row, recipe), config, replay)
}

/// Makes the case of a failure short: leaves out what of the fill, of the operations before its cut and of those after
/// it can go with the same finding. The case that is left, and [`replay`] of it.
///
/// # Errors
/// As [`replay`]; a case that holds, or one of the two claims, of which nothing can be left out.
pub fn shrink(config: &CheckConfig, replay: &Replay) -> Result<(Replay, Vec<String>), CheckError> {
    let subject = Named(row(config)?.name);
    if !replay.part.is_told() {
        return Err(CheckError(format!("case {replay}: only a case of power cuts or of failing media can be shrunk")));
    }
    let bed = bed_of(&subject, config, replay)?;
    let (short, of) =
        shrink::shrink(replay, shrink::MOST_RUNS, |replay| run_again(&subject, config, &bed, replay, false))?;
    let mut lines = replay_subject(&subject, config, &short)?;
    lines.insert(1, of);
    Ok((short, lines))
}

/// A case, done again.
struct Told {
    /// What happened, if that was to be told.
    lines: Vec<String>,
    end: Result<(), String>,
    /// How many requests the fill has, and how many operations come after the cut.
    requests: u32,
    after: u32,
    /// The run, on failing media.
    run: Option<u64>,
}

fn bed_of(subject: &impl Subject, config: &CheckConfig, replay: &Replay) -> Result<bed::Bed, CheckError> {
    let is_long = media::PARTS.iter().chain(&remounts::PARTS).any(|&(_, part)| part == replay.part)
        || replay.part == Part::Fewest;
    let most = if is_long { config.operations.saturating_mul(media::LONGER) } else { config.operations };
    // A device without a block to spare is read and audited behind its last operation.
    if replay.operation >= most && !(replay.part == Part::Fewest && replay.operation == most) {
        let what = format!("case {replay}: there is no operation {} among {most}", replay.operation);
        return Err(CheckError(format!("{what} (as many as with --operations {})", config.operations)));
    }
    if replay.part != Part::Fewest {
        return subject.visit(Lay { config, seed: replay.seed });
    }
    let Some(device) = replay.run.filter(|&device| device < fewest::DEVICES) else {
        let what = format!("there are {} devices to choose from, counted from 0", fewest::DEVICES);
        return Err(CheckError(format!("case {replay}: {what} (fewest.OPERATION.DEVICE)")));
    };
    subject.visit(fewest::LayFewest { config, seed: replay.seed, device })
}

/// A case of power cuts, or of failing media.
fn run_again(
    subject: &impl Subject,
    config: &CheckConfig,
    bed: &bed::Bed,
    replay: &Replay,
    told: bool,
) -> Result<Told, CheckError> {
    if replay.part.has_cuts() {
        subject.visit(cuts::Tell { config, bed, replay, told })
    } else {
        subject.visit(media::Tell { config, bed, replay, told })
    }
}

fn replay_subject(subject: &impl Subject, config: &CheckConfig, replay: &Replay) -> Result<Vec<String>, CheckError> {
    let bed = bed_of(subject, config, replay)?;
    let mut lines = vec![format!("{} {replay}", config.scheme), bed.to_string()];
    if replay.part.is_told() {
        let told = run_again(subject, config, &bed, replay, true)?;
        lines.extend(told.lines);
        lines.push(told.end.err().unwrap_or_else(|| "nothing went wrong".into()));
        return Ok(lines);
    }
    let on = AtomicBool::new(false);
    let report = match replay.part {
        part @ (Part::Remounts | Part::Spare | Part::Metadata) => {
            subject.visit(remounts::OverMounts { config, bed: &bed, stop: &on, part })
        }
        Part::Fewest => {
            let (seed, only) = (replay.seed, replay.run);
            subject.visit(fewest::OnFewestBlocks { config, seed, stop: &on, only })
        }
        _ => subject.visit(honesty::Honest { config, bed: &bed, stop: &on }),
    };
    let failures = report.failures;
    lines.extend(failures.iter().filter(|failure| failure.replay == replay.to_string()).map(|f| f.what.clone()));
    if lines.len() == 2 {
        lines.push("nothing went wrong".into());
    }
    Ok(lines)
}

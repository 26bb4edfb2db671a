//! What a check did and found, and how it is told.

use super::session::Work;
use super::{Bench, FaultClass, Faults, Part, Replay};
use flash::Cause;
use std::collections::BTreeMap;
use std::fmt;

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
    /// Of the failures, such that say what was not met: more cuts, seeds or operations may meet it.
    pub missed: usize,
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
    /// Pages of the host that may be lost at the cuts of [`FaultClass::Unordered`], and such that were.
    pub lost: [u64; 2],
    /// Of those of the first level, such on a device whose pages share cells.
    pub paired_cuts: u64,
    /// Of those of the first level, such that left cells which read otherwise each time.
    pub unstable_cuts: u64,
    /// Pages that torn ones took along, and blocks that the guard repaired.
    pub taken: [u64; 2],
    /// Cuts with one command under way, on cells that are not shared, by the cause of the command that was cut: the
    /// phases.
    pub by_cause: BTreeMap<Cause, u64>,
    /// The same cuts by what the command left behind.
    pub by_face: BTreeMap<&'static str, u64>,
    /// Cuts on devices that go on from what each has left, where the medium does more to the scheme: by the class of
    /// what it does.
    pub on_media: BTreeMap<FaultClass, u64>,
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
    /// What went wrong under classes that the scheme does not promise to survive ([`super::CheckConfig::told`]).
    pub unpromised: Vec<Failure>,
}

impl CheckReport {
    /// Whether nothing went wrong.
    pub fn passed(&self) -> bool {
        self.failures.is_empty()
    }

    pub(super) fn add_work(&mut self, work: Work) {
        self.operations += work.operations;
        self.mounts += work.mounts;
        self.audits += work.audits;
        self.reads += work.reads;
    }

    /// What torn pages took along, and what of it was brought back, since `before`.
    pub(super) fn add_taken(&mut self, flash: &Bench, before: &Bench) {
        self.taken[0] += flash.inner().taken() - before.inner().taken();
        self.taken[1] += flash.guarded().repaired - before.guarded().repaired;
    }

    pub(super) fn merge(&mut self, other: CheckReport) {
        self.interrupted |= other.interrupted;
        self.missed += other.missed;
        self.seeds += other.seeds;
        self.levelling += other.levelling;
        self.wear_kept += other.wear_kept;
        self.operations += other.operations;
        self.cuts += other.cuts;
        self.second_level_cuts += other.second_level_cuts;
        self.third_level_cuts += other.third_level_cuts;
        self.flight_cuts += other.flight_cuts;
        self.in_doubt += other.in_doubt;
        self.lost = [0, 1].map(|at| self.lost[at] + other.lost[at]);
        self.paired_cuts += other.paired_cuts;
        self.unstable_cuts += other.unstable_cuts;
        self.taken = [0, 1].map(|at| self.taken[at] + other.taken[at]);
        for (cause, count) in other.by_cause {
            *self.by_cause.entry(cause).or_insert(0) += count;
        }
        for (face, count) in other.by_face {
            *self.by_face.entry(face).or_insert(0) += count;
        }
        for (class, count) in other.on_media {
            *self.on_media.entry(class).or_insert(0) += count;
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

    /// Power was cut so often where a medium is that of a part.
    pub(super) fn add_cuts_on(&mut self, medium: Part, cuts: u64) {
        if let Some(class) = medium.class().filter(|_| cuts > 0) {
            *self.on_media.entry(class).or_insert(0) += cuts;
        }
    }

    pub(super) fn fail(&mut self, replay: Replay, what: String) {
        self.failures.push(Failure { replay: replay.to_string(), class: replay.class(), what });
    }

    /// The check as a whole fails.
    pub(super) fn fail_all(&mut self, what: String) {
        self.failures.push(Failure { replay: String::new(), class: None, what });
    }

    /// The check is too small to meet this, and so shows nothing about it.
    pub(super) fn miss(&mut self, what: String) {
        self.missed += 1;
        self.fail_all(what);
    }

    /// Failures of these classes are told, and are none.
    pub(super) fn excuse(&mut self, told: Faults) {
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
            (false, false) if self.missed == self.failures.len() => "found nothing, but met too little,",
            (true, false) => "held",
            (true, true) => "interrupted; held so far",
            (false, false) => "FAILED",
            (false, true) => "interrupted; FAILED",
        };
        writeln!(
            f,
            "{}: {verdict} over {} power cuts ({} of them soon after another) on {} devices",
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
        let told: u64 = self.by_cause.values().sum();
        if (1..self.cuts + self.second_level_cuts).contains(&told) {
            writeln!(f, "  {told} of the cuts with one command under way, on cells that are not shared:")?;
        }
        for (cause, count) in &self.by_cause {
            writeln!(f, "  cut in {:<20} {count:>10}", cause.name())?;
        }
        for (face, count) in &self.by_face {
            writeln!(f, "  left   {face:<20} {count:>10}")?;
        }
        if self.third_level_cuts > 0 {
            writeln!(f, "  cut a third time: {} of those that come soon after another", self.third_level_cuts)?;
        }
        if self.flight_cuts > 0 {
            writeln!(f, "  in flight: {} of the cuts, with {} commands in doubt", self.flight_cuts, self.in_doubt)?;
        }
        if self.lost[0] > 0 {
            let [may_be, were] = self.lost;
            writeln!(f, "  without barriers: {were} pages lost, or an earlier version, of {may_be} that may be")?;
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
        for (class, count) in &self.on_media {
            writeln!(f, "  power cuts beside {:<14} {count:>10}", class.name())?;
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

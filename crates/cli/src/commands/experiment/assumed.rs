//! What a report says about how it came about, beside device and workload: a sentence for whatever was decided on the
//! user's behalf or asked for, and the same in figures, so that any run can be made again.

use super::{Experiment, Fitted, Read, Settled, settled};
use crate::args::{self, Fill, OnError, OutOfRange, Partial, Scheduler, Volumes};
use crate::commands::compare::{CACHE, SPREAD};
use crate::units;
use crate::workload::Origin;
use clap::ValueEnum;
use flash::device::{Device, PageTimes};
use ftl::Value;
use ftl::parameters::ECC;
use recordings::Recording;
use sim::experiment::MOST_ROUNDS;
use sim::host::HostModel;
use sim::report::{Fields, LIVE_SHARE, Report, SchemeResult, UNSTEADY_ROUNDS};

/// Page programs from which on it is told beforehand how long it takes to wear a device: some minutes.
const MANY_PROGRAMS: f64 = 1e9;

/// What schemes that pad blocks count their padding under.
const DUMMY_PAGES: &str = "dummy_pages";

/// Spare space beyond what was asked for of which nobody is told, as a share of the flash.
const UNNOTICED: f64 = 0.005;

/// Page programs that a core simulates in a second, about.
const PROGRAMS_PER_SECOND: f64 = 1e7;

/// The share of the flash that is spare, where whole blocks make it another than was asked for.
fn spare(device: &Device) -> Option<String> {
    let spare = 1.0 - f64::from(device.logical_pages) / f64::from(device.geometry.page_count());
    (spare - device.spare > UNNOTICED).then(|| {
        let [spare, asked] = [spare, device.spare].map(|share| 100.0 * share);
        format!("Blocks are whole on every die, so {spare:.1} % of the flash is spare, not {asked:.1} (spare).")
    })
}

impl Experiment<'_> {
    /// What was decided on the user's behalf, a sentence each.
    pub(super) fn assumptions(&self, read: &Read, fitted: &Fitted, host: HostModel) -> Vec<String> {
        let (args, profile) = (self.args, &read.profile);
        let mut all: Vec<String> = self.spec.ageing.sentence(&fitted.device).into_iter().collect();
        if let Some(announcement) = &read.announcement {
            let how = if args.format.is_some() { "read as told" } else { "recognised by content" };
            all.push(format!("Trace format {announcement} ({how})."));
        }
        if let Origin::Recording(recording) = &self.origin {
            let Recording { name, program, file_system, date, .. } = recording;
            all.push(format!(
                "The workload is {program} on {file_system}, recorded on {date}; ftlab recordings {name} explains it."
            ));
        }
        if let Some((line, why)) = &profile.first_skipped {
            all.push(match profile.skipped {
                1 => format!("1 malformed record was skipped; it is record {line}: {why}."),
                many => {
                    let many = units::whole(many);
                    format!("{many} malformed records were skipped; the first is record {line}: {why}.")
                }
            });
        }
        if profile.out_of_order > 0 {
            let furthest = units::time_us(profile.worst_disorder_ns as f64 / 1e3);
            let (arrivals, were) = if profile.out_of_order == 1 { ("arrival", "was") } else { ("arrivals", "were") };
            let count = units::whole(profile.out_of_order);
            all.push(format!(
                "{count} {arrivals} out of order, by up to {furthest}, {were} moved to their predecessor's."
            ));
        }
        if profile.unended {
            all.push(
                "The last line has no line end: if the file was cut short, its last number may be, too.".to_owned(),
            );
        }
        if profile.volumes.len() > 1 {
            all.push(match &args.volumes {
                Volumes::Concat => {
                    format!("{} volumes were laid one behind the other.", units::whole(profile.volumes.len() as u64))
                }
                Volumes::Select(asked) => {
                    let number = args.volumes.adapted().selected(profile);
                    let only = match number.map(|number| (number, &profile.volumes[number].name)) {
                        Some((number, name)) if name != asked => format!("number {number}, {name},"),
                        _ => asked.clone(),
                    };
                    format!("Of {} volumes only {only} was run.", units::whole(profile.volumes.len() as u64))
                }
            });
        }
        all.push(fitted.sentence.clone());
        all.extend(spare(&fitted.device));
        all.push(match (self.plan.partial, args.partial) {
            (Partial::Rmw, _) => "Writes of parts of a page read the rest of it first (--partial rmw).".to_owned(),
            (Partial::Ignore, Some(_)) => "Writes of parts of a page cost a whole one (--partial ignore).".to_owned(),
            (Partial::Ignore, None) => {
                "Writes of parts of a page cost a whole one, as in the twins' papers (--partial ignore).".to_owned()
            }
        });
        all.push(match args.fill {
            Fill::None => "The device was blank at the start (--fill none).".to_owned(),
            Fill::Sequential => "Every page was written once in order before measuring (--fill sequential).".to_owned(),
            Fill::Random => "Every page was written once at random before measuring (--fill random).".to_owned(),
            Fill::Steady => format!(
                "The device was overwritten at random until write amplification was steady, in {MOST_ROUNDS} rounds at \
                 most (--fill steady)."
            ),
            Fill::Trace if profile.writes.requests == 0 => {
                "Every request was served once as a write before measuring (--fill trace). The workload writes \
                 nothing: all that the device held came from reads."
                    .to_owned()
            }
            Fill::Trace => {
                "Every request was served once before measuring, reads too as writes (--fill trace).".to_owned()
            }
        });
        all.extend(self.rhythms());
        let scaled = match args.time_scale {
            1.0 => String::new(),
            factor => format!(", multiplied by {factor} (--time-scale {factor})"),
        };
        let under_way = |depth: u32, of: &str| match depth {
            1 => format!("1 request{of} is always under way"),
            _ => format!("{depth} requests{of} are always under way"),
        };
        for (number, (name, own)) in (1..).zip(&self.flows) {
            all.push(match own {
                HostModel::Open => format!("Requests of flow {number} ({name}) arrive at its own times{scaled}."),
                HostModel::Closed(depth) => format!("{}.", under_way(*depth, &format!(" of flow {number} ({name})"))),
            });
        }
        if !self.flows.is_empty() {
            let mut slowdown =
                "A flow's slowdown is its mean response beside the other flows, divided by its mean response alone."
                    .to_owned();
            if args.warmup > 0 {
                slowdown += " Alone, too, the requests that it had in the warm-up are served first and not measured.";
            }
            all.push(slowdown);
        }
        all.extend(
            Some(match host {
                HostModel::Open => format!("Requests arrive at the workload's times{scaled} (--host open)."),
                HostModel::Closed(depth) => format!("{} (--host closed:{depth}).", under_way(depth, "")),
            })
            .filter(|_| self.flows.is_empty()),
        );
        all.extend(self.queueing());
        if let Some(pause_ns) = args.idle_gc {
            let pause = pause(pause_ns);
            all.push(format!(
                "Schemes work in the background once nothing has been under way for {pause} (--idle-gc {pause})."
            ));
        }
        if args.warmup > 0 {
            let count = units::whole(args.warmup);
            all.push(format!("The first {count} requests are served and not measured (--warmup {}).", args.warmup));
        }
        all.extend(args.until.map(|until| match until {
            args::Until::MeanErases(mean) => format!(
                "The workload was repeated, whole, until blocks had been erased {mean} times on average (--until {}).",
                until_word(until)
            ),
            args::Until::EndOfLife => format!(
                "The workload was repeated until worn blocks left no room; a block endures {} erases after the fill \
                 (--until {}).",
                units::whole(fitted.device.endurance.unwrap_or(0).into()),
                until_word(until)
            ),
        }));
        all.extend(self.coding(&fitted.device));
        all.extend(self.reconstructions());
        let last = args.seed.wrapping_add(u64::from(args.repeat) - 1);
        all.push(match args.repeat {
            1 => format!("Everything random follows seed {}.", args.seed),
            _ => format!("Everything random follows seeds {} to {last}, one per repetition.", args.seed),
        });
        all
    }

    /// How collections are dealt over time, and which schemes have no choice in it.
    fn rhythms(&self) -> Vec<String> {
        let mut named: [Vec<&str>; 3] = Default::default();
        for row in self.plan.combinations.iter().filter_map(|one| settled(one, self.args.seed, self.schemes).ok()) {
            let spread = row.settings.get(SPREAD).map(|spread| spread == Value::Switch(true));
            let names = &mut named[spread.map_or(2, usize::from)];
            if !names.contains(&row.row.name) {
                names.push(row.row.name);
            }
        }
        let alone = named.iter().filter(|names| !names.is_empty()).count() == 1;
        let [whole, spread, merging] = named.map(|names| names.join(", "));
        let of = |names: &str| if alone { String::new() } else { format!(" of {names}") };
        let mut all = Vec::new();
        if !whole.is_empty() {
            all.push(format!(
                "Collections{} run whole: a request that sets one off waits until enough blocks are free \
                 (--rhythm whole).",
                of(&whole)
            ));
        }
        if !spread.is_empty() {
            all.push(format!("Collections{} are dealt over the writes that follow (--rhythm spread).", of(&spread)));
            if !merging.is_empty() {
                all.push(format!("Merges and collections of {merging} run whole: they have no other rhythm."));
            }
        }
        all
    }

    /// How commands queue, where the runs do not differ in it and so do not say it themselves.
    fn queueing(&self) -> Option<String> {
        let mut schedulers = self.plan.combinations.iter().map(|combination| combination.scheduler);
        let first = schedulers.next()?;
        let how = match first {
            Scheduler::Fcfs => return None,
            Scheduler::InOrder => "in the order in which they were issued",
            Scheduler::ReadFirst => "reads that the host waits for first",
            Scheduler::Suspend => {
                "reads that the host waits for first, also before programs and erases that have begun"
            }
        };
        schedulers
            .all(|other| other == first)
            .then(|| format!("Flash commands queue, {how} (--scheduler {}).", first.name()))
    }

    /// Which schemes are not their papers' in every detail, for want of the paper.
    fn reconstructions(&self) -> Option<String> {
        let mut schemes: Vec<&str> =
            self.rows.iter().filter(|row| row.row.is_reconstruction()).map(|row| row.row.name).collect();
        schemes.dedup();
        (!schemes.is_empty()).then(|| {
            let names = schemes.join(", ");
            format!("{names}: a reconstruction from summaries of its paper (ftlab schemes {}).", schemes[0])
        })
    }

    /// Which schemes decide how pages are programmed on a device on which it makes no difference.
    fn coding(&self, device: &Device) -> Option<String> {
        let t = &device.timing;
        let normal = PageTimes { read_ns: t.read_ns, program_ns: t.program_ns };
        if [t.low_cost, t.medium].iter().any(|&times| times != normal) {
            return None;
        }
        let policy = |row: &Settled| row.settings.get(ECC.name).filter(|&word| word != Value::Word("none"));
        let mut schemes: Vec<&str> =
            self.rows.iter().filter(|row| policy(row).is_some()).map(|row| row.row.name).collect();
        schemes.dedup();
        (!schemes.is_empty()).then(|| {
            format!(
                "Pages take {} the same time in every mode, so no policy about them (ecc, of {}) can change a time.",
                device.name,
                schemes.join(", ")
            )
        })
    }

    /// What was run beside device, workload and schemes, so that it can be run again. What was not asked for and does
    /// not apply is absent.
    pub(super) fn run_fields(&self, host: HostModel) -> Fields {
        let args = self.args;
        let fill = args.fill.to_possible_value().map(|word| word.get_name().to_owned()).unwrap_or_default();
        let mut fields = Fields::from([("fill".to_owned(), fill.into())]);
        let mut put = |key: &str, value: Option<serde_json::Value>| {
            fields.extend(value.map(|value| (key.to_owned(), value)));
        };
        let partial = if self.plan.partial == Partial::Rmw { "rmw" } else { "ignore" };
        put("partial", Some(partial.into()));
        // Each flow says its own.
        put("host", self.flows.is_empty().then(|| host.to_string().into()));
        put("time_scale", (args.time_scale != 1.0).then(|| args.time_scale.into()));
        put("warmup", (args.warmup > 0).then(|| args.warmup.into()));
        put("limit", args.limit.map(Into::into));
        put("until", args.until.map(|until| until_word(until).into()));
        put("idle_gc_us", args.idle_gc.map(|pause_ns| (pause_ns as f64 / 1e3).into()));
        put("mount_cost", args.mount_cost.then(|| true.into()));
        put("format", args.format.as_deref().map(Into::into));
        put("on_error", (args.on_error == OnError::Skip).then(|| "skip".into()));
        if let Volumes::Select(volume) = &args.volumes {
            put("volumes", Some(format!("select={volume}").into()));
        }
        let word = |way: OutOfRange| way.to_possible_value().map(|word| word.get_name().to_owned());
        put("out_of_range", args.out_of_range.and_then(word).map(Into::into));
        fields
    }

    /// How long it takes to wear a device as far as asked for, if it takes long.
    pub(super) fn wearing(&self, device: &Device) -> Option<String> {
        let erases = match self.args.until? {
            args::Until::MeanErases(mean) => mean,
            args::Until::EndOfLife => f64::from(device.endurance?),
        };
        let blocks = device.geometry.block_count();
        let programs = erases * f64::from(blocks) * f64::from(device.geometry.pages_per_block);
        (programs >= MANY_PROGRAMS).then(|| {
            let (count, seconds) = (units::whole(blocks.into()), programs / PROGRAMS_PER_SECOND);
            let time = if seconds < 5400.0 { (seconds / 60.0, "minutes") } else { (seconds / 3600.0, "hours") };
            let end = self.args.until == Some(args::Until::EndOfLife);
            format!(
                "{count} blocks are erased {}{} times each: up to {programs:.1e} page programs of every run, of which \
                 a core does ten million a second, so about {} {}{}",
                if end { "up to " } else { "" },
                units::number(erases),
                units::number(time.0),
                time.1,
                if end { " (--device NAME:endurance=N makes it shorter)" } else { "" },
            )
        })
    }

    /// Which schemes padded blocks for a device that wants their pages programmed in order, and by how many pages.
    pub(super) fn padding(&self, device: &Device, report: &Report) -> Option<String> {
        let padded = |(row, result): (&Settled, &SchemeResult)| {
            let dummies = result.extra.get(DUMMY_PAGES)?.as_u64().filter(|&dummies| dummies > 0)?;
            Some(format!("{} {}", row.row.name, units::whole(dummies)))
        };
        let mut schemes: Vec<String> = self.rows.iter().zip(&report.results).filter_map(padded).collect();
        schemes.dedup();
        (!schemes.is_empty()).then(|| {
            format!(
                "{name} takes the pages of a block in order. Where a page goes to its own place in a block, dummy \
                 pages fill what is blank below it, and neither the host nor a partial merge can write there any \
                 more: {} dummy pages (--device {name}:order=any needs none).",
                schemes.join(", "),
                name = device.name
            )
        })
    }

    /// How large the mapping caches are that nobody sized.
    pub(super) fn caches(&self, report: &Report) -> Option<String> {
        let mut sizes: Vec<String> = self
            .rows
            .iter()
            .zip(&report.results)
            .filter(|(row, _)| row.settings.get(CACHE) == Some(Value::Count(0)))
            .filter_map(|(row, result)| {
                let own = |name| result.sram.get(name).copied();
                let bytes = own("mapping cache")? + own("translation directory").unwrap_or(0);
                Some(format!("{} {}", row.row.name, units::bytes(bytes)))
            })
            .collect();
        // Runs that differ in something else have the same.
        sizes.dedup();
        (!sizes.is_empty()).then(|| {
            format!(
                "Mapping cache and directory hold what a block map of the device would take, or the least that works: \
                 {} (--cache sets them).",
                sizes.join(", ")
            )
        })
    }
}

/// How much of the device held data when counting started, which was the same for every scheme that got so far.
pub(super) fn live(report: &Report) -> Option<String> {
    let share = report.results.iter().find_map(|result| result.extra.get(LIVE_SHARE)?.as_f64())?;
    let part = match share * 100.0 {
        0.0 => "None".to_owned(),
        100.0 => "All".to_owned(),
        percent if percent < 0.1 => "Less than 0.1 %".to_owned(),
        percent if percent > 99.9 => "More than 99.9 %".to_owned(),
        percent => format!("{percent:.1} %"),
    };
    Some(format!("{part} of the logical pages held data when counting started."))
}

/// Under which schemes write amplification was not steady when a steady fill ended.
pub(super) fn unsteady(report: &Report) -> Option<String> {
    let rounds = |result: &SchemeResult| result.extra.get(UNSTEADY_ROUNDS)?.as_u64();
    let of = |result: &SchemeResult| Some((rounds(result)?, result.scheme.clone()));
    let (rounds, mut schemes): (Vec<u64>, Vec<String>) = report.results.iter().filter_map(of).unzip();
    schemes.dedup();
    let after = rounds.first()?;
    Some(format!("After {after} rounds write amplification was not steady yet: {}.", schemes.join(", ")))
}

/// How long the workload is repeated, as on the command line.
fn until_word(until: args::Until) -> String {
    match until {
        args::Until::MeanErases(mean) => format!("mean-erases={mean}"),
        args::Until::EndOfLife => "end-of-life".to_owned(),
    }
}

/// A time in the largest unit that keeps it whole, as on the command line: `3ms`.
fn pause(ns: u64) -> String {
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1000, "us"), (1, "ns")];
    let (each, unit) = units.into_iter().find(|(each, _)| ns.is_multiple_of(*each)).unwrap_or((1, "ns"));
    format!("{}{unit}", ns / each)
}

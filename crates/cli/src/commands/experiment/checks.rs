//! What cannot be asked for together, with what to ask for instead.

use super::settled::{Settled, settled};
use super::{Experiment, Read};
use crate::args::{self, Host, Scheduler};
use crate::commands::compare::{Combination, Plan};
use crate::error::CliError;
use crate::session::Schemes;
use crate::workload::{Origin, Space};
use flash::Pairing;
use flash::device::{Device, MultiPlane, Overrides, Server};

/// Whether commands can queue as asked on this device.
pub(super) fn check_schedulers(plan: &Plan, overrides: &Overrides, device: &Device) -> Result<(), CliError> {
    let refuse = |scheduler: Scheduler, what: String| {
        Err(CliError::new(what).within(format_args!("--scheduler {}", scheduler.name())))
    };
    for scheduler in plan.combinations.iter().map(|combination| combination.scheduler) {
        if scheduler == Scheduler::Fcfs {
            continue;
        }
        if device.server == Server::Single {
            let what = format!(
                "{} executes one command after another (server = single), so nothing can queue; give --device \
                 {0}:server=parallel, or leave --scheduler out",
                device.name
            );
            return refuse(scheduler, what);
        }
        if scheduler == Scheduler::Suspend && device.features.suspend.is_none() {
            let what = format!(
                "{} cannot suspend programs and erases; give the times that it takes, as in --device \
                 {0}:suspend_program_us=20,suspend_erase_us=50",
                device.name
            );
            return refuse(scheduler, what);
        }
    }
    let schedulers = || plan.combinations.iter().map(|combination| combination.scheduler);
    let queues = schedulers().any(|scheduler| scheduler != Scheduler::Fcfs);
    let suspends = schedulers().any(|scheduler| scheduler == Scheduler::Suspend);
    for (key, asked, of_use) in [
        ("suspend_program_us", overrides.suspend_program_us.is_some(), suspends),
        ("multi_plane", overrides.multi_plane.is_some_and(|rule| rule != MultiPlane::Off), queues),
        ("copy_back", overrides.copy_back == Some(true), queues),
        ("cache_read", overrides.cache_read == Some(true), queues),
        ("cache_program", overrides.cache_program == Some(true), queues),
    ] {
        if asked && !of_use {
            let scheduler = if key == "suspend_program_us" { Scheduler::Suspend } else { Scheduler::InOrder };
            let what = format!("{key} has no effect here; add --scheduler {}", scheduler.name());
            return Err(CliError::new(what).within("--device"));
        }
    }
    let one_by_one = device.server == Server::Single || device.geometry.die_count() == 1 && !queues;
    if overrides.barriers == Some(true) && one_by_one {
        let what = format!(
            "barriers has no effect here: {} executes one command after another; give it dies that work beside each \
             other, as in --device {0}:server=parallel,channels=4",
            device.name
        );
        return Err(CliError::new(what).within("--device"));
    }
    if overrides.paired.is_some_and(|order| order != Pairing::Off) {
        let what = "paired has no effect here, where power never fails; it is for ftlab image create";
        return Err(CliError::new(what).within("--device"));
    }
    if overrides.multi_plane.is_some_and(|rule| rule != MultiPlane::Off) && device.geometry.planes == 1 {
        let what =
            format!("multi_plane has no effect here: dies of {} have one plane; give them planes=2", device.name);
        return Err(CliError::new(what).within("--device"));
    }
    Ok(())
}

/// Whether every parameter that is set has an effect beside the others, in one of the runs of its scheme at least.
pub(super) fn check_of_use(combinations: &[Combination], schemes: &dyn Schemes) -> Result<(), CliError> {
    let rows: Vec<Settled> = combinations.iter().map(|one| settled(one, 1, schemes)).collect::<Result<_, _>>()?;
    for combination in combinations {
        let own = || rows.iter().filter(|settled| settled.row.name == combination.scheme);
        for name in combination.settings.keys() {
            let refusals: Option<Vec<String>> =
                own().map(|settled| ftl::without_effect(&settled.settings, [name.as_str()])).collect();
            if let Some(what) = refusals.and_then(|refusals| refusals.into_iter().next()) {
                return Err(CliError::new(what).within(format_args!("--set {}", combination.scheme)));
            }
        }
    }
    Ok(())
}

/// Whether requests can arrive as asked: at the times of the workload only if it has some.
pub(super) fn check_times(origin: &Origin, asked: Option<Host>, timed: bool) -> Result<(), CliError> {
    if timed || asked != Some(Host::Open) {
        return Ok(());
    }
    let (name, closed) = (origin.name(), "or have a closed loop, closed:32");
    let open = format!("in an open loop all of {name} would arrive at once, for it has no times");
    Err(CliError::new(match origin.space() {
        Space::Requests => format!("{open}; {closed}"),
        _ => {
            let separator = if name.contains(':') { ',' } else { ':' };
            format!("{open}; give it some, as in {name}{separator}arrival=poisson,rate=1000, {closed}")
        }
    }))
}

impl Experiment<'_> {
    /// Whether the workload can be repeated until the device is worn.
    pub(super) fn check_until(&self, read: &Read, device: &Device) -> Result<(), CliError> {
        let args = self.args;
        let Some(until) = args.until else { return Ok(()) };
        let refuse = |what: &str| Err(CliError::new(what).within("--until"));
        if read.profile.writes.requests == 0 {
            return refuse("the workload writes nothing: it wears no block, however often it is repeated");
        }
        if args.warmup > 0 {
            return refuse("the requests of a warm-up would be repeated too; leave --warmup out");
        }
        if !read.in_memory {
            return refuse("the workload does not fit in memory, from where it is repeated; give --limit");
        }
        if self.rows.iter().any(|row| !row.row.keeps_data) {
            return refuse("the scheme null erases nothing; leave it out");
        }
        if until == args::Until::EndOfLife && device.endurance.is_none() {
            return refuse(&format!(
                "how often a block of {} can be erased is not known; give --device {0}:endurance=N",
                device.name
            ));
        }
        Ok(())
    }
}

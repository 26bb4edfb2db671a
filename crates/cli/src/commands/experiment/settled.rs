//! A combination's scheme with all of its parameters, and whether it can be built.

use super::rounds::run_error;
use crate::commands::compare::{CACHE, Combination};
use crate::error::CliError;
use crate::session::Schemes;
use flash::device::Device;
use ftl::{Scheme, Settings, Value, buffer, plug_policy};
use sim::experiment::{Config, PartialPages, Unobserved};
use sim::workload::{Intake, Request, Source, WorkloadError};
use std::collections::BTreeMap;

/// A combination's row and its parameters, all of them.
#[derive(Clone, Debug)]
pub(crate) struct Settled {
    pub(super) row: &'static Scheme<'static>,
    pub(super) settings: Settings,
    /// The seed follows the run's.
    pub(super) seeded: bool,
}

pub(crate) fn settled(combination: &Combination, seed: u64, schemes: &dyn Schemes) -> Result<Settled, CliError> {
    let rows = schemes.rows();
    let unknown = || CliError::unknown("scheme", &combination.scheme, rows.iter().map(|row| row.name));
    let row = *rows.iter().find(|row| row.name == combination.scheme).ok_or_else(unknown)?;
    let mut settings = row.settings();
    let mut set = |name: &str, text: &str, flag: String| {
        settings.set(name, text).map_err(|what| CliError::new(what).within(flag))
    };
    for (name, text) in &combination.settings {
        let in_bytes = row.parameter(name).is_some_and(|parameter| parameter.unit == "bytes");
        let bytes = sim::units::parse_bytes(text).ok().filter(|_| in_bytes).map(|bytes| bytes.to_string());
        set(name, bytes.as_deref().unwrap_or(text), format!("--set {}", row.name))?;
    }
    if let Some(bytes) = combination.cache {
        set(CACHE, &bytes.to_string(), "--cache".to_owned())?;
    }
    if let Some(policy) = &combination.gc {
        match schemes.policies().into_iter().find(|added| added.name == *policy) {
            Some(added) => plug_policy(&mut settings, added),
            None => set("gc", policy, "--gc".to_owned())?,
        }
    }
    if let Some((policy, bytes)) = &combination.buffer {
        let buffer = buffer::by_name(policy).expect("a plan names write buffers of the table");
        buffer::add_to(&mut settings, buffer, *bytes);
        for (name, text) in &combination.buffer_settings {
            let set = settings.set(name, text);
            set.map_err(|what| CliError::new(what).within(format_args!("--set {policy}")))?;
        }
    }
    let seeded = settings.get("seed").is_some() && !combination.settings.contains_key("seed");
    if seeded {
        settings.put("seed", Value::Count(seed));
    }
    Ok(Settled { row, settings, seeded })
}

/// Builds a scheme on a device, to know that it can be built. Its RAM by structure, bytes.
///
/// # Errors
/// What does not fit.
pub(in crate::commands) fn try_on(
    Settled { row, settings, .. }: &Settled,
    device: &Device,
    schemes: &dyn Schemes,
) -> Result<BTreeMap<String, u64>, CliError> {
    let config = Config { partial: PartialPages::Ignore, ..Config::new(row.name, settings.clone(), device.clone()) };
    let built = schemes.run(&config, &mut Nothing(Intake::default()), &mut Unobserved).map_err(run_error)?;
    Ok(built.result.sram)
}

pub(in crate::commands) fn json_value(value: Value) -> serde_json::Value {
    match value {
        Value::Count(count) => count.into(),
        Value::Real(number) => number.into(),
        Value::Switch(on) => on.into(),
        Value::Word(word) => word.into(),
    }
}

/// No requests.
struct Nothing(Intake);

impl Source for Nothing {
    fn fill(&mut self, _: &mut Vec<Request>, _: usize) -> Result<(), WorkloadError> {
        Ok(())
    }

    fn intake(&self) -> &Intake {
        &self.0
    }

    fn timed(&self) -> bool {
        false
    }
}

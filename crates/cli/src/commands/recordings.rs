//! `ftlab recordings`: the recordings that are on board. What they are is told by their rows; what they are like is
//! computed from their requests.

use super::Ended;
use super::trace::facts;
use crate::args::RecordingsArgs;
use crate::error::CliError;
use crate::open::{RECORDING, Trace, open_recording, recording};
use crate::output::{self, Outputs};
use crate::render::text::{align, new_table, trimmed, wrap};
use crate::units;
use recordings::{RECORDINGS, Recording};
use serde::Serialize;
use sim::workload::character::Character;
use sim::workload::profile::Profile;
use std::io::Write;

/// Lists them, or explains one.
///
/// # Errors
/// No recording of this name, one that is damaged, a file that cannot be written.
pub(super) fn recordings(args: &RecordingsArgs, stdout: &mut dyn Write) -> Result<Ended, CliError> {
    if let Some(path) = &args.json {
        Outputs::default().claim("--json", path)?;
    }
    let (text, json) = match &args.name {
        None => {
            let all = RECORDINGS.iter().map(Examined::at_a_glance).collect::<Result<Vec<_>, _>>()?;
            (list(&all), serde_json::to_string_pretty(&all))
        }
        Some(name) => {
            // The name may be given as a workload is.
            let spec = format!("{RECORDING}:{}", name.strip_prefix("recording:").unwrap_or(name));
            let found = recording(&spec).map_err(|error| CliError::new(error.what))?;
            let found = found.ok_or_else(|| CliError::new(format_args!("{name} is no recording")))?;
            let examined = Examined::whole(found)?;
            (explain(&examined), serde_json::to_string_pretty(&examined))
        }
    };
    if let Some(path) = &args.json {
        output::write_file(path, (json.map_err(CliError::new)? + "\n").as_bytes())?;
    }
    crate::print(stdout, &text).map(|()| Ended::Done)
}

/// The recordings at a glance, as the JSON of `ftlab recordings --json`.
///
/// # Errors
/// One that is damaged.
pub fn listed() -> Result<String, CliError> {
    let all = RECORDINGS.iter().map(Examined::at_a_glance).collect::<Result<Vec<_>, _>>()?;
    serde_json::to_string(&all).map_err(CliError::new)
}

/// A recording with what its requests show.
#[derive(Serialize)]
struct Examined {
    name: &'static str,
    description: &'static str,
    program: &'static str,
    version: &'static str,
    command: &'static [&'static str],
    file_system: &'static str,
    mount_options: &'static str,
    kernel: &'static str,
    date: &'static str,
    recorder: &'static str,
    size: &'static str,
    seed: u64,
    capacity_bytes: u64,
    memory_bytes: u64,
    limits: &'static str,
    stored_bytes: u64,
    /// How often the recorded device was overwritten: bytes written over bytes that it exports.
    device_overwrites: f64,
    /// How often what was written was overwritten: bytes written over those of the written footprint.
    footprint_overwrites: f64,
    profile: Profile,
    /// Of one recording that is explained; for all it would take seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    character: Option<Character>,
}

impl Examined {
    fn whole(recording: &'static Recording) -> Result<Self, CliError> {
        let character = Character::of(open_recording(recording, None)?.source.as_mut())?;
        Ok(Self { character: Some(character), ..Self::at_a_glance(recording)? })
    }

    fn at_a_glance(recording: &'static Recording) -> Result<Self, CliError> {
        let Trace { mut source, .. } = open_recording(recording, None)?;
        let profile = Profile::of(source.as_mut(), 4096)?;
        let Recording { name, description, program, version, command, file_system, mount_options, .. } = *recording;
        let Recording { kernel, date, recorder, size, seed, capacity_bytes, memory_bytes, limits, .. } = *recording;
        let written = profile.writes.bytes as f64;
        Ok(Self {
            name,
            description,
            program,
            version,
            command,
            file_system,
            mount_options,
            kernel,
            date,
            recorder,
            size,
            seed,
            capacity_bytes,
            memory_bytes,
            limits,
            stored_bytes: recording.stored_bytes(),
            device_overwrites: written / capacity_bytes.max(1) as f64,
            footprint_overwrites: written / profile.written_footprint_bytes.max(1) as f64,
            profile,
            character: None,
        })
    }
}

fn list(all: &[Examined]) -> String {
    let mut table = new_table();
    table.set_header([
        "recording\n",
        "program\n",
        "file\nsystem",
        "\nrequests",
        "read\n%",
        "write\n%",
        "trim\n%",
        "\nfootprint",
        "device\nwritten",
    ]);
    for one in all {
        let profile = &one.profile;
        let percent = |part: u64| units::number(100.0 * part as f64 / profile.requests.max(1) as f64);
        table.add_row([
            one.name.to_owned(),
            one.program.to_owned(),
            one.file_system.to_owned(),
            units::whole(profile.requests),
            percent(profile.reads.requests),
            percent(profile.writes.requests),
            percent(profile.trims.requests),
            units::bytes(profile.footprint_bytes),
            format!("{}×", units::number(one.device_overwrites)),
        ]);
    }
    align(&mut table, 3);
    let last = "The rest of the requests are flushes. Run one with ftlab compare --workload recording:NAME; \
                ftlab recordings NAME explains it.";
    format!("{}\n{}", trimmed(&table), wrap(last, ""))
}

fn explain(one: &Examined) -> String {
    let profile = &one.profile;
    let mut lines = vec![
        ("program", format!("{}; {}", one.program, one.version)),
        ("file system", format!("{} ({}), {}", one.file_system, one.mount_options, one.kernel)),
    ];
    lines.extend(one.command.iter().map(|&command| ("command", command.to_owned())));
    lines.push(("recorded", format!("{} by {}; size {}, seed {}", one.date, one.recorder, one.size, one.seed)));
    let (device, memory) = (units::bytes(one.capacity_bytes), units::bytes(one.memory_bytes));
    lines.push(("machine", format!("a device that exports {device}; {memory} of memory")));
    lines.push(("limits", one.limits.to_owned()));
    let each = one.stored_bytes as f64 / profile.requests.max(1) as f64;
    lines.push(("stored", format!("{}, {each:.2} bytes a request", units::bytes(one.stored_bytes))));
    let mut text = wrap(&format!("{}: {}", one.name, one.description), "  ");
    text += &lines.iter().map(|(label, value)| wrap(&format!("{label}: {value}"), "  ")).collect::<String>();
    let (device, footprint) = (units::number(one.device_overwrites), units::number(one.footprint_overwrites));
    let mut more = vec![format!(
        "overwrites: {device} times the bytes of the device were written, {footprint} times those that were written at \
         all"
    )];
    more.extend(one.character.as_ref().and_then(arrivals));
    more.extend(one.character.as_ref().map(reuse));
    let more = more.iter().map(|line| wrap(line, "  ")).collect::<String>();
    text + "\n" + &more + &facts(profile)
}

/// How requests bunch.
fn arrivals(character: &Character) -> Option<String> {
    let variation = character.interarrival_variation?;
    let windows = character.dispersion.iter().map(|one| {
        format!("{} in windows of {}", units::number(one.index), units::time_us(one.window_ns as f64 / 1e3))
    });
    let windows = windows.collect::<Vec<_>>().join(", ");
    let counts = if windows.is_empty() { String::new() } else { format!("; index of dispersion {windows}") };
    let gaps = units::number(variation);
    Some(format!("arrivals: squared variation of the times between them {gaps}{counts} (1 for independent arrivals)"))
}

/// How soon addresses come back.
fn reuse(character: &Character) -> String {
    let first = 100.0 * character.first_accesses as f64 / character.accesses.max(1) as f64;
    let within =
        character.reuse.iter().map(|one| format!("{} % within {}", one.percent, units::bytes(one.within_bytes)));
    let within = within.collect::<Vec<_>>().join(", ");
    let others =
        if within.is_empty() { String::new() } else { format!("; of the others come back {within} of others") };
    format!("reuse: {} % of the accesses to 4 KiB are the first{others}", units::number(first))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::text::WIDTH;
    use crate::testing::Directory;

    fn printed(name: Option<&str>, json: Option<&std::path::Path>) -> Result<String, CliError> {
        let mut text = Vec::new();
        let args = RecordingsArgs { name: name.map(str::to_owned), json: json.map(std::path::Path::to_owned) };
        recordings(&args, &mut text)?;
        Ok(String::from_utf8(text).unwrap())
    }

    #[test]
    fn recordings_are_listed_and_explained_within_the_width() {
        let directory = Directory::new();
        let path = directory.join("all.json");
        let list = printed(None, Some(&path)).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(json.as_array().map(Vec::len), Some(RECORDINGS.len()));
        for (recording, json) in RECORDINGS.iter().zip(json.as_array().unwrap()) {
            assert_eq!(json["name"], recording.name);
            assert_eq!(json["profile"]["sha256"], recording.sha256);
            assert!(list.contains(recording.name), "{list}");
        }
        // Short ones, for the sake of time.
        for name in ["servers-mail", "servers-web", "postmark"] {
            let text = printed(Some(name), None).unwrap();
            for line in list.lines().chain(text.lines()) {
                assert!(line.chars().count() <= usize::from(WIDTH), "{line}");
            }
            let sha256 = recordings::by_name(name).unwrap().sha256;
            for word in
                ["program: ", "command: ", "recorded: ", "limits: ", "overwrites: ", "arrivals: ", "reuse: ", sha256]
            {
                assert!(text.contains(word), "{word}\n{text}");
            }
        }
    }

    #[test]
    fn an_unknown_recording_is_told_with_the_nearest() {
        for recording in RECORDINGS {
            let error = printed(Some(&format!("{}x", recording.name)), None).unwrap_err();
            assert!(error.message().ends_with("\"?"), "{error}");
        }
        let error = printed(Some("no-such-thing"), None).unwrap_err();
        assert!(error.message().starts_with("unknown recording \"no-such-thing\""), "{error}");
    }
}

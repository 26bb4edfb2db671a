//! `ftlab reliability`: bit errors over a chip's life, and the codes that bear them.
//!
//! Everything is refused before anything is printed: codes that do not exist or do not fit beside the page's metadata,
//! ages at which the model says nothing, each with the sum that shows it. Results are computed once, as data
//! (`Findings`), of which the tables and the JSON are two faces.

use super::Ended;
use super::experiment::{device_fields, device_spec};
use crate::args::{LatencyProfile, ProgramMode, ReliabilityArgs};
use crate::error::CliError;
use crate::output::{self, Outputs};
use crate::render::text::{align, new_table, trimmed, wrap};
use crate::units;
use ::reliability::cells::{self, Age, AgeError, Mode, Retention};
use ::reliability::chip::{METADATA_BYTES, Rber};
use ::reliability::latency::{self, FrameErrors, Profile, ReadParts};
use ::reliability::{Chip, ChipError, Code, CodeSpec, Fitted, trial};
use flash::device::Device;
use serde_json::{Map, Value, json};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Version of the JSON.
const SCHEMA: u32 = 1;

/// Bytes of data that the device of the sums exports; nothing here depends on it.
const CAPACITY: u64 = 1 << 30;

/// What becomes of pages of one mode at one age.
struct Finding {
    mode: Mode,
    age: Age,
    rber: Rber,
    program_ns: u64,
}

struct Findings {
    device: Device,
    chip: Chip,
    profile: Profile,
    codes: Vec<Fitted>,
    pages: Vec<Finding>,
}

/// Prints what the arguments ask for.
///
/// # Errors
/// A device without cells of two bits, a code that does not fit, an age beyond the model, an unwritable file.
pub(super) fn reliability(args: &ReliabilityArgs, stdout: &mut dyn Write) -> Result<Ended, CliError> {
    if args.constants {
        return crate::print(stdout, &constants()).map(|()| Ended::Done);
    }
    if let Some(path) = &args.alist {
        return alist(&args.code, path, stdout);
    }
    if let Some(path) = &args.derive_latencies {
        return derive(args, path, stdout);
    }
    if let Some(path) = &args.json {
        Outputs::beside([("the device", Path::new(&args.device))]).claim("--json", path)?;
    }
    let Answer { text, json } = computed(args)?;
    if let Some(path) = &args.json {
        output::write_file(path, json.as_bytes())?;
    }
    crate::print(stdout, &text).map(|()| Ended::Done)
}

/// What is to be said about a part's errors.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// For people.
    pub text: String,
    /// The same as JSON.
    pub json: String,
}

/// Computes what the arguments ask for. Writes no file.
///
/// # Errors
/// A device without cells of two bits, a code that does not fit, an age beyond the model.
pub fn computed(args: &ReliabilityArgs) -> Result<Answer, CliError> {
    let findings = find(args)?;
    let mut json = serde_json::to_string_pretty(&findings.json()).map_err(CliError::new)?;
    json.push('\n');
    Ok(Answer { text: findings.tables(), json })
}

fn find(args: &ReliabilityArgs) -> Result<Findings, CliError> {
    let spec = device_spec(Some(&args.device))?;
    if let Some(key) = spec.ageing.key() {
        // The times would be those of the codes, and the codes be added once more.
        return Err(CliError::new(format_args!(
            "--device: {key} has no place here, where latencies are put together for many ages; leave it out and give \
             --profile, --pe-cycles or --retention"
        )));
    }
    let device = spec.build(Some(CAPACITY)).map_err(CliError::new)?;
    let chip = Chip::of(&device).map_err(CliError::new)?;
    let endurance = chip.endurance;
    let profile = match args.profile {
        LatencyProfile::Derived => Profile::Derived,
        LatencyProfile::Paper => Profile::Paper,
    };
    let codes = if args.code.is_empty() {
        let bch = chip.bch(profile).map_err(CliError::new)?;
        std::iter::once(bch).chain(chip.ldpc(profile).ok()).collect()
    } else {
        let fit = |&spec: &CodeSpec| {
            chip.fit(profile, spec).map_err(|error| CliError::new(error).within(format_args!("--code {spec}")))
        };
        args.code.iter().map(fit).collect::<Result<_, _>>()?
    };
    let cycles = if args.pe_cycles.is_empty() { vec![0, endurance / 2, endurance] } else { args.pe_cycles.clone() };
    let modes: &[Mode] = match args.mode {
        ProgramMode::Normal => &[Mode::Normal],
        ProgramMode::LowCost => &[Mode::LowCost],
        ProgramMode::Medium => &[Mode::Medium],
        ProgramMode::Both => &[Mode::Normal, Mode::LowCost],
    };
    let mut pages = Vec::new();
    for &mode in modes {
        for &pe_cycles in &cycles {
            for &retention in &args.retention {
                let age = Age { pe_cycles, endurance, retention_h: retention.0, reads: args.reads };
                let rber = chip.rber(mode, &age).map_err(|error| beyond(mode, &age, error))?;
                let program_ns = profile.program_ns(mode, device.timing.program_ns);
                pages.push(Finding { mode, age, rber, program_ns });
            }
        }
    }
    Ok(Findings { device, chip, profile, codes, pages })
}

/// Names the flag that asks too much of the model.
fn beyond(mode: Mode, age: &Age, error: ChipError) -> CliError {
    let place = match &error {
        ChipError::Age(AgeError::Cycles { .. }) => "--pe-cycles".to_owned(),
        ChipError::Age(AgeError::Retention(_)) => "--retention".to_owned(),
        ChipError::Age(AgeError::Reads(_)) => "--reads".to_owned(),
        _ => {
            let Age { pe_cycles, retention_h, reads, .. } = *age;
            format!("{} programs, {pe_cycles} cycles, {}, {reads} reads", mode.name(), Retention(retention_h))
        }
    };
    CliError::new(error).within(place)
}

/// Failing frames, uncorrectable bits and the read, of pages under a code.
fn under(
    Fitted { cost, .. }: &Fitted,
    page: &Finding,
) -> (Option<FrameErrors>, Option<FrameErrors>, Option<ReadParts>) {
    let rber = page.rber.mean;
    (cost.frame_errors(rber), cost.uber(rber), cost.parts(page.mode, rber))
}

/// A rate as shown: two digits, a bound with its sign.
fn shown(errors: Option<FrameErrors>) -> String {
    match errors {
        None => "-".to_owned(),
        Some(FrameErrors::Rate(rate)) if rate < 1e-99 => "<1e-99".to_owned(),
        Some(FrameErrors::Rate(rate)) => format!("{rate:.1e}"),
        Some(FrameErrors::AtMost(rate)) => format!("<{rate:.1e}"),
    }
}

fn us(ns: u64) -> f64 {
    ns as f64 / 1e3
}

impl Findings {
    fn tables(&self) -> String {
        let Findings { device, chip, profile, .. } = self;
        let geometry = &device.geometry;
        let mut text = format!(
            "{}: pages of {} + {} bytes, endurance {} cycles, latencies {}\n",
            device.name,
            geometry.page_bytes,
            geometry.oob_bytes,
            units::whole(u64::from(chip.endurance)),
            profile.name()
        );
        text += &wrap(
            "assumed: Voltages, and how wear, time and reads widen them (--constants lists all, with sources).",
            "  ",
        );
        for fitted in &self.codes {
            text.push('\n');
            text += &wrap(&self.heading(fitted), "  ");
            text += &self.table(fitted);
        }
        text.push('\n');
        text += &wrap(
            "A read of - counts as uncorrectable: its RBER is above what the code bears, which of BCH is where the \
             UBER reaches 1e-15, and of LDPC where trials begin to fail. A rate with < is a bound: no frame failed in \
             the trials, or the number is too small to matter. Error rates between two of the trials count as the \
             higher.",
            "",
        );
        if *profile == Profile::Paper {
            text += &wrap(
                "Reads are the paper's constants and are given up to the error rate that it names (LDPC: 1e-2), \
                 whatever the code of the table bears.",
                "",
            );
        }
        text
    }

    fn heading(&self, fitted: &Fitted) -> String {
        let frames = fitted.cost.frames();
        // The paper's limit holds for its own LDPC code, whatever that of the table bears.
        let bears = match (self.profile, fitted.spec.family()) {
            (Profile::Paper, "ldpc") => "the paper gives reads up to",
            _ => "bears",
        };
        format!(
            "{}: {frames} frames x {} bytes of parity + {METADATA_BYTES} of metadata = {} of {} spare bytes; {bears} a \
             raw bit error rate of {:.1e}",
            fitted.spec,
            fitted.parity_bytes,
            frames as usize * fitted.parity_bytes + METADATA_BYTES,
            self.device.geometry.oob_bytes,
            fitted.cost.limit()
        )
    }

    fn table(&self, fitted: &Fitted) -> String {
        let mut table = new_table();
        table.set_header([
            "program\n",
            "P/E\ncycles",
            "kept\nfor",
            "program\nµs",
            "RBER\nLSB",
            "RBER\nMSB",
            "RBER\nmean",
            "failing\nframes",
            "\nUBER",
            "sensing\nlevels",
            "read\nµs",
        ]);
        for page in &self.pages {
            let Rber { lsb, msb, mean } = page.rber;
            let (frames, uber, read) = under(fitted, page);
            table.add_row([
                page.mode.name().to_owned(),
                units::whole(u64::from(page.age.pe_cycles)),
                Retention(page.age.retention_h).to_string(),
                units::number(us(page.program_ns)),
                format!("{lsb:.1e}"),
                format!("{msb:.1e}"),
                format!("{mean:.1e}"),
                shown(frames),
                shown(uber),
                read.map_or_else(|| "-".to_owned(), |read| read.levels.to_string()),
                read.map_or_else(|| "-".to_owned(), |read| units::number(us(read.latency_ns()))),
            ]);
        }
        align(&mut table, 1);
        trimmed(&table)
    }

    fn json(&self) -> Value {
        let number = |constant: &cells::Constant| {
            json!({
                "name": constant.name, "value": constant.number.value, "unit": constant.unit,
                "origin": constant.number.origin.name(), "source": constant.number.why,
            })
        };
        let codes: Vec<Value> = self
            .codes
            .iter()
            .map(|fitted| {
                json!({
                    "code": fitted.spec.to_string(), "frames": fitted.cost.frames(),
                    "data_bytes": fitted.spec.data_bytes(), "parity_bytes": fitted.parity_bytes,
                    "max_rber": fitted.cost.limit(),
                })
            })
            .collect();
        json!({
            "schema": SCHEMA,
            "ftlab": env!("CARGO_PKG_VERSION"),
            "device": device_fields(&self.device),
            "profile": self.profile.name(),
            "metadata_bytes": METADATA_BYTES,
            "constants": cells::CONSTANTS.iter().chain(latency::CONSTANTS).map(number).collect::<Vec<_>>(),
            "codes": codes,
            "results": self.pages.iter().map(|page| self.page_json(page)).collect::<Vec<_>>(),
        })
    }

    fn page_json(&self, page: &Finding) -> Value {
        let Rber { lsb, msb, mean } = page.rber;
        let codes: Vec<Value> = self
            .codes
            .iter()
            .map(|fitted| {
                let (frames, uber, read) = under(fitted, page);
                let mut fields = Map::new();
                fields.insert("code".to_owned(), json!(fitted.spec.to_string()));
                // Keys that do not apply are absent: a rate is known or bounded, a read possible or not.
                for (key, errors) in [("frame_error_rate", frames), ("uber", uber)] {
                    match errors {
                        Some(FrameErrors::Rate(rate)) => fields.insert(key.to_owned(), json!(rate)),
                        Some(FrameErrors::AtMost(rate)) => fields.insert(format!("{key}_at_most"), json!(rate)),
                        None => None,
                    };
                }
                fields.insert("correctable".to_owned(), json!(read.is_some()));
                if let Some(read) = read {
                    let parts = json!({
                        "total": us(read.latency_ns()), "sense": us(read.sense_ns), "transfer": us(read.transfer_ns),
                        "decode": us(read.decode_ns),
                    });
                    fields.insert("read_us".to_owned(), parts);
                    fields.insert("sensing_levels".to_owned(), json!(read.levels));
                }
                Value::Object(fields)
            })
            .collect();
        json!({
            "mode": page.mode.name(), "pe_cycles": page.age.pe_cycles, "retention_hours": page.age.retention_h,
            "reads": page.age.reads, "program_us": us(page.program_ns),
            "rber": {"lsb": lsb, "msb": msb, "mean": mean}, "codes": codes,
        })
    }
}

/// Every constant of the model with its source.
fn constants() -> String {
    let mut table = new_table();
    table.set_header(["constant", "value", "unit", "from", "source or reason"]);
    for constant in cells::CONSTANTS.iter().chain(latency::CONSTANTS) {
        let value = if constant.number.value < 1e-3 {
            format!("{:e}", constant.number.value)
        } else {
            ((constant.number.value * 1e4).round() / 1e4).to_string()
        };
        table.add_row([constant.name, &value, constant.unit, constant.number.origin.name(), constant.number.why]);
    }
    align(&mut table, 5);
    trimmed(&table)
}

/// Writes the matrix of the one LDPC code that is named.
fn alist(codes: &[CodeSpec], path: &Path, stdout: &mut dyn Write) -> Result<Ended, CliError> {
    let [spec] = codes else {
        return Err(CliError::new("--alist writes the matrix of one code: add --code ldpc:parity=192,data=4096"));
    };
    let Code::Ldpc(code) = spec.build().map_err(|error| CliError::new(error).within(format_args!("--code {spec}")))?
    else {
        return Err(CliError::new(format_args!("--alist: {spec} is no LDPC code and has no sparse matrix")));
    };
    output::write_file(path, code.alist().as_bytes())?;
    let told = format!(
        "{}: {} checks of {} bits, {} of them parity, circulants of {}\n",
        path.display(),
        units::whole(8 * code.parity_bytes() as u64),
        units::whole(code.codeword_bits() as u64),
        units::whole(8 * code.parity_bytes() as u64),
        code.circulant()
    );
    crate::print(stdout, &told).map(|()| Ended::Done)
}

/// Runs all trials, side by side, and writes the table.
fn derive(args: &ReliabilityArgs, path: &Path, stdout: &mut dyn Write) -> Result<Ended, CliError> {
    Outputs::default().claim("--derive-latencies", path)?;
    let (frames, seed) = (args.frames.unwrap_or(trial::FRAMES), args.seed.unwrap_or(trial::SEED));
    let plan = trial::plan();
    let threads = args.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let (next, rows) = (AtomicUsize::new(0), Mutex::new(vec![String::new(); plan.len()]));
    std::thread::scope(|scope| {
        for _ in 0..threads.min(plan.len()) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(&(code, rber, levels)) = plan.get(index) else { break };
                    let row = trial::run(code, rber, levels, frames, seed).row();
                    rows.lock().unwrap_or_else(PoisonError::into_inner)[index] = row;
                }
            });
        }
    });
    let rows = rows.into_inner().unwrap_or_else(PoisonError::into_inner);
    let text = format!("{}\n{}\n", trial::HEADER, rows.join("\n"));
    output::write_file(path, text.as_bytes())?;
    let told = format!(
        "{}: {} trials of {} frames, seed {seed}\n",
        path.display(),
        rows.len(),
        units::whole(u64::from(frames))
    );
    crate::print(stdout, &told).map(|()| Ended::Done)
}

//! `ftlab image`: making SSDs in files, and looking into them.

use super::Ended;
use super::experiment::{device_fields, device_spec, json_value};
use crate::args::{ImageAgeArgs, ImageCommand, ImageCreateArgs, ImageInfoArgs};
use crate::error::{CliError, io_reason};
use crate::output::{self, Outputs};
use crate::render::text::wrap;
use crate::units;
use device::{Access, Image, ImageError, Scrub, Spec, VerifyError};
use flash::device::Device;
use flash::{Block, Brief, Geometry, Guard, Mode, Nand, NoData, Pairing, Rng};
use ftl::parameters::{LOG_AGES, LOG_VICTIM, SPREAD, WEAR_LEVELLING, WEAR_STATE};
use ftl::schemes::{self, SCHEMES, Visitor};
use ftl::{BuildError, ConfigError, Recipe, Scheme, Settings, Value};
use reliability::cells::{self, Age};
use reliability::chip::Rber;
use reliability::{Chip, CodeSpec};
use serde_json::{Map, json};
use std::io::Write;
use std::path::Path;

/// Does what is asked for.
///
/// # Errors
/// The first thing that is wrong with the command line or the file.
pub(super) fn image(command: &ImageCommand, stdout: &mut dyn Write) -> Result<Ended, CliError> {
    let (text, ended) = match command {
        ImageCommand::Create(args) => (create(args)?, Ended::Done),
        ImageCommand::Info(args) => (info(args)?, Ended::Done),
        ImageCommand::Verify(args) => verify(args)?,
        ImageCommand::Age(args) => (age(args)?, Ended::Done),
    };
    crate::print(stdout, &text).map(|()| ended)
}

/// An image's error as the user sees it.
fn refused(error: ImageError) -> CliError {
    match error {
        ImageError::Host { verb, path, cause } => CliError::file(verb, &path, &cause),
        ImageError::Exists(_) => CliError::new(format_args!("{error}; add --force, or name another file")),
        error => CliError::new(error),
    }
}

// ---- create ----------------------------------------------------------------------------------------------------

fn create(args: &ImageCreateArgs) -> Result<String, CliError> {
    let built = device_spec(Some(&args.device))?.build(None).and_then(Device::guarded);
    let device = built.map_err(|e| CliError::new(e).within("--device"))?;
    let names = || SCHEMES.iter().filter(|row| row.keeps_data).map(|row| row.name);
    let row = schemes::by_name(&args.scheme).ok_or_else(|| CliError::unknown("scheme", &args.scheme, names()))?;
    if !row.keeps_data {
        return Err(CliError::new(format_args!("scheme {} keeps no data: an image needs one that does", row.name)));
    }
    let settings = settings(row, &args.set)?;
    Outputs::beside([("the device", Path::new(&args.device))]).reserve("FILE", &args.file)?;
    // Before anything is written, or emptied: would the scheme take the device?
    let fits = schemes::visit::<Nand<NoData, Brief>, _>(row.name, Fits { device: &device, settings: &settings });
    let own = fits.expect("the scheme has a row").map_err(|error| {
        let flag = if error.key == "spare" { "--device" } else { "--set" };
        CliError::new(error).within(flag)
    })?;
    let settings: Vec<_> = settings.iter().map(|(name, value)| (name.to_owned(), value.to_string())).collect();
    let spec = Spec { device, scheme: row.name.to_owned(), settings, ecc: args.ecc };
    spec.check_ecc(own).map_err(|why| CliError::new(why).within("--ecc"))?;
    let image = Image::create(&args.file, &spec, args.force).map_err(refused)?;
    described(&image)
}

/// All parameters: what the command line says, else the default, but for four: discards are durable, collections are
/// dealt over the writes that follow, so that no request waits for a whole one, where wear is levelled erase counts
/// are kept on flash, and so are ages of log blocks where they decide which is cleaned.
pub(super) fn settings(row: &Scheme, set: &[(String, String)]) -> Result<Settings, CliError> {
    let mut settings = row.settings();
    if settings.get("durable-trim").is_some() {
        settings.put("durable-trim", Value::Switch(true));
    }
    if settings.get(SPREAD.name).is_some() {
        settings.put(SPREAD.name, Value::Switch(true));
    }
    for (name, text) in set {
        let bare = name.strip_prefix(row.name).and_then(|rest| rest.strip_prefix('.')).unwrap_or(name);
        if row.parameter(bare).is_none() {
            let known = row.parameters().map(|parameter| parameter.name);
            return Err(CliError::unknown(&format!("parameter of {}", row.name), bare, known).within("--set"));
        }
        if bare != name {
            return Err(CliError::new(format_args!("there is one scheme here: write {bare}={text}")).within("--set"));
        }
        let in_bytes = row.parameter(name).is_some_and(|parameter| parameter.unit == "bytes");
        let bytes = sim::units::parse_bytes(text).ok().filter(|_| in_bytes).map(|bytes| bytes.to_string());
        let text = bytes.as_deref().unwrap_or(text);
        settings.set(name, text).map_err(|what| CliError::new(what).within("--set"))?;
    }
    let unsaid = |name: &str| row.parameter(name).is_some() && set.iter().all(|(said, _)| said != name);
    let levels = settings.get(WEAR_LEVELLING.name).is_some_and(|mode| mode != WEAR_LEVELLING.default);
    if levels && unsaid(WEAR_STATE.name) {
        settings.put(WEAR_STATE.name, Value::Word("on"));
    }
    if settings.get(LOG_VICTIM.name) == Some(Value::Word("maro")) && unsaid(LOG_AGES.name) {
        settings.put(LOG_AGES.name, Value::Switch(true));
    }
    if let Some(what) = ftl::without_effect(&settings, set.iter().map(|(name, _)| name.as_str())) {
        return Err(CliError::new(what).within("--set"));
    }
    Ok(settings)
}

/// Whether a scheme takes a device, and how many bytes of each spare area it keeps then.
struct Fits<'a> {
    device: &'a Device,
    settings: &'a Settings,
}

impl Visitor<Nand<NoData, Brief>> for Fits<'_> {
    type Output = Result<u32, ConfigError>;
    fn visit<S: Recipe<Nand<NoData, Brief>>>(self, _: &Scheme<'_>, recipe: &S) -> Self::Output {
        let chip = self.device.geometry;
        // What the guard leaves to the scheme.
        let (seen, guards) =
            if chip.pairs == Pairing::Off { (chip, 0) } else { (flash::seen(chip), Guard::<Image>::SPARE_BYTES) };
        let mut chip = Nand::new(seen);
        match recipe.format(&mut chip, self.device.logical_pages, self.settings) {
            Err(BuildError::Config(error)) => Err(error),
            _ => Ok(chip.reserved_spare() + guards),
        }
    }
}

// ---- info ------------------------------------------------------------------------------------------------------

/// How often blocks were erased.
struct Wear {
    mean: f64,
    stdev: f64,
    min: u32,
    max: u32,
    /// Erases at or below which a tenth, a quarter, a half … of the blocks lie.
    deciles: Vec<(u32, u32)>,
}

impl Wear {
    fn of(image: &Image) -> Wear {
        let mut counts: Vec<u32> = image.erase_counts().collect();
        counts.sort_unstable();
        let blocks = counts.len() as f64;
        let mean = counts.iter().map(|&count| f64::from(count)).sum::<f64>() / blocks;
        let variance = counts.iter().map(|&count| (f64::from(count) - mean).powi(2)).sum::<f64>() / blocks;
        let at = |percent: u32| (percent, counts[(counts.len() - 1) * percent as usize / 100]);
        Wear {
            mean,
            stdev: variance.sqrt(),
            min: counts[0],
            max: counts[counts.len() - 1],
            deciles: [10, 25, 50, 75, 90].map(at).to_vec(),
        }
    }

    fn text(&self) -> String {
        let Wear { mean, stdev, min, max, deciles } = self;
        if *max == 0 {
            return "no block was erased yet".to_owned();
        }
        let deciles: Vec<_> = deciles.iter().map(|(percent, erases)| format!("{percent} %: {erases}")).collect();
        format!(
            "{} erases a block on average, {min} to {max}, standard deviation {}; of all blocks at most, {}",
            units::number(*mean),
            units::number(*stdev),
            deciles.join(", ")
        )
    }

    fn json(&self) -> serde_json::Value {
        let percentiles: Map<_, _> = self.deciles.iter().map(|(p, erases)| (format!("p{p}"), json!(erases))).collect();
        json!({ "mean": self.mean, "stdev": self.stdev, "min": self.min, "max": self.max, "percentiles": percentiles })
    }
}

fn state(image: &Image) -> &'static str {
    match image.life() {
        device::Life::Fresh => "fresh: nothing was written yet",
        device::Life::Clean => "clean: it was shut down, and mounts at once",
        device::Life::Dirty => "dirty: it was not shut down, or is of another version; mounting it reads the flash",
    }
}

/// What a code does.
fn corrects(code: CodeSpec) -> String {
    match code {
        CodeSpec::Bch { data_bytes, correctable } => format!("{code}, {correctable} wrong bits in each {data_bytes} B"),
        CodeSpec::Ldpc { data_bytes, .. } => format!("{code}, decoded from bits, in each {data_bytes} B"),
    }
}

/// Which pages share cells, and what that takes.
fn shared(g: &Geometry) -> String {
    match g.pairs {
        Pairing::Off => "none".to_owned(),
        order => {
            format!("pages in {} order; {} blocks of each die are the guard's", order.name(), Guard::<Image>::BLOCKS)
        }
    }
}

/// What an image is, for people.
fn described(image: &Image) -> Result<String, CliError> {
    let Spec { device, scheme, settings, ecc } = image.spec();
    let g = &device.geometry;
    let page = u64::from(g.page_bytes);
    let (seeming, cost) = image.file_bytes().map_err(|cause| CliError::file("read", image.path(), &cause))?;
    let parameters: Vec<_> = settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let totals = image.totals();
    // The totals reach the file with a flush; a process that was killed may have written more.
    let unclean = image.life() == device::Life::Dirty;
    let written = match totals.waf() {
        Some(waf) => format!(
            "{} by the host, {} programmed: write amplification {}{}",
            units::bytes(totals.host * page),
            units::bytes(totals.programs * page),
            units::number(waf),
            if unclean { "; as of the last flush" } else { "" }
        ),
        None if unclean => "not known: it was neither flushed nor shut down".to_owned(),
        None => "nothing yet".to_owned(),
    };
    let lines = [
        ("device", format!("{}, {} exported", device.name, units::bytes(u64::from(device.logical_pages) * page))),
        (
            "flash",
            format!(
                "{} dies of {} blocks of {} pages of {}: {}",
                units::whole(u64::from(g.die_count())),
                units::whole(u64::from(g.blocks_per_die)),
                g.pages_per_block,
                units::bytes(page),
                units::bytes(u64::from(g.page_count()) * page)
            ),
        ),
        ("shared cells", shared(g)),
        ("scheme", format!("{scheme} with {}", parameters.join(" "))),
        ("code", ecc.map_or_else(|| "none: a flipped bit costs its page".to_owned(), corrects)),
        ("state", state(image).to_owned()),
        ("written", written),
        ("wear", Wear::of(image).text()),
        ("bad blocks", units::whole(image.bad_blocks().count() as u64)),
        ("file", format!("{}, of which {} are on the disk", units::bytes(seeming), units::bytes(cost))),
    ];
    let forgets = schemes::by_name(scheme).is_some_and(|row| row.parameter("durable-trim").is_none());
    let mut text = wrap(&format!("{}: an image of format {}", image.path().display(), image.format()), "  ");
    for (label, value) in lines {
        text += &wrap(&format!("{label}: {value}"), "  ");
    }
    if forgets {
        let why = format!("{scheme} has no durable-trim");
        text += &wrap(&format!("discards: a kill or a power cut may undo them, flushed or not: {why}"), "  ");
    }
    if image.damaged_copies() > 0 {
        let copies = units::whole(image.damaged_copies());
        text += &wrap(&format!("damaged: {copies} copies of header or table; the others are sound"), "  ");
    }
    Ok(text)
}

/// The same for machines.
fn fields(image: &Image) -> Result<Map<String, serde_json::Value>, CliError> {
    let Spec { device, scheme, ecc, .. } = image.spec();
    let (seeming, cost) = image.file_bytes().map_err(|cause| CliError::file("read", image.path(), &cause))?;
    let (_, settings) = device::scheme_of(image).map_err(CliError::new)?;
    let parameters: Map<_, _> = settings.iter().map(|(name, value)| (name.to_owned(), json_value(value))).collect();
    let totals = image.totals();
    let mut fields = Map::new();
    let mut put = |key: &str, value: serde_json::Value| fields.insert(key.to_owned(), value);
    put("schema", json!(1));
    put("device", json!(device_fields(device)));
    put("scheme", json!(scheme));
    if let Some(ecc) = ecc {
        put("ecc", json!(ecc.to_string()));
    }
    put("params", json!(parameters));
    put("state", json!(image.life().name()));
    put("host_pages", json!(totals.host));
    put("programs", json!(totals.programs));
    if let Some(waf) = totals.waf() {
        put("waf", json!(waf));
    }
    put("erase_count", Wear::of(image).json());
    put("bad_blocks", json!(image.bad_blocks().map(|block| block.0).collect::<Vec<_>>()));
    put("damaged_copies", json!(image.damaged_copies()));
    put("file_bytes", json!(seeming));
    put("disk_bytes", json!(cost));
    Ok(fields)
}

fn write_json(args: &ImageInfoArgs, fields: Map<String, serde_json::Value>) -> Result<(), CliError> {
    let Some(path) = &args.json else { return Ok(()) };
    let mut text = serde_json::to_string_pretty(&fields).map_err(CliError::new)?;
    text.push('\n');
    output::write_file(path, text.as_bytes())
}

fn opened(args: &ImageInfoArgs) -> Result<Image, CliError> {
    if let Some(path) = &args.json {
        Outputs::beside([("the image", &*args.file)]).claim("--json", path)?;
    }
    Image::open(&args.file, Access::Look).map_err(refused)
}

fn info(args: &ImageInfoArgs) -> Result<String, CliError> {
    let image = opened(args)?;
    let text = described(&image)?;
    write_json(args, fields(&image)?)?;
    Ok(text)
}

// ---- age -------------------------------------------------------------------------------------------------------

fn age(args: &ImageAgeArgs) -> Result<String, CliError> {
    let mut image = Image::open(&args.file, Access::Use).map_err(refused)?;
    let seed = Rng::new(args.seed);
    let file = args.file.display();
    let failed = |image: &Image| {
        let reason = image.failure().map_or_else(String::new, io_reason);
        CliError::new(format_args!("cannot change {file}: {reason}"))
    };
    let (flipped, at) = match (args.rber, args.retention) {
        (Some(rber), _) => (image.age(&seed, |_, _| rber), String::new()),
        (None, Some(retention)) => {
            let chip = Chip::of(&image.spec().device).map_err(CliError::new)?;
            let modes = image.modes().map_err(|_| failed(&image))?;
            let rates = Rates::new(&image, &modes, &chip, |erases| Age {
                pe_cycles: erases.saturating_add(args.pe_cycles),
                endurance: chip.endurance,
                retention_h: retention.0,
                reads: args.reads,
            })?;
            let g = image.spec().device.geometry;
            let flipped = image.age(&seed, |ppn, mode| rates.at(g.block_of(ppn), mode, g.offset_of(ppn)));
            (flipped, rates.text())
        }
        (None, None) => unreachable!("one of both is required"),
    };
    let flipped = units::whole(flipped.map_err(|_| failed(&image))?);
    Ok(wrap(&format!("{file}: {flipped} bits flipped{at}; `ftlab image verify {file}` says what became of them"), "  "))
}

/// Raw bit error rates of the pages of an image by the model of cells.
struct Rates {
    /// Of each block by mode, of LSB and MSB pages.
    rates: Vec<[[f64; 2]; Mode::ALL.len()]>,
    lowest: f64,
    highest: f64,
}

impl Rates {
    /// Of blocks with pages in these modes, at the age of a block that was erased so often.
    fn new(image: &Image, modes: &[(Block, Mode)], chip: &Chip, age: impl Fn(u32) -> Age) -> Result<Rates, CliError> {
        let erases: Vec<u32> = image.erase_counts().collect();
        let mut of =
            Rates { rates: vec![[[0.0; 2]; Mode::ALL.len()]; erases.len()], lowest: f64::INFINITY, highest: 0.0 };
        for &(block, mode) in modes {
            let model = match mode {
                Mode::Normal => cells::Mode::Normal,
                Mode::LowCost => cells::Mode::LowCost,
                Mode::Medium => cells::Mode::Medium,
                // What a guard keeps is needed until the next mount: it does not grow old.
                Mode::Slc if flash::is_guards(&image.spec().device.geometry, block) => continue,
                Mode::Slc => {
                    return Err(CliError::new(format_args!(
                        "--retention: block {block} is in SLC mode, and the model knows cells of two bits: give a \
                         rate, as in --rber 1e-4"
                    )));
                }
            };
            let erases = erases[block.index()];
            let Rber { lsb, msb, .. } = chip
                .rber(model, &age(erases))
                .map_err(|error| CliError::new(error).within(format_args!("block {block}, erased {erases} times")))?;
            let rates = [lsb, msb];
            of.rates[block.index()][mode as usize] = rates;
            for rate in rates {
                (of.lowest, of.highest) = (of.lowest.min(rate), of.highest.max(rate));
            }
        }
        Ok(of)
    }

    /// Pages of the lower and the upper bits take turns in a block.
    fn at(&self, block: Block, mode: Mode, offset: u32) -> f64 {
        self.rates[block.index()][mode as usize][offset as usize % 2]
    }

    fn text(&self) -> String {
        if self.highest == 0.0 {
            return String::new();
        }
        format!(", at raw bit error rates of {:.1e} to {:.1e}", self.lowest, self.highest)
    }
}

// ---- verify ----------------------------------------------------------------------------------------------------

fn verify(args: &ImageInfoArgs) -> Result<(String, Ended), CliError> {
    let image = opened(args)?;
    let mut text = described(&image)?;
    let mut json = fields(&image)?;
    let cannot_read = |why: &str| CliError::new(format_args!("cannot read {}: {why}", args.file.display()));
    let verified = device::verify(image).map_err(|error| match error {
        VerifyError::Host(cause) => cannot_read(&io_reason(&cause)),
        VerifyError::Refused(why) => cannot_read(&why),
        VerifyError::Unknown(error) => CliError::new(error),
    })?;
    let findings = verified.findings();
    let Scrub { pages, torn, bad_records, bad_data, corrected_bits, .. } = &verified.scrub;
    let damaged: Vec<u32> =
        bad_records.iter().copied().chain(bad_data.iter().map(|page| page.ppn)).map(|p| p.0).collect();
    let counts = format!(
        "{} programmed, {} torn by power cuts, {} damaged",
        units::whole(*pages),
        units::whole(*torn),
        units::whole(damaged.len() as u64)
    );
    let mut lines = vec![("pages", counts)];
    if *corrected_bits > 0 {
        lines.push(("corrected", format!("{} wrong bits, by the code", units::whole(*corrected_bits))));
    }
    if let Ok(contents) = &verified.contents {
        lines.push(("mount", contents.mounted.to_string()));
        lines.push(("live", format!("{} pages hold data", units::whole(contents.data))));
        json.insert("live_pages".into(), json!(contents.data));
        json.insert("lost_pages".into(), json!(contents.lost));
    }
    json.insert("corrected_bits".into(), json!(corrected_bits));
    json.insert("programmed_pages".into(), json!(pages));
    json.insert("torn_pages".into(), json!(torn));
    json.insert("damaged_pages".into(), json!(damaged));
    lines.push(("verdict", if findings.is_empty() { "sound".to_owned() } else { "DAMAGED".to_owned() }));
    for (label, value) in lines {
        text += &wrap(&format!("{label}: {value}"), "  ");
    }
    for finding in &findings {
        text += &format!("  {}", wrap(finding, "    "));
    }
    let ended = if findings.is_empty() { Ended::Done } else { Ended::Failed };
    json.insert("findings".into(), json!(findings));
    write_json(args, json)?;
    Ok((text, ended))
}

//! Experiments in TOML files: `ftlab run FILE.toml` is `ftlab compare` with its flags read from a file.
//!
//! There is no second table of keys. The keys are the flags of `compare` as the command-line parser knows them, and
//! each key and value is handed to that parser as a flag; so a key cannot mean anything else than its flag, and a flag
//! cannot lack its key. What the file adds is where it was written: messages name the file and the line, and paths are
//! relative to the file.

use crate::args::{CompareArgs, one_line};
use crate::commands::{compare, experiment};
use crate::error::CliError;
use crate::output::Outputs;
use crate::session::{BuiltIn, Session};
use crate::workload::{GENERATED_BYTES, Origin, TWIN_OF};
use clap::{ArgAction, Args, Command, FromArgMatches, ValueHint};
use std::fs;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The text of a file.
///
/// # Errors
/// It cannot be read, or is no UTF-8.
pub(crate) fn text(path: &Path) -> Result<String, CliError> {
    let bytes = fs::read(path).map_err(|cause| CliError::file("read", path, &cause))?;
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        CliError::new(format_args!("the byte at offset {at} is not UTF-8; save the file as UTF-8"))
            .within(path.display())
    })
}

/// An experiment file that was read.
#[derive(Debug)]
pub struct Loaded {
    /// The flags.
    pub args: CompareArgs,
    name: String,
    written: Vec<Written>,
}

/// A key, or a setting of `set`, where it is written, and what it says by itself.
#[derive(Debug)]
struct Written {
    key: String,
    line: usize,
    alone: CompareArgs,
}

impl Loaded {
    /// An error of the run: it names the file, and the key and its line where one of them alone has it too.
    pub fn place(&self, error: CliError) -> CliError {
        let message = error.message();
        // What begins with a flag speaks of its key.
        let flagged = |one: &&Written| {
            let rest = message.strip_prefix("--").and_then(|rest| rest.strip_prefix(&one.key));
            rest.is_some_and(|rest| rest.starts_with([':', ' ']))
        };
        let has = |one: &&Written| fault_of(&one.alone).is_some_and(|own| own == error);
        let Some(one) = self.written.iter().find(has).or_else(|| self.written.iter().find(flagged)) else {
            return error.within(&self.name);
        };
        let flag = one.key.split(' ').next().unwrap_or_default();
        let said = message.strip_prefix("--").filter(|said| said.starts_with(flag));
        let said = said.map_or_else(|| format!("{}: {message}", one.key), str::to_owned);
        CliError::new(said).within(format_args!("{}:{}", self.name, one.line))
    }
}

/// What is wrong with some flags before anything is read.
fn fault_of(args: &CompareArgs) -> Option<CliError> {
    let stop = AtomicBool::new(false);
    let session = Session::new(&stop);
    let checked = || {
        let plan = compare::plan(args, &compare::Known::of(&session))?;
        for combination in &plan.combinations {
            experiment::settled(combination, args.seed, &BuiltIn)?;
        }
        experiment::device_spec(args.device.as_deref())?.build(Some(GENERATED_BYTES)).map_err(CliError::new)?;
        match &args.workload {
            Some(spec) => Origin::generated(spec, GENERATED_BYTES).map(drop),
            None => Ok(()),
        }
    };
    checked().err()
}

/// Reads an experiment file.
///
/// # Errors
/// The file cannot be read or is no TOML; a key that no flag reads (with the nearest one); a value that its flag
/// refuses. Each names the file, and the line where there is one.
pub fn load(path: &Path) -> Result<Loaded, CliError> {
    let text = text(path)?;
    let directory = path.parent().unwrap_or(Path::new(""));
    let name = path.display().to_string();
    let command = CompareArgs::augment_args(Command::new("run"));
    let loaded = Document { text: &text, name: Some(&name), directory, command }.read()?;
    let args = &loaded.args;
    let mut outputs = Outputs::beside([("the experiment", path)]);
    let reports = [("json", &args.json), ("csv", &args.csv), ("parquet", &args.parquet), ("html", &args.html)];
    for (key, file) in reports.into_iter().chain([("per-request", &args.per_request)]) {
        let claimed = file.as_ref().map_or(Ok(()), |file| outputs.claim(key, file));
        claimed.map_err(|error| match loaded.written.iter().find(|one| one.key == key) {
            Some(one) => error.within(format_args!("{name}:{}", one.line)),
            None => error.within(&name),
        })?;
    }
    Ok(loaded)
}

/// Reads the text of an experiment file; `name` stands in messages, relative paths start from `directory`.
///
/// # Errors
/// As [`load`].
pub fn parse(text: &str, name: &str, directory: &Path) -> Result<CompareArgs, CliError> {
    let command = CompareArgs::augment_args(Command::new("run"));
    Document { text, name: Some(name), directory, command }.read().map(|loaded| loaded.args)
}

/// Reads keys and values that no file holds, written as one is: `KEY = VALUE`, a line each. Relative paths start from
/// `directory`.
///
/// # Errors
/// As [`load`]; they name the key.
pub fn parse_keys(text: &str, directory: &Path) -> Result<CompareArgs, CliError> {
    let command = CompareArgs::augment_args(Command::new("run"));
    Document { text, name: None, directory, command }.read().map(|loaded| loaded.args)
}

/// The keys that an experiment file may have: the flags of `compare`, and `trace`.
pub fn keys() -> Vec<String> {
    let command = CompareArgs::augment_args(Command::new("run"));
    command.get_arguments().map(key_of).collect()
}

fn key_of(argument: &clap::Arg) -> String {
    argument.get_long().unwrap_or(argument.get_id().as_str()).to_owned()
}

struct Document<'a> {
    text: &'a str,
    /// What the file is called; `None` if there is none.
    name: Option<&'a str>,
    directory: &'a Path,
    command: Command,
}

impl Document<'_> {
    fn read(&self) -> Result<Loaded, CliError> {
        let table =
            DeTable::parse(self.text).map_err(|error| self.fault(error.span().unwrap_or(0..0), error.message()))?;
        let mut words: Vec<String> = vec!["run".to_owned()];
        let mut positional = None;
        let mut seen: Vec<(String, Range<usize>)> = Vec::new();
        let (mut alone, mut set_at): (Vec<Written>, Vec<usize>) = (Vec::new(), Vec::new());
        for (key, value) in table.get_ref() {
            let written: &str = key.get_ref();
            let argument =
                self.command.get_arguments().find(|argument| key_of(argument) == written).ok_or_else(|| {
                    let keys = keys();
                    let hint = crate::suggest::hint(written, keys.iter().map(String::as_str));
                    let what = format!("unknown key \"{written}\"{hint}");
                    if self.name.is_some() { self.fault(key.span(), what) } else { CliError::new(what) }
                })?;
            let mut own = Vec::new();
            for (span, value) in self.values(written, argument, value)? {
                let value = self.resolve(written, argument, value);
                if written == "set" {
                    set_at.push(self.line(&span));
                }
                if argument.is_positional() {
                    own.push(value.clone());
                    positional = Some(value);
                } else if matches!(argument.get_action(), ArgAction::SetTrue) {
                    if value == "true" {
                        own.push(format!("--{written}"));
                        words.push(format!("--{written}"));
                    }
                } else {
                    own.push(format!("--{written}={value}"));
                    words.push(format!("--{written}={value}"));
                }
            }
            // Each key is tried alone first, so that a value that its flag refuses is found at its line.
            let accepted = self.accept(own, argument.is_positional());
            let accepted = accepted.map_err(|error| self.fault(value.span(), error.message()))?;
            alone.push(Written { key: written.to_owned(), line: self.line(&key.span()), alone: accepted });
            seen.push((written.to_owned(), key.span()));
        }
        let has_positional = positional.is_some();
        // Of keys that no file holds there may be none.
        if let Some(name) = self.name.filter(|_| words.len() == 1 && !has_positional) {
            let what =
                "the file sets nothing; what `ftlab compare` does without flags is workload = \"recording:postmark\"";
            return Err(CliError::new(what).within(name));
        }
        words.extend(positional.map(|value| ["--".to_owned(), value]).into_iter().flatten());
        let args = self.accept_words(words).map_err(|error| {
            // Only the combination can be wrong now: point at the trace, or at the first key.
            let place = seen.iter().find(|(key, _)| has_positional && key == "trace").or(seen.first());
            self.fault(place.map_or(0..0, |(_, span)| span.clone()), error.message())
        })?;
        // A setting says nothing without the schemes and buffers that have it.
        alone.retain(|one| one.key != "set");
        alone.extend(args.set.iter().zip(set_at).map(|(setting, line)| Written {
            key: format!("set {}.{}", setting.scheme, setting.param),
            line,
            alone: CompareArgs {
                schemes: args.schemes.clone(),
                buffer: args.buffer.clone(),
                set: vec![setting.clone()],
                ..CompareArgs::default()
            },
        }));
        Ok(Loaded { args, name: self.name.unwrap_or_default().to_owned(), written: alone })
    }

    /// The value as its flag would be given, and where: one string, or several where the flag repeats.
    fn values(
        &self,
        key: &str,
        argument: &clap::Arg,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<Vec<(Range<usize>, String)>, CliError> {
        let whole = |text: String| vec![(value.span(), text)];
        let takes_list = matches!(argument.get_action(), ArgAction::Append);
        let joined = argument.get_value_delimiter().is_some();
        match value.get_ref() {
            DeValue::Boolean(flag) if matches!(argument.get_action(), ArgAction::SetTrue) => {
                Ok(whole(flag.to_string()))
            }
            _ if matches!(argument.get_action(), ArgAction::SetTrue) => {
                Err(self.fault(value.span(), format_args!("{key} is either true or false")))
            }
            DeValue::Array(items) if takes_list => {
                let texts: Vec<String> = items.iter().map(|item| self.scalar(key, item)).collect::<Result<_, _>>()?;
                match (joined, texts.is_empty()) {
                    (_, true) => Err(self.fault(value.span(), format_args!("{key} is an empty list"))),
                    (true, _) => Ok(whole(texts.join(","))),
                    (false, _) => Ok(items.iter().map(Spanned::span).zip(texts).collect()),
                }
            }
            DeValue::Table(table) if takes_list && !joined => self.settings(key, table),
            _ => Ok(whole(self.scalar(key, value)?)),
        }
    }

    /// `[set]` with `dftl.gc-low = 4`, `dftl = { gc-low = 4 }`, or `"dftl.gc-low" = 4`.
    fn settings(&self, key: &str, table: &DeTable<'_>) -> Result<Vec<(Range<usize>, String)>, CliError> {
        let mut settings = Vec::new();
        for (key_of_value, value) in table {
            let name: &str = key_of_value.get_ref();
            if let DeValue::Table(params) = value.get_ref() {
                for (param, value) in params {
                    let name = format!("{name}.{}", param.get_ref());
                    let text = format!("{name}={}", self.scalar(&name, value)?);
                    settings.push((param.span(), text));
                }
            } else if !name.contains('.') {
                let what = format!("{key} takes SCHEME.PARAMETER = VALUE, and {name} is none");
                let above = format!("{what}; a key of the file stands above [{key}]");
                return Err(self.fault(key_of_value.span(), if self.name.is_some() { above } else { what }));
            } else {
                settings.push((key_of_value.span(), format!("{name}={}", self.scalar(key, value)?)));
            }
        }
        Ok(settings)
    }

    fn scalar(&self, key: &str, value: &Spanned<DeValue<'_>>) -> Result<String, CliError> {
        match value.get_ref() {
            DeValue::String(text) => Ok(text.to_string()),
            DeValue::Integer(number) if number.radix() == 10 => Ok(number.as_str().replace('_', "")),
            DeValue::Float(number) => Ok(number.as_str().replace('_', "")),
            DeValue::Boolean(flag) => Ok(flag.to_string()),
            DeValue::Integer(_) => Err(self.fault(value.span(), format_args!("{key} must be a decimal number"))),
            DeValue::Array(_) => Err(self.fault(value.span(), format_args!("{key} is one value, not a list"))),
            DeValue::Table(_) => Err(self.fault(value.span(), format_args!("{key} is one value, not a table"))),
            DeValue::Datetime(_) => Err(self.fault(value.span(), format_args!("{key} is not a date"))),
        }
    }

    /// Paths are relative to the file; so are a device that is a file, and the trace that a twin is of.
    fn resolve(&self, key: &str, argument: &clap::Arg, value: String) -> String {
        let is_path = matches!(argument.get_value_hint(), ValueHint::FilePath)
            || (key == "device" && Path::new(&value).extension().is_some_and(|extension| extension == "toml"));
        // A flow is a trace only if there is such a file; it may have a host behind it.
        let is_file = |name: &str| key == "flow" && self.directory.join(name).is_file();
        let is_path = is_path || is_file(&value) || value.rsplit_once('@').is_some_and(|(name, _)| is_file(name));
        let fitted = compare::fitted_file(&value).filter(|file| !file.is_empty() && !file.contains('='));
        if fitted.is_some() && ["trace", "workload", "flow"].contains(&key) {
            let file = self.directory.join(&value[TWIN_OF.len() + 1..]);
            return format!("{TWIN_OF}:{}", file.display());
        }
        // Where no such file lies, a trace may be a specification, as on the command line.
        if key == "trace" && compare::specification(&value).is_some() && !self.directory.join(&value).exists() {
            return value;
        }
        if is_path { self.directory.join(value).to_string_lossy().into_owned() } else { value }
    }

    fn accept(&self, own: Vec<String>, positional: bool) -> Result<CompareArgs, CliError> {
        let separator = positional.then(|| "--".to_owned());
        self.accept_words(["run".to_owned()].into_iter().chain(separator).chain(own).collect())
    }

    fn accept_words(&self, words: Vec<String>) -> Result<CompareArgs, CliError> {
        let matches = self.command.clone().try_get_matches_from(words).map_err(|error| one_line(&error))?;
        CompareArgs::from_arg_matches(&matches).map_err(|error| one_line(&error))
    }

    fn line(&self, span: &Range<usize>) -> usize {
        1 + self.text[..span.start.min(self.text.len())].matches('\n').count()
    }

    fn fault(&self, span: Range<usize>, what: impl std::fmt::Display) -> CliError {
        let before = &self.text[..span.start.min(self.text.len())];
        match self.name {
            Some(name) => CliError::new(what).within(format_args!("{name}:{}", self.line(&span))),
            None => {
                let start = before.rfind('\n').map_or(0, |end| end + 1);
                let key = self.text[start..].split(['=', '\n']).next().unwrap_or_default().trim();
                if key.is_empty() { CliError::new(what) } else { CliError::new(what).within(key) }
            }
        }
    }
}

/// See [`crate::fuzzing`].
#[cfg(feature = "fuzzing")]
pub mod fuzzing {
    use super::*;

    /// The text of an experiment file, up to where its runs would begin: read, and if it is sound planned. What it
    /// names is not opened or written.
    pub fn experiment(text: &str) {
        let Ok(mut args) = parse(text, "fuzzed.toml", Path::new("/nonexistent")) else { return };
        for path in [&mut args.json, &mut args.csv, &mut args.parquet, &mut args.html, &mut args.per_request] {
            *path = None;
        }
        let trace = args.trace.as_ref().map(|trace| trace.to_string_lossy().into_owned());
        let is_fitted = |spec: &String| spec.starts_with(TWIN_OF);
        if trace.iter().chain(&args.workload).chain(&args.flow).any(is_fitted) {
            return;
        }
        let _ = fault_of(&args).map(|fault| fault.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{self, Command, Invocation};

    fn read(text: &str) -> Result<CompareArgs, CliError> {
        parse(text, "exp.toml", Path::new("/data"))
    }

    fn message(text: &str) -> String {
        read(text).unwrap_err().to_string()
    }

    #[test]
    fn a_file_that_sets_nothing_is_refused() {
        for text in ["", "\n# workload = \"zipf\"\n", "[set]\n", "verbose = false\n"] {
            assert!(message(text).starts_with("exp.toml: the file sets nothing"), "{}", message(text));
        }
        // Nothing is what flags in a program may set.
        assert_eq!(parse_keys("", Path::new("/data")).unwrap(), CompareArgs::default());
    }

    #[test]
    fn every_flag_has_its_key() {
        let text = r#"
            trace = "t.spc"
            schemes = ["page", "dftl"]
            device = "x:capacity=8GiB"
            cache = ["16KiB", 65536]
            buffer = ["none", "bplru:1MiB"]
            gc = "greedy,fifo"
            rhythm = "spread"
            fill = "steady"
            host = "closed:32"
            scheduler = ["in-order", "suspend"]
            idle-gc = "1ms"
            seed = 7
            warmup = "10k"
            limit = 5_000_000
            until = "end-of-life"
            mount-cost = true
            repeat = 3
            format = "spc"
            on-error = "skip"
            out-of-range = "fold"
            volumes = "select=2"
            time-scale = 0.5
            partial = "ignore"
            threads = 2
            json = "a"
            csv = "/abs/b"
            parquet = "c"
            html = "d"
            per-request = "e"
            series = "100ms"
            verbose = true
            [set]
            dftl.gc_low = 2
            dftl-e = { window = "8", batch = false }
        "#;
        let mut args = read(text).unwrap();
        args.set.sort_by(|a, b| (&a.scheme, &a.param).cmp(&(&b.scheme, &b.param)));
        // What each flag means is tested with the flags; a file means the same, with paths beside itself.
        let line = "ftlab compare /data/t.spc --schemes page,dftl --device x:capacity=8GiB --cache 16KiB,64KiB \
                    --buffer none,bplru:1MiB --gc greedy,fifo --rhythm spread --set dftl.gc_low=2 \
                    --set dftl-e.batch=false \
                    --set dftl-e.window=8 --fill steady --host closed:32 --seed 7 --warmup 10k --limit 5M \
                    --scheduler in-order,suspend --idle-gc 1ms \
                    --until end-of-life --mount-cost --repeat \
                    3 --format spc --on-error skip --out-of-range fold --volumes select=2 --time-scale 0.5 \
                    --partial ignore --threads 2 --json /data/a --csv /abs/b --parquet /data/c --html /data/d \
                    --per-request /data/e --series 100ms --verbose";
        let Ok(Invocation::Command(Command::Compare(expected))) = args::parse(line.split_whitespace()) else {
            panic!("{line}")
        };
        assert_eq!(args, *expected);
        for key in keys() {
            assert!(key == "workload" || key == "flow" || text.contains(&key), "{key} is not tested here");
        }
    }

    #[test]
    fn settings_may_be_a_list_too() {
        let args = read("set = [\"dftl.gc_low=2\", \"dftl.gc=fifo\"]").unwrap();
        assert_eq!(args.set.len(), 2);
        assert_eq!(read("[set]\n\"dftl.gc_low\" = 2").unwrap().set[0], args.set[0]);
    }

    #[test]
    fn devices_in_files_are_relative_to_the_experiment() {
        assert_eq!(read("device = \"my.toml\"").unwrap().device.as_deref(), Some("/data/my.toml"));
    }

    #[test]
    fn flows_are_files_beside_the_experiment_if_there_are_such() {
        let directory = crate::testing::Directory::new();
        fs::write(directory.join("t.spc"), "").unwrap();
        let text = "flow = [\"t.spc@open\", \"t.spc\", \"zipf:reads=1@closed:4\"]";
        let args = parse(text, "e.toml", &directory.join("")).unwrap();
        let own = directory.join("t.spc").display().to_string();
        assert_eq!(args.flow, [format!("{own}@open"), own, "zipf:reads=1@closed:4".to_owned()]);
    }

    #[test]
    fn a_trace_may_be_a_recording_or_generated() {
        let trace = |value: &str| read(&format!("trace = \"{value}\"")).unwrap().trace.unwrap();
        for spec in ["recording:postmark", "zipf:reads=0.5"] {
            assert_eq!(trace(spec), Path::new(spec));
        }
        assert_eq!(trace("twin-of:t.csv"), Path::new("twin-of:/data/t.csv"));
        assert_eq!(trace("zipf.spc"), Path::new("/data/zipf.spc"));
    }

    /// The file was looked for in the directory that the user stood in.
    #[test]
    fn twins_are_of_files_beside_the_experiment() {
        let text = "flow = [\"twin-of:t.csv@open\", \"twin-of:/abs/t.csv,prefix=1k\"]";
        assert_eq!(read(text).unwrap().flow, ["twin-of:/data/t.csv@open", "twin-of:/abs/t.csv,prefix=1k"]);
        for (written, expected) in
            [("twin-of:t.csv,prefix=1k", "twin-of:/data/t.csv,prefix=1k"), ("twin-of:", "twin-of:")]
        {
            let args = read(&format!("workload = \"{written}\"")).unwrap();
            assert_eq!(args.workload.as_deref(), Some(expected));
        }
    }

    #[test]
    fn a_value_may_begin_with_a_dash() {
        assert_eq!(read("trace = \"-odd.spc\"").unwrap().trace.unwrap(), Path::new("/data/-odd.spc"));
    }

    #[test]
    fn faults_name_file_line_and_remedy() {
        for (text, expected) in [
            ("seed = 1\nchache = 3\n", "exp.toml:2: unknown key \"chache\"; did you mean \"cache\"?"),
            ("seed = 1\n\nfill = \"stedy\"\n", "exp.toml:3: invalid value 'stedy' for '--fill"),
            ("cache = [\"64KB\"]\n", "exp.toml:1: invalid value '64KB' for '--cache <SIZES>': `64KB` has a unit"),
            ("seed = -1", "exp.toml:1: invalid value '-1'"),
            ("verbose = 1", "exp.toml:1: verbose is either true or false"),
            ("fill = [\"none\"]", "exp.toml:1: fill is one value, not a list"),
            ("schemes = []", "exp.toml:1: schemes is an empty list"),
            ("seed = 0x10", "exp.toml:1: seed must be a decimal number"),
            (
                "[set]\npage.gc = \"fifo\"\nschemes = [\"page\"]\n",
                "exp.toml:3: set takes SCHEME.PARAMETER = VALUE, and schemes is none; a key of the file stands above",
            ),
            ("[set]\npage.gc = \"fifo\"\nchache = 3\n", "exp.toml:3: set takes SCHEME.PARAMETER = VALUE, and chache"),
            ("[set.dftl]\ngc-low = 4\nschemes = [\"page\"]\n", "exp.toml:3: dftl.schemes is one value, not a list"),
            ("on_error = \"skip\"", "exp.toml:1: unknown key \"on_error\"; did you mean \"on-error\"?"),
            ("seed = 1\ntrace = \"a\"\nworkload = \"zipf\"", "exp.toml:2: the argument"),
            ("seed = \n", "exp.toml:1: "),
            ("seed = 1\nseed = 2\n", "exp.toml:2: duplicate key"),
            ("[set]\ndftl.gc_low = [1]", "exp.toml:2: dftl.gc_low is one value"),
            ("help = true", "exp.toml:1: unknown key \"help\""),
        ] {
            let message = message(text);
            assert!(message.starts_with(expected), "{text:?}: {message}");
            assert!(!message.contains('\n'));
        }
    }

    #[test]
    fn faults_of_keys_that_no_file_holds_name_the_key() {
        for (text, expected) in [
            ("seed = 1\nchache = 3\n", "unknown key \"chache\"; did you mean \"cache\"?"),
            ("seed = 1\nfill = \"stedy\"\n", "fill: invalid value 'stedy' for '--fill"),
            ("seed = 1\ntrace = \"a\"\nworkload = \"zipf\"", "trace: the argument"),
        ] {
            let message = parse_keys(text, Path::new("/data")).unwrap_err().to_string();
            assert!(message.starts_with(expected), "{text:?}: {message}");
        }
        assert_eq!(parse_keys("json = \"a\"", Path::new("/data")).unwrap().json.as_deref(), Some(Path::new("/data/a")));
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = load(Path::new("/no/such.toml")).unwrap_err();
        assert_eq!(error.to_string(), "cannot read /no/such.toml: no such file or directory");
    }
}

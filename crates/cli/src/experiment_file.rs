//! Experiments in TOML files: `ftlab run FILE.toml` is `ftlab compare` with its flags read from a file.
//!
//! There is no second table of keys. The keys are the flags of `compare` as the command-line parser knows them, and
//! each key and value is handed to that parser as a flag; so a key cannot mean anything else than its flag, and a flag
//! cannot lack its key. What the file adds is where it was written: messages name the file and the line, and paths are
//! relative to the file.

use crate::args::{CompareArgs, one_line};
use crate::error::CliError;
use crate::output::Outputs;
use clap::{ArgAction, Args, Command, FromArgMatches, ValueHint};
use std::fs;
use std::ops::Range;
use std::path::Path;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Reads an experiment file.
///
/// # Errors
/// The file cannot be read or is no TOML; a key that no flag reads (with the nearest one); a value that its flag
/// refuses. Each names the file, and the line where there is one.
pub fn load(path: &Path) -> Result<CompareArgs, CliError> {
    let text = fs::read_to_string(path).map_err(|cause| CliError::file("read", path, &cause))?;
    let directory = path.parent().unwrap_or(Path::new(""));
    let args = parse(&text, &path.display().to_string(), directory)?;
    let mut outputs = Outputs::beside([("the experiment", path)]);
    let reports = [("json", &args.json), ("csv", &args.csv), ("parquet", &args.parquet), ("html", &args.html)];
    for (key, file) in reports.into_iter().chain([("per-request", &args.per_request)]) {
        let claimed = file.as_ref().map_or(Ok(()), |file| outputs.claim(key, file));
        claimed.map_err(|error| error.within(path.display()))?;
    }
    Ok(args)
}

/// Reads the text of an experiment file; `name` stands in messages, relative paths start from `directory`.
///
/// # Errors
/// As [`load`].
pub fn parse(text: &str, name: &str, directory: &Path) -> Result<CompareArgs, CliError> {
    let command = CompareArgs::augment_args(Command::new("run"));
    Document { text, name: Some(name), directory, command }.read()
}

/// Reads keys and values that no file holds, written as one is: `KEY = VALUE`, a line each. Relative paths start from
/// `directory`.
///
/// # Errors
/// As [`load`]; they name the key.
pub fn parse_keys(text: &str, directory: &Path) -> Result<CompareArgs, CliError> {
    let command = CompareArgs::augment_args(Command::new("run"));
    Document { text, name: None, directory, command }.read()
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
    fn read(&self) -> Result<CompareArgs, CliError> {
        let table =
            DeTable::parse(self.text).map_err(|error| self.fault(error.span().unwrap_or(0..0), error.message()))?;
        let mut words: Vec<String> = vec!["run".to_owned()];
        let mut positional = None;
        let mut seen: Vec<(String, Range<usize>)> = Vec::new();
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
            for value in self.values(written, argument, value)? {
                let value = self.resolve(written, argument, value);
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
            self.accept(own, argument.is_positional()).map_err(|error| self.fault(value.span(), error.message()))?;
            seen.push((written.to_owned(), key.span()));
        }
        let has_positional = positional.is_some();
        words.extend(positional.map(|value| ["--".to_owned(), value]).into_iter().flatten());
        self.accept_words(words).map_err(|error| {
            // Only the combination can be wrong now: point at the trace, or at the first key.
            let place = seen.iter().find(|(key, _)| has_positional && key == "trace").or(seen.first());
            self.fault(place.map_or(0..0, |(_, span)| span.clone()), error.message())
        })
    }

    /// The value as its flag would be given: one string, or several where the flag repeats.
    fn values(&self, key: &str, argument: &clap::Arg, value: &Spanned<DeValue<'_>>) -> Result<Vec<String>, CliError> {
        let takes_list = matches!(argument.get_action(), ArgAction::Append);
        let joined = argument.get_value_delimiter().is_some();
        match value.get_ref() {
            DeValue::Boolean(flag) if matches!(argument.get_action(), ArgAction::SetTrue) => Ok(vec![flag.to_string()]),
            _ if matches!(argument.get_action(), ArgAction::SetTrue) => {
                Err(self.fault(value.span(), format_args!("{key} is either true or false")))
            }
            DeValue::Array(items) if takes_list => {
                let items: Vec<String> = items.iter().map(|item| self.scalar(key, item)).collect::<Result<_, _>>()?;
                match (joined, items.is_empty()) {
                    (_, true) => Err(self.fault(value.span(), format_args!("{key} is an empty list"))),
                    (true, _) => Ok(vec![items.join(",")]),
                    (false, _) => Ok(items),
                }
            }
            DeValue::Table(table) if takes_list && !joined => self.settings(key, table),
            _ => Ok(vec![self.scalar(key, value)?]),
        }
    }

    /// `[set]` with `dftl.gc-low = 4`, `dftl = { gc-low = 4 }`, or `"dftl.gc-low" = 4`.
    fn settings(&self, key: &str, table: &DeTable<'_>) -> Result<Vec<String>, CliError> {
        let mut settings = Vec::new();
        for (name, value) in table {
            let name: &str = name.get_ref();
            if let DeValue::Table(params) = value.get_ref() {
                for (param, value) in params {
                    settings.push(format!("{name}.{}={}", param.get_ref(), self.scalar(key, value)?));
                }
            } else {
                settings.push(format!("{name}={}", self.scalar(key, value)?));
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

    /// Paths are relative to the file; so is a device that is a file.
    fn resolve(&self, key: &str, argument: &clap::Arg, value: String) -> String {
        let is_path = matches!(argument.get_value_hint(), ValueHint::FilePath)
            || (key == "device" && Path::new(&value).extension().is_some_and(|extension| extension == "toml"));
        // A flow is a trace only if there is such a file; it may have a host behind it.
        let is_file = |name: &str| key == "flow" && self.directory.join(name).is_file();
        let is_path = is_path || is_file(&value) || value.rsplit_once('@').is_some_and(|(name, _)| is_file(name));
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

    fn fault(&self, span: Range<usize>, what: impl std::fmt::Display) -> CliError {
        let before = &self.text[..span.start.min(self.text.len())];
        match self.name {
            Some(name) => CliError::new(what).within(format_args!("{name}:{}", 1 + before.matches('\n').count())),
            None => {
                let start = before.rfind('\n').map_or(0, |end| end + 1);
                let key = self.text[start..].split(['=', '\n']).next().unwrap_or_default().trim();
                if key.is_empty() { CliError::new(what) } else { CliError::new(what).within(key) }
            }
        }
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
    fn an_empty_file_is_a_plain_compare() {
        assert_eq!(read("").unwrap(), CompareArgs::default());
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
            ("on_error = \"skip\"", "exp.toml:1: unknown key \"on_error\"; did you mean \"on-error\"?"),
            ("seed = 1\ntrace = \"a\"\nworkload = \"zipf\"", "exp.toml:2: the argument"),
            ("seed = \n", "exp.toml:1: "),
            ("seed = 1\nseed = 2\n", "exp.toml:2: duplicate key"),
            ("[set]\ndftl.gc_low = [1]", "exp.toml:2: set is one value"),
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

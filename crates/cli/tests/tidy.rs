//! The taste of the tree: crate edges, a core without the standard library, file sizes, words that mean unfinished
//! work, links that lead somewhere.
//!
//! Each test names every place at fault, so that one run is enough to mend them all.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

/// Which crate may use which other crates of ours. A crate that is not here is an error, too.
const EDGES: &[(&str, &[&str])] = &[
    ("ftlab-flash", &[]),
    ("ftlab-ftl", &["ftlab-flash"]),
    ("ftlab-reliability", &["ftlab-flash"]),
    ("ftlab-sim", &["ftlab-flash", "ftlab-ftl", "ftlab-reliability"]),
    ("ftlab-columnar", &["ftlab-sim"]),
    ("ftlab-recordings", &[]),
    ("ftlab-device", &["ftlab-flash", "ftlab-ftl", "ftlab-reliability"]),
    (
        "ftlab",
        &[
            "ftlab-flash",
            "ftlab-ftl",
            "ftlab-reliability",
            "ftlab-sim",
            "ftlab-columnar",
            "ftlab-recordings",
            "ftlab-device",
        ],
    ),
    ("ftlab-python", &["ftlab-flash", "ftlab-ftl", "ftlab-sim", "ftlab"]),
    ("ftlab-bare", &["ftlab-flash", "ftlab-ftl", "ftlab-reliability"]),
];

/// Crates that build without the standard library.
const CORE: &[&str] = &["crates/flash", "crates/ftl", "crates/reliability"];

/// Lines of code that a file may have; comments and blank lines do not count, for an explanation is never too long.
const CODE_LINES: usize = 1000;

/// Files that may have more, and why.
const LONG_FILES: &[(&str, &str)] = &[];

/// Characters that a line of code may have.
const LINE_WIDTH: usize = 120;

/// Words of unfinished work, cut in two so that they do not stand here.
const UNFINISHED: &[(&str, &str)] =
    &[("TO", "DO"), ("FIX", "ME"), ("XX", "X:"), ("todo", "!("), ("unimplemented", "!("), ("#[ign", "ore")];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// All files below `directory` whose name ends in `extension`, by their path from the root; nothing built or hidden.
fn files(directory: &str, extension: &str) -> Vec<(String, String)> {
    fn walk(directory: &Path, extension: &str, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() && name != "target" && !name.starts_with('.') {
                walk(&path, extension, found);
            } else if name.ends_with(extension) {
                found.push(path);
            }
        }
    }
    let root = root();
    let mut found = Vec::new();
    walk(&root.join(directory), extension, &mut found);
    found.sort();
    let relative = |path: &PathBuf| path.strip_prefix(&root).unwrap().to_string_lossy().into_owned();
    found.iter().map(|path| (relative(path), fs::read_to_string(path).unwrap())).collect()
}

fn rust() -> Vec<(String, String)> {
    let found: Vec<_> = ["crates", "benches"].iter().flat_map(|directory| files(directory, ".rs")).collect();
    assert!(found.len() > 50, "the sources were not found");
    found
}

fn none(what: &str, faults: &[String]) {
    assert!(faults.is_empty(), "{what}:\n{}", faults.join("\n"));
}

/// The part of a line that is code, roughly: what stands before `//`. A string that holds `//` loses its end.
fn code(line: &str) -> &str {
    line.find("//").map_or(line, |at| &line[..at])
}

/// Whether `word` stands in `text` with no letter, digit or underscore in front.
fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word)
        .any(|(at, _)| !text[..at].chars().next_back().is_some_and(|before| before.is_alphanumeric() || before == '_'))
}

/// Every table of dependencies in a manifest: plain, for tests, for build scripts, for targets.
fn dependencies(manifest: &toml::Table) -> Vec<&toml::Table> {
    let kinds = ["dependencies", "dev-dependencies", "build-dependencies"];
    let targets = manifest.get("target").and_then(toml::Value::as_table);
    let places = std::iter::once(manifest)
        .chain(targets.into_iter().flat_map(|targets| targets.values().filter_map(toml::Value::as_table)));
    places.flat_map(|place| kinds.iter().filter_map(|kind| place.get(*kind)?.as_table())).collect()
}

#[test]
fn crates_use_only_what_they_may() {
    let allowed: BTreeMap<&str, &[&str]> = EDGES.iter().copied().collect();
    let mut faults = Vec::new();
    let mut seen = BTreeSet::new();
    for (path, text) in files("crates", "Cargo.toml") {
        let manifest: toml::Table = text.parse().unwrap();
        let name = manifest["package"]["name"].as_str().unwrap().to_owned();
        let Some(may) = allowed.get(name.as_str()) else {
            faults.push(format!("{path}: {name} is not in the table of edges"));
            continue;
        };
        for table in dependencies(&manifest) {
            for (key, value) in table {
                let used = value.get("package").and_then(toml::Value::as_str).unwrap_or(key);
                if allowed.contains_key(used) && !may.contains(&used) {
                    faults.push(format!("{path}: {name} may not use {used}"));
                }
            }
        }
        seen.insert(name);
    }
    faults.extend(EDGES.iter().filter(|(name, _)| !seen.contains(*name)).map(|(name, _)| format!("no crate {name}")));
    none("edges that are not allowed", &faults);
}

#[test]
fn the_core_does_not_name_the_standard_library() {
    let mut faults = Vec::new();
    for directory in CORE {
        let sources = files(&format!("{directory}/src"), ".rs");
        let (_, library) = sources.iter().find(|(path, _)| path.ends_with("src/lib.rs")).unwrap();
        if !library.lines().any(|line| line == "#![no_std]") {
            faults.push(format!("{directory}/src/lib.rs: no line #![no_std]"));
        }
        for (path, text) in sources.iter().filter(|(path, _)| !path.ends_with("tests.rs")) {
            // Tests stand at the end of a file or in one of their own, and run on a machine that has everything.
            let text = text.split("#[cfg(test)]\nmod ").next().unwrap();
            for (number, line) in text.lines().enumerate() {
                if has_word(code(line), "std::") || code(line).contains("extern crate std") {
                    faults.push(format!("{path}:{}: {line}", number + 1));
                }
            }
        }
    }
    none("the standard library in the core", &faults);
}

/// What the core depends on, on this machine: each of them, whole trees down, must be `no_std`. That it really is, the
/// crate `bare` proves by building.
#[test]
fn the_core_depends_on_crates_without_the_standard_library() {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--prefix", "none", "--edges", "normal,build", "--format", "{p}"])
        .args(["-p", "ftlab-flash", "-p", "ftlab-ftl", "-p", "ftlab-reliability"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let tree = String::from_utf8(output.stdout).unwrap();
    let outside: BTreeSet<&str> = tree
        .lines()
        .filter_map(|line| line.split(' ').next())
        .filter(|name| !name.is_empty() && !name.starts_with("ftlab-"))
        .collect();
    let known = BTreeSet::from(["libm", "safe_arch"]);
    let new: Vec<String> = outside.difference(&known).map(|name| (*name).to_owned()).collect();
    none("the core has dependencies that nobody looked at: may firmware have them?", &new);
}

#[test]
fn no_file_is_unsafe() {
    let word = ["un", "safe"].concat();
    let forms = ["{", "fn", "impl", "trait", "extern"].map(|next| format!("{word} {next}"));
    let mut faults = Vec::new();
    for (path, text) in rust() {
        for (number, line) in text.lines().enumerate() {
            if forms.iter().any(|form| has_word(code(line), form)) {
                faults.push(format!("{path}:{}", number + 1));
            }
        }
    }
    none("unsafe code", &faults);
    let workspace: toml::Table = fs::read_to_string(root().join("Cargo.toml")).unwrap().parse().unwrap();
    assert_eq!(workspace["workspace"]["lints"]["rust"][&format!("{word}_code")].as_str(), Some("forbid"));
    for (path, text) in files("crates", "Cargo.toml") {
        let manifest: toml::Table = text.parse().unwrap();
        let inherits = manifest.get("lints").and_then(|lints| lints.get("workspace")).and_then(toml::Value::as_bool);
        assert_eq!(inherits, Some(true), "{path}: [lints] workspace = true is missing");
    }
}

#[test]
fn files_are_short_and_lines_narrow() {
    let mut faults = Vec::new();
    for (path, text) in rust() {
        let count = text.lines().filter(|line| !code(line).trim().is_empty()).count();
        if count > CODE_LINES && !LONG_FILES.iter().any(|(long, _)| *long == path) {
            faults.push(format!("{path}: {count} lines of code, more than {CODE_LINES}"));
        }
        for (number, line) in text.lines().enumerate() {
            let width = line.chars().count();
            // A table row of a comment cannot be broken.
            let row = ["//! |", "/// |", "// |"].iter().any(|start| line.trim_start().starts_with(start));
            if width > LINE_WIDTH && !row {
                faults.push(format!("{path}:{}: {width} columns, more than {LINE_WIDTH}", number + 1));
            }
        }
    }
    none("too long", &faults);
    for (path, reason) in LONG_FILES {
        assert!(root().join(path).is_file() && !reason.is_empty(), "{path} is listed as long");
    }
}

#[test]
fn nothing_is_left_unfinished() {
    let mut faults = Vec::new();
    let pages = files("", ".md");
    for (path, text) in rust().into_iter().chain(pages).chain(files("", ".toml")) {
        for (number, line) in text.lines().enumerate() {
            for (head, tail) in UNFINISHED {
                if has_word(line, &format!("{head}{tail}")) {
                    faults.push(format!("{path}:{}: {head}{tail}", number + 1));
                }
            }
        }
    }
    none("unfinished work", &faults);
}

/// A reader has no list of what a short code stands for: publications are called by their names, or by their keys where
/// `ftl::papers` puts the names.
#[test]
fn publications_are_called_by_name() {
    // What a text has in front keeps variables of that name out.
    let pages = ["\"", "; ", "// "].map(|before| format!("{before}specs{}", ':'));
    let codes = (0..5).map(|number| format!("S{number}")).chain(pages).collect::<Vec<_>>();
    let names = |line: &str, code: &str| {
        let ends = |at: usize| !line[at + code.len()..].starts_with(char::is_alphanumeric);
        has_word(line, code) && line.match_indices(code).any(|(at, _)| ends(at))
    };
    let mut faults = Vec::new();
    // The changelog says what was changed from what.
    let pages = files("", ".md").into_iter().chain(files("python", ".py")).filter(|(path, _)| path != "CHANGELOG.md");
    // A page names nothing that only one machine has.
    let elsewhere = format!("../{}", "shared");
    for (path, text) in rust().into_iter().chain(files("experiments", ".toml")).chain(pages) {
        for (number, line) in text.lines().enumerate() {
            let is_elsewhere = path.ends_with(".md") && line.contains(&elsewhere);
            let named = codes.iter().filter(|code| names(line, code)).chain(is_elsewhere.then_some(&elsewhere));
            faults.extend(named.map(|code| format!("{path}:{}: {code}", number + 1)));
        }
    }
    none("codes in place of names", &faults);
    // What the commands print is made of those texts; rows are looked at as they are printed.
    for row in ftl::schemes::SCHEMES {
        let printed = ftl::papers::introduce(row.paper);
        assert!(!printed.contains('{') && codes.iter().all(|code| !names(&printed, code)), "{printed}");
    }
}

#[test]
fn every_file_says_what_it_is() {
    let silent = rust().into_iter().filter(|(_, text)| !text.starts_with("//!")).map(|(path, _)| path);
    none("files that do not open with //!", &silent.collect::<Vec<_>>());
}

/// Targets of the links in a page: what stands in `](…)`, outside code.
fn links(text: &str) -> Vec<String> {
    let mut links = Vec::new();
    let mut fenced = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            let targets = line.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
            links.extend(targets.map(|(target, _)| target.to_owned()));
        }
    }
    assert!(!fenced, "a fence is not closed");
    links
}

/// Headings of a page as the anchors that links use.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let anchor = |heading: &str| {
        heading
            .to_lowercase()
            .chars()
            .filter(|&c| c.is_alphanumeric() || c == ' ' || c == '-' || c == '_')
            .map(|c| if c == ' ' { '-' } else { c })
            .collect()
    };
    headings.map(anchor).collect()
}

/// `directory/../other` without the detour.
fn plain(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut plain, part| {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            other => plain.push(other),
        }
        plain
    })
}

#[test]
fn links_between_pages_lead_somewhere() {
    let mut faults = Vec::new();
    for (path, text) in files("", ".md") {
        for link in links(&text).into_iter().filter(|link| !link.contains("://") && !link.starts_with("mailto:")) {
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = if file.is_empty() {
                root().join(&path)
            } else {
                plain(&root().join(&path).parent().unwrap().join(file))
            };
            if !target.exists() {
                faults.push(format!("{path}: {link} does not exist"));
            } else if !anchor.is_empty() && !anchors(&fs::read_to_string(&target).unwrap()).contains(anchor) {
                faults.push(format!("{path}: {link} names no heading of that page"));
            }
        }
    }
    none("links that lead nowhere", &faults);
}

#[test]
fn every_page_can_be_found() {
    let read = |name: &str| fs::read_to_string(root().join(name)).unwrap();
    let linked: BTreeSet<String> = ["README.md", "ARCHITECTURE.md"]
        .iter()
        .flat_map(|page| links(&read(page)))
        .map(|link| link.split('#').next().unwrap().to_owned())
        .collect();
    let lost = files("docs", ".md").into_iter().map(|(path, _)| path).filter(|path| !linked.contains(path));
    none("pages that neither README nor ARCHITECTURE links to", &lost.collect::<Vec<_>>());
    let site = read("mkdocs.yml");
    let named = |path: &str| site.lines().any(|line| line.ends_with(&format!(": {}", path.replacen("docs/", "", 1))));
    let lost = files("docs", ".md").into_iter().map(|(path, _)| path).filter(|path| !named(path));
    none("pages that are missing in the navigation of mkdocs.yml", &lost.collect::<Vec<_>>());
}

/// Paths that a text names: words that begin with `prefix` and go on as a path.
fn paths<'a>(text: &'a str, prefix: &'a str) -> impl Iterator<Item = &'a str> {
    text.match_indices(prefix).map(|(at, _)| {
        let rest = &text[at..];
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || "/._-*{}<>…".contains(c))).unwrap_or(rest.len());
        rest[..end].trim_end_matches(['.', '/'])
    })
}

#[test]
fn files_that_are_named_exist() {
    let mut faults = BTreeSet::new();
    let pages = files("", ".md").into_iter().filter(|(path, _)| path != "CHANGELOG.md");
    for (path, text) in rust().into_iter().chain(pages) {
        for named in ["docs/", "crates/", "benches/"].iter().flat_map(|prefix| paths(&text, prefix)) {
            // NAME and other patterns stand for a file that the reader is to make.
            let pattern = named.contains(['*', '{', '<', '…']) || named.contains("NAME");
            let file = Path::new(named).extension().is_some() || named.matches('/').count() > 1;
            if file && !pattern && !root().join(named).exists() {
                faults.insert(format!("{path}: {named}"));
            }
        }
    }
    none("files that are named but do not exist", &faults.into_iter().collect::<Vec<_>>());
}

/// A text that no longer occurs once is no planted bug, and `make mutants` would build nothing.
#[test]
fn every_planted_bug_has_its_place() {
    let (mut faults, mut rows) = (Vec::new(), 0);
    for (name, text) in files("mutants", ".toml").iter().filter(|(name, _)| !name.ends_with("Cargo.toml")) {
        let table: toml::Table = text.parse().unwrap();
        for row in table["mutant"].as_array().unwrap() {
            let key = |key: &str| row[key].as_str().unwrap();
            let source = fs::read_to_string(root().join(key("file"))).unwrap_or_default();
            let times = source.matches(key("find")).count();
            if times != 1 {
                faults.push(format!("{name}: {}: its text occurs {times} times in {}", key("name"), key("file")));
            }
            rows += 1;
        }
    }
    assert!(rows > 500, "{rows} rows");
    none("planted bugs without a place", &faults);
}

//! The examples of the pages run as printed.
//!
//! Each fence marked `console` in README.md and docs/ is a session in a directory of its own. A line that begins with a
//! dollar sign is a command, the lines after it are its standard output. `ftlab …` and `cargo run --release -- …` run
//! the program under test and must succeed; other commands are left alone. Output must be exactly what is shown, unless
//! `…` stands somewhere in it: then `…` stands for any text in its line, the lines that are shown must appear in their
//! order, others may stand between them, and blanks count as one.
//!
//! `FTLAB_BLESS=1 cargo test -p ftlab --test readme` writes exact outputs anew, to be read before they are committed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

struct Example {
    page: String,
    line: usize,
    command: String,
    output: Vec<String>,
}

/// The sessions of a page.
fn sessions(page: &Path, root: &Path) -> Vec<Vec<Example>> {
    let name = page.strip_prefix(root).unwrap().display().to_string();
    let mut sessions = Vec::new();
    let mut fence: Option<Vec<Example>> = None;
    for (number, line) in fs::read_to_string(page).unwrap().lines().enumerate() {
        match &mut fence {
            None if line == "```console" => fence = Some(Vec::new()),
            None => {}
            Some(_) if line == "```" => sessions.extend(fence.take()),
            Some(examples) => match (line.strip_prefix("$ "), examples.last_mut()) {
                (Some(command), _) => {
                    let command = command.split(" #").next().unwrap().trim().to_owned();
                    examples.push(Example { page: name.clone(), line: number + 1, command, output: Vec::new() });
                }
                (None, Some(example)) => example.output.push(line.to_owned()),
                (None, None) => panic!("{name}:{}: output before any command", number + 1),
            },
        }
    }
    assert!(fence.is_none(), "{name}: a fence is not closed");
    sessions
}

/// Whether `line` is `pattern`, in which `…` stands for any text; blanks count as one.
fn fits(pattern: &str, line: &str) -> bool {
    let squeeze = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (pattern, line) = (squeeze(pattern), squeeze(line));
    let parts: Vec<&str> = pattern.split('…').map(str::trim).collect();
    let [first, .., last] = parts[..] else { return pattern == line };
    let Some(rest) = line.strip_prefix(first) else { return false };
    let Some(mut rest) = rest.strip_suffix(last) else { return false };
    for part in &parts[1..parts.len() - 1] {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    true
}

/// The first expected line that the output does not have after those before it.
fn missing<'a>(expected: &'a [String], output: &str) -> Option<&'a str> {
    let mut lines = output.lines();
    expected
        .iter()
        .filter(|line| !line.trim().is_empty() && line.trim() != "…")
        .find(|pattern| !lines.any(|line| fits(pattern, line)))
        .map(String::as_str)
}

#[test]
fn examples_do_what_they_show() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let mut pages: Vec<PathBuf> = vec![root.join("README.md")];
    for directory in ["docs", "docs/tutorial"] {
        pages.extend(fs::read_dir(root.join(directory)).unwrap().map(|entry| entry.unwrap().path()));
    }
    pages.retain(|page| page.extension().is_some_and(|extension| extension == "md"));
    pages.sort();

    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("readme");
    let mut count = 0;
    let mut faults = Vec::new();
    let mut blessed = Vec::new();
    for session in pages.iter().flat_map(|page| sessions(page, &root)) {
        let _ = fs::remove_dir_all(&place);
        fs::create_dir_all(&place).unwrap();
        for Example { page, line, command, output } in session {
            let Some(arguments) =
                ["ftlab ", "cargo run --release -- "].iter().find_map(|start| command.strip_prefix(start))
            else {
                continue;
            };
            count += 1;
            let done = Command::new(env!("CARGO_BIN_EXE_ftlab"))
                .args(arguments.split_whitespace())
                .current_dir(&place)
                .output()
                .unwrap();
            let (stdout, stderr) = (String::from_utf8(done.stdout).unwrap(), String::from_utf8(done.stderr).unwrap());
            if !done.status.success() {
                faults.push(format!("{page}:{line}: {command}\n  ended with {}: {stderr}", done.status));
            } else if !output.is_empty() && !output.iter().any(|line| line.contains('…')) {
                let (shown, printed) = (output.join("\n"), stdout.trim_end().to_owned());
                if shown.trim_end() != printed {
                    faults.push(format!("{page}:{line}: {command}\n  prints now (see FTLAB_BLESS):\n{printed}"));
                    blessed.push((page, (shown.trim_end().to_owned(), printed)));
                }
            } else if let Some(pattern) = missing(&output, &stdout) {
                faults.push(format!("{page}:{line}: {command}\n  does not print, in its place: {pattern}\n{stdout}"));
            }
        }
    }
    assert!(count > 0, "no example was found");
    if std::env::var_os("FTLAB_BLESS").is_some() {
        for (page, (old, new)) in blessed {
            let path = root.join(page);
            let text = fs::read_to_string(&path).unwrap();
            fs::write(path, text.replacen(&old, &new, 1)).unwrap();
        }
        return;
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn patterns() {
    assert!(fits("page   412*  …", "page 412* 1.62 0.0"));
    assert!(fits("… requests (… %)", "twin:financial1: 500,000 requests (19 %)"));
    assert!(fits("plain", " plain "));
    assert!(!fits("page …", "dftl 3"));
    assert!(!fits("a … a", "a"));
    let expected = ["one".to_owned(), "…".to_owned(), "three".to_owned()];
    assert_eq!(missing(&expected, "zero\none\ntwo\nthree\n"), None);
    assert_eq!(missing(&expected, "three\none\n"), Some("three"));
}

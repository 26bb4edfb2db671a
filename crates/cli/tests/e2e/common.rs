//! Running the built command in a directory of the test's own.
#![allow(dead_code, reason = "every test file uses a part")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// A directory of one test's own, removed when dropped.
pub(crate) struct Directory(PathBuf);

impl Directory {
    pub(crate) fn new() -> Directory {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("ftlab-e2e-{}-{count}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Directory(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn file(&self, name: &str, contents: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, contents).unwrap();
        path
    }

    /// The names in the directory, hidden ones included, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Runs `ftlab` here.
    pub(crate) fn ftlab(&self, line: &str) -> Ran {
        let words = line.split_whitespace();
        let output = Command::new(env!("CARGO_BIN_EXE_ftlab")).args(words).current_dir(&self.0).output().unwrap();
        Ran::new(line, output)
    }

    /// Runs `ftlab` here and presses Ctrl-C once it is at work: it ends by itself, soon, with exit code 130.
    #[cfg(unix)]
    pub(crate) fn interrupted(&self, line: &str) -> Ran {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ftlab"));
        command.args(line.split_whitespace()).current_dir(&self.0).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        std::thread::sleep(Duration::from_millis(500));
        assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
        let ran = Ran::new(line, child.wait_with_output().unwrap());
        assert_eq!(ran.code, Some(130), "{line}: {}{}", ran.stdout, ran.stderr);
        assert!(ran.stderr.contains("interrupted"), "{line}: {}", ran.stderr);
        ran
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What a command did.
pub(crate) struct Ran {
    pub(crate) line: String,
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    fn new(line: &str, output: Output) -> Ran {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Ran {
            line: line.to_owned(),
            code: output.status.code(),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }

    /// It succeeded, silently but for its output, which fits the width.
    pub(crate) fn succeeded(self) -> Ran {
        assert_eq!(self.code, Some(0), "{}: {}", self.line, self.stderr);
        assert_eq!(self.stderr, "", "{}", self.line);
        for line in self.stdout.lines() {
            assert!(line.chars().count() <= 100, "{}: {line}", self.line);
        }
        self
    }

    /// It was refused in one line on standard error, with exit code 2.
    pub(crate) fn refused(self) -> String {
        assert_eq!(self.code, Some(2), "{}: {}{}", self.line, self.stdout, self.stderr);
        assert_eq!(self.stdout, "", "{}", self.line);
        assert_eq!(self.stderr.lines().count(), 1, "{}: {}", self.line, self.stderr);
        assert!(!self.stderr.contains("panicked"), "{}: {}", self.line, self.stderr);
        self.stderr
            .strip_prefix("error: ")
            .unwrap_or_else(|| panic!("{}: {}", self.line, self.stderr))
            .trim_end()
            .to_owned()
    }
}

/// An SPC trace of writes and reads over some megabytes.
pub(crate) fn spc(requests: u64) -> String {
    let line = |i: u64| {
        let sector = i.wrapping_mul(2_654_435_761) % 40_000 * 8 + i % 3;
        let kind = if i.is_multiple_of(4) { 'r' } else { 'w' };
        format!("{},{sector},{},{kind},{}.{:06}\n", i % 2, 4096 * (1 + i % 3), i / 2000, i % 2000 * 500)
    };
    (0..requests).map(line).collect()
}

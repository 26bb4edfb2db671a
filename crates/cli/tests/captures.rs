//! `scripts/captures` met with what it cannot do: names and sizes that do not exist, programs that are not there.
//!
//! The recordings themselves take minutes and root, and are made by `make captures`.

#![allow(clippy::print_stdout, reason = "says which tests were skipped")]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Programs that every recording on ext4 needs.
const CHAIN: [&str; 7] = ["nbdfuse", "fusermount3", "losetup", "mount", "umount", "setpriv", "mkfs.ext4"];

/// The interpreter itself: what `python3` leads to may be a script that needs the whole PATH.
fn python() -> Option<PathBuf> {
    let asked = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output().ok()?;
    let path = PathBuf::from(String::from_utf8(asked.stdout).ok()?.trim());
    if !path.is_file() {
        println!("skipped: python3 not installed on this machine");
        return None;
    }
    Some(path)
}

/// A directory of programs that do nothing, to be all of PATH.
fn pretended(name: &str, programs: &[&str]) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    for program in programs {
        let path = directory.join(program);
        fs::write(&path, "#!/bin/sh\nexit 1\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    directory
}

fn captures(python: &Path, size: &str, path: Option<&Path>, arguments: &[&str]) -> Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/captures");
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("captures");
    let mut command = Command::new(python);
    command.arg(script).args(arguments).env("SIZE", size).env("CAPTURES", out);
    command.env("FTLAB", env!("CARGO_BIN_EXE_ftlab"));
    if let Some(path) = path {
        command.env("PATH", path);
    }
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn an_unknown_name_or_size_names_what_there_is() {
    let Some(python) = python() else { return };
    for (size, name, says) in [
        ("minute", "postgres-xsf", "no recording is named postgres-xsf; the nearest is postgres-xfs"),
        ("minute", "qqqqqqqq", "no recording is named qqqqqqqq; there are postgres-ext4, postgres-xfs,"),
        ("hour", "postmark", "SIZE is minute or full, not hour"),
    ] {
        let output = captures(&python, size, None, &[name]);
        assert!(text(&output.stderr).contains(says), "{}", text(&output.stderr));
        assert_eq!(output.status.code(), Some(2));
        assert!(output.stdout.is_empty(), "something was done for {name}");
    }
}

#[test]
fn a_missing_program_names_its_package_and_the_others_go_on() {
    let Some(python) = python() else { return };
    let path = pretended("without-postmark", &CHAIN);
    let output = captures(&python, "minute", Some(&path), &["--check", "postmark", "largefile"]);
    let said = text(&output.stdout);
    let reason = "the program postmark is missing, Debian has it in the package postmark";
    assert!(said.contains(&format!("postmark: skipped: {reason}\nlargefile: can be recorded\n")), "{said}");
    assert!(said.ends_with(&format!("1 of 2 rows cannot be recorded:\n  postmark: {reason}\n")), "{said}");
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
}

/// With a chain of programs that only fail, each row fails by itself: the second one is still tried.
#[test]
fn a_row_that_fails_does_not_end_the_run() {
    let Some(python) = python() else { return };
    let root = fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
    let version_1 = Path::new("/sys/fs/cgroup/memory/cgroup.procs").exists();
    if !root || !version_1 || !Path::new("/dev/fuse").exists() || !Path::new("/dev/loop-control").exists() {
        println!("skipped: needs root, /dev/fuse, /dev/loop-control and a memory cgroup of version 1");
        return;
    }
    let path = pretended("all-fail", &[&CHAIN[..], &["postmark", "sync"]].concat());
    let output = captures(&python, "minute", Some(&path), &["postmark", "largefile"]);
    let said = text(&output.stdout);
    for row in ["postmark", "largefile"] {
        assert!(said.contains(&format!("\n  {row}: nbdfuse ended")), "{said}{}", text(&output.stderr));
    }
    assert!(said.contains("2 of 2 rows went wrong or lack a program:"), "{said}");
    assert_eq!(output.status.code(), Some(1));
    let left = fs::read_dir(Path::new(env!("CARGO_TARGET_TMPDIR")).join("captures/minute")).unwrap().count();
    assert_eq!(left, 0, "a recording that failed leaves nothing behind");
}

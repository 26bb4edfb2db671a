//! A served image for tests: a directory of its own, `ftlab serve` as a process, signals to it.
#![allow(dead_code, unreachable_pub, reason = "every test file uses a part")]
#![allow(clippy::print_stdout, reason = "says which tests were skipped")]

use device::nbd::client::Client;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// A directory with an image, removed when dropped.
pub struct Bench {
    pub directory: PathBuf,
    pub scheme: String,
}

impl Bench {
    /// A new image of `scheme` on a device, discards durable.
    pub fn new(scheme: &str, device: &str) -> Bench {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir().join(format!("ftlab-serve-{}-{number}", std::process::id()));
        std::fs::create_dir(&directory).unwrap();
        let bench = Bench { directory, scheme: scheme.to_owned() };
        // Not made in this process: another test that starts a program would hand the open image to it for a moment.
        let made = bench.ftlab(&format!("image create image --device {device} --scheme {scheme}")).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        bench
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    pub fn uri(&self) -> String {
        format!("nbd+unix:///?socket={}", self.file("socket").display())
    }

    /// Runs `ftlab` here.
    pub fn ftlab(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ftlab"));
        command.args(line.split_whitespace()).current_dir(&self.directory);
        command
    }

    /// Serves the image until told otherwise, and waits until it listens.
    pub fn serve(&self, flags: &str) -> Served {
        let line = format!("serve --image image --scheme {} --socket socket {flags}", self.scheme);
        let mut child = self.ftlab(&line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut said = String::new();
        while !said.lines().any(|line| line.starts_with("serving ")) {
            if output.read_line(&mut said).unwrap() == 0 {
                let mut errors = String::new();
                child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
                panic!("the server did not start: {said}{errors}");
            }
        }
        Served { child, output, said, socket: self.file("socket") }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// A running server; killed when dropped.
pub struct Served {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
    said: String,
    socket: PathBuf,
}

impl Served {
    /// What it said up to the moment when it listened.
    pub fn said(&self) -> &str {
        &self.said
    }

    pub fn client(&self) -> Client {
        Client::connect(&self.socket).unwrap()
    }

    /// The server's next line.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line
    }

    /// Sends a signal and waits for the end: how it ended, what else it said, its complaints.
    pub fn end(mut self, signal: &str) -> (ExitStatus, String, String) {
        let sent = Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
        let (mut said, mut errors) = (String::new(), String::new());
        self.output.read_to_string(&mut said).unwrap();
        self.child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        (self.child.wait().unwrap(), said, errors)
    }

    /// Stops it cleanly; its report. The signal comes twice, as from `timeout`.
    pub fn stop(self) -> String {
        let once = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().unwrap();
        assert!(once.success());
        let (status, said, errors) = self.end("-TERM");
        assert!(status.success() && errors.is_empty(), "{status}: {said}{errors}");
        said
    }

    /// Kills it: nothing of what it had in memory survives.
    pub fn kill(self) {
        self.end("-KILL");
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether programs are there; says which are not.
pub fn installed(programs: &[&str]) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places: Vec<PathBuf> = std::env::split_paths(&path).chain(["/usr/sbin", "/sbin"].map(PathBuf::from)).collect();
    let missing = |program: &&&str| !places.iter().any(|place| place.join(program).is_file());
    let missing: Vec<_> = programs.iter().filter(missing).copied().collect();
    if !missing.is_empty() {
        println!("skipped: {} not installed on this machine", missing.join(" and "));
    }
    missing.is_empty()
}

/// Runs a program that must succeed; what it said.
pub fn run(program: impl AsRef<Path>, arguments: &[&str]) -> String {
    let program = program.as_ref();
    let output = Command::new(program).args(arguments).env("PATH", search_path()).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (said, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{} {arguments:?}: {}\n{said}{errors}", program.display(), output.status);
    said
}

/// Where administrators' programs are, too.
pub fn search_path() -> String {
    format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default())
}

/// Waits for something to become true.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < deadline, "{what} took too long");
        std::thread::sleep(Duration::from_millis(5));
    }
}

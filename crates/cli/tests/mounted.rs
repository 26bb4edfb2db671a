//! A real file system on a served image, with PostMark and SQLite at work when the server is killed.
//!
//! ext4 on a loop device, over `nbdfuse`: code of which nothing was written here. After the kill the image is served
//! again, the journal is replayed, and then `e2fsck` must find nothing, every file that was synced must be whole, and
//! every row that was committed must be there. XFS gets a shorter turn: synced files, a kill, its log replayed by a
//! mount, and nothing for `xfs_repair` to find. Needs root, FUSE, loop devices and the programs; says so where
//! something is missing.

#![allow(clippy::print_stdout, reason = "says which tests were skipped, and how much survived")]

#[path = "support/served.rs"]
mod served;

use served::{Bench, Served, installed, run, search_path, until};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const DEVICE: &str = "agrawal08:capacity=128MiB,page=4KiB,spare=12.5%";

/// The image as a file (`disk`) through FUSE, and a file system on it; all of it is undone when dropped.
struct Mounted {
    fuse: PathBuf,
    root: PathBuf,
    nbdfuse: Child,
}

fn quietly(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    let command = command.args(arguments).env("PATH", search_path()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

impl Mounted {
    /// The image as a file; nothing is mounted on it yet.
    fn new(bench: &Bench) -> Mounted {
        let (fuse, root) = (bench.file("fuse"), bench.file("root"));
        for directory in [&fuse, &root] {
            fs::create_dir_all(directory).unwrap();
        }
        let disk = fuse.join("disk");
        let nbdfuse = Command::new("nbdfuse")
            .args([disk.as_os_str(), bench.uri().as_ref()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mounted = Mounted { fuse, root, nbdfuse };
        until("nbdfuse", || disk.exists());
        mounted
    }

    fn disk(&self) -> String {
        self.fuse.join("disk").display().to_string()
    }

    fn mount(&self) {
        run("mount", &["-o", "loop", &self.disk(), self.root.to_str().unwrap()]);
    }

    /// Other programs of the machine may look into whatever is mounted: then it is busy for a moment.
    fn unmount(&self) {
        let root = self.root.to_str().unwrap();
        until("unmounting", || quietly("umount", &[root]));
    }

    /// Takes it all down, whatever state it is in.
    fn tear_down(&mut self) {
        let (root, fuse) = (self.root.to_str().unwrap().to_owned(), self.fuse.to_str().unwrap().to_owned());
        if !quietly("umount", &[&root]) {
            quietly("umount", &["-l", &root]);
        }
        // The kernel lets go of the loop device when the file system has.
        for _ in 0..100 {
            if quietly("umount", &[&fuse]) || !self.fuse.join("disk").exists() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        quietly("umount", &["-l", &fuse]);
        let _ = self.nbdfuse.kill();
        let _ = self.nbdfuse.wait();
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        self.tear_down();
    }
}

/// SQLite at a database: one row a transaction, each durable before the next. Its first error ends it.
struct Sqlite {
    shell: Child,
    said: BufReader<std::process::ChildStdout>,
}

impl Sqlite {
    fn start(database: &Path) -> Sqlite {
        let mut shell = Command::new("sqlite3")
            .arg("-bail")
            .arg(database)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let said = BufReader::new(shell.stdout.take().unwrap());
        let mut sqlite = Sqlite { shell, said };
        // Not `full`, which does not sync the directory after the journal has gone: the last row may come undone.
        sqlite.tell("pragma synchronous = extra; create table rows(number integer primary key, data text);");
        sqlite
    }

    fn tell(&mut self, line: &str) -> bool {
        let Some(input) = &mut self.shell.stdin else { return false };
        writeln!(input, "{line}").and_then(|()| input.flush()).is_ok()
    }

    /// Whether the row was committed.
    fn insert(&mut self, number: u32) -> bool {
        let row = format!("insert into rows values({number}, printf('%.*c', {}, 'x'));", 100 + number % 3000);
        let mut answer = String::new();
        self.tell(&row)
            && self.tell(&format!("select number from rows where number = {number} and changes() = 1;"))
            && self.said.read_line(&mut answer).is_ok()
            && answer.trim() == number.to_string()
    }
}

impl Drop for Sqlite {
    fn drop(&mut self) {
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

fn possible(programs: &[&str]) -> bool {
    if !installed(&["nbdfuse", "mount", "umount"]) || !installed(programs) {
        return false;
    }
    let root = fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
    for (there, what) in [
        (root, "this is not root, who alone may mount"),
        (Path::new("/dev/fuse").exists(), "there is no /dev/fuse"),
        (Path::new("/dev/loop-control").exists(), "there are no loop devices"),
    ] {
        if !there {
            println!("skipped: {what}");
            return false;
        }
    }
    true
}

fn synced_file(directory: &Path, number: u32) -> std::io::Result<()> {
    let mut file = File::create(directory.join(format!("file-{number}")))?;
    file.write_all(&contents(number))?;
    file.sync_all()?;
    File::open(directory)?.sync_all()
}

fn contents(number: u32) -> Vec<u8> {
    (0..1000 + number * 377 % 40_000).map(|i| (i * 7 + number) as u8).collect()
}

/// PostMark with more to do than it will get done.
fn postmark(directory: &Path) -> Child {
    fs::create_dir(directory).unwrap();
    let mut postmark =
        Command::new("postmark").stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let script = format!(
        "set location {}\nset number 500\nset size 500 20000\nset transactions 1000000\n\
         set buffering false\nrun\nquit\n",
        directory.display()
    );
    postmark.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    postmark
}

/// Works until enough is durable, then the server is killed; the files and rows that were durable.
fn work_and_kill(mounted: &mut Mounted, served: Served) -> (u32, u32) {
    let root = mounted.root.clone();
    let mut postmark = postmark(&root.join("mail"));
    let mut sqlite = Sqlite::start(&root.join("database"));
    let (mut files, mut rows) = (0, 0);
    while files < 40 {
        synced_file(&root, files).unwrap();
        files += 1;
        for _ in 0..3 {
            assert!(sqlite.insert(rows), "row {rows}");
            rows += 1;
        }
    }
    assert!(postmark.try_wait().unwrap().is_none(), "PostMark has ended already");
    // In the middle of it.
    let killer = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(30));
        served.kill();
    });
    while synced_file(&root, files).is_ok() && sqlite.insert(rows) {
        (files, rows) = (files + 1, rows + 1);
    }
    killer.join().unwrap();
    let _ = postmark.kill();
    let _ = postmark.wait();
    drop(sqlite);
    mounted.tear_down();
    (files, rows)
}

#[test]
fn ext4_survives_a_server_that_is_killed() {
    if !possible(&["mkfs.ext4", "e2fsck", "sqlite3", "postmark"]) {
        return;
    }
    for scheme in ["page", "dftl"] {
        let bench = Bench::new(scheme, DEVICE);
        let served = bench.serve("");
        let mut mounted = Mounted::new(&bench);
        run("mkfs.ext4", &["-q", "-F", &mounted.disk()]);
        mounted.mount();
        let (files, rows) = work_and_kill(&mut mounted, served);

        let served = bench.serve("");
        assert!(served.said().starts_with("mounted by scan"), "{}", served.said());
        let mounted = Mounted::new(&bench);
        // Mounting replays the journal; after that nothing may be left to mend.
        mounted.mount();
        mounted.unmount();
        run("e2fsck", &["-f", "-n", &mounted.disk()]);
        mounted.mount();
        for number in 0..files {
            let found = fs::read(mounted.root.join(format!("file-{number}"))).unwrap();
            assert!(found == contents(number), "{scheme}: file {number} of {files} is not what was synced");
        }
        let database = mounted.root.join("database").display().to_string();
        assert_eq!(run("sqlite3", &[&database, "pragma integrity_check;"]).trim(), "ok");
        let question =
            format!("select count(*) from rows where number < {rows} and length(data) = 100 + number % 3000;");
        assert_eq!(run("sqlite3", &[&database, &question]).trim(), rows.to_string(), "{scheme}");
        mounted.unmount();
        drop(mounted);
        served.stop();
        println!("{scheme}: {files} files and {rows} rows survived");
    }
}

/// XFS wants 300 MiB at least; the image is sparse.
const XFS_DEVICE: &str = "agrawal08:capacity=512MiB,page=4KiB,spare=12.5%";

#[test]
fn xfs_survives_a_server_that_is_killed() {
    if !possible(&["mkfs.xfs", "xfs_repair"]) {
        return;
    }
    // A kernel may have it as a module that nobody has asked for yet.
    quietly("modprobe", &["xfs"]);
    if !fs::read_to_string("/proc/filesystems").is_ok_and(|known| known.contains("\txfs\n")) {
        println!("skipped: the kernel has no XFS");
        return;
    }
    for scheme in ["page", "dftl-e"] {
        let bench = Bench::new(scheme, XFS_DEVICE);
        let served = bench.serve("");
        let mut mounted = Mounted::new(&bench);
        run("mkfs.xfs", &["-q", "-f", &mounted.disk()]);
        mounted.mount();
        let killer = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(1500));
            served.kill();
        });
        let mut files = 0;
        while synced_file(&mounted.root, files).is_ok() {
            files += 1;
        }
        killer.join().unwrap();
        mounted.tear_down();
        assert!(files > 10, "{scheme}: {files} files only");

        let served = bench.serve("");
        assert!(served.said().starts_with("mounted by scan"), "{}", served.said());
        let mounted = Mounted::new(&bench);
        // Mounting replays the log; after that nothing may be left to mend.
        mounted.mount();
        mounted.unmount();
        run("xfs_repair", &["-n", "-f", &mounted.disk()]);
        mounted.mount();
        for number in 0..files {
            let found = fs::read(mounted.root.join(format!("file-{number}"))).unwrap();
            assert!(found == contents(number), "{scheme}: file {number} of {files} is not what was synced");
        }
        mounted.unmount();
        drop(mounted);
        served.stop();
        println!("{scheme}: {files} files on XFS survived");
    }
}

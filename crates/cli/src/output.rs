//! Files that are either complete or not there.
//!
//! A report that took an hour must not destroy the previous one when the disk fills up. [`AtomicFile`] writes to a
//! temporary beside the target, forces it to the disk and renames it; whatever fails on the way, the temporary goes and
//! the target stays as it was. Devices and pipes (`/dev/stdout`) cannot be renamed over and are written directly.

use crate::error::CliError;
use device::Image;
use flate2::write::GzEncoder;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

/// Temporaries that exist at the moment, for [`remove_temporaries`].
static TEMPORARIES: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A file under construction. Dropped without [`AtomicFile::commit`], it leaves nothing behind.
#[derive(Debug)]
pub struct AtomicFile {
    /// As the user named it, for messages.
    named: PathBuf,
    /// Temporary and target, symbolic links resolved; `None` if written directly.
    rename: Option<(PathBuf, PathBuf)>,
    file: BufWriter<File>,
}

impl AtomicFile {
    /// Begins a file that will appear, or be replaced, at `path`.
    ///
    /// # Errors
    /// The directory is missing or not writable, or `path` is a directory.
    pub fn create(path: &Path) -> Result<AtomicFile, CliError> {
        let fail = |cause: io::Error| CliError::file("write", path, &cause);
        let (file, rename) = match fs::metadata(path) {
            Ok(existing) if existing.is_dir() => return Err(fail(io::ErrorKind::IsADirectory.into())),
            Ok(existing) if !existing.is_file() => (OpenOptions::new().write(true).open(path).map_err(fail)?, None),
            Ok(existing) => {
                let target = fs::canonicalize(path).map_err(fail)?;
                let (file, temporary) = create_beside(&target).map_err(fail)?;
                // A report keeps the permissions that its predecessor was given.
                let kept = file.set_permissions(existing.permissions());
                let rename = Some((temporary.clone(), target));
                if let Err(cause) = kept {
                    discard(&temporary);
                    return Err(fail(cause));
                }
                (file, rename)
            }
            Err(_) => {
                let (file, temporary) = create_beside(path).map_err(|cause| missing_directory(path, cause))?;
                (file, Some((temporary, path.to_owned())))
            }
        };
        Ok(AtomicFile { named: path.to_owned(), rename, file: BufWriter::with_capacity(1 << 16, file) })
    }

    /// Makes the file durable and puts it in its place.
    ///
    /// # Errors
    /// The disk is full or failing; the target is as it was.
    pub fn commit(mut self) -> Result<(), CliError> {
        self.finish().map_err(|cause| CliError::file("write", &self.named, &cause))
    }

    fn finish(&mut self) -> io::Result<()> {
        self.file.flush()?;
        let Some((temporary, target)) = &self.rename else { return Ok(()) };
        self.file.get_ref().sync_all()?;
        fs::rename(temporary, target)?;
        forget(temporary);
        // The entry in the directory is what makes it permanent. Not every file system can do this; then nothing is
        // lost.
        if let Some(parent) = target.parent() {
            let _ = File::open(parent).and_then(|directory| directory.sync_all());
        }
        self.rename = None;
        Ok(())
    }

    /// Turns an error of the standard library's writers into one that names this file.
    pub fn error(&self, cause: &io::Error) -> CliError {
        CliError::file("write", &self.named, cause)
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        if let Some((temporary, _)) = &self.rename {
            discard(temporary);
        }
    }
}

/// A file under construction that is compressed if its name ends in `.zst` or `.gz`. Dropped without [`Sink::commit`],
/// it leaves nothing behind.
pub struct Sink {
    encoder: Encoder,
    failure: Option<CliError>,
}

enum Encoder {
    Plain(AtomicFile),
    Zst(zstd::Encoder<'static, AtomicFile>),
    Gz(Box<GzEncoder<AtomicFile>>),
}

impl Sink {
    /// Begins a file that will appear, or be replaced, at `path`.
    ///
    /// # Errors
    /// As [`AtomicFile::create`].
    pub fn create(path: &Path) -> Result<Sink, CliError> {
        let file = AtomicFile::create(path)?;
        let encoder = match path.extension().and_then(|extension| extension.to_str()) {
            Some("zst") => {
                Encoder::Zst(zstd::Encoder::new(file, 3).map_err(|cause| CliError::file("write", path, &cause))?)
            }
            Some("gz") => Encoder::Gz(Box::new(GzEncoder::new(file, flate2::Compression::default()))),
            _ => Encoder::Plain(file),
        };
        Ok(Sink { encoder, failure: None })
    }

    fn file(&self) -> &AtomicFile {
        match &self.encoder {
            Encoder::Plain(file) => file,
            Encoder::Zst(encoder) => encoder.get_ref(),
            Encoder::Gz(encoder) => encoder.get_ref(),
        }
    }

    /// Why writing failed, if it did.
    pub fn failure(&self) -> Option<CliError> {
        self.failure.clone()
    }

    /// Turns an error of writing into one that names this file.
    pub fn error(&self, cause: &io::Error) -> CliError {
        self.file().error(cause)
    }

    /// Completes the file and puts it in its place.
    ///
    /// # Errors
    /// As [`AtomicFile::commit`].
    pub fn commit(self) -> Result<(), CliError> {
        let named = self.file().named.clone();
        let fail = |cause: io::Error| CliError::file("write", &named, &cause);
        let file = match self.encoder {
            Encoder::Plain(file) => file,
            Encoder::Zst(encoder) => encoder.finish().map_err(fail)?,
            Encoder::Gz(encoder) => encoder.finish().map_err(fail)?,
        };
        file.commit()
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = match &mut self.encoder {
            Encoder::Plain(file) => file.write(bytes),
            Encoder::Zst(encoder) => encoder.write(bytes),
            Encoder::Gz(encoder) => encoder.write(bytes),
        };
        if let Err(cause) = &written {
            self.failure = Some(self.error(cause));
        }
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = match &mut self.encoder {
            Encoder::Plain(file) => file.flush(),
            Encoder::Zst(encoder) => encoder.flush(),
            Encoder::Gz(encoder) => encoder.flush(),
        };
        if let Err(cause) = &flushed {
            self.failure = Some(self.error(cause));
        }
        flushed
    }
}

/// Writes a whole file at once.
///
/// # Errors
/// As [`AtomicFile::create`] and [`AtomicFile::commit`].
pub fn write_file(path: &Path, contents: &[u8]) -> Result<(), CliError> {
    let mut file = AtomicFile::create(path)?;
    file.write_all(contents).map_err(|cause| file.error(&cause))?;
    file.commit()
}

/// Finds out, before the work begins, whether a file can be written in its place.
fn probe(path: &Path) -> Result<(), CliError> {
    AtomicFile::create(path).map(drop)
}

/// Whether an output is the process's own standard output, by its names: what is printed for people stands in its way.
pub fn is_stdout(path: &Path) -> bool {
    ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"].iter().any(|name| path == Path::new(name))
}

/// The files that a command writes, each named before the work begins: it can be written, no two are one file, and none
/// takes the place of a file that the command reads.
#[derive(Debug, Default)]
pub struct Outputs {
    taken: Vec<(Place, &'static str)>,
}

impl Outputs {
    /// Of a command that reads these files: what each is, and where. What is no file is no hindrance.
    pub fn beside<'a>(read: impl IntoIterator<Item = (&'static str, &'a Path)>) -> Outputs {
        let files = read.into_iter().filter(|(_, path)| path.exists());
        Outputs { taken: files.map(|(what, path)| (Place::of(path), what)).collect() }
    }

    /// One more file, of this flag.
    ///
    /// # Errors
    /// It cannot be written, is one of the others, or is an image. Devices and pipes may be named several times.
    pub fn claim(&mut self, flag: &'static str, path: &Path) -> Result<(), CliError> {
        self.reserve(flag, path)?;
        if Image::is_begun(path) {
            let what =
                format_args!("{} is an ftlab image, whose data would be lost; name another file", path.display());
            return Err(CliError::new(what).within(flag));
        }
        probe(path).map_err(|error| error.within(flag))
    }

    /// One more file, of which whoever opens it finds out whether it can be written: a pipe can be opened once.
    ///
    /// # Errors
    /// It is one of the others.
    pub fn reserve(&mut self, flag: &'static str, path: &Path) -> Result<(), CliError> {
        if path == Path::new("-") {
            return Err(CliError::new("- is no file; write /dev/stdout").within(flag));
        }
        self.take(flag, path)
    }

    /// One more file, whose contents nobody could make again: it must not be there yet, or be empty.
    ///
    /// # Errors
    /// It is there, or is one of the others.
    pub fn reserve_new(&mut self, flag: &'static str, path: &Path) -> Result<(), CliError> {
        self.reserve(flag, path)?;
        if fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() > 0) {
            let what = format_args!("{} exists and would be lost; name another file, or remove it", path.display());
            return Err(CliError::new(what).within(flag));
        }
        Ok(())
    }

    /// One more place, of a file or of a socket.
    ///
    /// # Errors
    /// It is one of the others.
    pub fn take(&mut self, flag: &'static str, path: &Path) -> Result<(), CliError> {
        let place = Place::of(path);
        let regular = fs::metadata(path).map_or(true, |found| found.is_file());
        if let Some((_, other)) = self.taken.iter().find(|(other, _)| regular && place.is(other)) {
            let what = format_args!("{} is {other} already; name another file", path.display());
            return Err(CliError::new(what).within(flag));
        }
        self.taken.push((place, flag));
        Ok(())
    }
}

/// Where a file is, or would be.
#[derive(Debug)]
struct Place {
    /// Behind symbolic links and relative names.
    path: PathBuf,
    /// Its device and number there: other names may be links to the same file.
    inode: Option<(u64, u64)>,
}

impl Place {
    fn of(path: &Path) -> Place {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let resolved = fs::canonicalize(path)
            .or_else(|_| Ok::<_, io::Error>(fs::canonicalize(parent)?.join(path.file_name().unwrap_or_default())))
            .unwrap_or_else(|_| path.to_owned());
        let inode = fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
        Place { path: resolved, inode }
    }

    fn is(&self, other: &Place) -> bool {
        self.path == other.path || self.inode.is_some() && self.inode == other.inode
    }
}

/// Removes the temporaries of all unfinished files: for a process that is about to exit without unwinding.
pub fn remove_temporaries() {
    if let Ok(list) = TEMPORARIES.try_lock() {
        for temporary in list.iter() {
            let _ = fs::remove_file(temporary);
        }
    }
}

fn create_beside(target: &Path) -> io::Result<(File, PathBuf)> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let name = target.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy();
    loop {
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let temporary = target.with_file_name(format!(".{name}.{}-{count}.tmp", std::process::id()));
        match OpenOptions::new().write(true).create_new(true).open(&temporary) {
            Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => {}
            Err(cause) => return Err(cause),
            Ok(file) => {
                if let Ok(mut list) = TEMPORARIES.lock() {
                    list.push(temporary.clone());
                }
                return Ok((file, temporary));
            }
        }
    }
}

fn missing_directory(path: &Path, cause: io::Error) -> CliError {
    match path.parent() {
        Some(parent) if cause.kind() == io::ErrorKind::NotFound && !parent.exists() => {
            CliError::new(format_args!("cannot write {}: no directory {}", path.display(), parent.display()))
        }
        _ => CliError::file("write", path, &cause),
    }
}

fn discard(temporary: &Path) {
    let _ = fs::remove_file(temporary);
    forget(temporary);
}

fn forget(temporary: &Path) {
    if let Ok(mut list) = TEMPORARIES.lock() {
        list.retain(|other| other != temporary);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Directory;

    #[test]
    fn appears_whole_and_replaces_whole() {
        let directory = Directory::new();
        let path = directory.join("report.json");
        write_file(&path, b"one").unwrap();
        let mut second = AtomicFile::create(&path).unwrap();
        second.write_all(b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"one");
        second.commit().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(directory.names(), ["report.json"]);
    }

    #[test]
    fn abandoned_files_leave_nothing() {
        let directory = Directory::new();
        let path = directory.join("report.json");
        let mut file = AtomicFile::create(&path).unwrap();
        file.write_all(b"half").unwrap();
        drop(file);
        Outputs::default().claim("--json", &path).unwrap();
        assert!(directory.names().is_empty());
    }

    #[test]
    fn no_output_takes_the_place_of_another_file() {
        let directory = Directory::new();
        let (image, link) = (directory.join("ssd.img"), directory.join("link.json"));
        fs::write(&image, b"data").unwrap();
        std::os::unix::fs::symlink(&image, &link).unwrap();
        fs::hard_link(&image, directory.join("hard.zst")).unwrap();
        let mut outputs = Outputs::beside([("the image", &*image), ("the trace", Path::new("zipf:theta=1"))]);
        for path in [&image, &directory.join("./ssd.img"), &link, &directory.join("hard.zst")] {
            let error = outputs.claim("--json", path).unwrap_err();
            assert_eq!(error.message(), format!("--json: {} is the image already; name another file", path.display()));
        }
        outputs.claim("--json", &directory.join("a")).unwrap();
        let error = outputs.claim("--csv", &directory.join("./a")).unwrap_err();
        assert!(error.message().contains("a is --json already"), "{error}");
        outputs.claim("--csv", Path::new("/dev/null")).unwrap();
        outputs.claim("--html", Path::new("/dev/null")).unwrap();
        assert_eq!(fs::read(&image).unwrap(), b"data");
    }

    #[test]
    fn a_missing_directory_is_named() {
        let directory = Directory::new();
        let path = directory.join("no/report.json");
        let error = write_file(&path, b"x").unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("cannot write {}: no directory {}", path.display(), directory.join("no").display())
        );
        let error = write_file(&directory.join(""), b"x").unwrap_err();
        assert!(error.to_string().ends_with("it is a directory"), "{error}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_reported_and_devices_survive() {
        let error = write_file(Path::new("/dev/full"), b"x").unwrap_err();
        assert_eq!(error.to_string(), "cannot write /dev/full: no space left on the device");
        write_file(Path::new("/dev/null"), b"x").unwrap();
        assert!(!fs::metadata("/dev/full").unwrap().is_file());
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }

    #[cfg(unix)]
    #[test]
    fn links_and_permissions_are_kept() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let directory = Directory::new();
        let (real, link) = (directory.join("real.csv"), directory.join("link.csv"));
        write_file(&real, b"one").unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
        symlink(&real, &link).unwrap();
        write_file(&link, b"two").unwrap();
        assert_eq!(fs::read(&real).unwrap(), b"two");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o640);
    }
}

//! Tar archives: the files that a recorder writes per CPU, merged by time, or the one trace in it.
//!
//! A recorder's files (`NAME.blktrace.0`, `octf.trace.0` and so on) are in time order each. They follow each other in
//! an archive, and the reader has no way back, so all of them are held in memory while they are merged.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, Read};

use super::{blktrace, octf};

/// The most bytes of traces taken from one archive.
pub(super) const UNPACKED_BYTES_MAX: u64 = 4 << 30;

/// Bytes of a header, and the unit of everything in an archive.
const BLOCK_BYTES: usize = 512;

/// Names of files quoted in a message.
const NAMES_SHOWN: usize = 5;

/// Whether these first bytes are those of a tar archive.
pub(super) fn is_tar(head: &[u8]) -> bool {
    head.get(257..262) == Some(b"ustar")
}

/// What is wrong with an archive, and what to do.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) what: String,
    pub(super) fix: &'static str,
}

const COPY_AGAIN: &str = "copy or download the archive again";
const UNPACK: &str = "unpack it and name one trace file of it, or pack one recording's files only";

/// What an archive holds, in one stream.
pub(super) struct Unpacked {
    pub(super) stream: Box<dyn Read + Send>,
    /// Whether files were merged by time.
    pub(super) merged: bool,
    /// What was taken and what was left out, for people.
    pub(super) note: String,
    /// What was cut off from files that end in the middle of a record.
    pub(super) damage: Vec<String>,
}

/// The recorders that write a file per CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Recorder {
    Blktrace,
    Octf,
}

impl Recorder {
    /// Which recorder calls its files like this.
    fn of(name: &str) -> Option<Self> {
        let (stem, cpu) = name.rsplit_once('.')?;
        if cpu.is_empty() || !cpu.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        match stem {
            "octf.trace" => Some(Self::Octf),
            stem if stem.len() > ".blktrace".len() && stem.ends_with(".blktrace") => Some(Self::Blktrace),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Blktrace => "blktrace",
            Self::Octf => "octf",
        }
    }

    /// Bytes and time of the record at the start of `rest`, if it is whole and sound.
    fn record(self, rest: &[u8]) -> Option<(usize, u64)> {
        match self {
            Self::Blktrace => blktrace::measure(rest).filter(|record| record.0 <= rest.len()),
            Self::Octf => {
                let bytes = octf::measure(rest)?;
                Some((bytes, octf::time_ns(rest.get(..bytes)?)?))
            }
        }
    }
}

/// Passes bytes on and remembers how many zeros came last: an archive ends with two blocks of them.
struct Watched<R> {
    inner: R,
    zeros: usize,
}

impl<R: Read> Read for Watched<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        let zeros = buffer[..count].iter().rev().take_while(|&&byte| byte == 0).count();
        self.zeros = if zeros == count { self.zeros.saturating_add(zeros) } else { zeros };
        Ok(count)
    }
}

/// Reads an archive to its end. `lenient`: files that end in the middle of a record keep what comes before.
pub(super) fn unpack(reader: impl Read, limit_bytes: u64, lenient: bool) -> Result<Unpacked, Fault> {
    let fault = |what: String, fix| Err(Fault { what, fix });
    let cut =
        |error: io::Error| Fault { what: format!("the tar archive is cut short or damaged: {error}"), fix: COPY_AGAIN };
    let mut watched = Watched { inner: reader, zeros: 0 };
    let mut archive = tar::Archive::new(&mut watched);
    let mut members: Vec<(String, Recorder, Vec<u8>)> = Vec::new();
    // The first file of another name, kept in case that it is the only one.
    let mut alone: Option<Vec<u8>> = None;
    let mut others: Vec<String> = Vec::new();
    let mut left_bytes = limit_bytes;
    for entry in archive.entries().map_err(cut)? {
        let mut entry = entry.map_err(cut)?;
        let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let name = path.rsplit('/').next().unwrap_or_default().to_owned();
        // macOS packs a file `._NAME` of attributes beside each.
        if !entry.header().entry_type().is_file() || name.starts_with("._") {
            continue;
        }
        let recorder = Recorder::of(&name);
        if recorder.is_none() {
            others.push(path.clone());
        }
        if recorder.is_none() && (others.len() > 1 || !members.is_empty()) {
            continue;
        }
        let size = entry.size();
        if size > left_bytes {
            let what = format!("the tar archive holds more than {} MiB of traces", limit_bytes >> 20);
            return fault(what, "unpack it; blkparse -i NAME -d merged makes one file of blktrace's");
        }
        left_bytes -= size;
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).map_err(cut)?;
        if bytes.len() as u64 != size {
            return fault(format!("the tar archive is cut short within {path}"), COPY_AGAIN);
        }
        match recorder {
            Some(recorder) => members.push((path, recorder, bytes)),
            None => alone = Some(bytes),
        }
    }
    if watched.zeros < BLOCK_BYTES {
        return fault("the tar archive is cut short: its end mark is missing".to_owned(), COPY_AGAIN);
    }
    match (members.first(), alone) {
        (None, Some(bytes)) if others.len() == 1 => Ok(Unpacked {
            stream: Box::new(io::Cursor::new(bytes)),
            merged: false,
            note: format!("{} in a tar archive", others[0]),
            damage: Vec::new(),
        }),
        (None, None) => fault("the tar archive holds no file".to_owned(), "check how it was made"),
        (None, Some(_)) => {
            let what = format!(
                "the tar archive holds {} files, none of them NAME.blktrace.CPU or octf.trace.CPU: {}",
                others.len(),
                listed(&others)
            );
            fault(what, UNPACK)
        }
        (Some((first, recorder, _)), _) => {
            let recorder = *recorder;
            if let Some((other, _, _)) = members.iter().find(|member| member.1 != recorder) {
                return fault(format!("the tar archive mixes recorders: {first} and {other}"), UNPACK);
            }
            merge(members, recorder, &others, lenient)
        }
    }
}

fn listed(names: &[String]) -> String {
    let dots = if names.len() > NAMES_SHOWN { ", …" } else { "" };
    format!("{}{dots}", names[..names.len().min(NAMES_SHOWN)].join(", "))
}

/// One stream of the records of all members, which are of one recorder.
fn merge(
    members: Vec<(String, Recorder, Vec<u8>)>,
    recorder: Recorder,
    others: &[String],
    lenient: bool,
) -> Result<Unpacked, Fault> {
    let mut damage = Vec::new();
    let mut files = Vec::new();
    for (path, _, mut bytes) in members {
        let (mut at, mut records) = (0, 0_u64);
        while let Some((size, _)) = recorder.record(&bytes[at..]) {
            (at, records) = (at + size, records + 1);
        }
        if at < bytes.len() {
            let what = format!("{path}: record {} is cut short or no {} record", records + 1, recorder.name());
            if !lenient {
                let fix = "copy or record it again, or leave out its rest with --on-error skip";
                return Err(Fault { what, fix });
            }
            damage.push(what);
            bytes.truncate(at);
        }
        files.push(File { bytes, at: 0 });
    }
    let mut note = format!("{} per-CPU files in a tar archive, merged by time", files.len());
    if !others.is_empty() {
        note += &format!("; other files in it are left out: {}", listed(others));
    }
    Ok(Unpacked { stream: Box::new(Merged::new(files, recorder)), merged: true, note, damage })
}

struct File {
    bytes: Vec<u8>,
    /// Where the record begins that comes next.
    at: usize,
}

/// Records of several files by time; of equal times, those of the first file first.
struct Merged {
    files: Vec<File>,
    recorder: Recorder,
    /// Time and file of each file's next record.
    next: BinaryHeap<Reverse<(u64, usize)>>,
    /// What is left of the record being read: its file and where it ends.
    open: Option<(usize, usize)>,
}

impl Merged {
    fn new(files: Vec<File>, recorder: Recorder) -> Self {
        let mut merged = Self { files, recorder, next: BinaryHeap::new(), open: None };
        (0..merged.files.len()).for_each(|file| merged.queue(file));
        merged
    }

    fn record(&self, file: usize) -> Option<(usize, u64)> {
        let File { bytes, at } = &self.files[file];
        self.recorder.record(&bytes[*at..])
    }

    fn queue(&mut self, file: usize) {
        match self.record(file) {
            Some((_, time_ns)) => self.next.push(Reverse((time_ns, file))),
            // Its memory is no longer needed.
            None => self.files[file] = File { bytes: Vec::new(), at: 0 },
        }
    }
}

impl Read for Merged {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            let (file, end) = match self.open.take() {
                Some(open) => open,
                None => {
                    let Some(Reverse((_, file))) = self.next.pop() else { break };
                    let (size, _) = self.record(file).expect("only files with a record are queued");
                    (file, self.files[file].at + size)
                }
            };
            let at = self.files[file].at;
            let count = (end - at).min(buffer.len() - filled);
            buffer[filled..filled + count].copy_from_slice(&self.files[file].bytes[at..at + count]);
            filled += count;
            self.files[file].at += count;
            if self.files[file].at == end {
                self.queue(file);
            } else {
                self.open = Some((file, end));
            }
        }
        Ok(filled)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::super::blktrace::tests::record;
    use super::super::testing::{drain, error_of, open, requests_of};
    use super::super::{OnError, OpenOptions, octf};
    use super::*;

    /// A queued write of a sector in blktrace's form.
    fn write(time_ns: u64, sector: u64) -> Vec<u8> {
        record(false, time_ns, sector, 512, 1 << 17 | 1, b"")
    }

    fn tar(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for (name, bytes) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o644);
            builder.append_data(&mut header, name, *bytes).unwrap();
        }
        builder.into_inner().unwrap()
    }

    fn per_cpu() -> [Vec<u8>; 2] {
        // Payloads of all sizes, so that records end anywhere in the buffers.
        let mut files = [Vec::new(), Vec::new()];
        for index in 0..9_000_u64 {
            let payload = vec![7; (index % 23) as usize];
            files[usize::from(index % 3 == 0)].extend(record(false, 10 * index, index, 512, 1 << 17 | 1, &payload));
        }
        files
    }

    #[test]
    fn per_cpu_files_are_merged_by_time() {
        let [first, second] = per_cpu();
        let plain = tar(&[("run/sda.blktrace.0", &first), ("run/sda.blktrace.1", &second), ("run/README", b"notes")]);
        let gz = {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(&plain).unwrap();
            encoder.finish().unwrap()
        };
        let bz2 = {
            let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
            encoder.write_all(&plain).unwrap();
            encoder.finish().unwrap()
        };
        for (bytes, compression) in [(plain, ""), (gz, "; gzip-compressed"), (bz2, "; bzip2-compressed")] {
            let announcement = open(&bytes, &OpenOptions::default()).unwrap().announcement();
            assert!(announcement.starts_with("blktrace: "), "{announcement}");
            assert!(announcement.contains("2 per-CPU files in a tar archive, merged by time"), "{announcement}");
            assert!(announcement.contains("left out: run/README"), "{announcement}");
            assert!(announcement.ends_with(compression) && !announcement.contains("blkparse -d"), "{announcement}");
            let (rows, intake) = requests_of(&bytes, None).unwrap();
            assert_eq!(rows.len(), 9_000);
            assert!(
                rows.iter().enumerate().all(|(index, row)| (row.0, row.1) == (10 * index as u64, 512 * index as u64))
            );
            assert_eq!((intake.out_of_order, intake.skipped), (0, 0));
            use sha2::Digest;
            let digest: String = sha2::Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(intake.sha256, Some(digest), "the hash is the archive's");
        }
    }

    #[test]
    fn octf_files_and_a_lone_trace() {
        let first = [octf::tests::device("nvme0n1"), octf::tests::io(10, 8, 8, 1, false)].concat();
        let second = [octf::tests::device("nvme0n1"), octf::tests::io(5, 16, 8, 0, false)].concat();
        let archive = tar(&[("octf.trace.0", &first), ("octf.trace.1", &second), ("octf.summary", b"{}")]);
        let (rows, intake) = requests_of(&archive, None).unwrap();
        assert_eq!(rows.iter().map(|row| (row.0, row.1)).collect::<Vec<_>>(), [(0, 8192), (5, 4096)]);
        assert_eq!(intake.volumes, ["nvme0n1"]);
        let lone = tar(&[("traces/fin.spc", b"0,1,512,R,0.1\n0,2,512,W,0.2\n")]);
        let trace = open(&lone, &OpenOptions::default()).unwrap();
        assert_eq!(trace.format().name, "spc");
        assert!(trace.announcement().contains("traces/fin.spc in a tar archive"), "{}", trace.announcement());
        assert_eq!(requests_of(&lone, None).unwrap().0.len(), 2);
    }

    #[test]
    fn archives_that_hold_the_wrong_thing() {
        let text = &b"0,1,512,R,0.1\n"[..];
        let error = error_of(&tar(&[("a.csv", text), ("b.csv", text)]), None);
        assert!(error.what.contains("2 files") && error.what.contains("a.csv, b.csv"), "{error}");
        assert!(error.what.contains("blktrace") && error.fix.contains("unpack"), "{error}");
        let one = octf::tests::io(5, 16, 8, 0, false);
        let error = error_of(&tar(&[("sda.blktrace.0", &write(1, 1)), ("octf.trace.0", &one)]), None);
        assert!(error.what.contains("mixes recorders: sda.blktrace.0 and octf.trace.0"), "{error}");
        assert!(error_of(&tar(&[]), None).what.contains("no"), "an empty archive is zeros");
        let error = error_of(&tar(&[("sda.blktrace.0", b"")]), None);
        assert!(error.what.contains("nothing"), "{error}");
        let error = error_of(&tar(&[("sda.blktrace.0", text)]), None);
        assert!(error.what.contains("sda.blktrace.0: record 1 is cut short or no blktrace record"), "{error}");
        let error = unpack(&tar(&[("sda.blktrace.0", &[0; 3 << 20])])[..], 2 << 20, false).err().unwrap();
        assert!(error.what.contains("more than 2 MiB") && error.fix.contains("blkparse"), "{error:?}");
    }

    #[test]
    fn truncated_archives_are_noticed_wherever_they_end() {
        let [first, second] = per_cpu();
        let whole = tar(&[("sda.blktrace.0", &first), ("sda.blktrace.1", &second)]);
        let second_header = 512 + first.len().next_multiple_of(512);
        for cut in [513, 700, 100_000, second_header, second_header + 100, second_header + 512, whole.len() - 1024] {
            let error = error_of(&whole[..cut], None);
            assert!(error.what.contains("cut short"), "at {cut}: {error}");
            assert!(error.fix.contains("again"), "at {cut}: {error}");
        }
        requests_of(&whole, None).unwrap();
    }

    #[test]
    fn a_file_that_ends_within_a_record() {
        let good = [write(1, 1), write(3, 3)].concat();
        let archive = tar(&[("sda.blktrace.0", &good[..good.len() - 5]), ("sda.blktrace.1", &write(2, 2))]);
        let error = error_of(&archive, None);
        assert!(error.what.contains("sda.blktrace.0: record 2"), "{error}");
        assert!(error.fix.contains("--on-error skip"), "{error}");
        let options = OpenOptions { on_error: OnError::Skip, ..OpenOptions::default() };
        let mut trace = open(&archive, &options).unwrap();
        assert_eq!(drain(&mut trace).unwrap().len(), 2);
        use crate::workload::Source;
        assert_eq!(trace.intake().skipped, 1);
        assert!(trace.intake().first_skipped.as_ref().unwrap().1.contains("record 2"));
    }
}

//! Recordings: block requests of real programs on real file systems, taken down by a served image and compiled in.
//!
//! Whoever installs ftlab has them, without a network. Each is two files in `data/`: `NAME.parquet`, a table of
//! requests, and `NAME.toml`, which says where they come from; `SHA256SUMS` holds the hashes. Adding one is adding the
//! two and running `sha256sum *.parquet > SHA256SUMS` there. The crate knows nothing of requests: whoever
//! opens a recording reads the table.

use std::fmt;

use sha2::{Digest, Sha256};

/// One recording.
pub struct Recording {
    /// What it is called, kebab-case.
    pub name: &'static str,
    /// The program whose requests they are.
    pub program: &'static str,
    /// Its version.
    pub version: &'static str,
    /// What was run, a command a line.
    pub command: &'static [&'static str],
    /// The file system beneath the program.
    pub file_system: &'static str,
    /// How it was mounted.
    pub mount_options: &'static str,
    /// The kernel that ran it, as in Linux 6.1.0.
    pub kernel: &'static str,
    /// The day, as in 2026-11-22.
    pub date: &'static str,
    /// Which of the table's sizes it is: minute or full.
    pub size: &'static str,
    /// Bytes that the recorded device exported.
    pub capacity_bytes: u64,
    /// Bytes of memory that the program and the page cache had.
    pub memory_bytes: u64,
    /// The seed of what the program was given to do.
    pub seed: u64,
    /// What the program does, in a sentence or a few.
    pub description: &'static str,
    /// What limits the recording: what would be otherwise on another machine.
    pub limits: &'static str,
    /// The program that took the requests down.
    pub recorder: &'static str,
    /// SHA-256 of the table, in hexadecimal.
    pub sha256: &'static str,
    bytes: &'static [u8],
}

/// Every recording, by name.
pub static RECORDINGS: &[Recording] = include!(concat!(env!("OUT_DIR"), "/table.rs"));

/// The recording of this name.
pub fn by_name(name: &str) -> Option<&'static Recording> {
    RECORDINGS.iter().find(|recording| recording.name == name)
}

impl Recording {
    /// The table, a Parquet file, once its hash is what it was when the recording was made.
    ///
    /// # Errors
    /// The bytes are not those that were recorded.
    pub fn table(&self) -> Result<&'static [u8], Damaged> {
        let found = Sha256::digest(self.bytes).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        match found == self.sha256 {
            true => Ok(self.bytes),
            false => Err(Damaged { name: self.name, found, wanted: self.sha256 }),
        }
    }

    /// Bytes of the table.
    pub fn stored_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }
}

impl fmt::Debug for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recording").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A recording whose bytes are not those that were recorded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Damaged {
    /// Its name.
    pub name: &'static str,
    /// The hash of what is there.
    pub found: String,
    /// The hash that was written down.
    pub wanted: &'static str,
}

impl fmt::Display for Damaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Damaged { name, found, wanted } = self;
        write!(f, "recording {name} is damaged: its SHA-256 is {found}, not {wanted}; install ftlab again")
    }
}

impl std::error::Error for Damaged {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of all tables at the most: they are in every copy of the command.
    const BYTES_MAX: u64 = 8 << 20;

    #[test]
    fn all_are_whole_small_and_well_described() {
        let mut before = "";
        for recording in RECORDINGS {
            let Recording { name, program, version, command, file_system, date, .. } = *recording;
            assert!(before < name, "{before} {name}");
            before = name;
            assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'), "{name}");
            assert!(recording.table().is_ok_and(|table| table.starts_with(b"PAR1")), "{name}");
            let words = [program, version, file_system, recording.description, recording.limits, recording.kernel];
            assert!(words.iter().all(|word| !word.trim().is_empty()) && !command.is_empty(), "{name}");
            assert!(date.len() == 10 && date.starts_with("20"), "{name}: {date}");
            assert!(recording.capacity_bytes > 0, "{name}");
            assert!(std::ptr::eq(by_name(name).unwrap(), recording));
        }
        let bytes: u64 = RECORDINGS.iter().map(Recording::stored_bytes).sum();
        assert!(bytes <= BYTES_MAX, "{bytes} bytes");
        assert!(by_name("no-such").is_none());
    }

    #[test]
    fn damage_is_found() {
        let whole = Recording {
            name: "made-up",
            program: "",
            version: "",
            command: &[],
            file_system: "",
            mount_options: "",
            kernel: "",
            date: "",
            size: "",
            capacity_bytes: 0,
            memory_bytes: 0,
            seed: 0,
            description: "",
            limits: "",
            recorder: "",
            sha256: "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
            bytes: b"abc",
        };
        assert_eq!(whole.table(), Ok(&b"abc"[..]));
        let damage = Recording { bytes: b"abd", ..whole }.table().unwrap_err();
        assert!(damage.to_string().starts_with("recording made-up is damaged: its SHA-256 is a52d"), "{damage}");
    }
}

//! FIU IODedup traces (home, web, mail): `ts pid process lba size W|R major minor md5`, nanoseconds and sectors.
//!
//! Process names may hold odd characters, blanks included: the line is read from both ends towards the name.

use super::field::{Blanks, Extent, Malformed, Parsed, whole};
use super::{Example, Head, Parser, TextParser, TraceFormat, Volumes};
use crate::workload::Operation;

pub(super) const FORMAT: TraceFormat = TraceFormat {
    name: "fiu",
    summary: "FIU IODedup",
    units: "times in ns, addresses and sizes in sectors of 512 bytes",
    reference: "Koller, Rangaswami: I/O Deduplication, FAST 2010; SNIA IOTTA 391",
    example: Example::Text("1000000000 17 flusher 4096 8 W 6 0 3f1b0a8d4a86a9c2b7f27e6c5d1e0a94\n"),
    detect: |head: &Head<'_>| head.mostly(|line| Fiu.line(line, &mut Volumes::default()).is_ok()),
    parser: |_| Parser::Text(Box::new(Fiu)),
    encode: None,
};

struct Fiu;

impl TextParser for Fiu {
    fn line(&mut self, line: &[u8], volumes: &mut Volumes) -> Result<Parsed, Malformed> {
        let line = line.trim_ascii();
        let mut front = Blanks::new(line);
        let time_ns = front.whole("time stamp")?;
        front.whole("process id")?;
        let mut back = line.rsplit(|&byte| byte == b' ' || byte == b'\t').filter(|field| !field.is_empty());
        let mut last = || back.next().unwrap_or_default();
        let (digest, minor, major, kind, count, sector, process) =
            (last(), last(), last(), last(), last(), last(), last());
        if digest.len() < 32 || !digest.iter().all(u8::is_ascii_hexdigit) {
            return Err(Malformed::field("MD5", "32 hexadecimal digits", digest));
        }
        let (major, minor) = (whole(major, "major number")?, whole(minor, "minor number")?);
        let operation = match kind {
            b"R" => Operation::Read,
            b"W" => Operation::Write,
            other => return Err(Malformed::field("type", "R or W", other)),
        };
        // The time and the process id must not have been taken for the process, address or size.
        if process.is_empty() || back.count() < 2 {
            return Err(Malformed::new("fewer than nine fields"));
        }
        let extent = Extent::sectors(operation, whole(sector, "address")?, whole(count, "size")?)?;
        let key = major.checked_mul(1 << 32).and_then(|high| high.checked_add(minor)).filter(|_| minor < 1 << 32);
        let key = key.ok_or_else(|| Malformed::new("device numbers above 32 bits"))?;
        let volume = volumes.text(&key.to_be_bytes(), |_| format!("{major},{minor}"))?;
        Ok(extent.at(time_ns, volume))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{only_error, requests};
    use super::*;

    const MD5: &str = "3f1b0a8d4a86a9c2b7f27e6c5d1e0a94";

    #[test]
    fn odd_process_names() {
        let text = format!("100 1 pdf flush 8 16 W 6 0 {MD5}\n150 2 a,b 0 8 R 8 1 {MD5}\n");
        let (got, intake) = requests(&text, "fiu");
        assert_eq!(got[0], (0, 4096, 8192, 0, Operation::Write));
        assert_eq!(got[1], (50, 0, 4096, 1, Operation::Read));
        assert_eq!(intake.volumes, ["6,0", "8,1"]);
    }

    #[test]
    fn malformed() {
        for line in ["1 1 8 16 W 6 0", "1 1 p 8 16 X 6 0", "1 1 p 8 0 W 6 0", "1 p 8 16 W 6 0", "x 1 p 8 16 W 6 0"] {
            only_error(&format!("{line} {MD5}"), "fiu");
        }
        only_error("1 1 p 8 16 W 6 0 xyz", "fiu");
    }
}

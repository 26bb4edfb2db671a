//! MSR: the CSV of the Microsoft Research Cambridge traces.
//!
//! `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`, no header. Time stamps are Windows FILETIME: ticks of
//! 100 ns since 1601. One file per volume as published; files that hold several are told apart by host and disk.
//!
//! Copies in circulation differ: some begin with a line of column names, lack the response time, have white space
//! around fields, `R` and `W` for the type, or semicolons, tabs or blanks between fields. All these are read, the
//! published form fastest. Whether records have a response time the first decides: a later one without it was cut
//! short, and what looks like its size may be the beginning of one.

use super::field::{Commas, Extent, Malformed, Parsed, nanoseconds, whole};
use super::{Example, Head, Parser, TextParser, TraceFormat, Volumes};
use crate::workload::Operation;

pub(super) const FORMAT: TraceFormat = TraceFormat {
    name: "msr",
    summary: "MSR Cambridge CSV",
    units: "times in 100 ns ticks (FILETIME), offsets and sizes in bytes",
    reference: "Narayanan, Donnelly, Rowstron: Write Off-Loading, FAST 2008; SNIA IOTTA 388",
    example: Example::Text("128166372000000100,host,0,Read,1073741824,8192,331\n"),
    detect: |head: &Head<'_>| head.mostly(|line| Msr::default().line(line, &mut Volumes::default()).is_ok()),
    parser: |_| Parser::Text(Box::new(Msr::default())),
    encode: Some(|| Box::new(super::encode::Msr::default())),
};

#[derive(Default)]
struct Msr {
    /// Whether the first record has a field for the response time; `None` before it.
    responds: Option<bool>,
}

impl TextParser for Msr {
    #[inline]
    fn line(&mut self, line: &[u8], volumes: &mut Volumes) -> Result<Parsed, Malformed> {
        match published(line, volumes) {
            Ok(parsed) => {
                self.responds.get_or_insert(true);
                Ok(parsed)
            }
            Err(why) => variant(line, volumes, why, &mut self.responds),
        }
    }
}

/// A line as published.
#[inline]
fn published(line: &[u8], volumes: &mut Volumes) -> Result<Parsed, Malformed> {
    let mut fields = Commas::new(line);
    let time_ns = nanoseconds(fields.whole("time stamp")?, 100)?;
    // Host and disk together are the volume's key; they stand side by side, so the key is a slice of the line.
    let from_host = fields.rest();
    let (host, disk) = (fields.text(), fields.text());
    let key = from_host.get(..host.len() + 1 + disk.len()).unwrap_or_default();
    if disk.is_empty() || !disk.iter().all(u8::is_ascii_digit) {
        return Err(Malformed::field("disk number", "a whole number", disk));
    }
    let operation = match fields.text() {
        b"Read" => Operation::Read,
        b"Write" => Operation::Write,
        other if other.eq_ignore_ascii_case(b"read") => Operation::Read,
        other if other.eq_ignore_ascii_case(b"write") => Operation::Write,
        other => return Err(Malformed::field("type", "Read or Write", other)),
    };
    let offset = fields.whole("offset")?;
    let bytes = fields.whole("size")?;
    fields.whole("response time")?;
    fields.end()?;
    let extent = Extent::new(operation, offset, bytes)?;
    Ok(extent.at(time_ns, volumes.text(key, |key| key.replacen(',', ".", 1))?))
}

/// A line of a copy that was changed on its way; `why` is what is wrong with it as published, `responds` whether the
/// first record has a field for the response time.
#[cold]
fn variant(
    line: &[u8],
    volumes: &mut Volumes,
    why: Malformed,
    responds: &mut Option<bool>,
) -> Result<Parsed, Malformed> {
    let line = line.trim_ascii();
    let separator = [b',', b';', b'\t'].into_iter().find(|separator| line.contains(separator));
    let fields: Vec<&[u8]> = match separator {
        Some(separator) => line.split(|&byte| byte == separator).map(<[u8]>::trim_ascii).collect(),
        None => line.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty()).collect(),
    };
    let Some((&[time, host, disk, kind, offset, size], response)) = fields.split_first_chunk() else {
        return Err(why);
    };
    // Column names, whatever they are called exactly.
    if time.eq_ignore_ascii_case(b"timestamp") && host.to_ascii_lowercase().starts_with(b"host") {
        return Ok(Parsed::Ignored);
    }
    let operation = match kind {
        kind if kind.eq_ignore_ascii_case(b"read") || kind.eq_ignore_ascii_case(b"r") => Operation::Read,
        kind if kind.eq_ignore_ascii_case(b"write") || kind.eq_ignore_ascii_case(b"w") => Operation::Write,
        _ => return Err(why),
    };
    whole(disk, "disk number")?;
    let time_ns = nanoseconds(whole(time, "time stamp")?, 100)?;
    match response {
        [] if *responds == Some(true) => {
            return Err(Malformed::new("the response time is missing, which the first record has"));
        }
        [] | [b""] => {}
        [response] => drop(whole(response, "response time")?),
        _ => return Err(why),
    }
    let extent = Extent::new(operation, whole(offset, "offset")?, whole(size, "size")?)?;
    responds.get_or_insert(!response.is_empty());
    let key = [host, b",", disk].concat();
    Ok(extent.at(time_ns, volumes.text(&key, |key| key.replacen(',', ".", 1))?))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{only_error, requests};
    use super::*;

    #[test]
    fn ticks_volumes_and_ties() {
        let text = "128166372000001000,host,0,Write,2147483648,20480,450\r\n\
                    128166372000001000,host,1,Read,512,100,0\n128166372000001001,host,0,read,0,1,9";
        let (got, intake) = requests(text, "msr");
        assert_eq!(got[0], (0, 2_147_483_648, 20_480, 0, Operation::Write));
        assert_eq!(got[1], (0, 512, 100, 1, Operation::Read));
        assert_eq!(got[2].0, 100);
        assert_eq!(intake.volumes, ["host.0", "host.1"]);
        assert_eq!(intake.out_of_order, 0);
    }

    #[test]
    fn copies_in_circulation() {
        let published = "128166372000001000,host,0,Write,2147483648,20480,450\n\
                         128166372000001000,host,1,Read,512,100,0\n128166372000001001,host,0,Read,0,1,9\n";
        let (rows, intake) = requests(published, "msr");
        let header = "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n";
        let without: String = published.lines().map(|line| format!("{}\n", line.rsplit_once(',').unwrap().0)).collect();
        let mut variants = vec![
            format!("{header}{published}"),
            without.clone(),
            format!("timestamp,hostname,disk,type,offset,size\r\n{without}"),
            without.replace('\n', ",\n"),
            published.replace(',', ", "),
            published.replace("Read", "R").replace("Write", "w"),
        ];
        variants.extend([";", "\t", " ", "  "].map(|separator| format!("{header}{published}").replace(',', separator)));
        for text in variants {
            let (got, seen) = requests(&text, "msr");
            assert_eq!(got, rows, "{text}");
            assert_eq!((&seen.volumes, seen.skipped), (&intake.volumes, 0), "{text}");
        }
        // One record under its column names is enough.
        let first = published.lines().next().unwrap();
        assert_eq!(requests(&format!("{header}{first}"), "msr").0.len(), 1);
    }

    /// A line that was cut within its size was read as a smaller request where only the response time can be absent.
    #[test]
    fn a_line_cut_short_is_malformed() {
        let whole = "128166372000001000,host,0,Read,0,8192,331\n";
        for cut in ["128166372000001001,host,0,Read,0,81", "128166372000001001 host 0 r 0 81"] {
            let error = only_error(cut, "msr");
            assert!(error.what.contains("the response time is missing, which the first record has"), "{error}");
        }
        // An empty field is one, and in a copy without the field there is none to miss.
        assert_eq!(requests(&format!("{whole}128166372000001001,host,0,Read,0,81,\n"), "msr").0.len(), 2);
        let without = whole.replace(",331", "");
        assert_eq!(requests(&format!("{without}{without}{whole}{without}"), "msr").0.len(), 4);
    }

    #[test]
    fn malformed() {
        for line in [
            "128166372000001000,host,0,Trim,0,512,1",
            "128166372000001000,host,0,Read,0,0,1",
            "128166372000001000,host,x,Read,0,512,1",
            "128166372000001000,host,0,Read,0",
            "128166372000001000;host;0;Read;0;512;x",
            "128166372000001000 host 0 Fetch 0 512 1",
            "128166372000001000,host,0,Read,0,512,1,9",
            "928166372011600556,host,0,Read,0,512,1",
            "128166372000001000",
            "1,a",
        ] {
            only_error(line, "msr");
        }
    }
}

//! Tests over all formats: the table, detection, damage, time, round trips, real traces.
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "reads real traces where they are kept")]

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::testing::{drain, error_of, open, requests_of};
use super::*;
use crate::workload::adapt::testing::Fixed;
use crate::workload::profile::Profile;
use crate::workload::{Operation, Request, Source};

fn example(format: &TraceFormat) -> Vec<u8> {
    match format.example {
        Example::Text(text) => text.as_bytes().to_vec(),
        Example::Hex(text) => {
            let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
            let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
            digits.chunks(2).map(byte).collect()
        }
    }
}

fn gz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zst(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 3).unwrap()
}

fn xz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 3);
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn bz2(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

type Compress = fn(&[u8]) -> Vec<u8>;

const COMPRESSIONS: [(&str, Compress); 4] = [("gzip", gz), ("zstd", zst), ("xz", xz), ("bzip2", bz2)];

#[test]
fn the_table_describes_itself() {
    for (index, format) in FORMATS.iter().enumerate() {
        assert!(format.name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-'));
        assert!(FORMATS[..index].iter().all(|other| other.name != format.name), "{} twice", format.name);
        assert!(std::ptr::eq(by_name(format.name).unwrap(), format));
        for text in [format.summary, format.units, format.reference] {
            assert!(!text.is_empty() && !text.ends_with('.'), "{}", format.name);
        }
        assert!(format.units.contains("time") && format.units.contains("in "), "{}", format.name);
    }
}

#[test]
fn each_example_is_recognised_as_itself_only() {
    for format in FORMATS {
        let bytes = example(format);
        let names: Vec<_> = detect(&Head::new(&bytes, true)).map(|found| found.name).collect();
        assert_eq!(names, [format.name]);
        let trace = open(&bytes, &OpenOptions::default()).unwrap();
        let announcement = trace.announcement();
        assert!(announcement.starts_with(&format!("{}: {}", format.name, format.summary)), "{announcement}");
        assert!(!announcement.contains('\n'));
        let (rows, intake) = requests_of(&bytes, None).unwrap();
        assert_eq!(intake.requests as usize, rows.len());
        assert!(!rows.is_empty() && intake.volumes.iter().all(|name| !name.is_empty()));
    }
}

#[test]
fn a_format_that_does_not_fit_fails_at_its_first_record() {
    for format in FORMATS {
        for other in FORMATS.iter().filter(|other| other.name != format.name) {
            let Err(error) = requests_of(&example(format), Some(other.name)) else {
                // Five whole numbers of MQSim are DiskSim with whole times as well.
                assert_eq!((format.name, other.name), ("mqsim", "disksim"));
                continue;
            };
            assert!(error.line <= 2, "{} as {}: {error}", format.name, other.name);
            assert!(error.what.contains(other.name) || error.what.contains("no line end"), "{error}");
        }
    }
}

#[test]
fn whole_times_are_mqsim_unless_the_flags_say_otherwise() {
    let named = |text: &str| open(text.as_bytes(), &OpenOptions::default()).map(|trace| trace.format().name);
    assert_eq!(named("1 0 8 8 1\n2 0 8 8 0\n"), Ok("mqsim"));
    assert_eq!(named("1 0 8 8 1\n2 0 8 8 0\n2.5 0 8 8 0\n"), Ok("disksim"));
    assert_eq!(named("1 0 8 8 81\n2 0 8 8 80\n"), Ok("disksim"));
}

#[test]
fn absent_content_is_an_error_of_its_own() {
    assert!(error_of(b"", None).what.contains("empty"));
    for (_, compress) in COMPRESSIONS {
        assert!(error_of(&compress(b""), None).what.contains("nothing is left"));
    }
    assert!(error_of(b"\n \r\n", None).what.contains("white space"));
    for garbage in [&b"hello world\n"[..], b"\x7fELF\x02\x01\x01\0\0\0", &[0; 4096], &[0xff; 100_000]] {
        let error = error_of(garbage, None);
        assert!(error.what.contains("not recognised"), "{error}");
        assert!(error.fix.contains("--format") && error.fix.contains("msr"), "{error}");
    }
    let error = error_of(b"1,2", Some("nonsense"));
    assert!(error.what.contains("nonsense") && error.fix.contains("spc"), "{error}");
    assert!(error_of(b"fio version 3 iolog\n0 f add\n", None).what.contains("none of the 2 records"));
    assert!(error_of(&[b'1'; 1 << 20], Some("spc")).what.contains("no line end"));
}

#[test]
fn a_malformed_line_stops_or_is_skipped() {
    let text = "0,1,512,R,0.1\n0,2,512,W,0.2\n0,3,512,?,0.3\n\n0,4,0,W,0.4\n0,5,512,W,0.5";
    let error = error_of(text.as_bytes(), None);
    assert_eq!((error.line, &error.origin[..]), (3, "test"));
    assert!(error.what.contains("`?`") && error.fix.contains("--on-error skip"), "{error}");
    let options = OpenOptions { on_error: OnError::Skip, ..OpenOptions::default() };
    let mut trace = open(text.as_bytes(), &options).unwrap();
    assert_eq!(drain(&mut trace).unwrap().len(), 3);
    let intake = trace.intake();
    assert_eq!((intake.skipped, intake.ignored, intake.requests), (2, 1, 3));
    assert_eq!(intake.first_skipped.as_ref().unwrap().0, 3);
    let options = OpenOptions { format: Some("msr"), ..options };
    let error = drain(&mut open(text.as_bytes(), &options).unwrap()).unwrap_err();
    assert!(error.what.contains("all 5 msr records are malformed"), "{error}");
}

#[test]
fn a_last_line_without_a_line_end_is_told() {
    let text = "0,1,512,R,0.1\n0,2,4096,W,0.2\n";
    let of = |text: &str| requests_of(text.as_bytes(), None).unwrap().1.unended;
    assert!(!of(text) && of(text.trim_end()));
    assert!(of(&format!("{text}0,3,51,R,0.")), "which was 512, and 0.3");
    assert!(!of(&format!("{text}  ")), "no number is cut there");
}

#[test]
fn an_error_is_repeated_not_forgotten() {
    let mut trace =
        open(b"0,1,512,R,0.1\nx\n", &OpenOptions { format: Some("spc"), ..OpenOptions::default() }).unwrap();
    let mut batch = Vec::new();
    let first = trace.fill(&mut batch, 10).unwrap_err();
    assert_eq!(trace.fill(&mut batch, 10).unwrap_err(), first);
}

#[test]
fn times_going_back_are_clamped_and_counted() {
    let text = "0,1,512,R,10.0\n0,1,512,R,11.0\n0,1,512,R,10.5\n0,1,512,R,9.0\n0,1,512,R,12.0\n";
    let (rows, intake) = requests_of(text.as_bytes(), None).unwrap();
    assert_eq!(rows.iter().map(|row| row.0 / 1_000_000).collect::<Vec<_>>(), [0, 1000, 1000, 1000, 2000]);
    assert_eq!((intake.out_of_order, intake.worst_disorder_ns), (2, 2_000_000_000));
}

#[test]
fn a_lone_leap_of_the_clock_does_not_drag_the_rest_along() {
    for leap in 0..5 {
        let second = |index: u64| if index == leap { 1_200_000_000 } else { index };
        let text: String = (0..5).map(|index| format!("0,{index},512,R,{}\n", second(index))).collect();
        let (rows, intake) = requests_of(text.as_bytes(), None).unwrap();
        assert_eq!(rows.iter().map(|row| row.1 / 512).collect::<Vec<_>>(), [0, 1, 2, 3, 4], "order is kept");
        let seconds: Vec<_> = rows.iter().map(|row| row.0 / 1_000_000_000).collect();
        match leap {
            0 => assert_eq!(seconds, [0, 0, 1, 2, 3]),
            4 => assert_eq!(seconds, [0, 1, 2, 3, 3]),
            _ => assert_eq!(seconds[leap as usize..], [leap - 1, leap + 1, leap + 2, leap + 3][..5 - leap as usize]),
        }
        assert_eq!((intake.out_of_order, intake.worst_disorder_ns >> 60), (1, 1));
    }
    let gap = "0,1,512,R,0\n0,1,512,R,90000\n0,1,512,R,90001\n";
    let (rows, intake) = requests_of(gap.as_bytes(), None).unwrap();
    assert_eq!((rows[2].0, intake.out_of_order), (90_001_000_000_000, 0), "a day's pause is a pause");
    let (rows, intake) = requests_of(b"0,1,512,R,0\n0,1,512,R,90000\n", None).unwrap();
    assert_eq!((rows[1].0, intake.out_of_order), (90_000_000_000_000, 0), "at the end, too");
}

#[test]
fn compressed_streams_are_read_hashed_and_their_truncation_noticed() {
    let text: String =
        (0..20_000_u64).map(|n| format!("0,{},512,W,{n}.5\n", n * n * 2_654_435_761 % 1_000_003)).collect();
    let plain = requests_of(text.as_bytes(), None).unwrap();
    assert_eq!(plain.0.len(), 20_000);
    for (name, compress) in COMPRESSIONS {
        let bytes = compress(text.as_bytes());
        let (rows, intake) = requests_of(&bytes, None).unwrap();
        assert_eq!(rows, plain.0, "{name}");
        use sha2::Digest;
        let digest: String = sha2::Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(intake.sha256, Some(digest), "{name}");
        let announcement = open(&bytes, &OpenOptions::default()).unwrap().announcement();
        assert!(announcement.ends_with(&format!("{name}-compressed")), "{announcement}");
        for cut in [7, 20, bytes.len() / 2, bytes.len() - 5, bytes.len() - 1] {
            let error = error_of(&bytes[..cut], None);
            assert!(error.what.contains(name) && error.what.contains("cut short"), "{name} cut at {cut}: {error}");
        }
        let two = [&bytes[..], &bytes].concat();
        assert_eq!(requests_of(&two, None).unwrap().0.len(), 40_000, "{name}: concatenated streams");
        let mut damaged = bytes.clone();
        let middle = damaged.len() / 2;
        damaged[middle..middle + 64].fill(0x55);
        assert!(requests_of(&damaged, None).is_err(), "{name}: damage in the middle");
    }
}

#[test]
fn a_limit_ends_early_without_a_hash() {
    let mut trace =
        open(b"0,1,512,R,1\n0,2,512,R,2\nx\n0,2,512,R,2\n", &OpenOptions { limit: Some(2), ..OpenOptions::default() })
            .unwrap();
    assert_eq!(drain(&mut trace).unwrap().len(), 2);
    assert_eq!((trace.intake().requests, &trace.intake().sha256), (2, &None));
}

#[test]
fn a_truncated_last_record_is_skippable() {
    let record = example(by_name("cloudphysics").unwrap());
    let bytes = [&record[..], &record, &record[..10]].concat();
    assert_eq!(error_of(&bytes, None).line, 3);
    let mut trace = open(&bytes, &OpenOptions { on_error: OnError::Skip, ..OpenOptions::default() }).unwrap();
    assert_eq!(drain(&mut trace).unwrap().len(), 2);
    assert_eq!(trace.intake().skipped, 1);
}

#[test]
fn what_a_target_cannot_express_is_refused() {
    let trim = Request { arrival_ns: 1, offset: 0, bytes: 512, volume: 0, operation: Operation::Trim };
    let odd = Request { offset: 100, operation: Operation::Read, ..trim };
    for target in ["spc", "msr", "mqsim", "disksim"] {
        let mut out = Vec::new();
        let error = convert(&mut Fixed::new(vec![trim]), "test", target, OnError::Stop, &mut out).unwrap_err();
        assert!(error.what.contains("request 1") && error.what.contains("trim"), "{error}");
        let mut source = Fixed::new(vec![trim, odd]);
        let converted = convert(&mut source, "test", target, OnError::Skip, &mut out).unwrap();
        let odd_fits = u64::from(target == "msr");
        assert_eq!((converted.refused, converted.requests), (2 - odd_fits, odd_fits));
        assert_eq!(converted.first_refused.unwrap().0, 1);
    }
    let error = convert(&mut Fixed::new(vec![]), "test", "fiu", OnError::Stop, &mut Vec::new()).unwrap_err();
    assert!(error.fix.contains("fio3"), "{error}");
}

/// Volumes of several hosts that had one number became one volume.
#[test]
fn volumes_are_written_under_numbers_of_their_own() {
    let text: String = ["a,1", "b,1", "a,0", "b,1"].map(|disk| format!("1000,{disk},Read,0,512,9\n")).concat();
    for (target, renumbered) in
        [("spc", Some(("b.1".to_owned(), 0))), ("mqsim", Some(("b.1".to_owned(), 0))), ("msr", None)]
    {
        let mut written = Vec::new();
        let mut trace = open(text.as_bytes(), &OpenOptions::default()).unwrap();
        let converted = convert(&mut trace, "test", target, OnError::Stop, &mut written).unwrap();
        assert_eq!(converted.renumbered.volumes, if target == "msr" { 0 } else { 2 });
        assert_eq!(converted.renumbered.first, renumbered);
        let (rows, intake) = requests_of(&written, Some(target)).unwrap();
        assert_eq!(rows.iter().map(|row| row.3).collect::<Vec<_>>(), [0, 1, 2, 1], "{target}");
        if target == "spc" {
            assert_eq!(intake.volumes, ["asu 1", "asu 0", "asu 2"]);
        }
    }
}

fn any_request() -> impl Strategy<Value = (u64, u64, u64, u32, u8)> {
    (0_u64..10_000_000_000, 0_u64..1 << 40, 1_u64..4096, 0_u32..4, 0_u8..4)
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(mut raw in prop::collection::vec(any_request(), 1..60)) {
        raw.sort_unstable_by_key(|row| row.0);
        for (target, unit_ns, everything) in
            [("spc", 1, false), ("msr", 100, false), ("mqsim", 1, false), ("disksim", 1, false), ("fio3", 1000, true)]
        {
            // Arrivals in the target's unit from 0, volumes numbered in order of first appearance.
            let mut seen = Vec::new();
            let requests: Vec<Request> = raw.iter().map(|&(time, sector, count, volume, kind)| {
                let operation = [Operation::Read, Operation::Write, Operation::Trim, Operation::Flush];
                let operation = operation[usize::from(kind) % if everything { 4 } else { 2 }];
                let number = seen.iter().position(|&known| known == volume).unwrap_or_else(|| {
                    seen.push(volume);
                    seen.len() - 1
                });
                let (offset, bytes) = if operation == Operation::Flush { (0, 0) } else { (sector * 512, count * 512) };
                let arrival_ns = (time - raw[0].0) / unit_ns * unit_ns;
                Request { arrival_ns, offset, bytes, volume: number as u32, operation }
            }).collect();
            let mut text = Vec::new();
            let converted =
                convert(&mut Fixed::new(requests.clone()), "test", target, OnError::Stop, &mut text).unwrap();
            prop_assert_eq!((converted.requests as usize, converted.times_cut), (requests.len(), 0));
            let mut trace = open(&text, &OpenOptions::default()).unwrap();
            prop_assert_eq!(trace.format().name, target);
            prop_assert_eq!(drain(&mut trace).unwrap(), requests);
        }
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let _ = requests_of(&bytes, None);
        for format in FORMATS {
            for on_error in [OnError::Stop, OnError::Skip] {
                if let Ok(mut trace) = open(&bytes, &OpenOptions { format: Some(format.name), on_error, limit: None }) {
                    let _ = drain(&mut trace);
                }
            }
        }
    }

    #[test]
    fn mutated_examples_never_panic(
        which in 0..FORMATS.len(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = example(&FORMATS[which]).repeat(3);
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        for on_error in [OnError::Stop, OnError::Skip] {
            let options = OpenOptions { format: Some(FORMATS[which].name), on_error, limit: None };
            if let Ok(mut trace) = open(&bytes, &options) {
                let _ = Profile::of(&mut trace, 4096);
            }
        }
    }
}

/// Where the real traces are, if anywhere: `FTLAB_TRACES`, or `shared/traces` next to the workspace.
fn traces() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    let asked = std::env::var_os("FTLAB_TRACES").map(PathBuf::from);
    let found = Some(asked.unwrap_or(beside)).filter(|place| place.is_dir());
    if found.is_none() {
        println!("SKIPPED: no real traces; set FTLAB_TRACES to their directory");
    }
    found
}

/// What the traces' index says, corrected where the records say otherwise: the arrivals of captured_largefile span
/// 40.2 s (not 60) and those of captured_fourvms 244.9 s (not 260); ycsb_java_ext4 has 9,887 D events, of which the
/// index leaves out the one with a broken clock.
///
/// Name, format, requests without trims, trims, read %, mean KiB, written MiB, written footprint MiB, seconds.
type Known = (&'static str, &'static str, u64, u64, f64, f64, f64, f64, f64);

const KNOWN: [Known; 14] = [
    ("ycsb_a_rocksdb_xfs_1.iolog.zst", "fio3", 64_189, 231, 0.0, 127.0, 7978.0, 1703.0, 25.0),
    ("captured_postmark.msr.csv.zst", "msr", 1_852_475, 0, 52.0, 8.2, 9750.0, 4172.0, 283.0),
    ("captured_largefile.msr.csv.zst", "msr", 71_790, 0, 0.0, 609.0, 42_700.0, 40_620.0, 40.2),
    ("captured_fourvms.msr.csv.zst", "msr", 1_005_022, 0, 1.0, 20.0, 19_680.0, 12_930.0, 244.9),
    ("cloudphysics_2h.vscsi.zst", "cloudphysics", 113_872, 0, 41.0, 36.0, 2297.0, 815.0, 7200.0),
    ("hplajw_1week.msr.csv.zst", "msr", 44_519, 0, 29.0, 5.8, 192.0, 15.6, 603_065.0),
    ("alibaba_1h.alibaba.csv.zst", "alibaba", 52_208, 0, 10.0, 8.0, 292.0, 111.0, 3591.0),
    ("msr_prxy_0_sample20k.msr.csv.zst", "msr", 20_000, 0, 1.7, 2.6, 44.0, 6.3, 939.0),
    ("financial1_prefix10k.spc.zst", "spc", 10_000, 0, 41.0, 5.4, 28.5, 14.6, 260.0),
    ("websearch_prefix25k.mqsim.zst", "mqsim", 24_783, 0, 100.0, 15.0, 0.0, 0.0, 60.0),
    ("tpcc_small.mqsim.zst", "mqsim", 6_999, 0, 63.0, 8.3, 22.0, 31.0, 0.14),
    ("postmark_ssd.disksim.zst", "disksim", 62_257, 0, 83.0, 222.0, 8523.0, 5986.0, 490.0),
    ("iozone_100k.disksim.zst", "disksim", 100_000, 0, 0.0, 360.0, 35_148.0, 1060.0, 936.0),
    ("ycsb_java_ext4.blkparse.zst", "blkparse", 9_887, 0, 91.0, 128.0, 240.0, 240.0, 810.0),
];

#[test]
fn real_traces_are_recognised_and_counted() {
    let Some(place) = traces() else { return };
    let mut wrong = Vec::new();
    for (name, format, requests, trims, read_percent, mean_kib, written_mib, footprint_mib, seconds) in KNOWN {
        let Ok(file) = File::open(place.join(name)) else {
            println!("SKIPPED: {name} is not in {}", place.display());
            continue;
        };
        let mut trace = TraceFile::from_reader(name, Box::new(file), &OpenOptions::default()).unwrap();
        assert_eq!(trace.format().name, format, "{name}");
        println!("{name}: {}", trace.announcement());
        let profile = Profile::of(&mut trace, 4096).unwrap();
        println!(
            "  {} requests, {:.2} % read, {:.2} KiB, span {:.2} GiB, {:.3} s, written {:.1} / {:.1} MiB, {} trims, \
             {} flushes, {} volumes, {} out of order by {} ns, {} ignored, sequential {:.3}",
            profile.requests,
            100.0 * profile.read_share(),
            profile.mean_bytes() / 1024.0,
            profile.volumes.iter().map(|volume| volume.span_bytes).sum::<u64>() as f64 / 1_073_741_824.0,
            profile.duration_ns as f64 / 1e9,
            profile.writes.bytes as f64 / 1_048_576.0,
            profile.written_footprint_bytes as f64 / 1_048_576.0,
            profile.trims.requests,
            profile.flushes.requests,
            profile.volumes.len(),
            profile.out_of_order,
            profile.worst_disorder_ns,
            profile.ignored,
            profile.sequential_share(),
        );
        let mut near = |got: f64, known: f64, what: &str| {
            if (got - known).abs() > 0.51_f64.max(0.02 * known) {
                wrong.push(format!("{name}: {what} {got}, known {known}"));
            }
        };
        assert_eq!((profile.requests - trims, profile.trims.requests), (requests, trims), "{name}");
        near(100.0 * profile.read_share(), read_percent, "read %");
        near(profile.mean_bytes() / 1024.0, mean_kib, "mean KiB");
        near(profile.writes.bytes as f64 / 1_048_576.0, written_mib, "written MiB");
        near(profile.written_footprint_bytes as f64 / 1_048_576.0, footprint_mib, "written footprint MiB");
        near(profile.duration_ns as f64 / 1e9, seconds, "seconds");
        assert_eq!(profile.skipped, 0);
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    for entry in fs::read_dir(&place).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if !name.ends_with(".md") && KNOWN.iter().all(|known| known.0 != name) {
            println!("SKIPPED: {name} is not among the known traces");
        }
    }
}

/// 8 GiB of newlines in 256 KiB kept `ftlab trace info` busy for 100 s.
#[test]
fn a_bomb_of_newlines_ends_at_a_limit_that_is_said() {
    let format = by_name("msr").unwrap();
    let line = example(format);
    let mut encoder = zstd::Encoder::new(Vec::new(), 3).unwrap();
    encoder.write_all(&line).unwrap();
    let newlines = vec![b'\n'; 1 << 20];
    // Half of the limit, a request, and four times the limit.
    (0..32).for_each(|_| encoder.write_all(&newlines).unwrap());
    encoder.write_all(&line).unwrap();
    (0..256).for_each(|_| encoder.write_all(&newlines).unwrap());
    let bomb = encoder.finish().unwrap();
    assert!(bomb.len() < 100 << 10, "{} bytes", bomb.len());
    let mut trace = open(&bomb, &OpenOptions::default()).unwrap();
    let mut batch = Vec::new();
    let error = loop {
        match trace.fill(&mut batch, 1 << 10) {
            Ok(()) => assert!(batch.len() < 1000, "it never ends"),
            Err(error) => break error,
        }
    };
    assert_eq!(error.what, "64 MiB in a row hold no request");
    assert!(error.line > 96 << 20 && error.line < 97 << 20, "{error}");
}

/// A Zstandard frame of one raw block, whose header asks for a window of 2^`window_log` bytes.
fn zst_of_window(window_log: u8, content: &[u8]) -> Vec<u8> {
    let block = (content.len() as u32) << 3 | 1;
    [&[0x28, 0xb5, 0x2f, 0xfd, 0, (window_log - 10) << 3], &block.to_le_bytes()[..3], content].concat()
}

/// What `xz` makes of it, but that its header asks for the dictionary with this code.
fn xz_of_dictionary(code: u8, content: &[u8]) -> Vec<u8> {
    let crc32 = |bytes: &[u8]| {
        let bit = |crc: u32| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
        !bytes.iter().fold(u32::MAX, |crc, &byte| (0..8).fold(crc ^ u32::from(byte), |crc, _| bit(crc)))
    };
    let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 0);
    encoder.write_all(content).unwrap();
    let mut out = encoder.finish().unwrap();
    // Behind the header of the stream that of its block: size, flags, filter LZMA2 with a byte of properties, checksum.
    let end = 12 + (usize::from(out[12]) + 1) * 4;
    assert_eq!(out[14..16], [0x21, 1]);
    out[16] = code;
    let check = crc32(&out[12..end - 4]).to_le_bytes();
    out[end - 4..end].copy_from_slice(&check);
    out
}

/// A header of a few bytes can ask for gigabytes: up to a limit it may, for a window is no larger than what is in it.
#[test]
fn windows_and_dictionaries_have_a_limit() {
    let line = example(by_name("msr").unwrap());
    let read = |bytes: &[u8]| drain(&mut open(bytes, &OpenOptions::default()).unwrap()).unwrap();
    assert_eq!(read(&zst_of_window(31, &line)), read(&line));
    let error = error_of(&zst_of_window(32, &line), None);
    assert!(error.what.contains("zstd stream is damaged") && error.what.contains("too much memory"), "{error}");
    // 64 MiB, as `xz -9` has it; 3 GiB; 4 GiB less a byte.
    assert_eq!(read(&xz_of_dictionary(28, &line)), read(&line));
    for code in [39, 40] {
        let error = error_of(&xz_of_dictionary(code, &line), None);
        assert!(error.what.contains("memory limit"), "{error}");
    }
}

//! Tables written and read back, tables of other programs, and tables that are none.

use super::*;
use parquet::basic::{Compression, ConvertedType, LogicalType, Repetition, TimeUnit, Type as Physical, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int32Type, Int64Type};
use parquet::file::metadata::{
    ColumnChunkMetaData, FileMetaData, ParquetMetaData, ParquetMetaDataWriter, RowGroupMetaData,
};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{SchemaDescriptor, Type};
use proptest::prelude::*;
use sim::workload::format::{Converted, OnError};
use sim::workload::{Intake, Operation, Request, Source, WorkloadError};
use std::sync::Arc;

struct Listed {
    requests: Vec<Request>,
    at: usize,
    intake: Intake,
}

impl Source for Listed {
    fn fill(&mut self, batch: &mut Vec<Request>, limit: usize) -> Result<(), WorkloadError> {
        let rest = &self.requests[self.at..];
        let take = rest.len().min(limit);
        batch.extend_from_slice(&rest[..take]);
        self.at += take;
        Ok(())
    }

    fn intake(&self) -> &Intake {
        &self.intake
    }

    fn timed(&self) -> bool {
        true
    }
}

fn listed(requests: Vec<Request>, volumes: &[&str]) -> Listed {
    let volumes = volumes.iter().map(|&name| name.to_owned()).collect();
    Listed { requests, at: 0, intake: Intake { volumes, ..Intake::default() } }
}

fn request(arrival_ns: u64, operation: Operation, offset: u64, bytes: u64, volume: u32) -> Request {
    Request { arrival_ns, offset, bytes, volume, operation }
}

fn written(requests: Vec<Request>, volumes: &[&str]) -> (Vec<u8>, Converted) {
    let mut bytes = Vec::new();
    let converted = write(&mut listed(requests, volumes), "test", OnError::Stop, &mut bytes).unwrap();
    (bytes, converted)
}

fn drained(bytes: &[u8], on_error: OnError) -> Result<(Vec<Request>, Intake), WorkloadError> {
    limited(bytes, on_error, None)
}

fn limited(bytes: &[u8], on_error: OnError, limit: Option<u64>) -> Result<(Vec<Request>, Intake), WorkloadError> {
    let mut table = Table::of_bytes("t.parquet", bytes.to_vec(), on_error, limit)?;
    let mut all = Vec::new();
    loop {
        let before = all.len();
        // An odd limit, so that the ends of batches fall everywhere.
        table.fill(&mut all, 7)?;
        assert!(all.len() <= before + 7, "a batch of {}", all.len() - before);
        if all.len() == before {
            return Ok((all, table.intake().clone()));
        }
    }
}

#[test]
fn what_is_written_is_read_back() {
    use Operation::{Flush, Read, Trim, Write};
    let requests = vec![
        request(0, Write, 0, 4096, 0),
        request(1_000, Flush, 0, 0, 0),
        request(1_000, Read, 4096, 512, 0),
        request(9_000_000, Trim, 1 << 40, 1 << 36, 0),
    ];
    let (bytes, converted) = written(requests.clone(), &["sda"]);
    assert_eq!((converted.requests, converted.times_cut), (4, 0));
    assert!(is_table(&bytes) && !is_table(b"fio version 3 iolog"));
    let (back, intake) = drained(&bytes, OnError::Stop).unwrap();
    assert_eq!(back, requests);
    assert_eq!(intake.volumes, ["sda"]);
    assert_eq!(intake.sha256.map(|hash| hash.len()), Some(64));
    let table = Table::of_bytes("t", bytes, OnError::Stop, Some(2)).unwrap();
    assert_eq!(table.announcement(), "parquet: a table of 4 rows, times in column time_us, offsets and sizes in bytes");
}

#[test]
fn a_limit_ends_the_reading_without_a_hash() {
    let requests = (0..100).map(|n| request(n, Operation::Read, n * 512, 512, 0)).collect();
    let (bytes, _) = written(requests, &["sda"]);
    let mut table = Table::of_bytes("t", bytes, OnError::Stop, Some(30)).unwrap();
    let mut all = Vec::new();
    table.fill(&mut all, 1000).unwrap();
    table.fill(&mut all, 1000).unwrap();
    assert_eq!((all.len(), table.intake().sha256.is_some()), (30, false));
}

#[test]
fn several_volumes_keep_their_names() {
    let requests = vec![
        request(5, Operation::Write, 0, 512, 1),
        request(5, Operation::Write, 0, 512, 0),
        request(7, Operation::Write, 0, 512, 1),
    ];
    let (bytes, _) = written(requests, &["asu 3", "mail"]);
    let (back, intake) = drained(&bytes, OnError::Stop).unwrap();
    // Volumes are numbered in order of first appearance, arrivals from the first.
    assert_eq!(back.iter().map(|request| request.volume).collect::<Vec<_>>(), [0, 1, 0]);
    assert_eq!(back.iter().map(|request| request.arrival_ns).collect::<Vec<_>>(), [0, 0, 2]);
    assert_eq!(intake.volumes, ["mail", "asu 3"]);
}

#[test]
fn what_63_bits_cannot_hold_is_refused() {
    let requests = vec![request(0, Operation::Write, 0, 512, 0), request(1, Operation::Trim, 1 << 63, 512, 0)];
    let mut bytes = Vec::new();
    let error = write(&mut listed(requests.clone(), &[]), "made up", OnError::Stop, &mut bytes).unwrap_err();
    assert!(error.to_string().starts_with("made up: request 2 cannot be expressed in parquet"), "{error}");
    let converted = write(&mut listed(requests, &[]), "made up", OnError::Skip, &mut bytes).unwrap();
    assert_eq!((converted.requests, converted.refused), (1, 1));
    assert_eq!(converted.first_refused.map(|(number, _)| number), Some(2));
}

/// A column of a table as another program might have made it.
enum Made {
    Long(&'static str, Vec<Option<i64>>),
    /// Numbers that stand for something else.
    Meant(&'static str, LogicalType, Vec<Option<i64>>),
    /// The same, as files had it before there were logical types.
    Converted(&'static str, ConvertedType, Vec<Option<i64>>),
    Unsigned(&'static str, Vec<Option<i32>>),
    Double(&'static str, Vec<Option<f64>>),
    Text(&'static str, Vec<Option<&'static str>>),
}

fn table(columns: &[Made]) -> Vec<u8> {
    let field = |name: &str, physical, logical| {
        let builder = Type::primitive_type_builder(name, physical).with_repetition(Repetition::OPTIONAL);
        Arc::new(builder.with_logical_type(logical).build().unwrap())
    };
    let fields = columns.iter().map(|column| match column {
        Made::Long(name, _) => field(name, Physical::INT64, None),
        Made::Meant(name, kind, _) => field(name, Physical::INT64, Some(kind.clone())),
        Made::Converted(name, kind, _) => {
            let builder = Type::primitive_type_builder(name, Physical::INT64).with_repetition(Repetition::OPTIONAL);
            let builder = builder.with_converted_type(*kind);
            Arc::new(
                if *kind == ConvertedType::DECIMAL { builder.with_precision(18).with_scale(6) } else { builder }
                    .build()
                    .unwrap(),
            )
        }
        Made::Unsigned(name, _) => field(name, Physical::INT32, Some(LogicalType::integer(32, false))),
        Made::Double(name, _) => field(name, Physical::DOUBLE, None),
        Made::Text(name, _) => field(name, Physical::BYTE_ARRAY, Some(LogicalType::String)),
    });
    let schema = Type::group_type_builder("schema").with_fields(fields.collect()).build().unwrap();
    let properties = Arc::new(WriterProperties::builder().build());
    let mut writer = SerializedFileWriter::new(Vec::new(), Arc::new(schema), properties).unwrap();
    let mut group = writer.next_row_group().unwrap();
    for column in columns {
        let mut to = group.next_column().unwrap().unwrap();
        fn levels<T>(values: &[Option<T>]) -> Vec<i16> {
            values.iter().map(|value| i16::from(value.is_some())).collect()
        }
        match column {
            Made::Long(_, values) | Made::Meant(_, _, values) | Made::Converted(_, _, values) => {
                let given: Vec<_> = values.iter().copied().flatten().collect();
                to.typed::<Int64Type>().write_batch(&given, Some(&levels(values)), None).unwrap();
            }
            Made::Unsigned(_, values) => {
                let given: Vec<_> = values.iter().copied().flatten().collect();
                to.typed::<Int32Type>().write_batch(&given, Some(&levels(values)), None).unwrap();
            }
            Made::Double(_, values) => {
                let given: Vec<_> = values.iter().copied().flatten().collect();
                to.typed::<DoubleType>().write_batch(&given, Some(&levels(values)), None).unwrap();
            }
            Made::Text(_, values) => {
                let given: Vec<_> = values.iter().copied().flatten().map(ByteArray::from).collect();
                to.typed::<ByteArrayType>().write_batch(&given, Some(&levels(values)), None).unwrap();
            }
        }
        to.close().unwrap();
    }
    group.close().unwrap();
    writer.into_inner().unwrap()
}

#[test]
fn tables_of_other_programs() {
    let bytes = table(&[
        Made::Text("comment", vec![None, Some("x"), None, None]),
        Made::Text("op", vec![Some("W"), Some("flush"), Some("Discard"), Some("read")]),
        Made::Unsigned("bytes", vec![Some(4096), None, Some(u32::MAX.cast_signed()), Some(1)]),
        Made::Double("time_s", vec![Some(10.5), Some(10.5), Some(10.4), Some(11.0)]),
        Made::Long("offset", vec![Some(0), None, Some(4096), Some(8192)]),
        Made::Long("volume", vec![Some(7), Some(7), Some(-2), Some(7)]),
    ]);
    let (back, intake) = drained(&bytes, OnError::Stop).unwrap();
    let expected = [
        request(0, Operation::Write, 0, 4096, 0),
        request(0, Operation::Flush, 0, 0, 0),
        request(0, Operation::Trim, 4096, u64::from(u32::MAX), 1),
        request(500_000_000, Operation::Read, 8192, 1, 0),
    ];
    assert_eq!(back, expected);
    assert_eq!(intake.volumes, ["volume 7", "volume -2"]);
    assert_eq!((intake.out_of_order, intake.worst_disorder_ns), (1, 100_000_000));
}

/// A TIMESTAMP or a DECIMAL is a whole number to the eye: both were read by the column's name alone, wrong by powers of
/// ten.
#[test]
fn a_type_says_what_numbers_stand_for() {
    let of = |time: Made| {
        let long = |name, value| Made::Long(name, vec![Some(value); 2]);
        table(&[time, long("offset", 0), long("bytes", 512), Made::Text("op", vec![Some("read"); 2])])
    };
    let values = || vec![Some(5_000_000), Some(8_000_000)];
    let us = LogicalType::timestamp(true, TimeUnit::MICROS);
    let ns = LogicalType::timestamp(false, TimeUnit::NANOS);
    for (time, later_ns) in [
        (Made::Meant("time_us", us, values()), 3_000_000_000),
        (Made::Meant("time_us", ns.clone(), values()), 3_000_000),
        (Made::Meant("time_s", ns, values()), 3_000_000),
        (Made::Meant("time_ms", LogicalType::integer(64, false), values()), 3_000_000_000_000),
        (Made::Converted("time_ns", ConvertedType::TIMESTAMP_MILLIS, values()), 3_000_000_000_000),
        (Made::Converted("time_ns", ConvertedType::INT_64, values()), 3_000_000),
    ] {
        let (back, _) = drained(&of(time), OnError::Stop).unwrap();
        assert_eq!(back[1].arrival_ns, later_ns);
    }
    let named = Made::Meant("time_us", LogicalType::timestamp(true, TimeUnit::NANOS), values());
    let announcement = Table::of_bytes("t", of(named), OnError::Stop, None).unwrap().announcement();
    assert!(announcement.contains("times in column time_us (in ns, as its type says)"), "{announcement}");
    let error = |bytes: Vec<u8>| Table::of_bytes("t", bytes, OnError::Stop, None).err().unwrap().to_string();
    let decimal = error(of(Made::Converted("time_s", ConvertedType::DECIMAL, values())));
    assert_eq!(
        decimal,
        "t: the column time_s holds values of type DECIMAL, not whole numbers or doubles (cast it to whole numbers or \
         doubles)"
    );
    let text = || Made::Text("op", vec![Some("read")]);
    let moment = Made::Meant("offset", LogicalType::time(true, TimeUnit::NANOS), vec![Some(0)]);
    let moment = error(table(&[moment, Made::Long("bytes", vec![Some(1)]), text()]));
    assert_eq!(moment, "t: the column offset holds times, not whole numbers (cast it to whole numbers)");
}

/// One row ten hours ahead dragged all that follow along, as it does in no other format.
#[test]
fn a_lone_leap_of_the_clock_does_not_drag_the_rest_along() {
    for leap in 0..5 {
        let at = |row| if row == leap { 36_000 + row } else { row };
        let bytes = table(&[
            Made::Long("time_s", (0..5).map(|row| Some(at(row))).collect()),
            Made::Long("offset", (0..5).map(Some).collect()),
            Made::Long("bytes", vec![Some(512); 5]),
            Made::Text("op", vec![Some("read"); 5]),
        ]);
        let (back, intake) = drained(&bytes, OnError::Stop).unwrap();
        assert_eq!(back.iter().map(|request| request.offset).collect::<Vec<_>>(), [0, 1, 2, 3, 4], "order is kept");
        let seconds: Vec<_> = back.iter().map(|request| request.arrival_ns / 1_000_000_000).collect();
        match leap {
            0 => assert_eq!(seconds, [0, 0, 1, 2, 3]),
            4 => assert_eq!(seconds, [0, 1, 2, 3, 36_004], "at the end ten hours may be a pause"),
            _ => assert_eq!(
                seconds[leap as usize..],
                [leap - 1, leap + 1, leap + 2, leap + 3].map(|at| at as u64)[..5 - leap as usize]
            ),
        }
        assert_eq!((intake.out_of_order, intake.requests), (u64::from(leap < 4), 5));
        // However many are asked for at once, no request is lost or comes twice.
        for limit in 1..7 {
            let mut table = Table::of_bytes("t", bytes.clone(), OnError::Stop, Some(4)).unwrap();
            let mut all = Vec::new();
            while {
                let before = all.len();
                table.fill(&mut all, limit).unwrap();
                assert!(all.len() <= before + limit);
                all.len() > before
            } {}
            assert_eq!(all, back[..4]);
        }
    }
}

fn plain(op: &'static str, offset: Option<i64>, bytes: Option<i64>) -> Vec<u8> {
    table(&[
        Made::Long("offset", vec![Some(0), offset]),
        Made::Long("bytes", vec![Some(512), bytes]),
        Made::Text("op", vec![Some("read"), Some(op)]),
    ])
}

#[test]
fn malformed_rows_are_named() {
    for (bytes, why) in [
        (plain("reed", Some(0), Some(512)), "the op is \"reed\", not read, write, trim or flush"),
        (plain("read", None, Some(512)), "the offset is missing"),
        (plain("read", Some(0), None), "the size is missing"),
        (plain("read", Some(0), Some(0)), "the size is 0"),
        (plain("read", Some(-1), Some(512)), "the offset is -1, not a whole number from 0 to 2^63"),
        (plain("write", Some(0), Some(5 << 30)), "a single read or write above 4 GiB"),
        (plain("trim", Some(i64::MAX), Some(2)), "the extent ends beyond 2^63 bytes"),
    ] {
        let error = drained(&bytes, OnError::Stop).unwrap_err();
        assert_eq!((error.line, error.what.as_str()), (2, format!("no valid row of a trace: {why}").as_str()));
        let (back, intake) = drained(&bytes, OnError::Skip).unwrap();
        assert_eq!((back.len(), intake.skipped, intake.first_skipped), (1, 1, Some((2, why.to_owned()))));
    }
    let untimed = Table::of_bytes("t", plain("read", Some(0), Some(1)), OnError::Stop, None).unwrap();
    assert!(!untimed.timed() && untimed.announcement().contains("untimed"));
}

#[test]
fn other_tables_are_no_traces() {
    let error = |columns: &[Made]| Table::of_bytes("t.parquet", table(columns), OnError::Stop, None).err().unwrap();
    let long = |name| Made::Long(name, vec![Some(1)]);
    let text = |name| Made::Text(name, vec![Some("read")]);
    let missing = error(&[long("lba"), long("bytes"), text("op")]).to_string();
    assert!(
        missing.starts_with("t.parquet: there is no column offset; there are lba, bytes, op (a trace"),
        "{missing}"
    );
    // What broke: a table of results has more than two hundred columns, and all were named.
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
    let many = error(&names.map(long)).to_string();
    assert!(many.contains("there are a, b, c, d, e, f, g, h and 2 more (a trace"), "{many}");
    let typed = error(&[text("offset"), long("bytes"), text("op")]).to_string();
    assert!(typed.contains("the column offset is of type BYTE_ARRAY, not whole numbers"), "{typed}");
    let double = Made::Double("time_us", vec![Some(0.5)]);
    let typed = error(&[double, long("offset"), long("bytes"), text("op")]).to_string();
    assert!(typed.contains("time_us is of type DOUBLE, not whole numbers"), "{typed}");
    let twice = error(&[long("time_us"), long("time_ns"), long("offset"), long("bytes"), text("op")]).to_string();
    assert!(twice.contains("there are two times, time_ns and time_us"), "{twice}");
    let empty = table(&[Made::Long("offset", vec![]), Made::Long("bytes", vec![]), Made::Text("op", vec![])]);
    let error = drained(&empty, OnError::Stop).unwrap_err().to_string();
    assert_eq!(error, "t.parquet: the table has no rows (check how it was made)");
    let error = Table::of_bytes("t.parquet", &b"PAR1 and no more"[..], OnError::Stop, None).err().unwrap();
    assert!(error.to_string().starts_with("t.parquet: cannot be read: "), "{error}");
}

/// A file with any byte changed, or cut anywhere, is read otherwise or refused; nothing panics or waits.
#[test]
fn damage_is_an_error_at_worst() {
    let requests = |n: u64| request(n * 10, Operation::Write, n % 50 * 4096, 4096, u32::from(n.is_multiple_of(2)));
    let (bytes, _) = written((0..400).map(requests).collect(), &["a", "b"]);
    let mut errors = 0;
    for at in 0..bytes.len() {
        for change in [0x01, 0x80, 0xff] {
            let mut changed = bytes.clone();
            changed[at] ^= change;
            errors += usize::from(drained(&changed, OnError::Stop).is_err());
        }
        assert!(drained(&bytes[..at], OnError::Stop).is_err());
    }
    assert!(errors > bytes.len() / 4, "{errors} of {}", bytes.len());
}

/// The pages of a column, made by hand.
struct Chunk {
    name: &'static str,
    physical: Physical,
    compression: Compression,
    bytes: Vec<u8>,
}

/// A number of a page's header, in the next field.
fn field(value: i64) -> Vec<u8> {
    let mut rest = value.cast_unsigned() << 1;
    let mut bytes = vec![0x15];
    while rest >= 0x80 {
        bytes.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    bytes.push(rest as u8);
    bytes
}

/// A dictionary whose header says that it has so many values and bytes.
fn dictionary(values: i64, unfolded: i64, body: &[u8]) -> Vec<u8> {
    let sizes = [field(2), field(unfolded), field(body.len() as i64)].concat();
    [&sizes, &[0x4c][..], &field(values), &field(0), &[0, 0], body].concat()
}

/// A page whose values are all the first of its dictionary.
fn firsts(values: i64) -> Vec<u8> {
    let run = field(values);
    let body = [&[0], &run[1..]].concat();
    let sizes = [field(0), field(body.len() as i64), field(body.len() as i64)].concat();
    [&sizes, &[0x2c][..], &field(values), &field(8), &field(3), &field(3), &[0, 0], &body].concat()
}

/// The columns of so many equal reads.
fn equal(rows: i64) -> [Chunk; 3] {
    let chunk = |name, physical, word: &[u8]| {
        let bytes = [dictionary(1, word.len() as i64, word), firsts(rows)].concat();
        Chunk { name, physical, compression: Compression::UNCOMPRESSED, bytes }
    };
    let number = |value: u64| value.to_le_bytes();
    [
        chunk("offset", Physical::INT64, &number(0)),
        chunk("bytes", Physical::INT64, &number(512)),
        chunk("op", Physical::BYTE_ARRAY, b"\x04\0\0\0read"),
    ]
}

/// A file of some groups, each of the same columns, which it holds once.
fn shared(chunks: &[Chunk], rows: i64, groups: usize) -> Vec<u8> {
    let required = |chunk: &Chunk| {
        let builder = Type::primitive_type_builder(chunk.name, chunk.physical).with_repetition(Repetition::REQUIRED);
        Arc::new(builder.build().unwrap())
    };
    let fields = chunks.iter().map(required).collect();
    let schema = Arc::new(Type::group_type_builder("schema").with_fields(fields).build().unwrap());
    let schema = Arc::new(SchemaDescriptor::new(schema));
    let mut file = b"PAR1".to_vec();
    let columns: Vec<_> = chunks
        .iter()
        .enumerate()
        .map(|(index, chunk)| {
            let start = file.len() as i64;
            file.extend(&chunk.bytes);
            ColumnChunkMetaData::builder(schema.column(index))
                .set_compression(chunk.compression)
                .set_num_values(rows)
                .set_data_page_offset(start)
                .set_total_compressed_size(chunk.bytes.len() as i64)
                .build()
                .unwrap()
        })
        .collect();
    let group = RowGroupMetaData::builder(schema.clone()).set_num_rows(rows).set_column_metadata(columns);
    let group = group.build().unwrap();
    let whole = FileMetaData::new(1, rows * groups as i64, None, None, schema, None);
    let metadata = ParquetMetaData::new(whole, vec![group; groups]);
    ParquetMetaDataWriter::new(&mut file, &metadata).finish().unwrap();
    file
}

#[test]
fn what_is_made_by_hand_is_read() {
    let (back, _) = drained(&shared(&equal(20_000), 20_000, 1), OnError::Stop).unwrap();
    assert_eq!((back.len(), back[19_999]), (20_000, request(0, Operation::Read, 0, 512, 0)));
}

/// The decoder took 16 GiB for a dictionary whose header said 2^31 - 1 values, and the system ended the process; a byte
/// of a sound file that had changed was enough.
#[test]
fn a_dictionary_has_no_more_values_than_bytes() {
    for (index, word) in [(0, &[0; 8][..]), (2, b"\x04\0\0\0read")] {
        let mut chunks = equal(1);
        for (values, why) in [(3, "fewer values than"), ((1 << 31) - 1, if index == 0 { "fewer" } else { "1,048,576" })]
        {
            chunks[index].bytes = [dictionary(values, word.len() as i64, word), firsts(1)].concat();
            let error = drained(&shared(&chunks, 1, 1), OnError::Stop).unwrap_err();
            assert!(error.what.contains(why), "{error}");
        }
    }
}

/// Snappy's decoder filled 2 GiB with zeros before it looked at the page.
#[test]
fn a_page_that_unfolds_to_more_than_is_believed_is_refused() {
    for compression in [Compression::SNAPPY, Compression::ZSTD(ZstdLevel::default())] {
        let mut chunks = equal(1);
        chunks[0].compression = compression;
        chunks[0].bytes = dictionary(1, (256 << 20) + 1, &[0; 8]);
        let error = drained(&shared(&chunks, 1, 1), OnError::Stop).unwrap_err();
        let expected = "a page has more than 256 MiB after decompression";
        assert!(error.what.contains(expected) && error.fix.contains("smaller pages"), "{error}");
    }
}

/// A file of 1 MiB could name 10,000 groups that all were one page, each request at the cost of that page.
#[test]
fn groups_share_no_bytes() {
    let one = shared(&equal(5), 5, 1);
    assert!(drained(&one, OnError::Stop).is_ok());
    let error = drained(&shared(&equal(5), 5, 1000), OnError::Stop).unwrap_err();
    assert!(error.what.ends_with("its columns have more bytes than the file"), "{error}");
}

/// Two thousand million rows that are none took minutes to skip, and the limit of requests never ended them.
#[test]
fn rows_without_a_request_end_at_a_limit_that_is_said() {
    let rows = (1 << 31) - 1;
    let mut chunks = equal(rows);
    chunks[2].bytes = [dictionary(1, 8, b"\x04\0\0\0reed"), firsts(rows)].concat();
    let file = shared(&chunks, rows, 1);
    assert!(file.len() < 1024, "{}", file.len());
    let error = drained(&file, OnError::Skip).unwrap_err();
    let expected = "more than 1048576 rows in a row hold no request; the last: the op is \"reed\"";
    assert!(error.what.starts_with(expected), "{error}");
    assert_eq!(error.line, 1_048_577);
}

/// A dictionary of a million words was copied for each batch of requests.
#[test]
fn a_large_dictionary_costs_small_batches_nothing() {
    let words: Vec<u8> = std::iter::repeat_n(*b"\x04\0\0\0read", 1 << 20).flatten().collect();
    let rows = 20_000;
    let mut chunks = equal(rows);
    chunks[2].bytes = [dictionary(1 << 20, words.len() as i64, &words), firsts(rows)].concat();
    let (back, _) = drained(&shared(&chunks, rows, 1), OnError::Stop).unwrap();
    assert_eq!(back.len(), 20_000);
}

proptest! {
    /// Times lie seconds or hours apart: after more than an hour a request is held until the next one comes.
    #[test]
    fn any_requests_come_back(
        rows in prop::collection::vec((0..1_u64 << 52, 0..4_u8, 0..1_u64 << 50, 1..1_u64 << 32, 0..3_u32), 1..300),
        limit in 0..300_usize,
    ) {
        let mut requests: Vec<_> = rows.iter().map(|&(time, operation, offset, bytes, volume)| match operation {
            0 => request(time, Operation::Read, offset, bytes, volume),
            1 => request(time, Operation::Write, offset, bytes, volume),
            2 => request(time, Operation::Trim, offset, bytes, volume),
            _ => request(time, Operation::Flush, 0, 0, volume),
        }).collect();
        requests.sort_by_key(|request| request.arrival_ns);
        let first_ns = requests[0].arrival_ns;
        let names = ["a", "b", "c"];
        let (bytes, _) = written(requests.clone(), &names);
        let (back, intake) = drained(&bytes, OnError::Stop).unwrap();
        prop_assert_eq!(back.len(), requests.len());
        for (got, put) in back.iter().zip(&requests) {
            prop_assert_eq!(got.arrival_ns, put.arrival_ns - first_ns);
            prop_assert_eq!((got.operation, got.offset, got.bytes), (put.operation, put.offset, put.bytes));
            prop_assert_eq!(intake.volumes[got.volume as usize].as_str(), names[put.volume as usize]);
        }
        let (first, _) = limited(&bytes, OnError::Stop, Some(limit as u64)).unwrap();
        prop_assert_eq!(&first[..], &back[..limit.min(back.len())]);
    }
}

/// Lists that say that they have up to 2^31 entries: of a page's header, which the decoder passed over behind the end
/// of the file, and of booleans, for which it takes no byte, in a directory and where a header's number says that it is
/// another value.
#[test]
fn lists_without_an_end_are_errors_at_once() {
    let header = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/parquet/endless"));
    let directory = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/parquet/booleans"));
    let sets = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/parquet/sets"));
    let retyped = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/parquet/retyped"));
    // The first byte is the fuzz target's.
    for input in [&header[1..], &directory[1..], &sets[1..], &retyped[1..]] {
        let error = drained(input, OnError::Skip).unwrap_err().to_string();
        assert!(error.contains("does not end"), "{error}");
    }
}

/// Page headers are read in growing parts, up to a limit: one with a text of 5,000 bytes is read, one without an end in
/// a long file takes no more memory than the limit.
#[test]
fn headers_of_pages_have_any_length_up_to_a_limit() {
    // Field 100 is nobody's: a text. Its length has no sign, for which `field` doubles a number.
    let long = |bytes: usize| [&[0x08, 0xc8, 1][..], &field(bytes as i64 / 2)[1..], &vec![b'x'; bytes]].concat();
    for (bytes, is_read) in [(5_000, true), (2 << 20, false)] {
        let mut chunks = equal(2);
        let first = &mut chunks[0].bytes;
        // The dictionary's header ends with a zero before its word of eight bytes.
        let end = first.len() - firsts(2).len() - 8 - 1;
        first.splice(end..end, long(bytes));
        let read = drained(&shared(&chunks, 2, 1), OnError::Stop);
        assert_eq!(read.as_ref().map_or(0, |(requests, _)| requests.len()), if is_read { 2 } else { 0 }, "{bytes}");
        let error = read.err().map(|error| error.to_string()).unwrap_or_default();
        assert_eq!(error.contains("header of a page does not end"), !is_read, "{error}");
    }
}

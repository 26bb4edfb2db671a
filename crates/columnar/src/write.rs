//! Writes requests as a table.
//!
//! The encodings are those that came out smallest on traces of servers, databases and virtual machines: differences of
//! times packed to their width, 1.2 bytes a request; addresses with all first bytes, all second bytes, … side by side,
//! 2.2 bytes, where packed differences take 3.3; sizes likewise, 0.3 bytes; operations by dictionary, 0.05 bytes. All
//! are then compressed by Zstandard.

use std::io::Write;
use std::sync::Arc;

use parquet::basic::{Compression, Encoding, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{ColumnPath, Type};
use sim::workload::format::{Converted, OnError};
use sim::workload::{Operation, Request, Source, WorkloadError};

use crate::{NAME, TIMES, VOLUME_KEY};

/// Rows of a group, 32 MiB of requests in memory.
const GROUP_ROWS: usize = 1 << 20;

/// What the hardest compression costs, 4 µs a request, is bearable in a trace of one group; it saves a tenth.
const LEVEL_OF_ONE_GROUP: i32 = 19;

/// The level of longer traces, 0.6 µs a request.
const LEVEL_OF_MANY_GROUPS: i32 = 9;

/// Writes all of `source` to `out` as a table.
///
/// The unit of times is a microsecond if all arrivals of the first million requests are whole ones, else a nanosecond;
/// later arrivals that are finer are cut and counted. A table of one group and one volume has no column of volumes.
/// `origin` stands for the source in errors.
///
/// # Errors
/// The source's own errors, output errors, and, with [`OnError::Stop`], the first request that 63 bits cannot express.
pub fn write(
    source: &mut dyn Source,
    origin: &str,
    on_error: OnError,
    out: &mut (dyn Write + Send),
) -> Result<Converted, WorkloadError> {
    let error =
        |line, what: String, fix: &str| WorkloadError { origin: origin.to_owned(), line, what, fix: fix.into() };
    let failed = |cause: ParquetError| error(0, format!("the converted trace cannot be written: {cause}"), "");
    let mut converted = Converted::default();
    let mut group: Vec<Request> = Vec::new();
    let mut number = 0;
    let mut next_group = |source: &mut dyn Source, group: &mut Vec<Request>, converted: &mut Converted| {
        group.clear();
        loop {
            let before = group.len();
            source.fill(group, GROUP_ROWS - before)?;
            if group.len() == before {
                return Ok(());
            }
            let mut refused = None;
            let mut at = before;
            for next in before..group.len() {
                number += 1;
                let request = group[next];
                let fits = |value: u64| i64::try_from(value).is_ok();
                if fits(request.arrival_ns) && fits(request.offset) && fits(request.bytes) {
                    group[at] = request;
                    at += 1;
                } else {
                    refused.get_or_insert(number);
                    converted.refused += 1;
                }
            }
            group.truncate(at);
            if let Some(number) = refused {
                let why = "a number of it is 2^63 or more";
                if on_error == OnError::Stop {
                    let what = format!("request {number} cannot be expressed in {NAME}: {why}");
                    return Err(error(0, what, "choose another target, or leave such out with --on-error skip"));
                }
                converted.first_refused.get_or_insert_with(|| (number, why.to_owned()));
            }
            if group.len() == GROUP_ROWS {
                return Ok(());
            }
        }
    };
    next_group(source, &mut group, &mut converted)?;
    let whole = group.len() < GROUP_ROWS;
    let volumes = &source.intake().volumes;
    let lone = (whole && volumes.len() <= 1).then(|| volumes.first().cloned().unwrap_or_default());
    let is_in_us = group.iter().all(|request| request.arrival_ns.is_multiple_of(1_000));
    let layout = Layout { time: TIMES[usize::from(is_in_us)], has_volume: lone.is_none() };
    let level = if whole { LEVEL_OF_ONE_GROUP } else { LEVEL_OF_MANY_GROUPS };
    let mut writer = layout.writer(level, lone, out).map_err(failed)?;
    while !group.is_empty() {
        converted.requests += group.len() as u64;
        let unit_ns = layout.time.1;
        converted.times_cut +=
            group.iter().filter(|request| !request.arrival_ns.is_multiple_of(unit_ns)).count() as u64;
        layout.group(&group, &source.intake().volumes, &mut writer).map_err(failed)?;
        next_group(source, &mut group, &mut converted)?;
    }
    writer.close().map_err(failed)?;
    Ok(converted)
}

/// Which columns a table has.
struct Layout {
    /// Name and unit of the times.
    time: (&'static str, u64),
    has_volume: bool,
}

impl Layout {
    fn writer<W: Write + Send>(
        &self,
        level: i32,
        lone: Option<String>,
        out: W,
    ) -> Result<SerializedFileWriter<W>, ParquetError> {
        let field = |name: &str, physical, logical| {
            let builder = Type::primitive_type_builder(name, physical).with_repetition(Repetition::REQUIRED);
            builder.with_logical_type(logical).build().map(Arc::new)
        };
        let mut fields = vec![
            field(self.time.0, Physical::INT64, None)?,
            field("offset", Physical::INT64, None)?,
            field("bytes", Physical::INT64, None)?,
            field("op", Physical::BYTE_ARRAY, Some(LogicalType::String))?,
        ];
        if self.has_volume {
            fields.push(field("volume", Physical::BYTE_ARRAY, Some(LogicalType::String))?);
        }
        let schema = Type::group_type_builder("trace").with_fields(fields).build()?;
        let volume = lone.map(|name| KeyValue::new(VOLUME_KEY.to_owned(), name));
        let column = |name: &str| ColumnPath::from(name);
        let properties = WriterProperties::builder()
            .set_created_by("ftlab".to_owned())
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(level)?))
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_offset_index_disabled(true)
            .set_max_row_group_row_count(None)
            .set_data_page_row_count_limit(GROUP_ROWS)
            .set_column_dictionary_enabled(column(self.time.0), false)
            .set_column_dictionary_enabled(column("offset"), false)
            .set_column_dictionary_enabled(column("bytes"), false)
            .set_column_encoding(column(self.time.0), Encoding::DELTA_BINARY_PACKED)
            .set_column_encoding(column("offset"), Encoding::BYTE_STREAM_SPLIT)
            .set_column_encoding(column("bytes"), Encoding::BYTE_STREAM_SPLIT)
            .set_key_value_metadata(volume.map(|volume| vec![volume]))
            .build();
        SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties))
    }

    fn group<W: Write + Send>(
        &self,
        requests: &[Request],
        volumes: &[String],
        writer: &mut SerializedFileWriter<W>,
    ) -> Result<(), ParquetError> {
        let mut group = writer.next_row_group()?;
        let unit_ns = self.time.1;
        numbers(&mut group, requests, |request| request.arrival_ns / unit_ns)?;
        numbers(&mut group, requests, |request| request.offset)?;
        numbers(&mut group, requests, |request| request.bytes)?;
        let operations = ["read", "write", "trim", "flush"].map(ByteArray::from);
        texts(&mut group, requests, |request| {
            operations[match request.operation {
                Operation::Read => 0,
                Operation::Write => 1,
                Operation::Trim => 2,
                Operation::Flush => 3,
            }]
            .clone()
        })?;
        if self.has_volume {
            let names: Vec<ByteArray> = volumes.iter().map(|name| ByteArray::from(name.as_str())).collect();
            texts(&mut group, requests, |request| {
                let own = || ByteArray::from(format!("volume {}", request.volume).into_bytes());
                names.get(request.volume as usize).cloned().unwrap_or_else(own)
            })?;
        }
        group.close().map(|_| ())
    }
}

fn numbers<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    requests: &[Request],
    value: impl Fn(&Request) -> u64,
) -> Result<(), ParquetError> {
    let values: Vec<i64> = requests.iter().map(|request| value(request).cast_signed()).collect();
    let mut column = group.next_column()?.expect("the schema has a column for each call");
    column.typed::<Int64Type>().write_batch(&values, None, None)?;
    column.close()
}

fn texts<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    requests: &[Request],
    value: impl Fn(&Request) -> ByteArray,
) -> Result<(), ParquetError> {
    let values: Vec<ByteArray> = requests.iter().map(value).collect();
    let mut column = group.next_column()?.expect("the schema has a column for each call");
    column.typed::<ByteArrayType>().write_batch(&values, None, None)?;
    column.close()
}

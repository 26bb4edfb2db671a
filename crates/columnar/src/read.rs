//! Reads a table as a source of requests.
//!
//! Columns are decoded a few thousand rows at a time into vectors that are kept, so that a trace of any length is
//! streamed, and rows are put together from them. What a row must be is what every trace format asks of a record.

use std::cell::Cell;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;
use parquet::basic::{ConvertedType, LogicalType, TimeUnit, Type as Physical};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_typed_column_reader};
use parquet::data_type::{DataType, DoubleType, FloatType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::schema::types::ColumnDescriptor;
use sha2::{Digest, Sha256};
use sim::workload::format::{Clock, OnError, sound};
use sim::workload::{Intake, Operation, Request, Source, WorkloadError};

use crate::limits::{BARREN_ROWS_MAX, Beyond, Stored};
use crate::words::{Texts, Words};
use crate::{NAME, TIMES, VOLUME_KEY};

/// Rows decoded at once.
const CHUNK_ROWS: usize = 8192;

/// Stands for a null among numbers; no column has a use for it, for addresses and sizes end at 2^63.
const NULL: i64 = i64::MIN;

/// Columns of a table that is no trace that are named.
const NAMED: usize = 8;

/// The most volumes believed: more are names read from a column of something else.
const VOLUMES_MAX: usize = 1 << 20;

/// What addresses and sizes have to be.
const WHOLE: &str = "whole numbers";

/// What is said of a file that contradicts itself.
const AGAIN: &str = "copy or download the file again";

thread_local! {
    static DECODING: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is inside the Parquet decoder, whose panics become errors: whoever prints panics can keep quiet.
pub fn is_decoding() -> bool {
    DECODING.get()
}

/// Runs the decoder, which panics at some files that contradict themselves. Afterwards what it worked on is not used.
fn guarded<T>(work: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, ParquetError> {
    DECODING.set(true);
    let outcome = catch_unwind(AssertUnwindSafe(work));
    DECODING.set(false);
    outcome.unwrap_or_else(|_| Err(ParquetError::General("it contradicts itself".to_owned())))
}

/// Whether a file that begins so is Parquet.
pub fn is_table(start: &[u8]) -> bool {
    start.starts_with(b"PAR1")
}

/// A table being read.
///
/// Its arrivals are what a [`Clock`] makes of its times.
pub struct Table {
    name: String,
    stored: Stored,
    hash: Box<dyn FnMut() -> io::Result<String> + Send>,
    layout: Layout,
    on_error: OnError,
    /// Requests that may still be yielded.
    left: u64,
    /// The next group of rows.
    group: usize,
    columns: Option<Columns>,
    values: Values,
    /// Rows decoded so far.
    row: u64,
    /// Rows since the last that was a request.
    barren: u64,
    /// Requests found, yielded or not.
    found: u64,
    /// The first row's time; the clock's times count from 2^63 ns before it.
    first: Option<i64>,
    clock: Clock<Request>,
    /// A request that the batch had no room for.
    ready: Option<Request>,
    volumes: Volumes,
    finished: bool,
    failure: Option<WorkloadError>,
    intake: Intake,
}

impl Table {
    /// A table in a file. `name` stands for it in errors; of the rows at most `limit` become requests.
    ///
    /// # Errors
    /// A damaged file, or one without the columns that a trace has.
    pub fn of_file(name: &str, file: File, on_error: OnError, limit: Option<u64>) -> Result<Self, WorkloadError> {
        let damaged = |cause: &dyn std::fmt::Display| fault(name, format!("cannot be read: {cause}"), AGAIN);
        let mut again = file.try_clone().map_err(|cause| damaged(&cause))?;
        let stored = guarded(|| Stored::of(file)).map_err(|cause| damaged(&cause))?;
        let hash = move || {
            again.seek(SeekFrom::Start(0))?;
            let (mut hash, mut buffer) = (Sha256::new(), vec![0; 256 << 10]);
            loop {
                match again.read(&mut buffer)? {
                    0 => return Ok(hexadecimal(&hash.finalize())),
                    count => hash.update(&buffer[..count]),
                }
            }
        };
        Self::new(name, stored, Box::new(hash), on_error, limit)
    }

    /// A table in memory.
    ///
    /// # Errors
    /// As [`Table::of_file`].
    pub fn of_bytes(
        name: &str,
        bytes: impl Into<Bytes>,
        on_error: OnError,
        limit: Option<u64>,
    ) -> Result<Self, WorkloadError> {
        let bytes = bytes.into();
        let stored = guarded(|| Stored::of(bytes.clone()))
            .map_err(|cause| fault(name, format!("cannot be read: {cause}"), AGAIN))?;
        let hash = move || Ok(hexadecimal(&Sha256::digest(&bytes)));
        Self::new(name, stored, Box::new(hash), on_error, limit)
    }

    fn new(
        name: &str,
        stored: Stored,
        hash: Box<dyn FnMut() -> io::Result<String> + Send>,
        on_error: OnError,
        limit: Option<u64>,
    ) -> Result<Self, WorkloadError> {
        let metadata = stored.metadata.file_metadata();
        let columns = metadata.schema_descr().columns().iter().map(|column| column.as_ref());
        let layout = Layout::of(&columns.collect::<Vec<_>>()).map_err(|(what, fix)| fault(name, what, &fix))?;
        let mut volumes = Volumes::default();
        if layout.volume.is_none() {
            let known = metadata.key_value_metadata().into_iter().flatten();
            let named = known.filter(|pair| pair.key == VOLUME_KEY).find_map(|pair| pair.value.clone());
            volumes.names.push(named.unwrap_or_else(|| "volume 0".to_owned()));
        }
        Ok(Self {
            name: name.to_owned(),
            stored,
            hash,
            layout,
            on_error,
            left: limit.unwrap_or(u64::MAX),
            group: 0,
            columns: None,
            values: Values::default(),
            row: 0,
            barren: 0,
            found: 0,
            first: None,
            clock: Clock::default(),
            ready: None,
            volumes,
            finished: false,
            failure: None,
            intake: Intake::default(),
        })
    }

    /// One line for people: what is read, in which units.
    pub fn announcement(&self) -> String {
        let rows = self.stored.metadata.file_metadata().num_rows();
        let times = match &self.layout.time {
            Some((Column { name, meaning: Meaning::Moment { unit_ns }, .. }, _)) => {
                let unit = match unit_ns {
                    1 => "ns",
                    1_000 => "us",
                    _ => "ms",
                };
                format!("times in column {name} (in {unit}, as its type says)")
            }
            Some((time, _)) => format!("times in column {}", time.name),
            None => "untimed".to_owned(),
        };
        format!("{NAME}: a table of {rows} rows, {times}, offsets and sizes in bytes")
    }

    /// Decodes the next rows, at most `most`; 0 at the end.
    fn decode(&mut self, most: usize) -> Result<usize, ParquetError> {
        let columns = loop {
            match &mut self.columns {
                Some(columns) if columns.rows_left > 0 => break columns,
                _ if self.group == self.stored.metadata.num_row_groups() => return Ok(0),
                _ => {
                    self.columns = Some(Columns::of(&self.stored, self.group, &self.layout)?);
                    self.group += 1;
                }
            }
        };
        let rows = most.min(CHUNK_ROWS).min(columns.rows_left);
        let values = &mut self.values;
        if let Some(time) = &mut columns.time {
            time.read(rows, &mut values.times, &mut values.levels)?;
        }
        columns.offset.read(rows, &mut values.offsets, &mut values.levels)?;
        columns.bytes.read(rows, &mut values.bytes, &mut values.levels)?;
        columns.op.read(rows, &mut values.ops, &mut values.levels)?;
        match &mut columns.volume {
            None => {}
            Some(Names::Text(column)) => column.read(rows, &mut values.volume_names, &mut values.levels)?,
            Some(Names::Number(column)) => column.read(rows, &mut values.volume_numbers, &mut values.levels)?,
        }
        columns.rows_left -= rows;
        Ok(rows)
    }

    /// The request in a row of what was decoded last, with its time for the clock; why there is none.
    #[inline]
    fn request(&mut self, row: usize) -> Result<(u64, Request), String> {
        let values = &self.values;
        let operation = operation(values.ops.text(row))?;
        let (offset, bytes) = match operation {
            Operation::Flush => (0, 0),
            _ => {
                let (offset, bytes) = (values.offsets[row], values.bytes[row]);
                let (Ok(offset), Ok(bytes)) = (u64::try_from(offset), u64::try_from(bytes)) else {
                    return Err(
                        negative("offset", offset).unwrap_or_else(|| negative("size", bytes).unwrap_or_default())
                    );
                };
                sound(operation, offset, bytes)?;
                (offset, bytes)
            }
        };
        let volume = match &self.layout.volume {
            None => 0,
            Some((_, true)) => self.volumes.text(values.volume_names.text(row))?,
            Some((_, false)) => self.volumes.number(values.volume_numbers[row])?,
        };
        let time_ns = match &self.layout.time {
            None => 0,
            Some((_, unit_ns)) => self.time_ns(self.values.times[row], *unit_ns)?,
        };
        Ok((time_ns, Request { arrival_ns: 0, offset, bytes, volume, operation }))
    }

    /// A time of the file as one for the clock.
    #[inline]
    fn time_ns(&mut self, time: i64, unit_ns: u64) -> Result<u64, String> {
        if time == NULL {
            return Err("the time is missing".to_owned());
        }
        let first = *self.first.get_or_insert(time);
        let ns = (i128::from(time) - i128::from(first)) * i128::from(unit_ns) + (1 << 63);
        u64::try_from(ns).map_err(|_| "the time overflows 64 bits of nanoseconds".to_owned())
    }

    fn fail(&self, line: u64, what: String, fix: &str) -> WorkloadError {
        WorkloadError { origin: self.name.clone(), line, what, fix: fix.to_owned() }
    }

    #[cold]
    fn undecoded(&self, cause: &ParquetError) -> WorkloadError {
        if let ParquetError::External(beyond) = cause
            && beyond.is::<Beyond>()
        {
            return self.fail(self.row + 1, beyond.to_string(), "write it again with smaller pages");
        }
        let cause = cause.to_string();
        // So says the library of a compression that it was compiled without.
        match cause.split_once("Disabled feature at compile time: ") {
            Some((_, compression)) => {
                let what = format!("the table is compressed in a way that is not read here ({compression})");
                self.fail(0, what, "write it again with zstd or snappy")
            }
            None => self.fail(self.row + 1, format!("the file is damaged: {cause}"), AGAIN),
        }
    }

    #[cold]
    fn malformed(&mut self, row: u64, why: String) -> Result<(), WorkloadError> {
        if self.on_error == OnError::Stop {
            let fix = "mend the row, or skip such rows with --on-error skip";
            return Err(self.fail(row, format!("no valid row of a trace: {why}"), fix));
        }
        self.barren += 1;
        if self.barren > BARREN_ROWS_MAX {
            let what = format!("more than {BARREN_ROWS_MAX} rows in a row hold no request; the last: {why}");
            return Err(self.fail(row, what, "check its columns"));
        }
        self.intake.skipped += 1;
        self.intake.first_skipped.get_or_insert((row, why));
        Ok(())
    }

    fn read(&mut self, batch: &mut Vec<Request>, target: usize) -> Result<(), WorkloadError> {
        while batch.len() < target && !self.finished {
            let decoded = guarded(|| self.decode(target - batch.len()));
            let rows = decoded.map_err(|cause| self.undecoded(&cause))?;
            if rows == 0 {
                return self.finish(batch);
            }
            batch.reserve(rows);
            for row in 0..rows {
                match self.request(row) {
                    Ok((time_ns, request)) => {
                        self.found += 1;
                        self.barren = 0;
                        self.deliver(time_ns, request, batch, target);
                    }
                    Err(why) => self.malformed(self.row + row as u64 + 1, why)?,
                }
            }
            self.row += rows as u64;
        }
        Ok(())
    }

    /// Of the rows that were asked for and one that was held before them, one may be too many.
    #[inline]
    fn deliver(&mut self, time_ns: u64, request: Request, batch: &mut Vec<Request>, target: usize) {
        if batch.len() < target
            && let Some(arrival_ns) = self.clock.follows(time_ns)
        {
            batch.push(Request { arrival_ns, ..request });
            return;
        }
        for (arrival_ns, request) in self.clock.tick(time_ns, request, &mut self.intake).into_iter().flatten() {
            let request = Request { arrival_ns, ..request };
            match batch.len() < target {
                true => batch.push(request),
                false => self.ready = Some(request),
            }
        }
    }

    fn finish(&mut self, batch: &mut Vec<Request>) -> Result<(), WorkloadError> {
        if let Some((arrival_ns, request)) = self.clock.end(&mut self.intake) {
            batch.push(Request { arrival_ns, ..request });
        }
        if self.found == 0 {
            return Err(match &self.intake.first_skipped {
                Some((row, why)) => {
                    self.fail(0, format!("all rows are malformed; row {row}: {why}"), "check its columns")
                }
                None => self.fail(0, "the table has no rows".to_owned(), "check how it was made"),
            });
        }
        let hash = (self.hash)().map_err(|cause| self.fail(0, format!("cannot be read: {cause}"), ""))?;
        self.intake.sha256 = Some(hash);
        self.finished = true;
        Ok(())
    }
}

impl Source for Table {
    fn fill(&mut self, batch: &mut Vec<Request>, limit: usize) -> Result<(), WorkloadError> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let before = batch.len();
        let limit = limit.min(usize::try_from(self.left).unwrap_or(usize::MAX));
        if limit > 0 {
            batch.extend(self.ready.take());
        }
        let result = self.read(batch, before.saturating_add(limit));
        let yielded = (batch.len() - before) as u64;
        self.left -= yielded;
        self.intake.requests += yielded;
        let named = self.intake.volumes.len();
        self.intake.volumes.extend_from_slice(&self.volumes.names[named..]);
        self.failure = result.clone().err();
        result
    }

    fn intake(&self) -> &Intake {
        &self.intake
    }

    fn timed(&self) -> bool {
        self.layout.time.is_some()
    }
}

fn fault(name: &str, what: String, fix: &str) -> WorkloadError {
    WorkloadError { origin: name.to_owned(), line: 0, what, fix: fix.to_owned() }
}

fn hexadecimal(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// What is wrong with a number below 0, if it is one.
#[cold]
fn negative(name: &str, value: i64) -> Option<String> {
    match value {
        NULL => Some(format!("the {name} is missing")),
        _ if value < 0 => Some(format!("the {name} is {value}, not a whole number from 0 to 2^63")),
        _ => None,
    }
}

/// The operation of this name.
#[inline]
fn operation(name: &[u8]) -> Result<Operation, String> {
    match name {
        b"read" => Ok(Operation::Read),
        b"write" => Ok(Operation::Write),
        b"trim" => Ok(Operation::Trim),
        b"flush" => Ok(Operation::Flush),
        _ => spelt_otherwise(name),
    }
}

#[cold]
fn spelt_otherwise(name: &[u8]) -> Result<Operation, String> {
    match name.to_ascii_lowercase().as_slice() {
        b"r" | b"read" => Ok(Operation::Read),
        b"w" | b"write" => Ok(Operation::Write),
        b"t" | b"trim" | b"d" | b"discard" => Ok(Operation::Trim),
        b"f" | b"flush" => Ok(Operation::Flush),
        b"" => Err("the op is missing".to_owned()),
        _ => {
            let shown = String::from_utf8_lossy(&name[..name.len().min(40)]);
            Err(format!("the op is {shown:?}, not read, write, trim or flush"))
        }
    }
}

/// Numbers for volumes, in order of first appearance.
#[derive(Default)]
struct Volumes {
    names: Vec<String>,
    by_text: HashMap<Box<[u8]>, u32>,
    by_number: HashMap<i64, u32>,
    last_text: Option<(Box<[u8]>, u32)>,
}

impl Volumes {
    #[inline]
    fn text(&mut self, key: &[u8]) -> Result<u32, String> {
        match &self.last_text {
            Some((last, number)) if **last == *key => Ok(*number),
            _ => {
                let number = match self.by_text.get(key) {
                    Some(&number) => number,
                    None if key.is_empty() => return Err("the volume is missing".to_owned()),
                    None => {
                        let number = self.push(String::from_utf8_lossy(key).into_owned())?;
                        self.by_text.insert(key.into(), number);
                        number
                    }
                };
                self.last_text = Some((key.into(), number));
                Ok(number)
            }
        }
    }

    #[inline]
    fn number(&mut self, key: i64) -> Result<u32, String> {
        if let Some(&number) = self.by_number.get(&key) {
            return Ok(number);
        }
        if key == NULL {
            return Err("the volume is missing".to_owned());
        }
        let number = self.push(format!("volume {key}"))?;
        self.by_number.insert(key, number);
        Ok(number)
    }

    fn push(&mut self, name: String) -> Result<u32, String> {
        if self.names.len() == VOLUMES_MAX {
            return Err("more than 1,048,576 different volumes".to_owned());
        }
        self.names.push(name);
        Ok(self.names.len() as u32 - 1)
    }
}

/// One column, found and of a type that can be read.
#[derive(Clone)]
pub(crate) struct Column {
    name: String,
    pub(crate) index: usize,
    /// Level of definition of a value that is not null; 0 if none can be.
    pub(crate) level: i16,
    physical: Physical,
    meaning: Meaning,
}

/// What the numbers of a column stand for.
#[derive(Clone)]
enum Meaning {
    Number {
        unsigned: bool,
    },
    /// A time of the day or a moment, in units of so many nanoseconds.
    Moment {
        unit_ns: u64,
    },
    /// Something else, of this name.
    Other(String),
}

impl Meaning {
    fn of(column: &ColumnDescriptor) -> Self {
        use ConvertedType as Old;
        let other = |text: String| Self::Other(text.split('(').next().unwrap_or_default().to_uppercase());
        match (column.logical_type_ref(), column.converted_type()) {
            (Some(LogicalType::Integer(kind)), _) => Self::Number { unsigned: !kind.is_signed },
            (Some(LogicalType::Timestamp(kind) | LogicalType::Time(kind)), _) => Self::Moment {
                unit_ns: match kind.unit {
                    TimeUnit::MILLIS => 1_000_000,
                    TimeUnit::MICROS => 1_000,
                    TimeUnit::NANOS => 1,
                },
            },
            (Some(kind), _) => other(format!("{kind:?}")),
            // Files older than logical types have these alone.
            (None, Old::NONE | Old::INT_8 | Old::INT_16 | Old::INT_32 | Old::INT_64) => {
                Self::Number { unsigned: false }
            }
            (None, Old::UINT_8 | Old::UINT_16 | Old::UINT_32 | Old::UINT_64) => Self::Number { unsigned: true },
            (None, Old::TIME_MILLIS | Old::TIMESTAMP_MILLIS) => Self::Moment { unit_ns: 1_000_000 },
            (None, Old::TIME_MICROS | Old::TIMESTAMP_MICROS) => Self::Moment { unit_ns: 1_000 },
            (None, kind) => other(format!("{kind:?}")),
        }
    }
}

/// Which columns hold what.
struct Layout {
    /// With the unit of time in nanoseconds.
    time: Option<(Column, u64)>,
    offset: Column,
    bytes: Column,
    op: Column,
    /// With whether it is of text.
    volume: Option<(Column, bool)>,
}

impl Layout {
    /// Finds the columns; what is wrong and how to mend it if they are not there.
    fn of(descriptors: &[&ColumnDescriptor]) -> Result<Self, (String, String)> {
        let found = |name: &str| {
            let at = |column: &&ColumnDescriptor| column.path().parts().len() == 1 && column.name() == name;
            let index = descriptors.iter().position(at)?;
            let column = descriptors[index];
            Some(Column {
                name: name.to_owned(),
                index,
                level: column.max_def_level(),
                physical: column.physical_type(),
                meaning: Meaning::of(column),
            })
        };
        let columns = "a trace has the columns offset, bytes and op, and if it has times time_us or another unit";
        let needed = |name: &str| {
            found(name).ok_or_else(|| {
                let mut names: Vec<_> = descriptors.iter().map(|column| column.path().string()).collect();
                let more = names.len().saturating_sub(NAMED);
                names.truncate(NAMED);
                let more = if more == 0 { String::new() } else { format!(" and {more} more") };
                (format!("there is no column {name}; there are {}{more}", names.join(", ")), columns.to_owned())
            })
        };
        let typed = |column: Column, types: &[Physical], wanted: &str| match types.contains(&column.physical) {
            true => Ok(column),
            false => {
                let Column { name, physical, .. } = column;
                Err((format!("the column {name} is of type {physical}, not {wanted}"), format!("cast it to {wanted}")))
            }
        };
        // Whole numbers may stand for a DECIMAL, which is off by a power of ten, or for something else.
        let meant = |column: Column, wanted: &str| match &column.meaning {
            Meaning::Other(kind) => {
                let what = format!("the column {} holds values of type {kind}, not {wanted}", column.name);
                Err((what, format!("cast it to {wanted}")))
            }
            _ => Ok(column),
        };
        let whole = |column| meant(typed(column, &[Physical::INT32, Physical::INT64], WHOLE)?, WHOLE);
        let plain = |column| match whole(column)? {
            Column { meaning: Meaning::Moment { .. }, name, .. } => {
                Err((format!("the column {name} holds times, not {WHOLE}"), format!("cast it to {WHOLE}")))
            }
            column => Ok(column),
        };
        let number = |column| {
            let types = [Physical::INT32, Physical::INT64, Physical::FLOAT, Physical::DOUBLE];
            let wanted = "whole numbers or doubles";
            meant(typed(column, &types, wanted)?, wanted)
        };
        let mut times = TIMES.into_iter().filter_map(|(name, unit_ns)| Some((found(name)?, unit_ns)));
        let time = match (times.next(), times.next()) {
            (Some((one, _)), Some((other, _))) => {
                let what = format!("there are two times, {} and {}", one.name, other.name);
                return Err((what, "leave one of the columns out".to_owned()));
            }
            (Some((column, 1_000_000_000)), None) => Some((number(column)?, 1_000_000_000)),
            (Some((column, unit_ns)), None) => Some((whole(column)?, unit_ns)),
            (None, _) => None,
        };
        // The type's own unit is surer than the name's.
        let time = time.map(|(column, unit_ns)| match column.meaning {
            Meaning::Moment { unit_ns } => (column, unit_ns),
            _ => (column, unit_ns),
        });
        // Fractions of a second become whole nanoseconds as they are read.
        let fraction = |time: &(Column, u64)| matches!(time.0.physical, Physical::FLOAT | Physical::DOUBLE);
        let time = time.map(|time| if fraction(&time) { (time.0, 1) } else { time });
        let volume = match found("volume") {
            Some(column) if column.physical == Physical::BYTE_ARRAY => Some((column, true)),
            Some(column) => {
                let column = typed(column, &[Physical::INT32, Physical::INT64], "text or whole numbers")?;
                Some((plain(column)?, false))
            }
            None => None,
        };
        Ok(Self {
            time,
            offset: plain(needed("offset")?)?,
            bytes: plain(needed("bytes")?)?,
            op: typed(needed("op")?, &[Physical::BYTE_ARRAY], "text")?,
            volume,
        })
    }
}

/// The columns of one group of rows, being read.
struct Columns {
    rows_left: usize,
    time: Option<Numbers>,
    offset: Numbers,
    bytes: Numbers,
    op: Texts,
    volume: Option<Names>,
}

impl Columns {
    fn of(stored: &Stored, group: usize, layout: &Layout) -> Result<Self, ParquetError> {
        let rows_left = stored.rows(group)?;
        let number = |column: &Column| Ok::<_, ParquetError>(Numbers::of(stored.column(group, column.index)?, column));
        let text = |column: &Column| Texts::of(stored, group, column);
        Ok(Self {
            rows_left,
            time: layout.time.as_ref().map(|(column, _)| number(column)).transpose()?,
            offset: number(&layout.offset)?,
            bytes: number(&layout.bytes)?,
            op: text(&layout.op)?,
            volume: match &layout.volume {
                None => None,
                Some((column, true)) => Some(Names::Text(text(column)?)),
                Some((column, false)) => Some(Names::Number(Box::new(number(column)?))),
            },
        })
    }
}

/// The values that were decoded last, column by column, and room for levels of definition.
#[derive(Default)]
struct Values {
    times: Vec<i64>,
    offsets: Vec<i64>,
    bytes: Vec<i64>,
    ops: Words,
    volume_names: Words,
    volume_numbers: Vec<i64>,
    levels: Vec<i16>,
}

/// A column of volumes.
enum Names {
    Text(Texts),
    Number(Box<Numbers>),
}

/// A column of numbers.
enum Numbers {
    Narrow { reader: ColumnReaderImpl<Int32Type>, level: i16, unsigned: bool, raw: Vec<i32> },
    Wide { reader: ColumnReaderImpl<Int64Type>, level: i16 },
    Single { reader: ColumnReaderImpl<FloatType>, level: i16, raw: Vec<f32> },
    Double { reader: ColumnReaderImpl<DoubleType>, level: i16, raw: Vec<f64> },
}

impl Numbers {
    /// # Panics
    /// If the column is not of numbers, which [`Layout::of`] has looked at.
    fn of(reader: ColumnReader, column: &Column) -> Self {
        let level = column.level;
        let unsigned = matches!(column.meaning, Meaning::Number { unsigned: true });
        match column.physical {
            Physical::INT32 => {
                Self::Narrow { reader: get_typed_column_reader(reader), level, unsigned, raw: Vec::new() }
            }
            Physical::FLOAT => Self::Single { reader: get_typed_column_reader(reader), level, raw: Vec::new() },
            Physical::DOUBLE => Self::Double { reader: get_typed_column_reader(reader), level, raw: Vec::new() },
            _ => Self::Wide { reader: get_typed_column_reader(reader), level },
        }
    }

    /// Replaces `values` by the next `rows`, nulls by [`NULL`], seconds in fractions by nanoseconds.
    fn read(&mut self, rows: usize, values: &mut Vec<i64>, levels: &mut Vec<i16>) -> Result<(), ParquetError> {
        match self {
            Self::Wide { reader, level } => read(reader, *level, rows, NULL, values, levels),
            Self::Narrow { reader, level, unsigned, raw } => {
                // A null must stay apart from all numbers, so it is put in where they are wide.
                let bare = read_bare(reader, *level, rows, raw, levels)?;
                values.clear();
                values.extend(raw.iter().map(|&value| match unsigned {
                    true => i64::from(value.cast_unsigned()),
                    false => i64::from(value),
                }));
                spread(values, levels, *level, rows, bare, NULL);
                Ok(())
            }
            Self::Single { reader, level, raw } => {
                read(reader, *level, rows, f32::NAN, raw, levels)?;
                values.clear();
                values.extend(raw.iter().map(|&value| whole_ns(value.into())));
                Ok(())
            }
            Self::Double { reader, level, raw } => {
                read(reader, *level, rows, f64::NAN, raw, levels)?;
                values.clear();
                values.extend(raw.iter().map(|&value| whole_ns(value)));
                Ok(())
            }
        }
    }
}

/// Seconds as nanoseconds; [`NULL`] if they are none or too many.
fn whole_ns(seconds: f64) -> i64 {
    let ns = (seconds * 1e9).round();
    if ns.abs() < 9e18 { ns as i64 } else { NULL }
}

/// Replaces `values` by the next `rows`, nulls by `null`.
pub(crate) fn read<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    level: i16,
    rows: usize,
    null: T::T,
    values: &mut Vec<T::T>,
    levels: &mut Vec<i16>,
) -> Result<(), ParquetError> {
    let bare = read_bare(reader, level, rows, values, levels)?;
    spread(values, levels, level, rows, bare, null);
    Ok(())
}

/// Replaces `values` by those of the next `rows` that are not null; says how many these are.
fn read_bare<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    level: i16,
    rows: usize,
    values: &mut Vec<T::T>,
    levels: &mut Vec<i16>,
) -> Result<usize, ParquetError> {
    values.clear();
    levels.clear();
    let (read, bare, _) = reader.read_records(rows, (level > 0).then_some(levels), None, values)?;
    if read != rows {
        return Err(ParquetError::General("a column has fewer values than its group has rows".to_owned()));
    }
    Ok(bare)
}

/// Makes room among `bare` values for the nulls of `rows`.
fn spread<V: Clone>(values: &mut Vec<V>, levels: &[i16], level: i16, rows: usize, bare: usize, null: V) {
    if bare == rows {
        return;
    }
    let mut given = std::mem::take(values).into_iter();
    values.extend(levels.iter().map(|&found| match found == level {
        true => given.next().unwrap_or_else(|| null.clone()),
        false => null.clone(),
    }));
}

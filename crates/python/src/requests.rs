//! Requests in memory: columns that are copied once from numpy or Arrow, checked, and from then on shared.

use crate::errors;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef, DictionaryArray, RecordBatch, StringArray, UInt8Array, UInt32Array, UInt64Array};
use arrow_schema::{DataType, Field, Schema};
use cli::experiment_file;
use cli::session::{self, Given, Session};
use numpy::{PyReadonlyArray1, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3_arrow::PyTable;
use pyo3_arrow::input::AnyRecordBatch;
use sim::workload::profile::Profile;
use sim::workload::{Intake, Operation, Request, Source, WorkloadError};
use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// What is asked, by number; the names of `Operation`.
const OPERATIONS: [(&str, Operation); 4] =
    [("read", Operation::Read), ("write", Operation::Write), ("trim", Operation::Trim), ("flush", Operation::Flush)];

/// The columns; all have one length.
struct Columns {
    /// Nanoseconds since the first request.
    time_ns: Vec<u64>,
    offset: Vec<u64>,
    bytes: Vec<u64>,
    op: Vec<u8>,
    /// Empty if there is one volume.
    volume: Vec<u32>,
    timed: bool,
    intake: Intake,
}

/// Requests in memory.
#[pyclass(frozen, module = "ftlab._native")]
pub(crate) struct Requests(Arc<Columns>);

impl Requests {
    /// As a session takes them.
    pub(crate) fn given(&self) -> Given {
        Given(Arc::new(Shared(Arc::clone(&self.0))))
    }
}

struct Shared(Arc<Columns>);

impl session::Requests for Shared {
    fn source(&self) -> Box<dyn Source> {
        Box::new(Reader { columns: Arc::clone(&self.0), at: 0 })
    }
}

struct Reader {
    columns: Arc<Columns>,
    at: usize,
}

impl Source for Reader {
    fn fill(&mut self, batch: &mut Vec<Request>, limit: usize) -> Result<(), WorkloadError> {
        let Columns { time_ns, offset, bytes, op, volume, .. } = &*self.columns;
        let end = time_ns.len().min(self.at.saturating_add(limit));
        batch.extend((self.at..end).map(|index| Request {
            arrival_ns: time_ns[index],
            offset: offset[index],
            bytes: bytes[index],
            volume: volume.get(index).copied().unwrap_or(0),
            operation: OPERATIONS[usize::from(op[index])].1,
        }));
        self.at = end;
        Ok(())
    }

    fn rewind(&mut self) -> bool {
        self.at = 0;
        true
    }

    fn intake(&self) -> &Intake {
        &self.columns.intake
    }

    fn timed(&self) -> bool {
        self.columns.timed
    }
}

#[pymethods]
impl Requests {
    fn __len__(&self) -> usize {
        self.0.time_ns.len()
    }

    /// The columns as an Arrow table.
    fn table(&self, py: Python<'_>) -> PyResult<PyTable> {
        let Columns { time_ns, offset, bytes, op, volume, .. } = &*self.0;
        let number = |column: &[u64]| -> ArrayRef { Arc::new(UInt64Array::from(column.to_vec())) };
        let names = StringArray::from_iter_values(OPERATIONS.map(|(name, _)| name));
        let op = DictionaryArray::try_new(UInt8Array::from(op.clone()), Arc::new(names));
        let op = op.map_err(|error| errors::bug(py, error))?;
        let volumes = if volume.is_empty() { vec![0; time_ns.len()] } else { volume.clone() };
        let columns: [(&str, ArrayRef); 5] = [
            ("time_ns", number(time_ns)),
            ("offset", number(offset)),
            ("bytes", number(bytes)),
            ("op", Arc::new(op)),
            ("volume", Arc::new(UInt32Array::from(volumes))),
        ];
        let field = |(name, column): &(&str, ArrayRef)| Field::new(*name, column.data_type().clone(), false);
        let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
        let arrays = columns.into_iter().map(|(_, column)| column).collect();
        let batch = RecordBatch::try_new(Arc::clone(&schema), arrays).map_err(|error| errors::bug(py, error))?;
        PyTable::try_new(vec![batch], schema)
    }

    /// Names of the volumes, by number; empty if nobody named them.
    fn volumes(&self) -> Vec<String> {
        self.0.intake.volumes.clone()
    }

    /// The workload's profile, as JSON: what `ftlab trace info --json` says of a file.
    fn profile(&self, py: Python<'_>) -> PyResult<String> {
        let columns = Arc::clone(&self.0);
        let profile = py.detach(move || Profile::of(&mut Reader { columns, at: 0 }, 4096));
        let profile = profile.map_err(|error| errors::input(py, error))?;
        serde_json::to_string(&profile).map_err(|error| errors::bug(py, error))
    }
}

/// One column while it is being read: its numbers, and for messages its name and what numbers there may be.
struct Numbers<N> {
    name: &'static str,
    rule: &'static str,
    values: Vec<N>,
}

/// A number that a column may hold, whatever kind of number the column was given as.
trait Number: Copy + Display + TryInto<u64> + TryInto<u32> + TryInto<u8> {}
impl<N: Copy + Display + TryInto<u64> + TryInto<u32> + TryInto<u8>> Number for N {}

/// What a column becomes.
trait Kept: Sized {
    /// The number, if it is one of these.
    fn of(number: impl Number) -> Option<Self>;
}

impl Kept for u64 {
    fn of(number: impl Number) -> Option<u64> {
        number.try_into().ok()
    }
}

impl Kept for u32 {
    fn of(number: impl Number) -> Option<u32> {
        number.try_into().ok()
    }
}

impl Kept for u8 {
    fn of(number: impl Number) -> Option<u8> {
        number.try_into().ok()
    }
}

impl<N: Kept> Numbers<N> {
    fn new(name: &'static str, rule: &'static str) -> Self {
        Numbers { name, rule, values: Vec::new() }
    }

    /// Adds numbers, each of which must be one that the column may hold.
    fn extend<T: Number>(&mut self, py: Python<'_>, values: impl Iterator<Item = T>) -> PyResult<()> {
        for value in values {
            let Some(number) = N::of(value) else {
                let what = format!("{}[{}] is {value}: {}", self.name, self.values.len(), self.rule);
                return Err(errors::input(py, what));
            };
            self.values.push(number);
        }
        Ok(())
    }

    fn add_array(&mut self, py: Python<'_>, column: &Bound<'_, PyAny>) -> PyResult<()> {
        let array = column.cast::<PyUntypedArray>()?;
        if array.ndim() != 1 {
            let what = format!("{} has {} dimensions: it must have one", self.name, array.ndim());
            return Err(errors::input(py, what));
        }
        self.values.reserve_exact(array.len());
        macro_rules! of_type {
            ($($number:ty),*) => {
                $(if let Ok(array) = column.extract::<PyReadonlyArray1<'_, $number>>() {
                    return match array.as_slice() {
                        Ok(slice) => self.extend(py, slice.iter().copied()),
                        Err(_) => self.extend(py, array.as_array().iter().copied()),
                    };
                })*
            };
        }
        of_type!(i64, u64, i32, u32, u8, i8, i16, u16);
        let what = format!("{} holds {}: it must hold whole numbers", self.name, array.dtype());
        Err(errors::input(py, what))
    }

    fn add_arrow(&mut self, py: Python<'_>, array: &ArrayRef) -> PyResult<()> {
        if array.null_count() > 0 {
            let first = (0..array.len()).find(|&index| array.is_null(index)).unwrap_or(0) + self.values.len();
            return Err(errors::input(py, format!("{}[{first}] is null", self.name)));
        }
        macro_rules! of_type {
            ($($kind:ty),*) => {
                $(if let Some(array) = array.as_primitive_opt::<$kind>() {
                    return self.extend(py, array.values().iter().copied());
                })*
            };
        }
        of_type!(Int64Type, UInt64Type, Int32Type, UInt32Type, UInt8Type, Int8Type, Int16Type, UInt16Type);
        let what = format!("{} holds {}: it must hold whole numbers", self.name, array.data_type());
        Err(errors::input(py, what))
    }
}

/// Numbers of operations that are given as words.
fn words<'a>(py: Python<'_>, words: impl Iterator<Item = Option<&'a str>>, op: &mut Vec<u8>) -> PyResult<()> {
    for word in words {
        let index = op.len();
        let word = word.ok_or_else(|| errors::input(py, format!("op[{index}] is null")))?;
        let known = OPERATIONS.iter().position(|(name, _)| {
            word.eq_ignore_ascii_case(name) || (word.len() == 1 && word.eq_ignore_ascii_case(&name[..1]))
        });
        let number = known.ok_or_else(|| {
            errors::input(py, format!("op[{index}] is \"{word}\": it must be read, write, trim or flush"))
        })?;
        op.push(number as u8);
    }
    Ok(())
}

/// The columns of requests while they are being read.
struct Reading {
    time_ns: Numbers<u64>,
    offset: Numbers<u64>,
    bytes: Numbers<u64>,
    op: Numbers<u8>,
    volume: Option<Numbers<u32>>,
}

const NAMES: [&str; 4] = ["time_ns", "offset", "bytes", "op"];

const POSITIVE: &str = "it must not be negative";
const CODES: &str = "0 is read, 1 write, 2 trim, 3 flush";
const VOLUMES: &str = "volumes are numbered from 0, below 65536";

impl Reading {
    fn new(has_volumes: bool) -> Reading {
        let [time_ns, offset, bytes] = [NAMES[0], NAMES[1], NAMES[2]].map(|name| Numbers::new(name, POSITIVE));
        let volume = has_volumes.then(|| Numbers::new("volume", VOLUMES));
        Reading { time_ns, offset, bytes, op: Numbers::new(NAMES[3], CODES), volume }
    }

    /// The requests, if these are some.
    fn checked(self, py: Python<'_>, timed: bool) -> PyResult<Requests> {
        let Reading { time_ns, offset, bytes, op, volume } = self;
        let refuse = |what: String| Err(errors::input(py, what));
        let count = offset.values.len();
        let lengths =
            [(time_ns.name, time_ns.values.len()), (bytes.name, bytes.values.len()), (op.name, op.values.len())];
        let of_volume = volume.iter().map(|volume| (volume.name, volume.values.len()));
        for (name, length) in lengths.into_iter().chain(of_volume) {
            if length != count && (timed || name != NAMES[0]) {
                return refuse(format!("{name} has {length} values, offset has {count}: they must be equally many"));
            }
        }
        if count == 0 {
            return refuse("there is no request: the arrays are empty".to_owned());
        }
        let mut time_ns = time_ns.values;
        if !timed {
            time_ns = vec![0; count];
        }
        if let Some(at) = time_ns.windows(2).position(|pair| pair[1] < pair[0]) {
            let (before, after) = (time_ns[at], time_ns[at + 1]);
            return refuse(format!(
                "time_ns[{}] is {after}, earlier than time_ns[{at}], which is {before}: sort the requests by time",
                at + 1
            ));
        }
        let first_ns = time_ns[0];
        time_ns.iter_mut().for_each(|time| *time -= first_ns);
        let (offset, bytes, op) = (offset.values, bytes.values, op.values);
        for (index, ((&offset, &bytes), &op)) in offset.iter().zip(&bytes).zip(&op).enumerate() {
            if usize::from(op) >= OPERATIONS.len() {
                return refuse(format!("op[{index}] is {op}: {CODES}"));
            }
            let is_flush = op == Operation::Flush as u8;
            if bytes == 0 && !is_flush {
                return refuse(format!("bytes[{index}] is 0: only a flush has no bytes"));
            }
            if bytes > 0 && is_flush {
                return refuse(format!("bytes[{index}] is {bytes}: a flush has none"));
            }
            if offset.checked_add(bytes).is_none_or(|end| end > 1 << 63) {
                return refuse(format!("request {index} ends beyond 2^63 bytes"));
            }
        }
        let volume = volume.map(|volume| volume.values).unwrap_or_default();
        if let Some(index) = volume.iter().position(|&number| number >= 1 << 16) {
            return refuse(format!("volume[{index}] is {}: {VOLUMES}", volume[index]));
        }
        let intake = Intake { requests: count as u64, ..Intake::default() };
        Ok(Requests(Arc::new(Columns { time_ns, offset, bytes, op, volume, timed, intake })))
    }
}

/// Requests from numpy arrays of whole numbers; without times they come as fast as they are served.
#[pyfunction]
pub(crate) fn from_arrays(
    py: Python<'_>,
    time_ns: Option<Bound<'_, PyAny>>,
    offset: Bound<'_, PyAny>,
    bytes: Bound<'_, PyAny>,
    op: Bound<'_, PyAny>,
    volume: Option<Bound<'_, PyAny>>,
) -> PyResult<Requests> {
    let mut reading = Reading::new(volume.is_some());
    if let Some(time_ns) = &time_ns {
        reading.time_ns.add_array(py, time_ns)?;
    }
    reading.offset.add_array(py, &offset)?;
    reading.bytes.add_array(py, &bytes)?;
    reading.op.add_array(py, &op)?;
    if let (Some(column), Some(volume)) = (&mut reading.volume, &volume) {
        column.add_array(py, volume)?;
    }
    reading.checked(py, time_ns.is_some())
}

/// Requests from a table that speaks the Arrow stream interface; its columns are those of [`from_arrays`].
#[pyfunction]
pub(crate) fn from_arrow(py: Python<'_>, table: AnyRecordBatch) -> PyResult<Requests> {
    let reader = table.into_reader()?;
    let schema = reader.schema();
    let place = |name: &str| schema.fields().iter().position(|field| field.name() == name);
    let needed = |name: &str| {
        place(name).ok_or_else(|| {
            let known: Vec<_> = schema.fields().iter().map(|field| field.name().as_str()).collect();
            errors::input(py, format!("the table has no column {name}; it has {}", known.join(", ")))
        })
    };
    let (time, volume) = (place(NAMES[0]), place("volume"));
    let (offset, bytes, op) = (needed(NAMES[1])?, needed(NAMES[2])?, needed(NAMES[3])?);
    let mut reading = Reading::new(volume.is_some());
    for batch in reader {
        let batch = batch.map_err(|error| errors::input(py, error))?;
        if let Some(time) = time {
            reading.time_ns.add_arrow(py, batch.column(time))?;
        }
        reading.offset.add_arrow(py, batch.column(offset))?;
        reading.bytes.add_arrow(py, batch.column(bytes))?;
        let words_of = batch.column(op);
        let numbers = &mut reading.op;
        match words_of.data_type() {
            DataType::Utf8 => words(py, words_of.as_string::<i32>().iter(), &mut numbers.values)?,
            DataType::LargeUtf8 => words(py, words_of.as_string::<i64>().iter(), &mut numbers.values)?,
            DataType::Utf8View => words(py, words_of.as_string_view().iter(), &mut numbers.values)?,
            DataType::Dictionary(..) => dictionary(py, words_of, &mut numbers.values)?,
            _ => numbers.add_arrow(py, words_of)?,
        }
        if let (Some(column), Some(place)) = (&mut reading.volume, volume) {
            column.add_arrow(py, batch.column(place))?;
        }
    }
    reading.checked(py, time.is_some())
}

/// Operations that are words in a dictionary, as categories are.
fn dictionary(py: Python<'_>, array: &ArrayRef, op: &mut Vec<u8>) -> PyResult<()> {
    macro_rules! of_key {
        ($($key:ty),*) => {
            $(if let Some(array) = array.as_dictionary_opt::<$key>() {
                macro_rules! of_words {
                    ($strings:expr) => {
                        return words(py, (0..array.len()).map(|index| {
                            array.key(index).map(|key| $strings.value(key))
                        }), op)
                    };
                }
                if let Some(strings) = array.values().as_string_opt::<i32>() {
                    of_words!(strings);
                }
                if let Some(strings) = array.values().as_string_opt::<i64>() {
                    of_words!(strings);
                }
                if let Some(strings) = array.values().as_string_view_opt() {
                    of_words!(strings);
                }
            })*
        };
    }
    of_key!(UInt8Type, Int8Type, UInt16Type, Int16Type, UInt32Type, Int32Type, Int64Type, UInt64Type);
    Err(errors::input(py, format!("op holds {}: it must hold words or whole numbers", array.data_type())))
}

/// Reads a workload as `compare` with these keys does: a trace file, a generator or a twin. Its requests, and what was
/// recognised of a file.
#[pyfunction]
pub(crate) fn read(py: Python<'_>, keys: &str) -> PyResult<(Requests, Option<String>)> {
    let args = experiment_file::parse_keys(keys, Path::new("")).map_err(|error| errors::input(py, error))?;
    let stop = AtomicBool::new(false);
    let (mut source, announcement) =
        cli::commands::experiment::open(&args, &Session::new(&stop)).map_err(|error| errors::input(py, error))?;
    let mut columns = Columns {
        time_ns: Vec::new(),
        offset: Vec::new(),
        bytes: Vec::new(),
        op: Vec::new(),
        volume: Vec::new(),
        timed: source.timed(),
        intake: Intake::default(),
    };
    let limit = args.limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let mut batch = Vec::new();
    loop {
        batch.clear();
        py.check_signals()?;
        let left = (limit - columns.time_ns.len()).min(1 << 16);
        py.detach(|| source.fill(&mut batch, left)).map_err(|error| errors::input(py, error))?;
        if batch.is_empty() {
            break;
        }
        columns.time_ns.extend(batch.iter().map(|request| request.arrival_ns));
        columns.offset.extend(batch.iter().map(|request| request.offset));
        columns.bytes.extend(batch.iter().map(|request| request.bytes));
        columns.op.extend(batch.iter().map(|request| request.operation as u8));
        columns.volume.extend(batch.iter().map(|request| request.volume));
    }
    columns.intake = source.intake().clone();
    columns.timed = source.timed();
    if columns.volume.iter().all(|&volume| volume == 0) {
        columns.volume = Vec::new();
    }
    Ok((Requests(Arc::new(columns)), announcement))
}

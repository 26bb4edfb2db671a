//! Traces as columns: Parquet files with one row for each request.
//!
//! A text trace takes 8 bytes a request after compression, a table of typed columns 4, and pandas, Polars and DuckDB
//! read the table as it lies there. So recordings are shipped in this form, and any Parquet file that has the columns
//! is a trace:
//!
//! | column | type | meaning |
//! |---|---|---|
//! | `time_ns`, `time_us`, `time_ms` or `time_s` | whole number; `time_s` may be a double | arrival; only differences count; may be left out |
//! | `offset` | whole number | first byte, within the volume |
//! | `bytes` | whole number | size |
//! | `op` | text | `read`, `write`, `trim` (or `discard`), `flush`; the first letter is enough |
//! | `volume` | text or whole number | which volume; may be left out |
//!
//! A time of type TIMESTAMP or TIME is in the unit of its type. Other columns are left alone. Of a flush, `offset` and
//! `bytes` may be null.
//!
//! The crate stands apart from `sim` so that whoever uses the simulator alone does not compile a Parquet reader.

mod fields;
mod limits;
mod read;
mod thrift;
mod words;
mod write;

#[cfg(test)]
mod tests;

pub use read::{Table, is_decoding, is_table};
pub use write::write;

/// What the format is called where formats are named.
pub const NAME: &str = "parquet";

/// Columns of times by name, with their unit in nanoseconds.
const TIMES: [(&str, u64); 4] = [("time_ns", 1), ("time_us", 1_000), ("time_ms", 1_000_000), ("time_s", 1_000_000_000)];

/// Key of the file's metadata under which the name of the only volume stands.
const VOLUME_KEY: &str = "ftlab.volume";

//! Parquet: the rows and columns of the CSV, typed, for pandas, Polars, DuckDB and R.
//!
//! Uncompressed and in one row group: a report has as many rows as there were runs.

use super::flat::Flat;
use super::words::plain;
use crate::error::CliError;
use crate::output::AtomicFile;
use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;
use serde_json::Value;
use sim::report::Report;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

/// What all values of a column are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Class {
    Boolean,
    Unsigned,
    Signed,
    Double,
    Text,
}

impl Class {
    fn of<'a>(values: impl Iterator<Item = &'a Value>) -> Class {
        let class = |value: &Value| match value {
            Value::Bool(_) => Class::Boolean,
            Value::Number(number) if number.is_u64() => Class::Unsigned,
            Value::Number(number) if number.is_i64() => Class::Signed,
            Value::Number(_) => Class::Double,
            _ => Class::Text,
        };
        let common = |a: Class, b: Class| match (a, b) {
            _ if a == b => a,
            (Class::Unsigned, Class::Signed) | (Class::Signed, Class::Unsigned) => Class::Signed,
            (Class::Unsigned | Class::Signed, Class::Double) | (Class::Double, Class::Unsigned | Class::Signed) => {
                Class::Double
            }
            _ => Class::Text,
        };
        values.map(class).reduce(common).unwrap_or(Class::Text)
    }

    fn field(self, name: &str) -> Result<Type, ParquetError> {
        let integer = |is_signed| Some(LogicalType::integer(64, is_signed));
        let (physical, logical) = match self {
            Class::Boolean => (Physical::BOOLEAN, None),
            Class::Unsigned => (Physical::INT64, integer(false)),
            Class::Signed => (Physical::INT64, integer(true)),
            Class::Double => (Physical::DOUBLE, None),
            Class::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        };
        Type::primitive_type_builder(name, physical)
            .with_repetition(Repetition::OPTIONAL)
            .with_logical_type(logical)
            .build()
    }
}

/// The report as Parquet.
///
/// # Errors
/// A value that cannot be represented.
pub fn render(report: &Report) -> Result<Vec<u8>, CliError> {
    let flat = Flat::of(report).map_err(CliError::new)?;
    encode(&flat).map_err(|cause| CliError::new(format_args!("cannot make Parquet of the report: {cause}")))
}

/// Writes the report as Parquet.
///
/// # Errors
/// The file cannot be written; nothing of it is left.
pub fn write(report: &Report, path: &Path) -> Result<(), CliError> {
    let bytes = render(report)?;
    let mut file = AtomicFile::create(path)?;
    file.write_all(&bytes).map_err(|cause| file.error(&cause))?;
    file.commit()
}

fn encode(flat: &Flat) -> Result<Vec<u8>, ParquetError> {
    let classes: Vec<Class> =
        flat.columns.iter().map(|column| Class::of(flat.rows.iter().filter_map(|row| row.get(column)))).collect();
    let fields: Vec<Arc<Type>> = flat
        .columns
        .iter()
        .zip(&classes)
        .map(|(name, class)| class.field(name).map(Arc::new))
        .collect::<Result<_, _>>()?;
    let schema = Arc::new(Type::group_type_builder("report").with_fields(fields).build()?);
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(WriterProperties::builder().build()))?;
    if !flat.rows.is_empty() {
        let mut group = writer.next_row_group()?;
        for (column, class) in flat.columns.iter().zip(classes) {
            let values: Vec<Option<&Value>> = flat.rows.iter().map(|row| row.get(column)).collect();
            // The logical type says how the 64 bits of an integer are to be read.
            let bits = |value: &Value| value.as_i64().or_else(|| value.as_u64().map(u64::cast_signed));
            match class {
                Class::Boolean => column_of::<BoolType>(&mut group, &values, Value::as_bool)?,
                Class::Unsigned | Class::Signed => column_of::<Int64Type>(&mut group, &values, bits)?,
                Class::Double => column_of::<DoubleType>(&mut group, &values, Value::as_f64)?,
                Class::Text => column_of::<ByteArrayType>(&mut group, &values, |value| {
                    Some(ByteArray::from(plain(value).into_bytes()))
                })?,
            }
        }
        group.close()?;
    }
    writer.into_inner()
}

fn column_of<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
    values: &[Option<&Value>],
    convert: impl Fn(&Value) -> Option<T::T>,
) -> Result<(), ParquetError> {
    let converted: Vec<Option<T::T>> = values.iter().map(|value| value.and_then(&convert)).collect();
    let levels: Vec<i16> = converted.iter().map(|value| i16::from(value.is_some())).collect();
    let present: Vec<T::T> = converted.into_iter().flatten().collect();
    let Some(mut column) = group.next_column()? else {
        return Err(ParquetError::General("more columns than the schema has".to_owned()));
    };
    column.typed::<T>().write_batch(&present, Some(&levels), None)?;
    column.close()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Directory, report, three};
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;
    use serde_json::json;
    use std::collections::HashMap;

    #[test]
    fn reads_back_with_types_and_nulls() {
        let mut report = three();
        report.seed = u64::MAX;
        let directory = Directory::new();
        let path = directory.join("report.parquet");
        write(&report, &path).unwrap();
        let reader = SerializedFileReader::new(std::fs::File::open(path).unwrap()).unwrap();
        let rows: Vec<HashMap<String, Field>> =
            reader.get_row_iter(None).unwrap().map(|row| row.unwrap().into_columns().into_iter().collect()).collect();
        assert_eq!(rows.len(), 3);
        for (row, result) in rows.iter().zip(&report.results) {
            assert_eq!(row["scheme"], Field::Str(result.scheme.clone()));
            assert_eq!(row["response_us.mean"], Field::Double(result.response_us.as_ref().unwrap().mean));
            assert_eq!(row["flash.erases"], Field::ULong(result.flash.erases));
            assert_eq!(row["seed"], Field::ULong(u64::MAX));
        }
        assert_eq!(rows[0]["cache.hits"], Field::Null);
        assert_eq!(rows[1]["cache.hits"], Field::ULong(report.results[1].cache.as_ref().unwrap().hits));
    }

    #[test]
    fn an_empty_report_is_a_valid_file() {
        let bytes = render(&report(vec![])).unwrap();
        assert_eq!(&bytes[..4], b"PAR1");
        assert_eq!(&bytes[bytes.len() - 4..], b"PAR1");
    }

    #[test]
    fn columns_have_one_type() {
        let class = |values: &[Value]| Class::of(values.iter());
        assert_eq!(class(&[json!(1), json!(2)]), Class::Unsigned);
        assert_eq!(class(&[json!(1), json!(-2)]), Class::Signed);
        assert_eq!(class(&[json!(1), json!(0.5)]), Class::Double);
        assert_eq!(class(&[json!(true), json!(false)]), Class::Boolean);
        assert_eq!(class(&[json!(1), json!("auto")]), Class::Text);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_an_error() {
        let error = write(&three(), Path::new("/dev/full")).unwrap_err();
        assert_eq!(error.to_string(), "cannot write /dev/full: no space left on the device");
    }
}

//! Tables: what the crates below know, and Arrow for whatever the wrappers have in columns.

use crate::errors;
use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray, UInt64Array};
use arrow_schema::{Field, Schema};
use flash::device::PRESETS;
use ftl::papers::introduce;
use pyo3::prelude::*;
use pyo3_arrow::PyTable;
use serde_json::{Value, json};
use sim::workload::generate::{GENERATORS, published};
use std::sync::Arc;

/// A table that speaks the Arrow stream interface. A column is JSON: its name, and its values; null is absent.
#[pyfunction]
pub(crate) fn arrow(py: Python<'_>, columns: &str) -> PyResult<PyTable> {
    let columns: Vec<(String, Vec<Value>)> = serde_json::from_str(columns).map_err(|error| errors::bug(py, error))?;
    let mut fields = Vec::new();
    let mut arrays = Vec::new();
    for (name, values) in &columns {
        let array = array(values);
        fields.push(Field::new(name, array.data_type().clone(), true));
        arrays.push(array);
    }
    let schema = Arc::new(Schema::new(fields));
    let batch = RecordBatch::try_new(Arc::clone(&schema), arrays).map_err(|error| errors::bug(py, error))?;
    PyTable::try_new(vec![batch], schema)
}

/// Values as an array of the type that holds them all; text, if no other does.
fn array(values: &[Value]) -> ArrayRef {
    let all = |is: fn(&Value) -> bool| values.iter().all(|value| value.is_null() || is(value));
    let some = values.iter().any(|value| !value.is_null());
    if some && all(Value::is_boolean) {
        return Arc::new(values.iter().map(Value::as_bool).collect::<BooleanArray>());
    }
    if some && all(Value::is_i64) {
        return Arc::new(values.iter().map(Value::as_i64).collect::<Int64Array>());
    }
    if some && all(Value::is_u64) {
        return Arc::new(values.iter().map(Value::as_u64).collect::<UInt64Array>());
    }
    if some && all(Value::is_number) {
        return Arc::new(values.iter().map(Value::as_f64).collect::<Float64Array>());
    }
    let text = |value: &Value| match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    };
    Arc::new(values.iter().map(text).collect::<StringArray>())
}

/// The schemes, as JSON rows.
#[pyfunction]
pub(crate) fn schemes() -> String {
    let row = |row: &&ftl::Scheme<'_>| {
        let parameters = row.parameters().map(|parameter| {
            json!({
                "parameter": parameter.name, "default": parameter.default.to_string(), "unit": parameter.unit,
                "range": parameter.range.to_string(), "text": parameter.text,
            })
        });
        json!({
            "scheme": row.name, "summary": row.summary, "paper": introduce(row.paper), "has_cache": row.has_cache,
            "parameters": parameters.collect::<Vec<_>>(),
        })
    };
    let rows = ftl::schemes::SCHEMES.iter().filter(|row| row.name != "canary").map(row);
    Value::Array(rows.collect()).to_string()
}

/// The devices, as JSON rows.
#[pyfunction]
pub(crate) fn devices() -> String {
    let rows = PRESETS.iter().map(|row| {
        json!({
            "device": row.name, "summary": row.summary, "cell": row.cell.name(), "page_bytes": row.page.value,
            "read_us": row.read_us.value, "program_us": row.program_us.value, "erase_us": row.erase_us.value,
        })
    });
    Value::Array(rows.collect()).to_string()
}

/// The recordings that are on board, as JSON rows.
#[pyfunction]
pub(crate) fn recordings(py: Python<'_>) -> PyResult<String> {
    py.detach(cli::commands::recordings::listed).map_err(|error| errors::input(py, error))
}

/// The generators and the twins of published traces, as JSON rows.
#[pyfunction]
pub(crate) fn generators() -> String {
    let generators = GENERATORS.iter().map(|row| {
        let parameters = row.all_parameters().iter().map(|parameter| parameter.name).collect::<Vec<_>>();
        json!({ "workload": row.name, "summary": row.summary, "parameters": parameters.join(", ") })
    });
    let twins = published::TWINS.iter().map(
        |row| json!({ "workload": format!("twin:{}", row.name), "summary": row.summary, "parameters": "requests" }),
    );
    Value::Array(generators.chain(twins).collect()).to_string()
}

//! CSV: one row per result, dotted columns, empty where a key does not apply.

use super::flat::Flat;
use super::words::plain;
use crate::error::CliError;
use crate::output::AtomicFile;
use sim::report::Report;
use std::io::Write;
use std::path::Path;

/// The report as CSV.
///
/// # Errors
/// A value that JSON cannot hold.
pub fn render(report: &Report) -> Result<Vec<u8>, CliError> {
    let flat = Flat::of(report).map_err(CliError::new)?;
    let mut writer = csv::Writer::from_writer(Vec::new());
    let mut write = || -> Result<(), csv::Error> {
        writer.write_record(&flat.columns)?;
        for row in &flat.rows {
            writer.write_record(flat.columns.iter().map(|column| row.get(column).map(plain).unwrap_or_default()))?;
        }
        Ok(())
    };
    if !flat.columns.is_empty() {
        write().map_err(CliError::new)?;
    }
    writer.into_inner().map_err(CliError::new)
}

/// Writes the report as CSV.
///
/// # Errors
/// The file cannot be written; nothing of it is left.
pub fn write(report: &Report, path: &Path) -> Result<(), CliError> {
    let mut file = AtomicFile::create(path)?;
    file.write_all(&render(report)?).map_err(|cause| file.error(&cause))?;
    file.commit()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Directory, report, three};

    #[test]
    fn parses_back() {
        let mut report = three();
        report.workload.name = "odd, \"name\"\nof two lines".into();
        let directory = Directory::new();
        let path = directory.join("report.csv");
        write(&report, &path).unwrap();
        let mut reader = csv::Reader::from_path(path).unwrap();
        let header = reader.headers().unwrap().clone();
        let column = |name: &str| header.iter().position(|column| column == name).expect(name);
        let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
        assert_eq!(rows.len(), 3);
        for (row, result) in rows.iter().zip(&report.results) {
            let number = |name: &str| row[column(name)].parse::<f64>().unwrap();
            assert_eq!(&row[column("scheme")], result.scheme);
            assert_eq!(number("response_us.mean"), result.response_us.as_ref().unwrap().mean);
            assert_eq!(number("waf"), result.waf.unwrap());
            assert_eq!(number("by_cause.data_gc.erases") as u64, result.by_cause["data_gc"].erases);
            assert_eq!(row[column("workload.name")], report.workload.name);
        }
        assert_eq!(&rows[0][column("cache.hit_ratio")], "");
        assert_ne!(&rows[1][column("cache.hit_ratio")], "");
    }

    #[test]
    fn an_empty_report_is_an_empty_file() {
        assert!(render(&report(vec![])).unwrap().is_empty());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_an_error() {
        let error = write(&three(), Path::new("/dev/full")).unwrap_err();
        assert_eq!(error.to_string(), "cannot write /dev/full: no space left on the device");
    }
}

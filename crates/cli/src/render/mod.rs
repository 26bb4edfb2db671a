//! The faces of a report: a table on the terminal, JSON, CSV, Parquet and a page to look at.
//!
//! All of them read [`Report`](sim::report::Report) and nothing else, so a report read back from JSON renders as the
//! fresh one did. What more than one face needs lies below them: the words (`words`), the verdict in two sentences
//! (`meaning`), the columns of the first table (`columns`), small tables (`rows`, filled by `ecc`, `flows`, `mount`,
//! `response`, `wear`), text on the terminal (`text`), plots (`svg`), rows for files (`flat`).

mod columns;
pub mod csv;
mod ecc;
pub mod flat;
mod flows;
pub mod html;
pub mod json;
mod meaning;
mod mount;
pub mod parquet;
mod response;
mod rows;
pub(crate) mod svg;
pub mod table;
pub mod text;
mod wear;
mod words;

pub use words::labels;
pub(crate) use words::plain;

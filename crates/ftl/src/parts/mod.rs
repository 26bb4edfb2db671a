//! What schemes share.

pub mod blocks;
pub mod cache;
pub mod census;
pub mod free_list;
pub mod lanes;
pub mod log_units;
pub mod space;
pub mod tombstones;
pub mod translation;
pub mod wear;

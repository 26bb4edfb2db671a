//! What schemes share.

pub mod cache;
pub mod census;
pub mod collector;
pub mod copies;
pub mod ecc;
pub mod holdings;
pub mod lanes;
pub mod log_units;
pub mod map_log;
pub mod pool;
pub mod space;
pub mod spare_map;
pub mod supply;
pub mod tombstones;
pub mod translation;
pub mod wear;

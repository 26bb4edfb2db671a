//! What schemes share.

pub(crate) mod cache;
pub(crate) mod census;
pub(crate) mod collector;
pub(crate) mod copies;
pub(crate) mod ecc;
pub(crate) mod holdings;
pub(crate) mod lanes;
pub(crate) mod log_units;
pub(crate) mod map_log;
pub(crate) mod pool;
pub(crate) mod space;
pub(crate) mod spare_map;
pub(crate) mod supply;
pub(crate) mod tombstones;
pub(crate) mod translation;
pub(crate) mod wear;

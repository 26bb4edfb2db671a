//! Flash translation layers: schemes, their parts and their policies.
//!
//! A scheme is a file in [`schemes`] and a row in its table. It implements [`Ftl`], [`Build`] and [`Inspect`] against
//! any [`flash::Flash`], knows only what it keeps in RAM (reported in bytes by [`Inspect::memory`]) and what it reads
//! from flash, and can be rebuilt from flash alone. `parts/` holds what schemes share, `gc/` the victim policies,
//! `blocks` the state of every block, on which both stand, `ecc_policy/` who says how host pages are protected,
//! `buffer/` the write buffers that can stand in front of any scheme.
#![no_std]

extern crate alloc;

pub mod blocks;
pub mod buffer;
mod codec;
pub mod demand;
mod dependences;
pub mod ecc_policy;
pub mod gc;
pub mod hybrid;
pub mod papers;
pub mod parts;
mod scheme;
pub mod schemes;
mod settings;

pub use codec::{Loader, Saver};
pub use dependences::without_effect;
pub use scheme::{
    Build, BuildError, CacheCounters, ConfigError, Error, Ftl, Inspect, MountReport, Recipe, Scheme, Static,
};
pub use settings::{Dependence, Group, Parameter, Range, Settings, Value};

/// The examples of the README, as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

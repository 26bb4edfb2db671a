//! Flash translation layers: schemes, their parts and their policies.
//!
//! A scheme is a file in [`schemes`] and a row in its table. It implements [`Ftl`], [`Build`] and [`Inspect`] against
//! any [`flash::Flash`], knows only what it keeps in RAM (reported in bytes by [`Inspect::memory`]) and what it reads
//! from flash, and can be rebuilt from flash alone. [`buffer`] has the write buffers that can stand in front of any
//! scheme. Private are the parts that schemes are made of: `parts/` holds what they share, `gc/` the victim policies,
//! `blocks` the state of every block, on which both stand, `ecc_policy/` who says how host pages are protected.
#![no_std]

extern crate alloc;

mod blocks;
pub mod buffer;
mod codec;
mod demand;
mod dependences;
mod ecc_policy;
mod gc;
mod hybrid;
pub mod papers;
mod parts;
mod scheme;
pub mod schemes;
mod settings;

pub use blocks::Blocks;
pub use codec::{Loader, Saver};
pub use dependences::without_effect;
pub use ecc_policy::described as ecc_policies;
pub use gc::{GcPolicy, GcRow, NAMES as GC_NAMES, Options as GcOptions, POLICIES as GC_POLICIES, plug as plug_policy};
pub use scheme::{
    Build, BuildError, Built, CacheCounters, ConfigError, Error, Ftl, Inspect, MountReport, Outcome, Recipe, Scheme,
    Static,
};
pub use settings::{Dependence, Group, Parameter, Range, Settings, Value};

/// Parameters that programs name, to set them or to see how they are set; all others they find in the rows of schemes.
pub mod parameters {
    pub use crate::demand::logged::LU;
    pub use crate::ecc_policy::POLICY as ECC;
    pub use crate::parts::collector::{GC_LOW, SPREAD};
    pub use crate::parts::wear::WEAR_LEVELLING;
}

/// The examples of the README, as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

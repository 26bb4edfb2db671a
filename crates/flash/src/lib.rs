//! NAND flash as a flash translation layer sees it.
//!
//! Everything in ftlab meets at one trait, [`Flash`]: schemes sit above it, media below it. This crate holds the
//! trait with its contract, the addresses and the geometry, the strict in-memory chip [`Nand`], and the decorators
//! that turn a plain medium into one that keeps time ([`Timeline`]), loses power ([`PowerCut`]), with several commands
//! under way ([`InFlight`]), wears out ([`Failing`]), keeps backups of pages whose cells are programmed again
//! ([`Guard`]), or reads back what it has programmed ([`Verified`]). It has no clock, file, thread, environment or
//! randomness of its own, and needs only `alloc`.
#![no_std]

extern crate alloc;

mod address;
mod broken;
mod cause;
pub mod device;
mod failing;
mod geometry;
mod guard;
mod in_flight;
mod medium;
mod nand;
mod pairs;
mod power;
mod prefetch;
mod response;
mod rng;
mod scheduler;
mod timeline;
mod transcript;
mod verified;

pub use address::{Block, Die, Lbn, Lpn, Ppn, Tvpn};
pub use broken::{Broken, Command, Rule, refuse};
pub use cause::{Cause, Op, Tally};
pub use failing::{Failing, FailurePlan};
pub use geometry::{Derived, Geometry, GeometryError, ProgramOrder};
pub use guard::{Guard, Guarded, is_guards, seen};
pub use in_flight::{InFlight, Undone};
pub use medium::{Batch, Chain, Collection, Fault, FaultKind, Flash, FlashFault, Kind, Mode, Oob, Payload, copy_each};
pub use nand::{
    AppendFace, Brief, BytesStore, Damage, EraseFace, Fragile, Full, HostData, Nand, NoData, ProgramFace, Record,
    Store, Tags,
};
pub use pairs::{Pairing, Pairs};
pub use power::{CutPoint, CutReport, PowerCut, Unstable};
pub use prefetch::prefetch;
pub use response::{NsByCause, Response};
pub use rng::Rng;
pub use scheduler::{Bus, Busy, Finished, Policy, Scheduler, Scheduling};
pub use timeline::{Clocked, PageTime, Timeline};
pub use transcript::{Line, Noted, Transcript};
pub use verified::Verified;

/// The examples of the README, as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

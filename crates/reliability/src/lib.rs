//! Bit errors of flash memory, and what corrects them.
//!
//! A page goes through this crate in one direction. [`cells`] says how its cells' voltages lie after so many cycles, so
//! much time and so many reads, and how often a bit is read wrong. [`sensing`] says what a read at one or more levels
//! knows of each bit. The codes, [`Bch`] and [`Ldpc`] behind one [`Code`], bring the page back or report that they
//! cannot. [`binomial`] computes how rarely BCH fails, [`trial`] counts how often LDPC does, and [`latency`] says what
//! a read then takes. Where a number comes from stands beside it: [`cells::CONSTANTS`] and [`latency::CONSTANTS`].
//!
//! ```
//! use reliability::CodeSpec;
//!
//! let code = "bch:t=24,data=1024".parse::<CodeSpec>().unwrap().build().unwrap();
//! let page = vec![0x5a; 1024];
//! let mut parity = code.encode(&page);
//! let mut read = page.clone();
//! read[100] ^= 0x81;
//! parity[0] ^= 0x01;
//! assert_eq!(code.decode(&mut read, &mut parity).unwrap().bits, 3);
//! assert_eq!(read, page);
//! ```
#![no_std]

extern crate alloc;

pub mod bch;
pub mod binomial;
pub mod cells;
pub mod chip;
pub mod code;
pub mod latency;
pub mod ldpc;
pub mod sensing;
pub mod trial;

pub use bch::Bch;
pub use chip::{Borne, Chip, ChipError, Fitted};
pub use code::{Code, CodeError, CodeSpec, Corrected, Uncorrectable};
pub use latency::{Profile, ReadCost, ReadParts, ReadTiming};
pub use ldpc::Ldpc;

/// The examples of the README, as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

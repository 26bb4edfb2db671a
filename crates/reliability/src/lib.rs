//! Bit errors of flash memory, and what corrects them.
#![no_std]

extern crate alloc;

pub mod bch;
pub mod binomial;
pub mod cells;
pub mod code;
pub mod ldpc;
pub mod sensing;

pub use bch::Bch;
pub use code::{Code, CodeError, Corrected, Uncorrectable};
pub use ldpc::Ldpc;

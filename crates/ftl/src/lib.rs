//! Flash translation layers: schemes, their parts and their policies.
#![no_std]
extern crate alloc;

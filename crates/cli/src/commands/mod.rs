//! The commands, each in its file.

pub mod compare;

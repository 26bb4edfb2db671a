//! The built command, end to end.

mod bad_input;
mod check;
mod commands;
mod common;
mod compare;
mod image;

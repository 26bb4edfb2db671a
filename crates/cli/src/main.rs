//! The `ftlab` command.
#[cfg_attr(not(test), expect(dead_code, reason = "the trace commands open files with it"))]
mod open;

fn main() {}

//! Experiment files, as `ftlab run` takes them, up to where their runs would begin.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| cli::fuzzing::experiment(text));

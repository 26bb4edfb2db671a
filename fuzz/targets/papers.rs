//! The files of a paper, as `ftlab reproduce` takes them, one behind the other: set-up, an experiment, claims.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let mut parts = text.split("\n----\n");
    let mut part = || parts.next().unwrap_or_default();
    let (setup, experiment, claims) = (part(), part(), part());
    cli::fuzzing::paper(setup, experiment, claims);
});

//! Pages with logs of any content.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| ftl::fuzzing::log_units(data));

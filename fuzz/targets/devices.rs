//! Device files.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sim::device::DeviceSpec;

fuzz_target!(|text: &str| {
    let Ok(spec) = DeviceSpec::from_toml("fuzzed.toml", text) else { return };
    if let Ok(device) = spec.build(Some(1 << 30)) {
        assert!(u64::from(device.logical_pages) <= u64::from(device.geometry.page_count()));
    }
});

//! Traces of every format, compressed or not. The first byte chooses: what is asked for, and what malformed records do.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sim::workload::Source;
use sim::workload::format::{FORMATS, OnError, OpenOptions, TraceFile};

fuzz_target!(|data: &[u8]| {
    let Some((&choice, bytes)) = data.split_first() else { return };
    let format = FORMATS.get(usize::from(choice & 31)).map(|format| format.name);
    let on_error = if choice & 32 == 0 { OnError::Stop } else { OnError::Skip };
    let options = OpenOptions { format, on_error, limit: Some(1 << 16) };
    let reader = Box::new(std::io::Cursor::new(bytes.to_vec()));
    let Ok(mut trace) = TraceFile::from_reader("fuzzed", reader, &options) else { return };
    let _ = trace.announcement();
    let mut batch = Vec::new();
    let mut last_ns = 0;
    loop {
        batch.clear();
        if trace.fill(&mut batch, 64).is_err() || batch.is_empty() {
            return;
        }
        for request in &batch {
            assert!(request.arrival_ns >= last_ns, "time goes back");
            last_ns = request.arrival_ns;
            assert!(request.offset.checked_add(u64::from(request.bytes)).is_some(), "{request:?}");
        }
    }
});

//! Traces as tables. The first byte chooses: what malformed rows do, and how many requests are asked for at once. No
//! input takes more memory than five columns of pages at their limit, each beside its page before.
#![no_main]

use columnar::Table;
use libfuzzer_sys::fuzz_target;
use sim::workload::Source;
use sim::workload::format::OnError;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The system's allocator, which ends the process at the limit.
struct Counted;

static LIVE: AtomicUsize = AtomicUsize::new(0);

const MOST: usize = 1536 << 20;

// SAFETY: all is left to the system's allocator.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if LIVE.fetch_add(layout.size(), Ordering::Relaxed) + layout.size() > MOST {
            std::process::abort();
        }
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTED: Counted = Counted;

fuzz_target!(|data: &[u8]| {
    // The decoder's panics are errors of the reader; libFuzzer's hook would end the process before.
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !columnar::is_decoding() {
                hook(panic);
            }
        }));
    });
    let Some((&choice, bytes)) = data.split_first() else { return };
    let on_error = if choice & 1 == 0 { OnError::Stop } else { OnError::Skip };
    let most = usize::from(choice >> 1) + 1;
    let Ok(mut table) = Table::of_bytes("fuzzed", bytes.to_vec(), on_error, Some(1 << 14)) else { return };
    let _ = table.announcement();
    let mut batch = Vec::new();
    let mut last_ns = 0;
    loop {
        batch.clear();
        if table.fill(&mut batch, most).is_err() || batch.is_empty() {
            break;
        }
        assert!(batch.len() <= most);
        for request in &batch {
            assert!(request.arrival_ns >= last_ns, "time goes back");
            last_ns = request.arrival_ns;
            assert!(request.offset.checked_add(request.bytes).is_some(), "{request:?}");
            assert!((request.volume as usize) < table.intake().volumes.len());
        }
    }
});

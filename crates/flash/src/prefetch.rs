//! A cache-line prefetch, without `unsafe` of our own; nothing on machines that have none.

/// Asks for the line of `slice[index]`; out of range is ignored.
#[inline(always)]
pub fn prefetch<T>(slice: &[T], index: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(element) = slice.get(index) {
        safe_arch::prefetch_t0(element);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (slice, index);
}

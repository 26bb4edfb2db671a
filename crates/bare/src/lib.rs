//! The core crates as a firmware sees them: no standard library, a panic handler of its own.
//!
//! There may be one panic handler in a program, and the standard library brings one. This crate defines another, so it
//! builds only while neither `flash`, `ftl`, `reliability` nor anything below them links the standard library, on any
//! target and whatever a crate says of itself. `make no-std` builds it. A firmware adds an allocator and its own
//! [`Flash`].
#![no_std]

extern crate alloc;

use alloc::vec::Vec;
use core::panic::PanicInfo;
use flash::{Flash, Lpn};
use ftl::schemes::{self, Visitor};
use ftl::{Ftl, Inspect, Recipe, Scheme};

#[panic_handler]
fn stop(_: &PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}

/// Formats a medium of `logical_pages` with the scheme called `name` and reads page 0 of it; the scheme's RAM by
/// structure in bytes, or `None` if there is no such scheme or it does not come up.
pub fn boot<F: Flash>(name: &str, flash: &mut F, logical_pages: u32) -> Option<Vec<(&'static str, u64)>> {
    struct Boot<'a, F>(&'a mut F, u32);
    impl<F: Flash> Visitor<F> for Boot<'_, F> {
        type Output = Option<Vec<(&'static str, u64)>>;
        fn visit<S: Recipe<F>>(self, row: &Scheme<'_>, recipe: &S) -> Self::Output {
            let mut scheme = recipe.format(self.0, self.1, &row.settings()).ok()?;
            scheme.read(self.0, Lpn(0)).ok()?;
            Some(scheme.memory())
        }
    }
    schemes::visit(name, Boot(flash, logical_pages))?
}

/// The parity of `data` under a BCH code that corrects `correctable` errors, or `None` if there is no such code.
pub fn protect(data: &[u8], correctable: usize) -> Option<Vec<u8>> {
    let code = reliability::Code::Bch(reliability::Bch::new(data.len(), correctable).ok()?);
    Some(code.encode(data))
}

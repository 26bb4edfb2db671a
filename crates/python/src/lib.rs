//! The compiled half of the Python package `ftlab`: what `ftlab._native` offers to the wrappers in `python/ftlab`.
//!
//! Nothing is written twice. An experiment becomes the flags of `ftlab compare` and runs as a session of the command
//! line's library, so a report from here is the command's; what is added is what Python needs: requests from arrays,
//! tables through the Arrow interface, an eye on Ctrl-C while the interpreter is free, and exceptions.

mod answers;
mod device;
mod errors;
mod experiments;
mod job;
mod policy;
mod requests;
mod scheme;
mod tables;

use pyo3::prelude::*;

#[pymodule(gil_used = true)]
mod _native {
    #[pymodule_export]
    use crate::answers::{check, reliability, replay, reproduce};
    #[pymodule_export]
    use crate::device::Device;
    #[pymodule_export]
    use crate::experiments::{Report, compare, keys, load};
    #[pymodule_export]
    use crate::policy::Policy;
    #[pymodule_export]
    use crate::requests::{Requests, from_arrays, from_arrow, read};
    #[pymodule_export]
    use crate::scheme::{Foreign, Handle, Record};
    #[pymodule_export]
    use crate::tables::{arrow, devices, generators, recordings, schemes};
    use pyo3::prelude::*;

    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");

    #[pymodule_init]
    fn init(_module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::job::keep_panics();
        Ok(())
    }
}

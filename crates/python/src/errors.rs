//! Exceptions: the classes live in `ftlab.errors`, so that people can read them there.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::fmt::Display;

/// An exception of `ftlab.errors` with this message.
fn raised(py: Python<'_>, class: &str, message: String) -> PyErr {
    let made = || py.import("ftlab.errors")?.getattr(class)?.call1((&message,));
    match made() {
        Ok(exception) => PyErr::from_value(exception),
        Err(_) => PyRuntimeError::new_err(message),
    }
}

/// `ftlab.InputError`: what the user asked for is wrong, in the words of the command line.
pub(crate) fn input(py: Python<'_>, what: impl Display) -> PyErr {
    raised(py, "InputError", what.to_string())
}

/// `ftlab.Bug`: the package is wrong.
pub(crate) fn bug(py: Python<'_>, what: impl Display) -> PyErr {
    raised(py, "Bug", what.to_string())
}

/// `ftlab.PowerLost`: the device has no power.
pub(crate) fn power_lost(py: Python<'_>, what: impl Display) -> PyErr {
    raised(py, "PowerLost", what.to_string())
}

/// `ftlab.DeviceFull`: no block can be freed.
pub(crate) fn device_full(py: Python<'_>, what: impl Display) -> PyErr {
    raised(py, "DeviceFull", what.to_string())
}

/// `ftlab.BrokenRule`: a scheme broke a rule of the chip.
pub(crate) fn broken_rule(py: Python<'_>, what: impl Display) -> PyErr {
    raised(py, "BrokenRule", what.to_string())
}

fn is(py: Python<'_>, exception: &PyErr, class: &str) -> bool {
    let class = py.import("ftlab.errors").and_then(|module| module.getattr(class));
    class.is_ok_and(|class| exception.is_instance(py, &class))
}

/// Whether a scheme said that the device is full.
pub(crate) fn is_device_full(py: Python<'_>, exception: &PyErr) -> bool {
    is(py, exception, "DeviceFull")
}

/// Whether an exception is that of a broken rule.
pub(crate) fn is_broken_rule(py: Python<'_>, exception: &PyErr) -> bool {
    is(py, exception, "BrokenRule")
}

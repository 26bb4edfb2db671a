//! One device in hand, page by page.

use crate::errors;
use crate::scheme::{Foreign, raising};
use cli::args::CompareArgs;
use cli::commands::experiment::{settings_of, small_device};
use cli::experiment_file;
use flash::{CutPoint, Kind};
use numpy::{PyArray1, PyArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use sim::hand::{Hand, HandError, PageState};
use std::path::Path;
use std::sync::{Mutex, MutexGuard};

/// A device; the wrapper `ftlab.Device` has the manners.
#[pyclass(frozen, module = "ftlab._native")]
pub(crate) struct Device(Mutex<Hand>);

fn raised(py: Python<'_>, error: HandError) -> PyErr {
    match error {
        HandError::PowerLost => errors::power_lost(py, error),
        HandError::Full => errors::device_full(py, error),
        HandError::UnknownScheme(_) | HandError::Input(_) => errors::input(py, error),
    }
}

impl Device {
    fn hand(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, Hand>> {
        self.0.try_lock().map_err(|_| errors::input(py, "the device is at work: it cannot be used from inside"))
    }

    /// Does something with the device. What the code of a scheme raised is raised again.
    fn ask<T>(&self, py: Python<'_>, request: impl FnOnce(&mut Hand) -> Result<T, HandError>) -> PyResult<T> {
        let mut hand = self.hand(py)?;
        raising(|| request(&mut hand))?.map_err(|error| raised(py, error))
    }
}

#[pymethods]
impl Device {
    /// `keys` are those of an experiment with one scheme.
    #[new]
    fn new(py: Python<'_>, keys: &str, own: Option<Py<Foreign>>) -> PyResult<Device> {
        let args: CompareArgs =
            experiment_file::parse_keys(keys, Path::new("")).map_err(|error| errors::input(py, error))?;
        let device = small_device(args.device.as_deref()).map_err(|error| errors::input(py, error))?;
        let made = match own {
            Some(own) => {
                let foreign = own.get();
                raising(|| Hand::of(foreign.clone(), &device, foreign.row().settings()))?
            }
            None => {
                let (scheme, settings) = settings_of(&args).map_err(|error| errors::input(py, error))?;
                Hand::new(&scheme, &device, settings)
            }
        };
        Ok(Device(Mutex::new(made.map_err(|error| raised(py, error))?)))
    }

    /// Its shape: numbers by name.
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let hand = self.hand(py)?;
        let g = hand.geometry();
        let shape = PyDict::new(py);
        shape.set_item("logical_pages", hand.logical_pages())?;
        shape.set_item("page_bytes", g.page_bytes)?;
        shape.set_item("pages_per_block", g.pages_per_block)?;
        shape.set_item("blocks", g.block_count())?;
        shape.set_item("dies", g.die_count())?;
        Ok(shape)
    }

    /// Whether it is mounted.
    fn is_on(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.hand(py)?.is_on())
    }

    fn read<'py>(&self, py: Python<'py>, lpn: u32) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let page = self.ask(py, |hand| hand.read(lpn))?;
        Ok(page.map(|page| PyBytes::new(py, &page)))
    }

    fn write(&self, py: Python<'_>, first: u32, pages: &[u8]) -> PyResult<()> {
        self.ask(py, |hand| hand.write(first, pages))
    }

    fn trim(&self, py: Python<'_>, first: u32, count: u32) -> PyResult<()> {
        self.ask(py, |hand| hand.trim(first, count))
    }

    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        self.ask(py, Hand::flush)
    }

    fn idle(&self, py: Python<'_>, copies: u32) -> PyResult<bool> {
        self.ask(py, |hand| hand.idle(copies))
    }

    fn cut(&self, py: Python<'_>) -> PyResult<()> {
        self.hand(py)?.cut();
        Ok(())
    }

    fn arm(&self, py: Python<'_>, face: u8, command: u64, seed: u64) -> PyResult<()> {
        self.hand(py)?.arm(CutPoint { command, face }, seed);
        Ok(())
    }

    /// What the mount found: pages programmed, pages torn, entries restored, bad blocks.
    fn mount(&self, py: Python<'_>) -> PyResult<[u64; 4]> {
        let found = self.ask(py, Hand::mount)?;
        Ok([found.pages, found.torn, found.restored, found.bad_blocks])
    }

    /// The flash commands of the last request.
    fn commands(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        Ok(self.hand(py)?.commands().to_vec())
    }

    /// The scheme's counters.
    fn counters(&self, py: Python<'_>) -> PyResult<Vec<(&'static str, u64)>> {
        Ok(self.hand(py)?.counters())
    }

    /// Arrays with an entry per page: state, kind and cause as words, address (-1: none) and version as numbers.
    fn pages<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let pages = self.hand(py)?.pages();
        let kind = |kind: Option<Kind>| kind.map_or_else(String::new, |kind| format!("{kind:?}").to_lowercase());
        let numpy = py.import("numpy")?;
        let table = PyDict::new(py);
        let words = |words: Vec<String>| numpy.call_method1("array", (words, "U"));
        table.set_item("state", words(pages.iter().map(|page| state(page.state).to_owned()).collect())?)?;
        table.set_item("kind", words(pages.iter().map(|page| kind(page.kind)).collect())?)?;
        let address = pages.iter().map(|page| page.address.map_or(-1, i64::from));
        table.set_item("lpn", PyArray1::from_vec(py, address.collect()))?;
        table.set_item("version", PyArray1::from_vec(py, pages.iter().map(|page| page.version).collect()))?;
        let cause = pages.iter().map(|page| page.cause.map_or_else(String::new, |cause| cause.name().to_owned()));
        table.set_item("cause", words(cause.collect())?)?;
        Ok(table)
    }

    /// Arrays with an entry per block: pages programmed, pages current, erases.
    fn blocks<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let hand = self.hand(py)?;
        let size = hand.geometry().pages_per_block as usize;
        let pages = hand.pages();
        let count = |wanted: fn(PageState) -> bool| -> Vec<u32> {
            pages.chunks(size).map(|block| block.iter().filter(|page| wanted(page.state)).count() as u32).collect()
        };
        let table = PyDict::new(py);
        table.set_item("programmed", PyArray1::from_vec(py, count(|state| state != PageState::Blank)))?;
        table.set_item("current", PyArray1::from_vec(py, count(|state| state == PageState::Current)))?;
        table.set_item("erases", PyArray1::from_vec(py, hand.erases().to_vec()))?;
        // Nobody else holds these arrays, so that what they say cannot change.
        for (_, array) in &table {
            array.cast::<PyArray1<u32>>()?.readwrite().make_nonwriteable();
        }
        Ok(table)
    }
}

fn state(state: PageState) -> &'static str {
    PageState::NAMES[state as usize]
}

//! Victim policies written in Python: a function gets the candidates as numpy arrays and returns one of them.
//!
//! The arrays are made once for each policy of each run and filled anew for each call. A policy has no way to return an
//! error, for policies of firmware have none; so whatever goes wrong unwinds to where the run began, where the
//! exception is waiting.

use crate::scheme::raise;
use flash::{Block, Rng};
use ftl::Blocks;
use ftl::{GcOptions, GcPolicy, GcRow};
use numpy::{Element, PyArray1, PyArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PySlice;
use std::fmt;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// The functions, by their rows. A row is never given up: there are as many as functions that were decorated.
static FUNCTIONS: Mutex<Vec<(&'static GcRow, Py<PyAny>)>> = Mutex::new(Vec::new());

/// A policy that `gc=[…]` takes.
#[pyclass(frozen, module = "ftlab._native")]
pub(crate) struct Policy(&'static GcRow);

impl Policy {
    /// Its row.
    pub(crate) fn row(&self) -> &'static GcRow {
        self.0
    }
}

#[pymethods]
impl Policy {
    /// `make` makes what is called with candidates; it is called once for each run.
    #[new]
    fn new(name: String, make: Py<PyAny>) -> Policy {
        let name: &'static str = Box::leak(name.into_boxed_str());
        let row: &'static GcRow = Box::leak(Box::new(GcRow {
            name,
            summary: "written in Python",
            source: "the user",
            ages: true,
            make: made,
        }));
        FUNCTIONS.lock().unwrap_or_else(PoisonError::into_inner).push((row, make));
        Policy(row)
    }

    #[getter]
    fn name(&self) -> &'static str {
        self.0.name
    }
}

/// Makes the policy whose row the options name.
fn made(_: Rng, options: &GcOptions) -> Box<dyn GcPolicy + Send> {
    let name = options.policy.name;
    Python::attach(|py| {
        let make = {
            let functions = FUNCTIONS.lock().unwrap_or_else(PoisonError::into_inner);
            let found = functions.iter().find(|(row, _)| std::ptr::eq(*row, options.policy));
            found.map(|(_, make)| make.clone_ref(py)).expect("a row is registered with its function")
        };
        match make.call0(py) {
            Ok(function) => Box::new(Written { name, function, table: None }) as Box<dyn GcPolicy + Send>,
            Err(exception) => raise(py, exception),
        }
    })
}

/// The arrays of one policy.
struct Table {
    block: Py<PyArray1<u32>>,
    live: Py<PyArray1<u32>>,
    erases: Py<PyArray1<u32>>,
    age: Py<PyArray1<u64>>,
    /// The object of `ftlab.policy` that shows their first entries, and how many these are.
    shown: Py<PyAny>,
    count: usize,
    room: usize,
}

impl Table {
    fn new(py: Python<'_>, room: usize, pages_per_block: u32) -> PyResult<Table> {
        let candidates = py.import("ftlab.policy")?.getattr("Candidates")?;
        Ok(Table {
            block: PyArray1::zeros(py, room, false).unbind(),
            live: PyArray1::zeros(py, room, false).unbind(),
            erases: PyArray1::zeros(py, room, false).unbind(),
            age: PyArray1::zeros(py, room, false).unbind(),
            shown: candidates.call1((pages_per_block,))?.unbind(),
            count: usize::MAX,
            room,
        })
    }

    /// Fills the arrays.
    fn fill(&mut self, py: Python<'_>, blocks: &Blocks, among: Range<u32>) -> PyResult<usize> {
        let mut count = 0;
        {
            let mut block = self.block.bind(py).try_readwrite()?;
            let mut live = self.live.bind(py).try_readwrite()?;
            let mut erases = self.erases.bind(py).try_readwrite()?;
            let mut age = self.age.bind(py).try_readwrite()?;
            let (block, live) = (block.as_slice_mut()?, live.as_slice_mut()?);
            let (erases, age) = (erases.as_slice_mut()?, age.as_slice_mut()?);
            let (counts, erased) = (blocks.live_counts(), blocks.erase_counts());
            let most = blocks.geometry().pages_per_block as i16;
            for candidate in among {
                let index = candidate as usize;
                if counts[index] < most {
                    block[count] = candidate;
                    live[count] = counts[index].unsigned_abs().into();
                    erases[count] = erased[index];
                    age[count] = blocks.age(candidate);
                    count += 1;
                }
            }
        }
        if count != self.count {
            let slice = PySlice::new(py, 0, count as isize, 1);
            fn first<T: Element>(
                shown: &Bound<'_, PyAny>,
                name: &str,
                array: &Bound<'_, PyArray1<T>>,
                slice: &Bound<'_, PySlice>,
            ) -> PyResult<()> {
                shown.setattr(name, array.get_item(slice)?)
            }
            let shown = self.shown.bind(py);
            first(shown, "block", self.block.bind(py), &slice)?;
            first(shown, "live", self.live.bind(py), &slice)?;
            first(shown, "erases", self.erases.bind(py), &slice)?;
            first(shown, "age", self.age.bind(py), &slice)?;
            self.count = count;
        }
        Ok(count)
    }
}

/// A policy at work.
struct Written {
    name: &'static str,
    function: Py<PyAny>,
    table: Option<Table>,
}

impl fmt::Debug for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, written in Python", self.name)
    }
}

impl Written {
    fn ask(&mut self, py: Python<'_>, blocks: &Blocks, among: Range<u32>) -> PyResult<Option<Block>> {
        let room = among.len();
        let table = match &mut self.table {
            Some(table) if table.room >= room => table,
            other => other.insert(Table::new(py, room, blocks.geometry().pages_per_block)?),
        };
        if table.fill(py, blocks, among.clone())? == 0 {
            return Ok(None);
        }
        let answer = self.function.bind(py).call1((&table.shown,))?;
        let Ok(block) = answer.extract::<i64>() else {
            let what = format!("the victim policy {} returned {}, not a block", self.name, answer.repr()?);
            return Err(PyTypeError::new_err(what));
        };
        match u32::try_from(block) {
            Ok(block) if among.contains(&block) && blocks.is_candidate(block) => Ok(Some(Block(block))),
            _ => {
                let what = format!("the victim policy {} returned block {block}, which is no candidate", self.name);
                Err(PyValueError::new_err(what))
            }
        }
    }
}

impl GcPolicy for Written {
    fn pick(&mut self, blocks: &Blocks, among: Range<u32>) -> Option<Block> {
        Python::attach(|py| self.ask(py, blocks, among).unwrap_or_else(|exception| raise(py, exception)))
    }

    fn boxed(&self) -> Box<dyn GcPolicy + Send> {
        Python::attach(|py| {
            let copied = py.import("copy").and_then(|copy| copy.call_method1("deepcopy", (&self.function,)));
            match copied {
                Ok(function) => Box::new(Written { name: self.name, function: function.unbind(), table: None }),
                Err(exception) => raise(py, exception),
            }
        })
    }
}

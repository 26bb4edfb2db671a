//! Schemes written in Python: one adapter for all media.
//!
//! A Python object is a scheme. While one of its methods runs, a thread-local place holds the medium, and the `flash`
//! that the method gets is an empty handle to that place; outside a method there is nothing in it. What the medium
//! refuses is raised in Python, and remembered here, so that a power cut ends the request and a broken NAND rule the
//! run, whatever the method makes of the exception. The adapter stamps program numbers, and keeps erase counts and the
//! pages programmed of each block, as the medium's commands tell them.

use crate::errors;
use flash::{Block, Cause, Collection, FaultKind, Flash, FlashFault, Geometry, HostData, Kind, Lpn, Oob, Payload, Ppn};
use flash::{Chain, Store};
use ftl::{BuildError, ConfigError, Error, Ftl, Inspect, MountReport, Recipe, Scheme, Settings};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use scoped_tls_hkt::scoped_thread_local;
use sim::check::Raised;
use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;

thread_local! {
    /// The last exception of a user's code that ended something on this thread, until it is taken.
    static RAISED: Cell<Option<PyErr>> = const { Cell::new(None) };
}

/// The exception that ended what this thread did, if one did.
pub(crate) fn take_raised() -> Option<PyErr> {
    RAISED.take()
}

/// Does something that runs a user's code. What that raised is raised again.
pub(crate) fn raising<T>(work: impl FnOnce() -> T) -> PyResult<T> {
    panic::catch_unwind(AssertUnwindSafe(work)).or_else(|cause| match take_raised() {
        Some(exception) => Err(exception),
        None => panic::resume_unwind(cause),
    })
}

/// Keeps an exception and unwinds to whoever began the run, with its text for those who look no further.
pub(crate) fn raise(py: Python<'_>, exception: PyErr) -> ! {
    let text = match exception.traceback(py).map(|traceback| traceback.format()) {
        Some(Ok(traceback)) => format!("{}{exception}", traceback.trim_start()),
        _ => exception.to_string(),
    };
    RAISED.set(Some(exception));
    panic::resume_unwind(Box::new(Raised(text)))
}

/// What a page says it is.
#[pyclass(frozen, module = "ftlab._native")]
pub(crate) struct Record {
    oob: Oob,
    words: Option<Vec<u32>>,
}

#[pymethods]
impl Record {
    /// What it holds: `data`, `log`, `translation`, `dummy`, `checkpoint`, `trim`, `bad`, or `torn`.
    #[getter]
    fn kind(&self) -> &'static str {
        KINDS[self.oob.kind as usize].0
    }

    /// The LPN of a host page, or whatever number a metadata page was given.
    #[getter]
    fn lpn(&self) -> u32 {
        self.oob.address
    }

    /// The version of a host page.
    #[getter]
    fn version(&self) -> u64 {
        self.oob.version
    }

    /// Which program of the device's life it was.
    #[getter]
    fn program(&self) -> u64 {
        self.oob.program
    }

    /// The words of a metadata page that was read whole.
    #[getter]
    fn words(&self) -> Option<Vec<u32>> {
        self.words.clone()
    }

    fn __repr__(&self) -> String {
        let Oob { address, version, .. } = self.oob;
        format!("<{} {address} version {version}>", self.kind())
    }
}

/// Words for kinds, in the order of the discriminants.
const KINDS: [(&str, Kind); 8] = [
    ("data", Kind::Data),
    ("log", Kind::Log),
    ("translation", Kind::Translation),
    ("dummy", Kind::Dummy),
    ("checkpoint", Kind::Checkpoint),
    ("trim", Kind::Trim),
    ("bad", Kind::Bad),
    ("torn", Kind::Torn),
];

fn kind_of(word: &str) -> PyResult<Kind> {
    let found = KINDS[..6].iter().find(|(name, _)| *name == word);
    found.map(|&(_, kind)| kind).ok_or_else(|| {
        PyValueError::new_err(format!("kind {word}: must be data, log, translation, dummy, checkpoint or trim"))
    })
}

fn cause_of(word: &str) -> PyResult<Cause> {
    let found = Cause::ALL.iter().find(|cause| cause.name() == word);
    found.copied().ok_or_else(|| {
        let names: Vec<_> = Cause::ALL.iter().map(|cause| cause.name()).collect();
        PyValueError::new_err(format!("cause {word}: must be one of {}", names.join(", ")))
    })
}

/// What a method wants to program.
enum Content<'a> {
    /// The host page that is being written.
    Host,
    /// Metadata.
    Words(&'a [u32]),
    /// Padding.
    Nothing,
}

/// Why a command was not done.
enum Refusal {
    /// What a device does.
    Fault(FaultKind),
    /// The scheme broke a rule of the chip.
    Broken(String),
    /// The command makes no sense.
    Wrong(String),
}

/// What the adapter knows of the device beside the scheme.
#[derive(Clone, Default)]
struct Mirror {
    erases: Vec<u32>,
    /// Pages of each block up to the last that is known to be programmed.
    written: Vec<u32>,
    /// The number of the last program.
    programs: u64,
}

/// A medium as Python reaches it, whichever it is.
trait Medium {
    fn geometry(&self) -> Geometry;
    fn mirror(&self) -> &Mirror;
    fn read(&mut self, ppn: Ppn, cause: Cause) -> Result<Record, Refusal>;
    fn read_oob(&mut self, ppn: Ppn, cause: Cause) -> Result<Option<Record>, Refusal>;
    fn program(&mut self, ppn: Ppn, oob: Oob, content: Content<'_>, cause: Cause) -> Result<(), Refusal>;
    fn copy(&mut self, from: Ppn, to: Ppn, cause: Cause) -> Result<Record, Refusal>;
    fn erase(&mut self, block: Block, cause: Cause) -> Result<(), Refusal>;
    fn then(&mut self);
    fn collection(&mut self, body: &mut dyn FnMut());
}

scoped_thread_local!(static mut FLASH: for<'a> &'a mut (dyn Medium + 'a));

/// A medium while a method runs.
struct Scope<'a, F: Flash> {
    flash: &'a mut F,
    /// The page that the host writes.
    data: Option<&'a F::User>,
    /// Host data of the page that was read last.
    held: &'a mut <F::User as HostData>::Store,
    read: &'a mut Option<Ppn>,
    mirror: &'a mut Mirror,
    end: &'a mut End<F::Fault>,
}

/// What ends a request, or the run.
struct End<E> {
    fault: Option<E>,
    broken: Option<String>,
}

impl<F: Flash> Scope<'_, F> {
    /// Issues a command. A fault is kept, and so is the text of a broken rule, with which the chip panics.
    fn command<T>(&mut self, issue: impl FnOnce(&mut Self) -> Result<T, F::Fault>) -> Result<T, Refusal> {
        if let Some(broken) = &self.end.broken {
            return Err(Refusal::Broken(broken.clone()));
        }
        match panic::catch_unwind(AssertUnwindSafe(|| issue(&mut *self))) {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(fault)) => {
                // A failed program or erase is the scheme's to deal with; power that is gone, or a page that is lost,
                // is the host's.
                let kind = fault.kind();
                if !matches!(kind, FaultKind::ProgramFailed | FaultKind::EraseFailed) {
                    self.end.fault.get_or_insert(fault);
                }
                Err(Refusal::Fault(kind))
            }
            Err(cause) => {
                let text = match cause.downcast::<String>() {
                    Ok(text) => *text,
                    Err(cause) => cause.downcast_ref::<&str>().map_or("a rule of the chip", |text| text).to_string(),
                };
                Err(Refusal::Broken(self.end.broken.insert(text).clone()))
            }
        }
    }

    fn page(&self, ppn: Ppn) -> Result<(), Refusal> {
        let pages = self.flash.geometry().page_count();
        if ppn.0 < pages {
            return Ok(());
        }
        Err(Refusal::Wrong(format!("page {ppn}: the chip has pages 0 to {}", pages - 1)))
    }

    fn programmed(&mut self, ppn: Ppn) {
        let g = self.flash.geometry();
        let (block, end) = (g.block_of(ppn).index(), g.offset_of(ppn) + 1);
        self.mirror.written[block] = self.mirror.written[block].max(end);
    }

    fn found(&mut self, ppn: Ppn, oob: &Oob) {
        self.programmed(ppn);
        if !matches!(oob.kind, Kind::Torn | Kind::Bad) {
            self.mirror.programs = self.mirror.programs.max(oob.program);
        }
    }
}

impl<F: Flash> Medium for Scope<'_, F> {
    fn geometry(&self) -> Geometry {
        *self.flash.geometry()
    }

    fn mirror(&self) -> &Mirror {
        self.mirror
    }

    fn read(&mut self, ppn: Ppn, cause: Cause) -> Result<Record, Refusal> {
        self.page(ppn)?;
        let record = self.command(|scope| {
            let (oob, data) = scope.flash.read(ppn, cause)?;
            let words = match data {
                Payload::User(data) => {
                    scope.held.put(0, data);
                    *scope.read = Some(ppn);
                    None
                }
                Payload::Meta(words) => Some(words.to_vec()),
                Payload::None => None,
            };
            Ok(Record { oob, words })
        })?;
        self.found(ppn, &record.oob);
        Ok(record)
    }

    fn read_oob(&mut self, ppn: Ppn, cause: Cause) -> Result<Option<Record>, Refusal> {
        self.page(ppn)?;
        let oob = self.command(|scope| scope.flash.read_oob(ppn, cause))?;
        if let Some(oob) = &oob {
            self.found(ppn, oob);
        }
        Ok(oob.map(|oob| Record { oob, words: None }))
    }

    fn program(&mut self, ppn: Ppn, oob: Oob, content: Content<'_>, cause: Cause) -> Result<(), Refusal> {
        self.page(ppn)?;
        let data = match content {
            Content::Host => match self.data {
                Some(data) => Payload::User(data),
                None => return Err(Refusal::Wrong("a host page is programmed only while the host writes one".into())),
            },
            Content::Words(words) => Payload::Meta(words),
            Content::Nothing => Payload::None,
        };
        let oob = Oob { program: self.mirror.programs + 1, ..oob };
        let done = self.command(|scope| scope.flash.program(ppn, oob, data, cause));
        self.mirror.programs += 1;
        self.programmed(ppn);
        done
    }

    fn copy(&mut self, from: Ppn, to: Ppn, cause: Cause) -> Result<Record, Refusal> {
        self.page(from)?;
        self.page(to)?;
        let program = self.mirror.programs + 1;
        let done = self.command(|scope| {
            scope.flash.copy(from, to, cause, |oob, _| {
                oob.program = program;
                oob.kind = if oob.kind == Kind::Log { Kind::Data } else { oob.kind };
            })
        });
        self.mirror.programs += 1;
        self.programmed(to);
        done.map(|oob| Record { oob, words: None })
    }

    fn erase(&mut self, block: Block, cause: Cause) -> Result<(), Refusal> {
        let blocks = self.flash.geometry().block_count();
        if block.0 >= blocks {
            return Err(Refusal::Wrong(format!("block {block}: the chip has blocks 0 to {}", blocks - 1)));
        }
        let done = self.command(|scope| scope.flash.erase(block, cause));
        self.mirror.erases[block.index()] += 1;
        self.mirror.written[block.index()] = 0;
        done
    }

    fn then(&mut self) {
        self.flash.chain(Chain::AFTER);
    }

    fn collection(&mut self, body: &mut dyn FnMut()) {
        let mut collection = Collection::on(&mut *self.flash);
        let mut scope: Scope<'_, F> = Scope {
            flash: &mut collection,
            data: self.data,
            held: &mut *self.held,
            read: &mut *self.read,
            mirror: &mut *self.mirror,
            end: &mut *self.end,
        };
        FLASH.set(&mut scope, body);
    }
}

/// The `flash` of a method: empty, for the medium is elsewhere.
#[pyclass(frozen, module = "ftlab._native", name = "Flash")]
pub(crate) struct Handle;

/// Does something with the medium of the method that runs.
fn with<T>(py: Python<'_>, issue: impl FnOnce(&mut dyn Medium) -> Result<T, Refusal>) -> PyResult<T> {
    if !FLASH.is_set() {
        return Err(PyRuntimeError::new_err("flash can be used only while a method of the scheme runs"));
    }
    FLASH.with(|medium| issue(medium)).map_err(|refusal| match refusal {
        Refusal::Fault(FaultKind::PowerLost) => errors::power_lost(py, "the power is gone"),
        Refusal::Fault(kind) => errors::power_lost(py, format!("the flash failed: {kind:?}")),
        Refusal::Broken(text) => errors::broken_rule(py, text),
        Refusal::Wrong(text) => PyValueError::new_err(text),
    })
}

#[pymethods]
impl Handle {
    /// Pages of a block.
    #[getter]
    fn pages_per_block(&self, py: Python<'_>) -> PyResult<u32> {
        with(py, |medium| Ok(medium.geometry().pages_per_block))
    }

    /// Blocks of the chip.
    #[getter]
    fn blocks(&self, py: Python<'_>) -> PyResult<u32> {
        with(py, |medium| Ok(medium.geometry().block_count()))
    }

    /// Dies of the chip.
    #[getter]
    fn dies(&self, py: Python<'_>) -> PyResult<u32> {
        with(py, |medium| Ok(medium.geometry().die_count()))
    }

    /// Bytes of a page.
    #[getter]
    fn page_bytes(&self, py: Python<'_>) -> PyResult<u32> {
        with(py, |medium| Ok(medium.geometry().page_bytes))
    }

    /// Erases of a block, as far as the scheme did them.
    fn erases(&self, py: Python<'_>, block: u32) -> PyResult<u32> {
        with(py, |medium| {
            let found = medium.mirror().erases.get(block as usize).copied();
            found.ok_or_else(|| Refusal::Wrong(format!("there is no block {block}")))
        })
    }

    /// Pages of a block up to the last that is known to be programmed.
    fn written(&self, py: Python<'_>, block: u32) -> PyResult<u32> {
        with(py, |medium| {
            let found = medium.mirror().written.get(block as usize).copied();
            found.ok_or_else(|| Refusal::Wrong(format!("there is no block {block}")))
        })
    }

    /// Reads a page: what it says it is. Its host data are what `read` returns by returning the page.
    #[pyo3(signature = (ppn, cause = "host"))]
    fn read(&self, py: Python<'_>, ppn: u32, cause: &str) -> PyResult<Record> {
        let cause = cause_of(cause)?;
        with(py, |medium| medium.read(Ppn(ppn), cause))
    }

    /// Reads a spare area alone: what the page says it is; None if it is blank.
    #[pyo3(signature = (ppn, cause = "host"))]
    fn read_oob(&self, py: Python<'_>, ppn: u32, cause: &str) -> PyResult<Option<Record>> {
        let cause = cause_of(cause)?;
        with(py, |medium| medium.read_oob(Ppn(ppn), cause))
    }

    /// Programs the page that the host writes.
    #[pyo3(signature = (ppn, lpn, version, cause = "host", kind = "data"))]
    fn program(&self, py: Python<'_>, ppn: u32, lpn: u32, version: u64, cause: &str, kind: &str) -> PyResult<()> {
        let (cause, kind) = (cause_of(cause)?, kind_of(kind)?);
        let content = match kind {
            Kind::Data | Kind::Log => Content::Host,
            Kind::Dummy => Content::Nothing,
            _ => return Err(PyValueError::new_err(format!("metadata of kind {kind:?} are programmed with words"))),
        };
        with(py, |medium| medium.program(Ppn(ppn), Oob { kind, ..Oob::data(Lpn(lpn), version, 0) }, content, cause))
    }

    /// Programs a page of metadata words, of 32 bits each.
    #[pyo3(signature = (ppn, number, words, version = 0, cause = "metadata", kind = "checkpoint"))]
    #[expect(clippy::too_many_arguments, reason = "they have names in Python")]
    fn program_words(
        &self,
        py: Python<'_>,
        ppn: u32,
        number: u32,
        words: Vec<u32>,
        version: u64,
        cause: &str,
        kind: &str,
    ) -> PyResult<()> {
        let (cause, kind) = (cause_of(cause)?, kind_of(kind)?);
        if !matches!(kind, Kind::Translation | Kind::Checkpoint | Kind::Trim) {
            return Err(PyValueError::new_err("words are of kind translation, checkpoint or trim"));
        }
        let oob = Oob { kind, ..Oob::data(Lpn(number), version, 0) };
        with(py, |medium| medium.program(Ppn(ppn), oob, Content::Words(&words), cause))
    }

    /// Copies a page; what it says it is. A log page becomes a data page.
    #[pyo3(signature = (source, target, cause = "data_gc"))]
    fn copy(&self, py: Python<'_>, source: u32, target: u32, cause: &str) -> PyResult<Record> {
        let cause = cause_of(cause)?;
        with(py, |medium| medium.copy(Ppn(source), Ppn(target), cause))
    }

    /// Erases a block.
    #[pyo3(signature = (block, cause = "data_gc"))]
    fn erase(&self, py: Python<'_>, block: u32, cause: &str) -> PyResult<()> {
        let cause = cause_of(cause)?;
        with(py, |medium| medium.erase(Block(block), cause))
    }

    /// Calls a function within a collection: its commands wait neither for each other nor for those of the host page
    /// that set it off.
    #[pyo3(signature = (body, *arguments))]
    fn collection<'py>(
        &self,
        py: Python<'py>,
        body: &Bound<'py, PyAny>,
        arguments: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let mut answer = None;
        with(py, |medium| {
            medium.collection(&mut || answer = Some(body.call1(arguments)));
            Ok(())
        })?;
        answer.unwrap_or_else(|| Err(PyRuntimeError::new_err("the collection did not run")))
    }

    /// Within a collection: what follows begins when everything so far has ended.
    fn then(&self, py: Python<'_>) -> PyResult<()> {
        with(py, |medium| {
            medium.then();
            Ok(())
        })
    }
}

/// A scheme that `schemes=[…]`, `check` and `Device` take.
#[pyclass(frozen, module = "ftlab._native")]
#[derive(Clone)]
pub(crate) struct Foreign {
    row: &'static Scheme<'static>,
    /// Makes an object of the scheme.
    make: Arc<Py<PyAny>>,
    /// Blocks of each die that are not for data.
    spare_blocks: u32,
}

impl Foreign {
    /// Its row.
    pub(crate) fn row(&self) -> &'static Scheme<'static> {
        self.row
    }
}

#[pymethods]
impl Foreign {
    /// `make` makes an object of the scheme; `phases` are the causes of its changing commands.
    #[new]
    fn new(
        name: String,
        summary: String,
        phases: Vec<String>,
        spare_blocks: u32,
        make: Py<PyAny>,
    ) -> PyResult<Foreign> {
        let phases = phases.iter().map(|phase| cause_of(phase)).collect::<PyResult<Vec<_>>>()?;
        // A row is never given up: there are as many as classes that were used.
        let row = Box::leak(Box::new(Scheme {
            name: Box::leak(name.into_boxed_str()),
            summary: Box::leak(summary.into_boxed_str()),
            paper: "none",
            essay: "",
            own: &[],
            parts: &[],
            fixed: &[],
            counters: &[],
            phases: Box::leak(phases.into_boxed_slice()),
            has_cache: false,
            keeps_data: true,
            state_version: 1,
        }));
        Ok(Foreign { row, make: Arc::new(make), spare_blocks })
    }

    #[getter]
    fn name(&self) -> &'static str {
        self.row.name
    }
}

/// A scheme at work.
pub(crate) struct Own<D> {
    object: Py<PyAny>,
    handle: Py<Handle>,
    /// A page of host data: the one that was read last.
    held: D,
    mirror: Mirror,
}

impl<D: Clone> Clone for Own<D> {
    fn clone(&self) -> Self {
        Python::attach(|py| {
            let copied = py.import("copy").and_then(|copy| copy.call_method1("deepcopy", (&self.object,)));
            match copied {
                Ok(object) => Own {
                    object: object.unbind(),
                    handle: self.handle.clone_ref(py),
                    held: self.held.clone(),
                    mirror: self.mirror.clone(),
                },
                Err(exception) => raise(py, exception),
            }
        })
    }
}

/// What a method's call came to.
type Called<T, F> = Result<T, Error<<F as Flash>::Fault>>;

impl<D> Own<D> {
    /// Calls a method with the medium in place. `data` is the page that the host writes; the page that was read last is
    /// handed to `answer` with what the method returned.
    fn call<F: Flash, T>(
        &mut self,
        flash: &mut F,
        data: Option<&F::User>,
        method: impl FnOnce(Python<'_>, &Bound<'_, PyAny>, &Py<Handle>) -> PyResult<Py<PyAny>>,
        answer: impl FnOnce(&Bound<'_, PyAny>, Option<Ppn>) -> PyResult<T>,
    ) -> Called<T, F>
    where
        F::User: HostData<Store = D>,
    {
        let mut end = End { fault: None, broken: None };
        let mut read = None;
        let Own { object, handle, held, mirror } = self;
        Python::attach(|py| {
            let mut scope: Scope<'_, F> = Scope { flash, data, held, read: &mut read, mirror, end: &mut end };
            let returned = FLASH.set(&mut scope, || method(py, object.bind(py), handle));
            if let Some(text) = end.broken {
                let own = returned.err().filter(|exception| errors::is_broken_rule(py, exception));
                raise(py, own.unwrap_or_else(|| errors::broken_rule(py, text)));
            }
            if let Some(fault) = end.fault {
                return Err(Error::Flash(fault));
            }
            match returned.and_then(|returned| answer(returned.bind(py), read)) {
                Ok(answer) => Ok(answer),
                Err(exception) if errors::is_device_full(py, &exception) => Err(Error::Full),
                Err(exception) => raise(py, exception),
            }
        })
    }
}

fn nothing(_: &Bound<'_, PyAny>, _: Option<Ppn>) -> PyResult<()> {
    Ok(())
}

impl<F: Flash> Ftl<F> for Own<<F::User as HostData>::Store> {
    fn read<'f>(&'f mut self, flash: &'f mut F, lpn: Lpn) -> Result<Option<&'f F::User>, Error<F::Fault>> {
        let found = self.call(
            flash,
            None,
            |py, object, handle| Ok(object.call_method1(intern!(py, "read"), (handle, lpn.0))?.unbind()),
            |returned, read| {
                if returned.is_none() {
                    return Ok(false);
                }
                let Ok(ppn) = returned.extract::<u32>() else {
                    let what = format!("read returned {}: must be the page that it read, or None", returned.repr()?);
                    return Err(PyTypeError::new_err(what));
                };
                match read {
                    Some(last) if last.0 == ppn => Ok(true),
                    Some(last) => Err(PyValueError::new_err(format!(
                        "read returned page {ppn}, but the host page that it read last is {last}"
                    ))),
                    None => Err(PyValueError::new_err(format!("read returned page {ppn}, but it read no host page"))),
                }
            },
        )?;
        Ok(found.then(|| self.held.get(0)))
    }

    fn write(&mut self, flash: &mut F, lpn: Lpn, data: &F::User) -> Result<(), Error<F::Fault>> {
        let call = |py: Python<'_>, object: &Bound<'_, PyAny>, handle: &Py<Handle>| {
            Ok(object.call_method1(intern!(py, "write"), (handle, lpn.0))?.unbind())
        };
        self.call(flash, Some(data), call, nothing)
    }

    fn trim(&mut self, flash: &mut F, first: Lpn, count: u32) -> Result<(), Error<F::Fault>> {
        let call = |py: Python<'_>, object: &Bound<'_, PyAny>, handle: &Py<Handle>| {
            Ok(object.call_method1(intern!(py, "trim"), (handle, first.0, count))?.unbind())
        };
        self.call(flash, None, call, nothing)
    }

    fn flush(&mut self, flash: &mut F) -> Result<(), Error<F::Fault>> {
        let call = |py: Python<'_>, object: &Bound<'_, PyAny>, handle: &Py<Handle>| {
            Ok(object.call_method1(intern!(py, "flush"), (handle,))?.unbind())
        };
        self.call(flash, None, call, nothing)
    }

    fn idle(&mut self, flash: &mut F, copies: u32) -> Result<bool, Error<F::Fault>> {
        let call = |py: Python<'_>, object: &Bound<'_, PyAny>, handle: &Py<Handle>| {
            Ok(object.call_method1(intern!(py, "idle"), (handle, copies))?.unbind())
        };
        self.call(flash, None, call, |returned, _| returned.is_truthy())
    }
}

impl<F: Flash> Inspect<F> for Own<<F::User as HostData>::Store>
where
    <F::User as HostData>::Store: Clone,
{
    fn memory(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    fn reset_counters(&mut self) {}

    fn erase_counts(&self) -> &[u32] {
        &self.mirror.erases
    }

    fn free_blocks(&self) -> u32 {
        self.mirror.written.iter().filter(|&&written| written == 0).count() as u32
    }

    fn audit(&self, flash: &mut F) -> Result<(), String> {
        // An audit changes nothing: it is done by a copy.
        let call = |py: Python<'_>, object: &Bound<'_, PyAny>, handle: &Py<Handle>| {
            Ok(object.call_method1(intern!(py, "audit"), (handle,))?.unbind())
        };
        let told = |returned: &Bound<'_, PyAny>, _: Option<Ppn>| {
            if returned.is_none() { Ok(None) } else { returned.extract::<String>().map(Some) }
        };
        match self.clone().call(flash, None, call, told) {
            Ok(None) => Ok(()),
            Ok(Some(what)) => Err(what),
            Err(error) => Err(error.to_string()),
        }
    }

    fn save(&self) -> Vec<u8> {
        Vec::new()
    }
}

impl Foreign {
    /// An object of the scheme, with the medium in place while `method` begins it.
    fn begin<F: Flash>(
        &self,
        flash: &mut F,
        logical_pages: u32,
        method: &str,
    ) -> Result<Own<<F::User as HostData>::Store>, BuildError<F::Fault>> {
        let g = *flash.geometry();
        let usable = u64::from(g.blocks_per_die.saturating_sub(self.spare_blocks)) * u64::from(g.die_count());
        if usable * u64::from(g.pages_per_block) < u64::from(logical_pages) {
            let what = format!(
                "{} keeps {} blocks of each die for itself, which leaves {usable} blocks for {logical_pages} pages",
                self.row.name, self.spare_blocks
            );
            return Err(ConfigError { key: "spare", what, fix: "give more spare space".to_owned() }.into());
        }
        let mut own = Python::attach(|py| {
            let made = self.make.call0(py).and_then(|object| Ok((object, Py::new(py, Handle)?)));
            let (object, handle) = made.unwrap_or_else(|exception| raise(py, exception));
            let held = <F::User as HostData>::Store::new(1, g.page_bytes as usize);
            let blocks = g.block_count() as usize;
            let mirror = Mirror { erases: vec![0; blocks], written: vec![0; blocks], programs: 0 };
            Own { object, handle, held, mirror }
        });
        let call = |_: Python<'_>, object: &Bound<'_, PyAny>, handle: &Py<Handle>| {
            Ok(object.call_method1(method, (handle, logical_pages))?.unbind())
        };
        own.call(flash, None, call, nothing)?;
        Ok(own)
    }
}

impl<F: Flash> Recipe<F> for Foreign
where
    <F::User as HostData>::Store: Clone,
{
    type Scheme = Own<<F::User as HostData>::Store>;

    fn format(&self, flash: &mut F, logical_pages: u32, _: &Settings) -> Result<Self::Scheme, BuildError<F::Fault>> {
        self.begin(flash, logical_pages, "format")
    }

    fn mount(
        &self,
        flash: &mut F,
        logical_pages: u32,
        _: &Settings,
    ) -> Result<(Self::Scheme, MountReport), BuildError<F::Fault>> {
        Ok((self.begin(flash, logical_pages, "mount")?, MountReport::default()))
    }

    /// Never called: a check of a scheme in Python tests no claim of RAM, and saves none.
    fn restore(&self, _: &Geometry, _: u32, _: &Settings, _: &[u8]) -> Self::Scheme {
        unreachable!("the state of a scheme in Python is not saved")
    }
}

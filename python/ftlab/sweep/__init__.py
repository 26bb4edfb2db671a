"""Sweeps: many runs, on the cores of a laptop or on a cluster, each kept when it ends.

>>> import ftlab
>>> device = "agrawal08:capacity=64MiB,spare=20%"
>>> grid = {"workload": "zipf:requests=1k", "schemes": ["page", "dftl"], "seed": [1, 2], "device": device}
>>> ftlab.sweep(grid, store="runs/")
4 runs in runs: 4 run now, 0 found, 0 failed
>>> ftlab.sweep(grid, store="runs/")
4 runs in runs: 0 run now, 4 found, 0 failed
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ftlab import _native
from ftlab.errors import InputError, Interrupted
from ftlab.progress import Progress, Tell
from ftlab.report import Report
from ftlab.sweep import grid as grids
from ftlab.sweep.store import Store
from ftlab.table import Table


class SweepStopped(RuntimeError):
    """The workers are gone: a cluster vanished, a pool broke. What was finished is stored; run the sweep again with
    workers, and it does the rest.

    >>> import ftlab
    >>> issubclass(ftlab.SweepStopped, RuntimeError)
    True
    """


class Sweep:
    """What became of a sweep: ``ran`` runs that it did, ``found`` that were stored already, ``failed`` that have no
    result.

    >>> import ftlab
    >>> done = ftlab.sweep({"workload": "uniform:requests=1k", "schemes": "page", "seed": [1, 2]}, store="two/")
    >>> done.ran, done.found, done.failed
    (2, 0, 0)
    >>> done.report(done.keys[0]).results["scheme"]
    ['page']
    """

    def __init__(self, store: Store, runs: Sequence[grids.Run], ran: int, found: int) -> None:
        self._store = store
        self.store = store.path
        self.keys = [run.key for run in runs]
        self.ran = ran
        self.found = found

    @property
    def failures(self) -> Table:
        """Runs without a result: key, message, attempts, plan."""
        noted = self._store.failures()
        rows = [noted[key] for key in self.keys if key in noted]
        return Table.from_rows([row | {"plan": str(row["plan"])} for row in rows])

    @property
    def failed(self) -> int:
        """How many failed."""
        return len(self.failures)

    def report(self, key: str) -> Report:
        """One run's whole report."""
        return self._store.report(key)

    def load(self, engine: str | None = None) -> Any:
        """The results of this sweep's runs as one table; see ``ftlab.load``."""
        return _loaded(self._store, [key for key in self.keys if self._store.has(key)], engine)

    def __repr__(self) -> str:
        what = f"{self.ran} run now, {self.found} found, {self.failed} failed"
        return f"{len(self.keys)} runs in {_shown(self.store)}: {what}"


def sweep(
    grid: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    executor: Any = None,
    store: str | os.PathLike[str] = "runs/",
    *,
    retries: int = 0,
    retry_failed: bool = False,
    progress: bool | Tell | None = None,
) -> Sweep:
    """Does every run of a grid that the store lacks.

    ``grid`` has the keywords of ``compare``. A list is an axis, also one within ``set``; a tuple is one value. Every
    combination is a run of its own; a list of grids stands for the runs of all of them. Keys that a scheme lacks
    (``cache``, ``gc``, ``set`` of another scheme) are left out of its runs.

    ``executor`` is any executor of ``concurrent.futures``, or a ``dask.distributed.Client``; without one, runs are on a
    thread for each core. A run is keyed by a hash of its plan, seed and files and of the version of ftlab. It is one
    Parquet file, written whole or not at all, by the worker if that sees the directory.

    A run that fails is kept with its message. It is tried ``retries`` more times, and by a later sweep only with
    ``retry_failed``. Ctrl-C raises ``ftlab.Interrupted`` with the ``Sweep`` so far.

    >>> import ftlab
    >>> grid = {"workload": "zipf:requests=1k", "schemes": ["page", "dftl"], "cache": ["2KiB", "4KiB"],
    ...         "device": "agrawal08:capacity=64MiB,spare=20%"}
    >>> ftlab.sweep(grid, store="caches/")
    3 runs in caches: 3 run now, 0 found, 0 failed
    """
    from ftlab.sweep.executors import chosen

    if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
        raise InputError(f"retries: {retries!r} is no number of times; give 0 or more")
    for needed in ("pyarrow", "pyarrow.parquet"):
        try:
            __import__(needed)
        except ImportError:
            raise ImportError("a sweep needs pyarrow: pip install 'ftlab[sweeps]'") from None
    runs, things = grids.runs(grid)
    workers = chosen(executor)
    kept = Store.begin(store)
    stored, failed = set(kept.keys()), set() if retry_failed else set(kept.failures())
    missing = [run for run in runs if run.key not in stored and run.key not in failed]
    found = sum(run.key in stored for run in runs)
    if not missing:
        workers.close([], False)
        return Sweep(kept, runs, 0, found)
    with _Bar(progress) as bar:
        ran = _drive(missing, things, workers, kept, retries, bar.tell, lambda ran: Sweep(kept, runs, ran, found))
    return Sweep(kept, runs, ran, found)


class _Bar(Progress):
    """A bar that counts runs."""

    def _show(self, label: str, done: int, total: int | None) -> None:
        if self._bar is None:
            self._bar = self._make(total=total, unit=" runs", desc=label)
        self._bar.update(done - self._bar.n)


def _drive(
    missing: Sequence[grids.Run],
    things: grids.Things,
    workers: Any,
    store: Store,
    retries: int,
    tell: Tell | None,
    so_far: Callable[[int], Sweep],
) -> int:
    """Has the runs done, and stores what workers could not store themselves. Returns how many are stored now."""
    import queue

    from ftlab.sweep.work import Job

    ended: queue.SimpleQueue[Any] = queue.SimpleQueue()
    pending: dict[Any, tuple[grids.Run, int]] = {}
    done = ran = 0
    whole = False

    def stored() -> str:
        count = sum(store.has(run.key) for run in missing)
        return f"{count} of {len(missing)} runs are done and stored in {_shown(store.path)}"

    def stopped(why: object) -> SweepStopped:
        reason = next(iter(str(why).splitlines()), "") or type(why).__name__
        again = "run the sweep again with workers, and it does the others"
        return SweepStopped(f"{workers.name} is lost ({reason}): {stored()}; {again}")

    try:
        try:
            objects = workers.prepare(store, things, missing)
        except workers.lost as error:
            raise stopped(error) from error

        def send(run: grids.Run, attempt: int) -> None:
            names = {digest: trace.name for digest, trace in things.traces.items()}
            job = Job(run, store.path, store.identity, _native.VERSION, objects, names)
            try:
                future = workers.submit(job, attempt)
            except (*workers.lost, RuntimeError) as error:
                raise stopped(error) from error
            pending[future] = (run, attempt)
            future.add_done_callback(ended.put)

        for run in missing:
            send(run, 1)
        while pending:
            try:
                future = ended.get(timeout=1.0)
            except queue.Empty:
                if trouble := workers.trouble():
                    raise stopped(trouble) from None
                continue
            run, attempt = pending.pop(future)
            try:
                status, text, trace = future.result()
            except workers.died as error:
                status, text, trace = "failed", f"{type(error).__name__}: {error}", ""
            except workers.lost as error:
                raise stopped(error) from error
            except Exception as error:
                raise stopped(f"it cannot do a run: {type(error).__name__}: {error}") from error
            if status == "refused":
                raise SweepStopped(f"{text}; {stored()}")
            if status == "failed" and attempt <= retries:
                send(run, attempt + 1)
                continue
            if status == "failed":
                store.put_failure(run.key, run.plan, text, trace, attempt)
            else:
                if status == "report":
                    store.put(run.key, run.plan, Report.from_json(text, run.key))
                ran += 1
            done += 1
            if tell:
                tell("sweeping", done, len(missing))
        whole = True
        return ran
    except KeyboardInterrupt as error:
        raise Interrupted(so_far(ran)) from error
    finally:
        workers.close(list(pending), not whole)


def load(store: str | os.PathLike[str] = "runs/", engine: str | None = None) -> Any:
    """All results of a store as one table: a Polars data frame, or with ``engine="duckdb"`` a relation of DuckDB.
    Without ``engine`` it is whichever of them is installed, Polars first. Columns are ``run``, the plan
    (``plan.cache``) and those of ``Report.results``; what a run lacks is null.

    >>> import ftlab
    >>> grid = {"workload": "zipf:requests=1k", "schemes": ["page", "dftl"], "seed": range(1, 4)}
    >>> done = ftlab.sweep(grid, store="seeds/")
    >>> table = ftlab.load("seeds/")
    >>> table.shape[0], table["plan.schemes"].unique().sort().to_list()
    (6, ['dftl', 'page'])
    """
    kept = Store.open(store)
    return _loaded(kept, kept.keys(), engine)


def _loaded(store: Store, keys: Sequence[str], engine: str | None) -> Any:
    from importlib.util import find_spec

    if engine is None:
        engine = next((name for name in ("polars", "duckdb") if find_spec(name)), None)
        if engine is None:
            raise ImportError("to load a store needs polars or duckdb: pip install 'ftlab[sweeps]'")
    if engine not in ("polars", "duckdb"):
        raise InputError(f'engine: "{engine}" is unknown; give "polars" or "duckdb"')
    if not keys:
        raise InputError(f"{store.path} has no results: no run has ended well")
    files = [str(store.file(key)) for key in keys]
    if engine == "duckdb":
        import duckdb

        return duckdb.read_parquet(files, union_by_name=True)
    import polars
    import pyarrow.parquet

    tables: dict[Any, list[Any]] = {}
    for file in files:
        try:
            table = pyarrow.parquet.ParquetFile(file).read().replace_schema_metadata()
        except (OSError, pyarrow.ArrowException) as error:
            raise InputError(f"{file} is no run: {error}; remove it and run the sweep again") from error
        tables.setdefault(table.schema.to_string(), []).append(table)
    # Tables of one shape are joined at once: there are far fewer shapes than runs.
    frames = [polars.from_arrow(pyarrow.concat_tables(alike)) for alike in tables.values()]
    frame = polars.concat(frames, how="diagonal_relaxed")
    plan = [name for name in frame.columns if name.startswith("plan.")]
    others = [name for name in frame.columns if name != "run" and name not in plan]
    return frame.select("run", *plan, *others).sort(*plan, "run", "scheme", nulls_last=True)


def _shown(path: Path) -> str:
    """A path as short as it can be said."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)

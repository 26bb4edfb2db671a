"""Where runs run: threads, processes, somebody's executor, a Dask cluster."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import BrokenExecutor
from pathlib import Path
from typing import Any

from ftlab.errors import InputError
from ftlab.sweep import work
from ftlab.sweep.grid import Things, trace_bytes
from ftlab.sweep.store import Store

PATIENCE = 60.0
"""Seconds without any worker after which a cluster that had one is given up."""


class WorkerDied(RuntimeError):
    """The process of a run died each time that it was tried."""


class Processes(concurrent.futures.Executor):
    """Worker processes of which one may die: only its own run begins again, in a new process. A ``ProcessPoolExecutor``
    that loses a worker gives up all runs under way.

    >>> from ftlab.sweep.executors import Processes
    >>> with Processes(1) as executor:
    ...     executor.submit(abs, -3).result()
    3
    """

    def __init__(self, processes: int | None = None, tries: int = 3) -> None:
        self._tries = tries
        self._own = threading.local()
        self._pools: set[concurrent.futures.ProcessPoolExecutor] = set()
        self._threads = concurrent.futures.ThreadPoolExecutor(processes or os.cpu_count())

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> concurrent.futures.Future[Any]:
        """Runs a function in a process."""
        return self._threads.submit(self._call, fn, args, kwargs)

    def _call(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        for _ in range(self._tries):
            pool = getattr(self._own, "pool", None)
            if pool is None:
                # A forked copy of a process with threads may hang.
                context = multiprocessing.get_context("spawn")
                pool = self._own.pool = concurrent.futures.ProcessPoolExecutor(1, mp_context=context)
                self._pools.add(pool)
            try:
                return pool.submit(fn, *args, **kwargs).result()
            except BrokenExecutor:
                self._pools.discard(pool)
                pool.shutdown(wait=False)
                self._own.pool = None
        raise WorkerDied(f"its process died {self._tries} times")

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Ends the processes."""
        self._threads.shutdown(wait=wait, cancel_futures=cancel_futures)
        for pool in self._pools:
            pool.shutdown(wait=wait, cancel_futures=cancel_futures)


class Plain:
    """Runs on an executor of ``concurrent.futures``; without one, on a thread for each core, for the interpreter's
    lock is free while a run is under way."""

    def __init__(self, executor: concurrent.futures.Executor | None) -> None:
        self._mine = executor is None
        self._stop = threading.Event()
        self._executor = executor or concurrent.futures.ThreadPoolExecutor(os.cpu_count(), "ftlab-sweep")
        self._same_process = isinstance(self._executor, concurrent.futures.ThreadPoolExecutor)
        self.lost = (BrokenExecutor, concurrent.futures.CancelledError)
        self.died: tuple[type[BaseException], ...] = (WorkerDied,)
        self.name = "the executor"

    def prepare(self, store: Store, things: Things, runs: list[Any]) -> bytes | None:
        """Makes traces, policies and schemes known to the workers; what is to travel with each run is returned."""
        if self._same_process:
            work.known_here(things.traces, things.objects)
            return None
        for digest, trace in things.traces.items():
            store.put_trace(digest, trace_bytes(trace))
        return work.packed(things.objects)

    def submit(self, job: work.Job, attempt: int) -> Any:
        """Begins a run."""
        if self._same_process:
            return self._executor.submit(work.work, job, None, self._stop.is_set)
        return self._executor.submit(work.work, job)

    def trouble(self) -> str | None:
        """What is wrong with the workers, if anything is."""
        return None

    def close(self, pending: list[Any], interrupted: bool) -> None:
        """Ends what is under way, if the sweep ends before it."""
        if interrupted:
            self._stop.set()
            for future in pending:
                future.cancel()
        if self._mine:
            self._executor.shutdown(cancel_futures=True)


class Dask:
    """Runs on the cluster of a ``dask.distributed.Client``."""

    def __init__(self, client: Any) -> None:
        import distributed

        self._client = client
        self._data: dict[str, Any] = {}
        self._alone_since: float | None = None
        self._had_workers = False
        cancelled = (concurrent.futures.CancelledError, distributed.client.FutureCancelledError)
        self.lost = (*cancelled, OSError, TimeoutError)
        self.died = (distributed.KilledWorker,)
        self.name = f"the cluster at {client.scheduler.address}" if client.scheduler else "the cluster"

    def prepare(self, store: Store, things: Things, runs: list[Any]) -> bytes | None:
        """Sends traces to workers that do not see the store's directory: once, by digest."""
        for digest, trace in things.traces.items():
            store.put_trace(digest, trace_bytes(trace))
        files = {digest: path for run in runs for path, digest in run.files.items()}
        if things.traces or files:
            self._client.wait_for_workers(1)
            if not all(self._client.run(work.sees, store.path, store.identity).values()):
                paths = {digest: store.trace_file(digest) for digest in things.traces} | files
                for digest, path in paths.items():
                    data = Path(path).read_bytes()
                    name = f"trace-{digest}"
                    self._data[digest] = self._client.scatter({name: data}, broadcast=True)[name]
        return work.packed(things.objects)

    def submit(self, job: work.Job, attempt: int) -> Any:
        """Begins a run."""
        names = {*work._named(job.run.plan), *job.run.files.values()}
        data = {digest: future for digest, future in self._data.items() if digest in names}
        key = f"ftlab-{job.run.key}-{attempt}-{time.monotonic_ns():x}"
        future = self._client.submit(work.work, job, data or None, key=key, pure=False)
        future.add_done_callback(self._worked)
        return future

    def _worked(self, future: Any) -> None:
        # Between short runs nobody looks whether there are workers; a run that ended says so.
        if future.status == "finished":
            self._had_workers = True

    def trouble(self) -> str | None:
        """What is wrong with the cluster, if anything is."""
        if self._client.status not in ("running", "connecting"):
            return f"the client is {self._client.status}"
        scheduler = self._client.scheduler_info(n_workers=-1)["workers"] if self._client.status == "running" else {}
        if scheduler:
            self._had_workers, self._alone_since = True, None
        elif self._had_workers or self._client.status == "connecting":
            self._alone_since = self._alone_since or time.monotonic()
            if time.monotonic() - self._alone_since > PATIENCE:
                what = "has no workers any more" if self._client.status == "running" else "does not answer"
                return f"it {what}, for {PATIENCE:.0f} s"
        return None

    def close(self, pending: list[Any], interrupted: bool) -> None:
        """Ends what is under way, if the sweep ends before it."""
        self._data.clear()
        if interrupted and pending and self._client.status == "running":
            self._client.cancel(pending, force=True)


def chosen(executor: Any) -> Plain | Dask:
    """What somebody gave as an executor."""
    if executor is None or isinstance(executor, concurrent.futures.Executor):
        return Plain(executor)
    distributed = sys.modules.get("distributed")
    if distributed is not None and isinstance(executor, distributed.Client):
        if executor.asynchronous:
            raise InputError("executor: the client is asynchronous; give one made without asynchronous=True")
        if executor.status != "running":
            raise InputError(f"executor: the client is {executor.status}; give one that is connected")
        return Dask(executor)
    kind = type(executor).__name__
    raise InputError(f"executor: {kind} is none; give a concurrent.futures executor or a dask.distributed.Client")

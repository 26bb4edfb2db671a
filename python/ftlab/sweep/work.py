"""What a worker does: one run, in whatever process and on whatever machine."""

from __future__ import annotations

import os
import pickle
import tempfile
import threading
import traceback
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ftlab import _native
from ftlab.experiments import compare
from ftlab.policy import VictimPolicy, victim_policy
from ftlab.report import Report
from ftlab.sweep.grid import Run, _digest_of_file
from ftlab.sweep.store import Store
from ftlab.trace import Trace

_TRACES_KEPT = 4


class Refused(Exception):
    """This worker cannot do any of the sweep's runs."""


class Stopped(Exception):
    """The sweep was given up while a run was under way."""


@dataclass(frozen=True)
class Job:
    """A run as it travels. ``objects`` are policies and schemes in Python, pickled; ``traces`` name those in memory."""

    run: Run
    store: Path
    identity: str
    version: str
    objects: bytes | None
    traces: Mapping[str, str]


_OBJECTS: dict[str, Any] = {}
_TRACES: OrderedDict[str, Trace] = OrderedDict()
_LOCK = threading.Lock()


def work(
    job: Job, data: Mapping[str, bytes] | None = None, stop: Callable[[], bool] | None = None
) -> tuple[str, str, str]:
    """Does a run and stores it, if this worker sees the store. Returns ``stored``; or ``report`` with its JSON, for the
    client to store; or ``failed`` with message and traceback; or ``refused`` with what is wrong with this worker."""
    run, store = job.run, Store(job.store, job.identity)
    try:
        if job.version != _native.VERSION:
            raise Refused(f"it has ftlab {_native.VERSION}, the sweep was begun by ftlab {job.version}")
        here = store.is_here()
        if here and store.has(run.key):
            return "stored", "", ""
        report = _report(job, data or {}, store, here, stop)
        if not here:
            return "report", report.to_json(), ""
        store.put(run.key, run.plan, report)
        return "stored", "", ""
    except Refused as error:
        return "refused", f"{_where()}: {error}", ""
    except Stopped:
        raise
    except Exception as error:
        return "failed", f"{type(error).__name__}: {error}", traceback.format_exc()


def _where() -> str:
    import socket

    return f"the worker on {socket.gethostname()}, process {os.getpid()}"


def _report(job: Job, data: Mapping[str, bytes], store: Store, here: bool, stop: Callable[[], bool] | None) -> Report:
    if job.objects is not None and not set(_named(job.run.plan)) <= _OBJECTS.keys() | job.traces.keys():
        _OBJECTS.update(unpacked(job.objects))

    def thing(value: Any) -> Any:
        if isinstance(value, dict) and "sha256" in value:
            digest = value["sha256"]
            if digest in _OBJECTS:
                return _OBJECTS[digest]
            return _trace(digest, value["name"], data, store, here)
        if isinstance(value, list):
            return [thing(item) for item in value]
        return value

    keys = {name.replace("-", "_"): thing(value) for name, value in job.run.plan.items()}
    if "workload" in keys:
        keys["workload"] = _found(keys["workload"], job.run.files, data)
    if "device" in keys:
        _found(keys["device"], job.run.files, data)

    def tell(*_: Any) -> None:
        if stop is not None and stop():
            raise Stopped

    # One thread for one run: the sweep has the other ones busy.
    return compare(**({"threads": 1} | keys), progress=tell if stop else False)


def _named(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [value["sha256"]] if "sha256" in value else [name for item in value.values() for name in _named(item)]
    return [name for item in value for name in _named(item)] if isinstance(value, list) else []


def _trace(digest: str, name: str, data: Mapping[str, bytes], store: Store, here: bool) -> Trace:
    """A trace that was given in memory; it is read once in each process."""
    with _LOCK:
        if digest not in _TRACES:
            import pyarrow

            if digest in data:
                source = pyarrow.BufferReader(data[digest])
            elif here:
                source = pyarrow.memory_map(str(store.trace_file(digest)))
            else:
                raise Refused(f"it sees neither {store.path} nor the trace {name}; let it share the directory")
            table = pyarrow.ipc.open_stream(source).read_all()
            _TRACES[digest] = Trace.from_arrays(table, name=name)
            while len(_TRACES) > _TRACES_KEPT:
                _TRACES.popitem(last=False)
        _TRACES.move_to_end(digest)
        return _TRACES[digest]


def _found(value: Any, files: Mapping[str, str], data: Mapping[str, bytes]) -> Any:
    """A workload with the files that it names as this worker sees them."""
    if isinstance(value, list):
        return [_found(item, files, data) for item in value]
    for path, digest in files.items():
        if not isinstance(value, str) or path not in value:
            continue
        if digest in data and not os.path.isfile(path):
            value = value.replace(path, _copied(path, digest, data[digest]))
        elif not os.path.isfile(path):
            raise Refused(f"it does not see {path}; put the file where all workers see it")
        elif _digest_of_file(path) != digest:
            raise Refused(f"{path} is another file there, or has changed since the sweep began")
    return value


def _copied(path: str, digest: str, data: bytes) -> str:
    """A trace file from elsewhere, kept in this machine's temporary directory under its own name."""
    directory = Path(tempfile.gettempdir()) / f"ftlab-{os.getuid()}-{digest[:32]}"
    copy = directory / os.path.basename(path)
    if not copy.is_file() or _digest_of_file(str(copy)) != digest:
        from ftlab.sweep.store import replace

        directory.mkdir(mode=0o700, exist_ok=True)
        replace(copy, data)
    return str(copy)


def packed(objects: Mapping[str, Any]) -> bytes | None:
    """Policies and schemes in Python, for another process."""
    if not objects:
        return None
    plain = {
        digest: ("policy", thing._function, thing.name) if isinstance(thing, VictimPolicy) else ("scheme", thing)
        for digest, thing in objects.items()
    }
    try:
        import cloudpickle as pickler
    except ImportError:
        import pickle as pickler
    try:
        return pickler.dumps(plain)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        from ftlab.errors import InputError

        raise InputError(f"a policy or scheme cannot go to another process ({error}); install cloudpickle") from error


def unpacked(data: bytes) -> dict[str, Any]:
    """What ``packed`` made."""
    return {
        digest: victim_policy(what[0], name=what[1]) if kind == "policy" else what[0]
        for digest, (kind, *what) in pickle.loads(data).items()
    }


def known_here(traces: Mapping[str, Trace], objects: Mapping[str, Any]) -> None:
    """Spares workers in this very process the way through bytes."""
    _OBJECTS.update(objects)
    _TRACES.update(traces)


def sees(store: Path, identity: str) -> bool:
    """Whether a worker sees the store."""
    return Store(store, identity).is_here()

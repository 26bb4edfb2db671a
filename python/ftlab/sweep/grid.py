"""From a grid to plans: which runs a sweep has, and what each is called."""

from __future__ import annotations

import difflib
import functools
import hashlib
import inspect
import itertools
import json
import math
import os
import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ftlab import _native
from ftlab.errors import InputError
from ftlab.policy import VictimPolicy
from ftlab.scheme import Scheme
from ftlab.trace import Trace

LAYOUT = 1
"""Of the store and of the keys of its runs."""

_OUTPUTS = {"json", "csv", "parquet", "html", "per-request", "verbose"}
_NOT_FOR_ALL = {"cache": "cache-bytes", "gc": "gc"}


@dataclass(frozen=True)
class Run:
    """One run: its key, its plan as JSON has it, and the digests of the files that the plan names."""

    key: str
    plan: dict[str, Any]
    files: dict[str, str]


@dataclass
class Things:
    """What plans name and JSON cannot hold, by digest."""

    traces: dict[str, Trace] = field(default_factory=dict)
    objects: dict[str, Any] = field(default_factory=dict)


def runs(grid: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> tuple[list[Run], Things]:
    """The runs of a grid, each once, in the grid's order."""
    things = Things()
    made: dict[str, Run] = {}
    for one in [grid] if isinstance(grid, Mapping) else grid:
        if not isinstance(one, Mapping):
            raise InputError(f"grid: {type(one).__name__} is no dictionary of keywords and their values")
        for point in _points(one):
            run = _run(_plan(point, things))
            made.setdefault(run.key, run)
    if not made:
        raise InputError("grid: it has no runs")
    return list(made.values()), things


def columns(plan: Mapping[str, Any]) -> dict[str, Any]:
    """A plan as columns of the table: ``plan.cache``, ``plan.set.dftl.gc-low``."""

    def flat(name: str, value: Any) -> Iterator[tuple[str, Any]]:
        if isinstance(value, dict) and "sha256" in value:
            yield name, value["name"]
        elif isinstance(value, dict):
            for key, item in value.items():
                yield from flat(f"{name}.{key}", item)
        elif isinstance(value, list):
            yield name, " + ".join(str(dict(flat("", item)).get("", item)) for item in value)
        else:
            yield name, value

    return {name: value for key, item in plan.items() for name, value in flat(f"plan.{key}", item)}


def _points(grid: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    choices = []
    for name, value in grid.items():
        key = _known(name)
        if value is not None:
            choices.append([(key, one) for one in _alternatives(key, value)])
    keys = [alternatives[0][0] for alternatives in choices]
    for key in keys:
        if keys.count(key) > 1:
            raise InputError(f"grid: {key} is given twice")
    for point in itertools.product(*choices):
        yield dict(point)


def _known(name: str) -> str:
    if not isinstance(name, str):
        raise InputError(f"grid: {name!r} is no keyword")
    key = name.replace("_", "-")
    known = sorted(set(_native.keys()))
    if key not in known:
        near = difflib.get_close_matches(key, known, 1)
        hint = f'; did you mean "{near[0].replace("-", "_")}"?' if near else ""
        raise InputError(f'grid: unknown key "{name}"{hint}')
    if key in _OUTPUTS:
        raise InputError(f"grid: {key} is for one comparison; a sweep keeps its results in its store")
    return "workload" if key in ("trace", "flow") else key


def _alternatives(key: str, value: Any, inside: bool = False) -> list[Any]:
    """The values along an axis: those of a list, and the combinations of lists within a dictionary."""
    if isinstance(value, Mapping):
        names = [str(name).replace("_", "-") for name in value]
        parts = [_alternatives(f"{key}.{name}", item) for name, item in zip(names, value.values(), strict=True)]
        return [dict(zip(names, choice, strict=True)) for choice in itertools.product(*parts)]
    if hasattr(value, "tolist") and not isinstance(value, Trace):
        value = value.tolist()
    if isinstance(value, (list, range)) and not inside:
        if not len(value):
            raise InputError(f"grid: {key} is an empty list")
        return [one for item in value for one in _alternatives(key, item, inside=True)]
    return [value]


def _plan(point: dict[str, Any], things: Things) -> dict[str, Any]:
    plan: dict[str, Any] = {}
    for key, value in point.items():
        if key == "workload" and isinstance(value, Trace) and value._given is None:
            for name, own in value._keys.items():
                if own is not None:
                    name = "workload" if name == "trace" else name
                    if name in plan or (name != "workload" and name in point):
                        raise InputError(f"grid: {name} is given twice: by the workload, and as a keyword")
                    plan[name] = _json(name, own, things)
        else:
            plan[key] = _json(key, value, things)
    return _without_the_inapplicable(plan)


def _json(key: str, value: Any, things: Things) -> Any:
    if (
        isinstance(value, VictimPolicy)
        or isinstance(value, Scheme)
        or (isinstance(value, type) and issubclass(value, Scheme))
    ):
        name, digest = _digest_of_code(value)
        things.objects[digest] = value
        return {"name": name, "sha256": digest}
    if isinstance(value, Trace):
        if value._given is None:
            return next(own for name, own in value._keys.items() if name in ("trace", "workload") and own)
        digest = _digest_of_trace(value)
        things.traces[digest] = value
        return {"name": value.name, "sha256": digest}
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, Mapping):
        return {str(name): _json(f"{key}.{name}", item, things) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json(key, item, things) for item in value]
    if value is None or not isinstance(value, (bool, int, float, str)):
        kind = type(value).__name__
        raise InputError(f"{key}: {kind} is not understood; give a number, a text, a list or a dictionary")
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"{key}: {value} is no number that it can have")
    return value


@functools.cache
def _parameters() -> dict[str, set[str]]:
    return {
        row["scheme"]: {parameter["parameter"] for parameter in row["parameters"]}
        for row in json.loads(_native.schemes())
    }


def _without_the_inapplicable(plan: dict[str, Any]) -> dict[str, Any]:
    """A plan without the values of axes that none of its schemes has: as in a comparison, a page map runs once and not
    once for each size of a cache that it lacks."""
    if "schemes" not in plan:
        return plan
    given = plan["schemes"] if isinstance(plan["schemes"], list) else [plan["schemes"]]
    names = [name for one in given for name in (one["name"] if isinstance(one, dict) else str(one)).split(",")]
    known = _parameters()
    in_python = {one["name"] for one in given if isinstance(one, dict)}
    if not set(names) <= known.keys() | in_python:
        return plan
    have = set().union(*(known.get(name, set()) for name in names))
    plan = {key: value for key, value in plan.items() if key not in _NOT_FOR_ALL or _NOT_FOR_ALL[key] in have}
    if isinstance(plan.get("set"), dict):
        plan["set"] = {name: value for name, value in plan["set"].items() if name in names or name not in known}
        if not plan["set"]:
            del plan["set"]
    return plan


def _run(plan: dict[str, Any]) -> Run:
    files = {name: _digest_of_file(name) for name in sorted(_files(plan))}
    # Where a file lies does not matter, what it holds does.
    said = json.dumps(plan, sort_keys=True)
    for name, digest in files.items():
        said = said.replace(json.dumps(name)[1:-1], f"{os.path.basename(name)}#{digest}")
    told = json.dumps([LAYOUT, _native.VERSION, said])
    return Run(hashlib.sha256(told.encode()).hexdigest()[:32], plan, files)


def _files(plan: dict[str, Any]) -> set[str]:
    """Files that a plan names: traces, device files, prefixes of imitations."""
    found = set()
    for key in ("workload", "device"):
        values = plan.get(key, [])
        for value in values if isinstance(values, list) else [values]:
            if isinstance(value, str):
                spec = value.removeprefix("twin-of:").split(",")[0] if value.startswith("twin-of:") else value
                heads = {spec, spec.split(":")[0], spec.split("@")[0]}
                found |= {head for head in heads if head and os.path.isfile(head)}
    return found


def _digest_of_file(path: str) -> str:
    status = os.stat(path)
    return _digest_as_it_is(path, status.st_size, status.st_mtime_ns)


@functools.lru_cache(maxsize=1024)
def _digest_as_it_is(path: str, size: int, changed: int) -> str:
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error


def _digest_of_trace(trace: Trace) -> str:
    if not hasattr(trace, "_digest"):
        trace._digest = hashlib.sha256(trace_bytes(trace)).hexdigest()  # type: ignore[attr-defined]
    return trace._digest  # type: ignore[attr-defined]


def trace_bytes(trace: Trace) -> bytes:
    """The requests as an Arrow stream."""
    import pyarrow

    table = pyarrow.table(trace).combine_chunks()
    if not trace.profile["timed"]:
        # Zeros stand there, and would be taken for times.
        table = table.drop_columns("time_ns")
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def _digest_of_code(thing: Any) -> tuple[str, str]:
    """A name for code in Python, and a digest of its text and of what it holds."""
    if isinstance(thing, VictimPolicy):
        name, code, kind = thing.name, thing._function, "policy"
    else:
        cls = thing if isinstance(thing, type) else type(thing)
        name, code, kind = cls.name or cls.__name__, thing, "scheme"
    texts, state = [], b""
    try:
        if not (inspect.isfunction(code) or inspect.isclass(code)):
            state = pickle.dumps(sorted(vars(code).items()), protocol=4)
            code = type(code)
        for part in inspect.getmro(code) if inspect.isclass(code) else [code]:
            if part not in (object, Scheme):
                texts.append(inspect.getsource(part))
    except (OSError, TypeError, pickle.PicklingError, AttributeError) as error:
        raise InputError(
            f"{kind} {name}: its code cannot be read ({error}), so its runs cannot be told from those of another; "
            "put it into a file or a notebook"
        ) from error
    told = "\0".join([kind, name, *texts]).encode()
    return name, hashlib.sha256(told + b"\0" + state).hexdigest()

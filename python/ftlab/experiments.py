"""Experiments: what ``ftlab compare`` does, from Python."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

from ftlab import _keys, _native
from ftlab.errors import InputError, Interrupted
from ftlab.policy import VictimPolicy
from ftlab.progress import Progress, Tell
from ftlab.report import Report
from ftlab.scheme import foreign
from ftlab.trace import Trace

Workload = str | os.PathLike[str] | Trace


def compare(
    workload: Workload | Sequence[Workload] | None = None,
    schemes: Sequence[Any] | Any | None = None,
    *,
    cache: Sequence[str | int] | str | int | None = None,
    gc: Sequence[Any] | Any | None = None,
    device: str | os.PathLike[str] | None = None,
    fill: str | None = None,
    progress: bool | Tell | None = None,
    **keys: Any,
) -> Report:
    """Runs a workload through schemes and reports; the defaults are those of ``ftlab compare``.

    ``workload`` is a trace file, a specification such as ``"zipf:theta=0.9"``, a ``Trace``, or a list of these that
    share the device. ``keys`` are the flags of ``ftlab compare`` with underscores, as in an experiment
    file: ``seed=7``, ``host="closed:32"``, ``set={"dftl": {"gc_low": 4}}``. Progress is shown by tqdm where it is
    installed and somebody looks; ``progress`` forces that, forbids it, or is called with label, requests done and
    requests in all.

    Ctrl-C raises ``ftlab.Interrupted``, with what was finished.

    >>> import ftlab
    >>> report = ftlab.compare("uniform:requests=2k", ["page"], device="agrawal08:capacity=64MiB,spare=20%", seed=7)
    >>> report.data["seed"]
    7
    """
    given: dict[str, _native.Requests] = {}
    keys |= {"cache": cache, "gc": gc, "device": device, "fill": fill, "schemes": schemes}
    if isinstance(workload, (list, tuple)):
        _add(keys, "flow", [_named(one, given) for one in workload])
    elif isinstance(workload, Trace) and workload._given is None:
        for key, value in workload._keys.items():
            if value is not None:
                _add(keys, key, value)
    elif workload is not None:
        _add(keys, "trace", _named(workload, given))
    schemes_in_python: list[_native.Foreign] = []
    policies: list[_native.Policy] = []
    if schemes is not None:
        keys["schemes"] = [_scheme(one, schemes_in_python) for one in _many(schemes)]
    if gc is not None:
        keys["gc"] = [_policy(one, policies) for one in _many(gc)]
    with Progress(progress) as bar:
        report, interrupted = _native.compare(
            _keys.lines(keys), list(given.items()), schemes_in_python, policies, bar.tell
        )
    made = None if report is None else Report(report)
    if isinstance(interrupted, KeyboardInterrupt):
        raise Interrupted(made) from interrupted
    if interrupted is not None:
        raise interrupted
    if made is None:
        raise Interrupted(None)
    return made


def keys() -> list[str]:
    """The keywords that ``compare`` takes: the keys of an experiment file, which are the flags of ``ftlab compare``.

    >>> import ftlab
    >>> "time_scale" in ftlab.keys()
    True
    """
    return [key.replace("-", "_") for key in sorted(_native.keys())]


def _many(items: Any) -> list[Any]:
    return list(items) if isinstance(items, (list, tuple)) else [items]


def _scheme(scheme: Any, own: list[_native.Foreign]) -> Any:
    made = foreign(scheme)
    if made is None:
        return scheme
    if any(other.name == made.name and other is not made for other in own):
        raise InputError(f"schemes: two are called {made.name}; give one another `name`")
    own.append(made)
    return made.name


def _policy(policy: Any, own: list[_native.Policy]) -> Any:
    if not isinstance(policy, VictimPolicy):
        if callable(policy):
            raise InputError("gc: decorate the function with ftlab.victim_policy")
        return policy
    if policy.name in _built_in() or any(other.name == policy.name and other is not policy._native for other in own):
        raise InputError(f"gc: two policies are called {policy.name}; give one another name")
    own.append(policy._native)
    return policy.name


def _built_in() -> set[str]:
    """The policies of the compiled half: what the parameter ``gc`` of ``page`` may be."""
    [page] = [row for row in json.loads(_native.schemes()) if row["scheme"] == "page"]
    [row] = [parameter for parameter in page["parameters"] if parameter["parameter"] == "gc"]
    return set(row["range"].split(", "))


def _add(keys: dict[str, Any], key: str, value: Any) -> None:
    if keys.get(key.replace("-", "_")) is not None:
        raise InputError(f"{key} is given twice: by the workload, and as a keyword")
    keys[key] = value


def _named(workload: Any, given: dict[str, _native.Requests]) -> str:
    """What the workload is called in an experiment file; requests in memory are noted under that name."""
    if isinstance(workload, (str, os.PathLike)):
        return os.fspath(workload)  # type: ignore[return-value]
    if not isinstance(workload, Trace):
        kind = type(workload).__name__
        raise InputError(f"workload: {kind} is no workload; give a path, a specification or a Trace")
    if workload._given is None:
        others = {key for key, value in workload._keys.items() if value is not None} - {"trace", "workload"}
        if others:
            raise InputError(f"workload: {', '.join(sorted(others))} cannot be given for one flow among several")
        return workload._keys.get("trace") or workload._keys["workload"]
    name = workload.name
    while name in given and given[name] is not workload._given:
        name += "'"
    given[name] = workload._given
    return name

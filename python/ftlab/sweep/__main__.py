"""``python -m ftlab.sweep experiment.toml``: a sweep from a file."""

from __future__ import annotations

import argparse
import os
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ftlab.errors import InputError, Interrupted
from ftlab.sweep import Sweep, SweepStopped, sweep
from ftlab.sweep.executors import Processes


def main(words: Sequence[str] | None = None) -> int:
    """Does it. 0: every run is stored; 1: some failed; 2: what was asked for is wrong; 3: the workers are gone."""
    arguments = _parser().parse_args(words)
    try:
        done = _swept(read(arguments.experiment), arguments)
    except (InputError, ImportError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except SweepStopped as error:
        print(f"error: {error}", file=sys.stderr)
        return 3
    except Interrupted as error:
        print(f"interrupted; {error.report}", file=sys.stderr)
        return 130
    print(done)
    for row in done.failures:
        print(f"failed after {row['attempts']} attempts: {row['plan']}\n  {row['message']}", file=sys.stderr)
    return 1 if done.failed else 0


def read(path: str) -> dict[str, Any]:
    """The grid of an experiment file: a list is an axis. Files that it names are beside it."""
    try:
        with open(path, "rb") as file:
            grid = tomllib.load(file)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: {error}") from error
    beside = Path(path).absolute().parent
    workloads = [key for key in ("trace", "workload", "flow") if key in grid]
    if len(workloads) > 1:
        raise InputError(f"{path}: {' and '.join(workloads)} cannot be given together")
    for key in (*workloads, "device"):
        if key in grid:
            grid[key] = _beside(grid[key], beside, must=key == "trace")
    if isinstance(grid.get("flow"), list) and not any(isinstance(one, list) for one in grid["flow"]):
        # The flows of one device are one workload.
        grid["flow"] = tuple(grid["flow"])
    return grid


def _beside(value: Any, directory: Path, must: bool) -> Any:
    if isinstance(value, list):
        return [_beside(one, directory, must) for one in value]
    if not isinstance(value, str):
        return value
    for path in (value, value.split(":")[0], value.split("@")[0]):
        if (directory / path).is_file():
            return str(directory / path) + value[len(path) :]
    if must:
        raise InputError(f"trace: there is no file {directory / value}")
    return value


def _swept(grid: dict[str, Any], arguments: argparse.Namespace) -> Sweep:
    asked = {"store": arguments.store, "retries": arguments.retries, "retry_failed": arguments.retry_failed}
    if arguments.scheduler is None:
        with Processes(arguments.processes) as executor:
            return sweep(grid, executor, **asked)
    try:
        from distributed import Client
    except ImportError:
        raise ImportError("--scheduler needs Dask: pip install 'ftlab[dask]'") from None
    try:
        client = Client(arguments.scheduler, timeout=arguments.timeout)
    except (OSError, TimeoutError, ValueError) as error:
        raise InputError(f"--scheduler: nobody answers at {arguments.scheduler} ({error})") from error
    with client:
        workers = len(client.scheduler_info(n_workers=-1)["workers"])
        print(f"{workers} workers; Dask's dashboard: {client.dashboard_link}", file=sys.stderr)
        return sweep(grid, client, **asked)


def _number(least: int) -> Any:
    def number(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"'{text}' is no number from {least} on")
        return int(text)

    return number


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m ftlab.sweep", description="Does the runs that a store lacks.")
    parser.add_argument("experiment", help="a TOML file with the keys of `ftlab compare`; a list is an axis")
    parser.add_argument("--store", default="runs", help="directory of the results (default: %(default)s)")
    workers = parser.add_mutually_exclusive_group()
    workers.add_argument("--scheduler", metavar="ADDRESS", help="Dask's scheduler, such as tcp://10.0.0.1:8786")
    workers.add_argument(
        "--processes", type=_number(1), default=os.cpu_count(), help="worker processes here (default: one per core)"
    )
    parser.add_argument("--timeout", type=_number(1), default=10, help="seconds until the scheduler must answer")
    parser.add_argument("--retries", type=_number(0), default=0, help="further attempts at a run that fails")
    parser.add_argument("--retry-failed", action="store_true", help="also do runs that failed in an earlier sweep")
    return parser


if __name__ == "__main__":
    sys.exit(main())

"""The store: a directory with one Parquet file for each run that ended well, and a note on each that did not."""

from __future__ import annotations

import base64
import json
import os
import socket
import time
import uuid
import zlib
from pathlib import Path
from typing import Any

from ftlab import _native
from ftlab.errors import InputError
from ftlab.report import Report
from ftlab.sweep.grid import LAYOUT, columns

_HOUR = 3600.0


class Store:
    """``store.json`` says which version wrote it; ``KEY.parquet`` is a run, ``failed/KEY.json`` a failure and
    ``traces/DIGEST.arrow`` a trace that was given in memory."""

    def __init__(self, path: Path, identity: str) -> None:
        self.path = path
        self.identity = identity

    @classmethod
    def begin(cls, path: str | os.PathLike[str]) -> Store:
        """Opens a store to write, or makes one."""
        directory = Path(path).absolute()
        try:
            directory.mkdir(parents=True, exist_ok=True)
            if not (directory / "store.json").exists():
                if any(not name.startswith(".") for name in os.listdir(directory)):
                    raise InputError(f"{directory} holds other files and is no store of a sweep; name another")
                told = {"layout": LAYOUT, "ftlab": _native.VERSION, "id": uuid.uuid4().hex}
                replace(directory / "store.json", json.dumps(told).encode())
            store = cls.open(directory)
            (directory / "failed").mkdir(exist_ok=True)
            for left in directory.glob(".*.tmp"):
                # A worker that was killed left it.
                if time.time() - left.stat().st_mtime > _HOUR:
                    left.unlink(missing_ok=True)
        except OSError as error:
            raise InputError(f"cannot write to {directory}: {error.strerror}") from error
        return store

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Store:
        """Opens a store that is there. A store of another version is refused: its figures are not comparable."""
        directory = Path(path).absolute()
        try:
            told = json.loads((directory / "store.json").read_text(encoding="utf-8"))
            layout, version, identity = told["layout"], told["ftlab"], told["id"]
        except FileNotFoundError:
            raise InputError(f"{directory} is no store of a sweep: there is no {directory}/store.json") from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"{directory}/store.json cannot be read: {error}") from error
        if (layout, version) != (LAYOUT, _native.VERSION):
            raise InputError(
                f"{directory} was written by ftlab {version} (layout {layout}), this is ftlab {_native.VERSION} "
                f"(layout {LAYOUT}); name another store for this version, or read that one with ftlab {version}"
            )
        return cls(directory, identity)

    def is_here(self) -> bool:
        """Whether this process sees the very same directory."""
        try:
            return Store.open(self.path).identity == self.identity
        except InputError:
            return False

    def file(self, key: str) -> Path:
        """Where a run is."""
        return self.path / f"{key}.parquet"

    def has(self, key: str) -> bool:
        """Whether a run is stored."""
        return self.file(key).exists()

    def keys(self) -> list[str]:
        """Keys of the stored runs."""
        return sorted(path.stem for path in self.path.glob("[!.]*.parquet"))

    def put(self, key: str, plan: dict[str, Any], report: Report) -> None:
        """Stores a run's report; the file is there whole or not at all."""
        import pyarrow
        import pyarrow.parquet

        rows = report.results
        table: dict[str, Any] = {"run": [key] * len(rows)}
        table |= {name: [value] * len(rows) for name, value in columns(plan).items()}
        # What no row of a run has is left out: other runs say its type.
        table |= {name: rows[name] for name in rows.columns if any(value is not None for value in rows[name])}
        # Metadata must be text.
        whole = base64.b85encode(zlib.compress(report.to_json().encode()))
        made = pyarrow.table(table).replace_schema_metadata()
        sink = pyarrow.BufferOutputStream()
        # Columns of one row have nothing to gain from statistics, dictionaries and compression.
        plain = {"compression": "none", "write_statistics": False, "use_dictionary": False, "store_schema": False}
        with pyarrow.parquet.ParquetWriter(sink, made.schema, **plain) as writer:
            writer.write_table(made)
            writer.add_key_value_metadata({"ftlab.plan": json.dumps(plan), "ftlab.report": whole})
        replace(self.file(key), sink.getvalue())
        self.failure_file(key).unlink(missing_ok=True)

    def report(self, key: str) -> Report:
        """A run's whole report."""
        import pyarrow.parquet

        if not self.has(key):
            raise InputError(f"{self.path} has no run {key}")
        whole = pyarrow.parquet.read_metadata(self.file(key)).metadata[b"ftlab.report"]
        return Report.from_json(zlib.decompress(base64.b85decode(whole)).decode(), str(self.file(key)))

    def failure_file(self, key: str) -> Path:
        """Where a failure is noted."""
        return self.path / "failed" / f"{key}.json"

    def put_failure(self, key: str, plan: dict[str, Any], message: str, trace: str, attempts: int) -> None:
        """Notes that a run failed."""
        told = {"run": key, "message": message, "attempts": attempts, "plan": plan, "traceback": trace}
        replace(self.failure_file(key), json.dumps(told, indent=1).encode())

    def failures(self) -> dict[str, dict[str, Any]]:
        """Failures that are noted, by key."""
        noted = (self.path / "failed").glob("*.json")
        return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in noted if path.name[0] != "."}

    def trace_file(self, digest: str) -> Path:
        """Where a trace from memory is."""
        return self.path / "traces" / f"{digest}.arrow"

    def put_trace(self, digest: str, data: bytes) -> None:
        """Stores a trace from memory, once."""
        if not self.trace_file(digest).exists():
            (self.path / "traces").mkdir(exist_ok=True)
            replace(self.trace_file(digest), data)


def replace(path: Path, data: Any) -> None:
    """Writes a file: whoever looks sees it whole, or as it was before."""
    temporary = path.with_name(f".{path.name}.{socket.gethostname()}.{os.getpid()}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise

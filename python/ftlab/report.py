"""What a comparison found."""

from __future__ import annotations

import functools
import json
import os
from pathlib import Path
from typing import Any

from ftlab import _native
from ftlab.errors import InputError
from ftlab.table import Table


class Report:
    """What a comparison found: shown as the command line shows it, and as tables.

    >>> import ftlab
    >>> report = ftlab.compare("zipf:requests=2k", schemes=["page"], device="agrawal08:capacity=64MiB,spare=20%")
    >>> report.results["flash.programs"][0] > 0
    True
    >>> ftlab.Report.from_json(report.to_json()).results == report.results
    True
    """

    def __init__(self, native: _native.Report) -> None:
        self._native = native

    @functools.cached_property
    def data(self) -> dict[str, Any]:
        """Everything, as the JSON of the command line has it."""
        return json.loads(self.to_json())

    @functools.cached_property
    def results(self) -> Table:
        """One row per result; columns are those of ``ftlab compare --csv``, such as ``response_us.mean``."""
        return Table(dict(json.loads(self._native.flat())))

    @property
    def labels(self) -> list[str]:
        """What each result is called: its scheme, and whatever tells it from the others of that scheme."""
        return self._native.labels()

    @functools.cached_property
    def by_cause(self) -> Table:
        """What flash commands were for: a row per result and cause, with counts and microseconds."""
        return Table.from_rows(
            [
                {"run": label, "scheme": result["scheme"], "cause": cause, **totals}
                for label, result in self._labelled()
                for cause, totals in result.get("by_cause", {}).items()
            ]
        )

    @functools.cached_property
    def response_by_cause(self) -> Table:
        """Where responses went, in microseconds a request: over all requests (``of`` is ``mean``) and over the longest
        (``tail``); on a request's own commands (``part`` is ``own``) and on what it waited for (``waited_for``)."""
        return Table.from_rows(
            [
                {"run": label, "scheme": result["scheme"], "of": of, "part": part, "cause": cause, "us": us}
                for label, result in self._labelled()
                for of, parts in result.get("response_by_cause", {}).items()
                for part in ("own", "waited_for")
                for cause, us in parts.get(part, {}).items()
            ]
        )

    @functools.cached_property
    def series(self) -> Table:
        """Intervals of simulated time, if ``series`` was asked for."""
        return Table.from_rows(
            [
                {
                    "run": label,
                    "scheme": result["scheme"],
                    **{key: value for key, value in interval.items() if not isinstance(value, list)},
                }
                for label, result in self._labelled()
                for interval in result.get("series", [])
            ]
        )

    def _labelled(self) -> list[tuple[str, dict[str, Any]]]:
        return list(zip(self.labels, self.data["results"], strict=True))

    @property
    def assumptions(self) -> list[str]:
        """What was decided on the user's behalf, a sentence each."""
        return self.data.get("assumptions", [])

    def text(self, verbose: bool = False) -> str:
        """The table and its sentences; ``verbose`` adds what every command was for."""
        return self._native.text(verbose)

    def to_html(self) -> str:
        """A page with tables and plots, as ``ftlab compare --html`` writes it."""
        return self._native.page()

    def to_json(self) -> str:
        """The JSON of the command line."""
        return self._native.json()

    @classmethod
    def from_json(cls, text: str, name: str = "the report") -> Report:
        """A report from the JSON of the command line; ``name`` stands for it in errors."""
        return cls(_native.load(text, name))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the JSON. The file is complete, or is as it was before."""
        target = Path(path)
        temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
        try:
            with open(temporary, "w", encoding="utf-8", newline="\n") as file:
                file.write(self.to_json())
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, target)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise InputError(f"cannot write {target}: {error.strerror}") from error

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Report:
        """Reads what ``save`` or ``ftlab compare --json`` wrote."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"cannot read {os.fspath(path)}: {getattr(error, 'strerror', error)}") from error
        return cls.from_json(text, os.fspath(path))

    def to_polars(self) -> Any:
        """The results as a Polars data frame."""
        return self.results.to_polars()

    def to_pandas(self) -> Any:
        """The results as a pandas data frame."""
        return self.results.to_pandas()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.results.__arrow_c_stream__(requested_schema)

    def __reduce__(self) -> tuple[Any, ...]:
        return (Report.from_json, (self.to_json(),))

    def __repr__(self) -> str:
        return self.text().rstrip("\n")

    def _repr_html_(self) -> str:
        return self._native.brief()

"""Tables of any origin: columns of equal length that every data frame library reads."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ftlab import _native

_SHOWN = 40


class Table:
    """Named columns of equal length. It speaks the Arrow stream interface, so that Polars, pandas, DuckDB and pyarrow
    take it as it is; ``None`` stands for an absent value.

    >>> from ftlab import Table
    >>> table = Table({"scheme": ["page", "dftl"], "waf": [1.5, 2.25]})
    >>> table["waf"], len(table), table.columns
    ([1.5, 2.25], 2, ['scheme', 'waf'])
    >>> table
    scheme   waf
    page     1.5
    dftl    2.25
    """

    def __init__(self, columns: Mapping[str, Sequence[Any]]) -> None:
        lengths = {len(values) for values in columns.values()}
        if len(lengths) > 1:
            raise ValueError(f"columns of unequal lengths: {sorted(lengths)}")
        self._columns = {name: list(values) for name, values in columns.items()}

    @classmethod
    def from_rows(cls, rows: Sequence[Mapping[str, Any]]) -> Table:
        """A table from dictionaries; what a row lacks is None. Columns stand in the order of their first appearance.

        >>> from ftlab import Table
        >>> Table.from_rows([{"a": 1}, {"a": 2, "b": 3}])["b"]
        [None, 3]
        """
        names = list(dict.fromkeys(name for row in rows for name in row))
        return cls({name: [row.get(name) for row in rows] for name in names})

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return list(self._columns)

    def __len__(self) -> int:
        return len(next(iter(self._columns.values()), []))

    def __getitem__(self, name: str) -> list[Any]:
        return self._columns[name]

    def __contains__(self, name: object) -> bool:
        return name in self._columns

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for row in zip(*self._columns.values(), strict=True):
            yield dict(zip(self._columns, row, strict=True))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Table) and self._columns == other._columns

    __hash__ = None  # type: ignore[assignment]

    def to_dicts(self) -> list[dict[str, Any]]:
        """The rows as dictionaries."""
        return list(self)

    def to_polars(self) -> Any:
        """A Polars data frame (extra ``polars``)."""
        import polars

        return polars.DataFrame(self)

    def to_pandas(self) -> Any:
        """A pandas data frame (extra ``pandas``)."""
        import pyarrow

        return pyarrow.table(self).to_pandas()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        table = _native.arrow(json.dumps(list(self._columns.items())))
        return table.__arrow_c_stream__(requested_schema)

    def _cells(self) -> list[list[str]]:
        def shown(value: Any) -> str:
            if value is None:
                return "-"
            return f"{value:.6g}" if isinstance(value, float) else str(value)

        return [[shown(value) for value in values[:_SHOWN]] for values in self._columns.values()]

    def __repr__(self) -> str:
        parts = []
        for (name, values), cells in zip(self._columns.items(), self._cells(), strict=True):
            width = max([len(name), *(len(cell) for cell in cells)])
            left = any(isinstance(value, str) for value in values)
            parts.append([text.ljust(width) if left else text.rjust(width) for text in [name, *cells]])
        lines = ["  ".join(line).rstrip() for line in zip(*parts, strict=True)]
        if len(self) > _SHOWN:
            lines.append(f"... {len(self)} rows")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self._columns)
        rows = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
            for row in zip(*self._cells(), strict=True)
        )
        more = f"<p>{len(self)} rows</p>" if len(self) > _SHOWN else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{more}"

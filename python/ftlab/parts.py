"""Bit errors over a part's life, and the codes that bear them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ftlab import _keys, _native
from ftlab.table import Table


class Reliability:
    """What is to be said about a part: ``data`` as the JSON of ``ftlab reliability`` has it.

    >>> import ftlab
    >>> ftlab.Reliability("nothing", {}).text
    'nothing'
    """

    def __init__(self, text: str, data: dict[str, Any]) -> None:
        self.text = text
        self.data = data

    @property
    def results(self) -> Table:
        """A row per program mode, age and code."""
        rows = []
        for page in self.data["results"]:
            plain = {key: value for key, value in page.items() if key != "codes"}
            rows += [plain | {key: _flat(value) for key, value in code.items()} for code in page.get("codes", [{}])]
        return Table.from_rows(rows)

    def __repr__(self) -> str:
        return self.text.rstrip("\n")


def _flat(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, (dict, list)) else value


def reliability(
    device: str | None = None,
    *,
    code: Sequence[str] | str | None = None,
    pe_cycles: Sequence[int | str] | int | str | None = None,
    retention: Sequence[str] | str | None = None,
    reads: int | str | None = None,
    mode: str | None = None,
    profile: str | None = None,
) -> Reliability:
    """Bit errors of a device with cells of two bits, and what codes make of them: ``ftlab reliability``.

    >>> import ftlab
    >>> found = ftlab.reliability(pe_cycles=[0, 3000], retention="0")
    >>> len(found.data["results"]) >= 2
    True
    """
    flags = {"device": device, "pe_cycles": pe_cycles, "retention": retention, "reads": reads}
    codes = [code] if isinstance(code, str) else (code or [])
    words = [
        "reliability",
        *_keys.words(flags | {"mode": mode, "profile": profile}),
        *(f"--code={one}" for one in codes),
    ]
    text, told = _native.reliability(words)
    return Reliability(text, json.loads(told))

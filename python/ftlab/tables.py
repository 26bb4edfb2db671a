"""What there is: schemes, devices, generators."""

from __future__ import annotations

import json

from ftlab import _native
from ftlab.table import Table


def schemes() -> Table:
    """The schemes: name, what it is, its paper, whether it has a mapping cache, and its parameters.

    >>> import ftlab
    >>> "dftl" in ftlab.schemes()["scheme"]
    True
    """
    return Table.from_rows(json.loads(_native.schemes()))


def devices() -> Table:
    """The devices, with page sizes in bytes and times in microseconds.

    >>> import ftlab
    >>> "agrawal08" in ftlab.devices()["device"]
    True
    """
    return Table.from_rows(json.loads(_native.devices()))


def generators() -> Table:
    """The generators of workloads and the twins of published traces.

    >>> import ftlab
    >>> "zipf" in ftlab.generators()["workload"]
    True
    """
    return Table.from_rows(json.loads(_native.generators()))


def recordings() -> Table:
    """The recordings of real programs that are on board: ``ftlab.compare("recording:NAME")`` runs one.

    >>> import ftlab
    >>> len(ftlab.recordings()) > 10
    True
    """
    rows = json.loads(_native.recordings())
    return Table.from_rows([{key: value for key, value in row.items() if not isinstance(value, dict)} for row in rows])

"""Published figures beside measured ones."""

from __future__ import annotations

import json
import os
from typing import Any

from ftlab import _keys, _native
from ftlab.errors import Interrupted
from ftlab.progress import Progress, Tell


class Reproduction:
    """What a reproduction found: ``data`` as the JSON of ``ftlab reproduce`` has it.

    >>> import ftlab
    >>> ftlab.Reproduction("nothing", {}).data
    {}
    """

    def __init__(self, text: str, data: dict[str, Any]) -> None:
        self.text = text
        self.data = data

    def __repr__(self) -> str:
        return self.text.rstrip("\n")


def reproduce(
    paper: str | None = None,
    *,
    traces: str | os.PathLike[str] | None = None,
    experiments: str | os.PathLike[str] | None = None,
    quick: bool = False,
    requests: int | str | None = None,
    threads: int | None = None,
    list: bool = False,
    progress: bool | Tell | None = None,
) -> Reproduction:
    """Measures what a paper published, or one of its tables and figures: ``ftlab reproduce``. ``list`` only names them.

    >>> import ftlab
    >>> "dftl" in ftlab.reproduce(list=True).text
    True
    """
    flags = {"traces": traces, "experiments": experiments, "quick": quick, "requests": requests, "threads": threads}
    words = ["reproduce", *([paper] if paper else []), *_keys.words(flags | {"list": list})]
    with Progress(progress) as bar:
        text, told, interrupted = _native.reproduce(words, bar.tell)
    found = Reproduction(text, json.loads(told) if told else {})
    if isinstance(interrupted, KeyboardInterrupt):
        raise Interrupted(found) from interrupted
    if interrupted is not None:
        raise interrupted
    return found

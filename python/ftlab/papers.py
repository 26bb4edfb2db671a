"""Published figures beside measured ones."""

from __future__ import annotations

import json
import os
from typing import Any

from ftlab import _keys, _native
from ftlab.errors import Interrupted
from ftlab.progress import Progress, Tell


class Reproduction:
    """What a reproduction found: ``data`` as the JSON of ``ftlab reproduce`` has it, ``page`` as its ``--html``, if that
    was asked for.

    >>> import ftlab
    >>> ftlab.Reproduction("nothing", {}).data
    {}
    """

    def __init__(self, text: str, data: dict[str, Any], page: str | None = None) -> None:
        self.text = text
        self.data = data
        self.page = page

    def __repr__(self) -> str:
        return self.text.rstrip("\n")


def reproduce(
    paper: str | None = None,
    *,
    traces: str | os.PathLike[str] | None = None,
    experiments: str | os.PathLike[str] | None = None,
    quick: bool = False,
    unvaried: bool = False,
    requests: int | str | None = None,
    threads: int | None = None,
    list: bool = False,
    summary: bool = False,
    html: bool | str | os.PathLike[str] = False,
    progress: bool | Tell | None = None,
) -> Reproduction:
    """Measures what a paper published, or one of its tables and figures: ``ftlab reproduce``. ``list`` only names them.
    ``unvaried`` runs figures at their full length, and no sensitivities. ``summary`` tells what has become of the papers'
    headline claims instead, as a Markdown table. ``html`` makes the page with published points over measured lines:
    ``True`` for ``Reproduction.page`` alone, a path for a file too. ``progress`` is as for ``compare``, but counts runs.

    >>> import ftlab
    >>> "dftl" in ftlab.reproduce(list=True).text
    True
    """
    flags = {"traces": traces, "experiments": experiments, "quick": quick, "unvaried": unvaried, "requests": requests}
    flags |= {"threads": threads, "list": list, "summary": summary, "html": None if isinstance(html, bool) else html}
    words = ["reproduce", *([paper] if paper else []), *_keys.words(flags)]
    with Progress(progress) as bar:
        text, told, page, interrupted = _native.reproduce(words, html is not False, bar.tell)
    found = Reproduction(text, json.loads(told) if told else {}, page)
    if isinstance(interrupted, KeyboardInterrupt):
        raise Interrupted(found) from interrupted
    if interrupted is not None:
        raise interrupted
    return found

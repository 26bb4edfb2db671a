"""Schemes under power cuts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ftlab import _keys, _native
from ftlab.errors import Interrupted
from ftlab.scheme import foreign
from ftlab.table import Table


class Check:
    """What a check found. It is true if the scheme held.

    >>> import ftlab
    >>> found = ftlab.check("page", seeds=4, cuts=200)
    >>> found.scheme, len(found.failures)
    ('page', 0)
    """

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data

    @property
    def scheme(self) -> str:
        """The scheme's name."""
        return self.data["scheme"]

    @property
    def passed(self) -> bool:
        """Whether nothing went wrong."""
        return self.data["passed"]

    def __bool__(self) -> bool:
        return self.passed

    @property
    def cuts(self) -> int:
        """Power cuts that were made, those during a recovery included."""
        return self.data["cuts"] + self.data["second_level_cuts"]

    @property
    def failures(self) -> Table:
        """What went wrong, and the case that ``ftlab.replay`` shows again."""
        return Table({name: [failure[name] for failure in self.data["failures"]] for name in ("replay", "what")})

    @property
    def unpromised(self) -> Table:
        """What went wrong under classes of faults that the scheme does not promise to survive (``faults="all"``)."""
        return Table({name: [case[name] for case in self.data["unpromised"]] for name in ("replay", "what")})

    @property
    def phases(self) -> Table:
        """Cuts by what the command that was cut was for."""
        return Table({name: [phase[name] for phase in self.data["phases"]] for name in ("phase", "cuts")})

    def __repr__(self) -> str:
        return self.data["text"].rstrip("\n")


def check(
    scheme: Any,
    *,
    seeds: int | None = None,
    cuts: int | str | None = None,
    operations: int | None = None,
    faults: str | None = None,
    buffer: str | None = None,
    set: Mapping[str, Any] | None = None,
    threads: int | None = None,
) -> Check:
    """Cuts the power at the commands of a scheme, mounts, and compares what is read: the power cuts of
    ``ftlab check --scheme``. Images and the server are attacked by the command alone.

    ``faults`` names classes of faults, with commas, or ``"all"``; without it, what the scheme promises to survive. A
    scheme written in Python is cut at commands alone unless classes are named, and its RAM is not saved; 4,000 cuts
    on 32 devices are its default.

    >>> import ftlab
    >>> bool(ftlab.check("dftl", seeds=4, cuts=300))
    True
    """
    own = foreign(scheme)
    if own is not None:
        # Python is slower: these are as many as there is patience for.
        scheme, cuts, seeds = own.name, 4000 if cuts is None else cuts, 32 if seeds is None else seeds
    flags = {"scheme": scheme, "seeds": seeds, "cuts": cuts, "operations": operations, "faults": faults}
    flags |= {"buffer": buffer, "set": set, "threads": threads}
    told, interrupted = _native.check(["check", *_keys.words(flags)], own)
    found = Check(json.loads(told))
    if isinstance(interrupted, KeyboardInterrupt):
        raise Interrupted(found) from interrupted
    if interrupted is not None:
        raise interrupted
    return found


def replay(
    scheme: Any,
    case: str,
    *,
    operations: int | None = None,
    buffer: str | None = None,
    set: Mapping[str, Any] | None = None,
) -> list[str]:
    """Shows one case of a check again, a line for each thing that happens; ``case`` is what ``Check.failures`` says.

    >>> import ftlab
    >>> ftlab.replay("page", "0:3")[-1]
    'nothing went wrong'
    """
    own = foreign(scheme)
    scheme = own.name if own else scheme
    flags = {"scheme": scheme, "replay": case, "operations": operations, "buffer": buffer, "set": set}
    return _native.replay(["check", *_keys.words(flags)], own)
